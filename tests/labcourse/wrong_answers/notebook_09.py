"""Right shape, wrong idea: what students hand in for notebook 09, and a word of the hint that must come back."""

import tensorflow as tf
from remedies import AUTOTUNE, augmented, decoded, loaded

from labcourse import challenge


def _far(files, **how):
    pairs = files.interleave(challenge.fetch, **how)
    return pairs.map(decoded, num_parallel_calls=AUTOTUNE)


def _wide(files):
    return _far(files, cycle_length=16, num_parallel_calls=16)


def _decoded_by_hand(files):
    pairs = files.interleave(challenge.fetch, cycle_length=16, num_parallel_calls=16)
    return pairs.map(lambda jpeg, label: (tf.image.resize(tf.io.decode_jpeg(jpeg, 3), [224, 224]), label)).batch(16)


def _in_whole_levels(files):
    return _wide(files).map(lambda image, label: (tf.cast(image, tf.uint8), label)).batch(16)


def _small(files):
    return tf.data.TFRecordDataset(files).batch(256)


def _by_map_fn(files):
    kinds = (tf.float32, tf.int64)
    return _small(files).map(lambda batch: tf.map_fn(challenge.parse, batch, fn_output_signature=kinds), AUTOTUNE)


def _halved(values, number):
    return values / 2, number


def _frozen(files):
    small = files.map(loaded, num_parallel_calls=AUTOTUNE).map(augmented, num_parallel_calls=AUTOTUNE)
    return small.map(lambda image, label: (tf.image.resize(image, [224, 224]), label)).cache().batch(32).prefetch(2)


def _whole_floats(files):
    return files.map(loaded, AUTOTUNE).cache().map(augmented, AUTOTUNE).batch(32).prefetch(2)


def _bytes_kept(files):
    kept = files.map(lambda path, label: (tf.io.read_file(path), label), AUTOTUNE).cache()
    return kept.map(decoded, AUTOTUNE).map(augmented, AUTOTUNE).batch(32).prefetch(2)


def _whole_levels(image, label):
    return tf.cast(image, tf.uint8), label


def _kept(files):
    return files.map(loaded, AUTOTUNE).map(_whole_levels).cache()


def _another_label(files):
    pictures = files.map(loaded, AUTOTUNE).map(augmented, AUTOTUNE)
    return tf.data.Dataset.zip(pictures.map(lambda image, _: image), files.skip(1).map(lambda _, label: label))


def _swapped(files):
    return _kept(files).map(augmented).map(lambda image, label: (image, 63 - label)).batch(32)


def _one_seed(files):
    """Numbers that depend on the label alone."""

    def same(image, label):
        image = challenge.augment(image) * 0 + tf.cast(image, tf.float32) / 255
        return image, label

    return _kept(files).map(same, AUTOTUNE).batch(32).prefetch(2)


WRONG = {
    "09.2": [
        (lambda files: list(files), "not list"),
        (lambda files: files.map(challenge.fetch).batch(16), "the elements are datasets"),
        (_decoded_by_hand, "challenge.decode is not called"),
        (_wide, "batch"),
        (lambda files: _wide(files).batch(32), "the batches have"),
        (lambda files: _wide(files).batch(16).repeat(), "more than 4 elements"),
        (lambda files: _wide(files).take(40).batch(16), "take(40) is left in"),
        (lambda files: _wide(files.skip(3)).batch(16), "3 of 64 elements are missing"),
        (_in_whole_levels, "dtype"),
        (lambda files: _far(files, cycle_length=16).batch(16).prefetch(2), "one after the other"),
        (lambda files: _far(files, cycle_length=4, num_parallel_calls=4).batch(16).prefetch(2), "too few"),
        (lambda files: _far(files, num_parallel_calls=AUTOTUNE).batch(16).prefetch(2), "AUTOTUNE makes 2 calls"),
        (lambda files: _wide(files).batch(16).prefetch(1000), "a few are enough"),
        (lambda files: _wide(files).shuffle(10_000).batch(16), "Most of it is the shuffle with 10,000 elements"),
        (lambda files: _wide(files.cache()).cache().batch(16), "a second time"),
        (lambda files: _far(files, cycle_length=999, num_parallel_calls=999).batch(16), "256 are allowed"),
    ],
    "09.3": [
        (_by_map_fn, "once for each record"),
        (lambda files: _small(files).map(challenge.parse).map(_halved), "not the right ones"),
        (lambda files: _small(files).map(challenge.parse).unbatch(), "batch"),
        (lambda files: _small(files).map(challenge.parse).cache("kept"), "no disk"),
        (lambda files: _small(files).map(lambda record: challenge.parse(record.numpy())), "numpy"),
    ],
    "09.4": [
        (_frozen, "froze it"),
        (_whole_floats, "a float32 takes four"),
        # Each of the two would fit; their sum is named, and it does not.
        (lambda files: _kept(files).shuffle(3000).map(augmented, AUTOTUNE).batch(32), "buffers take 90"),
        (_bytes_kept, "decoded in every epoch"),
        (lambda files: _kept(files).map(augmented, AUTOTUNE).batch(32).repeat(2), "look for a repeat"),
        (lambda files: _kept(files.repeat()).map(augmented, AUTOTUNE).batch(32), "the cache never ends"),
        (_another_label, "batch the elements"),
        (_swapped, "another label"),
        (_one_seed, "alike in both epochs"),
        (lambda files: _kept(files).map(augmented).map(augmented).batch(32), "not those of decode, then augment"),
    ],
}


def _any_order(files):
    return _far(files, cycle_length=12, num_parallel_calls=12, deterministic=False).shuffle(64).batch(16)


def _parsed_in_turn(files):
    return _small(files).map(challenge.parse)


def _batch_augmented(files):
    kept = files.map(loaded, AUTOTUNE).map(_whole_levels, AUTOTUNE).cache()
    return kept.batch(32, drop_remainder=True).map(augmented, AUTOTUNE).prefetch(AUTOTUNE)


RIGHT = {"09.2": [_any_order], "09.3": [_parsed_in_turn], "09.4": [_batch_augmented]}
