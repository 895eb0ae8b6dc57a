"""The file of a result: its form, its signature by content, and the sentences about what is wrong with one."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMAT = "labkit result 1"

#: A result is small; a larger file is none.
LARGEST = 2_000_000

#: Entries of one kind: more are nobody's work of one session.
MOST = 1000

#: Letters of a text, and the largest number: the page must be able to draw what a result says.
_LONGEST, _LIMIT = 200, 1e12

#: A larger speed-up is none.
_FASTEST = 1e6

# Control characters, and halves of a character, which no file can hold.
_UNWRITTEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

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


def shown(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for a page or a terminal, which cannot take every byte that a name may have."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in Path(path).name)


def cleaned(text: str) -> str:
    """Return a text with single spaces, and without what no result may hold."""
    return " ".join(_UNWRITTEN.sub(" ", text).split())


def fitting(what: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those entries of ``exercises``, ``predictions``, ``runs`` or ``speedups`` that `read` takes."""
    return [entry for entry in entries if _holds(_ENTRIES[what], entry)][:MOST]


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the result that a file holds, verified.

    Raises
    ------
    ValueError
        In one sentence: if the file is no result, is damaged, was edited, or says what a result cannot say.
    OSError
        If it cannot be read.
    """
    path, name = Path(path), shown(path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{name} has {path.stat().st_size:,} bytes; a result has {LARGEST:,} at most")
    try:
        held = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is damaged: it is not JSON ({str(error)[:80]})") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise ValueError(f"{name} is no result of labkit.submit (its format is not {FORMAT!r})")
    try:
        signature = digest(held)
    except (ValueError, RecursionError):
        raise ValueError(f"{name} holds an infinite number, or lists too deep: labkit.submit writes neither") from None
    if held.get("digest") != signature:
        raise ValueError(f"{name} was damaged or edited: its content does not have the signature that it carries")
    for what, good in _RULES.items():
        if what not in held or not _holds(good, held[what]):
            raise ValueError(f"{name} has a right signature, but its {what} is nothing that labkit.submit writes")
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
    return isinstance(value, str) and len(value) <= _LONGEST and not _UNWRITTEN.search(value)


def _name(value: Any) -> bool:
    return _text(value) and bool(value.strip())


def _number(value: Any, most: float = _LIMIT) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def _figure(value: Any) -> bool:
    return value is None or (isinstance(value, list) and len(value) == 3 and all(map(_number, value)))


def _run(r: dict[str, Any]) -> bool:
    words = _name(r["name"]) and all(_text(r[k]) for k in ("accelerator", "origin"))
    return words and _number(r["busy"], 1) and _number(r["images_per_s"]) and _number(r["steps"])


def _speedup(s: dict[str, Any]) -> bool:
    ends = all(s[k] is None or _number(s[k]) for k in ("low", "high"))
    return ends and _name(s["name"]) and _name(s["over"]) and _text(s["verdict"]) and _number(s["median"], _FASTEST)


def _prediction(p: dict[str, Any]) -> bool:
    return (
        _name(p["name"]) and _text(p["unit"]) and _number(p["value"]) and _figure(p["measured"]) and _figure(p["model"])
    )


def _exercise(e: dict[str, Any]) -> bool:
    return _name(e["exercise"]) and e["status"] in _STATUSES and _number(e["tries"])


_MACHINE = ("os", "architecture", "memory", "python", "tensorflow")

_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "exercises": _exercise,
    "predictions": _prediction,
    "runs": _run,
    "speedups": _speedup,
}


def _entries(what: str) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list) and len(v) <= MOST and all(map(_ENTRIES[what], v))


_RULES: dict[str, Callable[[Any], bool]] = {
    "labkit": _text,
    "student": lambda v: re.fullmatch("([0-9a-f]{12})?", v) is not None,
    "created": lambda v: re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", v) is not None,
    "machine": lambda v: all(_text(v[k]) for k in _MACHINE) and _number(v["cores"]),
    **{what: _entries(what) for what in _ENTRIES},
}
