"""What a name under ``smartssd://`` means, and the messages between a card and those who read through it.

A message is framed as `multiprocessing.connection` frames bytes on a Unix socket: the length of the message, a signed
number of 4 bytes in network byte order, and then the message. The numbers in a message have the byte order of the
machine, and none is aligned.

======== ===== ==========================================================================
request  bytes
======== ===== ==========================================================================
magic    4     ``LKC2``
op       1     one of `Op`
id       8     chosen by the reader
offset   8     READ: the first byte that is wanted; BEGIN: 1 to append, 0 for a new file; WRITE: the place of the bytes
               in the file; COMMIT: the length of the file; SPANS: the start of a window, ns since 1970
count    8     READ: how many bytes are wanted; operations that change the card: their token;
               SPANS: the length of the window, ns
rest     rest  WRITE: at most `PIECE_LIMIT` bytes of the file. Else a name in UTF-8, at most `NAME_LIMIT` bytes: a path
               from the root of the card, then ``?`` and parameters. RENAME: two names with a zero byte between them
======== ===== ==========================================================================

======== ===== ==========================================================================
reply    bytes
======== ===== ==========================================================================
magic    4     ``LKC2``
code     1     one of `Code`
id       8     that of the request
payload  rest  READ: the place of the first byte that follows (8), the length of all there is to read, or `UNKNOWN` (8),
               the version of the file (8), then the bytes; STAT: length (8), time of change in ns (8), 1 for a folder
               (1); LIST, GLOB: names, each followed by a zero byte; STATUS, SPANS: JSON; BEGIN: the bytes that the
               file has already (8). With any code but OK, the payload is a sentence.
======== ===== ==========================================================================

A reply to READ holds the byte at `offset`, or says that there is none. It may begin before `offset` and have more bytes
than were wanted where the name has parameters: an image and a record come whole. A file that was replaced between two
requests has another version, so that no reader takes pieces of two files for one.

A file is written by BEGIN, WRITE for each piece, and COMMIT, all with one token, a random number that the writer draws;
each other change has a token of its own. A request can be repeated: the card does what has a token once.
"""

from __future__ import annotations

import enum
import math
import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

REQUEST = struct.Struct("=4sBQQQ")
REPLY = struct.Struct("=4sBQ")
STRETCH = struct.Struct("=QQQ")
BEGUN = struct.Struct("=Q")
STATISTICS = struct.Struct("=QqB")
MAGIC = b"LKC2"
#: Bytes that a name with its parameters may have: the longest path of Linux, and some more.
NAME_LIMIT = 8192
#: Bytes of a file that one request to WRITE may have.
PIECE_LIMIT = 4 << 20
#: The length of a file where it is not known before its end.
UNKNOWN = 2**64 - 1

#: What the numbers of an image may be.
DTYPES = ("uint8", "float32")
#: The longest side of an image in pixels, and the longest timeout that a name may ask for in seconds.
SIZE_LIMIT, TIMEOUT_LIMIT_S = 4096, 3600


class Op(enum.IntEnum):
    """What can be asked of a card."""

    STATUS = 1
    READ = 2
    STAT = 3
    LIST = 4
    GLOB = 5
    BEGIN = 6
    WRITE = 7
    COMMIT = 8
    MAKE_FOLDER = 9
    DELETE = 10
    DELETE_FOLDER = 11
    DELETE_TREE = 12
    RENAME = 13
    SPANS = 14


class Code(enum.IntEnum):
    """How a request ended, in TensorFlow's numbers. No other comes from a card: 11 would mean "end of file"."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
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


class MessageError(Exception):
    """These bytes are no message of this protocol."""


class Request(NamedTuple):
    """One question: what is asked, about which name, and about which bytes; `data` are those of WRITE."""

    op: int
    id: int
    name: str = ""
    offset: int = 0
    count: int = 0
    data: bytes = b""


def pack_request(request: Request) -> bytes:
    """Return the message of a request."""
    name = request.name.encode("utf-8", "surrogateescape")
    return REQUEST.pack(MAGIC, request.op, request.id, request.offset, request.count) + name + request.data


def unpack_request(message: bytes) -> Request:
    """Return the request in a message.

    Raises
    ------
    MessageError
        If there is none in it.
    """
    (op, ident, offset, count), rest = _parts(REQUEST, message, "request to a card")
    if op == Op.WRITE:
        return Request(op, ident, "", offset, count, rest)
    if len(rest) > NAME_LIMIT:
        raise MessageError(f"the name has {len(rest):,} bytes; allowed: {NAME_LIMIT:,}")
    return Request(op, ident, rest.decode("utf-8", "surrogateescape"), offset, count)


def pack_reply(ident: int, code: int, payload: Sequence[bytes | memoryview]) -> bytes:
    """Return the message of a reply whose payload is given in pieces."""
    return b"".join([REPLY.pack(MAGIC, code, ident), *payload])


def unpack_reply(message: bytes, ident: int) -> bytes:
    """Return the payload of the reply to the request with the number `ident`.

    Raises
    ------
    Refused
        With the code and the sentence of the card.
    MessageError
        If the message is no reply to this request.
    """
    (code, answered), payload = _parts(REPLY, message, "reply of a card")
    if answered != ident:
        raise MessageError(f"the reply is to request {answered}, not to {ident}")
    if code not in set(Code):
        raise MessageError(f"the reply has the code {code}; allowed: {', '.join(map(str, map(int, Code)))}")
    if code != Code.OK:
        raise Refused(Code(code), payload.decode("utf-8", "replace"))
    return payload


def _parts(layout: struct.Struct, message: bytes, what: str) -> tuple[tuple[int, ...], bytes]:
    """Return the numbers at the head of a message, and what follows them."""
    if len(message) < layout.size or message[:4] != MAGIC:
        raise MessageError(f"the message {message[:12].hex()} is no {what}")
    return layout.unpack_from(message)[1:], message[layout.size :]


# -- names ------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """What a card makes of an image.

    Parameters
    ----------
    size : int
        Side of the result in pixels.
    dtype : {"uint8", "float32"}
    feature : str
        Which feature of a record holds the JPEG.
    """

    size: int
    dtype: str = "uint8"
    feature: str = field(default="image", compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of one image."""
        return self.size * self.size * 3 * np.dtype(self.dtype).itemsize


