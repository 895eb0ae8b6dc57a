# %% [markdown]
# # Interleave many files
#
# **You will** read one photo set from 16 files, far away and on your own disk, and predict what reading them at once gains.
#
# **You will learn** why waiting needs no core, what `cycle_length`, `block_length` and `num_parallel_calls` do, what one slow file costs, and when interleave gains nothing.
#
# **You need** notebook 02. No GPU, no network. About 30 minutes. Special words are in the [glossary](../docs/glossary.md). **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import math
import statistics
import tempfile
from pathlib import Path

import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, charts, photos, plain, records, storage

# %% [markdown]
# ## The idea ▸
#
# A thread that waits for storage needs no core. So many files can wait at the same time.

# %%
idea("03")

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("03")

# %% [markdown]
# ## The job ▸
#
# Large sets are usually packed into [shards](../docs/glossary.md#shard): files of many photos, one *record* after the other (notebook 07). This notebook is about *fetch* alone: the photos stay JPEG bytes, and a train step takes 1 ms.

# %%
album = photos.load()
album = album.take(min(160, len(album)))
folder = tempfile.TemporaryDirectory()
packed = records.write(album, folder.name, shards=16)
print(len(packed), "shards,", packed.count, "photos")

# %%
def epochs(stream):
    return plain(stream.batch(32).map(records.parse).repeat())


quick = accelerators.modelled(step_ms=1)
epoch = math.ceil(packed.count / 32)  # batches in an epoch
whole_epoch = dict(warmup=epoch, steps=epoch, profile=False)  # timed without the profiler

# %% [markdown]
# <details><summary>Why whole epochs?</summary>
#
# Interleave changes the *order* of the photos, so two runs that stop early would read different photos. (In TensorFlow's guide the example of interleave read another number of samples than the other examples: tensorflow issue 46536.) Therefore each recording covers one whole [epoch](../docs/glossary.md#epoch), after one epoch of warm-up. Each table checks that its pipelines read the same photos. So a recording also holds the beginning of an epoch; the advice to repeat earlier, below some timelines, is about that.
#
# </details>
#
# ## What interleave does
#
# `interleave` takes file names and a function that opens a file. It keeps `cycle_length` files open, and takes `block_length` records from each in turn. When a file ends, the next one takes its place:

# %%
def three(letter):
    return tf.data.Dataset.from_tensor_slices(["1", "2", "3"]).map(lambda digit: letter + digit)


letters = tf.data.Dataset.from_tensor_slices(["A", "B", "C", "D"])
for cycle, block in ((1, 1), (2, 1), (2, 2), (4, 1)):
    mixed = letters.interleave(three, cycle_length=cycle, block_length=block)
    print(f"cycle {cycle}, block {block}:", b" ".join(mixed.as_numpy_iterator()).decode())

# %% [markdown]
# None of these lines reads two files *at the same time*: without `num_parallel_calls`, one thread does everything, in this order.
#
# ## Predict ▸
#
# An object store answers a request after some tens of milliseconds; then the bytes come. Ours is a model:

# %% tags=["nbval-ignore-output"]
store = storage.PRESETS["object store"]
print(store.describe())
waits_ms = [store.request_ms(Path(path).stat().st_size) for path in packed.paths]
print(f"the 16 shards in turn: {sum(waits_ms):.0f} ms of waiting")

# %% [markdown]
# `store.records(path)` reads the real shard and waits as the store would. How many times faster is it to read all 16 shards at once than one after the other? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("03.gain", ..., unit="times")

# %% [markdown]
# ## Build ▸

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
# ## Run ▸

# %% tags=["nbval-ignore-output"]
remote = labkit.measure(from_store, quick, **whole_epoch, repeats=5)
remote

# %% tags=["nbval-ignore-output"]
in_memory = {"in memory": epochs(tf.data.TFRecordDataset(list(packed.paths)))}
work = labkit.measure(in_memory, quick, **whole_epoch).per_image()["in memory"]
work_ms = statistics.median(work) * packed.count  # parsing, batches, training
at_once = min(2, labkit.cores())  # on two cores, some threads read while another makes batches
model = (sum(waits_ms) + work_ms) / (max(waits_ms) + work_ms / at_once)
predictions.review("03.gain", model=model, measured=remote.speedup("parallel, cycle 16"))

