"""Augmentation, one operation at a time: flip, brightness, saturation, and bytes to floats.

Images are float32 in [0, 1], shape (n, height, width, 3), unless a function says otherwise. Given the same random
numbers each equals its sister in ``tf.image`` within the rounding of float32.
"""

from __future__ import annotations

import numpy as np

from labextras.offload.twins import random_numbers, resize
from labextras.offload.twins.random_numbers import RandomDraws


def _each(values: np.ndarray) -> np.ndarray:
    return np.asarray(values)[:, None, None, None]


def flip(images: np.ndarray, flips: np.ndarray) -> np.ndarray:
    """Mirror those images for which `flips` is True: column x becomes column width − 1 − x."""
    return np.where(_each(flips), images[:, :, ::-1], images)


def brighten(images: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Add one number an image to all of its values, as ``tf.image.adjust_brightness``; nothing is clipped."""
    return images.astype(np.float32) + _each(delta).astype(np.float32)


def saturate(images: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Multiply the saturation of HSV by one number an image, as ``tf.image.adjust_saturation``.

    With V the largest of a pixel's three values and m the smallest, hue and V stay and each value x becomes
    ``V − min(factor, V / (V − m)) · (V − x)``: in HSV, saturation is (V − m) / V, and the minimum limits it to 1.
    A grey pixel stays as it is.

    Source of the formula: the definition of HSV (A. R. Smith, "Color gamut transform pairs", SIGGRAPH '78), solved
    for x.
    """
    images = images.astype(np.float32)
    largest = images.max(-1, keepdims=True)
    spread = largest - images.min(-1, keepdims=True)
    most = largest / np.maximum(spread, np.float32(1e-12))
    limited = np.minimum(_each(factor).astype(np.float32), most)
    return largest - limited * (largest - images)


def random_flip(images: np.ndarray, seed: int, counter: int) -> np.ndarray:
    """Mirror each image or not, with even chances: the twin of the kernel ``random_flip``."""
    return flip(images, random_numbers.draws(len(images), seed, counter).flip)


def random_brightness(images: np.ndarray, seed: int, counter: int, most: float) -> np.ndarray:
    """Add one number in [-most, most) to each image: the twin of the kernel ``random_brightness``."""
    return brighten(images, random_numbers.draws(len(images), seed, counter, brightness=most).delta)


def random_brightness_per_pixel(images: np.ndarray, seed: int, counter: int, most: float) -> np.ndarray:
    """Add another number to each *pixel*: the twin of ``random_brightness_per_pixel``, a mistake to look at.

    A photo in brighter light is brighter everywhere. A number for each pixel is noise: a network learns
    to see through grain, and nothing about light.
    """
    count, height, width, _ = images.shape
    pixel = np.arange(1, height * width + 1).reshape(height, width)
    drawn = random_numbers.words(seed, counter, np.arange(count)[:, None, None], pixel)[..., random_numbers.BRIGHTNESS]
    return images.astype(np.float32) + random_numbers.uniform(drawn, -most, most)[..., None]


def random_saturation(images: np.ndarray, seed: int, counter: int, low: float, high: float) -> np.ndarray:
    """Multiply the saturation of each image by a number in [low, high): the twin of ``random_saturation``."""
    return saturate(images, random_numbers.draws(len(images), seed, counter, saturation=(low, high)).factor)


def normalize_clip(levels: np.ndarray, delta: float) -> np.ndarray:
    """Return ``min(max(levels / 255 + delta, 0), 1)`` as float32 for uint8 `levels` of any shape."""
    return np.clip(levels.astype(np.float32) / np.float32(255) + np.float32(delta), np.float32(0), np.float32(1))


# -- the whole work item after decoding: the twin of the kernel ``preprocess`` -------------------------

# Everything is computed in grey levels, 0 to 255, and becomes a share of 1 or a whole byte at the very end: flip,
# resize and brightness do not care about the unit, and saturation depends on ratios alone.


def preprocess(
    image: np.ndarray, size: int, dtype: str = "uint8", drawn: RandomDraws | None = None, row: int = 0
) -> np.ndarray:
    """Resize and augment one decoded image: the twin of ``preprocess``, and of ``preprocess_bytes``.

    Parameters
    ----------
    image : ndarray of uint8, shape (h, w, 3)
    size : int
        Side of the output, pixels.
    dtype : {"uint8", "float32"}
        uint8: whole grey levels, halves to the even neighbour, as ``tf.round`` rounds. float32: shares of full
        brightness in [0, 1], ``level · (1/255)``.
    drawn : labextras.offload.twins.RandomDraws, optional
        None: no augmentation.
    row : int
        The place of the image among the draws.

    Returns
    -------
    ndarray of `dtype`, shape (size, size, 3)
    """
    levels = resize.resize_bilinear(image, size, size)
    if drawn is not None:
        images = flip(levels[None], drawn.flip[row : row + 1])
        images = brighten(images, drawn.delta[row : row + 1] * np.float32(255))
        images = saturate(images, drawn.factor[row : row + 1])
        levels = np.clip(images[0], np.float32(0), np.float32(255))
    if dtype == "uint8":
        return np.rint(levels).astype(np.uint8)
    return np.minimum(levels * np.float32(1 / 255), np.float32(1))
