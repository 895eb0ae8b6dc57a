"""Slow loaders of PyTorch, Grain and plain Python, each with its right cause, built from a seed like those of `pool`.

What is right was written down before the tool was asked. The classes stand in a module, since worker processes that
begin anew import them.
"""

from __future__ import annotations

import io
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image
from pool import Fault

FAULTS: list[Fault] = []
PREP, WAITS = {"prep"}, {"prep", "fetch"}


def fault(step_ms, causes, says, never=r"(?!)", fix=True):
    """Put a function that makes a loader into the list, with what is right about it."""

    def enter(make):
        FAULTS.append(Fault(make.__name__, make, step_ms, frozenset(causes), says, never, fix))
        return make

    return enter


# -- what the work is made of


def decode(path, size=96):
    with open(path, "rb") as file:
        data = file.read()
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((size, size)))


def remote_read(seconds):
    time.sleep(seconds)
    return np.zeros((32, 32, 3), np.uint8)


def spin(rounds):
    return np.full((32, 32, 3), sum(i * i for i in range(rounds)) % 255, np.uint8)


class Each:
    """A map-style dataset: `work` is called with `argument(index)`."""

    def __init__(self, length, work, arguments, at=0, rare=None):
        self.length, self.work, self.arguments, self.at, self.rare = length, work, arguments, at, rare

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.at and index % self.at == self.at - 1:
            time.sleep(self.rare)
        return self.work(self.arguments[index % len(self.arguments)]), index % 7


class Locked(Each):
    """All workers take turns at one lock."""

    def __init__(self, lock, *arguments):
        super().__init__(*arguments)
        self.lock = lock

    def __getitem__(self, index):
        with self.lock:
            return super().__getitem__(index)


def paths(draw):
    found = [str(path) for path in draw.album.paths]
    draw.shuffle(found)
    return found


def photos(draw, length=4096):
    return Each(length, decode, paths(draw))


def sleeps(draw, low=0.006, high=0.012):
    return [draw.uniform(low, high) for _ in range(64)]


def torch_loader(dataset, batch, workers, **settings):
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    return DataLoader(dataset, batch_size=batch, num_workers=workers, **settings)


def size(draw):
    return draw.choice((8, 12, 16))


# -- PyTorch


@fault(60, PREP, "num_workers")
def torch_without_workers(draw, fixed):
    return torch_loader(photos(draw), size(draw), 2 if fixed else 0)


@fault(5, PREP, "num_workers|less work", "prefetch_factor|persistent")
def torch_one_worker_decodes(draw, fixed):
    return torch_loader(photos(draw), size(draw), 2 if fixed else 1)


@fault(5, WAITS, "more calls at once|num_workers", "less work|GIL")
def torch_elements_sleep(draw, fixed):
    return torch_loader(Each(4096, time_to_rest, sleeps(draw)), size(draw), 8 if fixed else draw.choice((1, 2)))


def time_to_rest(seconds):
    time.sleep(seconds)
    return np.zeros((32, 32, 3), np.uint8)


@fault(5, {"fetch"}, "reads at once|num_workers", "less work|GIL")
def torch_reads_are_far_away(draw, fixed):
    import labextras.loaders

    labextras.loaders.known("loader_pool.remote_read", category="read")
    return torch_loader(Each(4096, remote_read, sleeps(draw)), size(draw), 8 if fixed else draw.choice((1, 2)))


@fault(5, {"start"}, "persistent_workers=True", "num_workers|less work")
def torch_workers_of_one_epoch(draw, fixed):
    short = Each(4 * 8, spin, [draw.randrange(2_000, 4_000)])
    context = draw.choice(("spawn", "forkserver"))
    return torch_loader(short, 8, 1, persistent_workers=fixed, multiprocessing_context=context)


def as_lists(samples):
    """Hand over what is pickled, number by number."""
    return [np.stack([sample[0] for sample in samples]).astype(np.float64).tolist(), [sample[1] for sample in samples]]


def as_arrays(samples):
    return np.stack([sample[0] for sample in samples]), np.array([sample[1] for sample in samples])


