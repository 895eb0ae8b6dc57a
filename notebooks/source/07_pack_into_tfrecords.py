# %% [markdown]
# # Pack into TFRecords
#
# **You will** pack photos into a few large files, as JPEGs and as pixels, compressed and not, weigh and time each form, then break the files and find out what is lost.
#
# **You will learn** what `tf.Example` and shards are, which form saves disk and which saves time, and which errors make no noise.
#
# **You need** notebook 03. No GPU. About 45 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from labkit import accelerators, charts, checks, damage, explorers, photos, plain, predictions, records, storage

# %% [markdown]
# ## Predict
#
# A TFRecord can hold a photo as the bytes of its JPEG file, or as decoded pixels, one byte a value. Decoded pixels need no decoding again. How many times the disk space do they take? Commit yourself, then look in the explorer at which bandwidth more bytes cost more time than decoding:

# %% tags=["nbval-ignore-output"]
print(predictions.commit("07.space", 2.0, unit="times"))
explorers.explore("07")

# %% [markdown]
# ## Build
#
# A TFRecord file is a row of *records*: length, checksum, bytes, checksum. The bytes are usually a `tf.Example`, a small dictionary whose values are lists of bytes, floats or whole numbers:

# %%
everything = photos.load()
album = everything.take(64)
room = tempfile.TemporaryDirectory()
place = Path(room.name)


def example(image, label):
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


first = example(Path(album.paths[0]).read_bytes(), int(album.labels[0]))
with tf.io.TFRecordWriter(str(place / "first.tfrecord")) as writer:
    writer.write(first.SerializeToString(deterministic=True))
overhead = os.path.getsize(place / "first.tfrecord") - album.sizes[0]
print(sorted(first.features.feature), f"and {overhead} bytes around the photo")

# %% [markdown]
# Reading goes the other way. The features are declared by name, shape and type:

# %%
def parse(record):
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    found = tf.io.parse_single_example(record, features)
    return found["image"], found["label"]

# %% [markdown]
# ### Shards, and a writer that may be interrupted
#
# A set is split over several files, *shards*, so that several readers can share them. Writing takes long, and long jobs get interrupted. `records.write` writes each shard aside, renames it when it is whole, and notes its count and checksum. Interrupt it in its third shard:

# %%
def interrupt(done, total):
    if done % 16 == 0:
        print(f"{done} of {total}")
    if done == 40:
        raise KeyboardInterrupt


try:
    records.write(album, place / "jpeg", shards=4, progress=interrupt)
except KeyboardInterrupt:
    print(*sorted(path.name for path in (place / "jpeg").iterdir()))

# %% [markdown]
# Two whole shards and the list of what is done (`shards.json`), no half shard. The same call again checks them and goes on; `progress=True` would show a bar. Another setting in the same folder is refused:

# %%
resumed = []
packed = records.write(album, place / "jpeg", shards=4, progress=lambda done, total: resumed.append(done))
print(f"went on at photo {resumed[0]}; {packed.count} records")
same = next(iter(tf.data.TFRecordDataset(packed.paths))) == first.SerializeToString(deterministic=True)
print("the bytes of tf.train.Example:", bool(same))
try:
    records.write(album, place / "jpeg", shards=4, compression="GZIP")
except ValueError as error:
    print(str(error).replace(str(place), "…"))

# %% [markdown]
# ### How many shards?
#
# A rule of thumb from a lecture (Protopapas and Jayaram, *Productionizing AI*, 7): ten shards for each server that reads, and 10 MB a shard, better 100. Its example is 30 GB and 8 servers; then your photos, for one server and for eight:

# %%
print(records.plan(30e9, servers=8))

# %% tags=["nbval-ignore-output"]
total = int(everything.sizes.sum())
for servers in (1, 8):
    print(f"{total / 1e6:.0f} MB:", records.plan(total, servers))

# %% [markdown]
# The halves of the rule can disagree. Then size wins: tiny shards bring back the cost of opening files, while a server needs only one shard to have work.
#
# ## Run
#
# Now every form: JPEG bytes and pixels, each plain, with GZIP and with ZLIB. Beside them Python's own format, one pickle after the other in a file. Only Python can read it, hence `from_generator`.

