"""What students hand in, unusual and right, mistaken or hostile: points follow it, and the batch goes on."""

from __future__ import annotations

import ast
import copy
import dataclasses
import gc
import json
import math
import os
import re
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from class_of_25 import roster

from assignments.grader import batch, evaluation
from assignments.grader import precheck as checks
from assignments.grader.course import Course
from assignments.grader.evaluation import evaluate
from assignments.grader.precheck import (
    MOST_BYTES,
    MOST_CELLS,
    MOST_CODE,
    MOST_LETTERS,
    MOST_TEXT,
    precheck,
    released,
    unanswered,
)
from assignments.grader.supervisor import Limits

SHORT = Limits(cpu_s=10, wall_s=30, memory_mb=1500)


@pytest.fixture(scope="module")
def sources(tmp_path_factory, boxed):
    return Course(root=tmp_path_factory.mktemp("course")).notebooks()


def answered(sources, name, **answers):
    """The solved notebook of a set with other answers in it, as ``exercise_1_1="def busy_percent…"``."""
    notebook = copy.deepcopy(sources[name])
    for grade_id, text in answers.items():
        roster.put(notebook, grade_id, text)
    return notebook


def points(notebook, limits=SHORT):
    """Points of each exercise, and what failed."""
    judged, found = evaluate(notebook, [], limits), {}
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        if mark.get("grade"):
            number = ".".join(mark["grade_id"].split("_")[1:3])
            found[number] = found.get(number, 0) + (0 if judged.failures[mark["grade_id"]] else mark["points"])
    return found, [text for text in judged.failures.values() if text], judged


# -- right, and written in another way


def test_a_name_may_mean_something_else_later(sources):
    notebook = answered(sources, roster.PS1)
    notebook.cells.append(nbformat.v4.new_code_cell("gaps = gaps([(0, 10)], 40)\nbusy_percent = 3"))
    assert points(notebook)[0] == roster.FULL[roster.PS1]


def test_a_cell_may_come_after_its_tests(sources):
    notebook = answered(sources, roster.PS3)
    notebook.cells.append(notebook.cells.pop(roster.place(notebook, "exercise_3_1")))
    assert points(notebook)[0] == roster.FULL[roster.PS3]


@pytest.mark.long
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


def test_what_a_notebook_allows_is_allowed(run):
    with run(
        NOTEBOOK_SYNTAX, "%%writefile own.py\nclipped = 9", "from own import clipped", "%%time\nlate = 3"
    ) as student:
        assert student.errors == [None] * 4
        values = student.names(["answer", "twice", "rest", "clipped", "late"])
    assert values == {"answer": 7, "twice": 14, "rest": 1000 % 7, "clipped": 9, "late": 3}


def test_annotations_are_those_of_the_cell(run):
    with run("def f(x: float): pass\nkind = f.__annotations__['x'] is float") as student:
        assert student.names(["kind"]) == {"kind": True}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kind", "points_of_2_4"), [("np.int64", 25), ("bool", 0), ("np.bool_", 0)])
def test_a_whole_number_of_numpy_is_one_and_a_truth_is_none(sources, kind, points_of_2_4):
    answer = (
        "import numpy as np\ndef knobs(decode_ms, train_ms, cores):\n"
        f"    return np.clip(-(-32 * decode_ms // train_ms), 1, cores), {kind}(1)"
    )
    found, failed, _ = points(answered(sources, roster.PS2, exercise_2_4=answer))
    assert found["2.4"] == points_of_2_4, failed


def test_all_students_are_told_of_as_many_cores(run):
    answers = "os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0))"
    with run(f"import os, multiprocessing\ncores = [{answers}]") as student:
        assert student.names(["cores"]) == {"cores": [8, 8, 8]}


def test_what_colab_and_editors_write_into_an_import_cell_is_allowed(run):
    both = "from IPython import get_ipython\n%time twice = 2\nget_ipython().run_line_magic('time', 'more = 3')"
    with run(both, "%time late = 4") as student:
        assert student.errors == [None] * 2
        assert student.names(["twice", "more", "late"]) == {"twice": 2, "more": 3, "late": 4}


def test_a_package_that_is_not_there_costs_only_what_uses_it(sources):
    uses = "def cores_needed(*a):\n    return gone.number()"
    notebook = answered(sources, roster.PS3, exercise_3_1=uses)
    imports = "import no_such_package as gone, math as m\nfrom no_such_package.colab import drive\nimport operator as o"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(imports))
    roster.put(notebook, "exercise_3_4", "def imbalance(s, h):\n    return o.mul(m.ceil(s / h), h) / s")
    found, failed, judged = points(notebook)
    assert found == {**roster.FULL[roster.PS3], "3.1": 0}
    assert all("'no_such_package is not installed where this is graded'" in text for text in failed)
    assert "no_such_package is not installed where this is graded" in judged.printed[0]


