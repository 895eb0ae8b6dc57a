"""What the interactive view is given: every span once, in series that are their own level of detail."""

from __future__ import annotations

import itertools
import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import crowd, gpu_job
from traces import job as job_in_turns

from labkit.timeline.intervals import Intervals
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace
from labkit.views.bars_for_width import bins
from labkit.views.layout import OVERVIEW, SENTENCES, VERSION, TimelineLayout

LONG = 2**32 - 1
MS = 1_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline", "background": "host"}
job = partial(job_in_turns, steps=5, wait=3)


class Read:
    """A block as the page reads it, by the description in `labkit.views.layout`."""

    def __init__(self, block):
        length, version = np.frombuffer(block, "<u4", 2).tolist()
        assert version == VERSION
        assert length % 8 == 0
        self.header = json.loads(block[8 : 8 + length])
        self.columns = {}
        for name, (dtype, offset, count) in self.header["columns"].items():
            assert offset % 8 == 0, f"{name} is not at a multiple of 8 bytes"
            self.columns[name] = np.frombuffer(block, np.dtype(dtype).newbyteorder("<"), count, 8 + length + offset)
        since, far, lasts, long = (self.columns[c] for c in ("since", "far", "duration", "long"))
        self.start, self.length = np.zeros(len(since)), lasts.astype(np.float64)
        self.length[lasts == LONG] = long
        j = 0
        for i in range(len(since)):
            if since[i] == LONG:
                self.start[i], j = far[j], j + 1
            else:
                self.start[i] = self.start[i - 1] + since[i] if i else since[i]

    def series(self, run=0, export=None):
        for lane in self.header["runs"][run]["lanes"]:
            if export is None or lane["export"] == export:
                for row in lane["rows"]:
                    yield from ((lane, row, s) for s in row["series"])

    def spans(self, run=0):
        """The spans of all exported lanes, as rows that can be compared."""
        about, found = self.header["runs"][run], []
        zero = int(about["start_ns"])
        for _, _, (category, thread, _, _, first, count, steps) in self.series(run, export=True):
            for k in range(count):
                step = -1 if steps < 0 else int(self.columns["step"][steps + k])
                name = about["names"][self.columns["name"][first + k]]
                start, length = zero + int(self.start[first + k]), int(self.length[first + k])
                found.append((*about["threads"][thread], name, CATEGORIES[category], start, length, step))
        return sorted(found)


def rows_of(trace):
    kinds = dict(trace.threads)
    return sorted((s.thread, kinds[s.thread], s.name, s.category, s.start_ns, s.duration_ns, s.step) for s in trace)


@st.composite
def traces(draw):
    """Traces with whatever can happen: nesting, crossing, empty spans, minutes of time, many kinds."""
    spans = []
    for _ in range(draw(st.integers(0, 40))):
        thread = draw(st.sampled_from(sorted(KINDS)))
        allowed = ["train", "wait"] if thread == "consumer" else ["read", "decode", "map", "iterator", "batch", "other"]
        start = draw(st.one_of(st.integers(0, 300), st.integers(0, 30_000_000_000)))
        length = draw(st.one_of(st.integers(0, 60), st.integers(0, 9_000_000_000)))
        step = draw(st.integers(-1, 5))
        name = draw(st.sampled_from(["a", "b", "Ünïcode \u2028", ""]))
        spans.append(Span(thread, name, draw(st.sampled_from(allowed)), start + 10**18, length, step))
    return Trace.from_spans(spans, kinds=KINDS, origin=draw(st.sampled_from(["measured", "modelled"])))


@settings(max_examples=30)
@given(traces())
def test_every_span_of_the_window_is_there_once_to_the_nanosecond(trace):
    assert Read(TimelineLayout([trace]).encode()).spans() == rows_of(trace)


