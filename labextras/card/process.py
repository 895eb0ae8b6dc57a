"""Starting, finding and stopping cards: each is a process with a name, a lock and a socket in one private folder.

The process that holds the lock of a name is the card of that name. So a socket without a locked lock is a leftover of a
card that was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import weakref
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

import msgspec

from labextras.card import protocol
from labextras.card.protocol import MessageError, Op, Refused, Request
from labextras.card.root import Root
from labkit.common import processes
from labkit.common.files import expanded

#: Seconds that a card may take until it is ready: the first one of a machine compiles every kernel.
START_TIMEOUT_S = 180
#: Seconds that it may take to end after SIGTERM; then it is killed.
STOP_TIMEOUT_S = 5
#: Seconds that a killed process may hold its lock, until the system has taken apart what it had: for a start, which
#: cannot know that it was killed; and for a stop, which has killed it, on a machine without a free core.
_DYING_S, _KILLED_S = 1, 60
#: Functions that are called with the name of each card that this process stops on purpose.
on_stop: list[Callable[[str], Any]] = []
#: A path of a socket has 108 bytes with the zero at its end (`sun_path` in Linux' sys/un.h; 104 in BSD's and macOS').
_SOCKET_LIMIT = 103


class Running(msgspec.Struct, frozen=True):
    """A card that runs, and what it has done so far.

    `since` is its start in seconds of `time.time`; `largest` is the number of images in its largest batch.
    """

    name: str
    pid: int
    root: str
    device: str
    since: float
    requests: int = 0
    images: int = 0
    batches: int = 0
    largest: int = 0

    def __str__(self) -> str:
        """Return one line for a terminal."""
        work = f"{self.requests:,} requests, {self.images:,} images in {self.batches:,} batches"
        return f"{self.name}: {self.root} on {self.device}, process {self.pid}, {work}"


def folder() -> Path:
    """Return the private folder for the locks and sockets of this user's cards, and make it where it is missing.

    It is called ``labkit-1000`` with the number of the user, so that nothing of others is in it, and lies in the folder
    that LABKIT_CARDS names; else in XDG_RUNTIME_DIR, or in /tmp.

    Raises
    ------
    ValueError
        If its path is too long for a socket in it.
    PermissionError
        If it belongs to somebody else, or cannot be made.
    """
    name = f"labkit-{os.getuid()}"
    longest = _SOCKET_LIMIT - len(f"/{name}/.sock") - 32
    given = os.environ.get("LABKIT_CARDS") or os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    place = expanded("LABKIT_CARDS", given).absolute()
    if len(os.fsencode(place)) > longest:
        raise ValueError(f"{place} has no room for the socket of a card; set LABKIT_CARDS to a path up to {longest}")
    place /= name
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.is_symlink() or not place.is_dir() or place.stat().st_uid != os.getuid():
        raise PermissionError(f"{place} is not a folder of yours and cannot be made: set LABKIT_CARDS to another place")
    place.chmod(0o700)
    return place


# -- locks ------------------------------------------------------------------------


def take(path: str | os.PathLike[str], timeout_s: float = 0) -> int | None:
    """Lock the file of a name and return its descriptor; None where another process holds the lock for so long.

    The file is made where it is missing, and is empty: no number of a dead process is left in it. Closing the
    descriptor releases the lock. Only the process that holds the lock removes the file. A lock on a file that was
    removed meanwhile protects nothing; so after locking, the path must still lead to the same file, else all is
    repeated.
    """
    import fcntl

    until = time.monotonic() + timeout_s
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(handle)
                return None
            time.sleep(0.02)
        os.close(handle)


def remove(place: Path, name: str) -> None:
    """Remove the files of a card in a folder, the lock last; the caller holds the lock."""
    for end in (".sock", ".new", ".lock"):
        (place / f"{name}{end}").unlink(missing_ok=True)


def sweep(name: str, timeout_s: float = 0) -> bool:
    """Remove what a card of this name left behind; False where a card of this name runs for so long."""
    place = folder()
    lock = take(place / f"{name}.lock", timeout_s)
    if lock is None:
        return False
    try:
        remove(place, name)
    finally:
        os.close(lock)
    return True


def _holder(name: str) -> int | None:
    """Return the number of the process that is the card of this name, if it has written that into its lock."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder() / f"{name}.lock").read_text())
    return None


# -- asking, starting, stopping ---------------------------------------------------


def ask(name: str, request: Request, timeout_s: float = 20) -> bytes:
    """Send one request to a card, without TensorFlow, and return the payload of its reply.

    Raises
    ------
    Refused
        With the code and the sentence of the card.
    MessageError, OSError, EOFError
        If the reply is none to this request, or there is no reply.
    """
    with connection.Client(str(folder() / f"{name}.sock"), "AF_UNIX") as card:
        card.send_bytes(protocol.pack_request(request))
        if not card.poll(timeout_s):
            raise TimeoutError(f"the card {name} gave no answer within {timeout_s} s")
        return protocol.unpack_reply(card.recv_bytes(), request.id)


