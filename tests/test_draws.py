"""Only what draws random numbers runs again under other seeds, from whatever source it draws."""

from __future__ import annotations

import random
import subprocess
import sys

import draws
import numpy as np
import pytest
import tensorflow as tf

TESTS = """
import random
import pytest

pytestmark = pytest.mark.random

@pytest.mark.parametrize("most", [1, 1000])
def test_draws(most): assert random.random() < most
@pytest.mark.parametrize("number", [1, 2])
def test_draws_nothing(number): assert number
"""


@pytest.mark.parametrize("draw", [
    lambda: random.random(),
    lambda: np.random.uniform(),  # noqa: NPY002 (what students' code draws from)
    lambda: np.random.default_rng().random(),
    lambda: tf.random.uniform([2]),
    lambda: tf.data.Dataset.range(4).shuffle(4),
    lambda: tf.data.Dataset.range(4).map(lambda number: tf.random.normal([]) + tf.cast(number, tf.float32)),
], ids=["Python", "NumPy", "a generator", "an op", "a shuffle", "an op of a map"])  # fmt: skip
def test_every_source_of_random_numbers_is_noticed(draw):
    with draws.watched() as drew:
        assert not drew()
        draw()
        assert drew()


@pytest.mark.parametrize("draw", [
    lambda: random.Random(1).random(),
    lambda: np.random.default_rng(1).random(),
    lambda: tf.random.stateless_uniform([2], [1, 2]),
    lambda: tf.data.Dataset.range(4).shuffle(4, seed=1),
], ids=["Python", "NumPy", "TensorFlow", "a shuffle"])  # fmt: skip
def test_numbers_of_a_fixed_seed_are_not_drawn(draw):
    with draws.watched() as drew:
        draw()
        assert not drew()


@pytest.mark.long
def test_what_draws_runs_under_every_seed_and_what_draws_nothing_runs_once(root, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    place = f"Path({str(root)!r})"
    shared = (root / "tests" / "conftest.py").read_text("utf-8")
    (tmp_path / "conftest.py").write_text(shared.replace("Path(__file__).resolve().parent.parent", place), "utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--seeds", "5", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "12 passed, 8 skipped" in done.stdout, done.stdout
