"""What a reader predicted and what was measured: numbers with their spread, units, errors, the verdict."""

from __future__ import annotations

import math
import statistics
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from labkit.common import numbers, other_programs
from labkit.recording.measures import ROUNDS, TOO_BUSY, TOO_FEW, Measures, Speedup
from labkit.timeline.timeline import Timeline

#: What a prediction may be counted in. A share lies between 0 and 1 and is printed in percent.
UNITS = ("times", "share", "ms", "s", "µs", "images/s", "MB", "GB", "MB/s", "cores", "batches", "images", "steps")

#: What is counted one by one: an error of it is no percentage. And what a clock tells: without rounds, nobody knows how
#: far another run would be from it.
COUNTS, TIMED = ("batches", "images", "steps"), ("times", "ms", "s", "µs", "images/s", "MB/s")

#: A number counts as right within this relative error,
CLOSE = 0.2

#: where the ends of the spread lie no farther from the middle than this share of it.
WIDE = 0.3

#: The verdict on a cell whose three dots are still there.
NONE = "no prediction"

#: The verdict that counts, the one on a number that a spread neither proves nor disproves, and the one where the
#: measurement itself has no verdict.
RIGHT, OPEN, UNJUDGED = "right", "cannot be told", "not judged"


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
        return f"{number(self.middle, unit)}{spread} {unit_word(unit, self.high)}"


# -- numbers and words ---------------------------------------------------------------------


def check_number(value: Any, what: str, unit: str, *, model: bool = False) -> float:
    """Return `value` as a float; `model` lifts the upper bound of a share, which a formula may overshoot."""
    if unit != "share" or model:
        return numbers.number(what, value, 0, other=f"in {unit}")
    if isinstance(value, (int, float)) and 1 < value <= 100:
        remedy = f"for {value:g} % write {value / 100:g}"
        raise ValueError(f"{what} is {value:g}, and a share is a number from 0 to 1: {remedy}")
    return numbers.number(what, value, 0, 1, other="(share)")


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
    several = given if _several(given) else [given]
    if not len(several):
        raise ValueError(f"{what} is empty; allowed: a number, several of them, or a speed-up, in {unit}")
    values = [check_number(v, what, unit, model=True) for v in several]
    return Figure(statistics.median(values), min(values), max(values))


def doubt(given: Any, unit: str) -> str:
    """Return in a few words why what was measured judges no prediction; nothing where it does.

    A busy machine, rounds that are too few, and a time or a ratio of times that was measured once tell nobody how far
    the next run would be from it.
    """
    if beside(given) or (isinstance(given, Speedup) and given.verdict.startswith(TOO_BUSY)):
        return "other programs took too much of this machine"
    rounds = given.rounds if isinstance(given, Speedup) else len(given) if _several(given) else 1
    if unit not in TIMED or rounds >= ROUNDS:
        return ""
    return "it was measured once, and has no interval" if rounds == 1 else f"{rounds} rounds are {TOO_FEW}"


def beside(given: Any) -> str:
    """Return what other programs took while something was measured, if it was too much; else nothing."""
    if isinstance(given, Measures):
        return given.beside if given.others >= given.busy_limit else ""
    if isinstance(given, Timeline):
        host = given.run.host
        return other_programs.sentence(host.others, host.cpus) if other_programs.warning(host.others) else ""
    return given.beside if isinstance(given, Speedup) else ""


def _several(given: Any) -> bool:
    return hasattr(given, "__len__") and not isinstance(given, (str, bytes))


def percent(error: float | None) -> str:
    """Return a relative error with its sign, as in ``+12 %``; a dash for None."""
    return "–" if error is None else f"{round(100 * error):+,} %".replace("-", "−").replace("+0 %", "0 %")


def unit_word(unit: str, value: float = 0) -> str:
    """Return the unit as it stands after a number: a share is printed in percent."""
    return "%" if unit == "share" else numbers.unit_of(unit, value)


def number(value: float, unit: str) -> str:
    """Return three significant digits, a share in percent."""
    value = 100 * value if unit == "share" else value
    digits = max(0, 2 - math.floor(math.log10(value))) if value else 0
    text = f"{value:,.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
