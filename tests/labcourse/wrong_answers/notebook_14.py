"""Right shape, wrong idea: what students hand in for notebook 14, and a word of the hint that must come back."""

from collections import Counter

import numpy as np


def _subtracted(numbers, count):
    """Take what came away from what should come."""
    left = Counter(range(count))
    left.subtract(numbers)
    return sum(n == 1 for n in left.values()), -sum(n for n in left.values() if n < 0)


def _searched(accelerators, images_s, image_ms, cores):
    """Count up until the workers make what is needed."""
    count = 1
    while count * cores / image_ms * 1e3 < accelerators * images_s:
        count += 1
    return count


def _into(accelerators, hosts, images_s, side, value_bytes):
    """Name each quantity."""
    image_mb = side * side * 3 * value_bytes / 1_000_000
    return image_mb * images_s * accelerators / hosts


WRONG = {
    "14.3": [
        (lambda numbers, count: count - len(set(numbers)), "two numbers"),
        (lambda numbers, count: ([*{*range(count)} - {*numbers}], []), "how many, not which"),
        (
            lambda numbers, count: (count - len(set(numbers)) + 0.9, len(numbers) - len(set(numbers)) + 0.4),
            "whole numbers, not 0.9",
        ),
    ]
}

RIGHT = {
    "14.1": [
        _searched,
        lambda accelerators, images_s, image_ms, cores: np.ceil(accelerators * images_s / (1000 / image_ms * cores)),
    ],
    "14.3": [
        _subtracted,
        lambda numbers, count: np.array([count - len(set(numbers)), len(numbers) - len(set(numbers))]),
    ],
}
