"""Dispatcher and workers of tf.data service as child processes, supervised: each comes back, or an error names it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from labextras.cluster import refusal, wire
from labextras.cluster.elements import ClusterError, Elements, why
from labextras.cluster.fork_server import Forked, ForkServer
from labextras.cluster.watched import Served
from labkit.common.files import new_folder
from labkit.common.numbers import one_of, truth, whole
from labkit.common.processes import NOTICED_S, apart
from labkit.pipelines.structure import check_dataset, nodes

#: How often the supervisor looks, in seconds, and how often a worker tells the dispatcher that it lives, in ms.
LOOK_S, HEARTBEAT_MS = 0.1, 300

#: A child that dies so often in a row, each time within so many seconds of its start, stays dead.
DEATHS, EARLY_DEATH_S = 5, 1.0

#: Longest time for a start, and for an answer to a command, in seconds.
START_S, ANSWER_S = 120.0, 60.0

#: Longest time that a dispatcher may take until it listens to a request, in seconds.
SILENT_S = 15.0

#: The error message of a cluster that is closed.
CLOSED = "this cluster is closed; begin another one with labextras.cluster.data_service()"

#: Where TensorFlow keeps the journal in the folder of a dispatcher.
JOURNAL = "tf_data_dispatcher_journal"

#: More workers than this are a mistake: each holds some 60 MB, and all of them share the cores of this machine.
MOST_WORKERS = 32

#: The words for how elements are shared out.
SHARDING = ("off", "dynamic", "data", "file", "file_or_data", "hint")


class Death(NamedTuple):
    """The end of a server: its name and address, when by the Unix clock in seconds, and how."""

    name: str
    address: str
    at_s: float
    how: str

    def __str__(self) -> str:
        """Return it as the part of a sentence."""
        return (
            f"{self.name} ({self.address}) died at {time.strftime('%H:%M:%S', time.localtime(self.at_s))}, {self.how}"
        )


class ClusterServer:
    """A dispatcher or a worker.

    Attributes
    ----------
    name : str
        ``dispatcher``, ``worker 0``, ``worker 1``, ….
    address : str
        ``host:port``.
    pid : int or None
        Its process number; None on another machine.
    deaths : list of Death
    early_deaths : int
        How often in a row it died within `EARLY_DEATH_S` of its start, or could not start.
    ours : bool
        Whether this process starts it, and not somebody else.
    """

    def __init__(self, name: str, address: str, start: Callable[[], Any] | None = None) -> None:
        self.name, self.address, self.pid, self.ours = name, address, None, start is not None
        self.deaths: list[Death] = []
        self._start, self._connection, self._unanswered = start, None, 0
        self._began_s, self.early_deaths = 0.0, 0
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        """Return name, address and state."""
        return f"<{self.name} at {self.address}, {'runs' if self.alive else 'dead'}>"

    @property
    def alive(self) -> bool:
        """Whether it runs; on another machine: whether somebody listens at its address."""
        return self._connection is not None if self.ours else wire.listens(self.address)

    def kill(self) -> None:
        """Kill it with SIGKILL, as a crash would: nobody is notified.

        Raises
        ------
        ClusterError
            If it belongs to another machine, or is dead already.
        """
        if not self.ours:
            raise ClusterError(f"{self.name} ({self.address}) was started by somebody else; only its owner can end it")
        if self.pid is None:
            raise ClusterError(f"{self.name} ({self.address}) is dead already: there is nothing to kill")
        os.kill(self.pid, signal.SIGKILL)

    def begin(self) -> None:
        """Start it, and wait until it serves; ClusterError if it cannot."""
        with self._lock:
            try:
                self.pid, self._connection = self._start()
                self._unanswered = 0
                self._ask(None)
                self._began_s = time.monotonic()
            except OSError as error:
                self.pid = self._connection = None
                raise ClusterError(f"{self.name} cannot start at {self.address}: {error.strerror or error}") from error
            except ClusterError as error:
                raise ClusterError(f"{self.name} cannot start at {self.address}: {error}") from error

    def ask(self, command: str | None) -> Any:
        """Send a command and return the answer; see `labextras.cluster.server.serve`."""
        return apart(self._ask, command)

    def _ask(self, command: str | None) -> Any:
        with self._lock:
            if self._connection is None:
                raise ClusterError(f"{self.name} ({self.address}) is dead")
            try:
                if command is not None:
                    self._connection.send(command)
                self._unanswered += 1
                end = time.monotonic() + (START_S if command is None else ANSWER_S)
                while self._unanswered:  # what comes too late for an earlier command is skipped
                    if not self._connection.poll(max(0.0, end - time.monotonic())):
                        raise ClusterError(f"{self.name} ({self.address}) does not answer")
                    done, answer = self._receive()
            except (EOFError, OSError):
                raise ClusterError(f"{self.name} ({self.address}) died") from None
        if not done:
            raise ClusterError(answer)
        return answer

    def _receive(self) -> tuple[bool, Any]:
        found = self._connection.recv()
        self._unanswered -= 1
        return found

    def end(self) -> None:
        """Kill it and wait for its end. This end is intended, so it does not count as a death."""
        with self._lock:
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
                with contextlib.suppress(EOFError, OSError):
                    while True:
                        self._connection.recv()
            self.forget()

    def forget(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self.pid = self._connection = None

    def look(self, how_it_ended: Callable[[int], str]) -> Death | None:
        """Return its death, once, if it has died since the last look."""
        if not self._lock.acquire(blocking=False):
            return None  # a command is under way, and finds out itself
        try:
            if self._connection is None:
                return None
            with contextlib.suppress(EOFError, OSError):
                if self._connection.poll(0):
                    self._receive()  # an answer for which nobody waits any more
                return None
            self._connection.close()
            death = Death(self.name, self.address, time.time(), how_it_ended(self.pid))
            self.pid = self._connection = None
            self.deaths.append(death)
            self.early_deaths = self.early_deaths + 1 if time.monotonic() - self._began_s < EARLY_DEATH_S else 0
            return death
        finally:
            self._lock.release()


class Cluster:
    """What `cluster` returns.

    Attributes
    ----------
    dispatcher : ClusterServer
    workers : list of ClusterServer
    address : str
        Of the dispatcher, as tf.data wants it: ``grpc://host:port``.
    deaths : list of Death
        Of all servers, in their order.
    """

    def __init__(self, dispatcher: ClusterServer, workers: Sequence[ClusterServer], restart: bool = False) -> None:
        self.dispatcher, self.workers, self.restart = dispatcher, list(workers), restart
        self.address = f"grpc://{dispatcher.address}"
        self.deaths: list[Death] = []
        self._consumers: weakref.WeakSet[Elements] = weakref.WeakSet()
        self._served: weakref.WeakSet[Any] = weakref.WeakSet()
        self._bytes: dict[Any, int] = {}
        self._bytes_lock = threading.Lock()
        self._over, self._ending = False, threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="labkit cluster", daemon=True)

    def __enter__(self) -> Cluster:
        """Return this object."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Return all servers on one line."""
        return f"Cluster({', '.join(map(repr, self.servers))})"

    @property
    def servers(self) -> list[ClusterServer]:
        """The dispatcher and all workers."""
        return [self.dispatcher, *self.workers]

    @property
    def bytes(self) -> dict[str, int]:
        """What this process has received from each worker since the cluster began, by its name; empty but on Linux."""
        self.count()
        with self._bytes_lock:
            return {
                w.name: sum(n for (peer, _), n in self._bytes.items() if peer in wire.numbers(w.address))
                for w in self.workers
            }

    def distribute(self, sharding: str = "dynamic", **options: Any) -> Callable[[Any], Any]:
        """Return what to `apply` to a dataset: all that stands before it runs on the workers.

        Parameters
        ----------
        sharding : str
            ``off``: every worker delivers everything; ``dynamic``: elements of the source are given out first come,
            first served; ``data`` and ``file``: each worker has a fixed share of elements, or of files.
        **options
            Of `tf.data.experimental.service.distribute`: ``compression``, ``job_name``, ``consumer_index``, ….
        """
        import tensorflow as tf
        from tensorflow.data.experimental import service

        one_of("sharding", sharding, SHARDING)
        self._check_open()
        apply = service.distribute(service.ShardingPolicy[sharding.upper()], self.address, **options)

        def distributed(dataset: Any) -> Any:
            check_dataset(dataset)
            if any(node.dataset in self._served for node in nodes(dataset)):
                raise ValueError("this dataset is distributed already; allowed: once, behind all that workers shall do")
            self._check_answers()  # to hand a dataset to a dispatcher that does not answer takes for ever
            try:
                served = apply(dataset)
            except tf.errors.OpError as error:
                raise ClusterError(f"the dispatcher does not take this dataset: {why(error)}") from error
            self._served.add(served)
            return served

        return distributed

    def elements(self, dataset: Any, silence_s: float = 5.0) -> Elements:
        """Return an iterator over `dataset` that does not wait for ever for a server that is dead.

        tf.data service itself retries without end. The iterator raises where no element has come for `silence_s`
        seconds and a server is dead, or has died meanwhile and nothing has come for six times as long.

        Raises
        ------
        ClusterError
            On ``next``: the sentence names who died and when, or what the workers could not do.
        """
        self._check_open()
        return Elements(self, dataset, silence_s)

    def served(self, dataset: Any) -> Served:
        """Return a dataset that the cluster works for, for `labkit.record`: that watches all processes then.

        Their lanes stand side by side in one `Trace`. ClusterError as of `elements`.
        """
        self._check_open()
        check_dataset(dataset)
        return Served(self, dataset)

    def close(self) -> None:
        """End all that the cluster has started."""
        self._over = True
        for consumer in list(self._consumers):
            consumer.end(CLOSED)
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()

    # -- what iterators and recordings need ------------------------------------------------

    def watch(self, consumer: Elements) -> None:
        """Let the supervisor look after an iterator."""
        self._consumers.add(consumer)

    def count(self) -> None:
        """Note how much each open connection has received; a number is of use only as long as it is open."""
        peers = {peer for worker in self.workers for peer in wire.numbers(worker.address)}
        found = wire.received(peers)
        with self._bytes_lock:
            for key, count in found.items():
                before = self._bytes.get(key, 0)
                self._bytes[key] = max(count, before)

    def over(self) -> str | None:
        """Return why this cluster serves nobody any more, or None where it does."""
        one = self.dispatcher
        if self._over or not self._gone(one):
            return CLOSED if self._over else None
        return f"{one.deaths[-1] if one.deaths else f'{one.name} ({one.address}) is dead'}, and does not come back"

    def _check_open(self) -> None:
        if (why := self.over()) is not None:
            raise ClusterError(why)

    def _gone(self, server: ClusterServer) -> bool:
        """Return whether a server is dead and is not started again: nobody restarts it, or it dies at every start."""
        return not server.alive and not (self.restart and server.early_deaths < DEATHS)

    def _check_answers(self) -> None:
        """Wait until the dispatcher answers: after a restart it takes a moment."""
        end = time.monotonic() + SILENT_S
        while self._check_open() or not wire.answers(self.dispatcher.address):
            if time.monotonic() > end:
                raise ClusterError(
                    f"{self.dispatcher.name} ({self.dispatcher.address}) has not answered for {SILENT_S:g} s: it is "
                    "stopped, or no dispatcher of tf.data"
                )
            time.sleep(LOOK_S)

    def _supervise(self) -> None:
        """Look after servers and iterators until the end."""
        while not self._ending.wait(LOOK_S):
            self._look()
            self.count()

    def _look(self) -> None:
        """End every wait that would have no end."""
        for consumer in list(self._consumers):
            if (why := consumer.why_lost(self.servers, self.deaths)) is not None:
                consumer.end(why)


