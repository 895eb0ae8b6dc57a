# %% [markdown]
# # Cache what is expensive
#
# **You will** keep the results of the expensive steps in memory, compare the first epoch with later epochs, and choose the place of the cache by its size.
#
# **You will learn** which steps belong before a cache and which steps belong after it, how much memory each place needs, and four ways in which a cache does harm.
#
# **You need** notebooks 01 and 02, and 4 GB of memory. No GPU. About 65 minutes. Words that you do not know are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import statistics
import tempfile

import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labextras import checks
from labkit import accelerators, charts, discrepancy, memory, photos, plain, storage

# %% [markdown]
# ## The idea
#
# Reading, decoding and resizing a photo gives the same pixels in every [epoch](../docs/glossary.md#epoch). A cache keeps these pixels, so only the first epoch has to compute them.

# %%
idea("05")

# %% [markdown]
# ## The job in four steps
#
# A cache can stand after each of these steps. After them, an image is: the bytes of the file, the decoded pixels, the pixels of a 224×224 image (whole numbers, one byte each), and the same pixels as float32. Resizing gives floats; `round` and `cast` turn them back into bytes.

# %%
def read(path, label):
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
print(f"{len(album)} photos, {steps} steps per epoch")

# %% [markdown]
# We use only 160 photos, because we will measure several epochs.
#
# ## How large is each cache?
#
# `memory.choices` computes the size of the cache for each place. It reads all 160 photos, because JPEG files and decoded photos differ in size.

# %% tags=["nbval-ignore-output"]
stages = {"JPEG bytes": files.map(read)}
stages["decoded"] = stages["JPEG bytes"].map(decode)
stages["resized uint8"] = stages["decoded"].map(resize)
stages["float32"] = stages["resized uint8"].map(to_float)
megabytes = {name: size / 1e6 for name, size in memory.choices(stages, sample=len(album)).bytes.items()}
charts.bars(megabytes, unit="MB", title="Memory of a cache after each step")

# %% [markdown]
# Decoding makes the data several times larger. (Published work found 5 to 7 times: Mohan and others, *Analyzing and Mitigating Data Stalls in DNN Training*, VLDB 2021, sections 6.3 and 8.) Resizing makes the data small again, and it makes all images equally large. The conversion to float32 makes the same picture four times as large and adds no information.
#
# For a large set, the difference decides. ImageNet's training set has 1,281,167 images. As 224×224 images they take 193 GB in uint8, and 771 GB in float32.
#
# ## Predict
#
# Put the cache after resizing, and put the augmentation after the cache. From the second epoch on, nothing is read, decoded or resized. How many times faster is a later epoch than the same pipeline without a cache? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("05.gain", ..., unit="times")

# %% [markdown]
# ## Build
#
# A cache is one word in the code, but its position matters. Put the steps that are expensive and always give the same result before `cache()`. Put the steps that are random, or that make the data larger, after it.

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
# ## Run
#
# First, one recording of three epochs shows how the cache is filled. The recording begins with the second batch.

# %% tags=["nbval-ignore-output"]
quick = accelerators.modelled(step_ms=5)
filling = labkit.record(cached, quick, steps=3 * steps - 1, warmup=1, name="cached")
waits = labkit.Timeline(filling).waits_ms
first_ms, later_ms = statistics.median(waits[: steps - 1]), statistics.median(waits[steps:])
print(f"median wait: first epoch {first_ms:.0f} ms, later epochs {later_ms:.0f} ms")
charts.lines(
    range(2, 3 * steps + 1), {"wait": waits}, x_label=f"batch ({steps} per epoch)", y_label="wait for the batch (ms)",
    title="Three epochs with a cache", mark=(steps + 0.5, "the cache is full"),
)

# %% [markdown]
# The first epoch takes as long as without a cache, or a little longer, because each image is also copied into the cache. Then the waits become shorter: the work before the cache is gone.
#
# The cache belongs to the dataset. A second loop over `cached` finds the cache full. So the next table compares later epochs.
#
# Below the table, compare three numbers: your prediction, the measurement, and a *model*. The model takes the times of *no cache* and leaves out reading, decoding and resizing. It does not know what the cache itself costs, so it can promise too much. (`profile=False` measures without the profiler, which would slow down short steps more than long steps.)

