"""Predict, then run: numbers that readers commit before a measurement, beside those of model and measurement.

A prediction is worth something only if it was made first. `commit` keeps a number; as long as its measurement has not
been seen, another commit replaces it; after `review` has shown the measurement, the first one stays. Three dots
(``...``) are no number: they never count, and a notebook that still holds them runs to its end. Each prediction
is one small file in ``predictions`` of the lab's data folder (`labkit.photos.home`), so that `summary`
knows those of other notebooks, which run in kernels of their own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import EllipsisType
from typing import Any

import msgspec
from msgspec.structs import replace

from labcourse.predictions.figures import UNITS, Commitment, Figure, beside, check_number, figure, number, unit_word
from labcourse.predictions.reviews import Review, Summary
from labkit.common.files import expanded, write_aside
from labkit.common.numbers import one_of
from labkit.sources import photos

__all__ = ["Commitment", "Figure", "Review", "Summary", "commit", "forget", "home", "review", "summary"]

_NAME = re.compile(r"[a-z0-9_]{1,30}\.[a-z0-9_]{1,30}")


#: What this kernel knows; other kernels' predictions are read from their files.
session: dict[str, Commitment] = {}


def home() -> Path:
    """Return the folder that keeps predictions: that in LABKIT_PREDICTIONS, else one in the lab's data folder."""
    if place := os.environ.get("LABKIT_PREDICTIONS"):
        return expanded("LABKIT_PREDICTIONS", place).absolute()
    return photos.home() / "predictions"


def commit(name: str, value: float | EllipsisType, unit: str = "times") -> Commitment:
    """Keep the number that you expect before you measure it.

    Before its measurement is shown, a new number replaces the old one. After that, the number committed first stays
    for as long as this kernel runs, and the answer says so.

    Parameters
    ----------
    name : str
        Notebook and quantity with a dot between, as in ``02.gain``: small letters, digits and ``_``.
    value : float, or ...
        0 or more. Three dots commit nothing; a number that was given before stays.
    unit : str
        One of `UNITS`. A share is a number from 0 to 1.

    Raises
    ------
    ValueError
        If name, value or unit is none.
    """
    _check_name(name)
    one_of("unit", unit, UNITS)
    known = session.get(name)
    before = known or _read(name)
    if value is ...:
        value = before.value if before is not None and before.unit == unit else None
    else:
        value = check_number(value, f"the prediction {name}", unit)
    if known is not None and known.measured is not None:
        if (known.value, known.unit) == (value, unit):
            return replace(known, note="")
        late = f"{number(value, unit)} {unit_word(unit)} came after the measurement and is not kept"
        first = "This was your first number" if known.value is not None else "You gave no number in time"
        return replace(known, note=f"{first}: {late}; restart the kernel to begin anew.")
    earlier = before if known is None else None
    session[name] = made = Commitment(name, value, unit)
    if earlier is not None and (earlier.value, earlier.unit) == (value, unit):
        return made  # what was measured in an earlier session stays in the summary until it is measured anew
    note = ""
    if earlier is not None and earlier.measured is not None:
        guess = earlier.figures[0].words(earlier.unit) if earlier.figures[0] else "left open"
        note = f"In an earlier session it was {guess}, and you saw {earlier.measured.words(earlier.unit)} measured."
    return replace(made, note=f"{note} {_write(made)}".strip())


def review(name: str, *, measured: Any, model: Any = None) -> Review:
    """Show prediction, model and measurement side by side, and remember that the measurement has been seen.

    Parameters
    ----------
    name : str
        A name that was committed, with a number or with three dots.
    measured : number, sequence of numbers, Speedup, or Timeline
        Several numbers are rounds: their median, lowest and highest. A `labkit.measures.Speedup` brings its interval, a
        `labkit.Timeline` its busy share; both say what other programs took meanwhile, and so does the review.
    model : the same, optional
        What the formula or the simulation says.

    Returns
    -------
    Review
        A picture with its text equivalent.

    Raises
    ------
    ValueError
        If nothing was committed under this name, or something is no number of its unit.
    """
    _check_name(name)
    known = session.get(name) or _read(name)
    if known is None:
        raise _unknown(name, " (run the cell with predictions.commit first)")
    result = figure(measured, f"measured of {name}", known.unit)
    claimed = known.model if model is None else figure(model, f"model of {name}", known.unit)
    seen = replace(known, model=claimed, measured=result, note="")
    session[name] = seen
    failure = _write(seen)
    return Review(replace(seen, note=f"{beside(measured)} {failure}".strip()))


def summary() -> Summary:
    """Return all predictions of all notebooks that keep their data here, in the order of their names."""
    return Summary(*_all())


def forget(name: str | None = None) -> int:
    """Delete one prediction, or all, from this kernel and from the disk; return how many there were.

    Raises
    ------
    ValueError
        If `name` is given and was never committed.
    """
    chosen = [p.name for p in _all()[0]]
    if name is not None:
        _check_name(name)
        if name not in chosen:
            raise _unknown(name)
        chosen = [name]
    for one in chosen:
        session.pop(one, None)
        _path(one).unlink(missing_ok=True)
    return len(chosen)


def _unknown(name: str, more: str = "") -> ValueError:
    known = ", ".join(p.name for p in _all()[0]) or "none yet"
    return ValueError(f"no prediction is called {name!r}; committed: {known}{more}")


# -- files -------------------------------------------------------------------------------


def _path(name: str) -> Path:
    return home() / f"{name}.json"


def _write(p: Commitment) -> str:
    """Write the file of a prediction, aside and renamed; return a sentence where the disk refuses, else nothing."""
    try:
        write_aside(_path(p.name), msgspec.json.encode(p).decode())
    except OSError as error:
        return f"It is kept in this kernel only: {home()} cannot be written ({error.strerror})."
    return ""


def _read(name: str) -> Commitment | None:
    """Return what the file holds; None where there is none, or it is damaged."""
    try:
        kept = msgspec.json.decode(_path(name).read_bytes(), type=Commitment)
        if kept.value is not None:
            check_number(kept.value, name, kept.unit)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return kept if kept.name == name else None


def _all() -> tuple[list[Commitment], int]:
    """Return every prediction, this kernel's before a file's, and how many files could not be read."""
    found, damaged = dict(session), 0
    for path in sorted(home().glob("*.json")):
        name = path.stem
        if not _NAME.fullmatch(name):
            continue
        kept, mine = _read(name), found.get(name)
        damaged += kept is None
        # A number committed anew, not measured yet, does not hide what an earlier session measured of the same.
        same = kept is not None and mine is not None and (kept.value, kept.unit) == (mine.value, mine.unit)
        if kept is not None and (mine is None or (same and mine.measured is None)):
            found[name] = kept
    return sorted(found.values(), key=lambda p: p.name), damaged


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        form = "notebook and quantity with a dot between, small letters, digits and _, as in '02.gain'"
        raise ValueError(f"the name of a prediction is {name!r}; allowed: {form}")
