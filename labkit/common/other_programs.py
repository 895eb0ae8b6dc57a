"""How much of this machine other programs take: what decides whether a measured time means anything."""

from __future__ import annotations

import math
import os
import time
from typing import NamedTuple

#: From this share of the cores on, a comparison gives no verdict. On two cores it is half a core. A pipeline that uses
#: all cores may then lose a quarter of its speed, as much as many changes of the course gain. A desktop at rest, with
#: its browser and its editor, takes a few percent.
BUSY = 0.25

#: Clocks of the system count in steps of 10 ms, so a shorter time says nothing. Of 0.2 s on two cores they count 40
#: steps, and are wrong by a few, which is less than the share of the cores that stops a verdict. Seconds.
SHORTEST_S = 0.2


class Meter:
    """The time since it was made, as the cores of this process saw it.

    Own work is that of this process and of all processes that it started. The rest is that of other programs, and, on a
    virtual machine, of the host that gave the cores to somebody else.
    """

    def __init__(self) -> None:
        self._since = now()

    def share(self) -> float:
        """Return the share of the cores, 0 to 1, that other programs took; NaN if it is not known, or too early."""
        return taken(*(later - earlier for earlier, later in zip(self._since, now(), strict=True)))


def sentence(share: float) -> str:
    """Return the share in words, and what follows from it where it is too large; nothing for NaN."""
    if math.isnan(share):
        return ""
    words = f"other programs took {100 * share:.0f} % of the cores"
    if share < BUSY:
        return f"{words}."
    return f"{words}. From {100 * BUSY:.0f} % on, tables give no verdict: close other programs and measure again."


class Times(NamedTuple):
    """Seconds: of the clock, of the cores, of the cores at rest, and of the processes of this program."""

    clock: float
    total: float
    idle: float
    own: float


def taken(clock: float, total: float, idle: float, own: float) -> float:
    """Return the share of the cores that neither rested nor worked for this program, of the seconds of a time."""
    if not clock >= SHORTEST_S or not total > 0:
        return math.nan
    return min(max((total - idle - own) / total, 0.0), 1.0)


def now() -> Times:
    """Return the seconds so far; NaN where the system does not say."""
    import psutil

    try:
        cores = psutil.cpu_times(percpu=True)
        if hasattr(os, "sched_getaffinity"):
            allowed = os.sched_getaffinity(0)
            cores = [core for number, core in enumerate(cores) if number in allowed] or cores
        me = psutil.Process()
        own = sum(map(_seconds, [me, *me.children(recursive=True)]))
    except (OSError, RuntimeError, psutil.Error):  # a system that does not say
        return Times(*[math.nan] * 4)
    # The first eight are the whole on Linux: what guests of this machine take is in ``user`` already.
    total = sum(sum(core[:8]) for core in cores)
    idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in cores)
    return Times(time.monotonic(), total, idle, own)


def _seconds(process: object) -> float:
    """Return the processor time of a process, with that of its children that ended; 0 if it has ended itself."""
    import psutil

    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:
        return 0.0
