"""The exercises of the notebooks: what each asks, and the hint for each way of missing it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.grading import Wrong, exercise


def _call(function: Any, *arguments: Any) -> Any:
    """Call the student's function; None from it means that it is still the stub."""
    if not callable(function):
        raise Wrong(f"pass the function itself, not {type(function).__name__} {function!r:.40}")
    result = function(*arguments)
    if result is None:
        raise NotImplementedError
    return result


def _number(
    function: Callable[..., Any], arguments: tuple, expected: float, hints: dict[float, str], unit: str
) -> None:
    """Compare one number with the truth; `hints` names the usual wrong ideas by their value."""
    got = _call(function, *arguments)
    if isinstance(got, bool) or not isinstance(got, (int, float, np.integer, np.floating)):
        raise Wrong(f"return one number, not {type(got).__name__}")
    if math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9):
        return
    shown = ", ".join(str(a) for a in arguments)
    for value, hint in hints.items():
        if math.isclose(got, value, rel_tol=1e-6, abs_tol=1e-9):
            raise Wrong(f"for ({shown}) you return {got:g}{unit}: {hint}")
    raise Wrong(f"for ({shown}) you return {got:g}{unit}, expected {expected:g}{unit}")


# -- 00 read_a_timeline -------------------------------------------------------


@exercise("00.1")
def busy_share(function: Any) -> None:
    """``busy(spans, window_ms)``: share of the window covered by ``(start_ms, end_ms)`` spans."""
    if _call(function, [(0, 10), (20, 30)], 40) == 50:
        raise Wrong("return a share between 0 and 1, not a percentage")
    cases = [
        ([(0, 10), (20, 30)], 40, 0.5),
        ([(5, 15)], 20, 0.5),
        ([], 30, 0.0),
        ([(0, 7), (7, 21), (30, 35)], 50, 0.52),
    ]
    for spans, window, share in cases:
        extent = spans[-1][1] - spans[0][0] if spans else 1
        total = sum(b - a for a, b in spans)
        hints = {
            1 - share: "that is the idle share; busy is the rest",
            total / extent
            if extent
            else -1.0: "divide by the whole window, not by the time from the first to the last span",
        }
        hints.pop(share, None)
        _number(function, (spans, window), share, hints, "")


@exercise("00.2")
def step_times(function: Any) -> None:
    """``step_ms(load_ms, train_ms, overlapped)``: time of one step of a long run."""
    for load, train in [(30, 50), (80, 20), (45.5, 45.5), (0, 12)]:
        _number(
            function,
            (load, train, False),
            load + train,
            {max(load, train): "without overlap one waits for the other: the times add up"},
            " ms",
        )
        _number(
            function,
            (load, train, True),
            max(load, train),
            {
                load + train: "with overlap loading hides behind training, or training behind loading",
                min(load, train): "the slower of the two sets the pace",
                train: "that holds only while loading is the faster one",
            },
            " ms",
        )


# -- 01 measure_a_naive_pipeline ----------------------------------------------


@exercise("01.1")
def ingestion_rate(function: Any) -> None:
    """``images_per_s(step_ms, batch)``: what the job consumes."""
    for step, batch in [(100, 32), (250, 64), (40, 1)]:
        _number(
            function,
            (step, batch),
            1000 * batch / step,
            {
                batch / step: "the step is in milliseconds; a second has 1000 of them",
                1000 / step: "that is steps per second; every step brings a whole batch",
                step / batch: "that is milliseconds per image, the inverse",
            },
            " images/s",
        )


@exercise("01.2")
def really_naive(function: Any) -> None:
    """``naive(dataset)``: the same elements, with nothing of tf.data's own overlap switched on."""
    import tensorflow as tf

    source = tf.data.Dataset.range(12)
    made = _call(function, source)
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")
    if list(made.as_numpy_iterator()) != list(range(12)):
        raise Wrong("the elements changed: with_options() alone must not add, drop or reorder any")
    options = made.options()
    if options.experimental_optimization.apply_default_optimizations is not False:
        raise Wrong(
            "tf.data still rewrites the graph: set options.experimental_optimization.apply_default_optimizations"
        )
    if options.autotune.enabled is not False:
        raise Wrong("the rewrites are off, but autotuning is still on: set options.autotune.enabled")


