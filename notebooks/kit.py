"""The kit: what students get, and nothing that they should not have.

    python notebooks/kit.py build/kit

Notebooks with stubs, the student versions of the problem sets, and the wheel, which also makes the photos. Solutions
and hidden tests stand in the checkout only, and nothing in the kit says where that is: the wheel is made without the
README, and without the address of the repository.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lab_folder
from assignments.grader.course import Course

ROOT = Path(__file__).resolve().parents[1]
README = """# Input pipelines: the lab

You need Python 3.10 to 3.13, 3 GB of disk, and the network once. In this folder, in a terminal of Linux or macOS:

    python3 -m venv .venv
    .venv/bin/python -m pip install -c constraints.txt "{wheel}[tf,tfds,opencl,lab]"
    .venv/bin/labkit data
    .venv/bin/jupyter lab start.ipynb

On Windows, with the version of Python that you have:

    py -3.13 -m venv .venv
    .venv\\Scripts\\python -m pip install -c constraints.txt "{wheel}[tf,tfds,opencl,lab]"
    .venv\\Scripts\\labkit data
    .venv\\Scripts\\jupyter lab start.ipynb

On every other day the last line is enough. What you save here nothing overwrites.

`labcourse.submit("your id")` in the last cell of a notebook writes `result-….json` beside it: your predictions,
exercises and tables, with a pseudonym in place of your name. Hand that file in where you were told to.

The problem sets are in `problem_sets`. Hand in the notebook as you were told, with its name. Nothing of it is graded
by its speed. While it is graded there is no network, and no other process can be started (`multiprocessing`, workers of
a loader): an answer that needs one gets no points.
"""


def make(kit: Path) -> Path:
    """Write the kit to a folder, in place of what is there, and the same as one zip beside it; return the folder.

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
        source = _without_address(Path(folder, "source"))
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(fresh)]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
        (wheel,) = fresh.glob("*.whl")
        (fresh / "README.md").write_text(README.format(wheel=wheel.name), encoding="utf-8")
        shutil.copy(ROOT / "constraints.txt", fresh)
        packed = shutil.make_archive(str(Path(folder, "packed")), "zip", folder, fresh.name)
        if kit.exists():
            kit.rename(Path(folder, "before"))
        fresh.rename(kit)
        Path(packed).replace(kit.with_name(f"{kit.name}.zip"))
    return kit


def _without_address(source: Path) -> Path:
    """Copy what a wheel is made of, without what its metadata say of the repository; return the folder."""
    for name in ("labkit", "labcourse", "labextras", "data", "kernels"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", source)
    told = re.compile(r"(?m)^readme = .*\n|^\[project\.urls\]\n(?:\w.*\n)+")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (source / "pyproject.toml").write_text(told.sub("", project), encoding="utf-8")
    return source


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
