# %% [markdown]
# # Cache what is expensive
#
# **You will** keep the expensive part of a pipeline in memory or in a file, compare the first epoch with later ones, and choose the place of the cache by its size.
#
# **You will learn** what belongs before a cache and what after it, what each choice costs in RAM, and four ways in which a cache does harm.
#
# **You need** notebooks 01 and 02. No GPU. About 30 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import os
import tempfile
import time

import tensorflow as tf
from labkit import accelerators, charts, checks, explorers, memory, photos, plain, predictions, storage

# %% [markdown]
# ## The job in four stages
#
# The chain is cut where a cache could stand: bytes of the file, decoded image, image resized to 224×224 (still whole numbers, one byte each), and float32. Resizing computes in float; `round` and a cast bring it back to bytes, which changes a value by at most half a step of 255.

# %%
def read(path, label):
    return tf.io.read_file(path), label

def decode(data, label):
    return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"), label

def resize(image, label):
    return tf.cast(tf.round(tf.image.resize(image, [224, 224])), tf.uint8), label

def to_float(image, label):
    return tf.image.convert_image_dtype(image, tf.float32), label

# %%
def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    return tf.clip_by_value(image, 0, 1), label

# %% tags=["nbval-ignore-output"]
album = photos.load().take(160)
files = album.files().shuffle(len(album), seed=1, reshuffle_each_iteration=False)
steps = len(album) // 32
quick = accelerators.modelled(step_ms=5)
print(album.summary())

# %% [markdown]
# Only 160 photos, five batches of 32: an epoch has to be short here, because several of them are measured.
#
# ## What would each cache weigh?
#
# A memory cache keeps every element as it is. `memory.choices` adds up shapes where they are fixed, and measures some elements where they are not.

# %%
read_stage = files.map(read)
decoded = read_stage.map(decode)
resized = decoded.map(resize)
floats = resized.map(to_float)
stages = {"JPEG bytes": read_stage, "decoded": decoded, "resized uint8": resized, "float32": floats}

# %% tags=["nbval-ignore-output"]
ram = memory.choices(stages)
ram

# %% tags=["nbval-ignore-output"]
charts.bars({name: size / 1e6 for name, size in ram.bytes.items()}, unit="MB", title="RAM of a cache after each stage")

# %% [markdown]
# Decoding multiplies the size: published work on training clusters found 5 to 7 times (Mohan and others, *Analyzing and Mitigating Data Stalls in DNN Training*, VLDB 2021, sections 6.3 and 8). Resizing makes the photos smaller again and all alike; float32 makes the same picture four times as large and adds nothing to it. For a set of 1.28 million images, the size of ImageNet's training set, the rows differ by hundreds of gigabytes:

# %%
for side, width, kind in ((224, 1, "uint8"), (224, 4, "float32")):
    print(kind, memory.size(1_281_167 * side * side * 3 * width))

# %% [markdown]
# ## Predict
#
# Put the cache after resizing, and the augmentation behind it. From epoch 2 on, nothing is read, decoded or resized. How many times faster will a later epoch be than the same pipeline without a cache? Commit yourself; the explorer below it has other places, too:

# %% tags=["nbval-ignore-output"]
print(predictions.commit("05.gain", 4.0, unit="times"))
explorers.explore("05")

# %% [markdown]
# ## Build
#
# One word again, and this time its place is everything: the expensive, always equal work before it, the random and the large after it.

# %%
def after(stage):
    return stage.map(to_float).map(augment).repeat().batch(32)


uncached = plain(after(resized))
cached = plain(after(resized.cache()))

# %% [markdown]
# ## Run
#
# First one recording over three epochs, to see the cache being filled (batch 1, the warm-up, is left out).

