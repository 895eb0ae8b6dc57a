"""A shuffle buffer holds decoded elements, and every epoch begins with filling it.

Source: own
Cause: start or prep: the buffer is filled before the first batch of each epoch
Remedy: shuffle the names, before the work; and repeat before it
Never: a private thread pool, the interpreter
"""

from _draw import Draw

SHAPES = ("photos", "sounds", "matrices")
STEP_MS = 12
STEPS = 40
CAUSE = {"start", "prep", "fetch"}
OP = r".+"
SAYS = r"shuffle|repeat\(\) before"
NEVER = r"private_threadpool|interpreter"


def make(folder, seed, fixed=False):
    """Return batches, each epoch in another order."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    count, size = draw.choice([96, 128]), 16
    if draw.shape == "photos":
        data = draw.pictures(count, 160)
    else:
        data = draw.floats(count, 16_000) if draw.shape == "sounds" else draw.floats(count, 48, 48)

    def work(item):
        if draw.shape == "photos":
            return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(item), channels=3), [64, 64])
        if draw.shape == "sounds":
            return tf.abs(tf.signal.stft(item, 512, 128))
        return tf.linalg.svd(item, compute_uv=False)

    items, calls = tf.data.Dataset.from_tensor_slices(data), tf.data.AUTOTUNE
    if fixed:
        return items.shuffle(count).repeat().map(work, num_parallel_calls=calls).batch(size).prefetch(calls)
    return items.map(work, num_parallel_calls=calls).shuffle(count).batch(size).prefetch(calls).repeat()
