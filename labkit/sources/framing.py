"""The bytes of a TFRecord file, without TensorFlow: how a record is framed, where each lies, whether it is whole.

A record is its length (8 bytes, little-endian), the masked CRC32C of these (4 bytes), the payload, and the
masked CRC32C of the payload (4 bytes). Nothing else is in the file: no header, no index, no count.

TensorFlow stops at the first bad record of a file and loses the rest of it, or crashes where a length is
impossible. This reader says what is wrong and goes on with the next whole record.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_BLOCK = 1024
_POLYNOMIAL = 0x82F63B78
#: Deflate cannot shrink anything further (zlib's technical notes): a longer record cannot be in the file.
_DEFLATE_LIMIT = 1032
_CHUNK = 1 << 18


class Record(NamedTuple):
    """One stretch of a file: a whole record (`fault` is empty) or what stands where one should be.

    ``index`` counts from 0, a damaged stretch as one. ``byte`` counts from the start of the file, or of the
    unpacked stream where it is compressed.
    """

    index: int
    byte: int
    payload: bytes
    fault: str = ""


@functools.cache
def _tables() -> np.ndarray:
    """Return what byte value v at place i of a block adds to its CRC: uint32, shape (1024, 256)."""
    last = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = (last >> 1) ^ np.where(last & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    rows = [last]
    for _ in range(_BLOCK - 1):  # one more zero byte behind it
        rows.append((rows[-1] >> 8) ^ last[rows[-1] & 255])
    return np.array(rows[::-1])


@functools.cache
def _lists() -> tuple[list[int], ...]:
    """Return the tables that one byte and one whole block need, as lists: faster one by one."""
    tables = _tables()
    return (tables[-1].tolist(), *(tables[i].tolist() for i in range(4)))


def crc32c(data: bytes | memoryview | np.ndarray) -> int:
    """Return the CRC32C (Castagnoli) of bytes.

    A CRC is linear: that of a block is the exclusive-or of what each byte at its place adds. So NumPy looks
    up all bytes at once, and Python only joins the blocks.
    """
    values = np.frombuffer(data, np.uint8)
    one, *four = _lists()
    state, head = 0xFFFFFFFF, len(values) % _BLOCK
    if head < 64:
        for value in values[:head].tolist():
            state = (state >> 8) ^ one[(state ^ value) & 255]
    else:
        part = values[:head].copy()
        part[:4] ^= np.frombuffer(np.uint32(state).astype("<u4").tobytes(), np.uint8)
        state = int(_sums(part[None], _tables()[_BLOCK - head :])[0])
    a, b, c, d = four
    for block in _sums(values[head:].reshape(-1, _BLOCK), _tables()).tolist():
        state = a[state & 255] ^ b[state >> 8 & 255] ^ c[state >> 16 & 255] ^ d[state >> 24] ^ block
    return state ^ 0xFFFFFFFF


def _sums(blocks: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Return the CRC, started from zero, of each row; uint32."""
    flat, places = tables.ravel(), np.arange(len(tables), dtype=np.intp) * 256
    sums = np.empty(len(blocks), np.uint32)
    for start in range(0, len(blocks), 32):  # what is looked up stays in the processor's cache
        found = flat.take(blocks[start : start + 32] + places)
        sums[start : start + 32] = np.bitwise_xor.reduce(found, axis=1)
    return sums


