"""The students of the class: a name, the changes in the notebook, and the exact result."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path

from class_of_25.answers import EVIL, HALF_PIPELINES, WRONG

PS1, PS2, PS3 = "ps1_find_the_stall", "ps2_build_the_pipeline", "ps3_plan_a_cluster"
FULL = {
    PS1: {"1.1": 20, "1.2": 20, "1.3": 25, "1.4": 20, "1.5": 15},
    PS2: {"2.1": 25, "2.2": 25, "2.3": 25, "2.4": 25},
    PS3: {"3.1": 20, "3.2": 20, "3.3": 20, "3.4": 15, "3.5": 25},
}


@dataclass(frozen=True)
class Expected:
    """The row that a submission must get."""

    set_name: str
    status: str
    scores: dict
    words: str


def solved(released, source):
    """The student version with the source's solutions in it, as JSON."""
    notebook = json.loads(json.dumps(released))
    right = {grade_id(c): c["source"] for c in source["cells"] if mark(c).get("solution")}
    for cell in notebook["cells"]:
        if grade_id(cell) in right:
            cell["source"] = right[grade_id(cell)]
    return notebook


def mark(cell):
    return cell["metadata"].get("nbgrader", {})


def grade_id(cell):
    return mark(cell).get("grade_id")


def place(notebook, wanted):
    return next(i for i, cell in enumerate(notebook["cells"]) if grade_id(cell) == wanted)


def put(notebook, wanted, text):
    notebook["cells"][place(notebook, wanted)]["source"] = text


def code(text):
    return {"cell_type": "code", "id": "added", "metadata": {}, "source": text, "outputs": [], "execution_count": None}


def first(notebook, text):
    notebook["cells"].insert(0, code(text))


