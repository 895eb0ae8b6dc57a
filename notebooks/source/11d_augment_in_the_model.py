# %% [markdown]
# # Augment in the model
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** move the same augmentation from the input pipeline into the model, in two ways, and compare pixels, bytes and time.
#
# **You will learn** that an accelerator *can* preprocess, what that saves on the way to the accelerator, and on whose cores the work is done then.
#
# **You need** notebooks 06 and 11. A GPU is not needed; with a GPU the figures are those of your GPU. About 40 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import keras
import tensorflow as tf
from labcourse import check, idea, predictions, training, try_it
from labextras.fit import Watch
from labkit import measures, photos, pixels, simulate
from labkit.simulate import Costs, Knobs

# %% [markdown]
# ## The idea

# %%
idea("11d")

# %% [markdown]
# ## A sentence to test
#
# A recorded lecture (Satyajit Das, *Accelerated TensorFlow*, part 1) asks why the GPU does not do the mapping, and answers: "there is no way GPU can do the pre processing. So, it can do only matrix multiplication or math operation or graphics operation". Two sets of slides say something else. NVIDIA's slides about its library DALI (Lisiecki and Zientkiewicz, *Fast AI Data Pre-processing with NVIDIA DALI*) call it a "GPU-accelerated data augmentation and image loading library" and write `ops.Resize(device = "gpu", …)`. Other slides (Sachin, *Input Data Pipeline Analysis*) say of DALI: "Supports CPU and GPU execution." Who is right?
#
# Mirroring, brightness and contrast *are* math operations. The augmentation of this notebook consists of these three, and then the normalization. Each photo has three random numbers `u`, so that all variants change the photos in the same way:

# %%
def augment(images, u):
    u = u[:, :, None, None, None]
    images = tf.cast(images, tf.float32) / 255
    images = tf.where(u[:, 0] < 0.5, images[:, :, ::-1], images)
    mean = tf.reduce_mean(images, [1, 2, 3], keepdims=True)
    images = (images - mean) * (0.8 + 0.4 * u[:, 1]) + mean + 0.2 * (u[:, 2] - 0.5)
    return training.normalised(tf.clip_by_value(images, 0, 1))

# %% tags=["nbval-ignore-output"]
learn = pixels.of(photos.load().train)
print("to learn from:", learn)

# %% [markdown]
# ## Build: three places for the same work
#
# **In the pipeline.** A map changes each batch, and float32 goes to the model:

# %%
def batches():
    photo = tf.data.Dataset.from_tensor_slices((learn.images, learn.labels)).shuffle(len(learn), seed=0).repeat()
    numbers = tf.data.Dataset.counter().map(lambda i: tf.random.stateless_uniform([3], [0, i]))
    return tf.data.Dataset.zip((photo, numbers)).batch(32, drop_remainder=True)


def in_the_pipeline():
    return batches().map(lambda photo, u: (augment(photo[0], u), photo[1])).prefetch(2)


def bytes_only():  # for the two variants below: uint8 pixels and the numbers go to the model
    return batches().map(lambda photo, u: ((photo[0], u), photo[1])).prefetch(2)

# %% [markdown]
# **As a layer.** A layer of Keras is called with the batch, on the device of the model:

# %%
class Augment(keras.layers.Layer):
    def call(self, inputs):
        return augment(*inputs)


def with_a_layer():
    inputs = keras.Input([48, 48, 3], dtype="uint8"), keras.Input([3])
    return keras.Model(inputs, training.resnet()(Augment()(inputs)), name="with_a_layer")

# %% [markdown]
# **As a compiled stage.** XLA makes one function of all operations, which is called at the beginning of the train step:

# %%
compiled = tf.function(augment, jit_compile=True)

# %%
class WithAStage(keras.Model):
    def __init__(self):
        super().__init__(name="with_a_stage")
        self.network = training.resnet()

    def call(self, inputs, training=False):
        images = inputs if len(inputs.shape) == 4 else inputs[0]
        return self.network(images, training=training)

    def train_step(self, data):
        inputs, labels = data
        return super().train_step((compiled(*inputs), labels))

