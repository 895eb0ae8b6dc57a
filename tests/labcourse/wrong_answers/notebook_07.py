"""Right shape, wrong idea: what students hand in for notebook 07, and a word of the hint that must come back."""

import math

import numpy as np


def parsed(serialized, image="photo", label="class", shape=()):
    import tensorflow as tf

    spec = {image: tf.io.FixedLenFeature(shape, tf.string), label: tf.io.FixedLenFeature(shape, tf.int64)}
    return tf.io.parse_single_example(serialized, spec)


def pair(serialized, **options):
    found = parsed(serialized, **options)
    return found["photo"], found["class"]


def blackened(image, rows, columns):
    import numpy as np

    image = np.array(image)
    image[rows, columns] = 0
    return image


def sparse(serialized):
    import tensorflow as tf

    spec = {"photo": tf.io.VarLenFeature(tf.string), "class": tf.io.VarLenFeature(tf.int64)}
    found = tf.io.parse_single_example(serialized, spec)
    return found["photo"], found["class"]


def with_label(record, change):
    import tensorflow as tf

    image, label = pair(record)
    return image, change(tf, label)


def decoded(record):
    import tensorflow as tf

    image, label = pair(record)
    return tf.io.decode_raw(image, tf.uint8), label


def square(image, top, left, size):
    return blackened(image, slice(top, top + size), slice(left, left + size))


def red_only(image, top, left, size):
    import numpy as np

    image = np.array(image)
    image[top : top + size, left : left + size, 0] = 0
    return image


def in_python(record):
    import tensorflow as tf

    found = tf.train.Example.FromString(record.numpy()).features.feature
    return found["photo"].bytes_list.value[0], found["class"].int64_list.value[0]


def stripped(record):
    import tensorflow as tf

    image, label = pair(record)
    return tf.strings.strip(image), label


def made_up(record):
    import tensorflow as tf

    spec = {"photo": tf.io.FixedLenFeature([], tf.string, b""), "class": tf.io.FixedLenFeature([], tf.int64, 0)}
    found = tf.io.parse_single_example(record, spec)
    return found["photo"], found["class"]


def mask(height, width, top, left, size):
    import tensorflow as tf

    rows, columns = tf.range(height)[:, None], tf.range(width)[None]
    return ((rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size))[..., None]


def turned(image, top, left, size):
    import tensorflow as tf

    height, width, _ = image.shape
    inside = tf.reshape(mask(width, height, top, left, size), [height, width, 1])
    return tf.where(inside, 0.0, image)


def batchwise(record):
    import tensorflow as tf

    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_example(record[None], spec)
    return [found["photo"][0], found["class"][0]]


def in_sequence(record):
    import tensorflow as tf

    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    found, _ = tf.io.parse_single_sequence_example(record, context_features=spec)
    return found["photo"], found["class"]


WRONG = {
    "07.2": [
        (lambda record: parsed(record), "not dict"),
        (lambda record: parsed(record, image="image", label="label"), "image"),
        (lambda record: pair(record)[::-1], "yours: int64"),
        (lambda record: pair(record, shape=(1,)), "yours: object of the shape (1,)"),
        (decoded, "not decoded"),
        (sparse, "not a SparseTensor:"),
        (in_python, "but not in a map"),
        (lambda record: with_label(record, lambda tf, label: tf.cast(label, tf.uint8)), "of class 1000 you return"),
        (stripped, "do not strip them"),
        (made_up, "a record without class is"),
    ],
    "07.3": [
        (lambda im, top, left, size: im[top : top + size, left : left + size], "shape"),
        (lambda im, top, left, size: (square(im, top, left, size), 3), "the image alone, not a"),
        (lambda im, top, left, size: blackened(im, slice(top, top + size), slice(None)), "start and an end"),
        (
            lambda im, top, left, size: blackened(im, slice(left, left + size), slice(top, top + size)),
            "from [11, 20] to",
        ),
        (lambda im, top, left, size: square(im, top, left, size) * 0.5, "other pixels changed"),
        (red_only, "all three colours"),
        (turned, "for (13, 12, 12) of 45 x 30 pixels"),
    ],
}

RIGHT = {
    "07.1": [
        lambda total, servers: np.clip(total // 10, servers, 10 * servers),
        lambda total, servers: math.floor(max(servers, min(10.0 * servers, total / 10))),
    ],
    "07.2": [
        batchwise,
        in_sequence,
    ],
    "07.3": [
        square,
        lambda im, *place: im * (1 - np.float32(mask(*im.shape[:2], *place))),
    ],
}
