"""Exercises of notebook 11c, choose_a_batch_size."""

from __future__ import annotations

import math
from typing import Any

from labcourse.student_code import numeric


@numeric("11.5", " images/s", (10, 0.5, 32), (2, 0.16, 256), (36, 4, 64), (0, 2, 8), (5000, 3.3, 1))
def images_that_are_needed(fixed_ms: float, per_image_ms: float, batch: int) -> Any:
    """``needed(fixed_ms, per_image_ms, batch)``: images per second of an accelerator that never waits."""
    step_ms = fixed_ms + per_image_ms * batch
    return 1000 * batch / step_ms, {
        batch / step_ms: "the step is in milliseconds; a second has 1000 of them",
        1000 / step_ms: "that is steps per second; every step brings a whole batch",
        1e6 * batch / step_ms: "a second has 1000 milliseconds",
        1000 * step_ms / batch: "that is the time of a thousand images, the inverse",
        step_ms: "that is the time of a step; how many images a second?",
        step_ms / batch: "that is milliseconds per image, the inverse",
        1000 / per_image_ms: "that is the rate of a very large batch; the fixed part is in each step, too",
        1000 / (fixed_ms + per_image_ms): "the fixed part comes once for each step, not once for each image",
        1000 * batch / (fixed_ms + per_image_ms): "each image of the batch takes its time",
    }


@numeric("11.6", " updates", (1120, 12, 512), (1000, 3, 300), (10, 1, 3), (64, 5, 64), (7, 2, 20), (50_000, 10, 128))
def updates_of_a_training(photos: int, epochs: int, batch: int) -> Any:
    """``updates(photos, epochs, batch)``: whole batches of all epochs together."""
    exact = photos * epochs / batch
    return photos * epochs // batch, {
        photos // batch * epochs: "repeat stands before batch: what is left of an epoch begins the next batch",
        -(-photos // batch) * epochs: "repeat stands before batch: there is no remainder in each epoch",
        -(-photos * epochs // batch): "drop_remainder=True: the last batch that is not whole is dropped",
        exact: "only whole batches count: return a whole number",
        round(exact): "only whole batches count: round down",
        photos * epochs % batch: "that is what is left over",
        round(photos / batch) * epochs: "repeat stands before batch: do not round each epoch",
        photos // batch: "that is one epoch",
        photos * epochs: "that is photos, not batches of them",
    }


@numeric(
    "11.7",
    " photos",
    (1.9, 0.16, 0.9),
    (36, 4, 0.5),
    (62, 18, 0.8),
    (31, 8.2, 0.95),
    (20, 0.75, 0.3),
    (0.01, 5, 0.5),
)
def batch_that_is_large_enough(fixed_ms: float, per_image_ms: float, share: float) -> Any:
    """``enough(fixed_ms, per_image_ms, share)``: the smallest batch that reaches a share of the highest rate."""
    ratio, odds = fixed_ms / per_image_ms, share / (1 - share)
    exact, right = odds * ratio, math.ceil(odds * ratio)
    wrong = {
        exact: "return a whole number of photos, rounded up",
        math.floor(exact): "round up: with one photo less the rate is below the share",
        right + 1: "one photo less is enough: at least the share is asked, and not more",
        math.ceil(odds): "the line of the accelerator counts, too: how long is the fixed part?",
        math.ceil(ratio): "there the fixed part is as long as the other one, whatever the share",
        math.ceil(ratio / (1 - share)): "compare with the whole step, and not with its fixed part",
        math.ceil(share * ratio): "near a share of 1 the batch grows without end: divide by 1 - share",
        math.ceil(ratio / odds): "that is the other share, the one of the fixed part",
        math.ceil(odds / ratio): "a longer fixed part needs a larger batch, not a smaller one",
        math.ceil(share / per_image_ms): "that is a rate, and not a batch: which batch has that rate?",
    }
    return right, {value: hint for value, hint in wrong.items() if value != right}
