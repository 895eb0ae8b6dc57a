"""The whole work item after decoding: the twin of the kernel ``preprocess``.

Everything is computed in grey levels, 0 to 255, and becomes a share of 1 or a whole byte at the very end: flip, resize
and brightness do not care about the unit, and saturation depends on ratios alone.
"""

from __future__ import annotations

import numpy as np

from labextras.offload.twins import image_operations, resize
from labextras.offload.twins.random_numbers import RandomDraws


def preprocess(image: np.ndarray, size: int, drawn: RandomDraws | None = None, row: int = 0) -> np.ndarray:
    """Resize and augment one decoded image: the twin of ``preprocess``.

    Parameters
    ----------
    image : ndarray of uint8, shape (h, w, 3)
    size : int
        Side of the output, pixels.
    drawn : labextras.offload.twins.random_numbers.RandomDraws, optional
        None: no augmentation.
    row : int
        The place of the image among the draws.

    Returns
    -------
    ndarray of float32, shape (size, size, 3)
        Grey levels from 0 to 255, for `as_float` or `as_bytes`.
    """
    levels = resize.resize_bilinear(image, size, size)
    if drawn is None:
        return levels
    images = image_operations.flip(levels[None], drawn.flip[row : row + 1])
    images = image_operations.brighten(images, drawn.delta[row : row + 1] * np.float32(255))
    images = image_operations.saturate(images, drawn.factor[row : row + 1])
    return np.clip(images[0], np.float32(0), np.float32(255))


def as_float(levels: np.ndarray) -> np.ndarray:
    """Return grey levels as shares of full brightness: ``level · (1/255)``, float32 in [0, 1]."""
    return np.minimum(levels * np.float32(1 / 255), np.float32(1))


def as_bytes(levels: np.ndarray) -> np.ndarray:
    """Return grey levels as whole bytes: the nearest one, halves to the even neighbour, as ``tf.round`` rounds."""
    return np.rint(levels).astype(np.uint8)
