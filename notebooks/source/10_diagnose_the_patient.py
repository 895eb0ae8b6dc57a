# %% [markdown]
# # Diagnose a sick pipeline
#
# **You will** examine pipelines of which one thing is wrong, or nothing: name it, fix it, and prove that it is gone.
#
# **You will learn** to go from a symptom to a cause without help: the timeline first, the data second, the code last.
#
# **You need** notebooks 00 to 07. No GPU. About 45 minutes. Special words are in the [glossary](../docs/glossary.md). **Fast track** (15 minutes): the sections marked ▸.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
from time import perf_counter

import numpy as np
import tensorflow as tf
from labcourse import check, drills, idea, predictions, submit, try_it, variants

# %% [markdown]
# ## The idea ▸
#
# Find the time in which the accelerator is idle. Then ask which threads work at that time, and what they do:

# %%
idea("10")

# %% [markdown]
# ## A drill ▸
#
# So far labkit told you what a gap waited for. In your own job you often have less: a picture, and the impression that something is wrong. A *drill* is practice for that. A number chooses it, and the same number is the same drill on every machine:

# %%
drill = drills.draw(56, booked=False)
print(f"{drill.name} should deliver {drill.task}.\nOrdered for it: {drill.sheet}.")

# %% [markdown]
# One thing of this list is wrong, or nothing:

# %%
drill.diagnoses

# %% [markdown]
# You do not see the code yet. Code is full of things that look wrong and do no harm: a map that makes one call at a time is a fault only where its work is long. The recording knows.
#
# <details><summary>Where does the recording come from?</summary>
#
# The pipeline is real: `probe`, below, runs it. Its times are *modelled*, so that they are the same for everybody: a machine with the cores and the storage of the drill reads the graph of the pipeline and says when each thread does what. The machine that was *ordered* is not always the one that the drill got.
#
# `booked=False`: what this notebook solves for everybody does not count as your work.
#
# </details>
#
# ## The timeline ▸
#
# Three questions lead to most faults. *Who works while the accelerator waits? How many threads work at once, and what holds them up? Does the same work come again?*

# %% tags=["nbval-ignore-output"]
labkit.show(drill.timeline, steps=4)

# %% [markdown]
# There are eight cores, and for most of the time one thread works: it decodes. Press `⋯`, then *lanes*: its lane is called *map, hands out*. So it is the thread that asks a map for elements, and no *worker* of a pool. Now and then eight threads fetch for a moment, and then they rest. So storage is quick, and there are cores enough.
#
# Before you believe a diagnosis, test one that does *not* fit:

# %%
drill.diagnose("nothing is prepared while the accelerator trains: there is no prefetch")

# %% [markdown]
# A wrong answer tells you how it would show. The pipeline does work during the train steps. Here is the right one; its number in the list would do, too:

# %%
drill.diagnose("photos are loaded one after the other: a map that takes long is not parallel")

# %% [markdown]
# ## The code, last ▸
#
# After a diagnosis, right or wrong, the drill shows its code. `case` holds a few small photos and the library of the job:

# %%
print(drill.code)

# %% [markdown]
# Several places look wrong: a cache and a `prefetch` in front of the work, two maps without parallel calls, a batch that may be smaller, a deep `prefetch` at the end. Only `map(get)` is wrong: decoding takes long here. In another drill the same line is harmless.
#
# ## Predict
#
# A batch has 8 photos, decoding takes 4 ms for each, and a train step takes 12 ms. If `map(get)` makes eight calls at once, for what share of the time, from 0 to 1, will the accelerator be busy?

# %% tags=["nbval-ignore-output"]
predictions.commit("10.busy", ..., unit="share")

# %% [markdown]
# ## Fix ▸
#
# Change one thing. Each further change can bring a new fault.

