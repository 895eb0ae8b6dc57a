"""The gaps of one run in a sentence: shares of the window by cause, the op that took most, and what to change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from labkit.common import hooks
from labkit.timeline.causes import thresholds
from labkit.timeline.causes.effort import Effort, computed, had_core, queued
from labkit.timeline.causes.node_work import NodeWork, asynchronous, in_loop
from labkit.timeline.causes.per_gap import FETCH, UNEXPLAINED, Causes, by_cause, filling, unexplained_share
from labkit.timeline.causes.thresholds import (
    AHEAD,
    CALLS,
    FEW,
    HANDED_OVER,
    HIDDEN,
    HIDDEN_PER_SEEN,
    INTERPRETER_FULL,
    LEAST,
    LOOP,
    MADE,
    MANY_CALLS,
    MANY_PARTS,
    ONE_BY_ONE,
    ONE_CORE,
    ONE_THREAD,
    OVERLAPS,
    PADDED,
    SHORT_NS,
    SMALL_BYTES,
    SMALL_NS,
    STRAGGLER,
    THROWN_AWAY,
)
from labkit.timeline.gaps import Gaps
from labkit.timeline.intervals import overlap, union, union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import COPIED, PYTHON_OPS, percent, short_op

_BLAMED = ("fetch", "prep", "batch", "transfer", "copy", "start")
# Advice for a node that reads and computes while it reads.
_FILES = {
    **dict.fromkeys(
        ("TFRecord", "TextLine", "FixedLengthRecord"),
        "as it does where records are packed (GZIP, ZLIB). Store them unpacked",
    ),
    "CSV": "since it parses one line after the other. Read lines (TextLineDataset), batch them, and decode_csv whole "
    "batches in a parallel map",
}
_SOURCES = {
    **_FILES,
    "SnapshotDatasetReader": "most of all where the saved dataset is packed (GZIP, SNAPPY). cache() it in memory "
    "where it fits, or save it with compression=None",
    "FileCacheImpl": "since its file is read, and its values are built, in each epoch. Use cache() in memory where it "
    "fits, or keep smaller elements: uint8, or what the next map makes of them",
}
# Ops that take one value only, so that no call of them works on a batch.
_ONE_VALUE = re.compile("ReadFile|Decode(AndCrop)?(Jpeg|Png|Gif|Bmp|Image|Wav)")
# Nodes that hand on fewer elements than they take.
_DROPS = re.compile("::(FiniteTake|FiniteSkip|Filter|Shard|TakeWhile|Window)")
# The map that draws a dataset for each element of sample_from_datasets, and the resampling that is made of it.
_DRAWN = re.compile(r".*::DirectedInterleave::[^:]+(?=::(Zip::)?Batch(V\d+)?::Random$)")
_RESAMPLED = re.compile(r".*::DirectedInterleave::Prefetch::\w*Map(V\d+)?::Filter::\w*Map(V\d+)?::Zip(::|$)")
# Nodes that take elements of several lengths, before a map.
_UNEVEN = "::(PaddedBatch|GroupBy)"
# The node from which the map of Keras's timeseries_dataset_from_array takes its windows.
_WINDOWS = re.compile(r"Map(V\d+)?::Zip::(Parallel)?Map(V\d+)?::Zip::ForeverRepeat::FromTensor$")
# Nodes whose function makes a dataset, and what a generator is made of.
_DATASETS = ("FlatMap", "Interleave", "Generator")
# Nodes that hand over from a thread of their own, the last ones but for such as only pass elements on.
_PASSES = r"(ForeverRepeat|FiniteRepeat|FiniteTake|FiniteSkip)(V\d+)?"
_AHEAD = re.compile(rf"Iterator::Root(::{_PASSES})*::(Prefetch|MapAndBatch|Parallel|ParseExample)")
# Nodes that neither drop, nor change, nor join what they pass on.
_ORDERS = re.compile(rf"Shuffle\w*|Prefetch|{_PASSES}")
# Nodes that make several elements of one.
_MULTIPLIES = re.compile("(Legacy)?(Parallel)?Interleave|FlatMap|Unbatch")
# Nodes that put elements together, and those whose elements are all of one length.
_BATCHES = re.compile("(Parallel|Padded)?Batch")
_ONE_LENGTH = re.compile("(Parallel)?Batch")
# Nodes of which one element is not one of their input.
_REGROUPS = re.compile("[Bb]atch|Window|FlatMap|Interleave|Generator")


@dataclass(frozen=True)
class Stalls:
    """Shares of the window in which the accelerator waited, 0 to 1 each, and what follows from them.

    Parameters
    ----------
    shares : Counter of str
        Shares of the window by cause (`labkit.timeline.causes.CAUSES`), 0 for one that it lacks; together the idle
        share of the gaps.
    cause : str or None
        The cause to change: the largest cause that can be changed in the pipeline. It is None if no cause reaches
        `LEAST` of `labkit.timeline.causes.thresholds`, and preparation if many short events show a loop in a map.
    blame : str or None
        The op or node that took most of it, in the word that readers know it by.
    blamed_share : float
        Its share of the window; that of the gaps that nobody saw where only events tell of a loop.
    advice : str
        What to change, in one sentence.
    during : str or None
        What a node does in at least half of that time, as in ``Shuffle fills its buffer``.
    """

    shares: Counter[str]
    cause: str | None
    blame: str | None
    blamed_share: float
    advice: str
    during: str | None = None

    @property
    def unexplained(self) -> float:
        """Return the share of the window in which nobody was seen to work on what was waited for."""
        return unexplained_share(self.shares)


def stalls(
    causes: Causes,
    lanes: Sequence[Lane],
    run: Run,
    steps: int,
    overlap_ns: Mapping[str, int],
    efforts: Mapping[str, Effort],
) -> Stalls:
    """Add up the causes of all gaps, and say what to change.

    Parameters
    ----------
    causes : Causes
        Of all gaps of the window.
    lanes : sequence of Lane
        The accelerator first.
    run : Run
        Its advice goes before the advice of this module.
    steps : int
        Train steps in the window.
    overlap_ns : dict
        The window split by who works, see `labkit.Timeline.overlap_ns`.
    efforts : mapping of str to Effort
        Whether ops compute or wait.
    """
    span = lanes[0].window_ns
    total = by_cause(causes.parts_ns.sum(axis=0))
    shares = Counter({cause: ns / span if span else 0.0 for cause, ns in total.items()})
    crowded = _crowded(run, span)
    by_op = _as_work(causes.by_op)
    for (cause, op), ns in by_op.items():
        total[cause] += ns - causes.by_op[cause, op]
    worst = max(_BLAMED, key=lambda cause: total[cause])
    unexplained = unexplained_share(shares)
    handed_over = overlap_ns["neither"] >= HANDED_OVER * span or shares["framework"] >= HANDED_OVER
    work = NodeWork(lanes, causes.names, causes.gaps)
    ops_ns = sum(ns for (cause, op), ns in by_op.items() if cause == "prep" and causes.names[op] not in work.calls)
    small = _taken_apart(work, steps, span, ops_ns, total["batch"])
    ready = had_core(computed(run), queued(run)) if crowded else 1.0
    small = small or _small_calls(lanes, run, causes.names, steps, handed_over, ready)
    unseen = max(shares["framework"], unexplained)
    loop = _hidden_loop(lanes, run, work, steps) if unseen >= LEAST else None
    together = _together(lanes, shares)
    if run.loader and unexplained * span >= max(LEAST * span, total[worst]):
        if run.loader.hidden:
            advice = (
                "nothing yet: what processes do that began before the recording is not seen; let the loader start its "
                "workers in the recording."
            )
            return Stalls(shares, None, None, 0.0, advice)
        if not together and 2 * unexplained >= sum(shares.values()):
            advice = (
                f"nothing yet: nobody saw what ran in most of the gaps{_queues(shares)}. Where threads or processes of "
                "your own make the batches, loaders.known('module.function') shows their functions."
            )
            return Stalls(shares, None, None, 0.0, crowded or advice)
    if total[worst] < LEAST * span or not span:
        if loop and not together:
            called = _map_calls(work)
            return Stalls(shares, "prep", max(called, key=called.__getitem__), unseen, loop)
        return Stalls(shares, None, None, 0.0, together or _nothing_to_blame(steps, shares, small, crowded))
    ops: dict[str, int] = {}
    for (cause, op), ns in by_op.items():
        if cause == worst:
            ops[short_op(causes.names[op])] = ops.get(short_op(causes.names[op]), 0) + ns
    blame = min(ops, key=lambda op: (-ops[op], op)) if ops else None  # of equal ones the first by its name
    share = ops[blame] / span if blame else 0.0
    # The maker of the trace may know better what to change.
    found = _Blame(worst, blame or "", causes, lanes, run, efforts, work, loop, crowded)
    small = small if worst in ("prep", "batch") else None
    node = _starts(causes, total[worst])
    given = run.advice.get(worst)
    theirs = [say(worst, blame, lanes, run, efforts) for say in hooks.provided("labkit_advice")] if run.loader else []
    known = (given or run.loader) and (crowded or given or next(filter(None, theirs), ""))
    advice = known or small or (node and _start(node, work)) or _advice(found, overlap_ns)
    return Stalls(shares, worst, blame, share, advice, filling(node) if node and worst != "start" else None)


def _as_work(by_op: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Return the time of each op, its waits for a core or for the interpreter included: the same advice helps both."""
    found = {key: ns for key, ns in by_op.items() if key[0] in _BLAMED}
    cause_of = {op: cause for cause, op in reversed(found)}  # the one that took most
    for (cause, op), ns in by_op.items():
        if cause not in _BLAMED:
            found[cause_of[op], op] += ns
    return found


