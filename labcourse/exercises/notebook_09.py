"""Exercises of notebook 09, put_it_all_together: the jobs of `labcourse.challenge`, on the simulated clock."""

from __future__ import annotations

from functools import partial
from typing import Any

from labcourse import challenge
from labcourse.exercise_pictures import timeline
from labcourse.grading import exercise, shows

#: The job of each exercise.
_JOBS = {"09.2": "far", "09.3": "small", "09.4": "costly"}


def _drawn(number: str, function: Any) -> Any:
    """Draw the student's pipeline on the simulated clock, after the steps that do not count."""
    from labkit.views.widget import show

    this = challenge.job(_JOBS[number])
    title = f"Job {this.name} on the simulated clock"
    return show(timeline(number, challenge.clocked(this, function, drawn=True).trace), title=title, steps=4)


for _number, _name in _JOBS.items():
    exercise(_number)(partial(challenge.grade, challenge.job(_name)))
    shows(_number)(partial(_drawn, _number))
