"""Exercises of notebook 01, measure_a_naive_pipeline."""

from __future__ import annotations

from typing import Any

from labcourse import fairness
from labcourse.exercise_data import compared, numeric
from labcourse.exercise_pictures import simulated, slopes
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import bare, pipeline, same_options, source, with_options
from labcourse.student_code import call, unwrapped
from labkit.pipelines.options import changed


@numeric("01.1", " images/s", (100, 32), (250, 64), (40, 1), (300, 32), (12.5, 7), (5000, 3), along=None)
def ingestion_rate(step_ms: float, batch: int) -> Any:
    """``images_per_s(step_ms, batch)``: what the job consumes."""
    return 1000 * batch / step_ms, {
        "the step is in milliseconds; a second has 1000 of them": batch / step_ms,
        "a step of so many milliseconds is a thousandth as many seconds: multiply by 1000": batch / step_ms / 1000,
        "the batch is an argument; do not write 32 into your answer": 32_000 / step_ms,
        "that is steps per second; every step brings a whole batch": 1000 / step_ms,
        "that is milliseconds per image, the inverse": step_ms / batch,
    }


@exercise("01.2")
def really_naive(function: Any) -> None:
    """``naive(dataset)``: the same elements, with nothing of tf.data's own overlap switched on."""
    made, given = with_options(function)
    options = made.options()
    if options.experimental_optimization.apply_default_optimizations is not False:
        raise Wrong("tf.data rewrites the graph: set options.experimental_optimization.apply_default_optimizations")
    if options.autotune.enabled is not False:
        raise Wrong("the rewrites are off, but autotuning is still on: set options.autotune.enabled")
    if bare(made) is not given:
        raise Wrong("the options are right, but there is more than options in it: with_options() alone is naive")
    group = "experimental_optimization."
    for name, value in changed(made).items():
        if name.startswith(group) and value != "False":
            raise Wrong(f"options.{name} is {value}: that switches one of the rewrites on again")
    off = {name.replace(".", "__"): "False" for name in changed(made) if name.startswith(group)}
    same_options(made, given, autotune__enabled="False", **off)


@shows("01.2")
def naive_or_not(function: Any) -> Any:
    """Draw a pipeline under the options that the student sets: tf.data's own prefetch is there, or not."""
    read, decode = fairness.Stage("read", 3, asleep=True), fairness.Stage("decode", 5)
    made = pipeline(function, source(4, naive=False).map(lambda x: decode(read(x))))
    return simulated("01.2", made, (read, decode), 8, "What tf.data makes of a sequential map under your options")


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


@compared(
    "01.3",
    *_ROUNDS,
    read=_verdict,
    where=lambda mine, before, after: f"before {before}, after {after}",
    differs=lambda mine, right, case, every: f": not {mine}, but {right}",
)
def honest_verdict(before: list[float], after: list[float]) -> Any:
    """``verdict(before, after)``: ``"faster"``, ``"slower"`` or ``"no difference"`` from images/s of paired rounds.

    Every round must point the same way, which `labkit.measures.compare_rates` asks of its first five rounds, too.
    """
    gains = [b / a - 1 for a, b in zip(before, after, strict=True)]

    def verdict(low: float, high: float, least: float = 0.0) -> str:
        return "faster" if low > least else "slower" if high < -least else "no difference"

    right, mean = verdict(min(gains), max(gains)), sum(after) - sum(before)
    ups, downs = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return right, {
        "every round must point the same way, whatever the mean of them says": verdict(mean, mean),
        "every round must point the same way, whatever most of them say": verdict(ups - downs, ups - downs),
        "the task asks for every round, if only by a little, not for how much": verdict(min(gains), max(gains), 0.05),
        "compare round by round, not best with worst": verdict(min(after) - max(before), max(after) - min(before)),
        "images/s, so more is faster": {"faster": "slower", "slower": "faster"}.get(right, right),
    }


@shows("01.3")
def paired_rounds(function: Any) -> Any:
    """Draw four paired rounds as slopes, and the student's verdict in words."""
    before, after = [100.0, 140.0, 90.0, 120.0], [120.0, 110.0, 105.0, 100.0]
    rounds = {f"round {i}": pair for i, pair in enumerate(zip(before, after, strict=True), 1)}
    words = f"Your verdict: {call(function, before, after)!r:.40}."
    return slopes(rounds, ("before", "after"), "images/s", "Four paired rounds.", words)
