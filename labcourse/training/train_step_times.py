"""The time that a train step of a model takes, by the size of its batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcourse.training.recipe import traced_on_purpose
from labkit.common.numbers import whole
from labkit.common.progress import fast
from labkit.common.table import Table, Tabular
from labkit.recording.recorder import rounds_of


@dataclass(frozen=True, repr=False)
class StepTimes(Tabular):
    """The time of a train step at several batch sizes, and the line through them.

    Parameters
    ----------
    batches : tuple of int
    ms : tuple of float
        The shortest of several steps, milliseconds.
    fixed_ms, per_image_ms : float
        The line ``fixed_ms + per_image_ms × batch``, by least squares of the relative errors.
    unit : str
        ``"CPU ms"``, of all threads together; ``"ms"`` by the clock, where a GPU trains.
    """

    batches: tuple[int, ...]
    ms: tuple[float, ...]
    fixed_ms: float
    per_image_ms: float
    unit: str = "CPU ms"

    @property
    def line(self) -> tuple[float, ...]:
        """What the line says at each batch size, milliseconds."""
        return tuple(self.fixed_ms + self.per_image_ms * batch for batch in self.batches)

    @property
    def error(self) -> float:
        """The largest relative error of the line."""
        return max(abs(guess / ms - 1) for guess, ms in zip(self.line, self.ms, strict=True))

    def table(self) -> Table:
        """One row for each batch size."""
        rows = [
            (str(batch), f"{ms:,.1f}", f"{guess:,.1f}", f"{100 * (guess / ms - 1):+.0f} %", f"{ms / batch:,.2f}")
            for batch, ms, guess in zip(self.batches, self.ms, self.line, strict=True)
        ]
        note = f"the line: {self.fixed_ms:.1f} ms + {self.per_image_ms:.2f} ms for each image."
        head = "batch", f"{self.unit} a step", "line", "error", "ms an image"
        return Table(head, rows, (1, 2, 3, 4), [note], rule=True)


def step_times(model: Any, pixels: Any, batches: Sequence[int] = (1, 8, 32, 128, 512), repeats: int = 7) -> StepTimes:
    """Measure a train step of a compiled model at several batch sizes.

    Parameters
    ----------
    model : keras.Model
        Compiled. It is trained on a few batches.
    pixels : labkit.sources.pixels.SmallPhotos
        Photos, used again where a batch is larger than their number.
    batches : sequence of int
        Two sizes or more.
    repeats : int
        Steps of each size; the shortest counts, since other programs only add to it. LABKIT_FAST allows one,
        and its time includes compiling.

    Raises
    ------
    ValueError
        If there are fewer than two sizes, or a number is out of bounds.
    """
    sizes = tuple(whole("a batch size", batch, least=1) for batch in batches)
    if len(set(sizes)) < 2:
        raise ValueError(f"batches are {sizes}; allowed: two sizes or more, since two make a line")
    import tensorflow as tf

    repeats, found = rounds_of(repeats), []
    untimed = 0 if fast() else 1  # the first step compiles
    gpu = bool(tf.config.list_physical_devices("GPU"))
    clock = time.perf_counter if gpu else time.process_time  # the processor only starts the kernels of a GPU
    for size in sizes:
        rows = np.resize(np.arange(len(pixels)), size)
        images, labels = pixels.images[rows].astype(np.float32) / 255, pixels.labels[rows]
        taken = []
        for _ in range(untimed + repeats):
            begin = clock()
            with traced_on_purpose():
                model.train_on_batch(images, labels)
            taken.append(1e3 * (clock() - begin))
        found.append(min(taken[untimed:]))
    per_image, fixed = np.polyfit(sizes, found, 1, w=1 / np.array(found))
    return StepTimes(sizes, tuple(found), float(fixed), float(per_image), "ms" if gpu else "CPU ms")
