"""Rows of very different lengths are padded to one length, and batches hold hardly anything but padding.

Source: own, typical for texts and sounds
Cause: batch: padding is copied
Remedy: group rows of similar length, or cut the longest
Never: parallel reads, a cache, calls of a map
"""

from _draw import Draw

SHAPES = ("padded batches", "one wide bucket", "pairs of rows")
STEP_MS = 1
CAUSE = {"batch", "prep"}
OP = r"Batch|Padded|Group|Bucket"
SAYS = r"padded|padding|similar length"
NEVER = r"parallel reads|cache\(|map\(num_parallel_calls"


def make(folder, seed, fixed=False):
    """Return batches of rows, some of them long."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    long, every, size = draw.choice([800_000, 1_200_000]), draw.choice([8, 16]), 16
    numbers = tf.data.Dataset.range(10**6)

    def row(number):
        return tf.ones([tf.where(number % every == 0, 1_000 if fixed else long, 1_000)])

    if draw.shape == "one wide bucket":
        made = numbers.map(row).bucket_by_sequence_length(lambda one: tf.shape(one)[0], [2 * long], [size, size])
        return made.prefetch(2)
    if draw.shape == "pairs of rows":
        return numbers.map(lambda number: (row(number), number % 7)).padded_batch(size, ([None], [])).prefetch(2)
    return numbers.map(row).padded_batch(size).prefetch(2)
