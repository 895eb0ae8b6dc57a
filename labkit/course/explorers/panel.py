"""The widgets of an explorer: sliders and buttons from ipywidgets 7.7 or 8, around the interactive timeline."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets

from labkit.course.explorers.controls import Control
from labkit.simulate import capacity

_WIDE = {"description_width": "12.5em"}


class Names(anywidget.AnyWidget):
    """What gives the sliders beside it their names and values in words for a screen reader; it shows nothing."""

    _esm = Path(__file__).with_name("controls.js")


class Controls:
    """A row of buttons over a column of sliders; calls back once for every change of position.

    Parameters
    ----------
    controls : sequence of Control
    start : mapping of control name to value
    positions : mapping of label to position
    changed : callable
        Takes the position of all sliders.
    """

    def __init__(
        self,
        controls: Sequence[Control],
        start: Mapping[str, Any],
        positions: Mapping[str, Mapping[str, Any]],
        changed: Callable[[dict[str, Any]], None],
    ) -> None:
        self._changed, self._quiet = changed, False
        self.sliders = {c.name: _slider(c, start[c.name], positions) for c in controls}
        for slider in self.sliders.values():
            slider.observe(self._moved, "value")
        self.buttons = []
        for label, position in positions.items():
            words = "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in controls if c.name in position)
            layout = ipywidgets.Layout(width="auto")
            button = ipywidgets.Button(description=label, tooltip=words, layout=layout)
            button.on_click(lambda _, position=position: self.go(position))
            self.buttons.append(button)
        rows = (self.buttons, list(self.sliders.values()))  # sliders in two columns, where the page is wide enough
        wrapped = [ipywidgets.Box(r, layout=ipywidgets.Layout(display="flex", flex_flow="row wrap")) for r in rows]
        self.box = ipywidgets.VBox([*wrapped, Names()])
        self.box.add_class("labkit-controls")

    @property
    def position(self) -> dict[str, Any]:
        """Where the sliders stand."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def go(self, position: Mapping[str, Any]) -> None:
        """Move several sliders and answer once."""
        self._quiet = True
        try:
            for name, value in position.items():
                self.sliders[name].value = value
        finally:
            self._quiet = False
        self._changed(self.position)

    def _moved(self, _: Any) -> None:
        if not self._quiet:
            self._changed(self.position)


def _slider(control: Control, value: Any, positions: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the widget of a control: it reads its value with its unit, and takes the arrow keys."""
    options = [(control.text(v), v) for v in _reachable(control, value, positions)]
    style, layout = dict(_WIDE), ipywidgets.Layout(width="32em", max_width="100%")
    kind = ipywidgets.Dropdown if control.in_words else ipywidgets.SelectionSlider
    return kind(options=options, value=value, description=control.label, style=style, layout=layout)


def _reachable(control: Control, value: Any, positions: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return the values of a control, with every one that a button or the start needs."""
    if control.in_words:
        return list(control.values)
    needed = (position[control.name] for position in positions.values() if control.name in position)
    return sorted({*control.values, value, *needed})


class Panel:
    """The whole explorer: question, buttons, sliders, headline, timeline.

    Parameters
    ----------
    explorer : labkit.explorers.Explorer
    """

    def __init__(self, explorer: Any) -> None:
        from labkit.views.widget import TimelineWidget

        self._explorer = explorer
        sheet = explorer.sheet
        self.controls = Controls(sheet.controls, explorer.start, sheet.positions, self._answer)
        self.compare = ipywidgets.Checkbox(
            value=False, description="show the opening position above it", indent=False,
            layout=ipywidgets.Layout(width="auto"),
        )  # fmt: skip
        self.compare.observe(lambda _: self._answer(self.controls.position), "value")
        self.headline = ipywidgets.HTML(live(explorer.first.headline))
        self.timeline = TimelineWidget(explorer.first.timeline, labels=("as opened", "now"), title=sheet.title)
        self.box = ipywidgets.VBox(
            [
                heading(sheet.title, sheet.question),
                self.controls.box,
                self.compare,
                self.headline,
                self.timeline,
            ]
        )

    def _answer(self, position: dict[str, Any]) -> None:
        explorer = self._explorer
        now = explorer.answer(**position)
        words = now.headline
        moved = [c for c in explorer.sheet.controls if position[c.name] != explorer.start[c.name]]
        if moved:
            gain = now.faster_than(explorer.first)
            changes = "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in moved)
            words += f" {gain:,.3g} times the images/s of the opening position. Changed: {changes}."
        self.headline.value = live(words)
        if self.compare.value:
            self.timeline.update(explorer.first.timeline, now.timeline)
        else:
            self.timeline.update(now.timeline)


class PlanPanel:
    """The planning explorer: presets as buttons, sliders, the plan in words, two pictures.

    Parameters
    ----------
    explorer : labkit.explorers.ScaleExplorer
    """

    def __init__(self, explorer: Any) -> None:
        self._explorer = explorer
        presets = {name: explorer.position(capacity.plan(name)) for name in capacity.PRESETS}
        self.controls = Controls(explorer.controls, explorer.position(explorer.start), presets, self._answer)
        self.headline, self.details = ipywidgets.HTML(), ipywidgets.HTML()
        layout = ipywidgets.Layout(max_width="100%")
        self.limits, self.stall = (ipywidgets.HTML(layout=layout) for _ in range(2))
        self._show(explorer.start)
        head = heading(
            "Plan on paper", "What feeds so many accelerators, what limits first, and what does the stall cost?"
        )
        self.box = ipywidgets.VBox([head, self.controls.box, self.headline, self.limits, self.stall, self.details])

    def _answer(self, position: dict[str, Any]) -> None:
        try:
            plan = self._explorer.answer(position)
        except ValueError as error:  # two sliders that do not fit together, as more hosts than accelerators
            self.headline.value = live(f"No plan: {error}.")
            self.limits.value = self.stall.value = self.details.value = ""
            return
        self._show(plan)

    def _show(self, plan: capacity.CapacityPlan) -> None:
        self.headline.value = live(f"{plan.headline()} {plan.advice}")
        style = "white-space: pre-wrap; word-break: normal; line-height: 1.4; color: inherit"
        self.details.value = f'<pre style="{style}">{escape(str(plan))}</pre>'
        for place, picture in ((self.limits, plan.limits()), (self.stall, plan.stall())):
            data = base64.b64encode(picture.png()).decode("ascii")
            place.value = (
                f'<img style="max-width: 100%" alt="{escape(picture.alt)}" src="data:image/png;base64,{data}">'
            )


def heading(title: str, question: str) -> ipywidgets.HTML:
    """Return title and question of an explorer."""
    return ipywidgets.HTML(f'<h3 style="margin: 0.4em 0">{escape(title)}</h3><div>{escape(question)}</div>')


def live(words: str) -> str:
    """Return a sentence as HTML that a screen reader speaks when it changes."""
    return f'<div role="status" aria-live="polite" style="line-height: 1.5">{escape(words)}</div>'
