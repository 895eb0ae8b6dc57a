"""Huffman tables of JPEG files as the kernels read them: one look-up for what 11 bits say, canonical limits beyond."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

#: Bits that one look-up takes, and what it says where the code is longer: more bits than a reader holds.
LOOK, LONG = 11, 63

#: The zigzag order: where in a block, row by row, value k stands.
ZIGZAG = np.array(sorted(range(64), key=lambda p: (s := p // 8 + p % 8, p % 8 if s % 2 == 0 else p // 8)))

#: Numbers of a table in `codes`: 16 limits, 16 offsets, 256 symbols.
CODES = 288


@lru_cache(1024)
def fault(table: bytes, is_dc: bool) -> str | None:
    """Return what is wrong with a table, 16 counts and then symbols, or None.

    libjpeg's rules: no code of ones alone, no more codes than bits allow, DC sizes up to 15.
    """
    code = 0
    for length, count in enumerate(table[:16], 1):
        code = (code << 1) + count
        if count and code >= 1 << length:
            return f"it has more codes of {length} bits than there can be"
    if is_dc and any(symbol > 15 for symbol in table[16:]):
        return "it has a DC symbol above 15"
    return None


def build(tables: Sequence[tuple[bytes, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """Return `lookups`, uint16 (n, 2048), and `codes`, int32 (n, 288), of tables and whether each is for DC.

    A word of `lookups` is ``run << 10 | size << 6 | bits of the code and of the value behind it``; 63 where the code is
    longer than 11 bits. ``run`` is 63 for the end of the block. A row of `codes` holds two numbers for each length of a
    code, 1 to 16: the smallest 16 bits that begin with no code of this length or shorter, and the index of a symbol
    less its code. The symbols follow.
    """
    lookups = np.full((len(tables), 1 << LOOK), LONG, np.uint16)
    codes = np.zeros((len(tables), CODES), np.int32)
    for n, (table, is_dc) in enumerate(tables):
        counts = np.frombuffer(table, np.uint8, 16).astype(np.int64)
        symbols = np.frombuffer(table, np.uint8, offset=16).astype(np.int64)
        code = index = 0
        for length, count in enumerate(table[:16], 1):
            codes[n, 15 + length] = index - code
            code += count
            index += count
            codes[n, length - 1] = code << (16 - length)
            code <<= 1
        codes[n, 32 : 32 + len(symbols)] = symbols
        lengths = np.repeat(np.arange(1, 17), counts)
        size = symbols & 15
        run = np.zeros_like(size) if is_dc else np.where((size == 0) & (symbols != 0xF0), 63, symbols >> 4)
        word = run << 10 | size << 6 | (lengths + size)
        short = lengths <= LOOK
        filled = np.repeat(word[short], 1 << (LOOK - lengths[short]))
        lookups[n, : len(filled)] = filled
    return lookups, codes


@lru_cache(1024)
def natural(table: bytes) -> np.ndarray:
    """Return a quantisation table of 64 or 128 bytes, in zigzag order, as 64 uint16 row by row."""
    values = np.zeros(64, np.uint16)
    values[ZIGZAG] = np.frombuffer(table, np.uint8 if len(table) == 64 else ">u2")
    return values
