"""An element has a part for each column, and hundreds of tiny parts are made, handed over and copied one by one.

Source: tensorflow/tensorflow#25263; the form of tutorials on tables, with many columns
Cause: prep or batch: each part of an element is made and copied by itself
Remedy: one matrix for the columns, fewer parts, taken apart behind the batch
Never: parallel reads, storage, a cache, the interpreter, a private thread pool
"""

from _draw import Draw

SHAPES = ("a dictionary", "a tuple", "a dictionary and labels")
STEP_MS = 2
CAUSE = {"prep", "batch", None}
OP = r".+"
SAYS = r"fewer parts|matrix|whole batches|batch before|larger elements"
NEVER = r"parallel reads|storage|interpreter|private_threadpool|cache"


def make(folder, seed, fixed=False):
    """Return batches of columns."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide, size = draw.choice([150, 250]), draw.choice([128, 256])
    table, labels = draw.floats(2048, wide), draw.arrays.integers(0, 9, 2048)

    def parts(rows):
        columns = tuple(rows[..., n] for n in range(wide))
        return columns if draw.shape == "a tuple" else {f"column {n}": one for n, one in enumerate(columns)}

    def named(rows, label):
        return (parts(rows), label) if draw.shape.endswith("labels") else parts(rows)

    if fixed:
        rows = tf.data.Dataset.from_tensor_slices((table, labels)).shuffle(512).repeat().batch(size)
        return rows.map(named, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    return tf.data.Dataset.from_tensor_slices(named(table, labels)).shuffle(512).repeat().batch(size).prefetch(2)
