"""The slow pipelines of `data/slow_pipelines`, and how `benchmarks/cases.py` judges what a tool says of them."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from types import SimpleNamespace

import _cases
import cases as benchmark
import pytest
import tensorflow as tf

from labextras.checks import CheckFinding
from labkit.timeline.causes.stalls import Stalls

EVERY = _cases.every()
SILENT = {name: case for name, case in EVERY.items() if hasattr(case, "FINDS")}
JUDGED = {name: case for name, case in EVERY.items() if name not in SILENT}
VARIANTS = [(name, seed) for name, case in EVERY.items() for seed in range(len(case.SHAPES))]
#: What differs in these stands in a function of Python, which no graph shows.
IN_PYTHON = {"generator_of_lists", "hdf5_rows_at_random", "python_behind_a_lock", "iterators_begun_anew"}


def test_the_set_has_many_kinds_and_healthy_and_wrong_ones_among_them():
    assert len(JUDGED) >= 30
    assert sum(not case.CAUSE for case in JUDGED.values()) >= 4
    assert len(SILENT) >= 6


@pytest.mark.parametrize("name", EVERY)
def test_a_file_says_its_truth_and_needs_nothing_of_the_lab(name):
    case, text = EVERY[name], (_cases.HERE / f"{name}.py").read_text(encoding="utf-8")
    assert list(_cases.facts(case)) == ["fault", "Source", "Cause", "Remedy", "Never"]
    assert len(text.splitlines()) <= 60
    assert not re.search(r"\blab(kit|extras|course)\b", text)
    assert len(set(case.SHAPES)) >= 3
    assert 0 < case.STEP_MS < 1000


@pytest.mark.parametrize("name", JUDGED)
def test_its_own_remedy_is_what_may_be_said_and_is_not_forbidden(name):
    case, remedy = JUDGED[name], _cases.facts(JUDGED[name])["Remedy"]
    assert case.CAUSE <= {"fetch", "prep", "batch", "start", None}
    assert not re.search(case.NEVER, remedy)
    if case.CAUSE:
        assert re.search(case.SAYS, remedy)
        assert benchmark.advised(case, remedy) is True
    else:
        assert re.search(case.SAYS, _cases.facts(case)["Cause"])


def kinds(dataset):
    return tf.nest.map_structure(lambda part: (type(part), part.dtype, part.shape.rank), dataset.element_spec)


def graph(dataset):
    """Return the operations of a dataset with their settings and constants, without names of functions."""
    made = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset))
    read = tf.compat.v1.GraphDef.FromString(made.numpy())
    nodes = [*read.node, *(node for function in read.library.function for node in function.node_def)]
    return Counter(
        (node.op, *sorted((key, value.SerializeToString()) for key, value in node.attr.items() if told(key, value)))
        for node in nodes
    )


def told(key, value):
    return key != "token" and value.WhichOneof("value") != "func" and not value.list.func


@pytest.mark.sample(12)
@pytest.mark.parametrize(("name", "seed"), VARIANTS, ids=[f"{name}-{seed}" for name, seed in VARIANTS])
def test_each_form_delivers_what_its_twin_delivers_through_another_graph(name, seed, tmp_path):
    case = EVERY[name]
    slow, twin = (case.make(tmp_path, seed, fixed=fixed) for fixed in (False, True))
    assert kinds(slow) == kinds(twin)
    for dataset in (slow, twin):
        assert len(tf.nest.flatten(next(iter(dataset)))) == len(tf.nest.flatten(slow.element_spec))
    assert (graph(slow) == graph(twin)) <= (name in IN_PYTHON)


def test_a_seed_draws_the_same_job_and_the_next_one_another_form(tmp_path):
    draw = sys.modules["_draw"].Draw
    one, again, other = (draw("any.py", tmp_path, seed, "ab") for seed in (1, 1, 2))
    assert (one.shape, other.shape) == ("b", "a")
    assert one.random() == again.random() != other.random()
    assert (one.floats(4) == again.floats(4)).all()


def test_a_job_is_driven_for_another_tool_at_its_step_time():
    assert 0 < _cases.drive(tf.data.Dataset.range(100), 1, steps=5) <= 1


def test_the_page_shows_the_table_of_the_files(root):
    assert _cases.table() in (root / "docs" / "slow_pipelines.md").read_text(encoding="utf-8")


# -- judging ---------------------------------------------------------------------------------


def said(cause, blame, advice):
    return Stalls(Counter(), cause, blame, 0.1, advice)


SLOW = SimpleNamespace(CAUSE={"prep"}, OP="Decode", SAYS="less work", NEVER="parallel reads")
HEALTHY = SimpleNamespace(CAUSE=set(), OP=".*", SAYS="the limit", NEVER="prefetch")


@pytest.mark.parametrize(
    ("case", "stalls", "word"),
    [
        (SLOW, said("prep", "DecodeJpeg", "less work"), "right"),
        (SLOW, said("prep", None, "less work"), "right"),
        (SLOW, said("fetch", "DecodeJpeg", "less work"), "wrong"),
        (SLOW, said("prep", "ReadFile", "less work"), "wrong"),
        (SLOW, said("prep", "DecodeJpeg", "prefetch"), "wrong"),
        (SLOW, said("prep", "DecodeJpeg", "less work, and parallel reads"), "wrong"),
        (SLOW, said(None, None, "nothing: the accelerator is the limit"), "undecided"),
        (SLOW, said("prep", "DecodeJpeg", "nothing yet: other programs; then less work"), "undecided"),
        (SLOW, said("prep", "DecodeJpeg", "the recording cannot tell"), "undecided"),
        (HEALTHY, said(None, None, "nothing: the accelerator is the limit"), "right"),
        (HEALTHY, said("prep", "DecodeJpeg", "the limit"), "wrong"),
        (HEALTHY, said(None, None, "larger batches"), "wrong"),
        (HEALTHY, said(None, None, "nothing yet: other programs took 2 cores"), "undecided"),
    ],
)
def test_a_diagnosis_is_right_only_with_cause_op_and_sentence(case, stalls, word):
    assert benchmark.judged(case, stalls) == word


@pytest.mark.parametrize(
    ("found", "of_twin", "word"),
    [
        (["once"], [], "right"),
        (["range", "once"], [], "right"),
        (["range"], [], "wrong"),
        ([], [], "undecided"),
        (["once"], ["range"], "wrong"),
        (["once: shuffle"], [], "wrong"),
    ],
)
def test_wrong_data_are_found_and_healthy_data_are_not_accused(found, of_twin, word):
    def report(names):
        return SimpleNamespace(faults=[CheckFinding(name.split(":")[0], "fault", name) for name in names])

    case = SimpleNamespace(FINDS="once", NEVER="shuffle")
    assert benchmark.judged_data(case, report(found), report(of_twin)) == word


def test_advice_is_taken_as_it_stands():
    case = SimpleNamespace(SAYS="less work|cache", ADVICE={"smaller": True, "cache": "kept"})
    assert benchmark.advised(case, "less work: make it smaller, or cache it") is True
    assert benchmark.advised(case, "less work: cache it") == "kept"
    assert benchmark.advised(case, "less work") is None
    assert benchmark.advised(SLOW, "less work") is True
    assert benchmark.advised(SLOW, "prefetch") is None


def test_shares_are_those_of_the_pipelines_and_state_their_numbers_and_spread():
    results = [
        {"seed": 0, "word": "right", "verdict": "faster"},
        {"seed": 0, "word": "right"},
        {"seed": 1, "word": "wrong", "verdict": "slower"},
        {"seed": 1, "word": "right", "verdict": "nothing to apply"},
        {"seed": 1, "raised": "an error"},
    ]
    found = benchmark.counted(results)
    assert (found["cases"], found["right"], found["wrong"], found["undecided"]) == (4, 0.75, 0.25, 0.0)
    assert found["numbers"]["advice_helped"] == found["numbers"]["advice_harmed"] == "1 of 3"
    assert found["by_seed"]["right"] == [0.5, 1.0]
    assert found["spread"]["right"] == pytest.approx([0.301, 0.954], abs=0.001)  # Wilson (1927) for 3 of 4


def test_a_bad_case_does_not_end_the_run_and_cases_of_others_are_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "a_bad.py").write_text("# TRUTH\nSTEP_MS = 1\ndef make(folder):\n    raise OSError('no such disk')\n")
    (tmp_path / "b_wrong.py").write_text(
        "# TRUTH: two elements are lost\nSTEP_MS, INSPECT = 1, {'count': 6}\n"
        "def make(folder):\n    import tensorflow as tf\n    return tf.data.Dataset.range(4).batch(2)\n"
    )
    kept = tmp_path / "kept.jsonl"
    words = ["--only", "elements_lost", "--seeds", "2", "--competitors", "0", "--keep", kept, "--folder", tmp_path]
    monkeypatch.setattr(sys, "argv", ["cases.py", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    shown = capsys.readouterr().out
    last = json.loads(shown.splitlines()[-1])
    assert ended.value.code == 1
    assert last["raised"] == ["a_bad: OSError: no such disk"]
    assert last["competitors_0"]["cases"] == len(kept.read_text().splitlines()) == 2
    assert "# TRUTH: two elements are lost" in shown
    assert re.search(r"said, with INSPECT: .*fault", shown)
