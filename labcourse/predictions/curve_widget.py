"""A curve that is predicted, as a chart whose points are dragged or moved by keys; as a picture where nothing runs.

It asks the kernel as the explorers do; see `labcourse.page_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from labcourse.page_events import LivePicture, page_that_asks
from labcourse.predictions.figures import unit_word
from labcourse.predictions.kinds import Curve
from labkit.views import charts
from labkit.views.picture import Picture

#: What the points do, and how they look.
_MODULE, _STYLE = (Path(__file__).with_name(f"curve.{end}") for end in ("js", "css"))


class Points(anywidget.AnyWidget):
    """The points of a curve in the browser.

    Attributes
    ----------
    asked : dict
        The values for which the button was pressed last.
    reply : dict
        The sentence that answers, and the values that are kept.
    """

    _esm, _css = _MODULE, _STYLE
    spec, asked, reply = (traitlets.Dict().tag(sync=True) for _ in range(3))


class CurveWidget(LivePicture):
    """A predicted curve, shown; made by `labcourse.predictions.curve`.

    Parameters
    ----------
    curve : Curve
        As it is kept.
    keep : callable
        Keeps other values, if they come in time, and returns the curve.
    """

    def __init__(self, curve: Curve, keep: Callable[[Any], Curve]) -> None:
        self.curve, self.keep, self.title = curve, keep, f"{curve.name}, to drag"

    def __str__(self) -> str:
        """Return what is kept, and what to do, as text."""
        return str(self.curve)

    @property
    def spec(self) -> dict[str, Any]:
        """What the browser draws: places, values, the end of the axis, words."""
        c, high = self.curve, max(self.curve.value or (0,))
        top = {"share": 1, "times": max(c.at[-1], 1.1 * high)}.get(c.unit, 1.5 * high or 100)
        values = c.value or [1 if c.unit == "times" else top / 2] * len(c.at)
        ask = f"Move the points and press the button, or write {c.wanted} in place of the three dots."
        return {
            "title": c.name, "label": c.label, "unit": c.unit, "words": str(c) if c.value or c.note else ask,
            "at": c.at, "places": [f"{at:g}" for at in c.at], "values": values, "top": top,
        }  # fmt: skip

    def answer(self, values: Any) -> dict[str, Any]:
        """Keep what the browser sends, and return what it shows then."""
        self.curve = self.keep(values)
        return {"words": str(self.curve), "values": self.curve.value and list(self.curve.value)}

    @property
    def picture(self) -> Picture:
        """The curve as it is kept; without one, a line that says so."""
        c, scale = self.curve, 100 if self.curve.unit == "share" else 1
        name = "nothing predicted yet" if c.value is None else "your prediction"
        shown, axes = self.spec["values"], {"x_label": c.label or "at", "y_label": unit_word(c.unit)}
        series = {name: [scale * value for value in shown]}
        return charts.lines(c.at, series, title=c.name, note=str(c), ideal=name, log_x=c.at[0] > 0, **axes)

    def page(self) -> str:
        """Return the page for Colab: points, in place of the picture, which stays where no script runs."""

        def markup(name: str) -> str:
            return f'<div id="{name}" class="labkit-curve">{self.picture.html(note=self.asleep)}</div>'

        return page_that_asks("curve", self.answer, _STYLE.read_text(encoding="utf-8"), markup, _MODULE, self.spec)

    @cached_property
    def panel(self) -> Points:
        """The widget."""
        points = Points(spec=self.spec)
        points.observe(self._asked, "asked")
        return points

    def _asked(self, change: dict[str, Any]) -> None:
        # Two questions may have the same answer, and the page waits for each.
        self.panel.reply = {**self.answer(change["new"]["values"]), "time": change["new"]["time"]}
