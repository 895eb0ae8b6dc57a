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
from labkit.timeline.causes import per_gap
from labkit.timeline.describe import provenance
from labkit.timeline.heading import heading
from labkit.timeline.lanes import Lane, lane_of
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import CATEGORIES, Trace
from labkit.timeline.wording import MODELLED, percent, short_op
from labkit.views.layout import texts
from labkit.views.layout.band import CORE_WAIT, LAYERS, Band, Kinds
from labkit.views.layout.block import VERSION, Block
from labkit.views.layout.rows import MODES, mode_of, on_device, rows_of

__all__ = ["LAYERS", "SENTENCES", "VERSION", "TimelineLayout"]

#: Gaps of a run that carry a sentence of their own, the longest ones; the others carry cause and length.
SENTENCES = 2000


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
        For each timeline what is written about it (``label``, ``heading``, ``headline``, ``figures``) and about its
        lanes. The first lanes are those of the timeline, in their order.
    kinds : Kinds
        How spans are drawn.
    bands : list of Band
        The threads of each timeline.
    alt : str
        The numbers in one or two sentences.
    span_ns : int
        How long the axis is: as the longest of its runs. Pictures that are compared are given the longest of all.

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
        self.kinds = Kinds(self.timelines, self.lanes)
        shares = [[self.kinds.own_shares(r, lane) for lane in lanes] for r, lanes in enumerate(self.lanes)]
        self.runs = [_run(*each) for each in zip(self.timelines, labels, self.lanes, shares, strict=True)]
        self.bands = [Band(self.kinds, r, timeline) for r, timeline in enumerate(self.timelines)]
        self.alt = texts.alt(self.title, self.runs)
        self.span_ns = max(timeline.span_ns for timeline in self.timelines)

    @cached_property
    def block(self) -> Block:
        """The spans as columns, and the rows of every lane that name them."""
        return Block(self.timelines, self.lanes, [run["label"] for run in self.runs], self.kinds)

    @cached_property
    def drawn(self) -> list[dict[str, Any]]:
        """The runs with the heights of their lanes and with their bands, as `labkit.views.layout.rows` takes them."""
        # Both have a band where one has threads, and one scale.
        most = max((band.most for band in self.bands if band.lanes), default=0)
        found = []
        for run, more, band in zip(self.runs, self.block.runs, self.bands, strict=True):
            lanes = [each | rows for each, rows in zip(run["lanes"], more["lanes"], strict=True)]
            about = {"lanes": band.lanes, "most": most, "cores": band.cores, "busy": f"{band.busy:.1f}"}
            found.append(run | more | {"lanes": lanes, "band": about if most else None})
        return found

    def rows(self, mode: str = "band") -> dict[str, Any]:
        """Return the rows of a picture; see `labkit.views.layout.rows`."""
        return rows_of(self.drawn, mode)

    @cached_property
    def header(self) -> dict[str, Any]:
        """All of the layout except its columns, JSON-ready; `labkit/views/timeline.js` reads it."""
        runs: list[dict[str, Any]] = []
        for i, (run, timeline) in enumerate(zip(self.drawn, self.timelines, strict=True)):
            gaps = _sentences(timeline)
            runs.append(run | {"gaps": gaps, "tables": texts.tables(i, run, timeline, gaps["texts"])})
        return {
            "version": VERSION,
            "title": self.title,
            "alt": self.alt,
            "span_ns": self.span_ns,
            "categories": [{"key": c, "label": texts.LABELS.get(c, c)} for c in CATEGORIES],
            **texts.units(self.timelines),
            "layers": texts.layers(self.timelines),
            "core_wait": CORE_WAIT,
            "kinds": [kind._asdict() for kind in self.kinds.table],
            "hint": texts.hint(self.timelines, any(map(len, itertools.chain(*self.lanes)))),
            "themes": {name: texts.colours(name) for name in THEMES},
            "runs": runs,
            "layouts": {mode: self.rows(mode) for mode in MODES},
        }

    def encode(self) -> bytes:
        """Return the block of bytes that the JavaScript reads."""
        return self.block.encode(self.header)


def _run(timeline: Timeline, label: str, lanes: list[Lane], shares: list[tuple[float, float]]) -> dict[str, Any]:
    """Return what is written about a run and its lanes."""
    count, device = len(timeline.lanes), on_device(timeline)
    storage = {k: name for k, name in enumerate(timeline.names) if short_op(name) == MODELLED}
    headline, figures, line = provenance(timeline.run), timeline.figures, heading(timeline)
    return {
        "label": label,
        "heading": line,
        "head": " · ".join(filter(None, (label, line))),
        "name": str(timeline.run.name or ""),
        "origin": timeline.origin,
        "headline": headline,
        "figures": figures,
        "span_ns": timeline.span_ns,
        "start_ns": str(timeline.start_ns),
        "images": timeline.images,
        "noun": timeline.run.noun,
        "unit": timeline.run.time_unit,
        "threads": [list(thread) for thread in timeline.trace.threads],
        "names": [MODELLED if k in storage else name for k, name in enumerate(timeline.names)],
        "ops": storage,  # as the files have them that are downloaded
        "lanes": [
            {
                "name": " ".join(lane.name.split()), "kind": lane.kind, "spans": f"{len(lane):,}",
                "busy": percent(shares[k][1]), "shown": k < count,
                "note": texts.note(lane) if timeline.explain and not timeline.run.of_cycles else "",
                "mode": mode_of(timeline, k, lane, shares[k][0]) if k < count else "",
                # Kernels are shown twice, on their stream and on the accelerator; they are exported once.
                "export": lane is not timeline.accelerator or not device,
            }
            for k, lane in enumerate(lanes)
        ],
    }  # fmt: skip


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
    kinds = [per_gap.word(cause) for cause in per_gap.CAUSES]
    return {"kinds": kinds, "texts": {k: cause.text for k, cause in chosen.items()}, "parts": parts}
