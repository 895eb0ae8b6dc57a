"""What every explorer shows, whichever front end shows it: sliders, buttons, and the answer to a position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.course.explorers import colab_page
from labkit.course.explorers.controls import Control
from labkit.timeline.timeline import Timeline
from labkit.views.picture import Picture

_VIEW = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Reply:
    """What an explorer shows for a position of its sliders.

    Parameters
    ----------
    words : str
        The headline.
    draw : callable
        Returns the pictures; a front end with an interactive timeline does not call it.
    details : str
        Text below the pictures, or nothing.
    timeline : Timeline, optional
        The simulated run, for an interactive timeline.
    """

    words: str
    draw: Callable[[], list[Picture]] = list
    details: str = ""
    timeline: Timeline | None = None


class Shown:
    """An explorer as its front ends see it: ipywidgets, a page for Colab, and a picture with its text everywhere.

    Parameters
    ----------
    title, question : str
    controls : iterable of Control
        The sliders; each is made to reach what the start and the buttons need.
    start : mapping of control name to value
        Where the sliders stand when it is opened.
    positions : mapping of label to mapping of control name to value
        The buttons; a position may leave controls out.
    """

    picture: Picture
    panel: Any  # an ipywidgets.VBox; made when it is first asked for

    def __init__(
        self,
        title: str,
        question: str,
        controls: tuple[Control, ...],
        start: Mapping[str, Any],
        positions: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.title, self.question = title, question
        self.start, self.positions = dict(start), {label: dict(p) for label, p in positions.items()}
        places = (self.start, *self.positions.values())
        self.controls = tuple(c.reaching(p[c.name] for p in places if c.name in p) for c in controls)

    def reply(self, position: Mapping[str, Any]) -> Reply:
        """Return what is shown for a position of all sliders."""
        raise NotImplementedError

    def words(self, position: Mapping[str, Any]) -> str:
        """Return a position in words: every slider that it sets, with its value and unit."""
        return "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in self.controls if c.name in position)

    @property
    def page(self) -> colab_page.Page:
        """The sliders as they are shown in Colab; new at every showing."""
        return colab_page.Page(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget, and beside it the picture and the text for readers whose page shows no widget."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        if colab_page.in_colab():
            data["text/html"] = self.page.html()
        else:
            data[_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        wanted = {m: d for m, d in data.items() if (not include or m in include) and not (exclude and m in exclude)}
        return wanted, {m: d for m, d in metadata.items() if m in wanted}

    def _ipython_display_(self) -> None:
        """Publish that bundle: where this hook is there, IPython looks for no other (ipywidgets 7 has it, too)."""
        from IPython.display import publish_display_data

        data, metadata = self._repr_mimebundle_()
        publish_display_data(data=data, metadata=metadata)
