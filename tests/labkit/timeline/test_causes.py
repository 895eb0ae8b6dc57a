"""What the accelerator waited for: laws for any trace, walks by hand, and twelve planted pipelines."""

from __future__ import annotations

import numpy as np
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import again
from traces import processes
from uncrowded import uncrowded

from labkit.timeline.causes.per_gap import CAUSES
from labkit.timeline.run import ProcessorTime, ThreadTime
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace

NOW = 1_800_000_000_000_000_000
MS = 1_000_000
KINDS = {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline", "gpu": "device", "pool": "host"}
ROOT = "Iterator::Root"
many = settings(max_examples=80)
NAMES = [
    *("a", "x/ReadFile:ReadFile", "PyFunc:PyFunc", ROOT, f"{ROOT}::Prefetch", f"{ROOT}::Prefetch::ForeverRepeat"),
    *(f"{ROOT}::Prefetch::ForeverRepeat::Shuffle", f"{ROOT}::Prefetch::ForeverRepeat::Shuffle::Map"),
]


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any spans at all on any thread, at two scales: nested, crossing, touching, and with the names of nodes."""
    unit = draw(st.sampled_from([1, 100_000]))
    span = st.builds(
        lambda thread, name, category, start, length, step: Span(
            thread, name, category, NOW + start * unit, length * unit, step
        ),
        st.sampled_from(sorted(KINDS)),
        st.sampled_from(NAMES),
        st.sampled_from([*CATEGORIES, "wait", "train", "iterator", "iterator"]),
        st.integers(0, 40),
        st.integers(0, 25),
        st.integers(-1, 5),
    )
    meta = {"host": {"cpus": draw(st.integers(1, 3))}} if draw(st.booleans()) else {}
    return Trace.from_spans(draw(st.lists(span, max_size=40)), KINDS, **meta)


def walk(*spans: tuple[str, str, str, float, float], **meta: object) -> Timeline:
    """Return a timeline of (thread, name, category, start ms, end ms); "consumer" and "gpu" are what they say."""
    rows = [Span(t, n, c, NOW + int(a * MS), int((b - a) * MS), -1) for t, n, c, a, b in spans]
    kinds = {"consumer": "consumer"} | ({"gpu": "device"} if any(s[0] == "gpu" for s in spans) else {})
    return Timeline(Trace.from_spans(rows, kinds, **meta))


def wait(a: float, b: float) -> tuple[str, str, str, float, float]:
    return ("consumer", "wait for batch", "wait", a, b)


def train(a: float, b: float) -> tuple[str, str, str, float, float]:
    return ("consumer", "train step", "train", a, b)


def parts_ms(timeline: Timeline, gap: int = 0) -> dict[str, float]:
    return {cause: ns / MS for cause, ns in timeline.causes[gap].parts.items() if ns}


# -- laws ------------------------------------------------------------------------------


@many
@given(traces())
def test_each_instant_of_a_gap_is_charged_once(trace):
    timeline = Timeline(trace)
    causes = timeline.causes
    assert len(causes) == len(timeline.gaps) == len(list(causes))
    assert causes.parts_ns.shape == (len(causes), len(CAUSES))
    assert (causes.parts_ns >= 0).all()
    assert (causes.parts_ns.sum(axis=1) == timeline.gaps.length_ns).all()


@many
@given(traces())
def test_a_row_is_what_it_says(trace):
    timeline = Timeline(trace)
    causes = timeline.causes
    for cause, column in (("kind", np.int8), ("op", np.int32), ("lane", np.int32), ("start_ns", np.int64)):
        assert getattr(causes, cause).dtype == column
    for gap, cause in zip(timeline.gaps, causes, strict=True):
        assert cause.parts[cause.kind] == max(cause.parts.values())
        assert -1 <= cause.op < len(timeline.names)
        assert -1 <= cause.lane < len(timeline.lanes)
        assert cause.text.startswith(str(gap))
        assert cause.text.endswith(".")
        assert "\n" not in cause.text
        if cause.lane < 0:
            assert (cause.start_ns, cause.end_ns) == (-1, -1)
        else:
            lane = timeline.lanes[cause.lane]
            assert ((lane.start_ns == cause.start_ns) & (lane.end_ns == cause.end_ns)).any()
            # What was waited for ran at some time in the gap.
            assert cause.start_ns < gap.start_ns + gap.length_ns
            assert cause.end_ns > gap.start_ns


@many
@given(traces())
def test_shares_add_up_to_the_idle_share_and_ops_to_no_more_than_their_cause(trace):
    timeline = Timeline(trace)
    stalls = timeline.stalls
    idle = timeline.idle_ns / timeline.span_ns if timeline.span_ns else 0
    assert sum(stalls.shares.values()) == pytest.approx(idle if timeline.timed else 0), "a wait that nobody timed"
    for cause in CAUSES:
        named = sum(ns for (c, _), ns in timeline.causes.by_op.items() if c == cause)
        assert named <= timeline.causes.parts_ns[:, CAUSES.index(cause)].sum()
    assert stalls.advice.endswith(".")
    assert 0 <= stalls.blamed_share <= 1
    assert str(Timeline(trace)) == str(timeline)


@many
@given(traces(), st.integers(1, 10**6))
def test_causes_do_not_depend_on_when_the_run_was(trace, later_ns):
    moved = Trace(**{c: getattr(trace, c) + (later_ns if c == "start_ns" else 0) for c in Trace.DTYPES},
                  names=trace.names, threads=trace.threads, run=trace.run)  # fmt: skip
    assert (Timeline(trace).causes.parts_ns == Timeline(moved).causes.parts_ns).all()


# -- walks by hand ---------------------------------------------------------------------


def test_a_sequential_run_is_split_by_what_ran_in_turn():
    timeline = walk(
        wait(0, 10), train(10, 12), wait(12, 22), train(22, 24),
        *[("worker", name, category, a + at, b + at) for at in (0, 12) for name, category, a, b in
          (("ReadFile", "read", 0, 3), ("DecodeJpeg", "decode", 3, 8), ("BatchV2", "batch", 8, 10))],
    )  # fmt: skip
    for gap in (0, 1):
        assert parts_ms(timeline, gap) == {"fetch": 3, "prep": 5, "batch": 2}
    cause = timeline.causes[1]
    assert (cause.kind, timeline.names[cause.op], timeline.lanes[cause.lane].name) == ("prep", "DecodeJpeg", "worker")
    assert (cause.start_ns, cause.end_ns) == (15 * MS, 20 * MS)
    assert cause.text == (
        "10.0 ms waiting for batch 1: 50.0 % prepare, DecodeJpeg in worker; also fetch 30.0 %, batch 20.0 %."
    )


def test_what_runs_beside_the_path_costs_nothing():
    # The decoder is awaited; the long read, of a later batch, is not.
    timeline = walk(
        wait(0, 10), train(10, 12),
        ("worker 1", "decode", "decode", 0, 9), ("worker 2", "read", "read", 1, 11),
        ("worker 1", "batch", "batch", 9, 10),
    )  # fmt: skip
    assert parts_ms(timeline) == {"prep": 9, "batch": 1}


def test_the_walk_goes_on_in_the_thread_that_ended_before_an_idle_one_began():
    timeline = walk(
        wait(0, 12), train(12, 14),
        ("reader", "read", "read", 0, 5), ("mapper", "resize", "resize", 5, 10), ("batcher", "batch", "batch", 10, 12),
    )  # fmt: skip
    assert parts_ms(timeline) == {"fetch": 5, "prep": 5, "batch": 2}


def test_a_node_that_waits_is_followed_to_what_ran_below_it():
    prefetch, mapped = f"{ROOT}::Prefetch", f"{ROOT}::Prefetch::ParallelMapV2"
    timeline = walk(
        wait(0, 20), train(20, 22),
        ("next", ROOT, "iterator", 0, 19.5), ("next", prefetch, "iterator", 0.1, 19.4),
        ("runner", mapped, "iterator", 0, 19.2),
        ("worker 1", "read", "read", 0, 6), ("worker 1", "decode", "decode", 6, 19),
        # Of another branch: it ends later than the decoder, and stands beside the prefetch.
        ("other", f"{ROOT}::Zip::TFRecord", "read", 10, 19.3),
    )  # fmt: skip
    assert parts_ms(timeline) == pytest.approx({"fetch": 6, "prep": 13, "framework": 1})


def test_a_first_wait_that_is_much_longer_than_the_others_is_the_start_of_the_pipeline():
    steps = [mark for i in range(4) for mark in (wait(30 + 10 * i, 31 + 10 * i), train(31 + 10 * i, 40 + 10 * i))]
    work = [
        ("worker", "read", "read", 0, 20),
        *(("worker", "read", "read", 30 + 10 * i, 31 + 10 * i) for i in range(4)),
    ]
    begin = [wait(0, 20), train(20, 30)]
    assert parts_ms(walk(*begin, *steps, *work)) == {"start": 20}
    assert parts_ms(walk(*begin, *steps, *work, warmup=2)) == {"fetch": 20}


def test_what_runs_while_a_buffer_fills_is_charged_and_what_fills_is_named():
    repeat = f"{ROOT}::ForeverRepeat"
    shuffle, mapped = f"{repeat}::Shuffle", f"{repeat}::Shuffle::Map"
    spans = []
    for i in range(6):  # each photo is read for 0.1 ms and decoded for 0.8 ms; the fourth call takes ten of them
        a, count = 20 * i, 10 if i == 3 else 1
        spans += [wait(a, a + count), train(a + count, a + 20)]
        spans += [("next", node, "iterator", a, a + count) for node in (ROOT, repeat, shuffle)]
        for k in range(a, a + count):
            spans += [("next", mapped, "iterator", k, k + 0.95)]
            spans += [("next", "x:ReadFile", "read", k, k + 0.1), ("next", "x:DecodeJpeg", "decode", k + 0.1, k + 0.9)]
    timeline = walk(*spans, warmup=1)
    assert timeline.causes[3].parts == pytest.approx(
        {"fetch": 1 * MS, "prep": 8 * MS, "start": 1 * MS}
        | dict.fromkeys(("batch", "transfer", "copy", "framework", "unknown"), 0), abs=0.1 * MS
    )  # fmt: skip
    assert timeline.names[timeline.causes[3].op] == "x:DecodeJpeg"
    assert "DecodeJpeg in next, while Shuffle fills its buffer" in timeline.causes[3].text
    assert "while" not in timeline.causes[2].text
    assert timeline.stalls.during == "Shuffle fills its buffer"
    assert timeline.stalls.rules == ("start.shuffle-names",)
    assert "meanwhile Shuffle fills its buffer" in " ".join(str(timeline).split())


@pytest.mark.parametrize(
    ("below", "says"),
    [("Map", "start.repeat-first"), ("FlatMap", "start.less-to-do"), ("MemoryCacheImpl", "start.less-to-do")],
)
def test_repeat_is_not_told_to_stand_where_it_stands_or_before_a_cache(below, says):
    """The fourth call finds the end of its input, which begins anew and takes 30 ms for it."""
    repeat = f"{ROOT}::ForeverRepeat"
    spans = []
    for i in range(6):
        a, long = 50 * i, 30 if i == 3 else 1
        spans += [wait(a, a + long), train(a + long, a + 50)]
        spans += [("next", node, "iterator", a, a + long) for node in (ROOT, repeat)]
        spans += [("next", f"{repeat}::{below}", "iterator", a + k / 2, a + k / 2 + 0.4) for k in range(2 - (i != 3))]
    assert walk(*spans, warmup=1).stalls.rules == (says,)


@pytest.mark.parametrize(("slow", "says"), [(False, "start.repeat-first"), (True, "fetch.straggler")])
def test_a_slow_file_is_told_from_files_that_are_opened_when_an_epoch_begins(slow, says):
    """Opening takes 30 ms for every file; of a slow one, every record takes 7 ms in place of one."""
    repeat = f"{ROOT}::ForeverRepeat"
    interleave, spans = f"{repeat}::BatchV2::ParallelInterleaveV4", []
    for i in range(6):
        a, long = 60 * i, 40 if i == 3 else 4
        spans += [wait(a, a + long), train(a + long, a + 60)]
        spans += [("next", node, "iterator", a, a + long) for node in (ROOT, repeat)]
        for begin, end in ((0, 0.4), (0.5, long)) if i == 3 else ((0, long),):  # the first finds the end of its input
            spans += [("next", node, "iterator", a + begin, a + end) for node in (f"{repeat}::BatchV2", interleave)]
        opens = ("x:ReadFile", "read", a, a + 30)
        spans += [("worker 1", "x:ReadFile", "read", k, k + 1) for k in range(a + long - 4, a + long)]
        if i == 3:
            spans += [("worker 1", *opens), *([] if slow else [("worker 2", *opens)])]
            spans += [("worker 2", "x:ReadFile", "read", a + k, a + k + 7) for k in range(0, 35, 7) if slow]
    assert walk(*spans, warmup=1).stalls.rules == (says,)


@pytest.mark.parametrize(("step", "rules"), [(0.5, ()), (8, ("prefetch.last-step",))])
def test_nobody_is_told_to_overlap_with_steps_that_take_next_to_no_time(step, rules):
    spans = []
    for i in range(6):
        a = 20 * i
        spans += [wait(a, a + 20 - step), train(a + 20 - step, a + 20), ("next", ROOT, "iterator", a, a + 20 - step)]
        spans += [("next", f"{ROOT}::BatchV2::Map", "iterator", a, a + 20 - step)]
        spans += [("next", "x:DecodeJpeg", "decode", a, a + 20 - step)]
    assert walk(*spans, warmup=1).stalls.rules == (*rules, "prep.parallel-map")


def test_a_deeper_prefetch_is_for_those_who_have_one():
    for node, deeper in (("Prefetch", True), ("MapAndBatch", False)):
        spans = []
        for i, load in enumerate((1, 1, 12, 1, 1, 12)):
            a = 20 * i
            spans += [wait(a, a + load), train(a + load, a + 20), ("next", ROOT, "iterator", a, a + load)]
            spans += [("worker", f"{ROOT}::{node}", "iterator", a, a + load)]
            spans += [("worker", "x:DecodeJpeg", "decode", a, a + load)]
        assert (walk(*spans, warmup=1).stalls.rules == ("prefetch.deeper",)) == deeper


@pytest.mark.parametrize(("node", "cause"), [("ParallelBatch", "batch"), ("Shuffle", "framework")])
def test_a_parallel_batch_copies_where_nobody_sees_it(node, cause):
    """It has its last element at 6 ms, and hands the batch over at 20."""
    spans = [
        wait(0, 20),
        train(20, 21),
        ("next", ROOT, "iterator", 0, 20),
        ("next", f"{ROOT}::{node}", "iterator", 0, 20),
    ]
    spans += [("worker", f"{ROOT}::{node}::ParallelMap", "iterator", 0, 6), ("pool", "x:DecodeJpeg", "decode", 0, 6)]
    assert CAUSES[walk(*spans, warmup=1).causes.kind[0]] == cause


def test_a_copy_inside_a_step_is_a_copy_and_the_rest_of_the_step_is_not():
    timeline = walk(
        wait(0, 1), train(1, 20), ("gpu", "MemcpyH2D", "copy", 2, 10), ("gpu", "k", "kernel", 10, 20),
        ("worker", "decode", "decode", 0, 1),
    )  # fmt: skip
    assert parts_ms(timeline)["copy"] == 8
    assert parts_ms(timeline)["prep"] == 1
    cause = timeline.causes[0]
    assert (cause.kind, timeline.lanes[cause.lane].kind, cause.start_ns) == ("copy", "stream", 2 * MS)


def test_the_way_of_a_batch_between_processes_is_on_its_path():
    timeline = walk(
        wait(0, 20), train(20, 22), ("consumer", "unpickle", "transfer", 12, 20),
        ("worker 1", "read", "read", 0, 2), ("worker 1", "decode", "decode", 2, 5),
        ("worker 1", "collate", "batch", 5, 6), ("worker 1", "pickle", "transfer", 6, 12),
        # Of the next batch: a decode that ends together with the pickling, and a pickling that nobody waits for.
        ("worker 2", "decode", "decode", 3, 12), ("worker 2", "pickle", "transfer", 12, 19),
    )  # fmt: skip
    assert parts_ms(timeline) == {"fetch": 2, "prep": 3, "batch": 1, "transfer": 14}
    assert timeline.causes[0].text.endswith(
        ": 70.0 % moving batches between processes, unpickle in consumer; also prepare 15.0 %, fetch 10.0 %, "
        "batch 5.0 %."
    )


@pytest.mark.parametrize("known", [True, False])
def test_the_walk_stays_with_the_awaited_batch_where_spans_know_their_step(known):
    rows = [
        ("consumer", "wait for batch", "wait", 0, 100, 0), ("consumer", "train step", "train", 100, 120, 0),
        ("worker 1", "decode", "decode", 0, 50, 0), ("worker 1", "pickle", "transfer", 50, 90, 0),
        ("consumer", "unpickle", "transfer", 92, 100, 0),
        *(("worker 2", "resize", "resize", k, k + 1, 1) for k in range(100)),  # of the next batch
    ]  # fmt: skip
    spans = [
        Span(thread, *what, NOW + a * MS // 10, (b - a) * MS // 10, step if known or thread == "consumer" else -1)
        for thread, *what, a, b, step in rows
    ]
    parts = parts_ms(Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, warmup=1)))
    right = {"prep": 5, "transfer": 4.8, "framework": 0.2}
    assert parts == (right if known else {"prep": 9.2, "transfer": 0.8}), "without, only what ended last is known"


lengths = st.lists(st.tuples(st.integers(6, 12), st.integers(6, 12)), min_size=3, max_size=12)


@many
@given(lengths, st.integers(1, 3))
def test_a_loader_that_mostly_moves_data_between_processes_is_told_to_move_fewer_bytes(found, workers):
    pickled, unpickled = zip(*found, strict=True)
    timeline = Timeline(processes(pickled, unpickled, workers=workers))
    assert (timeline.causes.parts_ns.sum(axis=1) == timeline.gaps.length_ns).all()
    assert {cause.kind for cause in timeline.causes} == {timeline.stalls.cause} == {"transfer"}
    assert timeline.stalls.blame in ("pickle", "unpickle")
    assert timeline.stalls.rules == ("transfer.fewer-bytes",)
    assert timeline.work_ns["transfer"] == sum(map(sum, found)) * MS
    # Where the way costs next to nothing, something else is to blame.
    quick = Timeline(processes([0.01] * 8, [0.01] * 8, other=5, workers=workers))
    assert quick.stalls.cause in ("fetch", "prep", "batch")


def test_what_nobody_saw_is_unknown_and_is_blamed_on_nobody():
    timeline = walk(wait(0, 50), train(50, 60), wait(60, 110), train(110, 120))
    assert [cause.kind for cause in timeline.causes] == ["unknown", "unknown"]
    assert timeline.stalls.cause is None
    assert timeline.stalls.rules == ("run.unseen",)


def test_python_in_a_map_is_charged_for_the_time_in_which_it_keeps_the_consumer_from_running():
    timeline = walk(wait(0, 1), train(1, 5), train(15, 20), ("worker", "PyFunc:PyFunc", "map", 0, 16))
    assert timeline.stalls.blame == "PyFunc"
    assert timeline.causes[1].parts["prep"] == 10 * MS


def test_an_accelerator_that_is_the_limit_blames_nobody():
    steps = [mark for i in range(10) for mark in (wait(10 * i, 10 * i + 0.2), train(10 * i + 0.2, 10 * i + 10))]
    timeline = walk(*steps, *(("worker", "decode", "decode", 10 * i, 10 * i + 0.1) for i in range(10)))
    assert timeline.stalls.cause is timeline.stalls.blame is None
    assert timeline.stalls.rules == ("run.good-enough",)
    assert "to blame" not in str(timeline)


def test_the_text_names_shares_blame_and_change():
    timeline = walk(
        wait(0, 10), train(10, 20), ("worker", "x:DecodeJpeg", "decode", 0, 9), ("worker", "r", "read", 9, 10)
    )
    text = str(timeline)
    assert "gaps wait for     prepare 45.0 % · fetch 5.0 % of the window" in text
    assert "to blame          prepare: DecodeJpeg, 45.0 % of the window" in text
    first, second = text.splitlines()[:2]
    assert first.endswith("accelerator busy 50 % · waits mostly for preparation: DecodeJpeg"), "how busy, and what for"
    assert second.startswith("  what to change    prefetch(AUTOTUNE) as the last step"), "then what to change"
    assert text.count("what to change") == 1


def test_a_map_that_runs_in_no_thread_of_the_pipeline_is_no_small_call():
    timeline = walk(wait(0, 10), train(10, 20), ("consumer", f"{ROOT}::Map", "iterator", 0, 9))
    assert "small.batch-first" not in timeline.stalls.rules


@pytest.mark.parametrize("others", [0.3, 0.5, 0.9])
def test_no_advice_that_needs_cores_where_other_programs_hold_half_of_them(others):
    spans = wait(0, 10), train(10, 20), ("worker", "x:DecodeJpeg", "decode", 0, 9), ("worker", "r", "read", 9, 10)
    processor = ProcessorTime((NOW, NOW + 20 * MS), (0, 9 * MS), 14 * MS)
    timeline = walk(*spans, host={"cpus": 2, "others": others}, processor=processor)
    assert timeline.stalls.cause == "prep", "what was recorded stays"
    assert (timeline.stalls.rules[-1] == "run.busy") == (others >= 0.5)
    row = f"other programs took {2 * others:.1f} of 2 cores; ready threads of this process waited 14 ms for one"
    assert row in " ".join(str(timeline).split())
    assert "other programs" not in str(walk(*spans, host={"cpus": 2, "others": 0.01}))
    served = ProcessorTime((NOW, NOW + 20 * MS), (0, 9 * MS), 1 * MS)
    timeline = walk(*spans, host={"cpus": 2, "others": others}, processor=served)
    assert timeline.stalls.rules[-1] == "prep.parallel-map", "it hardly waited for a core"


def crowded(*nodes: str, each: int = 1, computed_ms: float, loads: tuple[int, ...] = (12,) * 4) -> tuple[str, ...]:
    """Return the rules said of elements that are decoded in turn, where other programs hold most of the cores.

    `nodes` are asked for each element, `each` of which are decoded for one image; a train step takes 8 ms.
    """
    spans, a = [], 0
    for load in loads:
        spans += [wait(a, a + load), train(a + load, a + load + 8), ("next", ROOT, "iterator", a, a + load)]
        for k in range(2 * each):
            begin, end = a + load * k / (2 * each), a + load * (k + 1) / (2 * each)
            spans += [("runner", f"{ROOT}::{node}", "iterator", begin, end) for node in nodes]
            spans += [("runner", "x:DecodeJpeg", "decode", begin, end)]
        a += load + 8
    processor = ProcessorTime((NOW, NOW + a * MS), (0, int(computed_ms * MS)), 5 * a * MS)
    host = {"cpus": 2, "others": 0.9}
    return walk(*spans, warmup=1, images=2 * len(loads), host=host, processor=processor).stalls.rules


def test_beside_other_programs_advice_stands_where_cores_change_nothing_about_it():
    many = 2 * 4 * 8 + 1  # milliseconds that do not fit beside four steps of 8 ms on two cores
    in_turn = "Prefetch", "Prefetch::BatchV2", "Prefetch::BatchV2::Map"
    assert crowded(*in_turn, computed_ms=many) == ("prep.parallel-map",), "one thread is too slow, whoever is beside it"
    assert crowded(*in_turn, computed_ms=30) == ("run.busy",), "one thread would do"
    window = "Prefetch::BatchV2::FlatMap::Window"
    windows = "Prefetch", "Prefetch::BatchV2::FlatMap", window, f"{window}::Map"
    assert crowded(*windows, each=4, computed_ms=many) == ("work.drop-first",)
    alone = crowded("BatchV2", "BatchV2::Map", computed_ms=many)
    assert alone == ("prefetch.last-step", "prep.parallel-map"), "the graph says that nothing works ahead"


def test_what_may_be_late_only_for_lack_of_cores_gets_no_advice_beside_other_programs():
    parallel = "Prefetch", "Prefetch::BatchV2", "Prefetch::BatchV2::ParallelMapV2"
    assert crowded(*parallel, computed_ms=20) == ("run.busy",)
    assert crowded(*parallel, computed_ms=20, loads=(1, 1, 6, 1, 1, 6)) == ("run.busy",), "no deeper prefetch"


def test_the_text_says_of_the_busiest_threads_what_they_did():
    spans = wait(0, 10), train(10, 20), ("worker", "x:DecodeJpeg", "decode", 0, 9)
    threads = tuple(ThreadTime((10 - i) * MS, i * MS, 10 * MS) for i in range(6))
    clock = ProcessorTime((NOW, NOW + 20 * MS), (0, 9 * MS), 15 * MS, threads)
    text = " ".join(str(walk(*spans, processor=clock)).split())
    assert "of the window: 50 + 0 + 50 · 45 + 5 + 50 · 40 + 10 + 50 · 35 + 15 + 50; 2 more computed less" in text
    assert "this system does not count" in str(walk(*spans, processor=ProcessorTime()))
    assert "threads  " not in str(walk(*spans)), "a model has none"


# -- pipelines with one planted bottleneck -------------------------------------------------


@pytest.mark.long
@pytest.mark.alone
def test_cause_and_advice_are_right_in_eleven_of_twelve_planted_pipelines(tmp_path):
    """Two recordings of each pipeline are asked, and a third one where they differ: most of three decide."""
    files = planted.Files(tmp_path)
    found = {plant.name: [] for plant in planted.PLANTS}
    for plant in planted.PLANTS:
        for number in again(3):
            found[plant.name].append(Timeline(uncrowded(plant.record(files))).stalls)
            if number and len({planted.verdict(plant, stalls) for stalls in found[plant.name]}) == 1:
                break
    assert len(found) == 12
    assert all(one.cause is one.blame is None for one in found["none"])
    assert all(name == "none" or sum(bool(one.cause) for one in stalls) > 1 for name, stalls in found.items())
    for place, what in enumerate(("cause", "advice")):
        right = {p.name: sum(planted.verdict(p, one)[place] for one in found[p.name]) for p in planted.PLANTS}
        wrong = {name: found[name] for name, count in right.items() if 2 * count < len(found[name])}
        assert len(wrong) <= 1, (what, wrong)
