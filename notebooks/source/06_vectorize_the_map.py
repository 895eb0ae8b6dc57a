# %% [markdown]
# # Vectorize the map
#
# **You will** move the batch in front of the map, first for records of 32×32 pixels and then for photos, and find out where it gains much, where nothing, and where it loses.
#
# **You will learn** what a single element costs before any work is done, what really vectorises, what only looks like it, and why decoding cannot be batched.
#
# **You need** notebooks 01 and 02. No GPU. About 40 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labkit import accelerators, charts, explorers, photos, plain, predictions

# %% [markdown]
# ## The job
#
# The augmentation of the earlier notebooks, one image at a time, on two kinds of data: photos, and small records. For these, 32 photos are scaled to 224×224 and cut into 49 tiles of 32×32 each.

# %%
album = photos.load()
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()


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
images, labels = next(iter(files.map(fetch).batch(32)))
tiles = tf.transpose(tf.reshape(images, [32, 7, 32, 7, 32, 3]), [0, 1, 3, 2, 4, 5])
tiles = tf.image.convert_image_dtype(tf.reshape(tiles, [-1, 32, 32, 3]), tf.uint8, saturate=True)
small = tf.data.Dataset.from_tensor_slices((tiles, tf.repeat(labels, 49))).repeat()
print(len(tiles), "tiles of", tiles.shape[1:])

# %%
quick = accelerators.modelled(step_ms=0.2)


def us_per_image(measured, name, batch):
    return [1000 * one.wait_ms / batch for one in measured[name]]

# %% [markdown]
# ## Predict
#
# Every element that passes through a `map` costs something before the function does any work: the call is set up, scheduled, its tensors are handed over. Measure it with a function of one trivial operation, called once per image and once per batch of 128:

# %%
def trivial(image, label):
    return image, tf.maximum(label, 0)


empty = {
    "map, then batch": plain(small.map(trivial).batch(128)),
    "batch, then map": plain(small.batch(128).map(trivial)),
}

# %% tags=["nbval-ignore-output"]
idle = labkit.measure(empty, quick, steps=10, repeats=4)
one, many = (min(us_per_image(idle, name, 128)) for name in empty)
overhead_us = max(one - many, 0.1)
print(f"calling a function that does next to nothing: about {overhead_us:.0f} µs per image")

# %% [markdown]
# Batching first pays this once for 128 images. If an image takes `overhead` plus `work`, and the work stays the same, the gain is
#
# $$\frac{\text{overhead} + \text{work}}{\text{overhead} / \text{batch} + \text{work}}$$
#
# The work matters: beside a JPEG decode of a millisecond or more (notebook 01 measured yours) the overhead is nothing. How many times faster will the augmentation of *32×32 tiles* become?

# %% tags=["nbval-ignore-output"]
print(predictions.commit("06.gain", 3.0, unit="times"))
explorers.explore("06", overhead_us=round(min(320, max(1, overhead_us))))

# %% [markdown]
# ## Build
#
# A function for a batch is not the old one with a new shape: `tf.image.random_flip_left_right` flips each image of a batch by its own draw, but `random_brightness` and `random_saturation` make **one** draw for the whole batch. That is another, weaker augmentation, and no error tells you. So draw one number for each image, and compute with whole batches.
#
# Saturation needs no detour through hue, saturation and value (HSV). With $V$ the largest and $m$ the smallest of the three channels of a pixel, scaling its saturation by $s$ turns each channel $x$ into
#
# $$x' = V - \min\left(s, \frac{V}{V-m}\right)(V - x)$$

# %%
def draw(count):
    flip = tf.random.uniform([count, 1, 1, 1]) < 0.5
    delta = tf.random.uniform([count, 1, 1, 1], -32 / 255, 32 / 255)
    return flip, delta, tf.random.uniform([count, 1, 1, 1], 0.5, 1.5)


def change(images, flip, delta, factor):
    images = tf.image.convert_image_dtype(images, tf.float32)
    images = tf.where(flip, images[:, :, ::-1], images) + delta
    red, green, blue = tf.split(images, 3, axis=-1)
    # Maxima of whole channels run along memory; `reduce_max(axis=-1)` would reduce three values at a time.
    top, low = tf.maximum(tf.maximum(red, green), blue), tf.minimum(tf.minimum(red, green), blue)
    factor = tf.minimum(factor, tf.math.divide_no_nan(top, top - low))
    return tf.clip_by_value(top - factor * (top - images), 0, 1)

# %% [markdown]
# Before speed, correctness: the same draws, through `tf.image` one by one and through `change` at once.

