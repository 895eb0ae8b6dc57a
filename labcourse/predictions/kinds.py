"""The three kinds of a prediction: a number, a curve of several numbers, and a cause out of a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from labcourse.predictions import figures
from labcourse.predictions.figures import CLOSE, NONE, OPEN, RIGHT, UNJUDGED, Figure, Number, number, percent, unit_word
from labkit.common.numbers import one_of
from labkit.common.palette import LEGEND
from labkit.recording.measures import Measures
from labkit.timeline.timeline import Timeline

#: The verdict on a cause that is none.
WRONG = "another one is longer"


class KeptPrediction(Struct, frozen=True):
    """What all kinds share: a name, an answer, what came of it, and one sentence where there is something to say."""

    name: str

    @property
    def asked(self) -> tuple[Any, ...]:
        """The question alone: what two predictions of one name must share to be the same one."""
        return type(self), self.unit, getattr(self, "at", ()), getattr(self, "among", ())

    @property
    def why(self) -> str:
        """Why nothing of it is judged, in a few words; empty where something is."""
        return self.doubt

    @property
    def verdict(self) -> str:
        """How it did; or "no prediction", "not measured yet", "not judged" where the measurement has no verdict."""
        if self.value is None:
            return NONE
        if self.measured is None:
            return "not measured yet"
        return UNJUDGED if self.why else self.judged

    @property
    def right(self) -> bool:
        """Whether the verdict is "right"."""
        return self.verdict == RIGHT

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.value is None:
            return "You predicted nothing, so the measurement stands alone and nothing is counted."
        return f"Your prediction is not judged: {self.why}." if self.verdict == UNJUDGED else self.told

    def __str__(self) -> str:
        """Return name, answer and unit, and the note where there is one; without an answer, what to do."""
        if self.value is None:
            ask = f"Replace the three dots by {self.wanted}, then run this cell again."
            return f"{self.name}: {NONE} yet.{' ' if self.note else chr(10)}{self.note or ask}"
        return f"{self.name}: you predict {self.said(self.value)}. {self.note}".strip()

    __repr__ = __str__


class Commitment(KeptPrediction, frozen=True, tag_field="format", tag="labkit prediction 1"):
    """A number that a reader committed, and what came of it: as JSON, the file of a prediction.

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
        One sentence where the commit was not the first, or was refused; else empty.
    doubt : str
        Why the measurement judges nothing, in a few words; empty where it does.
    """

    value: Number | None
    unit: Literal[figures.UNITS]
    model: Figure | None = None
    measured: Figure | None = None
    note: str = ""
    doubt: str = ""

    wanted = "your number"

    def checked(self, value: Any) -> float:
        """Return an answer as it is kept, or raise the sentence that says why not."""
        return figures.check_number(value, f"the prediction {self.name}", self.unit)

    def said(self, value: float) -> str:
        """Return an answer in words."""
        return f"{number(value, self.unit)} {unit_word(self.unit, value)}"

    def read(self, given: Any, what: str) -> Figure:
        """Return what was measured, or what the model says."""
        return figures.figure(given, what, self.unit)

    def doubts(self, given: Any) -> str:
        """Return why a measurement judges nothing."""
        return figures.doubt(given, self.unit)

    @property
    def error(self) -> float | None:
        """Relative error, (predicted − measured) / measured; None without both, of a count, or where 0 was measured."""
        return None if self.value is None else self._error(self.value)

    @property
    def model_error(self) -> float | None:
        """Relative error of the model, as `error`; None without a model."""
        return self._error(self.model.middle) if self.model else None

    def _error(self, value: float) -> float | None:
        known = self.measured is not None and self.measured.middle and self.unit not in figures.COUNTS
        return (value - self.measured.middle) / self.measured.middle if known else None

    @property
    def judged(self) -> str:
        """Right, or in which direction not.

        One of "right" (within `CLOSE` of what was measured), "too high", "too low", "cannot be told" (the interval of
        the measurement holds the number, or is wider than `WIDE` and near it).
        """
        wide = self.measured.is_wide
        close = abs(self.value - self.measured.middle) <= CLOSE * abs(self.measured.middle)
        if close and not wide:
            return RIGHT
        if close or (self.measured.has_spread and self.measured.low <= self.value <= self.measured.high):
            return OPEN
        return "too high" if self.value > self.measured.middle else "too low"

    @property
    def told(self) -> str:
        """What is said of a verdict that was given."""
        if self.verdict == OPEN:
            wide = f"wider than ±{100 * figures.WIDE:.0f} %" if self.measured.is_wide else "wide enough to hold it"
            told = f"Your number fits, but the spread is {wide}: nothing can be told."
            return f"{told} Measure again on a quieter machine."
        if self.unit in figures.COUNTS:
            return f"You said {number(self.value, self.unit)}, {number(self.measured.middle, self.unit)} came out."
        if self.error is None:
            return "The measured value is 0, so there is no error in percent."
        if self.right:
            return f"Your number is {percent(self.error)} off, within {100 * CLOSE:.0f} %."
        points = f" ({100 * abs(self.value - self.measured.middle):.0f} points)" if self.unit == "share" else ""
        side = "above" if self.error > 0 else "below"
        return f"Your number is {100 * abs(self.error):,.0f} %{points} {side} what was measured."

    @property
    def bars(self) -> tuple[Figure | None, Figure | None, Figure | None]:
        """The reader's number, that of the model, and what was measured; None for each that is missing."""
        own = None if self.value is None else Figure(self.value, self.value, self.value)
        return own, self.model, self.measured

    @property
    def cells(self) -> list[str]:
        """What a table says of it: the three figures, the error of the reader and of the model."""
        own, *others = ("–" if f is None else f.words(self.unit) for f in self.bars)
        judged = self.verdict not in (OPEN, UNJUDGED)
        errors = [percent(e if judged else None) for e in (self.error, self.model_error)]
        return [NONE if self.value is None else own, *others, *errors]

    @property
    def points(self) -> tuple[Commitment, ...]:
        """Every number of it, as a prediction of its own."""
        return (self,)


