# %% [markdown]
# # Read a timeline
#
# **You will** record a small training job, and read from its picture what the accelerator waited for.
#
# **You will learn** what *fetch*, *prepare* and *train* are, what it means to load and train at once, and how to tell slow storage from slow work.
#
# **You need** basic Python and an idea of what a training step is. No GPU. About 25 minutes. The [glossary](../docs/glossary.md) explains all special words. **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, read, tour
from labkit import accelerators, photos, plain, simulate, storage

# %% [markdown]
# ## The idea ▸
#
# One job, drawn twice: it loads and trains in turn, or it loads the next batch while it trains.

# %%
idea("00")

# %% [markdown]
# ## Fetch, prepare, train ▸
#
# In each training [step](../docs/glossary.md#step), the [accelerator](../docs/glossary.md#accelerator) takes a [batch](../docs/glossary.md#batch) of photos and changes the weights of the network. Three things happen to every photo:
#
# - **fetch**: its bytes come from a disk or a network.
# - **prepare**: the processor decodes the JPEG, resizes it, changes it a little at random (*augmentation*), and puts it into a batch.
# - **train**: the accelerator computes.
#
# Fetch and prepare together are *loading*. If loading is slow, the accelerator waits.
#
# <details><summary>How often does that happen, and what do others call it?</summary>
#
# At Google, one job in five spent more than a third of its compute time in the input pipeline (Murray et al., VLDB 2021, figure 1). Databases call the three parts *extract, transform, load*. We do not: "loading a batch" would then mean something else than in the rest of deep learning.
#
# </details>
#
# The lab makes its own photos, of about 115 kB as in ImageNet, so nothing is downloaded:

# %% tags=["nbval-ignore-output"]
from labkit.views.picture import Photographs

album = photos.load()
print(album.summary())
first = [album.paths[list(album.labels).index(number)] for number in range(len(album.classes))]
Photographs(dict(zip(album.classes, first)))

# %% [markdown]
# ## Build ▸
#
# The whole course measures this function. It makes a training example of the bytes of one file; `dct_method` chooses TensorFlow's exact JPEG decoder.

# %%
def prepare(data):
    image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1)

# %% [markdown]
# A tf.data pipeline is a chain of stages. `album.files()` gives [`(path, label)`](../docs/glossary.md#path-label) pairs, `map(load)` calls `load` for each, and `batch(4)` puts four results into one array. The work starts when somebody asks for a batch. `plain` makes TensorFlow run the pipeline as it is written (notebook 01).

# %%
def load(path, label):
    return prepare(tf.io.read_file(path)), label


files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
sequential = plain(files.map(load).batch(4))
for part in sequential.element_spec:
    print(part.shape, part.dtype.name)  # None: as many photos as there are

# %% [markdown]
# A [*modelled*](../docs/glossary.md#measured-modelled) accelerator takes the batches and holds each for a stated time. A trial run tells how long loading takes here; a train step shall take twice as long.

# %% tags=["nbval-ignore-output"]
probe = labkit.record(sequential, accelerators.modelled(step_ms=1), steps=20)
load_ms = round(labkit.Timeline(probe).wait_ms)
accelerator = accelerators.modelled(step_ms=2 * load_ms)
print(f"loading a batch takes {load_ms} ms here, so a train step will take {2 * load_ms} ms")
print(f"in turn, the accelerator would be busy for {2 * load_ms} of {3 * load_ms} ms: two thirds of the time")

# %% [markdown]
# ## Predict ▸
#
# Now let the job load the *next* batch during the train step. Neither loading nor training becomes faster. For what share of the time is the accelerator busy? Replace the three dots by a number between 0 and 1. (With the dots, the notebook goes on without a prediction.)

# %% tags=["nbval-ignore-output"]
predictions.commit("00.busy", ..., unit="share")

# %% [markdown]
# ## Run ▸
#
# First the job in turn. `labkit.record` runs a pipeline: a short warm-up, then some steps that TensorFlow's own profiler watches. A *span* is one piece of work, with its beginning and its end.

# %% tags=["nbval-ignore-output"]
trace = labkit.record(sequential, accelerator, steps=20, name="sequential")
trace

# %% [markdown]
# ## The timeline ▸
#
# Time runs from left to right; each row is a [*lane*](../docs/glossary.md#lane). A bar above the lanes asks for three clicks (K ends this tour). Zoom with W and S, move with A and D; `?` lists all keys.

# %% tags=["nbval-ignore-output"]
tour(trace, title="Sequential: load, then train", steps=2)

# %% [markdown]
# ## Explain ▸
#
# 1. **Accelerator.** The blocks are train steps. In a [*gap*](../docs/glossary.md#gap) the accelerator is idle; its words name the cause. The number at the end is the [busy share](../docs/glossary.md#busy-share) of all recorded steps.
# 2. **Threads.** The height says how many threads are open at this moment. What is filled works on a core, what is hollow waits: amber is fetch, here mostly waiting for storage, teal is prepare. The dashed line is the number of cores.
# 3. **Both.** Accelerator and threads never work at the same time: this job is *sequential*.
#
# ## In turn and at once ▸
#
# Loading and training use different hardware, so they can happen at the same time. In tf.data this is `prefetch` (notebook 02).

# %% tags=["nbval-ignore-output"]
pipelined = plain(files.map(load).batch(4).prefetch(1))
pipelined_trace = labkit.record(pipelined, accelerator, steps=20, name="pipelined")
labkit.show(trace, pipelined_trace, labels=("sequential", "pipelined"), steps=4)

