"""One run of a simulation: what was done to each element by which thread, and the threads that run parallel calls."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.pipelines.structure import Step
from labkit.simulate.clock import WAIT, Clock, Process


class Endless(ValueError):
    """The pipeline never ends, so it has no length in time."""


@dataclass(eq=False)
class Work:
    """What a step does to each element in one manner without a break, and when it did it.

    Parameters
    ----------
    kind : int
        `SLEEP`, `WORK` or `MOVE` of `labkit.simulate.clock`.
    names : list of str
        Stages and operations in it, in order.
    cost_ns : callable
        From an element to nanoseconds, all names together.
    parts_ns : ndarray of float64, shape (len(names), elements), optional
        What each name takes of it, if there are several.
    rows : list of (thread, element, start, end)
        By which thread, to what and when it was done, in float nanoseconds. Work that is still going on when the run
        ends has an end, too: as far as it got.
    """

    kind: int
    names: list[str]
    cost_ns: Callable[[int], float]
    parts_ns: np.ndarray | None = None
    rows: list[tuple[int, int, float, float]] = field(default_factory=list)


class Simulation:
    """One run of a pipeline: its clock, its threads, and the pool that all parallel maps share.

    Parameters
    ----------
    capacity : callable
        See `Clock`.
    pool : int
        Threads that run the calls of parallel maps.
    works : callable
        From a step to the `Work` of its function.
    elements : callable
        From a file of an interleave, or from None for the source of the chain, to an iterator of its elements. An
        element is a whole number, whatever the costs depend on.
    joined : callable
        From the elements of a batch to the batch, an element, too.
    ordered : bool
        Whether steps that do not say so themselves keep the order.
    most : float
        Elements that sources may make.

    Attributes
    ----------
    threads : list of str
        Names; a thread is a number, its place in here.
    asked, batches : list of (start, end)
        For each element of a batch: when it was asked for and when it was there. For each batch: when its first
        element was asked for, and when the batch was ready.
    arrived : list of int
        Elements in the order in which they came into batches.
    taken : list of (elements, asked, got, trained, end)
        What the consumer did in each step: its batches, when it asked for the first one and had the last one, when
        the train step began and when it ended; times in float nanoseconds.
    """

    def __init__(
        self, capacity: Callable[[int], float], pool: int, works: Callable[[Step], Iterable[Work]],
        elements: Callable[[int | None], Iterator[int]], joined: Callable[[list[int]], int], *,
        ordered: bool = True, most: float = math.inf,
    ) -> None:  # fmt: skip
        self.clock, self.pool = Clock(capacity), pool
        self.works, self.elements, self.joined = works, elements, joined
        self.ordered, self.most, self.made = ordered, most, 0
        self.threads: list[str] = []
        self.asked: list[tuple[float, float]] = []
        self.batches: list[tuple[float, float]] = []
        self.arrived: list[int] = []
        self.taken: list[tuple[list[int], float, float, float, float]] = []
        self._calls: deque[tuple[Any, list[Any]]] = deque()
        self._idle: list[Process] = []
        self._workers = 0

    def thread(self, name: str) -> int:
        """Return the number of the thread of a name."""
        if name not in self.threads:
            self.threads.append(name)
        return self.threads.index(name)

    def start(self, process: Process) -> None:
        """Let a process begin."""
        self.clock.ready.append(process)

    def count(self) -> None:
        """Count an element that a source makes."""
        self.made += 1
        if self.made > self.most:
            raise Endless(f"more than {self.most:,} elements were made: the pipeline never ends, or holds too many")

    def source(self, file: int | None) -> Iterator[int]:
        """Yield the elements of a file, or of the source of the chain."""
        for element in self.elements(file):
            self.count()
            yield element

    def do(self, works: list[Work], element: int, thread: int) -> Process:
        """Spend what an element takes on a thread."""
        clock = self.clock
        for work in works:
            if amount := work.cost_ns(element):
                start = clock.now
                try:
                    yield work.kind, amount
                finally:  # the clock closes what is not over when the run ends
                    work.rows.append((thread, element, start, clock.now))

    def call(self, owner: Any, place: list[Any]) -> None:
        """Hand a call of a parallel map to the pool: `owner` has `works`, and its `finish` is called at the end."""
        self._calls.append((owner, place))
        if self._idle:
            self.start(self._idle.pop())
        elif self._workers < self.pool:
            self._workers += 1
            self.start(self._working(self.thread(f"tf.data worker {self._workers}")))

    def _working(self, thread: int) -> Process:
        """Be a thread of the pool."""
        calls = self._calls
        while True:
            while not calls:
                yield WAIT, self._idle
            owner, place = calls.popleft()
            yield from self.do(owner.works, place[0], thread)
            owner.finish(place)
