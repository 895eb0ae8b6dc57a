"""``names.csv``, what a learning platform calls each student, and the table of grades that the platform takes back."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path

from assignments.grader.authoring import POINTS
from assignments.grader.pages import as_csv, of_cell, one_line
from labkit.common.files import utf8_text, write_aside

NAMES = "names.csv"


@dataclass(frozen=True)
class Student:
    """A student who handed in: the name of the folder, the name and the id on the platform, and the platform.

    ``numbers`` are those of Moodle, which has another for each set, as ``ps1_find_the_stall=12 ps3_plan_a_cluster=34``.
    """

    student: str
    name: str
    id: str
    platform: str
    numbers: str = ""

    def number_of(self, set_name: str) -> str:
        """Return the number by which Moodle knows the student in a set; empty if it has none there."""
        return dict(pair.split("=", 1) for pair in self.numbers.split() if "=" in pair).get(set_name, "")


def names(folder: Path) -> list[Student]:
    """Return the students of a folder's ``names.csv``; none if there is no such file.

    Raises
    ------
    ValueError
        If it has no header, or is not UTF-8, as a spreadsheet may save it.
    """
    path = folder / NAMES
    if not path.exists():
        return []
    text = io.StringIO(utf8_text(path), newline=None).getvalue()  # a Mac's spreadsheet ends lines in its own way
    # Where a comma stands in numbers, a spreadsheet saves semicolons.
    head = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text), delimiter=next((c for c in ";\t" if c in head), ","))
    needed = [f.name for f in fields(Student) if f.default is MISSING]
    if not {*needed} <= {*(rows.fieldnames or ())}:
        raise ValueError(f"the first line of {path} is {one_line(head, 100)!r}; allowed: {','.join(needed)}")
    found = (Student(*(of_cell(row.get(f.name) or "") for f in fields(Student))) for row in rows)
    return [student for student in found if student.student]


def write_names(folder: Path, students: Iterable[Student]) -> None:
    """Write ``names.csv`` into a folder."""
    write_aside(folder / NAMES, as_csv([f.name for f in fields(Student)], (asdict(s).values() for s in students)))


def export(grades: Path, platform: str, set_name: str, students: list[Student]) -> tuple[str, list[str]]:
    """Return the grades of a set as CSV that a platform imports, and sentences about who is not in it or not known.

    Parameters
    ----------
    grades : Path
        The table of `assignments.grader.batch.table`.
    platform : str
        ``moodle`` or ``canvas``.
    set_name : str
    students : list of Student
        See `names`; a student who is not there is taken to have the folder's name as id.

    Raises
    ------
    ValueError
        If there is no such platform, or the table holds no grade of the set.
    """
    if platform not in _IMPORTS:
        raise ValueError(f"the platform is {platform!r}; allowed: {', '.join(_IMPORTS)}")
    known = {student.student: student for student in students}
    rows, left_out = [], []
    for row in csv.DictReader(io.StringIO(grades.read_text(encoding="utf-8"))):
        if row["set"] != set_name:
            continue
        author = known.get(row["student"], Student(row["student"], row["student"], row["student"], ""))
        if row["status"] == "error":
            left_out.append(f"{author.student} is left out: {row['sentence']}")
        else:
            rows.append((author, row))
    unknown = [author.student for author, _ in rows if author.student not in known]
    if unknown:
        left_out.append(f"not in {NAMES}, so the name of the folder is taken for the id: {', '.join(unknown)}")
    if not rows and not left_out:
        raise ValueError(f"{grades} holds no grade of {set_name!r}")
    return _IMPORTS[platform](set_name, rows), left_out


_Graded = list[tuple[Student, dict[str, str]]]


def _moodle(set_name: str, rows: _Graded) -> str:
    # mod/assign/feedback/offline/importgradeslib.php: the three columns that are asked for, and feedback by its name.
    # A time without its zone is read in that of the site, and a grade that is newer than the time stays as it is.
    # Feedback is HTML there (mod/assign/feedback/comments/locallib.php), and a sentence quotes words of students.
    head = ["Identifier", "Full name", "Grade", "Last modified (grade)", "Feedback comments"]
    now = datetime.now(timezone.utc).strftime("%A, %d %B %Y, %I:%M %p UTC")
    ids = (f"Participant {author.number_of(set_name) or author.id}" for author, _ in rows)
    sentences = (html.escape(of_cell(row["sentence"]), quote=False) for _, row in rows)
    return as_csv(head, ([i, w.name, r["total"], now, s] for i, (w, r), s in zip(ids, rows, sentences, strict=True)))


def _canvas(set_name: str, rows: _Graded) -> str:
    # Instructor guide of Canvas, "How do I import grades in the Gradebook?": five columns, then assignments.
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", set_name]
    most = ["    Points Possible", "", "", "", "", str(POINTS)]
    return as_csv(head, [most, *([w.name, w.id, "", "", "", r["total"]] for w, r in rows)])


_IMPORTS = {"moodle": _moodle, "canvas": _canvas}
