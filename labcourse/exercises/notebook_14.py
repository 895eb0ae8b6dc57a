"""Exercises of notebook 14, scale_out."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import compared, numeric
from labcourse.exercise_pictures import blocks, in_turn
from labcourse.grading import Wrong, shows
from labcourse.student_code import call, whole_numbers


@numeric(
    "14.1", " workers", (5, 5900, 8, 16), (64, 920, 3.2, 16), (8, 920, 3.2, 16), (1, 100, 3.2, 16),
    (100, 1786, 2.5, 24), (240, 1000, 2.4, 16), (2401, 100, 2.4, 16), (1000, 1786, 2.5, 24),
    (1000, 100.02, 3.2, 16), (1000, 1103.42, 2.9, 16),
)  # fmt: skip
def workers_for_accelerators(accelerators: int, images_s: float, image_ms: float, cores: int) -> Any:
    """``workers(accelerators, images_s, image_ms, cores)``: cores that are needed, in machines, rounded up."""
    need = accelerators * images_s * image_ms / 1e3 / cores
    return math.ceil(need), {
        "for one accelerator; there are several": math.ceil(need / accelerators),
        "there is no part of a worker: round up": need,
        "rounded down, the accelerators wait: round up": math.floor(need),
        "these are cores; a worker has several": math.ceil(need * cores),
        "round once, at the end: a worker can serve several": accelerators * math.ceil(need / accelerators),
    }


def _two_counts(function: Any, numbers: list[int], count: int) -> tuple[int, int]:
    """Return how many are lost and how many came again, as the student counts."""
    made = call(function, numbers, count)
    made = made.numpy() if tf.is_tensor(made) else made
    if not isinstance(made, (tuple, list, np.ndarray)) or len(made) != 2:
        raise Wrong("return two numbers: how many are lost, and how many came again")
    lost, doubled = whole_numbers(made, _given(None, numbers, count), "return how many, not which")
    return lost, doubled


def _given(mine: Any, numbers: list[int], count: int) -> str:
    return f"for {numbers} out of {count} numbers"


def _other_counts(mine: tuple[int, int], right: tuple[int, int], case: tuple, every: Any) -> str:
    return f": expected {right[0]} lost and {right[1]} doubled, got {mine[0]} and {mine[1]}"


_CAME = ([0, 1, 2, 3], 4), ([2, 0, 2, 5], 6), ([1, 1, 1], 2), ([], 3), ([3, 2, 1, 0, 3, 2], 4)


@compared("14.3", *_CAME, read=_two_counts, where=_given, differs=_other_counts)
def lost_and_doubled(numbers: list[int], count: int) -> Any:
    """``lost_and_doubled(numbers, count)``: how many of range(count) never came, and how many came again."""
    seen = Counter(numbers)
    lost, doubled = count - len(seen), len(numbers) - len(seen)
    return (lost, doubled), {
        "the two numbers have changed places": (doubled, lost),
        "those that came again hide those that never came: count each once": (count - len(numbers), doubled),
        "the first time a number comes, it does not come again": (lost, sum(n for n in seen.values() if n > 1)),
        "a number that came three times came again twice": (lost, sum(n > 1 for n in seen.values())),
    }


@shows("14.3")
def numbers_that_came(function: Any) -> Any:
    """Draw which of eight numbers came, and how often, each at its place."""
    lost, doubled = _two_counts(function, [5, 0, 3, 5, 6, 5], 8)
    lanes = {f"time {k}": in_turn(each, each) for k, each in enumerate(([0, 3, 5, 6], [5], [5]), 1)}
    title = f"Of 8 numbers came 5, 0, 3, 5, 6, 5: you say {lost} lost, {doubled} doubled."
    return blocks(title, "numbers", {"all": in_turn(range(8))} | lanes, "Each number at its place.")
