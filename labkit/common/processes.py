"""Child processes: one way to start, watch and end them, and none outlives its parent. And work that is done whole."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent import futures
from multiprocessing import connection
from typing import Any

# prctl(2): choose the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1

#: The stop button interrupts no wait in C when another thread takes its signal: so wait in turns of so many seconds.
NOTICED_S = 0.2

#: A child that has closed its pipe may take so many seconds to say why.
_LAST_WORDS_S = 5


class ChildError(OSError):
    """A child does not answer, or has ended: what it said last, or how long was waited."""


class Child:
    """A module in a fresh interpreter, with a pipe to it.

    It has a session of its own, as Ctrl-C is for the notebook, and finds the modules that this process finds. It is
    ended by `end`, when this object is no longer referenced, and when this process ends: by itself where that is
    killed, see `link_to_parent` and `leave_with_parent`. A fork of this process leaves it alone. Wherever an interrupt
    comes while it starts, no child is left.

    Parameters
    ----------
    name : str
        What ``python -m`` runs. The first two arguments of the module are the descriptor of its own end of the pipe,
        and the number of this process.
    *words : str
        Its other arguments.
    env : mapping, optional
        What it has in its environment besides.
    polite_s : float
        Seconds that it may take to end after SIGTERM, before it is killed; with 0 it is killed at once.
    outlives : bool
        Whether it may go on when this process ends: a server that somebody starts on the command line.

    Attributes
    ----------
    process : subprocess.Popen
    link : multiprocessing.connection.Connection
        This end of the pipe. To read from it raises EOFError once the child has ended.
    log : file
        Takes all that it prints.
    """

    def __init__(
        self, name: str, *words: str, env: Mapping[str, str] | None = None, polite_s: float = 0, outlives: bool = False
    ) -> None:
        self.process: Any = None
        self.log, self._owner, self._polite_s = tempfile.TemporaryFile(), os.getpid(), polite_s
        self._finalizer: Any = None
        try:
            _done(_lasting, lambda: None, self._start, name, words, env or {}, outlives)
        except BaseException:
            self.end()
            raise

    def _start(self, name: str, words: tuple[str, ...], env: Mapping[str, str], outlives: bool) -> None:
        self.link, theirs = connection.Pipe()
        with theirs:
            handle = theirs.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", name, str(handle), str(self._owner), *words],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                start_new_session=True,
                env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[handle],
            )
        if not outlives:
            self._finalizer = weakref.finalize(self, _stop, self.process, self._owner, self._polite_s)

    @property
    def running(self) -> bool:
        """Whether it runs, and this process started it."""
        return os.getpid() == self._owner and self.process.poll() is None

    def answer(self, timeout_s: float) -> Any:
        """Return its next message; without one it is ended.

        Raises
        ------
        ChildError
            If none comes within so many seconds, or it has ended: what it said last.
        """
        try:
            until = time.monotonic() + timeout_s
            while not self.link.poll(NOTICED_S):
                if time.monotonic() > until:
                    raise ChildError(f"it is not ready after {timeout_s:g} s")
            return self.link.recv()
        except (EOFError, ConnectionError):
            raise ChildError(self.last_words()) from None
        except BaseException:  # the stop button, too
            self.end()
            raise

    def ask(self, message: Any, timeout_s: float) -> Any:
        """Send a message and return the answer; see `answer`."""
        with contextlib.suppress(ConnectionError):  # of one that has ended already, the log says why
            self.link.send(message)
        return self.answer(timeout_s)

    def last_words(self) -> str:
        """End it, and return the last line that it printed: there it says why it ended."""
        self.wait(_LAST_WORDS_S)
        self.kill()
        self.log.seek(0)
        said = self.log.read().decode(errors="replace").strip().rpartition("\n")[2]
        self.end()
        return said or "it wrote no message; was it killed?"

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, so many seconds at most, and tell whether it has."""
        return _ended(self.process, timeout_s)

    def kill(self) -> None:
        """Kill it, and all that it has started."""
        _stop(self.process, self._owner, 0)

    def end(self) -> None:
        """End it, and let go of it."""
        if self.process is not None:
            _stop(self.process, self._owner, self._polite_s)
            self.link.close()
        if self._finalizer is not None:
            self._finalizer.detach()
        self.log.close()


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    return process.returncode is not None


