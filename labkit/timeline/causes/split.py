"""Fetch stall and prep stall of one run, as the three runs of the differential method define them.

The causes of the gaps (`labkit.timeline.causes.Causes`) say what the accelerator waited for. They do not say what a run
without this cause would last: work that was hidden, behind the accelerator or behind a longer stage, would then be
waited for. So this module estimates for each step how long it would last without its reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labkit.timeline.causes.critical_path import CriticalPath
from labkit.timeline.causes.per_gap import BATCH, FETCH, PREP, TRANSFER
from labkit.timeline.intervals import at_least, complement, overlap, union


@dataclass(frozen=True)
class Split:
    """Time in three shares, 0 to 1, which add up to 1.

    Parameters
    ----------
    ingestion : float
        Train steps, and the handing over of batches that are ready, their copy into the device included: how long the
        run would take if data were there at once.
    prep_stall : float
        The time that is added if data are in memory and have to be prepared. The transfer of a batch from the process
        that made it is included, because a batch that is there at once needs no transfer.
    fetch_stall : float
        What is added if they have to be fetched from storage, too.
    """

    ingestion: float
    prep_stall: float
    fetch_stall: float


def split(path: CriticalPath) -> Split:
    """Return the shares of one run; all of it is ingestion where there are fewer than two steps that wait.

    Notes
    -----
    A step lasts from batch to batch in hand. Without its reads it lasts as long as the rest of its critical path, but
    not shorter than the train step and handing over. All steps together are not shorter than what the busiest thread
    does besides reading, nor than all such work shared by the cores. The shares are those of the differential method of
    Mohan and others, "Analyzing and Mitigating Data Stalls in DNN Training" (VLDB 2021).
    """
    waits, busy = path.waits, path.lanes[0].busy
    if len(waits.start) < 2:
        return Split(1.0, 0.0, 0.0)
    first, last = waits.end[:-1], waits.end[1:]
    measured = last - first
    # Time in which Python of the pipeline delays the next step is prep; all other time outside of waits is the job's.
    work = union(np.r_[waits.start, busy.start], np.r_[waits.end, busy.end])
    held = at_least([complement(work, 0, path.lanes[0].window_ns), path.python], 2)
    outside_wait = waits.start[1:] - first - overlap(held, first, last)
    # A step whose batch is ready at once: the time outside of its wait, and a usual handing over.
    ready = np.minimum(outside_wait + int(np.median(_handing_over(path)[1:])), measured)
    fetch = np.array([path.between(*step)[FETCH] for step in zip(first.tolist(), last.tolist(), strict=True)], np.int64)
    # The sums of all steps: data are there at once, data are in memory, and as measured.
    at_once, everything = int(ready.sum()), int(measured.sum())
    in_memory = int(np.maximum(ready, measured - fetch).sum())
    in_memory = min(max(in_memory, _least_work(path, int(first[0]), int(last[-1]))), everything)
    if not everything:
        return Split(1.0, 0.0, 0.0)
    return Split(at_once / everything, (in_memory - at_once) / everything, (everything - in_memory) / everything)


def _handing_over(path: CriticalPath) -> np.ndarray:
    """Return how much of each wait is left when tf.data has handed its batch over, or the last span has ended."""
    waits, roots = path.waits, path.covered(np.flatnonzero(path.names.root))
    if len(roots.start):
        return waits.end - waits.start - overlap(roots, waits.start, waits.end)
    at = np.searchsorted(path.ended.end, waits.end, side="right") - 1
    ended = path.ended.end[np.maximum(at, 0)] if len(path.ended.end) else waits.end
    return waits.end - np.clip(np.where(at >= 0, ended, waits.end), waits.start, waits.end)


def _least_work(path: CriticalPath, first: int, last: int) -> int:
    """Return the least time that the work without reads takes between two instants: by thread, and by cores."""
    cores, works = path.run.host.cpus or len(path.threads) or 1, {}
    for index, track in path.tracks.items():
        mine = np.isin(track.cause, (PREP, BATCH, TRANSFER))
        works[index] = union(np.maximum(track.start[mine], first), np.minimum(track.end[mine], last))
    threads = [works[track.index] for track in path.threads]
    # Spans of threads that share a core are longer than their work: no more than all cores work at any time.
    shared = sum(at_least(threads, level).total_ns for level in range(1, min(cores, len(threads)) + 1)) // cores
    return max([shared, *(work.total_ns for work in works.values())])
