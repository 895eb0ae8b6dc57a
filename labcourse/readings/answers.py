"""What a reader can read off the recordings: the right answers, computed from them, and the idea behind a wrong one.

No answer is stored. `RULES` hold by number a function that takes what a reading shows, by letter, and returns what is
right for each part of the answer. `IDEAS` hold by number, where the pair of the two does not say it, a function that
returns a word for the idea behind a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from labcourse.readings.pairs_and_photos import PhotoRow, RatePair
from labkit.recording.measures import FASTER, SLOWER, compare_rates
from labkit.timeline.causes.per_gap import CAUSES
from labkit.timeline.states import CORE, INTERPRETER
from labkit.timeline.timeline import Timeline

Shows = Mapping[str, Any]
RULES: dict[str, Callable[[Shows], dict[str, Any]]] = {}
IDEAS: dict[str, Callable[[Shows, str, Any], str]] = {}

#: The accelerator waits for less than this share of the window: nothing is to be gained.
_IDLE = 0.02
#: Pipeline and accelerator work together for more than this share of the window: they overlap.
_BOTH = 0.1
#: The cores are full when this share of them works.
_FULL = 0.8


def rule(number: str, known: dict[str, Any] = RULES) -> Callable[[Any], Any]:
    """Register a function under the number of its reading."""
    return lambda function: known.setdefault(number, function)


def each(number: str) -> Callable[[Any], Any]:
    """Register a rule that looks at one recording at a time, and whose parts are the letters."""

    def register(function: Callable[[Any], str]) -> Callable[[Any], str]:
        RULES[number] = lambda shows: {letter: function(one) for letter, one in shows.items()}
        return function

    return register


def cause(timeline: Timeline, gap: int | slice = slice(None)) -> str:
    """Return what gaps waited for most, as "fetch" or "prepare"."""
    parts = dict(zip(CAUSES, timeline.causes.parts_ns[gap].reshape(-1, len(CAUSES)).sum(axis=0), strict=True))
    return "fetch" if parts["fetch"] > parts["prep"] else "prepare"


def overlaps(timeline: Timeline) -> bool:
    """Tell whether the pipeline works while the accelerator trains."""
    return timeline.overlap_ns["both"] > _BOTH * timeline.span_ns


def waits(timeline: Timeline, what: str) -> bool:
    """Tell whether threads wait for a core, or for the interpreter."""
    return any(state.waits == what for state in timeline.states.values())


@each("00.1")
def _job(timeline: Timeline) -> str:
    return f"{cause(timeline)}, {'at once' if overlaps(timeline) else 'in turn'}"


@rule("00.2")
def _no_core(shows: Shows) -> dict[str, int]:
    timeline = shows["A"]
    stored = [k for k in range(len(timeline.gaps)) if cause(timeline, k) == "fetch"]
    return {"": timeline.gaps[max(stored, key=lambda k: timeline.gaps.length_ns[k])].step}


@rule("00.2", IDEAS)
def _of_gap(shows: Shows, part: str, step: int) -> str:
    timeline = shows["A"]
    return cause(timeline, timeline.gaps.step.tolist().index(step))


@each("01.1")
def _verdict(pair: RatePair) -> str:
    if pair.work("before") != pair.work("after"):
        return "not comparable"
    verdict = compare_rates(pair.after["rounds"], pair.before["rounds"]).verdict
    return verdict if verdict in (FASTER, SLOWER) else "cannot tell"


@each("01.2")
def _longest(timeline: Timeline) -> str:
    prepare = sum(timeline.work_ns[kind] for kind in ("decode", "resize", "map", "other"))
    bars = {"fetch": timeline.work_ns["read"], "prepare": prepare, "train": timeline.accelerator.busy.total_ns}
    return max(bars, key=bars.get)


@each("02.1")
def _buffer(timeline: Timeline) -> str:
    if 1 - timeline.busy < _IDLE:
        return "nothing"
    enough = timeline.pipeline_busy.total_ns < timeline.accelerator.busy.total_ns
    return "deeper buffer" if enough else "faster producer"


@rule("03.1")
def _slow_file(shows: Shows) -> dict[str, str]:
    files = [lane for lane in shows["A"].lanes if lane.name.startswith("file ")]
    slow = max(files, key=lambda lane: float(np.mean(lane.end_ns - lane.start_ns)))
    # Who keeps the order waits for the slow file each time that it is its turn.
    return {"slow file": slow.name, "in order": min(shows, key=lambda letter: shows[letter].busy)}


@rule("04.1")
def _python(shows: Shows) -> dict[str, str]:
    return {"": next(letter for letter, timeline in shows.items() if waits(timeline, INTERPRETER))}


@rule("04.1", IDEAS)
def _of_band(shows: Shows, part: str, letter: str) -> str:
    return cause(shows[letter])


@each("04.2")
def _limit(timeline: Timeline) -> str:
    return "neither" if waits(timeline, INTERPRETER) else "more cores" if waits(timeline, CORE) else "more calls"


@rule("05.1")
def _cache(shows: Shows) -> dict[str, Any]:
    timeline = shows["A"]
    last = max(int(lane.end_ns[lane.category == 2].max(initial=0)) for lane in timeline.lanes)  # 2: read
    frozen = next(name for name, row in shows.items() if isinstance(row, PhotoRow) and not row.fresh and row.changed)
    return {"step": int(np.searchsorted(timeline.step_edges_ns, last)), "row": frozen}


@rule("05.1", IDEAS)
def _of_cache(shows: Shows, part: str, given: Any) -> str:
    if part == "row":
        return "fresh" if shows[given].fresh else "unchanged"
    return "early" if given < _cache(shows)["step"] else "late"


@rule("06.1")
def _changes(shows: Shows) -> dict[str, str]:
    one, two, three = shows.values()
    return {"first": _change(one, two), "second": _change(two, three)}


def _change(before: Timeline, after: Timeline) -> str:
    calls = [int((one.trace.select("map")).sum()) / one.steps for one in (before, after)]
    if overlaps(after) > overlaps(before):
        return "prefetch"
    if calls[1] < calls[0] / 2:
        return "one call a batch"
    if after.work_ns["read"] < before.work_ns["read"] / 2:
        return "cache"
    return "parallel map" if len(after.lanes) > len(before.lanes) else "interleave"


@each("07.1")
def _format(timeline: Timeline) -> str:
    if not timeline.work_ns["decode"]:
        return "decoded pixels"
    reads = timeline.trace.select("read").sum()
    return "small files far away" if reads >= timeline.images else "records"


@each("09.1")
def _first(timeline: Timeline) -> str:
    if not overlaps(timeline):
        return "prefetch"
    if cause(timeline) == "fetch":
        return "interleave"
    full = sum(timeline.work_ns.values()) > _FULL * timeline.run.host.cpus * timeline.span_ns
    return "cache" if full else "parallel map"
