"""Whether a pipeline that is written in another way delivers the same elements, or nearly the same, in some time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labextras.tune import timed_reading
from labextras.tune.calls import Written
from labextras.tune.rewrite import Change
from labkit.common.errors import error_text
from labkit.pipelines.same_elements import compared, other_spec, parts, row_digests
from labkit.pipelines.structure import is_dataset

#: Seconds for which the elements of a pipeline are read.
READ_S = 2.5
#: The first element may take that many times as long; that of a change, so many times as long as that of the pipeline.
PATIENCE, SLOWER = 10, 4

SAME = "the same"
SHUFFLED = "the same; their order is drawn at random"
REORDERED = "the same, in another order"
ROUNDED = "the same up to rounding"
DRAWN = "the same kinds; values are drawn at random"
UNREAD = "the same kinds; an epoch is too long to compare"
#: What a change may say and be kept.
FINE = (SAME, SHUFFLED, REORDERED, ROUNDED, DRAWN, UNREAD)
#: Why a change cannot be built, by whether a map would work on batches.
_REFUSED = ("TensorFlow does not take the calls in this order", "the function of the map takes no whole batch")


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


def _why(error: Exception) -> str:
    """Return the sentence of an error; of a function that TensorFlow wrote anew, its line and why."""
    return f"{error_text(error).rpartition(' * ')[2]:.160}"


class Reference:
    """What a pipeline delivers in an epoch, to compare changes of it with.

    Parameters
    ----------
    written : labextras.tune.calls.Written
        It is built and read twice, for `seconds` each at most: values that are drawn at random differ. Where a
        shuffle draws the order, it is left out here and in the changes. So are repeats, unless nothing is left then,
        as where a batch is larger than an epoch.
    seconds : float
        By default `READ_S`.
    """

    def __init__(self, written: Written, seconds: float | None = None) -> None:
        self._written, self._seconds = written, READ_S if seconds is None else seconds
        self._patience_s = PATIENCE * self._seconds
        self._drawn = any(call.method == "shuffle" and "seed" not in call.settings for call in written.every)
        shuffles = ("shuffle",) if self._drawn else ()
        self._left_out = ("repeat", *shuffles)
        #: The last reading of a pipeline: how long its first batch took, and each of the others.
        self.pace = FirstElements()
        built, self._reading = self._read(written)
        if not self._reading.batches:
            self._left_out = shuffles
            built, self._reading = self._read(written)
        self._spec = built.element_spec
        self._patience_s = min(self._patience_s, self._seconds + SLOWER * self.pace.first_s)
        _, again = self._read(written)
        self._repeats = self._reading.same_order(again) is not None and not getattr(written, "draws", False)
        self._counts = {len(one.digests) for one in (self._reading, again)}

    def _read(self, written: Written) -> tuple[Any, FirstElements]:
        built = written.without(*self._left_out).build()
        self.pace = FirstElements.of(built, self._seconds, self._patience_s)
        return built, self.pace

    @property
    def batches(self) -> int | None:
        """Batches of an epoch; None where it takes too long to read it."""
        return self._reading.batches if self._reading.complete else None

    def compared(self, change: Change) -> str:
        """Return in words whether a change delivers the same elements, one of `FINE` if so, or why nobody can say."""
        if change.swapped and not self._repeats:  # a map that mixes the elements of a batch would not show
            return "cannot be compared: values are drawn at random"
        try:  # the function of a reader may refuse in any way, as one that cannot take a batch
            change.written.build()
        except Exception as error:
            return f"cannot be built: {_REFUSED[change.swapped]} ({_why(error)})"
        try:
            return self._compared(change)
        except TimeoutError:
            return f"cannot be compared: no element came in {self._patience_s:.2g} s"
        except Exception as error:
            return f"cannot be compared: it fails where it runs ({_why(error)})"

    def _compared(self, change: Change) -> str:
        if change.stored:
            stored, times = change.stored.without("repeat"), (self._seconds, self._patience_s)
            epochs = [FirstElements.of(stored.build(), *times, batched=False) for _ in range(2)]
            if not epochs[0].same_order(epochs[1]):
                return "other elements: what the cache would keep differs from epoch to epoch"
        dataset, reading = self._read(change.written)
        made = dataset.element_spec
        other = f"the elements are {made}, expected {self._spec}" if repr(made) != repr(self._spec) else None
        if reason := other_spec(made, self._spec) if is_dataset(dataset) else other:
            return f"other elements: {reason}"
        same_order = self._reading.same_order(reading)
        if same_order is not None:
            return REORDERED if not same_order else SHUFFLED if self._drawn else SAME
        whole = self._reading.complete and reading.complete and len(self._counts) == 1
        if whole and len(reading.digests) not in self._counts:
            return f"other elements: {len(reading.digests):,} in place of {len(self._reading.digests):,}"
        if not self._repeats:
            return DRAWN
        again = self._written.without(*self._left_out).build()
        alike, read = all_close(again, dataset, 2 * self._seconds, self._patience_s)
        if alike and (read or not self._reading.complete):
            return ROUNDED
        if alike:  # an epoch that was read before: other programs came between
            return "cannot be compared: there was not time enough to read all elements"
        if not change.same_order and not self._reading.complete:
            return UNREAD
        return "other elements than the pipeline delivers"
