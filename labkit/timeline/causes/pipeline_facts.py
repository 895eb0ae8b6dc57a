"""The facts of a tf.data pipeline that advice depends on, from its nodes and from the ops that took the time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labkit.advice import NOBODY, Facts
from labkit.advice.rule import MAY_TAKE_TURNS, TURNS, UNLESS
from labkit.timeline.causes import thresholds
from labkit.timeline.causes.effort import Effort, computed
from labkit.timeline.causes.node_work import NodeWork, in_loop, is_map
from labkit.timeline.causes.per_gap import FETCH, Causes
from labkit.timeline.causes.small_elements import many_parts, one_by_one, packed, short_calls
from labkit.timeline.causes.waste import anew, chain, small_files, thrown_away
from labkit.timeline.intervals import Intervals, overlap, union, union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import BEGIN, PYTHON_OPS, READERS, REQUESTED, short_op

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
#: Nodes, as their author wrote them, that only pass elements on.
_PASS_ON = ("Options", "Repeat", "Take", "Skip", "AssertCardinality", "AssertNext")
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
        found = self._small(known) | self._ahead | self._loop(known)
        found |= self._start(node) if node else {}
        ahead = "works ahead" if self._works_ahead_itself() else ""
        if known["cause"] not in NOBODY:
            found |= self._in_vain(known) | self._blamed(known, unsure)
            single = not (node or found["interleaved"])
            if known["cause"] == "prep" and node and not (found["fills_buffer"] or found["slow_start"]):
                found["cause"] = "start"  # nothing in front of the node can begin earlier
            found["straggles"] = known["blame"] not in READERS and self._straggles(single)
        found["itself"] = " and ".join(filter(None, (found.get("itself"), ahead)))
        return Facts(**known | found)

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

    def _small(self, known: Facts) -> dict[str, Any]:
        """Return what shows that handing elements over takes longer than the work on them."""
        took = self._took("prep", lambda name: name not in self.work.calls).total()
        batch, element = self._took("batch", lambda name: True).total(), self.run.work and self.run.work.element
        # To read and to unpack, and to copy what is large, takes as long however elements are handed over.
        stored = self._took("fetch", lambda name: True) + self._took("prep", lambda name: short_op(name) in READERS)
        other = stored.total() + (batch if element and element.bytes >= thresholds.LARGE_BYTES else 0)
        idle = self.causes.gaps.length_ns.sum()
        few = known["blame"] not in READERS and 2 * other <= idle
        unread = few and stored.total() < thresholds.LEAST * self.lanes[0].window_ns
        return (
            chain(self.work, self.steps)
            or one_by_one(self.work, self.steps, took, batch)
            or small_files(self.run, self.steps, idle)
            or anew(self.work, self.run, self.steps)
            or (few and packed(self.work, self.run, self.steps))
            or (unread and 2 * took <= idle and many_parts(self.run))
            or (few and short_calls(self.work, self.run, self.steps))
            or {}
        )

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
        images = self.run.images_of(self.steps)
        took = self._took(known["cause"], lambda name: name not in self.work.calls)
        both = self._took("prep", lambda name: True) + self._took("batch", lambda name: True)
        found = {"endless_cache": self._endless(), **thrown_away(both, self.work, self.run, self.steps)}
        if known["blame"] in self.nodes or self._caller(known["blame"]) not in ("", "Map") or not images:
            return found
        # Elements that are batched twice, such as frames, are parts of the elements of a batch.
        ops = [op for op, ns in took.items() if ns >= thresholds.LEAST * took.total()]
        ran = min((n for op in ops for n in self.work.runs(op, loops=False)), default=0)
        taken = max([images, *(self.work.asked(path) for path in self.work.calls if _BATCHES.match(short_op(path)))])
        most = 0.0
        for path in self.work.calls:
            maps = [name for name in self.work.below(path) if is_map(short_op(name))]
            if maps and short_op(path) in _DROPPERS:
                # Branches of a zip that are written alike share a path: one element is several of theirs.
                zipped, _, branch = min(maps, key=len).rpartition("::Zip::")
                zipped, branch = f"{zipped}::Zip", f"{zipped}::Zip::{branch.partition('::')[0]}"
                alike = self.work.calls[branch] / self.work.calls[zipped] if zipped in self.work.calls else 1
                made = ran / max(1, round(alike)) / taken
                drops = self.work.asked(path) / self.work.calls[path]
                if made >= thresholds.THROWN_AWAY and drops >= 0.9 * most:  # of several, the one that drops most
                    found |= {"dropper": _DROPPERS[short_op(path)], "made": made}
                    most = max(most, drops)
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
        """Return the op that takes most of a loop in a map, and how often each call runs what the loop runs most.

        The steps of a loop take time that no op shows, so a loop counts where overhead is what takes most, too.
        """
        looped, calls = self._took("prep", in_loop), self.work.function_calls()
        runs = max((n for name, n in self.work.counts.items() if in_loop(name)), default=0)
        written = not self.run.written or any(node.looped for node in self.run.written)
        matters = known["cause"] in NOBODY or looped.total() >= thresholds.LEAST * self.lanes[0].window_ns
        if looped and written and matters and calls and runs >= thresholds.LOOP * calls:
            ((op, _),) = looped.most_common(1)
            # Calls that the window cuts off make the count inexact: it is near the size of the batch, or rounded.
            times, size = runs / calls, self.run.batch_size or 0
            times = size if abs(times - size) <= size / 8 else float(f"{times:.1g}")
            return {} if _ONE_VALUE.match(op) else {"loop": op, "times": times}
        return {}

    # -- the op or node to blame

    def _blamed(self, known: Facts, unsure: bool) -> dict[str, Any]:
        """Return what the op or node to blame does, how many threads do it at once, and who calls it."""
        work, run, blame, prep = self.work, self.run, known["blame"], known["cause"] == "prep"
        kind = self._caller(blame)
        maps = [node for node in run.written if is_map(node.kind) and blame in node.ops]
        called = [node.settings.get("num_parallel_calls", 1) for node in maps]
        # TensorFlow makes no map parallel that draws at random, nor any where its rewriting is off.
        rewritten = run.options.get("experimental_optimization.apply_default_optimizations") != "False"
        # Nor a map in the function of another node: of those that it makes parallel, such a node runs.
        mapped = self.has("ParallelMap", "MapAndBatch")
        made_parallel = mapped and prep and rewritten and not (run.work and run.work.random)
        made_parallel = made_parallel and "Map" in {n.kind for n in maps}
        python, source = prep and blame in PYTHON_OPS, blame in READERS
        node = prep and blame in self.nodes and not source
        stored = blame in ("SnapshotDatasetReader", "FileCacheImpl")
        effort = self.efforts.get(blame)
        # Calls of Python that keep a core busy together wait for nothing but each other.
        kept = effort.cores / max(work.running(blame), thresholds.OPEN) if python and effort else 0.0
        waits, unclear = (bool(effort) and effort.computes is answer for answer in (False, None))
        waits &= kept < thresholds.INTERPRETER_FULL
        parallel, interleaved = self.has("ParallelMap"), self.has("ParallelInterleave", "LegacyParallelInterleave")
        several = interleaved or (blame == "ReadFile" and not kind and mapped)
        generator = python and self._generates(kind, mapped)
        turns = prep and kind not in ("", "Map", "Generator") and not (node or source) and (waits or not python)
        # A thread of a map that reads its file and then works on it does one of both at a time.
        mine = ("map",) if python else (*_MAPPED, "read") if work.runs("ReadFile") else _MAPPED
        at_once = self._at_once(mine if prep else ("read",), {op for node in maps for op in node.ops})
        one = at_once < thresholds.ONE_BY_ONE
        # What its author wrote says how many calls there may be; where that is not known, the nodes that ran do.
        one_call = set(called) == {1} if called else kind == "Map" or not parallel
        more_calls = prep and (turns or (one and one_call)) and not (node or source or generator)
        cores, wide = run.host.cpus or 0, max((n for n in called if n > 0), default=run.host.cpus or 0)
        threads = int(run.options.get("threading.private_threadpool_size", cores))
        # The threads of a pool are too few for calls that (may) wait, or fewer than the cores for calls that compute.
        narrow = called and not one_call
        narrow = narrow and 0 < threads < (wide if waits or not prep else min(wide, cores))
        # What computes may be late only for lack of a core, unless the threads that may do it would be too slow for it.
        may = 1 if more_calls or generator else threads if narrow else cores or 1
        late = known["crowded"] and not (waits and prep) and known["cause"] != "fetch"
        cpu_ns, lane = computed(run), self.lanes[0]
        late = late and cpu_ns <= may * lane.busy.total_ns
        few = prep and called and 0 < min(called) and max(called) < cores and not (one_call or narrow)
        few = few and cpu_ns < thresholds.CORES_REST * cores * lane.window_ns
        turns_at_it = (
            cores != 1 and not (one or known["crowded"]) and thresholds.INTERPRETER_FULL <= kept <= thresholds.ONE_CORE
        )
        return {
            "needs_cores": late or (unsure and bool(node or self._ahead["rests"])),
            "python": python,
            "lists": python and bool(run.processor) and run.processor.converting >= thresholds.CONVERTS,
            "generator": generator,
            "several": "more" if interleaved else "several",
            "waits": waits,
            "unclear": unclear,
            "unless": UNLESS if waits and not one else "",
            "pool": threads if narrow else 0,
            "few_calls": max(called) if few else 0,
            "writes_cache": blame == "FileCacheImpl" and any(map(work.below, work.of(blame))),
            "unwatched": blame.startswith(REQUESTED) and ":" in blame,
            "interpreter": TURNS if turns_at_it else MAY_TAKE_TURNS,
            "cache_file": blame == "FileCacheImpl",
            "source": source and (prep or stored or (unclear and not several)),
            "node": node,
            "rests": self._ahead["rests"] and not node,  # the work of such a node shows as none
            "in_turn": kind if turns else "",
            "one_at_a_time": one and (prep or not several),
            "one_call": one_call,
            "interleaved": interleaved and not (blame == "ReadFile" and mapped),
            **({"itself": "makes this map parallel"} if made_parallel and not one else {}),
            **self._elements(blame),
        }

    def _caller(self, op: str) -> str:
        """Return the kind of the node that calls an op once at a time; "" where none does.

        A node that waits for a thread of the node below it looks like one that waits for its own function. What its
        author wrote tells which functions hold the op.
        """
        kind, holders = short_op(self.work.caller(op) or ""), tuple(n.kind for n in self.run.written if op in n.ops)
        return kind if not holders or kind.startswith(holders) else ""

    def _generates(self, kind: str, mapped: bool) -> bool:
        """Tell whether a call of Python is that of a generator: by what its author wrote, or by the node that calls."""
        callers = [node.kind for node in self.run.written if set(node.ops).intersection(PYTHON_OPS)]
        if callers and ("Generator" not in callers or set(callers) == {"Generator"}):
            return "Generator" in callers
        return self.has("Generator") and (kind in ("FlatMap", "Interleave", "Generator") or not (kind or mapped))

    @cached_property
    def _ahead(self) -> dict[str, bool]:
        """Whether the pipeline takes turns with the accelerator, or works ahead and rests for longer than it waits."""
        span, busy = self.lanes[0].window_ns, self.lanes[0].busy.total_ns
        # A parallel map below the last node works ahead, too, by a few elements.
        least = (thresholds.AHEAD if self.nodes else thresholds.OVERLAPS) * busy
        ahead = any(map(_AHEAD.match, self.causes.names)) or self.overlap_ns["both"] >= least
        rests = self.has("Prefetch") and self.overlap_ns["accelerator"] >= span - busy
        # To overlap with steps that take next to no time gains next to nothing.
        return {"takes_turns": not ahead and busy >= thresholds.LEAST * span, "rests": ahead and rests}

    def between(self) -> dict[str, float]:
        """Return the percent of the window in gaps outside of waits for a batch, if most of the gaps lie there."""
        waits = [union(lane.start_ns, lane.end_ns) for lane in self.lanes if lane.kind == "wait"]
        idle, gaps = int(self.causes.gaps.length_ns.sum()), self.causes.gaps
        between = idle - sum(int(overlap(wait, gaps.start_ns, gaps.end_ns).sum()) for wait in waits)
        return {"between": 100 * between / self.lanes[0].window_ns} if waits and 2 * between > idle else {}

    def epochs(self) -> dict[str, bool]:
        """Return whether the idle time is mostly where a loader begins an epoch, in gaps long beside the others."""
        gaps, names = self.causes.gaps, self.causes.names
        begin = names.index(BEGIN) if BEGIN in names else -1
        at = np.concatenate([lane.start_ns[lane.name_id == begin] for lane in self.lanes])[:, None]
        first = ((gaps.start_ns <= at) & (at <= gaps.end_ns)).any(axis=0)
        length, others = gaps.length_ns[first], gaps.length_ns[~first]
        most = len(others) and 2 * length.sum() >= gaps.length_ns.sum()
        return {"epochs": bool(most and np.median(length) >= thresholds.START_FACTOR * np.median(others))}

    def _works_ahead_itself(self) -> bool:
        """Tell whether a thread works ahead without a written prefetch: one is added, or the last map is fused."""
        last = next((node.kind for node in self.run.written if node.kind not in _PASS_ON), "Prefetch")
        return not last.startswith(("Prefetch", "Parallel")) and any(map(_AHEAD.match, self.causes.names))

    def _elements(self, blame: str) -> dict[str, Any]:
        """Return what the elements of a batch are: mostly padding, or small; arrays of one shape have a size."""
        delivered = self.run.work
        share = delivered.padded if delivered else None
        try:
            parts = delivered.components if delivered else ()
            size = sum(int(np.prod(part.shape)) * np.dtype(part.dtype).itemsize for part in parts)
        except TypeError:  # a shape that varies, or a text
            size = 0
        # Behind a map of batches come other elements than those of which the batches were made.
        last = next((node.kind for node in self.run.written if is_map(node.kind) or "Batch" in node.kind), "Batch")
        # What takes long for each element is no handing over.
        slow = self.causes.gaps.length_ns.sum() >= thresholds.EACH_NS * (self.run.images_of(self.steps) or np.inf)
        padding = "Padded" in blame and (share is None or share >= thresholds.PADDED)
        small = size < thresholds.SMALL_BYTES and not (slow or is_map(last))
        return {"padding": padding, "small_bytes": size if small else 0}

    def _at_once(self, categories: Sequence[str], ops: Set[str]) -> float:
        """Return how many threads do such work at once in the gaps, on average over the time that any does.

        Where `ops` names those of one map, only these count: other nodes may work beside a map of one thread.
        """
        codes, gaps = [CATEGORIES.index(c) for c in categories], self.causes.gaps
        named = np.array([not ops or short_op(name) in ops for name in self.causes.names], bool)
        lanes = [lane for lane in self.lanes if lane.kind == "pipeline"]
        works = [lane.owned(np.isin(lane.category, codes) & named[lane.name_id]) for lane in lanes]
        *each, any_ns = (int(overlap(work, gaps.start_ns, gaps.end_ns).sum()) for work in (*works, union_of(works)))
        return sum(each) / any_ns if any_ns else 0.0

    def _straggles(self, single: bool) -> bool:
        """Tell whether reads in order wait for one file that takes many times what is usual.

        `single` is whether a single read can tell. It cannot where files are read record by record, as an interleave
        does, or where epochs began for most of that time: every file is opened, and that takes long, too.
        """
        causes, fetch, delivered = self.causes, self.causes.kind == FETCH, self.run.work
        free = self.run.options.get("deterministic") == "False" or (delivered and delivered.unordered)
        if free or not self.has("ParallelInterleave", "ParallelMap"):
            return False
        for op in np.unique(causes.op[fetch & (causes.op >= 0)]).tolist():
            each = [(lane.start_ns[mine], lane.end_ns[mine]) for lane in self.lanes for mine in [lane.name_id == op]]
            usual = np.median(np.concatenate([end - start for start, end in each]))
            waited = (causes.end_ns - causes.start_ns)[fetch & (causes.op == op)]
            if single and 2 * len(waited) > fetch.sum() and np.median(waited) >= thresholds.STRAGGLER * usual:
                return True
            busy, gaps = union_of(_slow_files(*reads, thresholds.SLOW_FILE * usual) for reads in each), causes.gaps
            fetched = sum(ns for (cause, _), ns in causes.by_op.items() if cause == "fetch")
            if 2 * overlap(busy, gaps.start_ns, gaps.end_ns).sum() >= fetched:
                return True
        return False


def _slow_files(start_ns: np.ndarray, end_ns: np.ndarray, long_ns: float) -> Intervals:
    """Return when a thread that reads file after file reads a slow one: several reads in a row, most of them long.

    A single one may be the opening of any file.
    """
    took = end_ns - start_ns
    if len(took) < thresholds.IN_A_ROW:
        return union(took[:0], took[:0])
    rows = np.lib.stride_tricks.sliding_window_view(took, thresholds.IN_A_ROW)
    slow = np.convolve(np.median(rows, axis=1) >= long_ns, np.ones(thresholds.IN_A_ROW)) > 0
    return union(start_ns[slow], end_ns[slow])
