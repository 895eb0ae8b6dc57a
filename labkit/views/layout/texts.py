"""Colours and words of a layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from labkit.common.palette import LEGEND, THEMES, text_on
from labkit.common.table import Html, Table
from labkit.timeline.causes import CAUSES
from labkit.timeline.describe import longest_work
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import milliseconds

#: Gaps in the table of a run.
_ROWS = 200

#: The name of the band of all workers.
BAND = "threads at work"

#: The words for a category: those of the legend, and two that a static picture leaves out.
LABELS = {**{c: words for c, (words, _) in LEGEND.items()}, "iterator": "tf.data node", "wait": "wait for a batch"}


#: What is open without work: in tf.data, in another loader, and the words for both in one picture.
_OPEN = {
    (False,): ("tf.data node", "a tf.data step is open, but does no work of its own"),
    (True,): ("waits, or hands over", "waits, or hands a batch over"),
    (False, True): ("tf.data node, or waiting", "a tf.data step is open, or a loader waits"),
}


def _open(timelines: Iterable[Timeline]) -> tuple[str, str]:
    return _OPEN[tuple(sorted({timeline.run.loader is not None for timeline in timelines}))]


def labels(timelines: Iterable[Timeline]) -> dict[str, str]:
    """Return the words for categories: only tf.data has nodes, what another loader keeps open waits or hands over."""
    return LABELS | {"iterator": _open(timelines)[0]}


def of_node(timelines: Iterable[Timeline]) -> str:
    """Return the words of a picture for what is open, but does no work of its own."""
    return _open(timelines)[1]


def categories(timelines: Iterable[Timeline]) -> list[dict[str, str]]:
    """Return key, words and hatching of every category, in the order of `CATEGORIES`."""
    words = labels(timelines)
    return [{"key": c, "label": words.get(c, c), "hatch": LEGEND.get(c, ("", ""))[1]} for c in CATEGORIES]


def legend(lanes: Iterable[Lane]) -> list[int]:
    """Return the categories that occur in lanes, as indices into `CATEGORIES`, in the order of a legend."""
    found = {int(code) for lane in lanes for code in np.unique(lane.category)}
    return [code for code in map(CATEGORIES.index, LABELS) if code in found]


def entries(timelines: list[Timeline], runs: list[dict[str, Any]], lanes: list[list[Lane]]) -> list[dict[str, Any]]:
    """Return the entries of a legend: what is drawn, with its own time in each run, all threads together; gaps last.

    Each entry has its words (``label``), the ``times`` in nanoseconds, one for each run, and the index into
    `CATEGORIES` (``category``), which is None for the gaps and -1 for the line of the cores.
    """
    own, words = [_own_ns(timeline) for timeline in timelines], labels(timelines)
    all_lanes = zip(itertools.chain(*lanes), itertools.chain(*(run["lanes"] for run in runs)), strict=True)
    found = [
        {"category": code, "label": words[CATEGORIES[code]], "times": [each[CATEGORIES[code]] for each in own]}
        for code in legend(lane for lane, about in all_lanes if about["drawn"])
    ]
    if cores := cores_of(run["band"]["cores"] for run in runs if run["band"]):
        found.append({"category": -1, "label": cores, "times": []})
    if any(len(timeline.gaps) for timeline in timelines):
        times = [int(timeline.idle_ns) for timeline in timelines]
        label = f"accelerator idle{': click for the cause' * have_causes(timelines)}"
        found.append({"category": None, "label": label, "times": times})
    return found


def cores_of(numbers: Iterable[int]) -> str:
    """Return what the dashed lines in the bands of the workers stand for; "" where there is no line."""
    found = sorted(set(numbers) - {0})
    return f"number of cores: {' and '.join(map(str, found))}" if found else ""


def of_gap(timelines: Iterable[Timeline]) -> str:
    """Return the words of a picture for the idle times of the accelerator."""
    return f"accelerator idle: how long{', for what' * have_causes(timelines)}"


def have_causes(timelines: Iterable[Timeline]) -> bool:
    """Return whether the timelines say of any gap what it waited for; those of a drill do not."""
    return any((timeline.causes.kind != CAUSES.index("unknown")).any() for timeline in timelines)


def hint(timelines: Iterable[Timeline], spans: bool) -> str:
    """Return what is said while nothing is selected."""
    if not spans:
        return "No spans: nothing was recorded in the window."
    what = "its cause" if have_causes(timelines) else "how long it is"
    return f"Click a gap of the accelerator for {what}, or a span for its name. Press ? for keys."


def _own_ns(timeline: Timeline) -> dict[str, int]:
    """Return the time of each category; work on a stream is left out, since the accelerator's lane holds it, too."""
    own = dict.fromkeys(CATEGORIES, 0)
    for lane in timeline.lanes:
        if lane.kind != "stream":
            for category, ns in lane.by_category.items():
                own[category] += ns
    return own


