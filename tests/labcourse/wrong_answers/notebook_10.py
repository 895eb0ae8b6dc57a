"""Right shape, wrong idea: what students hand in for notebook 10, and a word of the hint that must come back."""

import tensorflow as tf

from labcourse import drills

LATE = next(d for d in drills.diagnoses() if d.startswith("one file answers late"))
COLD = next(d for d in drills.diagnoses() if d.startswith("the disk is cold"))
NOISE = next(d for d in drills.diagnoses() if "every pixel" in d)


def _number(image):
    return tf.random.uniform([], -0.2, 0.2)


def _slow(case, *, lost=False, loose=None, options=None):
    def take_in(path, y):
        image = tf.cast(case.decode(case.read(path)), tf.float32)
        image = tf.clip_by_value(image + _number(image), 0, 1)
        return case.mask(case.clean(image)), y

    photos = case.photos
    if lost:
        photos = photos.filter(lambda path, label: label != 5)
    photos = photos.shuffle(case.size).repeat().map(take_in, num_parallel_calls=8, deterministic=loose)
    return photos.batch(case.batch, drop_remainder=True).prefetch(2).with_options(options or case.options(16))


def _shade(case, draw=_number, clip=True):
    def step(data, target):
        x = tf.cast(case.decode(data)[..., ::-1], tf.float32) / 255
        x = x + draw(x)
        return case.mask(case.clean(tf.clip_by_value(x, 0, 1) if clip else x)), target

    data = case.files.interleave(case.records, cycle_length=8, num_parallel_calls=8).shuffle(case.size).repeat()
    data = data.map(case.parse, num_parallel_calls=10).map(step, num_parallel_calls=10)
    return data.batch(case.batch, drop_remainder=True).prefetch(2).with_options(case.options(threads=12))


def _in_the_options(case):
    options = case.options(threads=16)
    options.deterministic = False
    return _slow(case, options=options)


def _by_batches(case):
    def shade(images, labels):
        shift = tf.random.uniform([tf.shape(images)[0], 1, 1, 1], -0.2, 0.2)
        images = tf.clip_by_value(images + shift, 0, 1)
        return tf.concat([tf.zeros_like(images[:, :8]), images[:, 8:]], 1), labels

    return _shade(case, lambda image: 0.0).map(shade).prefetch(2).with_options(case.options(threads=16))


WRONG = {
    "10.1": [
        (lambda seed: COLD, "drill 40: if that were so, you would see this: reads are long in the first epoch"),
        (lambda seed: LATE, "drill 35: if that were so, you would see"),
        (lambda seed: "storage is slow", "none of the diagnoses"),
    ],
    "10.2": [(_slow, "it is not fixed"), (lambda case: _slow(case, loose=False, lost=True), "31 photos")],
    "10.3": [
        (lambda case: _shade(case, clip=False), "pixels go from"),
        (lambda case: _shade(case, lambda image: 0.0), "varies by"),
    ],
}

RIGHT = {
    "10.1": [
        lambda seed: LATE if seed == 40 else NOISE,
        lambda seed: tf.constant(1 + drills.diagnoses().index(LATE if seed == 40 else NOISE)),
    ],
    "10.2": [lambda case: _slow(case, loose=False), _in_the_options],
    "10.3": [_shade, _by_batches],
}
