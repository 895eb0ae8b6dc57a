"""Faults that look alike in the spans, planted and recorded: what ran, what waited, what was thrown away.

A recording may say that it cannot tell, and is then made again. It must never say the opposite.
"""

from __future__ import annotations

import re
import threading
import time

import pytest
from repeats import again
from uncrowded import uncrowded

from labkit.recording import accelerators, recorder
from labkit.timeline.timeline import Timeline

pytestmark = pytest.mark.long
TRIES = 5


@pytest.fixture(scope="module")
def tf():
    import tensorflow as tf

    return tf


def recorded(make, fits, contrary):
    """Record until the advice fits; it must never be the contrary. Return the last timeline."""
    for _ in again(TRIES):
        trace = recorder.record(make(), accelerators.modelled(step_ms=2), steps=12, progress=False)
        timeline = Timeline(uncrowded(trace))
        stalls = timeline.stalls
        assert not contrary(stalls), (stalls, timeline.efforts)
        if fits(stalls):
            return timeline
    raise AssertionError((stalls, timeline.efforts))


def python(tf, function, calls):
    """A pipeline that spends its time in a Python function."""
    numbers = tf.data.Dataset.range(100_000)
    mapped = numbers.map(lambda i: tf.py_function(function, [i], tf.int64), num_parallel_calls=calls)
    return mapped.batch(8).prefetch(1)


def asleep(i):
    time.sleep(0.004)
    return i


def busy(i):
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass
    return i


def test_a_function_that_sleeps_waits_and_one_call_at_a_time_is_the_reason(tf):
    fits = "python.more-calls"
    timeline = recorded(lambda: python(tf, asleep, None), lambda s: fits in s.rules, lambda s: False)
    assert timeline.efforts["EagerPyFunc"].computes is False


def test_a_lock_of_its_own_keeps_calls_waiting_for_each_other(tf):
    lock = threading.Lock()

    def locked(i):
        with lock:
            return asleep(i)

    recorded(
        lambda: python(tf, locked, 8),
        lambda s: "python.waits-together" in s.rules,
        lambda s: "python.more-calls" in s.rules,
    )


def test_a_function_that_computes_is_not_said_to_wait(tf):
    waits = {"python.more-calls", "python.waits-together"}
    for calls in (None, 4):
        recorded(
            lambda calls=calls: python(tf, busy, calls),
            lambda s: "python.ops-instead" in s.rules,
            lambda s: waits.intersection(s.rules),
        )


def test_packed_records_are_work_for_the_processor(tf, tmp_path):
    values = tf.random.stateless_uniform([150_000], (1, 2), 0, 12, tf.int32).numpy().astype("uint8").tobytes()
    with tf.io.TFRecordWriter(str(tmp_path / "packed"), "GZIP") as writer:
        for _ in range(64):
            writer.write(values)

    def packed():
        records = tf.data.TFRecordDataset(str(tmp_path / "packed"), "GZIP").repeat()
        return records.map(lambda r: tf.io.decode_raw(r, tf.uint8)[:1000]).batch(16)

    timeline = recorded(packed, lambda s: s.cause == "prep" and s.blame == "TFRecord", lambda s: False)
    assert timeline.stalls.rules[-1] == "source.unpacked"


@pytest.mark.parametrize("calls", [None, 4])
def test_what_is_thrown_away_behind_the_work_is_seen_and_counted(tf, album, calls):
    def photo(path, label):
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [64, 64])

    def times(timeline):
        return float(re.search(r"makes ([\d.]+) elements", timeline.stalls.advice)[1])

    files = album.files().repeat()
    sharded = recorded(
        lambda: files.map(photo, num_parallel_calls=calls).shard(4, 0).batch(8).prefetch(1),
        lambda s: "work.drop-first" in s.rules,
        lambda s: "AUTOTUNE" in s.advice,
    )
    assert times(sharded) == pytest.approx(4, rel=0.25)
    filtered = recorded(
        lambda: (
            files.enumerate()
            .map(lambda i, f: (i, photo(*f)), num_parallel_calls=calls)
            .filter(lambda i, x: i % 3 == 0)
            .batch(8)
            .prefetch(1)
        ),
        lambda s: "work.drop-first" in s.rules,
        lambda s: "AUTOTUNE" in s.advice,
    )
    assert times(filtered) == pytest.approx(3, rel=0.25)


def test_padding_is_named_and_its_advice_can_be_followed(tf):
    def uneven():
        rows = tf.data.Dataset.range(10**6).map(lambda i: tf.ones([tf.where(i % 16 == 0, 2_000_000, 2_000)]))
        return rows.padded_batch(16).prefetch(1)

    timeline = recorded(uneven, lambda s: s.blame == "PaddedBatchV2", lambda s: "num_parallel_calls" in s.advice)
    assert timeline.stalls.rules[-1] == "batch.padding"
    assert timeline.run.work.padded == pytest.approx(15 / 16, abs=0.01)


@pytest.mark.parametrize("calls", [None, 4])
def test_many_small_calls_are_told_to_come_after_the_batch(tf, calls):
    rows = tf.data.Dataset.from_tensor_slices(tf.zeros([4096, 32])).repeat()

    def change(values):
        return tf.clip_by_value(2 * values + 1, 0.0, 1.0)

    def one_by_one():
        return rows.map(change, num_parallel_calls=calls).batch(512).prefetch(1)

    recorded(one_by_one, lambda s: "small.batch-first" in s.rules, lambda s: "AUTOTUNE): " in s.advice)
    whole = rows.batch(512).map(change, num_parallel_calls=calls).prefetch(1)
    timeline = Timeline(recorder.record(whole, accelerators.modelled(step_ms=2), steps=12, progress=False))
    assert "small.batch-first" not in timeline.stalls.rules
