"""Exercises of notebook 11d, augment_in_the_model."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import numeric


@numeric(
    "11.11", " times", (100, 30, 120, 20), (160, 40, 143, 1), (64, 16, 143, 1), (10, 90, 30, 3), (90, 5, 92, 8),
    (1, 500, 3, 1),
)  # fmt: skip
def gain_of_the_move(decode: float, augment: float, train: float, on_gpu: float) -> Any:
    """``pays(decode, augment, train, on_gpu)``: how many times as fast with the augmentation in the model."""
    before, after = max(decode + augment, train), max(decode, train + on_gpu)
    sums = (decode + augment + train) / (decode + train + on_gpu)
    return before / after, {
        "that is how many times as *slow*; divide the time before by the time after": after / before,
        "those are sums; of what overlaps, the longest counts": sums,
        "decoding and augmenting share the cores of the host: their times add up": max(decode, augment, train) / after,
        "decoding stays on the host, and can still be the longest part": before / (train + on_gpu),
        "the augmentation on the accelerator and the train step add up": before / max(decode, train),
    }
