# %% [markdown]
# # Measure a naive pipeline
#
# **You will** measure the simplest pipeline, find where its time goes, and measure it again to see how much two equal runs differ.
#
# **You will learn** what tf.data changes in your pipeline by default, what the busy share says, and when a measured difference is real.
#
# **You need** notebook 00. No GPU. About 45 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, charts, photos, simulate, storage

# %% [markdown]
# ## The idea
#
# The accelerator is idle while the processor loads the next photos.

# %%
idea("01")

# %% [markdown]
# ## The job
#
# The job does the same work as in notebook 00: open and read a file, decode, convert to float, resize, augment, clip. A batch has 32 photos. The consumer is a modelled V100, a GPU with a published step time. (The speed is that of 32-bit numbers; the optional notebook 04b compares it with 16 bits. A step has a fixed part, so half a batch takes more than half the time.)

# %% tags=["nbval-ignore-output"]
album = photos.load()
v100 = accelerators.modelled("V100")
print(album.summary())
print(v100.describe())

# %%
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label


files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False).repeat()

# %% [markdown]
# ## Naive is harder than it looks
#
# If you write `files.map(load).batch(32)`, tf.data runs something else. Before it starts, it rewrites the *graph*, the list of stages. What it changes depends on the pipeline. Here it replaces map and batch by one node, `MapAndBatch`. In other pipelines it adds a `Prefetch` at the end. Both nodes can prepare the next batch while the accelerator trains, so the job may already overlap. This is useful in production. In a lesson it is a trap: you would think that you compare a job *without* overlap and a job *with* overlap, but both jobs overlap.
#
# Which nodes really run? The profiler sees them. Each line of the output names one node. `Root` is the end of the pipeline, so the list begins with the last stage and ends with the source of the data:

# %%
as_it_comes = files.map(load).batch(32)
for node in labkit.recorder.graph(as_it_comes):
    print(node)

# %% [markdown]
# You wrote `map` and `batch`, but `MapAndBatch` runs. (A table and a timeline at the end of this notebook show what the change gains.) Two options switch the rewriting off:

# %%
def plain(dataset):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


naive = plain(files.map(load).batch(32))
for node in labkit.recorder.graph(naive):
    print(node)

# %% [markdown]
# Now the graph that runs is the graph that was written. (Nodes that did no work during the recording are not listed.) A recording keeps the options of its pipeline. We use this short recording, `probe`, again below: its loading time helps you to predict, and the model needs it, too.

# %%
probe = labkit.record(naive, accelerators.modelled(step_ms=1), steps=6, name="naive")
for option, value in probe.run.options.items():
    print(option, "=", value)

# %% [markdown]
# ## Predict
#
# The V100 needs about 110 ms to train on a batch of 32 photos. The next cell prints how long your machine needs to load such a batch. A naive job loads and trains in turn. For what share of the time will the V100 be busy? Run the cell, replace the three dots by your number, a share between 0 and 1, and run the cell again.

# %% tags=["nbval-ignore-output"]
print(f"loading a batch of 32 takes about {labkit.Timeline(probe).wait_ms:.0f} ms on this machine")
predictions.commit("01.busy", ..., unit="share")

# %% [markdown]
# ## Run
#
# Now the V100 takes the batches. Compare your number with the measurement and with a *model*. The model does not know this run. It knows only the loading times of the short run `probe` above, and the published step time of the V100.

# %% tags=["nbval-ignore-output"]
naive_trace = labkit.record(naive, v100, steps=12, name="naive")
timeline = labkit.Timeline(naive_trace)
model = simulate.fit(probe).predict(train=v100.step_ns(32) / 1e6)  # of a batch of 32, in milliseconds
predictions.review("01.busy", model=model.busy, measured=timeline)

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(naive_trace, title="Naive: open, read, decode, train, in turn", steps=3)

