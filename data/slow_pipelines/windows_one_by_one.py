"""Windows over a series are cut by window() and flat_map, which begin a dataset for each of them.

Source: own; window() and flat_map as in TensorFlow's guide to tf.data
Cause: handing over: values go one by one through several datasets
Remedy: batch the places of the windows, and gather them in one map
Never: a cache, calls of a map, a private thread pool, parallel reads
"""

from _draw import Draw

SHAPES = ("a series", "channels with a target", "letters")
STEP_MS = 2
CAUSE = {"prep", "batch", None}
OP = r".+"
SAYS = r"window|one by one|begun|begin"
NEVER = r"cache\(|map\(num_parallel_calls|private_threadpool|parallel reads"


def make(folder, seed, fixed=False):
    """Return batches of windows."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    wide, size = draw.choice([16, 24]), draw.choice([128, 192])
    if draw.shape == "letters":
        series = draw.arrays.integers(0, 65, 20_000)
    else:
        series = draw.floats(20_000, 3) if draw.shape.startswith("channels") else draw.floats(20_000)

    def parts(some):
        if draw.shape == "a series":
            return some
        if draw.shape == "letters":
            return some[..., :-1], some[..., 1:]
        return some[..., :-1, :], some[..., -1, 0]

    if fixed:
        places = tf.data.Dataset.range(len(series) - wide + 1).repeat().batch(size)
        whole = places.map(lambda at: tf.gather(series, at[:, None] + tf.range(wide, dtype=tf.int64)))
        return whole.map(parts).prefetch(2)
    made = tf.data.Dataset.from_tensor_slices(series).window(wide, shift=1, drop_remainder=True)
    made = made.flat_map(lambda window: window.batch(wide, drop_remainder=True)).map(parts)
    return made.repeat().batch(size).prefetch(2)
