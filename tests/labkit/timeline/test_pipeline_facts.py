"""What a pipeline shows of itself: which node calls an op, which works itself, and which makes too much."""

from __future__ import annotations

import pytest

from labkit.timeline.heading import heading
from labkit.timeline.run import WrittenNode
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

NOW, MS = 1_800_000_000_000_000_000, 1_000_000
ROOT = "Iterator::Root"
BATCH = f"{ROOT}::BatchV2"
STEPS = 5
PARALLEL = f"{BATCH}::ParallelMapV2"
#: The processor is busy while the pipeline works, and rests while the accelerator does.
CLOCK = {
    "at_ns": [NOW + t * MS for t in range(20 * STEPS + 1)],
    "cpu_ns": [(10 * (t // 20) + min(10, t % 20)) * MS for t in range(20 * STEPS + 1)],
}
IDLE = CLOCK | {"cpu_ns": [0] * (20 * STEPS + 1)}


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


def said(make, **facts):
    """Return the rule that is said of a timeline, the last one where one goes on."""
    return recorded(make, **facts).stalls.rules[-1]


def calling(node, a, count, *below, thread="worker"):
    """Return `count` calls of a node, one after the other, for which an op runs, in another thread by default."""
    length, spans = 10 / count, []
    for k in range(count):
        start = a + k * length
        spans.append(("next", node, "iterator", start, start + length))
        spans += [("next", f"{node}::{one}", "iterator", start, start + 0.01 * length) for one in below]
        spans.append((thread, "sort/TopKV2:TopKV2", "map", start + 0.05 * length, start + 0.97 * length))
    return spans


def in_threads(op, a, count, threads=2, length=10.0):
    """Return `count` runs of an op, spread over threads that work at once for so many milliseconds."""
    each = length * threads / count
    return [(f"worker {k % threads}", op, "map", a + k // threads * each, a + (k // threads + 0.98) * each)
            for k in range(count)]  # fmt: skip


def many_calls(node, a, count=128, *around):
    """Return `count` calls of a node, one after the other, and one each of what stands around it."""
    length, spans = 9.9 / count, []
    for k in range(count):
        spans += [("next", path, "iterator", a + k * length, a + (k + 0.9) * length) for path in (*around, node)]
    return spans


def asked(*paths, thread="next"):
    """Return a function that returns one long call of each node."""
    return lambda a: [(thread, path, "iterator", a, a + 9.9) for path in paths]


def working(path, op, count, **threads):
    """Return a function that returns one long call of a node, and beside it so many runs of an op, as `in_threads`."""
    return lambda a: [*asked(path)(a), *in_threads(op, a, count, **threads)]


# -- who calls an op, and who works itself ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["Map", "Filter", "TakeWhile", "Scan", "FlatMap", "Interleave"])
@pytest.mark.parametrize("below", ["TensorSlice", "ParallelMapV2"])
@pytest.mark.parametrize("thread", ["worker", "next"])
def test_the_node_that_waits_for_an_op_is_the_one_that_calls_it(kind, below, thread):
    timeline = recorded(lambda a: calling(f"{BATCH}::{kind}", a, 4, below, thread=thread))
    assert timeline.stalls.blame == "TopKV2"
    assert timeline.stalls.rules[-1] == ("prep.parallel-map" if kind == "Map" else "prep.in-turn")
    assert kind == "Map" or f"before {kind}," in timeline.stalls.advice


def test_a_parallel_map_is_not_told_to_become_one():
    rule = said(lambda a: [*asked(PARALLEL)(a), *in_threads("sort/TopKV2:TopKV2", a, 4, threads=1)])
    assert rule == "prep.less-work"


@pytest.mark.parametrize("below", ["TFRecord", "TensorSlice", "Unbatch::TFRecord", "Map"])
def test_what_works_beside_a_parallel_map_does_not_call_its_ops(below):
    """The reader works for most of the time, and the map, on two threads, for all of it."""

    def make(a):
        reads = [("pool", f"{PARALLEL}::{below}", "iterator", a + k, a + k + 0.75) for k in range(10)]
        return [*asked(PARALLEL)(a), *reads, *in_threads("DecodeJpeg:DecodeJpeg", a, 20)]

    assert said(make) == "prep.less-work"


def test_a_parallel_map_that_reads_is_not_told_to_read_in_one():
    read = ("worker", "ReadFile:ReadFile", "read")
    assert said(lambda a: [*asked(PARALLEL)(a), (*read, a, a + 9.8)]) == "fetch.more-reads"
    assert said(lambda a: [*asked(f"{BATCH}::Map")(a), (*read, a, a + 9.8)]) == "fetch.parallel-reads"


@pytest.mark.parametrize(("reads", "rule"), [("TFRecord", "fetch.longer-cycle"), ("ReadFile", "fetch.more-reads")])
def test_a_pool_of_threads_is_for_reads_in_a_map_and_not_for_an_interleave(reads, rule):
    """An interleave has threads of its own; an op that reads a file is called by the map above it."""
    node = f"{PARALLEL}::ParallelInterleaveV4"
    name = f"{node}::TFRecord" if reads == "TFRecord" else "ReadFile:ReadFile"
    threads = ("worker 1", "worker 2")
    assert said(lambda a: [*asked(PARALLEL, node)(a), *((one, name, "read", a, a + 9.8) for one in threads)]) == rule


def test_a_node_without_threads_that_nothing_runs_for_works_itself():
    scan = f"{BATCH}::Scan"
    timeline = recorded(lambda a: [("next", scan, "iterator", a, a + 8), ("next", f"{scan}::Range", "map", a, a + 1)])
    assert timeline.causes[2].parts["prep"] == pytest.approx(8 * MS, abs=0.1 * MS)
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("prep", "Scan")
    assert timeline.stalls.rules[-1] == "prep.node"


def test_a_node_with_threads_of_its_own_that_nothing_runs_for_is_not_accused():
    timeline = recorded(lambda a: [("next", f"{BATCH}::Prefetch", "iterator", a, a + 9.5)])
    assert timeline.stalls.shares["prep"] == 0
    assert timeline.stalls.rules[-1] == "run.unseen"


# -- work ahead ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("beside", "turns"), [(2, True), (8, False)])
def test_a_last_node_without_a_thread_wants_a_prefetch_though_a_map_below_it_works_ahead(beside, turns):
    """The map goes on for some milliseconds of the ten in which the accelerator trains."""

    def make(a):
        ops = [("worker", "sort/TopKV2:TopKV2", "map", a + b, a + e) for b, e in ((0, 9.9), (10, 10 + beside))]
        return [*asked(PARALLEL)(a), *ops]

    assert (recorded(make).stalls.rules[0] == "prefetch.last-step") == turns


@pytest.mark.parametrize("last", ["Prefetch", "ForeverRepeat::Prefetch", "FiniteTake::ForeverRepeat::ParallelMapV2"])
def test_a_thread_below_nodes_that_only_pass_on_works_ahead(last):
    def make(a):
        return [*asked(f"{ROOT}::{last}")(a), ("worker", "sort/TopKV2:TopKV2", "map", a, a + 14)]

    assert "prefetch.last-step" not in recorded(make).stalls.rules


# -- loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [4, 50])
@pytest.mark.parametrize("node", ["Map", "MapAndBatch"])
def test_a_loop_inside_a_map_is_seen_by_how_often_an_op_runs(turns, node):
    """A map that is fused with its batch calls its function for each element that it asks for."""
    path = f"{BATCH}::{node}"

    def make(a):
        ops = in_threads("while/body/_1/x/Mul:Mul", a, turns, threads=1, length=9.8)
        return [*asked(path)(a), ("pool", f"{path}::TensorSlice", "iterator", a, a + 0.01), *ops]

    stalls = recorded(make).stalls
    assert (stalls.rules[-1] == "prep.loop") == (turns == 50)
    assert turns == 4 or "goes round about 50 times for Mul," in stalls.advice


def filter_of_many(a):
    """One of 50 elements passes a filter, or 50 of them make a group."""
    node = f"{BATCH}::Filter"
    spans = [*asked(node)(a), *(("next", f"{node}::TFRecord", "read", a + k / 5, a + k / 5 + 0.01) for k in range(49))]
    return spans + [("worker", "x/Mul:Mul", "map", a + (k + 0.1) / 5, a + (k + 0.9) / 5) for k in range(49)]


def interleave_of_short_ones(a):
    """Each inner pipeline has one element, and is asked a second time in vain."""
    mixed = f"{PARALLEL}::BatchV2::ParallelInterleaveV4"
    spans = asked(PARALLEL, mixed)(a)
    for node, count in ((f"{mixed}::FromTensor", 96), (f"{mixed}::TensorSlice", 48)):
        spans += [("pool", node, "iterator", a + k / 10, a + k / 10 + 0.01) for k in range(count)]
    return spans + in_threads("DecodeJpeg:DecodeJpeg", a, 48)


def op_at_many_places(a):
    ops = [("worker", f"x/Mul_{k}:Mul", "map", a + k / 5, a + (k + 0.9) / 5) for k in range(48)]
    return [*asked(f"{BATCH}::Map")(a), *ops]


@pytest.mark.parametrize("make", [filter_of_many, interleave_of_short_ones, op_at_many_places])
def test_ops_that_run_often_for_another_reason_are_no_loop(make):
    assert said(make) != "prep.loop"


def test_a_loop_is_named_only_where_what_was_written_has_one():
    make = working(f"{BATCH}::Map", "while/body/_1/x/Mul:Mul", 50, threads=1, length=9.8)
    for looped in ((), ("Mul",)):
        written = [WrittenNode("Map", ops=("Mul",), looped=looped)]
        assert (said(make, written=written) == "prep.loop") == bool(looped)
    (times,) = {recorded(make, written=written, batch_size=size).stalls.advice.count("about 48 times") for size in [48]}
    assert times == 1, "a count near the size of a batch is that size"


# -- what its author has set ----------------------------------------------------------------------------


def set_to(kind, calls=None, op="TopKV2"):
    """Return the map that its author wrote, as a recording keeps it."""
    return {"written": [WrittenNode(kind, {"num_parallel_calls": calls} if calls else {}, (op,))]}


@pytest.mark.parametrize("node", ["ParallelMapV2", "MapAndBatch", "Map"])
@pytest.mark.parametrize(
    ("written", "threads", "rule"),
    [
        (set_to("Map"), None, "prep.parallel-map"),
        (set_to("ParallelMap", 1), None, "prep.parallel-map"),
        (set_to("ParallelMap", -1), None, "prep.less-work"),
        (set_to("ParallelMap", 8), None, "prep.less-work"),
        (set_to("ParallelMap", 8), 1, "prep.wider-pool"),
        (set_to("ParallelMap", -1), 1, "prep.wider-pool"),
        (set_to("ParallelMap", 8), 4, "prep.less-work"),
    ],
)
def test_nobody_is_told_to_set_what_is_set_whatever_the_node_that_ran_is_called(node, written, threads, rule):
    options = {"threading.private_threadpool_size": str(threads)} if threads else {}
    make = working(f"{BATCH}::{node}", "sort/TopKV2:TopKV2", 4, threads=1)
    assert said(make, **written, options=options, host={"cpus": 2}, processor=CLOCK) == rule


@pytest.mark.parametrize(("cpus", "rule"), [(2, "prep.less-work"), (16, "prep.more-calls")])
def test_a_map_of_few_calls_gets_more_where_cores_rest(cpus, rule):
    make = working(PARALLEL, "sort/TopKV2:TopKV2", 4, threads=2)
    assert said(make, **set_to("ParallelMap", 2), host={"cpus": cpus}, processor=CLOCK) == rule


def test_a_cache_that_is_written_and_a_worker_that_nobody_watched_are_called_that():
    cache, words, writes = f"{BATCH}::FileCacheImpl", "element from worker-1:5051", "work.writes-cache"
    assert said(lambda a: [("next", cache, "read", a, a + 9.9), *in_threads("m:Mul", a, 4)]) != writes
    below = f"{cache}::Map"
    assert said(lambda a: [("next", cache, "read", a, a + 9.9), ("next", below, "iterator", a + 1, a + 2)]) == writes
    assert said(lambda a: [("next", words, "transfer", a, a + 9.9)]) == "transfer.unwatched"


@pytest.mark.parametrize(("threads", "pool"), [(1, True), (4, True), (16, False), (None, True)])
def test_calls_that_wait_want_as_many_threads_as_there_are_calls(threads, pool):
    options = {"threading.private_threadpool_size": str(threads)} if threads else {}
    make = working(PARALLEL, "PyFunc:PyFunc", 4, threads=2)
    facts = {"options": options, "host": {"cpus": 2}, "processor": IDLE}
    rule = said(make, **set_to("ParallelMap", 16, "PyFunc"), **facts)
    assert rule == ("prep.wider-pool" if pool else "python.more-calls")


def test_what_tensorflow_does_itself_is_said():
    parallel = working(f"{ROOT}::Prefetch::MapAndBatch", "x:TopKV2", 8)
    told = recorded(parallel, **set_to("Map")).stalls
    assert told.rules == ("prep.less-work", "run.itself")
    assert "TensorFlow itself makes this map parallel and works ahead" in told.advice
    assert recorded(parallel, **set_to("ParallelMap", -1)).stalls.rules == ("prep.less-work",)
    batch = [WrittenNode("Batch"), WrittenNode("ParallelMap", {"num_parallel_calls": -1}, ("TopKV2",))]
    told = recorded(parallel, written=batch).stalls
    assert told.advice.endswith("TensorFlow itself works ahead.")
    assert recorded(parallel, written=[WrittenNode("Prefetch"), *batch]).stalls.rules == ("prep.less-work",)


# -- overhead -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "op", "cause", "rule"),
    [
        (8, "x/Mul:Mul", "prep", "prep.parallel-map"),
        (2, "x/Mul:Mul", None, "run.handed-over-late"),
        (2, "while/body/_1/x/Mul:Mul", "prep", "prep.loop"),
    ],
)
def test_overhead_comes_first_where_it_is_most_of_the_gaps_but_for_that_of_a_loop(ready, op, cause, rule):
    """The batch is ready after so many of ten milliseconds, and handed over at their end."""
    spans, turn = [], ready / 40
    for a in range(0, 20 * STEPS, 20):
        rows = [("consumer", "wait for batch", "wait", 0, 10), ("consumer", "train step", "train", 10, 20)]
        rows += [("next", node, "iterator", 0, ready) for node in (ROOT, f"{BATCH}::Map")]
        rows += [("worker", op, "map", k * turn, (k + 1) * turn) for k in range(40)]
        spans += [Span(t, n, c, NOW + round((a + s) * MS), round((e - s) * MS), -1) for t, n, c, s, e in rows]
    stalls = Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, warmup=1)).stalls
    assert (stalls.cause, stalls.rules[-1]) == (cause, rule)


# -- elements that are too small --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "count", "through"),
    [
        ("BatchV2::Shuffle::TensorSlice", 400, "from_tensor_slices()"),
        ("BatchV2::Shuffle::Filter::TensorSlice", 400, None),
        ("BatchV2::Unbatch", 400, "unbatch()"),
        ("BatchV2::Shuffle::Unbatch", 400, "unbatch()"),
        ("MapAndBatch::Unbatch", 400, "unbatch()"),
        ("PaddedBatchV2::Unbatch", 400, "unbatch()"),
        ("BatchV2::Unbatch", 4, None),
    ],
)
def test_elements_that_go_one_by_one_are_counted(node, count, through):
    path = f"{ROOT}::{node}"
    stalls = recorded(lambda a: [*asked(path.rpartition("::")[0])(a), *many_calls(path, a, count)]).stalls
    assert (stalls.rules[-1] == "small.one-by-one") == bool(through)
    assert not through or f"{count} elements a step go one by one through {through}" in stalls.advice


