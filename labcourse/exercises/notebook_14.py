"""Exercises of notebook 14, scale_out."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.exercise_data import compared, numeric
from labcourse.grading import Wrong
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


@numeric(
    "14.2", " MB/s", (1000, 125, 1786, 160, 1), (64, 8, 920, 224, 4), (8, 1, 328, 224, 1),
    (100, 8, 328, 96, 1), (1, 4, 2, 32, 1),
)  # fmt: skip
def into_each_host(accelerators: int, hosts: int, images_s: float, side: int, value_bytes: int) -> Any:
    """``into_host(accelerators, hosts, images_s, side, value_bytes)``: bytes of three colours, in 10^6 a second."""
    right = accelerators / hosts * images_s * side * side * 3 * value_bytes / 1e6
    return right, {
        "this is for all hosts together": right * hosts,
        "this is for one accelerator; a host has several": right * hosts / accelerators,
        "these are bytes; a megabyte has 10^6 of them": right * 1e6,
        "a pixel has three colours": right / 3,
        "float32 has 4 bytes for each value, uint8 has 1": right / value_bytes,
    }


def _two_counts(function: Any, numbers: list[int], count: int) -> tuple[int, int]:
    """Return how many are lost and how many came again, as the student counts."""
    made = call(function, numbers, count)
    made = made.numpy() if tf.is_tensor(made) else made
    if not isinstance(made, (tuple, list, np.ndarray)) or len(made) != 2:
        raise Wrong("return two numbers: how many are lost, and how many came again")
    lost, doubled = whole_numbers(made, f"for {numbers} out of {count} numbers", "return how many, not which")
    return lost, doubled


@compared(
    "14.3",
    ([0, 1, 2, 3], 4),
    ([2, 0, 2, 5], 6),
    ([1, 1, 1], 2),
    ([], 3),
    ([3, 2, 1, 0, 3, 2], 4),
    read=_two_counts,
    where=lambda mine, numbers, count: f"for {numbers} out of {count} numbers",
    differs=lambda mine, right, *_: f": expected {right[0]} lost and {right[1]} doubled, got {mine[0]} and {mine[1]}",
)
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
