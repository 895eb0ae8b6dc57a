"""Patients that read badly: too few files, too many, one that is late, bytes that cost more than they save.

Each pipeline is shown to the student as it stands; see `labkit.drills.waiting`.
"""

# ruff: noqa: F811, D103 - a student sees these functions, and each one is called pipeline

import tensorflow as tf

from labkit.course.drills.faults import fault


@fault(
    "straggler",
    "one file answers late, and all others wait for it because the order is kept",
    "one read many times as long as the others, and a gap behind it although other reads are done",
    ("photos.map(load, num_parallel_calls=8)", "photos.map(load, num_parallel_calls=8, deterministic=False)"),
    case={"far": True},
    step_ms=3,
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1).repeat()
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "single_file",
    "the interleave has one file only to read from: everything is packed into a single archive",
    "an interleave that could open eight files, and one lane that reads",
    ("case.archive", "case.shards"),
    step_ms=2,
)
def pipeline(case):
    def load(record):
        data, label = case.parse(record)
        image = tf.io.decode_jpeg(data, channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    records = case.archive.interleave(case.records, cycle_length=8, num_parallel_calls=8).repeat()
    photos = records.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "files_in_turn",
    "shards are opened one after the other: the interleave is not parallel",
    "several files, and each is opened only when the one before it has been read to its end",
    ("cycle_length=1)", "cycle_length=8, num_parallel_calls=8)"),
    step_ms=2,
)
def pipeline(case):
    def load(record):
        data, label = case.parse(record)
        image = tf.io.decode_jpeg(data, channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    records = case.shards.interleave(case.records, cycle_length=1).repeat()
    photos = records.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "tiny_shards",
    "the shards are far too small: a file has to be opened for every record",
    "as many openings as photos, each with the full latency of the storage, for one record each",
    ("case.crumbs", "case.shards"),
    step_ms=2,
)
def pipeline(case):
    def load(record):
        data, label = case.parse(record)
        image = tf.io.decode_jpeg(data, channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    records = case.crumbs.interleave(case.records, cycle_length=8, num_parallel_calls=8).repeat()
    photos = records.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "gzip",
    "the records are compressed with GZIP: the processor, which is the limit, unpacks them in every epoch",
    "the processor works for a long time in the node that reads records, before any map begins",
    ("case.zipped", "case.flat"),
    ('case.records(path, "GZIP")', "case.records(path)"),
    step_ms=2,
    case={"latency_ms": 0},
)
def pipeline(case):
    def load(record):
        data, label = case.parse(record)
        image = tf.io.decode_raw(data, tf.float32)
        return tf.reshape(image, [case.height, case.width, 3]), label

    def unpack(path):
        return case.records(path, "GZIP")

    records = case.zipped.interleave(unpack, cycle_length=8, num_parallel_calls=8).repeat()
    photos = records.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "shuffled_batches",
    "shuffle comes after batch: the same photos share a batch in every epoch",
    "batches come in another order, and in each of them are the same labels as always",
    ("case.photos.map", "case.photos.shuffle(case.size, seed=1).map"),
    (".shuffle(4, seed=1)", ""),
    seen="data",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).shuffle(4, seed=1).repeat().prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "blurred_epochs",
    "repeat comes before shuffle: epochs run into each other, some photos come twice before others come once",
    "within the first epoch some labels come more than once and others not at all",
    (".repeat().shuffle(case.size, seed=1)", ".shuffle(case.size, seed=1).repeat()"),
    seen="data",
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.repeat().shuffle(case.size, seed=1)
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch, drop_remainder=True).prefetch(2)
    return batches.with_options(case.options(threads=16))


@fault(
    "remainder",
    "the last batch of an epoch is smaller: a compiled model is compiled again for it",
    "not all batches have the same number of photos",
    ("photos.batch(case.batch)", "photos.batch(case.batch, drop_remainder=True)"),
    seen="data",
    case={"size": 36},
)
def pipeline(case):
    def load(path, label):
        image = tf.io.decode_jpeg(case.read(path), channels=3)
        return tf.image.convert_image_dtype(image, tf.float32), label

    photos = case.photos.shuffle(case.size, seed=1)
    photos = photos.map(load, num_parallel_calls=8)
    batches = photos.batch(case.batch).repeat().prefetch(2)
    return batches.with_options(case.options(threads=16))
