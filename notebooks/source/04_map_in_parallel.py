# %% [markdown]
# # Map in parallel
#
# **You will** let several cores decode at once, find where that stops helping, and look at what AUTOTUNE chooses.
#
# **You will learn** what worker threads do to throughput, to the time of one image and to the order, why Python in a map does not scale, and how many cores one accelerator eats.
#
# **You need** notebooks 01 and 02. No GPU. About 40 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import time
import tensorflow as tf
from labkit import accelerators, autotune_chart, charts, cores, diagnosis, explorers
from labkit import photos, plain, predictions, simulate, storage

# %% [markdown]
# ## The job so far
#
# Each photo as before. `plain` switches tf.data's own rewriting and tuning off; here it also says how many *worker threads* the pipeline has (the option `threading.private_threadpool_size`). Without that option they are as many as cores.

# %%
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label

# %% tags=["nbval-ignore-output"]
album = photos.load()
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
print(album.summary())
print(f"this process may use {cores()} cores")

# %% [markdown]
# ## Predict
#
# Photos do not depend on each other, so several calls of `load` can run at once. How many times faster is this machine with as many calls as cores (the nearest power of two) than with one? Your number:

# %% tags=["nbval-ignore-output"]
predictions.commit("04.gain", 1.5, unit="times")

# %% [markdown]
# ## Build
#
# One argument of `map`. The number of worker threads grows with it, so that each call finds a thread:

# %%
def mapped(calls):
    return plain(files.map(load, num_parallel_calls=calls).batch(32), threads=calls)


for node in labkit.recorder.graph(mapped(2)):
    print(node)

# %% [markdown]
# `map` has become `ParallelMapV2`, a node with workers of its own; the batch stays as it was.
#
# ## Run
#
# One, two, four calls … up to four times the number of cores, into a consumer that takes next to no time: the pipeline alone is measured.

# %%
calls = [1, 2, 4]
while calls[-1] < min(4 * cores(), 64):
    calls.append(2 * calls[-1])
instant = accelerators.modelled(step_ms=1)

# %% tags=["nbval-ignore-output"]
names = {n: f"{n} call{'s' * (n > 1)}" for n in calls}
result = labkit.measure({names[n]: mapped(n) for n in calls}, instant, steps=5, repeats=5)
result

# %% tags=["nbval-ignore-output"]
near = max(2, min(calls, key=lambda n: abs(n - cores())))
one = simulate.fit(result.trace("1 call"))
base, more = (one.predict(map_calls=n, threads=n).images_per_s for n in (1, near))
predictions.review("04.gain", model=more / base, measured=result.speedup(names[near]))

# %% [markdown]
# Up to the number of cores, images per second should grow; beyond it they should stay about where they are. On one core nothing is gained at all: there is nobody to share the work with. Two cores seldom give twice as much: the batch copies on one thread, cores share memory and clock, and two "cores" of a cloud machine may be two threads of one real core.
#
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("1 call"), result.trace("2 calls"), labels=("1 call", "2 calls"), steps=3)

# %% [markdown]
# ## Explain
#
# Above, one worker has one photo in work at a time; below, two workers have one each. No photo becomes faster: parallel calls only work on more of them at once.
#
# What happens with more calls than cores? Look at the thread time per photo, from the same recordings (*map* is all work but reading, decoding and resizing):

# %% tags=["nbval-ignore-output"]
spent = [labkit.Timeline(result.trace(names[n])).per_image_ms for n in calls]
series = {kind: [s[kind] for s in spent] for kind in ("decode", "map", "resize")}
charts.lines(
    calls, series, x_label="parallel calls", y_label="ms per image", log_x=True,
    title="Thread time per image, by kind of work", note=f"the run with the median images/s; {cores()} cores",
)

# %% [markdown]
# The work per photo is the same in every run, and yet its time should grow once there are more calls than cores: the operating system gives each thread a turn, and a thread that waits for its turn is still "decoding". The same happens when another program takes the cores. So a long decode time in a timeline has two possible reasons, heavy work or crowded cores, and only the number of busy threads tells which.
#
# ## Order
#
# Calls that run at once do not finish in order. By default (`deterministic=True`) tf.data waits and delivers in order. Let every fourth of 16 elements be slow; the delay is made up, the order is not:

# %%
delay = storage.Storage("slow element", 40, float("inf"), source="made up for this lesson")
some_file = str(album.paths[0])


def slow_fourth(i):
    read = tf.cond(i % 4 == 0, lambda: delay.read(some_file), lambda: tf.io.read_file(some_file))
    return i + 0 * tf.cast(tf.strings.length(read), tf.int64)  # adds nothing, but has to wait for the read


def numbered(keep):
    return plain(tf.data.Dataset.range(16).map(slow_fourth, num_parallel_calls=4, deterministic=keep), threads=4)

# %%
print([int(i) for i in numbered(keep=True)])

# %% tags=["nbval-ignore-output"]
print([int(i) for i in numbered(keep=False)])

# %%
print(sorted(int(i) for i in numbered(keep=False)) == list(range(16)))

