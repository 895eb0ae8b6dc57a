"""A Python function that its author calls a network waits for bytes: it has lanes of its own, the cause is fetch."""

from __future__ import annotations

import threading
import time

import pytest
import tensorflow as tf

from labkit.pipelines.options import plain
from labkit.recording import accelerators, recorder
from labkit.timeline.timeline import Timeline

#: Calls that wait for each other are there at the same time, on any machine.
TOGETHER = 3


def job(name, calls):
    """Record a pipeline whose map calls a Python function that sleeps; `calls` of them meet before each sleeps."""
    meet = threading.Barrier(calls)

    def fetch(x):
        meet.wait(30)
        time.sleep(0.02)
        return x

    def call(x):
        return tf.ensure_shape(tf.numpy_function(fetch, [x], tf.int64, name=name), []) + 1

    numbers = tf.data.Dataset.range(10**6).map(call, num_parallel_calls=None if calls == 1 else calls)
    dataset = plain(numbers.batch(TOGETHER), threads=TOGETHER)
    trace = recorder.record(dataset, accelerators.modelled(step_ms=1), warmup=1, steps=4, progress=False)
    return Timeline(trace)


def lanes(timeline):
    return [lane for lane in timeline.lanes if lane.name.startswith("network")]


@pytest.fixture(scope="module")
def together():
    return job("network", TOGETHER)


def test_requests_at_the_same_time_have_a_lane_each(together):
    assert [lane.name for lane in lanes(together)] == [f"network {n + 1}" for n in range(TOGETHER)]
    for lane in lanes(together):
        assert set(lane.by_category) == {"read"}
        assert (lane.depth == 0).all(), "bars of one lane never overlap"


def test_one_request_after_the_other_is_one_lane_whatever_threads_send_them():
    (lane,) = lanes(job("network", 1))
    assert lane.name == "network"
    assert len(lane) >= 4 * TOGETHER


def test_the_accelerator_waits_for_fetch_and_the_network_is_to_blame(together):
    stalls = together.stalls
    assert (stalls.cause, stalls.blame) == ("fetch", "network request")
    assert not [rule for rule in stalls.rules if rule.startswith("python")]
    assert any("network request in network" in cause.text for cause in together.causes)


def test_a_python_function_of_another_name_is_prep_as_before():
    timeline = job("decode", TOGETHER)
    assert not lanes(timeline)
    assert timeline.stalls.cause == "prep"
