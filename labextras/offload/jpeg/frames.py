"""From headers to the records that the JPEG kernels read: where each block, plane and pixel of a batch lies.

``frames``, int32 (n, 64), one row for each image:

    0 MCUs across, 1 MCUs down, 2 components (1 or 3), and for component c from 8 + 12 c on:
    +0 h, +1 v, +2 blocks across, +3 blocks down, +4 first block, +5 DC table, +6 AC table, +7 quantisation table

``layout``, int32 (n, 32), one row for each image:

    0 width, 1 height, 2 components, 3 transform (1 YCbCr, 0 as it is), 4 first byte of its RGB pixels, 5 bytes from one
    RGB row to the next, 6 hmax, 7 vmax, and for component c from 8 + 8 c on:
    +0 first byte of its plane, +1 bytes from row to row, +2 width, +3 height (both in samples), +4 h, +5 v

A plane's rows have 16 bytes before their first sample and at least 48 after the last. The row of an image that failed
is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labextras.offload.jpeg.header import Frame

FRAME, LAYOUT = 64, 32

#: Bytes of a row of a plane before its first sample, and at least as many after its last.
BEFORE, AFTER = 16, 48

#: OpenCL offsets are int32 here: bytes of a batch, in all.
LIMIT_BYTES = (1 << 31) - (1 << 16)


class Records(NamedTuple):
    """The records of a batch; offsets count within chunks of images that are decoded one after the other.

    Parameters
    ----------
    frames, layout : ndarray of int32
        See the module.
    chunks : list of (int, int)
        First image and the one after the last.
    blocks, plane_bytes : int
        What the largest chunk needs.
    rgb_bytes : int
        Of the whole batch.
    """

    frames: np.ndarray
    layout: np.ndarray
    chunks: list[tuple[int, int]]
    blocks: int
    plane_bytes: int
    rgb_bytes: int


def lay_out(images: Sequence[Frame], tables: np.ndarray, chunk_blocks: int) -> Records:
    """Return the records of a batch of one image or more.

    Parameters
    ----------
    images : sequence of Frame
    tables : ndarray of int32, shape (n, 3, 3)
        For each component its DC, AC and quantisation table.
    chunk_blocks : int
        Blocks that are decoded at a time, or those of one image where that has more.

    Raises
    ------
    ValueError
        If pixels or planes of the batch take more than `LIMIT_BYTES`.
    """
    n = len(images)
    basics = np.array([(f.width, f.height, len(f.components), f.transform, f.hmax, f.vmax) for f in images], np.int64)
    width, height, count, _, hmax, vmax = basics.T
    factors = [[(part.h, part.v) for part in f.components] + [(1, 1)] * (3 - len(f.components)) for f in images]
    h, v = np.moveaxis(np.array(factors, np.int64), -1, 0)
    there = np.arange(3) < count[:, None]
    mcus_x, mcus_y = -(-width // (8 * hmax)), -(-height // (8 * vmax))
    across, down = mcus_x[:, None] * h, mcus_y[:, None] * v
    blocks = np.where(there, across * down, 0)
    own_width, own_height = -(-width[:, None] * h // hmax[:, None]), -(-height[:, None] * v // vmax[:, None])
    stride = (BEFORE + -(-own_width // 8) * 8 + AFTER + 31) // 32 * 32
    # One row more, because a vector that begins in the last row may end after it.
    plane = np.where(there, stride * (-(-own_height // 8) * 8 + 1), 0)
    rgb = 3 * width * height
    rgb_start = np.cumsum(rgb) - rgb

    image_blocks = blocks.sum(1)
    chunks, begin, held = [], 0, 0
    for i, more in enumerate(image_blocks.tolist()):
        if i > begin and held + more > chunk_blocks:
            chunks.append((begin, i))
            begin, held = i, 0
        held += more
    chunks.append((begin, n))

    first_block, first_byte = np.zeros((n, 3), np.int64), np.zeros((n, 3), np.int64)
    most_blocks = most_bytes = 0
    for a, b in chunks:
        block_ends, byte_ends = (np.cumsum(counts[a:b]).reshape(-1, 3) for counts in (blocks, plane))
        first_block[a:b], first_byte[a:b] = block_ends - blocks[a:b], byte_ends - plane[a:b] + BEFORE
        most_blocks, most_bytes = max(most_blocks, int(block_ends[-1, -1])), max(most_bytes, int(byte_ends[-1, -1]))
    rgb_bytes = int(rgb.sum())
    needed = max(most_bytes, rgb_bytes)
    if needed > LIMIT_BYTES or most_blocks > LIMIT_BYTES // 64:
        raise ValueError(f"the batch takes {needed:,} bytes decoded; {LIMIT_BYTES:,} is the most: give fewer images")

    frames, layout = np.zeros((n, FRAME), np.int32), np.zeros((n, LAYOUT), np.int32)
    frames[:, 0], frames[:, 1], frames[:, 2] = mcus_x, mcus_y, count
    layout[:, :4], layout[:, 4], layout[:, 5], layout[:, 6:8] = basics[:, :4], rgb_start, 3 * width, basics[:, 4:]
    # Each component has 12 numbers in `frames` and 8 in `layout`, see above.
    geometry = np.stack([h, v, across, down, first_block], -1)
    planes = np.stack([first_byte, stride, own_width, own_height, h, v], -1) * there[:, :, None]
    for c in range(3):
        frames[:, 8 + 12 * c : 13 + 12 * c], frames[:, 13 + 12 * c : 16 + 12 * c] = geometry[:, c], tables[:, c]
        layout[:, 8 + 8 * c : 14 + 8 * c] = planes[:, c]
    return Records(frames, layout, chunks, most_blocks, most_bytes, rgb_bytes)
