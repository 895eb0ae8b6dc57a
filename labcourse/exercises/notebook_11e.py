"""Exercises of notebook 11e, go_deeper."""

from __future__ import annotations

import operator
import statistics
from typing import Any

from labcourse.exercise_data import compared, numeric
from labcourse.exercise_pictures import blocks
from labcourse.grading import Wrong, shows
from labcourse.student_code import call, unwrapped


@numeric("11.8", " layers", ([3, 4, 6, 3],), ([1, 1, 1],), ([5, 5, 5],), ([2, 0, 1],), ([40, 33],), along=None)
def layers_in_a_row(blocks: list[int]) -> Any:
    """``depth(blocks)``: the first convolution, two for each block, and the last layer."""
    count, stages = sum(blocks), len(blocks)
    return 2 + 2 * count, {
        "the first convolution and the last layer count, too": 2 * count,
        "two layers are outside of the blocks: the first convolution and the last layer": 1 + 2 * count,
        "a block has two convolutions": 2 + count,
        "that counts the stages; a stage has several blocks": 2 + 2 * stages,
        "shortcuts do not lie in the row": 2 + 3 * count,
    }


_RUNS = (
    ([92.1, 92.8, 91.8], [87.9, 89.9, 88.0]), ([16.4, 29.9, 27.9], [92.1, 92.8, 91.8]),
    ([92.1, 92.8, 91.8], [91.0, 91.0, 92.0]), ([90.0, 91.0], [91.0, 92.0]), ([91.0, 92.0], [90.0, 91.0]),
    ([80.0, 99.0, 85.0], [90.0, 86.0]), ([90.0, 91.0, 92.0, 93.0], [89.0]), ([60.0, 95.0, 96.0], [70.0, 71.0, 72.0]),
    ([90.4, 90.3], [90.2, 90.1]), ([80.0, 95.0, 99.0], [79.5, 79.0, 60.0]),
)  # fmt: skip


def _true_or_false(function: Any, one: list[float], other: list[float]) -> bool:
    got = unwrapped(call(function, one, other))
    if not isinstance(got, bool):
        raise Wrong(f"return True or False, not {got!r:.40}")
    return got


def _returned(mine: bool, one: list[float], other: list[float]) -> str:
    return f"for {one} and {other} you return {mine}"


def _apart(mine: bool, right: bool, case: tuple, every: Any) -> str:
    return ": they are apart" if right else ": they are not apart"


@compared("11.9", *_RUNS, read=_true_or_false, same=operator.is_, where=_returned, differs=_apart)
def runs_apart(one: list[float], other: list[float]) -> Any:
    """``worth_reporting(one, other)``: whether all runs of one lie on one side of all runs of the other."""
    middle = statistics.median(one) > max(other) or statistics.median(one) < min(other)
    first, second = ([round(run) for run in runs] for runs in (one, other))
    return min(one) > max(other) or max(one) < min(other), {
        "the means differ, but the runs overlap": statistics.mean(one) != statistics.mean(other),
        "it holds in both directions": min(one) > max(other),
        "runs that touch are not apart": min(one) >= max(other) or max(one) <= min(other),
        "one low run is a run, too: no median": middle,
        "they are apart, if only by a tenth: do not round": min(first) > max(second) or max(first) < min(second),
    }


@shows("11.9")
def runs_on_a_ruler(function: Any) -> Any:
    """Draw from the lowest to the highest run of two lists, and write the student's verdict above."""
    one, other = [87.9, 89.9, 88.0], [92.1, 92.8, 89.4]
    verdict = _true_or_false(function, one, other)
    lanes = {f"{min(v)} – {max(v)} %": [("", "train", min(v) - 85, max(v) - 85)] for v in (one, other)}
    return blocks(f"Runs of {one} and of {other}.", "points above 85 %", lanes, f"Yours is {verdict}.")