def masked(crc: int) -> int:
    """Return a CRC as TFRecord stores it: turned by 15 bits and moved, so that a CRC of CRCs is not special."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """Return the 12 bytes that announce a payload of `length` bytes."""
    said = length.to_bytes(8, "little")
    return said + _sum(said)


def frame(payload: bytes) -> bytes:
    """Return a payload as a TFRecord file holds it."""
    return header(len(payload)) + payload + _sum(payload)


def example(features: Mapping[str, int | bytes]) -> bytes:
    """Return a serialized ``tf.Example`` of whole numbers and bytes, one value a feature, sorted by name.

    The same bytes as ``tf.train.Example(...).SerializeToString(deterministic=True)``, without TensorFlow.
    Source of the field numbers: tensorflow/core/example/feature.proto.
    """
    entries = []
    for name in sorted(features):
        value = features[name]
        if isinstance(value, bytes):
            feature = _field(1, _field(1, value))  # BytesList
        else:
            feature = _field(3, _field(1, varint(value % 2**64)))  # Int64List
        entries.append(_field(1, _field(1, name.encode()) + _field(2, feature)))
    return _field(1, b"".join(entries))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _sum(data: bytes) -> bytes:
    return masked(crc32c(data)).to_bytes(4, "little")


def compression(path: str | os.PathLike[str]) -> str:
    """Return how a file is compressed, from its first bytes: ``""``, ``"GZIP"`` or ``"ZLIB"``."""
    start = _start(path)
    if _announces(start):
        return ""
    if start[:2] == b"\x1f\x8b":
        guess = "GZIP"
    elif len(start) > 1 and start[0] & 15 == 8 and int.from_bytes(start[:2], "big") % 31 == 0:
        guess = "ZLIB"
    else:
        return ""
    with open(path, "rb") as file:
        if _announces(_Deflated(file, gzip=guess == "GZIP").get(0, 12)):
            return guess
        # A damaged length can look like the start of a compressed file; then whole records follow it as they are.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            return guess if _next(_Plain(whole), 0, len(whole)) is None else ""


def scan(path: str | os.PathLike[str], compressed: str | None = None) -> Iterator[Record]:
    """Yield every whole record of a file, in order, and a `Record` with a fault wherever one is not.

    Parameters
    ----------
    path : path
    compressed : {"", "GZIP", "ZLIB"}, optional
        Else told from the first bytes.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    size, is_ = path.stat().st_size, compression(path)
    if size and compressed is not None and compressed != is_:
        names = {"": "an uncompressed file", "GZIP": "a GZIP file", "ZLIB": "a ZLIB file"}
        wrong = f"not {names[compressed]}" + (f" but {names[is_]}" if is_ or _announces(_start(path)) else "")
        yield Record(0, 0, b"", wrong)
        return
    with open(path, "rb") as file:
        if not size:
            yield Record(0, 0, b"", "the file is empty")
        elif not is_:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                yield from _records(_Plain(whole), size)
        else:
            yield from _records(_Deflated(file, gzip=is_ == "GZIP"), size * _DEFLATE_LIMIT)


