"""Exercises of notebook 16, feed_a_gpu."""

from __future__ import annotations

from typing import Any

from labkit.course.student_code import numeric


@numeric("16.1", " hours", (1_281_167, 90, 1_786, 900), (50_000, 10, 920, 328), (1_120, 15, 90, 80), (3_600, 1, 4, 1))
def hours_of_waiting(photos: int, epochs: int, free: float, fed: float) -> Any:
    """``waiting_hours(photos, epochs, free, fed)``: hours in which an accelerator waits in a training."""
    images = photos * epochs
    right = images * (1 / fed - 1 / free) / 3600
    return right, {
        3600 * right: "that is seconds; return hours",
        60 * right: "that is minutes; return hours",
        -right: "the sign: with its pipeline the training takes longer",
        right / epochs: "that is one epoch; the training has several",
        right / photos: "that is one photo in each epoch; an epoch has all of them",
        images / fed / 3600: "that is the whole training; how much of it would free data take?",
        images / free / 3600: "that is the training with free data, without any waiting",
        images / (free - fed) / 3600: "subtract the times, not the speeds",
        1 - fed / free: "that is the share of the time that is waited; return hours",
        images / free * (1 - fed / free) / 3600: "that share is one of the time with the pipeline, not with free data",
        free / fed: "that says how many times as long it takes; return hours",
    }
