"""A TFRecord shard as a card shows it: the same records, with pixels where a JPEG was.

The file that a reader sees does not exist on any disk. The length of each record follows from the size of an image and
from the other contents of the record. So any part of the file can be made alone: a reader may seek, stop and come back.
"""

from __future__ import annotations

import bisect
import os
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


class Example:
    """A ``tf.Example``, and the one bytes value of the feature of a name, its JPEG.

    Parameters
    ----------
    payload : bytes
    feature : str

    Attributes
    ----------
    jpeg : bytes

    Raises
    ------
    Refused
        If the bytes are no tf.Example, or it has no such feature, or that holds no single bytes value.
    """

    def __init__(self, payload: bytes, feature: str) -> None:
        from google.protobuf.message import DecodeError

        try:
            self._message = framing.example_class().FromString(payload)
        except DecodeError:
            raise Refused(Code.DATA_LOSS, "the record is no tf.Example") from None
        held = {entry.key: entry.value.bytes_list.value for entry in self._message.features.feature}
        if feature not in held:
            names = ", ".join(map(repr, [*held][:20])) or "none"
            raise Refused(Code.INVALID_ARGUMENT, f"the record has no feature {feature!r}; it has: {names}")
        self._values = held[feature]
        if len(self._values) != 1:
            raise Refused(Code.INVALID_ARGUMENT, f"the feature {feature!r} does not hold one JPEG")
        self.jpeg = self._values[0]

    def replaced(self, pixels: bytes | memoryview) -> bytes:
        """Return the payload with `pixels` in place of the JPEG, and everything else as it was."""
        self._values[0] = bytes(pixels)
        return self._message.SerializeToString()


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
    seen, fault, blank = 0, "", bytes(image_length)
    with root.open(name) as handle:
        scanned = framing.scan(f"/dev/fd/{handle}", "") if os.fstat(handle).st_size else ()
        for record in scanned:
            fault = record.fault
            try:
                made = b"" if fault else Example(record.payload, feature).replaced(blank)
            except Refused as refusal:
                fault = str(refusal)
                if not places:
                    raise Refused(refusal.code, f"{place_in_words(name, 0, framing.HEAD)}: {refusal}") from None
            if fault:
                fault = f"{place_in_words(name, len(places), record.byte + framing.HEAD)}: {fault}"
                break
            places.append(Place(record.byte + framing.HEAD, len(record.payload), seen))
            seen += len(made) + framing.AROUND
    return Index(places, seen, fault)


def place_in_words(name: str, number: int, byte: int) -> str:
    """Return which record of a shard this is and where it begins; `byte` is that of its payload."""
    return f"record {number} of {name!r}, at byte {byte - framing.HEAD:,}"
