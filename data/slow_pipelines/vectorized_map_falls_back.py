"""vectorized_map has no converter for an op of its function, and runs a loop over the elements of the batch.

Source: keras-team/keras-cv#291, keras-team/keras-cv#581, tensorflow/tensorflow#58296
Cause: prep, in a loop inside one call of the map
Remedy: map the elements one by one in parallel, before the batch; or ops that take a batch
Never: parallel reads, batch before the map (it is)
"""

from _draw import Draw

SHAPES = ("contrast", "JPEG quality", "crops")
STEP_MS = 4
CAUSE = {"prep"}
OP = r".+"
SAYS = r"loop|one by one|parallel map|num_parallel_calls|one op for all"
NEVER = r"parallel reads|batch before the map"


def make(folder, seed, fixed=False):
    """Return batches of pictures that are changed at random."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    side, size = draw.choice([112, 128]), draw.choice([24, 32])
    pictures = tf.data.Dataset.from_tensor_slices(draw.floats(64, side, side, 3)).repeat()

    def one(image):
        if draw.shape == "JPEG quality":
            return tf.image.random_jpeg_quality(image, 60, 90)
        if draw.shape == "crops":
            at = tf.random.uniform([2], 0, 9999, tf.int32)
            image = tf.image.stateless_random_crop(image, [side - 8, side - 8, 3], at)
            return tf.image.adjust_hue(image, tf.random.uniform([], -0.1, 0.1))
        image = tf.image.adjust_contrast(image, tf.random.uniform([], 0.7, 1.3))
        return tf.image.adjust_saturation(image, tf.random.uniform([], 0.7, 1.3))

    if fixed:
        return pictures.map(one, num_parallel_calls=tf.data.AUTOTUNE).batch(size).prefetch(tf.data.AUTOTUNE)
    return pictures.batch(size).map(lambda some: tf.vectorized_map(one, some)).prefetch(tf.data.AUTOTUNE)
