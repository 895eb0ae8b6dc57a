"""Spans of any process, in files that all of them map into memory.

Each process writes into a file of its own. A record is written when a span opens and completed when it closes, so the
spans of a process that is killed stay, and the open ones say what it was doing. Names and threads go to a second file
beside the first, a line for each.

The clock is ``time.perf_counter_ns``, which all processes of a machine share on Linux and macOS. An open window costs
a few µs for each call, a closed one a tenth of a µs. Most of it is the processor time of the thread, which is a call of
the system. Each call asks for it: what waits is told from what computes by this time, not by that of the clock, which a
busy machine draws out.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Spans that one process can keep; of more, the later ones are dropped. The file is sparse: only used pages take space.
SLOTS = 1 << 19

# start, duration (-1 while open), thread's processor time (-1 while open), name, thread
_RECORD = struct.Struct("<qqqII")
_TIMES = struct.Struct("<qq")

clock, _cpu = time.perf_counter_ns, time.thread_time_ns


class ProcessSpans:
    """What this process writes: the file of its spans, and the one of their names and threads.

    Parameters
    ----------
    folder : path
        Where all processes of a recording write; it holds the page ``control``.
    started_ns : int, optional
        When another process began to start this one.

    Attributes
    ----------
    control : mmap
        The page that all processes share; its first byte is 1 while the window is open.
    """

    def __init__(self, folder: str | os.PathLike[str], started_ns: int | None = None) -> None:
        self.folder = Path(folder)
        with open(self.folder / "control", "rb+", buffering=0) as file:
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        stem = self.folder / str(os.getpid())
        with open(f"{stem}.spans", "wb+", buffering=0) as file:
            file.truncate(SLOTS * _RECORD.size)
            self._records = mmap.mmap(file.fileno(), SLOTS * _RECORD.size)
        self._side = os.open(f"{stem}.side", os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        self._slots, self._threads = itertools.count(), itertools.count()
        self._names: dict[tuple[str, str], int] = {}
        self._lock, self._local = threading.Lock(), threading.local()
        self._write(pid=os.getpid(), parent=os.getppid(), began=clock(), started=started_ns)

    def close(self) -> None:
        """Close the second file; the mapped memory is freed when the process ends."""
        os.close(self._side)

    def _write(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk costs names, not the reader's run
            os.write(self._side, (json.dumps(facts) + "\n").encode())

    def _name(self, text: str, category: str) -> int:
        """Return the number of a name, which is written down at its first use."""
        number = self._names.get((text, category))
        if number is None:
            with self._lock:
                number = self._names.get((text, category))
                if number is None:
                    number = len(self._names)
                    self._write(name=number, text=text, category=category)
                    self._names[text, category] = number
        return number

    @property
    def _thread(self) -> int:
        """The number of the calling thread, of which is written down the first time what is known of it."""
        local = self._local
        if not hasattr(local, "number"):
            me, local.number = threading.current_thread(), next(self._threads)
            main, native = me is threading.main_thread(), threading.get_native_id()
            self._write(thread=local.number, called=me.name, main=main, native=native)
        return local.number

    def begin(self, text: str, category: str) -> tuple[int, int, int] | None:
        """Open a span of the calling thread; return what `end` needs, None where there is no room."""
        slot = next(self._slots)
        if slot >= SLOTS:
            return None
        thread, name, at = self._thread, self._name(text, category), slot * _RECORD.size
        cpu, start = _cpu(), clock()
        _RECORD.pack_into(self._records, at, start, -1, -1, name, thread)
        return at, start, cpu

    def end(self, span: tuple[int, int, int] | None) -> None:
        """Close a span."""
        if span is not None:
            at, start, cpu = span
            _TIMES.pack_into(self._records, at + 8, clock() - start, _cpu() - cpu)


class _Now:
    """What this process writes, None while nothing is recorded."""

    spans: ProcessSpans | None = None


now = _Now()


def in_window() -> ProcessSpans | None:
    """Return what this process writes, None while no window is open."""
    spans = now.spans
    return spans if spans is not None and spans.control[0] == 1 else None


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

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        spans = in_window()
        if spans is None:
            return function(*args, **kwargs)
        span = spans.begin(text if isinstance(text, str) else text(*args, **kwargs), category)
        try:
            return function(*args, **kwargs)
        finally:
            spans.end(span)

    wrapper._labkit_times = function  # type: ignore[attr-defined]
    return wrapper


class TimedIterator:
    """An iterator, a generator as well; each step that it runs is a span."""

    def __init__(self, inner: Any, text: str, category: str) -> None:
        self._inner, self._take = inner, timed(inner.__next__, text, category)

    def __iter__(self) -> Iterator[Any]:
        """Return this object."""
        return self

    def __next__(self) -> Any:
        """Take the next step."""
        return self._take()

    def __getattr__(self, name: str) -> Any:
        """Return what a generator has beside: ``send``, ``throw``, ``close``."""
        return getattr(self._inner, name)


@contextlib.contextmanager
def span(text: str, category: str) -> Iterator[None]:
    """Keep a span of the block while a window is open."""
    spans = in_window()
    opened = spans.begin(text, category) if spans else None
    try:
        yield
    finally:
        if spans:
            spans.end(opened)


def prepare(folder: Path) -> None:
    """Make the page that all processes of a recording share, with a closed window."""
    (folder / "control").write_bytes(bytes(mmap.PAGESIZE))


def _after_fork() -> None:
    parent, now.spans = in_window(), None
    if parent is not None:
        with contextlib.suppress(OSError):  # the recording is over, or the disk is full: the child runs unwatched
            now.spans = ProcessSpans(parent.folder)


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
        ``called`` (the name of the thread), ``main`` and ``native`` (its number in the system).
    records : ndarray of a record type, shape (n,)
        ``start``, ``duration`` and ``cpu`` (int64 nanoseconds; -1 if it was open), ``name``, ``thread``, in the order
        of their starts.
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

    columns = np.dtype("<i8, <i8, <i8, <u4, <u4")
    columns.names = "start", "duration", "cpu", "name", "thread"
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
        records = np.frombuffer(_content(side.with_suffix(".spans")), columns)
        dropped = bool(records["start"][-1])
        records = records[records["start"] > 0]
        records = records[np.lexsort((-records["duration"], records["start"]))]
        if facts:
            began = facts["began"]
            found.append(Process(facts["pid"], began, facts["started"] or began, names, threads, records, dropped))
    return sorted(found, key=lambda process: process.began_ns)