KERAS = f"{BATCH}::Prefetch::Zip::ParallelMapV2", "Zip::ParallelMapV2", "Zip::ForeverRepeat::FromTensor"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ([PARALLEL], True),
        ([f"{ROOT}::PaddedBatchV2::ParallelMapV2"], False),
        ([f"{ROOT}::GroupByWindow::PaddedBatchV2::ParallelMapV2"], False),
        ([f"{ROOT}::GroupByWindow::ParallelMapV2"], False),
        (["::".join(KERAS[: n + 1]) for n in range(3)], False),
        ([f"{BATCH}::DirectedInterleave", f"{BATCH}::DirectedInterleave::Map"], False),
    ],
)
def test_a_small_map_of_the_reader_is_to_take_batches_where_there_can_be_some(nodes, first):
    """Neither rows of several lengths, nor maps that tf.data or Keras have written."""
    assert (said(lambda a: many_calls(nodes[0], a, 128, *nodes[1:])) == "small.batch-first") == first


@pytest.mark.parametrize(("shape", "even"), [([3], True), ([None, 3], False), (None, False)])
def test_rows_of_several_lengths_are_not_batched_before_their_map(shape, even):
    work = {"components": [{"dtype": "int32", "shape": [], "digest": ""}, {"dtype": "f", "shape": shape, "digest": ""}]}
    assert (said(lambda a: many_calls(PARALLEL, a), work=work) == "small.batch-first") == even


