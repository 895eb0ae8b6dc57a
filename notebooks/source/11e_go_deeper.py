# %% [markdown]
# # Go deeper
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** train a network of 32 layers with and without shortcuts, look at its gradients, and compare the augmentations that tutorials recommend.
#
# **You will learn** why deep networks have shortcuts, which usual reason for them is wrong, and when a difference between two augmentations is only chance.
#
# **You need** notebook 11. You need no GPU. About 45 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import functools

import keras
import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, training, try_it
from labkit import charts, photos, pixels

# %% [markdown]
# ## The idea

# %%
idea("11e")

# %% tags=["nbval-ignore-output"]
large, large_held_out = pixels.of(photos.load().train), pixels.held_out()
learn, held_out = large.shrunk(3), large_held_out.shrunk(3)
print("to learn from:", learn)
print("held out:     ", held_out)

# %% [markdown]
# ## Build: a plain and a residual network
#
# Both networks have the same convolutions in a row. In the *residual* network, the input of every two convolutions is added to their output. This addition is the shortcut. Where a stage changes the size, the shortcut has a small convolution of its own: so the residual network has 832 more weights. Photos of 16×16 pixels keep the training short.

# %%
def network(blocks, residual):
    return training.resnet(16, (blocks,) * 3, 8, stride=1, residual=residual)


for blocks in (1, 5):
    for residual in (False, True):
        model = network(blocks, residual)
        shortcuts = sum(isinstance(layer, keras.layers.Add) for layer in model.layers)
        print(f"{model.name:<9} {model.count_params():>7,} weights, {shortcuts:>2} shortcuts")

# %% [markdown]
# ## Predict
#
# Each network trains for 200 steps with batches of 64. A guess names 10 % right. The two networks of 8 layers are some points apart. What will the plain network of 32 layers reach? It has the same convolutions in a row as the residual network, and more weights than the small networks. Replace the three dots by a share from 0 to 1.

# %% tags=["nbval-ignore-output"]
predictions.commit("11e.plain", ..., unit="share")

# %% [markdown]
# ## Run

# %%
found = {}


def learn_both_depths(residual):
    for blocks in (1, 5):
        make = functools.partial(network, blocks, residual)
        trained = training.train(learn, model=make, steps=200, batch=64)
        found[trained.model.name] = training.score(trained.model, held_out)
        print(f"{trained.model.name:<9} loss in training {trained.losses[-1]:.2f}, held out {found[trained.model.name]}")

# %% tags=["nbval-ignore-output"]
learn_both_depths(residual=False)

# %% tags=["nbval-ignore-output"]
learn_both_depths(residual=True)

# %% tags=["nbval-ignore-output"]
bars = {name: score.percent for name, score in found.items()}
charts.bars(bars, unit="photos named right, %", title="With and without shortcuts", note="One seed, 200 steps. Whiskers: intervals of 95 %.")

# %% tags=["nbval-ignore-output"]
print(found["resnet32"].against(found["plain32"]))
predictions.review("11e.plain", measured=found["plain32"].share)

# %% [markdown]
# With 32 layers the plain network is worse, and it is worse in the *training* loss, too. So this is not overfitting: the deeper network has more weights and cannot use them. With other seeds the accuracies change by several points, but in three runs of each (`benchmarks/training.py --only depth`) with 32 layers every residual network was better than every plain one.
#
# ## Why? Look at the gradients
#
# A frequent answer is: the gradients vanish on their way to the first layers, and shortcuts carry them there. Test it. The cell below computes the gradient of the loss for one batch, before any training, and prints its size at the first and at the last convolution:

# %%
def gradient_sizes(model, batch=64):
    images = training.normalised(learn.images[:batch].astype(np.float32) / 255)
    kernels = [layer.kernel for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        value = loss(learn.labels[:batch], model(images, training=True))
    return [float(tf.norm(one)) for one in tape.gradient(value, [kernel.value for kernel in kernels])]

# %% tags=["nbval-ignore-output"]
sizes = {}
for residual in (False, True):
    keras.utils.set_random_seed(0)
    model = network(5, residual)
    sizes[model.name] = gradient_sizes(model)
    print(f"{model.name:<9} first convolution {sizes[model.name][0]:.2f}, last convolution {sizes[model.name][-1]:.2f}")

# %%
vanishes = {name: bool(size[0] < 0.1 * size[-1]) for name, size in sizes.items()}
print("does the gradient vanish on its way to the first layer?", vanishes)

# %% [markdown]
# The gradient of the plain network does not vanish. Batch normalization takes care of that: it scales the values of each layer. The authors of residual networks say so themselves (He and others, 2016, section 4.1): they checked that neither the values nor the gradients of the plain network vanish. What shortcuts change is how easily the network is *trained*: a block that has nothing to add can stay near zero, and the network begins as a shallow one.
#
# Lecture slides give as a reason that "error terms reach the first layers". With batch normalization they reach them without shortcuts, too. They also say that each layer makes the dimensions smaller. In these networks only two of the three stages do: inside of a stage all layers have the same size.
#
# ## What depth means for a pipeline
#
# A deeper network computes longer for each image, so the same pipeline feeds it more easily. Here are the times of a step, for each image:

# %% tags=["nbval-ignore-output"]
for blocks in (1, 5):
    model = training.train(learn, model=functools.partial(network, blocks, True), steps=1).model
    times = training.step_times(model, learn, (16, 64), repeats=3)
    print(f"{model.name:<9} {times.ms[1] / 64:.2f} {times.unit} for each image at batch 64")

# %% [markdown]
# ## Augmentations, and the noise of seeds
#
# Tutorials recommend to mirror, to shift, to turn by a small angle, and to cut out a square. Which one helps most? Each training below differs in the augmentation only, and each kind runs with two seeds:

# %%
turn = keras.layers.RandomRotation(15 / 360, fill_mode="reflect")


def cut(images):  # a grey square of 8×8 pixels at a random place of each photo
    row, column = tf.range(24)[:, None], tf.range(24)
    top, left = tf.unstack(tf.random.uniform([2, tf.shape(images)[0], 1, 1], 0, 17, tf.int32))
    hole = (row >= top) & (row < top + 8) & (column >= left) & (column < left + 8)
    return tf.where(hole[..., None], tf.constant(118, tf.uint8), images)

# %%
KINDS = {
    "none": None,
    "mirror": functools.partial(training.augmented, shift=0),
    "mirror, shift": training.augmented,
    "mirror, shift, cut out": lambda images: cut(training.augmented(images)),
    "mirror, shift, turn": lambda images: tf.cast(turn(training.augmented(images), training=True), tf.uint8),
}
print(len(KINDS), "kinds of augmentation")

# %%
small, small_held_out, kinds = large.shrunk(2), large_held_out.shrunk(2), {}


def learn_all(seed):
    for name, augment in KINDS.items():
        dataset = training.batches(small, augment=augment, seed=seed)
        trained = training.train(small, dataset, seed=seed, steps=350)
        kinds[name, seed] = score = training.score(trained.model, small_held_out)
        print(f"{name:<22} seed {seed}: {score}")

# %% tags=["nbval-ignore-output"]
learn_all(seed=0)

# %% tags=["nbval-ignore-output"]
learn_all(seed=1)

# %% tags=["nbval-ignore-output"]
bars = {f"{name}, seed {seed}": kinds[name, seed].percent for name in KINDS for seed in (0, 1)}
charts.bars(bars, unit="photos named right, %", title="Augmentations", note="24×24 pixels, 350 steps. Whiskers: intervals of 95 %.")

# %% [markdown]
# Two seeds of one kind differ by chance alone. There are five such pairs, and the largest difference among them is the *noise*. The difference of two kinds counts only if their means are farther apart than that:

# %% tags=["nbval-ignore-output"]
pairs = {name: [100 * kinds[name, seed].share for seed in (0, 1)] for name in KINDS}
noise = max(abs(one - other) for one, other in pairs.values())
print(f"the noise: {noise:.1f} points")
for name, pair in list(pairs.items())[1:]:
    for other in ("none", "mirror, shift"):
        points = np.mean(pair) - np.mean(pairs[other])
        verdict = "counts" if abs(points) > noise else "inside the noise"
        if name != other:
            print(f"{name:<22} against {other:<14} {points:+5.1f} points: {verdict}")

# %% [markdown]
# Compare the two bars of each kind first. If you run the cells again, most of them change: a seed fixes the first weights and the order of the photos, but not the random numbers of the augmentation. So two seeds are few, and the noise is itself a guess. Six more seeds of each kind (measured for this course) had these means: none 71.0 %, mirror 77.9 %, mirror and shift 81.5 %, with a hole 76.8 %, with a turn 80.3 %. There are 15 ways to take two of these six. By the rule above, mirroring counted against none in all 15, alone and with a shift or a turn, and with a hole in 13. Shifting counted against mirroring alone in 8 of them, the hole made it worse in 10, and the turn differed in one. So any augmentation helps here, with small pixels and few steps. A shift probably helps, and a large hole probably does not. About the turn nobody can say anything, whatever two seeds say above: of the 15 ways one counted.
#
# With photos of 48×48 pixels and 525 steps the picture changes. There, three seeds of each kind on 13,520 unseen photos gave means from 92.2 to 93.5 %, and the seeds of one kind differed by up to 2.3 points (measured for this course). For that training nobody can say which kind is best. With few photos it is another matter: there augmentation is worth more than ten points (notebook [11b](11b_count_what_errors_cost.ipynb)).
#
# ## Exercises
#
# **11.8** Write `depth(blocks)`: how many layers with weights lie one after the other in such a network? `blocks` is a list with the number of blocks of each stage. Count the first convolution, two for each block, and the last layer. Convolutions in shortcuts do not count. One line.

# %% tags=["stub"]
def depth(blocks):
    ...  # your code

# %% tags=["solution"]
def depth(blocks):
    return 2 + 2 * sum(blocks)

# %%
check("11.8", depth)

# %% [markdown]
# **11.9** Write `worth_reporting(one, other)`. Both are lists with the accuracies of several seeds, in percent. Return True if every run of `one` is above every run of `other`, or the other way round. Return False if the two lists overlap or touch. This rule is strict, and it needs no table of probabilities: with three seeds each, chance alone does this in one of ten cases.

# %% tags=["stub"]
def worth_reporting(one, other):
    ...  # your code

# %% tags=["solution"]
def worth_reporting(one, other):
    return min(one) > max(other) or min(other) > max(one)

# %%
try_it("11.9", worth_reporting)
check("11.9", worth_reporting)

# %% [markdown]
# ## Recap
#
# You saw a deep network that cannot be trained without shortcuts, measured that its gradients do not vanish, and compared augmentations with the noise of seeds beside them.
#
# ## In practice
#
# - Test a reason before you repeat it. One batch and one gradient are enough here.
# - Train the baseline with two seeds before you compare anything with it.
# - Report the number of seeds and of held-out photos with every accuracy.
#
# **Next:** [11f Feed three kinds of model](11f_feed_three_kinds_of_model.ipynb), which is optional, too, or [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
