"""The remedy of each job of the challenge, and the same remedy in the other two jobs."""

from __future__ import annotations

import tensorflow as tf

from labcourse import challenge

AUTOTUNE = tf.data.AUTOTUNE


def decoded(jpeg, label):
    return challenge.decode(jpeg), label


def loaded(path, label):
    return challenge.decode(tf.io.read_file(path)), label


def augmented(image, label):
    return challenge.augment(image), label


def each(function):
    """Return a function of a pair that maps the first part of a batch one by one."""
    return lambda batch, labels: (tf.map_fn(function, batch, fn_output_signature=tf.float32), labels)


def far_wide(files):
    """Sixteen files wait at the same time."""
    pairs = files.interleave(challenge.fetch, cycle_length=16, num_parallel_calls=16)
    return pairs.map(decoded, num_parallel_calls=16).batch(16).prefetch(2)


def far_batched(files):
    pairs = files.flat_map(challenge.fetch).batch(16)
    return pairs.map(each(challenge.decode), num_parallel_calls=AUTOTUNE).prefetch(2)


def far_cached(files):
    return files.flat_map(challenge.fetch).cache().map(decoded, num_parallel_calls=AUTOTUNE).batch(16).prefetch(2)


def small_wide(files):
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=16)
    return records.map(challenge.parse, num_parallel_calls=16).batch(256).prefetch(2)


def small_batched(files):
    """One call of parse for each batch."""
    return tf.data.TFRecordDataset(files).batch(256).map(challenge.parse, num_parallel_calls=AUTOTUNE).prefetch(2)


def small_cached(files):
    return (
        tf.data.TFRecordDataset(files).map(challenge.parse, num_parallel_calls=AUTOTUNE).cache().batch(256).prefetch(2)
    )


def wide(dataset):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 16
    return dataset.with_options(options)


def costly_wide(files):
    pairs = files.map(loaded, num_parallel_calls=16).map(augmented, num_parallel_calls=16)
    return wide(pairs.batch(32).prefetch(2))


def costly_batched(files):
    pairs = files.batch(32).map(each(lambda path: challenge.decode(tf.io.read_file(path))), num_parallel_calls=AUTOTUNE)
    return pairs.map(augmented, num_parallel_calls=AUTOTUNE).prefetch(2)


def costly_cached(files):
    """Decode once, and keep whole grey levels in memory; augment behind the cache."""

    def small(path, label):
        return tf.cast(tf.round(challenge.decode(tf.io.read_file(path))), tf.uint8), label

    kept = files.map(small, num_parallel_calls=AUTOTUNE).cache()
    return kept.map(augmented, num_parallel_calls=AUTOTUNE).batch(32).prefetch(2)


#: By job and remedy.
REMEDIES = {
    "far": {"wide": far_wide, "batched": far_batched, "cached": far_cached},
    "small": {"wide": small_wide, "batched": small_batched, "cached": small_cached},
    "costly": {"wide": costly_wide, "batched": costly_batched, "cached": costly_cached},
}
#: By job, the remedy that it needs.
NEEDED = {"far": "wide", "small": "batched", "costly": "cached"}
