"""Recording: drive a pipeline through a warm-up and a window of steps under TensorFlow's profiler.

The pipeline runs as it is: the profiler sees every op and every tf.data node from outside.
The profiler keeps all its events in memory until it stops. So it records only a window of
`max_events`, however long the job is. In every case it is stopped, and its files are removed.
"""

from __future__ import annotations

import itertools
import math
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labkit.common import hooks
from labkit.common.environment import POOL, cores
from labkit.common.numbers import whole
from labkit.common.other_programs import Meter
from labkit.common.progress import fast, optional_bar
from labkit.pipelines.op_sizes import made
from labkit.pipelines.options import changed
from labkit.pipelines.structure import is_dataset, written
from labkit.recording.accelerators import check_accelerator, modelled
from labkit.recording.tfdata.driver import (
    Drive,
    RecordingError,
    Session,
    check_keep,
    check_length,
    consumer,
    drive,
    known_steps,
)
from labkit.timeline.intervals import union
from labkit.timeline.run import Accelerator, Host, Measure, ProcessorTime, Profile, ThreadTime, Totals
from labkit.timeline.trace import VALIDATION, Trace
from labkit.timeline.wording import MODELLED, short_op

__all__ = ["RecordingError", "graph", "record"]

#: Rounds of a comparison, and steps of its warm-ups, where LABKIT_FAST is set.
FAST_ROUNDS = FAST_WARMUP = 1

#: Recording is said to distort a pipeline where each of `PAIRS` pairs of short runs, with the profiler and without,
#: says that it adds more than this share to the processor time of an image, and this share of the window.
DISTORTS, NOTICED, PAIRS = 0.10, 0.02, 3

#: No pair is driven where the events would add less even if each took so many ns. On two-core machines it was 0.2 to 2
#: µs, by kind and pipeline (`benchmarks/recording_overhead.py`): too unlike for a verdict without a pair.
MOST_EVENT_NS = 4_000

#: How long a run of a pair lasts, after its warm-up. Seconds.
PAIR_S = 0.2


def record(
    dataset: Any, accelerator: Any, *, steps: int | None = 20, warmup: int = 2, name: str | None = None,
    max_events: int = 500_000, keep: str | os.PathLike[str] | None = None, progress: bool | None = None,
) -> Trace:  # fmt: skip
    """Drive `dataset` into `accelerator` under the profiler and return what happened.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Of batches; or what brings a session of its own, as `labextras.loaders.session.AnyLoader` and a dataset
        of a cluster do.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    steps : int or None
        Steps of the window; None for a whole epoch of a finite dataset: it is begun anew after the warm-up, and the
        start of the epoch is part of the window.
    warmup : int
        Steps before the window, the first batch included; before a whole epoch at most all of an epoch, and only more
        than it has fill a cache. Where the job might have more than `max_events`, the last one is profiled to count
        them, if it is not the first batch.
    name : str, optional
        What views call the pipeline.
    max_events : int
        Events that the profiler may hold, about 0.65 kB each. A job with more is driven
        to its end, but the window covers its last steps only (its first where their
        number is not known), and the text and the picture of its timeline say so.
    keep : path, optional
        A folder to which the file of the profiler is copied as well, where TensorBoard and xprof find it.
    progress : bool, optional
        A progress bar: True, False, or by default one that shows up when it takes long.

    Returns
    -------
    Trace
        Spans of the window. Its `run` says what was recorded: see `labkit.timeline.run.Run`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it must be, or the dataset never ends and `steps` is None, or it is
        over before the window.
    RecordingError
        If the pipeline or the train step fails, or a profiler is running already.
    """
    plan = Plan(accelerator, steps, warmup, max_events, progress, keep)
    plan.check(dataset, name)
    return plan.rounds({name: dataset}, [1], name or "recording")[name][0]


