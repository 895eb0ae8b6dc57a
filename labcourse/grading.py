"""Checks of the exercises: one call, one result, never an exception at a student.

An exercise is a function registered under its number. It gets the student's answer and returns nothing if the answer
holds, or raises `Wrong` with the one hint that fits. The truth comes from labkit and TensorFlow, never from the
student's own code. Checks look at structure, data, arithmetic and a simulated clock, which are the same on a slow
machine; `labcourse.fairness` says where something is measured as well.
"""

from __future__ import annotations

import functools
import html
import importlib
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

PASSED, FAILED, OPEN, INCONCLUSIVE = "passed", "failed", "open", "inconclusive"
_SIGN = {PASSED: "✓", FAILED: "✗", OPEN: "…", INCONCLUSIVE: "?"}
_UNTRIED = "write your answer in the cell above"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]*")  # an object has another address in each run
_LONGEST = 300  # characters of a hint: an error of TensorFlow may fill a page
# Files that AutoGraph names, those of labkit among them.
_FRAMES = re.compile(r"in user code:\s+(?:File .*\n.*\n\s*)+\w+: ?")
# Nodes and files that TensorFlow names in its errors; their numbers differ from run to run.
_PLACE = re.compile(
    r"\[\[(?:(?:\{\{function_node [^}]*\}\})?\{\{node [^]]*\}\}|IteratorGetNext)\]\]|\{\{function_node [^}]*\}\}"
    r"|\[Op:[^]]*\](?: name:)?"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+(?= )"
    r"|Traceback \(most recent call last\)[\s\S]*"
)

#: Whether the answer that is judged now has returned something before; if so, it is no stub, and None is an error.
answered: ContextVar[bool] = ContextVar("answered", default=False)


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Parameters
    ----------
    exercise : str
    status : str
        ``passed``, ``failed``, ``open`` (not tried yet), or ``inconclusive``: the machine was too noisy to tell, so
        run the check again. It is no zero.
    hint : str
    drawn : object, optional
        What shows it, with a method ``html``: a notebook shows it below the words.
    """

    exercise: str
    status: str
    hint: str = ""
    drawn: Any = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """Whether the answer holds."""
        return self.status == PASSED

    def __repr__(self) -> str:
        """Return one line, the same for the same result."""
        return f"{_SIGN[self.status]} {self.exercise} {self.status}" + (f": {self.hint}" if self.hint else "")

    def _repr_html_(self) -> str:
        head = f"{_SIGN[self.status]} {html.escape(self.exercise)} {self.status}"
        below = "" if self.drawn is None else self.drawn.html()
        return f"<p><strong>{head}</strong> {html.escape(self.hint)}</p>{below}"


class Wrong(Exception):
    """An answer does not hold; the message is the hint that the student sees, `drawn` as in `CheckResult`."""

    def __init__(self, hint: str = "", drawn: Any = None) -> None:
        super().__init__(hint)
        self.drawn = drawn


class Missing(NotImplementedError):
    """A part of an answer is not given yet; the message says which."""


class Proof(NamedTuple):
    """What a check returns that shows why an answer is right: a hint, and what is drawn; see `CheckResult`."""

    hint: str
    drawn: Any


class Unclear(Exception):
    """The check is inconclusive for a reason that is not the student's fault; the message says what to do."""


Check = Callable[[Any], Any]
#: By the number of the exercise: what checks an answer, and what draws one.
CHECKS: dict[str, Check] = {}
SHOWS: dict[str, Callable[[Any], Any]] = {}
#: What was answered by clicks, by the number of the exercise.
CLICKED: dict[str, Any] = {}


@functools.cache
def _module_of() -> dict[str, str]:
    """Return by number of an exercise the module of the course that registers it: it has it in quotes."""
    here = Path(__file__).parent
    files = [*sorted((here / "exercises").glob("notebook_*.py")), here / "readings" / "readings.json"]
    places = {file: f"exercises.{file.stem}" if file.suffix == ".py" else "readings" for file in files}
    return {n: places[file] for file in files for n in re.findall(r'"(\d\d\w?\.\d+)"', file.read_text("utf-8"))}


def numbers() -> tuple[str, ...]:
    """Return the numbers of all exercises, ``"NN.k"`` for notebook NN, exercise k, in the order of their text."""
    return tuple(sorted(_module_of()))


def load(number: str) -> None:
    """Import the module of one exercise, which registers what checks it and what draws it.

    So a notebook imports its own exercises alone.
    """
    importlib.import_module(f"labcourse.{_module_of()[number]}")


def exercise(number: str) -> Callable[[Check], Check]:
    """Register a check under its number, ``"NN.k"``: notebook NN, exercise k."""
    return lambda function: CHECKS.setdefault(number, function)


