"""A window of steps of a training: what the profiler, the training and the clocks saw in it, and the trace of it.

Where the wait of a step began and ended, nobody says. It is read from the calls of tf.data that hand a batch on, and
from the calls that train.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from labkit.advice.rule import NO_WAITS
from labkit.common.other_programs import Meter
from labkit.recording import accelerators
from labkit.recording.processor_clock import Sampler
from labkit.recording.recorder import assemble, figures, notes, unix
from labkit.recording.tfdata.driver import EVENT_BYTES, Drive, ProfilerWindow, Session
from labkit.recording.tfdata.xplane import STEP_MARK
from labkit.timeline.run import Profile
from labkit.timeline.trace import VALIDATION, Span, Trace
from labkit.timeline.wording import PYTHON_OPS, short_op

#: A folder to which the file of the profiler is copied, if any.
Keep = str | os.PathLike[str] | None

#: What tf.data calls the call that hands a batch on to the program.
ROOT = "Iterator::Root"

#: What is said of ``model.fit`` where more batches are asked for in a call than it has steps.
ASKED_BY_OTHERS = (
    "Each step is a whole call, and no wait for a batch is shown: the queue of a device asks the dataset, too, and "
    "steps_per_execution is more than 1."
)

#: And of other calls in which nobody was seen to ask for a batch.
NOBODY_ASKED = "Each step is a whole call: the profiler saw nobody ask a pipeline for a batch."

#: The lane of a script: its epochs and its validations.
SCRIPT = "the script"


class _Unprofiled(Session):
    """Takes the place of the profiler if it is not used: only the notes of the loop itself are recorded."""

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.running, self.notes = False, notes

    def start(self) -> None:
        """Begin nothing."""

    def stop(self, keep: Keep = None) -> Trace:
        """Return an empty trace."""
        return Trace.from_spans([], origin="measured").with_run(profiler=Profile(events=0))


class _Beside(Session):
    """The profiler, and beside it a session that follows a loader (`labkit.recording.recorder.followed`).

    The pipeline of tf.data that Keras builds around a loader is in no script: only its calls for a batch are kept.
    """

    def __init__(self, profiler: Session, loader: Any, run: Drive) -> None:
        self.profiler, self.follows, self.run, self.running = profiler, loader, run, False

    def start(self) -> None:
        """Begin with both."""
        self.profiler.start()
        self.follows.start()

    def stop(self, keep: Keep = None) -> Trace:
        """End both, and return what they saw, on the Unix clock."""
        seen = self.follows.stop()
        found = self.profiler.stop(keep)
        self.notes = self.follows.notes
        keep = ~found.select(kind="pipeline") | found.select(name=ROOT)
        if not any(thread.kind == "pipeline" for thread in seen.threads):
            # What runs a generator of the reader's is a call of Python, and no function that could be wrapped.
            called = [short_op(name) in PYTHON_OPS for name in found.names]
            keep |= np.array(called, bool)[found.name]
            name = f"next of {self.follows.loader.kind}"
            found = replace(found, names=tuple(name if own else n for n, own in zip(found.names, called, strict=True)))
        mine = found.where(keep)
        seen = replace(seen, start_ns=unix(seen.start_ns, self.run.clock))
        facts = {fact: getattr(seen.run, fact) for fact in ("loader", "op_times", "dropped_spans")}
        profiler = replace(found.run.profiler, events=found.run.profiler.events + seen.run.profiler.events)
        return replace(Trace.merge(mine, seen), run=replace(found.run, profiler=profiler, **facts))

    def discard(self) -> None:
        """End both without a trace."""
        self.profiler.discard()
        self.follows.discard()


class Window:
    """An open window in a loop that is not ours.

    Parameters
    ----------
    keep, max_events
        As in `labextras.fit.Watch`.
    fit : FrameType, optional
        The frame of the training, where ``model.fit`` runs it.
    profile : bool
        Whether to use TensorFlow's profiler, where the program has imported TensorFlow.
    loader : LoaderSession, optional
        What follows the loader of the training.
    """

    def __init__(
        self, keep: Keep, max_events: int, fit: FrameType | None = None, profile: bool = True, loader: Any = None
    ) -> None:
        # Looked up once: to import them again in each step took longer than all else that is done there.
        tf = sys.modules.get("tensorflow")
        self.over = (tf.errors.OutOfRangeError, StopIteration) if tf else (StopIteration,)
        self._mark = tf.profiler.experimental.Trace if tf else lambda *_, **__: contextlib.nullcontext()
        self.fit = fit
        _sync()  # steps before the window are over when it begins
        left_alone = () if profile or loader else ("The profiler was left alone: what the pipeline did is not seen.",)
        session = Session() if profile and tf else _Unprofiled(left_alone)
        self._run = Drive()
        self._session = _Beside(session, loader, self._run) if loader else session
        # A training is long enough for few samples, and shall not be slower for being watched.
        self._sampler = loader.sampler if loader else Sampler(soon=0)
        self._window = ProfilerWindow(self._run, self._session, self._sampler, keep)
        self._most_bytes = 2 * EVENT_BYTES * max_events if profile and tf else math.inf
        # A guard ends the profile in a thread of its own, and never within a step.
        self._lock, self._inside, self._ended, self._failed = threading.Lock(), 0, False, None
        try:
            self._window.open(self._most_bytes)
            self._others = Meter()
        except BaseException:  # nobody else could end what an interrupt leaves half open
            self.discard()
            raise
        self._cpu_ns, self.full = time.process_time_ns(), False
        self.calls: list[tuple[int, int]] = []
        self.waits: list[tuple[int, int]] = []
        #: What the script noted: lane, name, category, start and end.
        self.noted: list[tuple[str, str, str, int, int]] = []

    def script(self, name: str, start: int, end: int) -> None:
        """Note an epoch or a validation; what a validation asks for is no wait for a batch."""
        self.noted.append((SCRIPT, name, "train" if name == VALIDATION else "iterator", start, end))

    def look(self) -> None:
        """Look how much memory is taken, and end the profile if it is full and no step runs.

        A validation, and what follows a loop, do not ask. Before its first step there is nothing to keep.
        """
        with self._lock:
            self.full = self.full or self._window.full
            if self.full and self.calls and not self._inside:
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
        with self._lock, contextlib.ExitStack() as last:
            last.callback(self._session.discard)  # what is free again, another recording may take at once
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
                accelerators.finish()
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
        self, images: int | None, *, each: int = 0, counts: Sequence[tuple[int, int]] = (), steps: int, ended: bool,
        batch: int | None = None, **facts: Any,
    ) -> Trace:  # fmt: skip
        """Take the profile and return the trace.

        Parameters
        ----------
        images : int or None
            Of all steps.
        each : int
            How many batches a call takes itself at most, one for each of its steps; 0 where a loop takes them, before
            the call.
        counts : sequence of (int, int)
            As for `stamps_of`.
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
        others = self._others.share()
        run.spans = run.spans.where(~whole[run.spans.name])
        calls = unix(np.array(self.calls, np.int64).ravel(), run.clock).reshape(-1, 2)
        roots, unseen, spans = run.spans.where(run.spans.select(name=ROOT)), [], []
        for lane, name, category, *ends in self.noted:
            start, end = unix(np.array(ends, np.int64), run.clock).tolist()
            spans.append(Span(lane, name, category, start, end - start, -1))
            if (lane, name) == (SCRIPT, VALIDATION):
                roots = roots.where((roots.start_ns < start) | (roots.start_ns >= end))
        if self.waits:
            stamps = timed_stamps(calls, unix(np.array(self.waits, np.int64).ravel(), run.clock).reshape(-1, 2))
        else:
            stamps, unseen = stamps_of(calls, roots, each, counts)
        timed = (stamps[:, 0] < stamps[:, 1]).any()
        if run.spans.run.loader:
            run.spans = run.spans.where(~run.spans.select(name=ROOT))
            stamps[:, 2] = _worked_until(stamps, run.spans.where(run.spans.select(kind="host")))
        if images is None and batch and ASKED_BY_OTHERS not in unseen:
            images = batch * len(stamps)
        trace = assemble(run, stamps, images)
        if not timed:
            trace = trace.where(~trace.select("wait", kind="consumer"))
        run.steps, run.window_images, run.noun = len(stamps), images or 0, facts.get("noun", run.noun)
        if spans:
            # What moves data between processes, as an all-reduce, keeps a network busy and no thread of the script.
            kinds = {span.thread: "unit" if span.category == "transfer" else "script" for span in spans}
            more = Trace.from_spans(spans, kinds, origin="measured").slice(*trace.window_ns)
            trace = replace(Trace.merge(trace, more), run=trace.run)
        why = "the training ended" if ended else "the window ended"
        if self.full and not ended:
            taken = f"the process has taken {self._most_bytes / 1e6:,.0f} MB since the window began"
            events = f"{run.spans.run.profiler.events:,} events of the profiler"
            why = f"{taken}, for {events} and for what it keeps itself, as by cache() or shuffle(): the window ended"
        short = [f"{why} after {run.steps} of {steps} steps."] if run.steps < steps else []
        note = " ".join([*short, *(self._session.notes or unseen), *notes(run, trace, None)]) or None
        profiler = replace(trace.run.profiler, note=note)
        facts["host"] = replace(trace.run.host, others=None if math.isnan(others) else others)
        if unseen:
            facts["advice"] = {NO_WAITS: f"nothing can be said, since no wait was timed. {unseen[0]}"}
        trace = trace.with_run(batch_size=images and round(images / run.steps), profiler=profiler, **facts)
        return trace if images is None else trace.with_run(repeats=(figures(trace),))


