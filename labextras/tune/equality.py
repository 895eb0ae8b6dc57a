"""Whether a pipeline that is written in another way delivers the same elements."""

from __future__ import annotations

from typing import Any

from labextras.tune.calls import Written
from labextras.tune.first_elements import FirstElements, all_close
from labextras.tune.rewrite import Change
from labkit.common.errors import error_text
from labkit.pipelines.same_elements import other_spec
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
            stored = change.stored.without("repeat")
            epochs = [
                FirstElements.of(stored.build(), self._seconds, self._patience_s, batched=False) for _ in range(2)
            ]
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
