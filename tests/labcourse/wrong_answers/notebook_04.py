"""Right shape, wrong idea: what students hand in for notebook 04, and a word of the hint that must come back."""

import functools
from fractions import Fraction

import numpy as np


def _counted_behind_a_lock(dataset, function):
    """Map in parallel, and let each call wait for a lock that no graph shows: only a clock on the wall sees it."""
    import threading
    import time

    import tensorflow as tf

    lock = threading.Lock()

    def count(x):
        with lock:
            time.sleep(0.025)
        return x

    def counted(x):
        made = function(x)
        return tf.ensure_shape(tf.numpy_function(count, [made], made.dtype), made.shape)

    return dataset.map(counted, num_parallel_calls=-1, deterministic=True)


def _right(dataset, function):
    return dataset.map(function, num_parallel_calls=-1, deterministic=True)


def _interleaved(dataset, function):
    import tensorflow as tf

    one = tf.data.Dataset.from_tensors
    return dataset.interleave(lambda x: one(function(x)), num_parallel_calls=-1, deterministic=True)


def _in_python(dataset, function):
    import tensorflow as tf

    return _right(dataset, lambda x: tf.py_function(function, [x], tf.int64))


def _known_length(dataset, function):
    import tensorflow as tf

    return _right(dataset, function).apply(tf.data.experimental.assert_cardinality(len(dataset)))


def _known_as_twelve(dataset, function):
    import tensorflow as tf

    return _right(dataset, function).apply(tf.data.experimental.assert_cardinality(12))


def _untuned(dataset, function):
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return _right(dataset, function).with_options(options)


def _through_tensors(free, gil, cores):
    import tensorflow as tf

    return tf.minimum(float(cores), (free + gil) / tf.constant(gil, tf.float32))


def _of_its_own(dataset, function):
    import tensorflow as tf

    return _right(tf.data.Dataset.range(12), function)


def _as_texts(dataset, function):
    import tensorflow as tf

    return _right(dataset, lambda x: tf.strings.as_string(function(x)))


def _called_beforehand(dataset, function):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([function(x) for x in dataset])


def _flat(dataset, function):
    import tensorflow as tf

    return dataset.flat_map(lambda x: tf.data.Dataset.from_tensors(function(x)))


WRONG = {
    "04.1": [
        (lambda dataset, function: dataset.map(function), "num_parallel_calls"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=4, deterministic=True), "one machine"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=-1), "options"),
        (lambda dataset, function: dataset.batch(2).unbatch().shuffle(1), "not applied"),
        (
            lambda dataset, function: dataset.map(function, num_parallel_calls=-1, deterministic=True).skip(1),
            "drop_remainder, take,",
        ),
        (lambda dataset, function: [function(x) for x in dataset], "tf.data.Dataset"),
        (lambda dataset, function: _right(dataset.repeat(), function), "look for a repeat or an"),
        (lambda dataset, function: _right(dataset, lambda x: (x, function(x))), "expected single tensors"),
        (lambda dataset, function: _right(dataset, lambda x: np.asarray(function(x))), "not of NumPy"),
        (
            lambda dataset, function: _right(dataset.batch(4), function).unbatch(),
            "of the elements, with",
        ),
        (
            lambda dataset, function: _right(dataset, function).map(lambda x: x),
            "of the elements, with",
        ),
        (_of_its_own, "apply every stage once,"),
        (_as_texts, "the dtype is string,"),
        (lambda dataset, function: _right(dataset.window(2), lambda x: x), "take away window()"),
        (_in_python, "without tf.py_function"),
        (_untuned, "options.autotune.enabled"),
        (_known_as_twelve, "expected to contain 12 elements"),
        (_counted_behind_a_lock, "to each element, one"),
    ],
    "04.2": [
        (lambda rate, cpu_ms: round(rate * cpu_ms / 1000, 1), "do not round"),
        (lambda rate, ms: rate * ms // 1000, "expected"),
    ],
    "04.3": [
        (lambda free, gil, cores: min(cores, round((free + gil) / gil)), "do not round"),
        (lambda free, gil, cores: min(cores, int((free + gil) / gil)), "you return 1×, expected 1.5×"),
        (lambda free, gil, cores: min(cores, free / gil), "expected"),
    ],
}

RIGHT = {
    "04.1": [
        _known_length,
        lambda dataset, function: functools.partial(dataset.map, num_parallel_calls=-1, deterministic=True)(function),
    ],
    "04.2": [
        lambda rate, cpu_ms: np.multiply(rate, cpu_ms) * 1e-3,
        lambda rate, cpu_ms: Fraction(rate) * Fraction(cpu_ms) / 1000,
    ],
    "04.3": [
        lambda free, gil, cores: (free + gil) / max(gil, (free + gil) / cores),
        _through_tensors,
    ],
}
