# %% [markdown]
# # Interleave many files
#
# **You will** read one photo set from 16 shards in several ways, predict what reading them at the same time gains on a local disk and on an object store, and measure both.
#
# **You will learn** what `cycle_length`, `block_length` and `num_parallel_calls` do, whose threads wait, what one slow shard costs, and when interleave gains nothing.
#
# **You need** notebook 02. No GPU, no network. About 35 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
import tensorflow as tf
from labkit import accelerators, charts, explorers, photos, plain, predictions, records, storage

# %% [markdown]
# ## The data: 16 shards
#
# Large sets are rarely stored as millions of small files. They are packed into *shards*: files that hold many photos each, one record after the other. Notebook 07 shows how to write them well; here they are a means. 160 photos, 16 shards, ten photos in each:

# %%
album = photos.load()
album = album.take(min(160, len(album)))
folder = tempfile.TemporaryDirectory()
packed = records.write(album, folder.name, shards=16)
print(len(packed), "shards,", packed.count, "photos")

# %% [markdown]
# This notebook is about *reading*, so the photos stay JPEG bytes: nothing is decoded, and the consumer is so quick that it only waits. As before, `plain` keeps tf.data from rewriting and tuning the pipeline; it can also set how many *threads* the pipeline has.
#
# Interleave changes the **order** of the photos, and that makes comparisons treacherous. Five batches from one order are other photos than five batches from another. A comparison in TensorFlow's own guide, copied into many tutorials, even reads different *numbers* of samples, 12 against 6 (tensorflow issue 46536). So here every recording covers **one whole epoch**, after one whole epoch of warm-up: whatever the order, each run delivers each photo exactly once, and the last column of each table checks it.

# %%
def epochs(stream):
    return plain(stream.batch(32).map(records.parse).repeat())