class Curve(KeptPrediction, frozen=True, tag_field="format", tag="labkit curve 1"):
    """Several numbers that a reader committed, one for each place of a curve, and what came of them.

    Parameters
    ----------
    name, unit, note
        As in `Commitment`.
    value : tuple of float, or None
    at : tuple of float
        The places, rising.
    label : str
        What the places are, as in ``calls``.
    model, measured : tuple of Figure, or None
    doubt : tuple of str
        For each place, why its measurement judges nothing.
    """

    value: tuple[Number, ...] | None
    unit: Literal[figures.UNITS]
    at: tuple[float, ...]
    label: str = ""
    model: tuple[Figure, ...] | None = None
    measured: tuple[Figure, ...] | None = None
    note: str = ""
    doubt: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """What a reader is asked for."""
        return f"a list of {len(self.at)} numbers"

    @property
    def places(self) -> str:
        """The places in words, as in ``1, 2, 4, 8 calls``."""
        return f"{', '.join(f'{at:g}' for at in self.at)} {self.label}".strip()

    def checked(self, value: Any) -> tuple[float, ...]:
        """Return an answer as it is kept, or raise the sentence that says why not."""
        what = f"the prediction {self.name}"
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != len(self.at):
            raise ValueError(f"{what} is {value!r:.60}; allowed: {self.wanted}, for {self.places}")
        pairs = zip(self.at, value, strict=True)
        return tuple(figures.check_number(v, f"{what} at {at:g}", self.unit) for at, v in pairs)

    def said(self, value: Sequence[float]) -> str:
        """Return an answer in words."""
        return f"{', '.join(number(v, self.unit) for v in value)} {unit_word(self.unit)} at {self.places}"

    def read(self, given: Any, what: str) -> tuple[Figure, ...]:
        """Return what was measured at each place, or what the model says."""
        return tuple(figures.figure(one, f"{what} at {at:g}", self.unit) for at, one in self._each(given, what))

    def doubts(self, given: Any) -> tuple[str, ...]:
        """Return for each place why its measurement judges nothing."""
        return tuple(figures.doubt(one, self.unit) for _, one in self._each(given, self.name))

    def _each(self, given: Any, what: str) -> list[tuple[float, Any]]:
        """Return the measurement of each place: of a table of pipelines, the speed-ups over its first, or the rates."""
        if isinstance(given, Measures):
            compared = [1.0, *map(given.speedup, list(given)[1:])] if self.unit == "times" else None
            given = compared or [given.rates(name) for name in given]
        if len(given) != len(self.at):
            raise ValueError(f"{what} has {len(given)} entries; allowed: {len(self.at)}, for {self.places}")
        return list(zip(self.at, given, strict=True))

    @property
    def points(self) -> tuple[Commitment, ...]:
        """Every number of it, as a prediction of its own."""
        columns = (column or (None,) * len(self.at) for column in (self.value, self.model, self.measured, self.doubt))
        return tuple(
            Commitment(f"{self.name}.{at:g}", value, self.unit, model, measured, doubt=why or "")
            for at, value, model, measured, why in zip(self.at, *columns, strict=True)
        )

    @property
    def why(self) -> str:
        """Why no point is judged."""
        return self.doubt[-1] if self.doubt and all(self.doubt) else ""

    @property
    def judged(self) -> str:
        """As of a number where all points that are judged agree; else how many of them are right."""
        judged = [point.verdict for point in self.points if not point.doubt]
        return judged[0] if len(set(judged)) == 1 else f"{judged.count(RIGHT)} of {len(judged)} points right"

    @property
    def told(self) -> str:
        """What is said of a verdict that was given: of the point that is farthest off, where one is."""
        wrong = [p for p in self.points if not p.doubt and p.verdict not in (RIGHT, OPEN)]
        if not wrong:
            return "Your curve has the shape of what was measured."
        far = max(wrong, key=lambda p: abs(p.value - p.measured.middle))
        return f"At {self.at[self.points.index(far)]:g} {self.label}".strip() + f": {far.sentence}"

    @property
    def cells(self) -> list[str]:
        """What a table says of it."""
        said = ("–" if f is None else self.said([one.middle for one in f]) for f in (self.model, self.measured))
        return [NONE if self.value is None else self.said(self.value), *said, "–", "–"]


