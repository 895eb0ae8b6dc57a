"""Readings: recordings that ship with the lab, without titles and causes, and a question that they answer.

    read("02.1")                      # the recordings A, B and C
    check("02.1", {"A": "nothing", "B": "nothing", "C": "nothing"})

An answer is written in a cell, or given by clicks in the picture. `labcourse.check` computes the right one from the
recordings (`labcourse.readings.answers`); what it says about a wrong one stands in ``readings.json``, by the idea that
is behind it. ``data/make_recordings.py`` makes the recordings.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labcourse import grading
from labcourse.grading import Missing, Proof, Wrong
from labcourse.readings import pairs_and_photos
from labcourse.readings.answers import IDEAS, RULES
from labcourse.readings.recording_views import AskedPart, QuietTimeline, ReadingPage, ShownRecording
from labkit.common import shipped
from labkit.common.numbers import one_of
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views.static import Arrow

_STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("readings.json").read_text(encoding="utf-8"))

#: The numbers of all readings.
READINGS = tuple(_STORED)


@functools.cache
def recordings(number: str) -> dict[str, Any]:
    """Return what a reading shows: timelines with their causes, pairs of pipelines, or rows of photos, by name."""
    folder = shipped.folder("data/recordings")
    found = {p.name.split(".")[2]: Timeline(Trace.load(p)) for p in sorted(folder.glob(f"{number}.*.json.gz"))}
    return found | pairs_and_photos.found(folder, number)


def parts(number: str) -> list[AskedPart]:
    """Return what a reading asks, in the order in which it is shown."""
    stored = _STORED[number]
    if "each" in stored:
        return [AskedPart(letter, stored["each"], letter) for letter in recordings(number)]
    return [AskedPart(name, **one) for name, one in stored["parts"].items()]


def read(number: str) -> ReadingPage:
    """Show the recordings of a reading, and what it asks.

    Parameters
    ----------
    number : str
        As in ``"02.1"``; the number of the exercise that `labcourse.check` checks.

    Returns
    -------
    labcourse.readings.recording_views.ReadingPage
        The last expression of a cell shows it. A click in it answers; `labcourse.check` then needs no answer.

    Raises
    ------
    ValueError
        If there is no such reading; the sentence names those there are.
    """
    stored = _STORED[one_of("reading", number, READINGS)]
    titles = {name: name + stored.get("facts", {}).get(name, "") for name in recordings(number)}
    words, drawn = f"{number} {stored['question']}", _drawn(number, titles, quiet=True)
    return ReadingPage(words, drawn, parts(number), number, _answered)


def _drawn(
    number: str, titles: Mapping[str, str], arrows: Mapping[str, Any] | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Return what is shown under each of some titles, by the name of the last recording in it.

    Pairs and rows are in one picture with all others of their kind, where those that have a title bear it.
    """
    stored, shows, found, arrows = _STORED[number], recordings(number), {}, arrows or {}
    span_ns = max([one.span_ns for one in shows.values() if isinstance(one, Timeline)], default=1)
    for name, title in titles.items():
        if isinstance(timeline := shows[name], Timeline):
            shown = QuietTimeline(timeline.trace) if quiet else timeline
            found[name] = ShownRecording(shown, title, stored["mode"], name, arrows.get(name), span_ns)
    others = {name: one for name, one in shows.items() if not isinstance(one, Timeline)}
    if marked := {name: title for name, title in titles.items() if name in others}:
        found[list(others)[-1]] = pairs_and_photos.picture(others, marked, stored["title"])
    return found


def _answered(click: Mapping[str, Any]) -> None:
    """Keep an answer that was given by a click: ``number``, ``part`` and ``value``."""
    number, name, value = (click.get(key) for key in ("number", "part", "value"))
    if number in READINGS and any(part.name == name and value in part.choices for part in parts(number)):
        grading.CLICKED[number] = {**grading.CLICKED.get(number, {}), name: value} if name else value


