# %% [markdown]
# # Interleave many files
#
# **You will** read one photo set from 16 shards in several ways. You will predict what reading them at the same time gains on an object store and on a local disk, and measure both.
#
# **You will learn** what `cycle_length`, `block_length` and `num_parallel_calls` do, which threads wait, what one slow shard costs, and when interleave gains nothing.
#
# **You need** notebook 02. No GPU, no network. About 60 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import math
import statistics
import tempfile
from pathlib import Path

import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, charts, photos, plain, records, storage

# %% [markdown]
# ## The idea
#
# A thread that waits for storage needs no core. Many files can wait at the same time.

# %%
idea("03")

# %% [markdown]
# ## The data: 16 shards
#
# On clusters, large sets are usually packed into [shards](../docs/glossary.md#shard): files that hold many photos each, one *record* after the other. Notebook 07 shows how to write good shards. Here we pack 160 photos into 16 shards, ten photos in each:

# %%
album = photos.load()
album = album.take(min(160, len(album)))
folder = tempfile.TemporaryDirectory()
packed = records.write(album, folder.name, shards=16)
print(len(packed), "shards,", packed.count, "photos")

# %% [markdown]
# This notebook is about *reading*. The photos stay JPEG bytes, and the accelerator needs only 1 ms for a batch, so it waits most of the time. `records.parse` takes a batch of records and returns the bytes of the photos and their labels. `plain` keeps tf.data from rewriting and tuning the pipeline.
#
# 160 photos are five batches of 32. Interleave changes the **order** of the photos, so two runs that stop early would read different photos. (In TensorFlow's guide the example of interleave read another number of samples than the other examples: tensorflow issue 46536.) Therefore every recording here covers **one whole [epoch](../docs/glossary.md#epoch)**, after one epoch of warm-up. The column *equal work*, which each table folds under *how this was measured*, checks that both runs read the same photos; their order may differ.

# %%
def epochs(stream):
    return plain(stream.batch(32).map(records.parse).repeat())


quick = accelerators.modelled(step_ms=1)
epoch = math.ceil(packed.count / 32)  # batches in an epoch
whole_epoch = dict(warmup=epoch, steps=epoch, profile=False)  # timed without the profiler

# %% [markdown]
# ## What interleave does
#
# `interleave` takes a dataset of file names and a function that opens a file. It keeps `cycle_length` files open. It takes `block_length` records from the first file, then `block_length` records from the second file, and so on. When a file ends, the next file takes its place. Here are four files with three records each:

# %%
def three(letter):
    return tf.data.Dataset.from_tensor_slices(["1", "2", "3"]).map(lambda digit: letter + digit)


letters = tf.data.Dataset.from_tensor_slices(["A", "B", "C", "D"])
for cycle, block in ((1, 1), (2, 1), (2, 2), (4, 1)):
    mixed = letters.interleave(three, cycle_length=cycle, block_length=block)
    print(f"cycle {cycle}, block {block}:", b" ".join(mixed.as_numpy_iterator()).decode())

# %% [markdown]
# With a cycle of one, the files come one after the other. A longer cycle mixes the files, which helps a shuffle buffer that is smaller than the set. A longer block takes more records from a file at each visit. None of these lines reads two files *at the same time*. Without `num_parallel_calls`, one thread does everything in this order: this is *sequential* interleave.
#
# ## Predict
#
# An object store answers a request after some tens of milliseconds. Then the bytes arrive one after the other. Our store is a model; the output names its sources:

# %% tags=["nbval-ignore-output"]
store = storage.PRESETS["object store"]
print(store.describe())
waits_ms = [store.request_ms(Path(path).stat().st_size) for path in packed.paths]
print(f"16 shards in turn wait {sum(waits_ms):.0f} ms: {16 * store.latency_ms:.0f} ms to open, the rest to read")
in_memory = {"in memory": epochs(tf.data.TFRecordDataset(list(packed.paths)))}
work = labkit.measure(in_memory, quick, **whole_epoch).per_image()["in memory"]
work_ms = statistics.median(work) * packed.count
print(f"without any wait, an epoch takes {work_ms:.0f} ms: parsing, making batches, training")

# %% [markdown]
# `store.records(path)` reads the real shard and waits as the store would: once when the shard is opened, and then for each record by its size. How many times faster is it on this machine to read all 16 shards at the same time than one after the other? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("03.gain", ..., unit="times")

# %% [markdown]
# ## Build

# %%
shards = tf.data.Dataset.from_tensor_slices(list(packed.paths))
together = dict(cycle_length=16, num_parallel_calls=16)
from_store = {
    "in turn": epochs(shards.interleave(store.records, cycle_length=1)),
    "sequential, cycle 16": epochs(shards.interleave(store.records, cycle_length=16)),
    "parallel, cycle 4": epochs(shards.interleave(store.records, cycle_length=4, num_parallel_calls=4)),
    "parallel, cycle 16": epochs(shards.interleave(store.records, **together)),
}

