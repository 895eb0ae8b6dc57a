"""What a reader predicted and what was measured: numbers with their spread, units, errors, the verdict."""

from __future__ import annotations

import math
import statistics
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from labkit.common import numbers, other_programs
from labkit.recording.measures import ROUNDS, Speedup
from labkit.timeline.timeline import Timeline

#: What a prediction may be counted in. A share lies between 0 and 1 and is printed in percent.
UNITS = ("times", "share", "ms", "s", "µs", "images/s", "MB", "GB", "MB/s", "cores", "batches", "images", "steps")

#: A number counts as right within this relative error,
CLOSE = 0.2

#: where the ends of the spread lie no farther from the middle than this share of it.
WIDE = 0.3

#: The verdict on a cell whose three dots are still there.
NONE = "no prediction"

#: The verdict that counts, and the one on a number that a wider spread neither proves nor disproves.
RIGHT, OPEN = "right", "cannot be told"


Number = Annotated[float, Meta(ge=0)]


class Figure(NamedTuple):
    """A number with its spread, where there is one.

    Parameters
    ----------
    middle, low, high : float
        In the unit of the prediction; all three equal where nothing is known of the spread.
    """

    middle: Number
    low: Number
    high: Number

    @property
    def has_spread(self) -> bool:
        """Whether more than one measurement is behind it."""
        return self.low < self.high

    @property
    def is_wide(self) -> bool:
        """Whether an end of the spread is farther than `WIDE` from the middle."""
        return max(self.high - self.middle, self.middle - self.low) > WIDE * abs(self.middle)

    def words(self, unit: str) -> str:
        """Return number, spread and unit, as in ``1.91 [1.85–1.97] times``."""
        spread = f" [{number(self.low, unit)}–{number(self.high, unit)}]" if self.has_spread else ""
        return f"{number(self.middle, unit)}{spread} {unit_word(unit)}"


class Commitment(Struct, frozen=True, tag_field="format", tag="labkit prediction 1"):
    """What a reader committed, and what came of it: as JSON, the file of a prediction.

    Parameters
    ----------
    name : str
        Notebook and quantity, as in ``02.gain``.
    value : float or None
        None where the reader has given no number.
    unit : str
        One of `UNITS`.
    model, measured : Figure or None
        None until `review` has shown them.
    note : str
        One sentence where the commit was not the first; else empty.
    """

    name: str
    value: Number | None
    unit: Literal[UNITS]
    model: Figure | None = None
    measured: Figure | None = None
    note: str = ""

    @property
    def error(self) -> float | None:
        """Relative error, (predicted − measured) / measured; None without both, or where 0 was measured."""
        return None if self.value is None else _error(self.value, self.measured)

    @property
    def model_error(self) -> float | None:
        """Relative error of the model, as `error`; None without a model."""
        return _error(self.model.middle, self.measured) if self.model else None

    @property
    def verdict(self) -> str:
        """Right, or in which direction not.

        One of "right" (within `CLOSE` of what was measured), "too high", "too low", "cannot be told" (the spread of the
        measurement is wider than `WIDE`, and the number lies in it), "not measured yet", "no prediction".
        """
        if self.value is None:
            return NONE
        if self.measured is None:
            return "not measured yet"
        close = abs(self.value - self.measured.middle) <= CLOSE * abs(self.measured.middle)
        if self.measured.is_wide and (close or self.measured.low <= self.value <= self.measured.high):
            return OPEN
        if close:
            return RIGHT
        return "too high" if self.value > self.measured.middle else "too low"

    @property
    def figures(self) -> tuple[Figure | None, Figure | None, Figure | None]:
        """The reader's number, that of the model, and what was measured; None for each that is missing."""
        own = None if self.value is None else Figure(self.value, self.value, self.value)
        return own, self.model, self.measured

    @property
    def right(self) -> bool:
        """Whether the verdict is "right"."""
        return self.verdict == RIGHT

    def __str__(self) -> str:
        """Return name, number and unit, and the note where there is one."""
        if self.value is None:
            ask = "Replace the three dots by your number, then run this cell again."
            return f"{self.name}: {NONE} yet. {self.note or ask}"
        return f"{self.name}: you predict {number(self.value, self.unit)} {unit_word(self.unit)}. {self.note}".strip()

    __repr__ = __str__


# -- numbers and words ---------------------------------------------------------------------


def check_number(value: Any, what: str, unit: str, *, model: bool = False) -> float:
    """Return `value` as a float; `model` lifts the upper bound of a share, which a formula may overshoot."""
    if unit != "share" or model:
        return numbers.number(what, value, 0, other=f"in {unit}")
    hint = f", so for {value:g} % write {value / 100:g}" if isinstance(value, (int, float)) and 1 < value <= 100 else ""
    return numbers.number(what, value, 0, 1, other=f"(share){hint}")


def figure(given: Any, what: str, unit: str) -> Figure:
    """Return a number, several rounds, a speed-up, or the busy share of a timeline as a `Figure`."""
    if isinstance(given, Timeline):
        if unit != "share":
            raise ValueError(f"{what} is a timeline, which brings a share; the prediction was committed in {unit}")
        given = given.busy
    if isinstance(given, Speedup):
        if unit != "times":
            raise ValueError(f"{what} is a speed-up, which counts in times; the prediction was committed in {unit}")
        low, high = (given.median if given.rounds < ROUNDS else v for v in (given.low, given.high))
        return Figure(float(given.median), float(low), float(high))
    several = [given] if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__") else list(given)
    if not several:
        raise ValueError(f"{what} is empty; allowed: a number, several of them, or a speed-up, in {unit}")
    values = [check_number(v, what, unit, model=True) for v in several]
    return Figure(statistics.median(values), min(values), max(values))


def beside(given: Any) -> str:
    """Return what other programs took while a speed-up or a timeline was measured, if it was too much; else nothing."""
    if isinstance(given, Timeline):
        host = given.run.host
        return other_programs.sentence(host.others, host.cpus) if other_programs.warning(host.others) else ""
    return given.beside if isinstance(given, Speedup) else ""


def _error(value: float, measured: Figure | None) -> float | None:
    return (value - measured.middle) / measured.middle if measured is not None and measured.middle else None


def percent(error: float) -> str:
    """Return a relative error with its sign, as in ``+12 %``."""
    return f"{100 * error:+,.0f} %".replace("-", "−")


def unit_word(unit: str) -> str:
    """Return the unit as it stands after a number: a share is printed in percent."""
    return "%" if unit == "share" else unit


def number(value: float, unit: str) -> str:
    """Return three significant digits, a share in percent."""
    value = 100 * value if unit == "share" else value
    digits = max(0, 2 - math.floor(math.log10(value))) if value else 0
    text = f"{value:,.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
