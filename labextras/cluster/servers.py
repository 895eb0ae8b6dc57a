"""A dispatcher or a worker of tf.data service: started, asked, watched, killed; its deaths are written down."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from labextras.cluster import cluster_network
from labextras.cluster.elements import ClusterError
from labextras.cluster.fork_server import GONE, Forked, ForkServer
from labkit.common.processes import apart

#: A server that cannot start so many times in a row stays dead.
MOST_STARTS = 5

#: Longest time for a start, and for an answer to a command, in seconds.
ANSWER_S = 120.0


class Death(NamedTuple):
    """The end of a server: its name and address, when by the Unix clock in seconds, and how."""

    name: str
    address: str
    at_s: float
    how: str

    def __str__(self) -> str:
        """Return it as the part of a sentence."""
        at = time.strftime("%H:%M:%S", time.localtime(self.at_s))
        return f"{self.name} ({self.address}) died at {at}, {self.how}"


class ClusterServer:
    """A dispatcher or a worker, of this process or of somebody else.

    Parameters
    ----------
    name : str
        ``dispatcher``, ``worker 0``, ``worker 1``, ….
    address : str
        ``host:port``.
    fork_server : ForkServer or None
        What it is forked from; None for a server that somebody else has started.
    settings : callable
        Returns what is told to it at each start, see `labextras.cluster.server.serve`.

    Attributes
    ----------
    deaths : list of Death
        Of those nobody intended, and of starts that failed.
    failed_starts : int
        How many starts in a row have failed.
    """

    def __init__(
        self, name: str, address: str, fork_server: ForkServer | None, settings: Callable[[], dict[str, Any]]
    ) -> None:
        self.name, self.address, self.deaths, self.failed_starts = name, address, list[Death](), 0
        self._fork_server, self._settings = fork_server, settings
        self._child: Forked | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        """Return name, address and state."""
        return f"<{self.name} at {self.address}, {'runs' if self.alive else 'dead'}>"

    @property
    def pid(self) -> int | None:
        """Its process number while it runs; None on another machine."""
        child = self._child
        return child and child.pid

    @property
    def alive(self) -> bool:
        """Whether it runs; on another machine: whether somebody listens at its address."""
        return cluster_network.listens(self.address) if self._fork_server is None else self._child is not None

    def kill(self) -> None:
        """Kill it with SIGKILL, as a crash would: nobody is notified.

        Raises
        ------
        ClusterError
            If it belongs to another machine, or is dead already.
        """
        if self._fork_server is None:
            raise ClusterError(f"{self.name} ({self.address}) was started by somebody else; only its owner can end it")
        if (pid := self.pid) is None:
            raise ClusterError(f"{self.name} ({self.address}) is dead already: there is nothing to kill")
        os.kill(pid, signal.SIGKILL)

    def begin(self, anew: bool = False) -> None:
        """Start it, unless it runs, and wait until it serves; `anew`, where it runs, too.

        Raises
        ------
        ClusterError
            If it cannot serve; this is one of its deaths.
        """
        with self._lock:
            if anew:
                self.end()
            if self._child is not None:
                return
            try:
                self._child = self._fork_server.fork(self.name.split()[0], self._settings())
                self._ask(None)
                self.failed_starts = 0
            except (OSError, ClusterError) as error:
                why = getattr(error, "strerror", None) or str(error)
                self.end()
                self.failed_starts += 1
                self._note(why)
                raise ClusterError(f"{self.name} cannot start at {self.address}: {why}") from None

    def ask(self, command: str) -> Any:
        """Send a command and return the answer, whatever interrupts this thread; see `labextras.cluster.server.serve`.

        Raises
        ------
        ClusterError
            If it is dead, cannot do it, or does not answer in time: then it is killed.
        """
        return apart(self._ask, command)

    def _ask(self, command: str | None) -> Any:
        with self._lock:
            if self._child is None:
                raise ClusterError(f"{self.name} ({self.address}) is dead")
            link = self._child.connection
            try:
                if command is not None:
                    link.send(command)
                if not link.poll(ANSWER_S):
                    self.kill()
                    raise ClusterError(f"{self.name} ({self.address}) does not answer")
                done, answer = link.recv()
            except GONE:
                said = "" if command else f"; it said: {self._fork_server.last_line()}"
                raise ClusterError(f"{self.name} ({self.address}) died{said}") from None
        if not done:
            raise ClusterError(answer)
        return answer

    def end(self) -> str:
        """Kill it, wait for its end, and return how it ended; it may be intended, so this is no death."""
        with self._lock:
            child, self._child = self._child, None
            return self._fork_server.end(child) if child is not None else ""

    def look(self) -> bool:
        """Tell whether it is dead, and nobody is just starting it; write its death down if it has died since."""
        if not self._lock.acquire(blocking=False):
            return False  # a command is under way, and finds out itself
        try:
            if self._child is not None:
                if not self._child.connection.poll(0):
                    return False
                self._note(self.end())  # nobody waits for an answer: this is the end of the file
            return True
        finally:
            self._lock.release()

    def _note(self, how: str) -> None:
        self.deaths.append(Death(self.name, self.address, time.time(), how))
