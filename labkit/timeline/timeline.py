"""From a `Trace` to what a picture or a sentence needs: lanes, busy shares, idle gaps with their cause.

Pure functions of one trace, in integer nanoseconds counted from the start of its window.
Nothing here draws, sleeps, or knows whether the run was measured or modelled; the
trace carries that word, and the text of a `Timeline` begins with it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from labkit.timeline.causes import CAUSES, Causes, Split, Stalls, find, split, stalls
from labkit.timeline.describe import describe, milliseconds
from labkit.timeline.intervals import Intervals, complement, covered_until, intersection, union
from labkit.timeline.lanes import WORK, Lane, bins, build, cut, lod
from labkit.timeline.trace import CATEGORIES, Trace

__all__ = ["CAUSES", "GAP_KINDS", "Gap", "Gaps", "Lane", "Timeline", "bins", "lod"]

#: Why the accelerator is idle. ``start``: before its first work in the window; ``wait``: the consumer waits for
#: a batch; ``inside``: within a train step, between kernels; ``host``: the consumer does something else;
#: ``tail``: after its last work.
GAP_KINDS = ("start", "wait", "inside", "host", "tail")


class Gap(NamedTuple):
    """One idle time of the accelerator: where, how long, which batch (-1 if unknown) and why (`GAP_KINDS`)."""

    start_ns: int
    length_ns: int
    step: int
    kind: str

    def __str__(self) -> str:
        """Return its length and cause in words."""
        batch = f"batch {self.step}" if self.step >= 0 else "a batch"
        step = f"step {self.step}" if self.step >= 0 else "a step"
        cause = {
            "start": f"before {step}" if self.step >= 0 else "without a step",
            "wait": f"waiting for {batch}",
            "inside": f"inside {step}",
            "host": f"between steps, before {step}",
            "tail": "after the last step",
        }
        return f"{milliseconds(self.length_ns)} ms {cause[self.kind]}"


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle times of the accelerator in rising order, as columns; iterate for one `Gap` at a time.

    Parameters
    ----------
    start_ns, length_ns : ndarray of int64, shape (n,)
    step : ndarray of int64, shape (n,)
        The batch or step it delays, -1 if unknown.
    kind : ndarray of int8, shape (n,)
        Index into `GAP_KINDS`.
    """

    start_ns: np.ndarray
    length_ns: np.ndarray
    step: np.ndarray
    kind: np.ndarray

    def __len__(self) -> int:
        """Return the number of gaps."""
        return len(self.start_ns)

    def __getitem__(self, index: int) -> Gap:
        """Return one gap."""
        i = operator.index(index)
        return Gap(int(self.start_ns[i]), int(self.length_ns[i]), int(self.step[i]), GAP_KINDS[self.kind[i]])

    def __iter__(self) -> Iterator[Gap]:
        """Yield gaps from first to last."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """Return number and total length on one line."""
        return f"Gaps({len(self):,}, {milliseconds(int(self.length_ns.sum()))} ms)"

    def where(self, mask: np.ndarray) -> Gaps:
        """Return the gaps that `mask` (bool or index array) selects."""
        return Gaps(self.start_ns[mask], self.length_ns[mask], self.step[mask], self.kind[mask])

    def largest(self, count: int) -> list[Gap]:
        """Return the `count` longest gaps, longest first, earlier ones first on ties."""
        order = np.argsort(-self.length_ns, kind="stable")[:count]
        return list(self.where(order))


class Timeline:
    """Lanes, busy shares, gaps and figures of a trace.

    Parameters
    ----------
    trace : Trace
    min_gap_ns : int
        Shorter gaps are left out of `gaps`; they still count as idle time.
    explain : bool
        Say what each gap waited for. Without, lanes and gaps are shown and no causes: a drill is drawn like this.

    Attributes
    ----------
    trace : Trace
        What it was made from.
    run : Run
        What the trace says about the run.
    origin : str
        "measured" or "modelled".
    span_ns : int
        Length of the window: ``window_ns`` of the run, or else from the first start to the last end.
    lanes : tuple of Lane
        The accelerator, its streams if it has any, the consumer's waits, and one lane per thread.
    accelerator : Lane
        Where device threads ran kernels, the union of the kernels; where the accelerator is
        modelled or its device unseen, the train steps of the consumer.
    gaps : Gaps
        When the accelerator is idle, and why.

    Raises
    ------
    ValueError
        If `min_gap_ns` is negative.
    """

    def __init__(self, trace: Trace, min_gap_ns: int = 0, explain: bool = True) -> None:
        if not isinstance(trace, Trace):
            raise TypeError(f"a Timeline is made from a Trace, got {type(trace).__name__}")
        if min_gap_ns < 0:
            raise ValueError(f"min_gap_ns is {min_gap_ns}; allowed: 0 or more")
        self.trace, self.explain = trace, explain
        self.run, self.origin = trace.run, trace.run.origin
        self.names = trace.names
        self.start_ns, self.span_ns = _window(trace)
        self.lanes = build(trace, self.start_ns, self.span_ns)
        self.accelerator = self.lanes[0]
        self._waits, self._trains = (_consumer(trace, c, self.start_ns, self.span_ns) for c in ("wait", "train"))
        gaps = _gaps(self.accelerator, self._waits, self._trains, self.span_ns)
        self.gaps = gaps.where(gaps.length_ns >= min_gap_ns)

    # -- the accelerator and the steps ----------------------------------------

    @property
    def busy(self) -> float:
        """Share of the window in which the accelerator works, 0 to 1."""
        return self.accelerator.share

    @property
    def idle_ns(self) -> int:
        """Nanoseconds of the window in which the accelerator does not work."""
        return self.span_ns - self.accelerator.busy.total_ns

    @property
    def steps(self) -> int:
        """Train steps in the window."""
        return len(self._trains.start)

    @cached_property
    def step_numbers(self) -> np.ndarray:
        """Number of each step in the window, int64, shape (steps,)."""
        return self._trains.number

    @cached_property
    def step_edges_ns(self) -> np.ndarray:
        """Where steps begin and end, int64, shape (steps + 1,): a step begins with the wait for its batch.

        The first begins with the window and the last ends with it; without steps there is none, shape (0,).
        """
        if not self.steps:
            return np.zeros(0, np.int64)
        edges = self._trains.start.copy()
        if len(self._waits.start):
            place = np.clip(np.searchsorted(self._waits.start, edges, side="right") - 1, 0, None)
            before = self._waits.start[place]
            previous = np.r_[np.int64(-1), self._trains.start[:-1]]
            edges = np.where((before <= edges) & (before > previous), before, edges)
        return np.r_[np.int64(0), edges[1:], np.int64(self.span_ns)]

    @property
    def wait_ms(self) -> float:
        """Median wait of the consumer for a batch, in milliseconds; 0 without waits."""
        return _median_ms(self._waits)

    @property
    def train_ms(self) -> float:
        """Median train step of the consumer, in milliseconds; 0 without steps."""
        return _median_ms(self._trains)

    @property
    def step_ms(self) -> float:
        """Median time from the end of a train step to the end of the next, in milliseconds; 0 without steps."""
        return float(np.median(np.diff(self._trains.end, prepend=0))) / 1e6 if self.steps else 0.0

    # -- what it waited for ----------------------------------------------------

    @property
    def waits(self) -> Intervals:
        """When the consumer waits for a batch, in window time."""
        return union(self._waits.start, self._waits.end)

    @cached_property
    def causes(self) -> Causes:
        """What each of `gaps` waited for, in their order; see `labkit.timeline.causes`."""
        if not self.explain:
            return Causes.unexplained(self.gaps, self.names, tuple(lane.name for lane in self.lanes))
        return find(self)

    @cached_property
    def stalls(self) -> Stalls:
        """Shares of the window by cause, the op to blame, and what to change."""
        return stalls(self)

    @cached_property
    def split(self) -> Split:
        """Fetch stall and prep stall as the differential method defines them, estimated from this one run."""
        return split(self)

    # -- images and the work on them -------------------------------------------

    @property
    def images(self) -> int | None:
        """Images trained on in the window, None where the trace does not say."""
        if self.run.images is not None:
            return self.run.images
        return self.run.batch_size * self.steps if self.run.batch_size else None

    @property
    def images_per_s(self) -> float | None:
        """Images per second over the window, None where their number is unknown."""
        return self.images * 1e9 / self.span_ns if self.images and self.span_ns else None

    @cached_property
    def work_ns(self) -> dict[str, int]:
        """Own time of all pipeline threads together per category of `WORK`, in nanoseconds, 0 where there is none.

        Copying into a batch is the own time of the batch node, without the elements that it asks for.
        """
        total = dict.fromkeys(WORK, 0)
        for lane in self._pipeline:
            for category, own in lane.by_category.items():
                if category in total:
                    total[category] += own
        return total

    @cached_property
    def work_ns_by_name(self) -> dict[tuple[str, str], int]:
        """Own time of all pipeline threads per (category, name), in nanoseconds, longest first."""
        total: dict[tuple[str, str], int] = {}
        width = max(len(self.names), 1)
        for lane in self._pipeline:
            key, place = np.unique(lane.category.astype(np.int64) * width + lane.name_id, return_inverse=True)
            own = np.zeros(len(key), np.int64)
            np.add.at(own, place, lane.self_ns)
            for k, ns in zip(key.tolist(), own.tolist(), strict=True):
                label = (CATEGORIES[k // width], self.names[k % width])
                total[label] = total.get(label, 0) + ns
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))

    @property
    def per_image_ms(self) -> dict[str, float]:
        """Milliseconds of thread time per image and category of `WORK`, all pipeline threads together.

        Raises
        ------
        ValueError
            If the trace does not say how many images it holds.
        """
        if not self.images:
            raise ValueError("the trace does not say how many images it holds: run.images and run.batch_size are None")
        return {category: own / 1e6 / self.images for category, own in self.work_ns.items()}

    @cached_property
    def overlap_ns(self) -> dict[str, int]:
        """The window split by who works, in nanoseconds: ``both``, ``pipeline``, ``accelerator``, ``neither``."""
        busy = [lane.busy for lane in self._pipeline]
        pipeline = union(
            np.concatenate([np.zeros(0, np.int64), *(b.start for b in busy)]),
            np.concatenate([np.zeros(0, np.int64), *(b.end for b in busy)]),
        )
        both = intersection(pipeline, self.accelerator.busy).total_ns
        alone, training = pipeline.total_ns - both, self.accelerator.busy.total_ns - both
        neither = self.span_ns - both - alone - training
        return {"both": both, "pipeline": alone, "accelerator": training, "neither": neither}

    @property
    def _pipeline(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.kind == "pipeline"]

    # -- words -------------------------------------------------------------------

    def __str__(self) -> str:
        """Return everything that a picture shows as some lines of text."""
        return describe(self)

    __repr__ = __str__


def timeline_of(given: Timeline | Trace, verb: str) -> Timeline:
    """Return a timeline as it is, or that of a trace; `verb` says in an error what was to be done with it.

    Raises
    ------
    TypeError
        If it is neither a Trace nor a Timeline.
    """
    if isinstance(given, Timeline):
        return given
    if isinstance(given, Trace):
        return Timeline(given)
    raise TypeError(f"a Trace or a Timeline can be {verb}, got {type(given).__name__}")


def _window(trace: Trace) -> tuple[int, int]:
    """Return start and length of the window in nanoseconds."""
    window = trace.run.window_ns
    if window is None:
        return (int(trace.start_ns[0]), trace.span_ns) if len(trace) else (0, 0)
    return window[0], window[1] - window[0]


class _Marks(NamedTuple):
    """Waits or train steps of the consumer: start, end, number; int64, shape (n,), in rising order."""

    start: np.ndarray
    end: np.ndarray
    number: np.ndarray


def _consumer(trace: Trace, category: str, origin_ns: int, span_ns: int) -> _Marks:
    start, end, rows = cut(trace, np.flatnonzero(trace.select(category, kind="consumer")), origin_ns, span_ns)
    number = trace.step[rows].astype(np.int64)
    # A trace whose producer did not count its steps is counted here, from the start of the window.
    return _Marks(start, end, number if len(number) and number.min() >= 0 else np.arange(len(number)))


def _median_ms(marks: _Marks) -> float:
    return float(np.median(marks.end - marks.start)) / 1e6 if len(marks.start) else 0.0


def _gaps(accelerator: Lane, waits: _Marks, trains: _Marks, span_ns: int) -> Gaps:
    """Return the complement of the accelerator's work, each part with its step and its cause."""
    idle = complement(accelerator.busy, 0, span_ns)
    length = idle.end - idle.start
    waiting, training = (
        covered_until(u, idle.end) - covered_until(u, idle.start)
        for u in (union(waits.start, waits.end), union(trains.start, trains.end))
    )
    # The cause is what took most of the gap; a tie is called waiting.
    causes = np.array([GAP_KINDS.index(k) for k in ("wait", "inside", "host")], np.int8)
    kind = causes[np.argmax([waiting, training, length - waiting - training], axis=0)]
    # The step that the gap delays: the one whose train step is the first to end after the gap.
    step = _number_at(trains, np.searchsorted(np.maximum.accumulate(trains.end), idle.end, side="right"))
    if len(waits.start):
        waited = _number_at(waits, np.searchsorted(waits.start, idle.end, side="left") - 1)
        step = np.where(kind == GAP_KINDS.index("wait"), waited, step)
    if len(length) and len(accelerator.busy.start):
        tail = idle.end[-1] == span_ns and idle.start[-1] >= accelerator.busy.end[-1]
        if tail:
            kind[-1], step[-1] = GAP_KINDS.index("tail"), -1
    if len(length) and idle.start[0] == 0 and kind[0] != GAP_KINDS.index("tail"):
        kind[0] = GAP_KINDS.index("start")
    return Gaps(idle.start, length, step, kind)


def _number_at(marks: _Marks, place: np.ndarray) -> np.ndarray:
    """Return the step number at each position, -1 outside."""
    inside = (place >= 0) & (place < len(marks.number))
    return np.where(inside, np.r_[marks.number, np.int64(-1)][np.where(inside, place, -1)], -1)
