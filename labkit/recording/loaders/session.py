"""Any loader as what a drive takes batches from: its epochs, the watch over its processes, and its end."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from labkit.recording.loaders import rings
from labkit.recording.loaders.described import Loader
from labkit.recording.loaders.known import OWN_WORK
from labkit.recording.loaders.spans import to_trace
from labkit.recording.loaders.wrapping import Wrapped
from labkit.timeline.trace import Trace


class Epochs:
    """The batches of a loader, epoch after epoch, as a training loop takes them.

    Parameters
    ----------
    loader : Loader
    steps : int or None
        None ends with the first epoch.
    """

    def __init__(self, loader: Loader, steps: int | None) -> None:
        self.loader, self.steps = loader, steps
        self.session: Session | None = None
        self._iterator: Any = None
        self._taken = self._before = 0

    def cardinality(self) -> int:
        """Return the number of batches as tf.data does: -1 without end, -2 where nobody knows."""
        length = self.loader.length
        if self.steps is not None and self.loader.begins_again:
            return -1
        return -2 if length is None else length

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            if self._iterator is None:
                self._begin()
            with rings.span(f"next of {self.loader.kind}", OWN_WORK):
                batch = next(self._iterator, None)
            if batch is not None:
                self._taken += 1
                return batch
            again = self.steps is not None and self.loader.begins_again and self._taken > self._before
            self.close()
            if not again:
                raise StopIteration

    def _begin(self) -> None:
        self._before = self._taken
        if self.session is not None:
            self.session.epoch(self._before)
        with rings.span("begin an epoch", "start"):
            self._iterator = self.loader.begin()

    def close(self) -> None:
        """End the epoch: workers that it has started end, too, unless the loader keeps them."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            with rings.span("end an epoch", "start"):
                self.loader.end(iterator)


class Session(contextlib.AbstractContextManager):
    """The watch over a loader's processes; entering its block wraps callables, and leaving it undoes all.

    It does for a drive what `labkit.recording.tfdata.driver.Session` does for tf.data.

    Attributes
    ----------
    running : bool
    """

    #: Events need no counting beforehand: each process has room for so many, and drops the rest.
    counts = False

    def __init__(self, epochs: Epochs, warmup: int) -> None:
        self.epochs, self.warmup, self.running = epochs, warmup, False
        self.folder = Path()
        self._wrapped = Wrapped()
        self._ring: rings.Ring | None = None

    def __enter__(self) -> Session:
        """Wrap, and open the window: threads and workers that begin now are seen to begin."""
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-loader-"))
        try:
            rings.prepare(self.folder)
            self._ring = rings.now.ring = rings.Ring(self.folder)
            self._ring.consume(-1)
            self.epochs.session = self
            self.epochs.loader.take_over()
            self._wrapped.install()
            self.epoch(0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        """End the loader's iterator, put the originals back, and delete the files."""
        self.running = False
        try:
            self.epochs.close()
            self.epochs.loader.give_back()
        finally:
            self._wrapped.undo()
            if self._ring is not None:
                rings.control(self._ring, False, 0)
                self._ring.close()
            self._ring = rings.now.ring = None
            shutil.rmtree(self.folder, ignore_errors=True)

    def epoch(self, steps_before: int) -> None:
        """Say in all processes how many steps there were before this epoch."""
        if self._ring is not None and (steps_before == 0 or self._ring.open):
            rings.control(self._ring, True, steps_before)

    def first(self) -> None:
        """Do nothing: there is nothing to load."""

    def start(self) -> None:
        """Begin the window: what is written from now on belongs to it."""
        self.running = True

    def stop(self, keep: Any = None) -> Trace:
        """End the window and return what all processes wrote since they began."""
        self.running, now_ns = False, rings.clock()
        rings.control(self._ring, False, 0)  # or reading what was written would write
        return to_trace(rings.read(self.folder), self.epochs.loader, self.warmup, now_ns)

    def discard(self) -> None:
        """End the window without a trace."""
        self.running = False

    def mark(self, what: str, step: int) -> Any:
        """Let spans of the consumer's thread belong to a step."""
        if self._ring is not None:
            self._ring.consume(step if self.running else -1)
        return contextlib.nullcontext()

    def unseen(self) -> int:
        """Return how many processes of the loader began before the recording, and cannot be seen."""
        seen = {process.pid for process in rings.read(self.folder)}
        return sum(child.pid not in seen for child in psutil.Process().children(recursive=True))
