"""The slow loaders of `data/slow_loaders`: what each file says of itself, and that slow and healthy twins are alike."""

from __future__ import annotations

import re
import sys

import _cases
import cases as benchmark
import pytest

from labextras.loaders.loader_elements import arrays
from labkit.pipelines.structure import named

FOLDER = _cases.HERE.parent / "slow_loaders"
sys.path.insert(0, str(FOLDER))
EVERY = _cases.every(FOLDER)
SILENT = {name: case for name, case in EVERY.items() if hasattr(case, "FINDS")}
JUDGED = {name: case for name, case in EVERY.items() if name not in SILENT}
VARIANTS = [(name, seed) for name, case in EVERY.items() for seed in range(len(case.SHAPES))]


def test_the_set_has_many_kinds_and_healthy_and_wrong_ones_among_them():
    assert len(JUDGED) >= 14
    assert sum(not case.CAUSE for case in JUDGED.values()) >= 3
    assert len(SILENT) >= 6


@pytest.mark.parametrize("name", EVERY)
def test_a_file_says_its_truth_and_needs_nothing_of_the_lab(name):
    case, text = EVERY[name], (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert list(_cases.facts(case)) == ["fault", "Source", "Cause", "Remedy", "Never"]
    assert len(text.splitlines()) <= 75
    assert not re.search(r"\blab(kit|extras|course)\b", text)
    assert len(set(case.SHAPES)) >= 3


@pytest.mark.parametrize("name", JUDGED)
def test_its_own_remedy_is_what_may_be_said(name):
    case, remedy = JUDGED[name], _cases.facts(JUDGED[name])["Remedy"]
    if case.CAUSE:
        assert re.search(case.SAYS, remedy)
        assert benchmark.advised(case, remedy) is True
    else:
        assert re.search(case.SAYS, _cases.facts(case)["Cause"])


@pytest.mark.loaders
@pytest.mark.parametrize(("name", "seed"), VARIANTS, ids=[f"{name}-{seed}" for name, seed in VARIANTS])
def test_each_form_and_its_twin_deliver_batches_of_the_same_kind(name, seed, tmp_path):
    case = EVERY[name]
    made = [case.make(tmp_path, seed, fixed=fixed) for fixed in (False, True)]
    if hasattr(made[0], "num_batches"):  # of Keras, by place
        made = [[one[0]] for one in made]
    kinds = [[(part, values.ndim) for part, values in named(arrays(next(iter(one))))] for one in made]
    assert kinds[0] == kinds[1]
