"""The reader's own pipeline: one file that grows by a step in each notebook, and the ladder of what each step gained.

``my_pipeline.py`` lies beside the notebooks, is plain TensorFlow, and belongs to the reader: it is made where it is
missing, and never written again but by `reset`, which puts the reader's own aside first. `measure` reads it anew,
checks that it still delivers the same elements, and measures it in turn with what it was before. The figures, and a
copy of each version that was measured, are kept beside the predictions. Without a reader (``LABKIT_FAST``, or
``LABKIT_UNATTENDED``, as where notebooks are built), each notebook finds the file that it expects, in a folder of its
own, and measures it with its step made.
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import replace
from html import escape
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from labcourse import predictions
from labcourse.grading import FAILED, CheckResult, Wrong
from labcourse.pipeline_file import NAME, compare, load
from labkit.common.environment import cores
from labkit.common.files import utf8_text, write_aside
from labkit.common.numbers import one_of
from labkit.common.progress import fast
from labkit.recording import accelerators, measures
from labkit.recording.recorder import RecordingError
from labkit.sources import photos
from labkit.timeline.timeline import Timeline
from labkit.views import charts


class PipelineStep(NamedTuple):
    """What a notebook adds to the file.

    Parameters
    ----------
    name, task : str
        What its bar is called; what to change, not how.
    edits : list of (str, str)
        The lines that are written in place of what, as one right answer.
    """

    name: str
    task: str
    edits: list[tuple[str, str]]


def _steps() -> tuple[str, dict[str, PipelineStep]]:
    """Return the first version of the file, and the step of each notebook by its number."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    _, _, first, *parts = re.split(r"(?m)^## (.*)\n", text)
    steps = {}
    for (number, _, name), body in zip((head.partition(" ") for head in parts[::2]), parts[1::2], strict=True):
        edits = re.findall(r"<<<\n(.*?)===\n(.*?)>>>\n", body, re.DOTALL)
        steps[number] = PipelineStep(name, body.partition("\n")[0], edits)
    return first, steps


FIRST, STEPS = _steps()

#: The accelerators of the ladder, each faster than the one before it.
CONSUMERS = ("V100", "A100", "H100")

#: Where an accelerator was busy for so much of the time, no step gains much: the verdict is that of the first one that
#: no earlier step kept so busy.
_ENOUGH = 0.9

#: Photos that are measured: two batches.
_PHOTOS = 64


def before(number: str) -> str:
    """Return the file as a notebook expects it."""
    return functools.reduce(after, _earlier(number), FIRST)


def after(text: str, number: str) -> str:
    """Return a file with the step of a notebook made."""
    return functools.reduce(lambda made, edit: made.replace(*edit), STEPS[number].edits, text)


def path() -> Path:
    """Return where the file is: beside the notebooks, or with the predictions where that folder cannot be written."""
    here = Path.cwd()
    return (kept() if _unattended() or not os.access(here, os.W_OK) else here) / NAME


class Page:
    """Sentences and a file, as text and as HTML."""

    def __init__(self, *sentences: str, code: str = "") -> None:
        self.sentences, self.code = [s for s in sentences if s], code

    def __repr__(self) -> str:
        """Return sentences and file as text."""
        return "\n".join([*self.sentences, *([""] * bool(self.code)), self.code]).rstrip()

    def _repr_html_(self) -> str:
        file = f'<pre tabindex="0" style="white-space:pre;overflow-x:auto">{escape(self.code)}</pre>'
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences) + file * bool(self.code)


def ladder(number: str) -> Any:
    """Draw what each step gained so far, and as a dotted bar what the reader predicts for this notebook.

    Parameters
    ----------
    number : str
        Of the notebook, as in ``"04"``.

    Returns
    -------
    Picture or Page
        The share of the time for which each accelerator is busy; a sentence where there is nothing to draw yet.
    """
    one_of("the notebook", number, STEPS)
    return _drawn(number)


