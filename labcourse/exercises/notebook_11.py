"""Exercises of notebook 11, train_a_real_model, and of 11b, count_what_errors_cost."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from labcourse.example_timeline import marks
from labcourse.grading import Wrong, exercise
from labcourse.student_code import call, numeric
from labextras import checks
from labkit.sources import pixels
from labkit.sources.photo_files import generator


@numeric("11.1", " photos", (0.9, 2), (0.5, 4), (0.92, 1), (0.8, 0.5))
def photos_for_an_interval(accuracy: float, points: float) -> Any:
    """``photos_needed(accuracy, points)``: held-out photos for a 95 % interval of so many points to each side."""
    spread, half = accuracy * (1 - accuracy), 1.96 * 100 / points
    exact = spread * half**2
    return math.ceil(exact), {
        math.floor(exact): "round up: with one photo less the interval is wider than asked",
        exact: "return a whole number of photos, rounded up",
        math.ceil(spread * (2 * half) ** 2): "the points are those to each side, half of the interval",
        math.ceil(spread * (half / 2) ** 2): "the points are those to each side, not both sides together",
        math.ceil(exact) + 1: "one too many: with one photo less the interval is as narrow as asked",
        math.ceil(spread * half): "n stands below the root: the ratio is squared",
        math.ceil(math.sqrt(spread) * half): "n stands below the root: square both sides",
        math.ceil(spread * (half / 100) ** 2): "points are hundredths: 2 points are 0.02",
        math.ceil(accuracy * half**2): "the variance of right or wrong is p · (1 − p), not p",
        math.ceil((1 - accuracy) * half**2): "the variance of right or wrong is p · (1 − p), not 1 − p",
        math.ceil(0.25 * half**2): "that is the worst case, p = 0.5; here the accuracy is known",
        math.ceil(spread * (100 / points) ** 2): "a 95 % interval reaches 1.96 standard deviations, not one",
        math.ceil(spread * (1.645 * 100 / points) ** 2): "1.645 belongs to an interval of 90 %",
        math.ceil(spread * (2.576 * 100 / points) ** 2): "2.576 belongs to an interval of 99 %",
        math.ceil(spread * (200 / points) ** 2): "a 95 % interval reaches 1.96 standard deviations; do not round to 2",
        math.ceil((100 / points) ** 2): "one over the root of n forgets the spread, and that the accuracy is known",
    }


@numeric(
    "11.2",
    " s",
    (1046, 10_000, 35, 1.3),
    (100, 1_000, 50, 0),
    (60, 525, 80, 79),
    (30, 400, 5, 20),
    (0.75, 10, 30, 5),
    (12.5, 7, 3.25, 1.125),
)
def training_without_waits(before_s: float, steps: int, wait_before_ms: float, wait_after_ms: float) -> Any:
    """``total_s(before_s, steps, wait_before_ms, wait_after_ms)``: how long a training takes with other waits."""
    saved = steps * (wait_before_ms - wait_after_ms)
    share = wait_after_ms / wait_before_ms
    return before_s - saved / 1e3, {
        before_s - saved: "the waits are in milliseconds and the total is in seconds",
        before_s + saved / 1e3: "the sign: a shorter wait makes the training shorter",
        1e3 * before_s - saved: "that is milliseconds; return seconds",
        steps * wait_after_ms / 1e3: "that is the time of the waits alone; the train steps stay",
        before_s + steps * wait_after_ms / 1e3: "the old waits are in before_s: take them away",
        before_s - steps * (wait_before_ms + wait_after_ms) / 1e3: "the new wait is not taken away: it comes",
        saved / 1e3: "that is the time that is saved, not the time that the training takes",
        before_s - (wait_before_ms - wait_after_ms) / 1e3: "every step waits, not one",
        before_s - steps * wait_before_ms / 1e3: "the new wait is not nothing: it stays in each step",
        before_s - steps * wait_before_ms / 1e3 + wait_after_ms / 1e3: "the new wait comes in each step, not once",
        before_s * share: "only the waits become shorter; the train steps stay",
        before_s - max(0.0, saved) / 1e3: "a wait can also become longer",
        max(0.0, before_s - saved / 1e3): "a wait can also become longer",
    }


@marks("11.2", "Four steps of 50 ms, of which 30 ms are a wait; with another pipeline 5 ms.", 0.2, 4, 30, 5)
def four_steps(total: float) -> Any:
    """Draw four steps with a wait of 5 ms in place of 30 ms."""
    trains = [(25 * i + 5, 25 * i + 25) for i in range(4)]
    bars = [("input pipeline", "wait", "batch", 25 * i, 25 * i + 5) for i in range(4)]
    return bars, trains, 1e3 * total, f"Yours is {total:.4g} s for all four."


@exercise("11.3")
def paired_loss(function: Any) -> None:
    """``lost(right, other)``: points that are lost, and half of the 95 % interval of paired differences."""
    dice = np.random.default_rng(11)
    for count, lower in ((400, 0.1), (2_000, 0.02), (50, 0.0)):
        right = dice.random(count) < 0.9
        other = right & (dice.random(count) >= lower)
        other[:3] ^= True  # some photos are named right by the worse model only
        _paired(function, right, other)
        _paired(function, other, right)


def _paired(function: Any, right: np.ndarray, other: np.ndarray) -> None:
    got = call(function, right.copy(), other.copy())
    try:
        points, half = (float(np.asarray(one)) for one in got)
    except (TypeError, ValueError):
        raise Wrong(f"return two numbers, points and half width, not {got!r:.60}") from None
    count, pairs = len(right), right.astype(float) - other
    expected, wide = 100 * pairs.mean(), 196 * pairs.std() / math.sqrt(count)
    alone = 196 * math.sqrt((right.var() + other.var()) / count)

    def near(one: float, two: float) -> bool:
        return math.isclose(
            one, two, rel_tol=0.5 / (count - 1) + 1e-6, abs_tol=1e-9
        )  # a sample's deviation is right, too

    text = f"for {count} photos you return {points:g} and {half:g}"
    if near(points, -expected) and not near(points, expected):
        raise Wrong(f"{text}: the sign: a positive number says that `other` is worse")
    if near(points, expected / 100) and expected:
        raise Wrong(f"{text}: percentage points are 100 times a share")
    if near(points, wide) and near(half, expected) and not near(points, expected):
        raise Wrong(f"{text}: the two numbers have changed places")
    if near(points, count * expected / 100) and not near(points, expected):
        raise Wrong(f"{text}: that is a number of photos; percentage points are 100 times a share of all")
    if not near(points, expected):
        raise Wrong(f"{text}; expected {expected:g} points")
    for idea, hint in (
        (wide / 100, "the half width is in percentage points, too"),
        (alone, "that is the interval of two independent groups of photos; here they are pairs of the same photos"),
        (2 * wide, "that is the whole width; the half is asked for"),
        (wide / 1.96, "a 95 % interval reaches 1.96 standard errors, not one"),
        (wide * math.sqrt(count), "that is the spread of single photos; the mean of n has a root of n in it"),
        (100 * (1.96 * pairs.var() / math.sqrt(count)), "take the standard deviation, not the variance"),
        (wide * 2 / 1.96, "a 95 % interval reaches 1.96 standard errors; do not round to 2"),
        (wide * 1.645 / 1.96, "1.645 belongs to an interval of 90 %"),
        (196 * math.sqrt(right.var() / count), "that is the interval of `right` alone; take that of the differences"),
        (196 * math.sqrt(other.var() / count), "that is the interval of `other` alone; take that of the differences"),
        (wide / math.sqrt(count), "divide by the root of the number, not by the number"),
    ):
        if near(half, idea) and not near(half, wide):
            raise Wrong(f"{text}: {hint}")
    if not near(half, wide):
        raise Wrong(f"{text}; expected a half width of {wide:g}")


@exercise("11.4")
def served_as_trained(function: Any) -> None:
    """``serve(path)``: what the model was trained with, from a file."""
    from labcourse.training import normalised

    def trained(path: str) -> np.ndarray:
        return normalised(pixels.shrink(Path(path).read_bytes()).numpy().astype(np.float32) / 255)

    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{number}.jpg" for number in range(6)]
        for number, file in enumerate(files):
            Path(file).write_bytes(generator.make(number, 11))
        served = {file: np.asarray(call(function, file)) for file in files}
        try:
            found = checks.serving(trained, served.__getitem__, files)
        except (TypeError, ValueError) as error:
            raise Wrong(str(error).replace("serve_fn", "serve")) from None
        if not found.equal:
            raise Wrong(f"it differs from the training, first here: {found.first}: {found.differences[0].what}")
        away = max(float(np.abs(served[file] - trained(file)).mean()) for file in files)
    if 5e-4 < away <= 0.02:
        words = "decode with INTEGER_ACCURATE, round to whole grey levels, divide by 255"
        raise Wrong(f"the values differ by {away:.2g} on average, which is little, but not nothing: {words}")
    if away > 0.02:
        raise Wrong(
            f"the values differ by {away:.2g} on average: is it resized as in the training, bilinear with antialias?"
        )