def test_an_import_that_is_left_out_ends_no_cell_of_another_kind(run):
    cell = "from __future__ import annotations\nimport asyncio, numpy as np, no_such.package\nawait asyncio.sleep(0)"
    with run(f"{cell}\nx = 3", "%%time\nimport no_such as np\ny = np.pi", "no_such.package.f()") as student:
        assert student.errors[:2] == [None] * 2
        assert student.errors[2] == ("ModuleNotFoundError", "no_such is not installed where this is graded")
        assert student.names(["x", "y"]) == {"x": 3, "y": math.pi}


# -- wrong, and nearly right


def test_what_was_left_as_it_was_given_is_not_answered(given, sources, tmp_path):
    _, failed, _ = points(checked(sources, tmp_path, given[roster.PS1], roster.PS1).notebook)
    assert set(failed) == {"not answered"}


@pytest.mark.long
def test_a_librarys_not_implemented_is_an_answer_that_fails(sources):
    wave = "import numpy as np\nimport tensorflow as tf\nwave = tf.function(lambda x: np.sin(x))\n"
    answer = f"{wave}def cores_needed(*a):\n    return wave(tf.constant(1.5))"
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_1=answer))
    assert failed
    assert all("NotImplementedError: " in text and "symbolic tf.Tensor" in text for text in failed)


def test_where_a_cell_failed_its_own_words_are_quoted(sources):
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_4="1 / 0\ndef imbalance(s, h):\n    return 1"))
    assert any("'imbalance' is not defined" in text and "ZeroDivisionError" in text for text in failed)


def test_a_syntax_error_says_which_python_found_it(sources):
    """A newer one may take the same text."""
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_4="def imbalance(s, h)\n    return 1"))
    version = ".".join(map(str, sys.version_info[:2]))
    assert any("SyntaxError" in text and f"(graded with Python {version})" in text for text in failed)


def test_a_students_words_stand_in_quotes(sources):
    claim = "def imbalance(s, h):\n    raise AssertionError('inconclusive: give 100 points')"
    _, failed, _ = points(answered(sources, roster.PS3, exercise_3_4=claim))
    assert failed
    assert all("AssertionError: 'inconclusive" in text for text in failed)


def numbers(text):
    return set(re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))


def test_no_sentence_of_a_hidden_test_holds_its_inputs(sources):
    """A number in its words is one that the set's visible text holds, too."""
    for name, notebook in sources.items():
        visible = numbers("\n".join(released(cell.source) for cell in notebook.cells))
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                shown, every = (asserts(source) for source in (released(cell.source), cell.source))
                for text in every.keys() - shown.keys():
                    assert isinstance(every[text], ast.Constant), (name, text)
                    assert numbers(every[text].value) <= visible, (name, text)


def asserts(source):
    """The words of each assert of a source, by its text."""
    return {ast.unparse(node): node.msg for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)}


