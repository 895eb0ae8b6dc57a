"""One result: what the session did, as a document and as a file."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import astuple
from pathlib import Path
from typing import Any

from labkit import journal, predictions, variants
from labkit.results.document import FORMAT, digest
from labkit.results.machine import fingerprint
from labkit.trace import write_aside

_NAME = 60


def collect(student_id: str | None = None, course: str = "") -> dict[str, Any]:
    """Return the result of this session as a signed document.

    Parameters
    ----------
    student_id : str, optional
        Kept as a pseudonym only (`labkit.variants.pseudonym`); without one the result is anonymous.
    course : str
        The word that the instructor gave out for the course.

    Returns
    -------
    dict
        ``format``, ``labkit``, ``student``, ``created`` (UTC), ``machine``, ``exercises``, ``predictions``, ``runs``,
        ``speedups`` and ``digest``; JSON-ready.

    Raises
    ------
    ValueError
        If the id is given and is no text, or empty.
    """
    from labkit import __version__

    seen = journal.session
    document: dict[str, Any] = {
        "format": FORMAT,
        "labkit": __version__,
        "student": "" if student_id is None else variants.pseudonym(student_id, course),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": fingerprint(),
        "exercises": [{"exercise": k, **v} for k, v in sorted(seen.exercises.items())],
        "predictions": [
            {"name": p.name, "value": p.value, "unit": p.unit, "measured": _three(p.measured), "model": _three(p.model)}
            for p in predictions.summary().predictions
        ],
        "runs": [{"name": _plain(k), **v} for k, v in seen.runs.items()],
        "speedups": [{"name": _plain(n), "over": _plain(o), **v} for (n, o), v in seen.speedups.items()],
    }
    return {**document, "digest": digest(document)}


def submit(
    student_id: str | None = None, *, course: str = "", folder: str | os.PathLike[str] = ".", quiet: bool = False
) -> Path:
    """Write the result of this session, as one JSON file to hand in.

    Parameters
    ----------
    student_id, course
        As in `collect`.
    folder : path
        Where the file goes; it is made if it is not there. Its name is ``result-`` with pseudonym and signature.
    quiet : bool
        Print nothing.

    Returns
    -------
    Path
        The file; it is written aside and renamed, so there is never half of one.

    Raises
    ------
    ValueError
        As `collect`.
    OSError
        If the folder cannot be written.
    """
    document = collect(student_id, course)
    who = document["student"] or "anonymous"
    path = Path(folder) / f"result-{who}-{document['digest'][:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
    if not quiet:
        passed = sum(e["status"] == "passed" for e in document["exercises"])
        measured = sum(p["measured"] is not None for p in document["predictions"])
        print(
            f"{path.name}: {passed} of {len(document['exercises'])} checked exercises passed, {measured} predictions "
            f"measured, {len(document['runs'])} runs, {len(document['speedups'])} speed-ups. It holds no name of yours."
        )
    return path


def _three(figure: Any) -> list[float] | None:
    return None if figure is None else [float(v) for v in astuple(figure)]


def _plain(name: str) -> str:
    """Return the name of a run without what looks like a path or an address, which may name a person."""
    words = ["…" if re.search(r"[/\\@]", word) else word for word in name.split()]
    return " ".join(words)[:_NAME] or "unnamed"
