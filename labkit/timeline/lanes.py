"""Rows of a timeline: what one thread, unit of a device, stream or accelerator did.

Pure functions in integer nanoseconds, counted from the start of the window.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labkit.timeline.intervals import Intervals, at_least, complement, union
from labkit.timeline.nesting import Owned, depths, owners
from labkit.timeline.trace import CATEGORIES, THREAD_KINDS, Trace

#: What a lane shows, in the order of a picture. A ``unit`` is a device, or a part of one: it is no thread.
LANE_KINDS = ("accelerator", "stream", "unit", "wait", "script", "pipeline", "host")

#: The kind of the lane of a thread, by the kind of the thread, where they have different names.
_SHOWN_AS = {"device": "stream", "consumer": "pipeline"}

#: What pipeline threads work on. ``iterator`` is not in it: a tf.data node that runs no op of its own
#: keeps books, or waits for another thread.
WORK = ("read", "decode", "resize", "map", "batch", "transfer", "copy", "kernel", "other")

#: How other loaders than tf.data wait: for another thread, an element of a queue, room in it, and at a pipe.
RESTS, GET, PUT = "waits for another thread", "queue get", "queue put"
PIPE = RECEIVE, SEND = "receive", "send"

_WAIT, _ITERATOR = CATEGORIES.index("wait"), CATEGORIES.index("iterator")

#: Whether each of `CATEGORIES` is in `WORK`: ndarray of bool.
IS_WORK = np.array([category in WORK for category in CATEGORIES])


@dataclass(frozen=True, eq=False)
class Lane:
    """One row of the picture; times count from the start of the window and end with it.

    Parameters
    ----------
    name : str
    kind : str
        One of `LANE_KINDS`.
    start_ns, end_ns : ndarray of int64, shape (n,)
        Spans sorted by start, longer ones first on ties.
    category, name_id, thread, step : ndarray, shape (n,)
        Index into `CATEGORIES`; index into ``timeline.names``; index into ``trace.threads``; step or -1.
    row : ndarray of int64, shape (n,)
        Index of each span in the trace.
    depth : ndarray of int32, shape (n,)
        Spans of one depth never overlap; see `labkit.timeline.nesting.depths`.
    pieces : Owned
        Time cut into pieces, each owned by the innermost span that is open there.
    busy : Intervals
        When the lane works: pieces that belong to work, not to waiting or bookkeeping. An accelerator does not work
        while it waits for another process in the middle of a step, nor the consumer of a circuit while it rests.
    window_ns : int
        Length of the window.
    """

    name: str
    kind: str
    start_ns: np.ndarray
    end_ns: np.ndarray
    category: np.ndarray
    name_id: np.ndarray
    thread: np.ndarray
    step: np.ndarray
    row: np.ndarray
    depth: np.ndarray
    pieces: Owned
    busy: Intervals
    window_ns: int

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.start_ns)

    def __repr__(self) -> str:
        """Return name, kind, spans and busy share on one line."""
        return f"Lane({self.name!r}, {self.kind}, {len(self):,} spans, {self.share:.1%} busy)"

    @property
    def share(self) -> float:
        """Share of the window in which the lane is busy, 0 to 1; 0 for an empty window."""
        return self.busy.total_ns / self.window_ns if self.window_ns else 0.0

    @cached_property
    def feeds(self) -> bool:
        """Whether it works on batches: a thread of the pipeline, or a unit that not only joins processes."""
        joins = (self.category == CATEGORIES.index("transfer")).all()
        return self.kind == "pipeline" or (self.kind == "unit" and not joins)

    @cached_property
    def self_ns(self) -> np.ndarray:
        """Own time of each span, without what goes on inside it: int64, shape (n,), in nanoseconds."""
        own = np.zeros(len(self), np.int64)
        np.add.at(own, self.pieces.owner, self.pieces.end - self.pieces.start)
        return own

    def owned(self, spans: np.ndarray) -> Intervals:
        """Return when the innermost span that is open is one of those that a mask of its spans chooses."""
        mine = spans[self.pieces.owner]
        return union(self.pieces.start[mine], self.pieces.end[mine])

    @cached_property
    def by_category(self) -> dict[str, int]:
        """Own time in nanoseconds per category that occurs; they add up to the time that any span covers."""
        total = np.zeros(len(CATEGORIES), np.int64)
        np.add.at(total, self.category, self.self_ns)
        return {CATEGORIES[code]: int(total[code]) for code in np.flatnonzero(total)}


def cut(trace: Trace, rows: np.ndarray, origin_ns: int, span_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return start, end and row of the spans among `rows` that touch the window, cut to it, in the order of a trace."""
    start = trace.start_ns[rows] - origin_ns
    end = start + trace.duration_ns[rows]
    inside = (start <= span_ns) & (end >= 0) & ((start == end) | ((start < span_ns) & (end > 0)))
    rows = rows[inside]
    start, end = np.clip(start[inside], 0, None), np.clip(end[inside], None, span_ns)
    order = np.lexsort((-end, start))  # what began before the window now begins with it
    return start[order], end[order], rows[order]