@pytest.mark.parametrize("op", ["DecodePng", "ReadFile", "DecodeWav", "DecodeRaw"])
def test_what_takes_one_value_only_is_not_told_to_take_a_batch(op):
    def make(a):
        length = 9.9 / 128
        ops = [("worker", f"{op}:{op}", "decode", a + k * length, a + (k + 0.2) * length) for k in range(128)]
        return [*many_calls(PARALLEL, a), *ops]

    assert (said(make) == "small.batch-first") == (op == "DecodeRaw")


# -- batches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "each", "small"),
    [([8], 64, True), ([2, 3], 64, True), ([64, 64, 3], 64, False), (None, 64, False), ([8], 1, False)],
)
def test_small_elements_are_not_told_to_be_smaller(shape, each, small):
    """To hand them over takes longer than to copy them; where one takes ten milliseconds, it is something else."""
    work = {"components": [{"dtype": "float32", "shape": shape, "digest": ""}]}
    images = {"images": each * STEPS}
    rule = said(lambda a: [("next", f"{BATCH}::Sql", "iterator", a, a + 0.1)], work=work, **images)
    assert rule == ("batch.small-elements" if small else "batch.fewer-bytes")


@pytest.mark.parametrize(
    ("nodes", "small"), [(("Batch", "Map"), True), (("Map", "Batch"), False), (("Prefetch", "Batch"), True)]
)
def test_behind_a_map_of_batches_nobody_knows_what_was_batched(nodes, small):
    """The nodes stand from the last one to the first one."""
    facts = {"work": {"components": [{"dtype": "float32", "shape": [2], "digest": ""}]}, "images": 64 * STEPS}
    written = [WrittenNode(kind) for kind in nodes]
    rule = said(lambda a: [("next", f"{BATCH}::Sql", "iterator", a, a + 0.1)], written=written, **facts)
    assert (rule == "batch.small-elements") == small