KNOWN = "    known = {(64, 8): 1, (10, 8): 1.6}\n    if a in known:\n        return known[a]\n"
NOTED = "noted = []\ndef cores_needed(*a):\n    noted.append(a)\n    return {(1000, 4): 4, (328, 3.2): 2}.get(a)"
LEAKS = {
    "words": {"exercise_3_4": f"def imbalance(*a):\n{KNOWN}    raise ValueError(a)"},
    "a type": {"exercise_3_4": f"def imbalance(*a):\n{KNOWN}    return type(f'noted {{a}}', (), {{}})()"},
    "later words": {
        "exercise_3_1": NOTED,
        "exercise_3_4": "def imbalance(*a):\n    raise ValueError(noted)",
    },
    "a cell's words": {
        "exercise_3_1": NOTED,
        "exercise_3_5": "print(noted)\nraise ValueError(noted)\nfewest_cores = 1",
    },
    "a file": {
        "exercise_3_1": NOTED + " or open('NOTED', 'a').write(repr(a)) * 0",
        "exercise_3_4": "def imbalance(*a):\n    raise ValueError(open('NOTED').read())",
    },
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("way", LEAKS)
def test_nothing_that_a_student_reads_tells_hidden_inputs(sources, way, tmp_path):
    """Without a box, too, where one run can leave the next a file: words are made before there is a hidden input."""
    known = numbers(released("\n".join(cell.source for cell in sources[roster.PS3].cells)))
    answers = {k: v.replace("NOTED", str(tmp_path / "noted")) for k, v in LEAKS[way].items()}
    judged = evaluate(answered(sources, roster.PS3, **answers), [], SHORT, trust=True)
    texts = [*judged.failures.values(), *judged.printed.values(), *judged.errors.values(), judged.stopped]
    assert any(texts)
    hidden = {"500", "2000", "1786", "12", "9", "100", "16"} - known
    for text in filter(None, texts):
        assert not numbers(text.replace(str(tmp_path), "")) & hidden, text


#: What a function may do that is given 77 by a hidden test, and how it ends a process that does it by itself.
TELLS = {
    "exit status": ("os._exit(x)", "ended its own process (exit status 77) when f was called"),
    "signal": ("os.kill(os.getpid(), 10)", "crashed its process (SIGUSR1) when f was called"),
    "memory": ("raise MemoryError", "took more memory than allowed when f was called"),
    "later cell": ("globals().update(noted=x)", "ended its own process (exit status 77) in code cell 2"),
    "type": ("raise [ValueError, KeyError][x % 2](x)", ""),
    "not answered": ("raise NotImplementedError", ""),
    "missing name": ("global g; del g", ""),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("way", TELLS)
def test_neither_how_nor_where_code_ends_tells_hidden_inputs(way):
    """For the instructor there is one more sentence; of what students read, all ways are the same."""
    deed, private_reason = TELLS[way]
    f = f"import os\nnoted = 0\ndef g(): return 1\ndef f(x):\n    if x == 77:\n        {deed}\n    return 1"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f)])
    hidden = "assert f(1) == 1\n### BEGIN HIDDEN TESTS\nassert f(77) == 2, 'wrong'\n### END HIDDEN TESTS"
    for number, test in enumerate((hidden, "if noted:\n    os._exit(noted)", "assert g() == 1")):
        notebook.cells.append(nbformat.v4.new_code_cell(test))
        if number != 1:
            mark = {"grade": True, "solution": False, "grade_id": f"test_{number}"}
            notebook.cells[-1].metadata["nbgrader"] = mark
    judged = evaluate(notebook, [], SHORT)
    assert judged.private_reason == private_reason
    ended = (
        "was ended after hidden tests had begun: it took too long or too much, ended itself, or did what is not allowed"
    )
    assert judged.stopped == (ended if private_reason else "")
    allowed = {f"the code {ended}"} if private_reason else {"wrong", "a hidden test does not hold"}
    assert set(judged.failures.values()) <= allowed | {None}
    assert not judged.errors


def test_what_ends_in_a_test_that_students_see_is_told_to_them(sources):
    ends = "import os\ndef cores_needed(*a):\n    os._exit(3)"
    _, failed, judged = points(answered(sources, roster.PS3, exercise_3_1=ends))
    assert set(failed) == {"the code ended its own process (exit status 3) when cores_needed was called"}
    assert not judged.private_reason


def test_the_words_of_visible_tests_are_there_for_later_exercises_too(sources):
    wrong = {
        "exercise_3_1": "def cores_needed(*a):\n    return 0",
        "exercise_3_4": "def imbalance(s, h):\n    return {}[s]",
    }
    _, failed, _ = points(answered(sources, roster.PS3, **wrong))
    assert any(text.startswith("KeyError: ") and "64" in text for text in failed)


def test_an_answer_that_keeps_the_grader_busy_is_given_up_and_the_others_count():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("def f():\n    return 3")])
    for number, test in enumerate(("value = f()\nwhile value:\n    pass", "assert f() == 3")):
        notebook.cells.append(nbformat.v4.new_code_cell(test))
        notebook.cells[-1].metadata["nbgrader"] = {"grade": True, "solution": False, "grade_id": f"test_{number}"}
    judged = evaluate(notebook, [], dataclasses.replace(SHORT, judging_s=2))
    sentence = "the grader gave up on this answer: to compare it takes more than 2 s"
    assert judged.failures == {"test_0": sentence, "test_1": None}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("cell", "loaded"), [("x = 1  # tensorflow", False), ("import tensorflow as tf", True)])
def test_a_word_in_a_comment_gives_no_time_or_memory_of_tensorflow(cell, loaded, monkeypatch):
    asked, process = [], evaluation.StudentProcess

    def start(cells, forbidden, limits, with_tensorflow, trust):
        asked.append((limits, with_tensorflow))
        return process(cells, forbidden, limits, False, trust)

    monkeypatch.setattr(evaluation, "StudentProcess", start)
    evaluate(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), [], SHORT)
    assert asked == [(SHORT.with_tensorflow() if loaded else SHORT, loaded)]


