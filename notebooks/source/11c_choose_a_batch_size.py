# %% [markdown]
# # Choose a batch size
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** measure how long a train step takes with batches of 1 to 512, and train a network with several batch sizes and learning rates.
#
# **You will learn** why "larger batches are faster" and "larger batches are worse" are both half of the truth, and what a batch size asks from an input pipeline.
#
# **You need** notebook 11. You need no GPU. About 45 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
from labcourse import check, idea, predictions, training, try_it
from labkit import charts, photos, pixels

# %% [markdown]
# ## The idea

# %%
idea("11c")

# %% [markdown]
# ## The photos
#
# All trainings of this notebook use pixels of 24×24, so that each of them takes seconds.

# %% tags=["nbval-ignore-output"]
learn, held_out = pixels.of(photos.load().train).shrunk(2), pixels.held_out().shrunk(2)
print("to learn from:", learn)
print("held out:     ", held_out)

# %% [markdown]
# ## The time of a step
#
# A train step has a part that is the same for every batch: the program starts some hundred operations, and it updates all weights. The other part grows with the number of photos. So the time of a step is about *a + b × batch*. The cell below measures steps and fits this line. On the processor it counts *CPU time*: the time of all cores together. On a GPU it looks at the clock:

# %% tags=["nbval-ignore-output"]
model = training.train(learn, steps=1).model
times = training.step_times(model, learn)
times

# %% tags=["nbval-ignore-output"]
series = {"measured": times.ms, "a + b × batch": times.line}
axes = {"x_label": "photos in a batch", "y_label": f"{times.unit} a step"}
charts.lines(times.batches, series, **axes, title="The time of a step", ideal="a + b × batch")

# %% [markdown]
# The times lie near a straight line. It does not begin at zero: its height at the left edge is *a*, the fixed part, and its slope is *b*.
#
# Published measurements have the same form, with other numbers:
#
# | what, where it was published | batches | a + b × batch |
# |---|---|---|
# | A100, ResNet-50, *inference* in float16 (NVIDIA DeepLearningExamples, MxNet RN50 v1.5) | 1 to 256 | 1.9 ms + 0.16 ms × batch |
# | P100, ResNet-50, training (TensorFlow's benchmark table) | 32 and 64 | 36 ms + 4.0 ms × batch |
# | K80, ResNet-50, training (the same table) | 32 and 64 | 62 ms + 18 ms × batch |
# | TITAN X, ResNet-50, training (mxnet-finetuner) | 10 to 40 | 31 ms + 8.2 ms × batch |
#
# ## Predict
#
# A pipeline must deliver as many images in each second as the accelerator takes: *batch / (a + b × batch)*. How many times more images does your machine train in a second with batches of 512 than with batches of 8? Calculate with the line above, and replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("11c.rate", ..., unit="times")

# %% tags=["nbval-ignore-output"]
def rate(batch, ms):
    return 1000 * batch / ms


measured = dict(zip(times.batches, times.ms))
line = dict(zip(times.batches, times.line))
for batch in times.batches:
    rates = rate(batch, measured[batch]), rate(batch, line[batch])
    print(f"batch {batch:>3}: {rates[0]:>6,.0f} images/s measured, {rates[1]:>6,.0f} by the line")
gain = {name: rate(512, ms[512]) / rate(8, ms[8]) for name, ms in {"line": line, "measured": measured}.items()}
predictions.review("11c.rate", model=gain["line"], measured=gain["measured"])

# %% [markdown]
# A small batch wastes most of a step on the fixed part. By the line, the rate of a large batch stands still at *1 / b*. (Where the measured rate goes on rising, the line does not hold so far out.) So from some batch size on, a larger batch hardly asks more from the pipeline.
#
# ## Build: equal epochs
#
# Lecture slides say: a batch of one photo leads to overfitting, and a larger batch reaches a higher accuracy in fewer epochs. Test it. Each training below sees every photo 12 times. With larger batches there are fewer steps, so fewer updates of the weights:

# %%
EPOCHS = 12
for batch in (32, 128, 512):
    print(f"batch {batch:>3}: {EPOCHS} epochs of 1,120 photos are {EPOCHS * 1120 // batch} updates")

# %% [markdown]
# The learning rate can stay, or it can grow with the batch. Two rules are in use. In the *linear* rule, four times the batch has four times the rate. In the *square-root* rule, it has twice the rate.

# %%
RULES = {"constant": lambda batch: 0.1, "linear": lambda batch: 0.1 * batch / 32, "square root": lambda batch: 0.1 * (batch / 32) ** 0.5}
for name, rule in RULES.items():
    print(f"{name:<12}", *(f"batch {batch}: {rule(batch):.2f}" for batch in (32, 128, 512)), sep="  ")

# %% [markdown]
# The function below prints three accuracies. The first one is that on held-out photos. *Its own photos* are those that the network learned from, and the trained model names them in the same way. *In training* is the accuracy that `fit` reports for the last epoch: there the photos are augmented, and batch normalization uses the statistics of the batch.

# %%
def learn_with(batch, rule, seed=0, steps=None):
    steps = steps or EPOCHS * len(learn) // batch
    trained = training.train(learn, batch=batch, rate=RULES[rule](batch), seed=seed, steps=steps)
    score, own = training.score(trained.model, held_out), training.score(trained.model, learn)
    percent = 100 * score.share, 100 * own.share, 100 * trained.accuracies[-1]
    words = "held out {:.1f} %, its own {:.0f} %, in training {:.0f} %".format(*percent)
    print(f"batch {batch:>3}, {rule + ',':<12} {steps:>5} steps, seed {seed}: {words}, {trained.cpu_s:.0f} CPU-s")
    return score