# %% tags=["nbval-ignore-output"]
filling = labkit.record(cached, quick, steps=3 * steps - 1, warmup=1, name="cached")
waits = filling.where(filling.select("wait", kind="consumer")).duration_ns / 1e6
first_ms, later_ms = sorted(waits[: steps - 1])[steps // 2], sorted(waits[steps:])[steps]
print(f"wait per batch: first epoch {first_ms:.0f} ms, later epochs {later_ms:.0f} ms")
charts.lines(
    list(range(2, 3 * steps + 1)), {"wait": waits.tolist()},
    x_label=f"batch ({steps} per epoch)", y_label="wait for the batch (ms)", title="Three epochs with a cache",
)

# %% [markdown]
# The first epoch costs what it cost before, and sometimes a little more, for the copy. Then the waits drop, by as much as the work before the cache had cost. The cache belongs to the dataset, not to the iterator: another loop over `cached` finds it full. So `labkit.measure`, which starts a new iterator each round, now measures later epochs:

# %% tags=["nbval-ignore-output"]
later = labkit.measure({"no cache": uncached, "memory cache": cached}, quick, steps=2 * steps, warmup=1, repeats=5)
later

# %% tags=["nbval-ignore-output"]
spent = labkit.Timeline(later.trace("no cache")).per_image_ms
whole = sum(spent.values()) + quick.step_ns(32) / 32e6
model = whole / (whole - spent["read"] - spent["decode"] - spent["resize"])
predictions.review("05.gain", model=model, measured=later.speedup("memory cache"))

# %% [markdown]
# ## The timeline

# %% tags=["nbval-ignore-output"]
labkit.show(filling, title="The epoch that fills the cache, and one that uses it", steps=2 * steps - 1)

# %% [markdown]
# ## Explain
#
# Look for the step where *read*, *decode* and *resize* end: from there on only the float conversion, the augmentation and *batch* are left. The gain is the share that is gone, so it is large where decoding dominates and small where the augmentation does. If the wait stays, what follows the cache is the new bottleneck; caching more would not help, a parallel or vectorised map would. And nothing is gained in the first epoch: a job that reads its data once has no use for a cache.
#
# The graph says which nodes run:

# %%
for node in labkit.recorder.graph(cached):
    print(node)

# %% [markdown]
# ## Where to put it
#
# Four places, each filled by one epoch before the clock starts, so that later epochs are compared:

# %%
def epoch_s(dataset):
    started = time.perf_counter()
    sum(1 for _ in dataset)
    return time.perf_counter() - started


places = {"no cache": uncached}
tails = {"JPEG bytes": (decode, resize, to_float), "decoded": (resize, to_float), "resized uint8": (to_float,), "float32": ()}
for name, functions in tails.items():
    kept = stages[name].cache()
    epoch_s(kept)  # fills the cache
    for function in functions:
        kept = kept.map(function)
    places[name] = plain(kept.map(augment).repeat().batch(32))

# %% tags=["nbval-ignore-output"]
placed = labkit.measure(places, quick, steps=steps, warmup=1, repeats=4)
placed

# %% tags=["nbval-ignore-output"]
print("float32 over resized uint8:", placed.speedup("float32", over="resized uint8"))
rates = {name: [m.images_per_s for m in placed[name]] for name in tails}
middle = {name: sorted(rounds)[len(rounds) // 2] for name, rounds in rates.items()}
charts.points(
    {name: (ram.bytes[name] / 1e6, middle[name]) for name in tails},
    x_label="RAM of the cache (MB)", y_label="images/s", title="What each place of the cache costs and gives",
)

# %% [markdown]
# Good places are at the top left: many images a second for little memory. Caching the JPEG bytes should hardly help while the operating system keeps the files in memory anyway. A cache after decoding saves the decoding; one after resizing saves the resize, too, and is smaller. Float32 takes four times the memory of uint8 to save one conversion; the line above the picture says whether it gained anything on your machine.
#
# ## The cache you have already
#
# The operating system keeps what it read in its *page cache*. It needs no line of code, holds encoded files, is shared by all programs, and shrinks when memory is wanted. Throw the files out, then read them twice:

# %% tags=["nbval-ignore-output"]
paths = list(album.paths)
reading = plain(tf.data.Dataset.from_tensor_slices(paths).map(tf.io.read_file).batch(32))
dropped = storage.evict(paths)
for turn in ("first read", "second read"):
    trace = labkit.record(reading, quick, steps=steps - 1, warmup=1)
    share = storage.resident(paths)
    print(f"{turn}: {labkit.Timeline(trace).per_image_ms['read']:.3f} ms per file, then {share:.0%} in memory")
print(f"{memory.size(dropped)} had been thrown out")

# %% [markdown]
# If nothing could be thrown out (macOS, a folder in memory), both lines are warm. If both are alike all the same, the disk is fast, or a second cache lies outside your virtual machine. Where the first is slower, the page cache did for the second read what `cache()` on JPEG bytes would do, without taking the memory twice. It fails for a set larger than memory: each epoch throws out what the next one needs.
#
# ## What goes wrong, 1: frozen augmentation
#
# Move the cache one word to the right, behind the augmentation. It does even less work per epoch, no error appears, and every epoch shows the model the same pictures. Speed cannot tell; data can:

# %%
frozen = floats.map(augment).cache().batch(32)
checks.inspect(frozen, floats, value_range=(0, 1))["random"]

# %%
fresh = floats.cache().map(augment).batch(32)
report = checks.inspect(fresh, floats, value_range=(0, 1))
print(report["random"])
print("faults:", len(report.faults))

# %% [markdown]
# ## What goes wrong, 2: a cache that is never used
#
# A cache is valid once it has been read to its end. `cache().take(k)` stops before; TensorFlow then throws away what it had, with a warning in its log that notebooks rarely show, and starts again (tensorflow issues 42773 and 45609). Count how often an element is really computed in three epochs of 40 images:

# %%
def computed(build):
    counter = tf.Variable(0, dtype=tf.int64)
    counted = tf.data.Dataset.range(160).map(lambda i: counter.assign_add(1) + i)
    dataset = plain(build(counted))
    return [(sum(1 for _ in dataset), int(counter))[1] for _ in range(3)]


print("cache().take(40):", computed(lambda d: d.cache().take(40)))
print("take(40).cache():", computed(lambda d: d.take(40).cache()))

# %% [markdown]
# The first line grows with every epoch: nothing was ever reused. The second computes 40 elements once. Take first, then cache.
#
# ## What goes wrong, 3: a file cache slower than none
#
# `cache(path)` writes to disk, survives the program, and needs no RAM of its own, although the page cache may hold it, too. But what was a small JPEG becomes a large tensor, and reading it back has to be faster than decoding. Somebody's epochs took longer with it than without (tensorflow issue 44050). First the writing, then later epochs, with the pages of all files in memory and with all of them thrown out. (`memory.cache` is `cache` with a look at the free space, see below.)

# %%
scratch = tempfile.TemporaryDirectory()
on_disk = {name: memory.cache(stages[name], os.path.join(scratch.name, name[:5])) for name in ("resized uint8", "float32")}

# %% tags=["nbval-ignore-output"]
print(f"no cache: {epoch_s(plain(resized)):.2f} s")
for name, kept in on_disk.items():
    print(f"{name}: first epoch, which writes the file, {epoch_s(plain(kept)):.2f} s, a later one {epoch_s(plain(kept)):.2f} s")
cache_files = [entry.path for entry in os.scandir(scratch.name)]

# %% tags=["nbval-ignore-output"]
variants = {"no cache": plain(resized.map(to_float).map(augment).batch(32))}
variants["file, uint8"] = plain(on_disk["resized uint8"].map(to_float).map(augment).batch(32))
variants["file, float32"] = plain(on_disk["float32"].map(augment).batch(32))
warm = labkit.measure(variants, quick, steps=steps - 1, warmup=1, repeats=3)
warm

# %% tags=["nbval-ignore-output"]
cold = {name: [] for name in variants}
for _ in range(3):
    for name, dataset in variants.items():
        storage.evict(cache_files + paths)
        left = storage.resident(cache_files + paths)
        trace = labkit.record(dataset, quick, steps=steps - 1, warmup=1)
        cold[name].append(trace.run.repeats[0].images_per_s)
note = f"{left:.0%} of the bytes were still in memory after eviction"
charts.bars(cold, unit="images/s", title="After throwing all files out of the page cache", note=note)

# %% [markdown]
# Warm, a file cache is a memory cache with a detour. Cold (if the note says near 0 %), float32 has to fetch four times the bytes of uint8. On a fast drive it may still beat decoding. Now put both the photos and the cached floats on a disk that gives 50 MB/s, the best of the hard disks in the paper above (15 to 50 MB/s, table 3). The disk is modelled; one file per element stands in for the cache file:

# %%
disk = storage.Storage("slow disk", 1, 50, source="50 MB/s: DS-Analyzer, table 3; latency assumed", shared="bandwidth")
pairs = []
for i, (image, _) in enumerate(floats.take(96)):
    pairs.append(os.path.join(scratch.name, f"{i}.tensor"))
    tf.io.write_file(pairs[-1], tf.io.serialize_tensor(image))
both = tf.data.Dataset.zip(files, tf.data.Dataset.from_tensor_slices(pairs)).repeat()

# %%
def from_jpeg(photo, kept):
    return augment(*to_float(*resize(*decode(disk.read(photo[0]), photo[1]))))

def from_cache(photo, kept):
    image = tf.io.parse_tensor(disk.read(kept), tf.float32)
    return augment(tf.ensure_shape(image, [224, 224, 3]), photo[1])

# %% tags=["nbval-ignore-output"]
slow_disk = {"no cache": plain(both.map(from_jpeg).batch(32)), "cached floats": plain(both.map(from_cache).batch(32))}
slow = labkit.measure(slow_disk, quick, steps=3, warmup=1, repeats=4)
del on_disk, variants, warm  # closes the cache files before they are deleted
scratch.cleanup()
slow

# %% [markdown]
# Nothing is decoded in the second row, and yet it should be the slower one: 603 kB have to come through where a much smaller JPEG did. (If it is not, this machine needs longer to decode than such a disk to deliver.) The rule is arithmetic: a file cache gains if its extra bytes, divided by the speed of the disk, take less time than the work that it saves.

# %% [markdown]
# ## What goes wrong, 4: out of memory
#
# A cache that does not fit ends with a kernel that died, minutes later, without a word. The sizes are known before, so ask first. `memory.cache` is `cache()` with that question; in a container it asks for the container's limit.

# %% tags=["nbval-ignore-output"]
huge = floats.repeat(100_000)  # stands for 16 million photos
try:
    memory.cache(huge)
except MemoryError as refusal:
    print(refusal)

# %% [markdown]
# ## Exercises
#
# **05.1** Write `cache_mb(images, height, width, bytes_per_value)`: the memory, in MB (10^6 bytes), of a cache of RGB images. One line.

# %% tags=["stub"]
def cache_mb(images, height, width, bytes_per_value):
    ...  # your code

# %% tags=["solution"]
def cache_mb(images, height, width, bytes_per_value):
    return images * height * width * 3 * bytes_per_value / 1e6

# %%
labkit.try_it("05.1", cache_mb)
labkit.check("05.1", cache_mb)

# %% [markdown]
# **05.2** Write `cached_pipeline(dataset, expensive, augment)`: map both functions over the elements, in this order, so that from epoch 2 on `expensive` never runs again and `augment` is fresh. One line.

# %% tags=["stub"]
def cached_pipeline(dataset, expensive, augment):
    ...  # your code

# %% tags=["solution"]
def cached_pipeline(dataset, expensive, augment):
    return dataset.map(expensive).cache().map(augment)

# %%
labkit.try_it("05.2", cached_pipeline)
labkit.check("05.2", cached_pipeline)

# %% [markdown]
# **05.3** Write `epochs_until_gain(first, later, without)`: with a cache the first epoch takes `first` seconds and every later one `later`; without it each takes `without`. After how many epochs has the job with the cache taken less time? Return `float("inf")` if never, as where they cost the same. About five lines.

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
labkit.try_it("05.3", epochs_until_gain)
labkit.check("05.3", epochs_until_gain)

# %% [markdown]
# ## Recap
#
# You measured the RAM of four places for a cache and what each gave, and saw the first epoch pay for the later ones. You met the page cache, which works without being asked. You found a frozen augmentation by looking at data, counted a cache that was never used, weighed a file cache against decoding, and had a cache refused before it took the machine down.
#
# ## In practice
#
# - Expensive and always equal: before the cache. Random or large: after it. Shuffle after it, too, or every epoch has the same order.
# - Cache bytes as uint8 and convert afterwards. If even that does not fit, leave the files to the page cache.
# - Look at the data whenever a cache moves: `labkit.checks.inspect(dataset)`.
#
# **Next:** [06 Vectorize the map](06_vectorize_the_map.ipynb): many elements in one call.
