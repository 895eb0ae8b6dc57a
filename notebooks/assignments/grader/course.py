"""nbgrader's part: source notebooks, the student version, the gradebook, feedback.

Everything stays in nbgrader's own format and folders (``source``, ``release``, ``checked``, ``autograded``,
``gradebook.db`` under ``build/assignments``), so `nbgrader generate_feedback`, `export` and its pages in JupyterLab
work on the result. Only one of its steps is replaced: notebooks are not run in a kernel with the instructor's rights,
but as `assignments.grader.evaluation` says.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from assignments.grader.authoring import source_notebook
from assignments.grader.evaluation import Evaluation, evaluate
from assignments.grader.pages import harmless
from labkit.common.files import write_aside

#: The folder from which nbgrader takes submissions, after the pre-check. The files of students are not changed.
CHECKED = "checked"
CHECKOUT = Path(__file__).resolve().parents[3]
_SETS = CHECKOUT / "notebooks" / "assignments"


class Course:
    """The problem sets of this checkout, and the folder in which nbgrader works on them.

    Parameters
    ----------
    root : Path, optional
        nbgrader's course folder; ``build/assignments`` of the checkout by default.

    Raises
    ------
    ImportError
        If nbgrader is not installed.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = Path(root or CHECKOUT / "build" / "assignments").resolve()
        self.files = {path.stem: path for path in sorted(_SETS.glob("ps*.py"))}
        for name in ("jupytext", "nbgrader"):
            if find_spec(name) is None:
                raise ImportError(f"{name} is not installed: in the checkout, call pip install '.[grade]'")
        self._notebooks: dict[str, Any] = {}

    def notebook(self, name: str) -> Any:
        """Return the source notebook of a set."""
        if name not in self._notebooks:
            self._notebooks[name] = source_notebook(self.files[name])
        return self._notebooks[name]

    def notebooks(self) -> dict[str, Any]:
        """Return all source notebooks, by the name of their set."""
        return {name: self.notebook(name) for name in self.files}

    def forbidden(self, submissions: Path | None = None) -> list[Path]:
        """Return what no student's process may even try to read."""
        # The answers are also in the checkout's history, and in its tests.
        beside = [CHECKOUT / ".git", CHECKOUT / "tests"]
        return [_SETS, self.root, *beside, *([submissions.resolve()] if submissions else [])]

    def write_sources(self) -> None:
        """Write the source notebooks where nbgrader looks for them."""
        import nbformat

        for name, notebook in self.notebooks().items():
            path = self.root / "source" / name / f"{name}.ipynb"
            text = nbformat.writes(notebook).rstrip("\n") + "\n"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_aside(path, text)

    def api(self) -> Any:
        """Return nbgrader's interface to this course."""
        from nbgrader.apps.api import NbGraderAPI
        from traitlets.config import Config

        config = Config()
        self.configure(config)
        api = NbGraderAPI(config=config)
        api.log.setLevel(logging.ERROR)
        return api

    def configure(self, config: Any) -> None:
        """Tell nbgrader where this course is, and how its notebooks are run."""
        # nbgrader calls a program of its own environment by name, and finds it only if that environment is active.
        programs, known = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
        if programs not in known.split(os.pathsep):
            os.environ["PATH"] = os.pathsep.join([programs, known])
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.course_id = "input_pipelines"
        config.CourseDirectory.submitted_directory = CHECKED
        (self.root / "exchange").mkdir(parents=True, exist_ok=True)
        config.Exchange.root = str(self.root / "exchange")
        config.Autograde.autograde_preprocessors = list(preprocessors())
        config.OverwriteCells.add_missing_cells = True
        # For the pages of feedback and of formgrader.
        config.HTMLExporter.filters = {"markdown2html": harmless}

    def release(self, sets: Iterable[str] | None = None) -> list[Path]:
        """Make the student versions, and enter the sets into the gradebook; return the files to hand out.

        Where a set has other tests than before, its submissions leave the gradebook: they must be graded anew.

        Parameters
        ----------
        sets : iterable of str, optional
            Names of the sets; all by default.

        Raises
        ------
        RuntimeError
            If nbgrader refuses a set; its reason is in the sentence. Or if points by hand would be lost.
        """
        self.write_sources()
        api, made = self.api(), []
        for name in self.files if sets is None else sets:
            result = api.generate_assignment(name)
            if "Cannot add or remove cells" in (result.get("log") or ""):
                self._forget_all(api, name)
                result = api.generate_assignment(name)
            _succeeded(result, f"releasing {name}")
            made.append(self.root / "release" / name / f"{name}.ipynb")
        return made

    def record(
        self, api: Any, student: str, name: str, notebook: Any, evaluation: Evaluation
    ) -> dict[str, tuple[float, float]]:
        """Have nbgrader enter an evaluated submission into its gradebook.

        Returns
        -------
        dict
            Of each test cell by its ``grade_id``: the points of its tests, and those that count. These are others
            where a person gave points in formgrader, which nbgrader keeps.

        Raises
        ------
        RuntimeError
            If nbgrader refuses it.
        """
        import nbformat

        path = self.root / CHECKED / student / name / f"{name}.ipynb"
        write_aside(path, nbformat.writes(notebook))
        _EVALUATED[student, name] = evaluation
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its database, about its own order of work
                _succeeded(api.autograde(name, student), f"grading {name} of {student}")
        finally:
            del _EVALUATED[student, name]
        with api.gradebook as book:
            grades = book.find_submission_notebook(name, name, student).grades
            return {grade.name: (float(grade.auto_score or 0), float(grade.score)) for grade in grades}

    def forget(self, api: Any, student: str, name: str) -> None:
        """Take a submission out of nbgrader's gradebook and folders, if it is there: a newer one cannot be graded."""
        from nbgrader.api import MissingEntry

        with contextlib.suppress(MissingEntry), api.gradebook as book:
            book.remove_submission(name, student)
            for kind in (CHECKED, "autograded", "feedback"):
                shutil.rmtree(self.root / kind / student / name, ignore_errors=True)

    def _forget_all(self, api: Any, name: str) -> None:
        """Take all submissions of a set out of the gradebook, unless a person gave points there."""
        with api.gradebook as book:
            handed_in = book.assignment_submissions(name)
            students = [submission.student.id for submission in handed_in]
            grades = [grade for s in handed_in for notebook in s.notebooks for grade in notebook.grades]
            by_hand = sorted({g.student.id for g in grades if g.manual_score is not None or g.extra_credit})
        if by_hand:
            raise RuntimeError(
                f"{name} has other tests than before, and points by hand for {', '.join(by_hand)} would be lost: note "
                "them down, empty them in formgrader, and call this again"
            )
        for student in students:
            self.forget(api, student, name)


