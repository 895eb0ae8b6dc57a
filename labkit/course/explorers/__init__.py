"""Explorers: a few sliders, a simulated timeline that follows them, and its figures in words.

`explore` makes one for each of notebooks 00 to 07, `scale` one for planning on paper. Nothing is measured here
and nothing is kept: where the sliders stand is all there is, and the same position always gives the same answer.
Where no widget can live (GitHub, nbconvert, a notebook without a kernel) the reader sees the picture and the
text of the position in which the explorer was opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from labkit import simulate
from labkit.course.explorers import colab_page
from labkit.course.explorers.answers import Answer, Ideal, answer, ideal
from labkit.course.explorers.controls import Control, Sheet
from labkit.course.explorers.planning import ScaleExplorer, scale
from labkit.course.explorers.sheets import SHEETS
from labkit.course.explorers.shown import Shown
from labkit.timeline.trace import Trace
from labkit.timeline.wording import percent
from labkit.views import static

__all__ = [
    "SHEETS",
    "Answer",
    "Control",
    "Explorer",
    "Ideal",
    "ScaleExplorer",
    "Sheet",
    "answer",
    "explore",
    "ideal",
    "scale",
]


class Explorer(Shown):
    """Sliders, a simulated timeline and a headline; made by `explore`.

    Parameters
    ----------
    sheet : Sheet
    start : mapping of control name to value
        Where the sliders stand when it is opened.
    """

    def __init__(self, sheet: Sheet, start: Mapping[str, Any]) -> None:
        self.sheet, self.start = sheet, dict(start)

    @property
    def names(self) -> list[str]:
        """The words for `answer` and `explore`, one for each slider."""
        return [control.name for control in self.sheet.controls]

    def answer(self, position: str | None = None, **changes: Any) -> Answer:
        """Return what the explorer would show, without a widget.

        Parameters
        ----------
        position : str, optional
            The label of a button; where the explorer was opened without one.
        **changes
            Sliders by name, on top of it.

        Raises
        ------
        ValueError
            If there is no such position or slider, or a value is out of range.
        """
        given = dict(self.start)
        if position is not None:
            if position not in self.sheet.positions:
                raise ValueError(f"position is {position!r}; allowed: {', '.join(self.sheet.positions)}")
            given |= self.sheet.positions[position]
        costs, knobs, note = self.sheet.build(given | _checked(self.sheet, changes))
        return answer(self.sheet.title, costs, knobs, note)

    @cached_property
    def first(self) -> Answer:
        """The answer of the position in which the explorer was opened."""
        return self.answer()

    @cached_property
    def others(self) -> dict[str, Answer]:
        """The answers of the buttons, by label, from where the explorer was opened."""
        return {label: self.answer(label) for label in self.sheet.positions}

    @cached_property
    def picture(self) -> static.Picture:
        """The static picture: where the explorer was opened, above the next button of its own."""
        here = self.words(self.start)
        later = [(k, self.start | dict(p)) for k, p in self.sheet.positions.items()]
        place = next((i for i, (_, p) in enumerate(later) if p == self.start), -1)
        ahead = [label for label, p in later[place + 1 :] + later[:place] if self.words(p) != here]
        labels = (later[place][0] if place >= 0 else "as opened", ahead[0])
        pair = (self.first.timeline, self.others[ahead[0]].timeline)
        drawn = static.compare(*pair, labels=labels, title=self.sheet.title)
        alt = f"{self.first.headline} {drawn.alt}"
        return static.Picture(lambda look: drawn.figure(look.name), drawn.title, alt, str(self))

    def words(self, position: Mapping[str, Any]) -> str:
        """Return a position in words: every slider with its value and unit."""
        return "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in self.sheet.controls)

    def __str__(self) -> str:
        """Return title, sliders, headline and assumptions as text: the same for equal positions."""
        lines = [
            f"{self.sheet.title} (modelled; an explorer with {len(self.sheet.controls)} sliders)",
            self.sheet.question,
            f"Sliders: {self.words(self.start)}.",
            self.first.headline,
            *self._table(),
            "Assumptions:",
            *(f"- {line}" for line in self.first.trace.run.assumptions),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _table(self) -> list[str]:
        """Return the buttons and what they lead to, a line each."""
        rows = [("button", "busy", "step ms", "images/s", "ideal")]
        for label, a in self.others.items():
            t = a.timeline
            figures = (percent(t.busy), f"{t.step_ms:,.1f}", f"{t.images_per_s:,.1f}", f"{a.ideal.rate:,.1f}")
            rows.append((label, *figures))
        wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return [
            "  " + "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, wide, strict=True)))
            for row in rows
        ]

    @cached_property
    def panel(self) -> Any:
        """The widget, an `ipywidgets.VBox`; made when it is first asked for."""
        from labkit.course.explorers.panel import Panel

        return Panel(self).box

    @property
    def page(self) -> colab_page.Page:
        """The sliders as they are shown in Colab; new at every showing."""
        return colab_page.of_pipeline(self)


def explore(name: str, trace: Trace | None = None, *, position: str | None = None, **start: Any) -> Explorer:
    """Return the explorer of a notebook.

    Parameters
    ----------
    name : str
        Number of the notebook, "00" to "07".
    trace : Trace, optional
        A recorded run: the costs in it are where the sliders begin.
    position : str, optional
        The label of the button that it begins with; the first by default.
    **start
        Sliders by name; they win over `trace` and `position`.

    Raises
    ------
    ValueError
        If there is no such explorer, position or slider, a value is out of range, or the trace holds no costs.
    TypeError
        If `trace` is none.

    Examples
    --------
    >>> print(explore("02", prefetch=1).answer().ideal.limit)
    the accelerator (G)
    """
    if name not in SHEETS:
        raise ValueError(f"explorer is {name!r}; allowed: {', '.join(SHEETS)}")
    sheet = SHEETS[name]
    if position is not None and position not in sheet.positions:
        raise ValueError(f"position is {position!r}; allowed: {', '.join(sheet.positions)}")
    opened = {control.name: control.default for control in sheet.controls}
    opened |= sheet.positions[position or next(iter(sheet.positions))]
    if trace is not None:
        if not isinstance(trace, Trace):
            raise TypeError(f"trace is a {type(trace).__name__}; allowed: the Trace that labkit.record returns")
        model = simulate.fit(trace)
        # Three digits, as the sliders show them: what is read is what is simulated.
        found = sheet.from_model(model.costs, model.knobs)
        measured = {k: v if isinstance(v, int) else float(f"{v:.3g}") for k, v in found.items()}
        sheet = _widened(sheet, measured)
        opened |= measured
        opened |= sheet.positions[position] if position else {}
    return Explorer(sheet, opened | _checked(sheet, start))


def _widened(sheet: Sheet, values: Mapping[str, Any]) -> Sheet:
    """Return a sheet whose sliders reach as far as the values of a machine that nobody has seen."""
    controls = [
        replace(c, values=tuple(sorted({*c.values, values[c.name]}))) if c.name in values else c for c in sheet.controls
    ]
    return replace(sheet, controls=tuple(controls))


def _checked(sheet: Sheet, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of sliders, each checked."""
    known = {control.name: control for control in sheet.controls}
    for name in values:
        if name not in known:
            raise ValueError(f"explorer {sheet.name} has no slider {name!r}; allowed: {', '.join(known)}")
    return {name: known[name].check(value) for name, value in values.items()}
