"""What a student's process and the grader say to each other: one JSON text a line, data and nothing else.

Never pickle: what comes from a student's process is read by code that must not run anything for it. Numbers, text,
bytes, lists, tuples, sets, dicts, and NumPy arrays of plain numbers go through, fractions and decimals as the nearest
float, generators and their like as lists; the rest becomes the name of its type.
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

#: A reply may be so long; the largest array of the problem sets is a hundredth of it.
MOST_BYTES = 16 << 20
#: A generator may have no end.
_MOST_DRAWN = 100_000
_DTYPES = "?bBhHiIlLqQefd"


class Opaque:
    """Stands for something that is no plain data: only the name of its type came through."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        """Return the name of the type in angle brackets."""
        return f"<{self.type_name}>"


def _opaque(type_name: str) -> Opaque:
    """Return a stand-in whose own type has the name, so that Python's messages about it tell what it was."""
    return type(type_name, (Opaque,), {})(type_name)


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
    if isinstance(value, (list, tuple)):
        return {"l" if isinstance(value, list) else "t": [pack(v, depth + 1) for v in value]}
    if isinstance(value, (set, frozenset)):
        return {"s": [pack(v, depth + 1) for v in value]}
    if isinstance(value, dict):
        return {"d": [[pack(k, depth + 1), pack(v, depth + 1)] for k, v in value.items()]}
    if isinstance(value, (Iterator, MappingView, range, deque)):  # a loop over it works in a notebook, too
        return {"l": [pack(v, depth + 1) for v in islice(value, _MOST_DRAWN)]}
    if callable(getattr(value, "numpy", None)) and hasattr(value, "dtype"):
        value = value.numpy()  # an eager tensor
        if isinstance(value, (bytes, str)):
            return pack(value, depth + 1)
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if getattr(dtype, "char", "") in ("S", "O") and shape is not None:
        return {"l": [pack(v, depth + 1) for v in value]} if shape else pack(value.item(), depth + 1)
    if dtype is not None and shape is not None and getattr(dtype, "char", "") in _DTYPES and dtype.char:
        if shape == ():
            return {"n": [dtype.char, pack(value.item())]}
        data = base64.b64encode(value.tobytes()).decode()
        return {"a": [dtype.char, [int(s) for s in shape], data]}
    return {"o": type(value).__name__}


def unpack(value: Any) -> Any:
    """Turn back what `pack` made.

    Raises
    ------
    ValueError
        If it is nothing that `pack` makes: the other side has been tampered with.
    """
    try:
        return _unpack(value)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"a reply is not in the format of replies ({type(error).__name__})") from None


def _unpack(value: Any, inner: bool = False) -> Any:
    """Turn one value back; `inner` ones are in a set or keys of a dict, which hold frozen sets only."""
    if value is None or isinstance(value, (bool, str, float)):
        return value
    if isinstance(value, int):
        return value
    ((kind, content),) = value.items()
    if kind == "i":
        return int(content[:310])
    if kind == "f":
        return float(content)
    if kind == "b":
        return base64.b64decode(content)
    if kind == "o":
        return _opaque(str(content)[:80].encode("utf-8", "replace").decode())
    if kind == "d":
        return {_unpack(k, inner=True): _unpack(v) for k, v in content}
    if kind in "lts":
        made = {"l": list, "t": tuple, "s": frozenset if inner else set}[kind]
        return made(_unpack(v, inner or kind == "s") for v in content)
    import numpy as np

    if kind == "n":
        char, number = content
        return np.dtype(char if char in _DTYPES else "?").type(_unpack(number))
    if kind == "a":
        char, shape, data = content
        if len(char) != 1 or char not in _DTYPES:
            raise ValueError(char)
        return np.frombuffer(base64.b64decode(data), dtype=char).reshape([int(s) for s in shape]).copy()
    raise ValueError(kind)


def line(message: Any) -> bytes:
    """Return a message as the bytes of one line."""
    return json.dumps(message).encode() + b"\n"
