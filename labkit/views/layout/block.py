"""Spans of a layout as columns in one block of bytes.

Spans are sorted into *series*. A series is one kind of span in one nesting depth of one lane: its spans never overlap.
With the sum of all lengths before each span, the covered time between any two instants takes two look-ups. So the
browser draws every zoom from the same columns, without another request to Python.

The block is a header (JSON) and the columns it names, little endian, each at a multiple of 8 bytes::

    uint32 length of the header | uint32 version | header, padded with spaces | columns
"""

from __future__ import annotations

import itertools
import json
from typing import Any, NamedTuple

import numpy as np

from labkit.timeline import perfetto
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline
from labkit.views.layout.band import Kinds, own_pieces

VERSION = 5

#: Heights in CSS pixels: a row of work or waiting, one of what only encloses others, the accelerator's.
_ROW, _THIN, _TALL = 15, 4, 24

#: A lane is not higher than this; rows of deeper nesting become lower.
_HIGHEST = 120

#: A duration that does not fit into 32 bits stands in the column of long ones, in the order of the spans. A start that
#: is not a short time after that of the span before it stands in the column of far ones.
_LONG = 2**32 - 1


class Series(NamedTuple):
    """Spans of one kind, thread and depth of a lane: `count` rows of the columns from `first` on.

    `kind` is an index into the kinds of the header. `steps` is the first row in the column of steps, or -1 where no
    span knows its step; `process` and `track` are the places of the spans in a file for Perfetto.
    """

    kind: int
    thread: int
    process: int
    track: int
    first: int
    count: int
    steps: int


