"""The front end of every explorer: rows, sliders and the answer to a position, as elements of the browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from labcourse.explorers.controls import Control
from labcourse.page_events import LivePicture, page_that_asks
from labkit.common.palette import THEMES
from labkit.timeline.timeline import Timeline
from labkit.views.picture import DARK, Picture

#: What the elements do, and how they look but for the colours of the rows.
MODULE, _STYLE, _PARTS = (Path(__file__).with_name(f"explorer.{end}") for end in ("js", "css", "html"))

#: The text below the picture if the sliders do not work.
_ASLEEP = "Buttons and sliders need a running kernel: run this cell, and they appear in place of this picture."

#: The three parts of a job.
PARTS = ("fetch (F)", "preparation (P)", "accelerator (G)")

_QUESTION = "Which of the three limits the job? Press its bar."

#: By name: all of it; the button of a position; F, P and G, each the button of an answer, whose mark is empty until the
#: reader has answered; the page of Colab.
_HTML = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n(?=<!--|$(?!.))", _PARTS.read_text(encoding="utf-8"), re.DOTALL))


@dataclass(frozen=True)
class Reply:
    """What an explorer shows for a position of its sliders.

    Parameters
    ----------
    words : str
        The headline.
    changed : str
        Which sliders were moved: a screen reader says it, others see them.
    draw : callable
        Returns the pictures; a front end with an interactive timeline does not call it.
    details : str
        Text below the pictures, or nothing.
    timeline : Timeline, optional
        The simulated run, for an interactive timeline.
    bars : dict, optional
        F, P and G; see `labcourse.explorers.modelled_run.ModelledRun.bars`.
    """

    words: str
    draw: Callable[[], list[Picture]] = list
    details: str = ""
    timeline: Timeline | None = None
    bars: dict[str, Any] | None = None
    changed: str = ""

    def shown(self, drawn: bool = True) -> dict[str, Any]:
        """Return ``words``, ``changed``, ``details``, ``pictures`` (HTML) and ``bars`` for the browser.

        Of the bars: ``html``, ``question``, and what an answer shows: the ``marks`` of all, the ``verdicts`` on each.
        """
        each = enumerate(self.draw() if drawn else ())
        pictures = "".join(_HTML["fold"].format(escape(p.title), p.html()) if k else p.html() for k, p in each)
        said = {"words": self.words, "changed": self.changed, "details": self.details, "pictures": pictures}
        if not (bars := self.bars):
            return {**said, "bars": None}
        html = "".join(map(_HTML["bar"].format, PARTS, bars["end"], bars["length"], bars["words"]))
        marks = ["◀" * lowest for lowest in bars["lowest"]]
        verdicts = [f"{'Yes' if lowest else 'No'}. {bars['verdict']}" for lowest in bars["lowest"]]
        shown = {"html": html, "question": _QUESTION, "scale": bars["scale"], "marks": marks, "verdicts": verdicts}
        return {**said, "bars": shown}


class Shown(LivePicture):
    """An explorer as the browser sees it, and a picture with its text everywhere else.

    Parameters
    ----------
    title, question : str
    controls : iterable of Control
        The sliders; each is made to reach what the start and the buttons need.
    start : mapping of control name to value
        Where the sliders stand when it is opened.
    positions : mapping of label to mapping of control name to value
        The rows, each a button that sets all sliders: those that a position leaves out to where they stood at first.
    costs : str
        Where the costs come from, a sentence or nothing.
    """

    def __init__(
        self, title: str, question: str, controls: tuple[Control, ...], start: Mapping[str, Any],
        positions: Mapping[str, Mapping[str, Any]], costs: str = "",
    ) -> None:  # fmt: skip
        self.title, self.question, self.costs = title, question, costs
        self.asleep = f"{costs} {_ASLEEP}".strip()
        self.start, self.positions = dict(start), {label: {**start, **p} for label, p in positions.items()}
        places = (self.start, *self.positions.values())
        self.controls = tuple(c.reaching(p[c.name] for p in places) for c in controls)

    def reply(self, position: Mapping[str, Any], drawn: bool = True) -> Reply:
        """Return what is shown for a position of all sliders; without pictures if they are not to be `drawn`."""
        raise NotImplementedError

    def rows(self) -> dict[str, str]:
        """Return what stands in the button of each position, as HTML, by label: here the label alone."""
        return {label: escape(label) for label in self.positions}

    def words(self, position: Mapping[str, Any]) -> str:
        """Return a position in words: every slider that it sets, with its value and unit."""
        return "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in self.controls if c.name in position)

    def places(self, position: Mapping[str, Any]) -> list[int]:
        """Return for each slider the place of its value, counted from 0."""
        return [c.values.index(position[c.name]) for c in self.controls]

    def position(self, places: Sequence[int]) -> dict[str, Any]:
        """Return the position of all sliders by their places."""
        return {c.name: c.values[int(at)] for c, at in zip(self.controls, places, strict=True)}

    def spec(self) -> dict[str, Any]:
        """Return for each slider the text at each place, and for each row the places that its button sets."""
        return {
            "sliders": [[c.text(value) for value in c.values] for c in self.controls],
            "rows": [self.places(position) for position in self.positions.values()],
        }

    def markup(self, first: Mapping[str, Any], name: str = "") -> str:
        """Return the elements of the browser as HTML, with the answer to the opening position."""
        bars = first["bars"]
        rows = [(self.positions[label], inside) for label, inside in self.rows().items()]
        texts = [(str(here == self.start).lower(), escape(self.words(here)), inside) for here, inside in rows]
        said = {"title": self.title, "question": self.question, "words": first["words"], "details": first["details"]}
        return _HTML["all"].format(
            name=name,
            rows="".join(_HTML["row"].format(*each) for each in texts),
            bars=_HTML["bars"].format(**bars) if bars else "",
            verdict=_HTML["verdict"].format(**bars) if bars else "",
            costs=escape(f"{self.costs} {bars['scale']}" if bars else self.costs),
            sliders="".join(map(_slider, self.controls, self.places(self.start))),
            pictures=first["pictures"],
            **{part: escape(text) for part, text in said.items()},
        )

    def page(self) -> str:
        """Return the page for Colab, whose sliders ask this kernel from now on."""
        first = self.reply(self.start).shown()

        def answer(places: Sequence[int]) -> dict[str, Any]:
            return self.reply(self.position(places)).shown()

        spec = {**self.spec(), "bars": first["bars"]}
        return page_that_asks("explorer", answer, style(), lambda name: self.markup(first, name), MODULE, spec)


@lru_cache
def style() -> str:
    """Return how the elements look, with the colours of the rows on a light and on a dark page."""
    looks = {"": THEMES["light"], f"{DARK} ": THEMES["dark"]}
    colors = [
        f"{page}.labkit-explorer{{--bed:{look.lane};--gap:{look.gap};--train:{look.fill['train']};"
        f"--decode:{look.fill['decode']};--bar:{look.node}}}"
        for page, look in looks.items()
    ]
    return "\n".join([*colors, _STYLE.read_text(encoding="utf-8")])


def _slider(control: Control, at: int) -> str:
    """Return a slider at one of its places, or a menu where its values are words, with its name and its value."""
    label = escape(control.label)
    if control.in_words:
        options = (
            f'<option value="{k}"{" selected" * (k == at)}>{escape(control.text(value))}</option>'
            for k, value in enumerate(control.values)
        )
        box = f'<select aria-label="{label}">{"".join(options)}</select>'
    else:
        box = f'<input type="range" min="0" max="{len(control.values) - 1}" step="1" value="{at}" aria-label="{label}">'
    hidden = " hidden" * control.in_words
    return f'<label><span>{label}</span>{box}<span aria-hidden="true"{hidden}></span></label>'
