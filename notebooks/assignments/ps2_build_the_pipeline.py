# %% [markdown]
# # Problem set 2: build the pipeline
#
# **You will** write functions that build `tf.data` pipelines: parallel, in order, cached in the right place, and as wide as needed and no wider.
#
# **You need** notebooks 02 to 06. About three hours. 100 points.
#
# Write your code where it says `YOUR CODE HERE`, and leave the other cells as they are: cells with tests are put back to their first state before grading. Your notebook runs from top to bottom, with more tests than you see, and without network: a connection is refused, and an answer that needs one gets no points. No other process starts either (`multiprocessing`, workers of a loader); threads do. A loop without an end costs its part. Tests look at what comes out of a pipeline and at what it is made of, never at a clock: a slow computer is no disadvantage. `inspect_pipeline(function, ...)` calls your function and shows both.

# %% bootstrap=true
import tensorflow as tf

from labkit import simulate
from labcourse.inspection import inspect_pipeline

# %% [markdown]
# ## 2.1 Map, batch, prefetch (25 points)
#
# `squares(count, batch_size)` returns a pipeline of the squares of 0, 1, …, `count` - 1 as `int64`, in this order, in batches of `batch_size`; the last batch may be smaller. The map must run in parallel, and batches must be prepared ahead of the consumer.


# %% solution="2.1"
def squares(count, batch_size):
    ### BEGIN SOLUTION
    numbers = tf.data.Dataset.range(count)
    return (
        numbers.map(lambda x: x * x, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)
    )
    ### END SOLUTION


# %% tests="2.1" points=10
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(squares, 7, 3)
assert [e.tolist() for e in shown.elements] == [[0, 1, 4], [9, 16, 25], [36]], "squares in order, in batches"
### BEGIN HIDDEN TESTS
shown = inspect_pipeline(squares, 20, 8)
assert shown.ended and [e.tolist() for e in shown.elements] == [
    [i * i for i in range(a, min(a + 8, 20))] for a in (0, 8, 16)
], "no element is lost or repeated, also in the last batch"
assert all(str(e.dtype) == "int64" for e in shown.elements), "the elements are int64"
shown = inspect_pipeline(squares, 1000, 4, most=300)
assert {int(v) for e in shown.elements for v in e} == {i * i for i in range(1000)}, "no element of longer data is lost"
### END HIDDEN TESTS

# %% tests="2.1" points=8
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(squares, 40, 4)
assert "ParallelMapDataset" in shown.ops, "the map runs one element at a time: num_parallel_calls"
### BEGIN HIDDEN TESTS
assert shown.node("ParallelMapDataset").get("num_parallel_calls", -1) != 1, "one call at a time is not parallel"
assert shown.node("ParallelMapDataset").get("deterministic") != "false", "the order may vary"
assert [int(v) for e in shown.elements for v in e] == [i * i for i in range(40)], "the right elements, in order"
### END HIDDEN TESTS

# %% tests="2.1" points=7
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(squares, 16, 4)
assert [op for op in shown.ops if op != "OptionsDataset"][-1] == "PrefetchDataset", "prefetch comes last"
### BEGIN HIDDEN TESTS
assert -1 <= shown.node("PrefetchDataset")["buffer_size"] <= 64 and shown.node("PrefetchDataset")["buffer_size"] != 0, (
    "a buffer of AUTOTUNE, or of some batches"
)
assert [int(v) for e in shown.elements for v in e] == [i * i for i in range(16)], "the right elements, in order"
### END HIDDEN TESTS

# %% [markdown]
# ## 2.2 Interleave shards (25 points)
#
# `interleaved(shards, size, at_once)`: shard `s` of the `shards` shards holds the numbers `1000 * s`, `1000 * s + 1`, … , `size` of them. Return a pipeline that reads `at_once` shards at the same time, **two** records from each in turn, always in the same order.


