"""One hand-in: what the session did, as a document and as a file."""

from __future__ import annotations

import getpass
import importlib.metadata
import json
import math
import os
import platform
import re
import socket
import time
import unicodedata
from pathlib import Path
from typing import Any

from labcourse import gradebook, predictions, variants
from labcourse.handin.document import FORMAT, cleaned, digest, fitting
from labkit.common.environment import cores
from labkit.common.files import write_aside

_NAME = 60

#: From so many letters on a name is hidden inside longer words, too: "jane" in "janes-run".
_TELLING = 4


def collect(student_id: str | None = None, course: str = "") -> dict[str, Any]:
    """Return the work of this session as a signed document.

    Parameters
    ----------
    student_id : str, optional
        Kept as a pseudonym only (`labcourse.variants.pseudonym`); without one the hand-in is anonymous. Names of runs,
        accelerators and predictions come without it, and without paths, addresses and the names of host and account.
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

    student = "" if student_id is None else variants.pseudonym(student_id, course)
    document: dict[str, Any] = {
        "format": FORMAT,
        "labkit": __version__,
        "student": student,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": fingerprint(),
        **{what: fitting(what, entries) for what, entries in _entries(_secrets(student_id or "")).items()},
    }
    return {**document, "digest": digest(document)}


def _entries(secrets: re.Pattern[str]) -> dict[str, list[dict[str, Any]]]:
    """Return what the session did, names without what `secrets` finds."""
    seen = gradebook.session

    def plain(name: str, empty: str = "unnamed") -> str:
        return _plain(name, secrets) or empty

    return {
        "exercises": [{"exercise": k, **v} for k, v in sorted(seen.exercises.items())],
        "predictions": [
            {
                # The number of a notebook stays: a class compares by it, and a student's id may be as short.
                "name": ".".join(w if re.fullmatch(r"\d\d", w) else plain(w) for w in p.name.split(".")),
                "value": p.value,
                "unit": p.unit,
                "measured": p.measured and list(p.measured),
                "model": p.model and list(p.model),
            }
            for known in predictions.summary().predictions
            for p in known.points
        ],
        "runs": [{"name": plain(k), **v, "accelerator": plain(v["accelerator"], "")} for k, v in seen.runs.items()],
        "speedups": [{"name": plain(n), "over": plain(o), **v} for (n, o), v in seen.speedups.items()],
    }


def submit(
    student_id: str | None = None, *, course: str = "", folder: str | os.PathLike[str] = ".", quiet: bool = False
) -> Path:
    """Write the work of this session as one JSON file to hand in.

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
    student = document["student"] or "anonymous"
    path = Path(folder) / f"result-{student}-{document['digest'][:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
    if not quiet:
        found = _entries(_secrets(""))
        missing = sum(len(found[what]) - len(document[what]) for what in found)
        more = f" Left out, as no hand-in holds such numbers or so many: {missing}." if missing else ""
        passed = sum(e["status"] == "passed" for e in document["exercises"])
        measured = sum(None not in (p["value"], p["measured"]) for p in document["predictions"])
        print(
            f"{path.name}: {passed} of {len(document['exercises'])} checked exercises passed, {measured} predictions "
            f"measured, {len(document['runs'])} runs, {len(document['speedups'])} speed-ups. It keeps no id of yours, "
            f"but the names that you gave to runs, accelerators and predictions.{more}"
        )
    return path


# -- the computer -----------------------------------------------------------------------------


def fingerprint() -> dict[str, Any]:
    """Return system, cores, a class of memory, and versions; no name of a user, a host or a folder.

    Returns
    -------
    dict
        ``os``, ``architecture``, ``cores``, ``memory`` (such as "16 to 32 GB"), ``python``, ``tensorflow`` ("" where
        it is not installed), ``colab``.
    """
    import psutil

    installed = importlib.metadata.packages_distributions()  # TensorFlow comes under several names
    return {
        "os": platform.system(),
        "architecture": platform.machine(),
        "cores": cores(),
        "memory": memory_class(psutil.virtual_memory().total),
        "python": platform.python_version(),
        "tensorflow": next(map(importlib.metadata.version, installed.get("tensorflow", [])), ""),
        "colab": bool(os.environ.get("COLAB_RELEASE_TAG")),
    }


def memory_class(size: int) -> str:
    """Return the powers of two between which a number of bytes lies, in GB (10^9 bytes).

    >>> memory_class(12_700_000_000), memory_class(500_000_000)
    ('8 to 16 GB', 'below 1 GB')
    """
    if size < 10**9:
        return "below 1 GB"
    low = 2 ** int(math.log2(size / 10**9))
    return f"{low} to {2 * low} GB"


# -- names ------------------------------------------------------------------------------------


def _plain(name: str, secrets: re.Pattern[str]) -> str:
    """Return a name that a student gave without the words that may name a person, a machine or a folder."""
    return secrets.sub("…", cleaned(unicodedata.normalize("NFC", name)))[:_NAME].strip()


def _secrets(student_id: str) -> re.Pattern[str]:
    """Return what finds words with paths, addresses, and names of this host, this account, its person, the student."""
    host, home = socket.gethostname(), os.path.expanduser("~")
    names = {student_id, host, host.partition(".")[0], Path(home).name}
    try:
        names.add(getpass.getuser())
    except (OSError, KeyError, ImportError):  # an account without a name, in a container
        pass
    try:
        import pwd

        names.update(re.findall(r"\w+", pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0]))
    except (ImportError, KeyError):  # Windows keeps the full name elsewhere
        pass
    texts = {cleaned(unicodedata.normalize("NFC", name)) for name in names}
    # One letter identifies nobody. A short name is hidden only as a whole word: else "vm" would hide half of a name.
    word = r"(?<![^\W_]){}(?![^\W_])"
    found = [(re.escape(t) if len(t) >= _TELLING else word.format(re.escape(t))) for t in texts if len(t) > 1]
    secret = "|".join([r"[/\\@]", *found])
    return re.compile(rf"\S*({secret})\S*", re.IGNORECASE)
