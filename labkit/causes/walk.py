"""The walk back through every gap, from the batch that was awaited to what its producers did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labkit.causes.table import BATCH, CAUSES, COPY, FETCH, FRAMEWORK, PREP, START, UNKNOWN, Causes
from labkit.causes.tracks import LEAST_START_NS, LONGER, Paths, Track
from labkit.intervals import Intervals, complement, covered_until, intersection, union
from labkit.lanes import Lane
from labkit.trace import CATEGORIES
from labkit.wording import percent, short_op

if TYPE_CHECKING:
    from labkit.timeline import Timeline

# Nobody schedules for longer than that: if nothing was seen to run, nobody knows.
_FRAMEWORK_NS = 1_000_000
_WORDS = (
    "fetch", "prep", "batching", "copying to the device", "start-up of an epoch or a buffer",
    "framework overhead", "nobody knows what",
)  # fmt: skip


def find(timeline: Timeline) -> Causes:
    """Return the cause of every gap of a timeline.

    Parameters
    ----------
    timeline : Timeline
        Of a measured trace, with ``Iterator::…`` spans, or of a modelled one without.
    """
    gaps, walk = timeline.gaps, _Walk(timeline)
    rows = [walk.gap(i) for i in range(len(gaps))]
    parts = np.array([row.parts for row in rows], np.int64).reshape(len(rows), len(CAUSES))
    columns = {
        name: np.array([getattr(row, name) for row in rows], dtype)
        for name, dtype in (("kind", np.int8), ("op", np.int32), ("lane", np.int32), ("start_ns", np.int64),
                            ("end_ns", np.int64))
    }  # fmt: skip
    by_op = {(CAUSES[kind], op): ns for (kind, op), ns in sorted(walk.total.items(), key=lambda x: (-x[1], x[0]))}
    return Causes(**columns, parts_ns=parts, texts=tuple(row.text for row in rows), by_op=by_op)


class _Found(NamedTuple):
    """What `_Walk.gap` returns: a row of `Causes`."""

    kind: int
    op: int
    lane: int
    start_ns: int
    end_ns: int
    parts: np.ndarray
    text: str


class _Walk:
    """The walk back through the gaps of one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.names = timeline, timeline.names
        self.paths = Paths(self.names)
        shown = [i for i, lane in enumerate(timeline.lanes) if lane.kind in ("pipeline", "stream") and len(lane)]
        self.tracks = {i: Track(timeline.lanes[i], i, self.names, self.paths) for i in shown}
        code = CATEGORIES.index("copy")
        self.copies = self._covered(lambda lane: lane.category == code)
        self.python = self._covered(lambda lane: np.isin(lane.name_id, self.paths.python))
        rows = [
            (lane.end_ns[keep], np.full(int(keep.sum()), i), lane.name_id[keep], lane.step[keep])
            for i in shown
            for lane in [timeline.lanes[i]]
            for keep in [(lane.end_ns > lane.start_ns) & (lane.category != CATEGORIES.index("kernel"))]
        ]
        ends, lane, name, step = (
            (np.concatenate(c) for c in zip(*rows, strict=True)) if rows else (np.zeros(0, int),) * 4
        )
        order = np.argsort(ends, kind="stable")
        self.ends, self.end_lane, self.end_name, self.end_step = (c[order] for c in (ends, lane, name, step))
        self.contexts: dict[int, np.ndarray] = {}
        self.total: dict[tuple[int, int], int] = {}
        waits = timeline.waits
        self.first = self._first(waits)

    def _covered(self, of: Callable[[Lane], np.ndarray]) -> Intervals:
        """Return when any span was open that `of` selects in its lane."""
        nothing = [np.zeros(0, np.int64)] * 2
        both = [(t.lane.start_ns[m], t.lane.end_ns[m]) for t in self.tracks.values() for m in [of(t.lane)]]
        return union(*(np.concatenate(column) for column in zip(nothing, *both, strict=True)))

    def _first(self, waits: Intervals) -> bool:
        """Tell whether the first wait is for a pipeline that still had to start."""
        length = waits.end - waits.start
        if self.timeline.meta.get("warmup") or len(length) < 2:
            return False
        return bool(length[0] >= max(LONGER * np.median(length[1:]), LEAST_START_NS))

    # -- one gap -------------------------------------------------------------------

    def gap(self, index: int) -> _Found:
        """Charge each instant of a gap."""
        gap = self.timeline.gaps[index]
        first, last = gap.start_ns, gap.start_ns + gap.length_ns
        self.parts = np.zeros(len(CAUSES), np.int64)
        self.ops: dict[tuple[int, int], int] = {}
        self.path: list[tuple[Track, int, int]] = []
        waits = intersection(self.timeline.waits, Intervals(np.array([first]), np.array([last])))
        if self.first and gap.kind == "start":
            self.parts[START] = gap.length_ns
        else:
            for start, end in _pairs(waits):
                self._wait(start, end, gap.step)
            # Outside of a wait, the device gets its batch, or Python is on its way.
            outside = complement(waits, first, last)
            copied = intersection(self.copies, outside)
            self._charge(COPY, copied.total_ns)
            self._copied(copied)
            for start, end in _pairs(intersection(complement(self.copies, first, last), outside)):
                self._rest(start, end)
        return self._found(gap)

    def _charge(self, cause: int, ns: int, op: int = -1) -> None:
        if ns > 0:
            self.parts[cause] += ns
            if op >= 0:
                self.ops[cause, op] = self.ops.get((cause, op), 0) + int(ns)

    def _copied(self, copied: Intervals) -> None:
        """Name the copies outside of waits."""
        code = CATEGORIES.index("copy")
        for track in self.tracks.values():
            for start, end in zip(copied.start.tolist(), copied.end.tolist(), strict=True):
                a, b = np.searchsorted(track.end, start, "right"), np.searchsorted(track.start, end, "left")
                for piece in range(a, b):
                    if track.lane.category[track.lane.pieces.owner[piece]] == code:
                        ns = min(int(track.end[piece]), end) - max(int(track.start[piece]), start)
                        key = (COPY, int(track.op[piece]))
                        self.ops[key] = self.ops.get(key, 0) + ns
                        self.path.append((track, piece, piece + 1))

    def _found(self, gap: object) -> _Found:
        kind = int(np.argmax(self.parts))
        for key, ns in self.ops.items():
            self.total[key] = self.total.get(key, 0) + ns
        mine = {op: ns for (cause, op), ns in self.ops.items() if cause == kind}
        op = max(mine, key=lambda o: (mine[o], -o)) if mine else -1
        lane, start, end, longest = -1, -1, -1, -1
        for track, a, b in self.path if op >= 0 else ():
            length = np.where((track.op[a:b] == op), track.end[a:b] - track.start[a:b], -1)
            best = int(np.argmax(length)) if len(length) else 0
            if len(length) and length[best] > longest:
                longest, lane = int(length[best]), track.index
                start, end = track.span_of(a + best)
        return _Found(kind, op, lane, start, end, self.parts, self._text(gap, kind, op, lane))

    def _text(self, gap: object, kind: int, op: int, lane: int) -> str:
        what = _WORDS[kind]
        if op >= 0:
            where = self.timeline.lanes[lane].name if lane >= 0 else ""
            what += f": {short_op(self.names[op])}" + (f" in {where}" if where else "")
        share = [(CAUSES[i], int(ns)) for i, ns in enumerate(self.parts) if i != kind and ns * 20 >= gap.length_ns]
        rest = ", ".join(f"{word} {percent(ns / gap.length_ns)}" for word, ns in sorted(share, key=lambda s: -s[1]))
        main = percent(int(self.parts[kind]) / gap.length_ns)
        return f"{gap}: {main} {what}" + (f"; also {rest}." if rest else ".")

    # -- the walk --------------------------------------------------------------------

    def _wait(self, first: int, now: int, step: int) -> None:
        """Walk from the end of a wait, `now`, back to its start."""
        found = self._delivered(first, now, step)
        if found is None:
            self._rest(first, now)
            return
        end, lane = found
        self._rest(end, now)
        now, context = end, -1
        while now > first:
            now, lane, context = self._hop(lane, now, first, context)

    def _rest(self, start: int, end: int) -> None:
        """Charge time in which nothing ran on the path: to Python where it holds the GIL, to overhead where short."""
        before, after = covered_until(self.python, np.array([start, end]))
        held = int(after - before)
        if held:
            self._charge(PREP, held, int(self.paths.python[0]))
        ns = end - start - held
        self._charge(FRAMEWORK if ns < _FRAMEWORK_NS else UNKNOWN, ns)

    def _delivered(self, first: int, now: int, step: int) -> tuple[int, int] | None:
        """Return when and where the batch was ready: at the root of tf.data, or else where a span ended last."""
        low, high = np.searchsorted(self.ends, [first, now], side="right")
        rows = np.arange(low, high)
        root = rows[self.paths.root[self.end_name[rows]]] if len(rows) else rows
        if len(root):
            return int(self.ends[root[-1]]), int(self.end_lane[root[-1]])
        if not len(rows):  # nothing ended, but something may be running through the whole wait
            return self._running(first, now)
        mine = rows[self.end_step[rows] == step] if step >= 0 else rows[:0]
        last = self._best(mine if len(mine) else rows)
        return int(self.ends[last]), int(self.end_lane[last])

    def _best(self, rows: np.ndarray) -> int:
        """Return the row that ended last; of several at one time, the one that stands furthest down the pipeline."""
        tied = rows[self.ends[rows] == self.ends[rows[-1]]]
        rank = [self.tracks[int(self.end_lane[r])] for r in tied]
        kinds = [
            int(t.cause[np.searchsorted(t.end, self.ends[r], "right") - 1]) for t, r in zip(rank, tied, strict=True)
        ]
        order = {COPY: 3, BATCH: 2, PREP: 1, FETCH: 0}
        return int(max(zip(tied, kinds, strict=True), key=lambda x: (order.get(x[1], -1), x[0]))[0])

    def _running(self, first: int, now: int) -> tuple[int, int] | None:
        for track in self.tracks.values():
            at = int(np.searchsorted(track.end, first, side="right"))
            if at < len(track.start) and track.start[at] < now and track.lane.kind == "pipeline":
                return now, track.index
        return None

    def _hop(self, lane: int, now: int, first: int, context: int) -> tuple[int, int, int]:
        """Charge what a lane did just before `now`, and return where the walk goes on: time, lane, node waited at."""
        track = self.tracks[lane]
        piece = int(np.searchsorted(track.start, now, side="left")) - 1
        if piece < 0 or track.end[piece] < now:
            return self._rested(track, piece, now, first, context)
        if track.fresh[piece]:
            at = int(np.searchsorted(track.starts.start, track.start[piece], side="right")) - 1
            begin = max(int(track.starts.start[at]), first)
            self._charge(START, now - begin, self._starting(track, begin, now))
            self.path.append((track, piece, piece + 1))
            return begin, lane, context
        if track.node[piece]:
            context = int(track.op[piece])
            low = max(int(track.start[piece]), first)
            found = self._ended(low, now, lane, context)
            if found is None:
                self._rest(low, now)
                return low, lane, context
            self._rest(found[0], now)
            return found[0], found[1], context
        return self._chain(track, piece, now, first), lane, context

    def _rested(self, track: Track, piece: int, now: int, first: int, context: int) -> tuple[int, int, int]:
        """Go from a thread that had nothing to do to the span that ended last before it got something."""
        low = max(int(track.end[piece]) if piece >= 0 else first, first)
        found = self._ended(low, now, track.index, context)
        if found is None:
            self._rest(low, now)
            return low, track.index, context
        self._rest(found[0], now)
        return found[0], found[1], context

    def _ended(self, low: int, now: int, lane: int, context: int) -> tuple[int, int] | None:
        """Return time and lane of the last span, of another lane, that ended after `low` and not after `now`."""
        if context not in self.contexts:
            allowed = np.ones(len(self.names), bool) if context < 0 else self.paths.below(context)
            self.contexts[context] = np.flatnonzero(allowed[self.end_name]) if len(self.ends) else np.zeros(0, int)
        rows = self.contexts[context]
        ends = self.ends[rows]
        a, b = np.searchsorted(ends, [low, now], side="right")
        for at in range(int(b) - 1, int(a) - 1, -1):
            row = rows[at]
            if self.end_lane[row] != lane:
                same = rows[a:b][(ends[a:b] == ends[at]) & (self.end_lane[rows[a:b]] != lane)]
                return int(ends[at]), int(self.end_lane[self._best(same)])
        return None

    def _starting(self, track: Track, begin: int, now: int) -> int:
        """Return the node that started between two instants: the innermost of those that took most of the time."""
        share = {node: 0 for *_, node in track.fresh_calls}
        for start, end, node in track.fresh_calls:
            share[node] += max(min(end, now) - max(start, begin), 0)
        return max((n for n in share if 2 * share[n] >= now - begin), key=lambda n: len(self.names[n]))

    def _chain(self, track: Track, piece: int, now: int, first: int) -> int:
        """Charge a run of pieces that follow each other in one thread; return when it began."""
        a = max(int(track.back[piece]), int(np.searchsorted(track.end, first, side="right")))
        start, end = np.maximum(track.start[a : piece + 1], first), np.minimum(track.end[a : piece + 1], now)
        length, width = end - start, len(self.names)
        key = track.cause[a : piece + 1].astype(np.int64) * width + track.op[a : piece + 1]
        for k in np.unique(key).tolist():
            self._charge(k // width, int(length[key == k].sum()), k % width)
        begin = int(start[0])
        self._charge(FRAMEWORK, now - begin - int(length.sum()))
        self.path.append((track, a, piece + 1))
        return begin


def _pairs(intervals: Intervals) -> Iterator[tuple[int, int]]:
    return zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
