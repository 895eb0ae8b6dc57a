# %% [markdown]
# # Diagnose the patient
#
# **You will** examine pipelines that have one fault each, name the fault, fix it, and prove that it is gone.
#
# **You will learn** to go from a symptom to a cause without being told, in which of two places to look first, and why a repair is proved by data and structure and not by a stopwatch.
#
# **You need** notebooks 00 to 07. No GPU. About 40 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile

import tensorflow as tf
from labkit import drills, predictions, variants

# %% [markdown]
# ## A drill
#
# So far labkit told you what a gap waited for, and what to change. On your own job you will often have less: a picture, some code, and a feeling that something is wrong. A *drill* is practice for that. It is a pipeline with exactly one fault, drawn from a pool by a number:

# %%
drill = drills.draw(7)
print(f"{drill.name} should deliver {drill.task}.")
print(f"{len(drill.diagnoses)} things can be wrong, and one of them is.")

# %% [markdown]
# The same number is the same drill on every machine. The timeline of a drill shows lanes and gaps, and leaves out what the gaps wait for: that is for you to find. (`labkit.Timeline` of the trace would tell you. Use it afterwards, to check yourself.) Here is the whole drill, code, timeline and all that could be wrong with it:

# %% tags=["nbval-ignore-output"]
drill

# %% [markdown]
# The function gets a `case`, which holds a few small photos in several forms. `case.photos` are names of JPEG files with their labels, and `case.shards` are TFRecord files of the same photos. `case.read(path)` reads a file from modelled storage, which takes 4 ms. `case.options(threads=16)` gives the map 16 threads, so that waiting reads do not have to queue for the few cores that you have, and switches TensorFlow's own rewriting off: what you read is what runs.
#
# ## Predict
#
# A batch has 8 photos, a read takes 4 ms, a train step 10 ms. The accelerator is idle most of the time. Suppose the fault is fixed and eight photos are read at once: which share of the time will the accelerator be busy? Commit yourself before you go on.

# %% tags=["nbval-ignore-output"]
predictions.commit("10.busy", 0.7, unit="share")

# %% [markdown]
# ## The timeline
#
# Zoom in until you see single reads. Three questions settle most cases. *Who works while the accelerator waits?* *How many do so at once?* *Does the same work come again?*

# %% tags=["nbval-ignore-output"]
labkit.show(drill.timeline, steps=3)

# %% [markdown]
# Reads hop from worker to worker, but put a ruler anywhere: there is never more than one at a time. While the accelerator trains they go on, so prefetch does its work. Storage answers each read as quickly as it can. What is missing is a second read beside the first. Now look at the code: there are 16 threads, and `map` says nothing about using them.
#
# Before you believe a diagnosis, look at one that does *not* fit. If nothing were prepared ahead, the two would take turns, and they do not:

# %%
drill.diagnose("nothing is prepared while the accelerator trains: there is no prefetch")

# %% [markdown]
# A wrong answer is told how the fault that you named would show, and no more. The right one:

# %%
drill.diagnose("photos are loaded one after the other: the map is not parallel")

# %% [markdown]
# ## Build
#
# Fix what is broken and nothing else. Each further change is a further chance to break something, and the next reader has to understand it.

# %%
def fixed(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))

# %% [markdown]
# ## Run
#
# `drill.record` runs a version of yours beside the same accelerator. The model in the picture is notebook 02's: a step takes as long as the slower of the two, training (10 ms) or reading (8 photos of 4 ms by eight calls).

# %% tags=["nbval-ignore-output"]
after = labkit.Timeline(drill.record(fixed), explain=False)
model = 10 / max(10, 8 * 4 / 8)
predictions.review("10.busy", model=model, measured=after.busy)

# %% tags=["nbval-ignore-output"]
labkit.compare(drill.timeline, after, labels=("as drawn", "fixed"))

# %% [markdown]
# Faster is good, and it proves little: a pipeline that loses every second photo is faster, too. The proof looks at other photos than these, on storage that answers at once, and asks three things. Are the data those of a healthy pipeline? Is the fault gone from the graph? And has no *other* fault of the pool come in its place?

# %%
drill.fix(fixed)

# %% [markdown]
# See what it says to a fix that trades one trouble for another. This one also keeps the images shuffled, in a buffer that must be filled first:

