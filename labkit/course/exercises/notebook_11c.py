"""Exercises of notebook 11c, choose_a_batch_size."""

from __future__ import annotations

from typing import Any

from labkit.course.student_code import numeric


@numeric("11.5", " images/s", (10, 0.5, 32), (2, 0.16, 256), (36, 4, 64), (0, 2, 8), (5000, 3.3, 1))
def images_that_are_needed(fixed_ms: float, per_image_ms: float, batch: int) -> Any:
    """``needed(fixed_ms, per_image_ms, batch)``: images per second of an accelerator that never waits."""
    step_ms = fixed_ms + per_image_ms * batch
    return 1000 * batch / step_ms, {
        batch / step_ms: "the step is in milliseconds; a second has 1000 of them",
        1000 / step_ms: "that is steps per second; every step brings a whole batch",
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
        photos // batch: "that is one epoch",
        photos * epochs: "that is photos, not batches of them",
    }
