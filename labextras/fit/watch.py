"""Watching: a window of steps of somebody's own training script, recorded from inside of it.

The recorder drives a pipeline itself. Here the script drives: `Watch` is a callback of ``model.fit``, and `watching`
stands around a loop. Nothing else of the script changes, and outside of the window nothing is done. The wait for a
batch happens inside the compiled step of Keras, where no clock of Python's sees it. The profiler does: tf.data calls
it ``Iterator::Root``.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import keras
import numpy as np

from labextras.fit.window_of_steps import Window
from labkit.common.numbers import one_of, truth, whole
from labkit.recording.tfdata.driver import RecordingError, check_keep
from labkit.recording.work import count_images, counted_place, flatten, noun
from labkit.timeline.run import Accelerator
from labkit.timeline.trace import CATEGORIES, VALIDATION, Trace

#: What a part of a train step may be spent on.
PARTS = tuple(category for category in CATEGORIES if category not in ("wait", "train"))

#: How often a guard looks whether ``fit`` still runs, and how often somebody looks how much memory is taken.
LOOK_S = 0.05


def _flat(trace: Trace, model: Any) -> Trace:
    """Return a trace in whose names a layer of a model within the model follows the model, as any layer does."""
    inner = "|".join(re.escape(one.name) for one in _inner(model))
    if not inner:
        return trace
    # TensorFlow numbers names that come again. Work of an inner model outside of its layers keeps the model's name.
    before = re.compile(rf"(?<=/)(?:{inner})(?:_\d+)?/(?=[^:]*/)")
    return replace(trace, names=tuple(before.sub("", name) for name in trace.names))


def _inner(model: Any) -> Iterator[Any]:
    """Yield the models within a model."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield layer
            yield from _inner(layer)


def stated_images(spec: Any) -> int | None:
    """Return how many images each batch of such elements holds, where the shape of what is counted says so.

    Parameters
    ----------
    spec : tf.TensorSpec, or nested structure of specs
    """
    shapes = [getattr(part, "shape", None) for part in flatten(spec)]
    dims = [() if getattr(shape, "rank", None) is None else tuple(shape) for shape in shapes]
    return next(iter(dims[counted_place(dims)]), None) if dims else None


def _mine(batch: Any) -> Sequence[Any]:
    """Return a batch as a list of one; of one that is shared out, the parts of this process."""
    import tensorflow as tf

    first = next(iter(flatten(batch)), None)
    return first.values if isinstance(first, tf.distribute.DistributedValues) else [batch]


class _Watcher:
    """What a callback and a loop have in common: settings, a window, a trace, and that they never stop a training."""

    #: The one whose window is open; a training that was interrupted may have left it.
    _last: _Watcher | None = None

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
        if (left := _Watcher._last) is not None:
            left._abandon(left._window)
        self._forget(why)

    def _forget(self, why: str) -> None:
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
        self._window = window = Window(self.keep, self.max_events, **how)
        _Watcher._last = self
        daemon = None if window.fit else True  # a daemon where fit runs in one
        threading.Thread(target=_guard, args=(self, window), name="labkit guard of a window", daemon=daemon).start()

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
            warnings.warn(f"labkit records nothing, and the training goes on: {self._why}", stacklevel=3)

    def _abandon(self, window: Window | None) -> None:
        """End a window whose training is over, unless it has ended meanwhile."""
        with _Watcher._ending:
            if window is not None and self._window is window:
                self._discard("the training was interrupted in the window")

    def _discard(self, why: str) -> None:
        """End what runs without a trace."""
        window, self._window, self._done, self._why = self._window, None, True, why
        if _Watcher._last is self:
            _Watcher._last = None
        if window is not None:
            window.discard()

    def _take(self, images: int | None, label: str, said: str, **facts: Any) -> None:
        """End the window with a trace of a training, which is called `label` and described by `said`."""
        accelerator = Accelerator(label, "real", None, said)
        facts |= {"name": self.name or label, "accelerator": accelerator, "warmup": self.warmup, "noun": self._noun}
        self._trace = self._window.close(images, steps=self.steps, **facts)
        self._discard("")


def _fit_of(model: Any) -> FrameType:
    """Return the frame in which this thread fits a model.

    Raises
    ------
    RecordingError
        If another function calls the callbacks: nobody could tell that it is over.
    """
    frame = sys._getframe(1)
    while frame and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    if frame is None:
        raise RecordingError("no model.fit calls this callback; allowed: model.fit, or `watching` around another loop")
    return frame


