"""The bytes of a TFRecord file, without TensorFlow: how a record is framed, where each lies, whether it is whole.

A record is its length (8 bytes, little-endian), the masked CRC32C of these (4 bytes), the payload, and the
masked CRC32C of the payload (4 bytes). Nothing else is in the file: no header, no index, no count.

TensorFlow stops at the first bad record of a file and loses the rest of it, or crashes where a length is
impossible. This reader says what is wrong and goes on with the next whole record.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from labkit.sources.message_classes import message_classes

#: Bytes of a record before its payload, and bytes around it on both sides.
HEAD, AROUND = 12, 16
#: Bytes that are searched at once for the next whole record.
CHUNK = 1 << 18
#: What the mask of a checksum adds (tensorflow/core/lib/hash/crc32c.h).
_MASK = 0xA282EAD8
#: The most bytes that one byte of a deflated stream can stand for (zlib's technical notes).
_DEFLATE_LIMIT = 1032
#: Which header zlib is to expect: GZIP's or its own.
_HEADERS = {"GZIP": 31, "ZLIB": 15}
#: A ``tf.Example`` (tensorflow/core/example/example.proto and feature.proto): a map is a list of entries.
_EXAMPLE = {
    "BytesList": {"value": (1, "bytes*")},
    "Int64List": {"value": (1, "int64*")},
    "Feature": {"bytes_list": (1, "BytesList"), "int64_list": (3, "Int64List")},
    "Entry": {"key": (1, "string"), "value": (2, "Feature")},
    "Features": {"feature": (1, "Entry*")},
    "Example": {"features": (1, "Features")},
}


class Record(NamedTuple):
    """One stretch of a file: a whole record (`fault` is empty) or what stands where one should be.

    ``index`` counts from 0, a damaged stretch as one. ``byte`` counts from the start of the file, or of the
    unpacked stream where it is compressed.
    """

    index: int
    byte: int
    payload: bytes
    fault: str = ""


def checksum(data: bytes) -> bytes:
    """Return the masked CRC32C of bytes, as TFRecord stores it: 4 bytes, little-endian.

    The mask rotates the CRC by 15 bits and adds a constant, because data that contains its own CRC would otherwise
    have a CRC with unwanted properties.
    """
    crc = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF).to_bytes(4, "little")


def header(length: int) -> bytes:
    """Return the 12 bytes in front of a payload of `length` bytes."""
    number = length.to_bytes(8, "little")
    return number + checksum(number)


def frame(payload: bytes) -> bytes:
    """Return a payload as a TFRecord file holds it."""
    return header(len(payload)) + payload + checksum(payload)


def example(features: Mapping[str, int | bytes]) -> bytes:
    """Return a serialized ``tf.Example`` of whole numbers and bytes, one value a feature, sorted by name.

    The same bytes as ``tf.train.Example(...).SerializeToString(deterministic=True)``, without TensorFlow.
    """
    message = example_class()()
    message.features.SetInParent()
    for name in sorted(features):
        value = message.features.feature.add(key=name).value
        one = value.bytes_list if isinstance(features[name], bytes) else value.int64_list
        one.value.append(features[name])
    return message.SerializeToString()


@lru_cache(maxsize=1)
def example_class() -> Any:
    """Return protobuf's class for a ``tf.Example``; its lists of floats are kept as they are."""
    return message_classes(_EXAMPLE, "proto3")["Example"]