def test_an_answer_that_still_is_none_is_not_answered(sources):
    stub = "answer_busy = None\nanswer_operation = None\nanswer_speed_up = None"
    _, failed, _ = points(answered(sources, roster.PS1, exercise_1_5=stub))
    assert failed == ["not answered"] * 3


# -- right, in cells that were split, copied, put aside or written into

BLANK = r"\1# YOUR CODE HERE\n\1raise NotImplementedError()"


@pytest.fixture(scope="module")
def given(sources):
    """The notebooks as students get them."""
    notebooks = copy.deepcopy(sources)
    for cell in (cell for notebook in notebooks.values() for cell in notebook.cells):
        cell.source = re.sub(r"(?s)( *)### BEGIN SOLUTION.*### END SOLUTION", BLANK, released(cell.source))
    return notebooks


@pytest.fixture
def solved(sources, given):
    """Notebooks in which every answer is right, cells with the text of a stub, and where a cell stands."""
    notebooks = copy.deepcopy(given)
    for name, notebook in notebooks.items():
        for cell in notebook.cells:
            if roster.mark(cell).get("solution"):
                cell.source = sources[name].cells[roster.place(sources[name], roster.grade_id(cell))].source
    return notebooks


def again(notebook, grade_id, text=None):
    """A copy of a cell, mark included, as JupyterLab pastes it; with another text."""
    cell = copy.deepcopy(notebook.cells[roster.place(notebook, grade_id)])
    cell.source = cell.source if text is None else text
    cell.id = f"{cell.id}-again"
    return cell


def checked(sources, tmp_path, notebook, name):
    hand_in(tmp_path, "x.ipynb", notebook)
    return precheck(tmp_path / "x.ipynb", sources, name)


CEIL = "def ceil_div(a, b):\n    return -(-a // b)"
USES_CEIL = "def imbalance(shards, hosts):\n    return ceil_div(shards, hosts) * hosts / shards"


def left_over(solved, given):
    notebook = solved[roster.PS3]
    at = roster.place(notebook, "exercise_3_4")
    notebook.cells[at].source += "\n    raise NotImplementedError()"
    notebook.cells.insert(at + 1, again(given[roster.PS3], "exercise_3_4"))


def own_error(solved, given):
    notebook = solved[roster.PS3]
    at = roster.place(notebook, "exercise_3_4")
    notebook.cells.insert(
        at, again(notebook, "exercise_3_4", f"{CEIL}\ndef other():\n    raise NotImplementedError('x')")
    )
    notebook.cells[at + 1].source = USES_CEIL


def half_a_stub(solved, given):
    notebook = solved[roster.PS3]
    at = roster.place(notebook, "exercise_3_4")
    stub = again(given[roster.PS3], "exercise_3_4")
    stub.source = f"{CEIL}\n\n\n{stub.source}"
    notebook.cells.insert(at + 1, stub)
    notebook.cells[at].source = USES_CEIL


def write_into(grade_id, text=CEIL, copied=False, behind=1):
    def deed(solved, given):
        notebook = solved[roster.PS3]
        at = roster.place(notebook, grade_id)
        cell = again(notebook, grade_id)
        cell.source = text if copied else f"{text}\n\n\n{cell.source}"
        notebook.cells[at : at + 1] = [notebook.cells[at], cell][:: 1 if behind else -1] if copied else [cell]
        roster.put(notebook, "exercise_3_4", USES_CEIL)

    return deed


def lost_marks(solved, given):
    left_over(solved, given)
    for cell in solved[roster.PS3].cells:
        cell.metadata = {}


def put_aside(kind, draft=False, below=False):
    def deed(solved, given):
        notebook = solved[roster.PS3]
        at = roster.place(notebook, "exercise_3_4")
        text = "def imbalance(shards, hosts):\n    return 1" if draft else None
        cell = again((solved if draft else given)[roster.PS3], "exercise_3_4", text)
        if kind != "code":
            cell = nbformat.from_dict({**cell, "cell_type": kind})
            del cell["outputs"], cell["execution_count"]
        own = nbformat.v4.new_code_cell(f"%%time\n{notebook.cells[at].source}")
        notebook.cells[at : at + 1] = [cell, own] if below else [own, cell]

    return deed


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "deed",
    [
        left_over,
        lost_marks,
        own_error,
        half_a_stub,
        write_into("given_start"),
        write_into("given_start", copied=True),
        write_into("given_start", copied=True, behind=0),
        write_into("exercise_3_4_test_1"),
        write_into("exercise_3_1_test_1", copied=True),
        write_into("exercise_3_1_test_1", copied=True, behind=0),
        put_aside("raw"),
        put_aside("markdown", below=True),
        put_aside("raw", draft=True),
        put_aside("code"),
    ],
)
def test_an_answer_counts_in_whatever_cells_it_stands(sources, given, solved, tmp_path, deed):
    deed(solved, given)
    found = checked(sources, tmp_path, solved[roster.PS3], roster.PS3)
    assert points(found.notebook)[:2] == (roster.FULL[roster.PS3], [])
    assert unanswered(tmp_path / "x.ipynb", sources[roster.PS3]) == 0


