"""The first look: a timeline that asks for three clicks, from a gap to what it waited for, and to one photo."""

from __future__ import annotations

from typing import Any

from labcourse import gradebook, page_events
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views.widget import TimelineWidget

#: What the bar below the heading says, before each of the three steps and at the end.
SENTENCES = (
    "1 of 3 · Click the first red gap: the accelerator is idle (key N).",
    "2 of 3 · Click what its arrow leads to: the work it waited for (key C).",
    "3 of 3 · Click it again to open this one photo (key Enter).",
    "Gap, cause, photo: so a timeline is read. The key 0 shows everything again.",
)

_EVENT = "labkit-tour"


class FirstTour(TimelineWidget):
    """A timeline with a tour of three steps, which asks until it is made or skipped; `tour` makes one.

    Steps that are made are kept by the gradebook while a kernel is there to hear of them.
    """

    def __init__(self, timeline: Timeline | Trace, **how: Any) -> None:
        super().__init__(timeline, **how)
        self.look = {**self.look, "tour": list(SENTENCES)}

    def html(self, most: int | None = None) -> str | None:
        """Return the page of the timeline; in Colab it tells the kernel itself."""
        page = super().html(most)
        return page and page + page_events.told(_EVENT)

    def _ipython_display_(self) -> None:
        """Publish the timeline, and listen for its steps."""
        self.ear = page_events.listen(_EVENT, gradebook.tick)
        super()._ipython_display_()


def tour(timeline: Timeline | Trace, *, title: str | None = None, steps: int | None = None) -> FirstTour:
    """Show a timeline as `labkit.show` does, with a tour from its first gap to the work on one photo.

    Parameters
    ----------
    timeline : Trace or Timeline
        Of a job that prepares one photo at a time. Without a gap that waited for work on a photo, there is no tour.
    title, steps
        As in `labkit.show`.

    Returns
    -------
    FirstTour
        The last expression of a cell shows it.
    """
    return FirstTour(timeline, title=title, steps=steps)
