"""Several processes that run one program together, as those of a distributed training do: started, watched, ended."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import pickle
import re
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from labextras.cluster import cluster_network
from labextras.cluster.elements import ClusterError
from labextras.cluster.fork_server import GONE, Forked, ForkServer
from labextras.cluster.meetings import with_waits
from labextras.cluster.program import Outcome, pack
from labextras.cluster.servers import Death
from labkit.common.errors import error_text
from labkit.common.numbers import number, whole
from labkit.common.processes import NOTICED_S, apart
from labkit.timeline.run import ProcessorTime
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
    """

    results: list[Any]
    deaths: list[Death]

    @property
    def trace(self) -> Trace:
        """The traces that the program returned, by themselves or as a value of a dict, on one clock.

        Its window is the time in which all of them were watched, and its images are those of all together. Its first
        accelerator, waits and causes of gaps are those of process 0. The other processes have lanes beside them: in
        that of its accelerator, each trains, or waits for a batch or for another process. Where they meet, as in an
        all-reduce, each waits until all are there; see `labextras.cluster.meetings`.

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
            found.append(trace)
        merged = Trace.merge(*map(_beside, with_waits(found), itertools.count()))
        if len(found) == 1:
            return merged.with_run(window_ns=found[0].window_ns)
        starts, ends = zip(*(trace.window_ns for trace in found), strict=True)
        window = max(starts), min(ends)
        if window[0] >= window[1]:  # they never ran at the same time
            window = min(starts), max(ends)
        images = [_images(trace, window) for trace in found]
        sizes = [trace.run.batch_size for trace in found]
        return merged.with_run(
            window_ns=window,
            name=f"{len(found)} processes, gaps of process 0",
            images=None if None in images else round(sum(images)),
            batch_size=None if None in sizes else sum(sizes),
            repeats=(),  # figures of process 0 alone
            host=replace(found[0].run.host, others=None),  # most of the other programs were the other processes
            processor=_together([trace.run.processor for trace in found], window),
        )


def _together(clocks: Sequence[ProcessorTime | None], window_ns: tuple[int, int]) -> ProcessorTime | None:
    """Return the processor time of all processes in a window, as that of one; None where one was not sampled in it."""
    if not all(one and one.at_ns for one in clocks):
        return None
    at = np.unique(np.concatenate([one.at_ns for one in clocks]))
    # Each is known between its own samples.
    since = max(window_ns[0], *(one.at_ns[0] for one in clocks))
    until = min(window_ns[1], *(one.at_ns[-1] for one in clocks))
    if len(at := at[(at >= since) & (at <= until)]) < 2:
        return None
    used = sum(np.interp(at - since, np.array(one.at_ns) - since, one.cpu_ns) for one in clocks)
    queued = [one.queued_ns for one in clocks]
    return ProcessorTime(
        tuple(at.tolist()),
        tuple(np.rint(used).astype(int).tolist()),
        None if None in queued else sum(queued),
        tuple(sorted(itertools.chain(*(one.threads for one in clocks)), key=lambda one: -one.computed_ns)),
        clocks[0].consumer_ns,
        clocks[0].converting,
    )


def _images(trace: Trace, window_ns: tuple[int, int]) -> float | None:
    """Return how many of its images a process trained on in a window: of a step that lies partly in it, a part."""
    trains = trace.where(trace.select("train", kind="consumer")).slice(*trace.window_ns)
    whole, images = int(trains.duration_ns.sum()), trace.run.images
    if images is None or not whole:
        return images
    return images * int(trains.slice(*window_ns).duration_ns.sum()) / whole


def _beside(trace: Trace, index: int) -> Trace:
    """Return a trace whose lanes have the name of their process; those of process 0 alone are a consumer's."""
    name, kinds, thread = f"process {index}", {"pipeline": "host"} if index else {}, trace.thread.copy()
    threads = [Thread(f"{name} · {one.name}", kinds.get(one.kind, one.kind)) for one in trace.threads]
    if index:
        # Another process trains and waits in a lane of its own, so that it counts for no step of this one.
        mine = [trace.select(category, kind="consumer") for category in ("train", "wait")]
        thread[np.logical_or(*mine)] = len(threads)
        threads.append(Thread(f"{name} · accelerator", "device"))
    return replace(trace, threads=tuple(threads), thread=thread)


