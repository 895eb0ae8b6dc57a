# %% [markdown]
# # Train a real model
#
# **You will** train a small network until it names nine of ten photos that it has never seen, watch an ordinary `model.fit` from inside, and see what a better input pipeline changes.
#
# **You will learn** that a pipeline with the same pixels changes *how soon* a model is good, not *how good* it becomes, where the time of a train step goes, and how sure an accuracy is.
#
# **You need** notebooks 01 to 06. You need no GPU. About 60 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tensorflow as tf
from labcourse import check, idea, predictions, training, try_it
from labextras.fit import Watch, operations, operations_chart
from labkit import charts, photos, pixels, plain

# %% [markdown]
# ## The idea

# %%
idea("11")

# %% [markdown]
# ## The photos, and others that nobody has seen
#
# The network of this notebook learns from photos of 48×48 pixels: 7 kB for each photo. `pixels.of` decodes each photo once and resizes it. `pixels.held_out` paints photos of another seed, which the network never learns from. This takes about a minute the first time. Later runs take the pixels from a file.

# %% tags=["nbval-ignore-output"]
album = photos.load().train
learn, held_out = pixels.of(album), pixels.held_out()
print("to learn from:", learn)
print("held out:     ", held_out)

# %%
print(learn.images.shape[1:], learn.images.dtype, "·", f"{learn.images[0].nbytes:,} bytes for each photo")
print("classes:", ", ".join(learn.classes))

# %% [markdown]
# ## Build: the network and the recipe
#
# The network is a small *residual network*: seven convolutions in a row, and a sum around every two of them: a *shortcut*, which has a convolution of its own where the size changes. Its weights are 300 kB. It learns by gradient descent with momentum. The learning rate rises in a line to 0.1 in the first 30 % of the steps, and then falls to zero. Labels are *smoothed*: nine tenths of a label belong to its class, and one tenth to all classes alike, which keeps a network from being too sure. `training.train` compiles the model with this recipe and calls `model.fit`.

# %%
model = training.resnet()
convolutions = [layer for layer in model.layers if "conv" in layer.name]
print(f"{model.count_params():,} weights in {len(convolutions)} convolutions, of which {len(convolutions) - 7} lie in a shortcut")
rate = training.one_cycle(0.1, 525)
for step in (0, 78, 157, 300, 524):
    print(f"step {step:>3}: learning rate {float(rate(step)):.3f}")

# %% [markdown]
# ## Build: a naive and a good pipeline
#
# Both pipelines mirror and shift each photo at random. `numbers` gives three random numbers to each photo, so that both pipelines change the photos in the same way. The shuffle has a seed, so that both have the same order:

# %%
def endless(elements):
    numbers = tf.data.Dataset.counter().map(lambda i: tf.random.stateless_uniform([3], [0, i]))
    shuffled = elements.shuffle(len(album), seed=0).repeat()
    return tf.data.Dataset.zip((shuffled, numbers))


def prepare(images, u):  # of a batch: mirror and shift, then mean 0 and deviation 1
    return training.normalised(tf.cast(training.moved(images, u), tf.float32) / 255)

# %% [markdown]
# In the naive pipeline, each photo is read, decoded, resized and changed in each epoch, one after the other:

# %%
def load(file, u):
    image = pixels.shrink(tf.io.read_file(file[0]))
    return prepare(image[None], u[None])[0], file[1]


def naive():
    return plain(endless(album.files()).map(load).batch(32, drop_remainder=True))

# %% [markdown]
# The good pipeline uses notebooks 02, 05 and 06: pixels are decoded once and stay in memory, the change is one call for a whole batch, and the next batches are made during the train step.

# %%
def good():
    decoded = tf.data.Dataset.from_tensor_slices((learn.images, learn.labels))
    batched = endless(decoded).batch(32, drop_remainder=True)
    return batched.map(lambda photo, u: (prepare(photo[0], u), photo[1])).prefetch(2)

