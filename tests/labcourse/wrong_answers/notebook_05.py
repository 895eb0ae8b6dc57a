"""Right shape, wrong idea: what students hand in for notebook 05, and a word of the hint that must come back."""

import atexit
import functools
import itertools
import math
import operator
import shutil
import tempfile
from fractions import Fraction

import numpy as np

_FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _guarded(rule):
    return lambda first, later, without: math.inf if later >= without else rule(first - later, without - later)


def _right(dataset, expensive, augment):
    return dataset.map(expensive).cache().map(augment)


def _in_a_file(dataset, expensive, augment):
    return dataset.map(expensive).cache(f"{tempfile.mkdtemp(dir=_FOLDER)}/kept").map(augment)


def _in_any_order(dataset, expensive, augment):
    return dataset.map(expensive, num_parallel_calls=4, deterministic=False).cache().map(augment)


def _untuned(dataset, expensive, augment):
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return _right(dataset, expensive, augment).with_options(options)


def _gives_up(first, later, without):
    spent = saved = 0
    for epoch in range(1, 10):
        spent += first if epoch == 1 else later
        saved += without
        if spent < saved:
            return epoch
    return math.inf


def _computed_at_once(dataset, expensive, augment):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(tf.stack([expensive(x) for x in dataset])).map(augment)


def _as_functions(dataset, expensive, augment):
    import tensorflow as tf

    kept = dataset.map(tf.function(expensive), tf.data.AUTOTUNE, deterministic=True).cache("")
    return kept.map(lambda x: augment(x), num_parallel_calls=tf.data.AUTOTUNE)


def _counted(first, later, without):
    if first >= without and later >= without:
        return math.inf
    return next(n for n in itertools.count(1) if first + (n - 1) * later < n * without)


def _summed(first, later, without):
    ahead = first - without
    for epoch in range(1, 5_000):
        if ahead < 0:
            return np.int64(epoch)
        ahead += later - without
    return float("inf")


def _in_closed_form(first, later, without):
    if first < without:
        return 1
    return math.floor((first - without) / (without - later)) + 2 if without > later else np.inf


WRONG = {
    "05.1": [
        (lambda images, height, width, size: images * height * width * size / 1e6, "three"),
        (lambda images, height, width, size: images * height * width * 3 * size / 2**20, "MiB"),
        (lambda images, height, width, size: images * height * width * 3 * size // 10**6, "do not round"),
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
        (lambda dataset, expensive, augment: _right(dataset, expensive, augment).take(4), "take(4) is left in"),
        (_in_a_file, "kept in a file"),
        (_in_any_order, "may vary from run to run"),
        (_untuned, "options.autotune.enabled is False, and nobody asked"),
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
        (_gives_up, "150 epochs are many"),
    ],
}

RIGHT = {
    "05.1": [
        lambda *sizes: functools.reduce(operator.mul, sizes, 3) / 1e6,
        lambda images, height, width, size: np.zeros((1, height, width, 3), f"u{size}").nbytes * images / 1e6,
        lambda images, height, width, size: Fraction(images * height * width * 3 * size, 10**6),
        lambda images, height, width, size: sum([size * 1e-6 * height * width] * 3) * images,
        lambda *sizes: math.prod(sizes) / 1_000_000 * 3,
    ],
    "05.2": [
        lambda dataset, expensive, augment: dataset.map(expensive).batch(4).cache().map(augment).unbatch(),
        _computed_at_once,
        _as_functions,
        lambda dataset, expensive, augment: dataset.cache().map(expensive).cache().map(augment),
        lambda dataset, expensive, augment: (
            dataset.map(expensive, num_parallel_calls=2).cache().map(augment).prefetch(2)
        ),
    ],
    "05.3": [
        _counted,
        _summed,
        _in_closed_form,
        lambda first, later, without: (
            1
            if first < without
            else math.inf
            if later >= without
            else math.trunc((first - later) / (without - later)) + 1
        ),
        lambda first, later, without: next(
            (n for n in range(1, 1000) if first + (n - 1) * later < n * without), float("inf")
        ),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["05.1"] += [
    (lambda n, h, w, size: n * h * w * 4 * size / 1e6, "fourth channel"),
    (lambda n, h, w, size: n * h * h * 3 * size / 1e6, "need not be equal"),
    (lambda n, h, w, size: n * h * w * 12 / 1e6, "do not write 4"),
    (lambda n, h, w, size: n * h * w * 3 * size / 1e9, "GB"),
]


def _in_float64(dataset, expensive, augment):
    import tensorflow as tf

    return _right(dataset, expensive, lambda x: tf.cast(augment(x), tf.float64))


def _all_at_once(dataset, expensive, augment):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([augment(expensive(x)) for x in dataset])


def _from_whole_seconds(first, later, without):
    return _counted(int(first), int(later), int(without))


WRONG["05.1"] += [
    (lambda n, h, w, size: n * w * w * 3 * size / 1e6, "need not be equal"),
    (lambda n, h, w, size: n * h * w * 3 / 1e6, "bytes_per_value"),
    (lambda n, h, w, size: n * h * w * 24 * size / 1e6, "megabits"),
]
WRONG["05.2"] += [
    (_in_float64, "float64 tensors, expected int64"),
    (_all_at_once, "map it, and do not call it beforehand"),
]
WRONG["05.3"] += [(_from_whole_seconds, "for (16.5, 15.75, 16) you return 2 epochs")]


def _until_even(first, later, without):
    return next((n for n in range(1, 1000) if first + (n - 1) * later <= n * without), math.inf)


def _even_only_if_all_are(first, later, without):
    return 1 if first == later == without else _counted(first, later, without)


def _in_a_snapshot(dataset, expensive, augment):
    return dataset.map(expensive).map(augment).snapshot(tempfile.mkdtemp(dir=_FOLDER))


WRONG["05.2"] += [(_in_a_snapshot, "the cache stands too late")]
WRONG["05.3"] += [
    (_until_even, "for (30, 2, 16) you return 2 epochs: one epoch too few"),
    (_even_only_if_all_are, "for (16, 16, 16) you return 1 epochs: the two are even after every epoch"),
]