def _sync() -> None:
    """Wait until the devices of this process are done.

    Where processes train together, TensorFlow lists the devices of all, and cannot ask those of another process.
    """
    accelerators.finish()
    if not (tf := sys.modules.get("tensorflow")):
        return
    try:
        tf.test.experimental.sync_devices()
    except tf.errors.InternalError:
        for device in tf.config.list_logical_devices():
            with contextlib.suppress(tf.errors.InternalError), tf.device(device.name):
                tf.raw_ops.SyncDevice()


def stamps_of(
    calls: np.ndarray, roots: Trace, each: int, counts: Sequence[tuple[int, int]] = ()
) -> tuple[np.ndarray, list[str]]:
    """Return start of the wait, its end, and end of the train step, of each step: int64, shape (steps, 3).

    Two kinds of loops are known. In the one, the program asks for a batch before the call that trains on it, as in a
    loop of one's own; where it asks several datasets before each step, it waits for all of them. In the other one the
    call itself asks, once for each of its steps, as in ``model.fit``, or in a tf.function over an iterator. Where
    nobody asks, each call is a step without a wait; of ``model.fit`` the second value says why in a sentence.

    Parameters
    ----------
    calls : ndarray of int64, shape (calls, 2)
        Start and end of each call that trains.
    roots : Trace
        The calls that hand a batch on.
    each : int
        As for `Window.close`.
    counts : sequence of (int, int)
        Calls so far, and steps that the optimizer has taken, at the beginning, at the end of each epoch and at the end.
        In the last call of an epoch, the dataset may be asked once more than there are batches.
    """
    asked, inside, before = [], [], np.iinfo(np.int64).min
    for begin, last in calls.tolist():
        asked.append(np.flatnonzero((roots.start_ns >= before) & (roots.start_ns < begin) & (each == 0)))
        inside.append(np.flatnonzero((roots.start_ns >= begin) & (roots.start_ns < last)))
        before = last
    if each == 1:  # the queue of a device asks in a thread of its own, later or at any time
        rank = {}
        for thread in np.unique(roots.thread).tolist():
            own = roots.thread == thread
            rank[thread] = -sum(own[mine].sum() == 1 for mine in inside), roots.start_ns[own].mean()
        firsts = [min(roots.thread[mine].tolist(), key=rank.__getitem__, default=-1) for mine in inside]
        inside = [mine[roots.thread[mine] == first] for mine, first in zip(inside, firsts, strict=True)]
    for (first, done), (last, now) in itertools.pairwise(counts if each > 1 else ()):
        # Where no optimizer counts the steps, a call that asks too rarely has found the end.
        uncounted = now == done and last > first and len(inside[last - 1]) < each
        if uncounted or (now > done and sum(map(len, inside[first:last])) == now - done + 1):
            inside[last - 1] = inside[last - 1][:-1]
    unseen = []
    if each > 1 and any(len(mine) > each for mine in inside):
        inside, unseen = [mine[:0] for mine in inside], [ASKED_BY_OTHERS]
    # A loop over two datasets at once asks both before each step; one that evaluates now and then rarely asks more.
    usual = max(1, int(np.median([len(mine) for mine in asked])))
    rows: list[tuple[int, int, int]] = []
    for (begin, last), mine, own in zip(calls.tolist(), asked, inside, strict=True):
        waits = mine[-usual:]
        if len(waits):
            rows.append((int(roots.start_ns[waits].min()), int(roots.end_ns[waits].max()), last))
        elif len(own):
            ends = [*roots.start_ns[own[1:]].tolist(), last]
            rows += zip(roots.start_ns[own].tolist(), np.minimum(roots.end_ns[own], ends).tolist(), ends, strict=True)
        else:
            rows.append((begin, begin, last))
    if each and not unseen and not any(map(len, inside)):
        unseen = [NOBODY_ASKED]
    return np.array(rows, np.int64).reshape(-1, 3), unseen