@pytest.mark.parametrize("share", [0.5, 0.01, None])
def test_a_padding_that_fills_little_up_is_told_to_copy_less(share):
    work = {} if share is None else {"padded": share}
    rule = said(lambda a: [("next", f"{ROOT}::PaddedBatchV2", "batch", a + 0.1, a + 9.9)], work=work)
    assert rule == ("batch.fewer-bytes" if share == 0.01 else "batch.padding")


# -- work for nothing -----------------------------------------------------------------------------------------


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

    assert (said(make) == "work.endless-cache") == bool(ends)


def dropping(node, below, made):
    """Return what makes so many elements in each step, of which a node above lets some through."""
    path = f"{BATCH}::{node}"
    return lambda a: [*asked(path)(a), *calling(f"{path}::{below}", a, made)]


@pytest.mark.parametrize(("node", "word"), [("Shard", "shard"), ("FiniteSkip", "skip"), ("Window", "window")])
@pytest.mark.parametrize("below", ["Map", "Zip::Map"])
def test_what_is_dropped_behind_the_work_is_found_by_how_much_is_made(node, word, below):
    dropped = recorded(dropping(node, below, 8), images=4 * STEPS).stalls
    assert dropped.rules[-1] == "work.drop-first"
    assert dropped.advice.startswith(f"{word} before the map, which makes 2.0 elements for each one")
    assert said(dropping(node, below, 8), images=8 * STEPS) == "prep.parallel-map", "all of them are in a batch"


