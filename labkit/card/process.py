"""Starting, finding and stopping cards: each is a process with a name, a lock and a socket in one private folder.

Whoever holds the lock of a name is the card of that name, so that a socket without it is known to be left over.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from labkit.card import client, locks, names, protocol
from labkit.card.protocol import Malformed, Op, Refused

#: So long may a card take until it is ready: the first one of a machine compiles every kernel.
START_S = 180
#: So long may it take to leave before it is killed.
STOP_S = 5
#: A path of a socket has 108 bytes with the zero at its end (`sun_path` in Linux' sys/un.h; 104 in BSD's and macOS').
_SOCKET_LIMIT = 103


class Running(NamedTuple):
    """A card that runs: what it says of itself."""

    name: str
    pid: int
    root: str
    device: str
    since: float
    requests: int
    images: int
    batches: int
    largest: int

    def __str__(self) -> str:
        """Return one line for a terminal."""
        work = f"{self.requests:,} requests, {self.images:,} images in {self.batches:,} batches"
        return f"{self.name}: {self.root} on {self.device}, process {self.pid}, {work}"


def folder() -> Path:
    """Return the private folder where the cards of this user lie, and make it where it is missing.

    The folder in LABKIT_CARDS; else in XDG_RUNTIME_DIR, or the folder for temporary files.

    Raises
    ------
    ValueError
        If its path is too long for a socket in it.
    PermissionError
        If it belongs to somebody else.
    """
    if sys.platform == "win32":
        raise OSError("a card needs Unix sockets, which Python does not offer on Windows; use WSL")
    if given := os.environ.get("LABKIT_CARDS"):
        places = [Path(given).expanduser().absolute()]
    else:
        name = f"labkit-{os.getuid()}"
        bases = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
        places = [Path(base) / name for base in bases if base and os.access(base, os.W_OK | os.X_OK)]
    longest = _SOCKET_LIMIT - len("/.sock") - 32
    fitting = [place for place in places if len(os.fsencode(place)) <= longest]
    if not fitting:
        shown = places[0] if places else "the folder for temporary files"
        raise ValueError(f"{shown} has no room for the socket of a card; set LABKIT_CARDS to a path up to {longest}")
    place = fitting[0]
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700, parents=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{place} is not a folder of yours: remove it, or set LABKIT_CARDS to another")
    if found.st_mode & 0o077:
        place.chmod(0o700)
    return place


def status() -> list[Running]:
    """Return the cards that run, by name; what dead ones left behind is removed."""
    place, found = folder(), []
    for path in sorted(place.glob("*.lock")):
        name = path.stem
        with _locked(name) as mine:
            if mine:
                locks.sweep(folder(), name)
                continue
        with contextlib.suppress(OSError, Malformed, Refused, ValueError, TypeError):
            with client.Client(place / f"{name}.sock", 5) as asked:
                found.append(Running(**json.loads(asked.ask(Op.STATUS).payload)))
    return found


def start(
    root: str | os.PathLike[str], name: str = "card0", device: str | None = None, *, keeper: bool = False
) -> subprocess.Popen[bytes]:
    """Start a card and return its process when it can be asked.

    Parameters
    ----------
    root : path
        The folder that it serves.
    name : str
        As in ``smartssd://card0/...``.
    device : str, optional
        Part of the name of an OpenCL device, as of `labkit.offload.choose`.
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
    if not Path(root).expanduser().is_dir():
        raise ValueError(f"the root of a card is {str(root)!r}; allowed: a folder that exists")
    place = folder()
    with _locked(name) as mine:
        if not mine:
            holder = _holder(name)
            raise ValueError(
                f"a card called {name} runs already (process {holder}): "
                f"stop it with `labkit card stop {name}`, or choose another name"
            )
        # A socket that a killed card left stays until the new one takes its place: whoever reads through it waits.
    settings = {
        "name": name,
        "root": os.path.abspath(Path(root).expanduser()),
        "folder": str(place),
        "device": device,
        "parent": os.getpid() if keeper else None,
    }
    package = str(Path(__file__).resolve().parents[2])
    paths = [path for path in [os.environ.get("PYTHONPATH"), package] if path]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "labkit.card.daemon", json.dumps(settings)],
            stdin=subprocess.PIPE if keeper else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is for the notebook, not for the card
        )
        try:
            said = _line(child, START_S)
            if "ready" not in said:
                log.seek(0)
                words = log.read().decode("utf-8", "replace").split("\n")
                why = said.get("error") or next((w for w in reversed(words) if w.strip()), "it said nothing")
                raise RuntimeError(f"the card {name} did not start: {why}")
        except BaseException:
            child.kill()
            child.wait()
            if child.stdin:
                child.stdin.close()
            with _locked(name) as mine:
                if mine:
                    locks.sweep(folder(), name)
            raise
        finally:
            child.stdout.close()
    return child