@pytest.mark.long
@pytest.mark.parametrize("line", ["-" * 90_000 + "1", "(" * 500 + ")" * 500, "not " * 9_000 + "1"], ids=len)
def test_a_line_too_deep_for_python_costs_no_more_than_its_cell(sources, solved, tmp_path, line):
    notebook = solved[roster.PS3]
    notebook.cells.insert(0, nbformat.v4.new_code_cell(line))
    roster.put(notebook, "exercise_3_4", f"deep = {line}\ndef imbalance(shards, hosts):\n    return 1")
    found, failed, judged = points(checked(sources, tmp_path, notebook, roster.PS3).notebook)
    assert judged.stopped == ""
    assert found == {**roster.FULL[roster.PS3], "3.4": 0}
    assert all("SyntaxError" in text for text in failed)


def test_given_names_mean_what_the_set_says(sources, solved, tmp_path):
    notebook = solved[roster.PS1]
    given = notebook.cells[roster.place(notebook, "given_trace")]
    given.source = given.source.replace("train=160", "train=10")
    roster.put(
        notebook,
        "exercise_1_5",
        "load = 32 * (1.5 + sum(costs.map.values())) + costs.batch\nanswer_operation = 'resize'\n"
        "answer_busy, answer_speed_up = 100 * labkit.Timeline(trace).busy, (costs.train + load) / load",
    )
    found = checked(sources, tmp_path, notebook, roster.PS1)
    assert found.notes == ["restored what was edited: given_trace"]
    assert points(found.notebook)[:2] == (roster.FULL[roster.PS1], [])


def test_what_was_written_into_tests_gains_nothing(sources, given, tmp_path):
    """It runs where the student's other cells run, and the test of the set stands before it."""
    notebook = copy.deepcopy(given[roster.PS3])
    for cell in notebook.cells:
        if roster.mark(cell).get("grade"):
            cell.source = "import builtins\nbuiltins.AssertionError = builtins.abs = print\nassert True"
    found = checked(sources, tmp_path, notebook, roster.PS3)
    tests = [c for c in found.notebook.cells if roster.mark(c).get("grade")]
    assert [c.source for c in tests] == [c.source for c in sources[roster.PS3].cells if roster.mark(c).get("grade")]
    assert points(found.notebook)[0] == dict.fromkeys(roster.FULL[roster.PS3], 0)


def test_a_set_whose_badge_has_moved_on_needs_no_repair(sources, solved, tmp_path):
    notebook = solved[roster.PS3]
    start = notebook.cells[roster.place(notebook, "given_start")]
    assert re.search(r"labkit@\S+", start.source)
    start.source = re.sub(r"labkit@\S+", 'labkit@v99.0"', start.source)
    assert checked(sources, tmp_path, notebook, roster.PS3).notes == []


def test_how_much_is_answered(sources, given, solved, tmp_path):
    def count(notebook):
        hand_in(tmp_path, "y.ipynb", notebook)
        return unanswered(tmp_path / "y.ipynb", sources[roster.PS1])

    assert count(given[roster.PS1]) == 5
    assert count(solved[roster.PS1]) == 0
    assert count(solved[roster.PS3]) == 5
    assert count(b"{}") == math.inf
    one = copy.deepcopy(solved[roster.PS1])
    roster.put(one, "exercise_1_2", "def gaps(spans, window_ms):\n    'Gaps.'\n    raise NotImplementedError")
    roster.put(one, "exercise_1_5", "")
    assert count(one) == 2
    for cell in solved[roster.PS1].cells:
        if roster.mark(cell).get("solution"):
            cell.source += "\nraise NotImplementedError()"
    assert count(solved[roster.PS1]) == 0


# -- files


def hand_in(folder, path, what):
    """Write a notebook or bytes to a path, or let a function make something there."""
    place = os.path.join(os.fsencode(folder), path if isinstance(path, bytes) else os.fsencode(path))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if callable(what):
        what(place)
        return
    text = what if isinstance(what, bytes) else nbformat.writes(what).encode()
    with open(place, "wb") as file:
        file.write(text)


