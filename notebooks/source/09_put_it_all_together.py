# %% [markdown]
# # Put it all together
#
# **You will** see every technique of this course on one scoreboard, and then build three pipelines yourself. Each of the three jobs needs another remedy.
#
# **You will learn** how to choose a remedy from a timeline, what it costs in memory, and why no recipe fits all jobs.
#
# **You need** notebooks 00 to 08b. You need no GPU. About 55 minutes. **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import challenge, check, idea, ladder, my_pipeline, predictions, read, try_it
from labkit import accelerators, ladder_chart, photos

# %% [markdown]
# ## The idea ▸
#
# Each technique of this course can remove a part of the waiting.

# %%
idea("09")

# %% [markdown]
# Your own ladder so far:

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("09")

# %% [markdown]
# ## Predict ▸
#
# The job is that of notebook 01: fetch, decode, resize, augment. A modelled H100 trains. The first row of the scoreboard below is the naive pipeline. The last row keeps resized pixels in memory, augments whole batches in one compiled function, and prefetches. How many times faster than the naive pipeline will it be? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
everything = photos.load()
album = everything.take(min(len(everything), 640))
h100 = accelerators.modelled("H100")
print(album)
print(h100.describe())
predictions.commit("09.gain", ..., unit="times")

# %% [markdown]
# ## Run ▸
#
# Most rows add a technique to the row above. The rows down to *best* decode every photo in every epoch. All caches are filled before the measurement. The model for your prediction is an H100 that never waits.

# %% tags=["nbval-ignore-output"]
board = ladder.scoreboard(album.take(160), h100, rounds=5, steps=3)
board

# %% tags=["nbval-ignore-output"]
most = h100.images_per_s(32)  # of an H100 that never waits
naive_rate = labkit.Timeline(board.trace("naive")).images_per_s
predictions.review("09.gain", model=most / naive_rate, measured=board.speedup("best, cache of pixels"))

# %% [markdown]
# ## The timeline ▸
#
# The same rows on one time axis. Between two blue blocks the accelerator is idle. All measured rows have the same number of steps, so a shorter row is a faster pipeline. (The modelled row at the end has more steps.)

# %% tags=["nbval-ignore-output"]
ladder_chart.draw(ladder.traces(board, album, h100), title="The ladder, rung by rung")

# %% [markdown]
# The first row and the last measured row in full:

# %% tags=["nbval-ignore-output"]
labels = ("naive", "best, cache of pixels")
labkit.show(*map(board.trace, labels), labels=labels, steps=3)

# %% [markdown]
# ## Explain ▸
#
# Read the last two columns of the table: they say whether a row really differs from *the row above it*. (Above *best* stands *offload*, which may be slow.) Two rows that look different may be equal, and a rung that gains nothing here may be the remedy of another job.
#
# <details><summary>What each rung does, and when it gains nothing</summary>
#
# - *Prefetch* and *interleave* let loading and training overlap. If loading takes several times as long as training, only a small part of it can hide. Files in the page cache are fetched fast already, so *interleave* may gain nothing here.
# - *Parallel map* uses the other cores. If gaps remain, the cores are the limit, and from there on only less work helps.
# - *Vectorized map*, *TFRecords* and *best* do the same work in fewer passes over memory. On a warm local disk, shards alone may gain nothing.
# - *Offload*: a process on the same cores stands in for a card (08b), so it can hardly be faster. Below all rows stands a *modelled* card: computed, not run.
# - *Best* keeps the bytes of the JPEG files in memory, decodes in parallel, augments each batch with one compiled function, and has one thread for each core.
# - A *cache of pixels* removes decoding from all later epochs. It takes a byte of memory for each value, and rounds pixels to whole grey levels. If the accelerator is the limit then, both rows are equally fast.
#
# </details>
#
# ## Exercises ▸
#
# **09.1** Four jobs that wait. Which change comes first for each: prefetch, parallel map, interleave or cache? (*prepare: other* is a random augmentation.)

# %% tags=["nbval-ignore-output"]
read("09.1")

# %% tags=["stub"]
answer = ...  # click, or write {"A": "cache", "B": ..., "C": ..., "D": ...}

# %% tags=["solution"]
answer = {"A": "parallel map", "B": "cache", "C": "prefetch", "D": "interleave"}

# %%
check("09.1", answer)

# %% [markdown]
# ## Build: the challenge ▸
#
# Three jobs, each on a machine with two cores and 600 MB for caches and buffers. For each, write a function that gets the files and returns **one epoch** as a `tf.data.Dataset`. The accelerator must be busy for 80 % of the time. Start from the timeline of *the guide*, the pipeline that TensorFlow's performance guide recommends (parallel map, batch, prefetch). It stands below each job: what does the accelerator wait for?
#
# Three calls help you. `try_it` draws your pipeline on a *simulated clock*, with the costs that the job states. `check` decides: it looks at the elements, at the memory, and at the busy share on that clock, which is the same on every machine. `challenge.judge` measures your pipeline on *this* machine in turn with the guide's, with real files and real decoding. Then it draws both, and puts yours on the ladder with the memory that it takes in the whole job. Each try is one more rung.
#
# <details><summary>What the clock knows, and what it cannot decide</summary>
#
# The clock reads the steps of your pipeline and the functions of `challenge` inside them. Map functions share a pool with a thread for each core, each file of a parallel interleave has a thread of its own, and work on a core is no faster on more threads. `AUTOTUNE` makes as many calls as there are cores: where threads only wait, write a number. It reads one chain of steps, as in the notebooks. If it cannot read your pipeline, the result is *inconclusive*: that is no mistake, and no zero. Write the pipeline in a simpler way, and check again.
#
# On this machine a busy share may differ from the clock: its cores are slower or faster, and other programs run. So no grade depends on it.
#
# </details>
#
# **09.2** Files far away ▸

