"""What each node of a pipeline does: which one calls an op, which works itself, and which makes too much."""

from __future__ import annotations

import pytest

from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

NOW, MS = 1_800_000_000_000_000_000, 1_000_000
ROOT = "Iterator::Root"
BATCH = f"{ROOT}::BatchV2"
STEPS = 5


def recorded(make, **facts):
    """Return a timeline of steps in which the consumer waits for 10 ms, and trains for 10 ms.

    `make(a)` returns (thread, name, category, start ms, end ms) of a wait that begins at `a`.
    """
    rows = []
    for i in range(STEPS):
        a = 20 * i
        rows += [("consumer", "wait for batch", "wait", a, a + 10), ("consumer", "train step", "train", a + 10, a + 20)]
        rows += [("next", ROOT, "iterator", a, a + 10), ("next", BATCH, "batch", a, a + 10), *make(a)]
    spans = [Span(t, n, c, NOW + round(s * MS), round((e - s) * MS), -1) for t, n, c, s, e in rows]
    return Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, warmup=1, **facts))


def calling(node, a, count, *below, thread="worker"):
    """Return `count` calls of a node, one after the other, for which an op runs, in another thread by default."""
    length, spans = 10 / count, []
    for k in range(count):
        start = a + k * length
        spans.append(("next", node, "iterator", start, start + length))
        spans += [("next", f"{node}::{one}", "iterator", start, start + 0.01 * length) for one in below]
        spans.append((thread, "sort/TopKV2:TopKV2", "map", start + 0.05 * length, start + 0.97 * length))
    return spans


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Map", "map(num_parallel_calls=AUTOTUNE): TopKV2 runs on one thread"),
        ("Filter", "a parallel map for what Filter asks"),
        ("TakeWhile", "a parallel map for what TakeWhile asks"),
        ("Scan", "less work inside Scan, whose calls come one after the other: TopKV2 in a parallel map before it"),
        ("FlatMap", "interleave(num_parallel_calls=AUTOTUNE) in place of FlatMap"),
        ("Interleave", "interleave(num_parallel_calls=AUTOTUNE) in place of Interleave"),
    ],
)
@pytest.mark.parametrize("below", ["TensorSlice", "ParallelMapV2"])
@pytest.mark.parametrize("thread", ["worker", "next"])
def test_the_node_that_waits_for_an_op_is_the_one_that_calls_it(kind, says, below, thread):
    timeline = recorded(lambda a: calling(f"{BATCH}::{kind}", a, 4, below, thread=thread))
    assert timeline.stalls.blame == "TopKV2"
    assert says in timeline.stalls.advice


@pytest.mark.parametrize("times", [4, 50])
def test_a_loop_inside_a_map_is_seen_by_how_often_an_op_runs(times):
    def make(a):
        spans = [("next", f"{BATCH}::Map", "iterator", a, a + 9.9)]
        turn = 9.8 / times
        return spans + [("worker", "x/Mul:Mul", "map", a + k * turn, a + (k + 0.9) * turn) for k in range(times)]

    advice = recorded(make).stalls.advice
    assert "map(num_parallel_calls=AUTOTUNE)" in advice
    assert (f"each call of the map runs Mul {times} times" in advice) == (times == 50)


@pytest.mark.parametrize("kind", ["Filter", "GroupByWindow"])
def test_what_a_node_asks_of_each_input_is_no_loop(kind):
    """One of 50 elements passes the filter, and 50 of them make a group."""
    node = f"{BATCH}::{kind}"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9)]
        spans += [("next", f"{node}::TFRecord", "iterator", a + k / 5, a + k / 5 + 0.01) for k in range(49)]
        return spans + [("worker", "x/Mul:Mul", "map", a + (k + 0.1) / 5, a + (k + 0.9) / 5) for k in range(49)]

    assert "loop" not in recorded(make).stalls.advice


def test_the_function_of_an_interleave_is_no_loop_of_the_map_behind_the_batch():
    """Each inner pipeline has one element, and is asked a second time in vain."""
    mixed = f"{BATCH}::ParallelMapV2::BatchV2::ParallelInterleaveV4"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9) for node in (f"{BATCH}::ParallelMapV2", mixed)]
        for node, count in ((f"{mixed}::FromTensor", 96), (f"{mixed}::TensorSlice", 48)):
            spans += [("pool", node, "iterator", a + k / 10, a + k / 10 + 0.01) for k in range(count)]
        return spans + in_threads("DecodeJpeg:DecodeJpeg", a, 48)

    assert "loop" not in recorded(make).stalls.advice


def test_a_parallel_map_is_not_told_to_become_one():
    def make(a):
        return [
            ("next", f"{BATCH}::ParallelMapV2", "iterator", a, a + 10),
            *(("worker", "sort/TopKV2:TopKV2", "map", a + 2.5 * k, a + 2.4 + 2.5 * k) for k in range(4)),
        ]

    assert "map(num_parallel_calls" not in recorded(make).stalls.advice


@pytest.mark.parametrize(("beside", "first"), [(2, True), (8, False)])
def test_a_last_node_without_a_thread_wants_a_prefetch_though_a_map_below_it_works_ahead(beside, first):
    """The map goes on for some milliseconds of the ten in which the accelerator trains."""

    def make(a):
        spans = [("next", f"{BATCH}::ParallelMapV2", "iterator", a, a + 10)]
        return spans + [("worker", "sort/TopKV2:TopKV2", "map", a + b, a + e) for b, e in ((0, 9.9), (10, 10 + beside))]

    assert recorded(make).stalls.advice.startswith("prefetch(AUTOTUNE) as the last step, so that both") == first