# %% tags=["nbval-ignore-output"]
forms = {}
for form in ("jpeg", "raw"):
    for compression in ("", "GZIP", "ZLIB"):
        name = f"{form} {compression}".strip()
        forms[name] = records.write(album, place / name.lower(), 4, compression, form=form)
print(*forms.values(), sep="\n")

# %%
def decode(jpeg, label):
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE"), label


with open(place / "jpeg.pickle", "wb") as jpegs, open(place / "raw.pickle", "wb") as pixels:
    for path, label in zip(album.paths, album.labels, strict=True):
        jpeg = Path(path).read_bytes()
        pickle.dump((jpeg, int(label)), jpegs)
        pickle.dump((decode(jpeg, label)[0].numpy(), int(label)), pixels)


def unpickled(name, image):
    def generate():
        with open(place / name, "rb") as file:
            for _ in range(len(album)):
                yield pickle.load(file)

    return tf.data.Dataset.from_generator(generate, output_signature=(image, tf.TensorSpec([], tf.int64)))

# %% [markdown]
# All end in the same small pictures of 224×224, made by picking pixels, so that reading and decoding dominate. No shuffle here: shards and pickles keep the album's order, so the work is equal.

# %%
def thumbnail(image, label):
    return tf.image.resize(image, [224, 224], method="nearest"), label


def thumbnails(dataset):
    return plain(dataset.map(thumbnail).batch(16))


def unpacked(shards):
    stored = tf.data.TFRecordDataset(shards.paths, shards.compression)
    return stored.map(records.parse_raw) if shards.form == "raw" else stored.map(parse).map(decode)

# %% tags=["nbval-ignore-output"]
bytes_, pixels_ = tf.TensorSpec([], tf.string), tf.TensorSpec([None, None, 3], tf.uint8)
variants = {"JPEG files": thumbnails(album.files().map(lambda path, label: decode(tf.io.read_file(path), label)))}
variants |= {f"records, {name}": thumbnails(unpacked(shards)) for name, shards in forms.items()}
variants["pickle, jpeg"] = thumbnails(unpickled("jpeg.pickle", bytes_).map(decode))
variants["pickle, raw"] = thumbnails(unpickled("raw.pickle", pixels_))
quick = accelerators.modelled(step_ms=1)
result = labkit.measure(variants, quick, steps=3, warmup=1, repeats=5)
result

# %% [markdown]
# Space and time side by side: megabytes, their difference from the decoded pixels and from the JPEG files, and milliseconds an image to read and decode (shrinking and step included), with the lowest and highest round.

# %% tags=["nbval-ignore-output"]
sizes = {"JPEG files": int(album.sizes.sum())} | {f"records, {name}": s.bytes for name, s in forms.items()}
sizes |= {f"pickle, {form}": os.path.getsize(place / f"{form}.pickle") for form in ("jpeg", "raw")}
decoded = sum(math.prod(tf.io.decode_jpeg(tf.io.read_file(path), channels=3).shape) for path in album.paths)
rounds = {name: sorted(1000 / one.images_per_s for one in result[name]) for name in sizes}
print(f"{'':20}{'MB':>6} {'to pixels':>10} {'to JPEGs':>9}  ms per image")
for name, size in sizes.items():
    low, middle, high = rounds[name][0], statistics.median(rounds[name]), rounds[name][-1]
    change = f"{size / decoded - 1:+10.0%} {size / sizes['JPEG files'] - 1:+9.0%}"
    print(f"{name:20}{size / 1e6:6.1f} {change}  {middle:.2f} [{low:.2f}–{high:.2f}]")
charts.points(
    {name: (size / 1e6, statistics.median(rounds[name])) for name, size in sizes.items()},
    x_label="disk space [MB]", y_label="read and decode [ms per image]",
    title="What each form costs", note="64 photos in a warm page cache; left and low is good",
)

# %% tags=["nbval-ignore-output"]
ratio = sizes["records, raw"] / sizes["JPEG files"]
predictions.review("07.space", model=decoded / sizes["JPEG files"], measured=ratio)

