# %% [markdown]
# # Pack into TFRecords
#
# **You will** pack photos into a few large files, as JPEG bytes and as pixels, and compare the space and the time of each form.
#
# **You will learn** what `tf.Example` and shards are, which form saves disk space, which form saves time, and what a pickle costs.
#
# **You need** notebook 03. No GPU. About 60 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, charts, photos, plain, records, storage

# %% [markdown]
# ## The idea
#
# Packed files save opens, because many photos are read from one file. In an object store far away, an open takes longer than everything else. On a disk of your own, decoding does, and the same JPEG bytes in one file gain little. Packed pixels save decoding, too, but they are more bytes to read.

# %%
idea("07")

# %% [markdown]
# ## Predict
#
# A TFRecord file can hold a photo as the bytes of its JPEG file, or as decoded pixels. Pixels take about five times the disk space (notebook 05), and they need no decoder. Suppose that all files are in the [page cache](../docs/glossary.md#page-cache), so that reading them is fast. How many times faster does a pipeline load packed *pixels* than *JPEG files*? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("07.speed", ..., unit="times")

# %% [markdown]
# ## Build
#
# Everything that this notebook writes goes into a folder of its own. A TFRecord file is a row of *records*. Each record is a length, a checksum, some bytes and another checksum. The bytes are usually a `tf.Example`: a small dictionary with lists of bytes, floats or whole numbers.

# %%
import tempfile
from pathlib import Path

album = photos.load().take(64)
room = tempfile.TemporaryDirectory()
place = Path(room.name)

# %%
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
# The reader must know the name, the shape and the type of each feature:

# %%
def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(record, features)
    return found["image"], found["label"]

# %% [markdown]
# ### Shards
#
# A set is split into several files, called [shards](../docs/glossary.md#shard), so that several readers can share it. `records.write` does the work above for all photos. It writes each shard under another name and renames it when it is complete. If the job stops, no half shard is left, and the same call continues the work.

# %%
packed = records.write(album, place / "jpeg", shards=4)
print(packed.count, "records in", len(packed), "shards")
print("the first record is the message above:", bool(next(iter(tf.data.TFRecordDataset(packed.paths))) == message))

# %% [markdown]
# How many shards? A rule from a lecture (Protopapas and Jayaram, *Productionizing AI*, 7) has two parts: ten shards for each server that reads, and shards of at least 10 MB, better 100 MB. Here is the plan for its example, 30 GB and eight servers, and the plan for your photos and one server:

# %% tags=["nbval-ignore-output"]
for size, servers in ((30e9, 8), (photos.load().sizes.sum(), 1)):
    plan = records.plan(size, servers)
    print(f"{size / 1e6:,.0f} MB: {plan.shards} shards, because: {plan.why}")

# %% [markdown]
# For small sets the two parts of the rule disagree. Then the size wins: tiny shards bring back the cost of opening files, and a server needs only one shard to have work.
#
# ## Run
#
# Now write the other forms. *Pixels* are one byte for each value. GZIP compresses each file as a whole.

# %% tags=["nbval-ignore-output"]
forms = {
    "records, JPEG": packed,
    "records, JPEG, GZIP": records.write(album, place / "jpeg_gzip", 4, "GZIP"),
    "records, pixels": records.write(album, place / "pixels", 4, form="raw"),
    "records, pixels, GZIP": records.write(album, place / "pixels_gzip", 4, "GZIP", form="raw"),
}
print(*forms.values(), sep="\n")

# %% [markdown]
# All pipelines decode where they must, and then pick the same 224×224 pixels out of each photo. Picking is cheap, so reading and decoding take most of the time. Nothing is shuffled, so all pipelines do the same work.

# %%
def decode(jpeg, label):
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE"), label


def decode_file(path, label):
    return decode(tf.io.read_file(path), label)


def thumbnails(dataset):
    small = dataset.map(lambda image, label: (tf.image.resize(image, [224, 224], method="nearest"), label))
    return plain(small.batch(16))

# %% [markdown]
# Python has a format of its own, the *pickle*. The next cell writes all photos into one file, one pickle after the other. Only Python can read a pickle, so TensorFlow must ask a Python generator for each photo.