def status() -> list[Running]:
    """Return the cards that run, by name; what dead ones left behind is removed."""
    found = []
    for name in sorted({path.stem for path in folder().iterdir()}):
        if not sweep(name):
            # It may be on its way out, or another program answers.
            with contextlib.suppress(OSError, EOFError, MessageError, Refused, msgspec.MsgspecError):
                found.append(_status(name, 5))
    return found


def _status(name: str, timeout_s: float = 20) -> Running:
    return msgspec.json.decode(ask(name, Request(Op.STATUS, 1), timeout_s), type=Running)


def start(
    root: str | os.PathLike[str], name: str = "card0", device: str | None = None, *, keeper: bool = False
) -> processes.Child:
    """Start a card and return its process when it serves.

    Parameters
    ----------
    root : path
        The folder that it serves.
    name : str
        As in ``smartssd://card0/...``.
    device : str, optional
        Part of the name of an OpenCL device, as of `labextras.offload.choose`.
    keeper : bool
        True lets it end with this process, however that ends; False lets it run until `stop`.

    Raises
    ------
    ValueError
        For an impossible name, no such folder, or a card of that name that runs.
    RuntimeError
        If the card does not start; the sentence says why.
    """
    protocol.check_card(name)
    place, served = folder(), Root(root).folder
    lock = take(place / f"{name}.lock", _DYING_S)
    if lock is None:
        there = f"a card called {name} runs already (process {_holder(name)})"
        raise ValueError(f"{there}: stop it with `labkit card stop {name}`, or choose another name")
    # A socket that a killed card left stays until the new one takes its place: readers of that card wait.
    os.close(lock)
    try:
        child = processes.Child(
            "labextras.card.daemon", str(place / name), polite_s=STOP_TIMEOUT_S, outlives=not keeper
        )
        child.ask({"root": served, "device": device, "keeper": keeper}, START_TIMEOUT_S)
    except BaseException as error:  # the stop button, too
        sweep(name)
        if isinstance(error, processes.ChildError):
            raise RuntimeError(f"the card {name} did not start: {error}") from None
        raise
    return child


def stop(name: str = "card0") -> None:
    """Stop a card, also one that another process started.

    Raises
    ------
    ValueError
        If none of that name runs; the sentence says which do.
    """
    if sweep(protocol.check_card(name)):
        others = ", ".join(card.name for card in status()) or "none"
        raise ValueError(f"no card called {name} runs; running: {others}")
    for number, timeout_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, _KILLED_S)):
        # The lock is held, so the process whose number is in it lives, and the number is not that of another one.
        if holder := _holder(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, number)
        if sweep(name, timeout_s):
            return
    raise RuntimeError(f"the card {name} does not end, not even when it is killed")


class Card:
    """A card that lives as long as a ``with`` block, and never longer than this process.

    Parameters
    ----------
    root : path
        The folder that it serves; nothing else on this disk can be read through it.
    name : str
        As in ``smartssd://card0/...``.
    device : str, optional
        Part of the name of an OpenCL device; by default the first.

    Raises
    ------
    ValueError
        For an impossible name, or no such folder.

    Notes
    -----
    Used with ``with``, a card starts and stops with the block::

        with Card("photos") as card:
            pixels = tf.io.read_file(card.uri("cat/1.jpg", size=224))
    """

    def __init__(self, root: str | os.PathLike[str], name: str = "card0", device: str | None = None) -> None:
        self.name, self.root, self.device = protocol.check_card(name), expanded("root", root).absolute(), device
        Root(root)
        self._child: processes.Child | None = None

    def __repr__(self) -> str:
        """Return name and state, the same on every machine."""
        return f"Card({self.name}, {'running' if self.running else 'stopped'})"

    def __enter__(self) -> Card:
        """Start the card."""
        return self.start()

    def __exit__(self, *_: Any) -> None:
        """Stop it."""
        self.stop()

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._child is not None and self._child.running

    def start(self) -> Card:
        """Start the card, also after its process was killed; see `labextras.card.start` for what can go wrong."""
        self._child = start(self.root, self.name, self.device, keeper=True)
        # Also without `stop`: at the end of this process, and when this object is no longer referenced.
        self._end = weakref.finalize(self, _end, self._child, self.name)
        return self

    def stop(self) -> None:
        """Stop the card, or tidy up after one that was killed; a fork of this process stops nothing."""
        if self._child is not None:
            self._end()

    def status(self) -> Running:
        """Return facts and counts of the card.

        Raises
        ------
        OSError
            If it does not run.
        """
        return _status(self.name)

    def uri(self, path: str | os.PathLike[str] = "", /, **parameters: Any) -> str:
        """Return the name under which TensorFlow reads a file, a folder, or a pattern through this card.

        Parameters
        ----------
        path : str or path
            From the root of the card, or an absolute path inside the root.
        **parameters
            What is to become of an image: ``size=224, dtype="float32"`` and so on, see `labextras.card`.

        Raises
        ------
        ValueError
            For a path outside the root, and whatever else `labextras.card.uri` refuses.
        """
        return protocol.uri(self.name, protocol.below(self.root, path), **parameters)


def _end(child: processes.Child, name: str) -> None:
    """End a child that is a card, remove what it may have left, and tell who reads from it."""
    child.end()
    with contextlib.suppress(OSError):
        sweep(name)
    for call in on_stop:
        call(name)
