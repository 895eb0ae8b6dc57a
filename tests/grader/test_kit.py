"""What students get holds no line of a solution, and no line of a hidden test."""

from __future__ import annotations

import json
import subprocess
import zipfile

import jupytext
import pytest

import badges
import kit
import labcourse
from assignments.grader.precheck import released
from assignments.grader.supervisor import Limits
from labcourse import predictions

#: A shorter line says nothing: "return ds", ")".
LEAST = 20
#: What the instrument and its kernels must say themselves, whatever the exercises ask.
COMMON = {
    "const int x = get_global_id(0), y = get_global_id(1);",
    "options.threading.private_threadpool_size = threads",
}


def lines(text):
    return {line.strip() for line in text.splitlines() if len(line.strip()) >= LEAST}


def secrets(root):
    """Lines that are in no cell that students see."""
    shown, hidden = set(), set()
    for path in sorted((root / "notebooks" / "source").glob("*.py")):
        for cell in jupytext.read(path, fmt="py:percent").cells:
            (hidden if "solution" in cell.metadata.get("tags", []) else shown).update(lines(cell.source))
    for path in sorted((root / "notebooks" / "assignments").glob("ps*.py")):
        for cell in jupytext.read(path, fmt="py:percent").cells:
            shown |= lines(released(cell.source))
            hidden |= lines(cell.source)
    return hidden - shown - COMMON


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The kit of somebody who has begun the course."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_DATA", str(out / "data"))
        patch.delenv("LABKIT_FAST", raising=False)
        predictions.commit("00.busy", 0.5, unit="share")
        assert "1 of" in str(labcourse.progress())
        return kit.make(out / "kit")


def texts(folder):
    """Every text of the kit, by name, those in the wheel and in cells and outputs of notebooks included."""
    for path in folder.rglob("*"):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                for name in wheel.namelist():
                    yield name, wheel.read(name).decode(errors="replace")
        elif path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix == ".ipynb":
                cells = json.loads(text)["cells"]
                yield path.name, "\n".join("".join(cell["source"]) for cell in cells)
                text = text.replace("\\n", "\n").replace('\\"', '"')
            yield path.name, text


@pytest.mark.long
def test_the_kit_is_notebooks_problem_sets_and_the_wheel_and_tells_no_solution_or_hidden_test(made, root):
    found = {path.name for path in made.iterdir() if not path.name.startswith(".")}
    notebooks = {path.name for path in (root / "notebooks").glob("[0-9]*.ipynb")}
    (wheel,) = (name for name in found if name.endswith(".whl"))
    assert found == {*notebooks, wheel, "start.ipynb", "docs", "problem_sets", "README.md", "constraints.txt"}
    with zipfile.ZipFile(made.with_name("kit.zip")) as packed:
        files = {name for name in packed.namelist() if not name.endswith("/")}
    assert files == {f"kit/{p.relative_to(made).as_posix()}" for p in made.rglob("*") if p.is_file()}
    repository, _ = badges.settings(root)
    assert {p.stem for p in (made / "problem_sets").iterdir()} == {p.stem for p in kit.Course().files.values()}
    assert wheel in (made / "README.md").read_text()
    read, wanted = list(texts(made)), secrets(root)
    assert any(name.endswith("METADATA") for name, _ in read)
    assert not [name for name, text in read if repository in text], "leads to the solutions"
    assert any(name.startswith("labkit/_data/lab_photos/") for name, _ in read)
    assert len(wanted) > 150
    told = {(name, line) for name, text in read for line in wanted & lines(text)}
    assert not told, sorted(told)
    _, cell = json.loads((made / "start.ipynb").read_text(encoding="utf-8"))["cells"]
    table = "".join(cell["outputs"][0]["data"]["text/plain"])
    assert "Next: make the prediction 00.busy" in table, "the start page is that of somebody who has done nothing"
    assert "1 of" not in table


def test_a_folder_that_is_no_kit_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match="is no kit, and stays as it is"):
        kit.make(tmp_path)


def test_students_are_told_beforehand_what_a_submission_may_use(root):
    guide = (root / "docs" / "instructors" / "grading.md").read_text(encoding="utf-8")
    plain, more = Limits(), Limits().with_tensorflow()
    limits = (
        f"{plain.cpu_s} s of processor time, {plain.memory_mb >> 10} GB of memory and {plain.whole_s / 60:g} minutes"
    )
    larger_limits = f"{more.cpu_s} s, {more.resident_mb >> 10} GB of memory and {more.whole_s / 60:g} minutes"
    assert limits in guide
    assert larger_limits in guide
    assert f"after {plain.wall_s / 2:g} s of waiting (with TensorFlow {more.wall_s / 2:g} s)" in guide
    assert "`multiprocessing`" in guide
    assert "`multiprocessing`" in kit.README
    for path in sorted((root / "notebooks" / "assignments").glob("ps*.py")):
        given = path.read_text(encoding="utf-8")
        assert "a connection is refused, and an answer that needs one gets no points" in given
        assert "No other process starts either (`multiprocessing`, workers of a loader)" in given


def test_formgrader_starts_where_nbgrader_finds_its_configuration(root):
    commands = subprocess.run(["make", "-n", "formgrader"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert "cd notebooks/assignments &&" in commands
    assert (root / "notebooks" / "assignments" / "nbgrader_config.py").exists()
    assert "--ServerApp.root_dir=../../build/assignments" in commands
    assert kit.Course().root == root / "build" / "assignments"
