"""One process that imports TensorFlow once and is forked for every server, so that each starts in well under a second.

The notebook's own process cannot be forked, because TensorFlow has threads there. The fork server only imports, so it
has no threads. It ends with the thread that started it, and its children end with it, even if one of them is killed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from labkit.common import processes
from labkit.common.environment import importing

#: Patterns of the lines of a log that explain an error. The second pattern, reasons of the system, is the better one.
_ERRORS = (
    r"(?i)error|fail|terminate",
    r"(?i)memory|temporarily unavailable|cannot allocate|failed to map|bad_alloc|no space|permission|too many",
)

#: How a child ended whose parent has ended, too, so that the exit status is lost.
UNKNOWN_END = "its parent was killed, too"


class Forked(NamedTuple):
    """A child: its process number, and the connection on which it takes commands; end of file is its end."""

    pid: int
    connection: Connection


class ForkServer:
    """The parent's end of the process that is forked.

    Start it in a thread that runs for as long as the children are needed: Linux ends them with that thread.

    Parameters
    ----------
    folder : path, optional
        The fork server makes it, and removes it when its parent has ended, in whatever way.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._log = tempfile.TemporaryFile()
        self.process, self._connection = processes.linked(__name__, str(folder or ""), log=self._log)

    def fork(self, role: str, settings: dict[str, Any]) -> Forked:
        """Fork a child: a ``program``, see `program.run`, or a server, see `labextras.cluster.server`.

        Raises
        ------
        OSError
            If the fork server has ended, or the system has no process or no memory for another child.
        """
        try:
            self._connection.send((role, settings))
            pid = self._connection.recv()
        except (EOFError, ConnectionError):
            raise OSError(f"the process that starts servers is gone; it said: {self.error_line()}") from None
        if isinstance(pid, OSError):
            raise pid
        return Forked(pid, Connection(reduction.recv_handle(self._connection)))

    def how_it_ended(self, pid: int) -> str:
        """Return how a child ended, in words; it must have ended, or be about to."""
        try:
            self._connection.send(("ended", pid))
            status = self._connection.recv()
        except (EOFError, OSError):
            return UNKNOWN_END
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def error_line(self) -> str:
        """Return the line that explains an error best, from the last output of the fork server and its children."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4_000))
        lines = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        for pattern in _ERRORS:
            lines = [line for line in lines if re.search(pattern, line)] or lines
        return re.sub(r"^[EF]\d{4} \S+ +\d+ \S+\] ", "", lines[-1])[:300] if lines else "nothing"

    def close(self) -> None:
        """End the fork server, and with it all children."""
        self._connection.close()
        self.process.kill()
        self.process.wait()
        self._log.close()


def kill_group(child: int) -> None:
    """Kill a child, if it still runs, and all that it has started."""
    for kill in (os.killpg, os.kill):  # a child that has just begun leads no group yet
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)


def main(descriptor: int, parent: int, folder: str) -> None:
    """Fork a child for each request, until the parent closes its end or dies; then remove `folder`."""
    children: set[int] = set()

    def leave(*_: object) -> None:
        for child in children:
            kill_group(child)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    processes.die_with_parent(parent, signal.SIGTERM)
    if folder:
        os.mkdir(folder, 0o700)  # not before: from here on, the end of the parent removes it
        tempfile.tempdir = folder  # of all children, which may be killed while they record
    connection = Connection(descriptor)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # input pipelines run on processors, and GPU memory is for training
    with importing():  # here, once, for all children: no search for garbage writes to the pages that they share
        for name in ("tensorflow", "labkit.recording.tfdata.driver"):
            importlib.import_module(name)
        from labextras.cluster import program, server

    me = os.getpid()
    with contextlib.suppress(EOFError, OSError):
        while True:
            what, message = connection.recv()
            if what == "ended":
                connection.send(os.waitstatus_to_exitcode(os.waitpid(message, 0)[1]))
                children.discard(message)
                continue
            ours, theirs = socket.socketpair()
            try:
                pid = os.fork()
            except OSError as error:
                connection.send(error)
                ours.close()
                theirs.close()
                continue
            if pid == 0:
                try:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    ours.close()
                    connection.close()
                    processes.die_with_parent(me)
                    os.setpgid(0, 0)  # what it starts belongs to its group, and ends with it
                    if what == "program":
                        program.run(message, Connection(theirs.detach()))
                    else:
                        server.serve(what, message, Connection(theirs.detach()))
                    os._exit(0)
                except EOFError:  # the notebook has ended
                    os._exit(0)
                except BaseException:  # the error of a child must not end the fork server, and with it all others
                    traceback.print_exc()
                    os._exit(1)
            theirs.close()
            children.add(pid)
            connection.send(pid)
            reduction.send_handle(connection, ours.fileno(), parent)
            ours.close()
    leave()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
