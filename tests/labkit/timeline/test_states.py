"""States of operations: what computes is on a core, what waits says for what, no more cores are claimed than ran."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.traces import crowd, gpu_job, noisy_job, processes

from labkit import simulate
from labkit.simulate import Costs, Knobs
from labkit.timeline.lanes import RESTS
from labkit.timeline.states import BUFFER, CORE, INTERPRETER, OTHER, STORAGE, UNKNOWN, WAITS, WORDS
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Span, Trace

NOW, MS = 1_800_000_000_000_000_000, 1_000_000
DECODE, PYTHON, TFRECORD = "x/DecodeJpeg:DecodeJpeg", "f/EagerPyFunc:EagerPyFunc", "Iterator::Root::TFRecord"
STARTED = "a worker process starts"


def by_name(timeline):
    return {timeline.names[name]: state for (_, name), state in timeline.states.items()}


def modelled(costs, **knobs):
    return Timeline(simulate.run(Costs(train=1, **costs), Knobs(**{"batch_size": 4, "prefetch": 2, **knobs}), steps=30))


def threads(
    name, category, count, busy_cores=None, *, cpus=2, queued_ms=None, kind="pipeline", ms=600, trains=False, **facts
):
    """Return a timeline of so many threads in one op for 20 of 25 ms, which keep some cores busy meanwhile."""
    spans = [
        Span(f"worker {k}", name, category, NOW + t * MS, 20 * MS, -1) for k in range(count) for t in range(0, ms, 25)
    ]
    spans.append(Span("consumer", *(("train", "train") if trains else ("wait for batch", "wait")), NOW, ms * MS, 0))
    if busy_cores is not None:
        open_ms = [t // 25 * 20 + min(t % 25, 20) for t in range(0, ms + 1, 5)]
        facts["processor"] = {
            "at_ns": [NOW + t * MS for t in range(0, ms + 1, 5)],
            "cpu_ns": [int(busy_cores * t * MS) for t in open_ms],
            "queued_ns": None if queued_ms is None else int(queued_ms * MS),
        }
    kinds = {"consumer": "consumer"} | {f"worker {k}": kind for k in range(count)}
    facts = {"origin": "measured", "window_ns": (NOW, NOW + ms * MS), "host": {"cpus": cpus}} | facts
    return Timeline(Trace.from_spans(spans, kinds, **facts))


def claimed_cores(timeline):
    """Return the cores that all states together claim, on average over the window."""
    own = {}
    for lane in timeline.lanes:
        if lane.kind in ("wait", "script", "pipeline", "host"):
            pairs = zip(lane.category.tolist(), lane.name_id.tolist(), strict=True)
            for pair, ns in zip(pairs, lane.self_ns.tolist(), strict=True):
                own[pair] = own.get(pair, 0) + ns
    return sum(timeline.states[pair].share * ns for pair, ns in own.items()) / timeline.span_ns


# -- a modelled run: everything is known


def test_sixteen_readers_of_modelled_storage_wait_for_storage():
    found = by_name(modelled({"open": 20, "read": 5, "map": 0.1}, cycle_length=16))
    assert found["open"] == found["read"] == (0.0, STORAGE)
    assert found["map"].share > 0.9


def test_what_is_decoded_by_no_more_threads_than_cores_computes():
    found = by_name(modelled({"open": 2, "read": 1, "map": {"decode": 4, "resize": 1}}, cores=2, map_calls=2))
    assert found["decode"] == found["resize"] == (1.0, "")


@pytest.mark.parametrize("workers", [4, 8])
def test_more_workers_than_cores_wait_for_a_core(workers):
    costs = {"map": {"decode": 4, "resize": 1}}
    found = by_name(modelled(costs, cores=2, map_calls=workers, threads=workers, batch_size=16))
    assert found["decode"].waits == found["resize"].waits == CORE
    assert found["decode"].share == pytest.approx(2 / workers, rel=0.1)


def test_what_a_model_lets_sleep_waits_and_what_it_does_not_computes():
    costs = {"open": 1, "read": 1, "map": {"decode": 4, "tf.data": 1}}
    assert by_name(modelled({**costs, "sleeps": ("decode",)}))["decode"] == (0.0, OTHER)
    found = by_name(modelled({**costs, "sleeps": ("open",)}))
    assert found["open"] == (0.0, STORAGE)
    assert found["read"] == found["decode"] == found["tf.data"] == (1.0, "")


def test_a_read_that_computes_waits_for_the_link_as_long_as_its_bytes_take():
    found = by_name(modelled({"read": 1, "map": 0.1, "sleeps": ()}, bandwidth_mb_s=100 / 3, image_kb=100))
    assert found["read"].share == pytest.approx(1 / 4, rel=0.05)
    assert found["read"].waits == STORAGE


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 12), st.floats(0.1, 5), st.floats(0, 5), st.floats(0.3, 1),
    st.lists(st.sampled_from(("open", "read", "decode", "batch")), unique=True),
)  # fmt: skip
def test_a_model_never_claims_more_than_its_cores(cores, calls, decode, read, gain, sleeps):
    costs = {"open": 0.5, "read": read, "map": {"decode": decode, "crop": 1}, "batch": 0.4, "sleeps": tuple(sleeps)}
    timeline = modelled(costs, cores=cores, map_calls=calls, threads=calls, core_gain=gain)
    assert claimed_cores(timeline) <= 1 + gain * (cores - 1) + 1e-6
    assert all(state.waits != UNKNOWN for state in timeline.states.values())


# -- a measured run


@pytest.mark.parametrize("read", ["ReadFile:ReadFile", TFRECORD])
def test_a_read_waits_for_storage_unless_it_is_measured_to_compute(read):
    assert by_name(threads(read, "read", 2))[read] == (0.0, STORAGE)
    share, waits = by_name(threads(read, "read", 2, 0.1))[read]
    assert share < 0.1
    assert waits == STORAGE
    assert by_name(threads(read, "read", 2, 2.0))[read] == (1.0, ""), "all of it is in the page cache"


def test_a_modelled_storage_only_waits_whatever_the_clock_says():
    sleep = "SingleElementIterator::FiniteTake::Sleep"
    assert by_name(threads(sleep, "read", 16, 1.5))[sleep] == (0.0, STORAGE)


@pytest.mark.parametrize("queued_ms", [None, 8400 - 960])
def test_sixteen_threads_that_decode_on_two_cores_wait_for_a_core(queued_ms):
    """Whether the system counted who waited for a core, or not."""
    share, waits = by_name(threads(DECODE, "decode", 16, 2.0, queued_ms=queued_ms))[DECODE]
    assert waits == CORE
    assert share == pytest.approx(2 / 16, rel=0.15)


@pytest.mark.parametrize(
    ("others", "trains", "kind", "waits"),
    [(0.1, False, "real", ""), (0.6, False, "real", CORE), (0.1, True, "real", CORE), (0.1, True, "modelled", "")],
)
def test_a_thread_that_is_queued_while_a_core_is_free_wakes_up_and_waits_for_no_core(others, trains, kind, waits):
    facts = {"host": {"cpus": 2, "others": others}, "accelerator": {"name": "x", "kind": kind}, "trains": trains}
    state = by_name(threads(DECODE, "decode", 1, 0.7, queued_ms=0.3 * 480, **facts))[DECODE]
    assert state.waits == waits
    assert state.share == pytest.approx(1.0 if not waits else 0.7, abs=0.02)


@pytest.mark.parametrize(("busy", "least"), [(1.0, 0.65), (0.5, 0.15)])
def test_threads_that_hand_over_to_each_other_are_queued_and_compute_what_the_process_did(busy, least):
    """Both cores are taken, and threads are queued for longer than an op is open: a quarter of a core is no op's."""
    crowded = {"host": {"cpus": 2, "others": 0.5}}
    state = by_name(threads(DECODE, "decode", 1, busy, queued_ms=1.2 * 480, **crowded))[DECODE]
    assert state.share >= least
    trained = {"accelerator": {"name": "keras", "kind": "real"}}
    alone = by_name(threads(DECODE, "decode", 1, busy, queued_ms=1.2 * 480, **crowded, **trained))[DECODE]
    assert alone.share < 0.5, "training may have taken it"


