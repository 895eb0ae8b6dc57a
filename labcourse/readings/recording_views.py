"""How a reading is shown: recordings without names and causes, buttons for the answer, and an arrow to the evidence."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from labcourse import page_events
from labkit.timeline.heading import heading
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Trace
from labkit.timeline.wording import duration
from labkit.views.layout import TimelineLayout
from labkit.views.layout.texts import LABELS
from labkit.views.picture import Picture
from labkit.views.static import Arrow, picture_of
from labkit.views.widget import MODULE, TimelineWidget, packed, page, script_of

#: What a page calls a click that answers.
_EVENT = "labkit-reading"

#: The elements around the timelines, and what clicks do.
_PAGE = Path(__file__).with_name("reading.html")


class QuietTimeline(Timeline):
    """A timeline that asks: rows and colours without causes, names of operations, or sums."""

    def __init__(self, trace: Trace) -> None:
        self._told = Timeline(trace)
        super().__init__(_nameless(trace), explain=False)

    @cached_property
    def states(self) -> dict[tuple[int, int], Any]:
        """What is filled and what is hollow, as with all names."""
        return self._told.states

    def __str__(self) -> str:
        """Return the lengths that a picture shows."""
        lanes = ", ".join(f"{lane.name} {100 * lane.share:.0f} %" for lane in self.lanes if lane.kind != "wait")
        gaps = ", ".join(f"{duration(gap.length_ns)} before step {gap.step}" for gap in self.gaps)
        return f"{heading(self)}\n  busy: {lanes}\n  idle: {gaps or 'never'}"

    __repr__ = __str__


def _nameless(trace: Trace) -> Trace:
    """Return a trace whose spans have the words of a legend for names; threads have numbers, if they read no file."""
    kinds = dict(zip(trace.name.tolist(), trace.category.tolist(), strict=True))
    names = (LABELS.get(word := CATEGORIES[kinds.get(k, 0)], word) for k in range(len(trace.names)))
    number = itertools.count(1)
    own = (one.kind != "pipeline" or one.name.startswith("file ") for one in trace.threads)
    pairs = zip(trace.threads, own, strict=True)
    threads = (one if kept else one._replace(name=f"thread {next(number)}") for one, kept in pairs)
    return replace(trace, names=tuple(names), threads=tuple(threads))


class ShownRecording(TimelineWidget):
    """One recording of a reading: all its steps, in the rows of a mode; maybe with an arrow.

    Parameters
    ----------
    timeline : Timeline
    title : str
    mode : str
        One of `labkit.views.layout.rows.MODES`.
    letter : str
        The recording that a click in it answers for; "" where none is asked for.
    points : Arrow, optional
        The arrow.
    span_ns : int
        How long the axis is, if that is longer than the recording: recordings that are compared have one scale.
    """

    def __init__(
        self, timeline: Timeline, title: str, mode: str, letter: str = "", points: Arrow | None = None, span_ns: int = 1
    ) -> None:
        self._mode, self._points, self._span_ns = mode, points, span_ns
        super().__init__(timeline, title=title)
        arrow = points and dict(zip(("gap", "lane", "from", "to"), map(int, points), strict=True))
        self.look = {**self.look, "mode": mode, "letter": letter, "points": arrow}

    def _build(self, timeline: Timeline, after: None = None) -> bytes:
        self._layout = TimelineLayout([timeline], title=self._title)
        self._layout.span_ns = max(self._layout.span_ns, self._span_ns)
        if self._mode != "band":  # the band would repeat the lanes
            self._layout.drawn[0]["band"] = None
        return self._layout.encode()

    @cached_property
    def picture(self) -> Picture:
        """The static picture, with the same rows and the same arrow."""
        steps = self._layout.timelines[0].steps
        return picture_of(self._layout, steps=steps, mode=self._mode, points=self._points, span_ns=self._span_ns)


class AskedPart(NamedTuple):
    """Something that is asked: the buttons of its answers, or what of a click in the picture is the answer.

    Parameters
    ----------
    name : str
        "" where nothing else is asked.
    choices : sequence of str or int
        All answers that there are.
    below : str
        The name of the recording below which it stands.
    click : str
        "step" or "lane"; "" for buttons.
    """

    name: str
    choices: Sequence[Any]
    below: str
    click: str = ""


class ReadingPage:
    """Words, pictures and timelines one below the other, each with the parts of the answer that stand below it.

    Parameters
    ----------
    words : str
        Above all of it.
    shown : mapping of name to ShownRecording or Picture
    asked : sequence of AskedPart
    number : str
        The reading.
    heard : callable, optional
        Called with each click that answers: ``number``, ``part`` and ``value``.
    """

    def __init__(
        self, words: str, shown: Mapping[str, Any], asked: Sequence[AskedPart] = (), number: str = "", heard: Any = None
    ) -> None:
        self.words, self.shown, self.asked, self.number, self._heard = words, dict(shown), asked, number, heard

    def html(self) -> str:
        """Return one piece of HTML, which needs no kernel to be looked at; in Colab it tells the kernel of clicks."""
        body, blocks = self.body(), self.blocks()
        name = "labkit-reading-" + hashlib.sha256(f"{self.words}{body}{blocks}".encode()).hexdigest()[:12]
        told = page_events.told(_EVENT) if self._heard else ""
        return told + Template(_PAGE.read_text(encoding="utf-8")).substitute(
            name=name, number=self.number, words=escape(self.words), body=body, module=script_of(MODULE),
            blocks=page_events.as_json(blocks), page=page_events.as_json(page()),
        )  # fmt: skip

    def body(self, figures: Sequence[str] | None = None) -> str:
        """Return the pictures, or `figures` in their place, as HTML, each with the parts of the answer below it."""
        if figures is None:
            all_shown = self.shown.values()
            figures = [o.picture.html(both=False) if isinstance(o, ShownRecording) else o.html() for o in all_shown]
        lines, last = [], list(self.shown)[-1]
        for k, (name, figure) in enumerate(zip(self.shown, figures, strict=True)):
            # What is asked of one of several in a picture stands below the last of them.
            asked = [
                part for part in self.asked if part.below == name or (name == last and part.below not in self.shown)
            ]
            lines.append(f'<div data-place="{k}">{figure}</div>{"".join(map(_buttons, asked))}')
        return "\n".join(lines)

    def blocks(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the place, the packed block and the look of each recording, as the timeline takes them."""
        shown = enumerate(self.shown.values())
        return [(k, packed(one.block), {**one.look, "page": ""}) for k, one in shown if isinstance(one, ShownRecording)]

    def __str__(self) -> str:
        """Return the words, and those of all that is shown."""
        shown = self.shown.values()
        texts = (f"{one.picture.title}: {one}" if isinstance(one, ShownRecording) else str(one) for one in shown)
        return "\n".join([self.words, *texts])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return what a notebook shows, and the text."""
        return {"text/html": self.html(), "text/plain": str(self)}

    def _ipython_display_(self) -> None:
        """Publish the page, and listen for clicks."""
        from IPython.display import publish_display_data

        self.ear = page_events.listen(_EVENT, self._heard) if self._heard else None
        publish_display_data(self._repr_mimebundle_())


def _buttons(part: AskedPart) -> str:
    """Return the buttons of a part, or the place where its click is written."""
    name, words = escape(part.name), f"click the {'gap' if part.click == 'step' else part.click} in the picture"
    inside = f'<output data-part="{name}" data-pick="{part.click}">{words}</output>'
    if not part.click:
        inside = "".join(
            f'<button type="button" data-part="{name}" data-value="{escape(json.dumps(one))}" aria-pressed="false">'
            f"{escape(str(one))}</button>"
            for one in part.choices
        )
    return f'<div class="lr-asked" role="group" aria-label="{name or "answer"}"><b>{name}</b>{inside}</div>'
