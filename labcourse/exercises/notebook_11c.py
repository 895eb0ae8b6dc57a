"""Exercises of notebook 11c, choose_a_batch_size."""

from __future__ import annotations

import math
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


@numeric("11.6", " updates", (1120, 12, 512), (1000, 3, 300), (10, 1, 3), (64, 5, 64), (7, 2, 20), (50_000, 10, 128))
def updates_of_a_training(photos: int, epochs: int, batch: int) -> Any:
    """``updates(photos, epochs, batch)``: whole batches of all epochs together."""
    exact = photos * epochs / batch
    return photos * epochs // batch, {
        "repeat stands before batch: what is left of an epoch begins the next batch": photos // batch * epochs,
        "repeat stands before batch: there is no remainder in each epoch": -(-photos // batch) * epochs,
        "drop_remainder=True: the last batch that is not whole is dropped": -(-photos * epochs // batch),
        "only whole batches count: return a whole number": exact,
        "that is one epoch": photos // batch,
    }


@numeric(
    "11.7", " photos", (1.9, 0.16, 0.9), (36, 4, 0.5), (62, 18, 0.8), (31, 8.2, 0.95), (20, 0.75, 0.3),
    (0.01, 5, 0.5),
)  # fmt: skip
def batch_that_is_large_enough(fixed_ms: float, per_image_ms: float, share: float) -> Any:
    """``enough(fixed_ms, per_image_ms, share)``: the smallest batch that reaches a share of the highest rate."""
    ratio, odds = fixed_ms / per_image_ms, share / (1 - share)
    exact, right = odds * ratio, math.ceil(odds * ratio)
    return right, {
        "return a whole number of photos, rounded up": exact,
        "round up: with one photo less the rate is below the share": math.floor(exact),
        "one photo less is enough: at least the share is asked, and not more": right + 1,
        "there the fixed part is as long as the other one, whatever the share": math.ceil(ratio),
        "near a share of 1 the batch grows without end: divide by 1 - share": math.ceil(share * ratio),
    }