# %%
import pickle

with open(place / "jpeg.pickle", "wb") as jpegs, open(place / "pixels.pickle", "wb") as pixels:
    for path, label in zip(album.paths, album.labels.tolist()):
        image, _ = decode_file(path, label)
        pickle.dump((Path(path).read_bytes(), label), jpegs)
        pickle.dump((image.numpy(), label), pixels)

# %%
def unpickled(name, image):
    def generate():
        with open(place / name, "rb") as file:
            for _ in range(len(album)):
                yield pickle.load(file)

    return tf.data.Dataset.from_generator(generate, output_signature=(image, tf.TensorSpec([], tf.int64)))

# %%
variants = {"JPEG files": album.files().map(decode_file)}
for name, shards in forms.items():
    stored = tf.data.TFRecordDataset(shards.paths, shards.compression)
    variants[name] = stored.map(records.parse_raw) if shards.form == "raw" else stored.map(parse).map(decode)
variants["pickle, JPEG"] = unpickled("jpeg.pickle", tf.TensorSpec([], tf.string)).map(decode)
variants["pickle, pixels"] = unpickled("pixels.pickle", tf.TensorSpec([None, None, 3], tf.uint8))

# %% tags=["nbval-ignore-output"]
instant = accelerators.modelled(step_ms=0.001)
variants = {name: thumbnails(dataset) for name, dataset in variants.items()}
result = labkit.measure(variants, instant, steps=3, warmup=1)
result

# %% [markdown]
# Space and time side by side. A thin line shows the spread of the rounds: where the lines of two forms overlap, do not say that one form is faster.

# %% tags=["nbval-ignore-output"]
megabytes = {"JPEG files": album.sizes.sum() / 1e6}
megabytes |= {name: shards.bytes / 1e6 for name, shards in forms.items()}
megabytes |= {f"pickle, {form}": (place / f"{form.lower()}.pickle").stat().st_size / 1e6 for form in ("JPEG", "pixels")}
panels = {"MB on disk": megabytes, "ms per image": result.per_image()}
charts.panels(panels, title="What each form costs", note="64 photos in a warm page cache; short bars are better.")

# %% [markdown]
# And your prediction? The model takes the times of *JPEG files*, leaves the decoding out, and lets the reading take longer, because pixels are more bytes:

# %% tags=["nbval-ignore-output"]
timeline = labkit.Timeline(result.trace("JPEG files"))
jpeg_ms, work = 1000 / timeline.images_per_s, timeline.per_image_ms
times_the_bytes = megabytes["records, pixels"] / megabytes["JPEG files"]
pixels_ms = jpeg_ms - work["decode"] + (times_the_bytes - 1) * work["read"]
predictions.review("07.speed", model=jpeg_ms / pixels_ms, measured=result.speedup("records, pixels"))

# %% [markdown]
# When do more bytes cost more time than decoding? The explorer begins with what *JPEG files* cost on your machine; [F, P and G](../docs/glossary.md#f-p-g) are the speeds of reading, preparing and training.

# %% tags=["nbval-ignore-output"]
explorers.explore("07", trace=result.trace("JPEG files"), train_ms=10)

# %% [markdown]
# ### Two sources that contradict each other
#
# One set of slides (Sachin, *Input Data Pipeline Analysis*) reports that TFRecords *save* 45 % of the disk space, and pickles 28 %. The lecture above says that they take *more*. Compare each form with the pixels and with the JPEG files:

# %% tags=["nbval-ignore-output"]
for name, size in megabytes.items():
    to_pixels, to_files = size / megabytes["records, pixels"] - 1, size / megabytes["JPEG files"] - 1
    print(f"{name:22} against pixels {to_pixels:+5.0%}    against JPEG files {to_files:+5.0%}")