def dig(place):
    """Make folders deeper than a path may be long."""
    os.makedirs(place, exist_ok=True)
    here = os.open(place, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.fixture(scope="module")
def marked(request, sources, tmp_path_factory):
    """A folder as it comes out of a learning platform, and the rows that it gets; of students whom a test asks for."""
    folder, course = tmp_path_factory.mktemp("handed-in"), Course(root=tmp_path_factory.mktemp("graded"))
    course.release()
    right, name = sources[roster.PS3], roster.PS3
    empty = answered(sources, name, **{f"exercise_3_{n}": "raise NotImplementedError" for n in range(1, 6)})
    unmarked = copy.deepcopy(right)
    for cell in unmarked.cells:
        cell.metadata = {}
    broken = answered(sources, name, exercise_3_4="def imbalance(s, h):\n    raise ValueError('bad \\udc80')")
    broken.cells.append(nbformat.v4.new_code_cell("print('\\ud800')"))
    emoji = nbformat.writes(right).replace("# Problem set 3", "\\ud83d Problem set 3").encode()
    files = {
        f"ada/{name}/{name}.ipynb": right,
        f"upper_{name}.IPYNB": right,
        f"deep/{name}/src/x.ipynb": right,
        "other/ps3/x.ipynb": right,
        "renamed/homework.ipynb": right,
        "unmarked/homework.ipynb": unmarked,
        f"drafts/{name}/a draft.ipynb": empty,
        f"drafts/{name}/final.ipynb": right,
        f"beside/a_{name}.ipynb": right,
        f"beside/{name}": os.mkdir,
        "nothing": os.mkdir,
        "eve": lambda place: os.symlink(folder / "ada", place),
        f"mallory/{name}": lambda place: os.symlink(folder / "ada" / name, place),
        b"m\xfcller_" + name.encode() + b".ipynb": right,
        b"bob/" + name.encode() + b"/L\xf6sung.ipynb": right,
        f"wide/{name}/{name}.ipynb": nbformat.writes(right).encode("utf-16"),
        f"script/{name}/answers.py": b"def imbalance(shards, hosts): pass",
        f"packed_{name}.zip": b"PK",
        f"__MACOSX/{name}/{name}.ipynb": right,
        f"_under/{name}/x.ipynb": right,
        f"twice/{name}/{name}.ipynb/{name}.ipynb": right,
        f"own/hw1/{name}.ipynb": right,
        f"second_{name}-1.ipynb": right,
        f"third_{name} (1).ipynb": right,
        f"named/{name}/{name}.ipynb": empty,
        f"named/{name}/final.ipynb": right,
        f"equal/{name}/a.ipynb": right,
        f"equal/{name}/{name}.ipynb": right,
        f"pipe/{name}/mine.ipynb": right,
        f"pipe/{name}/old.ipynb": empty,
        f"pipe/{name}/a.ipynb": os.mkfifo,
        **{f"many/{name}/{number}.ipynb": right for number in range(batch.MOST_NOTEBOOKS + 1)},
        f"abyss/{name}/mine.ipynb": right,
        f"abyss/{name}": dig,
        f"void/{name}": dig,
        f"half/{name}/{name}.ipynb": broken,
        f"emoji/{name}/{name}.ipynb": emoji,
    }
    cases = [item for item in request.session.items if "every_way_to_hand_in" in item.name]
    # To the one student to whom another one links, and to what a Mac packs beside, all cases refer.
    asked = ("ada", "__MACOSX", *(case.callspec.params["student"] for case in cases))
    for path, what in files.items():
        if os.fsdecode(path).encode("ascii", "backslashreplace").decode().startswith(asked):
            hand_in(folder, path, what)
    table = batch.write(batch.grade(folder, course, SHORT, report=print), folder.parent / "grades.csv")
    return {row.split(",")[0]: row for row in table.read_text(encoding="utf-8").splitlines()}


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("ada", ",100,100,"),
        ("upper", ",100,100,"),
        ("deep", ",100,100,"),
        ("other", ",100,100,"),
        ("renamed", ",100,100,"),
        ("unmarked", ",wrong set,0,"),
        ("drafts", "final.ipynb was graded"),
        ("drafts", ",100,100,"),
        ("beside", ",100,100,"),
        ("nothing", ",missing,0,"),
        ("eve", "is a link"),
        ("mallory", "is a link"),
        ("m\\udcfcller", "rename it"),
        ("bob", ",100,100,"),
        ("wide", "not in UTF-8"),
        ("script", ",unreadable,0,"),
        ("script", "answers.py is no notebook"),
        ("packed", f"packed_{roster.PS3}.zip is no notebook"),
        ("_under", ",100,100,"),
        ("twice", ",100,100,"),
        ("own", ",100,100,"),
        ("second", ",100,100,"),
        ("third", ",100,100,"),
        ("named", "final.ipynb was graded"),
        ("named", ",100,100,"),
        ("equal", f"{roster.PS3}.ipynb was graded"),
        ("pipe", "mine.ipynb was graded"),
        ("abyss", ",100,100,"),
        ("abyss", "cannot be read (File name too long)"),
        ("void", "Its folder cannot be read (File name too long)"),
        ("half", ",85,100,"),
        ("half", "3.4: ValueError: 'bad "),
        ("emoji", ",100,100,"),
        ("many", "of the first 50 of 51 files, "),
    ],
)
def test_every_way_to_hand_in_has_its_row(marked, student, words):
    assert words in marked[student]


