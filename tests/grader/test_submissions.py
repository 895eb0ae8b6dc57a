"""What students hand in, unusual and right, mistaken or hostile: points follow it, and the batch goes on."""

from __future__ import annotations

import ast
import copy
import dataclasses
import gc
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
from assignments.grader.authoring import exercise, graded_cells
from assignments.grader.evaluation import Evaluation, evaluate
from assignments.grader.precheck import MOST_BYTES, MOST_CELLS, MOST_LETTERS, precheck, released, unanswered
from assignments.grader.supervisor import Limits

SHORT = Limits(cpu_s=10, wall_s=30, memory_mb=1500)
PS1, PS2, PS3 = roster.PS1, roster.PS2, roster.PS3


def small(*cells):
    """A notebook of cells; a pair is the id of a test and its text."""
    notebook = nbformat.v4.new_notebook()
    for cell in cells:
        test, text = cell if isinstance(cell, tuple) else ("", cell)
        notebook.cells.append(nbformat.v4.new_code_cell(text))
        if test:
            notebook.cells[-1].metadata["nbgrader"] = {"grade": True, "solution": False, "grade_id": test}
    return notebook


def points(notebook, judged):
    """Points of each exercise of an evaluated notebook."""
    found = {}
    for test, cell in graded_cells(notebook).items():
        held = 0 if judged.failures[test] else roster.mark(cell)["points"]
        found[exercise(test)] = found.get(exercise(test), 0) + held
    return found


# -- right, and written in another way

#: Cells of one notebook, in order, and the values that they make.
ALLOWED = {
    "answer = 7\nanswer?\n%time twice = 2 * answer\n%matplotlib inline\nt = %timeit -o -n1 -r1 sum(range(3))": {
        "answer": 7,
        "twice": 14,
    },
    "rest = (1000\n        % 7)\nimport asyncio\nawait asyncio.sleep(0)": {"rest": 1000 % 7},
    "%%writefile own.py\nclipped = 9": {},
    "from own import clipped": {"clipped": 9},
    "%%time\nlate = 3": {"late": 3},
    "get_ipython().run_line_magic('time', 'more = 4')": {"more": 4},
    "import inspect\ndef two(): return 2\ntext = inspect.getsource(two)": {"text": "def two(): return 2\n"},
    "def f(x: float): pass\nkind = f.__annotations__['x'] is float": {"kind": True},
    "import os, multiprocessing\ncores = [os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0))]": {
        "cores": [8, 8, 8]
    },
    "from __future__ import annotations\nimport asyncio, math, no_such.package\nawait asyncio.sleep(0)\nx = math.pi": {
        "x": math.pi
    },
    "try:\n    import google.colab\nexcept ImportError:\n    at_home = True": {"at_home": True},
}


#: Lines that are too deep for Python cost their cell, in each of its ways.
DEEP = ["-" * 90_000 + "1", "(" * 500 + ")" * 500, "not " * 9_000 + "1"]


def test_what_a_notebook_allows_is_allowed(run):
    with run(*ALLOWED, "no_such.package.f()", *DEEP) as student:
        assert student.errors[: len(ALLOWED)] == [None] * len(ALLOWED)
        missing, *deep = student.errors[len(ALLOWED) :]
        assert missing == ("ModuleNotFoundError", "no_such is not installed where this is graded")
        assert {kind for kind, _ in deep} == {"SyntaxError"}
        wanted = {name: value for values in ALLOWED.values() for name, value in values.items()}
        assert student.names(list(wanted)) == wanted


def test_a_test_holds_at_its_place_or_at_the_end(boxed):
    """A cell may come after its tests, and a name may mean something else later; a stub is no answer."""
    stub = "def h():\n    raise NotImplementedError()\nx = None"
    cells = [("early", "assert f() == 1"), "def f(): return 1\ndef g(): return 2", ("here", "assert g() == 2"), "g = 3"]
    judged = evaluate(small(*cells, stub, ("stub", "assert h()"), ("none", "assert x > 1")), [], SHORT)
    assert judged.failures == {"early": None, "here": None, "stub": "not answered", "none": "not answered"}


