"""Predict, then run: what readers commit before a measurement, beside what model and measurement say.

A prediction is worth something only if it was made first. `commit` keeps a number, `curve` several, `cause` a word; as
long as its measurement has not been seen, another commit replaces it; after `review` has shown the measurement, the
first one stays. Three dots (``...``) are no answer, and neither is what makes no sense, such as a share of 55: they
never count, and a notebook that still holds them runs to its end. Each prediction
is one small file in ``predictions`` of the lab's data folder (`labkit.photos.home`), so that `summary`
knows those of other notebooks, which run in kernels of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import EllipsisType
from typing import Any

import msgspec
from msgspec.structs import replace

from labcourse.predictions.curve_widget import CurveWidget
from labcourse.predictions.figures import UNITS, Figure, beside
from labcourse.predictions.kinds import CausePrediction, Commitment, Curve, Prediction
from labcourse.predictions.reviews import Review, Summary
from labkit.common.files import expanded, write_aside
from labkit.common.numbers import number, one_of
from labkit.sources import photos

__all__ = [
    "CausePrediction", "Commitment", "Curve", "Figure", "Review", "Summary", "cause", "commit", "curve", "forget",
    "home", "review", "summary",
]  # fmt: skip

_NAME = re.compile(r"[a-z0-9_]{1,30}\.[a-z0-9_]{1,30}")


#: What this kernel knows; other kernels' predictions are read from their files.
session: dict[str, Prediction] = {}


def home() -> Path:
    """Return the folder that keeps predictions: that in LABKIT_PREDICTIONS, else one in the lab's data folder."""
    if place := os.environ.get("LABKIT_PREDICTIONS"):
        return expanded("LABKIT_PREDICTIONS", place).absolute()
    return photos.home() / "predictions"


def commit(name: str, value: float | EllipsisType, unit: str = "times") -> Commitment:
    """Keep the number that you expect before you measure it.

    Before its measurement is shown, a new number replaces the old one. After that, the number committed first stays
    for as long as this kernel runs, and the answer says so. What is no such number is not kept, and the answer says
    why.

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
        If name or unit is none.
    """
    _check_name(name)
    return _keep(Commitment(name, None, one_of("unit", unit, UNITS)), value)


def curve(name: str, value: Any, *, at: Sequence[float], unit: str = "times", label: str = "") -> CurveWidget:
    """Keep the curve that you expect: a number for each place, typed, or dragged in the chart that is shown.

    Parameters
    ----------
    name, unit
        As in `commit`, and kept as there.
    value : sequence of float, or ...
        As many numbers as there are places.
    at : sequence of float
        The places, two or more, rising, as in ``[1, 2, 4, 8]``.
    label : str
        What the places are, as in ``calls``.

    Raises
    ------
    ValueError
        If name, places or unit is none.
    """
    _check_name(name)
    at = tuple(number("a place", one) for one in at)
    if len(at) < 2 or any(later <= one for one, later in pairwise(at)):
        raise ValueError(f"at is {list(at)!r:.60}; allowed: two numbers or more, rising")
    asked = Curve(name, None, one_of("unit", unit, UNITS), at, label)
    return CurveWidget(_keep(asked, value), lambda moved: _keep(asked, moved))


def cause(name: str, value: str | EllipsisType, *, among: Sequence[str], unit: str = "ms") -> CausePrediction:
    """Keep which of a few things you expect to be the largest, as in "which bar is the longest?".

    Parameters
    ----------
    name
        As in `commit`, and kept as there.
    value : str, or ...
        One of `among`.
    among : sequence of str
    unit : str
        Of what will be measured.

    Raises
    ------
    ValueError
        If name or unit is none, or there are no two different words to choose from.
    """
    _check_name(name)
    if isinstance(among, str) or len(set(among)) < 2 or not all(isinstance(word, str) and word for word in among):
        raise ValueError(f"among is {among!r:.60}; allowed: two different words or more")
    return _keep(CausePrediction(name, None, tuple(among), one_of("unit", unit, UNITS)), value)


