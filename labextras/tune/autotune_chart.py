"""The picture of the autotune report: every number that AUTOTUNE sets, over the steps of a job.

Each number has a panel: a line for the number, a dashed line for its bound, and for a buffer a shade for its filling.
The last panel shows the effect on the consumer: its wait for each batch.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from labextras.tune.diagnosis import AutotuneReport
from labkit.common.palette import Theme
from labkit.views.figure_page import BODY, MARGIN, SMALL, TITLE, FigurePage, Words
from labkit.views.picture import WIDTH, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches: the names on the left, the last values on the right, a panel, the space between two, the axis.
_LEFT, _RIGHT = 2.35, 1.1
_PANEL, _SPACE, _BOTTOM = 0.62, 0.2, 0.45


class _Tuned(NamedTuple):
    """One tuned number: its name, what it was at each reading, its bound, and what lay in the buffer."""

    name: str
    values: list[float]
    high: float
    held: list[float] | None

    def __str__(self) -> str:
        known = [v for v in self.values if not math.isnan(v)]
        words = [f"{v:.0f}" for v, _ in itertools.groupby(known)]
        bound = "no limit" if math.isinf(self.high) else f"at most {self.high:.0f}"
        held = "" if self.held is None else f"; held {min(self.held):.0f} to {max(self.held):.0f}"
        return f"{self.name}: {' → '.join(words)} ({bound}{held})"


def draw(report: AutotuneReport, title: str = "What AUTOTUNE chose") -> Picture:
    """Draw what AUTOTUNE chose at each reading of a report.

    Parameters
    ----------
    report : labextras.tune.diagnosis.AutotuneReport
    title : str

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If nothing in the pipeline is tuned.
    """
    if not isinstance(report, AutotuneReport):
        allowed = "what labextras.tune.diagnosis.autotune returns"
        raise TypeError(f"report is of type {type(report).__name__}; allowed: {allowed}")
    tuned = [_tuned(report, name) for name in report.history]
    if not tuned:
        raise ValueError("nothing in this pipeline is tuned: give a map, an interleave or a prefetch tf.data.AUTOTUNE")
    note = f"the pipeline · {report.accelerator}"
    waits = sorted(report.wait_ms)
    wait = f"wait for a batch: median {waits[len(waits) // 2]:,.1f} ms, longest {waits[-1]:,.1f} ms"
    count = f"{len(report.readings)} readings, {len(report.readings)} steps"
    text = "\n".join([title, note, count, *map(str, tuned), wait])
    alt = f"{title}: {'; '.join(map(str, tuned))}; {wait}."
    return Picture(functools.partial(_draw, report, tuned, title, note), title, alt, text)


def _tuned(report: AutotuneReport, name: str) -> _Tuned:
    label, _, kind = name.rpartition(".")
    found = [next((n for n in r.nodes if n.label == label), None) for r in report.readings]
    high = next(p.high for n in reversed(found) if n is not None and (p := n.parameter(kind)) is not None)
    buffer = "buffer" in kind
    held = [float(n.buffered) if n is not None else math.nan for n in found] if buffer else None
    return _Tuned(name, report.history[name], high, held)


def _draw(report: AutotuneReport, tuned: list[_Tuned], title: str, note: str, look: Theme) -> Figure:
    from matplotlib.ticker import MaxNLocator

    count = len(tuned) + 1
    page = FigurePage(look, [Words(title, TITLE, weight="bold", most=2), Words(note, SMALL, "muted", most=2)],
                  count * (_PANEL + _SPACE) + _BOTTOM)  # fmt: skip
    for row in range(count):
        top = page.top + row * (_PANEL + _SPACE)
        axes = page.axes(_LEFT, top, WIDTH - _LEFT - _RIGHT, _PANEL, "left")
        axes.set_facecolor(look.lane)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(0, len(report.readings) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.tick_params(length=2, labelbottom=row == count - 1)
        value, words, more = _number(axes, report, tuned[row], look) if row < len(tuned) else _waits(axes, report, look)
        for k, name in enumerate(words):
            page.write(MARGIN, top + _PANEL / 2 + 0.17 * (k - (len(words) - 1) / 2), name, SMALL)
        page.write(WIDTH - _RIGHT + 0.1, top + 0.4 * _PANEL, value, BODY, weight="bold")
        page.write(WIDTH - _RIGHT + 0.1, top + 0.78 * _PANEL, more, SMALL, look.muted)
    axes.set_xlabel("train steps", fontsize=SMALL, color=look.muted, family="DejaVu Sans")
    return page.figure


def _number(axes: Axes, report: AutotuneReport, one: _Tuned, look: Theme) -> tuple[str, list[str], str]:
    """Draw one number, its bound and the filling of a buffer; return its last value, its name and its bound."""
    top = max(v for v in [*one.values, *(one.held or []), 1.0] if not math.isnan(v))
    bound, steps = one.high if one.high <= 4 * top else None, range(1, len(one.values) + 1)
    axes.set_ylim(0, 1.25 * max(top, bound or 0))
    axes.set_yticks(sorted({0, round(max(top, bound or 0))}))
    if one.held is not None:
        axes.fill_between(steps, one.held, step="mid", color=look.fill["resize"], alpha=0.55, linewidth=0)
    if bound is not None:
        axes.axhline(bound, color=look.muted, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    axes.step(steps, one.values, where="mid", color=look.fill["train"], linewidth=2, marker="o", markersize=3)
    last = next((v for v in reversed(one.values) if not math.isnan(v)), math.nan)
    high = "no limit" if math.isinf(one.high) else f"of {one.high:.0f} at most"
    return f"{last:.0f}", [*one.name.split(".", 1), *["filled: shaded"] * (one.held is not None)], high


def _waits(axes: Axes, report: AutotuneReport, look: Theme) -> tuple[str, list[str], str]:
    """Draw the wait of the consumer before each step; return its share, its name and of what it is a share."""
    steps = range(1, len(report.wait_ms) + 1)
    axes.bar(steps, report.wait_ms, width=0.8, color=look.gap, linewidth=0)
    top = max(*report.wait_ms, *report.train_ms[:1], 1e-3)
    axes.set_ylim(0, 1.1 * top)
    axes.set_yticks([0, top], ["0", f"{top:.0f} ms" if top >= 1 else f"{top:.1g} ms"])
    return f"{100 * report.wait_share:.0f} %", ["wait for a batch"], "of a step"
