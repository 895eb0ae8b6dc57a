# %% [markdown]
# # Map in parallel
#
# **You will** let several cores decode photos at the same time, and find the number of calls where more calls stop helping.
#
# **You will learn** what parallel calls do to the throughput and to the order of the photos, when more threads than cores help, and why Python code in a map does not get faster.
#
# **You need** notebooks 01 and 02, and a machine with two cores or more. No GPU. About 60 minutes. Words that you do not know are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, charts, cores, photos, plain, simulate, storage

# %% [markdown]
# ## The idea
#
# Photos do not depend on each other. Two cores can therefore work on two photos at the same time. No photo is finished faster, but more photos are finished per second.

# %%
idea("04")

# %% [markdown]
# ## The job so far
#
# Each photo is loaded as in the notebooks before. The argument `read` is new: it says how the bytes of the file are read, and we will exchange it later.

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
print(f"{len(album):,} photos; this process may use {cores()} cores")

# %% [markdown]
# Each [element](../docs/glossary.md#element) of `files` is a pair [`(path, label)`](../docs/glossary.md#path-label).
#
# ## Predict
#
# The pipeline may make as many calls of `load` at the same time as this machine has cores. How many times faster is it than with one call at a time? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("04.gain", ..., unit="times")

# %% [markdown]
# ## Build
#
# The parallel map needs one argument, `num_parallel_calls`. Each call runs on a *worker thread*. As in the notebooks before, `plain` switches off the changes that tf.data makes by itself. Here `plain` also sets the number of worker threads, so that each call finds a free thread.

# %%
def mapped(calls, function=load):
    return plain(files.map(function, num_parallel_calls=calls).batch(32), threads=calls)


for node in labkit.recorder.graph(mapped(2)):
    print(node)

# %% [markdown]
# Read the list from the last step (top) to the source (bottom). The map is now called `ParallelMapV2`. Nothing else has changed.
#
# ## Run
#
# We try 1 call, 2 calls, and so on, up to four times the number of cores. The train step takes only 1 ms, so the table shows the speed of the pipeline alone.

# %%
calls = sorted({n for n in (1, 2, 4, 8, 16) if n < cores()} | {cores(), 2 * cores(), 4 * cores()})
names = ["1 call", *(f"{n} calls" for n in calls[1:])]
instant = accelerators.modelled(step_ms=1)

# %% tags=["nbval-ignore-output"]
result = labkit.measure(dict(zip(names, map(mapped, calls))), instant, steps=5, repeats=5)
result

# %% [markdown]
# The picture below shows the same runs. Along the dashed line, each additional call helps as much as the first call did, until every core has a call.

# %% tags=["nbval-ignore-output"]
charts.sweep(result, calls, x_label="parallel calls", title="Images per second by parallel calls", cores=cores())

# %% [markdown]
# Up to the number of cores, the measured line should rise. Beyond the number of cores, it cannot rise much, because every core already works. It can even fall a little, because more threads then take turns on the same cores. A thread that waits for its turn is hollow in a timeline: it *waits for a core*. So a long *decode* has two possible reasons: heavy work, or too many threads for the cores.
#
# Each short vertical line goes from the slowest to the fastest of the five rounds. If these lines are long, other programs used the cores: close them and measure again.
#
# The measured line often stays below the dashed line. There are three usual reasons. The photos are copied into the batch by a single thread. The cores share the memory. And on a cloud machine, two "cores" are often two threads of one real core.
#
# Now compare three numbers: your prediction, the measurement, and a *model*. The model is a simulation that knows only the run with one call.

# %% tags=["nbval-ignore-output"]
model = simulate.fit(result.trace("1 call"))
alone, shared = (model.predict(map_calls=n, threads=n).images_per_s for n in (1, cores()))
predictions.review("04.gain", model=shared / alone, measured=result.speedup(names[calls.index(cores())]))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("1 call"), result.trace("2 calls"), labels=("1 call", "2 calls"), steps=3)

# %% [markdown]
# ## Explain
#
# Look at the band *threads*. Filled is work on a core, hollow is waiting, and the dashed line is the number of cores. With one call, at most one thread works on photos, and the band stays below the line. With two calls, two threads work at the same time, and a batch is ready sooner. (On a machine with one core, two threads only take turns.)
#
# Do you need more parallel calls or more cores? Try it with the costs of your own machine and a train step of 18 ms. In the explorer, F, P and G are [the speeds](../docs/glossary.md#f-p-g) of fetching, of preparing and of the accelerator.

# %% tags=["nbval-ignore-output"]
explorers.explore("04", trace=result.trace("1 call"), train_ms=18)

# %% [markdown]
# ## More threads than cores
#
# A thread that decodes needs a core. A thread that waits for storage needs no core. So the best number of threads depends on what the threads do. We run the same job with three modelled storage devices. All three pipelines do the same work on the same photos; only the wait for the bytes differs.

# %%
def sweep_of(read):
    variants = {name: mapped(n, lambda path, label: load(path, label, read)) for name, n in zip(names, calls)}
    return labkit.measure(variants, instant, steps=2, warmup=1, repeats=1)


devices = ("page cache", "object store", "HDD")
sweeps = {name: sweep_of(storage.PRESETS[name].read) for name in devices}