class Processes(contextlib.AbstractContextManager):
    """What `processes` returns: processes of this machine in which programs run."""

    def __init__(self, count: int) -> None:
        self.count, self._closed = count, False
        self._fork_server = ForkServer()

    def __exit__(self, *_: Any) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End all that was started."""
        self._closed = True
        self._fork_server.close()

    def run(
        self, program: Callable[..., Any], *, processes: int | None = None, restarts: int = 0, timeout_s: float = 30.0,
        **settings: Any,
    ) -> DistributedRun:  # fmt: skip
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
        if self._closed:
            raise ClusterError("these processes are closed; begin others with labextras.cluster.processes()")
        name = getattr(program, "__name__", "program")
        packed = pack((program, settings), f"{name}, with its arguments and what it uses,")
        job = {"program": packed, "folder": os.getcwd(), "path": sys.path}
        deaths: list[Death] = []
        for attempt in itertools.count():
            outcomes, died, warned = self._attempt(job | {"attempt": attempt}, count, timeout_s)
            words = [f"process {n} said: {o.result}" for n, o in sorted(outcomes.items()) if not o.done]
            late = sorted({*range(count)} - {*outcomes, *died})
            words += [f"process {n} had not ended {timeout_s:g} s later, and was ended" for n in late]
            if not died and not words:
                return DistributedRun([_read(index, outcomes[index]) for index in range(count)], deaths)
            if not died or attempt == restarts:
                print("".join(warned), end="")  # where a restart helps, nobody misses them
                raise ClusterError("; ".join([*map(str, died.values()), *words]))
            deaths += died.values()

    def _attempt(
        self, job: dict[str, Any], count: int, timeout_s: float
    ) -> tuple[dict[int, Outcome], dict[int, Death], list[str]]:
        """Start all processes, wait, and end them; return outcomes, deaths, and warnings and errors of the dead.

        The dialogues with the fork server have threads of their own: an interrupt ends the wait, and cuts none of them.
        """
        addresses = [f"localhost:{port}" for port in cluster_network.free_ports(count)]
        logs = [[f"{self._fork_server.folder}/{uuid.uuid4()}" for _ in range(2)] for _ in range(count)]
        forked: list[Forked] = []

        def fork() -> None:
            for number, (printed, warned) in enumerate(logs):
                own = {"addresses": addresses, "number": number, "printed": printed, "warned": warned}
                forked.append(self._fork_server.fork("program", job | own))

        outcomes: dict[int, Outcome] = {}
        died: dict[int, Death] = {}
        try:
            apart(fork)
            waiting, deadline = {one.connection: n for n, one in enumerate(forked)}, math.inf
            while waiting and time.monotonic() < deadline:
                for link in wait(list(waiting), NOTICED_S):
                    number = waiting.pop(link)
                    try:
                        outcomes[number] = link.recv()
                    except GONE:
                        died[number] = Death(f"process {number}", addresses[number], time.time(), "")
                    deadline = min(deadline, time.monotonic() + timeout_s)
        except OSError as error:
            raise ClusterError(f"a process cannot start: {error.strerror or error}") from error
        finally:
            ends = apart(lambda: [self._fork_server.end(one) for one in forked])
            for number, (printed, _) in enumerate(logs):
                print("".join(_lines(number, printed)), end="")
        died = {n: death._replace(how=ends[n]) for n, death in died.items()}
        return outcomes, died, [line for n in died for line in _lines(n, logs[n][1])]


#: What TensorFlow says of each function that came from another process without its file: it runs all the same.
_AUTOGRAPH = re.compile(r"^.*AutoGraph could not transform.*?do_not_convert\n", re.MULTILINE | re.DOTALL)


def _lines(number: int, log: str) -> list[str]:
    """Return the lines that a process printed; none where it died before it could print."""
    with contextlib.suppress(FileNotFoundError), open(log, errors="replace") as file:
        return [f"process {number}: {line}\n" for line in _AUTOGRAPH.sub("", file.read()).splitlines()]
    return []


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
