"""A map works on the values of an element one after the other, in a loop of TensorFlow.

Source: own; tf.map_fn and AutoGraph's loops read like loops of Python
Cause: prep, in a loop inside the map
Remedy: one op for all values
Never: parallel reads, a private thread pool, the interpreter
"""

from _draw import Draw

SHAPES = ("while", "map_fn", "scan")
STEP_MS = 2
CAUSE = {"prep"}
OP = r".+"
SAYS = r"one op for all values|loop"
NEVER = r"parallel reads|private_threadpool|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of rows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    values, factor = draw.choice([300, 500]), 0.5 + draw.random()
    rows = tf.data.Dataset.from_tensor_slices(draw.floats(256, values)).repeat()

    def one(value):
        return tf.tanh(value * factor) + 0.1

    def work(row):
        if draw.shape == "scan":
            return tf.cumsum(row) if fixed else tf.scan(lambda total, value: total + value, row)
        if fixed:
            return one(row)
        if draw.shape == "map_fn":
            return tf.map_fn(one, row)
        found = tf.TensorArray(tf.float32, values)
        for at in tf.range(values):
            found = found.write(at, one(row[at]))
        return tf.ensure_shape(found.stack(), [values])

    made = rows.map(work, num_parallel_calls=tf.data.AUTOTUNE)
    return made.batch(draw.choice([16, 24])).prefetch(tf.data.AUTOTUNE)