def _keep(asked: Prediction, value: Any) -> Prediction:
    """Keep the answer to a question, if it is one and comes in time."""
    known = session.get(asked.name)
    before = known or _read(asked.name)
    same, refused = before is not None and before.asked == asked.asked, ""
    try:
        value = None if value is ... else asked.checked(value)
    except ValueError as error:
        value, refused = None, f"Not kept: {error}."
    if value is None and same:
        value = before.value
    if known is not None and known.measured is not None:
        if (same and known.value == value) or value is None:
            return replace(known, note=refused)
        late = f"{asked.said(value)} came after the measurement and is not kept"
        first = "This was your first number" if known.value is not None else "You gave no number in time"
        return replace(known, note=f"{first}: {late}; restart the kernel to begin anew.")
    earlier = before if known is None else None
    session[asked.name] = made = replace(asked, value=value)
    if earlier is not None and same and earlier.value == value:
        return replace(made, note=refused)  # what an earlier session measured stays in the summary until it is new
    note = ""
    if earlier is not None and earlier.measured is not None:
        _, _, measured, *_ = earlier.cells
        guess = "left open" if earlier.value is None else earlier.said(earlier.value)
        note = f"In an earlier session it was {guess}, and you saw {measured} measured."
    return replace(made, note=" ".join(filter(None, (refused, note, _write(made)))))


def review(name: str, *, measured: Any, model: Any = None) -> Review:
    """Show prediction, model and measurement side by side, and remember that the measurement has been seen.

    Nobody is told to be wrong by a measurement that does not know better: one on a busy machine, one of too few rounds,
    a time or a ratio of times without an interval, or one whose interval holds the prediction.

    Parameters
    ----------
    name : str
        A name that was committed, with an answer or with three dots.
    measured : number, sequence of numbers, Speedup, or Timeline
        Several numbers are rounds: their median, lowest and highest. A `labkit.measures.Speedup` brings its interval, a
        `labkit.Timeline` its busy share; both say what other programs took meanwhile, and so does the review.
        Of a curve: a sequence of those, one for each place, or a `labkit.measures.Measures` with a pipeline for each.
        Of a cause: a dict with a number for each word, or a Timeline, which knows fetch, prepare and train.
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
    result = known.read(measured, f"measured of {name}")
    claimed = known.model if model is None else known.read(model, f"model of {name}")
    seen = replace(known, model=claimed, measured=result, doubt=known.doubts(measured), note="")
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


def _write(p: Prediction) -> str:
    """Write the file of a prediction, aside and renamed; return a sentence where the disk refuses, else nothing."""
    try:
        write_aside(_path(p.name), msgspec.json.encode(p).decode())
    except OSError as error:
        return f"It is kept in this kernel only: {home()} cannot be written ({error.strerror})."
    return ""


def _read(name: str) -> Prediction | None:
    """Return what the file holds; None where there is none, or it is damaged."""
    try:
        kept = msgspec.json.decode(_path(name).read_bytes(), type=Prediction)
        if kept.value is not None:
            kept.checked(kept.value)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return kept if kept.name == name else None


def _all() -> tuple[list[Prediction], int]:
    """Return every prediction, this kernel's before a file's, and how many files could not be read."""
    found, damaged = dict(session), 0
    for path in sorted(home().glob("*.json")):
        name = path.stem
        kept, mine = _read(name), found.get(name)
        damaged += kept is None
        # A number committed anew, not measured yet, does not hide what an earlier session measured of the same.
        same = kept is not None and mine is not None and kept.asked == mine.asked and kept.value == mine.value
        if kept is not None and (mine is None or (same and mine.measured is None)):
            found[name] = kept
    return sorted(found.values(), key=lambda p: p.name), damaged


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        form = "notebook and quantity with a dot between, small letters, digits and _, as in '02.gain'"
        raise ValueError(f"the name of a prediction is {name!r}; allowed: {form}")
