"""Exercises of notebook 05, cache_what_is_expensive."""

from __future__ import annotations

import math
from typing import Any

from labkit.exercises.answers import call, number
from labkit.grading import Wrong, exercise


@exercise("05.1")
def cache_memory(function: Any) -> None:
    """``cache_mb(images, height, width, bytes_per_value)``: MB (10^6 bytes) of a cache of RGB images."""
    for images, height, width, size in [(1280, 224, 224, 1), (50_000, 32, 40, 4)]:
        pixels = images * height * width
        number(
            function,
            (images, height, width, size),
            pixels * 3 * size / 1e6,
            {
                pixels * size / 1e6: "an RGB pixel has three values",
                pixels * 3 * size / 2**20: "that is MiB (2^20 bytes); the task says MB (10^6 bytes)",
                pixels * 3.0 * size: "that is bytes",
                height * width * 3 * size / 1e6: "that is a single image",
            },
            " MB",
        )


@exercise("05.2")
def place_of_the_cache(function: Any) -> None:
    """``cached_pipeline(dataset, expensive, augment)``: the first runs once per element, the second every epoch."""
    import tensorflow as tf

    once, fresh = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

    def expensive(value: Any) -> Any:
        return tf.cast(once.assign_add(1), tf.int64) * 0 + value * 10

    def augment(value: Any) -> Any:
        return tf.cast(fresh.assign_add(1), tf.int64) * 0 + value + 1

    made = call(function, tf.data.Dataset.range(4), expensive, augment)
    if not isinstance(made, tf.data.Dataset):
        raise Wrong(f"return a tf.data.Dataset, not {type(made).__name__}")
    epochs = [list(made.take(8).as_numpy_iterator()) for _ in range(3)]
    if epochs[0] != [1, 11, 21, 31]:
        if epochs[0] == [10, 20, 30, 40]:
            raise Wrong("the order is turned round: first expensive, then augment")
        raise Wrong(f"of 0, 1, 2, 3 came {epochs[0]!s:.60}, expected [1, 11, 21, 31]: map both, change nothing else")
    if int(fresh) <= 4:
        raise Wrong("augment ran in the first epoch only: it is frozen, so the cache stands too late")
    if int(once) > 4:
        raise Wrong(f"expensive ran {int(once)} times for 4 elements in three epochs: nothing keeps its results")


@exercise("05.3")
def epochs_that_pay(function: Any) -> None:
    """``epochs_until_gain(first, later, without)``: epochs until a cache has paid for its first one."""
    for first, later, without in [(30, 2, 16), (15, 15, 16), (30, 4, 17), (20, 2, 11), (20, 16, 16), (20, 18, 16)]:
        number(
            function,
            (first, later, without),
            _ahead(first, later, without),
            {
                _ahead(first, later, without)
                - 1.0: "one epoch too few: after that many the two are even, or the cache behind",
                _ahead(first, later, without) + 1.0: "one epoch too many: the cache is ahead before",
                (first - without) / (without - later) if without > later else -1.0: (
                    "that counts only the extra time of the first epoch, and not in whole epochs"
                ),
            },
            " epochs",
        )


def _ahead(first: int, later: int, without: int) -> float:
    """Count epochs until the sums differ; after a thousand they never will."""
    for epochs in range(1, 1000):
        if first + (epochs - 1) * later < epochs * without:
            return epochs
    return math.inf
