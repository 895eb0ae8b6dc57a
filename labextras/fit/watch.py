"""Watching: a window of steps of somebody's own training script, recorded from inside of it.

The recorder drives a pipeline itself. Here the script drives: `Watch` is a callback of ``model.fit``, and `watching`
stands around a loop. Nothing else of the script changes, and outside of the window nothing is done. The wait for a
batch happens inside the compiled step of Keras, where no clock of Python's sees it. The profiler does: tf.data calls
it ``Iterator::Root``.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import os
import re
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np

from labkit.common.numbers import one_of, truth, whole
from labkit.recording import measures
from labkit.recording.processor_clock import Sampler
from labkit.recording.recorder import assemble, notes, unix
from labkit.recording.tfdata.driver import EVENT_BYTES, Drive, ProfilerWindow, RecordingError, Session, check_keep
from labkit.recording.tfdata.xplane import STEP_MARK
from labkit.recording.work import count_images, counted_place, flatten
from labkit.timeline.run import Accelerator, Profile
from labkit.timeline.trace import CATEGORIES, VALIDATION, Span, Trace

#: What tf.data calls the call that hands a batch on to the program.
ROOT = "Iterator::Root"

#: What is said of a loop whose waits nobody saw.
NO_WAITS_TIMED = "No wait for a batch was seen, since no tf.data pipeline was asked: let step.waits(batches) time them."

#: The lane of a script: its epochs and its validations.
SCRIPT = "the script"

#: What a part of a train step may be spent on.
PARTS = tuple(category for category in CATEGORIES if category not in ("wait", "train"))

#: How often a guard looks whether ``fit`` still runs, and how often somebody looks how much memory is taken.
LOOK_S = 0.05


class _Unprofiled(Session):
    """Takes the place of the profiler if it is not used: only the notes of the loop itself are recorded."""

    notes = ("The profiler was left alone: what the input pipeline did is not seen.",)

    def start(self) -> None:
        """Begin nothing."""

    def stop(self, keep: str | os.PathLike[str] | None = None) -> Trace:
        """Return an empty trace."""
        return Trace.from_spans([], origin="measured").with_run(profiler=Profile(events=0))


class _Window:
    """An open window in a loop that is not ours; `fit` is the frame of the training, where ``model.fit`` runs it."""

    def __init__(
        self, keep: str | os.PathLike[str] | None, max_events: int, fit: FrameType | None = None, profile: bool = True
    ) -> None:
        from tensorflow.errors import OutOfRangeError
        from tensorflow.profiler.experimental import Trace as Mark

        # Looked up once: to import them again in each step took longer than all else that is done there.
        self.over, self._mark = (OutOfRangeError, StopIteration), Mark
        self.fit = fit
        _sync()  # steps before the window are over when it begins
        # A training is long enough for few samples, and shall not be slower for being watched.
        session = Session() if profile else _Unprofiled()
        self._run, self._session, self._sampler = Drive(), session, Sampler(soon=0)
        self._window = ProfilerWindow(self._run, self._session, self._sampler, keep)
        self._most_bytes = 2 * EVENT_BYTES * max_events if profile else math.inf
        # A guard ends the profile in a thread of its own, and never within a step.
        self._lock, self._inside, self._ended, self._failed = threading.Lock(), 0, False, None
        try:
            self._window.open(self._most_bytes)
            if profile and keep is None:
                _leave_out_unseen()
        except BaseException:  # nobody else could end what an interrupt leaves half open
            self.discard()
            raise
        self._cpu_ns, self._next_look, self._full = time.process_time_ns(), 0.0, False
        self.calls: list[tuple[int, int]] = []
        self.waits: list[tuple[int, int]] = []
        self.script: list[tuple[str, int, int]] = []
        self.parts: list[tuple[str, str, int, int]] = []

    @property
    def full(self) -> bool:
        """Whether the memory that the profiler may take is taken; looked at after each `LOOK_S`, and not between."""
        if time.perf_counter() >= self._next_look:
            self._next_look = time.perf_counter() + LOOK_S
            self._full = self._full or self._window.full
        return self._full

    def look(self) -> None:
        """End the profile if it is full and no step runs: a validation, and what follows a loop, do not ask.

        Before its first step there is nothing to keep.
        """
        with self._lock:
            if self.calls and not self._inside and self.full:
                self._end()

    def _end(self) -> None:
        """End the profile, unless it has ended; `close` raises what goes wrong."""
        if self._ended:
            return
        self._ended = True
        try:
            _sync()  # the profile holds all that was handed over
            self._run.cpu_ns = time.process_time_ns() - self._cpu_ns
            self._window.close()
        except Exception as error:
            self._failed = error

    def discard(self) -> None:
        """End it without a trace."""
        with self._lock:
            self._session.discard()
            self._sampler.stop()

    def begins(self) -> bool:
        """Tell whether a call may begin, which `call` then stands around: none does when the profile has ended."""
        with self._lock:
            self._inside += not self._ended
            return not self._ended

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Stand around one call that trains, of a step or of several; one that fails is none."""
        start = time.perf_counter_ns()
        try:
            with self._mark(STEP_MARK, step_num=len(self.calls), _r=1):
                yield
            self.calls.append((start, time.perf_counter_ns()))
        finally:
            with self._lock:
                self._inside -= 1

    def wait(self) -> None:
        """Let the last call end when the device has finished: a GPU goes on where the call has returned.

        Where less of the time since then is spent here than elsewhere, it had finished before, and nobody saw when.
        """
        start = time.perf_counter_ns()
        _sync()
        end = time.perf_counter_ns()
        if self.calls and end - start >= start - self.calls[-1][1]:
            self.calls[-1] = self.calls[-1][0], end

    def close(
        self,
        images: int | None,
        *,
        each: int = 0,
        counts: Sequence[tuple[int, int]] = (),
        steps: int,
        ended: bool,
        batch: int | None = None,
        **facts: Any,
    ) -> Trace:
        """Take the profile and return the trace.

        Parameters
        ----------
        images : int or None
            Of all steps.
        each : int
            How many batches a call takes itself at most, one for each of its steps; 0 where a loop takes them, before
            the call.
        counts : sequence of (int, int)
            As for `_stamps`.
        steps : int
            How many were asked for.
        ended : bool
            Whether the training has ended.
        batch : int or None
            Images of each step, where those of all steps are not known.
        facts
            Of the run.
        """
        run = self._run
        with self._lock:
            self._end()
        if self._failed:
            raise self._failed
        # A function of Keras is one op to the eager runtime, and as long as the call.
        whole = np.array([name.startswith("EagerLocalExecute: __") for name in run.spans.names], bool)
        run.spans = run.spans.where(~whole[run.spans.name])
        calls = unix(np.array(self.calls, np.int64).ravel(), run.clock).reshape(-1, 2)
        roots, unseen, spans = run.spans.where(run.spans.select(name=ROOT)), [], []
        for name, *ends in self.script:
            start, end = unix(np.array(ends, np.int64), run.clock).tolist()
            spans.append(Span(SCRIPT, name, "train" if name == VALIDATION else "iterator", start, end - start, -1))
            if name == VALIDATION:  # what it asks for is no wait for a batch
                roots = roots.where((roots.start_ns < start) | (roots.start_ns >= end))
        if self.waits:
            stamps = _timed(calls, unix(np.array(self.waits, np.int64).ravel(), run.clock).reshape(-1, 2))
        else:
            stamps = _stamps(calls, roots, each, counts)
            unseen = [NO_WAITS_TIMED] * (not each and not len(roots) and not self._session.notes)
        images = batch * len(stamps) if images is None and batch else images
        trace = assemble(run, stamps, images)
        run.steps, run.window_images = len(stamps), images or 0
        for name, category, *ends in self.parts:
            start, end = unix(np.array(ends, np.int64), run.clock).tolist()
            step = int(np.searchsorted(stamps[:, 0], start, side="right")) - 1
            spans.append(Span(name, name, category, start, end - start, step))
        if spans:
            kinds = dict.fromkeys((span.thread for span in spans), "script")
            more = Trace.from_spans(spans, kinds, origin="measured").slice(*trace.window_ns)
            trace = replace(Trace.merge(trace, more), run=trace.run)
        why = "the training ended" if ended else "the window ended"
        if self._full and not ended:
            events, most_mb = run.spans.run.profiler.events, self._most_bytes / 1e6
            mine_mb = min(most_mb, events * EVENT_BYTES / 1e6)
            why = (
                f"the process has taken {most_mb:,.0f} MB since the window began, at most {mine_mb:,.0f} MB of it for "
                f"{events:,} events of the profiler, the rest for what it keeps itself, as by cache() or shuffle(): "
                "the window ended"
            )
        short = [f"{why} after {run.steps} of {steps} steps."] if run.steps < steps else []
        note = " ".join([*short, *unseen, *self._session.notes, *notes(run, trace, None)]) or None
        profiler = replace(trace.run.profiler, note=note)
        trace = trace.with_run(batch_size=images and round(images / run.steps), profiler=profiler, **facts)
        return trace if images is None else trace.with_run(repeats=(measures.figures(trace),))


