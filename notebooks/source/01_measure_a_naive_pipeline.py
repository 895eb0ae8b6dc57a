# %% [markdown]
# # Measure a naive pipeline
#
# **You will** measure the simplest pipeline, measure it once more against itself, and see how far two equal runs differ.
#
# **You will learn** when a measured difference is real, and which two numbers cannot be compared at all.
#
# **You need** notebook 00. No GPU. About 25 minutes. Special words are in the [glossary](../docs/glossary.md). **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, charts, photos

# %% [markdown]
# ## The idea ▸
#
# You change a line, and the job is a little faster. Was it the line? Of two equal runs, one is faster, too. So two pipelines are compared in several rounds, in turn.

# %%
idea("01")

# %% [markdown]
# From this notebook on you own a pipeline, and this is where its ladder will stand:

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("01")

# %% [markdown]
# ## Build ▸
#
# The job does the same work as in notebook 00. A batch has 32 photos. The accelerator is a modelled V100, a GPU with a published step time:

# %% tags=["nbval-ignore-output"]
album = photos.load()
v100 = accelerators.modelled("V100")
print(album.summary())
print(v100.describe())
print(f"a step with 32 photos takes {v100.step_ns(32) / 1e6:.0f} ms")

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
# *Naive* means: every stage runs when it is asked for, one thing after the other. That is harder to get than it looks. Before a pipeline starts, tf.data rewrites its *graph*, the list of its stages. The profiler sees the nodes that really run, the last one first:

# %%
as_it_comes = files.map(load).batch(32)
for node in labkit.recorder.graph(as_it_comes):
    print(node)

# %% [markdown]
# `map` and `batch` were written, and `MapAndBatch` runs. This node can prepare the next batch while the accelerator trains. Two options switch the rewriting off:

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
# <details><summary>Why does the whole course use plain?</summary>
#
# What tf.data changes depends on the pipeline: here it fuses map and batch, elsewhere it adds a `Prefetch` at the end. Who then compares "without overlap" and "with overlap" compares overlap with overlap. In production the rewriting is useful: leave it on. A node that did no work during the recording is missing in the list above. A recording keeps the options of its pipeline (`trace.run.options`).
#
# </details>
#
# ## Predict ▸
#
# Of one photo, which takes longest: to fetch it, to prepare it, or to train on it? Replace the three dots by one of the three words, in quotes.

# %% tags=["nbval-ignore-output"]
predictions.cause("01.cause", ..., among=("fetch", "prepare", "train"))

# %% [markdown]
# ## Run ▸

# %% tags=["nbval-ignore-output"]
naive_trace = labkit.record(naive, v100, steps=12, name="naive")
timeline = labkit.Timeline(naive_trace)
predictions.review("01.cause", measured=timeline)

# %% [markdown]
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
labkit.show(naive_trace, title="Naive: fetch, prepare, train, in turn", steps=3)

# %% [markdown]
# ## Explain
#
# Whichever of the three is longest: in turn, their times add up. In the gap between two train steps the photos of the next batch are prepared, one after the other. TensorFlow hands the work from thread to thread, but the threads take turns: one core works at a time. What does preparing a photo consist of?

# %% tags=["nbval-ignore-output"]
work = timeline.per_image_ms
kinds = {"decode": "decode", "resize": "resize", "augment and the rest": "map", "into the batch": "batch"}
charts.bars({name: work[kind] for name, kind in kinds.items()}, unit="ms per photo", title="Preparing one photo")

# %% [markdown]
# What would have to change for a busy accelerator? The explorer begins with the costs of your recording. Move one slider at a time.

# %% tags=["nbval-ignore-output"]
explorers.explore("01", trace=naive_trace)

# %% [markdown]
# ## The same pipeline twice ▸
#
# Which of the two is faster: `naive`, or the same pipeline again? `labkit.measure` records both in turn, round by round, so that a slow minute slows both. `repeats` is the number of rounds, to which more are added where they cannot decide, `steps` the train steps of each.

# %% tags=["nbval-ignore-output"]
def rounds(measured, title):
    rates = {name: measured.rates(name) for name in measured}
    count = range(1, 1 + min(map(len, rates.values())))
    series = {name: values[: len(count)] for name, values in rates.items()}
    return charts.lines(list(count), series, x_label="round", y_label="images/s", title=title)


equal = labkit.measure({"naive": naive, "naive again": naive}, v100, steps=6, repeats=5)
rounds(equal, "The same pipeline twice: is one of them faster?")

# %% tags=["nbval-ignore-output"]
equal