def _runs(frame: FrameType) -> bool:
    """Tell whether a frame still runs, in whatever thread: one that runs cannot be cleared.

    Looking for it on the stack of a thread that goes on meanwhile has crashed the interpreter (CPython 3.11). A frame
    that has ended loses its local variables here.
    """
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def _guard(watcher: _Watcher, window: Window) -> None:
    """Wait for the end of a window; end its profile if it is full between steps, and it if ``fit`` is over without it.

    Keras calls no callback when a training is interrupted or another callback fails. Only the frame of it tells.
    """
    while watcher._window is window and (window.fit is None or _runs(window.fit)):
        window.look()
        time.sleep(LOOK_S)
    watcher._abandon(window)


class Watch(_Watcher, keras.callbacks.Callback):
    """A callback that records a window of ``model.fit``.

    ``watch = labextras.fit.Watch(); model.fit(dataset, callbacks=[watch]); labkit.show(watch.trace)``

    Parameters
    ----------
    steps : int
        Steps of the window, in whole calls of ``steps_per_execution``. It ends early where the training does, or where
        the profiler's memory is full.
    warmup : int
        Steps before it: the first ones trace and compile.
    name : str, optional
        What views call the run; the name of the model by default.
    keep : path, optional
        A folder to which the file of the profiler is copied as well, where TensorBoard and xprof find it.
    max_events : int
        Events that the profiler may hold, about 0.65 kB each. Nobody counts them before the end: the window ends where
        the process has taken twice the memory for them.

    Raises
    ------
    ValueError, TypeError
        If a number is not what it must be.

    Notes
    -----
    It measures and never interferes: where it cannot record, because another profiler runs, say, it warns and the
    training goes on. Images are counted by the size of a batch that the dataset states (``drop_remainder=True``), where
    it states none by the loss that Keras keeps, and where Keras keeps none they are not known. The last step of an
    epoch and that of the window end when the device is done. A callback that evaluates or predicts is a validation.
    A training that is interrupted, or fails in another callback, leaves no trace. A thread looks whether ``fit`` still
    runs, and gives the profiler back about a tenth of a second after it is over. Where another function than
    ``model.fit`` calls the callbacks, nothing is recorded.
    A callback that Keras calls after each batch makes it wait for the device every time. This one is none: in its
    window it stands around ``model.train_function``, and outside of it counts.
    """

    def __init__(
        self,
        steps: int = 20,
        *,
        warmup: int = 5,
        name: str | None = None,
        keep: str | os.PathLike[str] | None = None,
        max_events: int = 500_000,
    ) -> None:
        super().__init__()
        self._own, self._opened = {}, {}
        #: What stands in for the functions of the model as long as the window is open. A callback that evaluates tells
        #: no other callback.
        validates = {name: functools.partial(self._validates, name) for name in ("evaluate", "predict")}
        self._instead = {"train_function": self._watched, **validates}
        self._set_up(steps, warmup, name, keep, max_events)

    # -- what Keras calls --------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to count steps."""
        self._begin(f"the training ended before step {self.warmup}, with which the window begins")
        self._images, self._opened, self._batch = 0, {}, None
        self._epoch_steps = (self.params or {}).get("steps") or math.inf  # an evaluation may tell its own later
        self._counted: int | None = None  # images that the loss remembers, and that are none of the window
        if (backend := keras.backend.backend()) != "tensorflow":
            with self._never_stopping():
                raise RecordingError(f"the backend of Keras is {backend}; allowed: tensorflow")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the time."""
        self._opened[f"epoch {epoch + 1}"] = time.perf_counter_ns()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Open the window when its first step comes."""
        if self._due:
            with self._never_stopping():
                self._counted, self._counts = self._count(), [(0, self._trained())]
                self._open(fit=_fit_of(self.model))
        if self._window is not None:
            with self._never_stopping():
                if self.model.train_function != self._watched:
                    self._take_over()
        self._seen += self.model.steps_per_execution
        self._at_end = batch + self.model.steps_per_execution >= self._epoch_steps

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Note the time, and how many steps there were: a call of several may end with the data."""
        self._keep_count()
        self._note(f"epoch {epoch + 1}")
        if self._window is not None:
            self._counts.append((len(self._window.calls), self._trained()))

    def on_train_end(self, logs: Any = None) -> None:
        """Close the window if the training was shorter."""
        if self._window is not None:
            self._close(ended=True)

    # -- the window --------------------------------------------------------------

    def _take_over(self) -> None:
        """Put the stand-ins in their places, for the first time or where the script has compiled the model anew."""
        for name, mine in self._instead.items():
            if getattr(self.model, name) != mine:
                self._own[name] = getattr(self.model, name)
                setattr(self.model, name, mine)

    def _watched(self, *args: Any, **named: Any) -> Any:
        """Stand in for ``model.train_function`` as long as the window is open."""
        train = self._own["train_function"]
        if self._window is not None and not _runs(self._window.fit):
            self._abandon(self._window)
        window = self._window_of_a_step()
        if window is None:  # a training that was interrupted left this function to the next one
            return train(*args, **named)
        if self._counted is None:
            with self._never_stopping():
                self._counted = self._count()
        try:
            with window.call():
                found = train(*args, **named)
        except window.over:  # the end of a dataset of unknown length
            with self._never_stopping():
                window.wait()
            raise
        except BaseException:
            self._discard("the training failed in the window")
            raise
        if len(window.calls) == 1:
            spec = getattr(args[0], "element_spec", ()) if args else ()
            self._batch, self._noun = stated_images(spec), noun(spec) if spec else self._noun
        if len(window.calls) * self.model.steps_per_execution >= self.steps or window.full:
            self._close()
        elif self._at_end:
            with self._never_stopping():
                window.wait()
        return found

    def _validates(self, name: str, /, *args: Any, **named: Any) -> Any:
        """Call a function of the model, and note the time as that of a validation; its images are counted apart."""
        if VALIDATION in self._opened:  # by another one
            return self._own[name](*args, **named)
        with self._never_stopping():
            self._keep_count()
        self._opened[VALIDATION] = time.perf_counter_ns()
        try:
            return self._own[name](*args, **named)
        finally:
            self._note(VALIDATION)

    def _close(self, ended: bool = False) -> None:
        with self._never_stopping():
            self._window.wait()
            each = self.model.steps_per_execution
            if not self._window.calls:
                self._discard(self._why)
                return
            for name in list(self._opened):
                self._note(name)
            self._keep_count()
            self._counts.append((len(self._window.calls), self._trained()))
            # A loss of one's own may count steps, or weights.
            images = self._images if not self._batch and self._images > len(self._window.calls) * each else None
            how = {"each": each, "counts": self._counts, "ended": ended, "batch": self._batch}
            self._take(images, self.model.name, f"model.fit of {self.model.name}", **how)
            self._trace = _flat(self._trace, self.model)

    def _discard(self, why: str) -> None:
        for name, mine in self._instead.items():
            if name in self._own and getattr(self.model, name, None) == mine:
                if hasattr(type(self.model), name):  # else another training would find nothing for a moment
                    delattr(self.model, name)  # a method of its class is its own again
                if getattr(self.model, name) != self._own[name]:
                    setattr(self.model, name, self._own[name])
        super()._discard(why)

    def _note(self, what: str) -> None:
        """Enter what ends now into the lane of the script."""
        start = self._opened.pop(what, None)
        if start is not None and self._window is not None:
            self._window.script(what, start, time.perf_counter_ns())

    def _keep_count(self) -> None:
        """Keep how many images the epoch has trained on, before its loss forgets."""
        if self._window is not None and self._counted is not None:
            self._images += self._count() - self._counted
            self._counted = None

    def _trained(self) -> int:
        """Return how many steps the optimizer has taken; 0 where the model has none, or one that leaves some out.

        Where it accumulates gradients, its ``iterations`` are fewer. One that scales the loss has one within it, which
        does not count where a gradient is not finite.
        """
        variables = getattr(getattr(self.model, "optimizer", None), "variables", ())
        found = [one for one in variables if getattr(one, "name", None) == "iteration"]
        return int(np.asarray(found[0])) if len(found) == 1 else 0

    def _count(self) -> int:
        """Return over how many images the loss of this epoch was taken so far; 0 where Keras keeps none."""
        loss = next((one for one in self.model.metrics if one.name == "loss" and hasattr(one, "count")), None)
        return 0 if loss is None else int(np.asarray(loss.count))


class watching(_Watcher, contextlib.AbstractContextManager):
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

    def __init__(
        self,
        steps: int = 20,
        *,
        warmup: int = 5,
        name: str = "the loop",
        keep: str | os.PathLike[str] | None = None,
        max_events: int = 500_000,
        profile: bool = True,
    ) -> None:
        self.profile = truth("profile", profile)
        self._set_up(steps, warmup, name, keep, max_events)

    def __enter__(self) -> watching:
        """Begin to count steps."""
        self._begin(f"the loop ended before step {self.warmup}, with which the window begins")
        self._images: int | None = 0
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Close the window if the loop was shorter; discard it if the loop failed."""
        if self._window is not None and kind is None and self._window.calls:
            self._close(ended=True)
        elif self._window is not None:
            self._discard("the loop failed in the window" if kind else self._why)
        self._done = True

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
                warnings.warn(f"labkit does not know how many images the loop takes: {error}", stacklevel=3)
        if len(window.calls) >= self.steps or window.full:
            self._close()

    def waits(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator over `batches` that times each wait.

        The profiler sees waits by itself where the loop iterates over a dataset of tf.data. It cannot tell them where
        other threads ask that dataset, as for a distributed one, or where the batches come from something else.
        """
        source = iter(batches)
        while True:
            with self._noting(lambda window, *ends: window.waits.append(ends)):
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
            self._take(self._images or None, self.name, "a train step of the program's own", ended=ended)
