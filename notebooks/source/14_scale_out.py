# %% [markdown]
# # Scale out
#
# **You will** run one input pipeline on several processes (tf.data service), count what arrives, kill a worker, and simulate a thousand accelerators.
#
# **You will learn** which pipelines gain from workers, what the network costs, and what is lost when a machine fails.
#
# **You need** notebooks 03, 04 and 09. All processes run on your machine. About 50 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import tensorflow as tf
from labcourse import check, explorers, idea, predictions, try_it
from labextras.cluster import capacity, data_service
from labkit import accelerators, photos, storage

# %% [markdown]
# ## The idea
#
# A *dispatcher* knows the job. *Workers* run the pipeline. The *consumer* trains, and asks the workers for elements.

# %%
idea("14")

# %% [markdown]
# ## Predict
#
# Each element waits 8 ms for a remote storage, one after the other. How many times faster are three workers than one?

# %% tags=["nbval-ignore-output"]
predictions.commit("14.waiting", ..., unit="times")

# %% [markdown]
# Now each element keeps a core busy, and all workers share the cores of your machine. How many times faster are three workers than this process alone, which uses all its cores?

# %% tags=["nbval-ignore-output"]
predictions.commit("14.computing", ..., unit="times")

# %% [markdown]
# ## Build
#
# `data_service` starts the dispatcher and a worker as processes, and ends them with this notebook. All that stands before `distribute` runs on the workers:

# %%
cluster = data_service(workers=1)
waiting = tf.data.Dataset.range(150).map(lambda number: storage.delayed(number, 8))
dataset = waiting.apply(cluster.distribute("dynamic"))
print(dataset.element_spec.dtype.name, "elements by way of", len(cluster.workers), "worker")

# %% [markdown]
# ## Run


# %% tags=["nbval-ignore-output"]
def per_second(dataset):
    came = [time.perf_counter() for _ in dataset]
    return (len(came) - 1) / (came[-1] - came[0])


speed = {1: per_second(cluster.elements(dataset))}
for number in (2, 3):
    cluster.add()
    speed[number] = per_second(cluster.elements(waiting.apply(cluster.distribute("dynamic"))))
print({number: f"{found:.0f} elements/s" for number, found in speed.items()})
predictions.review("14.waiting", model=3, measured=speed[3] / speed[1])

# %% [markdown]
# A thread that waits needs no core, so the workers wait at the same time. The speed-up stays below three, since each element also costs time of a core. (A parallel `map` on one machine would do the same. Workers matter when one machine has no more threads, links or memory to offer.) Now work that needs a core:

# %% tags=["nbval-ignore-output"]
jpeg = tf.io.read_file(str(photos.load().paths[0]))


def decode(number):
    return tf.reduce_mean(tf.cast(tf.io.decode_jpeg(jpeg), tf.float32)) + tf.cast(number, tf.float32)


source = tf.data.Dataset.range(300)
served = source.map(decode).apply(cluster.distribute("dynamic"))
tries = range(labkit.measures.rounds_of(2))
here = max(per_second(source.map(decode, num_parallel_calls=labkit.cores())) for _ in tries)
there = max(per_second(cluster.elements(served)) for _ in tries)
print(f"this process {here:.0f} elements/s, three workers {there:.0f} elements/s")
predictions.review("14.computing", model=1, measured=there / here)

# %% [markdown]
# The same cores do the same work, and the elements travel besides. On one machine, a service cannot help a pipeline that computes. It pays where the workers have cores of their *own*.
#
# ### What travels
#
# A photo of 224×224 pixels, as float32, as uint8, or still as JPEG. The consumer gets 60 of each:

# %% tags=["nbval-ignore-output"]
photo = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (224, 224), antialias=True)
small = tf.saturate_cast(photo + 0.5, tf.uint8)
for name, form in {"float32": photo, "uint8": small, "JPEG": tf.io.encode_jpeg(small)}.items():
    same = tf.data.Dataset.range(60).map(lambda _, form=form: tf.identity(form))
    for compression in (None, "AUTO"):
        served = cluster.elements(same.apply(cluster.distribute("dynamic", compression=compression)))
        before, began = sum(cluster.bytes.values()), time.process_time()
        arrived, cpu = sum(1 for _ in served), time.process_time() - began
        sent = (sum(cluster.bytes.values()) - before) / 1e3 / arrived
        print(f"{name}, compression {compression}: {sent:.0f} kB and {1e3 * cpu / arrived:.2f} ms of CPU for each")

# %% [markdown]
# float32 has four times the bytes of uint8. Compare the bytes with and without compression: where they are as many, it gains nothing, or TensorFlow has left it out. A JPEG is smallest, but then the consumer decodes. So let workers send uint8, and convert on the accelerator.
#
# ## The timeline
#
# `cluster.served` lets `labkit.record` watch all processes and put them on one clock. Each worker has its own lanes. Lanes that work or wait for less than 5 % of the time are not drawn. The *network* is among them: an element is on its way only from when its worker had it ready to its arrival.

