"""A chain of steps at work: who makes what on which thread, and who waits for whom.

Each step is an iterator that is asked for its next element on the thread of whoever asks. A prefetch, each file of a
parallel interleave and the thread that starts the calls of a parallel map run ahead on threads of their own, as far as
there is room for what they make. That is tf.data's structure with its rewriting off, on a `Clock` in place of time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from labkit.pipelines.structure import AUTOTUNE, Step
from labkit.simulate.clock import SLEEP, WAIT, Clock, Process

#: Elements that a buffer holds whose size tf.data chooses, and that each thread of an interleave keeps ready.
AHEAD = 2
#: Threads by their names in a trace.
PREFETCH, IN_CONSUMER = "tf.data Prefetch", "tf.data in the consumer's thread"
_WORKER, _READER, _STARTER = "tf.data worker", "tf.data interleave", "tf.data map, hands out"

#: What `next` of a step is: it waits on the clock and returns an element, or None at the end.
Next = Generator[tuple, None, int | None]


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
    rows : list of [thread, element, start, end]
        A row for each time that it was done; the end is -1 while it is not over.
    """

    kind: int
    names: list[str]
    cost_ns: Callable[[int], float]
    parts_ns: np.ndarray | None = None
    rows: list[list[float]] = field(default_factory=list)


class Run:
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
        self,
        capacity: Callable[[int], float],
        pool: int,
        works: Callable[[Step], Iterable[Work]],
        elements: Callable[[int | None], Iterator[int]],
        joined: Callable[[list[int]], int],
        *,
        ordered: bool = True,
        most: float = math.inf,
    ) -> None:
        self.clock, self.pool = Clock(capacity), pool
        self.works, self.elements, self.joined = works, elements, joined
        self.ordered, self.most, self.made = ordered, most, 0
        self.threads: list[str] = []
        self.asked: list[tuple[float, float]] = []
        self.batches: list[tuple[float, float]] = []
        self.arrived: list[int] = []
        self.taken: list[tuple[list[int], float, float, float, float]] = []
        self._calls: deque[tuple[_ParallelMap, list[Any]]] = deque()
        self._idle: list[Process] = []
        self._workers = 0

    def run(
        self,
        steps: tuple[Step, ...],
        count: int | None,
        train_ns: Callable[[int], float],
        copy_ns: Callable[[int], float] = lambda step: 0.0,
        each: int = 1,
    ) -> Run:
        """Train on a pipeline, and return this run.

        Parameters
        ----------
        steps : tuple of Step
            The source first.
        count : int or None
            Train steps; None for all until the pipeline ends.
        train_ns, copy_ns : callable
            From the number of a train step to nanoseconds.
        each : int
            Batches that a train step takes.

        Raises
        ------
        Endless
            If sources make more than `most` elements, or as many train steps begin.
        """
        consumer = self._consumer(self.chain(steps, IN_CONSUMER, None, {}), count, train_ns, copy_ns, each)
        self.clock.run([consumer], until=consumer)
        return self

    def _consumer(self, pipeline: Any, count: int | None, train_ns: Any, copy_ns: Any, each: int) -> Process:
        clock, step = self.clock, 0
        while count is None or step < count:
            asked, batches = clock.now, []
            for _ in range(each):
                batch = yield from pipeline.next()
                if batch is None:
                    return
                batches.append(batch)
            got = clock.now
            if copy := copy_ns(step):
                yield SLEEP, copy
            trained = clock.now
            if train := train_ns(step):
                yield SLEEP, train
            self.taken.append((batches, asked, got, trained, clock.now))
            step += 1
            if step > self.most:
                raise Endless("the pipeline never ends")

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

    def do(self, works: list[Work], element: int, thread: int) -> Process:
        """Spend what an element takes on a thread."""
        clock = self.clock
        for work in works:
            row = [thread, element, clock.now, -1.0]
            work.rows.append(row)
            if amount := work.cost_ns(element):
                yield work.kind, amount
            row[3] = clock.now

    def call(self, owner: _ParallelMap, call: list[Any]) -> None:
        """Hand a call of a parallel map to the pool."""
        self._calls.append((owner, call))
        if self._idle:
            self.start(self._idle.pop())
        elif self._workers < self.pool:
            self._workers += 1
            self.start(self._working(self.thread(f"{_WORKER} {self._workers}")))

    def _working(self, thread: int) -> Process:
        """Be a thread of the pool."""
        calls = self._calls
        while True:
            while not calls:
                yield WAIT, self._idle
            owner, call = calls.popleft()
            yield from self.do(owner.works, call[0], thread)
            owner.finish(call)

    def chain(self, steps: tuple[Step, ...], thread: str, file: int | None, kept: dict[int, Any]) -> Any:
        """Return an iterator of a chain of steps that is asked on a thread; `kept` holds its caches between epochs."""
        threads = [thread] * len(steps)
        for place in range(len(steps) - 1, 0, -1):
            own = PREFETCH if _buffers(steps[place]) else _STARTER if steps[place].kind == "ParallelMap" else None
            threads[place - 1] = own or threads[place]
        made: Any = _Source(self, self.elements(file))
        for place, step in enumerate(steps[1:], 1):
            if step.kind in ("Cache", "MemoryCache", "Snapshot"):
                made = _Cache(self, step, made, threads[place], kept.setdefault(place, {}))
            elif step.kind == "Repeat":
                made = _Repeat(self, step, partial(self.chain, steps[:place], threads[place], file, kept))
            elif _buffers(step):
                size = step.settings.get("buffer_size", AUTOTUNE)
                made = _Buffer(self, made, AHEAD if size == AUTOTUNE else size)
            elif step.kind in _KINDS:
                made = _KINDS[step.kind](self, step, made, threads[place])
        return made