# %% [markdown]
# The rule is short: *faster* means that the second one is faster in every round, and each time by about the same factor.
#
# <details><summary>How the table decides</summary>
#
# In each round, the speed of a pipeline is divided by that of the first one. The *speed-up* is the median of these ratios, so it can differ a little from the ratio of the two speeds in the table. The true speed-up is probably inside the *interval*.
#
# *Faster* and *slower* need an interval that does not hold 1; after five rounds, *every* round has to point the same way. The difference must also be larger than the usual difference between rounds, and than half a per cent. *No measurable difference* needs an interval that lies close around 1. Anything else is *undecided*; then the table adds rounds for what it compares with the first row, up to 11. The table looks up to four times, so it is wrong about four times in a hundred. On a busy machine it gives no verdict.
#
# </details>
#
# ## A pipeline that differs ▸
#
# And now what tf.data makes of the pipeline by itself. It delivers the same photos:

# %% tags=["nbval-ignore-output"]
default = labkit.measure({"naive": naive, "tf.data's defaults": as_it_comes}, v100, steps=6, repeats=5)
rounds(default, "Naive, and with tf.data's own changes")

# %% tags=["nbval-ignore-output"]
default

# %% [markdown]
# <details><summary>Where the difference comes from</summary>
#
# `labkit.show(default.trace("naive"), default.trace("tf.data's defaults"), labels=("naive", "defaults"), steps=3)` draws both jobs. In the second one, threads work below the train steps, although nobody wrote `prefetch`: the job overlaps.
#
# </details>
#
# ## Two that cannot be compared ▸
#
# This pipeline resizes each image to 112×112 at its end, so that it has a quarter of the pixels:

# %% tags=["nbval-ignore-output"]
def load_small(path, label):
    image, label = load(path, label)
    return tf.image.resize(image, [112, 112]), label


smaller = plain(files.map(load_small).batch(32))
unfair = labkit.measure({"naive": naive, "smaller": smaller}, v100, steps=3, repeats=2)
unfair

# %% [markdown]
# The table refuses. The two pipelines do not deliver the same images, so their speeds say nothing about each other.
#
# ## Exercises ▸
#
# **01.1** Eight pairs of five rounds, each with the work that was done. What can be said of each?

# %% tags=["nbval-ignore-output"]
read("01.1")

# %% tags=["stub"]
# Click, or write {"A": ..., and so on to "H"}. The words: faster, slower, cannot tell, not comparable
answer = ...

# %% tags=["solution"]
answer = {
    "A": "cannot tell", "B": "faster", "C": "not comparable", "D": "slower",
    "E": "cannot tell", "F": "not comparable", "G": "slower", "H": "faster",
}

# %%
check("01.1", answer)

# %% [markdown]
# **01.2** Which part of a step is the longest in each of these three jobs?

# %% tags=["nbval-ignore-output"]
read("01.2")

# %% tags=["stub"]
answer = ...  # click, or write {"A": "fetch", "B": ..., "C": ...}

# %% tags=["solution"]
answer = {"A": "train", "B": "prepare", "C": "fetch"}

# %%
check("01.2", answer)

# %% [markdown]
# **01.3** Write `verdict(before, after)`, the first part of the rule. Both arguments are lists of images per second, with one entry for each round. Return `"faster"` if *every* round got faster, `"slower"` if every round got slower, and `"no difference"` otherwise. About four lines.

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
# ## Your pipeline
#
# The file `my_pipeline.py` beside the notebooks is yours, in plain TensorFlow. It grows by one step in each notebook, and the lab never overwrites it. Today it is naive:

# %% tags=["nbval-ignore-output"]
my_pipeline.step("01")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("01")

# %% [markdown]
# This is the first rung of your ladder. A faster accelerator is busy for less of the time: it waits as long, and trains less.
#
# ## Without the lab
#
# At work, in plain TensorFlow: is `new` faster than `old`? Measure both in turn, and look at every round. Keep the train step in the loop: without it, nothing can be hidden behind training, and the answer may be another one.

# %% tags=["nbval-ignore-output"]
from time import perf_counter, sleep


def seconds(dataset, batches=4):
    start = perf_counter()
    for _ in dataset.take(batches):
        sleep(0.11)  # in its place: your train step
    return perf_counter() - start


old, new = naive, as_it_comes
ratios = [seconds(old) / seconds(new) for _ in range(5)]
print("times as fast, round by round:", *(f"{ratio:.2f}" for ratio in ratios))
print("real" if min(ratios) > 1 or max(ratios) < 1 else "nobody can tell")

# %% [markdown]
# ## Recap
#
# One core prepares one photo after the other, and the accelerator waits. Two equal runs differ, too. A difference is real if every round shows it, and only if both did the same work.
#
# ## In practice
#
# - Leave tf.data's defaults *on* in production. They are off here so that you see each technique alone.
# - Report the median of several rounds with its spread. Compare two pipelines within one run, and not the seconds of two days.
#
# **Next:** [02 Overlap with prefetch](02_overlap_with_prefetch.ipynb): load the next batch during the training.
