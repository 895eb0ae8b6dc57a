"""Many runs on one axis: the same window for all, the figures of each, and a picture in both themes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from labkit.timeline.intervals import Intervals
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Span, Trace
from labkit.views import ladder_chart

MS = 1_000_000


def run(load_ms, train_ms, steps=4):
    """Return a trace whose steps take turns with loading, on the clock of a made-up run."""
    spans, at = [], 0
    for step in range(steps):
        spans.append(Span("consumer", "wait for batch", "wait", at, load_ms * MS, step))
        spans.append(Span("worker", "DecodeJpeg", "decode", at, load_ms * MS, -1))
        at += load_ms * MS
        spans.append(Span("consumer", "train step", "train", at, train_ms * MS, step))
        at += train_ms * MS
    kinds = {"consumer": "consumer", "worker": "pipeline"}
    meta = {"images": 32 * steps, "accelerator": {"kind": "modelled", "name": "test"}, "window_ns": [0, at]}
    return Trace.from_spans(spans, kinds=kinds, **meta)


def test_the_text_holds_the_figures_of_every_run():
    picture = ladder_chart.draw({"slow": run(30, 10), "fast": run(10, 10)}, title="Two runs")
    lines = picture.text.splitlines()
    assert lines[0] == "Two runs"
    assert "slow" in lines[2]
    assert "25%" in lines[2]
    assert "800 images/s" in lines[2]
    assert "50%" in lines[3]
    assert "1,600 images/s" in lines[3]
    assert "modelled accelerator test" in lines[-1]
    assert "slow 25%, fast 50%" in picture.alt


def test_the_axis_holds_three_steps_of_the_slowest_or_the_longest_run():
    long, short = run(30, 10, steps=10), run(10, 10, steps=2)
    assert "first 120 ms" in ladder_chart.draw({"long": long, "short": short}, title="T").text
    assert "first 80 ms" in ladder_chart.draw({"a": run(30, 10, steps=2), "b": short}, title="T").text


def test_a_row_ends_with_its_run():
    figure = ladder_chart.draw({"long": run(30, 10), "short": run(10, 10, steps=2)}, title="T").figure("light")
    beds = [c for c in figure.axes[0].collections if len(c.get_paths()) == 1 and c.get_linewidth()[0] == 0]
    ends = sorted(bed.get_paths()[0].vertices[:, 0].max() for bed in beds)
    assert 40 in ends, "two steps of 20 ms"
    assert ends[-1] == 120


def test_blocks_are_cut_at_the_window_and_neighbours_closer_than_a_pixel_become_one():
    busy = Intervals(np.array([0, 12, 30, 90]) * MS, np.array([10, 20, 50, 95]) * MS)
    assert ladder_chart.cut(busy, 40 * MS, 0) == [(0, 10), (12, 8), (30, 10)]
    assert ladder_chart.cut(busy, 40 * MS, 3 * MS) == [(0, 20), (30, 10)]


def test_a_strip_holds_the_blocks_of_its_row():
    runs = {"long": Timeline(run(30, 10, steps=10)), "short": Timeline(run(10, 10, steps=2))}
    strips = ladder_chart.strips(runs)
    assert list(strips) == list(runs)
    figure = ladder_chart.draw(runs, title="T").figure("light")
    drawn = iter(figure.axes[0].collections)
    for strip in strips.values():
        for part in re.findall(r'<path class="\w+" d="([^"]*)"', strip):
            bars = [(float(x) * 0.12, float(n) * 0.12) for x, n in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", part)]
            paths = [path.vertices[:, 0] for path in next(drawn).get_paths()]
            assert np.allclose(bars, [(p.min(), p.max() - p.min()) for p in paths], atol=0.02)


def test_a_pipeline_that_waits_for_storage_does_not_compute():
    def reads(name, category):
        spans = [Span("consumer", "train step", "train", 0, 40 * MS, 0), Span("worker", name, category, 0, 40 * MS, -1)]
        return Trace.from_spans(spans, kinds={"consumer": "consumer", "worker": "pipeline"}, window_ns=[0, 40 * MS])

    strips = ladder_chart.strips({n: Timeline(reads(n, c)) for n, c in (("ReadFile", "read"), ("Decode", "decode"))})
    assert ['class="decode" d="M' in strip for strip in strips.values()] == [False, True]


def test_light_and_dark_show_the_runs_on_their_own_ground():
    from io import BytesIO

    from PIL import Image

    picture = ladder_chart.draw({f"run {i}": run(30 - i, 10) for i in range(5)}, title="Five runs")
    grounds = []
    for theme in ("light", "dark"):
        image = Image.open(BytesIO(picture.png(theme))).convert("RGB")
        grounds.append(sum(image.getpixel((3, image.height - 3))))
        assert len(image.getcolors(1 << 20)) > 8
    assert grounds[0] > 700 > 200 > grounds[1]


@pytest.mark.parametrize("runs", [{}, {str(i): None for i in range(25)}])
def test_no_run_or_too_many_are_refused(runs):
    with pytest.raises(ValueError, match="allowed: 1 to 24"):
        ladder_chart.draw(runs, title="T")


def test_a_run_without_a_step_is_named():
    idle = Trace.from_spans([Span("w", "DecodeJpeg", "decode", 0, MS, -1)], kinds={"w": "pipeline"})
    with pytest.raises(ValueError, match="run 'idle' has no train step"):
        ladder_chart.draw({"idle": idle}, title="T")
