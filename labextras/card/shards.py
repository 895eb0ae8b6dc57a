"""A TFRecord shard as a card shows it: the same records, with pixels where a JPEG was.

The file that a reader sees does not exist on any disk. The length of each record follows from the size of an image and
from the other contents of the record. So any part of the file can be made alone: a reader may seek, stop and come back.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator
from typing import NamedTuple

from labextras.card.protocol import Code, Refused
from labextras.card.root import Root
from labkit.sources import framing


class Place(NamedTuple):
    """Where a record is: the byte and the length of its payload in the file, and its start in what the reader sees."""

    byte: int
    length: int
    seen: int


class Index(NamedTuple):
    """The places of all records of a shard up to the first that is damaged.

    ``length`` is that of the file that a reader sees; `fault` says what follows, if that is no record.
    """

    places: list[Place]
    length: int
    fault: str

    def covering(self, offset: int, count: int) -> range:
        """Return which records hold the `count` bytes from `offset`: one at least, unless the end is reached."""
        if offset >= self.length:
            return range(0)
        starts = [place.seen for place in self.places]
        first = bisect.bisect_right(starts, offset) - 1
        # A record that is not wanted whole comes with the next request.
        last = bisect.bisect_right(starts, offset + count) - 1
        return range(first, max(last, first + 1) if offset + count < self.length else len(starts))


class Example(NamedTuple):
    """A ``tf.Example`` taken apart around its JPEG.

    `jpeg` is (start, end) in the payload. `spans` are the messages around it, the outermost first: each is (where its
    length is written, start, end), and its length changes with the image.
    """

    jpeg: tuple[int, int]
    spans: tuple[tuple[int, int, int], ...]

    def replaced(self, payload: bytes, pixels: bytes | memoryview) -> bytes:
        """Return the payload with `pixels` in place of the JPEG."""
        parts, at = [], 0
        for (head, start, _), length in zip(self.spans, self._lengths(len(pixels)), strict=True):
            parts += [payload[at:head], length]
            at = start
        return b"".join([*parts, pixels, payload[self.jpeg[1] :]])

    def length(self, payload_length: int, image_length: int) -> int:
        """Return how long the payload is with an image of `image_length` bytes."""
        changes = [len(length) for length in self._lengths(image_length)]
        changes += [head - start for head, start, _ in self.spans]
        return payload_length + sum(changes) + image_length - (self.jpeg[1] - self.jpeg[0])

    def _lengths(self, image_length: int) -> list[bytes]:
        """Return the lengths of the messages with an image of `image_length` bytes in them, the outermost first."""
        lengths, grown = [], image_length - (self.jpeg[1] - self.jpeg[0])
        for head, start, end in reversed(self.spans):
            lengths.append(framing.varint(end - start + grown))
            grown += len(lengths[-1]) - (start - head)
        return lengths[::-1]


def index(root: Root, name: str, image_length: int, feature: str) -> Index:
    """Return where the records of a shard are, after reading it once.

    Parameters
    ----------
    root : Root
    name : str
        Of the shard; see `labextras.card.root.Root` for what is refused.
    image_length : int
        Bytes of the pixels that take the place of each JPEG.
    feature : str
        Which feature of a record holds the JPEG.

    Raises
    ------
    Refused
        If the first record is no ``tf.Example`` with a JPEG in it.
    """
    places: list[Place] = []
    seen, fault = 0, ""
    with root.open(name) as handle:
        scanned = framing.scan(f"/dev/fd/{handle}", "") if os.fstat(handle).st_size else ()
        for record in scanned:
            fault = record.fault
            try:
                grown = 0 if fault else example(record.payload, feature).length(len(record.payload), image_length)
            except Refused as refusal:
                fault = str(refusal)
                if not places:
                    raise Refused(refusal.code, f"{place_in_words(name, 0, framing.HEAD)}: {refusal}") from None
            if fault:
                fault = f"{place_in_words(name, len(places), record.byte + framing.HEAD)}: {fault}"
                break
            places.append(Place(record.byte + framing.HEAD, len(record.payload), seen))
            seen += grown + framing.AROUND
    return Index(places, seen, fault)


def place_in_words(name: str, number: int, byte: int) -> str:
    """Return which record of a shard this is and where it begins; `byte` is that of its payload."""
    return f"record {number} of {name!r}, at byte {byte - framing.HEAD:,}"


def payload(root: Root, name: str, place: Place) -> bytes:
    """Return the payload of a record after a comparison with its checksum.

    Raises
    ------
    Refused
        If they differ.
    """
    body = root.read(name, place.byte, place.length + 4)
    found = body[: place.length]
    if framing.checksum(found) != body[place.length :]:
        raise Refused(Code.DATA_LOSS, "the payload is damaged")
    return found


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
    except (IndexError, ValueError):
        raise Refused(Code.DATA_LOSS, "the record is no tf.Example") from None
    if feature in names:
        raise Refused(Code.INVALID_ARGUMENT, f"the feature {feature!r} does not hold one JPEG")
    held = ", ".join(map(repr, names[:20])) or "none"
    raise Refused(Code.INVALID_ARGUMENT, f"the record has no feature {feature!r}; it has: {held}")


def _messages(data: bytes, at: int, end: int, number: int) -> Iterator[tuple[int, int, int]]:
    """Yield (where its length stands, start, end) of each field `number` between two bytes that holds bytes."""
    for tag, start, after in _fields(data, at, end):
        if tag == number << 3 | 2:
            head = at
            while data[head] > 127:  # the tag, however long
                head += 1
            yield head + 1, start, after
        at = after


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tag, start, end) of each field of a message.

    The wire type is the last three bits of a tag: 0 a varint, 1 and 5 fixed 8 and 4 bytes, 2 a length and bytes.
    """
    while at < end:
        tag, start = _varint(data, at)
        if tag & 7 == 0:
            at = _varint(data, start)[1]
        elif tag & 7 == 2:
            length, start = _varint(data, start)
            at = start + length
        elif tag & 7 in (1, 5):
            at = start + (8 if tag & 7 == 1 else 4)
        else:
            raise ValueError(f"there is no field at byte {at}")
        if not start <= at <= end or tag < 8:
            raise ValueError(f"the field at byte {start} does not fit into its message")
        yield tag, start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a byte, and the position after it."""
    value, shift = data[at] & 0x7F, 7
    while data[at] & 0x80:
        at += 1
        value |= (data[at] & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ValueError(f"the number before byte {at} is longer than 64 bits")
    return value, at + 1
