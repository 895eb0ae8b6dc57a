# %% [markdown]
# # Read a timeline
#
# **You will** record a small training job, draw what every thread did, and read from the picture what the accelerator waited for.
#
# **You will learn** what *extract, transform, load* are, how a sequential job differs from a pipelined one, and how to tell a *fetch stall* from a *prep stall*.
#
# **You need** basic Python and an idea of what a training step is. No GPU. About 25 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labkit import accelerators, explorers, photos, plain, predictions, simulate, storage

# %% [markdown]
# ## Extract, transform, load
#
# A training job repeats one step: take a batch of images, compute gradients, update the weights. The accelerator does the computing; something else must have the next batch ready. That something is the *input pipeline*, and it has three parts:
#
# - **extract**: read the bytes from storage;
# - **transform**: decode the JPEG, resize it, change it a little at random (*augmentation*), put several into a batch;
# - **load**: hand the batch to the accelerator.
#
# Extract is limited by the disk or the network, transform by the processor. If either is too slow, the accelerator stands idle, and idle accelerators cost the same as busy ones. At Google, one job in five spent more than a third of its compute time in the input pipeline (Murray et al., *tf.data*, VLDB 2021, figure 1).
#
# The lab brings its own photos, made on this machine, so nothing is downloaded. On average they are as large as ImageNet's: 115 kB (DLIO benchmark, resnet50 workload files), about 500×375 pixels.

# %% tags=["nbval-ignore-output"]
album = photos.load()
print(album.summary())

# %% [markdown]
# One of each class. Can you tell the ten classes apart? So can a small network.

# %% tags=["nbval-ignore-output"]
from labkit.views.picture import Photographs

first = [album.paths[list(album.labels).index(number)] for number in range(len(album.classes))]
Photographs(dict(zip(album.classes, first)))

# %% [markdown]
# ## Transform, step by step
#
# This is the chain that the whole course measures. It turns one file into one training example: decode, convert to float, resize to 224×224, then augment (flip, brightness, saturation) and clip to the range 0–1.

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
# Watch the size of one photo on its way. A decoded image is typically five to seven times as large as its file (DS-Analyzer, VLDB 2021, section 6.3). Then float32 takes four bytes where a decoded value took one; resizing to 224×224 gives most of that back here. A pipeline spends memory, not only time.

# %% tags=["nbval-ignore-output"]
data = tf.io.read_file(album.paths[0])
pixels = tf.io.decode_jpeg(data, channels=3)
image = transform(data)
print(f"file    {len(data.numpy()):>9,} bytes")
print(f"decoded {pixels.numpy().nbytes:>9,} bytes, {pixels.shape}, {pixels.dtype.name}")
print(f"example {image.numpy().nbytes:>9,} bytes, {image.shape}, {image.dtype.name}")

# %% [markdown]
# ## Predict
#
# Suppose that loading one batch takes 60 ms and training on it takes 60 ms. First the one, then the other, then the next batch. From here on, *loading a batch* is short for everything that happens before the accelerator has it: extract and transform. For what share of the time is the accelerator busy? Commit yourself: write a share from 0 to 1 in place of this one before you run on.

# %% tags=["nbval-ignore-output"]
predictions.commit("00.busy", 0.75, unit="share")

# %% [markdown]
# ## Build
#
# A pipeline in `tf.data`: file names, one `map` that reads and transforms, one `batch`. `plain` sets two options: they switch off what TensorFlow would add by itself (its rewriting of the pipeline, and its tuning). Notebook 01 writes them out and shows what they change. For now the job does exactly what is written, and nothing else.

# %%
def load(path, label):
    return transform(tf.io.read_file(path)), label


files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()
sequential = plain(files.map(load).batch(16))

# %% [markdown]
# The consumer is a *modelled* accelerator: it takes a batch and holds it for a stated time without using the processor, as a real one would. Most readers have no V100 at hand, and the lesson is about waiting, not about arithmetic. Every picture says whether its accelerator is modelled or real.
#
# To make the case of the prediction, its step is set to the time that this machine needs to load a batch.

