"""Whether ops compute or wait: known shares are found again, and an undecided op is not called either."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

NOW, MS = 1_800_000_000_000_000_000, 1_000_000
OPS = {"x/DecodeJpeg:DecodeJpeg": "decode", "Iterator::Root::TFRecord": "read", "f/EagerPyFunc:EagerPyFunc": "map"}
WORDS = ("DecodeJpeg", "TFRecord", "EagerPyFunc")


def recorded(shares, *, cpus=2, queued_ms=0.0, background=0.0, every_ms=5, ms=1200, seed=0, sampled=True):
    """Return a timeline of two threads with ops one after the other, whose shares on a core are known."""
    chance = np.random.default_rng(seed)
    spans, used = [], np.zeros(ms)  # processor time of each millisecond, in milliseconds
    for worker in ("worker 1", "worker 2"):
        at = 0
        while at < ms:
            if (i := int(chance.integers(0, 4))) < 3:
                end = min(ms, at + int(chance.integers(2, 30)))
                name = list(OPS)[i]
                spans.append(Span(worker, name, OPS[name], NOW + at * MS, (end - at) * MS, -1))
                used[at:end] += shares[i]
                at = end
            else:
                at += int(chance.integers(2, 30))
    spans += [Span("consumer", "wait for batch", "wait", NOW, ms * MS // 2, 0)]
    spans += [Span("consumer", "train step", "train", NOW + ms * MS // 2, ms * MS - ms * MS // 2, 0)]
    total = np.r_[0, np.cumsum(used + background)]
    at = range(0, ms + 1, every_ms)
    clock = {
        "at_ns": [NOW + t * MS for t in at],
        "cpu_ns": [int(total[t] * MS) + 7 * MS for t in at],
        "queued_ns": int(queued_ms * MS),
    }
    facts = {"processor": clock} if sampled else {}
    return Timeline(
        Trace.from_spans(
            spans,
            {"consumer": "consumer", "worker 1": "pipeline", "worker 2": "pipeline"},
            host={"cpus": cpus},
            window_ns=(NOW, NOW + ms * MS),
            **facts,
        )
    )


@settings(max_examples=30)
@given(st.tuples(*[st.floats(0, 1)] * 3), st.integers(0, 99), st.floats(0, 0.2))
def test_a_share_that_is_known_lies_between_the_two_that_are_found(shares, seed, background):
    found = recorded(shares, seed=seed, background=background).efforts
    assert set(found) == set(WORDS)
    for word, share in zip(WORDS, shares, strict=True):
        effort = found[word]
        assert effort.low - 0.02 <= share <= effort.high + 0.02, word
        if effort.computes is not None:
            assert effort.computes == (share >= 0.4) or 0.38 <= share <= 0.47


def test_an_op_that_computes_and_one_that_waits_are_told_apart():
    found = recorded((1.0, 0.9, 0.05)).efforts
    assert [found[word].computes for word in WORDS] == [True, True, False]
    assert found["EagerPyFunc"].cores < 0.2


def test_where_threads_wait_for_a_core_all_shares_are_measured_by_those_that_had_one():
    """On one core, three ops that would all compute get a part of it each."""
    slow = recorded((0.4, 0.4, 0.4))
    asked = float(np.diff(slow.run.processor.cpu_ns).sum() / MS)
    found = recorded((0.4, 0.4, 0.4), queued_ms=1.5 * asked).efforts
    assert all(found[word].low == pytest.approx(slow.efforts[word].low * 2.5) for word in WORDS)
    assert all(found[word].computes for word in WORDS)


@settings(max_examples=30)
@given(st.tuples(*[st.floats(0, 1)] * 3), st.integers(0, 99), st.floats(0, 12))
def test_no_effort_is_more_than_the_cores_or_what_threads_computed_or_wanted(shares, seed, queue):
    """Whatever the queue, and a function of Python, which holds one thread, never more than one core."""
    asked = float(np.diff(recorded(shares, seed=seed).run.processor.cpu_ns).sum() / MS)
    timeline = recorded(shares, seed=seed, queued_ms=queue * asked)
    hardly = queue > 9.1 and asked > 0  # a tenth of the time, or less, they had a core
    for word, effort in timeline.efforts.items():
        assert 0 <= effort.low <= effort.high <= 2
        assert effort.high <= 1 or word != "EagerPyFunc" or queue > 8.9  # at 9, either may be
        assert effort.cores <= asked / 1200 + 1e-6
        if hardly:
            assert effort.computes is None


def test_without_samples_or_with_too_few_nothing_is_said():
    assert recorded((1, 1, 1), sampled=False).efforts == {}
    assert recorded((1, 1, 1), every_ms=400).efforts == {}


def test_what_is_always_there_may_be_the_background_or_an_op_and_nobody_can_tell():
    """A pipeline of one op that never rests: the processor time fits the op, and anything else that is steady."""
    ms = 600
    spans = [Span("worker", "x/DecodeJpeg:DecodeJpeg", "decode", NOW, ms * MS, -1)]
    spans += [Span("consumer", "wait for batch", "wait", NOW, ms * MS, 0)]
    at = range(0, ms + 1, 5)
    clock = {"at_ns": [NOW + t * MS for t in at], "cpu_ns": [int(0.5 * t * MS) for t in at]}
    trace = Trace.from_spans(
        spans, {"consumer": "consumer", "worker": "pipeline"}, host={"cpus": 2}, processor=clock,
        window_ns=(NOW, NOW + ms * MS),
    )  # fmt: skip
    effort = Timeline(trace).efforts["DecodeJpeg"]
    assert effort.computes is None
    assert effort.low == pytest.approx(0.25, abs=0.01)
    assert effort.high == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("share", "computes"), [(1.0, True), (0.05, False)])
def test_an_op_that_hardly_rests_is_told_though_the_processor_is_counted_in_ticks(share, computes):
    """Beside it, nothing can keep more than a part of a core busy: the rest of a whole core is its own."""
    ms = 400
    spans = [Span("worker", "PyFunc:PyFunc", "map", NOW + t * MS, 49 * MS, -1) for t in range(0, ms, 50)]
    spans += [Span("consumer", "wait for batch", "wait", NOW, ms * MS, 0)]
    at = range(0, ms + 1, 2)
    # The system counts the time of a processor in ticks of some milliseconds.
    clock = {"at_ns": [NOW + t * MS for t in at], "cpu_ns": [int(share * t / 4) * 4 * MS for t in at]}
    trace = Trace.from_spans(
        spans, {"consumer": "consumer", "worker": "pipeline"}, host={"cpus": 2}, processor=clock,
        window_ns=(NOW, NOW + ms * MS),
    )  # fmt: skip
    assert Timeline(trace).efforts["PyFunc"].computes is computes


@pytest.mark.parametrize(("thread", "waits"), [("worker", False), ("in the consumer's thread", None)])
def test_no_op_computes_for_longer_than_threads_wanted_a_core_but_for_the_one_that_trains(thread, waits):
    """The thread that trains waits for a core most of the time, and an op is open all the time elsewhere, or in it."""
    ms = 600
    spans = [Span(thread, "f/EagerPyFunc:EagerPyFunc", "map", NOW, ms * MS, -1)]
    spans += [Span("consumer", "wait for batch", "wait", NOW, ms * MS, 0)]
    at = range(0, ms + 1, 5)
    clock = {"at_ns": [NOW + t * MS for t in at], "cpu_ns": [int(0.1 * t * MS) for t in at], "queued_ns": 500 * MS}

    def computes(**more):
        kinds = {"consumer": "consumer", thread: "pipeline"}
        facts = {"processor": clock | more, "window_ns": (NOW, NOW + ms * MS), "host": {"cpus": 2}}
        return Timeline(Trace.from_spans(spans, kinds, **facts)).efforts["EagerPyFunc"].computes

    assert computes() is None, "nobody knows whose the queue was"
    assert computes(consumer_ns=100 * MS) is None, "others waited for a core, too"
    assert computes(consumer_ns=480 * MS) is waits


def test_a_source_that_computes_is_preparation_and_one_that_waits_is_a_fetch():
    for share, cause in ((1.0, "prep"), (0.05, "fetch")):
        timeline = recorded((0.9, share, 0.05))
        path = timeline.causes
        charged = {key[0] for key in path.by_op if timeline.names[key[1]] == "Iterator::Root::TFRecord"}
        assert charged <= {cause}, (share, charged)