def _worked_until(stamps: np.ndarray, ops: Trace) -> np.ndarray:
    """Return when the last op of each train step ended, int64, shape (steps,): behind it the step waits for Python.

    Where threads of a loader compute in Python, TensorFlow has done its work long before the call gets the interpreter
    back, and returns. Where no op was seen the end stays as it is.
    """
    ends = np.sort(ops.end_ns)
    last = np.r_[np.iinfo(np.int64).min, ends][np.searchsorted(ends, stamps[:, 2], side="right")]
    return np.where(last > stamps[:, 1], last, stamps[:, 2])


def timed_stamps(calls: np.ndarray, waits: np.ndarray) -> np.ndarray:
    """Return the same as `stamps_of` where the waits were timed: int64, shape (steps, 3).

    >>> timed_stamps(np.array([[10, 20], [50, 60], [70, 80]]), np.array([[25, 45]])).tolist()
    [[10, 10, 20], [25, 45, 60], [70, 70, 80]]
    """
    rows, before = [], np.iinfo(np.int64).min
    for begin, last in calls.tolist():
        mine = waits[(waits[:, 0] >= before) & (waits[:, 1] <= begin)]
        rows.append((*(mine[-1].tolist() if len(mine) else (begin, begin)), last))
        before = last
    return np.array(rows, np.int64).reshape(-1, 3)
