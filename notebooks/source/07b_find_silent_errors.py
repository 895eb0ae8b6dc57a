# %% [markdown]
# # Find silent errors
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** run two augmentations that were published with errors, see that nothing complains, and find the errors by looking at the data.
#
# **You will learn** which errors in a map are silent, what a clock and a timeline say of them, and how to check an augmentation before a long job.
#
# **You need** notebook 00. No GPU. About 20 minutes. Special words are in the [glossary](../docs/glossary.md).

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
# ## Build
#
# A published assignment cuts a black square out of each picture (*cutout*), small pictures of 32×32 pixels. This is its code:

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
# Both run in a map without an error. Look at what comes out:

# %%
def shrink(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.image.resize(image, [32, 32], method="area"), label


small = photos.load().take(64).files().map(shrink).cache()
picture, _ = next(iter(small))


def several(step, count=3):
    return list(tf.data.Dataset.from_tensors(picture).repeat(count).map(step))

# %% tags=["nbval-ignore-output"]
shown = {}
for name, step in {"as found": cutout_as_found, "correct": cutout}.items():
    shown[f"the picture, before {name}"] = picture
    shown |= {f"{name}, {n}": image for n, image in enumerate(several(step), 1)}
discrepancy.gallery(shown, title="One picture, and what two versions of cutout make of it")

# %% [markdown]
# The published hole is missing. `checks.probe` compares for you: it maps one step many times over one picture and looks at what comes out.

# %%
for step in (cutout_as_found, cutout):
    faults = checks.probe(step, picture, name=step.__name__).faults
    print(step.__name__, *[fault.text for fault in faults] or ["no fault"], sep="\n  ")

# %% [markdown]
# ## Predict
#
# The same assignment turned each picture by a random angle. The number came from NumPy. Here the same code changes the brightness, because the function that turned the picture no longer exists:

# %%
def brighten_as_found(image):
    return tf.image.adjust_brightness(image, np.random.uniform(-0.2, 0.2))

# %% [markdown]
# The next cell maps this step over 100 copies of one picture. How many *different* pictures come out? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("07b.pictures", ..., unit="images")

# %% tags=["nbval-ignore-output"]
def different(step):
    return len({image.numpy().tobytes() for image in several(step, count=100)})


predictions.review("07b.pictures", measured=different(brighten_as_found))

# %% [markdown]
# `np.random` is Python. TensorFlow runs the Python code of a map once, to make a graph of it. The random number became a constant of that graph: all pictures get the same number, in all epochs. `tf.random.uniform` becomes an operation of the graph, and it draws a new number for each picture:

# %%
def brighten(image):
    return tf.image.adjust_brightness(image, tf.random.uniform([], -0.2, 0.2))


print("as found:", different(brighten_as_found), "· with tf.random:", different(brighten))

# %% [markdown]
# ## The timeline
#
# Does the clock show the missing hole? Compare the two versions in a job:

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
# The clock says nothing: both jobs are about equally fast, since the train step takes most of the time. The timeline says it, if you ask: over all steps, the threads prepare longer in the lower picture, and *per image*, in its words (`print(labkit.Timeline(jobs.trace("correct")))`), tells how long the map works. In the upper job that is next to nothing: a map is called, and does no work. (What its thread does there is to copy photos into a batch, and to hand them over.) Where the code has a step, and the timeline has no work of it, the step is missing.
#
# Why? `tensor_scatter_nd_update` returns a *new* image, and the published code does not use it. TensorFlow then removes the whole computation from the graph. This hides a second error: `tf.range` takes a start and an *end*, so the end must be `top + size`. Outside of a map nothing is removed, and the same function complains:

# %%
try:
    for _ in range(10):
        cutout_as_found(picture)
except tf.errors.InvalidArgumentError as error:
    print(type(error).__name__)

# %% [markdown]
# `checks.inspect` does the same as `checks.probe` for a whole pipeline. It reads two epochs and compares them with the pictures without augmentation:

# %%
def augment(image, label):
    return cutout(tf.clip_by_value(brighten(image), 0, 1)), label


print(*checks.inspect(small.map(augment), small, random=True).faults or ["no fault"])

# %% [markdown]
# ## Exercises
#
# **07.3** Fix the published version: write `cut(image, top, left, size)`. It returns the image with a black square of `size` × `size` pixels. The upper left corner of the square is at (`top`, `left`). Images come in any size.

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
# ## Without the lab
#
# At work: does a random step change a picture, and anew each time?

# %%
def probe(step, image, times=20):
    made = [one.numpy() for one in tf.data.Dataset.from_tensors(image).repeat(times).map(step)]
    changed = sum(not np.array_equal(one, image) for one in made)
    print(f"{changed} of {times} were changed, {len({one.tobytes() for one in made})} are different")


for step in (cutout_as_found, brighten_as_found, brighten):
    probe(step, picture)

# %% [markdown]
# ## Recap
#
# You found three errors that raise no exception in a pipeline and change no speed: a result that is not used, a range with a wrong end, and a random number from NumPy. Pictures of the data, and one call outside of the pipeline, showed them in a few seconds.
#
# ## In practice
#
# - Draw random numbers with `tf.random` in a map, never with `np.random` or `random`.
# - Probe every random step once before a long job.
# - Look at pictures *after* the augmentation, and call the step once outside of the map.
#
# **Next:** [07c Survive damaged files](07c_survive_damaged_files.ipynb), which is optional, too, or [08 Build a circuit](08_build_a_circuit.ipynb).
