"""What is advised for threads that decode: more cores, more threads, more work ahead, or processes."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from labextras.loaders import shared_spans
from labextras.loaders.processes_to_trace import within_calls
from labkit.timeline.run import BatchPart, Delivered, Host, LoaderFacts, OpTime, ProcessorTime, ThreadTime, Tree
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

MS = 1_000_000
LOADER = LoaderFacts("python", "Pool")


def trace_of(threads, computes, ahead, cores=2, decode_ms=12, train_ms=8, loader=LOADER, work=("PIL decode", "decode")):
    """Ten steps: in each, `threads` work at once and keep so many cores busy, before one trains or while one does."""
    spans, now = [], 0
    for step in range(10):
        wait_ms = decode_ms - (train_ms if ahead else 0)
        spans += [
            Span("consumer", "wait for batch", "wait", now, wait_ms * MS, step),
            Span("consumer", "train step", "train", now + wait_ms * MS, train_ms * MS, step),
        ]
        begin = now if not ahead else max(0, now - train_ms * MS)
        end = now + wait_ms * MS
        spans += [Span(f"thread {n}", *work, begin, max(0, end - begin), step) for n in range(threads)]
        now += (wait_ms + train_ms) * MS
    kinds = {"consumer": "consumer"} | {f"thread {n}": "pipeline" for n in range(threads)}
    worked = sum(span.duration_ns for span in spans if span.name == work[0])
    ops = {work[0]: OpTime(worked, int(worked * computes / threads))}
    trace = Trace.from_spans(spans, kinds, origin="measured")
    return trace.with_run(op_times=ops, host=Host(cpus=cores), loader=loader)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        # Pillow lets go of the interpreter: the pause of the threads is no sign of turns that they take.
        ({"threads": 2, "computes": 2, "ahead": False}, "loader.ahead"),
        ({"threads": 2, "computes": 2, "ahead": True}, "loader.less-work"),
        ({"threads": 2, "computes": 2, "ahead": True, "cores": 8}, "loader.more-workers"),
        ({"threads": 2, "computes": 1, "ahead": False}, "loader.processes"),
        ({"threads": 4, "computes": 1, "ahead": True}, "loader.processes"),
    ],
)
def test_threads_that_decode_get_the_advice_that_helps(case, rule):
    assert Timeline(trace_of(**case)).stalls.rules == (rule,)


def test_lanes_that_begin_with_the_name_of_their_process_get_the_same_advice():
    alone = trace_of(2, 1, ahead=True)
    threads = tuple(thread._replace(name=f"process 0 · {thread.name}") for thread in alone.threads)
    beside = replace(alone, threads=threads)
    assert Timeline(beside).lanes[0].name == "process 0 · accelerator"
    assert Timeline(beside).stalls.advice == Timeline(alone).stalls.advice


@pytest.mark.parametrize(("long_ms", "rule"), [(60, "longer-epochs"), (15, "ahead")])
def test_a_queue_that_is_empty_when_each_epoch_begins_needs_longer_epochs(long_ms, rule):
    """Two workers that rest while the accelerator trains; each third step begins an epoch."""
    spans, now = [], 0
    for step in range(12):
        wait = MS * (10 if step % 3 else long_ms)
        spans += [Span("in the consumer's thread", "begin an epoch", "other", now + 1, MS // 9, step)] * (step % 3 == 0)
        spans += [Span(f"worker {n}", "next of Stream", "map", now, wait, step) for n in range(2)]
        spans += [Span("consumer", "wait for batch", "wait", now, wait, step)]
        spans += [Span("consumer", "train step", "train", now + wait, 8 * MS, step)]
        now += wait + 8 * MS
    trace = Trace.from_spans(spans, {"consumer": "consumer"}, origin="measured")
    assert Timeline(trace.with_run(host=Host(cpus=2), loader=LOADER)).stalls.rules == (f"loader.{rule}",)


def test_what_a_call_of_the_reader_says_to_another_process_is_part_of_the_call():
    """A pipe of the loader itself is none; nor is a call within the call."""
    names = ["fetch a batch", "Clips.__getitem__", "receive", "numpy.stack", "unpickle", "receive"]
    process = SimpleNamespace(names={i: (text, "map") for i, text in enumerate(names)})
    assert within_calls(process, np.arange(6), np.array([-1, 0, 1, 1, 3, 0])).tolist() == [0, 1, 1, 3, 1, 5]


def before_training(lane, name, category, loader=LOADER):
    """Ten steps: the consumer's thread does something for 12 ms, and another lane decodes; then one trains for 8 ms."""
    kinds = {"consumer": "consumer", "in the consumer's thread": "pipeline", lane: "pipeline"}
    spans = []
    for step in range(10):
        now = 20 * step * MS
        spans += [
            Span("consumer", "wait for batch", "wait", now, 12 * MS, step),
            Span("in the consumer's thread", name, category, now, 12 * MS, step),
            Span(lane, "PIL decode", "decode", now + 11 * MS, MS // 2, step),
            Span("consumer", "train step", "train", now + 12 * MS, 8 * MS, step),
        ]
    trace = Trace.from_spans(spans, kinds, origin="measured")
    return trace.with_run(host=Host(cpus=2), loader=loader)


@pytest.mark.parametrize(("name", "rule"), [("DALI's threads", "dali"), ("next of generator", "beside-training")])
def test_threads_that_nobody_sees_are_told_from_the_one_that_trains(name, rule):
    stalls = Timeline(before_training("in the consumer's thread", name, "map")).stalls
    assert (stalls.cause, stalls.blame) == ("prep", name)
    assert stalls.rules == (f"loader.{rule}",)


@pytest.mark.parametrize(
    ("loader", "lane"),
    [
        (LoaderFacts("torch", "Augmented", {"workers": "2", "prefetch_factor": "2"}), "worker 0"),
        (LoaderFacts("dali", "Augmented"), "in the consumer's thread"),
    ],
)
def test_work_around_a_loader_is_for_its_workers_to_do(loader, lane):
    stalls = Timeline(before_training(lane, "cv2.resize", "resize", loader)).stalls
    assert stalls.rules == ("loader.let-workers",)


@pytest.mark.parametrize("name", ["sampler Sorted", "wait for tf.data"])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_more_workers_would_not_help_is_not_said_to_need_them(name, workers):
    loader = LoaderFacts("torch", "DataLoader", {"workers": str(workers), "persistent_workers": "False"})
    lane = "worker 0" if workers else "in the consumer's thread"
    stalls = Timeline(before_training(lane, name, "map", loader)).stalls
    assert (stalls.cause, stalls.blame) == ("prep", name)
    assert stalls.rules == ("loader.outside-workers",)


@pytest.mark.parametrize(
    ("lane", "settings", "anew"),
    [
        ("worker 0", {}, True),
        ("worker 0", {"persistent_workers": "False"}, True),
        ("worker 0", {"persistent_workers": "True"}, False),
        ("thread 0", {}, False),
        ("in the consumer's thread", {}, False),
    ],
)
def test_only_workers_that_end_with_an_epoch_are_told_to_live_for_more_than_one(lane, settings, anew):
    loader = LoaderFacts("torch", "DataLoader", {"workers": "2"} | settings)
    stalls = Timeline(before_training(lane, "begin an epoch", "other", loader)).stalls
    assert stalls.cause == "start"
    assert stalls.rules == ("loader.lasting-workers" if anew else "start.less-to-do",)


@pytest.mark.parametrize(
    ("outer", "rule"),
    [("a worker process starts", "loader.lasting-workers"), ("iter of the dataset", "start.less-to-do")],
)
def test_what_a_worker_reads_while_it_starts_is_its_start(outer, rule):
    spans = []
    for step in range(10):
        now = 20 * step * MS
        spans += [
            Span("consumer", "wait for batch", "wait", now, 12 * MS, step),
            Span("worker 0", outer, "other", now, 10 * MS, -1),
            Span("worker 0", "file read", "read", now + MS, 8 * MS, -1),
            Span("worker 0", "collate", "batch", now + 11 * MS, MS // 2, step),
            Span("consumer", "train step", "train", now + 12 * MS, 8 * MS, step),
        ]
    trace = Trace.from_spans(spans, {"consumer": "consumer", "worker 0": "pipeline"}, origin="measured")
    loader = LoaderFacts("torch", "DataLoader", {"workers": "1", "persistent_workers": "False"})
    stalls = Timeline(trace.with_run(host=Host(cpus=2), loader=loader)).stalls
    assert (stalls.cause, stalls.blame, stalls.rules) == ("start", outer, (rule,))


@pytest.mark.parametrize(("workers", "says"), [("0", "workers (num_workers=1 or more): "), ("2", "a larger prefetch_")])
def test_a_data_loader_without_workers_gets_no_prefetch_factor(workers, says):
    loader = LoaderFacts("torch", "DataLoader", {"workers": workers})
    advice = Timeline(trace_of(2, 2, ahead=False, loader=loader)).stalls.advice
    assert advice.startswith(says), advice


def test_batches_move_into_the_workers_only_where_none_is_made_beside_the_training():
    beside = Timeline(trace_of(2, 2, ahead=True, work=("numpy.stack", "batch"))).stalls
    assert (beside.cause, beside.rules) == ("batch", ("loader.cheaper-batch",))
    for lane in ("worker 0", "thread 0"):
        alone = Timeline(before_training(lane, "numpy.stack", "batch")).stalls
        assert (alone.cause, alone.rules) == ("batch", ("loader.let-workers",))


@pytest.mark.parametrize("computes", [0.5, 1.0])
def test_threads_that_work_one_at_a_time_may_hold_the_interpreter_or_lack_calls(computes):
    spans = []
    for step in range(10):
        now = 20 * step * MS
        spans += [
            Span("consumer", "wait for batch", "wait", now, 12 * MS, step),
            *(Span(f"thread {n}", "spin", "map", now + 4 * n * MS, 4 * MS, step) for n in range(3)),
            Span("consumer", "train step", "train", now + 12 * MS, 8 * MS, step),
        ]
    kinds = {"consumer": "consumer"} | {f"thread {n}": "pipeline" for n in range(3)}
    ops = {"spin": OpTime(120 * MS, int(120 * MS * computes))}
    trace = Trace.from_spans(spans, kinds, origin="measured")
    rules = Timeline(trace.with_run(op_times=ops, host=Host(cpus=2), loader=LOADER)).stalls.rules
    assert (rules == ("loader.processes",)) == (computes == 1), rules


@pytest.mark.parametrize(
    ("name", "cause"),
    [("queue get", "queue empty"), ("queue put", "queue full"), ("receive", "unknown"), ("next of Own", "unknown")],
)
def test_a_wait_in_the_thread_that_trains_for_somebody_who_is_not_seen_is_nobodys_work(name, cause):
    """The queue is named where it is one; a wait for another thread inside of its call belongs to it."""
    kinds = {"consumer": "consumer", "in the consumer's thread": "pipeline"}
    spans = []
    for step in range(10):
        start = 20 * step * MS
        spans += [
            Span("consumer", "wait for batch", "wait", start, 12 * MS, step),
            Span("in the consumer's thread", name, "iterator", start, 12 * MS, step),
            *[Span("in the consumer's thread", "waits for another thread", "iterator", start + 1000, 11 * MS, step)]
            * ("queue" in name),
            Span("consumer", "train step", "train", start + 12 * MS, 8 * MS, step),
        ]
    timeline = Timeline(Trace.from_spans(spans, kinds, origin="measured").with_run(loader=LOADER))
    stalls = timeline.stalls
    assert {one.kind for one in timeline.causes} == {cause}
    assert stalls.unexplained == pytest.approx(stalls.shares[cause])
    assert (stalls.cause, stalls.blame, stalls.rules) == (None, None, ("loader.unseen",))
    assert ("queue" in str(timeline.causes[0])) == ("queue" in cause)


@pytest.mark.parametrize(("rests_ms", "cause"), [(10, "queue empty"), (0.5, "prep")])
def test_who_fills_a_queue_is_to_blame_while_it_works_and_the_queue_while_it_rests(rests_ms, cause):
    kinds = {"consumer": "consumer", "in the consumer's thread": "pipeline", "thread 0": "pipeline"}
    spans = []
    for step in range(10):
        start, works = 20 * step * MS, int((12 - rests_ms) * MS)
        spans += [
            Span("consumer", "wait for batch", "wait", start, 12 * MS, step),
            Span("in the consumer's thread", "queue get", "iterator", start, 12 * MS, step),
            Span("thread 0", "PIL decode", "decode", start + 12 * MS - works, works - 10_000, step),
            Span("consumer", "train step", "train", start + 12 * MS, 8 * MS, step),
        ]
    timeline = Timeline(Trace.from_spans(spans, kinds, origin="measured").with_run(loader=LOADER))
    shares = timeline.stalls.shares
    assert timeline.causes[3].kind == cause
    assert shares["prep"] == pytest.approx((12 - rests_ms) / 20, abs=0.03)
    assert shares.get("queue empty", 0) == pytest.approx(rests_ms / 20 if rests_ms > 1 else 0, abs=0.02)


def queued(trace, share):
    """Return a trace whose threads had a core for so much of the time in which they were ready."""
    computed = sum(one.computed_ns for one in trace.run.op_times.values())
    waited = int(computed * (1 / share - 1))
    clock = ProcessorTime(queued_ns=waited, threads=(ThreadTime(computed, waited, 0),))
    return trace.with_run(processor=clock)


@pytest.mark.parametrize("ready", [0.25, 0.5])
def test_of_work_without_a_core_as_much_is_a_wait_for_one_as_threads_were_ready_without(ready):
    """Two workers compute all the time, as far as they have a core: the advice is that for their work."""
    stalls = Timeline(queued(trace_of(2, 2 * ready, ahead=True), ready)).stalls
    waits = stalls.shares["core wait"]
    assert waits / (waits + stalls.shares["prep"]) == pytest.approx(1 - ready, abs=0.01)
    assert (stalls.cause, stalls.blame) == ("prep", "PIL decode")
    alone = Timeline(trace_of(2, 2, ahead=True)).stalls
    assert "core wait" not in alone.shares
    assert alone.blamed_share == pytest.approx(stalls.blamed_share)
    gap = Timeline(queued(trace_of(2, 2 * ready, ahead=True), ready)).causes[3]
    assert gap.kind == ("core wait" if ready < 0.5 else "prep")
    assert "core" in str(gap)
    assert "PIL decode" in str(gap)


@pytest.mark.parametrize("category", ["decode", "read", "batch", "transfer"])
@pytest.mark.parametrize(("computes", "ready", "unclear"), [(0.3, 0.25, True), (1.0, 0.5, False)])
def test_what_may_wait_for_something_else_is_not_told_anything_where_cores_lack(category, computes, ready, unclear):
    trace = queued(trace_of(2, computes, ahead=True, work=("load", category)), ready)
    names = tuple(thread._replace(name=thread.name.replace("thread", "worker")) for thread in trace.threads)
    alone = Timeline(replace(trace, threads=names)).stalls
    assert "programs" not in alone.advice, "its own processes fill the cores"
    assert "loader.needs-cores" not in alone.rules
    beside = Timeline(replace(trace, threads=names).with_run(host=Host(cpus=2, others=0.3))).stalls.rules
    assert (beside == ("loader.needs-cores",)) == (unclear and category != "transfer"), beside
    assert category != "decode" or unclear or beside == ("loader.less-work",)


def called(calls, blame="Rows.__getitem__", category="map", run=None, **facts):
    """A trace of two workers whose calls for an element were counted."""
    loader = LoaderFacts("torch", "DataLoader", **{"settings": {"workers": "2"}, **facts})
    trace = trace_of(2, 2, ahead=True, work=(blame, category), loader=loader)
    names = tuple(thread._replace(name=thread.name.replace("thread", "worker")) for thread in trace.threads)
    ops = {name: replace(one, calls=calls) for name, one in trace.run.op_times.items()}
    return Timeline(replace(trace, threads=names).with_run(**{"op_times": ops, **(run or {})})).stalls


def test_short_calls_for_many_elements_are_told_to_take_whole_batches_before_more_workers():
    said = called(10 * 2048)
    assert said.rules == ("loader.whole-batches",)
    assert "2,048 calls a batch" in said.advice
    assert "loader.whole-batches" not in called(10 * 16).rules, "few and long"
    assert "loader.whole-batches" not in called(0).rules, "not counted"


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ({"h5py Dataset.__getitem__": 0.9}, "one element a chunk"),
        ({"datasets Dataset.__getitem__": 0.3, "datasets format_row": 0.4}, "arrays in place of lists"),
        ({"fairytale Book.tell": 0.8}, "once before the training"),
        ({"zipfile ZipFile.__init__": 0.8}, "open it once in each worker"),
        ({"numpy NpzFile.__getitem__": 1.0}, "taken out of the archive once"),
        ({"multiprocessing SemLock.__enter__": 0.8}, "without the lock"),
    ],
)
def test_where_a_library_takes_the_time_of_a_call_it_is_named_and_answered(inside, words):
    said = called(0, inside={"Rows.__getitem__": inside})
    assert said.rules[0] == "loader.library"
    assert words in said.advice
    assert next(iter(max(inside.items(), key=lambda one: one[1]))) in said.advice


