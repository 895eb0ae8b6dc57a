"""The elements of a dataset that other processes work for: a wait that has an end, and errors that say whose they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from labkit.common.errors import error_text
from labkit.recording.tfdata.driver import RecordingError

#: Where a server came back and still no element has come: so many times the silence that is allowed.
PATIENCE = 6


class ClusterError(RecordingError):
    """A cluster cannot do what it was asked for: it cannot start, a server has died, or its workers failed."""


class Elements:
    """An iterator over a dataset; see `labkit.service.cluster.Cluster.elements`.

    Attributes
    ----------
    verdict : str or None
        Why no element will come any more; the supervisor sets it.
    settled : threading.Event
        Set when the supervisor has done what such a verdict asks for.
    """

    def __init__(self, cluster: Any, dataset: Any, silence_s: float) -> None:
        if isinstance(silence_s, bool) or not isinstance(silence_s, (int, float)) or not 0 < silence_s < 1e6:
            raise ValueError(f"silence_s is {silence_s!r:.60}; allowed: seconds, more than 0")
        self._cluster, self._dataset, self.silence_s = cluster, dataset, float(silence_s)
        self._iterator: Any = None
        self._take: Any = None
        self._since: float | None = None
        self._began_s = time.time()
        self.verdict: str | None = None
        self.settled = threading.Event()
        cluster.watch(self)

    @property
    def waits(self) -> bool:
        """Whether somebody waits for an element now."""
        return self._since is not None

    def __iter__(self) -> Elements:
        """Return this object."""
        return self

    def __next__(self) -> Any:
        """Return the next element; ClusterError where none can come."""
        self._since = time.monotonic()
        try:
            if self._iterator is None:
                self._iterator = iter(self._dataset)
                self._take = self._cluster.taker(self, self._iterator)
            return self._take()
        except StopIteration:
            self._cluster.count()
            raise
        except Exception as error:
            if self.verdict is None:
                raise ClusterError(why(error)) from error
            self._since = None
            self.settled.wait()
            raise ClusterError(self.verdict) from error
        finally:
            self._since = None

    def close(self) -> None:
        """Let go of the iterator; what came over its connections is counted before."""
        self._cluster.count()
        self._iterator = self._take = None

    def hopeless(self, servers: Sequence[Any], deaths: Sequence[Any]) -> str | None:
        """Return why no element will come, or None while one may.

        Parameters
        ----------
        servers : sequence of Server
            All; whether one of them lives is asked only after a silence.
        deaths : sequence of Death
            All so far.
        """
        since = self._since
        if since is None or self.verdict is not None or (silent := time.monotonic() - since) < self.silence_s:
            return None
        mine = [one for one in deaths if one.at_s >= self._began_s]
        if dead := [one for one in servers if not one.alive]:
            who = [str(one.deaths[-1]) if one.deaths else f"{one.name} ({one.address}) is dead" for one in dead]
            return f"no element for {silent:.1f} s: {'; '.join(who)}, and does not come back"
        if mine and silent >= PATIENCE * self.silence_s:
            return f"no element for {silent:.1f} s, since {mine[-1]}; it came back, and the job did not"
        return None


class Cancelable:
    """The ``next`` of an iterator, as a function whose call another thread can end.

    Parameters
    ----------
    iterator : iterator of a ``tf.data.Dataset``
    """

    def __init__(self, iterator: Any) -> None:
        import tensorflow as tf
        from tensorflow.python.eager import cancellation  # no public name ends an op from outside

        self._manager = cancellation.CancellationManager()
        take = tf.function(iterator.get_next_as_optional, autograph=False).get_concrete_function()
        self._take = self._manager.get_cancelable_function(take)

    def __call__(self) -> Any:
        """Return the next element; StopIteration at the end, and an error of TensorFlow once it is cancelled."""
        found = self._take()
        if not found.has_value():
            raise StopIteration
        return found.get_value()

    def cancel(self) -> None:
        """End the call that is under way, and all later ones."""
        self._manager.start_cancel()


def why(error: Exception) -> str:
    """Return an error of tf.data service in the words of those who use it."""
    text = error_text(error)[:300]
    if "pyfunc" in text.lower() and "not found" in text.lower():
        return f"{text}. A tf.py_function stays in the process that made it: workers cannot call it"
    if text.startswith("NotFoundError") and "No such file" in text:
        return f"{text}. Workers read files on their own machines: is that path there, too?"
    return text
