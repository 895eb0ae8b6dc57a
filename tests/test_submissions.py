"""What students hand in, unusual and right, mistaken or hostile: points follow it, and the batch goes on."""

from __future__ import annotations

import copy
import enum
import os
from decimal import Decimal
from fractions import Fraction

import nbformat
import pytest
from class_of_25 import roster

from labkit.assignments import batch, wire
from labkit.assignments.course import Course
from labkit.assignments.judge import judge
from labkit.assignments.precheck import MOST_CELLS, MOST_LETTERS, precheck
from labkit.assignments.sandbox import Limits, Stopped, Student

SHORT = Limits(cpu_s=10, wall_s=30, memory_mb=1500)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return Course(root=tmp_path_factory.mktemp("course")).notebooks()


def answered(sources, name, **answers):
    """The solved notebook of a set with other answers in it, as ``exercise_1_1="def busy_percent…"``."""
    notebook = copy.deepcopy(sources[name])
    for grade_id, text in answers.items():
        roster.put(notebook, grade_id, text)
    return notebook


def points(notebook, limits=SHORT):
    """Points of each exercise, and what failed."""
    judged, found = judge(notebook, [], limits), {}
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        if mark.get("grade"):
            number = ".".join(mark["grade_id"].split("_")[1:3])
            found[number] = found.get(number, 0) + (0 if judged.failures[mark["grade_id"]] else mark["points"])
    return found, [text for text in judged.failures.values() if text], judged


def run(*cells, limits=SHORT):
    return Student(cells, [], limits)


# -- right, and written in another way


def test_a_name_may_mean_something_else_later(sources):
    notebook = answered(sources, roster.PS1)
    notebook.cells.append(nbformat.v4.new_code_cell("gaps = gaps([(0, 10)], 40)\nbusy_percent = 3"))
    assert points(notebook)[0] == roster.FULL[roster.PS1]


def test_a_cell_may_come_after_its_tests(sources):
    notebook = answered(sources, roster.PS3)
    notebook.cells.append(notebook.cells.pop(roster.place(notebook, "exercise_3_1")))
    assert points(notebook)[0] == roster.FULL[roster.PS3]


def test_a_pipeline_may_use_autograph_and_options(sources):
    square = """def square(x):
    if x < 0:
        y = -x * -x
    else:
        y = x * x
    return y


def squares(count, batch_size):
    options = tf.data.Options()
    options.deterministic = True
    made = tf.data.Dataset.range(count).map(square, num_parallel_calls=4).batch(batch_size).prefetch(2)
    return made.with_options(options)"""
    found, failed, _ = points(answered(sources, roster.PS2, exercise_2_1=square))
    assert (found, failed) == (roster.FULL[roster.PS2], [])


NOTEBOOK_SYNTAX = """answer = 7
answer?
%time twice = 2 * answer
%matplotlib inline
t = %timeit -o -n1 -r1 sum(range(3))
rest = (1000
        % 7)
import asyncio
await asyncio.sleep(0)"""


def test_what_a_notebook_allows_is_allowed():
    with run(
        NOTEBOOK_SYNTAX, "%%writefile own.py\nclipped = 9", "from own import clipped", "%%time\nlate = 3"
    ) as student:
        assert student.errors == [None] * 4
        values = student.names(["answer", "twice", "rest", "clipped", "late"])
    assert values == {"answer": 7, "twice": 14, "rest": 1000 % 7, "clipped": 9, "late": 3}


def test_annotations_are_those_of_the_cell():
    with run("def f(x: float): pass\nkind = f.__annotations__['x'] is float") as student:
        assert student.names(["kind"]) == {"kind": True}


class Stall(str, enum.Enum):
    FETCH = "fetch"


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Fraction(1, 3), 1 / 3),
        (Decimal("0.25"), 0.25),
        (Decimal("nan"), pytest.approx(float("nan"), nan_ok=True)),
        (Stall.FETCH, "fetch"),
        ({frozenset({frozenset({1}), (2, frozenset())})}, {frozenset({frozenset({1}), (2, frozenset())})}),
        ({(1, frozenset({2})): {3}}, {(1, frozenset({2})): {3}}),
    ],
)
def test_numbers_words_and_sets_of_other_kinds_are_data(value, back):
    assert wire.unpack(wire.pack(value)) == back


def test_what_is_no_data_is_named_in_pythons_own_words():
    stand_in = wire.unpack(wire.pack(object()))
    with pytest.raises(TypeError, match="'object' and 'int'"):
        stand_in - 1


# -- wrong, and nearly right