@exercise("01.3")
def honest_verdict(function: Any) -> None:
    """``verdict(before, after)``: ``"faster"``, ``"slower"`` or ``"no difference"`` from images/s of paired rounds."""
    noisy = ([100.0, 140.0, 90.0, 120.0], [120.0, 110.0, 105.0, 100.0])
    cases = [
        ([100.0, 104.0, 98.0, 101.0], [200.0, 205.0, 199.0, 203.0], "faster"),
        ([200.0, 205.0, 199.0, 203.0], [100.0, 104.0, 98.0, 101.0], "slower"),
        (*noisy, "no difference"),
        ([100.0, 150.0, 90.0, 120.0], [130.0, 198.0, 115.0, 160.0], "faster"),
    ]
    for before, after, expected in cases:
        got = _call(function, before, after)
        if got not in ("faster", "slower", "no difference"):
            raise Wrong(f"return 'faster', 'slower' or 'no difference', not {got!r}")
        if got == expected:
            continue
        if expected == "no difference":
            raise Wrong("one round says faster and the next says slower: that is noise, not a verdict")
        if got == "no difference":
            raise Wrong(
                "every round of the pair points the same way: compare round by round, not the best with the worst"
            )
        raise Wrong(f"before {before}, after {after}: images/s, so more is {expected}")


# -- 02 overlap_with_prefetch -------------------------------------------------


@exercise("02.1")
def prefetched(function: Any) -> None:
    """``overlapped(dataset)``: the batches of `dataset`, two of them ready ahead of the consumer."""
    import tensorflow as tf

    batches = tf.data.Dataset.range(20).batch(4)
    made = _call(function, batches)
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")
    got = [b.tolist() for b in made.as_numpy_iterator()]
    want = [b.tolist() for b in batches.as_numpy_iterator()]
    if got != want:
        raise Wrong(f"the batches changed: first was {want[0]}, is {got[0] if got else 'missing'}")
    depth = _prefetch_depth(made)
    if depth is None:
        raise Wrong("prefetch is not the last step: only what comes before it overlaps with training")
    if depth != 2:
        raise Wrong(f"the buffer holds {'as many as tf.data likes' if depth < 0 else depth}: the task says two batches")


@exercise("02.2")
def overlap_gain(function: Any) -> None:
    """``speedup(load_ms, train_ms)``: what perfect overlap gains over none."""
    for load, train in [(50, 50), (90, 30), (10, 190)]:
        total, slow = load + train, max(load, train)
        _number(
            function,
            (load, train),
            total / slow,
            {
                slow / total: "that is the share of time that is left; the speed-up is its inverse",
                2.0: "twice as fast is the best case: it needs both to take the same time",
                total / min(load, train): "after overlap the slower of the two remains, not the faster",
            },
            "×",
        )


@exercise("02.3")
def buffer_memory(function: Any) -> None:
    """``buffer_mb(depth, batch, height, width)``: MB (10^6 bytes) of a prefetch buffer of float32 RGB batches."""
    for depth, batch, height, width in [(2, 32, 224, 224), (1, 8, 100, 150)]:
        pixels = depth * batch * height * width
        _number(
            function,
            (depth, batch, height, width),
            pixels * 12 / 1e6,
            {
                pixels * 3 / 1e6: "that counts one byte a value; float32 has four",
                pixels * 4 / 1e6: "an RGB pixel has three values",
                pixels * 12 / 2**20: "that is MiB (2^20 bytes); the task says MB (10^6 bytes)",
                pixels * 12.0: "that is bytes",
            },
            " MB",
        )


def _prefetch_depth(dataset: Any) -> int | None:
    """Return the buffer size of the prefetch that ends `dataset`, -1 for AUTOTUNE, None if it ends otherwise."""
    import tensorflow as tf

    node = dataset
    while type(node).__name__ == "_OptionsDataset":  # options change no element
        node = node._input_dataset
    if "Prefetch" not in type(node).__name__:
        return None
    return int(tf.get_static_value(node._buffer_size))
