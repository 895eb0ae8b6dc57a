# %% [markdown]
# # Put it all together
#
# **You will** put every technique of this course on one scoreboard, add four more changes to the recipe of TensorFlow's guide, try the result on your own photos, and train a small real network with the first and the last pipeline.
#
# **You will learn** which changes matter on your machine, how far a pipeline is from its limit, and how much faster a real model trains.
#
# **You need** notebooks 00 to 07. You need no GPU. About 80 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import keras
import tensorflow as tf
from keras import layers
from labcourse import check, explorers, idea, ladder, predictions, try_it
from labkit import accelerators, augment, ladder_chart, photos, plain, records

# %% [markdown]
# ## The idea
#
# Each technique of this course removes a part of the waiting. Together they keep the accelerator busy:

# %%
idea("09")

# %% [markdown]
# ## Predict
#
# The job is the job of notebook 01: read, decode, resize, augment. A modelled H100 trains. The first row of the scoreboard below is the naive pipeline. The last row uses every technique and keeps the resized pixels in memory. How many times faster than the naive pipeline will the last row train? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
everything = photos.load()
album = everything.take(min(len(everything), 640))
h100 = accelerators.modelled("H100")
print(album)
print(h100.describe())
predictions.commit("09.gain", ..., unit="times")

# %% [markdown]
# ## Run
#
# `ladder` holds the pipelines of all notebooks. The rows down to *best* decode every photo in every epoch. They stand in the order of the notebooks. The last two rows keep resized pixels in memory (notebook 05), so they decode in the first epoch only. Caches are filled before the measurement. The row *best* has four more changes, which you will make yourself below.
#
# The model for your prediction is a limit: an H100 that never waits.

# %% tags=["nbval-ignore-output"]
board = ladder.scoreboard(album.take(160), h100, rounds=5, steps=3)
board

# %% tags=["nbval-ignore-output"]
most = h100.images_per_s(32)  # of an H100 that never waits
naive_rate = labkit.Timeline(board.trace("naive")).images_per_s
predictions.review("09.gain", model=most / naive_rate, measured=board.speedup("best, cache of pixels"))

# %% [markdown]
# ## The timeline
#
# Here are the same rows on one time axis. For each row, the picture shows the run whose figures stand in the table, the middle one.

# %% tags=["nbval-ignore-output"]
ladder_chart.draw({name: board.trace(name) for name in board}, title="The ladder, rung by rung")

# %% [markdown]
# ## Explain
#
# A block is a train step. Between the blocks the accelerator is idle. All rows have the same number of steps, so a shorter row is a faster pipeline. The order of the rows is chosen so that the chart rises, but two neighbours can be equally fast. The last two columns of the table say whether a row really differs from the row above it.
#
# - *Prefetch* and *interleave* let loading and training overlap. Where loading takes several times as long as training, only a small part of it can hide behind the training. Local files in the [page cache](../docs/glossary.md#page-cache) are read fast already, so *interleave* may gain nothing, or cost a little.
# - *Parallel map* uses the other cores. If gaps remain, the cores are the limit, and from there on only less work helps. If no gaps remain, you have enough cores, and the rows below cannot gain more.
# - *Vectorized map*, *TFRecords* and *best* do the same work in fewer passes over memory. On a warm local disk, shards alone may gain nothing.
# - A *cache of pixels* removes decoding from all later epochs. It takes 0.15 MB of memory for each photo, and it rounds pixels to whole grey levels. Both rows with this cache can be so fast that the accelerator is the limit. Then the two rows are equally fast.
#
# Compare the first row and the last row in full:

# %% tags=["nbval-ignore-output"]
labels = ("naive", "best, cache of pixels")
labkit.show(board.trace(labels[0]), board.trace(labels[1]), labels=labels, steps=3)

