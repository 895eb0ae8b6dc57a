"""One kernel at a time: copy the arguments to the first device, launch, copy the result back.

Each function has the name, the arguments and the result of its twin in `labextras.offload.twins`. The fused kernel of
`labextras.offload.preprocess` is faster; here the result of each step can be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labextras.offload.opencl.engine import Engine
from labextras.offload.twins import random_numbers


def _launch(name: str, size: tuple[int, ...], given: np.ndarray, shape: tuple[int, ...], *scalars: Any) -> np.ndarray:
    engine = Engine()
    out = engine.empty(4 * int(np.prod(shape)))
    engine.run(engine.kernel(name), size, engine.upload(given), out, *scalars)
    return engine.download(out, np.empty(shape, np.float32))


def resize_bilinear(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize one plane with the kernel ``resize_bilinear``.

    Parameters
    ----------
    plane : ndarray of uint8, shape (h, w)
    height, width : int
        Of the output, pixels.

    Returns
    -------
    ndarray of float32, shape (height, width)

    Raises
    ------
    NoDevice
        If there is no OpenCL device.
    """
    rows, columns = plane.shape
    sides = map(np.int32, (rows, columns, height, width))
    scales = np.float32(rows) / np.float32(height), np.float32(columns) / np.float32(width)
    given = np.ascontiguousarray(plane, np.uint8)
    return _launch("resize_bilinear", (width, height), given, (height, width), *sides, *scales)


def random_brightness(images: np.ndarray, seed: int, counter: int, most: float) -> np.ndarray:
    """Add one number in [-most, most) to each image with the kernel ``random_brightness``.

    Parameters
    ----------
    images : ndarray of float32, shape (n, height, width, 3)
        Shares of full brightness.
    seed, counter : int
        0 to 2**64 - 1; they name the random numbers.
    most : float

    Returns
    -------
    ndarray of float32, shape of `images`

    Raises
    ------
    NoDevice
        If there is no OpenCL device.
    """
    n, height, width, _ = images.shape
    words = (np.array(random_numbers.halves(*each), np.uint32) for each in ((seed, "seed"), (counter, "counter")))
    counts = np.int32(n), np.int32(height * width)
    given = np.ascontiguousarray(images, np.float32)
    return _launch("random_brightness", (height * width, n), given, images.shape, *counts, *words, np.float32(most))


def normalize_clip(levels: np.ndarray, delta: float) -> np.ndarray:
    """Turn grey levels into shares of full brightness, add `delta` and clip, with the kernel ``normalize_clip``.

    Parameters
    ----------
    levels : ndarray of uint8
    delta : float

    Returns
    -------
    ndarray of float32, shape of `levels`

    Raises
    ------
    NoDevice
        If there is no OpenCL device.
    """
    given = np.ascontiguousarray(levels, np.uint8)
    return _launch("normalize_clip", (levels.size,), given, levels.shape, np.float32(delta), np.int32(levels.size))