def test_sixteen_threads_that_decode_and_leave_cores_free_wait_for_nobody_knows_what():
    assert by_name(threads(DECODE, "decode", 16, 0.5))[DECODE].waits == UNKNOWN


@settings(max_examples=20)
@given(st.lists(st.floats(0.2, 1.8), min_size=120, max_size=120))
def test_ops_in_turn_compute_however_the_clock_is_read_as_long_as_its_sum_says_so(reads):
    """Samples cannot tell apart two ops of 3 and 1.5 ms: a fit blames one of them for what the other did."""
    spans = [
        Span("worker", name, category, NOW + round((t + start) * MS), round(length * MS), -1)
        for t in (4.5 * k for k in range(133))
        for name, category, start, length in ((DECODE, "decode", 0, 3), ("x/AdjustSaturation", "map", 3, 1.5))
    ]
    spans.append(Span("consumer", "wait for batch", "wait", NOW, 600 * MS, 0))
    cpu = [0.0]
    for read in reads:
        cpu.append(cpu[-1] + 5 * MS * read)
    clock = {"at_ns": [NOW + t * 5 * MS for t in range(121)], "cpu_ns": [round(c * 590 * MS / cpu[-1]) for c in cpu]}
    facts = {"origin": "measured", "window_ns": (NOW, NOW + 600 * MS), "host": {"cpus": 2}, "processor": clock}
    found = by_name(Timeline(Trace.from_spans(spans, {"consumer": "consumer", "worker": "pipeline"}, **facts)))
    assert found[DECODE] == found["x/AdjustSaturation"] == (1.0, "")