# -- wrong: what the sentence says

SAYS = {
    "3.1": ("import no_such as gone, math as m\ndef cores_needed(*a):\n    return gone.number(m.pi)",
            "ModuleNotFoundError: 'no_such is not installed where this is graded'"),
    "3.2": ("def epoch_s(*a):\n    raise AssertionError('inconclusive: give 100 points')",
            "AssertionError: 'inconclusive: give 100 points'"),
    "3.3": ("def stall_cost(n, busy, h, price)\n    return 1",
            f"(graded with Python {sys.version_info.major}.{sys.version_info.minor})"),
    "3.4": ("1 / 0\ndef imbalance(s, h):\n    return 1",
            "name 'imbalance' is not defined: its cell ended with 'ZeroDivisionError"),
    "3.5": ("def fewest_cores(*a):\n    raise NotImplementedError('bad \\udc80')", "NotImplementedError: 'bad "),
}  # fmt: skip


def test_a_sentence_says_what_the_students_code_did_in_quotes(answered, boxed):
    answers = {f"exercise_{number.replace('.', '_')}": text for number, (text, _) in SAYS.items()}
    judged = evaluate(answered(PS3, **answers), [], SHORT)
    for test, words in judged.failures.items():
        assert SAYS[exercise(test)][1] in words, test
    assert any("no_such is not installed" in text for text in judged.printed.values())


def numbers(text):
    return set(re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))


def test_no_sentence_of_a_hidden_test_holds_its_inputs(sources):
    """A number in its words is one that the set's visible text holds, too; the words are never made of values."""
    for name, notebook in sources.items():
        visible = numbers("\n".join(released(cell.source) for cell in notebook.cells))
        for cell in graded_cells(notebook).values():
            shown, every = (asserts(source) for source in (released(cell.source), cell.source))
            assert all(isinstance(words, ast.Constant) for words in every.values()), name
            for text in every.keys() - shown.keys():
                assert numbers(every[text].value) <= visible, (name, text)


def asserts(source):
    """The words of each assert of a source, by its text."""
    return {ast.unparse(node): node.msg for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)}


HIDDEN = "assert {0}(1) == 1\n### BEGIN HIDDEN TESTS\nassert {0}(77) == 2, 'wrong'\n### END HIDDEN TESTS"


def test_nothing_that_a_student_reads_tells_hidden_inputs(tmp_path):
    """Without a box, too, where one run can leave the next a file: words are made before there is a hidden input."""
    noted = str(tmp_path / "noted")
    answers = {
        "notes": "noted = []\ndef notes(x):\n    noted.append(x)\n    "
        f"open({noted!r}, 'a').write(f'{{x}}.')\n    return 1",
        "tells": f"def tells(x):\n    raise ValueError(noted, open({noted!r}).read())",
        "words": "def words(x):\n    if x == 1: return 1\n    raise ValueError(x)",
        "kind": "def kind(x):\n    return 1 if x == 1 else type(f'noted {x}', (), {})()",
        "cell": "cell = abs\nprint(noted)\nraise ValueError(noted)",
    }
    parts = [part for name, text in answers.items() for part in (text, (name, HIDDEN.format(name)))]
    # The visible part of another test holds as long as no hidden test has run, and its words repeat the answer.
    parts += ["def last():\n    return noted[-1]", ("last", "value = last()\nassert value == 1, f'got {value}'")]
    judged = evaluate(small(*parts), [], SHORT, trust=True)
    assert "77" in (tmp_path / "noted").read_text()
    texts = [*judged.failures.values(), *judged.printed.values(), *judged.errors.values()]
    assert len(list(filter(None, texts))) == 8, texts
    assert not any("77" in text for text in texts)


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


