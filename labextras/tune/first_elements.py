"""The elements that a pipeline delivers in some time, and whether another one delivers the same or nearly the same."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.pipelines import timed_reading
from labkit.pipelines.same_elements import compared, parts, row_digests
from labkit.pipelines.structure import is_dataset


def for_a_while(dataset: Any, seconds: float, patience_s: float) -> Iterator[Any]:
    """Yield elements for some seconds, and at least one where it comes within `patience_s`.

    Raises
    ------
    TimeoutError
        If the time was up before the dataset ended.
    """
    end = time.monotonic() + seconds
    loader = not is_dataset(dataset)  # which draws alike whenever it is read
    with dataset.untouched() if loader else contextlib.nullcontext():
        for element in dataset if loader else timed_reading.elements(dataset, each_s=patience_s):
            yield element
            if time.monotonic() > end:
                raise TimeoutError(f"there are more elements than come in {seconds:g} s")


@dataclass
class FirstElements:
    """Elements that a pipeline delivered in some time, as digests: of its rows where it delivers batches.

    Parameters
    ----------
    digests : list of bytes
    batches : int
    complete : bool
        Whether the pipeline ended by itself.
    first_s, batch_s : float
        Seconds until the first batch, and for each of the others; until the end of the first, where there is one.
    """

    digests: list[bytes] = field(default_factory=list)
    batches: int = 0
    complete: bool = True
    first_s: float = 0.0
    batch_s: float = 0.0

    @classmethod
    def of(cls, dataset: Any, seconds: float, patience_s: float, batched: bool = True) -> FirstElements:
        """Read a dataset for so many seconds, or until it ends; wait for the first element for `patience_s`.

        Raises
        ------
        TimeoutError
            If no element comes.
        """
        found, begin = cls(), time.monotonic()
        try:
            for element in for_a_while(dataset, seconds, patience_s):
                found.batches += 1
                found.first_s = found.first_s or time.monotonic() - begin
                found.digests += row_digests(element, batched)
        except TimeoutError:
            if not found.batches:
                raise
            found.complete = False
        took = time.monotonic() - begin
        found.batch_s = (took - found.first_s) / (found.batches - 1) if found.batches > 1 else took
        return found

    def same_order(self, other: FirstElements) -> bool | None:
        """Return whether both hold the same elements, in the same order (True) or another; None where they do not.

        Where one was not read to its end, only the elements are compared that both hold, in their order.
        """
        count, both = min(len(self.digests), len(other.digests)), self.complete and other.complete
        if len(self.digests) != len(other.digests) and (both or not count):
            return None
        if self.digests[:count] == other.digests[:count]:
            return True
        found = compared(self.digests, other.digests)
        return None if not both or found.lost or found.extra else False


def close(one: Any, other: Any) -> bool:
    """Tell whether two elements are equal up to the rounding of float32."""
    ones, others = parts(one), parts(other)
    if [(part.shape, part.dtype) for part in ones] != [(part.shape, part.dtype) for part in others]:
        return False
    return all(
        np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) if a.dtype.kind == "f" else (a == b).all()
        for a, b in zip(ones, others, strict=True)
    )


def all_close(one: Any, other: Any, seconds: float, patience_s: float) -> tuple[bool, bool]:
    """Tell whether two datasets deliver elements that are `close`, and whether all were read in so many seconds.

    Of all of them: the first ones of an epoch may be zeros, and those that a function treats in another way come later.
    """
    found = False
    read = (for_a_while(dataset, seconds, patience_s) for dataset in (one, other))
    try:
        for pair in zip(*read, strict=False):
            found = close(*pair)
            if not found:
                break
    except TimeoutError:
        return found, False
    return found, True