# %% [markdown]
# Do the three deliver the same pixels? The tolerance is 1/1000 of the deviation of the photos:

# %%
(photo, u), _ = next(iter(bytes_only()))
here = augment(photo, u)
for name, there in {"layer": Augment()((photo, u)), "compiled stage": compiled(photo, u)}.items():
    print(f"{name:<14} within 1/1000: {bool(tf.reduce_max(tf.abs(there - here)) < 1e-3)}")

# %% [markdown]
# ## What goes over the link
#
# The link is the way from the memory of the host to the accelerator. The bytes of a batch follow from its type:

# %%
def batch_bytes(dataset):
    specs = tf.nest.flatten(dataset.element_spec)
    return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)


for name, dataset in {"in the pipeline": in_the_pipeline(), "in the model": bytes_only()}.items():
    print(f"{name:<16} {dataset.element_spec[0] if name == 'in the pipeline' else dataset.element_spec[0][0]}")
    print(f"{'':<16} {batch_bytes(dataset):,} bytes for each batch")

# %% [markdown]
# What is that in time? PCI Express 4.0 with 16 lanes carries 31.5 GB/s at most (its specification). The next cell calculates the shortest time for a batch of 256 photos of 224×224 pixels:

# %%
for name, size in {"float32": 4, "uint8": 1}.items():
    total = 256 * 224 * 224 * 3 * size
    print(f"{name:<8} {total / 1e6:>6.1f} MB, {1000 * total / 31.5e9:.1f} thousandths of a second over the link")

# %% [markdown]
# ## Predict
#
# Three copies of the network train on the same photos: with the augmentation in the pipeline, as a layer, and as a compiled stage. How many times as fast as the job with the pipeline is the job with the compiled stage? Without a GPU, think of the cores: who does the work now? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("11d.stage", ..., unit="times")

# %% [markdown]
# ## Run
#
# The three take turns, so that a slow minute of the machine hits all of them:

# %%
def compiled_model(make):
    keras.utils.set_random_seed(0)  # the same weights, and the same order of the photos
    model = make()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model


makes = {"in the pipeline": training.resnet, "layer": with_a_layer, "compiled stage": WithAStage}
models = {name: compiled_model(make) for name, make in makes.items()}
data = {name: in_the_pipeline() if name == "in the pipeline" else bytes_only() for name in models}

# %% tags=["nbval-ignore-output"]
runs = {name: [] for name in models}
for _ in range(measures.rounds_of(5)):
    for name, model in models.items():
        watch = Watch(steps=10, warmup=2, name=name)
        model.fit(data[name], steps_per_epoch=13, verbose=0, callbacks=[watch])
        runs[name].append(watch.trace)
found = measures.Measures.from_traces(runs)
found

# %% [markdown]
# A processor can be busy with other work than the step that you see. How much processor time does a step take, of all threads together?

# %% tags=["nbval-ignore-output"]
for name, traces in runs.items():
    samples = [(trace.run.processor.cpu_ns[-1] - trace.run.processor.cpu_ns[0], trace.run.steps) for trace in traces]
    cpu_ms = sorted(ns / 1e6 / steps for ns, steps in samples)
    print(f"{name:<16} {cpu_ms[0]:.0f} to {cpu_ms[-1]:.0f} ms of processor time for each step")

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
ends = "in the pipeline", "compiled stage"
labkit.show(*(found.trace(name) for name in ends), labels=ends, steps=4)

# %% tags=["nbval-ignore-output"]
predictions.review("11d.stage", measured=found.speedup("compiled stage"))

