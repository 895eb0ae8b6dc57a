"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

import math
from fractions import Fraction

import numpy as np


def _known_length(dataset):
    import tensorflow as tf

    return dataset.prefetch(2).apply(tf.data.experimental.assert_cardinality(len(dataset)))


def _as_floats(dataset):
    import tensorflow as tf

    return dataset.map(lambda x: tf.cast(x, tf.float32)).prefetch(2)


def _in_a_function(dataset):
    import tensorflow as tf

    return tf.function(lambda d: d.prefetch(2))(dataset)


def _as_texts(dataset):
    import tensorflow as tf

    return dataset.unbatch().map(tf.strings.as_string).prefetch(2)


def _in_any_order(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options).prefetch(2)


def _by_tensor(load, train):
    import tensorflow as tf

    return tf.reduce_sum([float(load), train]) / tf.reduce_max([float(load), train])


def _counted_bytes(depth, batch, height, width):
    return depth * np.broadcast_to(np.float32(0), (batch, height, width, 3)).size * np.dtype("f4").itemsize * 1e-6


WRONG = {
    "02.1": [
        (lambda dataset: dataset, "last step"),
        (lambda dataset: dataset.prefetch(-1), "the task says two batches"),
        (lambda dataset: dataset.unbatch().prefetch(2), "batch the elements"),
        (lambda dataset: dataset.skip(1).prefetch(2), "drop_remainder, take,"),
        (lambda dataset: dataset.repeat().prefetch(2), "look for a repeat or an"),
        (lambda dataset: dataset.prefetch(2).prefetch(2), "one buffer of two at the"),
        (lambda dataset: dataset.map(lambda x: x, num_parallel_calls=8).prefetch(2), "ParallelMap keeps finished"),
        (lambda dataset: dataset.map(lambda x: (x, x)).prefetch(2), "expected single tensors"),
        (lambda dataset: dataset.map(lambda x: np.asarray(x)).prefetch(2), "not of NumPy"),
        (_as_floats, "the dtype is float"),
        (_in_a_function, "without tf.function"),
        (_as_texts, "the dtype is string,"),
        (lambda dataset: dataset.window(2).prefetch(2), "take away window()"),
        (lambda dataset: dataset.cache().prefetch(2), "cache() is left in your"),
        (lambda dataset: dataset.take(100).prefetch(2), "take(100) is left in your answer"),
        (_in_any_order, "options.deterministic is"),
    ],
}

RIGHT = {
    "02.1": [
        _known_length,
        lambda dataset: dataset.take(-1).skip(0).prefetch(buffer_size=1 + 1, name="two"),
    ],
    "02.2": [
        lambda load, train: Fraction(load + train, max(load, train)),
        _by_tensor,
    ],
    "02.3": [
        lambda *sizes: math.prod(sizes) * 3 * 4 / 1e6,
        _counted_bytes,
    ],
}
