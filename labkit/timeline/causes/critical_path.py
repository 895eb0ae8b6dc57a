"""The critical path of a batch: a walk back in time, from the batch in hand to the work of those who made it.

The walk stands at an instant in one lane. It goes back through what that lane did without a rest; where the lane had to
wait, the walk goes on in the lane whose span ended last before. An example, with time from left to right::

    ms            0    5    10   15   20   25   30   35
    consumer      [wait for a batch                  ]
    worker 2           [read a][decode a]
    worker 1        [decode b]            [map a][batch]

1. The batch was ready when the span ``batch`` ended in worker 1, just before 35 (`_delivered`). The time from there to
   the end of the wait is charged to handing over, ``framework`` (`_rest`).
2. Worker 1 worked without a rest on ``batch`` and ``map a``. `_chain` notes this run of pieces, and the walk stands
   where ``map a`` began.
3. Before, worker 1 had nothing to do. The span that ended last was ``decode a`` (`_ended`): the walk goes on at its
   end, in worker 2, and what lies between is handing over again.
4. `_chain` notes ``decode a`` and ``read a``. Before ``read a`` nothing ended: the rest of the wait is overhead where
   it is short, and unknown where it is long (`_rest`).
5. `_settle` charges all noted pieces at once: ``read a`` to fetch, ``decode a`` and ``map a`` to prep, ``batch`` to
   batch. ``decode b`` is charged nothing, because the wait did not depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from labkit.timeline.causes.effort import Effort
from labkit.timeline.causes.node_work import asynchronous
from labkit.timeline.causes.per_gap import (
    BATCH,
    CAUSES,
    COPY,
    EMPTY,
    FETCH,
    FRAMEWORK,
    FULL,
    PREP,
    PROCESS,
    START,
    TRANSFER,
    UNKNOWN,
    Causes,
)
from labkit.timeline.causes.thresholds import FRAMEWORK_NS, NODE_NS, REST_NS, START_FACTOR, START_NS
from labkit.timeline.causes.worker_waits import WorkerWaits
from labkit.timeline.gaps import GAP_KINDS, Gap, Gaps
from labkit.timeline.intervals import Intervals, at_least, complement, covered_until, inside, overlap, union, union_of
from labkit.timeline.lanes import GET, PIPE, PUT, Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import PYTHON_OPS, SOURCE, STARTS, WITH_CONSUMER, WORKER, short_op

_CAUSE = {"read": FETCH, "decode": PREP, "resize": PREP, "map": PREP, "batch": BATCH, "transfer": TRANSFER,
          "copy": COPY}  # fmt: skip
_COPY, _ITERATOR, _KERNEL = (CATEGORIES.index(word) for word in ("copy", "iterator", "kernel"))
# Of several spans that ended at one time, the one furthest down the pipeline delivered the batch.
_DOWNSTREAM = {COPY: 4, TRANSFER: 3, BATCH: 2, PREP: 1, FETCH: 0}


def find_causes(path: CriticalPath, gaps: Gaps, explain: bool = True) -> Causes:
    """Return the cause of every gap.

    Parameters
    ----------
    path : CriticalPath
    gaps : Gaps
        Idle times of the accelerator, of the same timeline.
    explain : bool
        Without, each cause is ``unknown``: for a reader who is to find it.
    """
    n = len(gaps)
    parts, main, by_op = np.zeros((n, len(CAUSES)), np.int64), np.full((4, n), -1), Counter()
    starting: Counter[int] = Counter()
    during = np.full(n, -1, np.int32)
    short = (gaps.length_ns < FRAMEWORK_NS) & explain
    parts[np.arange(n), np.where(short, FRAMEWORK, UNKNOWN)] = gaps.length_ns
    # Between two kernels of one step there is nothing to follow, and there may be very many such gaps.
    follow = gaps.kind != GAP_KINDS.index("inside")
    for what in (path.waits, path.copying, path.python, path.meeting):
        follow |= overlap(what, gaps.start_ns, gaps.end_ns) > 0
    for i in np.flatnonzero(follow & explain).tolist():
        main[:, i] = path.follow(gaps[i])
        parts[i] = path.parts
        by_op.update(path.ops)
        starting.update(path.starting)
        if 2 * sum(path.starting.values()) >= gaps[i].length_ns:
            during[i] = max(path.starting, key=lambda node: path.starting[node])
    kind, (op, lane) = parts.argmax(axis=1).astype(np.int8), main[:2].astype(np.int32)
    ops = {(CAUSES[c], o): ns for (c, o), ns in sorted(by_op.items(), key=lambda x: (-x[1], x[0]))}
    lane_names = tuple(shown.name for shown in path.lanes)
    return Causes(
        kind, op, lane, *main[2:], parts, ops, gaps, path.names.names, lane_names, explain, during, dict(starting)
    )


class SpanNames:
    """What the names of spans say: which are nodes, which run Python, which node stands below which."""

    def __init__(self, names: tuple[str, ...], efforts: Mapping[str, Effort]) -> None:
        self.names = names
        computing = {word for word, effort in efforts.items() if effort.computes}
        self.computing = np.array([short_op(name) in computing for name in names], bool)
        self.node = np.array([n.startswith("Iterator::") for n in names], bool)
        self.starts = np.array([i for i, n in enumerate(names) if n in STARTS], np.int64)
        self.worker = np.array([i for i, n in enumerate(names) if n in (WORKER, SOURCE)], np.int64)
        self.python = np.array([i for i, n in enumerate(names) if short_op(n) in PYTHON_OPS], np.int64)
        self.pipe = np.isin(names, PIPE)
        # It copies elements in threads that leave no spans, from when it has the last one of a batch.
        self.copies = np.array([short_op(n).startswith("ParallelBatch") for n in names], bool)
        self.queues = [(i, EMPTY if name == GET else FULL) for i, name in enumerate(names) if name in (GET, PUT)]
        known = {names[i] for i in np.flatnonzero(self.node).tolist()}
        self.root = self.node & np.array([n.rpartition("::")[0] not in known for n in names], bool)

    def below(self, node: int) -> np.ndarray:
        """Tell which names can be work for a node: nodes below it, and all that is no node."""
        path = self.names[node] + "::"
        return ~self.node | np.array([n.startswith(path) for n in self.names], bool)


class Track:
    """A lane made ready for the walk.

    Attributes
    ----------
    start, end, cause, op : ndarray, shape (n,)
        The pieces of the lane, each with its cause and its op.
    between : ndarray, shape (n - 1,)
        The cause of a short rest between a piece and the next one.
    waits : ndarray of bool, shape (n,)
        Pieces of a node that lasts so long that it must wait for another thread.
    queue : ndarray of int, shape (n,)
        The cause of a wait at a queue, -1 for pieces outside of one.
    starts : ndarray of bool, shape (n,)
        Pieces within a call that starts an epoch or fills a buffer.
    back : ndarray of int, shape (n,)
        The first piece of the run without a rest that a piece belongs to: the walk may go back to it at once.
    calls : list of (start, end, node)
        The calls that start an epoch or fill a buffer.
    """

    def __init__(self, lane: Lane, index: int, names: SpanNames) -> None:
        self.lane, self.index = lane, index
        owner = lane.pieces.owner
        self.start, self.end = lane.pieces.start, lane.pieces.end
        category, self.op = lane.category[owner], lane.name_id[owner].copy()
        table = np.full(len(CATEGORIES), PREP if lane.feeds else UNKNOWN, np.int8)
        for word, cause in _CAUSE.items():
            table[CATEGORIES.index(word)] = cause
        table[_ITERATOR] = FRAMEWORK
        self.cause = table[category]
        # A node that reads records has no op of its own for unpacking them. The read of a whole file has.
        unpacks = (self.cause == FETCH) & names.node[self.op] & names.computing[self.op]
        self.cause[unpacks] = PREP
        self.cause[np.isin(self.op, names.starts)] = START
        self._charge_all(np.isin(lane.name_id, names.python), PREP)
        self._charge_all(np.isin(lane.name_id, names.worker), START)
        # Of the time between two pieces: what belongs to both goes on, a read is over when its bytes are taken, and
        # anything else is handed over.
        same = (self.cause[1:] == self.cause[:-1]) | (self.cause[:-1] == FETCH)
        self.between = np.where(same, self.cause[:-1], np.int8(FRAMEWORK))
        self.waits = (category == _ITERATOR) & (self.end - self.start >= NODE_NS)
        self.queue = np.full(len(owner), -1)
        for name, cause in names.queues:
            mine = lane.name_id == name
            self.queue[inside(self.start, self.start + 1, union(lane.start_ns[mine], lane.end_ns[mine]))] = cause
        self.calls = _starting_calls(lane, names)
        self.call_times = union(*(np.array([call[k] for call in self.calls], np.int64) for k in (0, 1)))
        self.starts = inside(self.start, self.start + 1, self.call_times)
        rested = self.start - np.r_[np.int64(-1), self.end[:-1]] >= REST_NS
        stop, turns = self.waits, np.diff(self.starts, prepend=False)
        barrier = stop | np.r_[False, stop[:-1]][: len(stop)] | turns | rested
        self.back = np.maximum.accumulate(np.where(barrier, np.arange(len(owner)), 0))

    def _charge_all(self, outer: np.ndarray, cause: int) -> None:
        """Charge what is inside a Python function, or the start of a worker, to it: it is what has to change."""
        if outer.any():
            lane = self.lane
            within = inside(self.start, self.start + 1, union(lane.start_ns[outer], lane.end_ns[outer]))
            last = np.searchsorted(lane.start_ns[outer], self.start, "right") - 1
            self.op = np.where(within, lane.name_id[outer][np.clip(last, 0, None)], self.op)
            self.cause = np.where(within, np.int8(cause), self.cause)


class _Spans(NamedTuple):
    """Spans of several lanes in the order of their ends: arrays of shape (n,)."""

    start: np.ndarray
    end: np.ndarray
    name: np.ndarray
    step: np.ndarray
    lane: np.ndarray


class CriticalPath:
    """The walk back through the gaps of one timeline.

    Parameters
    ----------
    lanes : sequence of Lane
        Of a measured trace, with ``Iterator::…`` spans, or of a modelled one without; the accelerator first.
    waits : Intervals
        When the consumer waits for a batch, in window time.
    run : Run
        Its cores and its warm-up are used.
    names : tuple of str
        What the spans of the lanes are called.
    efforts : mapping of str to Effort
        Whether ops compute or wait, see `labkit.timeline.causes.effort`: a source that computes unpacks what it reads.

    Attributes
    ----------
    parts : ndarray of int64, shape (len(CAUSES),)
        The gap that was followed last, split by cause.
    ops : Counter of (cause, index into names)
        The same, split by what ran on the path; without what has no op.
    starting : Counter of index into names
        How much of it a node took to begin an epoch or to fill its buffer, whatever ran meanwhile.
    """

    def __init__(
        self, lanes: Sequence[Lane], waits: Intervals, run: Run, names: tuple[str, ...],
        efforts: Mapping[str, Effort] | None = None,
    ) -> None:  # fmt: skip
        self.lanes, self.run, self.names, self.waits = lanes, run, SpanNames(names, efforts or {}), waits
        span_ns = lanes[0].window_ns
        # Beside other processes, the lanes of each begin with its name; nothing of another one makes a batch of this.
        mine = [lane.name.startswith(lanes[0].name.removesuffix("accelerator")) and len(lane) > 0 for lane in lanes]
        shown = [i for i, lane in enumerate(lanes) if mine[i] and (lane.feeds or lane.kind == "stream")]
        self.tracks = {i: Track(lanes[i], i, self.names) for i in shown}
        # A unit of a device takes no core.
        self.threads = [track for track in self.tracks.values() if track.lane.kind != "unit"]
        self.cores = run.host.cpus or len(self.tracks) + 1
        self.hidden = run.loader is not None and run.loader.hidden > 0
        held_up = WorkerWaits(lanes, run).held_up if run.loader else {}
        self.held_up = {i: held_up[name] for i, name in enumerate(names) if name in held_up}
        # A kernel of the accelerator is what is waited with, one of another device may be what is waited for.
        self.ended = self._spans(lambda lane: (lane.category != _KERNEL) | (lane.kind == "unit"))
        self.copies = self._spans(lambda lane: lane.category == _COPY)
        # No later copy starts before this one does.
        self.copies_from = np.minimum.accumulate(self.copies.start[::-1])[::-1]
        meets = lanes[0].category == CATEGORIES.index("wait")
        self.meets = Intervals(lanes[0].start_ns[meets], lanes[0].end_ns[meets])
        self.met, self.meeting = lanes[0].name_id[meets], union(*self.meets)
        self.copying, self.python = union(*self.copies[:2]), self.covered(self.names.python)
        # When prep ran in as many threads as there are cores, others may have had to wait for a core.
        works = [union(t.start[m], t.end[m]) for t in self.threads for m in [t.cause == PREP]]
        free = complement(self.python, 0, span_ns)
        self.full = at_least([free, at_least(works, self.cores)], 2) if len(free.start) else free
        self.among: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}  # ended spans of a step, or below a node
        self.by_step = np.argsort(self.ended.step, kind="stable")
        self.step = -1
        # Whether the first wait is for a pipeline that still had to start.
        each, cold = waits.end - waits.start, not run.warmup and len(waits.start) > 1
        self.starts_cold = cold and each[0] >= max(START_FACTOR * np.median(each[1:]), START_NS)
        self.left: set[int] = set()

    def _spans(self, select: Callable[[Lane], np.ndarray]) -> _Spans:
        """Return the spans that `select` (a mask for a lane) chooses, without those of no length."""
        rows = [np.zeros((5, 0), np.int64)]
        for index, track in self.tracks.items():
            lane = track.lane
            mask = select(lane) & (lane.end_ns > lane.start_ns)
            columns = (lane.start_ns, lane.end_ns, lane.name_id, lane.step)
            rows.append(np.stack([*(c[mask].astype(np.int64) for c in columns), np.full(mask.sum(), index)]))
        found = np.concatenate(rows, axis=1)
        return _Spans(*found[:, np.argsort(found[1], kind="stable")])

    def covered(self, name_ids: np.ndarray) -> Intervals:
        """Return when any span with one of these names was open."""
        return union(*self._spans(lambda lane: np.isin(lane.name_id, name_ids))[:2])

    # -- one gap -------------------------------------------------------------------

    def between(self, first: int, last: int) -> np.ndarray:
        """Return what is on the critical path of the batch that is in hand at `last`, back to `first`, by cause."""
        self._begin()
        self._wait(first, last, -1)
        self._settle()
        return self.parts

    def follow(self, gap: Gap) -> tuple[int, int, int, int]:
        """Charge each instant of a gap to `parts` and `ops`; return op, lane, start and end of the span waited for."""
        first, last = gap.start_ns, gap.start_ns + gap.length_ns
        self._begin()
        if self.starts_cold and gap.kind == "start":
            self.parts[START] = gap.length_ns
            return -1, -1, -1, -1
        waits, meeting = _clipped(self.waits, first, last), _clipped(self.meeting, first, last)
        for start, end in _pairs(waits):
            self._wait(start, end, gap.step)
        if len(meeting.start):
            meeting = at_least([complement(waits, first, last), meeting], 2)
            for start, end in _pairs(meeting):
                self._met(start, end)
            waits = union_of([waits, meeting])
        # Outside of a wait, the device gets its batch, or Python is on its way.
        for start, end in _pairs(complement(waits, first, last)):
            copied = _clipped(self.copying, start, end)
            self._copied(copied)
            for rest in _pairs(complement(copied, start, end)):
                self._rest(*rest, handed_over=gap.kind in ("host", "wait"))
        pieces = self._settle()
        self._hold_up()
        longest = self._longest(pieces)
        if longest[0] in self.names.python and not self.noted:  # the walk went from one call of Python to another
            for begin, end, node in (call for track in self.tracks.values() for call in track.calls):
                self.starting[node] += max(0, min(end, last) - max(begin, first))
        return longest

    def _met(self, first: int, last: int) -> None:
        """Charge a wait in the middle of a train step to those who were not there yet, by the names of its spans."""
        at = np.arange(*(self.meets.end.searchsorted(first, "right"), self.meets.start.searchsorted(last)))
        for op, start, end in zip(self.met[at].tolist(), self.meets.start[at], self.meets.end[at], strict=True):
            ns = int(min(end, last) - max(start, first))
            self._charge(PROCESS, ns, op)
            for index, lane in enumerate(self.lanes):
                process = lane.name.rpartition(" · ")[0]
                if lane.kind == "stream" and process and self.names.names[op].endswith(process):
                    row = int(np.argmax(np.minimum(lane.end_ns, end) - np.maximum(lane.start_ns, start)))
                    self.single.append((op, ns, index, int(lane.start_ns[row]), int(lane.end_ns[row])))

    def _hold_up(self) -> None:
        """Charge the share of work to cores, and to the interpreter, for which all calls of its op waited for them."""
        for (cause, op), ns in list(self.ops.items()):
            for wait, share in self.held_up.get(op, {}).items():
                if cause in _CAUSE.values():
                    self._charge(wait, int(ns * share), op)
                    self.parts[cause] -= int(ns * share)
                    self.ops[cause, op] -= int(ns * share)

    def _begin(self) -> None:
        """Forget the last gap."""
        self.parts = np.zeros(len(CAUSES), np.int64)
        self.ops: Counter[tuple[int, int]] = Counter()
        self.chains: dict[int, list[tuple[int, int, int, int]]] = {}
        self.single: list[tuple[int, int, int, int, int]] = []  # op, length, lane, start and end of its span
        self.starting: Counter[int] = Counter()
        self.noted: dict[tuple[int, int], tuple[int, int, int]] = {}  # starting calls: start and end in the gap, node
        self.queue = -1  # the cause of the wait at a queue that the walk came through

    def _charge(self, cause: int, ns: int, op: int = -1) -> None:
        """Add a time to a cause, and to the op that it is for."""
        if ns > 0:
            self.parts[cause] += ns
            if op >= 0 and cause not in (FRAMEWORK, UNKNOWN):
                self.ops[cause, op] += int(ns)

    def _settle(self) -> dict[int, np.ndarray]:
        """Charge the runs of pieces that `_chain` noted, all at once; return the pieces by lane."""
        pieces, width = {}, len(self.names.names)
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

    def _copied(self, copied: Intervals) -> None:
        """Charge copies outside of waits, from the last to the first; of two at once, the one that ends last."""
        for start, end in _pairs(copied):
            now = end
            a = np.searchsorted(self.copies.end, start, side="right")
            b = np.searchsorted(self.copies_from, end, side="left")
            for row in range(int(b) - 1, int(a) - 1, -1):
                copy_start, copy_end, op, _, lane = (int(column[row]) for column in self.copies)
                begin = max(copy_start, start)
                if begin < now:
                    self._charge(COPY, now - begin, op)
                    self.single.append((op, now - begin, lane, copy_start, copy_end))
                    now = begin
                if now == start:
                    break

    def _longest(self, pieces: dict[int, np.ndarray]) -> tuple[int, int, int, int]:
        """Return the main op of the main cause, and the longest span of that op on the path with its lane."""
        kind = int(np.argmax(self.parts))
        mine = {op: ns for (cause, op), ns in self.ops.items() if cause == kind}
        op = min(mine, key=lambda o: (-mine[o], self.names.names[o])) if mine else -1
        found = [(length, lane, start, end) for o, length, lane, start, end in self.single if o == op]
        for index, at in pieces.items() if op >= 0 else ():
            track = self.tracks[index]
            at = at[track.op[at] == op]
            if len(at):
                best, lane = int(at[np.argmax(track.end[at] - track.start[at])]), track.lane
                row = lane.pieces.owner[best]
                longest = track.end[best] - track.start[best], index, lane.start_ns[row], lane.end_ns[row]
                found.append(tuple(map(int, longest)))
        return op, *max(found, default=(-1, -1, -1, -1))[1:]

    # -- the walk --------------------------------------------------------------------

    def _wait(self, first: int, now: int, step: int) -> None:
        """Walk from the end of a wait, `now`, back to its start."""
        found = self._delivered(first, now, step)
        if found is None:
            self._rest(first, now)
            return
        end, lane = found
        self._rest(end, now, handed_over=True)
        self.step = step
        now, node, self.left = end, -1, {lane}
        while now > first:
            before = now
            now, lane, node = self._back(lane, now, first, node)
            self.left = {lane} if now < before else self.left | {lane}
        self.queue = -1

    def _rest(self, start: int, end: int, handed_over: bool = False, node: int = -1) -> None:
        """Charge time in which nothing ran on the path: to the op that held the GIL or all cores, else to overhead.

        A `node` that may have worked itself is charged with it. If processes were hidden, it is not charged, because it
        may have waited for them; nor is a node at a queue or a pipe. If the path is unknown, only a short time counts
        as overhead.
        """
        if len(self.python.start):
            start += self._held(self.python, start, end, int(self.names.python[0]))
        if end - start >= FRAMEWORK_NS and len(self.full.start):
            start += self._held(self.full, start, end, -1)
        for begin, now, starts in self.noted.values():  # time of a start without another cause is the start itself
            if begin <= start < end <= now:
                self._charge(START, end - start, starts)
                return
        if node >= 0 and not self.hidden and self.queue < 0 and not self.names.pipe[node]:
            self._charge(PREP, end - start, node)
            return
        unseen = self.queue if self.queue >= 0 else UNKNOWN
        self._charge(FRAMEWORK if handed_over or end - start < FRAMEWORK_NS else unseen, end - start)

    def _held(self, held: Intervals, start: int, end: int, op: int) -> int:
        """Charge the part of a time in which Python, or work on all cores, kept others from running; return it."""
        ns = int(np.diff(covered_until(held, np.array([start, end])))[0])
        self._charge(PREP, ns, op)
        return ns

    def _delivered(self, first: int, now: int, step: int) -> tuple[int, int] | None:
        """Return when and where the batch was ready: at the root of tf.data, or else where a span ended last."""
        ended = self.ended
        rows = np.arange(*np.searchsorted(ended.end, [first, now], side="right"))
        if not len(rows):  # nothing ended, but something may be running through the whole wait
            return self._running(first, now)
        root, mine = rows[self.names.root[ended.name[rows]]], rows[(ended.step[rows] == step) & (step >= 0)]
        best = next(some for some in (root, mine, rows) if len(some))
        return self._furthest(best[ended.end[best] == ended.end[best[-1]]].tolist())

    def _furthest(self, rows: list[int]) -> tuple[int, int]:
        """Return time and lane of the span, of several that ended at one time, that is furthest down the pipeline."""

        def place(row: int) -> tuple[int, int]:
            track = self.tracks[int(self.ended.lane[row])]
            cause = int(track.cause[np.searchsorted(track.end, self.ended.end[row], "right") - 1])
            return _DOWNSTREAM.get(cause, -1), row

        row = rows[0] if len(rows) == 1 else max(rows, key=place)
        return int(self.ended.end[row]), int(self.ended.lane[row])

    def _running(self, first: int, now: int) -> tuple[int, int] | None:
        """Return the end of a wait and the lane of a span that runs through all of it."""
        for track in self.tracks.values():
            at = int(np.searchsorted(track.end, first, side="right"))
            if at < len(track.start) and track.start[at] < now and track.lane.feeds:
                return now, track.index
        return None

    def _back(self, lane: int, now: int, first: int, node: int) -> tuple[int, int, int]:
        """Charge what a lane did just before `now`, and return where the walk goes on: time, lane, node waited at."""
        track = self.tracks[lane]
        piece = int(track.start.searchsorted(now)) - 1
        if piece < 0 or track.end[piece] < now:
            return self._rested(track, piece, now, first, node)
        if track.starts[piece]:
            self._note_start(track, piece, first, now)
        if track.waits[piece]:
            node, low = int(track.op[piece]), max(int(track.start[piece]), first)
            self.queue = int(track.queue[piece])
            found = self._ended(low, now, node)
            if found is None and not asynchronous(self.names.names[node]):
                # It has no threads to wait for, so it worked itself. Those that a loader may have are not seen.
                waits = self.run.loader and track.lane.name.endswith(WITH_CONSUMER)
                self._rest(low, now, node=-1 if waits else node)
                return low, lane, node
            if found and self.names.copies[node]:
                self._charge(BATCH, now - found[0], node)
            else:
                self._rest(found[0] if found else low, now, handed_over=found is not None)
            return (*found, node) if found else (low, lane, node)
        return self._chain(track, piece, now, first), lane, node

    def _rested(self, track: Track, piece: int, now: int, first: int, node: int) -> tuple[int, int, int]:
        """Go from a thread that had nothing to do to the span that ended last before it got something."""
        low = max(int(track.end[piece]) if piece >= 0 else first, first)
        found = self._ended(low, now, node)
        if found:
            self._rest(found[0], now, handed_over=node >= 0)
            return (*found, node)
        if 0 <= piece < len(track.between) and now - low < FRAMEWORK_NS:
            self._charge(int(track.between[piece]), now - low)
        else:
            self._rest(low, now)
        return low, track.index, node

    def _ended(self, low: int, now: int, node: int) -> tuple[int, int] | None:
        """Return time and lane of the last span that ended after `low` and not after `now`, in a lane not just left.

        Where the walk waits at a `node`, only spans below that node count. Spans of the awaited step go before others:
        of two worker processes the one that is busy with a later batch may have ended a span in between.
        """
        if node < 0 and (found := self._last(("step", self.step), low, now)):
            return found
        return self._last(("node", node), low, now)

    def _last(self, of: tuple[str, int], low: int, now: int) -> tuple[int, int] | None:
        """Return what `_ended` does, among the spans of a step, or below a node."""
        if of not in self.among:
            rows, (what, number) = np.arange(len(self.ended.end)), of
            if what == "step":
                few = np.searchsorted(self.ended.step, [number, number + 1], sorter=self.by_step)
                rows = self.by_step[slice(*few)] if number >= 0 else rows[:0]
            elif number >= 0:
                rows = rows[self.names.below(number)[self.ended.name]]
            self.among[of] = rows, self.ended.end[rows]
        rows, ends = self.among[of]
        at = int(ends.searchsorted(now, "right")) - 1
        while at >= 0 and ends[at] > low:
            if int(self.ended.lane[rows[at]]) not in self.left:
                same = rows[int(ends.searchsorted(ends[at])) : at + 1].tolist()
                return self._furthest([row for row in same if int(self.ended.lane[row]) not in self.left])
            at -= 1
        return None

    def _note_start(self, track: Track, piece: int, first: int, now: int) -> None:
        """Note once that a lane begins an epoch or fills a buffer; what runs meanwhile is charged as always."""
        at = int(np.searchsorted(track.call_times.start, track.start[piece], side="right")) - 1
        if (track.index, at) in self.noted:
            return
        begin = max(int(track.call_times.start[at]), first)
        start, end, node = self._starting(track, begin, now)
        self.noted[track.index, at] = begin, now, node
        self.starting[node] += now - begin
        self.single.append((node, now - begin, track.index, start, end))

    def _starting(self, track: Track, begin: int, now: int) -> tuple[int, int, int]:
        """Return start, end and node of the call that took most of the time; the innermost that took half of it."""
        share = {call: max(min(call[1], now) - max(call[0], begin), 0) for call in track.calls}
        half = [call for call in share if 2 * share[call] >= now - begin]
        return max(half, key=lambda c: len(self.names.names[c[2]])) if half else max(share, key=lambda c: share[c])

    def _chain(self, track: Track, piece: int, now: int, first: int) -> int:
        """Note a run of pieces that follow each other in one thread, for `_settle`; return when it began."""
        a = int(track.back[piece])
        if track.start[a] < first:
            a = max(a, int(track.end.searchsorted(first, "right")))
        begin = max(int(track.start[a]), first)
        self.chains.setdefault(track.index, []).append((a, piece + 1, begin, now))
        return begin


def _starting_calls(lane: Lane, names: SpanNames) -> list[tuple[int, int, int]]:
    """Return start, end and node of each call in which a repeat begins an epoch, or a shuffle fills its buffer.

    Such a call asks the input of its node several times, and takes much longer than the others.
    """
    found: list[tuple[int, int, int]] = []
    for node in np.unique(lane.name_id[lane.category == _ITERATOR]).tolist():
        leaf = names.names[node].rpartition("::")[2]
        if not leaf.startswith("Shuffle") and not leaf.endswith("Repeat"):
            continue
        mine = lane.name_id == node
        start, end = lane.start_ns[mine], lane.end_ns[mine]
        inputs = [i for i, n in enumerate(names.names) if n.rpartition("::")[0] == names.names[node]]
        asked = lane.start_ns[np.isin(lane.name_id, inputs)]
        least = 3 if leaf.startswith("Shuffle") else 2
        several = np.searchsorted(asked, end) - np.searchsorted(asked, start) >= least
        # Where most calls do so (a repeat of a single element), it is no boundary.
        if 2 * several.sum() <= len(several) or len(several) == 1:
            usual = np.median(end - start) if len(several) > 1 else 0
            new = several & (end - start >= max(START_FACTOR * usual, START_NS))
            found += zip(start[new].tolist(), end[new].tolist(), [node] * int(new.sum()), strict=True)
    return found


def _clipped(intervals: Intervals, first: int, last: int) -> Intervals:
    """Return the parts of disjoint intervals within ``[first, last)``."""
    a, b = np.searchsorted(intervals.end, first, side="right"), np.searchsorted(intervals.start, last, side="left")
    return Intervals(np.maximum(intervals.start[a:b], first), np.minimum(intervals.end[a:b], last))


def _pairs(intervals: Intervals) -> Iterator[tuple[int, int]]:
    return zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
