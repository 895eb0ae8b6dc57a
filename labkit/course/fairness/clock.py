"""The simulated clock: what a pipeline of known nodes and stages takes, the same on every machine.

Assumed: one pool of threads for all map calls, as many as cores unless the options say otherwise; each file of a
parallel interleave has a thread of its own; AUTOTUNE takes as many calls as the pool has threads, and two elements of a
prefetch. Cores beyond the pool are not short, and tf.data's own work on an element is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.course.fairness.graph import Chain
from labkit.course.fairness.iterators import AHEAD, CONSUMER, INLINE, MOST, PREFETCH, Endless, Prefetch, World, built
from labkit.course.fairness.stages import Stage
from labkit.timeline.run import Accelerator, Host
from labkit.timeline.trace import Span, Trace

__all__ = ["Endless", "Timing", "run"]

_CATEGORY = {"read": "read", "open": "read", "decode": "decode", "resize": "resize"}


@dataclass(frozen=True)
class Timing:
    """What the clock says.

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


def run(
    chain: Chain,
    stages: Iterable[Stage],
    train_ms: float,
    *,
    cores: int,
    records: int = 1,
    steps: int | None = None,
    name: str | None = None,
) -> Timing:
    """Simulate a training job on a pipeline.

    Parameters
    ----------
    chain : Chain
        From `labkit.course.fairness.graph.read`.
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
    name : str, optional
        What views call the pipeline.

    Raises
    ------
    Endless
        If the pipeline never ends and `steps` is None.
    ValueError
        If nothing reaches the consumer.
    """
    costs = {stage.name: stage for stage in stages}
    pool = chain.threads or cores
    world = World(costs, pool, records, chain.ordered, [(0.0, i) for i in range(pool)], [])
    pipeline = built(chain.nodes, chain.elements, world, INLINE)
    if chain.rewritten and chain.nodes[-1].kind != "Prefetch":
        pipeline = Prefetch(None, pipeline, world, PREFETCH, AHEAD, True)
    spans, now, step, images = [], 0.0, 0, 0
    while steps is None or step < steps:
        got = pipeline.next(now)
        if got is None:
            break
        spans.append(_span(CONSUMER, "wait for batch", "wait", now, got[0], step))
        now = got[0] + train_ms
        spans.append(_span(CONSUMER, "train step", "train", got[0], now, step))
        step, images = step + 1, images + got[1]
        if step > MOST:
            raise Endless("the pipeline never ends")
    if not step:
        raise ValueError("not one element reaches the consumer")
    for thread, stage, start, end in world.spans:
        if start < now:  # what runs ahead when the job ends is cut off with it
            spans.append(_span(thread, stage, _CATEGORY.get(stage, "map"), start, min(end, now)))
    trace = Trace.from_spans(
        spans,
        {CONSUMER: "consumer"},
        name=name,
        accelerator=Accelerator(
            name="train step",
            kind="modelled",
            source="stated by the exercise",
            describe=f"modelled train step: {train_ms:g} ms (source: stated by the exercise)",
        ),
        batch_size=max(1, images // step),
        steps=step,
        warmup=0,
        images=images,
        first_batch_ns=spans[0].duration_ns,
        window_ns=(0, round(now * 1e6)),
        host=Host(cores),
    )
    return Timing(now, 1 - step * train_ms / now if now else 0.0, step, trace)


def _span(thread: str, name: str, category: str, start: float, end: float, step: int = -1) -> Span:
    first = round(start * 1e6)
    return Span(thread, name, category, first, round(end * 1e6) - first, step)
