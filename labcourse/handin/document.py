"""The file that a student hands in: its form, its signature by content, and what is wrong with a file that is none."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

FORMAT = "labkit result 1"

#: A hand-in is small; a larger file is none.
LARGEST = 2_000_000

#: Most entries of one kind: no student makes more of them in one session.
MOST = 1000

# Control characters, and halves of a character, which no file can hold.
_UNWRITTEN = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"

# The limits are those of the page: it must be able to draw what a hand-in says.
_Text = Annotated[str, Meta(max_length=200, pattern=rf"\A[^{_UNWRITTEN}]*\Z")]
_Name = Annotated[str, Meta(max_length=200, pattern=rf"\A(?=.*\S)[^{_UNWRITTEN}]*\Z")]
_Number = Annotated[float, Meta(ge=0, le=1e12)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Figure = Annotated[list[_Number], Meta(min_length=3, max_length=3)] | None


class _Computer(Struct):
    os: _Text
    architecture: _Text
    memory: _Text
    python: _Text
    tensorflow: _Text
    cores: _Number


class _CheckedExercise(Struct):
    exercise: _Name
    status: Literal["passed", "failed", "open", "inconclusive"]
    tries: _Number


class _PredictionEntry(Struct):
    name: _Name
    unit: _Text
    value: _Number | None
    measured: _Figure
    model: _Figure


class _RunEntry(Struct):
    name: _Name
    accelerator: _Text
    origin: _Text
    busy: _Share
    images_per_s: _Number
    steps: _Number


class _SpeedupEntry(Struct):
    name: _Name
    over: _Name
    verdict: _Text
    median: Annotated[float, Meta(ge=0, le=1e6)]
    low: _Number | None
    high: _Number | None


#: What a result lists, and the form of an entry.
ENTRIES = {"exercises": _CheckedExercise, "predictions": _PredictionEntry, "runs": _RunEntry, "speedups": _SpeedupEntry}

_FORM: dict[str, Any] = {
    "labkit": _Text,
    "student": Annotated[str, Meta(pattern=r"\A([0-9a-f]{12})?\Z")],
    "created": Annotated[str, Meta(pattern=r"\A[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z\Z")],
    "machine": _Computer,
    **{what: Annotated[list[entry], Meta(max_length=MOST)] for what, entry in ENTRIES.items()},
}


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
    """Return a text with single spaces, and without the characters that no hand-in may hold."""
    return " ".join(re.sub(f"[{_UNWRITTEN}]", " ", text).split())


def fitting(what: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those entries of ``exercises``, ``predictions``, ``runs`` or ``speedups`` that `read` takes."""
    return [entry for entry in entries if _holds(ENTRIES[what], entry)][:MOST]


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the hand-in of a file, verified.

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
        held = msgspec.json.decode(path.read_bytes())  # which knows no infinite number
        signature = digest(held) if isinstance(held, dict) else ""
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is damaged: it is not JSON ({str(error)[:80]})") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise ValueError(f"{name} is no result of labcourse.submit (its format is not {FORMAT!r})")
    if held.get("digest") != signature:
        raise ValueError(f"{name} was damaged or edited: its content does not have the signature that it carries")
    for what, form in _FORM.items():
        if not _holds(form, held.get(what)):
            raise ValueError(f"{name} has a right signature, but its {what} is nothing that labcourse.submit writes")
    return held


def _holds(form: Any, value: Any) -> bool:
    """Return whether a value has a form: types are exact, but a whole number is a number, and other keys may follow."""
    try:
        msgspec.convert(value, form)
    except (msgspec.ValidationError, ValueError, OverflowError):
        return False
    return True
