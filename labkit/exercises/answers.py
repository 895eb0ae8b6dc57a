"""What every check needs: call the answer, compare a number, and say which idea gave the wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.grading import Wrong


def call(function: Any, *arguments: Any) -> Any:
    """Call the student's function; None from it means that it is still the stub."""
    if not callable(function):
        raise Wrong(f"pass the function itself, not {type(function).__name__} {function!r:.40}")
    result = function(*arguments)
    if result is None:
        raise NotImplementedError
    return result


def value(function: Any, *arguments: Any) -> float:
    """Return the number that the student's function makes, for a picture of it."""
    got = call(function, *arguments)
    if isinstance(got, bool) or not isinstance(got, (int, float, np.integer, np.floating)):
        raise Wrong(f"return one number, not {type(got).__name__}")
    return float(got)


def per(whole: float, part: float) -> float:
    """Return whole / part, infinite where the part is 0: what is marked must not raise."""
    return whole / part if part else math.inf


def number(function: Callable[..., Any], arguments: tuple, expected: float, hints: dict[float, str], unit: str) -> None:
    """Compare one number with the truth; `hints` names the usual wrong ideas by their value."""
    got = call(function, *arguments)
    if isinstance(got, bool) or not isinstance(got, (int, float, np.integer, np.floating)):
        raise Wrong(f"return one number, not {type(got).__name__}")
    if math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9):
        return
    shown = ", ".join(str(a) for a in arguments)
    for value, hint in hints.items():
        if math.isclose(got, value, rel_tol=1e-6, abs_tol=1e-9):
            raise Wrong(f"for ({shown}) you return {got:g}{unit}: {hint}")
    raise Wrong(f"for ({shown}) you return {got:g}{unit}, expected {expected:g}{unit}")


def options() -> Any:
    """Return the options of a naive pipeline: tf.data adds nothing and tunes nothing."""
    import tensorflow as tf

    made = tf.data.Options()
    made.experimental_optimization.apply_default_optimizations = False
    made.autotune.enabled = False
    return made


def source(elements: int, naive: bool = True) -> Any:
    """Return the numbers from 0 as a dataset, by default under `options`."""
    import tensorflow as tf

    made = tf.data.Dataset.range(elements)
    return made.with_options(options()) if naive else made