# %% [markdown]
# ## Run

# %% tags=["nbval-ignore-output"]
remote = labkit.measure(from_store, quick, **whole_epoch, repeats=5)
remote

# %% tags=["nbval-ignore-output"]
at_once = min(2, labkit.cores())  # on two cores, some threads read while another makes batches
model = (sum(waits_ms) + work_ms) / (max(waits_ms) + work_ms / at_once)
predictions.review("03.gain", model=model, measured=remote.speedup("parallel, cycle 16"))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
turns, parallel = remote.trace("in turn"), remote.trace("parallel, cycle 16")
labkit.show(turns, parallel, labels=("in turn", "parallel, cycle 16"), steps=epoch)

# %% tags=["nbval-ignore-output"]
labkit.show(parallel, title="The second job alone: parallel, cycle 16", steps=epoch)

# %% [markdown]
# ## Explain
#
# "In turn" opens one shard at a time: the first shard waits, then the second shard, and so on. "Parallel, cycle 16" waits for 16 shards at the same time. No wait became shorter. The *same* waits happen together.
#
# Here the model is only a formula: all waits shrink to the longest one, and the work stays, shared by two cores at most. Without the work it would promise more than 12 times. It leaves out the handing over between threads.
#
# The row "sequential, cycle 16" mixes the same files in the same order as "parallel, cycle 16", but one thread reads them. Its speed-up should be near 1×. So the gain comes from the parallel calls, and not from the mixing.
#
# The row "parallel, cycle 4" can gain more than four times, because a parallel interleave also opens the files that come next, by default up to twice `cycle_length`.
#
# Our store gives every request its own bandwidth, but a real network link is shared (tensorflow issue 26309).
#
# ## When interleave gains little: a warm local disk
#
# Now the same shards on your own disk. They were just written and are still in the [page cache](../docs/glossary.md#page-cache). `TFRecordDataset` offers the same with `num_parallel_reads`:

# %%
on_disk = {
    "in turn": epochs(tf.data.TFRecordDataset(list(packed.paths))),
    "sequential, cycle 16": epochs(shards.interleave(tf.data.TFRecordDataset, cycle_length=16)),
    "parallel, cycle 16": epochs(shards.interleave(tf.data.TFRecordDataset, **together)),
    "num_parallel_reads=16": epochs(tf.data.TFRecordDataset(list(packed.paths), num_parallel_reads=16)),
}

# %% tags=["nbval-ignore-output"]
local = labkit.measure(on_disk, quick, **whole_epoch, repeats=5)
local

# %% [markdown]
# Here opening a file takes microseconds, so there is no wait to overlap. Expect little gain or even a loss, because handing records from thread to thread also takes time. Some course notes say that interleave is useless on a local disk. Others show a large gain in a demonstration that sleeps whenever it opens a file. Both are right, each for its own storage.
#
# `num_parallel_reads=n` *is* an interleave with a cycle of n and a block of one; tf.data runs an older node for it. `interleave` can do more: your own function that opens the file, a block length, `deterministic`, and autotuning.
#
# ## One slow shard
#
# Who waits for one slow file among many? Guess, and then compare the last two rows of the explorer. After that we measure the same job. `storage.straggler` makes one shard of 16 ten times slower to read, as on a busy server. Four shards are read at the same time. With `deterministic=True`, the default, their records are taken in turn: a record that is ready waits for its place in the order. With `deterministic=False`, any record that is ready is taken.

# %% tags=["nbval-ignore-output"]
explorers.explore("03")

# %% tags=["nbval-ignore-output"]
open_shard = storage.straggler(store, slow=packed.paths[3], factor=10)
four = dict(cycle_length=4, num_parallel_calls=4)
in_order = shards.interleave(open_shard, **four, deterministic=True)
any_order = shards.interleave(open_shard, **four, deterministic=False)
straggling = {
    "one slow, in order": epochs(in_order),
    "one slow, any order": epochs(any_order),
    "all shards alike": epochs(shards.interleave(store.records, **four)),
}
stragglers = labkit.measure(straggling, accelerators.modelled(step_ms=10), **whole_epoch, repeats=5)
stragglers

# %% tags=["nbval-ignore-output"]
ordered, free = stragglers.trace("one slow, in order"), stragglers.trace("one slow, any order")
lanes = [*labkit.Timeline(ordered).busiest(4), *labkit.Timeline(free).busiest(4)]
labkit.compare(ordered, free, labels=("in order", "any order"), steps=epoch, lanes=lanes)

