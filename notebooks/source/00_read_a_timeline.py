# %% [markdown]
# # Read a timeline
#
# **You will** record a small training job, draw what every thread did, and read from the picture what the accelerator waited for.
#
# **You will learn** what *extract, transform, load* are, how a sequential job differs from a pipelined one, and how to tell a *fetch stall* from a *prep stall*.
#
# **You need** basic Python and an idea of what a training step is. No GPU. About 40 minutes. The [glossary](../docs/glossary.md) explains all special words.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, tour, try_it
from labkit import accelerators, photos, plain, simulate, storage

# %% [markdown]
# ## The idea
#
# The drawing shows a job that loads and trains in turn, and the same job when it loads the next batch during the training.

# %%
idea("00")

# %% [markdown]
# ## Extract, transform, load
#
# In each training [step](../docs/glossary.md#step), the [accelerator](../docs/glossary.md#accelerator) takes a [batch](../docs/glossary.md#batch) of images, computes gradients, and updates the weights. The *input pipeline* gets the next batch ready. It has three parts:
#
# - **extract**: read the bytes from storage;
# - **transform**: decode the JPEG, resize it, change it a little at random (*augmentation*). Then images are put into a batch;
# - **load**: hand the batch to the accelerator. We call this part *copy*, because in the rest of the course *loading a batch* means extract and transform.
#
# The disk or the network limits extract. The processor limits transform. If either is too slow, the accelerator is idle. At Google, one job in five spent more than a third of its compute time in the input pipeline (Murray et al., VLDB 2021, figure 1).
#
# The lab makes its own photos, so nothing is downloaded. A photo has about 115 kB, as in ImageNet.

# %% tags=["nbval-ignore-output"]
album = photos.load()
print(album.summary())

# %% [markdown]
# This is one photo of each class. The photos are synthetic.

# %% tags=["nbval-ignore-output"]
from labkit.views.picture import Photographs

first = [album.paths[list(album.labels).index(number)] for number in range(len(album.classes))]
Photographs(dict(zip(album.classes, first)))

# %% [markdown]
# ## Transform, step by step
#
# The whole course measures this function. It turns the bytes of one file into one training example. `dct_method="INTEGER_ACCURATE"` chooses TensorFlow's exact JPEG decoder.

# %%
def transform(data):
    image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1)

# %% [markdown]
# Watch the size of one photo. float32 makes the array four times larger. Resizing to 224×224 makes it small again.

# %%
data = tf.io.read_file(album.paths[0])
pixels = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
image = transform(data)
floats = tf.image.convert_image_dtype(pixels, tf.float32)
print(f"file    {len(data.numpy()) / 1000:6,.0f} kB")
for name, array in (("decoded", pixels), ("float32", floats), ("example", image)):
    print(f"{name} {array.numpy().nbytes / 1000:6,.0f} kB, {array.shape}, {array.dtype.name}")

# %% [markdown]
# ## Predict
#
# Suppose that loading one batch takes 30 ms and training on it takes 60 ms. The job loads a batch, trains on it, loads the next batch, and so on. For what share of the time is the accelerator busy? Replace the three dots by your number, a share between 0 and 1. You can change your number until you see the measurement. If you leave the dots, the notebook continues without a prediction.

# %% tags=["nbval-ignore-output"]
predictions.commit("00.busy", ..., unit="share")

# %% [markdown]
# ## Build
#
# A tf.data pipeline is a chain of stages. `album.files()` gives [`(path, label)`](../docs/glossary.md#path-label) pairs. `map(load)` calls `load` for each pair. `batch(4)` puts four results into one array. These lines only describe the work: it starts when somebody asks for a batch. `shuffle` mixes the pairs, here in the same order in every run. `repeat` begins again after the last photo.
#
# `plain` makes TensorFlow run the pipeline exactly as it is written. Notebook 01 shows what TensorFlow would change otherwise.

# %%
def load(path, label):
    return transform(tf.io.read_file(path)), label


files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
sequential = plain(files.map(load).batch(4))
for part in sequential.element_spec:
    print(part.shape, part.dtype.name)  # None: as many photos as there are