# %% [markdown]
# With `deterministic=False` the quick ones overtake; run the second cell again and the order may be another. No element is lost or repeated. Keeping order has a price: a finished photo holds its place among the calls until its turn comes, so a few more calls than cores can still help. Give the order up where you shuffle anyway; keep it where a run must be repeatable.
#
# ## Cold files
#
# A known measurement (from the talk behind this lab) flushes the page cache, raises the number of I/O worker threads, sees the average time to fetch and preprocess an image fall, and concludes: the CPU is the bottleneck. Repeat it. Beside the cold files run the warm ones, which need no device, and a modelled hard disk, which serves one request at a time (there the photos are only decoded and resized).

# %%
few = album.take(128)
disk = storage.PRESETS["HDD"]


def load_from_disk(path, label):
    data = disk.read(path)
    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), [224, 224]), label


def ms_per_image(function, threads):
    dataset = plain(few.files().map(function, num_parallel_calls=threads).batch(32), threads)
    start = time.perf_counter()
    for _ in dataset:
        pass
    return 1000 * (time.perf_counter() - start) / len(few)

# %% tags=["nbval-ignore-output"]
paths, cold, warm = list(few.paths), {n: [] for n in calls}, {n: [] for n in calls}
for _ in range(3):
    for n in calls:
        storage.evict(paths)
        left = storage.resident(paths)
        cold[n].append(ms_per_image(load, n))
        warm[n].append(ms_per_image(load, n))
slow_disk = [ms_per_image(load_from_disk, n) for n in calls]
print(f"{left:.0%} of the bytes were still in memory after eviction; {disk.describe()}")

# %% tags=["nbval-ignore-output"]
sweep = {"cold": list(cold.values()), "warm": list(warm.values()), "modelled hard disk": slow_disk}
charts.lines(
    calls, sweep, x_label="worker threads", y_label="ms per image", log_x=True,
    title="Average time to fetch and preprocess", note="whole passes over 128 photos, start of the pipeline included",
)

# %% [markdown]
# If much was still in memory, eviction is not possible here (macOS, Windows, a folder in memory) and *cold* is a second *warm*. If nothing was and both lines are alike, the disk is fast, or a cache outside the virtual machine answers: then a fast disk changes little.
#
# Does the line fall because the CPU was the bottleneck? Compare *cold* with *warm*. Where they fall together, yes: the threads share out decoding. Where *cold* starts higher and comes down to *warm* as threads are added, the threads hid the waiting for a device that can serve many requests. The modelled disk falls as decoding hides behind reading, but never below what one read takes: it has one arm, and no number of threads moves it faster. A falling line alone proves none of these; the second line beside it does.
#
# ## Python in the map
#
# `tf.py_function` calls Python from a pipeline. Python has one lock, the *GIL*, and only the thread that holds it runs Python. The mean of all pixels, once with TensorFlow's operations (C++), once in Python; both decode in C++:

# %%
def mean_in_cpp(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.reduce_mean(tf.cast(image, tf.float32)), label


def python_mean(image):
    values = image.numpy().tobytes()
    return sum(values) / len(values)


def mean_in_python(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.ensure_shape(tf.py_function(python_mean, [image], tf.float32), []), label

# %% tags=["nbval-ignore-output"]
variants = {
    f"{language}, {names[n]}": plain(files.map(function, num_parallel_calls=n).batch(16), threads=n)
    for language, function in (("C++", mean_in_cpp), ("Python", mean_in_python))
    for n in (1, near)
}
locked = labkit.measure(variants, instant, steps=4, warmup=1, repeats=5)
locked

# %% tags=["nbval-ignore-output"]
for language in ("C++", "Python"):
    gain = locked.speedup(f"{language}, {names[near]}", f"{language}, 1 call")
    print(f"{language:<7} {near} calls over 1: {gain}")

# %% [markdown]
# On several cores the C++ map should gain and the Python map little or nothing: while one thread adds pixels up, the others can at most decode. More calls only make the queue for the lock longer. `tf.numpy_function` and `Dataset.from_generator` stand in the same queue. (NumPy releases the lock inside some of its long calls; your own `for` loop never does.) Write maps in TensorFlow's operations, or do the Python part once, before training.
#
# ## How many cores does one accelerator eat?
#
# Measure what a photo costs in *CPU time*: a counter of the process, all threads added up, that does not run while a thread waits.

# %% tags=["nbval-ignore-output"]
start = time.process_time()
for _ in few.files().repeat(2).map(load, num_parallel_calls=cores()).batch(32):
    pass
cpu_ms = 1000 * (time.process_time() - start) / (2 * len(few))
print(f"{cpu_ms:.2f} ms of CPU time per image")

# %% tags=["nbval-ignore-output"]
needed = {}
for gpu in ("V100", "A100", "H100"):
    rate = 1e9 / accelerators.modelled(gpu).step_ns(1)
    needed[f"{gpu}, {rate:,.0f} images/s"] = rate * cpu_ms / 1000
needed["this machine has"] = cores()
charts.bars(
    needed, unit="cores", title="Cores of this machine that feed one accelerator (ResNet-50)",
    note="CPU time per image, measured above, times images/s of the published step (DLIO benchmark)",
)

# %% [markdown]
# On V100 servers, DS-Analyzer (VLDB 2021, section 4.3.3, figure 5) found 3 to 24 cores per GPU, 3 to 4 for ResNet-50 and 12 to 24 for ResNet-18 and AlexNet, which train more images a second. Yours give other numbers by the same rule: more images a second, more cores.
#
# More calls or cores? Your costs, a step of 18 ms:

# %% tags=["nbval-ignore-output"]
explorers.explore("04", trace=result.trace("1 call"), train_ms=18)

# %% [markdown]
# ## The autotune lens
#
# In practice nobody sweeps by hand: `AUTOTUNE` sets the calls and the buffers while the job runs. It shows its choice nowhere. TensorFlow keeps a model of the running pipeline, though (`tf.data.experimental.get_model_proto`), and `labkit.diagnosis` reads it after every step. This job is as it comes, with tf.data's rewriting:

# %%
tuned = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)

# %% tags=["nbval-ignore-output"]
lens = diagnosis.autotune(tuned, accelerators.modelled("V100"), steps=20)
lens

# %% [markdown]
# Read it from the consumer (*Root*) down to the files. You wrote `map` and `batch`; what runs, and what is tuned, is one node:

# %%
print([node.label for node in lens.nodes if node.asynchronous])

# %% tags=["nbval-ignore-output"]
print(lens.chosen)
autotune_chart.draw(lens)

# %% [markdown]
# The line is the choice, dashes its upper bound, the shaded part what the buffer held. Parallelism goes from 1 to the number of worker threads, the buffer from 0 as far as the memory budget allows. TensorFlow tunes within milliseconds, then ever more rarely, up to once a minute, so a flat line is normal. *Holds* in the table is what waits in a node now, and its memory as TensorFlow counts it.
#
# Below the table stands that no node limits, or the longest *line of work*: the own times of all nodes that share a thread, added up, and divided by the parallelism. It points at the node to improve. Own time is wall time and swells on crowded cores, so trust the order rather than the milliseconds. Plant a bottleneck and see whether it is found: a hard disk, one call at a time, before a parallel decode. Fusing is off here, so that reading and decoding keep their own rows.

# %%
def decode(data, label):
    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), [224, 224]), label


