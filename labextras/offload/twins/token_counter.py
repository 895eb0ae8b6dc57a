"""The twin of ``kernels/jpeg_tokens.cl``: Huffman symbols and blocks of JPEG files, counted in plain Python."""

from __future__ import annotations

import itertools
import math

import numpy as np

from labextras.offload.jpeg.outcomes import Unsupported
from labextras.offload.twins.baseline_jpeg import jpeg_entropy, scan

_COUNTED, _UNSUPPORTED, _DAMAGED = range(3)


def jpeg_tokens(files: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return tokens, blocks and status of each file, int32, shape (n, 3); the kernel adds where counting ended.

    A file that is not counted to its end has no tokens and no blocks here; the kernel says how many came before that.
    The two look for other damage: only this one at what stands behind the scan, only the kernel at bits that are left
    over before a restart marker.

    Parameters
    ----------
    files : ndarray of uint8, shape (bytes,)
        The JPEG files, one after the other.
    offsets : ndarray of int32, shape (n + 1,)
        Byte at which each file begins; the last one: where all end.
    """
    data = files.tobytes()
    rows = [_file(data[begin:end]) for begin, end in itertools.pairwise(offsets.tolist())]
    return np.array(rows, np.int32).reshape(len(rows), 3)


def _file(data: bytes) -> tuple[int, int, int]:
    if not data.startswith(b"\xff\xd8"):
        return 0, 0, _UNSUPPORTED
    try:
        frame, intervals = scan(data)
        jpeg_entropy(intervals, frame)
    except ValueError as error:  # also where no Huffman code fits, or the data end
        return 0, 0, _UNSUPPORTED if isinstance(error, Unsupported) else _DAMAGED
    blocks = math.prod(frame.mcus) * sum(part.h * part.v for part in frame.components)
    return sum(bits.symbols for bits in intervals), blocks, _COUNTED
