# %% [markdown]
# # Pack into TFRecords
#
# **You will** pack photos into a few large files, as JPEG bytes and as pixels, and compare space and time of each form, and JPEG files with shards far away.
#
# **You will learn** what `tf.Example` and shards are, which form saves space, which saves time, and what a pickle costs.
#
# **You need** notebook 03. No GPU. About 30 minutes. Special words are in the [glossary](../docs/glossary.md).
#
# **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import pickle
import tempfile
from pathlib import Path
from time import perf_counter

import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, charts, photos, plain, records, storage

# %% [markdown]
# ## The idea ▸
#
# Many photos in one file need one open. In an object store far away, an open takes longer than everything else.

# %%
idea("07")

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("07")

# %% [markdown]
# ## Build ▸
#
# Everything that this notebook writes goes into a folder of its own. A TFRecord file is a row of *records*: each is a length, a checksum, some bytes and another checksum. The bytes are usually a `tf.Example`, a small dictionary with lists of bytes, floats or whole numbers.

# %%
album = photos.load().take(64)
room = tempfile.TemporaryDirectory()
place = Path(room.name)


def example(image, label):
    image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))
    label = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    return tf.train.Example(features=tf.train.Features(feature={"image": image, "label": label}))

# %%
jpeg = Path(album.paths[0]).read_bytes()
message = example(jpeg, int(album.labels[0])).SerializeToString(deterministic=True)
first = place / "first.tfrecord"
with tf.io.TFRecordWriter(str(first)) as writer:
    writer.write(message)
print(first.stat().st_size - len(jpeg), "bytes around the photo")

# %% [markdown]
# The reader must know the name, the shape and the type of each feature. (`tf.io.parse_example` parses a whole batch of messages in one call. If the records are small, put the batch in front of the parsing: notebook 06.)

# %%
def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(record, features)
    return found["image"], found["label"]

# %% [markdown]
# `records.write` does the same for all photos, in several files, the [shards](../docs/glossary.md#shard). It writes each shard under another name and renames it when it is complete.

# %%
packed = records.write(album, place / "jpeg", shards=4)
print(packed.count, "records in", len(packed), "shards")
print("the first record is the message above:", bool(next(iter(tf.data.TFRecordDataset(packed.paths))) == message))
print("30 GB and eight servers:", records.plan(30e9, servers=8).shards, "shards")

# %% [markdown]
# <details><summary>How many shards?</summary>
#
# Two reasons pull in two directions: several shards for each server that reads, so that all have work, and large shards, because tiny ones bring back the cost of opens. A rule from a lecture (Protopapas and Jayaram, *Productionizing AI*, 7): ten shards for each server, and shards of at least ten megabytes, better a hundred. `records.plan(bytes, servers)` follows it; the last line above is the lecture's own example.
#
# </details>
#
# ## Predict ▸
#
# All files are in the [page cache](../docs/glossary.md#page-cache). How many times as fast as 64 JPEG files are the same bytes in 4 shards? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("07.near", ..., unit="times")

# %% [markdown]
# ## Run ▸
#
# The other forms: *pixels* are one byte for each value, and need no decoder. GZIP compresses each file as a whole. And a *pickle*, Python's own format, reaches TensorFlow through a Python generator.

# %% tags=["nbval-ignore-output"]
forms = {
    "records, JPEG": packed,
    "records, JPEG, GZIP": records.write(album, place / "jpeg_gzip", 4, "GZIP"),
    "records, pixels": records.write(album, place / "pixels", 4, form="raw"),
    "records, pixels, GZIP": records.write(album, place / "pixels_gzip", 4, "GZIP", form="raw"),
}
print(*forms.values(), sep="\n")

# %%
def decode(jpeg, label):
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE"), label


def decode_file(path, label):
    return decode(tf.io.read_file(path), label)


def thumbnails(dataset):
    small = dataset.map(lambda image, label: (tf.image.resize(image, [224, 224], method="nearest"), label))
    return plain(small.batch(16))

# %%
with open(place / "pixels.pickle", "wb") as file:
    for path, label in zip(album.paths, album.labels.tolist()):
        pickle.dump((decode_file(path, label)[0].numpy(), label), file)


