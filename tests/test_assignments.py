"""Problem sets: released by nbgrader, handed in by a class of code, graded to the point."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import io
import itertools
import json
import os
import platform
import subprocess
import sys
import time

import nbformat
import numpy as np
import psutil
import pytest
from class_of_25 import roster
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from labkit.assignments import batch, wire
from labkit.assignments.authoring import exercise, source_notebook
from labkit.assignments.course import Course
from labkit.assignments.judge import judge
from labkit.assignments.precheck import precheck
from labkit.assignments.sandbox import Limits, Stopped, Student


@pytest.fixture(scope="module")
def course(tmp_path_factory):
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
    rows = batch.grade(folder, course, Limits(cpu_s=5, wall_s=60, memory_mb=1500))
    return expected, {row.student: row for row in rows}


def test_the_class_is_as_large_as_it_is_called(graded):
    expected, rows = graded
    assert set(rows) == set(expected)
    assert len(rows) >= 25


def test_every_submission_gets_its_exact_scores_and_a_sentence_that_fits(graded):
    expected, rows = graded
    for student, want in expected.items():
        row = rows[student]
        assert (row.set_name, row.status, row.scores) == (want.set_name, want.status, want.scores), (student, row)
        assert want.words in row.sentence, (student, row)


def test_nbgraders_own_gradebook_holds_the_same_points(course, graded):
    expected, rows = graded
    with course.api().gradebook as book:
        for student, want in expected.items():
            if want.status in ("graded", "repaired", "stopped"):
                assert book.find_submission(want.set_name, student).score == sum(want.scores.values()), student
    assert all(row.status != "error" for row in rows.values())


def test_nbgraders_feedback_shows_what_failed(course, graded):
    assert course.api().generate_feedback(roster.PS1, "ben")["success"]
    (page,) = (course.root / "feedback").glob("ben/*/*.html")
    assert "time in two spans counts once" in page.read_text(encoding="utf-8")


def test_the_table_has_a_row_for_each_submission_and_no_formulas(graded):
    _, rows = graded
    evil = batch.Row("=cmd()", "ps", "x", "error", {}, "+1")
    lines = list(csv.DictReader(io.StringIO(batch.table([*rows.values(), evil]))))
    assert len(lines) == len(rows) + 1
    ben = next(line for line in lines if line["student"] == "ben")
    assert (ben["total"], ben["of"], ben["1.1"], ben["3.1"], ben["status"]) == ("88", "100", "8", "", "graded")
    assert lines[-1]["student"] == "'=cmd()"
    assert lines[-1]["sentence"] == "'+1"


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


def test_plain_nbgrader_tests_hold_without_the_sandbox(course):
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


@settings(deadline=None)
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


# -- the sandbox


def run(*cells, limits=None, forbidden=()):
    return Student(cells, forbidden, limits or Limits(cpu_s=5, wall_s=60, memory_mb=1500))


def test_functions_answer_from_their_own_process():
    with run("import os\ndef who(x, *, y=1):\n    return os.getpid(), x, y\nvalue = 7") as student:
        names = student.names(["who", "value", "nobody"])
        pid, x, y = names["who"]([1, (2, "b")], y={"k": 0.5})
        assert (x, y, names["value"]) == ([1, (2, "b")], {"k": 0.5}, 7)
        assert pid == student.process.pid
        assert pid != os.getpid()
        assert "nobody" not in names


def test_what_a_function_raises_arrives_as_what_it_was():
    with run(
        "def f():\n    raise ValueError('no')\nclass Own(KeyError): pass\ndef g():\n    raise Own('x')"
    ) as student:
        names = student.names(["f", "g"])
        with pytest.raises(ValueError, match="no"):
            names["f"]()
        with pytest.raises(KeyError, match="Own"):
            names["g"]()


def test_a_sleeper_is_woken():
    with pytest.raises(Stopped, match=r"within 1 s in code cell 1"):
        run("import time\ntime.sleep(600)", limits=Limits(wall_s=1))


def test_who_does_not_read_is_not_waited_for():
    """The reply of the first cell is forged, and the next cell is longer than a pipe."""
    forged = """
import os, sys, time
frame = sys._getframe()
while frame.f_code.co_name != "main":
    frame = frame.f_back
