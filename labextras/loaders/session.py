"""Any loader as what a drive takes batches from: its epochs, the watch over its processes, and its end."""

from __future__ import annotations

import _thread
import contextlib
import ipaddress
import os
import pickle
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from labextras.loaders import rings
from labextras.loaders.described import Loader, check_loader
from labextras.loaders.known_callables import OWN_WORK, own
from labextras.loaders.spans import open_spans, to_trace
from labextras.loaders.wrapping import Wrapped
from labkit.common.errors import error_text
from labkit.common.files import new_folder
from labkit.common.processes import apart
from labkit.recording.processor_clock import Sampler, processor_seconds, scheduled
from labkit.recording.tfdata.driver import RecordingError
from labkit.timeline.causes.effort import had_core
from labkit.timeline.run import LoaderFacts
from labkit.timeline.trace import Trace
from labkit.timeline.wording import BEGIN, END

#: Where nothing computes, reads or begins for so long while the consumer waits, the loader hangs. Seconds.
STOPPED_S = 60.0

#: Limits below which a loader hangs. A waiting thread looks every few milliseconds whether it may go on, which takes
#: less than this share of a core. Wake-ups through pipes are bytes, too, but fewer than this many a second.
IDLE_SHARE, IDLE_BYTES = 0.005, 70

#: Bytes a second that a network brings to a machine that asks for nothing: fewer than this.
IDLE_NETWORK = 20_000

#: A worker without work wakes up every few seconds. A worker at work computes more than this: ns, and a share of time.
_WAKES_NS, _WAKES = 1_000_000, 0.0003

#: The mark of the end of an epoch, in place of a batch.
_OVER = object()


class Epochs:
    """The batches of a loader, epoch after epoch, as a training loop takes them.

    Parameters
    ----------
    loader : Loader
    steps : int or None
        None ends with the first epoch.

    Attributes
    ----------
    taken : int
        Batches so far.
    waits : bool
        Whether the consumer waits for one.
    """

    def __init__(self, loader: Loader, steps: int | None) -> None:
        self.loader, self.steps = loader, steps
        self._iterator: Any = None
        self.taken, self.waits, self._before = 0, False, 0

    def cardinality(self) -> int:
        """Return the number of batches as tf.data does: -1 without end, -2 where nobody knows."""
        length = self.loader.length
        if self.steps is not None and self.loader.begins_again:
            return -1
        return -2 if length is None else length

    def __iter__(self) -> Iterator[Any]:
        """Return this object."""
        return self

    def __next__(self) -> Any:
        """Return the next batch; after the last batch of an epoch, the first batch of the next epoch, if any."""
        self.waits = True
        try:
            while True:
                if self._iterator is None:
                    self._begin()
                with rings.span(f"next of {self.loader.facts.kind}", OWN_WORK):
                    batch = next(self._iterator, _OVER)
                if batch is None:
                    raise ValueError(f"it gave None in place of its batch number {self.taken}")
                if batch is not _OVER:
                    self.taken += 1
                    if rings.now.ring is not None:
                        rings.now.ring.taken = self.taken
                    return batch
                again = self.steps is not None and self.loader.begins_again and self.taken > self._before
                self.close(early=False)
                if not again:
                    raise StopIteration
        finally:
            self.waits = False

    def _begin(self) -> None:
        self._before = self.taken
        with rings.span(BEGIN, "other"):
            self._iterator = self.loader.begin()

    def close(self, early: bool = True) -> None:
        """End the epoch, `early` or not: workers that it has started end, too, unless the loader keeps them."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            with rings.span(END, "other"):
                self.loader.end(iterator, early)


class AnyLoader:
    """A loader as `labkit.recording.recorder.record` takes it.

    Parameters
    ----------
    loader : iterable
        See `labextras.loaders.described.Loader`.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def check(self, steps: int | None, label: str) -> None:
        """Refuse what gives no batches; see `labextras.loaders.described.check_loader`."""
        check_loader(self.loader, steps, label)

    def watched(self, steps: int | None, warmup: int, spans: bool) -> tuple[Epochs, LoaderSession]:
        """Return what is driven in one repeat, and what watches it."""
        epochs = Epochs(Loader(self.loader), steps)
        return epochs, LoaderSession(epochs, warmup, spans)


