"""Augmentation, one operation at a time: flip, brightness, saturation, and bytes to floats.

Images are float32 in [0, 1], shape (n, height, width, 3), unless a function says otherwise. Given the same random
numbers each equals its sister in ``tf.image`` within the rounding of float32.
"""

from __future__ import annotations

import numpy as np

from labextras.offload.twins import random_numbers


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
