"""A map that draws at random has no num_parallel_calls, and TensorFlow makes no such map parallel by itself.

Source: own; TensorFlow's rewriting leaves maps alone whose order changes what they draw
Cause: prep, in the work of the map, on one thread
Remedy: map(num_parallel_calls=AUTOTUNE)
Never: parallel reads, a private thread pool, the interpreter
"""

from _draw import Draw

SHAPES = ("photos", "sounds", "matrices")
STEP_MS = 2
CAUSE = {"prep"}
OP = r".+"
SAYS = r"num_parallel_calls=AUTOTUNE"
NEVER = r"parallel reads|private_threadpool|interpreter"


def make(folder, seed, fixed=False):
    """Return batches of elements that are changed at random."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    if draw.shape == "photos":
        data = draw.pictures(8, draw.choice([250, 300]))
    else:
        data = draw.floats(12, 24_000) if draw.shape == "sounds" else draw.floats(12, 96, 96)

    def work(item):
        if draw.shape == "photos":
            image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(item), channels=3), [96, 96]) / 255
            return tf.image.random_hue(tf.image.random_flip_left_right(image), 0.1)
        if draw.shape == "sounds":
            return tf.abs(tf.signal.stft(item + tf.random.normal(tf.shape(item), stddev=0.1), 512, 64))
        return tf.linalg.svd(item + tf.random.uniform(tf.shape(item)), compute_uv=False)

    calls = tf.data.AUTOTUNE if fixed else None
    made = tf.data.Dataset.from_tensor_slices(data).shuffle(12).repeat().map(work, num_parallel_calls=calls)
    return made.batch(draw.choice([12, 16])).prefetch(tf.data.AUTOTUNE)
