"""A few values of a table become NaN or infinite on the way.

Source: own, typical for tables
Cause: wrong data: values that are no numbers
Remedy: no logarithm of 0, no division by a deviation of 0, a default for empty fields
Never: that all values are finite
"""

from _draw import Draw

SHAPES = ("logarithm of 0", "a constant column", "empty fields")
STEP_MS = 5
FINDS = r"finite|nan"
NEVER = r"(?!)"
INSPECT = {"count": 64}


def make(folder, seed, fixed=False):
    """Return batches of rows with labels."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide = draw.choice([6, 10])
    data, at = draw.floats(64, wide) + 0.1, draw.randrange(wide)
    if draw.shape == "logarithm of 0":
        data[draw.randrange(64), at] = 0
    elif draw.shape == "a constant column":
        data[:, at] = 1
    else:
        data[draw.randrange(64), at] = float("nan")
    mean, deviation = data.mean(0), data.std(0)

    def prepare(row, label):
        if draw.shape == "logarithm of 0":
            return tf.math.log(tf.maximum(row, 1e-6) if fixed else row), label
        if draw.shape == "a constant column":
            return tf.where(deviation > 1e-6, (row - mean) / deviation, 0.0) if fixed else (row - mean) / (
                tf.where(deviation > 1e-6, deviation, 0.0)
            ), label
        return tf.where(tf.math.is_nan(row), 0.0, row) if fixed else row, label

    made = tf.data.Dataset.from_tensor_slices((data, draw.arrays.integers(0, 5, 64))).shuffle(64)
    return made.map(prepare).batch(8)