def step(number: str) -> Page:
    """Show the reader's file, and say what to change in it now; the file is made where it is missing.

    Parameters
    ----------
    number : str
        Of the notebook.
    """
    one_of("the notebook", number, STEPS)
    try:
        place = _file(number)
        text = utf8_text(place)
    except (OSError, ValueError) as error:
        return Page(f"{NAME} cannot be read or written: {error}")
    own = text != before(number)
    behind = f'If your file is not where this notebook begins: my_pipeline.reset("{number}") puts yours aside.' * own
    made = "Where nobody answers, what is measured below is the file with this change." * _unattended()
    return Page(f"{_shown(place)}: {STEPS[number].task}", behind, made, code=text)


def measure(number: str) -> Any:
    """Measure the reader's file in turn with what it was before, keep the figures, and draw the ladder.

    Parameters
    ----------
    number : str
        Of the notebook.

    Returns
    -------
    Picture, Page or CheckResult
        The ladder; a sentence if nothing was changed, or if the file is not right. Then nothing is kept.
    """
    one_of("the notebook", number, STEPS)
    try:
        place = _file(number)
        if _unattended():
            place = write_aside(kept() / f"{number} now.py", after(before(number), number))
        former, text = _former(number), utf8_text(place)
        if text == utf8_text(former) and _earlier(number):
            return Page(f"{_shown(place)} is unchanged. {STEPS[number].task}", "Save it, and run this cell again.")
        later = [one for one in STEPS if one > number and (kept() / f"{one}.py").exists()]
        if later and text == utf8_text(kept() / f"{later[-1]}.py"):
            return Page(f'{NAME} is as notebook {later[-1]} measured it; my_pipeline.reset("{number}") goes back.')
        found = _measured(place, former, number)
    except (Wrong, RecordingError, OSError, ValueError) as wrong:
        return CheckResult(f"my pipeline {number}", FAILED, " ".join(str(wrong).split()))
    write_aside(kept() / f"{number}.py", text)
    write_aside(kept() / "ladder.json", json.dumps({**figures(), **found}, indent=1))
    return _drawn(number)


def reset(number: str) -> Page:
    """Write the file as a notebook expects it; the reader's own is renamed first, ``my_pipeline_1.py`` and so on.

    Parameters
    ----------
    number : str
        Of the notebook.
    """
    one_of("the notebook", number, STEPS)
    place, aside = path(), ""
    if place.exists() and place.read_bytes() != before(number).encode():
        free = next(p for n in count(1) if not (p := place.with_name(f"my_pipeline_{n}.py")).exists())
        aside = f"Yours is now {place.rename(free).name}."
    write_aside(place, before(number))
    for one in _earlier(number)[-1:]:
        write_aside(kept() / f"{one}.py", before(number))
    return Page(f"{_shown(place)} is as notebook {number} expects it. {aside}".strip())


# -- files ----------------------------------------------------------------------------------


def _unattended() -> bool:
    """Tell whether nobody looks: where notebooks are built; in a trial run unless a reader's file is there."""
    return os.environ.get("LABKIT_UNATTENDED", "") not in ("", "0") or (fast() and not (Path.cwd() / NAME).exists())


def kept() -> Path:
    """Return the folder of the figures, and of a copy of each version that was measured."""
    return photos.home() / ("my pipeline, unattended" if _unattended() else "my pipeline")


def _file(number: str) -> Path:
    """Return the file, made where it is missing; without a reader, as the notebook expects it."""
    place = path()
    if _unattended() or not place.exists():
        write_aside(place, before(number))
    return place


def _shown(place: Path) -> str:
    """Return what a reader calls the file: a stored notebook names no folder of the machine that built it."""
    beside = "beside this notebook" if place.parent == Path.cwd() else str(place.parent)
    return NAME if _unattended() else f"{NAME} ({beside})"


