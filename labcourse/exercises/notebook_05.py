"""Exercises of notebook 05, cache_what_is_expensive."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import shown_as_blocks, simulated
from labcourse.fairness import rules
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import in_a_file, nothing_left_in, pipeline, same_options, source
from labkit.pipelines.structure import nodes


@numeric("05.1", " MB", (1280, 224, 224, 1), (50_000, 32, 40, 4), (7, 11, 13, 2))
def cache_memory(images: int, height: int, width: int, bytes_per_value: int) -> Any:
    """``cache_mb(images, height, width, bytes_per_value)``: MB (10^6 bytes) of a cache of RGB images."""
    size = images * height * width * 3 * bytes_per_value
    return size / 1e6, {
        "an RGB pixel has three values": size / 3 / 1e6,
        "that is MiB (2^20 bytes); the task says MB (10^6 bytes)": size / 2**20,
        "that is bytes": size,
        "each value takes bytes_per_value bytes": size / bytes_per_value / 1e6,
        "that is a single image": size / images / 1e6,
    }


@shown_as_blocks("05.1", "1,280 images of 224 × 224, one byte a value.", "MB", 1280, 224, 224, 1)
def filling(size: float) -> Any:
    """Draw a cache of 1,280 images, a quarter after the other in memory."""
    part = 320 * 224 * 224 * 3 / 1e6
    row = [(f"{320 * (i + 1):,} images", "batch", i * part, (i + 1) * part) for i in range(4)]
    return {"cache": row}, size, f"Yours is {size:,.5g} MB."


@exercise("05.2")
def place_of_the_cache(function: Any) -> None:
    """``cached_pipeline(dataset, expensive, augment)``: the first runs once per element, the second every epoch."""
    for count in (4, 7):
        once, fresh = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

        # Elements are counted, not calls: a call may get several.
        def expensive(value: Any, once: Any = once) -> Any:
            return once.assign_add(tf.size(value, tf.int64)) * 0 + value * 10

        def augment(value: Any, fresh: Any = fresh) -> Any:
            return fresh.assign_add(tf.size(value, tf.int64)) * 0 + value + 1

        given = tf.data.Dataset.range(count)
        made = pipeline(function, given, expensive, augment)
        ideas = {"the order is turned round: first expensive, then augment": given.map(lambda x: 10 * (x + 1))}
        for _ in range(5):  # a shuffle hits the right order at times
            rules.data(made, given.map(lambda x: 10 * x + 1), ordered=True, ideas=ideas)
        if int(fresh) <= count:
            kept = rules.chain(made).all("Cache", "Snapshot")
            late = "the cache stands too late" if kept else "map it, and do not call it beforehand"
            raise Wrong(f"augment ran in the first epoch only: it is frozen, so {late}")
        if int(once) > count:
            many = f"expensive ran {int(once)} times for {count} elements in five epochs"
            raise Wrong(f"{many}: nothing keeps its results")
        if any(in_a_file(node) for node in nodes(made)):
            raise Wrong("the results are kept in a file, which outlives the job: cache() without a name keeps them")
        if rules.chain(made).any_order:
            raise Wrong("the order may vary from run to run (deterministic=False): it is to stay")
        nothing_left_in(made, "Take")
        same_options(made, given)


@shows("05.2")
def two_epochs(function: Any) -> Any:
    """Draw two epochs of the student's pipeline: 6 ms to decode, 1 ms to augment."""
    decode, augment = fairness.Stage("decode", 6), fairness.Stage("augment", 1)
    made = pipeline(function, source(6), decode, augment)
    title = "Two epochs of six images: decode 6 ms, augment 1 ms"
    return simulated("05.2", made.repeat(2), (decode, augment), 2, title, steps=12)


# Even after so many epochs, or not; never; and ahead from the first epoch on, whatever the later ones take.
_SOME_TIMES = ((30, 2, 16), (15, 15, 16), (30, 4, 17), (20, 2, 11), (21, 2, 12), (20, 16, 16), (20, 18, 16))
_MORE_TIMES = ((5, 10, 16), (10, 20, 16), (16, 16, 16), (16, 15, 16), (30.5, 2.25, 16), (301, 2, 4), (1400, 1, 3))
_MORE_TIMES += ((16.5, 15.75, 16),)  # fractions of a second count


@numeric("05.3", " epochs", *_SOME_TIMES, *_MORE_TIMES)
def epochs_that_pay(first: int, later: int, without: int) -> Any:
    """``epochs_until_gain(first, later, without)``: epochs until a cache has paid for its first one."""
    truth = _ahead(first, later, without)
    few = "one epoch too few: after that many the two are even, or the cache behind"
    if math.isinf(truth):
        even = {few: 1.0} if first == later == without else {}
        return truth, {'the cache never gets ahead: the task says float("inf") for never': -1.0, **even}
    ideas = {few: truth - 1, "one epoch too many: the cache is ahead before": truth + 1}
    if first < without:
        ideas["the first epoch alone is shorter with the cache: it is ahead after that one"] = math.inf
    elif truth > 9:
        ideas["after many epochs the cache is ahead: count on, or calculate"] = math.inf
    return truth, ideas


@shown_as_blocks("05.3", "30 s, then 2 s an epoch with the cache; 16 s without.", "seconds", 30, 2, 16)
def sums_of_epochs(epochs: float) -> Any:
    """Draw epochs with and without a cache side by side."""
    cached = [("epoch 1", "decode", 0, 30), *((f"{i + 2}", "batch", 30 + 2 * i, 32 + 2 * i) for i in range(4))]
    without = [(f"epoch {i + 1}", "decode", 16 * i, 16 * i + 16) for i in range(4)]
    words = f"Yours are {epochs:g} epochs: without the cache they end after {16 * epochs:g} s."
    return {"with the cache": cached, "without": without}, 16 * epochs, words


def _ahead(first: int, later: int, without: int) -> float:
    """Count epochs until the sums differ; after a thousand they never will."""
    for epochs in range(1, 1000):
        if first + (epochs - 1) * later < epochs * without:
            return epochs
    return math.inf
