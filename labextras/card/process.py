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
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

import msgspec

from labextras.card import protocol
from labextras.card.protocol import MessageError, Op, Refused, Request
from labextras.card.root import Root
from labextras.card.worker import COPY_IN, ENGINES, KERNEL, EngineSpan
from labkit.common import processes
from labkit.common.files import expanded
from labkit.common.numbers import truth, whole
from labkit.timeline.trace import Span, Trace

#: Seconds that a card may take until it is ready: the first one of a machine compiles every kernel.
START_TIMEOUT_S = 180
#: Seconds that it may take to end after SIGTERM; then it is killed.
STOP_TIMEOUT_S = 5
#: Bytes that files which are being written through a card may have, all together, where nobody says.
LIMIT_BYTES = 4 << 30
#: Seconds that a killed process may hold its lock, until the system has taken apart what it had: for a start, which
#: cannot know that it was killed; and for a stop, which has killed it, on a machine without a free core.
_DYING_S, _KILLED_S = 1, 60
#: What to change where a job waits for its card.
_ADVICE = "look which lane is full: the kernel (a faster device, on an FPGA more decoders) or the threads of the host."
#: Functions that are called with the name of each card that this process stops on purpose.
on_stop: list[Callable[[str], Any]] = []
#: A path of a socket has 108 bytes with the zero at its end (`sun_path` in Linux' sys/un.h; 104 in BSD's and macOS').
_SOCKET_LIMIT = 103


