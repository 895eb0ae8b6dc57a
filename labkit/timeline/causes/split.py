"""Fetch stall and prep stall of one run, as the three runs of the differential method define them.

What a gap waited for (`labkit.timeline.causes.Causes`) is not what goes away when its cause does: work that was
masked, by the accelerator or by a longer stage, comes to light. So each step is asked what it would last without its
reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labkit.timeline.causes.table import BATCH, FETCH, PREP
from labkit.timeline.causes.tracks import at_least
from labkit.timeline.causes.walk import Walk
from labkit.timeline.intervals import complement, covered_until, intersection, union

if TYPE_CHECKING:
    from labkit.timeline.timeline import Timeline


@dataclass(frozen=True)
class Split:
    """Time in three shares, 0 to 1, which add up to 1.

    Parameters
    ----------
    ingestion : float
        Train steps, and what handing over a batch takes that is ready, its copy into the device included: how long the
        run would take if data were there at once.
    prep_stall : float
        What is added if data are in memory, and have to be prepared.
    fetch_stall : float
        What is added if they have to be fetched from storage, too.
    """

    ingestion: float
    prep_stall: float
    fetch_stall: float


def split(timeline: Timeline) -> Split:
    """Return the shares of one run; all of it is ingestion where there are fewer than two steps that wait.

    Notes
    -----
    A step lasts from batch to batch in hand. Without its reads it lasts as long as the rest of its critical path, but
    not shorter than the train step and handing over. All steps together are not shorter than what the busiest thread
    does besides reading, nor than all such work shared by the cores. The shares are those of the differential method of
    Mohan and others, "Analyzing and Mitigating Data Stalls in DNN Training" (VLDB 2021).
    """
    waits, walk = timeline.waits, Walk(timeline)
    if len(waits.start) < 2:
        return Split(1.0, 0.0, 0.0)
    first, last = waits.end[:-1], waits.end[1:]
    whole = last - first
    # What keeps the interpreter from starting the next step is prep; all else outside of a wait is the job's own.
    work = union(np.r_[waits.start, timeline.accelerator.busy.start], np.r_[waits.end, timeline.accelerator.busy.end])
    held = intersection(complement(work, 0, timeline.span_ns), walk.python)
    own = waits.start[1:] - first - (covered_until(held, last) - covered_until(held, first))
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    fetch = np.array([walk.path(start, end)[FETCH] for start, end in pairs], np.int64)
    lost = _handing_over(timeline, walk)[1:]
    least = np.minimum(own + int(np.median(lost)), whole)
    ingestion, everything = int(least.sum()), int(whole.sum())
    warm = int(np.maximum(least, whole - fetch).sum())
    warm = min(max(warm, _work(timeline, walk, int(first[0]), int(last[-1]))), everything)
    if not everything:
        return Split(1.0, 0.0, 0.0)
    return Split(ingestion / everything, (warm - ingestion) / everything, (everything - warm) / everything)


def _handing_over(timeline: Timeline, walk: Walk) -> np.ndarray:
    """Return how much of each wait is left when tf.data has handed its batch over, or the last span has ended."""
    waits, roots = timeline.waits, walk.covered(lambda lane: walk.paths.root[lane.name_id])
    if len(roots.start):
        return waits.end - waits.start - covered_until(roots, waits.end) + covered_until(roots, waits.start)
    at = np.searchsorted(walk.ends, waits.end, side="right") - 1
    ended = walk.ends[np.maximum(at, 0)] if len(walk.ends) else waits.end
    return waits.end - np.clip(np.where(at >= 0, ended, waits.end), waits.start, waits.end)


def _work(timeline: Timeline, walk: Walk, first: int, last: int) -> int:
    """Return the least time that the work without reads takes between two instants: by thread, and by cores."""
    cores = timeline.run.host.cpus or len(walk.tracks) or 1
    works = []
    for track in walk.tracks.values():
        mine = np.isin(track.cause, (PREP, BATCH))
        start, end = np.maximum(track.start[mine], first), np.minimum(track.end[mine], last)
        works.append(union(start, end))
    # Spans of threads that share a core are longer than their work: no more than all cores work at any time.
    shared = sum(at_least(works, level).total_ns for level in range(1, min(cores, len(works)) + 1)) // cores
    return max([shared, *(work.total_ns for work in works)])