def colours(name: str) -> dict[str, Any]:
    """Return a theme with one fill per category, and the ink that can be read on it."""
    look = asdict(THEMES[name])
    fill = look.pop("fill")
    colours = [fill.get(c, look["node"] if c == "iterator" else fill["other"]) for c in CATEGORIES]
    return {
        **look,
        "focus": fill["train"],
        "fill": colours,
        "on": [text_on(colour) for colour in colours],
        "on_gap": text_on(look["gap"]),
    }


def figures_and_blame(timeline: Timeline) -> str:
    """Return the figures of a run on one line, and what it waits for most."""
    stalls = timeline.stalls
    if not timeline.steps or not stalls.cause:
        return timeline.figures
    what = "the start of an epoch" if stalls.cause == "start" else stalls.blame or stalls.cause
    return f"{timeline.figures} · waits mostly for {what}{f', while {stalls.during}' if stalls.during else ''}"


def at_work(lanes: Iterable[Lane]) -> str:
    """Return how many threads of a band work, on average over the whole window."""
    return f"{sum(lane.share for lane in lanes):.1f}"


def note(lane: Lane) -> str:
    """Return what a lane worked on most."""
    return ", ".join(f"{LABELS[category]} {milliseconds(ns)} ms" for category, ns in longest_work(lane))


def alt(title: str, runs: list[dict[str, Any]]) -> str:
    """Return title, provenance and figures of all runs, for those who cannot see the canvas."""
    sentences = [f"{title}: interactive timeline{'s on one time axis' * (len(runs) > 1)}."]
    for run in runs:
        label = f"{run['label']}: " if run["label"] else ""
        count = sum(lane["shown"] for lane in run["lanes"])
        sentences.append(
            f"{label}{run['headline']}; {count} lanes over {milliseconds(run['span_ns'])} ms; {run['figures']}."
        )
    return " ".join(sentences)


def tables(number: int, run: dict[str, Any], timeline: Timeline, texts: dict[int, str]) -> str:
    """Return two tables in HTML: the lanes of a run by its number, and its longest gaps, with a button that shows each.

    `run` is what is written about the run, and `texts` holds the sentences of its longest gaps by their numbers.
    """
    gaps, last = timeline.gaps, "cause" if have_causes([timeline]) else "in words"
    keys = ("name", "kind", "busy", "spans", "note")
    lanes = [[lane[key] for key in keys] for lane in run["lanes"] if lane["shown"]]
    rows = []
    for k in np.sort(np.argsort(-gaps.length_ns, kind="stable")[:_ROWS]).tolist():
        start_ns, length_ns, step, _ = gaps[k]
        act = f"data-act='[\"selectGap\",{number},{k}]'"
        button = f'<button {act} aria-label="show gap {k + 1}">{k + 1}</button>'
        times = f"{start_ns / 1e6:.3f}", f"{length_ns / 1e6:.3f}", str(step) if step >= 0 else ""
        rows.append((Html(button), *times, texts[k]))
    longest = f"the {_ROWS} longest of " if len(gaps) > _ROWS else ""
    prefix, count = f"{run['label']}: " if run["label"] else "", f"{len(gaps):,} gap{'s' * (len(gaps) != 1)}"
    above = f"{prefix}{longest}{count} of the accelerator"
    both = (
        Table(("lane", "kind", "busy", "spans", "time by kind of work"), lanes, caption=f"{prefix}lanes", styled=False),
        Table(("gap", "starts at, ms", "lasts, ms", "step", last), rows, caption=above, styled=False),
    )
    return "".join(table._repr_html_() for table in both)


def parts(parts_ns: dict[str, int]) -> str:
    """Return what a gap was made of, longest first: "prep 3.10 ms, fetch 1.20 ms"; "" for one part only."""
    longest = sorted(((ns, cause) for cause, ns in parts_ns.items() if ns), key=lambda part: -part[0])
    return ", ".join(f"{cause} {milliseconds(ns)} ms" for ns, cause in longest) if len(longest) > 1 else ""
