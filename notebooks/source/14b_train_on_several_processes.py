# %% [markdown]
# # Train on several processes
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** train one model on two processes, compare its weights with those of one process, kill a process, and go on from a checkpoint.
#
# **You will learn** how a batch is shared out, what an *all-reduce* is and whom it waits for, and when more processes pay.
#
# **You need** notebooks 11 and 14. You need no GPU. About 40 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import os
import signal
import tempfile
from itertools import islice

import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras.cluster import processes
from labextras.fit import watching
from labkit import accelerators, charts, photos, recorder, storage

# %% [markdown]
# ## The idea
#
# Two processes have the same weights. Each takes half of a batch and computes gradients from it. The *all-reduce* adds the gradients of both, so that both change their weights alike:

# %%
idea("14b")

# %% [markdown]
# ## Predict
#
# Both processes run on this machine and share its cores. How many times faster are two processes than one?

# %% tags=["nbval-ignore-output"]
predictions.commit("14b.speed", ..., unit="times")

# %% [markdown]
# A checkpoint is saved after every 10 steps. A process is killed after step 17. How many steps are computed twice?

# %% tags=["nbval-ignore-output"]
predictions.commit("14b.again", ..., unit="steps")

# %% [markdown]
# ## Build
#
# The data: 128 photos of 32×32 pixels. Their numbers lie in four files, and each number calls its photo:

# %%
BATCH, STEPS = 32, 24


def load(path, side):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [side, side]) / 255


album, folder = photos.load().train, tempfile.mkdtemp()
chosen = np.random.default_rng(0).permutation(len(album))[:128]
IMAGES = np.stack([load(str(album.paths[n]), 32) for n in chosen])
LABELS = np.array([album.labels[n] for n in chosen])
FILES = [f"{folder}/{k}.tfrecord" for k in range(4)]
for k, path in enumerate(FILES):
    with tf.io.TFRecordWriter(path) as out:
        for number in range(32 * k, 32 * k + 32):
            out.write(tf.io.serialize_tensor(tf.constant(number, tf.int64)).numpy())
print(IMAGES.shape, "photos in", len(FILES), "files")

# %% [markdown]
# The pipeline. `auto_shard_policy` says how the processes share it. `late_ms` makes the storage slow:


# %%
def batches(sharding, late_ms):
    numbers = tf.data.TFRecordDataset(FILES).map(lambda record: tf.io.parse_tensor(record, tf.int64))
    numbers = numbers.map(lambda n: storage.delayed(n, late_ms)) if late_ms else numbers
    data = numbers.map(lambda n: (tf.gather(IMAGES, n), tf.gather(LABELS, n), n))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[sharding]
    return data.batch(BATCH, drop_remainder=True).repeat().with_options(options)


# %% [markdown]
# The model: two convolutions and a matrix. `gradients_of` divides the loss by the size of the *whole* batch. So the sum over all processes is the mean over the batch:

# %%
chance = np.random.default_rng(1)
SHAPES = {(3, 3, 3, 16): 0.2, (3, 3, 16, 32): 0.1, (2048, 10): 0.02}
FIRST = [chance.normal(0, scale, shape).astype("float32") for shape, scale in SHAPES.items()]


def gradients_of(weights, images, labels):
    with tf.GradientTape() as tape:
        hidden = images
        for kernel in weights[:2]:
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, 2, "SAME"))
        scores = tf.reshape(hidden, [-1, 2048]) @ weights[2]
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)) / BATCH
    return tape.gradient(loss, weights)


# %% [markdown]
# A train step has three parts. Each part runs under the *strategy*, which knows the other processes. Where one process trains alone, it takes both halves of a batch after each other and adds them, as two processes would. (Without that, sums have another order, and the last digit of a weight differs.)