def _queues(shares: Mapping[str, float]) -> str:
    """Return which queue kept others waiting, to be put behind a sentence; nothing where it was none."""
    words = {"queue empty": "at an empty queue", "queue full": "at a full queue"}
    longest = max(UNEXPLAINED, key=lambda cause: shares[cause])
    return f", which were waits {words[longest]}" if longest in words else ""


def _starts(causes: Causes, ns: int) -> str | None:
    """Return the node that began epochs or filled its buffer for at least half of this time in the gaps, or None."""
    node = max(causes.starting, key=lambda i: causes.starting[i], default=None)
    return None if node is None or 2 * causes.starting[node] < ns else causes.names[node]


def _start(path: str, work: NodeWork) -> str:
    """Return what to change where gaps are the start of epochs, or a buffer that fills."""
    if short_op(path).startswith("Shuffle"):
        return "a smaller shuffle buffer, or shuffle file names before the slow part of the pipeline."
    below = [short_op(name) for name in work.below(path)]
    slow = any(re.match("(Parallel|Padded)?(Map|Batch)|Prefetch|Shuffle", node) for node in below)
    # In front of a cache, repeat() would let it grow without end.
    if not slow or any("CacheImpl" in node for node in below):
        return (
            "less to do at the start of each epoch: do once, outside of the pipeline, what its source does each time "
            "that it begins, or let a deeper prefetch bridge the pause."
        )
    return "repeat() before the slow part (and before batch and prefetch), so that the next epoch starts early."


def _crowded(run: Run, span: int) -> str | None:
    """Return why there is no advice that needs cores, where other programs held them and the pipeline wanted them."""
    others, processor = run.host.others, run.processor
    if others is None or others < thresholds.CROWDED:
        return None
    if processor and processor.queued_ns is not None:
        if processor.queued_ns < max(thresholds.STARVED * computed(run), thresholds.QUEUED * span):
            return None
    return (
        f"nothing yet: other programs took {percent(others)} of the cores, and the pipeline waited for a core for "
        "longer than it ran. Close other programs and record again."
    )


