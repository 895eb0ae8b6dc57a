"""The threads of a tf.data pipeline as processes on a `Machine`: who makes what, and who waits for whom.

The structure is tf.data's with its rewriting off: a parallel interleave has a thread per open file, two images
ahead; a parallel map has a runner that starts calls in order and keeps as many calls and finished images as
it may have calls; a prefetch has a thread and a buffer; without it, the consumer makes the batch itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.machine import MOVE, SLEEP, WAIT, WORK, Machine, Process

#: Images that each thread of a parallel interleave keeps ready, as tf.data does.
AHEAD = 2
_BLOCK = 256


@dataclass
class Segment:
    """A part of the way of every image that is spent in one manner without a break.

    Parameters
    ----------
    kind : int
        SLEEP, WORK or MOVE.
    names : list of str
        Stages and map operations in it, in order.
    parts_ns : ndarray of float64, shape (len(names), images)
        What each takes; their sum over names is what is asked for.
    """

    kind: int
    names: list[str]
    parts_ns: np.ndarray
    asked: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make room for the times."""
        total = self.parts_ns.sum(axis=0)
        self.asked = total.tolist()
        self.start = [-1.0] * len(total)
        self.end = [-1.0] * len(total)


class Draws:
    """The costs of every image and batch, drawn from one seed: the same whatever the other knobs are.

    Parameters
    ----------
    costs : Costs
    knobs : Knobs
    images, batches : int
        How many of each.
    seed : int
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

        miss = places(0, images) >= knobs.cache_hit
        self.batch_kind = SLEEP if costs.asleep("batch") else WORK
        self.batch_ns = drawn(costs.batch, places(4, batches))
        self.copy_ns = drawn(costs.copy, places(5, batches))
        self.train_ns = np.rint(drawn(costs.train, places(6, batches)) / knobs.accelerator_speed)
        latency = np.rint(knobs.latency_ms * 1e6) * miss
        opening = drawn(costs.open, places(1, images)) * miss
        if costs.asleep("open"):
            opening, latency = opening + latency, 0 * latency
        reading = drawn(costs.read, places(2, images)) * miss
        stages = [("open", opening), ("read", reading)]
        fetch = _segments(costs, [s for s in stages if s[1].any()])
        extra = [(SLEEP, "open", latency)]
        if knobs.bandwidth_mb_s is not None:
            extra.append((MOVE, "read", np.rint(knobs.image_kb * 1e6 / knobs.bandwidth_mb_s) * miss))
        added = [Segment(kind, [name], ns[None]) for kind, name, ns in extra if ns.any()]
        opens = [s for s in fetch if s.names[0] == "open"]
        self.fetch = _joined([*opens, *added, *(s for s in fetch if s not in opens)])
        place = places(3, images)
        self.map = _segments(costs, [(name, drawn(cost, place)) for name, cost in costs.operations.items()])


def _segments(costs: Costs, stages: list[tuple[str, np.ndarray]]) -> list[Segment]:
    return _joined([Segment(SLEEP if costs.asleep(name) else WORK, [name], ns[None]) for name, ns in stages])


def _joined(segments: list[Segment]) -> list[Segment]:
    """Join neighbours of one kind: fewer events, the same times."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last is not None and last.kind == segment.kind != MOVE:
            joined[-1] = Segment(last.kind, last.names + segment.names, np.r_[last.parts_ns, segment.parts_ns])
        else:
            joined.append(segment)
    return joined