class UriParameter(NamedTuple):
    """How a parameter is written (a regular expression), read and limited, and a description of what is allowed."""

    pattern: str
    read: Any
    allowed: str
    least: float = 0
    most: float = math.inf


_SECONDS = r"[0-9]{1,4}(\.[0-9]{1,3})?"
PARAMETERS = {
    "size": UriParameter("[0-9]{1,20}", int, f"a whole number from 1 to {SIZE_LIMIT}", 1, SIZE_LIMIT),
    "dtype": UriParameter("|".join(DTYPES), str, " or ".join(DTYPES)),
    "feature": UriParameter("[A-Za-z0-9_.:-]{1,64}", str, "the name of a feature: up to 64 letters, digits, _ . : -"),
    "timeout": UriParameter(_SECONDS, float, f"seconds above 0, at most {TIMEOUT_LIMIT_S}", 0.001, TIMEOUT_LIMIT_S),
}


def split(name: str) -> tuple[str, str]:
    """Return (path, parameters): what stands before and after the last ``?`` that a ``=`` and no ``/`` follows.

    So a ``?`` may stand for one character of a pattern, and in the name of a file.
    """
    path, mark, query = name.rpartition("?")
    return (path, query) if mark and "=" in query and "/" not in query else (name, "")


def recipe(query: str) -> Recipe | None:
    """Return what the parameters of a name ask for; None where the bytes stay as they are.

    Raises
    ------
    Refused
        For a parameter that is unknown or out of range: a sentence that names what is allowed.
    """
    given: dict[str, Any] = {}
    for part in query.split("&") if query else []:
        key, sign, text = part.partition("=")
        if key not in PARAMETERS or not sign:
            allowed = ", ".join(PARAMETERS)
            raise Refused(Code.INVALID_ARGUMENT, f"the parameter {part!r} is unknown; allowed: {allowed}")
        rule = PARAMETERS[key]
        given[key] = rule.read(text) if re.fullmatch(rule.pattern, text) else None
        if given[key] is None or not (rule.read is str or rule.least <= given[key] <= rule.most):
            raise Refused(Code.INVALID_ARGUMENT, f"{key} is {text!r}; allowed: {rule.allowed}")
    given.pop("timeout", None)
    if given and "size" not in given:
        raise Refused(Code.INVALID_ARGUMENT, f"{', '.join(given)} without a size; allowed: together with size=224")
    return Recipe(**given) if given else None


def plain(name: str) -> str:
    """Return the path in the name of what is to be changed.

    Raises
    ------
    Refused
        If parameters say what the card should make of it: that can only be read.
    """
    path, query = split(name)
    if recipe(query):
        sentence = f"{name!r} is what the card makes of a file; allowed for a change: a name without parameters"
        raise Refused(Code.INVALID_ARGUMENT, sentence)
    return path


def check_card(name: str) -> str:
    """Return the name of a card.

    Raises
    ------
    ValueError
        If it cannot be one.
    """
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
        allowed = "up to 32 letters, digits, - and _, the first a letter or a digit"
        raise ValueError(f"the name of a card is {name!r}; allowed: {allowed}")
    return name


def uri(name: str, path: str | os.PathLike[str] = "", /, **parameters: Any) -> str:
    """Return ``smartssd://<name>/<path>?<parameters>``.

    Parameters
    ----------
    name : str
        Of the card.
    path : str or path
        From the root of the card: a file, a folder or a pattern.
    **parameters
        What the card makes of an image, see `labextras.card`: text, or numbers and dtypes of Python and NumPy.

    Raises
    ------
    ValueError
        For a parameter that no card knows, a value that is not allowed, and a path whose end would be taken for
        parameters (``q?size=7.jpg``); a card does not list those.
    """
    inside = os.fsdecode(path).lstrip("/")
    if mistaken := split(inside)[1]:
        allowed = "a path without a = behind the last ?, and parameters as arguments, such as size=224"
        raise ValueError(f"the path {inside!r} would be read with the parameters {mistaken!r}; allowed: {allowed}")
    words = {k: np.dtype(given) if isinstance(given, (type, np.dtype)) else given for k, given in parameters.items()}
    query = "&".join(f"{key}={word}" for key, word in words.items())
    try:
        recipe(query)
    except Refused as refusal:
        raise ValueError(str(refusal)) from None
    return f"smartssd://{check_card(name)}/{inside}{'?' if query else ''}{query}"


def below(root: Path, path: str | os.PathLike[str]) -> str:
    """Return a path from the root of a card; an absolute path is made relative to the root.

    Raises
    ------
    ValueError
        For an absolute path outside the root.
    """
    given = os.fsdecode(path)
    if not os.path.isabs(given):
        return given
    # The root may be given with '..' or through a link, and the path without them.
    for place in (Path.absolute, os.path.abspath, os.path.realpath):
        if Path(given).is_relative_to(place(root)):
            return str(Path(given).relative_to(place(root)))
    raise ValueError(f"{given} is not in {root}, the folder that the card serves")