# %% solution="2.2"
def interleaved(shards, size, at_once):
    ### BEGIN SOLUTION
    def shard(s):
        return tf.data.Dataset.range(1000 * s, 1000 * s + size)

    return tf.data.Dataset.range(shards).interleave(
        shard, cycle_length=at_once, block_length=2, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    ### END SOLUTION


# %% tests="2.2" points=15
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(interleaved, 2, 4, 2)
assert [int(e) for e in shown.elements] == [0, 1, 1000, 1001, 2, 3, 1002, 1003], (
    "two records from each of two shards in turn"
)
### BEGIN HIDDEN TESTS
shown = inspect_pipeline(interleaved, 4, 4, 2)
assert shown.ended and [int(e) for e in shown.elements] == [
    0,
    1,
    1000,
    1001,
    2,
    3,
    1002,
    1003,
    2000,
    2001,
    3000,
    3001,
    2002,
    2003,
    3002,
    3003,
], "at_once shards are open, not all of them"
shown = inspect_pipeline(interleaved, 3, 4, 3)
assert [int(e) for e in shown.elements] == [0, 1, 1000, 1001, 2000, 2001, 2, 3, 1002, 1003, 2002, 2003], (
    "at_once says how many shards are open"
)
### END HIDDEN TESTS

# %% tests="2.2" points=10
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(interleaved, 4, 6, 3)
assert "ParallelInterleaveDataset" in shown.ops, "one thread reads all shards in turn: num_parallel_calls"
### BEGIN HIDDEN TESTS
assert shown.node("ParallelInterleaveDataset").get("num_parallel_calls", -1) != 1, "one call at a time is not parallel"
assert shown.node("ParallelInterleaveDataset").get("deterministic") != "false", "the order may vary"
assert sorted(int(e) for e in shown.elements) == sorted(1000 * s + i for s in range(4) for i in range(6)), (
    "every record comes once"
)
shown = inspect_pipeline(interleaved, 30, 10, 3, most=400)
assert len({int(e) for e in shown.elements}) == len(shown.elements) == 300, "no record of more shards is lost"
### END HIDDEN TESTS

# %% [markdown]
# ## 2.3 Cache in the right place (25 points)
#
# `epochs(values, count)` gets a list of numbers from 0 to 255. Each is divided by 255 (think of it as the expensive decoding; `float32`), and a random number from 0 to 0.001 is added (the augmentation). Return a pipeline that gives all values `count` times, epoch after epoch, in order: decoding is done once and kept in memory, the random numbers differ from epoch to epoch.


# %% solution="2.3"
def epochs(values, count):
    ### BEGIN SOLUTION
    raw = tf.data.Dataset.from_tensor_slices(tf.constant(values, tf.float32))
    decoded = raw.map(lambda v: v / 255).cache()
    return decoded.map(lambda v: v + tf.random.uniform([], 0, 0.001)).repeat(count)
    ### END SOLUTION


# %% tests="2.3" points=10
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(epochs, [0, 51, 255], 2)
assert [round(float(e), 1) for e in shown.elements] == [0.0, 0.2, 1.0] * 2, (
    "each value divided by 255, epoch after epoch"
)
### BEGIN HIDDEN TESTS
shown = inspect_pipeline(epochs, [10, 20, 30, 40], 3)
assert shown.ended and len(shown.elements) == 12, "every value once in every epoch"
assert all(
    v / 255 - 1e-6 <= float(e) <= v / 255 + 0.001 + 1e-6
    for v, e in zip([10, 20, 30, 40] * 3, shown.elements, strict=True)
), "a random number from 0 to 0.001 is added"
shown = inspect_pipeline(epochs, list(range(150)), 2, most=400)
assert shown.ended and len(shown.elements) == 300, "no value of longer data is lost"
### END HIDDEN TESTS

# %% tests="2.3" points=15
from labcourse.inspection import inspect_pipeline

shown = inspect_pipeline(epochs, [0, 100, 200, 250], 2)
assert any(op.startswith("CacheDataset") for op in shown.ops), "nothing is kept: cache()"
### BEGIN HIDDEN TESTS
import numpy as np

kept = [cache for cache in shown.caches if {"MapDataset", "ParallelMapDataset"} & set(cache["ops"])]
assert kept, "no map is kept: the one that decodes comes before the cache"
assert all(cache["in_memory"] for cache in kept), "kept in a file; cache() without a name keeps it in memory"
assert all(str(e.dtype) == "float32" for e in shown.elements), "the elements are float32"
values = [float(e) for e in shown.elements]
assert sum(abs(a - b) > 1e-9 for a, b in zip(values[:4], values[4:], strict=True)) >= 3, (
    "the random numbers are the same in every epoch: they were cached, too"
)
columns = [column for cache in kept for column in zip(*(cache["elements"] or []), strict=True)]
stored = [np.concatenate([np.ravel(value) for value in column]) for column in columns]
stored = [found for found in stored if found.dtype.kind in "fiu"]
unknown = any(cache["elements"] is None for cache in kept)
assert unknown or any(len(found) <= 4 for found in stored), (
    "decoding is done again in every epoch: repeat comes before the cache"
)
truth = [v / 255 for v in (0, 100, 200, 250)]
assert unknown or any(len(found) == 4 and np.allclose(found, truth, rtol=0, atol=1e-6) for found in stored), (
    "what is kept is not decoded: the division comes after the cache"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2.4 As wide as needed (25 points)
#
# `knobs(decode_ms, train_ms, cores)`: decoding takes `decode_ms` per image on one core, a train step on 32 images `train_ms`, everything else nothing. Return a tuple `(map_calls, prefetch)` with which the accelerator is as busy as it can be on a machine with so many cores, with the **fewest** parallel calls, at most one for each core, and the smallest prefetch buffer. A simulation judges: `simulate.run(simulate.Costs(map=decode_ms, train=train_ms), simulate.Knobs(batch_size=32, cores=cores, map_calls=..., prefetch=...))`.


# %% solution="2.4"
def knobs(decode_ms, train_ms, cores):
    ### BEGIN SOLUTION
    needed = -(-32 * decode_ms // train_ms)
    return int(max(1, min(cores, needed))), 1
    ### END SOLUTION


# %% tests="2.4" points=10
from numbers import Integral

made = knobs(10, 160, 8)
assert len(made) == 2 and all(isinstance(v, Integral) and type(v) is not bool and 0 <= v <= 64 for v in made), (
    "two whole numbers from 0 to 64"
)
assert made[1] >= 1, "without prefetch nothing overlaps"
### BEGIN HIDDEN TESTS
made = knobs(20, 200, 8)
assert all(isinstance(v, Integral) and 0 <= v <= 64 for v in made) and made[0] == 4, (
    "the work of a batch, divided by the time of a step"
)
### END HIDDEN TESTS

# %% tests="2.4" points=15
assert tuple(knobs(1, 100, 4)) == (1, 1), "decoding hides behind training: nothing more is needed"
### BEGIN HIDDEN TESTS
from numbers import Integral

import labkit
from labkit import simulate


def busy(decode_ms, train_ms, cores, calls, prefetch):
    knob = simulate.Knobs(batch_size=32, cores=cores, core_gain=1, map_calls=calls, prefetch=prefetch)
    return labkit.Timeline(simulate.run(simulate.Costs(map=decode_ms, train=train_ms), knob, steps=20, warmup=5)).busy


for case in [(10, 160, 8), (10, 100, 4), (7, 50, 3), (30, 100, 2), (2, 100, 8)]:
    best = max(busy(*case, calls, 2) for calls in range(1, case[2] + 1))
    calls, prefetch = knobs(*case)
    whole = all(isinstance(v, Integral) and type(v) is not bool for v in (calls, prefetch))
    assert whole and 1 <= calls <= case[2] and 1 <= prefetch <= 64, "one call for each core at most"
    assert busy(*case, calls, prefetch) >= best - 0.02, "the accelerator waits more than it must"
    assert calls == 1 or busy(*case, calls - 1, prefetch) < best - 0.02, "fewer calls would do"
    assert prefetch == 1, "a smaller buffer would do"
### END HIDDEN TESTS
