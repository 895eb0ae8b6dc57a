"""A clock, some cores and a link to storage that processes share: the discrete-event half of the simulation.

A process is a generator. It yields a request, a pair of a kind and an amount, and is resumed when the request is
served. If more processes work than there are cores, all get an equal share (processor sharing). One rising *work clock*
measures the share of each process, so that an event costs one step of a heap, however many processes run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush

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

    def wake(self, waiting: list[Process]) -> None:
        """Resume everybody who waits in a list, in the order in which they came."""
        self.ready.extend(waiting)
        waiting.clear()

    def run(self, processes: Iterable[Process], until: Process) -> None:
        """Run until the process `until` ends.

        Raises
        ------
        RuntimeError
            If all wait for each other.
        """
        ready = self.ready
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
            slow = count / self.capacity(count) if count else 1.0  # how much slower one of so many is than alone
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
            if share:
                moved = target if source is moving else moved + passed / share
            self.now = now = at
            ready.append(process)
