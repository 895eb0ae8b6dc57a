"""Colours and words of a scene."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from labkit.common.palette import LEGEND, THEMES, text_on
from labkit.timeline.describe import milliseconds
from labkit.timeline.lanes import WORK, Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES

#: What the view says of a category: the words of the legend, and two that pictures leave out.
LABELS = {**{c: words for c, (words, _) in LEGEND.items()}, "iterator": "tf.data node", "wait": "wait for a batch"}


def colours(name: str) -> dict[str, Any]:
    """Return a theme with one fill per category, and the ink that can be read on it."""
    look = asdict(THEMES[name])
    fill = look.pop("fill")
    colours = [fill.get(c, look["node"] if c == "iterator" else fill["other"]) for c in CATEGORIES]
    return {**look, "fill": colours, "on": [text_on(colour) for colour in colours]}


def note(lane: Lane) -> str:
    """Return what a lane worked on most."""
    work = sorted(((ns, c) for c, ns in lane.by_category.items() if c in WORK), reverse=True)[:4]
    return ", ".join(f"{LABELS[c]} {milliseconds(ns)} ms" for ns, c in work)


def alt(title: str, runs: list[dict[str, Any]]) -> str:
    """Return title, provenance and figures of all runs, for those who cannot see the canvas."""
    parts = [f"{title}: interactive timeline{'s on one time axis' * (len(runs) > 1)}."]
    for run in runs:
        label = f"{run['label']}: " if run["label"] else ""
        count = sum(lane["shown"] for lane in run["lanes"])
        parts.append(
            f"{label}{run['headline']}; {count} lanes over {milliseconds(run['span_ns'])} ms; {run['figures']}."
        )
    return " ".join(parts)


def parts(parts_ns: dict[str, int]) -> str:
    """Return what a gap was made of, longest first: "prep 3.10 ms, fetch 1.20 ms"."""
    longest = sorted(((ns, cause) for cause, ns in parts_ns.items() if ns), key=lambda part: -part[0])
    return ", ".join(f"{cause} {milliseconds(ns)} ms" for ns, cause in longest)


def about(timeline: Timeline) -> dict[str, str]:
    """Return what `labkit.perfetto` says about a run."""
    stated = timeline.run.accelerator
    return {
        "labkit-origin": timeline.origin,
        "labkit-accelerator": stated.describe or stated.name or "not stated",
        "labkit-name": timeline.run.name or "",
    }
