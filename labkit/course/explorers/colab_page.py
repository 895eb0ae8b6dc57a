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

from labkit.views.picture import Picture

_MODULE = Path(__file__).with_name("explorer.js")

_PAGE = """<div id="{name}" class="labkit-explorer"><h3>{title}</h3><p>{question}</p>
<div data-part="controls"></div><p role="status" aria-live="polite">{words}</p>
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
        sliders = [
            {"label": c.label, "values": [c.text(v) for v in c.values], "at": i, "words": c.in_words}
            for c, i in zip(explorer.controls, at, strict=True)
        ]
        buttons = [
            {"label": label, "at": [c.values.index(p[c.name]) if c.name in p else None for c in explorer.controls]}
            for label, p in explorer.positions.items()
        ]
        spec = json.dumps({"name": self.name, "sliders": sliders, "buttons": buttons}, ensure_ascii=False)
        return _PAGE.format(
            name=self.name,
            title=escape(explorer.title),
            question=escape(explorer.question),
            words=escape(first["words"]),
            details=escape(first["details"]),
            pictures="".join(f'<img src="{i["src"]}" alt="{escape(i["alt"])}">' for i in first["pictures"]),
            module=_module(),
            spec=spec.replace("</", "<\\/"),
        )


def _module() -> str:
    """Return the module as the text of a script."""
    lines = (line.strip() for line in _MODULE.read_text(encoding="utf-8").splitlines())
    return "\n".join(line.removeprefix("export ") for line in lines if line and not line.startswith("//"))
