# %% [markdown]
# # Vectorize the map
#
# **You will** put the batch in front of the map, for small records and for photos, and see where this gains much, where it gains nothing, and where it loses.
#
# **You will learn** what one call of a map costs before it does any work, which operations work on a whole batch at once, and why an operation that accepts a batch can still be slow.
#
# **You need** notebooks 01 and 02. No GPU. About 70 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import statistics

import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, charts, damage, photos, plain, records

# %% [markdown]
# ## The idea
#
# A map in front of the [batch](../docs/glossary.md#batch) calls its function once for each image. A map behind the batch calls its function once for the whole batch. Each call takes time of its own. But behind the batch, each operation writes the whole batch to memory, and the next operation reads it again. A compiled function does all operations in one pass.

# %%
idea("06")

# %% [markdown]
# ## The data
#
# Loading and augmentation are those of the earlier notebooks: both functions take one image. The small records are tiles of 32×32 pixels, cut out of 32 photos.

# %%
def fetch(path, label):
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
images, labels = next(iter(files.map(fetch).batch(32)))
tiles = tf.image.extract_patches(images, [1, 32, 32, 1], [1, 32, 32, 1], [1, 1, 1, 1], "VALID")
tiles = tf.image.convert_image_dtype(tf.reshape(tiles, [-1, 32, 32, 3]), tf.uint8, saturate=True)
small = tf.data.Dataset.from_tensor_slices((tiles, tf.repeat(labels, 49))).repeat()
instant = accelerators.modelled(step_ms=0.001)
print(len(tiles), "tiles of", tiles.shape[1:])
print("calls of a map in an epoch:", len(tiles), "before the batch,", -(-len(tiles) // 128), "behind it")

# %% [markdown]
# ## Predict
#
# TensorFlow must set up each call of a map, start its operations and hand over their results. This is the *overhead* of a call. To measure it, compare a pipeline without a map with a pipeline that has a trivial map: one operation, which changes nothing.
#
# `profile=False` times the rounds with the clock alone. The profiler takes about one microsecond for each operation, and for small records that is as much as the work itself. The pictures come from one more round, with the profiler.

# %% tags=["nbval-ignore-output"]
def trivial(image, label):
    return image, tf.maximum(label, 0)


jobs = {"no map": plain(small.batch(128)), "no map, 32": plain(small.batch(32))}
jobs |= {"map first": plain(small.map(trivial).batch(128)), "batch first": plain(small.batch(128).map(trivial))}
jobs |= {"batch first, 32": plain(small.batch(32).map(trivial))}
calls = labkit.measure(jobs, instant, steps=100, limit=5, profile=False)
us = {name: statistics.median(rounds) for name, rounds in calls.per_image("µs").items()}
overhead_us, batch_us = us["map first"] - us["no map"], 32 * (us["batch first, 32"] - us["no map, 32"])
print(f"an image takes {us['no map']:.0f} µs, and {overhead_us:.0f} µs more for the call of a trivial map")
print(f"a call for a batch of 32 takes {batch_us:.0f} µs")

# %% [markdown]
# If the batch comes first, the overhead is paid once for all images of a batch. The other work of each image stays the same. The gain is
#
# $$\frac{\text{overhead} + \text{work}}{\text{overhead of a batch} / \text{batch size} + \text{work}}$$
#
# A call for a batch often takes longer than a call for one image: it is rare, and meanwhile other work has filled the caches of the core. We measured it with batches of 32.
#
# How many times faster does the *trivial map* become with batches of 128? Replace the three dots by your number. The cell after it shows the measurement; its *model* is the formula. In the explorer you can change the work and the batch size; [F, P and G](../docs/glossary.md#f-p-g) are the speeds of reading, preparing and training.

# %% tags=["nbval-ignore-output"]
print(predictions.commit("06.gain", ..., unit="times"))
explorers.explore("06", measured={"overhead_us": max(1, overhead_us)})

# %% tags=["nbval-ignore-output"]
formula = (overhead_us + us["no map"]) / (max(0, batch_us) / 128 + us["no map"])
predictions.review("06.gain", model=formula, measured=calls.speedup("batch first", over="map first"))

# %% [markdown]
# The formula is made for such a map: one operation, and next to no work. If model and measurement are far apart, other programs used the cores: run the cells again. For photos this overhead is nothing, because decoding one photo takes a millisecond or more (notebook 01).
#
# ## Build
#
# Now the real augmentation. With a batch, `random_brightness` and `random_saturation` draw **one** random number for all images. That augmentation is weaker, and no error tells you. So draw one random number for each image.
#
# The function `saturate` takes one factor for each image. In each pixel, $V$ is the largest of the three channels and $m$ the smallest. A factor $s$ turns each channel $x$ into
#
# $$x' = V - \min\left(s, \frac{V}{V-m}\right)(V - x)$$

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
# ## Run: small records
#
# A batch can be changed in three ways:
#
# - *Plain ops*: TensorFlow runs the operations of `change` one after the other.
# - *Compiled*: with `jit_compile=True`, the compiler [XLA](../docs/glossary.md#xla) makes one kernel out of all operations.
# - *`tf.map_fn`*: it takes a batch, and calls the old function once for each image.
#
# XLA compiles at the first call with each shape. So compiling belongs to the warm-up, and `drop_remainder=True` gives all batches one shape.

# %%
compiled = tf.function(change, jit_compile=True)


def in_plain_ops(images, labels):
    return change(images, *draw(tf.shape(images)[0])), labels


def in_one_kernel(images, labels):
    return compiled(images, *draw(tf.shape(images)[0])), labels

# %%
def in_map_fn(images, labels):
    return tf.map_fn(lambda image: augment(image, 0)[0], images, fn_output_signature=tf.float32), labels

# %% tags=["nbval-ignore-output"]
batches = small.batch(128, drop_remainder=True)
on_tiles = {
    "one by one": plain(small.map(augment).batch(128)),
    "one by one, 4 calls": plain(small.map(augment, num_parallel_calls=4).batch(128)),
    "tf.map_fn": plain(batches.map(in_map_fn)),
    "plain ops": plain(batches.map(in_plain_ops)),
    "compiled": plain(batches.map(in_one_kernel)),
}
tiny = labkit.measure(on_tiles, instant, warmup=3, steps=10, profile=False)
tiny

# %% [markdown]
# How much comes from the batch, and how much from the compiler?

# %% tags=["nbval-ignore-output"]
print("the batch, plain ops over one by one: ", tiny.speedup("plain ops"))
print("the compiler, compiled over plain ops:", tiny.speedup("compiled", over="plain ops"))
charts.bars(tiny.per_image("µs"), unit="µs per image", title="32×32 tiles: the time of one image")

# %% [markdown]
# The first line shows what the batch gains alone. That can be nothing, or even a loss, although the batch saves 127 of 128 calls. The second line shows what the compiler gains.
#
# The formula does not hold for this map. It counts the overhead of one operation, and the augmentation has many. It assumes that the work stays the same, and here the work changes.
#
# ## The timeline

# %% tags=["nbval-ignore-output"]
one, many = tiny.trace("one by one"), tiny.trace("compiled")
labkit.show(one, many, labels=("one by one", "compiled"), steps=1)

# %% [markdown]
# ## Explain
#
# In the upper picture, one step is 128 calls with several operations each. The operations are very short, and hardly any thread is at work. The time passes between them, where TensorFlow sets up the next call: [*framework*](../docs/glossary.md#framework). In the lower picture, one call changes the whole batch. XLA calls its kernel `ExecuteAsyncOnStream`. The train step can be drawn longer than 0.001 ms, because the modelled accelerator needs a free core to go on.
#
# `tf.map_fn` only looks like batch work: it still calls the function once for each image.
#
# ### Parsing accepts a batch
#
# Records in a file are serialized messages (notebook 07). `parse_single_example` reads one message, and `parse_example` reads a batch of them in one call. A small message is little work, so the overhead counts, as in the trivial map:

# %%
messages = [records.example({"image": tile.tobytes(), "label": 0}) for tile in tiles.numpy()]
features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse_one(message):
    example = tf.io.parse_single_example(message, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


def parse_batch(messages):
    example = tf.io.parse_example(messages, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [-1, 32, 32, 3]), example["label"]

# %% tags=["nbval-ignore-output"]
stored = tf.data.Dataset.from_tensor_slices(messages).repeat()
parsers = {
    "parse_single_example": plain(stored.map(parse_one).batch(128)),
    "parse_example": plain(stored.batch(128).map(parse_batch)),
}
labkit.measure(parsers, instant, steps=20, profile=False)

# %% [markdown]
# ## Run: photos
#
# Photos have different sizes, so reading, decoding and resizing stay in a map of their own. Only the augmentation moves behind the batch. A prefetch between the two lets both work at the same time.

# %% tags=["nbval-ignore-output"]
fetched = files.map(fetch, num_parallel_calls=4).batch(32, drop_remainder=True).prefetch(1)
both = files.map(lambda path, label: augment(*fetch(path, label)), num_parallel_calls=4)
on_photos = {
    "one by one, 4 calls": plain(both.batch(32).prefetch(1)),
    "plain ops": plain(fetched.map(in_plain_ops).prefetch(1)),
    "compiled": plain(fetched.map(in_one_kernel).prefetch(1)),
}
large = labkit.measure(on_photos, instant, steps=5)
large

# %% [markdown]
# Which operations take the time of the plain ops, and where do they lie in the timeline?

# %% tags=["nbval-ignore-output"]
slow, fast = large.trace("plain ops"), large.trace("compiled")
display(labkit.Timeline(slow).operations(8))
labkit.compare(slow, fast, labels=("plain ops", "compiled"))

# %% [markdown]
# Look for long blocks of *other map work* in the upper half: these are the plain ops of one batch. A batch of 32 photos has 19 MB of float32 values, more than the caches of most cores hold. Every plain op reads its whole input from memory and writes its whole result back. Some are slow by themselves: `StridedSlice` is the flip, which reads each row backwards, and `SelectV2` chooses between flipped and not flipped.
#
# In a map that takes one photo at a time, a photo of 0.6 MB stays in the cache of a core from one operation to the next, and `tf.image` implements saturation as a single operation. That is why plain ops behind the batch can be **slower** than the map, although many guides advise to batch first.
#
# XLA *fuses* the operations: one kernel reads each pixel once, computes everything, and writes the pixel once. The gain comes from compiling (fusing). Batching makes the compiled call worthwhile.
#
# *Decoding* is the same work in all rows. If *compiled* has no measurable gain on your machine, decoding takes most of the time there.
#
# ## Why TensorFlow's CPU decoder does not vectorise
#
# Ask for it in two ways:

# %% tags=["nbval-ignore-output"]
contents = files.map(lambda path, label: tf.io.read_file(path))
try:
    contents.batch(4).map(tf.io.decode_jpeg)
except ValueError as error:
    print("decode a batch:", str(error).split(" for ")[0])
try:
    next(iter(contents.map(lambda jpeg: tf.io.decode_jpeg(jpeg, channels=3)).batch(16)))
except tf.errors.InvalidArgumentError as error:
    print("batch decoded photos:", damage.error_text(error))

# %% [markdown]
# `decode_jpeg` takes one string, so each call decodes one photo. A JPEG is a chain of codes with different lengths: a decoder finds a code only after it has read the code before it. For this reason a processor, which can brighten many pixels with one instruction, cannot decode many codes of one photo with one instruction. But photos do not depend on each other, so parallel calls use the other cores (notebook 04). And other decoders do take batches: nvJPEG decodes many photos at once on a GPU, and the kernels of notebook 08 decode a list of photos in one call.
#
# If your photos differ in size, they do not fit into one batch: this is the second error. So this order works: decode and resize one by one and in parallel, then batch, then everything that has one shape.
#
# ## Exercises
#
# **06.1** Write `batch_first(dataset, scale, batch)`: the same elements in batches of fixed size. `scale` is called once for each batch. One line.

# %% tags=["stub"]
def batch_first(dataset, scale, batch):
    ...  # your code

# %% tags=["solution"]
def batch_first(dataset, scale, batch):
    return dataset.batch(batch, drop_remainder=True).map(scale)

# %%
try_it("06.1", batch_first)
check("06.1", batch_first)

# %% [markdown]
# **06.2** Write `brighter(images, deltas)`. The images have the shape `(n, height, width, 3)`, and `deltas` has the shape `(n,)`. Add to each image its own number, then clip all values to 0 and 1. Use tensors, no NumPy and no loop. Two lines.

# %% tags=["stub"]
def brighter(images, deltas):
    ...  # your code

# %% tags=["solution"]
def brighter(images, deltas):
    return tf.clip_by_value(images + tf.reshape(deltas, [-1, 1, 1, 1]), 0, 1)

# %%
try_it("06.2", brighter)
check("06.2", brighter)

# %% [markdown]
# **06.3** Write `gain(overhead_us, work_us, batch)`: how many times faster one image gets if the overhead is paid once per batch. One line.

# %% tags=["stub"]
def gain(overhead_us, work_us, batch):
    ...  # your code

# %% tags=["solution"]
def gain(overhead_us, work_us, batch):
    return (overhead_us + work_us) / (overhead_us / batch + work_us)

# %%
try_it("06.3", gain)
check("06.3", gain)

# %% [markdown]
# ## Recap
#
# You measured what one call of a map costs, and compared a formula with the measured gain of a trivial map. You wrote an augmentation for whole batches, and checked its pixels before its speed. Two lines showed what the batch gains alone and what compiling gains: for the real augmentation, compiling brings the gain.
#
# ## In practice
#
# - Small records: batch first, then `parse_example`, then one compiled function.
# - Photos: a parallel map for decode and resize, then a batch with `drop_remainder=True`, then one compiled function for the rest.
# - Do not move plain ops behind the batch without measuring. Compile them, or leave them in the map.
# - Draw one random number for each image, and compare the pixels.
# - Time small records without the profiler.
#
# **Next:** [07 Pack into TFRecords](07_pack_into_tfrecords.ipynb): where such records come from.
