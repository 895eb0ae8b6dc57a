"""Problem sets: released by nbgrader, handed in by a class of code, graded to the point."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from class_of_25 import roster
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.api import MissingEntry
from typer.testing import CliRunner

from assignments.grader import batch, box
from assignments.grader.authoring import exercise, source_notebook
from assignments.grader.course import Course
from assignments.grader.precheck import precheck
from assignments.grader.supervisor import Limits
from labkit.cli import app


@pytest.fixture(scope="module")
def course(boxed, tmp_path_factory):
    course = Course(root=tmp_path_factory.mktemp("course"))
    course.release()
    return course


def read(course, kind, name):
    return json.loads((course.root / kind / name / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def released(course):
    return {name: read(course, "release", name) for name in course.files}


@pytest.fixture(scope="module")
def sources(course):
    return {name: read(course, "source", name) for name in course.files}


@pytest.fixture(scope="module")
def graded(course, released, sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    secret = course.root / "source" / roster.PS1 / f"{roster.PS1}.ipynb"
    expected = roster.make(folder, released, sources, secret)
    rows = batch.grade(folder, course, Limits(cpu_s=9, wall_s=60, memory_mb=1500))
    return expected, {row.student: row for row in rows}


@pytest.mark.long
def test_every_submission_gets_its_exact_scores_and_a_sentence_that_fits(graded):
    expected, rows = graded
    assert set(rows) == set(expected)
    assert len(rows) >= 25
    for student, want in expected.items():
        row = rows[student]
        assert (row.set_name, row.status, row.scores) == (want.set_name, want.status, want.scores), (student, row)
        assert want.words in row.sentence, (student, row)


@pytest.mark.long
def test_nbgraders_own_gradebook_holds_the_same_points(course, graded):
    expected, rows = graded
    with course.api().gradebook as book:
        for student, want in expected.items():
            if want.status in ("graded", "repaired", "stopped"):
                assert book.find_submission(want.set_name, student).score == sum(want.scores.values()), student
    assert all(row.status != "error" for row in rows.values())


@pytest.mark.long
def test_nbgraders_feedback_shows_what_failed(course, graded):
    assert course.api().generate_feedback(roster.PS1, "ben")["success"]
    (page,) = (course.root / "feedback").glob("ben/*/*.html")
    assert "time in two spans counts once" in page.read_text(encoding="utf-8")


def test_points_sum_to_100_and_every_test_cell_stands_alone(course):
    for name, notebook in course.notebooks().items():
        tests = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade")]
        assert sum(c.metadata["nbgrader"]["points"] for c in tests) == 100, name
        assert all("HIDDEN TESTS" in c.source for c in tests), name
        assert len({exercise(c.metadata["nbgrader"]["grade_id"]) for c in tests}) >= 4, name


def test_students_get_neither_solutions_nor_hidden_tests(released, sources):
    for name, notebook in released.items():
        text = json.dumps(notebook)
        assert "HIDDEN" not in text
        assert "SOLUTION" not in text
        assert text.count("raise NotImplementedError") == len(roster.FULL[name])
        source = {roster.grade_id(c): "".join(c["source"]) for c in sources[name]["cells"]}
        for cell in notebook["cells"]:
            if roster.mark(cell).get("grade"):
                assert "".join(cell["source"]).strip(), roster.grade_id(cell)
                assert len("".join(cell["source"])) < len(source[roster.grade_id(cell)])


def test_a_released_notebook_is_valid_and_runs_in_the_first_cell(released):
    for notebook in released.values():
        nbformat.validate(nbformat.from_dict(notebook))


def test_plain_nbgrader_tests_hold_without_the_grader(course):
    """The same cells, run by nobody but Python: nbgrader's own tools need nothing of labkit's grader."""
    for name in (roster.PS1, roster.PS3):
        names: dict = {}
        for cell in course.notebook(name).cells:
            if cell.cell_type == "code" and " -m pip install " not in cell.source:
                exec(cell.source, names)
            elif cell.cell_type == "code":
                exec(cell.source.split("\n\n", 1)[1], names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# %% solution='1.1'\nx = 1\n\n# %% tests='1.1' points=99\nassert x", "points sum to 99; allowed: 100"),
        ("# %% tests='1.1' points=100\nassert 1", "tests an exercise that has no solution cell"),
        ("# %% solution='1.1'\nx = 1\n\n# %% solution='1.1'\nx = 2\n\n# %% tests='1.1' points=100\n1", "used twice"),
    ],
)
def test_a_set_that_makes_no_sense_is_refused(tmp_path, root, text, words):
    (tmp_path / "ps9.py").write_text(text)
    with pytest.raises(ValueError, match=words):
        source_notebook(tmp_path / "ps9.py", root)


# -- the pre-check


def check(tmp_path, course, content, name=roster.PS1):
    path = tmp_path / "x.ipynb"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return precheck(path, course.notebooks(), name)


def test_the_release_itself_needs_no_repair(tmp_path, course, released):
    for name, notebook in released.items():
        checked = check(tmp_path, course, notebook, name)
        assert (checked.status, checked.notes) == ("ok", [])


@pytest.mark.long
def test_after_the_precheck_every_graded_cell_is_there_once_with_the_sources_tests(tmp_path, course, released):
    names = [
        c["metadata"]["nbgrader"]["grade_id"] for c in course.notebook(roster.PS1).cells if "nbgrader" in c.metadata
    ]

    @given(
        st.lists(
            st.tuples(st.integers(0, 40), st.sampled_from(["double", "drop", "edit", "unmark", "type"])), max_size=6
        )
    )
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
        checked = check(tmp_path, course, notebook)
        found = [c.metadata["nbgrader"]["grade_id"] for c in checked.notebook.cells if "nbgrader" in c.metadata]
        assert sorted(found) == sorted(names)
        want = {
            c.metadata["nbgrader"]["grade_id"]: c for c in course.notebook(roster.PS1).cells if "nbgrader" in c.metadata
        }
        for cell in checked.notebook.cells:
            mark = cell.metadata.get("nbgrader")
            if mark and not mark["solution"]:
                assert (cell.source, mark) == (
                    want[mark["grade_id"]].source,
                    want[mark["grade_id"]].metadata["nbgrader"],
                )
        nbformat.validate(checked.notebook)

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
def test_no_json_trips_the_precheck(course_for_laws, content):
    tmp_path, course = course_for_laws
    assert check(tmp_path, course, content).status in ("unreadable", "repaired", "ok")


@pytest.fixture(scope="module")
def course_for_laws(course, tmp_path_factory):
    return tmp_path_factory.mktemp("laws"), course


def test_a_link_is_not_followed(tmp_path, course):
    (tmp_path / "x.ipynb").symlink_to(course.root / "source" / roster.PS1 / f"{roster.PS1}.ipynb")
    assert precheck(tmp_path / "x.ipynb", course.notebooks(), roster.PS1).status == "unreadable"


@pytest.mark.long
def test_what_students_handed_in_is_left_as_it_is(course, graded, released, tmp_path):
    folder = tmp_path / "eve" / roster.PS3
    folder.mkdir(parents=True)
    edited = json.dumps(released[roster.PS3]).replace("assert", "assert True or")
    (folder / "any name.ipynb").write_text(edited)
    (row,) = batch.grade(tmp_path, course)
    assert row.status == "repaired"
    assert (folder / "any name.ipynb").read_text() == edited


# -- what the machine is to blame for, and what it can afford


def flat(folder, notebooks):
    folder.mkdir(exist_ok=True)
    for student, content in notebooks.items():
        (folder / f"{student}_{roster.PS3}.ipynb").write_text(content)
    return folder


def test_who_hands_in_what_cannot_be_read_loses_the_earlier_grade(course, tmp_path):
    right = nbformat.writes(course.notebook(roster.PS3))
    (first,) = batch.grade(flat(tmp_path / "1", {"nora": right}), course)
    assert first.total == 100
    with course.api().gradebook as book:
        assert book.find_submission(roster.PS3, "nora").score == 100
    (second,) = batch.grade(flat(tmp_path / "2", {"nora": "{"}), course)
    assert (second.total, second.status) == (0, "unreadable")
    with course.api().gradebook as book, pytest.raises(MissingEntry):
        book.find_submission(roster.PS3, "nora")
    assert not list(course.root.glob(f"*/nora/{roster.PS3}"))


@pytest.mark.parametrize(
    ("by_hand", "extra"), [(4.0, None), pytest.param(None, 2.0, marks=pytest.mark.long), (0.0, 3.0)]
)
def test_points_by_hand_are_in_the_table_after_the_next_run(course, tmp_path, by_hand, extra):
    folder = flat(tmp_path / "class", {"hand": nbformat.writes(course.notebook(roster.PS3))})
    batch.grade(folder, course)
    with course.api().gradebook as book:
        grade = book.find_grade("exercise_3_1_test_1", roster.PS3, roster.PS3, "hand")
        grade.manual_score, grade.extra_credit = by_hand, extra
        book.db.commit()
    counts = (10.0 if by_hand is None else by_hand) + (extra or 0)
    (row,) = batch.grade(folder, course)
    assert (row.status, row.scores["3.1"], row.total) == ("repaired", 10 + counts, 90 + counts)
    assert row.sentence.endswith(f"; 3.1: {counts:g} points for a test by hand, and not 10.")


def test_what_ended_in_an_error_has_no_total(tmp_path):
    line = next(csv.DictReader(io.StringIO(batch.table([batch.Row("ada", roster.PS3, "x", "error", {"3.1": 7})]))))
    assert (line["status"], line["total"]) == ("error", "")


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


@pytest.mark.parametrize(("failing", "status"), [(1, "repaired"), (3, "error")])
def test_a_process_that_does_not_start_gets_a_second_try_and_no_zero(course, tmp_path, monkeypatch, failing, status):
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
echo x >> {tmp_path}/starts
[ $(wc -l < {tmp_path}/starts) -le {failing} ] && exit 3
exec {sys.executable} "$@"
"""
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    messages = []
    folder = flat(tmp_path / "class", {"olga": nbformat.writes(course.notebook(roster.PS3))})
    (row,) = batch.grade(folder, course, report=messages.append, trust=True)  # a box would not find this Python
    assert messages[0] == batch.TRUSTED
    assert row.status == status, row
    line = next(csv.DictReader(io.StringIO(batch.table([row]))))
    assert line["total"] == {"repaired": "100", "error": ""}[status]
    assert ("this is no zero, grade it again" in row.sentence) == (status == "error")


