"""One timeline of several processes: what consumer and workers did, on one clock, and the network between them."""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from labextras.cluster.elements import ClusterError, Elements
from labextras.cluster.servers import ClusterServer
from labkit.recording.processor_clock import Sampler
from labkit.recording.tfdata.driver import Session, check_length
from labkit.timeline.trace import CATEGORIES, Thread, Trace
from labkit.timeline.wording import REQUESTED

#: Longest time that a session may be older than the window that it is for, in seconds.
BEFORE_S = 20.0

_ROOT, _NODE = "Iterator::Root", "::DataService"


class Served:
    """A dataset that a cluster works for, as a drive takes batches from it: it is watched on all processes.

    Parameters
    ----------
    cluster : Cluster
    dataset : tf.data.Dataset
    """

    def __init__(self, cluster: Any, dataset: Any) -> None:
        self.cluster, self.dataset = cluster, dataset

    def __iter__(self) -> Elements:
        """Return an iterator whose wait has an end."""
        return self.cluster.elements(self.dataset)

    def cardinality(self) -> Any:
        """Return that of the dataset."""
        return self.dataset.cardinality()

    def check(self, steps: int | None, label: str) -> None:
        """Refuse a job without an end, as `labkit.recording.tfdata.driver.check_length` does."""
        check_length(self.dataset, steps, label)

    def watched(self, *_: Any) -> tuple[Served, ClusterSession]:
        """Return what is driven, and what watches it in the place of the profiler of one process."""
        return self, ClusterSession(self.cluster)


class ClusterSession(Session):
    """A profiler session in each process of a cluster, begun and ended together.

    Attributes
    ----------
    notes : list of str
        What a reader of the figures must know, in sentences.
    """

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self.cluster, self.notes = cluster, []
        self._asked: list[ClusterServer] = []
        self.sampler = Sampler(tree=True)
        self._bytes: dict[str, int] = {}
        self._began = -math.inf

    def first(self) -> None:
        """Load what a session needs, and begin one: what is under way when the window opens is seen from its start."""
        super().first()
        self._begin()

    def start(self) -> None:
        """Open the window: a session that began a short while ago goes on."""
        if time.monotonic() - self._began > BEFORE_S:
            self.discard()
            self._begin()
        self._bytes, self.running = self.cluster.bytes, True

    def _begin(self) -> None:
        """Begin to watch, in workers first."""
        try:
            for worker in self.cluster.workers if self.cluster.ours else ():
                self._asked.append(worker)  # before it answers: an interrupt does not recall what was asked
                worker.ask("profile")
            super().start()
        except BaseException:
            self._end_workers()
            raise
        self._began, self.running = time.monotonic(), False

    def stop(self, keep: str | os.PathLike[str] | None = None) -> Trace:
        """Return what all processes did; a worker that died meanwhile has no lanes, which a note says."""
        self._began = -math.inf
        received = {name: count - self._bytes.get(name, 0) for name, count in self.cluster.bytes.items()}
        own = super().stop(keep)
        node = next((name for name in own.names if name.endswith(_NODE)), _ROOT + _NODE)
        lost = "{} died during the recording, and what it did is not seen."
        asked, seen = self._asked, self._end_workers()
        self.notes = [lost.format(worker.name) for worker in asked if worker not in seen]
        if not self.cluster.ours:
            self.notes.append("What the workers did is not seen: this cluster was started by somebody else.")
        made = {worker.address: _produced(trace) for worker, trace in seen.items()}
        names = {worker.address: worker.name for worker in self.cluster.workers}
        workers = [_renamed(trace, worker.name, node) for worker, trace in seen.items()]
        events = sum(trace.run.profiler.events for trace in (own, *seen.values()))
        facts = replace(own.run.profiler, events=events, copied_bytes=received)
        return Trace.merge(_on_the_wire(own, made, names), *workers).with_run(profiler=facts)

    def discard(self) -> None:
        """End the session in all processes without a trace."""
        if self._began > -math.inf:
            self._began, self.running = -math.inf, True
        self._end_workers()
        super().discard()

    def _end_workers(self) -> dict[ClusterServer, Trace]:
        """End the session in all workers, and return what each saw that lives."""
        seen = {}
        for worker in self._asked:
            with contextlib.suppress(ClusterError):
                seen[worker] = worker.ask("profiled")
        self._asked = []
        return seen

    def advice(self, trace: Trace) -> dict[str, str]:
        """Return what to change, by cause, where the network is what is waited for, with the bytes that came."""
        came, images = sum(trace.run.profiler.copied_bytes.values()), trace.run.images
        size, noun = "", trace.run.noun
        if came and images:
            size = f" {came / 1e6:.1f} MB came, {came / images / 1e3:.1f} kB for each {noun}:"
        cast = "uint8 is a quarter of float32, so cast on the consumer"
        packed = "compression=None where values are photos, which it does not make smaller"
        return {"transfer": f"fewer bytes over the network.{size} {cast}; and {packed}."}

    def failed(self, label: str, where: str, error: BaseException) -> ClusterError:
        """Return the error of a pipeline, which `Elements` has put in words, as that of a recording."""
        return ClusterError(f"{label} failed at {where}: {error}")