def make(folder: Path, released: dict, sources: dict, secret: Path) -> dict[str, Expected]:
    """Write the class into a folder; return what each student must get.

    `released` and `sources` hold notebooks as JSON by set; `secret` is a file with answers.
    """
    right = {name: solved(released[name], sources[name]) for name in FULL}
    expected: dict[str, Expected] = {}

    def hand_in(student, set_name, notebook, status="graded", words="", flat=False, **scores):
        path = folder / (f"{student}_{set_name}.ipynb" if flat else f"{student}/{set_name}/{set_name}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
        zero = status in ("stopped", "unreadable", "wrong set")
        full = {n: 0 if zero else points for n, points in FULL[set_name].items()}
        got = full | {n.removeprefix("e").replace("_", "."): points for n, points in scores.items()}
        expected[student] = Expected(set_name, status, got, words)

    def again(set_name=PS1):
        return copy.deepcopy(right[set_name])

    hand_in("ada", PS1, again(), words="All tests hold")

    notebook = again()
    put(notebook, "exercise_1_1", WRONG["sum"])
    hand_in("ben", PS1, notebook, words="time in two spans counts once", e1_1=8)

    notebook = copy.deepcopy(released[PS1])
    put(notebook, "exercise_1_3", right[PS1]["cells"][place(right[PS1], "exercise_1_3")]["source"])
    hand_in("cleo", PS1, notebook, words="1.1: not answered", e1_1=0, e1_2=0, e1_4=0, e1_5=0)

    hand_in("dan", PS1, released[PS1], words="1.1: not answered", e1_1=0, e1_2=0, e1_3=0, e1_4=0, e1_5=0)

    notebook = again()
    put(notebook, "exercise_1_1", WRONG["constant"])
    put(notebook, "exercise_1_1_test_1", "assert True")
    put(notebook, "exercise_1_1_test_2", "print('12 points')\n12")
    notebook["cells"][place(notebook, "exercise_1_2_test_1")]["metadata"]["nbgrader"]["points"] = 1000
    hand_in(
        "eva", PS1, notebook, "repaired", "Restored what was edited: exercise_1_1_test_1, exercise_1_1_test_2", e1_1=0
    )

    notebook = again()
    put(notebook, "exercise_1_3", WRONG["call hangs"])
    hand_in("gina", PS1, notebook, words="1.3: blame did not come to an end within", e1_3=0)

    notebook = again()
    put(notebook, "exercise_1_2", WRONG["crash"])
    hand_in("hal", PS1, notebook, words="'gaps' is not defined", e1_2=0)

    notebook = again()
    for cell in notebook["cells"]:
        del cell["id"]
        cell["metadata"]["id"] = "Xy12"
    notebook["nbformat_minor"] = 0
    notebook["metadata"] |= {
        "colab": {"provenance": []},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"a": 1}},
    }
    hand_in("jon", PS1, notebook, "repaired", "Colab drops them")

    notebook = again()
    at = place(notebook, "exercise_1_4")
    notebook["cells"].insert(at + 1, released[PS1]["cells"][place(released[PS1], "exercise_1_4")])
    at = place(notebook, "exercise_1_2_test_1")
    notebook["cells"].insert(at, copy.deepcopy(notebook["cells"][at]))
    hand_in("kim", PS1, notebook, "repaired", "Was there more than once: exercise_1_2_test_1, exercise_1_4")

    notebook = again()
    for gone in ("exercise_1_1_test_2", "exercise_1_4"):
        del notebook["cells"][place(notebook, gone)]
    hand_in("leo", PS1, notebook, "repaired", "Put back what was deleted: exercise_1_1_test_2, exercise_1_4", e1_4=0)

    notebook = again()
    put(notebook, "exercise_1_1", WRONG["hard-coded"])
    hand_in("mia", PS1, notebook, words="1.1: a hidden test does not hold", e1_1=0)

    notebook = again()
    first(notebook, WRONG["agreeable"])
    for number, name in enumerate(("busy_percent", "gaps", "blame", "stall"), 1):
        put(notebook, f"exercise_1_{number}", f"{name} = lambda *args: {'Same()' if number < 3 else 'Text()'}")
    hand_in("ned", PS1, notebook, e1_1=0, e1_2=0, e1_3=0, e1_4=0)

    notebook = again(PS3)
    first(notebook, EVIL["patch"])
    put(notebook, "exercise_3_4", "def imbalance(shards, hosts):\n    return 1.0")
    put(notebook, "exercise_3_5", "def fewest_cores(accelerator, cpu_ms_per_image):\n    return 2")
    hand_in("oda", PS3, notebook, e3_4=5, e3_5=0)

    for student, deed, words in (
        ("finn", "hang", "did not come to an end within"),
        ("ida", "segfault", "SIGSEGV"),
        ("pat", "memory", "took more memory than allowed"),
        ("quin", "exit", "ended its own process (exit status 0)"),
    ):
        notebook = again()
        first(notebook, EVIL[deed].replace("{path!r}", repr(str(secret))))
        hand_in(student, PS1, notebook, "stopped", words)

    # What the wall refuses, or what is not there, costs no more than what needs it.
    for student, deed in (("rosa", "network"), ("rob", "socket"), ("sam", "read"), ("sue", "parent"), ("zoe", "fork")):
        notebook = again()
        first(notebook, EVIL[deed].replace("{path!r}", repr(str(secret))))
        hand_in(student, PS1, notebook, words="All tests hold")

    notebook = copy.deepcopy(released[PS3])
    first(notebook, EVIL["forge"])
    hand_in("abe", PS3, notebook, "stopped", "the pipe of the grader")

    hand_in("tess", PS1, json.dumps(right[PS1])[:-40], "unreadable", "is no notebook")

    hand_in("vic", PS1, again(PS3), "wrong set", "notebook of ps3_plan_a_cluster")
    hand_in("wes", PS2, again(PS2))

    notebook = again(PS2)
    for name, text in HALF_PIPELINES.items():
        put(notebook, name, text)
    hand_in("xena", PS2, notebook, e2_1=10, e2_2=10, e2_3=10, e2_4=0, words="they were cached, too")

    notebook = again(PS3)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    hand_in("yan", PS3, notebook, "repaired", "Found cells that had lost their mark")

    notebook = copy.deepcopy(released[PS3])
    put(notebook, "exercise_3_3", right[PS3]["cells"][place(right[PS3], "exercise_3_3")]["source"])
    hand_in("bea", PS3, notebook, flat=True, e3_1=0, e3_2=0, e3_4=0, e3_5=0)

    (folder / "cyn" / PS3).mkdir(parents=True)
    expected["cyn"] = Expected(PS3, "missing", dict.fromkeys(FULL[PS3], 0), "Nothing was handed in")
    return expected