# %% [markdown]
# In the picture of space and time, the content decides how far right a form lies; within a column, height is the cost of unpacking it. Where points lie close, look at the lowest and highest round before you choose.
#
# ### Two sources that contradict each other
#
# One set of slides (Sachin, *Input Data Pipeline Analysis*) reports that TFRecords *save* 45 % of the disk, and pickles 28 %. The lecture above says that they take *more*. The two columns settle it. Each is a comparison with something else: nearly everything is smaller than decoded pixels, and decoded pixels are larger than JPEG files, in whatever container. The container itself adds a few dozen bytes a photo. The percentage belongs to the *content* and to the *base*, not to TFRecord or pickle; a figure without its base says nothing.
#
# GZIP and ZLIB are the same algorithm in two wrappers. On JPEG bytes they find nothing left to squeeze. On pixels they save what the picture allows, far less than JPEG, and unpacking costs time in every epoch. The same slides offer *snappy*; the Python API does not:

# %%
try:
    tf.io.TFRecordWriter(str(place / "snappy.tfrecord"), "SNAPPY")
except ValueError as error:
    print(error)

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("records, jpeg"), result.trace("records, raw"), labels=("records, jpeg", "records, raw"), steps=3)

# %% [markdown]
# ## Explain
#
# Above, *decode* takes most of the time, and *read* is a thin line. Below, no JPEG is decoded (a trace of *decode* is left: turning bytes into pixels); what remains is reading several times as many bytes, copying them, and the shrinking. With a warm page cache that is usually a bargain; the verdict above says whether it is one here. From a slow disk those bytes take time: pixels win where decoding is the bottleneck, JPEGs where the storage is.
#
# And JPEG records beside JPEG files? Look at the verdict: on a local disk with a warm page cache an open costs little, so there is little to win. It is different where every open is a request over a network. A modelled object store waits some 30 ms for each:

# %% tags=["nbval-ignore-output"]
far = storage.PRESETS["object store"]
singly = thumbnails(album.files().map(lambda path, label: decode(far.read(path), label)))
shards = tf.data.Dataset.from_tensor_slices(list(packed.paths)).flat_map(far.records)
distant = {"64 files": singly, "4 shards": thumbnails(shards.map(parse).map(decode))}
remote = labkit.measure(distant, quick, steps=2, warmup=1, repeats=3)
remote

# %% [markdown]
# One wait for each shard, instead of one for each photo: that is all of the gain. Parallel reads (notebook 03) hide such waits; shards avoid them.
#
# ## Small records, and errors that make no noise
#
# Pictures of 32×32 pixels, as in CIFAR-10, are stored as pixels: 3,072 bytes each, too little for a file of its own. The usual augmentation pads, crops, flips, rotates, and cuts a hole. All of it is plain TensorFlow:

# %%
with tf.io.TFRecordWriter(str(place / "small.tfrecord")) as writer:
    for path, label in zip(album.paths, album.labels, strict=True):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        small = tf.cast(tf.image.resize(image, [32, 32], method="area"), tf.uint8)
        writer.write(example(small.numpy().tobytes(), int(label)).SerializeToString())


def parse_small(record):
    pixels, label = parse(record)
    image = tf.reshape(tf.io.decode_raw(pixels, tf.uint8), [32, 32, 3])
    return tf.image.convert_image_dtype(image, tf.float32), label


def rotate(image, radians):
    cos, sin, middle = tf.cos(radians), tf.sin(radians), 15.5  # the centre lies between pixels 15 and 16
    x, y = middle * (1 - cos + sin), middle * (1 - sin - cos)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None], transforms=[[cos, -sin, x, sin, cos, y, 0, 0]], output_shape=[32, 32],
        fill_value=0, interpolation="BILINEAR", fill_mode="REFLECT",
    )[0]  # fmt: skip

# %%
def cutout(image, size=8):
    top, left = tf.unstack(tf.random.uniform([2], 0, 32 - size + 1, tf.int32))
    row, column = tf.range(32)[:, None], tf.range(32)
    hole = (row >= top) & (row < top + size) & (column >= left) & (column < left + size)
    return tf.where(hole[..., None], 0.0, image)


def augment(image, label):
    image = tf.pad(image, [[4, 4], [4, 4], [0, 0]], mode="REFLECT")
    image = tf.image.random_crop(image, [32, 32, 3])
    image = tf.image.random_flip_left_right(image)
    image = rotate(image, tf.random.uniform([], -5, 5) * math.pi / 180)
    return cutout(image), label

# %% [markdown]
# A published assignment wrote two of these steps like this. `tf.contrib.image.rotate` is gone, so its rotation is put in here; the errors are its own:

# %%
def rotate_as_found(image):
    return rotate(image, tf.constant((np.random.rand() - 0.5) * math.pi / 18, tf.float32))


def cutout_as_found(image, size=8):
    top, left = tf.unstack(tf.random.uniform([2], 0, 32 - size, tf.int32))
    where = tf.stack(tf.meshgrid(tf.range(top, size), tf.range(left, size), indexing="ij"), axis=-1)
    tf.tensor_scatter_nd_update(image, where, tf.zeros([size, size, 3]))
    return image

# %% [markdown]
# Both run without a word, and no clock would notice. `checks.probe` looks at the data instead: it maps one step many times over one picture. Then the black pixels of the correct hole are counted (8×8 on white pictures), and `checks.inspect` compares the whole correct pipeline with the stored pictures.

# %%
stored = tf.data.TFRecordDataset(str(place / "small.tfrecord")).map(parse_small)
picture, _ = next(iter(stored))
for step in (rotate_as_found, cutout_as_found, cutout):
    report = checks.probe(step, picture, name=step.__name__)
    print(step.__name__, *[finding.text for finding in report.faults] or ["no fault"], sep="\n  ")
white = tf.data.Dataset.from_tensors(tf.ones([32, 32, 3])).repeat(100)
print("black pixels in a hole:", {int(tf.reduce_sum(1 - image[..., 0])) for image in white.map(cutout)})
print("augment:", *checks.inspect(stored.map(augment), stored, random=True).faults or ["no fault"])

# %% [markdown]
# `np.random` is Python. It ran once, when the map was traced, and its number became a constant of the graph: every picture is turned by the same angle, in every epoch.
#
# `tensor_scatter_nd_update` returns a *new* image, which was thrown away. TensorFlow then drops the whole computation, and with it a second error: `range(top, size)` has a start and an *end*; it needs `top + size`. Called outside a map, where nothing is dropped, the same function complains:

# %%
try:
    for _ in range(10):
        cutout_as_found(picture)
except tf.errors.InvalidArgumentError as error:
    print(type(error).__name__)

# %% [markdown]
# ## Damaged input
#
# Disks fill up, copies break off, bits flip. `damage.plant` damages one of four copied shards, in its sixth record (number 5, since records count from 0). See what TensorFlow reads before it stops, what it reads with `ignore_errors`, and what labkit finds without TensorFlow.

# %%
def read(dataset):
    seen = 0
    try:
        for _ in dataset:
            seen += 1
    except tf.errors.OpError as error:
        return f"{seen}, then {type(error).__name__}", damage.error_text(error)
    return f"{seen}, no error", ""


said, found = {}, {}
print(f"{'of 64 records':14}{'TensorFlow':26}{'ignore_errors':16}rescued")
for kind in [kind for kind in damage.KINDS if kind != "huge length"]:
    broken = damage.plant(packed, kind, place / kind, shard=1, record=5)
    stream = tf.data.TFRecordDataset(broken.paths)
    count, said[kind] = read(stream)
    found[kind] = damage.find(broken)
    print(f"{kind:14}{count:26}{read(stream.ignore_errors())[0]:16}{sum(1 for _ in damage.rescue(broken))}")

# %% [markdown]
# Read it row by row. *flip*: one bit is wrong, TensorFlow stops the job. `ignore_errors` keeps it running and drops not one record but the rest of the shard, without an error. *text* is no TFRecord file at all: TensorFlow says so, `ignore_errors` swallows the whole shard. *tail*: three bytes too many, nothing lost. *cut header*, *cut between*, *empty*: records are missing, and not even TensorFlow's plain reader notices. A TFRecord file does not know how many records it should have, so only a stored count reveals the loss: compare with `shards.count`, once an epoch.
#
# Where is it? TensorFlow gives a byte and no file name; labkit names shard and record. A compressed shard has no borders between records: what lies before the damage is saved, and behind it what can still be unpacked and agrees with its checksum.

# %% tags=["nbval-ignore-output"]
for kind, report in found.items():
    print(f"{kind}\n  TensorFlow: {said[kind] or 'nothing'}\n  labkit: {report.faults[0]}")
for kind in ("flip", "cut"):
    broken = damage.plant(forms["jpeg GZIP"], kind, place / f"gzip {kind}", shard=1, record=5)
    count, sentence = read(tf.data.TFRecordDataset(broken.paths, "GZIP"))
    print(f"GZIP, {kind}\n  TensorFlow: {count}: {sentence}\n  labkit: {damage.find(broken)}")