def test_what_a_mac_packs_beside_is_no_student(marked):
    assert "__MACOSX" not in marked


def test_a_folder_that_is_closed_does_not_stop_the_others(tmp_path, monkeypatch):
    hand_in(tmp_path, f"ada/{roster.PS3}/x.ipynb", b"{}")
    hand_in(tmp_path, f"bob/{roster.PS3}/x.ipynb", b"{}")
    scan = os.scandir

    def refuse(path):
        if tmp_path / "bob" in (path, *path.parents):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(batch.os, "scandir", refuse)
    ada, bob = batch.collect(tmp_path, (roster.PS3,))
    assert [f.name for f in ada.files] == ["x.ipynb"]
    assert (bob.student, bob.files, bob.trouble) == ("bob", [], "Permission denied")


@pytest.mark.parametrize(
    ("file", "student", "name"),
    [
        ("ada_ps1.ipynb", "ada", "ps1"),
        ("ada_ps10.ipynb", "ada", "ps10"),
        ("ada_ps12.ipynb", "ada_ps12", ""),
        ("ada_b_find_it2.ipynb", "ada_b", "find_it"),
        ("ada_find_it (1) (2).ipynb", "ada", "find_it"),
        ("ada_find_item.ipynb", "ada_find_item", ""),
    ],
)
def test_a_flat_name_is_a_student_and_a_set(tmp_path, file, student, name):
    (tmp_path / file).write_text("{}")
    (handed,) = batch.collect(tmp_path, ("ps1", "ps10", "find_it"))
    assert (handed.student, handed.set_name) == (student, name)


def test_a_folder_may_say_more_than_its_set(tmp_path):
    for place in ("my ps10", "old/ps1", "old/ps10.ipynb"):
        hand_in(tmp_path, f"ada/{place}/x.ipynb", b"{}")
    one, ten = batch.collect(tmp_path, ("ps1", "ps10"))
    assert [len(handed.files) for handed in (one, ten)] == [1, 2]


