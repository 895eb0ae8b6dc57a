"""How much of this machine other programs take: what decides whether a measured time means anything."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

#: From this share of the cores on, a comparison of times gives no verdict on small differences. On two cores it is half
#: a core. A pipeline that uses all cores may then lose a quarter of its speed, as much as many changes of the course
#: gain. A desktop at rest, with its browser and its editor, takes a few percent.
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


def took(share: float | None, cpus: int | None = None) -> str:
    """Return what other programs took of the cores, in words, as in ``other programs took 0.9 of 2 cores``.

    Parameters
    ----------
    share : float or None
        Of the cores, 0 to 1. The text is empty for None and NaN, which stand for "not known".
    cpus : int or None
        How many cores there are. Without, the share is given in percent.
    """
    if share is None or math.isnan(share):
        return ""
    if cpus:
        return f"other programs took {share * cpus:.1f} of {cpus:,} core{'s' * (cpus != 1)}"
    return f"other programs took {100 * share:.0f} % of the cores"


def warning(share: float | None, cpus: int | None = None) -> str:
    """Return `took` where it is so much that measured times mean little, `BUSY` of the cores or more; else nothing."""
    return took(share, cpus) if share is not None and share >= BUSY else ""


def sentence(share: float | None, cpus: int | None = None, limit: float = BUSY) -> str:
    """Return `took` as a sentence, and what follows from it where it is too large; nothing where it is not known.

    `limit` is what a comparison allows, see `busy_limit` of `labkit.measure`.
    """
    if not (words := took(share, cpus)):
        return ""
    if share >= limit:
        what = f"From {100 * limit:.0f} % of the cores on, tables give no verdict on a speed-up below 2"
        insist = "close other programs and measure again, or insist with measure(..., busy_limit=1)"
        return f"{words.capitalize()}. {what}: {insist}."
    if share >= BUSY:
        beside = words.removeprefix("other programs took ")
        return f"Measured beside other programs: {beside}, allowed by busy_limit={limit:g}."
    return f"{words.capitalize()}."


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
        own = processor_seconds()
    except (OSError, RuntimeError, psutil.Error):  # a system that does not say
        return Times(*[math.nan] * 4)
    # The first eight are the whole on Linux: what guests of this machine take is in ``user`` already.
    total = sum(sum(core[:8]) for core in cores)
    idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in cores)
    return Times(time.monotonic(), total, idle, own)


def processor_seconds(children: Iterable[Any] | None = None) -> float:
    """Return the seconds of the processor that this process and all that it started, or `children`, have taken so far.

    `children` are of the type ``psutil.Process``. The seconds of processes that have ended count from the moment at
    which they were waited for.
    """
    import psutil

    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for child in psutil.Process().children(recursive=True) if children is None else children:
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
