"""The front end of every explorer: rows, sliders and the answer to a position, as elements of the browser.

In JupyterLab they are a widget. In Colab they are a page that calls a function of the kernel by its name. A widget does
not work there: Colab stores the model of every widget in a form that GitHub and nbconvert refuse ("the 'state' key is
missing from 'metadata.widgets'"), so that they call the whole notebook invalid. A page stores nothing but itself.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from labcourse.explorers.controls import Control
from labkit.common.palette import THEMES
from labkit.timeline.timeline import Timeline
from labkit.views.picture import DARK, Picture
from labkit.views.widget import script_of

#: What the elements do, and how they look but for the colours of the rows.
MODULE, _STYLE = (Path(__file__).with_name(f"explorer.{end}") for end in ("js", "css"))

_VIEW = "application/vnd.jupyter.widget-view+json"

#: The text below the picture if the sliders do not work.
_ASLEEP = "Buttons and sliders need a running kernel: run this cell, and they appear in place of this picture."

#: The three parts of a job.
PARTS = ("fetch (F)", "preparation (P)", "the accelerator (G)")

_MARKUP = """<div id="{name}" class="labkit-explorer"><div data-part="head"><h3>{title}</h3><p>{question}</p></div>
<div data-part="controls"><div><div role="group" aria-label="positions of all sliders">{rows}</div>{bars}</div>
<div><p data-part="costs">{costs}</p><div data-part="sliders">{sliders}</div></div></div>
{verdict}<p role="status" aria-live="polite">{words}</p>
<div data-part="pictures">{pictures}</div><pre>{details}</pre></div>"""

_ROW = """<button type="button" aria-pressed="{pressed}" title="{title}">{inside}</button>"""

#: Each bar is the button of an answer; its mark is empty until the reader has answered.
_BARS = """<div data-part="bars" role="group" aria-label="the most that each part could do alone">{html}</div>"""
_VERDICT = '<p data-part="verdict" aria-live="polite">{question}</p>'
_BAR = (
    '<button type="button" aria-pressed="false"><span>{}</span><i aria-hidden="true" style="width:{}%"></i>'
    "<span>{}</span><b></b></button>"
)
_QUESTION = "Which of the three limits the job? Press its bar."

_PAGE = """<style>{style}</style>
{markup}
<script type="module">
{module}
inColab(document.getElementById("{name}"), {spec});
</script>"""


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
    bars : dict, optional
        F, P and G; see `labcourse.explorers.modelled_run.ModelledRun.bars`.
    """

    words: str
    draw: Callable[[], list[Picture]] = list
    details: str = ""
    timeline: Timeline | None = None
    bars: dict[str, Any] | None = None

    def shown(self, drawn: bool = True) -> dict[str, Any]:
        """Return ``words``, ``details``, ``pictures`` (HTML) and ``bars`` for the browser.

        Of the bars: ``html``, ``question``, and what an answer shows: the ``marks`` of all, the ``verdicts`` on each.
        """
        pictures = "".join(picture.html() for picture in (self.draw() if drawn else ()))
        found = {"words": self.words, "details": self.details, "pictures": pictures, "bars": None}
        if bars := self.bars:
            found["bars"] = {
                "html": "".join(map(_BAR.format, PARTS, bars["length"], bars["words"])),
                "question": _QUESTION,
                "marks": ["◀ lowest" * lowest for lowest in bars["lowest"]],
                "verdicts": [f"{'Yes' if lowest else 'No'}. {bars['verdict']}" for lowest in bars["lowest"]],
            }
        return found


class Shown:
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

    picture: Picture
    panel: Any  # an ipywidgets.DOMWidget; made when it is first asked for

    def __init__(
        self,
        title: str,
        question: str,
        controls: tuple[Control, ...],
        start: Mapping[str, Any],
        positions: Mapping[str, Mapping[str, Any]],
        costs: str = "",
    ) -> None:
        self.title, self.question, self.costs = title, question, costs
        self.start, self.positions = dict(start), {label: {**start, **p} for label, p in positions.items()}
        places = (self.start, *self.positions.values())
        self.controls = tuple(c.reaching(p[c.name] for p in places) for c in controls)

    def reply(self, position: Mapping[str, Any]) -> Reply:
        """Return what is shown for a position of all sliders."""
        raise NotImplementedError

    def rows(self) -> dict[str, str]:
        """Return what stands in the button of each position, as HTML, by label: here the label alone."""
        return {label: escape(label) for label in self.positions}

    def __repr__(self) -> str:
        """Return the same text as `str`."""
        return str(self)

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
        return _MARKUP.format(
            name=name,
            title=escape(self.title),
            question=escape(self.question),
            rows="".join(
                _ROW.format(
                    pressed=str(self.positions[label] == self.start).lower(),
                    title=escape(self.words(self.positions[label])),
                    inside=inside,
                )
                for label, inside in self.rows().items()
            ),
            bars=_BARS.format(**bars) if bars else "",
            verdict=_VERDICT.format(**bars) if bars else "",
            costs=escape(self.costs),
            sliders="".join(map(_slider, self.controls, self.places(self.start))),
            words=escape(first["words"]),
            details=escape(first["details"]),
            pictures=first["pictures"],
        )

    def page(self) -> str:
        """Return the page for Colab, whose sliders ask this kernel from now on; new at every showing."""
        from google.colab import output
        from IPython.display import JSON

        name, first = f"labkit-explorer-{uuid.uuid4().hex[:12]}", self.reply(self.start).shown()
        output.register_callback(name, lambda places: JSON(self.reply(self.position(places)).shown()))
        spec = json.dumps({"name": name, **self.spec(), "bars": first["bars"]}, ensure_ascii=False)
        return _PAGE.format(
            style=style(),
            markup=self.markup(first, name),
            module=script_of(MODULE),
            name=name,
            spec=spec.replace("</", "<\\/"),
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the picture of all buttons, and the text; in Colab the page, which holds the sliders, too."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        data["text/html"] = self.page() if in_colab() else self.picture.html(note=f"{self.costs} {_ASLEEP}".strip())
        return data, metadata

    def _ipython_display_(self) -> None:
        """Publish the picture and, below it, the widget, which hides the picture above it while it is alive.

        A model lives as long as its kernel. Where there is no model (a saved notebook, nbconvert), the picture stays.
        """
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())
        if not in_colab():
            view = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
            publish_display_data({_VIEW: view, "text/plain": self.title})


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


def in_colab() -> bool:
    """Return whether a page of this kernel can call its functions, as in Colab."""
    return hasattr(sys.modules.get("google.colab.output"), "register_callback")


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