# %% [markdown]
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
turns, parallel = remote.trace("in turn"), remote.trace("parallel, cycle 16")
labkit.show(turns, parallel, labels=("in turn", "parallel, cycle 16"), steps=epoch)

# %% [markdown]
# The second job alone, on a scale of its own:

# %% tags=["nbval-ignore-output"]
labkit.show(parallel, title="All shards at once", steps=epoch)

# %% [markdown]
# ## Explain ▸
#
# Hollow is a wait. "In turn", never more than one shard waits. "Parallel, cycle 16", all of them wait together, far above the line of the cores. No wait became shorter: the *same* waits happen at the same time.
#
# The gain stays below 16 because the largest shard takes longest, and parsing and making batches need cores. The row "sequential, cycle 16" mixes the same files in one thread: parallel calls gain, mixing does not.
#
# <details><summary>The model, the row "parallel, cycle 4", and real networks</summary>
#
# The model is a formula: all waits shrink to the longest one, and the work is shared by two cores at most. It leaves out the handing over between threads.
#
# "Parallel, cycle 4" can gain more than four times: a parallel interleave also opens the files that come next, by default up to twice `cycle_length`.
#
# Our store gives every request its own bandwidth; a real network link is shared (tensorflow issue 26309).
#
# </details>
#
# ## When interleave gains little: a warm local disk
#
# The same shards on your own disk. They were just written, and are still in memory, in the [page cache](../docs/glossary.md#page-cache):

# %%
on_disk = {
    "in turn": epochs(tf.data.TFRecordDataset(list(packed.paths))),
    "parallel, cycle 16": epochs(shards.interleave(tf.data.TFRecordDataset, **together)),
    "num_parallel_reads=16": epochs(tf.data.TFRecordDataset(list(packed.paths), num_parallel_reads=16)),
}

# %% tags=["nbval-ignore-output"]
local = labkit.measure(on_disk, quick, **whole_epoch, repeats=5)
local

# %% [markdown]
# There is no wait to overlap. What is left is work, such as checking the bytes, which the cores can share. Whether interleave helps much is a question about the storage.
#
# <details><summary>What is num_parallel_reads?</summary>
#
# With a number it is an interleave with a block of one record, by an older node of tf.data. With AUTOTUNE it is `interleave` itself, autotuned. `interleave` also takes your own function that opens a file, a block length, and `deterministic`.
#
# </details>
#
# And without the page cache? `storage.evict` empties it of these files:

# %% tags=["nbval-ignore-output"]
def read_ms():
    read_only = plain(shards.map(tf.io.read_file).batch(2))
    return labkit.Timeline(labkit.record(read_only, quick, warmup=1, steps=6)).per_image_ms["read"]


read_ms()  # from now on the files are in the page cache
warm = read_ms()
storage.evict(packed.paths)
print(f"{storage.resident(packed.paths):.0%} of the bytes are still cached after eviction")
print(f"read a shard: warm {warm:.2f} ms, cold {read_ms():.2f} ms")

# %% [markdown]
# Where a cold read takes longer than a warm one, there is a wait to overlap, in the first epoch at least.
#
# <details><summary>If both numbers are alike</summary>
#
# If the first line is not near 0 %, this machine cannot take files out of its cache (macOS, or a folder in memory), and both numbers mean the same. If it is 0 %, the disk is fast, or the machine is virtual and the computer that runs it keeps a second cache.
#
# </details>
#
# ## One slow shard
#
# Who waits for one slow file among many? Guess, then compare the last two rows of the explorer.

# %% tags=["nbval-ignore-output"]
explorers.explore("03")

# %% [markdown]
# Now measured: one shard is ten times slower to read, and four are read at a time. With `deterministic=True`, the default, a record that is ready waits for its place in the order; with `False`, any record that is ready is taken.

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
# The lane that reads without a pause has the slow shard. In order, the other three fill their small buffers and wait: one slow server makes four shards slow. In any order they go on, until the epoch needs its last records. The price is the order:

# %% tags=["nbval-ignore-output"]
for name, stream in (("in order", in_order), ("any order", any_order)):
    first, second = list(stream.as_numpy_iterator()), list(stream.as_numpy_iterator())
    print(f"{name}: same order {first == second}, same photos {sorted(first) == sorted(second)}")

# %% [markdown]
# ## Threads, not cores ▸
#
# Interleave brings threads of its own. The calls of a *map* run in tf.data's pool, by default with one thread for each core. Here a map asks for 16 fetches at a time, in pools of several sizes:

