# %% [markdown]
# # Feed three kinds of model
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** write one network in the three forms of Keras, prove that all three learn the same, and feed models that have several inputs, several outputs and weighted photos.
#
# **You will learn** what `model.fit` takes the parts of an element for, which mistakes it reports, which it does not, and who says how long an epoch is.
#
# **You need** notebooks 02 and 11. No GPU. About 40 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import warnings

import keras
import tensorflow as tf
from keras import layers
from labcourse import check, idea, predictions, training, try_it
from labextras.fit import Watch
from labkit import photos, pixels

# %% [markdown]
# ## The idea
#
# A pipeline delivers a tuple. `model.fit` knows nothing about your names: it reads the tuple by position.

# %%
idea("11f")

# %% [markdown]
# ## The data
#
# The photos of notebook 11, 48×48 pixels each. `training.batches` is an endless pipeline of normalised batches of 32 photos with their labels. Nothing below needs photos that are changed at random, so `augment=None` leaves them as they are.

# %% tags=["nbval-ignore-output"]
learn = pixels.of(photos.load().train)
print("to learn from:", learn)

# %%
pairs = training.batches(learn, augment=None)
for spec in pairs.element_spec:
    print(spec)

# %% [markdown]
# ## Build: one network, three forms
#
# A recorded lecture (Satyajit Das, *Accelerated TensorFlow*, part 1) names three ways to write a model: sequential, functional and subclassing. It recommends the first "for the beginners", and the second one where "you will have multiple inputs and multiple outputs". Here are all three, with the same layers. **Sequential** is a list:

# %%
def parts():
    first = layers.Conv2D(8, 3, 2, padding="same"), layers.BatchNormalization(momentum=0.9), layers.ReLU()
    return [*first, layers.Conv2D(16, 3, 2, padding="same"), layers.GlobalAveragePooling2D(), layers.Dense(10)]


def sequential():
    return keras.Sequential(parts(), name="sequential")

# %% [markdown]
# **Functional**: each layer is called with the output of another layer, and the model is made of its first and last values. So it can branch.

# %%
def functional():
    image = values = keras.Input((48, 48, 3))
    for part in parts():
        values = part(values)
    return keras.Model(image, values, name="functional")

# %% [markdown]
# **Subclassing**: `call` is ordinary Python. Batch normalisation works differently in training, so `call` takes the word `training`, and here it passes it on:

# %%
class Subclass(keras.Model):
    def __init__(self):
        super().__init__(name="subclass")
        self.parts = parts()

    def call(self, images, training=False):
        for part in self.parts:
            normalises = isinstance(part, layers.BatchNormalization)
            images = part(images, training=training) if normalises else part(images)
        return images

# %% [markdown]
# ## Predict
#
# The lecture recommends forms by how flexible they are. Does the form change the speed, too? How many times as long as a train step of the *sequential* model is a step of the *subclass*? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("11f.form", ..., unit="times")

# %% [markdown]
# ## Run
#
# Each form is trained twice with the same seed, and the three take turns, so that a slow minute of the machine hits all. `Watch` records 15 steps of each training. A line shows the mean step time of each round:

# %% tags=["nbval-ignore-output"]
forms = {"sequential": sequential, "functional": functional, "subclass": Subclass}
losses, watched = {name: set() for name in forms}, {name: [] for name in forms}
for _ in range(2):
    for name, make in forms.items():
        watch = Watch(steps=15, warmup=5, name=name)
        trained = training.train(learn, model=make, steps=35, callbacks=[watch])
        losses[name].add(trained.losses)
        watched[name].append(labkit.Timeline(watch.trace))
steps = {name: [line.step_ms for line in lines] for name, lines in watched.items()}
for name, found in steps.items():
    print(f"{name:<11}", " ".join(f"{ms:6.1f} ms" for ms in found))

# %% [markdown]
# And what did they learn? The seed fixes the first weights, the order of the photos and their random changes (without a dataset, `training.train` mirrors and shifts). The losses are compared to the last digit:

# %%
for name, found in losses.items():
    print(f"{name:<11} same loss in both rounds: {len(found) == 1}, same as sequential: {found == losses['sequential']}")

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
last = [watched[name][-1].trace for name in ("sequential", "subclass")]
labkit.show(*last, labels=("sequential", "subclass"), steps=3)

