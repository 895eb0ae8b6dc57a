"""The line over a picture: what it says of any run, and what it keeps to itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import job

from labkit.common import other_programs
from labkit.timeline.heading import heading
from labkit.timeline.run import Host, OpTime, Profile, Totals
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace

MS, NOW = 1_000_000, 10**18


def turns(wait: float, train: float, *work: tuple[str, str, float], steps: int = 4, **meta: object) -> Timeline:
    """Return a job in turns whose worker does each work, (name, category, ms), one after the other in every wait."""
    spans = []
    for step in range(steps):
        at = NOW + int(step * (wait + train) * MS)
        spans += [Span("consumer", "wait for batch", "wait", at, int(wait * MS), step)]
        spans += [Span("consumer", "train step", "train", at + int(wait * MS), int(train * MS), step)]
        for name, category, ms in work:
            spans += [Span("worker", name, category, at, int(ms * MS), -1)]
            at += int(ms * MS)
    return Timeline(Trace.from_spans(spans, {"consumer": "consumer"}, **meta))


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (("x:ReadFile", "read"), "storage: ReadFile"),
        (("SingleElementIterator::Sleep", "read"), "modelled storage"),
        (("network_1:PyFunc", "read"), "an answer from the network"),
        (("x:DecodeJpeg", "decode"), "preparation: DecodeJpeg"),
        (("Iterator::Root::BatchV2", "batch"), "the copying into batches: BatchV2"),
        (("pickle", "transfer"), "the way between processes: pickle"),
        (("PyFunc:PyFunc", "map"), "a function of Python"),
    ],
)
def test_it_names_what_is_waited_for_most(work, words):
    assert heading(turns(10, 5, (*work, 9), origin="measured")) == (
        f"measured · accelerator busy 33 % · waits mostly for {words}"
    )


def test_one_call_of_python_that_computes_is_not_said_to_hold_the_interpreter():
    times = {"PyFunc:PyFunc": OpTime(36 * MS, 36 * MS)}
    line = heading(turns(10, 5, ("PyFunc:PyFunc", "map", 9), op_times=times))
    assert line.endswith("waits mostly for a function of Python")


def test_where_nothing_waits_it_says_so():
    assert heading(turns(0, 5, ("x:DecodeJpeg", "decode", 4))) == (
        "modelled · accelerator busy 100 % · waits for next to nothing"
    )
    assert heading(turns(0.01, 9.99)).endswith("busy > 99 % · waits for next to nothing"), "not quite all is not all"


def test_what_nobody_saw_is_nobody_s_fault():
    assert heading(turns(10, 5)).endswith("waits mostly for something that the recording does not show")
    assert heading(Timeline(Trace.from_spans([]))) == "modelled · nothing was recorded"
    assert heading(Timeline(Trace.from_spans([Span("worker", "x", "decode", NOW, 9, -1)]))).count(" · ") == 1


@pytest.mark.parametrize("kind", ["script", "unit"])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_it_says_which_process_the_others_wait_for(processes, kind):
    """Each step, all are in the all-reduce until the last process is there: that one is in it for the shortest time."""
    spans, kinds = [], {}
    for process in range(processes):
        mine, begin = f"process {process} · ", 5 + 3 * process
        kinds |= {f"{mine}all-reduce": kind, f"{mine}train": "consumer" if process == 0 else "script"}
        for step in range(4):
            at = NOW + step * 20 * MS
            spans += [Span(f"{mine}train", "train step", "train", at, 20 * MS, step)]
            spans += [Span(f"{mine}all-reduce", "all-reduce", "transfer", at + begin * MS, (20 - begin) * MS, step)]
    last = f"process {processes - 1}" if processes > 1 else "the slowest process"
    assert heading(Timeline(Trace.from_spans(spans, kinds))).endswith(f"waits mostly for {last}: all-reduce")


@settings(max_examples=50)
@given(st.floats(0, 20), st.floats(0.1, 20), st.sampled_from(["read", "decode", "batch", "transfer", "copy"]))
def test_without_explanation_it_gives_nothing_away(wait, train, category):
    explained = turns(wait, train, ("work", category, wait), host={"cpus": 2, "others": 0.45})
    assert heading(Timeline(explained.trace, explain=False)) == "modelled · other programs took 0.9 of 2 cores"
    assert "\n" not in heading(explained)
    assert "accelerator busy" in heading(explained)


def test_what_the_profiler_did_stands_over_the_picture_and_under_busy_in_the_text():
    trace = job().with_run(
        job=Totals(20, 640, 1.0), profiler=Profile(profiled_steps=3, distortion=0.31, note="a note."), noun="element"
    )
    said = ["The profiler watched 3 of 20 steps.", "Recording distorts: it adds 31 % to the CPU time of each element."]
    line, text = heading(Timeline(trace)), str(Timeline(trace))
    assert all(sentence.removesuffix(".") in line for sentence in said)
    assert "a note" not in line
    rows = text.splitlines()
    at = next(number for number, row in enumerate(rows) if row.startswith("  accelerator busy"))
    assert rows[at + 1].startswith("  recording ")
    assert " ".join([*said, "Trust the order of spans"]) in " ".join(text.split())
    assert "a note." in text
    whole = job().with_run(job=Totals(3, 96, 1.0), profiler=Profile(profiled_steps=3))
    assert "profiler" not in f"{heading(Timeline(whole))}{Timeline(whole)}"


def test_the_text_begins_with_how_busy_and_what_to_change_and_a_blank_line():
    above, _, below = str(turns(10, 5, ("x:DecodeJpeg", "decode", 9), origin="measured")).partition("\n\n")
    first, advice = re.split(r"\n  (?=what to change)", above)
    assert "accelerator busy 33 % · waits mostly for preparation: DecodeJpeg" in " ".join(first.split())
    assert len(advice.split()) > 4
    assert below.startswith("  run ")


@settings(max_examples=50)
@given(st.floats(0, 1), st.sampled_from([None, 1, 2, 96]))
def test_other_programs_are_named_from_a_quarter_of_the_cores_on(share, cpus):
    trace = job().with_run(host=Host(cpus=cpus, others=share))
    line, warning = heading(Timeline(trace)), other_programs.warning(share, cpus)
    assert bool(warning) == (share >= other_programs.BUSY) == ("other programs" in line)
    assert line.endswith(warning)