os.write(frame.f_locals["told"], b'{"cell": 1, "text": "", "error": null}\\n')
time.sleep(600)
"""
    with pytest.raises(Stopped, match=r"within 2 s in code cell 1"):
        run(forged, f"# {'x' * 99_000}", limits=Limits(wall_s=2))


def test_a_cell_longer_than_a_pipe_arrives_whole():
    with run("x = 1", f"text = {'y' * 99_000!r}") as student:
        assert student.names(["text"]) == {"text": "y" * 99_000}


@pytest.mark.parametrize("raised", ["MemoryError()", "OSError(__import__('errno').ENOMEM, 'no memory')"])
def test_memory_that_is_refused_ends_a_submission_where_it_ends_a_cell(raised):
    with pytest.raises(Stopped, match="took more memory than allowed in code cell 1"):
        run(f"raise {raised}")
    with run(f"try:\n    raise {raised}\nexcept Exception:\n    x = 1") as student:
        assert student.names(["x"]) == {"x": 1}


def test_the_process_and_its_folder_are_gone_afterwards():
    busy = "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()"
    with run("open('left', 'w').write('x')", busy) as student:
        home, pid = student.home, student.process.pid
        assert (home / "left").exists()
    assert not home.exists()
    assert not psutil.pid_exists(pid)


def test_it_dies_with_its_parent():
    cell = "import time\ndef f():\n    time.sleep(600)"
    code = (
        "from labkit.assignments.sandbox import Student, Limits\n"
        f"s = Student([{cell!r}], [], Limits())\nprint(s.process.pid, flush=True)\ns.names(['f'])['f']()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1)  # it sleeps in the call by now, and does not see that the pipe is closed
    parent.kill()
    parent.wait()
    assert psutil.wait_procs([child], timeout=60)[1] == []


def test_nothing_of_the_instructors_environment_is_inside(monkeypatch):
    monkeypatch.setenv("GRADEBOOK_PASSWORD", "s3cret")
    with run("import os\neverything = dict(os.environ)") as student:
        assert "s3cret" not in str(student.names(["everything"]))


needs_walls = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these walls")


@needs_walls
@pytest.mark.parametrize(
    "attempt",
    [
        "open({path!r}).read()",
        "__import__('subprocess').run(['cat', {path!r}], capture_output=True, check=True)",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "open('/proc/1/environ').read()",
        # A submission must not slow its grader down, either: that lasts, and the next one would pay for it.
        "__import__('os').setpriority(0, __import__('os').getppid(), 19) or 'done'",
        "__import__('os').sched_setaffinity(__import__('os').getppid(), {{0}}) or 'done'",
        "__import__('os').sched_setscheduler(__import__('os').getppid(), 5, __import__('os').sched_param(0)) or 'done'",
        "__import__('resource').prlimit(__import__('os').getppid(), 0, (9**9, 9**9)) or 'done'",
        "open('/etc/labkit-test', 'w')",
    ],
)
def test_what_lies_outside_is_out_of_reach(tmp_path, attempt):
    (tmp_path / "plain.txt").write_text("truth")
    source = attempt.format(path=str(tmp_path / "plain.txt"))

    def ours():
        return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), os.sched_getscheduler(0)

    before = ours()
    with contextlib.suppress(Stopped), run(f"got = None\ngot = {source}") as student:
        if all(student.walls.values()):
            assert student.names(["got"])["got"] is None
            assert student.errors[0]
            assert ours() == before


@needs_walls
def test_every_wall_that_this_system_offers_is_put_up():
    """Asked for by other means, so that a wall that has fallen down is noticed."""
    landlock = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1
    with open("/proc/self/status", encoding="utf-8") as status:
        seccomp = "Seccomp:" in status.read() and platform.machine() in ("x86_64", "aarch64")
    namespace = subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode == 0
    with run("x = 1") as student:
        walls = student.walls
    assert walls["limits"]
    assert (walls["files"], walls["system calls"]) == (landlock, seccomp)
    assert walls["network namespace"] or not namespace


@needs_walls
def test_past_python_there_is_no_process_and_no_network_either():
    native = "import ctypes\nlibc = ctypes.CDLL(None)\n"
    with run(f"{native}made = libc.fork()") as student:
        if student.walls["system calls"]:
            assert student.names(["made"])["made"] == -1
    with pytest.raises(Stopped, match="network"):
        run(f"{native}libc.socket(2, 1, 0)", "import time\ntime.sleep(600)").close()


@needs_walls
def test_memory_that_no_process_owns_is_refused():
    native = "import ctypes\nlibc = ctypes.CDLL(None)\n"
    hides = "libc.prctl(4, 0, 0, 0, 0)"  # its open files
    with run(f"{native}made = libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), {hides}") as student:
        if student.walls["system calls"]:
            assert student.names(["made"])["made"] == (-1, -1, -1)


@needs_walls
def test_deleted_files_count_while_they_are_open():
    cell = """