class Wide(Each):
    """Elements that cost nothing to make, and much to move."""

    def __getitem__(self, index):
        return self.arguments[index % len(self.arguments)], index % 7


@fault(2, {"transfer"}, "fewer bytes between processes", "num_workers")
def torch_batches_are_pickled(draw, fixed):
    arrays = list(draw.arrays.integers(0, 255, (8, 64, 64, 3), np.uint8))
    return torch_loader(Wide(4096, None, arrays), 16, 1, collate_fn=as_arrays if fixed else Boxed())


class Boxed:
    """A collate that makes a batch of float64 arrays, each of its own: all of them are pickled."""

    def __call__(self, samples):
        images = [sample[0].astype(np.float64).repeat(4, axis=0) for sample in samples]
        return np.concatenate(images).reshape(len(samples), -1), np.array([sample[1] for sample in samples])


def slow_collate(samples):
    total = [float(value) for sample in samples for value in sample[0].ravel()]
    return np.array(total, np.float32).reshape(len(samples), *samples[0][0].shape), np.array([s[1] for s in samples])


@fault(5, {"batch"}, "cheaper|stack", "num_workers|prefetch_factor")
def torch_collate_loops(draw, fixed):
    arrays = list(draw.arrays.integers(0, 255, (8, 96, 96, 3), np.uint8))
    return torch_loader(Wide(4096, None, arrays), 16, 2, collate_fn=as_arrays if fixed else slow_collate)


@fault(5, {"batch"}, "cheaper|stack|num_workers", "prefetch_factor|persistent")
def torch_collate_in_the_consumer(draw, fixed):
    arrays = list(draw.arrays.integers(0, 255, (8, 96, 96, 3), np.uint8))
    return torch_loader(Wide(4096, None, arrays), 16, 0, collate_fn=as_arrays if fixed else slow_collate)


