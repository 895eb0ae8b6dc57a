# %% [markdown]
# # Measure a naive pipeline
#
# **You will** measure the plainest pipeline there is, find where its time goes, and measure it again to see how far two equal runs differ.
#
# **You will learn** why tf.data is not naive by default, what the busy share says, and when a difference between two runs is one.
#
# **You need** notebook 00. No GPU. About 30 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labkit import accelerators, explorers, photos, predictions, simulate, storage

# %% [markdown]
# ## The job
#
# The same chain as in notebook 00: open and read a file, decode, float, resize, augment, clip; 32 photos to a batch. The consumer is a modelled V100: its step time is published, and it is stated below.

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
# Write `files.map(load).batch(32)`, and tf.data does not run that. Before it starts, it rewrites the graph. What it does depends on the pipeline: here it fuses map and batch into one node, `MapAndBatch`, which prepares the next batch on its own while the consumer is busy; elsewhere it adds a `Prefetch` at the end. Either way the job already overlaps. That is helpful in production. In a lesson it is a trap: whoever compares this "naive" with "prefetch" compares overlap with overlap, and concludes that prefetch gains nothing.
#
# Do not believe it, measure it. The profiler sees which nodes really run:

# %%
as_it_comes = files.map(load).batch(32)
for node in labkit.recorder.graph(as_it_comes):
    print(node)

# %% [markdown]
# You wrote `map` and `batch`; what runs is `MapAndBatch`, and it works ahead. Two options switch the rewriting off:

# %%
def plain(dataset):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


naive = plain(files.map(load).batch(32))

# %%
for node in labkit.recorder.graph(naive):
    print(node)

# %% [markdown]
# Now the graph that runs is the graph that was written. (A node that had nothing to do meanwhile, such as the full list of names, is not shown.) A recording keeps the options that it ran with, so that nobody has to remember them:

# %%
probe = labkit.record(naive, accelerators.modelled(step_ms=1), steps=6, name="naive")
for option, value in probe.run.options.items():
    print(option, "=", value)

# %% [markdown]
# ## Predict
#
# The V100 trains 328 images a second. A naive pipeline opens, reads, decodes and trains in turn. For what share of the time will this V100 be busy, fed by this machine? Write your share, 0 to 1, in place of this one.

# %% tags=["nbval-ignore-output"]
predictions.commit("01.busy", 0.9, unit="share")

# %% [markdown]
# ## Run
#
# Now before the V100. The *model* beside the measurement knows nothing of this run: it takes the costs of loading from the short one above, whose step took a millisecond, and the train step from the publication.

# %% tags=["nbval-ignore-output"]
naive_trace = labkit.record(naive, v100, steps=12, name="naive")
timeline = labkit.Timeline(naive_trace)
model = simulate.fit(probe).predict(train=v100.step_ns(32) / 1e6)
predictions.review("01.busy", model=model.busy, measured=timeline.busy)

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(naive_trace, title="Naive: open, read, decode, train, in turn", steps=3)

# %% [markdown]
# ## Explain
#
# Between two train steps lies one long gap, and below it 32 photos are prepared, one after the other. tf.data passes them to the threads of its pool in no particular order, so the work hops between lanes; put the lanes on top of each other and they fill one thread's time, not more. The other cores are idle.
#
# Where does the time go? Per image, by kind of work:

# %% tags=["nbval-ignore-output"]
for kind in ("read", "decode", "resize", "map", "batch"):
    per_image = timeline.per_image_ms[kind]
    print(f"{kind:<8} {per_image:6.2f} ms  {'#' * round(per_image * 20)}")

# %% [markdown]
# What would have to change? The explorer begins with the costs of your recording. Move one at a time:

# %% tags=["nbval-ignore-output"]
explorers.explore("01", trace=naive_trace)

# %% [markdown]
# On a quiet machine decoding usually leads, and *map* follows: float conversion, flip, brightness, saturation, clip. Reading is nearly free while the operating system still holds the files in memory, the *page cache*. A photo set larger than memory has no such luck. Throw it out of the cache and look again:

# %%
paths = list(album.take(160).paths)
read_only = plain(tf.data.Dataset.from_tensor_slices(paths).map(tf.io.read_file).batch(16))
instant = accelerators.modelled(step_ms=1)


def read_ms():
    return labkit.Timeline(labkit.record(read_only, instant, steps=8, warmup=1)).per_image_ms["read"]

# %% tags=["nbval-ignore-output"]
warm, cold = [], []
for _ in range(3):
    warm.append(read_ms())
    storage.evict(paths)
    left = storage.resident(paths)
    cold.append(read_ms())
print(f"{left:.0%} of the bytes were still in the cache after eviction")
print(f"read, per image: warm {min(warm):.3f} ms, cold {min(cold):.3f} ms")

