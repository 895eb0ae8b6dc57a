"""Arithmetic on intervals of int64 nanoseconds: union, overlap, what lies within what.

Pure functions on NumPy arrays. Everything is integer and therefore exact; an
interval is half open, ``[start, end)``, and one of zero length covers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Intervals(NamedTuple):
    """Disjoint intervals in rising order: two int64 arrays of shape (n,), in nanoseconds."""

    start: np.ndarray
    end: np.ndarray

    @property
    def total_ns(self) -> int:
        """Nanoseconds covered."""
        return int((self.end - self.start).sum())


def union(start: np.ndarray, end: np.ndarray) -> Intervals:
    """Merge intervals in any order into disjoint ones; those that touch become one.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
    """
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]])
    return Intervals(start[first], reach[np.r_[first[1:] - 1, len(reach) - 1]])


def complement(intervals: Intervals, first_ns: int, last_ns: int) -> Intervals:
    """Return the parts of ``[first_ns, last_ns)`` that disjoint `intervals` leave free."""
    # A picture asks for thousands of these: np.r_ and np.clip take almost three times as long.
    start = np.concatenate([[first_ns], np.maximum(np.minimum(intervals.end, last_ns), first_ns)])
    end = np.concatenate([np.maximum(np.minimum(intervals.start, last_ns), first_ns), [last_ns]])
    free = end > start
    return Intervals(start[free], end[free])


def union_of(works: Iterable[Intervals]) -> Intervals:
    """Merge several sets of disjoint intervals into one."""
    return at_least(list(works), 1)


def at_least(works: Sequence[Intervals], count: int) -> Intervals:
    """Return when at least `count` of several sets of disjoint intervals are open at once."""
    nothing = np.zeros(0, np.int64)
    # Both are rows of sorted runs, which a stable sort only has to merge.
    starts = np.sort(np.concatenate([nothing, *(work.start for work in works)]), kind="stable")
    ends = np.sort(np.concatenate([nothing, *(work.end for work in works)]), kind="stable")
    nth = np.arange(1, len(starts) + 1)
    # Open once the nth has begun, or ended; what ends at an instant has ended before others begin there.
    begun = nth - np.searchsorted(ends, starts, side="right")
    ended = np.searchsorted(starts, ends, side="left") - nth
    return union(starts[begun == count], ends[ended == count - 1])


def covered_until(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return how many nanoseconds of disjoint `intervals` lie before each instant of `at`.

    Parameters
    ----------
    intervals : Intervals
    at : ndarray of int64, any shape

    Returns
    -------
    ndarray of int64, shape of `at`
    """
    if not len(intervals.start):
        return np.zeros(np.shape(at), np.int64)
    total = np.r_[np.int64(0), np.cumsum(intervals.end - intervals.start)]
    before = np.searchsorted(intervals.start, at, side="right")
    last = np.maximum(before - 1, 0)
    inside = np.minimum(at, intervals.end[last]) - intervals.start[last]
    return np.where(before > 0, total[last] + inside, 0)


def overlap(intervals: Intervals, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how many nanoseconds of each ``[start, end)`` disjoint `intervals` cover: int64, shape of `start`."""
    return covered_until(intervals, end) - covered_until(intervals, start)


def inside(start: np.ndarray, end: np.ndarray, outer: Intervals) -> np.ndarray:
    """Tell which intervals lie within one of the disjoint intervals `outer`: ndarray of bool, shape (n,)."""
    last = np.searchsorted(outer.start, start, side="right") - 1
    return (last >= 0) & (end <= np.r_[outer.end, np.int64(0)][last])


def edges_of(first_ns: int, last_ns: int, width: int) -> np.ndarray:
    """Return the edges of `width` columns between two times, whole nanoseconds: int64, shape (width + 1,)."""
    each, rest = divmod(last_ns - first_ns, width)
    columns = np.arange(width + 1, dtype=np.int64)
    return first_ns + each * columns + rest * columns // width