class Converted:
    """Batches of a loader whose values become float32 in the thread of the consumer."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for images, labels in self.loader:
            yield images.float().div(255).permute(0, 3, 1, 2).contiguous(), labels


@fault(2, PREP, "worker|background|thread", "prefetch_factor|persistent")
def torch_the_consumer_converts(draw, fixed):
    import torch

    arrays = [torch.from_numpy(draw.arrays.integers(0, 255, (160, 160, 3), np.uint8)) for _ in range(8)]
    loader = torch_loader(Wide(4096, None, arrays), 32, 1)
    return loader if fixed else Converted(loader)


@fault(30, PREP, "prefetch_factor", "less work|GIL")
def torch_a_straggler_now_and_then(draw, fixed):
    batch = 8  # of an odd number of batches one is slow, so that the two workers take turns at those
    dataset = Each(4096, time_to_rest, [0.001], at=7 * batch, rare=0.25)
    return torch_loader(dataset, batch, 2, prefetch_factor=12 if fixed else 1)


@fault(30, PREP, "num_workers", "prefetch_factor|less work|GIL", fix=False)
def torch_stragglers_in_one_worker(draw, fixed):
    """Every sixth batch: with two workers they all come to the same one, which no buffer helps."""
    dataset = Each(4096, time_to_rest, [0.001], at=6 * 8, rare=0.25)
    return torch_loader(dataset, 8, 2, prefetch_factor=draw.choice((1, 2)))


def stream(draw, fixed):
    from torch.utils.data import IterableDataset, get_worker_info

    found = paths(draw)

    class Stream(IterableDataset):
        def __iter__(self):
            me = get_worker_info()
            while True:
                for path in found[me.id :: me.num_workers]:
                    yield decode(path)

    return Stream()


@fault(5, PREP, "num_workers|less work", "prefetch_factor")
def torch_a_stream_in_one_worker(draw, fixed):
    return torch_loader(stream(draw, fixed), size(draw), 2 if fixed else 1)


@fault(5, PREP, "lock|at once", "less work|GIL", fix=False)
def torch_workers_share_a_lock(draw, fixed):
    lock = multiprocessing.get_context("fork").Lock()
    return torch_loader(Locked(lock, 4096, time_to_rest, sleeps(draw)), size(draw), 4)


@fault(2, PREP, "less work", "num_workers|prefetch_factor|persistent", fix=False)
def torch_more_workers_than_cores(draw, fixed):
    return torch_loader(photos(draw), size(draw), 2 * (multiprocessing.cpu_count() or 2))


@fault(2, PREP, "less work|num_workers", "persistent|prefetch_factor", fix=False)
def torch_transforms_compute(draw, fixed):
    return torch_loader(Each(4096, spin, [draw.randrange(40_000, 80_000)]), size(draw), 2)


@fault(80, set(), "nothing: the accelerator is the limit")
def torch_good_enough(draw, fixed):
    return torch_loader(Each(4096, spin, [2_000]), size(draw), 2, persistent_workers=True)


# -- Grain


def grain_dataset(work, arguments, threads, batch=8, buffer=32, batch_fn=None):
    import grain

    source = Each(4096, work, arguments)
    dataset = grain.MapDataset.source(range(4096)).map(source.__getitem__)
    dataset = dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=buffer))
    return dataset.batch(batch, batch_fn=batch_fn) if batch_fn else dataset.batch(batch)


@fault(60, PREP, "num_threads")
def grain_without_threads(draw, fixed):
    return grain_dataset(decode, paths(draw), 2 if fixed else 0, buffer=32 if fixed else 0)


@fault(5, WAITS, "more calls at once|num_threads", "less work|GIL")
def grain_one_thread_sleeps(draw, fixed):
    return grain_dataset(time_to_rest, sleeps(draw), 16 if fixed else 1)


@fault(2, PREP, "processes in place of threads|GIL", "prefetch_buffer", fix=False)
def grain_threads_take_turns(draw, fixed):
    return grain_dataset(spin, [draw.randrange(40_000, 80_000)], draw.choice((4, 6, 8)))


@fault(2, PREP, "less work", "GIL|prefetch_buffer", fix=False)
def grain_threads_decode(draw, fixed):
    return grain_dataset(decode, paths(draw), draw.choice((2, 4)))


@fault(5, {"batch"}, "batch|stack", "num_threads of ReadOptions, or worker processes .num_workers.: ")
def grain_batches_loop(draw, fixed):
    arrays = list(draw.arrays.integers(0, 255, (8, 96, 96, 3), np.uint8))
    return grain_dataset(np.asarray, arrays, 2, 16, batch_fn=as_arrays if fixed else slow_collate)


@fault(5, {"start"}, "live for more than one epoch|repeat", "num_threads")
def grain_processes_of_one_epoch(draw, fixed):
    import grain

    dataset = grain.MapDataset.source(range(4 * 8)).repeat(64 if fixed else 1).map(Each(32, spin, [2_000]).__getitem__)
    return dataset.to_iter_dataset().batch(8).mp_prefetch(grain.MultiprocessingOptions(num_workers=1))


@fault(80, set(), "nothing: the accelerator is the limit")
def grain_good_enough(draw, fixed):
    return grain_dataset(spin, [2_000], 2)


# -- plain Python


class Pooled:
    """Batches of what threads of a pool make."""

    def __init__(self, threads, work, arguments):
        self.threads, self.work, self.arguments = threads, work, arguments

    def __iter__(self):
        with ThreadPoolExecutor(self.threads) as pool:
            while True:
                yield np.stack(list(pool.map(self.work, self.arguments[:8])))


@fault(2, PREP, "processes in place of threads|GIL", "less work", fix=False)
def python_threads_take_turns(draw, fixed):
    return Pooled(4, spin, [draw.randrange(60_000, 120_000)] * 8)


@fault(60, PREP, "a pool", "GIL")
def python_does_all_itself(draw, fixed):
    if fixed:
        return Ahead(
            lambda: (np.stack([decode(p) for p in some]) for some in np.array(paths(draw)[:96]).reshape(-1, 8))
        )
    return (np.stack([decode(p) for p in some]) for some in np.array(paths(draw)[:160] * 4).reshape(-1, 8))


class Ahead:
    """A thread makes the next batch while this one is used."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        with ThreadPoolExecutor(1) as pool:
            while True:
                batches = self.make()
                coming = pool.submit(next, batches, None)
                while (batch := coming.result()) is not None:
                    coming = pool.submit(next, batches, None)
                    yield batch