# %% tags=["nbval-ignore-output"]
variants = {"no cache": uncached, "memory cache": cached}
later = labkit.measure(variants, quick, steps=2 * steps, warmup=1, repeats=5, profile=False)
later

# %% tags=["nbval-ignore-output"]
spent = labkit.Timeline(later.trace("no cache")).per_image_ms
whole = sum(spent.values()) + quick.step_ns(32) / 32e6
model = whole / (whole - spent["read"] - spent["decode"] - spent["resize"])
predictions.review("05.gain", model=model, measured=later.speedup("memory cache"))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(filling, title="The epoch that fills the cache, and an epoch that uses it", steps=2 * steps - 1)

# %% [markdown]
# ## Explain
#
# Find the step after which *read*, *decode* and *resize* no longer appear. At this step the cache is full. (The numbers in the text belong to all three epochs together.)
#
# If decoding takes most of the time, the gain is large. If the augmentation takes most of the time, the gain is small. In the first epoch, nothing is gained. A job that reads its data only once does not need a cache.
#
# ## Where to put it
#
# We compare four places. Each cache is filled before the measurement, so the table compares later epochs. The picture below the table shows the medians of the table.

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
placed

# %% tags=["nbval-ignore-output"]
print("float32 compared with resized uint8:", placed.speedup("float32", over="resized uint8"))
spots = {name: (megabytes[name], placed.rates(name)) for name in stages}
title = "What each place of the cache costs and gives"
charts.points(spots, x_label="memory of the cache (MB)", y_label="images/s", title=title)

# %% [markdown]
# The best place is at the top left: many images per second for little memory.
#
# - **JPEG bytes**: this cache hardly helps. The operating system keeps files that were read in its [page cache](../docs/glossary.md#page-cache), and all programs share this copy. (If memory becomes short, it throws these files out.)
# - **Decoded**: this cache saves the decoding, but it needs the most memory.
# - **Resized uint8**: this cache saves the decoding and the resize, and it is small.
# - **float32**: this cache also saves the conversion, but it needs four times as much memory as uint8. The line above the picture says whether the conversion matters on your machine.
#
# What if only a part of the images fits into the cache? The explorer begins with the costs of *no cache* on your machine. (F, P and G are [the speeds](../docs/glossary.md#f-p-g) of fetching, of preparing and of the accelerator.)

# %% tags=["nbval-ignore-output"]
explorers.explore("05", trace=later.trace("no cache"))

# %% [markdown]
# ## What goes wrong, 1: frozen augmentation
#
# Move the cache behind the augmentation. The pipeline does even less work per epoch, and no error appears. But every epoch now shows the model the same pictures. Look at one photo in four epochs, with the cache before and after the augmentation:

# %% tags=["nbval-ignore-output"]
one = stages["float32"].take(1)
kept = {"fresh": one.cache().map(augment), "frozen": one.map(augment).cache()}
shown = {f"{name}, epoch {n}": image for name, data in kept.items() for n in range(1, 5) for image, _ in data}
note = "Above: the cache stands before the augmentation. Below: the cache stands after it."
discrepancy.gallery(shown, title="Four epochs of one photo", note=note)

# %% [markdown]
# Above, brightness and direction are drawn again in every epoch. Below, they were drawn once. The speed cannot show this error; the data can:

# %%
frozen = stages["float32"].map(augment).cache().batch(32)
fresh = stages["float32"].cache().map(augment).batch(32)
print("cache after: ", checks.inspect(frozen, stages["float32"], value_range=(0, 1))["random"])
print("cache before:", checks.inspect(fresh, stages["float32"], value_range=(0, 1))["random"])

# %% [markdown]
# ## What goes wrong, 2: a cache that is never used
#
# A cache is complete when it has been read to its end. `cache().take(40)` stops before the end. TensorFlow then throws the incomplete cache away. It writes a warning into its log, which notebooks rarely show (tensorflow issues 42773 and 45609). We count how many elements are really computed:

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
# With the first order, the count grows with every epoch: the cache is never used. With the second order, 40 elements are computed once. So take first, and then cache.
#
# ## What goes wrong, 3: a file cache slower than none
#
# `cache(file)` writes the cache into a file, so it needs no memory of its own. But a small JPEG file becomes a large tensor, and the disk must deliver all its bytes in every epoch. On a fast disk, this is usually still faster than decoding. On a slow disk, it need not be (tensorflow issue 44050).
#
# We model a disk of 50 MB/s, the best hard disk in the paper above (table 3: 15 to 50 MB/s). The photos and the caches are on this disk. In place of one cache file, `disk.cached` writes one file for each image.

