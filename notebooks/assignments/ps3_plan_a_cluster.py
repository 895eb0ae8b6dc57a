# %% [markdown]
# # Problem set 3: plan a cluster
#
# **You will** find out on paper what a training job needs, so that no accelerator waits: cores, bandwidth, shards; and what a stall costs.
#
# **You need** notebooks 03, 04 and 14. Plain Python is enough; no TensorFlow. About two hours. 100 points.
#
# Write your code where it says `YOUR CODE HERE`, and leave the other cells as they are: cells with tests are put back to their first state before grading. Your notebook runs from top to bottom, with more tests than you see, and without network: a connection is refused, and an answer that needs one gets no points. No other process starts either (`multiprocessing`, workers of a loader); threads do. A loop without an end costs its part.

# %% bootstrap=true
import math

from labextras.cluster import capacity

# %% [markdown]
# ## 3.1 Cores for one accelerator (20 points)
#
# `cores_needed(images_per_s, cpu_ms_per_image)` returns how many whole cores prepare images as fast as one accelerator trains them, if each image costs so much time of one core.


# %% solution="3.1"
def cores_needed(images_per_s, cpu_ms_per_image):
    ### BEGIN SOLUTION
    return math.ceil(images_per_s * cpu_ms_per_image / 1000 - 1e-9)
    ### END SOLUTION


# %% tests="3.1" points=10
assert cores_needed(1000, 4) == 4, "1,000 images of 4 ms are 4 s of work in each second"
### BEGIN HIDDEN TESTS
assert cores_needed(500, 8) == 4, "images in a second, times the time of each"
assert cores_needed(2000, 3) == 6, "images in a second, times the time of each"
assert cores_needed(1000, 3) == 3, "images in a second, times the time of each"
### END HIDDEN TESTS

# %% tests="3.1" points=10
assert cores_needed(328, 3.2) == 2, "1.05 cores are two whole ones"
### BEGIN HIDDEN TESTS
assert cores_needed(1786, 3.2) == 6, "a share of a core needs a whole one"
assert cores_needed(10, 1) == 1, "less than one core is one core"
assert cores_needed(5000, 4) == 20, "a machine may have any number of cores"
### END HIDDEN TESTS

# %% [markdown]
# ## 3.2 The slowest part sets the pace (20 points)
#
# `epoch_s(images, rates)` gets the number of images and a dict of what each part can do in images per second, as `{"storage": 4000, "cores": 2500, "accelerators": 2624}`. Everything overlaps. Return a tuple: the seconds of an epoch, and the name of the part that limits.


# %% solution="3.2"
def epoch_s(images, rates):
    ### BEGIN SOLUTION
    slowest = min(rates, key=rates.get)
    return images / rates[slowest], slowest
    ### END SOLUTION


# %% tests="3.2" points=10
seconds, name = epoch_s(100_000, {"storage": 4000, "cores": 2500, "accelerators": 2624})
assert abs(seconds - 40) < 1e-6, "100,000 images at 2,500 a second"
### BEGIN HIDDEN TESTS
seconds, name = epoch_s(9000, {"storage": 300, "cores": 450, "network": 900})
assert abs(seconds - 30) < 1e-6, "the slowest part sets the pace"
seconds, name = epoch_s(1000, {"storage": 300, "cores": 450})
assert abs(seconds - 10 / 3) < 1e-6, "seconds are not rounded"
### END HIDDEN TESTS

# %% tests="3.2" points=10
assert epoch_s(100_000, {"storage": 4000, "cores": 2500, "accelerators": 2624})[1] == "cores", "the part that limits"
### BEGIN HIDDEN TESTS
assert epoch_s(9000, {"accelerators": 800, "storage": 300, "cores": 450})[1] == "storage", "the part that limits"
assert epoch_s(9000, {"cores": 801, "accelerators": 800})[1] == "accelerators", "accelerators can limit, too"
### END HIDDEN TESTS

# %% [markdown]
# ## 3.3 What the stall costs (20 points)
#
# `stall_cost(accelerators, busy, epoch_h, price_per_hour)` returns what the idle accelerators of an epoch cost, if each is busy for the share `busy` (0 to 1) of an epoch of `epoch_h` hours and costs `price_per_hour`, busy or not.


