"""Who waits for whom where processes meet, on traces made by hand: times in milliseconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labextras.cluster.distributed import DistributedRun
from labextras.cluster.meetings import with_waits
from labkit.timeline.heading import heading
from labkit.timeline.run import Host
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

MS = 1_000_000
NOW = 1_800_000_000_000_000_000
KINDS = {"consumer": "consumer", "all-reduce": "unit"}


def process(steps, late_at=0, **facts):
    """Return the trace of a process: each of its steps is (wait, compute, all-reduce), when it ends all of them."""
    spans, now = [], late_at
    for number, (wait, compute, end) in enumerate(steps):
        rows = [("consumer", "wait for batch", "wait", now, now + wait), ("consumer", "step", "train", now + wait, end)]
        rows.append(("all-reduce", "all-reduce", "transfer", now + wait + compute, end))
        spans += [Span(*row, NOW + a * MS, (b - a) * MS, number) for *row, a, b in rows]
        now = end
    facts = {"images": 16 * len(steps), "batch_size": 16, "steps": len(steps), "host": Host(2, others=0.4)} | facts
    return Trace.from_spans(spans, KINDS, origin="measured", window_ns=(NOW, NOW + now * MS), **facts)


# Process 0 has its batches at once. Process 1 waits 8 ms for the first one, and computes 3 ms longer in the second.
FAST, SLOW = process([(0, 2, 11), (0, 2, 17)]), process([(8, 2, 11), (0, 5, 17)])


def lanes_of(trace):
    return {lane.name: lane for lane in Timeline(trace).lanes}


def test_who_waits_in_an_all_reduce_is_idle_and_says_for_whom():
    timeline = Timeline(DistributedRun([FAST, SLOW], []).trace)
    lanes = lanes_of(timeline.trace)
    # It computes 2 + 2 ms, and sums 1 + 1 ms; alone it would be called busy for all of the 17 ms.
    assert Timeline(FAST).busy == 1
    assert timeline.accelerator.busy.total_ns == 6 * MS
    assert [(gap.start_ns // MS, gap.length_ns // MS) for gap in timeline.gaps] == [(2, 8), (13, 3)]
    assert [timeline.causes[k].kind for k in (0, 1)] == ["other process"] * 2
    first, second = map(str, timeline.causes)
    assert "100.0 % waiting for another process, batch of process 1 in process 1 · accelerator" in first
    assert ", step of process 1 in process 1 · accelerator" in second, "that one had its batch, and computed"
    # The arrow leads to the wait of process 1, and then to the step that it computed.
    assert [(c.start_ns // MS, c.end_ns // MS) for c in timeline.causes] == [(0, 8), (11, 17)]
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("other process", "batch of process 1")
    assert timeline.stalls.shares["other process"] == pytest.approx(11 / 17)
    assert "batch of process 1" in timeline.stalls.advice
    assert heading(timeline).endswith("waits mostly for the batch of process 1")
    # Process 1 waits for its batch, and for nobody.
    assert lanes["process 1 · accelerator"].busy.total_ns == 9 * MS
    assert lanes["process 1 · accelerator"].by_category["wait"] == 8 * MS
    # Of the all-reduce, the way of the bytes is left; it is no thread.
    for lane in (lanes["process 0 · all-reduce"], lanes["process 1 · all-reduce"]):
        assert (lane.kind, lane.busy.total_ns) == ("unit", 2 * MS)
    assert not any(timeline.work_ns.values())
    assert timeline.overlap_ns["pipeline"] == timeline.overlap_ns["both"] == 0, "nor is it a part of the pipeline"


def test_the_waits_in_a_step_are_no_waits_for_a_batch():
    timeline = Timeline(DistributedRun([FAST, SLOW], []).trace)
    assert (timeline.waits.total_ns, timeline.steps) == (0, 2)
    assert timeline.parts_ms == (0, 17 / 2)


def test_images_are_those_of_all_processes_and_nobody_of_them_is_another_program():
    run = DistributedRun([FAST, SLOW, SLOW], []).trace.run
    assert (run.images, run.batch_size, run.host.others) == (96, 48, None)
    assert Timeline(DistributedRun([FAST, SLOW], []).trace).images_per_s == pytest.approx(64 / 0.017)
    # Process 1 was watched later: its window begins with the second step, and ends when it ends.
    start, end = FAST.window_ns
    late = FAST.slice(start + 11 * MS, end).with_run(window_ns=(start + 11 * MS, end + 4 * MS), images=16)
    both = DistributedRun([FAST, late], []).trace
    assert both.window_ns == (start + 11 * MS, end), "both were watched"
    assert both.run.images == round(32 * 6 / 17) + 16
    apart = DistributedRun([FAST, process([(1, 2, 105)], late_at=100)], []).trace
    assert apart.run.images == 32
    assert DistributedRun([FAST, process([(0, 1, 2)], images=None)], []).trace.run.images is None
    assert DistributedRun([FAST], []).trace.run == FAST.run


def test_processes_that_never_meet_keep_their_spans():
    apart = process([(1, 2, 105)], late_at=100)
    assert [list(trace) for trace in with_waits([FAST, apart])] == [list(FAST), list(apart)]
    other = FAST.where(FAST.thread != [t.name for t in FAST.threads].index("all-reduce"))
    assert list(with_waits([FAST, other])[0]) == list(FAST), "nor does one that has no all-reduce wait in it"


@given(st.lists(st.tuples(*[st.integers(1, 50)] * 6), min_size=1, max_size=6))
def test_all_processes_sum_at_the_same_time_and_the_last_one_never_waits(lengths):
    steps, now = ([], [], []), 0
    for *computes, _, _, one in lengths:
        end = now + max(computes) + one
        for mine, compute in zip(steps, computes, strict=True):
            mine.append((0, compute, end))
        now = end
    traces = [process(mine) for mine in steps]
    found = with_waits(traces)
    sums = [trace.where(trace.select("transfer", kind="unit")) for trace in found]
    assert all((one.start_ns == sums[0].start_ns).all() and (one.end_ns == sums[0].end_ns).all() for one in sums)
    waited = np.array([trace.duration_ns[trace.select("wait", kind="device")].sum() for trace in found])
    computed = np.array([sum(row[k] for row in lengths) for k in range(3)])
    last = sum(max(row[:3]) for row in lengths)
    assert (waited == (last - computed) * MS).all()
