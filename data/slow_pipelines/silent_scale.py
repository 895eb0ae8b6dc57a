"""Pixels that are believed to lie between 0 and 1 do not: they were scaled in vain, twice, or never.

Source: own; tf.image.convert_image_dtype changes nothing in floats
Cause: wrong data: the range of the pixels
Remedy: divide by 255 once, or convert before the resize
Never: convert_image_dtype where the pipeline calls it in vain
"""

from _draw import Draw

SHAPES = ("converted in vain", "twice", "never")
STEP_MS = 5
FINDS = r"range|scale|blank"
NEVER = r"use tf\.image\.convert_image_dtype(?!.*before)"
INSPECT = {"count": 48, "value_range": (0, 1)}


def make(folder, seed, fixed=False):
    """Return batches of pictures with labels, in random order."""
    import tensorflow as tf

    draw = Draw(__file__, folder, seed, SHAPES)
    side, small = draw.choice([40, 48]), draw.choice([28, 32])
    images = draw.arrays.integers(0, 255, (48, side, side, 3)).astype("uint8")

    def prepare(image, label):
        if fixed:
            return tf.image.resize(image, [small, small]) / 255, label
        if draw.shape == "converted in vain":
            return tf.image.convert_image_dtype(tf.image.resize(image, [small, small]), tf.float32), label
        if draw.shape == "twice":
            image = tf.image.convert_image_dtype(image, tf.float32)
            return tf.image.resize(image, [small, small]) / 255, label
        return tf.image.resize(image, [small, small]), label

    labels = draw.arrays.integers(0, 5, 48)
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(48).map(prepare).batch(8)