# %% solution="3.3"
def stall_cost(accelerators, busy, epoch_h, price_per_hour):
    ### BEGIN SOLUTION
    return accelerators * (1 - busy) * epoch_h * price_per_hour
    ### END SOLUTION


# %% tests="3.3" points=20
assert abs(stall_cost(8, 0.75, 2, 3) - 12) < 1e-6, "a quarter of 8 accelerators idle for two hours at 3"
### BEGIN HIDDEN TESTS
assert abs(stall_cost(16, 0.9, 1.5, 2.5) - 6) < 1e-6, "the share that is idle, of all accelerators"
assert abs(stall_cost(4, 1, 10, 5)) < 1e-6, "no stall costs nothing"
assert abs(stall_cost(3, 0.9, 1.5, 2.5) - 1.125) < 1e-6, "the cost is not rounded"
### END HIDDEN TESTS

# %% [markdown]
# ## 3.4 Shards (15 points)
#
# Each shard belongs to one host, all are of equal size, and an epoch ends when the last host is done. `imbalance(shards, hosts)` returns how much longer the busiest host works than if the work were spread evenly: 1.0 where shards divide evenly, 2.0 for twice as long.


# %% solution="3.4"
def imbalance(shards, hosts):
    ### BEGIN SOLUTION
    return math.ceil(shards / hosts) * hosts / shards
    ### END SOLUTION


# %% tests="3.4" points=5
assert abs(imbalance(64, 8) - 1) < 1e-6, "64 shards divide evenly over 8 hosts"
### BEGIN HIDDEN TESTS
assert abs(imbalance(12, 3) - 1) < 1e-6, "these shards divide evenly over the hosts"
### END HIDDEN TESTS

# %% tests="3.4" points=10
assert abs(imbalance(10, 8) - 1.6) < 1e-6, "one host has two shards, the mean is 1.25"
### BEGIN HIDDEN TESTS
from labextras.cluster import capacity

for shards, hosts in [(9, 8), (100, 16), (5, 4), (3, 2), (3, 8)]:
    truth = capacity.Setting(accelerators=hosts, hosts=hosts, shards=shards, dataset_gb=150).imbalance
    assert abs(imbalance(shards, hosts) - truth) < 1e-6, "the busiest host has the mean rounded up"
### END HIDDEN TESTS

# %% [markdown]
# ## 3.5 Enough cores, and not more (25 points)
#
# `labextras.cluster.capacity.plan(...)` puts everything together; print `capacity.plan(accelerators=8, accelerator="A100")` to see. `fewest_cores(accelerator, cpu_ms_per_image)` returns the smallest whole number of `cores_per_accelerator` with which 8 accelerators of that kind on one host are busy for at least 99 % of an epoch, everything else left at its defaults; or `None` if no number from 1 to 64 does it.


# %% solution="3.5"
def fewest_cores(accelerator, cpu_ms_per_image):
    ### BEGIN SOLUTION
    for cores in range(1, 65):
        plan = capacity.plan(
            accelerators=8, accelerator=accelerator, cpu_ms_per_image=cpu_ms_per_image, cores_per_accelerator=cores
        )
        if plan.busy >= 0.99:
            return cores
    return None
    ### END SOLUTION


# %% tests="3.5" points=10
assert fewest_cores("V100", 3.2) == 2, "328 images/s of 3.2 ms each"
### BEGIN HIDDEN TESTS
assert fewest_cores("V100", 12.0) == 4, "dearer images need more cores; 99 % are enough"
### END HIDDEN TESTS

# %% tests="3.5" points=15
assert fewest_cores("V100", 0.1) == 1, "one core is the least"
### BEGIN HIDDEN TESTS
from labextras.cluster import capacity


def truth(kind, ms):
    busy = {
        n: capacity.plan(accelerators=8, accelerator=kind, cpu_ms_per_image=ms, cores_per_accelerator=n).busy
        for n in range(1, 65)
    }
    return next((n for n, share in busy.items() if share >= 0.99), None)


for kind, ms in [
    ("A100", 3.2),
    ("A100", 7.7),
    ("H100", 3.2),
    ("V100", 40.0),
    ("V100", 150.0),
    ("V100", 250.0),
    ("V100", 400.0),
]:
    assert fewest_cores(kind, ms) == truth(kind, ms), "the smallest number of cores that is enough, or None"
### END HIDDEN TESTS
