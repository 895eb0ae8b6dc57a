"""The twin of ``kernels/jpeg_tokens.cl``: Huffman symbols and blocks of JPEG files, counted in plain Python."""

from __future__ import annotations

import re

import numpy as np

from labextras.offload.jpeg import header
from labextras.offload.twins.baseline_jpeg import Bits, codes

_COUNTED, _UNSUPPORTED, _DAMAGED = range(3)

_MARKER = re.compile(rb"\xff(?!\x00)")
_RESTART = re.compile(rb"\xff+[\xd0-\xd7]")


class _NotCounted(Exception):
    """The kernel does not count files of this kind. A file that is damaged is a ValueError."""


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
    counts, status = [0, 0], _COUNTED
    try:
        _scan(data, *_header(data), counts)
    except _NotCounted:
        status = _UNSUPPORTED
    except ValueError:  # also where no Huffman code fits, or the data end
        status = _DAMAGED
    return [*counts, status]


def _header(data: bytes) -> tuple[int, int, int, list[tuple[dict, dict, int]]]:
    """Return where the scan begins, its units, units between restarts, and tables and blocks of each component."""
    if not data.startswith(b"\xff\xd8"):
        raise _NotCounted
    tables: dict[int, bytes] = {}
    width = height = restart = 0
    parts: list[tuple[int, int, int]] = []
    for marker, start, content in header.segments(data, bare=()):
        if marker == 0xC4:
            header.add_tables(content, start, tables, "Huffman")
            for table in tables.values():
                if sum(count << (16 - length) for length, count in enumerate(table[:16], 1)) > 1 << 16:
                    raise ValueError("more codes than bits allow")
        elif marker in (0xC0, 0xC1):
            width, height, parts = _frame(content)
        elif marker in header.FRAMES:
            raise _NotCounted
        elif marker == 0xDD and len(content) >= 2:
            restart = int.from_bytes(content[:2], "big")
        elif marker == header.END:
            raise ValueError("no scan")
        elif marker == header.SCAN:
            break
    if not parts or content[:1] != bytes([len(parts)]) or 1 + 2 * len(parts) > len(content):
        raise _NotCounted
    if len(parts) == 1:
        parts = [(parts[0][0], 1, 1)]  # alone in its scan: one block is one unit, whatever the factors say
    picks = []
    for (name, across, down), named, slots in zip(parts, content[1::2], content[2::2], strict=False):
        dc, ac = tables.get(slots >> 4 & 3), tables.get(0x10 | slots & 3)
        if named != name or dc is None or ac is None:
            raise _NotCounted
        picks.append((codes(dc), codes(ac), across * down))
    wide, high = (8 * max(part[axis] for part in parts) for axis in (1, 2))
    return start + 8 + 2 * len(parts), -(-width // wide) * -(-height // high), restart, picks


def _frame(content: bytes) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Return width, height, and name and sampling factors of each component."""
    if len(content) < 6:
        raise ValueError("a frame is not whole")
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    count = content[5]
    if content[0] != 8 or not width or not height or count not in (1, 3) or len(content) < 6 + 3 * count:
        raise _NotCounted
    parts = [(content[6 + 3 * i], content[7 + 3 * i] >> 4, content[7 + 3 * i] & 15) for i in range(count)]
    if any(not 1 <= factor <= 4 for part in parts for factor in part[1:]):
        raise ValueError("a sampling factor is not 1 to 4")
    return width, height, parts


def _scan(data: bytes, at: int, units: int, restart: int, picks: list[tuple], counts: list[int]) -> None:
    """Add the tokens and blocks of a scan to `counts`, until it ends or is damaged."""
    step = restart or units
    for first in range(0, units, step):
        marker, last = _MARKER.search(data, at), 0
        stop = marker.start() if marker else len(data)
        bits = Bits(data[at:stop])
        for _ in range(first, min(first + step, units)):
            for dc, ac, blocks in picks:
                for _ in range(blocks):
                    last = _block(bits, dc, ac, counts)
        if first + step < units:
            following = _RESTART.match(data, stop)
            # The kernel reads 25 to 32 bits ahead: where more than that is left over, it does not reach the marker.
            if following is None or (last + 24) // 8 + 1 < len(bits.data):
                raise ValueError("no restart marker where one is due")
            at = following.end()


def _block(bits: Bits, dc: dict, ac: dict, counts: list[int]) -> int:
    """Count one block; return the bit after its last symbol."""
    size = bits.symbol(dc)
    if size > 15:
        raise ValueError("a DC symbol above 15")
    last, k = bits.at, 1
    bits.take(size)
    counts[0] += 1
    while k < 64:
        value = bits.symbol(ac)
        last = bits.at
        bits.take(value & 15)
        counts[0] += 1
        if value == 0:
            break
        k += (value >> 4) + 1
        if k > 64:
            raise ValueError("a run of zeros leaves its block")
    counts[1] += 1
    return last
