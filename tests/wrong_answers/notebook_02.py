"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

import numpy as np


def _known_length(dataset):
    import tensorflow as tf

    return dataset.prefetch(2).apply(tf.data.experimental.assert_cardinality(len(dataset)))


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

RIGHT = {"02.1": [_known_length]}
