"""What an answer would do, as a small timeline: bars on a stated clock, and the student's number marked on its axis.

Everything here is modelled. A number that is no time (a share, a rate, megabytes) is turned into one by the exercise,
so that the mark of a right answer falls where the bars show it.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from labkit.common.palette import Theme
from labkit.timeline.run import Accelerator
from labkit.timeline.trace import Span, Trace
from labkit.views.picture import Picture, plain_style
from labkit.views.static import draw

#: A bar: thread, name, category, start and end in milliseconds.
Bar = tuple[str, str, str, float, float]

_ACCELERATOR = "consumer"


@dataclass(frozen=True)
class Sketch:
    """A timeline to be drawn.

    Parameters
    ----------
    trace : Trace
        Modelled; `timeline` makes one of bars.
    title : str
        The example, in words.
    mark_ms : float, optional
        Where the student's number stands on the time axis. A number beyond the end is marked at the edge.
    words : str
        What the mark says, or what else there is to say.
    """

    trace: Trace
    title: str
    mark_ms: float | None = None
    words: str = ""

    def picture(self) -> Picture:
        """Draw it."""
        title = f"{self.title} {self.words}".strip()
        steps = int(self.trace.select("train", kind="consumer").sum())
        plain = draw(self.trace, title=title, steps=steps)
        if self.mark_ms is None:
            return plain
        end_ms = self.trace.span_ns / 1e6
        said = f"the dashed line, your answer: {_place(self.mark_ms, end_ms)}"
        make = functools.partial(_marked, plain, self.mark_ms)
        return Picture(make, plain.title, f"{plain.alt} {said[0].upper()}{said[1:]}.", f"{said}\n{plain.text}")


def timeline(bars: Iterable[Bar], train: Iterable[tuple[float, float]], name: str, batch: int = 1) -> Trace:
    """Return the trace of a job: bars of any thread, and the train steps of the accelerator.

    Parameters
    ----------
    bars : iterable of (thread, name, category, start_ms, end_ms)
    train : iterable of (start_ms, end_ms)
        In order; between them the consumer waits for a batch.
    name : str
        What views call the accelerator's work.
    batch : int
        Images of a step.
    """
    spans, now, step = [], 0.0, -1
    for step, (start, end) in enumerate(train):
        if start > now:
            spans.append(_span(_ACCELERATOR, "wait for batch", "wait", now, start, step))
        spans.append(_span(_ACCELERATOR, name, "train", start, end, step))
        now = end
    spans += [_span(*bar) for bar in bars]
    end_ns = max(s.end_ns for s in spans)
    return Trace.from_spans(
        spans,
        {_ACCELERATOR: "consumer"},
        accelerator=Accelerator(
            name=name,
            kind="modelled",
            source="the example of the exercise",
            describe=f"modelled {name} (source: the example of the exercise)",
        ),
        batch_size=batch,
        steps=step + 1,
        warmup=0,
        images=batch * (step + 1),
        window_ns=(0, end_ns),
    )


def real(value: Any) -> float:
    """Return a number as float; NaN where it is none."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if good else math.nan


def _span(thread: str, name: str, category: str, start: float, end: float, step: int = -1) -> Span:
    first = round(start * 1e6)
    return Span(thread, name, category, first, round(end * 1e6) - first, step)


def _place(mark: float, end: float) -> str:
    if not math.isfinite(mark):
        return "no time at all, so there is none"
    if mark < 0:
        return f"{mark:,.4g} ms, before the beginning"
    return f"{mark:,.4g} ms of {end:,.4g} ms" + (", beyond the end" if mark > end else "")


def _marked(plain: Picture, mark: float, look: Theme) -> Any:
    """Draw the plain picture, and a dashed line through its lanes."""
    with plain_style():
        figure = plain.figure(look.name)
        if not math.isfinite(mark):
            return figure
        axes = figure.axes[1]
        low, high = axes.get_xlim()
        place = min(max(mark, low), high)
        arrow = {place: "^", low: "<" if mark < low else "^", high: ">" if mark > high else "^"}[place]
        bottom = axes.get_ylim()[0]
        # A light edge on both sides keeps the line visible on dark bars.
        axes.axvline(place, color=look.background, linewidth=4.0, zorder=8, clip_on=False)
        axes.axvline(place, color=look.ink, linewidth=1.8, linestyle=(0, (4, 2)), zorder=9, clip_on=False)
        style = {"color": look.ink, "markersize": 9, "zorder": 10, "clip_on": False}
        axes.plot([place], [bottom], marker=arrow, markeredgecolor=look.background, **style)
        axes.set_xlim(low, high)
        return figure
