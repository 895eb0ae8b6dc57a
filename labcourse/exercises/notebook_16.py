"""Exercises of notebook 16, feed_a_gpu."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import numeric


@numeric(
    "16.2", " images/s", (32, 40.0, 12.0, 8, False), (32, 40.0, 12.0, 8, True), (64, 35.8, 2.5, 24, True),
    (16, 250.0, 7.0, 2, False), (50, 20.0, 6.0, 10, True), (8, 5.0, 60.0, 8, True),
)  # fmt: skip
def images_per_s_of_a_fed_step(batch: int, step_ms: float, image_ms: float, cores: int, gpu: bool) -> Any:
    """``fed_rate(batch, step_ms, image_ms, cores, gpu)``: on two devices they overlap, on one they take turns."""
    made_ms = batch * image_ms / cores
    longer_ms, sum_ms = max(step_ms, made_ms), step_ms + made_ms
    both_ms = longer_ms if gpu else sum_ms
    return 1e3 * batch / both_ms, {
        "that is the time of a step; return images per second": both_ms,
        "these are batches per second; a batch has several images": 1e3 / both_ms,
        "these are images per millisecond": batch / both_ms,
        "without a GPU the cores do both: their times add up": 1e3 * batch / longer_ms,
        "a GPU leaves the cores alone: they make the next batch meanwhile, the longer one counts": 1e3 * batch / sum_ms,
    }
