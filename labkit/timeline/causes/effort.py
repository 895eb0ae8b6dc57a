"""Whether an op computes or waits: the time of the processor, shared out among the ops that were open.

A span says from when to when an op was open. It does not say what its thread did meanwhile: bytes that come from a
disk, records that are unpacked and a function that sleeps look alike. So the recorder samples the processor time of its
process (`labkit.timeline.run.ProcessorTime`). Between two samples this time is a sum over ops: the time that an op was
open, in all threads together, times its share of this time on a core. The shares are found by least squares, each
between 0 and the number of cores. Work outside of ops, as that of the profiler, takes `BACKGROUND` of a core at most.

If threads wait for a core, all shares fall alike. So they are divided by the share of the time in which ready threads
had a core, which Linux counts. Where they hardly had one, nothing follows from the clock, and of no op is either said.
No op computes on more cores than there are, nor for longer than all threads computed or were ready; a function of
Python holds one thread, so never more than one core. No op but the train step computes for longer than all other
threads did: a limit where it is less than one core, since threads that wait for the interpreter are not ready.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labkit.timeline.causes import thresholds
from labkit.timeline.intervals import overlap
from labkit.timeline.lanes import IS_WORK, Lane
from labkit.timeline.run import Run
from labkit.timeline.trace import CATEGORIES
from labkit.timeline.wording import PYTHON_OPS, WITH_CONSUMER, short_op


class Effort(NamedTuple):
    """What the threads of an op did while it was open.

    Parameters
    ----------
    low, high : float
        Between these lies the share of this time in which the op computed, or was ready to: 0 to the number of cores.
        They lie one standard error outside of two fits. Some processor time fits an op as well as it fits constant
        background work: the first fit gives this time to the background, and the second fit gives it to the op.
    cores : float
        Cores that the op kept busy, on average over the window, at most.
    """

    low: float
    high: float
    cores: float

    @property
    def computes(self) -> bool | None:
        """True if it computes for most of the time, False if it waits for something else, None if nobody can tell."""
        return True if self.low >= thresholds.COMPUTES else False if self.high <= thresholds.WAITS else None


def efforts(lanes: Sequence[Lane], run: Run, names: Sequence[str], start_ns: int) -> dict[str, Effort]:
    """Return the effort of each op, by the word that readers know it by.

    Parameters
    ----------
    lanes : sequence of Lane
        The accelerator first.
    run : Run
        Its times of ops are used where each was measured, else its samples of the processor; without both the answer
        is empty.
    names : sequence of str
        What the spans of the lanes are called.
    start_ns : int
        Start of the window, on the clock of the trace.

    Notes
    -----
    Left out are ops that are open for less than `OPEN` of the window, and where fewer than two samples for each op lie
    in the window.
    """
    clock = run.processor
    if run.op_times and lanes:
        return _measured(run, lanes[0].window_ns)
    if clock is None or not lanes:
        return {}
    at, cpu = (np.array(column, np.int64) for column in (clock.at_ns, clock.cpu_ns))
    at -= start_ns
    inside = (at >= 0) & (at <= lanes[0].window_ns)
    at, cpu = at[inside], cpu[inside]
    length = np.diff(at)
    real, prefix = run.accelerator.kind == "real", lanes[0].name.removesuffix("accelerator")
    trains: set[str] = set()  # ops that run in the thread that trains
    opened: dict[str, np.ndarray] = {}
    for lane in lanes:
        works = IS_WORK[lane.category] & (lane.kind in ("pipeline", "host"))
        works &= lane.name.startswith(prefix)  # the clock is that of one process
        if lane.kind == "accelerator" and real:
            works = lane.category != CATEGORIES.index("wait")
        for one in np.unique(lane.name_id[works]).tolist():
            key = short_op(names[one])
            times = overlap(lane.owned(works & (lane.name_id == one)), at[:-1], at[1:])
            trains |= {key} if lane.name.endswith(WITH_CONSUMER) else set()
            opened[key] = opened.get(key, np.zeros(len(length), np.int64)) + times
    large = [key for key, times in opened.items() if times.sum() >= thresholds.OPEN * length.sum()]
    if not large or len(length) < 2 * len(large):
        return {}
    found = _shares({key: opened[key] / 1e6 for key in large}, np.diff(cpu) / 1e6, length / 1e6, run)
    took, span, cores = float(cpu[-1] - cpu[0]), float(length.sum()), float(run.host.cpus or math.inf)
    wanted, full = _wanted_ns(run), thresholds.INTERPRETER_FULL * lanes[0].window_ns
    # A thread that waits for the interpreter is not ready, so with one core full an op may have waited without notice.
    bound = wanted < full and took < full
    for key, (low, high, kept) in found.items():
        most = min(took + queued(run), wanted if bound and key not in trains else math.inf)
        each = min(1.0 if key in PYTHON_OPS else cores, most / float(opened[key].sum()))
        kept = min(kept, each * float(opened[key].sum()) / span, took / span, cores)
        found[key] = Effort(min(low, each), min(high, each), kept) if _had_cores(run) else Effort(0.0, cores, kept)
    return found


def _had_cores(run: Run) -> bool:
    """Tell whether threads that were ready had a core for so much of this time that the clock says what ops did."""
    return had_core(computed(run), queued(run)) > thresholds.LEAST_READY


def _wanted_ns(run: Run) -> float:
    """Return how long all threads but the one that trains computed or were ready; without end where nobody counts."""
    clock = run.processor
    if clock.queued_ns is None or clock.consumer_ns is None:
        return math.inf
    return max(0, clock.cpu_ns[-1] - clock.cpu_ns[0] + clock.queued_ns - clock.consumer_ns)


def _measured(run: Run, window_ns: int) -> dict[str, Effort]:
    """Return efforts where the processor time of each span is known."""
    found = {}
    for name, one in run.op_times.items():
        if one.open_ns >= thresholds.OPEN * window_ns:
            share = one.computed_ns / one.open_ns
            high = wanted(share, one.open_ns, run) if _had_cores(run) else 1.0
            found[short_op(name)] = Effort(share, high, one.computed_ns / window_ns)
    return found


def wanted(share: float, open_ns: int, run: Run) -> float:
    """Return the share of its time in which an op computed or was ready to, at most, of that in which it computed.

    Threads that were ready but had no core would have computed, the more of them the fewer cores there were. And no op
    was ready for longer than all threads were: one that wakes now and then still waits.
    """
    ran, lacked = computed(run), queued(run)
    return min(1.0, share * (ran + lacked) / ran, share + lacked / max(1, open_ns)) if ran else share


def had_core(computed_ns: float, queued_ns: float) -> float:
    """Return the share of the time in which threads that were ready had a core.

    Threads that were ready but had no core would have computed: the shares of those that compute grow to 1.
    """
    return max(thresholds.LEAST_READY, computed_ns / (computed_ns + queued_ns)) if computed_ns else 1.0


def computed(run: Run) -> int:
    """Return how long threads had a core, all together; 0 where nobody counts it.

    It comes from the samples of one process if there are some, and else from the threads that ran until the end.
    """
    if run.processor and (cpu := run.processor.cpu_ns):
        return cpu[-1] - cpu[0]
    return sum(one.computed_ns for one in run.processor.threads) if run.processor else 0


def queued(run: Run) -> int:
    """Return how long threads were ready, and had no core; 0 where nobody counts it."""
    return run.processor.queued_ns or 0 if run.processor else 0


def _shares(opened: dict[str, np.ndarray], cpu: np.ndarray, length: np.ndarray, run: Run) -> dict[str, Effort]:
    """Solve for the share of each op; all times in milliseconds, one for each pair of neighbouring samples."""
    ready = had_core(float(cpu.sum()) * 1e6, queued(run))
    # The last column is what works all the time, whatever is open: the profiler, the clocks of tf.data.
    table = np.stack([*opened.values(), length], axis=1)
    most = np.r_[np.full(len(opened), float(run.host.cpus or 1)), thresholds.BACKGROUND]
    ops = np.arange(table.shape[1]) < len(opened)
    least, least_error = _fit(table, cpu, length, most, np.where(ops, thresholds.HELD, 0.0))
    largest, largest_error = _fit(table, cpu, length, most, np.where(ops, 0.0, thresholds.FIRMLY))
    found = {}
    for i, (word, times) in enumerate(opened.items()):
        low = max(0.0, least[i] - least_error[i])
        high = max(low, largest[i] + largest_error[i])  # of an op that hardly computes, the fits may cross
        found[word] = Effort(low / ready, high / ready, high * float(times.sum() / length.sum()))
    return found


def _fit(
    table: np.ndarray, cpu: np.ndarray, length: np.ndarray, most: np.ndarray, firmly: np.ndarray
) -> tuple[list[float], list[float]]:
    """Return the share of each column of a table of open times, 0 to `most`, and the standard error of each op.

    A column is held to nothing, the more firmly the larger its entry of `firmly` is: time that fits two columns goes to
    the one that is held less.
    """
    from scipy.optimize import lsq_linear

    weight = 1 / np.sqrt(length)  # an interval that is long weighs as much as its time
    weighted, target = table * weight[:, None], cpu * weight
    held = np.diag(firmly * np.linalg.norm(weighted, axis=0))
    weighted, target = np.vstack([weighted, held]), np.r_[target, np.zeros(len(held))]
    solved = lsq_linear(weighted, target, bounds=(0.0, most))
    found, left = solved.x, (target - weighted @ solved.x)[: len(length)]
    # If the share of constant background work is at one of its bounds, it is known, and no op can be mistaken for it.
    free = weighted[:, :-1] if solved.active_mask[-1] else weighted
    spread = np.linalg.pinv(free.T @ free) * (left @ left) / max(1, len(length) - len(found))
    return found.tolist(), np.sqrt(np.maximum(np.diag(spread), 0)).tolist()
