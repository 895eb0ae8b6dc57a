"""A cache in a file holds decoded pictures as floats, and one thread reads, checks and copies all of these bytes.

Source: tensorflow/tensorflow#28860
Cause: prep or fetch, in the node that reads the cache: many bytes for each element
Remedy: fewer bytes in the file (uint8, converted behind the cache), or cache() in memory
Never: the decoder, GZIP, a cache that is never full, map(num_parallel_calls), the interpreter, a private thread pool
"""

from _draw import Draw

SHAPES = ("crops", "flips", "rows of features")
STEP_MS = 2
CAUSE = {"prep", "fetch"}
OP = r"Cache"
SAYS = r"fewer bytes|in memory"
NEVER = r"Decode|GZIP|never sees|map\(num_parallel_calls|interpreter|private_threadpool"


def make(folder, seed, fixed=False):
    """Return batches from a cache that an earlier run has filled."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    side, size = draw.choice([160, 192]), draw.choice([24, 32])
    pixels = (255 * draw.floats(96, side, side, 3)).astype("uint8")

    def floats(image):
        return tf.cast(image, tf.float32) / 255

    def changed(image):
        image = floats(image) if fixed else image
        if draw.shape == "crops":
            return tf.image.random_crop(image, [64, 64, 3])
        if draw.shape == "flips":
            return tf.image.random_flip_left_right(image[::4, ::4])
        return tf.reduce_mean(image, [0, 1]) * tf.random.uniform([], 0.9, 1.1)

    images = tf.data.Dataset.from_tensor_slices(pixels)
    kept = (images if fixed else images.map(floats)).cache(draw.path("bytes" if fixed else "floats"))
    for _ in kept:  # the earlier run
        pass
    return kept.repeat().map(changed, num_parallel_calls=tf.data.AUTOTUNE).batch(size).prefetch(2)
