"""Many runs on one time axis, one row each: when the accelerator worked, and below it when the pipeline did.

A pipeline that only waits, as for storage, works as little as one that rests: its band is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from labkit.common.palette import Theme
from labkit.common.table import Table
from labkit.timeline.describe import provenance
from labkit.timeline.intervals import Intervals, edges_of, union
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.timeline.wording import duration
from labkit.views.figure_page import MARGIN, SMALL, FigurePage, fit, heading
from labkit.views.layout.band import FILLED, Band, Kinds
from labkit.views.picture import DPI, WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches: the height of a row, the names on its left, the figures on its right.
_ROW, _LEFT, _RIGHT = 0.46, 2.35, 2.05

#: Parts of a row, each on top of those before it: from where to where, as shares of its height.
_BED, _TRAIN, _BAND = (0.0, 1.0), (0.0, 0.7), (0.76, 1.0)

#: From so many cores on the pipeline is said to compute.
_HALF = 0.5
#: Parts of the window in which that is asked.
_COLUMNS = 1000

#: Rows stay readable on one screen up to here.
MOST = 24


def draw(runs: Mapping[str, Trace | Timeline], *, title: str) -> Picture:
    """Draw one row for each run: the accelerator's steps and its idle time, and the pipeline's work as a band.

    The picture holds three steps of the slowest run, or all of the longest run if that is less. A row ends where its
    run ends.

    Parameters
    ----------
    runs : mapping of name to Trace or Timeline
        From top to bottom.
    title : str

    Raises
    ------
    ValueError
        If there is no run, more than `MOST`, or a run without a step.
    """
    if not runs or len(runs) > MOST:
        raise ValueError(f"runs has {len(runs)} entries; allowed: 1 to {MOST}")
    lines = {name: run if isinstance(run, Timeline) else Timeline(run) for name, run in runs.items()}
    if empty := [name for name, line in lines.items() if not line.steps]:
        raise ValueError(f"run {empty[0]!r} has no train step, so there is nothing to draw")
    window = _window(lines)
    busy = ", ".join(f"{name} {line.busy:.0%}" for name, line in lines.items())
    alt, text = f"{title}. Accelerator busy: {busy}.", _text(lines, title, window)
    return Picture(lambda look: _figure(lines, title, window, look), title, alt, text)


def strips(lines: Mapping[str, Timeline]) -> dict[str, str]:
    """Return the rows that `draw` draws, each as an SVG on one line for the middle of a button.

    A row takes its colours from the page: its parts are of the classes ``bed``, ``gap``, ``train`` and ``decode``.
    """
    window = _window(lines)

    def path(part: str, bars: list[tuple[float, float]], reach: tuple[float, float]) -> str:
        per_ms, top, high = 1e9 / window, 20 * reach[0], 20 * (reach[1] - reach[0])
        drawn = "".join(f"M{a * per_ms:.1f} {top:g}h{n * per_ms:.1f}v{high:g}h{-n * per_ms:.1f}z" for a, n in bars)
        return f'<path class="{part}" d="{drawn}"/>'

    found = {}
    for name, line in lines.items():
        parts = "".join(path(*part) for part in _parts(line, window, 1000))
        found[name] = f'<svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">{parts}</svg>'
    return found


def figures(line: Timeline) -> str:
    """Return what stands at the end of a row: how busy its accelerator is, and its speed."""
    return f"{line.busy:.0%} busy, {_rate(line)}"


def _window(lines: Mapping[str, Timeline]) -> int:
    slowest, longest = (max(getattr(line, what) for line in lines.values()) for what in ("step_ms", "span_ns"))
    return min(longest, int(3e6 * slowest))


def _parts(
    line: Timeline, window: int, pixels: float
) -> list[tuple[str, list[tuple[float, float]], tuple[float, float]]]:
    """Return the parts of a row, the lowest first: what it is, (start, length) in ms, and from where to where."""
    own = [(0.0, min(window, line.span_ns) / 1e6)]
    band = cut(_computes(line, window), window, int(window / pixels))
    work = cut(line.accelerator.busy, window, 0)
    return [("bed", own, _BED), ("gap", own, _TRAIN), ("train", work, _TRAIN), ("decode", band, _BAND)]


def _computes(line: Timeline, window: int) -> Intervals:
    """Return when the pipeline keeps at least half a core busy."""
    work = Band(Kinds([line], [line.lanes]), 0, line).threads(0, window, _COLUMNS)[:FILLED].sum(axis=0)
    edges, busy = edges_of(0, window, _COLUMNS), work >= _HALF
    return union(edges[:-1][busy], edges[1:][busy])


def _rate(line: Timeline) -> str:
    unit = f"{line.run.noun}s/s"
    return f"{unit} unknown" if line.images_per_s is None else f"{line.images_per_s:,.0f} {unit}"


def _text(lines: Mapping[str, Timeline], title: str, window: int) -> str:
    rows = [
        (name, "accelerator busy", f"{line.busy:4.0%}", "step", duration(1e6 * line.step_ms), _rate(line))
        for name, line in lines.items()
    ]
    shown = f"  the first {window / 1e6:,.0f} ms shown, or all of a shorter run; figures of the whole run"
    # Facts that all runs share are printed once: measured or modelled, and the accelerator.
    origins = " ".join(dict.fromkeys(provenance(line.run) for line in lines.values()))
    table = Table((), rows, right=[2, 4, 5], notes=[origins], caption=f"{title}\n{shown}", indent="  ")
    return str(table)


def cut(busy: Intervals, window: int, least: int) -> list[tuple[float, float]]:
    """Return (start, length) in ms inside the window; neighbours closer than a pixel become one."""
    keep = busy.start < window
    start, end = busy.start[keep], np.minimum(busy.end[keep], window)
    merged = union(start, end + least)
    return [(s / 1e6, (min(e - least, window) - s) / 1e6) for s, e in zip(merged.start, merged.end, strict=True)]


def _figure(lines: Mapping[str, Timeline], title: str, window: int, look: Theme) -> Figure:
    key = "blue: the accelerator trains; red: it is idle; thin band: the pipeline computes; a row ends with its run"
    body = _ROW * len(lines)
    span = WIDTH - _LEFT - _RIGHT
    page = FigurePage(look, heading(title, key), body + 0.62)
    axes = page.axes(_LEFT, page.top, span, body)
    axes.set(xlim=(0, window / 1e6), ylim=(len(lines), 0))
    axes.set_xlabel("milliseconds from the start of each run's window", color=look.muted, fontsize=SMALL)
    colors = {"bed": look.lane, "gap": look.gap, **look.fill}
    for row, (name, line) in enumerate(lines.items()):
        for part, bars, (top, end) in _parts(line, window, span * DPI):
            reach = (row + 0.12 + 0.74 * top, 0.74 * (end - top))
            axes.broken_barh(bars, reach, facecolor=colors[part], linewidth=0)
        middle = page.top + (row + 0.5) * _ROW
        page.write(_LEFT - 0.1, middle, fit(name, _LEFT - MARGIN - 0.1, SMALL), SMALL, ha="right")
        page.write(WIDTH - _RIGHT + 0.1, middle, figures(line), SMALL, look.muted)
    return page.figure