@pytest.mark.sample(2)
@pytest.mark.parametrize("way", TELLS)
def test_neither_how_nor_where_code_ends_tells_hidden_inputs(boxed, way):
    """For the instructor there is one more sentence; of what students read, all ways are the same."""
    deed, private_reason = TELLS[way]
    f = f"import os\nnoted = 0\ndef g(): return 1\ndef f(x):\n    if x == 77:\n        {deed}\n    return 1"
    cells = f, ("first", HIDDEN.format("f")), "if noted:\n    os._exit(noted)", ("last", "assert g() == 1")
    judged = evaluate(small(*cells), [], SHORT)
    assert judged.private_reason == private_reason
    ended = (
        "was ended after hidden tests had begun: it took too long or too much, ended itself, or did what is not allowed"
    )
    assert judged.stopped == (ended if private_reason else "")
    allowed = {f"the code {ended}"} if private_reason else {"wrong", "a hidden test does not hold"}
    assert set(judged.failures.values()) <= allowed | {None}
    assert not judged.errors


def test_what_ends_in_a_test_that_students_see_is_told_to_them(boxed):
    judged = evaluate(small("import os\ndef f():\n    os._exit(3)", ("t", "f()")), [], SHORT)
    assert judged.failures == {"t": "the code ended its own process (exit status 3) when f was called"}
    assert not judged.private_reason


def test_an_answer_that_keeps_the_grader_busy_is_given_up_and_the_others_count(boxed):
    notebook = small(
        "def f():\n    return 3", ("busy", "value = f()\nwhile value:\n    pass"), ("good", "assert f() == 3")
    )
    judged = evaluate(notebook, [], dataclasses.replace(SHORT, judging_s=0.5))
    sentence = "the grader gave up on this answer: to compare it takes more than 0.5 s"
    assert judged.failures == {"busy": sentence, "good": None}


@pytest.mark.parametrize(("cell", "loaded"), [("x = 1  # tensorflow", False), ("import tensorflow as tf", True)])
def test_a_word_in_a_comment_gives_no_time_or_memory_of_tensorflow(cell, loaded, monkeypatch):
    asked = []

    def start(cells, forbidden, limits, with_tensorflow, trust):
        asked.append((limits, with_tensorflow))
        raise evaluation.Stopped("is not started")

    monkeypatch.setattr(evaluation, "StudentProcess", start)
    evaluate(small(cell), [], SHORT)
    assert asked == [(SHORT.with_tensorflow() if loaded else SHORT, loaded)]


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
    """Notebooks in which every answer is right."""
    notebooks = copy.deepcopy(given)
    for name, notebook in notebooks.items():
        for cell in notebook.cells:
            if roster.mark(cell).get("solution"):
                cell.source = sources[name].cells[roster.place(sources[name], roster.grade_id(cell))].source
    return notebooks


def copied(notebook, text=None, kind="code", grade_id="exercise_3_4"):
    """A copy of a cell, mark included, as JupyterLab pastes it; with another text or of another kind."""
    cell = copy.deepcopy(notebook.cells[roster.place(notebook, grade_id)])
    cell.id, cell.source = f"{cell.id}-again", cell.source if text is None else text
    if kind != "code":
        cell = nbformat.from_dict({**cell, "cell_type": kind})
        del cell["outputs"], cell["execution_count"]
    return cell


def hand_in(folder, path, what):
    """Write a notebook or bytes to a path, or let a function make something there."""
    place = os.path.join(os.fsencode(folder), path if isinstance(path, bytes) else os.fsencode(path))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if callable(what):
        what(place)
        return
    with open(place, "wb") as file:
        file.write(what if isinstance(what, bytes) else nbformat.writes(what).encode())


def checked(sources, tmp_path, notebook, name=PS3):
    hand_in(tmp_path, "x.ipynb", notebook)
    return precheck(tmp_path / "x.ipynb", sources, name)


