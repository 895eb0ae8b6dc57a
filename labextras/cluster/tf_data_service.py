"""Dispatcher and workers of tf.data service as child processes, supervised: each comes back, or an error names it."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from labextras.cluster import cluster_network, stand_in_dispatcher
from labextras.cluster.cluster_session import Served
from labextras.cluster.elements import ClusterError, Elements, why
from labextras.cluster.fork_server import ForkServer
from labextras.cluster.servers import MOST_STARTS, ClusterServer, Death
from labkit.common.numbers import one_of, whole
from labkit.common.processes import apart
from labkit.pipelines.structure import check_dataset, nodes

#: How often the supervisor looks, in seconds, and how often a worker tells the dispatcher that it lives, in ms.
LOOK_S, HEARTBEAT_MS = 0.1, 300

#: Longest time that a dispatcher may take until it listens to a request, in seconds.
SILENT_S = 15.0

#: More workers than this are a mistake: each holds some 60 MB, and all of them share the cores of this machine.
MOST_WORKERS = 32

#: The words for how elements are shared out.
SHARDING = ("off", "dynamic", "data", "file", "file_or_data", "hint")


class Cluster(contextlib.AbstractContextManager):
    """What `data_service` returns: servers, and a thread that looks after them.

    Parameters
    ----------
    addresses : list of str
        ``host:port`` of the dispatcher and of all workers.
    ours : bool
        Whether this process starts the servers, and not somebody else.

    Attributes
    ----------
    servers : list of ClusterServer
        The dispatcher and all workers.
    address : str
        Of the dispatcher, as tf.data wants it: ``grpc://host:port``.
    restart : bool
        Whether a server that dies is started anew at the same address, True until it is set. tf.data service waits for
        ever for one that does not come back; see `elements`.
    """

    def __init__(self, addresses: Sequence[str], ours: bool) -> None:
        self.restart, self.ours, self.address = True, ours, f"grpc://{addresses[0]}"
        self._shares = list(addresses[1:])
        self._port = int(addresses[0].rpartition(":")[2])
        self._consumers: weakref.WeakSet[Elements] = weakref.WeakSet()
        self._served: weakref.WeakSet[Any] = weakref.WeakSet()
        self._bytes: dict[Any, int] = {}
        self._refuses, self._ending = False, threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="labkit cluster", daemon=True)
        self._fork_server = ForkServer() if ours else None
        self.servers = [ClusterServer("dispatcher", addresses[0], self._fork_server, self._of_dispatcher)]
        self.servers += [self._worker(number, one) for number, one in enumerate(self._shares)]
        try:
            if ours:
                apart(lambda: [server.begin() for server in self.servers])
            self._thread.start()
            atexit.register(self._exit)
        except BaseException:  # the stop button, too
            self.close()
            raise

    def __exit__(self, *_: Any) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Return all servers on one line."""
        return f"Cluster({', '.join(map(repr, self.servers))})"

    @property
    def dispatcher(self) -> ClusterServer:
        """Who knows the jobs."""
        return self.servers[0]

    @property
    def workers(self) -> list[ClusterServer]:
        """Who runs the pipelines."""
        return self.servers[1:]

    @property
    def deaths(self) -> list[Death]:
        """Those of all servers, in their order."""
        return sorted((death for server in self.servers for death in server.deaths), key=lambda death: death.at_s)

    @property
    def bytes(self) -> dict[str, int]:
        """What this process has received from each worker since the cluster began, by its name; empty but on Linux."""
        self.count()
        found = list(self._bytes.items())
        peers = {worker.name: cluster_network.numbers(worker.address) for worker in self.workers}
        return {name: sum(n for (peer, _), n in found if peer in own) for name, own in peers.items()}

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
            self.check_answers()  # to hand a dataset to a dispatcher that does not answer takes for ever
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
        found = Elements(self, dataset, silence_s)
        self._consumers.add(found)
        return found

    def served(self, dataset: Any) -> Served:
        """Return a dataset that the cluster works for, for `labkit.record`: that watches all processes then.

        Their lanes stand side by side in one `Trace`. ClusterError as of `elements`.
        """
        self._check_open()
        check_dataset(dataset)
        return Served(self, dataset)

    def add(self) -> ClusterServer:
        """Start another worker and return it.

        The dispatcher accepts only workers that it knew at its start. So it is started again, with the new worker, and
        goes on from its journal. Jobs that begin later share ``data`` and ``file`` among all workers.

        Raises
        ------
        ClusterError
            If it cannot start, and it is tried again if `restart`; or if others own the cluster.
        """
        self._check_open()
        if not self.ours:
            raise ClusterError("this cluster was started by somebody else; only its owner can add a worker")
        return apart(self._add)

    def _add(self) -> ClusterServer:
        self._shares += [f"localhost:{port}" for port in cluster_network.free_ports(1)]
        worker = self._worker(len(self.workers), self._shares[-1])
        try:
            self.dispatcher.begin(anew=True)
        finally:
            self.servers.append(worker)
        worker.begin()
        return worker

    def close(self) -> None:
        """End all that the cluster has started."""
        self._ending.set()
        for consumer in list(self._consumers):
            consumer.end(self.over())
        if self._thread.ident is None:
            self._end()
        else:
            self._thread.join()
        atexit.unregister(self._exit)

    def _exit(self) -> None:
        """Close it, and leave no answer in its place: the process ends."""
        self._served.clear()
        self.close()

    def _end(self) -> None:
        for server in self.servers:
            server.end()
        if self._fork_server is not None:
            self._fork_server.close()
            stand_in_dispatcher.leave(self._port)
            if served := list(self._served):
                stand_in_dispatcher.refuse(self._port, served)

    # -- what iterators and recordings need ------------------------------------------------

    def count(self) -> None:
        """Note how much each open connection has received; a number is of use only as long as it is open."""
        peers = {peer for worker in self.workers for peer in cluster_network.numbers(worker.address)}
        for key, count in cluster_network.received(peers).items():
            self._bytes[key] = max(count, self._bytes.get(key, 0))

    def over(self) -> str | None:
        """Return why this cluster serves nobody any more, or None where it does."""
        one = self.dispatcher
        if self._ending.is_set():
            return "this cluster is closed; begin another one with labextras.cluster.data_service()"
        if one.alive or self._comes_back(one):
            return None
        return f"{one.deaths[-1] if one.deaths else f'{one.name} ({one.address}) is dead'}, and does not come back"

    def check_answers(self) -> None:
        """Wait until the dispatcher listens: after a restart it takes a moment. ClusterError where it does not."""
        end = time.monotonic() + SILENT_S
        while self._check_open() or not cluster_network.listens(self.dispatcher.address):
            if time.monotonic() > end:
                raise ClusterError(f"nobody has listened at {self.dispatcher.address} for {SILENT_S:g} s")
            time.sleep(LOOK_S)

    def _check_open(self) -> None:
        if (why := self.over()) is not None:
            raise ClusterError(why)

    def _comes_back(self, server: ClusterServer) -> bool:
        return self.ours and self.restart and server.failed_starts < MOST_STARTS

    # -- the thread that looks after all ----------------------------------------------------

    def _worker(self, number: int, address: str) -> ClusterServer:
        settings = {"worker_address": address, "dispatcher_address": self.address.removeprefix("grpc://")}
        settings |= {"port": int(address.rpartition(":")[2]), "heartbeat_interval_ms": HEARTBEAT_MS}
        return ClusterServer(f"worker {number}", address, self._fork_server, lambda: settings)

    def _of_dispatcher(self) -> dict[str, Any]:
        """Return the settings of a dispatcher, which keeps a journal, and whose port is free from here on."""
        self._refuses = False
        stand_in_dispatcher.leave(self._port)
        journal = {"work_dir": str(self._fork_server.folder), "fault_tolerant_mode": True}
        return {"port": self._port, "worker_addresses": [*self._shares], **journal}

    def _look_after(self) -> None:
        """Restart the servers that have died, if they may be, end every wait that would have no end, and all at last.

        No interrupt comes into this thread.
        """
        while not self._ending.wait(LOOK_S):
            self.count()
            for server in self.servers if self.ours else ():
                is_first = server is self.dispatcher
                if not server.look():
                    continue
                if self._comes_back(server) and (is_first or self.dispatcher.alive):
                    with contextlib.suppress(ClusterError):  # it is one of its deaths
                        server.begin()
                elif is_first and not self._refuses:
                    self._refuses = True
                    stand_in_dispatcher.refuse(self._port)
            for consumer in list(self._consumers):
                if (why := consumer.why_lost()) is not None:
                    consumer.end(why)
        self._end()


