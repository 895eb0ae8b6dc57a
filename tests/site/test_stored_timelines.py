"""What a notebook stores beside a timeline: short, and the timeline that a page draws of it is the same."""

from __future__ import annotations

import json
from dataclasses import replace

import nbformat
import pytest
import timelines
from traces import circuit, crossing, gpu_job, job, noisy_job

import labkit
from labcourse import tour
from labkit.timeline.run import ProcessorTime
from labkit.timeline.timeline import Timeline
from labkit.views import widget
from labkit.views.stored_traces import pack

TRACES = {made.__name__: made for made in (job, noisy_job, circuit, crossing, gpu_job)}


def sampled():
    """A job with samples of the processor clock at odd nanoseconds."""
    trace = noisy_job()
    since = trace.window_ns[0]
    clock = ProcessorTime(at_ns=(since + 3, since + 5_000_123), cpu_ns=(7, 4_999_999), queued_ns=5)
    return trace.with_run(processor=clock)


@pytest.mark.parametrize("name", [*TRACES, "sampled"])
def test_a_trace_that_was_stored_is_the_same(name):
    trace = TRACES.get(name, sampled)()
    (again,), about = timelines.unpack(pack([trace], {"any": [1]}))
    assert about == {"any": [1]}
    assert again.run == trace.with_run(window_ns=trace.window_ns).run
    assert sorted(again) == sorted(trace)
    assert str(Timeline(again)) == str(Timeline(trace))


@pytest.mark.parametrize("name", [*TRACES, "sampled"])
def test_times_that_are_rounded_are_no_later_and_hardly_earlier(name):
    trace, grain = TRACES.get(name, sampled)(), 1_000
    (again,), _ = timelines.unpack(pack([trace], {}, grain))
    for column in ("start_ns", "end_ns"):
        moved = sorted(getattr(trace, column).tolist()), sorted(getattr(again, column).tolist())
        assert all(0 <= before - after < grain for before, after in zip(*moved, strict=True))
    if clock := trace.run.processor:
        found = again.run.processor
        assert replace(found, at_ns=(), cpu_ns=()) == replace(clock, at_ns=(), cpu_ns=())
        assert [ns // grain for ns in clock.at_ns + clock.cpu_ns] == [ns // grain for ns in found.at_ns + found.cpu_ns]


def test_what_ends_where_the_next_begins_still_does_when_it_is_rounded():
    """Also at the edges of the window, where a step more would be counted."""
    trace = job(steps=7, wait=3.000_7, train=2.000_9, origin=10**18 + 123)
    (again,), _ = timelines.unpack(pack([trace], {}, 1_000))
    assert Timeline(again).steps == Timeline(trace).steps == 7
    assert len(Timeline(again).gaps) == len(Timeline(trace).gaps)


def test_a_page_draws_what_was_shown():
    """One trace or two, drawn without causes, in part, with a tour: block and look are those of the notebook."""
    slow, quick = job(), job(wait=1)
    for shown in (
        labkit.show(slow, steps=2),
        labkit.show(slow, quick, labels=("slow", "quick"), title="A pair"),
        labkit.show(Timeline(slow, explain=False)),
        tour(slow, title="First look"),
    ):
        data = {"text/html": shown.picture.html(), **shown.kept()}
        output = nbformat.v4.new_output("display_data", data)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
        timelines.place(notebook, "00")
        (left,) = notebook.cells[0].outputs
        assert set(left.data) == {"text/html"}
        assert shown.picture.html() in left.data["text/html"], "the picture stays where no script runs"
        block, look = json.loads(left.data["text/html"].split('json">')[1].split("</script>")[0])
        assert block == widget.packed(shown.block)
        assert look == {key: value for key, value in shown.look.items() if key != "page"}


def test_what_would_make_a_notebook_heavy_is_not_stored(monkeypatch):
    shown = labkit.show(job())
    assert 100 < len(shown.kept()[widget.KEPT]) <= widget.MOST_KEPT
    exact, rounded = (len(pack([job(wait=3.000_7)], {}, grain)) for grain in (1, 1_000))
    assert rounded < exact
    monkeypatch.setattr(widget, "MOST_KEPT", 100)
    assert shown.kept() == {}
    assert widget.KEPT not in shown._repr_mimebundle_()[0]
