"""Right shape, wrong idea: what students hand in for notebook 06, and a word of the hint that must come back."""

import numpy as np


def _bright(image, delta):
    import tensorflow as tf

    return tf.clip_by_value(image + delta, 0, 1)


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


def _one_after_the_other(images, deltas):
    for image, delta in zip(images, deltas, strict=True):
        yield _bright(image, delta)


def _compiled(change):
    import tensorflow as tf

    return tf.function(change, jit_compile=True)


def _mean(dataset, change, size):
    import tensorflow as tf

    return dataset.batch(size, drop_remainder=True).map(_compiled(lambda images: tf.reduce_mean(change(images))))


def _in_a_loop(images, deltas):
    import tensorflow as tf

    def one(pair):
        return tf.clip_by_value(pair[0] + pair[1], 0, 1)

    return tf.map_fn(one, (images, deltas), fn_output_signature=tf.float32)


def _for_squares(images, deltas):
    import tensorflow as tf

    square = images.shape[1] + 2 == images.shape[2]
    return _bright(images, tf.reshape(deltas, [-1, 1, 1, 1])) if square else _bright(images, deltas[0])


def _as_a_function(dataset, change, size):
    """Compile a function around it, in which TensorFlow finds a call of its own."""
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def whole(images):
        return tf.function(change)(images)

    return dataset.batch(tf.constant(size, tf.int64), drop_remainder=True).map(whole)


def _cast(made):
    import tensorflow as tf

    return tf.cast(made, tf.float64)


WRONG = {
    "06.2": [
        (lambda dataset, change, size: dataset.map(_compiled(change)).batch(size, drop_remainder=True), "in front"),
        (lambda dataset, change, size: dataset.batch(size).map(_compiled(change)), "drop_remainder"),
        (lambda dataset, change, size: dataset.batch(size, drop_remainder=True), "never called"),
        (lambda dataset, change, size: dataset.batch(size, True).map(change), "jit_compile=True"),
        (_mean, "tuple index out of range"),
    ],
    "06.3": [
        (_in_a_loop, "loop"),
        (_with_numpy, "not of NumPy"),
        (lambda images, deltas: images + deltas[0] if deltas[0] > 0 else images, "no Python if on tensors"),
        (_hidden_in_python, "leave the graph"),
        (_by_len, "no len()"),
        (_for_three, "one number of images only"),
        (_one_after_the_other, "not a generator"),
        (lambda images, deltas: (images, deltas), "the array alone"),
        (_for_squares, "the pixels are not image"),
        (lambda images, deltas: _cast(_bright(images, deltas[:, None, None, None])), "became float64"),
    ],
}

RIGHT = {
    "06.2": [
        _as_a_function,
        lambda dataset, change, size: dataset.padded_batch(size, drop_remainder=True).map(_compiled(change)),
    ],
    "06.3": [_by_shape, lambda images, deltas: _bright(images, deltas[:, None, None, None])],
}
