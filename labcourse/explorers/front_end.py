"""The front end of every explorer: sliders, buttons and the answer to a position, as elements of the browser.

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
from html import escape
from pathlib import Path
from typing import Any

from labcourse.explorers.controls import Control
from labkit.timeline.timeline import Timeline
from labkit.views.picture import Picture
from labkit.views.widget import script_of

#: What the elements do, and how they look.
MODULE, STYLE = (Path(__file__).with_name(f"explorer.{end}") for end in ("js", "css"))

_VIEW = "application/vnd.jupyter.widget-view+json"

#: The text below the picture if the sliders do not work.
_ASLEEP = "Buttons and sliders need a running kernel: run this cell, and they appear in place of this picture."

_MARKUP = """<div id="{name}" class="labkit-explorer"><h3>{title}</h3><p>{question}</p>
<div data-part="controls"><div role="group" aria-label="positions of all sliders">{buttons}</div>{sliders}</div>
<p role="status" aria-live="polite">{words}</p>
<div data-part="pictures">{pictures}</div><pre>{details}</pre></div>"""

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
    """

    words: str
    draw: Callable[[], list[Picture]] = list
    details: str = ""
    timeline: Timeline | None = None

    def shown(self, drawn: bool = True) -> dict[str, Any]:
        """Return ``words``, ``details`` and ``pictures`` (HTML) for the browser."""
        pictures = "".join(picture.html() for picture in (self.draw() if drawn else ()))
        return {"words": self.words, "details": self.details, "pictures": pictures}


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
        The buttons; a position may leave controls out.
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
    ) -> None:
        self.title, self.question = title, question
        self.start, self.positions = dict(start), {label: dict(p) for label, p in positions.items()}
        places = (self.start, *self.positions.values())
        self.controls = tuple(c.reaching(p[c.name] for p in places if c.name in p) for c in controls)

    def reply(self, position: Mapping[str, Any]) -> Reply:
        """Return what is shown for a position of all sliders."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the same text as `str`."""
        return str(self)

    def words(self, position: Mapping[str, Any]) -> str:
        """Return a position in words: every slider that it sets, with its value and unit."""
        return "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in self.controls if c.name in position)

    def places(self, position: Mapping[str, Any]) -> list[int | None]:
        """Return for each slider the place of its value, counted from 0; None where a position leaves it out."""
        return [c.values.index(position[c.name]) if c.name in position else None for c in self.controls]

    def position(self, places: Sequence[int]) -> dict[str, Any]:
        """Return the position of all sliders by their places."""
        return {c.name: c.values[int(at)] for c, at in zip(self.controls, places, strict=True)}

    def spec(self) -> dict[str, Any]:
        """Return for each slider the text at each place, and for each button the places that it sets."""
        return {
            "sliders": [[c.text(value) for value in c.values] for c in self.controls],
            "buttons": [self.places(position) for position in self.positions.values()],
        }

    def markup(self, first: Mapping[str, Any], name: str = "") -> str:
        """Return the elements of the browser as HTML, with the answer to the opening position."""
        return _MARKUP.format(
            name=name,
            title=escape(self.title),
            question=escape(self.question),
            buttons="".join(
                f'<button type="button" title="{escape(self.words(position))}">{escape(label)}</button>'
                for label, position in self.positions.items()
            ),
            sliders="".join(map(_slider, self.controls, self.places(self.start))),
            words=escape(first["words"]),
            details=escape(first["details"]),
            pictures=first["pictures"],
        )

    def page(self) -> str:
        """Return the page for Colab, whose sliders ask this kernel from now on; new at every showing."""
        from google.colab import output
        from IPython.display import JSON

        name = f"labkit-explorer-{uuid.uuid4().hex[:12]}"
        output.register_callback(name, lambda places: JSON(self.reply(self.position(places)).shown()))
        spec = json.dumps({"name": name, **self.spec()}, ensure_ascii=False)
        return _PAGE.format(
            style=STYLE.read_text(encoding="utf-8"),
            markup=self.markup(self.reply(self.start).shown(), name),
            module=script_of(MODULE),
            name=name,
            spec=spec.replace("</", "<\\/"),
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the picture of all buttons, and the text; in Colab the page, which holds the sliders, too."""
        data, metadata = self.picture._repr_mimebundle_()
        data["text/plain"] = str(self)
        data["text/html"] = self.page() if _in_colab() else self.picture.html(note=_ASLEEP)
        return data, metadata

    def _ipython_display_(self) -> None:
        """Publish the picture and, below it, the widget, which hides the picture above it while it is alive.

        A model lives as long as its kernel. Where there is no model (a saved notebook, nbconvert), the picture stays.
        """
        from IPython.display import publish_display_data

        publish_display_data(*self._repr_mimebundle_())
        if not _in_colab():
            view = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
            publish_display_data({_VIEW: view, "text/plain": self.title})


def _in_colab() -> bool:
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
