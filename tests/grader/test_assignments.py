"""Problem sets: released by nbgrader, handed in by a class of code, graded to the point."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import nbformat
import pytest
from class_of_25 import roster
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.api import MissingEntry
from typer.testing import CliRunner

from assignments.grader import batch, box
from assignments.grader.authoring import exercise, graded_cells, source_notebook
from assignments.grader.course import Course
from assignments.grader.precheck import precheck
from assignments.grader.supervisor import Limits
from labkit.cli import app


@pytest.fixture(scope="module")
def course(boxed, tmp_path_factory):
    course = Course(root=tmp_path_factory.mktemp("course"))
    course.release()
    return course


@pytest.fixture(scope="module")
def released(course):
    return {name: read(course, "release", name) for name in course.files}


def read(course, kind, name):
    return json.loads((course.root / kind / name / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.long
def test_every_submission_gets_its_exact_scores_and_a_sentence_that_fits(course, released, tmp_path):
    """In nbgrader's own gradebook and its feedback, too; and what students handed in is left as it is."""
    secret = course.root / "source" / roster.PS1 / f"{roster.PS1}.ipynb"
    expected = roster.make(tmp_path, released, {name: read(course, "source", name) for name in course.files}, secret)
    handed_in = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    found = {row.student: row for row in batch.grade(tmp_path, course, Limits(cpu_s=9, wall_s=60, memory_mb=1500))}
    assert set(found) == set(expected)
    assert len(found) >= 25
    for student, want in expected.items():
        row = found[student]
        assert (row.set_name, row.status, row.scores) == (want.set_name, want.status, want.scores), (student, row)
        assert want.words in row.sentence, (student, row)
        if want.status in ("graded", "repaired", "stopped"):
            with course.api().gradebook as book:
                assert book.find_submission(want.set_name, student).score == sum(want.scores.values()), student
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")} == handed_in
    assert course.api().generate_feedback(roster.PS1, "ben")["success"]
    (page,) = (course.root / "feedback").glob("ben/*/*.html")
    assert "time in two spans counts once" in page.read_text(encoding="utf-8")


def test_students_get_neither_solutions_nor_hidden_tests(released, sources, tmp_path):
    for name, notebook in released.items():
        tests = graded_cells(sources[name])
        assert {exercise(test) for test in tests} == set(roster.FULL[name])
        text = json.dumps(notebook)
        assert "HIDDEN" not in text
        assert "SOLUTION" not in text
        assert text.count("raise NotImplementedError") == len(roster.FULL[name])
        for test, cell in graded_cells(nbformat.from_dict(notebook)).items():
            assert 0 < len("".join(cell["source"]).strip()) < len(tests[test].source), test
        nbformat.validate(nbformat.from_dict(notebook))
        checked = check(tmp_path, sources, notebook, name)
        assert (checked.status, checked.notes) == ("ok", []), "the release itself needs no repair"


def test_plain_nbgrader_tests_hold_without_the_grader(sources, in_notebook):
    """The same cells, run by nobody but Python: nbgrader's own tools need nothing of labkit's grader."""
    for name in (roster.PS1, roster.PS3):
        assert in_notebook(sources[name]) == (roster.FULL[name], {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# %% solution='1.1'\nx = 1\n\n# %% tests='1.1' points=99\nassert x", "points sum to 99; allowed: 100"),
        ("# %% tests='1.1' points=100\nassert 1", "tests an exercise that has no solution cell"),
        ("# %% solution='1.1'\nx = 1\n\n# %% solution='1.1'\nx = 2\n\n# %% tests='1.1' points=100\n1", "used twice"),
    ],
)
def test_a_set_that_makes_no_sense_is_refused(tmp_path, text, words):
    (tmp_path / "ps9.py").write_text(text)
    with pytest.raises(ValueError, match=words):
        source_notebook(tmp_path / "ps9.py")


# -- the pre-check


def check(tmp_path, sources, content, name=roster.PS1):
    (tmp_path / "x.ipynb").write_text(json.dumps(content))
    return precheck(tmp_path / "x.ipynb", sources, name)


