# %% [markdown]
# # Overlap with prefetch
#
# **You will** let the processor load the next batch while the accelerator trains on this one, predict what that gains, and build it by hand.
#
# **You will learn** how producer and consumer overlap, when a deeper buffer helps, what `AUTOTUNE` decides, and when prefetch gains next to nothing.
#
# **You need** notebook 01. No GPU. About 30 minutes. Special words are in the [glossary](../docs/glossary.md). **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labkit import accelerators, buffer_chart, photos, plain, simulate, storage

# %% [markdown]
# ## The idea ▸
#
# A thread loads the next batch during the train step.

# %%
idea("02")

# %% [markdown]
# Your ladder so far. Once you have measured in 01 and predicted below, run this cell again: your prediction becomes the dotted bar.

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("02")

# %% [markdown]
# ## Predict ▸
#
# The naive pipeline of notebook 01, and two numbers about it. Loading is measured with a consumer that needs almost no time; the train step is published.

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
v100 = accelerators.modelled("V100")
probe = labkit.record(naive, accelerators.modelled(step_ms=1), steps=8)
load_ms = labkit.Timeline(probe).wait_ms
train_ms = v100.step_ns(32) / 1e6
print(album.summary())
print(f"load {load_ms:.0f} ms, train {train_ms:.0f} ms per batch of 32")

# %% [markdown]
# How many times faster will the job be on this machine if both happen at once? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("02.gain", ..., unit="times")

# %% [markdown]
# ## Build ▸
#
# It takes one line, at the very end:

# %%
overlapped = plain(files.map(load).batch(32).prefetch(1))
print(*labkit.recorder.graph(overlapped), sep="\n")

# %% [markdown]
# `prefetch(1)` starts a thread, the *producer*. It runs everything before it in the pipeline, and puts finished batches into a *buffer* with room for one. Your training loop, the *consumer*, takes them out. The producer waits only if the buffer is full, the consumer only if it is empty.
#
# ## Run ▸

# %% tags=["nbval-ignore-output"]
result = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, v100, steps=12, repeats=5)
result

# %% tags=["nbval-ignore-output"]
fitted = simulate.fit(probe)  # a model: it knows the times of the probe, and nothing of the runs above
before, ahead = fitted.predict(train=train_ms), fitted.predict(train=train_ms, prefetch=1)
gain = result.speedup("prefetch(1)")
predictions.review("02.gain", model=ahead.images_per_s / before.images_per_s, measured=gain)

# %% [markdown]
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
labkit.show(result.trace("naive"), result.trace("prefetch(1)"), labels=("naive", "prefetch(1)"), steps=4)

# %% [markdown]
# ## Explain ▸
#
# In the upper timeline accelerator and threads take turns. In the lower one, the producer works *under* the train steps. In turn, a step takes the sum of both times; at once, it takes the longer one:
#
# $$\text{speed-up} \le \frac{\text{load} + \text{train}}{\max(\text{load}, \text{train})}$$
#
# So overlap never gains more than a factor of two. Which side limits the job now?
#
# - A gap before nearly every step: the producer never pauses. Make loading faster.
# - No gap: the accelerator never pauses. The input pipeline is good enough.
# - Short gaps, and the accelerator is busy for more than nine tenths: both take about as long, and neither alone is the limit.
# - A gap now and then: some batches take longer than others. See *How deep a buffer?*
#
# <details><summary>Why the measured gain is not exactly the formula</summary>
#
# The producer shares the cores with other programs, so it is a little slower than alone. And the first steps after the warm-up find the buffer filled already, which adds a little.
#
# </details>
#
# ## A faster accelerator
#
# The same two pipelines now feed an accelerator that needs only a tenth of the loading time for a step. How many times faster does prefetch make this job?

# %% tags=["nbval-ignore-output"]
predictions.commit("02.quick", ..., unit="times")

# %% tags=["nbval-ignore-output"]
quick = accelerators.modelled(step_ms=round(load_ms / 10), name="quick")
fast = labkit.measure({"naive": naive, "prefetch(1)": overlapped}, quick, steps=6, repeats=5)
fast

# %% tags=["nbval-ignore-output"]
before, ahead = (fitted.predict(train=load_ms / 10, prefetch=depth) for depth in (0, 1))
predictions.review("02.quick", model=ahead.images_per_s / before.images_per_s, measured=fast.speedup("prefetch(1)"))

# %% [markdown]
# The faster the accelerator, the less there is to hide: prefetch lets both sides work at the same time, but it makes loading no faster. The next notebooks do.
#
# ## How deep a buffer?
#
# Is a buffer of eight batches better than one of one? Ask the model first:

# %% tags=["nbval-ignore-output"]
slower = round(load_ms / 8 * 1.25, 1)  # a batch of four loads in an eighth of the time of 32
explorers.explore("02", trace=probe, position="prefetch(1), images vary", batch_size=4, train_ms=slower)

