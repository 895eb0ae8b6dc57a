# %% [markdown]
# # Feed a GPU
#
# **You will** train a real network with three pipelines: one that costs nothing, the naive one, and the best one of this course. Then you will compare what the modelled accelerator of the other notebooks says about them with what really happens.
#
# **You will learn** how fast a train step is when its data are free, what each pipeline leaves of that speed, and when a modelled accelerator may be trusted.
#
# **You need** notebooks 09 and 11. This notebook is about a GPU, but it runs from top to bottom without one, too. The first cell says which of the two you have. About 40 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import os
import keras
import tensorflow as tf
from keras import layers
from labcourse import check, idea, ladder, predictions, try_it
from labextras.fit import Watch, operations, operations_chart
from labkit import accelerators, measures, photos
# Without this line, TensorFlow takes nearly all memory of a GPU, and DALI finds none.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
GPU = bool(tf.config.list_physical_devices("GPU"))
print("A GPU trains here. All figures of training below are those of this GPU." if GPU else
      "No GPU is here. The processor trains, on the same cores as the pipeline.")

# %% [markdown]
# ## The idea

# %%
idea("16")

# %% [markdown]
# ## Two machines, one notebook
#
# With a GPU, the network is ResNet-50 for photos of 224×224 pixels. The steps of the V100, the A100 and the H100 that this course models are steps of the same network. Without a GPU, such a step would take many seconds. So the processor trains a network of three convolutions, and the lesson is another one: a train step that takes the cores away from its own pipeline.
#
# `make gpu` installs TensorFlow with CUDA, and then runs this notebook on the GPU of your machine.
#
# ## Build: a network, and data that are free
#
# The photos are those of the other notebooks. A batch has 32 photos:

# %% tags=["nbval-ignore-output"]
everything = photos.load()
album = everything.take(min(len(everything), 160))
print(album)

# %%
def network():
    keras.utils.set_random_seed(1)
    if GPU:
        return keras.applications.ResNet50(weights=None, classes=10, classifier_activation=None)
    stack = [keras.Input([224, 224, 3])]
    for filters, stride in ((16, 4), (32, 2), (64, 2)):
        stack += [layers.Conv2D(filters, 3, stride, padding="same")]
        stack += [layers.BatchNormalization(), layers.ReLU()]
    stack += [layers.GlobalAveragePooling2D(), layers.Dense(10)]
    return keras.Sequential(stack, name="small_network")

# %% [markdown]
# What is the highest speed of this network on this device? Its data must cost nothing at all. The batch is made once, and it is kept in the memory of the device. In each step the model ignores what it is given, and trains on the batch that is kept:

# %%
with tf.device("GPU:0" if GPU else "CPU:0"):
    kept = tuple(map(tf.identity, next(iter(ladder.guide(album)))))


class Free(keras.Model):
    def __init__(self):
        super().__init__(name="free")
        self.network = network()

    def call(self, inputs, training=False):
        return self.network(inputs, training=training)

    def train_step(self, data):
        return super().train_step(kept)

# %% tags=["nbval-ignore-output"]
print("the batch is kept on", kept[0].device.rpartition("device:")[2])

# %%
print("one batch:", kept[0].shape, kept[0].dtype.name, "·", f"{kept[0].numpy().nbytes:,} bytes")
nothing = tf.data.Dataset.range(1).repeat()  # a pipeline that costs nothing
print("the pipeline that costs nothing delivers:", nothing.element_spec)

# %% [markdown]
# `naive` does one thing after the other (notebook 01). `best` is the fastest pipeline of the course that decodes each photo in each epoch (notebook 09):

# %% tags=["nbval-ignore-output"]
chosen = [rung for rung in ladder.RUNGS if rung.name in ("naive", "best")]
rungs = {rung.name: rung.build(album) for rung in chosen}
ladder.fill(rungs["best"], album)  # the first epoch fills its cache of files
data = {"data free": nothing} | rungs
models = {"data free": Free(), "naive": network(), "best": network()}
for model in models.values():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
print(f"{models['naive'].count_params():,} weights in each of {len(models)} copies")

# %% [markdown]
# ## Predict
#
# The speed with free data is 100 %. How much of it is left with the pipeline *best*? Think of the cores of your machine: who uses them, only the pipeline, or the train step, too? Replace the three dots by a share from 0 to 1.

# %% tags=["nbval-ignore-output"]
predictions.commit("16.best", ..., unit="share")

