"""The elements of a dataset, each within a timeout: an alarm of Python does not reach TensorFlow's own code."""

from __future__ import annotations

import math
import queue
import threading
import time
from functools import lru_cache
from typing import Any

import tensorflow as tf

from labcourse.grading import Wrong

#: Seconds that one call of an answer, or one element of its dataset, may take: none needs one.
LIMIT_S = 20.0


@lru_cache(maxsize=1)
def _get_next() -> Any:
    """Return a function of TensorFlow: it can be cancelled, while next(iterator) would keep its core for ever.

    One function serves all iterators. A function that holds its own iterator would be part of a reference cycle, which
    keeps the iterator and the threads of its pipeline until Python ends.
    """
    return tf.function(lambda iterator: iterator.get_next(), autograph=False)


def pull_with_timeout(dataset: Any, limit_s: float | None = None, total_s: float = math.inf) -> list[Any]:
    """Return all elements of a finite dataset, as tensors.

    Parameters
    ----------
    dataset : tf.data.Dataset
    limit_s : float, optional
        Seconds to wait for each element; by default `LIMIT_S`.
    total_s : float
        Seconds to wait for all elements.

    Raises
    ------
    Wrong
        If an element does not come in time; then TensorFlow is asked to stop.
    """
    from tensorflow.python.eager import cancellation

    manager = cancellation.CancellationManager()
    ready: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def pull() -> None:
        try:
            iterator = iter(dataset)
            following = manager.get_cancelable_function(_get_next().get_concrete_function(iterator))
            while True:
                ready.put((following(iterator), None))
        except BaseException as error:
            ready.put((None, error))

    # A thread, too: a generator in Python cannot be cancelled, only left.
    threading.Thread(target=pull, daemon=True).start()
    found: list[Any] = []
    begun = time.monotonic()
    try:
        while True:
            left = begun + total_s - time.monotonic()
            element, error = ready.get(timeout=max(0.0, min(left, LIMIT_S if limit_s is None else limit_s)))
            if isinstance(error, tf.errors.OutOfRangeError):
                return found
            if error is not None:
                raise error
            found.append(element)
    except queue.Empty:
        seen = f"after {len(found)} elements no other comes" if found else "no element comes"
        late = f" within {total_s:g} s" if math.isfinite(total_s) else ""
        text = "look for a loop that never ends, or a filter that lets nothing through"
        raise Wrong(f"{seen} out of your dataset{late}: {text}") from None
    finally:
        manager.start_cancel()
