# %% [markdown]
# # Watch AUTOTUNE
#
# This notebook is optional: the notebooks after it do not need it.
#
# **You will** watch how `AUTOTUNE` changes a running pipeline, and count how many cores feed one accelerator.
#
# **You will learn** which numbers TensorFlow chooses by itself, how you can see them, and why publications give such different numbers of cores for the same accelerator.
#
# **You need** notebook 04. No GPU. About 20 minutes. Words that you do not know are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import time

import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras.tune import autotune_chart, diagnosis
from labkit import accelerators, charts, cores, photos, storage

# %% [markdown]
# ## The idea
#
# Nobody has to guess the size of a buffer: tf.data begins with a small buffer and makes it larger while the job runs. It chooses the number of threads, too.

# %%
idea("04b")

# %% [markdown]
# ## The job so far
#
# Each photo is loaded as in notebook 04.

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
print(f"{len(album):,} photos; this process may use {cores()} cores")

# %% [markdown]
# ## Predict
#
# A V100 that trains the network ResNet-50 in mixed precision needs 1,170 images per second. (*fp32* means that all numbers have 32 bits. *Mixed precision* means that most numbers have only 16 bits, so the same V100 trains faster.) How many cores like those of this machine must work all the time to load so many images? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("04b.cores", ..., unit="cores")

# %% [markdown]
# ## Run: the CPU time of one photo
#
# The CPU time is a counter of the process. It adds up the work of all threads, and it stands still while a thread waits. We load 256 photos three times.

# %%
loaded = files.take(256).map(load, num_parallel_calls=cores()).batch(32)


def cpu_ms_per_image():
    start = time.process_time()
    for _ in loaded:
        pass
    return 1000 * (time.process_time() - start) / 256

# %% tags=["nbval-ignore-output"]
cpu_ms = [cpu_ms_per_image() for _ in range(labkit.measures.rounds_of(3))]
print("ms of CPU time per image:", [round(ms, 2) for ms in cpu_ms])

# %% [markdown]
# An accelerator that trains 1,000 images per second needs 1,000 times this CPU time in each second. One core gives 1,000 ms of CPU time per second. The rates below are the lab's presets for ResNet-50. Three are in the workload files of the DLIO benchmark, which state no precision. The V100 of DLIO is about as fast as a V100 in fp32 elsewhere (MXNet's table: 343 images per second). The rate in mixed precision is in a user's log (NVIDIA/DALI, issue 2242).

# %% tags=["nbval-ignore-output"]
rates = {name: preset.images_per_s for name, preset in accelerators.PRESETS.items()}
needed = {f"{name}: {rate:,.0f} images/s": [rate * ms / 1000 for ms in cpu_ms] for name, rate in rates.items()}
needed["this machine has"] = cores()
title = "Cores that feed one accelerator (ResNet-50)"
charts.bars(needed, unit="cores", title=title, note="measured CPU time times published rate")

# %% tags=["nbval-ignore-output"]
predictions.review("04b.cores", measured=needed["V100 mixed: 1,170 images/s"])

# %% [markdown]
# ## Explain
#
# The same V100 has two bars, because it has two speeds: 1,170 / 328 = 3.6. A paper on V100 servers (DS-Analyzer, VLDB 2021, section 4.3.3, figure 5) found 3 to 4 cores per GPU for ResNet-50. With the rate of DLIO and 2 to 3 ms of CPU time per photo, our rule gives 1 core or less. Most of the difference comes from the rate, because a V100 in mixed precision consumes 3.6 times as many photos. So ask two questions about each number of cores that you read: how fast does this accelerator train, and how much CPU time does one photo cost?
#
# The same paper found 12 to 24 cores per GPU for ResNet-18 and AlexNet. These networks are smaller, so the same accelerator trains more images per second.
#
# ## Watch AUTOTUNE
#
# In practice, nobody tries all numbers of calls by hand. [`AUTOTUNE`](../docs/glossary.md#autotune) chooses the calls and the buffers while the job runs, but it prints nothing. `diagnosis.autotune` runs a job and reads the choice after every step. (It asks `tf.data.experimental.get_model_proto`.)
#
# With equal batches there is little to choose. In this job, every eighth batch comes 400 ms late:

# %%
def late(step, batch):
    return storage.delayed(batch, ms=400, when=step % 8 == 7)


bursty = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(16).enumerate().map(late)
tuned = bursty.prefetch(tf.data.AUTOTUNE)

# %% tags=["nbval-ignore-output"]
slow_step = accelerators.modelled(step_ms=120)
report = diagnosis.autotune(tuned, slow_step, steps=40)
autotune_chart.draw(report)

# %% [markdown]
# - **The buffer** of the prefetch: the line is its size, and the shaded area is the number of batches in it. TensorFlow begins with a small buffer. If the buffer was full and is empty later, TensorFlow doubles its size.
# - **The parallelism** of the map: TensorFlow chooses a number between 1 and the number of worker threads (the dashed line).
# - **The wait** of the accelerator for a batch: compare the late batches at the beginning with the late batches at the end.
#
# The same readings as a table, as they were after the last step:

# %% tags=["nbval-ignore-output"]
report

# %%
print([node.label for node in report.nodes if node.asynchronous])

# %% [markdown]
# Read the table from the last step of the pipeline (*Root*, top) to the source (bottom). You wrote `map` and `batch`. TensorFlow has joined them into one node, *MapAndBatch*.
#
# - *own ms* is the time inside this node, without the nodes below it.
# - *holds* is the number of elements that wait in this node now.
# - *holds MB* is the count of TensorFlow. For file names it is far too large: all names are parts of one block of memory, and TensorFlow counts the whole block once for each name.
#
# Below the table, you read either "No node limits" or the slowest chain of nodes. The next job has a slow chain: a hard disk that reads one photo at a time, before a decode with AUTOTUNE. Does the table find it? The options keep tf.data from joining the two maps.

# %%
disk = storage.PRESETS["HDD"]
options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False


def decode(data, label):
    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), [224, 224]), label


fetched = files.map(lambda path, label: (disk.read(path), label))
planted = fetched.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(16).with_options(options)
print(*labkit.recorder.graph(planted), sep="\n")

# %% tags=["nbval-ignore-output"]
found = diagnosis.autotune(planted, accelerators.modelled(step_ms=1), steps=8)
print("limit:", found.limit)
found

# %% [markdown]
# The chain with *Map*, which waits for the disk, should be named as the limit. (If your cores decode more slowly than this disk reads, the table names the decode.) A larger parallelism of *ParallelMapV2* would change nothing, and AUTOTUNE cannot speed up a map without `num_parallel_calls`. Trust the order of the chains more than their milliseconds: *own ms* grows when threads share a core.
#
# ## Exercise
#
# **04.2** Write `cores_needed(images_per_s, cpu_ms)`: the number of cores that must work all the time to feed an accelerator. Do not round. The answer is one line.

# %% tags=["stub"]
def cores_needed(images_per_s, cpu_ms):
    ...  # your code

# %% tags=["solution"]
def cores_needed(images_per_s, cpu_ms):
    return images_per_s * cpu_ms / 1000

# %%
try_it("04.2", cores_needed)
check("04.2", cores_needed)

# %% [markdown]
# ## Recap
#
# You multiplied the CPU time of a photo by the rate of an accelerator, and you saw why publications disagree about the number of cores. You watched AUTOTUNE change a buffer while a job ran. You found a slow chain of nodes in the table.
#
# ## In practice
#
# - Give `AUTOTUNE` to every map that does real work and to the last prefetch.
# - In your own training loop, write `it = iter(dataset)`, and after some steps `diagnosis.read(it)`.
#
# **Next:** [05 Cache what is expensive](05_cache_what_is_expensive.ipynb): work that is done once need not be parallel.