# %% [markdown]
# ## Explain
#
# The sentence of the lecture is wrong: the layer and the compiled stage run where the model runs, and they deliver the same pixels. A GPU can mirror, scale and normalize, and there are libraries that decode JPEG files on it, too.
#
# What does it change? *Without* a GPU, little that a few steps could prove. The work moves from the threads of the pipeline into the train step, and both use the same cores. In the pipeline the work runs beside the training and takes cores from it, and in the model it is a part of the train step. The table above says whether one of them is faster on your machine, or whether nobody can tell. *With* a GPU, the cores of the host are free for decoding, and the link carries a quarter of the bytes. The price is a longer step on the GPU. This pays where the host is the limit, and it costs where the GPU is.
#
# What cannot move so easily is everything before the batch: reading and decoding files, where each photo has another size.
#
# ## With a GPU: a simulation
#
# This part is *simulated*, from assumptions. A step of 256 photos takes 143 ms (an H100, as in notebook 09). On the host, a photo takes 4 ms to decode and 1 ms to augment. The bytes of a batch take the times of the link from above. On the GPU, the augmentation is assumed to take 1 ms for a whole batch: it touches about 1 GB of the memory of the GPU, which moves 3,350 GB/s (data sheet).

# %%
in_pipeline = Costs(map={"decode": 4, "augment": 1}, copy=4.9, train=143)
in_model = Costs(map={"decode": 4}, copy=1.2, train=143 + 1)
rows = ["Simulated, not measured."]
for cores in (4, 8, 16):
    knobs = Knobs(256, cores=cores, map_calls=cores, prefetch=2)
    lines = [labkit.Timeline(simulate.run(costs, knobs, 10, warmup=2)) for costs in (in_pipeline, in_model)]
    before, after = (f"{line.step_ms:.0f} ms a step, busy {line.accelerator.share:.0%}" for line in lines)
    rows.append(f"{cores:>2} cores: in the pipeline {before} → in the model {after}")
print(*rows, sep="\n")

# %% [markdown]
# With few cores the host is the limit, and the gain is the whole work that moved. With many cores the host is fast enough: only the bytes of the link gain something.
#
# ## Random layers of Keras
#
# Keras has layers such as `RandomFlip` and `RandomBrightness`, so you need not write your own. They have a trap. In `fit`, they change the photos, and in `evaluate` and `predict` they do nothing. But what if somebody *calls* the model?

# %%
ready = keras.Sequential([keras.layers.RandomFlip(), keras.layers.RandomBrightness(0.2, value_range=(0, 1))])
gray = tf.random.stateless_uniform([8, 48, 48, 3], [0, 1])
answers = {"predict": ready.predict(gray, verbose=0), "called": ready(gray)}
answers["called with training=False"] = ready(gray, training=False)
for name, answer in answers.items():
    print(f"{name:<28} photos unchanged: {bool(tf.reduce_all(answer == gray))}")

# %% [markdown]
# For these layers, a call without a word counts as training. So a server that calls the model answers about photos that it has changed at random.
#
# ## Exercises
#
# **11.11** Write `pays(decode, augment, train, on_gpu)`: how many times as fast does the job become when the augmentation moves from the host into the model? All arguments are times in ms for one batch: decoding and augmenting on all cores of the host, the train step, and the augmentation on the accelerator. Pipeline and training overlap perfectly. One or two lines.

# %% tags=["stub"]
def pays(decode, augment, train, on_gpu):
    ...  # your code

# %% tags=["solution"]
def pays(decode, augment, train, on_gpu):
    return max(decode + augment, train) / max(decode, train + on_gpu)

# %%
try_it("11.11", pays)
check("11.11", pays)

# %% [markdown]
# ## Recap
#
# You wrote one augmentation in three places, proved that the pixels are the same, counted bytes, and looked at who works when. A simulation showed when the move pays, and a layer of Keras changed photos that nobody trains on.
#
# ## In practice
#
# - Send uint8 to the accelerator, and convert and normalize there.
# - Move the augmentation into the model when the processor of the host is the limit. Look at a timeline before and after.
# - A layer in the model travels with the saved model. Serve with `training=False`, and compare an answer with that of `predict`.
#
# **Next:** [11e Go deeper](11e_go_deeper.ipynb), which is optional, too, or [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