# %% [markdown]
# Both sources can be right, because they compare with different things. Nearly everything is smaller than pixels, and pixels are larger than JPEG files in every container. The container itself adds only some dozens of bytes to a photo. So a percentage means nothing without its base.
#
# GZIP finds nothing to save in JPEG bytes, because they are compressed already. In pixels it saves what the photos allow, less than JPEG, and unpacking costs time in every epoch. ZLIB is the same algorithm with another header. The slides also name *snappy*, which TensorFlow's record reader does not know.
#
# ### The price of a pickle
#
# In the table, pickles can be as fast as records. They still have three faults. Only one thread can unpack them at a time, because Python has one lock for all its threads, the [GIL](../docs/glossary.md#gil): more parallel calls do not help. Only Python can read them. And a pickle can run code when it is loaded, so never load a pickle of a stranger:

# %%
class Surprise:
    def __reduce__(self):
        return print, ("This line was printed by a pickle.",)


pickle.loads(pickle.dumps(Surprise()))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("records, JPEG"), result.trace("records, pixels"), labels=("JPEG", "pixels"), steps=3)

# %% [markdown]
# ## Explain
#
# In the upper picture, *decode* takes most of the time, and *read* is a thin line. In the lower picture no JPEG is decoded. The little *decode* that is left turns bytes into pixels. Reading, copying and resizing remain, and there are several times as many bytes to read.
#
# With a warm page cache these bytes are fast. From a slow disk they take time. So pixels win where decoding is the bottleneck, and JPEG bytes win where the storage is the bottleneck.
#
# And JPEG records against JPEG files? On a local disk with a warm page cache, opening a file costs little, so there is little to gain: look at the verdict in the table. Over a network, every open is a request. A modelled object store lets each request wait about 30 ms:

# %% tags=["nbval-ignore-output"]
far = storage.PRESETS["object store"]
files = album.files().map(lambda path, label: decode(far.read(path), label))
shards = tf.data.Dataset.from_tensor_slices(list(packed.paths)).flat_map(far.records).map(parse).map(decode)
distant = {"64 files": thumbnails(files), "4 shards": thumbnails(shards)}
labkit.measure(distant, instant, steps=2, warmup=1, repeats=5)

# %% [markdown]
# There is one wait for each shard instead of one wait for each photo. This is the whole gain. Parallel reads (notebook 03) hide such waits, and shards avoid them.
#
# ## Exercises
#
# **07.1** Write `shards_for(total_mb, servers)`, the number of shards: ten for each server. If these shards would be smaller than 10 MB, take fewer: the largest number of shards with at least 10 MB each. But each server gets at least one shard. One line.

# %% tags=["stub"]
def shards_for(total_mb, servers):
    ...  # your code

# %% tags=["solution"]
def shards_for(total_mb, servers):
    return max(servers, min(10 * servers, total_mb // 10))

# %%
try_it("07.1", shards_for)
check("07.1", shards_for)

# %% [markdown]
# **07.2** Write `parse_record(serialized)`: `(image bytes, label)` of one record. Its features have the names `photo` (bytes) and `class` (a whole number). A record without one of them is an error.

# %% tags=["stub"]
def parse_record(serialized):
    ...  # your code

# %% tags=["solution"]
def parse_record(serialized):
    features = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(serialized, features)
    return found["photo"], found["class"]

# %%
try_it("07.2", parse_record)
check("07.2", parse_record)

# %% [markdown]
# ## Recap
#
# You wrote `tf.Example` records and shards. You compared the space and the time of seven forms of the same photos, and you saw why two sources disagree about size. The content decides the size, and decoding decides the time, as long as the files are near.
#
# ## In practice
#
# - Pack JPEG bytes, uncompressed, if files are many or far away. On a local disk with a warm page cache, keep the files.
# - Pack pixels if the photos are small, or if disk space is plentiful and decoding is the bottleneck. Resize first.
# - Do not use pickles for training data.
# - WebDataset (tar files), ArrayRecord (with access to every single record) and Parquet (tables) are packed files, too: the same two questions decide, content and distance.
#
# **Next:** [08 Offload to an FPGA](08_offload_to_an_fpga.ipynb): the work that is left, done beside the disk. Two optional notebooks come before it: [07b Find silent errors](07b_find_silent_errors.ipynb) shows augmentations that do nothing, and [07c Survive damaged files](07c_survive_damaged_files.ipynb) shows records that get lost.