class LoaderSession(contextlib.AbstractContextManager):
    """The watch over a loader's processes; entering its block wraps callables, and leaving it undoes all.

    Parameters
    ----------
    epochs : Epochs
    warmup : int
        Steps before the window.
    spans : bool
        Whether to keep spans; without, nothing is wrapped.

    It does for a drive what `labkit.recording.tfdata.driver.Session` does for tf.data.

    Attributes
    ----------
    running : bool
    stopped : str or None
        Why the consumer was interrupted: no process computed any more.
    notes : list of str
        What a reader of the figures must know, in sentences.
    sampler : Sampler
        Of the threads of all processes.
    """

    #: Events need no counting beforehand: each process has room for so many, and drops the rest. Their clock is that of
    #: the machine.
    counts, unix = False, False

    def __init__(self, epochs: Epochs, warmup: int, spans: bool = True) -> None:
        self.epochs, self.warmup, self.spans, self.running = epochs, warmup, spans, False
        self.folder = Path()
        self.stopped: str | None = None
        self.notes: list[str] = []
        self._wrapped = Wrapped()
        self._ring: rings.Ring | None = None
        self._since_ns = 0
        self._computed: dict[int, int] = {}
        self._before: dict[str, tuple[int, int]] = {}
        self._over = threading.Event()
        self._beside: list[psutil.Process] = []
        self.sampler = Sampler(tree=True)

    def __enter__(self) -> LoaderSession:
        """Wrap, and open the window: threads and workers that begin now are seen to begin."""
        self.folder = new_folder("loader")
        try:
            self.folder.mkdir(0o700)
            self.epochs.loader.take_over()
            if self.spans:
                rings.prepare(self.folder)
                self._ring = rings.now.ring = rings.Ring(self.folder)
                self._ring.consume(-1)
                self._wrapped.install()
                rings.control(self._ring, True)
            if threading.current_thread() is threading.main_thread():
                me = psutil.Process()
                self._beside = [child for child in me.children() if not _may_be_a_worker(child, me)]
                threading.Thread(target=self._watch, name="labkit watch", daemon=True).start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        """End the loader's iterator, put the originals back, and delete the files."""
        self.running = False
        self._over.set()
        try:
            self.epochs.close()
            self.epochs.loader.give_back()
        finally:
            try:
                apart(self._undo)  # whole: an interrupt would leave some callables wrapped for good
            except KeyboardInterrupt:  # it may have come before anything was undone
                apart(self._undo)
                raise

    def _undo(self) -> None:
        self._wrapped.undo()
        if self._ring is not None:
            rings.control(self._ring, False)
            self._ring.close()
        self._ring = rings.now.ring = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def first(self) -> None:
        """Do nothing: there is nothing to load."""

    def start(self) -> None:
        """Begin the window: what is written from now on belongs to it."""
        children = [child.pid for child in psutil.Process().children(recursive=True)]
        self._computed = {pid: _computed_ns(pid) for pid in children}
        self._before = scheduled([os.getpid(), *children])
        self.running, self._since_ns = True, rings.clock()

    def stop(self, keep: Any = None) -> Trace:
        """End the window and return what all processes wrote since they began."""
        self.running, now_ns = False, rings.clock()
        rings.control(self._ring, False)  # or reading what was written would write
        found = rings.read(self.folder)
        clocks = scheduled(process.pid for process in found)
        ran = {thread: ns - self._before.get(thread, (0, 0))[0] for thread, (ns, _) in clocks.items()}
        at_work = sum(self._is_at_work(pid, now_ns) for pid in self._hidden(found))
        self.notes = list(self._notes(found, at_work))
        ready = had_core(sum(computed for computed, *_ in self.sampler.threads), self.sampler.queued_ns or 0)
        window_ns, delivered = (self._since_ns, now_ns), self._ring.delivered
        return to_trace(found, self.epochs.loader, delivered, self.warmup, window_ns, ran, ready, at_work)

    @property
    def loader(self) -> LoaderFacts:
        """What is watched."""
        return self.epochs.loader.facts

    def advice(self, trace: Trace) -> dict[str, str]:
        """Return nothing: the advice is read from the trace."""
        return {}

    def owns(self, error: BaseException) -> bool:
        """Tell whether an error is that of the loader, wherever it was raised: PyTorch says so of dead workers."""
        return isinstance(error, RuntimeError) and "DataLoader worker" in str(error)

    def failed(self, label: str, where: str, error: BaseException) -> RecordingError:
        """Return the error of a loader as that of a recording, in one sentence, and what its workers were doing."""
        if self._ring is not None:
            rings.control(self._ring, False)
        found = rings.read(self.folder)
        doing = [text for text, lives in open_spans(found, rings.clock()) if not lives]
        also = f"; {'; '.join(doing)}" if doing else ""
        return RecordingError(f"{label} failed at {where}: {self._sentence(error).rstrip('.')}{also}")

    def _sentence(self, error: BaseException) -> str:
        """Return what an error says, without the traceback that a worker sent along."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if "Traceback" in str(error) and lines:
            place = re.search(r"in (DataLoader worker process \d+)", lines[0])
            return f"{lines[-1][:300]}{f' (in {place[1]})' if place else ''}"
        text = error_text(error)[:300]
        if isinstance(error, pickle.PicklingError) or "pickle" in text:
            return (
                f"{text}. A worker process that begins anew gets the dataset by pickling: define its class and its "
                "functions in a module, not inside a function, and no lambda"
            )
        return text

    def _hidden(self, found: list[rings.Process]) -> list[int]:
        """Return the ids of processes that may work for the loader, but began earlier, so that they write no spans."""
        seen, me = {process.pid for process in found} | self.epochs.loader.set_aside, psutil.Process()
        hidden = []
        for child in me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.pid not in seen and _may_be_a_worker(child, me):
                    hidden.append(child.pid)
        return hidden

    def _is_at_work(self, pid: int, now_ns: int) -> bool:
        """Tell whether a process computed in the window, or may have: workers of other loaders rest meanwhile."""
        computed = _computed_ns(pid)
        rests = computed - self._computed.get(pid, 0) < _WAKES_NS + _WAKES * (now_ns - self._since_ns)
        return not (computed and rests)  # no system but Linux counts it

    def _notes(self, found: list[rings.Process], hidden: int) -> Iterator[str]:
        """Yield a sentence for what was not seen."""
        if hidden:
            noun, what = ("processes", "they do") if hidden > 1 else ("process", "it does")
            yield (
                f"{hidden} {noun} of this program began before the recording, and what {what} cannot be seen: "
                "let the loader start its workers in the recording."
            )
        called = {text for process in found for text, _ in process.names.values()}
        for name in sorted({one.text for one in own()} - called):
            what = self._wrapped.found.get(name, "nothing that this process imported, nor another one called")
            if what:
                yield f"loaders.known({name!r}) shows nothing: it is {what}; allowed: a function, or a method."
        if any(process.dropped for process in found):
            yield f"a process kept its first {rings.SLOTS:,} spans only: record fewer steps."

    def _watch(self) -> None:
        """Interrupt a consumer that waits for processes that do nothing any more: forked processes may hang."""
        taken, since = -1, time.monotonic()
        first: tuple[float, ...] | None = None
        while not self._over.wait(STOPPED_S / 4):
            if self.epochs.taken != taken or not self.epochs.waits:
                taken, since, first = self.epochs.taken, time.monotonic(), None
                continue
            now = self._activity()
            if first is None:
                first = last = now
            computed, read, begun, received = (here - past for here, past in zip(now, last, strict=True))
            last = now
            reads = read > IDLE_BYTES * STOPPED_S / 4 or received > IDLE_NETWORK * STOPPED_S / 4
            if computed > IDLE_SHARE * STOPPED_S / 4 or reads or begun > 0:
                since, first = time.monotonic(), now
            elif time.monotonic() - since >= STOPPED_S:
                doing = "; ".join(text for text, _ in open_spans(rings.read(self.folder), rings.clock()))
                forked = self.epochs.loader.facts.settings.get("start method") == "fork"
                self.stopped = (
                    f"no process computed for {STOPPED_S:.0f} s{f' ({doing})' if doing else ''}: all together took "
                    f"{max(0.0, now[0] - first[0]):.2f} s of a core, and read {max(0, now[1] - first[1]):,} bytes."
                ) + (
                    " A library that had threads before the fork can hang in a forked worker: try "
                    "multiprocessing_context='spawn'." if forked else ""
                )  # fmt: skip
                if not hasattr(signal, "pthread_kill"):  # Windows
                    _thread.interrupt_main()
                elif callable(signal.getsignal(signal.SIGINT)) and not self._over.is_set():
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # ends a wait for a lock, too
                return

    def _activity(self) -> tuple[float, float, float, float]:
        """Return the work so far, without the calling thread: seconds computed, bytes read, calls, bytes received.

        It is the work of this process and of those that may work for the loader. Other programs that this process
        started earlier, such as TensorBoard, are left out.
        """
        read, begun, me = 0, 0, psutil.Process()
        children = me.children(recursive=True)  # first: what other programs begin meanwhile is no worker
        beside = set(self._beside)
        for other in self._beside:
            with contextlib.suppress(psutil.Error):
                beside.update(other.children(recursive=True))
        # A fork server that ran before is no worker, but the processes that it forks are.
        workers = [one for one in children if one not in beside or _may_be_a_worker(one, me)]
        for one in (*workers, me):
            with contextlib.suppress(psutil.Error, AttributeError):  # no system but Linux counts bytes
                read += one.io_counters().read_chars
        read -= _read_by_this_thread()
        for process in rings.read(self.folder):
            # Waits are not counted: a thread that only waits begins a new wait again and again.
            works = [name for name, (_, category) in process.names.items() if not category.endswith("iterator")]
            begun += int(np.isin(process.records["name"], works).sum())
        return processor_seconds(workers) - time.thread_time(), read, begun, _received([*workers, me])

    def discard(self) -> None:
        """End the window without a trace."""
        self.running = False

    def mark(self, what: str, step: int) -> Any:
        """Let spans of the consumer's thread belong to a step."""
        if self._ring is not None:
            self._ring.consume(step if self.running else -1)
        return contextlib.nullcontext()


