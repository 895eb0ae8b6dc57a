"""Several processes that run one program together, as those of a distributed training do: started, watched, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from labkit.common.numbers import number, whole
from labkit.service import wire
from labkit.service.cluster import Death
from labkit.service.elements import ClusterError
from labkit.service.nursery import Born, Nursery
from labkit.service.program import Outcome
from labkit.timeline.trace import Thread, Trace

#: More processes than this are a mistake: each holds some 300 MB, and all of them share the cores of this machine.
MOST_PROCESSES = 16


@dataclass(frozen=True)
class DistributedRun:
    """How a program ran.

    Parameters
    ----------
    results : list
        What it returned in each process, in their order.
    deaths : list of Death
        Who died on the way; all processes were started again after each death.
    said : list of str
        What the survivors of each death said, in sentences.
    """

    results: list[Any]
    deaths: list[Death]
    said: list[str]

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
    # What trains and what waits in another process are lanes of their own, so that they count for no step of this one.
    threads += [Thread(f"{name} · accelerator", "device"), Thread(f"{name} · waits for a batch", "script")]
    thread = trace.thread.copy()
    thread[train], thread[waits] = len(threads) - 2, len(threads) - 1
    return replace(trace, threads=tuple(threads), thread=thread)


class Processes:
    """What `processes` returns: processes of this machine in which programs run."""

    def __init__(self, count: int) -> None:
        self.count, self._stop = count, None
        # Linux ends the children with the thread that began them: one that lives as long as this object.
        self._thread = futures.ThreadPoolExecutor(1, "labkit processes")
        try:
            self._nursery: Nursery | None = self._thread.submit(Nursery).result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Processes:
        """Return this object."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End all that was started."""
        nursery, self._nursery = getattr(self, "_nursery", None), None
        if nursery is not None:
            self._end()
            nursery.close()
        self._thread.shutdown()

    def run(
        self,
        program: Callable[..., Any],
        *,
        processes: int | None = None,
        restarts: int = 0,
        patience_s: float = 30.0,
        **settings: Any,
    ) -> DistributedRun:
        """Run a function in every process at the same time, and wait for all of them.

        Where there are several, each finds the others by ``TF_CONFIG``, as ``tf.distribute`` wants it. They run on
        processors; what they print is printed here, at the end.

        Parameters
        ----------
        program : function
            Gets a `labkit.service.program.Member` that says which one it is, and `settings`. It may use the names of
            the notebook that it is written in. What it returns travels back.
        processes : int, optional
            How many, by default all; one trains for itself.
        restarts : int
            How often all are started again after one has died. A program that saves checkpoints goes on from the last.
        patience_s : float
            How long the others have to end, in seconds, when one has died, failed or finished. Who waits for one that
            is gone would wait for ever.
        **settings
            As `program` wants them.

        Raises
        ------
        ClusterError
            If a process died too often, the program failed in one, or one did not end.
        ValueError, TypeError
            If an argument is not what it must be.
        """
        import cloudpickle

        count = self.count if processes is None else whole("processes", processes, least=1, most=self.count)
        restarts = whole("restarts", restarts, least=0)
        patience_s = number("patience_s", patience_s, above=0, unit="of seconds")
        if not callable(program):
            raise TypeError(f"program is {program!r:.60}; allowed: a function")
        if self._nursery is None:
            raise ClusterError("these processes are closed; begin others with labkit.processes()")
        try:
            packed = cloudpickle.dumps((program, settings))
        except Exception as error:  # whatever an object says that cannot be pickled
            raise ClusterError(
                f"{getattr(program, '__name__', 'program')} cannot be sent to another process: {error}. Make what it "
                "needs inside of it: tensors, datasets and models belong to the process that made them"
            ) from error
        deaths: list[Death] = []
        said: list[str] = []
        for attempt in range(restarts + 1):
            outcomes, died, late = self._started(packed, count, attempt, patience_s)
            for index, outcome in sorted(outcomes.items()):
                for line in outcome.printed.splitlines():
                    print(f"process {index}: {line}")
            words = [f"process {n} said: {o.result}" for n, o in outcomes.items() if not o.done]
            words += [f"process {n} had not ended {patience_s:g} s later, and was ended" for n in late]
            deaths += died
            said += words if died else []
            if not died and not words:
                return DistributedRun([outcomes[index].result for index in range(count)], deaths, said)
            if not died or attempt == restarts:
                raise ClusterError("; ".join([*map(str, died), *words]))
        raise AssertionError("the last attempt returns or raises")

    def _started(self, *told: Any) -> tuple[dict[int, Outcome], list[Death], list[int]]:
        """Do `_once` in the thread that talks to the nursery: an interrupt ends the run, and never their dialogue."""
        try:
            stopped, self._stop = Pipe(duplex=False)
            return self._thread.submit(self._once, *told, stopped).result()
        finally:
            self._end()

    def _end(self) -> None:
        """End what runs, wherever an interrupt has left it."""
        if self._stop is not None:
            self._stop.close()
        self._thread.submit(int).result()  # what the thread was asked for before is over now

    def _once(
        self, packed: bytes, count: int, attempt: int, patience_s: float, stopped: Connection
    ) -> tuple[dict[int, Outcome], list[Death], list[int]]:
        """Start all, and return how those ended that said so, who died, and who had to be ended.

        All are ended when the other end of `stopped` is closed.
        """
        addresses = [f"localhost:{port}" for port in wire.free_ports(count)]
        born: dict[int, Born] = {}
        outcomes: dict[int, Outcome] = {}
        died: list[Death] = []
        try:
            for index in range(count):
                told = {"program": packed, "addresses": addresses, "number": index, "attempt": attempt}
                born[index] = self._nursery.bear("program", told)
            waiting, deadline = dict(born), None
            while waiting:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                ready = wait([stopped, *(one.connection for one in waiting.values())], left)
                if not ready or stopped in ready:
                    break
                for index in [n for n, one in waiting.items() if one.connection in ready]:
                    one = waiting.pop(index)
                    try:
                        outcomes[index] = one.connection.recv()
                    except (EOFError, OSError):
                        how = self._nursery.how_it_ended(one.pid)
                        died.append(Death(f"process {index}", addresses[index], time.time(), how))
                deadline = deadline or time.monotonic() + patience_s
            return outcomes, died, sorted(waiting)
        except OSError as error:
            raise ClusterError(f"a process cannot start: {error.strerror or error}") from error
        finally:
            stopped.close()
            dead = {death.name for death in died}
            for index, one in born.items():
                one.connection.close()
                if f"process {index}" not in dead:
                    with contextlib.suppress(OSError):
                        os.kill(one.pid, signal.SIGKILL)
                    self._nursery.how_it_ended(one.pid)


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
