"""Exercises of notebook 11d, augment_in_the_model."""

from __future__ import annotations

from typing import Any

from labkit.course.student_code import numeric


@numeric("11.7", " MB/s", (1000, 224, 4), (1000, 224, 1), (2500, 48, 2), (60, 1024, 1))
def megabytes_over_the_link(images_per_s: float, side: int, bytes_per_value: int) -> Any:
    """``link_mb_per_s(images_per_s, side, bytes_per_value)``: what goes to the accelerator in each second."""
    values = images_per_s * side * side * 3
    total = values * bytes_per_value
    return total / 1e6, {
        total: "that is bytes; a megabyte is a million of them",
        total / 2**20: "that is MiB; a megabyte is a million bytes",
        total / 1e9: "that is gigabytes",
        total / 3e6: "a pixel has three channels",
        total / side / 1e6: "a photo has side × side pixels",
        values / 1e6: "each value takes bytes_per_value bytes",
        8 * total / 1e6: "that is megabits",
        side * side * 3 * bytes_per_value / 1e6: "that is one image; a second has many",
    }
