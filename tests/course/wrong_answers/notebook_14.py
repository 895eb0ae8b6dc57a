"""Right shape, wrong idea: what students hand in for notebook 14, and a word of the hint that must come back."""

import math
from collections import Counter

WRONG = {
    "14.1": [
        (lambda accelerators, images_s, image_ms, cores: accelerators * images_s * image_ms / 1e3 / cores, "round up"),
        (lambda accelerators, images_s, image_ms, cores: accelerators * images_s * image_ms / 1e3 // cores,
         "the accelerators wait"),
        (lambda accelerators, images_s, image_ms, cores: math.ceil(accelerators * images_s * image_ms / 1e3),
         "a worker has several"),
        (lambda accelerators, images_s, image_ms, cores: math.ceil(accelerators * images_s * image_ms / cores),
         "milliseconds"),
        (lambda accelerators, images_s, image_ms, cores: math.ceil(images_s * image_ms / 1e3 / cores),
         "there are several"),
    ],
    "14.2": [
        (lambda accelerators, hosts, images_s, side, value_bytes:
         accelerators / hosts * images_s * side**2 * value_bytes / 1e6, "three colours"),
        (lambda accelerators, hosts, images_s, side, value_bytes:
         accelerators * images_s * side**2 * 3 * value_bytes / 1e6, "all hosts together"),
        (lambda accelerators, hosts, images_s, side, value_bytes: images_s * side**2 * 3 * value_bytes / 1e6,
         "one accelerator"),
        (lambda accelerators, hosts, images_s, side, value_bytes:
         accelerators / hosts * images_s * side**2 * 3 * value_bytes, "these are bytes"),
        (lambda accelerators, hosts, images_s, side, value_bytes:
         accelerators / hosts * images_s * side**2 * 3 / 1e6, "float32 has 4"),
        (lambda accelerators, hosts, images_s, side, value_bytes:
         accelerators / hosts * images_s * side * 3 * value_bytes / 1e6, "side × side"),
    ],
    "14.3": [
        (lambda numbers, count: count - len(set(numbers)), "two numbers"),
        (lambda numbers, count: (len(numbers) - len(set(numbers)), count - len(set(numbers))), "changed places"),
        (lambda numbers, count: (count - len(numbers), len(numbers) - len(set(numbers))), "hide those"),
        (lambda numbers, count: (count - len(set(numbers)), sum(n > 1 for n in Counter(numbers).values())),
         "came again twice"),
        (lambda numbers, count: (0, 0), "expected"),
    ],
}  # fmt: skip


def _subtracted(numbers, count):
    """Take what came away from what should come."""
    left = Counter(range(count))
    left.subtract(numbers)
    return sum(n == 1 for n in left.values()), -sum(n for n in left.values() if n < 0)


RIGHT = {"14.3": [_subtracted]}
