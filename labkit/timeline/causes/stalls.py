"""The gaps of one run in a sentence: shares of the window by cause, the op to blame, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labkit.timeline.causes.table import CAUSES
from labkit.timeline.describe import percent, short_op
from labkit.timeline.intervals import Intervals, covered_until, union
from labkit.timeline.trace import CATEGORIES

if TYPE_CHECKING:
    from labkit.timeline.timeline import Timeline

#: A cause that takes a smaller share of the window is nobody's fault.
LEAST = 0.05

# Below this number of threads at once, work is said to be done one by one.
_ONE_BY_ONE = 1.5
# A read that takes so many times the usual one is a straggler.
_STRAGGLER = 5
# A pipeline is said to overlap if it works during this share of the accelerator's busy time.
_OVERLAPS = 0.10

_BLAMED = ("fetch", "prep", "batch", "copy", "start")


@dataclass(frozen=True)
class Stalls:
    """Shares of the window in which the accelerator waited, 0 to 1 each, and what follows from them.

    Parameters
    ----------
    fetch, prep, batch, copy, start, framework, unknown : float
        Shares of the window by cause (`labkit.timeline.causes.CAUSES`); together the idle share of the gaps.
    cause : str or None
        The cause to change: the largest that can be changed in the pipeline, None where none reaches `LEAST`.
    blame : str or None
        The op or node that took most of it, in the word that readers know it by.
    blamed_share : float
        Its share of the window.
    advice : str
        What to change, in one sentence.
    """

    fetch: float
    prep: float
    batch: float
    copy: float
    start: float
    framework: float
    unknown: float
    cause: str | None
    blame: str | None
    blamed_share: float
    advice: str

    @property
    def shares(self) -> dict[str, float]:
        """Share of the window by cause."""
        return {cause: getattr(self, cause) for cause in CAUSES}


def stalls(timeline: Timeline) -> Stalls:
    """Add up the causes of all gaps, and say what to change."""
    causes, span = timeline.causes, timeline.span_ns
    total = dict(zip(CAUSES, causes.parts_ns.sum(axis=0).tolist(), strict=True))
    shares = {cause: ns / span if span else 0.0 for cause, ns in total.items()}
    worst = max(_BLAMED, key=lambda cause: shares[cause])
    if shares[worst] < LEAST:
        return Stalls(**shares, cause=None, blame=None, blamed_share=0.0, advice=_nobody(timeline, shares))
    ops: dict[str, int] = {}
    for (cause, op), ns in causes.by_op.items():
        if cause == worst:
            ops[short_op(timeline.names[op])] = ops.get(short_op(timeline.names[op]), 0) + ns
    blame = max(ops, key=lambda op: ops[op]) if ops else None
    share = ops[blame] / span if blame else 0.0
    return Stalls(**shares, cause=worst, blame=blame, blamed_share=share, advice=_advice(timeline, worst, blame))


def _nobody(timeline: Timeline, shares: dict[str, float]) -> str:
    if not timeline.steps:
        return "nothing can be said: the trace holds no train step."
    rest = max(("framework", "unknown"), key=lambda cause: shares[cause])
    if shares[rest] < LEAST:
        if sum(shares.values()) < 2 * LEAST:
            return "nothing: the accelerator is the limit, the input pipeline is good enough."
        return f"nothing single: no cause takes {percent(LEAST)} of the window; more steps tell more."
    if rest == "unknown":
        return "nothing yet: nobody saw what ran in most of the gaps; record more steps, on a machine with less to do."
    return "larger batches or fewer other programs: batches are handed over late, or Python works between steps."


def _advice(timeline: Timeline, cause: str, blame: str | None) -> str:
    """Return what to change, for a cause that is to blame; who made the trace may know better."""
    if cause in timeline.run.advice:
        return timeline.run.advice[cause]
    blame = blame or ""
    if cause == "start":
        if "Shuffle" in blame:
            return "a smaller shuffle buffer, or shuffle file names before the slow part of the pipeline."
        if "Repeat" in blame:
            return "repeat() before the slow part (and before batch and prefetch), so that the next epoch starts early."
        return "nothing in steady state: the first batch fills the pipeline; leave it out of the mean."
    if cause == "copy":
        return "copy the next batch while this one trains (prefetch_to_device), and send uint8 or float16."
    first = "" if _overlaps(timeline) else "prefetch(AUTOTUNE) as the last step, so that both work at once; then "
    if not first and _rests(timeline):
        return "a deeper prefetch: the pipeline rests longer than the accelerator waits, so a larger buffer bridges it."
    return first + _ADVICE[cause](timeline, blame)


def _batch(timeline: Timeline, blame: str) -> str:
    return "less to copy into a batch: smaller or uint8 elements, batch earlier; or batch(num_parallel_calls=AUTOTUNE)."


def _prep(timeline: Timeline, blame: str) -> str:
    if "PyFunc" in blame:
        return "TensorFlow ops in place of the Python function: the interpreter lets one thread run at a time."
    if _at_once(timeline, ("decode", "resize", "map", "batch")) < _ONE_BY_ONE:
        return f"map(num_parallel_calls=AUTOTUNE): {blame} runs on one thread at a time."
    return f"less work for the processor: {blame} keeps several threads busy; cache what is expensive, or add cores."


def _fetch(timeline: Timeline, blame: str) -> str:
    if _straggles(timeline):
        return "a straggler keeps all others waiting: deterministic=False, and more, smaller shards."
    if _at_once(timeline, ("read",)) < _ONE_BY_ONE:
        return "parallel reads: interleave(num_parallel_calls=AUTOTUNE) over files, or read in a parallel map."
    return "more reads at once (a wider private_threadpool_size), fewer and larger files, fewer bytes, or a cache."


_ADVICE = {"batch": _batch, "prep": _prep, "fetch": _fetch}


def _overlaps(timeline: Timeline) -> bool:
    """Tell whether the pipeline works ahead while the accelerator does."""
    if any(n.startswith("Iterator::") for n in timeline.names):
        # A node below the root that hands over from a thread of its own.
        ahead = ("Iterator::Root::Prefetch", "Iterator::Root::MapAndBatch", "Iterator::Root::Parallel")
        if any(n.startswith(ahead) for n in timeline.names):
            return True
    return timeline.overlap_ns["both"] >= _OVERLAPS * timeline.accelerator.busy.total_ns


def _rests(timeline: Timeline) -> bool:
    """Tell whether the pipeline rests, while the accelerator works, for longer than the accelerator waits."""
    return timeline.overlap_ns["accelerator"] >= timeline.idle_ns


def _at_once(timeline: Timeline, categories: tuple[str, ...]) -> float:
    """Return how many threads do such work at once in the gaps, on average over the time that any does."""
    codes = [CATEGORIES.index(c) for c in categories]
    gaps = timeline.gaps
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    together = 0
    for lane in timeline.lanes:
        if lane.kind != "pipeline":
            continue
        mine = np.isin(lane.category[lane.pieces.owner], codes)
        work = union(lane.pieces.start[mine], lane.pieces.end[mine])
        together += _within(work, gaps.start_ns, gaps.start_ns + gaps.length_ns)
        starts.append(work.start)
        ends.append(work.end)
    alone = _within(union(np.concatenate(starts), np.concatenate(ends)), gaps.start_ns, gaps.start_ns + gaps.length_ns)
    return together / alone if alone else 0.0


def _within(work: Intervals, start: np.ndarray, end: np.ndarray) -> int:
    return int((covered_until(work, end) - covered_until(work, start)).sum())


def _straggles(timeline: Timeline) -> bool:
    """Tell whether the reads that were waited for take many times what the same op usually takes."""
    causes = timeline.causes
    fetch = causes.kind == CAUSES.index("fetch")
    for op in np.unique(causes.op[fetch & (causes.op >= 0)]).tolist():
        usual = np.concatenate([(lane.end_ns - lane.start_ns)[lane.name_id == op] for lane in timeline.lanes])
        waited = (causes.end_ns - causes.start_ns)[fetch & (causes.op == op)]
        if 2 * len(waited) > fetch.sum() and np.median(waited) >= _STRAGGLER * np.median(usual):
            return True
    return False
