"""The elements of a dataset that other processes work for: a wait has an end, and errors say whose they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from labkit.common.errors import error_text
from labkit.common.numbers import number
from labkit.pipelines import cancellable
from labkit.pipelines.structure import check_dataset
from labkit.recording.tfdata.driver import RecordingError

#: Where a server came back, and no element has come: so many times the silence that is allowed.
SILENCES = 6


class ClusterError(RecordingError):
    """A cluster cannot do what it was asked for: it cannot start, a server has died, or its workers failed."""


class Elements(Iterator[Any]):
    """An iterator over a dataset; see `labextras.cluster.tf_data_service.Cluster.elements`."""

    def __init__(self, cluster: Any, dataset: Any, silence_s: float) -> None:
        self.silence_s = number("silence_s", silence_s, above=0, most=1e6, unit="of seconds")
        check_dataset(dataset)
        from tensorflow.python.eager.cancellation import CancellationManager

        self._cluster, self._dataset = cluster, dataset
        self._iterator: Any = None
        self._manager = CancellationManager()
        self._since: float | None = None
        self._began_s = time.time()
        self._verdict: str | None = None

    def __next__(self) -> Any:
        """Return the next element; ClusterError where none can come."""
        if self._verdict is not None:
            raise ClusterError(self._verdict)
        if self._iterator is None:
            self._cluster.check_answers()  # where nobody answers, it would begin for ever, and nothing can cancel that
        self._since = time.monotonic()
        try:
            if self._iterator is None:
                self._iterator = iter(self._dataset)
            return cancellable.take(self._iterator, self._manager)
        except StopIteration:
            self._cluster.count()
            raise
        except Exception as error:
            raise ClusterError(self._verdict or self._cluster.over() or why(error)) from error
        finally:
            self._since = None

    def end(self, verdict: str) -> None:
        """End a wait, from another thread: it raises ClusterError with this sentence."""
        self._verdict = verdict
        self._manager.start_cancel()

    def why_lost(self) -> str | None:
        """Return why no element will come, or None while one may; a server is asked for only after a silence."""
        since = self._since
        if since is None or self._verdict is not None or (silent := time.monotonic() - since) < self.silence_s:
            return None
        mine = [one for one in self._cluster.deaths if one.at_s >= self._began_s]
        if dead := [one for one in self._cluster.servers if not one.alive]:
            reasons = [str(one.deaths[-1]) if one.deaths else f"{one.name} ({one.address}) is dead" for one in dead]
            return f"no element for {silent:.1f} s: {'; '.join(reasons)}, and does not come back"
        if mine and silent >= SILENCES * self.silence_s:
            return f"no element for {silent:.1f} s, since {mine[-1]}; it came back, and the job did not"
        return None


def why(error: Exception) -> str:
    """Return an error of tf.data service in the words of those who use it."""
    text = error_text(error)[:300]
    if "Could not find callback" in text:
        return "a tf.py_function stays in the process that made it: workers cannot call it. Use ops of TensorFlow"
    if "Could not parse Tensor" in text:
        return "an element that is a dataset, as window makes them, cannot be sent: make batches of it on the workers"
    if "No such file" in text:
        return f"{text}. Workers read files on their own machines: is that path there, too?"
    return text