def data_service(workers: int | Sequence[str] = 2) -> Cluster:
    """Start a dispatcher and workers of tf.data service on this machine; use it as a context manager.

    One process imports TensorFlow, and all others are forked from it. None outlives this one, however it ends.

    Parameters
    ----------
    workers : int or list of str
        How many to start; or the addresses, ``host:port``, of a cluster that somebody else runs: the dispatcher first.

    Raises
    ------
    ValueError
        If `workers` is neither.
    ClusterError
        If a server cannot start.
    """
    if hasattr(workers, "__index__"):
        count = whole("workers", workers, least=1, most=MOST_WORKERS, other="(or the addresses of a cluster that runs)")
        addresses = [f"localhost:{port}" for port in cluster_network.free_ports(1 + count)]
        try:
            return Cluster(addresses, ours=True)
        except OSError as error:
            raise ClusterError(f"the cluster cannot start: {error.strerror or error}") from error
    if not isinstance(workers, (list, tuple)) or len(workers) < 2:
        allowed = "a number, or a list of host:port, the dispatcher first and then every worker"
        raise ValueError(f"workers is {workers!r:.100}; allowed: {allowed}")
    addresses = [str(one).removeprefix("grpc://") for one in workers]
    for one in addresses:
        if not cluster_network.listens(one, timeout_s=3.0):
            hint = "is it host:port, is that server started, and may this machine reach it?"
            raise ClusterError(f"nobody listens at {one}: {hint}")
    return Cluster(addresses, ours=False)