# %% [markdown]
# ## Build: four more changes
#
# The recipe of TensorFlow's guide is parallel map, batch, prefetch. You will now make four changes to this recipe. Each pipeline must deliver the same pixels. To check that, both need the same random numbers: three numbers for each photo, made from a counter.

# %%
AUTO = tf.data.AUTOTUNE
files = album.files()
numbers = tf.data.Dataset.counter().map(lambda i: tf.random.stateless_uniform([3], [0, i]))


def endless(elements):
    return tf.data.Dataset.zip((elements.repeat(), numbers))


def spread(u):  # flip or not, brightness, saturation
    return u[..., 0] < 0.5, (2 * u[..., 1] - 1) * 32 / 255, 0.5 + u[..., 2]

# %%
def jitter(image, u):
    flip, delta, factor = spread(u)
    image = tf.cond(flip, lambda: tf.image.flip_left_right(image), lambda: image)
    image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, delta), factor)
    return tf.clip_by_value(image, 0, 1)


def load(file, u):
    image = tf.image.convert_image_dtype(ladder.decode(tf.io.read_file(file[0])), tf.float32)
    return jitter(tf.image.resize(image, [224, 224]), u), file[1]

# %% [markdown]
# **1. Fewer passes over memory.** The guide's recipe makes a float copy of the whole photo and then resizes this copy. But `tf.image.resize` can read the uint8 pixels, which are a quarter of the bytes: `ladder.shrink` decodes and resizes in this way. The augmentation works on whole batches and is compiled by [XLA](../docs/glossary.md#xla), so that scaling, flip, brightness, saturation and clip become one pass (notebook 06): `augment.compiled` is this function.

# %%
def finish(images, labels, u):
    return augment.compiled()(images, *spread(u)), labels


def batched(elements, small):
    mapped = endless(elements).map(small, num_parallel_calls=AUTO)
    return mapped.batch(32, drop_remainder=True).map(finish).prefetch(AUTO)


guide = endless(files).map(load, num_parallel_calls=AUTO).batch(32).prefetch(AUTO)
compiled = batched(files, lambda file, u: (ladder.shrink(tf.io.read_file(file[0])), file[1], u))

# %% [markdown]
# **2. Fewer bytes.** Between resizing and augmentation each batch is written to memory and read again. As float16 a batch has half the bytes. A grey level changes by at most 1/16.
#
# **3. Files in memory.** Put the photos into [shards](../docs/glossary.md#shard) (notebook 07) and keep the JPEG bytes in memory after the first epoch (notebook 05). JPEG bytes take less memory than pixels where a photo has less than 0.15 MB.
#
# **4. Threads.** Use one thread for each core, and a single thread inside each operation. The parallel calls of `map` use all cores already.

# %%
def half(jpeg):
    return tf.cast(ladder.shrink(jpeg), tf.float16)


smaller = batched(files, lambda file, u: (half(tf.io.read_file(file[0])), file[1], u))
shards = records.write(album, photos.home() / "shards" / album.name.replace("/", "-"), shards=8, progress=False)
packed = tf.data.TFRecordDataset(shards.paths).map(records.parse)
in_memory = batched(packed.cache(), lambda record, u: (half(record[0]), record[1], u))
options = tf.data.Options()
options.threading.private_threadpool_size = labkit.cores()
options.threading.max_intra_op_parallelism = 1
best = in_memory.with_options(options)

# %% [markdown]
# Do the same random numbers give the same pixels? The tolerance is 1/1000, which is a quarter of a grey level:

# %%
same = {"compiled": compiled, "float16": smaller, "in memory": in_memory}
for name, dataset in same.items():
    difference = tf.reduce_max(tf.abs(next(iter(guide))[0] - next(iter(dataset))[0]))
    print(f"{name:<12} within 1/1000 of the guide's pixels: {bool(difference < 1e-3)}")

# %% [markdown]
# Now measure each change. Each row adds one change to the row above it. The consumer here is almost instant, so you see the pipeline alone. The first list compares each row with the row above it, and the table compares each row with the guide's recipe:

# %% tags=["nbval-ignore-output"]
choices = {"guide": guide, "compiled": compiled, "float16": smaller, "in memory": in_memory, "threads": best}
ladder.fill(in_memory, album)  # the first epoch fills the memory, for both
instant = accelerators.modelled(step_ms=1)
steps = labkit.measure(choices, instant, steps=4, repeats=5)
names = list(steps)
for before, after in zip(names, names[1:]):
    print(f"{before:>13} → {after:<13} {steps.speedup(after, over=before)}")
steps

# %% [markdown]
# Read the list line by line. *No measurable difference* means that *on your machine* nobody can tell whether this change gains anything. If the memory is fast enough, half the bytes gain nothing. If the files are warm, bytes that are in memory already gain nothing. With a cold disk or a remote store (notebook 03) the third change can matter most. Leave out what gains nothing on the machine where you train: it only makes your pipeline longer.
#
# What is the limit of this approach? A pipeline that reads and decodes, and then throws the pixels away, tells you roughly:

# %% tags=["nbval-ignore-output"]
only_decode = packed.repeat().map(lambda jpeg, label: (ladder.decode(jpeg)[0, 0, 0], label), AUTO).batch(32).prefetch(AUTO)
limit = labkit.Timeline(labkit.record(only_decode, instant, steps=8)).images_per_s
for name in ("guide", "threads"):
    rate = labkit.Timeline(steps.trace(name)).images_per_s
    print(f"{name} runs at about {rate / limit:.0%} of the speed of decoding alone")

# %% [markdown]
# ## Your own photos
#
# Name a folder that has one sub-folder of JPEG files for each class, such as `"~/pictures"`, or a TFDS set that is prepared on this disk, such as `"tf_flowers"`. Then run the cell again. Until you do, the cell uses the lab's own photos.

# %% tags=["nbval-ignore-output"]
MY_PHOTOS = "lab_photos"
mine = photos.load(MY_PHOTOS)
mine = mine.take(min(len(mine), 160))
mine_best = ladder.best(mine)
ladder.fill(mine_best, mine)
labkit.measure({"guide": ladder.guide(mine), "best": mine_best}, h100, steps=4, repeats=5)

# %% [markdown]
# Photos of other sizes give other ratios. In larger photos decoding takes a larger part of the time, and *best* cannot avoid decoding.
#
# ## A real model
#
# So far the accelerator was modelled. Now train a small network with real gradient steps, on the device that TensorFlow finds. Two copies start from the same weights. One copy gets the naive pipeline, the other copy gets *best*. Both get the same photos and the same random numbers. (The first layer averages each image down to 32×32 pixels, so that a step is short without a GPU.)

# %%
def network():
    keras.utils.set_random_seed(1)
    stack = [keras.Input([224, 224, 3]), layers.AveragePooling2D(7)]  # 32×32: a short step without a GPU
    for filters in (16, 32, 64):
        stack += [layers.Conv2D(filters, 3, strides=2, padding="same"), layers.BatchNormalization(momentum=0.9)]
        stack += [layers.ReLU()]
    stack += [layers.GlobalAveragePooling2D(), layers.Dense(len(album.classes))]
    model = keras.Sequential(stack, name="small_network")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"], jit_compile=False)
    return model

# %% tags=["nbval-ignore-output"]
jobs = {"naive": plain(endless(files).map(load).batch(32)), "best": best}
models = {name: network() for name in jobs}
trainers = {name: accelerators.real(model) for name, model in models.items()}
runs = {name: [] for name in jobs}
for _ in range(labkit.measures.rounds_of(5)):  # the two take turns, so that a slow minute hits both
    for name, dataset in jobs.items():
        runs[name].append(labkit.record(dataset, trainers[name], steps=10, warmup=2, name=name))
training = labkit.measures.Measures.from_traces(runs)
training

