# %% [markdown]
# # Cache what is expensive
#
# **You will** keep the results of the expensive steps in memory, compare the first epoch with later epochs, and choose the place of the cache by its size.
#
# **You will learn** which steps belong before a cache and which after it, how much memory each place needs, and how a cache does harm.
#
# **You need** notebooks 01 and 02, and 4 GB of memory. No GPU. About 30 minutes. Special words are in the [glossary](../docs/glossary.md).
#
# **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
from time import perf_counter

import tensorflow as tf
from labcourse import check, explorers, idea, my_pipeline, predictions, read, try_it
from labextras import checks
from labkit import accelerators, charts, discrepancy, memory, photos, plain

# %% [markdown]
# ## The idea ▸
#
# Fetching, decoding and resizing a photo gives the same pixels in every [epoch](../docs/glossary.md#epoch). A cache keeps these pixels, so only the first epoch has to make them.

# %%
idea("05")

# %% tags=["nbval-ignore-output"]
my_pipeline.ladder("05")

# %% [markdown]
# ## The job in four steps ▸
#
# A cache can stand after each of these steps. After them, a photo is: the bytes of its file, its decoded pixels, the pixels of a 224×224 image (one byte for each value), and the same pixels as float32.

# %%
def fetch(path, label):
    return tf.io.read_file(path), label

def decode(data, label):
    return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"), label

def resize(image, label):
    return tf.cast(tf.round(tf.image.resize(image, [224, 224])), tf.uint8), label

def to_float(image, label):
    return tf.image.convert_image_dtype(image, tf.float32), label

# %% tags=["nbval-ignore-output"]
album = photos.load().take(160)
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False)
steps = len(album) // 32
stages = {"JPEG bytes": files.map(fetch)}
stages["decoded"] = stages["JPEG bytes"].map(decode)
stages["resized uint8"] = stages["decoded"].map(resize)
stages["float32"] = stages["resized uint8"].map(to_float)
megabytes = {name: size / 1e6 for name, size in memory.choices(stages, sample=len(album)).bytes.items()}
charts.bars(megabytes, unit="MB", title=f"Memory of a cache of {len(album)} photos after each step")

# %% [markdown]
# Decoding makes the data several times as large, and resizing makes them small again. As float32, the same picture takes four times as much, and holds no more information.
#
# <details><summary>In memory, in batches, or packed? A common rule</summary>
#
# A common rule says: keep a set below 2–4 GB in memory, read one above 5 GB in batches, and pack one above 30 GB into TFRecords (the notebook after next). But 2 GB of what? The cell below asks for *your* memory, and for the place of the cache. (The rule: Protopapas and Jayaram, *Productionizing AI*, 7.)
#
# </details>

# %% tags=["nbval-ignore-output"]
free = memory.available()[0] / 1e9
print(f"free memory here: {free:.1f} GB")
for files_gb in (2, 4, 5, 30):
    places = {name: files_gb * size / megabytes["JPEG bytes"] for name, size in megabytes.items()}
    words = [f"{name} {gb:.1f} GB{'' if gb < free else ' (too much)'}" for name, gb in places.items()]
    print(f"{files_gb} GB of files:", ", ".join(words[1:]))

# %% [markdown]
# ## Build ▸
#
# A cache is one word, but its place matters. Before `cache()` stand the steps that are expensive and always give the same result. Behind it stand those that are random, or that make the data larger.

# %%
def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    return tf.clip_by_value(image, 0, 1), label


def after(resized):
    return plain(resized.map(to_float).map(augment).repeat().batch(32))

uncached = after(stages["resized uint8"])
cached = after(stages["resized uint8"].cache())

# %% [markdown]
# ## Predict ▸
#
# What a photo costs without a cache, by kind of work:

# %% tags=["nbval-ignore-output"]
quick = accelerators.modelled(step_ms=5)
alone = labkit.Timeline(labkit.record(uncached, quick, steps=steps, warmup=1, name="no cache"))
for kind, ms in alone.per_image_ms.items():
    if ms >= 0.005:
        print(f"{kind:>7} {ms:5.2f} ms")
print(f"  train {quick.step_ns(32) / 32e6:5.2f} ms")

# %% [markdown]
# From the second epoch on, nothing is fetched, decoded or resized. How many times as fast is a later epoch as the same pipeline without a cache?

# %% tags=["nbval-ignore-output"]
predictions.commit("05.gain", ..., unit="times")

# %% [markdown]
# ## Run ▸
#
# The wait for a batch in three epochs shows how the cache is filled:

# %% tags=["nbval-ignore-output"]
filling = labkit.record(cached, quick, steps=3 * steps - 1, warmup=1, name="cached")  # from the second batch on
waits = labkit.Timeline(filling).waits_ms
epochs = {"epoch 1": waits[: steps - 1], "epoch 2": waits[steps - 1 : 2 * steps - 1], "epoch 3": waits[2 * steps - 1 :]}
charts.bars({name: found for name, found in epochs.items() if len(found)}, unit="ms", title="Wait for a batch, with a cache")

# %% [markdown]
# The first epoch does all the work, and copies each image into the cache. A job that reads its data only once gains nothing. The cache belongs to the dataset, so a second loop over `cached` finds it full, and the next table compares later epochs.

# %% tags=["nbval-ignore-output"]
variants = {"no cache": uncached, "memory cache": cached}
later = labkit.measure(variants, quick, steps=2 * steps, warmup=1, repeats=5, profile=False)
later

# %% [markdown]
# The *model* takes the times of *no cache*, and leaves out what is kept. It does not know what the cache itself costs.

# %% tags=["nbval-ignore-output"]
spent = alone.per_image_ms
whole = sum(spent.values()) + quick.step_ns(32) / 32e6
model = whole / (whole - sum(spent.get(kind, 0) for kind in ("read", "decode", "resize")))
predictions.review("05.gain", model=model, measured=later.speedup("memory cache"))

# %% [markdown]
# ## The timeline ▸

# %% tags=["nbval-ignore-output"]
labkit.show(filling, title="The epoch that fills the cache, and an epoch that uses it", steps=2 * steps - 1)

# %% [markdown]
# ## Explain
#
# Find the step after which storage, *decode* and *resize* no longer appear: there the cache is full. What is left is the augmentation. If that takes most of the time, a cache gains little.
#
# <details><summary>The first epoch, and the first batch</summary>
#
# Two things happen once, and distort a short measurement. The first *epoch* fills caches: yours, and the operating system's. The first *batch* waits until TensorFlow has started the pipeline and filled the shuffle buffer; with `shuffle` before `repeat`, it is filled again at the beginning of every epoch. A buffer of file names is filled at once, one of images takes seconds. A gap for this reason has the cause [*start*](../docs/glossary.md#start). So measure after a warm-up, and tell the first batch apart, as the tables do.
#
# </details>
#
# ## Where to put it
#
# Four places. Each cache is filled before the measurement.

# %%
functions = [decode, resize, to_float]
places = {"no cache": uncached}
for number, name in enumerate(stages):
    kept = stages[name].cache()
    for _ in kept:  # the first epoch, which fills the cache
        pass
    for function in functions[number:]:
        kept = kept.map(function)
    places[name] = plain(kept.map(augment).repeat().batch(32))

# %% tags=["nbval-ignore-output"]
placed = labkit.measure(places, quick, steps=steps, warmup=1, repeats=5, profile=False)
display(placed)
spots = {name: (megabytes[name], placed.rates(name)) for name in stages}
title = "What each place of the cache costs and gives"
charts.points(spots, x_label="memory of the cache (MB)", y_label="images/s", title=title)

# %% [markdown]
# The best place is at the top left: many images per second for little memory. A cache of the JPEG bytes hardly helps, because the operating system keeps files that were read in its [page cache](../docs/glossary.md#page-cache) anyway.
#
# What if only a part of the photos fits? The explorer begins with the costs of *no cache* on your machine. It also maps on all cores and prefetches, so it is faster than the table.

# %% tags=["nbval-ignore-output"]
explorers.explore("05", trace=later.trace("no cache"))

# %% [markdown]
# ## Frozen augmentation ▸
#
# Move the cache behind the augmentation: even less work, and no error. One photo in four epochs:

# %% tags=["nbval-ignore-output"]
one = stages["float32"].take(1)
kept = {"fresh": one.cache().map(augment), "frozen": one.map(augment).cache()}
shown = {f"{name}, epoch {n}": image for name, data in kept.items() for n in range(1, 5) for image, _ in data}
note = "Above: the cache stands before the augmentation. Below: the cache stands after it."
discrepancy.gallery(shown, title="Four epochs of one photo", note=note)

# %% [markdown]
# The speed cannot show this error; the data can:

# %%
frozen = stages["float32"].map(augment).cache().batch(32)
fresh = stages["float32"].cache().map(augment).batch(32)
print("cache after: ", checks.inspect(frozen, stages["float32"], value_range=(0, 1))["random"])
print("cache before:", checks.inspect(fresh, stages["float32"], value_range=(0, 1))["random"])

# %% [markdown]
# ## A cache that is never used
#
# A cache is complete when it has been read to its end. We count how many elements are really computed:

# %%
def count_computed(build):
    counter = tf.Variable(0, dtype=tf.int64)
    dataset = plain(build(tf.data.Dataset.range(160).map(lambda i: counter.assign_add(1) + i)))
    for epoch in (1, 2, 3):
        for _ in dataset:
            pass
        print(f"  after epoch {epoch}: {int(counter)} elements computed")

