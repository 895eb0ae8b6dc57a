"""Fair grading of pipelines: data first, then structure, then a simulated clock; never in seconds.

    read, decode = fairness.Stage("read", 8, asleep=True), fairness.Stage("decode", 4, lambda x: x * 10)
    good = numbers().map(lambda x: decode(read(x)), num_parallel_calls=8).batch(4).prefetch(2)
    fairness.grade(student(numbers(), read, decode), (read, decode), good, train_ms=10)

Each layer runs only if the layer before it found nothing wrong. The results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from labcourse.fairness import rules
from labcourse.fairness.stages import Stage, at_once
from labcourse.fairness.timing import Timing, simulate
from labcourse.grading import Wrong

__all__ = ["Stage", "Timing", "at_once", "grade", "simulate"]

_UNREAD = "labkit cannot read this pipeline: write it as one chain of steps that the notebooks use"


def grade(
    made: Any, stages: tuple[Stage, ...], good: Any, train_ms: float, *, records: int = 1,
    slack: float = 0.1, hints: Mapping[str, str] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Grade a pipeline.

    Parameters
    ----------
    made : tf.data.Dataset
        The student's.
    stages : tuple of Stage
        What it gets to call. Each must appear in it.
    good : tf.data.Dataset
        The lab's own answer: it says which elements are right, and what can be gained.
    train_ms : float
        Length of a train step in milliseconds.
    records : int
        Elements of each file of an interleave.
    slack : float
        How much longer than `good` it may take on the simulated clock, as a share.
    hints : dict of str to str
        Sentences for what goes wrong, in place of the usual ones: by ``"slow"``, or by the name of a stage that is
        never called.

    Raises
    ------
    labcourse.grading.Wrong
        With the hint that fits: a wrong element, a buffer without bounds, a pipeline that cannot be fast.
    """
    rules.dataset(made)
    chain = rules.chain(made)
    rules.called(chain, stages, hints)
    with at_once():
        rules.data(made, good, ordered=True)
    rules.bounded(chain)
    best = simulate(good, stages, train_ms, records=records)
    try:
        mine = simulate(made, stages, train_ms, records=records)
    except ValueError:  # its elements are right, so nothing but the reading of the graph can be at fault
        raise Wrong(_UNREAD) from None
    if mine.makespan_ms > best.makespan_ms * (1 + slack):
        if mine.steps != best.steps:  # its elements are right, so some step is unknown to the clock
            raise Wrong(_UNREAD)
        advice = hints.get("slow", "look for what still takes turns")
        idle = f"on the simulated clock the accelerator is idle {mine.idle:.0%} of the time"
        raise Wrong(f"{idle}, {best.idle:.0%} is possible: {advice}")
