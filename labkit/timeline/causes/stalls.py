"""The gaps of one run in a sentence: shares of the window by cause, the op that took most, and what to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.advice import NOBODY, RULES, Advice, Facts, advise
from labkit.advice.rule import HANDING_OVER, NO_STEPS, NO_WAITS, NOTHING, SEVERAL, UNSEEN
from labkit.common import hooks, other_programs
from labkit.timeline.causes.effort import computed
from labkit.timeline.causes.per_gap import Causes, by_cause, filling, unexplained_share
from labkit.timeline.causes.pipeline_facts import Pipeline
from labkit.timeline.causes.thresholds import CROWDED, LARGE_BATCH, LEAST, QUEUED, STARVED, TOGETHER
from labkit.timeline.lanes import Lane
from labkit.timeline.run import Run
from labkit.timeline.wording import short_op, size

_BLAMED = ("fetch", "prep", "batch", "transfer", "copy", "start", "other process")


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
        `LEAST` of `labkit.timeline.causes.thresholds`.
    blame : str or None
        The op or node that took most of it, in the word that readers know it by.
    blamed_share : float
        Its share of the window.
    advice : str
        What to change, in one sentence.
    during : str or None
        What a node does in at least half of that time, as in ``Shuffle fills its buffer``.
    rules : tuple of str
        The ids of the rules that the advice comes from, see `labkit.advice`; empty where the trace brought it.
    nobody : str
        Which of `labkit.advice.NOBODY` it is where no cause can be changed. It is `HANDING_OVER`, beside a cause, where
        handing elements and batches over is most of the gaps, unless threads lacked cores: then it is the time in
        which they waited for one.
    """

    shares: Counter[str]
    cause: str | None
    blame: str | None
    blamed_share: float
    advice: str
    during: str | None = None
    rules: tuple[str, ...] = ()
    nobody: str = ""

    @property
    def unexplained(self) -> float:
        """Return the share of the window in which nobody was seen to work on what was waited for."""
        return unexplained_share(self.shares)


def stalls(pipeline: Pipeline, timed: bool) -> Stalls:
    """Add up the causes of all gaps, and say what to change.

    Where waits for a batch were not `timed`, a gap between two steps may be anything. The advice of the run goes before
    that of rules; rules of others (`labkit_advice` of `labkit.common.hooks`) go before ours.
    """
    causes, lanes, run = pipeline.causes, pipeline.lanes, pipeline.run
    span = lanes[0].window_ns
    if not timed:
        given = run.advice.get(NO_WAITS)
        said = Advice(given, ()) if given else advise(Facts(NO_WAITS), RULES)
        return Stalls(Counter(), None, None, 0.0, said.text, rules=said.rules)
    total = by_cause(causes.parts_ns.sum(axis=0))
    shares = Counter({cause: ns / span if span else 0.0 for cause, ns in total.items()})
    by_op = _as_work(causes.by_op)
    for (cause, op), ns in by_op.items():
        total[cause] += ns - causes.by_op[cause, op]
    cause, unseen = max(_BLAMED, key=lambda cause: total[cause]), unexplained_share(shares)
    nobody_saw = run.loader and unseen * span >= total[cause] and (run.loader.hidden or 2 * unseen >= shares.total())
    ops: Counter[str] = Counter()
    for (key, op), ns in by_op.items():
        if key == cause:
            ops[short_op(causes.names[op])] += ns
    blame = min(ops, key=lambda op: (-ops[op], op)) if ops else None  # of equal ones the first by its name
    share = ops[blame] / span if blame and span else 0.0
    if not span or total[cause] < LEAST * span or nobody_saw:
        cause = _nobody(pipeline.steps, shares)
    node = None if cause in NOBODY else _starts(causes, total[cause])
    crowded, unsure = _beside_others(run, span)
    others = other_programs.took(run.host.others, run.host.cpus)
    noise = ", or fewer other programs" if other_programs.warning(run.host.others) else ""
    batch = run.work.element.bytes * (run.batch_size or 0) if run.work and run.work.element else 0
    more = _together(lanes, shares) | pipeline.between() | pipeline.epochs()
    more |= {"large": size(batch) if batch >= LARGE_BATCH else ""}
    facts = Facts(cause, blame or "the work", others=others, crowded=crowded, noise=noise, **more)
    theirs = (advise_run(facts, lanes, run, pipeline.efforts) for advise_run in hooks.provided("labkit_advice"))
    overhead = cause not in NOBODY and not crowded and 2 * shares["framework"] > shares.total()
    if given := run.advice.get(cause):
        said = advise(Facts(**facts, needs_cores=True), RULES) if crowded else Advice(given, ())
    elif not (said := next(filter(None, theirs), None)):
        found = pipeline.facts(facts, node, unsure)
        blame = "from_generator" if found["generator"] else blame if share >= LEAST else None
        found["blame"] = blame or "the work of many ops"
        said = advise(Facts(**found | {"cause": HANDING_OVER}) if overhead else found, RULES)
        if cause in NOBODY and "prep.loop" in said.rules:  # its overhead is work of the map
            cause, blame, share = "prep", None, 0.0
        if overhead and not {"run.between-steps", "run.handed-over-late"}.isdisjoint(said.rules):
            cause = HANDING_OVER
    if cause in NOBODY:
        return Stalls(shares, None, None, 0.0, said.text, rules=said.rules, nobody=cause)
    during = filling(node) if node and cause != "start" else None
    return Stalls(shares, cause, blame, share, said.text, during, said.rules, HANDING_OVER if overhead else "")