def _produced(worker: Trace) -> np.ndarray:
    """Return when a worker had its elements ready: the ends of its pipeline's root, sorted."""
    return np.sort(worker.end_ns[worker.select(name=_ROOT)])


def _renamed(worker: Trace, name: str, node: str) -> Trace:
    """Return the spans of a worker's pipeline; its lanes have its name, and its nodes stand below the consumer's."""
    mine = worker.where(worker.select(kind="pipeline"))
    threads = tuple(Thread(f"{name} · {thread.name}", thread.kind) for thread in mine.threads)
    # "Iterator::Root::Map" becomes "Iterator::Root::Prefetch::DataService::Worker::Map".
    is_node = [one == _ROOT or one.startswith(f"{_ROOT}::") for one in mine.names]
    names = (f"{node}::Worker{one[len(_ROOT) :]}" if n else one for one, n in zip(mine.names, is_node, strict=True))
    return replace(mine, threads=threads, names=tuple(names))


def _on_the_wire(own: Trace, made: dict[str, np.ndarray], names: dict[str, str]) -> Trace:
    """Return the consumer's spans, in which a request lasts only from when its element was ready.

    Most requests bring nothing, because the worker has nothing yet: they are left out. The wait before an element is
    ready is the work of the worker, which has lanes of its own. If a worker was not watched, the cause of the wait for
    it is unknown.
    """
    start, end, category, keep = own.start_ns.copy(), own.end_ns, own.category.copy(), np.ones(len(own), bool)
    words = list(own.names)
    for index, word in enumerate(own.names):
        address = word.removeprefix(REQUESTED)
        if address == word:
            continue
        words[index] = f"{REQUESTED}{names.get(address, address)}"
        rows = np.flatnonzero(own.name == index)
        if address not in made:
            category[rows] = CATEGORIES.index("iterator")
            continue
        rows = rows[np.argsort(end[rows], kind="stable")]
        brings, ready = _in_order(made[address], end[rows])
        keep[rows] = False
        keep[rows[brings]] = True
        start[rows[brings]] = np.maximum(ready, start[rows[brings]])
    changed = {"start_ns": start[keep], "duration_ns": (end - start)[keep], "category": category[keep]}
    return replace(own.where(keep), **changed, names=tuple(words))


def _in_order(ready: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which requests brought an element, and when it was ready.

    A worker hands its elements on in their order. So each comes with the first request that ends after it was ready,
    and after that of the element before.

    Parameters
    ----------
    ready : ndarray of int64
        When the elements were ready, sorted.
    ends : ndarray of int64
        When the requests ended, sorted.

    >>> [found.tolist() for found in _in_order(np.array([1, 2, 7]), np.array([0, 3, 5, 6, 9, 11]))]
    [[1, 2, 4], [1, 2, 7]]
    """
    numbers = np.arange(len(ready))
    place = np.maximum.accumulate(np.searchsorted(ends, ready) - numbers) + numbers
    came = place < len(ends)
    return place[came], ready[came]
