"""What the build stores of a run: nothing, where other programs took too much of the cores beside it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from execution import Crowded, execute

BURN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end:\n    pass"


@contextlib.contextmanager
def neighbours():
    """As many programs as there are cores, none of them started by the build, which want all of every core."""
    command = [sys.executable, "-c", BURN.format(seconds=600)]
    others = [subprocess.Popen(command) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def checkout(root, tmp_path):
    """A checkout with one short notebook, which was built before."""
    for name in ("build.py", "badges.py", "execution.py"):
        (tmp_path / "notebooks" / "source").mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "notebooks" / name, tmp_path / "notebooks" / name)
    shutil.copy(root / "pyproject.toml", tmp_path)
    source = tmp_path / "notebooks" / "source" / "00_wait.py"
    source.write_text(f"# %% [markdown]\n# # Wait\n\n# %%\n{BURN.format(seconds=1)}\nend > 0\n", encoding="utf-8")
    return tmp_path


@pytest.mark.long
def test_a_run_beside_other_programs_is_refused_in_a_sentence_and_the_notebook_stays(root, checkout):
    path = checkout / "notebooks" / "00_wait.ipynb"
    path.write_text("an older notebook", encoding="utf-8")
    command = [sys.executable, "notebooks/build.py", "--execute", "00"]
    with neighbours():
        environment = {**os.environ, "PYTHONPATH": str(root)}
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (said,) = (line for line in done.stderr.splitlines() if "00_wait is not stored" in line)
    assert re.search(r"other programs took \d+ % of the cores, allowed are 25 %", said)
    assert path.read_text(encoding="utf-8") == "an older notebook"


@pytest.mark.long
@pytest.mark.parametrize(("most", "refused"), [(0.05, True), (1.0, False), (None, False)])
def test_the_limit_is_what_the_caller_says(tmp_path, most, refused):
    cell = nbformat.v4.new_code_cell(BURN.format(seconds=1) + "\n6 * 7")
    with neighbours(), pytest.raises(Crowded) if refused else contextlib.nullcontext():
        done = execute(nbformat.v4.new_notebook(cells=[cell]), "burn", tmp_path, most_others=most)
        assert done.cells[0].outputs[0]["data"]["text/plain"] == "42"
