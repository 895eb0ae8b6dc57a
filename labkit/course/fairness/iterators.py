"""Nodes as iterators on a virtual clock: each says when it hands over an element that was asked for at some instant.

That is the max-plus recursion of a tandem queue with finite buffers; parallel calls take a place each, and a place is
free again when the consumer has taken what was made in it. Nothing is run, and nothing is measured.
"""

from __future__ import annotations

import functools
import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.course.fairness.graph import AUTOTUNE, Node
from labkit.course.fairness.stages import Stage

#: Elements of a run: a pipeline that never ends is refused, not simulated for ever.
MOST = 100_000
#: Elements of a prefetch whose size tf.data may choose.
AHEAD = 2
#: Threads of the trace.
CONSUMER, PREFETCH, INLINE = "consumer", "tf.data Prefetch", "tf.data in the consumer's thread"
_WORKER, _READER = "tf.data worker", "tf.data interleave"


class Endless(ValueError):
    """The pipeline never ends, so it has no makespan."""


@dataclass
class World:
    """What all nodes of a run share."""

    stages: Mapping[str, Stage]
    pool: int
    records: int
    ordered: bool
    threads: list[tuple[float, int]]
    spans: list[tuple[str, str, float, float]]
    made: int = 0

    def work(self, names: tuple[str, ...], images: int, thread: str, start: float) -> float:
        """Spend the time of some stages from `start` on; return the end."""
        for name in names:
            stage = self.stages.get(name)
            cost = 0.0 if stage is None else stage.cost_ms(images)
            if cost:
                self.spans.append((thread, name, start, start + cost))
                start += cost
        return start

    def count(self) -> None:
        """Count an element that left a source."""
        self.made += 1
        if self.made > MOST:
            raise Endless(f"more than {MOST:,} elements were made: the pipeline never ends, or holds too many")


class _Node:
    """An iterator of one node: `next` returns (time of the element, images in it), or None at the end."""

    def __init__(self, node: Node | None, source: Any, world: World, thread: str) -> None:
        self.node, self.source, self.world, self.thread = node, source, world, thread

    def next(self, now: float) -> tuple[float, int] | None:
        raise NotImplementedError


class _Source(_Node):
    def __init__(self, elements: int, world: World) -> None:
        super().__init__(None, None, world, "")
        self.left = elements

    def next(self, now: float) -> tuple[float, int] | None:
        if self.left <= 0:
            return None
        self.left -= 1
        self.world.count()
        return now, 1


class _Map(_Node):
    def next(self, now: float) -> tuple[float, int] | None:
        got = self.source.next(now)
        if got is None:
            return None
        return self.world.work(self.node.stages, got[1], self.thread, got[0]), got[1]


class _Ahead(_Node):
    """What runs ahead of its consumer: element i begins when element i - places was taken, and i - 1 was asked for."""

    def __init__(self, node: Node | None, source: Any, world: World, thread: str, places: int, ordered: bool) -> None:
        super().__init__(node, source, world, thread)
        self.places, self.ordered = places, ordered
        self.asked: float | None = None
        self.ended, self.number = False, 0
        self.taken: list[float] = []
        self.ready: list[tuple[float, int, float, int]] = []

    def next(self, now: float) -> tuple[float, int] | None:
        """Make all that there was a place for until now, and hand over the next one."""
        self.asked = now if self.asked is None else self.asked
        while not self.ended and self.number < len(self.taken) + self.places:
            free = self.taken[self.number - self.places] if self.number >= self.places else self.asked
            got = self._make(max(self.asked, free))
            if got is None:
                self.ended = True
                break
            key = self.number if self.ordered else got[0]
            heapq.heappush(self.ready, (key, self.number, *got))
            self.number += 1
        if not self.ready:
            return None
        *_, done, images = heapq.heappop(self.ready)
        self.taken.append(max(now, done))
        return self.taken[-1], images

    def _make(self, start: float) -> tuple[float, int] | None:
        raise NotImplementedError


class Prefetch(_Ahead):
    """One thread that asks for the next element as soon as there is a place for it."""

    def _make(self, start: float) -> tuple[float, int] | None:
        got = self.source.next(start)
        if got is not None:
            self.asked = got[0]
        return got


class _ParallelMap(_Ahead):
    """One thread hands elements to calls; each call takes a thread of the pool."""

    def _make(self, start: float) -> tuple[float, int] | None:
        got = self.source.next(start)
        if got is None:
            return None
        self.asked = got[0]
        free, thread = heapq.heappop(self.world.threads)
        end = self.world.work(self.node.stages, got[1], f"{_WORKER} {thread + 1}", max(got[0], free))
        heapq.heappush(self.world.threads, (end, thread))
        return end, got[1]


class _Batch(_Node):
    def next(self, now: float) -> tuple[float, int] | None:
        size, images = self.node.values.get("size") or 1, 0
        for place in range(size):
            got = self.source.next(now)
            if got is None:
                if not place or self.node.values.get("drop"):
                    return None
                break
            now, images = got[0], images + got[1]
        return now, images


class _Unbatch(_Node):
    left = 0

    def next(self, now: float) -> tuple[float, int] | None:
        if not self.left:
            got = self.source.next(now)
            if got is None:
                return None
            now, self.left = got
        self.left -= 1
        return now, 1


