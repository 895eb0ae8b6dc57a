# %% [markdown]
# # Put it all together
#
# **You will** build the fastest pipeline of this lab step by step, put every technique on one scoreboard, try it on your own photos, and train a real network with the first and the last pipeline.
#
# **You will learn** how to justify each choice by its own measurement, how far a pipeline is from its limit, and what all this buys a real model.
#
# **You need** notebooks 00 to 08. No GPU. About 45 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from labkit import accelerators, explorers, ladder, photos, plain, predictions, records, ladder_chart

# %% [markdown]
# ## The job
#
# The same chain as ever. Only one thing is new: the random numbers come from outside, three for each photo, made from a seed. Two pipelines that get the same numbers must then deliver the same pixels, and that can be checked.

# %% tags=["nbval-ignore-output"]
everything = photos.load()
album = everything.take(min(len(everything), 640))
h100 = accelerators.modelled("H100")
print(album)
print(h100.describe())

# %%
epoch = tf.Variable(0, dtype=tf.int64)  # another epoch, other numbers
numbers = tf.data.Dataset.counter().map(lambda i: tf.random.stateless_uniform([3], [epoch, i]))


def spread(u):
    """Flip or not, brightness, saturation."""
    return u[..., 0] < 0.5, (2 * u[..., 1] - 1) * 32 / 255, 0.5 + u[..., 2]


def endless(elements):
    return tf.data.Dataset.zip((elements.repeat(), numbers))

# %% [markdown]
# One photo as in notebook 01, and the recipe of TensorFlow's guide: parallel map, batch, prefetch.

# %%
def decode(jpeg):
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE")


def jitter(image, u):
    flip, delta, factor = spread(u)
    image = tf.cond(flip, lambda: tf.image.flip_left_right(image), lambda: image)
    image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, delta), factor)
    return tf.clip_by_value(image, 0, 1)


def load(file, u):
    image = tf.image.convert_image_dtype(decode(tf.io.read_file(file[0])), tf.float32)
    return jitter(tf.image.resize(image, [224, 224]), u), file[1]

# %%
AUTO = tf.data.AUTOTUNE
files = album.files()
guide = endless(files).map(load, num_parallel_calls=AUTO).batch(32).prefetch(AUTO)

# %% [markdown]
# The photos come in the order of the album. A real job shuffles the names first; names are small, so that costs next to nothing.
#
# ## Predict
#
# The guide's recipe keeps all cores busy. How many times faster can a pipeline be that still decodes every photo in every epoch, and delivers the same pixels? Put in your number:

# %% tags=["nbval-ignore-output"]
predictions.commit("09.gain", 1.1, unit="times")

# %% [markdown]
# ## Build
#
# Decoding cannot be avoided, so the rest must shrink: fewer passes over memory. The guide's recipe makes a float copy of the whole photo, then resizes it. `tf.image.resize` reads uint8 just as well. That is a quarter of the bytes, and the copy falls away:

# %%
def shrink(jpeg):
    return tf.image.resize(decode(jpeg), [224, 224])  # grey levels 0 to 255, not rounded

# %% [markdown]
# With it, the float stage works on whole batches and is compiled, so that scaling, flip, brightness, saturation and clip become one pass (notebook 06). Saturation needs no trip to HSV and back: with $V$ the largest and $m$ the smallest of the three channels, each channel $x$ becomes $V - \min(s, \tfrac{V}{V-m})\,(V-x)$. Take $V$ and $m$ from whole channels, as in notebook 06.

# %%
@tf.function(jit_compile=True)
def float_stage(x, flip, delta, factor):
    flip, delta, factor = (v[:, None, None, None] for v in (flip, delta, factor))
    x = tf.cast(tf.where(flip, x[:, :, ::-1], x), tf.float32) / 255 + delta
    red, green, blue = x[..., 0:1], x[..., 1:2], x[..., 2:3]
    largest = tf.maximum(tf.maximum(red, green), blue)
    smallest = tf.minimum(tf.minimum(red, green), blue)
    most = largest * tf.math.reciprocal(tf.maximum(largest - smallest, 1e-12))
    return tf.clip_by_value(largest - tf.minimum(factor, most) * (largest - x), 0, 1)