def lane_of(trace: Trace, name: str, kind: str, rows: np.ndarray, origin_ns: int, span_ns: int) -> Lane:
    """Return the lane of those spans among `rows` of a trace that touch the window."""
    start, end, rows = cut(trace, rows, origin_ns, span_ns)
    category = trace.category[rows]
    depth = depths(start, end)
    pieces = owners(start, end, depth)
    if kind in ("pipeline", "host", "unit"):
        works = IS_WORK[category[pieces.owner]]
        busy = union(pieces.start[works], pieces.end[works])
    else:
        waits = category == _WAIT if kind in ("accelerator", "stream") else np.zeros(len(category), bool)
        waits |= (category == _ITERATOR) & (kind == "accelerator")
        busy = union(start[~waits], end[~waits])
        if waits.any():
            busy = at_least([busy, complement(union(start[waits], end[waits]), 0, span_ns)], 2)
    ids = (category, trace.name[rows], trace.thread[rows], trace.step[rows], rows)
    return Lane(name, kind, start, end, *ids, depth, pieces, busy, span_ns)


def build(trace: Trace, origin_ns: int, span_ns: int) -> tuple[Lane, ...]:
    """Return the accelerator on top, then streams, units, waits, and threads in the natural order of their names.

    Where several processes are on one clock, the name of a thread begins with that of its process, and the accelerator
    is that of the process whose consumer is in the trace. A device thread with the name of its lane holds when it waits
    in the middle of a train step, for another process: spans of category ``wait``. The consumer of a circuit stands in
    place of the accelerator, and units below it in their order.
    """
    consumers = (thread.name.rpartition(" · ") for thread in trace.threads if thread.kind == "consumer")
    prefix = next(("".join(parts[:2]) for parts in consumers), "")
    name = "consumer" if trace.run.of_cycles else f"{prefix}accelerator"
    wait, train = (trace.select(category, kind="consumer") for category in ("wait", "train"))
    meets = trace.select("wait", kind="device") & _of(trace, lambda thread: thread == name)
    kernels = trace.select("kernel", kind="device") & _of(trace, lambda thread: thread.startswith(prefix))
    on_device = bool(kernels.any()) and trace.run.accelerator.kind != "modelled"
    rests = trace.select("iterator", kind="consumer") & trace.run.of_cycles

    def lane(name: str, kind: str, mask: np.ndarray) -> Lane:
        return lane_of(trace, name, kind, np.flatnonzero(mask), origin_ns, span_ns)

    # A script may keep the accelerator busy beside its train steps, with a validation.
    works = kernels if on_device else train | trace.select("train", kind="script")
    lanes = [lane(name, "accelerator", works | meets | rests)]
    if wait.any() and not trace.run.of_cycles:
        lanes.append(lane(f"{prefix}waits for a batch", "wait", wait))
    for kind in THREAD_KINDS:
        ids = [i for i, thread in enumerate(trace.threads) if thread.kind == kind]
        # What passes the units of a device, or of a circuit, passes them in the order in which the trace has them.
        for i in ids if kind == "unit" else sorted(ids, key=lambda i: _natural(trace.threads[i].name)):
            mask = (trace.thread == i) & ~wait & ~train & ~meets & ~rests
            if mask.any():
                lanes.append(lane(trace.threads[i].name, _SHOWN_AS.get(kind, kind), mask))
    return tuple(sorted(lanes, key=lambda lane: LANE_KINDS.index(lane.kind)))


def _of(trace: Trace, select: Callable[[str], bool]) -> np.ndarray:
    """Return a boolean mask of the spans of those threads whose name `select` chooses."""
    return np.array([select(thread.name) for thread in trace.threads], bool)[trace.thread]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts "worker 10" after "worker 9"."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
