"""Exercises of notebook 01, measure_a_naive_pipeline."""

from __future__ import annotations

from typing import Any

from labcourse import fairness
from labcourse.example_timeline import example, marks, simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import bare, call, numeric, per, pipeline, same_options, source, unwrapped, with_options
from labkit.pipelines.options import changed


@numeric("01.1", " images/s", (100, 32), (250, 64), (40, 1), (300, 32), (12.5, 7), (5000, 3))
def ingestion_rate(step_ms: float, batch: int) -> Any:
    """``images_per_s(step_ms, batch)``: what the job consumes."""
    return 1000 * batch / step_ms, {
        batch / step_ms: "the step is in milliseconds; a second has 1000 of them",
        batch / step_ms / 1000: "a step of so many milliseconds is a thousandth as many seconds: multiply by 1000",
        32_000 / step_ms: "the batch is an argument; do not write 32 into your answer",
        1000 / step_ms: "that is steps per second; every step brings a whole batch",
        step_ms * batch / 1000: "the longer a step, the fewer images per second: divide by the step",
        60_000 * batch / step_ms: "that is images per minute",
        step_ms / batch: "that is milliseconds per image, the inverse",
        1000 // step_ms * batch: "steps per second are no whole number: do not round them",
    }


@marks("01.1", "Steps of 100 ms, 32 images each.", 100, 32, batch=32)
def one_batch(rate: float) -> Any:
    """Draw the images of one step of 100 ms, batch 32, and when that many have come at the student's rate."""
    bars = [("images", "32 images", "other", 0, 100)]
    words = f"Yours is {rate:.4g} images/s: so fast, 32 images take {per(32e3, rate):.4g} ms."
    return bars, [(0, 100), (100, 200)], per(32e3, rate), words


@exercise("01.2")
def really_naive(function: Any) -> None:
    """``naive(dataset)``: the same elements, with nothing of tf.data's own overlap switched on."""
    made, given = with_options(function)
    options = made.options()
    if options.experimental_optimization.apply_default_optimizations is not False:
        raise Wrong(
            "tf.data still rewrites the graph: set options.experimental_optimization.apply_default_optimizations"
        )
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
    return simulated(made, (read, decode), 8, "What tf.data makes of a sequential map under your options")


@exercise("01.3")
def honest_verdict(function: Any) -> None:
    """``verdict(before, after)``: ``"faster"``, ``"slower"`` or ``"no difference"`` from images/s of paired rounds.

    Every round must point the same way, which `labkit.measures.compare_rates` asks of its first five rounds, too.
    """
    noisy = ([100.0, 140.0, 90.0, 120.0], [120.0, 110.0, 105.0, 100.0])
    cases = [
        ([100.0, 104.0, 98.0, 101.0], [200.0, 205.0, 199.0, 203.0], "faster"),
        ([200.0, 205.0, 199.0, 203.0], [100.0, 104.0, 98.0, 101.0], "slower"),
        (*noisy, "no difference"),
        ([100.0, 150.0, 90.0, 120.0], [130.0, 198.0, 115.0, 160.0], "faster"),
        ([100.0, 104.0, 98.0, 101.0], [200.0, 205.0, 90.0, 203.0], "no difference"),
        ([200.0, 90.0, 199.0, 203.0], [100.0, 104.0, 98.0, 101.0], "no difference"),
        ([100.0, 104.0, 98.0, 101.0], [200.0, 104.0, 199.0, 203.0], "no difference"),
        ([100.0, 104.0, 98.0, 101.0], [101.0, 105.0, 99.0, 102.0], "faster"),
        ([100.5, 104.5, 98.5], [100.75, 104.625, 98.52], "faster"),
        ([100.75, 104.625, 98.52], [100.5, 104.5, 98.5], "slower"),
        # The odd round may come first or last, too, and nobody said how many rounds there are.
        ([100.0, 104.0, 98.0, 101.0], [90.0, 205.0, 199.0, 203.0], "no difference"),
        ([100.0, 104.0, 98.0], [200.0, 205.0, 90.0], "no difference"),
        ([200.0, 104.0, 199.0], [100.0, 104.0, 98.0], "no difference"),
        ([100.0] * 5, [120.0] * 4 + [90.0], "no difference"),
        ([200.0, 205.0], [100.0, 104.0], "slower"),
        ([100.6, 104.6, 98.6], [100.75, 104.7, 98.8], "faster"),
    ]
    for before, after, expected in cases:
        got = unwrapped(call(function, before, after))
        got = got.decode() if isinstance(got, bytes) else got  # TensorFlow's texts are bytes
        if not isinstance(got, str) or got not in ("faster", "slower", "no difference"):
            raise Wrong(f"return 'faster', 'slower' or 'no difference', not {got!r:.40}")
        if got == expected:
            continue
        against = [(a - b) * (1 if got == "faster" else -1) <= 0 for b, a in zip(before, after, strict=True)]
        if expected == "no difference" and sum(against) == 1:
            text = f"before {before}, after {after}: round {against.index(True) + 1} is not {got}"
            raise Wrong(f"{text}; every round must point the same way, whatever the mean or most of them say")
        if expected == "no difference":
            raise Wrong("one round says faster and the next says slower: that is noise, not a verdict")
        least = min(abs(a - b) / b for b, a in zip(before, after, strict=True))
        if got == "no difference" and least < 0.05:
            little = f"{least:.0%}" if least >= 0.005 else f"{100 * least:.2f}%"
            text = f"every round got {expected}, if only by {little}".replace("%", " %")
            raise Wrong(f"{text}: the task asks for every round, not for how much")
        if got == "no difference":
            raise Wrong(
                "every round of the pair points the same way: compare round by round, not the best with the worst"
            )
        raise Wrong(f"before {before}, after {after}: images/s, so more is {expected}")


@shows("01.3")
def paired_rounds(function: Any) -> Any:
    """Draw four paired rounds of 100 images each, and the student's verdict beside them."""
    before, after = [100.0, 140.0, 90.0, 120.0], [120.0, 110.0, 105.0, 100.0]
    bars, now = [], 0.0
    for number_, rates in enumerate(zip(before, after, strict=True), 1):
        for name, rate in zip(("before", "after"), rates, strict=True):
            bars.append((name, f"round {number_}: {rate:g} images/s", "other", now, now + 1e5 / rate))
            now += 1e5 / rate
    words = f"Your verdict: {call(function, before, after)!r:.40}."
    return example(bars, [(0, now)], "100 images a round", "Paired rounds, in turn.", words=words)
