"""The test cells of a problem set, run in the grader, on functions that live in another process.

A test cell is ordinary nbgrader: asserts on the names that the student defines. Run in a notebook it calls the
student's functions directly. Run here, those names stand for functions of the student's process: they send it their
arguments and bring plain data back (`assignments.grader.supervisor`). The same text serves both, so nbgrader's own
tools go on working.

What this does not cover: an answer that another person found; code that recognises the inputs of the hidden tests (they
differ from the visible ones, and there are several). A pipeline's graph and its elements come from the student's side
as two pieces of data, so code that replaces `labkit.course.inspection` can show the one and run the other. Native
code that tries to read files past Python does not get them where bubblewrap or Landlock is at hand, and gets no zero
for trying: only Python's hook can tell what was meant. So it is with a program that is started, and with a socket of
version 6: both are refused, and libraries try both without meaning harm.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignments.grader.precheck import parse
from assignments.grader.supervisor import Limits, Stopped, StudentProcess


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
    protections : dict of str to bool
        What protected this machine from the student's code; the names are those of `isolation.MISSING`.
    """

    failures: dict[str, str | None] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    stopped: str = ""
    protections: dict[str, bool] = field(default_factory=dict)


def evaluate(
    notebook: Any, forbidden: Sequence[Path], limits: Limits | None = None, in_bubblewrap: bool | None = None
) -> Evaluation:
    """Run a notebook whose test cells are those of the source, hidden tests included.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        After `assignments.grader.precheck`: the test cells are trusted.
    forbidden : sequence of Path
        What the student's process must not even try to read.
    limits : Limits, optional
    in_bubblewrap : bool, optional
        Whether bubblewrap starts the student's process; by default, if that can be used here.
    """
    code = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    own = [(i, cell.source) for i, cell in code if not _is_test(cell)]
    tests = [(cell.metadata["nbgrader"]["grade_id"], cell.source) for _, cell in code if _is_test(cell)]
    evaluation, allowed = Evaluation(), limits or Limits()
    needs = any("tensorflow" in source for _, source in [*own, *tests])
    allowed = allowed.with_tensorflow() if needs else allowed
    try:
        with StudentProcess([], forbidden, allowed, needs, in_bubblewrap) as student:
            evaluation.protections = student.protections
            for place, cell in code:
                if _is_test(cell):
                    evaluation.failures[cell.metadata["nbgrader"]["grade_id"]] = _test(cell.source, student)
                    continue
                student.run(cell.source)
                evaluation.printed[place] = student.printed[-1]
                if student.errors[-1]:
                    evaluation.errors[place] = _words(student.errors[-1])
            # A test holds at its own place, where a name may be used for something else later, or at the end, where a
            # cell that was moved has run.
            for grade_id, source in tests:
                if evaluation.failures[grade_id]:
                    evaluation.failures[grade_id] = _test(source, student)
        _explain(evaluation, own)
    except Stopped as stop:
        evaluation.stopped = str(stop)
        evaluation.failures = {grade_id: f"the code {stop}" for grade_id, _ in tests}
    return evaluation


def _explain(evaluation: Evaluation, own: Sequence[tuple[int, str]]) -> None:
    """Where a name is missing because its cell failed, say how that failed."""
    for grade_id, failed in evaluation.failures.items():
        missing = re.fullmatch(r"name '(\w+)' is not defined", failed or "")
        if missing:
            said = [
                evaluation.errors[i]
                for i, text in own
                if i in evaluation.errors and re.search(rf"\b{missing[1]}\b", text)
            ]
            evaluation.failures[grade_id] = f"{failed}: its cell ended with {said[-1][:200]!r}" if said else failed


def _words(error: Any) -> str:
    name, words = (*error, "", "")[:2]
    return f"{name}: {words}" if words else name


def _is_test(cell: Any) -> bool:
    meta = cell.metadata.get("nbgrader", {})
    return bool(meta.get("grade")) and not meta.get("solution")


def _test(source: str, student: StudentProcess) -> str | None:
    tree = parse(source)
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    try:
        names = student.names(sorted(loaded - set(dir(builtins)) - _bound(tree)))
        exec(compile(tree, "<test>", "exec"), {"__name__": "test", **names})
    except Stopped:
        raise
    except NotImplementedError:
        return "not answered"
    except Exception as error:
        if getattr(error, "by_student", False):  # in quotes: it may read like words of the grader
            return _words([type(error).__name__, repr(str(error)[:300]) if str(error) else ""])
        if isinstance(error, AssertionError):
            return str(error).splitlines()[0] if str(error) else "a test does not hold"
        if isinstance(error, NameError):
            return str(error)
        return _words([type(error).__name__, str(error)[:300]])
    return None


def _bound(tree: ast.AST) -> set[str]:
    """Return the names that a test cell defines itself."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found
