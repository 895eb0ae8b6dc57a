# %% [markdown]
# # Diagnose a sick pipeline
#
# **You will** examine pipelines that have one fault each, name the fault, fix it, and prove that it is gone.
#
# **You will learn** to go from a symptom to a cause without help, to look at the timeline and at the data before you look at the code, and to prove a fix by data and structure instead of a stopwatch.
#
# **You need** notebooks 00 to 07. You need no GPU. About 60 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
import tensorflow as tf
from labcourse import check, drills, idea, predictions, submit, try_it, variants

# %% [markdown]
# ## The idea
#
# Find the time in which the accelerator is idle. Then ask which threads work at that time, and what they do:

# %%
idea("10")

# %% [markdown]
# ## A drill
#
# So far labkit told you what each gap waited for, and what to change. In your own job you will often have less: a picture, some code, and the impression that something is wrong. A *drill* is practice for that. It is a pipeline with exactly one fault. A number chooses the drill, and the same number is the same drill on every machine:

# %%
drill = drills.draw(7)
print(f"{drill.name} should deliver {drill.task}.")
print(f"{len(drill.diagnoses)} things can be wrong, and one of them is.")

# %% [markdown]
# ## The timeline
#
# Look at the timeline first. The timeline of a drill shows the lanes and the gaps. It does not say what the gaps wait for, because you are to find that. (`labkit.Timeline(drill.trace)` would say it. Use it later, to check yourself.)
#
# Three questions lead to most faults. *Who works while the accelerator waits?* *How many threads work at once?* *Does the same work come again?*

# %% tags=["nbval-ignore-output"]
labkit.show(drill.timeline, steps=3)

# %% [markdown]
# While the accelerator waits, threads read files. The reads move from thread to thread, but at any moment only one thread reads. The reads go on while the accelerator trains, so prefetch works. What is missing is a second read at the same time as the first.
#
# Now read the code, and the list of everything that can be wrong with a drill. The function gets a `case`, which holds a few small photos. `case.photos` are names of JPEG files with their labels. `case.read(path)` reads a file from modelled storage, which takes 4 ms. `case.options(threads=16)` gives the map 16 threads, and it stops TensorFlow from changing your pipeline: the code that you read is the code that runs.

# %%
print(drill.code)
for number, text in enumerate(drill.diagnoses, 1):
    print(f"{number:>3}  {text}")

# %% [markdown]
# There are 16 threads, but `map` says nothing about calling `load` several times at once.
#
# Before you believe a diagnosis, test one that does *not* fit. Suppose that nothing were prepared while the accelerator trains. Then the accelerator and the pipeline would take turns. In the timeline they do not:

# %%
drill.diagnose("nothing is prepared while the accelerator trains: there is no prefetch")

# %% [markdown]
# After a wrong answer you read how the fault that you named would show, and nothing else. Here is the right answer. You can also give its number in the list:

# %%
drill.diagnose("photos are loaded one after the other: the map is not parallel")

# %% [markdown]
# ## Predict
#
# A batch has 8 photos, a read takes 4 ms, and a train step takes 10 ms. Suppose the fault is fixed, and eight photos are read at once. What share of the time, from 0 to 1, will the accelerator be busy? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("10.busy", ..., unit="share")

# %% [markdown]
# ## Build
#
# Fix the fault and change nothing else. Each further change can bring a new fault, and the next reader has to understand it.

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
# `drill.record` runs your version before the same accelerator. The model is that of notebook 02. A step takes as long as the slower of two things: training (10 ms) or reading (8 photos of 4 ms in eight calls at once).

# %% tags=["nbval-ignore-output"]
after = labkit.Timeline(drill.record(fixed), explain=False)
model = 10 / max(10, 8 * 4 / 8)
predictions.review("10.busy", model=model, measured=after)

# %% tags=["nbval-ignore-output"]
labkit.compare(drill.timeline, after, labels=("as drawn", "fixed"))

# %% [markdown]
# The model knows reading and training only, so it says that the accelerator is always busy. The measured share is lower. The rest is work that the model leaves out: threads have to be woken, photos are decoded, and a batch has to be put together and handed over. The line *who works* calls a part of this time *neither*: then the accelerator waits, and no thread of the pipeline works yet.
#
# A faster pipeline proves little. A pipeline that loses every second photo is faster, too. `drill.fix` proves more. It uses other photos, on storage that answers at once, and asks three questions. Are the data right? Is the fault gone from the graph? Is there no *other* fault of the list in its place?

# %%
drill.fix(fixed)

