"""What the threads of each operation did in its own time: how much of it they were on a core, and what they waited for.

A span says when an operation was open. Three sources tell work from waiting in it, the surest first:

1. What is known without measuring: a simulation states its costs and who sleeps, a modelled storage only waits, and a
   thread at a queue waits for the queue.
2. The clock of the processor: `labkit.timeline.causes.effort`, or the time of each call where a loader was recorded.
3. What the operation is: to decode, to resize and to copy into a batch is to compute; a read waits for storage.

Threads that are ready have a core as often as Linux counted it, and else share the cores with all that compute at the
same time. Together they are on no more cores than the clock of the processor saw. While a core is free nobody waits for
one: what Linux counts then is the time that a thread takes to wake up, and belongs to its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from labkit.timeline.causes import per_gap
from labkit.timeline.causes.effort import Effort, had_core, queued
from labkit.timeline.causes.node_work import asynchronous
from labkit.timeline.causes.thresholds import BACKGROUND, INTERPRETER_FULL, NODE_NS, ONE_CORE, ONE_THREAD
from labkit.timeline.causes.worker_waits import WorkerWaits
from labkit.timeline.intervals import at_least, overlap, union
from labkit.timeline.lanes import GET, IS_WORK, PIPE, PUT, Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import MODELLED, PYTHON_OPS, REQUESTED, TF_DATA, short_op

#: What a thread waits for while it is not on a core.
STORAGE, CORE, INTERPRETER, BUFFER, OTHER, UNKNOWN = "storage", "core", "interpreter", "buffer", "other", "unknown"

#: All of it, in words.
WORDS = {
    STORAGE: "waits for storage",
    CORE: "waits for a core",
    INTERPRETER: "waits for the interpreter",
    BUFFER: "waits for a buffer: full or empty",
    OTHER: "waits for another thread",
    UNKNOWN: "waits, unexplained",
}
WAITS = tuple(WORDS)

#: Lanes of threads; devices are on no core.
_KINDS = ("wait", "script", "pipeline", "host")
#: Categories of work that computes.
_COMPUTE = ("decode", "resize", "map", "batch")

#: From this measured share on an operation computed all the time; the rest is the error of the measurement.
_ALL = 0.75
#: Threads that keep at least this share of the cores busy, and are more than there are cores, wait for a core.
_FULL = 0.7
#: A core is free where all that compute at once, and other programs, leave at least this much of the cores.
_SPARE = 0.25
#: All operations together claim no more than this many times the processor time that was measured.
_MOST = 1.1


class State(NamedTuple):
    """What the threads of an operation did in its own time.

    Parameters
    ----------
    share : float
        Of this time on a core, 0 to 1: 1 for what only computes, 0 for what only waits.
    waits : str
        What it waits for in most of the rest, one of `WAITS`; empty where `share` is 1.
    """

    share: float
    waits: str


class _Guess(NamedTuple):
    """A state in the making: the share in which it computed or was ready to, and what it waited for in the rest.

    `had` is the share of the ready time in which it had a core; None where it is like that of all others.
    """

    effort: float
    waits: str
    had: float | None = None


def states(
    lanes: Sequence[Lane], run: Run, names: Sequence[str], efforts: Mapping[str, Effort]
) -> dict[tuple[int, int], State]:
    """Return the state of each operation in lanes of threads, by code of its category and number of its name.

    Parameters
    ----------
    lanes : sequence of Lane
        The accelerator first.
    run : Run
    names : sequence of str
        What the spans of the lanes are called.
    efforts : mapping of str to Effort
        Whether ops compute or wait, see `labkit.Timeline.efforts`.
    """
    ops = _OwnTimes(lanes, run, names, efforts)
    guesses = [ops.guess(*pair) for pair in ops.pairs]
    effort, had, claimed = ops.claim(guesses)
    # The clock cannot tell apart ops that follow one another in every element. As long as its sum allows it, what they
    # are is believed: those that compute by their kind compute.
    plain = [usual if usual.effort == 1 else guess for usual, guess in zip(ops.usual(), guesses, strict=True)]
    if ops.cpu_ns is not None:
        believed = ops.claim(plain)
        if believed[2] <= _MOST * ops.cpu_ns:
            guesses, (effort, had, claimed) = plain, believed
        if claimed > _MOST * ops.cpu_ns:
            effort *= _MOST * ops.cpu_ns / claimed
    found = {}
    for pair, guess, computes, cores in zip(ops.pairs, guesses, effort.tolist(), had.tolist(), strict=True):
        share, lacked = computes * cores, computes * (1 - cores)
        waits = CORE if lacked > max(1e-9, 1 - computes) else guess.waits
        found[pair] = State(1.0, "") if share > 1 - 1e-9 else State(share, waits)
    return found


class _OwnTimes:
    """The operations of one timeline: their own times, and what is known of each by itself.

    Attributes
    ----------
    pairs : list of (category, name)
        In rising order.
    own_ns : ndarray of float64, shape (pairs,)
        Own time of each, all threads together.
    cpu_ns : int or None
        Processor time of the window, where samples say it; with the time of waking up where a core was free.
    """

    def __init__(self, lanes: Sequence[Lane], run: Run, names: Sequence[str], efforts: Mapping[str, Effort]) -> None:
        self.run, self.names, self.efforts = run, names, efforts
        shown, width = [lane for lane in lanes if lane.kind in _KINDS], max(1, len(names))
        keys = [lane.category.astype(np.int64) * width + lane.name_id for lane in shown]
        occurs = np.bincount(_joined(keys), minlength=width * len(CATEGORIES)) > 0
        each = np.flatnonzero(occurs)
        self.pairs = [divmod(key, width) for key in each.tolist()]
        self.start, self.end = (_joined([getattr(lane.pieces, side) for lane in shown]) for side in ("start", "end"))
        owned = [key[lane.pieces.owner] for key, lane in zip(keys, shown, strict=True)]
        self.op, length = (np.cumsum(occurs) - 1)[_joined(owned)], self.end - self.start
        self.own_ns = self._sums(length)
        self.works = dict(zip(self.pairs, self._bookkeeping(length).tolist(), strict=True))
        of = ([key for key, lane in zip(keys, shown, strict=True) if lane.kind == kind] for kind in ("host", "script"))
        self.host, self.script = ({divmod(key, width) for key in np.unique(_joined(some)).tolist()} for some in of)
        self.loader = WorkerWaits(lanes, run) if run.op_times and lanes else None
        clock = run.processor
        self.cpu_ns = clock.cpu_ns[-1] - clock.cpu_ns[0] if clock and len(clock.cpu_ns) > 1 else None
        computing = np.array([CATEGORIES[category] in _COMPUTE for category, _ in self.pairs], bool)
        self.computing_at_once = self._at_once(computing)
        # Of what the process computed, work outside of its ops took `BACKGROUND` at most, but for training on cores.
        self.real = run.accelerator.kind in ("real", "software")
        self.least_ns = 0 if self.real or not (lanes and self.cpu_ns) else self.cpu_ns - BACKGROUND * lanes[0].window_ns
        counted = self.cpu_ns is not None and clock.queued_ns is not None
        self.ready = had_core(self.cpu_ns, queued(run)) if counted else None
        if counted and self._free_cores(lanes, computing[self.op]) >= _SPARE:
            self.ready, self.cpu_ns = 1.0, self.cpu_ns + queued(run)
        # Of all that calls Python, one thread at a time has the interpreter.
        self.python = {name for _, name in self.pairs if short_op(names[name]) in PYTHON_OPS}
        self.python_at_once = self._at_once([name in self.python for _, name in self.pairs])
        # Those that keep more than a core busy have let go of it; those that want less wait for something else.
        cores = sum(one.cores for word, one in efforts.items() if word in PYTHON_OPS)
        full = not cores or (cores <= ONE_CORE and cores / (self.ready or 1.0) >= INTERPRETER_FULL)
        self.interpreter_full = self.python_at_once > ONE_THREAD and full

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of a value of each piece of time, by operation."""
        return np.bincount(self.op, values, len(self.pairs))

    def _free_cores(self, lanes: Sequence[Lane], computes: np.ndarray) -> float:
        """Return how many cores are free while threads compute; a train step on the processor takes all of them."""
        any_ns = union(self.start[computes], self.end[computes])
        on_host = self.real and all(lane.kind != "stream" for lane in lanes)
        trains = at_least([any_ns, lanes[0].busy], 2).total_ns / max(1, any_ns.total_ns) if on_host else 0.0
        return (self.run.host.cpus or 0) * (1 - (self.run.host.others or 0.0) - trains) - self.computing_at_once

    def _bookkeeping(self, length: np.ndarray) -> np.ndarray:
        """Return the share of its own time in which each node works itself, for pieces of such lengths.

        A node with threads of its own keeps books for a moment, or waits for them. Any other works while no op runs: it
        takes a batch apart, or calls a function; else it waits for the op.
        """
        category = np.array([category for category, _ in self.pairs], np.int64)
        waits = np.array([asynchronous(self.names[name]) for _, name in self.pairs], bool)[self.op]
        works, ops = np.where(length <= NODE_NS, length, 0), IS_WORK[category][self.op]
        others = (category == CATEGORIES.index("iterator"))[self.op] & ~waits
        if others.any():
            busy = union(self.start[ops], self.end[ops])
            works[others] = length[others] - overlap(busy, self.start[others], self.end[others])
        return self._sums(works) / np.maximum(self.own_ns, 1)

    def _at_once(self, chosen: Sequence[bool]) -> float:
        """Return how many threads do such operations at once, on average over the time that any does."""
        mine = np.array(chosen, bool)[self.op]
        any_ns = union(self.start[mine], self.end[mine]).total_ns
        return float((self.end - self.start)[mine].sum()) / any_ns if any_ns else 0.0

    def claim(self, guesses: Sequence[_Guess]) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the efforts of all operations, the shares in which they had a core, and all their processor time."""
        effort = np.array([guess.effort for guess in guesses])
        shared = self.cores_shared(effort).tolist()
        had = np.array([cores if g.had is None else g.had for g, cores in zip(guesses, shared, strict=True)])
        return effort, had, float((effort * had) @ self.own_ns)

    def usual(self) -> list[_Guess]:
        """Return what each operation of a kind that is measured usually does; a guess of nothing for the others."""
        known = [IS_WORK[category] and CATEGORIES[category] in _COMPUTE for category, _ in self.pairs]
        return [self._usual(*pair) if one else _Guess(0.0, "") for pair, one in zip(self.pairs, known, strict=True)]

    # -- what is known of one operation

    def guess(self, category: int, name: int) -> _Guess:
        """Return what is known of an operation without the others."""
        text, kind, run = self.names[name], CATEGORIES[category], self.run
        word = short_op(text)
        usual = self._usual(category, name)
        if kind == "wait" or word == MODELLED:
            return usual
        if run.sleeps or run.costs_ms:
            # The spans of a batch have the name of their node.
            words = {text, *(["batch"] if kind == "batch" else ["map"] if kind in _COMPUTE else [])}
            if words.intersection(run.sleeps):
                return _Guess(0.0, STORAGE if kind == "read" else OTHER)
            if text in run.costs_ms:
                return _Guess(self._stated(category, name), STORAGE if kind == "read" else UNKNOWN)
            if run.costs_ms:
                return usual if kind == "batch" else _Guess(0.0, usual.waits)
        if self.loader and text in run.op_times:
            return self._timed(text, usual)
        measured = self.efforts.get(word) if IS_WORK[category] else None
        return self._measured(measured, usual, name in self.python) if measured else usual

    def _stated(self, category: int, name: int) -> float:
        """Return the share in which work of a simulation wants a core: all, unless its storage adds time to it."""
        text, knobs = self.names[name], self.run.knobs
        if not knobs.get({"open": "latency_ms", "read": "bandwidth_mb_s"}.get(text, "")):
            return 1.0
        images = (self.run.images or 0) * (1 - knobs.get("cache_hit", 0.0))
        own_ns = self.own_ns[self.pairs.index((category, name))]
        return min(1.0, self.run.costs_ms[text] * 1e6 * images / max(1.0, own_ns))

    def _usual(self, category: int, name: int) -> _Guess:
        """Return what such an operation usually does."""
        text, kind, pair = self.names[name], CATEGORIES[category], (category, name)
        if kind == "wait" or (kind == "iterator" and text in (GET, PUT, *PIPE)):
            return _Guess(0.0, BUFFER)
        if kind == "read":
            return _Guess(0.0, STORAGE)
        if kind == "iterator" and text.startswith("Iterator::"):
            return _Guess(self.works[pair], BUFFER if short_op(text) in ("Root", "Prefetch") else OTHER)
        if kind == "train":  # a validation in the lane of a script
            return _Guess(float(self.run.accelerator.kind == "software"), OTHER)
        device = pair in self.script and kind in ("transfer", "copy", "kernel")  # or an all-reduce
        if kind == "iterator" or device or text == TF_DATA or text.startswith(REQUESTED):
            return _Guess(0.0, OTHER)
        if name in self.python and self.interpreter_full:
            return _Guess(1 / self.python_at_once, INTERPRETER)
        knows = kind != "other" or pair in self.host or self.run.origin == "modelled"
        return _Guess(float(knows), UNKNOWN)

    def _timed(self, text: str, usual: _Guess) -> _Guess:
        """Return what an operation of another loader did, whose calls were each measured."""
        share, held = self.loader.share(text), self.loader.held_up[text]
        ready = share + held[per_gap.CORE]
        waits = INTERPRETER if per_gap.GIL in held else usual.waits or UNKNOWN
        return _Guess(_rounded(ready), waits, share / ready if ready else 1.0)

    def _measured(self, measured: Effort, usual: _Guess, python: bool) -> _Guess:
        """Return what an operation did by the clock of the processor; what it is decides what the clock leaves open."""
        computes = usual.effort > 0 if measured.computes is None else measured.computes
        holds = python and self.interpreter_full
        wanted = measured.high if computes or holds else measured.low
        # Above 1, it had a core more often than other threads that were ready.
        ran = _rounded(min(1.0, wanted * (self.ready or 1.0)))
        if holds:
            wanted = min(wanted, 1 / self.python_at_once)
        elif self.ready is None and usual.effort == 1 and self._fills_cores(measured):
            wanted = 1.0  # nobody counted who waited for a core
        wanted = max(ran, _rounded(min(1.0, wanted)))
        return _Guess(wanted, usual.waits, ran / wanted if wanted else 1.0)

    def _fills_cores(self, measured: Effort) -> bool:
        """Tell whether more threads compute than there are cores, with such an effort, and keep the cores busy."""
        cores = self.run.host.cpus or np.inf
        return self.computing_at_once > cores and measured.high * self.computing_at_once >= _FULL * cores

    # -- all operations together

    def cores_shared(self, effort: np.ndarray) -> np.ndarray:
        """Return the share of its ready time in which each operation had a core, 0 to 1, shape (pairs,).

        It is counted, or all that are ready at one time share the cores equally. Threads of which one hands over to
        another one are queued for longer than any op is open, so no op had less than what the process computed for ops.
        """
        cores, had = self.run.host.cpus, np.ones(len(self.pairs))
        if self.ready is not None or not cores:
            return had * max(self.ready or 1.0, min(1.0, self.least_ns / max(1.0, float(effort @ self.own_ns))))
        order = np.argsort(np.r_[self.start, self.end], kind="stable")
        weight = effort[self.op]
        wanted = np.cumsum(np.r_[weight, -weight][order])
        most = 1 + self.run.knobs.get("core_gain", 1.0) * (np.minimum(wanted, cores) - 1)
        speed = np.where(wanted > 1 + 1e-9, most / np.maximum(wanted, 1), 1.0)
        worked = np.empty(len(order))
        worked[order] = np.r_[0.0, np.cumsum(np.diff(np.r_[self.start, self.end][order]) * speed[:-1])][: len(order)]
        got = self._sums(worked[len(self.op) :] - worked[: len(self.op)])
        return np.divide(got, self.own_ns, out=had, where=self.own_ns > 0)


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _rounded(share: float) -> float:
    """Return a measured share without its error: 1 where it is nearly all of the time."""
    return 1.0 if share >= _ALL else share
