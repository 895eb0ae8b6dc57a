"""The level of a prefetch buffer: what went in, less what came out, never below zero and never above its depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import MS, job

from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.simulated_trace import simulated
from labkit.timeline.trace import Span, Trace
from labkit.views import buffer_chart


def modelled(depth, load, train, steps=12, warmup=0):
    """Return a job whose batches take `load` ms to make and `train` ms to train on."""
    costs, knobs = Costs(map={"decode": load / 4}, train=train), Knobs(4, cores=2, prefetch=depth)
    return simulated(costs, knobs, steps, warmup, 0, None, {"name": "x", "source": "a test"})


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(2, 40), st.integers(2, 40), st.integers(0, 9))
def test_the_level_stays_between_empty_and_full_and_changes_by_one(depth, load, train, warmup):
    ns, level = buffer_chart.level(modelled(depth, load, train, warmup=warmup), depth)
    assert ns[0] == 0
    assert (np.diff(ns) >= 0).all()
    assert set(np.abs(np.diff(level))) <= {0, 1}  # what a waiting consumer takes at once never lies in the buffer
    assert level.min() >= 0
    assert level.max() <= depth


def test_a_slow_producer_leaves_the_buffer_empty_and_a_quick_one_fills_it():
    _, slow = buffer_chart.level(modelled(4, load=30, train=10), 4)
    assert slow.max() <= 1
    _, quick = buffer_chart.level(modelled(4, load=4, train=20, warmup=8), 4)
    assert quick.min() >= 3
    assert quick.max() == 4


def made(start, end):
    return Span("tf.data Prefetch", "Iterator::Root::Prefetch::Map", "iterator", start * MS, (end - start) * MS, -1)


def waited(start, end):
    return Span("consumer", "wait for batch", "wait", start * MS, (end - start) * MS, 0)


KINDS = {"consumer": "consumer"}


def test_a_batch_in_the_making_when_the_recording_began_counts():
    spans = [waited(0, 1), made(5, 6), waited(10, 11), made(12, 13), waited(20, 21)]
    _, without = buffer_chart.level(Trace.from_spans(spans, KINDS), 4)
    assert without.tolist() == [4, 3, 4, 3, 4, 3]
    op = Span("tf.data worker 1", "DecodeJpeg", "decode", 3 * MS, MS, -1)
    _, level = buffer_chart.level(Trace.from_spans([*spans, op], KINDS), 4)
    assert level.tolist() == [3, 2, 3, 4, 3, 4, 3], "one more came at the start of the first call that is seen"


def test_where_the_consumer_waited_the_buffer_was_empty_whatever_its_depth():
    spans = [waited(0, 1), made(0, 40), waited(10, 41), made(40, 42), made(42, 44), waited(50, 51)]
    for depth in (None, 2, 9):
        _, level = buffer_chart.level(Trace.from_spans(spans, KINDS), depth)
        assert level.tolist() == [1, 0, 1, 0, 1, 2, 1], depth


def test_the_picture_says_each_level_and_each_idle_time_in_words():
    picture = buffer_chart.draw({1: modelled(1, 30, 20), "AUTOTUNE": modelled(2, 4, 20)})
    assert "prefetch(1): 0 to 1 batches ready; accelerator idle" in picture.text
    assert "prefetch(AUTOTUNE): 0 to 2 batches ready" in picture.alt
    figure = picture.figure("dark")
    assert len(figure.axes) == 2
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "idle 30.0 ms" in words
    assert picture.png()[:4] == b"\x89PNG"


def test_all_buffers_are_drawn_to_one_scale():
    shallow, deep = buffer_chart.draw({1: modelled(1, 4, 20, warmup=8), 8: modelled(8, 4, 20, warmup=8)}).figure().axes
    assert shallow.get_ylim() == deep.get_ylim()
    assert shallow.get_xlim() == deep.get_xlim()
    assert list(shallow.get_yticks()) == [0, 8]
    assert shallow.get_ylabel() == deep.get_ylabel() == "batches"


@pytest.mark.parametrize(
    ("traces", "words"),
    [({}, "one or more"), ({0: modelled(1, 4, 4)}, "the depth of a buffer is 0"), ({1: job()}, "ends with prefetch")],
)
def test_what_has_no_buffer_is_refused_in_one_sentence(traces, words):
    with pytest.raises(ValueError, match=words):
        buffer_chart.draw(traces)
