"""Exercises of notebook 11, train_a_real_model, and of 11b, count_what_errors_cost."""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labcourse.exercise_data import alike, compared, numeric
from labcourse.exercise_pictures import images
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call
from labextras import checks
from labkit.sources import pixels
from labkit.sources.photo_files import generator


@numeric("11.1", " photos", (0.9, 2), (0.5, 4), (0.92, 1), (0.8, 0.5))
def photos_for_an_interval(accuracy: float, points: float) -> Any:
    """``photos_needed(accuracy, points)``: held-out photos for a 95 % interval of so many points to each side."""
    spread, half = accuracy * (1 - accuracy), 1.96 * 100 / points
    exact = spread * half**2
    return math.ceil(exact), {
        "round up: with one photo less the interval is wider than asked": math.floor(exact),
        "return a whole number of photos, rounded up": exact,
        "the points are those to each side, half of the interval": math.ceil(spread * (2 * half) ** 2),
        "points are hundredths: 2 points are 0.02": math.ceil(spread * (half / 100) ** 2),
        "that is the worst case, p = 0.5; here the accuracy is known": math.ceil(0.25 * half**2),
    }


def _predictions() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield which photos two models name right, and the same turned round."""
    dice = np.random.default_rng(11)
    for count, lower in ((400, 0.1), (2_000, 0.02), (50, 0.0)):
        right = dice.random(count) < 0.9
        other = right & (dice.random(count) >= lower)
        other[:3] ^= True  # some photos are named right by the worse model only
        yield from ((right, other), (other, right))


def _points_and_half(function: Any, right: np.ndarray, other: np.ndarray) -> tuple[float, float, int]:
    """Return the student's two numbers, and the number of photos."""
    got = call(function, right.copy(), other.copy())
    try:
        points, half = (float(np.asarray(one)) for one in got)
    except (TypeError, ValueError):
        raise Wrong(f"return two numbers, points and half width, not {got!r:.60}") from None
    return points, half, len(right)


def _near(mine: tuple[float, float, int], other: tuple[float, float, int], parts: int = 2) -> bool:
    """Compare both numbers, within what the deviation of a sample differs by, or the first one alone."""
    near = functools.partial(math.isclose, rel_tol=0.5 / (mine[2] - 1) + 1e-6, abs_tol=1e-9)
    return all(map(near, mine[:parts], other[:parts]))


def _returned(mine: tuple[float, float, int], *case: np.ndarray) -> str:
    return f"for {mine[2]} photos you return {mine[0]:g} and {mine[1]:g}"


def _other_loss(mine: tuple, right: tuple, case: tuple, every: Any) -> str:
    return f"; expected a half width of {right[1]:g}" if _near(mine, right, 1) else f"; expected {right[0]:g} points"


@compared("11.3", *_predictions(), read=_points_and_half, same=_near, where=_returned, differs=_other_loss)
def paired_loss(right: np.ndarray, other: np.ndarray) -> Any:
    """``lost(right, other)``: points that are lost, and half of the 95 % interval of paired differences."""
    pairs = right.astype(float) - other
    points, half = 100 * pairs.mean(), 196 * pairs.std() / math.sqrt(len(pairs))
    alone = 196 * math.sqrt((right.var() + other.var()) / len(pairs))
    ideas = {
        "the sign: a positive number says that `other` is worse": (-points, half),
        "percentage points are 100 times a share": (points / 100, half / 100),
        "one that only `other` names right is won: do not count all that differ": (100 * np.abs(pairs).mean(), half),
        "that is the interval of two independent groups; here they are pairs of the same photos": (points, alone),
        "a 95 % interval reaches 1.96 standard errors, not one": (points, half / 1.96),
    }
    return (points, half, len(pairs)), {hint: (*numbers, len(pairs)) for hint, numbers in ideas.items()}


def _trained(path: str) -> np.ndarray:
    from labcourse.training import normalised

    return normalised(pixels.shrink(Path(path).read_bytes()).numpy().astype(np.float32) / 255)


@exercise("11.4")
def served_as_trained(function: Any) -> None:
    """``serve(path)``: what the model was trained with, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{number}.jpg" for number in range(6)]
        for number, file in enumerate(files):
            Path(file).write_bytes(generator.make(number, 11))
        served = {file: np.asarray(call(function, file)) for file in files}
        try:
            found = checks.serving(_trained, served.__getitem__, files)
        except (TypeError, ValueError) as error:
            raise Wrong(str(error).replace("serve_fn", "serve")) from None
        if not found.equal:
            raise Wrong(f"it differs from the training, first here: {found.first}: {found.differences[0].what}")
        away = max(float(np.abs(served[file] - _trained(file)).mean()) for file in files)
    words = ": is it resized as in the training, bilinear with antialias?"
    if away <= 0.02:
        words = ": little, but not nothing: decode with INTEGER_ACCURATE, round to whole grey levels, divide by 255"
    if away > 5e-4:
        raise Wrong(f"the values differ by {away:.2g} on average{words}")


@shows("11.4")
def served_beside_trained(function: Any) -> Any:
    """Draw a photo as the model was trained with it, and as the student serves it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "photo.jpg")
        file.write_bytes(generator.make(3, 7))
        photo, right = pixels.shrink(file.read_bytes()).numpy(), _trained(str(file))
        made = alike(np.squeeze(np.asarray(call(function, str(file)))), right)
    low, high = float(right.min()), float(right.max())
    return images({"": (photo, made, right)}, "One photo as it is served.", low, high)