# %%
def fixed(case):
    def get(record):
        data, target = case.parse(record)
        return case.decode(data), target

    def prepare(picture, target):
        picture = tf.cast(picture, tf.float32) / 255
        return case.mask(tf.clip_by_value(picture + case.draw(picture, 0.2), 0, 1)), target

    def last(pictures, targets):
        return case.tone(pictures), targets

    rows = case.files.cache().interleave(case.records, cycle_length=8, num_parallel_calls=8)
    rows = rows.shuffle(case.size).prefetch(2)
    rows = rows.map(get, num_parallel_calls=8)  # here
    rows = rows.map(prepare, num_parallel_calls=8).batch(case.batch).repeat()
    return rows.map(last).prefetch(48).with_options(case.options(threads=16))

# %% tags=["nbval-ignore-output"]
after = labkit.Timeline(drill.record(fixed), explain=False)
predictions.review("10.busy", model=12 / max(12, 8 * 4 / 8), measured=after)

# %% tags=["nbval-ignore-output"]
labkit.compare(drill.timeline, after, labels=("as drawn", "fixed"))

# %% [markdown]
# A faster pipeline proves little: one that loses every second photo is faster, too. `drill.fix` proves more. It runs your version on other photos and asks: are the data right? Does it keep up with the accelerator? Does it fit into memory?

# %%
drill.fix(fixed)

# %% [markdown]
# The next version is even cheaper, and has lost something:

