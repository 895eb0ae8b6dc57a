"""Exercises of notebook 04, map_in_parallel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import shown_as_blocks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import pipeline, same_options, source
from labcourse.student_code import call, per
from labkit.pipelines.options import naive
from labkit.pipelines.structure import AUTOTUNE


@exercise("04.1")
def mapped_in_parallel(function: Any) -> None:
    """``in_parallel(dataset, function)``: as many calls at a time as tf.data likes, the order kept in any case."""

    def squared(x: Any) -> Any:
        return x * x + 1

    def paired(x: Any) -> Any:
        return tf.stack([x, 3 - x])

    # Not from 0: an answer may not make elements of its own.
    for given, mapped in ((tf.data.Dataset.range(3, 15), squared), (tf.data.Dataset.range(131), paired)):
        made = call(function, given, mapped)
        rules.dataset(made)
        rules.data(made, given.map(mapped), ordered=True, ideas={"the function was not applied": given})
        _one_parallel_map(made, given)
    _faster_than_one_call(function)


def _one_parallel_map(made: Any, given: Any) -> None:
    """Refuse other steps than one map of the elements, as many calls at a time as tf.data likes."""
    before, steps = rules.chain(given).steps, rules.chain(made).steps
    added = steps[len(before) :]
    if [step.kind for step in added] == ["Map"]:
        raise Wrong("this map makes one call at a time: give it num_parallel_calls")
    if [step.kind for step in added] != ["ParallelMap"]:
        names = ", ".join(step.kind for step in added) or "none"
        raise Wrong(f"its steps are {names}: one map() of the elements, with num_parallel_calls, is enough")
    calls, ordered = added[0].settings.get("num_parallel_calls"), added[0].ordered
    if calls != AUTOTUNE:
        raise Wrong(f"num_parallel_calls is {calls}: that fits one machine; let tf.data choose")
    if not ordered:
        kept = "left to the options of the dataset" if ordered is None else "given up"
        raise Wrong(f"the order is {kept}: the task says that it is kept in any case (deterministic)")
    same_options(made, given)


def _faster_than_one_call(function: Any) -> None:
    """Grade the speed of it: calls that wait, on four threads of their own, so that one core is enough."""
    load, wide = fairness.Stage("load", 12, lambda x: x * 10, asleep=True), naive(threads=4)
    numbers = tf.data.Dataset.range(12).with_options(wide)
    hints = {
        "load": "the function is not in the graph of the map: call it there, without tf.py_function",
        "measured": "what else happens to each element, one after the other?",
    }

    def good() -> Any:
        return numbers.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    task = fairness.Task((load,), lambda: numbers.map(load), good, 0.5, hints=hints)
    fairness.grade(lambda: call(function, numbers, load), task)


@shows("04.1")
def calls_at_once(function: Any) -> Any:
    """Draw a map of 8 ms on four modelled cores, as the student's pipeline calls it."""
    decode = fairness.Stage("decode", 8)
    made = pipeline(function, source(24), decode).batch(4)
    return simulated("04.1", made, (decode,), 4, "Your map: decode 8 ms an image, four cores, batches of four", cores=4)


@numeric("04.2", " cores", (328, 4.0), (920, 2.5), (1786, 10.0), (50, 4.0), (331.5, 2.37), (50_000, 4.0))
def cores_for_a_gpu(images_per_s: float, cpu_ms: float) -> Any:
    """``cores_needed(images_per_s, cpu_ms)``: cores that are busy all the time, not rounded."""
    work = images_per_s * cpu_ms
    return work / 1000, {
        "that is milliseconds of work per second; a core does 1000 of them": work,
        "that is the images per second of one core, not yet the number of cores": 1000 / cpu_ms,
        "that is the share of the accelerator that one core feeds; invert it": 1000 / work,
        "work per second is images per second times milliseconds per image": images_per_s / cpu_ms,
        "the task says not rounded, and a part of a core may be enough": -(-work // 1000),
    }


@numeric("04.3", "×", (2, 4, 8), (9, 1, 4), (6, 3, 2), (1.9, 0.7, 64), (3, 1, 4), (1000, 2, 256))
def gain_beside_the_gil(free_ms: float, gil_ms: float, cores: int) -> Any:
    """``best_gain(free_ms, gil_ms, cores)``: speed-up over one call, if only `gil_ms` of each image holds the GIL."""
    total = free_ms + gil_ms
    return min(cores, total / gil_ms), {
        "that lets all other cores rest while one is in Python: the free part of other images runs meanwhile": total
        / (gil_ms + free_ms / cores),
        "that needs more cores than there are": total / gil_ms,
        "that forgets that one thread at a time is in Python, or takes the looser of the two limits": cores,
        "only one thread at a time is in Python: that part is the limit, not the free one": min(cores, total / free_ms),
        "that is the share of the time that the GIL is held with one call": gil_ms / total,
    }


@shown_as_blocks(
    "04.3", "Four images, each 2 ms in C++ and 4 ms in Python, which holds the interpreter.", "milliseconds", 2, 4, 8
)
def beside_the_gil(gain: float) -> Any:
    """Draw four images on two of eight cores: one thread holds the interpreter, the other waits for it in turn."""
    lanes: dict[str, list[tuple]] = {f"thread {i + 1}": [] for i in range(2)}
    for i in range(4):
        begin, turn = max(0, 4 * i - 2), 4 * i + 2  # a thread begins the next image when its last one is done
        row = [("C++", "decode", begin, begin + 2), ("waits", "map", begin + 2, turn, True)]
        row.append(("interpreter", "map", turn, turn + 4))
        lanes[f"thread {i % 2 + 1}"] += [block for block in row if block[3] > block[2]]
    end = per(24, gain)
    words = f"One call at a time takes 24 ms; {gain:.4g} times faster is {end:.4g} ms, and 2 ms more at the start."
    return lanes, end + 2, words
