# %% [markdown]
# # Overlap with prefetch
#
# **You will** let the processor prepare the next batch while the accelerator trains on the current batch. You will predict what this gains, and measure it.
#
# **You will learn** how producer and consumer overlap, what the depth of the buffer is for, what `AUTOTUNE` decides, and when prefetch gains nothing.
#
# **You need** notebook 01. No GPU. About 45 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labkit import accelerators, buffer_chart, photos, plain, simulate, storage

# %% [markdown]
# ## The idea
#
# With prefetch, the processor loads the next batch while the accelerator trains on the current batch.

# %%
idea("02")

# %% [markdown]
# ## The job so far
#
# This is the naive pipeline of notebook 01. `plain` sets the two options of that notebook, so tf.data neither rewrites nor tunes the pipeline.

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
# For a prediction you need two numbers: how long loading a batch takes, and how long training on it takes. We measure the loading time with a consumer that needs almost no time. The training time is published.

# %% tags=["nbval-ignore-output"]
v100 = accelerators.modelled("V100")
probe = labkit.record(naive, accelerators.modelled(step_ms=1), steps=8)
load_ms = labkit.Timeline(probe).wait_ms
train_ms = v100.step_ns(32) / 1e6
print(f"load {load_ms:.0f} ms, train {train_ms:.0f} ms per batch of 32")

# %% [markdown]
# Without overlap a step takes the sum of both times. With perfect overlap it takes the longer time. The ratio is the most that prefetch can gain:
#
# $$\text{speed-up} \le \frac{\text{load} + \text{train}}{\max(\text{load}, \text{train})}$$
#
# Compute this ratio for your two numbers. Then predict how many times faster the job will really be on this machine, and replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("02.gain", ..., unit="times")

# %% [markdown]
# ## Build
#
# `prefetch` comes at the very end:

# %%
overlapped = plain(files.map(load).batch(32).prefetch(1))
print(*labkit.recorder.graph(overlapped), sep="\n")

# %% [markdown]
# `prefetch(1)` starts a new thread, the *producer*. The producer runs everything before it in the pipeline and puts finished batches into a *buffer*. This buffer has room for one batch. The *consumer*, your training loop, takes batches out of the buffer. The producer waits only if the buffer is full, and the consumer waits only if the buffer is empty.
#
# ## Run
#
# We measure both pipelines in turn, round by round, on the same photos in the same order. Then we compare your number, the formula, and a *model*: a simulation of both jobs that knows only the times of the run `probe`. (A number that you change after you saw the measurement is not kept. Restart the kernel to predict again.)

# %% tags=["nbval-ignore-output"]
result = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, v100, steps=6, repeats=5)
result

# %% tags=["nbval-ignore-output"]
gain = result.speedup("prefetch(1)")
print(f"the formula allows {(load_ms + train_ms) / max(load_ms, train_ms):.2f} times")
fitted = simulate.fit(probe)  # the times of the probe, and nothing of the two runs above
before, ahead = fitted.predict(train=train_ms), fitted.predict(train=train_ms, prefetch=1)
predictions.review("02.gain", model=ahead.images_per_s / before.images_per_s, measured=gain)

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("naive"), result.trace("prefetch(1)"), labels=("naive", "prefetch(1)"), steps=4)

# %% [markdown]
# ## Explain
#
# In the upper timeline the accelerator and the threads take turns. In the lower timeline threads also work *under* the train steps: the producer prepares the next batch.
#
# Which side limits the job now?
#
# - A gap before nearly every step: loading takes longer than training. The producer never pauses; it is the bottleneck.
# - No gap: training takes longer. The accelerator never pauses, and the producer waits whenever its buffer is full.
# - A few gaps: some batches took longer than others. See *How deep a buffer?* below.
#
# With good overlap, one of the two sides is always busy.
#
# The measured gain is often a little smaller than the formula, because the producer shares the cores with other programs. It can also be a little larger, because the first steps after the warm-up find the buffer already filled.
#
# Check the graph as well as the time. The naive pipeline must have no prefetch:

# %%
for name in result:
    print(name, "runs with prefetch:", "Root::Prefetch" in result.trace(name).run.graph)