def _computed_ns(pid: int) -> int:
    return sum(ran for ran, _ in scheduled([pid]).values())


def _received(processes: list[psutil.Process]) -> int:
    """Return the bytes that the network brought, 0 where none of the processes is connected to another machine.

    Only a process itself can ask what its sockets took, so they are the bytes of all programs.
    """
    for one in processes:
        with contextlib.suppress(psutil.Error):
            connections = getattr(one, "net_connections", None) or one.connections  # its name before psutil 6
            away = [to.raddr.ip for to in connections() if to.status == psutil.CONN_ESTABLISHED and to.raddr]
            if any(not ipaddress.ip_address(one.removeprefix("::ffff:")).is_loopback for one in away):
                counters = psutil.net_io_counters(pernic=True, nowrap=False)
                return sum(card.bytes_recv for name, card in counters.items() if not name.startswith("lo"))
    return 0


def _read_by_this_thread() -> int:
    try:
        return int(Path(f"/proc/self/task/{threading.get_native_id()}/io").read_text().split()[1])
    except OSError:  # no system but Linux counts it
        return 0


def _may_be_a_worker(child: psutil.Process, me: psutil.Process) -> bool:
    """Return whether a process works for Python: forked, it has its parent's command line, or its own names the way.

    So it does with multiprocessing, and with joblib, which begins the workers that it keeps as a module of loky. Other
    programs of this one, such as a card, a store or a board, load nothing for a pipeline.
    """
    try:
        line, parent = child.cmdline(), child.ppid()
    except psutil.Error:  # it has ended
        return False
    if "forkserver" in " ".join(line):
        return parent != me.pid
    if line == me.cmdline() or "--multiprocessing-fork" in line:
        return True
    return "-m" in line[:-1] and "loky" in line[line.index("-m") + 1].split(".")
