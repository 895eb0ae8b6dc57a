"""Exercises of notebook 16, feed_a_gpu."""

from __future__ import annotations

import operator
from typing import Any

from labcourse.student_code import numeric


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


@numeric(
    "16.2",
    " images/s",
    (32, 40.0, 12.0, 8, False),
    (32, 40.0, 12.0, 8, True),
    (64, 35.8, 2.5, 24, True),
    (16, 250.0, 7.0, 2, False),
    (50, 20.0, 6.0, 10, True),
    (8, 5.0, 60.0, 8, True),
)
def images_per_s_of_a_fed_step(batch: int, step_ms: float, image_ms: float, cores: int, gpu: bool) -> Any:
    """``fed_rate(batch, step_ms, image_ms, cores, gpu)``: on two devices they overlap, on one they take turns."""
    made_ms = batch * image_ms / cores
    together: Any = max if gpu else operator.add
    overlap = "a GPU leaves the cores alone: the next batch is made during the step, and the longer of the two counts"
    shared = "without a GPU the cores do both: their times add up"
    both_ms = together(step_ms, made_ms)

    def rate(ms: float) -> float:
        return 1e3 * batch / ms

    return rate(both_ms), {
        both_ms: "that is the time of a step; return images per second",
        1e3 / both_ms: "these are batches per second; a batch has several images",
        batch / both_ms: "these are images per millisecond",
        rate(together(step_ms, batch * image_ms)): "that is a pipeline with one core; it uses all",
        rate(together(step_ms, image_ms / cores)): "image_ms is the work of one photo; a batch has several",
        rate(min(step_ms, made_ms)): overlap if gpu else shared,
        rate(max(step_ms, made_ms)): shared,
        rate(step_ms + made_ms): overlap,
        rate(together(step_ms, batch * image_ms * cores)): "more cores take less time: divide by them",
        rate(together(step_ms / cores, made_ms)): "step_ms is the time of the step, however many cores it takes",
    }
