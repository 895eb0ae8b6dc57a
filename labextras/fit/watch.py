"""Watch: a callback that records a window of ``model.fit``.

The wait for a batch happens inside the compiled step of Keras, where no clock of Python's sees it. The profiler does:
tf.data calls it ``Iterator::Root``.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import keras
import numpy as np

from labextras.fit.watcher import Watcher, runs
from labextras.fit.window_of_steps import Keep
from labkit.recording.tfdata.driver import RecordingError
from labkit.recording.work import counted_place, flatten, noun
from labkit.timeline.trace import VALIDATION, Trace


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


def _fit_of(model: Any) -> FrameType | None:
    """Return the frame in which this thread fits a model; None where another function calls the callbacks."""
    frame: FrameType | None = sys._getframe(1)
    while frame and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    return frame


class Watch(Watcher, keras.callbacks.Callback):
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
        self, steps: int = 20, *, warmup: int = 5, name: str | None = None, keep: Keep = None, max_events: int = 500_000
    ) -> None:
        super().__init__()
        self._own, self._opened, self._held = {}, {}, None
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
        elif fit := _fit_of(self.model):
            self._follow(fit.f_locals.get("x"))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the time."""
        self._opened[f"epoch {epoch + 1}"] = time.perf_counter_ns()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Open the window when its first step comes."""
        if self._due:
            with self._never_stopping():
                self._counted, self._counts = self._count(), [(0, self._trained())]
                if (fit := _fit_of(self.model)) is None:  # nobody could tell that it is over
                    allowed = "model.fit, or `watching` around another loop"
                    raise RecordingError(f"no model.fit calls this callback; allowed: {allowed}")
                self._open(fit=fit)
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
        """Close the window if the training was shorter; let go of its loader where it ended before the window."""
        self._finish()

    # -- the window --------------------------------------------------------------

    def _take_over(self) -> None:
        """Put the stand-ins in their places, for the first time or where the script has compiled the model anew."""
        for name, mine in self._instead.items():
            if getattr(self.model, name) != mine:
                self._own[name] = getattr(self.model, name)
                setattr(self.model, name, mine)
        self._held = self.model

    def _watched(self, *args: Any, **named: Any) -> Any:
        """Stand in for ``model.train_function`` as long as the window is open."""
        train = self._own["train_function"]
        if self._window is not None and not runs(self._window.fit):
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
        model = self._held  # Keras may have set another one, which is trained next
        for name, mine in self._instead.items():
            if name in self._own and getattr(model, name, None) == mine:
                if hasattr(type(model), name):  # else another training would find nothing for a moment
                    delattr(model, name)  # a method of its class is its own again
                if getattr(model, name) != self._own[name]:
                    setattr(model, name, self._own[name])
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
