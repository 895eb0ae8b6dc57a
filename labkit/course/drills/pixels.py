"""Patients that are fast and wrong: speed tells nothing, the data do.

Each pipeline is shown to the student as it stands; see `labkit.drills.waiting`.
"""

# ruff: noqa: F811, D103, NPY002 - a student sees these functions, and each one is called pipeline

import numpy as np
import tensorflow as tf

from labkit.course.drills.faults import fault


@fault(
    "cached_augment",
    "the cache stands after the random augmentation: every epoch sees the same random numbers",
    "every photo is as bright in the second epoch as it was in the first",
    (
        ".map(shade, num_parallel_calls=8).cache()",
        ".cache().map(shade, num_parallel_calls=8)",
    ),
    seen="data",
    task="random",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    def shade(image, label):
        return tf.clip_by_value(image + tf.random.uniform([], -0.2, 0.2), 0, 1), label

    photos = case.photos.map(load, num_parallel_calls=8).map(shade, num_parallel_calls=8).cache()
    batches = photos.repeat().batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "frozen_numpy",
    "NumPy's random number is drawn once, when the map is traced: all photos get the same",
    "all photos of all epochs are made brighter or darker by one and the same number",
    ("np.random.uniform(-0.2, 0.2)", "tf.random.uniform([], -0.2, 0.2)"),
    seen="data",
    task="random",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        return tf.clip_by_value(image + np.random.uniform(-0.2, 0.2), 0, 1), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "noise",
    "the random number is drawn for every pixel instead of for the photo: that is noise, not brightness",
    "the difference between a photo and its original is not the same in all its pixels",
    ("tf.random.uniform(tf.shape(image), -0.2, 0.2)", "tf.random.uniform([], -0.2, 0.2)"),
    seen="data",
    task="random",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        shift = tf.random.uniform(tf.shape(image), -0.2, 0.2)
        return tf.clip_by_value(image + shift, 0, 1), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "discarded",
    "the result of an op is thrown away: tensors are not changed in place",
    "photos come out as if a line of the code did not exist",
    ("        tf.tensor_scatter", "        image = tf.tensor_scatter"),
    seen="data",
    task="erased",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        rows, black = [[row] for row in range(8)], tf.zeros([8, case.width, 3])
        tf.tensor_scatter_nd_update(image, rows, black)
        return image, label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "overflow",
    "bytes wrap around: 60 is added to uint8 before it is clipped, and what is too bright turns dark",
    "the brightest places of the original are among the darkest that come",
    (
        "tf.clip_by_value(image + 60, 0, 255)",
        "tf.cast(tf.minimum(tf.cast(image, tf.int32) + 60, 255), tf.uint8)",
    ),
    seen="data",
    task="brighter",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.clip_by_value(image + 60, 0, 255)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "bgr",
    "red and blue are exchanged: the channels are turned round although TensorFlow decodes to RGB",
    "the mean of red is that of blue in the original, and the other way round",
    ("channels=3)[..., ::-1]", "channels=3)"),
    seen="data",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)[..., ::-1]
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "scaled_twice",
    "pixels are divided by 255 twice, so that every photo is nearly black",
    "no pixel is brighter than a hundredth of white",
    ("tf.float32) / 255, label", "tf.float32), label"),
    seen="data",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32) / 255, label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "strange_labels",
    "images and labels are shuffled apart from each other: a photo comes with the label of another",
    "photos and labels are all there, and do not belong together",
    (".shuffle(case.size, seed=1)\n    labels", "\n    labels"),
    (".shuffle(case.size, seed=2)", ""),
    ("labels)).repeat()", "labels)).shuffle(case.size, seed=1).repeat()"),
    seen="data",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    def first(path, label):
        return path

    def second(path, label):
        return label

    paths = case.photos.map(first).shuffle(case.size, seed=1)
    labels = case.photos.map(second).shuffle(case.size, seed=2)
    photos = tf.data.Dataset.zip((paths, labels)).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))
