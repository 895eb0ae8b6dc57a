"""Exercises of notebook 05, cache_what_is_expensive."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import call, elements, in_a_file, nothing_left_in, numeric, pipeline, same_options, source
from labkit.pipelines.structure import chain, nodes


@numeric("05.1", " MB", (1280, 224, 224, 1), (50_000, 32, 40, 4), (7, 11, 13, 2))
def cache_memory(images: int, height: int, width: int, bytes_per_value: int) -> Any:
    """``cache_mb(images, height, width, bytes_per_value)``: MB (10^6 bytes) of a cache of RGB images."""
    size = images * height * width * 3 * bytes_per_value
    return size / 1e6, {
        size / 3 / 1e6: "an RGB pixel has three values",
        size / 2**20: "that is MiB (2^20 bytes); the task says MB (10^6 bytes)",
        float(size): "that is bytes",
        8 * size / 1e6: "that is megabits; a byte has eight bits",
        size / bytes_per_value / 1e6: "each value takes bytes_per_value bytes",
        size * width / height / 1e6: "images have a height and a width; these need not be equal",
        size / images / 1e6: "that is a single image",
        size / 1e9: "that is GB; the task says MB",
        4 * size / 3 / 1e6: "RGB has three values a pixel; there is no fourth channel",
        size * height / width / 1e6: "images have a height and a width; these need not be equal",
        4 * size / bytes_per_value / 1e6: "bytes_per_value says how many bytes; do not write 4 into your answer",
    }


@marks("05.1", "1,280 images of 224 x 224, one byte a value, 1 MB a millisecond.", 1280, 224, 224, 1)
def filling(size: float) -> Any:
    """Draw how a cache of 1,280 images fills, 1 MB a millisecond."""
    tenth = 128 * 224 * 224 * 3 / 1e6
    bars = [("cache", f"{128 * (i + 1):,} images", "batch", i * tenth, (i + 1) * tenth) for i in range(10)]
    return bars, [(10 * tenth, 11 * tenth)], size, f"Yours is {size:,.5g} MB."


@exercise("05.2")
def place_of_the_cache(function: Any) -> None:
    """``cached_pipeline(dataset, expensive, augment)``: the first runs once per element, the second every epoch."""
    for count in (4, 7):
        _kept(function, count)


def _kept(function: Any, count: int) -> None:
    """Check the answer on so many elements."""
    once, fresh = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

    # Elements are counted, not calls: a call may get several.
    def expensive(value: Any) -> Any:
        return once.assign_add(tf.size(value, tf.int64)) * 0 + value * 10

    def augment(value: Any) -> Any:
        return fresh.assign_add(tf.size(value, tf.int64)) * 0 + value + 1

    given = tf.data.Dataset.range(count)
    made = call(function, given, expensive, augment)
    epochs = [[x.tolist() for x in elements(made, count)] for _ in range(5)]
    right = [10 * x + 1 for x in range(count)]
    came = next((epoch for epoch in epochs if epoch != right), right)  # a shuffle hits the right order at times
    if sorted(came) == right and chain(made).any_order:
        raise Wrong("the order of the elements may vary from run to run (deterministic=False): it is to stay")
    if came == right and made.element_spec.dtype != given.element_spec.dtype:
        raise Wrong(f"the elements are {made.element_spec.dtype.name} tensors, expected int64: change nothing else")
    if came != right:
        if came == [10 * x + 10 for x in range(count)]:
            raise Wrong("the order is turned round: first expensive, then augment")
        raise Wrong(f"of {str([*range(count)])[1:-1]} came {came}, expected {right}: map both, change nothing else")
    if int(fresh) <= count:
        kept = chain(made).all("Cache", "Snapshot")
        late = "the cache stands too late" if kept else "map it, and do not call it beforehand"
        raise Wrong(f"augment ran in the first epoch only: it is frozen, so {late}")
    if int(once) > count:
        raise Wrong(f"expensive ran {int(once)} times for {count} elements in five epochs: nothing keeps its results")
    if any(in_a_file(node) for node in nodes(made)):
        raise Wrong(
            "the results are kept in a file, which outlives the job: cache() without a name keeps them in memory"
        )
    nothing_left_in(made, "Take")
    same_options(made, given)


@shows("05.2")
def two_epochs(function: Any) -> Any:
    """Draw two epochs of the student's pipeline: 6 ms to decode, 1 ms to augment."""
    decode, augment = fairness.Stage("decode", 6), fairness.Stage("augment", 1)
    made = pipeline(function, source(6), decode, augment)
    title = "Two epochs of six images: decode 6 ms, augment 1 ms"
    return simulated(made.repeat(2), (decode, augment), 2, title, steps=12)


_EPOCHS = "30 s, then 2 s an epoch with the cache; 16 s without. A second is drawn as a millisecond."

# Even after so many epochs, or not; never; and ahead from the first epoch on, whatever the later ones take.
_SOME_TIMES = ((30, 2, 16), (15, 15, 16), (30, 4, 17), (20, 2, 11), (21, 2, 12), (20, 16, 16), (20, 18, 16))
_MORE_TIMES = ((5, 10, 16), (10, 20, 16), (16, 16, 16), (16, 15, 16), (30.5, 2.25, 16), (301, 2, 4), (1400, 1, 3))
_MORE_TIMES += ((16.5, 15.75, 16),)  # fractions of a second count


@numeric("05.3", " epochs", *_SOME_TIMES, *_MORE_TIMES)
def epochs_that_pay(first: int, later: int, without: int) -> Any:
    """``epochs_until_gain(first, later, without)``: epochs until a cache has paid for its first one."""
    truth = _ahead(first, later, without)
    if math.isinf(truth):
        hints = dict.fromkeys((-1.0, 0.0), 'the cache never gets ahead: the task says float("inf") for never')
        if first == later == without:
            hints[1.0] = 'the two are even after every epoch, the cache never ahead: the task says float("inf")'
        return truth, hints
    hints = {
        truth - 1.0: "one epoch too few: after that many the two are even, or the cache behind",
        truth + 1.0: "one epoch too many: the cache is ahead before",
    }
    if truth > 9:
        hints[math.inf] = f"{truth:g} epochs are many, but after them the cache is ahead: count on, or calculate"
    if without > later:
        extra = "that counts only the extra time of the first epoch, and not in whole epochs"
        hints[(first - without) / (without - later)] = extra
    if first < without:
        hints |= dict.fromkeys(
            (math.inf, -1.0), "the first epoch alone is shorter with the cache: it is ahead after that one"
        )
    return truth, hints


@marks("05.3", _EPOCHS, 30, 2, 16, name="the job")
def sums_of_epochs(epochs: float) -> Any:
    """Draw epochs with and without a cache side by side, one second as one millisecond."""
    bars = [("with the cache", "epoch 1", "decode", 0, 30)]
    bars += [("with the cache", f"epoch {i + 2}", "read", 30 + 2 * i, 32 + 2 * i) for i in range(4)]
    bars += [("without", f"epoch {i + 1}", "decode", 16 * i, 16 * i + 16) for i in range(4)]
    return bars, [(0, 64)], 16 * epochs, f"Yours are {epochs:g} epochs: without the cache they end at {16 * epochs:g}."


def _ahead(first: int, later: int, without: int) -> float:
    """Count epochs until the sums differ; after a thousand they never will."""
    for epochs in range(1, 1000):
        if first + (epochs - 1) * later < epochs * without:
            return epochs
    return math.inf
