"""Right shape, wrong idea: what students hand in for notebook 12, and a word of the hint that must come back."""

import math


def _records(labels=2, label=1, shape=(3, 32, 32), order=(1, 2, 0), first=2, dtype="int64", length=None):
    """Return a reader of CIFAR-100 that is right by default."""

    def cifar100(path):
        import tensorflow as tf

        def split(record):
            values = tf.io.decode_raw(record, tf.uint8)
            image = tf.reshape(values[first : first + 3072], shape)
            image = tf.transpose(image, order) if order else image
            return image, tf.cast(values[label], dtype)

        return tf.data.FixedLengthRecordDataset(path, length or labels + 3072).map(split)

    return cifar100


def _unlabelled(path):
    return _records()(path).map(lambda image, label: image)


def _stacked(path):
    """Take the planes one by one, and look at bytes with substr."""
    import tensorflow as tf

    def split(record):
        planes = [
            tf.reshape(tf.io.decode_raw(tf.strings.substr(record, 2 + 1024 * k, 1024), tf.uint8), [32, 32])
            for k in range(3)
        ]
        label = tf.io.decode_raw(tf.strings.substr(record, 1, 1), tf.uint8)[0]
        return tf.stack(planes, axis=-1), tf.cast(label, tf.int64)

    return tf.data.FixedLengthRecordDataset([path], 3074).map(split, num_parallel_calls=2)


def _query(text, types=("int64",)):
    def part_of(path, workers, worker):
        import tensorflow as tf

        query = text.format(workers=workers, worker=worker)
        return tf.data.experimental.SqlDataset("sqlite", path, query, tuple(map(tf.as_dtype, types)))

    return part_of


_ALL = "select label from photos order by id"


_RIGHT = "select label from photos where id % {workers} = {worker} order by id"


def _sharded(path, workers, worker):
    return _query(_ALL)(path, workers, worker).shard(workers, worker)


def _in_python(path, workers, worker):
    """Let Python's own sqlite3 ask, in a generator."""
    import sqlite3

    import tensorflow as tf

    def labels():
        query = "select label from photos where id % ? = ? order by id"
        for (label,) in sqlite3.connect(path, check_same_thread=False).execute(query, (workers, worker)):
            yield label

    return tf.data.Dataset.from_generator(labels, output_signature=tf.TensorSpec([], tf.int64))


def _counted(photos_per_s, request_ms):
    """Add connections until they are enough."""
    number = 1
    while number * 1000 < photos_per_s * request_ms:
        number += 1
    return float(number)


def _backwards(path):
    return _records()(path).map(lambda image, label: (image[..., ::-1], label))


WRONG = {
    "12.1": [
        (_records(labels=1), "two labels and three planes are 3,074 bytes"),
        (_records(label=0), "coarse class"),
        (_records(shape=(32, 32, 3), order=None), "colour by colour"),
        (_records(order=(2, 1, 0)), "rows and columns are"),
        (_records(order=None), "expected (32, 32, 3)"),
        (_records(first=1), "apply every stage once,"),
        (_unlabelled, "the elements are single"),
        (_backwards, "begins with red"),
    ],
    "12.2": [
        (_sharded, "every worker reads the"),
        (_query(_ALL), "all rows came; where id %"),
        (_query("select label from photos where id % {workers} = {worker}"), "promises none"),
        (_query(_RIGHT + " desc"), "the task says to keep it"),
        (_query("select label from photos where (id - 1) % {workers} = {worker} order by id"), "these are the rows of"),
        (_query("select id from photos where id % {workers} = {worker} order by id"), "the task asks for their"),
    ],
}

RIGHT = {
    "12.1": [_stacked, lambda path: _records()(path).prefetch(2)],
    "12.2": [_in_python, lambda *given: _query(_RIGHT)(*given).prefetch(2)],
    "12.3": [_counted, lambda photos_per_s, request_ms: math.ceil(photos_per_s * request_ms / 1000)],
}
