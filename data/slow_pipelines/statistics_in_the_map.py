"""A map computes statistics of the whole table anew for every row.

Source: own, typical for tables
Cause: prep, in the reductions of the map
Remedy: compute them once, outside of the pipeline
Never: parallel reads, a cache of the source, the interpreter, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("mean and deviation", "extremes", "ranks")
STEP_MS = 3
WARMUP = 16
CAUSE = {"prep"}
OP = r".+"
SAYS = r"less work|smaller before|once|cheaper|fewer"
NEVER = r"parallel reads|interpreter|map\(num_parallel_calls=AUTOTUNE\):"
ADVICE = {r"once|outside|smaller before": True, r"cache": "kept"}


def make(folder, seed, fixed=False):
    """Return batches of rows on a common scale."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    table = tf.constant(draw.floats(draw.choice([40_000, 60_000]), draw.choice([8, 16])))

    def statistics():
        if draw.shape == "mean and deviation":
            return tf.reduce_mean(table, 0), tf.math.reduce_std(table, 0)
        if draw.shape == "extremes":
            return tf.reduce_min(table, 0), tf.reduce_max(table, 0) - tf.reduce_min(table, 0)
        return tf.sort(table[:, 0])[::100], tf.constant(1.0)

    once = statistics()

    def scaled(row):
        low, wide = once if fixed is True else statistics()
        if draw.shape == "ranks":
            return tf.searchsorted(low, row)
        return (row - low) / wide

    rows, calls = tf.data.Dataset.from_tensor_slices(table[:256].numpy()), tf.data.AUTOTUNE
    if fixed == "kept":
        made = rows.map(scaled, num_parallel_calls=calls).cache().repeat()
    else:
        made = rows.repeat().map(scaled, num_parallel_calls=calls)
    return made.batch(draw.choice([16, 24]) * (6 if draw.shape == "extremes" else 1)).prefetch(2)
