"""Messages between a student's process and the grader: JSON texts that hold only data.

Pickle is never used, because reading a message of a student's process must not run code. Numbers, text, bytes, lists,
tuples, sets, dicts, and NumPy arrays of plain numbers are sent as they are. Fractions and decimals become the nearest
float, and generators and similar objects become lists. Other objects become the name of their type. A reply is bounded
before it is read, so that a message of a few megabytes cannot make the grader compute for hours, or fill its memory.
"""

from __future__ import annotations

import base64
import json
import math
from collections import deque
from collections.abc import Iterator, MappingView
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

#: A message may be so long; the largest array of the problem sets is a hundredth of it.
MOST_BYTES = 16 << 20
#: A generator may have no end.
_MOST_DRAWN = 100_000
#: Lists, dicts and their entries in a message, and numbers in an array: each takes the grader some memory and time.
_MOST_ENTRIES, _MOST_NUMBERS = 300_000, 500_000
#: Rows of an array without numbers, which takes no bytes however many rows it has.
_MOST_EMPTY = 10_000
#: Bytes of a text, four for a letter, times the values of a message: NumPy gives each value of an array the room of the
#: longest, so that one long text and some numbers in one array can fill the memory.
_MOST_ROOM = 128 << 20
#: Lists in lists: the grader gives up later than `pack` does.
_DEEPEST = 60
#: Entries of a set or a dict, large numbers in a message, and different values of one hash. A hash may be chosen, and
#: Python compares each new value with all that have the same.
_MOST_HASHED, _MOST_ALIKE = 1_000, 100
#: Types of a message that are told apart by their names.
_MOST_TYPES = 100
_DTYPES = "?bBhHiIlLqQefd"


class Opaque:
    """Stands for something that is no plain data: only the name of its type came through."""

    def __repr__(self) -> str:
        """Return the name of the type in angle brackets."""
        return f"<{type(self).__name__}>"


