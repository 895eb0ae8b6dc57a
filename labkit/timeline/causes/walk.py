"""The walk back through every gap, from the batch that was awaited to what its producers did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from labkit.timeline.causes.table import BATCH, CAUSES, COPY, FETCH, FRAMEWORK, PREP, START, UNKNOWN, Causes
from labkit.timeline.causes.tracks import LEAST_START_NS, LONGER, Paths, Track, at_least
from labkit.timeline.intervals import Intervals, complement, covered_until, intersection, union
from labkit.timeline.lanes import Lane
from labkit.timeline.trace import CATEGORIES

if TYPE_CHECKING:
    from labkit.timeline.timeline import Gap, Timeline

# Nobody schedules for longer than that: if nothing was seen to run, nobody knows.
_FRAMEWORK_NS = 1_000_000
# Index into `labkit.timeline.timeline.GAP_KINDS`, which cannot be imported from here.
GAP_INSIDE = 2


def find(timeline: Timeline) -> Causes:
    """Return the cause of every gap of a timeline.

    Parameters
    ----------
    timeline : Timeline
        Of a measured trace, with ``Iterator::…`` spans, or of a modelled one without.
    """
    gaps, walk = timeline.gaps, Walk(timeline)
    n, ends = len(gaps), gaps.start_ns + gaps.length_ns
    kind = np.where(gaps.length_ns < _FRAMEWORK_NS, FRAMEWORK, UNKNOWN).astype(np.int8)
    op, lane = (np.full(n, -1, np.int32) for _ in range(2))
    start_ns, end_ns = (np.full(n, -1, np.int64) for _ in range(2))
    parts = np.zeros((n, len(CAUSES)), np.int64)
    parts[np.arange(n), kind] = gaps.length_ns
    # Between two kernels of one step there is nothing to follow, and there may be very many such gaps.
    told = np.zeros(n, bool)
    for what in (walk.waits, walk.copies, walk.python):
        told |= covered_until(what, ends) > covered_until(what, gaps.start_ns)
    for i in np.flatnonzero(told | (gaps.kind != GAP_INSIDE)).tolist():
        kind[i], op[i], lane[i], start_ns[i], end_ns[i], parts[i] = walk.gap(gaps[i])
    by_op = {(CAUSES[c], o): ns for (c, o), ns in sorted(walk.total.items(), key=lambda x: (-x[1], x[0]))}
    names = tuple(shown.name for shown in timeline.lanes)
    return Causes(kind, op, lane, start_ns, end_ns, parts, by_op, gaps, timeline.names, names)


class Walk:
    """The walk back through the gaps of one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.names = timeline, timeline.names
        self.paths = Paths(self.names)
        shown = [i for i, lane in enumerate(timeline.lanes) if lane.kind in ("pipeline", "stream") and len(lane)]
        self.tracks = {i: Track(timeline.lanes[i], i, self.paths) for i in shown}
        code = CATEGORIES.index("copy")
        self.copies = self.covered(lambda lane: lane.category == code)
        columns = [np.zeros((0, 4), np.int64)]
        for i, track in self.tracks.items():
            one, m = track.lane, (track.lane.category == code) & (track.lane.end_ns > track.lane.start_ns)
            columns.append(np.stack([one.start_ns[m], one.end_ns[m], one.name_id[m], np.full(m.sum(), i)], axis=1))
        rows = np.concatenate(columns)
        self.copy_rows = rows[np.argsort(rows[:, 1], kind="stable")]  # start, end, op, lane, by their end
        self.copy_from = np.minimum.accumulate(self.copy_rows[::-1, 0])[::-1]  # no later row starts before that
        self.python = self.covered(lambda lane: np.isin(lane.name_id, self.paths.python))
        self.full = complement(self.python, 0, timeline.span_ns)
        self.full = intersection(self.full, self._full()) if len(self.full.start) else self.full
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
        self.contexts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.total: dict[tuple[int, int], int] = {}
        self.waits = timeline.waits
        self.first = self._first(self.waits)
        self.here: set[int] = set()

    def covered(self, of: Callable[[Lane], np.ndarray]) -> Intervals:
        """Return when any span was open that `of` selects in its lane."""
        nothing = [np.zeros(0, np.int64)] * 2
        both = [(t.lane.start_ns[m], t.lane.end_ns[m]) for t in self.tracks.values() for m in [of(t.lane)]]
        return union(*(np.concatenate(column) for column in zip(nothing, *both, strict=True)))

    def _full(self) -> Intervals:
        """Return when prep ran in as many threads as there are cores, so that others may have had to wait for one."""
        cores = self.timeline.run.host.cpus or len(self.tracks) + 1
        works = [union(t.start[m], t.end[m]) for t in self.tracks.values() for m in [t.cause == PREP]]
        return at_least(works, cores)

    def _first(self, waits: Intervals) -> bool:
        """Tell whether the first wait is for a pipeline that still had to start."""
        length = waits.end - waits.start
        if self.timeline.run.warmup or len(length) < 2:
            return False
        return bool(length[0] >= max(LONGER * np.median(length[1:]), LEAST_START_NS))

    # -- one gap -------------------------------------------------------------------

    def path(self, first: int, last: int) -> np.ndarray:
        """Return what is on the critical path of the batch that is in hand at `last`, back to `first`, by cause."""
        self._begin()
        self._wait(first, last, -1)
        self._settle()
        return self.parts

    def _begin(self) -> None:
        self.parts = np.zeros(len(CAUSES), np.int64)
        self.ops: dict[tuple[int, int], int] = {}
        self.chains: dict[int, list[tuple[int, int, int, int]]] = {}
        self.single: list[tuple[int, int, int, int, int]] = []

    def gap(self, gap: Gap) -> tuple[int, int, int, int, int, np.ndarray]:
        """Charge each instant of a gap; return cause, op, lane, start and end of the span waited for, and all parts."""
        first, last = gap.start_ns, gap.start_ns + gap.length_ns
        self._begin()
        if self.first and gap.kind == "start":
            self.parts[START] = gap.length_ns
            return START, -1, -1, -1, -1, self.parts
        waits = _inside(self.waits, first, last)
        for start, end in _pairs(waits):
            self._wait(start, end, gap.step)
        # Outside of a wait, the device gets its batch, or Python is on its way.
        for start, end in _pairs(complement(waits, first, last)):
            copied = _inside(self.copies, start, end)
            self._copied(copied)
            for rest in _pairs(complement(copied, start, end)):
                self._rest(*rest)
        pieces = self._settle()
        for key, ns in self.ops.items():
            self.total[key] = self.total.get(key, 0) + ns
        return (*self._longest(pieces), self.parts)

    def _settle(self) -> dict[int, np.ndarray]:
        """Charge the runs of pieces that the walk went through, all at once; return the pieces by lane."""
        pieces, width = {}, len(self.names)
        for index, chains in self.chains.items():
            track = self.tracks[index]
            a, b, first, last = np.array(chains, np.int64).T
            size = b - a
            at = np.repeat(a - np.cumsum(size) + size, size) + np.arange(int(size.sum()))
            start = np.maximum(track.start[at], np.repeat(first, size))
            end = np.minimum(track.end[at], np.repeat(last, size))
            key = track.cause[at].astype(np.int64) * width + track.op[at]
            # Sums in floating point are exact up to 2^53 ns, which are a hundred days.
            ns = np.bincount(key, weights=end - start).astype(np.int64)
            for k in np.flatnonzero(ns).tolist():
                self._charge(k // width, int(ns[k]), k % width)
            inner = np.ones(len(at), bool)
            inner[np.cumsum(size) - 1] = False
            inner = np.flatnonzero(inner)
            rest = np.bincount(track.between[at[inner]], weights=start[inner + 1] - end[inner], minlength=len(CAUSES))
            self.parts += rest.astype(np.int64)
            pieces[index] = at
        return pieces

    def _charge(self, cause: int, ns: int, op: int = -1) -> None:
        if ns > 0:
            self.parts[cause] += ns
            if op >= 0 and cause not in (FRAMEWORK, UNKNOWN):
                self.ops[cause, op] = self.ops.get((cause, op), 0) + int(ns)

    def _copied(self, copied: Intervals) -> None:
        """Charge copies outside of waits, from the last to the first; of two at once, the one that ends last."""
        for start, end in _pairs(copied):
            now = end
            a = np.searchsorted(self.copy_rows[:, 1], start, side="right")
            b = np.searchsorted(self.copy_from, end, side="left")
            for row in self.copy_rows[a:b][::-1].tolist():
                begin = max(row[0], start)
                if begin < now:
                    self._charge(COPY, now - begin, row[2])
                    self.single.append((row[2], now - begin, row[3], row[0], row[1]))
                    now = begin
                if now == start:
                    break

    def _longest(self, pieces: dict[int, np.ndarray]) -> tuple[int, int, int, int, int]:
        """Return the main cause, its main op, and the longest span of that op on the path with its lane."""
        kind = int(np.argmax(self.parts))
        mine = {op: ns for (cause, op), ns in self.ops.items() if cause == kind}
        op = max(mine, key=lambda o: (mine[o], -o)) if mine else -1
        found = [(length, lane, start, end) for o, length, lane, start, end in self.single if o == op]
        for index, at in pieces.items() if op >= 0 else ():
            track = self.tracks[index]
            at = at[track.op[at] == op]
            if len(at):
                best = int(at[np.argmax(track.end[at] - track.start[at])])
                found.append((int(track.end[best] - track.start[best]), index, *track.span_of(best)))
        return kind, op, *max(found, default=(-1, -1, -1, -1))[1:]

    # -- the walk --------------------------------------------------------------------

    def _wait(self, first: int, now: int, step: int) -> None:
        """Walk from the end of a wait, `now`, back to its start."""
        found = self._delivered(first, now, step)
        if found is None:
            self._rest(first, now)
            return
        end, lane = found
        self._rest(end, now, handed_over=True)
        now, context, self.here = end, -1, {lane}
        while now > first:
            before = now
            now, lane, context = self._hop(lane, now, first, context)
            self.here = {lane} if now < before else self.here | {lane}

    def _rest(self, start: int, end: int, handed_over: bool = False) -> None:
        """Charge time in which nothing ran on the path: to what held the GIL or all cores, else to overhead.

        Where nobody knows what the path is, only a short time is overhead.
        """
        if len(self.python.start):
            start += self._held(self.python, start, end, int(self.paths.python[0]))
        if end - start >= _FRAMEWORK_NS and len(self.full.start):
            start += self._held(self.full, start, end, -1)
        self._charge(FRAMEWORK if handed_over or end - start < _FRAMEWORK_NS else UNKNOWN, end - start)

    def _held(self, held: Intervals, start: int, end: int, op: int) -> int:
        """Charge the part of a time in which Python, or work on all cores, kept others from running; return it."""
        before, after = covered_until(held, np.array([start, end]))
        self._charge(PREP, int(after - before), op)
        return int(after - before)

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
        mine = mine if len(mine) else rows
        last = self._best(mine[self.ends[mine] == self.ends[mine[-1]]].tolist())
        return int(self.ends[last]), int(self.end_lane[last])

    def _best(self, rows: Iterable[int]) -> int:
        """Return the row, of several that ended at one time, that stands furthest down the pipeline."""
        order = {COPY: 3, BATCH: 2, PREP: 1, FETCH: 0}

        def place(row: int) -> tuple[int, int]:
            track = self.tracks[int(self.end_lane[row])]
            cause = int(track.cause[np.searchsorted(track.end, self.ends[row], "right") - 1])
            return order.get(cause, -1), row

        return max(rows, key=place)

    def _running(self, first: int, now: int) -> tuple[int, int] | None:
        for track in self.tracks.values():
            at = int(np.searchsorted(track.end, first, side="right"))
            if at < len(track.start) and track.start[at] < now and track.lane.kind == "pipeline":
                return now, track.index
        return None

    def _hop(self, lane: int, now: int, first: int, context: int) -> tuple[int, int, int]:
        """Charge what a lane did just before `now`, and return where the walk goes on: time, lane, node waited at."""
        track = self.tracks[lane]
        piece = int(track.start.searchsorted(now)) - 1
        if piece < 0 or track.end[piece] < now:
            return self._rested(track, piece, now, first, context)
        if track.fresh[piece]:
            at = int(np.searchsorted(track.starts.start, track.start[piece], side="right")) - 1
            begin = max(int(track.starts.start[at]), first)
            call = self._starting(track, begin, now)
            self._charge(START, now - begin, call[2])
            self.single.append((call[2], now - begin, lane, call[0], call[1]))
            return begin, lane, context
        if track.node[piece]:
            context = int(track.op[piece])
            low = max(int(track.start[piece]), first)
            found = self._ended(low, now, context)
            if found is None:
                self._rest(low, now)
                return low, lane, context
            self._rest(found[0], now, handed_over=True)
            return found[0], found[1], context
        return self._chain(track, piece, now, first), lane, context

    def _rested(self, track: Track, piece: int, now: int, first: int, context: int) -> tuple[int, int, int]:
        """Go from a thread that had nothing to do to the span that ended last before it got something."""
        low = max(int(track.end[piece]) if piece >= 0 else first, first)
        found = self._ended(low, now, context)
        if found is None:
            if 0 <= piece < len(track.between) and now - low < _FRAMEWORK_NS:
                self._charge(int(track.between[piece]), now - low)
            else:
                self._rest(low, now)
            return low, track.index, context
        self._rest(found[0], now, handed_over=context >= 0)
        return found[0], found[1], context

    def _ended(self, low: int, now: int, context: int) -> tuple[int, int] | None:
        """Return time and lane of the last span that ended after `low` and not after `now`, in a lane not just left."""
        if context not in self.contexts:
            rows = np.arange(len(self.ends))
            if context >= 0:
                rows = rows[self.paths.below(context)[self.end_name]]
            self.contexts[context] = rows, self.ends[rows]
        rows, ends = self.contexts[context]
        at = int(ends.searchsorted(now, "right")) - 1
        while at >= 0 and ends[at] > low:
            if int(self.end_lane[rows[at]]) not in self.here:
                if at == 0 or ends[at - 1] < ends[at]:
                    return int(ends[at]), int(self.end_lane[rows[at]])
                first = int(ends.searchsorted(ends[at]))
                same = [row for row in rows[first : at + 1].tolist() if int(self.end_lane[row]) not in self.here]
                return int(ends[at]), int(self.end_lane[self._best(same)])
            at -= 1
        return None

    def _starting(self, track: Track, begin: int, now: int) -> tuple[int, int, int]:
        """Return start, end and node of the call that took most of the time; the innermost that took half of it."""
        share = {call: max(min(call[1], now) - max(call[0], begin), 0) for call in track.fresh_calls}
        half = [call for call in share if 2 * share[call] >= now - begin]
        return max(half, key=lambda c: len(self.names[c[2]])) if half else max(share, key=lambda c: share[c])

    def _chain(self, track: Track, piece: int, now: int, first: int) -> int:
        """Note a run of pieces that follow each other in one thread, for `_settle`; return when it began."""
        a = int(track.back[piece])
        if track.start[a] < first:
            a = max(a, int(track.end.searchsorted(first, "right")))
        begin = max(int(track.start[a]), first)
        self.chains.setdefault(track.index, []).append((a, piece + 1, begin, now))
        return begin


def _inside(intervals: Intervals, first: int, last: int) -> Intervals:
    """Return the parts of disjoint intervals within ``[first, last)``."""
    a, b = np.searchsorted(intervals.end, first, side="right"), np.searchsorted(intervals.start, last, side="left")
    return Intervals(np.maximum(intervals.start[a:b], first), np.minimum(intervals.end[a:b], last))


def _pairs(intervals: Intervals) -> Iterator[tuple[int, int]]:
    return zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