# %% tags=["nbval-ignore-output"]
probe = labkit.record(sequential, accelerators.modelled(step_ms=1), steps=10)
load_ms = round(labkit.Timeline(probe).wait_ms)
accelerator = accelerators.modelled(step_ms=load_ms)
print(f"loading a batch takes {load_ms} ms here, so a step will take as long")
print(accelerator.describe())

# %% [markdown]
# ## Run
#
# `labkit.record` drives the pipeline: a short warm-up, then a window of steps under TensorFlow's own profiler. Nothing in the pipeline changes for it, and on photos it costs next to nothing.

# %% tags=["nbval-ignore-output"]
trace = labkit.record(sequential, accelerator, steps=10, name="sequential")
trace

# %% [markdown]
# ## The timeline
#
# One row, or *lane*, per thread, time to the right. The accelerator is on top. In a running notebook, click into it to zoom (W, S) and move (A, D), or click a gap to read its cause; `?` lists all keys.

# %% tags=["nbval-ignore-output"]
labkit.show(trace, title="Sequential: load, then train", steps=4)

# %% [markdown]
# ## Explain
#
# Read it from the top.
#
# 1. **Accelerator.** Blocks are train steps. The hatched boxes between them are *gaps*: the accelerator waits, and the number says for how long. The percentage at the end of the lane is the headline of every analysis: the busy share. It counts the whole window, not only the steps shown.
# 2. **The workers.** A *thread* is one line of work that the processor runs. Each photo is read, decoded, resized and augmented, one after the other; tf.data hands every photo to some thread of a small pool, one per core, so the work hops between lanes, but at any moment only one of them works. After sixteen photos the batch is copied together, in the lane *tf.data in the consumer's thread*; its grey line means that it waits until then.
# 3. **All lanes together.** Accelerator and workers never work at the same time. While one trains, the others do nothing, and the other way round. That is what *sequential* looks like.
#
# The same in numbers, for those who prefer them and for screen readers:

# %% tags=["nbval-ignore-output"]
timeline = labkit.Timeline(trace)
print(timeline)

# %% [markdown]
# And the number that you committed, beside the measured one and that of a *model*: a simulation of the job, made of the costs of the probe.

# %% tags=["nbval-ignore-output"]
model = simulate.fit(probe).predict(train=load_ms)
predictions.review("00.busy", model=model.busy, measured=timeline.busy)

# %% [markdown]
# With equal times the answer is one half: 60 of 120 ms. If the measured share is off, loading took longer or shorter than in the probe. Notebook 01 asks how much such numbers vary.

# %% [markdown]
# ## Sequential and pipelined
#
# The two parts use different hardware, so they can work at the same time: while the accelerator trains on batch *n*, the processor prepares batch *n + 1*. In `tf.data` that is one word, `prefetch`; notebook 02 takes it apart.

# %% tags=["nbval-ignore-output"]
pipelined = plain(files.map(load).batch(16).prefetch(1))
pipelined_trace = labkit.record(pipelined, accelerator, steps=10, name="pipelined")
labkit.show(trace, pipelined_trace, labels=("sequential", "pipelined"), steps=4)

# %% [markdown]
# Both pictures share one time axis and show the same number of steps, so a shorter picture is a faster job. In the lower one a lane called *Prefetch* appears: the producer. It and the workers are busy *under* the train steps, and the gaps shrink or vanish.
#
# A gap remains where a batch took longer to load than the step before it took to train. Overlap hides the shorter of the two times behind the longer one; it makes neither of them shorter.
#
# More threads, and more accelerators, are the next two steps. You need not own them to see what they do: this explorer *simulates* the job. Press its buttons from left to right, then move a slider and guess first.

# %% tags=["nbval-ignore-output"]
explorers.explore("00")

