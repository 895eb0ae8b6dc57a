"""What a student's process and the grader say to each other: JSON texts, data and nothing else.

Never pickle: what comes from a student's process is read by code that must not run anything for it. Numbers, text,
bytes, lists, tuples, sets, dicts, and NumPy arrays of plain numbers go through, fractions and decimals as the nearest
float, generators and their like as lists; the rest becomes the name of its type.
"""

from __future__ import annotations

import base64
import functools
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
#: Entries of a set or a dict: their hashes may be chosen so that each new one is compared with all before it.
_MOST_HASHED = 1_000
_DTYPES = "?bBhHiIlLqQefd"


class Opaque:
    """Stands for something that is no plain data: only the name of its type came through."""

    def __repr__(self) -> str:
        """Return the name of the type in angle brackets."""
        return f"<{type(self).__name__}>"


@functools.lru_cache(1000)
def _opaque_type(name: str) -> type[Opaque]:
    """Return a type of that name, so that Python's messages about its values tell what they were."""
    return type(name, (Opaque,), {})


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
        data = base64.b64encode(value.tobytes()).decode()
        return {"a": [character, [int(s) for s in shape], data]}
    return {"o": type(value).__name__}


_GROUPS = {"l": list, "t": tuple, "s": (set, frozenset)}


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
    if value is None or isinstance(value, (bool, str, float, int)):
        return value
    ((kind, content),) = value.items()
    if kind in ("s", "d") and len(content) > _MOST_HASHED:
        return _opaque_type(f"a set or dict of more than {_MOST_HASHED:,} entries")()
    if kind == "i":
        return int(content[:310])
    if kind == "f":
        return float(content)
    if kind == "b":
        return base64.b64decode(content)
    if kind == "o":
        return _opaque_type(str(content)[:80].encode("utf-8", "replace").decode())()
    if kind == "d":
        return {_unpack(k, inner=True): _unpack(v) for k, v in content}
    if kind in ("l", "t", "s"):
        made = {"l": list, "t": tuple, "s": frozenset if inner else set}[kind]
        return made(_unpack(v, inner or kind == "s") for v in content)
    import numpy as np

    character, *shape, data = content
    if len(character) != 1 or character not in _DTYPES:
        raise ValueError(f"a dtype {character!r}")
    if kind == "n":
        return np.dtype(character).type(_unpack(data))
    if kind == "a":
        (shape,) = shape
        if math.prod(max(int(size), 1) for size in shape) > MOST_BYTES:  # a side of length 0 needs no bytes at all
            raise ValueError("an array of more elements than bytes in a message")
        return np.frombuffer(base64.b64decode(data), dtype=character).reshape(shape).copy()
    raise ValueError(kind)
