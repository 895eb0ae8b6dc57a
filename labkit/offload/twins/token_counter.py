"""The twin of ``kernels/jpeg_tokens.cl``: Huffman symbols and blocks of JPEG files, counted in plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from labkit.offload.twins.baseline_jpeg import Bits, codes

_COUNTED, _UNSUPPORTED, _DAMAGED = range(3)
_NO_BASELINE = {*range(0xC2, 0xD0)} - {0xC4, 0xC8, 0xCC}

_MARKER = re.compile(rb"\xff(?!\x00)")
_RESTART = re.compile(rb"\xff+[\xd0-\xd7]")


class _Stop(Exception):
    """Counting ends here; the argument is the status."""


def jpeg_tokens(files: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return tokens, blocks and status of each file, int32, shape (n, 3); the kernel adds where counting ended.

    Parameters
    ----------
    files : ndarray of uint8, shape (bytes,)
        The JPEG files, one after the other.
    offsets : ndarray of int32, shape (n + 1,)
        Byte at which each file begins; the last one: where all end.
    """
    data = files.tobytes()
    rows = [_file(data[a:b]) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return np.array(rows, np.int32).reshape(len(rows), 3)


def _file(data: bytes) -> list[int]:
    row = [0, 0, _COUNTED]
    try:
        _scan(data, *_header(data), row)
    except _Stop as stop:
        (row[2],) = stop.args
    except ValueError:  # no Huffman code, or the data end
        row[2] = _DAMAGED
    return row


def _segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield marker, content and the first byte of the content of each segment."""
    if data[:2] != b"\xff\xd8":
        raise _Stop(_UNSUPPORTED)
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at + 1] == 0xFF:
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if not at + 4 <= end <= len(data):
            break
        yield data[at + 1], data[at + 4 : end], at + 4
        at = end
    raise _Stop(_DAMAGED)


def _header(data: bytes) -> tuple[int, int, int, list[tuple[dict, dict, int]]]:
    """Return where the scan begins, its units, units between restarts, and tables and blocks of each component."""
    tables: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    frame: tuple[int, int, list[tuple[int, int, int]]] | None = None
    restart = 0
    for marker, content, start in _segments(data):  # noqa: B007 - the last one is the scan
        if marker == 0xC4:
            _tables(content, tables)
        elif marker in (0xC0, 0xC1):
            frame = _frame(content)
        elif marker in _NO_BASELINE:
            raise _Stop(_UNSUPPORTED)
        elif marker == 0xDD and len(content) >= 2:
            restart = int.from_bytes(content[:2], "big")
        elif marker == 0xD9:
            raise _Stop(_DAMAGED)
        elif marker == 0xDA:
            break
    if frame is None or not content or content[0] != len(frame[2]) or 1 + 2 * len(frame[2]) > len(content):
        raise _Stop(_UNSUPPORTED)
    width, height, parts = frame
    if len(parts) == 1:
        parts = [(parts[0][0], 1, 1)]  # alone in its scan: one block is one unit, whatever the factors say
    picks = []
    for (name, across, down), named, slots in zip(parts, content[1::2], content[2::2], strict=False):
        dc, ac = tables.get((0, slots >> 4 & 3)), tables.get((1, slots & 3))
        if named != name or dc is None or ac is None:
            raise _Stop(_UNSUPPORTED)
        picks.append((dc, ac, across * down))
    wide, high = (8 * max(part[axis] for part in parts) for axis in (1, 2))
    return start + 4 + 2 * len(parts), -(-width // wide) * -(-height // high), restart, picks


def _frame(content: bytes) -> tuple[int, int, list[tuple[int, int, int]]]:
    if len(content) < 6:
        raise _Stop(_DAMAGED)
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    count = content[5]
    if content[0] != 8 or not width or not height or count not in (1, 3) or len(content) < 6 + 3 * count:
        raise _Stop(_UNSUPPORTED)
    parts = [(content[6 + 3 * i], content[7 + 3 * i] >> 4, content[7 + 3 * i] & 15) for i in range(count)]
    if any(not 1 <= factor <= 4 for part in parts for factor in part[1:]):
        raise _Stop(_DAMAGED)
    return width, height, parts


def _tables(content: bytes, tables: dict) -> None:
    """Add Huffman tables by class and number."""
    while len(content) >= 17:
        kind, counts = content[0], content[1:17]
        end = 17 + sum(counts)
        room = sum(count << (16 - length) for length, count in enumerate(counts, 1))  # in codes of 16 bits
        if kind & 15 > 3 or kind >> 4 > 1 or room > 1 << 16 or end > min(17 + 256, len(content)):
            raise _Stop(_DAMAGED)
        tables[kind >> 4, kind & 15] = codes(content[1:end])
        content = content[end:]
    if content:
        raise _Stop(_DAMAGED)


def _scan(data: bytes, at: int, units: int, restart: int, picks: list[tuple[dict, dict, int]], row: list[int]) -> None:
    """Add the tokens and blocks of a scan to `row`, until it ends or is damaged."""
    step = restart or units
    for first in range(0, units, step):
        marker, last = _MARKER.search(data, at), 0
        stop = marker.start() if marker else len(data)
        bits = Bits(data[at:stop])
        for _ in range(first, min(first + step, units)):
            for dc, ac, blocks in picks:
                for _ in range(blocks):
                    last = _block(bits, dc, ac, row)
        if first + step < units:
            following = _RESTART.match(data, stop)
            # The kernel reads 25 to 32 bits ahead: where more than that is left over, it does not reach the marker.
            if following is None or (last + 24) // 8 + 1 < len(bits.data):
                raise _Stop(_DAMAGED)
            at = following.end()


def _block(bits: Bits, dc: dict, ac: dict, row: list[int]) -> int:
    """Count one block; return the bit after its last symbol."""
    size = bits.symbol(dc)
    if size > 15:
        raise _Stop(_DAMAGED)
    last, k = bits.at, 1
    bits.take(size)
    row[0] += 1
    while k < 64:
        value = bits.symbol(ac)
        last = bits.at
        bits.take(value & 15)
        row[0] += 1
        if value == 0:
            break
        k += (value >> 4) + 1
        if k > 64:
            raise _Stop(_DAMAGED)
    row[1] += 1
    return last
