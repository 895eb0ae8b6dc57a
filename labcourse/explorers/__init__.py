"""Explorers: a few positions and sliders, a simulated timeline that follows them, and its figures in words.

`explore` makes the explorer of a notebook, `scale` an explorer for planning on paper, `fleet` an explorer for many
workers. Nothing is measured here and nothing is stored: the same position of the sliders always gives the same answer.
Without widgets (on GitHub, in nbconvert, in a notebook without a kernel) the reader sees a picture of the same rows.
Which of F, P and G is the lowest is a question to the reader: only an answer shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from html import escape
from typing import Any

from labcourse.explorers.front_end import Reply, Shown
from labcourse.explorers.modelled_run import ModelledRun, answer
from labcourse.explorers.notebook_explorers import COSTS, SHEETS, Sheet, sliders_of
from labcourse.explorers.planning import fleet, scale
from labkit import simulate
from labkit.common.numbers import check_names, one_of
from labkit.common.table import Table
from labkit.timeline.trace import Trace
from labkit.timeline.wording import percent
from labkit.views import ladder_chart, static
from labkit.views.picture import Picture

__all__ = ["SHEETS", "Explorer", "explore", "fleet", "scale"]


class Explorer(Shown):
    """Sliders, a simulated timeline and a headline; made by `explore`.

    Parameters
    ----------
    sheet : Sheet
    start : mapping of control name to value
        Where the sliders stand when it is opened.
    measured : mapping of control name to value, optional
        What was measured on `machine`, and the ``cores`` that it has.
    machine : str, optional
        What the sentences call it.
    """

    def __init__(
        self, sheet: Sheet, start: Mapping[str, Any], measured: Mapping[str, Any] | None = None,
        machine: str = "this machine",
    ) -> None:  # fmt: skip
        measured, self.machine = measured or {}, machine
        self.cores = measured.get("cores")  # None where no run says it, or no slider asks
        known = {name for name in COSTS if name in measured and measured[name] == start[name]}
        labels = ", ".join(control.label for control in sheet.controls if control.name in known)
        costs = f"Costs measured on {machine}: {labels}." if labels else "Costs of the course's example."
        at_row = any(start | position == start for position in sheet.positions.values())
        positions = sheet.positions if at_row else {"your recording" if known else "as opened": start} | sheet.positions
        marked = {"cores": f"cores (here {self.cores})"} if self.cores else {}
        controls = tuple(replace(c, label=marked.get(c.name, c.label)) for c in sheet.controls)
        super().__init__(sheet.title, sheet.question, controls, start, positions, costs)
        self.sheet = sheet

    def answer(self, position: str | None = None, **changes: Any) -> ModelledRun:
        """Return what the explorer would show, without a widget.

        Parameters
        ----------
        position : str, optional
            The label of a row; where the explorer was opened without one.
        **changes
            Sliders by name, on top of it.

        Raises
        ------
        ValueError
            If there is no such position or slider, or a value is out of range.
        """
        given = self.start | (self.sheet.position(position) if position is not None else {})
        costs, knobs, note = self.sheet.model(given | self.checked(changes))
        return answer(self.sheet.title, costs, knobs, note)

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of sliders, each checked.

        Raises
        ------
        ValueError
            If there is no such slider, or a value may not be chosen.
        """
        known = {control.name: control for control in self.controls}
        check_names("slider", values, known)
        return {name: known[name].check(value) for name, value in values.items()}

    def reply(self, position: Mapping[str, Any], drawn: bool = True) -> Reply:
        """Return headline and timeline of a position; one that was moved says how many times faster it is."""
        now = self.answer(**position)
        words = now.headline
        if self.cores and position["cores"] != self.cores:
            words += f" Predicted: {self.machine} has {self.cores} cores."
        moved = {c.name: position[c.name] for c in self.controls if position[c.name] != self.start[c.name]}
        if moved:
            words += f" {now.faster_than(self.first):,.3g} times the opening speed."
        t, changed = now.timeline, f"Changed: {self.words(moved)}." * bool(moved)
        return Reply(words, lambda: [static.draw(t, title=self.title)], "", t, now.bars(self.full), changed)

    def rows(self) -> dict[str, str]:
        """Return the row of each position: its label, its strip and its figures."""
        lines = {label: run.timeline for label, run in self.others.items()}
        return {
            label: f"<span>{escape(label)}</span>{strip}<small>{escape(ladder_chart.figures(lines[label]))}</small>"
            for label, strip in ladder_chart.strips(lines).items()
        }

    @cached_property
    def first(self) -> ModelledRun:
        """The answer of the position in which the explorer was opened."""
        return self.answer()

    @cached_property
    def others(self) -> dict[str, ModelledRun]:
        """The answers of the rows, by label."""
        return {label: self.answer(**position) for label, position in self.positions.items()}

    @cached_property
    def full(self) -> float:
        """Images per second at which the bars of all positions end: the highest limit of a row, and a quarter more."""
        least = 1.25 * max(run.ideal.rate for run in self.others.values())
        return next(n for n in (k * 10.0 ** math.floor(math.log10(least)) for k in (1, 2, 5, 10)) if n >= least)

    @cached_property
    def picture(self) -> Picture:
        """The static picture: the same rows."""
        rows = {label: run.timeline for label, run in self.others.items()}
        drawn = ladder_chart.draw(rows, title=f"{self.title} (modelled)")
        alt = f"{self.first.headline} {drawn.alt}"
        return Picture(lambda look: drawn.figure(look.name), drawn.title, alt, str(self))

    @cached_property
    def panel(self) -> Any:
        """The widget; made when it is first asked for."""
        from labcourse.explorers.panel import TimelinePanel

        return TimelinePanel(self).box()

    def __str__(self) -> str:
        """Return title, sliders, headline and assumptions as text: the same for equal positions."""
        rows = []
        for label, run in self.others.items():
            t = run.timeline
            figures = percent(t.busy), f"{t.step_ms:,.1f}", f"{t.images_per_s:,.1f}"
            rows.append((label, *figures, *run.bars(self.full)["words"]))
        lines = [
            f"{self.title} (modelled; an explorer with {len(self.controls)} sliders)",
            self.question,
            f"Sliders: {self.words(self.start)}.",
            self.first.headline,
            self.costs,
            "F, P and G: the most that fetching, preparing and the accelerators could do alone, in images/s.",
            *Table(("position", "busy", "step ms", "images/s", *"FPG"), rows, right=range(1, 7), indent="  ").lines(),
            "Assumptions:",
            *(f"- {line}" for line in self.first.trace.run.assumptions),
        ]
        return "\n".join(lines)


