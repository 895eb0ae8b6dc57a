"""From the text of a problem set to an nbgrader source notebook.

A source is ``notebooks/assignments/psN_verb_object.py`` in py:percent format. Code cells carry what they are::

    # %% solution="1.1"            the student writes here; ### BEGIN SOLUTION / ### END SOLUTION mark what is taken out
    # %% tests="1.1" points=10     asserts; ### BEGIN HIDDEN TESTS / ### END HIDDEN TESTS mark what students do not get
    # %% given="spans"             code that students see and need not change
    # %% bootstrap=true            imports; what brings labkit to Colab is put before them

Every other cell is prose. A test cell must import what it needs: cells before it may have been changed or deleted.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import Any

from badges import KIT

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
POINTS = 100


def source_notebook(path: Path) -> Any:
    """Return the nbgrader source notebook of one problem set.

    Parameters
    ----------
    path : Path
        The py:percent file.

    Raises
    ------
    ValueError
        If points do not sum to 100, a test has no solution cell, a name is used twice, or code is not Python.
    """
    import jupytext
    import nbformat

    cells, counts, points = [], {}, 0.0
    for cell in jupytext.read(path, fmt="py:percent").cells:
        meta = dict(cell.metadata)
        if cell.cell_type != "code":
            cells.append(nbformat.v4.new_markdown_cell(cell.source))
            continue
        made = nbformat.v4.new_code_cell(cell.source)
        if "solution" in meta:
            made.metadata["nbgrader"] = _nbgrader(f"exercise_{_id(meta['solution'])}", solution=True)
        elif "tests" in meta:
            number = str(meta["tests"])
            counts[number] = counts.get(number, 0) + 1
            grade_id = f"exercise_{_id(number)}_test_{counts[number]}"
            made.metadata["nbgrader"] = _nbgrader(grade_id, points=float(meta.get("points", 0)))
            points += float(meta.get("points", 0))
        elif "given" in meta or "bootstrap" in meta:
            made.metadata["nbgrader"] = _nbgrader(f"given_{meta.get('given', 'start')}")
            if "bootstrap" in meta:
                made.source = f"{KIT}\n\n{made.source}".rstrip()
        cells.append(made)
    _check(path, cells, points)
    for number, cell in enumerate(cells):
        cell["id"] = hashlib.sha256(f"{path.stem}\n{number}\n{cell.source}".encode()).hexdigest()[:10]
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def _id(number: Any) -> str:
    return str(number).replace(".", "_")


def _nbgrader(grade_id: str, *, solution: bool = False, points: float | None = None) -> dict[str, Any]:
    made = {"schema_version": 3, "grade_id": grade_id, "solution": solution, "task": False}
    made |= {"grade": points is not None, "locked": not solution}
    return made if points is None else made | {"points": points}


def _check(path: Path, cells: list[Any], points: float) -> None:
    ids = [cell.metadata["nbgrader"]["grade_id"] for cell in cells if "nbgrader" in cell.metadata]
    double = sorted({i for i in ids if ids.count(i) > 1})
    if double:
        raise ValueError(f"{path.name}: {double[0]} is used twice; allowed: each number once")
    if points != POINTS:
        raise ValueError(f"{path.name}: points sum to {points:g}; allowed: {POINTS}")
    for grade_id in ids:
        if "_test_" in grade_id and grade_id.split("_test_")[0] not in ids:
            raise ValueError(f"{path.name}: {grade_id} tests an exercise that has no solution cell")
    for cell in cells:
        if cell.cell_type == "code" and " -m pip install " not in cell.source:
            ast.parse(cell.source)


def exercise(grade_id: str) -> str:
    """Return the number of the exercise that a test cell belongs to: ``"1.2"`` for ``exercise_1_2_test_1``."""
    return grade_id.split("_test_")[0].removeprefix("exercise_").replace("_", ".")


def graded_cells(notebook: Any) -> dict[str, Any]:
    """Return the test cells of a set, by the id of their mark."""
    marks = ((cell, cell.metadata.get("nbgrader", {})) for cell in notebook.cells)
    return {mark["grade_id"]: cell for cell, mark in marks if mark.get("grade")}
