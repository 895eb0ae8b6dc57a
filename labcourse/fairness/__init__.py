"""Fair grading of pipelines: data first, then a simulated clock, and a measurement last, never in seconds.

    read, decode = fairness.Stage("read", 8, asleep=True), fairness.Stage("decode", 4, lambda x: x * 10)
    task = fairness.Task(
        stages=(read, decode),
        slow=lambda: numbers().map(read).map(decode).batch(4),
        good=lambda: numbers().map(lambda x: decode(read(x)), num_parallel_calls=8).batch(4).prefetch(2),
        train_ms=10,
    )
    fairness.grade(lambda: student(numbers(), read, decode), task)

Each layer runs only if the layer before it found nothing wrong. A pipeline that loses an element is never measured,
and a pipeline that cannot be fast is never measured. The results of the first two layers are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labcourse.fairness import benchmark, rules
from labcourse.fairness.benchmark import Benchmark
from labcourse.fairness.stages import Stage, at_once
from labcourse.fairness.timing import Timing, simulate
from labcourse.grading import Unclear, Wrong
from labkit.common.environment import cores as machine_cores
from labkit.common.numbers import check_ranges, number, ranged, whole
from labkit.simulate.workers import Endless

__all__ = ["Benchmark", "Stage", "Task", "Timing", "at_once", "grade", "simulate"]

#: A simulated gain below this is not worth a measurement: noise would decide.
LEAST_GAIN = 1.7

_UNREAD = "labkit cannot read this pipeline: write it as one chain of steps that the notebooks use"


@dataclass(frozen=True)
class Task:
    """What a pipeline must deliver, and how fast.

    Parameters
    ----------
    stages : tuple of Stage
        What the student's pipeline gets to call. Each must appear in it. For a measurement they should take about
        10 ms or more: threads of a busy machine wake up late by a few.
    slow : callable
        Returns the dataset to be sped up: it says which elements are right. The lab's own, never the student's.
    good : callable
        Returns the lab's own answer: it says what can be gained.
    train_ms : float
        Length of a train step in milliseconds.
    ordered : bool
        Whether the elements must come in the order of `slow`, every time.
    cores : int
        Of the simulated machine.
    records : int
        Elements of each file of an interleave.
    slack : float
        How much longer than `good` a pipeline may take on the simulated clock, as a share.
    most_buffered : int
        Elements that the buffers of shuffle and prefetch may hold together, counted in what they hold.
    measured : bool
        Whether the third layer is asked at all.
    hints : dict of str to str
        Sentences for what goes wrong, in place of the usual ones: by ``"slow"``, ``"measured"``, or by the name of a
        stage that is never called.

    Raises
    ------
    ValueError
        If a figure is out of range.
    """

    stages: tuple[Stage, ...]
    slow: Callable[[], Any]
    good: Callable[[], Any]
    train_ms: float = ranged(number, 0, 60_000)
    ordered: bool = True
    cores: int = ranged(whole, 1, 4096, 4)
    records: int = ranged(whole, 1, 10**6, 1)
    slack: float = ranged(number, 0, 10, 0.1)
    most_buffered: int = ranged(whole, 0, 10**9, 64)
    measured: bool = True
    hints: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the figures."""
        check_ranges(self)

    def timing(self, dataset: Any, *, cores: int | None = None) -> Timing:
        """Return what the simulated clock says about a dataset; see `simulate`."""
        return simulate(dataset, self.stages, self.train_ms, cores=cores or self.cores, records=self.records)


def grade(function: Callable[[], Any], task: Task) -> Benchmark | None:
    """Grade the pipeline that `function` returns.

    Parameters
    ----------
    function : callable
        Without arguments; returns the student's dataset. It is called once, and once more for a measurement.
    task : Task

    Returns
    -------
    Benchmark or None
        If it is right and fast: the measurement, or None where the task asks for none or this machine has too few cores
        to gain much.

    Raises
    ------
    labcourse.grading.Wrong
        With the hint that fits: a wrong element, a buffer without bounds, a pipeline that cannot be fast, or is not.
    labcourse.grading.Unclear
        If the machine is too noisy to tell.
    """
    made = function()
    rules.dataset(made)
    chain = rules.chain(made)
    rules.called(chain, task)
    with at_once():
        rules.data(made, task.slow(), ordered=task.ordered)
    rules.bounded(chain, task)
    slow, good = task.timing(task.slow()), task.timing(task.good())
    try:
        mine = task.timing(made)
    except Endless:
        raise Wrong("the pipeline never ends; take away a repeat without a count") from None
    except ValueError:  # its elements are right, so nothing but the reading of the graph can be at fault
        raise Wrong(_UNREAD) from None
    if mine.makespan_ms > good.makespan_ms * (1 + task.slack):
        if mine.steps != slow.steps:  # its elements are right, so some step is unknown to the clock
            raise Wrong(_UNREAD)
        advice = task.hints.get("slow", "look for what still takes turns")
        idle = f"on the simulated clock the accelerator is idle {mine.idle:.0%} of the time"
        raise Wrong(f"{idle}, {good.idle:.0%} is possible: {advice}")
    if not task.measured:
        return None
    here = machine_cores()
    real = [task.timing(dataset(), cores=here).makespan_ms for dataset in (task.slow, task.good)]
    expected = real[0] / real[1]
    if expected < LEAST_GAIN:
        return None
    measured = benchmark.run(task.slow, task.good, function, task.train_ms, benchmark.threshold(expected))
    if measured.verdict == benchmark.FAILED:
        text = task.hints.get("measured", "something in it takes time that the stages do not: look into your functions")
        gain = f"measured in turn, your pipeline is {measured.gain:.1f} times as fast as the slow one"
        raise Wrong(f"{gain}; {measured.control:.1f} is possible here: {text}")
    if measured.verdict == benchmark.UNCLEAR:
        raise Unclear("this machine is too busy to tell fast from slow: close other programs, then run again")
    return measured
