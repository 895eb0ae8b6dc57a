"""Lanes made ready for the walk: the cause of each piece, and where the walk has to stop and think."""

from __future__ import annotations

import numpy as np

from labkit.timeline.causes.table import BATCH, COPY, FETCH, FRAMEWORK, PREP, UNKNOWN
from labkit.timeline.intervals import Intervals, union
from labkit.timeline.lanes import Lane
from labkit.timeline.trace import CATEGORIES

_OF_CATEGORY = {"read": FETCH, "decode": PREP, "resize": PREP, "map": PREP, "batch": BATCH, "copy": COPY}
_ITERATOR = CATEGORIES.index("iterator")
# A node that keeps books for longer than this waits for somebody; so does a thread that rests for longer.
_NODE_NS, _REST_NS = 20_000, 50_000
# An epoch boundary is a cause of its own where its call takes this many times what others take, and so long.
LONGER, LEAST_START_NS = 2, 500_000


class Track:
    """A lane made ready for walking: each piece with its cause and op, and where the walk has to stop and think."""

    def __init__(self, lane: Lane, index: int, paths: Paths) -> None:
        self.lane, self.index = lane, index
        owner = lane.pieces.owner
        self.start, self.end = lane.pieces.start, lane.pieces.end
        category, self.op = lane.category[owner], lane.name_id[owner].copy()
        table = np.full(len(CATEGORIES), PREP if lane.kind == "pipeline" else UNKNOWN, np.int8)
        for word, cause in _OF_CATEGORY.items():
            table[CATEGORIES.index(word)] = cause
        table[_ITERATOR] = FRAMEWORK
        self.cause = table[category]
        # Ops inside a Python function are charged to it: it is what has to change.
        python = np.isin(lane.name_id, paths.python)
        if python.any():
            outer = union(lane.start_ns[python], lane.end_ns[python])
            at = np.searchsorted(outer.start, self.start, side="right") - 1
            inside = (at >= 0) & (self.start < np.r_[outer.end, 0][at])
            one = lane.name_id[python][
                np.clip(np.searchsorted(lane.start_ns[python], self.start, "right") - 1, 0, None)
            ]
            self.op, self.cause = np.where(inside, one, self.op), np.where(inside, np.int8(PREP), self.cause)
        # Of the time between two pieces: what belongs to both goes on, a read is over when somebody has its bytes, and
        # anything else is handed over.
        same = (self.cause[1:] == self.cause[:-1]) | (self.cause[:-1] == FETCH)
        self.between = np.where(same, self.cause[:-1], np.int8(FRAMEWORK))
        self.fresh_calls = _starts(lane, paths)
        self.starts = union(*(np.array([c[k] for c in self.fresh_calls], np.int64) for k in (0, 1)))
        node = (category == _ITERATOR) & (self.end - self.start >= _NODE_NS)
        rested = self.start - np.r_[np.int64(-1), self.end[:-1]] >= _REST_NS if len(owner) else np.zeros(0, bool)
        fresh = np.zeros(len(owner), bool)
        if len(self.starts.start):
            at = np.searchsorted(self.starts.start, self.start, side="right") - 1
            fresh = (at >= 0) & (self.start < self.starts.end[at])
        self.node, self.fresh = node, fresh
        # The first piece from which a walk back may go on without thinking, for each piece.
        stop = node | fresh
        barrier = stop | np.r_[False, stop[:-1]] | rested if len(owner) else stop
        self.back = np.maximum.accumulate(np.where(barrier, np.arange(len(owner)), 0)) if len(owner) else owner

    def span_of(self, piece: int) -> tuple[int, int]:
        """Return start and end of the span that owns a piece."""
        row = self.lane.pieces.owner[piece]
        return int(self.lane.start_ns[row]), int(self.lane.end_ns[row])


class Paths:
    """What the names of spans say: which are nodes, which run Python, which node stands below which."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.node = np.array([n.startswith("Iterator::") for n in names], bool)
        self.python = np.array([i for i, n in enumerate(names) if n.rpartition(":")[2] in ("EagerPyFunc", "PyFunc",
                                "PyFuncStateless")], np.int64)  # fmt: skip
        known = {names[i] for i in np.flatnonzero(self.node).tolist()}
        self.root = self.node & np.array([n.rpartition("::")[0] not in known for n in names], bool)

    def below(self, node: int) -> np.ndarray:
        """Tell which names can be work for a node: nodes below it, and all that is no node."""
        path = self.names[node] + "::"
        return ~self.node | np.array([n.startswith(path) for n in self.names], bool)


def _starts(lane: Lane, paths: Paths) -> list[tuple[int, int, int]]:
    """Return start, end and node of each call in which a repeat begins an epoch, or a shuffle fills its buffer.

    Such a call asks the input of its node several times, and takes much longer than the others.
    """
    found: list[tuple[int, int, int]] = []
    for node in np.unique(lane.name_id[lane.category == _ITERATOR]).tolist():
        leaf = paths.names[node].rpartition("::")[2]
        if not leaf.startswith("Shuffle") and not leaf.endswith("Repeat"):
            continue
        mine = lane.name_id == node
        start, end = lane.start_ns[mine], lane.end_ns[mine]
        inputs = [i for i, n in enumerate(paths.names) if n.rpartition("::")[0] == paths.names[node]]
        asked = lane.start_ns[np.isin(lane.name_id, inputs)]
        several = np.searchsorted(asked, end) - np.searchsorted(asked, start) >= (
            3 if leaf.startswith("Shuffle") else 2
        )
        # Where most calls do so (a repeat of a single element), it is no boundary.
        if 2 * several.sum() <= len(several) or len(several) == 1:
            long = end - start >= max(LONGER * np.median(end - start) * (len(several) > 1), LEAST_START_NS)
            new = several & long
            found += zip(start[new].tolist(), end[new].tolist(), [node] * int(new.sum()), strict=True)
    return found


def at_least(works: list[Intervals], count: int) -> Intervals:
    """Return when at least `count` of several sets of disjoint intervals are open at once."""
    nothing = np.zeros(0, np.int64)
    starts = np.concatenate([nothing, *(w.start for w in works)])
    ends = np.concatenate([nothing, *(w.end for w in works)])
    at, change = np.r_[starts, ends], np.r_[np.ones(len(starts), np.int64), np.full(len(ends), -1, np.int64)]
    order = np.lexsort((change, at))
    at, open_ = at[order], np.cumsum(change[order])
    enough = np.flatnonzero(open_[:-1] >= count)
    return union(at[enough], at[enough + 1])