def test_where_memory_is_short_fewer_run_at_the_same_time(course, tmp_path):
    messages = []
    folder = flat(tmp_path / "class", {"paul": "{", "rosa": "{"})
    batch.grade(folder, course, Limits(memory_mb=10**8), workers=5, report=messages.append)
    assert messages[0].startswith("1 at a time, not 5: a submission may take ")


def test_a_submission_of_any_set_may_import_tensorflow(course, tmp_path, monkeypatch):
    """Two fit into memory without it, and not with it."""
    limits, messages = Limits(), []
    assert limits.with_tensorflow().resident > limits.resident
    free = SimpleNamespace(available=2 * limits.resident << 20)
    monkeypatch.setattr(batch.psutil, "virtual_memory", lambda: free)
    batch.grade(flat(tmp_path / "class", {"paul": "{", "rosa": "{"}), course, report=messages.append, trust=True)
    assert messages[1].startswith("1 at a time, not 2: a submission may take ")


# -- the command line


def test_a_stopped_run_says_that_its_table_is_not_there(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Course, "release", lambda *_: [])
    monkeypatch.setattr(batch, "grade", stop)
    folder, out = flat(tmp_path / "class", {"sam": "{"}), tmp_path / "grades.csv"
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
    folder = flat(tmp_path / "class", {"sam": "{"})
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