# %% [markdown]
# Skip and count, instead of dying or losing in silence: `damage.find` counts, and `damage.rescue` yields every whole record, also those behind the damage, as it searches for the next length that agrees with its checksum.

# %%
broken = damage.plant(packed, "flip", place / "again", shard=1, record=5)
saved = tf.data.Dataset.from_generator(lambda: damage.rescue(broken), output_signature=tf.TensorSpec([], tf.string))
print(read(saved.map(parse).map(decode))[0], "- lost:", damage.find(broken).lost)

# %% [markdown]
# One kind is worse: a length that is impossible, 100 GB, with a checksum that agrees. TensorFlow tries to hold it, so let a process of its own read it:

# %% tags=["nbval-ignore-output"]
broken = damage.plant(packed, "huge length", place / "huge", shard=1, record=5)
code = f"import tensorflow as tf; print(sum(1 for _ in tf.data.TFRecordDataset({broken.paths!r})))"
child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print("exit code", child.returncode, "(negative: killed by that signal; 1: an ordinary error)")
print(damage.find(broken))

# %% [markdown]
# Last, whole shards and a wrong feature name. The message says what is missing, and the record says what is there. `ignore_errors` would return an empty epoch:

# %%
def parse_wrong(record):
    return tf.io.parse_single_example(record, {"img": tf.io.FixedLenFeature([], tf.string)})["img"]


stream = tf.data.TFRecordDataset(packed.paths)
print(read(stream.map(parse_wrong))[1])
print("there is:", sorted(tf.train.Example.FromString(next(iter(stream)).numpy()).features.feature))
print("ignored:", read(stream.map(parse_wrong).ignore_errors())[0])
room.cleanup()

# %% [markdown]
# ## Exercises
#
# **07.1** Write `shards_for(total_mb, servers)`: ten shards a server; fewer in all, as many as have 10 MB, where they would be smaller; but at least one a server. One line.

# %% tags=["stub"]
def shards_for(total_mb, servers):
    ...  # your code

# %% tags=["solution"]
def shards_for(total_mb, servers):
    return max(servers, min(10 * servers, total_mb // 10))

# %%
labkit.try_it("07.1", shards_for)
labkit.check("07.1", shards_for)

# %% [markdown]
# **07.2** Write `parse_record(serialized)`: `(image bytes, label)` of one record, whose features are named `photo` (bytes) and `class` (a whole number).

# %% tags=["stub"]
def parse_record(serialized):
    ...  # your code

# %% tags=["solution"]
def parse_record(serialized):
    features = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(serialized, features)
    return found["photo"], found["class"]

# %%
labkit.try_it("07.2", parse_record)
labkit.check("07.2", parse_record)

# %% [markdown]
# **07.3** Repair the hole: write `cut(image, top, left, size)`, the image with a black square of `size` pixels whose upper left corner is at (`top`, `left`).

# %% tags=["stub"]
def cut(image, top, left, size):
    ...  # your code

# %% tags=["solution"]
def cut(image, top, left, size):
    rows, columns = tf.range(top, top + size), tf.range(left, left + size)
    where = tf.stack(tf.meshgrid(rows, columns, indexing="ij"), axis=-1)
    return tf.tensor_scatter_nd_update(image, where, tf.zeros([size, size, 3]))

# %%
labkit.try_it("07.3", cut)
labkit.check("07.3", cut)

# %% [markdown]
# ## Recap
#
# You wrote `tf.Example` records and shards that survive an interruption, weighed and timed nine forms of the same photos, and saw why two sources disagree about size. You found augmentation errors by looking at data, and damage by counting.
#
# ## In practice
#
# - Pack JPEG bytes, uncompressed, when files are many or far away. On a local disk with a warm page cache, packing usually gains little: keep the files.
# - Store pixels for small pictures, or where disk is plentiful and decoding the bottleneck; resize first.
# - Keep a count and a checksum for each shard, and compare. Use `ignore_errors` only with a count behind it.
# - Probe every random step once, before a long job.
#
# **Next:** [08 Offload to an FPGA](08_offload_to_an_fpga.ipynb): the work that is left, done beside the disk.
