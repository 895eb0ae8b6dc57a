"""Messages between a student's process and the grader: JSON that holds only data, checked by msgspec as it is read.

Pickle is never used, because reading a message of a student's process must not run code. Numbers, text, bytes, lists,
tuples, sets, dicts, and NumPy arrays of plain numbers are sent as they are. Fractions and decimals become the nearest
float, and generators and similar objects become lists. Other objects become the name of their type. A message is
bounded before it is read and as it is turned back, so that one of a few megabytes cannot make the grader compute for
hours, or fill its memory.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, MappingView
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta, Struct

#: A message may be so long; the largest array of the problem sets is a hundredth of it.
MOST_BYTES = 16 << 20
#: Letters that a cell may print.
MOST_PRINTED = 10_000
#: A generator may have no end.
_MOST_DRAWN = 100_000
#: Brackets, braces and commas in a message: what each begins takes the grader some memory and time.
_MOST_MARKS = 600_000
#: Numbers in all arrays of a message together, or rows: a row without numbers takes no bytes, and a test may make a
#: tuple of each.
_MOST_NUMBERS = 500_000
#: Bytes of a text, four for a letter, times the values of a message: NumPy gives each value of an array the room of the
#: longest, so that one long text and some numbers in one array can fill the memory.
_MOST_ROOM = 128 << 20
#: Values in values.
_DEEPEST = 20
#: Entries of a set or a dict: hashes may be chosen, and Python compares each new entry with all that have the same.
_MOST_HASHED = 1_000
#: Types of a message that are told apart by their names.
_MOST_TYPES = 100
_SHORTEST, _LONGEST = -(1 << 63), (1 << 63) - 1


class Many(Struct, tag=True):
    """Values in order; of a dict its keys and values in turn."""

    kind: Literal["list", "tuple", "set", "dict"]
    of: list[Value]


class Array(Struct, tag=True):
    """A NumPy array, or a scalar, whose shape is empty."""

    dtype: Literal["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d"]
    shape: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=32)]
    data: bytes


class Bytes(Struct, tag=True):
    """Bytes, which JSON has not."""

    of: bytes


class Text(Struct, tag=True):
    """What JSON has not: a float that is not finite, or the name of what is no data."""

    kind: Literal["float", "name"]
    of: Annotated[str, Meta(max_length=80)]


Short = Annotated[int, Meta(ge=_SHORTEST, le=_LONGEST)]
Value = Union[None, bool, Short, float, str, Many, Array, Bytes, Text]  # noqa: UP007 - it names itself


class Job(Struct):
    """What a student's process is told before it runs anything; `parent` is the process with which it ends."""

    cpu_s: int
    memory_mb: int
    tensorflow: bool
    parent: int | None


class Request(Struct):
    """What a student's process is asked to do, and after how many seconds it is interrupted there."""

    id: str
    do: Literal["cell", "names", "get", "call", "inspect"]
    busy_s: float
    wait_s: float
    source: str = ""
    number: int = 0
    names: list[str] = []
    name: str = ""
    arguments: Value = None
    keywords: Value = None
    most: int = 0


class Reply(Struct):
    """The answer of a student's process: a value, what was printed, type and words of an exception.

    `ended` says why it ends instead; what it may say of that is fixed.
    """

    id: str = ""
    value: Value = None
    printed: Annotated[str, Meta(max_length=MOST_PRINTED)] = ""
    error: tuple[Annotated[str, Meta(max_length=500)], Annotated[str, Meta(max_length=500)]] | None = None
    ended: Literal["", "took more memory than allowed"] = ""


class Opaque:
    """Stands for something that is no plain data: only the name of its type came through."""

    def __repr__(self) -> str:
        """Return the name of the type in angle brackets."""
        return f"<{type(self).__name__}>"


def readable(value: Any, most: int) -> str:
    """Return text that every file and terminal can take, cut off: half of a surrogate pair becomes its number."""
    return str(value)[:most].encode("utf-8", "backslashreplace").decode()[:most]


def _name(of: str) -> Text:
    return Text("name", readable(of, 80))


