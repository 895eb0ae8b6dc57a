"""Exercises of notebook 11c, choose_a_batch_size."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import numeric


@numeric("11.5", " images/s", (10, 0.5, 32), (2, 0.16, 256), (36, 4, 64), (0, 2, 8), (5000, 3.3, 1))
def images_that_are_needed(fixed_ms: float, per_image_ms: float, batch: int) -> Any:
    """``needed(fixed_ms, per_image_ms, batch)``: images per second of an accelerator that never waits."""
    step_ms = fixed_ms + per_image_ms * batch
    return 1000 * batch / step_ms, {
        "the step is in milliseconds; a second has 1000 of them": batch / step_ms,
        "that is steps per second; every step brings a whole batch": 1000 / step_ms,
        "that is milliseconds per image, the inverse": step_ms / batch,
        "that is the rate of a very large batch; the fixed part is in each step, too": 1000 / per_image_ms,
        "the fixed part comes once for each step, not once for each image": 1000 / (fixed_ms + per_image_ms),
    }