def _together(lanes: Sequence[Lane], shares: dict[str, float]) -> str | None:
    """Return what to look at where processes wait for each other for longer than for anything else.

    Such a wait is part of a train step, so in the recording of one process the accelerator looks busy meanwhile.
    """
    prefix = lanes[0].name.rpartition(" · ")[0]
    for lane in lanes:
        process, _, name = lane.name.rpartition(" · ")
        share = lane.by_category.get("transfer", 0) / lane.window_ns if lane.window_ns else 0.0
        if lane.kind == "script" and process == prefix and share >= max(thresholds.TOGETHER, *shares.values()):
            return (
                f"whatever slows the slowest process: {name} takes {percent(share)} of the window, and no process goes "
                "on before all are there. The one that spends the least time in it is the slowest."
            )
    return None


def _nothing_to_blame(steps: int, shares: dict[str, float], small: str | None, crowded: str | None) -> str:
    if not steps:
        return "nothing can be said: the trace holds no train step."
    unexplained = unexplained_share(shares)
    if max(shares["framework"], unexplained) < LEAST:
        if sum(shares.values()) < 2 * LEAST:
            return "nothing: the accelerator is the limit, the input pipeline is good enough."
        return f"nothing single: no cause takes {percent(LEAST)} of the window; more steps tell more."
    if unexplained > shares["framework"]:
        # A thread without a core may leave no span, but the calls of a map are counted all the same.
        if small or crowded:
            return small or crowded
        return "nothing yet: nobody saw what ran in most of the gaps; record more steps, on a machine with less to do."
    if small:
        return small
    return "larger batches or fewer other programs: batches are handed over late, or Python works between steps."


def _taken_apart(work: NodeWork, steps: int, span: int, ops_ns: int, batch_ns: int) -> str | None:
    """Return what helps where nodes take more time to pass elements on, one by one, than others work on them; or None.

    A batch of small elements takes its time to ask for each, one of large ones to copy them.
    """
    asked = {path: max(calls, work.asked(path)) for path, calls in work.calls.items() if not asynchronous(path)}
    many = [
        path for path, calls in asked.items() if calls >= MANY_CALLS * steps and work.own_ns(path) < SMALL_NS * calls
    ]
    batches = any("Batch" in short_op(path) for path in many)
    least = max(HANDED_OVER * span, ops_ns, 0 if batches else batch_ns)
    if not steps or not many:
        return None
    for path in work.of("Unbatch"):
        if path in many and sum(map(work.own_ns, many)) + _maps_ns(work, path) >= least:
            each = f"{work.calls[path] / steps:,.0f} elements a step go one by one through the pipeline"
            above = short_op(path.rpartition("::")[0])
            if re.fullmatch(r"(Parallel)?Batch(V\d+)?", above):
                return f"rebatch(n) in place of unbatch() and batch(n): {each} only to be put together again."
            return f"whole batches in place of unbatch(): {each}. Shuffle and map batches where that is good enough."
    for path in work.of("FlatMap", "Interleave"):
        windows = [name for name in work.below(path) if short_op(name) == "Window"]
        if windows and sum(map(work.own_ns, [path, *work.below(path)])) >= least:
            return (
                "windows cut out of an array, in place of window() and flat_map(): they begin a dataset for each "
                f"window, {max(work.calls[name] for name in windows) / steps:,.0f} calls a step. Batch the places at "
                "which windows begin, and tf.gather all of them in one map."
            )
    for path in work.of("DirectedInterleave"):
        drawn = any(map(_DRAWN.match, work.below(path))) and not any(map(_RESAMPLED.match, work.below(path)))
        if drawn and path in many and sum(map(work.own_ns, many)) >= least:
            return (
                f"whole batches drawn from each dataset in place of elements: {work.calls[path] / steps:,.0f} elements "
                "a step are drawn one by one. Batch before sample_from_datasets, where a batch may come from one."
            )
    for path in work.of("TensorSlice"):
        # The nodes between an array and the first batch of its elements.
        above = list(takewhile(lambda node: not _ONE_LENGTH.match(node), reversed(path.split("::")[:-1])))
        if path not in many or not all(map(_ORDERS.fullmatch, above)) or sum(map(work.own_ns, many)) < least:
            continue
        each = f"{work.calls[path] / steps:,.0f} elements a step go one by one through the pipeline"
        if not any(node.startswith("Shuffle") for node in above):
            return (
                f"slices that are batches, as of x.reshape(-1, n, …), in place of batch(n) behind the slices: {each}."
            )
        return (
            f"rows taken by the batch: {each}. Shuffle and batch their numbers (Dataset.range), and tf.gather the rows "
            "of a batch in one map."
        )
    return None


def _maps_ns(work: NodeWork, path: str) -> int:
    """Return what the maps below a node take beside their functions."""
    return sum(work.own_ns(name) for name in work.below(path) if _is_map(short_op(name)) and not asynchronous(name))


