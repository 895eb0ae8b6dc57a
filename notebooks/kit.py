"""The kit: what students get, and nothing that they should not have.

    python notebooks/kit.py build/kit

Notebooks with stubs, the student versions of the problem sets, and the wheel, which also makes the photos. Solutions
and hidden tests stand in the checkout only.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lab_folder
from assignments.grader.course import Course

ROOT = Path(__file__).resolve().parents[1]
README = """# Input pipelines: the lab

In this folder, in a terminal (Python 3.10 to 3.13):

    python3 -m venv .venv
    .venv/bin/python -m pip install "{wheel}[tf,tfds,opencl,lab]"
    .venv/bin/labkit data
    .venv/bin/jupyter lab start.ipynb

The problem sets are in `problem_sets`. Hand in the notebook as you were told, with its name. Nothing of it is graded
by its speed. While it is graded there is no network, and no other process can be started (`multiprocessing`, workers of
a loader): an answer that needs one gets no points.
"""


def make(kit: Path) -> Path:
    """Write the kit to a folder, in place of what is there.

    Raises
    ------
    ValueError
        If the folder is there and is no kit.
    subprocess.CalledProcessError
        If the wheel cannot be built.
    """
    if kit.exists() and not list(kit.glob("labkit-*.whl")):
        raise ValueError(f"{kit} is no kit, and stays as it is; allowed: a new folder, or an older kit")
    kit.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kit.parent) as folder:
        fresh = Path(folder, "kit")
        lab_folder.prepare(fresh, anew=True)
        # Not in the gradebook: nbgrader releases no set there whose tests have changed since it was graded.
        for path in Course(Path(folder, "sets")).release():
            (fresh / "problem_sets").mkdir(exist_ok=True)
            shutil.copy(path, fresh / "problem_sets")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(fresh)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = fresh.glob("*.whl")
        (fresh / "README.md").write_text(README.format(wheel=wheel.name), encoding="utf-8")
        if kit.exists():
            kit.rename(Path(folder, "before"))
        fresh.rename(kit)
    return kit


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
