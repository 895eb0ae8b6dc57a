"""Right shape, wrong idea: what students hand in for notebook 10, and a word of the hint that must come back."""

import numpy as np
import tensorflow as tf

from labcourse import drills

LATE = next(d for d in drills.diagnoses() if d.startswith("one file answers late"))


ONE_BY_ONE = next(d for d in drills.diagnoses() if d.startswith("photos are loaded one after the other"))


def _slow(case, *, ahead=2, calls=8, lost=False, images=False, loose=None, options=None):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos
    if lost:
        photos = photos.filter(lambda path, label: label != 5)
    if not images:
        photos = photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=calls, deterministic=loose)
    if images:
        photos = photos.shuffle(case.size, seed=1).repeat()
    return photos.batch(case.batch, drop_remainder=True).prefetch(ahead).with_options(options or case.options(16))


def _shade(case, draw, clip=True):
    def load(path, label):
        image = tf.image.convert_image_dtype(tf.io.decode_jpeg(case.read(path), channels=3), tf.float32)
        image = image + draw(image)
        return tf.clip_by_value(image, 0, 1) if clip else image, label

    photos = case.photos.shuffle(case.size, seed=1).repeat().map(load, num_parallel_calls=8)
    return photos.batch(case.batch, drop_remainder=True).prefetch(2).with_options(case.options(threads=16))


def _in_the_options(case):
    options = case.options(threads=16)
    options.deterministic = False
    return _slow(case, options=options)


def _by_batches(case):
    def shade(images, labels):
        shift = tf.random.uniform([tf.shape(images)[0], 1, 1, 1], -0.2, 0.2)
        return tf.clip_by_value(images + shift, 0, 1), labels

    return _shade(case, lambda image: 0.0).map(shade).prefetch(2).with_options(case.options(threads=16))


NOISE = next(d for d in drills.diagnoses() if "every pixel" in d)


WRONG = {
    "10.1": [
        (lambda seed: ONE_BY_ONE, "never run at the same time"),
        (lambda seed: LATE, "drill 15: if that were the fault, you would see"),
        (lambda seed: "storage is slow", "none of the diagnoses"),
    ],
    "10.2": [
        (_slow, "it is not fixed"),
        (lambda case: _slow(case, loose=False, lost=True), "31 photos"),
        (lambda case: _slow(case, loose=False, images=True), "now there is another"),
        (lambda case: _slow(case, loose=False).take(100), "take(100) is left in"),
    ],
    "10.3": [
        (lambda case: _shade(case, lambda image: tf.random.uniform(tf.shape(image), -0.2, 0.2)), "it is not fixed"),
        (lambda case: _shade(case, lambda image: np.random.uniform(0.05, 0.2)), "now there is another"),  # noqa: NPY002
        (lambda case: _shade(case, lambda image: tf.random.uniform([], -0.4, 0.4)), "allowed: -0.2 to 0.2"),
        (lambda case: _shade(case, lambda image: tf.random.uniform([], -0.2, 0.2), clip=False), "pixels go from"),
        (lambda case: _shade(case, lambda image: 0.0), "varies by"),
    ],
}

RIGHT = {
    "10.1": [
        lambda seed: LATE if seed == 16 else NOISE,
        lambda seed: tf.constant(1 + drills.diagnoses().index(LATE if seed == 16 else NOISE)),
    ],
    "10.2": [
        lambda case: _slow(case, loose=False),
        _in_the_options,
    ],
    "10.3": [
        lambda case: _shade(case, lambda image: tf.random.uniform([], -0.2, 0.2)),
        _by_batches,
    ],
}