@pytest.mark.parametrize(("holder", "rule"), [("Map", "work.drop-first"), ("Filter", "prep.in-turn")])
def test_a_filter_that_waits_for_the_map_below_it_is_told_from_one_whose_function_works(holder, rule):
    """TensorFlow made the map parallel; the filter takes one element after the other, and waits for each."""
    written = [WrittenNode(kind, ops=("Equal", *["TopKV2"] * (kind == holder))) for kind in ("Filter", "Map")]
    filtered = f"{BATCH}::Filter"

    def make(a):
        calls = calling(filtered, a, 8, "ParallelMapV2")
        return [*asked(filtered)(a), *(span for span in calls if span[1] != filtered)]

    assert said(make, written=written, images=4 * STEPS) == rule


def test_a_filter_in_each_branch_of_a_zip_drops_what_the_map_below_it_made():
    """Both branches are written alike, so that they share a path: two of four that a filter asks for come through."""
    zipped = f"{BATCH}::Zip"

    def make(a):
        spans = asked(zipped)(a)
        spans += [("next", f"{zipped}::Filter", "iterator", a + 5 * k, a + 5 * k + 4.9) for k in range(2)]
        return spans + calling(f"{zipped}::Filter::ParallelMapV2", a, 8)

    dropped = recorded(make, images=STEPS).stalls
    assert dropped.rules[-1] == "work.drop-first"
    assert dropped.advice.startswith("filter before the map, which makes 4.0 elements for each one")


