"""Bilinear resize with half-pixel centres, as ``tf.image.resize`` does it, and the tables that make it quick.

Pixel i of a row covers the interval [i, i + 1) and its centre is at i + ½. Pixel x of an output row of n_out pixels has
its centre at ``(x + ½) · n_in / n_out`` of the input. The two input pixels whose centres lie around it are mixed by
their distances; beyond the first and the last centre the edge pixel counts alone. Rows are treated like columns.

The choice of the two pixels and their shares depend on the two lengths alone. So a table for the columns and a table
for the rows are enough for all images of a size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Pairs(NamedTuple):
    """For each output position: mix input `first` and its next neighbour, ``a + (b − a) · share``.

    Attributes
    ----------
    first : ndarray of int32, shape (n_out,)
        At most n_in − 2, so that the next one exists; 0 where n_in is 1.
    share : ndarray of float32, shape (n_out,)
        Share of the second one. 0 where n_in is 1.
    """

    first: np.ndarray
    share: np.ndarray


@lru_cache(maxsize=4096)
def pairs(n_in: int, n_out: int) -> Pairs:
    """Return the table of a bilinear resize from `n_in` to `n_out` pixels, each one or more."""
    # Where the centres of the output lie among those of the input: in float32, and in this order, as TensorFlow
    # computes it (`HalfPixelScaler` in its `image_resizer_state.h`). For a wide input the rounding of a position is
    # more than 1e-5 of a pixel.
    half = np.float32(0.5)
    place = (np.arange(n_out, dtype=np.float32) + half) * (np.float32(n_in) / np.float32(n_out)) - half
    below = np.floor(place)
    share = place - below
    first = below.astype(np.int32)
    # Beyond the outer centres the edge counts alone; the pair is moved inside, so that both of it exist.
    share[first < 0] = 0
    first[first < 0] = 0
    share[first > n_in - 2] = 1
    if n_in == 1:
        share[:] = 0
    return Pairs(np.clip(first, 0, max(n_in - 2, 0)), share)


def mix(rows: np.ndarray, table: Pairs, axis: int) -> np.ndarray:
    """Return `rows` (float32) with one axis resized by a table of pairs."""
    rows = np.asarray(rows, np.float32)
    shape = [1] * rows.ndim
    shape[axis] = -1
    last = rows.shape[axis] - 1
    a = rows.take(table.first, axis)
    b = rows.take(np.minimum(table.first + 1, last), axis)
    return a + (b - a) * table.share.reshape(shape)


def resize_bilinear(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize one plane: the twin of the kernel ``resize_bilinear``, and of ``tf.image.resize`` within rounding.

    Parameters
    ----------
    plane : ndarray of uint8 or float32, shape (h, w) or (h, w, channels)
        Grey levels, for example; the unit stays.
    height, width : int
        Of the output, pixels.

    Returns
    -------
    ndarray of float32, shape (height, width) or (height, width, channels)

    Notes
    -----
    Rows are mixed first, columns second, as the kernels do it; TensorFlow takes the columns first, which differs by
    the rounding of float32 alone.
    """
    rows = mix(plane, pairs(plane.shape[0], height), 0)
    return mix(rows, pairs(plane.shape[1], width), 1)
