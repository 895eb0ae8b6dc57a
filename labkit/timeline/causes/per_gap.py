"""The causes of all gaps: one row for each idle time of the accelerator."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from labkit.timeline.gaps import Gaps
from labkit.timeline.wording import duration, percent, short_op

#: What the accelerator waits for. ``fetch``: bytes from storage; ``prep``: decoding and all other map work; ``batch``:
#: copying elements together; ``transfer``: from process to process; ``copy``: the way into the device; ``start``: the
#: first batch of all, and unexplained time while an epoch begins or a shuffle buffer fills; ``framework``: handing
#: over, scheduling, Python. The next four belong to other loaders than tf.data. ``queue empty`` and ``queue full`` are
#: waits at a queue whose other end was not recorded. ``core wait`` and ``GIL wait`` are the time by which work lasts
#: longer because its thread had no core, or did not have the interpreter. ``other process`` is a wait in the middle of
#: a train step for a process that is not there yet, as in an all-reduce.
CAUSES = ("fetch", "prep", "batch", "transfer", "copy", "start", "framework", "unknown", "queue empty", "queue full",
          "core wait", "GIL wait", "other process")  # fmt: skip

FETCH, PREP, BATCH, TRANSFER, COPY, START, FRAMEWORK, UNKNOWN, EMPTY, FULL, CORE, GIL, PROCESS = range(len(CAUSES))

#: Causes of time in which no recorded thread worked.
UNEXPLAINED = "unknown", "queue empty", "queue full"

#: The causes in the words of a sentence.
WORDS = {
    "fetch": "fetch",
    "prep": "prepare",
    "batch": "copying elements into a batch",
    "transfer": "moving batches between processes",
    "copy": "copying to the device",
    "start": "starting an epoch or filling a buffer",
    "framework": "handing over, scheduling and Python",
    "unknown": "of nothing that the trace shows",
    "queue empty": "waiting at an empty queue, which nobody is seen to fill",
    "queue full": "waiting at a full queue, which nobody is seen to empty",
    "core wait": "waiting for a core",
    "GIL wait": "waiting for the interpreter (GIL)",
    "other process": "waiting for another process",
}


def word(cause: str) -> str:
    """Return a cause in the word of the course: ``prep`` is *prepare*, ``framework`` is *handing over*."""
    return {"prep": "prepare", "framework": "handing over"}.get(cause, cause)


def filling(node: str) -> str:
    """Return what a node does that takes elements before it hands on one, as in ``Shuffle fills its buffer``."""
    kind = short_op(node)
    return f"{kind} fills its buffer" if kind.startswith("Shuffle") else "repeat() begins an epoch"


def by_cause(parts_ns: np.ndarray) -> Counter[str]:
    """Return times by cause, without those that only other loaders than tf.data have where they are 0."""
    parts = enumerate(zip(CAUSES, parts_ns.tolist(), strict=True))
    return Counter({cause: ns for code, (cause, ns) in parts if code <= UNKNOWN or ns})


def unexplained_share(parts: Mapping[str, float]) -> float:
    """Return the part of all time, or the share, during which no thread was seen to work for the batch."""
    return sum(parts.get(cause, 0) for cause in UNEXPLAINED)


class Cause(NamedTuple):
    """Why one gap: main cause, its op and lane (indices, -1 if none), span waited for, all parts, a sentence."""

    kind: str
    op: int
    lane: int
    start_ns: int
    end_ns: int
    parts: dict[str, int]
    text: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


@dataclass(frozen=True, eq=False)
class Causes(Sequence[Cause]):
    """One cause for each of ``timeline.gaps``, in their order, as columns; index or iterate for a `Cause`.

    Parameters
    ----------
    kind : ndarray of int8, shape (n,)
        Index into `CAUSES`: what took the largest part of the gap.
    op, lane : ndarray of int32, shape (n,)
        What was waited for most within that cause: index into ``timeline.names`` and ``timeline.lanes``, -1 if none.
    start_ns, end_ns : ndarray of int64, shape (n,)
        The longest span of it on the path, in window time; it may begin before the gap. -1 if none.
    parts_ns : ndarray of int64, shape (n, len(CAUSES))
        The gap, split by cause; each row adds up to its length.
    by_op : dict of (cause, index into names) to nanoseconds
        All gaps together, split by what ran on the path; without what has no op.
    gaps : Gaps
        What the rows are about.
    names, lane_names : tuple of str
        What `op` and `lane` point into.
    explained : bool
        Whether the causes are known; without, the sentence of a gap says only how long it is.
    during : ndarray of int32, shape (n,), optional
        The node that began an epoch or filled its buffer for at least half of the gap: index into `names`, -1 if none.
    starting : dict of index into names to nanoseconds
        How much of all gaps each node took for that, whatever ran meanwhile.
    unit : str
        What time is counted in.
    """

    kind: np.ndarray
    op: np.ndarray
    lane: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    parts_ns: np.ndarray
    by_op: dict[tuple[str, int], int]
    gaps: Gaps
    names: tuple[str, ...]
    lane_names: tuple[str, ...]
    explained: bool = True
    during: np.ndarray | None = None
    starting: dict[int, int] = field(default_factory=dict)
    unit: str = "ms"

    def __len__(self) -> int:
        """Return the number of gaps."""
        return len(self.kind)

    def __getitem__(self, index: int) -> Cause:
        """Return the cause of one gap."""
        i = operator.index(index)
        parts = by_cause(self.parts_ns[i])
        row = (int(column[i]) for column in (self.op, self.lane, self.start_ns, self.end_ns))
        return Cause(CAUSES[self.kind[i]], *row, parts, self._text(i))

    def _text(self, i: int) -> str:
        """Return one sentence: how long and for which batch, the main cause with its op and lane, the others."""
        gap, kind, parts = self.gaps[i], int(self.kind[i]), self.parts_ns[i]
        if not self.explained:
            return f"{gap}." if self.unit == "ms" else f"{duration(gap.length_ns, self.unit)} without a value."
        what = f"{percent(int(parts[kind]) / gap.length_ns)} {WORDS[CAUSES[kind]]}"
        if self.op[i] >= 0:
            what += f", {short_op(self.names[self.op[i]])}"
        if self.lane[i] >= 0:
            what += f" in {self.lane_names[self.lane[i]].removeprefix('in ')}"
        if self.during is not None and self.during[i] >= 0 and kind != START:
            what += f", while {filling(self.names[self.during[i]])}"
        rest = [c for c in np.argsort(-parts, kind="stable").tolist() if c != kind and parts[c] * 20 >= gap.length_ns]
        also = ", ".join(f"{word(CAUSES[c])} {percent(int(parts[c]) / gap.length_ns)}" for c in rest)
        return f"{gap}: {what}{'; also ' if also else ''}{also}."

    def __repr__(self) -> str:
        """Return how long each cause kept the accelerator waiting, on one line."""
        total = by_cause(self.parts_ns.sum(axis=0))
        parts = ", ".join(f"{word(cause)} {duration(ns)}" for cause, ns in total.items() if ns)
        return f"Causes({len(self):,} gaps: {parts or 'none'})"
