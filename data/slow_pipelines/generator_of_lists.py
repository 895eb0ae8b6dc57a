"""A generator hands over Python lists, which are turned into tensors value by value.

Source: tensorflow/tensorflow#44555
Cause: prep, in the generator, in Python
Remedy: hand over NumPy arrays
Never: calls of a map, several generators, storage, a generator that waits
"""

from _draw import Draw

SHAPES = ("numbers", "matrices with labels", "features by name")
STEP_MS = 3
CAUSE = {"prep"}
OP = r"PyFunc|Generator|generator"
SAYS = r"arrays|less work|lists"
NEVER = r"map\(num_parallel_calls|parallel reads|keeps [1-9][\d.]* cores"
ADVICE = {r"arrays|lists": True}


def make(folder, seed, fixed=False):
    """Return batches of what the generator yields."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide = draw.choice([6000, 8000])
    if draw.shape == "matrices with labels":
        data, spec = draw.floats(32, wide // 4, 4), tf.TensorSpec([wide // 4, 4], tf.float32)
    else:
        data, spec = draw.floats(64, wide), tf.TensorSpec([wide], tf.float32)
    rows = list(data) if fixed else data.tolist()
    numbers = tf.TensorSpec([], tf.int64)
    spec = {"numbers": spec, "matrices with labels": (spec, numbers), "features by name": {"x": spec}}[draw.shape]

    def examples():
        while True:
            for number, row in enumerate(rows):
                kinds = {"numbers": row, "matrices with labels": (row, number), "features by name": {"x": row}}
                yield kinds[draw.shape]

    made = tf.data.Dataset.from_generator(examples, output_signature=spec)
    return made.batch(draw.choice([24, 32])).prefetch(2)