@pytest.mark.parametrize(("elements", "says"), [(1, "in place of FlatMap"), (8, "map(num_parallel_calls=AUTOTUNE)")])
def test_a_map_of_one_element_cannot_make_several_at_once(elements, says):
    flat = f"{BATCH}::FlatMap"

    def make(a):
        spans = [("next", flat, "iterator", a, a + 10)]
        spans += [("next", f"{flat}::Range", "iterator", a, a + 0.01)] * (8 // elements)
        return spans + calling(f"{flat}::Map", a, 8, "TensorSlice")

    assert says in recorded(make).stalls.advice


def test_a_node_without_threads_that_nothing_runs_for_works_itself():
    def make(a):
        return [
            ("next", f"{BATCH}::Scan", "iterator", a, a + 8),
            ("next", f"{BATCH}::Scan::Range", "iterator", a, a + 1),
        ]

    timeline = recorded(make)
    assert timeline.causes[2].parts["prep"] == pytest.approx(8 * MS, abs=0.1 * MS)
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("prep", "Scan")
    assert "less work for Scan" in timeline.stalls.advice


def test_a_node_with_threads_of_its_own_that_nothing_runs_for_is_not_accused():
    timeline = recorded(lambda a: [("next", f"{BATCH}::Prefetch", "iterator", a, a + 9.5)])
    assert timeline.stalls.shares["prep"] == 0
    assert "nobody saw" in timeline.stalls.advice


@pytest.mark.parametrize(
    ("between", "count", "says"),
    [
        ("::TensorSlice", 400, "tf.gather the rows of a batch"),
        ("", 400, "rebatch(n) in place of unbatch"),
        ("::Shuffle", 400, "whole batches in place of unbatch"),
        ("", 4, None),
    ],
)
def test_elements_that_go_one_by_one_are_counted(between, count, says):
    node = f"{BATCH}{between}::Unbatch" if between != "::TensorSlice" else f"{BATCH}::Shuffle::TensorSlice"

    def make(a):
        length = 9.9 / count
        spans = [("next", node.rpartition("::")[0], "iterator", a, a + 9.9)] if between else []
        return spans + [("next", node, "iterator", a + k * length, a + (k + 0.9) * length) for k in range(count)]

    advice = recorded(make).stalls.advice
    assert says in advice if says else "unbatch" not in advice


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        ("BatchV2", "x.reshape(-1, n, …)"),
        ("BatchV2::Shuffle", "tf.gather the rows of a batch"),
        ("PaddedBatchV2", None),
        ("BatchV2::Zip", None),
    ],
)
def test_an_array_that_is_sliced_for_a_batch_is_found_below_a_map_of_whole_batches(behind, says):
    """As characters of a text, put together to sequences, and those to batches."""
    above = f"{BATCH}::Shuffle::ForeverRepeat::ParallelMapV2"
    node = f"{above}::{behind}::TensorSlice"

    def make(a):
        spans = [("next", above, "iterator", a, a + 9.9), ("pool", node.rpartition("::")[0], "iterator", a, a + 9.9)]
        spans += [("pool", node, "iterator", a + k / 50, a + (k + 0.9) / 50) for k in range(480)]
        return [*spans, ("pool", "x/StridedSlice:StridedSlice", "map", a + 9.7, a + 9.9)]

    advice = recorded(make).stalls.advice
    assert says in advice if says else "one by one" not in advice


def test_windows_that_begin_a_dataset_each_are_counted():
    flat = f"{BATCH}::FlatMap"

    def make(a):
        spans = []
        for k in range(10):
            spans.append(("next", flat, "iterator", a + k, a + k + 0.9))
            spans.append(("next", f"{flat}::BatchV2", "batch", a + k, a + k + 0.2))
            spans += [("next", f"{flat}::BatchV2::Window", "iterator", a + k + j / 100, a + k + (j + 0.5) / 100)
                      for j in range(16)]  # fmt: skip
        return spans

    assert "in place of window() and flat_map()" in recorded(make).stalls.advice


@pytest.mark.parametrize("ends", [0, 1])
def test_a_cache_that_take_never_lets_get_full_is_told_from_one_that_fills(ends):
    """At the end of an epoch, a take asks nobody."""
    take = f"{BATCH}::ForeverRepeat::FiniteTake"

    def make(a):
        spans = calling(f"{take}::MemoryCacheImpl::Map", a, 4, "TensorSlice")
        calls = [s for s in spans if s[1].endswith("Map")]
        for node in (f"{take}::MemoryCacheImpl", take):
            spans += [(t, node, c, s, e) for t, _, c, s, e in calls]
        return spans + [("next", take, "iterator", a + 9.99, a + 10)] * ends

    assert ("take before the cache" in recorded(make).stalls.advice) == bool(ends)


@pytest.mark.parametrize("skipped", [0, 4])
def test_a_skip_behind_the_work_is_found_by_what_is_made(skipped):
    skip = f"{BATCH}::ForeverRepeat::FiniteSkip"

    def make(a):
        spans = calling(f"{skip}::Map", a, 4 + skipped, "TensorSlice")
        calls = [s for s in spans if s[1].endswith("Map")][-4:]
        return spans + [(t, skip, c, s, e) for t, _, c, s, e in calls]

    advice = recorded(make).stalls.advice
    assert ("skip before the map: 2.0 elements" in advice) == bool(skipped)


