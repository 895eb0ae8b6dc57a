"""A folder of submissions becomes one table: collected, put in order, run, entered into the gradebook.

Two layouts are taken: nbgrader's own, ``<student>/<set>/<anything>.ipynb``, and a flat one as learning platforms hand
out, ``<student>_<set>.ipynb``, also with the number behind it that browsers give a second copy. Each submission is a
batch of its own: whatever it does, the next one is graded. Submissions that can be run are in nbgrader's gradebook
afterwards; what is missing, unreadable or of another set stands in the table only.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.assignments import confine
from labkit.assignments.authoring import POINTS, exercise
from labkit.assignments.course import Course
from labkit.assignments.judge import Judged, judge
from labkit.assignments.precheck import Checked, precheck, unanswered
from labkit.assignments.sandbox import Limits, readable
from labkit.common.files import write_aside

#: What a row may say; only the first two were graded to the end.
STATUSES = ("graded", "repaired", "stopped", "missing", "unreadable", "wrong set", "error")
_STUDENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}")


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


@dataclass
class Handed:
    """What one student handed in for one set.

    Parameters
    ----------
    student, set_name : str
        A name that tells no set stands under the set ``""``.
    notebooks, others : list of Path
        Files, and links, which are not followed.
    trouble : str
        Why a folder of it could not be read; empty if all could.
    """

    student: str
    set_name: str
    notebooks: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    trouble: str = ""

    @property
    def files(self) -> list[Path]:
        """The notebooks; if there are none, whatever else there is."""
        return sorted(self.notebooks or self.others)


def collect(folder: Path, sets: tuple[str, ...]) -> list[Handed]:
    """Return every submission in a folder, in the order of students and sets.

    An empty folder of a set is a submission without files.

    Raises
    ------
    ValueError
        If the folder is not there, or holds nothing to grade.
    """
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is no folder; allowed: a folder of <student>/<set>/*.ipynb or <student>_<set>.ipynb"
        )
    found: dict[tuple[str, str], Handed] = {}

    def of(student: str, name: str) -> Handed:
        return found.setdefault((student, name), Handed(student, name))

    def keep(handed: Handed, path: Path) -> None:
        (handed.notebooks if path.suffix.lower() == ".ipynb" else handed.others).append(path)

    sets = tuple(sorted(sets, key=len, reverse=True))  # ps10 is not ps1
    for entry in sorted(folder.iterdir()):
        if _skipped(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            for path, kind in _walk(entry):
                parts = path.relative_to(entry).parts
                name = next((s for part in parts for s in sets if s in part), "")
                if kind == "file":
                    keep(of(entry.name, name), path)
                elif kind != "folder":
                    of(entry.name, name).trouble = kind
                elif name and len(parts) == 1:
                    of(entry.name, name)
            named = any(student == entry.name and name for student, name in found)
            rest = of(entry.name, "")
            if named and not rest.notebooks and not rest.trouble:
                del found[entry.name, ""]
        elif entry.is_symlink() or entry.is_file():
            student, name = _flat(entry.name, sets)
            if name or entry.is_symlink() or entry.suffix.lower() == ".ipynb":
                keep(of(student, name), entry)
    if not found:
        raise ValueError(f"{folder} holds no submissions; allowed: <student>/<set>/*.ipynb or <student>_<set>.ipynb")
    return [handed for _, handed in sorted(found.items())]


def _skipped(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is below a folder: ``file``, links included, ``folder``, or why a folder cannot be read."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if _skipped(entry.name):
                        continue
                    path = here / entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                        yield path, "folder"
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        yield path, "file"
        except OSError as error:
            yield here, str(error.strerror)


def _flat(name: str, sets: tuple[str, ...]) -> tuple[str, str]:
    """Return student and set of a file's name; without a set all of it is the student's."""
    for known in sets:
        number = "" if known[-1].isdigit() else r"\d*"
        if match := re.fullmatch(rf"(.+)_{re.escape(known)}{number}(?![^\W_]).*", name, re.DOTALL):
            return match[1], known
    return Path(name).stem, ""


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

    def run(job: Handed) -> tuple[Row, Checked | None, Judged | None]:
        files = ", ".join(str(f.relative_to(folder)) for f in job.files)
        row = Row(readable(job.student, 200), job.set_name, readable(files, 500), "error")
        try:
            return _one(row, job, sources, forbidden, limits)
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
    row: Row, handed: Handed, sources: dict[str, Any], forbidden: list[Path], limits: Limits | None
) -> tuple[Row, Checked | None, Judged | None]:
    files = handed.files
    status, reason = "unreadable", ""
    if not _STUDENT.fullmatch(row.student):
        reason = "The name of the student may have a-z, A-Z, 0-9, _ and, not in front, . @ - only: rename it."
    elif handed.trouble and not handed.notebooks:
        reason = f"Its folder cannot be read ({handed.trouble})."
    elif not files:
        status, reason = "missing", "Nothing was handed in for this set."
    elif all(os.path.islink(f) for f in files):
        reason = f"{readable(files[0].name, 100)} is a link, not what was handed in."
    elif not handed.notebooks:
        reason = f"{readable(files[0].name, 100)} is no notebook (.ipynb)."
    elif row.set_name not in sources:
        status = "wrong set"
        reason = f"The name of the file or its folder tells no set; there are: {', '.join(sources)}."
    if reason:
        row.status, row.sentence = status, reason
        return row, None, None
    chosen, source = files[0], sources[row.set_name]
    if len(files) > 1:
        # The one with the fewest answers missing; of equal ones that which is named like the set.
        named = (row.set_name, f"{row.student}_{row.set_name}")
        chosen = min(files, key=lambda f: (unanswered(f, source), f.stem not in named))
    checked = precheck(chosen, sources, row.set_name)
    if len(files) > 1:
        checked.notes.append(f"of {len(files)} files, {readable(chosen.name, 200)} was graded")
    if handed.trouble:
        checked.notes.append(f"a folder beside it cannot be read ({handed.trouble})")
    if checked.notebook is None:
        row.status, row.sentence = checked.status, _sentence(checked.notes)
        return row, None, None
    judged = judge(checked.notebook, forbidden, limits)
    return row, checked, judged


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