def stop(name: str = "card0") -> None:
    """Stop a card, whoever started it.

    Raises
    ------
    ValueError
        If none of that name runs; the sentence says which do.
    """
    protocol.check_card(name)
    for attempt in (signal.SIGTERM, signal.SIGKILL):
        with _locked(name) as mine:
            if mine:
                locks.sweep(folder(), name)
                if attempt == signal.SIGTERM:
                    others = ", ".join(card.name for card in status()) or "none"
                    raise ValueError(f"no card called {name} runs; running: {others}")
                return
        # The lock is held, so the process in it lives, and its number cannot be anybody else's.
        if holder := _holder(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, attempt)
        if _free(name, STOP_S):
            with _locked(name) as mine:
                if mine:
                    locks.sweep(folder(), name)
            return
    raise RuntimeError(f"the card {name} does not end, not even killed")


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

    Examples
    --------
    >>> with Card("photos") as card:  # doctest: +SKIP
    ...     pixels = tf.io.read_file(card.uri("cat/1.jpg", size=224))
    """

    def __init__(self, root: str | os.PathLike[str], name: str = "card0", device: str | None = None) -> None:
        self.name, self.root, self.device = protocol.check_card(name), Path(root).expanduser(), device
        if not self.root.is_dir():
            raise ValueError(f"the root of a card is {str(root)!r}; allowed: a folder that exists")
        self._child: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None

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
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        """The number of its process; None where it does not run."""
        return self._child.pid if self.running else None

    def start(self) -> Card:
        """Start the card, also after its process was killed; see `labkit.card.start` for what can go wrong."""
        if self.running:
            raise ValueError(f"the card {self.name} runs already (process {self.pid})")
        self._tidy(sweep=False)
        self._child = start(self.root, self.name, self.device, keeper=True)
        # Also where nobody stops it: at the end of this process, and when nobody knows this object any more.
        self._finalizer = weakref.finalize(self, _end, self._child, self.name, os.getpid())
        return self

    def stop(self) -> None:
        """Stop the card; a second call, or one after its process was killed, tidies up."""
        self._tidy(sweep=True)

    def _tidy(self, *, sweep: bool) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
            _end(self._child, self.name, os.getpid(), sweep=sweep)
        self._child = self._finalizer = None

    def kill(self) -> None:
        """Kill its process at once (SIGKILL), as a crash or a power cut would: its socket stays behind."""
        if self.running:
            self._child.kill()
            self._child.wait()

    def status(self) -> Running:
        """Return what the card says of itself.

        Raises
        ------
        OSError
            If it does not run.
        """
        with client.Client(folder() / f"{self.name}.sock") as asked:
            return Running(**json.loads(asked.ask(Op.STATUS).payload))

    def uri(self, path: str | os.PathLike[str] = "", /, **parameters: Any) -> str:
        """Return the name under which TensorFlow reads a file, a folder, or a pattern through this card.

        Parameters
        ----------
        path : str or path
            From the root of the card, or an absolute path inside the root.
        **parameters
            What is to become of an image: ``size=224, dtype="float32"`` and so on, see `labkit.card`.

        Raises
        ------
        ValueError
            For a path outside the root, and whatever else `labkit.card.uri` refuses.
        """
        return names.uri(self.name, names.below(self.root, path), **parameters)


def _forget(name: str) -> None:
    """Tell the plugin of this process, if there is one, that nobody need wait for this card to come back."""
    filesystem = sys.modules.get("labkit.card.filesystem")
    if filesystem is not None:
        filesystem.forget(name)


def _end(child: subprocess.Popen[bytes], name: str, owner: int, *, sweep: bool = True) -> None:
    """Stop a child that is a card, and remove what it may have left; a fork of this process leaves it alone."""
    if os.getpid() != owner:
        return
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdin.close()
    if sweep:
        with contextlib.suppress(OSError), _locked(name) as mine:
            if mine:
                locks.sweep(folder(), name)
        _forget(name)


def _line(child: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any]:
    """Return the one line that a card says; {} where it ends without."""
    until, text = time.monotonic() + limit_s, b""
    while not text.endswith(b"\n"):
        left = until - time.monotonic()
        ready = select.select([child.stdout], [], [], max(left, 0))[0]
        if not ready:
            return {"error": f"it is not ready after {limit_s} s"}
        piece = os.read(child.stdout.fileno(), 4096)
        if not piece:
            return {}
        text += piece
    return json.loads(text)


@contextlib.contextmanager
def _locked(name: str) -> Any:
    """Give whether the lock of a name could be had; it is held inside the block, and a card starts after it."""
    handle = locks.take(folder() / f"{name}.lock")
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _holder(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int((folder() / f"{name}.lock").read_text())
    return None


def _free(name: str, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        with _locked(name) as mine:
            if mine:
                return True
        time.sleep(0.02)
    return False
