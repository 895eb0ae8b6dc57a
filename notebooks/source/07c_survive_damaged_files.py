# %% [markdown]
# # Survive damaged files
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** interrupt a job that writes shards, damage TFRecord files on purpose, and count what is lost.
#
# **You will learn** which damage TensorFlow reports, which damage it does not notice, and what `ignore_errors` really drops.
#
# **You need** notebook 07. No GPU. About 20 minutes. Special words, such as [shard](../docs/glossary.md#shard), are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
from pathlib import Path

import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labkit import accelerators, damage, photos, plain, records

# %% [markdown]
# ## The idea
#
# A damaged record stops the job. A job that ignores the error goes on, and then somebody must count what is missing.

# %%
idea("07c")

# %% [markdown]
# ## Predict
#
# Disks fill up, copies stop in the middle, and bits flip. 64 photos are packed into four shards of 16 records, and one bit is wrong in the sixth record of the second shard. TensorFlow would stop there, so somebody writes `ignore_errors()` behind the reader. How many of the 64 records arrive now? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("07c.records", ..., unit="images")

# %% [markdown]
# ## Build
#
# Write the shards first, and interrupt the job after 40 photos:

# %%
album = photos.load().take(64)
room = tempfile.TemporaryDirectory()
place = Path(room.name)


def interrupt(done, total):
    if done == 40:
        raise KeyboardInterrupt

# %%
try:
    records.write(album, place / "jpeg", shards=4, progress=interrupt)
except KeyboardInterrupt:
    print(*sorted(path.name for path in (place / "jpeg").iterdir()), sep="\n")

# %% [markdown]
# Two shards are complete, and no half shard is left. `shards.json` holds the number of records and a checksum for each complete shard. The same call again checks these two shards and writes the other two:

# %%
packed = records.write(album, place / "jpeg", shards=4)
print(packed.count, "records in", len(packed), "shards")

# %% [markdown]
# ## Run
#
# `damage.plant` copies the shards and damages one copy. Here it flips one bit in record 5 (records count from 0) of shard 1:

# %%
def count(dataset):
    seen = 0
    try:
        for _ in dataset:
            seen += 1
    except tf.errors.OpError as error:
        print(damage.error_text(error))
    return seen


flipped = damage.plant(packed, "flip", place / "flip", shard=1, record=5)

print(count(tf.data.TFRecordDataset(flipped.paths)), "records before it stops")

# %% [markdown]
# The checksum of the record does not fit, so TensorFlow stops the job. And with `ignore_errors`?

# %% tags=["nbval-ignore-output"]
ignored = count(tf.data.TFRecordDataset(flipped.paths).ignore_errors())
predictions.review("07c.records", measured=ignored)

# %%
whole = packed.count - ignored - 1
print(f"{ignored} of {packed.count} records arrive: with the damaged one, {whole} whole ones are lost, and no error")

# %% [markdown]
# `ignore_errors` drops the rest of the shard. Nothing in the job says so. Other kinds of damage are not even an error for the plain reader:

# %% tags=["nbval-ignore-output"]
kinds = ("cut", "cut between", "empty", "tail")
broken = {kind: damage.plant(packed, kind, place / kind, shard=1, record=5) for kind in kinds}
for kind, shards in broken.items():
    print(f"{kind}: {damage.KINDS[kind]}")
    print("  delivered:", count(tf.data.TFRecordDataset(shards.paths)))

# %% [markdown]
# Only the first of these four stops the job. With *cut between* and *empty*, records are missing and TensorFlow does not notice: a TFRecord file does not know how many records it should have. With *tail*, nothing is lost.
#
# ## The timeline
#
# Does the speed show the loss? Compare one epoch of the complete shards with one epoch of the damaged shards:

# %% tags=["nbval-ignore-output"]
def epoch(shards):
    stored = tf.data.TFRecordDataset(shards.paths).ignore_errors()
    return plain(stored.map(records.parse).batch(8).prefetch(2))


