"""Advice that is applied: what is kept is the same work, and faster."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

import labextras.tune
from labextras.tune import improvement as improve
from labkit.recording import accelerators
from labkit.recording.recorder import RecordingError


@pytest.fixture(scope="module")
def tf():
    import tensorflow as tf

    return tf


@pytest.fixture(autouse=True)
def verdicts_beside_other_programs(monkeypatch):
    """Other tests run on the same cores; the effects that are planted here are larger than theirs."""
    measured = improve.measured_rounds
    monkeypatch.setattr(improve, "measured_rounds", lambda traces: replace(measured(traces), busy_limit=2.0))


def slow(tf):
    """Return a map function that takes 3 ms, asleep."""

    def wait(number):
        time.sleep(0.003)
        return number

    return lambda number: tf.ensure_shape(tf.numpy_function(wait, [number], tf.int64), [])


def busy(tf):
    """Return a map function that computes for 3 ms in Python: several calls at once are no faster."""

    def compute(number):
        end = time.thread_time() + 0.003
        while time.thread_time() < end:
            pass
        return number

    return lambda number: tf.ensure_shape(tf.numpy_function(compute, [number], tf.int64), [])


@pytest.mark.long
def test_a_pipeline_that_is_fast_enough_is_left_alone(tf):
    fine = tf.data.Dataset.range(512).repeat().batch(8).prefetch(2)
    found = labextras.tune.improve(fine, accelerators.modelled(step_ms=250))
    assert found.dataset is fine
    assert found.trials == ()
    assert found.diff == ""
    assert "no change can gain much" in str(found)


@pytest.mark.long
def test_it_is_said_why_nothing_was_tried(tf):
    windows = tf.data.Dataset.range(4096).map(slow(tf)).window(2).flat_map(lambda one: one).batch(2).prefetch(1)
    found = improve.improve(windows, accelerators.modelled(step_ms=1), seconds=0.5)
    assert found.trials == ()
    assert "Nothing before Window was changed" in str(found)
    assert re.search("The time was up before .* was tried", str(found))


@pytest.mark.long
def test_it_is_said_why_a_change_cannot_be_built(tf):
    def single(row):
        tf.debugging.assert_rank(row, 1)
        return 2 * row

    rows = tf.data.Dataset.from_tensor_slices(tf.zeros([512, 4])).map(single).batch(16)
    found = improve.improve(rows, accelerators.modelled(step_ms=1), repeats=1, seconds=60)
    (refused,) = [trial for trial in found.trials if trial.change == "batch before the map"]
    assert "must have rank 1" in refused.elements
    assert not refused.kept


def test_a_pipeline_whose_elements_never_come_is_given_up_within_the_time(tf):
    nothing = tf.data.Dataset.range(8).repeat().filter(lambda number: number < 0).batch(2)
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match="no element comes"):
        improve.improve(nothing, accelerators.modelled(step_ms=1), seconds=2)
    assert time.monotonic() - begin < 20


@pytest.mark.long
def test_a_change_that_saves_work_is_kept_and_delivers_the_same(tf):
    late = tf.data.Dataset.range(64).map(busy(tf)).shard(4, 1).batch(4)
    found = labextras.tune.improve(late, accelerators.modelled(step_ms=5), repeats=3, progress=False)
    assert "shard before the map" in found.kept, found
    assert list(found.dataset.unbatch().as_numpy_iterator()) == list(late.unbatch().as_numpy_iterator())
    assert found.code.index(".shard") < found.code.index(".map")
    # The diff leads from the one code to the other, whichever of the two calls it calls the one that moved.
    lines = found.diff.splitlines()
    assert [line[2:] for line in lines if line[0] != "-"] == found.code.splitlines()
    assert [line[2:] for line in lines if line[0] != "+"] == found.original.code().splitlines()
    for trial in found.trials:
        assert not trial.kept or trial.speedup.verdict == "faster"


@pytest.mark.long
def test_a_faster_pipeline_with_other_elements_is_refused(tf):
    def centred(rows):
        return rows - tf.reduce_mean(rows)

    rows = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(4096.0 * 8), [4096, 8]))
    found = labextras.tune.improve(
        rows.map(centred).batch(256), accelerators.modelled(step_ms=1), repeats=3, progress=False
    )
    refused = next(one for one in found.trials if one.change == "batch before the map")
    assert not refused.kept
    assert refused.speedup is None
    assert refused.elements == "other elements than the pipeline delivers"


@pytest.mark.parametrize(("wrong", "names"), [({"seconds": 0}, "seconds is 0"), ({"repeats": 0}, "repeats is 0")])
def test_wrong_arguments_are_named(tf, wrong, names):
    with pytest.raises(ValueError, match=names):
        labextras.tune.improve(tf.data.Dataset.range(4).batch(2), accelerators.modelled(step_ms=1), **wrong)
    with pytest.raises(TypeError, match="is a list"):
        labextras.tune.improve([1], accelerators.modelled(step_ms=1))


def test_what_cannot_be_recorded_is_refused_as_record_refuses_it(tf):
    photos = tf.data.Dataset.from_tensors((tf.zeros((32, 32, 3), tf.uint8), 1)).repeat(8)
    with pytest.raises(ValueError, match=r"\.batch\("):
        labextras.tune.improve(photos, accelerators.modelled(step_ms=1))

    def broken(number):
        tf.debugging.assert_less(number, tf.constant(1, tf.int64), "planted")
        return number

    with pytest.raises(RecordingError, match="planted"):
        labextras.tune.improve(tf.data.Dataset.range(8).map(broken).batch(2), accelerators.modelled(step_ms=1))


@pytest.mark.parametrize("kind", ["each batch", "the first batch", "a huge epoch", "a full buffer first"])
def test_a_search_ends_in_its_time(tf, kind):
    """Of a slow machine it is known how long a batch takes: no more than some of them are waited for."""

    def wait(number):
        time.sleep(0.4 if kind == "each batch" or (kind == "the first batch" and number == 0) else 0.0)
        return number

    rows = tf.data.Dataset.range(10**9).map(lambda i: tf.ensure_shape(tf.numpy_function(wait, [i], tf.int64), []))
    rows = rows.shuffle(20_000) if kind == "a full buffer first" else rows
    begin = time.monotonic()
    found = improve.improve(rows.batch(1 if kind == "each batch" else 16), accelerators.modelled(step_ms=1), seconds=3)
    assert time.monotonic() - begin < 60, "a search without an end takes hours"
    assert found.trials or "The time was up before" in str(found)


def test_a_trial_that_is_not_over_in_time_is_given_up(tf):
    job = improve.Until(accelerators.modelled(step_ms=1), ends=time.monotonic() - 1)
    endless = tf.data.Dataset.range(8).repeat().batch(2)
    with pytest.raises(improve.TimeUp):
        job.driving(lambda: improve.recorder.record(endless, job, steps=10**9, progress=False))


def test_what_the_advice_asks_for_is_tried_first_and_what_is_out_of_reach_is_said(tf):
    late = tf.data.Dataset.range(64).map(busy(tf)).shard(4, 1).batch(4)
    search = improve.Search(improve.calls.read(late), accelerators.modelled(step_ms=5), 1, 60)
    order = []
    search.tried = lambda change: order.append(change.name) or improve.Trial(change.name, "the same")
    search.run(lambda: None)
    (first,) = [one for one in improve.rewrite.changes(search.written) if one.name == order[0]]
    wanted = (*improve.Timeline(search.trace).stalls.rules, improve.Timeline(search.trace).stalls.cause)
    assert first.promise(wanted) == min(one.promise(wanted) for one in improve.rewrite.changes(search.written))
    assert bool(first.promise(wanted)) == any(improve.OUT_OF_REACH in note for note in search.notes)
