"""What is drawn of one or two timelines: runs, lanes, gaps, legend, words and colours, computed once for both pens.

The static picture (`labkit.views.static`) draws a layout with matplotlib. The interactive view draws the same layout on
a canvas; it reads it as one block of bytes (`labkit.views.layout.block`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from labkit.common.palette import THEMES
from labkit.timeline.causes import CAUSES
from labkit.timeline.describe import provenance
from labkit.timeline.lanes import Lane, lane_of
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import Trace
from labkit.timeline.wording import percent, short_op
from labkit.views.bars_for_width import most_at_once
from labkit.views.layout import texts
from labkit.views.layout.block import VERSION, Block
from labkit.views.layout.lane_choice import APART, blamed_lane, cores_line, on_device, workers_of
from labkit.views.layout.lane_positions import OVERVIEW, overlaid, stacked

__all__ = ["OVERVIEW", "SENTENCES", "VERSION", "TimelineLayout"]

#: Gaps of a run that carry a sentence of their own, the longest ones; the others carry cause and length.
SENTENCES = 2000

#: What readers know the reads of a modelled storage by.
_STORAGE = "modelled storage"


class TimelineLayout:
    """One or two timelines, ready to be drawn.

    Parameters
    ----------
    timelines : Timeline or Trace, or two of them
    labels : sequence of str
        One for each timeline.
    title : str, optional
        The name of the run by default, or both labels.

    Attributes
    ----------
    timelines : list of Timeline
    title : str
    runs : list of dict
        For each timeline what is written about it (``label``, ``headline``, ``figures``) and about its lanes. The first
        lanes are those of the timeline, in their order.
    alt : str
        The numbers in one or two sentences.

    Raises
    ------
    ValueError
        If labels and timelines are not equally many.
    TypeError
        If something is neither a Trace nor a Timeline.
    """

    def __init__(
        self, timelines: Iterable[Timeline | Trace], labels: Iterable[str] = ("",), title: str | None = None
    ) -> None:
        given, labels = list(timelines), [labels] if isinstance(labels, str) else [str(label) for label in labels]
        if len(given) != len(labels) or len(given) not in (1, 2):
            raise ValueError(f"labels are {labels!r}; allowed: one text for each of the {len(given)} timelines")
        self.timelines = [timeline_of(each, "shown") for each in given]
        name = self.timelines[0].run.name
        self.title = str(title or (" and ".join(labels) if len(labels) == 2 else name or "Timeline"))
        self.lanes = [[*timeline.lanes, *_not_shown(timeline)] for timeline in self.timelines]
        self.runs = [_run(*each) for each in zip(self.timelines, labels, self.lanes, strict=True)]
        self.alt = texts.alt(self.title, self.runs)

    def __repr__(self) -> str:
        """Return title, runs and spans on one line."""
        spans = sum(len(lane) for lanes in self.lanes for lane in lanes)
        return f"TimelineLayout({self.title!r}, {len(self.timelines)} runs, {spans:,} spans)"

    @cached_property
    def block(self) -> Block:
        """The spans as columns, and the rows of every lane that name them."""
        return Block(self.timelines, self.lanes, [run["label"] for run in self.runs])

    @cached_property
    def header(self) -> dict[str, Any]:
        """All of the layout except its columns, JSON-ready; `labkit/views/timeline.js` reads it."""
        runs: list[dict[str, Any]] = []
        for i, (run, timeline, more) in enumerate(zip(self.runs, self.timelines, self.block.runs, strict=True)):
            lanes = [each | rows for each, rows in zip(run["lanes"], more["lanes"], strict=True)]
            gaps = _sentences(timeline)
            tables = texts.tables(i, run, timeline, gaps["texts"])
            band = _band(timeline)
            runs.append(run | more | {"lanes": lanes, "gaps": gaps, "tables": tables, "band": band})
        return {
            "version": VERSION,
            "title": self.title,
            "alt": self.alt,
            "span_ns": max(timeline.span_ns for timeline in self.timelines),
            "categories": texts.categories(self.timelines),
            "legend": texts.entries(self.timelines, runs, self.lanes),
            "hint": texts.hint(self.timelines, any(map(len, itertools.chain(*self.lanes)))),
            "themes": {name: texts.colours(name) for name in THEMES},
            "runs": runs,
            "layouts": {
                "stacked": stacked(runs),
                "overlaid": overlaid(runs),
                "stacked lanes": stacked(runs, apart=True),
                "overlaid lanes": overlaid(runs, apart=True),
            },
        }

    def encode(self) -> bytes:
        """Return the block of bytes that the JavaScript reads."""
        return self.block.encode(self.header)


def _run(timeline: Timeline, label: str, lanes: list[Lane]) -> dict[str, Any]:
    """Return what is written about a run and its lanes."""
    count, device = len(timeline.lanes), on_device(timeline)
    storage = {k: name for k, name in enumerate(timeline.names) if short_op(name) == _STORAGE}
    headline, figures = provenance(timeline.run), texts.figures_and_blame(timeline)
    return {
        "label": label,
        "head": " · ".join(filter(None, (label, headline, figures))),
        "name": str(timeline.run.name or ""),
        "origin": timeline.origin,
        "headline": headline,
        "figures": figures,
        "span_ns": timeline.span_ns,
        "start_ns": str(timeline.start_ns),
        "images": timeline.images,
        "threads": [list(thread) for thread in timeline.trace.threads],
        "names": [_STORAGE if k in storage else name for k, name in enumerate(timeline.names)],
        "ops": storage,  # as the files have them that are downloaded
        "lanes": [
            {
                "name": " ".join(lane.name.split()), "kind": lane.kind, "spans": f"{len(lane):,}",
                "busy": percent(lane.share), "note": texts.note(lane), "shown": k < count,
                # Where train steps are the accelerator, a lane of waits would repeat its gaps; a table names it.
                "drawn": k < count and (lane.kind != "wait" or device),
                # Kernels are shown twice, on their stream and on the accelerator; they are exported once.
                "export": lane is not timeline.accelerator or not device,
            }
            for k, lane in enumerate(lanes)
        ],
    }  # fmt: skip


def _band(timeline: Timeline) -> dict[str, Any] | None:
    """Return the band of the workers: its lanes, words and the most threads that work at once; None where few work.

    The words name both numbers, since the widget has no axis for them; the picture has one.
    """
    blamed, lanes = blamed_lane(timeline), timeline.lanes
    workers = workers_of(timeline)
    if len(workers) <= APART:
        return None
    band = [lanes[k] for k in workers]
    most = most_at_once(band, 0, timeline.span_ns)
    hidden = [k for k, lane in enumerate(lanes) if lane.kind == "pipeline" and k != blamed]
    busy, cores = f"{texts.at_work(band)} of {most}", cores_line(timeline, most)
    return {"lanes": workers, "hidden": hidden, "most": most, "busy": busy, "cores": cores}


def _not_shown(timeline: Timeline) -> list[Lane]:
    """Return the lane of the train steps where kernels are the accelerator: it is not shown, but downloaded."""
    rows = np.flatnonzero(timeline.trace.select("train", kind="consumer"))
    if not on_device(timeline) or not len(rows):
        return []
    return [lane_of(timeline.trace, "train steps", "host", rows, timeline.start_ns, timeline.span_ns)]


def _sentences(timeline: Timeline) -> dict[str, Any]:
    """Return the words for a kind of gap, and for the longest gaps a sentence and the parts that they are made of."""
    causes = timeline.causes
    longest = np.sort(np.argsort(-timeline.gaps.length_ns, kind="stable")[:SENTENCES]).tolist()
    chosen = {k: causes[k] for k in longest}
    parts = {k: found for k, cause in chosen.items() if (found := texts.parts(cause.parts))}
    return {"kinds": list(CAUSES), "texts": {k: cause.text for k, cause in chosen.items()}, "parts": parts}
