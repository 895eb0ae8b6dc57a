"""Loaders of files, as readers write them: in a module, since worker processes that begin anew import it."""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.pool
import os
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
from PIL import Image

BATCH = 8


def load(path):
    """Read and decode one photo; PIL reads the header first."""
    with open(path, "rb") as file:
        data = file.read()
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((64, 64)))


def scaled(path, size=16, *, tall=False):
    """Load a photo at a size of one's own: a default value, and an argument that has only a name."""
    photo = load(path)
    return np.asarray(Image.fromarray(photo).resize((size, 2 * size if tall else size)))


def compute(path):
    """Keep the interpreter busy for some milliseconds."""
    return np.full((4, 4, 3), sum(i * i for i in range(60_000)) % 255, np.uint8)


def rest(path):
    time.sleep(0.004)
    return np.zeros((4, 4, 3), np.uint8)


class Batches:
    """Batches of what a function makes of each path, again in each epoch; with a pool where one is given."""

    def __init__(self, paths, function=load, pool=None):
        self.paths, self.function, self.pool = paths, function, pool

    def __len__(self):
        return len(self.paths) // BATCH

    def __iter__(self):
        if self.pool is None:
            yield from self.batches(map)
        else:
            with POOLS[self.pool]() as pool:
                yield from self.batches(pool.map if self.pool.endswith("executor") else pool.imap)

    def batches(self, take):
        """Order one batch ahead, and no more: of what is done before a window opens, nothing is seen."""
        ordered = take(self.function, self.paths[:BATCH])
        for first in range(BATCH, BATCH * (len(self) + 1), BATCH):
            taken, ordered = ordered, take(self.function, self.paths[first : first + BATCH])
            yield np.stack(list(taken)), np.arange(BATCH)


POOLS = {
    "thread executor": lambda: ThreadPoolExecutor(2),
    "process executor": lambda: ProcessPoolExecutor(2),
    "fork pool": lambda: multiprocessing.get_context("fork").Pool(2),
    "spawn pool": lambda: multiprocessing.get_context("spawn").Pool(2),
    "thread pool": lambda: multiprocessing.pool.ThreadPool(2),
}


class Photos:
    """A map-style dataset of PyTorch: photo and label, by number."""

    def __init__(self, paths, function=load, at=-1, does=None):
        self.paths, self.function, self.at, self.does = paths, function, at, does

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if index == self.at:
            getattr(self, self.does)(index)
        return self.function(self.paths[index]), index % 5

    def die(self, index):
        os.kill(os.getpid(), 9)

    def fail(self, index):
        raise ValueError(f"photo {index} is broken")

    def hang(self, index):
        multiprocessing.Event().wait()


class Source:
    """A source of Grain."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.paths[index]
