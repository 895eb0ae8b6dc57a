"""Several processes that run one program together, as those of a distributed training do: started, watched, ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from labextras.cluster import cluster_network
from labextras.cluster.elements import ClusterError
from labextras.cluster.fork_server import GONE, Forked, ForkServer
from labextras.cluster.program import Outcome, needs, pack
from labextras.cluster.servers import Death
from labkit.common.errors import error_text
from labkit.common.numbers import number, whole
from labkit.common.processes import apart
from labkit.timeline.trace import Thread, Trace

#: More processes than this are a mistake: each holds some 300 MB, and all of them share the cores of this machine.
MOST_PROCESSES = 16

#: Of what a process prints, the last so many bytes are shown.
MOST_PRINTED = 1_000_000


@dataclass(frozen=True)
class DistributedRun:
    """How a program ran.

    Parameters
    ----------
    results : list
        What it returned in each process, in their order.
    deaths : list of Death
        Who died on the way; all processes were started again after each death.
    messages : list of str
        What the survivors of each death said, in sentences.
    """

    results: list[Any]
    deaths: list[Death]
    messages: list[str]

    @property
    def trace(self) -> Trace:
        """The traces that the program returned, by themselves or as a value of a dict, on one clock.

        The accelerator, the waits and the causes of the gaps are those of process 0. The other processes have lanes
        beside them, which are drawn and not explained: each of their own traces explains them.

        Raises
        ------
        ClusterError
            If a process returned no trace.
        """
        found = []
        for index, result in enumerate(self.results):
            values = list(result.values()) if isinstance(result, dict) else [result]
            trace = next((one for one in values if isinstance(one, Trace)), None)
            if trace is None:
                raise ClusterError(f"process {index} returned no trace: return one, or a dict with one in it")
            found.append(_beside(trace, index))
        windows = [trace.window_ns for trace in found]
        start, end = min(first for first, _ in windows), max(last for _, last in windows)
        name = f"{len(found)} processes, in figures of process 0" if len(found) > 1 else found[0].run.name
        return Trace.merge(*found).with_run(window_ns=(start, end), name=name)


def _beside(trace: Trace, index: int) -> Trace:
    """Return a trace whose lanes have the name of their process; those of process 0 alone are a consumer's."""
    name, kinds = f"process {index}", {"pipeline": "host"} if index else {}
    if not index:
        threads = [Thread(f"{name} · {thread.name}", thread.kind) for thread in trace.threads]
        return replace(trace, threads=tuple(threads))
    train, waits = (trace.select(category, kind="consumer") for category in ("train", "wait"))
    threads = [Thread(f"{name} · {thread.name}", kinds.get(thread.kind, thread.kind)) for thread in trace.threads]
    # Train steps and waits of another process get lanes of their own, so that they count for no step of this process.
    threads += [Thread(f"{name} · accelerator", "device"), Thread(f"{name} · waits for a batch", "script")]
    thread = trace.thread.copy()
    thread[train], thread[waits] = len(threads) - 2, len(threads) - 1
    return replace(trace, threads=tuple(threads), thread=thread)