def _leave_out_unseen() -> None:
    """Let the running profiler leave out events that no view of labkit shows; they are most of all events.

    They are the pieces that TensorFlow hands from thread to thread, dozens for one convolution on a CPU, and each
    piece of memory that an op takes and gives back. The profiler has no option for it. Where a TensorFlow has nothing
    of the names below, all is kept.
    """
    import tensorflow as tf

    with contextlib.suppress(OSError, AttributeError, ValueError):
        library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")))
        # tsl::tracing::SetEventCollector(category, collector); the profiler itself calls it so when it ends.
        forget = library._ZN3tsl7tracing17SetEventCollectorENS0_13EventCategoryEPKNS0_14EventCollectorE
        forget.argtypes, forget.restype = (ctypes.c_uint, ctypes.c_void_p), None
        for category in (0, 1):  # a piece is handed over; a piece runs
            forget(category, None)
        # tsl::profiler::internal::g_trace_filter_bitmap, which each start of the profiler sets again; bit 0 is memory.
        ctypes.c_uint64.in_dll(library, "_ZN3tsl8profiler8internal21g_trace_filter_bitmapE").value &= ~1


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


def _sync() -> None:
    """Wait until the devices of this process are done.

    Where processes train together, TensorFlow lists the devices of all, and cannot ask those of another process.
    """
    import tensorflow as tf

    try:
        tf.test.experimental.sync_devices()
    except tf.errors.InternalError:
        for device in tf.config.list_logical_devices():
            with contextlib.suppress(tf.errors.InternalError), tf.device(device.name):
                tf.raw_ops.SyncDevice()


