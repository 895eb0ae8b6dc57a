"""The window of an unchanged script: which of its loops trains, and the two lines and the page at the end."""

from __future__ import annotations

import contextlib
import inspect
import time
import weakref
from pathlib import Path
from typing import Any

from labextras.fit.watcher import watching
from labkit.recording.tfdata.driver import RecordingError
from labkit.timeline.heading import first_line
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import VALIDATION, Trace
from labkit.views import saved_page


class Loops(watching):
    """`watching` around a loop that nobody has marked: the train step is all that happens between two batches.

    The loop that trains is the first one in which an optimizer takes a step; where none is known, as with JAX, the
    first one of all. Every other loop is a validation.

    Parameters
    ----------
    script : labextras.fit.script_child.WatchedScript
    """

    said = "all that the script does between two batches"

    def __init__(self, script: Any) -> None:
        self.script, settings = script, dict(script.settings)
        self.page = Path(settings.pop("page", None) or f"{Path(script.script).stem}.timeline.html")
        super().__init__(**settings, name=Path(script.script).name)
        self.__enter__()
        #: Of each iterator: what it iterates over, and how many steps optimizers had taken when it began.
        self._begun: Any = weakref.WeakKeyDictionary()
        self._source, self._step, self._aside, self._trained_aside = None, contextlib.ExitStack(), None, 0
        #: When an iterator was begun of which nothing was taken yet.
        self._began: Any = weakref.WeakKeyDictionary()

    # -- model.fit ---------------------------------------------------------------

    def with_callback(self, fit: Any, model: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
        """Return the arguments of ``fit``, the model first, with one callback more."""
        from labextras.fit.watch import Watch

        bound = inspect.signature(fit).bind(model, *given, **named)
        callbacks = bound.arguments.get("callbacks") or []
        if hasattr(callbacks, "append") and not isinstance(callbacks, list):  # a CallbackList, whose model is set
            return (model, *given), named
        watch = Watch(self.steps, warmup=self.warmup, name=self.name)
        watch._report, watch._warn = self._report, self._warn
        bound.arguments["callbacks"] = [*(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]), watch]
        return bound.args, bound.kwargs

    # -- a loop --------------------------------------------------------------------

    def begun(self, begin: Any, source: Any) -> Any:
        """Begin an epoch of a loader; its workers are seen if they start now."""
        self._follow(source)
        with self._never_stopping():
            self._step.close()  # what begins a loop is no train step
        start = time.perf_counter_ns()
        with self._loader.beginning() if self._loader else contextlib.nullcontext():
            iterator = begin(source)
        with self._never_stopping():
            self._begun.setdefault(iterator, (source, self.script.trained))
            self._began[iterator] = start
        return iterator

    def taken(self, take: Any, iterator: Any) -> Any:
        """Take the next batch, and note the wait where it is one of the training."""
        mine, start = False, 0
        with self._never_stopping():
            self._step.close()
            known, mine, start = self._source, self._trains(iterator), time.perf_counter_ns()
            start = self._began.pop(iterator, start)  # the first wait begins with the epoch
            self._began.clear()  # what begins, and lets others take first, does not wait meanwhile
            if mine and known is not None and self._aside is not None and self.script.trained > self._trained_aside:
                raise RecordingError("an optimizer takes steps in two loops; allowed: one, or `watching` around one")
            if mine or self._aside is None:
                self._validated(start)
                self._aside, self._trained_aside = None if mine else start, self.script.trained
        try:
            with self._loader.taking() if self._loader else contextlib.nullcontext():
                batch = take(iterator)
        except BaseException:  # the end of an epoch, as a rule
            self._validated(time.perf_counter_ns())
            raise
        if mine and not self._done:
            if self._window is not None:
                self._window.waits.append((start, time.perf_counter_ns()))
            self._step.enter_context(self(batch))
        return batch

    def _trains(self, iterator: Any) -> bool:
        """Tell whether an iterator is one of the loop that trains."""
        source, before = self._begun.get(iterator, (None, 0))
        if self._source is None and (self.script.trained > before or not self.script.counts):
            self._source = source
            if self._loader is not None:
                self._loader.follow(source)
        return source is not None and source is self._source

    def _validated(self, at: int) -> None:
        """Note the end of a loop that does not train, if there was one."""
        if self._aside is not None and self._window is not None:
            self._window.script(VALIDATION, self._aside, at)
        self._aside = None

    def ended(self, failed: bool) -> None:
        """End the window with the script; a step in which it failed is none."""
        with self._never_stopping():
            if not failed:
                self._step.close()
            self._finish()

    # -- what is said --------------------------------------------------------------

    def _warn(self, text: str) -> None:
        self.script.tell(text)
        self.script.put_back()

    def _report(self, trace: Trace) -> None:
        """Say in two lines what was found, and save the page."""
        timeline = Timeline(trace)
        free = f" · with free data {timeline.headroom}" if timeline.headroom else ""
        page = saved_page.save(timeline, self.page)
        steps = f"{timeline.steps} steps after {self.warmup}"
        self.script.tell(f"{self.name}, {steps}: {first_line(timeline)}{free}", f"{timeline.stalls.advice} See {page}")
        self.script.put_back()
