"""From costs and knobs to a chain of steps, and to what each image and batch takes in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from labkit.pipelines.structure import Step
from labkit.simulate.clock import MOVE, SLEEP, WORK
from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.iterators import train
from labkit.simulate.workers import Simulation, Work

_BLOCK = 256


class DrawnCosts:
    """The costs of every image and batch, drawn from one seed: the same whatever the other knobs are.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs
    images, batches : int
        How many of each.
    seed : int

    Attributes
    ----------
    fetch, map, batch : list of Work
        What is done to each image before the map and in it, and to each batch.
    copy_ns, train_ns : ndarray of float64, shape (batches,)
    """

    def __init__(self, costs: Costs, knobs: Knobs, images: int, batches: int, seed: int) -> None:
        def places(stream: int, count: int) -> np.ndarray:
            # In each block of images every part of a distribution occurs once, in a random order: means are right
            # after a few batches, and a block does not depend on how many follow.
            blocks = -(-count // _BLOCK)
            chance = np.random.Generator(np.random.PCG64([seed, stream])).random((blocks, 2, _BLOCK))
            return ((np.argsort(chance[:, 0], kind="stable") + chance[:, 1]) / _BLOCK).ravel()[:count]

        def drawn(cost: np.ndarray, place: np.ndarray) -> np.ndarray:
            # Whole nanoseconds: the last bits of a logarithm differ between platforms.
            return np.rint(cost[(place * len(cost)).astype(np.int64)] * 1e6)

        def kind(name: str) -> int:
            return SLEEP if costs.asleep(name) else WORK

        self.knobs, self.images = knobs, images
        miss = places(0, images) >= knobs.cache_hit
        self.batch = [_work(kind("batch"), "batch", drawn(costs.batch, places(4, batches)))]
        self.copy_ns = drawn(costs.copy, places(5, batches))
        self.train_ns = drawn(costs.train, places(6, batches))
        latency = np.rint(knobs.latency_ms * 1e6) * miss
        opening = drawn(costs.open, places(1, images)) * miss
        if costs.asleep("open"):
            opening, latency = opening + latency, 0 * latency
        transfer = 0.0 if knobs.bandwidth_mb_s is None else np.rint(knobs.image_kb * 1e6 / knobs.bandwidth_mb_s)
        reading = drawn(costs.read, places(2, images)) * miss
        own = _joined([_work(kind(name), name, ns) for name, ns in (("open", opening), ("read", reading)) if ns.any()])
        added = [(SLEEP, "open", latency), (MOVE, "read", transfer * miss)]
        opens = sum("open" in work.names for work in own)
        self.fetch = _joined([*own[:opens], *(_work(*each) for each in added if each[2].any()), *own[opens:]])
        place = places(3, batches if knobs.map_batches else images)
        self.map = _joined([_work(kind(name), name, drawn(cost, place)) for name, cost in costs.map.items()])
        if knobs.cycle_length == 1 and not knobs.map_batches:  # the map function opens and reads, too
            self.fetch, self.map = [], _joined([*self.fetch, *self.map])

    @property
    def mapped(self) -> list[Work]:
        """All work on images, and on whole batches if they are mapped, in its order."""
        return [*self.fetch, *self.map]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The pipeline of the knobs, the source first; what stands inside of a function is its work."""
        knobs = self.knobs
        order, inner = knobs.deterministic, (Step("Range"), Step("Map", inside=tuple(self.fetch)))
        cycle = {"cycle_length": knobs.cycle_length, "num_parallel_calls": knobs.cycle_length}
        calls = {"num_parallel_calls": knobs.map_calls}
        found = [Step("Range")]
        if knobs.cycle_length > 1:
            found.append(Step("ParallelInterleave", cycle, inner=inner, ordered=order))
        mapped = Step("ParallelMap" if knobs.map_calls > 1 else "Map", calls, tuple(self.map), ordered=order)
        batch = Step("Batch", {"batch_size": knobs.batch_size, "drop_remainder": 1}, tuple(self.batch))
        ahead = Step("Prefetch", {"buffer_size": knobs.prefetch})
        if not knobs.map_batches:
            return (*found, mapped, batch, ahead)
        opened = inner[1:] if knobs.cycle_length == 1 else ()
        return (*found, *opened, batch, mapped, ahead)

    def run(self, steps: int) -> Simulation:
        """Train so many steps, and return the run; its elements are numbers of images, then those of batches."""
        knobs, each = self.knobs, self.knobs.accelerators
        cycle, batches = knobs.cycle_length, itertools.count()
        shared = iter(range(self.images))

        def elements(file: int | None) -> Iterator[int]:
            if file is None and cycle > 1:
                return iter(range(cycle))
            # In order, file k holds each `cycle`-th image from k on; out of order, a free reader takes the next image.
            return shared if file is None or not knobs.deterministic else iter(range(file, self.images, cycle))

        def longest(ns: np.ndarray, step: int) -> float:
            return float(ns[step * each : (step + 1) * each].max())

        run = Simulation(knobs.capacity, knobs.pool, lambda step: step.inside, elements, lambda images: next(batches))
        train_ns, copy_ns = partial(longest, self.train_ns), partial(longest, self.copy_ns)
        return train(run, self.steps, steps, train_ns, copy_ns, each)


def _work(kind: int, name: str, ns: np.ndarray) -> Work:
    return Work(kind, [name], ns.tolist().__getitem__, ns[None])


def _joined(works: list[Work]) -> list[Work]:
    """Join neighbours of one kind: fewer events, the same times."""
    joined: list[Work] = []
    for work in works:
        if joined and joined[-1].kind == work.kind != MOVE:
            last = joined.pop()
            parts = np.r_[last.parts_ns, work.parts_ns]
            work = Work(last.kind, last.names + work.names, parts.sum(axis=0).tolist().__getitem__, parts)
        joined.append(work)
    return joined
