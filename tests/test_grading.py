"""A check tells right from plausibly wrong, gives the hint that fits, and never raises at a student."""

from __future__ import annotations

import pytest

from labkit import grading
from labkit.grading import check

# Right shape, wrong idea: what students really hand in, and a word of the hint that must come back.
WRONG = {
    "00.1": [
        (lambda spans, window: 1 - sum(b - a for a, b in spans) / window, "idle"),
        (lambda spans, window: 100 * sum(b - a for a, b in spans) / window, "percentage"),
        (lambda spans, window: 0.5, "expected"),
        (
            lambda spans, window: sum(b - a for a, b in spans) / ((spans[-1][1] - spans[0][0]) if spans else 1),
            "whole window",
        ),
    ],
    "00.2": [
        (lambda load, train, overlapped: load + train, "hides"),
        (lambda load, train, overlapped: max(load, train), "add up"),
        (lambda load, train, overlapped: train if overlapped else load + train, "faster one"),
    ],
    "01.1": [
        (lambda step, batch: batch / step, "1000"),
        (lambda step, batch: 1000 / step, "steps per second"),
        (lambda step, batch: step / batch, "inverse"),
    ],
    "01.2": [
        (lambda dataset: dataset, "rewrites"),
        (lambda dataset: dataset.prefetch(1), "rewrites"),
        (lambda dataset: dataset.take(3), "elements changed"),
        (lambda dataset: list(dataset), "tf.data.Dataset"),
    ],
    "01.3": [
        (lambda before, after: "faster" if sum(after) > sum(before) else "slower", "noise"),
        (lambda before, after: "no difference", "round by round"),
        (lambda before, after: "faster", "more is"),
        (lambda before, after: "better", "not 'better'"),
    ],
    "02.1": [
        (lambda dataset: dataset, "last step"),
        (lambda dataset: dataset.prefetch(-1), "two"),
        (lambda dataset: dataset.prefetch(2).map(lambda x: x), "last step"),
        (lambda dataset: dataset.unbatch().prefetch(2), "batches changed"),
        (lambda dataset: dataset.skip(1).prefetch(2), "batches changed"),
    ],
    "02.2": [
        (lambda load, train: 2, "best case"),
        (lambda load, train: max(load, train) / (load + train), "inverse"),
        (lambda load, train: (load + train) / min(load, train), "slower"),
    ],
    "02.3": [
        (lambda depth, batch, height, width: depth * batch * height * width * 3 / 1e6, "four"),
        (lambda depth, batch, height, width: depth * batch * height * width * 4 / 1e6, "three"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12, "bytes"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12 / 2**20, "MiB"),
    ],
}


def test_every_exercise_has_its_wrong_answers():
    assert set(WRONG) == set(grading.numbers())


@pytest.mark.parametrize(("number", "answer", "word"), [(n, f, w) for n, cases in WRONG.items() for f, w in cases])
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
