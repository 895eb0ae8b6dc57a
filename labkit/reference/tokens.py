"""The twin of ``kernels/jpeg_tokens.cl``: Huffman symbols and blocks of JPEG files, counted in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_COUNTED, _UNSUPPORTED, _DAMAGED = range(3)
_NO_BASELINE = {*range(0xC2, 0xD0)} - {0xC4, 0xC8, 0xCC}


class _Stop(Exception):
    """Counting ends here; the argument is the status."""


def jpeg_tokens(files: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return tokens, blocks, status and the byte at which counting ended, int32, shape (n, 4).

    Parameters
    ----------
    files : ndarray of uint8, shape (bytes,)
        The JPEG files, one after the other.
    offsets : ndarray of int32, shape (n + 1,)
        Byte at which each file begins; the last one: where all end.
    """
    data = files.tobytes()
    rows = [_file(data[a:b]) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return np.array(rows, np.int32).reshape(len(rows), 4)


class _Scan:
    """The entropy-coded part of a file: bytes from `at` on, without the zero that follows each FF."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.tokens = self.blocks = 0
        self.empty()

    def empty(self) -> None:
        """Forget the bits that were read ahead."""
        self.bits = self.held = self.made_up = 0

    def fill(self) -> None:
        """Read ahead, 25 bits or more; behind the end and behind a marker there are zeros."""
        data = self.data
        while self.held <= 24:
            byte = 0
            here = data[self.at : self.at + 2]
            if here and (here[0] != 0xFF or here[1:] == b"\0"):
                byte = here[0]
                self.at += 2 if byte == 0xFF else 1
            else:
                self.made_up += 8
            self.bits = self.bits << 8 | byte
            self.held += 8

    def take(self, count: int) -> int:
        """Return the next `count` bits and drop them."""
        self.held -= count
        found = self.bits >> self.held
        self.bits &= (1 << self.held) - 1
        return found

    def symbol(self, table: dict[tuple[int, int], int]) -> int:
        """Return the next symbol."""
        self.fill()
        for length in range(1, 17):
            found = table.get((length, self.bits >> (self.held - length)))
            if found is not None:
                self.take(length)
                return found
        raise _Stop(_DAMAGED)

    def skip(self, count: int) -> None:
        """Drop the bits that follow a symbol."""
        self.fill()
        self.take(count)
        if self.held < self.made_up:
            raise _Stop(_DAMAGED)

    def block(self, dc: dict, ac: dict) -> None:
        """Count one block."""
        size = self.symbol(dc)
        if size > 15:
            raise _Stop(_DAMAGED)
        self.skip(size)
        self.tokens += 1
        k = 1
        while k < 64:
            value = self.symbol(ac)
            self.skip(value & 15)
            self.tokens += 1
            if value == 0:
                break
            k += (value >> 4) + 1
            if k > 64:
                raise _Stop(_DAMAGED)
        self.blocks += 1

    def restart(self) -> None:
        """Go past the restart marker that must be here."""
        while self.data[self.at : self.at + 2] == b"\xff\xff":
            self.at += 1
        marker = self.data[self.at : self.at + 2]
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] & 0xF8 != 0xD0:
            raise _Stop(_DAMAGED)
        self.at += 2
        self.empty()


def _file(data: bytes) -> tuple[int, int, int, int]:
    scan, place = _Scan(data, 0), [0]
    try:
        _count(data, scan, place)
        status = _COUNTED
    except _Stop as stop:
        (status,) = stop.args
    return scan.tokens, scan.blocks, status, max(scan.at, place[0])


def _segments(data: bytes, place: list[int]) -> Iterator[tuple[int, bytes, int]]:
    """Yield marker, content and end of each segment up to the scan."""
    if data[:2] != b"\xff\xd8":
        raise _Stop(_UNSUPPORTED)
    at = 2
    while True:
        place[0] = at
        if at + 4 > len(data) or data[at] != 0xFF:
            raise _Stop(_DAMAGED)
        if data[at + 1] == 0xFF:
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if not at + 4 <= end <= len(data):
            raise _Stop(_DAMAGED)
        yield data[at + 1], data[at + 4 : end], at
        at = end


def _count(data: bytes, scan: _Scan, place: list[int]) -> None:
    tables: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    frame: tuple[int, int, list[tuple[int, int, int]]] | None = None
    restart = 0
    for marker, content, at in _segments(data, place):
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
            start = at + 4
            break
    if frame is None or not content or content[0] != len(frame[2]) or 1 + 2 * len(frame[2]) > len(content):
        raise _Stop(_UNSUPPORTED)
    width, height, parts = frame
    picks = []
    for i, (name, across, down) in enumerate(parts):
        chosen = data[start + 1 + 2 * i], data[start + 2 + 2 * i]
        dc, ac = tables.get((0, chosen[1] >> 4 & 3)), tables.get((1, chosen[1] & 3))
        if chosen[0] != name or dc is None or ac is None:
            raise _Stop(_UNSUPPORTED)
        picks.append((dc, ac, 1 if len(parts) == 1 else across * down))
    several = len(parts) == 3
    wide = 8 * (max(across for _, across, _ in parts) if several else 1)
    high = 8 * (max(down for _, _, down in parts) if several else 1)
    scan.at = start + 1 + 2 * len(parts) + 3
    for unit in range(-(-width // wide) * -(-height // high)):
        if restart and unit and unit % restart == 0:
            scan.restart()
        for dc, ac, repeats in picks:
            for _ in range(repeats):
                scan.block(dc, ac)


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
    """Add Huffman tables: (length, code) to symbol; codes of one length are counted up (ITU-T T.81, annex C)."""
    while len(content) >= 17:
        kind, counts = content[0], content[1:17]
        if kind & 15 > 3 or kind >> 4 > 1:
            raise _Stop(_DAMAGED)
        table, code, place = {}, 0, 17
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                if place < len(content):
                    table[length, code] = content[place]
                code, place = code + 1, place + 1
            if code > 1 << length:
                raise _Stop(_DAMAGED)
            code <<= 1
        if place - 17 > 256 or place > len(content):
            raise _Stop(_DAMAGED)
        tables[kind >> 4, kind & 15] = table
        content = content[place:]
    if content:
        raise _Stop(_DAMAGED)
