"""The time of a pipeline of known stages, simulated by `labkit.simulate.iterators`: the same on every machine.

Assumptions: all map calls share one pool of threads, which has a thread for each core unless the options give another
number. Each file of a parallel interleave has a thread of its own. AUTOTUNE takes as many calls as the pool has
threads, and a prefetch of two elements. No other thread waits for a core, and tf.data's own work on an element is not
counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from labcourse.fairness.rules import chain
from labcourse.fairness.stages import Stage, called_in
from labkit.pipelines.structure import AUTOTUNE, Step
from labkit.simulate.clock import SLEEP
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
        Share of it, 0 to 1, in which the accelerator had nothing to do.
    steps : int
        Elements that reached the consumer.
    trace : Trace
        The run, modelled.
    """

    makespan_ms: float
    idle: float
    steps: int
    trace: Trace

    def __repr__(self) -> str:
        """Return the figures on one line."""
        return f"simulated: {self.steps} steps in {self.makespan_ms:.1f} ms, accelerator idle {self.idle:.0%}"


def simulate(
    dataset: Any,
    stages: Iterable[Stage],
    train_ms: float,
    *,
    cores: int = 4,
    records: int = 1,
    steps: int | None = None,
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

    Raises
    ------
    labkit.simulate.workers.Endless
        If the pipeline never ends and `steps` is None.
    ValueError
        If nothing reaches the consumer.
    Wrong
        If TensorFlow cannot write one of the steps down.
    """
    found = chain(dataset)
    works = {s.name: Work(SLEEP, [s.name], lambda images, s=s: s.cost_ms(images) * 1e6) for s in stages}

    def called(step: Step) -> list[Work]:
        return [works[each] for each in called_in(step) if each in works]

    def elements(file: int | None) -> Iterator[int]:
        return itertools.repeat(1, max(0, found.elements if file is None else records))

    run = Simulation(float, found.threads or cores, called, elements, sum, ordered=found.ordered, most=_MOST)
    chained = found.steps
    if found.rewritten and chained[-1].kind != "Prefetch":
        chained = (*chained, Step("Prefetch", {"buffer_size": AUTOTUNE}))
    train(run, chained, steps, lambda step: train_ms * 1e6)
    if not run.taken:
        raise ValueError("not one element reaches the consumer")
    table, count, images = SpanTable(), len(run.taken), sum(row[0][0] for row in run.taken)
    table.consumer(run)
    table.work(run, list(works.values()))
    end = run.taken[-1][-1]
    source = "stated by the exercise"
    described = f"modelled train step: {train_ms:g} ms (source: {source})"
    accelerator = Accelerator(name="train step", kind="modelled", source=source, describe=described)
    first, size = round(run.taken[0][2]), max(1, images // count)
    facts = {"batch_size": size, "steps": count, "warmup": 0, "images": images, "first_batch_ns": first}
    sleeps = tuple(stage.name for stage in stages if stage.asleep)
    trace = table.trace((0, round(end)), accelerator=accelerator, host=Host(cores), sleeps=sleeps, **facts)
    return Timing(end / 1e6, 1 - count * train_ms * 1e6 / end if end else 0.0, count, trace)