class Pipeline:
    """One run: after `run`, the attributes hold when everything happened, in float nanoseconds.

    Attributes
    ----------
    reader, worker, runner : list of int
        Per image, the number of the interleave's thread or of the pool's thread that worked on it; -1 where
        the thread that made its batch did.
    element_start, element_end : list of float
        When the maker of batches asked for an image, and when it had it, in the order of `arrived`.
    arrived : list of int
        Images in the order in which they came into batches.
    batch_copy, batch_end : list of float
        When a batch's images began to be copied together, and when it was ready.
    wait_start, wait_end, train_start, train_end : list of float
        Per step.
    """

    def __init__(self, knobs: Knobs, draws: Draws, steps: int) -> None:
        self.knobs, self.draws, self.steps = knobs, draws, steps
        self.machine = Machine(knobs.capacity)
        self.images = len(draws.map[0].asked)
        self.batches = self.images // knobs.batch_size
        self.reader, self.worker = [-1] * self.images, [-1] * self.images
        self.element_start: list[float] = []
        self.element_end: list[float] = []
        self.arrived: list[int] = []
        self.batch_copy: list[float] = []
        self.batch_end: list[float] = []
        self.wait_start: list[float] = []
        self.wait_end: list[float] = []
        self.train_start: list[float] = []
        self.train_end: list[float] = []
        self._turn = self._taken = self._wanted = 0
        self._inline = _joined([*draws.fetch, *draws.map]) if knobs.cycle_length == 1 else draws.map
        #: Segments that were really run: where a thread fetches and maps in one go, both are one.
        self.segments = self._inline if knobs.cycle_length == 1 else [*draws.fetch, *draws.map]

    def run(self) -> Pipeline:
        """Run all steps and return this pipeline."""
        knobs = self.knobs
        consumer = self._consumer()
        processes = [consumer]
        if knobs.cycle_length > 1:
            self._read = [deque() for _ in range(knobs.cycle_length)]
            self._room: list[list[Process]] = [[] for _ in range(knobs.cycle_length)]
            self._got: list[Process] = []
            processes += [self._reading(number) for number in range(knobs.cycle_length)]
        if knobs.map_calls > 1:
            self._results: deque[int] = deque()
            self._calls: deque[int] = deque()
            self._finished = bytearray(self.images)
            self._slots: list[Process] = []
            self._idle: list[Process] = []
            self._done: list[Process] = []
            processes += [self._runner(), *(self._working(number) for number in range(knobs.pool))]
        if knobs.prefetch:
            self._ready = 0
            self._space: list[Process] = []
            self._filled: list[Process] = []
            processes.append(self._prefetching())
        self.machine.run(processes, until=consumer)
        return self

    # -- one image ---------------------------------------------------------------

    def _work(self, image: int, segments: list[Segment]) -> Process:
        """Spend what the image takes."""
        machine = self.machine
        for segment in segments:
            segment.start[image] = machine.now
            if amount := segment.asked[image]:
                yield segment.kind, amount
            segment.end[image] = machine.now

    def _next_read(self) -> Generator[tuple, None, int]:
        """Return the next image of the interleave, or the next name where there is none."""
        cycle = self.knobs.cycle_length
        turn = self._turn
        self._turn += 1
        if cycle == 1:
            return turn
        while True:
            for ahead in range(1 if self.knobs.deterministic else cycle):
                number = (turn + ahead) % cycle
                if self._read[number]:
                    image = self._read[number].popleft()
                    self.machine.wake(self._room[number])
                    return image
            self._wanted = turn % cycle
            yield WAIT, self._got

    # -- threads -------------------------------------------------------------------

    def _reading(self, number: int) -> Process:
        """Be a thread of the parallel interleave."""
        mine, room, machine, segments = self._read[number], self._room[number], self.machine, self.draws.fetch
        count = 0
        while True:
            while len(mine) >= AHEAD:
                yield WAIT, room
            # In order, each file holds every so-many-th image; out of order, whoever is free takes the next.
            image = self._taken if not self.knobs.deterministic else number + self.knobs.cycle_length * count
            self._taken, count = self._taken + 1, count + 1
            if image >= self.images:
                return
            self.reader[image] = number
            yield from self._work(image, segments)
            mine.append(image)
            if number == self._wanted or not self.knobs.deterministic:
                machine.wake(self._got)

    def _runner(self) -> Process:
        """Be the thread of a parallel map that starts its calls."""
        results, limit, slots = self._results, self.knobs.map_calls, self._slots
        for _ in range(self.images):
            while len(results) >= limit:
                yield WAIT, slots
            image = yield from self._next_read()
            results.append(image)
            self._calls.append(image)
            if self._idle:
                self.machine.ready.append(self._idle.pop())

    def _working(self, number: int) -> Process:
        """Be a thread of the pool that runs map calls."""
        calls, idle, machine, segments = self._calls, self._idle, self.machine, self._inline
        results, finished, any_order = self._results, self._finished, not self.knobs.deterministic
        while True:
            while not calls:
                yield WAIT, idle
            image = calls.popleft()
            self.worker[image] = number
            yield from self._work(image, segments)
            finished[image] = 1
            if finished[results[0]] or any_order:
                machine.wake(self._done)

    def _mapped(self) -> Generator[tuple, None, int]:
        """Return the next image that the parallel map hands out."""
        results, finished = self._results, self._finished
        while True:
            if self.knobs.deterministic:
                if results and finished[results[0]]:
                    image = results.popleft()
                    self.machine.wake(self._slots)
                    return image
            else:
                for image in results:
                    if finished[image]:
                        results.remove(image)
                        self.machine.wake(self._slots)
                        return image
            yield WAIT, self._done

    def _batch(self) -> Process:
        """Make one batch on the thread that asks for it."""
        machine, parallel = self.machine, self.knobs.map_calls > 1
        starts, ends, arrived = self.element_start, self.element_end, self.arrived
        for _ in range(self.knobs.batch_size):
            starts.append(machine.now)
            if parallel:
                image = yield from self._mapped()
            else:
                image = yield from self._next_read()
                yield from self._work(image, self._inline)
            arrived.append(image)
            ends.append(machine.now)
        self.batch_copy.append(machine.now)
        amount = float(self.draws.batch_ns[len(self.batch_end)])
        if amount:
            yield self.draws.batch_kind, amount
        self.batch_end.append(machine.now)

    def _prefetching(self) -> Process:
        """Be the thread of a prefetch."""
        for _ in range(self.batches):
            while self._ready >= self.knobs.prefetch:
                yield WAIT, self._space
            yield from self._batch()
            self._ready += 1
            self.machine.wake(self._filled)

    def _consumer(self) -> Process:
        """Be the training loop: all accelerators take a batch each, then step together."""
        machine, draws, each = self.machine, self.draws, self.knobs.accelerators
        for step in range(self.steps):
            self.wait_start.append(machine.now)
            for _ in range(each):
                if self.knobs.prefetch:
                    while not self._ready:
                        yield WAIT, self._filled
                    self._ready -= 1
                    machine.wake(self._space)
                else:
                    yield from self._batch()
            self.wait_end.append(machine.now)
            mine = slice(step * each, (step + 1) * each)
            if copy := float(draws.copy_ns[mine].max()):
                yield SLEEP, copy
            self.train_start.append(machine.now)
            if train := float(draws.train_ns[mine].max()):
                yield SLEEP, train
            self.train_end.append(machine.now)
