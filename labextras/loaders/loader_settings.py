"""A loader in other ways: how many workers it needs, and the changes of its arguments that `labextras.tune` tries."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labextras.loaders.loader_elements import arrays, has_places, varied
from labextras.loaders.loader_facts import Loader
from labextras.loaders.loader_rules import Workers
from labkit import simulate
from labkit.common.environment import control_groups, cores
from labkit.common.table import Table, Tabular
from labkit.pipelines.same_elements import row_digests
from labkit.recording import measures, recorder
from labkit.simulate.fitting import CORE_GAIN
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace

#: The knee is the fewest workers with this share of the speed of any number of them.
_KNEE = 0.95
#: The numbers that are looked at: up to that of the cores, unless calls wait for something else than a core.
_TRIED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: So many workers for each core are tried for such calls.
_WAITERS = 4
#: The batches that PyTorch prepares for each worker by itself.
_AHEAD = 2
#: What a control group says of its quota, and the period; by whether it is of version 1.
_QUOTAS = {False: ("cpu.max",), True: ("cpu.cfs_quota_us", "cpu.cfs_period_us")}

#: The arguments of a DataLoader that concern its speed; batches that each worker of a trial prepares; the rules of
#: advice that more workers answer.
_ARGUMENTS = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers")
_DEEP = 8
_MORE_WORKERS = tuple(
    f"loader.{one}" for one in ("more-workers", "more-calls", "more-reads", "let-workers", "beside-training", "ahead")
)


@dataclass(frozen=True, repr=False)
class WorkerCount(Tabular):
    """How many workers a loader needs.

    Parameters
    ----------
    workers : int
        Those of the recording.
    predicted : dict of int to float
        Elements per second, by the number of workers; 0 is the thread that trains.
    noun : str
    limits : tuple of str
        What the machine or its container sets, in sentences.
    measured : Measures or None
        Of a few numbers of workers, where that was asked for.
    """

    workers: int
    predicted: dict[int, float]
    noun: str
    limits: tuple[str, ...] = ()
    measured: measures.Measures | None = None

    @property
    def best(self) -> int:
        """The fewest that are about as fast as any number."""
        enough = _KNEE * max(self.predicted.values())
        return next(number for number, rate in self.predicted.items() if rate >= enough)

    @property
    def text(self) -> str:
        """The answer in one sentence."""
        gain = self.predicted[self.best] / self.predicted[self.workers]
        if gain <= 1 / _KNEE:
            return f"num_workers={self.workers} is enough: more would gain nothing."
        return f"num_workers={self.best}: about {gain:.1f} times as fast as {self.workers}; more would gain nothing."

    def table(self) -> Table:
        """One row for each number of workers."""
        found = {int(name): self.measured.rates(name) for name in self.measured or ()}
        rows = [
            (f"{number}", f"{rate:,.0f}", f"{np.median(found[number]):,.0f}" if number in found else "")
            for number, rate in self.predicted.items()
        ]
        head = ("workers", f"predicted {self.noun}s/s", f"measured {self.noun}s/s")
        return Table(head, rows, right=(1, 2), notes=(self.text, *self.limits), rule=True)


def count_workers(
    loader: Any, accelerator: Any, *, steps: int = 20, check: bool = False, progress: bool | None = None
) -> WorkerCount:
    """Record a DataLoader of PyTorch once, and predict its speed with other numbers of workers.

    A simulation (`labkit.simulate`) of what a batch was seen to compute and to wait for, on the cores that this process
    may use: those of its container, where that has a quota.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
    accelerator, steps, progress
        As in `labkit.record`.
    check : bool
        Whether to measure the present number, the predicted one and one above it in turn.

    Returns
    -------
    WorkerCount

    Raises
    ------
    TypeError, ValueError, RecordingError
        As `labkit.record`; TypeError for any other loader.
    """
    if Loader(loader).framework != "torch" or not hasattr(loader, "num_workers"):
        raise TypeError(f"loader is a {type(loader).__name__}; allowed: a DataLoader of PyTorch")
    plan = {"steps": steps, "progress": progress}
    found = predicted(recorder.record(recorder.recordable(loader), accelerator, **plan))
    if not check:
        return found
    several = sorted({found.workers, found.best, min(found.best + 1, max(found.predicted))})
    variants = {f"{number}": varied(loader, num_workers=number) for number in several}
    return replace(found, measured=measures.measure(variants, accelerator, profile=False, **plan))


def predicted(trace: Trace) -> WorkerCount:
    """Return how many workers the loader of a recording needs; see `count_workers`."""
    timeline = Timeline(trace)
    run, known, may_use = trace.run, Workers(timeline.lanes, trace.run), allowed_cores()
    computes, waits, copies = (1e3 * seconds / timeline.steps for seconds in known.seconds())
    work = {"computing": computes, "waiting": waits}
    costs = simulate.Costs(map=work, copy=copies, train=timeline.train_ms, sleeps=("waiting",))
    model = simulate.Model(costs, simulate.Knobs(batch_size=1, cores=max(1, math.floor(may_use)), core_gain=CORE_GAIN))
    most = _TRIED[-1] if waits > computes else math.ceil(may_use)
    limits = [f"This container may use {may_use:.3g} cores of {cores()}."] * (may_use < cores())
    parts = [part for part in (run.work.components if run.work else ()) if None not in (part.shape or [None])]
    if batch := sum(math.prod(part.shape) * np.dtype(part.dtype).itemsize for part in parts) * (run.batch_size or 0):
        room = shutil.disk_usage("/dev/shm").free // (_AHEAD * batch) if Path("/dev/shm").is_dir() else most
        limits += [f"/dev/shm has room for the batches of {room} workers."] * (room < most)
        most = max(1, min(most, room))
    size = (timeline.images or 0) / timeline.steps
    rates = {0: size * model.predict().images_per_s}
    for number in sorted({*(n for n in _TRIED if n <= most), most, run.loader.workers or 1}):
        one = model.predict(map_calls=number, threads=number, prefetch=_AHEAD * number)
        rates[number] = size * one.images_per_s
    return WorkerCount(run.loader.workers or 0, rates, run.noun, tuple(limits))


def allowed_cores(**where: Path) -> float:
    """Return how many cores this process may use: those that it may run on, or the quota of its container.

    Parameters
    ----------
    where
        As for `labkit.common.environment.control_groups`.
    """
    may_use: list[float] = [cores()]
    for group, first in control_groups("cpu", **where):
        with contextlib.suppress(OSError, ValueError):
            quota, period = " ".join((group / name).read_text() for name in _QUOTAS[first]).split()
            may_use += [int(quota) / int(period)] * (int(quota) > 0)
    return min(may_use)


@dataclass(frozen=True)
class WrittenLoader:
    """A loader as the arguments that may be changed, which `labextras.tune.improve` takes as it takes a pipeline.

    Parameters
    ----------
    driver : labextras.loaders.loader_elements.LoaderElements
    """

    driver: Any
    calls = every = branches = ()
    unread = ""

    def build(self) -> Any:
        """Return what is driven, and read."""
        return self.driver

    def without(self, *_: str) -> WrittenLoader:
        """Return this loader: it has no calls that could be left out."""
        return self

    def code(self) -> str:
        """Return its arguments as Python, one a line."""
        loader = self.driver.loader
        lines = [f"    {name}={getattr(loader, name)}," for name in _ARGUMENTS if hasattr(loader, name)]
        whole = type(getattr(loader, "sampler", None)).__name__ == "BatchSampler"
        return "\n".join([f"loader = {type(loader).__name__}(", *lines, *["    sampler=BatchSampler(…),"] * whole, ")"])

    @cached_property
    def draws(self) -> bool:
        """Whether an element of a dataset with places is another one when it is asked for again."""
        dataset = getattr(self.driver.loader, "dataset", None)
        places = range(min(4, len(dataset))) if has_places(dataset) else ()
        with self.driver.untouched():
            one, other = ([row_digests(arrays(dataset[i]), batched=False) for i in places] for _ in range(2))
        return one != other

    def changes(self) -> Iterator[tuple[str, WrittenLoader, tuple[str, ...], bool]]:
        """Yield what is changed, the loader then, the rules that ask for it, and whether calls get whole batches."""
        loader, most = self.driver.loader, math.ceil(allowed_cores())
        if Loader(loader).framework != "torch":
            return
        numbers = [number for number in (1, most, _WAITERS * most) if number > loader.num_workers]
        offers = [("num_workers", number, _MORE_WORKERS) for number in numbers]
        if loader.num_workers:
            offers += [("persistent_workers", True, ("loader.lasting-workers",))] * (not loader.persistent_workers)
            offers += [("prefetch_factor", _DEEP, ("loader.ahead",))] * (loader.prefetch_factor < _DEEP)
        for name, value, answers in offers:
            yield f"{name}={value}", self._having(**{name: value}), answers, False
        collates = getattr(loader.collate_fn, "__name__", "") == "default_collate"
        if collates and has_places(loader.dataset) and not hasattr(loader.dataset, "__getitems__"):
            convert = sys.modules["torch.utils.data"].default_convert
            whole = {"sampler": loader.batch_sampler, "batch_sampler": None, "batch_size": None, "drop_last": False}
            written = self._having(**whole, collate_fn=convert)
            yield "whole batches in one call", written, ("loader.whole-batches",), True

    def _having(self, **settings: Any) -> WrittenLoader:
        return WrittenLoader(type(self.driver)(varied(self.driver.loader, **settings)))
