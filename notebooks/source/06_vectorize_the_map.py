# %% [markdown]
# # Vectorize the map
#
# **You will** put the batch in front of the map, for small records and for photos, and see where this gains much, where it gains nothing, and where it loses.
#
# **You will learn** what the batch gains alone, what a compiler gains, and why an operation that accepts a batch can still be slow.
#
# **You need** notebooks 01 and 02. No GPU. About 25 minutes. Special words are in the [glossary](../docs/glossary.md).
#
# **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import statistics
from time import perf_counter

import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, photos, plain

# %% [markdown]
# ## The idea ▸
#
# A map in front of the [batch](../docs/glossary.md#batch) calls its function once for each image, and each call takes time of its own. Behind the batch, one call does the work for all images.

# %%
idea("06")

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("06")

# %% [markdown]
# ## The data ▸
#
# Both functions take one image, as in the earlier notebooks. The small records are tiles of 32×32 pixels, cut out of 32 photos. The accelerator `instant` trains in no time, so that only the loading counts.

# %%
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [224, 224]), label


def augment(image, label):
    image = tf.image.convert_image_dtype(image, tf.float32)  # leaves float32 as it is
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label

# %%
album = photos.load()
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
images, labels = next(iter(files.map(load).batch(32)))
tiles = tf.image.extract_patches(images, [1, 32, 32, 1], [1, 32, 32, 1], [1, 1, 1, 1], "VALID")
tiles = tf.image.convert_image_dtype(tf.reshape(tiles, [-1, 32, 32, 3]), tf.uint8, saturate=True)
small = tf.data.Dataset.from_tensor_slices((tiles, tf.repeat(labels, 49))).repeat()
instant = accelerators.modelled(step_ms=0.001)
print("calls of a map for all tiles:", len(tiles), "in front of the batch,", -(-len(tiles) // 128), "behind it")

# %% [markdown]
# ## Build ▸
#
# The same augmentation for a whole batch. Behind the batch, `random_brightness` and `random_saturation` would draw **one** random number for all images: a weaker augmentation, and no error. So `draw` draws one for each image.

# %%
def draw(count):
    flip = tf.random.uniform([count, 1, 1, 1]) < 0.5
    delta = tf.random.uniform([count, 1, 1, 1], -32 / 255, 32 / 255)
    return flip, delta, tf.random.uniform([count, 1, 1, 1], 0.5, 1.5)


def saturate(images, factor):
    red, green, blue = tf.split(images, 3, axis=-1)
    largest = tf.maximum(tf.maximum(red, green), blue)
    smallest = tf.minimum(tf.minimum(red, green), blue)
    factor = tf.minimum(factor, tf.math.divide_no_nan(largest, largest - smallest))
    return largest - factor * (largest - images)

# %%
def change(images, flip, delta, factor):
    images = tf.image.convert_image_dtype(images, tf.float32)
    images = tf.where(flip, images[:, :, ::-1], images) + delta
    return tf.clip_by_value(saturate(images, factor), 0, 1)

# %% [markdown]
# Check the pixels before the speed: the same random numbers through `tf.image`, image by image, and through `change`, all at once.

# %%
flip, delta, factor = draw(32)
expected = []
for image, f, d, s in zip(images, tf.squeeze(flip), tf.squeeze(delta), tf.squeeze(factor)):
    image = tf.image.flip_left_right(image) if f else image
    image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, d), s)
    expected.append(tf.clip_by_value(image, 0, 1))
difference = tf.reduce_max(tf.abs(change(images, flip, delta, factor) - tf.stack(expected)))
print("largest difference below 0.00001:", bool(difference < 1e-5))

# %% [markdown]
# A batch can be changed in two ways. *Plain ops*: TensorFlow runs the operations of `change` one after the other. *Compiled*: with `jit_compile=True`, the compiler [XLA](../docs/glossary.md#xla) makes one kernel out of them. It compiles at the first call with each shape, so `drop_remainder=True` gives all batches one shape.

# %%
compiled = tf.function(change, jit_compile=True)


def in_plain_ops(images, labels):
    return change(images, *draw(tf.shape(images)[0])), labels


