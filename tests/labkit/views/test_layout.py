"""What all pens draw: the same rows and the same band, and for the interactive view every span once, in series."""

from __future__ import annotations

import itertools
import json
from functools import partial

import numpy as np
import pytest
from every_pen import rows_of_header, rows_of_words
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import crowd, gpu_job, noisy_job
from traces import job as job_in_turns

from labkit.timeline.causes.per_gap import word
from labkit.timeline.intervals import Intervals, covered_until, edges_of, union
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace
from labkit.views import static
from labkit.views.layout import LAYERS, SENTENCES, VERSION, TimelineLayout
from labkit.views.layout.band import CORE_WAIT, FILLED, OPEN
from labkit.views.layout.rows import BAND, LEAST, MODES

LONG = 2**32 - 1
MS = 1_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline", "background": "host", "card": "unit"}
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
        for _, _, (kind, thread, _, _, first, count, steps) in self.series(run, export=True):
            category = self.header["kinds"][kind]["category"]
            for k in range(count):
                step = -1 if steps < 0 else int(self.columns["step"][steps + k])
                name = about["names"][self.columns["name"][first + k]]
                start, length = zero + int(self.start[first + k]), int(self.length[first + k])
                found.append((*about["threads"][thread], name, CATEGORIES[category], start, length, step))
        return sorted(found)


def columns(start, end, first, last, width):
    """Return the edges of columns between two times, and how much of each is covered."""
    edges = edges_of(first, last, width)
    return edges, np.diff(covered_until(Intervals(start, end), edges))


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
    about = {"origin": draw(st.sampled_from(["measured", "modelled"])), "host": {"cpus": draw(st.integers(1, 4))}}
    return Trace.from_spans(spans, kinds=KINDS, **about)


@settings(max_examples=30)
@given(traces())
def test_every_span_of_the_window_is_there_once_to_the_nanosecond(trace):
    assert Read(TimelineLayout([trace]).encode()).spans() == rows_of(trace)


@settings(max_examples=30)
@given(traces())
def test_spans_of_a_series_never_overlap_and_rise(trace):
    read = Read(TimelineLayout([trace]).encode())
    taken = np.zeros(len(read.start), int)
    parts = [(row, one) for _, row, one in read.series()]
    parts += [({"h": 1}, one) for lane in read.header["runs"][0]["lanes"] for one in lane["own"]]
    for row, (kind, *_, first, count, _) in parts:
        start, length = read.start[first : first + count], read.length[first : first + count]
        assert (start[1:] >= (start + length)[:-1]).all(), read.header["kinds"][kind]
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
        edges, covered = columns(start, end, first, last, width)
        total = np.r_[0, np.cumsum(end - start)]
        k = np.searchsorted(start, edges, "right") - 1
        until = np.where(k < 0, 0, total[k] + np.minimum(edges, end[k]) - start[k])
        assert np.diff(until).tolist() == covered.tolist()


def pairs():
    """Return a strategy for one trace, or two."""
    return st.lists(traces(), min_size=1, max_size=2)


def layout_of(some):
    return TimelineLayout(some, ["before", "after"] if len(some) == 2 else [""])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=20), st.integers(1, 70), st.integers(0, 80))
def test_columns_add_up_to_what_is_covered(parts, width, last):
    cells = np.zeros(100, bool)
    for start, length in parts:
        cells[start : start + length] = True
    whole = union(*(np.array([p[0] + k * p[1] for p in parts], np.int64) for k in (0, 1)))
    edges, ns = columns(*whole, 0, last, width)
    assert (edges[0], edges[-1]) == (0, last)
    assert [int(n) for n in ns] == [int(cells[a:b].sum()) for a, b in itertools.pairwise(edges)]


# -- rows ------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(pairs())
def test_the_picture_draws_the_rows_that_the_page_draws_at_first(some):
    layout = layout_of(some)
    shown = Read(layout.encode()).header
    assert list(shown["layouts"]) == list(MODES)
    assert rows_of_words(static.picture_of(layout).text) == rows_of_header(shown)


@settings(max_examples=20)
@given(pairs())
def test_rows_never_overlap_stand_in_one_order_and_more_of_them_come_from_mode_to_mode(some):
    header, before = layout_of(some).header, []
    for layout in header["layouts"].values():
        places = [(i["y"], i["y"] + i["h"]) for i in layout["items"] + layout["heads"]]
        assert sorted(places) == places or layout["heads"]
        places.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(places))
        assert places[-1][1] <= layout["height"]
        for item in (item for item in layout["items"] if item["lane"] >= 0):
            lane = header["runs"][item["run"]]["lanes"][item["lane"]]
            assert (lane["name"], lane["height"]) == (item["name"], item["h"])
            inside = [(row["y"], row["y"] + row["h"]) for row in lane["rows"]]
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(inside))
            assert inside[-1][1] <= lane["height"]
        keys = [(item["run"], item["lane"]) for item in layout["items"]]
        for r in range(len(some)):
            mine = [k for run, k in keys if run == r]
            assert mine[0] == 0, "the accelerator is on top"
            assert -1 not in mine[2:], "then the band"
            rest = [k for k in mine if k > 0]
            assert rest == sorted(rest), "then lanes, in the order of the timeline"
        assert set(before) <= set(keys)
        before = keys
    shown = {(r, k) for r, run in enumerate(header["runs"]) for k, lane in enumerate(run["lanes"]) if lane["mode"]}
    assert shown == {key for key in before if key[1] >= 0}


