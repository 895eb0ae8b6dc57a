"""A check tells right from plausibly wrong, gives the hint that fits, and never raises at a student."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from labkit import grading
from labkit.grading import check

# Right shape, wrong idea: what students really hand in, and a word of the hint that must come back.
_FILES = [runpy.run_path(str(p)) for p in sorted((Path(__file__).parent / "wrong_answers").glob("notebook_*.py"))]
WRONG = {number: cases for found in _FILES for number, cases in found["WRONG"].items()}
NEEDS_OPENCL = set().union(*(found.get("NEEDS_OPENCL", ()) for found in _FILES))


def case(number, *values):
    return pytest.param(number, *values, marks=[pytest.mark.opencl] * (number in NEEDS_OPENCL))


def test_every_exercise_has_its_wrong_answers():
    assert set(WRONG) == set(grading.numbers())


@pytest.mark.parametrize(("number", "answer", "word"), [case(n, f, w) for n, cases in WRONG.items() for f, w in cases])
def test_a_plausible_wrong_answer_fails_with_the_hint_that_fits(number, answer, word):
    result = check(number, answer)
    assert result.status == grading.FAILED
    assert word in result.hint, result


@pytest.mark.parametrize("number", grading.numbers())
@pytest.mark.parametrize(
    "answer",
    [None, lambda *a: None, 3, "text", lambda: 1, lambda *a: 1 / 0, lambda *a: float("nan"), lambda *a: object()],
    ids=["none", "stub", "number", "text", "arguments", "raises", "nan", "object"],
)
def test_no_answer_makes_a_check_raise_or_pass(number, answer):
    result = check(number, answer)
    assert not result.passed
    assert result.hint


def test_an_untried_exercise_is_open_not_failed():
    assert check("00.1", None).status == grading.OPEN
    assert check("00.1", lambda spans, window: None).status == grading.OPEN


def test_an_unknown_number_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no exercise '99\.1'; there are: 00\.1"):
        check("99.1", 1)


def test_results_show_the_same_text_every_time():
    result = check("01.1", lambda step, batch: batch / step)
    assert repr(result) == repr(check("01.1", lambda step, batch: batch / step))
    assert repr(result).startswith("✗ 01.1 failed: ")
    assert "&lt;" in grading.Result("1", grading.FAILED, "<b>")._repr_html_()


def test_score_counts_passes():
    right = check("01.1", lambda step, batch: 1000 * batch / step)
    assert grading.score([right, check("01.1", None)]) == (1, 2)
