"""Nothing is wrong: packed records, lines or slices of large arrays are read, each batch before its step.

Source: own; tensorflow/tensorflow#34936, tensorflow/tensorflow#35135: large slices were copied, and no longer are
Cause: none: the accelerator is the limit
Remedy: none
Never: any change
"""

from _draw import Draw

SHAPES = ("packed records", "lines", "slices of a large array")
STEP_MS = 80
CAUSE = set()
OP = r".*"
SAYS = r"accelerator is the limit|good enough|nothing single"
NEVER = r"GZIP|interleave|num_parallel_calls|parallel reads|smaller|cache\("


def make(folder, seed, fixed=False):
    """Return batches of rows; `fixed` reads them ahead."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    size = draw.choice([8, 16])
    if draw.shape == "packed records":
        path = draw.records(({"x": draw.floats(512)} for _ in range(64)), packed="GZIP")
        features = {"x": tf.io.FixedLenFeature([512], tf.float32)}
        made = tf.data.TFRecordDataset(path, "GZIP").repeat()
        made = made.batch(size).map(lambda some: tf.io.parse_example(some, features)["x"])
    elif draw.shape == "lines":
        made = tf.data.TextLineDataset(draw.lines(draw.floats(256, 20).round(4))).repeat()
        made = made.batch(size).map(lambda some: tf.stack(tf.io.decode_csv(some, [0.0] * 20), 1))
    else:
        made = tf.data.Dataset.from_tensor_slices(draw.floats(4, 2000, 2000)).repeat()
        made = made.map(lambda scan: tf.image.random_crop(scan, [64, 64])).batch(size)
    return made.prefetch(8 if fixed else 2)