class CausePrediction(KeptPrediction, frozen=True, tag_field="format", tag="labkit cause 1"):
    """Which of a few a reader took for the largest, and what came of it.

    Parameters
    ----------
    name, note, doubt
        As in `Commitment`.
    value : str or None
        One of `among`.
    among : tuple of str
    unit : str
        Of the bars that are measured.
    model, measured : tuple of Figure, or None
        One for each of `among`.
    """

    value: str | None
    among: tuple[str, ...]
    unit: Literal[figures.UNITS] = "ms"
    model: tuple[Figure, ...] | None = None
    measured: tuple[Figure, ...] | None = None
    note: str = ""
    doubt: str = ""

    points = ()

    @property
    def wanted(self) -> str:
        """What a reader is asked for."""
        return f"one of {', '.join(map(repr, self.among))}"

    def checked(self, value: Any) -> str:
        """Return an answer as it is kept, or raise the sentence that says why not."""
        return one_of(f"the prediction {self.name}", value, self.among)

    def said(self, value: str) -> str:
        """Return an answer in words."""
        return value

    def read(self, given: Any, what: str) -> tuple[Figure, ...]:
        """Return how large each was measured, or what the model says."""
        if isinstance(given, Timeline):
            given = {word: _ms_per_image(word, given) for word in self.among}
        if not isinstance(given, Mapping) or given.keys() != set(self.among):
            raise ValueError(f"{what} is {given!r:.60}; allowed: a dict of numbers for {', '.join(self.among)}")
        return tuple(figures.figure(given[word], f"{what}, {word}", self.unit) for word in self.among)

    def doubts(self, given: Any) -> str:
        """Return why a measurement judges nothing: which bar is the longest, one run tells, but not a busy machine."""
        return figures.doubt(given, "share")

    def longest(self, bars: Sequence[Figure]) -> list[str]:
        """Return what is the largest, and all that come near it, within `CLOSE` or within the spread."""
        first = max(bars, key=lambda bar: bar.middle)
        near = (bar.high >= first.low or bar.middle >= first.middle / (1 + CLOSE) for bar in bars)
        return [word for word, one in zip(self.among, near, strict=True) if one]

    @property
    def judged(self) -> str:
        """Right; `WRONG` where it is not the largest, "cannot be told" where another one nearly is."""
        longest = self.longest(self.measured)
        return WRONG if self.value not in longest else RIGHT if len(longest) == 1 else OPEN

    @property
    def told(self) -> str:
        """What is said of a verdict that was given."""
        longest = " and ".join(self.longest(self.measured))
        ends = {
            RIGHT: ": right",
            OPEN: f": {longest} are too near to each other to tell",
            WRONG: f", and it is {longest}",
        }
        return f"You said {self.value}{ends[self.verdict]}."

    @property
    def cells(self) -> list[str]:
        """What a table says of it."""
        found = ("–" if bars is None else " and ".join(self.longest(bars)) for bars in (self.model, self.measured))
        return [self.value or NONE, *found, "–", "–"]


Prediction = Commitment | Curve | CausePrediction


def _ms_per_image(word: str, line: Timeline) -> float:
    """Return the milliseconds of fetch, prepare or train in a run."""
    if word == "train":
        return (line.span_ns - line.idle_ns) / 1e6 / line.images
    return sum(ms for kind, ms in line.per_image_ms.items() if LEGEND.get(kind, kind).split(":")[0] == word)