def _stamps(calls: np.ndarray, roots: Trace, each: int, counts: Sequence[tuple[int, int]] = ()) -> np.ndarray:
    """Return start of the wait, its end, and end of the train step, of each step: int64, shape (steps, 3).

    Parameters
    ----------
    calls : ndarray of int64, shape (calls, 2)
        Start and end of each call that trains.
    roots : Trace
        The calls that hand a batch on.
    each : int
        As for `_Window.close`.
    counts : sequence of (int, int)
        Calls so far, and steps that the optimizer has taken, at the beginning, at the end of each epoch and at the end.
        In the last call of an epoch, the dataset may be asked once more than there are batches.
    """
    found, before = [], np.iinfo(np.int64).min
    for begin, last in calls.tolist():
        found.append(np.flatnonzero((roots.start_ns >= (begin if each else before)) & (roots.start_ns < last)))
        before = last
    # A node behind a queue of its own, as that of a device, is called in another thread, later or at any time.
    rank = {}
    for thread in np.unique(roots.thread).tolist():
        own = roots.thread == thread
        rank[thread] = -sum(own[mine].sum() == 1 for mine in found), roots.start_ns[own].mean()
    if each == 1:
        for number, mine in enumerate(found):
            if len(mine):
                found[number] = mine[roots.thread[mine] == min(roots.thread[mine], key=rank.__getitem__)]
    queued = each > 1 and max(map(len, found), default=0) > each + 1
    if queued:
        for number, mine in enumerate(found):
            likely = sorted(mine.tolist(), key=lambda root: (*rank[roots.thread[root]], root))
            found[number] = np.array(sorted(likely[:each]), np.int64)
    for (first, done), (last, now) in itertools.pairwise(counts if each > 1 else ()):
        over = sum(map(len, found[first:last])) - (now - done)
        if now > done and (over == 1 or (queued and 0 < over < each)):
            found[last - 1] = found[last - 1][:-over]
        # Where nobody has counted them, a call that asks less often than the others has found the end at last.
        elif now == done and last > first and len(found[last - 1]) < min([each, *map(len, found[first : last - 1])]):
            found[last - 1] = found[last - 1][:-1]
    rows: list[tuple[int, int, int]] = []
    # A loop over two datasets at once asks both before each step; one that evaluates now and then rarely asks more.
    asked = [mine[roots.start_ns[mine] < begin] for (begin, _), mine in zip(calls.tolist(), found, strict=True)]
    usual = max(1, int(np.median([len(before) for before in asked])))
    for (begin, last), mine, before in zip(calls.tolist(), found, asked, strict=True):
        if len(before):
            wait = before[-usual:]
            rows.append((int(roots.start_ns[wait].min()), int(roots.end_ns[wait].max()), last))
            continue
        ends = [*roots.start_ns[mine[1:]].tolist(), last]
        rows += zip(
            roots.start_ns[mine].tolist(), np.minimum(roots.end_ns[mine], ends).tolist(), ends, strict=bool(len(mine))
        )
        if not len(mine):  # it trains on something else than a dataset
            rows.append((begin, begin, last))
    return np.array(rows, np.int64).reshape(-1, 3)


