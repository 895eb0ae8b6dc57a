"""Checks of the exercises: one call, one result, never an exception at a student.

An exercise is a function registered under its number. It gets the student's answer and
returns nothing if the answer holds, or raises `Wrong` with the one hint that fits. Truth
comes from labkit and TensorFlow, never from the student's own code, and no check looks at
a clock: structure, data and arithmetic are the same on a slow machine.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PASSED, FAILED, OPEN = "passed", "failed", "open"
_SIGN = {PASSED: "✓", FAILED: "✗", OPEN: "…"}


@dataclass(frozen=True)
class Result:
    """What a check found: `status` is ``passed``, ``failed`` or ``open`` (not tried yet)."""

    exercise: str
    status: str
    hint: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer holds."""
        return self.status == PASSED

    def __repr__(self) -> str:
        """Return one line, the same for the same result."""
        return f"{_SIGN[self.status]} {self.exercise} {self.status}" + (f": {self.hint}" if self.hint else "")

    def _repr_html_(self) -> str:
        return f"<p><strong>{_SIGN[self.status]} {self.exercise} {self.status}</strong> {html.escape(self.hint)}</p>"


class Wrong(Exception):
    """An answer does not hold; the message is the hint that the student sees."""


Check = Callable[[Any], None]
_REGISTRY: dict[str, Check] = {}


def exercise(number: str) -> Callable[[Check], Check]:
    """Register a check under its number, ``"NN.k"``: notebook NN, exercise k."""

    def register(check: Check) -> Check:
        _REGISTRY[number] = check
        return check

    return register


def numbers() -> tuple[str, ...]:
    """Return the numbers of all exercises, in order."""
    _load()
    return tuple(sorted(_REGISTRY))


def check(number: str, answer: Any) -> Result:
    """Check one answer.

    Parameters
    ----------
    number : str
        The exercise, as in ``"01.2"``.
    answer : object
        What the exercise asks for: a function, a number, a dataset. None means "not tried yet".

    Returns
    -------
    Result
        Whatever the answer does, raising included, becomes a result.

    Raises
    ------
    ValueError
        If there is no such exercise: that is a slip in the notebook, not in the answer.
    """
    _load()
    if number not in _REGISTRY:
        raise ValueError(f"there is no exercise {number!r}; there are: {', '.join(numbers())}")
    if answer is None:
        return Result(number, OPEN, "nothing to check yet: write your answer in the cell above")
    try:
        _REGISTRY[number](answer)
    except Wrong as wrong:
        return Result(number, FAILED, str(wrong))
    except NotImplementedError:
        return Result(number, OPEN, "nothing to check yet: write your answer in the cell above")
    except Exception as error:
        return Result(number, FAILED, f"your answer raised {type(error).__name__}: {error}")
    return Result(number, PASSED)


def score(results: list[Result]) -> tuple[int, int]:
    """Return how many results passed, and how many there are."""
    return sum(r.passed for r in results), len(results)


def _load() -> None:
    import labkit.exercises  # noqa: F401 - importing registers them
