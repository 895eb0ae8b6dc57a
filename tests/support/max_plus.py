"""The max-plus recursion of a tandem queue with finite buffers: what the engine of `labkit.simulate` is compared with.

There are no events and no clock here: each step of a chain says, as a formula, when it hands over an element that was
asked for at some instant. Parallel calls take a place each, and a place is free again when the consumer has taken what
was made in it. It is exact where one parallel map has the pool of threads for itself and an interleave keeps the order.
"""

from __future__ import annotations

import functools
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit.pipelines.structure import AUTOTUNE, Step

AHEAD = 2


@dataclass
class World:
    """What all steps of a run share; `cost(step, images)` is what the function of a step takes."""

    cost: Callable[[Step, int], float]
    pool: int
    records: int
    ordered: bool = True
    free: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.free = [0.0] * self.pool


def steps_of(chain, elements, world, train):
    """Return (asked, got, end) of each train step until the chain ends."""
    pipeline, now, found = built(chain, elements, world), 0.0, []
    while (got := pipeline.next(now)) is not None:
        found.append((now, got[0], got[0] + train))
        now = got[0] + train
    return found


class _Node:
    """An iterator of one step: `next` returns (time of the element, images in it), or None at the end."""

    def __init__(self, step, source, world):
        self.step, self.source, self.world = step, source, world

    def get(self, name, chosen):
        value = self.step.settings.get(name, AUTOTUNE)
        return chosen if value == AUTOTUNE else value


class _Source:
    def __init__(self, elements):
        self.left = elements

    def next(self, now):
        self.left -= 1
        return (now, 1) if self.left >= 0 else None


class _Map(_Node):
    def next(self, now):
        got = self.source.next(now)
        return None if got is None else (got[0] + self.world.cost(self.step, got[1]), got[1])


class _Ahead(_Node):
    """What runs ahead: element i begins when element i - places was taken, and i - 1 was asked for."""

    def __init__(self, step, source, world, places, ordered=True):
        super().__init__(step, source, world)
        self.places, self.ordered = places, ordered
        self.asked: float | None = None
        self.ended, self.number = False, 0
        self.taken: list[float] = []
        self.ready: list[tuple[float, int, float, int]] = []

    def next(self, now):
        self.asked = now if self.asked is None else self.asked
        while not self.ended and self.number < len(self.taken) + self.places:
            free = self.taken[self.number - self.places] if self.number >= self.places else self.asked
            got = self.make(max(self.asked, free))
            if got is None:
                self.ended = True
                break
            heapq.heappush(self.ready, (self.number if self.ordered else got[0], self.number, *got))
            self.number += 1
        if not self.ready:
            return None
        *_, done, images = heapq.heappop(self.ready)
        self.taken.append(max(now, done))
        return self.taken[-1], images

    def make(self, start):
        """Make an element on a thread that asks for the next one as soon as there is a place for it."""
        got = self.source.next(start)
        if got is not None:
            self.asked = got[0]
        return got


class _ParallelMap(_Ahead):
    def make(self, start):
        got = super().make(start)
        if got is None:
            return None
        end = max(got[0], heapq.heappop(self.world.free)) + self.world.cost(self.step, got[1])
        heapq.heappush(self.world.free, end)
        return end, got[1]


class _Batch(_Node):
    def next(self, now):
        size, images = self.step.settings["batch_size"], 0
        for place in range(size):
            got = self.source.next(now)
            if got is None:
                if not place or self.step.settings.get("drop_remainder"):
                    return None
                break
            now, images = got[0], images + got[1]
        return now, images


class _Unbatch(_Node):
    left = 0

    def next(self, now):
        if not self.left:
            got = self.source.next(now)
            if got is None:
                return None
            now, self.left = got
        self.left -= 1
        return now, 1


