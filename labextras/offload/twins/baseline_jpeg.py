"""Baseline JPEG, from bits to pixels: ITU T.81, with libjpeg's arithmetic where the standard leaves room.

Three functions, one for each kernel. The fixed-point inverse DCT is the "slow integer" one of libjpeg (Loeffler,
Ligtenberg and Moschytz 1989); upsampling is its "fancy" one. All numbers are whole: there is one right result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labextras.offload.jpeg import header
from labextras.offload.jpeg.header import Frame
from labextras.offload.jpeg.huffman import ZIGZAG


class Bits:
    """The bits of one restart interval, its stuffed bytes taken out."""

    def __init__(self, data: bytes) -> None:
        self.data = data.replace(b"\xff\x00", b"\xff")
        self.at = 0

    def take(self, count: int) -> int:
        """Return the next `count` bits as a number."""
        end = self.at + count
        if end > 8 * len(self.data):
            raise ValueError("the data end before the image does")
        first, last = self.at // 8, -(-end // 8)
        word = int.from_bytes(self.data[first:last], "big") >> (8 * last - end)
        self.at = end
        return word & ((1 << count) - 1)

    def symbol(self, codes: dict[tuple[int, int], int]) -> int:
        """Return the next Huffman symbol."""
        code = 0
        for length in range(1, 17):
            code = code << 1 | self.take(1)
            if (length, code) in codes:
                return codes[length, code]
        raise ValueError("bits that are no Huffman code")

    def value(self, size: int) -> int:
        """Return the next number of `size` bits: below half it stands for a negative one."""
        bits = self.take(size)
        return bits if size == 0 or bits >> (size - 1) else bits - (1 << size) + 1


def codes(table: bytes) -> dict[tuple[int, int], int]:
    """Return length and code → symbol, from 16 counts by length and then the symbols (T.81, annex C)."""
    found, code, symbols = {}, 0, iter(table[16:])
    for length, count in enumerate(table[:16], 1):
        for _ in range(count):
            found[length, code] = next(symbols)
            code += 1
        code <<= 1
    return found


def scan(data: bytes) -> tuple[Frame, list[Bits]]:
    """Return the header of a whole file, and the bits of each of its restart intervals.

    Raises
    ------
    Unsupported, Damaged
    """
    frame = header.parse(data)
    stretches = header.intervals(data, frame)
    stop = header.scan_end(data, stretches[-1][0])
    header.finish(data, stop)
    return frame, [Bits(data[begin : min(end, stop)]) for begin, end, _, _ in stretches]


def jpeg_entropy(intervals: Sequence[Bits], frame: Frame) -> list[np.ndarray]:
    """Return the quantised coefficients of each component.

    Parameters
    ----------
    intervals : sequence of Bits
        The entropy-coded data between restart markers, see `scan`.
    frame : labextras.offload.jpeg.header.Frame

    Returns
    -------
    list of ndarray of int16, shape (blocks down, blocks across, 64)
        Row by row in each block.

    Raises
    ------
    ValueError
        If the data are damaged.
    """
    across, down = frame.mcus
    result = [np.zeros((down * part.v, across * part.h, 64), np.int16) for part in frame.components]
    tables = [(codes(part.dc), codes(part.ac)) for part in frame.components]
    step = frame.restart or across * down
    for number, bits in enumerate(intervals):
        mean = [0] * len(tables)
        for mcu in range(number * step, min((number + 1) * step, across * down)):
            for c, part in enumerate(frame.components):
                for y in range(mcu // across * part.v, (mcu // across + 1) * part.v):
                    for x in range(mcu % across * part.h, (mcu % across + 1) * part.h):
                        mean[c] += bits.value(bits.symbol(tables[c][0]))
                        result[c][y, x, 0] = mean[c]
                        _ac(bits, tables[c][1], result[c][y, x])
    return result


def _ac(bits: Bits, table: dict[tuple[int, int], int], block: np.ndarray) -> None:
    k = 1
    while k < 64:
        run, size = divmod(bits.symbol(table), 16)
        if size == 0 and run < 15:
            return  # the rest is 0
        k += run
        if k > 63:
            raise ValueError("a run of zeros leaves its block")
        block[ZIGZAG[k]] = bits.value(size)
        k += 1


def jpeg_idct(coefficients: np.ndarray, quantiser: np.ndarray) -> np.ndarray:
    """Return the plane of samples of one component.

    Parameters
    ----------
    coefficients : ndarray of int16, shape (blocks down, blocks across, 64)
    quantiser : ndarray of uint16, shape (64,)
        Row by row.

    Returns
    -------
    ndarray of uint8, shape (8 · blocks down, 8 · blocks across)
    """
    blocks = (coefficients.astype(np.int64) * quantiser).reshape(*coefficients.shape[:2], 8, 8)
    columns = (_transform(blocks, 2) + (1 << 10)) >> 11  # 13 bits of the constants leave, 2 stay
    samples = ((_transform(columns, 3) + (1 << 17)) >> 18) + 128
    down, across = coefficients.shape[:2]
    return samples.clip(0, 255).astype(np.uint8).swapaxes(1, 2).reshape(8 * down, 8 * across)


def _transform(blocks: np.ndarray, axis: int) -> np.ndarray:
    """Return 8-point inverse DCTs along `axis`, 2^13 times as large as the pass needs them, not rounded."""
    v = np.moveaxis(blocks, axis, 0)
    z = (v[2] + v[6]) * _fixed(0.541196100)
    even2, even3 = z - v[6] * _fixed(1.847759065), z + v[2] * _fixed(0.765366865)
    even0, even1 = (v[0] + v[4]) << 13, (v[0] - v[4]) << 13
    half = even0 + even3, even1 + even2, even1 - even2, even0 - even3
    z5 = (v[7] + v[3] + v[5] + v[1]) * _fixed(1.175875602)
    z1, z2 = (v[7] + v[1]) * -_fixed(0.899976223), (v[5] + v[3]) * -_fixed(2.562915447)
    z3 = (v[7] + v[3]) * -_fixed(1.961570560) + z5
    z4 = (v[5] + v[1]) * -_fixed(0.390180644) + z5
    odd = (
        v[1] * _fixed(1.501321110) + z1 + z4,
        v[3] * _fixed(3.072711026) + z2 + z3,
        v[5] * _fixed(2.053119869) + z2 + z4,
        v[7] * _fixed(0.298631336) + z1 + z3,
    )
    first = [a + b for a, b in zip(half, odd, strict=True)]
    second = [a - b for a, b in zip(half, odd, strict=True)]
    return np.moveaxis(np.stack(first + second[::-1]), 0, axis)


def _fixed(number: float) -> int:
    """Return a constant as a whole number, its last 13 bits behind the point."""
    return round(number * 8192)


def jpeg_color(planes: Sequence[np.ndarray], frame: Frame) -> np.ndarray:
    """Return the image of planes: chroma upsampled, colours converted.

    Parameters
    ----------
    planes : sequence of ndarray of uint8
        As `jpeg_idct` gives them.
    frame : labextras.offload.jpeg.header.Frame

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
    """
    whole = []
    for part, plane in zip(frame.components, planes, strict=True):
        across, down = frame.hmax // part.h, frame.vmax // part.v
        own = plane[: -(-frame.height // down), : -(-frame.width // across)].astype(np.int64)
        whole.append(_upsample(own, across, down)[: frame.height, : frame.width])
    if len(whole) == 1:
        whole *= 3
    elif frame.transform:
        y, cb, cr = whole[0], whole[1] - 128, whole[2] - 128
        whole = [
            y + ((91881 * cr + 32768) >> 16),
            y + ((-22554 * cb - 46802 * cr + 32768) >> 16),
            y + ((116130 * cb + 32768) >> 16),
        ]
    return np.stack(whole, -1).clip(0, 255).astype(np.uint8)


def _upsample(plane: np.ndarray, across: int, down: int) -> np.ndarray:
    """Double a plane: three parts of the nearer sample, one of the next; both ways at once, rounded once."""
    if across == 2 and plane.shape[1] <= 2:
        return plane.repeat(2, 1).repeat(down, 0)
    unit = 1
    if down == 2:
        edged = np.pad(plane, ((1, 1), (0, 0)), "edge")
        rows = np.stack([3 * plane + edged[:-2], 3 * plane + edged[2:]], 1).reshape(-1, plane.shape[1])
        if across == 1:
            return (rows + np.tile([[1], [2]], (len(plane), 1))) >> 2
        plane, unit = rows, 4
    if across == 2:
        edged = np.pad(plane, ((0, 0), (1, 1)), "edge")
        even, odd = 3 * plane + edged[:, :-2], 3 * plane + edged[:, 2:]
        rounding, bits = ((8, 7), 4) if unit == 4 else ((1, 2), 2)
        return np.stack([(even + rounding[0]) >> bits, (odd + rounding[1]) >> bits], 2).reshape(len(plane), -1)
    return plane
