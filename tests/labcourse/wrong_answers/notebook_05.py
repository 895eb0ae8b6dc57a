"""Right shape, wrong idea: what students hand in for notebook 05, and a word of the hint that must come back."""

import atexit
import functools
import itertools
import math
import operator
import shutil
import tempfile

import numpy as np

_FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _right(dataset, expensive, augment):
    return dataset.map(expensive).cache().map(augment)


def _in_a_file(dataset, expensive, augment):
    return dataset.map(expensive).cache(f"{tempfile.mkdtemp(dir=_FOLDER)}/kept").map(augment)


def _computed_at_once(dataset, expensive, augment):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(tf.stack([expensive(x) for x in dataset])).map(augment)


def _counted(first, later, without):
    if first >= without and later >= without:
        return math.inf
    return next(n for n in itertools.count(1) if first + (n - 1) * later < n * without)


def _all_at_once(dataset, expensive, augment):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([augment(expensive(x)) for x in dataset])


WRONG = {
    "05.2": [
        (lambda dataset, expensive, augment: dataset.map(expensive).map(augment).cache(), "too late"),
        (lambda dataset, expensive, augment: dataset.cache().map(expensive).map(augment), "nothing keeps"),
        (lambda dataset, expensive, augment: dataset.map(augment).cache().map(expensive), "turned round"),
        (
            lambda dataset, expensive, augment: dataset.map(expensive).cache(),
            "apply every stage once,",
        ),
        (lambda dataset, expensive, augment: _right(dataset, expensive, augment).take(4), "take(4) is left in"),
        (_in_a_file, "kept in a file"),
        (_all_at_once, "map it, and do not call"),
    ],
    "05.3": [
        (lambda first, later, without: 2, "epochs"),
        (lambda first, later, without: (first - later) // (without - later) + 1, "for (20, 16, 16) your answer raised"),
    ],
}

RIGHT = {
    "05.1": [
        lambda *sizes: functools.reduce(operator.mul, sizes, 3) / 1e6,
        lambda images, height, width, size: np.zeros((1, height, width, 3), f"u{size}").nbytes * images / 1e6,
    ],
    "05.2": [
        lambda dataset, expensive, augment: dataset.map(expensive).batch(4).cache().map(augment).unbatch(),
        _computed_at_once,
    ],
    "05.3": [
        _counted,
        lambda first, later, without: (
            1
            if first < without
            else math.inf
            if later >= without
            else math.trunc((first - later) / (without - later)) + 1
        ),
    ],
}
