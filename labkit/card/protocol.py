"""What goes over the socket of a card, and what a name may ask of it: bytes to numbers and back, nothing else.

A request is 36 bytes and a name; a reply is 28 bytes and what was asked for. Both carry a number that pairs them, and
a reply a CRC-32 of all its bytes, so that no reader takes one thing for another. Numbers are little-endian.

======== ===== ==========================================================================
request  bytes
======== ===== ==========================================================================
magic    4     ``LKQ1``
op       1     one of `Op`; 3 bytes of zero follow
length   4     of the name, at most `NAME_LIMIT`
id       8     chosen by who asks
offset   8     READ: the first byte that is wanted
count    8     READ: how many bytes are wanted
name           UTF-8: a path from the root of the card, then ``?`` and parameters
======== ===== ==========================================================================

======== ===== ==========================================================================
reply    bytes
======== ===== ==========================================================================
magic    4     ``LKR1``
code     1     one of `Code`
kind     1     `PLAIN` or `RECORDS`; 2 bytes of zero follow
crc      4     CRC-32 (as in zlib) of these 28 bytes, zero in this place, and of the payload
id       8     of the request
length   8     of the payload
payload        READ: the place of its first byte (8), then bytes, or records of (4 bytes of length, payload);
               STAT: length (8), time of change in ns (8), 1 for a folder (1); LIST, GLOB: names, each ended by a
               zero; STATUS: JSON; for any code but OK: a sentence
======== ===== ==========================================================================
"""

from __future__ import annotations

import enum
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

REQUEST = struct.Struct("<4sB3xIQQQ")
REPLY = struct.Struct("<4sBB2xIQQ")
PLACE = struct.Struct("<Q")
STATISTICS = struct.Struct("<QqB")
ASKS, SAYS = b"LKQ1", b"LKR1"
#: Bytes that a name with its parameters may have: the longest path of Linux, and some.
NAME_LIMIT = 8192
#: Kinds of payload: bytes as they are, and records of a TFRecord file that the plugin frames.
PLAIN, RECORDS = 0, 1

SCHEME = "smartssd://"
#: The side of an image on this card, in pixels.
SIZES = range(1, 4097)
DTYPES = {"uint8": 1, "float32": 4}
#: What a file's name ends in that holds records; compressed, they would have to be packed again.
SHARD, PACKED = ".tfrecord", (".tfrecord.gz", ".tfrecord.zlib")
#: Longest timeout that a name may ask for, in seconds.
TIMEOUT_LIMIT_S = 3600

_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}\Z")
_WHOLE = re.compile(r"[0-9]{1,20}\Z")
_DECIMAL = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?\Z")


class Op(enum.IntEnum):
    """What can be asked of a card."""

    STATUS = 1
    READ = 2
    STAT = 3
    LIST = 4
    GLOB = 5


class Code(enum.IntEnum):
    """How it went, in TensorFlow's numbers. The others never come from a card: 11 would mean "end of file"."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    DATA_LOSS = 15


class Refused(Exception):
    """A request that gets a sentence instead of bytes."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Malformed(Exception):
    """These bytes are no message of this protocol."""


class Request(NamedTuple):
    """One question: what, of which name, and for READ which bytes."""

    op: Op
    id: int
    name: str
    offset: int = 0
    count: int = 0


class Reply(NamedTuple):
    """One answer."""

    code: int
    kind: int
    id: int
    payload: bytes


