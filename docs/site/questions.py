"""Predictions and readings on a page: asked first, answered there, and only then shown what was measured.

`place` changes a stored notebook: in place of the line that a prediction writes stands a form, in place of the pictures
of a reading its recordings with the buttons of the answer. What a page needs to judge is computed here, by the course's
own rules, and written beside the form. ``questions.js`` asks, and keeps the answers in the browser. Without JavaScript
all outputs are there to be read.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from nbformat import NotebookNode
from nbformat.v4 import new_output
from page_scripts import plain

from labcourse import predictions, readings
from labcourse.page_events import as_json
from labcourse.predictions import figures
from labcourse.predictions.curve_widget import CurveWidget
from labcourse.predictions.figures import Figure
from labcourse.predictions.kinds import CausePrediction, Commitment, Curve, Prediction

_SCRIPT, _STYLE = (Path(predictions.__file__).with_name(f"curve.{end}") for end in ("js", "css"))

#: A review in words: its name and all that follows, up to the next one. The line of a prediction that is still open.
_REVIEW = re.compile(r"^(\w+\.\w+): no prediction(?! yet)(.*?)(?=^\w+\.\w+: no prediction|\Z)", re.S | re.M)
_OPEN = re.compile(r"^\w+\.\w+: no prediction yet\.\n?.*\n?", re.M)

#: How a notebook tells its reader where to write; a page has a form there.
_WRITE = re.compile(
    r",? and replace the three dots[^\n]*?(?=\.(?:\s|$))"
    r"| ?\(?(?:Drag the points, or replace|Replace|With)\b[^\n]*?\bdots\b[^\n]*?[.:]\)?(?=\s|$)"
)
#: What only a notebook can do, by the word that asks it; the stored output is that of nobody's answer. Of those with a
#: sentence, one a cell is told.
_ELSEWHERE = {"try_it": True, "judge": True, "measure": True, "ladder": True, "check": False}
_NOTEBOOK = "<p>This needs the notebook: open it in Colab, or download it, by the links on top of this page.</p>"
_FIGURE = re.compile(r"([\d.,]+)(?: \[([\d.,]+)–([\d.,]+)\])?")
_PLAIN = ast.Constant, ast.Tuple, ast.List


def place(notebook: NotebookNode, number: str) -> None:
    """Ask the predictions and the readings of a notebook on its page; see the module.

    Parameters
    ----------
    notebook : NotebookNode
        As it is stored; changed in place.
    number : str
        Of the notebook, as in ``"00"``.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    calls = [list(_calls(cell)) for cell in code]
    reviews = {name: (k, text) for k, cell in enumerate(code) for name, text in _REVIEW.findall(_words(cell))}
    forms: dict[str, int] = {}
    for k, cell in enumerate(code):
        asked = [one for one in calls[k] if one[0] in ASKED and one[1] in reviews]
        if asked:
            _strip_open(cell)
        for kind, name, given in asked:
            at, text = reviews[name]
            forms[name] = k
            _show(cell, _form(*ASKED[kind](name, given, _rows(text))))
            _mark(code[at], name)
            if kind == "curve":
                _show(cell, _curve_to_move())
        for kind, name, _ in calls[k]:
            if name in readings.READINGS and kind == "read":
                _ask(cell, name)
            elif kind in _ELSEWHERE and ".guide)" not in cell.source:  # or the page checks; the guide's is given
                cell.outputs = []
                if _ELSEWHERE[kind]:
                    _show(cell, _NOTEBOOK)
        if "predictions.summary(" in cell.source:
            cell.outputs = []
            _show(cell, "<p>In the notebook, this table sums up your own predictions.</p>")
    for name, asked in forms.items():
        _close(name, code[asked + 1 :])
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _WRITE.sub("", cell.source)


def _curve_to_move() -> str:
    """Return the points of a curve to move, as a plain script, and their style."""
    script = plain("labkitCurve", _SCRIPT, "{ mount, drawn, WIDTH, HEIGHT, LEFT, RIGHT, TOP, BELOW }")
    return f"<style>{_STYLE.read_text(encoding='utf-8')}</style><script>{script}</script>"


