"""Predictions: the first number counts, the errors are right, and nothing of it is lost or shared by accident."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcourse import predictions
from labcourse.predictions import CausePrediction, Commitment, Curve, figures
from labkit.recording import accelerators, measures
from labkit.recording.measures import TOO_BUSY, Speedup
from labkit.recording.recorder import record

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


def rounds(value):
    """Five rounds that agree: enough to judge by."""
    return [value] * 5


def find(name):
    """What is known of a name, as the summary has it."""
    return next(p for p in predictions.summary().predictions if p.name == name)


def restart():
    """Forget what a kernel forgets when it is restarted."""
    predictions.session.clear()


def test_before_the_measurement_is_seen_a_new_number_replaces_the_old_one():
    predictions.commit("02.gain", 1.3)
    second = predictions.commit("02.gain", 1.6)
    assert second.value == 1.6
    assert not second.note
    assert predictions.review("02.gain", measured=rounds(1.6)).prediction.value == 1.6


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
    done = predictions.review("02.gain", model=model, measured=rounds(measured)).prediction
    assert math.isclose(done.error, (value - measured) / measured)
    assert math.isclose(done.model_error, (model - measured) / measured)
    assert done.right == (abs(value - measured) <= figures.CLOSE * measured)


@settings(max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=7, unique=True), NUMBERS)
def test_right_is_within_a_fifth_of_a_measurement_that_is_known_to_a_third(rounds, value):
    predictions.session.clear()
    predictions.commit("02.gain", value)
    verdict = predictions.review("02.gain", measured=rounds).verdict
    low, middle, high = min(rounds), statistics.median(rounds), max(rounds)
    wide = high > 1.3 * middle or low < 0.7 * middle
    if len(rounds) < 5:
        assert verdict == "not judged"
    elif verdict == "right":
        assert not wide
        assert abs(value / middle - 1) <= 0.2000001
    elif verdict == "cannot be told":
        assert wide or low <= value <= high
    else:
        assert abs(value / middle - 1) >= 0.1999999
        assert verdict == ("too high" if value > middle else "too low")
        assert not low <= value <= high


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
    done = predictions.review("02.gain", measured=rounds(0))
    assert done.prediction.error is None
    assert done.verdict == "too high"
    assert "no error in percent" in str(done)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: predictions.commit("02.gain", 2, unit="furlongs"), r"unit is 'furlongs'; allowed: times, share"),
        (lambda: predictions.commit("../gain", 2), r"the name of a prediction is '\.\./gain'; allowed: notebook"),
        (lambda: predictions.review("09.none", measured=1), r"no prediction is called '09\.none'; committed: 01\.x"),
        (lambda: predictions.review("01.x", measured="fast"), r"measured of 01\.x is 'fast'; allowed: a number"),
        (lambda: predictions.review("01.x", measured=[]), r"measured of 01\.x is empty; allowed"),
        (lambda: predictions.review("01.x", measured=1, model=-2), r"model of 01\.x is -2; allowed"),
        (lambda: predictions.review("01.x", measured=Speedup(2, 1, 3, "", 5)), r"counts in times; .*committed in ms"),
        (lambda: predictions.forget("09.none"), r"no prediction is called '09\.none'; committed: 01\.x"),
        (lambda: predictions.curve("02.c", ..., at=[1]), r"at is \[1\.0\]; allowed: two numbers or more, rising"),
        (lambda: predictions.curve("02.c", ..., at=["a", "b"]), r"a place is 'a'; allowed: a number"),
        (lambda: predictions.cause("02.c", ..., among=["one"]), r"among is .*two different words"),
    ],
)
def test_what_is_no_prediction_is_refused_in_one_sentence(call, words):
    predictions.commit("01.x", 3, unit="ms")
    with pytest.raises(ValueError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


def test_three_dots_are_no_prediction_and_count_nowhere():
    shown = str(predictions.commit("02.gain", ..., unit="times"))
    assert shown == ("02.gain: no prediction yet.\nReplace the three dots by your number, then run this cell again.")
    done = predictions.review("02.gain", model=1.8, measured=rounds(1.9))
    assert done.verdict == "no prediction"
    assert "You predicted nothing" in str(done)
    assert not done.prediction.right
    assert done.prediction.error is None
    assert done.prediction.model_error == pytest.approx(1.8 / 1.9 - 1)
    assert "your prediction  no prediction" in str(done)
    assert [bar.get_width() for bar in done.figure().axes[0].patches] == [1.8, 1.9]
    predictions.commit("03.gain", 2)
    predictions.review("03.gain", measured=rounds(2))
    table = predictions.summary()
    assert [p.verdict for p in table.predictions] == ["no prediction", "right"]
    assert "1 of 1 measured predictions" in str(table)
    assert "No prediction was given for 1 of 2" in str(table)
    assert "Your median error: 0 % (1 of 1 measured figures)." in str(table)
    assert "The models' median error: 5 % (1 of 2 measured figures)." in str(table), "what has no model is not hidden"
    restart()
    assert str(predictions.summary()) == str(table), "another kernel reads the same"


def test_a_number_in_place_of_the_dots_counts_until_the_measurement_is_seen():
    predictions.commit("02.gain", ...)
    assert predictions.commit("02.gain", 1.6).value == 1.6
    assert predictions.review("02.gain", measured=rounds(1.6)).verdict == "right"
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
    shown = predictions.review("02.gain", model=1.8, measured=[1.7, 1.8, 1.9, 1.95, 2.0])
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
    assert predictions.review("02.gain", measured=rounds(1.3)).verdict == "right"
    assert len(predictions.summary()) == 1


def test_forgetting_leaves_nothing_behind(tmp_path):
    predictions.commit("02.gain", 1.3)
    predictions.commit("03.gain", 1.3)
    assert predictions.forget("02.gain") == 1
    assert predictions.forget() == 1
    assert not list((tmp_path / "data" / "predictions").iterdir())
    assert len(predictions.summary()) == 0


# -- answers that are none -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit", "words"),
    [
        (lambda: predictions.commit("01.x", 55, unit="share"), r"01\.x is 55.* for 55 % write 0\.55\."),
        (lambda: predictions.commit("01.x", 1.5, unit="share"), r"for 1\.5 % write 0\.015\."),
        (lambda: predictions.commit("01.x", 155, unit="share"), r"is 155; allowed: a number from 0 to 1"),
        (lambda: predictions.commit("01.x", "two"), r"01\.x is 'two'; allowed: a number of 0"),
        (lambda: predictions.commit("01.x", math.nan), r"is nan; allowed"),
        (lambda: predictions.curve("01.x", [1, 2], at=[1, 2, 4]), r"allowed: a list of 3 numbers, for 1, 2, 4"),
        (lambda: predictions.curve("01.x", 3, at=[1, 2]), r"is 3; allowed: a list of 2 numbers"),
        (lambda: predictions.curve("01.x", [1, ...], at=[1, 2]), r"01\.x at 2 is Ellipsis; allowed: a number"),
        (lambda: predictions.curve("01.x", [0.5, 60], at=[1, 2], unit="share"), r"at 2 is 60.* for 60 % write 0\.6"),
        (lambda: predictions.cause("01.x", "tarin", among=("fetch", "train")), r"is 'tarin'; allowed: fetch, train"),
        (lambda: predictions.cause("01.x", 2, among=("fetch", "train")), r"is 2; allowed: fetch, train"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_gets_a_sentence_and_the_notebook_goes_on(commit, words):
    said = commit()
    assert re.search(words, str(said)), str(said)
    assert "\n" not in str(said)
    restart()
    assert find("01.x").value is None
    known = find("01.x")
    measured = {
        Commitment: 0.2,
        Curve: [0.2] * len(getattr(known, "at", ())),
        CausePrediction: {"fetch": 1, "train": 2},
    }
    done = predictions.review("01.x", measured=measured[type(known)])
    assert done.verdict == "no prediction"
    assert "You predicted nothing" in str(done)
    assert "measured predictions are right" not in str(predictions.summary())


def test_an_answer_that_is_none_leaves_the_one_before():
    predictions.commit("01.busy", 0.4, unit="share")
    said = predictions.commit("01.busy", 55, unit="share")
    assert said.value == 0.4
    assert "you predict 40 %" in str(said)
    assert "write 0.55" in str(said)
    predictions.review("01.busy", measured=0.4)
    assert "write 0.55" in str(predictions.commit("01.busy", 55, unit="share")), "after the measurement, too"


# -- the verdict of the measurement ----------------------------------------------------------


@pytest.mark.parametrize(
    ("measured", "verdict", "words"),
    [
        (Speedup(0.58, 0.27, 1.22, TOO_BUSY, 11), "not judged", "other programs took too much"),
        (Speedup(1.9, 1.8, 2.0, TOO_BUSY, 11, "They took 1.5 of 2 cores."), "not judged", "took 1.5 of 2 cores"),
        (Speedup(1.9, 1.5, 2.5, "3 of 3 rounds faster, too few to be sure", 3), "not judged", "3 rounds are too few"),
        (Speedup(1.9, math.nan, math.nan, "one repeat", 1), "not judged", "measured once"),
        (1.9, "not judged", "measured once, and has no interval"),
        (Speedup(4, 2.9, 5.1, "faster", 7), "cannot be told", "wide enough to hold it"),
        (Speedup(1.9, 1.8, 2.0, "faster", 7), "too high", "58 % above"),
        (Speedup(1.9, 0.9, 2.8, "5 of 7 rounds faster: undecided", 7), "too high", "58 % above"),
        (Speedup(1.9, 0.9, 3.8, "5 of 7 rounds faster: undecided", 7), "cannot be told", "wider than"),
    ],
)  # fmt: skip
def test_a_review_knows_no_better_than_its_measurement(measured, verdict, words):
    predictions.commit("02.gain", 3)
    done = predictions.review("02.gain", measured=measured, model=2)
    assert done.verdict == verdict
    assert words in str(done)
    if verdict != "too high":
        assert "too high" not in str(done) + done.alt
        assert "above" not in str(done)
        assert not re.search(r"[+−]\d", str(done)), "an error in percent says the same"
    restart()
    assert predictions.summary().predictions[0].verdict == verdict


def test_what_is_not_judged_counts_for_nothing():
    predictions.commit("02.gain", 3)
    predictions.review("02.gain", measured=1.5)
    table = str(predictions.summary())
    assert "the measurement has no verdict: 1 of them" in table
    assert "median error" not in table


def test_the_share_of_a_busy_machine_is_not_judged(album):
    import tensorflow as tf

    from labkit.timeline.timeline import Timeline

    data = tf.data.Dataset.range(64).batch(2).repeat()
    trace = record(data, accelerators.modelled(step_ms=2), steps=4, progress=False)
    for others, verdict in ((0.6, "not judged"), (0.0, "too low")):
        busy = trace.with_run(host=replace(trace.run.host, others=others))
        predictions.session.clear()
        predictions.commit("01.busy", 0.01, unit="share")
        assert predictions.review("01.busy", measured=Timeline(busy)).verdict == verdict


@pytest.mark.parametrize("unit", figures.COUNTS)
def test_a_count_is_said_and_is_no_percentage(unit):
    predictions.commit("07c.records", 100, unit=unit)
    done = predictions.review("07c.records", measured=1)
    assert done.verdict == "too high"
    assert "You said 100, 1 came out." in str(done)
    assert "%" not in str(done) + done.alt + str(predictions.summary())
    restart()
    predictions.commit("07c.other", 1, unit=unit)
    assert "07c.other: right. You said 1, 1 came out." in str(predictions.review("07c.other", measured=1))


# -- curves and causes -----------------------------------------------------------------------


def test_a_curve_is_judged_point_by_point():
    predictions.curve("04.curve", [1, 2, 4, 8], at=[1, 2, 4, 8], label="calls")
    measured = [1, rounds(1.9), Speedup(2.1, 2.0, 2.2, "faster", 5), rounds(2)]
    done = predictions.review("04.curve", measured=measured)
    assert done.verdict == "1 of 3 points right", "the first has no interval"
    assert "At 8 calls: Your number is 300 % above" in str(done)
    lines = {line.get_label(): line for line in done.figure().axes[0].lines}
    drawn = [list(line.get_ydata()) for line in lines.values()]
    assert drawn.index([1, 2, 4, 8]) < drawn.index([1, 1.9, 2.1, 2]), "the measurement is drawn over the prediction"
    restart()
    assert find("04.curve").verdict == done.verdict
    late = predictions.curve("04.curve", [1, 2, 3, 4], at=[1, 2, 4, 8]).curve
    assert late.value == (1, 2, 3, 4)
    assert "In an earlier session it was 1, 2, 4, 8 times" in late.note


def test_a_curve_takes_a_table_of_pipelines():
    import tensorflow as tf

    data = tf.data.Dataset.range(64).batch(2).repeat()
    found = measures.measure(dict.fromkeys("abc", data), accelerators.modelled(step_ms=1), steps=3, repeats=2, limit=2)
    predictions.curve("04.curve", [1, 2, 3], at=[1, 2, 4])
    done = predictions.review("04.curve", measured=found).prediction
    assert done.measured[0].middle == 1
    assert done.measured[2].middle == pytest.approx(found.speedup("c").median)
    assert done.verdict == "not judged", "two rounds, or a busy machine"
    predictions.curve("04.rate", [1, 2, 3], at=[1, 2, 4], unit="images/s")
    rates = predictions.review("04.rate", measured=found).prediction.measured
    assert rates[1].middle == pytest.approx(statistics.median(found.rates("b")))
    with pytest.raises(ValueError, match=r"measured of 04\.rate has 2 entries; allowed: 3, for 1, 2, 4"):
        predictions.review("04.rate", measured=[1, 2])


def test_points_that_are_dragged_are_kept_until_the_measurement_is_seen():
    shown = predictions.curve("04.curve", ..., at=[1, 2, 4, 8])
    assert shown.curve.value is None
    answer = shown.answer([1, 1.5, 2, 2])
    assert answer["values"] == [1, 1.5, 2, 2]
    restart()
    again = predictions.curve("04.curve", ..., at=[1, 2, 4, 8])
    assert again.curve.value == (1, 1.5, 2, 2), "the dots leave what was dragged"
    assert predictions.curve("04.other", ..., at=[1, 2]).answer([1, 2])["values"] == [1, 2]
    assert predictions.curve("04.other", ..., at=[1, 3]).curve.value is None, "another curve is another question"
    predictions.review("04.curve", measured=[1, 2, 2, 2])
    late = again.answer([1, 2, 2, 2])
    assert late["values"] == [1, 1.5, 2, 2]
    assert "came after the measurement" in late["words"]


@pytest.mark.parametrize("value", [..., [1, 2, 3, 4]])
def test_a_curve_is_a_picture_with_its_text_where_nothing_runs(value):
    shown = predictions.curve("04.curve", value, at=[1, 2, 4, 8])
    data, _ = shown._repr_mimebundle_()
    assert data["text/plain"] == str(shown)
    assert "labkit-picture" in data["text/html"]
    assert ("nothing predicted yet" in shown.picture.text) == (value is ...)


def test_a_curve_in_colab_is_a_page_that_asks_by_name(colab):
    shown = predictions.curve("04.curve", ..., at=[1, 2, 4, 8])
    data, _ = shown._repr_mimebundle_()
    assert "inColab(document.getElementById(" in data["text/html"]
    assert "export " not in data["text/html"]
    assert shown.picture.html() in data["text/html"], "nothing is left where no script runs"
    assert not hasattr(shown, "points"), "a widget was made: Colab would store its model"


@pytest.mark.browser
def test_the_points_are_dragged_and_moved_by_keys(chromium, colab):
    shown = predictions.curve("04.curve", ..., at=[1, 2, 4, 8])
    page = chromium.new_page(viewport={"width": 600, "height": 400})
    page.expose_function("ask", shown.answer)
    page.set_content(shown._repr_mimebundle_()[0]["text/html"])
    page.evaluate(
        "window.google = {colab: {kernel: {invokeFunction:"
        " async (name, given) => ({data: {'application/json': await window.ask(given[0])}})}}}; 0"
    )
    points = page.get_by_role("slider")
    assert points.count() == 4
    assert page.locator("img").count() == 0, "the points take the place of the picture"
    box = points.nth(3).bounding_box()
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0], at[1] - 40)
    page.mouse.up()
    page.keyboard.press("Shift+Tab")
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    moved = [float(point.get_attribute("aria-valuenow")) for point in points.all()]
    assert moved[:2] == [1, 1]
    assert moved[2] == pytest.approx(1.3)
    assert moved[3] > 1.5
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button
    page.get_by_text("you predict").wait_for()
    assert list(shown.curve.value) == moved
    page.close()


@pytest.mark.parametrize(
    ("value", "measured", "verdict"),
    [
        ("prepare", {"fetch": 1, "prepare": 20, "train": 3}, "right"),
        ("fetch", {"fetch": 1, "prepare": 20, "train": 3}, "another one is longer"),
        ("train", {"fetch": 1, "prepare": 20, "train": 18}, "cannot be told"),
        ("prepare", {"fetch": 1, "prepare": 20, "train": 18}, "cannot be told"),
        ("train", {"fetch": 1, "prepare": [10, 20, 30], "train": 12}, "cannot be told"),
    ],
)
def test_a_cause_is_the_longest_bar(value, measured, verdict):
    among = ("fetch", "prepare", "train")
    said = predictions.cause("01.cause", value, among=among)
    assert str(said) == f"01.cause: you predict {value}."
    done = predictions.review("01.cause", measured=measured)
    assert done.verdict == verdict
    assert f"{value} ← your prediction" in str(done)
    assert len(done.figure().axes[0].patches) == 3
    restart()
    assert find("01.cause").verdict == verdict
    assert predictions.cause("01.cause", "fetch", among=among).value == "fetch"


def test_the_cause_of_a_run_is_read_from_its_timeline(album):
    from labkit.timeline.timeline import Timeline

    def load(path, label):
        import tensorflow as tf

        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [800, 800]), label

    data = album.files().map(load).batch(4).repeat()
    line = Timeline(record(data, accelerators.modelled(step_ms=0.1), steps=4, progress=False))
    predictions.cause("01.cause", "prepare", among=("fetch", "prepare", "train"))
    fetch, prepare, train = predictions.review("01.cause", measured=line).prediction.measured
    assert prepare.middle > fetch.middle > 0
    assert train.middle == pytest.approx((line.span_ns - line.idle_ns) / 1e6 / line.images)
    with pytest.raises(ValueError, match="a dict of numbers for fetch, prepare, train"):
        predictions.review("01.cause", measured={"fetch": 1})


def test_every_kind_stands_in_the_summary_and_locks():
    predictions.commit("01.a", 2)
    predictions.curve("01.b", [1, 2], at=[1, 2])
    predictions.cause("01.c", "one", among=("one", "two"))
    for name, measured in (("01.a", rounds(2)), ("01.b", [rounds(1), rounds(2)]), ("01.c", {"one": 5, "two": 1})):
        assert predictions.review(name, measured=measured).verdict == "right"
    assert "3 of 3 measured predictions are right" in str(predictions.summary())
    late = predictions.cause("01.c", "two", among=("one", "two"))
    assert late.value == "one"
    assert "two came after the measurement and is not kept" in str(late)
    restart()
    assert [p.verdict for p in predictions.summary().predictions] == ["right"] * 3


def test_a_hand_in_holds_each_number_of_a_curve_and_no_cause():
    from labcourse.handin.submission import collect

    predictions.curve("04.curve", [1, 2], at=[1, 4])
    predictions.review("04.curve", measured=[1, rounds(1.9)])
    predictions.cause("01.cause", "one", among=("one", "two"))
    found = {p["name"]: (p["value"], p["measured"]) for p in collect()["predictions"]}
    assert found == {"04.curve.1": (1, [1, 1, 1]), "04.curve.4": (2, [1.9] * 3)}
