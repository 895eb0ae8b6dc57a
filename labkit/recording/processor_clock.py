"""The clock of the processor, sampled while a window is recorded: how much time threads had a core, and waited for one.

Both need no rights. A process may read its own processor time, and Linux writes to ``/proc/self/task/*/schedstat`` how
long each thread had a core, and how long it was ready without one. For the rest of a window a thread was blocked.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from labkit.common.other_programs import processor_seconds
from labkit.timeline.run import Tree

#: Between two samples. Both clocks take about a microsecond, and a thread that wakes up some ten.
PERIOD_S = 0.005

#: A window may be over soon, and few samples tell little: so many at the beginning come faster.
SOON, SOON_S = 200, 0.001

#: What a function of Python may return that TensorFlow makes a tensor of value by value.
_TAKEN_APART = (list, tuple, int, float)
#: Where TensorFlow calls a function of Python, and where it makes tensors of what one returned.
_OF_TENSORFLOW = ("tensorflow.python.ops.script_ops", "tensorflow.python.framework.tensor_conversion_registry")

#: A trace keeps no more samples than this; of more, every second, third, … one.
MOST = 600


class Sampler(contextlib.AbstractContextManager):
    """Samples the clock in a thread of its own from `start` to `stop`; leaving its block stops it.

    Parameters
    ----------
    soon : int
        So many samples at the beginning come faster than the others.
    tree : bool
        Count the threads of this process and of those that it started, and take no samples: the clock of one process
        would say nothing about the work of the others.

    Attributes
    ----------
    samples : list of (int, int)
        The counter (``time.perf_counter_ns``), and the processor time of the process, nanoseconds.
    queued_ns : int or None
        How long threads that live at the end waited for a core between `start` and `stop`; None where the system
        does not count it.
    threads : list of (int, int, int, int)
        For each of these threads that was ready at some time: how long it computed, waited for a core, and was blocked,
        in ns, and how often it gave its core away to wait. The last number needs `tree`. The busiest thread is first.
    consumer_ns : int or None
        How long the thread that called `start` computed and waited for a core, both together.
    converting : float
        The share of the time in functions of Python that TensorFlow called in which it made tensors of the lists and
        single numbers that they had returned.
    """

    def __init__(self, *, soon: int = SOON, tree: bool = False) -> None:
        self.soon, self.tree = soon, tree
        self.samples: list[tuple[int, int]] = []
        self.queued_ns: int | None = None
        self.threads: list[tuple[int, int, int, int]] = []
        self.consumer_ns: int | None = None
        self.converting = 0.0
        self._thread: threading.Thread | None = None
        self._undo: list[tuple[Any, str, Any]] = []

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Begin to sample."""
        self._end, self._taken, self._before = threading.Lock(), array("q"), _scheduled(self.tree)
        self._called, self._converted = array("q"), array("q")
        self._end.acquire()  # until the end; a lock wakes up with less work than an event
        self._began, self._starter = time.perf_counter_ns(), str(threading.get_native_id())
        self._thread = threading.Thread(target=self._run, name="labkit processor clock", daemon=True)
        if not self.tree:
            functions, tensors = map(sys.modules.get, _OF_TENSORFLOW)
            self._time(getattr(functions, "FuncRegistry", None), "__call__", self._called)
            self._time(getattr(functions, "FuncRegistry", None), "_convert", self._converted)
            self._time(tensors, "convert", self._converted)
            self._thread.start()

    def stop(self) -> None:
        """End; `samples` and `queued_ns` are there."""
        if self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # released already, where an interrupt has cut this off before
            self._end.release()
        if self._thread.is_alive():  # none that counts a tree is
            self._thread.join()
        while self._undo:
            setattr(*self._undo[-1])
            self._undo.pop()  # an interrupt in between sets it once more
        self._thread = None
        # A call that began before the window has no time in it, and what it returns has.
        self.converting = min(1.0, sum(self._converted) / sum(self._called)) if self._called else 0.0
        window = time.perf_counter_ns() - self._began
        if self._before and (now := _scheduled(self.tree)):
            # A thread that is new has counted since it began, one that has ended is not there any more.
            for thread, counts in now.items():
                before = self._before.get(thread, (0, 0, 0))
                ran, queued, pauses = (max(0, count - past) for count, past in zip(counts, before, strict=True))
                if thread == self._starter:
                    self.consumer_ns = ran + queued
                if ran or queued:
                    self.threads.append((ran, queued, max(0, window - ran - queued), pauses))
            self.threads.sort(reverse=True)
            self.queued_ns = sum(queued for _, queued, *_ in self.threads)
        taken = np.array(self._taken, np.int64).reshape(-1, 2)
        self.samples = [tuple(row) for row in taken[:: 1 + len(taken) // MOST].tolist()]

    def _time(self, owner: Any, name: str, took: array[int]) -> None:
        """Put a clock before a function of TensorFlow until the end, where this TensorFlow has it.

        A look at the stacks would need the local variables of other threads: to ask a frame that runs for them has
        crashed the interpreter.
        """
        if (kept := vars(owner).get(name) if owner else None) is None:
            return
        function = getattr(owner, name)
        if getattr(function, "__name__", "") == "timed":
            return  # by a window of another thread

        def timed(*given: Any, **named: Any) -> Any:
            if took is self._converted and not (given and type(given[0]) in _TAKEN_APART and _of_a_result()):
                return function(*given, **named)
            began = time.perf_counter_ns()
            try:
                return function(*given, **named)
            finally:
                took.append(time.perf_counter_ns() - began)

        self._undo.append((owner, name, kept))
        setattr(owner, name, staticmethod(timed) if isinstance(kept, staticmethod) else timed)

    def _run(self) -> None:
        while True:
            self._taken.extend((time.perf_counter_ns(), time.process_time_ns()))
            if self._end.acquire(timeout=SOON_S if len(self._taken) < 2 * self.soon else PERIOD_S):
                self._taken.extend((time.perf_counter_ns(), time.process_time_ns()))
                return


def _of_a_result() -> bool:
    """Return whether the caller makes a tensor of what a function of Python returned, not of what that function has."""
    frame = sys._getframe(2)
    while frame is not None and (module := str(frame.f_globals.get("__name__"))).startswith(("tensorflow.", "numpy.")):
        if module.endswith(".script_ops"):
            return True
        frame = frame.f_back
    return False


def _scheduled(tree: bool) -> dict[str, tuple[int, int, int]]:
    """Return for each thread how long it had a core, and was ready without one, in ns; of a process, or of its tree.

    With how often it paused, of a tree. Empty where the system does not count it.
    """
    children = psutil.Process().children(recursive=True) if tree else ()
    processes = [os.getpid(), *(child.pid for child in children)]
    pauses = _pauses(processes) if tree else {}
    return {thread: (*times, pauses.get(thread, 0)) for thread, times in scheduled(processes).items()}


def _pauses(processes: Iterable[int]) -> dict[str, int]:
    """Return for each thread of these processes how often it gave its core away to wait."""
    texts = _of_each_thread(processes, "status")
    counts = {name: text.partition("\nvoluntary_ctxt_switches:")[2].split() for name, text in texts}
    return {name: int(count[0]) for name, count in counts.items() if count}


def scheduled(processes: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Return for each thread of these processes how long it had a core, and was ready without one, in ns."""
    times = {name: text.split() for name, text in _of_each_thread(processes, "schedstat")}
    return {name: (int(row[0]), int(row[1])) for name, row in times.items() if len(row) == 3}


def _of_each_thread(processes: Iterable[int], what: str) -> Iterator[tuple[str, str]]:
    """Yield the number of each thread, and what a file of it says."""
    for process in processes:
        with contextlib.suppress(OSError):  # a process may end meanwhile, as a thread may
            for thread in Path(f"/proc/{process}/task").glob("*"):
                with contextlib.suppress(OSError):
                    yield thread.name, (thread / what).read_text()


def tree(before: float) -> Tree:
    """Return what this process and those that it started took since `processor_seconds` was `before`."""
    memory, count = 0, 0
    for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            try:
                memory += one.memory_full_info().pss
            except (AttributeError, psutil.AccessDenied):  # no system but Linux tells what is shared
                memory += one.memory_info().rss
            count += 1
    return Tree(count, max(0.0, processor_seconds() - before), memory / 1e6)