def _calls(cell: NotebookNode) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the calls of a cell whose first value is a text: the name of the function, the text, other plain values."""
    for node in ast.walk(_tree(cell)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            plain = {k.arg: ast.literal_eval(k.value) for k in node.keywords if isinstance(k.value, _PLAIN)}
            yield getattr(node.func, "attr", getattr(node.func, "id", "")), node.args[0].value, plain


def _tree(cell: NotebookNode) -> ast.AST:
    """Return the syntax of a cell; of one with commands of IPython, which asks nothing, that of an empty one."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.parse("")


def _words(cell: NotebookNode) -> str:
    """Return the outputs of a cell as text."""
    return "\n".join(str(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in cell.outputs)


def _strip_open(cell: NotebookNode) -> None:
    """Leave out what says that a prediction is open, and the chart that goes with it."""
    for output in cell.outputs:
        if "text" in output:
            output.text = _OPEN.sub("", output.text)
    left = (o for o in cell.outputs if not _OPEN.match(o.get("data", {}).get("text/plain", "")))
    cell.outputs = [o for o in left if o.get("text", "a picture").strip()]


def _show(cell: NotebookNode, html: str) -> None:
    cell.outputs.append(new_output("display_data", {"text/html": html, "text/plain": ""}))


def _mark(cell: NotebookNode, name: str) -> None:
    """Give a prediction its place beside the review: around its picture, else below the words."""
    for output in cell.outputs:
        data = output.get("data", {})
        if data.get("text/plain", "").startswith(f"{name}: no prediction") and "text/html" in data:
            data["text/html"] = f'<div class="lq-mark" data-name="{name}">{data["text/html"]}</div>'
            return
    _show(cell, f'<div class="lq-mark" data-name="{name}"></div>')


# -- what is closed ----------------------------------------------------------------------


def _close(name: str, below: list[NotebookNode]) -> None:
    """Mark all that is shown below a prediction, which may answer it; what asks, or draws what is known, stays open."""
    for cell in below:
        asks = any(kind in {*ASKED, *_ELSEWHERE, "read", "idea"} for kind, *_ in _calls(cell))
        if cell.outputs and not (asks or "tour(" in cell.source or "lx-explorer" in str(cell.outputs)):
            cell.metadata.setdefault("tags", []).append(f"labkit-after-{name.replace('.', '-')}")


# -- what is asked, and how an answer is judged ------------------------------------------


def _form(asked: Prediction, more: dict[str, Any]) -> str:
    """Return the place of a form, which the page fills, with the file of the prediction: only the answer is missing."""
    about = {"file": msgspec.to_builtins(asked), "unit": figures.unit_word(asked.unit), **more}
    place = f'<div class="lq-form" id="predict-{asked.name.replace(".", "-")}" role="group"'
    script = f'<script type="application/json">{as_json(about)}</script>'
    without = "<noscript>A prediction takes JavaScript. Without it, what was measured is open below.</noscript>"
    return f'{place} aria-label="Your prediction {asked.name}">{script}{without}</div>'


def _rows(text: str) -> list[list[str]]:
    """Return the cells of the table in a review."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]


def figure(text: str, unit: str) -> Figure:
    """Return a number that a review shows in a unit, with its spread."""
    found = [float(n.replace(",", "")) / (100 if unit == "share" else 1) for n in _FIGURE.match(text).groups() if n]
    return Figure(*found) if len(found) > 1 else Figure(*found * 3)


def _shown(label: str, found: Figure, unit: str) -> dict[str, Any]:
    return {"label": label, "value": found.middle, "words": found.words(unit)}


def _verdicts(measured: Figure, unit: str) -> list[tuple[float | None, str]]:
    """Return the verdicts on a number, each with the number up to which it holds: as the course judges."""
    edges = {measured.middle * (1 - figures.CLOSE), measured.middle * (1 + figures.CLOSE), measured.low, measured.high}
    edges = [0.0, *sorted(edges - {0.0})]
    between = [(low + high) / 2 for low, high in pairwise([*edges, 3 * edges[-1] + 1])]
    doubt = figures.doubt(measured.middle, unit) * (not measured.has_spread)
    judged = [Commitment("page.any", value, unit, measured=measured, doubt=doubt) for value in between]
    close = f"within {100 * figures.CLOSE:.0f} % of it"
    whys = [one.why or (close if one.verdict == figures.RIGHT else "") for one in judged]
    words = [f"{one.verdict}: {why}" if why else one.verdict for one, why in zip(judged, whys, strict=True)]
    return list(zip([*edges[1:], None], words, strict=True))


def _number(name: str, given: dict[str, Any], rows: list[list[str]]) -> tuple[Prediction, dict[str, Any]]:
    asked = Commitment(name, None, given.get("unit", "times"))
    found = {label: figure(value, asked.unit) for label, value, *_ in rows if label in ("the model", "measured")}
    shown = [_shown(label, one, asked.unit) for label, one in found.items()]
    return asked, {"rows": shown, "verdicts": [_verdicts(found["measured"], asked.unit)]}


def _curve(name: str, given: dict[str, Any], rows: list[list[str]]) -> tuple[Prediction, dict[str, Any]]:
    unit, head, *rows = given.get("unit", "times"), *rows
    columns = {title: [figure(row[k], unit) for row in rows] for k, title in enumerate(head) if k}
    lines = {title: [one.middle for one in found] for title, found in columns.items()}
    asked = Curve(name, None, unit, tuple(float(row[0]) for row in rows), given.get("label", ""))
    spec = CurveWidget(asked, lambda values: asked).spec | {"words": "Move the points, then press the button."}
    verdicts = [_verdicts(one, unit) for one in columns["measured"]]
    return asked, {"spec": spec, "lines": lines, "measured": asked.said(lines["measured"]), "verdicts": verdicts}


def _cause(name: str, given: dict[str, Any], rows: list[list[str]]) -> tuple[Prediction, dict[str, Any]]:
    asked = CausePrediction(name, None, tuple(given["among"]), given.get("unit", "ms"))
    found = {row[0]: figure(row[-1], asked.unit) for row in rows if row[0] in asked.among}
    seen = replace(asked, measured=tuple(found[word] for word in asked.among))
    said = {word: replace(seen, value=word).told for word in asked.among}
    return asked, {"rows": [_shown(word, found[word], asked.unit) for word in asked.among], "said": said}


#: By the word that asks: from a name, the other arguments and the table of the review to what the form needs.
ASKED = {"commit": _number, "curve": _curve, "cause": _cause}


# -- readings ----------------------------------------------------------------------------


def _ask(cell: NotebookNode, number: str) -> None:
    """Put the recordings of a reading in place of their pictures, with the buttons, and what is said of each answer."""
    stored = next(o for o in cell.outputs if "lr-words" in o.get("data", {}).get("text/html", ""))
    page = readings.read(number)
    pictures = re.findall(r"<figure.*?</figure>", stored.data["text/html"], re.DOTALL)
    names, said = list(page.shown), {}
    for part in page.asked:
        for choice in part.choices:
            truth, words, where, arrow = readings.feedback(number, part, choice)
            points = arrow and dict(zip(("gap", "lane", "from", "to"), map(int, arrow), strict=True))
            place = names.index(where) if points else -1
            reply = {"right": choice == truth, "words": words, "place": place, "points": points}
            said.setdefault(part.name, []).append(sealed(reply, f"{number}|{part.name}|{choice}"))
    choices = {part.name: list(part.choices) for part in page.asked}
    about = {"number": number, "choices": choices, "said": said, "blocks": page.blocks()}
    stored.data["text/html"] = (
        f'<div class="labkit-reading lq-reading" id="read-{number.replace(".", "-")}" role="group" '
        f'aria-label="Reading {number}"><p class="lr-words">{escape(page.words)}</p>\n{page.body(pictures)}\n'
        f'<script type="application/json">{as_json(about)}</script>'
        "<noscript><p>Answers are checked where JavaScript runs.</p></noscript></div>"
    )


def sealed(reply: dict[str, Any], answer: str) -> str:
    """Return what is said of an answer so that only the answer opens it: base64 of JSON under a stream of its digest.

    This is no secret against somebody who tries every button. It keeps solutions from being read in the source of a
    page, or found by a search.
    """
    state = 0x811C9DC5  # FNV-1a, 32 bits
    for byte in answer.encode():
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    mixed = bytearray(json.dumps(reply, ensure_ascii=False).encode())
    for k in range(len(mixed)):
        state ^= state << 13 & 0xFFFFFFFF  # xorshift32 (Marsaglia, 2003)
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        mixed[k] ^= state & 255
    return base64.b64encode(mixed).decode()