def _earlier(number: str) -> list[str]:
    return [one for one in STEPS if one < number]


def _former(number: str) -> Path:
    """Return a copy of the file as it was last measured in an earlier notebook, or as this one expects it."""
    copies = [p for one in _earlier(number) if (p := kept() / f"{one}.py").exists() and not _unattended()]
    return copies[-1] if copies else write_aside(kept() / f"before {number}.py", before(number))


def figures() -> dict[str, Any]:
    """Return what was measured, by notebook: ``busy`` of each accelerator, and what is ``said`` of the change."""
    try:
        found = json.loads((kept() / "ladder.json").read_text(encoding="utf-8"))
        return {one: found[one] for one in STEPS if one in found and set(found[one]["busy"]) == set(CONSUMERS)}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


# -- figures -----------------------------------------------------------------------------------


def _measured(place: Path, former: Path, number: str) -> dict[str, Any]:
    """Return the figures of the file and, out of the same rounds, those of its former state, by notebook."""
    album, mine, was = photos.load().take(_PHOTOS), load(place), load(former)
    compare(mine, was, album)
    states = {one: was for one in _earlier(number)[-1:]} | {number: mine}
    built = {f"my pipeline {one}": build(album.files()) for one, build in states.items()}
    how = {"steps": 4, "warmup": len(album) // 32 + 1}  # a cache is full after the warm-up
    known, earlier = figures(), _earlier(number)
    most = {name: max((known[one]["busy"][name] for one in earlier if one in known), default=0) for name in CONSUMERS}
    order = sorted(CONSUMERS, key=lambda name: most[name] >= _ENOUGH)
    first, *others = (accelerators.modelled(name) for name in order)
    found = measures.measure(built, first, repeats=5, limit=5, **how)
    beside = [measures.measure(built, other, repeats=3, **how) for other in others]
    new = {}
    for one, name in zip(states, built, strict=True):
        busy = [Timeline(each.trace(name)).busy for each in (found, *beside)]
        new[one] = {"busy": dict(zip(order, busy, strict=True)), "said": known.get(one, {"said": ""})["said"]}
    if len(built) > 1:
        alike = replace(found, works={})  # the elements were compared: the same photos may come from another file
        new[number]["said"] = f"{number}: {alike.speedup(name)} on a modelled {order[0]}, over the step before."
    return new


def _drawn(number: str) -> Any:
    known, predicted = figures(), f"{number} {STEPS[number].name}, your prediction"
    bars = {f"{one} {STEPS[one].name}": found["busy"] for one, found in known.items()}
    if number not in known and (guess := foreseen(number, known)):
        bars[predicted] = guess
    if not bars:
        return Page(f'Your ladder has no bar yet: my_pipeline.measure("{next(iter(STEPS))}") puts the first one on it.')
    drawn = {f"{c}: busy, %": {name: round(100 * busy[c]) for name, busy in bars.items()} for c in CONSUMERS}
    title, note = "My pipeline: your ladder", known.get(number, {}).get("said", "")
    return charts.panels(drawn, title=title, note=note, alike=True, predicted=[predicted])


def foreseen(number: str, known: dict[str, Any]) -> dict[str, float]:
    """Return how busy each accelerator would be as the reader predicts it in this notebook; nothing without that."""
    last = [found["busy"] for one, found in known.items() if one < number]
    made = [p for p in predictions.summary().predictions if p.name.startswith(f"{number}.") and p.value is not None]
    for p in made if last and number != "03" else ():  # there it is of files far away, and not of the reader's
        # Of a curve, the point that this machine can reach.
        values = [q.value for q, at in zip(p.points, getattr(p, "at", (0,)), strict=False) if at <= cores()]
        if values and p.unit in ("times", "share"):
            gain = values[-1] / (1 if p.unit == "times" else last[-1][CONSUMERS[0]] or 1)
            return {name: min(1.0, busy * gain) for name, busy in last[-1].items()}
    return {}
