"""How the answers of a plan and of a simulation are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.views import charts
from labkit.views.picture import Picture


class Answer:
    """What a plan and a simulation show alike."""

    name: str
    advice: str
    assumptions: tuple[str, ...]
    headline: Callable[[], str]
    limits: Callable[[], Any]

    def told(self, source: str, *rows: str) -> str:
        """Return name and source, headline, the rows of a table, advice and assumptions as text."""
        lines = [f"{self.name} ({source})", self.headline(), *rows, self.advice, "Assumptions:"]
        return "\n".join([*lines, *(f"- {one}" for one in self.assumptions)])

    def __repr__(self) -> str:
        """Return the same text as `str`."""
        return str(self)

    def against(self, x: Sequence[float], series: Mapping[str, list[float]], what: str, **labels: Any) -> Picture:
        """Draw some series against one number of the setting; `labels` are those of `labkit.charts.lines`."""
        chart = charts.lines(x, series, title=f"{self.name}: {what}", **labels)
        return Picture(lambda look: chart.figure(look.name), chart.title, f"{self.headline()} {chart.alt}", str(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture of `limits`, and the text."""
        return self.limits()._repr_mimebundle_()
