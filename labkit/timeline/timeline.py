"""From a `Trace` to what a picture or a sentence needs: lanes, busy shares, idle gaps with their cause.

Pure functions of one trace, in integer nanoseconds counted from the start of its window.
Nothing here draws, sleeps, or knows whether the run was measured or modelled; the
trace carries that word, and the text of a `Timeline` begins with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property

import numpy as np

from labkit.common.table import Table
from labkit.timeline.causes import critical_path, effort, per_gap, pipeline_facts, split, stalls
from labkit.timeline.describe import Described
from labkit.timeline.gaps import Marks, find_gaps
from labkit.timeline.headroom import Headroom, headroom
from labkit.timeline.intervals import Intervals, at_least, complement, overlap, union, union_of
from labkit.timeline.lanes import WORK, Lane, build
from labkit.timeline.states import BUFFER, State, states
from labkit.timeline.trace import CATEGORIES, VALIDATION, Trace
from labkit.timeline.wording import BLOCKED, duration, short_op


class Timeline(Described):
    """Lanes, busy shares, gaps and figures of a trace.

    Parameters
    ----------
    trace : Trace
    explain : bool
        Say what each gap waited for. Without, lanes and gaps are shown and no causes: a drill is drawn like this. The
        gaps of a circuit have no causes: a unit that is starved shows where values are late.

    Attributes
    ----------
    trace : Trace
        What it was made from.
    run : Run
        What the trace says about the run.
    origin : str
        "measured", "modelled" or "simulated".
    span_ns : int
        Length of the window: ``window_ns`` of the run, or else from the first start to the last end.
    lanes : tuple of Lane
        The accelerator, its streams if it has any, the consumer's waits, and one lane per thread.
    accelerator : Lane
        Where device threads ran kernels, the union of the kernels; where the accelerator is
        modelled or its device unseen, the train steps of the consumer.
    busy : float
        Share of the window in which the accelerator works, 0 to 1.
    idle_ns : int
        Nanoseconds of the window in which the accelerator does not work.
    steps : int
        Train steps in the window.
    step_numbers : ndarray of int64, shape (steps,)
        Number of each step in the window.
    wait_ms, train_ms : float
        Median wait of the consumer for a batch, and median train step, in milliseconds; 0 without any.
    waits : Intervals
        When the consumer waits for a batch, in window time.
    gaps : Gaps
        When the accelerator is idle, and why.
    timed : bool
        Whether waits for a batch were timed, where there are steps and gaps. Without, no gap has a cause.

    Raises
    ------
    TypeError
        If `trace` is no Trace.
    """

    def __init__(self, trace: Trace, explain: bool = True) -> None:
        if not isinstance(trace, Trace):
            raise TypeError(f"a Timeline is made from a Trace, got {type(trace).__name__}")
        self.trace, self.explain = trace, explain
        self.run, self.origin = trace.run, trace.run.origin
        self.names = trace.names
        self.start_ns, end_ns = trace.window_ns
        self.span_ns = end_ns - self.start_ns
        self.lanes = build(trace, self.start_ns, self.span_ns)
        self.accelerator = self.lanes[0]
        self.busy, busy = self.accelerator.share, self.accelerator.busy
        self.idle_ns = self.span_ns - busy.total_ns
        window = self.start_ns, self.span_ns
        self._waits = waits = Marks.of_consumer(trace, "wait", *window)
        self._trains = trains = Marks.of_consumer(trace, "train", *window)
        self.steps, self.step_numbers = len(trains.number), trains.number
        self.wait_ms, self.train_ms = waits.median_ms, trains.median_ms
        self.waits = union(waits.start, waits.end)
        waiting = self.accelerator.category == CATEGORIES.index("iterator")  # by choice: a consumer that rests
        rests = union(self.accelerator.start_ns[waiting], self.accelerator.end_ns[waiting])
        self.gaps = find_gaps(union_of([busy, rests]), waits, trains, self.span_ns)
        self.timed = bool(len(waits.start)) or not (self.steps and len(self.gaps))

    # -- the steps ------------------------------------------------------------

    @property
    def waits_ms(self) -> list[float]:
        """How long the consumer waited for each batch, in their order. Milliseconds."""
        return [float(ns) / 1e6 for ns in self._waits.end - self._waits.start]

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
    def step_ms(self) -> float:
        """Mean time of a step, the window without `validations` by its steps, in milliseconds; 0 without steps."""
        return (self.span_ns - self.validations.total_ns) / 1e6 / self.steps if self.steps else 0.0

    @cached_property
    def validations(self) -> Intervals:
        """When the script validates, which is no part of a step, in window time."""
        named = np.array([name == VALIDATION for name in self.names], bool)
        return union_of(lane.owned(named[lane.name_id]) for lane in self.lanes if lane.kind == "script")

    @cached_property
    def headroom(self) -> Headroom | None:
        """How many times as fast the run would be with free data; None where that cannot be told."""
        edges = self.step_edges_ns
        if not self.timed or len(edges) < 2 or self.run.of_cycles:
            return None
        idle = at_least([self.waits, complement(self.accelerator.busy, 0, self.span_ns)], 2)
        out, waits = (overlap(one, edges[:-1], edges[1:]) for one in (self.validations, idle))
        return headroom(np.diff(edges) - out, waits)

    @property
    def parts_ms(self) -> tuple[float, float]:
        """The two parts of `step_ms`, means as well: the wait for a batch, and the train step."""
        parts = (int((marks.end - marks.start).sum()) for marks in (self._waits, self._trains))
        wait, train = (ns / 1e6 / self.steps if self.steps else 0.0 for ns in parts)
        return wait, train

    # -- what it waited for ----------------------------------------------------

    @cached_property
    def causes(self) -> per_gap.Causes:
        """What each of `gaps` waited for, in their order; see `labkit.timeline.causes`."""
        found = critical_path.find_causes(self._path, self.gaps, self.explain and self.timed and not self.run.of_cycles)
        return replace(found, unit=self.run.time_unit)

    @cached_property
    def stalls(self) -> stalls.Stalls:
        """Shares of the window by cause, the op to blame, and what to change."""
        facts = self.causes, self.lanes, self.run, self.steps, self.overlap_ns, self.efforts
        return stalls.stalls(pipeline_facts.Pipeline(*facts), self.timed)

    @cached_property
    def split(self) -> split.Split:
        """Fetch stall and prep stall as the differential method defines them, estimated from this one run."""
        return split.split(self._path)

    @cached_property
    def _path(self) -> critical_path.CriticalPath:
        return critical_path.CriticalPath(self.lanes, self.waits, self.run, self.names, self.efforts)

    @cached_property
    def efforts(self) -> dict[str, effort.Effort]:
        """Whether each op computes or waits while it is open, by its word; see `labkit.timeline.causes.effort`."""
        return effort.efforts(self.lanes, self.run, self.names, self.start_ns)

    @cached_property
    def states(self) -> dict[tuple[int, int], State]:
        """How much of its own time each operation of a thread is on a core, and what it waits for in the rest.

        By code of its category and number of its name, as `Lane.category` and `Lane.name_id` hold them; see
        `labkit.timeline.states`.
        """
        if self.run.of_cycles:  # what a stream holds back waits at a full buffer
            held = (k for k, name in enumerate(self.names) if name == BLOCKED)
            return {(CATEGORIES.index("iterator"), k): State(0.0, BUFFER) for k in held}
        return states(self.lanes, self.run, self.names, self.efforts)

    # -- images and the work on them -------------------------------------------

    @property
    def images(self) -> int | None:
        """Images trained on in the window, or what ``run.noun`` says that they are; None where nothing says."""
        return self.run.images_of(self.steps)

    @property
    def images_per_s(self) -> float | None:
        """Images per second over the window without `validations`, None where their number is unknown."""
        span_ns = self.span_ns - self.validations.total_ns
        return self.images * 1e9 / span_ns if self.images and span_ns else None

    @cached_property
    def work_ns(self) -> dict[str, int]:
        """Own time of all pipeline threads together per category of `WORK`, in nanoseconds, 0 where there is none.

        Copying into a batch is the own time of the batch node, without the elements that it asks for.
        """
        return {category: sum(lane.by_category.get(category, 0) for lane in self._pipeline) for category in WORK}

    @cached_property
    def work_ns_by_name(self) -> dict[tuple[str, str], int]:
        """Own time of all pipeline threads per (category, name), in nanoseconds, longest first."""
        own = np.zeros((len(CATEGORIES), len(self.names)), np.int64)
        for lane in self._pipeline:
            np.add.at(own, (lane.category, lane.name_id), lane.self_ns)
        total = {(CATEGORIES[c], self.names[n]): int(own[c, n]) for c, n in np.argwhere(own).tolist()}
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))

    @property
    def per_image_ms(self) -> dict[str, float]:
        """Milliseconds of thread time per image and category of `WORK`, all pipeline threads together.

        Raises
        ------
        ValueError
            If the trace does not say how many elements it holds.
        """
        if not self.images:
            raise ValueError("the trace does not say how many elements it holds: run.images, run.batch_size are None")
        return {category: own / 1e6 / self.images for category, own in self.work_ns.items()}

    def operations(self, most: int = 6) -> Table:
        """Return the operations that took the most thread time of the pipeline, longest first, as a table.

        Parameters
        ----------
        most : int
            How many rows.

        Raises
        ------
        ValueError
            As `per_image_ms`.
        """
        total = sum(self.per_image_ms.values()) or 1.0
        longest = list(self._ops_ms.items())[:most]
        rows = [(op, kind, duration(1e6 * ms), f"{100 * ms / total:.0f} %") for (op, kind), ms in longest]
        return Table(("operation", "kind of work", f"per {self.run.noun}", "share of all work"), rows, right=(2, 3))

    @property
    def ops_ms(self) -> dict[str, float]:
        """Milliseconds of thread time per image and operation of the pipeline, longest first.

        Raises
        ------
        ValueError
            As `per_image_ms`.
        """
        found: Counter[str] = Counter()
        for (op, _), ms in self._ops_ms.items():
            found[op] += ms
        return dict(found.most_common())

    @cached_property
    def _ops_ms(self) -> dict[tuple[str, str], float]:
        """Milliseconds of thread time per image and (operation, category) of `per_image_ms`, longest first."""
        kinds = self.per_image_ms
        found: Counter[tuple[str, str]] = Counter()
        for (category, name), own in self.work_ns_by_name.items():
            if category in kinds:
                found[short_op(name), category] += own / 1e6 / self.images
        return dict(found.most_common())

    @cached_property
    def pipeline_busy(self) -> Intervals:
        """When the pipeline works, in window time: any thread of it, or any unit of a device that feeds it."""
        return union_of(lane.busy for lane in self.lanes if lane.feeds)

    @cached_property
    def overlap_ns(self) -> dict[str, int]:
        """The window split by who works, in nanoseconds: ``both``, ``pipeline``, ``accelerator``, ``neither``."""
        pipeline = self.pipeline_busy
        both = at_least([pipeline, self.accelerator.busy], 2).total_ns
        alone, training = pipeline.total_ns - both, self.accelerator.busy.total_ns - both
        neither = self.span_ns - both - alone - training
        return {"both": both, "pipeline": alone, "accelerator": training, "neither": neither}

    @property
    def _pipeline(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.kind == "pipeline"]

    def busiest(self, most: int = 4) -> list[str]:
        """Return the names of the pipeline threads that work for longest, longest first: `most` of them."""
        return [lane.name for lane in sorted(self._pipeline, key=lambda lane: -lane.share)[:most]]


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