@pytest.mark.parametrize(("op", "times"), [("DecodePng:DecodePng", 2), ("while/body/_1/sort/TopKV2:TopKV2", 50)])
@pytest.mark.parametrize("node", ["FiniteSkip", "Shard"])
def test_two_branches_of_a_zip_and_a_loop_are_no_elements_that_are_dropped(node, op, times):
    node, branches = f"{BATCH}::{node}", 2 if times == 2 else 1
    mapped = f"{node}::Zip::Map"

    def make(a):
        spans = [("next", path, "iterator", a, a + 9.9) for path in (node, f"{node}::Zip")]
        spans += [("next", mapped, "iterator", a + 5 * k, a + 5 * k + 9.8 / branches) for k in range(branches)]
        turn = 9.6 / times
        return spans + [("worker", op, "map", a + k * turn, a + (k + 0.9) * turn) for k in range(times)]

    advice = recorded(make).stalls.advice
    assert "before the map" not in advice


def test_a_shard_behind_a_zip_is_told_by_how_much_it_drops():
    node = f"{BATCH}::Shard"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9)]
        for k in range(4):
            begin = a + 2.4 * k
            spans += [("next", path, "iterator", begin, begin + 2.3) for path in (f"{node}::Zip", f"{node}::Zip::Map")]
            spans.append(("worker", "DecodePng:DecodePng", "decode", begin + 0.1, begin + 2.2))
        return spans

    assert "shard before the map: 4.0 elements" in recorded(make).stalls.advice