def in_one_kernel(images, labels):
    return compiled(images, *draw(tf.shape(images)[0])), labels

# %% [markdown]
# ## Predict ▸
#
# Tiles in batches of 128: the batch saves 127 of 128 calls. How many times as fast as *one by one* is the batch alone, with plain ops? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("06.gain", ..., unit="times")

# %% [markdown]
# ## Run ▸
#
# `profile=False` times the rounds with the clock alone: the profiler takes time for each operation, which counts with small records.

# %% tags=["nbval-ignore-output"]
batches = small.batch(128, drop_remainder=True)
on_tiles = {
    "one by one": plain(small.map(augment).batch(128)),
    "one by one, 4 calls": plain(small.map(augment, num_parallel_calls=4).batch(128)),
    "plain ops": plain(batches.map(in_plain_ops)),
    "compiled": plain(batches.map(in_one_kernel)),
}
tiny = labkit.measure(on_tiles, instant, warmup=3, steps=10, profile=False)
tiny

# %% tags=["nbval-ignore-output"]
predictions.review("06.gain", measured=tiny.speedup("plain ops"))

# %% tags=["nbval-ignore-output"]
print("the batch, plain ops over one by one: ", tiny.speedup("plain ops"))
print("the compiler, compiled over plain ops:", tiny.speedup("compiled", over="plain ops"))

# %% [markdown]
# The first line is what the batch gains alone. It can be nothing, or even a loss: each operation writes the whole batch to memory, and the next one reads it again. The second line is what the compiler gains, which does all operations in one pass.
#
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
one, many = tiny.trace("one by one"), tiny.trace("compiled")
labkit.show(one, many, labels=("one by one", "compiled"), steps=1)

# %% [markdown]
# ## Explain
#
# In the upper picture, one step is 128 calls with several operations each. The operations are very short, and almost half of the waiting passes between them, where TensorFlow sets up the next one: this is called [*handing over*](../docs/glossary.md#handing-over). (The profiler notes down each operation, so the recording is slower than the table.) In the lower picture most of the waiting is handing over: one call changes the whole batch (XLA calls its kernel `ExecuteAsyncOnStream`), and before and behind it no thread works.
#
# How much does one call cost? Compare a pipeline without a map and one with a map of a single operation, which changes nothing:

# %% tags=["nbval-ignore-output"]
def trivial(image, label):
    return image, tf.maximum(label, 0)


jobs = {"no map": plain(small.batch(128)), "trivial map": plain(small.map(trivial).batch(128))}
calls = labkit.measure(jobs, instant, steps=100, limit=5, profile=False).per_image("µs")
overhead_us = statistics.median(calls["trivial map"]) - statistics.median(calls["no map"])
print(f"a call costs about {overhead_us:.0f} µs")
explorers.explore("06", measured={"overhead_us": max(1, overhead_us)})

# %% [markdown]
# In the explorer, each call of the map costs this overhead, and then the work for its images. For small records, it pays to batch first, if the batch then goes through one compiled call: the table above says so. Beside the decoding of a photo, the overhead is nothing.
#
# ## Photos
#
# Photos have different sizes, so fetching, decoding and resizing stay in a map of their own. Only the augmentation moves behind the batch. A prefetch between the two lets both work at once.

# %% tags=["nbval-ignore-output"]
loaded = files.map(load, num_parallel_calls=4).batch(32, drop_remainder=True).prefetch(1)
both = files.map(lambda path, label: augment(*load(path, label)), num_parallel_calls=4)
on_photos = {
    "one by one, 4 calls": plain(both.batch(32).prefetch(1)),
    "plain ops": plain(loaded.map(in_plain_ops).prefetch(1)),
    "compiled": plain(loaded.map(in_one_kernel).prefetch(1)),
}
large = labkit.measure(on_photos, instant, steps=5)
large

# %% [markdown]
# Where does the time of *plain ops* go?

# %% tags=["nbval-ignore-output"]
labkit.Timeline(large.trace("plain ops")).operations(8)

