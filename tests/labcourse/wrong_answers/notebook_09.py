"""Right shape, wrong idea: what students hand in for notebook 09, and a word of the hint that must come back."""

import atexit
import shutil
import tempfile

import numpy as np

_FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _finished(decoded, augment):
    return decoded.repeat(2).batch(4, drop_remainder=True).map(augment).prefetch(1)


def _two_epochs_in_a_flat_map(elements, decode, augment):
    import tensorflow as tf

    decoded = elements.map(decode).cache()
    epochs = tf.data.Dataset.range(2).flat_map(lambda _: decoded)
    return epochs.batch(4, drop_remainder=True).map(augment).prefetch(1)


def _in_one_file(elements, decode, augment):
    return _finished(elements.map(decode).cache(f"{_FOLDER}/kept"), augment)


def _parallel_last(elements, decode, augment):
    decoded = elements.map(decode, num_parallel_calls=-1).cache()
    return decoded.repeat(2).batch(4, drop_remainder=True).map(augment, num_parallel_calls=-1)


def _numbered(elements, decode, augment):
    decoded = elements.map(decode).cache().repeat(2).enumerate()
    return decoded.batch(4, drop_remainder=True).map(lambda _, x: augment(x)).prefetch(2)


def _undecoded(elements, decode, augment):
    return _finished(elements.map(lambda x: x * 10).cache(), augment)


def _cached_last(elements, decode, augment):
    return elements.map(decode).batch(4, drop_remainder=True).map(augment).cache().repeat(2).prefetch(1)


def _not_cached(elements, decode, augment):
    return elements.repeat(2).map(decode).batch(4, drop_remainder=True).map(augment).prefetch(1)


def _not_ahead(elements, decode, augment):
    return elements.map(decode).cache().repeat(2).batch(4, drop_remainder=True).map(augment)


def _one_by_one(elements, decode, augment):
    return elements.map(decode).cache().repeat(2).map(augment).batch(4, drop_remainder=True).prefetch(1)


def _remainder(elements, decode, augment):
    return elements.map(decode).cache().batch(4).repeat(2).map(augment).prefetch(1)


def _ahead_by_nothing(elements, decode, augment):
    return _not_ahead(elements, decode, augment).prefetch(0)


def _shuffled_over_both(elements, decode, augment):
    mixed = elements.map(decode).cache().repeat(2).shuffle(100)
    return mixed.batch(4, drop_remainder=True).map(augment).prefetch(1)


WRONG = {
    "09.2": [
        (lambda elements, decode, augment: _finished(elements.batch(4).map(decode), augment), "decode got a batch"),
        (_cached_last, "froze"),
        (_not_cached, "cache what it returns"),
        (_not_ahead, "prefetch"),
        (_one_by_one, "one element"),
        (_remainder, "True drops what is left"),
        (_ahead_by_nothing, "while this one trains"),
        (lambda elements, decode, augment: elements.batch(4).map(lambda x: (x, x)), "expected single tensors"),
        (_two_epochs_in_a_flat_map, "labkit cannot read this"),
        (_in_one_file, "keep elements in memory"),
        (_undecoded, "the values are not decode"),
        (lambda *given: _parallel_last(*given).take(5).prefetch(1), "take(5) is left in"),
        (lambda *given: _parallel_last(*given).cache().prefetch(1), "cache behind repeat"),
        (_shuffled_over_both, "the epochs are mixed"),
    ],
}

RIGHT = {
    "09.1": [
        lambda fetch, prep, train: (1 / train) / max(1 / fetch, 1 / prep, 1 / train),
        lambda *rates: np.min(rates) / rates[2],
    ],
    "09.2": [
        _parallel_last,
        _numbered,
    ],
}