@pytest.mark.parametrize("parts", [2, 40])
def test_many_parts_are_copied_one_by_one(parts):
    work = {"components": [{"dtype": "float32", "shape": [], "digest": ""}] * parts}
    advice = recorded(lambda a: [], work=work).stalls.advice
    assert (f"an element has {parts} parts" in advice) == (parts == 40)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("CSV", "decode_csv whole batches"),
        ("ForeverRepeat::Load::ParallelInterleaveV4::SnapshotDatasetReader", "compression=None"),
        ("FileCacheImpl", "cache() in memory"),
        ("TextLine", "GZIP"),
    ],
)
def test_a_source_that_computes_is_told_what_helps_it(source, says):
    """The processor is busy while the source reads, and rests while the accelerator works."""
    clock = {
        "at_ns": [NOW + t * MS for t in range(20 * STEPS + 1)],
        "cpu_ns": [(10 * (t // 20) + min(10, t % 20)) * MS for t in range(20 * STEPS + 1)],
    }
    timeline = recorded(
        lambda a: [("next", f"{BATCH}::{source}", "read", a + 0.1, a + 9.9)], processor=clock, host={"cpus": 2}
    )
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("prep", source.rpartition("::")[2])
    assert says in timeline.stalls.advice


def in_threads(op, a, count, threads=2, length=10.0):
    """Return `count` runs of an op, spread over threads that work at once for so many milliseconds."""
    each = length * threads / count
    return [(f"worker {k % threads}", op, "map", a + k // threads * each, a + (k // threads + 0.98) * each)
            for k in range(count)]  # fmt: skip


def test_calls_of_a_map_that_is_fused_with_its_batch_are_no_loop():
    batches = f"{BATCH}::ParallelMapV2"

    def make(a):
        spans = [("next", batches, "iterator", a, a + 9.9), ("pool", f"{batches}::MapAndBatch", "iterator", a, a + 9.9)]
        return spans + in_threads("DecodeJpeg:DecodeJpeg", a, 64)

    advice = recorded(make).stalls.advice
    assert "DecodeJpeg keeps several threads busy" in advice
    assert "loop" not in advice


def test_a_loop_in_a_map_that_is_fused_with_its_batch_is_seen_by_what_it_asks_for():
    fused = f"{BATCH}::MapAndBatch"

    def make(a):
        spans = [("next", fused, "iterator", a, a + 9.9)]
        spans += [("pool", f"{fused}::TensorSlice", "iterator", a + k, a + k + 0.01) for k in range(4)]
        return spans + in_threads("while/body/_1/x/Mul:Mul", a, 200)

    assert "each call of the map runs Mul 50 times" in recorded(make).stalls.advice


@pytest.mark.parametrize("turns", [4, 50])
def test_a_loop_whose_time_lies_in_many_ops_is_seen_beside_an_op_that_took_more_than_each(turns):
    def make(a):
        spans, turn = [("next", f"{BATCH}::Map", "iterator", a, a + 9.9)], 6 / turns
        spans += [("worker", "map/TensorListStack:TensorListStack", "map", a + 6.1, a + 9.8)]
        for k in range(turns):
            for n, op in enumerate(("Mul", "Slice")):
                start = a + (k + n / 2) * turn
                spans.append(("worker", f"map/while/body/_1/{op}:{op}", "map", start, start + 0.48 * turn))
        return spans

    timeline = recorded(make)
    assert timeline.stalls.blame == "TensorListStack"
    assert ("in place of a loop" in timeline.stalls.advice) == (turns == 50)


@pytest.mark.parametrize(
    ("events", "kind", "says"), [(9000, "modelled", True), (90, "modelled", False), (9000, "real", False)]
)
@pytest.mark.parametrize("below", ["Map", "MapAndBatch"])
def test_a_loop_of_ops_too_short_for_the_profiler_is_seen_by_the_events_that_it_leaves(below, events, kind, says):
    node = f"{BATCH}::{below}"

    def make(a):
        ops = [("worker", "Cast:Cast", "map", a + 2 * k + 0.1, a + 2 * k + 0.4) for k in range(5)]
        return [("next", node, "iterator", a, a + 9.9), ("next", f"{node}::Range", "iterator", a, a + 0.1), *ops]

    facts = {"profiler": {"events": events * STEPS, "profiled_steps": STEPS}, "accelerator": {"kind": kind}}
    assert ("in place of a loop" in recorded(make, **facts).stalls.advice) == says


def test_an_op_that_stands_at_many_places_of_a_function_is_no_loop():
    def make(a):
        spans = [("next", f"{BATCH}::Map", "iterator", a, a + 9.9)]
        return spans + [("worker", f"x/Mul_{k}:Mul", "map", a + k / 5, a + (k + 0.9) / 5) for k in range(48)]

    assert "loop" not in recorded(make).stalls.advice


@pytest.mark.parametrize("below", ["TFRecord", "TensorSlice", "Unbatch::TFRecord", "Map"])
def test_what_works_beside_a_parallel_map_does_not_call_its_ops(below):
    """The reader works for most of the time, and the map, on two threads, for all of it."""
    parallel = f"{BATCH}::ParallelMapV2"

    def make(a):
        reads = [("pool", f"{parallel}::{below}", "iterator", a + k, a + k + 0.75) for k in range(10)]
        return [("next", parallel, "iterator", a, a + 9.9), *reads, *in_threads("DecodeJpeg:DecodeJpeg", a, 20)]

    advice = recorded(make).stalls.advice
    assert "DecodeJpeg keeps several threads busy" in advice
    assert "inside" not in advice
    assert "one thread" not in advice


@pytest.mark.parametrize(
    ("below", "ops"),
    [
        ("::BatchV2::ParallelMapV2", ["DecodeJpeg:DecodeJpeg"] * 16),
        ("::MapAndBatch", ["DecodeJpeg:DecodeJpeg"] * 16),
        ("::Map", ["DecodeJpeg:DecodeJpeg", "DecodeJpeg_1:DecodeJpeg"]),
    ],
)
def test_a_skip_that_skips_nothing_is_not_accused_of_throwing_away(below, ops):
    """An element of a batch is none of what is skipped, and two photos of one element are one element."""
    skip = f"{BATCH}::FiniteSkip"

    def make(a):
        spans = [("next", skip, "iterator", a, a + 9.9), ("next", f"{skip}{below}", "iterator", a, a + 9.8)]
        length = 9.6 / len(ops)
        return spans + [("worker", op, "map", a + k * length, a + (k + 0.95) * length) for k, op in enumerate(ops)]

    assert "skip before" not in recorded(make).stalls.advice


@pytest.mark.parametrize("above", ["MapAndBatch", "PaddedBatchV2"])
def test_a_map_or_a_padding_behind_unbatch_is_not_dropped(above):
    node = f"{ROOT}::{above}::Unbatch"

    def make(a):
        length = 9.9 / 400
        spans = [("next", node.rpartition("::")[0], "iterator", a, a + 9.9)]
        return spans + [("next", node, "iterator", a + k * length, a + (k + 0.9) * length) for k in range(400)]

    assert "whole batches in place of unbatch" in recorded(make).stalls.advice


def test_inner_pipelines_that_began_before_the_window_are_not_said_to_be_short():
    def make(a):
        return [
            ("next", f"{BATCH}::FlatMap", "iterator", a, a + 10),
            *calling(f"{BATCH}::FlatMap::Map", a, 8, "TFRecord"),
        ]

    advice = recorded(make).stalls.advice
    assert "map(num_parallel_calls=AUTOTUNE)" in advice
    assert "FlatMap" not in advice


@pytest.mark.parametrize(("node", "place"), [("TensorSlice", "prefetch behind it"), ("Scan", "what comes before it")])
def test_nothing_comes_before_a_source(node, place):
    def make(a):
        below = [("next", f"{BATCH}::Scan::Range", "iterator", a, a + 1)] if node == "Scan" else []
        return [("next", f"{BATCH}::{node}", "iterator", a, a + 8), *below]

    assert place in recorded(make).stalls.advice


@pytest.mark.parametrize("last", ["Prefetch", "ForeverRepeat::Prefetch", "FiniteTake::ForeverRepeat::ParallelMapV2"])
def test_a_thread_below_nodes_that_only_pass_on_works_ahead(last):
    def make(a):
        spans = [("next", f"{ROOT}::{last}", "iterator", a, a + 9.9)]
        return [*spans, ("worker", "sort/TopKV2:TopKV2", "map", a, a + 14)]

    assert "as the last step" not in recorded(make).stalls.advice


def test_rows_behind_a_filter_are_not_told_to_be_gathered():
    node = f"{BATCH}::Shuffle::Filter"

    def make(a):
        length = 9.9 / 400
        return [
            ("next", path, "iterator", a + k * length, a + (k + 0.9) * length)
            for path in (node, f"{node}::TensorSlice")
            for k in range(400)
        ]

    assert "tf.gather" not in recorded(make).stalls.advice


def test_values_of_files_are_taken_by_a_parallel_map_in_place_of_a_loop():
    def make(a):
        spans = [("next", f"{BATCH}::Map", "iterator", a, a + 9.9)]
        return spans + [
            ("worker", "map/DecodeJpeg:DecodeJpeg", "decode", a + k / 5, a + (k + 0.9) / 5) for k in range(48)
        ]

    assert "a parallel map of single elements" in recorded(make).stalls.advice


# -- advice that knows what the pipeline has ---------------------------------------------------------


@pytest.mark.parametrize(
    ("below", "grows"), [("ForeverRepeat", True), ("Zip::ForeverRepeat", False), ("FiniteRepeat", False)]
)
@pytest.mark.parametrize("kind", ["MemoryCacheImpl", "FileCacheImpl"])
def test_a_cache_of_what_is_repeated_for_ever_is_never_read(kind, below, grows):
    cache = f"{BATCH}::{kind}"

    def make(a):
        path = f"{cache}::ParallelMapV2::{below}"
        spans = [("next", node, "iterator", a, a + 9.9) for node in (cache, f"{cache}::ParallelMapV2")]
        spans += [("pool", node, "iterator", a, a + 0.1) for node in (path, f"{path}::TensorSlice")]
        return [*spans, *in_threads("DecodeJpeg:DecodeJpeg", a, 20)]

    assert recorded(make).stalls.advice.startswith("repeat() behind the cache") == grows


def test_a_cache_that_fills_is_told_from_none_also_where_threads_wait_for_a_core():
    cache = f"{BATCH}::MemoryCacheImpl"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9) for node in (cache, f"{cache}::ParallelMapV2")]
        spans += [("worker 1", "DecodeJpeg:DecodeJpeg", "decode", a, a + 9.8)]
        return [*spans, ("worker 2", "DecodeJpeg:DecodeJpeg", "decode", a + 5, a + 8)]

    clock = {"at_ns": [NOW, NOW + 20 * STEPS * MS], "cpu_ns": [0, 10 * STEPS * MS], "queued_ns": 10 * STEPS * MS}
    advice = recorded(make, processor=clock).stalls.advice
    assert "waits for a core" in advice
    assert "record later epochs (a larger warmup)" in advice


@pytest.mark.parametrize("full", [True, False, None])
def test_a_cache_is_never_put_behind_what_is_random_and_one_that_fills_is_told_from_a_full_one(full):
    cache = f"{BATCH}::ParallelMapV2::MemoryCacheImpl"

    def make(a):
        spans = [("next", f"{BATCH}::ParallelMapV2", "iterator", a, a + 9.9)]
        spans += [("pool", cache, "iterator", a, a + 0.1)] * (full is not None)
        spans += [("pool", f"{cache}::TensorSlice", "iterator", a, a + 0.05)] * (full is False)
        return [*spans, *in_threads("AdjustHue:AdjustHue", a, 20)]

    advice = recorded(make).stalls.advice
    assert "AdjustHue keeps several threads busy" in advice
    assert "random" in advice
    assert ("record later epochs (a larger warmup)" in advice) == (full is False)
    assert ("cache behind it" in advice) == (full is not None)


def test_a_file_that_is_being_written_is_not_called_read():
    def make(a):
        return [
            ("next", f"{BATCH}::FileCacheImpl", "read", a + 0.1, a + 9.9),
            ("next", f"{BATCH}::FileCacheImpl::TensorSlice", "iterator", a + 0.2, a + 0.3),
        ]

    advice = recorded(make).stalls.advice
    assert "it writes its file, which it does once" in advice
    assert "in each epoch, since" not in advice


@pytest.mark.parametrize("op", ["DecodePng", "ReadFile", "DecodeWav", "DecodeRaw"])
def test_what_takes_one_value_only_is_not_told_to_take_a_batch(op):
    def make(a):
        node, length = f"{BATCH}::ParallelMapV2", 9.9 / 128
        spans = [("next", node, "iterator", a + k * length, a + (k + 0.9) * length) for k in range(128)]
        return spans + [("worker", f"{op}:{op}", "decode", a + k * length, a + (k + 0.2) * length) for k in range(128)]

    assert ("batch before the map" in recorded(make).stalls.advice) == (op == "DecodeRaw")


def test_what_draws_from_several_datasets_is_no_map_of_the_reader():
    drawn = f"{BATCH}::DirectedInterleave"

    def make(a):
        length, spans = 9.9 / 256, []
        for k in range(256):
            b, e = a + k * length, a + (k + 0.9) * length
            spans.append(("next", drawn, "iterator", b, e))
            spans.append(("next", f"{drawn}::Map", "iterator", b, b + 0.2 * length))
            spans.append(("next", f"{drawn}::Map::BatchV2::Random", "iterator", b, b + 0.05 * length))
        return spans

    advice = recorded(make).stalls.advice
    assert "before the map" not in advice
    assert "Batch before sample_from_datasets" in advice


@pytest.mark.parametrize("fused", ["ParallelMapV2", "MapAndBatch"])
def test_a_map_that_reads_and_works_in_turn_has_calls_enough(fused):
    """Each of two threads reads for half of its time: of the work alone, there is 1.3 at a time."""
    node = f"{BATCH}::{fused}"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9)]
        for thread, first in (("worker 1", 0.0), ("worker 2", 1.3)):
            for k in range(3):
                b = a + first + 2.6 * k
                spans.append((thread, "ReadFile:ReadFile", "read", b, b + 1.2))
                spans.append((thread, "DecodeJpeg:DecodeJpeg", "decode", b + 1.2, min(b + 2.6, a + 9.9)))
        return spans

    timeline = recorded(make)
    assert "on one at a time" not in timeline.stalls.advice
    assert "runs on one thread" not in timeline.stalls.advice
    assert "read in a parallel map" not in timeline.stalls.advice