def test_without_a_clock_what_computes_shares_the_cores():
    assert by_name(threads(DECODE, "decode", 2))[DECODE] == (1.0, "")
    share, waits = by_name(threads(DECODE, "decode", 16))[DECODE]
    assert share == pytest.approx(2 / 16)
    assert waits == CORE


@pytest.mark.parametrize("busy", [None, 1.0])
@pytest.mark.parametrize("count", [2, 4])
def test_python_in_several_threads_waits_for_the_interpreter(count, busy):
    share, waits = by_name(threads(PYTHON, "map", count, busy, queued_ms=None if busy is None else 0.0))[PYTHON]
    assert share == pytest.approx(1 / count, rel=0.1)
    assert waits == INTERPRETER


def test_python_that_lets_go_of_the_interpreter_computes_and_one_that_sleeps_waits_for_nobody_knows_what():
    assert by_name(threads(PYTHON, "map", 2, 2.0))[PYTHON] == (1.0, "")
    share, waits = by_name(threads(PYTHON, "map", 4, 0.05))[PYTHON]
    assert share < 0.1
    assert waits == UNKNOWN


@pytest.mark.parametrize(
    ("name", "category", "waits"),
    [("queue get", "iterator", BUFFER), ("queue put", "iterator", BUFFER), (RESTS, "iterator", OTHER),
     ("Iterator::Root::Prefetch", "iterator", BUFFER), ("Iterator::Root::ParallelMapV2", "iterator", OTHER),
     ("element from localhost:1", "transfer", OTHER), (STARTED, "other", UNKNOWN)],
)  # fmt: skip
def test_what_only_waits_says_for_what(name, category, waits):
    found = by_name(threads(name, category, 2))
    assert found[name] == (0.0, waits)
    assert found["wait for batch"] == (0.0, BUFFER)


def test_a_node_that_runs_no_op_works_itself_until_one_runs_for_it():
    node = "Iterator::Root::BatchV2::Map"
    assert by_name(threads(node, "iterator", 1))[node] == (1.0, "")
    spans = [Span("asks", node, "iterator", NOW, 40 * MS, -1), Span("calls", DECODE, "decode", NOW, 30 * MS, -1)]
    share, waits = by_name(Timeline(Trace.from_spans(spans, origin="measured")))[node]
    assert share == pytest.approx(0.25)
    assert waits == OTHER


def test_calls_of_another_loader_are_on_a_core_as_long_as_each_was_measured():
    times = {"PIL decode": 98, "load": 30}
    times = {name: {"open_ns": 100 * MS, "computed_ns": ms * MS} for name, ms in times.items()}
    spans = [Span("thread 1", "PIL decode", "decode", NOW, 100 * MS, -1)]
    spans += [Span("thread 2", "load", "read", NOW, 100 * MS, -1)]
    found = by_name(Timeline(Trace.from_spans(spans, origin="measured", op_times=times)))
    assert found["PIL decode"] == (1.0, "")
    assert found["load"].share == pytest.approx(0.3)
    assert found["load"].waits == STORAGE


@settings(max_examples=20)
@given(st.integers(1, 16), st.floats(0, 2), st.sampled_from([DECODE, PYTHON, TFRECORD, "Iterator::Root::Map"]))
def test_no_more_cores_are_claimed_than_the_processor_measured(count, busy, name):
    category = {DECODE: "decode", PYTHON: "map", TFRECORD: "read"}.get(name, "iterator")
    timeline = threads(name, category, count, min(busy, count), queued_ms=0.0)
    clock = timeline.run.processor
    assert claimed_cores(timeline) <= 1.15 * (clock.cpu_ns[-1] - clock.cpu_ns[0]) / timeline.span_ns + 0.01


@pytest.mark.parametrize(
    "trace", [gpu_job(), noisy_job(), processes([3, 1], [1, 1]), crowd(2000), Trace.from_spans([])]
)
def test_every_operation_of_a_thread_has_a_state_and_no_other_has_one(trace):
    timeline = Timeline(trace)
    shown = [lane for lane in timeline.lanes if lane.kind not in ("accelerator", "stream")]
    pairs = {pair for lane in shown for pair in zip(lane.category.tolist(), lane.name_id.tolist(), strict=True)}
    assert set(timeline.states) == pairs
    assert "kernel" not in {CATEGORIES[category] for category, _ in timeline.states}
    for share, waits in timeline.states.values():
        assert 0 <= share <= 1
        assert (waits == "") == (share == 1)
        assert waits in ("", *WAITS)
    assert set(WORDS) == set(WAITS)
