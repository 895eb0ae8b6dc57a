"""Many runs on one time axis, one row each: when the accelerator worked, and below it when the pipeline did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.common.palette import Theme
from labkit.timeline.describe import provenance
from labkit.timeline.intervals import Intervals, union
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views.picture import DPI, Picture, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _ROW, _LEFT, _RIGHT = 10.0, 0.46, 2.35, 1.75
#: Rows stay readable on one screen up to here.
MOST = 24


def draw(
    runs: Mapping[str, Trace | Timeline],
    *,
    title: str,
    window_ms: float | None = None,
    theme: str | None = None,
) -> Picture:
    """Draw one row for each run: the accelerator's work as blocks, white where it waits, the pipeline's as a band.

    Parameters
    ----------
    runs : mapping of name to Trace or Timeline
        From top to bottom.
    title : str
    window_ms : float, optional
        The first so many milliseconds of each run; by default three steps of the slowest one, or all of the longest
        run if that is less. A row ends where its run ends.
    theme : {"light", "dark"}, optional

    Raises
    ------
    ValueError
        If there is no run, more than `MOST`, a run without a step, or `window_ms` is longer than every run.
    """
    if not runs or len(runs) > MOST:
        raise ValueError(f"runs has {len(runs)} entries; allowed: 1 to {MOST}")
    lines = {name: run if isinstance(run, Timeline) else Timeline(run) for name, run in runs.items()}
    if empty := [name for name, line in lines.items() if not line.steps]:
        raise ValueError(f"run {empty[0]!r} has no train step, so there is nothing to draw")
    longest = max(line.span_ns for line in lines.values())
    if window_ms is None:
        window = min(longest, int(3e6 * max(line.step_ms for line in lines.values())))
    else:
        window = round(1e6 * window_ms)
        if not 0 < window <= longest:
            raise ValueError(
                f"window_ms is {window_ms!r}; allowed: above 0, up to {longest / 1e6:.6g}, the longest run"
            )
    return Picture(
        lambda look: _figure(lines, title, window, look),
        title,
        f"{title}. Accelerator busy: " + ", ".join(f"{name} {line.busy:.0%}" for name, line in lines.items()) + ".",
        _text(lines, title, window),
        theme,
    )


def _rate(line: Timeline) -> str:
    return "images/s unknown" if line.images_per_s is None else f"{line.images_per_s:,.0f} images/s"


def _text(lines: Mapping[str, Timeline], title: str, window: int) -> str:
    wide = max(map(len, lines))
    rows = [
        f"  {name.ljust(wide)}  accelerator busy {line.busy:4.0%}  step {line.step_ms:8.1f} ms  {_rate(line):>15}"
        for name, line in lines.items()
    ]
    return "\n".join(
        [
            title,
            f"  the first {window / 1e6:,.0f} ms shown, or all of a shorter run; figures of the whole run",
            *rows,
            _origin(lines),
        ]
    )


def _origin(lines: Mapping[str, Timeline]) -> str:
    """Say once what all runs share: measured or modelled, and on which accelerator."""
    said = dict.fromkeys(provenance(line.run) for line in lines.values())
    return " ".join(said)


def _pipeline(line: Timeline) -> Intervals:
    """Return when any thread of the pipeline worked."""
    lanes = [lane.busy for lane in line.lanes if lane.kind == "pipeline"]
    if not lanes:
        return Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return union(np.concatenate([b.start for b in lanes]), np.concatenate([b.end for b in lanes]))


def _cut(busy: Intervals, window: int, least: int) -> list[tuple[float, float]]:
    """Return (start, length) in ms inside the window; neighbours closer than a pixel become one."""
    keep = busy.start < window
    start, end = busy.start[keep], np.minimum(busy.end[keep], window)
    merged = union(start, end + least)
    return [(s / 1e6, (min(e - least, window) - s) / 1e6) for s, e in zip(merged.start, merged.end, strict=True)]


def _figure(lines: Mapping[str, Timeline], title: str, window: int, look: Theme) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with plain_style():
        top, below = 0.72, 0.62
        body = _ROW * len(lines)
        height = top + body + below
        figure = Figure(figsize=(_WIDTH, height), dpi=DPI, facecolor=look.background)
        FigureCanvasAgg(figure)
        words: dict[str, Any] = {"family": "DejaVu Sans", "parse_math": False, "va": "center"}
        figure.text(0.015, 1 - 0.2 / height, title, fontsize=12, weight="bold", color=look.ink, **words)
        key = "blocks: the accelerator trains; empty: it waits; thin band: the pipeline works; a row ends with its run"
        figure.text(0.015, 1 - 0.45 / height, key, fontsize=9, color=look.muted, **words)
        span = _WIDTH - _LEFT - _RIGHT
        axes = figure.add_axes((_LEFT / _WIDTH, below / height, span / _WIDTH, body / height), facecolor="none")
        axes.set(xlim=(0, window / 1e6), ylim=(len(lines), 0))
        axes.yaxis.set_visible(False)
        for side in axes.spines.values():
            side.set_visible(False)
        axes.tick_params(colors=look.muted, labelsize=9)
        axes.set_xlabel("milliseconds from the start of each run's window", color=look.muted, fontsize=9)
        pixel = int(window / (span * DPI))
        for row, (name, line) in enumerate(lines.items()):
            own = min(window, line.span_ns) / 1e6
            axes.broken_barh([(0, own)], (row + 0.12, 0.74), color=look.lane, linewidth=0)
            work = _cut(line.accelerator.busy, window, 0)
            axes.broken_barh(work, (row + 0.12, 0.52), facecolor=look.fill["train"], edgecolor=look.lane, linewidth=0.6)
            band = _cut(_pipeline(line), window, pixel)
            axes.broken_barh(band, (row + 0.68, 0.18), facecolor=look.fill["decode"], linewidth=0)
            figures = f"{line.busy:.0%} busy, {_rate(line)}"
            for words_, x, side, color in ((name, 0.0, "right", look.ink), (figures, window / 1e6, "left", look.muted)):
                axes.annotate(
                    words_, (x, row + 0.5), xytext=(-6 if side == "right" else 6, 0), textcoords="offset points",
                    fontsize=9, color=color, ha=side, annotation_clip=False, **words,
                )  # fmt: skip
        return figure
