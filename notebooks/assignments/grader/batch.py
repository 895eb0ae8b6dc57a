"""A folder of submissions becomes one table: collected, put in order, run, entered into the gradebook.

Three layouts are taken: nbgrader's own, ``<student>/<set>/<anything>.ipynb``, its reverse, ``<set>/<student>/``, and a
flat one, ``<student>_<set>.ipynb``, also with the number that browsers add to a second copy. A download of a learning
platform is brought into this order first (`assignments.grader.downloads`). Each submission is a batch of its own, so an
error in it does not stop the next submission. Submissions that can be run are in nbgrader's gradebook afterwards. A
submission that is missing, unreadable or of another set is only in the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from assignments.grader import box
from assignments.grader.authoring import POINTS, exercise, graded_cells
from assignments.grader.course import Course
from assignments.grader.downloads import number_of, whose
from assignments.grader.evaluation import Evaluation, evaluate
from assignments.grader.pages import as_csv, one_line
from assignments.grader.precheck import Checked, precheck, set_of, unanswered
from assignments.grader.supervisor import Limits
from labkit.common.files import write_aside
from labkit.common.numbers import whole

#: What a row may say; only the first two were graded to the end.
STATUSES = ("graded", "repaired", "stopped", "missing", "unreadable", "wrong set", "error")
TRUSTED = (
    "WARNING: students' code runs as you, without bubblewrap. Time and memory are limited, nothing else is protected: "
    "neither your files and accounts nor the hidden tests"
)
_AGAIN = "this is no zero, grade it again"
#: Files of one student for one set: each is read to find the one that is graded.
MOST_NOTEBOOKS = 50
#: What a student may be called: the name of a folder, on every system.
STUDENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}")


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
        What was found, put right, stopped; which tests fail.
    private_reason : str
        For the instructor alone: why the code was ended, where that may tell of hidden tests.
    """

    student: str
    set_name: str
    file: str
    status: str
    scores: dict[str, float] = field(default_factory=dict)
    sentence: str = ""
    private_reason: str = ""

    @property
    def total(self) -> float:
        """Sum of the scores."""
        return sum(self.scores.values())


@dataclass
class Submission:
    """What one student handed in for one set.

    Parameters
    ----------
    student, set_name : str
        A name that tells no set stands under the set ``""``.
    found : list of Path
        Files, and links, which are not followed.
    trouble : str
        Why a folder of it could not be read; empty if all could.
    """

    student: str
    set_name: str
    found: list[Path] = field(default_factory=list)
    trouble: str = ""

    @property
    def notebooks(self) -> list[Path]:
        """What came last of its notebooks."""
        every = [path for path in self.found if is_notebook(path)]
        newest = max(map(number_of, every), default=0)
        return sorted(path for path in every if number_of(path) == newest)

    @property
    def files(self) -> list[Path]:
        """The notebooks; if there are none, whatever else there is."""
        return self.notebooks or sorted(self.found)


def is_notebook(path: Path) -> bool:
    """Tell if a file is named like a notebook."""
    return path.suffix.lower() == ".ipynb"


def collect(folder: Path, sets: Iterable[str], set_of: Callable[[Path], str] = lambda _: "") -> list[Submission]:
    """Return every submission in a folder, in the order of students and sets.

    An empty folder of a set is a submission without files. `set_of` returns the set of a notebook whose name has none.
    Files that a later download replaced are left out.

    Raises
    ------
    ValueError
        If the folder is not there, or holds nothing to grade.
    """
    layouts = "<student>/<set>/*.ipynb or <student>_<set>.ipynb"
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; allowed: a folder of {layouts}")
    found: dict[tuple[str, str], Submission] = {}
    sets = sorted(sets, key=len, reverse=True)  # ps10 is not ps1
    for parts, trouble in _leaves(folder):
        path, (student, name, _) = folder.joinpath(*parts), whose(parts, sets)
        if not student or (len(parts) == 1 and not (name or is_notebook(path) or path.is_symlink())):
            continue
        name = name or (set_of(path) if parts[-1] and is_notebook(path) else "")
        submission = found.setdefault((student, name), Submission(student, name))
        submission.found += [path] if parts[-1] else []
        submission.trouble = submission.trouble or trouble
    if not found:
        raise ValueError(f"{folder} holds no submissions; allowed: {layouts}")
    known = {s.student for s in found.values() if s.set_name}  # what they have in folders of no set is no submission
    given = (s for s in found.values() if s.set_name or s.found or s.trouble or s.student not in known)
    return sorted(given, key=lambda s: (s.student, s.set_name))