# %%
def parts_of(strategy, weights, step, halves):
    def gradients(images, labels):
        pairs = zip(tf.split(images, halves), tf.split(labels, halves))
        return [sum(same) for same in zip(*(gradients_of(weights, *pair) for pair in pairs))]

    def all_reduce(*values):
        return tf.distribute.get_replica_context().all_reduce("sum", [tf.identity(value) for value in values])

    def change(*sums):
        for weight, gradient in zip(weights, sums):
            weight.assign_sub(0.1 * gradient)
        return step.assign_add(1)

    parts = gradients, all_reduce, change
    return [tf.function(lambda *given, part=part: strategy.run(part, given)) for part in parts]


# %% [markdown]
# How a process begins: with the first weights, or with the newest checkpoint of process 0. Every process saves checkpoints in a folder of its own:


# %%
def begin(process, save_to):
    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights, step = [tf.Variable(first) for first in FIRST], tf.Variable(0, dtype=tf.int64)
    saved = tf.train.Checkpoint(weights=weights, step=step)
    if save_to:
        saved.restore(tf.train.latest_checkpoint(f"{save_to}/0"))  # nothing at the first start
        saved = tf.train.CheckpointManager(saved, f"{save_to}/{process.number}", max_to_keep=2)
    return strategy, weights, step, saved


# %% [markdown]
# The loop runs in *each* process, and `process.number` says in which one. `watch` times the waits for batches, the steps, and the all-reduce. The data begins at the step of the checkpoint:


# %%
def learn(process, sharding="DATA", late_ms=0, save_to=None, die_at=None):
    strategy, weights, step, saved = begin(process, save_to)
    gradients, all_reduce, change = parts_of(strategy, weights, step, halves=2 // process.count)
    watch = watching(steps=8, warmup=8, profile=False)
    mine = batches(sharding, late_ms if process.number == 1 else 0)
    data = watch.waits(strategy.experimental_distribute_dataset(mine))
    seen = []
    with watch:
        for images, labels, numbers in islice(data, step.numpy(), STEPS):
            with watch((images, labels)):
                values = gradients(images, labels)
                with watch.part("all-reduce", "transfer"):
                    values = all_reduce(*values)
                change(*values)
            seen.append(strategy.experimental_local_results(numbers)[0].numpy())
            if save_to and step % 10 == 0:
                saved.save()
            if (process.number, process.attempt, step.numpy()) == (1, 0, die_at):
                os.kill(os.getpid(), signal.SIGKILL)
    return {"weights": [weight.numpy() for weight in weights], "seen": seen, "trace": watch.trace}


# %% [markdown]
# ## Run
#
# `processes` starts the processes, and ends them with this notebook. `run` runs a function in each, and returns what they returned:

# %% tags=["nbval-ignore-output"]
several = processes(2)
one = several.run(learn, processes=1)
two = several.run(learn)
took_ms = {name: labkit.Timeline(run.results[0]["trace"]).step_ms for name, run in {"one": one, "two": two}.items()}
print({name: f"{ms:.1f} ms for each step" for name, ms in took_ms.items()})
predictions.review("14b.speed", measured=took_ms["one"] / took_ms["two"])

# %% [markdown]
# Two processes on the same cores do the same work, and they have to talk about it. So they gain nothing, and are often slower. They pay where each has an accelerator or a machine of its *own*. But did they learn the same?


# %%
def same_weights(some, others):
    return all(np.array_equal(a, b) for a, b in zip(some.results[0]["weights"], others.results[0]["weights"]))


moved = np.abs(one.results[0]["weights"][2] - FIRST[2]).mean()
print("the weights changed:", moved > 0.001)
print("two processes have the weights of one, to the last bit:", same_weights(one, two))

# %% [markdown]
# ### Who gets which photo?
#
# Count the photos that each process has seen:

# %%
for sharding in ("DATA", "FILE", "OFF"):
    run = two if sharding == "DATA" else several.run(learn, sharding=sharding)
    first, second = (set(np.concatenate(result["seen"])) for result in run.results)
    print(f"{sharding}: {len(first)} and {len(second)} photos, {len(first & second)} seen by both;", end=" ")
    print("the weights of one process:", same_weights(one, run))

# %% [markdown]
# - `DATA`: each process gets its half of every batch. The result is that of one process.
# - `FILE`: each process reads its own files. No photo comes twice, and nobody reads a file in vain. The batches hold other photos, so the weights are others.
# - `OFF`: both processes train on the *same* photos, and each gradient counts twice. No error says so.
#
# ## The timeline
#
# `two.trace` has both processes on one clock. An accelerator is red while it waits: for its batch, or in the middle of a step for the other process. *all-reduce* is the time in which the gradients travel, from when both processes are there. That is no thread, so it has a lane of its own:

# %% tags=["nbval-ignore-output"]
shown = [f"process {n} · {part}" for n in (0, 1) for part in ("accelerator", "all-reduce")]
labkit.draw(two.trace, steps=4, lanes=shown)

# %% [markdown]
# An all-reduce takes time for two reasons: the gradients travel, and whoever comes first waits for the other one. Now the storage of process 1 is slow, 2 ms for each photo. Process 0 reads at full speed:

# %% tags=["nbval-ignore-output"]
late = several.run(learn, late_ms=2).trace
labkit.draw(late, steps=4, lanes=shown)

# %% [markdown]
# Both accelerators are red for most of the time. Process 1 waits for its storage, which is late for every batch. Process 0 has its batch and waits all the same: in the all-reduce, for the batch of process 1. **One slow input pipeline stops every accelerator.** The timeline of process 0 alone would call its accelerator busy, because nothing in it says when the other one came. So look at all processes, and look for the one that waits *least* for others: it is the slow one.
#
# ## Explain
#
# ### Kill a process
#
# The weights of the dead process are not lost, since each process has them all. But a sum without one of its parts is none, so the survivor gets an error:

# %% tags=["nbval-ignore-output"]
try:
    several.run(learn, save_to=tempfile.mkdtemp(), die_at=17)
except Exception as error:
    print(type(error).__name__, "-", error)

# %% [markdown]
# With `restarts=1`, both are started again, and they go on from the last checkpoint of process 0:

# %%
again = several.run(learn, save_to=tempfile.mkdtemp(), die_at=17, restarts=1)
print(len(again.deaths), "death; the second attempt trained for", len(again.results[0]["seen"]), "steps")
print("the weights of a training that nobody killed:", same_weights(one, again))

# %% tags=["nbval-ignore-output"]
predictions.review("14b.again", model=17 - 10, measured=17 + len(again.results[0]["seen"]) - STEPS)

# %% [markdown]
# Three things make this exact: the number of the step is part of the checkpoint, the data is advanced by as many batches, and nothing in the step is random without a seed.
#
# ### What about `model.fit`?
#
# `MirroredStrategy` shares a batch among the accelerators of *one* process. Keras trains with it. Here the processor stands for two accelerators, and the losses are compared with those of one:


# %%
def fit(process, strategy):
    import keras

    cpu = tf.config.list_physical_devices("CPU")[0]
    if strategy == "MirroredStrategy":
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    given = {"MirroredStrategy": [["CPU:0", "CPU:1"]]}.get(strategy, [])
    made = getattr(tf.distribute, strategy)(*given) if strategy else tf.distribute.get_strategy()
    with made.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.01), loss)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(BATCH, drop_remainder=True)
    return model.fit(data, epochs=3, verbose=0).history["loss"]


alone = several.run(fit, processes=1, strategy=None).results[0]
mirrored = several.run(fit, processes=1, strategy="MirroredStrategy").results[0]
print("the same losses:", np.allclose(alone, mirrored, rtol=1e-5))

# %% [markdown]
# Under `MultiWorkerMirroredStrategy`, `fit` of Keras 3 fails. That is why the loop above is our own:

# %% tags=["nbval-ignore-output"]
try:
    several.run(fit, strategy="MultiWorkerMirroredStrategy")
    print("Keras can do it now")
