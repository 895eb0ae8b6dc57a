"""What a reader answered on the pages of the course, taken up where the notebooks keep it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from labcourse import gradebook, predictions
from labcourse.predictions.kinds import CausePrediction, Commitment, Curve, Prediction
from labcourse.readings import READINGS
from labkit.common.table import Table

_KEEP = {Commitment: predictions.commit, Curve: predictions.curve, CausePrediction: predictions.cause}


class _PageAnswers(Struct):
    """The file that a page writes: predictions by name, as their own files have them; answers by reading and part."""

    format: Literal["labkit page 1"]
    predictions: dict[str, Prediction]
    readings: dict[str, dict[str, Any]]


def take_up(path: str | os.PathLike[str]) -> Table:
    """Take up the predictions and readings that *Export* on a page of the course has written.

    A prediction is kept as `labcourse.predictions.commit` keeps one: where its measurement was seen in this session,
    the first stays. A reading is checked anew, and only a right one counts as solved.

    Parameters
    ----------
    path : path

    Returns
    -------
    labkit.common.table.Table
        What became of each.

    Raises
    ------
    ValueError
        If it is no such file, or asks for what the course does not know.
    OSError
        If it cannot be read.
    """
    try:
        page = msgspec.json.decode(Path(path).read_bytes(), type=_PageAnswers)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no file of a page ({error}); allowed: what Export on a page writes") from None
    rows = []
    for one in page.predictions.values():
        asked = {name: getattr(one, name) for name in ("unit", "at", "label", "among") if hasattr(one, name)}
        rows.append((one.name, str(_KEEP[type(one)](one.name, ... if one.value is None else one.value, **asked))))
    for number, answer in page.readings.items():
        found = gradebook.check(number, answer.get("", answer)) if number in READINGS else "no reading: left out"
        rows.append((number, str(found)))
    return Table(("answered", "what became of it"), rows)
