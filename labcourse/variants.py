"""A problem of one's own for every student: sizes, delays and planted faults, from the student's id alone.

All numbers come from SHA-256 of the id, the course and the problem: the same on every platform and Python version, and
an instructor who has the list of ids has all variants. No id is kept: a variant knows its student by a pseudonym. The
drills belong to notebook 10; sizes and delays are for an instructor's own tasks, no exercise of the lab reads them.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from labkit.common.table import Table, Tabular

#: What is drawn: images of an epoch, images of a batch, side of an image in pixels, latency of the storage, train step.
IMAGES = (96, 128, 160, 192, 224, 256)
BATCHES = (8, 16, 32)
SIDES = (96, 128, 160, 192)
LATENCIES_MS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
STEPS_MS = (5.0, 8.0, 10.0, 15.0, 20.0, 30.0)

_DRILLS = 3


@dataclass(frozen=True)
class Variant:
    """The data of one student for one problem.

    Parameters
    ----------
    student : str
        Pseudonym; see `pseudonym`.
    problem : str
    seed : int
        For whatever else is to be drawn, 0 to 2^32 - 1.
    images, batch, side : int
        Images of an epoch (a multiple of 32), images of a batch, pixels of a side.
    latency_ms, step_ms : float
        Of a modelled storage's read, and of a modelled accelerator's train step.
    drills : tuple of int
        Seeds of drills, each with another diagnosis; see `labcourse.drills.draw`.
    """

    student: str
    problem: str
    seed: int
    images: int
    batch: int
    side: int
    latency_ms: float
    step_ms: float
    drills: tuple[int, ...]

    def __str__(self) -> str:
        """Return the variant in words, on a few lines."""
        return "\n".join([
            f"Variant of student {self.student} for {self.problem or 'all problems'}",
            f"  data         {self.images} images of {self.side}×{self.side} pixels, in batches of {self.batch}",
            f"  storage      {self.latency_ms:g} ms for a read (modelled)",
            f"  accelerator  {self.step_ms:g} ms for a train step (modelled)",
            f"  drills       {', '.join(map(str, self.drills))}",
        ])  # fmt: skip

    __repr__ = __str__


def pseudonym(student_id: str, course: str = "") -> str:
    """Return what stands for a student in variants and results: 12 hexadecimal digits.

    Parameters
    ----------
    student_id : str
        Invisible characters around it, the case of its letters, and whether an accent is a sign of its own
        (as macOS types it) do not count.
    course : str
        A word that the instructor gives out for this course. Without one that outsiders do not know, who knows the ids
        can try them all.

    Raises
    ------
    ValueError
        If the id is no text, or holds nothing that can be seen, or the course is no text.
    """
    bare = _text(student_id, "the id of a student", "a text that is not empty")
    bare = bare.strip("".join(filter(_invisible, bare)))
    if not bare:
        raise ValueError(f"the id of a student is {student_id!r}; allowed: a text that is not empty")
    course = _text(course, "course", "a text")
    return hashlib.sha256(f"labkit student\n{course}\n{bare.casefold()}".encode()).hexdigest()[:12]


def _text(given: Any, what: str, allowed: str) -> str:
    """Return a text in the one form that all keyboards give (NFC), or raise the sentence that says what is allowed."""
    if not isinstance(given, str):
        raise ValueError(f"{what} is {given!r:.80}; allowed: {allowed}")
    if any("\ud800" <= sign <= "\udfff" for sign in given):
        raise ValueError(f"{what} is {given!r:.80}, which holds half a character; allowed: {allowed}")
    return unicodedata.normalize("NFC", given)


def _invisible(sign: str) -> bool:
    """Return whether a character is a space, a control character, or one of no width."""
    return sign.isspace() or unicodedata.category(sign) in ("Cc", "Cf")


def of(student_id: str, problem: str = "", course: str = "") -> Variant:
    """Return the variant of one student.

    Parameters
    ----------
    student_id : str
        As the instructor has it in the list; see `pseudonym`.
    problem : str
        Another problem is another variant.
    course : str
        See `pseudonym`.

    Raises
    ------
    ValueError
        If the id is no text, or holds nothing that can be seen, or `problem` or `course` is no text.
    """
    problem = _text(problem, "problem", "a text, such as 'set 1'")
    student = pseudonym(student_id, course)
    course = _text(course, "course", "a text")

    def draw(what: str, count: int) -> int:
        """Return a number from 0 to count - 1; its bias is below 2^-56 for the small counts here."""
        digest = hashlib.sha256(f"labkit variant\n{course}\n{student}\n{problem}\n{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % count

    def one_of(what: str, choices: tuple[Any, ...]) -> Any:
        return choices[draw(what, len(choices))]

    seeds: list[int] = []
    attempt = 0
    while len(seeds) < _DRILLS:
        seed = draw(f"drill {attempt}", len(ALIKE))
        known = {ALIKE[other] for other in seeds}
        seeds += [seed] if seed not in SOLVED and ALIKE[seed] not in known else []
        attempt += 1
    return Variant(
        student, problem, draw("seed", 2**32), one_of("images", IMAGES), one_of("batch", BATCHES),
        one_of("side", SIDES), one_of("latency", LATENCIES_MS), one_of("step", STEPS_MS), tuple(seeds),
    )  # fmt: skip


#: A letter for each drill of the first block: those of equal letters have the same diagnosis. A test compares them with
#: `labcourse.drills`, which needs TensorFlow.
ALIKE = "abcaadefgfhijbklimnmjeooipqrstuemsnaifcfbfvqlmwiihxvnvmnyuzAanhkkqhiuvjBkhCDEflmcbhv"

#: Notebook 10 examines these for everybody; a test compares them with what it draws.
SOLVED = (17, 35, 40, 43, 56)


class _Variants(Tabular, dict[str, Variant]):
    """Variants by id, which print as a table."""

    def table(self) -> Table:
        head = ("id", "pseudonym", "images", "batch", "side", "storage ms", "step ms", "drills")
        rows = [
            (student_id, v.student, *map(str, (v.images, v.batch, v.side)), f"{v.latency_ms:g}", f"{v.step_ms:g}",
             ", ".join(map(str, v.drills)))
            for student_id, v in self.items()
        ]  # fmt: skip
        return Table(head, rows, right=range(2, 7))


def table(student_ids: Iterable[str], problem: str = "", course: str = "") -> dict[str, Variant]:
    """Return the variants of a list of ids, by id: how an instructor makes them all again.

    It prints as a table, which also says which pseudonym stands for which id.

    Raises
    ------
    ValueError
        If this is no list of ids, an id is none, or two ids are the same student.
    """
    if isinstance(student_ids, (str, bytes)) or not isinstance(student_ids, Iterable):
        raise ValueError(f"student_ids is {student_ids!r:.80}; allowed: a list of ids, such as ['s1', 's2']")
    found = _Variants()
    known: dict[str, str] = {}
    for student_id in student_ids:
        variant = of(student_id, problem, course)
        if variant.student in known:
            raise ValueError(f"the ids {known[variant.student]!r} and {student_id!r} are the same student")
        known[variant.student] = student_id
        found[student_id] = variant
    return found
