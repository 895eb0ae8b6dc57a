"""A chain of steps at work: which thread makes which element, and which steps wait for each other.

Each step is an iterator, and makes its next element on the thread that asks for it. Three parts run ahead on threads of
their own until their buffers are full: a prefetch, each file of a parallel interleave, and the thread that starts the
calls of a parallel map. This is the structure of tf.data with its rewriting off, on a `Clock` in place of real time.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from labkit.pipelines.structure import AUTOTUNE, Step
from labkit.simulate.clock import SLEEP, WAIT, Process
from labkit.simulate.workers import Endless, Simulation
from labkit.timeline.wording import WITH_CONSUMER

#: Elements that a buffer holds whose size tf.data chooses, and that each thread of an interleave keeps ready.
AHEAD = 2
#: Threads by their names in a trace.
PREFETCH, IN_CONSUMER = "tf.data Prefetch", f"tf.data {WITH_CONSUMER}"
_READER, _STARTER = "tf.data interleave", "tf.data map, hands out"

#: The type of `next` of a step: it waits on the clock and returns an element, or None at the end.
Next = Generator[tuple, None, int | None]


def train(
    run: Simulation,
    steps: tuple[Step, ...],
    count: int | None,
    train_ns: Callable[[int], float],
    copy_ns: Callable[[int], float] = lambda step: 0.0,
    each: int = 1,
) -> Simulation:
    """Train on a pipeline: let a run happen, and return it.

    Parameters
    ----------
    run : Simulation
        A new one.
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
        If sources make more than `run.most` elements, or as many train steps begin.
    """
    clock, pipeline = run.clock, chain(run, steps, IN_CONSUMER, None, {})

    def consume() -> Process:
        for step in itertools.count() if count is None else range(count):
            if step > run.most:
                raise Endless("the pipeline never ends")
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
            if ns := train_ns(step):
                yield SLEEP, ns
            run.taken.append((batches, asked, got, trained, clock.now))

    consumer = consume()
    clock.run([consumer], until=consumer)
    return run


def chain(run: Simulation, steps: tuple[Step, ...], thread: str, file: int | None, kept: dict[int, Any]) -> Any:
    """Return an iterator of a chain of steps that is asked on a thread; `kept` holds its caches between epochs."""
    steps = tuple(step for step in steps if step.kind != "Prefetch" or step.settings.get("buffer_size") != 0)
    threads = [thread] * len(steps)
    for place in range(len(steps) - 1, 0, -1):
        own = {"Prefetch": PREFETCH, "ParallelMap": _STARTER}
        threads[place - 1] = own.get(steps[place].kind, threads[place])
    made: Any = _Listed(run.source(file))
    for place, step in enumerate(steps[1:], 1):
        if place in kept:
            made = _Listed(iter(kept[place]))
        elif step.kind in ("Cache", "MemoryCache", "Snapshot"):
            made = _Cache(run, step, made, threads[place])
            made.keep = partial(kept.__setitem__, place)
        elif step.kind == "Repeat":
            made = _Repeat(run, step, partial(chain, run, steps[:place], threads[place], file, kept))
        elif step.kind in _KINDS:
            made = _KINDS[step.kind](run, step, made, threads[place])
    return made


class _Listed:
    """The elements of a source, or of a cache that is full."""

    def __init__(self, elements: Iterator[int]) -> None:
        self.elements = elements

    def next(self) -> Next:
        """Return the next one."""
        return next(self.elements, None)
        yield  # never reached: it makes this a generator, as `next` of all others


class _Iterator:
    """An iterator of one step: `next` returns its next element, or None at the end."""

    def __init__(self, run: Simulation, step: Step, source: Any, thread: str) -> None:
        self.run, self.step, self.source, self.thread = run, step, source, run.thread(thread)
        self.works = list(run.works(step))
        self.ordered = run.ordered if step.ordered is None else step.ordered
        self.held: deque[Any] = deque()  # elements that it keeps; of a thread that runs ahead [element, is it finished]

    def setting(self, name: str, chosen: int) -> int:
        """Return a setting of the step; `chosen` if it has none or tf.data chooses it."""
        value = self.step.settings.get(name, AUTOTUNE)
        return chosen if value == AUTOTUNE else value


class _Map(_Iterator):
    """A function on the thread that asks; a filter, too, which lets everything through."""

    def next(self) -> Next:
        element = yield from self.source.next()
        if element is not None:
            yield from self.run.do(self.works, element, self.thread)
        return element


class _Ahead(_Iterator):
    """A thread that runs ahead of its consumer: it holds at most `limit` elements, begun and finished ones together.

    It is a prefetch, or one file of an interleave: an element is finished as soon as the thread has it.
    """

    size = "buffer_size"

    def __init__(self, run: Simulation, step: Step, source: Any, thread: str) -> None:
        super().__init__(run, step, source, thread)
        self.limit = self.setting(self.size, AHEAD)
        self.begun = self.ended = False
        self.waiting: list[Process] = []
        self.done: list[Process] = []

    def begin(self) -> None:
        """Start the thread, if it is not running yet."""
        if not self.begun:
            self.begun = True
            self.run.start(self._running())

    def take(self) -> int | None:
        """Take the first element in order, else the first that is finished; None if it is not there yet."""
        for place in self.held:
            if place[1]:
                self.held.remove(place)
                self.run.clock.wake(self.waiting)
                return place[0]
            if self.ordered:
                break
        return None

    def next(self) -> Next:
        self.begin()
        while (element := self.take()) is None:
            if self.ended and not self.held:
                return None
            yield WAIT, self.done
        return element

    def _running(self) -> Process:
        held = self.held
        while True:
            while len(held) >= self.limit:
                yield WAIT, self.waiting
            element = yield from self.source.next()
            if element is None:
                break
            place = [element, False]
            held.append(place)
            self.make(place)
        self.ended = True
        self.run.clock.wake(self.done)

    def finish(self, place: list[Any]) -> None:
        """Note that the work on an element is over."""
        place[1] = True
        if place is self.held[0] or not self.ordered:
            self.run.clock.wake(self.done)

    #: Begins the work on an element that is held. Here the element is finished at once.
    make = finish


class _ParallelMap(_Ahead):
    """A thread that starts calls in order, which threads of the pool run."""

    size = "num_parallel_calls"

    def setting(self, name: str, chosen: int) -> int:
        return super().setting(name, self.run.pool)

    def make(self, place: list[Any]) -> None:
        self.run.call(self, place)


class _Interleave(_Iterator):
    """Files in turn, some elements each; in parallel, as many files as there are calls are read ahead."""

    def __init__(self, run: Simulation, step: Step, source: Any, thread: str) -> None:
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
            file = self.open[place]
            element = yield from file.next()
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
            return chain(run, self.step.inner, run.threads[self.thread], file, {})
        made = chain(run, self.step.inner, f"{_READER} {place + 1}", file, {})
        made = _Ahead(run, Step("Prefetch", {"buffer_size": self.block + 1}, ordered=True), made, IN_CONSUMER)
        if not self.ordered:  # the interleave does not wait for this file alone
            made.done = self.filled
        made.begin()
        return made

    def _ready(self) -> int | None:
        """Return the place of the first file, in turn, that has something ready or has ended."""
        places = range(len(self.open))
        for place in (*places[self.at :], *places[: self.at]):
            file = self.open[place]
            # A file beyond the parallel calls has no thread of its own: it is read when an element of it is asked for.
            if getattr(file, "done", None) is not self.filled or file.held or file.ended:
                return place
        return None


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
            self.left = (yield from self.source.next()) or 0
        if not self.left:
            return None
        self.left -= 1
        return 1


class _Cache(_Iterator):
    """A cache that is being filled; `keep` takes its elements at the end of an epoch, and later ones read them."""

    keep: Callable[[deque[int]], None]

    def next(self) -> Next:
        element = yield from self.source.next()
        if element is None:
            self.keep(self.held)
        else:
            self.held.append(element)
        return element


class _Repeat:
    """Another iterator of the same chain for each epoch."""

    def __init__(self, run: Simulation, step: Step, again: Callable[[], Any]) -> None:
        self.run, self.again, self.source = run, again, again()
        count = step.settings.get("count", -1)
        self.left = math.inf if count < 0 else count

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

    def next(self) -> Next:
        while len(self.held) < self.step.settings.get("buffer_size", 1):
            element = yield from self.source.next()
            if element is None:
                break
            self.held.append(element)
        return self.held.popleft() if self.held else None


class _Some(_Iterator):
    """Take, skip and shard; what runs ahead of a take goes on when the take ends, as long as there is room."""

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
    "Map": _Map, "Filter": _Map, "ParallelMap": _ParallelMap, "Prefetch": _Ahead, "Batch": _Batch, "Unbatch": _Unbatch,
    "ParallelBatch": _Batch, "PaddedBatch": _Batch, "Interleave": _Interleave, "ParallelInterleave": _Interleave,
    "FlatMap": _Interleave, "Shuffle": _Shuffle, "Take": _Some, "Skip": _Some, "Shard": _Some,
}  # fmt: skip
