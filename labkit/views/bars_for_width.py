"""How much of a lane fits on a screen: bars for a width in columns, however many spans there are.

Pure functions in integer nanoseconds, counted from the start of the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from labkit.timeline.intervals import Intervals, covered_until
from labkit.timeline.lanes import IS_WORK, Lane
from labkit.timeline.trace import CATEGORIES


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
    """
    each, rest = divmod(last_ns - first_ns, width)
    columns = np.arange(width + 1, dtype=np.int64)
    edges = first_ns + each * columns + rest * columns // width
    return edges, np.diff(covered_until(intervals, edges))


def lod(lane: Lane, first_ns: int, last_ns: int, width: int) -> Bars:
    """Return what to draw of a lane between two times at a width in columns (pixels).

    Pieces at least a column wide are returned as they are; narrower ones are added up per column and
    category, so that the number of bars depends on the width, not on the number of spans. Such a
    bar reaches from the first to the last of its column. Bars never overlap, and together they
    have the area of the pieces: nothing is exaggerated. In a lane of threads, waiting and
    bookkeeping are left out.
    """
    start, end, category = lane.between(first_ns, last_ns)
    start, end = np.maximum(start, first_ns), np.minimum(end, last_ns)
    keep = end > start
    if lane.kind in ("pipeline", "host"):
        keep &= IS_WORK[category]
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


def threads_at_work(lanes: Iterable[Lane], first_ns: int, last_ns: int, width: int) -> np.ndarray:
    """Return how many threads do each kind of work in each of `width` columns between two times, on average.

    Returns
    -------
    ndarray of float64, shape (len(CATEGORIES), width)
        All kinds of a column add up to the threads that work in it. Waiting and bookkeeping are left out.
    """
    edges = bins(Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64)), first_ns, last_ns, width)[0]
    covered = np.zeros((len(CATEGORIES), width))
    for lane in lanes:
        category = lane.category[lane.pieces.owner]
        for code in np.unique(category[IS_WORK[category]]).tolist():
            mine = category == code
            covered[code] += np.diff(covered_until(Intervals(lane.pieces.start[mine], lane.pieces.end[mine]), edges))
    return covered / np.maximum(np.diff(edges), 1)


def most_at_once(lanes: Iterable[Lane], first_ns: int, last_ns: int) -> int:
    """Return how many threads work at the same time at most between two times: the height of their band.

    One that ends as another begins does not work at the same time. At least 1, so that a band has a height.
    """
    times = np.concatenate([getattr(lane.busy, side) for side in ("end", "start") for lane in lanes])
    order = np.argsort(np.clip(times, first_ns, last_ns), kind="stable")  # of one instant, ends come first
    return int(np.cumsum(np.where(order < len(times) // 2, -1, 1)).max(initial=1))


def _extent(intervals: Intervals, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last covered instant of each column; equal where nothing is covered."""
    if not len(intervals.start):
        return edges[:-1], edges[:-1]
    last = len(intervals.start) - 1
    first = np.minimum(np.searchsorted(intervals.end, edges[:-1], side="right"), last)
    final = np.maximum(np.searchsorted(intervals.start, edges[1:], side="left") - 1, 0)
    low = np.clip(intervals.start[first], edges[:-1], edges[1:])
    return low, np.maximum(np.clip(intervals.end[final], edges[:-1], edges[1:]), low)
