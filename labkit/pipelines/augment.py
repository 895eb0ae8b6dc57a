"""The float stage of the walk on a whole batch: scale, flip, brightness, saturation, clip, in one pass over memory.

`batch` computes what ``tf.image`` computes one image and one operation at a time. Compiled by XLA the operations
become one loop: each pixel is read once and written once. Without compilation each operation below is a pass
of its own over the batch, and the stage is slower than the images one by one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

#: Largest change of brightness, and the range of the factor of saturation.
BRIGHTNESS = 32 / 255
SATURATION = (0.5, 1.5)

#: How far a value in [0, 1] may lie from the naive pipeline's, given the same random numbers, where the batch
#: travels as float16. A grey level of 0 to 255 is rounded to 11 bits: at most 0.0625 levels off above 128. Saturation
#: makes at most four times as much of it, 0.25 of 255. With float32 in between it is rounding alone, 2e-6.
TOLERANCE = 1e-3
TOLERANCE_FLOAT32 = 2e-6
#: Where resized pixels are kept as uint8: half a level off, four times as much after saturation.
TOLERANCE_UINT8 = 8e-3


def draws(count: int) -> tuple[Any, Any, Any]:
    """Return random numbers for `count` images: flip (bool), brightness and saturation (float32), shape (count,).

    One scalar an image, as ``tf.image.random_brightness`` and its sisters draw them.
    """
    import tensorflow as tf

    flip = tf.random.uniform([count]) < 0.5
    return flip, tf.random.uniform([count], -BRIGHTNESS, BRIGHTNESS), tf.random.uniform([count], *SATURATION)


def batch(images: Any, flip: Any, delta: Any, factor: Any) -> Any:
    """Scale, flip, brighten, saturate and clip a batch.

    Parameters
    ----------
    images : tensor of uint8, float16 or float32, shape (n, height, width, 3)
        RGB, grey levels 0 to 255.
    flip : tensor of bool, shape (n,)
        True: left becomes right.
    delta, factor : tensor of float32, shape (n,)
        Added to each value in [0, 1]; multiplies the saturation in HSV.

    Returns
    -------
    tensor of float32, shape (n, height, width, 3)
        In [0, 1].

    Notes
    -----
    Saturation without a trip to HSV: hue and value stay, so each channel x moves along the line to the
    largest one, V. With m the smallest, ``V - min(factor, V / (V - m)) · (V - x)``; the minimum is HSV's saturation
    limited to 1. It agrees with ``tf.image.adjust_saturation`` within float32 rounding.
    """
    import tensorflow as tf

    def each(values: Any) -> Any:
        return values[:, None, None, None]

    images = tf.where(each(flip), images[:, :, ::-1], images)
    images = tf.cast(images, tf.float32) * (1 / 255) + each(delta)
    # Slices, not reduce_max over the last axis: XLA makes vector code of the one and a scalar loop of the other.
    red, green, blue = images[..., 0:1], images[..., 1:2], images[..., 2:3]
    largest = tf.maximum(tf.maximum(red, green), blue)
    smallest = tf.minimum(tf.minimum(red, green), blue)
    most = largest * tf.math.reciprocal(tf.maximum(largest - smallest, 1e-12))
    saturated = largest - tf.minimum(each(factor), most) * (largest - images)
    return tf.clip_by_value(saturated, 0.0, 1.0)


@lru_cache(maxsize=1)
def compiled() -> Any:
    """Return `batch` compiled by XLA; one compilation for each shape and dtype of images."""
    import tensorflow as tf

    return tf.function(batch, jit_compile=True)


def fresh(images: Any, label: Any) -> tuple[Any, Any]:
    """Augment a batch of a known length with new random numbers: a function for ``dataset.map``."""
    return compiled()(images, *draws(images.shape[0])), label