# %% [markdown]
# ## When prefetch gains little
#
# The formula is largest if both times are equal. If loading takes much longer than training, there is little time to hide. Here is an accelerator that needs only a tenth of the loading time:

# %% tags=["nbval-ignore-output"]
quick = accelerators.modelled(step_ms=round(load_ms / 10), name="quick")
print(f"load {load_ms:.0f} ms, train {load_ms / 10:.0f} ms: at most {(load_ms + load_ms / 10) / load_ms:.2f} times")
fast = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, quick, steps=6, repeats=5)
fast

# %% [markdown]
# The possible gain is a tenth, and the loading time itself varies about as much. So the table may end *undecided* after 11 rounds, or even show a median above the formula. Only the interval says how sure the number is.
#
# If training is shorter than loading, a faster accelerator only waits longer. Prefetch lets both sides work at the same time, but it does not make loading faster. The next notebooks make loading faster, with many files at once, parallel maps, caches, vectorized maps and packed records.
#
# ## How deep a buffer?
#
# Does a buffer of two batches, or eight, gain more than a buffer of one? Ask the model first. It takes the loading time of your photos, and an accelerator a little slower:

# %% tags=["nbval-ignore-output"]
slower = round(load_ms / 8 * 1.25, 1)  # a batch of four loads in an eighth of the time of 32
explorers.explore("02", trace=probe, position="prefetch(1), images vary", batch_size=4, train_ms=slower)

# %% [markdown]
# If every batch takes the same time, a deeper buffer gains nothing. A slow producer leaves every buffer empty, and a fast producer fills every buffer. A deeper buffer helps if the times *vary*.
#
# In the next example every eighth batch takes 150 ms, as on a disk that is sometimes busy. To keep the example small, a batch here is only 32 copies of its number, and `elements/s` counts these copies. `enumerate` numbers the elements, and `late` uses only the number. `delayed` returns the batch, 150 ms later if `when` is true. On average a batch takes less than the train step of 30 ms; otherwise no depth would help.
#
# A pause of 150 ms is invisible only if five batches are ready, because the accelerator takes one every 30 ms. Four batches cover 120 of the 150 ms, so expect a short gap with `prefetch(4)`.

# %%
def late(number, _):
    batch = tf.fill([32, 1], number)
    return storage.delayed(batch, 150, when=number % 8 == 7)


def bursty(depth):
    return plain(files.enumerate().map(late).prefetch(depth))

# %% tags=["nbval-ignore-output"]
steady = accelerators.modelled(step_ms=30)
variants = {"prefetch(1)": bursty(1), "prefetch(4)": bursty(4), "prefetch(8)": bursty(8)}
depths = labkit.measure(variants, steady, steps=18, repeats=5)
depths

# %% [markdown]
# Compare the elements/s and the column *wait*, which is a mean. Then unfold *how this was measured* and compare the busy shares and the column *longest wait*. A *median* wait, as in the words below a timeline, cannot show the difference: seven of eight batches arrive in time with every depth, and only the eighth batch is late.
#
# A buffer that is deep enough gains nothing from more depth, and every place in the buffer costs memory: a batch of 32 images of 224×224×3 float32 values has 19 MB (exercise 02.3).
#
# Below are the timeline of both jobs and a chart of the batches that are ready in the buffer. During each long pause the accelerator takes one batch after the other, and no new batch arrives. The buffer of one batch is soon empty, that of eight is not. (In the chart, time runs across, and the height is the number of finished batches in the buffer.)

# %% tags=["nbval-ignore-output"]
shallow, deep = depths.trace("prefetch(1)"), depths.trace("prefetch(8)")
labkit.show(shallow, deep, labels=("prefetch(1)", "prefetch(8)"), steps=16)

# %% tags=["nbval-ignore-output"]
buffer_chart.draw({1: shallow, 8: deep})

# %% [markdown]
# ## AUTOTUNE
#
# With `prefetch(tf.data.AUTOTUNE)` the buffer chooses its own depth while the job runs ([AUTOTUNE](../docs/glossary.md#autotune)). `plain` turns off the tuner of tf.data, which looks at the whole pipeline. But each prefetch also has a small rule of its own, and this rule still works. It begins with a depth of one. Whenever the consumer finds the buffer empty after it was full, the rule doubles the depth. Here the rule has something to do, because every eighth batch is late:

# %% tags=["nbval-ignore-output"]
tuned = labkit.record(bursty(tf.data.AUTOTUNE), steady, warmup=1, steps=40)
buffer_chart.draw({"AUTOTUNE": tuned})

# %% [markdown]
# After a long gap the buffer becomes deeper. The next late batch then finds more batches ready, so its gap is shorter, until there is no gap. AUTOTUNE is a good default, because it adapts when batches vary and you need not know the right depth.
#
# AUTOTUNE has a price: memory. The rule never makes a buffer smaller again. By default the buffers of a pipeline may take half of the memory that is free at the start (`options.autotune.ram_budget` changes this limit), and your job may need that memory later. People have run out of memory with AUTOTUNE (tensorflow issue 29213, horovod pull request 4296). Compute with exercise 02.3 what your buffer may hold. If it is too much, replace AUTOTUNE by a number: `prefetch(2)`.
#
# ## The place matters
#
# Only the stages *before* the prefetch run ahead. In `files.prefetch(32).map(load).batch(32)` the file names are prefetched, but the accelerator does not wait for names:

# %% tags=["nbval-ignore-output"]
misplaced = plain(files.prefetch(32).map(load).batch(32))
variants = {"naive": naive, "prefetch first": misplaced, "prefetch last": overlapped}
places = labkit.measure(variants, v100, steps=5, repeats=5)
places

# %% [markdown]
# In the first two rows nothing expensive can overlap, so a prefetch of names cannot gain much. Only the last row prefetches batches.
#
# ## Exercises
#
# **02.1** Write `overlapped_batches(dataset)`. It returns the same batches, and one buffer holds up to two batches for the consumer. One line.

# %% tags=["stub"]
def overlapped_batches(dataset):
    ...  # your code

# %% tags=["solution"]
def overlapped_batches(dataset):
    return dataset.prefetch(2)

# %%
try_it("02.1", overlapped_batches)
check("02.1", overlapped_batches)

# %% [markdown]
# **02.2** Write `speedup(load_ms, train_ms)`. It returns how many times faster a job with perfect overlap is than a job without overlap. One line.

# %% tags=["stub"]
def speedup(load_ms, train_ms):
    ...  # your code

# %% tags=["solution"]
def speedup(load_ms, train_ms):
    return (load_ms + train_ms) / max(load_ms, train_ms)

# %%
try_it("02.2", speedup)
check("02.2", speedup)

# %% [markdown]
# **02.3** Write `buffer_mb(depth, batch, height, width)`. It returns the memory, in MB (10^6 bytes), of a prefetch buffer of `depth` batches of float32 RGB images. One line.

# %% tags=["stub"]
def buffer_mb(depth, batch, height, width):
    ...  # your code

# %% tags=["solution"]
def buffer_mb(depth, batch, height, width):
    return depth * batch * height * width * 3 * 4 / 1e6

# %%
try_it("02.3", buffer_mb)
check("02.3", buffer_mb)

# %% [markdown]
# ## Recap
#
# You predicted the gain of overlap from two numbers and measured it. You saw producer and consumer work at the same time, and you found the bottleneck: the side that never pauses. You saw that a deeper buffer helps only if times vary, and how AUTOTUNE finds a depth. You put a prefetch in the wrong place and gained nothing from it.
#
# ## In practice
#
# - End a pipeline with `prefetch(tf.data.AUTOTUNE)`, and know how much memory the buffer may need (exercise 02.3). It is the cheapest improvement, and it gains at most a factor of 2.
# - After prefetch, look which side never pauses. If it is the producer, make loading faster. If it is the accelerator, stop: the input pipeline is good enough.
# - A buffer in the computer's memory hides the loading. A buffer on a GPU hides the copying to the GPU as well: see `tf.data.experimental.prefetch_to_device`.
#
# **Next:** [03 Interleave many files](03_interleave_many_files.ipynb): read many files at the same time.