import os, time
held = []
for _ in range(10):
    held.append(open("x", "wb"))
    os.unlink("x")
    held[-1].truncate(60 << 20)
time.sleep(30)
"""
    with pytest.raises(Stopped, match="wrote more files than allowed"):
        run(cell)
    # Many names of one file are one file.
    again = cell.replace("range(10)", "range(1)").replace("sleep(30)", "sleep(2.5)")
    run(again.replace("time.sleep", "more = [os.dup(held[0].fileno()) for _ in range(20)]\ntime.sleep")).close()


@pytest.mark.parametrize("place", [f"notebooks/assignments/{roster.PS1}.py", "tests/class_of_25/answers.py", ".git"])
def test_to_try_for_the_answers_in_the_checkout_is_told(course, root, place):
    with pytest.raises(Stopped, match="tried to read the answers"):
        run(f"open({str(root / place)!r})", forbidden=course.forbidden())


def test_where_only_the_hook_stands_it_refuses_and_tells(tmp_path):
    """As on a system without Landlock, filter and namespace."""
    for name in ("home", "answers", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    code = f"""
import os, shutil, subprocess
from pathlib import Path
from labkit.assignments import confine, sandbox
root, said = Path({str(tmp_path)!r}), []
class Told(BaseException): pass
def say(what, sentence):
    said.append(what)
    raise Told
readable = sandbox._readable()
confine._hook(root / "home", readable, [root / "answers"], say, files=True, processes=True)
for attempt in (
    lambda: open(root / "home" / "x.txt"), lambda: open(root / "elsewhere" / "x.txt"),
    lambda: subprocess.run(["true"]), lambda: open(root / "answers" / "x.txt"),
    lambda: os.listdir(root / "answers"), lambda: os.fork(), lambda: __import__("socket").socket(),
    lambda: open(root / "home" / ".." / "answers" / "x.txt"),
    # A path may lead on from a folder that is open.
    lambda: os.open(root / "elsewhere", os.O_RDONLY), lambda: os.open("/etc", os.O_RDONLY),
    lambda: os.makedirs(root / "home" / "a" / "b") or os.chdir(root / "home" / "a" / "b"),
    lambda: open("../../x.txt"), lambda: os.mkdir("made") or shutil.rmtree("made"),
    lambda: os.open("../../answers/x.txt", os.O_RDONLY, dir_fd=os.open(root / "home" / "a", os.O_RDONLY)),
    lambda: os.open("../answers/x.txt", os.O_RDONLY, dir_fd=os.open(root / "home", os.O_RDONLY)),
    lambda: open(root / "home" / "x.txt"), lambda: open("x.txt", "w"),
):
    try:
        attempt()
        said.append("ok")
    except PermissionError:
        said.append("refused")
    except Told:
        pass
print(*said)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, rest = "ok refused refused answers answers processes network answers", "refused refused ok ok ok"
    assert done.stdout.split() == f"{first} {rest} refused answers ok ok".split()


def test_a_pool_of_threads_and_a_drawing_are_allowed():
    cell = (
        "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(3) as p:\n    n = sum(p.map(int, '123'))"
    )
    with run(cell, "import subprocess\ntry:\n    subprocess.run(['true'])\nexcept OSError:\n    pass") as student:
        assert student.errors == [None, None]
        assert student.names(["n"]) == {"n": 6}