# %%
def traded(case):
    return fixed(case).take(case.size // case.batch).cache().repeat().prefetch(2)


drill.fix(traded)

# %% [markdown]
# <details><summary>What has it lost?</summary>
#
# A cache behind the random brightness keeps the numbers, and the batches, of the first epoch for ever. No timeline shows that.
#
# </details>
#
# ## When no clock helps ▸
#
# The accelerator of the next drill is always busy. So look at the data. `probe` reads two epochs and puts their numbers beside those of a right pipeline. It does not say which line matters; random numbers differ a little in any case.

# %% tags=["nbval-ignore-output"]
quick = drills.draw(43, booked=False)
quick.probe()

# %% [markdown]
# *Mean of red, green, blue* is turned round. With other colours, pixels seem to jump, and the difference varies within a photo. Labels, sizes and order are right.

# %%
quick.diagnose("red and blue are exchanged")

# %% [markdown]
# <details><summary>And its code?</summary>
#
# `print(quick.code)` shows nothing suspicious: these *files* hold blue first, and the code takes them as they are. `image[..., ::-1]` behind `decode` mends it. In other drills the files are as usual, and the same `[..., ::-1]` is the fault.
#
# </details>
#
# ## When no code helps ▸
#
# A third of all drills have a fault of the *machine*: no line of the code caused it. Sometimes the code can help all the same.

# %% tags=["nbval-ignore-output"]
labkit.show(drills.draw(17).timeline, steps=4)

# %% [markdown]
# The dashed line says it: *two* cores, where all drills order eight. Many threads want to decode, and two of them can. Nothing in *this* code will help.
#
# ## Exercises ▸
#
# Two drills for you: the timeline of drill 40, and the data of drill 35.

# %% tags=["nbval-ignore-output"]
slow, wrong = drills.draw(40), drills.draw(35)
print(f"Ordered for {slow.name}: {slow.sheet}.\n")
print(wrong.probe())
labkit.show(slow.timeline, steps=4)

# %%
slow.diagnoses

# %% [markdown]
# **10.1** Write `diagnosis(seed)`: return what is wrong with drill 40 and with drill 35, as a sentence of the list or as its number. Two to four lines.

# %% tags=["stub"]
def diagnosis(seed):
    ...  # your code

# %% tags=["solution"]
def diagnosis(seed):
    if seed == 40:
        return "one file answers late, and all others wait for it because the order is kept"
    return "the random number is drawn for every pixel instead of for the photo: that is noise, not brightness"

# %%
try_it("10.1", diagnosis)
check("10.1", diagnosis)

# %% [markdown]
# **10.2** Write `fixed_40(case)`: drill 40 without its fault. Call `slow.diagnose(…)` and `print(slow.code)` first.

# %% tags=["stub"]
def fixed_40(case):
    ...  # your code

# %% tags=["solution"]
def fixed_40(case):
    def take_in(path, y):
        image = tf.cast(case.decode(case.read(path)), tf.float32)
        image = tf.clip_by_value(image + case.draw(image, 0.2), 0, 1)
        return case.mask(case.clean(image)), y

    examples = tf.data.Dataset.zip((case.paths, case.labels)).shuffle(case.size).repeat()
    examples = examples.map(take_in, num_parallel_calls=8, deterministic=False)
    examples = examples.batch(case.batch, drop_remainder=True).prefetch(2)
    return examples.with_options(case.options(threads=16))

# %%
try_it("10.2", fixed_40)
check("10.2", fixed_40)

# %% [markdown]
# **10.3** Write `fixed_35(case)`: drill 35 without its fault. Call `wrong.diagnose(…)` and `print(wrong.code)` first.
#
# <details><summary>A hint, after your diagnosis</summary>
#
# Draw the number yourself: `tf.random.uniform` takes a shape, and `[]` is that of one number.
# </details>

# %% tags=["stub"]
def fixed_35(case):
    ...  # your code

# %% tags=["solution"]
def fixed_35(case):
    def step(data, target):
        x = tf.cast(case.decode(data)[..., ::-1], tf.float32) / 255
        x = tf.clip_by_value(x + tf.random.uniform([], -0.2, 0.2), 0, 1)
        return case.mask(case.clean(x)), target

    data = case.files.interleave(case.records, cycle_length=8, num_parallel_calls=8)
    data = data.shuffle(case.size).repeat().map(case.parse, num_parallel_calls=10)
    data = data.map(step, num_parallel_calls=10)
    data = data.batch(case.batch, drop_remainder=True).prefetch(2)
    return data.with_options(case.options(threads=12))

# %%
try_it("10.3", fixed_35)
check("10.3", fixed_35)

# %% [markdown]
# ## Drills of your own
#
# In a course, your id chooses three drills. Otherwise take any numbers. `drill` alone in a cell shows task, timeline, list, and, after a diagnosis, code. Some drills are healthy: *nothing is wrong* is an answer.
#
# `submit` writes one file about this session: exercises, drills, and the predictions that are kept on this machine.
#
# <details><summary>What stands in it?</summary>
#
# A pseudonym in place of your id; no name of your account or your machine. A signature shows whether the file was damaged; it does not prove that you measured. Call `submit` in each notebook. Without `folder` the file lies beside your notebook.
#
# </details>

# %% tags=["nbval-ignore-output"]
print("drills of student 42:", *variants.of("student 42", problem="drills").drills)
path = submit("student 42", folder=tempfile.mkdtemp())

# %% [markdown]
# ## Without the lab
#
# At work, time the pipeline alone, and look at what it delivers. This needs TensorFlow and NumPy only, and takes any dataset of (images, labels):

# %% tags=["nbval-ignore-output"]
def examine(dataset, batches=8):
    began, seen = perf_counter(), []
    for images, labels in dataset.take(batches):
        seen.append((images.numpy(), labels.numpy()))
    print(f"{1e3 * (perf_counter() - began) / batches:.1f} ms a batch; longer than a train step? Then it is the limit.")
    images, labels = (np.concatenate(part) for part in zip(*seen))
    print(images.dtype, images.min(), "to", images.max(), "· colours", images.mean(axis=(0, 1, 2)).round(2))
    print(len(np.unique(labels)), "different of", len(labels), "labels; sizes", {len(i) for i, _ in seen})


examine(wrong.dataset)

# %% [markdown]
# ## Recap
#
# Timeline first, data second, code third: in the code alone, every line can look wrong.
#
# ## In practice
#
# - Say what you would see if your diagnosis were wrong, and look for that.
# - Ask whether the machine is the one that was ordered.
# - Change one thing. Then check the data, and measure.
#
# This is the end of the main course; the notebooks that follow are electives.
#
# **Next:** [11 Train a real model](11_train_a_real_model.ipynb): nine of ten photos right, and what the pipeline has to do with it.