def test_a_function_of_the_readers_own_is_named_where_it_takes_most_of_a_call():
    assert "Rows.__getitem__ (most of it: filters)" in called(0, inside={"Rows.__getitem__": {" filters": 0.6}}).advice
    assert "most of it" not in called(0, inside={"Rows.__getitem__": {" filters": 0.3, "re sub": 0.2}}).advice


def test_where_a_library_calls_the_readers_function_that_is_seen_and_not_the_library():
    seen = []

    def look(*_):
        seen.append([shared_spans.called_in(frame) for frame in (sys._getframe(), sys._getframe(1))])
        return ""

    shared_spans.timed(lambda: re.sub("a", look, "a"), "call", "map")()
    shared_spans.timed(look, "call", "map")()
    assert seen[0] == [" look", "re sub"]
    assert seen[1][0] == ""


def test_tokens_are_to_be_made_once_and_a_library_says_it_better():
    texts = {"noun": "sequence"}
    said = called(0, "Texts.__getitem__", run=texts)
    assert said.rules[0] == "loader.tokens"
    assert "tokenise once" in said.advice
    tokenizers = {"Texts.__getitem__": {"tokenizers Tokenizer.encode": 0.9}}
    assert called(0, "Texts.__getitem__", run=texts, inside=tokenizers).rules[0] == "loader.library"
    assert "loader.tokens" not in called(0).rules


