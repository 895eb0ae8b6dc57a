"""Whether a pipeline that is written in another way delivers the same elements."""

from __future__ import annotations

import time
from typing import Any

from labextras.tune.calls import Written
from labextras.tune.first_elements import FirstElements, all_close
from labextras.tune.rewrite import Change
from labkit.pipelines.same_elements import other_spec

#: Seconds for which the elements of a pipeline are read.
READ_S = 2.5

SAME = "the same"
SHUFFLED = "the same; their order is drawn at random"
REORDERED = "the same, in another order"
ROUNDED = "the same up to rounding"
DRAWN = "the same kinds; values are drawn at random"
UNREAD = "the same kinds; an epoch is too long to compare"
#: What a change may say and be kept.
FINE = (SAME, SHUFFLED, REORDERED, ROUNDED, DRAWN, UNREAD)


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
        self._drawn = any(call.method == "shuffle" and "seed" not in call.settings for call in written.calls)
        shuffles = ("shuffle",) if self._drawn else ()
        self._left_out = ("repeat", *shuffles)
        begin = time.monotonic()
        built, self._reading = self._read(written)
        if not self._reading.batches:
            self._left_out = shuffles
            built, self._reading = self._read(written)
        #: Seconds for each batch.
        self.batch_s = (time.monotonic() - begin) / max(1, self._reading.batches)
        self._spec = built.element_spec
        _, again = self._read(written)
        self._repeats = self._reading.same_order(again) is not None
        self._counts = {len(one.digests) for one in (self._reading, again)}

    def _read(self, written: Written) -> tuple[Any, FirstElements]:
        built = written.without(*self._left_out).build()
        return built, FirstElements.of(built, self._seconds)

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
        if change.swapped and not self._repeats:  # a map that mixes the elements of a batch would not show
            return "cannot be compared: values are drawn at random"
        if change.stored:
            stored = change.stored.without("repeat")
            epochs = [FirstElements.of(stored.build(), self._seconds, batched=False) for _ in range(2)]
            if not epochs[0].same_order(epochs[1]):
                return "other elements: what the cache would keep differs from epoch to epoch"
        dataset, reading = self._read(change.written)
        if reason := other_spec(dataset.element_spec, self._spec):
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
        alike, read = all_close(again, dataset, 2 * self._seconds)
        if alike and (read or not self._reading.complete):
            return ROUNDED
        if alike:  # an epoch that was read before: other programs came between
            return "cannot be compared: there was not time enough to read all elements"
        if not change.same_order and not self._reading.complete:
            return UNREAD
        return "other elements than the pipeline delivers"
