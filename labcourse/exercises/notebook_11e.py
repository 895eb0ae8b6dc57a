"""Exercises of notebook 11e, go_deeper."""

from __future__ import annotations

import math
from typing import Any

from labcourse.grading import Wrong, exercise
from labcourse.student_code import call, numeric, unwrapped


@numeric("11.8", " layers", ([3, 4, 6, 3],), ([1, 1, 1],), ([5, 5, 5],), ([2, 0, 1],), ([40, 33],))
def layers_in_a_row(blocks: list[int]) -> Any:
    """``depth(blocks)``: the first convolution, two for each block, and the last layer."""
    count, stages = sum(blocks), len(blocks)
    return 2 + 2 * count, {
        2 * count: "the first convolution and the last layer count, too",
        count: "a block has two convolutions, and two layers are outside of the blocks",
        2 * (count + 2): "the first convolution and the last layer are one layer each",
        4 * count + 2: "a block has two convolutions, not four",
        1 + 2 * count: "two layers are outside of the blocks: the first convolution and the last layer",
        2 + count: "a block has two convolutions",
        2 + 2 * stages: "that counts the stages; a stage has several blocks",
        2 + 2 * math.prod(blocks): "the blocks of the stages stand in a row: add them",
        2 + 2 * count + stages - 1: "convolutions in shortcuts do not lie in the row",
        2 + 3 * count: "shortcuts do not lie in the row",
        3 + 2 * count: "pooling has no weights and is no layer of this count",
    }


@exercise("11.9")
def runs_apart(function: Any) -> None:
    """``worth_reporting(one, other)``: whether all runs of one lie on one side of all runs of the other."""
    cases = [
        ([92.1, 92.8, 91.8], [87.9, 89.9, 88.0], True, "every run of the first is above every run of the second"),
        ([16.4, 29.9, 27.9], [92.1, 92.8, 91.8], True, "it holds in both directions"),
        ([92.1, 92.8, 91.8], [91.0, 91.0, 92.0], False, "the means differ, but the runs overlap"),
        ([90.0, 91.0], [91.0, 92.0], False, "runs that touch are not apart"),
        ([91.0, 92.0], [90.0, 91.0], False, "runs that touch are not apart"),
        ([80.0, 99.0, 85.0], [90.0, 86.0], False, "the best run alone says nothing"),
        ([90.0, 91.0, 92.0, 93.0], [89.0], True, "the lists can have different lengths"),
        ([60.0, 95.0, 96.0], [70.0, 71.0, 72.0], False, "one low run is a run, too: no median"),
        ([90.4, 90.3], [90.2, 90.1], True, "they are apart, if only by a tenth: do not round"),
        ([80.0, 95.0, 99.0], [79.5, 79.0, 60.0], True, "they are apart, however far the runs of each scatter"),
    ]
    for one, other, expected, why in cases:
        got = unwrapped(call(function, list(one), list(other)))
        if not isinstance(got, bool):
            raise Wrong(f"return True or False, not {got!r:.40}")
        if got != expected:
            raise Wrong(f"for {one} and {other} you return {got}: {why}")