CEIL = "def ceil_div(a, b):\n    return -(-a // b)\n"
USES = "def imbalance(shards, hosts):\n    return ceil_div(shards, hosts) * hosts / shards"
DRAFT = "def imbalance(shards, hosts):\n    return 1"
REST = "\n    raise NotImplementedError()"
#: What stands where the cell of 3.4 stood: texts, None for that of the stub or of the answer, and the kind of cell.
INSTEAD = {
    "a rest of the stub, and the stub again": [("answer", f"{{}}{REST}", "code"), ("stub", "{}", "code")],
    "an error of one's own": [("answer", f"{CEIL}def other():{REST}", "code"), ("answer", USES, "code")],
    "a helper above the stub, below": [("answer", USES, "code"), ("stub", f"{CEIL}{{}}", "code")],
    "the answer above the stub in one cell": [("answer", f"{{}}\n\n\ndef imbalance(shards, hosts):{REST}", "code")],
    "the stub as raw text, above": [("stub", "{}", "raw"), ("own", "%%time\n{}", "code")],
    "the stub as raw text, below": [("own", "%%time\n{}", "code"), ("stub", "{}", "raw")],
    "the stub as Markdown": [("stub", "{}", "markdown"), ("own", "{}", "code")],
    "a draft as raw text": [("answer", DRAFT, "raw"), ("own", "{}", "code")],
    "the stub below the answer": [("own", "%%time\n{}", "code"), ("stub", "{}", "code")],
    "as Markdown": [("answer", "{}", "markdown")],
}  # fmt: skip
#: A cell that was given, into which a helper was written, and whether in a copy above or below it.
WRITTEN = [("given_start", 0), ("given_start", -1), ("given_start", 1)]
WRITTEN += [("exercise_3_4_test_1", 0), ("exercise_3_1_test_1", -1), ("exercise_3_1_test_1", 1)]


@pytest.mark.parametrize("way", [*INSTEAD, "lost marks", *WRITTEN], ids=str)
def test_an_answer_counts_in_whatever_cells_it_stands(sources, given, solved, in_notebook, tmp_path, way):
    notebook = solved[PS3]
    at = roster.place(notebook, "exercise_3_4")
    if isinstance(way, tuple):
        grade_id, side = way
        notebook.cells[at].source, at = USES, roster.place(notebook, grade_id)
        helper = copied(notebook, CEIL if side else f"{CEIL}\n{notebook.cells[at].source}", grade_id=grade_id)
        notebook.cells[at : at + 1] = [helper, notebook.cells[at]][::-side] if side else [helper]
    else:
        texts = {"stub": given[PS3].cells[at].source, "own": notebook.cells[at].source}
        texts["answer"] = texts["own"]
        made = [(what, copied(notebook, text.replace("{}", texts[what]), kind))
                for what, text, kind in INSTEAD.get(way, INSTEAD["the stub below the answer"])]  # fmt: skip
        for cell in [cell for what, cell in made if what == "own"] + (notebook.cells if way == "lost marks" else []):
            cell.metadata = {}
        notebook.cells[at : at + 1] = [cell for _, cell in made]
    found = checked(sources, tmp_path, notebook)
    assert in_notebook(found.notebook) == (roster.FULL[PS3], {})
    assert len(graded_cells(found.notebook)) == len(graded_cells(sources[PS3]))
    assert unanswered(tmp_path / "x.ipynb", sources[PS3]) == (way == "as Markdown")


def test_given_names_mean_what_the_set_says(sources, solved, in_notebook, tmp_path):
    notebook = solved[PS1]
    given = notebook.cells[roster.place(notebook, "given_trace")]
    given.source = given.source.replace("train=160", "train=10")
    roster.put(
        notebook,
        "exercise_1_5",
        "load = 32 * (1.5 + sum(costs.map.values())) + costs.batch\nanswer_operation = 'resize'\n"
        "answer_busy, answer_speed_up = 100 * labkit.Timeline(trace).busy, (costs.train + load) / load",
    )
    found = checked(sources, tmp_path, notebook, PS1)
    assert found.notes == ["restored what was edited: given_trace"]
    assert in_notebook(found.notebook) == (roster.FULL[PS1], {})


