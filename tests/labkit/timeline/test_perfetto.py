"""The exported file keeps every nanosecond and never asks Perfetto to place a span that crosses another."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.timeline import perfetto
from labkit.timeline.nesting import tracks
from labkit.timeline.trace import CATEGORIES, Span, Trace

NOW = 1_800_000_000_000_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline", "gpu": "device", "pool": "host"}
many = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
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


def exported(trace: Trace, path) -> tuple[dict, list[dict], list[dict]]:
    """Return the file, its complete events and its metadata events; numbers exactly as written."""
    text = perfetto.save(trace, path).read_bytes()
    text = gzip.decompress(text) if path.name.endswith(".gz") else text
    document = json.loads(text, parse_float=Decimal)
    events = document["traceEvents"]
    return document, [e for e in events if e["ph"] == "X"], [e for e in events if e["ph"] == "M"]


def crossings(events: list[tuple[int, int]]) -> int:
    """Count what Perfetto's slice tracker would drop: events in file order, a stack of open ends."""
    dropped, stack, last = 0, [], -1
    for start, length in events:
        assert start >= last, "events of a track must be in order of time"
        last = start
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and start + length > stack[-1]:
            dropped += 1
        else:
            stack.append(start + length)
    return dropped


@many
@given(spans)
def test_every_span_is_kept_to_the_nanosecond_and_nests_on_its_track(tmp_path, spans):
    trace = Trace.from_spans(spans, KINDS)
    _, events, metadata = exported(trace, tmp_path / "t.json")
    names = {e["tid"]: e["args"]["name"] for e in metadata if e["name"] == "thread_name"}
    base = int(trace.start_ns[0]) if len(trace) else 0
    by_track, found = defaultdict(list), []
    for e in events:
        start, length = (int(e[key] * 1000) for key in ("ts", "dur"))
        assert Decimal(start) / 1000 == e["ts"]
        by_track[e["tid"]].append((start, length))
        thread = re.sub(r" \(\d+\)$", "", names[e["tid"]])
        found.append((thread, e["name"], e["args"]["category"], start + base, length, e["args"]["step"]))
        assert e["cat"] == e["args"]["category"]
        assert e["args"]["origin"] == "modelled"
    assert sorted(found) == sorted(tuple(s) for s in spans)
    assert sum(crossings(track) for track in by_track.values()) == 0


@many
@given(spans)
def test_any_two_spans_of_a_track_are_nested_or_disjoint(spans):
    trace = Trace.from_spans([s._replace(thread="one") for s in spans])
    track = tracks(trace.start_ns, trace.end_ns)
    rows = list(zip(track.tolist(), trace.start_ns.tolist(), trace.end_ns.tolist(), strict=True))
    for i, (k, start, end) in enumerate(rows):
        for other, _, e in rows[:i]:
            if other == k:
                assert end <= e or start >= e, "begins inside an earlier span and outlives it"


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


def test_a_span_that_crosses_by_one_nanosecond_moves_to_a_second_track(tmp_path):
    rows = [Span("worker 1", "a", "map", NOW, 1000, -1), Span("worker 1", "b", "map", NOW + 500, 501, -1)]
    _, events, metadata = exported(Trace.from_spans(rows, KINDS), tmp_path / "t.json")
    assert len({e["tid"] for e in events}) == 2
    names = [e["args"]["name"] for e in metadata if e["name"] == "thread_name"]
    assert names == ["worker 1", "worker 1 (2)"]


def test_every_further_track_has_its_own_number(tmp_path):
    rows = [Span("worker 1", "a", "map", NOW + i, 1000, -1) for i in range(4)]
    _, _, metadata = exported(Trace.from_spans(rows, KINDS), tmp_path / "t.json")
    names = [e["args"]["name"] for e in metadata if e["name"] == "thread_name"]
    assert names == ["worker 1", "worker 1 (2)", "worker 1 (3)", "worker 1 (4)"]


def test_numbers_survive_a_reader_that_rounds_floats(tmp_path):
    # A reader that parses a double and rounds to nanoseconds, as trace processors do, gets the same integers.
    length = np.arange(1, 4000, dtype=np.int64) * 7
    start = NOW + np.cumsum(length) * 1001
    rows = [Span("w", "a", "map", int(s), int(n), -1) for s, n in zip(start, length, strict=True)]
    path = perfetto.save(Trace.from_spans(rows), tmp_path / "t.json")
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    assert [round(e["ts"] * 1000) for e in events] == (start - start[0]).tolist()
    assert [round(e["dur"] * 1000) for e in events] == length.tolist()


def test_processes_and_tracks_are_named_and_in_order(tmp_path):
    rows = [Span(name, "a", "map", NOW, 10, -1) for name in KINDS]
    document, events, metadata = exported(
        Trace.from_spans(rows, KINDS, origin="measured", accelerator={"name": "V100", "describe": "modelled V100"}),
        tmp_path / "t.json.gz",
    )
    processes = {e["pid"]: e["args"]["name"] for e in metadata if e["name"] == "process_name"}
    assert len(processes) == 4
    assert all("(measured)" in name for name in processes.values())
    assert {e["name"] for e in metadata} == {
        "process_name", "process_sort_index", "thread_name", "thread_sort_index"}  # fmt: skip
    assert len({(e["pid"], e["tid"]) for e in events}) == len({e["tid"] for e in events}) == 5
    assert document["otherData"]["labkit-origin"] == "measured"
    assert document["otherData"]["labkit-accelerator"] == "modelled V100"
    assert document["otherData"]["labkit-start-ns"] == str(NOW)
    assert document["displayTimeUnit"] == "ms"


def test_an_empty_trace_is_a_file_without_spans(tmp_path):
    document, events, metadata = exported(Trace.from_spans([]), tmp_path / "t.json")
    assert (events, metadata) == ([], [])
    assert document["otherData"]["labkit-origin"] == "modelled"


def test_another_ending_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ValueError, match=r"allowed: names that end in .json or .json.gz"):
        perfetto.save(Trace.from_spans([]), tmp_path / "t.txt")
    assert list(tmp_path.iterdir()) == []