def _as_work(by_op: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Return the time of each op, its waits for a core or for the interpreter included: the same advice helps both."""
    found = {key: ns for key, ns in by_op.items() if key[0] in _BLAMED}
    cause_of = {op: cause for cause, op in reversed(found)}  # the one that took most
    for (cause, op), ns in by_op.items():
        if cause not in _BLAMED:
            found[cause_of[op], op] += ns
    return found


def _nobody(steps: int, shares: Counter[str]) -> str:
    """Return which of `labkit.advice.NOBODY` it is, where no cause can be changed in the pipeline."""
    unseen = unexplained_share(shares)
    if not steps:
        return NO_STEPS
    if shares.total() < 2 * LEAST:
        return NOTHING
    if max(shares["framework"], unseen) < LEAST:
        return SEVERAL
    return UNSEEN if unseen >= shares["framework"] else HANDING_OVER


def _starts(causes: Causes, ns: int) -> str | None:
    """Return the node that began epochs or filled its buffer for at least half of this time in the gaps, or None."""
    node = max(causes.starting, key=lambda i: causes.starting[i], default=None)
    return None if node is None or 2 * causes.starting[node] < ns else causes.names[node]


def _beside_others(run: Run, span: int) -> tuple[bool, bool]:
    """Return whether threads waited for longer than they ran, and whether for much of the window, for cores of others.

    Where nobody counts their waits, they are taken to have waited for longer.
    """
    queued = run.processor.queued_ns if run.processor else None
    if (run.host.others or 0.0) < CROWDED:
        return False, False
    much = queued is not None and queued >= QUEUED * span
    return queued is None or (much and queued >= STARVED * computed(run)), much


def _together(lanes: Sequence[Lane], shares: Mapping[str, float]) -> dict[str, float | str]:
    """Return the facts of what processes wait for each other in for longer than for anything else; none without it.

    Such a wait is part of a train step, so in the recording of one process the accelerator looks busy meanwhile.
    """
    prefix = lanes[0].name.rpartition(" · ")[0]
    for lane in lanes:
        process, _, name = lane.name.rpartition(" · ")
        share = lane.by_category.get("transfer", 0) / lane.window_ns if lane.window_ns else 0.0
        if lane.kind in ("script", "unit") and process == prefix and share >= max(TOGETHER, *shares.values()):
            return {"together": 100 * share, "together_in": name}
    return {}