def _stop(process: subprocess.Popen[bytes], owner: int, polite_s: float) -> None:
    """End a child of the process `owner`; if it has not ended so many seconds after SIGTERM, with all of its group."""
    if os.getpid() != owner:
        return
    try:
        if polite_s:
            process.terminate()
            _ended(process, polite_s)
    finally:  # where the stop button ends the wait, too
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# -- in the child -----------------------------------------------------------------------------


def link_to_parent(number: int | None = signal.SIGKILL) -> connection.Connection:
    """Return the child's own end of the pipe of `Child`; from now on this process ends with its parent.

    Parameters
    ----------
    number : int or None
        The signal that ends it; None where `leave_with_parent` does that.
    """
    if number is not None:
        die_with_parent(int(sys.argv[2]), number)
    return connection.Connection(int(sys.argv[1]))


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """End this process when its parent ends, even if the parent is killed (on Linux), or has ended already.

    Parameters
    ----------
    parent : int
        The process number of the parent, taken by the parent itself before it started this process.
    number : int
        The signal that says so. On Linux the parent is the thread that started this process; that of `Child` lasts.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def leave_with_parent(leave: Callable[[], Any]) -> None:
    """Call `leave` in a thread when the parent of this process has ended, on every system: it has another parent then.

    For a process whose threads all let the interpreter go, and which has something to tidy up. Linux would send its
    signal once for every *thread* of a parent that is killed, and LLVM, which compiles kernels, may have replaced our
    handlers by its own, which work once: the second signal would end the process at once.
    """
    parent = int(sys.argv[2])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        leave()

    threading.Thread(target=watch, name="parent", daemon=True).start()


# -- work that an interrupt does not cut off ----------------------------------------------------


def apart(work: Callable[..., Any], *arguments: Any, hurry: Callable[[], Any] = lambda: None) -> Any:
    """Return what a function returns that runs in a thread of its own.

    An interrupt of this thread does not cut it off in the middle, as in a dialogue with another process. Wherever the
    interrupt comes, the work is over when it is raised, or never begins: an executor loses a thread that is just
    starting, and what was asked for then happens later. Work that may take long is told by `hurry` that it is enough.
    """
    return _done(lambda runs: threading.Thread(target=runs).start(), hurry, work, *arguments)


def _done(
    begin: Callable[[Callable[[], None]], None], hurry: Callable[[], Any], work: Callable[..., Any], *arguments: Any
) -> Any:
    """Do `apart`'s work in the thread that `begin` gives it to."""
    found: futures.Future[Any] = futures.Future()

    def runs() -> None:
        if found.set_running_or_notify_cancel():
            try:
                found.set_result(work(*arguments))
            except BaseException as error:  # it is raised where the result is waited for
                found.set_exception(error)

    try:
        begin(runs)
        while not futures.wait([found], NOTICED_S).done:  # the stop button ends the wait, whichever thread takes it
            pass
        return found.result()
    except BaseException:
        hurry()
        raise
    finally:
        if not found.cancel():
            futures.wait([found])


#: What the thread that starts children has to do, by process: a fork has no such thread.
_starts: dict[int, queue.SimpleQueue[Callable[[], None]]] = {}


def _lasting(runs: Callable[[], None]) -> None:
    """Give work to a thread that lasts as long as this process: Linux ends a child with the thread that started it."""

    def works(waiting: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            waiting.get()()

    if (waiting := _starts.get(os.getpid())) is None:
        waiting = queue.SimpleQueue()
        threading.Thread(target=works, args=[waiting], name="labkit starts processes", daemon=True).start()
        _starts[os.getpid()] = waiting
    waiting.put(runs)
