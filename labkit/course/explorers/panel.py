"""The widgets of an explorer: sliders and buttons from ipywidgets 7.7 or 8, around the interactive timeline."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets

from labkit.course.explorers.colab_page import source
from labkit.course.explorers.controls import Control
from labkit.course.explorers.front_end import Reply, Shown


class SliderNames(anywidget.AnyWidget):
    """What gives the sliders beside it their names and values in words for a screen reader; it shows nothing."""

    _esm = Path(__file__).with_name("controls.js")
    _css = Path(__file__).with_name("controls.css")


def _slider(control: Control, value: Any) -> Any:
    """Return the widget of a control: it reads its value with its unit, and takes the arrow keys."""
    options = [(control.text(v), v) for v in control.values]
    style, layout = {"description_width": "12.5em"}, ipywidgets.Layout(width="32em", max_width="100%")
    kind = ipywidgets.Dropdown if control.in_words else ipywidgets.SelectionSlider
    return kind(options=options, value=value, description=control.label, style=style, layout=layout)


class ExplorerPanel:
    """An explorer as widgets: question, a row of buttons, sliders, headline, pictures, details.

    Parameters
    ----------
    explorer : Shown
    """

    def __init__(self, explorer: Shown) -> None:
        self.explorer, self._quiet = explorer, False
        self.sliders = {c.name: _slider(c, explorer.start[c.name]) for c in explorer.controls}
        for slider in self.sliders.values():
            slider.observe(self._moved, "value")
        self.buttons = []
        for label, position in explorer.positions.items():
            tip = explorer.words(position)
            button = ipywidgets.Button(description=label, tooltip=tip, layout=ipywidgets.Layout(width="auto"))
            button.on_click(lambda _, position=position: self.go(position))
            self.buttons.append(button)
        rows = (self.buttons, list(self.sliders.values()))  # sliders in two columns, where the page is wide enough
        wrapped = [ipywidgets.Box(r, layout=ipywidgets.Layout(display="flex", flex_flow="row wrap")) for r in rows]
        controls = ipywidgets.VBox([*wrapped, SliderNames()])
        controls.add_class("labkit-controls")
        self.headline, self.pictures, self.details = (ipywidgets.HTML() for _ in range(3))
        title, question = escape(explorer.title), escape(explorer.question)
        head = ipywidgets.HTML(f'<h3 style="margin: 0.4em 0">{title}</h3><div>{question}</div>')
        self.box = ipywidgets.VBox([head, controls, *self.below()])
        self.answer()

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
        self.answer()

    def answer(self) -> None:
        """Show the reply to where the sliders stand; a screen reader speaks a headline that changes."""
        reply = self.explorer.reply(self.position)
        line = f'<div role="status" aria-live="polite" style="line-height: 1.5">{escape(reply.words)}</div>'
        self.headline.value = line
        self.show_more(reply)

    def _moved(self, _: Any) -> None:
        if not self._quiet:
            self.answer()

    def below(self) -> list[Any]:
        """Return the widgets below the sliders."""
        return [self.headline, self.pictures, self.details]

    def show_more(self, reply: Reply) -> None:
        """Show what a reply has besides its headline."""
        style = "white-space: pre-wrap; word-break: normal; line-height: 1.4; color: inherit"
        self.details.value = f'<pre style="{style}">{escape(reply.details)}</pre>' if reply.details else ""
        self.pictures.value = "".join(
            f'<img style="max-width: 100%" alt="{escape(picture.alt)}" src="{source(picture)}">'
            for picture in reply.draw()
        )


class TimelinePanel(ExplorerPanel):
    """An explorer with an interactive timeline in the place of pictures.

    Parameters
    ----------
    explorer : labkit.course.explorers.Explorer
    """

    def below(self) -> list[Any]:
        """Return the widgets below the sliders, the one that compares with the opening position first."""
        from labkit.views.widget import TimelineWidget

        first = self.explorer.first.timeline
        words, layout = "show the opening position above it", ipywidgets.Layout(width="auto")
        self.compare = ipywidgets.Checkbox(value=False, description=words, indent=False, layout=layout)
        self.compare.observe(lambda _: self.answer(), "value")
        self.timeline = TimelineWidget(first, labels=("as opened", "now"), title=self.explorer.title)
        return [self.compare, self.headline, self.timeline]

    def show_more(self, reply: Reply) -> None:
        """Draw the timeline of a reply, below that of the opening position where the reader asks for it."""
        above = [self.explorer.first.timeline] if self.compare.value else []
        self.timeline.update(*above, reply.timeline)
