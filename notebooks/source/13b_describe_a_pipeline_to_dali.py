# %% [markdown]
# # Describe a pipeline to DALI
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** write pipelines of NVIDIA's DALI on the processor: fed to PyTorch and to TensorFlow, with boxes, with frames of a clip, and with an operator of your own.
#
# **You will learn** what moves to the GPU and what cannot, what a region of a JPEG costs, and what each buffer takes of memory.
#
# **You need** notebook 13. DALI runs on Linux; no GPU is needed. Without DALI the arithmetic still runs, and a cell of DALI shows nothing. About 30 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf
from labcourse import check, idea, try_it
from labkit import charts, discrepancy, photos

# %% [markdown]
# ## The idea
#
# A pipeline of DALI is a graph, as one of tf.data is. Each operator has a place: the processor, or the GPU.

# %%
idea("13b")

# %% tags=["nbval-ignore-output"]
DALI = labkit.have("nvidia.dali", "pip install nvidia-dali-cuda120")
if DALI:
    from nvidia import dali
    from nvidia.dali import fn, pipeline_def, types

    print("DALI", dali.__version__)

# %%
album = photos.load()
paths, labels = [str(path) for path in album.paths[:64]], album.labels[:64].tolist()
BATCH = 16
print(len(paths), "photos, batches of", BATCH)

# %% [markdown]
# ## One pipeline, two frameworks
#
# The function below describes the graph. It runs once. `fn` operators do not touch pixels yet. They return nodes. `device_id=None` says that there is no GPU:

# %% tags=["nbval-ignore-output"]
if DALI:
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def loading():
        data, label = fn.readers.file(files=paths, labels=labels, name="photos")
        image = fn.decoders.image(data, output_type=types.RGB)
        return fn.resize(image, size=(224, 224)), fn.squeeze(label, axes=0)

    print(loading())

# %% [markdown]
# PyTorch gets an iterator. Its tensors are copied out of DALI's buffers:

# %% tags=["nbval-ignore-output"]
if DALI and labkit.have("torch", "pip install torch"):
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    batch = next(DALIGenericIterator([loading()], ["image", "label"], reader_name="photos"))[0]
    print(type(batch["image"]).__name__, tuple(batch["image"].shape), batch["label"][:5].tolist())

# %% [markdown]
# For TensorFlow, NVIDIA has a dataset class, which is compiled for each version of TensorFlow when it is installed. A generator needs no compiler, and its result is a dataset of `tf.data`:

# %% tags=["nbval-ignore-output"]
if DALI:
    def batches():
        pipeline = loading()
        for _ in range(len(paths) // BATCH):
            images, codes = pipeline.run()
            yield images.as_array(), codes.as_array()

    kinds = tf.TensorSpec((BATCH, 224, 224, 3), tf.uint8), tf.TensorSpec((BATCH,), tf.int32)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=kinds).prefetch(1)
    for images, codes in dataset.take(1):
        print(type(images).__name__, images.shape, codes.numpy()[:5].tolist())

# %% [markdown]
# ## Read a region only
#
# A crop needs a part of the pixels. `decoders.image_crop` skips the transform and the colours of the other parts. It cannot skip their bits: in a JPEG each code begins where the last one ended.

# %% tags=["nbval-ignore-output"]
if DALI:
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def cropping(region, side):
        data, _ = fn.readers.file(files=paths, labels=labels)
        if region:
            return fn.decoders.image_crop(data, crop=(side, side))
        return fn.crop(fn.decoders.image(data), crop=(side, side))

    spent = {}
    for name, region, side in (("all, then crop to 224", False, 224), ("a region of 224", True, 224),
                               ("a region of 64", True, 64)):
        pipeline, rounds = cropping(region, side), []
        for _ in range(7):
            before = time.process_time()
            for _ in range(4):
                pipeline.run()
            rounds.append((time.process_time() - before) * 1000 / (4 * BATCH))
        spent[name] = rounds[1:]
    display(charts.bars(spent, unit="ms of processor time per photo", title="A region saves the transform, not the codes"))

# %% [markdown]
# Another way to decode less: JPEG can be decoded at half the size, which is fast. But then the short side must have at least twice 224 pixels:

# %% tags=["nbval-ignore-output"]
short = [min(tf.io.decode_jpeg(tf.io.read_file(path)).shape[:2]) for path in paths]
large = sum(side >= 2 * 224 for side in short)
print(f"short side: {np.median(short):.0f} pixels (median)")
print(f"{large} of {len(short)} photos are large enough")

# %% [markdown]
# At half the size, the short side of most photos would have less than 224 pixels. So it does not help here.
#
# ## What runs where
#
# | stage | processor | GPU |
# |---|---|---|
# | read files | `readers.file` | – (GPUDirect Storage reads arrays) |
# | decode JPEG | `decoders.image(device="cpu")` | `device="mixed"`: codes on the processor or the chip's decoder, pixels on the GPU |
# | resize, flip, colours | yes | `.gpu()`, then the same operators |
# | decode video | `decoders.video(device="cpu")`: some formats | `readers.video`, `decoders.video(device="mixed")` |
# | optical flow | – | `optical_flow` |
# | boxes | `random_bbox_crop`, `bb_flip` | `bb_flip` |
# | hand over to the network | copy to the device | nothing to copy |
#
# Which split is best depends on who is idle. A GPU that trains all the time pays for each operator that it takes over. Try each split, and measure. Here is what this machine says to a mixed decoder:

# %% tags=["nbval-ignore-output"]
if DALI:
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def mixed():
        data, label = fn.readers.file(files=paths, labels=labels)
        return fn.resize(fn.decoders.image(data, device="mixed"), size=(224, 224)), label

    try:
        images, _ = mixed().run()
        print("decoded into", type(images).__name__)
    except RuntimeError as error:
        print(str(error).splitlines()[0])

# %% [markdown]
# Without a GPU, DALI has no mixed decoder, no hardware decoder, no `readers.video` and no optical flow.
#
# ## Boxes follow the picture
#
# In a detection pipeline a label is a box: left, top, right, bottom, as shares of the width and height. Crop the picture, and the box moves with it:

# %%
def cropped(boxes, left, top, width, height):
    """Return the boxes whose centre is in the crop, as shares of the crop."""
    corner, size = np.array([left, top]), np.array([width, height])
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    kept = ((corner < centres) & (centres < corner + size)).all(axis=1)
    return ((boxes[kept].reshape(-1, 2, 2) - corner) / size).clip(0, 1).reshape(-1, 4)


boxes = np.array([[0.34, 0.04, 0.74, 0.65], [0.55, 0.14, 0.66, 0.34]])
print("before:", boxes.tolist())
print("a crop of the left half:", cropped(boxes, 0, 0, 0.5, 1).round(3).tolist())
print("a crop of the right half:", cropped(boxes, 0.5, 0, 0.5, 1).round(3).tolist())

# %% [markdown]
# DALI chooses a random crop that keeps boxes, moves them, and flips picture and boxes by the same coin. `discrepancy.framed` draws them:

# %% tags=["nbval-ignore-output"]
photo = tf.io.decode_jpeg(tf.io.read_file(paths[0])).numpy()
given = [photo] * 3, [boxes.astype(np.float32)] * 3, [np.arange(2, dtype=np.int32)] * 3
shown = {"with its boxes": discrepancy.framed(photo, boxes)}
print(photo.shape)

# %% tags=["nbval-ignore-output"]
if DALI:
    @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=21)
    def detection():
        image, box, label = fn.external_source(lambda: given, num_outputs=3)
        anchor, shape, box, label = fn.random_bbox_crop(box, label, bbox_layout="xyXY", thresholds=[0.1],
                                                        scaling=[0.6, 0.9], aspect_ratio=[0.8, 1.25],
                                                        allow_no_crop=False, total_num_attempts=50)
        image = fn.slice(image, anchor, shape)
        coin = fn.random.coin_flip()
        image, box = fn.flip(image, horizontal=coin), fn.bb_flip(box, horizontal=coin, ltrb=True)
        return fn.resize(image, size=(224, 224)), box, label, anchor, shape, coin

    print(type(detection()).__name__)

# %% tags=["nbval-ignore-output"]
if DALI:
    pipeline = detection()
    images, moved, _, anchors, shapes, coins = pipeline.run()
    for i in range(3):
        image, box, anchor, shape, coin = (np.array(part[i]) for part in (images, moved, anchors, shapes, coins))
        shown[f"draw {i + 1}{', flipped' * int(coin)}"] = discrepancy.framed(image, box)
        if not coin:
            expected = cropped(boxes, *anchor, *shape)
            print(f"draw {i + 1}: as computed above:", np.allclose(expected, box, atol=1e-5))
discrepancy.gallery(shown, title="Boxes follow crop and flip")

# %% [markdown]
# ## Frames of a clip
#
# A batch of clips has five dimensions: clips N, frames F, height H, width W and channels C. Here a disc moves through eight generated frames. Optical flow would tell where each pixel moves. It needs a GPU, so the *difference* of neighbouring frames stands in for it: it tells where something changed, not where to.

# %%
rows, columns = np.mgrid[:64, :64]
clip = np.stack([np.where((rows - 32) ** 2 + (columns - 8 - 6 * t) ** 2 < 64, 255, 30) for t in range(8)])
clip = np.repeat(clip[..., None], 3, axis=-1).astype(np.uint8)
changed = clip[1:].astype(np.int16) - clip[:-1]
print("F H W C:", clip.shape, clip.dtype)
print("differences:", changed.shape, changed.dtype, "from", changed.min(), "to", changed.max())
print("a batch of 4, N F H W C:", np.stack([clip] * 4).shape)

# %% tags=["nbval-ignore-output"]
frames = {"frame 1": clip[1], "frame 2": clip[2], "difference": np.abs(changed[1]).astype(np.uint8)}
if DALI:
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def sequences():
        frame = fn.external_source(lambda: [clip] * 4, layout="FHWC")
        change = fn.cast(frame[1:], dtype=types.INT16) - fn.cast(frame[:-1], dtype=types.INT16)
        return fn.resize(frame, size=(32, 32)), change

    pipeline = sequences()
    small, change = pipeline.run()
    print("layout of a sample:", small.layout(), "· the batch:", small.as_array().shape)
    print("as NumPy's differences:", np.array_equal(change.as_array()[0], changed))