def finish(images, labels, u):
    return float_stage(images, *spread(u)), labels

# %%
def batched(elements, small):
    mapped = endless(elements).map(small, num_parallel_calls=AUTO)
    return mapped.batch(32, drop_remainder=True).map(finish).prefetch(AUTO)


compiled = batched(files, lambda file, u: (shrink(tf.io.read_file(file[0])), file[1], u))

# %% [markdown]
# Between resize and float stage a batch is written and read once more. As float16 that is half the bytes, and a grey level is off by at most 1/16. Then packed shards (notebook 07), and their JPEG bytes kept in memory after the first epoch (notebook 05; the pixels of 224×224 would be 0.15 MB a photo, compare the MB per photo printed below):

# %%
def half(jpeg):
    return tf.cast(shrink(jpeg), tf.float16)


smaller = batched(files, lambda file, u: (half(tf.io.read_file(file[0])), file[1], u))

# %% tags=["nbval-ignore-output"]
shards = records.write(album, photos.home() / "shards" / album.name.replace("/", "-"), shards=8)
packed = tf.data.TFRecordDataset(shards.paths).map(records.parse)
in_memory = batched(packed.cache(), lambda record, u: (half(record[0]), record[1], u))
print(shards)
print(f"{shards.bytes / 1e6 / shards.count:.2f} MB per photo")

# %% [markdown]
# Last, the threads: one for each core, and a single one inside each op, since the parallel calls fill the cores already.

# %%
options = tf.data.Options()
options.threading.private_threadpool_size = labkit.cores()
options.threading.max_intra_op_parallelism = 1
best = in_memory.with_options(options)

# %% [markdown]
# Same numbers in, same pixels out? The tolerance is a quarter of a grey level, 1/1000:

# %%
same = {"compiled": compiled, "float16": smaller, "in memory": in_memory}
for name, dataset in same.items():
    difference = tf.reduce_max(tf.abs(next(iter(guide))[0] - next(iter(dataset))[0]))
    print(f"{name:<12} within 1/1000 of the guide's pixels: {bool(difference < 1e-3)}")

# %% [markdown]
# ## Run
#
# First each choice for itself: every pipeline has one choice more than the one above it, and the consumer takes next to no time.

# %% tags=["nbval-ignore-output"]
choices = {"guide": guide, "compiled": compiled, "float16": smaller, "in memory": in_memory, "threads": best}
ladder.fill(in_memory, album)  # the first epoch fills the memory, for both
instant = accelerators.modelled(step_ms=1)
steps = labkit.measure(choices, instant, steps=4, repeats=5)
steps

# %% tags=["nbval-ignore-output"]
names = list(steps)
for before, after in zip(names, names[1:]):
    print(f"{before:>13} → {after:<13} {steps.speedup(after, over=before)}")
predictions.review("09.gain", measured=steps.speedup("threads"))

# %% [markdown]
# Read the second list line by line. Expect most of the gain from the first, which makes fewer passes over memory: one resize without a float copy, and one compiled stage. Where a line says "no measurable difference", that choice buys nothing *here*: a memory with bandwidth to spare does not mind float32, and warm files are read nearly as quickly as bytes that are there already. On a cold disk or a remote store (notebook 03) the line *in memory* would matter most. All choices stay in here, since another machine may need them. Leave out what never shows on yours: it only makes your pipeline longer.
#
# How far is that from the end? A pipeline that only reads and decodes, and throws the pixels away, is the limit of this approach. One short run tells roughly where it lies:

# %% tags=["nbval-ignore-output"]
only_decode = packed.repeat().map(lambda jpeg, label: (decode(jpeg)[0, 0, 0], label), AUTO).batch(32).prefetch(AUTO)
limit = labkit.measures.figures(labkit.record(only_decode, instant, steps=8)).images_per_s
for name in ("guide", "threads"):
    rate = np.median([m.images_per_s for m in steps[name]])
    print(f"{name} runs at about {rate / limit:.0%} of decoding alone")

