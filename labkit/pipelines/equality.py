"""Whether a pipeline that is written in another way delivers the same elements."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.pipelines.calls import Written
from labkit.pipelines.checks.fingerprints import dense, digest
from labkit.pipelines.rewrite import Change
from labkit.pipelines.structure import named

#: Seconds for which the elements of a pipeline are read.
READ_S = 2.5
#: Elements on which a map before a batch is compared with one behind it.
SAMPLE = 8

SAME = "the same"
REORDERED = "the same, in another order"
ROUNDED = "the same up to rounding"
DRAWN = "the same kinds; values are drawn at random"
UNREAD = "the same kinds; an epoch is too long to compare"
#: What a change may say and be kept.
FINE = (SAME, REORDERED, ROUNDED, DRAWN, UNREAD)


@dataclass
class _Reading:
    """The first elements of an epoch: digests of all, values of the first batches."""

    digests: list[bytes] = field(default_factory=list)
    values: list[list[np.ndarray]] = field(default_factory=list)
    batches: int = 0
    complete: bool = True

    @classmethod
    def of(cls, dataset: Any) -> _Reading:
        """Read a dataset, for `READ_S` at most."""
        found, end = cls(), time.monotonic() + READ_S
        for batch in dataset:
            parts = [dense(part) for _, part in named(batch)]
            found.batches += 1
            if found.batches <= 2:
                found.values.append(parts)
            found.digests += [b"".join(map(digest, row)) for row in zip(*parts, strict=True)]
            if time.monotonic() > end:
                found.complete = False
                break
        return found

    def against(self, other: _Reading) -> str | None:
        """Return how equal two readings are; None where they are not."""
        count, both = min(len(self.digests), len(other.digests)), self.complete and other.complete
        if both and len(self.digests) != len(other.digests):
            return None
        if self.digests[:count] == other.digests[:count]:
            return SAME
        if both and Counter(self.digests) == Counter(other.digests):
            return REORDERED
        return ROUNDED if all(map(_close, self.values, other.values)) else None


class Reference:
    """What a pipeline delivers in an epoch, to compare changes of it with.

    Parameters
    ----------
    written : labkit.pipelines.calls.Written
        It is read twice, for `READ_S` seconds each at most: values that are drawn at random differ.
    """

    def __init__(self, written: Written) -> None:
        dataset = written.once().build()
        self._reading, self._spec = _Reading.of(dataset), dataset.element_spec
        self._repeats = self._reading.against(_Reading.of(dataset)) is not None

    @property
    def batches(self) -> int | None:
        """Batches of an epoch; None where it takes too long to read it."""
        return self._reading.batches if self._reading.complete else None

    def compared(self, change: Change) -> str:
        """Return in words whether a change delivers the same elements; one of `FINE` if so.

        Raises
        ------
        Exception
            Whatever a function of the pipeline raises where it is called in another place.
        """
        if change.swapped and not _commute(*change.swapped):
            return "other elements: the map does not give for a batch what it gives for its elements"
        if change.stored and _whole(change.stored) != _whole(change.stored):
            return "other elements: what the cache would keep differs from epoch to epoch"
        dataset = change.written.once().build()
        if not _compatible(dataset.element_spec, self._spec):
            return f"other elements: {_spec(dataset.element_spec)} in place of {_spec(self._spec)}"
        found = self._reading.against(_Reading.of(dataset))
        if found is not None:
            return found
        if not self._repeats:
            return DRAWN
        if not change.same_order and not self._reading.complete:
            return UNREAD
        return "other elements than the pipeline delivers"


def _whole(written: Written) -> list[bytes]:
    """Return a digest of each of the first elements of a pipeline, which need not be batched."""
    elements = written.once().build().take(SAMPLE)
    return [b"".join(digest(dense(part)) for _, part in named(element)) for element in elements]


def _commute(dataset: Any, function: Any) -> bool:
    """Tell whether a function gives for a batch of elements what it gives for each of them."""
    import tensorflow as tf

    batch = next(iter(dataset.batch(SAMPLE)), None)
    if batch is None:
        return False
    elements = tf.data.Dataset.from_tensor_slices(batch)
    ways = elements.map(function).batch(SAMPLE), elements.batch(SAMPLE).map(function)
    one, other = ([dense(part) for _, part in named(next(iter(way)))] for way in ways)
    return _close(one, other)


def _close(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Tell whether two batches are equal up to the rounding of float32."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        equal = np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) if a.dtype.kind == "f" else (a == b).all()
        if not equal:
            return False
    return True


def _compatible(one: Any, other: Any) -> bool:
    """Tell whether two element specs allow the same elements, whichever knows more of their shapes."""
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(one, other)
    except (TypeError, ValueError):
        return False
    pairs = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
    return all(
        getattr(a, "dtype", 0) == getattr(b, "dtype", 0) and a.shape.is_compatible_with(b.shape) for a, b in pairs
    )


def _spec(spec: Any) -> str:
    """Return an element spec in words: types and shapes."""
    return ", ".join(f"{part.dtype.name}{tuple(part.shape)}" for _, part in named(spec))
