"""Exercises of notebook 04, map_in_parallel."""

from __future__ import annotations

from typing import Any

from labkit.exercises.answers import call, number
from labkit.grading import Wrong, exercise


@exercise("04.1")
def mapped_in_parallel(function: Any) -> None:
    """``in_parallel(dataset, function)``: as many calls at a time as tf.data likes, the order kept in any case."""
    import tensorflow as tf

    def squared(x: Any) -> Any:
        return x * x + 1

    source = tf.data.Dataset.range(12)
    made = call(function, source, squared)
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")
    want = [x * x + 1 for x in range(12)]
    got = [x.tolist() for x in made.take(24).as_numpy_iterator()]
    if got != want:
        hint = "the function was not applied" if got == list(range(12)) else f"first expected {want[:3]}, got {got[:3]}"
        raise Wrong(f"the elements are not those that the function makes: {hint}")
    node = made
    while type(node).__name__ in ("_OptionsDataset", "_PrefetchDataset"):  # neither changes what is mapped, or how
        node = node._input_dataset
    calls = getattr(node, "_num_parallel_calls", None)
    if calls is None:
        raise Wrong("this map makes one call at a time: give it num_parallel_calls")
    if int(tf.get_static_value(calls)) != tf.data.AUTOTUNE:
        shown = int(tf.get_static_value(calls))
        raise Wrong(f"num_parallel_calls is {shown}: that fits one machine; let tf.data choose")
    if node._deterministic != "true":
        kept = "given up" if node._deterministic == "false" else "left to the options of the dataset"
        raise Wrong(f"the order is {kept}: the task says that it is kept in any case (deterministic)")


@exercise("04.2")
def cores_for_a_gpu(function: Any) -> None:
    """``cores_needed(images_per_s, cpu_ms)``: cores that are busy all the time, not rounded."""
    for rate, cpu_ms in [(328, 4.0), (920, 2.5), (1786, 10.0)]:
        number(
            function,
            (rate, cpu_ms),
            rate * cpu_ms / 1000,
            {
                rate * cpu_ms: "that is milliseconds of work per second; a core does 1000 of them",
                1000 / cpu_ms: "that is the images per second of one core, not yet the number of cores",
                1000 / (rate * cpu_ms): "that is the share of the accelerator that one core feeds; invert it",
                rate / cpu_ms: "work per second is images per second times milliseconds per image",
                float(-(-rate * cpu_ms // 1000)): "the task says not rounded",
            },
            " cores",
        )


@exercise("04.3")
def gain_beside_the_gil(function: Any) -> None:
    """``best_gain(free_ms, gil_ms, cores)``: speed-up over one call, if only `gil_ms` of each image holds the GIL."""
    for free, gil, cores in [(2, 4, 8), (9, 1, 4), (6, 3, 2)]:
        total = free + gil
        number(
            function,
            (free, gil, cores),
            min(cores, total / gil),
            {
                max(cores, total / gil): "the tighter of the two limits holds, not the looser",
                total / (gil + free / cores): "that lets all other cores rest while one is in Python: "
                "the free part of other images runs meanwhile",
                total / gil: "that needs more cores than there are",
                float(cores): "that forgets that one thread at a time is in Python",
                gil / total: "that is the share of the time that the GIL is held with one call",
            },
            "×",
        )
