"""The one line over a picture: where a run comes from, how busy it kept its accelerator, and what that waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.advice.rule import HANDING_OVER, NO_STEPS, NOTHING, SEVERAL, TURNS, UNSEEN
from labkit.common import other_programs
from labkit.timeline.wording import NETWORK, PYTHON_OPS, percent

if TYPE_CHECKING:
    from labkit.timeline.run import Run
    from labkit.timeline.timeline import Timeline

#: What is waited for, by its cause; the op that took most of it follows.
_FOR = {
    "fetch": "storage",
    "prep": "preparation",
    "batch": "the copying into batches",
    "transfer": "the way between processes",
    "copy": "the copy to the device",
    "start": "the start of an epoch",
    "core wait": "a core",
    "GIL wait": "the interpreter",
    "other process": "another process",
}

#: What is said where nothing can be changed in the pipeline.
_NOBODY = {
    NO_STEPS: "",
    NOTHING: "waits for next to nothing",
    SEVERAL: "waits for several things",
    UNSEEN: "waits mostly for something that the recording does not show",
    HANDING_OVER: "waits mostly for the handing over of elements and batches",
}


def heading(timeline: Timeline) -> str:
    """Return the line over the picture of a run: `first_line`, and the `caveats` of the run."""
    return " · ".join([first_line(timeline), *(one.removesuffix(".") for one in caveats(timeline.run))])


def first_line(timeline: Timeline) -> str:
    """Return what the text of a run begins with; the name of the run stands before it, and is not in it.

    It says whether the run was measured or modelled, how busy the accelerator was, what it waited for most, and, where
    other programs took a quarter of the cores or more, how much: ``measured · accelerator busy 34 % · waits mostly for
    storage: ReadFile · other programs took 0.9 of 2 cores``. Of a timeline without explanation, which asks what is
    wrong, it gives neither figure nor cause. It gives the summary of the run instead, where there is one.
    """
    parts = [timeline.origin]
    if not any(map(len, timeline.lanes)):
        parts.append("nothing was recorded")
    elif timeline.explain:
        busy = timeline.run.summary or f"accelerator busy {percent(timeline.busy, digits=0)}"
        parts += [busy, waits_for(timeline)]
    host = timeline.run.host
    return " · ".join(filter(None, [*parts, other_programs.warning(host.others, host.cpus)]))


def caveats(run: Run) -> list[str]:
    """Return what the profiler did to the figures of a run, in sentences; the text, the picture and a table say it."""
    profiler, found = run.profiler, []
    if run.job and (profiler.profiled_steps or run.job.steps) < run.job.steps:
        found.append(f"The profiler watched {profiler.profiled_steps:,} of {run.job.steps:,} steps.")
    if profiler.distortion is not None:
        added = f"it adds {percent(profiler.distortion, digits=0)} to the CPU time of each {run.noun}"
        trust = "Trust the order of spans, not their lengths; the remedy may gain less."
        found.append(f"Recording distorts: {added}. {trust}")
    return found


def remarks(run: Run) -> str:
    """Return all that a reader of the figures of a run has to know beside them; "" where there is nothing."""
    return " ".join(filter(None, [*caveats(run), run.profiler.note]))


def waits_for(timeline: Timeline) -> str:
    """Return what the accelerator waits for most, as in ``waits mostly for storage: ReadFile``.

    It is empty for a timeline without explanation, or without train steps.
    """
    if not timeline.explain or not timeline.steps or timeline.run.of_cycles:
        return ""
    stalls = timeline.stalls
    if not timeline.timed:
        return stalls.advice.removeprefix("nothing can be said, since ").rstrip(".")
    if "run.slowest-process" in stalls.rules:
        return f"waits mostly for {_slowest(timeline)}"
    if stalls.nobody:
        return _NOBODY[stalls.nobody]
    # An op that did a small part of it is not what to name.
    op = stalls.blame if 3 * stalls.blamed_share >= stalls.shares[stalls.cause] else None
    # The waits of a thread that works count as its work in the cause; where they are longer, they are what to name.
    kind = max((stalls.cause, "core wait", "GIL wait"), key=lambda cause: stalls.shares[cause])
    what = _FOR[kind]
    if op in PYTHON_OPS and kind == "prep":
        turns = TURNS in stalls.advice
        what, op = "Python, which holds the interpreter" if turns else "a function of Python", None
    elif op == f"{NETWORK} request":
        what, op = "an answer from the network", None
    elif kind == "other process" and op:  # as in "batch of process 1"
        what, op = f"the {op}", None
    elif kind == "start":
        op = None
    elif op and what in op:  # "modelled storage" says it all
        what, op = op, None
    during = f", while {stalls.during}" if stalls.during else ""
    return f"waits mostly for {what}{f': {op}' if op else ''}{during}"


def _slowest(timeline: Timeline) -> str:
    """Return whom processes wait for in what they do together, as in ``process 1: all-reduce``.

    Who comes last waits least. In the recording of one process alone the others have no name.
    """
    own = timeline.accelerator.name.rpartition(" · ")[0]
    meet = [lane for lane in timeline.lanes if lane.kind in ("script", "unit") and "transfer" in lane.by_category]
    waits = {tuple(lane.name.rpartition(" · ")[::2]): lane.by_category["transfer"] for lane in meet}
    part = max((part for process, part in waits if process == own), key=lambda part: waits[own, part])
    others = {process: ns for (process, its), ns in waits.items() if its == part and process != own}
    last = min(others, key=lambda process: others[process], default="")
    return f"{last if others and others[last] < waits[own, part] else 'the slowest process'}: {part}"