def test_a_parallel_map_that_reads_is_told_to_make_more_calls():
    def make(a):
        return [
            ("next", f"{BATCH}::ParallelMapV2", "iterator", a, a + 9.9),
            ("worker", "ReadFile:ReadFile", "read", a, a + 9.8),
        ]

    advice = recorded(make).stalls.advice
    assert "num_parallel_calls=16" in advice
    assert "read in a parallel map" not in advice


def test_a_filter_before_the_expensive_map_is_where_it_belongs():
    """The work stands behind it, so nothing of it is thrown away; the cheap map below is asked twice as often."""
    filtered = f"{BATCH}::Map::Filter"

    def make(a):
        spans = calling(f"{BATCH}::Map", a, 4)
        calls = [s for s in spans if s[1].endswith("Map")]
        spans += [("next", filtered, "iterator", s, s + 0.1) for _, _, _, s, _ in calls]
        for below in (f"{filtered}::Map", f"{filtered}::Map::TFRecord"):
            spans += [("next", below, "iterator", s + k, s + k + 0.02) for _, _, _, s, _ in calls for k in (0, 0.05)]
        return spans

    advice = recorded(make).stalls.advice
    assert "filter before the map" not in advice
    assert "map(num_parallel_calls=AUTOTUNE): TopKV2 runs on one thread" in advice


