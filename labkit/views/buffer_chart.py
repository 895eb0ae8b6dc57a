"""How many batches lie ready in a prefetch buffer, instant by instant, above the times at which the accelerator waits.

A recording notes when the producer of a prefetch finished a batch and when the consumer took one. Their difference
is the level of the buffer, but for a constant: what the buffer held when the window began.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from labkit.common.numbers import whole
from labkit.common.palette import Theme
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.timeline.wording import duration, milliseconds
from labkit.views.figure_page import BODY, MARGIN, SMALL, FigurePage, heading
from labkit.views.picture import WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PREFETCH = "Iterator::Root::Prefetch"
#: Inches: the names on the left, a panel, the space above each for its words, the axis below.
_LEFT, _PANEL, _SPACE, _BOTTOM = 2.1, 0.9, 0.3, 0.5


def draw(traces: Mapping[int | str, Trace], title: str = "Batches ready in the buffer") -> Picture:
    """Draw the level of the prefetch buffer over time, and when the accelerator waits: one panel for each run.

    All panels have the same scales, so that heights and lengths can be compared.

    Parameters
    ----------
    traces : dict of int or str to Trace
        Runs of pipelines that end with a prefetch, by the depth of their buffer. Where AUTOTUNE chooses the depth,
        the key is a text, such as ``"AUTOTUNE"``.
    title : str

    Raises
    ------
    ValueError
        If there are no traces, a depth is below 1, or a trace has no prefetch as its last step.
    """
    if not isinstance(traces, Mapping) or not traces:
        raise ValueError(f"traces is {traces!r:.60}; allowed: a dict of depth to trace, one or more")
    panels = []
    for depth, trace in traces.items():
        known = None if isinstance(depth, str) else whole("the depth of a buffer", depth, 1)
        panels.append((f"prefetch({depth})", Timeline(trace), *level(trace, known)))
    words = [f"{name}: {held.min()} to {held.max()} batches ready; accelerator idle "
             f"{milliseconds(timeline.idle_ns)} of {milliseconds(timeline.span_ns)} ms"
             for name, timeline, _, held in panels]  # fmt: skip
    make = functools.partial(_draw, title, panels)
    return Picture(make, title, f"{title}. {'. '.join(words)}.", "\n".join([title, *words]))


def level(trace: Trace, depth: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return how many batches lay in the buffer of the last prefetch, and from when on.

    Parameters
    ----------
    trace : Trace
    depth : int, optional
        Of the buffer, which never holds more. It says what the buffer held where the consumer never found it empty: it
        was full once. Without a depth, the lowest level counts as 0.

    Returns
    -------
    ns : ndarray of int64, shape (n,)
        Nanoseconds since the start of the window, rising from 0.
    level : ndarray of int64, shape (n,)
        Batches, from each of these times to the next.

    Raises
    ------
    ValueError
        If the last step of the pipeline is no prefetch.
    """
    start_ns, _ = trace.window_ns
    names = np.array([name.startswith(f"{_PREFETCH}::") and name.count("::") == 3 for name in trace.names], bool)
    made = trace.where(names[trace.name])
    if not len(made):
        raise ValueError("the trace holds no batch made by a prefetch; allowed: a pipeline that ends with prefetch")
    calls = trace.where(trace.select("iterator", name=_PREFETCH))
    calls = calls if len(calls) else trace.where(trace.select("wait", kind="consumer"))  # a simulation has waits only
    put, taken = np.sort(made.end_ns), calls.end_ns
    early = trace.select(kind="pipeline") & ~trace.select("iterator") & (trace.end_ns <= made.start_ns[0])
    if early.any():  # a batch was in the making when the recording began: its ops are seen, its call is not
        put = np.r_[made.start_ns[0], put]
    ns = np.r_[start_ns, put, taken]
    change = np.r_[0, np.ones(len(put), np.int64), -np.ones(len(taken), np.int64)]
    order = np.lexsort((-change, ns))  # put before taken at the same instant
    ns, count = ns[order] - start_ns, np.cumsum(change[order])
    if len(calls):
        longest = int(np.argmax(calls.duration_ns))
        inside = ((put > calls.start_ns[longest]) & (put <= taken[longest])).sum()
        if inside:  # the consumer waited for one of these batches, so it had found none
            after = np.searchsorted(ns, taken[longest] - start_ns, side="right") - 1
            held = count - count[after] + inside - 1
            # The next batch may be ready before the call that took this one has returned.
            return ns, held if depth is None else np.minimum(held, depth)
    return ns, count - count.min() if depth is None else count - count.max() + depth


def _draw(title: str, panels: list[tuple[str, Timeline, np.ndarray, np.ndarray]], look: Theme) -> Figure:
    note = "Line: batches ready. Coloured: the accelerator waits, for 1 % of the axis or longer."
    page = FigurePage(look, heading(title, note), len(panels) * (_PANEL + _SPACE) + _BOTTOM)
    last_ms = max(timeline.span_ns for _, timeline, _, _ in panels) / 1e6
    high = max(1, *(int(held.max()) for *_, held in panels))
    for row, (name, timeline, ns, held) in enumerate(panels):
        top = page.top + _SPACE + row * (_PANEL + _SPACE)
        axes = page.axes(_LEFT, top, WIDTH - _LEFT - 2 * MARGIN, _PANEL, "left")
        axes.set_facecolor(look.lane)
        axes.set(xlim=(0, last_ms), ylim=(0, 1.15 * high), yticks=[0, high])
        axes.tick_params(length=2, labelbottom=row == len(panels) - 1)
        _idle(axes, timeline, last_ms, look)
        edges = np.r_[ns, timeline.span_ns] / 1e6
        axes.stairs(held, edges, color=look.fill["train"], linewidth=2, baseline=None)
        words = {"fontsize": SMALL, "color": look.muted, "family": "DejaVu Sans"}
        axes.set_ylabel("batches", **words)
        page.write(MARGIN, top + _PANEL / 2, name, BODY, weight="bold")
    axes.set_xlabel("milliseconds since the start of the window", **words)
    return page.figure


def _idle(axes: Axes, timeline: Timeline, last_ms: float, look: Theme) -> None:
    """Colour the times at which the accelerator waits; write the length of those that are wide enough."""
    for gap in timeline.gaps:
        start, length = gap.start_ns / 1e6, gap.length_ns / 1e6
        if length < 0.01 * last_ms:
            continue
        axes.axvspan(start, start + length, color=look.gap, linewidth=0, zorder=0)
        if length >= 0.06 * last_ms:
            style = {"fontsize": SMALL, "color": look.ink, "family": "DejaVu Sans", "annotation_clip": False}
            axes.annotate(f"idle {duration(gap.length_ns)}", (start + length / 2, 1), (0, 3), ha="center", va="bottom",
                          xycoords=("data", "axes fraction"), textcoords="offset points", **style)  # fmt: skip