def _small_calls(
    lanes: Sequence[Lane], run: Run, names: Sequence[str], steps: int, handed_over: bool, ready: float
) -> str | None:
    """Return what helps where a map is called for many elements, and each call is shorter than it takes to make it.

    The calls are those of the nodes, because the profiler keeps few of the shortest operations. `handed_over` says
    whether much of the window was spent on handing over, however long a call takes. `ready` is the share of the time in
    which ready threads had a core; where it is below 1, all operations take longer than their work.
    """
    codes = [CATEGORIES.index(c) for c in ("decode", "resize", "map")]
    pipeline = [lane for lane in lanes if lane.kind == "pipeline"]
    asked = sum((np.bincount(lane.name_id, minlength=len(names)) for lane in pipeline), np.zeros(len(names), np.int64))
    if any(asked[i] and _ONE_VALUE.fullmatch(short_op(name)) for i, name in enumerate(names)):
        return None
    # Rows of several lengths are no batch.
    shapes = [part.shape for part in run.work.components] if run.work else []
    if any(shape is None or None in shape for shape in shapes):
        return None
    # sample_from_datasets draws the dataset of each element in a map of its own, which no reader has written.
    others = [re.escape(match[0]) + "(::Zip|::Batch|$)" for match in map(_DRAWN.match, names) if match]
    others += [_UNEVEN] + ["::DirectedInterleave::"] * any(map(_RESAMPLED.match, names))
    others = re.compile("|".join(others))
    # A map that is fused with its batch asks for its elements, and is itself asked for batches.
    maps = (i for i, name in enumerate(names) if any(map(_is_map, name.split("::")[-2:])))
    nodes = [i for i in maps if not others.search(names[i])]
    calls = max((int(asked[i]) for i in nodes), default=0)
    work = sum(int((lane.end_ns - lane.start_ns)[np.isin(lane.category, codes)].sum()) for lane in pipeline) * ready
    if not steps or calls < MANY_CALLS * steps or work >= (SHORT_NS if handed_over else SMALL_NS) * calls:
        return None
    if any(_WINDOWS.search(name) and not others.search(name) for name in names):
        return (
            "windows cut out of an array whole batches at a time, in place of timeseries_dataset_from_array: it makes "
            f"{calls / steps:,.0f} windows a step one by one. Batch the places at which windows begin, and tf.gather "
            "all of them in one map."
        )
    cost = "to make the calls takes longer" if work < SMALL_NS * calls else "to hand them over takes much of the time"
    draws = " What it draws at random must then be drawn for each element." * bool(run.work and run.work.random)
    return (
        "batch before the map, so that one call works on many elements: there are "
        f"{calls / steps:,.0f} calls in a step, their operations take {work / calls / 1e3:,.0f} µs each, and {cost}."
        f"{draws}"
    )


def _hidden_loop(lanes: Sequence[Lane], run: Run, work: NodeWork, steps: int) -> str | None:
    """Return what helps where a map goes from op to op many times in a call, by ops too short to be seen; or None.

    Of a short op the profiler keeps no event with its name, but one each time that a thread goes on with the function.
    Those of a train step on a real device look the same.
    """
    profile, calls = run.profiler, max(_map_calls(work).values(), default=0)
    if run.accelerator.kind == "real" or not (
        profile and profile.events and profile.profiled_steps and steps and calls
    ):
        return None
    seen = sum(len(lane.name_id) for lane in lanes)
    hidden = profile.events * steps / profile.profiled_steps - seen
    if hidden < max(HIDDEN * calls, HIDDEN_PER_SEEN * seen):
        return None
    return (
        f"one op for all values in place of a loop: each call of the map leaves {hidden / calls:,.0f} events of ops "
        "that are too short to be seen, as while_loop and map_fn do."
    )


def _map_calls(work: NodeWork) -> dict[str, int]:
    """Return how often the function of a map was called, by its word; nothing where that of one is not known."""
    # A map that is fused with its batch calls its function for each element that it asks for.
    fused = [("MapAndBatch", work.asked(path)) for path in work.of("MapAndBatch")]
    maps = [
        (short_op(path), n) for path, n in work.calls.items() if re.match(r"(Parallel)?Map(V\d+)?$", short_op(path))
    ]
    most_last = sorted([*maps, *fused], key=lambda one: one[1])
    return dict(most_last) if all(n for _, n in fused) else {}


def _is_map(node: str) -> bool:
    """Tell whether a part of the path of a node names a map of elements."""
    return node.startswith(("Map", "ParallelMap"))