def _start(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(12)


def _announces(start: bytes) -> bool:
    """Return whether these bytes are the head of a record."""
    return len(start) == 12 and _sum(start[:8]) == start[8:]


def _records(source: _Plain | _Deflated, limit: int) -> Iterator[Record]:
    """Walk from record to record; after a fault, search for the next whole one."""
    index = byte = 0
    while True:
        head = source.get(byte, 12)
        if not head:
            break
        fault, payload, step = "", b"", 0
        length = int.from_bytes(head[:8], "little")
        if len(head) < 12:
            fault = f"{len(head)} bytes at the end, too few for a record"
        elif _sum(head[:8]) != head[8:]:
            fault = "the length is damaged"
        elif length > limit:
            fault = f"the length says {length:,} bytes, more than the file can hold"
        else:
            body = source.get(byte + 12, length + 4)
            if len(body) < length + 4:
                fault = f"cut short: {len(body):,} of {length + 4:,} bytes are there"
            else:
                payload, step = body[:length], length + 16
                if _sum(payload) != body[length:]:
                    fault, payload = "the payload is damaged", b""
        after = byte + step if step else _next(source, byte + 1, limit)
        if fault and not byte and after is None and not source.broken:
            fault = "this is not a TFRecord file"
        yield Record(index, byte, payload, source.broken if fault and source.broken else fault)
        if after is None:
            return
        index, byte = index + 1, after
    if source.broken:
        yield Record(index, byte, b"", source.broken)


def _next(source: _Plain | _Deflated, byte: int, limit: int) -> int | None:
    """Return where the next whole record begins; None if there is none."""
    one, low = _tables()[-8:], np.arange(8)
    while len(window := source.get(byte, _CHUNK)) > 15:
        values = np.frombuffer(window, np.uint8)
        rows = np.lib.stride_tricks.sliding_window_view(values[: len(values) - 4], 8)
        sums = np.full(len(rows), _lengths_start(), np.uint32)
        for place in low:
            sums ^= one[place][rows[:, place]]
        sums = ~sums
        want = (sums >> 15 | sums << 17) + np.uint32(0xA282EAD8)
        have = np.zeros(len(rows), np.uint32)
        for place in range(4):
            have |= values[8 + place : 8 + place + len(rows)].astype(np.uint32) << np.uint32(8 * place)
        for start in np.flatnonzero(want == have).tolist():
            length = int.from_bytes(window[start : start + 8], "little")
            if length <= limit:
                body = source.get(byte + start + 12, length + 4)
                if len(body) == length + 4 and _sum(body[:length]) == body[length:]:
                    return byte + start
        byte += len(rows)
    return None


@functools.cache
def _lengths_start() -> int:
    """Return what the starting value of a CRC adds to that of eight bytes."""
    tables = _tables()[-8:]
    return int(np.bitwise_xor.reduce([tables[place][255] for place in range(4)]))


class _Plain:
    """Bytes of a mapped file."""

    broken = ""

    def __init__(self, whole: mmap.mmap) -> None:
        self._whole = whole

    def get(self, byte: int, count: int) -> bytes:
        return self._whole[byte : byte + count]


class _Deflated:
    """Bytes of a compressed file, unpacked as they are asked for; what lies behind is soon forgotten."""

    def __init__(self, file: BinaryIO, gzip: bool) -> None:
        self._file, self._gzip = file, gzip
        self._unpack = zlib.decompressobj(31 if gzip else 15)
        self._kept, self._start, self._ended, self._rest = bytearray(), 0, False, b""
        #: Why the stream ended early, if it did.
        self.broken = ""

    def get(self, byte: int, count: int) -> bytes:
        if (past := byte - self._start - 2 * _CHUNK) > 2 * _CHUNK:  # a search steps back by less than that
            del self._kept[:past]
            self._start += past
        while len(self._kept) < byte - self._start + count and not self._ended:
            self._more()
        return bytes(self._kept[byte - self._start : byte - self._start + count])

    def _more(self) -> None:
        packed = self._rest or self._file.read(_CHUNK)
        if not packed:
            self._ended, self.broken = True, "the compressed stream is cut short"
            return
        before = self._unpack.copy()
        try:
            # At most so much at once, that a small file cannot fill the memory.
            self._kept += self._unpack.decompress(packed, 1 << 22)
        except zlib.error as error:
            self._ended, self.broken = True, f"the compressed stream is damaged ({_cause(error)})"
            self._up_to_the_damage(before, packed)
            return
        self._rest = self._unpack.unconsumed_tail
        if self._unpack.eof:
            self._rest = self._unpack.unused_data or self._file.read(_CHUNK)
            self._ended = not self._rest
            if self._rest and self._gzip and self._rest[:2] == b"\x1f\x8b":  # files put behind each other
                self._unpack = zlib.decompressobj(31)
            elif self._rest:
                self._ended, self.broken = True, "bytes stand behind the end of the compressed stream"

    def _up_to_the_damage(self, unpack: Any, packed: bytes) -> None:
        """Unpack byte by byte: an error takes with it what the same call had unpacked."""
        with contextlib.suppress(zlib.error):
            for place in range(len(packed)):
                self._kept += unpack.decompress(packed[place : place + 1])


def _cause(error: zlib.error) -> str:
    """Return zlib's own words: ``Error -3 while decompressing data: invalid block type`` without the number."""
    return str(error).rpartition(": ")[2]