# %% tags=["nbval-ignore-output"]
labkit.show(training.trace("naive"), training.trace("best"), labels=("naive", "best"), steps=4)

# %% [markdown]
# Without a GPU the training step needs the same cores as the pipeline. So the gain is smaller than on the scoreboard. A step can also take longer with *best* than with *naive*, because the pipeline works during the step.
#
# Do both copies learn the same?

# %% tags=["nbval-ignore-output"]
held_out = everything.validation
test = held_out.files().map(lambda path, label: (ladder.shrink(tf.io.read_file(path)) / 255, label)).batch(32)
for name, model in models.items():
    seconds = sum(trace.run.job.seconds for trace in runs[name])
    right = model.evaluate(test, verbose=0)[1]  # [loss, accuracy]
    print(f"{name:<6} {seconds:5.1f} s of training, {right:.0%} of {len(held_out)} held-out photos right")

# %% [markdown]
# So few steps teach a network very little, so both accuracies are low. With so few held-out photos, a difference of several points is chance. This test would *not* find a pipeline that changes the pixels a little. The comparison of pixels above is the better test. It shows that both copies get the same data, only sooner.
#
# ## From one machine to many
#
# The same rule plans a cluster: the slowest of storage, processors and accelerators sets the speed. The next cell calculates a plan for a cluster of the V100s of notebook 01 (at batches of 64, 328 images per second), and lists the assumptions. Find the number of accelerators from which the storage is the limit. Then change the plan. The last table shows how good your predictions were, in all notebooks that you ran here.

# %% tags=["nbval-ignore-output"]
explorers.scale("a thousand accelerators")

# %% tags=["nbval-ignore-output"]
predictions.summary()

# %% [markdown]
# ## Exercises
#
# **09.1** Write `busy(fetch, prep, train)`. The arguments are the rates, in images per second, that storage, processor and accelerator reach alone. All three overlap perfectly. Return the busy share of the accelerator, 0 to 1. One line.

# %% tags=["stub"]
def busy(fetch, prep, train):
    ...  # your code

# %% tags=["solution"]
def busy(fetch, prep, train):
    return min(fetch, prep, train) / train

# %%
try_it("09.1", busy)
check("09.1", busy)

# %% [markdown]
# **09.2** Write `assemble(elements, decode, augment)`. `decode` maps one element and is expensive. `augment` maps a *batch* and is random. Return a dataset with these properties:
#
# - It delivers two epochs, in batches of 4, and drops a remainder.
# - Each element is decoded only once. Decoded elements are kept in memory, not in a file.
# - The augmentation is new in each epoch.
# - The last step works ahead, so that the consumer does not wait for a batch that could be ready.
#
# Use only steps from these notebooks. One to five lines.

# %% tags=["stub"]
def assemble(elements, decode, augment):
    ...  # your code

# %% tags=["solution"]
def assemble(elements, decode, augment):
    decoded = elements.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    return decoded.repeat(2).batch(4, drop_remainder=True).map(augment).prefetch(tf.data.AUTOTUNE)

# %%
try_it("09.2", assemble)
check("09.2", assemble)

# %% [markdown]
# ## Recap
#
# You compared all techniques on one scoreboard. You made four more changes to the guide's recipe, checked that the pixels stay the same, and saw which changes gain something on your machine. You trained a real network with the first and the last pipeline.
#
# ## In practice
#
# - Start with the guide's recipe and look at a timeline. If the accelerator hardly ever waits, stop there.
# - Otherwise follow the timeline, in this order: do work once (cache), do work in fewer passes (compile), use all cores (parallel map), let waits overlap (interleave, prefetch). The README has a table *from symptom to remedy*.
# - Check the pixels whenever you make a pipeline faster. `checks.inspect` looks for faults that no clock shows.
#
# **Next:** [10 Diagnose a sick pipeline](10_diagnose_the_patient.ipynb): pipelines with one fault each, and you find the fault.