@dataclass(frozen=True)
class _Blame:
    """The facts that advice depends on: the cause of the gaps, and the pipeline as it is."""

    cause: str
    blame: str
    causes: Causes
    lanes: Sequence[Lane]
    run: Run
    efforts: Mapping[str, Effort]
    work: NodeWork
    hidden_loop: str | None
    crowded: str | None = None  # the refusal of advice that needs cores, where other programs held them

    @cached_property
    def caller(self) -> str | None:
        """The path of the node that calls the op to blame once at a time, or None."""
        return self.work.caller(self.blame)

    @property
    def nodes(self) -> set[str]:
        """The nodes of the pipeline, by their words."""
        return {short_op(name) for name in self.causes.names if name.startswith("Iterator::")}

    def has(self, *kinds: str) -> bool:
        """Tell whether a node of the pipeline begins with one of these words."""
        return any(node.startswith(kinds) for node in self.nodes)

    @property
    def one_call(self) -> bool:
        """Whether a map makes one call at a time: a map waits for the op. A fused one does not say."""
        return short_op(self.caller or "") == "Map" or not self.has("ParallelMap")

    @property
    def reads_several(self) -> bool:
        """Whether several files are read at once."""
        return self.has("ParallelInterleave", "LegacyParallelInterleave")

    @property
    def source(self) -> str:
        """What helps the node to blame, which reads and computes meanwhile."""
        if self.blame in _FILES and not self.reads_several:
            return f"{_SOURCES[self.blame]}; or read several files at once, interleave(num_parallel_calls=AUTOTUNE)."
        if self.blame == "FileCacheImpl" and self.fills_cache:
            return "and here it writes its file, which it does once: record later epochs (a larger warmup)."
        return f"{_SOURCES[self.blame]}."

    @property
    def fills_cache(self) -> bool:
        """Whether a cache asked for elements: one that is full does not."""
        return any(self.work.asked(path) for path in self.work.of("MemoryCacheImpl", "FileCacheImpl"))

    @property
    def cache(self) -> str:
        """What a cache can do for an op that computes."""
        if self.fills_cache:
            return (
                "if the cache is behind it, record later epochs (a larger warmup), or else make it cheaper, or cache "
                "behind it, unless it is random"
            )
        if self.has("MemoryCache", "FileCache"):
            return "make it cheaper, or cache behind it, unless it is random"
        again = ", which every epoch makes again" if self.has("ForeverRepeat", "FiniteRepeat") else ""
        return f"cache what is expensive and not random{again}"

    @property
    def pool(self) -> str:
        """What more calls of Python at once need beside the calls; they hold a thread of the pool while they wait."""
        if self.run.options.get("threading.private_threadpool_size"):
            return ""
        return " The pool has a thread for each core, and each call holds one: private_threadpool_size=16, for example."

    @property
    def element_bytes(self) -> int | None:
        """Bytes of an element; None where its parts are no arrays of one shape."""
        parts = self.run.work.components if self.run.work else ()
        try:
            return sum(int(np.prod(part.shape)) * np.dtype(part.dtype).itemsize for part in parts) or None
        except TypeError:  # a shape that varies, or a text
            return None

    @property
    def queued(self) -> bool:
        """Whether threads of this process were ready, and waited for a core, for much of the window."""
        ns = self.run.processor.queued_ns if self.run.processor else None
        return ns is not None and ns >= thresholds.QUEUED * self.lanes[0].window_ns

    def unsure(self, what: str) -> str | None:
        """Return a sentence that `what` is uncertain, if threads waited for cores that other programs held."""
        others = self.run.host.others or 0.0
        if others < thresholds.CROWDED or not self.queued:
            return None
        return self.crowded or (
            f"nothing yet: other programs took {percent(others)} of the cores, so nobody can tell whether {what}, or "
            "waited for a core. Close other programs and record again."
        )

    @property
    def calls_enough(self) -> bool:
        """Whether a parallel map may make as many calls at once as there are threads; no option took any away."""
        own_pool = "threading.private_threadpool_size" in self.run.options
        return self.has("ParallelMap") and not self.one_call and not own_pool

    @property
    def waits(self) -> bool:
        """Whether the op to blame is known to wait for something else than a core."""
        effort = self.efforts.get(self.blame)
        return bool(effort) and effort.computes is False

    @property
    def keeps_up(self) -> bool:
        """Whether all that computed in the window had fitted beside the training, with all cores for itself."""
        return computed(self.run) <= (self.run.host.cpus or 1) * self.lanes[0].busy.total_ns

    def then(self, change: str) -> str:
        """Return what else to change as a further sentence; where it is refused, why the first one stands."""
        return " That is less work, also while others hold the cores." if refused(change) else f" Then {change}"

    def at_once(self, *categories: str) -> float:
        """Return how many threads do such work at once in the gaps."""
        return _at_once(categories, self.causes.gaps, self.lanes)


def refused(advice: str) -> bool:
    """Tell whether advice is that there is none yet."""
    return advice.startswith("nothing yet: ")


def _advice(found: _Blame, overlap_ns: Mapping[str, int]) -> str:
    """Return what to change, for a cause and the op that is to blame."""
    cause, lanes = found.cause, found.lanes
    if cause == "start":
        return "nothing in steady state: the first batch fills the pipeline; leave it out of the mean."
    if cause == "copy" and found.run.work and found.run.work.to_device:
        return "send fewer bytes to the device, which is sent the next batch ahead: uint8 or float16."
    if cause == "copy":
        return "copy the next batch while this one trains (prefetch_to_device), and send uint8 or float16."
    if cause == "transfer":
        return (
            "fewer bytes between processes: collate in the worker, keep values uint8 until they are on the device, and "
            "hand batches over in shared memory."
        )
    if cause in ("prep", "fetch") and (wasted := _thrown_away(found)):
        node, ratio = wasted
        return (
            f"{node} before the map: {ratio:.1f} elements are made for each one that it lets through. Where it needs "
            "what the map makes, let a cheap map make just that."
        )
    if cause in ("prep", "fetch") and _never_full(found.work):
        return (
            "take before the cache: take ends each epoch before the cache has seen the end of its input, so it keeps "
            "nothing, and every epoch makes its elements again."
        )
    if cause in ("prep", "fetch") and _grows(found.work):
        return (
            "repeat() behind the cache: it stands before it, so for the cache no epoch ends, and nothing is ever taken "
            "from it."
        )
    busy_ns = lanes[0].busy.total_ns
    ahead = any(map(_AHEAD.match, found.causes.names))
    # A parallel map below the last node works ahead, too, by a few elements.
    ahead = ahead or overlap_ns["both"] >= (AHEAD if found.nodes else OVERLAPS) * busy_ns
    rests = overlap_ns["accelerator"] >= lanes[0].window_ns - busy_ns
    # A pipeline that works ahead may be late only because it waited for a core, unless it waits for something else.
    computes = cause != "fetch" and not found.waits
    if ahead and computes and found.crowded and found.keeps_up:
        return found.crowded
    if ahead and rests:
        if unsure := found.unsure("the pipeline pauses by itself"):
            return unsure
        deeper = "a deeper prefetch" if found.has("Prefetch") else "prefetch(AUTOTUNE) as the last step"
        return f"{deeper}: the pipeline rests longer than the accelerator waits, so a larger buffer bridges it."
    change = _change(found)
    if cause == "prep" and found.blame not in found.nodes and (loop := _loop(found)):
        op, times = loop
        better = "one op for all values"
        if op.startswith(("Decode", "Parse", "ReadFile")):  # they take one value only
            better = "a parallel map of single elements, before the batch,"
        change = (
            f"{better} in place of a loop: each call of the map runs {op} {times:,.0f} times, as while_loop "
            f"and map_fn do.{found.then(change)}"
        )
    elif cause == "prep" and found.hidden_loop:
        change = f"{found.hidden_loop}{found.then(change)}"
    if cause in ("prep", "fetch") and (made := _made(found)) >= MADE:
        change = (
            f"look at what the map makes: {made:.1f} elements for each one that a batch holds. Where some are dropped "
            f"(take, skip, window), drop them before the map.{found.then(change)}"
        )
    if ahead:
        return change
    prefetch = "prefetch(AUTOTUNE) as the last step, so that both work at once"
    if refused(change):
        # That nothing works ahead stands in the graph; of threads that had no core, times do not tell it.
        return f"{prefetch}. More can be said when other programs leave the cores." if found.nodes else change
    return f"{prefetch}; then {change}"


