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


def median_ms(lengths_ns: np.ndarray) -> float:
    """Return the median of some lengths in nanoseconds as milliseconds; 0 without any."""
    return float(np.median(lengths_ns)) / 1e6 if len(lengths_ns) else 0.0


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
    start = np.r_[np.int64(first_ns), np.clip(intervals.end, first_ns, last_ns)]
    end = np.r_[np.clip(intervals.start, first_ns, last_ns), np.int64(last_ns)]
    free = end > start
    return Intervals(start[free], end[free])


def union_of(works: Iterable[Intervals]) -> Intervals:
    """Merge several sets of disjoint intervals into one."""
    return at_least(list(works), 1)


def at_least(works: Sequence[Intervals], count: int) -> Intervals:
    """Return when at least `count` of several sets of disjoint intervals are open at once."""
    nothing = np.zeros(0, np.int64)
    starts = np.concatenate([nothing, *(work.start for work in works)])
    ends = np.concatenate([nothing, *(work.end for work in works)])
    at, change = np.r_[starts, ends], np.r_[np.ones(len(starts), np.int64), np.full(len(ends), -1, np.int64)]
    order = np.lexsort((change, at))
    at, open_ = at[order], np.cumsum(change[order])
    enough = np.flatnonzero(open_[:-1] >= count)
    return union(at[enough], at[enough + 1])


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
