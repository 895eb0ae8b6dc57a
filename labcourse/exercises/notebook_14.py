"""Exercises of notebook 14, scale_out."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.grading import Wrong, exercise
from labcourse.student_code import call, numeric, whole_numbers


@numeric(
    "14.1", " workers", (5, 5900, 8, 16), (64, 920, 3.2, 16), (8, 920, 3.2, 16), (1, 100, 3.2, 16),
    (100, 1786, 2.5, 24), (240, 1000, 2.4, 16), (2401, 100, 2.4, 16), (1000, 1786, 2.5, 24),
    (1000, 100.02, 3.2, 16), (1000, 1103.42, 2.9, 16),
)  # fmt: skip
def workers_for_accelerators(accelerators: int, images_s: float, image_ms: float, cores: int) -> Any:
    """``workers(accelerators, images_s, image_ms, cores)``: cores that are needed, in machines, rounded up."""
    need = accelerators * images_s * image_ms / 1e3 / cores
    return math.ceil(need), {
        math.ceil(need) + 1.0: "one too many: fewer feed all accelerators, too",
        float(accelerators): "that is a worker for each accelerator; how much work is it?",
        float(math.ceil(accelerators * images_s / round(1e3 * cores / image_ms))): "round once, at the end",
        float(math.ceil(need / accelerators)): "for one accelerator; there are several",
        need: "there is no part of a worker: round up",
        float(math.floor(need)): "rounded down, the accelerators wait: round up",
        float(math.ceil(need * cores)): "these are cores; a worker has several",
        float(math.ceil(need * 1e3)): "image_ms are milliseconds: 1,000 of them are a second",
        math.floor(need) + 1.0: "one too many: so many workers fit exactly",
        accelerators * math.ceil(need / accelerators) * 1.0: "round once, at the end: a worker can serve several",
        float(math.ceil(math.ceil(images_s * image_ms / 1e3) * accelerators / cores)): "round once, at the end",
    }


@numeric(
    "14.2", " MB/s", (1000, 125, 1786, 160, 1), (64, 8, 920, 224, 4), (8, 1, 328, 224, 1),
    (100, 8, 328, 96, 1), (1, 4, 2, 32, 1),
)  # fmt: skip
def into_each_host(accelerators: int, hosts: int, images_s: float, side: int, value_bytes: int) -> Any:
    """``into_host(accelerators, hosts, images_s, side, value_bytes)``: bytes of three colours, in 10^6 a second."""
    right = accelerators / hosts * images_s * side * side * 3 * value_bytes / 1e6
    return right, {
        8 * right: "that is megabits; a byte has eight bits",
        right / 1e3: "that is GB; the task says MB",
        right * 4 / 3: "a pixel has three colours; there is no fourth one",
        4 * right / value_bytes: "value_bytes says how many bytes; do not write 4 into your answer",
        right / accelerators: "several accelerators share a host: multiply by their number",
        right / 3: "a pixel has three colours",
        right * 1e6 / 2**20: "that is MiB (2^20 bytes); the task says MB (10^6 bytes)",
        right * hosts / accelerators * (accelerators // hosts): "do not round: this is the mean of the hosts",
        right * hosts / accelerators * -(-accelerators // hosts): "do not round: this is the mean of the hosts",
        right * hosts: "this is for all hosts together",
        right * hosts / accelerators: "this is for one accelerator; a host has several",
        right * 1e6: "these are bytes; a megabyte has 10^6 of them",
        right / value_bytes: "float32 has 4 bytes for each value, uint8 has 1",
        right / side: "a photo has side × side pixels",
    }


@exercise("14.3")
def lost_and_doubled(function: Any) -> None:
    """``lost_and_doubled(numbers, count)``: how many of range(count) never came, and how many came again."""
    for numbers, count in (([0, 1, 2, 3], 4), ([2, 0, 2, 5], 6), ([1, 1, 1], 2), ([], 3), ([3, 2, 1, 0, 3, 2], 4)):
        seen = Counter(numbers)
        lost, doubled = count - len(seen), len(numbers) - len(seen)
        made = call(function, list(numbers), count)
        made = made.numpy() if tf.is_tensor(made) else made
        if not isinstance(made, (tuple, list, np.ndarray)) or len(made) != 2:
            raise Wrong("return two numbers: how many are lost, and how many came again")
        text = f"for {numbers} out of {count} numbers"
        got = tuple(whole_numbers(made, text, "return how many, not which"))
        if got == (lost, doubled):
            continue
        if got == (doubled, lost):
            raise Wrong(f"{text}: the two numbers have changed places")
        if got[0] == count - len(numbers) != lost:
            raise Wrong(f"{text}: {lost} are lost. Those that came again hide those that never came: count each once")
        if got == (lost, sum(n for n in seen.values() if n > 1)) != (lost, doubled):
            raise Wrong(f"{text}: the first time a number comes, it does not come again: {doubled} came again")
        if got == (lost, sum(n > 1 for n in seen.values())):
            raise Wrong(f"{text}: a number that came three times came again twice")
        raise Wrong(f"{text}: expected {lost} lost and {doubled} doubled, got {got[0]} and {got[1]}")