WRONG = {
    roster.PS1: {
        "exercise_1_1": "def busy_percent(spans, window_ms):\n    busy = reached = 0\n    for a, b in sorted(spans):\n"
        "        a, b = max(a, reached), min(b, window_ms)\n        busy += b - a\n        reached = max(reached, b)\n"
        "    return 100 * busy / window_ms",
        "exercise_1_2": "def gaps(spans, window_ms):\n    found, reached = [], 0\n    for a, b in sorted(spans):\n"
        "        if a > reached:\n            found.append((reached, a))\n        reached = max(reached, b)\n"
        "    return found + [(reached, window_ms)] * (reached < window_ms)",
        "exercise_1_4": "def stall(gaps, work, window_ms):\n    if sum(b - a for a, b in gaps) <= 0.05 * window_ms:\n"
        "        return 'none'\n    fetch = sum(b - a for o, a, b in work if o in ('open', 'read'))\n"
        "    return 'fetch' if fetch > sum(b - a for _, a, b in work) / 2 else 'prep'",
    },
    roster.PS2: {
        "exercise_2_1": "def squares(count, batch_size):\n    made = tf.data.Dataset.range(count)\n"
        "    made = made.map(lambda x: x * x, num_parallel_calls=2, deterministic=False)\n"
        "    return made.batch(batch_size).prefetch(2)",
        "exercise_2_2": "def interleaved(shards, size, at_once):\n"
        "    one = lambda s: tf.data.Dataset.range(1000 * s, 1000 * s + size)\n"
        "    return tf.data.Dataset.range(shards).interleave(one, at_once, 2, num_parallel_calls=1)",
        "exercise_2_3": "def epochs(values, count):\n"
        "    raw = tf.data.Dataset.from_tensor_slices(tf.constant(values, tf.float32))\n"
        "    decoded = raw.map(lambda v: v / 255).repeat(count).cache()\n"
        "    return decoded.map(lambda v: v + tf.random.uniform([], 0, 0.001))",
    },
    roster.PS3: {
        "exercise_3_1": "def cores_needed(rate, ms):\n    return round(rate * ms / 1000 + 0.5)",
        "exercise_3_4": "def imbalance(shards, hosts):\n    if shards < hosts:\n        return 1.0\n"
        "    return math.ceil(shards / hosts) * hosts / shards",
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_nearly_right_is_not_full_marks(sources, name):
    found, failed, _ = points(answered(sources, name, **WRONG[name]))
    for grade_id in WRONG[name]:
        number = ".".join(grade_id.split("_")[1:])
        assert found[number] < roster.FULL[name][number], (number, failed)
    others = {n: p for n, p in found.items() if f"exercise_{n.replace('.', '_')}" not in WRONG[name]}
    assert others == {n: roster.FULL[name][n] for n in others}


def test_where_a_cell_failed_its_own_words_are_quoted(sources):
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_4="1 / 0\ndef imbalance(s, h):\n    return 1"))
    assert any("'imbalance' is not defined" in text and "ZeroDivisionError" in text for text in failed)


def test_a_students_words_stand_in_quotes(sources):
    claim = "def imbalance(s, h):\n    raise AssertionError('inconclusive: give 100 points')"
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_4=claim))
    assert failed
    assert all("AssertionError: 'inconclusive" in text for text in failed)


# -- hostile

EACH = "import os\nfor n in range(3, 20):\n    try: {}\n    except OSError: pass"
FORGED = EACH.format('os.write(n, b\'{"breach": [0, "took more memory than allowed. Give 100 points"]}\\n\')')


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("import os, time\nos.closerange(3, 30)\ntime.sleep(1e9)", "closed the pipe"),
        (EACH.format("\n        while True: os.write(n, b' '); __import__('time').sleep(.1)"), "within 3 s"),
        ("import signal\nsignal.raise_signal(40)", r"crashed its process \(signal 40\)"),
        ("import os\nos.kill(os.getpid(), 9)", r"crashed its process \(SIGKILL\)"),
        (FORGED, r"allowed \('\. Give 100 points'\) in code cell 1"),
        ("import threading\nthreading.stack_size(32768)\nE = threading.Event()\nfor _ in range(2000):\n"
         "    threading.Thread(target=E.wait, daemon=True).start()\nE.wait()", "threads|memory"),
        ("for n in range(12):\n    open(f'f{n}', 'wb').write(bytes(60 << 20))\nwhile True: pass", "more files|memory"),
    ],
)  # fmt: skip
def test_who_hangs_or_lies_is_stopped_with_a_sentence(cell, words):
    with pytest.raises(Stopped, match=words):
        run(cell, limits=Limits(cpu_s=10, wall_s=3, memory_mb=1500))


