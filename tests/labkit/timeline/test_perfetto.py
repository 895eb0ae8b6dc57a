"""The export never asks Perfetto to place a span that crosses another."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.timeline import perfetto
from labkit.timeline.nesting import tracks
from labkit.timeline.trace import CATEGORIES, Span, Trace

NOW = 1_800_000_000_000_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline", "gpu": "device", "pool": "host",
         "card": "unit"}  # fmt: skip
many = settings(max_examples=75, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
spans = st.lists(
    st.builds(
        Span,
        thread=st.sampled_from(sorted(KINDS)),
        name=st.sampled_from(["a", 'quote " and \\', "new\nline", "Ünïcode ✓", ""]),
        category=st.sampled_from(CATEGORIES),
        start_ns=st.integers(NOW, NOW + 3000),
        duration_ns=st.integers(0, 2000),
        step=st.integers(-1, 9),
    ),
    max_size=40,
)


def named(events: list[str], what: str) -> dict[int, str]:
    """Return the names of processes or threads by their numbers."""
    events = [event for event in map(json.loads, events) if event["name"] == what]
    return {event["tid"] or event["pid"]: event["args"]["name"] for event in events}


@many
@given(spans)
def test_each_track_is_of_one_thread_and_no_span_crosses_another_on_its_track(spans):
    trace = Trace.from_spans(spans, KINDS)
    process, track, events = perfetto.places(trace)
    names = named(events, "thread_name")
    stacks = defaultdict(list)
    for k, (number, start, end) in enumerate(zip(track.tolist(), trace.start_ns, trace.end_ns, strict=True)):
        thread = trace.threads[trace.thread[k]]
        assert re.sub(r" \(\d+\)$", "", names[number]) == thread.name
        assert process[k] == 1 + list(perfetto.PROCESSES).index(thread.kind)
        stack = stacks[number]  # the ends of the spans that are open
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1], "Perfetto would drop it"
        stack.append(end)


@many
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=25))
def test_spans_that_nest_all_stay_on_one_track(shape):
    rows, stack, t = [], [], 0
    for leave, length in shape:
        for _ in range(min(leave, len(stack))):
            t = max(t, stack.pop())
        end = min([t + length, *stack])
        rows.append((t, end))
        stack.append(end)
    rows.sort(key=lambda row: (row[0], -row[1]))
    start, end = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    assert not tracks(start, end).any()


def test_what_crosses_by_one_nanosecond_moves_to_a_track_with_a_number_of_its_own():
    rows = [Span("worker 1", "a", "map", NOW, 1000, -1), Span("worker 1", "b", "map", NOW + 500, 501, -1)]
    _, track, events = perfetto.places(Trace.from_spans(rows, KINDS))
    assert sorted(track) == [1, 2]
    assert named(events, "thread_name") == {1: "worker 1", 2: "worker 1 (2)"}


def test_processes_and_tracks_are_named_and_in_order():
    rows = [Span(name, "a", "map", NOW, 10, -1) for name in KINDS]
    trace = Trace.from_spans(rows, KINDS, origin="measured", accelerator={"name": "V100", "describe": "modelled V100"})
    process, track, events = perfetto.places(trace, below=10, label="before: ")
    names = named(events, "process_name")
    assert set(names) == set(process.tolist())
    assert all(number > 10 and name.startswith("before: ") and "(measured)" in name for number, name in names.items())
    assert sorted(track) == list(range(1, len(KINDS) + 1))
    about = perfetto.about(trace)
    assert about["labkit-origin"] == "measured"
    assert about["labkit-accelerator"] == "modelled V100"
    assert about["labkit-start-ns"] == str(NOW)
    assert perfetto.places(Trace.from_spans([]))[2] == []
