# %% [markdown]
# # Map in parallel
#
# **You will** let several cores decode photos at the same time, and find the number of calls where more calls stop helping.
#
# **You will learn** what parallel calls do to the speed and to the order of the photos, when more threads than cores help, and why Python code in a map gains less.
#
# **You need** notebooks 01 and 02, and a machine with two cores or more. No GPU. About 30 minutes. Special words are in the [glossary](../docs/glossary.md).
#
# **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, charts, cores, photos, plain, simulate, storage

# %% [markdown]
# ## The idea ▸
#
# Photos do not depend on each other, so two cores can prepare two photos at the same time. No photo is finished faster, but more photos are finished per second.

# %%
idea("04")

# %% [markdown]
# ## The job so far ▸
#
# Your own ladder, and the photos. The argument `read` of `load` says how the bytes of a file are fetched; we will exchange it later.

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("04")

# %%
def load(path, label, read=tf.io.read_file):
    image = tf.io.decode_jpeg(read(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label

# %% tags=["nbval-ignore-output"]
album = photos.load()
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
calls = [1, 2, 4, 8] if cores() <= 4 else [1, cores() // 2, cores(), 2 * cores()]
print(f"{len(album):,} photos; this process may use {cores()} cores; we will try {calls} calls")

# %% [markdown]
# ## Predict ▸
#
# A parallel map makes several calls of `load` at the same time. For each number of calls that the cell above has printed: how many times as fast as one call? Drag the points, or replace the three dots by four numbers, as in `[1, 2, 3, 4]`.

# %% tags=["nbval-ignore-output"]
predictions.curve("04.curve", ..., at=calls, unit="times", label="calls")

# %% [markdown]
# ## Build ▸
#
# The parallel map needs one argument, `num_parallel_calls`. Each call runs on a *worker thread*. As before, `plain` switches off the changes that tf.data makes by itself; here it also sets the number of worker threads, so that each call finds a free thread.

# %%
def mapped(calls, function=load):
    return plain(files.map(function, num_parallel_calls=calls).batch(32), threads=calls)


names = ["1 call", *(f"{n} calls" for n in calls[1:])]
instant = accelerators.modelled(step_ms=1)

# %% [markdown]
# ## Run ▸
#
# The train step takes only 1 ms, so the table shows the speed of the pipeline alone.

# %% tags=["nbval-ignore-output"]
result = labkit.measure(dict(zip(names, map(mapped, calls))), instant, steps=5, repeats=5)
result

# %% [markdown]
# Your curve, the measured one, and a *model*: a simulation that knows only the run with one call, and the number of cores.

# %% tags=["nbval-ignore-output"]
model = simulate.fit(result.trace("1 call"))
rates = [model.predict(map_calls=n, threads=n).images_per_s for n in calls]
predictions.review("04.curve", model=[rate / rates[0] for rate in rates], measured=result)

# %% [markdown]
# The curve rises as long as there is a core for each call. Then it rises no further: every core works already.
#
# <details><summary>Why the curve stays below the number of calls</summary>
#
# The photos are copied into the batch by a single thread. The cores share the memory. And on a cloud machine, two "cores" are often two threads of one real core. More calls than cores can even cost a little, because threads take turns on the cores: such a thread *waits for a core*, and a long *decode* then has two possible reasons, heavy work or too many threads.
#
# </details>
#
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace(names[0]), result.trace(names[1]), labels=names[:2], steps=3)

# %% [markdown]
# ## Explain
#
# Look at the band *threads*. Filled is work on a core, hollow is waiting, and the dashed line is the number of cores. With one call, at most one thread prepares photos. With more calls, more threads do, and a batch is ready sooner.
#
# More calls, or more cores? Try it with the costs of your own machine. [F, P and G](../docs/glossary.md#f-p-g) are the speeds of *fetch*, *prepare* and *train*.

# %% tags=["nbval-ignore-output"]
explorers.explore("04", trace=result.trace("1 call"), train_ms=18)

# %% [markdown]
# ## More threads than cores
#
# A thread that prepares needs a core. A thread that waits for storage needs none. The same job again, with files that are in memory ([page cache](../docs/glossary.md#page-cache)) and with a modelled object store, where each read waits.

# %%
def sweep_of(read):
    variants = {name: mapped(n, lambda path, label: load(path, label, read)) for name, n in zip(names, calls)}
    return labkit.measure(variants, instant, steps=4, warmup=2, repeats=3)


sweeps = {name: sweep_of(storage.PRESETS[name].read) for name in ("page cache", "object store")}

# %% tags=["nbval-ignore-output"]
note = storage.PRESETS["object store"].describe()
charts.sweep(sweeps, calls, x_label="calls", title="The same job, two stores", note=note, cores=cores())

# %% [markdown]
# At first, both lines rise. In which of the two were the cores the limit? Decide before you open the answer.
#
# <details><summary>Answer</summary>
#
# *Page cache*: on a quiet machine, its line is flat from the number of cores on. *Object store*: its line goes on rising, although the cores have little to do, because many reads can wait at the same time. So "more threads make it faster" proves nothing about the cores. To know the cause, measure a second time with the files in memory, and compare.
#
# </details>
#
# ## Order
#
# Calls that run at the same time do not finish in order. By default (`deterministic=True`), tf.data waits, and delivers the elements in order. Here every fourth of 16 numbers comes late:

# %%
def slow_fourth(i):
    return storage.delayed(i, ms=40, when=i % 4 == 0)


def numbered(keep):
    return plain(tf.data.Dataset.range(16).map(slow_fourth, num_parallel_calls=4, deterministic=keep), threads=4)


print([int(i) for i in numbered(keep=True)])

# %% tags=["nbval-ignore-output"]
print([int(i) for i in numbered(keep=False)])

# %%
print(sorted(int(i) for i in numbered(keep=False)) == list(range(16)))

# %% [markdown]
# With `deterministic=False`, fast elements overtake slow ones. No element is lost, and none comes twice. Give up the order if you shuffle anyway; keep it if a run must be repeatable.
#
# ## Python in the map
#
# `tf.py_function` calls a Python function from a pipeline. Only the thread that holds Python's lock, the [GIL](../docs/glossary.md#gil), can run Python code. We compute the mean of all pixels in C++ and in Python; both decode in C++.

# %%
def mean_in_cpp(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.reduce_mean(tf.cast(image, tf.float32)), label

# %%
def python_mean(image):
    values = image.numpy().tobytes()
    return sum(values) / len(values)


def mean_in_python(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.ensure_shape(tf.py_function(python_mean, [image], tf.float32), []), label

# %% tags=["nbval-ignore-output"]
languages = {"C++": mean_in_cpp, "Python": mean_in_python}
variants = {}
for name, function in languages.items():
    variants[f"{name}: 1 call"] = mapped(1, function)
    variants[f"{name}: every core"] = mapped(cores(), function)
locked = labkit.measure(variants, instant, steps=2, warmup=1, repeats=5)
for name in languages:
    print(f"{name:<7}", locked.speedup(f"{name}: every core", over=f"{name}: 1 call"))
locked

# %% tags=["nbval-ignore-output"]
both = [f"{name}: every core" for name in languages]
labkit.show(*map(locked.trace, both), labels=both, steps=1)

# %% [markdown]
# The two lines above the table compare each language with itself: a call for every core against one call. In Python one thread adds up pixels, and meanwhile the others can only read and decode: in the lower picture, calls that wait for the interpreter are hollow. `tf.numpy_function` and `Dataset.from_generator` need the same lock. Write maps with operations of TensorFlow, or do the Python part once, before the training.
#
# ## Read ▸
#
# **04.1** In which of three jobs is the map a function of Python? Answer as `"A"`, or by a click.

# %% tags=["nbval-ignore-output"]
read("04.1")

# %% tags=["stub"]
answer = ...

# %% tags=["solution"]
answer = "C"

# %%
check("04.1", answer)

# %% [markdown]
# **04.2** Which of three jobs needs more calls, which more cores, and which neither? Answer as `{"A": "more calls", "B": ..., "C": ...}`, or by clicks.

# %% tags=["nbval-ignore-output"]
read("04.2")

# %% tags=["stub"]
answer = ...

# %% tags=["solution"]
answer = {"A": "more cores", "B": "neither", "C": "more calls"}

# %%
check("04.2", answer)

# %% [markdown]
# ## Exercises
#
# **04.3** Write `in_parallel(dataset, function)`. It maps `function` over the elements and lets tf.data choose the number of parallel calls. The order must be kept, whatever the options of the dataset say. The answer is one line.

# %% tags=["stub"]
def in_parallel(dataset, function):
    ...  # your code

# %% tags=["solution"]
def in_parallel(dataset, function):
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

# %%
try_it("04.3", in_parallel)
check("04.3", in_parallel)

# %% [markdown]
# **04.4** How does a parallel map do that? Build one with a pool of threads. `pool_map(function, items, calls)` yields `function(item)` of each item, in the order of the items, with `calls` calls at the same time. At most `calls` items are in flight: taken from `items`, and not yielded yet. (So `pool.map` is no answer: it takes all items first.) About seven lines.

# %% tags=["stub"]
def pool_map(function, items, calls):
    ...  # a deque of pool.submit(function, item); yield the result() of the oldest one

# %% tags=["solution"]
def pool_map(function, items, calls):
    in_flight = deque()
    with ThreadPoolExecutor(calls) as pool:
        for item in items:
            in_flight.append(pool.submit(function, item))
            if len(in_flight) == calls:
                yield in_flight.popleft().result()
        while in_flight:
            yield in_flight.popleft().result()

# %%
try_it("04.4", pool_map)
check("04.4", pool_map)

# %% [markdown]
# ## Your pipeline

# %% tags=["nbval-ignore-output"]
my_pipeline.step("04")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("04")

# %% [markdown]
# ## Without the lab
#
# At work: how many calls are enough? Time the pipeline alone.

# %%
def images_per_s(calls, batches=4):
    batch = iter(files.map(load, num_parallel_calls=calls).batch(32))
    next(batch)  # not counted: the start
    start = perf_counter()
    for _ in range(batches):
        next(batch)
    return 32 * batches / (perf_counter() - start)

# %% tags=["nbval-ignore-output"]
for n in (*calls, tf.data.AUTOTUNE):
    print(f"{'AUTOTUNE' if n < 0 else n:>8} call{'s' * (n != 1)}: {images_per_s(n):6.0f} images/s")

# %% [markdown]
# Single runs: trust only large differences.
#
# ## Recap
#
# More calls help until every core has one. More threads than cores help only while threads wait. Giving up the order loses no element. Python code takes turns, on however many cores.
#
# ## In practice
#
# - Use `num_parallel_calls=tf.data.AUTOTUNE` on every map that does real work.
# - If all cores work and the accelerator still waits, more calls do not help. Do less for each image, or do it once and keep the result (a cache).
#
# **Optional:** [04b Watch AUTOTUNE](04b_watch_autotune.ipynb): what `AUTOTUNE` chooses while a job runs.
#
# **Next:** [05 Cache what is expensive](05_cache_what_is_expensive.ipynb): work that is done once need not be parallel.
