"""repeat() stands before the cache, which therefore never sees the end of its input, and grows.

Source: own, typical for pipelines that were put together from answers
Cause: prep: every epoch makes its elements again
Remedy: repeat() behind the cache
Never: parallel reads, calls of a map that has them, a cache behind what is expensive (it is there)
"""

from _draw import Draw

SHAPES = ("photos", "clips", "matrices")
STEP_MS = 2
WARMUP = 12
CAUSE = {"prep"}
OP = r".+"
SAYS = r"repeat\(\) behind the cache|cache.*before .*repeat"
NEVER = r"num_parallel_calls=AUTOTUNE|parallel reads|cache what|interpreter"


def make(folder, seed, fixed=False):
    """Return batches, epoch after epoch."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count = draw.choice([16, 24])
    if draw.shape == "photos":
        data = draw.pictures(count, 300, "png")
    else:
        data = draw.floats(count, 16, 64, 64, 3) if draw.shape == "clips" else draw.floats(count, 96, 96)

    def work(item):
        if draw.shape == "photos":
            return tf.image.resize(tf.io.decode_png(tf.io.read_file(item), channels=3), [64, 64])
        if draw.shape == "clips":
            return tf.image.resize(tf.image.adjust_saturation(item, 1.2), [32, 32])
        return tf.linalg.svd(item, compute_uv=False)

    made = tf.data.Dataset.from_tensor_slices(data)
    if fixed:
        made = made.map(work, num_parallel_calls=tf.data.AUTOTUNE).cache().repeat()
    else:
        made = made.repeat().map(work, num_parallel_calls=tf.data.AUTOTUNE).cache()
    return made.batch(8).prefetch(2)
