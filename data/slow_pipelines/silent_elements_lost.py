"""An epoch is shorter than the data, and nobody is told.

Source: own
Cause: wrong data: elements lost
Remedy: keep the remainder; count what arrives
Never: that nothing is wrong
"""

from _draw import Draw

SHAPES = ("drop_remainder", "zip with a shorter one", "errors ignored")
STEP_MS = 5
FINDS = r"count|lost"
NEVER = r"(?!)"
INSPECT = {"count": 60}


def make(folder, seed, fixed=False):
    """Return batches of rows with labels."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    data, labels = draw.floats(60, draw.choice([8, 12])), draw.arrays.integers(0, 5, 60)
    made = tf.data.Dataset.from_tensor_slices((data, labels))
    if fixed:
        return made.shuffle(60).batch(16)
    if draw.shape == "drop_remainder":
        return made.shuffle(60).batch(16, drop_remainder=True)
    if draw.shape == "errors ignored":
        bad = draw.randrange(20, 40)

        def checked(row, label):
            row = tf.debugging.check_numerics(tf.where(row == data[bad], float("nan"), row), "a bad row")
            return row, label

        return made.map(checked).ignore_errors().shuffle(60).batch(16)
    rows = tf.data.Dataset.from_tensor_slices(data)
    return tf.data.Dataset.zip((rows, tf.data.Dataset.from_tensor_slices(labels[:50]))).shuffle(60).batch(16)