@dataclass(frozen=True)
class Recipe:
    """What is to become of an image.

    Parameters
    ----------
    size : int
        Side of the result in pixels.
    dtype : {"uint8", "float32"}
    augment : bool
        Flip and vary brightness and saturation at random, by `seed` and the name of the image.
    seed : int
        From 0 to 2**64 - 1.
    feature : str
        Which feature of a record holds the JPEG.
    """

    size: int
    dtype: str = "uint8"
    augment: bool = False
    seed: int = 0
    feature: str = field(default="image", compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of one image."""
        return self.size * self.size * 3 * DTYPES[self.dtype]


def pack_request(request: Request) -> bytes:
    """Return the bytes of a request."""
    name = request.name.encode("utf-8", "surrogateescape")
    return REQUEST.pack(ASKS, request.op, len(name), request.id, request.offset, request.count) + name


def request_head(head: bytes) -> tuple[int, int, int, int, int]:
    """Return (op, length of the name, id, offset, count) of the first 36 bytes of a request.

    Raises
    ------
    Malformed
        If they are not the head of one.
    """
    magic, op, length, ident, offset, count = REQUEST.unpack(head)
    if magic != ASKS or length > NAME_LIMIT:
        raise Malformed(f"{head[:12].hex()} is not the head of a request")
    return op, length, ident, offset, count


def pack_reply(ident: int, code: int, payload: list[bytes | memoryview], kind: int = PLAIN) -> list[bytes | memoryview]:
    """Return a reply as pieces to be sent one after the other; `payload` is not copied."""
    length = sum(len(piece) for piece in payload)
    crc = zlib.crc32(REPLY.pack(SAYS, code, kind, 0, ident, length))
    for piece in payload:
        crc = zlib.crc32(piece, crc)
    return [REPLY.pack(SAYS, code, kind, crc, ident, length), *payload]


def reply_head(head: bytes) -> tuple[int, int, int, int, int]:
    """Return (code, kind, crc, id, length) of the first 28 bytes of a reply.

    Raises
    ------
    Malformed
        If they are not the head of one.
    """
    magic, code, kind, crc, ident, length = REPLY.unpack(head)
    if magic != SAYS:
        raise Malformed(f"{head[:12].hex()} is not the head of a reply")
    return code, kind, crc, ident, length


def check_reply(head: bytes, payload: bytes) -> Reply:
    """Return a whole reply.

    Raises
    ------
    Malformed
        If its length or its CRC is another.
    """
    code, kind, crc, ident, length = reply_head(head)
    if len(payload) != length:
        raise Malformed(f"the reply has {len(payload):,} bytes and says {length:,}")
    if zlib.crc32(payload, zlib.crc32(head[:8] + bytes(4) + head[12:])) != crc:
        raise Malformed("the reply is not what its checksum says")
    return Reply(code, kind, ident, payload)


def check_card(name: str) -> str:
    """Return the name of a card.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(name, str) or not _CARD.match(name):
        raise ValueError(
            f"the name of a card is {name!r}; allowed: up to 32 letters, digits, - and _, a letter or digit first"
        )
    return name


def split(name: str) -> tuple[str, str]:
    """Return (path, parameters): what stands before and behind the last ``?`` that a ``=`` and no ``/`` follows.

    So a ``?`` may stand for one character of a pattern, and in the name of a file.
    """
    path, mark, query = name.rpartition("?")
    return (path, query) if mark and "=" in query and "/" not in query else (name, "")


def recipe(query: str) -> Recipe | None:
    """Return what the parameters of a name ask for; None where nothing is to become of the bytes.

    Raises
    ------
    Refused
        For a parameter that is unknown, repeated or out of range: a sentence that names what is allowed.
    """
    given: dict[str, str] = {}
    for part in query.split("&") if query else []:
        key, sign, value = part.partition("=")
        if key not in _READERS or not sign:
            allowed = ", ".join(_READERS)
            raise Refused(Code.INVALID_ARGUMENT, f"the parameter {part!r} is unknown; allowed: {allowed}")
        if key in given:
            raise Refused(Code.INVALID_ARGUMENT, f"the parameter {key} is given twice; allowed: once")
        given[key] = value
    read = {}
    for key, value in given.items():
        reader, allowed = _READERS[key]
        try:
            read[key] = reader(value)
        except (ValueError, KeyError):
            raise Refused(Code.INVALID_ARGUMENT, f"{key} is {value!r}; allowed: {allowed}") from None
    read.pop("timeout", None)
    if read and "size" not in read:
        raise Refused(Code.INVALID_ARGUMENT, f"{', '.join(read)} without a size; allowed: size=224 and the like beside")
    if read.get("seed") and not read.get("augment"):
        raise Refused(Code.INVALID_ARGUMENT, f"seed is {read['seed']} without augment=1; allowed: both, or none")
    return Recipe(**read) if read else None


def _number(allowed: range) -> object:
    def read(text: str) -> int:
        if not _WHOLE.match(text) or int(text) not in allowed:
            raise ValueError
        return int(text)

    return read


def _member(allowed: object) -> object:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError
        return text

    return read


def _seconds(text: str) -> float:
    if not _DECIMAL.match(text) or not 0 < float(text) <= TIMEOUT_LIMIT_S:
        raise ValueError
    return float(text)


def _feature(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", text):
        raise ValueError
    return text


#: For each parameter how it is read, and the words for what is allowed.
_READERS = {
    "size": (_number(SIZES), f"a whole number from {SIZES[0]} to {SIZES[-1]}"),
    "dtype": (_member(DTYPES), " or ".join(DTYPES)),
    "augment": ({"0": False, "1": True}.__getitem__, "0 or 1"),
    "seed": (_number(range(2**64)), "a whole number from 0 to 2**64 - 1"),
    "feature": (_feature, "the name of a feature of the records: up to 64 letters, digits, _ . : -"),
    "timeout": (_seconds, f"seconds above 0, at most {TIMEOUT_LIMIT_S}, such as 20 or 0.5"),
}
PARAMETERS = tuple(_READERS)