# %%
def fetch(path, label):
    return store.read(path), label


calls = album.files().map(fetch, num_parallel_calls=16).batch(8).repeat()
pools = {f"{n} threads": plain(calls, threads=n) for n in (2, 4, 8, 16)}

# %% tags=["nbval-ignore-output"]
widened = labkit.measure(pools, quick, warmup=4, steps=16, repeats=5)
charts.sweep(widened, [2, 4, 8, 16], x_label="threads of the pool", title="Parallel calls wait for threads")

# %% [markdown]
# No core was added. If your code fetches *inside a map*, set `options.threading.private_threadpool_size`. For decoding a larger pool gains nothing (notebook 04).
#
# ## Exercises ▸
#
# **03.1** Eight files are read at once, in two jobs. Which file is the slow one, and which job keeps the order?

# %% tags=["nbval-ignore-output"]
read("03.1")

# %% tags=["stub"]
answer = ...  # click, or write {"slow file": "file 1", "in order": "B"}

# %% tags=["solution"]
answer = {"slow file": "file 6", "in order": "A"}

# %%
check("03.1", answer)

# %% [markdown]
# **03.2** Write `mixed(paths, open_shard)`: a dataset of the records of all shards. Three shards are read at the same time, two records from each in turn, always in the same order. `open_shard(path)` returns the dataset of one shard. Two lines.

# %% tags=["stub"]
def mixed(paths, open_shard):
    ...  # your code

# %% tags=["solution"]
def mixed(paths, open_shard):
    shards = tf.data.Dataset.from_tensor_slices(paths)
    return shards.interleave(open_shard, cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=True)

# %%
try_it("03.2", mixed)
check("03.2", mixed)

# %% [markdown]
# **03.3** Design a pipeline. Medical scans lie far away: `fetch(scan)` waits 200 ms, `prepare(bytes)` works for 4 ms. A train step takes 50 ms, on a batch of 8. The machine has 2 cores and 4 GB; a scan in a buffer, or in a call that is under way, takes 20 MB. Write `fed(scans, fetch, prepare)`: batches of prepared scans, in order, and the accelerator at least 90 % busy. It is judged on a simulated clock, where AUTOTUNE makes as many calls as there are cores. Fetch in a map. About five lines.

# %% tags=["stub"]
def fed(scans, fetch, prepare):
    ...  # 200 ms and 4 ms a scan, 50 ms a step of 8: 90 % busy with 2 cores and 4 GB, 20 MB a scan

# %% tags=["solution"]
def fed(scans, fetch, prepare):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 40
    scans = scans.map(fetch, num_parallel_calls=40).map(prepare)
    return scans.batch(8).prefetch(2).with_options(options)

# %%
try_it("03.3", fed)
check("03.3", fed)

# %% [markdown]
# ## Your pipeline

# %% tags=["nbval-ignore-output"]
my_pipeline.step("03")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("03")

# %% [markdown]
# Your photos lie on your own disk. What does that say about this rung?
#
# ## Without the lab
#
# At work, in plain TensorFlow: does my storage wait? Read the same files one at a time, and 16 at a time.

# %% tags=["nbval-ignore-output"]
from time import perf_counter


def seconds(at_once):
    files = tf.data.Dataset.from_tensor_slices(list(packed.paths))  # the names of your own files
    opened = files.interleave(tf.data.TFRecordDataset, cycle_length=at_once, num_parallel_calls=at_once)
    start = perf_counter()
    opened.reduce(0, lambda count, record: count + 1)
    return perf_counter() - start


one, many = [min(seconds(n) for _ in range(3)) for n in (1, 16)]
print(f"16 at a time: {one / many:.1f} times as fast:", "the storage waits" if one > 2 * many else "nothing waits long")

# %% [markdown]
# ## Recap
#
# Waits can happen together, on any number of cores. Mixing alone gains nothing. One slow shard blocks the others as long as the order is kept.
#
# ## In practice
#
# - Network storage: read many shards at once; begin with `cycle_length=16` and measure. By default the number depends on the cores, and waits need none.
# - Shuffle the list of files, then interleave, then shuffle the records.
# - `deterministic=False` for training, `True` while you debug.
#
# **Next:** [04 Map in parallel](04_map_in_parallel.ipynb): use all cores for prepare.
