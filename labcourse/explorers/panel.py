"""The widget of an explorer: its rows and sliders, and the interactive timeline that follows them."""

from __future__ import annotations

from typing import Any

import anywidget
import ipywidgets
import traitlets

from labcourse.explorers.front_end import MODULE, Reply, Shown, style
from labkit.views.widget import TimelineWidget


class ExplorerPanel(anywidget.AnyWidget):
    """An explorer as a widget: question, rows, sliders, headline, bars, pictures, details.

    Parameters
    ----------
    explorer : Shown

    Attributes
    ----------
    places : list of int
        For each slider the place of its value, counted from 0.
    reply : dict
        What is shown for them; see `Reply.shown`. ``places`` says which position it answers.
    """

    _esm, _css = MODULE, style()
    html = traitlets.Unicode().tag(sync=True)
    spec = traitlets.Dict().tag(sync=True)
    places = traitlets.List().tag(sync=True)
    reply = traitlets.Dict().tag(sync=True)

    def __init__(self, explorer: Shown) -> None:
        self.explorer, first = explorer, self.shown(explorer.reply(explorer.start))
        places = explorer.places(explorer.start)
        super().__init__(html=explorer.markup(first), spec=explorer.spec(), places=places, reply=first)
        self.observe(self.answer, "places")

    @property
    def position(self) -> dict[str, Any]:
        """Where the sliders stand."""
        return self.explorer.position(self.places)

    def answer(self, _: Any = None) -> None:
        """Show the reply to where the sliders stand."""
        # Two positions may get the same words, and the page waits for an answer to each.
        self.reply = {**self.shown(self.explorer.reply(self.position)), "places": self.places}

    def shown(self, reply: Reply) -> dict[str, Any]:
        """Return what this panel shows of a reply."""
        return reply.shown()


class TimelinePanel(ExplorerPanel):
    """An explorer with an interactive timeline below it in the place of pictures.

    Parameters
    ----------
    explorer : labcourse.explorers.Explorer
    """

    def __init__(self, explorer: Any) -> None:
        self.timeline = TimelineWidget(explorer.first.timeline, title="As the sliders stand")
        self.timeline.add_class("labkit-explorer-lanes")
        # What it waits for is the question: a click on a gap says it, the heading does not.
        self.timeline.look = {**self.timeline.look, "heading": False}
        super().__init__(explorer)

    def shown(self, reply: Reply) -> dict[str, Any]:
        """Draw the timeline of a reply."""
        self.timeline.update(reply.timeline)
        return reply.shown(drawn=False)

    def box(self) -> ipywidgets.VBox:
        """Return the panel with its timeline."""
        return ipywidgets.VBox([self, self.timeline])
