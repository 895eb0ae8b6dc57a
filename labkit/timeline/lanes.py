"""Rows of a timeline: what one thread, stream or accelerator did, and how much of it fits on a screen.

Pure functions in integer nanoseconds, counted from the start of the window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from labkit.timeline.intervals import Intervals, Owned, covered_until, depths, owners, union
from labkit.timeline.trace import CATEGORIES, Trace

#: What a lane shows, in the order of a picture.
LANE_KINDS = ("accelerator", "stream", "wait", "pipeline", "host")

#: What pipeline threads work on. ``iterator`` is not in it: a tf.data node that runs no op of its own
#: keeps books, or waits for another thread.
WORK = ("read", "decode", "resize", "map", "batch", "copy", "kernel", "other")

_WORKS = np.array([category in WORK for category in CATEGORIES])


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
        Spans of one depth never overlap; see `labkit.timeline.intervals.depths`.
    pieces : Owned
        Time cut into pieces, each owned by the innermost span that is open there.
    busy : Intervals
        When the lane works: pieces that belong to work, not to waiting or bookkeeping.
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
    def self_ns(self) -> np.ndarray:
        """Own time of each span, without what goes on inside it: int64, shape (n,), in nanoseconds."""
        own = np.zeros(len(self), np.int64)
        np.add.at(own, self.pieces.owner, self.pieces.end - self.pieces.start)
        return own

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
    if kind in ("pipeline", "host"):
        works = _WORKS[category[pieces.owner]]
        busy = union(pieces.start[works], pieces.end[works])
    else:
        busy = union(start, end)
    ids = (category, trace.name[rows], trace.thread[rows], trace.step[rows], rows)
    return Lane(name, kind, start, end, *ids, depth, pieces, busy, span_ns)


def build(trace: Trace, origin_ns: int, span_ns: int) -> tuple[Lane, ...]:
    """Return the accelerator on top, then streams, waits, and threads in the natural order of their names."""
    wait, train = (trace.select(category, kind="consumer") for category in ("wait", "train"))
    kernels = trace.select("kernel", kind="device")
    modelled = trace.run.accelerator.kind == "modelled"
    on_device = bool(kernels.any()) and not modelled

    def lane(name: str, kind: str, mask: np.ndarray) -> Lane:
        return lane_of(trace, name, kind, np.flatnonzero(mask), origin_ns, span_ns)

    lanes = [lane("accelerator", "accelerator", kernels if on_device else train)]
    if wait.any():
        lanes.append(lane("waits for a batch", "wait", wait))
    for kind, shown in (("device", "stream"), ("consumer", "pipeline"), ("pipeline", "pipeline"), ("host", "host")):
        ids = [i for i, thread in enumerate(trace.threads) if thread.kind == kind]
        for i in sorted(ids, key=lambda i: _natural(trace.threads[i].name)):
            mask = (trace.thread == i) & ~wait & ~train
            if mask.any():
                lanes.append(lane(trace.threads[i].name, shown, mask))
    return tuple(sorted(lanes, key=lambda lane: LANE_KINDS.index(lane.kind)))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts "worker 10" after "worker 9"."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


# -- level of detail ---------------------------------------------------------------


class Bars(NamedTuple):
    """What to draw of a lane at some width: arrays of shape (n,).

    `start_ns` and `end_ns` are int64, `category` is an index into `CATEGORIES`. A bar that stands for itself
    reaches from `bottom` 0.0 to `top` 1.0; in a narrow column that stands for many, ``top - bottom``
    is the share of the column's time that its category takes.
    """

    start_ns: np.ndarray
    end_ns: np.ndarray
    category: np.ndarray
    bottom: np.ndarray
    top: np.ndarray


def bins(intervals: Intervals, first_ns: int, last_ns: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut ``[first_ns, last_ns)`` into `width` columns and measure how much of each is covered.

    Returns
    -------
    edges : ndarray of int64, shape (width + 1,)
        In nanoseconds.
    covered : ndarray of int64, shape (width,)
        Nanoseconds; they add up to the part of `intervals` inside.

    Raises
    ------
    ValueError
        If `width` is below 1, or `last_ns` before `first_ns`.
    """
    if width < 1:
        raise ValueError(f"width is {width}; allowed: 1 column or more")
    if last_ns < first_ns:
        raise ValueError(f"last_ns is {last_ns}, before first_ns {first_ns}")
    whole, rest = divmod(last_ns - first_ns, width)
    columns = np.arange(width + 1, dtype=np.int64)
    edges = first_ns + whole * columns + rest * columns // width
    return edges, np.diff(covered_until(intervals, edges))


def lod(lane: Lane, first_ns: int, last_ns: int, width: int) -> Bars:
    """Return what to draw of a lane between two times at a width in columns (pixels).

    Pieces at least a column wide are returned as they are; narrower ones are added up per column and
    category, so that the number of bars depends on the width, not on the number of spans. Such a
    bar reaches from the first to the last of its column. Bars never overlap, and together they
    have the area of the pieces: nothing is exaggerated. In a lane of threads, waiting and
    bookkeeping are left out.

    Raises
    ------
    ValueError
        If `width` is below 1, or `last_ns` before `first_ns`.
    """
    a, b = np.searchsorted(lane.pieces.end, first_ns, "right"), np.searchsorted(lane.pieces.start, last_ns, "left")
    start = np.maximum(lane.pieces.start[a:b], first_ns)
    end = np.minimum(lane.pieces.end[a:b], last_ns)
    category = lane.category[lane.pieces.owner[a:b]]
    keep = end > start
    if lane.kind in ("pipeline", "host"):
        keep &= _WORKS[category]
    start, end, category = start[keep], end[keep], category[keep]
    wide = (end - start) * width >= last_ns - first_ns
    narrow = Intervals(start[~wide], end[~wide])
    edges, _ = bins(narrow, first_ns, last_ns, width)
    low, high = _extent(narrow, edges)
    share = np.zeros((len(CATEGORIES), width))
    for code in np.unique(category[~wide]).tolist():
        some = ~wide & (category == code)
        covered = bins(Intervals(start[some], end[some]), first_ns, last_ns, width)[1]
        share[code] = covered / np.maximum(high - low, 1)
    top = np.cumsum(share, axis=0)
    code, column = np.nonzero(share)
    ones = np.ones(int(wide.sum()))
    return Bars(
        np.r_[start[wide], low[column]],
        np.r_[end[wide], high[column]],
        np.r_[category[wide], code.astype(category.dtype)],
        np.r_[ones * 0, (top - share)[code, column]],
        np.r_[ones, top[code, column]],
    )


def _extent(intervals: Intervals, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last covered instant of each column; equal where nothing is covered."""
    if not len(intervals.start):
        return edges[:-1], edges[:-1]
    last = len(intervals.start) - 1
    first = np.minimum(np.searchsorted(intervals.end, edges[:-1], side="right"), last)
    final = np.maximum(np.searchsorted(intervals.start, edges[1:], side="left") - 1, 0)
    low = np.clip(intervals.start[first], edges[:-1], edges[1:])
    return low, np.maximum(np.clip(intervals.end[final], edges[:-1], edges[1:]), low)
