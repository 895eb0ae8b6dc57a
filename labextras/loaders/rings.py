"""Spans of any process, in files that all of them map into memory.

Each process writes into a file of its own. A record is written when a span opens and completed when it closes, so the
spans of a process that is killed stay, and the open ones say what it was doing. Names and threads go to a second file
beside the first, a line for each.

The clock is ``time.perf_counter_ns``, which all processes of a machine share on Linux and macOS. An open window costs
about 1 µs for each call, a closed one a tenth of that. Two thirds of it were the processor time of the thread, which is
a call of the system: of what is called again and again, one call in eight asks for it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import mmap
import multiprocessing
import os
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Spans that one process can keep; of more, the later ones are dropped. The file is sparse: only used pages take space.
SLOTS = 1 << 19

# start, duration (-1 while open), thread's processor time (-1 while open, or if nobody asked), step, name, thread
_RECORD = struct.Struct("<qqqiHH")
_TIMES = struct.Struct("<qq")
_CONTROL = struct.Struct("<q")  # whether the window is open; then the first number of the newest epoch
_MOST = 1 << 16
_LAST_STEP = (1 << 31) - 1

#: The distance between the numbers of batches in two epochs. No batch has the number of a step of the consumer.
EPOCH = 1 << 20

#: So large a share of the calls under a name asks for the processor time. They are drawn, since calls come in patterns:
#: the first read of each file may wait, and the others compute. The numbers of the reader's program are left alone.
_ASKS = 0.125
_draw = random.Random().random

clock, _cpu = time.perf_counter_ns, time.thread_time_ns


class Ring:
    """The file of one process.

    Parameters
    ----------
    folder : path
        Where all processes of a recording write; it holds the page ``control``.
    started_ns : int, optional
        When another process began to start this one.
    first : int
        The number of the first batch of the epoch that the process begins with.

    Attributes
    ----------
    delivered : dict of int to int
        For batches by their numbers, how many the consumer took before: the deliverer of a batch writes it down.
    taken : int
        How many the consumer has taken.
    """

    def __init__(self, folder: str | os.PathLike[str], started_ns: int | None = None, first: int = EPOCH) -> None:
        self.folder = Path(folder)
        with open(self.folder / "control", "rb+", buffering=0) as file:
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        stem = self.folder / str(os.getpid())
        with open(f"{stem}.ring", "wb+", buffering=0) as file:
            file.truncate(SLOTS * _RECORD.size)
            self.records = mmap.mmap(file.fileno(), SLOTS * _RECORD.size)
        self._side = os.open(f"{stem}.side", os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        self.slots, self._threads = itertools.count(), itertools.count()
        self._names: dict[tuple[str, str], int] = {}
        self.first, self._epochs, self._begun = first, itertools.count(2), {}
        self.delivered: dict[int, int] = {}
        self.taken = 0
        self.called: set[int] = set()
        self._lock, self.local = threading.Lock(), threading.local()
        self._write(pid=os.getpid(), parent=os.getppid(), began=clock(), started=started_ns)

    def close(self) -> None:
        """Close the second file; the mapped memory is freed when the process ends."""
        os.close(self._side)

    def _write(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk costs names, not the reader's run
            os.write(self._side, (json.dumps(facts) + "\n").encode())

    @property
    def open(self) -> bool:
        """Whether spans are kept."""
        return self.control[0] == 1

    def name(self, text: str, category: str) -> int:
        """Return the number of a name, which is written down at its first use."""
        number = self._names.get((text, category))
        if number is None:
            with self._lock:
                number = self._names.get((text, category))
                if number is None:
                    number = min(len(self._names), _MOST - 1)
                    self._write(name=number, text=text if number < _MOST - 1 else "other names", category=category)
                    self._names[text, category] = number
        return number

    def enter(self) -> None:
        """Make the calling thread known."""
        me = threading.current_thread()
        self.local.number, self.local.step, self.local.consumer = next(self._threads) % _MOST, -1, False
        self.local.first, self.local.given = self.first, self.taken
        main, process = me is threading.main_thread(), multiprocessing.current_process().name
        native = threading.get_native_id()
        self._write(thread=self.local.number, called=me.name, main=main, process=process, native=native)

    def begin(self, text: str, category: str) -> tuple[int, int, int] | None:
        """Open a span of the calling thread; return what `end` needs, None where there is no room."""
        local = self.local
        if not hasattr(local, "number"):
            self.enter()
        slot = next(self.slots)
        if slot >= SLOTS:
            return None
        at, name, cpu, start = slot * _RECORD.size, self.name(text, category), _cpu(), clock()
        _RECORD.pack_into(self.records, at, start, -1, -1, local.step, name, local.number)
        return at, start, cpu

    def end(self, span: tuple[int, int, int] | None) -> None:
        """Close a span."""
        if span is not None:
            at, start, cpu = span
            _TIMES.pack_into(self.records, at + 8, clock() - start, _cpu() - cpu)

    def set_step(self, number: int) -> None:
        """Let spans that the calling thread opens from now on belong to a batch of this epoch."""
        if not hasattr(self.local, "number"):
            self.enter()
        if not self.local.consumer:
            step = number + self.local.first
            fits = 0 <= number < EPOCH and step <= _LAST_STEP  # of more, a record has no room for the number
            self.local.step = step if fits else -1

    def begin_epoch(self, iterator: Any) -> None:
        """Give the batches of an iterator, and of the processes that it starts, other numbers than all before."""
        self.first = self._begun[id(iterator)] = next(self._epochs) * EPOCH
        _CONTROL.pack_into(self.control, _CONTROL.size, self.first)

    def resume(self) -> None:
        """Let what the calling thread does from now on belong to the epoch that began last."""
        if not hasattr(self.local, "number"):
            self.enter()
        self.local.first = _CONTROL.unpack_from(self.control, _CONTROL.size)[0]

    def deliver(self, iterator: Any, number: int) -> None:
        """Note that a thread gets a batch of an epoch. Objects other than consumers are taken to keep all batches."""
        if not hasattr(self.local, "number"):
            self.enter()
        local, first = self.local, self._begun.get(id(iterator))
        if first is not None:
            self.delivered[first + number] = self.taken if local.consumer else local.given
            local.given += 1

    def consume(self, step: int) -> None:
        """Let the calling thread be the consumer, which waits for this batch: -1 for one before the window."""
        if not hasattr(self.local, "number"):
            self.enter()
        self.local.consumer, self.local.step = True, step


class _Now:
    """The ring of this process, None while nothing is recorded."""

    ring: Ring | None = None


now = _Now()


def timed(function: Callable[..., Any], text: str | Callable[..., str], category: str) -> Callable[..., Any]:
    """Return a function that does the same, and keeps a span of each call while a window is open.

    Parameters
    ----------
    function : callable
    text : str or callable
        What the span is called; a callable is called with the arguments of `function`.
    category : str
        One of `labkit.timeline.trace.CATEGORIES`; after a colon the one to take where the thread did not compute for
        most of the time, as in ``map:iterator``.
    """
    # What `Ring.begin` and `Ring.end` do, written out: this runs several times for each photo.
    pack, close, size = _RECORD.pack_into, _TIMES.pack_into, _RECORD.size
    # Not for what only waits; and of each call where it decides what the call was.
    share = 1.0 if ":" in category else _ASKS
    only_waits = category == "iterator"
    uncounted = 0 if only_waits else -1
    numbered: list[Any] = [None, 0]  # the ring that has given the name its number, and the number

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        ring = now.ring
        if ring is None or ring.control[0] != 1:
            return function(*args, **kwargs)
        local = ring.local
        try:
            thread = local.number
        except AttributeError:
            ring.enter()
            thread = local.number
        slot = next(ring.slots)
        if slot >= SLOTS:
            return function(*args, **kwargs)
        if not isinstance(text, str):
            name = ring.name(text(*args, **kwargs), category)
        elif numbered[0] is ring:
            name = numbered[1]
        else:
            name = ring.name(text, category)
            numbered[:] = ring, name
        records, at, called = ring.records, slot * size, ring.called
        asks = not only_waits and (_draw() < share or name not in called)
        if asks:
            called.add(name)
        cpu, start = _cpu() if asks else 0, clock()
        pack(records, at, start, -1, -1, local.step, name, thread)
        try:
            return function(*args, **kwargs)
        finally:
            close(records, at + 8, clock() - start, _cpu() - cpu if asks else uncounted)

    wrapper._labkit_times = function  # type: ignore[attr-defined]
    return wrapper


@contextlib.contextmanager
def span(text: str, category: str) -> Iterator[None]:
    """Keep a span of the block while a window is open."""
    ring = now.ring
    opened = ring.begin(text, category) if ring is not None and ring.open else None
    try:
        yield
    finally:
        if ring is not None:
            ring.end(opened)


def prepare(folder: Path) -> None:
    """Make the page that all processes of a recording share, with a closed window."""
    (folder / "control").write_bytes(bytes(mmap.PAGESIZE))


def control(ring: Ring, is_open: bool) -> None:
    """Open or close the window of all processes."""
    _CONTROL.pack_into(ring.control, 0, int(is_open))


def _after_fork() -> None:
    parent, now.ring = now.ring, None
    if parent is not None and parent.open:
        with contextlib.suppress(OSError):  # the recording is over, or the disk is full: the child runs unwatched
            now.ring = Ring(parent.folder, first=parent.first)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Process(NamedTuple):
    """What one process wrote.

    Parameters
    ----------
    pid : int
    began_ns, started_ns : int
        When it began to write, and when another process began to start it, as far as that is known.
    names : dict of int to (str, str)
        Text and category.
    threads : dict of int to dict
        ``called`` (the name of the thread), ``main``, ``process`` and ``native`` (its number in the system).
    records : ndarray of a record type, shape (n,)
        ``start``, ``duration`` (-1 if it was open), ``cpu`` (-1 if it was open, or nobody asked; all int64
        nanoseconds), ``step``, ``name``, ``thread``; in the order of their starts.
    dropped : bool
        Whether there was no room for later spans.
    """

    pid: int
    began_ns: int
    started_ns: int
    names: dict[int, tuple[str, str]]
    threads: dict[int, dict[str, Any]]
    records: Any
    dropped: bool


def _content(path: Path) -> bytes:
    """Return what is in a file; the system is asked for it, so that reading what was written writes nothing."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def read(folder: Path) -> list[Process]:
    """Return what every process wrote, dead or alive, in the order in which they began."""
    import numpy as np

    columns = [
        ("start", "<i8"),
        ("duration", "<i8"),
        ("cpu", "<i8"),
        ("step", "<i4"),
        ("name", "<u2"),
        ("thread", "<u2"),
    ]
    found = []
    for side in folder.glob("*.side"):
        facts, names, threads = {}, {}, {}
        for line in _content(side).splitlines():
            with contextlib.suppress(ValueError):  # the last line of a process that was killed while it wrote
                entry = json.loads(line)
                if "name" in entry:
                    names[entry["name"]] = entry["text"], entry["category"]
                elif "thread" in entry:
                    threads[entry["thread"]] = entry
                else:
                    facts = entry
        records = np.frombuffer(_content(side.with_suffix(".ring")), np.dtype(columns))
        dropped = bool(records["start"][-1])
        records = records[records["start"] > 0]
        records = records[np.lexsort((-records["duration"], records["start"]))]
        if facts:
            began = facts["began"]
            found.append(Process(facts["pid"], began, facts["started"] or began, names, threads, records, dropped))
    return sorted(found, key=lambda process: process.began_ns)