# %% tags=["nbval-ignore-output"]
model = simulate.fit(probe).predict(train=2 * load_ms, prefetch=1)
predictions.review("00.busy", model=model.busy, measured=labkit.Timeline(pipelined_trace))

# %% [markdown]
# In the second job threads work *under* the train steps. Overlap hides the shorter of the two times behind the longer one. The *model* is a simulation that knows only the trial run.
#
# <details><summary>Why is the accelerator not busy all the time?</summary>
#
# A batch is handed over from thread to thread, which takes a millisecond or two: that counts where a train step is as short as this one. And the loading time varies: a batch that takes longer than a train step leaves a gap in spite of the overlap.
#
# </details>
#
# ## Fetch or prepare? ▸
#
# A gap says *that* the accelerator waits, and the work below it says *for what*. So far the files came from memory, the operating system's [page cache](../docs/glossary.md#page-cache). Now the same photos lie on a modelled slow disk:

# %%
disk = storage.PRESETS["HDD"]
print(disk.name)


def load_from_disk(path, label):
    return prepare(disk.read(path)), label


slow_disk = plain(files.map(load_from_disk).batch(4))

# %% tags=["nbval-ignore-output"]
disk_trace = labkit.record(slow_disk, accelerator, steps=10, name="slow disk")
labkit.show(disk_trace, title="The same job with a slow disk (modelled HDD)", steps=2)

# %% [markdown]
# The same in numbers. A [*stall*](../docs/glossary.md#stall) is what one of the two adds to the run, as a share of it.

# %% tags=["nbval-ignore-output"]
print(disk.describe())
for name, each in [("page cache", trace), ("slow disk", disk_trace)]:
    line = labkit.Timeline(each)
    ms, stall = line.per_image_ms, line.split
    photo = f"{ms['read']:5.2f} ms fetch, {ms['decode'] + ms['resize'] + ms['map']:5.2f} ms prepare a photo"
    print(f"{name:<10}  {photo}")
    print(f"{'':<10}  fetch stall {stall.fetch_stall:4.0%}, prepare stall {stall.prep_stall:4.0%}")

# %% [markdown]
# More cores do not help a fetch stall, and a faster disk does not help a prepare stall.
#
# <details><summary>How large are such stalls?</summary>
#
# One study trained nine networks on eight V100 GPUs. With memory for a third of the data, fetch stalls took up to 70 % of the [epoch](../docs/glossary.md#epoch). With all data in memory, prepare stalls still took up to 65 % (DS-Analyzer, VLDB 2021, section 4.3; it says *prep stall*).
#
# </details>
#
# ## Three speeds
#
# Three speeds limit every job, in images per second: of **f**etch, of **p**repare, and of the **G**PU that trains ([F, P and G](../docs/glossary.md#f-p-g)). The job is never faster than the slowest of them.
#
# An [*explorer*](../docs/glossary.md#explorer) is a small simulation. This one begins with your machine's costs, larger batches and a quicker train step. Press its rows from top to bottom, and in each the bar that limits the job.

# %% tags=["nbval-ignore-output"]
explorers.explore("00", trace=trace, batch_size=12, train_ms=load_ms)

# %% [markdown]
# ## Exercises ▸
#
# Both are *readings*: recordings that are the same for everybody. Answer by clicks in the picture, or in the cell below it. `check` draws the arrow to what shows it.
#
# **00.1** What does each accelerator wait for, and do loading and training take turns?

# %% tags=["nbval-ignore-output"]
read("00.1")

# %% tags=["stub"]
answer = ...  # click, or write {"A": "fetch, in turn", "B": ..., "C": ..., "D": ...}

# %% tags=["solution"]
answer = {"A": "prepare, at once", "B": "fetch, in turn", "C": "fetch, at once", "D": "prepare, in turn"}

# %%
check("00.1", answer)

# %% [markdown]
# **00.2** Which is the longest gap that more cores would *not* make shorter?

# %% tags=["nbval-ignore-output"]
read("00.2")

# %% tags=["stub"]
answer = ...  # click the gap, or write the number of the step behind it

# %% tags=["solution"]
answer = 4

# %%
check("00.2", answer)

# %% [markdown]
# ## Without the lab
#
# At work, in plain TensorFlow: does my pipeline spend its time on fetch or on prepare? Let it run without training, once with the reads alone.

# %% tags=["nbval-ignore-output"]
from time import perf_counter


def ms_per_photo(dataset, photos=64):
    iterator = iter(dataset)
    next(iterator)  # starting is not loading
    start = perf_counter()
    for _ in range(photos):
        next(iterator)
    return 1000 * (perf_counter() - start) / photos


fetch = ms_per_photo(files.map(lambda path, label: tf.io.read_file(path)))
print(f"fetch {fetch:.2f} ms, prepare {ms_per_photo(files.map(load)) - fetch:.2f} ms a photo")

# %% [markdown]
# ## Recap
#
# Gaps say when the accelerator waits, and the work below them says for what: fetch or prepare.
#
# ## In practice
#
# - `nvidia-smi` says for what share of the time *some* program ran on the GPU. A timeline also says what the pauses waited for.
# - Where TensorFlow finds a GPU (Colab, or `pip install '.[gpu]'`), `accelerators.real()` trains on it.
#
# **Optional:** [00b Open a JPEG](00b_open_a_jpeg.ipynb): the bytes of a photo.
#
# **Next:** [01 Measure a naive pipeline](01_measure_a_naive_pipeline.ipynb): when is a measured difference real?
