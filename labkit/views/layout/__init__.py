"""What the interactive view draws: lanes, rows, gaps, steps and words of one or two timelines, as one block of bytes.

Lanes, rows, gaps and their causes are decided here; the page draws them, and looks up how much of a pixel is covered.
Spans are sorted into *series*: one category of one nesting depth of one lane, whose spans never overlap. A series is
therefore its own level of detail: with the sum of all lengths before each span, the time covered between any two
instants is two look-ups, at every zoom and without asking Python again.

The block is a header (JSON) and the columns it names, little endian, each at a multiple of 8 bytes::

    uint32 length of the header | uint32 version | header, padded with spaces | columns
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from labkit.common.palette import LEGEND, THEMES
from labkit.timeline import perfetto
from labkit.timeline.causes import CAUSES
from labkit.timeline.describe import figures, percent, provenance
from labkit.timeline.lanes import WORK, Lane, cut
from labkit.timeline.timeline import Timeline, timeline_of
from labkit.timeline.trace import CATEGORIES, Trace
from labkit.views.layout import words
from labkit.views.layout.places import OVERVIEW, overlaid, stacked, strip
from labkit.views.layout.threads import Threads

__all__ = ["OVERVIEW", "SENTENCES", "VERSION", "Scene", "Series"]

VERSION = 1

#: Gaps of a run that carry a sentence of their own, the longest ones; the others carry cause and length.
SENTENCES = 2000

#: Heights in CSS pixels: a row of work, one of nodes and waits, the accelerator's.
_ROW, _THIN, _TALL = 15, 4, 22

#: A lane is not higher than this; rows of deeper nesting become lower.
_HIGHEST = 120

#: A duration that does not fit into 32 bits stands in the column of long ones, in the order of the spans; and so does
#: a start that is not a short time after that of the span before it.
_LONG = 2**32 - 1

#: A row whose spans work for a smaller share of their time is as thin as one of nodes.
_OWN = 0.2

_QUIET = [CATEGORIES.index(category) for category in ("iterator", "wait")]


class Series(NamedTuple):
    """Spans of one category, thread and depth of a lane: `count` rows of the columns from `first` on.

    `steps` is the first row in the column of steps, or -1 where no span knows its step.
    """

    category: int
    thread: int
    first: int
    count: int
    steps: int


class Scene:
    """One or two timelines, ready to be drawn.

    Parameters
    ----------
    timelines : Timeline or Trace, or two of them
    labels : sequence of str
        One for each timeline.
    title : str, optional
        The name of the run by default.

    Attributes
    ----------
    header : dict
        JSON-ready; see `labkit/views/timeline.js`, which reads it.
    columns : dict of str to ndarray
        Of all spans, in the order of their series: ``since``, from the start of the one before to the start of this
        one (uint32, nanoseconds; ``far``, float64, for the others), ``duration`` (uint32; ``long``, float64),
        ``name`` (uint16 or uint32), ``step`` (int32, where known). For run ``i``: ``gap{i}``, ``edge{i}``, ``busy{i}``
        and others. Times count from the start of the window.
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
        given, labels = list(timelines), [str(label) for label in labels]
        if len(given) != len(labels) or len(given) not in (1, 2):
            raise ValueError(f"labels are {labels!r}; allowed: one text for each of the {len(given)} timelines")
        self.timelines = [timeline_of(each, "shown") for each in given]
        self.columns: dict[str, np.ndarray] = {}
        self._spans: list[tuple[np.ndarray, ...]] = []
        self._steps: list[np.ndarray] = []
        self._count = 0
        pairs = zip(self.timelines, labels, strict=True)
        runs = [self._run(i, timeline, label) for i, (timeline, label) in enumerate(pairs)]
        self._join()
        name = self.timelines[0].run.name
        self.title = title or (" and ".join(labels) if len(runs) == 2 else str(name or "Timeline"))
        self.alt = words.alt(self.title, runs)
        self.header: dict[str, Any] = {
            "version": VERSION,
            "title": self.title,
            "alt": self.alt,
            "span_ns": max(t.span_ns for t in self.timelines),
            "categories": [
                {"key": c, "label": words.LABELS.get(c, c), "hatch": LEGEND.get(c, ("", ""))[1], "work": c in WORK}
                for c in CATEGORIES
            ],
            "themes": {name: words.colours(name) for name in THEMES},
            "runs": runs,
            "layouts": {"stacked": stacked(runs), "overlaid": overlaid(runs)},
        }

    def __repr__(self) -> str:
        """Return title, runs and spans on one line."""
        return f"Scene({self.title!r}, {len(self.timelines)} runs, {self._count:,} spans)"

    def encode(self) -> bytes:
        """Return the block of bytes that the JavaScript reads."""
        offset, table = 0, {}
        for name, column in self.columns.items():
            table[name] = [column.dtype.name, offset, len(column)]
            offset += -(-column.nbytes // 8) * 8
        head = json.dumps({**self.header, "columns": table}, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
        block = bytearray(8 + len(head) + offset)
        block[:8] = np.array([len(head), VERSION], "<u4").tobytes()
        block[8 : 8 + len(head)] = head
        for name, column in self.columns.items():
            at = 8 + len(head) + table[name][1]
            block[at : at + column.nbytes] = _little(column).tobytes()
        return bytes(block)

    # -- one run --------------------------------------------------------------------------

    def _run(self, i: int, timeline: Timeline, label: str) -> dict[str, Any]:
        threads, names = Threads(timeline), timeline.names
        shown = [self._lane(lane, threads) for lane in timeline.lanes]
        shown += self._unseen(timeline)
        gaps = timeline.gaps
        self.columns |= {
            f"gap{i}": gaps.start_ns.astype(np.float64),
            f"gap_length{i}": gaps.length_ns.astype(np.float64),
            f"gap_step{i}": gaps.step.astype(np.int32),
            f"edge{i}": timeline.step_edges_ns.astype(np.float64),
            f"step_number{i}": timeline.step_numbers.astype(np.int32),
            f"busy{i}": strip([timeline.accelerator], timeline.span_ns),
            f"work{i}": strip([lane for lane in timeline.lanes if lane.kind == "pipeline"], timeline.span_ns),
        }
        own = dict.fromkeys(CATEGORIES, 0)
        for lane in timeline.lanes:
            if lane.kind != "stream":
                for category, ns in lane.by_category.items():
                    own[category] += ns
        return {
            "label": label,
            "name": str(timeline.run.name or ""),
            "origin": timeline.origin,
            "headline": provenance(timeline.run),
            "figures": figures(timeline),
            "span_ns": timeline.span_ns,
            "start_ns": str(timeline.start_ns),
            "images": timeline.images,
            "own_ns": list(own.values()),
            "idle_ns": timeline.idle_ns,
            "processes": perfetto.PROCESSES,
            "threads": threads.table,
            "names": list(names),
            "perfetto": words.about(timeline),
            "lanes": shown,
            "gaps": self._causes(i, timeline),
        }

    def _lane(self, lane: Lane, threads: Threads) -> dict[str, Any]:
        thread = threads.of(lane)
        kernels = lane.kind == "accelerator" and bool((lane.category == CATEGORIES.index("kernel")).any())
        accelerator = lane.kind == "accelerator"
        rows, y = [], 0
        groups = self._series(lane, thread)
        thick = [accelerator or works for works in _rows_that_work(lane)] or [True]
        tall = _TALL if accelerator else _ROW
        if tall * sum(thick) > _HIGHEST:
            tall = max(_HIGHEST // sum(thick), 5)
        for series, work in zip(groups or [[]], thick, strict=True):
            height = tall if work else _THIN
            rows.append({"y": y, "h": height, "series": [list(s) for s in series]})
            y += height + (0 if work or len(groups) == 1 else 1)
        if y < _ROW:  # a lane of nodes only is as high as its name
            rows[-1]["h"] += _ROW - y
            y = _ROW
        return {
            "name": " ".join(lane.name.split()), "kind": lane.kind, "spans": len(lane),
            "busy": percent(lane.share), "note": words.note(lane), "height": y, "rows": rows,
            # Kernels are seen twice, on their stream and on the accelerator; they are exported once.
            "export": not kernels, "shown": True,
        }  # fmt: skip

    def _series(self, lane: Lane, thread: np.ndarray) -> list[list[Series]]:
        """Append the spans of a lane to the columns, sorted by depth, category and start; return them per depth."""
        if not len(lane):
            return []
        order = np.lexsort((thread, lane.category, lane.depth))  # stable: by start within
        depth, category, thread = (a[order] for a in (lane.depth, lane.category, thread))
        new = (np.diff(depth) != 0) | (np.diff(category) != 0) | (np.diff(thread) != 0)
        edges = np.r_[0, np.flatnonzero(new) + 1, len(order)]
        rows: list[list[Series]] = [[] for _ in range(int(depth[-1]) + 1)]
        for a, b in itertools.pairwise(edges.tolist()):
            steps = self._steps_of(lane.step[order[a:b]])
            rows[depth[a]].append(Series(int(category[a]), int(thread[a]), self._count + a, b - a, steps))
        self._keep(lane.start_ns[order], (lane.end_ns - lane.start_ns)[order], lane.name_id[order])
        return [row for row in rows if row]

    def _steps_of(self, step: np.ndarray) -> int:
        """Append the steps of a series, unless none is known; return where they begin, or -1."""
        if step.max() < 0:
            return -1
        self._steps.append(step)
        return sum(map(len, self._steps)) - len(step)

    def _keep(self, *columns: np.ndarray) -> None:
        self._spans.append(columns)
        self._count += len(columns[0])

    def _unseen(self, timeline: Timeline) -> list[dict[str, Any]]:
        """Keep train steps for the downloads where kernels are the accelerator: no lane shows them."""
        trace = timeline.trace
        rows = np.flatnonzero(trace.select("train", kind="consumer"))
        if not (timeline.accelerator.category == CATEGORIES.index("kernel")).any() or not len(rows):
            return []
        start, end, rows = cut(trace, rows, timeline.start_ns, timeline.span_ns)
        series = []
        for thread in np.unique(trace.thread[rows]).tolist():
            mine = trace.thread[rows] == thread
            steps = self._steps_of(trace.step[rows][mine])
            series.append([CATEGORIES.index("train"), thread, self._count, int(mine.sum()), steps])
            self._keep(start[mine], (end - start)[mine], trace.name[rows][mine])
        return [{"name": "train steps", "kind": "host", "spans": len(rows), "busy": "", "note": "",
                 "height": 0, "rows": [{"y": 0, "h": 0, "series": series}],
                 "export": True, "shown": False}]  # fmt: skip

    def _causes(self, i: int, timeline: Timeline) -> dict[str, Any]:
        """Return the sentences of the gaps, and put what each waited for into the columns."""
        gaps, causes = timeline.gaps, timeline.causes
        self.columns |= {
            f"gap_kind{i}": causes.kind.astype(np.int8),
            f"for_start{i}": causes.start_ns.astype(np.float64),
            f"for_end{i}": causes.end_ns.astype(np.float64),
            f"for_lane{i}": causes.lane.astype(np.int32),
            f"for_name{i}": causes.op.astype(np.int32),
        }
        longest = np.sort(np.argsort(-gaps.length_ns, kind="stable")[:SENTENCES]).tolist()
        told = {k: causes[k] for k in longest}
        parts = {
            k: words.parts(cause.parts) for k, cause in told.items() if sum(ns > 0 for ns in cause.parts.values()) > 1
        }
        return {"kinds": list(CAUSES), "texts": {k: cause.text for k, cause in told.items()}, "parts": parts}

    def _join(self) -> None:
        """Put the spans of all lanes into one column each."""
        nothing = [np.zeros(0, np.int64)]
        start, duration, name = (np.concatenate([s[k] for s in self._spans] or nothing) for k in range(3))
        long, since = duration >= _LONG, np.diff(start, prepend=0)
        far = (since < 0) | (since >= _LONG)
        wide = np.uint16 if not len(name) or name.max() < 2**16 else np.uint32
        self.columns |= {
            "since": np.where(far, _LONG, since).astype(np.uint32),
            "far": start[far].astype(np.float64),
            "duration": np.where(long, _LONG, duration).astype(np.uint32),
            "long": duration[long].astype(np.float64),
            "name": name.astype(wide),
            "step": np.concatenate(self._steps or nothing).astype(np.int32),
        }
        self._spans, self._steps = [], []


def _rows_that_work(lane: Lane) -> list[bool]:
    """Return for each nesting depth whether its spans work themselves, or are open while others work or wait.

    A batch is open as long as its images are made, and works only when it copies them.
    """
    if not len(lane):
        return []
    work = ~np.isin(lane.category, _QUIET)
    whole, own = (
        np.bincount(lane.depth[work], ns[work], minlength=int(lane.depth.max()) + 1)
        for ns in (lane.end_ns - lane.start_ns, lane.self_ns)
    )
    return ((own >= _OWN * whole) & (np.bincount(lane.depth[work], minlength=len(whole)) > 0)).tolist()


def _little(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column if sys.byteorder == "little" else column.byteswap())