options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
fetched = files.map(lambda path, label: (disk.read(path), label))
planted = fetched.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(16).with_options(options)

# %% tags=["nbval-ignore-output"]
found = diagnosis.autotune(planted, instant, steps=8)
print(found.limit)
found

# %% [markdown]
# The *Map* that waits for the disk should lead (unless your cores decode slower than this disk reads); then more calls for `ParallelMapV2` change nothing. Without tuning there is no model to read, and the lens says so:

# %%
try:
    diagnosis.autotune(mapped(2), instant)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Exercises
#
# **04.1** Write `in_parallel(dataset, function)`: `function` mapped over the elements, as many calls at once as tf.data likes, the order kept whatever the options say; one map and nothing else. One line.

# %% tags=["stub"]
def in_parallel(dataset, function):
    ...  # your code

# %% tags=["solution"]
def in_parallel(dataset, function):
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

# %%
labkit.try_it("04.1", in_parallel)
labkit.check("04.1", in_parallel)

# %% [markdown]
# **04.2** Write `cores_needed(images_per_s, cpu_ms)`: how many cores are busy all the time to feed an accelerator, not rounded. One line.

# %% tags=["stub"]
def cores_needed(images_per_s, cpu_ms):
    ...  # your code

# %% tags=["solution"]
def cores_needed(images_per_s, cpu_ms):
    return images_per_s * cpu_ms / 1000

# %%
labkit.try_it("04.2", cores_needed)
labkit.check("04.2", cores_needed)

# %% [markdown]
# **04.3** Of each image, `gil_ms` are spent in Python and `free_ms` in C++. Write `best_gain(free_ms, gil_ms, cores)`: the best speed-up over one call at a time, with any number of calls. While one thread is in Python, others may be in C++. One line.

# %% tags=["stub"]
def best_gain(free_ms, gil_ms, cores):
    ...  # your code

# %% tags=["solution"]
def best_gain(free_ms, gil_ms, cores):
    return min(cores, (free_ms + gil_ms) / gil_ms)

# %%
labkit.try_it("04.3", best_gain)
labkit.check("04.3", best_gain)

# %% [markdown]
# ## Recap
#
# You raised the number of calls until the cores were full, and looked at where throughput stops and the time of one image grows. You gave the order up and got all elements back. You repeated a known measurement and saw what it proves and what not. You met the lock that keeps Python from scaling, counted the cores that an accelerator eats, and looked at AUTOTUNE while it worked.
#
# ## In practice
#
# - `num_parallel_calls=tf.data.AUTOTUNE` on every map that does real work; more threads than cores only for waiting, not for decoding.
# - In your own loop: `it = iter(dataset)`, and after some steps `labkit.diagnosis.read(it)`.
# - If the cores are full and the accelerator still waits, stop adding threads: do less work per image, or do it once (a cache).
#
# **Next:** [05 Cache what is expensive](05_cache_what_is_expensive.ipynb): work that is done once need not be parallel.