# %% [markdown]
# ## Fetch stall or prep stall?
#
# A gap tells *that* the accelerator waits. For *what*, the lanes below the gap tell:
#
# - **prep stall**: the processor is still decoding or augmenting (the gap above is one);
# - **fetch stall**: the processor waits as well, for storage.
#
# The distinction decides what to buy. More cores do nothing for a fetch stall, a faster disk does nothing for a prep stall. In a study of nine networks on a V100 with a SATA SSD and 35 % of the data in memory, fetch stalls took 10–70 % of the epoch; with all of it in memory, preparation still took up to 65 % for one of them (ResNet18 on eight GPUs; DS-Analyzer, VLDB 2021, sections 4.3.2 and 4.3.4).
#
# To see a fetch stall, put the same photos on a slow disk. Here the disk is a model: the file is really read, and then held back for as long as the stated latency and bandwidth say.

# %% tags=["nbval-ignore-output"]
disk = storage.PRESETS["HDD"]
print(disk.describe())

# %%
def load_from_disk(path, label):
    return transform(disk.read(path)), label


slow_disk = plain(files.map(load_from_disk).batch(16))

# %% tags=["nbval-ignore-output"]
disk_trace = labkit.record(slow_disk, accelerator, steps=6, name="slow disk")
labkit.show(disk_trace, title="The same job with a slow disk (modelled HDD)", steps=2)

# %% [markdown]
# Same chain, same accelerator, another cause: now reading takes most of each gap. Ask for the milliseconds instead of guessing from the colours:

# %% tags=["nbval-ignore-output"]
for name, each in [("memory", trace), ("slow disk", disk_trace)]:
    per_image = labkit.Timeline(each).per_image_ms
    print(f"{name:<10} read {per_image['read']:6.2f} ms, decode {per_image['decode']:5.2f} ms per image")

# %% [markdown]
# ## Exercises
#
# **00.1** Write `busy(spans, window_ms)`: the share of a window, 0 to 1, that train steps cover. `spans` is a list of `(start_ms, end_ms)` that do not overlap, and may be empty; the window starts at 0. One line is enough.

# %% tags=["stub"]
def busy(spans, window_ms):
    ...  # your code

# %% tags=["solution"]
def busy(spans, window_ms):
    return sum(end - start for start, end in spans) / window_ms

# %%
labkit.try_it("00.1", busy)
labkit.check("00.1", busy)

# %% [markdown]
# **00.2** Write `step_ms(load_ms, train_ms, overlapped)`: how long one step of a long run takes, in milliseconds, without overlap and with it. Three lines.

# %% tags=["stub"]
def step_ms(load_ms, train_ms, overlapped):
    ...  # your code

# %% tags=["solution"]
def step_ms(load_ms, train_ms, overlapped):
    if overlapped:
        return max(load_ms, train_ms)
    return load_ms + train_ms

# %%
labkit.try_it("00.2", step_ms)
labkit.check("00.2", step_ms)

# %% [markdown]
# ## Recap
#
# You recorded a job without changing it, drew one lane per thread, and read the busy share from the top lane. You saw a sequential job, whose lanes take turns, and a pipelined one, whose lanes overlap. You told a prep stall from a fetch stall by looking at what happens below the gap.
#
# ## In practice
#
# - A timeline shows a few steps. Always pair it with the busy share of a longer window: one odd step makes a striking picture and proves nothing.
# - `nvidia-smi` says for what share of the last moments *some* kernel ran. It does not say when the pauses were or what they waited for. A timeline does.
# - The recording here comes from TensorFlow's profiler, which also sees a real GPU's streams and copies. With a GPU and a TensorFlow that sees it (Colab, or `pip install '.[gpu]'`), put `accelerators.real()` in place of `accelerators.modelled(...)`: lanes for the GPU's streams appear, and the step time is no longer yours to choose.
#
# **Next:** [01 Measure a naive pipeline](01_measure_a_naive_pipeline.ipynb): what "naive" really means, and when a difference is a difference.