@settings(max_examples=20)
@given(pairs())
def test_lanes_of_threads_and_lanes_that_hardly_work_come_only_when_they_are_asked_for(some):
    layout = layout_of(some)
    for mode in MODES:
        for item in (item for item in layout.rows(mode)["items"] if item["lane"] > 0):
            lane = layout.timelines[item["run"]].lanes[item["lane"]]
            assert mode == "all lanes" or lane.kind == "unit" or lane.share >= LEAST
            assert mode != "band" or lane.kind in ("stream", "unit", "script")


def test_a_thread_below_two_percent_of_own_work_is_in_no_mode_but_the_last():
    spans = [Span("consumer", "train step", "train", i * MS, MS, i) for i in range(10)]
    spans += [
        Span("at work", "DecodeJpeg", "decode", 0, MS // 5, -1),
        Span("idle", "DecodeJpeg", "decode", 0, MS // 6, -1),
    ]
    open_ = "Iterator::Root::ParallelMapV2"
    spans += [Span("idle", open_, "iterator", MS, 9 * MS, -1), Span("unit", "copy", "copy", 0, MS // 9, -1)]
    kinds = {"consumer": "consumer", "at work": "pipeline", "idle": "pipeline", "unit": "unit"}
    layout = TimelineLayout([Trace.from_spans(spans, kinds)])
    names = {mode: [item["name"] for item in layout.rows(mode)["items"]] for mode in MODES}
    assert names["band"] == ["accelerator", BAND, "unit"], "a part of a device is shown, however short its work is"
    assert names["lanes"] == ["accelerator", BAND, "unit", "at work"]
    assert sorted(names["all lanes"]) == ["accelerator", "at work", "idle", BAND, "unit"]


def test_both_halves_of_a_comparison_have_one_form_and_one_scale_of_threads():
    """Also where one of the two has no thread at work, or far fewer."""
    none = Trace.from_spans([Span("consumer", "train step", "train", i * 1000, 900, i) for i in range(3)],
                            {"consumer": "consumer"}, host={"cpus": 2})  # fmt: skip
    for pair in ((noisy_job(workers=2), noisy_job(workers=20)), (none, job()), (job(), none)):
        layout = layout_of(pair)
        one, other = rows_of_header(layout.header)
        assert one == other == f"accelerator, {BAND}"
        assert len({item["h"] for item in layout.rows()["items"] if item["lane"] < 0}) == 1
        bands = [run["band"] for run in layout.header["runs"]]
        assert bands[0]["most"] == bands[1]["most"] == max(band.most for band in layout.bands)
    assert rows_of_header(TimelineLayout([none]).header) == ["accelerator"], "alone it has no band"


def test_waits_have_a_lane_only_where_they_are_not_the_gaps_and_stay_in_the_table():
    for trace, drawn in ((job(), False), (gpu_job(), True)):
        header = TimelineLayout([trace]).header
        names = {item["name"] for item in header["layouts"]["all lanes"]["items"]}
        assert ("waits for a batch" in names) == drawn
        assert "waits for a batch" in header["runs"][0]["tables"]


# -- the band --------------------------------------------------------------------------------------


def open_threads(timeline, band, first, last, width):
    """Return in how many threads of a band the innermost span is drawn, on average in each column."""
    kinds = TimelineLayout([timeline]).kinds
    found = np.zeros(width)
    for k in band.lanes:
        lane = timeline.lanes[k]
        drawn = ~kinds.are("around", kinds.of(0, lane))[lane.pieces.owner]
        parts = union(lane.pieces.start[drawn], lane.pieces.end[drawn])
        edges, covered = columns(*parts, first, last, width)
        found += covered / np.maximum(np.diff(edges), 1)
    return found


def assert_right(timeline, width):
    """A band fills no more than there are cores, and all that is open stands in it once."""
    (band,) = TimelineLayout([timeline]).bands
    threads = band.threads(0, timeline.span_ns, width)
    assert (threads >= 0).all()
    assert threads[:FILLED].sum(axis=0).max() <= (band.cores or np.inf) + 1e-9
    assert not threads[OPEN:].any(), "neither what only encloses others nor idle time is a thread"
    wanted = open_threads(timeline, band, 0, timeline.span_ns, width)
    assert threads.sum(axis=0) == pytest.approx(wanted, abs=1e-6)
    assert max(band.cores, threads.sum(axis=0).max() - 1e-9) <= band.most
    assert band.most <= max(band.cores, len(band.lanes), 1)


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 3), st.integers(1, 300))
def test_of_the_open_threads_as_many_as_there_are_cores_are_filled_and_the_rest_is_hollow(seed, workers, cores, width):
    assert_right(Timeline(noisy_job(workers=workers, images=9, seed=seed, host={"cpus": cores})), width)


@settings(max_examples=30)
@given(traces(), st.integers(1, 100))
def test_the_band_of_any_trace_counts_a_thread_once(trace, width):
    assert_right(Timeline(trace), width)


def test_a_thread_that_only_waits_is_never_filled():
    """Sixteen at a storage that is modelled, and two at a queue; one decodes."""
    spans = [Span("consumer", "train step", "train", i * MS, MS // 2, i) for i in range(4)]
    spans += [Span(f"reader {n}", "modelled storage", "read", 0, 4 * MS, -1) for n in range(16)]
    spans += [Span("worker", "DecodeJpeg", "decode", 0, 4 * MS, -1)]
    kinds = {"consumer": "consumer"}
    (band,) = TimelineLayout([Trace.from_spans(spans, kinds, host={"cpus": 2})]).bands
    found = {LAYERS[k].label: row.max() for k, row in enumerate(band.threads(0, 4 * MS, 8)) if row.any()}
    assert found == {"waits for storage": pytest.approx(16), "prepare: decode": pytest.approx(1)}
    assert (band.most, band.cores, len(band.lanes)) == (17, 2, 17)


def test_more_work_than_cores_waits_for_a_core():
    spans = [Span(f"worker {n}", "DecodeJpeg", "decode", 0, 4 * MS, -1) for n in range(5)]
    layout = TimelineLayout([Trace.from_spans(spans, origin="measured", host={"cpus": 2})])
    found = layout.bands[0].threads(0, 4 * MS, 3)
    assert found[:FILLED].sum(axis=0) == pytest.approx([2] * 3)
    assert found[CORE_WAIT] == pytest.approx([3] * 3)


def test_devices_and_other_threads_than_those_of_the_pipeline_are_in_no_band():
    spans = [Span(name, "x", "decode", 0, 4 * MS, -1) for name in ("card", "stream", "worker", "other", "script")]
    kinds = {"card": "unit", "stream": "device", "worker": "pipeline", "other": "host", "script": "script"}
    layout = TimelineLayout([Trace.from_spans(spans, kinds)])
    assert [layout.timelines[0].lanes[k].name for k in layout.bands[0].lanes] == ["worker"]
    assert {"card", "stream"} <= {item["name"] for item in layout.rows()["items"]}


def test_a_thread_that_ends_as_another_begins_does_not_work_at_the_same_time():
    spans = [Span(f"worker {n}", "DecodeJpeg", "decode", n * MS, MS, -1) for n in range(4)]
    crossing = Span("worker 4", "DecodeJpeg", "decode", MS // 2, 2 * MS, -1)
    for some, most in ((spans, 1), ([*spans, crossing], 2)):
        assert TimelineLayout([Trace.from_spans(some)]).bands[0].most == most


# -- words and columns -----------------------------------------------------------------------------


def test_storage_is_called_by_its_name_and_downloaded_as_it_was_recorded():
    raw = "SingleElementIterator::FiniteTake::Sleep"
    spans = [Span("worker 1", raw, "read", 0, 400, -1), Span("worker 1", "Iterator::Map", "iterator", 0, 900, -1)]
    about = TimelineLayout([Trace.from_spans(spans, kinds=KINDS)]).header["runs"][0]
    assert sorted(about["names"]) == ["Iterator::Map", "modelled storage"]
    assert about["ops"] == {about["names"].index("modelled storage"): raw}


def test_gaps_come_with_cause_and_with_what_was_waited_for():
    timeline = Timeline(job())
    read = Read(TimelineLayout([timeline]).encode())
    about, causes = read.header["runs"][0]["gaps"], timeline.causes
    assert read.columns["runs.0.gap.start"].tolist() == timeline.gaps.start_ns.tolist()
    assert read.columns["runs.0.gap.length"].tolist() == timeline.gaps.length_ns.tolist()
    waited = {"start": causes.start_ns, "end": causes.end_ns, "lane": causes.lane, "name": causes.op}
    for name, column in waited.items():
        assert read.columns[f"runs.0.gap.for_{name}"].tolist() == column.tolist()
    assert [about["kinds"][k] for k in read.columns["runs.0.gap.kind"]] == [word(c.kind) for c in causes]
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