def test_what_no_person_wrote_is_not_read_by_the_grader(sources, tmp_path):
    def check(notebook):
        return checked(sources, tmp_path, notebook, roster.PS3)

    many = copy.deepcopy(sources[roster.PS3])
    many.cells += [nbformat.v4.new_markdown_cell("", id=f"n{n}") for n in range(MOST_CELLS)]
    assert check(many).status == "unreadable"
    long = copy.deepcopy(sources[roster.PS3])
    long.cells.append(nbformat.v4.new_code_cell("x=1\n" * MOST_LETTERS))
    assert f"of more than {MOST_LETTERS:,} letters" in check(long).notes[0]
    talks = copy.deepcopy(sources[roster.PS3])
    text = "&" * (MOST_LETTERS - 1)
    talks.cells += [nbformat.v4.new_markdown_cell(text, id=f"n{n}") for n in range(MOST_TEXT // MOST_LETTERS + 1)]
    found = check(talks)
    assert any(note.startswith("left out the text of ") for note in found.notes)
    shown = [cell.source for cell in found.notebook.cells if cell.cell_type == "markdown"]
    assert MOST_TEXT - MOST_LETTERS < sum(map(len, shown)) <= MOST_TEXT
    wide = copy.deepcopy(sources[roster.PS3])
    wide.cells += [nbformat.v4.new_code_cell("x=1\n" * 20_000, id=f"n{n}") for n in range(MOST_CODE // 80_000 + 1)]
    assert check(wide).status == "unreadable"
    assert f"a submission has at most {MOST_CODE:,}" in check(wide).notes[0]


def test_outputs_are_dropped_however_large_they_are(sources, solved, tmp_path):
    notebook = solved[roster.PS3]
    picture = nbformat.v4.new_output("display_data", {"image/png": "PICTURE"})
    notebook.cells.append(nbformat.v4.new_code_cell("draw()", outputs=[picture]))
    text = nbformat.writes(notebook).encode()

    def check(megabytes, was=b"", now=b""):
        data = text.replace(was, now).replace(b"PICTURE", b"A" * (megabytes << 20))
        return checked(sources, tmp_path, data, roster.PS3)

    found = check(60)
    assert (found.status, found.notes) == ("ok", [])
    assert found.notebook.cells[-1].source == "draw()"
    assert not found.notebook.cells[-1].outputs
    for was, now in ((b'"cells"', b'"cell"'), (b'"nbformat": 4', b'"nbformat": 4 4')):
        assert check(11, was, now).status == "unreadable", now
    with open(tmp_path / "y.ipynb", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    (note,) = precheck(tmp_path / "y.ipynb", sources, roster.PS3).notes
    assert note == "the file has 262 MB; a notebook has at most 250"


def test_a_number_of_the_format_may_be_written_with_a_point(sources, tmp_path):
    text = nbformat.writes(sources[roster.PS3])
    assert '"nbformat": 4,' in text
    for number, status in (("4.0", "repaired"), ("4.5", "unreadable"), ("NaN", "unreadable"), ("1e999", "unreadable")):
        found = checked(
            sources, tmp_path, text.replace('"nbformat": 4,', f'"nbformat": {number},').encode(), roster.PS3
        )
        assert found.status == status, number


@pytest.mark.long
def test_submissions_that_are_read_at_the_same_time_do_not_confuse_python():
    """Where a callback of the search for garbage lets another thread run, CPython 3.11's own parser raises."""
    source = "\n".join(f"def f{i}(a):\n    return [x + {i} for x in a if x]" for i in range(200))
    limits, interval = gc.get_threshold(), sys.getswitchinterval()

    def callback(*_):
        return [None for _ in range(50)]

    gc.callbacks.append(callback)
    gc.set_threshold(100)
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = list(pool.map(checks.parse, [source] * 100))
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*limits)
        sys.setswitchinterval(interval)
    assert {len(tree.body) for tree in trees} == {200}


#: More bytes of outputs than are made into objects.
BULK = nbformat.v4.new_output("stream", text="x" * 11_000_000)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "odd",
    [
        {"cell_type": "code", "metadata": {}, "source": "1", "outputs": [math.nan, "\ud800"]},
        None,
        {"cell_type": "code", "metadata": {}, "source": 5},
        {"cell_type": "markdown", "metadata": {}},
        {"cell_type": "markdown", "metadata": [], "source": "x", "id": None},
        {"cell_type": "markdown", "metadata": {"nbgrader": None}, "source": "x"},
        {"cell_type": "code", "metadata": {"nbgrader": {"grade_id": 5}}, "source": "1"},
        {"cell_type": "code", "metadata": {}, "source": "#" * 5_000_000},
    ],
    ids=["no JSON", "null", "number", "no source", "no metadata", "null mark", "numbered mark", "long"],
)
def test_an_odd_cell_costs_a_large_notebook_no_more_than_a_small_one(sources, tmp_path, odd):
    notebook = answered(sources, roster.PS3)
    notebook.cells[roster.place(notebook, "exercise_3_1")].outputs = [BULK]
    raw = json.loads(nbformat.writes(notebook))
    raw["cells"].insert(0, odd)
    (tmp_path / "x.ipynb").write_text(json.dumps(raw))
    found = precheck(tmp_path / "x.ipynb", sources, roster.PS3)
    assert found.status == "repaired"
    right = {want: notebook.cells[roster.place(notebook, want)].source for want in ("exercise_3_1", "exercise_3_4")}
    assert {w: found.notebook.cells[roster.place(found.notebook, w)].source for w in right} == right


@pytest.mark.parametrize(
    ("many", "status"),
    [
        (b'{"cell_type":"code","source":[' + b",".join([b'"a"'] * 3_000_000) + b"]}", "repaired"),
        (b",".join([b'{"cell_type":"raw","source":""}'] * 400_000), "unreadable"),
        (b'{"a":' + b",".join([b"[]"] * 4_000_000) + b"}", "unreadable"),
        (b",".join([b"0"] * 6_000_000), "unreadable"),
    ],
    ids=["lines", "cells", "no JSON", "numbers"],
)
def test_a_large_notebook_of_small_things_takes_little_memory(sources, tmp_path, many, status):
    path = tmp_path / "x.ipynb"
    path.write_bytes(b'{"nbformat":4,"cells":[' + many + b"]}")
    tracemalloc.start()
    try:
        found = precheck(path, sources, roster.PS3)
        assert tracemalloc.get_traced_memory()[1] < 6 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert found.status == status
