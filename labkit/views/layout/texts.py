"""Colours and words of a layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from labkit.common.palette import LEGEND, THEMES, text_on, tint
from labkit.common.table import Html, Table
from labkit.timeline.causes import per_gap
from labkit.timeline.describe import longest_work
from labkit.timeline.lanes import Lane
from labkit.timeline.run import CYCLE_NS
from labkit.timeline.timeline import Timeline
from labkit.timeline.wording import duration
from labkit.views.layout.band import BLOCKED, IDLE, LAYERS, MOVES, OPEN, TAKEN

#: Gaps in the table of a run.
_ROWS = 200

#: The words for a category: those of the legend, and two that have no fill.
LABELS = {**LEGEND, "iterator": "node of the pipeline", "wait": "wait for a batch"}

#: The words of a circuit for looks.
_LOOKS = {
    TAKEN: "consumer takes a value", MOVES: "a value moves", BLOCKED: "blocked: valid, not ready",
    OPEN: "starved: not valid; or the consumer rests", IDLE: "consumer without a value",
}  # fmt: skip


def of_circuits(timelines: Iterable[Timeline]) -> bool:
    """Return whether the timelines are those of circuits."""
    return all(timeline.run.of_cycles for timeline in timelines)


def units(timelines: Iterable[Timeline]) -> dict[str, Any]:
    """Return what time and steps are counted in, and what is said of the lane on top without work."""
    words = (CYCLE_NS, "value", _LOOKS[IDLE]) if of_circuits(timelines) else (0, "step", "accelerator idle")
    return dict(zip(("cycle_ns", "counted", "idle"), words, strict=True))


def layers(timelines: Sequence[Timeline]) -> list[dict[str, str]]:
    """Return words and look of every layer, in the order of a legend; the line of the cores is the last one."""
    idle = f"accelerator idle{': how long, for what' * have_causes(timelines)}"
    node = f"{'a tf.data step is ' * all(timeline.run.loader is None for timeline in timelines)}open, others work"
    own = _LOOKS if of_circuits(timelines) else {OPEN: node, IDLE: idle}
    cores = sorted({timeline.run.host.cpus or 0 for timeline in timelines} - {0})
    line = "number of cores" + f": {' and '.join(map(str, cores))}" * bool(cores)
    # For whom causes are not told, what waits is called by the work of its colour.
    told = any(timeline.explain for timeline in timelines) or of_circuits(timelines)
    quiet = {kind: f"{word.partition(':')[0]}: waits" for kind, word in LEGEND.items()}
    words = [layer.label if told or layer.look != "hollow" else quiet.get(layer.color, "waits") for layer in LAYERS]
    looks = [{"label": own.get(k, words[k]), "look": layer.look} for k, layer in enumerate(LAYERS)]
    return [*looks, {"label": line, "look": "line"}]


def have_causes(timelines: Iterable[Timeline]) -> bool:
    """Return whether the timelines say of any gap what it waited for; those of a drill do not."""
    return any((timeline.causes.kind != per_gap.CAUSES.index("unknown")).any() for timeline in timelines)


def hint(timelines: Sequence[Timeline], spans: bool) -> str:
    """Return what is said while nothing is selected."""
    if not spans:
        return "No spans: nothing was recorded in the window."
    if not any(len(timeline.gaps) for timeline in timelines):
        return "No gap. Click a span for what it is."
    what = "its cause" if have_causes(timelines) else "how long it is"
    return f"Click a gap of the {timelines[0].accelerator.name.rpartition(' · ')[2]} for {what}."


def colours(name: str) -> dict[str, Any]:
    """Return a theme with one fill per layer, the ink that can be read on it, and the inside of what is hollow."""
    look = asdict(THEMES[name])
    fill = {**look.pop("fill"), "": look["node"]}
    colours = [look["gap"] if layer.look == "idle" else fill[layer.color] for layer in LAYERS]
    return {
        **look,
        "focus": fill["train"],
        "fill": colours,
        "on": [text_on(colour) for colour in colours],
        # What is blocked has a neighbour that is empty, in cells that are too narrow for words.
        "tint": [tint(colour, look["lane"], *[0.3] * (k == BLOCKED)) for k, colour in enumerate(colours)],
        "on_gap": text_on(look["gap"]),
    }


def note(lane: Lane) -> str:
    """Return what a lane worked on most."""
    return ", ".join(f"{LABELS[category]} {duration(ns)}" for category, ns in longest_work(lane))


def alt(title: str, runs: list[dict[str, Any]]) -> str:
    """Return title, provenance and figures of all runs, for those who cannot see the canvas."""
    sentences = [f"{title}: interactive timeline{'s on one time axis' * (len(runs) > 1)}."]
    for run in runs:
        label = f"{run['label']}: " if run["label"] else ""
        count = sum(lane["shown"] for lane in run["lanes"])
        length = duration(run["span_ns"], run["unit"])
        sentences.append(f"{label}{run['headline']}; {count} lanes over {length}; {run['figures']}.")
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
    above = f"{prefix}{longest}{count} of the {timeline.accelerator.name.rpartition(' · ')[2]}"
    unit = "cycles" if timeline.run.of_cycles else "ms"
    head = ("lane", "kind", "busy", "spans", "time by kind of work")
    one = Table(head, lanes, caption=f"{prefix}lanes", styled=False)
    other = Table(("gap", f"starts at, {unit}", f"lasts, {unit}", "step", last), rows, caption=above, styled=False)
    return one._repr_html_() + other._repr_html_()


def parts(parts_ns: dict[str, int]) -> str:
    """Return what a gap was made of, longest first: "prepare 3.10 ms, fetch 1.20 ms"; "" for one part only."""
    longest = sorted(((ns, cause) for cause, ns in parts_ns.items() if ns), key=lambda part: -part[0])
    return ", ".join(f"{per_gap.word(cause)} {duration(ns)}" for ns, cause in longest) if len(longest) > 1 else ""
