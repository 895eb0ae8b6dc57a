"""A prediction beside its measurement as a picture, and all of them as a table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from labcourse.predictions.figures import CLOSE, NONE, OPEN, RIGHT, WIDE, Commitment, percent, unit_word
from labkit.common.table import Table, Tabular
from labkit.views import charts
from labkit.views.picture import Picture


class Review(Picture):
    """Prediction, model and measurement as three bars with their errors; made by `review`.

    Parameters
    ----------
    prediction : Commitment
        With its measurement.
    """

    def __init__(self, prediction: Commitment) -> None:
        self.prediction = p = prediction
        self.verdict = p.verdict
        scale = 100 if p.unit == "share" else 1  # drawn in percent
        rows, bars = [], {}
        labels = ("your prediction", "the model", "measured")
        for label, found, error in zip(labels, p.figures, (p.error, p.model_error, None), strict=True):
            if found is None and label == labels[0]:
                rows.append((label, NONE, "–"))
            elif found is not None:
                rows.append((label, found.words(p.unit), "–" if error is None else percent(error)))
                spread = (found.low, found.middle, found.high) if found.has_spread else (found.middle,)
                bars[label if error is None else f"{label} ({percent(error)})"] = [scale * v for v in spread]
        sentence, title = _sentence(p), f"{p.name}: {p.verdict}"
        chart = charts.bars(bars, unit=unit_word(p.unit), title=title, note=f"{sentence} {p.note}".strip())
        notes = [p.note] if p.note else []
        text = str(Table(("", "value", "error"), rows, caption=f"{title}. {sentence}", notes=notes, indent="  "))
        alt = f"{title}. " + "; ".join(f"{label} {value}" for label, value, _ in rows) + f". {p.note}".rstrip()
        super().__init__(lambda look: chart.figure(look.name), title, alt, text)


def _sentence(p: Commitment) -> str:
    """Return the verdict in one sentence."""
    if p.value is None:
        return "You gave no number, so the measurement stands alone and nothing is counted."
    if p.verdict == OPEN:
        spread = f"the spread is wider than ±{100 * WIDE:.0f} %, so many others would fit as well"
        return f"Your number fits, but {spread}: nothing can be told. Measure again on a quieter machine."
    if p.error is None:
        return "The measured value is 0, so there is no error in percent."
    if p.verdict == RIGHT:
        return f"Your number is {percent(p.error)} off, within {100 * CLOSE:.0f} %: right."
    points = f" ({100 * abs(p.value - p.measured.middle):.0f} points)" if p.unit == "share" else ""
    side = "above" if p.error > 0 else "below"
    return f"Your number is {100 * abs(p.error):,.0f} %{points} {side} what was measured."


@dataclass(frozen=True, repr=False)
class Summary(Tabular):
    """Every prediction of every notebook, as a table; made by `summary`.

    Parameters
    ----------
    predictions : list of Commitment
        In the order of their names.
    damaged : int
        Files that could not be read.
    """

    predictions: list[Commitment]
    damaged: int

    def __len__(self) -> int:
        """Return the number of predictions."""
        return len(self.predictions)

    def table(self) -> Table:
        """Return the predictions, and the notes below them."""
        rows = []
        for p in self.predictions:
            errors = ("–" if e is None else percent(e) for e in (p.error, p.model_error))
            own, *figures = ("–" if f is None else f.words(p.unit) for f in p.figures)
            rows.append((p.name, NONE if p.value is None else own, *figures, *errors, p.verdict))
        head = ("prediction", "you", "model", "measured", "your error", "model's error", "verdict")
        return Table(head if rows else (), rows, notes=self.notes)

    @property
    def notes(self) -> list[str]:
        """The lines below the table: how many are right, the median errors."""
        given = [p for p in self.predictions if p.value is not None]
        seen = [p for p in given if p.measured is not None]
        if not self.predictions:
            return ["No prediction has been committed yet: predictions.commit('02.gain', 1.3, unit='times')."]
        lines = [f"{sum(p.right for p in seen)} of {len(seen)} measured predictions are right."]
        if unclear := sum(p.verdict == OPEN for p in seen):
            lines.append(f"The spread was too wide to tell for {unclear} of them.")
        if left := len(self.predictions) - len(given):
            lines.append(f"No prediction was given for {left} of {len(self.predictions)}: they do not count.")
        measured = [p for p in self.predictions if p.measured is not None]
        for owner, errors, among in (
            ("Your", [abs(p.error) for p in seen if p.error is not None], seen),
            ("The models'", [abs(p.model_error) for p in measured if p.model_error is not None], measured),
        ):
            if errors:
                median = 100 * statistics.median(errors)
                lines.append(f"{owner} median error: {median:,.0f} % ({len(errors)} of {len(among)} measured).")
        if self.damaged:
            lines.append(f"{self.damaged} file{'s' * (self.damaged > 1)} of predictions could not be read: left out.")
        return lines
