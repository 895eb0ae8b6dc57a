"""Every measurement that a test makes again is counted, and the end of a run names it, from whatever process."""

from __future__ import annotations

import subprocess
import sys

import pytest

TESTS = """
import pytest
from repeats import again

@pytest.fixture(scope="module")
def prepared():
    return [number for number in again(3) if number < 2]

def test_setup(prepared): pass
def test_twice():
    for number in [*again(2), *again(4)]: pass
def test_once():
    for number in again(5): break
def test_fails():
    assert not [number for number in again(2)]
@pytest.mark.parametrize("word", ["with a space"])
def test_left_early(word):
    for number in again(9):
        if number == 3: break
"""


@pytest.mark.parametrize(
    "processes",
    [pytest.param([], id="one process"), pytest.param(["-n", "2"], id="two", marks=pytest.mark.long)],
)
def test_repeats_are_counted_and_told(root, tmp_path, processes):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_bytes((root / "tests" / "conftest.py").read_bytes().replace(
        b"Path(__file__).resolve().parent.parent", repr(str(root)).encode().join([b"Path(", b")"])
    ))  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *processes, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (listed,) = [line.removeprefix("repeats: ") for line in done.stdout.splitlines() if line.startswith("repeats: ")]
    expected = {"test_setup 2 of 2", "test_twice 4 of 4", "test_fails 1 of 1", "test_left_early[with a space] 3 of 8"}
    assert set(listed.split(", ")) == expected, done.stdout
