"""The time of a pipeline of known stages, simulated by `labkit.simulate.iterators`: the same on every machine.

Assumptions: all map calls share one pool of threads, which has a thread for each core unless the options give another
number. Each file of a parallel interleave has a thread of its own. AUTOTUNE takes as many calls as the pool has
threads, and a prefetch of two elements. No other thread waits for a core, unless the caller asks that stages at work
share the cores, and tf.data's own work on an element is not counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from labcourse.fairness.rules import chain
from labcourse.fairness.stages import Stage, called_in
from labkit.pipelines.structure import AUTOTUNE, Chain, Step
from labkit.simulate.clock import SLEEP, WORK
from labkit.simulate.iterators import train
from labkit.simulate.simulated_trace import SpanTable
from labkit.simulate.workers import Simulation, Work
from labkit.timeline.run import Accelerator, Host
from labkit.timeline.trace import Trace

#: Elements that a pipeline may make: one that never ends is refused, not simulated for ever.
_MOST = 100_000


@dataclass(frozen=True)
class Timing:
    """What the simulated clock says.

    Parameters
    ----------
    makespan_ms : float
        From the first request to the end of the last train step.
    idle : float
        Share, 0 to 1, of the time after the warm-up in which the accelerator had nothing to do.
    steps : int
        Elements that reached the consumer, those of the warm-up among them.
    trace : Trace
        The run, modelled.
    """

    makespan_ms: float
    idle: float
    steps: int
    trace: Trace = field(repr=False)


def as_rewritten(found: Chain, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps of a pipeline as TensorFlow runs them: with a prefetch at the end, where it may add one."""
    if found.rewritten and steps[-1].kind != "Prefetch":
        return (*steps, Step("Prefetch", {"buffer_size": AUTOTUNE}))
    return steps


def train_step(ms: float, source: str) -> Accelerator:
    """Return a modelled accelerator whose step takes so many milliseconds, because `source` says so."""
    return Accelerator("train step", "modelled", source, f"modelled train step: {ms:g} ms (source: {source})")


def simulate(
    dataset: Any,
    stages: Iterable[Stage],
    train_ms: float,
    *,
    cores: int = 4,
    records: int = 1,
    steps: int | None = None,
    warmup: int = 0,
    shared: bool = False,
) -> Timing:
    """Simulate a training job on a pipeline.

    Parameters
    ----------
    dataset : tf.data.Dataset
    stages : iterable of Stage
        What the functions of the pipeline may call.
    train_ms : float
        Length of a train step in milliseconds.
    cores : int
        Of the machine that is simulated, whatever the real one has.
    records : int
        Elements of each file of an interleave.
    steps : int, optional
        Stop after so many; by default at the end of the pipeline.
    warmup : int
        Steps before the trace and the idle time begin.
    shared : bool
        Whether stages that are not asleep share the cores, so that more threads than cores are no faster.

    Raises
    ------
    labkit.simulate.workers.Endless
        If the pipeline never ends and `steps` is None.
    ValueError
        If nothing reaches the consumer after the warm-up.
    Wrong
        If TensorFlow cannot write one of the steps down.
    """
    found = chain(dataset)
    kinds = {s.name: WORK if shared and not s.asleep else SLEEP for s in stages}
    works = {s.name: Work(kinds[s.name], [s.name], lambda images, s=s: s.cost_ms(images) * 1e6) for s in stages}

    def called(step: Step) -> list[Work]:
        return [works[each] for each in called_in(step) if each in works]

    def elements(file: int | None) -> Iterator[int]:
        return itertools.repeat(1, max(0, found.elements if file is None else records))

    def capacity(working: int) -> float:
        return min(working, cores) if shared else working

    run = Simulation(capacity, found.threads or cores, called, elements, sum, ordered=found.ordered, most=_MOST)
    train(run, as_rewritten(found, _opened(found.steps)), steps, lambda step: train_ms * 1e6)
    counted = run.taken[warmup:]
    if not counted:
        raise ValueError("not one element reaches the consumer")
    table, count, images = SpanTable(), len(counted), sum(row[0][0] for row in counted)
    table.consumer(run, warmup)
    table.work(run, list(works.values()))
    begin, end = counted[0][1], counted[-1][-1]
    accelerator = train_step(train_ms, "stated by the exercise")
    first, size = round(run.taken[0][2]), max(1, images // count)
    facts = {"batch_size": size, "steps": count, "warmup": warmup, "images": images, "first_batch_ns": first}
    sleeps = tuple(stage.name for stage in stages if stage.asleep)
    trace = table.trace((round(begin), round(end)), accelerator=accelerator, host=Host(cores), sleeps=sleeps, **facts)
    idle = 1 - count * train_ms * 1e6 / (end - begin) if end > begin else 0.0
    return Timing(end / 1e6, idle, len(run.taken), trace)


def _opened(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return steps in which each file of an interleave is its records.

    A ``TFRecordDataset`` of one path is a flat map over a single name: without it, each name would count as records.
    With ``num_parallel_reads`` it is an older node of a parallel interleave.
    """
    return tuple(replace(_parallel(step), inner=_opened(_records(step.inner))) for step in steps)


def _records(inner: tuple[Step, ...]) -> tuple[Step, ...]:
    named = [step.kind for step in inner[:2]] == ["TensorSlice", "FlatMap"]
    return (*inner[1].inner, *inner[2:]) if named else inner


def _parallel(step: Step) -> Step:
    if step.kind != "LegacyParallelInterleave":
        return step
    calls = {"num_parallel_calls": step.settings.get("cycle_length", AUTOTUNE)}
    return replace(step, kind="ParallelInterleave", settings=step.settings | calls)