except Exception as error:
    print(str(error)[:100], "...")

# %% [markdown]
# ### Four timelines
#
# A lecture (Harvard AI-5, lecture 7) draws four timelines: one thread, prefetch, several threads, several accelerators. Here they are measured. The accelerators are modelled: 30 ms for a batch of 16. The last timeline has two of them, each with a process of its own that makes one call at a time; *threads* are those of process 0:


# %% tags=["nbval-ignore-output"]
def feed(process, threads=None, prefetch=2):
    paths = tf.data.Dataset.from_tensor_slices(PATHS).shard(process.count, process.number).repeat()
    data = labkit.plain(paths.map(lambda path: load(path, 224), num_parallel_calls=threads).batch(16))
    data = data.prefetch(prefetch) if prefetch else data
    return recorder.record(data, accelerators.modelled(step_ms=30), steps=16)


PATHS = [str(path) for path in album.paths]
thread = several.run(feed, processes=1, prefetch=0).trace
overlap = several.run(feed, processes=1).trace
threads = several.run(feed, processes=1, threads=2).trace
two_of_each = several.run(feed, threads=1).trace
labkit.compare(thread, overlap, labels=("one thread", "with prefetch"))

# %% tags=["nbval-ignore-output"]
labkit.compare(threads, two_of_each, labels=("two threads", "two accelerators"))

# %% [markdown]
# Each remedy removes a wait, until the cores are all at work. A second accelerator brings the waits back: it needs as much data as the first one, and the cores are the same. But a step of two accelerators trains two batches. So do not compare steps. Compare the images per second of all accelerators together. (They are counted over the steps of process 0. The steps of the other one begin and end elsewhere, so the count is no whole number of batches.)

# %% tags=["nbval-ignore-output"]
four = {"one thread": thread, "with prefetch": overlap, "two threads": threads, "two accelerators": two_of_each}
rates = {name: labkit.Timeline(trace).images_per_s for name, trace in four.items()}
charts.bars(rates, unit="images/s", title="What all accelerators train together")

# %% [markdown]
# Both together can train more than one, as long as the cores make more images than one accelerator takes.

# %%
several.close()

# %% [markdown]
# ## Exercises
#
# **14.4** Write `mine(batch, process, count)`. `batch` is a list of photo numbers, and process `process` of `count` trains on its part under `DATA`: neighbours, in equal parts. Return its list. One line.


# %% tags=["stub"]
def mine(batch, process, count): ...  # your code


# %% tags=["solution"]
def mine(batch, process, count):
    return batch[process * len(batch) // count : (process + 1) * len(batch) // count]


# %%
try_it("14.4", mine)
check("14.4", mine)

# %% [markdown]
# **14.5** Write `step_ms(waits_ms, train_ms, all_reduce_ms)`. `waits_ms` is a list: how long each process waits for its batch. Every process then trains for `train_ms`, and an all-reduce among processes that are all there takes `all_reduce_ms`. How long is a step? One line.


# %% tags=["stub"]
def step_ms(waits_ms, train_ms, all_reduce_ms): ...  # your code


# %% tags=["solution"]
def step_ms(waits_ms, train_ms, all_reduce_ms):
    return max(waits_ms) + train_ms + all_reduce_ms


# %%
try_it("14.5", step_ms)
check("14.5", step_ms)

# %% [markdown]
# ## Recap
#
# You trained on two processes and got the weights of one, to the last bit. You saw three ways to share the data, of which one is silently wrong. You saw that one slow pipeline stops every accelerator, and you lost seven steps to a killed process, and nothing else.
#
# ## In practice
#
# - Set the shard policy yourself, and count which process has seen what.
# - Divide the loss by the size of the whole batch.
# - Watch all processes: who waits least for the others is the slow one.
# - Save the number of the step with the weights, and let something start all processes again.
#
# **Next:** [16 Feed a GPU](16_feed_a_gpu.ipynb), or your own data. The notebooks of the course are listed on the start page.
