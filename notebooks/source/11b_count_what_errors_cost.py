# %% [markdown]
# # Count what silent errors cost
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** train one network, show it the same photos in 24 ways, train it again with three errors in the pipeline, and count what each error costs.
#
# **You will learn** which errors between a file and a model cost almost everything, which cost a few points that nobody notices, and which cost nothing. No clock shows any of them.
#
# **You need** notebook 11. You need no GPU. About 60 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import itertools

import numpy as np
import tensorflow as tf
from labcourse import check, drills, idea, predictions, training, try_it
from labextras import checks
from labkit import charts, photos, pixels

# %% [markdown]
# ## The idea

# %%
idea("11b")

# %% [markdown]
# ## One trained network
#
# The recipe is that of notebook 11. `readings` holds 2,000 photos that the network has never seen, read from their files in eight ways. All this takes about three minutes the first time, and half a minute later.

# %% tags=["nbval-ignore-output"]
learn, held_out = pixels.of(photos.load().train), pixels.held_out()
readings = pixels.readings()
model = training.train(learn).model
right = training.score(model, held_out)
print("as in training:", right)

# %% [markdown]
# ## Predict
#
# A model is trained with one preprocessing, and it is *served* with another. Serving is often written by other people, in another language, with another library. What do you expect when only this changes?
#
# - `colors`: the serving side has the colours in the order blue, green, red, as OpenCV has.
# - `scale`: the serving side forgets the mean and the deviation, and gives the model pixels from 0 to 1.
# - `resize`: the serving side resizes with `tf.image.resize`, which skips pixels, and the training did not skip them.
# - `jpeg`: the serving side gets the photos as JPEG files of a quality of 30.
#
# First put the four in order: which one costs most, and which one least? And which ones cost so little that it cannot be told from chance? Replace both lines of dots.

# %%
my_order = ...  # the costliest first, as in ["jpeg", "resize", "scale", "colors"]
my_harmless = ...  # none, one or several of the four, as in ["colors"]

FOUR = ["colors", "jpeg", "resize", "scale"]
if my_order is not ... and sorted(my_order) != FOUR:
    raise ValueError(f"my_order is {my_order}; allowed: each of {', '.join(FOUR)} once")
if my_harmless is not ... and not set(my_harmless) <= set(FOUR):
    raise ValueError(f"my_harmless is {my_harmless!r}; allowed: a list of some of {', '.join(FOUR)}")
print("the costliest first:", "no order yet" if my_order is ... else ", ".join(my_order))
print("cannot be told from chance:", "no answer yet" if my_harmless is ... else ", ".join(my_harmless) or "none")

# %% [markdown]
# Then say how much is left. The accuracy of a guess is 10 %. Replace the dots by shares from 0 to 1, the lowest share for the costliest error:

# %% tags=["nbval-ignore-output"]
print(predictions.commit("11b.colors", ..., unit="share"))
print(predictions.commit("11b.scale", ..., unit="share"))
print(predictions.commit("11b.resize", ..., unit="share"))
print(predictions.commit("11b.jpeg", ..., unit="share"))

# %% [markdown]
# ## Build: other values
#
# Each function below takes a batch of uint8 pixels and returns what the model gets. The model was trained with `normalised`, which gives all channels together a mean of about 0 and a deviation of about 1:

# %%
f = np.float32
IMAGENET = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], f)
values = {
    "blue, green, red": lambda x: training.normalised(x[..., ::-1] / f(255)),
    "0 to 255": lambda x: training.normalised(x.astype(f)),
    "divided by 255 twice": lambda x: training.normalised(x / f(255) / f(255)),
    "no mean, no deviation": lambda x: x / f(255),
    "−1 to 1": lambda x: x / f(127.5) - 1,
    "mean and deviation of ImageNet": lambda x: (x / f(255) - IMAGENET[0]) / IMAGENET[1],
}

