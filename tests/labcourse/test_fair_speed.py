"""Fair grading: data first, then a clock that is the same everywhere."""

from __future__ import annotations

import time

import psutil
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

from labcourse import fairness, grading, student_code
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


def graded(made):
    return grading.judge("x", lambda function: fairness.grade(function(), (read, decode), good(), 10), made)


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
def test_a_wrong_pipeline_fails_with_the_hint_that_fits(name):
    made, word = WRONG[name]
    result = graded(made)
    assert result.status == grading.FAILED
    assert word in result.hint, result


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "made",
    [good, lambda: numbers(16, 8).map(both, num_parallel_calls=AUTOTUNE).batch(4).prefetch(AUTOTUNE)],
    ids=["own", "autotune"],
)
def test_a_right_pipeline_passes(made):
    assert graded(made).passed


@pytest.mark.long
def test_elements_that_never_come_do_not_hold_the_grade(monkeypatch):
    monkeypatch.setattr(student_code, "LIMIT_S", 5.0)
    result = graded(lambda: good().repeat().filter(lambda batch: batch[0] < 0))
    assert "no element comes out of your dataset" in result.hint


def test_a_wait_that_neither_the_graph_nor_the_clock_can_see_never_passes():
    def hidden(x):
        def wait(value):
            time.sleep(0.15)
            return value

        return tf.ensure_shape(tf.numpy_function(wait, [both(x)], tf.int64), [])

    made = numbers(16, 8).map(hidden, num_parallel_calls=8).batch(4).prefetch(2)
    assert "leaves the graph for Python" in graded(lambda: made).hint


def test_stages_run_and_hold_nobody_while_data_are_looked_at():
    seen = []

    def note(value):
        seen.append(int(value))
        return value

    minute = fairness.Stage("read", 60_000, lambda x: tf.ensure_shape(tf.numpy_function(note, [x], tf.int64), []))
    with fairness.at_once():
        assert [int(x) for x in numbers().map(minute)] == list(range(12))
    assert seen == list(range(12))


# -- bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fairness.Stage("Read File", 1), "name of a stage is 'Read File'; allowed"),
        (lambda: fairness.Stage("read", -1), "ms is -1; allowed"),
        (lambda: fairness.Stage("read", float("nan")), "is nan; allowed"),
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
            student_code.pull_with_timeout(
                tf.data.Dataset.range(8).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)
            )
        )

    read()
    before = psutil.Process().num_threads()
    gc.disable()
    try:
        assert [read() for _ in range(12)] == [8] * 12
        until(lambda: psutil.Process().num_threads() - before < 12, "the threads of most answers to end")
    finally:
        gc.enable()