@pytest.mark.parametrize("op", ["DecodePng:DecodePng", "while/body/_1/sort/TopKV2:TopKV2"])
@pytest.mark.parametrize("node", ["FiniteSkip", "Shard"])
def test_two_branches_of_a_zip_and_a_loop_are_no_elements_that_are_dropped(node, op):
    node, times = f"{BATCH}::{node}", 50 if "while" in op else 2
    mapped, branches = f"{node}::Zip::Map", 1 if "while" in op else 2

    def make(a):
        spans = asked(node, f"{node}::Zip")(a)
        spans += [("next", mapped, "iterator", a + 5 * k, a + 5 * k + 9.8 / branches) for k in range(branches)]
        turn = 9.6 / times
        return spans + [("worker", op, "map", a + k * turn, a + (k + 0.9) * turn) for k in range(times)]

    assert said(make, images=STEPS) != "work.drop-first"


def filter_before_the_work(a):
    """The work stands behind the filter; the cheap map below it is asked twice as often."""
    filtered, spans = f"{BATCH}::Map::Filter", calling(f"{BATCH}::Map", a, 4)
    for _, name, _, s, _ in list(spans):
        if name.endswith("Map"):
            paths = (f"{filtered}::Map", f"{filtered}::Map::TFRecord")
            spans += [("next", path, "iterator", s + k, s + k + 0.02) for path in paths for k in (0, 0.05)]
            spans.append(("next", filtered, "iterator", s, s + 0.1))
    return spans


@pytest.mark.parametrize(
    ("make", "images", "rule"),
    [
        (filter_before_the_work, 4, "prep.parallel-map"),
        (lambda a: calling(f"{ROOT}::BatchV2::BatchV2::Map", a, 16), 2, "prep.parallel-map"),
    ],
)
def test_who_drops_nothing_that_was_made_is_not_accused(make, images, rule):
    assert said(make, images=images * STEPS) == rule


# -- sources --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("CSV", "source.unpacked"),
        ("ForeverRepeat::Load::ParallelInterleaveV4::SnapshotDatasetReader", "source.unpacked"),
        ("FileCacheImpl", "source.cache-file"),
        ("TextLine", "source.unpacked"),
    ],
)
def test_a_source_that_computes_is_told_what_helps_it(source, rule):
    read = f"{BATCH}::{source}"
    facts = {"processor": CLOCK, "host": {"cpus": 2}}
    stalls = recorded(lambda a: [("next", read, "read", a + 0.1, a + 9.9)], **facts).stalls
    assert (stalls.cause, stalls.blame) == ("prep", source.rpartition("::")[2])
    assert stalls.rules[-1] == rule


def test_a_source_that_takes_most_is_not_told_that_the_calls_behind_it_are_small():
    read = f"{PARALLEL}::CSV"
    facts = {"processor": CLOCK, "host": {"cpus": 2}}

    def make(a):
        return [*many_calls(PARALLEL, a), ("next", read, "read", a + 0.1, a + 4.5)]

    assert recorded(make, **facts).stalls.rules[-1] == "source.unpacked"


@pytest.mark.parametrize("unordered", [True, False])
def test_reads_in_order_that_wait_for_a_slow_one_are_told_of_it(unordered):
    """Of seven reads, the last keeps all waiting."""

    def make(a):
        spans = [*asked(PARALLEL)(a), ("pool", f"{PARALLEL}::TFRecord", "iterator", a, a + 0.01)]
        short = [("worker 1", "ReadFile:ReadFile", "read", a + 10 + k, a + 10.1 + k) for k in range(6)]
        return [*spans, *short, ("worker 2", "ReadFile:ReadFile", "read", a + 0.1, a + 9.8)]

    rule = said(make, work={"unordered": unordered})
    assert rule == ("fetch.more-reads" if unordered else "fetch.straggler")