class Processes:
    """What `processes` returns: processes of this machine in which programs run."""

    def __init__(self, count: int) -> None:
        self.count, self._closed = count, False
        self._warned: list[str] = []
        self._runs = threading.Lock()
        self._fork_server = ForkServer()

    def __enter__(self) -> Processes:
        """Return this object."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End all that was started."""
        self._closed = True
        self._fork_server.close()

    def run(
        self,
        program: Callable[..., Any],
        *,
        processes: int | None = None,
        restarts: int = 0,
        timeout_s: float = 30.0,
        **settings: Any,
    ) -> DistributedRun:
        """Run a function in every process at the same time, and wait for all of them.

        Where there are several, each finds the others by ``TF_CONFIG``, as ``tf.distribute`` wants it. They run on
        processors, in the folder of the notebook. Their output is printed here at the end, however they end. If the
        death of a process ends the run, its warnings and errors are printed, too.

        Parameters
        ----------
        program : function
            Gets a `labextras.cluster.program.Member` that says which one it is, and `settings`. It may use the names of
            the notebook that it is written in. What it returns travels back.
        processes : int, optional
            How many, by default all; one trains for itself.
        restarts : int
            How often all are started again after one has died. A program that saves checkpoints goes on from the last.
        timeout_s : float
            When one process has died, failed or finished, the others have this many seconds to end. A process that
            waits for another one that has ended would wait for ever.
        **settings
            As `program` wants them.

        Raises
        ------
        ClusterError
            If a process died too often, the program failed in one, or one did not end.
        ValueError, TypeError
            If an argument is not what it must be.
        """
        count = self.count if processes is None else whole("processes", processes, least=1, most=self.count)
        restarts = whole("restarts", restarts, least=0)
        timeout_s = number("timeout_s", timeout_s, above=0, most=1e6, unit="of seconds")
        if not callable(program):
            raise TypeError(f"program is {program!r:.60}; allowed: a function")
        self._check_open()
        name = getattr(program, "__name__", "program")
        parts = [(f"argument {key!r} of {name}", value) for key, value in settings.items()]
        try:
            packed = pack((program, settings), itertools.chain(parts, needs(program), [(name, program)]))
        except ClusterError as error:
            raise ClusterError(
                f"{str(error).rstrip('.')}. Let {name} make it inside: tensors, datasets and models belong to the "
                "process that made them"
            ) from error.__cause__
        try:
            job = {"program": packed, "folder": os.getcwd(), "path": sys.path}
        except OSError as error:
            raise ClusterError("the folder in which programs run is gone: choose another one with os.chdir") from error
        if not self._runs.acquire(blocking=False):
            raise ClusterError(
                "these processes run another program: wait for its end, or begin others with processes()"
            )
        try:
            return self._attempts(job, count, restarts, timeout_s)
        finally:
            self._runs.release()

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterError("these processes are closed; begin others with labextras.cluster.processes()")

    def _attempts(self, job: dict[str, Any], count: int, restarts: int, timeout_s: float) -> DistributedRun:
        deaths: list[Death] = []
        messages: list[str] = []
        for attempt in range(restarts + 1):
            outcomes, died, late = self._started(job | {"attempt": attempt}, count, timeout_s)
            self._check_open()
            words = [f"process {n} said: {o.result}" for n, o in sorted(outcomes.items()) if not o.done]
            words += [f"process {n} had not ended {timeout_s:g} s later, and was ended" for n in late]
            deaths += died
            messages += words if died else []
            if not died and not words:
                return DistributedRun([_read(index, outcomes[index]) for index in range(count)], deaths, messages)
            if not died or attempt == restarts:
                for line in self._warned:  # where a restart helps, nobody misses them
                    print(line)
                raise ClusterError("; ".join([*map(str, died), *words]))
        raise AssertionError("the last attempt returns or raises")

    def _started(self, *job: Any) -> tuple[dict[int, Outcome], list[Death], list[int]]:
        """Do `_once` in a thread of its own: an interrupt ends the run, and cuts no dialogue with the fork server."""
        printed: list[str] = []  # printed here, for a notebook shows what another thread prints below another cell
        stopped, stop = Pipe(duplex=False)
        with stopped, stop:
            try:
                return apart(self._once, *job, stopped, printed, hurry=stop.close)
            finally:
                for line in printed:
                    print(line)

    def _once(
        self, job: dict[str, Any], count: int, timeout_s: float, stopped: Connection, printed: list[str]
    ) -> tuple[dict[int, Outcome], list[Death], list[int]]:
        """Start all processes; return the reported outcomes, the processes that died, and those that were ended.

        All are ended when the other end of `stopped` is closed. `printed` takes what they print, and `_warned` the
        warnings and errors of those who died.
        """
        self._warned = []
        addresses = [f"localhost:{port}" for port in cluster_network.free_ports(count)]
        forked: dict[int, Forked] = {}
        logs: dict[int, list[IO[bytes]]] = {}
        outcomes: dict[int, Outcome] = {}
        died: dict[int, float] = {}
        try:
            for index in range(count):
                forked[index] = self._fork_server.fork("program", job | {"addresses": addresses, "number": index})
            for index, one in forked.items():
                with contextlib.suppress(*GONE, RuntimeError):  # it has died already
                    for _ in range(2):
                        logs.setdefault(index, []).append(open(reduction.recv_handle(one.connection), "rb"))
            waiting, deadline = dict(forked), None
            while waiting:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                ready = wait([stopped, *(one.connection for one in waiting.values())], left)
                if not ready or stopped in ready:
                    break
                for index in [n for n, one in waiting.items() if one.connection in ready]:
                    try:
                        outcomes[index] = waiting.pop(index).connection.recv()
                    except GONE:
                        died[index] = time.time()
                deadline = deadline or time.monotonic() + timeout_s
        except OSError as error:
            raise ClusterError(f"a process cannot start: {error.strerror or error}") from error
        finally:
            ends = {index: self._fork_server.end(one) for index, one in forked.items()}
            for index, files in logs.items():
                lines = [_lines(index, log) for log in files]
                printed += lines[0]
                if index in died:
                    self._warned += itertools.chain(*lines[1:])
        deaths = [Death(f"process {index}", addresses[index], at_s, ends[index]) for index, at_s in died.items()]
        return outcomes, deaths, sorted(waiting)


def _lines(index: int, log: IO[bytes]) -> list[str]:
    """Return the lines that a process printed, and close its file."""
    with log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - MOST_PRINTED))
        lines = log.read().decode(errors="replace").splitlines()
    if size > MOST_PRINTED:
        lines.insert(0, f"(the last {MOST_PRINTED:,} of {size:,} bytes)")
    return [f"process {index}: {line}" for line in lines]


def _read(index: int, outcome: Outcome) -> Any:
    """Return what a program returned."""
    try:
        return pickle.loads(outcome.result)
    except Exception as error:  # whatever an object says that finds nothing here of what it needs
        raise ClusterError(f"what process {index} returned cannot be read here: {error_text(error)[:200]}") from error


def processes(count: int = 2) -> Processes:
    """Start processes that train together on this machine; use it as a context manager.

    One process imports TensorFlow, and all others are forked from it. None outlives this one, however it ends.

    Parameters
    ----------
    count : int
        How many at most run at a time.

    Raises
    ------
    ValueError, TypeError
        If `count` is not what it must be.
    ClusterError
        If no process can be started.
    """
    count = whole("count", count, least=1, most=MOST_PROCESSES)
    try:
        return Processes(count)
    except OSError as error:
        raise ClusterError(f"no process can be started: {error.strerror or error}") from error