# %% [markdown]
# The *consumer* of the batches is a [*modelled*](../docs/glossary.md#measured-modelled) accelerator. It takes a batch and holds it for a stated time.
#
# First comes a trial run, `probe`. Its accelerator trains for only 1 ms, so nearly all the time is loading: `wait_ms` is how long it waited for a batch. In your prediction, training took twice as long as loading, so we set it so here.

# %% tags=["nbval-ignore-output"]
probe = labkit.record(sequential, accelerators.modelled(step_ms=1), steps=20)
load_ms = round(labkit.Timeline(probe).wait_ms)
accelerator = accelerators.modelled(step_ms=2 * load_ms)
print(f"loading a batch takes {load_ms} ms here, so a step will take {2 * load_ms} ms")
print(accelerator.describe())

# %% [markdown]
# ## Run
#
# `labkit.record` runs the pipeline: a short warm-up, and then some steps that TensorFlow's own profiler watches. What it returns is called a *trace*. Look at one number in the output, the *spans*. A span is one piece of work with its beginning and its end:

# %% tags=["nbval-ignore-output"]
trace = labkit.record(sequential, accelerator, steps=20, name="sequential")
trace

# %% [markdown]
# ## The timeline
#
# Time runs from left to right. Each row is a [*lane*](../docs/glossary.md#lane). The accelerator is the top lane. In a running notebook, the bar above the lanes asks for three clicks; K ends this tour. Zoom with W and S, move with A and D, click any gap for its cause; `?` lists all keys.

# %% tags=["nbval-ignore-output"]
tour(trace, title="Sequential: load, then train", steps=2)

# %% [markdown]
# ## Explain
#
# 1. **Accelerator.** The blocks are train steps. Between two blocks is a [*gap*](../docs/glossary.md#gap): the accelerator is idle. Its words name its cause. The number at the end of the lane is the [busy share](../docs/glossary.md#busy-share) of all recorded steps.
# 2. **Threads.** A *thread* is one line of work that the processor runs. The height says how many threads are open at this moment. What is filled works on a core, and its colour says on what: amber is fetching, teal is preparing. What is hollow waits; a block that is partly filled had a core for that part of its time. The dashed line is the number of cores. Here only one thread works at a time: the photos are prepared one after the other.
# 3. **Both together.** The accelerator and the threads never work at the same time. This is a *sequential* job.
#
# The same recording in numbers:

# %% tags=["nbval-ignore-output"]
timeline = labkit.Timeline(trace)
print(timeline)

# %% [markdown]
# Read three rows. *accelerator busy* is the busy share. *per image* says how long threads worked on one photo (the *thread time*), by kind of work; *map* is all work that is neither read, decode nor resize (*prepare: other* in the picture). *gaps wait for* divides the idle time by its cause: [fetch](../docs/glossary.md#fetch) is reading, [prep](../docs/glossary.md#prep) is work of the processor, [framework](../docs/glossary.md#framework) is the handing over of batches, and [unknown](../docs/glossary.md#unknown) is time without recorded work. (Ignore *stalls* for now.)
#
# Compare three numbers: your guess, the measurement, and a *model* (a simulation that knows only the times of the trial run `probe`).

# %% tags=["nbval-ignore-output"]
model = simulate.fit(probe).predict(train=2 * load_ms)
predictions.review("00.busy", model=model.busy, measured=timeline)

# %% [markdown]
# The accelerator trains for 60 of 90 ms, so the answer is two thirds. The measured share differs, because the loading time varies from run to run.
#
# ## Sequential and pipelined
#
# Loading and training use different hardware, so they can happen at the same time. While the accelerator trains on batch *n*, the processor prepares batch *n + 1*. In `tf.data` this is `prefetch` (notebook 02).

# %% tags=["nbval-ignore-output"]
pipelined = plain(files.map(load).batch(4).prefetch(1))
pipelined_trace = labkit.record(pipelined, accelerator, steps=20, name="pipelined")
labkit.show(trace, pipelined_trace, labels=("sequential", "pipelined"), steps=4)

# %% [markdown]
# Compare the two busy shares and the gaps. In the pipelined job, threads also work *under* the train steps: they prepare the next batch. So the gaps are shorter. Overlap hides the shorter of the two times behind the longer time. It makes neither time shorter.
#
# ## Three speeds
#
# Three speeds limit every job: how fast files can be **f**etched, how fast the processor can **p**repare them, and how fast the **G**PU can train ([F, P and G](../docs/glossary.md#f-p-g), in images per second). The slowest of the three limits the job: if F is 900, P is 350 and G is 500, the job reaches at most 350.