def explore(
    name: str, trace: Trace | None = None, *, position: str | None = None,
    measured: Mapping[str, Any] | None = None, machine: str = "this machine", **start: Any,
) -> Explorer:  # fmt: skip
    """Return the explorer of a notebook.

    Parameters
    ----------
    name : str
        Number of the notebook, a key of `SHEETS`.
    trace : Trace, optional
        A run recorded on this machine: the costs in it are where the sliders begin.
    position : str, optional
        The label of the row that it begins with; the first by default.
    measured : mapping of str to value, optional
        Sliders by name whose values were measured on this machine without a trace.
    machine : str, optional
        What the sentences call the machine that was measured.
    **start
        Sliders by name; they win over `trace`, `measured` and `position`.

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
    sheet = SHEETS[one_of("explorer", name, SHEETS)]
    opened = sheet.opened | next(iter(sheet.positions.values()))
    known = dict(measured or {})
    check_names("slider", known, opened)
    if trace is not None:
        model = simulate.fit(trace)
        known = sliders_of(model.costs, model.knobs) | known
    # Three digits, as the sliders show them: what is read is what is simulated.
    found = {k: v if isinstance(v, int) else float(f"{v:.3g}") for k, v in known.items() if k in opened}
    opened |= found | (sheet.position(position) if position is not None else {})
    # A machine that nobody has seen may be beyond the sliders: they are made to reach what was measured.
    opened |= Explorer(sheet, opened).checked(start)
    return Explorer(sheet, opened, found, machine)