# %%
def traded(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.map(load, num_parallel_calls=8).shuffle(case.size, seed=1)
    batches = photos.repeat().batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


drill.fix(traded)

# %% [markdown]
# ## Explain
#
# Why did one word help so much? The thread was not busy: it slept, until storage answered. Eight sleepers cost no more processor time than one, so eight reads end in the time of one. Were the lane full of *decode* instead, eight calls would help only as far as there are cores (notebook 04), and the same picture would have another remedy.
#
# That is why a diagnosis has two parts, *what* waits and *why it is so*, and why the code belongs beside the timeline. The table *from symptom to remedy* in the README lists the usual pairs.
#
# ## When no clock tells
#
# Another drill. Its accelerator is hardly ever idle:

# %%
quick = drills.draw(1)
print(quick.code)

# %% [markdown]
# For such cases there is a second place to look: the data. `probe` reads two epochs of the faulty pipeline and of a healthy one and puts their numbers side by side. It does not say which line matters, nor why.

# %% tags=["nbval-ignore-output"]
quick.probe()

# %% [markdown]
# Three lines differ. Two of them, *brightest* and *spread*, only say that the colours have changed. The third says how: red is what blue should be, and blue what red should be, while green, darkness, labels and their order fit. Somebody once needed OpenCL's order of channels, and left the line in. A model trains on such photos without any complaint and is a little worse for ever. With that in mind the code takes one look: which part of it turns channels round?

# %%
quick.diagnose("red and blue are exchanged: the channels are turned round although TensorFlow decodes to RGB")

# %% [markdown]
# ## Exercises
#
# Two drills of your own. Look at each first, as above: display it, show its trace, probe its data. `try_it` draws your own version beside the same accelerator.

# %% tags=["nbval-ignore-output"]
slow, wrong = drills.draw(16), drills.draw(15)
print(slow.code)
labkit.show(slow.timeline)

# %% tags=["nbval-ignore-output"]
print(wrong.code)
wrong.probe()

# %% [markdown]
# **10.1** Write `diagnosis(seed)`: return what is wrong with drill 16, and with drill 15, in the words of `drills.diagnoses()`. Two to four lines.

# %% tags=["stub"]
def diagnosis(seed):
    ...  # your code

# %% tags=["solution"]
def diagnosis(seed):
    if seed == 16:
        return "one file answers late, and all others wait for it because the order is kept"
    return "the random number is drawn for every pixel instead of for the photo: that is noise, not brightness"

# %%
labkit.try_it("10.1", diagnosis)

# %%
labkit.check("10.1", diagnosis)

# %% [markdown]
# **10.2** Write `fixed_16(case)`: drill 16 without its fault. Begin with `print(slow.code)`; the change is one word. About eight lines.

# %% tags=["stub"]
def fixed_16(case):
    ...  # your code

# %% tags=["solution"]
def fixed_16(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8, deterministic=False)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))

# %%
labkit.try_it("10.2", fixed_16)

# %%
labkit.check("10.2", fixed_16)

# %% [markdown]
# **10.3** Write `fixed_15(case)`: drill 15 without its fault. Each photo becomes brighter or darker as a whole, by a number from −0.2 to 0.2 that is drawn anew each time. About ten lines.

# %% tags=["stub"]
def fixed_15(case):
    ...  # your code

# %% tags=["solution"]
def fixed_15(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        shift = tf.random.uniform([], -0.2, 0.2)
        return tf.clip_by_value(image + shift, 0, 1), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))

# %%
labkit.try_it("10.3", fixed_15)

# %%
labkit.check("10.3", fixed_15)

# %% [markdown]
# ## Drills of your own
#
# The pool has more. In a course your id decides which are yours (and sizes and delays as well, `print` a variant to see them), so your neighbour has others as a rule:

# %%
print(variants.of("student 42", problem="drills").drills)

# %% [markdown]
# Take those three, or any other number. When you have finished, `labkit.submit` writes one file with what this session did, exercises, busy shares and speed-ups, and the predictions that are kept on this machine. Every notebook is a session of its own: call it in each. Without `folder` the file lies beside your notebook. It keeps a pseudonym in place of your id, and hides the names of your account and machine. (Its signature shows damage, it does not prove that you measured.)

# %% tags=["nbval-ignore-output"]
path = labkit.submit("student 42", folder=tempfile.mkdtemp())

# %% [markdown]
# ## Recap
#
# You examined a pipeline without any hint, asked who works, how many at once, and what comes again, and ruled out a diagnosis before you chose one. You fixed one thing and proved it by the data and the graph. You met a pipeline whose fault no clock shows, found the fault in its numbers, and fixed two more.
#
# ## In practice
#
# - Timeline first, data second, code third. Code alone makes every line look suspicious.
# - Say what you would have to see if you were wrong, and look for that.
# - Change one thing. Then measure, and check the data, before you change the next.
# - A fault that was found once is a test from then on.
#
# **Next:** your own job. `labkit.record` takes any `tf.data` pipeline, and its timeline tells the causes.
