"""A take stands behind the cache, which therefore never sees the end of its input, and keeps nothing.

Source: own; TensorFlow warns of it on the error output
Cause: prep: every epoch makes its elements again
Remedy: take before the cache
Never: parallel reads, calls of a map that has them
"""

from _draw import Draw

SHAPES = ("photos", "sounds", "texts")
STEP_MS = 2
WARMUP = 12
CAUSE = {"prep"}
OP = r".+"
SAYS = r"take.*cache|cache.*take"
NEVER = r"num_parallel_calls=AUTOTUNE|parallel reads|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of the first elements, again and again."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count, more = draw.choice([16, 24]), 8
    if draw.shape == "photos":
        data = draw.pictures(count + more, 300)
    elif draw.shape == "sounds":
        data = draw.floats(count + more, 32_000)
    else:
        data = [draw.words(6000, 500) for _ in range(count + more)]

    def work(item):
        if draw.shape == "photos":
            return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(item), channels=3), [64, 64])
        if draw.shape == "sounds":
            return tf.abs(tf.signal.stft(item, 512, 64))
        return tf.strings.to_hash_bucket_fast(tf.strings.split(tf.strings.upper(item))[:4000], 1000)

    made = tf.data.Dataset.from_tensor_slices(data).map(work, num_parallel_calls=tf.data.AUTOTUNE)
    made = made.take(count).cache() if fixed else made.cache().take(count)
    return made.repeat().batch(8).prefetch(2)