# %% [markdown]
# The picture shows the busiest reading threads. Look for the longest read without a pause: this is the slow shard. In order, every fourth record has to come from the slow shard while it is open. The other three shards fill their small buffers and then wait, so one slow server makes four shards slow. (If the tool says that a gap waits for [start](../docs/glossary.md#start), it means everything that happens before the first batch of the epoch. Here this includes reading from the slow shard.)
#
# With `deterministic=False` the slow shard is not faster, but it no longer blocks the others. The epoch still cannot end before its last record. So the gain is largest if there are many other records to read meanwhile, and it is zero if the slow shard comes last.
#
# The price is the order. We read each dataset twice:

# %% tags=["nbval-ignore-output"]
for name, stream in (("in order", in_order), ("any order", any_order)):
    first, second = list(stream.as_numpy_iterator()), list(stream.as_numpy_iterator())
    print(f"{name}: same order {first == second}, same photos {sorted(first) == sorted(second)}")

# %% [markdown]
# No photo is lost or repeated, but two epochs need not be alike. Training usually shuffles anyway. For debugging you want the same order every time.
#
# ## Threads, not cores
#
# Sixteen shards waited at the same time, on any number of cores, because a waiting thread needs no core. Interleave brings its own threads. A *map* does not: its functions run in tf.data's pool, which by default has as many threads as the machine has cores. Here a map with 16 parallel calls fetches single photos, and the pools have different sizes:

# %%
def fetch(path, label):
    return store.read(path), label


calls = album.files().map(fetch, num_parallel_calls=16).batch(8).repeat()
pools = {f"{n} threads": plain(calls, threads=n) for n in (2, 4, 8, 16)}

# %% tags=["nbval-ignore-output"]
widened = labkit.measure(pools, quick, warmup=2, steps=4, repeats=5)
charts.sweep(widened, [2, 4, 8, 16], x_label="threads of the pool", title="Parallel calls wait for threads")

# %% [markdown]
# All four request 16 parallel calls, but the thread pool limits how many reads can be in flight. More threads should read more photos per second, although no core was added.
#
# If your code reads *inside a map function* from a distant store, set `options.threading.private_threadpool_size`. For decoding, a larger pool gains nothing, because decoding needs cores (notebook 04).
#
# ## Exercises
#
# **03.1** Write `mixed(paths, open_shard)`. It returns a dataset of the records of all shards. Three shards are read at the same time, two records from each in turn, always in the same order. `open_shard(path)` returns the dataset of one shard. `paths` is a list of strings for `open_shard`; they need not be files. Two lines.

# %% tags=["stub"]
def mixed(paths, open_shard):
    ...  # your code

# %% tags=["solution"]
def mixed(paths, open_shard):
    shards = tf.data.Dataset.from_tensor_slices(paths)
    return shards.interleave(open_shard, cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=True)

# %%
try_it("03.1", mixed)
check("03.1", mixed)

# %% [markdown]
# **03.2** Write `epoch_ms(shards, at_once, open_ms, stream_ms)`. It returns a simple estimate of how long an epoch takes. Assume that the shards are read in groups of `at_once`. A group must be finished before the next group starts, and no shard is opened early. `open_ms` is the time to open one shard, and `stream_ms` is the time to read it after that. One line. (Hint: `math.ceil`.)

# %% tags=["stub"]
def epoch_ms(shards, at_once, open_ms, stream_ms):
    ...  # your code

# %% tags=["solution"]
def epoch_ms(shards, at_once, open_ms, stream_ms):
    return -(-shards // at_once) * (open_ms + stream_ms)

# %%
try_it("03.2", epoch_ms)
check("03.2", epoch_ms)

# %% [markdown]
# **03.3** Write `widened_pool(dataset, threads)`. It returns the same dataset with a pool of `threads` threads for its map functions. Three lines.

# %% tags=["stub"]
def widened_pool(dataset, threads):
    ...  # your code

# %% tags=["solution"]
def widened_pool(dataset, threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)

# %%
try_it("03.3", widened_pool)
check("03.3", widened_pool)

# %% [markdown]
# ## Recap
#
# You mixed files with cycle and block length, and saw that mixing alone gains nothing. You read 16 shards at the same time and compared an object store with a warm disk. One slow shard blocked three others; `deterministic=False` freed them, and the price was the order. You saw which threads wait: interleave has its own threads, and a map shares a pool.
#
# ## In practice
#
# - On a warm local disk, do not expect a gain. On network storage, read many shards at the same time. Begin with `cycle_length=16` and measure.
# - Set `cycle_length` yourself. By default it depends on the number of cores, but waits need no cores.
# - Shuffle the list of files, then interleave, then shuffle the records. Together they mix a set that does not fit into memory.
# - Use `deterministic=False` for training and `True` while you debug. Measure whole epochs, or check that both runs read the same number of photos.
#
# **Next:** [04 Map in parallel](04_map_in_parallel.ipynb): use all cores for the map.