discrepancy.gallery(frames, title="What changes between two frames")

# %% [markdown]
# ## An operator of your own
#
# A function of Python becomes an operator with `fn.python_function`. It holds the interpreter, so it runs for one batch at a time. For speed, NVIDIA's way is a class in C++, compiled into a library that `dali.plugin_manager.load_library` loads.

# %%
def vignette(image):
    """Darken the corners of a uint8 image."""
    high, wide = image.shape[:2]
    y, x = np.linspace(-1, 1, high)[:, None, None], np.linspace(-1, 1, wide)[None, :, None]
    return (image * (1 - 0.35 * (x**2 + y**2))).astype(np.uint8)


white = np.full((3, 3, 1), 200, np.uint8)
print(vignette(white)[..., 0].tolist())

# %% tags=["nbval-ignore-output"]
if DALI:
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def darker():
        data, _ = fn.readers.file(files=paths, labels=labels)
        image = fn.resize(fn.decoders.image(data), size=(224, 224))
        return image, fn.python_function(image, function=vignette)

    pipeline = darker()
    before, after = (part.as_array()[0] for part in pipeline.run())
    print("the operator did what the function does:", np.array_equal(after, vignette(before)))
    display(discrepancy.gallery({"before": before, "after": after}, title="An operator of one's own"))

# %% [markdown]
# ## Buffers cost memory
#
# `prefetch_queue_depth` says how many batches lie ready. Each takes its bytes:

# %%
DEPTHS = 1, 4, 16
batch_mb = 32 * 224 * 224 * 3 * 4 / 1e6
print(f"a batch of 32 float32 images: {batch_mb:.1f} MB")
for depth in DEPTHS:
    print(f"depth {depth}: {depth * batch_mb:.0f} MB")

# %% [markdown]
# Now measure what lies ready beside the batch in use. Each pipeline gets a process of its own: in this one, DALI would use memory again that earlier pipelines gave back.

# %% tags=["nbval-ignore-output"]
CODE = """
import sys, time, psutil
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=32, num_threads=2, device_id=None, prefetch_queue_depth=int(sys.argv[1]))
def floats():
    return fn.random.uniform(range=(0.0, 1.0), shape=(224, 224, 3))
pipeline, before = floats(), psutil.Process().memory_info().rss
pipeline.run()
time.sleep(3)  # until the queue is full
print((psutil.Process().memory_info().rss - before) / 1e6)
"""
for depth in DEPTHS if DALI else ():
    taken = float(subprocess.check_output([sys.executable, "-c", CODE, str(depth)], text=True))
    print(f"depth {depth:2}: {taken:.0f} MB, as much as {taken / batch_mb:.0f} batches")

# %% [markdown]
# Each step of the depth costs one batch; the one in use is not counted here. A pipeline that runs takes more, since DALI gives memory back late.
#
# A deeper queue helps against batches that take unequal times. It does not make a slow pipeline fast.
#
# ## Exercises
#
# **13.4** Write `workers(image_ms, batch, step_ms, cores)`. It returns how many threads of DALI, or workers of any loader, keep an accelerator busy. One image takes `image_ms` of a core, and a step on `batch` images takes `step_ms`. More workers than `cores` gain nothing, so the answer is `cores` at most. One line.

# %% tags=["stub"]
def workers(image_ms, batch, step_ms, cores):
    ...  # your code

# %% tags=["solution"]
def workers(image_ms, batch, step_ms, cores):
    return min(cores, -(-image_ms * batch // step_ms))

# %%
try_it("13.4", workers)
check("13.4", workers)

# %% [markdown]
# **13.5** Write `flipped(boxes)`: the boxes after the picture was mirrored, left for right. `boxes` has the shape (n, 4): left, top, right, bottom, as shares from 0 to 1. In the result, too, left is smaller than right. Two lines.

# %% tags=["stub"]
def flipped(boxes):
    ...  # your code

# %% tags=["solution"]
def flipped(boxes):
    import numpy as np

    left, top, right, bottom = np.transpose(boxes)
    return np.stack([1 - right, top, 1 - left, bottom], axis=1)

# %%
try_it("13.5", flipped)
check("13.5", flipped)

# %% [markdown]
# ## Recap
#
# You described pipelines as graphs of operators, and fed one to two frameworks. You saw that a region of a JPEG saves a part of the work only, that boxes must follow every change of the picture, and that each batch in a queue takes its bytes.
#
# ## In practice
#
# - Let the processor decode until it cannot keep up; then try `mixed`.
# - Flip boxes with the coin of their picture, and draw some of them before you train.
# - Choose the depth of a queue by the memory that is free, not by hope.
#
# **Next:** [14 Scale out](14_scale_out.ipynb), or your own data. The notebooks of the course are listed on the start page.
