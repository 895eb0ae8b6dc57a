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
import multiprocessing
import os
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

#: Spans that one process can keep; of more, the later ones are dropped. The file is sparse: only used pages take space.
SLOTS = 1 << 19

#: Seconds between two looks at the stacks. It is long beside the 5 ms for which a thread holds the interpreter, or the
#: looks would be taken for a thread that waits for it (`labkit.timeline.causes.thresholds.ASKS`).
_LOOK_S = 0.03
#: Looks in whose place there is one while no thread moves.
_SELDOM = 32
#: Looks after which what was counted is written down.
_LOOKS = 5
#: How soon a worker lets the thread have the interpreter that looks, while the window is open.
_SWITCH_S = 5e-5

#: What the page says when the recording is over: 1 stands for an open window, 0 for a closed one.
OVER = 2

#: What counts as a library of what comes with Python.
_OF_PYTHON = frozenset(("csv", "gzip", "json", "multiprocessing", "pickle", "re", "tarfile", "xml", "zipfile"))
#: Where the files of Python's own library are.
_STANDARD = "<frozen", os.path.dirname(os.__file__)

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
    open : dict
        For each thread, by ``threading.get_ident``, what `timed` has open in it, the innermost last.
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
        self.open: dict[int, list[str]] = {}
        self._write(
            pid=os.getpid(), parent=os.getppid(), began=clock(), started=started_ns, shared=shared_mb(os.getpid())
        )
        self._ended = threading.Event()
        self._looks = threading.Thread(target=self._look, name="labkit looks at stacks", daemon=True)
        self._looks.start()

    def close(self) -> None:
        """Close the second file; the mapped memory is freed when the process ends."""
        self._ended.set()
        self._looks.join()
        os.close(self._side)

    def _look(self) -> None:
        """Count in which function of a library the threads are that are in a call.

        While no thread moves it looks less often, and each look counts for more: a process that hangs must not seem to
        work.
        """
        looks, counted, every, before = 0, Counter[tuple[str, str]](), 1, None
        switch = sys.getswitchinterval()
        while not self._ended.wait(_LOOK_S):
            frames = frame = None  # else all that a thread has left lives on, and dies in this one
            if self._ended.wait((every - 1) * _LOOK_S) or self.control[0] == OVER:
                break
            if self.control[0] == 1:
                # Else a worker is seen only where it lets go of the interpreter by itself, as in calls of a library.
                if multiprocessing.parent_process():
                    sys.setswitchinterval(_SWITCH_S)
                own = {thread.ident for thread in threading.enumerate() if thread.name.startswith("labkit ")}
                frames = {thread: frame for thread, frame in sys._current_frames().items() if thread not in own}
                looks += 1
                for thread, frame in frames.items():
                    if (called := called_in(frame)) is not None and (open_ones := self.open.get(thread, ())[-1:]):
                        counted[(*open_ones, called)] += every
                at = {thread: (id(frame), frame.f_lasti) for thread, frame in frames.items()}
                every, before = min(2 * every, _SELDOM) if at == before else 1, at
            if counted and (looks >= _LOOKS or self.control[0] != 1):
                self._write(inside=[[*call, count] for call, count in counted.items()])
                looks, counted = 0, Counter()
        if multiprocessing.parent_process():
            sys.setswitchinterval(switch)

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


def shared_mb(pid: int) -> float:
    """Return the memory that a process shares with the one that forked it; 0 where the system does not tell."""
    with contextlib.suppress(OSError, IndexError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return int(text.partition("Shared_Dirty:")[2].split()[0]) / 1e3
    return 0.0


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
        called = text if isinstance(text, str) else text(*args, **kwargs)
        span, open_ones = spans.begin(called, category), spans.open.setdefault(threading.get_ident(), [])
        open_ones.append(called)
        try:
            return function(*args, **kwargs)
        finally:
            open_ones.pop()
            spans.end(span)

    wrapper._labkit_times = function  # type: ignore[attr-defined]
    return wrapper


def called_in(frame: FrameType | None) -> str | None:
    """Return the function that a thread has called in a call that `timed` times, behind the word of its library.

    Of a library it is the first one on the way in, as readers call it; where that calls the reader's code, or nothing
    is called, the reader's own function that runs, without such a word. The span's own function is "". None outside of
    such calls.
    The local variables of another thread are left alone: to ask a frame that runs for them has crashed the interpreter.
    """
    inner, found, own = "", "", False
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == __file__:
            return inner
        inner = found
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        name = getattr(code, "co_qualname", code.co_name).rpartition(">.")[2]
        if "-packages" in code.co_filename or package in _OF_PYTHON:
            found = found if own else f"{package} {name}"
        # What a function does in a comprehension, or in Python's library, is its own.
        elif not code.co_name.startswith("<") and not code.co_filename.startswith(_STANDARD):
            own, found = True, found or f" {name}"
        frame = frame.f_back
    return None


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
    parent, now.spans = now.spans, None
    if parent is not None and parent.control[0] != OVER:
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
    shared_mb : float
        What it shared with the process that forked it when it began; 0 where nothing tells.
    inside : Counter of (str, str)
        How often a thread was seen in a span, and there in a function of a library, "" for other code.
    """

    pid: int
    began_ns: int
    started_ns: int
    names: dict[int, tuple[str, str]]
    threads: dict[int, dict[str, Any]]
    records: Any
    dropped: bool
    shared_mb: float
    inside: Counter[tuple[str, str]]


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
        facts, names, threads, inside = {}, {}, {}, Counter[tuple[str, str]]()
        for line in _content(side).splitlines():
            with contextlib.suppress(ValueError):  # the last line of a process that was killed while it wrote
                entry = json.loads(line)
                if "name" in entry:
                    names[entry["name"]] = entry["text"], entry["category"]
                elif "thread" in entry:
                    threads[entry["thread"]] = entry
                elif "inside" in entry:
                    inside.update({(text, called): count for text, called, count in entry["inside"]})
                else:
                    facts = entry
        records = np.frombuffer(_content(side.with_suffix(".spans")), columns)
        dropped = bool(records["start"][-1])
        records = records[records["start"] > 0]
        records = records[np.lexsort((-records["duration"], records["start"]))]
        if facts:
            began = facts["began"]
            started, shared = facts["started"] or began, facts["shared"]
            found.append(Process(facts["pid"], began, started, names, threads, records, dropped, shared, inside))
    return sorted(found, key=lambda process: process.began_ns)
