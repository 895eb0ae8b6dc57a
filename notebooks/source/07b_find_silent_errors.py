# %% [markdown]
# # Find silent errors
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** run two augmentations that were published with errors, see that nothing complains, and find the errors by looking at the data.
#
# **You will learn** which errors in a map are silent, why no clock shows them, and how to check an augmentation before a long job.
#
# **You need** notebook 00. No GPU. About 25 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras import checks
from labkit import accelerators, discrepancy, photos, plain

# %% [markdown]
# ## The idea
#
# An error in a map can change the data without an error message. The job runs, and only the data show the error.

# %%
idea("07b")

# %% [markdown]
# ## The data
#
# Small pictures of 32×32 pixels, as in the set CIFAR-10, made from the photos:

# %%
def shrink(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.image.resize(image, [32, 32], method="area"), label


small = photos.load().take(64).files().map(shrink).cache()
picture, _ = next(iter(small))
print("one picture:", picture.shape)

# %% [markdown]
# ## Predict
#
# A published assignment turned each picture by a random angle. The number came from NumPy. Here the same code changes the brightness, because the function that turned the picture no longer exists:

# %%
def brighten_as_found(image):
    return tf.image.adjust_brightness(image, np.random.uniform(-0.2, 0.2))

# %% [markdown]
# The next cell maps this step over 100 copies of one picture. How many *different* pictures come out? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
print(predictions.commit("07b.pictures", ..., unit="images"))

# %% tags=["nbval-ignore-output"]
def different(step):
    copies = tf.data.Dataset.from_tensors(picture).repeat(100)
    return len({image.numpy().tobytes() for image in copies.map(step)})


predictions.review("07b.pictures", measured=different(brighten_as_found))

# %% [markdown]
# `np.random` is Python. TensorFlow runs the Python code of a map once, to make a graph of it. The random number became a constant of that graph: all pictures get the same number, in all epochs. `tf.random.uniform` becomes an operation of the graph, and it draws a new number for each picture:

# %%
def brighten(image):
    return tf.image.adjust_brightness(image, tf.random.uniform([], -0.2, 0.2))


print("as found:", different(brighten_as_found), "· with tf.random:", different(brighten))

# %% [markdown]
# ## Build
#
# The same assignment cuts a black square out of each picture (*cutout*). This is its code:

# %%
def cutout_as_found(image, size=8):
    top, left = tf.unstack(tf.random.uniform([2], 0, 32 - size, tf.int32))
    rows, columns = tf.range(top, size), tf.range(left, size)
    where = tf.stack(tf.meshgrid(rows, columns, indexing="ij"), axis=-1)
    tf.tensor_scatter_nd_update(image, where, tf.zeros([size, size, 3]))
    return image

# %% [markdown]
# And this is a correct one, written in another way. It marks the pixels of the square, and then it chooses black for the marked pixels:

# %%
def cutout(image, size=8):
    top, left = tf.unstack(tf.random.uniform([2], 0, 32 - size + 1, tf.int32))
    row, column = tf.range(32)[:, None], tf.range(32)
    hole = (row >= top) & (row < top + size) & (column >= left) & (column < left + size)
    return tf.where(hole[..., None], 0.0, image)

# %% [markdown]
# ## Run
#
# All versions run in a map without an error. Only the pictures differ:

# %% tags=["nbval-ignore-output"]
def twice(step):
    return list(tf.data.Dataset.from_tensors(picture).repeat(2).map(step))


shown = {"original": picture, "hole, as found": twice(cutout_as_found)[0]}
tries = {"hole, correct": cutout, "brightness, as found": brighten_as_found, "brightness, correct": brighten}
shown |= {f"{name}, {n}": image for name, step in tries.items() for n, image in enumerate(twice(step), 1)}
discrepancy.gallery(shown, title="What each step makes of one picture")

# %% [markdown]
# The published hole is missing, and the published brightness is the same both times. The correct steps make another picture each time.
#
# `checks.probe` compares for you: it maps one step many times over one picture and looks at what comes out.

# %%
for step in (brighten_as_found, cutout_as_found, cutout):
    faults = checks.probe(step, picture, name=step.__name__).faults
    print(step.__name__, *[fault.text for fault in faults] or ["no fault"], sep="\n  ")

# %% [markdown]
# A second look at the correct version: on white pictures, every hole must have 8×8 black pixels.

# %%
white = tf.data.Dataset.from_tensors(tf.ones([32, 32, 3])).repeat(100)
print("black pixels:", {int(tf.reduce_sum(1 - image[..., 0])) for image in white.map(cutout)})

# %% [markdown]
# ## The timeline
#
# Does the clock show the error? Compare the two versions in a job:

# %% tags=["nbval-ignore-output"]
def job(step):
    return plain(small.map(lambda image, label: (step(image), label)).repeat().batch(16).prefetch(2))


ten = accelerators.modelled(step_ms=10)
jobs = labkit.measure({"as found": job(cutout_as_found), "correct": job(cutout)}, ten, steps=10, profile=False)
jobs

# %% tags=["nbval-ignore-output"]
labkit.show(jobs.trace("as found"), jobs.trace("correct"), labels=("as found", "correct"), steps=3)

# %% [markdown]
# ## Explain
#
# Both jobs run at the speed of the accelerator, and deliver the same number of pictures with the same labels. The speed does not say that one of them trains on pictures without a hole. The timeline gives a hint, if you look for it: the job as found does almost no map work, because the work is missing.
#
# `tensor_scatter_nd_update` returns a *new* image, and the published code does not use it. TensorFlow then removes the whole computation from the graph. This hides a second error: `tf.range` takes a start and an *end*, so the end must be `top + size`. Outside of a map nothing is removed, and the same function complains:

# %%
try:
    for _ in range(10):
        cutout_as_found(picture)
except tf.errors.InvalidArgumentError as error:
    print(type(error).__name__)

# %% [markdown]
# `checks.inspect` does the same for a whole pipeline. It reads two epochs and compares them with the pictures without augmentation:

# %%
def augment(image, label):
    return cutout(tf.clip_by_value(brighten(image), 0, 1)), label


print(*checks.inspect(small.map(augment), small, random=True).faults or ["no fault"])

# %% [markdown]
# ## Exercises
#
# **07.3** Fix the published version: write `cut(image, top, left, size)`. It returns the image with a black square of `size` × `size` pixels. The upper left corner of the square is at (`top`, `left`).

# %% tags=["stub"]
def cut(image, top, left, size):
    ...  # your code

# %% tags=["solution"]
def cut(image, top, left, size):
    rows, columns = tf.range(top, top + size), tf.range(left, left + size)
    where = tf.stack(tf.meshgrid(rows, columns, indexing="ij"), axis=-1)
    return tf.tensor_scatter_nd_update(image, where, tf.zeros([size, size, 3]))

# %%
try_it("07.3", cut)
check("07.3", cut)

# %% [markdown]
# ## Recap
#
# You found three errors that raise no exception and change no speed: a random number from NumPy, a result that is not used, and a range with a wrong end. You found them in the data, with one picture and a few seconds of work.
#
# ## In practice
#
# - Draw random numbers with `tf.random` in a map, never with `np.random` or `random`.
# - Probe every random step once before a long job: `checks.probe(step, picture)`.
# - Look at pictures *after* the augmentation, and call the step once outside of the map.
#
# **Next:** [07c Survive damaged files](07c_survive_damaged_files.ipynb), which is optional, too, or [08 Offload to an FPGA](08_offload_to_an_fpga.ipynb).
