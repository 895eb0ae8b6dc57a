"""What limits a pipeline, and what TensorFlow chose for it: the report of `autotune`.

TensorFlow tunes the parallelism and the buffers of a pipeline while it runs, and shows its choice nowhere; people
ask for it again and again (tensorflow issues 58819, 62690, 62821 and 72369).
`autotune` drives a pipeline and asks again and again; `read` asks once, about an iterator of the reader's own.
`differential` (`labextras.tune.differential`) tells from three runs what fetching and preparing cost.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labextras.tune import nodes
from labextras.tune.differential import Differential, differential
from labextras.tune.nodes import Line, Node, Reading
from labkit.common.numbers import whole
from labkit.pipelines.structure import check_dataset
from labkit.recording.accelerators import check_accelerator
from labkit.recording.tfdata.driver import check_length, drive

__all__ = ["AutotuneReport", "Differential", "Line", "Node", "Reading", "autotune", "differential", "read"]

#: Where the consumer waits for a smaller share of its time, no node of the pipeline is said to limit the job.
LEAST_WAIT = 0.05


@dataclass(frozen=True, repr=False)
class AutotuneReport(Reading):
    """What AUTOTUNE did to one job: the last reading, and all readings in their order.

    Parameters
    ----------
    nodes, cores, ram_bytes
        Those of the last reading; see `Reading`.
    name : str
        What the pipeline is called.
    accelerator : str
        Its description.
    readings : tuple of Reading
    steps : tuple of int
        After how many train steps each reading was taken.
    seconds : tuple of float
        When it was taken, counted from the start of the iterator.
    wait_ms, train_ms : tuple of float
        Of every step after the first: waiting for its batch, training on it. Milliseconds.
    reading_ms : float
        What a reading took, median.
    """

    name: str
    accelerator: str
    readings: tuple[Reading, ...]
    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    wait_ms: tuple[float, ...]
    train_ms: tuple[float, ...]
    reading_ms: float

    @cached_property
    def history(self) -> dict[str, list[float]]:
        """What it had chosen at each reading, by the names of `chosen`; NaN where the node was not there."""
        found = [reading.chosen for reading in self.readings]
        return {
            name: [float(c.get(name, math.nan)) for c in found] for name in dict.fromkeys(n for c in found for n in c)
        }

    @property
    def wait_share(self) -> float:
        """Share of a typical step that the consumer waited, 0 to 1: median wait over median wait and train step."""
        waited, trained = statistics.median(self.wait_ms), statistics.median(self.train_ms)
        return waited / (waited + trained) if waited + trained else 0.0

    @property
    def limit(self) -> Line | None:
        """The line of work that needs longest for a step; None where the consumer hardly ever waits.

        It names the right node in most cases. Its time is an estimate, and mostly too short: threads share the
        cores, and a node's own time leaves out the waiting for its neighbours.
        """
        return self.lines[0] if self.lines and self.wait_share >= LEAST_WAIT else None

    def notes(self) -> list[str]:
        """Return the lines under the table."""
        wait = f"{nodes.digits(statistics.median(self.wait_ms))} ms, {100 * self.wait_share:.0f} % of a typical step"
        limit = f"The slowest chain of nodes is {self.limit}; the consumer waited {wait}."
        readings = f"{len(self.readings)} readings in {self.seconds[-1]:.1f} s, of {self.reading_ms:.2f} ms each"
        return [
            f"after {self.steps[-1]} steps of {self.name}; {readings}; {self.accelerator}.",
            limit if self.limit else f"No node limits: the consumer waited only {wait}.",
            *super().notes(),
        ]


def autotune(
    dataset: Any, accelerator: Any, *, steps: int | None = 40, every: int = 1, name: str = "the pipeline"
) -> AutotuneReport:
    """Drive `dataset` into `accelerator`, and read meanwhile what AUTOTUNE chooses.

    TensorFlow tunes for the first time about 10 ms after the start, and then at intervals that double up to a minute
    (tensorflow/core/framework/model.cc): most happens in the first second, and a job of hours may still change.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Batched; with autotune on, as it is by default.
    accelerator : Modelled or Real
        The consumer; see `labkit.accelerators`.
    steps : int or None
        Train steps after the first; None for all that a finite dataset has.
    every : int
        A reading after each `every`-th step, and one after the last. It takes about 0.5 ms.
    name : str
        What errors and the table call the pipeline.

    Returns
    -------
    AutotuneReport
        ``print`` it or end a cell with it; `labextras.tune.autotune_chart.draw` makes the picture.

    Raises
    ------
    ValueError
        If autotune is off for `dataset`, a number is not what it must be, or the dataset ends within the first
        step.
    TypeError
        If `dataset` or `accelerator` is something else.
    RecordingError
        If the pipeline or the train step fails.
    RuntimeError
        If this TensorFlow lacks the experimental interface, or has another one.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name is {name!r}; allowed: a text that is not empty")
    check_dataset(dataset, name)
    check_accelerator(accelerator)
    every = whole("every", every, least=1)
    steps = None if steps is None else whole("steps", steps, least=1)
    check_length(dataset, steps, name)
    if dataset.options().autotune.enabled is False:
        raise ValueError(_off(name))
    _interface()
    kept, times_ms, taken = _Kept(dataset), [], []

    def take() -> None:
        start = time.perf_counter()
        reading = read(kept.iterator)
        taken.append((reading, len(times_ms), start - kept.begin, (time.perf_counter() - start) * 1e3))

    def see(number: int, start: int, ready: int, end: int) -> None:
        times_ms.append(((ready - start) / 1e6, (end - ready) / 1e6))
        if (number + 1) % every == 0:
            take()

    try:
        drive(kept, accelerator, steps, 1, label=name, max_events=None, on_step=see)
        if len(times_ms) % every:
            take()
    finally:
        kept.iterator = None  # a traceback that the caller keeps must not keep the iterator's threads
    wait, train = zip(*times_ms, strict=True)
    readings, after, seconds, cost_ms = zip(*taken, strict=True)
    facts = {"name": name, "accelerator": accelerator.describe(), "readings": readings, "steps": after}
    times = {"seconds": seconds, "wait_ms": wait, "train_ms": train, "reading_ms": statistics.median(cost_ms)}
    return AutotuneReport(**vars(readings[-1]), **facts, **times)


