"""The engines of a card (copy in, kernel, copy out) and what comes after them: when each works on which batch.

Simulated, never measured. Each engine takes the batches in their order and works on one at a time. Between two engines
there are two buffers, so that one is filled while the other is emptied (*double buffers*). So an engine begins a batch
when the engine before it has finished this batch, and the one behind it the batch before the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from labkit.timeline.run import Accelerator, Host
from labkit.timeline.trace import Span, Trace


class CardEngine(NamedTuple):
    """One of them: its name, how long it works on a batch in ms, what this is drawn as, and the kind of its lane.

    `category` is one of `labkit.timeline.trace.CATEGORIES`; `kind` is "unit" for a part of the card, "pipeline" for the
    host.
    """

    name: str
    batch_ms: float
    category: str
    kind: str = "unit"


def run(
    engines: Sequence[CardEngine], accelerator: Any, *, batch_size: int = 32, steps: int = 12, overlap: bool = True,
    cores: int | None = None, **facts: Any,
) -> Trace:  # fmt: skip
    """Return the timeline of a training job that these engines feed: an ordinary `Trace`, whose origin is modelled.

    Parameters
    ----------
    engines : sequence of CardEngine
        In the order in which a batch passes them; the accelerator comes after the last.
    accelerator : labkit.accelerators.Modelled
        Or anything with ``name``, ``source`` and ``step_ns(batch_size)``.
    batch_size, steps : int
    overlap : bool
        False: the units work in sequence. The first begins a batch when the last has finished the batch before.
    cores : int, optional
        Of the host.
    **facts
        Other fields of its `run`.
    """
    train = CardEngine("consumer", accelerator.step_ns(batch_size) / 1e6, "train", "consumer")
    every = [*engines, train]
    last_unit = max(i for i, engine in enumerate(engines) if engine.kind == "unit")
    end = [[0] * steps for _ in every]
    spans = []
    for batch in range(steps):
        for i, engine in enumerate(every):
            free = end[i][batch - 1] if batch else 0
            before = [free, end[i - 1][batch] if i else 0]
            if engine is not train and batch > 1:
                before.append(end[i + 1][batch - 2])
            if i == 0 and batch and not overlap:
                before.append(end[last_unit][batch - 1])
            start = max(before)
            end[i][batch] = start + round(1e6 * engine.batch_ms)
            if engine is train:
                spans.append(Span(train.name, "wait for batch", "wait", free, start - free, batch))
            name = f"batch {batch}" if engine is not train else "train step"
            spans.append(Span(engine.name, name, engine.category, start, end[i][batch] - start, batch))
    given = Accelerator(accelerator.name, "modelled", accelerator.source, accelerator.describe())
    return Trace.from_spans(
        spans, {engine.name: engine.kind for engine in every}, accelerator=given, batch_size=batch_size, steps=steps,
        warmup=0, images=steps * batch_size, window_ns=(0, end[-1][-1]), host=Host(cores), **facts,
    )  # fmt: skip