class Running(msgspec.Struct, frozen=True):
    """A card that runs, and what it has done so far.

    `writable` says whether it may be changed; `largest` is the number
    of images in its largest batch; `cpu_s` is what its process took of the processor, in seconds: on a card, the FPGA
    would do most of this.
    """

    name: str
    pid: int
    root: str
    device: str
    writable: bool = False
    requests: int = 0
    images: int = 0
    batches: int = 0
    largest: int = 0
    cpu_s: float = 0.0

    def __str__(self) -> str:
        """Return one line for a terminal."""
        work = f"requests: {self.requests:,}, images: {self.images:,}, batches: {self.batches:,}"
        return f"{self.name}: {self.root} on {self.device}, {'writable, ' * self.writable}process {self.pid}, {work}"


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
    root: str | os.PathLike[str], name: str = "card0", device: str | None = None, *, keeper: bool = False,
    writable: bool = False, limit_bytes: int = LIMIT_BYTES,
) -> processes.Child:  # fmt: skip
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
    writable, limit_bytes
        As of `Card`.

    Raises
    ------
    ValueError
        For an impossible name, no such folder, or a card of that name that runs.
    RuntimeError
        If the card does not start; the sentence says why.
    """
    protocol.check_card(name)
    limit = whole("limit_bytes", limit_bytes, 1) if truth("writable", writable) else None
    place, served = folder(), Root(root).folder
    lock = take(place / f"{name}.lock", _DYING_S)
    if lock is None:
        there = f"a card called {name} runs already (process {_holder(name)})"
        raise ValueError(f"{there}: stop it with `labkit card stop {name}`, or choose another name")
    # A socket that a killed card left stays until the new one takes its place: readers of that card wait.
    os.close(lock)
    try:
        words = "labextras.card.daemon", str(place / name)
        child = processes.Child(*words, polite_s=STOP_TIMEOUT_S, outlives=not keeper)
        child.ask({"root": served, "device": device, "keeper": keeper, "limit_bytes": limit}, START_TIMEOUT_S)
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
    writable : bool
        Whether files and folders in `root` may be made, changed and removed through it. By default they may not: most
        cards serve photos that nobody can make again.
    limit_bytes : int
        What files that are being written may have all together, so also one file.

    Raises
    ------
    ValueError
        For an impossible name or limit, or no such folder.

    Notes
    -----
    A file that is written through a card gets its name when it is closed, and is whole then; until then, and where its
    writer or the card is killed, the old file stays. `labextras.card.writes` says the rest.

    Used with ``with``, a card starts and stops with the block::

        with Card("photos") as card:
            pixels = tf.io.read_file(card.uri("cat/1.jpg", size=224))
    """

    def __init__(
        self, root: str | os.PathLike[str], name: str = "card0", device: str | None = None, *, writable: bool = False,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:  # fmt: skip
        self.name, self.root, self.device = protocol.check_card(name), expanded("root", root).absolute(), device
        self._writes = {"writable": truth("writable", writable), "limit_bytes": whole("limit_bytes", limit_bytes, 1)}
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
        self._child = start(self.root, self.name, self.device, keeper=True, **self._writes)
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

    def with_lanes(self, trace: Trace) -> Trace:
        """Return the recording of a job that read through this card, with a lane for each engine of the card.

        The card notes when it read each file (*copy in*), when each kernel ran, and when it sent each image to its
        reader (*copy out*), on the clock of this machine. Where the device has a memory of its own, its copies are in
        these lanes, too.

        Parameters
        ----------
        trace : Trace
            As `labkit.record` returns it, made while this card ran.

        Raises
        ------
        ValueError
            If the card did nothing in the window of the recording, or has forgotten what.
        OSError
            If it does not run.
        """
        begin, end = trace.window_ns
        said = ask(self.name, Request(Op.SPANS, 1, offset=begin, count=end - begin))
        spans = msgspec.json.decode(said, type=list[EngineSpan])
        if not spans:
            raise ValueError(f"the card {self.name} did nothing in the window of this recording, or has forgotten it")
        kinds = {f"card: {engine}": "unit" for engine in ENGINES}
        rows = [Span(f"card: {one.engine}", one.name, _category(one), *one[2:], -1) for one in spans]
        lanes = Trace.from_spans(rows, kinds, origin=trace.run.origin).slice(begin, end)
        return Trace.merge(trace, lanes).with_run(advice=dict.fromkeys(("fetch", "prep"), _ADVICE))

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


def cpu_ms(trace: Trace) -> float:
    """Return the milliseconds of a core that the process which recorded a job took for one image, without any other's.

    Raises
    ------
    ValueError
        If the trace does not say: it is no recording of a tf.data pipeline, or its images were not counted.
    """
    clock, images = trace.run.processor, trace.run.images
    if clock is None or len(clock.cpu_ns) < 2 or not images:
        raise ValueError(f"{trace!r} does not say what its process took; allowed: what labkit.record returns")
    return (clock.cpu_ns[-1] - clock.cpu_ns[0]) / 1e6 / images


def modelled(trace: Trace, paths: Sequence[str], accelerator: Any) -> Trace:
    """Return what a real card would do in the place of the stand-in: the timeline of a job, modelled.

    Parameters
    ----------
    trace : Trace
        The recording of a job that read through a card. What a photo took of its process stays with the host.
    paths : sequence of str
        JPEG files whose tokens are counted: photos like those of the job.
    accelerator : labkit.accelerators.Modelled
    """
    from labextras import offload
    from labextras.offload import tokens, twins

    jpegs = [Path(path).read_bytes() for path in paths]
    counted = tokens.count(jpegs) if twins.has_device() else tokens.count_on_host(jpegs[:4])
    host = {"batch_size": trace.run.batch_size, "cores": trace.run.host.cpus, "host_ms": cpu_ms(trace)}
    return offload.SmartSSD(decoders=8).trace(counted, accelerator, **host)


def _category(span: EngineSpan) -> str:
    """Return what a span of the card is drawn as: what comes from the drive is a read, what goes out is handed over."""
    if span.engine != KERNEL:
        return "read" if span.engine == COPY_IN else "copy"
    return "decode" if span.name.startswith("jpeg") else "resize"


def _end(child: processes.Child, name: str) -> None:
    """End a child that is a card, remove what it may have left, and tell who reads from it."""
    child.end()
    with contextlib.suppress(OSError):
        sweep(name)
    for call in on_stop:
        call(name)
