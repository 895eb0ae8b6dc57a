"""The picture of the autotune lens: every number that AUTOTUNE sets, over the steps of a job.

One panel for each: the number as a line, its bound as a dashed one, and, for a buffer, how much of it was filled.
The last panel shows what the consumer felt of it: its wait for each batch.
"""

from __future__ import annotations

import functools
import itertools
import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.common.palette import Theme
from labkit.views.picture import DPI, Picture, plain_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from labkit.recording.tfdata.diagnosis import Lens

_WIDTH, _LEFT, _RIGHT = 10.0, 2.35, 1.1
_TOP, _PANEL, _SPACE, _BOTTOM = 0.9, 0.62, 0.2, 0.55
_BODY, _SMALL, _TITLE = 9.5, 9.0, 12.0

#: More panels than this make no picture that anybody reads.
MOST = 8


class _Knob(NamedTuple):
    """One tuned number: its name, what it was at each reading, its bound, and what lay in the buffer."""

    name: str
    values: list[float]
    high: float
    held: list[float] | None

    def __str__(self) -> str:
        known = [v for v in self.values if not math.isnan(v)]
        turns = [known[0]] + [b for a, b in itertools.pairwise(known) if a != b]
        shown = turns if len(turns) <= 8 else [*turns[:4], *turns[-3:]]
        words = [f"{v:.0f}" for v in shown]
        if len(turns) > 8:
            words.insert(4, "…")
        bound = "no limit" if math.isinf(self.high) else f"at most {self.high:.0f}"
        held = "" if self.held is None else f"; held {min(self.held):.0f} to {max(self.held):.0f}"
        return f"{self.name}: {' → '.join(words)} ({bound}{held})"


def draw(lens: Lens, title: str = "What AUTOTUNE chose", theme: str | None = None) -> Picture:
    """Draw what AUTOTUNE chose at each reading of a lens.

    Parameters
    ----------
    lens : labkit.diagnosis.Lens
    title : str
    theme : str, optional
        "light" or "dark".

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If nothing in the pipeline is tuned, or more numbers than a picture can show.
    """
    if not hasattr(lens, "history") or not hasattr(lens, "readings"):
        raise TypeError(f"lens is of type {type(lens).__name__}; allowed: what labkit.diagnosis.autotune returns")
    knobs = [_knob(lens, name) for name in lens.history]
    if not knobs:
        raise ValueError("nothing in this pipeline is tuned: give a map, an interleave or a prefetch tf.data.AUTOTUNE")
    if len(knobs) > MOST:
        raise ValueError(f"AUTOTUNE sets {len(knobs)} numbers here; a picture shows {MOST} at most, lens.chosen all")
    note = f"{lens.name} · {lens.accelerator}"
    waits = sorted(lens.wait_ms)
    wait = f"wait for a batch: median {waits[len(waits) // 2]:,.1f} ms, longest {waits[-1]:,.1f} ms"
    text = "\n".join([title, note, f"{len(lens.readings)} readings, {lens.steps[-1]} steps", *map(str, knobs), wait])
    alt = f"{title}: {'; '.join(map(str, knobs))}; {wait}."
    return Picture(functools.partial(_draw, lens, knobs, title, note), title, alt, text, theme)


def _knob(lens: Lens, name: str) -> _Knob:
    label, _, kind = name.rpartition(".")
    found = [next((n for n in r.nodes if n.label == label), None) for r in lens.readings]
    high = next(p.high for n in reversed(found) if n is not None and (p := n.parameter(kind)) is not None)
    buffer = "buffer" in kind
    held = [float(n.buffered) if n is not None else math.nan for n in found] if buffer else None
    return _Knob(name, lens.history[name], high, held)