# %% tags=["nbval-ignore-output"]
batches = tf.data.Dataset.range(400).map(lambda n: storage.delayed(n, 8)).batch(4)
served = cluster.served(batches.apply(cluster.distribute("dynamic")))
trace = labkit.record(served, accelerators.modelled(step_ms=20), steps=6)
busy = [lane.name for lane in labkit.Timeline(trace).lanes if lane.share >= 0.05]
labkit.draw(trace, steps=4, lanes=busy)

# %% [markdown]
# ## Explain
#
# ### Who gets which element?
#
# Every way to share promises something else. Count each element:


# %%
def count(elements, expected):
    seen = Counter(int(number) for number in elements)
    return f"{expected - len(seen)} lost, {seen.total() - len(seen)} doubled"


short = tf.data.Dataset.range(60)
for sharding in ("off", "dynamic", "data"):
    print(f"{sharding}:", count(cluster.elements(short.apply(cluster.distribute(sharding))), 60))

# %% [markdown]
# `file` gives each worker files of its own. So the dataset must begin with files. Here are six, with ten numbers each:

# %%
folder = tempfile.mkdtemp()
files = [f"{folder}/{k}.txt" for k in range(6)]
for k, path in enumerate(files):
    Path(path).write_text("\n".join(str(10 * k + n) for n in range(10)))
lines = tf.data.TextLineDataset(files).map(lambda line: tf.strings.to_number(line, tf.int64))
arrived = [int(number) for number in cluster.elements(lines.apply(cluster.distribute("file")))]
print("file:", count(arrived, 60), "· in order:", arrived == sorted(arrived))

# %% [markdown]
# With `off`, three workers deliver everything three times. `dynamic` gives each element to whoever is free. `data` and `file` give fixed shares. None of them keeps the order.
#
# ### Two consumers of one job
#
# Consumers that name the same job share its elements, and each element goes to one of them. Each makes the dataset for itself: a second iterator over *one* dataset would begin the next epoch.

# %%
source = tf.data.Dataset.range(240).map(lambda number: storage.delayed(number, 8))
with ThreadPoolExecutor(2) as threads:
    both = [source.apply(cluster.distribute("dynamic", job_name="one job")) for _ in range(2)]
    first, second = threads.map(lambda data: {int(number) for number in cluster.elements(data)}, both)
print("arrived:", len(first | second), "· both got:", len(first & second))

# %% [markdown]
# ### Batches of equal length in each round
#
# Texts have different lengths, and a batch is as long as its longest text. If accelerators train together, all wait for the longest batch of a round. So put texts of similar length into one batch (a *bucket*), and two batches of one bucket after each other. *Coordinated reads* give each consumer one of the two:


