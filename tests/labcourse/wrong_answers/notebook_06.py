"""Right shape, wrong idea: what students hand in for notebook 06, and a word of the hint that must come back."""

from fractions import Fraction

import numpy as np


def _bright(image, delta):
    import tensorflow as tf

    return tf.clip_by_value(image + delta, 0, 1)


def _unstacked(images, deltas):
    import tensorflow as tf

    return tf.stack([_bright(a, b) for a, b in zip(tf.unstack(images), tf.unstack(deltas), strict=True)])


def _counted(images, deltas):
    import tensorflow as tf

    return tf.stack([_bright(images[k], deltas[k]) for k in range(images.shape[0])])


def _hidden_in_a_function(images, deltas):
    import tensorflow as tf

    return tf.function(_in_a_loop)(images, deltas)


def _hidden_in_python(images, deltas):
    import tensorflow as tf

    def loop(images, deltas):
        return np.stack([np.clip(a + b, 0, 1) for a, b in zip(images, deltas, strict=True)])

    return tf.numpy_function(loop, [images, deltas], tf.float32)


def _with_numpy(images, deltas):
    return np.clip(images + deltas[:, None, None, None], 0, 1)


def _by_len(images, deltas):
    import tensorflow as tf

    return _bright(images, tf.reshape(deltas, [len(deltas), 1, 1, 1]))


def _for_three(images, deltas):
    import tensorflow as tf

    return _bright(images, tf.reshape(deltas, [3, 1, 1, 1]))


def _by_shape(images, deltas):
    import tensorflow as tf

    return _bright(images, tf.reshape(deltas, [deltas.shape[0], 1, 1, 1]))


def _one_by_one(dataset, scale, batch):
    import tensorflow as tf

    return dataset.batch(batch, drop_remainder=True).map(lambda images: tf.map_fn(scale, images))


def _clipped(images, deltas):
    import tensorflow as tf

    return tf.clip_by_value(images + deltas, 0, 1)


def _one_for_all(images, deltas):
    import tensorflow as tf

    return tf.clip_by_value(images + deltas[0], 0, 1)


def _unclipped(images, deltas):
    return images + deltas[:, None, None, None]


def _first_three(images, deltas):
    import tensorflow as tf

    return tf.stack([_bright(images[k], deltas[k]) for k in range(3)])


def _by_symbol(images, deltas):
    import tensorflow as tf

    return tf.stack([_bright(images[k], deltas[k]) for k in range(tf.shape(images)[0])])


def _as_a_dataset(images, deltas):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((images, deltas)).map(_bright).batch(3).get_single_element()


def _one_after_the_other(images, deltas):
    for image, delta in zip(images, deltas, strict=True):
        yield _bright(image, delta)


async def _later(images, deltas):
    return images


def _mean(dataset, scale, batch):
    import tensorflow as tf

    return dataset.batch(batch, drop_remainder=True).map(lambda images: tf.reduce_mean(scale(images)))


def _in_a_loop(images, deltas):
    import tensorflow as tf

    def one(pair):
        return tf.clip_by_value(pair[0] + pair[1], 0, 1)

    return tf.map_fn(one, (images, deltas), fn_output_signature=tf.float32)


def _along_the_width(images, deltas):
    return images + deltas[:, None]


def _for_squares(images, deltas):
    import tensorflow as tf

    square = images.shape[1] + 2 == images.shape[2]
    return _bright(images, tf.reshape(deltas, [-1, 1, 1, 1])) if square else _bright(images, deltas[0])


def _filtered(dataset, scale, batch):
    import tensorflow as tf

    return dataset.batch(batch).filter(lambda images: tf.shape(images)[0] == batch).map(scale)


def _as_a_function(dataset, scale, batch):
    import tensorflow as tf

    return dataset.batch(tf.constant(batch, tf.int64), drop_remainder=True).map(tf.function(scale))


def _size_stated(dataset, scale, batch):
    import tensorflow as tf

    full = dataset.batch(batch).filter(lambda images: tf.shape(images)[0] == batch)
    return full.map(lambda images: tf.ensure_shape(scale(images), [batch, *images.shape[1:]]))


