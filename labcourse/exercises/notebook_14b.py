"""Exercises of notebook 14b, train_on_several_processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labcourse.grading import Wrong, exercise
from labcourse.student_code import call, numeric, whole_numbers


@exercise("14.4")
def my_part(function: Any) -> None:
    """``mine(batch, process, count)``: the part of a batch that one of several processes trains on."""
    for size, count in ((8, 2), (12, 3), (6, 1), (20, 4), (10, 5)):
        batch = [7 * number % 23 for number in range(size)]
        part = size // count
        for process in range(count):
            made = call(function, list(batch), process, count)
            text, right = f"process {process} of {count}, batch {batch}", batch[process * part : (process + 1) * part]
            got = whole_numbers(made, text, "return the numbers of this one process, not the parts of all")
            if got == right:
                continue
            if got == list(range(process * part, (process + 1) * part)):
                raise Wrong(f"{text}: these are the places in the batch; the task asks for the numbers there")
            if len(got) == len(batch) and count > 1:
                raise Wrong(f"{text}: this is the whole batch, as with OFF")
            if got == batch[process::count]:
                raise Wrong(f"{text}: the numbers of a part are neighbours; you took every {count}th")
            if len(got) != part:
                raise Wrong(f"{text}: a part has {part} numbers, you return {len(got)}")
            if got == batch[(count - 1 - process) * part :][:part]:
                raise Wrong(f"{text}: process 0 has the first part")
            raise Wrong(f"{text}: expected {right}, got {got}")


@numeric(
    "14.5", " ms", ([8, 17, 12, 3, 5, 11], 8, 1.5),
    ([0, 0], 10, 2), ([12, 3, 17], 8, 1.5), ([5, 30], 20, 4), ([0, 0, 0, 64], 100, 9), ([6.5], 31, 0),
    ([9, 41, 40.5], 2, 3), ([0.21, 0.1137], 0.30218, 0.0703),
)  # fmt: skip
def step_of_all(waits_ms: Sequence[float], train_ms: float, all_reduce_ms: float) -> Any:
    """``step_ms(waits_ms, train_ms, all_reduce_ms)``: a step of processes that wait for each other."""
    slowest, others = max(waits_ms), train_ms + all_reduce_ms
    return slowest + others, {
        sum(waits_ms) / len(waits_ms) + others: "the mean is too short: the sum needs the gradients of all",
        sum(waits_ms) + others: "processes wait for their batches at the same time",
        waits_ms[0] + others: "process 0 is not alone: it waits for the others in the all-reduce",
        waits_ms[-1] + others: "the last process is not alone: all wait for the slowest",
        min(waits_ms) + others: "the fastest process waits in the all-reduce for the slowest",
        others: "each process first waits for its batch",
        slowest + train_ms: "the all-reduce takes time, too",
        (slowest + others) / 1000: "that is seconds; return milliseconds",
        slowest + all_reduce_ms: "a process waits, then trains, then comes the all-reduce: all three add up",
        max(slowest, others): "the gradients need the batch: the wait comes first",
        slowest + len(waits_ms) * train_ms + all_reduce_ms: "all processes train at the same time",
        slowest + train_ms + len(waits_ms) * all_reduce_ms: "all_reduce_ms is that of all processes together",
    }


@numeric(
    "14.6", " steps", (24, 10, [17]), (100, 10, []), (100, 10, [60]), (50, 8, [3, 15, 33]), (1000, 250, [999, 260]),
    (30, 7, [6, 6, 6]), (0, 5, []),
)  # fmt: skip
def steps_computed(steps: int, every: int, deaths: Sequence[int]) -> Any:
    """``computed(steps, every, deaths)``: steps in all, with those that were lost and computed again."""
    lost = [step % every for step in deaths]
    return steps + sum(lost), {
        steps: "what was done after the last checkpoint is done again",
        steps + sum(deaths): "a checkpoint keeps what was before it",
        steps + every * len(deaths): "only what was done after the last checkpoint is done again",
        steps + sum(every - one for one in lost): "count from the last checkpoint, not to the next one",
        steps + len(deaths): "a death costs all steps since the last checkpoint, not one",
        steps * (1 + len(deaths)): "it goes on from its last checkpoint, not from the beginning",
        steps + steps // every: "saving a checkpoint computes no step; a death does",
        steps - sum(lost): "lost steps are computed again: they add to the others",
        float(sum(lost)): "these are the steps that were lost; how many were computed in all?",
        steps + (lost[-1] if lost else 0): "each death costs its own steps",
        steps + (lost[0] if lost else 0): "each death costs its own steps",
    }
