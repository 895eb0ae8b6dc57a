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


def as_an_image(record):
    import tensorflow as tf

    image, label = pair(record)
    return tf.io.decode_jpeg(image, channels=3), label


def as_bytes(image):
    return (image * 255).astype("uint8")


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


def masked_32(image, top, left, size):
    import tensorflow as tf

    return tf.where(mask(32, 32, top, left, size), 0.0, image)


def padded(image, top, left, size):
    import tensorflow as tf

    height, width, _ = image.shape
    around = [[top, height - top - size], [left, width - left - size], [0, 0]]
    return image * tf.pad(tf.zeros([size, size, 3]), around, constant_values=1)


def pieced(image, top, left, size):
    import tensorflow as tf

    middle, end = image[top : top + size], left + size
    middle = tf.concat([middle[:, :left], tf.zeros_like(middle[:, left:end]), middle[:, end:]], 1)
    return tf.concat([image[:top], middle, image[top + size :]], 0)


def assigned(image, top, left, size):
    import tensorflow as tf

    kept = tf.Variable(image)
    kept[top : top + size, left : left + size].assign(tf.zeros([size, size, 3]))
    return kept


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


def densified(record):
    import tensorflow as tf

    spec = {"photo": tf.io.VarLenFeature(tf.string), "class": tf.io.VarLenFeature(tf.int64)}
    found = tf.io.parse_single_example(record, spec)
    return tf.sparse.to_dense(found["photo"], default_value=b"")[0], tf.cast(found["class"].values[0], tf.int32)


def as_a_function(record):
    import tensorflow as tf

    return tf.function(pair)(record)


def out_of_graph(record):
    import tensorflow as tf

    def read(serialized):
        return in_python(serialized)

    image, label = tf.py_function(read, [record], [tf.string, tf.int64])
    return tf.ensure_shape(image, []), tf.ensure_shape(label, [])


WRONG = {
    "07.1": [
        (lambda total, servers: 10 * servers, "below 10 MB"),
        (lambda total, servers: min(10 * servers, total // 10), "each needs one"),
        (lambda total, servers: total // 10, "more than ten"),
        (lambda total, servers: max(10 * servers, total // 10), "more than ten"),
        (lambda total, servers: max(servers, min(10 * servers, total / 10)), "whole"),
        (lambda total, servers: max(servers, min(10 * servers, -(-total // 10))), "rounded up"),
        (lambda total, servers: max(servers, min(10 * servers, (total - 1) // 10)), "exactly 10 MB are large enough"),
        (lambda total, servers: max(servers, min(10 * servers, round(total / 10 - 0.4))), "rounded up"),
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
        (as_an_image, "decoded already"),
        (sparse, "not a SparseTensor: return what a FixedLenFeature"),
        (unparsed, "not a FixedLenFeature: return what a FixedLenFeature"),
        (lambda record: (*pair(record), record), "not a tuple of 3"),
        (in_python, "but not in a map"),
        (lambda record: with_label(record, lambda tf, label: tf.cast(label, tf.uint8)), "uint8 does not hold"),
        (stripped, "do not strip them"),
        (made_up, "a record without class is damaged"),
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
        (turned, "for (13, 12, 12) of 45 x 30 pixels"),
        (masked_32, "right for square images only"),
        (lambda im, top, left, size: square(im, top, left, min(size, 8)), "expected the 144 from [13, 12] to"),
        (lambda im, top, left, size: im[top : top + size, left : left + size], "shape"),
    ],
}

RIGHT = {
    "07.1": [
        lambda total, servers: sorted([servers, int(total / 10), 10 * servers])[1],
        lambda total, servers: np.clip(total // 10, servers, 10 * servers),
        lambda total, servers: max(servers, min(divmod(total, 10)[0], 10 * servers)),
        lambda total, servers: next(n for n in range(10 * servers, 0, -1) if total >= 10 * n or n == servers),
        lambda total, servers: math.floor(max(servers, min(10.0 * servers, total / 10))),
    ],
    "07.2": [batchwise, in_sequence, densified, as_a_function, out_of_graph],
    "07.3": [
        square,
        padded,
        pieced,
        assigned,
        lambda im, *place: im * (1 - np.float32(mask(*im.shape[:2], *place))),
    ],
}


WRONG["07.1"] += [
    (lambda total, servers: total / (10 * servers), "size of a shard"),
    (lambda total, servers: 10 * servers if total >= 100 * servers else servers, "is the least"),
]
WRONG["07.2"] += [
    (lambda record: with_label(record, lambda tf, label: label - 1), "of class 3 you return"),
    (lambda record: with_label(record, lambda tf, label: tf.cast(label, tf.int16)), "int16 does not hold"),
]
WRONG["07.3"] += [
    (lambda im, top, left, size: square(im, top, left, min(size, im.shape[1] - left - 1)), "for (3, 18, 12)"),
]