print("cache().take(40)")
count_computed(lambda dataset: dataset.cache().take(40))
print("take(40).cache()")
count_computed(lambda dataset: dataset.take(40).cache())

# %% [markdown]
# With the first order, TensorFlow throws the incomplete cache away in every epoch, and says so only in its log (tensorflow issues 42773 and 45609). So take first, then cache.
#
# ## In a file, or out of memory
#
# `cache(file)` needs no memory, but the disk must deliver every byte of it in every epoch. Compare, for a disk of 50 MB/s:

# %% tags=["nbval-ignore-output"]
for name, size in megabytes.items():
    print(f"{name:>13}: {1000 * size / len(album) / 50:5.2f} ms for a photo from the disk")
print(f"decode and resize: {spent.get('decode', 0) + spent.get('resize', 0):.2f} ms of work for a photo, on one core")

# %% [markdown]
# A file cache gains only if its additional bytes take less time than the work that it saves. And a cache that does not fit into memory ends the kernel without a message. `memory.cache` is a `cache()` that measures some elements first, and refuses:

# %% tags=["nbval-ignore-output"]
huge = stages["float32"].repeat(100_000)  # as large as 16 million photos
try:
    memory.cache(huge)
except MemoryError as refusal:
    print(refusal)

# %% [markdown]
# ## Read ▸
#
# **05.1** Which is the first step that comes out of the full cache? And below, in which row is the augmentation frozen? Answer as `{"step": 1, "row": "1"}`, or by clicks.

# %% tags=["nbval-ignore-output"]
read("05.1")

# %% tags=["stub"]
answer = ...

# %% tags=["solution"]
answer = {"step": 5, "row": "3"}

# %%
check("05.1", answer)

# %% [markdown]
# ## Exercises
#
# **05.2** 40 photos, and 8 MB for a cache. Write `cached_pipeline(photos, decode, resize, to_float, augment)`: it maps the four functions in this order. `decode` makes 375×500 pixels, `resize` 224×224, both in bytes. From the second epoch on, neither of them runs again; `augment` runs in every epoch; the results are kept in memory, and they fit. One line.

# %% tags=["stub"]
def cached_pipeline(photos, decode, resize, to_float, augment):
    ...  # your code

# %% tags=["solution"]
def cached_pipeline(photos, decode, resize, to_float, augment):
    return photos.map(decode).map(resize).cache().map(to_float).map(augment)

# %%
try_it("05.2", cached_pipeline)
check("05.2", cached_pipeline)

# %% [markdown]
# **05.3** Write `epochs_until_gain(first, later, without)`. With a cache, the first epoch takes `first` seconds, and each later one `later` seconds. Without a cache, each takes `without` seconds. After how many epochs has the job with the cache taken less time in total? If this never happens, return `float("inf")`. About five lines.

# %% tags=["stub"]
def epochs_until_gain(first, later, without):
    ...  # your code

# %% tags=["solution"]
def epochs_until_gain(first, later, without):
    if first < without:
        return 1
    if later >= without:
        return float("inf")
    return int((first - later) // (without - later)) + 1

# %%
try_it("05.3", epochs_until_gain)
check("05.3", epochs_until_gain)

# %% [markdown]
# ## Your pipeline
#
# An accelerator that hardly waited before gains nothing by the cache: look at the faster ones.

# %% tags=["nbval-ignore-output"]
my_pipeline.step("05")

# %% tags=["nbval-ignore-output"]
my_pipeline.measure("05")

# %% [markdown]
# ## Without the lab
#
# At work: does the cache fit, and is it used? The first loop fills it, the second one tells.

# %%
def seconds_of_epochs(dataset, epochs=3):
    for _ in range(epochs):
        start = perf_counter()
        for _ in dataset:
            pass
        yield perf_counter() - start

# %% tags=["nbval-ignore-output"]
kept = files.map(fetch).map(decode).map(resize).cache()
print("seconds of each epoch:", [round(s, 2) for s in seconds_of_epochs(kept.map(to_float).batch(32))])
spec = kept.element_spec[0]
print(f"{len(album) * spec.shape.num_elements() * spec.dtype.size / 1e6:.1f} MB in memory")

# %% [markdown]
# ## Recap
#
# You compared four places for a cache, and saw a frozen augmentation and a cache that is never used.
#
# ## In practice
#
# - Before the cache: what is expensive and always the same. Behind it: what is random, or makes the data larger, and `shuffle`.
# - Cache images as uint8, and convert them afterwards.
# - Each time that you move a cache, look at the data: `checks.inspect(dataset)`.
#
# **Next:** [06 Vectorize the map](06_vectorize_the_map.ipynb): many elements in one call.
