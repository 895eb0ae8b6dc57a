"""The one line over a picture: where a run comes from, how busy it kept its accelerator, and what that waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.advice.rule import HANDING_OVER, NO_STEPS, NOTHING, SEVERAL, UNSEEN
from labkit.common import other_programs
from labkit.timeline.causes.stalls import nobody
from labkit.timeline.wording import NETWORK, PYTHON_OPS, percent

if TYPE_CHECKING:
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
    UNSEEN: "waits mostly for what nobody saw",
    HANDING_OVER: "waits mostly for the handing over of batches",
}


def heading(timeline: Timeline) -> str:
    """Return the line over the picture of a run; the name of the run stands before it, and is not in it.

    It says whether the run was measured or modelled, how busy the accelerator was, what it waited for most, and, where
    other programs took a quarter of the cores or more, how much: ``measured · accelerator busy 34 % · waits mostly for
    storage: ReadFile · other programs took 0.9 of 2 cores``. Of a timeline without explanation, which asks what is
    wrong, it gives neither figure nor cause.
    """
    parts = [timeline.origin]
    if not any(map(len, timeline.lanes)):
        parts.append("nothing was recorded")
    elif timeline.explain:
        parts += [f"accelerator busy {percent(timeline.busy, digits=0)}", waits_for(timeline)]
    host = timeline.run.host
    return " · ".join(filter(None, [*parts, other_programs.warning(host.others, host.cpus)]))


def waits_for(timeline: Timeline) -> str:
    """Return what the accelerator waits for most, as in ``waits mostly for storage: ReadFile``.

    It is empty for a timeline without explanation, or without train steps.
    """
    if not timeline.explain or not timeline.steps:
        return ""
    stalls = timeline.stalls
    if "run.slowest-process" in stalls.rules:
        return f"waits mostly for {_slowest(timeline)}"
    if not stalls.cause:
        return _NOBODY[nobody(timeline.steps, stalls.shares)]
    op, effort = stalls.blame, timeline.efforts.get(stalls.blame or "")
    # The waits of a thread that works count as its work in the cause; where they are longer, they are what to name.
    kind = max((stalls.cause, "core wait", "GIL wait"), key=lambda cause: stalls.shares[cause])
    what = _FOR[kind]
    if op in PYTHON_OPS and kind == "prep":
        computes = effort is not None and effort.computes
        what, op = "Python, which holds the interpreter" if computes else "a function of Python", None
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
    waits = {
        tuple(lane.name.rpartition(" · ")[::2]): lane.by_category.get("transfer", 0)
        for lane in timeline.lanes
        if lane.kind in ("script", "unit") and "transfer" in lane.by_category
    }
    part = max((part for process, part in waits if process == own), key=lambda part: waits[own, part])
    others = {process: ns for (process, its), ns in waits.items() if its == part and process != own}
    last = min(others, key=lambda process: others[process], default="")
    return f"{last if others and others[last] < waits[own, part] else 'the slowest process'}: {part}"
