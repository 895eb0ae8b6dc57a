"""Right shape, wrong idea: what students hand in for notebook 07, and a word of the hint that must come back."""


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


def unparsed(serialized):
    import tensorflow as tf

    features = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    return features["photo"], features["class"]


def inverse(image, top, left, size):
    return image - square(image, top, left, size)


def thrown_away(image, top, left, size):
    blackened(image, slice(top, top + size), slice(left, left + size))
    return image


def with_label(record, change):
    import tensorflow as tf

    image, label = pair(record)
    return image, change(tf, label)


def decoded(record):
    import tensorflow as tf

    image, label = pair(record)
    return tf.io.decode_raw(image, tf.uint8), label


def as_bytes(image):
    return (image * 255).astype("uint8")


def square(image, top, left, size):
    return blackened(image, slice(top, top + size), slice(left, left + size))


def red_only(image, top, left, size):
    import numpy as np

    image = np.array(image)
    image[top : top + size, left : left + size, 0] = 0
    return image


WRONG = {
    "07.1": [
        (lambda total, servers: 10 * servers, "below 10 MB"),
        (lambda total, servers: min(10 * servers, total // 10), "each needs one"),
        (lambda total, servers: total // 10, "more than ten"),
        (lambda total, servers: max(10 * servers, total // 10), "more than ten"),
        (lambda total, servers: max(servers, min(10 * servers, total / 10)), "whole"),
        (lambda total, servers: max(servers, min(10 * servers, -(-total // 10))), "rounded up"),
    ],
    "07.2": [
        (lambda record: parsed(record, image="image", label="label"), "image"),
        (lambda record: parsed(record), "dict"),
        (lambda record: pair(record)[::-1], "swapped"),
        (lambda record: pair(record, shape=(1,)), "shape"),
        (lambda record: pair(record)[0], "pair"),
        (lambda record: (pair(record)[0], 3), "class"),
        (lambda record: with_label(record, lambda tf, label: tf.strings.as_string(label)), "yours is text"),
        (lambda record: with_label(record, lambda tf, label: tf.cast(label, tf.float32)), "yours is float32"),
        (decoded, "decoded already"),
        (sparse, "not a SparseTensor: return what a FixedLenFeature"),
        (unparsed, "not a FixedLenFeature: return what a FixedLenFeature"),
        (lambda record: (*pair(record), record), "not a tuple of 3"),
    ],
    "07.3": [
        (thrown_away, "thrown away"),
        (lambda im, top, left, size: blackened(im, slice(top, size), slice(left, size)), "thrown away"),
        (lambda im, top, left, size: blackened(im, slice(top, top + size), slice(None)), "start and an end"),
        (
            lambda im, top, left, size: blackened(im, slice(left, left + size), slice(top, top + size)),
            "from [11, 20] to",
        ),
        (lambda im, top, left, size: as_bytes(square(im, top, left, size)), "became uint8"),
        (lambda im, top, left, size: square(im, top, left, size + 1), "expected the 64 from [20, 11] to [27, 18]"),
        (lambda im, top, left, size: square(im, top, left, size) * 0.5, "other pixels changed"),
        (red_only, "all three colours"),
        (inverse, "expected the 64 from [20, 11] to [27, 18]"),
        (lambda im, top, left, size: (square(im, top, left, size), 3), "the image alone, not a tuple"),
        (lambda im, top, left, size: im[top : top + size, left : left + size], "shape"),
    ],
}
