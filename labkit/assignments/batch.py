"""A folder of submissions becomes one table: collected, put in order, run, entered into the gradebook.

Two layouts are taken: nbgrader's own, ``<student>/<set>/<anything>.ipynb``, and a flat one as learning platforms hand
out, ``<student>_<set>.ipynb``. Each submission is a batch of its own: whatever it does, the next one is graded.
Submissions that can be run are in nbgrader's gradebook afterwards; what is missing, unreadable or of another set stands
in the table only.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.assignments import confine
from labkit.assignments.authoring import POINTS, exercise
from labkit.assignments.course import Course
from labkit.assignments.judge import Judged, judge
from labkit.assignments.precheck import MOST_BYTES, Checked, precheck
from labkit.assignments.sandbox import Limits, readable
from labkit.trace import write_aside

#: What a row may say; only the first two were graded to the end.
STATUSES = ("graded", "repaired", "stopped", "missing", "unreadable", "wrong set", "error")
_STUDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass
class Row:
    """One submission in the table.

    Parameters
    ----------
    student, set_name, file : str
    status : str
        One of `STATUSES`.
    scores : dict of str to float
        Points of each exercise, as ``{"1.1": 20.0}``.
    sentence : str
        For the instructor: what was found, mended, stopped; which tests fail.
    """

    student: str
    set_name: str
    file: str
    status: str
    scores: dict[str, float] = field(default_factory=dict)
    sentence: str = ""

    @property
    def total(self) -> float:
        """Sum of the scores."""
        return sum(self.scores.values())


def collect(folder: Path, sets: tuple[str, ...]) -> list[tuple[str, str, list[Path]]]:
    """Return ``(student, set, files)`` of every submission in a folder.

    An empty folder of a set is a submission without files. A file whose name tells no set stands under the set ``""``.

    Raises
    ------
    ValueError
        If the folder is not there, or holds nothing to grade.
    """
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is no folder; allowed: a folder of <student>/<set>/*.ipynb or <student>_<set>.ipynb"
        )
    found: dict[tuple[str, str], list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            within = [inner for inner in sorted(entry.iterdir()) if not inner.name.startswith(".")]
            for inner in within:
                if inner.is_dir() and not inner.is_symlink():
                    name = inner.name if inner.name in sets else ""
                    files = sorted(f for f in inner.rglob("*") if _notebook(f) and not _hidden(f, inner))
                elif _notebook(inner) or inner.is_symlink():
                    name, files = next((s for s in sets if s in inner.name), ""), [inner]
                else:
                    continue
                if files or name:
                    found.setdefault((entry.name, name), []).extend(files)
            if not any(student == entry.name for student, _ in found):
                found[entry.name, ""] = []
        elif _notebook(entry) or entry.is_symlink():
            name = next((s for s in sets if entry.stem.endswith(f"_{s}")), "")
            student = entry.stem.removesuffix(f"_{name}") if name else entry.stem
            found.setdefault((student, name), []).append(entry)
    if not found:
        raise ValueError(f"{folder} holds no submissions; allowed: <student>/<set>/*.ipynb or <student>_<set>.ipynb")
    return [(student, name, files) for (student, name), files in sorted(found.items())]


def _notebook(path: Path) -> bool:
    return path.suffix.lower() == ".ipynb"


def _hidden(path: Path, above: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(above).parts)


def grade(
    folder: Path,
    course: Course,
    limits: Limits | None = None,
    workers: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Grade a folder of submissions; one row each, in the order of students and sets.

    Parameters
    ----------
    folder : Path
        See `collect`. Nothing in it is changed.
    course : Course
        Released: the sets must be in its gradebook.
    limits : Limits, optional
        For each submission.
    workers : int
        Submissions that run at the same time.
    report : callable
        Called with a line about each submission, and about what the system does not limit.

    Raises
    ------
    ValueError
        If the folder is no folder of submissions, or `workers` is below 1.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; allowed: 1 or more")
    folder = Path(folder).resolve()
    jobs = collect(folder, tuple(course.files))
    sources, forbidden, api = course.notebooks(), course.forbidden(folder), course.api()
    rows, walls = [], {}

    def run(job: tuple[str, str, list[Path]]) -> tuple[Row, Checked | None, Judged | None]:
        student, name, files = job
        row = Row(
            readable(student, 200), name, readable(", ".join(str(f.relative_to(folder)) for f in files), 500), "error"
        )
        try:
            return _one(row, files, sources, forbidden, limits)
        except Exception as error:  # a fault of the grader, never of the batch
            row.sentence = readable(f"The grader failed ({type(error).__name__}: {error}): grade it by hand.", 500)
            return row, None, None

    with ThreadPoolExecutor(workers) as pool:
        for row, checked, judged in pool.map(run, jobs):
            if judged is not None:
                walls |= judged.walls
                _enter(row, checked, judged, course, api)
            for number in _exercises(sources[row.set_name]) if row.set_name in sources else ():
                row.scores.setdefault(number, 0.0)
            rows.append(row)
            report(f"{row.student} {row.set_name}: {row.total:g} ({row.status})")
    missing = [confine.MISSING[name] for name, stands in walls.items() if not stands]
    for sentence in missing or ["everything that can be limited was: see labkit.assignments.confine"] * bool(walls):
        report(f"on this machine: {sentence}")
    return rows


def _one(
    row: Row, files: list[Path], sources: dict[str, Any], forbidden: list[Path], limits: Limits | None
) -> tuple[Row, Checked | None, Judged | None]:
    if not _STUDENT.fullmatch(row.student):
        row.status, row.sentence = (
            "unreadable",
            "The name of the student may have a-z, A-Z, 0-9 and . _ @ - only: rename it.",
        )
        return row, None, None
    if not files:
        row.status, row.sentence = "missing", "Nothing was handed in for this set."
        return row, None, None
    if links := [f.name for f in files if f.is_symlink()]:
        row.status, row.sentence = "unreadable", f"{readable(links[0], 100)} is a link, not what was handed in."
        return row, None, None
    if row.set_name not in sources:
        row.status, row.sentence = (
            "wrong set",
            f"The name of the file or its folder tells no set; there are: {', '.join(sources)}.",
        )
        return row, None, None
    # Of several files the one that is named like the set; else the one with the fewest answers missing.
    named = [f for f in files if f.stem in (row.set_name, f"{row.student}_{row.set_name}")]
    chosen = named[0] if named else min(files, key=_unanswered)
    checked = precheck(chosen, sources, row.set_name)
    if len(files) > 1:
        checked.notes.append(f"of {len(files)} files, {readable(chosen.name, 200)} was graded")
    if checked.notebook is None:
        row.status, row.sentence = checked.status, _sentence(checked.notes)
        return row, None, None
    judged = judge(checked.notebook, forbidden, limits)
    return row, checked, judged


def _unanswered(path: Path) -> float:
    try:
        return path.read_bytes().count(b"raise NotImplementedError") if path.stat().st_size <= MOST_BYTES else math.inf
    except OSError:
        return math.inf


def _enter(row: Row, checked: Checked, judged: Judged, course: Course, api: Any) -> None:
    """Fill a row from what was judged, and have nbgrader write the same down."""
    parts = list(checked.notes)
    points = {}
    for cell in checked.notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        if not mark.get("grade"):
            continue
        number, failed = exercise(mark["grade_id"]), judged.failures.get(mark["grade_id"], "was not run")
        points[number] = points.get(number, 0.0) + (0.0 if failed else float(mark["points"]))
        if failed and not judged.stopped:
            said = f"{number}: {failed}"
            parts += [] if said in parts else [said]
    if judged.stopped:
        parts.insert(0, f"zero: the code {judged.stopped}")
    row.scores, row.status = points, "stopped" if judged.stopped else "repaired" if checked.notes else "graded"
    try:
        entered = course.record(api, row.student, row.set_name, checked.notebook, judged)
        if abs(entered - row.total) > 1e-9:
            row.status = "error"
            parts.insert(0, f"nbgrader's gradebook has {entered:g} points for it: grade it by hand")
    except Exception as error:
        row.status = "error"
        parts.insert(0, f"nbgrader did not take it ({error})")
    row.sentence = _sentence(parts)


def _sentence(parts: list[str]) -> str:
    text = " ".join(readable("; ".join(parts), 2000).split())
    return text[:1].upper() + text[1:1000] + "." if text else "All tests hold."


def _exercises(source: Any) -> list[str]:
    ids = (c.metadata.get("nbgrader", {}) for c in source.cells)
    return sorted({exercise(m["grade_id"]) for m in ids if m.get("grade")})


def table(rows: list[Row]) -> str:
    """Return the rows as CSV: a column for each exercise, blank where a set does not have it."""
    numbers = sorted({number for row in rows for number in row.scores})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["student", "set", "status", "total", "of", *numbers, "sentence", "file"])
    for row in rows:
        scores = [f"{row.scores[n]:g}" if n in row.scores else "" for n in numbers]
        texts = [_cell(text) for text in (row.student, row.set_name, row.status)]
        writer.writerow([*texts, f"{row.total:g}", POINTS, *scores, _cell(row.sentence), _cell(row.file)])
    return out.getvalue()


def _cell(text: str) -> str:
    """Keep a spreadsheet from taking a student's text for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def write(rows: list[Row], path: Path) -> Path:
    """Write the table to a file."""
    return write_aside(path, table(rows))
