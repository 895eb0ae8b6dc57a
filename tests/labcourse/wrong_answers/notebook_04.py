"""Right shape, wrong idea: what students hand in for notebook 04, and a word of the hint that must come back."""

import functools
import math
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


def _as_a_function(dataset, function):
    import tensorflow as tf

    return dataset.map(tf.function(function), tf.data.AUTOTUNE, True)


def _through_tensors(free, gil, cores):
    import tensorflow as tf

    return tf.minimum(float(cores), (free + gil) / tf.constant(gil, tf.float32))


def _of_its_own(dataset, function):
    import tensorflow as tf

    return _right(tf.data.Dataset.range(12), function)


def _as_texts(dataset, function):
    import tensorflow as tf

    return _right(dataset, lambda x: tf.strings.as_string(function(x)))


WRONG = {
    "04.1": [
        (lambda dataset, function: dataset.map(function), "num_parallel_calls"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=4, deterministic=True), "one machine"),
        (lambda dataset, function: dataset.map(function, num_parallel_calls=-1), "options"),
        (lambda dataset, function: dataset.batch(2).unbatch().shuffle(1), "not applied"),
        (
            lambda dataset, function: dataset.map(function, num_parallel_calls=-1, deterministic=True).skip(1),
            "11 came out, 12 expected: 1 missing",
        ),
        (lambda dataset, function: [function(x) for x in dataset], "tf.data.Dataset"),
        (lambda dataset, function: _right(dataset.repeat(), function), "never ends"),
        (lambda dataset, function: _right(dataset.repeat(2), function), "more than 12"),
        (lambda dataset, function: _right(dataset, lambda x: (x, function(x))), "pairs came out"),
        (lambda dataset, function: _right(dataset, lambda x: np.asarray(function(x))), "not of NumPy"),
        (lambda dataset, function: _right(dataset.batch(4), function).unbatch(), "one parallel map of the elements"),
        (lambda dataset, function: _right(dataset, function).map(lambda x: x), "one parallel map of the elements"),
        (_interleaved, "use map()"),
        (_of_its_own, "number 1 is 1, expected 10"),
        (_as_texts, "number 1 is b'10', expected 10"),
        (lambda dataset, function: _right(dataset.window(2), lambda x: x), "take away window()"),
        (_in_python, "without tf.py_function"),
        (lambda dataset, function: _right(dataset, function).prefetch(-1), "2 steps stand in it (ParallelMap, Pref"),
        (lambda dataset, function: _right(dataset, function).take(1000), "2 steps stand in it (ParallelMap, Take)"),
        (_untuned, "options.autotune.enabled is False, and nobody asked"),
        (_known_as_twelve, "expected to contain 12 elements"),
        (_counted_behind_a_lock, "to each element, one after the other"),
    ],
    "04.2": [
        (lambda rate, cpu_ms: rate * cpu_ms, "milliseconds"),
        (lambda rate, cpu_ms: 1000 / cpu_ms, "one core"),
        (lambda rate, cpu_ms: 1000 / (rate * cpu_ms), "invert"),
        (lambda rate, cpu_ms: rate / cpu_ms, "times"),
        (lambda rate, cpu_ms: -(-rate * cpu_ms // 1000), "rounded"),
        (lambda rate, cpu_ms: max(1, rate * cpu_ms / 1000), "a part of a core"),
        (lambda rate, cpu_ms: round(rate * cpu_ms / 1000, 1), "do not round"),
    ],
    "04.3": [
        (lambda free, gil, cores: (free + gil) / (gil + free / cores), "meanwhile"),
        (lambda free, gil, cores: (free + gil) / gil, "more cores"),
        (lambda free, gil, cores: cores, "one thread"),
        (lambda free, gil, cores: max(cores, (free + gil) / gil), "the looser of the two"),
        (lambda free, gil, cores: gil / (free + gil), "share"),
        (lambda free, gil, cores: min(cores, round((free + gil) / gil)), "do not round"),
        (lambda free, gil, cores: min(cores, int((free + gil) / gil)), "you return 1×, expected 1.5×"),
    ],
}


def _in_a_function(dataset, function):
    import tensorflow as tf

    return tf.function(lambda d: _right(d, function))(dataset)


RIGHT = {
    "04.1": [
        _known_length,
        _in_a_function,
        _as_a_function,
        lambda dataset, function: dataset.map(lambda x: function(x), num_parallel_calls=-1, deterministic=True),
        lambda dataset, function: functools.partial(dataset.map, num_parallel_calls=-1, deterministic=True)(function),
    ],
    "04.2": [
        lambda rate, cpu_ms: rate / (1000 / cpu_ms),
        lambda rate, cpu_ms: np.multiply(rate, cpu_ms) * 1e-3,
        lambda rate, cpu_ms: Fraction(rate) * Fraction(cpu_ms) / 1000,
        lambda rate, cpu_ms: math.prod((rate, cpu_ms, 0.001)),
        lambda rate, cpu_ms: cpu_ms / (1000 / rate),
    ],
    "04.3": [
        lambda free, gil, cores: (free + gil) / max(gil, (free + gil) / cores),
        lambda free, gil, cores: sorted([cores, 1 + free / gil])[0],
        lambda free, gil, cores: cores if cores * gil < free + gil else 1 + free / gil,
        lambda free, gil, cores: 1 / max(1 / cores, gil / (free + gil)),
        _through_tensors,
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["04.2"] += [
    (lambda rate, ms: rate * ms // 1000, "not rounded"),
    (lambda rate, ms: rate * ms / 1e6, "twice"),
]
WRONG["04.3"] += [
    (lambda free, gil, cores: min(cores, free / gil), "free + GIL over GIL"),
    (lambda free, gil, cores: min(cores - 1, (free + gil) / gil), "count all cores"),
]


def _called_beforehand(dataset, function):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices([function(x) for x in dataset])


def _flat(dataset, function):
    import tensorflow as tf

    return dataset.flat_map(lambda x: tf.data.Dataset.from_tensors(function(x)))


def _inside(dataset, function):
    import tensorflow as tf

    return dataset.flat_map(lambda x: tf.data.Dataset.from_tensors(x).map(function))


WRONG["04.1"] += [
    (_called_beforehand, "there is no map in it"),
    (_flat, "there is no map in it"),
    (_inside, "the map stands inside of another step"),
]
WRONG["04.2"] += [(lambda rate, ms: 1000 / rate, "each image may take")]
WRONG["04.3"] += [(lambda free, gil, cores: min(cores, (free + gil) / free), "not the free one")]