# %% [markdown]
# If the first line is not near 0 %, the files could not be thrown out (macOS, or a folder that lives in memory), and warm and cold are the same thing. If it is 0 % and both are alike, your disk is fast, or there is a second cache outside a virtual machine. That is a result, too.
#
# ## The first batch is another story
#
# Before the first batch arrives, TensorFlow starts the pipeline and fills the shuffle buffer: once per iterator, so once per job with `repeat()`, and every epoch without. Here the buffer holds only file names, and the difference may be small; a buffer of images costs seconds. So it has a column of its own and stays out of the mean.

# %% tags=["nbval-ignore-output"]
print(f"first batch {naive_trace.run.first_batch_ns / 1e6:,.0f} ms, later waits {timeline.wait_ms:,.0f} ms")

# %% [markdown]
# ## How far do two equal runs differ?
#
# Machines are noisy: other programs, shared cores, clock frequencies. Before any two pipelines are compared, compare one with itself. `labkit.measure` records both in turn, round by round, so that a slow minute hits both alike.

# %% tags=["nbval-ignore-output"]
twins = labkit.measure({"naive": naive, "naive again": naive}, v100, steps=6, repeats=5)
twins

# %% [markdown]
# The medians differ in some digit. Is one of them faster? The table answers with a *verdict*, and gives one only if the effect is larger than the spread over the rounds. For twins the honest answer is "no measurable difference". The interval is one of 97 %: about three times in a hundred, chance gives even twins a verdict. Run the cell again if it happens to you.
#
# Now something that does differ: the same chain, and at its end one more resize, to 112×112. Each image then has a quarter of the pixels:

# %%
def load_small(path, label):
    image, label = load(path, label)
    return tf.image.resize(image, [112, 112]), label


smaller = plain(files.map(load_small).batch(32))

# %% tags=["nbval-ignore-output"]
pair = labkit.measure({"naive": naive, "smaller": smaller}, v100, steps=3, repeats=2)
pair

# %% [markdown]
# The table refuses: the two do not deliver the same thing, so their speeds cannot be compared. This matters in practice. TensorFlow's own guide measured its interleave examples on another number of samples than the rest, and readers found out (tensorflow issue 46536).
#
# A fair comparison delivers the same photos in the same shapes. TensorFlow's default way to undo the discrete cosine transform of JPEG is said to be faster than the accurate one used here; its pixels differ slightly. Is it faster on this machine?

# %%
def load_default_dct(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [224, 224])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label


default_dct = plain(files.map(load_default_dct).batch(32))

# %% tags=["nbval-ignore-output"]
dct = labkit.measure({"accurate": naive, "default": default_dct}, v100, steps=6, repeats=5)
dct

# %% [markdown]
# Whatever the verdict is on your machine: it is stated with the interval that it rests on, and where the interval covers 1.00× nobody can tell. More rounds narrow it.
#
# ## Exercises
#
# **01.1** Write `images_per_s(step_ms, batch)`: how many images a second a job consumes whose steps take `step_ms` milliseconds. One line.

# %% tags=["stub"]
def images_per_s(step_ms, batch):
    ...  # your code

# %% tags=["solution"]
def images_per_s(step_ms, batch):
    return 1000 * batch / step_ms

# %%
labkit.try_it("01.1", images_per_s)
labkit.check("01.1", images_per_s)

# %% [markdown]
# **01.2** Write `naive_options(dataset)`: the same dataset with tf.data's rewriting and its tuning switched off. Four lines.

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
labkit.try_it("01.2", naive_options)
labkit.check("01.2", naive_options)

# %% [markdown]
# **01.3** Write `verdict(before, after)`: two lists of images per second, one entry per round. Return `"faster"` if *every* round got faster, `"slower"` if every round got slower, `"no difference"` otherwise. Four lines.

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
labkit.try_it("01.3", verdict)
labkit.check("01.3", verdict)

# %% [markdown]
# ## Recap
#
# You switched tf.data's own improvements off and read from the graph that they are off. You measured a naive job, named its busy share, and saw that decoding and augmenting, not reading, take the time while the files are in memory. You kept the first batch apart, compared equal runs with each other, and were refused a comparison of unequal ones.
#
# ## In practice
#
# - Leave the defaults *on* in production. They are off here so that each technique can be seen alone.
# - Quote the median of several rounds with its spread, and the ratio within one run rather than the seconds of two days.
# - The profiler costs a little for every event it notes (`naive_trace.run.profiler` counts them). For photos that is nothing; for tiny elements it is much, and the table says so when it matters.
#
# **Next:** [02 Overlap with prefetch](02_overlap_with_prefetch.ipynb): the gap shrinks by one word.