def test_workers_that_a_stream_has_nothing_for_are_counted():
    said = called(0, "next of Stream", settings={"workers": "4"})
    assert said.rules == ("loader.shards",)
    assert "2 of 4 workers" in said.advice
    assert "loader.shards" not in called(0, "next of Stream").rules
    assert "loader.shards" not in called(0, "Rows.__getitem__", settings={"workers": "4"}).rules


@pytest.mark.parametrize("theirs", ["Rows.__getitem__", "next of Stream"])
def test_what_only_calls_the_functions_of_a_reader_is_not_blamed_in_their_place(theirs):
    work = {
        "fetch a batch": OpTime(900, 900, 10),
        theirs: OpTime(800, 800, 10),
        "next of DataLoader": OpTime(999, 9, 9),
    }
    assert f"{theirs} " in called(0, "fetch a batch", run={"op_times": work}).advice


@pytest.mark.parametrize("inside", [{"h5py Dataset.__getitem__": 0.3}, {"torch stack": 0.9}, {"numpy load": 0.9}, {}])
def test_what_takes_less_than_half_of_a_call_or_is_the_framework_is_not_blamed(inside):
    assert "loader.library" not in called(0, inside={"Rows.__getitem__": inside}).rules


def test_decoders_and_bytes_are_named_only_where_there_are_pixels():
    assert "decoder" not in called(0).advice
    assert "decoder" in called(0, "PIL decode", "decode").advice
    ids, photos = (Delivered(components=(BatchPart(*part),)) for part in (("int64", (128,)), ("float32", (96, 96, 3))))
    assert "uint8" not in called(0, "collate", "batch", run={"work": ids}).advice
    assert "uint8" in called(0, "collate", "batch", run={"work": photos}).advice
    assert "uint8" not in called(0, "pickle", "transfer", run={"work": ids}).advice