def unpickled():
    with open(place / "pixels.pickle", "rb") as file:
        for _ in range(len(album)):
            yield pickle.load(file)


pixels = tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([], tf.int64)

# %% tags=["nbval-ignore-output"]
variants = {"JPEG files": album.files().map(decode_file)}
for name, shards in forms.items():
    stored = tf.data.TFRecordDataset(shards.paths, shards.compression)
    variants[name] = stored.map(records.parse_raw) if shards.form == "raw" else stored.map(parse).map(decode)
variants["pickle, pixels"] = tf.data.Dataset.from_generator(unpickled, output_signature=pixels)

instant = accelerators.modelled(step_ms=0.001)
variants = {name: thumbnails(dataset) for name, dataset in variants.items()}
result = labkit.measure(variants, instant, steps=3, warmup=1)
result

# %% tags=["nbval-ignore-output"]
predictions.review("07.near", measured=result.speedup("records, JPEG"))

# %% [markdown]
# Near, an open costs next to nothing, and decoding, which stays the same, takes most: look at the interval of *records, JPEG*. Now the same two, far away: each request to a modelled object store waits.

# %% tags=["nbval-ignore-output"]
far = storage.PRESETS["object store"]
files = album.files().map(lambda path, label: decode(far.read(path), label))
shards = tf.data.Dataset.from_tensor_slices(list(packed.paths)).flat_map(far.records).map(parse).map(decode)
print(far.describe())
labkit.measure({"64 files": thumbnails(files), "4 shards": thumbnails(shards)}, instant, steps=2, warmup=1, repeats=5)

# %% [markdown]
# One wait for each shard, in place of one for each photo: this is the whole gain. Parallel reads (notebook 03) hide such waits; shards avoid them.
#
# ## The timeline ▸
#
# Near: what is left when no JPEG is decoded?

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("records, JPEG"), result.trace("records, pixels"), labels=("JPEG", "pixels"), steps=3)

# %% [markdown]
# ## Explain
#
# In the upper picture, *decode* takes most of the time. In the lower one it is gone, and still a batch takes time: to read several times as many bytes, and to resize (`ResizeNearestNeighbor`), which each form has to do. A step that disappears gains no more than its own share. If you pack pixels, resize them first.
#
# Space and time side by side; a thin line is the spread of the rounds:

# %% tags=["nbval-ignore-output"]
megabytes = {"JPEG files": album.sizes.sum() / 1e6}
megabytes |= {name: shards.bytes / 1e6 for name, shards in forms.items()}
megabytes["pickle, pixels"] = (place / "pixels.pickle").stat().st_size / 1e6
panels = {"MB on disk": megabytes, "ms per image": result.per_image()}
charts.panels(panels, title="What each form costs", note="64 photos in a warm page cache; short bars are better.")

# %% [markdown]
# With a warm page cache, more bytes are fast. From a slow disk they take time. When do they cost more than decoding? The explorer begins with what *JPEG files* cost on your machine, but it maps on all cores and prefetches.

# %% tags=["nbval-ignore-output"]
explorers.explore("07", trace=result.trace("JPEG files"), train_ms=10)

# %% [markdown]
# ## Smaller than what?
#
# One published source says that TFRecords *save* almost half of the space, another that they take *more*. Both can be right:

# %% tags=["nbval-ignore-output"]
for name, size in megabytes.items():
    to_pixels, to_files = size / megabytes["records, pixels"] - 1, size / megabytes["JPEG files"] - 1
    print(f"{name:22} against pixels {to_pixels:+5.0%}    against JPEG files {round(to_files, 2) + 0:+5.0%}")

# %% [markdown]
# A percentage means nothing without its base. The content decides, not the container. GZIP finds nothing to save in JPEG bytes; in pixels it saves a little, and unpacking costs time in every epoch.
#
# ## Pickles, and sets of others
#
# A pickle can be as fast as a record. But one thread at a time can unpack it (the [GIL](../docs/glossary.md#gil)), only Python can read it, and it can run code when it is loaded:

# %%
class Surprise:
    def __reduce__(self):
        return print, ("This line was printed by a pickle.",)


pickle.loads(pickle.dumps(Surprise()))

# %% [markdown]
# TensorFlow Datasets keeps its sets in TFRecords, too. After `photos.load()`, its own `tfds.load` finds the lab's photos by name. The first call packs them, without a network.

# %% tags=["nbval-ignore-output"]
if reason := photos.load().note:  # tensorflow-datasets is missing: what to install
    print(reason)
else:
    import tensorflow_datasets as tfds

    print(tfds.load("lab_photos", split="train").element_spec)

# %% [markdown]
# ## Read ▸
#
# **07.1** Which job reads small files far away, which reads records, and which decoded pixels? Answer as `{"A": "records", "B": …, "C": …}`, or by clicks.

# %% tags=["nbval-ignore-output"]
read("07.1")

# %% tags=["stub"]
answer = ...

# %% tags=["solution"]
answer = {"A": "decoded pixels", "B": "small files far away", "C": "records"}

# %%
check("07.1", answer)

# %% [markdown]
# ## Exercises
#
# **07.2** A reader that says what is wrong. The features are called `photo` (bytes) and `class` (a whole number), and in some records one is missing. `read_shard(path)` delivers `(image bytes, label)` of each record, as a dataset or a generator. At the first record that lacks a feature it raises an error that names the feature and the number of the record, counted from 0. About eight lines. (In a map: `VarLenFeature` may be empty, and `tf.debugging.Assert` stops with a list of values; `tf.control_dependencies` lets the rest wait for it. In Python: `enumerate` and `try`.)

# %% tags=["stub"]
def read_shard(path):
    ...  # your code

# %% tags=["solution"]
def read_shard(path):
    features = {"photo": tf.io.VarLenFeature(tf.string), "class": tf.io.VarLenFeature(tf.int64)}

    def parse(number, record):
        found = tf.io.parse_single_example(record, features)
        there = [(name, tf.size(found[name].values) == 1) for name in features]
        checks = [tf.debugging.Assert(one, ["record", number, "has no", name]) for name, one in there]
        with tf.control_dependencies(checks):
            return found["photo"].values[0], found["class"].values[0]

    return tf.data.TFRecordDataset(path).enumerate().map(parse)

# %%
try_it("07.2", read_shard)
check("07.2", read_shard)

# %% [markdown]
# ## Your pipeline

# %% tags=["nbval-ignore-output"]
my_pipeline.step("07")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("07")

# %% [markdown]
# ## Without the lab
#
# At work: is it worth it to pack? Time each part, and trust only large differences. (The second pays for the start of a dataset, and for a call from Python for each record.)

# %% tags=["nbval-ignore-output"]
def ms_each(items):
    start = perf_counter()
    number = sum(1 for _ in items)
    return 1000 * (perf_counter() - start) / number


jpegs = [tf.io.read_file(path) for path in album.paths]
print(f"open and read a file: {ms_each(map(tf.io.read_file, album.paths)):.2f} ms")
print(f"the next of a shard:  {ms_each(tf.data.TFRecordDataset(packed.paths)):.2f} ms")
print(f"decode a photo:       {ms_each(map(tf.io.decode_jpeg, jpegs)):.2f} ms")

# %% [markdown]
# ## Recap
#
# You wrote `tf.Example` records and shards. The content decides the size. Near, decoding decides the time; far away, the number of opens does.
#
# ## In practice
#
# - Pack JPEG bytes, uncompressed, if files are many or far away. On a local disk with a warm page cache, keep the files.
# - Pack pixels if disk space is plentiful and decoding is the bottleneck. Resize first.
# - Do not use pickles for training data. Tar files (WebDataset), ArrayRecord and Parquet are packed files, too: the same two questions decide, content and distance.
#
# **Next:** [08 Build a circuit](08_build_a_circuit.ipynb): the work that is left, as a circuit. Two optional notebooks come before it: [07b Find silent errors](07b_find_silent_errors.ipynb) shows augmentations that do nothing, and [07c Survive damaged files](07c_survive_damaged_files.ipynb) shows records that get lost.