ten = accelerators.modelled(step_ms=10)
epochs = labkit.measure({"complete": epoch(packed), "damaged": epoch(flipped)}, ten, steps=None)
epochs

# %% tags=["nbval-ignore-output"]
labkit.show(epochs.trace("complete"), epochs.trace("damaged"), labels=("complete", "damaged"))

# %% [markdown]
# ## Explain
#
# Step by step, both jobs look alike; the damaged job only ends earlier. The table refuses to compare their speeds: it counts the images of a whole epoch of each job, and the numbers differ. Only a count shows this loss.
#
# Where is the damage? TensorFlow reports a byte offset but no file name. (Here it is that of the payload, twelve bytes behind the beginning of the record.) `damage.find` reads the files without TensorFlow and names the shard and the record:

# %% tags=["nbval-ignore-output"]
print(damage.find(flipped))
print(damage.find(broken["cut between"]))

# %% [markdown]
# Every record begins with its length and a checksum of that length. So a reader can search for the next record behind the damage. `damage.rescue` delivers every complete record, also those behind the damage:

# %%
saved = tf.data.Dataset.from_generator(lambda: damage.rescue(flipped), output_signature=tf.TensorSpec([], tf.string))
print(count(saved.map(records.parse)), "rescued,", damage.find(flipped).lost, "lost")

# %% [markdown]
# `ignore_errors` hides mistakes in your own code, too. Here the shards are complete, and the name of a feature is wrong:

# %%
def parse_wrong(record):
    return tf.io.parse_single_example(record, {"img": tf.io.FixedLenFeature([], tf.string)})["img"]


stream = tf.data.TFRecordDataset(packed.paths).map(parse_wrong)
print("delivered:", count(stream))
print("delivered with ignore_errors:", count(stream.ignore_errors()))

# %% [markdown]
# The message says which feature is missing. With `ignore_errors` the epoch is empty, and there is no message.
#
# ## Exercises
#
# **07.4** A count that fails loudly. `counted(dataset, expected)` delivers the elements of `dataset`, as a dataset or a generator. If an epoch had fewer elements than `expected`, or more, it ends with an error. For an epoch that is too short, the error says both numbers. It counts while the elements pass: it reads them once, and keeps none.

# %% tags=["stub"]
def counted(dataset, expected):
    ...  # your code

# %% tags=["solution"]
def counted(dataset, expected):
    seen = 0
    for record in dataset:
        seen += 1
        yield record
    if seen != expected:
        raise ValueError(f"{seen} of {expected} records arrived")

# %%
try_it("07.4", counted)
check("07.4", counted)

# %% [markdown]
# ## Without the lab
#
# At work: count the records of each file once, when you write them, and compare before each training.

# %%
def records_in(path):
    return sum(1 for _ in tf.data.TFRecordDataset(str(path)))


expected = {Path(path).name: records_in(path) for path in packed.paths}  # keep it in a file beside the shards
for path in broken["cut between"].paths:
    if records_in(path) != expected[Path(path).name]:
        print(Path(path).name, "has", records_in(path), "records, expected", expected[Path(path).name])

# %% [markdown]
# ## Recap
#
# You interrupted a writer and continued it. You saw damage that stops a job, damage that nobody notices, and an option that drops the rest of a shard without a word. You found the place of the damage, and you rescued the records behind it.
#
# ## In practice
#
# - Store the number of records of each shard, and compare it with what arrives, once per epoch.
# - Use `ignore_errors` only together with such a count. In a pipeline, `dataset.apply(tf.data.experimental.assert_cardinality(count))` is one.
# - A damaged length can claim more bytes than the machine has, and end the whole process, because TensorFlow tries to reserve that memory. Check files from elsewhere with `damage.find` first.
#
# **Next:** [08 Build a circuit](08_build_a_circuit.ipynb): the work that is left, as a circuit.