def read(iterator: Any) -> Reading:
    """Return what AUTOTUNE has chosen by now for an iterator: ``it = iter(dataset)`` of the reader's own loop.

    Raises
    ------
    TypeError
        If it is not an iterator of a tf.data.Dataset.
    ValueError
        If autotune is off for its dataset.
    RuntimeError
        If this TensorFlow lacks the experimental interface, or has another one.
    """
    import tensorflow as tf

    if isinstance(iterator, tf.data.Dataset):
        raise TypeError("a dataset is not running, so nothing is chosen yet; allowed: its iterator, iter(dataset)")
    if not hasattr(iterator, "_iterator_resource") and not hasattr(iterator, "_iterator"):
        kind = type(iterator).__name__
        raise TypeError(f"iterator is of type {kind}; allowed: an iterator of a tf.data.Dataset, iter(dataset)")
    try:
        model = _interface()(iterator)
    except tf.errors.NotFoundError:
        raise ValueError(_off("the pipeline of this iterator")) from None
    return nodes.parse(model)


def _off(name: str) -> str:
    return (
        f"options.autotune.enabled is False for {name}, so TensorFlow tunes nothing and keeps no model of it; "
        "allowed: a pipeline with autotune on, as it is by default"
    )


def _interface() -> Any:
    """Return TensorFlow's function, or raise the sentence that says that it is gone."""
    import tensorflow as tf

    found = getattr(tf.data.experimental, "get_model_proto", None)
    if found is None:
        raise RuntimeError(
            f"TensorFlow {tf.__version__} has no tf.data.experimental.get_model_proto, which tells what AUTOTUNE "
            "chose; it is experimental, and 2.19 to 2.21 have it"
        )
    return found


class _Kept:
    """A dataset that keeps the iterator which is made of it, and the time when it was made."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.iterator, self.begin = dataset, None, 0.0

    def __iter__(self) -> Any:
        self.begin = time.perf_counter()
        self.iterator = iter(self.dataset)
        return self.iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)
