"""Which exercises there are, and in which module each is, so that a notebook imports its own exercises alone."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path


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
    """Import the module of one exercise, which registers what checks it and what draws it."""
    importlib.import_module(f"labcourse.{_module_of()[number]}")
