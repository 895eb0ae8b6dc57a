"""Batches: decoded images on their way to the device, results on their way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labextras.offload.jpeg.outcomes import Status
from labextras.offload.opencl.engine import Engine

#: Bytes of decoded images in a batch: what an int32 can count.
MOST_BYTES = 2**31 - 1


#: What the values of a finished image may be.
DTYPES = ("uint8", "float32")


@dataclass(frozen=True, eq=False, repr=False)
class Preprocessed:
    """A batch of images that went through the device.

    Parameters
    ----------
    images : ndarray of float32 in [0, 1] or of uint8, shape (n, size, size, 3)
        A failed image is all zeros.
    status : list of labextras.offload.jpeg.outcomes.Status
        One for each image; empty for images that were given as pixels.
    """

    images: np.ndarray
    status: list[Status]

    def __repr__(self) -> str:
        """Return how many images there are, of which kind, how many the host decoded, and how many failed."""
        count, size = self.images.shape[:2]
        host, failed = (sum(where == status.where for status in self.status) for where in ("host", "none"))
        kind = f"{count} images of {size}×{size}, {self.images.dtype}"
        return f"Preprocessed({kind}; {host} decoded by the host, {failed} failed)"


@dataclass(frozen=True, eq=False)
class Pixels:
    """A batch of images on the device, valid until the next batch of what made it.

    Parameters
    ----------
    pixels : pyopencl.Buffer
        uint8, one interleaved RGB image after the other, rows without gaps.
    layout : pyopencl.Buffer
        int32 (n, 32), see `labextras.offload.jpeg.frames`; width 0 where an image failed or is not on the device.
    rows : ndarray of int32, shape (n, 32)
        The layout, on the host.
    status : list of Status
        ``where`` is ``host`` and ``ok`` False for files that only the host decodes; empty for images given as pixels.
    """

    pixels: Any
    layout: Any
    rows: np.ndarray
    status: list[Status]


class Gathered:
    """Memory of the device for images that are decoded already; it is kept from batch to batch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._buffer = engine.empty(1)

    def take(self, images: Sequence[np.ndarray | None]) -> Pixels:
        """Copy decoded images to the device; for None, the place of the image in the result stays as it is.

        Raises
        ------
        ValueError
            If an image is not RGB in bytes, or if there are too many.
        """
        images = [None if image is None else np.asarray(image) for image in images]  # or a tensor of TensorFlow's
        rows = np.zeros((len(images), 32), np.int32)
        rows[:, 0] = -1
        total = 0
        for row, image in zip(rows, images, strict=True):
            if image is None:
                continue
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                given = f"{image.dtype} of shape {image.shape}"
                raise ValueError(f"an image is {given}: allowed is uint8, (height, width, 3)")
            if total + image.size > MOST_BYTES:
                raise ValueError(f"{len(images)} images are more than {MOST_BYTES} bytes: take fewer at once")
            row[:6] = image.shape[1], image.shape[0], 3, 0, total, 3 * image.shape[1]
            total += image.size
        if total > self._buffer.size:
            self._buffer = self._engine.empty(total)
        if total:
            with self._engine.mapped(self._buffer, total, write=True) as place:
                for row, image in zip(rows, images, strict=True):
                    if image is not None:
                        place[row[4] : row[4] + image.size].reshape(image.shape)[:] = image
        return Pixels(self._buffer, self._engine.upload(rows), rows, [])


class BatchResult:
    """An array of the host that is the memory of a buffer: where the device is the processor, nothing is copied."""

    def __init__(self, engine: Engine, shape: tuple[int, ...], dtype: np.dtype) -> None:
        import pyopencl as cl

        size = math.prod(shape) * dtype.itemsize
        room = max(1, size)
        # TensorFlow takes an array without copying it where it begins at a multiple of 64 bytes.
        memory = np.empty(room + 64, np.uint8)
        start = -memory.ctypes.data % 64
        self.array = memory[start : start + size].view(dtype).reshape(shape)
        flags = cl.mem_flags.WRITE_ONLY | cl.mem_flags.USE_HOST_PTR
        self.buffer = cl.Buffer(engine.context, flags, hostbuf=memory[start : start + room])

    def fetch(self, engine: Engine) -> None:
        """Wait for the device and make what it wrote visible in `array`."""
        with engine.mapped(self.buffer, self.array.nbytes):
            pass
        engine.finish()
