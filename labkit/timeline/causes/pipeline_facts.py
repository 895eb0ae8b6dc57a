"""The facts of a tf.data pipeline that advice depends on, from its nodes and from the ops that took the time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labkit.advice import NOBODY, Facts
from labkit.timeline.causes import thresholds
from labkit.timeline.causes.effort import Effort, computed, queued
from labkit.timeline.causes.node_work import NodeWork, in_loop, is_map
from labkit.timeline.causes.per_gap import FETCH, Causes
from labkit.timeline.causes.small_elements import one_by_one, short_calls
from labkit.timeline.intervals import overlap, union, union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import PYTHON_OPS, short_op

#: Nodes that unpack or parse while they read; the last two read what an earlier run has written.
_SOURCES = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV", "SnapshotDatasetReader", "FileCacheImpl")
#: Nodes that hand on fewer elements than they take, and how readers write them.
_DROPPERS = {"Shard": "shard", "FiniteSkip": "skip", "Filter": "filter", "FiniteTake": "take", "Window": "window"}
_CACHES = ("MemoryCacheImpl", "FileCacheImpl")
#: Ops that take one value only, and functions of Python: no loop over them can become one op for all values.
_ONE_VALUE = re.compile("ReadFile|Decode|Parse|(Eager)?PyFunc")
#: Nodes that put elements together.
_BATCHES = re.compile("(Parallel|Padded)?Batch")
#: Nodes that hand over from a thread of their own, the last ones but for such as only pass elements on.
_AHEAD = re.compile(
    r"Iterator::Root(::(ForeverRepeat|FiniteRepeat|FiniteTake|FiniteSkip)(V\d+)?)*"
    r"::(Prefetch|MapAndBatch|Parallel|ParseExample)"
)
#: Nodes that take their time at the beginning of an epoch.
_SLOW = re.compile("(Parallel|Padded)?(Map|Batch)|Prefetch|Shuffle")
#: Work that a thread of a map does.
_MAPPED = ("decode", "resize", "map", "batch")


@dataclass(frozen=True)
class Pipeline:
    """A run of a tf.data pipeline, and what its spans tell of it.

    Parameters
    ----------
    causes : Causes
        Of all gaps of the window.
    lanes : sequence of Lane
        The accelerator first.
    run : Run
    steps : int
        Train steps in the window.
    overlap_ns : mapping
        The window split by who works, see `labkit.Timeline.overlap_ns`.
    efforts : mapping of str to Effort
        Whether ops compute or wait.
    """

    causes: Causes
    lanes: Sequence[Lane]
    run: Run
    steps: int
    overlap_ns: Mapping[str, int]
    efforts: Mapping[str, Effort]

    def facts(self, known: Facts, node: str | None, unsure: bool) -> Facts:
        """Return what is known already, and what the pipeline shows.

        `node` began epochs or filled its buffer for most of the time; `unsure` is whether threads waited for cores that
        other programs held.
        """
        found = self._small() | (self._start(node) if node else {})
        if known.cause not in NOBODY:
            found |= self._in_vain(known) | self._loop(known) | self._blamed(known, unsure)
        return replace(known, **found)

    # -- the pipeline as it is

    @cached_property
    def work(self) -> NodeWork:
        """The work of its nodes."""
        return NodeWork(self.lanes, self.causes.names, self.causes.gaps)

    @cached_property
    def nodes(self) -> set[str]:
        """Its nodes, by their words."""
        return {short_op(name) for name in self.causes.names if name.startswith("Iterator::")}

    def has(self, *kinds: str) -> bool:
        """Tell whether a node begins with one of these words."""
        return any(node.startswith(kinds) for node in self.nodes)

    def _start(self, node: str) -> dict[str, Any]:
        below = {short_op(name) for name in self.work.below(node)}
        # In front of a cache, repeat() would let it grow without end.
        slow = any(map(_SLOW.match, below)) and not below.intersection(_CACHES)
        return {"fills_buffer": short_op(node).startswith("Shuffle"), "slow_start": slow}

    def _small(self) -> dict[str, Any]:
        """Return what shows that handing elements over takes longer than the work on them."""
        took = self._took("prep", lambda name: name not in self.work.calls).total()
        batch = self._took("batch", lambda name: True).total()
        return one_by_one(self.work, self.steps, took, batch) or short_calls(self.work, self.run, self.steps)

    def _took(self, cause: str, which: Callable[[str], bool]) -> Counter[str]:
        """Return how long the gaps waited for what `which(name)` chooses, by the word of the op or node."""
        took: Counter[str] = Counter()
        for (one, op), ns in self.causes.by_op.items():
            if one == cause and which(self.causes.names[op]):
                took[short_op(self.causes.names[op])] += ns
        return took

    # -- work for nothing

    def _in_vain(self, known: Facts) -> dict[str, Any]:
        """Return who drops what a map makes, by how often its ops ran for an image, and if a cache keeps nothing."""
        found: dict[str, Any] = {"endless_cache": self._endless()}
        images = self.run.images_of(self.steps)
        if known.blame in self.nodes or short_op(self.work.caller(known.blame) or "Map") != "Map" or not images:
            return found
        # Elements that are batched twice, such as frames, are parts of the elements of a batch.
        took = self._took(known.cause, lambda name: True)
        ops = [op for op, ns in took.items() if ns >= thresholds.LEAST * took.total()]
        ran = min((n for op in ops for n in self.work.runs(op, loops=False)), default=0)
        taken = max([images, *(self.work.asked(path) for path in self.work.calls if _BATCHES.match(short_op(path)))])
        for path in self.work.calls:
            maps = [name for name in self.work.below(path) if is_map(short_op(name))]
            if maps and short_op(path) in _DROPPERS:
                # Branches of a zip that are written alike share a path: one element is several of theirs.
                nearest = min(maps, key=len)
                zipped = nearest[: nearest.rfind("::Zip") + len("::Zip")]
                alike = self.work.calls[nearest] / self.work.calls.get(zipped, self.work.calls[nearest])
                made = ran / max(1, round(alike)) / taken
                if made >= thresholds.THROWN_AWAY:
                    found |= {"dropper": _DROPPERS[short_op(path)], "made": made}
        return found

    def _endless(self) -> bool:
        """Tell whether a cache never sees the end of its input: that is repeated for ever, or a take ends epochs."""
        ends, work = re.compile("Zip|DirectedInterleave|FiniteTake|TakeWhile"), self.work
        for path in work.of(*_CACHES):
            take = path.rpartition("::")[0]
            ended = work.calls.get(take, 0) - work.calls[path]  # at its end, a take asks nobody
            if short_op(take) == "FiniteTake" and ended >= 2 and 2 * work.asked(path) >= work.calls[path]:
                return True
            for name in work.below(path):
                between = name.removeprefix(path).split("::")
                if between[-1] == "ForeverRepeat" and not any(map(ends.match, between)):
                    return True
        return False

    def _loop(self, known: Facts) -> dict[str, Any]:
        """Return the op that a map runs in a loop, and how often in a call: the one to blame, or most of what loops."""
        looped = self._took(known.cause, in_loop)
        blamed = self._took(known.cause, lambda name: short_op(name) == known.blame).total()
        calls = self.work.function_calls()
        for op in (known.blame, *(op for op, _ in looped.most_common(1) if looped.total() > blamed)):
            times = max(self.work.runs(op), default=0) / calls if calls else 0.0
            if times >= thresholds.LOOP and not _ONE_VALUE.match(op):
                return {"loop": op, "times": times}
        return {}

    # -- the op or node to blame

    def _blamed(self, known: Facts, unsure: bool) -> dict[str, Any]:
        """Return what the op or node to blame does, how many threads do it at once, and who calls it."""
        work, run, blame, prep = self.work, self.run, known.blame, known.cause == "prep"
        kind = short_op(work.caller(blame) or "")
        python, source = prep and blame in PYTHON_OPS, blame in _SOURCES
        node = prep and blame in self.nodes and not source
        stored = blame in ("SnapshotDatasetReader", "FileCacheImpl")
        effort = self.efforts.get(blame)
        full = python and bool(effort) and effort.cores >= thresholds.INTERPRETER_FULL
        waits, unclear = (bool(effort) and effort.computes is answer and not full for answer in (False, None))
        parallel, several = self.has("ParallelMap"), self.has("ParallelInterleave", "LegacyParallelInterleave")
        mapped = self.has("ParallelMap", "MapAndBatch")
        several = several or (blame == "ReadFile" and not kind and mapped)
        turns = prep and kind not in ("", "Map", "Generator") and not (node or source) and (waits or not python)
        # A thread of a map that reads its file and then works on it does one of both at a time.
        mine = ("map",) if python else (*_MAPPED, "read") if work.runs("ReadFile") else _MAPPED
        at_once = self._at_once(mine if prep else ("read",))
        one = at_once < thresholds.ONE_BY_ONE
        one_call = kind == "Map" or not parallel
        queues = queued(run) >= thresholds.QUEUED * self.lanes[0].window_ns and at_once > thresholds.ONE_THREAD
        more_calls = prep and (turns or one) and not (python or source or (queues and not one_call))
        generates = self.has("Generator") and (kind in ("FlatMap", "Interleave", "Generator") or not (kind or mapped))
        # What computes may be late only for lack of a core, unless all cores together would be too slow for it.
        keeps_up = computed(run) <= (run.host.cpus or 1) * self.lanes[0].busy.total_ns
        late = known.crowded and not waits and known.cause != "fetch" and (keeps_up or more_calls)
        return {
            "needs_cores": late or (unsure and (node or self._ahead["rests"])),
            "python": python,
            "generator": python and generates and not full and not (effort and effort.computes),
            "waits": waits,
            "unclear": unclear,
            "source": source and (prep or stored or (unclear and not several)),
            "node": node,
            "in_turn": kind if turns else "",
            "one_at_a_time": one and (prep or not several),
            "one_call": one_call,
            "no_core": one and queues and not one_call,
            "cached": self.has("MemoryCache", "FileCache"),
            "straggles": not source and self._straggles(),
            **self._ahead,
            **self._elements(blame),
        }

    @cached_property
    def _ahead(self) -> dict[str, bool]:
        """Whether the pipeline takes turns with the accelerator, or works ahead and rests for longer than it waits."""
        span, busy = self.lanes[0].window_ns, self.lanes[0].busy.total_ns
        # A parallel map below the last node works ahead, too, by a few elements.
        least = (thresholds.AHEAD if self.nodes else thresholds.OVERLAPS) * busy
        ahead = any(map(_AHEAD.match, self.causes.names)) or self.overlap_ns["both"] >= least
        rests = self.has("Prefetch") and self.overlap_ns["accelerator"] >= span - busy
        return {"takes_turns": not ahead, "rests": ahead and rests}

    def _elements(self, blame: str) -> dict[str, Any]:
        """Return what the elements of a batch are: mostly padding, or small; arrays of one shape have a size."""
        delivered = self.run.work
        share = delivered.padded if delivered else None
        try:
            parts = delivered.components if delivered else ()
            size = sum(int(np.prod(part.shape)) * np.dtype(part.dtype).itemsize for part in parts)
        except TypeError:  # a shape that varies, or a text
            size = 0
        padding = "Padded" in blame and (share is None or share >= thresholds.PADDED)
        return {"padding": padding, "small_bytes": size if size < thresholds.SMALL_BYTES else 0}

    def _at_once(self, categories: Sequence[str]) -> float:
        """Return how many threads do such work at once in the gaps, on average over the time that any does."""
        codes, works, gaps = [CATEGORIES.index(c) for c in categories], [], self.causes.gaps
        for lane in self.lanes:
            if lane.kind == "pipeline":
                mine = np.isin(lane.category[lane.pieces.owner], codes)
                works.append(union(lane.pieces.start[mine], lane.pieces.end[mine]))
        *each, any_ns = (int(overlap(work, gaps.start_ns, gaps.end_ns).sum()) for work in (*works, union_of(works)))
        return sum(each) / any_ns if any_ns else 0.0

    def _straggles(self) -> bool:
        """Tell whether reads in order wait for one of them that takes many times what the same op usually takes."""
        causes, fetch, delivered = self.causes, self.causes.kind == FETCH, self.run.work
        free = self.run.options.get("deterministic") == "False" or (delivered and delivered.unordered)
        if free or not self.has("ParallelInterleave", "ParallelMap"):
            return False
        for op in np.unique(causes.op[fetch & (causes.op >= 0)]).tolist():
            usual = np.concatenate([(lane.end_ns - lane.start_ns)[lane.name_id == op] for lane in self.lanes])
            waited = (causes.end_ns - causes.start_ns)[fetch & (causes.op == op)]
            if 2 * len(waited) > fetch.sum() and np.median(waited) >= thresholds.STRAGGLER * np.median(usual):
                return True
        return False
