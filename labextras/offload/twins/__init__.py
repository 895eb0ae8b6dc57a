"""The NumPy twin of each kernel, to be read: the formula without the device, and the truth that tests compare with.

A function has the name of its kernel: `resize_bilinear` is the twin of ``kernels/resize_bilinear.cl``, and so on. It
takes and returns arrays, says its formula and its source, and is slow where slow is clearer.

`decode` and `try_kernel` have the names of functions of `labextras.offload`, for a machine without a device. Nothing
uses them in place of a device unasked: a reader writes ``twins.decode`` instead of ``offload.decode``. A photo takes
about a second. The twins do not know padding after the last block, which the device reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labextras.offload.jpeg import host, huffman
from labextras.offload.jpeg.decoder import Decoded
from labextras.offload.jpeg.outcomes import Refusal, Status
from labextras.offload.opencl.devices import NoDevice, devices
from labextras.offload.trial import Tried
from labextras.offload.twins.baseline_jpeg import jpeg_color, jpeg_entropy, jpeg_idct, scan
from labextras.offload.twins.image_operations import (
    normalize_clip,
    preprocess,
    random_brightness,
    random_brightness_per_pixel,
    random_flip,
    random_saturation,
)
from labextras.offload.twins.own_photo import open_photo
from labextras.offload.twins.random_numbers import draws, philox
from labextras.offload.twins.resize import resize_bilinear
from labextras.offload.twins.token_counter import jpeg_tokens

__all__ = [
    "decode", "draws", "has_device", "jpeg_color", "jpeg_entropy", "jpeg_idct", "jpeg_tokens", "normalize_clip",
    "open_photo", "philox", "preprocess", "random_brightness", "random_brightness_per_pixel", "random_flip",
    "random_saturation", "resize_bilinear", "scan", "try_kernel",
]  # fmt: skip

#: The text of the status of an image that the twins decoded; its code is ``fine``.
TWIN = "by the kernels' twins in NumPy"


def has_device() -> bool:
    """Return True if an OpenCL device answers in this process."""
    try:
        return bool(devices())
    except NoDevice:
        return False


def try_kernel(*_arguments: Any, **_settings: Any) -> Tried:
    """Say that nothing was run: no twin reads OpenCL. Arguments are those of `labextras.offload.try_kernel`."""
    return Tried(False, "there is no OpenCL device, so nothing was run")


def decode(images: Sequence[bytes]) -> Decoded:
    """Decode JPEG files as `labextras.offload.decode` does, in NumPy; the status of an image says so."""
    pixels, states = zip(*map(_decoded, images), strict=True) if len(images) else ((), ())
    return Decoded(list(pixels), list(states))


def _decoded(data: bytes) -> tuple[np.ndarray | None, Status]:
    try:
        frame, intervals = scan(data)
        coefficients = jpeg_entropy(intervals, frame)
    except Refusal as error:
        state = error.status()
        return host.decode(data, state) if state.where == "host" else (None, state)
    except ValueError as error:
        return None, Status(False, "data", str(error), frame.start)
    steps = [huffman.natural(part.quantiser) for part in frame.components]
    planes = [jpeg_idct(*pair) for pair in zip(coefficients, steps, strict=True)]
    return jpeg_color(planes, frame), Status(True, text=TWIN, where="host")