def _buffers(step: Step) -> bool:
    return step.kind == "Prefetch" and step.settings.get("buffer_size") != 0


class _Source:
    """The elements of a source."""

    def __init__(self, run: Run, elements: Iterator[int]) -> None:
        self.run, self.elements = run, elements

    def next(self) -> Next:
        """Return the next one."""
        yield from ()
        element = next(self.elements, None)
        if element is not None:
            self.run.count()
        return element


class _Iterator:
    """An iterator of one step: `next` returns its next element, or None at the end."""

    def __init__(self, run: Run, step: Step, source: Any, thread: str) -> None:
        self.run, self.step, self.source, self.thread = run, step, source, run.thread(thread)
        self.works = list(run.works(step))
        self.ordered = run.ordered if step.ordered is None else step.ordered

    def setting(self, name: str, chosen: int) -> int:
        """Return a setting of the step; `chosen` if it has none or tf.data chooses it."""
        value = self.step.settings.get(name, AUTOTUNE)
        return chosen if value == AUTOTUNE else value

    def next(self) -> Next:
        raise NotImplementedError


class _Map(_Iterator):
    """A function on the thread that asks; a filter, too, which lets everything through."""

    def next(self) -> Next:
        element = yield from self.source.next()
        if element is not None:
            yield from self.run.do(self.works, element, self.thread)
        return element


class _Buffer:
    """A thread that makes elements of its source as long as fewer than `size` are ready."""

    def __init__(self, run: Run, source: Any, size: int, filled: list[Process] | None = None) -> None:
        self.run, self.source, self.size = run, source, size
        self.ready: deque[int] = deque()
        self.begun = self.ended = False
        self.filled: list[Process] = [] if filled is None else filled
        self.space: list[Process] = []

    def begin(self) -> None:
        """Start the thread, if it is not running yet."""
        if not self.begun:
            self.begun = True
            self.run.start(self._filling())

    def next(self) -> Next:
        self.begin()
        while not self.ready:
            if self.ended:
                return None
            yield WAIT, self.filled
        element = self.ready.popleft()
        self.run.clock.wake(self.space)
        return element

    def _filling(self) -> Process:
        clock, ready = self.run.clock, self.ready
        while True:
            while len(ready) >= self.size:
                yield WAIT, self.space
            element = yield from self.source.next()
            if element is None:
                break
            ready.append(element)
            clock.wake(self.filled)
        self.ended = True
        clock.wake(self.filled)


class _ParallelMap(_Iterator):
    """One thread starts calls in order; as many calls and finished elements are held as there may be calls."""

    def __init__(self, run: Run, step: Step, source: Any, thread: str) -> None:
        super().__init__(run, step, source, thread)
        self.limit = self.setting("num_parallel_calls", run.pool)
        self.begun = self.ended = False
        self.calls: deque[list[Any]] = deque()  # [element, whether it is finished]
        self.room: list[Process] = []
        self.done: list[Process] = []

    def next(self) -> Next:
        if not self.begun:
            self.begun = True
            self.run.start(self._starting())
        calls = self.calls
        while True:
            call = next((c for c in calls if c[1]), None) if not self.ordered else calls[0] if calls else None
            if call is not None and call[1]:
                calls.remove(call)
                self.run.clock.wake(self.room)
                return call[0]
            if self.ended and not calls:
                return None
            yield WAIT, self.done

    def _starting(self) -> Process:
        while True:
            while len(self.calls) >= self.limit:
                yield WAIT, self.room
            element = yield from self.source.next()
            if element is None:
                break
            call = [element, False]
            self.calls.append(call)
            self.run.call(self, call)
        self.ended = True
        self.run.clock.wake(self.done)

    def finish(self, call: list[Any]) -> None:
        """Note that a call is over."""
        call[1] = True
        if call is self.calls[0] or not self.ordered:
            self.run.clock.wake(self.done)