def graph(dataset: Any) -> list[str]:
    """Return the paths of the tf.data nodes that really run, after TensorFlow's rewriting.

    It takes a batch and two more, without a train step. By default the graph of a plain ``map`` and ``batch``
    holds ``Root::MapAndBatch``, an asynchronous node that is in no source code.
    """
    plan = Plan(modelled(step_ms=1e-6), 2, 1, distortions={None: None})  # its times are of no interest
    plan.check(dataset, None)
    return list(plan.trace(dataset, None, lambda: None).run.graph)


@dataclass
class Plan:
    """What the recordings of one call have in common."""

    accelerator: Any
    steps: int | None
    warmup: int
    max_events: int = 500_000
    progress: bool | None = None
    keep: str | os.PathLike[str] | None = None
    #: By the name of the pipeline: what pairs have shown.
    distortions: dict[str | None, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_accelerator(self.accelerator)
        if self.steps is not None:
            self.steps = whole("steps", self.steps, least=1, other="(or None for all of a finite dataset)")
        self.warmup = whole("warmup", self.warmup, least=1)
        self.max_events = whole("max_events", self.max_events, least=1)
        check_keep(self.keep)

    def check(self, dataset: Any, name: str | None) -> None:
        """Raise if a pipeline cannot be recorded."""
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {name!r}; allowed: a text, or None")
        if is_dataset(dataset):
            check_length(dataset, self.steps, _label(name))
        elif hasattr(dataset, "watched"):
            dataset.check(self.steps, _label(name))
        else:
            raise TypeError(f"{_label(name)} is a {type(dataset).__name__}; allowed: a tf.data.Dataset")

    def rounds(
        self,
        variants: Mapping[Any, Any],
        looks: Sequence[int],
        title: str,
        one: Callable[..., Trace] | None = None,
        decided: Callable[[dict[Any, list[Trace]]], bool] = lambda traces: False,
    ) -> dict[Any, list[Trace]]:
        """Run each pipeline once in every round, starting with another one each time; return the traces by name.

        It ends after as many rounds as the first of `looks` says where all verdicts are `decided` by then, else after
        the next, and so on. `one` is what makes a trace: `trace` by default, or `timed`.
        """
        one = one or self.trace
        names, traces, watch = list(variants), {name: [] for name in variants}, Meter()
        known = [known_steps(self.source(d)[0], self.steps, self.warmup) or self.steps for d in variants.values()]

        def so_far() -> dict[Any, list[Trace]]:
            share = watch.share()
            others = None if math.isnan(share) else share
            return {n: [t.with_run(host=replace(t.run.host, others=others)) for t in ts] for n, ts in traces.items()}

        for done, look in itertools.pairwise([0, *looks]):
            if done and decided(so_far()):
                break
            more = f"{title}: {look - done} more rounds, a verdict is open" if done else title
            with optional_bar(self.progress, None if None in known else sum(known) * (look - done), more) as tick:
                for number in range(done, look):
                    first = number % len(names)
                    for name in names[first:] + names[:first]:
                        traces[name].append(one(variants[name], name, tick))
        return so_far()

    def source(self, dataset: Any, spans: bool = True) -> tuple[Any, Any]:
        """Return what is driven, and what watches it where that is not the profiler of this process alone."""
        return (dataset, None) if is_dataset(dataset) else dataset.watched(self.steps, self.warmup, spans)

    def facts(self, run: Drive, name: str | None) -> dict[str, Any]:
        """Return what each trace of a drive says, with the profiler or without."""
        one = self.accelerator
        return {
            "name": name,
            "accelerator": Accelerator(one.name, one.kind, one.source, one.describe()),
            "warmup": self.warmup,
            **{fact: getattr(run, fact) for fact in ("batch_size", "first_batch_ns", "work", "noun", "tree")},
        }

    def timed(self, dataset: Any, name: str | None, tick: Callable[[], Any]) -> Trace:
        """Time one repeat without the profiler: a trace of the consumer alone."""
        stamps: list[tuple[int, ...]] = []

        def see(_: int, *step: int) -> None:
            stamps.append(step)
            tick()

        source, watch = self.source(dataset, spans=False)
        run = drive(
            source, self.accelerator, self.steps, self.warmup,
            label=_label(name), max_events=None, on_step=see, watch=watch,
        )  # fmt: skip
        return consumer(np.array(stamps, np.int64)).with_run(
            **self.facts(run, name),
            steps=run.steps,
            images=run.images,
            window_ns=(stamps[0][0], stamps[-1][2]),
            loader=None if watch is None else watch.loader,
            profiler=Profile(note=" ".join(_ended(run, self.steps)) or None),
        )

    def trace(self, dataset: Any, name: str | None, tick: Callable[[], Any]) -> Trace:
        """Record one repeat."""
        source, watch = self.source(dataset)
        try:
            run = drive(
                source, self.accelerator, self.steps, self.warmup,
                label=_label(name), max_events=self.max_events, on_step=lambda *_: tick(), keep=self.keep, watch=watch,
            )  # fmt: skip
        except RecordingError as error:
            if error.run is not None:
                error.trace = self.finished(error.run, dataset, name, watch)
            raise
        if run.spans is None:
            raise RecordingError(f"{_label(name)} ended after {run.steps} steps, before those that were to be recorded")
        trace = self.finished(run, dataset, name, watch)
        if watch is not None:
            trace = trace.with_run(advice=watch.advice(trace))
        elif (shown := self.distortion(dataset, name, run, trace)) is not None:
            trace = trace.with_run(profiler=replace(trace.run.profiler, distortion=shown))
        return trace.with_run(repeats=(figures(trace),))

    def distortion(self, dataset: Any, name: str | None, run: Drive, trace: Trace) -> float | None:
        """Return by which share an image takes more processor time under the profiler, where it distorts the pipeline.

        Only pairs of short runs tell, with the profiler and without, in turn. They begin the pipeline anew, once for
        each name and only where the events might cost so much. A modelled train step stands in for that of the job.
        """
        most_ns, cpu_ns = MOST_EVENT_NS * trace.run.profiler.events, run.cpu_ns * trace.run.steps / run.steps
        if name not in self.distortions and most_ns > max(DISTORTS * cpu_ns, NOTICED * trace.span_ns):
            self.distortions[name] = self.paired(dataset, trace)
        return self.distortions.get(name)

    def paired(self, dataset: Any, trace: Trace) -> float | None:
        """Return the median of what pairs say that the profiler adds; None where one of them says too little."""
        one, shares = figures(trace), []
        steps = math.ceil(max(2, 1e3 * PAIR_S / one.step_ms))
        train, noticed_ns = modelled(step_ms=max(one.train_ms, 1e-6)), NOTICED * 1e9 / one.images_per_s
        try:
            for number in range(rounds_of(PAIRS)):
                spent = {}
                for watched in (number % 2 == 0, number % 2 == 1):
                    spent[watched] = cpu_ns_per_image(dataset, train, steps, min(self.warmup, 2), watched)
                extra_ns = spent[True] - spent[False]
                if extra_ns <= max(DISTORTS * spent[False], noticed_ns):
                    return None
                shares.append(extra_ns / spent[False])
        except (ValueError, RecordingError):  # it cannot be begun anew
            return None
        return float(np.median(shares))

    def finished(self, run: Drive, dataset: Any, name: str | None, watch: Any) -> Trace:
        """Return what a drive found as a trace."""
        stamps = unix(np.array(run.stamps, np.int64), run.clock).reshape(-1, 3)
        if watch is not None and not watch.unix:
            run.spans = replace(run.spans, start_ns=unix(run.spans.start_ns, run.clock))
        trace = assemble(run, stamps, run.window_images)
        trace = trace.slice(*trace.window_ns)
        sentences = [*notes(run, trace, self.steps), *(watch.notes if watch is not None else ())]
        return trace.with_run(
            **self.facts(run, name),
            options=changed(dataset) if watch is None else {},
            written=written(dataset) if watch is None else (),
            made=made(dataset, trace.names, trace.run.profiler.allocated_bytes) if watch is None else {},
            job=Totals(run.steps, run.images, run.elapsed_ns / 1e9),
            profiler=replace(trace.run.profiler, note=" ".join(sentences) or None),
        )


def cpu_ns_per_image(dataset: Any, accelerator: Any, steps: int, warmup: int, watched: bool) -> float:
    """Return the processor time that an image takes in a short run, in ns, with the profiler on (`watched`) or off."""
    with Session() as session:
        if watched:
            session.start()
        run = drive(dataset, accelerator, steps, warmup, max_events=None)
    return run.cpu_ns / run.images


def recordable(dataset: Any) -> Any:
    """Return what a recording drives: a dataset of tf.data, or what knows how to be ``watched``, as it is.

    Anything else becomes what the first driver of the group ``labkit_drivers`` makes of it that returns not None. What
    nobody knows is returned as it is, and refused where it is recorded.
    """
    if is_dataset(dataset) or hasattr(dataset, "watched"):
        return dataset
    for driver in hooks.provided("labkit_drivers"):
        if (driven := driver(dataset)) is not None:
            return driven
    return dataset


def followed(loader: Any) -> Any:
    """Return a session that sees what a loader does while a loop of somebody else drives it; None where none can.

    Its block stands around the loop, ``start`` and ``stop`` around a window of it, ``beginning`` around ``iter()`` of
    the loader, and ``taking`` around each ``next()``.
    """
    return getattr(recordable(loader), "followed", lambda: None)()


def figures(trace: Trace) -> Measure:
    """Return the figures of a trace, the first batch left out, and the time of validations.

    Busy is the share of the window in which device kernels ran where the accelerator is real and the
    trace has device threads, else the share covered by train steps. If the window holds the first
    batch (``warmup`` of the run is 0), the figures start at the end of its train step; with one step there is
    nothing else to measure, so the whole window counts.

    Raises
    ------
    ValueError
        If the trace has no train step, or does not say how many images it trained on.
    """
    wait, train = (trace.where(trace.select(category, kind="consumer")) for category in ("wait", "train"))
    if not len(train):
        raise ValueError("the trace holds no train step, so there is nothing to measure")
    run, steps = trace.run, len(train)
    images = run.images_of(steps)
    if images is None:
        raise ValueError("the trace does not say how many elements it trained on: run.images is None")
    start, end = trace.window_ns
    if run.warmup == 0 and steps > 1:
        start = int(train.end_ns[0])
        images -= run.batch_size or images // steps
        steps -= 1
        wait, train = wait.where(wait.end_ns > start), train.where(train.start_ns >= start)
    if end <= start:
        raise ValueError(f"the window of the trace is empty: {start} to {end} ns")
    kernels = trace.where(trace.select("kernel", kind="device"))
    real = len(kernels) and run.accelerator.kind == "real"
    beside = trace.where(trace.select("train", kind="script"))  # a validation
    work = kernels if real else Trace.merge(train, beside) if len(beside) else train
    aside = trace.where(trace.select(name=VALIDATION, kind="script"))
    aside_ns = union(np.clip(aside.start_ns, start, end), np.clip(aside.end_ns, start, end)).total_ns
    seconds, first_ns = (end - start - aside_ns) / 1e9, run.first_batch_ns
    of_all = run.job.images if run.job else run.images
    cpu_ms = 1e3 * run.tree.cpu_s / of_all if run.tree and of_all else None
    return Measure(
        images=images,
        steps=steps,
        seconds=seconds,
        images_per_s=images / seconds,
        step_ms=1e3 * seconds / steps,
        wait_ms=wait.duration_ns.sum() / 1e6 / steps,
        longest_wait_ms=wait.duration_ns.max(initial=0) / 1e6,
        train_ms=train.duration_ns.sum() / 1e6 / steps,
        busy=union(np.clip(work.start_ns, start, end), np.clip(work.end_ns, start, end)).total_ns / (end - start),
        first_batch_ms=None if first_ns is None else first_ns / 1e6,
        cpu_ms_per_image=cpu_ms,
        memory_mb=run.tree.memory_mb if run.tree else None,
    )


def middle(rounds: Sequence[Measure]) -> int:
    """Return the position of the round with the median throughput."""
    return sorted(range(len(rounds)), key=lambda i: rounds[i].images_per_s)[len(rounds) // 2]


def assemble(run: Drive, stamps: np.ndarray, images: int | None) -> Trace:
    """Return a watched window as a trace, with the facts about its run that come from the window.

    Spans that the profiler recorded just before and after the window are included.

    Parameters
    ----------
    run : Drive
        With the spans of the profiler, both ends of the clock, and the samples of the processor.
    stamps : ndarray of int64, shape (steps, 3)
        Start of the wait, its end, and end of the train step, on the Unix clock in nanoseconds.
    images : int or None
        Images of these steps.
    """
    sampled = np.array(run.sampler.samples, np.int64).reshape(-1, 2)
    window = int(stamps[0, 0]), int(stamps[-1, 2])
    watched = run.spans.where(~run.spans.select(kind="consumer"))
    trace = Trace.merge(consumer(stamps), watched)
    used = {trace.names[i] for i in np.unique(trace.name).tolist()}
    profiler = run.spans.run.profiler
    return trace.with_run(
        storage="modelled" if any(short_op(name) == MODELLED for name in used) else None,
        steps=len(stamps),
        images=images,
        window_ns=window,
        graph=tuple(sorted(n.removeprefix("Iterator::") for n in used if n.startswith("Iterator::"))),
        node_names=run.spans.run.node_names,
        processor=ProcessorTime(
            tuple(unix(sampled[:, 0], run.clock).tolist()),
            tuple(sampled[:, 1].tolist()),
            run.sampler.queued_ns,
            tuple(ThreadTime(*times) for times in run.sampler.threads),
            run.sampler.consumer_ns,
            run.sampler.converting,
        ),
        profiler=replace(
            profiler,
            events_per_image=round(profiler.events / images, 1) if images else None,
            profiled_steps=len(stamps),
        ),
        host=Host(cores(), getattr(sys.modules.get("tensorflow"), "__version__", None), platform.python_version()),
        loader=run.spans.run.loader,
        op_times=run.spans.run.op_times,
    )


def _label(name: str | None) -> str:
    """Return what errors call a pipeline."""
    return "the pipeline" if name is None else f"pipeline {name!r}"


def unix(stamps: np.ndarray, clock: list[tuple[int, int]]) -> np.ndarray:
    """Move stamps of ``perf_counter_ns`` to the Unix clock, which may be slewed meanwhile: in between, by a line."""
    (start, offset), (end, last_offset) = clock
    return stamps + offset + (last_offset - offset) * (stamps - start) // max(1, end - start)


def _ended(run: Drive, steps: int | None) -> list[str]:
    """Return a sentence where the dataset ended before the steps that were asked for, or fits no train step."""
    ended = f"the dataset ended after {run.steps} of {steps} steps." if run.ended else None
    return [sentence for sentence in (run.misfit, ended) if sentence]


def notes(run: Drive, trace: Trace, steps: int | None) -> Iterator[str]:
    """Yield a sentence for everything that a reader of the figures has to know."""
    yield from _ended(run, steps)
    if run.one_image:
        yield (
            f"each element has the shape of one image, and was counted as a batch of {run.batch_size}: "
            "is .batch() missing?"
        )
    if trace.run.loader is None and trace.run.host.tensorflow and not os.environ.get(POOL):
        yield (
            "TensorFlow's own pool for tensors is off, and recording large batches may cost a tenth of their "
            "throughput: call labkit.setup() before TensorFlow's first operation."
        )


def rounds_of(repeats: Any, name: str = "repeats") -> int:
    """Return the rounds to measure: where LABKIT_FAST is set, as few as run every line; errors call them `name`."""
    asked = whole(name, repeats, least=1)
    return min(asked, FAST_ROUNDS) if fast() else asked
