"""A timeline that grows while the job runs: `labkit.record` with ``live=True``.

TensorFlow's profiler gives its spans when it stops, and not before. Until then the view shows what the loop itself
knows: when the consumer waited and when it trained, for the last steps. At the end the whole trace takes
its place, in the same widget and the same output of the cell.

The view must not slow the job down. It is drawn between two steps, in the thread of the loop, at most ten times per
second, and only while all drawings together take less than three percent of the time that the job has run. An error
in drawing ends the view, not the recording.
"""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from labkit.recording.tfdata.driver import consumer
from labkit.timeline.run import Run
from labkit.timeline.trace import Trace

#: The kind of an output that shows the model of a widget.
VIEW = "application/vnd.jupyter.widget-view+json"

#: Steps that the view shows while the job runs: its cost must not grow with the job.
LAST = 200

#: Shortest time between two drawings: a notebook server drops what comes in more than 1,000 messages per second.
PERIOD_NS = 100_000_000

#: Share of the loop's time that may go into drawing.
SHARE = 0.03

#: What a drawing is taken to cost until one was timed; 4 to 12 ms were measured on a two-core machine.
GUESS_NS = 10_000_000


def in_notebook() -> bool:
    """Say whether this is the kernel of a notebook, where a widget can be shown."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class View(contextlib.AbstractContextManager):
    """The view of one recording; leaving its block completes the output of the cell, however the recording ended.

    Its methods `open` and `see` are the observers of `labkit.recording.recorder.record`; `end` takes the
    trace that it returns.

    Parameters
    ----------
    shown : bool, optional
        Without, nothing is drawn and nothing imported; by default a notebook decides.

    Attributes
    ----------
    updates, spent_ns : int
        Drawings between the steps of this drive so far, and the nanoseconds that they took.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self.shown = shown = in_notebook() if shown is None else shown
        self.updates = self.spent_ns = 0
        self._run = Run("measured")
        self._widget, self._id = None, uuid.uuid4().hex
        self._stamps: deque[tuple[int, int, int]] = deque(maxlen=LAST)
        self._count, self.cost_ns, self._begin_ns, self._last_ns, self._over = 0, GUESS_NS, 0, 0, True

    def __exit__(self, *_: Any) -> None:
        """Leave a picture, if the recording broke off: of the steps that it came to."""
        if not self._over:
            self._safely(lambda: self.end(self.trace(over=True)))

    def open(self, run: Run) -> None:
        """Show the widget, still without a step; the traces that are drawn carry `run`."""
        self._run = run
        if self.shown:
            self._over = not self._safely(self._open)

    def see(self, number: int, start_ns: int, taken_ns: int, end_ns: int) -> None:
        """Take number and stamps of one step, see `labkit.recording.tfdata.driver.Drive`, and draw if it is time."""
        if number == 0:  # a repeat starts over
            self._stamps.clear()
            self._count = self.updates = self.spent_ns = 0
        self._stamps.append((start_ns, taken_ns, end_ns))
        self._count += 1
        now = time.perf_counter_ns()
        if self._count == 1:
            self._begin_ns = self._last_ns = start_ns
        affordable = self.spent_ns + self.cost_ns <= SHARE * (now - self._begin_ns)
        if self.shown and affordable and now - self._last_ns >= PERIOD_NS:
            self._safely(self._draw)
            self.cost_ns = time.perf_counter_ns() - now
            self.spent_ns += self.cost_ns
            self._last_ns = now

    def end(self, trace: Trace) -> None:
        """Put the whole trace in the place of what was drawn so far; only the first call does."""
        if not self._over:
            self._over = True
            if not self._safely(lambda: self._close(trace)):
                # A widget without a picture must not be all that is kept of the output.
                self._safely(lambda: self._replace({"text/plain": repr(trace)}, {}))

    def trace(self, over: bool = False) -> Trace:
        """Return the last steps as a trace; its name says how far the job has come, or had when it was `over`."""
        stamps = np.array(self._stamps, np.int64).reshape(-1, 3)
        found = consumer(stamps + (time.time_ns() - time.perf_counter_ns()))
        found.step[:] += np.int32(self._count - len(stamps))
        name = self._run.name or "recording"
        so_far = f"step {self._count - 1}" if self._count else "warm-up"
        so_far = f"broken off after {so_far}" if over else f"running: {so_far}"
        return replace(found, run=replace(self._run, name=f"{name}, {so_far}"))

    # -- what may fail -----------------------------------------------------------------

    def _safely(self, does: Callable[[], None]) -> bool:
        try:
            does()
            return True
        except Exception as error:
            self.shown = False
            sentence = f"the live view ended, the recording goes on: {type(error).__name__}: {error}"
            warnings.warn(sentence, RuntimeWarning, stacklevel=4)
            return False

    def _open(self) -> None:
        from anywidget import AnyWidget
        from IPython.display import display

        from labkit.views.widget import TimelineWidget

        self._widget = TimelineWidget(self.trace())
        # The picture that goes with a widget takes its time, and nobody would see this one.
        data, metadata = AnyWidget._repr_mimebundle_(self._widget)
        display(data, metadata=metadata, raw=True, display_id=self._id)

    def _draw(self) -> None:
        self._widget.update(self.trace())
        self.updates += 1

    def _close(self, trace: Trace) -> None:
        self._widget.update(trace)
        data, metadata = self._widget._repr_mimebundle_()
        self._replace(data, metadata)
        if VIEW not in data:  # a page took its place: the notebook need not store the model
            self._widget.close()

    def _replace(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        from IPython.display import display

        display(data, metadata=metadata, raw=True, display_id=self._id, update=True)
