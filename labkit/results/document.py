"""The file of a result: its form, its signature by content, and the sentences about what is wrong with one."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMAT = "labkit result 1"

#: A result is small; a larger file is none.
LARGEST = 2_000_000

_STATUSES = ("passed", "failed", "open", "inconclusive")


def canonical(document: dict[str, Any]) -> bytes:
    """Return the bytes that are signed: all but ``digest``, keys sorted, no spaces, ASCII, no NaN.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    content = {key: value for key, value in document.items() if key != "digest"}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def digest(document: dict[str, Any]) -> str:
    """Return the signature of a document by its content: SHA-256 of `canonical`, 64 hexadecimal digits.

    It tells damage and careless edits, and not forgery: it holds no secret.
    """
    return hashlib.sha256(canonical(document)).hexdigest()


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the result that a file holds, verified.

    Raises
    ------
    ValueError
        In one sentence: if the file is no result, is damaged, was edited, or says what a result cannot say.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes; a result has {LARGEST:,} at most")
    try:
        held = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged: it is not JSON ({str(error)[:80]})") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise ValueError(f"{path.name} is no result of labkit.submit (its format is not {FORMAT!r})")
    if not isinstance(held.get("digest"), str) or held["digest"] != digest(held):
        raise ValueError(f"{path.name} was damaged or edited: its content does not have the signature that it carries")
    for what, good in _RULES.items():
        if what not in held or not _holds(good, held[what]):
            raise ValueError(f"{path.name} has a right signature, but its {what} is nothing that labkit.submit writes")
    return held


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


# -- the form --------------------------------------------------------------------------------


def _holds(good: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(good(value))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return False


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200


def _number(value: Any, most: float = math.inf) -> bool:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return real and math.isfinite(float(value)) and 0 <= value <= most


def _figure(value: Any) -> bool:
    return value is None or (isinstance(value, list) and len(value) == 3 and all(map(_number, value)))


def _run(r: dict[str, Any]) -> bool:
    words = all(_text(r[k]) for k in ("name", "accelerator", "origin"))
    return words and _number(r["busy"], 1) and _number(r["images_per_s"]) and _number(r["steps"])


def _speedup(s: dict[str, Any]) -> bool:
    ends = all(s[k] is None or _number(s[k]) for k in ("low", "high"))
    return ends and all(_text(s[k]) for k in ("name", "over", "verdict")) and _number(s["median"])


def _prediction(p: dict[str, Any]) -> bool:
    return (
        _text(p["name"]) and _text(p["unit"]) and _number(p["value"]) and _figure(p["measured"]) and _figure(p["model"])
    )


def _exercise(e: dict[str, Any]) -> bool:
    return _text(e["exercise"]) and e["status"] in _STATUSES and _number(e["tries"])


_MACHINE = ("os", "architecture", "memory", "python", "tensorflow")

_RULES: dict[str, Callable[[Any], bool]] = {
    "labkit": _text,
    "student": lambda v: v == "" or (len(v) == 12 and set(v) <= set("0123456789abcdef")),
    "created": lambda v: _text(v) and len(v) == 20 and v.endswith("Z"),
    "machine": lambda v: all(_text(v[k]) for k in _MACHINE) and _number(v["cores"]),
    "exercises": lambda v: isinstance(v, list) and all(map(_exercise, v)),
    "predictions": lambda v: isinstance(v, list) and all(map(_prediction, v)),
    "runs": lambda v: isinstance(v, list) and all(map(_run, v)),
    "speedups": lambda v: isinstance(v, list) and all(map(_speedup, v)),
}
