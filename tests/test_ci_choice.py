"""Which long steps CI runs: an eighth of what is long, and in turn one of those that a change touches."""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess

import pytest


@pytest.fixture(scope="module")
def choose(root):
    spec = importlib.util.spec_from_file_location("choose", root / ".ci" / "choose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(choose, commits, changed=()):
    return [step for step, _ in choose.chosen(commits, list(changed))]


def test_what_a_step_rests_on_is_there_and_make_knows_the_step(choose, root):
    paths = set(itertools.chain.from_iterable(choose.RESTS_ON.values()))
    assert [path for path in paths if not (root / path).exists()] == []
    verbs = re.findall(r"(?m)^(test[\w-]*):", (root / "Makefile").read_text(encoding="utf-8"))
    assert {*choose.RESTS_ON, "test-long"} <= set(verbs)
    assert len(verbs) <= 9


def test_every_step_and_every_part_has_its_turn(choose):
    for first in (0, 7, 1214):
        seen = [step for commits in range(first, first + 8) for step in steps(choose, commits)]
        assert sorted(step for step in seen if "long" in step) == [f"test-long PART={part}/8" for part in range(8)]
        assert {step.split()[0] for step in seen} == {*choose.RESTS_ON, "test-long"}
    for changed, count in (((), 16), (["notebooks/x"], 4), (["notebooks/x", "kernels/x"], 8)):
        turns = [step for commits in range(count) for step in steps(choose, commits, changed) if "colab" in step]
        assert sorted(turns) == [f"test-colab PART={part}/4" for part in range(4)], "every notebook once"


@pytest.mark.parametrize(
    ("file", "those"),
    [
        ("kernels/decode.cl", {"test-kernels"}),
        ("labextras/loaders/rings.py", {"test-loaders"}),
        ("labkit/recording/tfdata/driver.py", {"test-loaders", "test-xprof"}),
        ("labkit/recordings.py", None),
        ("constraints.txt", {"test-loaders", "test-xprof"}),
        ("notebooks/source/00_read_a_timeline.py", {"test-colab"}),
        ("README.md", None),
    ],
)
def test_a_change_brings_the_steps_that_rest_on_it_and_one_at_a_time(choose, file, those):
    found = [steps(choose, commits, [file]) for commits in range(4)]
    assert {len(each) for each in found} == {2}
    assert {step.split()[0] for _, step in found} == (those or {*choose.RESTS_ON})


def commit(folder, name):
    (folder / name).write_text(name)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["add", "."], [*who, "commit", "-q", "-m", name]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_what_has_changed_is_counted_from_the_later_of_a_tag_and_some_commits_ago(choose, tmp_path, monkeypatch):
    monkeypatch.setattr(choose, "COMMITS", 2)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert choose.changed_files(tmp_path) is None, "no commit"
    for name in ("one", "two"):
        commit(tmp_path, name)
    assert choose.changed_files(tmp_path) is None, "too few commits"
    for name in ("three", "four"):
        commit(tmp_path, name)
    assert choose.changed_files(tmp_path) == ["four", "three"]
    subprocess.run(["git", "tag", "v1"], cwd=tmp_path, check=True)
    commit(tmp_path, "five")
    assert choose.changed_files(tmp_path) == ["five"]
    for name in ("six", "seven"):
        commit(tmp_path, name)
    assert choose.changed_files(tmp_path) == ["seven", "six"]
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", tmp_path.as_uri(), shallow], check=True)
    assert choose.changed_files(shallow) is None
    assert choose.changed_files(tmp_path / "nowhere") is None