class Block:
    """The spans of one or two timelines as columns, and the rows of their lanes.

    Parameters
    ----------
    timelines : list of Timeline
    lanes : list of list of Lane
        For each timeline the lanes whose spans are kept.
    labels : list of str
    kinds : Kinds
        How the spans of the timelines are drawn.

    Attributes
    ----------
    columns : dict of str to ndarray
        Of all spans, in the order of their series: ``since``, from the start of the one before to the start of this
        one (uint32, nanoseconds; ``far``, float64, for the others), ``duration`` (uint32; ``long``, float64),
        ``name`` (uint16 or uint32), ``step`` (int32, where known). Columns of a run are named by their place in the
        header: ``runs.0.gap.start``, ``runs.0.edge`` and others. Times count from the start of the window.
    runs : list of dict
        For each timeline the rows of its lanes (``lanes``), and ``perfetto``, the parts of a file for Perfetto that
        are no spans.
    """

    def __init__(self, timelines: list[Timeline], lanes: list[list[Lane]], labels: list[str], kinds: Kinds) -> None:
        self._kinds = kinds
        self.columns: dict[str, np.ndarray] = {}
        self._spans: list[tuple[np.ndarray, ...]] = []
        self._steps: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._count = 0
        self.runs = []
        for i, (timeline, mine, label) in enumerate(zip(timelines, lanes, labels, strict=True)):
            self.columns |= _columns_of(i, timeline)
            below, prefix = (i * len(perfetto.PROCESSES), f"{label}: ") if len(timelines) > 1 else (0, "")
            *places, events = perfetto.places(timeline.trace, below, prefix)
            start = min((int(lane.start_ns[0]) for lane in mine if len(lane)), default=-timeline.start_ns)
            about = perfetto.about(timeline.trace) | {"labkit-start-ns": str(timeline.start_ns + start)}
            about = {prefix + key: text for key, text in about.items()}
            rows = [self._rows(i, lane, *(place[lane.row] for place in places)) for lane in mine]
            self.runs.append({"lanes": rows, "perfetto": {"about": about, "events": events}})
        self._join()

    def encode(self, header: dict[str, Any]) -> bytes:
        """Return the header and the columns as one block of bytes."""
        offset, table, parts = 0, {}, []
        for name, column in self.columns.items():
            table[name] = [column.dtype.name, offset, len(column)]
            parts.append(column.tobytes() + bytes(-column.nbytes % 8))
            offset += len(parts[-1])
        head = json.dumps({**header, "columns": table}, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
        return b"".join([np.array([len(head), VERSION], "<u4").tobytes(), head, *parts])

    def _rows(self, run: int, lane: Lane, process: np.ndarray, track: np.ndarray) -> dict[str, Any]:
        """Return the height of a lane and its rows with their series: one for each nesting depth, one for a device."""
        kind = self._kinds.of(run, lane)
        series = self._series(kind, lane, process, track)
        if lane.kind in ("accelerator", "stream", "unit"):
            series = [list(itertools.chain(*series))] if series else []
        around = [all(self._kinds.table[one.kind].outlined for one in group) for group in series]
        thick = [not only for only in around] or [True]
        tall = _TALL if lane.kind == "accelerator" else _ROW
        if tall * sum(thick) > _HIGHEST:
            tall = max(_HIGHEST // sum(thick), 5)
        rows, y = [], 0
        for group, work in zip(series or [[]], thick, strict=True):
            height = tall if work else _THIN
            rows.append({"y": y, "h": height, "series": [list(each) for each in group]})
            y += height + (0 if work or len(series) == 1 else 1)
        if y < _ROW:  # a lane of nodes only is as high as its name
            rows[-1]["h"] += _ROW - y
        return {"height": max(y, _ROW), "rows": rows, "own": self._own(kind, lane)}

    def _own(self, kind: np.ndarray, lane: Lane) -> list[Series]:
        """Append the own time of spans that hold others; return it as series of which the band is made."""
        if lane.kind != "pipeline":
            return []
        start, end, codes = own_pieces(kind, lane, self._kinds.are("nested", kind))
        found = []
        for code in np.unique(codes).tolist():
            mine = codes == code
            found.append(Series(code, -1, -1, -1, self._count, int(mine.sum()), -1))
            self._spans.append((start[mine], (end - start)[mine], np.zeros(int(mine.sum()), lane.name_id.dtype)))
            self._count += int(mine.sum())
        return found

    def _series(self, kind: np.ndarray, lane: Lane, process: np.ndarray, track: np.ndarray) -> list[list[Series]]:
        """Append the spans of a lane to the columns, sorted by depth, kind and start; return them per depth."""
        if not len(lane):
            return []
        keys = (lane.depth, kind, lane.thread, process, track)
        order = np.lexsort(keys[::-1])  # stable: by start within
        depth, *about = (key[order] for key in keys)
        new = np.any([np.diff(key) != 0 for key in (depth, *about)], axis=0)
        edges = np.r_[0, np.flatnonzero(new) + 1, len(order)]
        rows: list[list[Series]] = [[] for _ in range(int(depth[-1]) + 1)]
        for a, b in itertools.pairwise(edges.tolist()):
            steps = self._steps_of(lane.step[order[a:b]])
            rows[depth[a]].append(Series(*(int(key[a]) for key in about), self._count + a, b - a, steps))
        self._spans.append((lane.start_ns[order], (lane.end_ns - lane.start_ns)[order], lane.name_id[order]))
        self._count += len(order)
        return [row for row in rows if row]

    def _steps_of(self, step: np.ndarray) -> int:
        """Append the steps of a series if any is known; return where they begin, or -1."""
        if step.max() < 0:
            return -1
        self._steps.append(step)
        return sum(map(len, self._steps)) - len(step)

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
            "step": np.concatenate(self._steps).astype(np.int32),
        }
        self._spans, self._steps = [], []


def _columns_of(i: int, timeline: Timeline) -> dict[str, np.ndarray]:
    """Return the columns of run `i` beside its spans: gaps and what they waited for, and steps."""
    gaps, causes = timeline.gaps, timeline.causes
    return {
        f"runs.{i}.gap.start": gaps.start_ns.astype(np.float64),
        f"runs.{i}.gap.length": gaps.length_ns.astype(np.float64),
        f"runs.{i}.gap.kind": causes.kind.astype(np.int8),
        f"runs.{i}.gap.for_start": causes.start_ns.astype(np.float64),
        f"runs.{i}.gap.for_end": causes.end_ns.astype(np.float64),
        f"runs.{i}.gap.for_lane": causes.lane.astype(np.int32),
        f"runs.{i}.gap.for_name": causes.op.astype(np.int32),
        f"runs.{i}.edge": timeline.step_edges_ns.astype(np.float64),
        f"runs.{i}.number": timeline.step_numbers.astype(np.int32),
    }