@settings(max_examples=30)
@given(traces())
def test_spans_of_a_series_never_overlap_and_rise(trace):
    read = Read(TimelineLayout([trace]).encode())
    taken = np.zeros(len(read.start), int)
    for _, row, (category, *_, first, count, _) in read.series():
        start, length = read.start[first : first + count], read.length[first : first + count]
        assert (start[1:] >= (start + length)[:-1]).all(), CATEGORIES[category]
        taken[first : first + count] += 1
        assert row["h"] > 0
    assert (taken == 1).all(), "every row of the columns belongs to one series"


@settings(max_examples=30)
@given(traces(), st.integers(1, 50), st.data())
def test_two_look_ups_give_the_time_covered_at_every_zoom(trace, width, data):
    """The promise on which the page builds: sums before each span are all that is needed."""
    read, timeline = Read(TimelineLayout([trace]).encode()), Timeline(trace)
    first = data.draw(st.integers(0, timeline.span_ns))
    last = data.draw(st.integers(first, timeline.span_ns))
    for _, _, (*_, at, count, _) in read.series():
        start = read.start[at : at + count].astype(np.int64)
        end = start + read.length[at : at + count].astype(np.int64)
        edges, covered = bins(Intervals(start, end), first, last, width)
        total = np.r_[0, np.cumsum(end - start)]
        k = np.searchsorted(start, edges, "right") - 1
        until = np.where(k < 0, 0, total[k] + np.minimum(edges, end[k]) - start[k])
        assert np.diff(until).tolist() == covered.tolist()


@settings(max_examples=20)
@given(st.lists(traces(), min_size=1, max_size=2))
def test_places_never_overlap_and_hold_every_lane(given_traces):
    header = TimelineLayout(given_traces, ["before", "after"][: len(given_traces)]).header
    for layout in header["layouts"].values():
        places = []
        for item in layout["items"]:
            lane = header["runs"][item["run"]]["lanes"][item["lane"]]
            places.append((item["y"], item["y"] + lane["height"] * item["scale"]))
            inside = [(row["y"], row["y"] + row["h"]) for row in lane["rows"]]
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(inside))
            assert inside[-1][1] <= lane["height"]
        places += [(head["y"], head["y"] + head["h"]) for head in layout["heads"]]
        places.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(places))
        assert places[-1][1] <= layout["height"]
        drawn = {(r, k) for r, run in enumerate(header["runs"]) for k, lane in enumerate(run["lanes"]) if lane["drawn"]}
        assert {(i["run"], i["lane"]) for i in layout["items"]} == drawn


def test_waits_have_a_lane_only_where_they_are_not_the_gaps_and_stay_in_the_table():
    alone = TimelineLayout([job()]).header
    of_device = TimelineLayout([gpu_job()]).header
    for header, drawn in ((alone, False), (of_device, True)):
        names = {item["name"] for item in header["layouts"]["stacked"]["items"]}
        assert ("waits for a batch" in names) == drawn
        assert ("wait for a batch" in {entry["label"] for entry in header["legend"]}) == drawn
        assert "waits for a batch" in header["runs"][0]["tables"]


def test_storage_is_called_by_its_name_and_downloaded_as_it_was_recorded():
    raw = "SingleElementIterator::FiniteTake::Sleep"
    spans = [Span("worker 1", raw, "read", 0, 400, -1), Span("worker 1", "Iterator::Map", "iterator", 0, 900, -1)]
    about = TimelineLayout([Trace.from_spans(spans, kinds=KINDS)]).header["runs"][0]
    assert sorted(about["names"]) == ["Iterator::Map", "modelled storage"]
    assert about["ops"] == {about["names"].index("modelled storage"): raw}


def test_the_overview_has_the_busy_share_of_the_whole_run():
    trace = job(steps=7)
    timeline, read = Timeline(trace), Read(TimelineLayout([trace]).encode())
    assert len(read.columns["runs.0.busy.accelerator"]) == OVERVIEW
    assert read.columns["runs.0.busy.accelerator"].mean() == pytest.approx(timeline.busy, abs=1e-4)
    shares = [lane.share for lane in timeline.lanes if lane.kind == "pipeline"]
    assert read.columns["runs.0.busy.pipeline"].mean() == pytest.approx(np.mean(shares), abs=1e-4)
    assert 0 <= read.columns["runs.0.busy.accelerator"].min() <= read.columns["runs.0.busy.accelerator"].max() <= 1