# %% [markdown]
# ## Run
#
# The three copies train with an ordinary `model.fit`, and `Watch` records some of its steps. A pipeline makes batches ahead before the first step is over. So the first steps are left out, and with a GPU more steps are recorded. The copies take turns, so that a slow minute of the machine hits all of them:

# %% tags=["nbval-ignore-output"]
WARMUP, STEPS = (10, 30) if GPU else (2, 6)
runs = {name: [] for name in models}
for _ in range(measures.rounds_of(5)):
    for name, model in models.items():
        watch = Watch(steps=STEPS, warmup=WARMUP, name=name)
        model.fit(data[name], steps_per_epoch=WARMUP + STEPS + 1, verbose=0, callbacks=[watch])
        runs[name].append(watch.trace)
found = measures.Measures.from_traces(runs)
found

# %% [markdown]
# The speed-ups compare with free data. Equal work is *not recorded* (unfold *how this was measured*), because `Watch` does not look at photos. And it was not equal: the first row trained on one batch only. This does not matter here, because the time of a step does not depend on what is on the photos. The next cell says what each pipeline leaves of the speed with free data:

# %% tags=["nbval-ignore-output"]
rate = {name: labkit.Timeline(found.trace(name)).images_per_s for name in models}
free_ms = labkit.Timeline(found.trace("data free")).step_ms
print(f"with free data: {rate['data free']:,.0f} images/s, {free_ms:.1f} ms a step")
for name in rungs:
    print(f"{name:<6} {rate[name]:,.0f} images/s, {rate[name] / rate['data free']:.0%} of that")

# %% [markdown]
# ## The timeline
#
# With a GPU, the accelerator is the lane of its *kernels*: the small programs that a GPU runs. Another lane shows the copies from the memory of the host to the GPU. Without a GPU, the lane of the accelerator shows the calls of the train step.

# %% tags=["nbval-ignore-output"]
labkit.show(*(found.trace(name) for name in rungs), labels=tuple(rungs), steps=4)

# %% [markdown]
# ## Where a step goes
#
# The picture and the table below add up the time of all operations. The column *where* has three values (and *any* in the last row: the rest, of several places). *Input pipeline* and *train step* are threads of the processor. *Device* is a GPU. Its rows are kernels and copies, and a note below the table says how many bytes a copy moves, and how fast.

# %% tags=["nbval-ignore-output"]
ops = {name: operations(found.trace(name), most=8) for name in rungs}
operations_chart.draw(ops["naive"], ops["best"], title="Time by operation", most=8)

# %% tags=["nbval-ignore-output"]
ops["best"]

# %% tags=["nbval-ignore-output"]
for name, one in ops.items():
    spent = dict.fromkeys(("input pipeline", "train step", "device"), 0.0)
    for row in one.rows:
        spent[row.where] += row.ns / 1e6 / one.steps
    print(f"{name:<6} ms a step:", ", ".join(f"{at} {ms:,.1f}" for at, ms in spent.items()))

# %% [markdown]
# ## The model of a card
#
# In the other notebooks the accelerator is modelled. It holds a batch for a stated time, and leaves the cores alone. Is that true to life? The cell below gives the model the time that you have measured with free data, and runs the same two pipelines with it:

# %% tags=["nbval-ignore-output"]
card = accelerators.modelled(step_ms=free_ms, name="card model")
modelled = labkit.measure(rungs, card, warmup=WARMUP, steps=STEPS, repeats=5)
says = {name: labkit.Timeline(modelled.trace(name)).images_per_s for name in rungs}
print(card.describe())
for name in rungs:
    print(f"{name:<6} modelled {says[name]:,.0f} images/s, measured {rate[name]:,.0f} images/s:"
          f" the model says {says[name] / rate[name]:.2f} times as much")

# %% tags=["nbval-ignore-output"]
free = rate["data free"]
predictions.review("16.best", model=says["best"] / free, measured=rate["best"] / free)

# %% [markdown]
# The presets of the course come from published figures. They can be compared with your GPU, because they are for the same network. But most of them state no precision, and they were measured with larger batches. The next cell says what they stand for, and how much each of them asks from the link to the GPU, with float32 pixels and with uint8 pixels:

# %%
for name in ("V100", "A100", "H100"):
    published = accelerators.modelled(name).images_per_s(32)
    mb = published * 224 * 224 * 3 / 1e6
    link = f"{4 * mb:,.0f} MB/s as float32, {mb:,.0f} MB/s as uint8"
    print(f"{name}: {published:,.0f} images each second, {link}")