# %% tags=["nbval-ignore-output"]
note = "; ".join(storage.PRESETS[name].describe() for name in devices)
title = "The same job, three storage devices"
charts.sweep(sweeps, calls, x_label="worker threads", title=title, note=note, cores=cores())

# %% [markdown]
# - **Page cache**: the files are already in memory (the [page cache](../docs/glossary.md#page-cache)). The threads only work, so the line stops rising at the number of cores.
# - **Object store**: each read waits 30 ms, and many reads can wait at the same time. The line goes on rising beyond the number of cores, although the cores have little to do.
# - **HDD**: the disk serves one read at a time. A second thread can decode while the first one reads. More threads than that change little.
#
# This answers a question that is often answered wrongly. Someone empties the page cache, adds threads, sees the time per image fall, and concludes: "The CPU is the bottleneck." The conclusion does not follow. The object store's line rises as well, and there the wait for storage was the bottleneck. To know the cause, measure a second time with the files in memory, and compare.
#
# ## Order
#
# Calls that run at the same time do not finish in order. By default (`deterministic=True`), tf.data waits and delivers the elements in order. The example has 16 numbers, and every fourth number takes 40 ms longer than the others.

# %%
def slow_fourth(i):
    return storage.delayed(i, ms=40, when=i % 4 == 0)


def numbered(keep):
    return plain(tf.data.Dataset.range(16).map(slow_fourth, num_parallel_calls=4, deterministic=keep), threads=4)

# %%
print([int(i) for i in numbered(keep=True)])

# %% tags=["nbval-ignore-output"]
print([int(i) for i in numbered(keep=False)])

# %%
print(sorted(int(i) for i in numbered(keep=False)) == list(range(16)))

# %% [markdown]
# With `deterministic=False`, fast elements overtake slow elements. Run the second cell again: the order may be different. No element is lost, and no element comes twice.
#
# Keeping the order has a price. A finished element must wait until all earlier elements are finished. If you shuffle the data anyway, you can give up the order. If a run must be repeatable, keep the order.
#
# ## Python in the map
#
# `tf.py_function` calls a Python function from a pipeline. Python has a lock, the [GIL](../docs/glossary.md#gil). Only the thread that holds this lock can run Python code. We compute the mean of all pixels twice: once with operations of TensorFlow, which run in C++, and once in Python. Both variants decode in C++.

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
    variants[f"{name}, 1 call"] = mapped(1, function)
    variants[f"{name}, every core"] = mapped(cores(), function)
locked = labkit.measure(variants, instant, steps=2, warmup=1, repeats=5)
locked

# %% tags=["nbval-ignore-output"]
for name in languages:
    print(f"{name:<7}", locked.speedup(f"{name}, every core", over=f"{name}, 1 call"))

# %% [markdown]
# The last two lines compare each language with itself: a call for every core against 1 call. In C++, the gain can be as large as the number of cores. In Python, the gain is limited: one thread adds up pixels, and meanwhile the other threads can only read and decode. Exercise 04.3 computes this limit. `tf.numpy_function` and `Dataset.from_generator` need the same lock. (NumPy releases the lock inside some long calls. Your own `for` loop never releases it.)
#
# Write maps with operations of TensorFlow, or do the Python part once, before the training.
#
# ## Exercises
#
# **04.1** Write `in_parallel(dataset, function)`. It maps `function` over the elements and lets tf.data choose the number of parallel calls. The order must be kept, whatever the options of the dataset say. Use one map and nothing else. The answer is one line.

# %% tags=["stub"]
def in_parallel(dataset, function):
    ...  # your code

# %% tags=["solution"]
def in_parallel(dataset, function):
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

# %%
try_it("04.1", in_parallel)
check("04.1", in_parallel)

# %% [markdown]
# **04.3** (Exercise 04.2 is in the optional notebook 04b.) For each image, `gil_ms` milliseconds are spent in Python and `free_ms` milliseconds in C++. While one thread runs Python, other threads may run C++. Write `best_gain(free_ms, gil_ms, cores)`: the best possible speed-up over one call at a time, with any number of calls. The answer is one line.

# %% tags=["stub"]
def best_gain(free_ms, gil_ms, cores):
    ...  # your code

# %% tags=["solution"]
def best_gain(free_ms, gil_ms, cores):
    return min(cores, (free_ms + gil_ms) / gil_ms)

# %%
try_it("04.3", best_gain)
check("04.3", best_gain)

# %% [markdown]
# ## Recap
#
# You raised the number of parallel calls and saw where the throughput stops rising. You saw that threads beyond the number of cores help only while threads wait. You gave up the order and still received every element once. You met the lock that keeps Python code from running on several cores.
#
# ## In practice
#
# - Use `num_parallel_calls=tf.data.AUTOTUNE` on every map that does real work.
# - Use more threads than cores only if the threads wait for storage.
# - If all cores work and the accelerator still waits, more threads do not help. Do less work per image, or do the work once and keep the result (a cache).
#
# **Optional:** [04b Watch AUTOTUNE](04b_watch_autotune.ipynb): what `AUTOTUNE` chooses, and how many cores feed one accelerator.
#
# **Next:** [05 Cache what is expensive](05_cache_what_is_expensive.ipynb): work that is done once need not be parallel.