def judge(number: str, answer: Any) -> Proof:
    """Check an answer; return what shows that it is right.

    Raises
    ------
    labcourse.grading.Wrong
        With the idea behind the first part that is wrong, and the picture that speaks against it.
    """
    asked = parts(number)
    given = _given(asked, answer)
    titles, arrows, told = {}, {}, {}
    for part in asked:
        name, mine = part.name, given[part.name]
        truth, words, where, arrow = feedback(number, part, mine)
        if mine != truth:
            title = f'{where}: you say "{mine}"' if where == part.below else where
            drawn = _drawn(number, {where: title}, {where: arrow}, quiet=True)
            raise Wrong(f"{name}: {words}" if name else words, ReadingPage("", drawn))
        told.setdefault((truth, words), []).append(name)
        said = "" if truth == where else truth if name == where else f"{name} {truth}"
        titles[where] = " · ".join(filter(None, (titles.get(where, where), said)))
        arrows[where] = arrow or arrows.get(where)
    words = (f"{', '.join(names)} ({truth}): {why}" if all(names) else why for (truth, why), names in told.items())
    return Proof(". ".join(words), ReadingPage("", _drawn(number, titles, arrows)))


def feedback(number: str, part: AskedPart, answer: Any) -> tuple[Any, str, str, Arrow | None]:
    """Return what is said of the answer to one part of a reading; `answer` is one of the choices of the part.

    Returns
    -------
    tuple
        The right answer; why it is right, or the hint that fits to the wrong one; the recording that speaks for or
        against it; the arrow to the evidence in it, if there is one.
    """
    stored, truth = _STORED[number], _right(number)[part.name]
    where, arrow = _pointed(number, part, answer)
    if answer != truth:
        return truth, stored["wrong"][_idea(number, part.name, truth, answer)], where, arrow
    words = stored["right"].get(truth) or stored["right"][part.name]
    return truth, words.format(right=truth), where, arrow


@functools.cache
def _right(number: str) -> dict[str, Any]:
    return RULES[number](recordings(number))


def _pointed(number: str, part: AskedPart, given: Any) -> tuple[str, Arrow | None]:
    """Return the recording that speaks for or against an answer, and the arrow in it, if there is one.

    It leads from the longest gap, or from the one that is the answer, to what that waited for; for a lane, to the last
    span there that began before the gap ended.
    """
    shows = recordings(number)
    where = given if given in shows else part.below
    if not isinstance(timeline := shows[where], Timeline) or not len(gaps := timeline.gaps):
        return where, None
    gap = gaps.step.tolist().index(given) if part.click == "step" else int(gaps.length_ns.argmax())
    if part.click != "lane":
        return where, Arrow(gap, *timeline.causes[gap][2:5])
    k = [lane.name for lane in timeline.lanes].index(given)
    lane = timeline.lanes[k]
    at = int(np.searchsorted(lane.start_ns, gaps.end_ns[gap])) - 1
    return where, Arrow(gap, k, lane.start_ns[at], lane.end_ns[at])


def _idea(number: str, part: str, truth: Any, given: Any) -> str:
    """Return the word for the idea behind a wrong answer: by its rule, or by the first difference of the two."""
    if number in IDEAS:
        return IDEAS[number](recordings(number), part, given)
    if part in _STORED[number]["wrong"]:
        return part
    pairs = (pair for pair in zip(truth.split(", "), given.split(", "), strict=True) if pair[0] != pair[1])
    idea = "{}: {}".format(*next(pairs))
    return idea if idea in _STORED[number]["wrong"] else given


def _given(asked: list[AskedPart], answer: Any) -> dict[str, Any]:
    """Return an answer by part; raise `Wrong` for another form, `Missing` where only a part of it is answered."""
    names = [part.name for part in asked]
    found = {"": answer} if names == [""] else answer
    if not isinstance(found, Mapping) or not set(found) <= set(names):
        raise Wrong(f"write a dictionary with an answer for each of {', '.join(names)}")
    open_yet = [name for name in names if (mine := found.get(name)) is None or mine is ...]
    if open_yet:
        raise NotImplementedError if open_yet == names else Missing(f"no answer yet: {', '.join(open_yet)}")
    for name, choices, *_ in asked:
        if (mine := found[name]) not in choices:
            raise Wrong(f"{name or 'your answer'} is {mine!r:.40}; allowed: {', '.join(map(repr, choices))}")
    return dict(found)


for _number in READINGS:
    grading.exercise(_number)(functools.partial(judge, _number))