# %%
values |= {
    "float16": lambda x: training.normalised((x / f(255)).astype(np.float16)),
    "5 bits in place of 8": lambda x: training.normalised((x // 8 * 8 + 4) / f(255)),
    "32 grey levels brighter": lambda x: training.normalised(np.minimum(x, 223) / f(255) + 32 / 255),
    "32 brighter, uint8 wraps around": lambda x: training.normalised((x + np.uint8(32)) / f(255)),
    "grey": lambda x: training.normalised(np.repeat(x.mean(-1, keepdims=True), 3, -1) / f(255)),
    "mirrored": lambda x: training.normalised(x[:, :, ::-1] / f(255)),
    "turned by 90°": lambda x: training.normalised(np.rot90(x, axes=(1, 2)) / f(255)),
    "upside down": lambda x: training.normalised(x[:, ::-1] / f(255)),
}
print(len(values), "ways to give the model other values,", len(readings), "ways to read the files")
print(*list(readings)[:4], sep=", ")
print(*list(readings)[4:], sep=", ")

# %% [markdown]
# ## Build: the statistics of a batch
#
# A model with batch normalization can be left in *training mode*. Then it normalizes each batch by the mean of this batch, and no longer by what it has learned. With mixed batches this costs nothing, and can even gain a point. What happens when all photos of a batch are of one class, as in a sorted folder?

# %%
in_turn = held_out.take(np.argsort(held_out.labels, kind="stable"))
mixed = training.score(model, held_out, batch=32, batch_statistics=True)
of_one_class = training.score(model, in_turn, batch=32, batch_statistics=True)

# %% [markdown]
# ## Run: one model, many readings

# %% tags=["nbval-ignore-output"]
served = {name: training.score(model, held_out, reads) for name, reads in values.items()}
served |= {name: training.score(model, found) for name, found in readings.items()}
served |= {"batch statistics, mixed": mixed}
order = sorted(served, key=lambda name: served[name].share)
for name in order:
    print(f"{name:<31} {100 * served[name].share:5.1f} %  {served[name].against(right)}")
print(f"{'batch statistics, one class':<31} {100 * of_one_class.share:5.1f} %  (photos in another order)")

# %% tags=["nbval-ignore-output"]
shown = {"batch statistics, one class": of_one_class} | {name: served[name] for name in order}
shown |= {"as in training": right}
bars = {name: score.percent for name, score in sorted(shown.items(), key=lambda one: one[1].share)}
note = "One network, 2,000 photos that it has not seen. Whiskers: intervals of 95 %. A guess names 10 % right."
charts.bars(bars, unit="photos named right, %", title="What serving can cost", note=note)

# %% tags=["nbval-ignore-output"]
asked = {"colors": "blue, green, red", "scale": "no mean, no deviation", "resize": "no antialias", "jpeg": "JPEG quality 30"}
for name, reading in asked.items():
    print(predictions.review(f"11b.{name}", measured=served[reading].share))

# %% [markdown]
# Now compare your order, and what you took for harmless, with what was measured:

# %% tags=["nbval-ignore-output"]
by_cost = sorted(asked, key=lambda name: served[asked[name]].share)
harmless = [name for name in by_cost if "chance" in served[asked[name]].against(right)]
print(f"{'':<28}{'you':<34}measured")
rows = {"the costliest first": (my_order, by_cost), "cannot be told from chance": (my_harmless, harmless)}
for words, (mine, found) in rows.items():
    print(f"{words:<28}{'–' if mine is ... else ', '.join(mine) or 'none':<34}{', '.join(found) or 'none'}")
if my_order is not ...:
    agree = [by_cost.index(more) < by_cost.index(less) for more, less in itertools.combinations(my_order, 2)]
    print(f"{sum(agree)} of {len(agree)} pairs are in the measured order.")

# %% [markdown]
# ## Explain
#
# There are four groups. In the first group, little is left: a wrong scale, one class in a batch. Somebody will notice. In the second group, the model is clearly worse: colours that are exchanged or gone, photos in another direction or in a frame. Who tries it on known photos will notice. In the third group, everything looks well, and some points are lost: a resize without antialias, a little more brightness. Nobody will notice, because nobody knows the accuracy that the model could have. In the fourth group, nothing can be told from chance: the decoder's method, a quality of 30, five bits of eight. So check the *resize*, and leave the codec alone.
#
# The row *turned as EXIF says* is better than the training: some photos lie on their side, and a note in the file (EXIF) says so. TensorFlow ignores this note, Pillow can apply it.
#
# The intervals are for *this* network. Another seed gives other values, but the groups stay.
#
# ## Find the step
#
# `checks.serving` compares two functions from a file to an image, and names the first step at which they differ. It needs no model. Here serving is written once more with TensorFlow, with two errors:

# %%
def train_fn(path):
    return pixels.shrink(tf.io.read_file(path)).numpy() / f(255)


def serve_fn(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, [48, 48]).numpy()[..., ::-1] / f(255)


some = photos.load().paths[:12]
found = checks.serving(train_fn, serve_fn, some)
print("first difference:", found.first)
print("all differences: ", ", ".join(one.step for one in found.differences))

# %% [markdown]
# ## Errors in the training
#
# Other errors change what the network learns. Each row below is a training of its own. To keep them short, they use 24×24 pixels, where the network reaches 81 to 84 %, and most of them two seeds, so that you see how far two right trainings differ.
#
# First: the photos are sorted by class, as in folders. Without a shuffle each batch holds one class. With a shuffle *buffer* of 64 photos, a batch holds mostly two to four classes:

# %%
small, small_held_out, learned = learn.shrunk(2), held_out.shrunk(2), {}


def learn_from(name, dataset, photos=small, steps=350, seed=0):
    trained = training.train(photos, dataset, steps=steps, seed=seed)
    learned[f"{name}, seed {seed}"] = found = training.score(trained.model, small_held_out)
    print(f"{name:<26} seed {seed}: {found}, loss in training {trained.losses[-1]:.3f}")

# %% tags=["nbval-ignore-output"]
in_folders = small.take(np.argsort(small.labels, kind="stable"))
for seed in (0, 1):
    learn_from("as it should be", training.batches(small), seed=seed)
learn_from("sorted, no shuffle", training.batches(in_folders, buffer=0))
learn_from("sorted, a buffer of 64", training.batches(in_folders, buffer=64))

# %% [markdown]
# Second: a random brightness is added to pixels that are still uint8. 250 + 10 is 4 there, so that bright parts turn black. The right way is to count in int32, and to stop at 255. The trainings "as it should be" above add no brightness at all. So compare the error with the right brightness, and not with them:

# %%
def more_light(images):
    return tf.random.uniform([tf.shape(images)[0], 1, 1, 1], 0, 64, tf.int32)


def brighter_that_wraps(images):
    return training.augmented(images) + tf.cast(more_light(images), tf.uint8)


def brighter_that_clips(images):
    more = tf.cast(training.augmented(images), tf.int32) + more_light(images)
    return tf.cast(tf.minimum(more, 255), tf.uint8)


print("250 + 10 in uint8:", (tf.constant(250, tf.uint8) + tf.constant(10, tf.uint8)).numpy())

# %% tags=["nbval-ignore-output"]
for seed in (0, 1):
    learn_from("brightness that clips", training.batches(small, augment=brighter_that_clips), seed=seed)
    learn_from("brightness that wraps", training.batches(small, augment=brighter_that_wraps), seed=seed)

# %% [markdown]
# Beside the right brightness, wrapping costs 14 to 25 points in the runs measured for this course. Trainings without any brightness are another comparison: the right brightness may end below or above these.
#
# Third: the augmentation stands *before* the cache. Then each photo is changed once, and is the same in all epochs. With few photos the network needs the changes most, so these trainings have 320 photos:

# %% tags=["nbval-ignore-output"]
few = small.take(slice(320))
for seed in (0, 1):
    for name, frozen in {"320, changed in each epoch": False, "320, changed once": True}.items():
        learn_from(name, training.batches(few, frozen=frozen), few, 300, seed)

# %% [markdown]
# The *training* loss of the frozen photos is the better one. Whoever looks at it alone takes the error for an improvement.
#
# Do more photos make the error harmless? Here it is with all 1,120 photos, beside the trainings "as it should be" from above:

# %% tags=["nbval-ignore-output"]
for seed in (0, 1):
    learn_from("1,120, changed once", training.batches(small, frozen=True), seed=seed)
    frozen, fresh = (learned[f"{name}, seed {seed}"] for name in ("1,120, changed once", "as it should be"))
    print("    beside the right training:", frozen.against(fresh))

# %% tags=["nbval-ignore-output"]
bars = {name: score.percent for name, score in learned.items()}
note = "24×24 pixels. Whiskers: intervals of 95 %."
charts.bars(bars, unit="photos named right, %", title="What an error in the training costs", note=note)

# %% [markdown]
# And with 48×48 pixels? The right training is the first one of this notebook, with the same seed:

# %% tags=["nbval-ignore-output"]
trained = training.train(learn, training.batches(learn, frozen=True))
frozen = training.score(trained.model, held_out)
print("changed in each epoch:", right)
print("changed once:         ", frozen, f"· {trained.cpu_s:.0f} CPU-seconds")
print("beside the right training:", frozen.against(right))

# %% [markdown]
# The changes are drawn anew in each run, so your values differ. For this course, such pairs of trainings with all 1,120 photos were measured with the seeds 0 to 4, and three pairs of an earlier run of this notebook count, too. With 24×24 pixels, seven pairs lost 6.2 to 13.6 points. The mean is 10.6, with a 95 % interval from 8.4 to 12.8. With 48×48 pixels, six pairs lost 1.2 to 3.9 points. The mean is 2.3, with an interval from 1.3 to 3.3.
#
# But the six *right* trainings with 48×48 pixels differ among themselves: they reach 90.9 to 94.0 %. So who trains once with each pipeline, and each time with another seed, cannot tell two points from chance. It takes several pairs.
#
# ## What a check can see
#
# `checks.inspect` reads a pipeline and looks for such errors. The pipelines here are the ones from above, without the normalization:

# %%
def change(images, labels):
    return training.augmented(images), labels


source = tf.data.Dataset.from_tensor_slices((few.images, few.labels))
frozen = source.batch(32).map(change).cache()
print(*checks.inspect(frozen, source.batch(32), random=True).faults or ["no fault"], sep="\n")

# %% [markdown]
# A check sees the data, and not what a model was trained with. `checks.inspect(dataset).unseen` lists what it cannot see. The order of the colours, a forgotten mean, or another resize on the serving side are invisible in one pipeline alone: they are differences between *two*. For these, use `checks.serving`.
#
# ## Exercises
#
# **11.3** Write `lost(right, other)`. Both are arrays of True and False with one value for each photo: whether a model named the photo right. Return two numbers, in percentage points: how much lower the accuracy of `other` is, and the half width of its 95 % interval. The interval is that of *paired* differences: 1.96 times the standard deviation of the differences, divided by the root of their number.

# %% tags=["stub"]
def lost(right, other):
    ...  # your code

# %% tags=["solution"]
def lost(right, other):
    import numpy as np

    differences = 100 * (np.asarray(right, float) - np.asarray(other, float))
    return differences.mean(), 1.96 * differences.std() / len(differences) ** 0.5

# %%
check("11.3", lost)

# %% [markdown]
# **11.4** Write `serve(path)`: it returns what the model of this notebook was trained with. That is a photo of 48×48 pixels, RGB, decoded by TensorFlow with the method `"INTEGER_ACCURATE"`, resized with antialias, rounded to whole grey levels, divided by 255, and given to `training.normalised`.

# %% tags=["stub"]
def serve(path):
    ...  # your code

# %% tags=["solution"]
def serve(path):
    from labcourse import training

    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.resize(tf.cast(image, tf.float32), [48, 48], antialias=True)
    return training.normalised(tf.round(image) / 255)

# %%
try_it("11.4", serve)
check("11.4", serve)

# %% [markdown]
# ## Drills
#
# A *silent drill* gives you what a network learns from, epoch by epoch, and the functions that read a file in training and in serving: `drill.epoch(0)`, `drill.photos`, `drill.held_out`, `drill.learned(file)` and `drill.served(file)` for each of `drill.files`. One thing is wrong, and you do not see the code: you have to measure. Another number gives another drill.

# %%
drill = drills.silent(7)
drill

# %%
images, labels = drill.epoch(0)
print(images.shape, images.dtype, "·", len(drill.files), "files,", len(drill.photos), "photos to learn from")
# drill.diagnose(3)  # your diagnosis, by its number

# %% [markdown]
# ## Recap
#
# You measured what errors cost that raise no exception and change no speed. Most of the loud ones are errors of scale and order. The quiet ones are resizing, the orientation in EXIF, and an augmentation that is frozen: its training loss looks well.
#
# ## In practice
#
# - Write the preprocessing once, and use the same code for training and serving. Where this is impossible, compare the two with `checks.serving` on ten files.
# - Shuffle the file names over the whole set, before any buffer.
# - Put the cache before the augmentation.
# - Look at an accuracy on photos that the model has not seen. The training loss can look better with an error.
#
# **Next:** [11c Choose a batch size](11c_choose_a_batch_size.ipynb), which is optional, too, or [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
