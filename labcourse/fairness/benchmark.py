"""Relative measurement: pipelines in turn in one process, and what may be concluded from it.

Three pipelines run in every round: the slow pipeline of the task, the lab's own answer, and the student's answer. No
time in seconds is compared with a fixed number: each round gives ratios. The lab's own answer runs under the same
noise, so it shows whether this machine can separate a slow pipeline from a fast one at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.common.other_programs import BUSY, Meter

#: Rounds of the first attempt and of the one retry: the least of three, then of nine.
ROUNDS = (3, 6)

_NEAR = 0.9  # of the way from no gain to enough: too near to be called a miss

PASSED, FAILED, UNCLEAR = "passed", "failed", "unclear"


@dataclass(frozen=True)
class Benchmark:
    """What was measured.

    Parameters
    ----------
    verdict : str
        ``passed``, ``failed`` or ``unclear``.
    gain, control : float
        How many times faster than the slow pipeline the student's and the lab's own were: the least time of each.
    """

    verdict: str
    gain: float
    control: float


def threshold(expected: float) -> float:
    """Return the gain that is enough where `expected` is to be had: its root, and three quarters of it at most."""
    return min(expected**0.5, 0.75 * expected)


def run(
    slow: Callable[[], Any], good: Callable[[], Any], mine: Callable[[], Any], train_ms: float, enough: float
) -> Benchmark:
    """Let three pipelines run in turn and judge the third.

    Parameters
    ----------
    slow, good, mine : callable
        Return a new ``tf.data.Dataset`` of the same elements each time.
    train_ms : float
        How long the consumer holds each element, asleep, in milliseconds.
    enough : float
        The gain over `slow` that passes.

    Returns
    -------
    Benchmark

    Notes
    -----
    It passes where the least times reach `enough`, and two rounds of three do. It fails only after both attempts,
    where no round but one came near it, while the lab's own answer would have passed. All else is unclear. The second
    attempt adds its rounds to those of the first.
    """
    times: dict[str, list[float]] = {"slow": [], "good": [], "mine": []}
    made = {"slow": slow(), "good": good(), "mine": mine()}
    since = Meter()
    for attempt, rounds in enumerate(ROUNDS):
        for number in range(rounds):
            order = list(made)
            for name in order[number % 3 :] + order[: number % 3]:
                times[name].append(_seconds(made[name], train_ms))
        verdict = judged(times, enough, since.share(), last=attempt == len(ROUNDS) - 1)
        if verdict != UNCLEAR:
            break
    least = {name: min(values) for name, values in times.items()}
    return Benchmark(verdict, least["slow"] / least["mine"], least["slow"] / least["good"])


def judged(times: dict[str, list[float]], enough: float, load: float, last: bool) -> str:
    """Return the verdict on times of equal rounds.

    Parameters
    ----------
    times : dict of str to list of float
        Seconds of each round of ``"slow"``, ``"good"`` and ``"mine"``.
    enough : float
        The gain of ``"mine"`` over ``"slow"`` that passes.
    load : float
        Share of the cores, 0 to 1, that other programs took; NaN if it is not known.
    last : bool
        Whether no other attempt follows. Before the last one nobody fails.
    """
    slow = np.array(times["slow"])
    pairs = {name: np.sort(slow / np.array(times[name])) for name in ("mine", "good")}
    gain = {name: slow.min() / min(times[name]) for name in pairs}
    reached = {name: gain[name] >= enough and np.mean(pairs[name] >= enough) >= 2 / 3 for name in pairs}
    if reached["mine"]:
        return PASSED
    if not last or not reached["good"]:
        return UNCLEAR
    near = 1 + _NEAR * (enough - 1)
    # On a machine at rest the least of nine is no accident; on a busy one eight of the nine must say the same.
    return FAILED if gain["mine"] < near and (load < BUSY or pairs["mine"][-2] < near) else UNCLEAR


def _seconds(dataset: Any, train_ms: float) -> float:
    """Return the time of an epoch, its iterator included."""
    began = time.perf_counter()
    for _ in dataset:
        time.sleep(train_ms / 1e3)
    return time.perf_counter() - began