def test_gaps_come_with_cause_and_with_what_was_waited_for():
    timeline = Timeline(job())
    read = Read(TimelineLayout([timeline]).encode())
    about, causes = read.header["runs"][0]["gaps"], timeline.causes
    assert read.columns["runs.0.gap.start"].tolist() == timeline.gaps.start_ns.tolist()
    assert read.columns["runs.0.gap.length"].tolist() == timeline.gaps.length_ns.tolist()
    waited = {"start": causes.start_ns, "end": causes.end_ns, "lane": causes.lane, "name": causes.op}
    for name, column in waited.items():
        assert read.columns[f"runs.0.gap.for_{name}"].tolist() == column.tolist()
    assert [about["kinds"][k] for k in read.columns["runs.0.gap.kind"]] == [c.kind for c in causes]
    assert about["texts"] == {str(k): causes[k].text for k in range(len(causes))}
    assert any(read.columns["runs.0.gap.for_lane"] >= 0)


def test_of_very_many_gaps_the_longest_have_sentences():
    spans = [Span("c", "train step", "train", i * 1000, 400 + i % 7, i) for i in range(SENTENCES + 500)]
    timeline = Timeline(Trace.from_spans(spans, kinds={"c": "consumer"}))
    texts = TimelineLayout([timeline]).header["runs"][0]["gaps"]["texts"]
    assert len(texts) == SENTENCES
    left_out = set(range(len(timeline.gaps))) - {int(k) for k in texts}
    lengths = timeline.gaps.length_ns
    assert max(lengths[sorted(left_out)]) <= min(lengths[[int(k) for k in texts]])


def test_kernels_are_shown_twice_and_exported_once_with_the_steps_that_no_lane_shows():
    spans = [Span("consumer", "train step", "train", i * 1000, 900, i) for i in range(3)]
    spans += [Span("stream 1", "gemm", "kernel", i * 1000 + 100, 700, i) for i in range(3)]
    spans += [Span("stream 2", "copy", "copy", i * 1000, 90, i) for i in range(3)]
    kinds = {"consumer": "consumer", "stream 1": "device", "stream 2": "device"}
    trace = Trace.from_spans(spans, kinds=kinds, origin="measured", accelerator={"kind": "real", "name": "GPU"})
    layout = TimelineLayout([trace])
    assert Read(layout.encode()).spans() == rows_of(trace)
    lanes = layout.header["runs"][0]["lanes"]
    assert [(lane["name"], lane["shown"]) for lane in lanes][-1] == ("train steps", False)
    assert [lane["export"] for lane in lanes[:2]] == [False, True]


def test_a_timeline_alone_has_the_same_spans_with_lanes_for_threads():
    trace = job()
    alone = Read(TimelineLayout([Timeline(trace)]).encode()).spans()
    assert [row[2:] for row in sorted(alone, key=lambda r: r[2:])] == sorted(row[2:] for row in rows_of(trace))


def test_only_the_window_is_there():
    trace = job(window_ns=[10**18 + 5 * MS, 10**18 + 20 * MS])
    assert Read(TimelineLayout([trace]).encode()).spans() == rows_of(trace.slice(*trace.run.window_ns))


def test_a_span_of_a_hundred_thousand_takes_less_than_20_bytes():
    trace = crowd(100_000)
    assert len(TimelineLayout([trace]).encode()) < 20 * len(trace)


def test_the_alternative_text_holds_the_numbers():
    alt = TimelineLayout([job(), job(wait=1)], ["before", "after"]).alt
    assert "before and after: interactive timelines on one time axis." in alt
    assert "before: modelled" in alt
    assert "accelerator busy 57.1 %" in alt
    assert "idle 15.0 ms in 5 gaps" in alt
