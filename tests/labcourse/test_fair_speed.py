"""Fair grading: data first, then a clock that is the same everywhere, then a measurement that may abstain."""

from __future__ import annotations

import time

import psutil
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

from labcourse import fairness, grading
from labcourse.fairness import benchmark, timeouts
from labcourse.fairness.stages import called_in
from labkit import simulate
from labkit.pipelines import structure
from labkit.pipelines.options import naive

ms = st.integers(1, 40)
AUTOTUNE = tf.data.AUTOTUNE


def numbers(elements=12, threads=None):
    return tf.data.Dataset.range(elements).with_options(naive(threads))


def called(chain):
    return tuple(name for step in chain.every for name in called_in(step))


# -- the clock --------------------------------------------------------------


@settings(max_examples=12)
@given(ms, ms, st.integers(1, 4), st.integers(0, 3))
def test_the_clock_agrees_with_the_simulation_of_the_lab(load, train, batch, depth):
    stage, steps = fairness.Stage("load", load), 6
    made = numbers(batch * steps).map(stage).batch(batch)
    timing = fairness.simulate(made.prefetch(depth) if depth else made, (stage,), train)
    costs, knobs = simulate.Costs(map=load, train=train), simulate.Knobs(batch_size=batch, prefetch=depth)
    assert timing.makespan_ms == pytest.approx(simulate.run(costs, knobs, steps).span_ns / 1e6)


def test_a_cache_is_paid_for_once_and_only_what_stands_before_it():
    decode, augment = fairness.Stage("decode", 5), fairness.Stage("augment", 1)
    kept = numbers(4).map(decode).cache().map(augment).repeat(3)
    assert fairness.simulate(kept, (decode, augment), 0).makespan_ms == pytest.approx(4 * 5 + 12)
    frozen = numbers(4).map(decode).map(augment).cache().repeat(3)
    assert fairness.simulate(frozen, (decode, augment), 0).makespan_ms == pytest.approx(4 * 6)


def test_a_batch_shares_what_a_call_costs():
    scale = fairness.Stage("scale", 1, call_ms=3)
    assert fairness.simulate(numbers(8).map(scale).batch(4), (scale,), 0).makespan_ms == pytest.approx(8 * 4)
    assert fairness.simulate(numbers(8).batch(4).map(scale), (scale,), 0).makespan_ms == pytest.approx(2 * 7)


def test_the_prefetch_that_tf_data_adds_is_counted_where_it_may_add_one():
    stage = fairness.Stage("load", 5)
    own = tf.data.Dataset.range(10).map(stage)
    assert (
        fairness.simulate(own, (stage,), 5).makespan_ms
        < fairness.simulate(numbers(10).map(stage), (stage,), 5).makespan_ms
    )


def test_the_trace_of_the_clock_is_a_modelled_one_with_every_call():
    stage = fairness.Stage("decode", 5)
    trace = fairness.simulate(numbers(8).map(stage).batch(2), (stage,), 5).trace
    assert trace.run.origin == "modelled"
    assert int(trace.select("decode").sum()) == 8
    assert trace.run.images == 8


def test_a_counter_beside_the_elements_does_not_hide_how_many_there_are():
    assert structure.chain(tf.data.Dataset.range(5).enumerate()).elements == 5
    assert structure.chain(numbers(5).map(lambda x: x).enumerate()).elements == 5


# -- the grade ----------------------------------------------------------------


read = fairness.Stage("read", 8, asleep=True)
decode = fairness.Stage("decode", 4, lambda x: x * 10)


def both(x):
    return decode(read(x))


def good():
    return numbers(16, 8).map(both, num_parallel_calls=8).batch(4).prefetch(2)


def slow():
    return numbers(16, 8).map(both).batch(4)


def task(**more):
    return fairness.Task((read, decode), slow, good, 10, **{"measured": False, **more})


def graded(made, given_task=None):
    return grading.judge("x", lambda function: fairness.grade(function, given_task or task()), made)


