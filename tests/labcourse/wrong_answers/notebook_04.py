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


def _in_python(dataset, function):
    import tensorflow as tf

    return _right(dataset, lambda x: tf.py_function(function, [x], tf.int64))


def _known_length(dataset, function):
    import tensorflow as tf

    return _right(dataset, function).apply(tf.data.experimental.assert_cardinality(len(dataset)))


def _untuned(dataset, function):
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return _right(dataset, function).with_options(options)


def _through_tensors(free, gil, cores):
    import tensorflow as tf

    return tf.minimum(float(cores), (free + gil) / tf.constant(gil, tf.float32))


WRONG = {
    "04.1": [
        (lambda dataset, function: dataset.batch(2).unbatch().shuffle(1), "not applied"),
        (lambda dataset, function: dataset.map(function), "num_parallel_calls"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=4, deterministic=True), "one machine"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=-1), "options"),
        (
            lambda dataset, function: dataset.map(function, num_parallel_calls=-1, deterministic=True).skip(1),
            "drop_remainder, take,",
        ),
        (_in_python, "without tf.py_function"),
        (_untuned, "options.autotune.enabled"),
        (_counted_behind_a_lock, "to each element, one"),
    ],
    "04.3": [
        (lambda free, gil, cores: min(cores, round((free + gil) / gil)), "do not round"),
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