class _Interleave(_Node):
    """Files in turn, `block` elements each; in parallel, as many files as there are calls are read ahead."""

    def __init__(self, step, source, world):
        super().__init__(step, source, world)
        self.cycle = self.get("cycle_length", world.pool)
        self.calls = self.get("num_parallel_calls", world.pool) if "Parallel" in step.kind else 0
        self.block = step.settings.get("block_length", 1)
        self.open: list[Any] | None = None
        self.at = self.given = 0

    def _file(self, place, now):
        if self.source.next(now) is None:
            return None
        made = built(self.step.inner, self.world.records, self.world)
        if place >= self.calls:
            return made
        ahead = _Ahead(None, made, self.world, self.block + 1)
        ahead.asked = now
        return ahead

    def next(self, now):
        if self.open is None:
            self.open = [f for f in (self._file(place, now) for place in range(self.cycle)) if f is not None]
        while self.open:
            self.at %= len(self.open)
            if self.given < self.block:
                got = self.open[self.at].next(now)
                if got is not None:
                    self.given += 1
                    return got
                new = self._file(self.at, now)
                if new is None:
                    del self.open[self.at]
                    self.given = 0
                    continue
                self.open[self.at] = new
            self.at, self.given = self.at + 1, 0
        return None


class _Kept(_Node):
    def __init__(self, step, source, world, memory):
        super().__init__(step, source, world)
        self.memory = memory
        self.left = list(memory["images"]) if "full" in memory else None

    def next(self, now):
        if self.left is not None:
            return (now, self.left.pop(0)) if self.left else None
        got = self.source.next(now)
        kept = self.memory.setdefault("images", [])
        if got is None:
            self.memory["full"] = True
        else:
            kept.append(got[1])
        return got


class _Repeat:
    def __init__(self, again, count):
        self.again, self.left, self.source = again, count, again()

    def next(self, now):
        while self.left:
            got = self.source.next(now)
            if got is not None:
                return got
            self.left, self.source = self.left - 1, self.again()
        return None


class _Shuffle(_Node):
    def __init__(self, step, source, world):
        super().__init__(step, source, world)
        self.held: deque[int] = deque()

    def next(self, now):
        while len(self.held) < self.step.settings["buffer_size"]:
            got = self.source.next(now)
            if got is None:
                break
            now = got[0]
            self.held.append(got[1])
        return (now, self.held.popleft()) if self.held else None


class _Some(_Node):
    seen = 0

    def next(self, now):
        kind, count = self.step.kind, self.step.settings["count"]
        while kind != "Take" or self.seen < count:
            got = self.source.next(now)
            if got is None:
                return None
            now, self.seen = got[0], self.seen + 1
            if kind == "Take" or self.seen > count:
                return got
        return None


_PLAIN = {
    "Map": _Map, "Batch": _Batch, "Unbatch": _Unbatch, "Shuffle": _Shuffle, "Take": _Some, "Skip": _Some,
    "Interleave": _Interleave, "ParallelInterleave": _Interleave,
}  # fmt: skip


def built(chain, elements, world, keep=None):
    """Return an iterator of a chain of steps; `keep` is where caches live from epoch to epoch."""
    keep = {} if keep is None else keep
    made: Any = _Source(elements)
    for place, step in enumerate(chain[1:], 1):
        if step.kind == "ParallelMap":
            ordered = world.ordered if step.ordered is None else step.ordered
            made = _ParallelMap(step, made, world, step.settings["num_parallel_calls"], ordered)
            made.places = made.get("num_parallel_calls", world.pool)
        elif step.kind == "Prefetch":
            made = _Ahead(step, made, world, step.settings["buffer_size"])
            made.places = made.get("buffer_size", AHEAD)
        elif step.kind == "Cache":
            made = _Kept(step, made, world, keep.setdefault(place, {}))
        elif step.kind == "Repeat":
            again = functools.partial(built, chain[:place], elements, world, keep)
            made = _Repeat(again, step.settings["count"])
        else:
            made = _PLAIN[step.kind](step, made, world)
    return made
