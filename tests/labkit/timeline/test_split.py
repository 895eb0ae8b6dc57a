"""What fetching and preparing cost, estimated from one run: the shares of three runs are its oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from test_causes import many, traces, train, wait, walk

from labkit import simulate
from labkit.timeline.timeline import Timeline

#: How far a share of one run may be from that of three.
AGREE = 0.05


@many
@given(traces())
def test_the_shares_of_one_run_add_up_and_none_is_negative(trace):
    split = Timeline(trace).split
    assert split.ingestion + split.prep_stall + split.fetch_stall == pytest.approx(1)
    assert min(vars(split).values()) >= 0


def repeated(steps: int, period: float, spans: list) -> Timeline:
    """Return a timeline of equal steps: (thread, category, start, end) within the period, ms."""
    rows = []
    for i in range(steps):
        for thread, name, category, a, b in spans:
            rows.append((thread, name, category, a + i * period, b + i * period))
    return walk(*rows, warmup=1)


def test_without_overlap_each_stall_is_what_its_work_takes():
    timeline = repeated(6, 20, [wait(0, 10), train(10, 20), ("w", "r", "read", 0, 6), ("w", "d", "decode", 6, 10)])
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.2, "fetch_stall": 0.3})


def test_reads_that_the_accelerator_hides_are_a_fetch_stall_where_prep_alone_would_be_hidden():
    # One thread reads for 10 ms, while the step before it trains, and then decodes for 10 ms.
    timeline = repeated(6, 20, [train(0, 10), wait(10, 20), ("w", "r", "read", 0, 10), ("w", "d", "decode", 10, 20)])
    assert timeline.stalls.shares["prep"] == pytest.approx(0.5)
    assert timeline.stalls.shares["fetch"] == 0
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.0, "fetch_stall": 0.5})


@pytest.mark.parametrize("category", ["decode", "transfer"])
def test_work_in_a_thread_of_its_own_stays_when_the_reads_are_gone(category):
    # The reader is the longer stage: 20 ms; the other's 15 ms are hidden behind it, the accelerator takes 5.
    spans = [train(0, 5), wait(5, 20), ("reader", "r", "read", 0, 20), ("other", "o", category, 1, 16)]
    timeline = repeated(8, 20, spans)
    assert timeline.split.ingestion == pytest.approx(0.25, abs=0.02)
    assert timeline.split.prep_stall == pytest.approx(0.5, abs=0.02)
    assert timeline.split.fetch_stall == pytest.approx(0.25, abs=0.02)


def test_the_way_between_processes_is_a_prep_stall():
    moved = [("w", "pickle", "transfer", 2, 6), ("consumer", "unpickle", "transfer", 6, 10)]
    timeline = repeated(6, 20, [wait(0, 10), train(10, 20), ("w", "r", "read", 0, 2), *moved])
    assert vars(timeline.split) == pytest.approx({"ingestion": 0.5, "prep_stall": 0.4, "fetch_stall": 0.1})


def test_a_run_of_one_step_is_not_split():
    assert vars(walk(wait(0, 1), train(1, 2)).split) == {"ingestion": 1.0, "prep_stall": 0.0, "fetch_stall": 0.0}


COSTS = simulate.Costs(open=1, read=1, map={"decode": 4, "resize": 1}, batch=2, copy=1, train=40)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"prefetch": 2},
        {"prefetch": 2, "map_calls": 2},
        {"prefetch": 2, "map_calls": 2, "latency_ms": 5.0},
        {"prefetch": 2, "map_calls": 8, "latency_ms": 5.0, "threads": 16},
        {"prefetch": 2, "map_calls": 8, "cores": 8, "latency_ms": 30.0},
        {"prefetch": 4, "map_calls": 8, "cores": 16},
    ],
)
def test_one_modelled_run_and_three_agree_where_nothing_is_noise(knobs):
    def step_ns(costs, **changes):
        trace = simulate.run(costs, simulate.Knobs(**{**knobs, **changes}), steps=30)
        return np.diff(trace.end_ns[trace.select("train", kind="consumer")])[5:].mean()

    stages = {"open": 0, "read": 0, "map": COSTS.map, "batch": 2, "copy": 1, "train": 40}
    cold = step_ns(COSTS)
    warm = step_ns(simulate.Costs(**stages), latency_ms=0.0)
    fast = step_ns(simulate.Costs(**stages | {"map": 0, "batch": 0}), latency_ms=0.0)
    three = (fast / cold, (warm - fast) / cold, (cold - warm) / cold)
    one = Timeline(simulate.run(COSTS, simulate.Knobs(**knobs), steps=30)).split
    assert tuple(vars(one).values()) == pytest.approx(three, abs=AGREE)