def test_a_submission_that_lies_about_its_limits_is_judged_all_the_same():
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))\nf = 3")]
    )
    test = nbformat.v4.new_code_cell("assert f == 3")
    test.metadata["nbgrader"] = {"grade": True, "solution": False, "grade_id": "t"}
    notebook.cells.append(test)
    judged = judge(notebook, [])
    assert set(judged.errors) == {0}
    assert judged.failures["t"].startswith("name 'f'")


@pytest.mark.parametrize(("name", "value"), [("cpu_s", 0), ("wall_s", 0), ("memory_mb", 10)])
def test_impossible_limits_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


# -- what passes between them

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value):
    back = wire.unpack(json.loads(wire.line(wire.pack(value))))
    assert back == value
    assert type(back) is type(value)


def test_what_a_loop_can_take_arrives_as_a_list():
    for made in ((v for v in [1, 2]), map(abs, [1, -2]), {1: 0, 2: 0}.keys(), range(1, 3), reversed([2, 1])):
        assert wire.unpack(json.loads(wire.line(wire.pack(made)))) == [1, 2]
    assert len(wire.unpack(wire.pack(itertools.repeat(0)))) == 100_000


@given(
    arrays.arrays(
        st.sampled_from([np.int64, np.float32, np.uint8, np.bool_]), arrays.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_come_back_with_dtype_and_shape(value):
    back = wire.unpack(json.loads(wire.line(wire.pack(value))))
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    np.testing.assert_array_equal(back, value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.sampled_from(list("ifbodltsna")), i, max_size=1),
        max_leaves=8,
    )
)
def test_forged_replies_are_refused_or_plain(message):
    with contextlib.suppress(ValueError):  # and nothing else
        wire.unpack(message)


@pytest.mark.parametrize(
    "forged",
    ["[]", "7", "{}", '{"breach": []}', '{"id": "0", "value": 1}', '{"cell": 0, "error": 5}', "not json", "[" * 5000],
)
def test_a_student_who_writes_into_the_pipe_gains_nothing(forged):
    each = f"try: os.write(n, {forged!r}.encode() + b'\\n')\n    except OSError: pass"
    write = f"import os\nfor n in range(3, 20):\n    {each}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(write), nbformat.v4.new_code_cell("x = 1")])
    test = nbformat.v4.new_code_cell("assert f(1) == 3")
    test.metadata["nbgrader"] = {"grade": True, "solution": False, "grade_id": "t"}
    notebook.cells.append(test)
    judged = judge(notebook, [])
    assert judged.failures["t"]


def test_an_answer_to_no_question_is_no_answer():
    cell = """
import os
def f():
    for n in range(3, 20):
        try: os.write(n, b'{"id": "0", "value": {"i": "3"}}\\n')
        except OSError: pass
    return 4
"""
    with run(cell) as student, pytest.raises(Stopped, match="nobody asked"):
        student.names(["f"])["f"]()


def test_what_students_handed_in_is_left_as_it_is(course, graded, released, tmp_path):
    folder = tmp_path / "eve" / roster.PS3
    folder.mkdir(parents=True)
    edited = json.dumps(released[roster.PS3]).replace("assert", "assert True or")
    (folder / "any name.ipynb").write_text(edited)
    said = []
    (row,) = batch.grade(tmp_path, course, report=said.append)
    assert row.status == "repaired"
    assert (folder / "any name.ipynb").read_text() == edited
    assert any("on this machine" in line for line in said)


# -- the command line


def test_make_grade_without_a_folder_says_what_it_needs(root):
    done = subprocess.run(["make", "-n", "grade"], cwd=root, capture_output=True, text=True, check=False)
    assert "make grade SUBMISSIONS=" in done.stdout + done.stderr


def test_a_folder_without_submissions_is_refused(course, tmp_path):
    with pytest.raises(ValueError, match="holds no submissions; allowed"):
        batch.grade(tmp_path, course)
    with pytest.raises(ValueError, match="is no folder; allowed"):
        batch.grade(tmp_path / "nowhere", course)


def test_a_set_without_tensorflow_does_not_import_it():
    with run("import sys\nheavy = 'tensorflow' in sys.modules") as student:
        assert student.names(["heavy"]) == {"heavy": False}
