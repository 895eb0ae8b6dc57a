"""Right shape, wrong idea: what students hand in for notebook 05, and a word of the hint that must come back."""

import numpy as np

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
    ],
}
