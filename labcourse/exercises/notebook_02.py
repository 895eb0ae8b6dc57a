"""Exercises of notebook 02, overlap_with_prefetch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import bare, nothing_left_in, numeric, per, pipeline, same_options, source, values
from labkit.pipelines.structure import nodes


@exercise("02.1")
def prefetched(function: Any) -> None:
    """``overlapped(dataset)``: the batches of `dataset`, two of them ready ahead of the consumer."""
    _two_ahead(function, tf.data.Dataset.range(20).batch(4))
    try:
        _two_ahead(function, tf.data.Dataset.range(100, 143).map(lambda x: x / 4).batch(5))
    except Wrong as wrong:
        words = "a number of the first ones is written into your answer"
        raise Wrong(f"for other batches, of 5 floats: {wrong}; {words}") from None


def _two_ahead(function: Any, batches: Any) -> None:
    """Check the answer on some batches."""
    made = pipeline(function, batches)
    want = values(batches, 9)
    got = values(made, len(want))
    was, now = batches.element_spec.dtype.name, made.element_spec.dtype.name
    if was != now:
        raise Wrong(f"the batches changed: they were {was} tensors, now {now} tensors")
    if len(got) > len(want):
        raise Wrong(f"the batches changed: there were {len(want)}, now there are more; the first is {got[0]}")
    for place, batch in enumerate(want):
        mine = got[place] if place < len(got) else "missing"
        if mine != batch:
            raise Wrong(f"the batches changed: number {place + 1} was {batch}, is {mine}")
    last = nodes(bare(made))[0]
    depth = last.number("_buffer_size")
    if last.kind != "Prefetch":
        raise Wrong("prefetch is not the last step: only what comes before it overlaps with training")
    if depth != 2:
        raise Wrong(f"the buffer holds {'as many as tf.data likes' if depth < 0 else depth}: the task says two batches")
    if sum("Prefetch" in node.kind for node in nodes(made)) > 1:
        raise Wrong("two prefetches hold more than two batches: one at the end is enough")
    if holds := next((node.kind for node in nodes(made) if node.kind.startswith(("Parallel", "Shuffle"))), None):
        raise Wrong(f"{holds} keeps finished batches, too: one buffer of two at the end is enough")
    nothing_left_in(made)
    same_options(made, batches)


@shows("02.1")
def buffered(function: Any) -> Any:
    """Draw batches that take 9 ms to make and 10 ms to train, behind the student's buffer."""
    load = fairness.Stage("read", 3)
    made = pipeline(function, source(18).map(load).batch(3))
    return simulated(made, (load,), 10, "Your pipeline: load 9 ms, train 10 ms a batch")


@numeric("02.2", "×", (90, 30), (50, 50), (10, 190), (70, 33))
def overlap_gain(load_ms: float, train_ms: float) -> Any:
    """``speedup(load_ms, train_ms)``: what perfect overlap gains over none."""
    total, slow = load_ms + train_ms, max(load_ms, train_ms)
    return total / slow, {
        total / slow - 1: "that says how much faster; how many times as fast is one more",
        1 - slow / total: "that is the share of time that is saved",
        float(total - slow): "that is the time that is saved",
        slow / total: "that is the share of time that is left; the speed-up is its inverse",
        2.0: "twice as fast is the best case: it needs both to take the same time",
        total / min(load_ms, train_ms): "after overlap the slower of the two remains, not the faster",
    }


@marks("02.2", "Load 40 ms, train 60 ms, overlapped.", 40, 60)
def overlapped_step(gain: float) -> Any:
    """Draw steps that overlap perfectly, and where one of 40 + 60 ms ends if it is so many times faster."""
    bars = [("pipeline", "load the next batch", "read", 60 * i, 60 * i + 40) for i in range(2)]
    words = f"Taking turns, a step takes 100 ms; {gain:.4g} times faster is {per(100, gain):.4g} ms."
    return bars, [(0, 60), (60, 120)], per(100, gain), words


@numeric("02.3", " MB", (5, 32, 64, 96), (2, 32, 224, 224), (1, 8, 100, 150), (3, 5, 7, 11), (4, 64, 299, 301))
def buffer_memory(depth: int, batch: int, height: int, width: int) -> Any:
    """``buffer_mb(depth, batch, height, width)``: MB (10^6 bytes) of a prefetch buffer of float32 RGB batches."""
    pixels = depth * batch * height * width
    return pixels * 12 / 1e6, {
        pixels * 3 / 1e6: "that counts one byte a value; float32 has four",
        pixels * 6 / 1e6: "float32 has four bytes a value, not two",
        pixels * 24 / 1e6: "float32 has four bytes a value, not eight",
        pixels * 16 / 1e6: "RGB has three values a pixel; there is no fourth channel",
        pixels * 12 / 1e9: "that is GB; the task says MB",
        pixels * 12 / batch / 1e6: "a batch has several images: multiply by batch, too",
        pixels * 4 / 1e6: "an RGB pixel has three values",
        pixels * 12 / 2**20: "that is MiB (2^20 bytes); the task says MB (10^6 bytes)",
        pixels * 12.0: "that is bytes",
        pixels * 96 / 1e6: "that is megabits; a byte has eight bits",
        pixels * 12 / depth / 1e6: "that is one batch; the buffer holds several",
        pixels * 12 * (depth + 1) / depth / 1e6: "the buffer holds as many batches as it is deep, and no more",
        pixels * 12 * width / height / 1e6: "images have a height and a width; these need not be equal",
        pixels * 12 * height / width / 1e6: "images have a height and a width; these need not be equal",
        depth * batch * 224 * 224 * 12 / 1e6: "height and width are arguments; do not write 224 into your answer",
    }


@marks("02.3", "Two batches of 32 fill a buffer, 1 MB a millisecond.", 2, 32, 224, 224, batch=32)
def filling(size: float) -> Any:
    """Draw how a buffer of two batches fills from storage that brings 1 MB in a millisecond."""
    one = 32 * 224 * 224 * 12 / 1e6
    bars = [("buffer", f"batch {i + 1}", "batch", i * one, (i + 1) * one) for i in range(2)]
    return bars, [(one, 2 * one), (2 * one, 3 * one)], size, f"Yours is {size:.5g} MB."
