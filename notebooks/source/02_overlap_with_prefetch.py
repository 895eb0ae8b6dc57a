# %% [markdown]
# # Overlap with prefetch
#
# **You will** let the processor prepare the next batch while the accelerator trains on this one, predict what that gains, and measure it.
#
# **You will learn** how producer and consumer overlap, what the depth of the buffer is for, what `AUTOTUNE` decides, and when prefetch gains nothing.
#
# **You need** notebook 01. No GPU. About 30 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labkit import accelerators, explorers, photos, plain, predictions, simulate, storage

# %% [markdown]
# ## The job so far
#
# The naive pipeline of notebook 01. `plain` sets the two options of that notebook, which keep tf.data from rewriting and tuning it.

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
naive = plain(files.map(load).batch(32))
print(album.summary())

# %% [markdown]
# ## Predict
#
# Two numbers are enough for a prediction: how long loading a batch takes, and how long training on it takes. Measure the first with a consumer that needs next to no time. The second is published.

# %% tags=["nbval-ignore-output"]
v100 = accelerators.modelled("V100")
probe = labkit.record(naive, accelerators.modelled(step_ms=1), steps=8)
load_ms = labkit.Timeline(probe).wait_ms
train_ms = v100.step_ns(32) / 1e6
print(f"load {load_ms:.0f} ms, train {train_ms:.0f} ms per batch of 32")

# %% [markdown]
# Without overlap a step takes the sum of both. With perfect overlap it takes the longer one. The ratio is the best that prefetch can gain, and it is never more than 2:
#
# $$\text{speed-up} \le \frac{\text{load} + \text{train}}{\max(\text{load}, \text{train})}$$
#
# Commit yourself before you compute it: put your number in place of this one.

# %% tags=["nbval-ignore-output"]
predictions.commit("02.gain", 1.3, unit="times")

# %% tags=["nbval-ignore-output"]
bound = (load_ms + train_ms) / max(load_ms, train_ms)
print(f"the formula allows {bound:.2f} times")

# %% [markdown]
# ## Build
#
# One word, at the very end:

# %%
overlapped = plain(files.map(load).batch(32).prefetch(1))

# %% [markdown]
# `prefetch(1)` starts a thread of its own, the *producer*. It runs everything before it in the pipeline and puts finished batches into a buffer that holds one. The *consumer*, your training loop, takes batches out. Neither waits for the other unless the buffer is full or empty.
#
# ## Run
#
# Both in turn, round by round, on the same photos in the same order. Then your number, beside that of a *model* which knows only the costs of the probe and simulates both jobs. (A number changed after its measurement was shown is not kept; restart the kernel to predict anew.)

# %% tags=["nbval-ignore-output"]
result = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, v100, steps=6, repeats=5)
result

# %% tags=["nbval-ignore-output"]
gain = result.speedup("prefetch(1)")
fitted = simulate.fit(probe)  # the costs of the probe; nothing of the two runs above
before, ahead = fitted.predict(train=train_ms), fitted.predict(train=train_ms, prefetch=1)
predictions.review("02.gain", model=ahead.images_per_s / before.images_per_s, measured=gain)

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("naive"), result.trace("prefetch(1)"), labels=("naive", "prefetch(1)"), steps=4)

# %% [markdown]
# ## Explain
#
# Above, the lanes take turns. Below, a *Prefetch* lane appears, the producer; with its workers it is busy under the train steps, and each step starts as soon as the longer of the two is done.
#
# Two things to look for. If a gap remains before nearly every step, loading is longer than training, and the *producer* never pauses: it is the bottleneck now. If only some remain, single batches were slow; see *How deep a buffer?* below. If no gap remains, the *accelerator* never pauses, and the producer rests whenever its buffer is full. In both cases one side is busy all the time. That is the sign of good overlap: the bottleneck never waits.
#
# Did the measured gain reach the formula? Often not quite: the producer shares the cores with everything else on the machine. It can also come out a little above: the first steps after the warm-up find the buffer already filled.
#
# Check the graph, not only the clock. The naive one must have no prefetch, and the other exactly the one that was written:

# %%
for name in result:
    prefetches = [node for node in result.trace(name).run.graph if node.endswith("Prefetch")]
    print(name, prefetches)

# %% [markdown]
# ## When prefetch gains little
#
# The formula is largest where both times are equal. If one of them is much longer than the other, there is little to hide behind. Feed an accelerator that needs only a tenth of the loading time:

# %% tags=["nbval-ignore-output"]
quick = accelerators.modelled(step_ms=round(load_ms / 10), name="quick")
quick_bound = (load_ms + load_ms / 10) / load_ms
print(f"load {load_ms:.0f} ms, train {load_ms / 10:.0f} ms: at most {quick_bound:.2f} times")

# %% tags=["nbval-ignore-output"]
fast = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, quick, steps=6, repeats=3)
fast

# %% [markdown]
# Once training is shorter than loading, a faster accelerator only waits more, and overlap has less to hide. Prefetch removes waiting *in turn*; it does not make loading faster. That is what the later techniques do: many files at once, parallel maps, caches, vectorised maps, packed records.
#
# ## How deep a buffer?
#
# Does a buffer of two, or eight, gain more than one? Ask the model first:

# %% tags=["nbval-ignore-output"]
explorers.explore("02", position="prefetch(1), images vary")

# %% [markdown]
# If every batch takes the same time, no: a producer that is too slow leaves any buffer empty, and one that is fast enough fills any buffer. Depth is for *variation*. Let every eighth batch take much longer to load, as a busy disk might. A stand-in for a batch is enough here: one file read, 32 numbers out, no decoding. On average it is fast enough (150 ms shared by eight batches is less than 30 ms each); otherwise no depth would help.

# %%
busy_disk = storage.Storage("busy disk", 150, 1000, source="made up for this lesson")  # ms, MB/s


def hiccup(step, path):
    data = tf.cond(step % 8 == 7, lambda: busy_disk.read(path), lambda: tf.io.read_file(path))
    return tf.fill([32, 1], tf.strings.length(data))


def bursty(depth):
    return plain(files.enumerate().map(lambda step, item: hiccup(step, item[0])).prefetch(depth))

# %% tags=["nbval-ignore-output"]
steady = accelerators.modelled(step_ms=30)
depths = labkit.measure({f"prefetch({d})": bursty(d) for d in (1, 4, 8)}, steady, steps=18, repeats=3)
depths

# %% [markdown]
# A pause of 150 ms needs five batches in store to pass unnoticed, since the accelerator eats one every 30 ms. Deeper than that gains nothing more, and every place in the buffer costs memory: a batch of 32 images of 224×224×3 float32 values is 19 MB.

# %% tags=["nbval-ignore-output"]
shallow, deep = depths.trace("prefetch(1)"), depths.trace("prefetch(8)")
labkit.show(shallow, deep, labels=("prefetch(1)", "prefetch(8)"), steps=16)

# %% [markdown]
# ## AUTOTUNE
#
# `prefetch(tf.data.AUTOTUNE)` lets the prefetch choose its depth while the job runs: it doubles its buffer when the consumer finds it empty after it had been full.

# %%
tuned = plain(files.map(load).batch(32).prefetch(tf.data.AUTOTUNE))

# %% tags=["nbval-ignore-output"]
choice = labkit.measure({"prefetch(1)": overlapped, "prefetch(AUTOTUNE)": tuned}, v100, steps=5, repeats=3)
choice

# %% [markdown]
# With batches that all take about the same time there is little to tune. AUTOTUNE is the right default in practice all the same: the table shows whether it costs anything here, and it adapts where your guess would not.
#
# ## The place matters
#
# Only what stands *before* the prefetch runs ahead. In `files.prefetch(32).map(load).batch(32)` the file names are prefetched, and names are not what the accelerator waits for:

# %% tags=["nbval-ignore-output"]
misplaced = plain(files.prefetch(32).map(load).batch(32))
variants = {"naive": naive, "prefetch first": misplaced, "prefetch last": overlapped}
places = labkit.measure(variants, v100, steps=5, repeats=3)
places

# %% [markdown]
# The first two rows should be alike: where nothing can overlap, nothing is gained.

# %% [markdown]
# ## Exercises
#
# **02.1** Write `overlapped_batches(dataset)`: the same batches, two of them ready ahead of the consumer, in one buffer. One line.

# %% tags=["stub"]
def overlapped_batches(dataset):
    ...  # your code

# %% tags=["solution"]
def overlapped_batches(dataset):
    return dataset.prefetch(2)

# %%
labkit.try_it("02.1", overlapped_batches)
labkit.check("02.1", overlapped_batches)

# %% [markdown]
# **02.2** Write `speedup(load_ms, train_ms)`: how many times faster perfect overlap is than none. One line.

# %% tags=["stub"]
def speedup(load_ms, train_ms):
    ...  # your code

# %% tags=["solution"]
def speedup(load_ms, train_ms):
    return (load_ms + train_ms) / max(load_ms, train_ms)

# %%
labkit.try_it("02.2", speedup)
labkit.check("02.2", speedup)

# %% [markdown]
# **02.3** Write `buffer_mb(depth, batch, height, width)`: the memory, in MB (10^6 bytes), of a prefetch buffer of `depth` batches of float32 RGB images. One line.

# %% tags=["stub"]
def buffer_mb(depth, batch, height, width):
    ...  # your code

# %% tags=["solution"]
def buffer_mb(depth, batch, height, width):
    return depth * batch * height * width * 3 * 4 / 1e6

# %%
labkit.try_it("02.3", buffer_mb)
labkit.check("02.3", buffer_mb)

# %% [markdown]
# ## Recap
#
# You predicted the gain of overlap from two numbers and measured it. You saw producer and consumer work at the same time, found the bottleneck as the side that never pauses, and saw what a deeper buffer is good for: variation, not speed. You put a prefetch in the wrong place and saw nothing happen.
#
# ## In practice
#
# - End every pipeline with `prefetch(tf.data.AUTOTUNE)`. It is the cheapest improvement there is, and the upper bound is 2.
# - After prefetch, look which side never pauses. If it is the producer, make loading faster; if it is the accelerator, stop: the input pipeline is good enough.
# - A buffer on the *host* hides loading. Copying to a GPU can be hidden, too: `tf.data.experimental.prefetch_to_device` keeps batches ready on the device.
#
# **Next:** [03 Interleave many files](03_interleave_many_files.ipynb): one storage, many files at once.
