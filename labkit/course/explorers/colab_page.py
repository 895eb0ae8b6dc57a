"""An explorer in Colab: the browser's own sliders, and a function of the kernel that they call by its name.

Of every ipywidget that a notebook shows Colab stores the model, in a form that GitHub and nbconvert refuse ("the
'state' key is missing from 'metadata.widgets'"): the whole notebook then shows as invalid. A page leaves nothing but
itself, and where no kernel answers it says so over the last picture.
"""

from __future__ import annotations

import base64
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from labkit.course.explorers.controls import Control
from labkit.views.picture import Picture

_MODULE = Path(__file__).with_name("explorer.js")

_PAGE = """<div id="{name}" class="labkit-explorer"><h3>{title}</h3><p>{question}</p>
<div data-part="controls"></div><p role="status" aria-live="polite">{words}</p>
<div data-part="pictures">{pictures}</div><pre>{details}</pre></div>
<script type="module">
{module}
mount(document.getElementById("{name}"), {spec});
</script>"""


def in_colab() -> bool:
    """Say whether this is a kernel of Colab's, whose pages can call it."""
    return hasattr(sys.modules.get("google.colab.output"), "register_callback")


class Page:
    """Sliders and buttons of one explorer as HTML.

    Parameters
    ----------
    title, question : str
    controls : sequence of Control
    start : mapping of control name to value
        Where the sliders stand.
    positions : mapping of label to position
        The buttons; a position may leave controls out.
    answer : callable
        Takes a position and returns the headline, pictures, and more words or "".
    """

    def __init__(
        self,
        title: str,
        question: str,
        controls: Sequence[Control],
        start: Mapping[str, Any],
        positions: Mapping[str, Mapping[str, Any]],
        answer: Any,
    ) -> None:
        self.title, self.question, self._answer = title, question, answer
        self.name = f"labkit-explorer-{uuid.uuid4().hex[:12]}"
        self.controls = list(controls)
        self.start, self.positions = dict(start), {label: dict(p) for label, p in positions.items()}
        self.values = {c.name: _reachable(c, self.start, self.positions) for c in controls}

    def reply(self, places: Sequence[int]) -> dict[str, Any]:
        """Return what the page shows when each slider stands at its so-and-so-many-th value.

        Parameters
        ----------
        places : sequence of int
            One for each control, from 0.

        Returns
        -------
        dict
            ``words``, ``details`` (text) and ``pictures`` (list of ``src`` and ``alt``).
        """
        chosen = zip(self.controls, places, strict=True)
        words, pictures, details = self._answer({c.name: self.values[c.name][int(i)] for c, i in chosen})
        return {"words": words, "details": details, "pictures": [_image(picture) for picture in pictures]}

    def html(self) -> str:
        """Return the page, and let it call `reply` from now on."""
        from google.colab import output
        from IPython.display import JSON

        output.register_callback(self.name, lambda places: JSON(self.reply(places)))
        at = [self.values[c.name].index(self.start[c.name]) for c in self.controls]
        first = self.reply(at)
        sliders = [
            {"label": c.label, "values": [c.text(v) for v in self.values[c.name]], "at": i, "words": c.in_words}
            for c, i in zip(self.controls, at, strict=True)
        ]
        buttons = [
            {"label": label, "at": [self._place(c, position) for c in self.controls]}
            for label, position in self.positions.items()
        ]
        spec = json.dumps({"name": self.name, "sliders": sliders, "buttons": buttons}, ensure_ascii=False)
        return _PAGE.format(
            name=self.name,
            title=escape(self.title),
            question=escape(self.question),
            words=escape(first["words"]),
            details=escape(first["details"]),
            pictures="".join(f'<img src="{i["src"]}" alt="{escape(i["alt"])}">' for i in first["pictures"]),
            module=_module(),
            spec=spec.replace("</", "<\\/"),
        )

    def _place(self, control: Control, position: Mapping[str, Any]) -> int | None:
        return self.values[control.name].index(position[control.name]) if control.name in position else None


def of_pipeline(explorer: Any) -> Page:
    """Return the page of a `labkit.explorers.Explorer`."""
    from labkit.views import static

    sheet = explorer.sheet

    def answer(position: dict[str, Any]) -> tuple[str, list[Picture], str]:
        now = explorer.answer(**position)
        words = now.headline
        moved = [c for c in sheet.controls if position[c.name] != explorer.start[c.name]]
        if moved:
            gain = now.faster_than(explorer.first)
            changes = "; ".join(f"{c.label}: {c.text(position[c.name])}" for c in moved)
            words += f" {gain:,.3g} times the images/s of the opening position. Changed: {changes}."
        return words, [static.draw(now.timeline, title=sheet.title)], ""

    return Page(sheet.title, sheet.question, sheet.controls, explorer.start, sheet.positions, answer)


def of_plan(explorer: Any) -> Page:
    """Return the page of a `labkit.explorers.ScaleExplorer`."""
    from labkit.simulate import capacity

    def answer(position: dict[str, Any]) -> tuple[str, list[Picture], str]:
        try:
            plan = explorer.answer(position)
        except ValueError as error:  # two sliders that do not fit together, as more hosts than accelerators
            return f"No plan: {error}.", [], ""
        return f"{plan.headline()} {plan.advice}", [plan.limits(), plan.stall()], str(plan)

    presets = {name: explorer.position(capacity.plan(name)) for name in capacity.PRESETS}
    question = "What feeds so many accelerators, what limits first, and what does the stall cost?"
    return Page("Plan on paper", question, explorer.controls, explorer.position(explorer.start), presets, answer)


def _reachable(control: Control, start: Mapping[str, Any], positions: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return the values of a control, with every one that a button or the start needs."""
    if control.in_words:
        return list(control.values)
    needed = (position[control.name] for position in positions.values() if control.name in position)
    return sorted({*control.values, start[control.name], *needed})


def _image(picture: Picture) -> dict[str, str]:
    return {"src": f"data:image/png;base64,{base64.b64encode(picture.png()).decode('ascii')}", "alt": picture.alt}


def _module() -> str:
    """Return the module as the text of a script."""
    lines = (line.strip() for line in _MODULE.read_text(encoding="utf-8").splitlines())
    return "\n".join(line.removeprefix("export ") for line in lines if line and not line.startswith("//"))