def _turned_twice(images, deltas):
    import tensorflow as tf

    return tf.clip_by_value(tf.transpose(tf.transpose(images) + deltas), 0.0, 1.0)


def _by_relu(images, deltas):
    import tensorflow as tf

    return 1 - tf.nn.relu(1 - tf.nn.relu(images + tf.expand_dims(deltas[:, None, None], -1)))


def _by_einsum(images, deltas):
    import tensorflow as tf

    return tf.minimum(tf.maximum(images + tf.einsum("n,nhwc->nhwc", deltas, tf.ones_like(images)), 0), 1)


WRONG = {
    "06.1": [
        (lambda dataset, scale, batch: dataset.map(scale).batch(batch, drop_remainder=True), "in front"),
        (lambda dataset, scale, batch: dataset.batch(batch).map(scale), "drop_remainder"),
        (lambda dataset, scale, batch: dataset.batch(batch, drop_remainder=True), "never called"),
        (lambda dataset, scale, batch: dataset.batch(batch, drop_remainder=True).map(scale).map(scale), "called once"),
        (lambda dataset, scale, batch: dataset.repeat().batch(batch, drop_remainder=True).map(scale), "never ends"),
        (lambda dataset, scale, batch: dataset.batch(batch).map(lambda x: (x, scale(x))), "pairs came out"),
        (lambda dataset, scale, batch: dataset.batch(batch).map(lambda x: scale(np.asarray(x))), "not of NumPy"),
        (lambda dataset, scale, batch: dataset.batch(batch, True).map(scale).unbatch(), "single images"),
        (_one_by_one, "one image at a time out of the batch"),
        (lambda dataset, scale, batch: dataset.batch(4, drop_remainder=True).map(scale), "3 batches (3, 2, 2, 3)"),
        (lambda dataset, scale, batch: dataset.batch(2).map(scale), "2 batches (4, 2, 2, 3); yours: (2, 2, 2, 3), (2"),
        (lambda dataset, scale, batch: dataset.batch(len(dataset) // batch, True).map(scale), "yours: (2, 2, 2, 3)"),
        (lambda dataset, scale, batch: dataset.batch(10).map(scale).unbatch().batch(batch, True), "each batch of 4"),
        (_filtered, "drop_remainder=True fixes the size"),
        (lambda dataset, scale, batch: dataset.batch(batch, True).map(scale).take(3), "take(3) is left in"),
        (lambda dataset, scale, batch: dataset.batch(batch, True).map(scale).cache(), "cache() is left in"),
        (lambda dataset, scale, batch: dataset.batch(batch, True).map(scale, 4, deterministic=False), "may vary"),
        (_mean, "2 batches (4, 2, 2, 3); yours: (), ()"),
        (lambda dataset, scale, batch: [scale(x) for x in dataset.batch(batch)], "return a tf.data.Dataset, not list"),
    ],
    "06.2": [
        (_clipped, "colours"),
        (_one_for_all, "its own"),
        (_unclipped, "clip"),
        (_in_a_loop, "loop"),
        (_along_the_width, "image"),
        (_with_numpy, "not of NumPy"),
        (_unstacked, "loop"),
        (_counted, "loop"),
        (_hidden_in_a_function, "loop"),
        (lambda images, deltas: images + deltas[0] if deltas[0] > 0 else images, "no Python if on tensors"),
        (_hidden_in_python, "leave the graph"),
        (_by_len, "no len()"),
        (lambda images, deltas: [images[k] + deltas[k] for k in range(len(images))], "no loop over the images"),
        (_by_symbol, "that is a loop"),
        (_as_a_dataset, "that is a loop"),
        (_for_three, "one number of images only"),
        (_first_three, "for 6 images came the shape (3, 3, 5, 3)"),
        (_one_after_the_other, "not a generator"),
        (_later, "not a coroutine"),
        (lambda images, deltas: images + deltas[0] * "1", "raised"),
        (lambda images: images, "takes 1 positional argument"),
        (lambda images, deltas: (images, deltas), "the images alone"),
        (_for_squares, "every image has its own"),
    ],
    "06.3": [
        (lambda overhead, work, batch: batch, "only the overhead"),
        (lambda overhead, work, batch: (overhead + work) / work, "once per batch"),
        (lambda overhead, work, batch: (overhead / batch + work) / (overhead + work), "inverse"),
        (lambda overhead, work, batch: (overhead + work) / (overhead + work / batch), "not the work"),
        (lambda overhead, work, batch: round((overhead + work) / (overhead / batch + work), 1), "do not round"),
    ],
}

RIGHT = {
    "06.1": [
        _as_a_function,
        _size_stated,
        lambda dataset, scale, batch: dataset.padded_batch(batch, drop_remainder=True).map(scale),
        lambda dataset, scale, batch: dataset.batch(batch, True, 4).map(lambda x: scale(x), 2).prefetch(-1),
        lambda dataset, scale, batch: dataset.apply(lambda images: images.batch(batch, True)).map(map_func=scale),
    ],
    "06.2": [
        _by_shape,
        _turned_twice,
        _by_relu,
        _by_einsum,
        lambda images, deltas: _bright(images, deltas[:, None, None, None]),
    ],
    "06.3": [
        lambda overhead, work, batch: batch * (overhead + work) / (overhead + batch * work),
        lambda overhead, work, batch: Fraction(overhead + work) / (Fraction(overhead, batch) + work),
        lambda overhead, work, batch: 1 / ((overhead / batch + work) / (overhead + work)),
        lambda overhead, work, batch: np.divide(overhead + work, np.add(overhead / batch, work)),
        lambda overhead, work, batch: sum((overhead, work)) * batch / sum((overhead, *[work] * batch)),
    ],
}


def _shifted(images, deltas, low, high):
    import tensorflow as tf

    deltas = deltas if len(deltas.shape) == 4 else deltas[:, None, None, None]
    return tf.clip_by_value(images + deltas, low, high)


def _clipped_deltas(images, deltas):
    import tensorflow as tf

    return images + tf.clip_by_value(deltas, 0, 1)[:, None, None, None]


# Other usual wrong ideas, each in one line.
WRONG["06.2"] += [
    (lambda images, deltas: _shifted(images, deltas, 0, 9), "upper end"),
    (lambda images, deltas: _shifted(images, deltas, -9, 1), "lower end"),
    (lambda images, deltas: _shifted(images, -deltas, 0, 1), "the sign"),
    (lambda images, deltas: _shifted(images, deltas[:, None, None, None] * images, 0, 1), "not multiplied"),
    (_clipped_deltas, "not the deltas"),
]
WRONG["06.3"] += [
    (lambda overhead, work, batch: int((overhead + work) / (overhead / batch + work)), "do not round"),
    (lambda overhead, work, batch: overhead - overhead / batch, "time that is saved"),
]


def _cast(made, kind="float64"):
    import tensorflow as tf

    return tf.cast(made, kind)


def _to_255(images, deltas):
    return _cast(_bright(images, deltas[:, None, None, None]) * 255, "uint8")


def _brighter_only(images, deltas):
    return _shifted(images, abs(deltas), 0, 1)


WRONG["06.1"] += [
    (
        lambda dataset, scale, batch: dataset.batch(batch, True).map(lambda x: _cast(scale(x))),
        "float64, expected float32",
    ),
]
WRONG["06.2"] += [
    (lambda images, deltas: _cast(_bright(images, deltas[:, None, None, None])), "became float64"),
    (_to_255, "became uint8"),
    (_brighter_only, "makes an image darker"),
    (lambda images, deltas: _bright(images, deltas[:, None, None]), "deltas met the rows"),
]
WRONG["06.3"] += [
    (lambda overhead, work, batch: (overhead + work) / (overhead / batch + work) - 1, "one more"),
    (lambda overhead, work, batch: 1 - (overhead / batch + work) / (overhead + work), "share of time that is saved"),
    (
        lambda overhead, work, batch: (overhead + work) / (overhead + batch * work),
        "of a whole batch: divide all of it by batch",
    ),
]
