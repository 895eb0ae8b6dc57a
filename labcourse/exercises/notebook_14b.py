"""Exercises of notebook 14b, train_on_several_processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labcourse.exercise_data import compared, numeric
from labcourse.exercise_pictures import parts
from labcourse.grading import shows
from labcourse.student_code import call, whole_numbers

_BATCHES = [([7 * n % 23 for n in range(size)], count) for size, count in ((8, 2), (12, 3), (6, 1), (20, 4), (10, 5))]
_CASES = [(batch, process, count) for batch, count in _BATCHES for process in range(count)]


def _part(function: Any, batch: list[int], process: int, count: int) -> list[int]:
    nested = "return the numbers of this one process, not the parts of all"
    return whole_numbers(call(function, batch, process, count), _place(None, batch, process, count), nested)


def _place(mine: Any, batch: list[int], process: int, count: int) -> str:
    return f"process {process} of {count}, batch {batch}"


def _other_part(mine: list[int], right: list[int], case: tuple, every: Any) -> str:
    if len(mine) != len(right):
        return f": a part has {len(right)} numbers, you return {len(mine)}"
    return f": expected {right}, got {mine}"


@compared("14.4", *_CASES, read=_part, where=_place, differs=_other_part)
def my_part(batch: list[int], process: int, count: int) -> Any:
    """``mine(batch, process, count)``: the part of a batch that one of several processes trains on."""
    size = len(batch) // count
    begin, other = process * size, (count - 1 - process) * size
    return batch[begin : begin + size], {
        "these are the places in the batch; the task asks for the numbers there": [*range(begin, begin + size)],
        "this is the whole batch, as with OFF": batch,
        "the numbers of a part are neighbours; you took every n-th": batch[process::count],
        "process 0 has the first part": batch[other : other + size],
    }


@shows("14.4")
def parts_of_two(function: Any) -> Any:
    """Draw a batch of eight, and the parts of two processes."""
    batch = [40, 7, 23, 5, 31, 12, 9, 66]
    mine = (_part(function, batch, k, 2) for k in range(2))
    return parts("A batch of 8 for 2 processes.", "places in the batch", batch, "process", mine)


@numeric(
    "14.5", " ms", ([8, 17, 12, 3, 5, 11], 8, 1.5),
    ([0, 0], 10, 2), ([12, 3, 17], 8, 1.5), ([5, 30], 20, 4), ([0, 0, 0, 64], 100, 9), ([6.5], 31, 0),
    ([9, 41, 40.5], 2, 3), ([0.21, 0.1137], 0.30218, 0.0703),
)  # fmt: skip
def step_of_all(waits_ms: Sequence[float], train_ms: float, all_reduce_ms: float) -> Any:
    """``step_ms(waits_ms, train_ms, all_reduce_ms)``: a step of processes that wait for each other."""
    slowest, others = max(waits_ms), train_ms + all_reduce_ms
    return slowest + others, {
        "the mean is too short: the sum needs the gradients of all": sum(waits_ms) / len(waits_ms) + others,
        "processes wait for their batches at the same time": sum(waits_ms) + others,
        "the fastest process waits in the all-reduce for the slowest": min(waits_ms) + others,
        "each process first waits for its batch": others,
        "the all-reduce takes time, too": slowest + train_ms,
    }
