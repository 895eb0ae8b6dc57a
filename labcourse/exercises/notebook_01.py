"""Exercises of notebook 01, measure_a_naive_pipeline."""

from __future__ import annotations

from typing import Any

from labcourse.exercise_data import compared
from labcourse.grading import Wrong, shows
from labcourse.readings.pairs_and_photos import RatePair, picture
from labcourse.student_code import call, unwrapped

_VERDICTS = ("faster", "slower", "no difference")
_ROUNDS = (
    ([100.0, 104.0, 98.0, 101.0], [200.0, 205.0, 199.0, 203.0]),
    ([200.0, 205.0, 199.0, 203.0], [100.0, 104.0, 98.0, 101.0]),
    ([100.0, 140.0, 90.0, 120.0], [120.0, 110.0, 105.0, 100.0]),
    ([100.0, 150.0, 90.0, 120.0], [130.0, 198.0, 115.0, 160.0]),
    ([100.0, 104.0, 98.0, 101.0], [200.0, 205.0, 90.0, 203.0]),
    ([200.0, 90.0, 199.0, 203.0], [100.0, 104.0, 98.0, 101.0]),
    ([100.0, 104.0, 98.0, 101.0], [200.0, 104.0, 199.0, 203.0]),
    ([100.0, 104.0, 98.0, 101.0], [101.0, 105.0, 99.0, 102.0]),
    ([100.5, 104.5, 98.5], [100.75, 104.625, 98.52]),
    ([100.75, 104.625, 98.52], [100.5, 104.5, 98.5]),
    # The odd round may come first or last, too, and nobody said how many rounds there are.
    ([100.0, 104.0, 98.0, 101.0], [90.0, 205.0, 199.0, 203.0]),
    ([100.0, 104.0, 98.0], [200.0, 205.0, 90.0]),
    ([200.0, 104.0, 199.0], [100.0, 104.0, 98.0]),
    ([100.0] * 5, [120.0] * 4 + [90.0]),
    ([200.0, 205.0], [100.0, 104.0]),
    ([100.6, 104.6, 98.6], [100.75, 104.7, 98.8]),
)


def _verdict(function: Any, before: list[float], after: list[float]) -> str:
    """Return the student's verdict, one of three texts."""
    got = unwrapped(call(function, before, after))
    got = got.decode() if isinstance(got, bytes) else got  # TensorFlow's texts are bytes
    if not isinstance(got, str) or got not in _VERDICTS:
        raise Wrong(f"return 'faster', 'slower' or 'no difference', not {got!r:.40}")
    return got


def _rates(mine: str, before: list[float], after: list[float]) -> str:
    return f"before {before}, after {after}"


def _other_verdict(mine: str, right: str, case: tuple, every: Any) -> str:
    return f": not {mine}, but {right}"


@compared("01.3", *_ROUNDS, read=_verdict, where=_rates, differs=_other_verdict)
def honest_verdict(before: list[float], after: list[float]) -> Any:
    """``verdict(before, after)``: ``"faster"``, ``"slower"`` or ``"no difference"`` from images/s of paired rounds.

    Every round must point the same way, which `labkit.measures.compare_rates` asks of its first five rounds, too.
    """
    gains = [b / a - 1 for a, b in zip(before, after, strict=True)]

    def verdict(low: float, high: float, least: float = 0.0) -> str:
        return "faster" if low > least else "slower" if high < -least else "no difference"

    right, mean = verdict(min(gains), max(gains)), sum(after) - sum(before)
    return right, {
        "a round that is as fast as before got neither faster nor slower": verdict(min(gains), max(gains), -1e-9),
        "every round must point the same way, whatever the mean of them says": verdict(mean, mean),
        "the task asks for every round, if only by a little, not for how much": verdict(min(gains), max(gains), 0.05),
        "compare round by round, not best with worst": verdict(min(after) - max(before), max(after) - min(before)),
        "images/s, so more is faster": {"faster": "slower", "slower": "faster"}.get(right, right),
    }


@shows("01.3")
def paired_rounds(function: Any) -> Any:
    """Draw the rounds of four pairs, each with the student's verdict on it."""
    work = {"photos": 64, "pixels": "224×224"}
    pairs = {str(k): [{"rounds": rounds, **work} for rounds in pair] for k, pair in enumerate(_ROUNDS[1:5], 1)}
    said = {name: f"{name}: {_verdict(function, *(one['rounds'] for one in pair))}" for name, pair in pairs.items()}
    drawn = {name: RatePair(*pair) for name, pair in pairs.items()}
    return picture(drawn, said, "Four pairs, and what you say of each")
