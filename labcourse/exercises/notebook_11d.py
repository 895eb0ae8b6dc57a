"""Exercises of notebook 11d, augment_in_the_model."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import numeric


@numeric("11.10", " MB/s", (1000, 224, 4), (1000, 224, 1), (2500, 48, 2), (60, 1024, 1), (2, 32, 1))
def megabytes_over_the_link(images_per_s: float, side: int, bytes_per_value: int) -> Any:
    """``link_mb_per_s(images_per_s, side, bytes_per_value)``: what goes to the accelerator in each second."""
    values = images_per_s * side * side * 3
    total = values * bytes_per_value
    return total / 1e6, {
        "that is bytes; a megabyte is a million of them": total,
        "that is MiB; a megabyte is a million bytes": total / 2**20,
        "a pixel has three channels": total / 3e6,
        "each value takes bytes_per_value bytes": values / 1e6,
        "that is one image; a second has many": total / images_per_s / 1e6,
    }


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
