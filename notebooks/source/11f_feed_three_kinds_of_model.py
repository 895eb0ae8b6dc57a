# %% [markdown]
# # Feed three kinds of model
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** write one network in the three forms that Keras offers, train all three on the same batches, and give each form the elements that it wants.
#
# **You will learn** that the form changes nothing in what is computed, and which shape of element a pipeline has to deliver for `model.fit`.
#
# **You need** notebook 11. You need no GPU. About 25 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import keras
import numpy as np
import tensorflow as tf
from keras import layers
from labkit import photos, pixels, training

# %% [markdown]
# ## The idea

# %%
labkit.idea("11f")

# %% tags=["nbval-ignore-output"]
learn = pixels.of(photos.load().train)
print("to learn from:", learn)

# %% [markdown]
# ## Build: three forms
#
# **Sequential**: a list of layers. Each layer has one input and one output.

# %%
def parts():
    return [
        layers.Conv2D(8, 3, strides=2, padding="same", name="first"),
        layers.ReLU(),
        layers.Conv2D(16, 3, strides=2, padding="same", name="second"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10, name="last"),
    ]


def sequential():
    return keras.Sequential([keras.Input([48, 48, 3]), *parts()])

# %% [markdown]
# **Functional**: layers are called like functions, from an input to an output. So there can be several inputs and outputs, and shortcuts.

# %%
def functional():
    image = values = keras.Input([48, 48, 3], name="image")
    for part in parts():
        values = part(values)
    return keras.Model(image, values)

# %% [markdown]
# **Subclass**: a class of your own, whose `call` is ordinary Python code. It can hold loops and conditions. Its layers get their weights when the model sees its first batch.

# %%
class Subclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = parts()

    def call(self, values):
        for part in self.parts:
            values = part(values)
        return values

# %% [markdown]
# ## Run: the same weights, the same batches
#
# The three models begin with the same weights. 20 steps each, on the same batches:

# %%
def compiled(model, weights=None):
    model(np.zeros([1, 48, 48, 3], np.float32))  # now each form has its weights
    if weights is not None:
        model.set_weights(weights)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, jit_compile=False)
    return model


keras.utils.set_random_seed(1)
start = sequential().get_weights()
models = {make.__name__: compiled(make(), start) for make in (sequential, functional, Subclass)}
print(*(f"{name}: {model.count_params():,} weights" for name, model in models.items()), sep=" · ")

# %%
def batches():
    keras.utils.set_random_seed(1)  # the same order of the photos for each form
    return training.batches(learn)


losses = {name: model.fit(batches(), steps_per_epoch=20, verbose=0).history["loss"][0] for name, model in models.items()}
print("equal to the last digit:", len(set(losses.values())) == 1)

# %% tags=["nbval-ignore-output"]
for name, loss in losses.items():
    print(f"{name:<12} loss of 20 steps: {loss:.12f}")

# %% [markdown]
# The form is a way to write a network. What is computed is the same, down to the last bit. XLA may change this (`jit_compile=True`), because it computes sums in another order.
#
# ## What each form wants from a pipeline
#
# `model.fit` takes elements of the form `(x, y)`. Everything else follows from the inputs of the model:
#
# | element of the dataset | for what |
# |---|---|
# | `(images, labels)` | one input, one output: all three forms |
# | `((a, b), labels)` or `({"a": a, "b": b}, labels)` | several inputs: functional and subclass; names are those of the inputs |
# | `(x, {"class": y, "size": z})` | several outputs, each with a loss of its own |
# | `(images, labels, weights)` | a weight for the loss of each photo |
# | `images` | `model.predict`, which needs no label |
#
# A model with two inputs and two outputs, and a map that makes the element:

# %%
def two_of_each():
    image, light = keras.Input([48, 48, 3], name="image"), keras.Input([1], name="brightness")
    values = layers.Concatenate()([layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(image)), light])
    kind, dark = layers.Dense(10, name="kind")(values), layers.Dense(1, name="dark")(values)
    model = keras.Model({"image": image, "brightness": light}, {"kind": kind, "dark": dark})
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", {"kind": sparse, "dark": keras.losses.BinaryCrossentropy(from_logits=True)}, jit_compile=False)
    return model

# %%
def named(images, labels):
    brightness = tf.reduce_mean(images, [1, 2, 3])[:, None]
    return {"image": images, "brightness": brightness}, {"kind": labels, "dark": tf.cast(brightness < 0, tf.float32)}


dataset = batches().map(named)
for part, specs in zip(("inputs", "outputs"), dataset.element_spec):
    print(part, {name: tuple(spec.shape) for name, spec in specs.items()})

# %%
history = two_of_each().fit(dataset, steps_per_epoch=5, verbose=0).history
print("losses:", sorted(history))
print("their sum is the loss:", bool(np.isclose(history["loss"][0], history["kind_loss"][0] + history["dark_loss"][0], rtol=1e-4)))

# %% [markdown]
# ## What goes wrong
#
# An endless dataset needs `steps_per_epoch`: without it, the first epoch never ends. A dataset that ends too early gives a warning, and the training stops there. And a dataset without a batch gives images of three dimensions:

# %%
one_by_one = batches().unbatch()
try:
    models["functional"].fit(one_by_one, steps_per_epoch=1, verbose=0)
except (ValueError, tf.errors.OpError) as error:
    print(type(error).__name__, "· the elements have the shape", tuple(one_by_one.element_spec[0].shape))

# %% [markdown]
# A third part of the element is a *weight* for each photo. Here photos of class 0 count nothing:

# %%
def weighted(images, labels):
    return images, labels, tf.where(labels == 0, 0.0, 1.0)


images, labels, weights = next(iter(batches().map(weighted)))
print("weights:", weights.shape, "· photos that count:", bool(tf.reduce_sum(weights) < 32))
print("fit takes it:", "loss" in models["sequential"].fit(batches().map(weighted), steps_per_epoch=2, verbose=0).history)

# %% [markdown]
# ## Recap
#
# You wrote one network in three forms, saw losses that are equal to the last digit, and fed models with several inputs, several outputs and weights.
#
# ## In practice
#
# - Begin with the sequential form. Take the functional form for shortcuts, several inputs and several outputs, and a class for loops and conditions.
# - Print `dataset.element_spec` before the first `fit`: most errors of a first run are visible there.
# - Name the inputs and outputs, and use dictionaries. Then the order of the parts cannot be mixed up.
#
# **Next:** [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