# %% [markdown]
# The next version removes the fault and brings another fault. It shuffles decoded images, in a buffer that must be filled first:

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
# Why did one argument help so much? A thread that reads is not busy. It sleeps until the storage answers. Eight sleeping threads need no more processor time than one, so eight reads end in the time of one read. If the threads were busy with *decode* instead, eight calls would help only as far as there are cores (notebook 04).
#
# For this reason a diagnosis has two parts: *what* the accelerator waits for, and *why* that takes so long. The timeline shows the first part, and the code shows the second. The table *from symptom to remedy* in the README lists the usual pairs.
#
# ## When no clock helps
#
# The next drill keeps its accelerator busy, and still has a fault. To find this kind of fault, look at the data. `probe` reads two epochs of the faulty pipeline and of a right one, and puts their numbers side by side. It does not say which line matters.
#
# The first lines say which photos and labels come. The lines with *mean* and *pixel* are brightness, from 0 to 1. The two lines with *against its original* say how much brighter a photo became. The last line says how much this change differs between the pixels of a photo: 0 if all pixels change by the same number.

# %% tags=["nbval-ignore-output"]
quick = drills.draw(1)
quick.probe()

# %% [markdown]
# Three lines differ. The two lines *mean where the original is brightest* and *spread of that difference* only say that the colours changed. The line *mean of red, green, blue* says how: red has the value that blue should have, and blue has the value of red. The labels and the order of the photos are right. A model trains on these photos without any error, and its accuracy suffers. Now you know what to look for in the code: a place that changes the order of the channels.

# %%
print(quick.code)
quick.diagnose("red and blue are exchanged: the channels are turned round although TensorFlow decodes to RGB")

# %% [markdown]
# ## Exercises
#
# Here are two drills for you: the timeline of drill 16, and the data of drill 15. Do not read their code yet. Decide on a diagnosis first.

# %% tags=["nbval-ignore-output"]
slow, wrong = drills.draw(16), drills.draw(15)
print(f"{wrong.name} should deliver {wrong.task}.")
print(wrong.probe())
labkit.show(slow.timeline)

# %% [markdown]
# **10.1** Write `diagnosis(seed)`: return what is wrong with drill 16 and with drill 15. Return a sentence of the list above, or its number. Two to four lines.

# %% tags=["stub"]
def diagnosis(seed):
    ...  # your code

# %% tags=["solution"]
def diagnosis(seed):
    if seed == 16:
        return "one file answers late, and all others wait for it because the order is kept"
    return "the random number is drawn for every pixel instead of for the photo: that is noise, not brightness"

# %%
try_it("10.1", diagnosis)
check("10.1", diagnosis)

# %% [markdown]
# **10.2** Write `fixed_16(case)`: drill 16 without its fault. Begin with `print(slow.code)`, and change one argument. About eight lines.

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
try_it("10.2", fixed_16)
check("10.2", fixed_16)

# %% [markdown]
# **10.3** Write `fixed_15(case)`: drill 15 without its fault. Begin with `print(wrong.code)`. Each photo becomes brighter or darker as a whole, by a number from −0.2 to 0.2. This number is new each time the photo comes. About ten lines.

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
try_it("10.3", fixed_15)
check("10.3", fixed_15)

# %% [markdown]
# ## Drills of your own
#
# There are more drills. In a course your id decides which drills are yours, so your neighbour usually has other drills. Take those three, or any other number. Write `drill` alone in a cell to see code, timeline and list at once.
#
# When you have finished, `submit` writes one file about this session: exercises, busy shares, speed-ups, and the predictions that are kept on this machine. The drills that this notebook solves count there, too. Call `submit` in each notebook. Without `folder` the file lies beside your notebook. The file has a pseudonym in place of your id, and it hides the names of your account and your machine. (A signature shows whether the file was damaged. It does not prove that you measured.)

# %% tags=["nbval-ignore-output"]
print(variants.of("student 42", problem="drills").drills)
path = submit("student 42", folder=tempfile.mkdtemp())

# %% [markdown]
# ## Recap
#
# You examined a pipeline without help. You asked who works, how many threads work at once, and what comes again. You tested a diagnosis that does not fit before you chose one. You fixed one thing and proved the fix by the data and the graph. You found a fault that no clock shows in the numbers of the data.
#
# ## In practice
#
# - Look at the timeline first, at the data second, at the code third. In the code alone, every line can look suspicious.
# - Say what you would see if your diagnosis were wrong, and look for that.
# - Change one thing. Measure and check the data before you change the next thing.
# - Write a test for each fault that you found.
#
# This is the end of the main course. `labkit.record` takes any `tf.data` pipeline of your own job, and its timeline names the causes. The notebooks that follow are electives: each one stands for itself.
#
# **Next:** [11 Train a real model](11_train_a_real_model.ipynb): nine of ten photos right, and what the pipeline has to do with it.