# %%
disk = storage.Storage("slow disk", 1, 50, source="50 MB/s: DS-Analyzer, table 3; latency assumed", shared="bandwidth")
some, folder = files.take(96), tempfile.TemporaryDirectory()
resized = some.map(read).map(decode).map(resize)
from_disk = some.map(lambda path, label: (disk.read(path), label)).map(decode).map(resize)
slow = {
    "no cache": after(from_disk),
    "file, uint8": after(disk.cached(resized, folder.name)),
    "file, float32": plain(disk.cached(resized.map(to_float), folder.name).map(augment).repeat().batch(32)),
}

# %% tags=["nbval-ignore-output"]
labkit.measure(slow, quick, steps=2, warmup=1, repeats=5, profile=False)

# %% [markdown]
# Nothing is decoded in the last row, and still it should be the slowest row: the disk must deliver 602 kB for each image, but the JPEG file is much smaller. (If it is not the slowest row, your cores decode more slowly than this disk delivers.) The cache of uint8 needs only 151 kB for each image.
#
# Here is the rule. A file cache must deliver more bytes than the JPEG files, and this takes additional time on the disk. If the additional time is shorter than the work that the cache saves, the file cache gains.
#
# ## What goes wrong, 4: out of memory
#
# If a cache does not fit into memory, the kernel dies after some minutes, without an error message. But the size can be computed before. `memory.cache` does the same as `cache()`, but it first compares the size with the free memory. In a container, it uses the limit of the container.

# %% tags=["nbval-ignore-output"]
huge = stages["float32"].repeat(100_000)  # as large as 16 million photos
try:
    memory.cache(huge)
except MemoryError as refusal:
    print(refusal)

# %% [markdown]
# ## Exercises
#
# **05.1** Write `cache_mb(images, height, width, bytes_per_value)`: the memory of a cache of RGB images, in MB (1 MB is 10^6 bytes). The answer is one line.

# %% tags=["stub"]
def cache_mb(images, height, width, bytes_per_value):
    ...  # your code

# %% tags=["solution"]
def cache_mb(images, height, width, bytes_per_value):
    return images * height * width * 3 * bytes_per_value / 1e6

# %%
try_it("05.1", cache_mb)
check("05.1", cache_mb)

# %% [markdown]
# **05.2** Write `cached_pipeline(dataset, expensive, augment)`. It maps both functions over the elements: first `expensive`, then `augment`. From the second epoch on, `expensive` never runs again, but `augment` runs in every epoch. Results are kept in memory, and the order stays. The answer is one line.

# %% tags=["stub"]
def cached_pipeline(dataset, expensive, augment):
    ...  # your code

# %% tags=["solution"]
def cached_pipeline(dataset, expensive, augment):
    return dataset.map(expensive).cache().map(augment)

# %%
try_it("05.2", cached_pipeline)
check("05.2", cached_pipeline)

# %% [markdown]
# **05.3** Write `epochs_until_gain(first, later, without)`. With a cache, the first epoch takes `first` seconds, and each later epoch takes `later` seconds. Without a cache, each epoch takes `without` seconds. After how many epochs has the job with the cache taken less time in total? If this never happens, return `float("inf")`. The answer is about five lines.

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
# ## Recap
#
# You compared four places for a cache by their memory and their speed. You found a frozen augmentation by looking at the data, and you counted the elements of a cache that was never used. You compared a file cache with decoding, and labkit refused a cache that does not fit into memory.
#
# ## In practice
#
# - Put expensive steps that always give the same result before the cache. Put steps that are random, or that make the data larger, after the cache. Shuffle after the cache, too, or every epoch has the same order.
# - Cache images as uint8, and convert them to float32 afterwards. If even this cache does not fit, read the files in every epoch, and let the page cache help.
# - Each time that you move a cache, look at the data: `checks.inspect(dataset)`.
#
# **Next:** [06 Vectorize the map](06_vectorize_the_map.ipynb): many elements in one call.
