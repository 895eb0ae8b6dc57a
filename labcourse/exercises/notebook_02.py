"""Exercises of notebook 02, overlap_with_prefetch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import shown_as_blocks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import bare, nothing_else, pipeline, source
from labkit.pipelines.structure import nodes


@exercise("02.1")
def prefetched(function: Any) -> None:
    """``overlapped(dataset)``: the batches of `dataset`, two of them ready ahead of the consumer."""
    fractions = tf.data.Dataset.range(100, 143).map(lambda x: x / 4)
    for batches in (tf.data.Dataset.range(20).batch(4), fractions.batch(5)):
        made = pipeline(function, batches)
        rules.data(made, batches, ordered=True)
        last, *others = nodes(bare(made))
        if last.kind != "Prefetch":
            raise Wrong("prefetch is not the last step: only what comes before it overlaps with training")
        if (depth := last.number("_buffer_size")) != 2:
            many = "as many as tf.data likes" if depth < 0 else depth
            raise Wrong(f"the buffer holds {many}: the task says two batches")
        if more := next((n.kind for n in others if n.kind.startswith(("Prefetch", "Parallel", "Shuffle"))), None):
            raise Wrong(f"{more} keeps finished batches, too: one buffer of two at the end is enough")
        nothing_else(made, batches)


@shows("02.1")
def buffered(function: Any) -> Any:
    """Draw batches that take 9 ms to make and 10 ms to train, behind the student's buffer."""
    load = fairness.Stage("read", 3)
    made = pipeline(function, source(18).map(load).batch(3))
    return simulated("02.1", made, (load,), 10, "Your pipeline: load 9 ms, train 10 ms a batch")


@numeric("02.2", "×", (90, 30), (50, 50), (10, 190), (70, 33))
def overlap_gain(load_ms: float, train_ms: float) -> Any:
    """``speedup(load_ms, train_ms)``: what perfect overlap gains over none."""
    total, slow = load_ms + train_ms, max(load_ms, train_ms)
    return total / slow, {
        "that says how much faster; how many times as fast is one more": total / slow - 1,
        "that is the share of time that is saved": 1 - slow / total,
        "that is the share of time that is left; the speed-up is its inverse": slow / total,
        "twice as fast is the best case: it needs both to take the same time": 2.0,
        "after overlap the slower of the two remains, not the faster": total / min(load_ms, train_ms),
    }


@numeric("02.3", " MB", (5, 32, 64, 96), (2, 32, 224, 224), (1, 8, 100, 150), (3, 5, 7, 11), (4, 64, 299, 301))
def buffer_memory(depth: int, batch: int, height: int, width: int) -> Any:
    """``buffer_mb(depth, batch, height, width)``: MB (10^6 bytes) of a prefetch buffer of float32 RGB batches."""
    pixels = depth * batch * height * width
    return pixels * 12 / 1e6, {
        "that counts one byte a value; float32 has four": pixels * 3 / 1e6,
        "an RGB pixel has three values": pixels * 4 / 1e6,
        "that is MiB (2^20 bytes); the task says MB (10^6 bytes)": pixels * 12 / 2**20,
        "that is bytes": pixels * 12.0,
        "that is one batch; the buffer holds several": pixels * 12 / depth / 1e6,
    }


@shown_as_blocks("02.3", "A buffer of two batches of 32 images of 224 × 224.", "MB", 2, 32, 224, 224)
def filling(size: float) -> Any:
    """Draw two batches, one after the other in memory."""
    one = 32 * 224 * 224 * 12 / 1e6
    row = [(f"batch {i + 1}", "batch", i * one, (i + 1) * one) for i in range(2)]
    return {"buffer": row}, size, f"Yours is {size:,.5g} MB."
