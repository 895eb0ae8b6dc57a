"""Any loader as what a drive takes batches from: its epochs, the watch over its processes, and its end."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from labextras.loaders import known_callables as known
from labextras.loaders import shared_spans
from labextras.loaders.hanging_loader import HangWatch, may_be_a_worker
from labextras.loaders.known_callables import OWN_WORK
from labextras.loaders.loader_elements import LoaderElements, generators
from labextras.loaders.loader_facts import Loader, can_be_driven, check_loader
from labextras.loaders.loader_settings import WrittenLoader
from labextras.loaders.processes_to_trace import open_spans, to_trace
from labextras.loaders.wrapping import Wrapped
from labkit.common.errors import error_text
from labkit.common.files import new_folder
from labkit.common.processes import apart
from labkit.recording.processor_clock import Sampler, scheduled
from labkit.recording.tfdata.driver import RecordingError
from labkit.timeline.causes.effort import had_core
from labkit.timeline.run import LoaderFacts
from labkit.timeline.trace import Trace
from labkit.timeline.wording import BEGIN, END

#: A worker without work wakes up every few seconds. A worker at work computes more than this: ns, and a share of time.
_WAKES_NS, _WAKES = 1_000_000, 0.0003

#: From so much on it is told that a worker copied of the memory that it was forked with. MB. Python's search
#: for garbage alone copies 40 MB of a process that has imported TensorFlow and PyTorch.
COPIED_MB = 64

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
    batch_size : Any
        What the loader states, as PyTorch's DataLoader does.
    begins_again : bool
        Whether it can be iterated more than once.
    """

    def __init__(self, loader: Loader, steps: int | None) -> None:
        self.loader, self.steps = loader, steps
        self.batch_size = getattr(loader.loader, "batch_size", None)
        self.begins_again = loader.begins_again
        self._iterator: Any = None
        self.taken, self.waits, self._before = 0, False, 0

    def cardinality(self) -> int:
        """Return the number of batches as tf.data does: -1 without end, -2 where nobody knows."""
        length = self.loader.length
        if self.steps is not None and self.begins_again:
            return -1
        return -2 if length is None else length

    def __iter__(self) -> Iterator[Any]:
        """Return this object, at the beginning of an epoch where it can begin again."""
        if self.begins_again:
            self.close()
        return self

    def __next__(self) -> Any:
        """Return the next batch; after the last batch of an epoch, the first batch of the next epoch, if any."""
        self.waits = True
        try:
            while True:
                if self._iterator is None:
                    self._before = self.taken
                    with shared_spans.span(BEGIN, "other"):
                        self._iterator = self.loader.begin()
                with shared_spans.span(f"next of {self.loader.facts.kind}", OWN_WORK):
                    batch = next(self._iterator, _OVER)
                if batch is None:
                    raise ValueError(f"it gave None in place of its batch number {self.taken}")
                if batch is not _OVER:
                    self.taken += 1
                    return batch
                again = self.steps is not None and self.begins_again and self.taken > self._before
                self.close(early=False)
                if not again:
                    raise StopIteration
        finally:
            self.waits = False

    def close(self, early: bool = True) -> None:
        """End the epoch, `early` or not: workers that it has started end, too, unless the loader keeps them."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            with shared_spans.span(END, "other"):
                self.loader.end(iterator, early)


class AnyLoader(LoaderElements):
    """A loader as `labkit.recording.recorder.record` takes it.

    Parameters
    ----------
    loader : iterable
        See `labextras.loaders.loader_facts.Loader`.
    """

    @property
    def written(self) -> WrittenLoader:
        """Its arguments, in place of the calls that write a pipeline."""
        return WrittenLoader(self)

    def check(self, steps: int | None, label: str) -> None:
        """Refuse what gives no batches; see `labextras.loaders.loader_facts.check_loader`."""
        check_loader(self.loader, steps, label)

    def watched(self, steps: int | None, warmup: int, spans: bool) -> tuple[Epochs, LoaderSession]:
        """Return what is driven in one repeat, and what watches it."""
        epochs = Epochs(Loader(self.loader), steps)
        return epochs, LoaderSession(epochs, spans)

    def followed(self) -> LoaderSession | None:
        """Return what watches the loader while a loop of the reader's drives it; None where nothing can be seen."""
        if shared_spans.now.spans is not None or not can_be_driven(self.loader):
            return None
        return LoaderSession(Epochs(Loader(self.loader), None), drives=False)


