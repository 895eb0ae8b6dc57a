"""Explorers on a page: every position that buttons and main sliders reach, computed when the page is made.

`place` puts a table of answers in place of the stored picture of an explorer. The answers come from the course's own
explorers, one for each position; ``explorers.js`` looks them up, where in a notebook a kernel would be asked. The front
end and the timeline are those of the notebooks. Without JavaScript the picture stays.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import math
import re
from html import escape
from typing import Any

from nbformat import NotebookNode
from page_scripts import plain

from labcourse import explorers
from labcourse.explorers.controls import Control
from labcourse.explorers.front_end import MODULE, Shown, style
from labcourse.page_events import as_json
from labkit.views.layout import TimelineLayout

#: The sliders that live on a page, by name: of the explorers that have them.
MAINS = (
    ("threads", "prefetch"), ("open_ms", "read_ms"), ("prefetch", "spread"), ("cycle_length", "latency_ms"),
    ("calls", "cores"), ("place", "hit_share"), ("form", "overhead_us", "work_us"), ("image_kb", "bandwidth_mb_s"),
    ("workers",), ("accelerators", "storage_mb_s"),
)  # fmt: skip
#: The cell of an explorer: its kind, and its number or its plan.
_CALL = re.compile(r"^explorers\.(explore|scale|fleet)\(\"([^\"]*)\"", re.M)
#: Stops of a main slider, about, beside those that the buttons set.
STOPS = 7


def place(notebook: NotebookNode, number: str) -> None:
    """Put a living explorer in place of each stored picture of one; see the module.

    Parameters
    ----------
    notebook : NotebookNode
        As it is stored; changed in place.
    number : str
        Of the notebook, as in ``"00"``.
    """
    # The front end stands once on each page.
    once = f"<style>{style()}</style><script>{plain('labkitExplorer', MODULE, 'render')}</script>"
    for cell in notebook.cells:
        if cell.cell_type != "code" or not (call := _CALL.search(cell.source)):
            continue
        output = next(o for o in cell.outputs if "text/html" in o.get("data", {}))
        kind, preset = call.groups()
        shown = reopened(preset, output.data["text/plain"]) if kind == "explore" else getattr(explorers, kind)(preset)
        output.data["text/html"] = once + living(shown, output.data["text/html"])
        once = ""


def reopened(number: str, text: str) -> explorers.Explorer:
    """Return the explorer of which a notebook stores the text: its sliders stand where they stood there.

    Parameters
    ----------
    number : str
        The explorer.
    text : str
        What ``str`` said of it.
    """
    said = re.search(r"^Sliders: (.*)\.$", text, re.M)[1]
    measured = re.search(r"^Costs measured on this machine: (.*)\.$", text, re.M)
    measured, cores = measured[1].split(", ") if measured else [], re.search(r"cores \(here (\d+)\)", said)
    values = dict(one.split(": ", 1) for one in re.sub(r" \(here \d+\)", "", said).split("; "))
    controls = explorers.SHEETS[number].controls
    start = {c.name: _value(c, values[c.label]) for c in controls}
    found = {c.name: start[c.name] for c in controls if c.label in measured}
    found |= {"cores": int(cores[1])} if cores else {}
    return explorers.explore(number, measured=found, machine="the machine of the recording", **start)


def _value(control: Control, text: str) -> Any:
    """Return the value of a slider that has such a text, the other way round than `Control.text`."""
    if control.in_words or text == "no limit":
        return text if control.in_words else math.inf
    number, unit = float(text.split()[0].replace(",", "")), text.partition(" ")[2]
    number *= {"%": 0.01, "GB/s": 1000}.get(unit, 1)
    return int(number) if number.is_integer() else float(f"{number:.3g}")


def mains(shown: Shown) -> dict[int, list[int]]:
    """Return which sliders live on a page, by their place, and where each stops.

    It stops where the buttons set it, and at places spread over the others.
    """
    names = next(names for names in MAINS if {*names} <= {*shown.start})
    pressed, found = [shown.places(p) for p in (shown.start, *shown.positions.values())], {}
    for k, control in enumerate(shown.controls):
        if control.name in names:
            count = len(control.values)
            found[k] = sorted({*range(0, count, -(-count // STOPS)), count - 1, *(places[k] for places in pressed)})
    return found


def positions(shown: Shown) -> list[tuple[int, ...]]:
    """Return the places of all sliders in each position that buttons and main sliders reach.

    In a plan a position may take seconds: there the sliders move from where it was opened.
    """
    stops, pressed = mains(shown), [tuple(shown.places(p)) for p in (shown.start, *shown.positions.values())]
    bases = pressed if isinstance(shown, explorers.Explorer) else pressed[:1]
    grids = (itertools.product(*(stops.get(k, [at]) for k, at in enumerate(base))) for base in bases)
    return list(dict.fromkeys([*itertools.chain(*grids), *pressed]))


def table(shown: Shown) -> tuple[dict[str, Any], bytes]:
    """Return an index, and the answers that it points into.

    The answers are first the words of all positions, as JSON, then the heads of all timelines, then their columns: what
    is alike stands side by side, so that it takes next to no room. The index says how long each piece is.
    """
    words, heads, columns = [], [], []
    every, buttons = positions(shown), {tuple(shown.places(p)) for p in (shown.start, *shown.positions.values())}
    for places in every:
        # Two pictures in two themes are larger than a hundred answers: a plan has them where a button leads.
        drawn = not isinstance(shown, explorers.Explorer) and places in buttons
        reply = shown.reply(shown.position(places), drawn)
        words.append(reply.shown(drawn))
        if reply.timeline is not None:
            block = TimelineLayout([reply.timeline], title="As the sliders stand").encode()
            head = 8 + int.from_bytes(block[:4], "little")
            heads.append(block[:head])
            columns.append(block[head:])
    said = json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()
    index = {"positions": every, "said": len(said), "heads": [*map(len, heads)], "columns": [*map(len, columns)]}
    return index, b"".join([said, *heads, *columns])


def living(shown: Shown, picture: str) -> str:
    """Return an explorer as HTML: its picture, which the page replaces, and all that it needs to answer."""
    index, answers = table(shown)
    first = shown.reply(shown.start, drawn=False).shown(drawn=False)
    about = {
        "html": shown.markup(first),
        "spec": shown.spec(), "places": shown.places(shown.start),
        "stops": mains(shown), "labels": [c.label for c in shown.controls], **index,
    }  # fmt: skip
    return (
        f'<div class="lx-explorer" role="group" aria-label="{escape(f"Explorer: {shown.title}")}">{picture}'
        f'<script type="application/json">{as_json(about)}</script>'
        f'<script type="text/plain">{base64.b64encode(gzip.compress(answers, 9, mtime=0)).decode()}</script></div>'
    )
