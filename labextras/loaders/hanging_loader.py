"""A loader that hangs: its consumer waits, and no process computes, wants a core, reads or begins anything any more."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from labextras.loaders import shared_spans
from labextras.loaders.processes_to_trace import open_spans
from labkit.common.other_programs import processor_seconds
from labkit.recording.processor_clock import scheduled

#: Where nothing computes, reads or begins for so long while the consumer waits, the loader hangs. Seconds.
STOPPED_S = 60.0

#: Limits below which a loader hangs, for each second. A waiting thread looks every few milliseconds whether it may go
#: on, which takes less than this share of a core. Wake-ups through pipes are bytes, too, but fewer than this many.
IDLE_SHARE, IDLE_BYTES = 0.005, 70

#: A thread that had a core, or waited for one, for this share of the time has work to do, however little it computed:
#: on a busy machine it may hardly get one.
WANTS_CORE = 0.8


class Activity(NamedTuple):
    """What the processes of a loader did so far, without the calling thread.

    Parameters
    ----------
    at_s, computed_s : float
        The clock, and the time of the processor.
    read, begun : int
        Bytes read, and spans of work that began.
    away : bool
        Whether a process is connected to another machine, which may be at work for it. Nobody counts what a library of
        C++ gets from there.
    wanted_ns : dict of str to int
        For threads by their numbers in the system, how long they had a core or waited for one.
    """

    at_s: float
    computed_s: float
    read: int
    begun: int
    away: bool
    wanted_ns: dict[str, int]

    def works_since(self, before: Activity) -> bool:
        """Tell whether anything was done since then, or wanted to be."""
        seconds = self.at_s - before.at_s
        wanted = max((ns - before.wanted_ns.get(thread, ns) for thread, ns in self.wanted_ns.items()), default=0)
        return (
            self.computed_s - before.computed_s > IDLE_SHARE * seconds
            or self.read - before.read > IDLE_BYTES * seconds
            or self.begun > before.begun
            or self.away
            or wanted > WANTS_CORE * 1e9 * seconds
        )


class HangWatch:
    """Interrupts a consumer that waits for processes that do nothing any more: forked processes may hang.

    Parameters
    ----------
    epochs : labextras.loaders.session.Epochs
        Of which the main thread takes batches.
    folder : path
        Where the processes write their spans.

    Attributes
    ----------
    stopped : str or None
        Why the consumer was interrupted.
    """

    def __init__(self, epochs: Any, folder: Path) -> None:
        self.epochs, self.folder, self.stopped = epochs, folder, None
        self._over, me = threading.Event(), psutil.Process()
        # Other programs that this one started earlier, such as TensorBoard.
        self._beside = [child for child in me.children() if not may_be_a_worker(child, me)]
        threading.Thread(target=self._run, name="labkit watch", daemon=True).start()

    def end(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _run(self) -> None:
        taken, first, last = -1, None, None
        while not self._over.wait(STOPPED_S / 4):
            if self.epochs.taken != taken or not self.epochs.waits:
                taken, first = self.epochs.taken, None
                continue
            now = self._activity()
            if first is None or now.works_since(last):
                first = now
            elif now.at_s - first.at_s >= 0.75 * STOPPED_S:  # and a quarter of it was over before the first look
                self._interrupt(now.computed_s - first.computed_s, now.read - first.read)
                return
            last = now

    def _interrupt(self, computed_s: float, read: int) -> None:
        doing = "; ".join(text for text, _ in open_spans(shared_spans.read(self.folder), shared_spans.clock()))
        took = f"all together took {max(0.0, computed_s):.2f} s of a core, and read {max(0, read):,} bytes"
        self.stopped = f"no process computed for {STOPPED_S:g} s{f' ({doing})' if doing else ''}: {took}."
        if self.epochs.loader.facts.settings.get("start method") == "fork":
            hint = "try multiprocessing_context='spawn'."
            self.stopped += f" A library that had threads before the fork can hang in a forked worker: {hint}"
        if callable(signal.getsignal(signal.SIGINT)) and not self._over.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # ends a wait for a lock, too

    def _activity(self) -> Activity:
        """Return the work so far of this process, and of those that may work for the loader."""
        read, begun, me = 0, 0, psutil.Process()
        children = me.children(recursive=True)  # first: what other programs begin meanwhile is no worker
        beside = set(self._beside)
        for other in self._beside:
            with contextlib.suppress(psutil.Error):
                beside.update(other.children(recursive=True))
        # A fork server that ran before is no worker, but the processes that it forks are.
        workers = [one for one in children if one not in beside or may_be_a_worker(one, me)]
        for one in (*workers, me):
            with contextlib.suppress(psutil.Error, AttributeError):  # no system but Linux counts bytes
                read += one.io_counters().read_chars
        read -= _read_by_this_thread()
        for process in shared_spans.read(self.folder):
            # Waits are not counted: a thread that only waits begins a new wait again and again.
            works = [name for name, (_, category) in process.names.items() if not category.endswith("iterator")]
            begun += int(np.isin(process.records["name"], works).sum())
        computed_s = processor_seconds(workers) - time.thread_time()
        wanted_ns = {thread: sum(times) for thread, times in scheduled(one.pid for one in (*workers, me)).items()}
        wanted_ns.pop(str(threading.get_native_id()), None)
        return Activity(time.monotonic(), computed_s, read, begun, any(map(is_away, (*workers, me))), wanted_ns)


def is_away(process: psutil.Process) -> bool:
    """Tell whether a process is connected to another machine."""
    with contextlib.suppress(psutil.Error):
        connections = getattr(process, "net_connections", None) or process.connections  # its name before psutil 6
        found = [to.raddr.ip for to in connections() if to.status == psutil.CONN_ESTABLISHED and to.raddr]
        return any(not ipaddress.ip_address(one.removeprefix("::ffff:")).is_loopback for one in found)
    return False


def _read_by_this_thread() -> int:
    try:
        return int(Path(f"/proc/self/task/{threading.get_native_id()}/io").read_text().split()[1])
    except OSError:  # no system but Linux counts it
        return 0


def may_be_a_worker(child: psutil.Process, me: psutil.Process) -> bool:
    """Return whether a process works for Python: forked, it has its parent's command line, or its own names the way.

    So it does with multiprocessing, and with joblib, which begins the workers that it keeps as a module of loky. Other
    programs of this one, such as a card, a store or a board, load nothing for a pipeline; nor does what has ended.
    """
    try:
        line, parent = child.cmdline(), child.ppid()
    except psutil.Error:  # it has ended, whether somebody has waited for it or not
        return False
    if "forkserver" in " ".join(line):
        return parent != me.pid
    if line == me.cmdline() or "--multiprocessing-fork" in line:
        return True
    return "-m" in line[:-1] and "loky" in line[line.index("-m") + 1].split(".")
