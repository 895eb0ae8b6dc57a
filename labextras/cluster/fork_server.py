"""One process that imports TensorFlow once and is forked for every server, so that each starts in well under a second.

The notebook's own process cannot be forked, because TensorFlow has threads there. The fork server only imports, so it
has no threads. It ends with the notebook, and its children end with it, even if one of them is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from labkit.common import processes
from labkit.common.environment import importing
from labkit.common.files import new_folder

#: What a connection raises whose other end is gone.
GONE = (EOFError, OSError)


class Forked(NamedTuple):
    """A child: its process number, and the connection on which it takes commands; end of file is its end."""

    pid: int
    connection: Connection


class ForkServer:
    """The parent's end of the process that is forked.

    Attributes
    ----------
    folder : Path
        The fork server makes it, and removes it when its parent has ended, in whatever way.
    """

    def __init__(self) -> None:
        self.folder = new_folder("cluster")
        self._child = processes.Child(__name__, str(self.folder), polite_s=5)
        self._dialogue = threading.Lock()

    def fork(self, role: str, settings: dict[str, Any]) -> Forked:
        """Fork a child: a ``program``, see `program.run`, or a server, see `labextras.cluster.server`.

        Raises
        ------
        OSError
            If the fork server has ended, or the system has no process or no memory for another child.
        """
        try:
            with self._dialogue:
                if isinstance(pid := self._asked(role, settings), int):
                    return Forked(pid, Connection(reduction.recv_handle(self._child.link)))
        except GONE:
            raise OSError(f"the process that starts servers is gone; it said: {self.last_line()}") from None
        raise pid

    def end(self, child: Forked) -> str:
        """Kill what is left of a child and of all that it has started, and return how it ended, in words."""
        kill_group(child.pid)
        child.connection.close()
        with contextlib.suppress(*GONE), self._dialogue:
            status = self._asked("ended", child.pid)
            return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return "its parent was killed, too"  # so the exit status is lost

    def _asked(self, *message: Any) -> Any:
        self._child.link.send(message)
        return self._child.link.recv()

    def last_line(self) -> str:
        """Return the last line that the fork server or one of its children has printed."""
        log = self._child.log
        log.seek(max(0, log.seek(0, os.SEEK_END) - 4_000))
        return log.read().decode(errors="replace").strip().rpartition("\n")[2][:300] or "nothing"

    def close(self) -> None:
        """End the fork server, and with it all children and its folder."""
        with self._dialogue:
            self._child.end()
        shutil.rmtree(self.folder, ignore_errors=True)  # where it has ended before it was told to


def kill_group(child: int) -> None:
    """Kill a child, if it still runs, and all that it has started."""
    for kill in (os.killpg, os.kill):  # a child that has just begun leads no group yet
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)


# -- in the fork server ---------------------------------------------------------------------


def main() -> None:
    """Fork a child for each request, until the parent closes its end or dies; then remove the folder."""
    children: set[int] = set()
    folder = sys.argv[3]

    def leave(*_: object) -> None:
        for child in children:
            kill_group(child)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    link = processes.link_to_parent(signal.SIGTERM)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # where an import fails
    os.mkdir(folder, 0o700)  # not before: from here on, the end of the parent removes it
    tempfile.tempdir = folder  # of all servers, which may be killed while they record
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # input pipelines run on processors, and GPU memory is for training
    with importing():  # here, once, for all children: no search for garbage writes to the pages that they share
        for name in ("tensorflow", "labkit.recording.tfdata.driver", "labextras.cluster.program"):
            importlib.import_module(name)
    with contextlib.suppress(*GONE):
        while True:
            what, message = link.recv()
            if what == "ended":
                link.send(os.waitstatus_to_exitcode(os.waitpid(message, 0)[1]))
                children.discard(message)
                continue
            ours, theirs = socket.socketpair()
            with ours, theirs:
                me = os.getpid()
                try:
                    pid = os.fork()
                except OSError as error:
                    link.send(error)
                    continue
                if pid == 0:
                    ours.close()
                    link.close()
                    _be(what, message, Connection(theirs.detach()), me)
                children.add(pid)
                link.send(pid)
                reduction.send_handle(link, ours.fileno(), os.getppid())
    leave()


def _be(role: str, settings: dict[str, Any], connection: Connection, parent: int) -> None:
    """Be a child, to its end: its error must not end the fork server, and with it all others. Does not return."""
    from labextras.cluster import program, server

    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        processes.die_with_parent(parent)
        os.setpgid(0, 0)  # what it starts belongs to its group, and ends with it
        if role == "program":
            program.run(settings, connection)
        else:
            server.serve(role, settings, connection)
        status = 0
    except EOFError:  # the notebook has ended
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
