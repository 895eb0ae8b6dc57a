"""Exercises of notebook 11d, augment_in_the_model."""

from __future__ import annotations

from typing import Any

from labcourse.student_code import numeric


@numeric("11.10", " MB/s", (1000, 224, 4), (1000, 224, 1), (2500, 48, 2), (60, 1024, 1), (2, 32, 1))
def megabytes_over_the_link(images_per_s: float, side: int, bytes_per_value: int) -> Any:
    """``link_mb_per_s(images_per_s, side, bytes_per_value)``: what goes to the accelerator in each second."""
    values = images_per_s * side * side * 3
    total = values * bytes_per_value
    return total / 1e6, {
        total: "that is bytes; a megabyte is a million of them",
        total / 2**20: "that is MiB; a megabyte is a million bytes",
        total / 1e3: "that is kilobytes",
        total / 2**30: "that is GiB; the task says megabytes",
        2 * total / 1e6: "only the way to the accelerator counts",
        total / 1e9: "that is gigabytes",
        total / 3e6: "a pixel has three channels",
        total / side / 1e6: "a photo has side × side pixels",
        values / 1e6: "each value takes bytes_per_value bytes",
        8 * total / 1e6: "that is megabits",
        4 * total / 3e6: "a photo has three channels, no fourth one",
        4 * values / 1e6: "each value takes bytes_per_value bytes; do not write 4 into your answer",
        side * side * 3 * bytes_per_value / 1e6: "that is one image; a second has many",
    }


@numeric(
    "11.11",
    " times",
    (100, 30, 120, 20),
    (160, 40, 143, 1),
    (64, 16, 143, 1),
    (10, 90, 30, 3),
    (90, 5, 92, 8),
    (1, 500, 3, 1),
)
def gain_of_the_move(decode: float, augment: float, train: float, on_gpu: float) -> Any:
    """``pays(decode, augment, train, on_gpu)``: how many times as fast with the augmentation in the model."""
    before, after = max(decode + augment, train), max(decode, train + on_gpu)
    # Of equal values the last one's hint counts, and no hint may be the right number.
    wrong = {
        after / before: "that is how many times as *slow*; divide the time before by the time after",
        (decode + augment + train) / (decode + train + on_gpu): "those are sums; of what overlaps, the longest counts",
        max(decode, augment, train) / after: "decoding and augmenting share the cores of the host: their times add up",
        before / (train + on_gpu): "decoding stays on the host, and can still be the longest part",
        (decode + augment) / decode: "the train step is a part, too, and may be the longest",
        1 - after / before: "that is the share of time that is saved",
        before - after: "that is the time that is saved",
        before / max(decode, train, on_gpu): "augmentation and train step share the accelerator: their times add up",
        before / after - 1: "that says how much faster; how many times as fast is one more",
        max(1.0, before / after): "the move can also make the job slower: then return a number below 1",
        before / max(decode, train): "the augmentation on the accelerator and the train step add up",
    }
    return before / after, {value: hint for value, hint in wrong.items() if value != before / after}
