"""Right shape, wrong idea: what students hand in for notebook 07, and a word of the hint that must come back."""

import numpy as np


def reader(path, photo="photo", label="class", change=None, first=0, name=True, **options):
    """Read a shard in the graph, and say which record lacks which field."""
    import tensorflow as tf

    fields = {photo: tf.io.VarLenFeature(tf.string), label: tf.io.VarLenFeature(tf.int64)}

    def parse(number, record):
        found = tf.io.parse_single_example(record, fields)
        checks = [
            tf.debugging.Assert(
                tf.size(found[field].values) > 0, ["record", number + first, "lacks", field if name else "a field"]
            )
            for field in fields
        ]
        with tf.control_dependencies(checks):  # else the value may be taken, and fail, before it is looked for
            pair = found[photo].values[0], found[label].values[0]
        return change(*pair) if change else pair

    return tf.data.TFRecordDataset(path).enumerate().map(parse, **options)


def plainly(path, **options):
    """Read a shard as the notebook does: the error names no record."""
    import tensorflow as tf

    spec = {"photo": tf.io.FixedLenFeature([], tf.string, **{k: b"" for k in options})}
    spec["class"] = tf.io.FixedLenFeature([], tf.int64, **{k: 0 for k in options})

    def parse(record):
        found = tf.io.parse_single_example(record, spec)
        return found["photo"], found["class"]

    return tf.data.TFRecordDataset(path).map(parse)


def in_python(path):
    """Read a shard record by record in Python, and let the error of TensorFlow say which field it is."""
    import tensorflow as tf

    spec = {"photo": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    for number, record in enumerate(tf.data.TFRecordDataset(path)):
        try:
            found = tf.io.parse_single_example(record, spec)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"record {number} of {path}: {error}") from None
        yield found["photo"], found["class"]


def with_tf(change):
    def changed(image, label):
        import tensorflow as tf

        return change(tf, image, label)

    return changed


def blackened(image, rows, columns):
    import numpy as np

    image = np.array(image)
    image[rows, columns] = 0
    return image


def square(image, top, left, size):
    return blackened(image, slice(top, top + size), slice(left, left + size))


def red_only(image, top, left, size):
    import numpy as np

    image = np.array(image)
    image[top : top + size, left : left + size, 0] = 0
    return image


def mask(height, width, top, left, size):
    import tensorflow as tf

    rows, columns = tf.range(height)[:, None], tf.range(width)[None]
    return ((rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size))[..., None]


def counted(dataset, expected, late=1):
    import tensorflow as tf

    return dataset.apply(tf.data.experimental.assert_cardinality(expected)) if late else dataset


def by_hand(dataset, expected, wrong=lambda seen, expected: seen != expected, words="{seen} of {expected} came"):
    seen = 0
    for element in dataset:
        seen += 1
        yield element
    if wrong(seen, expected):
        raise ValueError(words.format(seen=seen, expected=expected))


def listed(dataset, expected):
    elements = list(dataset)
    yield from elements
    assert len(elements) == expected, f"{len(elements)} of {expected}"


def before(dataset, expected):
    seen = sum(1 for _ in dataset)
    if seen != expected:
        raise ValueError(f"{seen} of {expected} records")
    return dataset


def too_early(dataset, expected):
    elements = list(dataset)
    if len(elements) != expected:
        raise ValueError(f"{len(elements)} of {expected} records")
    yield from elements


WRONG = {
    "07.2": [
        (lambda path: [1, 2], "return a pair (image, label), not int"),
        (plainly, "record 17 has no class, and the error does not say which record"),
        (lambda path: plainly(path, default_value=0), "record 17 has no class, and your reader makes a value up"),
        (lambda path: reader(path).ignore_errors(), "1 of 131 records left out without a word"),
        (lambda path: reader(path, first=1), "the error says 18: count the records from 0"),
        (lambda path: reader(path, name=False), "the error does not name the field"),
        (lambda path: reader(path, photo="image"), "the first shard is whole, and your answer raised"),
        (lambda path: reader(path).skip(91), "you return b'photo 91'"),
        (lambda path: reader(path, change=lambda image, label: (label, image)), "yours: int64"),
        (lambda path: reader(path, change=lambda image, label: (image[None], label)), "of the shape (1,)"),
        (lambda path: reader(path, change=lambda image, label: {"photo": image}), "not dict"),
        (lambda path: reader(path, change=with_tf(lambda tf, a, b: (tf.io.decode_raw(a, tf.uint8), b))), "not decoded"),
        (lambda path: reader(path, change=with_tf(lambda tf, a, b: (a, tf.cast(b, tf.uint8)))), "of class 1000 you"),
        (lambda path: reader(path, change=with_tf(lambda tf, a, b: (tf.strings.strip(a), b))), "do not strip them"),
        (lambda path: reader(path).repeat(), "the reader never ends"),
    ],
    "07.3": [
        (lambda im, top, left, size: im[top : top + size, left : left + size], "shape"),
        (lambda im, top, left, size: (square(im, top, left, size), 3), "the array alone, not a"),
        (
            lambda im, top, left, size: blackened(im, slice(left, left + size), slice(top, top + size)),
            "height and width are exchanged",
        ),
        (lambda im, top, left, size: square(im, top, left, size) * 0.5, "other pixels changed"),
        (red_only, "all three colours"),
    ],
    "07.4": [
        (lambda dataset, expected: dataset.take(expected), "nothing is raised: the job goes on"),
        (lambda dataset, expected: by_hand(dataset, expected, lambda a, b: a < b), "more records than expected"),
        (lambda dataset, expected: by_hand(dataset, expected, words="wrong"), "the error does not say both numbers"),
        (listed, "all are read before the first one is delivered"),
        (before, "10 are read: count while they pass"),
        (too_early, "only 0 are delivered before the error"),
        (lambda dataset, expected: by_hand(dataset.skip(1), expected), "not those of the dataset"),
        (lambda dataset, expected: by_hand(dataset, expected - 1), "nothing is wrong"),
        (lambda dataset, expected: 3, "not int"),
    ],
}

RIGHT = {
    "07.2": [reader, in_python, lambda path: reader(path, num_parallel_calls=4, deterministic=True).prefetch(2)],
    "07.4": [counted, by_hand],
    "07.3": [square, lambda im, *place: im * (1 - np.float32(mask(*im.shape[:2], *place)))],
}