# %% tags=["nbval-ignore-output"]
ratios = [own / base for own, base in zip(steps["subclass"], steps["sequential"])]
predictions.review("11f.form", measured=ratios)

# %% [markdown]
# ## Explain
#
# All three forms are turned into a graph at the first step, and the three graphs hold the same operations. Nobody can tell afterwards how the model was written. So choose a form by what you want to write, and not by its speed. A ratio far from 1 comes from other programs on your machine: compare the two rounds of one form.
#
# The forms differ in what they can be *fed*.
#
# ## What an element may be
#
# `keras.utils.unpack_x_y_sample_weight` shows how `fit` reads an element. It goes by position: inputs, targets, weights of the photos.
#
# Suppose that you add a number to each photo, its mean grey level, and that you put it behind the photo:

# %%
def with_light(image, label):
    return image, tf.reduce_mean(image, [1, 2, 3])[:, None]  # the mean of each photo, shape (32, 1)


flat = pairs.map(lambda image, label: (*with_light(image, label), label))
for what, part in zip(("inputs", "targets", "weights"), keras.utils.unpack_x_y_sample_weight(next(iter(flat)))):
    print(f"{what:<8} {part.dtype.name:<8} {part.shape}")

# %% [markdown]
# So the grey level is taken for the target, and the label for a weight: a photo of class 9 counts nine times, and a photo of class 0 does not count. Does `fit` complain?

# %%
def attempt(model, loss, dataset):
    model.compile("sgd", loss, run_eagerly=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sorted(model.fit(dataset, steps_per_epoch=2, verbose=0).history)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0].split(', found')[0]}"

# %%
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
print("pairs:   ", attempt(sequential(), cross_entropy, pairs))
print("triples: ", attempt(sequential(), "mse", flat))
print("four:    ", attempt(sequential(), "mse", flat.map(lambda *three: (*three, three[2]))))

# %% [markdown]
# Three parts are read without a complaint, in the wrong roles. Only with a fourth part does Keras say what it expects.
#
# ## Several inputs, several outputs
#
# Names prevent this error. A functional model has names for its inputs, and for its outputs. This one takes the photo and its grey level, and it answers two questions: which class, and is the photo dark?

# %%
def two_ends():
    image, light = keras.Input((48, 48, 3), name="image"), keras.Input((1,), name="light")
    values = layers.GlobalAveragePooling2D()(layers.Conv2D(16, 3, 2, activation="relu")(image))
    values = layers.Concatenate()([values, light])
    answers = {"class": layers.Dense(10, name="class")(values), "dark": layers.Dense(1, name="dark")(values)}
    return keras.Model({"image": image, "light": light}, answers, name="two_ends")


two_losses = {"class": cross_entropy, "dark": keras.losses.BinaryCrossentropy(from_logits=True)}

# %% [markdown]
# The element is still a pair, of a dict of inputs and a dict of targets:

# %%
def named(image, label):
    image, light = with_light(image, label)
    return {"image": image, "light": light}, {"class": label, "dark": tf.cast(light < 0, tf.float32)}


inputs, targets = pairs.map(named).element_spec
print({name: spec.shape.as_list() for name, spec in inputs.items()})
print({name: spec.shape.as_list() for name, spec in targets.items()})
print("losses:", attempt(two_ends(), two_losses, pairs.map(named)))

# %% [markdown]
# Now a mistake has a name, too:

# %%
def misspelt(image, label):
    inputs, targets = named(image, label)
    return {"image": inputs["image"], "lihgt": inputs["light"]}, targets


def without_a_pair(image, label):
    inputs, targets = named(image, label)
    return inputs | targets


for wrong in (misspelt, without_a_pair):
    print(wrong.__name__, attempt(two_ends(), two_losses, pairs.map(wrong)), sep="\n  ")

# %% [markdown]
# The first message names the key. The second one does not name the reason: a dict alone, as many TFDS pipelines deliver it, is read as inputs without any target. Map it to a pair first.
#
# A sequential model has one input and one output, so it takes no such dict. A subclass takes what its own `call` takes.
#
# ## Weights of photos
#
# The third part of an element weights each photo in the loss. A weight of 0 leaves a photo out, for example one that only fills up a batch. Here the second half of a batch has no weight. Is the loss that of the first half alone? It depends on what the sum is divided by:

# %%
images, labels = next(iter(pairs))
weights = tf.cast(tf.range(32) < 16, tf.float32)
logits = sequential()(images)
half = cross_entropy(labels[:16], logits[:16])
mean = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
for name, loss in {"by the photos (the default)": cross_entropy, "by the weights": mean}.items():
    ratio = loss(labels, logits, sample_weight=weights) / half
    print(f"divided {name:<28} {ratio:.3f} times the loss of the first half")

# %% [markdown]
# By default, a photo without weight still counts in the number of photos. With half of the weights at 0, the gradients are half as large, as with half the learning rate. No error tells you.
#
# ## How long is an epoch?
#
# An endless pipeline has no end, so `fit` must be told after how many steps an epoch is over: `steps_per_epoch`. A finite pipeline knows its length, unless an operation hides it:

# %%
finite = pairs.take(4)
kinds = {"take(4)": finite, "repeat()": finite.repeat(), "filter(…)": finite.filter(lambda image, label: True)}
words = {tf.data.INFINITE_CARDINALITY: "endless", tf.data.UNKNOWN_CARDINALITY: "unknown"}
for name, dataset in kinds.items():
    count = int(dataset.cardinality())
    print(f"{name:<10} batches: {words.get(count, count)}")

# %% [markdown]
# What if both are there, a finite pipeline of four batches, and an epoch of three steps? The callback counts the steps of each epoch:

# %%
def steps_of_epochs(dataset, epochs=4):
    model, steps = sequential(), []
    model.compile("sgd", cross_entropy, run_eagerly=True)
    epoch = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: steps.append(0))
    batch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(steps.pop() + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(dataset, epochs=epochs, steps_per_epoch=3, verbose=0, callbacks=[epoch, batch])
    return steps

# %%
print("four batches:          ", steps_of_epochs(finite))
print("four batches, repeat():", steps_of_epochs(finite.repeat()))

# %% [markdown]
# The first epoch takes three batches, and the second epoch goes on where the first one stopped: it gets the one batch that is left. Then the pipeline begins anew. Keras warns (the cell hides the warning), but the training goes on with epochs of different lengths. With `repeat()`, each epoch has three steps, and every batch is used equally often.
#
# ## Exercises
#
# **11.12** A model has two inputs, named `image` and `light`, and one output. Write `element(image, light, label, weight)`: return the element that `fit` reads rightly, with a weight for each photo. One line.

# %% tags=["stub"]
def element(image, light, label, weight):
    ...  # your code

# %% tags=["solution"]
def element(image, light, label, weight):
    return {"image": image, "light": light}, label, weight

# %%
try_it("11.12", element)
check("11.12", element)

# %% [markdown]
# **11.13** Some classes have more photos than others. Write `balanced(labels, classes)`: return a weight for each photo, so that the weights of each class have the same sum, and the mean of all weights is 1. `labels` is an array of whole numbers below `classes`, and each class occurs. One or two lines.

# %% tags=["stub"]
def balanced(labels, classes):
    ...  # your code

# %% tags=["solution"]
def balanced(labels, classes):
    counts = tf.math.bincount(labels).numpy()
    return len(labels) / (classes * counts[labels])

# %%
try_it("11.13", balanced)
check("11.13", balanced)

# %% [markdown]
# ## Recap
#
# You wrote one network in three forms, and their losses were equal to the last digit. You saw a pipeline whose parts were read in the wrong roles without an error, and you gave them names. You weighted photos, and you saw what an epoch of three steps does with four batches.
#
# ## In practice
#
# - Print `dataset.element_spec` before `fit`, and say aloud which part is input, target and weight.
# - Use names as soon as there is more than one input or output.
# - Training: `repeat()` and `steps_per_epoch`. Validation: a finite pipeline and no number of steps, so that each photo counts once.
# - Fill up a batch with weights of 0 only if the loss is divided by the weights.
#
# **Next:** [12 Extract from anywhere](12_extract_from_anywhere.ipynb): the same photos from other places than a folder.
