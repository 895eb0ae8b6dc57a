"""Watching: a window of steps of somebody's own training script, recorded from inside of it.

The recorder drives a pipeline itself. Here the script drives: `labextras.fit.Watch` is a callback of ``model.fit``, and
`watching` stands around a loop. Nothing else of the script changes, and outside of the window nothing is done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from labextras.fit.window_of_steps import Keep, Window
from labkit.common.numbers import one_of, truth, whole
from labkit.recording.recorder import followed
from labkit.recording.tfdata.driver import RecordingError, check_keep
from labkit.recording.work import count_images, flatten, noun
from labkit.timeline.run import Accelerator
from labkit.timeline.trace import CATEGORIES, VALIDATION, Trace

#: What a part of a train step may be spent on.
PARTS = tuple(category for category in CATEGORIES if category not in ("wait", "train"))

#: How often a guard looks whether ``fit`` still runs, and how often somebody looks how much memory is taken.
LOOK_S = 0.05


class Watcher:
    """What a callback and a loop have in common: settings, a window, a trace, and that they never stop a training."""

    #: The one whose window is open; a training that was interrupted may have left it.
    _last: Watcher | None = None

    #: What follows the loader of the training, until the window is over.
    _loader: Any = None

    #: Held while the window of a training that may be over is ended: a guard does this in a thread of its own.
    _ending = threading.Lock()

    def _set_up(self, steps: Any, warmup: Any, name: str | None, keep: Any, max_events: Any) -> None:
        self.steps, self.warmup = whole("steps", steps, least=1), whole("warmup", warmup, least=0)
        self.max_events, self.name, self.keep = whole("max_events", max_events, least=1), name, keep
        check_keep(keep)
        self._forget("no training has run with it, and it stands around no loop")
        self._done = True  # until one begins

    def _begin(self, why: str) -> None:
        """Forget what was; `why` says why nothing is recorded as yet."""
        if (left := Watcher._last) is not None:
            left._abandon(left._window)
            left._unfollow()
        self._forget(why)

    def _forget(self, why: str) -> None:
        self._unfollow()
        self._trace: Trace | None = None
        self._window: Window | None = None
        self._why, self._seen, self._done, self._noun = why, 0, False, "image"

    @property
    def trace(self) -> Trace:
        """What was recorded.

        Raises
        ------
        RecordingError
            If nothing was; the sentence says why.
        """
        if self._trace is None:
            raise RecordingError(f"nothing was recorded: {self._why}")
        return self._trace

    @property
    def _due(self) -> bool:
        return self._window is None and not self._done and self._seen >= self.warmup

    def _open(self, **how: Any) -> None:
        """Open the window, and let a thread look after it."""
        self._window = window = Window(self.keep, self.max_events, loader=self._loader, **how)
        Watcher._last = self
        daemon = None if window.fit else True  # a daemon where fit runs in one
        threading.Thread(target=_guard, args=(self, window), name="labkit guard of a window", daemon=daemon).start()

    def _follow(self, loader: Any) -> None:
        """Let a session follow a loader from now on, if there is one for it: its workers are not there yet."""
        if self._done or self._loader is not None or self._window is not None:
            return
        with self._never_stopping():
            if (session := followed(loader)) is not None:
                self._loader = session.__enter__()
                Watcher._last = self

    def _unfollow(self) -> None:
        session, self._loader = self._loader, None
        if session is not None:
            session.__exit__()

    def _window_of_a_step(self) -> Window | None:
        """Return the window if a step that begins is one of it; close it if its profile has ended meanwhile."""
        if self._window is not None and not self._window.begins():
            self._close()
        return self._window

    @contextlib.contextmanager
    def _never_stopping(self) -> Iterator[None]:
        """Turn a failure of the recording into a warning: the training goes on."""
        try:
            yield
        except Exception as error:
            self._discard(str(error) if isinstance(error, RecordingError) else f"{type(error).__name__}: {error}")
            self._warn(f"labkit records nothing, and the training goes on: {self._why}")

    def _warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=4)

    def _abandon(self, window: Window | None) -> None:
        """End a window whose training is over, unless it has ended meanwhile."""
        with Watcher._ending:
            if window is not None and self._window is window:
                self._discard("the training was interrupted in the window")

    def _discard(self, why: str) -> None:
        """End what runs without a trace."""
        window, self._window, self._done, self._why = self._window, None, True, why
        if Watcher._last is self:
            Watcher._last = None
        if window is not None:
            window.discard()
        self._unfollow()

    def _finish(self) -> None:
        """End it with the training: with the steps that there were, and with nothing followed any more."""
        if self._window is not None and self._window.calls:
            self._close(ended=True)
        self._discard(self._why)

    def _take(self, images: int | None, label: str, said: str, **facts: Any) -> None:
        """End the window with a trace of a training, which is called `label` and described by `said`."""
        accelerator = Accelerator(label, "real", None, said)
        facts |= {"name": self.name or label, "accelerator": accelerator, "warmup": self.warmup, "noun": self._noun}
        self._trace = self._window.close(images, steps=self.steps, **facts)
        self._discard("")
        self._report(self._trace)

    def _report(self, trace: Trace) -> None:
        """Say at once what was found, where somebody waits for it; here nobody does."""


def runs(frame: FrameType) -> bool:
    """Tell whether a frame still runs, in whatever thread: one that runs cannot be cleared.

    Looking for it on the stack of a thread that goes on meanwhile has crashed the interpreter (CPython 3.11). A frame
    that has ended loses its local variables here.
    """
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def _guard(watcher: Watcher, window: Window) -> None:
    """Wait for the end of a window; end its profile if it is full between steps, and it if ``fit`` is over without it.

    Keras calls no callback when a training is interrupted or another callback fails. Only the frame of it tells.
    """
    while watcher._window is window and (window.fit is None or runs(window.fit)):
        window.look()
        time.sleep(LOOK_S)
    watcher._abandon(window)


def _mine(batch: Any) -> Sequence[Any]:
    """Return a batch as a list of one; of one that is shared out, the parts of this process."""
    first, tf = next(iter(flatten(batch)), None), sys.modules.get("tensorflow")
    return first.values if tf and isinstance(first, tf.distribute.DistributedValues) else [batch]


class watching(Watcher, contextlib.AbstractContextManager):
    """Record a window of a training loop of one's own.

    ``with watching() as step:`` stands around the loop, and ``with step(images):`` in it around each train step;
    ``step.trace`` is there when the window is over. The wait is the time in ``next()`` of the dataset before. `waits`
    and `part` note what the profiler cannot see, and ``with step.validation():`` stands around what is no train step.

    Parameters
    ----------
    steps, warmup, keep, max_events
        As in `Watch`.
    name : str
        What views call the run.
    profile : bool
        False leaves TensorFlow's profiler alone: the trace holds train steps, and what `waits` and `part` time. Where
        processes train together, do so: the profiler sometimes kills a process whose threads of the network end.

    Raises
    ------
    ValueError, TypeError
        If a number is not what it must be. The recording itself warns and never stops the loop.
    """

    #: What is said of its accelerator.
    said = "a train step of the program's own"

    def __init__(
        self, steps: int = 20, *, warmup: int = 5, name: str = "the loop", keep: Keep = None,
        max_events: int = 500_000, profile: bool = True,
    ) -> None:  # fmt: skip
        self.profile = truth("profile", profile)
        self._set_up(steps, warmup, name, keep, max_events)

    def __enter__(self) -> watching:
        """Begin to count steps."""
        self._begin(f"the loop ended before step {self.warmup}, with which the window begins")
        self._images: int | None = 0
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Close the window if the loop was shorter; discard it if the loop failed, or ended before it."""
        if kind and self._window is not None:
            self._discard("the loop failed in the window")
        else:
            self._finish()

    @contextlib.contextmanager
    def __call__(self, batch: Any = None) -> Iterator[None]:
        """Stand around one train step.

        Parameters
        ----------
        batch : tensor, or tuple or dict of tensors, optional
            What it trains on. Its images are counted; of anything else they are not known.
        """
        if self._due:
            with self._never_stopping():
                self._open(profile=self.profile)
        self._seen += 1
        window = self._window_of_a_step()
        if window is None:
            yield
            return
        with window.call():
            yield
        if batch is not None and self._images is not None:
            try:
                mine = _mine(batch)
                self._images += sum(map(count_images, mine))
                self._noun = noun(mine)
            except Exception as error:
                self._images = None
                self._warn(f"labkit does not know how many elements the loop takes: {error}")
        if len(window.calls) >= self.steps or window.full:
            self._close()

    def waits(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator over `batches` that times each wait, and shows what the loader does meanwhile.

        The profiler sees waits by itself where the loop iterates over a dataset of tf.data. It cannot tell them where
        other threads ask that dataset, as for a distributed one, or where the batches come from something else. Of a
        ``DataLoader``, and of whatever else `labkit.record` takes, threads and workers are recorded as `labkit.record`
        does: those that start from the first call of `waits` on.
        """
        self._follow(batches)
        begins, takes = (self._loader.beginning, self._loader.taking) if self._loader else [contextlib.nullcontext] * 2
        source = None
        while True:
            with self._noting(lambda window, *ends: window.waits.append(ends)):  # the first one begins with the epoch
                if source is None:
                    with begins():
                        source = iter(batches)
                with takes():
                    batch = next(source, source)
            if batch is source:
                return
            yield batch

    def part(self, name: str, category: str = "other") -> contextlib.AbstractContextManager[None]:
        """Stand around one part of a train step, which gets a lane of its own, as an all-reduce.

        Parameters
        ----------
        name : str
            Of the lane.
        category : str
            What it is spent on, one of `labkit.timeline.trace.CATEGORIES` but ``wait`` and ``train``.

        Raises
        ------
        ValueError
            If `category` is none of them.
        """
        one_of("category", category, PARTS)
        return self._noting(lambda window, *ends: window.noted.append((name, name, category, *ends)))

    def validation(self) -> contextlib.AbstractContextManager[None]:
        """Surround a validation between two train steps, so that its time and its ops do not count as theirs."""
        return self._noting(lambda window, *ends: window.script(VALIDATION, *ends))

    @contextlib.contextmanager
    def _noting(self, note: Callable[[Window, int, int], None]) -> Iterator[None]:
        """Stand around a block, and note its two ends."""
        start = time.perf_counter_ns()
        yield
        if self._window is not None:
            note(self._window, start, time.perf_counter_ns())

    def _close(self, ended: bool = False) -> None:
        with self._never_stopping():
            self._window.wait()
            self._take(self._images or None, self.name, self.said, ended=ended)
