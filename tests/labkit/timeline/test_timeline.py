"""What must hold of lanes, gaps and figures, whatever the trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import MS, circuit, job

from labkit.timeline.gaps import GAP_KINDS, Gap
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace

NOW = 1_800_000_000_000_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 10": "pipeline", "gpu": "device", "pool": "host",
         "card": "unit"}  # fmt: skip
many = settings(max_examples=100)


@st.composite
def traces(draw: st.DrawFn, kinds: dict[str, str] | None = None, **meta: object) -> Trace:
    """Any spans at all: nested, crossing, equal, of length zero, before and after the window."""
    kinds = KINDS if kinds is None else kinds
    span = st.builds(
        Span,
        thread=st.sampled_from(sorted(kinds)),
        name=st.sampled_from(["a", "b", "c"]),
        category=st.sampled_from(CATEGORIES),
        start_ns=st.integers(NOW, NOW + 40),
        duration_ns=st.integers(0, 25),
        step=st.integers(-1, 5),
    )
    spans = draw(st.lists(span, max_size=30))
    if draw(st.booleans()):
        first = draw(st.integers(NOW - 5, NOW + 30))
        meta["window_ns"] = [first, first + draw(st.integers(0, 50))]
    return Trace.from_spans(spans, kinds, **meta)


def covered(start, end, until: int) -> np.ndarray:
    """Tell for every nanosecond whether an interval covers it: the slow, obvious way."""
    cells = np.zeros(until, bool)
    for s, e in zip(start, end, strict=True):
        cells[s:e] = True
    return cells


# -- laws --------------------------------------------------------------------


@many
@given(traces())
def test_bars_of_one_lane_and_depth_never_overlap(trace):
    for lane in Timeline(trace).lanes:
        for depth in np.unique(lane.depth):
            mask = lane.depth == depth
            assert (lane.start_ns[mask][1:] >= lane.end_ns[mask][:-1]).all()


@many
@given(traces())
def test_pieces_of_a_lane_are_disjoint_and_cover_what_its_spans_cover(trace):
    timeline = Timeline(trace)
    for lane in timeline.lanes:
        pieces = lane.pieces
        assert (pieces.start < pieces.end).all()
        assert (pieces.start[1:] >= pieces.end[:-1]).all()
        cells = covered(lane.start_ns, lane.end_ns, timeline.span_ns)
        assert (covered(pieces.start, pieces.end, timeline.span_ns) == cells).all()
        assert lane.self_ns.sum() == cells.sum() == sum(lane.by_category.values())


@many
@given(traces())
def test_a_piece_belongs_to_the_deepest_span_that_is_open(trace):
    for lane in Timeline(trace).lanes:
        for start, owner in zip(lane.pieces.start, lane.pieces.owner, strict=True):
            is_open = (lane.start_ns <= start) & (lane.end_ns > start)
            assert is_open[owner]
            assert lane.depth[owner] == lane.depth[is_open].max()


@many
@given(traces())
def test_busy_and_idle_add_up_to_the_window(trace):
    timeline = Timeline(trace)
    assert timeline.accelerator.busy.total_ns + timeline.idle_ns == timeline.span_ns
    assert 0 <= timeline.busy <= 1
    assert all(0 <= lane.share <= 1 for lane in timeline.lanes)
    assert sum(timeline.overlap_ns.values()) == timeline.span_ns
    assert min(timeline.overlap_ns.values()) >= 0


@many
@given(traces())
def test_gaps_are_the_complement_of_the_busy_time(trace):
    timeline = Timeline(trace)
    gaps, busy = timeline.gaps, timeline.accelerator.busy
    ends = gaps.start_ns + gaps.length_ns
    assert (gaps.length_ns > 0).all()
    assert (gaps.start_ns[1:] > ends[:-1]).all()
    working = covered(busy.start, busy.end, timeline.span_ns)
    assert (covered(gaps.start_ns, ends, timeline.span_ns) == ~working).all()


@many
@given(traces(), st.integers(-NOW, 10**18))
def test_nothing_changes_when_time_is_shifted(trace, shift):
    window = trace.run.window_ns and tuple(t + shift for t in trace.run.window_ns)
    moved = Trace.from_spans([s._replace(start_ns=s.start_ns + shift) for s in trace], KINDS, window_ns=window)
    a, b = Timeline(trace), Timeline(moved)
    assert str(a) == str(b)
    assert list(a.gaps) == list(b.gaps)
    assert a.work_ns_by_name == b.work_ns_by_name
    assert [lane.name for lane in a.lanes] == [lane.name for lane in b.lanes]
    assert (a.step_edges_ns == b.step_edges_ns).all()


# -- known answers -------------------------------------------------------------


def walk(steps: int = 4, wait: int = 30, train: int = 10, aside: int = 0, start: int = NOW, **meta: object) -> Trace:
    """Wait, train, wait, train: the naive loop with one loader thread that works while the consumer waits."""
    spans, t = [], start
    for step in range(steps):
        spans.append(Span("consumer", "wait for batch", "wait", t, wait, step))
        spans.append(Span("worker 1", "Iterator::Root::Batch", "batch", t, wait, -1))
        spans.append(Span("worker 1", "Iterator::Root::Batch::Map", "iterator", t + 1, wait - 5, -1))
        spans.append(Span("worker 1", "DecodeJpeg:DecodeJpeg", "decode", t + 2, wait - 10, -1))
        spans.append(Span("worker 1", "DecodeImageV2Op::JPEG", "decode", t + 3, wait - 12, -1))
        t += wait
        spans.append(Span("consumer", "train step", "train", t, train, step))
        t += train + aside
    return Trace.from_spans(spans, {"consumer": "consumer"}, batch_size=2, images=2 * steps, **meta)


def test_a_naive_loop_is_busy_for_its_share_of_training():
    timeline = Timeline(walk())
    assert timeline.busy == 0.25
    assert timeline.idle_ns == 120
    assert [str(g.kind) for g in timeline.gaps] == ["start", "wait", "wait", "wait"]
    assert [g.step for g in timeline.gaps] == [0, 1, 2, 3]
    assert [g.length_ns for g in timeline.gaps] == [30] * 4
    assert (timeline.wait_ms, timeline.train_ms, timeline.step_ms) == (30e-6, 10e-6, 40e-6)
    assert timeline.waits_ms == [30e-6] * 4
    assert timeline.images_per_s == 8 / 160e-9
    assert timeline.overlap_ns["both"] == 0


def test_idle_gap_is_zero_when_fetch_hides_behind_the_step():
    spans = [Span("consumer", "train step", "train", NOW + 10 * i, 10, i) for i in range(5)]
    spans += [Span("worker 1", "DecodeJpeg", "decode", NOW + 10 * i, 9, -1) for i in range(5)]
    timeline = Timeline(Trace.from_spans(spans, KINDS))
    assert timeline.busy == 1
    assert len(timeline.gaps) == 0
    assert timeline.overlap_ns == {"both": 45, "pipeline": 0, "accelerator": 5, "neither": 0}


def test_copying_into_the_batch_is_the_own_time_of_the_batch_node():
    timeline = Timeline(walk())
    # 30 in all: 25 for the map below it, of which 20 decode.
    assert timeline.work_ns["batch"] == 4 * 5
    assert timeline.work_ns["decode"] == 4 * 20
    assert timeline.work_ns_by_name["decode", "DecodeImageV2Op::JPEG"] == 4 * 18
    assert timeline.work_ns_by_name["iterator", "Iterator::Root::Batch::Map"] == 4 * 5
    assert sum(timeline.ops_ms.values()) * timeline.images == pytest.approx(
        sum(ns for (category, _), ns in timeline.work_ns_by_name.items() if category != "iterator") / 1e6
    )
    assert next(iter(timeline.ops_ms)) == "JPEG", "the longest is first, without the name of its op before the colon"
    assert timeline.per_image_ms["decode"] == 10e-6
    assert timeline.per_image_ms["read"] == 0


def test_operations_are_those_of_the_work_longest_first():
    rows = Timeline(walk()).operations(2).rows
    assert rows[0] == ("JPEG", "decode", "9 ns", "72 %")
    assert len(rows) == 2
    everything = Timeline(walk()).operations(100).rows
    spent = sum(float(time.removesuffix(" ns")) for _, _, time, _ in everything)
    assert spent == pytest.approx(1e6 * sum(Timeline(walk()).per_image_ms.values()), abs=0.5 * len(everything))
    assert not [kind for _, kind, _, _ in everything if kind in ("iterator", "wait", "train")]


def test_a_node_that_only_waits_is_not_at_work():
    spans = [Span("worker 1", "Iterator::Root::Prefetch", "iterator", NOW, 100, -1)]
    lane = Timeline(Trace.from_spans(spans)).lanes[1]
    assert lane.share == 0
    assert len(lane) == 1


def test_kernels_of_a_device_are_the_accelerator_and_gaps_inside_a_step_are_told_apart():
    spans = [Span("consumer", "w", "wait", NOW + 100 * i, 40, i) for i in range(2)]
    spans += [Span("consumer", "t", "train", NOW + 100 * i + 40, 60, i) for i in range(2)]
    spans += [Span("gpu", "gemm", "kernel", NOW + 100 * i + 45, 20, -1) for i in range(2)]
    spans += [Span("gpu 2", "gemm", "kernel", NOW + 100 * i + 55, 30, -1) for i in range(2)]
    spans += [Span("gpu", "memcpy", "copy", NOW + 100 * i + 20, 20, -1) for i in range(2)]
    timeline = Timeline(Trace.from_spans(spans, KINDS | {"gpu 2": "device"}))
    assert timeline.busy == 0.4
    assert [lane.kind for lane in timeline.lanes] == ["accelerator", "stream", "stream", "wait"]
    assert [(g.kind, g.step) for g in timeline.gaps] == [("start", 0), ("wait", 1), ("tail", -1)]
    inside = Trace.from_spans([s for s in spans if s.thread != "gpu 2"] + [
        Span("gpu", "gemm", "kernel", NOW + 100 * i + 90, 10, -1) for i in range(2)], KINDS)  # fmt: skip
    assert [(g.kind, g.step) for g in Timeline(inside).gaps] == [
        ("start", 0), ("inside", 0), ("wait", 1), ("inside", 1)]  # fmt: skip


def test_a_modelled_accelerator_is_its_train_steps_even_where_a_gpu_ran_something():
    trace = walk(accelerator={"name": "V100", "kind": "modelled"})
    spans = [*trace, Span("gpu", "resize", "kernel", NOW, 160, -1)]
    assert Timeline(replace(Trace.from_spans(spans, KINDS), run=trace.run)).busy == 0.25


def test_the_time_that_the_consumer_spends_elsewhere_is_not_called_waiting():
    mostly_waiting, mostly_not = Timeline(walk(aside=20)), Timeline(walk(aside=40))
    assert [g.kind for g in mostly_waiting.gaps] == ["start", "wait", "wait", "wait"]
    assert [g.kind for g in mostly_not.gaps] == ["start", "host", "host", "host"]
    assert [g.step for g in mostly_not.gaps] == [0, 1, 2, 3]


def test_a_unit_of_a_device_is_waited_for_and_counts_as_no_thread():
    ms = 1_000_000
    rows = ("consumer", "wait", "wait", 0, 8), ("consumer", "step", "train", 8, 10), ("card", "x", "decode", 1, 7)
    spans = [Span(thread, name, kind, NOW + a * ms, (b - a) * ms, 0) for thread, name, kind, a, b in rows]
    kinds = ({"consumer": "consumer", "card": kind} for kind in ("unit", "pipeline"))
    card, thread = (Timeline(Trace.from_spans(spans, one)) for one in kinds)
    assert [(lane.name, lane.kind) for lane in card.lanes][1] == ("card", "unit")
    assert card.lanes[1].busy.total_ns == 6 * ms
    assert thread.work_ns["decode"] == 6 * ms
    assert not any(card.work_ns.values())
    assert card.busiest() == []
    assert card.work_ns_by_name == {}
    # What it does is as good a reason to wait as the work of a thread, and keeps the pipeline as busy.
    assert card.causes[0].kind == thread.causes[0].kind == "prep"
    assert card.overlap_ns == thread.overlap_ns
    assert card.split == thread.split


@pytest.mark.parametrize("real", [False, True])
def test_an_accelerator_that_waits_for_another_process_in_a_step_is_idle(real):
    kinds = {"a · consumer": "consumer", "a · accelerator": "device", "b · accelerator": "device", "a · gpu": "device"}
    rows = [
        ("a · consumer", "wait for batch", "wait", 0, 10), ("a · consumer", "step", "train", 10, 40),
        ("a · accelerator", "batch of b", "wait", 20, 35), ("b · accelerator", "batch", "wait", 0, 30),
        ("b · accelerator", "step", "train", 30, 40),
    ]  # fmt: skip
    if real:  # the kernel that adds up runs on the device of whom it has to wait for, and is no work until then
        rows += [("a · gpu", "conv", "kernel", 10, 20), ("a · gpu", "sum", "kernel", 21, 40)]
    ms = 1_000_000
    spans = [Span(*row, NOW + a * ms, (b - a) * ms, -1) for *row, a, b in rows]
    timeline = Timeline(Trace.from_spans(spans, kinds, accelerator={"kind": "real" if real else "modelled"}))
    lanes = {lane.name: lane for lane in timeline.lanes}
    assert timeline.lanes[0] is lanes["a · accelerator"]
    assert sum(lane.name == "a · accelerator" for lane in timeline.lanes) == 1
    assert timeline.accelerator.busy.total_ns == 15 * ms
    assert [(gap.start_ns // ms, gap.length_ns // ms) for gap in timeline.gaps] == [(0, 10), (20, 15)]
    assert timeline.waits.total_ns == 10 * ms, "it had its batch"
    assert lanes["b · accelerator"].busy.total_ns == 10 * ms
    cause = timeline.causes[1]
    assert (cause.kind, timeline.names[cause.op], timeline.lanes[cause.lane].name) == (
        "other process", "batch of b", "b · accelerator")  # fmt: skip
    assert (cause.start_ns, cause.end_ns) == (0, 30 * ms)
    assert cause.parts["other process"] == 15 * ms


def test_lanes_are_ordered_by_kind_and_then_by_number():
    spans = [Span(name, "x", "decode", NOW, 5, -1) for name in ("worker 10", "worker 9", "worker 2", "pool", "gpu")]
    spans.append(Span("consumer", "other", "map", NOW, 5, -1))
    lanes = Timeline(Trace.from_spans(spans, KINDS)).lanes
    assert [lane.name for lane in lanes] == [
        "accelerator", "gpu", "consumer", "worker 2", "worker 9", "worker 10", "pool"]  # fmt: skip


def test_spans_are_cut_to_the_window():
    trace = walk(window_ns=[NOW + 40, NOW + 120])
    timeline = Timeline(trace)
    assert timeline.span_ns == 80
    assert timeline.steps == 2
    assert timeline.step_numbers.tolist() == [1, 2]
    assert timeline.step_edges_ns.tolist() == [0, 40, 80]
    assert [g.step for g in timeline.gaps] == [1, 2]


def test_a_span_from_before_the_window_lies_around_what_it_outlives():
    rows = [Span("w", "short", "map", NOW - 9, 12, -1), Span("w", "long", "map", NOW - 5, 20, -1)]
    lane = Timeline(Trace.from_spans(rows, window_ns=[NOW, NOW + 50])).lanes[1]
    assert lane.end_ns.tolist() == [15, 3]
    assert lane.depth.tolist() == [0, 1]


def test_a_step_without_a_wait_begins_with_its_training():
    rows = [s for s in walk() if s.category != "wait" or s.step != 2]
    assert Timeline(Trace.from_spans(rows, KINDS)).step_edges_ns.tolist() == [0, 40, 110, 120, 160]


def test_a_trace_without_step_numbers_is_counted():
    trace = Trace.from_spans([s._replace(step=-1) for s in walk()], {"consumer": "consumer"})
    assert [g.step for g in Timeline(trace).gaps] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "spans", [[], [Span("consumer", "t", "train", NOW, 0, 0)], [Span("x", "d", "decode", NOW, 7, -1)]]
)
def test_next_to_nothing_is_still_a_timeline(spans):
    timeline = Timeline(Trace.from_spans(spans, KINDS))
    assert timeline.busy == 0
    assert timeline.images is None
    assert "modelled" in str(timeline).splitlines()[0]


def test_the_picture_and_the_table_of_measures_agree():
    from labkit.recording import measures

    trace = walk(steps=7, wait=33, train=21, aside=4)
    timeline, measure = Timeline(trace), measures.figures(trace)
    for figure in ("busy", "images_per_s", "wait_ms", "train_ms", "step_ms", "images", "steps"):
        assert getattr(timeline, figure) == pytest.approx(getattr(measure, figure), rel=1e-12), figure


# -- text ----------------------------------------------------------------------


def test_text_says_where_the_figures_come_from_first_in_one_word_then_in_full():
    accelerator = {"name": "V100", "kind": "modelled", "describe": "modelled V100: 195 ms"}
    trace = walk(origin="measured", accelerator=accelerator, host={"cpus": 2}, name="naive")
    lines = str(Timeline(trace)).splitlines()
    assert lines[0].startswith("Timeline of 'naive': measured · accelerator busy 25 %")
    assert "run measured on 2 cores · modelled accelerator V100" in [" ".join(line.split()) for line in lines]
    assert any("modelled V100: 195 ms" in line for line in lines)
    held = str(Timeline(walk(origin="measured", accelerator=accelerator, storage="modelled")))
    assert "modelled accelerator V100 · modelled storage\n" in held
    assert "accelerator not stated" in str(Timeline(walk()))


def test_text_holds_the_figures():
    spans = [s._replace(start_ns=NOW + (s.start_ns - NOW) * 10**6, duration_ns=s.duration_ns * 10**6) for s in walk()]
    text = " ".join(str(Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, images=8))).split())
    for words in (
        "160.0 ms, 4 steps, 8 images: 50.0 images/s", "25.0 %, idle for 120.0 ms", "40.0 ms: wait",
        "wait for a batch 30.0 ms", "train step 10.0 ms (means)",
        "30.0 ms before step 0 · 30.0 ms waiting for batch 1",
        "both 0.0 % · only the pipeline 62.5 % · only the accelerator 25.0 % · neither 12.5 %",
        "decode 10.0 ms · batch 2.50 ms · together 12.5 ms of thread time",
    ):  # fmt: skip
        assert words in text


def test_text_is_short_and_the_same_twice_however_many_threads_there_are():
    kinds = ("read", "decode", "resize", "map")
    spans = [
        Span(f"worker with a long name {i}", "x", kind, NOW + 9 * k, 5 + i % 4, -1)
        for i in range(60) for k, kind in enumerate(kinds)
    ]  # fmt: skip
    trace = Trace.from_spans([*walk(), *spans], {"consumer": "consumer"}, name="a\nb")
    text = str(Timeline(trace))
    assert text == repr(Timeline(trace))
    assert len(text.splitlines()) <= 30
    assert "more lanes" in text
    assert "0x" not in text
    assert max(map(len, text.splitlines())) <= 88, "what JupyterLab shows in a window of 900 pixels"


def test_a_share_that_is_not_all_is_never_printed_as_all():
    spans = [Span("consumer", "t", "train", NOW, 10**9, 0), Span("consumer", "w", "wait", NOW + 10**9, 1000, 1)]
    text = str(Timeline(Trace.from_spans(spans, KINDS)))
    assert "100.0 %" not in text
    assert "> 99.9 %" in text


# -- what it refuses -------------------------------------------------------------


def test_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(TypeError, match="made from a Trace, got list"):
        Timeline([])
    with pytest.raises(ValueError, match="does not say how many elements"):
        _ = Timeline(Trace.from_spans([])).per_image_ms


def test_every_kind_of_gap_has_its_words():
    words = {str(Gap(0, 10**7, step, kind)) for kind in GAP_KINDS for step in (-1, 3)}
    assert len(words) == 2 * len(GAP_KINDS) - 1
    assert "10.0 ms waiting for batch 3" in words


def test_the_busiest_threads_come_first_and_are_threads_of_the_pipeline():
    timeline = Timeline(job(workers=3))
    names = timeline.busiest(2)
    shares = {lane.name: lane.share for lane in timeline.lanes if lane.kind == "pipeline"}
    assert [shares[name] for name in names] == sorted(shares.values(), reverse=True)[:2]
    assert len(timeline.busiest(99)) == len(shares) == 3


def test_a_circuit_has_lanes_of_streams_and_gaps_where_nothing_came_but_not_where_its_consumer_rests():
    timeline = Timeline(circuit())
    assert [lane.name for lane in timeline.lanes] == ["consumer", "unit"]
    assert (timeline.busy, timeline.steps) == (3 / 8, 3)
    assert [(gap.start_ns // MS, gap.length_ns // MS) for gap in timeline.gaps] == [(1, 1), (3, 1), (7, 1)]
    assert [cause.text for cause in timeline.causes] == ["1 cycle without a value."] * 3
    waits = {timeline.names[name]: state.waits for (_, name), state in timeline.states.items()}
    assert waits == {"blocked": "buffer"}
    text = str(timeline)
    assert text.startswith("Timeline of 'a circuit': simulated · unit moves a value in 3 of 8 cycles")
    assert " ms" not in text
    assert "accelerator" not in text
