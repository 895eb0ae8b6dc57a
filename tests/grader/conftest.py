"""What the tests of the grader share: students' processes in a box, the problem sets, and answers in them."""

from __future__ import annotations

import copy

import pytest
from class_of_25 import roster
from left_out import leave_out

import labkit
from assignments.grader import box
from assignments.grader.authoring import exercise, graded_cells
from assignments.grader.course import Course
from assignments.grader.supervisor import Limits, StudentProcess


@pytest.fixture(scope="session")
def boxed():
    """Where no box can be made, tests of it are skipped."""
    if box.refusal():
        leave_out(box.refusal(), "LABKIT_REQUIRE_BUBBLEWRAP")


@pytest.fixture(scope="session")
def run(boxed):
    """A function that runs cells in a student's process and returns it."""

    def run(*cells, limits=None, forbidden=()):
        return StudentProcess(cells, forbidden, limits or Limits(cpu_s=9, wall_s=60, memory_mb=1500))

    return run


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """The source notebooks of all sets; who changes one copies it."""
    return Course(root=tmp_path_factory.mktemp("course")).notebooks()


@pytest.fixture(scope="session")
def answered(sources):
    """A function: a set with other answers in it, as ``exercise_1_1="def busy_percent…"``."""

    def answered(name, **answers):
        notebook = copy.deepcopy(sources[name])
        for grade_id, text in answers.items():
            roster.put(notebook, grade_id, text)
        return notebook

    return answered


@pytest.fixture(scope="session")
def in_notebook():
    """A function: the points of each exercise of a notebook that runs here, and the words of the tests that fail.

    It knows nothing of the grader: the cells run one by one, and a test holds at its place or at the end.
    """

    def in_notebook(notebook):
        names, tests, words, found = {"labkit": labkit}, graded_cells(notebook), {}, {}

        def run(cell):
            parts = (part for part in cell.source.split("\n\n") if " -m pip install " not in part)
            try:
                exec("\n\n".join(parts).replace("%%time\n", ""), names)
            except Exception as error:
                return str(error) or type(error).__name__
            return ""

        for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
            words[roster.grade_id(cell)] = run(cell)
        for test, cell in tests.items():
            words[test] = words[test] and run(cell)
            points = 0 if words[test] else roster.mark(cell)["points"]
            found[exercise(test)] = found.get(exercise(test), 0) + points
        return found, {test: words[test] for test in tests if words[test]}

    return in_notebook