@pytest.mark.long
def test_after_the_precheck_every_graded_cell_is_there_once_with_the_sources_tests(tmp_path, sources, released):
    want = {roster.grade_id(cell): cell for cell in sources[roster.PS1].cells if roster.mark(cell)}
    deed = st.tuples(st.integers(0, 40), st.sampled_from(["double", "drop", "edit", "unmark", "type"]))

    @given(st.lists(deed, max_size=6))
    def law(deeds):
        notebook = json.loads(json.dumps(released[roster.PS1]))
        for place, deed in deeds:
            cells = notebook["cells"]
            cell = cells[place % len(cells)]
            if deed == "double":
                cells.insert(place % len(cells), json.loads(json.dumps(cell)))
            elif deed == "drop" and len(cells) > 1:
                cells.remove(cell)
            elif deed == "edit":
                cell["source"] = "edited = 1"
            elif deed == "unmark":
                cell["metadata"] = {}
            else:
                cell["cell_type"] = "markdown"
        found = check(tmp_path, sources, notebook).notebook
        marked = [cell for cell in found.cells if roster.mark(cell)]
        assert sorted(map(roster.grade_id, marked)) == sorted(want)
        for cell in marked:
            given = want[roster.grade_id(cell)]
            if not roster.mark(cell)["solution"]:
                assert (cell.source, roster.mark(cell)) == (given.source, roster.mark(given))
        nbformat.validate(found)

    law()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["cells", "nbformat", "metadata", "source", "cell_type", "nbgrader"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_trips_the_precheck(sources, place, content):
    assert check(place, sources, content).status in ("unreadable", "repaired", "ok")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("laws")


# -- the gradebook, and what the machine can afford


def flat(folder, student, content):
    folder.mkdir(exist_ok=True)
    (folder / f"{student}_{roster.PS3}.ipynb").write_text(content)
    return folder


@pytest.mark.long
def test_points_by_hand_are_in_the_table_after_the_next_run_until_nothing_can_be_read(course, tmp_path):
    folder = flat(tmp_path / "class", "nora", nbformat.writes(course.notebook(roster.PS3)))
    assert batch.grade(folder, course)[0].total == 100
    with course.api().gradebook as book:
        grade = book.find_grade("exercise_3_1_test_1", roster.PS3, roster.PS3, "nora")
        grade.manual_score, grade.extra_credit = 0.0, 3.0
        book.db.commit()
    (row,) = batch.grade(folder, course)
    assert (row.status, row.scores["3.1"], row.total) == ("repaired", 13, 93)
    assert row.sentence.endswith("; 3.1: 3 points for a test by hand, and not 10.")
    (row,) = batch.grade(flat(folder, "nora", "{"), course)
    assert (row.total, row.status) == (0, "unreadable")
    with course.api().gradebook as book, pytest.raises(MissingEntry):
        book.find_submission(roster.PS3, "nora")
    assert not list(course.root.glob(f"*/nora/{roster.PS3}"))


SMALL = """# %% solution="9.1"
x = 1

# %% tests="9.1" points={}
assert x == 1
"""


@pytest.mark.long
def test_a_set_whose_tests_have_changed_is_graded_anew_unless_points_by_hand_would_be_lost(tmp_path):
    course, path = Course(root=tmp_path / "course"), tmp_path / "ps9.py"

    def grade(text):
        path.write_text(text)
        course = Course(root=tmp_path / "course")
        course.files = {"ps9": path, **course.files}
        course.release(["ps9"])
        (tmp_path / "class" / "nora").mkdir(parents=True, exist_ok=True)
        nbformat.write(course.notebook("ps9"), tmp_path / "class" / "nora" / "ps9.ipynb")
        return batch.grade(tmp_path / "class", course)[0]

    assert grade(SMALL.format(100)).total == 100
    more = SMALL.format(60) + '\n# %% tests="9.1" points=40\nassert x == 2\n'
    assert (grade(more).total, grade(more).status) == (60, "graded")
    with course.api().gradebook as book:
        book.find_grade("exercise_9_1_test_2", "ps9", "ps9", "nora").manual_score = 40
        book.db.commit()
    assert grade(more).total == 100
    with pytest.raises(RuntimeError, match="ps9 has other tests than before, and points by hand for nora"):
        grade(SMALL.format(100))
    with course.api().gradebook as book:
        assert book.find_submission("ps9", "nora").score == 100


def test_where_memory_is_short_fewer_run_at_the_same_time(course, tmp_path, monkeypatch):
    """A submission of any set may import TensorFlow: two fit into memory without it, and not with it."""
    limits, messages = Limits(), []
    free = SimpleNamespace(available=2 * limits.resident_mb << 20)
    monkeypatch.setattr(batch.psutil, "virtual_memory", lambda: free)
    batch.grade(flat(tmp_path / "class", "paul", "{"), course, report=messages.append, trust=True)
    assert messages[1].startswith("1 at a time, not 2: a submission may take 3.2 GB, and 4.3 are free")


# -- the command line


def test_a_stopped_run_says_that_its_table_is_not_there(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Course, "release", lambda *_: [])
    monkeypatch.setattr(batch, "grade", stop)
    folder, out = flat(tmp_path / "class", "sam", "{"), tmp_path / "grades.csv"
    for old in ("", f": {out} is that of an earlier run"):
        done = CliRunner().invoke(app, ["assignments", "grade", str(folder), "--out", str(out), "--trust"])
        assert done.exit_code == 130
        assert done.output.strip() == f"labkit: stopped, and no table was written{old}"
        out.write_text("old")
    assert out.read_text() == "old"


def test_make_grade_without_a_folder_says_what_it_needs(root):
    done = subprocess.run(["make", "-n", "grade"], cwd=root, capture_output=True, text=True, check=False)
    assert "make grade SUBMISSIONS=" in done.stdout + done.stderr
    trusted = ["make", "-n", "grade", "SUBMISSIONS=x", "TRUST=1"]
    done = subprocess.run(trusted, cwd=root, capture_output=True, text=True, check=False)
    assert 'labkit assignments grade "x" --trust' in done.stdout


def test_without_a_box_nothing_is_released_or_graded(course, tmp_path, monkeypatch):
    monkeypatch.setattr(box, "refusal", lambda: "no wall: make grade TRUST=1")
    folder = flat(tmp_path / "class", "sam", "{")
    with pytest.raises(ValueError, match="no wall"):
        batch.grade(folder, course)
    monkeypatch.setattr(Course, "release", lambda *_: pytest.fail("released"))
    done = CliRunner().invoke(app, ["assignments", "grade", str(folder), "--out", str(tmp_path / "grades.csv")])
    assert done.exit_code == 1
    assert done.output == "labkit: no wall: make grade TRUST=1\n"


def test_a_folder_without_submissions_is_refused(course, tmp_path):
    with pytest.raises(ValueError, match="holds no submissions; allowed"):
        batch.grade(tmp_path, course)
    with pytest.raises(ValueError, match="is no folder; allowed"):
        batch.grade(tmp_path / "nowhere", course)
