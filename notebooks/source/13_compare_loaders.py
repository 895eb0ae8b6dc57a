# %% [markdown]
# # Compare loaders
#
# **You will** load the same photos with tf.data, with plain Python, and with PyTorch, Grain and DALI where they are installed. One table and one picture compare them.
#
# **You will learn** what each loader is good at, what threads and processes cost, and when another loader is not the remedy.
#
# **You need** notebooks 04 and 09. Colab has PyTorch. Elsewhere, the notebook says how to install what is missing, and goes on without it. About 50 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps
from labcourse import check, idea, predictions, try_it
from labkit import accelerators, charts, photos

# %% [markdown]
# ## The idea
#
# Every loader does the same work. They differ in *who* does it, and in how batches come back.

# %%
idea("13")

# %% [markdown]
# ## Predict
#
# Two worker threads of plain Python read and decode photos. How many times faster are they than one thread? Decoding with Pillow lets go of Python's interpreter while it runs.

# %% tags=["nbval-ignore-output"]
predictions.commit("13.photos", ..., unit="times")

# %% [markdown]
# And how many times faster are two threads than one, if their function is plain Python, which holds the interpreter all the time?

# %% tags=["nbval-ignore-output"]
predictions.commit("13.python", ..., unit="times")

# %% [markdown]
# ## Build
#
# The work is the same for all loaders: read a JPEG, decode it, resize it to 224×224 pixels, and mirror every second photo. (Random mirroring would be the usual augmentation. Here each photo is mirrored or not once and for all, so that the pixels of the loaders can be compared.)

# %%
album = photos.load()
album = album.take(min(160, len(album)))
paths, labels = [str(path) for path in album.paths], album.labels.tolist()
mirrored = [number % 2 for number in range(len(album))]
BATCH, SIZE = 16, (224, 224)
print(len(album), "photos, batches of", BATCH)

# %% [markdown]
# **tf.data** runs ops of TensorFlow in threads of its own, without Python:

# %%
def prepare(path, label, mirror):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, SIZE, antialias=True)
    image = tf.cond(mirror > 0, lambda: image[:, ::-1], lambda: image)
    return tf.saturate_cast(image + 0.5, tf.uint8), label


dataset = tf.data.Dataset.from_tensor_slices((paths, labels, mirrored)).repeat()
dataset = dataset.map(prepare, num_parallel_calls=2).batch(BATCH, drop_remainder=True).prefetch(2)
print(dataset.element_spec[0])

# %% [markdown]
# **Plain Python** needs a function for one photo, and a generator that yields batches. A pool of threads calls the function. The generator is a method of a class, so that each epoch begins a new one:

# %%
def load(number):
    image = Image.open(paths[number]).convert("RGB").resize(SIZE, Image.BILINEAR)
    return np.asarray(ImageOps.mirror(image) if mirrored[number] else image)


class Batches:
    def __init__(self, function, threads):
        self.function, self.threads = function, threads

    def __iter__(self):
        with ThreadPoolExecutor(self.threads) as pool:
            for first in range(0, len(paths) - BATCH + 1, BATCH):
                numbers = range(first, first + BATCH)
                images = list(pool.map(self.function, numbers))
                yield np.stack(images), np.array([labels[number] for number in numbers])


loaders = {"tf.data": dataset, "Python, 2 threads": Batches(load, 2)}
print(next(iter(loaders["Python, 2 threads"]))[0].shape)

# %% [markdown]
# **PyTorch** starts worker *processes*. A `Dataset` gives one photo by its number, as a tensor, and functions of PyTorch change it. Each worker makes whole batches, and sends them through shared memory. PyTorch keeps the colours in front, so `permute` moves them:

# %% tags=["nbval-ignore-output"]
if labkit.have("torch", "pip install torch"):
    import torch
    from torch.utils.data import DataLoader, Dataset

    print("PyTorch", torch.__version__)
    torch.set_num_threads(1)  # or PyTorch's own threads disturb the workers

    class Photos(Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, number):
            pixels = np.array(Image.open(paths[number]).convert("RGB"))
            image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
            image = torch.nn.functional.interpolate(image, SIZE, mode="bilinear", antialias=True)[0]
            return image.flip(-1) if mirrored[number] else image, labels[number]

    loaders["PyTorch, 2 workers"] = DataLoader(Photos(), BATCH, num_workers=2, persistent_workers=True)

# %% [markdown]
# **Grain** describes a pipeline step by step, as tf.data does. Each step is a class with a method `map`, which gets one photo as a dict and returns another one. Threads read ahead, and every step can be asked for an element by its number:

# %% tags=["nbval-ignore-output"]
if labkit.have("grain", "pip install grain"):
    import grain

    print("Grain", grain.__version__)

    class Decode(grain.transforms.Map):
        def map(self, photo):
            image = Image.open(photo["path"]).convert("RGB").resize(SIZE, Image.BILINEAR)
            return {"image": np.asarray(image), "label": photo["label"], "mirror": photo["mirror"]}

    class Mirror(grain.transforms.Map):
        def map(self, photo):
            image = photo["image"][:, ::-1] if photo["mirror"] else photo["image"]
            return {"image": image, "label": photo["label"]}

    source = [{"path": p, "label": n, "mirror": m} for p, n, m in zip(paths, labels, mirrored)]
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=2 * BATCH)
    elements = grain.MapDataset.source(source).repeat().map(Decode()).map(Mirror())
    loaders["Grain, 2 threads"] = elements.to_iter_dataset(options).batch(BATCH)

# %% [markdown]
# Here the number of a photo says whether to mirror it, so that all loaders do the same. Usually chance decides. Then `Mirror` is a `RandomMap`, whose method also gets a generator of random numbers. Grain seeds it for each element, so a run can be repeated.

# %% [markdown]
# **DALI** compiles a pipeline of its own operators, in C++. One number carries the label and whether to mirror:

# %% tags=["nbval-ignore-output"]
if labkit.have("torch", "pip install torch") and labkit.have("nvidia.dali", "pip install nvidia-dali-cuda120"):
    from nvidia import dali
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    print("DALI", dali.__version__)

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def pipeline():
        both = [2 * label + mirror for label, mirror in zip(labels, mirrored)]
        data, code = fn.readers.file(files=paths, labels=both, name="photos")
        image = fn.resize(fn.decoders.image(data, output_type=types.RGB), size=SIZE)
        label = fn.squeeze(fn.cast(code // 2, dtype=types.INT64), axes=0)
        return fn.flip(image, horizontal=code % 2), label

    loaders["DALI, 2 threads"] = DALIGenericIterator([pipeline()], ["image", "label"], reader_name="photos")

# %% [markdown]
# ## Run
#
# `labkit.measure` runs all loaders in turn. It also adds up processor time and memory of *all* processes, and it checks that each loader delivers the same photos:

# %% tags=["nbval-ignore-output"]
accelerator = accelerators.modelled(step_ms=20)
found = labkit.measure(loaders, accelerator, warmup=2, steps=6, repeats=5, limit=5)
found

# %% tags=["nbval-ignore-output"]
charts.panels(
    {
        "images/s": {name: found.rates(name) for name in found},
        "CPU ms per image": {name: [one.cpu_ms_per_image for one in found[name]] for name in found},
    },
    title="The same photos, one row for each loader",
    note="Measured on this machine, in turn. CPU time is that of all processes together.",
)

# %% [markdown]
# ## The timeline
#
# `labkit.record` and `labkit.show` take any of these loaders. Nothing in their code has changed: labkit watches known functions from outside, in every thread and process. Here are tf.data and PyTorch, or plain Python where there is no PyTorch:

# %% tags=["nbval-ignore-output"]
other = "PyTorch, 2 workers" if "PyTorch, 2 workers" in found else "Python, 2 threads"
labkit.compare(found.trace("tf.data"), found.trace(other), labels=("tf.data", other), steps=4)

# %% [markdown]
# Worker processes have a lane each. Look for the worker that made the batch for which the accelerator waits:

# %% tags=["nbval-ignore-output"]
trace = found.trace(other)
labkit.draw(trace, steps=slice(1, 5), lanes=[lane.name for lane in labkit.Timeline(trace).lanes if "·" not in lane.name])

# %% tags=["nbval-ignore-output"]
for name in found:
    stalls = labkit.Timeline(found.trace(name)).stalls
    print(f"{name} waits for {stalls.cause}: {stalls.blame}\n    {stalls.advice}")

# %% [markdown]
# ## Explain
#
# **The same decoder, more or less.** TensorFlow, Pillow and DALI all decode with libjpeg or libjpeg-turbo; PyTorch and Grain take Pillow here. Most of the difference comes from *how* it is called: fast or exact arithmetic, and how often pixels are copied. Unfold *how this was measured* below the table: the pixels differ by some values of 255, because each library resizes in its own way. A comparison that does not say so compares different work.
#
# ### Threads and the interpreter
#
# Python's interpreter lets one thread run at a time (the *GIL*). Now measure what you predicted. `count` stands for an augmentation that is written in plain Python:

# %%
def count(number):
    total = sum(value * value for value in range(60_000))
    return np.full((8, 8, 3), total % 255, np.uint8)


kinds = {}
for name, threads in (("one thread", 1), ("two threads", 2)):
    kinds[f"photos, {name}"] = Batches(load, threads)
    kinds[f"plain Python, {name}"] = Batches(count, threads)
print(*kinds, sep="\n")

# %% tags=["nbval-ignore-output"]
turns = {}
for what in ("photos", "plain Python"):
    pair = {name: one for name, one in kinds.items() if name.startswith(what)}
    turns[what] = labkit.measure(pair, accelerators.modelled(step_ms=1), warmup=1, steps=4, repeats=5, profile=False)
    print(f"{what}:", turns[what].speedup(f"{what}, two threads"))

# %% tags=["nbval-ignore-output"]
predictions.review("13.photos", model=2, measured=turns["photos"].speedup("photos, two threads"))

# %% tags=["nbval-ignore-output"]
predictions.review("13.python", model=1, measured=turns["plain Python"].speedup("plain Python, two threads"))

# %% [markdown]
# Pillow, OpenCV and NumPy let go of the interpreter while they compute, so threads help. Plain Python holds it, so threads take turns. It needs processes, as PyTorch starts them, or ops of TensorFlow.
#
# ### What processes cost
#
# Processes have a price: the time until the first batch, memory for each worker, and the way of each batch from one process to another. A batch of float32 has four times the bytes of one of uint8:

# %% tags=["nbval-ignore-output"]
if "PyTorch, 2 workers" in loaders:
    def as_float(samples):
        return np.stack([image for image, _ in samples]).astype(np.float32), np.array([label for _, label in samples])

    for name, stack in (("uint8 tensors", None), ("float32 arrays", as_float)):
        trace = labkit.record(DataLoader(Photos(), BATCH, num_workers=2, collate_fn=stack), accelerator, steps=6)
        moved = labkit.Timeline(trace).work_ns.get("transfer", 0) / 1e6 / trace.run.images
        first = trace.run.first_batch_ns / 1e6
        print(f"{name}: {moved:.2f} ms of transfer per image, first batch after {first:,.0f} ms")

# %% [markdown]
# And this is the memory of all processes together, and the wait for the first batch, with 0, 2 and 4 workers:

# %% tags=["nbval-ignore-output"]
if "PyTorch, 2 workers" in loaders:
    many = {f"{n} workers": DataLoader(Photos(), BATCH, num_workers=n) for n in (0, 2, 4)}
    prices = labkit.measure(many, accelerator, warmup=1, steps=4, repeats=2, profile=False)
    for name, (first, *_) in prices.items():
        extra = first.memory_mb - prices["0 workers"][0].memory_mb
        print(f"{name}: {extra:+.0f} MB, first batch after {first.first_batch_ms:.0f} ms")

# %% [markdown]
# Workers that begin as a copy of the process (*fork*) share the pages that nobody writes to, so they begin small. Each grows with what it loads and holds. Tensors of PyTorch go through shared memory. Arrays of NumPy are pickled, sent through a pipe and unpickled. So keep uint8 until the device, and stack tensors in the worker.
#
# ### Order, and going on after a break
#
# A job that was stopped should go on with the next photo. In tf.data, the state of an iterator can be saved (`tf.train.Checkpoint`). Grain's iterators tell their state as a small text. A plain `DataLoader` cannot; its users skip batches, or take torchdata's `StatefulDataLoader`:

# %% tags=["nbval-ignore-output"]
if "Grain, 2 threads" in loaders:
    first = iter(loaders["Grain, 2 threads"])
    next(first)
    state = first.get_state()
    expected = next(first)["image"]
    second = iter(loaders["Grain, 2 threads"])
    second.set_state(state)
    print("the second batch came again:", np.array_equal(next(second)["image"], expected))

# %% [markdown]
# | loader | who works | good at | look out for |
# |---|---|---|---|
# | tf.data | threads of TensorFlow | speed without Python, caching, one file for all | what is no op needs `py_function` |
# | Python, threads | threads | few lines | the interpreter, no resuming |
# | PyTorch | processes | any Python code | memory of each worker, start of each epoch, big batches |
# | Grain | threads or processes | order that can be repeated, resuming | plain Python in threads |
# | DALI | threads of C++, or the GPU | decoding on the GPU, video | Linux and NVIDIA; own code is a plug-in |
#
# And at its fastest? `benchmarks/loaders.py` gives every loader fast settings and uint8. All but DALI decode with simplejpeg, and resize with OpenCV (measured for this course, two cores):
#
# | loader | images/s | tf.data ÷ it (lowest to highest of 7 rounds) |
# |---|---|---|
# | tf.data around OpenCV, a batch in a call | 1,845 | |
# | Grain, a batch in a call | 1,962 | 0.93 (0.90 to 0.98) |
# | Grain, its usual steps | 1,799 | 1.02 |
# | PyTorch | 1,619 | 1.14 (1.09 to 1.19) |
# | DALI | 651 | 2.82 (2.75 to 2.98) |
# | decoding alone | 1,987 | 0.91 (0.89 to 0.98) |
#
# Above 1, tf.data is faster. tf.data, Grain and PyTorch call the same C functions, and the last row says that decoding alone takes nearly all of the time. So none of the three can win by much. DALI has code of its own around the same kind of decoder; in the first table the others had slower settings. (Why nobody decodes at a smaller size: see 13b.)
#
# ### When another loader is no remedy
#
# Now the accelerator needs 150 ms for a step:

# %% tags=["nbval-ignore-output"]
slow = labkit.measure(loaders, accelerators.modelled(step_ms=150), warmup=1, steps=3, repeats=2)
charts.bars({name: [100 * one.busy for one in slow[name]] for name in slow}, unit="accelerator busy, %",
            title="With a slow accelerator, a loader that works ahead is good enough")

# %% [markdown]
# If the accelerator is the limit, nobody gains from another loader that works ahead. (The class `Batches` does not: it begins a batch when the consumer asks for it.) If all cores decode, another loader decodes with the same library on the same cores: store smaller photos, cache, or offload. If the storage is the limit, all loaders wait for the same bytes. Change the loader when its *own* cost is what you wait for: the interpreter, the way between processes, or the start of workers.
#
# ## Exercises
#
# **13.1** Write `collate(samples)` for PyTorch or any other loader. `samples` is a list of (image, label): an array of uint8, and an int. Return the images as one uint8 array of shape (samples, height, width, 3), and the labels as one int64 array. Two lines.

# %% tags=["stub"]
def collate(samples):
    ...  # your code

# %% tags=["solution"]
def collate(samples):
    import numpy as np

    images, labels = zip(*samples)
    return np.stack(images), np.array(labels, np.int64)

# %%
try_it("13.1", collate)
check("13.1", collate)

# %% [markdown]
# **13.2** A stream of PyTorch (`IterableDataset`) runs in each worker from the beginning. Without a division, each photo comes once from *every* worker. Write `numbers(length, workers, worker)`. It returns the list of the photos' numbers for this worker. All workers together have every number of `range(length)` exactly once, and no worker has two more than another. One line.

# %% tags=["stub"]
def numbers(length, workers, worker):
    ...  # your code

# %% tags=["solution"]
def numbers(length, workers, worker):
    return list(range(worker, length, workers))

# %%
try_it("13.2", numbers)
check("13.2", numbers)

# %% [markdown]
# Where PyTorch is installed, the next cell hands your two answers to a stream with two workers. It prints whether each photo came once:

# %% tags=["nbval-ignore-output"]
answered = numbers(4, 2, 1) is not None and collate([(np.zeros((1, 1, 3), np.uint8), 0)]) is not None
if answered and labkit.have("torch", "pip install torch"):

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            return ((load(n), n) for n in numbers(len(paths), worker.num_workers, worker.id))

    came = list(DataLoader(Stream(), BATCH, collate_fn=collate, num_workers=2))
    print(came[0][0].shape, came[0][0].dtype)
    print("each photo once:", sorted(np.concatenate([n for _, n in came])) == list(range(len(paths))))
else:
    print("write 13.1 and 13.2 first, and have PyTorch")

# %% [markdown]
# **13.3** In PyTorch: write `loader(photos, batch, workers)`. `photos` is a list of samples as in 13.1. It returns a `DataLoader` for training: each epoch in another order, workers that live on, whole batches of two tensors, uint8 and int64. It works with 0 workers, too. One statement. Without PyTorch, nothing counts against you.

# %% tags=["stub"]
def loader(photos, batch, workers):
    ...  # your code

# %% tags=["solution"]
def loader(photos, batch, workers):
    from torch.utils.data import DataLoader

    return DataLoader(photos, batch, shuffle=True, num_workers=workers, drop_last=True,
                      persistent_workers=workers > 0)

# %%
check("13.3", loader)

# %% [markdown]
# ## Recap
#
# You wrote one pipeline for several loaders, and compared them on equal work. You saw that threads share one interpreter, that processes pay for start, memory and transfer, and that a slow accelerator makes all loaders that work ahead nearly equal.
#
# ## In practice
#
# - Record the loader that you have, before you change it: `labkit.record(loader, accelerator)`.
# - Keep uint8 until the device, and collate in the worker.
# - Let workers live for more than one epoch (`persistent_workers=True`).
# - Compare loaders only on equal work: count photos and labels, and look at pixels.
#
# **Next:** optional, [13b Describe a pipeline to DALI](13b_describe_a_pipeline_to_dali.ipynb): regions of photos, boxes, frames, and an operator of your own. Or on to [14 Scale out](14_scale_out.ipynb).
