"""Laws of the one type that everything passes around."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.common.files import write_aside
from labkit.timeline.run import Accelerator, Host, LoaderFacts, Measure, Profile, Run, Totals
from labkit.timeline.trace import CATEGORIES, Span, Trace

# Where a clock after 1970 really stands: float64 would round these to 256 ns.
NOW = 1_795_000_000_000_000_001

spans = st.lists(
    st.builds(
        Span,
        thread=st.sampled_from(["consumer", "worker 1", "worker 2"]),
        name=st.sampled_from(["a", "b", "c:Decode"]),
        category=st.sampled_from(CATEGORIES),
        start_ns=st.integers(NOW, NOW + 1000),
        duration_ns=st.integers(0, 500),
        step=st.integers(-1, 5),
    ),
    max_size=30,
)


def key(span):
    return (span.start_ns, -span.duration_ns, *map(str, span))


@given(spans)
def test_spans_in_are_spans_out_sorted_by_start(given_spans):
    trace = Trace.from_spans(given_spans)
    assert sorted(trace, key=key) == sorted(given_spans, key=key)
    assert list(trace.start_ns) == sorted(trace.start_ns)
    assert trace.start_ns.dtype == trace.duration_ns.dtype == np.int64


PART = {"dtype": "float32", "shape": [None, 3], "digest": "a1"}


@settings(max_examples=30)
@given(spans, st.sampled_from(["t.json", "t.json.gz"]))
def test_saving_and_loading_is_the_identity(tmp_path_factory, given_spans, name):
    path = tmp_path_factory.mktemp("trace") / name
    trace = Trace.from_spans(given_spans, kinds={"consumer": "consumer"}, name="ö", work={"components": [PART]})
    back = Trace.load(trace.save(path))
    assert list(back) == list(trace)
    assert (back.names, back.threads, back.run) == (trace.names, trace.threads, trace.run)


@given(spans, st.integers(NOW - 10, NOW + 1500), st.integers(0, 800))
def test_a_slice_holds_what_touches_it_cut_to_it(given_spans, start, length):
    trace = Trace.from_spans(given_spans)
    cut = trace.slice(start, start + length)
    assert (cut.start_ns >= start).all()
    assert (cut.end_ns <= start + length).all()
    touching = [s for s in given_spans if s.start_ns < start + length and (s.end_ns > start or s.start_ns >= start)]
    assert len(cut) == len(touching)
    assert cut.duration_ns.sum() == sum(min(s.end_ns, start + length) - max(s.start_ns, start) for s in touching)


@given(spans, spans)
def test_merging_loses_nothing_and_keeps_names(first, second):
    merged = Trace.merge(Trace.from_spans(first), Trace.from_spans(second))
    assert sorted(merged, key=key) == sorted([*first, *second], key=key)
    assert len(set(merged.threads)) == len(merged.threads)


def test_measured_and_modelled_do_not_mix():
    span = Span("t", "n", "map", NOW, 3, -1)
    with pytest.raises(ValueError, match="measured and modelled spans stay apart"):
        Trace.merge(Trace.from_spans([span]), Trace.from_spans([span], origin="measured"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"category": "sleep"}, "category of span 'n' is 'sleep'; allowed: wait, train"),
        ({"duration_ns": -1}, "duration_ns holds -1"),
    ],
)
def test_an_impossible_span_is_named(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Trace.from_spans([Span("t", "n", "map", NOW, 3, -1)._replace(**change)])


def test_impossible_tables_are_named():
    trace = Trace.from_spans([Span("t", "n", "map", NOW, 3, -1)])
    columns = {c: getattr(trace, c) for c in ("start_ns", "duration_ns", "name", "thread", "category", "step")}
    tables = {"names": trace.names, "threads": trace.threads, "run": trace.run}
    for change, sentence in [
        ({"start_ns": np.array([0.5])}, "start_ns must be a one-dimensional array of int64"),
        ({"name": np.array([7], np.int32)}, "name holds an index outside"),
        ({"step": np.zeros(2, np.int32)}, "step has 2 rows"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            Trace(**{**columns, **tables, **change})
    with pytest.raises(TypeError, match="run is None; allowed: a"):
        Trace(**{**columns, **tables, "run": None})
    with pytest.raises(ValueError, match="allowed: wait, train"):
        trace.select("sleep")
    with pytest.raises(ValueError, match="before start_ns"):
        trace.slice(5, 4)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xd8", b'{"format": "labkit-trace-1"}', b'{"format": "other"}', b"[]", b"[" * 100_000]
)
@pytest.mark.parametrize("name", ["broken.json", "broken.json.gz"])
def test_a_file_that_is_no_trace_is_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.json(\.gz)? is not a trace saved by labkit"):
        Trace.load(path)


@pytest.mark.parametrize(
    "change", [{"run": []}, {"columns": {"start_ns": [10**30]}}, {"threads": [["t"]]}, {"names": None}, {"run": {}}]
)
def test_a_trace_whose_parts_are_wrong_is_named(tmp_path, change):
    path = Trace.from_spans([Span("t", "n", "map", NOW, 3, -1)]).save(tmp_path / "broken.json")
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    with pytest.raises(ValueError, match=r"broken\.json is not a trace saved by labkit"):
        Trace.load(path)


def test_a_trace_is_named_whatever_byte_of_its_stream_is_damaged(tmp_path):
    path = Trace.from_spans([Span("t", "n", "map", NOW, 3, -1)]).save(tmp_path / "broken.json.gz")
    whole = path.read_bytes()
    for place in range(10, len(whole)):  # the header before holds the time and the system, which nobody reads
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"broken\.json\.gz is not a trace saved by labkit"):
            Trace.load(path)


def test_writing_aside_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    write_aside(path, "old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        write_aside(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_a_written_file_has_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(write_aside(tmp_path / "made", "").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


# -- what is known about the run ---------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"origin": "guessed"}, "origin is 'guessed'; allowed: measured, modelled"),
        ({"batch_size": "8"}, "batch_size is '8'; allowed: int | None"),
        ({"batch_size": 2.5}, "batch_size is 2.5; allowed: int | None"),
        ({"name": 7}, "name is 7; allowed: str | None"),
        ({"graph": ["Root", 1]}, "graph is .*; allowed: tuple"),
        ({"accelerator": "V100"}, "accelerator is 'V100'; allowed: Accelerator"),
        ({"accelerator": {"kind": 3}}, "kind is 3; allowed: str | None"),
        ({"repeats": [{"images": 3}]}, "repeats is .*; allowed: tuple"),
        ({"window_ns": (0, 1, 2)}, "window_ns is .*; allowed: start and end"),
    ],
)
def test_a_fact_of_the_wrong_type_is_named(facts, sentence):
    with pytest.raises(ValueError, match=sentence.replace("|", r"\|")):
        Run(**{"origin": "measured", **facts})


def test_what_was_delivered_has_a_type_for_each_fact():
    labels = {"digest": "1", "count": 8, "histogram": {"5": 8}}
    work = Run("measured", work={"images": 8, "components": [PART], "labels": labels, "padded": 0.5}).work
    assert (work.images, work.padded, work.components[0].shape, work.labels.histogram) == (8, 0.5, (None, 3), {"5": 8})
    for wrong in ({"imags": 8}, {"images": "8"}, {"components": [{"dtype": "float32", "shape": 3}]}):
        with pytest.raises(ValueError, match="allowed: "):
            Run("measured", work=wrong)


def test_an_unknown_fact_is_refused():
    with pytest.raises(TypeError, match="drill"):
        Run("measured", drill=3)


def test_a_run_is_equal_to_itself_written_as_json():
    measure = Measure(8, 2, 0.5, 16.0, 250.0, 10.0, 15.0, 240.0, 0.9, None)
    run = Run(
        "measured",
        "job",
        Accelerator("V100", "modelled", "a paper", "modelled V100"),
        batch_size=np.int64(4),
        window_ns=(3, 9),
        graph=("Root", "Root::Map"),
        job=Totals(2, 8, 1),
        profiler=Profile(events=12),
        repeats=(measure, measure),
        host=Host(2),
        knobs={"cores": 2},
    )
    assert Run(**json.loads(json.dumps(asdict(run)))) == run
    assert type(run.batch_size) is int


def test_a_trace_with_another_run_keeps_its_spans():
    trace = Trace.from_spans([Span("t", "n", "map", NOW, 3, -1)], name="one", batch_size=4)
    other = trace.with_run(name="other")
    assert (other.run.name, other.run.batch_size, trace.run.name) == ("other", 4, "one")
    assert list(other) == list(trace)
    with pytest.raises(AttributeError):
        trace.run.name = "changed"


def test_a_loader_says_its_numbers_and_truths_as_such_whatever_it_says_in_words():
    silent = LoaderFacts("grain", "DataLoader")
    assert (silent.workers, silent.turned_on("pin_memory")) == (None, None)
    facts = LoaderFacts("torch", "DataLoader", {"workers": "0", "persistent_workers": "False", "pin_memory": "True"})
    assert (facts.workers, facts.turned_on("persistent_workers"), facts.turned_on("pin_memory")) == (0, False, True)
    assert str(facts) == "PyTorch DataLoader, workers 0, persistent_workers False, pin_memory True"