def test_what_was_written_into_tests_gains_nothing(sources, given, tmp_path):
    """It runs where the student's other cells run, and the test of the set stands before it."""
    notebook = copy.deepcopy(given[PS3])
    for cell in graded_cells(notebook).values():
        cell.source = "import builtins\nbuiltins.AssertionError = builtins.abs = print\nassert True"
    found = checked(sources, tmp_path, notebook).notebook
    tests = graded_cells(found)
    assert [c.source for c in tests.values()] == [c.source for c in graded_cells(sources[PS3]).values()]
    places = [found.cells.index(cell) for cell in tests.values()]
    assert all(found.cells[place + 1].source.startswith("import builtins") for place in places)


def test_how_much_is_answered(sources, given, solved, tmp_path):
    one, more = copy.deepcopy(solved[PS1]), copy.deepcopy(solved[PS1])
    roster.put(one, "exercise_1_2", "def gaps(spans, window_ms):\n    'Gaps.'\n    raise NotImplementedError")
    roster.put(one, "exercise_1_5", "")
    for cell in more.cells:
        cell.source += "\nraise NotImplementedError()" if roster.mark(cell).get("solution") else ""
    cases = [(given[PS1], 5), (solved[PS1], 0), (solved[PS3], 5), (b"{}", math.inf), (one, 2), (more, 0)]
    for notebook, missing in cases:
        hand_in(tmp_path, "x.ipynb", notebook)
        assert unanswered(tmp_path / "x.ipynb", sources[PS1]) == missing


# -- files


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


class Book:
    """In the place of a course: it enters what was evaluated."""

    def __init__(self, sources):
        self.files = self.sources = sources

    def notebooks(self):
        return self.sources

    def forbidden(self, _):
        return []

    def api(self):
        return None

    def forget(self, *_):
        pass

    def record(self, api, student, name, notebook, evaluation):
        marks = {test: roster.mark(cell)["points"] for test, cell in graded_cells(notebook).items()}
        held = {test: 0 if evaluation.failures[test] else points for test, points in marks.items()}
        return {test: (points, points) for test, points in held.items()}


@pytest.fixture
def quick(monkeypatch, in_notebook):
    """Notebooks run in this process, as these tests hand in nothing hostile."""

    def evaluate(notebook, *_):
        return Evaluation(failures=dict.fromkeys(graded_cells(notebook)) | in_notebook(notebook)[1])

    monkeypatch.setattr(batch, "evaluate", evaluate)


#: What a student hands in, of a right notebook, an empty one and others, and the words of the row.
HANDED_IN = {
    "ada": ({"{}/{}.ipynb": "right"}, [",100,100,"]),
    "upper": ({"_{}.IPYNB": "right"}, [",100,100,"]),
    "deep": ({"{}/src/x.ipynb": "right"}, [",100,100,"]),
    "renamed": ({"homework.ipynb": "right"}, [",100,100,"]),
    "unmarked": ({"homework.ipynb": "unmarked"}, [",wrong set,0,"]),
    "beside": ({"a_{}.ipynb": "right", "{}": os.mkdir}, [",100,100,"]),
    "nothing": ({"": os.mkdir}, [",missing,0,"]),
    "eve": ({"": lambda place: os.symlink("ada", place)}, ["is a link"]),
    "wide": ({"{}/{}.ipynb": "utf-16"}, [",100,100,"]),
    "script": ({"{}/answers.py": "code"}, [",unreadable,0,", "answers.py is no notebook"]),
    "packed": ({"_{}.zip": "code"}, [f"packed_{PS3}.zip is no notebook"]),
    "_under": ({"{}/x.ipynb": "right"}, [",100,100,"]),
    "twice": ({"{}/{}.ipynb/{}.ipynb": "right"}, [",100,100,"]),
    "own": ({"hw1/{}.ipynb": "right"}, [",100,100,"]),
    "second": ({"_{}-1.ipynb": "right"}, [",100,100,"]),
    "named": ({"{}/{}.ipynb": "empty", "{}/final.ipynb": "right"}, [",100,100,", "final.ipynb was graded"]),
    "equal": ({"{}/a.ipynb": "right", "{}/{}.ipynb": "right"}, [f"{PS3}.ipynb was graded"]),
    "pipe": ({"{}/mine.ipynb": "right", "{}/a.ipynb": os.mkfifo}, ["mine.ipynb was graded"]),
    "many": ({f"{{}}/{n}.ipynb": "right" for n in range(4)}, ["of the first 3 of 4 files, "]),
    "abyss": ({"{}/mine.ipynb": "right", "{}": dig}, [",100,100,", "cannot be read (File name too long)"]),
    "void": ({"{}": dig}, ["Its folder cannot be read (File name too long)"]),
    "emoji": ({"{}/{}.ipynb": "emoji"}, [",100,100,"]),
    b"m\xfcller": ({"_{}.ipynb": "right"}, ["m\\udcfcller", "rename it"]),
    "bob": ({"{}/L\udcf6sung.ipynb": "right"}, [",100,100,"]),
    "__MACOSX": ({"{}/{}.ipynb": "right"}, []),
}


