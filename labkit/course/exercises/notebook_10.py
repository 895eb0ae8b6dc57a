"""Exercises of notebook 10, diagnose_the_patient: two drills to name and to fix."""

from __future__ import annotations

import functools
from typing import Any

from labkit.course.grading import OPEN, CheckResult, Wrong, exercise, shows
from labkit.course.student_code import call

#: One whose fault is in its timeline, and one whose fault is in its data.
SLOW, WRONG_DATA = 16, 15


def _hold(result: CheckResult, what: str) -> None:
    """Pass the result of a drill on."""
    if result.status == OPEN:
        raise NotImplementedError
    if not result.passed:
        raise Wrong(f"{what}: {result.hint}")


def _fixed(function: Any, seed: int) -> None:
    from labkit.course import drills

    _hold(drills.draw(seed).judge_fix(function), f"drill {seed}")


@exercise("10.1")
def named(function: Any) -> None:
    """``diagnosis(seed)``: what is wrong with drills 16 and 15, in the words of the list."""
    from labkit.course import drills

    for seed in (SLOW, WRONG_DATA):
        _hold(drills.draw(seed).judge_diagnosis(call(function, seed)), f"drill {seed}")


@shows("10.1")
def timeline_of_the_named(function: Any) -> Any:
    """Draw the timeline of drill 16 under the name that the student gives it."""
    from labkit.views import static

    said = call(function, SLOW)
    return static.draw(_drill(SLOW).timeline, title=f"drill {SLOW}, you say: {said!s:.120}")


@exercise("10.2")
def fixed_slow(function: Any) -> None:
    """``fixed_16(case)``: drill 16 without its fault."""
    _fixed(function, SLOW)


@exercise("10.3")
def fixed_wrong(function: Any) -> None:
    """``fixed_15(case)``: drill 15 without its fault."""
    _fixed(function, WRONG_DATA)


@functools.lru_cache(maxsize=2)
def _drill(seed: int) -> Any:
    """Return a drill, recorded once."""
    from labkit.course import drills

    return drills.draw(seed)


@functools.lru_cache(maxsize=4)
def _drawn(function: Any, seed: int) -> Any:
    """Draw ten steps of a pipeline; of the same function it is the same picture."""
    from labkit.views import static

    return static.draw(_drill(seed).record(lambda case: call(function, case)), title=f"drill {seed}, your version")


@shows("10.2")
def timeline_of_fixed_slow(function: Any) -> Any:
    """Draw ten steps of the student's pipeline."""
    return _drawn(function, SLOW)


@shows("10.3")
def timeline_of_fixed_wrong(function: Any) -> Any:
    """Draw ten steps of the student's pipeline."""
    return _drawn(function, WRONG_DATA)
