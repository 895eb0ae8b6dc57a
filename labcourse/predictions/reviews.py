"""A prediction beside its measurement as a picture, and all of them as a table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from labcourse.predictions.figures import OPEN, UNJUDGED, Figure, unit_word
from labcourse.predictions.kinds import CausePrediction, Commitment, Curve, Prediction
from labkit.common.table import Table, Tabular
from labkit.views import charts
from labkit.views.picture import Picture

#: What the reader's own is called in a chart.
YOURS = "your prediction"


class Review(Picture):
    """Prediction, model and measurement in one chart, the measurement on top; made by `review`.

    Parameters
    ----------
    prediction : Commitment, Curve or CausePrediction
        With its measurement.
    """

    def __init__(self, prediction: Prediction) -> None:
        self.prediction = p = prediction
        self.verdict = p.verdict
        title, note = f"{p.name}: {p.verdict}", f"{p.sentence} {p.note}".strip()
        chart = {Commitment: _bars, Curve: _lines, CausePrediction: _causes}[type(p)](p, title, note)
        if isinstance(p, Commitment):
            own, model, measured, error, model_error = p.cells
            rows = [(YOURS, own, error), ("the model", model, model_error), ("measured", measured, "–")]
            rows = [row for row in rows if row[0] != "the model" or p.model]
            notes = [p.note] if p.note else []
            text = str(Table(("", "value", "error"), rows, caption=f"{title}. {p.sentence}", notes=notes, indent="  "))
            alt = f"{title}. " + "; ".join(f"{label} {value}" for label, value, _ in rows) + f". {p.note}".rstrip()
        else:
            text, alt = chart.text, chart.alt
        super().__init__(lambda look: chart.figure(look.name), title, alt, text)


def _bars(p: Commitment, title: str, note: str) -> Picture:
    """Draw three bars, in percent where they are shares."""
    bars, errors = {}, p.cells[3:]
    for label, found, error in zip((YOURS, "the model", "measured"), p.bars, (*errors, "–"), strict=True):
        if found is not None:
            bars[label if error == "–" else f"{label} ({error})"] = _ends(found, p.unit)
    return charts.bars(bars, unit=unit_word(p.unit), title=title, note=note)


def _lines(p: Curve, title: str, note: str) -> Picture:
    """Draw the measured curve over the predicted one, which is drawn first."""
    series = {YOURS: p.value and [_scaled(v, p.unit) for v in p.value]}
    for label, figures in (("the model", p.model), ("measured", p.measured)):
        series[label] = figures and [_ends(found, p.unit) for found in figures]
    series = {label: values for label, values in series.items() if values}
    axes = {"x_label": p.label or "at", "y_label": unit_word(p.unit), "log_x": p.at[0] > 0}
    return charts.lines(p.at, series, title=title, note=note, ideal=YOURS, **axes)


def _causes(p: CausePrediction, title: str, note: str) -> Picture:
    """Draw a bar for each cause, and mark the one that was chosen."""
    names = (f"{word} ← {YOURS}" if word == p.value else word for word in p.among)
    bars = {name: _ends(found, p.unit) for name, found in zip(names, p.measured, strict=True)}
    return charts.bars(bars, unit=unit_word(p.unit), title=title, note=note)


def _ends(found: Figure, unit: str) -> list[float]:
    """Return a number as a chart takes it: with the ends of its spread, where it has one."""
    ends = (found.low, found.middle, found.high) if found.has_spread else (found.middle,)
    return [_scaled(value, unit) for value in ends]


def _scaled(value: float, unit: str) -> float:
    return 100 * value if unit == "share" else value


@dataclass(frozen=True, repr=False)
class Summary(Tabular):
    """Every prediction of every notebook, as a table; made by `summary`.

    Parameters
    ----------
    predictions : list of Commitment, Curve and CausePrediction
        In the order of their names.
    damaged : int
        Files that could not be read.
    """

    predictions: list[Prediction]
    damaged: int

    def __len__(self) -> int:
        """Return the number of predictions."""
        return len(self.predictions)

    def table(self) -> Table:
        """Return the predictions, and the notes below them."""
        cells = [(p.name, *p.cells, p.verdict) for p in self.predictions]
        rows = [(*c[:2], *c[3:5], c[6]) for c in cells]
        models = Table(("prediction", "model", "its error"), [(c[0], c[2], c[5]) for c in cells if c[2] != "–"])
        head, title = ("prediction", "you", "measured", "your error", "verdict"), "what the models said"
        return Table(head if rows else (), rows, notes=self.notes, more=[models] * bool(models.rows), more_title=title)

    @property
    def notes(self) -> list[str]:
        """The lines below the table: how many are right, the median errors."""
        seen = [p for p in self.predictions if None not in (p.value, p.measured)]
        if not self.predictions:
            return ["No prediction has been committed yet: predictions.commit('02.gain', 1.3, unit='times')."]
        lines = [f"{sum(p.right for p in seen)} of {len(seen)} measured predictions are right."] * bool(seen)
        if unclear := sum(p.verdict == OPEN for p in seen):
            lines.append(f"The spread was too wide to tell for {unclear} of them.")
        if unjudged := sum(p.verdict == UNJUDGED for p in seen):
            lines.append(f"Not judged, as the measurement has no verdict: {unjudged} of them.")
        if left := sum(p.value is None for p in self.predictions):
            lines.append(f"No prediction was given for {left} of {len(self.predictions)}: they do not count.")
        points = [q for p in self.predictions if p.measured is not None for q in p.points if not q.doubt]
        own = [p.error for p in points if p.value is not None]
        for owner, errors in (("Your", own), ("The models'", [p.model_error for p in points])):
            if known := [abs(error) for error in errors if error is not None]:
                median, among = 100 * statistics.median(known), f"{len(known)} of {len(errors)} measured figures"
                lines.append(f"{owner} median error: {median:,.0f} % ({among}).")
        if self.damaged:
            lines.append(f"{self.damaged} file{'s' * (self.damaged > 1)} of predictions could not be read: left out.")
        return lines
