"""Exercises of notebook 10, diagnose_the_patient: two drills to name and to fix."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from labcourse import drills
from labcourse.exercise_pictures import images, timeline
from labcourse.fairness import rules
from labcourse.grading import OPEN, CheckResult, Wrong, exercise, shows
from labcourse.student_code import call
from labkit.views import static

#: One whose fault is in its timeline, and one whose fault is in its data.
SLOW, WRONG_DATA = 40, 35


def _hold(result: CheckResult, seed: int) -> None:
    """Pass the result of a drill on."""
    if result.status == OPEN:
        raise NotImplementedError
    if not result.passed:
        raise Wrong(f"drill {seed}: {result.hint}")


@functools.lru_cache(maxsize=2)
def _drill(seed: int) -> Any:
    """Return a drill, recorded once; it remembers that its fault was named, and then says how the fault shows."""
    return drills.draw(seed, booked=False)


@exercise("10.1")
def named(function: Any) -> None:
    """``diagnosis(seed)``: what is wrong with drills 40 and 35, in the words of the list."""
    for seed in (SLOW, WRONG_DATA):
        _hold(_drill(seed).diagnose(call(function, seed)), seed)


@shows("10.1")
def timeline_of_the_named(function: Any) -> Any:
    """Draw the timeline of drill 40 under the name that the student gives it."""
    named = call(function, SLOW)
    return static.draw(_drill(SLOW).timeline, title=f"drill {SLOW}, you say: {named!s:.120}")


def _fix(number: str, seed: int) -> None:
    """Register the exercise ``fixed_NN(case)``: a drill without its fault."""

    @exercise(number)
    def fixed(function: Any) -> None:
        drill = _drill(seed)
        _hold(drill.fix(function), seed)
        rules.nothing_left_in(call(function, drill.case), "Take")


_fix("10.2", SLOW)
_fix("10.3", WRONG_DATA)


@functools.lru_cache(maxsize=4)
def _recorded(function: Any) -> Any:
    """Return some steps of the student's pipeline; of the same function they are the same."""
    return _drill(SLOW).record(lambda case: call(function, case))


@shows("10.2")
def timeline_of_fixed(function: Any) -> Any:
    """Draw some steps of the student's pipeline."""
    return static.draw(timeline("10.2", _recorded(function)), title=f"drill {SLOW}, your version")


@shows("10.3")
@functools.lru_cache(maxsize=4)
def photos_of_fixed(function: Any) -> Any:
    """Draw three photos of the student's pipeline; of the same function they are the same."""
    made = _drill(WRONG_DATA).delivered(lambda case: call(function, case))
    found = zip(made.labels, made.base[made.labels], made.images, made.expected(), strict=True)
    rows = {f"photo {label}": row for label, *row in itertools.islice(found, 3)}
    return images(rows, f"drill {WRONG_DATA}, your version: right is each photo with the brightness that came")