def _leaves(folder: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each file in a folder, links included, of each empty folder, and of what cannot be read: why.

    The path of a folder ends with an empty name. Folders may lie deeper than Python calls functions.
    """
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        here, empty = waiting.pop(), True
        try:
            with os.scandir(folder.joinpath(*here)) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name == "__MACOSX":
                        continue
                    empty = False
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((*here, entry.name))
                    else:
                        yield (*here, entry.name), ""
            if empty and here:
                yield (*here, ""), ""
        except OSError as error:
            yield (*here, ""), str(error.strerror)


def grade(
    folder: Path,
    course: Course,
    limits: Limits | None = None,
    workers: int = 2,
    report: Callable[[str], None] = lambda _: None,
    trust: bool = False,
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
        Submissions that run at the same time; fewer where memory is short.
    report : callable
        Called with a line about each submission. One whose process did not start, or whose machine had no memory left,
        has a second try after all others; that is the machine's fault, so it is never worth a zero.
    trust : bool
        Whether students' code runs without the box, as for a class of one's own; a line says so.

    Raises
    ------
    ValueError
        If the folder is no folder of submissions, `workers` is below 1, or there is no box here and no `trust`.
    """
    workers = whole("workers", workers, least=1)
    if trust:
        report(TRUSTED)
    else:
        box.require()
    folder = Path(folder).resolve()
    sources = course.notebooks()
    submissions = collect(folder, course.files, lambda path: set_of(path, sources))
    forbidden, api = course.forbidden(folder), course.api()
    rows = []
    workers = _affordable(workers, limits or Limits(), trust, report)

    def run(submission: Submission) -> tuple[Row, Checked, Evaluation | None]:
        files = ", ".join(str(f.relative_to(folder)) for f in submission.files)
        row = Row(one_line(submission.student, 200), submission.set_name, one_line(files, 500), "error")
        try:
            checked = _check(submission, row.student, sources)
            row.status, row.sentence = checked.status, _sentence(checked.notes)
            return row, checked, checked.notebook and evaluate(checked.notebook, forbidden, limits, trust)
        except Exception as error:  # a fault of the grader or of its machine, never of the batch
            row.status = "error"
            row.sentence = one_line(f"The grader failed ({type(error).__name__}: {error}): {_AGAIN}.", 500)
            return row, Checked(), None

    def add(row: Row, checked: Checked, evaluation: Evaluation | None) -> None:
        if row.set_name in sources:
            row.scores = dict.fromkeys(map(exercise, graded_cells(sources[row.set_name])), 0.0)
        try:
            if evaluation is not None:
                _enter(row, checked, evaluation, course, api)
            elif row.status in ("unreadable", "wrong set"):  # its earlier grade is none any more
                course.forget(api, row.student, row.set_name)
        except Exception as error:
            row.status, row.sentence = "error", _sentence([f"nbgrader failed ({error}): {_AGAIN}", row.sentence])
        rows.append(row)
        points = "not graded" if row.status == "error" else f"{row.total:g}"
        report(f"{row.student} {row.set_name}: {points} ({row.status})")

    again = []
    with ThreadPoolExecutor(workers) as pool:
        for submission, done in zip(submissions, pool.map(run, submissions), strict=True):
            if done[0].status == "error":
                again.append(submission)
            else:
                add(*done)
    for submission in again:
        add(*run(submission))
    rows.sort(key=lambda row: (row.student, row.set_name))
    return rows


def _affordable(workers: int, limits: Limits, trust: bool, report: Callable[[str], None]) -> int:
    """Return how many submissions may run at a time: the machine stays usable if each takes all that it may.

    Whatever its set asks for, each may import TensorFlow.
    """
    one = limits.with_tensorflow().resident_mb << 20
    one += 0 if trust else box.DISK
    free = psutil.virtual_memory().available
    fewer = max(1, min(workers, free // one))
    if fewer < workers:
        report(
            f"{fewer} at a time, not {workers}: a submission may take {one / 1e9:.1f} GB, and {free / 1e9:.1f} are free"
        )
    return fewer


def _check(submission: Submission, student: str, sources: dict[str, Any]) -> Checked:
    """Choose the file that is graded and put it in order, or say why there is none."""
    files, trouble = submission.files, submission.trouble
    first = one_line(files[0].name, 100) if files else ""
    refused = [
        (not STUDENT.fullmatch(student), "unreadable", "the name of the student may have a-z, A-Z, 0-9, _ and, not in "
         "front, . @ - only: rename it, or unpack what a platform hands out with `labkit assignments collect`"),
        (trouble and not submission.notebooks, "unreadable", f"its folder cannot be read ({trouble})"),
        (not files, "missing", "nothing was handed in for this set"),
        (all(map(os.path.islink, files)), "unreadable", f"the file {first} is a link, not what was handed in"),
        (not submission.notebooks, "unreadable", f"the file {first} is no notebook (.ipynb)"),
        (submission.set_name not in sources, "wrong set",
         "its name, its folder and its exercises tell no set; there are: " + ", ".join(sources)),
    ]  # fmt: skip
    if found := next(((status, [reason]) for holds, status, reason in refused if holds), None):
        return Checked(None, *found)
    # The one with the fewest answers missing; of equal ones that which is named like the set.
    named = (submission.set_name, f"{student}_{submission.set_name}")
    looked_at = sorted(files, key=lambda f: f.stem not in named)[:MOST_NOTEBOOKS]
    chosen = min(looked_at, key=lambda f: unanswered(f, sources[submission.set_name]))
    checked = precheck(chosen, sources, submission.set_name)
    if len(files) > 1:
        some = "" if len(looked_at) == len(files) else f"the first {MOST_NOTEBOOKS} of "
        checked.notes.append(f"of {some}{len(files)} files, {one_line(chosen.name, 200)} was graded")
    if trouble:
        checked.notes.append(f"a folder beside it cannot be read ({trouble})")
    return checked


def _enter(row: Row, checked: Checked, evaluation: Evaluation, course: Course, api: Any) -> None:
    """Fill a row from what was evaluated, and have nbgrader write the same down."""
    row.status = "stopped" if evaluation.stopped else "repaired" if checked.notes else "graded"
    failed = (f"{exercise(test)}: {words}" for test, words in evaluation.failures.items() if words)
    parts = [*checked.notes, *dict.fromkeys(failed)]
    if evaluation.stopped:
        parts = [f"zero: the code {evaluation.stopped}", *checked.notes]
        row.private_reason = evaluation.private_reason and _sentence([f"the code {evaluation.private_reason}"])
    row.sentence = _sentence(parts)
    for test, (points, counts) in course.record(api, row.student, row.set_name, checked.notebook, evaluation).items():
        row.scores[exercise(test)] += counts
        if points != counts:
            parts.append(f"{exercise(test)}: {counts:g} points for a test by hand, and not {points:g}")
    row.sentence = _sentence(parts)


def _sentence(parts: list[str]) -> str:
    text = one_line(" ".join("; ".join(parts)[:2000].split()))
    return text[:1].upper() + text[1:1000] + "." if text else "All tests hold."


def table(rows: list[Row]) -> str:
    """Return the rows as CSV: a column for each exercise, blank where a set does not have it."""
    numbers = sorted({number for row in rows for number in row.scores})
    head = ["student", "set", "status", "total", "of", *numbers, "sentence", "file", "not for students"]
    lines = []
    for row in rows:
        scores = [f"{row.scores[n]:g}" if n in row.scores else "" for n in numbers]
        # A submission that was not graded has no points: a zero would be a result.
        total = "" if row.status == "error" else f"{row.total:g}"
        texts = (row.sentence, row.file, row.private_reason)
        lines.append([row.student, row.set_name, row.status, total, str(POINTS), *scores, *texts])
    return as_csv(head, lines)


def write(rows: list[Row], path: Path) -> Path:
    """Write the table to a file."""
    return write_aside(path, table(rows))
