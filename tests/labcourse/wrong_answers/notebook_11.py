"""Right shape, wrong idea: what students hand in for notebook 11, and a word of the hint that must come back."""

import math
from pathlib import Path

import numpy as np


def _pairs(right, other):
    return np.asarray(right, float) - np.asarray(other, float)


def _half(right, other):
    return 196 * _pairs(right, other).std() / len(right) ** 0.5


def _serving(antialias=True, channels=(0, 1, 2), divide=255, size=48, normalise=True, pad=False):
    def serve(path):
        import tensorflow as tf

        from labcourse import training

        image = tf.cast(tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method="INTEGER_ACCURATE"), tf.float32)
        resize = tf.image.resize_with_pad if pad else lambda x, h, w, **k: tf.image.resize(x, [h, w], **k)
        image = resize(image, size, size, antialias=antialias) / divide
        image = tf.gather(image, channels, axis=-1)
        return training.normalised(image) if normalise else image

    return serve


def _rounded_first(path):
    import tensorflow as tf

    from labcourse import training

    image = tf.image.decode_jpeg(Path(path).read_bytes(), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.resize(image, (48, 48), "bilinear", antialias=True)
    return training.normalised(tf.cast(tf.cast(tf.round(image), tf.uint8), tf.float32) / 255)


def _bicubic(path):
    import tensorflow as tf

    from labcourse import training

    image = tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method="INTEGER_ACCURATE")
    return training.normalised(tf.round(tf.image.resize(image, (48, 48), "bicubic", antialias=True)) / 255)


WRONG = {
    "11.3": [
        (lambda right, other: 100 * _pairs(right, other).mean(), "two numbers"),
        (lambda right, other: (_half(right, other), 100 * _pairs(right, other).mean()), "photos you return"),
    ],
    "11.4": [
        (_serving(), "whole grey levels"),
        (_serving(antialias=False), "resize"),
        (_serving(channels=(2, 1, 0)), "colours"),
        (_serving(divide=1), "values"),
        (_serving(pad=True), "part of the photo"),
        (_bicubic, "bilinear with antialias"),
    ],
}

RIGHT = {
    "11.1": [
        lambda p, points: math.ceil((196 / points) ** 2 * (p - p * p)),
        lambda p, points: np.ceil(p * (1 - p) / (points / 196) ** 2),
    ],
    "11.3": [
        lambda right, other: np.array([100 * _pairs(right, other).mean(), _half(right, other)]),
        lambda right, other: (float(100 * _pairs(right, other).mean()), np.float32(_half(right, other))),
    ],
    "11.4": [_rounded_first, lambda path: np.asarray(_rounded_first(path), np.float64)],
}