class _Interleave(_Node):
    """Files in turn, `block` elements each; in parallel, as many files as there are calls are read ahead."""

    def __init__(self, node: Node, source: Any, world: World, thread: str) -> None:
        super().__init__(node, source, world, thread)
        cycle, calls = node.values.get("cycle") or 1, node.values.get("calls")
        self.cycle = world.pool if cycle == AUTOTUNE else cycle
        self.calls = (world.pool if calls in (None, AUTOTUNE) else calls) if "Parallel" in node.kind else 0
        self.block = node.values.get("block") or 1
        self.open: list[Any] | None = None
        self.at = self.given = 0

    def _file(self, place: int, now: float) -> Any:
        if self.source.next(now) is None:
            return None
        apart = place < self.calls
        thread = f"{_READER} {place + 1}" if apart else self.thread
        made = built(self.node.inner, self.world.records, self.world, thread)
        if not apart:
            return made
        ahead = Prefetch(None, made, self.world, thread, self.block + 1, True)
        ahead.asked = now
        return ahead

    def next(self, now: float) -> tuple[float, int] | None:
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
    """A cache: the first epoch fills `memory`, later ones read it."""

    def __init__(self, node: Node, source: Any, world: World, thread: str, memory: dict[str, Any]) -> None:
        super().__init__(node, source, world, thread)
        self.memory, self.place = memory, 0
        self.reads = memory.get("full", False)

    def next(self, now: float) -> tuple[float, int] | None:
        kept = self.memory.setdefault("images", [])
        if self.reads:
            self.place += 1
            return (now, kept[self.place - 1]) if self.place <= len(kept) else None
        got = self.source.next(now)
        if got is None:
            self.memory["full"] = True
        else:
            kept.append(got[1])
        return got


class _Repeat(_Node):
    """Another iterator of the same chain for each epoch."""

    def __init__(self, node: Node, again: Callable[[], Any], world: World, count: int | None) -> None:
        super().__init__(node, again(), world, "")
        self.again, self.left = again, count

    def next(self, now: float) -> tuple[float, int] | None:
        endless = self.left is None or self.left < 0
        while endless or self.left:
            got = self.source.next(now)
            if got is not None:
                return got
            if not endless:
                self.left -= 1
                if not self.left:
                    break
            self.world.count()
            self.source = self.again()
        return None


class _Shuffle(_Node):
    """A buffer that is filled before the first element leaves it."""

    def __init__(self, node: Node, source: Any, world: World, thread: str) -> None:
        super().__init__(node, source, world, thread)
        self.buffer: deque[int] = deque()

    def next(self, now: float) -> tuple[float, int] | None:
        size = self.node.values.get("size") or 1
        while len(self.buffer) < size:
            got = self.source.next(now)
            if got is None:
                break
            now = got[0]
            self.buffer.append(got[1])
        return (now, self.buffer.popleft()) if self.buffer else None


class _Some(_Node):
    """Take, skip and shard."""

    seen = 0

    def next(self, now: float) -> tuple[float, int] | None:
        kind, count = self.node.kind, self.node.values.get("count")
        count = 0 if count is None else count
        if kind == "Take" and 0 <= count <= self.seen:
            return None
        while True:
            got = self.source.next(now)
            if got is None:
                return None
            now, place = got[0], self.seen
            self.seen += 1
            if kind == "Take" or (kind == "Skip" and place >= count >= 0):
                return got
            if kind == "Shard" and place % max(count, 1) == (self.node.values.get("index") or 0):
                return got


def built(nodes: tuple[Node, ...], elements: int, world: World, thread: str, keep: Any = None) -> Any:
    """Return an iterator of a chain; `keep` is where caches live from epoch to epoch."""
    keep = {} if keep is None else keep
    made: Any = _Source(elements, world)
    for place, node in enumerate(nodes[1:], 1):
        own = _thread(nodes, place) or thread
        kind, calls, size = node.kind, node.values.get("calls"), node.values.get("size")
        in_order = world.ordered if node.ordered is None else node.ordered
        if kind == "ParallelMap":
            many = world.pool if calls in (None, AUTOTUNE) else calls
            made = _ParallelMap(node, made, world, own, many, in_order)
        elif kind == "Prefetch" and size != 0:
            made = Prefetch(node, made, world, own, AHEAD if size in (None, AUTOTUNE) else size, True)
        elif kind in ("Interleave", "ParallelInterleave", "FlatMap"):
            made = _Interleave(node, made, world, own)
        elif kind in ("Cache", "MemoryCache", "Snapshot"):
            made = _Kept(node, made, world, own, keep.setdefault(place, {}))
        elif kind == "Repeat":
            again = functools.partial(built, nodes[:place], elements, world, thread, keep)
            made = _Repeat(node, again, world, node.values.get("count"))
        elif kind in _PLAIN:
            made = _PLAIN[kind](node, made, world, own)
    return made


_PLAIN = {
    "Map": _Map, "Filter": _Map, "Batch": _Batch, "ParallelBatch": _Batch, "PaddedBatch": _Batch,
    "Unbatch": _Unbatch, "Shuffle": _Shuffle, "Take": _Some, "Skip": _Some, "Shard": _Some,
}  # fmt: skip


def _thread(nodes: tuple[Node, ...], place: int) -> str | None:
    """Return on which thread a node works that has none of its own: on that of the next one that runs ahead."""
    if nodes[place].kind == "ParallelMap":
        place += 1
    for node in nodes[place:]:
        if node.kind == "Prefetch" and node.values.get("size") != 0:
            return PREFETCH
        if node.kind == "ParallelMap":
            return "tf.data map, hands out"
    return None