# %% [markdown]
# Both are functions, because a dataset with a shuffle remembers how often it was used: the second iterator over the *same* dataset gets another order. Each run below gets a new dataset.
#
# Do both deliver the same? This is the most important check of the notebook:

# %%
for step, (one, other) in enumerate(zip(naive().take(3), good().take(3))):
    same = bool(tf.reduce_all(one[1] == other[1])), float(tf.reduce_max(tf.abs(one[0] - other[0])))
    print(f"batch {step}: {one[0].shape}, same labels: {same[0]}, largest difference of the pixels: {same[1]}")

# %% [markdown]
# ## Predict
#
# The network needs the same number of steps with both pipelines, because it sees the same pixels. First measure the parts alone: how long does the naive pipeline take for a batch, and how long is a train step with data that is already there?

# %% tags=["nbval-ignore-output"]
prepare_ms, train_ms = training.parts_alone(naive(), learn)
print(f"the naive pipeline takes {prepare_ms:.0f} ms for a batch; a train step takes {train_ms:.0f} ms")

# %% [markdown]
# How many times sooner is the network trained with the good pipeline? Without a GPU, pipeline and training share the cores, so calculate with the good pipeline as if it took no time at all. Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("11.gain", ..., unit="times")

# %% [markdown]
# ## Run: watch `model.fit`
#
# `Watch` is a callback. It records 20 steps of an ordinary `model.fit`, and nothing else of the script changes. Both runs begin with the same weights and learn for one epoch:

# %% tags=["nbval-ignore-output"]
watched, runs = {}, {}
for name, make in {"naive": naive, "good": good}.items():
    watched[name] = Watch(steps=20, name=name)
    runs[name] = training.train(learn, make(), steps=35, callbacks=[watched[name]])
    print(f"{name:<6} loss of the epoch: {runs[name].losses[0]:.9f}")

# %%
print("same loss, to the last digit:", runs["naive"].losses == runs["good"].losses)

# %% [markdown]
# ## The timeline
#
# The losses are equal to the last digit. So all later steps are equal, too, and with them the accuracy. Only the time differs:

# %% tags=["nbval-ignore-output"]
traces = {name: watch.trace for name, watch in watched.items()}
labkit.show(traces["naive"], traces["good"], labels=("naive", "good"), steps=4)

# %% tags=["nbval-ignore-output"]
step_ms = {name: labkit.Timeline(trace).step_ms for name, trace in traces.items()}
gain = step_ms["naive"] / step_ms["good"]
predictions.review("11.gain", model=(prepare_ms + train_ms) / train_ms, measured=gain)

# %% [markdown]
# ## Where a step goes
#
# `operations` adds up the time of all operations, for each kind of layer and for the pipeline. The time is that of all threads together. *IteratorGetNext* is the operation with which `model.fit` waits for a batch: it stands inside of the compiled train step, where no Python clock sees it.

# %% tags=["nbval-ignore-output"]
by_layer = {name: operations(trace, by="name") for name, trace in traces.items()}
operations_chart.draw(by_layer["naive"], by_layer["good"], title="Time by kind of layer", most=9)

# %% tags=["nbval-ignore-output"]
for name, found in by_layer.items():
    print(f"{name:<6} IteratorGetNext: {found.get_next:.1%} of a step of {step_ms[name]:.0f} ms")

# %% [markdown]
# A published report shows the same change for a large job: after its pipeline was rebuilt, *IteratorGetNext* took 0.2 s instead of 25 s. The job there and the job here are different, so the seconds cannot be compared. The pattern can: the wait for a batch goes to almost nothing. (Without a GPU it can even grow: the train step now shares the cores with the pipeline.)
#
# Two things in the picture surprise many readers. *Batch normalization* takes a large part of a train step, although it has few weights: it reads and writes all values several times. And making the pictures from the files again in each epoch (decode, resize, cast) costs about as much as training.
#
# ## Train to the end
#
# Now the good pipeline trains for 525 steps, which are 15 epochs of 35 steps. After each epoch the network names the held-out photos:

# %% tags=["nbval-ignore-output"]
trained = training.train(learn, good(), check=held_out)
print("held out:", trained.checked[-1])
print(f"{trained.cpu_s:.0f} CPU-seconds, with the checks after each epoch")

# %% tags=["nbval-ignore-output"]
epochs = range(1, len(trained.checked) + 1)
seconds = {name: [35 * epoch * ms / 1000 for epoch in epochs] for name, ms in step_ms.items()}
curves = {name: [100 * score.share for score in trained.checked] for name in step_ms}
note = "Each marker ends an epoch. Seconds: steps times the measured time of a step."
axes = {"x_label": "seconds of training", "y_label": "held-out photos named right, %"}
charts.lines(seconds, curves, **axes, title="The same accuracies, in less time", note=note)

# %% [markdown]
# Only the good pipeline trained to the end. The naive one would make the same steps, so its accuracies are the same, and only its seconds are others.
#
# The curve can fall for some epochs in the middle, because the learning rate is highest there. The interval behind the accuracy says how far the accuracy on *all* such photos can be from the accuracy on these photos. Another seed of the training gives another accuracy, too, about one point away.
#
# How long does it take to 90 %? The steps are the same for both pipelines. The time of a step is measured above:

# %% tags=["nbval-ignore-output"]
reached = next((epoch for epoch, score in zip(epochs, trained.checked) if score.share >= 0.9), None)
steps = 35 * (reached or len(epochs))
print(f"90 % are reached after {steps} steps" if reached else "90 % are not reached")
for name, ms in step_ms.items():
    print(f"{name:<6} {steps} steps of {ms:.0f} ms: {steps * ms / 1000:.0f} s")

# %% [markdown]
# ## Explain
#
# The naive run waits for each batch, and its accelerator is idle meanwhile. The good run does the same steps without the waits. So in the chart its curve has the same heights, and each of them sooner.
#
# A faster pipeline that changes the pixels would have another curve, and no clock would show this. Notebook [11b](11b_count_what_errors_cost.ipynb) measures what such errors cost.
#
# The held-out photos matter, too. With 160 photos the interval is 4 points wide on each side: two networks that differ by 5 points could change places with other photos.
#
# ## TensorBoard
#
# `Watch(keep="build/profile")` keeps the profile where TensorBoard's plugin *xprof* finds it. The waits in its report are those of labkit, and the table of operations is the same. It needs a network connection for its tables. The page [TensorBoard](../docs/tensorboard.md) says how to start it.
#
# ## Exercises
#
# **11.1** Write `photos_needed(accuracy, points)`: how many held-out photos do you need, so that the 95 % interval of an accuracy (0 to 1) reaches about `points` percentage points to each side? The half width of the interval is 1.96 · √(p · (1 − p) / n). Return a whole number, rounded up.

# %% tags=["stub"]
def photos_needed(accuracy, points):
    ...  # your code

# %% tags=["solution"]
def photos_needed(accuracy, points):
    import math

    return math.ceil(accuracy * (1 - accuracy) * (1.96 / (points / 100)) ** 2)

# %%
try_it("11.1", photos_needed)
check("11.1", photos_needed)

# %% [markdown]
# ## Recap
#
# You trained a network to 90 % on photos that it had never seen. You watched `model.fit` from inside, found the wait in the compiled step, and proved that two pipelines train the same network, one of them sooner.
#
# ## In practice
#
# - Before you compare two pipelines by their speed, prove that they deliver the same pixels.
# - Watch 20 steps of the real script. You need no other tool and no change of the script.
# - Quote an accuracy with the number of held-out photos and with its interval.
#
# Five optional notebooks go on from here: [11b Count what errors cost](11b_count_what_errors_cost.ipynb), [11c Choose a batch size](11c_choose_a_batch_size.ipynb), [11d Augment in the model](11d_augment_in_the_model.ipynb), [11e Go deeper](11e_go_deeper.ipynb) and [11f Feed three kinds of model](11f_feed_three_kinds_of_model.ipynb).
#
# **Next:** [12 Extract from anywhere](12_extract_from_anywhere.ipynb).
