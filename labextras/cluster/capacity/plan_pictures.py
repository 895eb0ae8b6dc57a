"""How the answers of a plan and of a simulation are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.views import charts
from labkit.views.picture import Picture


class Answer:
    """What a plan and a simulation show alike."""

    name: str
    headline: Callable[[], str]
    limits: Callable[[], Any]

    def against(self, x: Sequence[float], series: Mapping[str, list[float]], what: str, **labels: Any) -> Picture:
        """Draw some series against one number of the setting; `labels` are those of `labkit.charts.lines`."""
        chart = charts.lines(x, series, title=f"{self.name}: {what}", **labels)
        return Picture(lambda look: chart.figure(look.name), chart.title, f"{self.headline()} {chart.alt}", str(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture of `limits`, and the text."""
        return self.limits()._repr_mimebundle_()
