"""Predictions: the first number counts, the errors are right, and nothing of it is lost or shared by accident."""

from __future__ import annotations

import json
import math
import re
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcourse import predictions
from labcourse.predictions import figures
from labkit.recording.measures import Speedup

NUMBERS = st.floats(0.001, 1e6, allow_subnormal=False)


# Not autouse: run from outside of its folder, a file lends such a fixture to all others.
pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A folder of its own, and no memory of another test: a kernel that has just started."""
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    predictions.session.clear()
    yield
    predictions.session.clear()


def restart():
    """Forget what a kernel forgets when it is restarted."""
    predictions.session.clear()


def test_before_the_measurement_is_seen_a_new_number_replaces_the_old_one():
    predictions.commit("02.gain", 1.3)
    second = predictions.commit("02.gain", 1.6)
    assert second.value == 1.6
    assert not second.note
    assert predictions.review("02.gain", measured=1.6).prediction.value == 1.6


def test_after_the_measurement_is_seen_the_first_number_stays_and_it_says_so():
    predictions.commit("02.gain", 1.3)
    predictions.review("02.gain", measured=1.9)
    late = predictions.commit("02.gain", 1.9)
    assert late.value == 1.3
    assert "1.9 times came after the measurement and is not kept" in str(late)
    assert predictions.review("02.gain", measured=1.9).prediction.value == 1.3


def test_running_the_notebook_again_gives_the_same_outputs():
    def outputs():
        return str(predictions.commit("02.gain", 1.3)), str(predictions.review("02.gain", model=1.8, measured=1.9))

    first = outputs()
    assert outputs() == first, "in the same kernel"
    restart()
    assert outputs() == first, "in a new one"


def test_a_new_kernel_takes_a_new_number_and_tells_of_the_old_one():
    predictions.commit("02.gain", 1.3)
    predictions.review("02.gain", measured=1.9)
    restart()
    again = predictions.commit("02.gain", 1.8)
    assert again.value == 1.8
    assert "In an earlier session it was 1.3 times, and you saw 1.9 times measured." in str(again)


@settings(max_examples=30)
@given(NUMBERS, NUMBERS, NUMBERS)
def test_errors_are_relative_to_what_was_measured(value, model, measured):
    predictions.session.clear()
    predictions.commit("02.gain", value, unit="ms")
    done = predictions.review("02.gain", model=model, measured=measured).prediction
    assert math.isclose(done.error, (value - measured) / measured)
    assert math.isclose(done.model_error, (model - measured) / measured)
    assert done.right == (abs(value - measured) <= figures.CLOSE * measured)


@settings(max_examples=60)
@given(st.lists(NUMBERS, min_size=2, max_size=7, unique=True), NUMBERS)
def test_right_is_within_a_fifth_of_a_measurement_that_is_known_to_a_third(rounds, value):
    predictions.session.clear()
    predictions.commit("02.gain", value)
    verdict = predictions.review("02.gain", measured=rounds).verdict
    low, middle, high = min(rounds), statistics.median(rounds), max(rounds)
    wide = high > 1.3 * middle or low < 0.7 * middle
    if verdict == "right":
        assert not wide
        assert abs(value / middle - 1) <= 0.2000001
    elif verdict == "cannot be told":
        assert wide
    else:
        assert abs(value / middle - 1) >= 0.1999999
        assert verdict == ("too high" if value > middle else "too low")
        assert not wide or not low <= value <= high


@pytest.mark.parametrize(("value", "verdict"), [(1.2, "too low"), (1.75, "right"), (2.27, "right"), (2.5, "too high")])
def test_a_speedup_brings_its_interval(value, verdict):
    predictions.commit("02.gain", value)
    assert predictions.review("02.gain", measured=Speedup(1.9, 1.7, 2.0, "faster", 5)).verdict == verdict


def test_a_spread_that_holds_nearly_everything_proves_nothing_and_is_not_counted():
    predictions.commit("02.gain", 1.3)
    shown = predictions.review("02.gain", measured=Speedup(1.5, 0.8, 3.4, "no difference", 5))
    assert shown.verdict == "cannot be told"
    assert "wider than ±30 %" in str(shown)
    summary = str(predictions.summary())
    assert "0 of 1 measured predictions are right" in summary
    assert "too wide to tell for 1 of them" in summary
    assert predictions.review("02.gain", measured=Speedup(1.4, 1.2, 1.6, "faster", 5)).verdict == "right"
    predictions.commit("03.gain", 9)
    far = predictions.review("03.gain", measured=Speedup(1.5, 0.8, 3.4, "no difference", 5))
    assert far.verdict == "too high", "outside of any spread it is wrong"


def test_a_share_is_told_in_percent_and_in_points():
    predictions.commit("00.busy", 0.75, unit="share")
    text = str(predictions.review("00.busy", model=0.5, measured=0.5))
    assert "75 %" in text
    assert "+50 %" in text
    assert "25 points" in text


def test_what_is_measured_as_nothing_has_no_error_in_percent():
    predictions.commit("02.gain", 2, unit="ms")
    done = predictions.review("02.gain", measured=0)
    assert done.prediction.error is None
    assert done.verdict == "too high"
    assert "no error in percent" in str(done)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: predictions.commit("02.gain", "two"), r"the prediction 02\.gain is 'two'; allowed: a number of 0"),
        (lambda: predictions.commit("02.gain", True), r"is True; allowed"),
        (lambda: predictions.commit("02.gain", math.nan), r"is nan; allowed"),
        (lambda: predictions.commit("02.gain", -1), r"is -1; allowed"),
        (lambda: predictions.commit("00.busy", 75, unit="share"), r"from 0 to 1 .*for 75 % write 0\.75"),
        (lambda: predictions.commit("02.gain", 2, unit="furlongs"), r"unit is 'furlongs'; allowed: times, share"),
        (lambda: predictions.commit("../gain", 2), r"the name of a prediction is '\.\./gain'; allowed: notebook"),
        (lambda: predictions.commit(2, 2), r"the name of a prediction is 2; allowed"),
        (lambda: predictions.review("09.none", measured=1), r"no prediction is called '09\.none'; committed: 01\.x"),
        (lambda: predictions.review("01.x", measured="fast"), r"measured of 01\.x is 'fast'; allowed: a number"),
        (lambda: predictions.review("01.x", measured=[]), r"measured of 01\.x is empty; allowed"),
        (lambda: predictions.review("01.x", measured=1, model=-2), r"model of 01\.x is -2; allowed"),
        (lambda: predictions.review("01.x", measured=Speedup(2, 1, 3, "", 5)), r"counts in times; .*committed in ms"),
        (lambda: predictions.forget("09.none"), r"no prediction is called '09\.none'; committed: 01\.x"),
    ],
)
def test_what_is_no_prediction_is_refused_in_one_sentence(call, words):
    predictions.commit("01.x", 3, unit="ms")
    with pytest.raises(ValueError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


def test_three_dots_are_no_prediction_and_count_nowhere():
    shown = str(predictions.commit("02.gain", ..., unit="times"))
    assert shown == ("02.gain: no prediction yet. Replace the three dots by your number, then run this cell again.")
    done = predictions.review("02.gain", model=1.8, measured=1.9)
    assert done.verdict == "no prediction"
    assert not done.prediction.right
    assert done.prediction.error is None
    assert done.prediction.model_error == pytest.approx(1.8 / 1.9 - 1)
    assert "your prediction  no prediction" in str(done)
    assert [bar.get_width() for bar in done.figure().axes[0].patches] == [1.8, 1.9]
    predictions.commit("03.gain", 2)
    predictions.review("03.gain", measured=2)
    table = predictions.summary()
    assert [p.verdict for p in table.predictions] == ["no prediction", "right"]
    assert "1 of 1 measured predictions" in str(table)
    assert "No prediction was given for 1 of 2" in str(table)
    assert "Your median error: 0 % (1 of 1 measured)." in str(table)
    assert "The models' median error: 5 % (1 of 2 measured)." in str(table), "what has no model is not hidden"
    restart()
    assert str(predictions.summary()) == str(table), "another kernel reads the same"


def test_a_number_in_place_of_the_dots_counts_until_the_measurement_is_seen():
    predictions.commit("02.gain", ...)
    assert predictions.commit("02.gain", 1.6).value == 1.6
    assert predictions.review("02.gain", measured=1.6).verdict == "right"
    predictions.commit("03.gain", ...)
    predictions.review("03.gain", measured=1.9)
    late = predictions.commit("03.gain", 1.9)
    assert late.value is None
    assert "1.9 times came after the measurement and is not kept" in str(late)
    restart()
    again = predictions.commit("03.gain", 1.8)
    assert again.value == 1.8
    assert "In an earlier session it was left open, and you saw 1.9 times measured." in str(again)


def test_the_bars_are_as_long_as_the_three_numbers():
    predictions.commit("02.gain", 1.3)
    shown = predictions.review("02.gain", model=1.8, measured=[1.7, 1.9, 2.0])
    axes = shown.figure().axes[0]
    assert [bar.get_width() for bar in axes.patches] == [1.3, 1.8, 1.9]
    words = " ".join(text.get_text() for text in axes.texts)
    assert "your prediction (−32 %)" in words
    assert "the model (−5 %)" in words
    assert "1.9 [1.7–2]" in words


def test_the_summary_is_a_table_for_a_notebook_too():
    assert "No prediction has been committed yet" in str(predictions.summary())
    predictions.commit("02.gain", 1.3)
    html = predictions.summary()._repr_html_()
    assert re.search('<th scope="row"[^>]*>02.gain</th>', html)
    assert "not measured yet" in html


def test_a_damaged_file_is_left_out_and_told(tmp_path):
    predictions.commit("02.gain", 1.3)
    predictions.commit("03.gain", 2)
    restart()
    path = tmp_path / "data" / "predictions" / "02.gain.json"
    good = json.loads(path.read_text())
    for bad in ("{", "[]", json.dumps(good | {"value": "x"}), json.dumps(good | {"unit": "?"}), "\xff"):
        path.write_text(bad, encoding="latin-1")
        table = predictions.summary()
        assert [p.name for p in table.predictions] == ["03.gain"]
        assert "1 file of predictions could not be read" in str(table)
        with pytest.raises(ValueError, match="no prediction is called"):
            predictions.review("02.gain", measured=1)
    assert predictions.commit("02.gain", 1.5).value == 1.5


def test_a_folder_that_cannot_be_written_keeps_the_number_in_the_kernel(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("LABKIT_DATA", str(blocked))
    assert "kept in this kernel only" in str(predictions.commit("02.gain", 1.3))
    assert predictions.review("02.gain", measured=1.3).verdict == "right"
    assert len(predictions.summary()) == 1


def test_forgetting_leaves_nothing_behind(tmp_path):
    predictions.commit("02.gain", 1.3)
    predictions.commit("03.gain", 1.3)
    assert predictions.forget("02.gain") == 1
    assert predictions.forget() == 1
    assert not list((tmp_path / "data" / "predictions").iterdir())
    assert len(predictions.summary()) == 0