def _change(found: _Blame) -> str:
    """Return how batches, prep or fetches take less time, whatever works at the same time."""
    cause, blame = found.cause, found.blame
    if cause == "batch":
        share = found.run.work and found.run.work.padded
        if "Padded" in blame and (share is None or share >= PADDED):
            much = "" if share is None else f"{percent(share)} of the values of the first batch only fill up, so "
            group = "group elements of similar length (bucket_by_sequence_length)"
            if found.has("GroupByWindow"):
                group = "narrow the groups to elements of similar length (more bucket_boundaries, or a finer key_func)"
            return f"fewer padded values: {much}{group}, cut the longest, or keep them ragged (ragged_batch)."
        parts = len(found.run.work.components) if found.run.work else 0
        if parts >= MANY_PARTS:
            return (
                f"less to copy into a batch: an element has {parts} parts, and each is copied by itself. Make one "
                "array of them, or batch lines or records before a map takes them apart."
            )
        each = found.element_bytes
        if each and each < SMALL_BYTES:
            return (
                f"fewer, larger elements for a batch: they have {each:,} bytes, and to hand one over takes longer than "
                "to copy it. Let the source make many rows at a time, or cache() behind the batch what is not random."
            )
        copy = "less to copy into a batch: smaller or uint8 elements, batch earlier"
        # A map that is fused with its batch copies in its own threads, and padded_batch has no calls.
        at_once = found.has("ParallelBatch") or blame == COPIED or "Padded" in blame
        return f"{copy}." if at_once else f"{copy}; or batch(num_parallel_calls=AUTOTUNE)."
    if cause == "prep":
        if blame in PYTHON_OPS:
            return _python(found)
        if blame in _SOURCES:
            return f"less work for the processor: {blame} computes while it reads, {found.source}"
        if blame in found.nodes:
            # Its own time is what no op explains: it may have stood there without a core.
            if unsure := found.unsure(f"{blame} works itself"):
                return unsure
            source = not any(found.work.below(path) for path in found.work.of(blame))
            place = "prefetch behind it" if source else "prefetch what comes before it"
            return (
                f"less work for {blame}, which works itself, in one thread: give it fewer or smaller elements, or "
                f"{place}, so that both work at once."
            )
        # More calls at once of what computes gain nothing while other programs hold the cores.
        no_cores = None if found.waits else found.crowded
        if in_turn := _in_turn(found):
            return no_cores or in_turn
        if found.run.host.cpus == 1 and not found.waits:
            return (
                f"less work for the processor, which has one core: make {blame} cheaper, or cache what it makes, "
                "unless that is random."
            )
        # A thread of a map that reads its file and then works on it does one of both at a time.
        mine = ("decode", "resize", "map", "batch", *(["read"] if found.work.runs("ReadFile") else []))
        if short_op(found.caller or "") == "Map" or found.at_once(*mine) < ONE_BY_ONE:
            # Even all cores together would be too slow for such a map.
            enough = no_cores and found.calls_enough and not found.keeps_up
            if no_cores and not enough:
                return no_cores
            less = (
                f"less work for the processor: {blame} has calls enough, but waits for a core; add cores, close other "
                f"programs, or {found.cache}."
            )
            if enough:
                return less
            if found.has("MapAndBatch") and not found.caller:
                return (
                    f"map(num_parallel_calls=AUTOTUNE), or more calls where it has them: {blame} runs on one thread at "
                    "a time."
                )
            if found.one_call:
                return f"map(num_parallel_calls=AUTOTUNE): {blame} runs on one thread at a time."
            if found.queued and found.at_once(*mine) > ONE_THREAD:
                return less
            return (
                f"more threads for the map, which is parallel already: {blame} runs on one at a time. See whether "
                "private_threadpool_size is 1, or other programs hold the cores."
            )
        return f"less work for the processor: {blame} keeps several threads busy; add cores, or {found.cache}."
    at_once = found.has("ParallelInterleave", "ParallelMap")
    # A source reads for many elements at a time, so one of its calls takes long now and then.
    if at_once and blame not in _SOURCES and _straggles(found.causes, found.lanes):
        unordered = found.run.options.get("deterministic") == "False" or (found.run.work and found.run.work.unordered)
        order = "" if unordered else "deterministic=False, and "
        more = "more, smaller shards" if found.reads_several or found.has(*_FILES) else "more calls at once"
        return f"a straggler keeps all others waiting: {order}{more}."
    effort = found.efforts.get(blame)
    if blame in ("SnapshotDatasetReader", "FileCacheImpl"):
        return f"less to read: {blame} takes time in each epoch, {found.source}"
    if blame in _SOURCES and effort and effort.computes is None and not found.reads_several:
        return (
            "several files at once, interleave(num_parallel_calls=AUTOTUNE): the recording cannot tell whether "
            f"{blame} waits for bytes or unpacks them (GZIP, ZLIB), and this helps both."
        )
    if in_turn := _in_turn(found):
        return in_turn
    if found.at_once("read") < ONE_BY_ONE:
        if found.reads_several:
            return (
                "more reads at once: a larger cycle_length of interleave (num_parallel_reads of TFRecordDataset), or "
                "reads in a parallel map."
            )
        if found.has("ParallelMap", "MapAndBatch") and found.blame == "ReadFile" and not found.caller:
            return (
                "more reads at once than the map makes: num_parallel_calls=16, for example, with a "
                "private_threadpool_size as large."
            )
        return "parallel reads: interleave(num_parallel_calls=AUTOTUNE) over files, or read in a parallel map."
    return "more reads at once (a wider private_threadpool_size), fewer and larger files, fewer bytes, or a cache."


