"""An exercise as data: its cases, the right answer to each, and at most five wrong ideas, by the hints that they get.

    @numeric("01.1", " images/s", (100, 32), (250, 64))
    def ingestion_rate(step_ms, batch):
        return 1000 * batch / step_ms, {
            "the step is in milliseconds; a second has 1000 of them": batch / step_ms,
        }

A student who has an idea has it in every case. So the hint is that of the idea that explains all answers; an idea is
told apart from another one that gives the same answer once, and the order of the ideas does not matter for that.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcourse import exercise_pictures
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import answer_within, call, for_case, value

# Seconds for a look at all cases, once one is wrong: it chooses the hint, and no student waits long for that.
_LOOK_S = 1.0

#: By the hint for a wrong idea, what the idea makes of a case. One that is right in a case may be left out there.
Ideas = dict[str, Any]
#: Takes the arguments of a case; returns the right answer, and the wrong ideas.
Truth = Callable[..., tuple[Any, Ideas]]

#: By the number of the exercise, as far as its module was imported.
EXERCISES: dict[str, ExerciseData] = {}


@dataclass(frozen=True)
class ExerciseData:
    """An exercise whose answer is a function, compared with the right answer on some cases.

    Parameters
    ----------
    cases : sequence of tuple
        Arguments for the student's function.
    truth : callable
        Of the arguments of a case.
    read : callable
        Calls the student's function with the arguments of a case, and returns what can be compared; raises
        `labcourse.grading.Wrong` where it has another form.
    same : callable
        Whether what was read is an answer: the right one, or that of an idea.
    where : callable
        Of what was read, and the arguments of the case: what stands in front of every hint.
    differs : callable
        Of what was read, the right answer, the arguments of the case, and a function that returns all answers beside
        the right ones (fewer, if the student's function fails or takes long): what stands behind `where` if no idea
        fits.
    then : callable, optional
        Of the student's function, what was read and the arguments of a case: looks further where it is right.
    """

    cases: Sequence[tuple]
    truth: Truth
    read: Callable[..., Any]
    same: Callable[[Any, Any], bool] = operator.eq
    where: Callable[..., str] = lambda *_: ""
    differs: Callable[[Any, Any, tuple, Callable[[], list[tuple]]], str] = lambda _, right, *more: f", expected {right}"
    then: Callable[..., None] | None = None

    def __call__(self, function: Any) -> None:
        """Check the student's function; raise `labcourse.grading.Wrong` with the hint if an answer is wrong."""
        self.compare(functools.partial(self.read, function))
        for case in self.cases if self.then else ():
            self.then(function, *case)

    def compare(self, answer: Callable[..., Any]) -> None:
        """Compare answers that can be compared, those of ``answer(*case)``, with the right ones.

        Raises
        ------
        labcourse.grading.Wrong
            With the hint, at the first answer that is not right.
        """
        expected = [self.truth(*case) for case in self.cases]
        # An answer may be slow: each case is called once, and not before it is asked for.
        got = functools.cache(lambda place: answer(*self.cases[place]))

        @functools.cache
        def all_answers() -> list[tuple]:
            """Return what was read, the right answer and the ideas of each case, until one fails or time is up."""
            found: list[tuple] = []
            end = time.monotonic() + _LOOK_S
            for place, truth in enumerate(expected):
                if (left := end - time.monotonic()) <= 0:
                    break
                before = answer_within.set(left)
                try:
                    found.append((got(place), *truth))
                except Exception:
                    break
                finally:
                    answer_within.reset(before)
            return found

        for place, (right, ideas) in enumerate(expected):
            mine, case = got(place), self.cases[place]
            if self.same(mine, right):
                continue
            here = [hint for hint, idea in ideas.items() if self.same(mine, idea)]
            if hint := here and self._idea(here, all_answers()):
                text = self.where(mine, *case)
                raise Wrong(f"{text}: {hint}" if text else hint)
            raise Wrong(self.where(mine, *case) + self.differs(mine, right, case, all_answers))

    def _idea(self, here: list[str], answers: list[tuple]) -> str | None:
        """Return the hint whose idea explains all answers; else the first, if each is right or somebody's idea.

        A number may be that of an idea by chance, several numbers are not.
        """
        for hint in here:
            if all(not ideas or self.same(mine, ideas.get(hint, right)) for mine, right, ideas in answers):
                return hint
        for mine, right, ideas in answers:
            if np.ndim(mine) == 0 and ideas and not any(self.same(mine, one) for one in (right, *ideas.values())):
                return None
        return here[0]


def compared(number: str, *cases: tuple, **how: Any) -> Callable[[Truth], Truth]:
    """Register an exercise as data, under its number; the decorated function is its truth. See `ExerciseData`.

    Parameters
    ----------
    number : str
        ``"NN.k"``: notebook NN, exercise k.
    *cases, **how
        As `ExerciseData` has them: ``read``, and what differs from its defaults.
    """

    def register(truth: Truth) -> Truth:
        EXERCISES[number] = ExerciseData(cases, truth, **how)
        exercise(number)(EXERCISES[number])
        return truth

    return register


def numeric(number: str, unit: str, *cases: tuple, along: str | None = "") -> Callable[[Truth], Truth]:
    """Register an exercise whose answer is a function that returns a number, and its picture, a curve.

    The docstring of the truth begins with the call, as in ````step_ms(load_ms, train_ms)````.

    Parameters
    ----------
    number : str
        ``"NN.k"``: notebook NN, exercise k.
    unit : str
        Written behind the numbers of a hint.
    *cases : tuple
        Arguments for the student's function.
    along : str
        The argument that grows along the curve, by name; see `labcourse.exercise_pictures.curve`. None is no picture.
    """

    def where(mine: float, *case: Any) -> str:
        return f"{for_case(case)}you return {mine:g}{unit}"

    def differs(mine: float, right: float, case: tuple, every: Callable[[], list[tuple]]) -> str:
        # A wrong number may be near the right one once; who rounds does so in every case.
        if f"{mine:g}" != f"{right:g}":
            once = mine not in (0, 1) and _rounded(mine, right)
            if not once or len(every()) < len(cases) or not all(_rounded(*pair[:2]) for pair in every()):
                return f", expected {right:g}{unit}"
        return f", expected {right:.10g}{unit}: do not round"

    def register(truth: Truth) -> Truth:
        if along is not None:
            shows(number)(functools.partial(exercise_pictures.curve, truth, cases, unit, along))
        return compared(number, *cases, read=value, same=near, where=where, differs=differs)(truth)

    return register


def shown_as_images(number: str, example: Callable[[], tuple], title: str, **how: Any) -> None:
    """Register the picture of an exercise that is compared: the images of an example, see `exercise_pictures.images`.

    Parameters
    ----------
    number : str
        The exercise, as in ``"06.3"``.
    example : callable
        Returns arguments for the student's function: an image, or several in one array, and the others.
    title : str
        The example.
    **how
        ``shape``, where the student's function knows an image as one row of values; ``read``, where `ExerciseData.read`
        refuses what can be drawn; ``low`` and ``high``.
    """
    shape, read = how.pop("shape", None), how.pop("read", None)

    @shows(number)
    def show(function: Any) -> Any:
        case = example()
        asked = EXERCISES[number]
        mine, right = (read or asked.read)(function, *case), asked.truth(*case)[0]
        shown = [case[0], alike(mine, right), right]
        shown = [one.reshape(shape) for one in shown] if shape else shown
        several = shown[0].ndim == 4
        rows = {f"image {i + 1}": row for i, row in enumerate(zip(*shown, strict=True))} if several else {"": shown}
        return exercise_pictures.images(rows, title, **how)


def near(mine: float, other: float) -> bool:
    """Return whether two numbers are the same but for what floats leave."""
    return math.isclose(mine, other, rel_tol=1e-6, abs_tol=1e-9)


def array(function: Any, *case: Any) -> np.ndarray:
    """Return what the student's function makes of a case as an array; it gets copies of the arrays."""
    return np.asarray(call(function, *(one.copy() if isinstance(one, np.ndarray) else one for one in case)))


def alike(made: Any, given: np.ndarray) -> np.ndarray:
    """Return what the student made of an image, or of boxes, as an array; refuse one of another shape."""
    if isinstance(made, (tuple, list, dict)):
        raise Wrong(f"return the array alone, not a {type(made).__name__}")
    got = np.asarray(made)
    if got.shape != given.shape:
        raise Wrong(f"the shape is {got.shape}, expected {given.shape}")
    return got


def close(mine: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays have one shape, and the same values but for what float32 leaves."""
    return mine.shape == np.shape(other) and bool(np.allclose(mine, other, atol=1e-5))


def _rounded(mine: float, right: float) -> bool:
    """Tell whether a number is the right one, or what rounding makes of it."""
    if near(mine, right):
        return True
    digits = range(7) if math.isfinite(right) else ()
    return mine in {around(right * 10**d) / 10**d for d in digits for around in (math.floor, round, math.ceil)}