class LoaderSession(contextlib.AbstractContextManager):
    """The watch over a loader's processes; entering its block wraps callables, and leaving it undoes all.

    Parameters
    ----------
    epochs : Epochs
    spans : bool
        Whether to keep spans; without, nothing is wrapped.
    drives : bool
        Whether the epochs are driven here. In a training of the reader's, nothing of it is ended or put back, and what
        happens before `start` is not kept.

    It does for a drive what `labkit.recording.tfdata.driver.Session` does for tf.data.

    Attributes
    ----------
    running : bool
    notes : list of str
        What a reader of the figures must know, in sentences.
    sampler : Sampler
        Of the threads of all processes.
    """

    #: Events need no counting beforehand: each process has room for so many, and drops the rest. Their clock is that of
    #: the machine.
    counts, unix = False, False

    def __init__(self, epochs: Epochs, spans: bool = True, drives: bool = True) -> None:
        self.epochs, self.spans, self.drives, self.running = epochs, spans, drives, False
        self.folder = Path()
        self.notes: list[str] = []
        self._wrapped = Wrapped()
        self._spans: shared_spans.ProcessSpans | None = None
        self._since_ns = 0
        self._computed: dict[int, int] = {}
        self._before: dict[str, tuple[int, int]] = {}
        self._watch: HangWatch | None = None
        self._draws: list[Callable[[], None]] = []
        self.sampler = Sampler(tree=True)

    def __enter__(self) -> LoaderSession:
        """Wrap, and open the window: threads and workers that begin now are seen to begin."""
        self.folder = new_folder("loader")
        try:
            self.folder.mkdir(0o700)
            if self.drives:
                self._draws = list(generators(self.epochs.loader.loader))
                self.epochs.loader.take_over()
            if self.spans:
                shared_spans.prepare(self.folder)
                self._spans = shared_spans.now.spans = shared_spans.ProcessSpans(self.folder)
                self._wrapped.install()
                self._spans.control[0] = int(self.drives)
            if self.drives and threading.current_thread() is threading.main_thread():
                self._watch = HangWatch(self.epochs, self.folder)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        """End the loader's iterator, put the originals back, and delete the files."""
        self.running = False
        if self._watch is not None:
            self._watch.end()
        try:
            if self.drives:
                self.epochs.close()
                self.epochs.loader.give_back()
        finally:
            try:
                apart(self._undo)  # whole: an interrupt would leave some callables wrapped for good
            except KeyboardInterrupt:  # it may have come before anything was undone
                apart(self._undo)
                raise

    def _undo(self) -> None:
        for put_back in self._draws:
            put_back()
        self._wrapped.undo()
        if self._spans is not None:
            self._spans.control[0] = shared_spans.OVER
            self._spans.close()
        self._spans = shared_spans.now.spans = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def first(self) -> None:
        """Do nothing: there is nothing to load."""

    def start(self) -> None:
        """Begin the window: what is written from now on belongs to it."""
        children = [child.pid for child in psutil.Process().children(recursive=True)]
        self._computed = {pid: _computed_ns(pid) for pid in children}
        self._before = scheduled([os.getpid(), *children])
        self.running, self._since_ns = True, shared_spans.clock()
        if self._spans is not None:
            self._spans.control[0] = 1

    def taking(self) -> contextlib.AbstractContextManager[None]:
        """Stand around ``next()`` of the loader."""
        return shared_spans.span(f"next of {self.loader.kind}", OWN_WORK)

    def beginning(self) -> contextlib.AbstractContextManager[None]:
        """Stand around the beginning of an epoch."""
        return shared_spans.span(BEGIN, "other")

    def follow(self, loader: Any) -> None:
        """Take the facts of this loader: it is the one that trains, and an earlier one does something else."""
        self.epochs = Epochs(Loader(loader), None)

    def stop(self, keep: Any = None) -> Trace:
        """End the window and return what all processes wrote since they began."""
        self.running, now_ns = False, shared_spans.clock()
        self._spans.control[0] = 0  # or reading what was written would write
        found = shared_spans.read(self.folder)
        clocks = {
            thread: tuple(max(0, now - past) for now, past in zip(times, self._before.get(thread, (0, 0)), strict=True))
            for thread, times in scheduled(process.pid for process in found).items()
        }
        at_work = sum(self._is_at_work(pid, now_ns) for pid in self._hidden(found))
        self.notes = list(self._notes(found, at_work))
        ready = had_core(sum(computed for computed, *_ in self.sampler.threads), self.sampler.queued_ns or 0)
        return to_trace(found, self.epochs.loader, (self._since_ns, now_ns), clocks, ready, at_work)

    @property
    def stopped(self) -> str | None:
        """Why the consumer was interrupted: no process computed any more."""
        return self._watch and self._watch.stopped

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
        if self._spans is not None:
            self._spans.control[0] = 0
        found = shared_spans.read(self.folder)
        doing = [text for text, lives in open_spans(found, shared_spans.clock()) if not lives]
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
            hint = "define its class and its functions in a module, not inside a function, and no lambda"
            return f"{text}. A worker process that begins anew gets the dataset by pickling: {hint}"
        return text

    def _hidden(self, found: list[shared_spans.Process]) -> list[int]:
        """Return the ids of processes that may work for the loader, but began earlier, so that they write no spans."""
        seen, me = {process.pid for process in found} | self.epochs.loader.set_aside, psutil.Process()
        hidden = []
        for child in me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.pid not in seen and may_be_a_worker(child, me):
                    hidden.append(child.pid)
        return hidden

    def _is_at_work(self, pid: int, now_ns: int) -> bool:
        """Tell whether a process computed in the window, or may have: workers of other loaders rest meanwhile."""
        computed = _computed_ns(pid)
        rests = computed - self._computed.get(pid, 0) < _WAKES_NS + _WAKES * (now_ns - self._since_ns)
        return not (computed and rests)  # no system but Linux counts it

    def _notes(self, found: list[shared_spans.Process], hidden: int) -> Iterator[str]:
        """Yield a sentence for what was not seen."""
        if hidden:
            unseen = "What they do cannot be seen: let the loader start its workers in the recording."
            yield f"Processes of this program that began before the recording: {hidden}. {unseen}"
        # Of those that live on, and began with what they share. What only the parent writes, two workers still share.
        others = [one for one in found if one.pid != os.getpid()]
        lives = [(left, one.shared_mb) for one in others for left in [shared_spans.shared_mb(one.pid)] if left]
        copied, had = max(((had - left, had) for left, had in lives), default=(0.0, 0.0))
        if copied >= COPIED_MB and len(lives) > 1:
            steps = max(1, self.epochs.taken)
            many = f"{copied:,.0f} MB in {steps} batches, {min(had, 1e3 * copied / steps):,.0f} MB for each 1,000"
            copies = "a forked worker copies the pages of Python objects that it reads, as of a list of texts"
            yield f"The memory of a worker grew by {many}: {copies}; one array of NumPy or Arrow stays shared."
        called = {text for process in found for text, _ in process.names.values()}
        for name in sorted({one.text for one in known.OWN} - called):
            what = self._wrapped.found.get(name, "nothing that this process imported, nor another one called")
            if what:
                yield f"loaders.known({name!r}) shows nothing: it is {what}; allowed: a function, or a method."
        if any(process.dropped for process in found):
            yield f"a process kept its first {shared_spans.SLOTS:,} spans only: record fewer steps."

    def discard(self) -> None:
        """End the window without a trace."""
        self.running = False

    def mark(self, what: str, step: int) -> Any:
        """Do nothing: when a step begins and ends, the drive knows."""
        return contextlib.nullcontext()


def _computed_ns(pid: int) -> int:
    return sum(ran for ran, _ in scheduled([pid]).values())