# %%
flip, delta, factor = draw(32)
expected = [tf.image.flip_left_right(image) if f else image for image, f in zip(images, tf.reshape(flip, [-1]))]
expected = [tf.image.adjust_brightness(image, d) for image, d in zip(expected, tf.reshape(delta, [-1]))]
expected = [tf.image.adjust_saturation(image, s) for image, s in zip(expected, tf.reshape(factor, [-1]))]
difference = tf.abs(change(images, flip, delta, factor) - tf.clip_by_value(tf.stack(expected), 0, 1))
print("largest difference below 0.00001:", bool(tf.reduce_max(difference) < 1e-5))

# %% [markdown]
# Three ways to call it on a batch. The second is the same function, compiled by XLA with `jit_compile=True`. The third only looks vectorised: `tf.map_fn` takes a batch and then calls the old function once for each image.

# %%
compiled = tf.function(change, jit_compile=True)


def in_plain_ops(images, labels):
    return change(images, *draw(tf.shape(images)[0])), labels


def in_one_kernel(images, labels):
    return compiled(images, *draw(tf.shape(images)[0])), labels


def in_map_fn(images, labels):
    return tf.map_fn(lambda image: augment(image, 0)[0], images, fn_output_signature=tf.float32), labels

# %% [markdown]
# XLA compiles for one shape, at the first call with it:

# %% tags=["nbval-ignore-output"]
for call in ("first", "second"):
    start = tf.timestamp()
    compiled(images, *draw(32))
    print(f"{call} call on 32 photos: {1000 * (tf.timestamp() - start):.0f} ms")

# %% [markdown]
# So compiling belongs to the warm-up, not to the measured window. And a smaller last batch would be another shape, compiled again: `drop_remainder=True` keeps all batches alike.
#
# ## Run: small records

# %%
ones, batches = small.map(augment), small.batch(128, drop_remainder=True)
on_tiles = {
    "one by one": ones.batch(128),
    "one by one, 4 calls": small.map(augment, num_parallel_calls=4).batch(128),
    "tf.map_fn on a batch": batches.map(in_map_fn),
    "plain ops on a batch": batches.map(in_plain_ops),
    "compiled, on a batch": batches.map(in_one_kernel),
}

# %% tags=["nbval-ignore-output"]
on_tiles = {name: plain(dataset) for name, dataset in on_tiles.items()}
tiny = labkit.measure(on_tiles, quick, warmup=3, steps=5, repeats=4)
tiny

# %% tags=["nbval-ignore-output"]
alone_us = min(us_per_image(tiny, "one by one", 128))
formula = alone_us / (overhead_us / 128 + max(alone_us - overhead_us, 0.1))
gain = tiny.speedup("compiled, on a batch")
print("tf.map_fn over 4 parallel calls:", tiny.speedup("tf.map_fn on a batch", over="one by one, 4 calls"))
predictions.review("06.gain", model=formula, measured=gain)

# %% [markdown]
# The measured gain may be far above the formula, which knows the overhead of *one* operation. The augmentation has many, each started again for every tile. Batching saves that, too, and compiling shrinks the work itself. If a wide interval allows no verdict, the machine was busy: run the cells again.

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
one, many = tiny.trace("one by one"), tiny.trace("compiled, on a batch")
labkit.show(one, many, labels=("one by one", "compiled, on a batch"), steps=1)

# %% [markdown]
# ## Explain
#
# Above, one step is 128 calls of several operations each, and the lanes are nearly empty all the same: each call is a thin line of *other map work*, and the time lies *between* the lines, where calls are set up, scheduled and handed over. Below, the batch is made first, and a single kernel is one short span. (Notes under the table may say that recording distorts: the profiler, too, pays for each operation. Without it the rows of many operations are somewhat faster.)
#
# Do four parallel calls help? Handing a tile to another thread costs time, too, so on few cores expect little or nothing.
#
# Where do the times lie, per image?

# %% tags=["nbval-ignore-output"]
cost = {"a trivial map": us_per_image(idle, "map, then batch", 128)}
cost |= {name: us_per_image(tiny, name, 128) for name in on_tiles}
charts.bars(cost, unit="µs per image", title="32×32 tiles: what one image costs", note="Waits for a batch of 128.")

# %% [markdown]
# `tf.map_fn` is no vectorisation: it is a loop inside one call, with its own book-keeping for each turn. Some of its turns may run at the same time, so it may come near a parallel map (compared above), not near a real batch. Look at *plain ops*, too: the batch saves the calls, but the saving may be lost again; the photos show why.
#
# ## Parsing vectorises
#
# Records in a file are serialized messages. `parse_single_example` reads one, `parse_example` reads a whole batch in one call, and `decode_raw` accepts a batch, too, if all are equally long:

# %%
def serialize(tile, label):
    pixels = tf.train.Feature(bytes_list=tf.train.BytesList(value=[tile.tobytes()]))
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)]))
    features = tf.train.Features(feature={"image": pixels, "label": number})
    return tf.train.Example(features=features).SerializeToString()


messages = [serialize(tile, label) for tile, label in zip(tiles.numpy(), labels.numpy().repeat(49))]
features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

# %%
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
parsed = labkit.measure(parsers, quick, steps=8, repeats=4)
parsed

# %% [markdown]
# ## Run: photos
#
# Now photos of 224×224. Reading, decoding and resizing stay in a map of their own, since every JPEG is another size. Only the float stage moves behind the batch, and a prefetch between the two lets them overlap. The fourth variant tries to batch the decoding, too, with `map_fn` over 32 paths. The last is the naive map, one photo at a time.

# %%
def all_in_map_fn(paths, labels):
    return tf.map_fn(lambda path: augment(*fetch(path, 0))[0], paths, fn_output_signature=tf.float32), labels


fetched = files.map(fetch, num_parallel_calls=4).batch(32, drop_remainder=True).prefetch(1)
on_photos = {
    "one by one, 4 calls": files.map(lambda p, n: augment(*fetch(p, n)), num_parallel_calls=4).batch(32),
    "plain ops on a batch": fetched.map(in_plain_ops),
    "compiled, on a batch": fetched.map(in_one_kernel),
    "all in tf.map_fn": files.batch(32, drop_remainder=True).map(all_in_map_fn),
    "one by one": files.map(lambda p, n: augment(*fetch(p, n))).batch(32),
}

# %% tags=["nbval-ignore-output"]
on_photos = {name: plain(dataset.prefetch(1)) for name, dataset in on_photos.items()}
large = labkit.measure(on_photos, quick, warmup=2, steps=4, repeats=4)
large

# %% tags=["nbval-ignore-output"]
for name in on_photos:
    work = labkit.Timeline(large.trace(name)).per_image_ms
    print(f"{name:<21}", ", ".join(f"{kind} {work[kind]:.2f}" for kind in ("decode", "resize", "map")), "ms per image")
print("plain ops on a batch over one by one:", large.speedup("plain ops on a batch", over="one by one"))

# %% tags=["nbval-ignore-output"]
slow, fast = large.trace("plain ops on a batch"), large.trace("compiled, on a batch")
workers = [lane.name for lane in labkit.Timeline(fast).lanes if "worker" in lane.name][:4]
labkit.compare(slow, fast, labels=("plain ops", "compiled"), lanes=workers)

# %% [markdown]
# Above, look for long spans of *other map work*: the plain ops of one batch, for which the step waits. Then compare *map* of *plain ops* and *one by one* in the lines over the picture. Which operations take the time?

# %% tags=["nbval-ignore-output"]
spans = slow.where(slow.select(category="map"))
totals = {}
for name, ns in zip(spans.name.tolist(), spans.duration_ns.tolist()):
    operation = spans.names[name].rpartition(":")[2]
    totals[operation] = totals.get(operation, 0) + ns / 1e6 / slow.run.images
for operation, ms in sorted(totals.items(), key=lambda item: -item[1])[:6]:
    print(f"{operation:<16} {ms:.2f} ms per image")

# %% [markdown]
# A batch of 32 photos is 19 MB of float32 values, more than a core's own caches hold. Each plain op reads its whole input from memory and writes its whole result back: reverse, select, add, split, maximum, minimum, subtract, multiply, clip: each a pass over memory, each into a new buffer. Some may be slow by themselves, too; look in the list for reading backwards (`StridedSlice` with a stride of −1), and for a select that has to stretch its condition (`SelectV2`). One by one, an image of 0.6 MB stays near the core between the ops, and `tf.image` brings a saturation in one op. That is why moving *plain* ops behind the batch can be **slower** than leaving them alone, although every guide advises it.
#
# XLA fuses the whole chain into one kernel: few passes, the arithmetic in between in registers, with the vector instructions of your processor. The gain comes from the compiling; the batch only makes it worth a call.
#
# `tf.map_fn` over paths decodes one photo per turn, as a map does. On top of that it waits for the last photo of each batch before it begins the next, and copies all results together. Nothing of the decoding is vectorised.
#
# And *decode*? It is the same work in all five rows. Where its time differs, more threads shared the cores (notebook 04); nothing was vectorised. Most of what is left is decoding, so even a float stage that costs nothing gains only what it used to cost. In the lower timeline, decoding goes on nearly all the time, and the kernel of a batch is a short span beside it. If *compiled* has the verdict "no measurable difference", the saved part is small beside the decoding on your machine, or the rounds differ too much.
#
# ## Why decoding cannot be batched
#
# Ask for it, in the two ways that come to mind:

# %% tags=["nbval-ignore-output"]
bytes_of = files.map(lambda path, label: tf.io.read_file(path))
decoded = bytes_of.map(lambda data: tf.io.decode_jpeg(data, channels=3))
attempts = {
    "decode a batch": lambda: bytes_of.batch(4).map(tf.io.decode_jpeg),
    "batch the decoded": lambda: next(iter(decoded.batch(16))),
}
for name, attempt in attempts.items():
    try:
        print(name, "→", attempt().shape)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        text = str(error)
        print(name, "→", text[max(text.find("Shape must"), text.find("Shapes are"), 0) :][:70])

# %% [markdown]
# `decode_jpeg` takes one string. That is no oversight. A JPEG is one chain of codes of varying length: where a code begins is known only when the one before it is read. Thirty-two photos are thirty-two chains, with no common instruction for them. Cores can share them (notebook 04).
#
# If your photos differ in size, the second attempt fails as well (equal ones pass, as in many prepared sets). `padded_batch` and `ragged_batch` accept them. The first fills up with zeros, and the float stage would work on those, too. The second keeps each size, but a single kernel needs a block of one shape.

# %% tags=["nbval-ignore-output"]
padded = next(iter(decoded.padded_batch(16)))
ragged = next(iter(decoded.ragged_batch(16)))
used = tf.size(ragged.flat_values) / tf.size(padded)
print(f"padded to {tuple(padded.shape)}; {used:.0%} of that is photo")

# %% [markdown]
# So the order that works: decode and resize one by one and in parallel, then batch, then everything that has one shape.
#
# Check the graphs that ran. The elements flow from right to left:

# %%
for name in ("one by one, 4 calls", "compiled, on a batch"):
    longest = max(labkit.recorder.graph(on_photos[name]), key=len)
    nodes = [node for node in longest.split("::") if "Map" in node or "Batch" in node]
    print(f"{name}:", " ← ".join(nodes))

# %% [markdown]
# ## Exercises
#
# **06.1** Write `batch_first(dataset, scale, batch)`: the same elements in batches of fixed size, with `scale` called once for each batch. `scale(images)` works on any shape. One line.

# %% tags=["stub"]
def batch_first(dataset, scale, batch):
    ...  # your code

# %% tags=["solution"]
def batch_first(dataset, scale, batch):
    return dataset.batch(batch, drop_remainder=True).map(scale)

# %%
labkit.try_it("06.1", batch_first)
labkit.check("06.1", batch_first)

# %% [markdown]
# **06.2** Write `brighter(images, deltas)`: images `(n, height, width, 3)`, each made brighter by its own number of `deltas` `(n,)`, then clipped to 0 and 1. It runs in a graph: tensors, no NumPy. No loop, open or hidden. Two lines.

# %% tags=["stub"]
def brighter(images, deltas):
    ...  # your code

# %% tags=["solution"]
def brighter(images, deltas):
    return tf.clip_by_value(images + tf.reshape(deltas, [-1, 1, 1, 1]), 0, 1)

# %%
labkit.try_it("06.2", brighter)
labkit.check("06.2", brighter)

# %% [markdown]
# **06.3** Write `gain(overhead_us, work_us, batch)`: how many times faster one image gets if the overhead is paid once per batch. One line.

# %% tags=["stub"]
def gain(overhead_us, work_us, batch):
    ...  # your code

# %% tags=["solution"]
def gain(overhead_us, work_us, batch):
    return (overhead_us + work_us) / (overhead_us / batch + work_us)

# %%
labkit.try_it("06.3", gain)
labkit.check("06.3", gain)

# %% [markdown]
# ## Recap
#
# You measured what an element costs before any work, and saw that it rules small records and means nothing beside a decode. You wrote an augmentation for whole batches and checked its pixels before its speed. You compared `map_fn`, plain ops and one compiled kernel, and saw in the timelines why they differ.
#
# ## In practice
#
# - Small records: batch first, `parse_example`, one compiled function.
# - Photos: parallel map for decode and resize, batch with `drop_remainder=True`, one compiled function for the rest.
# - Do not move plain ops behind the batch without measuring; compile them, or leave them in the map.
# - Compare pixels, and draw one random number per image.
#
# **Next:** [07 Pack into TFRecords](07_pack_into_tfrecords.ipynb): where such records come from.
