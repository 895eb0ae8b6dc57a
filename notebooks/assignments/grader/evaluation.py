"""The test cells of a problem set, run in the grader, on functions that live in another process.

A test cell is ordinary nbgrader: asserts on the names that the student defines. Run in a notebook it calls the
student's functions directly. Run here, those names stand for functions of the student's process: they send it their
arguments and bring plain data back (`assignments.grader.supervisor`). The same text serves both, so nbgrader's own
tools go on working.

Every submission runs twice: first with the tests that students see, then in another process with all of them. Each
sentence that students read is made in the first run, before any process has been given the inputs of hidden tests. Of
the second run they learn which of the author's asserts fails, and nothing else.

Some things are not covered. Code can choose whether a test holds, and which of its asserts fails. An answer may be
the work of another person. Code may recognise the inputs of the hidden tests (they differ from the visible inputs,
and there are several). A pipeline's graph and its elements come from the student's process as two pieces of data, so
code that replaces `labcourse.inspection` can show one pipeline and run another.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignments.grader.authoring import graded_cells
from assignments.grader.precheck import parse, released
from assignments.grader.supervisor import DidNotEnd, Limits, Stopped, StudentProcess

#: A word in a comment is no import.
_TENSORFLOW = re.compile(r"^[^#\n]*tensorflow", re.MULTILINE)


@dataclass
class Evaluation:
    """What became of one notebook.

    Parameters
    ----------
    failures : dict of str to (str or None)
        Of each test cell by its ``grade_id``: what failed in a line, or None if it holds.
    printed, errors : dict of int to str
        Of each code cell by its place in the notebook.
    stopped : str
        Why the student's process was ended; then nothing holds. Empty if it was not.
    private_reason : str
        Why it was ended, where students must not read it: it may have chosen its end by the inputs of hidden tests.
    """

    failures: dict[str, str | None] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    stopped: str = ""
    private_reason: str = ""


def evaluate(notebook: Any, forbidden: Sequence[Path], limits: Limits | None = None, trust: bool = False) -> Evaluation:
    """Run a notebook whose test cells are those of the source, hidden tests included.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        After `assignments.grader.precheck`: the test cells are trusted.
    forbidden : sequence of Path
        What the student's process must not read.
    limits : Limits, optional
        For each of the two runs.
    trust : bool
        Whether it runs without the box (`assignments.grader.box`).

    Raises
    ------
    ValueError
        If there is no box here, and `trust` is false.
    """
    evaluation = _run(notebook, forbidden, limits or Limits(), trust, hidden=False)
    if evaluation.stopped or all(evaluation.failures.values()):
        return evaluation
    asked = _run(notebook, forbidden, limits or Limits(), trust, hidden=True)
    evaluation.failures = {
        grade_id: failed or asked.failures[grade_id] for grade_id, failed in evaluation.failures.items()
    }
    if asked.stopped:
        evaluation.stopped, evaluation.private_reason = _ENDED, asked.stopped
        evaluation.failures = dict.fromkeys(evaluation.failures, f"the code {_ENDED}")
    return evaluation


def _run(notebook: Any, forbidden: Sequence[Path], limits: Limits, trust: bool, *, hidden: bool) -> Evaluation:
    """Run the cells and the tests of a notebook in one process, with the hidden tests or without them."""
    code = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    tests = {grade_id: cell.source for grade_id, cell in graded_cells(notebook).items()}
    own = [(i, cell.source) for i, cell in code if _id(cell) not in tests]
    evaluation = Evaluation()
    needs = any(_TENSORFLOW.search(source) for source in [*(text for _, text in own), *tests.values()])
    allowed = limits.with_tensorflow() if needs else limits
    try:
        with StudentProcess([], forbidden, allowed, needs, trust) as student:
            for place, cell in code:
                if _id(cell) in tests:
                    evaluation.failures[_id(cell)] = _test(cell.source, student, hidden)
                    continue
                student.run(cell.source)
                evaluation.printed[place] = student.printed[-1]
                if student.errors[-1]:
                    evaluation.errors[place] = _words(student.errors[-1])
            # A test holds at its own place, where a name may be used for something else later, or at the end, where a
            # cell that was moved has run.
            for grade_id, source in tests.items():
                failed = evaluation.failures[grade_id]
                if failed and not failed.startswith(_GAVE_UP) and _ENDLESS not in failed:
                    evaluation.failures[grade_id] = _test(source, student, hidden)
        _explain(evaluation, own)
    except Stopped as stop:
        evaluation.stopped = str(stop)
        evaluation.failures = dict.fromkeys(tests, f"the code {evaluation.stopped}")
    return evaluation


def _explain(evaluation: Evaluation, own: Sequence[tuple[int, str]]) -> None:
    """Where a name is missing because its cell failed, say how that failed."""
    for grade_id, failed in evaluation.failures.items():
        missing = re.fullmatch(r"name '(\w+)' is not defined", failed or "")
        if missing:
            reasons = [
                evaluation.errors[i]
                for i, text in own
                if i in evaluation.errors and re.search(rf"\b{missing[1]}\b", text)
            ]
            evaluation.failures[grade_id] = (
                f"{failed}: its cell ended with {reasons[-1][:200]!r}" if reasons else failed
            )


def _words(error: Any) -> str:
    name, words = (*error, "", "")[:2]
    if name == "SyntaxError":  # what an older Python does not know, a student's newer one took
        words = f"{words} (graded with Python {sys.version_info.major}.{sys.version_info.minor})"
    return f"{name}: {words}" if words else name


def _id(cell: Any) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


_FAILED = "a hidden test does not hold"
#: How a process ends, when, and in which cell or function, are words, too.
_ENDED = (
    "was ended after hidden tests had begun: it took too long or too much, ended itself, or did what is not allowed"
)
_ENDLESS = " did not come to an end within "
_GAVE_UP = "the grader gave up on this answer"


def _test(source: str, student: StudentProcess, hidden: bool) -> str | None:
    """Return what fails in a test cell, in a line, or None if it holds.

    With `hidden`, its process has inputs that students must not know: then no word of it is in the line.
    """
    tree = parse(source if hidden else released(source))
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in used if not isinstance(node.ctx, ast.Load)}
    names: dict[str, Any] = {}
    try:
        names = student.names(sorted({node.id for node in used} - made - set(dir(builtins))))
        with _limited(student):
            exec(compile(tree, "<test>", "exec"), {"__name__": "test", **names})
    except Stopped:
        raise
    except _GaveUp:
        return f"{_GAVE_UP}: to compare it takes more than {student.limits.judging_s:g} s"
    except Exception as error:
        by_student = getattr(error, "by_student", False)
        # A variable may still be what students were given. The stub raises without words, libraries do not.
        is_open = any(value is None for value in names.values())
        told = _is_hidden(error, source) if hidden else not is_open
        if isinstance(error, AssertionError) and not by_student and told:
            return str(error).splitlines()[0] if str(error) else "a test does not hold"
        if hidden:
            return _FAILED
        if isinstance(error, DidNotEnd):
            return str(error)
        if is_open or (isinstance(error, NotImplementedError) and not str(error)):
            return "not answered"
        if isinstance(error, NameError) and not by_student:
            return str(error)
        words = str(error)[:300]  # of a student in quotes: it may read like words of the grader
        return _words([type(error).__name__, repr(words) if words and by_student else words])
    return None


def _is_hidden(error: Exception, source: str) -> bool:
    """Tell whether an error is of the hidden part of a test: the words of the other part may repeat an answer."""
    frames = traceback.extract_tb(error.__traceback__)
    number = next((frame.lineno for frame in frames if frame.filename == "<test>"), 0)
    # What students get of a text up to this line, and up to the line before, is the same where this one is hidden.
    before, up_to = (released("\n".join(source.splitlines()[:n])) for n in (max(number - 1, 0), number))
    return number > 0 and before == up_to


class _GaveUp(BaseException):
    """The time of a test is up; it is no Exception, so that no test takes it for a failure of its own."""


@contextlib.contextmanager
def _limited(student: StudentProcess) -> Iterator[None]:
    """Raise `_GaveUp` in this thread once it has worked for too long; waiting for the student's process is no work.

    Python's alarm clock rings in the main thread only, and submissions are graded in others.
    """
    thread, done = ctypes.c_ulong(threading.get_ident()), threading.Event()
    give_up = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        worked = 0.0
        while not done.wait(0.1):
            worked += 0.0 if student.waits else 0.1
            if worked >= student.limits.judging_s and not student.waits:
                give_up(thread, ctypes.py_object(_GaveUp))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        try:
            done.set()
            watcher.join()
        finally:
            give_up(thread, None)  # it may be on its way
