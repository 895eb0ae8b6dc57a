"""What limits a pipeline, and what TensorFlow chose for it: the report of `autotune`.

TensorFlow tunes the parallelism and the buffers of a pipeline while it runs, and shows its choice nowhere; people
ask for it again and again (tensorflow issues 58819, 62690, 62821 and 72369).
`autotune` drives a pipeline and asks again and again; `read` asks once, about an iterator of the reader's own.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labextras.tune import nodes
from labextras.tune.nodes import Line, Node, Reading
from labkit.common.numbers import whole
from labkit.pipelines.structure import check_dataset
from labkit.recording.accelerators import check_accelerator
from labkit.recording.tfdata.driver import check_length, drive

__all__ = ["AutotuneReport", "Line", "Node", "Reading", "autotune", "read"]

#: Where the consumer waits for a smaller share of its time, no node of the pipeline is said to limit the job.
LEAST_WAIT = 0.05


@dataclass(frozen=True, repr=False)
class AutotuneReport(Reading):
    """What AUTOTUNE did to one job: the last reading, and all readings in their order.

    Parameters
    ----------
    nodes, cores, ram_bytes
        Those of the last reading; see `Reading`.
    accelerator : str
        Its description.
    readings : tuple of Reading
        One after each train step behind the warm-up of one step.
    wait_ms, train_ms : tuple of float
        Of these steps: waiting for a batch, training on it. Milliseconds.
    seconds : float
        When the last one was taken, counted from the start of the drive.
    reading_ms : float
        What a reading took, median.
    """

    accelerator: str
    readings: tuple[Reading, ...]
    wait_ms: tuple[float, ...]
    train_ms: tuple[float, ...]
    seconds: float
    reading_ms: float

    @cached_property
    def history(self) -> dict[str, list[float]]:
        """What it had chosen at each reading, by the names of `chosen`; NaN where the node was not there."""
        found = [reading.chosen for reading in self.readings]
        return {n: [float(c.get(n, math.nan)) for c in found] for n in dict.fromkeys(n for c in found for n in c)}

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
        count = len(self.readings)
        readings = f"{count} readings in {self.seconds:.1f} s, of {self.reading_ms:.2f} ms each"
        return [
            f"after {count} steps of the pipeline; {readings}; {self.accelerator}.",
            limit if self.limit else f"No node limits: the consumer waited only {wait}.",
            *super().notes(),
        ]


def autotune(dataset: Any, accelerator: Any, *, steps: int | None = 40) -> AutotuneReport:
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
        Train steps after the first, each with a reading of about 0.5 ms; None for an epoch of its own.

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
    label = "the pipeline"
    check_dataset(dataset, label)
    check_accelerator(accelerator)
    steps = None if steps is None else whole("steps", steps, least=1)
    check_length(dataset, steps, label)
    kept, found, begin = _Kept(dataset), [], time.perf_counter()

    def see(number: int, start: int, ready: int, end: int) -> None:
        before = time.perf_counter()
        reading, after = read(kept.iterator), time.perf_counter()
        found.append((reading, (ready - start) / 1e6, (end - ready) / 1e6, before - begin, (after - before) * 1e3))

    try:
        drive(kept, accelerator, steps, 1, label=label, max_events=None, on_step=see)
    finally:
        kept.iterator = None  # a traceback that the caller keeps must not keep the iterator's threads
    readings, wait, train, seconds, cost_ms = zip(*found, strict=True)
    times = wait, train, seconds[-1], statistics.median(cost_ms)
    return AutotuneReport(*vars(readings[-1]).values(), accelerator.describe(), readings, *times)


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

    if not hasattr(iterator, "_iterator_resource") and not hasattr(iterator, "_iterator"):
        allowed = "an iterator of a tf.data.Dataset, which runs: iter(dataset)"
        raise TypeError(f"iterator is of type {type(iterator).__name__}; allowed: {allowed}")
    try:
        return nodes.parse(tf.data.experimental.get_model_proto(iterator))
    except tf.errors.NotFoundError:
        off = "TensorFlow tunes nothing and keeps no model of it; allowed: a pipeline with autotune on, as by default"
        raise ValueError(f"options.autotune.enabled is False for this pipeline, so {off}") from None
    except (AttributeError, KeyError, TypeError) as error:
        unknown = f"TensorFlow {tf.__version__} describes its tuning in a way that labkit does not know ({error})"
        known = "tf.data.experimental.get_model_proto is experimental, and 2.19 to 2.21 are known"
        raise RuntimeError(f"{unknown}: {known}") from error


class _Kept:
    """A dataset that keeps the iterator which is made of it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.iterator = dataset, None

    def __iter__(self) -> Any:
        self.iterator = iter(self.dataset)
        return self.iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)
