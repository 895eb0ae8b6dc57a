"""Right shape, wrong idea: what students hand in for notebook 14, and a word of the hint that must come back."""

import itertools
import math
from collections import Counter

import numpy as np

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
        (lambda numbers, count: (count - len(set(numbers)), len(numbers)), "and 0 doubled, got 0 and 4"),
        (lambda numbers, count: ([*{*range(count)} - {*numbers}], []), "how many, not which"),
        (lambda numbers, count: (count - len(set(numbers)) + 0.9, len(numbers) - len(set(numbers)) + 0.4),
         "whole numbers, not 0.9"),
    ],
}  # fmt: skip


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


def _looked_up(numbers, count):
    """Ask for each number whether it came, and take those away that came once."""
    there = [n in numbers for n in range(count)]
    return there.count(False), len(numbers) - there.count(True)


def _sorted(numbers, count):
    """Compare neighbours in order."""
    ordered = sorted(numbers)
    again = sum(a == b for a, b in itertools.pairwise(ordered))
    return count - (len(ordered) - again), again


def _into(accelerators, hosts, images_s, side, value_bytes):
    """Name each quantity."""
    image_mb = side * side * 3 * value_bytes / 1_000_000
    return image_mb * images_s * accelerators / hosts


RIGHT = {
    "14.1": [
        _searched,
        lambda accelerators, images_s, image_ms, cores: -int(-(accelerators * images_s * image_ms / 1000 / cores) // 1),
        lambda accelerators, images_s, image_ms, cores: np.ceil(accelerators * images_s / (1000 / image_ms * cores)),
        lambda a, i, ms, c: int(a * i * ms / 1e3 / c) + (a * i * ms / 1e3 / c > int(a * i * ms / 1e3 / c)),
        lambda accelerators, images_s, image_ms, cores: -(-accelerators * images_s * image_ms // (1e3 * cores)),
    ],
    "14.2": [
        _into,
        lambda accelerators, hosts, images_s, side, value_bytes:
        accelerators * images_s * math.prod((side, side, 3, value_bytes)) / hosts / 10**6,
        lambda a, h, i, s, v: np.float64(a) / h * i * s**2 * 3 * v * 1e-6,
        lambda a, h, i, s, v: float(np.zeros((s, s, 3), np.uint8).nbytes) * v * i * (a / h) / 1e6,
        lambda a, h, i, s, v: sum(s * s * v * i * a / h for _ in range(3)) / 1e6,
    ],
    "14.3": [
        _subtracted,
        _looked_up,
        _sorted,
        lambda numbers, count: [len(set(range(count)) - set(numbers)), len(numbers) - len(set(numbers))],
        lambda numbers, count: np.array([count - len(set(numbers)), len(numbers) - len(set(numbers))]),
    ],
}  # fmt: skip


# Other usual wrong ideas, each in one line.
WRONG["14.1"] += [
    (lambda count, rate, ms, cores: int(count * rate * ms / 1e3 / cores) + 1, "fit exactly"),
    (lambda count, rate, ms, cores: count * math.ceil(rate * ms / 1e3 / cores), "round once"),
    (lambda count, rate, ms, cores: math.ceil(count * math.ceil(rate * ms / 1e3) / cores), "round once"),
]
WRONG["14.2"] += [
    (lambda count, hosts, rate, side, size: count / hosts * rate * side**2 * 3 * size / 2**20, "MiB"),
    (lambda count, hosts, rate, side, size: count // hosts * rate * side**2 * 3 * size / 1e6, "do not round"),
    (lambda count, hosts, rate, side, size: -(-count // hosts) * rate * side**2 * 3 * size / 1e6, "do not round"),
]


WRONG["14.1"] += [
    (lambda count, rate, ms, cores: math.ceil(count * rate * ms / 1e3 / cores) + 1, "one too many"),
    (lambda count, rate, ms, cores: int(count * rate * ms / 1e3 / cores + 0.99), "rounded down"),
    (lambda count, rate, ms, cores: math.ceil(count * rate / round(1e3 * cores / ms)), "round once"),
    (lambda count, rate, ms, cores: round(count * rate * ms / 1e3 / cores), "rounded down"),
    (lambda count, rate, ms, cores: count, "a worker for each"),
    (lambda count, rate, ms, cores: math.ceil(cores / (count * rate * ms / 1e3)), "expected 15 workers"),
]
WRONG["14.2"] += [
    (lambda count, hosts, rate, side, size: count / hosts * rate * side**2 * 24 * size / 1e6, "megabits"),
    (lambda count, hosts, rate, side, size: count / hosts * rate * side**2 * 4 * size / 1e6, "no fourth one"),
    (lambda count, hosts, rate, side, size: count / hosts * rate * side**2 * 12 / 1e6, "do not write 4"),
    (lambda count, hosts, rate, side, size: rate / hosts * side**2 * 3 * size / 1e6, "by their number"),
]
WRONG["14.3"] += [
    (lambda numbers, count: (count - len(set(numbers)), sum(numbers.count(n) > 1 for n in numbers)), "first time"),
]


def _as_a_tensor(numbers, count):
    import tensorflow as tf

    return tf.constant([count - len(set(numbers)), len(numbers) - len(set(numbers))])


RIGHT["14.3"] += [_as_a_tensor]
