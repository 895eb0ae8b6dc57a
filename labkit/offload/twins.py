"""The kernels' twins in NumPy, behind the names that the device's functions have: for a machine without a device.

Nothing falls back to them by itself: whoever takes ``twins.decode`` in place of ``offload.decode`` says so.
A photo takes about a second. Of bytes left over after the last block they know nothing: the device tells padding from
damage there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from labkit import reference
from labkit.offload import host, huffman, jpeg
from labkit.offload.decoder import Decoded
from labkit.offload.devices import NoDevice, devices
from labkit.offload.jpeg import Damaged, Status, Unsupported
from labkit.offload.preprocess import DTYPES, Preprocessed
from labkit.pipelines import augment as ranges
from labkit.reference import fused

#: What a status says of an image that the twins decoded; its code is ``fine``.
TWIN = "by the kernels' twins in NumPy"

_ENDS = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7]")


def has_device() -> bool:
    """Tell whether an OpenCL device answers in this process."""
    try:
        return bool(devices())
    except NoDevice:
        return False


def decode(images: Sequence[bytes]) -> Decoded:
    """Decode JPEG files as `labkit.offload.decode` does, in NumPy; the status of an image says so."""
    pixels, states = zip(*map(_decoded, images), strict=True) if len(images) else ((), ())
    return Decoded(list(pixels), list(states))


def preprocess(
    images: Sequence[bytes], size: int = 224, dtype: str = "uint8", augment: bool = False, seed: int = 0,
    counter: int = 0,
) -> Preprocessed:  # fmt: skip
    """Decode, resize and augment as `labkit.offload.preprocess` does on its exact path, in NumPy.

    Raises
    ------
    ValueError
        If the dtype is none of the two.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not possible: images are {' or '.join(DTYPES)}")
    decoded = decode(images)
    drawn = reference.draws(len(images), seed, counter, ranges.BRIGHTNESS, ranges.SATURATION) if augment else None
    made = np.zeros((len(images), size, size, 3), dtype)
    finish = fused.as_bytes if dtype == "uint8" else fused.as_float
    for row, image in enumerate(decoded.images):
        if image is not None:
            made[row] = finish(fused.preprocess(image, size, drawn, row))
    return Preprocessed(made, decoded.status, drawn, counter)


def _decoded(data: bytes) -> tuple[np.ndarray | None, Status]:
    try:
        frame = jpeg.parse(data)
        stretches = jpeg.intervals(data, frame)
        # The last stretch ends where the data of the scan end: at the first marker that restarts nothing.
        following = _ENDS.search(data, stretches[-1][0])
        stop = following.start() if following else len(data)
        jpeg.finish(data, stop)
        parts = [data[begin : min(end, stop)] for begin, end, _, _ in stretches]
        coefficients = reference.jpeg_entropy(parts, frame)
    except Unsupported as error:
        if error.code == "large":
            return None, Status(False, error.code, error.text, error.byte)
        return host.decode(data, Status(False, error.code, error.text, error.byte, "host"))
    except Damaged as error:
        return None, Status(False, error.code, error.text, error.byte)
    except ValueError as error:
        return None, Status(False, "data", str(error), frame.start)
    steps = [huffman.natural(part.quantiser) for part in frame.components]
    planes = [reference.jpeg_idct(*pair) for pair in zip(coefficients, steps, strict=True)]
    return reference.jpeg_color(planes, frame), Status(True, text=TWIN, where="host")
