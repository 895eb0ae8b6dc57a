"""Several engines for several threads: a queue and its kernels belong to one thread at a time."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labkit.offload import drivers
from labkit.offload.engine import Engine
from labkit.timeline.trace import Trace


class Pool:
    """Engines on one device, handed out one by one.

    Not one per thread: threads that are not Python's own, TensorFlow's for example, lose what ``threading.local`` kept
    at every call.

    Parameters
    ----------
    count : int
        How many at most work at once; each is made when it is first needed, and the last one used is used first.
    device : Device or pyopencl.Device, optional
        As in `Engine`.

    Raises
    ------
    ValueError
        If `count` is less than 1.
    """

    def __init__(self, count: int, device: Any = None) -> None:
        if count < 1:
            raise ValueError(f"count is {count}; allowed: 1 or more")
        self.count, self.device = count, device
        self._free: queue.LifoQueue[int] = queue.LifoQueue()
        for place in reversed(range(count)):
            self._free.put(place)
        self._made: dict[int, Engine] = {}

    def __repr__(self) -> str:
        """Return how many engines it may hold."""
        return f"Pool({self.count})"

    @contextmanager
    def engine(self, wait_s: float | None = None) -> Iterator[Engine]:
        """Lend an engine: ``with pool.engine() as engine: ...``; it is this thread's alone until the block ends.

        Parameters
        ----------
        wait_s : float, optional
            Seconds to wait for a free one; as long as it takes by default.

        Raises
        ------
        TimeoutError
            If none is free in time.
        RuntimeError
            In a forked child of a process that used OpenCL.
        """
        drivers.claim()
        try:
            place = self._free.get(timeout=wait_s)
        except queue.Empty:
            raise TimeoutError(f"none of {self.count} engines was free within {wait_s:g} s") from None
        try:
            if place not in self._made:
                self._made[place] = Engine(self.device, lane=str(place + 1))
            yield self._made[place]
        finally:
            self._free.put(place)

    def trace(self, name: str | None = None) -> Trace:
        """Return what all engines did so far: a row of the timeline for each.

        Call it when none is at work. Raises ValueError before the first one was used.
        """
        if not self._made:
            raise ValueError("no engine of this pool was used yet: there is nothing to show")
        return Trace.merge(*(self._made[place].trace(name) for place in sorted(self._made)))
