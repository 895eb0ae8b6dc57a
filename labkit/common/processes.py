"""Child processes that never outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from multiprocessing import connection
from typing import IO, Any

# prctl(2): choose the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1

#: The stop button interrupts no wait in C when another thread takes its signal: so wait in turns of so many seconds.
NOTICED_S = 0.2


def module(
    name: str, *words: str, log: IO[bytes], env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a module in a fresh interpreter and a session of its own; Ctrl-C is for the notebook, not for it.

    It finds the modules that this process finds.

    Parameters
    ----------
    name : str
        What ``python -m`` runs.
    *words : str
        Its arguments.
    log : file
        Takes all that it prints.
    env : mapping, optional
        What it has in its environment besides.
    **options
        As for `subprocess.Popen`.
    """
    return subprocess.Popen(
        [sys.executable, "-u", "-m", name, *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**os.environ, **(env or {}), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        **options,
    )


def linked(
    name: str, *words: str, log: IO[bytes], **options: Any
) -> tuple[subprocess.Popen[bytes], connection.Connection]:
    """Start a module as `module` does, with a pipe to it; return the process, and this end of the pipe.

    The first two arguments of the module are the descriptor of its own end, and the number of this process. To read
    from this end raises EOFError once the child has ended.
    """
    ours, theirs = connection.Pipe()
    with theirs:
        handle = theirs.fileno()
        return module(name, str(handle), str(os.getpid()), *words, log=log, pass_fds=[handle], **options), ours


def received(link: connection.Connection, timeout_s: float) -> Any:
    """Return the next message of a child.

    Raises
    ------
    TimeoutError, EOFError
        If none comes within `timeout_s` seconds; if the child has ended.
    """
    until = time.monotonic() + timeout_s
    while not link.poll(NOTICED_S):
        if time.monotonic() > until:
            raise TimeoutError(f"it is not ready after {timeout_s:g} s")
    return link.recv()


def last_line(log: IO[bytes]) -> str:
    """Return the last line of what a child wrote into its log: there it says why it ended."""
    log.seek(0)
    return log.read().decode(errors="replace").strip().rpartition("\n")[2] or "it wrote no message; was it killed?"


def stop(child: subprocess.Popen[bytes], owner: int, timeout_s: float) -> bool:
    """Stop a child that the process `owner` started, and tell whether that is this one: a fork leaves it alone."""
    if os.getpid() != owner:
        return False
    child.terminate()
    ended(child, timeout_s)
    return True


def ended(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait until a child has ended; kill it where that takes longer than `timeout_s` seconds."""
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """End this process when its parent ends, even if the parent is killed (on Linux), or has ended already.

    Parameters
    ----------
    parent : int
        The process number of the parent, taken by the parent itself before it started this process.
    number : int
        The signal that says so. On Linux the parent is the thread that started this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns that runs in a thread of its own.

    An interrupt of this thread does not cut it off in the middle, as in a dialogue with another process. Wherever the
    interrupt comes, the work is over when it is raised, or never begins: an executor loses a thread that is just
    starting, and what was asked for then happens later.
    """
    found: futures.Future[Any] = futures.Future()

    def runs() -> None:
        if found.set_running_or_notify_cancel():
            try:
                found.set_result(work(*arguments))
            except BaseException as error:  # it is raised where the result is waited for
                found.set_exception(error)

    try:
        threading.Thread(target=runs).start()
        return result_of(found)
    finally:
        if not found.cancel():
            futures.wait([found])


def result_of(future: futures.Future[Any]) -> Any:
    """Wait for what another thread does, and return it; the stop button ends the wait, whichever thread takes it."""
    while not futures.wait([future], NOTICED_S).done:
        pass
    return future.result()
