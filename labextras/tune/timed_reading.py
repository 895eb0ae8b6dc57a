"""The elements of a dataset, each within a time: an alarm of Python does not reach TensorFlow's own code."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from labkit.pipelines import cancellable


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
    from tensorflow.python.eager import cancellation

    manager = cancellation.CancellationManager()
    # One element ahead: a consumer that is slow is not given more than it takes.
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(1)
    left = threading.Event()

    def pull() -> None:
        try:
            iterator = iter(dataset)
            while not left.is_set():
                ready.put((cancellable.take(iterator, manager), None))
        except BaseException as error:
            ready.put((None, error))

    # A thread, too: a generator in Python cannot be cancelled, only left.
    threading.Thread(target=pull, daemon=True).start()
    end = time.monotonic() + total_s
    try:
        while True:
            wait_s = max(0.0, min(end - time.monotonic(), each_s))
            element, error = ready.get(timeout=wait_s if math.isfinite(wait_s) else None)
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield element
    except queue.Empty:
        why = "look for a loop that never ends, or a filter that lets nothing through"
        raise TimeoutError(f"no element comes: {why}") from None
    finally:
        left.set()
        manager.start_cancel()
        while not ready.empty():  # the thread may wait to hand one over
            ready.get_nowait()