# %% tags=["nbval-ignore-output"]
far = challenge.job("far")
print(far)
try_it("09.2", far.guide)

# %% [markdown]
# <details><summary>The guide's pipeline, as a start</summary>
#
# ```python
# def mine_far(files):
#     def decoded(jpeg, label):
#         return challenge.decode(jpeg), label
#
#     photos = files.flat_map(challenge.fetch).map(decoded, num_parallel_calls=tf.data.AUTOTUNE)
#     return photos.batch(16).prefetch(tf.data.AUTOTUNE)
# ```
#
# </details>

# %% tags=["stub"]
def mine_far(files):
    ...  # your code

# %% tags=["solution"]
def mine_far(files):
    def decoded(jpeg, label):
        return challenge.decode(jpeg), label

    fetched = files.interleave(challenge.fetch, cycle_length=16, num_parallel_calls=16)
    return fetched.map(decoded, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)

# %%
try_it("09.2", mine_far)
check("09.2", mine_far)

# %% tags=["nbval-ignore-output"]
challenge.judge("far", mine_far)

# %% [markdown]
# **09.3** Many small records

# %% tags=["nbval-ignore-output"]
small = challenge.job("small")
print(small)
try_it("09.3", small.guide)

# %% [markdown]
# <details><summary>The guide's pipeline, as a start</summary>
#
# ```python
# def mine_small(files):
#     readings = tf.data.TFRecordDataset(files).map(challenge.parse, num_parallel_calls=tf.data.AUTOTUNE)
#     return readings.batch(256).prefetch(tf.data.AUTOTUNE)
# ```
#
# </details>

# %% tags=["stub"]
def mine_small(files):
    ...  # your code

# %% tags=["solution"]
def mine_small(files):
    batches = tf.data.TFRecordDataset(files).batch(256)
    return batches.map(challenge.parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

# %%
try_it("09.3", mine_small)
check("09.3", mine_small)

# %% tags=["nbval-ignore-output"]
challenge.judge("small", mine_small)

# %% [markdown]
# **09.4** Expensive decoding, a random augmentation, and 600 MB

# %% tags=["nbval-ignore-output"]
costly = challenge.job("costly")
print(costly)
try_it("09.4", costly.guide)

# %% [markdown]
# <details><summary>The guide's pipeline, as a start</summary>
#
# ```python
# def mine_costly(files):
#     def load(path, label):
#         return challenge.augment(challenge.decode(tf.io.read_file(path))), label
#
#     return files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)
# ```
#
# </details>

# %% tags=["stub"]
def mine_costly(files):
    ...  # your code

# %% tags=["solution"]
def mine_costly(files):
    def decoded(path, label):
        return tf.cast(tf.round(challenge.decode(tf.io.read_file(path))), tf.uint8), label

    def augmented(image, label):
        return challenge.augment(image), label

    kept = files.map(decoded, num_parallel_calls=tf.data.AUTOTUNE).cache()
    return kept.map(augmented, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)

# %%
try_it("09.4", mine_costly)
check("09.4", mine_costly)

# %% tags=["nbval-ignore-output"]
challenge.judge("costly", mine_costly)

# %% [markdown]
# Try the remedy of one job in another job. What does `check` say?
#
# ## Your own photos, and a real network
#
# So far the accelerator was modelled. Here a small network really trains, on the device that TensorFlow finds. (Without a GPU it takes the same cores as the pipeline.) Name a folder that has one sub-folder of JPEG files for each class, such as `"~/pictures"`, or a TFDS set that is prepared on this disk, such as `"tf_flowers"`. Then run the cell again.

# %% tags=["nbval-ignore-output"]
MY_PHOTOS = "lab_photos"
own = photos.load(MY_PHOTOS)
own = own.take(min(len(own), 160))
own_best = ladder.best(own)
ladder.fill(own_best, own)
network = accelerators.real(classes=len(own.classes))
labkit.measure({"guide": ladder.guide(own), "best": own_best}, network, steps=4, repeats=5)

# %% [markdown]
# ## Your pipeline
#
# The last step of your file: tf.data's own tuning, and threads.

# %% tags=["nbval-ignore-output"]
my_pipeline.step("09")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("09")

# %% [markdown]
# All your predictions, in all notebooks that you ran here:

# %% tags=["nbval-ignore-output"]
predictions.summary()

# %% [markdown]
# ## Without the lab
#
# At work, in plain TensorFlow: how much could *any* change of the pipeline gain? Train on one batch again and again, which needs no pipeline. The rest of the time is waiting.

# %% tags=["nbval-ignore-output"]
from time import perf_counter, sleep


def seconds(dataset, train, steps=8):
    batches = iter(dataset.repeat())
    train(next(batches))  # the first batch is slow
    start = perf_counter()
    for _ in range(steps):
        train(next(batches))
    return perf_counter() - start


data, train = ladder.guide(album), lambda batch: sleep(0.02)
print(f"busy {seconds(data.take(1).cache(), train) / seconds(data, train):.0%} of the time")

# %% [markdown]
# ## Recap
#
# A scoreboard says what helped *one* job. In the challenge, waiting for far files needed many files at once, many small records needed fewer calls, and expensive decoding needed a cache that fits. Each of these remedies gains nothing in the other two jobs.
#
# ## In practice
#
# - Look at the timeline first, then choose. Leave out what gains nothing on the machine where you train: it only makes your pipeline longer.
# - Count the memory of caches and buffers for the whole set, before you start.
#
# **Next:** [10 Diagnose a sick pipeline](10_diagnose_the_patient.ipynb): the timeline first. A real network trains in [11](11_train_a_real_model.ipynb), and a cluster is planned in [14](14_scale_out.ipynb).