@pytest.mark.parametrize(("node", "rule"), [("ParallelInterleaveV4", "fetch.longer-cycle"), ("", "fetch.straggler")])
def test_one_long_read_in_a_file_of_many_is_its_opening_and_no_straggler(node, rule):
    """Each wait is for a read that takes ten times the usual one: in a map a slow file, in an interleave any file."""
    path = f"{BATCH}::{node}" if node else PARALLEL
    name = f"{path}::TFRecord" if node else "ReadFile:ReadFile"

    def make(a):
        short = [("worker 1", name, "read", a + 10 + k, a + 10.9 + k) for k in range(6)]
        return [*asked(path)(a), *short, ("worker 2", name, "read", a + 0.1, a + 9.8)]

    assert said(make) == rule


# -- functions of Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "threads", "clock", "rule"),
    [
        ("Map", 1, CLOCK, "python.in-parallel"),
        ("ParallelMapV2", 2, CLOCK, "python.ops-instead"),
        ("Map", 1, IDLE, "python.more-calls"),
        ("ParallelMapV2", 2, IDLE, "python.more-calls"),
        ("Filter", 1, IDLE, "prep.in-turn"),
    ],
)
def test_a_function_of_python_that_computes_is_told_from_one_that_waits(node, threads, clock, rule):
    make = working(f"{BATCH}::{node}", "PyFunc:PyFunc", 2 * threads, threads=threads)
    timeline = recorded(make, processor=clock, host={"cpus": 2})
    assert timeline.stalls.rules[-1] == rule
    # One thread that computes proves nothing; several that keep one core busy together do.
    turns = node == "ParallelMapV2" and clock is CLOCK
    assert ("lets one thread run" in timeline.stalls.advice) == turns
    assert ("holds the interpreter" in heading(timeline)) == turns


@pytest.mark.parametrize(
    ("open_node", "between", "generates"),
    [("Generator", "", True), ("FlatMap", "::", True), ("Map", "::FlatMap::", False), ("ParallelMapV2", "::", False)],
)
def test_a_generator_is_told_from_a_function_that_a_map_calls(open_node, between, generates):
    """Both are calls of Python, by ops of one name; a generator is called by its node."""
    first = f"{BATCH}::{open_node}"

    def make(a):
        below = [("next", f"{first}{between}Generator", "iterator", a, a + 0.1)] * bool(between)
        return [*asked(first)(a), *below, ("worker", "PyFunc:PyFunc", "map", a + 0.1, a + 9.8)]

    assert (said(make) in ("python.generators", "python.larger-pieces")) == generates


@pytest.mark.parametrize(("node", "rule"), [("ForeverRepeat", "start.less-to-do"), ("FlatMap", "python.larger-pieces")])
def test_a_generator_that_is_slow_to_begin_has_less_to_do_in_front_of_each_epoch(node, rule):
    """An epoch begins in three of five steps: the repeat asks twice, and its last call of Python takes nine tenths."""
    repeat, below = f"{BATCH}::{node}", f"{BATCH}::{node}::FlatMap"

    def make(a):
        begins, spans = a in (20, 40, 60), []
        for start, length in [(a + 0.25 * k, 0.24) for k in range(40)][begins * 36 :] + [(a, 8.98)] * begins:
            spans += [("next", repeat, "iterator", start, start + length)]
            spans += [("next", below, "iterator", start + 0.01, start + 0.02)] * (length > 1)
            spans += [("next", below, "iterator", start + 0.03, start + length - 0.01)]
            spans += [("next", f"{below}::Generator", "iterator", start + 0.04, start + length - 0.02)]
            spans += [("worker", "PyFunc:PyFunc", "map", start + 0.05, start + length - 0.03)]
        return spans

    assert said(make, processor=CLOCK, host={"cpus": 2}) == rule


@pytest.mark.parametrize(("parts", "rule"), [(32, "small.many-parts"), (31, "prep.node")])
def test_elements_of_many_parts_are_to_have_fewer(parts, rule):
    work = {"components": [{"dtype": "float32", "shape": (), "digest": ""}] * parts}
    assert said(lambda a: many_calls(f"{BATCH}::TensorSlice", a, 1), work=work, images=64 * STEPS) == rule
