"""A dataset is begun anew for each element that is taken from it.

Source: own, typical for pairs and for negative samples
Cause: prep: to begin a dataset takes longer than its element
Remedy: begin it once, and keep its iterator; or zip the two
Never: calls of a map that has them, a private thread pool, storage
"""

from _draw import Draw

SHAPES = ("next(iter()) in a generator", "a dataset for each element", "take(1) in a generator")
STEP_MS = 2
CAUSE = {"prep", "batch", "fetch", None}
OP = r".+"
SAYS = r"begun|begin|iterator|anew|less work|one by one"
NEVER = r"map\(num_parallel_calls=AUTOTUNE\):|private_threadpool|storage"
ADVICE = {r"begun|begin|iterator|anew|one by one": True}


def make(folder, seed, fixed=False):
    """Return batches of pairs."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    data = draw.floats(512, draw.choice([16, 32]))
    others = tf.data.Dataset.from_tensor_slices(data).shuffle(64)
    size = draw.choice([16, 32])

    def pairs():
        kept = others.repeat().as_numpy_iterator()
        while True:
            for row in data:
                if fixed:
                    yield row, next(kept)
                elif draw.shape.startswith("next"):
                    yield row, next(iter(others)).numpy()
                else:
                    yield from ((row, one) for one in others.take(1).as_numpy_iterator())

    one = tf.TensorSpec(data.shape[1:], tf.float32)
    if draw.shape.startswith("a dataset"):
        rows = tf.data.Dataset.from_tensor_slices(data).repeat()
        if fixed:
            return tf.data.Dataset.zip((rows, others.repeat())).batch(8 * size).prefetch(2)
        made = rows.flat_map(lambda row: others.take(1).map(lambda other: (row, other)))
        return made.batch(8 * size).prefetch(2)
    return tf.data.Dataset.from_generator(pairs, output_signature=(one, one)).batch(size).prefetch(2)
