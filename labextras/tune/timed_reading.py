"""The elements of a dataset, each within a time: an alarm of Python does not reach TensorFlow's own code."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _get_next() -> Any:
    """Return a function of TensorFlow: it can be cancelled, while next(iterator) would keep its core for ever.

    One function serves all iterators. A function that holds its own iterator would be part of a reference cycle, which
    keeps the iterator and the threads of its pipeline until Python ends.
    """
    import tensorflow as tf

    return tf.function(lambda iterator: iterator.get_next(), autograph=False)


def elements(dataset: Any, each_s: float = math.inf, total_s: float = math.inf) -> Iterator[Any]:
    """Yield the elements of a dataset as tensors; however the caller ends, TensorFlow is asked to stop.

    Parameters
    ----------
    dataset : tf.data.Dataset
    each_s, total_s : float
        Seconds to wait for each element, and for all of them.

    Raises
    ------
    TimeoutError
        If an element does not come in time.
    """
    import tensorflow as tf
    from tensorflow.python.eager import cancellation

    manager = cancellation.CancellationManager()
    # One element ahead: a consumer that is slow is not given more than it takes.
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(1)
    left = threading.Event()

    def pull() -> None:
        try:
            iterator = iter(dataset)
            following = manager.get_cancelable_function(_get_next().get_concrete_function(iterator))
            while not left.is_set():
                try:
                    ready.put((following(iterator), None))
                except tf.errors.CancelledError as error:
                    # TensorFlow keeps the manager of a call in one place for all threads: that of another reading,
                    # which was left, may end a call of this one before it begins.
                    if left.is_set() or "before it was started" not in str(error):
                        raise
        except BaseException as error:
            ready.put((None, error))

    # A thread, too: a generator in Python cannot be cancelled, only left.
    threading.Thread(target=pull, daemon=True).start()
    end = time.monotonic() + total_s
    try:
        while True:
            wait_s = max(0.0, min(end - time.monotonic(), each_s))
            element, error = ready.get(timeout=wait_s if math.isfinite(wait_s) else None)
            if isinstance(error, tf.errors.OutOfRangeError):
                return
            if error is not None:
                raise error
            yield element
    except queue.Empty:
        raise TimeoutError(
            "no element comes: look for a loop that never ends, or a filter that lets nothing through"
        ) from None
    finally:
        left.set()
        manager.start_cancel()
        while not ready.empty():  # the thread may wait to hand one over
            ready.get_nowait()