def _draw(lens: Lens, knobs: list[_Knob], title: str, note: str, look: Theme) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    count = len(knobs) + 1
    height = _TOP + count * (_PANEL + _SPACE) + _BOTTOM
    with plain_style():
        figure = Figure(figsize=(_WIDTH, height), dpi=DPI, facecolor=look.background)
        FigureCanvasAgg(figure)
        words = {"va": "top", "family": "DejaVu Sans", "parse_math": False}
        figure.text(0.15 / _WIDTH, 1 - 0.15 / height, title, fontsize=_TITLE, weight="bold", color=look.ink, **words)
        lines = "\n".join(textwrap.wrap(note, 125, max_lines=2, placeholder=" …"))
        figure.text(
            0.15 / _WIDTH, 1 - 0.42 / height, lines, fontsize=_SMALL, color=look.muted, linespacing=1.3, **words
        )
        for row in range(count):
            bottom = height - _TOP - (row + 1) * _PANEL - row * _SPACE
            box = (_LEFT / _WIDTH, bottom / height, 1 - (_LEFT + _RIGHT) / _WIDTH, _PANEL / height)
            axes = figure.add_axes(box, facecolor=look.lane)
            axes.set_xlim(0, lens.steps[-1] + 0.6)
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
            for side in axes.spines.values():
                side.set_visible(False)
            axes.tick_params(length=2, colors=look.muted, labelsize=_SMALL, labelbottom=row == count - 1)
            if row < len(knobs):
                _panel(axes, lens, knobs[row], look)
            else:
                _waits(axes, lens, look)
        axes.set_xlabel("train steps", fontsize=_SMALL, color=look.muted, family="DejaVu Sans")
    return figure


def _panel(axes: Axes, lens: Lens, knob: _Knob, look: Theme) -> None:
    """Draw one number over the readings, its bound, and the filling of a buffer."""
    top = max(v for v in [*knob.values, *(knob.held or []), 1.0] if not math.isnan(v))
    bound = knob.high if knob.high <= 4 * top else None
    axes.set_ylim(0, 1.25 * max(top, bound or 0))
    axes.set_yticks(sorted({0, round(max(top, bound or 0))}))
    if knob.held is not None:
        axes.fill_between(lens.steps, knob.held, step="mid", color=look.fill["resize"], alpha=0.55, linewidth=0)
    if bound is not None:
        axes.axhline(bound, color=look.muted, linewidth=1, linestyle=(0, (4, 3)))
    axes.step(lens.steps, knob.values, where="mid", color=look.fill["train"], linewidth=2, marker="o", markersize=3)
    last = next((v for v in reversed(knob.values) if not math.isnan(v)), math.nan)
    high = "no limit" if math.isinf(knob.high) else f"of {knob.high:.0f} at most"
    _name(axes, knob.name.replace(".", "\n", 1), "\nfilled: shaded" if knob.held is not None else "", look)
    _end(axes, f"{last:.0f}", high, look)


def _waits(axes: Axes, lens: Lens, look: Theme) -> None:
    """Draw the wait of the consumer before each step."""
    steps = range(1, len(lens.wait_ms) + 1)
    axes.bar(steps, lens.wait_ms, width=0.8, color=look.fill["other"], linewidth=0)
    top = max(*lens.wait_ms, *lens.train_ms[:1], 1e-3)
    axes.set_ylim(0, 1.1 * top)
    axes.set_yticks([0, top], ["0", f"{top:.0f} ms" if top >= 1 else f"{top:.1g} ms"])
    _name(axes, "wait for a batch", "", look)
    _end(axes, f"{100 * lens.wait_share:.0f} %", "of a step", look)


def _name(axes: Axes, name: str, more: str, look: Theme) -> None:
    place = (-(_LEFT - 0.15) / (_WIDTH - _LEFT - _RIGHT), 0.5)
    style = {"transform": axes.transAxes, "ha": "left", "va": "center", "family": "DejaVu Sans", "parse_math": False}
    axes.text(*place, name + more, fontsize=_SMALL, color=look.ink, linespacing=1.25, **style)


def _end(axes: Axes, value: str, more: str, look: Theme) -> None:
    style: dict[str, Any] = {"transform": axes.transAxes, "family": "DejaVu Sans", "parse_math": False}
    axes.text(1.012, 0.62, value, fontsize=_BODY, weight="bold", color=look.ink, va="center", **style)
    axes.text(1.012, 0.22, more, fontsize=_SMALL - 1, color=look.muted, va="center", **style)