# %% tags=["nbval-ignore-output"]
print("here:", f"{rate['data free']:,.0f} images/s of ResNet-50, measured" if GPU else
      "no GPU, and a smaller network: nothing to compare")

# %% [markdown]
# ## Decode on the GPU
#
# A GPU can decode JPEG files, too. NVIDIA's library for this is nvJPEG. TensorFlow has no operation that calls it: `tf.io.decode_jpeg` runs on the processor on every machine. DALI calls nvJPEG where a decoder has the device `"mixed"` (notebook [13b](13b_describe_a_pipeline_to_dali.ipynb)). DALI is a package of its own, and nothing in this lab installs it unasked:

# %% tags=["nbval-ignore-output"]
DALI = labkit.have("nvidia.dali", "pip install nvidia-dali-cuda120")
print("a GPU to decode on:", "yes" if GPU else "no, so nvJPEG cannot be measured")

# %% tags=["nbval-ignore-output"]
print("places to decode:", "the processor and the GPU" if GPU and DALI else "the processor only")
if DALI:
    import time

    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=32, num_threads=labkit.cores(), device_id=0 if GPU else None)
    def decoding(device):
        data, _ = fn.readers.file(files=[str(path) for path in album.paths])
        return fn.resize(fn.decoders.image(data, device=device), size=(224, 224))

    for device in ("cpu", "mixed") if GPU else ("cpu",):
        pipeline = decoding(device)
        batches = [pipeline.run() for _ in range(5)]  # warm
        begin = time.perf_counter()
        batches = [pipeline.run() for _ in range(20)]
        images_per_s = 20 * 32 / (time.perf_counter() - begin)
        print(f"{device:<5} {images_per_s:,.0f} images/s, decoded and resized")

# %% [markdown]
# ## Explain
#
# The row with free data is the limit of this network on this device. No pipeline can be faster. A row below it loses time in two ways: the accelerator waits for data, which is the *stall*, or the train step itself gets longer. The column *wait* of the first table shows the stall alone; so do the words of the timeline of *best*, which know the wait, and not that the step got longer.
#
# *With a GPU*, the train step needs only a little time of the processor, which starts the kernels. So pipeline and training overlap, and the time of a step is about the longer one of the two. That is what the modelled accelerator assumes, and so it can be close to the truth. Two things are missing in it. It does not copy the batch to the GPU, and it does not start kernels. Where the two numbers differ, look for them in the timeline.
#
# *Without a GPU*, the train step needs the cores, and it shares them with the pipeline. The naive pipeline does not work during a step, so little is shared, and the model errs less. The best pipeline works during the step, so the two slow each other down, and the train step itself gets longer. The model knows nothing of that: it promises more than the processor can do. So never plan for a GPU with a figure that a processor trained, and never the other way round.
#
# A pipeline that is good enough for one device can be too slow for the next one. A GPU that trains three times as fast needs three times the photos, from the same cores.
#
# ## Exercises
#
# **16.2** Write `fed_rate(batch, step_ms, image_ms, cores, gpu)`: how many images per second does a training reach? With free data, a train step was measured to take `step_ms` milliseconds. To make one photo takes `image_ms` milliseconds of one core, and the pipeline uses all `cores` cores. Where `gpu` is true, the train step leaves the cores alone. So the pipeline makes the next batch during the step. Where it is false, the train step uses all cores, too. Then the processor has to do both, one after the other or in turns. Two or three lines.

# %% tags=["stub"]
def fed_rate(batch, step_ms, image_ms, cores, gpu):
    ...  # your code

# %% tags=["solution"]
def fed_rate(batch, step_ms, image_ms, cores, gpu):
    batch_ms = batch * image_ms / cores
    both_ms = max(step_ms, batch_ms) if gpu else step_ms + batch_ms
    return batch / both_ms * 1000

# %%
try_it("16.2", fed_rate)
check("16.2", fed_rate)

# %% [markdown]
# ## Recap
#
# You measured the speed of a real train step with free data, and what a naive and a good pipeline leave of it. You saw which operations run where. You compared a modelled accelerator with a real one, and you know which assumption of the model fails where the processor trains.
#
# ## In practice
#
# - Measure the speed with free data first, with your own network and batch size. It says what is to gain at all.
# - Watch 20 steps of the real script. If the kernels have no gaps, leave the pipeline alone.
# - Take a modelled accelerator for questions: which pipeline, how many cores? Take the real one for the answer.
#
# **Next:** your own data. The notebooks of the course are listed on the start page.