@pytest.mark.parametrize("queued_ms", [0, 70, 900])
def test_other_programs_are_said_to_hold_the_cores_only_where_workers_waited_for_longer_than_they_ran(queued_ms):
    """No samples are taken of a loader with processes: what its threads computed is known of each."""
    trace = trace_of(2, 1.4, ahead=True)
    computed = trace.run.op_times["PIL decode"].computed_ns
    clock = ProcessorTime(queued_ns=queued_ms * MS, threads=(ThreadTime(computed, queued_ms * MS, 0),))
    run = replace(trace.run, processor=clock, host=Host(cpus=2, others=0.5))
    rules = Timeline(replace(trace, run=run)).stalls.rules
    assert (rules == ("loader.decoder", "loader.busy")) == (queued_ms > 1.5 * computed / MS), rules


def asks(trace, pauses=200):
    """Return a trace whose threads gave their core away so often in each second in which they had none."""
    ((_, one),) = trace.run.op_times.items()
    blocked = one.open_ns - one.computed_ns
    return trace.with_run(
        processor=ProcessorTime(threads=(ThreadTime(one.computed_ns, 0, blocked, pauses * blocked // 10**9),))
    )


def test_threads_that_have_ended_were_not_seen_to_take_no_turns():
    clock = ProcessorTime(threads=(ThreadTime(MS, 0, 100 * MS, 1),))  # the consumer; its pools live for a batch each
    assert Timeline(trace_of(4, 1, ahead=True).with_run(processor=clock)).stalls.rules == ("loader.processes",)


@pytest.mark.parametrize(
    ("threads", "computes", "waits"),
    # Neither a core more than one, nor one that rests now and then, is the interpreter; nor is one thread alone.
    [(4, 1.0, 0.75), (2, 1.0, 0.5), (4, 0.6, 0), (4, 1.8, 0), (1, 0.95, 0)],
)
def test_threads_that_keep_exactly_one_core_busy_wait_for_the_interpreter(threads, computes, waits):
    stalls = Timeline(asks(trace_of(threads, computes, ahead=True, cores=4))).stalls
    found = stalls.shares.get("GIL wait", 0)
    assert found / (found + stalls.shares["prep"]) == pytest.approx(waits, abs=0.01)
    assert stalls.cause == "prep"


def test_threads_that_wait_for_answers_and_keep_one_core_busy_by_chance_do_not_wait_for_the_interpreter():
    """Eight download for 70 ms, and decode for 10 ms without the interpreter: they wake as answers come."""
    downloads = trace_of(8, 1.0, ahead=True, cores=4, work=("load", "map"))
    for trace in (downloads, asks(downloads, pauses=14)):
        shares = Timeline(trace).stalls.shares
        assert shares["GIL wait"] == 0 < 0.1 < shares["prep"]
    assert Timeline(trace).stalls.rules == ("loader.more-calls",)
    # Programs that its calls start take the cores.
    assert Timeline(trace.with_run(tree=Tree(9, 1.0, 0.0))).stalls.rules[0] != "loader.more-calls"
    assert Timeline(asks(downloads)).stalls.shares["GIL wait"] > shares["prep"] / 2


def test_ops_that_seem_to_have_computed_for_longer_than_all_processes_did_have_not():
    """Few of their calls were asked: together they keep one core busy, and not nearly two."""
    trace = asks(trace_of(4, 1.8, ahead=True, cores=4))
    tree = Tree(1, trace.run.op_times["PIL decode"].computed_ns / 1.8e9, 0.0)
    assert "GIL wait" not in Timeline(trace).stalls.shares
    stalls = Timeline(trace.with_run(tree=tree)).stalls
    waits = stalls.shares["GIL wait"]
    assert waits / (waits + stalls.shares["prep"]) == pytest.approx(0.75, abs=0.01)
    assert stalls.rules == ("loader.processes",)


def test_a_read_that_sleeps_beside_threads_that_take_turns_does_not_wait_for_the_interpreter():
    trace = asks(trace_of(4, 1.0, ahead=True, cores=4))
    spins = trace.run.op_times["PIL decode"]
    asleep = OpTime(spins.open_ns, spins.open_ns // 100)
    assert "GIL wait" in Timeline(trace).stalls.shares
    assert "GIL wait" not in Timeline(trace.with_run(op_times={"PIL decode": asleep, "spin": spins})).stalls.shares