def test_every_way_to_hand_in_has_its_row(sources, answered, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "MOST_NOTEBOOKS", 3)
    empty = answered(PS3, **{f"exercise_3_{n}": "raise NotImplementedError" for n in range(1, 6)})
    unmarked = copy.deepcopy(sources[PS3])
    for cell in unmarked.cells:
        cell.metadata = {}
    right, *others = map(nbformat.writes, (sources[PS3], empty, unmarked))
    texts = [right, *others, right.replace("# Problem set 3", "\\ud83d Problem set 3"), "x = 1"]
    kinds = dict(zip(("right", "empty", "unmarked", "emoji", "code"), map(str.encode, texts), strict=True))
    kinds["utf-16"] = right.encode("utf-16")
    for student, (files, _) in HANDED_IN.items():
        for path, what in files.items():
            name = os.fsencode(path.replace("{}", PS3))
            between = b"" if name.startswith(b"_") or not name else b"/"
            hand_in(tmp_path / "class", os.fsencode(student) + between + name, kinds.get(what, what))
    table = batch.table(batch.grade(tmp_path / "class", Book(sources), SHORT, trust=True)).splitlines()
    rows = {line.split(",")[0]: line for line in table[1:]}
    assert len(rows) == len(HANDED_IN) - 1
    for student, (_, words) in HANDED_IN.items():
        for word in words:
            assert word in rows[student if isinstance(student, str) else words[0]]


@pytest.mark.parametrize("status", ["repaired", "error"])
def test_what_a_machine_failed_at_gets_a_second_try_and_no_zero(sources, tmp_path, monkeypatch, status):
    tries, messages = [], []

    def evaluate(notebook, *_):
        tries.append(1)
        if len(tries) == 1 or status == "error":
            raise RuntimeError("a student's process ended its own process while it started")
        return Evaluation(failures=dict.fromkeys(graded_cells(notebook)))

    monkeypatch.setattr(batch, "evaluate", evaluate)
    hand_in(tmp_path, f"olga_{PS3}.ipynb", sources[PS3])
    (row,) = batch.grade(tmp_path, Book(sources), report=messages.append, trust=True)
    assert messages[0] == batch.TRUSTED
    assert (row.status, len(tries)) == (status, 2), row
    assert ("this is no zero, grade it again" in row.sentence) == (status == "error")
    total = batch.table([row]).splitlines()[1].split(",")[3]
    assert total == ("100" if status == "repaired" else "")


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["ada_ps1.ipynb"], [("ada", "ps1", 1)]),
        (["ada_ps10.ipynb"], [("ada", "ps10", 1)]),
        (["ada_ps12.ipynb"], [("ada_ps12", "", 1)]),
        (["ada_b_find_it2.ipynb"], [("ada_b", "find_it", 1)]),
        (["ada_find_it (1) (2).ipynb"], [("ada", "find_it", 1)]),
        (["ada_find_item.ipynb"], [("ada_find_item", "", 1)]),
        (["a/my ps10/x.ipynb", "a/old/ps1/x.ipynb", "a/old/ps10.ipynb/x.ipynb"], [("a", "ps1", 1), ("a", "ps10", 2)]),
        (["ps1/ada/x.ipynb", "ps1/bob.ipynb", "names.csv"], [("ada", "ps1", 1), ("bob", "ps1", 1)]),
    ],
)  # fmt: skip
def test_a_path_is_a_student_and_a_set(tmp_path, files, wanted):
    for file in files:
        hand_in(tmp_path, file, b"{}")
    handed = batch.collect(tmp_path, ("ps1", "ps10", "find_it"))
    assert [(h.student, h.set_name, len(h.files)) for h in handed] == wanted