# %%
quick = accelerators.modelled(step_ms=1)
epoch = -(-packed.count // 32)  # batches in an epoch, rounded up


def compare(streams, consumer=quick, rounds=3):
    variants = {name: epochs(stream) for name, stream in streams.items()}
    return labkit.measure(variants, consumer, warmup=epoch, steps=epoch, repeats=rounds)

# %% [markdown]
# ## What interleave does
#
# `interleave` takes a dataset of file names and a function that opens one. It keeps `cycle_length` files open, takes `block_length` records from the first, then as many from the second, and so on. When a file ends, the next one takes its place. Four files of three records each show it:

# %%
def three(letter):
    return tf.data.Dataset.from_tensor_slices(["1", "2", "3"]).map(lambda digit: letter + digit)


letters = tf.data.Dataset.from_tensor_slices(["A", "B", "C", "D"])
for cycle, block in ((1, 1), (2, 1), (2, 2), (4, 1)):
    mixed = letters.interleave(three, cycle_length=cycle, block_length=block)
    print(f"cycle {cycle}, block {block}:", b" ".join(mixed.as_numpy_iterator()).decode())

# %% [markdown]
# With a cycle of one, the files come one after the other. A longer cycle mixes them, which helps a shuffle buffer that is smaller than the set. A longer block takes more from a file at each visit. None of the lines says that two files are read *at the same time*: without `num_parallel_calls`, one thread does everything, in this order. That is *sequential* interleave.
#
# ## Predict
#
# An object store answers a request after some tens of milliseconds, and then streams. Here is the model, with its sources:

# %% tags=["nbval-ignore-output"]
store = storage.PRESETS["object store"]
print(store.describe())

# %% tags=["nbval-ignore-output"]
open_ms = store.latency_ms
stream_ms = packed.bytes / len(packed) / store.bandwidth_mb_s / 1e3
print(f"one shard: {open_ms:.0f} ms to open, {stream_ms:.1f} ms to stream")
print(f"16 shards in turn: {16 * (open_ms + stream_ms):.0f} ms")

# %% [markdown]
# `store.records(path)` reads the real shard and waits as the store would: `latency_ms` once, when the shard is opened, then for each record by its size. How many times faster than one shard after the other is it, on this machine, to read all 16 at the same time?

# %% tags=["nbval-ignore-output"]
predictions.commit("03.gain", 2.0, unit="times")

# %% [markdown]
# ## Build

# %%
shards = tf.data.Dataset.from_tensor_slices(list(packed.paths))
together = dict(cycle_length=16, num_parallel_calls=16)
from_store = {
    "in turn": shards.interleave(store.records, cycle_length=1),
    "sequential, cycle 16": shards.interleave(store.records, cycle_length=16),
    "parallel, cycle 4": shards.interleave(store.records, cycle_length=4, num_parallel_calls=4),
    "parallel, cycle 16": shards.interleave(store.records, **together),
}

# %% [markdown]
# ## Run

# %% tags=["nbval-ignore-output"]
remote = compare(from_store)
remote

# %% tags=["nbval-ignore-output"]
one_shard = open_ms + stream_ms
model = (16 * one_shard + epoch) / (one_shard + epoch)  # and a train step of 1 ms for each batch of the epoch
predictions.review("03.gain", model=model, measured=remote.speedup("parallel, cycle 16"))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
turns, parallel = remote.trace("in turn"), remote.trace("parallel, cycle 16")
labkit.show(turns, parallel, labels=("in turn", "parallel, cycle 16"), steps=epoch)

# %% [markdown]
# ## Explain
#
# Above, one lane reads: a shard's open, its records, the next shard's open. Below, every open shard has a lane of its own (the picture draws some and counts the rest), and their waits lie on top of each other. No wait became shorter. The *same* waits happen at the same time.
#
# (A note below the table may warn that recording distorts. It compares the profiler with the processor time of the pipeline, and these pipelines hardly use the processor. The waits, which are what counts here, keep their length.)
#
# The row "sequential, cycle 16" is the control. It mixes the same files in the same order as the parallel one, and its speed-up should be near 1×: it is the parallel calls that gain, not the mixing. It makes all 16 opens before the first batch of the epoch, one after the other.
#
# "Cycle 4" gains more than four times. A parallel interleave works ahead: beside the four files that take turns it opens those that come next, by default up to twice as many as the cycle holds, so here up to twelve wait at the same time.
#
# More files at the same time than there are files gain nothing more, and somewhere the network, the store or the processor becomes the limit. The model gives every request its own bandwidth; a real link is shared (tensorflow issue 26309 has a reader with 512 files at once that starts fast and then crawls).
#
# ## When interleave gains little: a warm local disk
#
# The same four pipelines on your own disk, where the shards were just written and are still in the page cache. `TFRecordDataset` has its own word for it, too, `num_parallel_reads`:

# %%
on_disk = {
    "in turn": tf.data.TFRecordDataset(list(packed.paths)),
    "sequential, cycle 16": shards.interleave(tf.data.TFRecordDataset, cycle_length=16),
    "parallel, cycle 16": shards.interleave(tf.data.TFRecordDataset, **together),
    "num_parallel_reads=16": tf.data.TFRecordDataset(list(packed.paths), num_parallel_reads=16),
}

# %% tags=["nbval-ignore-output"]
local = compare(on_disk, rounds=4)
local

# %% [markdown]
# Where opening takes microseconds, there is no wait to overlap. Expect little or no gain, or even a loss: the hand-over between threads can cost as much as the read. (If your table says *faster*, this disk has waits to overlap, or spare cores share the work.) Course notes contradict each other about interleave: useless on a local disk, a large gain in a demonstration that sleeps at every open. Both are right, each for its own storage.
#
# What runs under the two words?

# %%
for name in ("parallel, cycle 16", "num_parallel_reads=16"):
    nodes = [node.rpartition("::")[2] for node in labkit.recorder.graph(epochs(on_disk[name]))]
    print(name, "→", [node for node in nodes if "Interleave" in node and node.endswith(("V2", "V4"))])

# %% [markdown]
# `num_parallel_reads=n` *is* an interleave with a cycle of n and a block of one, in an older node. It is shorter. `interleave` can do more: a function of your own that opens the file, a block length, `deterministic` and autotuning.
#
# ## One slow shard
#
# Who waits for one slow file among many? Guess, then press the last two buttons:

# %% tags=["nbval-ignore-output"]
explorers.explore("03")

# %% [markdown]
# The same, measured. Now one shard of 16 streams ten times slower, as from a busy server. Four take turns, and the accelerator takes 10 ms for a step.

# %%
busy = storage.Storage("busy server", 30, 8.5, source="a tenth of the object store's bandwidth")
slow_path = packed.paths[3]


def open_shard(path):
    slow = path == slow_path
    nothing, everything = tf.constant(0, tf.int64), tf.constant(-1, tf.int64)  # take(0) does not even open the shard
    usual = store.records(path).take(tf.where(slow, nothing, everything))
    return usual.concatenate(busy.records(path).take(tf.where(slow, everything, nothing)))

# %%
four = dict(cycle_length=4, num_parallel_calls=4)
straggling = {
    "all shards alike": shards.interleave(store.records, **four),
    "one slow, in order": shards.interleave(open_shard, **four, deterministic=True),
    "one slow, any order": shards.interleave(open_shard, **four, deterministic=False),
}

# %% tags=["nbval-ignore-output"]
patient = accelerators.modelled(step_ms=10)
stragglers = compare(straggling, patient)
print("any order over in order:", stragglers.speedup("one slow, any order", over="one slow, in order"))
stragglers

# %% tags=["nbval-ignore-output"]
ordered, free = stragglers.trace("one slow, in order"), stragglers.trace("one slow, any order")
lanes = [lane for trace in (ordered, free) for lane in labkit.Timeline(trace).lanes if "Interleave" in lane.name]
busiest = {lane.name for lane in sorted(lanes, key=lambda lane: lane.share)[-6:]}
labkit.compare(ordered, free, labels=("in order", "any order"), steps=epoch, lanes=busiest)

# %% [markdown]
# Look for the lane that reads for longest without a break: that is the slow shard. In order, every fourth record has to come from it as long as it is open. The other three fill their small buffers and then wait for their turn: one slow server makes four slow. With `deterministic=False` whoever is ready goes first. The slow shard is not faster; it only holds nobody up, and the other lanes read on. If the table sees no difference, its interval says how wide the noise is. An epoch still cannot end before its last record, so the gain is largest while there is other work to do, and zero when the straggler comes last.
#
# The price is the order. Ask both twice:

# %% tags=["nbval-ignore-output"]
for name in ("one slow, in order", "one slow, any order"):
    first, second = (list(straggling[name].as_numpy_iterator()) for _ in range(2))
    print(f"{name}: same order {first == second}, same photos {sorted(first) == sorted(second)}")

# %% [markdown]
# No photo is lost or repeated, but no two epochs are alike. Training rarely minds, since it shuffles anyway. Debugging does.
#
# ## Threads, not cores
#
# Sixteen shards waited at once, on however few cores: a sleeping thread needs no core. Interleave brings threads of its own. A *map* does not. Its functions run in tf.data's pool, which by default has as many threads as the machine has cores. Here the photos are single files, fetched by a map with 16 parallel calls from pools of different size:

# %%
def fetch(path, label):
    return store.read(path), label


calls = album.files().map(fetch, num_parallel_calls=16).batch(8).repeat()
pools = {f"{n} threads": plain(calls, threads=n) for n in (2, 4, 8, 16)}

# %% tags=["nbval-ignore-output"]
widened = labkit.measure(pools, quick, warmup=2, steps=4, repeats=3)
widened

# %% tags=["nbval-ignore-output"]
rates = {"read in a map": [[one.images_per_s for one in widened[name]] for name in pools]}
labels = dict(x_label="threads of the pool", y_label="photos/s", title="Parallel calls wait for threads")
charts.lines([2, 4, 8, 16], rates, **labels, note=f"16 parallel calls in all runs; {store.describe()}")

# %% [markdown]
# All four ask for 16 calls at once; the pool decides how many can wait at once. So the line should climb with the pool, although no core was added. On a machine with two cores the default is the first row. If your code reads *inside a map function* from something distant, set `options.threading.private_threadpool_size`. Such a pool costs some memory and no processor time while its threads sleep. For decoding it would gain nothing: that needs cores (notebook 04).

# %%
folder.cleanup()

# %% [markdown]
# ## Exercises
#
# **03.1** Write `mixed(paths, open_shard)`: the records of all shards, three shards read at the same time, two records from each in turn, always in the same order. `paths` is a list of strings that only `open_shard` understands, so do not look for files; `open_shard(path)` is a dataset. Two lines.

# %% tags=["stub"]
def mixed(paths, open_shard):
    ...  # your code

# %% tags=["solution"]
def mixed(paths, open_shard):
    shards = tf.data.Dataset.from_tensor_slices(paths)
    return shards.interleave(open_shard, cycle_length=3, block_length=2, num_parallel_calls=3, deterministic=True)

# %%
labkit.try_it("03.1", mixed)
labkit.check("03.1", mixed)

# %% [markdown]
# **03.2** Write `epoch_ms(shards, at_once, open_ms, stream_ms)`: how long an epoch takes at least, if `at_once` shards are read at the same time, all of one size. A group must be done before the next one starts. One line.

# %% tags=["stub"]
def epoch_ms(shards, at_once, open_ms, stream_ms):
    ...  # your code

# %% tags=["solution"]
def epoch_ms(shards, at_once, open_ms, stream_ms):
    return -(-shards // at_once) * (open_ms + stream_ms)

# %%
labkit.try_it("03.2", epoch_ms)
labkit.check("03.2", epoch_ms)

# %% [markdown]
# **03.3** Write `widened_pool(dataset, threads)`: the same dataset, whose map functions may wait on so many threads. Three lines.

# %% tags=["stub"]
def widened_pool(dataset, threads):
    ...  # your code

# %% tags=["solution"]
def widened_pool(dataset, threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)

# %%
labkit.try_it("03.3", widened_pool)
labkit.check("03.3", widened_pool)

# %% [markdown]
# ## Recap
#
# You mixed files with cycle and block length and saw that mixing alone gains nothing. You overlapped the waits of 16 shards and gained much on modelled object storage, little or nothing on a warm disk. You let one slow shard hold up three others, freed them with `deterministic=False`, and paid with the order. You saw whose threads wait: interleave has its own, a map shares a pool.
#
# ## In practice
#
# - Local disk, warm: do not expect a gain. Network storage: read many shards at once; begin with `cycle_length` at 16 and measure.
# - Set `cycle_length` yourself. Left to tf.data, it follows the number of cores, and latency does not care about cores.
# - Shuffle the list of files, then interleave, then shuffle records; the three together mix a set that does not fit into memory.
# - `deterministic=False` for training, `True` while you debug. Measure whole epochs, or compare counts.
#
# **Next:** [04 Map in parallel](04_map_in_parallel.ipynb): the waits are hidden; now the cores.
