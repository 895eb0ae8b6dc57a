"""The whole work item after decoding: the twins of the kernels ``preprocess`` and ``preprocess_planes``.

Everything is computed in grey levels, 0 to 255, and becomes a share of 1 or a whole byte at the very end: flip, resize
and brightness do not care about the unit, and saturation depends on ratios alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labkit.reference import augment, random, resize

#: From YCbCr to RGB (ITU-T T.871, the JFIF standard, section 7).
CR_TO_RED, CB_TO_GREEN, CR_TO_GREEN, CB_TO_BLUE = (np.float32(x) for x in (1.402, -0.344136286, -0.714136286, 1.772))


class Plane(NamedTuple):
    """One component of a decoded JPEG, before chroma upsampling.

    Attributes
    ----------
    samples : ndarray of uint8, shape (height, width)
        Without the padding to whole blocks.
    across, down : int
        Pixels of the image for each sample along a row and along a column: 1 or 2.
    """

    samples: np.ndarray
    across: int = 1
    down: int = 1


def preprocess(image: np.ndarray, size: int, drawn: random.Draws | None = None, row: int = 0) -> np.ndarray:
    """Resize and augment one decoded image: the twin of ``preprocess``.

    Parameters
    ----------
    image : ndarray of uint8, shape (h, w, 3)
    size : int
        Side of the output, pixels.
    drawn : labkit.reference.random.Draws, optional
        None: no augmentation.
    row : int
        The place of the image among the draws.

    Returns
    -------
    ndarray of float32, shape (size, size, 3)
        Grey levels from 0 to 255, for `as_float` or `as_bytes`.
    """
    return finish(resize.resize_bilinear(image, size, size), drawn, row)


def preprocess_planes(
    planes: Sequence[Plane], height: int, width: int, size: int, transform: bool = True,
    drawn: random.Draws | None = None, row: int = 0,
) -> np.ndarray:  # fmt: skip
    """Resize and augment one image from its planes, with no RGB image in between: the twin of ``preprocess_planes``.

    Parameters
    ----------
    planes : sequence of Plane
        One (grey) or three; the first has a sample for each pixel.
    height, width : int
        Of the image, pixels.
    size, drawn, row
        As in `preprocess`.
    transform : bool
        True: YCbCr; False: the planes are red, green and blue.

    Returns
    -------
    ndarray of float32, shape (size, size, 3)
        Grey levels from 0 to 255.
    """
    first = resize.resize_bilinear(planes[0].samples, size, size)
    if len(planes) == 1:
        return finish(np.repeat(first[..., None], 3, -1), drawn, row)
    others = []
    for plane in planes[1:]:
        smooth = smoothed(plane.samples.shape[1], plane.across)
        down = resize.taps(plane.samples.shape[0], plane.down, height, size, smooth)
        across = resize.taps(plane.samples.shape[1], plane.across, width, size, smooth)
        others.append(resize.mix3(resize.mix3(plane.samples, down, 0), across, 1))
    if not transform:
        return finish(np.stack([first, *others], -1), drawn, row)
    cb, cr = (plane - np.float32(128) for plane in others)
    red = first + CR_TO_RED * cr
    green = first + (CB_TO_GREEN * cb + CR_TO_GREEN * cr)
    blue = first + CB_TO_BLUE * cb
    return finish(np.clip(np.stack([red, green, blue], -1), np.float32(0), np.float32(255)), drawn, row)


def smoothed(n_chroma: int, across: int) -> bool:
    """Say whether libjpeg smooths a component: not one that is two samples or less wide and is widened."""
    return across == 1 or n_chroma > 2


def finish(levels: np.ndarray, drawn: random.Draws | None, row: int) -> np.ndarray:
    """Flip, brighten, saturate and clip one image in grey levels; without draws return it as it is."""
    if drawn is None:
        return levels
    images = augment.flip(levels[None], drawn.flip[row : row + 1])
    images = augment.brighten(images, drawn.delta[row : row + 1] * np.float32(255))
    images = augment.saturate(images, drawn.factor[row : row + 1])
    return np.clip(images[0], np.float32(0), np.float32(255))


def as_float(levels: np.ndarray) -> np.ndarray:
    """Return grey levels as shares of full brightness: ``level · (1/255)``, float32 in [0, 1]."""
    return np.minimum(levels * np.float32(1 / 255), np.float32(1))


def as_bytes(levels: np.ndarray) -> np.ndarray:
    """Return grey levels as whole bytes: the nearest one, halves to the even neighbour, as ``tf.round`` rounds."""
    return np.rint(levels).astype(np.uint8)