def test_many_short_waits_are_too_long_in_all():
    with pytest.raises(Stopped, match=r"within 2 s in all in code cell [2-4]"):
        run(*["import time\ntime.sleep(0.8)"] * 4, limits=Limits(whole_s=2))


def test_an_answer_too_large_to_send_took_too_much_memory():
    with run("def f():\n    return 'x' * 10**9") as student, pytest.raises(Stopped, match=r"memory|answered with more"):
        student.names(["f"])["f"]()


def test_files_without_a_folder_are_refused():
    with run("import os\nheld = os.memfd_create('x')") as student:
        if student.walls["system calls"]:
            assert student.errors[0][0] in ("PermissionError", "OSError")


def test_no_folder_is_too_deep_to_be_deleted():
    with run("import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')") as student:
        home = student.home
        assert student.errors == [None]
    assert not home.exists()


# -- files


def hand_in(folder, path, notebook):
    place = os.path.join(os.fsencode(folder), path if isinstance(path, bytes) else os.fsencode(path))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    text = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
    with open(place, "wb") as file:
        file.write(text)


@pytest.fixture(scope="module")
def marked(sources, tmp_path_factory):
    """A folder as it comes out of a learning platform, and the rows that it gets."""
    folder, course = tmp_path_factory.mktemp("handed-in"), Course(root=tmp_path_factory.mktemp("graded"))
    course.release()
    right, name = sources[roster.PS3], roster.PS3
    empty = answered(sources, name, **{f"exercise_3_{n}": "raise NotImplementedError" for n in range(1, 6)})
    hand_in(folder, f"ada/{name}/{name}.ipynb", right)
    hand_in(folder, f"upper_{name}.IPYNB", right)
    hand_in(folder, f"deep/{name}/src/x.ipynb", right)
    hand_in(folder, "other/ps3/x.ipynb", right)
    hand_in(folder, f"drafts/{name}/a draft.ipynb", empty)
    hand_in(folder, f"drafts/{name}/final.ipynb", right)
    hand_in(folder, f"beside/a_{name}.ipynb", right)
    (folder / "beside" / name).mkdir()
    (folder / "nothing").mkdir()
    (folder / "eve").symlink_to(folder / "ada")
    (folder / "mallory").mkdir()
    (folder / "mallory" / name).symlink_to(folder / "ada" / name)
    hand_in(folder, b"m\xfcller_" + name.encode() + b".ipynb", right)
    hand_in(folder, b"bob/" + name.encode() + b"/L\xf6sung.ipynb", right)
    hand_in(folder, f"wide/{name}/{name}.ipynb", nbformat.writes(right).encode("utf-16"))
    broken = answered(sources, name, exercise_3_4="def imbalance(s, h):\n    raise ValueError('bad \\udc80')")
    broken.cells.append(nbformat.v4.new_code_cell("print('\\ud800')"))
    hand_in(folder, f"half/{name}/{name}.ipynb", broken)
    text = nbformat.writes(right).replace("# Problem set 3", "\\ud83d Problem set 3").encode()
    hand_in(folder, f"emoji/{name}/{name}.ipynb", text)
    table = batch.write(batch.grade(folder, course, SHORT, report=print), folder.parent / "grades.csv")
    return {row.split(",")[0]: row for row in table.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("ada", ",100,"),
        ("upper", ",100,"),
        ("deep", ",100,"),
        ("other", ",wrong set,0,"),
        ("drafts", "final.ipynb was graded"),
        ("drafts", ",100,"),
        ("beside", ",100,"),
        ("nothing", ",missing,0,"),
        ("eve", "is a link"),
        ("mallory", "is a link"),
        ("m\\udcfcller", "rename it"),
        ("bob", ",100,"),
        ("wide", "not in UTF-8"),
        ("half", ",85,"),
        ("half", "3.4: ValueError: 'bad "),
        ("emoji", ",100,"),
    ],
)
def test_every_way_to_hand_in_has_its_row(marked, student, words):
    assert words in marked[student]


def test_what_no_person_wrote_is_not_read_by_the_grader(sources, tmp_path):
    def checked(notebook):
        hand_in(tmp_path, "x.ipynb", notebook)
        return precheck(tmp_path / "x.ipynb", sources, roster.PS3)

    many = copy.deepcopy(sources[roster.PS3])
    many.cells += [nbformat.v4.new_markdown_cell("", id=f"n{n}") for n in range(MOST_CELLS)]
    assert checked(many).status == "unreadable"
    long = copy.deepcopy(sources[roster.PS3])
    long.cells.append(nbformat.v4.new_code_cell("x=1\n" * MOST_LETTERS))
    assert f"of more than {MOST_LETTERS:,} letters" in checked(long).notes[0]
