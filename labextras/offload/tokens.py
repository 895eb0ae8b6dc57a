"""The work that a JPEG is for a decoder in hardware: its tokens and blocks, counted by the kernel ``jpeg_tokens``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The meanings of the third number of the kernel.
STATUS = ("counted", "not a baseline JPEG that the card decodes", "damaged")


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """The counts of some JPEGs, one entry for each.

    Parameters
    ----------
    bytes, tokens, blocks : ndarray of int64, shape (n,)
        Of the file; Huffman symbols and blocks of 8x8 of its scan.
    status : ndarray of int64, shape (n,)
        Index into `STATUS`.
    where : str
        The place of the counting.
    """

    bytes: np.ndarray
    tokens: np.ndarray
    blocks: np.ndarray
    status: np.ndarray
    where: str

    @classmethod
    def from_rows(cls, rows: np.ndarray, images: Sequence[bytes], where: str) -> Counted:
        """Make it from the numbers of the kernel, shape (n, 3) or more."""
        rows = rows.astype(np.int64)
        return cls(np.array([len(i) for i in images], np.int64), rows[:, 0], rows[:, 1], rows[:, 2], where)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.bytes)

    def whole(self) -> Counted:
        """Return those that were counted to their end: a card hands the others back to the host.

        Raises
        ------
        ValueError
            If there is none.
        """
        good = self.status == 0
        if not good.any():
            raise ValueError(f"none of {len(self)} images could be counted; allowed: at least one baseline JPEG")
        return Counted(self.bytes[good], self.tokens[good], self.blocks[good], self.status[good], self.where)

    def __str__(self) -> str:
        """Return the means, and what could not be counted, on one line."""
        good = self.status == 0
        text = f"{int(good.sum())} of {len(self)} JPEGs counted by {self.where}"
        if good.any():
            means = (float(column[good].mean()) for column in (self.bytes / 1e3, self.tokens, self.blocks))
            text += ", on average {:,.0f} kB, {:,.0f} tokens, {:,.0f} blocks".format(*means)
        for code in sorted(set(self.status[~good].tolist())):
            text += f"; {int((self.status == code).sum())} {STATUS[code]}"
        return text

    __repr__ = __str__


def packed(images: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Return all files in one array of uint8, and where each begins, int32, shape (n + 1,).

    Raises
    ------
    ValueError
        If they are more than 2 GiB together: the kernel counts bytes in int32.
    """
    offsets = np.cumsum([0, *(len(image) for image in images)])
    if offsets[-1] >= 1 << 31:
        raise ValueError(f"images have {offsets[-1]:,} bytes together; allowed: less than 2 GiB in one call")
    return np.frombuffer(b"".join(images), np.uint8), offsets.astype(np.int32)


def count(images: Sequence[bytes], engine: Any = None) -> Counted:
    """Count tokens and blocks on an OpenCL device.

    Parameters
    ----------
    images : sequence of bytes
        JPEG files.
    engine : Engine, optional
        By default one on the first device.

    Raises
    ------
    NoDevice
        If there is no device; `count_on_host` needs none.
    ValueError
        If there are no images, or more than 2 GiB.
    """
    from labextras.offload.opencl.engine import Engine

    images = _files(images)
    engine = Engine() if engine is None else engine
    files, offsets = packed(images)
    rows = np.zeros((len(images), 4), np.int32)
    on_device = engine.empty(rows.nbytes)
    buffers = engine.upload(files), engine.upload(offsets), on_device
    engine.run(engine.kernel("jpeg_tokens"), [len(images)], *buffers, np.int32(len(images)), local=[1])
    return Counted.from_rows(engine.download(on_device, rows), images, f"our kernel on {engine.device.name.strip()}")


def count_on_host(images: Sequence[bytes]) -> Counted:
    """Count the same with the kernel's twin in Python: seconds for some photos."""
    from labextras.offload.twins import jpeg_tokens

    images = _files(images)
    return Counted.from_rows(jpeg_tokens(*packed(images)), images, "the kernel's twin in Python (no OpenCL device)")


def _files(images: Sequence[bytes]) -> list[bytes]:
    if isinstance(images, (bytes, bytearray, str)) or not len(images):
        raise ValueError(f"images is {images!r:.40}; allowed: a list of one or more JPEG files as bytes")
    return [bytes(image) for image in images]
