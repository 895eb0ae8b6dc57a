"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

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
    ],
    "02.2": [
        (lambda load, train: 2, "best case"),
        (lambda load, train: max(load, train) / (load + train), "inverse"),
        (lambda load, train: (load + train) / min(load, train), "slower"),
    ],
    "02.3": [
        (lambda depth, batch, height, width: depth * batch * height * width * 3 / 1e6, "four"),
        (lambda depth, batch, height, width: depth * batch * height * width * 4 / 1e6, "three"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12, "bytes"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12 / 2**20, "MiB"),
    ],
}

RIGHT = {"02.1": [_known_length, lambda dataset: dataset.unbatch().ragged_batch(4).prefetch(2)]}