#: What is being entered, by student and set: nbgrader runs its own steps over it once more.
_EVALUATED: dict[tuple[str, str], Evaluation] = {}


def _succeeded(result: dict[str, Any], what: str) -> None:
    if not result["success"]:
        lines = [text.strip() for text in (result.get("log") or result.get("error") or "").splitlines()]
        reasons = [text for text in lines if re.match(r"[\w.]*(Error|Exception|Exit|Entry)\b.*:", text)]
        raise RuntimeError(f"{what} failed in nbgrader: {reasons[0] if reasons else 'it does not say why'}")


def preprocessors() -> tuple[Any, ...]:
    """Return nbgrader's steps of autograding with its execution replaced by `evaluate`."""
    from nbconvert.preprocessors import ClearMetadataPreprocessor
    from nbgrader import preprocessors as steps

    class IsolatedExecute(steps.NbGraderPreprocessor):
        """Runs a notebook in an isolated process, and stores what came of it as outputs, where nbgrader looks."""

        def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
            key = resources["nbgrader"]["student"], resources["nbgrader"]["assignment"]
            evaluation = _EVALUATED.get(key) or evaluate(nb, Course().forbidden())
            return with_outputs(nb, evaluation), resources

    cleared = (IsolatedExecute, ClearMetadataPreprocessor, steps.LimitOutput)
    return (*cleared, steps.SaveAutoGrades, steps.AssignLatePenalties, steps.CheckCellMetadata)


def with_outputs(notebook: Any, evaluation: Evaluation) -> Any:
    """Store what an evaluated notebook printed, and what failed, as outputs of its cells."""
    from nbformat.v4 import new_output

    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.execution_count, cell.outputs = number + 1, []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        mark = cell.metadata.get("nbgrader", {})
        if evaluation.printed.get(place):
            cell.outputs.append(new_output("stream", name="stdout", text=evaluation.printed[place]))
        failed = evaluation.failures.get(mark.get("grade_id"), "was not run") if mark.get("grade") else None
        failed = failed or evaluation.errors.get(place)
        if failed:
            kind, _, words = failed.partition(": ")
            kind, words = (kind, words) if words and kind.isidentifier() else ("AssertionError", failed)
            cell.outputs.append(new_output("error", ename=kind, evalue=words, traceback=[f"{kind}: {words}"]))
    return notebook
