"""Arithmetic on intervals of int64 nanoseconds: union, overlap, nesting, who owns an instant.

Pure functions on NumPy arrays. Everything is integer and therefore exact; an
interval is half open, ``[start, end)``, and one of zero length covers nothing.
"""

from __future__ import annotations

import itertools
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


def depths(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Give every interval a depth such that intervals of one depth never overlap.

    Where intervals nest, the depth is the number of those that enclose it. An interval that
    outlives the one it began in takes the lowest depth that is free.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        Sorted by start, longer ones first on ties: the order of a `labkit.timeline.trace.Trace`.

    Returns
    -------
    ndarray of int32, shape (n,)
    """
    lasting = end > start
    begun = np.cumsum(lasting) - lasting
    ended = np.searchsorted(np.sort(end[lasting], kind="stable"), start, side="right")
    depth = (begun - ended).astype(np.int32)
    order = np.argsort(depth, kind="stable")
    clash = (start[order][1:] < end[order][:-1]) & (depth[order][1:] == depth[order][:-1])
    if clash.any():
        # Counting fails only where intervals cross; those are rare, and few enough to be placed one by one.
        opens = np.flatnonzero(np.r_[True, start[1:] >= np.maximum.accumulate(end)[:-1]])
        cluster = np.unique(np.searchsorted(opens, order[1:][clash], side="right") - 1)
        for first, last in zip(opens[cluster], np.r_[opens, len(start)][cluster + 1], strict=True):
            depth[first:last] = _first_free(start[first:last].tolist(), end[first:last].tolist())
    return depth


def _first_free(start: list[int], end: list[int]) -> list[int]:
    """Give each interval, in order of start, the lowest depth that no open interval holds."""
    depth: list[int] = []
    ends: list[int] = []  # of the interval that held each depth last
    for s, e in zip(start, end, strict=True):
        place = next((place for place, busy in enumerate(ends) if busy <= s), len(ends))
        ends[place : place + 1] = [e]
        depth.append(place)
    return depth


class Owned(NamedTuple):
    """Disjoint pieces of time in rising order, and which interval owns each: arrays of shape (n,)."""

    start: np.ndarray
    end: np.ndarray
    owner: np.ndarray


def owners(start: np.ndarray, end: np.ndarray, depth: np.ndarray) -> Owned:
    """Cut time into pieces, each owned by the deepest interval that is open there.

    The pieces of an interval add up to its *self time*: its length less what
    goes on inside it. All pieces together are exactly the union.

    Parameters
    ----------
    start, end, depth : ndarray, shape (n,)
        As given to and returned by `depths`.

    Returns
    -------
    Owned
        `owner` is an index into the arguments. Neighbouring pieces of one owner are joined.
    """
    # Starts are sorted and ends nearly so: a stable sort takes a tenth of the time of np.unique.
    edges = np.sort(np.r_[start, end], kind="stable")
    edges = edges[np.r_[True, edges[1:] != edges[:-1]]] if len(edges) else edges
    if len(edges) < 2:
        nothing = np.zeros(0, np.int64)
        return Owned(nothing, nothing, nothing)
    owner = np.full(len(edges) - 1, -1, np.int64)
    lasting = np.flatnonzero(end > start)
    lasting = lasting[np.argsort(depth[lasting], kind="stable")]
    levels = np.flatnonzero(np.r_[True, np.diff(depth[lasting]) != 0, True])
    left, right = np.searchsorted(edges, start[lasting]), np.searchsorted(edges, end[lasting])
    for a, b in itertools.pairwise(levels):
        # Deeper ones are painted later, over those that enclose them.
        length = right[a:b] - left[a:b]
        offset = np.repeat(left[a:b] - (np.cumsum(length) - length), length)
        owner[offset + np.arange(len(offset))] = np.repeat(lasting[a:b], length)
    first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    last = np.r_[first[1:], len(owner)]
    taken = owner[first] >= 0
    return Owned(edges[first[taken]], edges[last[taken]], owner[first[taken]])


def tracks(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Spread intervals over tracks so that any two of one track nest or are disjoint.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        Sorted by start, longer ones first on ties.

    Returns
    -------
    ndarray of int32, shape (n,)
        Track 0 holds all there is if everything nests. An interval that crosses another moves to the first track whose
        innermost open interval encloses it.
    """
    track: list[int] = []
    stacks: list[list[int]] = []
    for first, last in zip(start.tolist(), end.tolist(), strict=True):
        place = 0
        for stack in stacks:
            while stack and stack[-1] <= first:
                stack.pop()
            if not stack or stack[-1] >= last:
                break
            place += 1
        else:
            stacks.append([])
        stacks[place].append(last)
        track.append(place)
    return np.array(track, np.int32)
