"""The work of each node of a pipeline: how often it was asked, what its calls took themselves, and what ran for it.

A node spends a call in one of three ways. It works itself, as one that takes batches apart does. It waits for the
function that it calls, whose ops run in other threads: while they run, nothing but this node is open in the thread that
asks. Or it has threads of its own, and waits for what they make. Which of the three it is tells what can change:
`NodeWork.caller` finds the node that calls an op once at a time, and `NodeWork.own_ns` is what a node takes whatever
its function does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from labkit.timeline.causes.thresholds import CALLS
from labkit.timeline.gaps import Gaps
from labkit.timeline.intervals import Intervals, at_least, overlap, union
from labkit.timeline.lanes import Lane
from labkit.timeline.wording import short_op

#: Nodes that have threads of their own.
_ASYNCHRONOUS = re.compile(r"(Legacy)?Parallel|Prefetch|MapAndBatch|DataService|Root$")


def asynchronous(path: str) -> bool:
    """Tell whether the own time of a node is a wait for its own threads.

    >>> asynchronous("Iterator::Root::Prefetch"), asynchronous("Iterator::Root::Prefetch::Unbatch")
    (True, False)
    """
    return bool(_ASYNCHRONOUS.match(path.rpartition("::")[2]))


class NodeWork:
    """The nodes of one timeline, by their paths, as in ``Iterator::Root::Prefetch::Map``.

    Parameters
    ----------
    lanes : sequence of Lane
    names : sequence of str
        What the spans of the lanes are called.
    gaps : Gaps
        Times count in the gaps of the accelerator, calls in the whole window.

    Attributes
    ----------
    calls : dict of str to int
        How often each node was asked for an element.
    """

    def __init__(self, lanes: Sequence[Lane], names: Sequence[str], gaps: Gaps) -> None:
        self.lanes = [lane for lane in lanes if lane.kind == "pipeline"]
        self.names, self.gaps = names, gaps
        counts = sum((np.bincount(lane.name_id, minlength=len(names)) for lane in self.lanes), np.zeros(len(names)))
        self._counts = {name: int(n) for name, n in zip(names, counts.tolist(), strict=True) if n}
        self.calls = {name: n for name, n in self._counts.items() if name.startswith("Iterator::")}
        self._own: dict[str, Intervals] = {}

    def of(self, *kinds: str) -> list[str]:
        """Return the paths of the nodes of some kinds."""
        return [path for path in self.calls if short_op(path) in kinds]

    def asked(self, path: str) -> int:
        """Return how often a node asked its inputs."""
        return sum(n for name, n in self.calls.items() if name.rpartition("::")[0] == path)

    def below(self, path: str) -> list[str]:
        """Return the paths of the nodes that a node takes its elements from, directly or not."""
        return [name for name in self.calls if name.startswith(f"{path}::")]

    def runs(self, op: str) -> int:
        """Return how often an op ran, by its word."""
        return sum(n for name, n in self._counts.items() if short_op(name) == op)

    def own(self, path: str) -> Intervals:
        """Return when a call of a node was open, and none of a node below it in the same thread."""
        if path not in self._own:
            self._own[path] = self._open(lambda name: name == path)
        return self._own[path]

    def own_ns(self, path: str) -> int:
        """Return how much of its own time a node took in the gaps while no op ran."""
        if not hasattr(self, "_ops"):
            self._ops = self._open(lambda name: not name.startswith("Iterator::"))
        return self._within(self.own(path)) - self._within(at_least([self.own(path), self._ops], 2))

    def caller(self, op: str) -> str | None:
        """Return the node that waits while an op runs, and so makes one call at a time; None if no node does."""
        running = self._open(lambda name: short_op(name) == op)
        waits = {
            path: self._within(at_least([self.own(path), running], 2)) for path in self.calls if not asynchronous(path)
        }
        found = max(waits, key=lambda path: waits[path], default=None)
        return found if found and waits[found] > CALLS * self._within(running) else None

    def _open(self, which: Callable[[str], bool]) -> Intervals:
        """Return when spans with such names owned the time of their threads."""
        chosen = np.array([which(name) for name in self.names], bool)
        columns: list[list[np.ndarray]] = [[np.zeros(0, np.int64)], [np.zeros(0, np.int64)]]
        for lane in self.lanes:
            mine = chosen[lane.name_id[lane.pieces.owner]]
            for column, times in zip(columns, (lane.pieces.start, lane.pieces.end), strict=True):
                column.append(times[mine])
        return union(*map(np.concatenate, columns))

    def _within(self, times: Intervals) -> int:
        return int(overlap(times, self.gaps.start_ns, self.gaps.end_ns).sum())
