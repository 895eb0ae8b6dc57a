"""The students of the class: a name, the changes in the notebook, and the exact result."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
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
    """The row that a submission must get; of exercises that are not in `scores` all points, or none if it is zero."""

    set_name: str
    status: str = "graded"
    words: str = ""
    scores: dict = field(default_factory=dict)


#: Who changes answers of a solved notebook, by exercise; what stands under "" runs first.
CHANGED = {
    "ada": ({}, Expected(PS1, words="All tests hold")),
    "ben": ({"1.1": WRONG["sum"]}, Expected(PS1, words="time in two spans counts once", scores={"1.1": 8})),
    "gina": ({"1.3": WRONG["call hangs"]},
             Expected(PS1, words="1.3: blame did not come to an end within", scores={"1.3": 0})),
    "hal": ({"1.2": WRONG["crash"]}, Expected(PS1, words="'gaps' is not defined", scores={"1.2": 0})),
    "mia": ({"1.1": WRONG["hard-coded"]}, Expected(PS1, words="1.1: a hidden test does not hold", scores={"1.1": 0})),
    "ned": ({"": WRONG["agreeable"]} | {
        f"1.{number}": f"{name} = lambda *args: {'Same()' if number < 3 else 'Text()'}"
        for number, name in enumerate(("busy_percent", "gaps", "blame", "stall"), 1)
    }, Expected(PS1, scores=dict.fromkeys(("1.1", "1.2", "1.3", "1.4"), 0))),
    "oda": ({"": EVIL["patch"], "3.4": "def imbalance(shards, hosts):\n    return 1.0",
             "3.5": "def fewest_cores(accelerator, cpu_ms_per_image):\n    return 2"},
            Expected(PS3, scores={"3.4": 5, "3.5": 0})),
    "finn": ({"": EVIL["hang"]}, Expected(PS1, "stopped", "did not come to an end within")),
    "ida": ({"": EVIL["segfault"]}, Expected(PS1, "stopped", "SIGSEGV")),
    "pat": ({"": EVIL["memory"]}, Expected(PS1, "stopped", "took more memory than allowed")),
    "quin": ({"": EVIL["exit"]}, Expected(PS1, "stopped", "ended its own process (exit status 0)")),
    # What the wall refuses, or what is not there, costs no more than what needs it.
    **{student: ({"": EVIL[deed]}, Expected(PS1, words="All tests hold")) for student, deed in
       {"rosa": "network", "rob": "socket", "sam": "read", "sue": "parent", "zoe": "fork"}.items()},
    "wes": ({}, Expected(PS2)),
    "xena": (HALF_PIPELINES, Expected(PS2, words="they were cached, too",
                                      scores={"2.1": 10, "2.2": 10, "2.3": 10, "2.4": 0})),
}  # fmt: skip


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

    def hand_in(student, notebook, want, flat=False):
        name = want.set_name
        path = folder / (f"{student}_{name}.ipynb" if flat else f"{student}/{name}/{name}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
        zero = want.status in ("stopped", "unreadable", "wrong set")
        scores = {n: 0 if zero else points for n, points in FULL[name].items()} | want.scores
        expected[student] = replace(want, scores=scores)

    def again(set_name=PS1):
        return copy.deepcopy(right[set_name])

    for student, (answers, want) in CHANGED.items():
        notebook = again(want.set_name)
        for number, text in answers.items():
            if number:
                put(notebook, f"exercise_{number.replace('.', '_')}", text)
            else:
                first(notebook, text.replace("{path!r}", repr(str(secret))))
        hand_in(student, notebook, want)

    zeros = dict.fromkeys(FULL[PS1], 0)
    notebook = copy.deepcopy(released[PS1])
    put(notebook, "exercise_1_3", right[PS1]["cells"][place(right[PS1], "exercise_1_3")]["source"])
    hand_in("cleo", notebook, Expected(PS1, words="1.1: not answered", scores=zeros | {"1.3": 25}))
    hand_in("dan", released[PS1], Expected(PS1, words="1.1: not answered", scores=zeros))

    notebook = again()
    put(notebook, "exercise_1_1", WRONG["constant"])
    put(notebook, "exercise_1_1_test_1", "assert True")
    put(notebook, "exercise_1_1_test_2", "print('12 points')\n12")
    notebook["cells"][place(notebook, "exercise_1_2_test_1")]["metadata"]["nbgrader"]["points"] = 1000
    words = "Restored what was edited: exercise_1_1_test_1, exercise_1_1_test_2"
    hand_in("eva", notebook, Expected(PS1, "repaired", words, {"1.1": 0}))

    notebook = again()
    for cell in notebook["cells"]:
        del cell["id"]
        cell["metadata"]["id"] = "Xy12"
    notebook["nbformat_minor"] = 0
    notebook["metadata"] |= {
        "colab": {"provenance": []},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"a": 1}},
    }
    hand_in("jon", notebook, Expected(PS1, "repaired", "Colab drops them"))

    notebook = again()
    at = place(notebook, "exercise_1_4")
    notebook["cells"].insert(at + 1, released[PS1]["cells"][place(released[PS1], "exercise_1_4")])
    at = place(notebook, "exercise_1_2_test_1")
    notebook["cells"].insert(at, copy.deepcopy(notebook["cells"][at]))
    hand_in("kim", notebook, Expected(PS1, "repaired", "Was there more than once: exercise_1_2_test_1, exercise_1_4"))

    notebook = again()
    for gone in ("exercise_1_1_test_2", "exercise_1_4"):
        del notebook["cells"][place(notebook, gone)]
    words = "Put back what was deleted: exercise_1_1_test_2, exercise_1_4"
    hand_in("leo", notebook, Expected(PS1, "repaired", words, {"1.4": 0}))

    notebook = copy.deepcopy(released[PS3])
    first(notebook, EVIL["forge"])
    hand_in("abe", notebook, Expected(PS3, "stopped", "the pipe of the grader"))

    hand_in("tess", json.dumps(right[PS1])[:-40], Expected(PS1, "unreadable", "is no notebook"))
    hand_in("vic", again(PS3), Expected(PS1, "wrong set", "notebook of ps3_plan_a_cluster"))

    notebook = again(PS3)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    hand_in("yan", notebook, Expected(PS3, "repaired", "Found cells that had lost their mark"))

    notebook = copy.deepcopy(released[PS3])
    put(notebook, "exercise_3_3", right[PS3]["cells"][place(right[PS3], "exercise_3_3")]["source"])
    hand_in("bea", notebook, Expected(PS3, scores=dict.fromkeys(("3.1", "3.2", "3.4", "3.5"), 0)), flat=True)

    (folder / "cyn" / PS3).mkdir(parents=True)
    expected["cyn"] = Expected(PS3, "missing", "Nothing was handed in", dict.fromkeys(FULL[PS3], 0))
    return expected