# %% [markdown]
# If all batches take the same time, depth gains nothing: a slow producer leaves every buffer empty, and a fast one fills every buffer. A deeper buffer helps if the times *vary*. Here every eighth batch is 150 ms late, as from a disk that is sometimes busy. (To keep it small, a batch is only 32 copies of its number.)

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
# A pause of 150 ms is hidden if five batches are ready, because the accelerator takes one every 30 ms. The chart shows the batches that are ready:

# %% tags=["nbval-ignore-output"]
shallow, deep = depths.trace("prefetch(1)"), depths.trace("prefetch(8)")
buffer_chart.draw({1: shallow, 8: deep})

# %% [markdown]
# ## AUTOTUNE
#
# With `prefetch(tf.data.AUTOTUNE)` the buffer finds its own depth while the job runs ([AUTOTUNE](../docs/glossary.md#autotune)). It begins with one. Whenever the consumer finds it empty after it was full, the depth doubles:

# %% tags=["nbval-ignore-output"]
tuned = labkit.record(bursty(tf.data.AUTOTUNE), steady, warmup=1, steps=40)
buffer_chart.draw({"AUTOTUNE": tuned})

# %% [markdown]
# After a long gap the buffer is deeper, so the next late batch leaves a shorter one, until there is none.
#
# <details><summary>What AUTOTUNE costs</summary>
#
# Memory. The buffer never becomes smaller again, and by default the buffers of a pipeline may take half of the memory that is free at the start (`options.autotune.ram_budget` changes it). People have run out of memory (tensorflow issue 29213, horovod pull request 4296). A batch of 32 photos of 224×224×3 float32 values takes 19 MB. If a few of them are too much, write a number: `prefetch(2)`.
#
# `plain` switches off the tuner that looks at the whole pipeline. This small rule of prefetch itself works all the same.
#
# </details>
#
# <details><summary>Why at the end?</summary>
#
# Only the stages *before* a prefetch run ahead. `files.prefetch(32).map(load).batch(32)` loads file names ahead, and the accelerator does not wait for names.
#
# </details>
#
# ## Exercises ▸
#
# **02.1** Three jobs with a buffer of one batch. What does each need?

# %% tags=["nbval-ignore-output"]
read("02.1")

# %% tags=["stub"]
answer = ...  # click, or write {"A": "deeper buffer", "B": ..., "C": ...}

# %% tags=["solution"]
answer = {"A": "faster producer", "B": "nothing", "C": "deeper buffer"}

# %%
check("02.1", answer)

# %% [markdown]
# **02.2** Build it yourself, for anything that can be iterated: write a generator `prefetched(iterable, depth)`. A `threading.Thread` puts the elements into a `queue.Queue(depth)`, and your function yields what it takes out.
#
# 1. The same elements come, in the same order; any element is allowed, `None` too.
# 2. While the consumer holds an element, up to `depth` others are loaded; your thread may hold one more in its hand.
# 3. An error of the iterable reaches the consumer, at its place.
# 4. When the consumer stops (`finally:` in your generator), the thread ends, even if it waits at the full queue.
#
# About 20 lines. `check` tells you which of these is missing; `try_it` draws what is loaded ahead.

# %% tags=["stub"]
def prefetched(iterable, depth):
    ...  # your code

# %% tags=["solution"]
def prefetched(iterable, depth):
    import queue
    import threading

    ready, stop = queue.Queue(depth), threading.Event()

    def load():
        try:
            for element in iterable:
                ready.put(("element", element))
                if stop.is_set():
                    return
            ready.put(("end", None))
        except Exception as error:
            ready.put(("error", error))

    threading.Thread(target=load, daemon=True).start()
    try:
        while True:
            kind, content = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise content
            yield content
    finally:
        stop.set()
        if not ready.empty():
            ready.get()  # room for what the thread still holds in its hand

# %%
try_it("02.2", prefetched)
check("02.2", prefetched)

# %% [markdown]
# ## Your pipeline

# %% tags=["nbval-ignore-output"]
my_pipeline.step("02")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("02")

# %% [markdown]
# ## Without the lab
#
# At work, in plain TensorFlow: what is the most that overlap can gain? Time the pipeline alone, and the model on one batch again and again. Here `train` stands for your train step.

# %% tags=["nbval-ignore-output"]
from time import perf_counter, sleep


def seconds(work, times=4):
    start = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - start) / times


batches, train = iter(naive), lambda batch: sleep(0.05)
one = next(batches)
load_s, train_s = seconds(lambda: next(batches)), seconds(lambda: train(one))
print(f"at most {(load_s + train_s) / max(load_s, train_s):.2f} times; limit: {'load' if load_s > train_s else 'train'}")

# %% [markdown]
# ## Recap
#
# Prefetch hides the shorter of load and train behind the longer one. The side that never pauses is the limit. Depth helps only where times vary.
#
# ## In practice
#
# - End a pipeline with `prefetch(tf.data.AUTOTUNE)`, and know how much memory the buffer may take. It is the cheapest improvement.
# - A buffer on a GPU hides the copying to the GPU as well: `tf.data.experimental.prefetch_to_device`.
#
# **Next:** [03 Interleave many files](03_interleave_many_files.ipynb): fetch many files at the same time.