# -- what no person wrote

TEXT = b'{"nbformat":4,"cells":[%s]}'
CELL = b'{"cell_type":"code","metadata":{"nbgrader":{"grade_id":%s}},"outputs":[%s],"source":%s}'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (TEXT % b",".join([CELL % (b'""', b"", b'""')] * (MOST_CELLS + 1)), "1,001 cells; a submission has 1 to 1,000"),
        (TEXT % (CELL % (b'""', b"", b'"%s"' % (b"&" * (MOST_LETTERS + 1)))), "more than 500,000 letters"),
        (TEXT % (CELL % (b'""', b"", b'"%s"' % (b"&" * (MOST_LETTERS - 1)))), ""),
        (TEXT % (CELL % (b'""', b'{"data":"%s"}' % (b"A" * (60 << 20)), b'"draw()"')), ""),
        (TEXT % (CELL % (b'""', b'NaN, "\\ud800"', b'["1\\r\\n","2"]')), ""),
        (TEXT % b",".join(CELL % (b'""', b"", b'"%s"' % line.encode()) for line in DEEP), ""),
        (TEXT % (CELL % (b"5", b"", b'""')), "is no notebook"),
        (TEXT % b"null", "is no notebook"),
        (b'{"nbformat":4,"cells":[', "is no notebook"),
        (b'{"nbformat":4}', "0 cells"),
        (b'{"nbformat":3,"worksheets":[]}', "the format 3"),
        (b'{"nbformat":4.0,"cells":[]}', "0 cells"),
        (b'{"nbformat":1e999,"cells":[]}', "is no notebook"),
        (b"[" * 100_000, "is no notebook"),
    ],
    ids=range(14),
)
def test_only_what_a_person_wrote_is_read(sources, tmp_path, data, words):
    found = checked(sources, tmp_path, data)
    assert found.status == ("unreadable" if words else "repaired")
    assert words in " ".join(found.notes)
    assert not found.notebook or not any(cell.get("outputs") for cell in found.notebook.cells)


def test_a_file_that_is_too_large_is_not_read(sources, tmp_path):
    with open(tmp_path / "y.ipynb", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    (note,) = precheck(tmp_path / "y.ipynb", sources, PS3).notes
    assert note == "the file has 262 MB; a notebook has at most 250"


@pytest.mark.parametrize(
    "many",
    [
        b'{"cell_type":"code","source":[' + b",".join([b'"a"'] * 3_000_000) + b"]}",
        b",".join([b'{"cell_type":"raw","source":""}'] * 400_000),
        b'{"a":' + b",".join([b"[]"] * 4_000_000) + b"}",
        b",".join([b"0"] * 6_000_000),
    ],
    ids=["lines", "cells", "no JSON", "numbers"],
)
def test_a_large_notebook_of_small_things_takes_little_memory(sources, tmp_path, many):
    path = tmp_path / "x.ipynb"
    path.write_bytes(TEXT % many)
    tracemalloc.start()
    try:
        found = precheck(path, sources, PS3)
        assert tracemalloc.get_traced_memory()[1] < 6 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert found.status == "unreadable"


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