def test_a_filter_that_is_costly_itself_is_not_told_to_stand_before_a_cheap_map():
    """Its predicate runs for four elements, of which one passes."""
    node = f"{BATCH}::Filter"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9)]
        for k in range(4):
            spans.append(("next", f"{node}::Map", "iterator", a + 2.4 * k, a + 2.4 * k + 0.05))
            spans.append(("worker", "sort/TopKV2:TopKV2", "map", a + 2.4 * k + 0.1, a + 2.4 * (k + 1)))
        return spans

    advice = recorded(make, images=STEPS).stalls.advice
    assert "before the map" not in advice
    assert "a parallel map for what Filter asks" in advice


def test_a_shard_of_names_is_not_charged_with_what_their_records_cost():
    files = f"{BATCH}::Map::Interleave[0]"

    def make(a):
        spans = calling(f"{BATCH}::Map", a, 8)
        spans += [
            ("next", f"{BATCH}::Map::Interleave", "iterator", s, s + 0.1) for _, n, _, s, _ in spans if "Map" in n
        ]
        below = [(f"{files}::Shard", 0, 0.05), (f"{files}::Shard::Map", 0, 0.02)]
        return spans + [("next", path, "iterator", a + b, a + b + length) for path, b, length in below]

    assert "shard before the map" not in recorded(make).stalls.advice