# %% tags=["nbval-ignore-output"]
def bucket(batch):
    return tf.cast((tf.shape(batch)[1] - 1) // 10, tf.int64)


def batches(seed):
    lengths = tf.data.Dataset.random(seed=seed).map(lambda n: 1 + tf.cast(n % 40, tf.int32))
    return lengths.map(lambda n: tf.ones([n])).bucket_by_sequence_length(tf.size, [11, 21, 31], [8] * 4)


def equal(two):
    with ThreadPoolExecutor(2) as threads:
        took = threads.map(lambda data: [int(bucket(b)) for b in islice(cluster.elements(data), 24)], two)
        return sum(a == b for a, b in zip(*took))


rounds = batches(seed=1).group_by_window(bucket, lambda _, two: two, window_size=2)
ways = [cluster.distribute("off", job_name="rounds", consumer_index=i, num_consumers=2) for i in (0, 1)]
alike = equal([batches(seed).apply(cluster.distribute("off")) for seed in (1, 2)])
print("each for itself: the buckets are equal in", alike, "of 24 rounds")

# %%
print("coordinated: equal in", equal([rounds.apply(way) for way in ways]), "of 24 rounds")

# %% [markdown]
# ### Kill a worker
#
# This is a real `kill -9`. The cluster starts a new worker at the same address. Count what is lost, what is doubled, and the longest silence:


# %% tags=["nbval-ignore-output"]
def interrupted(server, total=300):
    seen, last, silence = Counter(), time.perf_counter(), 0
    long = tf.data.Dataset.range(total).map(lambda number: storage.delayed(number, 8))
    for number in cluster.elements(long.apply(cluster.distribute("dynamic"))):
        seen[int(number)] += 1
        silence, last = max(silence, time.perf_counter() - last), time.perf_counter()
        if seen.total() == total // 3:
            server.kill()
    return f"{total - len(seen)} lost, {seen.total() - len(seen)} doubled, {silence:.1f} s of silence"


print("a worker:", interrupted(cluster.workers[1]))
print("the dispatcher:", interrupted(cluster.dispatcher))

# %% [markdown]
# What a worker had in hand when it died may be lost, or come twice. The dispatcher goes on from its journal, a file in which it notes what it has handed out. (Colab may show in red that the dispatcher could not be reached: you killed it.) And if nobody starts the worker again? tf.data service itself would wait for ever. labkit ends the wait with a sentence:

# %% tags=["nbval-ignore-output"]
cluster.restart = False
try:
    print(interrupted(cluster.workers[0]))
except Exception as error:
    print(type(error).__name__, "-", error)
cluster.close()

# %% [markdown]
# ### A thousand accelerators, on paper
#
# The slowest of storage, processors and accelerators sets the speed. The next cell calculates a plan for a cluster of the V100s of notebook 01, and lists its assumptions. From how many accelerators on is the storage the limit?

# %% tags=["nbval-ignore-output"]
explorers.scale("a thousand accelerators")

# %% [markdown]
# ### A thousand accelerators, simulated
#
# The cluster above has three workers. Now accelerators that are not on your desk. Each batch is simulated on its way through storage, workers, links and hosts:

# %%
for name in capacity.FLEETS:
    fleet = capacity.simulate(name)
    print(f"{name}: {fleet.enough()} workers are enough; without one, {100 * fleet.lost_worker():.0f} % of the speed")
wide = capacity.simulate("64 accelerators", element_kb=602.112)
print("64 accelerators, float32: enough workers:", wide.enough())
print(wide.advice)

# %% [markdown]
# No number of workers helps against a link that is too slow. Move the sliders: prices and watts are yours to state.

# %% tags=["nbval-ignore-output"]
explorers.fleet("64 accelerators")

# %% [markdown]
# ### Stragglers and uneven shards
#
# One of 13 workers takes four times as long. With `dynamic`, the others take over. With `data`, all wait for its share. And a lecture (Harvard AI-5, lecture 7) gives a rule: ten shards for each server, so 30 GB on 8 servers are 80 shards of 375 MB. One shard more, and seven servers wait for the eighth:

# %%
for sharding in ("dynamic", "data"):
    slow = capacity.simulate("64 accelerators", workers=13, slow_workers=0.1, sharding=sharding)
    print(f"{sharding}: accelerators busy {100 * slow.busy:.0f} %")
for shards in (80, 81):
    plan = capacity.plan("30 GB on 8 servers", shards=shards)
    print(f"{shards} shards of {plan.setting.shard_mb:.0f} MB: accelerators busy {100 * plan.busy:.0f} %")

# %% [markdown]
# ### When does a service pay?
#
# | your job | a service |
# |---|---|
# | accelerators are busy already | gains nothing |
# | the pipeline waits for a remote storage | helps, and so do more parallel reads on the host |
# | the host has too few cores | pays, if workers cost less than accelerators that wait |
# | the link of the host is full | does not help: send fewer bytes |
# | several jobs prepare the same data | can prepare them once |
#
# ## Exercises
#
# **14.1** Write `workers(accelerators, images_s, image_ms, cores)`. Each accelerator trains `images_s` images a second, an image takes `image_ms` of a core, and a worker has `cores`. How many workers? Round up. One line.


# %% tags=["stub"]
def workers(accelerators, images_s, image_ms, cores): ...  # your code


# %% tags=["solution"]
def workers(accelerators, images_s, image_ms, cores):
    return -int(-accelerators * images_s * image_ms // (1000 * cores))


# %%
try_it("14.1", workers)
check("14.1", workers)

# %% [markdown]
# **14.3** Write `lost_and_doubled(numbers, count)`. `numbers` is a list of what came, out of `range(count)`. Return how many never came, and how many came again. Two lines.


# %% tags=["stub"]
def lost_and_doubled(numbers, count): ...  # your code


# %% tags=["solution"]
def lost_and_doubled(numbers, count):
    different = len(set(numbers))
    return count - different, len(numbers) - different


# %%
try_it("14.3", lost_and_doubled)
check("14.3", lost_and_doubled)

# %% [markdown]
# ## Recap
#
# You saw that workers help where a pipeline waits, and not where it computes on the same cores. You counted what each way to share delivers, and what a killed worker costs. You know how many workers feed a thousand accelerators, and when no number is enough.
#
# ## In practice
#
# - Measure one worker, then calculate how many you need.
# - Send uint8, without compression, and convert on the accelerator.
# - Share with `dynamic`. Make the number of shards a multiple of the number of hosts.
# - Let something start dead workers again at their old address.
#
# **Next:** optional, [14b Train on several processes](14b_train_on_several_processes.ipynb): one model, two processes, and the weights of one. Or on to [16 Feed a GPU](16_feed_a_gpu.ipynb).
