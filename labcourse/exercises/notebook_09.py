"""Exercises of notebook 09, put_it_all_together."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from labcourse import fairness
from labcourse.example_timeline import marks, simulated
from labcourse.grading import Wrong, exercise, shows
from labcourse.student_code import (
    bare,
    call,
    elements,
    in_a_file,
    nothing_left_in,
    numeric,
    pipeline,
    same_options,
    source,
)
from labkit.pipelines.structure import draws, nodes

_UNREAD = "labkit cannot read this pipeline: write it as one chain, elements.map(decode), cache(), repeat(2) and so on"


@numeric("09.1", "", (1000, 500, 2000), (300, 900, 600), (900, 800, 400), (5000, 1200, 1786), (7.5, 3.1, 11))
def overlapped_busy(fetch: float, prep: float, train: float) -> Any:
    """``busy(fetch, prep, train)``: busy share of the accelerator where three stages overlap perfectly."""
    rate = min(fetch, prep, train)
    in_turn = 1 / (1 / fetch + 1 / prep + 1 / train)
    chained = min(1 / (1 / fetch + 1 / prep), train)
    return rate / train, {  # where two wrong ideas give the same number, the later one is named
        100 * rate / train: "return a share between 0 and 1, not a percentage",
        max(fetch, prep, train) / train: "the slowest stage sets the pace, not the fastest",
        min(1, fetch / train) * min(1, prep / train): "overlapped stages do not slow each other down: take the slowest",
        prep / train: "storage can be the slowest stage, too",
        fetch / train: "the processor can be the slowest stage, too",
        min(fetch, prep) / train: "the accelerator cannot be busy for more than the whole time: it is a stage, too",
        in_turn / train: "that is one after the other; overlapped stages work at the same time",
        chained / train: "fetching and preparing overlap, too: the slower of the two sets the pace, not their sum",
        float(rate): "that is the rate of the job; the share is what part of its own rate it is",
        train / rate: "that is the other way round: the rate of the job, by that of the accelerator",
        rate / max(fetch, prep, train): "the share is of the accelerator's own rate, not of the fastest stage's",
        min(1, (fetch + prep) / 2 / train): "the slowest stage sets the pace, not the mean",
        1 - rate / train: "that is the idle share",
    }


@marks("09.1", "Batches of 100 images: fetch 300, prepare 900, train 600 images/s.", 300, 900, 600, batch=100)
def three_stages(share: float) -> Any:
    """Draw three stages that overlap: 100 images take 111 ms to fetch, 125 to prepare, 250 to train."""
    fetch, prep, train = 1e5 / 300, 1e5 / 900, 1e5 / 600
    bars = [("storage", "fetch", "read", i * fetch, (i + 1) * fetch) for i in range(3)]
    bars += [("cores", "prepare", "decode", i * fetch, i * fetch + prep) for i in range(1, 3)]
    steps = [(i * fetch, i * fetch + train) for i in range(3)]
    words = f"Yours is {share:.3g}: of the first step of {fetch:.4g} ms so much is work."
    return bars, steps, share * fetch, words


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
    kinds = [node.kind for node in nodes(made)]
    wanted = count * epochs // size
    if any(batch.shape != (size,) for batch in batches):
        sizes = sorted({len(np.atleast_1d(b)) for b in batches})
        rest = "; drop_remainder=True drops what is left over" if sizes[-1] == size else ""
        raise Wrong(f"the batches have {sizes} elements, not {size} each{rest}")
    if len(batches) not in (wanted, count // size * epochs):
        raise Wrong(f"{len(batches)} batches came out; {epochs} epochs of {count} elements make {wanted}")
    values = np.concatenate(batches)
    whole = np.floor(values / 10).astype(int)
    if not np.all((values % 10 < 1) & (whole >= 0) & (whole < count)):
        raise Wrong("the values are not decode followed by augment")
    if np.all(values % 10 == 0):
        raise Wrong("nothing was augmented")
    if not seen:
        raise Wrong("decode was never called: map it over the elements")
    after = kinds.index("Take") if "Take" in kinds else len(kinds)
    if len(seen) > count and any("Cache" in kind for kind in kinds[after:]):
        raise Wrong(f"decode ran {len(seen)} times: take() ends before the cache is full, and what is not full is lost")
    if len(seen) > count:
        raise Wrong(f"decode ran {len(seen)} times for {count} elements: cache what it returns, before repeat")
    fresh = {element: len(set(values[whole == element])) for element in set(whole)}
    if any(times == 1 for element, times in fresh.items() if np.sum(whole == element) > 1):
        alike = "an element is augmented alike in both epochs: "
        if any("Cache" in node.kind and draws((node, *node.upstream)) for node in nodes(made)):
            raise Wrong(alike + "the cache stands behind augment and froze it")
        raise Wrong(alike + "each epoch draws the numbers of the same seed anew; map augment once, over both epochs")
    kinds.reverse()  # the source first
    if "Repeat" in kinds and "Shuffle" in kinds[kinds.index("Repeat") :]:
        raise Wrong("shuffle behind repeat mixes the epochs: an element may come twice before another one comes at all")
    if "Repeat" in kinds and any("Cache" in kind for kind in kinds[kinds.index("Repeat") :]):
        raise Wrong("a cache behind repeat keeps both epochs in memory, and nothing reads them again")
    if missing := sorted(set(range(count)) - set(whole) if len(batches) == wanted else ()):
        raise Wrong(f"element {missing[0]} of {count} never comes: look for a skip, a shard or a filter")
    first = whole[: count if len(batches) == wanted else count // size * size]
    if len(set(first)) < len(first):
        raise Wrong("an element comes twice before the first epoch is over: the epochs are mixed")
    nothing_left_in(made, "Take")
    same_options(made, given, deterministic=str(made.options().deterministic is not False))  # the task names no order
    if not any(ahead in type(bare(made)).__name__ for ahead in ("Prefetch", "ParallelMap")):
        raise Wrong("the last step does not work ahead: end with prefetch")


def _never_waits(function: Any) -> None:
    """Grade the pipeline on the simulated clock, where the buffer counts, and how deep it is; then let it run."""
    decode, augment = fairness.Stage("decode", 10, lambda x: x * 10), fairness.Stage("augment", 0.5, call_ms=14)

    def batches(decoded: Any) -> Any:
        return decoded.batch(4, drop_remainder=True).map(augment)

    task = fairness.Task(
        (decode, augment),
        lambda: batches(source(8).repeat(2).map(decode)),
        lambda: batches(source(8).map(decode).cache().repeat(2)).prefetch(tf.data.AUTOTUNE),
        16,
        ordered=False,
        most_buffered=10_000,  # the task names no limit; this one is far from what anybody needs
        hints={
            **dict.fromkeys(("decode", "augment"), _UNREAD),
            "slow": "prefetch so that the next batch is made while this one trains",
            "measured": "what else do you do with each element or batch, besides decode and augment?",
        },
    )
    fairness.grade(lambda: call(function, source(8), decode, augment), task)


@shows("09.2")
def two_epochs(function: Any) -> Any:
    """Draw two epochs of the student's pipeline: 6 ms to decode an image, 4 ms to augment a batch."""
    decode, augment = fairness.Stage("decode", 6), fairness.Stage("augment", 0.5, call_ms=2)
    made = pipeline(function, source(12), decode, augment)
    title = "Your pipeline: decode 6 ms an image, augment 4 ms a batch, train 10 ms"
    return simulated(made, (decode, augment), 10, title, steps=6)