# %% [markdown]
# ## Run
#
# First batches of 32 and 128, with two seeds each:

# %% tags=["nbval-ignore-output"]
found = {}
for batch, rule in ((32, "constant"), (128, "constant"), (128, "square root"), (128, "linear")):
    for seed in (0, 1):
        found[batch, rule, seed] = learn_with(batch, rule, seed)
for seed in (0, 1):
    print(f"seed {seed}, linear against constant:", found[128, "linear", seed].against(found[128, "constant", seed]))

# %% [markdown]
# Then a batch that is half of the whole set:

# %% tags=["nbval-ignore-output"]
for rule in RULES:
    found[512, rule, 0] = learn_with(512, rule)

# %% [markdown]
# And a batch of one photo, with the square-root rule. It sees every photo 12 times, too, so it could overfit. This is the longest training of the notebook, because each of its 13,440 steps has the fixed part. The line ends with the seconds of processor time that it took:

# %% tags=["nbval-ignore-output"]
found[1, "square root", 0] = learn_with(1, "square root")

# %% tags=["nbval-ignore-output"]
bars = {f"batch {batch}, {rule}, seed {seed}": score.percent for (batch, rule, seed), score in found.items()}
charts.bars(bars, unit="photos named right, %", title="Twelve epochs for everybody", note="Whiskers: intervals of 95 %.")

# %% [markdown]
# ## Build: equal steps
#
# Now every training has 420 updates, one seed and each rule. A larger batch sees more photos, and costs more time. With 420 updates a batch of one sees fewer than half of the photos, and each of them once: here it *cannot* overfit. Batches of 32 have the same rate by every rule, and they have run above:

# %% tags=["nbval-ignore-output"]
equal = {(batch, rule): learn_with(batch, rule, steps=420) for batch in (1, 8) for rule in RULES}
equal[32, "every rule"] = found[32, "constant", 0]
equal[128, "constant"] = learn_with(128, "constant", steps=420)

# %% tags=["nbval-ignore-output"]
equal |= {(128, rule): learn_with(128, rule, steps=420) for rule in ("linear", "square root")}
for rule in RULES:
    print(f"batch 128, {rule:<11} against batch 32:", equal[128, rule].against(equal[32, "every rule"]))

# %% tags=["nbval-ignore-output"]
bars = {f"batch {batch}, {rule}": score.percent for (batch, rule), score in equal.items()}
charts.bars(bars, unit="photos named right, %", title="420 updates for everybody", note="One seed. Whiskers: intervals of 95 %.")

# %% [markdown]
# ## Explain
#
# From 32 photos on, the larger batch is worse at equal *epochs*. At equal *steps*, batches of 128 with a rate that grows are some points better than batches of 32. With the constant rate the difference is smaller: up to three points, with one seed, are hardly more than two seeds differ by. So it is not the batch that costs accuracy: it is the smaller number of updates. At equal epochs and with 128 photos, a rate that grows with the batch gives back a part of what is lost. With 512 photos there are 26 updates, and no rule comes near: the linear rule even asks for a rate at which the training goes wrong.
#
# Below 32 photos this is not the whole story. With 420 updates, batches of 8 stay below 60 % with each of the three rules, and a batch of one hardly exceeds a guess. In 12 epochs a batch of one has 13,440 updates, and it is still far behind.
#
# Does it overfit there? It names about two in five of the held-out photos right, and about as many of its own. So it fails on its own photos, too. The gap is no larger than that of batches of 32, which have about 86 and 94 %. The largest gaps above belong to batches of 128, whether they see every photo 12 times or 48 times. And yet, at equal steps, they have the best accuracy on held-out photos.
#
# In training, the batch of one names 83 % right. So it has learned something that is lost when it is used. A likely reason is batch normalization: in training each photo is normalized by its own statistics, and later by an average over other photos. This run does not prove it.
#
# This is what the literature says. Hoffer and others (2017): the gap "stems from the relatively small number of updates rather than the batch size". Goyal and others (2017): the linear rule with a warm-up holds up to batches of 8,192 on ImageNet, which has a thousand times more photos. Shallue and others (2019): "We find no evidence that larger batch sizes degrade out-of-sample performance". Smith and others (2018): instead of lowering the rate, one can raise the batch. Keskar and others (2017) had blamed sharp minima.
#
# Differences that are smaller than the whiskers, or smaller than the difference of two seeds, are no differences. The word *best* needs more seeds than two.
#
# ## Exercises
#
# **11.5** Write `needed(fixed_ms, per_image_ms, batch)`: the images that a pipeline must deliver in each second, so that an accelerator with this line never waits. One line.

# %% tags=["stub"]
def needed(fixed_ms, per_image_ms, batch):
    ...  # your code

# %% tags=["solution"]
def needed(fixed_ms, per_image_ms, batch):
    return 1000 * batch / (fixed_ms + per_image_ms * batch)

# %%
try_it("11.5", needed)
check("11.5", needed)

# %% [markdown]
# ## Recap
#
# You fitted the time of a step, and you know what it asks from a pipeline. You trained with equal epochs and with equal steps, and saw that from 32 photos on the number of updates explains the difference. You saw that a batch of one is worse without overfitting more.
#
# ## In practice
#
# - Choose the batch by the line: from the size on where the fixed part is small, a larger batch gains little time.
# - When you enlarge the batch, raise the rate with it, with a warm-up, and count the updates that are left.
# - Compare two batch sizes at equal steps *and* at equal epochs, and say which one you mean.
#
# **Next:** [11d Augment in the model](11d_augment_in_the_model.ipynb), which is optional, too, or [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
