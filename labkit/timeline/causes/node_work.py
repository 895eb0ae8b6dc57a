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
from functools import cached_property

import numpy as np

from labkit.timeline.causes.thresholds import AT_ONCE, CALLS
from labkit.timeline.gaps import Gaps
from labkit.timeline.intervals import Intervals, at_least, overlap, union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.nesting import Owned, depths, owners
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import short_op

#: Nodes that call a function; no other node can be the one that an op runs for.
_CALLERS = re.compile(r"(Map|Filter|TakeWhile|Scan|GroupBy\w*|FlatMap|Interleave|Generator|Reduce)(Dataset)?(V\d+)?$")

#: Nodes that have threads of their own.
_ASYNCHRONOUS = re.compile(r"(Legacy)?Parallel|Prefetch|MapAndBatch|ParseExample|DataService|Root$")

#: What the ops of a ``tf.while_loop`` are called, before their own name.
_LOOPS = re.compile(r"while(_\d+)?/body/")


def asynchronous(path: str) -> bool:
    """Tell whether the own time of a node is a wait for its own threads.

    >>> asynchronous("Iterator::Root::Prefetch"), asynchronous("Iterator::Root::Prefetch::Unbatch")
    (True, False)
    """
    return bool(_ASYNCHRONOUS.match(path.rpartition("::")[2]))


def in_loop(op: str) -> bool:
    """Tell whether an op stands in the body of a ``tf.while_loop``, as those of ``tf.map_fn`` do.

    >>> in_loop("map/while/body/_1/map/while/Mul:Mul"), in_loop("map/TensorListStack:TensorListStack")
    (True, False)
    """
    return bool(_LOOPS.search(op))


def is_map(node: str) -> bool:
    """Tell whether a part of the path of a node names a map of elements.

    >>> is_map("ParallelMapV2"), is_map("FlatMap")
    (True, False)
    """
    return node.startswith(("Map", "ParallelMap"))


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
    window_ns : int
        Length of the window.
    counts, calls : dict of str to int
        How often each op or node ran, by its name; and of each node, how often it was asked for an element.
    """

    def __init__(self, lanes: Sequence[Lane], names: Sequence[str], gaps: Gaps) -> None:
        self.lanes, self.window_ns = [lane for lane in lanes if lane.kind == "pipeline"], lanes[0].window_ns
        self.names, self.gaps = names, gaps
        self._is_node = np.array([name.startswith("Iterator::") for name in names], bool)
        self._at = {name: i for i, name in enumerate(names)}
        counts = sum((np.bincount(lane.name_id, minlength=len(names)) for lane in self.lanes), np.zeros(len(names)))
        self.counts = {name: int(n) for name, n in zip(names, counts.tolist(), strict=True) if n}
        self.calls = {name: n for name, n in self.counts.items() if self._is_node[self._at[name]]}
        self._own: dict[str, Intervals] = {}
        self._own_ns: dict[str, int] = {}

    @cached_property
    def ops_ns(self) -> float:
        """How long ops ran in all threads, each for its usual time: those whose thread lost its core lasted longer."""
        codes = [CATEGORIES.index(word) for word in ("decode", "resize", "map")]
        chosen = [(lane, np.isin(lane.category, codes)) for lane in self.lanes]
        empty = np.zeros(0, np.int64)
        name = np.concatenate([empty, *(lane.name_id[mine] for lane, mine in chosen)])
        length = np.concatenate([empty, *((lane.end_ns - lane.start_ns)[mine] for lane, mine in chosen)])
        return float(sum(np.median(length[name == one]) * (name == one).sum() for one in np.unique(name).tolist()))

    def of(self, *kinds: str) -> list[str]:
        """Return the paths of the nodes of some kinds."""
        return [path for path in self.calls if short_op(path) in kinds]

    def asked(self, path: str) -> int:
        """Return how often a node asked its inputs."""
        return sum(n for name, n in self.calls.items() if name.rpartition("::")[0] == path)

    def below(self, path: str) -> list[str]:
        """Return the paths of the nodes that a node takes its elements from, directly or not."""
        return [name for name in self.calls if name.startswith(f"{path}::")]

    def function_calls(self) -> int:
        """Return how often the node called its function that did so most often, at least; 0 where that is not known."""
        # A map that is fused with its batch, and one that makes several elements of one, call it for what they ask for.
        fused = [self.asked(path) for path in self.of("MapAndBatch")]
        callers = [max(n, self.asked(path)) for path, n in self.calls.items() if _CALLERS.search(short_op(path))]
        return max([*fused, *callers], default=0) if all(fused) else 0

    def runs(self, op: str, loops: bool = True) -> list[int]:
        """Return how often an op ran, for each place in a function where its word stands.

        Each place runs once in a call, unless it stands in a loop; without `loops`, those of a ``tf.while_loop`` are
        left out.
        """
        return [n for name, n in self.counts.items() if short_op(name) == op and (loops or not in_loop(name))]

    @cached_property
    def _nodes(self) -> list[tuple[Owned, np.ndarray]]:
        """By thread, which node owns each piece of time, and the names of the nodes; ops do not count."""
        nodes = [self._is_node[lane.name_id] for lane in self.lanes]
        each = [(lane.start_ns[m], lane.end_ns[m], lane.name_id[m]) for lane, m in zip(self.lanes, nodes, strict=True)]
        return [(owners(start, end, depths(start, end)), name_id) for start, end, name_id in each]

    def own(self, path: str) -> Intervals:
        """Return when a call of a node was open, and none of a node below it in the same thread; ops do not count."""
        if path not in self._own:
            self._own[path] = union_of(
                Intervals(pieces.start[chosen], pieces.end[chosen])
                for pieces, name_id in self._nodes
                for chosen in [name_id[pieces.owner] == self._at[path]]
            )
        return self._own[path]

    def own_ns(self, path: str) -> int:
        """Return how much of its own time a node took in the gaps while no op ran."""
        if path not in self._own_ns:
            own = self.own(path)
            self._own_ns[path] = self._within(own) - self._within(at_least([own, self._ops], 2))
        return self._own_ns[path]

    def caller(self, op: str) -> str | None:
        """Return the node that waits while an op runs, and so makes one call at a time; None if no node does.

        Where several threads run the op, whatever happens meanwhile in another thread is no wait for it.
        """
        pieces = self._pieces(lambda name: short_op(name) == op)
        running = union_of(pieces)
        if sum(one.total_ns for one in pieces) > AT_ONCE * running.total_ns:
            return None
        callers = (path for path in self.calls if _CALLERS.match(short_op(path)))
        waits = {path: self._within(at_least([self.own(path), running], 2)) for path in callers}
        found = max(waits, key=lambda path: waits[path], default=None)
        return found if found and waits[found] > CALLS * self._within(running) else None

    def running(self, op: str) -> float:
        """Return the share of the window in which any thread runs an op."""
        return union_of(self._pieces(lambda name: short_op(name) == op)).total_ns / max(1, self.window_ns)

    @cached_property
    def _ops(self) -> Intervals:
        """When any op ran."""
        return union_of(self._pieces(lambda name: not name.startswith("Iterator::")))

    def _pieces(self, which: Callable[[str], bool]) -> list[Intervals]:
        """Return the times that spans with such names owned, by thread."""
        chosen = np.array([which(name) for name in self.names], bool)
        return [lane.owned(chosen[lane.name_id]) for lane in self.lanes]

    def _within(self, times: Intervals) -> int:
        return int(overlap(times, self.gaps.start_ns, self.gaps.end_ns).sum())