def _timed(calls: np.ndarray, waits: np.ndarray) -> np.ndarray:
    """Return the same as `_stamps` where the waits were timed: int64, shape (steps, 3).

    >>> _timed(np.array([[10, 20], [50, 60], [70, 80]]), np.array([[25, 45]])).tolist()
    [[10, 10, 20], [25, 45, 60], [70, 70, 80]]
    """
    rows, before = [], np.iinfo(np.int64).min
    for begin, last in calls.tolist():
        mine = waits[(waits[:, 0] >= before) & (waits[:, 1] <= begin)]
        rows.append((*(mine[-1].tolist() if len(mine) else (begin, begin)), last))
        before = last
    return np.array(rows, np.int64).reshape(-1, 3)


def stated_images(spec: Any) -> int | None:
    """Return how many images each batch of such elements holds, where the shape of what is counted says so.

    Parameters
    ----------
    spec : tf.TensorSpec, or nested structure of specs
    """
    shapes = [getattr(part, "shape", None) for part in flatten(spec)]
    dims = [() if getattr(shape, "rank", None) is None else tuple(shape) for shape in shapes]
    return next(iter(dims[counted_place(dims)]), None) if dims else None


def _images(batch: Any) -> int:
    """Return how many images a batch holds; of one that is shared out, those of this process."""
    import tensorflow as tf

    first = next(iter(flatten(batch)), None)
    mine = first.values if isinstance(first, tf.distribute.DistributedValues) else [batch]
    return sum(map(count_images, mine))


class _Watcher:
    """What a callback and a loop have in common: settings, a window, a trace, and that they never stop a training."""

    #: The last one that began; a training that was interrupted may have left its window open.
    _last: weakref.ref[_Watcher] | None = None

    #: The last one that looked after a window.
    _last_guard: threading.Thread | None = None

    #: Held while the window of a training that may be over is ended: a guard does this in a thread of its own.
    _ending = threading.Lock()

    def _set_up(self, steps: Any, warmup: Any, name: str | None, keep: Any, max_events: Any) -> None:
        self.steps, self.warmup = whole("steps", steps, least=1), whole("warmup", warmup, least=0)
        self.max_events, self.name, self.keep = whole("max_events", max_events, least=1), name, keep
        check_keep(keep)
        self._forget("no training has run with it")

    def _begin(self, why: str) -> None:
        """Forget what was; `why` says why nothing is recorded as yet."""
        left = _Watcher._last and _Watcher._last()
        if left:
            left._abandon(left._window)
        elif _Watcher._last_guard:
            _Watcher._last_guard.join()  # it gives the profiler of one that is gone back
        self._forget(why)
        _Watcher._last = weakref.ref(self)

    def _forget(self, why: str) -> None:
        self._trace: Trace | None = None
        self._window: _Window | None = None
        self._why, self._seen, self._done = why, 0, False

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
        self._window = window = _Window(self.keep, self.max_events, **how)
        name, daemon = "labkit guard of a window", None if window.fit else True  # a daemon where fit runs in one
        guard = threading.Thread(target=_guard, args=(weakref.ref(self), window), name=name, daemon=daemon)
        _Watcher._last_guard = guard
        guard.start()

    def _window_of_a_step(self) -> _Window | None:
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

    def _abandon(self, window: _Window | None) -> None:
        """End a window whose training is over, unless it has ended meanwhile."""
        with _Watcher._ending:
            if window is not None and self._window is window:
                self._discard("the training was interrupted in the window")

    def _discard(self, why: str) -> None:
        """End what runs without a trace."""
        window, self._window, self._done, self._why = self._window, None, True, why
        if window is not None:
            window.discard()