# %% [markdown]
# ## Explain
#
# Between two train steps is one long gap. In this gap the 32 photos of the next batch are prepared, one after the other. TensorFlow hands the work from thread to thread, but the threads take turns, so only one core works at a time. Another part of the gap is [*framework*](../docs/glossary.md#framework): handing work from one thread to the next.
#
# Where does the time of one photo go? The chart shows the thread time of each kind of work:

# %% tags=["nbval-ignore-output"]
work = timeline.per_image_ms
kinds = {"read": "read", "decode": "decode", "resize": "resize", "other map work": "map", "batch": "batch"}
charts.bars({name: work[kind] for name, kind in kinds.items()}, unit="ms per image", title="Where one image's time goes")

# %% [markdown]
# What would have to change? The explorer begins with the costs of your recording. Move one slider at a time. *Ideal* is the speed with perfect overlap, the smallest of [F, P and G](../docs/glossary.md#f-p-g). A naive job is slower than its ideal, because it does one thing at a time.

# %% tags=["nbval-ignore-output"]
explorers.explore("01", trace=naive_trace)

# %% [markdown]
# For a busy share of 90 %, loading a batch may take only one ninth of the train step. For this V100 that is about 12 ms per batch, or 0.38 ms per photo. Compare this number with the chart above: if decoding alone takes longer, a faster disk cannot help enough. The following notebooks overlap the work, share it among the cores, or do it only once.
#
# ## How much does the page cache help?
#
# Reading is fast while the operating system still holds the files in memory, in its [page cache](../docs/glossary.md#page-cache). If a photo set is larger than memory, its files must come from the disk again. We remove the files from the page cache and measure again. `from_tensor_slices(paths)` makes a dataset from a list, and this dataset is only read:

# %%
paths = list(album.take(160).paths)
read_only = plain(tf.data.Dataset.from_tensor_slices(paths).map(tf.io.read_file).batch(16))
instant = accelerators.modelled(step_ms=1)


def read_ms():
    return labkit.Timeline(labkit.record(read_only, instant, steps=8, warmup=1)).per_image_ms["read"]

# %% tags=["nbval-ignore-output"]
read_ms()  # from now on the files are in the page cache
warm = read_ms()
storage.evict(paths)
print(f"{storage.resident(paths):.0%} of the bytes are still in the cache after eviction")
print(f"read, per image: warm {warm:.3f} ms, cold {read_ms():.3f} ms")

# %% [markdown]
# *Warm* files are in the page cache, *cold* files are not. Compare both with the decoding time in the chart: the page cache matters only as much as the difference between warm and cold. If the first line is not near 0 %, this machine cannot remove the files from its cache (macOS, or a folder in memory), and both numbers mean the same. If it is 0 % and both numbers are alike, the disk is fast, or the machine is virtual and the computer that runs it keeps a second cache.
#
# ## The first batch is different
#
# Before the first batch, TensorFlow starts the pipeline and fills the shuffle buffer. If `shuffle` stands before `repeat`, as here, the buffer is filled again at the beginning of every [epoch](../docs/glossary.md#epoch). Here the buffer holds only file names, so this is quick; filling a buffer of images takes seconds. A gap for this reason has the cause [*start*](../docs/glossary.md#start). The tables report the first batch separately and leave it out of the averages.
#
# ## How far do two equal runs differ?
#
# The speed of a machine varies. Before we compare two pipelines, we compare a pipeline with itself. `labkit.measure` records both in turn, round by round. A slow minute then slows both. `repeats` is the number of rounds; while a verdict is open, up to 11 are made. `steps` is the number of training steps of each round.

# %% tags=["nbval-ignore-output"]
equal = labkit.measure({"naive": naive, "naive again": naive}, v100, steps=6, repeats=5)
equal