def pack(value: Any, depth: int = 0) -> Value:
    """Turn plain data into what a message can hold."""
    if depth > _DEEPEST:
        return _name(f"something nested more than {_DEEPEST} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return readable(str.__str__(value), len(value))
    if isinstance(value, int):
        return int(value) if _SHORTEST <= value <= _LONGEST else _name("a whole number of over 64 bits")
    if isinstance(value, (Fraction, Decimal)):
        value = float(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else Text("float", repr(float(value)))
    if isinstance(value, (bytes, bytearray)):
        return Bytes(bytes(value))
    if isinstance(value, dict):
        return Many("dict", [pack(part, depth + 1) for item in value.items() for part in item])
    if callable(getattr(value, "numpy", None)) and hasattr(value, "dtype"):
        value = value.numpy()  # an eager tensor
        if isinstance(value, (bytes, str)):
            return pack(value, depth + 1)
    character, shape = getattr(getattr(value, "dtype", None), "char", ""), getattr(value, "shape", None)
    if character in ("S", "O") and shape == ():
        return pack(value.item(), depth + 1)
    if isinstance(value, (Iterator, MappingView, range, deque)):  # a loop over it works in a notebook, too
        value = list(islice(value, _MOST_DRAWN))
    kind = next((kind for kind, types in _KINDS.items() if isinstance(value, types)), None)
    if kind or (character in ("S", "O") and shape is not None):
        return Many(kind or "list", [pack(part, depth + 1) for part in value])
    if character and character in _DTYPES and shape is not None:
        shape = [int(size) for size in shape]
        if _rows(shape) > _MOST_NUMBERS:
            return _name(f"an array of the shape {tuple(shape)}")
        return Array(character, shape, value.tobytes())
    return _name(type(value).__name__)


_KINDS = {"list": list, "tuple": tuple, "set": (set, frozenset)}
_DTYPES = "?bBhHiIlLqQefd"


def _rows(shape: list[int]) -> int:
    """Return how many numbers an array has, or rows where these are more, for they may be without numbers."""
    return math.prod(max(size, 1) for size in shape)


def encode(message: Struct) -> bytes:
    """Return a message as JSON; a reply that the grader would not read says so instead."""
    data = msgspec.json.encode(message)
    if isinstance(message, Reply) and _has_too_many_entries(data):
        message.value = _name("an answer of too many entries")
        data = msgspec.json.encode(message)
    return data


def _has_too_many_entries(data: bytes) -> bool:
    """Tell if a message holds more lists, dicts and entries than the grader reads; marks in texts count, too."""
    return sum(map(data.count, (b"[", b"{", b","))) > _MOST_MARKS


def read(data: bytes, kind: type[Struct] = Reply) -> Any:
    """Return the message of a kind that some bytes hold; its values are still packed.

    Raises
    ------
    ValueError
        If they hold none, or one of more entries than is read.
    """
    if _has_too_many_entries(data):
        raise ValueError(f"more than {_MOST_MARKS:,} brackets, braces and commas")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"a message is not in the format of messages ({type(error).__name__})") from None


def unpack(value: Value) -> Any:
    """Turn back what `pack` made.

    Raises
    ------
    ValueError
        If it is nothing that `pack` makes: the other side has been tampered with.
    """
    try:
        unpacking = _Unpacking()
        made = unpacking.one(value)
        return unpacking.stands_for("texts too long for so many values") if unpacking.has_no_room() else made
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a reply is not in the format of replies ({error})") from None


class _Unpacking:
    """Turns one message back, and counts what may be only so many times in it."""

    def __init__(self) -> None:
        self._types: dict[str, type[Opaque]] = {}
        self._rows = self._longest = self._values = 0

    def has_no_room(self) -> bool:
        """Tell whether the values, as one array of NumPy, would take more memory than the grader gives."""
        return self._longest * (self._values + self._rows) > _MOST_ROOM

    def one(self, value: Value, inner: bool = False) -> Any:
        """Turn one value back; `inner` ones are in a set or keys of a dict, which hold frozen sets only."""
        self._values += 1
        if isinstance(value, Many):
            return self._many(value, inner)
        if isinstance(value, Array):
            return self._array(value)
        if isinstance(value, Text):
            return float(value.of) if value.kind == "float" else self.stands_for(value.of)
        value = value.of if isinstance(value, Bytes) else value
        if isinstance(value, (str, bytes)):
            self._longest = max(self._longest, len(value) * (4 if isinstance(value, str) else 1))
        return value

    def _many(self, value: Many, inner: bool) -> Any:
        if value.kind in ("set", "dict") and len(value.of) > _MOST_HASHED * (1 + (value.kind == "dict")):
            return self.stands_for(f"a set or dict of more than {_MOST_HASHED:,} entries")
        if value.kind == "dict":
            parts = iter([self.one(part, not place % 2) for place, part in enumerate(value.of)])
            return dict(zip(parts, parts, strict=True))
        made = {"list": list, "tuple": tuple, "set": frozenset if inner else set}[value.kind]
        return made([self.one(part, inner or value.kind == "set") for part in value.of])

    def _array(self, value: Array) -> Any:
        import numpy as np

        self._rows += _rows(value.shape)
        if self._rows > _MOST_NUMBERS:
            raise ValueError("arrays of more numbers or rows than an answer has")
        return np.frombuffer(value.data, dtype=value.dtype).reshape(value.shape).copy()[()]

    def stands_for(self, name: str) -> Opaque:
        """Return a value of a type of that name, so that Python's messages about it tell what it was."""
        if name not in self._types:
            self._types[name] = type(name, (Opaque,), {}) if len(self._types) < _MOST_TYPES else Opaque
        return self._types[name]()
