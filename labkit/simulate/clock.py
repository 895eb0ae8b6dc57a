"""A clock, some cores and a link to storage that processes share: the discrete-event half of the simulation.

A process is a generator. It yields a request, a pair of a kind and an amount, and is resumed when the request is
served. If more processes work than there are cores, all get an equal share (processor sharing). One rising *work clock*
measures the share of each process, so that an event costs one step of a heap, however many processes run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush

import numpy as np

#: The kinds of requests: a time asleep (ns), a time on a core (ns), bytes over the link (as ns at full rate), or a
#: wait until another process wakes it (the amount is the list in which it waits).
SLEEP, WORK, MOVE, WAIT = range(4)

Process = Generator[tuple, None, None]


class Clock:
    """Runs processes until one of them ends.

    Parameters
    ----------
    capacity : callable
        How many cores' worth of work so many processes get done together; see `labkit.simulate.costs.Knobs.capacity`.

    Attributes
    ----------
    now : float
        Nanoseconds since the start.
    """

    def __init__(self, capacity: Callable[[int], float]) -> None:
        self.capacity = capacity
        self.now = 0.0
        self.ready: deque[Process] = deque()
        self._times, self._works = [0.0], [0.0]  # the work clock, bent at every event

    def wake(self, waiting: list[Process]) -> None:
        """Resume everybody who waits in a list, in the order in which they came."""
        if waiting:
            self.ready.extend(waiting)
            waiting.clear()

    def run(self, processes: Iterable[Process], until: Process) -> None:
        """Run until the process `until` ends.

        Raises
        ------
        RuntimeError
            If all wait for each other.
        """
        ready, times, works = self.ready, self._times, self._works
        # How much slower one of so many is than alone.
        slowness = [1.0]
        asleep: list[tuple[float, int, Process]] = []
        working: list[tuple[float, int, Process]] = []
        moving: list[tuple[float, int, Process]] = []
        ready.extend(processes)
        now = work = moved = 0.0
        number = 0
        while True:
            while ready:
                process = ready.popleft()
                request = next(process, None)
                if request is None:
                    if process is until:
                        for other in (*ready, *(waiting[2] for waiting in (*asleep, *working, *moving))):
                            other.close()
                        return
                    continue
                kind, amount = request
                if kind == WAIT:
                    amount.append(process)
                    continue
                number += 1
                if kind == WORK:
                    heappush(working, (work + amount, number, process))
                elif kind == SLEEP:
                    heappush(asleep, (now + amount, number, process))
                else:
                    heappush(moving, (moved + amount, number, process))
            count, share = len(working), len(moving)
            while count >= len(slowness):
                slowness.append(len(slowness) / self.capacity(len(slowness)))
            slow = slowness[count]
            at, source = asleep[0][0] if asleep else float("inf"), asleep
            if count and (end := now + (working[0][0] - work) * slow) <= at:
                at, source = end, working
            if share and (end := now + (moving[0][0] - moved) * share) < at:
                at, source = end, moving
            if at == float("inf"):
                raise RuntimeError("every process of the simulation waits for another one")
            target, _, process = heappop(source)
            passed = at - now
            if count:
                work = target if source is working else work + passed / slow
            times.append(at)
            works.append(work)
            if share:
                moved = target if source is moving else moved + passed / share
            self.now = now = at
            ready.append(process)

    def when(self, start_ns: np.ndarray, done_ns: np.ndarray) -> np.ndarray:
        """Return at what time a process that began to work at `start_ns` has received `done_ns` of work.

        Parameters
        ----------
        start_ns, done_ns : ndarray of float64, shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        times, works = np.array(self._times), np.array(self._works)

        def line(x: np.ndarray, given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
            # np.interp may fuse a product and a sum on some processors and not on others; this is the same everywhere.
            i = np.clip(np.searchsorted(given, x, side="right") - 1, 0, max(len(given) - 2, 0))
            j = np.minimum(i + 1, len(given) - 1)
            width = given[j] - given[i]
            part = np.where(width > 0, (x - given[i]) / np.where(width > 0, width, 1.0), 0.0)
            rise = np.minimum(part, 1.0) * (wanted[j] - wanted[i])
            return wanted[i] + rise

        return line(line(start_ns, times, works) + done_ns, works, times)
