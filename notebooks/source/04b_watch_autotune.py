# %% [markdown]
# # Watch AUTOTUNE
#
# This notebook is optional: the notebooks after it do not need it.
#
# **You will** watch how `AUTOTUNE` changes a running pipeline, and let it find the step that limits a job.
#
# **You will learn** which numbers TensorFlow chooses by itself, when it changes them, and what it cannot repair.
#
# **You need** notebook 04. No GPU. About 15 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import idea, predictions
from labextras.tune import autotune_chart, diagnosis
from labkit import accelerators, cores, photos, storage

# %% [markdown]
# ## The idea
#
# Nobody has to guess the size of a buffer: tf.data begins with a small buffer and makes it larger while the job runs.

# %%
idea("04b")

# %% [markdown]
# ## The job
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
# With equal batches there is little to choose. In this job, every eighth batch comes 400 ms late, and a train step takes 120 ms:

# %%
def late(step, batch):
    return storage.delayed(batch, ms=400, when=step % 8 == 7)


bursty = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(16).enumerate().map(late)
tuned = bursty.prefetch(tf.data.AUTOTUNE)
slow_step = accelerators.modelled(step_ms=120)

# %% [markdown]
# ## Predict
#
# The prefetch begins with room for one batch. For how many batches will it have room after 40 train steps? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("04b.buffer", ..., unit="batches")

# %% [markdown]
# ## Run
#
# `AUTOTUNE` prints nothing. `diagnosis.autotune` runs the job, and asks TensorFlow after every step what it has chosen (`tf.data.experimental.get_model_proto`).

# %% tags=["nbval-ignore-output"]
report = diagnosis.autotune(tuned, slow_step, steps=40)
autotune_chart.draw(report)

# %% tags=["nbval-ignore-output"]
predictions.review("04b.buffer", measured=report.history["Prefetch.buffer_size"][-1])

# %% [markdown]
# ## Explain
#
# - **The buffer** of the prefetch: the line is its size, and the shaded area is the number of batches in it. If it was full, and is empty later, TensorFlow doubles its size: a larger one would have held more.
# - **The wait** of the accelerator: compare the late batches at the beginning with those at the end. When the buffer holds enough batches for the time that one is late, nobody notices the late one.
# - **The parallelism** of the map: a number between 1 and the number of worker threads (the dashed line). With few cores there is little to choose.
#
# TensorFlow looks often in the first second, and then more and more rarely. It never makes this buffer smaller again. A buffer that doubles costs memory: `options.autotune.ram_budget` limits it.
#
# ## What it cannot repair
#
# The next job has a hard disk that reads one photo at a time, in a map without `num_parallel_calls`, and a decode with AUTOTUNE behind it. Which of the two will be named as the limit? (The options keep tf.data from joining the two maps.)

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

# %% [markdown]
# `Map` is the map without `num_parallel_calls`, which waits for the disk; `ParallelMapV2` is the decode. If the first one is named, more calls of the decode would change nothing, and AUTOTUNE has no number that it could change in a map that makes one call at a time. If the decode is named, your cores decode more slowly than this disk reads.
#
# ## Without the lab
#
# In your own training loop, these lines print what was chosen. A short run may end with other numbers than the chart above. The interface is experimental.

# %% tags=["nbval-ignore-output"]
batches = iter(tuned)
for _ in range(20):
    next(batches)
for node in tf.data.experimental.get_model_proto(batches).nodes.values():
    for parameter in node.parameters:
        if parameter.tunable:
            print(node.name, parameter.name, int(parameter.value))

# %% [markdown]
# ## Recap
#
# You saw a buffer double until late batches cost nothing, and a job whose limit no choice of AUTOTUNE removes.
#
# ## In practice
#
# - Give `AUTOTUNE` to every map that does real work and to the last prefetch.
# - If a job still waits, look for a step that AUTOTUNE may not change: a map without `num_parallel_calls`, one slow file.
#
# **Next:** [05 Cache what is expensive](05_cache_what_is_expensive.ipynb): work that is done once need not be parallel.