class _TheirCluster(Cluster):
    """A cluster that somebody else runs."""

    def __init__(self, dispatcher: ClusterServer, workers: Sequence[ClusterServer]) -> None:
        super().__init__(dispatcher, workers)
        self._thread.start()

    def add(self) -> ClusterServer:
        """Refuse: only the owner of the cluster can add workers."""
        raise ClusterError("this cluster was started by somebody else; only its owner can add a worker")


class _OwnCluster(Cluster):
    """A cluster of child processes and the thread that looks after them."""

    def __init__(self, workers: int, restart: bool, work_dir: Path | None, port: int | None) -> None:
        self._folder = new_folder("cluster")
        self._journal = work_dir or self._folder
        self._fork_server: ForkServer | None = None
        self._refuses = False
        first, *others = wire.free_ports(1 + workers)
        self._port = port = port or first
        self._shares = [f"localhost:{one}" for one in others]
        dispatcher = ClusterServer("dispatcher", f"localhost:{port}", lambda: self._fork_dispatcher(port))
        super().__init__(dispatcher, [self._worker(i, one) for i, one in enumerate(others)], restart)
        self._ready, self._failed = threading.Event(), None
        self._servers_lock = threading.RLock()
        self._thread.start()
        atexit.register(self._exit)
        try:
            while not self._ready.wait(NOTICED_S):
                pass
        except BaseException:  # the stop button
            self.close()
            raise
        if self._failed is not None:
            self.close()
            raise self._failed

    def add(self) -> ClusterServer:
        """Start another worker and return it.

        The dispatcher accepts only workers that it knew at its start. So it is started again, with the new worker, and
        goes on from its journal. Jobs that begin later share ``data`` and ``file`` among all workers.

        Raises
        ------
        ClusterError
            If it cannot start, and all is as before; or if there are 32 workers already.
        """
        self._check_open()
        if len(self.workers) >= MOST_WORKERS:
            raise ClusterError(f"this cluster has {len(self.workers)} workers; allowed: {MOST_WORKERS} at most")
        return apart(self._add)

    def _add(self) -> ClusterServer:
        (port,) = wire.free_ports(1)
        with self._servers_lock:
            worker = self._worker(len(self.workers), port)
            self._shares.append(worker.address)
            try:
                self.dispatcher.end()
                self.dispatcher.begin()
                worker.begin()
            except ClusterError:
                # Nobody would ever serve its share.
                worker.end()
                self._shares.remove(worker.address)
                self.dispatcher.end()
                with contextlib.suppress(ClusterError):  # the thread that watches the servers tries again
                    self.dispatcher.begin()
                raise
            self.workers.append(worker)
        return worker

    def close(self) -> None:
        """End all processes, and remove the private folder."""
        super().close()
        atexit.unregister(self._exit)

    def _exit(self) -> None:
        """Close it, and leave no answer in its place: the process ends."""
        self._served.clear()
        self.close()

    # -- starting --------------------------------------------------------------------------

    def _worker(self, number: int, port: int) -> ClusterServer:
        return ClusterServer(f"worker {number}", f"localhost:{port}", lambda: self._fork_worker(port))

    def _fork_dispatcher(self, port: int) -> Forked:
        self._refuses = False
        refusal.leave(port)
        settings = {"work_dir": str(self._journal), "fault_tolerant_mode": True, "worker_addresses": [*self._shares]}
        return self._fork_server.fork("dispatcher", {"port": port, **settings})

    def _fork_worker(self, port: int) -> Forked:
        addresses = {"worker_address": f"localhost:{port}", "dispatcher_address": self.dispatcher.address}
        return self._fork_server.fork("worker", {"port": port, "heartbeat_interval_ms": HEARTBEAT_MS, **addresses})

    # -- the thread that looks after all -----------------------------------------------------

    def _supervise(self) -> None:
        """Start all, look after them until the end, and end all: children end with the thread that began them."""
        try:
            self._fork_server = ForkServer(self._folder)
            for server in self.servers:
                server.begin()
        except OSError as error:
            self._failed = ClusterError(f"the cluster cannot start: {error.strerror or error}")
        except ClusterError as error:
            words = self._fork_server.error_line()
            self._failed = ClusterError(f"{error}; it said: {words}") if "died" in str(error) else error
        finally:
            self._ready.set()
        if self._failed is None:
            super()._supervise()
        for server in self.servers:
            server.forget()
        if self._fork_server is not None:
            self._fork_server.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        refusal.leave(self._port)
        if served := list(self._served):
            refusal.refuse(self._port, served)

    def _look(self) -> None:
        """Note which servers have died, restart those that may be restarted, and end waits that would never end."""
        with self._servers_lock:
            for server in self.servers:
                death = server.look(self._fork_server.how_it_ended)
                if death is not None:
                    self.deaths.append(death)
                if self._gone(server):
                    if server is self.dispatcher and not self._refuses:
                        self._refuses = True
                        refusal.refuse(self._port)
                elif not server.alive and (server is self.dispatcher or self.dispatcher.alive):
                    self._restart(server)
            super()._look()

    def _restart(self, server: ClusterServer) -> None:
        """Start a dead server at its address."""
        try:
            server.begin()
        except ClusterError as error:
            server.early_deaths += 1
            server.deaths.append(Death(server.name, server.address, time.time(), str(error)))