# %% [markdown]
# In every round the table divides the images/s of a pipeline by the images/s of the first pipeline. The *speed-up* is the median of these ratios, so it can differ a little from the ratio of the two speeds in the table. The *interval* behind it says how sure it is: the true speed-up is probably inside.
#
# Is one of the two faster? The column *verdict* answers. It says *faster* or *slower* only if 1.00× is outside the interval; after five rounds this needs *every* round to point the same way. The difference must also be larger than the usual difference between rounds, and larger than half a per cent. "No measurable difference", right here, needs an interval within 5 % of 1.00×; else it is *undecided*. The table looks up to four times, so with its 98.5 % interval it is wrong about four times in a hundred.
#
# The next pipeline really differs. At its end it resizes each image to 112×112, so that an image has a quarter of the pixels:

# %% tags=["nbval-ignore-output"]
def load_small(path, label):
    image, label = load(path, label)
    return tf.image.resize(image, [112, 112]), label


smaller = plain(files.map(load_small).batch(32))
unfair = labkit.measure({"naive": naive, "smaller": smaller}, v100, steps=3, repeats=2)
unfair

# %% [markdown]
# The table refuses: the two pipelines do not deliver the same images, so their speeds cannot be compared. The line below says what differs.
#
# ## What does tf.data's rewriting gain?
#
# `naive` and `as_it_comes` deliver the same photos, so this comparison is fair:

# %% tags=["nbval-ignore-output"]
default = labkit.measure({"naive": naive, "tf.data's defaults": as_it_comes}, v100, steps=6, repeats=5)
default

# %% tags=["nbval-ignore-output"]
pair = default.trace("naive"), default.trace("tf.data's defaults")
labkit.show(*pair, labels=("naive", "tf.data's defaults"), steps=3)

# %% [markdown]
# Look below the train steps. In the upper timeline nobody works there. In the lower timeline threads prepare the next batch: the job overlaps, although the code has no `prefetch`. The table shows whether this makes the job faster on your machine. If the interval contains 1.00×, nobody can tell.
#
# ## Exercises
#
# **01.1** Write `images_per_s(step_ms, batch)`. It returns how many images per second a job trains on if each step takes `step_ms` milliseconds. One line.

# %% tags=["stub"]
def images_per_s(step_ms, batch):
    ...  # your code

# %% tags=["solution"]
def images_per_s(step_ms, batch):
    return 1000 * batch / step_ms

# %%
check("01.1", images_per_s)

# %% [markdown]
# **01.2** Write `naive_options(dataset)`. It returns the same dataset, and tf.data neither rewrites nor tunes it. Four lines.

# %% tags=["stub"]
def naive_options(dataset):
    ...  # your code

# %% tags=["solution"]
def naive_options(dataset):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)

# %%
try_it("01.2", naive_options)
check("01.2", naive_options)

# %% [markdown]
# **01.3** Write `verdict(before, after)`, the first part of the table's rule. Both arguments are lists of images per second, with one entry per round. Return `"faster"` if *every* round got faster, `"slower"` if every round got slower, `"no difference"` otherwise. Four lines.

# %% tags=["stub"]
def verdict(before, after):
    ...  # your code

# %% tags=["solution"]
def verdict(before, after):
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    if min(ratios) > 1:
        return "faster"
    return "slower" if max(ratios) < 1 else "no difference"

# %%
try_it("01.3", verdict)
check("01.3", verdict)

# %% [markdown]
# ## Recap
#
# You switched tf.data's rewriting off and checked in the graph that it is off. You measured a naive job and its busy share, and you saw which kind of work takes most of the time. You kept the first batch apart, compared equal runs, and saw that a table refuses to compare unequal work.
#
# ## In practice
#
# - Leave the defaults *on* in production. They are off here so that you see each technique alone.
# - Report the median of several rounds with its spread. Compare two pipelines within one run, and not the seconds of two days.
# - The profiler needs a little time for each event (`naive_trace.run.profiler` counts the events). With photos this time is negligible. With tiny elements it is large, and then a note below the table says so.
#
# **Next:** [02 Overlap with prefetch](02_overlap_with_prefetch.ipynb): load the next batch during the training.
