"""What free data would gain: the ratio of means, with an interval that holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from traces import MS, job

from labkit.timeline.headroom import headroom
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import VALIDATION, Span, Trace


def test_it_is_the_ratio_of_means():
    assert headroom(np.array([30, 30, 30]), np.array([10, 10, 10])) == (1.5, 1.5, 1.5)
    assert headroom(np.array([30, 30]), np.array([10, 10])) is None, "of two steps nobody can tell how they differ"
    assert headroom(np.array([5, 5, 5]), np.array([5, 5, 5])).gain == np.inf


def test_the_interval_holds_the_truth_in_nearly_all_runs():
    dice = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        waits, trains = dice.exponential(20, 20), dice.normal(40, 4, 20)
        found = headroom(waits + trains, waits)
        held += found.low <= 1.5 <= found.high
    assert 0.90 <= held / 400 <= 0.985


def test_a_job_in_turns_gains_its_waits_and_a_validation_is_no_part_of_it():
    trace = job(steps=6, wait=5, train=5)
    timeline = Timeline(trace)
    assert timeline.headroom.gain == pytest.approx(2.0)
    start = int(trace.end_ns.max())
    spans = [Span("the script", VALIDATION, "train", start, 40 * MS, -1)]
    spans += [Span("consumer", "train step", "train", start + 40 * MS, 5 * MS, 6)]
    kinds = {"the script": "script", "consumer": "consumer"}
    both = Trace.merge(trace, Trace.from_spans(spans, kinds, origin=trace.run.origin))
    longer = Timeline(both)
    assert longer.validations.total_ns == 40 * MS
    assert longer.step_ms == pytest.approx((longer.span_ns - 40 * MS) / 1e6 / 7)
    assert longer.headroom.gain == pytest.approx(65 / 35)