def pack(value: Any, depth: int = 0) -> Any:
    """Turn plain data into what JSON can hold."""
    if depth > 20:
        return {"o": "something nested more than 20 deep"}
    if value is None or isinstance(value, (bool, str)):
        return value if type(value) in (bool, str, type(None)) else str.__str__(value)
    if isinstance(value, int):
        return {"i": str(int(value))} if abs(int(value)) < 10**300 else {"o": "a whole number of over 300 digits"}
    if isinstance(value, (Fraction, Decimal)):
        value = float(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"f": repr(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"b": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {"d": [[pack(k, depth + 1), pack(v, depth + 1)] for k, v in value.items()]}
    if callable(getattr(value, "numpy", None)) and hasattr(value, "dtype"):
        value = value.numpy()  # an eager tensor
        if isinstance(value, (bytes, str)):
            return pack(value, depth + 1)
    character, shape = getattr(getattr(value, "dtype", None), "char", ""), getattr(value, "shape", None)
    if character in ("S", "O") and shape == ():
        return pack(value.item(), depth + 1)
    if isinstance(value, (Iterator, MappingView, range, deque)):  # a loop over it works in a notebook, too
        value = list(islice(value, _MOST_DRAWN))
    kind = next((kind for kind, types in _GROUPS.items() if isinstance(value, types)), None)
    if kind or (character in ("S", "O") and shape is not None):
        return {kind or "l": [pack(v, depth + 1) for v in value]}
    if character and character in _DTYPES and shape is not None:
        if shape == ():
            return {"n": [character, pack(value.item())]}
        if _too_large(shape):
            return {"o": f"an array of the shape {tuple(shape)}"[:80]}
        data = base64.b64encode(value.tobytes()).decode()
        return {"a": [character, [int(s) for s in shape], data]}
    return {"o": type(value).__name__}


_GROUPS = {"l": list, "t": tuple, "s": (set, frozenset)}


def _too_large(shape: Any) -> bool:
    numbers = math.prod(max(int(size), 1) for size in shape)
    return numbers > (_MOST_EMPTY if 0 in shape else _MOST_NUMBERS)


def has_too_many_entries(message: bytes) -> bool:
    """Tell if a message holds more lists, dicts and entries than the grader reads; commas in texts count, too."""
    return sum(message.count(mark) for mark in (b"[", b"{", b",")) > _MOST_ENTRIES


def read(message: bytes) -> dict[str, Any]:
    """Return the reply that a message holds; what it answers is still packed.

    Raises
    ------
    ValueError
        If it is no JSON, or has more entries than the grader reads.
    """
    if has_too_many_entries(message):
        raise ValueError(f"more than {_MOST_ENTRIES:,} entries")
    return json.loads(message)


def unpack(value: Any) -> Any:
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
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"a reply is not in the format of replies ({type(error).__name__})") from None


class _Unpacking:
    """Turns one message back, and counts what may be only so many times in it."""

    def __init__(self) -> None:
        self._types: dict[str, type[Opaque]] = {}
        self._alike: dict[int, list[Any]] = {}
        self._large = self._longest = self._values = 0

    def has_no_room(self) -> bool:
        """Tell whether the values, as one array of NumPy, would take more memory than the grader gives."""
        return self._longest * self._values > _MOST_ROOM

    def one(self, value: Any, inner: bool = False, depth: int = 0) -> Any:
        """Turn one value back; `inner` ones are in a set or keys of a dict, which hold frozen sets only."""
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        self._values += 1
        if isinstance(value, str):
            self._longest = max(self._longest, 4 * len(value))
        if value is None or isinstance(value, (bool, str, float)):
            return value
        if isinstance(value, int):
            return self._whole(value)
        ((kind, content),) = value.items()
        if kind in ("s", "d") and len(content) > _MOST_HASHED:
            return self.stands_for(f"a set or dict of more than {_MOST_HASHED:,} entries")
        if kind == "i":
            return self._whole(int(content[:310]))
        if kind == "f":
            return float(content)
        if kind == "b":
            back = base64.b64decode(content)
            self._longest = max(self._longest, len(back))
            return back
        if kind == "o":
            return self.stands_for(str(content)[:80].encode("utf-8", "replace").decode())
        if kind == "d":
            return {self.one(k, True, depth + 1): self.one(v, False, depth + 1) for k, v in content}
        if kind in ("l", "t", "s"):
            made = {"l": list, "t": tuple, "s": frozenset if inner else set}[kind]
            back = made(self.one(v, inner or kind == "s", depth + 1) for v in content)
            return back if kind == "l" else self._spread(back)
        import numpy as np

        character, *shape, data = content
        if len(character) != 1 or character not in _DTYPES:
            raise ValueError(f"a dtype {character!r}")
        if kind == "n":
            return np.dtype(character).type(self.one(data, depth=depth + 1))
        if kind == "a":
            (shape,) = shape
            if _too_large(shape):
                raise ValueError("an array of more numbers or rows than an answer has")
            back = np.frombuffer(base64.b64decode(data), dtype=character).reshape(shape).copy()
            self._values += back.size
            return back
        raise ValueError(kind)

    def _whole(self, value: int) -> int:
        # The hash of a whole number is what remains of it by 2**61 - 1: large ones can be chosen to agree.
        self._large += abs(value) >> 60 > 0
        if self._large > _MOST_HASHED:
            raise ValueError("too many large numbers")
        return value

    def _spread(self, value: Any) -> Any:
        """Return a value, unless many others have its hash."""
        try:
            found = self._alike.setdefault(hash(value), [value, 0])
        except TypeError:  # a set, or a tuple with a list in it
            return value
        found[1] += found[0] != value
        if found[1] > _MOST_ALIKE:
            raise ValueError("too many values of one hash")
        return value

    def stands_for(self, name: str) -> Opaque:
        """Return a value of a type of that name, so that Python's messages about it tell what it was."""
        if name not in self._types:
            self._types[name] = type(name, (Opaque,), {}) if len(self._types) < _MOST_TYPES else Opaque
        return self._types[name]()