# %% [markdown]
# An [*explorer*](../docs/glossary.md#explorer) is a small simulation with buttons and sliders. It begins with what a photo takes on this machine. Press its rows from top to bottom, and in each the bar of the smallest speed.

# %% tags=["nbval-ignore-output"]
explorers.explore("00", trace=trace, batch_size=12, train_ms=load_ms)

# %% [markdown]
# ## Fetch stall or prep stall?
#
# A gap shows *that* the accelerator waits. The work below the gap shows *what* it waits for. There are two kinds of [stall](../docs/glossary.md#stall):
#
# - **prep stall**: the processor is still decoding or augmenting, as in the first timeline;
# - **fetch stall**: the processor waits, too, because the storage is slow.
#
# The kind of stall decides what to buy. More cores do not help a fetch stall, and a faster disk does not help a prep stall. One study trained nine networks on eight V100 GPUs. With memory for 35 % of the data, fetch stalls took 10–70 % of the [epoch](../docs/glossary.md#epoch). With all data in memory, prep stalls still took up to 65 % (DS-Analyzer, VLDB 2021, section 4.3).
#
# So far the files came from memory: the operating system keeps files that were read before in its [page cache](../docs/glossary.md#page-cache). For a fetch stall, we put the photos on a modelled slow disk.

# %% tags=["nbval-ignore-output"]
disk = storage.PRESETS["HDD"]
print(disk.describe())

# %%
def load_from_disk(path, label):
    return transform(disk.read(path)), label


slow_disk = plain(files.map(load_from_disk).batch(4))

# %% tags=["nbval-ignore-output"]
disk_trace = labkit.record(slow_disk, accelerator, steps=10, name="slow disk")
labkit.show(disk_trace, title="The same job with a slow disk (modelled HDD)", steps=2)

# %% [markdown]
# Now reading takes most of each gap. The numbers say it, too:

# %% tags=["nbval-ignore-output"]
for name, each in [("page cache", trace), ("slow disk", disk_trace)]:
    per_image = labkit.Timeline(each).per_image_ms
    print(f"{name:<10} read {per_image['read']:6.2f} ms, decode {per_image['decode']:5.2f} ms per image")

# %% [markdown]
# ## Exercises
#
# Below most exercises, `try_it` runs your function on an example and shows the result. `check` says whether the function is right.
#
# **00.1** Write `busy(spans, window_ms)`. It returns the share of a window, 0 to 1, that train steps cover. `spans` is a list of `(start_ms, end_ms)`. The spans do not overlap, and the list may be empty. The window starts at 0. One line.

# %% tags=["stub"]
def busy(spans, window_ms):
    ...  # your code

# %% tags=["solution"]
def busy(spans, window_ms):
    return sum(end - start for start, end in spans) / window_ms

# %%
try_it("00.1", busy)
check("00.1", busy)

# %% [markdown]
# **00.2** Write `step_ms(load_ms, train_ms, overlapped)`. It returns how long one step of a long run takes, in milliseconds. `overlapped` says whether loading and training overlap. Three lines.

# %% tags=["stub"]
def step_ms(load_ms, train_ms, overlapped):
    ...  # your code

# %% tags=["solution"]
def step_ms(load_ms, train_ms, overlapped):
    if overlapped:
        return max(load_ms, train_ms)
    return load_ms + train_ms

# %%
try_it("00.2", step_ms)
check("00.2", step_ms)

# %% [markdown]
# ## Recap
#
# You recorded a job and read its busy share. In a sequential job, accelerator and threads take turns; in a pipelined job, they overlap. You told a prep stall from a fetch stall by the work below the gap.
#
# ## In practice
#
# - `nvidia-smi` says for what share of the time *some* program ran on the GPU. A timeline also says when the pauses were, and what they waited for.
# - If TensorFlow finds a GPU (Colab, or `pip install '.[gpu]'`), use `accelerators.real()` in place of `accelerators.modelled(...)`. The timeline then has lanes for the GPU, and the GPU decides the step time.
#
# **Next:** [01 Measure a naive pipeline](01_measure_a_naive_pipeline.ipynb): what "naive" really means, and when a measured difference is real.
