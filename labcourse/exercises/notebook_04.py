"""Exercises of notebook 04, map_in_parallel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call, numeric, per, pipeline, same_options, source, values
from labkit.pipelines.options import naive
from labkit.pipelines.structure import AUTOTUNE


@exercise("04.1")
def mapped_in_parallel(function: Any) -> None:
    """``in_parallel(dataset, function)``: as many calls at a time as tf.data likes, the order kept in any case."""

    def squared(x: Any) -> Any:
        return x * x + 1

    def paired(x: Any) -> Any:
        return tf.stack([x, 3 - x])

    _mapped(function, tf.data.Dataset.range(3, 15), squared)  # not from 0: an answer may not make elements of its own
    _mapped(function, tf.data.Dataset.range(131), paired)
    _faster_than_one_call(function)


def _mapped(function: Any, elements: Any, mapped: Any) -> None:
    """Check the answer on some elements, with a function for them."""
    made = call(function, elements, mapped)
    given = values(elements, 999)
    want = values(elements.map(mapped), 999)
    got, count = values(made, len(want)), len(want)
    if len(got) > count:
        raise Wrong(f"more than {count} elements came out, {count} went in: look for a repeat or an unbatch")
    if got != want:
        if got == given:
            hint = "the function was not applied"
        elif len(got) < count:
            hint = f"{len(got)} came out, {count} expected: {count - len(got)} missing"
        else:
            at = next(i for i, (mine, right) in enumerate(zip(got, want, strict=True)) if mine != right)
            hint = f"number {at + 1} is {got[at]}, expected {want[at]}"
        raise Wrong(f"the elements are not those that the function makes: {hint}")
    before, after = rules.chain(elements), rules.chain(made)
    steps = after.steps[len(before.steps) :]
    maps = [step for step in after.every[len(before.every) :] if "Map" in step.kind and step.kind != "FlatMap"]
    parallel = [step for step in steps if step.kind == "ParallelMap"]
    if any("Interleave" in step.kind for step in steps):
        raise Wrong("an interleave is for elements that are files, and labkit cannot read it here: use map()")
    if not maps:
        raise Wrong("there is no map in it: map() calls the function for each element")
    if not any(step in steps for step in maps):
        raise Wrong("the map stands inside of another step, which runs it piece by piece: map the dataset itself")
    if not parallel:
        raise Wrong("this map makes one call at a time: give it num_parallel_calls")
    if len(steps) > 1:
        names = ", ".join(step.kind for step in steps)
        raise Wrong(f"{len(steps)} steps stand in it ({names}): one parallel map of the elements is enough")
    calls, ordered = parallel[0].settings.get("num_parallel_calls"), parallel[0].ordered
    if calls != AUTOTUNE:
        raise Wrong(f"num_parallel_calls is {calls}: that fits one machine; let tf.data choose")
    if not ordered:
        kept = "left to the options of the dataset" if ordered is None else "given up"
        raise Wrong(f"the order is {kept}: the task says that it is kept in any case (deterministic)")
    same_options(made, elements)


def _faster_than_one_call(function: Any) -> None:
    """Grade the speed of it: calls that wait, on four threads of their own, so that one core is enough."""
    load, wide = fairness.Stage("load", 12, lambda x: x * 10, asleep=True), naive(threads=4)
    numbers = tf.data.Dataset.range(12).with_options(wide)
    task = fairness.Task(
        (load,),
        lambda: numbers.map(load),
        lambda: numbers.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True),
        0.5,
        hints={
            "load": "the function is not in the graph of the map: call it there, without tf.py_function",
            "measured": "what else happens to each element, one after the other?",
        },
    )
    fairness.grade(lambda: call(function, numbers, load), task)


@shows("04.1")
def calls_at_once(function: Any) -> Any:
    """Draw a map of 8 ms on four modelled cores, as the student's pipeline calls it."""
    decode = fairness.Stage("decode", 8)
    made = pipeline(function, source(24), decode).batch(4)
    return simulated(made, (decode,), 4, "Your map: decode 8 ms an image, four cores, batches of four", cores=4)


@numeric("04.2", " cores", (328, 4.0), (920, 2.5), (1786, 10.0), (50, 4.0), (331.5, 2.37), (50_000, 4.0))
def cores_for_a_gpu(images_per_s: float, cpu_ms: float) -> Any:
    """``cores_needed(images_per_s, cpu_ms)``: cores that are busy all the time, not rounded."""
    work = images_per_s * cpu_ms
    return work / 1000, {
        work: "that is milliseconds of work per second; a core does 1000 of them",
        1000 / cpu_ms: "that is the images per second of one core, not yet the number of cores",
        1000 / work: "that is the share of the accelerator that one core feeds; invert it",
        images_per_s / cpu_ms: "work per second is images per second times milliseconds per image",
        float(-(-work // 1000)): "the task says not rounded, and a part of a core may be enough",
        work // 1000: "the task says not rounded",
        1000 / images_per_s: "that is the time that each image may take, not yet the number of cores",
        work / 1e6: "that divides by 1000 twice: a core does 1000 ms of work per second",
    }


@marks("04.2", "328 images a second, 4 ms of a core each.", 328, 4.0, name="328 images")
def work_of_a_second(cores: float) -> Any:
    """Draw the CPU work that one second of training needs, core after core."""
    bars = [("CPU work", "the first core, all second", "decode", 0, 1000)]
    bars.append(("CPU work", "more than one core", "decode", 1000, 328 * 4.0))
    words = f"Yours are {cores:.4g} cores: they do {1000 * cores:,.5g} ms of work a second."
    return bars, [(0, 1000)], 1000 * cores, words


@numeric("04.3", "×", (2, 4, 8), (9, 1, 4), (6, 3, 2), (1.9, 0.7, 64), (3, 1, 4), (1000, 2, 256))
def gain_beside_the_gil(free_ms: float, gil_ms: float, cores: int) -> Any:
    """``best_gain(free_ms, gil_ms, cores)``: speed-up over one call, if only `gil_ms` of each image holds the GIL."""
    total = free_ms + gil_ms
    return min(cores, total / gil_ms), {
        total / (gil_ms + free_ms / cores): "that lets all other cores rest while one is in Python: "
        "the free part of other images runs meanwhile",
        total / gil_ms: "that needs more cores than there are",
        float(cores): "that forgets that one thread at a time is in Python, or takes the looser of the two limits",
        min(cores, total / free_ms): "only one thread at a time is in Python: that part is the limit, not the free one",
        gil_ms / total: "that is the share of the time that the GIL is held with one call",
        free_ms / gil_ms: "the time in Python belongs to the whole of an image, too: free + GIL over GIL",
        min(cores, free_ms / gil_ms): "the time in Python belongs to the whole of an image, too: free + GIL over GIL",
        cores - 1: "the core that runs Python runs free parts, too: count all cores",
    }


@marks("04.3", "Six images: 2 ms free, 4 ms in Python.", 2, 4, 8)
def beside_the_gil(gain: float) -> Any:
    """Draw six images, 2 ms free and 4 ms with the GIL each, on eight cores."""
    bars = []
    for i in range(6):
        bars.append((f"thread {i % 3 + 1}", "free", "decode", max(0, 4 * i - 2), max(0, 4 * i - 2) + 2))
        bars.append((f"thread {i % 3 + 1}", "in Python", "map", 4 * i + 2, 4 * i + 6))
    end = per(36, gain)
    steps = [(4 * i + 6, 4 * i + 7) for i in range(6)]
    words = f"One call at a time takes 36 ms; {gain:.4g} times faster is {end:.4g} ms, and 2 ms more at the start."
    return bars, steps, end + 2, words
