"""One drive through a pipeline, watched by TensorFlow's profiler for a window of its steps.

The same loop runs with and without the profiler, so that what recording costs can be measured. The
profiler keeps its events in memory until it stops; it therefore watches a window of at most so many
events. However the drive ends, the profiler is stopped, its files are gone and the iterator is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import psutil

from labkit.common.errors import error_text, os_sentence
from labkit.common.files import new_folder
from labkit.common.other_programs import processor_seconds
from labkit.recording import work
from labkit.recording.processor_clock import Sampler, tree
from labkit.recording.tfdata import xplane
from labkit.timeline.run import Delivered, Tree
from labkit.timeline.trace import Span, Trace

#: Events per image that are assumed where none are counted; photos have about 60, small elements about 50.
EVENTS_PER_IMAGE = 100

#: And at least so many where they are counted: a pipeline that ran ahead may idle during the step that is counted.
LEAST_EVENTS_PER_IMAGE = 25

#: Memory that the profiler takes for an event until it has written its file.
EVENT_BYTES = 650


class RecordingError(RuntimeError):
    """A recording could not be finished; the error of the pipeline or of the train step, if any, is its cause.

    Attributes
    ----------
    trace : Trace or None
        What was seen until then, of a loader that failed in its window.
    run : Drive or None
        What the drive found until then.
    """

    trace: Trace | None = None
    run: Drive | None = None


@dataclass
class Drive:
    """What one drive found. `stamps` and `clock` count ``time.perf_counter_ns``.

    Parameters
    ----------
    first_batch_ns : int
        From before ``iter()`` to the first batch in hand.
    batch_size : int
        Images in the first batch.
    steps, images, elapsed_ns, cpu_ns : int
        Of all steps after the warm-up; both times without those of writing the profile. `cpu_ns` is that of
        all threads of the process.
    ended : bool
        Whether the dataset ended before the steps that were asked for.
    work : Delivered or None
        From `labkit.recording.work.Tally`, of all steps after the warm-up.
    stamps : array of int64
        Start of the wait, its end, and end of the train step, flat, for each step of the window. A modelled step ends
        when it states, however late the consumer wakes up.
    window_images : int
    spans : Trace or None
        What the profiler saw in the window.
    one_image : bool
        Whether the first batch has the shape of a single image.
    noun : str
        What one of the things in the first batch is called, see `labkit.recording.work.noun`.
    misfit : str or None
        Where a modelled step is stated for something else.
    sampler : labkit.recording.processor_clock.Sampler
        Of the window.
    clock : list of (int, int)
        At both ends of the window: the counter, and what must be added to it for the Unix clock.
    tree : Tree
        What the process and those that it started took after the warm-up.
    """

    first_batch_ns: int = 0
    batch_size: int = 0
    steps: int = 0
    images: int = 0
    elapsed_ns: int = 0
    cpu_ns: int = 0
    ended: bool = False
    work: Delivered | None = None
    stamps: array = field(default_factory=lambda: array("q"))
    window_images: int = 0
    spans: Trace | None = None
    one_image: bool = False
    noun: str = "image"
    misfit: str | None = None
    sampler: Sampler = field(default_factory=Sampler)
    clock: list[tuple[int, int]] = field(default_factory=list)
    tree: Tree | None = None


class Interrupts:
    """Whether a KeyboardInterrupt came; calling it raises one that did."""

    came = False

    def __call__(self) -> None:
        """Raise the interrupt that came."""
        if self.came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[Interrupts]:
    """Give an object to call once per step: it raises the KeyboardInterrupt that came earlier in the block, if any.

    The end of the block raises it, too. In another thread than the main one, and where another handler of the signal
    is installed, nothing changes and the function does nothing.

    TensorFlow makes and deletes an executor for every batch. Python prints and forgets what is raised while a
    ``__del__`` runs, a KeyboardInterrupt included: about one press of the stop button in fifty had no effect on a loop
    over batches.
    """
    raise_interrupt = Interrupts()

    def handle(number: int, frame: FrameType | None) -> None:
        raise_interrupt.came = True
        signal.default_int_handler(number, frame)

    main = threading.current_thread() is threading.main_thread()
    replaced = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replaced:
        signal.signal(signal.SIGINT, handle)
    try:
        yield raise_interrupt
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_interrupt()


class Session(contextlib.AbstractContextManager):
    """A session of TensorFlow's profiler; leaving its block ends it and deletes its files.

    Attributes
    ----------
    running : bool
        Whether this session is the one that runs.
    counts : bool
        Whether events are to be counted before the window, where they might be too many.
    unix : bool
        Whether its spans are on the Unix clock.
    loader : LoaderFacts or None
        What is watched, where it is no pipeline of tf.data.
    notes : sequence of str
        What a reader of the figures must know, in sentences.
    """

    counts, unix, loader = True, True, None
    notes: Sequence[str] = ()

    def __init__(self) -> None:
        import tensorflow as tf

        self.running, self._folder, self.sampler = False, "", Sampler()
        self._profiler, self._errors = tf.profiler.experimental, tf.errors

    def __exit__(self, *_: Any) -> None:
        """Discard the session if it still runs."""
        self.discard()

    def first(self) -> None:
        """Begin and discard a session: the first one loads libraries, and fails where another session is open."""
        self.start()
        self.discard()

    def mark(self, what: str, step: int) -> Any:
        """Return a block that the profiler keeps as a mark of the consumer, by its step.

        With ``_r=1``, xprof takes the mark of a whole step for a step of its own, the wait for its batch included.
        """
        extra = {"_r": 1} if what == xplane.STEP_MARK else {}
        return self._profiler.Trace(what, step_num=step, **extra)

    def owns(self, error: BaseException) -> bool:
        """Tell whether an error is that of the pipeline, wherever it was raised."""
        return False

    def failed(self, label: str, where: str, error: BaseException) -> RecordingError:
        """Return the error of a pipeline as that of a recording."""
        return RecordingError(f"{label} failed at {where}: {error_text(error)[:300]}")

    def discard(self) -> None:
        """End the session, if it runs, without a file."""
        if self.running:
            self._end()
            self._clean()

    def start(self) -> None:
        """Start the profiler.

        Raises
        ------
        RecordingError
            If another session runs; it is left alone.
        """
        self._folder = str(new_folder("profile"))
        try:
            os.mkdir(self._folder, 0o700)
            self.running = True
            self._profiler.start(self._folder)
        except self._errors.AlreadyExistsError as error:
            self._clean()
            raise RecordingError(
                "a TensorFlow profiler session is already running in this process, and there can be only one; "
                "end it first (tf.profiler.experimental.stop(), or leave its block)"
            ) from error
        except BaseException:
            if self.running:  # the stop button is noticed when TensorFlow has begun
                self._end()
            self._clean()
            raise

    def stop(self, keep: str | os.PathLike[str] | None = None) -> Trace:
        """Stop the profiler and return what it saw.

        Parameters
        ----------
        keep : path, optional
            A folder for the file of the profiler, in which TensorBoard and xprof find it.

        Raises
        ------
        RecordingError
            If other code stopped it, or its file could not be written. A file that cannot be kept is a warning.
        """
        try:
            self._profiler.stop()
            files = list(Path(self._folder).rglob("*.xplane.pb"))
            if not files:
                raise RecordingError(f"TensorFlow's profiler left no file in {self._folder}: is the disk full?")
            if keep is not None:
                try:
                    _keep(files[0], Path(keep))
                except OSError as error:  # the recording itself is whole
                    warnings.warn(f"the file of the profiler is not kept: {os_sentence(error)}", stacklevel=2)
            return xplane.read(files[0])
        except self._errors.OpError as error:
            words = f"TensorFlow's profiler could not be stopped and saved: {error_text(error)[:300]}"
            raise RecordingError(words) from error
        except KeyboardInterrupt:  # TensorFlow keeps a session whose end was interrupted
            self._end()
            raise
        finally:
            self._clean()

    def _end(self) -> None:
        with contextlib.suppress(self._errors.UnavailableError):  # it has ended, or other code has stopped it
            self._profiler.stop(save=False)

    def _clean(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self.running = False


class ProfilerWindow:
    """A window under the profiler: its session, the clock of the processor, and the Unix clock at both ends.

    Parameters
    ----------
    run : Drive
        What the window finds is entered here.
    session : Session
    sampler : labkit.recording.processor_clock.Sampler
    keep : path, optional
        As in `Session.stop`.
    """

    def __init__(self, run: Drive, session: Any, sampler: Sampler, keep: str | os.PathLike[str] | None = None) -> None:
        self.run, self.session, self.run.sampler, self.keep = run, session, sampler, keep
        self._most_bytes, self._process = math.inf, psutil.Process()

    @property
    def full(self) -> bool:
        """Whether the process has taken more memory than `open` allowed, for the profiler or for what it keeps."""
        return self._most_bytes < math.inf and self._process.memory_info().rss > self._most_bytes

    def open(self, most_bytes: float = math.inf) -> None:
        """Start the profiler; the process may then take so many bytes. Errors as in `Session.start`."""
        self.session.start()
        self._most_bytes = self._process.memory_info().rss + most_bytes
        self.run.clock.append(_clock_offset())
        self.run.sampler.start()

    def close(self) -> None:
        """Take the profile; errors as in `Session.stop`."""
        self.run.clock.append(_clock_offset())
        self.run.sampler.stop()
        self.run.spans = self.session.stop(self.keep)


def drive(
    dataset: Any, accelerator: Any, steps: int | None, warmup: int, *, label: str = "the pipeline",
    max_events: int | None = 500_000, on_step: Callable[[int, int, int, int], Any] = lambda *_: None,
    keep: str | os.PathLike[str] | None = None, watch: Any = None,
) -> Drive:  # fmt: skip
    """Drive `dataset` into `accelerator`: the first batch, the rest of the warm-up, then the steps.

    Parameters
    ----------
    dataset : tf.data.Dataset
    accelerator : object with ``step(batch)``
        And ``prepare(batch)``, if it has one: called once, outside of every span.
    steps : int or None
        Steps after the warm-up; None for a whole epoch. What can begin again does so after the warm-up, which is then
        over with its own epoch at the latest. A loader that cannot is driven to its end.
    warmup : int
        Steps of the warm-up, the first batch included.
    label : str
        What errors call the pipeline.
    max_events : int or None
        Events that the profiler may hold; None drives without the profiler.
    on_step : callable, optional
        Called after every step after the warm-up, with its number, from 0 on, and its three stamps: see `Drive`.
    keep : path, optional
        As in `Session.stop`.
    watch : Session or labextras.loaders.session.LoaderSession, optional
        What watches in the place of the profiler of this process alone, and `dataset` is what it watches.

    Raises
    ------
    ValueError
        If the dataset is over before the first step after the warm-up, or its elements are not batches.
    RecordingError
        If the pipeline or the train step fails, or the profiler is in use.
    KeyboardInterrupt
        If it came, even where Python forgets it: see `keeping_interrupts`.
    """
    session = Session() if watch is None else watch
    with keeping_interrupts() as raise_interrupt, session, session.sampler:
        driver = _Driver(dataset, accelerator, steps, warmup, label, session, raise_interrupt, keep)
        try:
            if max_events is not None:
                session.first()
            total = known_steps(dataset, steps, warmup)
            size = driver.warm_up(total or steps, max_events)
            # The watched window ends the job where the end is known: writing the profile then disturbs no step.
            first = max(0, (total or 0) - size)
            driver.window(first, first + size, on_step)
        except Exception as error:
            if watch is None or (found := driver.failure(error)) is None:
                raise
            raise found from (error.__cause__ if found is error else error)
        finally:
            # A traceback that the caller keeps must not keep the iterator, whose threads would go on.
            driver.iterator = None
    return driver.run


def consumer(stamps: np.ndarray) -> Trace:
    """Return the waits and train steps of the consumer as a trace.

    Parameters
    ----------
    stamps : ndarray of int64, shape (steps, 3)
        See `Drive`; on the clock that the trace shall have.
    """
    spans = []
    for step, (start, taken, end) in enumerate(stamps.tolist()):
        spans.append(Span("consumer", "wait for batch", "wait", start, taken - start, step))
        spans.append(Span("consumer", "train step", "train", taken, end - taken, step))
    return Trace.from_spans(spans, {"consumer": "consumer"}, origin="measured")


def check_length(dataset: Any, steps: int | None, label: str) -> None:
    """Refuse a job to the end of a dataset that has none; `label` is what the sentence calls it.

    Raises
    ------
    ValueError
        If `steps` is None and the dataset never ends.
    """
    if steps is None and int(dataset.cardinality()) == -1:
        endless = f"{label} never ends (repeat()); allowed: a number of steps"
        raise ValueError(f"steps is None, which means to the end, and {endless}")


def known_steps(dataset: Any, steps: int | None, warmup: int) -> int | None:
    """Return how many steps follow the warm-up, or None if only running the pipeline tells."""
    elements = int(dataset.cardinality())  # -1: endless, -2: unknown
    if elements == -1:
        return steps
    if elements < 0:
        return None
    if steps is None and _begins_again(dataset):
        return elements
    left = max(0, elements - warmup)
    return left if steps is None else min(steps, left)


def _begins_again(dataset: Any) -> bool:
    """Tell whether the batches come anew with a new iterator; a loader that is no dataset says so itself."""
    return getattr(dataset, "begins_again", True)


@dataclass
class _Driver:
    """The loop, in pieces."""

    dataset: Any
    accelerator: Any
    steps: int | None
    warmup: int
    label: str
    session: Any
    raise_interrupt: Interrupts
    keep: str | os.PathLike[str] | None = None
    iterator: Any = None
    most_bytes: float = math.inf
    seen: dict[str, Any] = field(default_factory=dict)
    wait_from: int | None = None
    watched: ProfilerWindow | None = None
    run: Drive = field(default_factory=Drive)

    def __post_init__(self) -> None:
        self.stated = work.stated_size(self.dataset)
        self.is_modelled = getattr(self.accelerator, "kind", None) == "modelled"
        self.whole_epoch = self.steps is None and _begins_again(self.dataset)

    def take(self, where: str) -> Any:
        """Return the next batch, or None at the end of the dataset."""
        self.raise_interrupt()
        try:
            if self.iterator is None:
                self.iterator = iter(self.dataset)
            return next(self.iterator, None)
        except Exception as error:
            raise self.session.failed(self.label, where, error) from error
        except KeyboardInterrupt:
            if (stopped := getattr(self.session, "stopped", None)) is None:
                raise
            self.raise_interrupt.came = False  # the reader did not send it
            raise RecordingError(f"{self.label} stopped at {where}: {stopped}") from None

    def step(self, batch: Any) -> None:
        """Train on a batch; a model is told how many elements the loader states."""
        if self.stated is not None and self.is_modelled:
            self.accelerator.step(batch, work.count_images(batch, self.stated))
        else:
            self.accelerator.step(batch)

    def train(self, does: Callable[[Any], Any], batch: Any, where: str) -> None:
        try:
            does(batch)
        except Exception as error:
            if self.session.owns(error):
                raise
            name = getattr(self.accelerator, "name", type(self.accelerator).__name__)
            words = f"the train step of {name} failed at {where} of {self.label}: {error_text(error)[:300]}"
            raise RecordingError(words) from error

    def warm_up(self, steps: int | None, max_events: int | None) -> int:
        """Run the first batch and the rest of the warm-up; return how many steps can be watched.

        The events of a step are counted only where `steps` of them could be too many. Counting holds the loop up, the
        pipeline meanwhile fills its buffers, and a short window would seem faster than it is.
        """
        start = time.perf_counter_ns()
        batch = self.take("its first batch")
        self.run.first_batch_ns = time.perf_counter_ns() - start
        if batch is None:
            raise ValueError(f"{self.label} is empty: it ended before its first batch")
        try:
            self.run.batch_size = work.count_images(batch, self.stated)
            self.run.one_image = work.check_batched(batch, self.stated, self.dataset)
            self.run.noun = "element" if self.run.one_image else work.noun(batch, self.dataset)
            if self.is_modelled:
                self.run.misfit = self.accelerator.misfit(batch, self.run.noun, self.run.batch_size)
            self.seen = {
                "padded": work.padded_share(self.dataset, batch),
                "element": work.element(batch, self.run.batch_size),
                "pixels": work.sample(batch),
                **work.settings(self.dataset),
            }
        except ValueError as error:
            raise ValueError(f"{self.label} does not deliver batches: {error}") from error
        if hasattr(self.accelerator, "prepare"):
            self.train(self.accelerator.prepare, batch, "the first batch")
        per_step, watched = self.run.batch_size * EVENTS_PER_IMAGE, max_events is not None
        count = watched and self.session.counts and (steps is None or steps * per_step > max_events)
        # Unless they are counted, a pipeline of very many events shows only in the memory they take.
        self.most_bytes = 2 * EVENT_BYTES * max_events if watched else 0
        for number in range(1, self.warmup):
            # From one batch in hand to the next, the pipeline makes one: the last such period is counted.
            if count and number == self.warmup - 1:
                self.session.start()
            self.train(self.step, batch, f"warm-up step {number - 1}")
            batch = self.take(f"warm-up step {number}")
            if batch is None:
                if not self.whole_epoch:
                    raise ValueError(self.too_short(number))
                self.session.discard()
                break
            if self.session.running:
                counted, self.most_bytes = self.session.stop().run.profiler.events, math.inf
                per_step = max(counted, self.run.batch_size * LEAST_EVENTS_PER_IMAGE)
        if batch is not None:
            self.train(self.step, batch, f"warm-up step {self.warmup - 1}")
        if self.whole_epoch:
            self.iterator = None
        if watched and not self.session.counts:
            return sys.maxsize
        return max(1, max_events // max(1, per_step)) if watched else 0

    def window(self, first: int, last: int, on_step: Callable[[int, int, int, int], Any]) -> None:
        """Run all steps after the warm-up; those from `first` to before `last` are watched."""
        steps, run, mark, tally = self.steps, self.run, self.session.mark, work.Tally(self.dataset, self.stated)
        self.watched = watched = ProfilerWindow(run, self.session, self.session.sampler, self.keep)
        clock, cpu = time.perf_counter_ns, time.process_time_ns
        number = 0
        lost = pause = (0, 0)
        before = processor_seconds()
        begin = end = clock(), cpu()
        while number != steps:
            if number == first < last:
                watched.open(self.most_bytes)
            where = f"step {number}" + ("" if steps is None else f" of {steps}")
            with mark(xplane.STEP_MARK, number - first):
                self.wait_from = start = clock()
                with mark(xplane.WAIT_MARK, number - first):
                    batch = self.take(where)
                if batch is None:
                    break
                taken = clock()
                with mark(xplane.TRAIN_MARK, number - first):
                    self.train(self.step, batch, where)
            end = clock(), cpu()
            lost = lost[0] + pause[0], lost[1] + pause[1]  # only a pause that a step follows is within begin and end
            images = tally.add(batch)
            trained = min(end[0], taken + self.stated_ns(batch, images))
            run.images += images
            number += 1
            pause = (0, 0)
            if self.session.running:
                run.stamps.extend((start, taken, trained))
                run.steps, self.wait_from = number, None
                run.window_images += images
                if number == last or watched.full:
                    run.tree = tree(before)
                    pause = self.finish(watched)
                    before = processor_seconds() - run.tree.cpu_s
            on_step(number - 1, start, taken, trained)
        run.steps, run.ended = number, number != steps and steps is not None
        run.work = replace(tally.work(), to_the_end=steps is None, **self.seen)
        if number == 0:
            raise ValueError(self.too_short(self.warmup))
        run.tree = run.tree or tree(before)
        if any(lost):  # steps followed the window
            run.tree = replace(run.tree, cpu_s=processor_seconds() - before)
        if self.session.running:
            self.finish(watched)
        run.elapsed_ns, run.cpu_ns = (end[i] - begin[i] - lost[i] for i in (0, 1))

    def failure(self, error: Exception) -> RecordingError | None:
        """Return an error of another loader as that of a recording, with what was seen until then; None for others.

        PyTorch raises the end of a worker wherever its consumer is.
        """
        found = error if isinstance(error, RecordingError) else None
        if found is None and self.session.owns(error):
            found = self.session.failed(self.label, f"step {self.run.steps}", error)
        if found is not None and self.session.running and self.run.steps:
            now = time.perf_counter_ns()
            if self.wait_from is not None:  # the last wait has no step
                self.run.stamps.extend((self.wait_from, now, now))
            self.finish(self.watched)
            found.run = self.run
        return found

    def stated_ns(self, batch: Any, images: int) -> float:
        """Return how long a modelled step on a batch of so many images lasts, without end for a real one.

        Where other programs hold the cores, the consumer wakes up late. A model is not busy meanwhile.
        """
        if not self.is_modelled:
            return math.inf
        return self.accelerator.step_ns(self.accelerator.size(batch, images))

    def finish(self, watched: ProfilerWindow) -> tuple[int, int]:
        """Take the profile; return how long that held the loop up, and its CPU time, in ns."""
        start = time.perf_counter_ns(), time.process_time_ns()
        watched.close()
        return time.perf_counter_ns() - start[0], time.process_time_ns() - start[1]

    def too_short(self, batches: int) -> str:
        if self.whole_epoch:
            return f"{self.label} is empty when it is iterated anew, as a whole epoch is after the warm-up"
        ended = f"{self.label} ended after {batches} {'batch' if batches == 1 else 'batches'}"
        return f"{ended}; a recording needs more than the {self.warmup} of its warm-up"


def check_keep(keep: Any) -> None:
    """Refuse what cannot be the folder for the file of the profiler, before the job that shall be recorded.

    Raises
    ------
    TypeError
        If it is no path, and not None.
    ValueError
        If it is no folder that can be written.
    """
    if keep is None:
        return
    if not isinstance(keep, (str, os.PathLike)):
        raise TypeError(f"keep is {keep!r}; allowed: a folder, or None")
    try:
        _aside(Path(keep)).rmdir()
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise ValueError(f"keep is {str(keep)!r}; allowed: a folder that can be written ({why})") from error


def _aside(folder: Path) -> Path:
    """Return a new folder beside those in which TensorBoard and xprof look for profiles."""
    parent = folder / "plugins" / "profile"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=".part-", dir=parent))


def _keep(file: Path, folder: Path) -> None:
    """Copy the file of the profiler to where TensorBoard and xprof look for it, in a folder of its own.

    Both keep what they have computed per folder: two files in one folder would give one answer.
    """
    aside = _aside(folder)
    try:
        aside.chmod(0o755)
        shutil.copy(file, aside / file.name)
        names = (aside.with_name(f"{file.parent.name}_{number}") for number in itertools.count(1))
        aside.rename(next(place for place in names if not place.exists()))
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _clock_offset() -> tuple[int, int]:
    """Return the counter, and what to add to it for the Unix clock, from the closest pair of five."""
    pairs = []
    for _ in range(5):
        before, unix, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        pairs.append((after - before, before, unix - (before + after) // 2))
    return min(pairs)[1:]
