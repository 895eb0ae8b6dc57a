"""Patients that wait: nothing overlaps, work is done one by one, buffers stand in the wrong place or are too large.

Each pipeline is shown to the student as it stands, so it has no comment and no word that gives its fault away.
"""

# ruff: noqa: F811, D103 - a student sees these functions, and each one is called pipeline

import tensorflow as tf

from labkit.course.drills.faults import fault


@fault(
    "no_prefetch",
    "nothing is prepared while the accelerator trains: there is no prefetch",
    "accelerator and pipeline take turns, and never both work at once",
    (".batch(case.batch, drop_remainder=True)", ".batch(case.batch, drop_remainder=True).prefetch(2)"),
    step_ms=20,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=2)
    batches = photos.batch(case.batch, drop_remainder=True)
    return batches.with_options(case.options(threads=16))


@fault(
    "early_prefetch",
    "the prefetch stands before the work: what is kept ready are file names, not batches",
    "a prefetch runs far ahead of the map that reads, and holds only what costs nothing",
    (".repeat().prefetch(2)", ".repeat()"),
    (".batch(case.batch, drop_remainder=True)", ".batch(case.batch, drop_remainder=True).prefetch(2)"),
    step_ms=20,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat().prefetch(2)
    photos = photos.map(load, num_parallel_calls=2)
    batches = photos.batch(case.batch, drop_remainder=True)
    return batches.with_options(case.options(threads=16))


@fault(
    "one_by_one",
    "photos are loaded one after the other: the map is not parallel",
    "reads or decodes follow each other, in whichever lanes, and never lie side by side in time",
    ("photos.map(load)", "photos.map(load, num_parallel_calls=8)"),
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "one_thread",
    "the map is parallel, but the pool of threads that it runs on is too small",
    "the code asks for more calls at once than the pool has lanes to make them",
    ("threads=1)", "threads=16)"),
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=1))


@fault(
    "gil",
    "Python code in the map: its interpreter lets only one thread run at a time",
    "spans of a Python function (PyFunc) in many lanes, of which only one advances at any time",
    ("tf.py_function(scale, [image], tf.float32)", "tf.image.convert_image_dtype(image, tf.float32)"),
    step_ms=3,
)
def pipeline(case):
    def scale(image):
        rows = image.numpy().tolist()
        return tf.constant([[[value / 255 for value in pixel] for pixel in row] for row in rows])

    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        image = tf.py_function(scale, [image], tf.float32)
        return tf.ensure_shape(image, [case.height, case.width, 3]), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "map_fn",
    "the map comes after batch, but tf.map_fn takes the images one by one again: nothing is vectorised",
    "one span for each batch, with the same tiny ops inside again for every image of it, in a loop or one by one",
    (
        "tf.map_fn(shade, images, fn_output_signature=tf.float32)",
        "shade(images)",
    ),
    step_ms=3,
)
def pipeline(case):
    def load(path, label):
        return tf.io.decode_jpeg(case.read(path), channels=3), label

    def shade(image):
        return tf.image.convert_image_dtype(image, tf.float32)

    def shade_all(images, labels):
        return tf.map_fn(shade, images, fn_output_signature=tf.float32), labels

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True)
    batches = batches.map(shade_all, num_parallel_calls=2).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "shuffled_images",
    "the shuffle buffer is filled with decoded images instead of file names",
    "each epoch begins with a long wait in which a whole buffer of images is read, and memory holds them all",
    ("case.photos.map", "case.photos.shuffle(case.size, seed=1).repeat().map"),
    ("    photos = photos.shuffle(case.size, seed=1).repeat()\n", ""),
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.map(load, num_parallel_calls=8)
    photos = photos.shuffle(case.size, seed=1).repeat()
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "huge_buffer",
    "a prefetch so deep that a whole set of decoded batches piles up in memory",
    "the pipeline goes on long after the accelerator has enough: many more batches are made than trained on",
    ("prefetch(200)", "prefetch(2)"),
    step_ms=40,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(200)
    return batches.with_options(case.options(threads=16))


@fault(
    "cached_names",
    "the cache stands before the expensive part: it keeps file names, and every epoch reads and decodes anew",
    "there is a cache, and yet all reads and decodes of the first epoch come again in the second",
    (
        "case.photos.cache().map(load, num_parallel_calls=8)",
        "case.photos.map(load, num_parallel_calls=8).cache()",
    ),
    once=True,
    step_ms=4,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.cache().map(load, num_parallel_calls=8)
    batches = photos.repeat().batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "unfinished_cache",
    "the cache is never read to its end, because take comes after it: it is thrown away each time",
    "there is a cache after the expensive part, and yet the work of the first epoch comes again in the second",
    (".cache().take(case.size // 2)", ".take(case.size // 2).cache()"),
    once=True,
    share=0.5,
    step_ms=4,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.map(load, num_parallel_calls=8)
    half = photos.cache().take(case.size // 2).repeat()
    batches = half.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))
