"""Exercises of notebook 09, put_it_all_together."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import fairness
from labcourse.exercise_data import numeric
from labcourse.exercise_pictures import simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.pipeline_checks import bare, elements, in_a_file, nothing_left_in, pipeline, same_options, source
from labcourse.student_code import call
from labkit.pipelines.structure import draws, nodes

_UNREAD = "labkit cannot read this pipeline: write it as one chain, elements.map(decode), cache(), repeat(2) and so on"


@numeric("09.1", "", (1000, 500, 2000), (300, 900, 600), (900, 800, 400), (5000, 1200, 1786), (7.5, 3.1, 11))
def overlapped_busy(fetch: float, prep: float, train: float) -> Any:
    """``busy(fetch, prep, train)``: busy share of the accelerator where three stages overlap perfectly."""
    rate = min(fetch, prep, train)
    return rate / train, {
        "return a share between 0 and 1, not a percentage": 100 * rate / train,
        "storage can be the slowest stage, too": min(1, prep / train),
        "the processor can be the slowest stage, too": min(1, fetch / train),
        "the accelerator cannot be busy for more than the whole time: it is a stage, too": min(fetch, prep) / train,
        "that is one after the other; overlapped stages work at once": 1 / (1 + train / fetch + train / prep),
    }


@exercise("09.2")
def assembled(function: Any) -> None:
    """``assemble(elements, decode, augment)``: decode once, augment batches anew, work ahead."""
    for count in (11, 14):  # neither one epoch nor both of 11 are whole batches: a remainder must be dropped
        _assembled(function, count)
    _never_waits(function)


def _assembled(function: Any, count: int) -> None:
    """Check the answer on so many elements."""
    epochs, size = 2, 4
    seen: list[int] = []

    def note(x: Any) -> Any:
        seen.append(int(x))
        return np.int64(x * 10)

    def decode(x: Any) -> Any:
        if x.shape.rank:
            raise Wrong("decode got a batch: it maps single elements, before they are batched")
        decoded = tf.numpy_function(note, [x], tf.int64)
        decoded.set_shape([])
        return decoded

    def augment(batch: Any) -> Any:
        if batch.shape.rank != 1:
            raise Wrong("augment got one element: batch before it, it maps whole batches")
        return tf.cast(batch, tf.float64) + tf.random.uniform(tf.shape(batch), dtype=tf.float64) * 0.9

    given = tf.data.Dataset.range(count)
    made = pipeline(function, given, decode, augment)
    if any(in_a_file(node) for node in nodes(made)):
        raise Wrong("keep elements in memory: cache() without a file name, no snapshot")
    batches = elements(made, count * epochs)
    kinds = [node.kind for node in reversed(nodes(made))]  # the source first
    wanted = count * epochs // size
    if any(batch.shape != (size,) for batch in batches):
        shapes = sorted({batch.shape for batch in batches})
        raise Wrong(f"the batches have the shapes {shapes}, not {(size,)}: drop_remainder=True drops what is left over")
    if len(batches) not in (wanted, count // size * epochs):
        raise Wrong(f"{len(batches)} batches came out; {epochs} epochs of {count} elements make {wanted}")
    values = np.concatenate(batches)
    whole = np.floor(values / 10).astype(int)
    if not seen or not np.all((values % 10 < 1) & (whole >= 0) & (whole < count)) or np.all(values % 10 == 0):
        raise Wrong("the values are not decode followed by augment")
    if len(seen) > count:
        words = "cache what it returns, before repeat, and let the cache become full"
        raise Wrong(f"decode ran {len(seen)} times for {count} elements: {words}")
    fresh = {element: len(set(values[whole == element])) for element in set(whole)}
    if any(times == 1 for element, times in fresh.items() if np.sum(whole == element) > 1):
        alike = "an element is augmented alike in both epochs: "
        if any("Cache" in node.kind and draws((node, *node.upstream)) for node in nodes(made)):
            raise Wrong(alike + "the cache stands behind augment and froze it")
        raise Wrong(alike + "each epoch draws the numbers of the same seed anew; map augment once, over both epochs")
    behind = kinds[kinds.index("Repeat") :] if "Repeat" in kinds else []
    if any("Cache" in kind for kind in behind):
        raise Wrong("a cache behind repeat keeps both epochs in memory, and nothing reads them again")
    first = whole[: count if len(batches) == wanted else count // size * size]
    if "Shuffle" in behind or len(set(first)) < len(first):
        raise Wrong("an element can come twice before the first epoch is over: the epochs are mixed")
    if missing := sorted(set(range(count)) - set(whole) if len(batches) == wanted else ()):
        raise Wrong(f"element {missing[0]} of {count} never comes: look for a skip, a shard or a filter")
    nothing_left_in(made, "Take")
    same_options(made, given, deterministic=str(made.options().deterministic is not False))  # the task names no order
    if not any(ahead in type(bare(made)).__name__ for ahead in ("Prefetch", "ParallelMap")):
        raise Wrong("the last step does not work ahead: end with prefetch")


def _never_waits(function: Any) -> None:
    """Grade the pipeline on the simulated clock, where the buffer counts, and how deep it is; then let it run."""
    decode, augment = fairness.Stage("decode", 10, lambda x: x * 10), fairness.Stage("augment", 0.5, call_ms=14)

    def batches(decoded: Any) -> Any:
        return decoded.batch(4, drop_remainder=True).map(augment)

    def slow() -> Any:
        return batches(source(8).repeat(2).map(decode))

    def good() -> Any:
        return batches(source(8).map(decode).cache().repeat(2)).prefetch(tf.data.AUTOTUNE)

    hints = dict.fromkeys(("decode", "augment"), _UNREAD) | {
        "slow": "prefetch so that the next batch is made while this one trains",
        "measured": "what else do you do with each element or batch, besides decode and augment?",
    }
    # The task names no limit of the buffers; this one is far from what anybody needs.
    task = fairness.Task((decode, augment), slow, good, 16, ordered=False, most_buffered=10_000, hints=hints)
    fairness.grade(lambda: call(function, source(8), decode, augment), task)


@shows("09.2")
def two_epochs(function: Any) -> Any:
    """Draw two epochs of the student's pipeline: 6 ms to decode an image, 4 ms to augment a batch."""
    decode, augment = fairness.Stage("decode", 6), fairness.Stage("augment", 0.5, call_ms=2)
    made = pipeline(function, source(12), decode, augment)
    title = "Your pipeline: decode 6 ms an image, augment 4 ms a batch, train 10 ms"
    return simulated("09.2", made, (decode, augment), 10, title, steps=6)
