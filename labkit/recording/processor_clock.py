"""The clock of the processor, sampled while a window is recorded: how much time threads had a core, and waited for one.

Both need no rights: a process may ask for its own processor time, and Linux tells it in ``/proc/self/task/*/schedstat``
how long each of its threads was ready without a core.
"""

from __future__ import annotations

import contextlib
import threading
import time
from array import array
from pathlib import Path

import numpy as np

#: Between two samples. Both clocks take about a microsecond, and a thread that wakes up some ten.
PERIOD_S = 0.005

#: A window may be over soon, and few samples tell little: so many at the beginning come faster.
SOON, SOON_S = 200, 0.001

#: A trace keeps no more samples than this; of more, every second, third, … one.
MOST = 600


class Sampler(contextlib.AbstractContextManager):
    """Samples the clock in a thread of its own from `start` to `stop`; leaving its block stops it.

    Attributes
    ----------
    samples : list of (int, int)
        The counter (``time.perf_counter_ns``), and the processor time of the process, nanoseconds.
    queued_ns : int or None
        How long threads that live at the end waited for a core between `start` and `stop`; None where the system
        does not count it.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []
        self.queued_ns: int | None = None
        self._thread: threading.Thread | None = None

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Begin to sample."""
        self._end, self._taken, self._before = threading.Event(), array("q"), _queued()
        self._thread = threading.Thread(target=self._run, name="labkit processor clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; `samples` and `queued_ns` are there."""
        if self._thread is None:
            return
        self._end.set()
        self._thread.join()
        self._thread = None
        if self._before is not None and (now := _queued()) is not None:
            # A thread that is new has waited since it began, one that has ended is not there any more.
            self.queued_ns = sum(max(0, ns - self._before.get(thread, 0)) for thread, ns in now.items())
        taken = np.array(self._taken, np.int64).reshape(-1, 2)
        self.samples = [tuple(row) for row in taken[:: 1 + len(taken) // MOST].tolist()]

    def _run(self) -> None:
        while True:
            self._taken.extend((time.perf_counter_ns(), time.process_time_ns()))
            if self._end.wait(SOON_S if len(self._taken) < 2 * SOON else PERIOD_S):
                self._taken.extend((time.perf_counter_ns(), time.process_time_ns()))
                return


def _queued() -> dict[str, int] | None:
    """Return for each thread of this process how long it was ready without a core, in ns; None if nobody counts it."""
    found = {}
    for thread in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a thread may end meanwhile
            found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return found or None