def data_service(
    workers: int | Sequence[str] = 2,
    restart: bool = True,
    work_dir: str | os.PathLike[str] | None = None,
    *,
    port: int | None = None,
) -> Cluster:
    """Start a dispatcher and workers of tf.data service on this machine; use it as a context manager.

    One process imports TensorFlow, and all others are forked from it. None outlives this one, however it ends.

    Parameters
    ----------
    workers : int or list of str
        How many to start; or the addresses, ``host:port``, of a cluster that somebody else runs: the dispatcher first.
    restart : bool
        Whether a server that dies is started anew at the same address. tf.data service waits for ever for one that
        does not come back; see `Cluster.elements`.
    work_dir : path, optional
        Where the dispatcher keeps its journal, from which a new one goes on; by default in a folder of its own.
    port : int, optional
        Of the dispatcher; by default one that is free.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it must be.
    ClusterError
        If a server cannot start.
    """
    truth("restart", restart)
    if not hasattr(workers, "__index__"):
        return _attached(workers)
    count = whole("workers", workers, least=1, most=MOST_WORKERS, other="(or the addresses of a cluster that runs)")
    if port is not None:
        port = whole("port", port, least=1, most=65_535)
        refusal.leave(port)
        try:
            free = wire.is_free(port)
        except PermissionError:
            raise ClusterError(
                f"port is {port}, which only an administrator may open; allowed: a free port from 1,024 on, or None"
            ) from None
        if not free:
            raise ClusterError(f"port is {port}, and a program listens there already; allowed: a free port, or None")
    folder = None
    if work_dir is not None:
        if not isinstance(work_dir, (str, os.PathLike)):
            raise TypeError(f"work_dir is {work_dir!r:.60}; allowed: a folder, or None")
        folder = Path(work_dir).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            used = (folder / JOURNAL).exists()
        except OSError as error:
            raise ValueError(
                f"work_dir is {str(work_dir)!r}, which is no folder to write to: {error.strerror}"
            ) from error
        if used:
            raise ClusterError(
                f"work_dir is {str(work_dir)!r}, which holds the journal of another cluster, with workers that this "
                "one does not have; allowed: an empty folder"
            )
    return _OwnCluster(count, restart, folder, port)


def _attached(addresses: Sequence[str]) -> Cluster:
    """Return the cluster at some addresses, the dispatcher first."""
    allowed = "allowed: a number, or a list of host:port, the dispatcher first and then every worker"
    if (
        not isinstance(addresses, (list, tuple))
        or not all(isinstance(one, str) for one in addresses)
        or len(addresses) < 2
    ):
        raise ValueError(f"workers is {addresses!r:.100}; {allowed}")
    plain = [one.removeprefix("grpc://") for one in addresses]
    for one in plain:
        if not wire.is_address(one):
            raise ValueError(
                f"workers has the address {one!r:.60}; allowed: host:port, with the name or the number of a "
                "host (IPv6 in brackets, as [::1]) and a port from 1 to 65,535"
            )
        if not wire.answers(one, timeout_s=3.0):
            raise ClusterError(f"nobody listens at {one}: is that server started, and may this machine reach it?")
    servers = [
        ClusterServer("dispatcher", plain[0]),
        *(ClusterServer(f"worker {i}", one) for i, one in enumerate(plain[1:])),
    ]
    return _TheirCluster(servers[0], servers[1:])