# %% [markdown]
# ## The timeline
#
# Now the whole walk, rung by rung, in front of a modelled H100. `labkit.ladder` holds the pipelines of all notebooks; caches are filled first, so their rows show later epochs.

# %% tags=["nbval-ignore-output"]
board = ladder.scoreboard(album.take(160), h100, rounds=3, steps=3)
board

# %% tags=["nbval-ignore-output"]
ladder_chart.draw({name: board.trace(name) for name in board}, title="The ladder, rung by rung")

# %% [markdown]
# ## Explain
#
# Each row is one pipeline, all on one axis: a block is a train step, empty space is waiting, and the band below shows when the pipeline worked. All rows have the same number of steps, so the shorter a row, the faster its pipeline.
#
# - *Prefetch* and *interleave* only overlap. Where loading takes several times as long as training, there is little to hide behind, and warm local files are not worth reading many at once.
# - *Parallel map* uses the other cores. If gaps remain after it, the cores are the limit, and from here on only less work helps. If none remain, you have cores enough, and the rows below cannot gain more.
# - *Vectorized map*, *TFRecords* and *best* do the same work in fewer passes; the table says by how much, and whether shards add anything on a warm disk.
# - A *cache of pixels* removes decoding from all later epochs. With the float stage compiled, too, the pipeline has little left to do. It costs memory, 0.15 MB for each photo, and its pixels are rounded to whole grey levels.
#
# Any row can be looked at in full; first and last on one axis:

# %% tags=["nbval-ignore-output"]
labels = ("naive", "best, cache of pixels")
labkit.show(board.trace(labels[0]), board.trace(labels[1]), labels=labels, steps=3)

# %% [markdown]
# ## Your own photos
#
# Name a folder of yours with one sub-folder of JPEGs for each class, or a TFDS set that is prepared on this disk, such as `"tf_flowers"`, and run the cell again. Until then, the lab's own photos stand in, loaded as the folder that they are.

# %% tags=["nbval-ignore-output"]
MY_PHOTOS = Path(album.paths[0]).parent.parent  # "~/pictures"
mine = photos.load(MY_PHOTOS)
mine = mine.take(min(len(mine), 160))
mine_best = ladder.best(mine)
ladder.fill(mine_best, mine)
labkit.measure({"guide": ladder.guide(mine), "best": mine_best}, h100, steps=4, repeats=3)

# %% [markdown]
# Photos of other sizes give other ratios: the larger they are, the more decoding weighs beside the float stage at 224×224, which stays the same.
#
# ## A real model
#
# A small residual network, with real gradient steps on whatever device TensorFlow finds here. Two copies start from the same weights. One is fed by the naive pipeline, one by the best; both get the same photos and the same random numbers.

# %%
def block(x, filters):
    y = layers.Conv2D(filters, 3, strides=2, padding="same")(x)
    y = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(y))
    y = layers.BatchNormalization(momentum=0.9)(layers.Conv2D(filters, 3, padding="same")(y))
    return layers.ReLU()(layers.add([layers.Conv2D(filters, 1, strides=2)(x), y]))


def network():
    keras.utils.set_random_seed(1)
    photo = keras.Input([224, 224, 3])
    x = layers.AveragePooling2D(7)(photo)
    x = layers.Conv2D(16, 3, padding="same")(x)
    for filters in (16, 32, 64):
        x = block(x, filters)
    x = layers.Dense(len(album.classes))(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(photo, x, name="small_resnet")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-4), loss, metrics=["accuracy"], jit_compile=False)
    return model

# %% [markdown]
# The training step uses the same cores as the pipeline, unless you have a GPU. The two take turns, so that a slow minute hits both.

# %% tags=["nbval-ignore-output"]
naive = plain(endless(files).map(load).batch(32))
jobs = {"naive": naive, "best": best}
models = {name: network() for name in jobs}
trainers = {name: accelerators.real(model) for name, model in models.items()}
runs = {name: [] for name in jobs}
for number in range(3):
    epoch.assign(number)
    for name, dataset in jobs.items():
        runs[name].append(labkit.record(dataset, trainers[name], steps=15, warmup=2, name=name))
