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


@pytest.mark.parametrize("number", ["99.1", "", None, ["00.1"], 3])
def test_an_exercise_that_is_not_there_is_a_failed_result_that_names_those_there_are(number):
    result = check(number, 1)
    assert result.status == grading.FAILED
    assert "there is no exercise" in result.hint
    assert "00.1" in result.hint


def test_a_slip_in_a_number_names_the_exercises_of_its_notebook():
    assert check("03.9", 1).hint == "there is no exercise '03.9'; there are: 03.1, 03.2, 03.3"


def leave(*_):
    raise SystemExit(3)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def mute(*_):
    raise Mute


class Odd(BaseException):
    pass


def odd(*_):
    raise Odd("a\nb")


def endless(*a):
    return endless(*a)


@pytest.mark.parametrize("answer", [leave, mute, odd, endless], ids=["exit", "mute", "odd", "recursion"])
@pytest.mark.parametrize("number", ["00.1", "02.1", "05.2", "06.2"])
def test_whatever_an_answer_raises_becomes_a_result_on_one_line(number, answer):
    result = check(number, answer)
    assert result.status == grading.FAILED
    assert "your answer raised" in result.hint or result.hint
    assert "\n" not in repr(result)
    assert len(result.hint) <= 400


def test_the_interruption_of_the_reader_is_passed_on():
    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("00.1", interrupted)


def test_an_unclear_check_is_inconclusive_in_sign_and_word_and_no_pass():
    def noisy(_):
        raise grading.Unclear("the machine is busy: run again")

    result = grading.judge("x.1", noisy, 1)
    assert result.inconclusive
    assert not result.passed
    assert repr(result) == "? x.1 inconclusive: the machine is busy: run again"
    assert "? x.1 inconclusive" in result._repr_html_()
    assert "style" not in result._repr_html_(), "the word says it, no colour does"
    assert len({repr(grading.Result("1", s))[0] for s in ("passed", "failed", "open", "inconclusive")}) == 4


def test_results_show_the_same_text_every_time():
    result = check("01.1", lambda step, batch: batch / step)
    assert repr(result) == repr(check("01.1", lambda step, batch: batch / step))
    assert repr(result).startswith("✗ 01.1 failed: ")
    assert "&lt;" in grading.Result("1", grading.FAILED, "<b>")._repr_html_()


def test_score_counts_passes():
    right = check("01.1", lambda step, batch: 1000 * batch / step)
    assert grading.score([right, check("01.1", None)]) == (1, 2)
