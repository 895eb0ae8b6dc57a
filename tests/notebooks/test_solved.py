"""Every notebook with its exercises solved runs from top to bottom in a real kernel, and every check agrees."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from execution import execute
from labcourse import grading

pytestmark = pytest.mark.solved
ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_a_solved_notebook_runs_to_its_end_and_every_check_agrees(solved, name, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_FAST", "1")
    done = execute(nbformat.read(solved / f"{name}.ipynb", as_version=4), name, tmp_path)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    results = {}
    for cell in code:
        if asked := re.search(r'\bcheck\("([\d.]+)"', cell.source):
            results[asked[1]] = cell.outputs[-1].data["text/plain"]
    assert set(results) <= set(grading.numbers())
    # A measured check may find the machine too busy: `test_notebooks` checks again, and here it only must not fail.
    assert all(text.startswith(("✓", "?")) for text in results.values()), results
    assert not results or any(text.startswith("✓") for text in results.values())
