"""Exercises of notebook 00b, open_a_jpeg."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcourse.exercise_data import array, close, compared, shown_as_images
from labcourse.grading import Wrong


def _places(turns: bool = True) -> tuple[tuple[int, ...], ...]:
    """Return the rows and columns of a block in zigzag order, or along diagonals that all run the same way."""
    walk = sorted(np.ndindex(8, 8), key=lambda place: (sum(place), place[(1 - sum(place) % 2) * turns]))
    return tuple(zip(*walk, strict=True))


def _misplaced(made: np.ndarray, right: np.ndarray, case: tuple, every: Any) -> str:
    """Return which shape is wrong, or the first of the stored numbers that is not in its place."""
    if made.shape != right.shape:
        return f"you return the shape {made.shape}, expected {right.shape}"
    k, y, x = next(at for at in zip(range(64), *_places(), strict=True) if made[at[1:]] != right[at[1:]])
    return f"number {k} of the 64 belongs into row {y}, column {x}; there you put {made[y, x]:g}, not {right[y, x]:g}"


_CASES = (np.arange(64),), (np.random.default_rng(3).permutation(64) - 32,)


@compared("00.3", *_CASES, read=array, same=close, differs=_misplaced)
def back_from_zigzag(numbers: np.ndarray) -> Any:
    """``block(numbers)``: the 8×8 block of 64 numbers in zigzag order."""
    rows = numbers.reshape(8, 8)
    right, one_way = np.zeros((2, 8, 8), int)
    right[_places()] = one_way[_places(turns=False)] = numbers
    return right, {
        "row by row is not the order of the file: it follows the diagonals": rows,
        "the first step goes right, along row 0; yours goes down": right.T,
        "every second diagonal runs the other way; yours all run the same way": one_way,
        "that is the way into the file; the way back is asked for": rows[_places()].reshape(8, 8),
    }


shown_as_images("00.3", lambda: _CASES[0], "0 to 63, row by row, and as a block.", shape=(8, 8), high=63.0)

#: By letter of a picture: its step, another one that it is taken for, and what tells them apart.
_ALONE = {
    "A": ("scale", "quantise", "each block has one colour, and no wave is left; quantising leaves the strong waves"),
    "B": ("code", "subsample", "it is the photo itself; which step gives back every number?"),
    "C": ("quantise", "scale", "look inside a block: some waves are left, so it is no single colour"),
    "D": ("subsample", "quantise", "brightness is as sharp as before; only colours run over their edges"),
}


def _named(answers: Any, letter: str) -> str:
    """Return the step that the student names for a picture."""
    step = answers.get(letter, ...) if isinstance(answers, dict) else answers
    if step is ...:
        raise NotImplementedError
    if step not in (steps := [right for right, *_ in _ALONE.values()]):
        raise Wrong(f"picture {letter} is {step!r:.40}; allowed: {', '.join(map(repr, steps))}")
    return step


@compared(
    "00.4", *((letter,) for letter in _ALONE), read=_named,
    where=lambda step, letter: f"picture {letter} is not {step!r}",
    differs=lambda *_: ": compare it with the photo, block by block",
)  # fmt: skip
def step_alone(letter: str) -> Any:
    """Return the step that made a picture, and the one that it is taken for."""
    right, other, hint = _ALONE[letter]
    return right, {hint: other}