@pytest.mark.parametrize("parallel", ["", "::ParallelInterleaveV4", "::LegacyParallelInterleaveV2"])
def test_files_that_are_read_together_are_not_told_to_be(parallel):
    clock = {
        "at_ns": [NOW + t * MS for t in range(20 * STEPS + 1)],
        "cpu_ns": [(10 * (t // 20) + min(10, t % 20)) * MS for t in range(20 * STEPS + 1)],
    }

    def make(a):
        above = [("next", f"{BATCH}{parallel}", "iterator", a, a + 9.95)] if parallel else []
        return [*above, ("pool" if parallel else "next", f"{BATCH}{parallel}::TFRecord", "read", a + 0.1, a + 9.9)]

    found = recorded(make, processor=clock, host={"cpus": 2}).stalls
    assert "GZIP" in found.advice
    assert ("read several files at once" in found.advice) == (not parallel)


def test_buckets_are_told_to_be_narrower():
    group = f"{ROOT}::GroupByWindow"

    def make(a):
        inner = ("next", f"{group}::PaddedBatchV2", "batch", a + 0.1, a + 9.8)
        return [("next", group, "iterator", a, a + 9.9), inner]

    advice = recorded(make).stalls.advice
    assert "more bucket_boundaries" in advice
    assert "bucket_by_sequence_length" not in advice


@pytest.mark.parametrize("share", [0.5, 0.01, None])
def test_a_padding_that_fills_little_up_is_told_to_copy_less(share):
    node = ("next", f"{ROOT}::PaddedBatchV2", "batch", 0, 0)
    work = {} if share is None else {"padded": share}
    advice = recorded(lambda a: [(*node[:3], a + 0.1, a + 9.9)], work=work).stalls.advice
    assert ("fewer padded values" in advice) == (share != 0.01)
    assert ("less to copy into a batch" in advice) == (share == 0.01)
    assert "num_parallel_calls" not in advice, "padded_batch has none"


@pytest.mark.parametrize(("shape", "small"), [([8], True), ([2, 3], True), ([64, 64, 3], False), (None, False)])
def test_small_elements_are_not_told_to_be_smaller_nor_to_be_batched_in_parallel(shape, small):
    """To hand them over takes longer than to copy them, and between threads it takes longer still."""
    work = {"components": [{"dtype": "float32", "shape": shape, "digest": ""}]}
    advice = recorded(lambda a: [("next", f"{BATCH}::Sql", "iterator", a, a + 0.1)], work=work).stalls.advice
    assert ("fewer, larger elements for a batch" in advice) == small
    assert ("batch(num_parallel_calls=AUTOTUNE)" in advice) == (not small)


@pytest.mark.parametrize("blame", ["copying into the batch", f"{BATCH}"])
def test_a_fused_map_is_not_told_to_copy_in_parallel_which_it_does(blame):
    def make(a):
        node = f"{BATCH}::MapAndBatch"
        spans = [("next", node, "iterator", a + 0.1, a + 9.9)] if blame != BATCH else []
        return [*spans, ("worker", blame, "batch", a + 0.1, a + 9.9)]

    advice = recorded(make).stalls.advice
    assert "less to copy into a batch" in advice
    assert ("batch(num_parallel_calls=AUTOTUNE)" in advice) == (blame == BATCH)


def test_frames_of_a_clip_are_not_called_dropped():
    """Two clips in a batch, eight frames in a clip: nothing is thrown away."""
    frames = f"{ROOT}::BatchV2::BatchV2::Map"
    advice = recorded(lambda a: calling(frames, a, 16), images=2 * STEPS).stalls.advice
    assert "for each one that a batch holds" not in advice
    assert "map(num_parallel_calls=AUTOTUNE)" in advice


def test_frames_that_a_window_holds_are_not_called_dropped():
    """Each of two clips in a batch is a window of eight frames."""
    clips = f"{BATCH}::FlatMap"

    def make(a):
        nodes = (clips, f"{clips}::Window", f"{clips}::BatchV2")
        spans = [("next", path, "iterator", a, a + 9.9) for path in nodes]
        for k in range(16):
            spans.append(("next", f"{clips}::BatchV2::Window", "iterator", a + k / 2, a + k / 2 + 0.01))
        return spans + calling(f"{clips}::Window::Map", a, 16)

    assert "for each one that a batch holds" not in recorded(make, images=2 * STEPS).stalls.advice


@pytest.mark.parametrize("unordered", [True, False])
@pytest.mark.parametrize(("source", "more"), [("TensorSlice", "more calls at once"), ("TFRecord", "smaller shards")])
def test_a_straggler_is_told_what_the_map_has_not_yet(unordered, source, more):
    """Of seven reads, the last keeps all waiting."""
    node = f"{BATCH}::ParallelMapV2"

    def make(a):
        spans = [("next", node, "iterator", a, a + 9.9), ("pool", f"{node}::{source}", "iterator", a, a + 0.01)]
        short = [("worker 1", "ReadFile:ReadFile", "read", a + 10 + k, a + 10.1 + k) for k in range(6)]
        return [*spans, *short, ("worker 2", "ReadFile:ReadFile", "read", a + 0.1, a + 9.8)]

    advice = recorded(make, work={"unordered": unordered}).stalls.advice
    assert "a straggler keeps all others waiting" in advice
    assert more in advice
    assert ("deterministic=False" in advice) != unordered


@pytest.mark.parametrize(
    ("node", "cores", "says"),
    [
        ("Map", 1, "needs only map(num_parallel_calls=AUTOTUNE)"),
        ("ParallelMapV2", 2, "so it lets go of the interpreter."),
        ("ParallelMapV2", 1, "the interpreter lets one thread run at a time."),
    ],
)
def test_a_python_function_can_let_go_of_the_interpreter(node, cores, says):
    clock = {
        "at_ns": [NOW + t * MS for t in range(20 * STEPS + 1)],
        "cpu_ns": [cores * (10 * (t // 20) + min(10, t % 20)) * MS for t in range(20 * STEPS + 1)],
    }

    def make(a):
        ops = in_threads("PyFunc:PyFunc", a, 2 if node == "Map" else 4, 1 if node == "Map" else 2)
        return [("next", f"{BATCH}::{node}", "iterator", a, a + 9.9), *ops]

    advice = recorded(make, processor=clock, host={"cpus": 2}).stalls.advice
    assert "TensorFlow ops in place of the Python function" in advice
    assert says in advice
    assert ("AUTOTUNE)" in advice.partition("TensorFlow")[2]) == (node == "Map")


@pytest.mark.parametrize("size", [None, "16"])
@pytest.mark.parametrize("calls", [1, 2])
def test_more_calls_of_python_at_once_are_told_the_threads_that_they_need(calls, size):
    """A pool has a thread for each core, and a call that waits holds one."""
    node = f"{BATCH}::{'Map' if calls == 1 else 'ParallelMapV2'}"
    clock = {"at_ns": [NOW + t * MS for t in range(20 * STEPS + 1)], "cpu_ns": [0] * (20 * STEPS + 1)}

    def make(a):
        return [("next", node, "iterator", a, a + 9.9), *in_threads("PyFunc:PyFunc", a, 2 * calls, calls)]

    options = {"threading.private_threadpool_size": size} if size else {}
    advice = recorded(make, processor=clock, host={"cpus": 2}, options=options).stalls.advice
    assert "num_parallel_calls=16" in advice or "make more calls at once" in advice
    assert ("private_threadpool_size=16" in advice) == (size is None)


def test_generators_that_run_together_are_no_loop_of_a_map():
    """Two of them, in threads of interleave, for a map that takes their numbers by the batch."""

    def make(a):
        spans = [("next", f"{BATCH}::Map", "iterator", a, a + 9.9)]
        spans += [("next", f"{BATCH}::Map::ParallelInterleaveV4", "iterator", a, a + 9.9)]
        spans += [(f"worker {k}", "Iterator::Generator", "iterator", a, a + 0.1) for k in (0, 1)]
        return spans + in_threads("PyFunc:PyFunc", a, 200)

    advice = recorded(make).stalls.advice
    assert "Python generators" in advice
    assert "loop" not in advice


def many_calls(node, a, count=128, *around):
    """Return `count` calls of a node, one after the other, and one each of what stands around it."""
    length, spans = 9.9 / count, []
    for k in range(count):
        spans += [("next", path, "iterator", a + k * length, a + (k + 0.9) * length) for path in (*around, node)]
    return spans


@pytest.mark.parametrize("random", [True, False])
def test_what_a_small_map_draws_is_to_be_drawn_for_each_element(random):
    advice = recorded(lambda a: many_calls(f"{BATCH}::ParallelMapV2", a), work={"random": random}).stalls.advice
    assert "batch before the map" in advice
    assert ("drawn for each element" in advice) == random


@pytest.mark.parametrize("node", ["PaddedBatchV2", "GroupByWindow::PaddedBatchV2", "GroupByWindow"])
def test_rows_that_are_padded_or_grouped_by_length_are_not_batched_before_their_map(node):
    advice = recorded(lambda a: many_calls(f"{ROOT}::{node}::ParallelMapV2", a)).stalls.advice
    assert "batch before the map" not in advice


@pytest.mark.parametrize(("shape", "even"), [([3], True), ([None, 3], False), (None, False)])
def test_rows_of_several_lengths_are_not_batched_before_their_map(shape, even):
    work = {"components": [{"dtype": "int32", "shape": [], "digest": ""}, {"dtype": "f", "shape": shape, "digest": ""}]}
    advice = recorded(lambda a: many_calls(f"{BATCH}::ParallelMapV2", a), work=work).stalls.advice
    assert ("batch before the map" in advice) == even


def test_windows_of_a_series_by_keras_are_told_to_be_gathered():
    """Both maps are those of Keras."""
    mapped = f"{BATCH}::Prefetch::Zip::ParallelMapV2"
    inner = f"{mapped}::Zip::ParallelMapV2"
    advice = recorded(lambda a: many_calls(mapped, a, 128, inner, f"{inner}::Zip::ForeverRepeat::FromTensor"))
    assert "in place of timeseries_dataset_from_array" in advice.stalls.advice
    assert "batch before the map" not in advice.stalls.advice


def test_weights_that_are_a_dataset_are_no_map_of_the_reader():
    drawn = f"{BATCH}::DirectedInterleave"
    nodes = (f"{drawn}::ParallelMapV2", f"{drawn}::ParallelMapV2::Zip::ParallelMapV2")
    random = f"{drawn}::ParallelMapV2::Zip::BatchV2::Random"
    advice = [recorded(lambda a, n=n: many_calls(drawn, a, n, *nodes, random)).stalls.advice for n in (256, 512)]
    assert not [one for one in advice if "before the map" in one]
    assert "Batch before sample_from_datasets" in advice[1], "elements that take next to nothing"


def test_who_draws_from_what_a_filter_lets_through_can_draw_batches():
    drawn = f"{BATCH}::DirectedInterleave"
    kept = f"{drawn}::Filter::ParallelMapV2::Zip"
    random = f"{drawn}::ParallelMapV2::BatchV2::Random"
    advice = recorded(lambda a: many_calls(drawn, a, 512, kept, random)).stalls.advice
    assert "Batch before sample_from_datasets" in advice


@pytest.mark.parametrize("below", ["ForeverRepeat::Range", "Range"])
def test_who_chooses_in_turn_is_not_told_to_batch_what_is_drawn(below):
    chosen = f"{BATCH}::DirectedInterleave"
    advice = recorded(lambda a: many_calls(chosen, a, 512, f"{chosen}::{below}")).stalls.advice
    assert "sample_from_datasets" not in advice


def test_the_maps_of_a_resampling_are_not_told_to_take_batches():
    """They ask for the class of each element, so that a batch has none."""
    drawn = f"{BATCH}::DirectedInterleave"
    random = f"{drawn}::ParallelMapV2::Zip::BatchV2::Random"
    kept = f"{drawn}::Prefetch::ParallelMapV2::Filter::ParallelMapV2"
    nodes = (random, kept, f"{kept}::Zip::Map", f"{kept}::Zip::Map::Zip::ForeverRepeat::FromTensor")
    advice = recorded(lambda a: many_calls(drawn, a, 512, *nodes)).stalls.advice
    assert "sample_from_datasets" not in advice
    assert "batch before the map" not in advice
    assert "timeseries" not in advice


@pytest.mark.parametrize("node", ["ParallelMapV2", "MapAndBatch"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_generator_is_told_from_the_parallel_map_behind_it_by_how_long_it_takes(node, waits):
    """Both are calls of Python, by an op of one name."""

    def make(a):
        spans = [("next", f"{BATCH}::{node}", "iterator", a, a + 9.9)]
        end = a + (9.8 if waits else 0.5)
        spans.append(("pool", f"{BATCH}::{node}::FlatMap::Generator", "iterator", a, end))
        return spans + in_threads("PyFunc:PyFunc", a, 20)

    assert ("several generators" in recorded(make).stalls.advice) == waits


@pytest.mark.parametrize("op", ["PyFunc", "EagerPyFunc"])
def test_a_python_function_of_a_map_beside_a_generator_is_not_called_the_generator(op):
    def make(a):
        node = f"{BATCH}::Map"
        spans = [
            ("next", node, "iterator", a, a + 9.9),
            ("next", f"{node}::FlatMap::Generator", "iterator", a, a + 0.1),
        ]
        return [*spans, ("worker", f"{op}:{op}", "map", a + 0.2, a + 9.8)]

    assert "several generators" not in recorded(make).stalls.advice