def _in_turn(found: _Blame) -> str | None:
    """Return what helps where another node than a map of the whole pipeline calls a function once at a time."""
    path, blame = found.caller or "", found.blame
    kind, above = short_op(path), path.rpartition("::")[0]
    if kind in ("Filter", "TakeWhile"):
        return (
            f"a parallel map for what {kind} asks: it calls {blame} for one element at a time. "
            "map(lambda x: (x, wanted(x)), num_parallel_calls=AUTOTUNE), and then go by the answer."
        )
    if kind in ("FlatMap", "Interleave"):
        return (
            f"interleave(num_parallel_calls=AUTOTUNE) in place of {kind}, so that several calls of its function run at "
            f"once: it calls {blame} for one element after the other."
        )
    if kind and kind not in _DATASETS and kind != "Map":
        return (
            f"less work inside {kind}, whose calls come one after the other: {blame} in a parallel map before it, as "
            "far as it does not need what the calls before it left."
        )
    outer = short_op(above)
    if outer in _DATASETS and kind == "Map" and found.work.calls[path] < FEW * _inner(found.work, above, path):
        return (
            f"interleave(num_parallel_calls=AUTOTUNE) in place of {outer}, so that several of its inner pipelines run "
            f"at once: each makes few elements, one after the other, by {blame}."
        )
    return None


def _inner(work: NodeWork, path: str, inner: str | None = None) -> int:
    """Return how many inner pipelines a flat map or an interleave began: it took one element of its input for each.

    `inner` is the path of the inner one, by default that which was asked most; where no input was asked meanwhile,
    none began.
    """
    inputs = [name for name in work.calls if name.rpartition("::")[0] == path]
    inner = inner or max(inputs, key=lambda name: work.calls[name], default=None)
    return min((work.calls[name] for name in inputs if name != inner), default=0)


def _python(found: _Blame) -> str:
    """Return what helps a Python function: its calls hold the interpreter, or they wait, one at a time or together."""
    effort = found.efforts.get(found.blame)
    # A generator is called by its node, and a function of Python elsewhere by a map.
    generator = (
        found.has("Generator") and found.blame == "PyFunc" and short_op(found.caller or "Generator") in _DATASETS
    )
    if generator and not found.caller and found.has("ParallelMap", "MapAndBatch"):
        waits = found.work.waits("PyFunc")
        generator = any(waits[path] > CALLS for path in found.work.of("Generator"))
    if generator and found.reads_several and not (effort and effort.computes is not None):
        return (
            "TensorFlow ops in place of the Python generators if they compute, more of them at once if they "
            "wait: Python's threads take turns, and the recording cannot tell which."
        )
    if generator and not (effort and effort.computes):
        return (
            "several generators at once, each with its own part of the data: interleave(num_parallel_calls=…) over "
            "their numbers, as long as the generator waits. One that computes holds the interpreter: TensorFlow ops."
            f"{found.pool}"
        )
    if effort and effort.computes is False and effort.cores < INTERPRETER_FULL:
        if in_turn := _in_turn(found):
            return in_turn
        if found.at_once("map") < ONE_BY_ONE and not found.one_call:
            waits = "it waits (asleep, or for an answer), the processor rests."
            if size := found.run.options.get("threading.private_threadpool_size"):
                return (
                    f"a larger private_threadpool_size than {size}, so that more calls of Python run at once: {waits}"
                )
            return f"more calls of the Python function at once: {waits}{found.pool}"
        if found.at_once("map") < ONE_BY_ONE:
            return (
                "map(num_parallel_calls=16) for the Python function: it waits (asleep, or for an answer), and one "
                f"call runs at a time.{found.pool}"
            )
        return (
            "the Python function's own code: its calls wait, several at a time, and the processor rests. If they wait "
            f"for one lock, take it away; if for answers from outside, make more calls at once.{found.pool}"
        )
    if effort and effort.computes is None:
        return (
            "TensorFlow ops in place of the Python function if it computes, more calls of it at once if it waits: "
            "Python's threads take turns, and the recording cannot tell which."
        )
    if short_op(found.caller or "") == "Map":
        return (
            "TensorFlow ops in place of the Python function: the interpreter lets one thread run at a time. A function "
            "that lets go of it (OpenCV, Pillow, NumPy) needs only map(num_parallel_calls=AUTOTUNE)."
        )
    if effort and (cores := effort.low * found.at_once("map")) > ONE_CORE:
        return (
            f"TensorFlow ops in place of the Python function, or less work in it: it keeps {cores:.1f} cores busy, so "
            "it lets go of the interpreter."
        )
    return "TensorFlow ops in place of the Python function: the interpreter lets one thread run at a time."


def _thrown_away(found: _Blame) -> tuple[str, float] | None:
    """Return a node that drops elements behind a map, and how many are made for each that it hands on; or None.

    A filter asks its input for every element. A shard and a skip ask their input to skip elements, but the input makes
    them all the same. So for these two, the calls of the ops on the path are counted, except those that a loop repeats.
    If the map makes other elements than those that are dropped, as parts of a batch, the number is not known.
    """
    work, words = found.work, {"Shard": "shard", "FiniteSkip": "skip", "Filter": "filter"}
    if found.blame in found.nodes:
        return None
    for path in work.of(*words):
        maps = [name for name in work.below(path) if _is_map(short_op(name))]
        # Behind a node that makes many elements of one, counts of ops say nothing of what is dropped here. What a
        # filter asks itself, it asks of every element.
        if not maps or any(map(_MULTIPLIES.match, path.split("::")[:-1])) or found.caller == path:
            continue
        nearest = max(maps, key=lambda name: -len(name))
        between = nearest.removeprefix(path).split("::")[1:]
        if short_op(path) == "Filter":
            made = work.asked(path) if max(_ran(found), default=0) >= THROWN_AWAY * work.calls[path] else 0
        elif any(map(_REGROUPS.search, between)):
            continue
        else:
            # Branches of a zip that are written alike share a path: one element is several of theirs.
            zipped = nearest[: nearest.rindex("::Zip") + len("::Zip")] if "Zip" in between else nearest
            alike = max(1, round(work.calls[nearest] / work.calls[zipped])) if zipped in work.calls else 1
            ran = (n / alike for n in _ran(found, loops=False))
            made = min((n for n in ran if n >= THROWN_AWAY * work.calls[path]), default=0)
        if made >= THROWN_AWAY * work.calls[path]:
            return words[short_op(path)], made / work.calls[path]
    return None