def _fit_of(model: Any) -> FrameType | None:
    """Return the frame in which this thread fits a model; None where another function calls the callbacks."""
    frame = sys._getframe(1)
    while frame and not (frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model):
        frame = frame.f_back
    return frame


def _within(frame: FrameType | None, outer: FrameType | None) -> bool:
    """Tell whether a frame, or one that waits for it, is the outer one."""
    while frame and frame is not outer:
        frame = frame.f_back
    return frame is outer


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


def _guard(of: weakref.ref[_Watcher], window: _Window) -> None:
    """Wait for the end of a window; end its profile if it is full between steps, and it if ``fit`` is over without it.

    Keras calls no callback when a training is interrupted or another callback fails. Only the frame of it tells.
    Where there is no ``fit``, the window ends with its watcher at the latest, which nobody keeps alive for this.
    """
    while (watcher := of()) and watcher._window is window and (window.fit is None or _runs(window.fit)):
        watcher = None
        window.look()
        time.sleep(LOOK_S)
    if watcher:
        watcher._abandon(window)
    else:
        window.discard()


class Watch(_Watcher, keras.callbacks.Callback):
    """A callback that records a window of ``model.fit``.

    ``watch = labextras.fit.Watch(); model.fit(dataset, callbacks=[watch]); labkit.show(watch.trace)``

    Parameters
    ----------
    steps : int
        Steps of the window. It ends early where the training does, or where the profiler's memory is full.
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
    ``model.fit`` calls the callbacks, the profiler runs until the next `Watch` begins or this one is gone.
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

    def on_test_begin(self, logs: Any = None) -> None:
        """Note the time at which a validation begins; it counts its own images with the same loss."""
        self._keep_count()
        self._opened.setdefault(VALIDATION, time.perf_counter_ns())

    def on_test_end(self, logs: Any = None) -> None:
        """Note the time at which it ends."""
        self._note(VALIDATION)

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

    def _stand_ins(self) -> dict[str, Any]:
        """Return what stands in for the functions of the model as long as the window is open, by their names."""
        return {
            "train_function": self._watched,
            "reset_metrics": self._forgets,
            "evaluate": self._evaluates,
            "predict": self._predicts,
        }

    def _take_over(self) -> None:
        """Put the stand-ins in their places, for the first time or where the script has compiled the model anew."""
        for name, mine in self._stand_ins().items():
            # A model of another trainer may have nothing to evaluate or to predict with.
            if (name == "train_function" or hasattr(self.model, name)) and getattr(self.model, name) != mine:
                self._own[name] = getattr(self.model, name)
                setattr(self.model, name, mine)

    def _watched(self, *args: Any, **named: Any) -> Any:
        """Stand in for ``model.train_function`` as long as the window is open."""
        train = self._own["train_function"]
        if self._window is not None and not _within(sys._getframe(), self._window.fit):
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
            self._batch = stated_images(getattr(args[0], "element_spec", ())) if args else None
        if self._taken() >= self.steps or window.full:
            self._close()
        elif self._at_end:
            with self._never_stopping():
                window.wait()
        return found

    def _forgets(self) -> None:
        """Stand in for ``model.reset_metrics``: a callback that evaluates lets the loss forget what it counted."""
        with self._never_stopping():
            self._keep_count()
        self._own["reset_metrics"]()

    def _evaluates(self, *args: Any, **named: Any) -> Any:
        """Stand in for ``model.evaluate``: a callback that evaluates tells no other callback."""
        return self._validates("evaluate", *args, **named)

    def _predicts(self, *args: Any, **named: Any) -> Any:
        """Stand in for ``model.predict``."""
        return self._validates("predict", *args, **named)

    def _validates(self, name: str, /, *args: Any, **named: Any) -> Any:
        """Call a function of the model, and note the time as that of a validation."""
        if VALIDATION in self._opened:  # by another one
            return self._own[name](*args, **named)
        self._opened[VALIDATION] = time.perf_counter_ns()
        try:
            return self._own[name](*args, **named)
        finally:
            self._note(VALIDATION)

    def _close(self, ended: bool = False) -> None:
        with self._never_stopping():
            self._window.wait()
            if not self._window.calls:
                self._discard(self._why)
                return
            for name in list(self._opened):
                self._note(name)
            self._keep_count()
            self._counts.append((len(self._window.calls), self._trained()))
            trace = self._window.close(
                # A loss of one's own may count steps, or weights.
                self._images if not self._batch and self._images > self._taken() else None,
                each=self.model.steps_per_execution,
                counts=self._counts,
                steps=self.steps,
                ended=ended,
                batch=self._batch,
                name=self.name or self.model.name,
                accelerator=Accelerator(self.model.name, "real", None, f"model.fit of {self.model.name}"),
                warmup=self.warmup,
            )
            self._trace = _flat(trace, self.model)
            self._discard("")

    def _discard(self, why: str) -> None:
        for name, mine in self._stand_ins().items():
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
            self._window.script.append((what, start, time.perf_counter_ns()))

    def _keep_count(self) -> None:
        """Keep how many images the epoch has trained on, before its loss forgets."""
        if self._window is not None and self._counted is not None:
            self._images += self._count() - self._counted
            self._counted = None

    def _taken(self) -> int:
        """Return how many steps the calls of the window took: the last one of an epoch may have found fewer batches."""
        each = self.model.steps_per_execution
        epochs = itertools.pairwise(self._counts)
        fewer = ((last - first) * each - (now - done) for (first, done), (last, now) in epochs)
        return len(self._window.calls) * each - sum(some for some in fewer if 0 < some < each)

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
        self._inside = False
        self._set_up(steps, warmup, name, keep, max_events)

    def __enter__(self) -> watching:
        """Begin to count steps."""
        self._begin(f"the loop ended before step {self.warmup}, with which the window begins")
        self._images: int | None = 0
        self._inside = True
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Close the window if the loop was shorter; discard it if the loop failed."""
        self._inside = False
        if self._window is not None and kind is None and self._window.calls:
            self._close(ended=True)
        elif self._window is not None:
            self._discard("the loop failed in the window" if kind else self._why)

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
                if not self._inside:  # nobody would end the window of a loop that is short
                    raise RecordingError("`with labextras.fit.watching() as step:` does not stand around the loop")
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
                self._images += _images(batch)
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
            start = time.perf_counter_ns()
            try:
                batch = next(source)
            except StopIteration:
                return
            if self._window is not None:
                self._window.waits.append((start, time.perf_counter_ns()))
            yield batch

    @contextlib.contextmanager
    def part(self, name: str, category: str = "other") -> Iterator[None]:
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
        start = time.perf_counter_ns()
        yield
        if self._window is not None:
            self._window.parts.append((name, category, start, time.perf_counter_ns()))

    @contextlib.contextmanager
    def validation(self) -> Iterator[None]:
        """Surround a validation between two train steps, so that its time and its ops do not count as theirs."""
        start = time.perf_counter_ns()
        yield
        if self._window is not None:
            self._window.script.append((VALIDATION, start, time.perf_counter_ns()))

    def _close(self, ended: bool = False) -> None:
        with self._never_stopping():
            self._window.wait()
            self._trace = self._window.close(
                self._images or None,
                steps=self.steps,
                ended=ended,
                name=self.name,
                accelerator=Accelerator(self.name, "real", None, "a train step of the program's own"),
                warmup=self.warmup,
            )
            self._discard("")