WRONG = {
    "slow": (slow, "on the simulated clock"),
    "no buffer, few calls": (lambda: numbers(16, 8).map(both, num_parallel_calls=2).batch(4), "simulated clock"),
    "prefetch first": (lambda: numbers(16, 8).prefetch(2).map(both).batch(4), "simulated clock"),
    "never ends": (lambda: good().repeat(), "more than 4 elements"),
    "loses": (lambda: numbers(15, 8).map(both, num_parallel_calls=8).batch(4).prefetch(2), "missing"),
    "repeats": (lambda: numbers(8, 8).repeat(2).map(both, num_parallel_calls=8).batch(4).prefetch(2), "more than once"),
    "order": (lambda: numbers(16, 8).map(both, num_parallel_calls=8).batch(4).shuffle(4, 1).prefetch(2), "order"),
    "may vary": (
        lambda: numbers(16, 8).map(both, num_parallel_calls=8, deterministic=False).batch(4).prefetch(2),
        "order",
    ),
    "unbatched": (lambda: numbers(16, 8).map(both, num_parallel_calls=8).prefetch(2), "batch"),
    "another batch": (lambda: numbers(16, 8).map(both, num_parallel_calls=8).batch(8).prefetch(2), "batches have"),
    "dtype": (lambda: good().map(lambda b: tf.cast(b, tf.float32)), "dtype is float32"),
    "a pair": (lambda: good().map(lambda b: (b, b)), "expected single tensors"),
    "stage left out": (lambda: numbers(16, 8).map(read).batch(4).prefetch(2), "decode is never called"),
    "values": (lambda: good().map(lambda b: b + 1), "not the right ones"),
    "unbounded": (
        lambda: numbers(16, 8).map(both, num_parallel_calls=8).batch(4).prefetch(10_000),
        "10,000 elements, 64 are allowed",
    ),
    "a list": (lambda: list(range(4)), "return a tf.data.Dataset, not list"),
    "raises": (lambda: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_pipeline_fails_with_the_hint_that_fits_and_is_never_measured(name, monkeypatch):
    monkeypatch.setattr(benchmark, "run", lambda *_: pytest.fail("measured"))
    made, word = WRONG[name]
    result = graded(made, task(measured=True))
    assert result.status == grading.FAILED
    assert word in result.hint, result


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "made",
    [good, lambda: numbers(16, 8).map(both, num_parallel_calls=AUTOTUNE).batch(4).prefetch(AUTOTUNE)],
    ids=["own", "autotune"],
)
def test_a_right_pipeline_passes_whatever_the_machine_has(made):
    for cores in (1, 2, 64):
        assert graded(made, task(cores=cores)).passed


@pytest.mark.long
def test_elements_that_never_come_do_not_hold_the_grade(monkeypatch):
    monkeypatch.setattr(timeouts, "LIMIT_S", 5.0)
    result = graded(lambda: good().repeat().filter(lambda batch: batch[0] < 0))
    assert "no element comes out of your dataset" in result.hint


def test_a_stub_is_open():
    assert graded(lambda: None).status == grading.OPEN


@pytest.mark.alone
def test_what_only_a_measurement_can_tell_never_passes():
    """A wait that neither the graph nor the clock can see."""

    def hidden(x):
        def wait(value):
            time.sleep(0.15)
            return value

        return tf.ensure_shape(tf.numpy_function(wait, [both(x)], tf.int64), [])

    result = graded(lambda: numbers(16, 8).map(hidden, num_parallel_calls=8).batch(4).prefetch(2), task(measured=True))
    assert result.status in (grading.FAILED, grading.INCONCLUSIVE)
    assert "measured in turn" in result.hint or "too busy" in result.hint


def test_where_a_machine_has_nothing_to_gain_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(benchmark, "run", lambda *_: pytest.fail("measured"))
    even = fairness.Task((read, decode), slow, slow, 10)
    assert fairness.grade(slow, even) is None


def test_stages_run_and_hold_nobody_while_data_are_looked_at():
    seen = []

    def note(value):
        seen.append(int(value))
        return value

    minute = fairness.Stage("read", 60_000, lambda x: tf.ensure_shape(tf.numpy_function(note, [x], tf.int64), []))
    with fairness.at_once():
        assert [int(x) for x in numbers().map(minute)] == list(range(12))
    assert seen == list(range(12))


# -- the verdict --------------------------------------------------------------


def times(slow_, good_, mine):
    return {"slow": slow_, "good": good_, "mine": mine}


JUDGED = {
    "twice as fast": (times([2, 2, 2], [1, 1, 1], [1, 1, 1]), 0.0, benchmark.PASSED),
    "one bad round": (times([2, 2, 2], [1, 1, 1], [1, 1, 3]), 0.9, benchmark.PASSED),
    "one lucky round": (times([2, 5, 2], [1, 1, 1], [2, 2, 2]), 0.0, benchmark.FAILED),
    "no faster": (times([2, 2, 2], [1, 1, 1], [2, 2, 2]), 0.0, benchmark.FAILED),
    "no faster, busy, but sure": (times([2, 2, 2], [1, 1, 1], [2, 2, 2]), 0.9, benchmark.FAILED),
    "no faster, busy, two rounds near": (times([2, 4, 4], [1, 1, 1], [2, 2, 2]), 0.9, benchmark.UNCLEAR),
    "no faster, busy, one round near": (times([2, 2, 4], [1, 1, 1], [2, 2, 2]), 0.9, benchmark.FAILED),
    "the lab's own is no faster either": (times([2, 2, 2], [2, 2, 2], [2, 2, 2]), 0.0, benchmark.UNCLEAR),
    "just below": (times([2, 2, 2], [1, 1, 1], [1.43, 1.43, 1.43]), 0.0, benchmark.UNCLEAR),
}


@pytest.mark.parametrize("name", JUDGED)
def test_a_verdict_needs_rounds_that_agree_and_a_control_that_works(name):
    seen, load, verdict = JUDGED[name]
    assert benchmark.judged(seen, benchmark.threshold(2.0), load, last=True) == verdict


@given(st.lists(st.tuples(*[st.floats(0.01, 10)] * 3), min_size=3, max_size=6), st.floats(0, 1))
def test_no_verdict_is_a_zero_where_the_control_fails(rows, load):
    slow_, _, mine = (list(column) for column in zip(*rows, strict=True))
    assert benchmark.judged(times(slow_, slow_, mine), 1.4, load, last=True) != benchmark.FAILED


@given(st.lists(st.tuples(*[st.floats(0.01, 10)] * 3), min_size=3, max_size=6), st.floats(0, 1))
def test_before_the_retry_nobody_fails(rows, load):
    columns = [list(column) for column in zip(*rows, strict=True)]
    assert benchmark.judged(times(*columns), 1.4, load, last=False) != benchmark.FAILED


@given(st.floats(fairness.LEAST_GAIN, 100))
def test_the_threshold_is_at_most_three_quarters_of_what_is_to_be_had(expected):
    assert 1 < benchmark.threshold(expected) <= 0.75 * expected


# -- bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fairness.Stage("Read File", 1), "name of a stage is 'Read File'; allowed"),
        (lambda: fairness.Stage("read", -1), "ms is -1; allowed"),
        (lambda: fairness.Stage("read", float("nan")), "is nan; allowed"),
        (lambda: task(cores=0), "cores is 0; allowed: a whole number from 1"),
        (lambda: task(slack=True), "slack is True; allowed"),
        (lambda: structure.chain(3), "dataset is a int; allowed"),
    ],
)
def test_bad_input_gets_one_sentence(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make()


def test_what_was_read_leaves_no_thread_behind():
    """Not even until Python looks for garbage: hundreds of answers are checked in one process."""
    import gc

    def read():
        return len(
            timeouts.pull_with_timeout(tf.data.Dataset.range(8).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2))
        )

    read()
    before = psutil.Process().num_threads()
    gc.disable()
    try:
        assert [read() for _ in range(12)] == [8] * 12
        until(lambda: psutil.Process().num_threads() - before < 12, "the threads of most answers to end")
    finally:
        gc.enable()