def shows(number: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register what `show` draws of an answer, under the number of its exercise.

    The function takes the answer and returns a picture or a widget.
    """
    return lambda function: SHOWS.setdefault(number, function)


def check(number: str, answer: Any = None) -> CheckResult:
    """Check one answer.

    Parameters
    ----------
    number : str
        The exercise, as in ``"01.2"``.
    answer : object
        What the exercise asks for: a function, a number, a dataset. None or ``...`` means "not tried yet", or what was
        clicked in the picture of `labcourse.read`.

    Returns
    -------
    CheckResult
        Whatever the answer does, raising included, becomes a result; and so does an exercise that is not there.
        Only the reader's own interruption of the kernel is passed on.
    """
    if absent := _absent(number):
        return absent
    load(number)
    return judge(number, CHECKS[number], CLICKED.get(number) if answer is None or answer is ... else answer)


def show(number: str, answer: Any) -> Any:
    """Draw one answer on an example; notebooks show it by `labcourse.try_it`.

    What is drawn is the thing itself: the images that a function makes beside the right ones, the record that it
    parses, its numbers as a curve or beside a ruler, or the pipeline that it builds as a timeline, on the exercise's
    own modelled stages. See `labcourse.exercise_pictures`.

    Parameters
    ----------
    number : str
        The exercise, as in ``"01.2"``.
    answer : object
        As for `check`.

    Returns
    -------
    Picture, TimelineWidget or CheckResult
        The last expression of a cell shows it. Where there is nothing to draw, a result says why, on one line.
    """
    if absent := _absent(number):
        return absent
    load(number)
    if number not in SHOWS:
        return CheckResult(number, OPEN, "there is nothing to draw for this exercise")
    drawn: list[Any] = []
    result = judge(number, lambda given: drawn.append(_ready(SHOWS[number](given))), answer)
    if result.status == OPEN:
        return CheckResult(number, OPEN, f"nothing to draw yet: {_UNTRIED}")
    if not result.passed:
        return CheckResult(number, result.status, f"nothing to draw: {result.hint}")
    return drawn[0]


def try_it(number: str, answer: Any) -> None:
    """Show what `show` draws, in a notebook at once, wherever in a cell; elsewhere its text is printed.

    Where an answer fails, nothing is shown: `check`, which a notebook calls in the same cell, says why, once.

    Parameters
    ----------
    number, answer
        As for `show`.
    """
    from IPython import get_ipython
    from IPython.display import display

    made = show(number, answer)
    if not (isinstance(made, CheckResult) and made.status == FAILED):
        (print if get_ipython() is None else display)(made)


def _ready(made: Any) -> Any:
    """Return a picture or widget after showing it once: an error must be raised here, not in the notebook."""
    made._repr_mimebundle_()
    return made


def judge(name: str, test: Check, answer: Any, untried: str = _UNTRIED) -> CheckResult:
    """Call a check on an answer, and return a result whatever happens.

    Parameters
    ----------
    name : str
        What the result calls the exercise.
    test : callable
        Takes the answer; raises `Wrong` or `Unclear`, NotImplementedError without words for a stub, or returns.
    answer : object
        None means "not tried yet".
    untried : str
        The instruction for a student who has not tried yet.

    Returns
    -------
    CheckResult
    """
    if answer is None:
        return CheckResult(name, OPEN, f"nothing to check yet: {untried}")
    answered.set(False)
    try:
        found = test(answer)
    except Wrong as wrong:
        return CheckResult(name, FAILED, _one_line(wrong), wrong.drawn)
    except Unclear as unclear:
        return CheckResult(name, INCONCLUSIVE, _one_line(unclear))
    except Missing as missing:
        return CheckResult(name, OPEN, _one_line(missing))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an answer may call sys.exit(), too
        if isinstance(error, NotImplementedError) and not _one_line(error):
            return CheckResult(name, OPEN, f"nothing to check yet: {untried}")
        return CheckResult(name, FAILED, raised(error))
    return CheckResult(name, PASSED, *(found if isinstance(found, Proof) else ()))


def raised(error: BaseException) -> str:
    """Return a sentence about an error that an answer raised."""
    text = _one_line(error)
    if isinstance(error, NotImplementedError) and "to a numpy array" in text:
        return "in a graph use functions of tf, not of NumPy"
    return f"your answer raised {type(error).__name__}" + (f": {text}" if text else "")


def _absent(number: Any) -> CheckResult | None:
    """Return the result for an exercise that is not there, None for one that is; it names those that may be meant."""
    there = numbers()
    if isinstance(number, str) and number in there:
        return None
    near = [n for n in there if isinstance(number, str) and n[:2] == number[:2]]
    words = f"there is no exercise {number!r:.40}; there are: {', '.join(near or there)}"
    return CheckResult(str(number)[:20], FAILED, words)


def _one_line(error: BaseException) -> str:
    """Return the message of an error on one line, or nothing if the error cannot print itself."""
    try:
        text = _ADDRESS.sub("", " ".join(_PLACE.sub("", _FRAMES.sub("", str(error))).split()))
    except Exception:
        return ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