def _ran(found: _Blame, loops: bool = True) -> list[int]:
    """Return how often the ops that took the time ran, for each place where they stand, also in `loops` or not."""
    ops: Counter[str] = Counter()
    for (cause, op), ns in found.causes.by_op.items():
        if cause == found.cause:
            ops[short_op(found.causes.names[op])] += ns
    return [n for op, ns in ops.items() if ns >= LEAST * ops.total() for n in found.work.runs(op, loops)]


def _loop(found: _Blame) -> tuple[str, float] | None:
    """Return an op that a map runs in a loop, and how often in each call; None where no loop took the time.

    It is the op to blame, or the one that took most in a loop whose ops together took more than the one to blame.
    """
    ops: Counter[str] = Counter()
    blamed = 0
    for (cause, op), ns in found.causes.by_op.items():
        name = found.causes.names[op]
        if cause == found.cause and in_loop(name):
            ops[short_op(name)] += ns
        elif cause == found.cause and short_op(name) == found.blame:
            blamed += ns
    looped = max(ops, key=lambda op: (ops[op], op)) if ops.total() > blamed else found.blame
    return next(((op, n) for op in (found.blame, looped) if (n := _times(found, op)) >= LOOP), None)


def _times(found: _Blame, op: str) -> float:
    """Return how often each call of a map runs an op at one place; 0 where it is not known who runs it."""
    caller = found.caller if op == found.blame else found.work.caller(op)
    if op in PYTHON_OPS and found.has("Generator") and not caller:
        return 0.0
    work = found.work
    if caller:
        calls = work.calls[caller] if short_op(caller) == "Map" else 0
    elif not (maps := _map_calls(work)) and work.of("MapAndBatch"):
        return 0.0
    else:
        # The function of an interleave runs once for each inner pipeline.
        began = [_inner(work, path) for path in work.calls if _MULTIPLIES.match(short_op(path))]
        calls = max([*maps.values(), *began], default=0)
    return max(work.runs(op), default=0) / calls if calls else 0.0


def _never_full(work: NodeWork) -> bool:
    """Tell whether a take ends epochs before the cache below it has everything, so that its input is asked again."""
    for path in work.of("MemoryCacheImpl", "FileCacheImpl"):
        take = path.rpartition("::")[0]
        ended = work.calls.get(take, 0) - work.calls[path]  # at its end, a take asks nobody
        if short_op(take) == "FiniteTake" and ended >= 2 and 2 * work.asked(path) >= work.calls[path]:
            return True
    return False


def _grows(work: NodeWork) -> bool:
    """Tell whether a cache is filled without end, since its input is repeated for ever."""
    ends = re.compile("Zip|DirectedInterleave|FiniteTake|TakeWhile")
    return any(
        short_op(name) == "ForeverRepeat" and not any(map(ends.match, name.removeprefix(path).split("::")))
        for path in work.of("MemoryCacheImpl", "FileCacheImpl")
        for name in work.below(path)
    )


def _made(found: _Blame) -> float:
    """Return how many elements the map that is called most makes for each one that the train steps took; 0 if unknown.

    A map that is fused with its batch is asked for batches, so it counts for little here. Maps below a zip are left
    out, because their path does not distinguish them. At the end of each inner pipeline a map is called without a
    result, so the ops that it ran are counted, too. Elements that are batched twice, such as frames, are parts of
    the elements of a batch.
    """
    in_map = short_op(found.caller or "Map") == "Map"
    if not found.run.images or not in_map or not any(map(_DROPS.search, found.work.calls)):
        return 0.0
    maps = [n for path, n in found.work.calls.items() if _is_map(short_op(path)) and "::Zip" not in path]
    batched = [found.work.asked(path) for path in found.work.calls if _BATCHES.match(short_op(path))]
    return min(max(maps, default=0), min(_ran(found), default=0)) / max([found.run.images, *batched])


def _at_once(categories: tuple[str, ...], gaps: Gaps, lanes: Sequence[Lane]) -> float:
    """Return how many threads do such work at once in the gaps, on average over the time that any does."""
    codes, works = [CATEGORIES.index(c) for c in categories], []
    for lane in lanes:
        if lane.kind == "pipeline":
            mine = np.isin(lane.category[lane.pieces.owner], codes)
            works.append(union(lane.pieces.start[mine], lane.pieces.end[mine]))
    *each, any_ns = (int(overlap(work, gaps.start_ns, gaps.end_ns).sum()) for work in (*works, union_of(works)))
    return sum(each) / any_ns if any_ns else 0.0


def _straggles(causes: Causes, lanes: Sequence[Lane]) -> bool:
    """Tell whether the reads that were waited for take many times what the same op usually takes."""
    fetch = causes.kind == FETCH
    for op in np.unique(causes.op[fetch & (causes.op >= 0)]).tolist():
        usual = np.concatenate([(lane.end_ns - lane.start_ns)[lane.name_id == op] for lane in lanes])
        waited = (causes.end_ns - causes.start_ns)[fetch & (causes.op == op)]
        if 2 * len(waited) > fetch.sum() and np.median(waited) >= STRAGGLER * np.median(usual):
            return True
    return False
