"""A TFRecord shard as a card shows it: the same records, with pixels where a JPEG was.

The file that a reader sees exists nowhere. How long each of its records is follows from the size of an image and from
what else the record holds, so any stretch of it can be made alone: a reader may seek, stop and come back.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator
from typing import NamedTuple

from labkit.card.files import Root
from labkit.card.protocol import Code, Recipe, Refused
from labkit.recording.tfdata import xspace
from labkit.sources import framing

#: Bytes around a payload: its length, the checksum of that, and its own.
AROUND = 16
HEAD = 12


class Record(NamedTuple):
    """One record: where its payload lies in the file, and where the record begins in what the reader sees."""

    byte: int
    length: int
    place: int


class Index(NamedTuple):
    """All records of a shard up to the first that is damaged.

    ``length`` is that of the file that a reader sees; `fault` says what stands behind it, if that is no record.
    """

    records: list[Record]
    length: int
    fault: str

    def covering(self, offset: int, count: int) -> range:
        """Return which records hold the `count` bytes from `offset`: one at least, unless the end is reached."""
        if offset >= self.length:
            return range(0)
        places = [record.place for record in self.records]
        first = bisect.bisect_right(places, offset) - 1
        # A record that is not wanted whole comes with the next question.
        last = bisect.bisect_right(places, offset + count) - 1
        return range(first, max(last, first + 1) if offset + count < self.length else len(places))


class Example(NamedTuple):
    """A ``tf.Example`` taken apart around its JPEG.

    `jpeg` is (start, end) in the payload. `spans` are the (start, end) of the messages around it, the outermost
    first: each announces its length, which changes with the image.
    """

    jpeg: tuple[int, int]
    spans: tuple[tuple[int, int, int], ...]

    def replaced(self, payload: bytes, pixels: bytes | memoryview) -> bytes:
        """Return the payload with `pixels` in place of the JPEG."""
        before, behind = self._around(len(pixels))
        parts, at = [], 0
        for (head, start, _), said in zip(self.spans, before, strict=True):
            parts += [payload[at:head], said]
            at = start
        return b"".join([*parts, pixels, payload[behind:]])

    def length(self, payload_length: int, image_length: int) -> int:
        """Return how long the payload is with an image of `image_length` bytes."""
        said, behind = self._around(image_length)
        kept = payload_length - behind + self.spans[0][0]
        kept += sum(self.spans[i + 1][0] - self.spans[i][1] for i in range(len(self.spans) - 1))
        return kept + sum(map(len, said)) + image_length

    def _around(self, image_length: int) -> tuple[list[bytes], int]:
        """Return the lengths that the messages announce with the image in them, and where the JPEG ended."""
        said, grown = [], image_length - (self.jpeg[1] - self.jpeg[0])
        for head, start, end in reversed(self.spans):
            text = framing.varint(end - start + grown)
            said.append(text)
            grown += len(text) - (start - head)
        return said[::-1], self.jpeg[1]


def index(root: Root, name: str, recipe: Recipe) -> Index:
    """Return the records of a shard, after reading it once; see `labkit.card.files.Root` for what is refused.

    Raises
    ------
    Refused
        If a record is no ``tf.Example`` with a JPEG in it.
    """
    records: list[Record] = []
    byte = place = 0
    fault = ""
    with root.open(name) as handle:
        size = os.fstat(handle).st_size
        while byte < size:
            head = os.pread(handle, HEAD, byte)
            length = int.from_bytes(head[:8], "little")
            if len(head) < HEAD:
                fault = f"{len(head)} bytes stand at the end, too few for a record"
            elif framing.header(length) != head:
                fault = "the length is damaged" if byte else "this is not an uncompressed TFRecord file"
            elif byte + length + AROUND > size:
                fault = f"the record is cut short: {size - byte - HEAD:,} of {length + 4:,} bytes are there"
            if fault:
                fault = f"record {len(records)} of {name!r}, at byte {byte:,}: {fault}"
                break
            try:
                found = example(os.pread(handle, length, byte + HEAD), recipe.feature)
            except (Refused, IndexError) as error:
                fault = f"record {len(records)} of {name!r}, at byte {byte:,}: {error}"
                if isinstance(error, Refused) and not records:
                    raise Refused(error.code, fault) from None
                break
            records.append(Record(byte + HEAD, length, place))
            place += found.length(length, recipe.nbytes) + AROUND
            byte += length + AROUND
    return Index(records, place, fault)


def payload(root: Root, name: str, number: int, record: Record) -> bytes:
    """Return the payload of a record after a look at its checksum.

    Raises
    ------
    Refused
        If it is not what its checksum says.
    """
    body = root.read(name, record.byte, record.length + 4)
    kept = memoryview(body)[: record.length]
    if framing.masked(framing.crc32c(kept)).to_bytes(4, "little") != body[record.length :]:
        where = f"record {number} of {name!r}, at byte {record.byte - HEAD:,}"
        raise Refused(Code.DATA_LOSS, f"{where}: the payload is not what its checksum says")
    return bytes(kept)


def example(payload: bytes, feature: str) -> Example:
    """Find the JPEG in a serialized ``tf.Example``: the one bytes value of the feature of that name.

    Source of the field numbers: tensorflow/core/example/example.proto and feature.proto.

    Raises
    ------
    Refused
        If the bytes are no tf.Example, or it has no such feature, or that holds no single bytes value.
    """
    names = []
    try:
        for features in _messages(payload, 0, len(payload), 1):
            for entry in _messages(payload, *features[1:], 1):
                key = next(_messages(payload, *entry[1:], 1), (0, 0, 0))
                names.append(payload[key[1] : key[2]].decode("utf-8", "replace"))
                if names[-1] != feature:
                    continue
                for value in _messages(payload, *entry[1:], 2):
                    for values in _messages(payload, *value[1:], 1):
                        images = list(_messages(payload, *values[1:], 1))
                        if len(images) == 1:
                            return Example(images[0][1:], (features, entry, value, values, images[0]))
    except (IndexError, xspace.Malformed):
        raise Refused(Code.DATA_LOSS, "the record is no tf.Example") from None
    if feature in names:
        raise Refused(Code.INVALID_ARGUMENT, f"the feature {feature!r} does not hold one JPEG")
    held = ", ".join(map(repr, names[:20])) or "none"
    raise Refused(Code.INVALID_ARGUMENT, f"the record has no feature {feature!r}; it has: {held}")


def _messages(data: bytes, at: int, end: int, number: int) -> Iterator[tuple[int, int, int]]:
    """Yield (where its length stands, start, end) of each field `number` between two bytes that holds bytes."""
    for tag, _, start, after in xspace.fields(data, at, end):
        if tag == number << 3 | 2:
            head = at
            while data[head] > 127:  # the tag, however long
                head += 1
            yield head + 1, start, after
        at = after