# %% [markdown]
# <details><summary>Why plain ops can be slower than the map</summary>
#
# A batch of 32 photos of float32 values is larger than the caches of most cores. Every plain op reads its whole input from memory and writes its whole result back. Some are slow by themselves: `StridedSlice` is the flip, which reads each row backwards, and `SelectV2` chooses between flipped and not flipped. In a map that takes one photo at a time, a photo stays in the cache of a core from one operation to the next, and `tf.image` has saturation as a single operation. So plain ops behind the batch can be *slower* than the map, although many guides advise to batch first.
#
# XLA *fuses* the operations: one kernel reads each pixel once, computes everything, and writes the pixel once.
#
# </details>
#
# <details><summary>Why the decoder takes no batch</summary>
#
# `decode_jpeg` takes one file in each call. A JPEG is a chain of codes of different lengths, and a decoder finds a code only when it has read the one before it. Photos do not depend on each other, so parallel calls use the other cores (notebook 04). Notebook 08 builds such a reader of codes as a circuit.
#
# </details>
#
# So this order works: decode and resize one by one and in parallel, then batch, then everything that has one shape, in one compiled function.
#
# ## Read ▸
#
# **06.1** One job before any change (A), after one change (B), and after one more (C). Which two changes were made? Choose from prefetch, parallel map, one call a batch, cache, interleave. Answer as `{"first": "prefetch", "second": ...}`, or by clicks.

# %% tags=["nbval-ignore-output"]
read("06.1")

# %% tags=["stub"]
answer = ...

# %% tags=["solution"]
answer = {"first": "one call a batch", "second": "prefetch"}

# %%
check("06.1", answer)

# %% [markdown]
# ## Exercises
#
# **06.2** Write `compiled_batches(dataset, change, size)`: the elements in batches of exactly `size`, each changed by `change`; an incomplete last batch is left out. `change` takes a whole batch. It is called once for each batch, and XLA compiles it. One line.

# %% tags=["stub"]
def compiled_batches(dataset, change, size):
    ...  # your code

# %% tags=["solution"]
def compiled_batches(dataset, change, size):
    return dataset.batch(size, drop_remainder=True).map(tf.function(change, jit_compile=True))

# %%
try_it("06.2", compiled_batches)
check("06.2", compiled_batches)

# %% [markdown]
# **06.3** Write `brighter(images, deltas)`. The images have the shape `(n, height, width, 3)`, and `deltas` has the shape `(n,)`. Add to each image its own number, then clip all values to 0 and 1. Use tensors, no NumPy and no loop. Two lines.

# %% tags=["stub"]
def brighter(images, deltas):
    ...  # your code

# %% tags=["solution"]
def brighter(images, deltas):
    return tf.clip_by_value(images + tf.reshape(deltas, [-1, 1, 1, 1]), 0, 1)

# %%
try_it("06.3", brighter)
check("06.3", brighter)

# %% [markdown]
# ## Your pipeline
#
# Work that hides behind the train step already gains nothing when it becomes faster. So your ladder may stay as it is.

# %% tags=["nbval-ignore-output"]
my_pipeline.step("06")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("06")

# %% [markdown]
# ## Without the lab
#
# At work: is a compiled function worth it for *your* batch?

# %%
def ms_of(function, *arguments, times=20):
    function(*arguments)  # not counted: tracing and compiling
    start = perf_counter()
    for _ in range(times):
        function(*arguments)
    return 1000 * (perf_counter() - start) / times

# %% tags=["nbval-ignore-output"]
batch, _ = next(iter(batches))
for name, jit in (("op after op", False), ("one kernel ", True)):
    print(name, f"{ms_of(tf.function(change, jit_compile=jit), batch, *draw(128)):.2f} ms for a batch")

# %% [markdown]
# ## Recap
#
# You wrote an augmentation for whole batches, and checked its pixels before its speed. Two lines told what the batch gains alone, and what compiling gains.
#
# ## In practice
#
# - Small records: batch first, then one compiled function.
# - Photos: a parallel map for decode and resize, then a batch with `drop_remainder=True`, then one compiled function for the rest.
# - Do not move plain ops behind the batch without measuring.
# - Draw one random number for each image, and compare the pixels.
#
# **Next:** [07 Pack into TFRecords](07_pack_into_tfrecords.ipynb): where such records come from.
