"""Right shape, wrong idea: what students hand in for notebook 05, and a word of the hint that must come back."""

import math

import numpy as np


def _guarded(rule):
    return lambda first, later, without: math.inf if later >= without else rule(first - later, without - later)


WRONG = {
    "05.1": [
        (lambda images, height, width, size: images * height * width * size / 1e6, "three"),
        (lambda images, height, width, size: images * height * width * 3 * size / 2**20, "MiB"),
        (lambda images, height, width, size: images * height * width * 3 * size, "bytes"),
        (lambda images, height, width, size: height * width * 3 * size / 1e6, "single image"),
    ],
    "05.2": [
        (lambda dataset, expensive, augment: dataset.map(expensive).map(augment).cache(), "too late"),
        (lambda dataset, expensive, augment: dataset.cache().map(expensive).map(augment), "nothing keeps"),
        (lambda dataset, expensive, augment: dataset.map(expensive).map(augment), "nothing keeps"),
        (lambda dataset, expensive, augment: dataset.map(augment).cache().map(expensive), "turned round"),
        (lambda dataset, expensive, augment: dataset.map(expensive).cache(), "map both"),
        (lambda dataset, expensive, augment: dataset.map(expensive).cache().take(3).map(augment), "change nothing"),
        (lambda dataset, expensive, augment: dataset.map(expensive).cache().repeat().map(augment), "never ends"),
        (lambda dataset, expensive, augment: dataset.map(augment), "came [1, 2, 3, 4], expected"),
        (lambda dataset, expensive, augment: dataset.map(lambda x: np.asarray(expensive(x))), "not of NumPy"),
        (
            lambda dataset, expensive, augment: dataset.map(expensive).cache().shuffle(4, seed=3).map(augment),
            "change nothing else",
        ),
    ],
    "05.3": [
        (lambda first, later, without: (first - without) / (without - later) if without > later else 0, "whole epochs"),
        (lambda first, later, without: 2, "epochs"),
        (lambda first, later, without: (first - later) // (without - later) + 1, "for (20, 16, 16) your answer raised"),
        (
            lambda first, later, without: (first - later) // (without - later) + 1 if without > later else -1,
            "for never",
        ),
        (
            lambda first, later, without: -(-(first - later) // (without - later)) if without > later else float("inf"),
            "too few",
        ),
        (_guarded(lambda extra, saved: extra / saved + 1), "for (21, 2, 12) you return 2.9 epochs"),
        (_guarded(lambda extra, saved: math.ceil(extra / saved) + 1), "one epoch too many"),
        (_guarded(lambda extra, saved: extra // saved + 1), "for (5, 10, 16) you return 0 epochs: one epoch too few"),
        (_guarded(lambda extra, saved: max(1, extra // saved + 1)), "shorter with the cache: it is ahead after"),
    ],
}

RIGHT = {
    "05.2": [
        lambda dataset, expensive, augment: dataset.map(expensive).batch(4).cache().map(augment).unbatch(),
        lambda dataset, expensive, augment: (
            dataset.map(expensive, num_parallel_calls=2).cache().map(augment).prefetch(2)
        ),
    ],
    "05.3": [
        lambda first, later, without: next(
            (n for n in range(1, 1000) if first + (n - 1) * later < n * without), float("inf")
        )
    ],
}
