"""Whether a pipeline that is written in another way delivers the same elements."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labextras.tune.calls import Written
from labextras.tune.rewrite import Change
from labkit.pipelines.fingerprints import dense, digest
from labkit.pipelines.structure import named

#: Seconds for which the elements of a pipeline are read.
READ_S = 2.5
#: Elements of the batches on which a map before a batch is compared with one behind it.
SAMPLE = 8

SAME = "the same"
SHUFFLED = "the same; their order is drawn at random"
REORDERED = "the same, in another order"
ROUNDED = "the same up to rounding"
DRAWN = "the same kinds; values are drawn at random"
UNREAD = "the same kinds; an epoch is too long to compare"
#: What a change may say and be kept.
FINE = (SAME, SHUFFLED, REORDERED, ROUNDED, DRAWN, UNREAD)


@dataclass
class _FirstElements:
    """The first elements of an epoch, as digests."""

    digests: list[bytes] = field(default_factory=list)
    batches: int = 0
    complete: bool = True

    @classmethod
    def of(cls, dataset: Any, batched: bool = True) -> _FirstElements:
        """Read a dataset, for `READ_S` at most; one digest for each row of a batch, if it has rows, or for an element.

        A batch has none where one of its components is a single number for all, or of another length.
        """
        found, end = cls(), time.monotonic() + READ_S
        for batch in dataset:
            parts = _parts(batch)
            lengths = {part.shape[:1] for part in parts}
            rows = zip(*parts, strict=True) if batched and len(lengths) == 1 and () not in lengths else [parts]
            found.batches += 1
            found.digests += [b"".join(map(digest, row)) for row in rows]
            if time.monotonic() > end:
                found.complete = False
                break
        return found

    def against(self, other: _FirstElements) -> str | None:
        """Return how equal two readings are; None where they are not."""
        count, both = min(len(self.digests), len(other.digests)), self.complete and other.complete
        if len(self.digests) != len(other.digests) and (both or not count):
            return None
        if self.digests[:count] == other.digests[:count]:
            return SAME
        return REORDERED if both and Counter(self.digests) == Counter(other.digests) else None


class Reference:
    """What a pipeline delivers in an epoch, to compare changes of it with.

    Parameters
    ----------
    written : labextras.tune.calls.Written
        It is built and read twice, for `READ_S` seconds each at most: values that are drawn at random differ. Where a
        shuffle draws the order, it is left out here and in the changes. So are repeats, unless nothing is left then,
        as where a batch is larger than an epoch.
    """

    def __init__(self, written: Written) -> None:
        self._written = written
        self._drawn = any(call.method == "shuffle" and "seed" not in call.settings for call in written.calls)
        shuffles = ("shuffle",) if self._drawn else ()
        self._left_out = ("repeat", *shuffles)
        built = self._built(written)
        self._reading = _FirstElements.of(built)
        if not self._reading.batches:
            self._left_out = shuffles
            built = self._built(written)
            self._reading = _FirstElements.of(built)
        self._spec = built.element_spec
        again = _FirstElements.of(self._built(written))
        self._repeats = self._reading.against(again) is not None
        self._counts = {len(one.digests) for one in (self._reading, again)}

    def _built(self, written: Written) -> Any:
        return written.without(*self._left_out).build()

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
        if change.stored and not _lasts(change.stored):
            return "other elements: what the cache would keep differs from epoch to epoch"
        dataset = self._built(change.written)
        if not _compatible(dataset.element_spec, self._spec):
            return f"other elements: {_spec(dataset.element_spec)} in place of {_spec(self._spec)}"
        reading = _FirstElements.of(dataset)
        found = self._reading.against(reading)
        if found is not None:
            return SHUFFLED if self._drawn and found == SAME else found
        whole = self._reading.complete and reading.complete and len(self._counts) == 1
        if whole and len(reading.digests) not in self._counts:
            return f"other elements: {len(reading.digests):,} in place of {len(self._reading.digests):,}"
        if not self._repeats:
            return DRAWN
        if _alike(zip(self._built(self._written), dataset, strict=False)):
            return ROUNDED
        if not change.same_order and not self._reading.complete:
            return UNREAD
        return "other elements than the pipeline delivers"


def _parts(element: Any) -> list[np.ndarray]:
    """Return the components of an element as arrays; None has nothing to compare."""
    return [dense(part) for _, part in named(element) if part is not None]


def _lasts(stored: Written) -> bool:
    """Tell whether what a cache keeps is the same in every epoch, as far as it can be read."""
    one, other = (_FirstElements.of(stored.once().build(), batched=False) for _ in range(2))
    return one.against(other) == SAME


def _commute(dataset: Any, function: Any) -> bool:
    """Tell whether a function gives for a batch of elements what it gives for each of them."""
    import tensorflow as tf

    def both(*parts: Any) -> Any:
        batch = parts if isinstance(dataset.element_spec, tuple) else parts[0]
        elements = tf.data.Dataset.from_tensor_slices(batch).map(function).batch(SAMPLE)
        return tf.data.Dataset.zip((elements, tf.data.Dataset.from_tensors(batch).map(function)))

    return _alike(dataset.batch(SAMPLE).flat_map(both))


def _alike(pairs: Iterable[Any]) -> bool:
    """Tell whether both of every pair are equal up to rounding, as far as they can be read in the time of two readings.

    Of all of them: the first ones of an epoch may be zeros, and those that a function treats in another way come later.
    """
    found, end = False, time.monotonic() + 2 * READ_S
    for one, other in pairs:
        found = _close(_parts(one), _parts(other))
        if not found or time.monotonic() > end:
            break
    return found


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
        a == b or (getattr(a, "dtype", 0) == getattr(b, "dtype", 0) and a.shape.is_compatible_with(b.shape))
        for a, b in pairs
    )


def _spec(spec: Any) -> str:
    """Return an element spec in words: types and shapes."""
    parts = (part for _, part in named(spec))
    return ", ".join(f"{part.dtype.name}{tuple(part.shape)}" if hasattr(part, "dtype") else "None" for part in parts)