training = labkit.measures.Measures.from_traces(runs)
training

# %% tags=["nbval-ignore-output"]
held_out = everything.validation
test = held_out.files().map(lambda path, label: (shrink(tf.io.read_file(path)) / 255, label)).batch(32).cache()
right = {name: model.evaluate(test, verbose=0)[1] for name, model in models.items()}  # [loss, accuracy]
for name, share in right.items():
    seconds = sum(trace.run.job.seconds for trace in runs[name])
    print(f"{name:<6} {seconds:5.1f} s of training, {share:.1%} of {len(held_out)} held-out photos right")
middle = np.mean(list(right.values()))
chance = 2 * (2 * middle * (1 - middle) / len(held_out)) ** 0.5
print(f"they differ by {abs(right['naive'] - right['best']):.1%}; up to {chance:.1%} is chance with so few photos")

# %% tags=["nbval-ignore-output"]
labkit.show(training.trace("naive"), training.trace("best"), labels=("naive", "best"), steps=4)

# %% [markdown]
# The training is short and the accuracies are modest. What matters is that they are alike: same pixels, same training. Rounding differs in the fourth digit, and training amplifies it, so a small difference is chance: the last line says how much. A pipeline that changed the data would show here, long after its speed looked fine.
#
# Without a GPU the gain is smaller than on the scoreboard: the training step needs the cores, too, and the pipeline must share them. The blocks of the lower picture are longer for that reason.
#
# ## From one machine to many
#
# The same rule plans a cluster: the slowest of storage, processors and accelerators sets the pace. On paper, with the assumptions listed; try the presets, then your own plans:

# %% tags=["nbval-ignore-output"]
explorers.scale("DGX-2")

# %% [markdown]
# And how good have your predictions been, over all notebooks that you ran here?

# %% tags=["nbval-ignore-output"]
predictions.summary()

# %% [markdown]
# ## Exercises
#
# **09.1** Write `busy(fetch, prep, train)`: three rates in images per second that storage, processor and accelerator reach alone. All three overlap perfectly. Return the busy share of the accelerator, 0 to 1. One line.

# %% tags=["stub"]
def busy(fetch, prep, train):
    ...  # your code

# %% tags=["solution"]
def busy(fetch, prep, train):
    return min(fetch, prep, train) / train

# %%
labkit.try_it("09.1", busy)
labkit.check("09.1", busy)

# %% [markdown]
# **09.2** Write `assemble(elements, decode, augment)`. `decode` maps one element and is expensive; `augment` maps a *batch* and is random. Return two epochs of batches of 4, a remainder dropped, such that each element is decoded only once, augmentation is new in each epoch, and the consumer never waits for a batch that could have been ready: the last step works ahead. Keep elements in memory, not in a file. One chain of steps that these notebooks use, in one to five lines.

# %% tags=["stub"]
def assemble(elements, decode, augment):
    ...  # your code

# %% tags=["solution"]
def assemble(elements, decode, augment):
    decoded = elements.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    return decoded.repeat(2).batch(4, drop_remainder=True).map(augment).prefetch(tf.data.AUTOTUNE)

# %%
labkit.try_it("09.2", assemble)
labkit.check("09.2", assemble)

# %% [markdown]
# ## Recap
#
# You built the best pipeline choice by choice, and each one had to show what it buys. You checked that its pixels are those of the guide's recipe, saw all rungs on one axis, and trained a real network with the first and the last pipeline, to compare both accuracy and time.
#
# ## In practice
#
# - Start with the guide's recipe and look at a timeline. If the accelerator hardly ever waits, stop: there is nothing left to gain.
# - Then go for what the timeline shows, in this order: work that can be done once (cache), work that can be done in fewer passes (compile), cores that rest (parallel map), waits that can overlap (interleave, prefetch). The README has a table *from symptom to remedy*.
# - Check the pixels whenever you make a pipeline faster. `labkit.checks.inspect` looks for the faults that no clock shows.
#
# **Next:** [10 Diagnose the patient](10_diagnose_the_patient.ipynb): pipelines that are sick, and nobody who tells you why.
