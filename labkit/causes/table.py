"""The table of causes: one row for each idle time of the accelerator."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit.wording import milliseconds

#: What the accelerator waits for. ``fetch``: bytes from storage; ``prep``: decoding and all other map work; ``batch``:
#: copying elements together; ``copy``: the way into the device; ``start``: the first batch, or the first after
#: an epoch boundary or a shuffle buffer that fills; ``framework``: handing over, scheduling, Python between steps.
CAUSES = ("fetch", "prep", "batch", "copy", "start", "framework", "unknown")

FETCH, PREP, BATCH, COPY, START, FRAMEWORK, UNKNOWN = range(len(CAUSES))


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
class Causes:
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
    texts : tuple of str
        One sentence each.
    by_op : dict of (cause, index into names) to nanoseconds
        All gaps together, split by what ran on the path; without what has no op.
    """

    kind: np.ndarray
    op: np.ndarray
    lane: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    parts_ns: np.ndarray
    texts: tuple[str, ...]
    by_op: dict[tuple[str, int], int]

    def __len__(self) -> int:
        """Return the number of gaps."""
        return len(self.kind)

    def __getitem__(self, index: int) -> Cause:
        """Return the cause of one gap."""
        i = operator.index(index)
        parts = dict(zip(CAUSES, self.parts_ns[i].tolist(), strict=True))
        row = (int(column[i]) for column in (self.op, self.lane, self.start_ns, self.end_ns))
        return Cause(CAUSES[self.kind[i]], *row, parts, self.texts[i])

    def __iter__(self) -> Iterator[Cause]:
        """Yield causes from the first gap to the last."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """Return how long each cause kept the accelerator waiting, on one line."""
        total = dict(zip(CAUSES, self.parts_ns.sum(axis=0).tolist(), strict=True))
        parts = ", ".join(f"{cause} {milliseconds(ns)} ms" for cause, ns in total.items() if ns)
        return f"Causes({len(self):,} gaps: {parts or 'none'})"