def scan(path: str | os.PathLike[str], compression: str = "") -> Iterator[Record]:
    """Yield every whole record of a file, in order, and a `Record` with a fault wherever one is not.

    Parameters
    ----------
    path : path
    compression : {"", "GZIP", "ZLIB"}
        How the file is compressed.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        if not size:
            yield Record(0, 0, b"", "the file is empty")
        elif not compression:
            with _Mapped(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
                yield from _records(source, size)
        else:
            yield from _records(_Deflated(file, _HEADERS[compression]), size * _DEFLATE_LIMIT)


def _at(source: _Mapped | _Deflated, byte: int) -> tuple[bytes, str, int]:
    """Return the payload of the record at a byte, what is wrong with it, and how long it is; 0 where nobody knows."""
    head = source.get(byte, HEAD)
    length = int.from_bytes(head[:8], "little")
    if len(head) < HEAD:
        return b"", f"{len(head)} bytes at the end, too few for a record", 0
    if checksum(head[:8]) != head[8:]:
        return b"", "the length is damaged", 0
    body = source.get(byte + HEAD, length + 4)
    if len(body) < length + 4:
        return b"", f"cut short: {len(body):,} of {length + 4:,} bytes are there", 0
    if checksum(body[:length]) != body[length:]:
        return b"", "the payload is damaged", length + AROUND
    return body[:length], "", length + AROUND


def _records(source: _Mapped | _Deflated, limit: int) -> Iterator[Record]:
    """Walk from record to record; after a fault, search for the next whole one."""
    index = byte = 0
    while source.get(byte, HEAD):
        payload, fault, step = _at(source, byte)
        after = byte + step if step else _next(source, byte + 1, limit)
        if fault and not byte and after is None and not source.broken:
            fault = "this is not a TFRecord file"
        yield Record(index, byte, payload, source.broken if fault and source.broken else fault)
        if after is None:
            return
        index, byte = index + 1, after
    if source.broken:
        yield Record(index, byte, b"", source.broken)


def _next(source: _Mapped | _Deflated, byte: int, limit: int) -> int | None:
    """Return where the next whole record begins; None if there is none.

    NumPy reads a length at every byte of a chunk at once. Only where one is possible, the checksums are compared; in a
    stretch of zeros, which is the most likely place for many, without Python.
    """
    empty = int.from_bytes(header(0)[8:], "little")
    while len(window := source.get(byte, CHUNK)) >= AROUND:
        heads = np.lib.stride_tricks.sliding_window_view(np.frombuffer(window, np.uint8), HEAD)
        lengths, sums = (np.ascontiguousarray(heads[:, a:b]).view(f"<u{b - a}").ravel() for a, b in ((0, 8), (8, HEAD)))
        for start in np.flatnonzero((lengths <= limit) & ((lengths > 0) | (sums == empty))).tolist():
            if not _at(source, byte + start)[1]:
                return byte + start
        byte += len(heads)
    return None


class _Mapped(mmap.mmap):
    """Bytes of a mapped file."""

    broken = ""

    def get(self, byte: int, count: int) -> bytes:
        return self[byte : byte + count]


class _Deflated:
    """Bytes of a compressed file, unpacked when they are read; bytes before them are soon dropped."""

    def __init__(self, file: BinaryIO, header: int) -> None:
        self._file, self._header = file, header
        self._unpack = zlib.decompressobj(header)
        self._kept, self._start, self._ended, self._rest = bytearray(), 0, False, b""
        #: Why the stream ended early, if it did.
        self.broken = ""

    def get(self, byte: int, count: int) -> bytes:
        if (past := byte - self._start - 2 * CHUNK) > 2 * CHUNK:  # a search steps back by less than that
            del self._kept[:past]
            self._start += past
        while len(self._kept) < byte - self._start + count and not self._ended:
            self._more()
        return bytes(self._kept[byte - self._start : byte - self._start + count])

    def _more(self) -> None:
        packed = self._rest or self._file.read(CHUNK)
        if not packed:
            self._ended, self.broken = True, "the compressed stream is cut short"
            return
        before = self._unpack.copy()
        try:
            # At most so much at once, that a small file cannot fill the memory.
            self._kept += self._unpack.decompress(packed, 1 << 22)
        except zlib.error as error:
            # zlib's own words: "Error -3 while decompressing data: invalid block type" without the number.
            self._ended, self.broken = True, f"the compressed stream is damaged ({str(error).rpartition(': ')[2]})"
            self._up_to_the_damage(before, packed)
            return
        self._rest = self._unpack.unconsumed_tail
        if self._unpack.eof:
            self._rest = self._unpack.unused_data or self._file.read(CHUNK)
            self._ended = not self._rest
            if self._rest[:2] == b"\x1f\x8b":  # GZIP files put behind each other
                self._unpack = zlib.decompressobj(self._header)
            elif self._rest:
                self._ended, self.broken = True, "bytes stand behind the end of the compressed stream"

    def _up_to_the_damage(self, unpack: Any, packed: bytes) -> None:
        """Unpack byte by byte: an error takes with it what the same call had unpacked."""
        with contextlib.suppress(zlib.error):
            for place in range(len(packed)):
                self._kept += unpack.decompress(packed[place : place + 1])