class _Interleave(_Iterator):
    """Files in turn, some elements each; in parallel, as many files as there are calls are read ahead."""

    def __init__(self, run: Run, step: Step, source: Any, thread: str) -> None:
        super().__init__(run, step, source, thread)
        self.cycle = self.setting("cycle_length", run.pool) if "Interleave" in step.kind else 1
        self.calls = self.setting("num_parallel_calls", run.pool) if "Parallel" in step.kind else 0
        self.block = step.settings.get("block_length", 1)
        self.open: list[Any] | None = None
        self.at = self.given = 0
        self.filled: list[Process] = []

    def next(self) -> Next:
        if self.open is None:
            opened = []
            for place in range(self.cycle):
                opened.append((yield from self._file(place)))
            self.open = [file for file in opened if file is not None]
        while self.open:
            self.at %= len(self.open)
            place = self.at if self.ordered or not self.calls else self._ready()
            if place is None:
                yield WAIT, self.filled
                continue
            element = yield from self.open[place].next()
            if element is not None:
                self.given += 1
            elif (new := (yield from self._file(place))) is None:
                del self.open[place]
                self.given = 0
            else:
                self.open[place], self.given = new, self.block
            if self.given >= self.block:
                self.at, self.given = self.at + 1, 0
            if element is not None:
                return element
        return None

    def _file(self, place: int) -> Generator[tuple, None, Any]:
        """Return an iterator of the next file, or None if there is none."""
        run, file = self.run, (yield from self.source.next())
        if file is None:
            return None
        if place >= self.calls:
            return run.chain(self.step.inner, run.threads[self.thread], file, {})
        made = run.chain(self.step.inner, f"{_READER} {place + 1}", file, {})
        # In any order it does not matter whose file it is that has something ready.
        made = _Buffer(run, made, self.block + 1, None if self.ordered else self.filled)
        made.begin()
        return made

    def _ready(self) -> int | None:
        """Return the place of the first file, in turn, that has something ready or has ended."""
        places = ((self.at + ahead) % len(self.open) for ahead in range(len(self.open)))
        files = ((place, self.open[place]) for place in places)
        return next((p for p, f in files if not isinstance(f, _Buffer) or f.ready or f.ended), None)


class _Batch(_Iterator):
    def next(self) -> Next:
        run, clock, elements = self.run, self.run.clock, []
        begun, size = clock.now, self.step.settings.get("batch_size", 1)
        for _ in range(size):
            asked = clock.now
            element = yield from self.source.next()
            if element is None:
                break
            elements.append(element)
            run.asked.append((asked, clock.now))
        run.arrived += elements
        if not elements or (self.step.settings.get("drop_remainder") and len(elements) < size):
            return None
        batch = run.joined(elements)
        yield from run.do(self.works, batch, self.thread)
        run.batches.append((begun, clock.now))
        return batch


class _Unbatch(_Iterator):
    left = 0

    def next(self) -> Next:
        if not self.left:
            element = yield from self.source.next()
            if element is None:
                return None
            self.left = element
        self.left -= 1
        return 1


class _Cache(_Iterator):
    """A cache: the first epoch fills `memory`, later ones read it."""

    def __init__(self, run: Run, step: Step, source: Any, thread: str, memory: dict[str, Any]) -> None:
        super().__init__(run, step, source, thread)
        self.memory = memory
        self.left = iter(memory["elements"]) if memory.get("full") else None

    def next(self) -> Next:
        if self.left is not None:
            return next(self.left, None)
        element = yield from self.source.next()
        if element is None:
            self.memory["full"] = True
        self.memory.setdefault("elements", []).extend([] if element is None else [element])
        return element


class _Repeat:
    """Another iterator of the same chain for each epoch."""

    def __init__(self, run: Run, step: Step, again: Callable[[], Any]) -> None:
        self.run, self.again, self.source = run, again, again()
        self.left: float = step.settings.get("count", -1)
        self.left = math.inf if self.left < 0 else self.left

    def next(self) -> Next:
        while self.left:
            element = yield from self.source.next()
            if element is not None:
                return element
            self.left -= 1
            self.run.count()
            self.source = self.again()
        return None


class _Shuffle(_Iterator):
    """A buffer that is full before the first element leaves it; which element leaves it costs the same."""

    def __init__(self, run: Run, step: Step, source: Any, thread: str) -> None:
        super().__init__(run, step, source, thread)
        self.held: deque[int] = deque()

    def next(self) -> Next:
        while len(self.held) < self.step.settings.get("buffer_size", 1):
            element = yield from self.source.next()
            if element is None:
                break
            self.held.append(element)
        return self.held.popleft() if self.held else None


class _Some(_Iterator):
    """Take, skip and shard."""

    seen = 0

    def next(self) -> Next:
        kind, settings = self.step.kind, self.step.settings
        count = settings.get("num_shards" if kind == "Shard" else "count", 0)
        while kind != "Take" or count < 0 or self.seen < count:
            element = yield from self.source.next()
            if element is None:
                break
            place, self.seen = self.seen, self.seen + 1
            if kind == "Shard" and place % max(count, 1) != settings.get("index", 0):
                continue
            if kind == "Skip" and not place >= count >= 0:
                continue
            return element
        return None


_KINDS = {
    "Map": _Map, "Filter": _Map, "ParallelMap": _ParallelMap, "Batch": _Batch, "ParallelBatch": _Batch,
    "PaddedBatch": _Batch, "Interleave": _Interleave, "ParallelInterleave": _Interleave, "FlatMap": _Interleave,
    "Unbatch": _Unbatch, "Shuffle": _Shuffle, "Take": _Some, "Skip": _Some, "Shard": _Some,
}  # fmt: skip
