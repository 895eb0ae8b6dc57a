"""What happened in this session: the latest result of each exercise, the runs, the speed-ups.

It lives in this kernel only, is small, and is what `labcourse.submit` writes down. `labcourse.check` fills it, and so
do `labkit.record` and `labkit.measure`, to which it subscribes. Which exercises were solved is kept on the disk, too,
beside the predictions, and so are the steps of the first tour: an empty file for each, for the start page, which has a
kernel of its own.
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labcourse import grading
from labkit.common.progress import fast
from labkit.sources import photos


@dataclass
class Journal:
    """The entries of a session, JSON-ready.

    Parameters
    ----------
    exercises : dict of str to dict
        ``status`` of the latest check, and ``tries``.
    runs : dict of str to dict
        By name: ``busy`` (0 to 1), ``images_per_s``, ``steps``, ``accelerator``, ``origin``.
    speedups : dict of (str, str) to dict
        By name and reference: ``median``, ``low``, ``high`` (None where one round only) and ``verdict``.
    """

    exercises: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    speedups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


session = Journal()


@functools.wraps(grading.check)
def check(*arguments: Any, **words: Any) -> grading.CheckResult:  # noqa: D103 - the docstring is that of grading.check
    found = grading.check(*arguments, **words)
    if found.exercise not in grading.numbers():
        return found
    if found.status == grading.PASSED and not fast():  # a trial run of all notebooks is nobody's work
        _keep(found.exercise, _kept())
    return result(found)


def solved() -> frozenset[str]:
    """Return the numbers of the exercises that were solved, in this session or before."""
    here = {number for number, entry in session.exercises.items() if entry["status"] == grading.PASSED}
    return frozenset(here.union(path.name for path in _kept().glob("*"))).intersection(grading.numbers())


def tick(step: int) -> None:
    """Keep that a step of the first tour was made, 1 to 3."""
    _keep(str(step), photos.home() / "first tour")


def ticks() -> int:
    """Return how many of the three steps of the first tour were made, in this session or before."""
    return len({"1", "2", "3"}.intersection(path.name for path in (photos.home() / "first tour").glob("*")))


def _kept() -> Path:
    return photos.home() / "solved"


def _keep(name: str, folder: Path) -> None:
    with contextlib.suppress(OSError):  # a disk that is full, or not ours
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def result(found: grading.CheckResult) -> grading.CheckResult:
    """Enter the result of a check, and return it.

    A result that is open or inconclusive counts as no try, and what was solved stays solved.
    """
    before = session.exercises.get(found.exercise, {"status": grading.OPEN, "tries": 0})
    tried = found.status not in (grading.OPEN, grading.INCONCLUSIVE)
    if tried or not before["tries"]:
        status = grading.PASSED if before["status"] == grading.PASSED else found.status
        session.exercises[found.exercise] = {"status": status, "tries": before["tries"] + tried}
    return found


def run(trace: Any, measure: Any, name: str | None = None) -> None:
    """Enter one recorded run that has a name, whose last one counts: `measure` is its `labkit.measures.Measure`."""
    name = name or trace.run.name
    if not name:
        return
    stated = trace.run.accelerator
    session.runs[name] = {
        "busy": float(measure.busy),
        "images_per_s": float(measure.images_per_s),
        "steps": int(trace.run.steps or 0),
        "accelerator": " ".join(str(w) for w in (stated.kind, stated.name) if w),
        "origin": trace.run.origin,
    }


def comparison(measures: Any) -> None:
    """Enter all runs of a `labkit.measures.Measures`, and the speed-ups over its first pipeline."""
    from labkit.recording.measures import UnequalWork, middle

    first, *others = measures
    for name, rounds in measures.items():
        run(measures.trace(name), rounds[middle(rounds)], name)
    for name in others:
        try:
            found = measures.speedup(name)
        except UnequalWork:
            continue
        numbers = {what: float(getattr(found, what)) for what in ("median", "low", "high")}
        entry = {what: None if math.isnan(value) else value for what, value in numbers.items()}
        session.speedups[name, first] = {**entry, "verdict": found.verdict}
