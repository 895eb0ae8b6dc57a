"""An explorer in Colab: the browser's own sliders, which call a function of the kernel by its name.

Colab stores the model of every ipywidget that a notebook shows, in a form that GitHub and nbconvert refuse ("the
'state' key is missing from 'metadata.widgets'"): they call the whole notebook invalid. A page stores nothing but
itself. If no kernel answers, it says so above the last picture.
"""

from __future__ import annotations

import base64
import json
import sys
import uuid
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from labkit.course.explorers.controls import Control
from labkit.views.picture import Picture

_MODULE = Path(__file__).with_name("explorer.js")

_STYLE = Path(__file__).with_name("explorer.css")

_PAGE = """<style>{style}</style>
<div id="{name}" class="labkit-explorer"><h3>{title}</h3><p>{question}</p>
<div data-part="controls"><div role="group" aria-label="positions of all sliders">{buttons}</div>{sliders}</div>
<p role="status" aria-live="polite">{words}</p>
<div data-part="pictures">{pictures}</div><pre>{details}</pre></div>
<script type="module">
{module}
mount(document.getElementById("{name}"), {spec});
</script>"""


def source(picture: Picture) -> str:
    """Return a picture as the address of an image."""
    return f"data:image/png;base64,{base64.b64encode(picture.png()).decode('ascii')}"


def in_colab() -> bool:
    """Say whether this is a kernel of Colab's, whose pages can call it."""
    return hasattr(sys.modules.get("google.colab.output"), "register_callback")


class Page:
    """Sliders and buttons of one explorer as HTML.

    Parameters
    ----------
    explorer : labkit.course.explorers.front_end.Shown
    """

    def __init__(self, explorer: Any) -> None:
        self.name, self._explorer = f"labkit-explorer-{uuid.uuid4().hex[:12]}", explorer

    def reply(self, places: Sequence[int]) -> dict[str, Any]:
        """Return what the page shows for the places of its sliders.

        Parameters
        ----------
        places : sequence of int
            For each slider the place of its value, counted from 0.

        Returns
        -------
        dict
            ``words``, ``details`` (text) and ``pictures`` (list of ``src`` and ``alt``).
        """
        chosen = zip(self._explorer.controls, places, strict=True)
        reply = self._explorer.reply({c.name: c.values[int(i)] for c, i in chosen})
        pictures = [{"src": source(picture), "alt": picture.alt} for picture in reply.draw()]
        return {"words": reply.words, "details": reply.details, "pictures": pictures}

    def html(self) -> str:
        """Return the page, and let it call `reply` from now on."""
        from google.colab import output
        from IPython.display import JSON

        output.register_callback(self.name, lambda places: JSON(self.reply(places)))
        explorer = self._explorer
        at = [c.values.index(explorer.start[c.name]) for c in explorer.controls]
        first = self.reply(at)
        buttons = [
            [c.values.index(p[c.name]) if c.name in p else None for c in explorer.controls]
            for p in explorer.positions.values()
        ]
        sliders = [[c.text(value) for value in c.values] for c in explorer.controls]
        spec = json.dumps({"name": self.name, "sliders": sliders, "buttons": buttons}, ensure_ascii=False)
        return _PAGE.format(
            style=_STYLE.read_text(encoding="utf-8"),
            name=self.name,
            title=escape(explorer.title),
            question=escape(explorer.question),
            buttons="".join(f'<button type="button">{escape(label)}</button>' for label in explorer.positions),
            sliders="".join(map(_slider, explorer.controls, at)),
            words=escape(first["words"]),
            details=escape(first["details"]),
            pictures="".join(f'<img src="{i["src"]}" alt="{escape(i["alt"])}">' for i in first["pictures"]),
            module=_module(),
            spec=spec.replace("</", "<\\/"),
        )


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


def _module() -> str:
    """Return the module as the text of a script."""
    lines = (line.strip() for line in _MODULE.read_text(encoding="utf-8").splitlines())
    return "\n".join(line.removeprefix("export ") for line in lines if line and not line.startswith("//"))
