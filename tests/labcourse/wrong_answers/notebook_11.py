"""Right shape, wrong idea: what students hand in for notebook 11, and a word of the hint that must come back."""

import math
from pathlib import Path

import numpy as np


def _pairs(right, other):
    return np.asarray(right, float) - np.asarray(other, float)


def _half(right, other):
    return 196 * _pairs(right, other).std() / len(right) ** 0.5


def _two_groups(right, other):
    return 196 * ((np.var(right) + np.var(other)) / len(right)) ** 0.5


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


def _half_added(path):
    import tensorflow as tf

    from labcourse import training

    data = tf.io.read_file(path)
    whole = tf.concat([[0, 0], tf.image.extract_jpeg_shape(data)[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(data, whole, 3, dct_method="INTEGER_ACCURATE")
    small = tf.saturate_cast(tf.image.resize(image, (48, 48), antialias=True) + 0.5, tf.uint8)
    return training.normalised(tf.image.convert_image_dtype(small, tf.float32))


WRONG = {
    "11.3": [
        (lambda right, other: (100 * _pairs(other, right).mean(), _half(right, other)), "sign"),
        (lambda right, other: (_pairs(right, other).mean(), _half(right, other) / 100), "percentage points"),
        (lambda right, other: (100 * _pairs(right, other).mean(), _two_groups(right, other)), "pairs"),
        (lambda right, other: (100 * _pairs(right, other).mean(), 2 * _half(right, other)), "whole width"),
        (lambda right, other: (100 * _pairs(right, other).mean(), 196 * _pairs(right, other).std()), "root"),
        (lambda right, other: (100 * _pairs(right, other).mean(), _half(right, other) / 1.96), "1.96"),
        (lambda right, other: 100 * _pairs(right, other).mean(), "two numbers"),
    ],
    "11.4": [
        (_serving(), "whole grey levels"),
        (_serving(antialias=False), "resize"),
        (_serving(channels=(2, 1, 0)), "colours"),
        (_serving(divide=1), "values"),
        (_serving(divide=255**2), "values"),
        (_serving(normalise=False), "values"),
        (_serving(size=32), "size"),
        (_serving(pad=True), "part of the photo"),
        (lambda path: path, "image"),
    ],
    "11.1": [
        (lambda p, points: math.floor(p * (1 - p) * (196 / points) ** 2), "round up"),
        (lambda p, points: p * (1 - p) * (196 / points) ** 2, "whole number"),
        (lambda p, points: math.ceil(0.25 * (196 / points) ** 2), "worst case"),
        (lambda p, points: math.ceil(p * (1 - p) * (100 / points) ** 2), "1.96"),
        (lambda p, points: math.ceil(p * (1 - p) * (1.96 / points) ** 2), "hundredths"),
        (lambda p, points: math.ceil(p * (1 - p) * 196 / points), "squared"),
        (lambda p, points: math.ceil(p * (1 - p) * (392 / points) ** 2), "each side"),
        (lambda p, points: math.ceil(p * (196 / points) ** 2), "variance"),
        (lambda p, points: math.ceil(p * (1 - p) * (164.5 / points) ** 2), "90 %"),
    ],
    "11.2": [
        (lambda total, steps, before, after: total - steps * (before - after), "milliseconds"),
        (lambda total, steps, before, after: steps * (before - after) / 1000, "saved"),
        (lambda total, steps, before, after: total - steps * before / 1000, "not nothing"),
        (lambda total, steps, before, after: total * after / before, "train steps stay"),
        (lambda total, steps, before, after: total - (before - after) / 1000, "every step"),
        (lambda total, steps, before, after: total + steps * (before - after) / 1000, "sign"),
        (lambda total, steps, before, after: total - steps * abs(before - after) / 1000, "sign"),
    ],
}

RIGHT = {
    "11.1": [
        lambda p, points: math.ceil((196 / points) ** 2 * (p - p * p)),
        lambda p, points: np.ceil(p * (1 - p) / (points / 196) ** 2),
        lambda p, points: -int(-((1.96 * math.sqrt(p * (1 - p)) / (points / 100)) ** 2) // 1),
        lambda p, points: next(n for n in range(1, 10**6) if 196 * (p * (1 - p) / n) ** 0.5 <= points),
        lambda p, points: float(math.ceil(math.prod((p, 1 - p, 1.96, 1.96, 1e4)) / points**2)),
    ],
    "11.2": [
        lambda total, steps, before, after: total + steps * (after - before) / 1000,
        lambda total, steps, before, after: (1000 * total / steps - before + after) * steps / 1000,
        lambda total, steps, before, after: total - steps * before * 1e-3 + steps * after * 1e-3,
        lambda total, steps, before, after: np.subtract(total, np.multiply(steps, before - after) / 1e3),
        lambda total, steps, before, after: math.fsum([total, -steps * before / 1e3, steps * after / 1e3]),
    ],
    "11.3": [
        lambda right, other: (100 * _pairs(right, other).mean(), _half(right, other)),
        lambda right, other: [100 * (right.mean() - other.mean()), _half(right, other)],
        lambda right, other: np.array([100 * _pairs(right, other).mean(), _half(right, other)]),
        lambda right, other: (
            100 * _pairs(right, other).mean(),
            196 * _pairs(right, other).std(ddof=1) / len(right) ** 0.5,
        ),
        lambda right, other: (float(100 * _pairs(right, other).mean()), np.float32(_half(right, other))),
    ],
    "11.4": [
        _rounded_first,
        lambda path: _rounded_first(path).numpy(),
        lambda path: np.asarray(_rounded_first(path), np.float64),
        lambda path: _rounded_first(Path(path)),
        _half_added,
    ],
}


def _never_better(right, other):
    pairs = right.astype(float) - other
    return 100 * abs(pairs.mean()), 196 * pairs.std() / math.sqrt(len(right))


# Other usual wrong ideas, each in one line.
WRONG["11.1"] += [
    (lambda p, points: math.ceil(p * (1 - p) * (257.6 / points) ** 2), "99 %"),
    (lambda p, points: math.ceil(p * (1 - p) * (200 / points) ** 2), "do not round"),
    (lambda p, points: math.ceil((100 / points) ** 2), "forgets the spread"),
]
WRONG["11.2"] += [
    (lambda total, steps, before, after: total - steps * before / 1e3 + after / 1e3, "not once"),
    (lambda total, steps, before, after: total - steps * max(0, before - after) / 1e3, "become longer"),
]
WRONG["11.3"] += [
    (_never_better, "the sign"),
]


WRONG["11.1"] += [(lambda p, points: math.ceil(p * (1 - p) * (196 / points) ** 2) + 1, "one too many")]
WRONG["11.2"] += [
    (lambda total, steps, before, after: 1000 * total - steps * (before - after), "return seconds"),
    (lambda total, steps, before, after: steps * after / 1000, "waits alone"),
    (lambda total, steps, before, after: total - steps * (before + after) / 1000, "it comes"),
]
WRONG["11.3"] += [
    (lambda right, other: (_half(right, other), 100 * _pairs(right, other).mean()), "changed places"),
    (lambda right, other: (_pairs(right, other).sum(), _half(right, other)), "a number of photos"),
    (lambda right, other: (100 * _pairs(right, other).mean(), _half(right, other) / 1.96 * 2), "do not round to 2"),
    (
        lambda right, other: (100 * _pairs(right, other).mean(), 196 * np.std(other) / len(other) ** 0.5),
        "of `other` alone",
    ),
]


def _bicubic(path):
    import tensorflow as tf

    from labcourse import training

    image = tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method="INTEGER_ACCURATE")
    return training.normalised(tf.round(tf.image.resize(image, (48, 48), "bicubic", antialias=True)) / 255)


WRONG["11.4"] += [(_bicubic, "bilinear with antialias")]
