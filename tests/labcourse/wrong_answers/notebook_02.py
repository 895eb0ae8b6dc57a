"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

import functools
import math
import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np


def _known_length(dataset):
    import tensorflow as tf

    return dataset.prefetch(2).apply(tf.data.experimental.assert_cardinality(len(dataset)))


def _as_floats(dataset):
    import tensorflow as tf

    return dataset.map(lambda x: tf.cast(x, tf.float32)).prefetch(2)


def _sparse(dataset):
    import tensorflow as tf

    return dataset.map(tf.sparse.from_dense).prefetch(2)


def _ragged(dataset):
    import tensorflow as tf

    return dataset.map(lambda x: tf.RaggedTensor.from_row_lengths(x, [4])).prefetch(2)


def _in_a_function(dataset):
    import tensorflow as tf

    return tf.function(lambda d: d.prefetch(2))(dataset)


def _misshapen(dataset):
    import tensorflow as tf

    return dataset.map(lambda x: tf.ensure_shape(tf.numpy_function(lambda y: y, [x], tf.int64), [3])).prefetch(2)


def _as_texts(dataset):
    import tensorflow as tf

    return dataset.unbatch().map(tf.strings.as_string).prefetch(2)


def _in_any_order(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options).prefetch(2)


def _batched_as_before(dataset):
    return dataset.unbatch().ragged_batch(len(next(iter(dataset)))).prefetch(2)


def _options_around(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    return dataset.prefetch(2).with_options(options)


def _by_tensor(load, train):
    import tensorflow as tf

    return tf.reduce_sum([float(load), train]) / tf.reduce_max([float(load), train])


def _counted_bytes(depth, batch, height, width):
    return depth * np.broadcast_to(np.float32(0), (batch, height, width, 3)).size * np.dtype("f4").itemsize * 1e-6


WRONG = {
    "02.1": [
        (lambda dataset: dataset, "last step"),
        (lambda dataset: dataset.prefetch(-1), "two"),
        (lambda dataset: dataset.prefetch(2).map(lambda x: x), "last step"),
        (lambda dataset: dataset.unbatch().prefetch(2), "batches changed"),
        (lambda dataset: dataset.skip(1).prefetch(2), "batches changed"),
        (lambda dataset: dataset.take(1).concatenate(dataset.skip(2)).prefetch(2), "number 2 was [4, 5, 6, 7]"),
        (lambda dataset: dataset.repeat().prefetch(2), "never ends"),
        (lambda dataset: dataset.prefetch(2).prefetch(2), "more than two batches"),
        (lambda dataset: dataset.prefetch(100).prefetch(2), "more than two batches"),
        (lambda dataset: dataset.map(lambda x: x, num_parallel_calls=8).prefetch(2), "ParallelMap keeps finished"),
        (lambda dataset: dataset.shuffle(1).prefetch(2), "Shuffle keeps finished"),
        (lambda dataset: dataset.map(lambda x: (x, x)).prefetch(2), "pairs came out"),
        (lambda dataset: dataset.map(lambda x: {"x": x}).prefetch(2), "dicts came out"),
        (lambda dataset: dataset.map(lambda x: np.asarray(x)).prefetch(2), "not of NumPy"),
        (_as_floats, "they were int64 tensors, now float32 tensors"),
        (_ragged, "RaggedTensors came out"),
        (_sparse, "SparseTensors came out"),
        (_in_a_function, "without tf.function"),
        (_misshapen, "your answer raised InvalidArgumentError: Shape of tensor"),
        (_as_texts, "batches changed"),
        (lambda dataset: dataset.window(2).prefetch(2), "take away window()"),
        (lambda dataset: dataset.cache().prefetch(2), "cache() is left in your answer"),
        (lambda dataset: dataset.take(100).prefetch(2), "take(100) is left in your answer"),
        (lambda dataset: dataset.unbatch().batch(4).prefetch(2), "a number of the first ones is written into"),
        (lambda dataset: dataset.unbatch().ragged_batch(4).prefetch(2), "a number of the first ones is written into"),
        (_in_any_order, "options.deterministic is False, and nobody asked"),
    ],
    "02.2": [
        (lambda load, train: 2, "best case"),
        (lambda load, train: max(load, train) / (load + train), "inverse"),
        (lambda load, train: (load + train) / min(load, train), "slower"),
        (lambda load, train: round((load + train) / max(load, train), 1), "do not round"),
    ],
    "02.3": [
        (lambda depth, batch, height, width: depth * batch * height * width * 3 / 1e6, "four"),
        (lambda depth, batch, height, width: depth * batch * height * width * 4 / 1e6, "three"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12, "bytes"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12 / 2**20, "MiB"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12 // 10**6, "do not round"),
    ],
}

RIGHT = {
    "02.1": [
        _known_length,
        _batched_as_before,
        _options_around,
        lambda dataset: dataset.take(-1).skip(0).prefetch(buffer_size=1 + 1, name="two"),
        lambda dataset: dataset.apply(lambda batches: batches.prefetch(2)),
    ],
    "02.2": [
        lambda load, train: 1 + min(load, train) / max(load, train),
        lambda load, train: Fraction(load + train, max(load, train)),
        lambda load, train: min(1 + load / train, 1 + train / load),
        _by_tensor,
        lambda *times: sum(times) / sorted(times)[1],
    ],
    "02.3": [
        lambda *sizes: math.prod(sizes) * 3 * 4 / 1e6,
        lambda depth, batch, height, width: 3 * height * width / 250_000 * batch * depth,
        _counted_bytes,
        lambda depth, batch, height, width: Decimal(12 * depth * batch * height * width) / 10**6,
        lambda *sizes: functools.reduce(operator.mul, sizes, 12) / 10**6,
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["02.3"] += [
    (lambda d, b, h, w: b * h * w * 12 / 1e6, "one batch"),
    (lambda d, b, h, w: (d + 1) * b * h * w * 12 / 1e6, "as it is deep"),
    (lambda d, b, h, w: d * b * h * h * 12 / 1e6, "need not be equal"),
    (lambda d, b, h, w: d * b * 224 * 224 * 12 / 1e6, "do not write 224"),
    (lambda d, b, h, w: d * b * h * w * 96 / 1e6, "megabits"),
]


WRONG["02.2"] += [
    (lambda load, train: 1 - max(load, train) / (load + train), "share of time that is saved"),
    (lambda load, train: (load + train) / max(load, train) - 1, "one more"),
    (lambda load, train: min(load, train), "time that is saved"),
]
WRONG["02.3"] += [
    (lambda d, b, h, w: d * b * h * w * 6 / 1e6, "not two"),
    (lambda d, b, h, w: d * b * h * w * 16 / 1e6, "no fourth channel"),
    (lambda d, b, h, w: d * b * h * w * 12 / 1e9, "GB"),
    (lambda d, b, h, w: d * b * w * w * 12 / 1e6, "need not be equal"),
    (lambda d, b, h, w: d * h * w * 12 / 1e6, "several images"),
    (lambda d, b, h, w: (d - 1) * b * h * w * 12 / 1e6, "expected"),
]
