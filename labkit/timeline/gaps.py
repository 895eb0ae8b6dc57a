"""When the accelerator is idle: where, how long, before which step, and at which place of the loop."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit.timeline.intervals import Intervals, complement, overlap, union
from labkit.timeline.lanes import cut
from labkit.timeline.trace import Trace
from labkit.timeline.wording import duration

#: Where in the loop the accelerator is idle. ``start``: before its first work in the window; ``wait``: the consumer
#: waits for a batch; ``inside``: within a train step, between kernels; ``host``: the consumer does something else;
#: ``tail``: after its last work.
GAP_KINDS = ("start", "wait", "inside", "host", "tail")

_START, _WAIT, _INSIDE, _HOST, _TAIL = range(len(GAP_KINDS))


class Gap(NamedTuple):
    """One idle time of the accelerator: where, how long, which batch (-1 if unknown) and why (`GAP_KINDS`)."""

    start_ns: int
    length_ns: int
    step: int
    kind: str

    def __str__(self) -> str:
        """Return its length and its place in words."""
        batch = f"batch {self.step}" if self.step >= 0 else "a batch"
        step = f"step {self.step}" if self.step >= 0 else "a step"
        place = {
            "start": f"before {step}" if self.step >= 0 else "without a step",
            "wait": f"waiting for {batch}",
            "inside": f"inside {step}",
            "host": f"between steps, before {step}",
            "tail": "after the last step",
        }
        return f"{duration(self.length_ns)} {place[self.kind]}"


@dataclass(frozen=True, eq=False)
class Gaps(Sequence[Gap]):
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

    def __repr__(self) -> str:
        """Return number and total length on one line."""
        return f"Gaps({len(self):,}, {duration(int(self.length_ns.sum()))})"

    @property
    def end_ns(self) -> np.ndarray:
        """End of every gap, int64, in nanoseconds."""
        return self.start_ns + self.length_ns

    def where(self, mask: np.ndarray) -> Gaps:
        """Return the gaps that `mask` (bool or index array) selects."""
        return Gaps(self.start_ns[mask], self.length_ns[mask], self.step[mask], self.kind[mask])

    def largest(self, count: int) -> list[Gap]:
        """Return the `count` longest gaps, longest first, earlier ones first on ties."""
        return list(self.where(np.argsort(-self.length_ns, kind="stable")[:count]))


class Marks(NamedTuple):
    """Waits or train steps of the consumer: start, end, number; int64, shape (n,), in rising order."""

    start: np.ndarray
    end: np.ndarray
    number: np.ndarray

    @classmethod
    def of_consumer(cls, trace: Trace, category: str, origin_ns: int, span_ns: int) -> Marks:
        """Return the spans of one category of the consumer, cut to the window."""
        start, end, rows = cut(trace, np.flatnonzero(trace.select(category, kind="consumer")), origin_ns, span_ns)
        number = trace.step[rows].astype(np.int64)
        # A trace whose producer did not count its steps is counted here, from the start of the window.
        return cls(start, end, number if len(number) and number.min() >= 0 else np.arange(len(number)))

    @property
    def median_ms(self) -> float:
        """Median length in milliseconds; 0 without any."""
        return float(np.median(self.end - self.start)) / 1e6 if len(self.start) else 0.0

    def number_at(self, place: np.ndarray) -> np.ndarray:
        """Return the step number at each position, -1 outside."""
        return np.r_[np.int64(-1), self.number, np.int64(-1)][np.clip(place, -1, len(self.number)) + 1]


def find_gaps(busy: Intervals, waits: Marks, trains: Marks, span_ns: int) -> Gaps:
    """Return the time of a window in which the accelerator is not busy, each gap with its step and its place."""
    idle = complement(busy, 0, span_ns)
    length = idle.end - idle.start
    waiting, training = (overlap(union(marks.start, marks.end), idle.start, idle.end) for marks in (waits, trains))
    # The place is the one that took most of the gap; a tie is called waiting.
    places = np.array([_WAIT, _INSIDE, _HOST], np.int8)
    kind = places[np.argmax([waiting, training, length - waiting - training], axis=0)]
    # The step that the gap delays: the one whose train step is the first to end after the gap.
    step = trains.number_at(np.searchsorted(np.maximum.accumulate(trains.end), idle.end, side="right"))
    if len(waits.start):
        step = np.where(kind == _WAIT, waits.number_at(np.searchsorted(waits.start, idle.end, side="left") - 1), step)
    if len(length) and len(busy.start) and idle.end[-1] == span_ns and idle.start[-1] >= busy.end[-1]:
        kind[-1], step[-1] = _TAIL, -1
    if len(length) and idle.start[0] == 0 and kind[0] != _TAIL:
        kind[0] = _START
    return Gaps(idle.start, length, step, kind)
