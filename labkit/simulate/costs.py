"""The costs of the stages of a pipeline, and its knobs: the two inputs of a simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from labkit.common.numbers import check_names, check_ranges, number, one_of, ranged, whole

#: Stages in the order in which data passes them. Open, read and map are paid per image, the others per batch.
STAGES = ("open", "read", "map", "batch", "copy", "train")
_MOST_MS = 3_600_000
_VALUES = 2000  # equally likely values that stand for a distribution

Cost = Any  # a number, or the equally likely values of a distribution


@dataclass(frozen=True, eq=False)
class Costs:
    """Time of each stage in milliseconds: what it takes alone, on one core or asleep.

    Every cost becomes an array, and the map a dict of them, of one operation called "map" where none is named.

    Parameters
    ----------
    open, read : cost
        Per image: opening its file, and reading it. `Knobs.latency_ms` and `Knobs.bandwidth_mb_s` come on top.
    map : cost, or dict of name to cost
        Per image, or per batch with `Knobs.map_batches`. A dict names the operations in their order, as
        ``{"decode": 4, "resize": 1, "augment": 3}``.
    batch : cost
        Per batch: copying its images together.
    copy : cost
        Per batch: from host to accelerator, in turn with the train step.
    train : cost
        Per batch: the step of the accelerator.
    sleeps : tuple of str
        Stages and map operations that wait for something else and leave the cores alone. Copy and train always do.

    A cost is a number, or an array of equally likely values: times taken from a trace, or a distribution
    such as `lognormal`. Map operations of one image are drawn together: an image in the slowest tenth of one
    operation is in the slowest tenth of another whose values are sorted, too.

    Raises
    ------
    ValueError
        If a cost is negative, not finite, above an hour or empty, all are 0, or `sleeps` names what is not there.
    """

    open: Cost = 0.0
    read: Cost = 0.0
    map: Cost | Mapping[str, Cost] = 0.0
    batch: Cost = 0.0
    copy: Cost = 0.0
    train: Cost = 0.0
    sleeps: tuple[str, ...] = ("open", "read")

    def __post_init__(self) -> None:
        """Check every cost and turn it into an array."""
        named = isinstance(self.map, Mapping)
        given = dict(self.map) if named else {"map": self.map}
        if not given or not all(isinstance(name, str) and name.strip() for name in given):
            raise ValueError(f"cost map is {given!r:.80}; allowed: a dict of operation name to cost")
        if double := sorted(set(given) & (set(STAGES) - {"map"})):
            raise ValueError(f"map has an operation {double[0]!r}; allowed: a name that is no stage's")
        operations = {name: _values(f"map[{name!r}]" if named else "map", cost) for name, cost in given.items()}
        object.__setattr__(self, "map", operations)
        for stage in STAGES:
            if stage != "map":
                object.__setattr__(self, stage, _values(stage, getattr(self, stage)))
        object.__setattr__(self, "sleeps", tuple(self.sleeps))
        allowed = ("open", "read", *self.map, "batch")
        for name in self.sleeps:
            if name not in allowed and name != "map":
                raise ValueError(f"sleeps names {name!r}; allowed: {', '.join(allowed)}")
        if not any(np.any(cost) for cost in self._all.values()):
            raise ValueError("costs are all 0; allowed: at least one above 0")

    @property
    def _all(self) -> dict[str, np.ndarray]:
        before, after = {"open": self.open, "read": self.read}, {"batch": self.batch, "copy": self.copy}
        return {**before, **self.map, **after, "train": self.train}

    @property
    def mean_ms(self) -> dict[str, float]:
        """Mean of every stage and map operation in milliseconds, in order."""
        return {name: float(cost.mean()) for name, cost in self._all.items()}

    def asleep(self, name: str) -> bool:
        """Tell whether a stage or map operation leaves the cores alone."""
        return name in self.sleeps or name in ("copy", "train") or (name in self.map and "map" in self.sleeps)

    def __repr__(self) -> str:
        """Return means and spreads on one line."""
        shown = (f"{name} {_words(cost)}" for name, cost in self._all.items() if np.any(cost))
        return f"Costs({', '.join(shown)} ms)"


@dataclass(frozen=True)
class Knobs:
    """How the pipeline is put together, and the machine that it runs on.

    Parameters
    ----------
    batch_size : int
        Images in a batch; each accelerator takes a batch per step.
    cores : int
        Work on more threads than that at one instant slows each thread down.
    core_gain : float
        What each core at work beyond the first adds, 0 to 1. Cores share memory and caches, and two hyper-threads
        share one core: then it is less than 1, and work on several threads slows each down a little.
    map_calls : int
        Calls of the map function at once; 1 is a sequential map, without threads of its own.
    cycle_length : int
        Files that a parallel interleave opens and reads at once, each on its own thread, two images ahead;
        with 1, opening and reading are part of the map function.
    threads : int or None
        Threads that run map calls; None for as many as cores, as tf.data has.
    prefetch : int
        Batches that are kept ready; 0 for none: the consumer then makes each batch itself.
    cache_hit : float
        Share of images, 0 to 1, whose bytes are in memory: neither opened nor read. The cache comes before the map.
    latency_ms : float
        Added to each opening that is not a hit, asleep.
    bandwidth_mb_s : float or None
        Of the storage, shared equally by the reads of one instant; None for no limit.
    image_kb : float
        Size of a file in kB (1000 bytes); matters with a bandwidth only.
    accelerators : int
        Consumers that share the pipeline and step together, each with a batch of its own.
    deterministic : bool
        Whether images keep their order; if not, those that are ready overtake.
    map_batches : bool
        Whether the map function gets whole batches: then the costs of the map are per batch, and opening and reading
        come before the batch.

    Raises
    ------
    ValueError
        If a knob is out of range; the sentence names it.

    Notes
    -----
    At constant costs and with a buffer, more of a resource is never slower in the long run, but for some per cent
    where threads that share cores fall into another rhythm. Without a prefetch, parallel calls and the consumer can
    lock into one that costs half a step. With costs that vary, one more call or thread may change which image
    waits for which, and single steps may be later.
    """

    batch_size: int = ranged(whole, 1, 65536, 32)
    cores: int = ranged(whole, 1, 65536, 2)
    core_gain: float = ranged(number, 0, 1, 1.0)
    map_calls: int = ranged(whole, 1, 4096, 1)
    cycle_length: int = ranged(whole, 1, 4096, 1)
    threads: int | None = ranged(whole, 1, 4096, None, optional=True, other="or None for as many as cores")
    prefetch: int = ranged(whole, 0, 65536, 0)
    cache_hit: float = ranged(number, 0, 1, 0.0)
    latency_ms: float = ranged(number, 0, _MOST_MS, 0.0)
    bandwidth_mb_s: float | None = ranged(number, 1e-3, 1e9, None, optional=True, other="or None for no limit")
    image_kb: float = ranged(number, 1e-3, 1e9, 100.0)
    accelerators: int = ranged(whole, 1, 4096, 1)
    deterministic: bool = True
    map_batches: bool = False

    def __post_init__(self) -> None:
        """Check every knob."""
        check_ranges(self)
        for name in ("deterministic", "map_batches"):
            one_of(name, getattr(self, name), (True, False))

    @property
    def pool(self) -> int:
        """Threads that run map calls."""
        return min(self.map_calls, self.threads or self.cores)

    def capacity(self, threads: int) -> float:
        """Return how many cores' worth of work so many threads get done together."""
        return 1.0 + self.core_gain * (min(threads, self.cores) - 1) if threads else 0.0

    def changed(self, **changes: Any) -> Knobs:
        """Return these knobs with some changed.

        Raises
        ------
        ValueError
            If there is no such knob, or its value is out of range.
        """
        check_names("knob", changes, vars(self))
        return replace(self, **changes)


def lognormal(mean_ms: float, spread: float) -> np.ndarray:
    """Return a lognormal distribution as its equally likely values, shape (2000,), rising, in milliseconds.

    Parameters
    ----------
    mean_ms : float
    spread : float
        Standard deviation over mean, from 0 to 5; photos from cameras vary by about 0.3, their decoding too.

    Raises
    ------
    ValueError
        If a figure is out of range.
    """
    mean_ms, spread = number("mean_ms", mean_ms, 0, _MOST_MS), number("spread", spread, 0, 5)
    sigma = math.sqrt(math.log1p(spread * spread))
    normal = NormalDist()
    values = np.array([math.exp(sigma * normal.inv_cdf((i + 0.5) / _VALUES)) for i in range(_VALUES)])
    return values * (mean_ms / values.mean())


def stragglers(typical_ms: float, slow_ms: float, share: float) -> np.ndarray:
    """Return a cost of `typical_ms` that is `slow_ms` in a `share` of cases, as its equally likely values."""
    typical_ms, slow_ms = (number(n, v, 0, _MOST_MS) for n, v in (("typical_ms", typical_ms), ("slow_ms", slow_ms)))
    slow = round(number("share", share, 0, 1) * _VALUES)
    return np.sort(np.r_[np.full(_VALUES - slow, typical_ms), np.full(slow, slow_ms)])


def _values(name: str, cost: Any) -> np.ndarray:
    """Return a cost as a checked array of its equally likely values."""
    try:
        values = np.array(cost, np.float64, ndmin=1)
    except (TypeError, ValueError):
        values = np.zeros(0)
    good = not isinstance(cost, (bool, str)) and values.ndim == 1 and values.size
    if not good or not ((values >= 0) & (values <= _MOST_MS)).all():
        raise ValueError(
            f"cost {name} is {cost!r:.60}; allowed: milliseconds from 0 to {_MOST_MS}, "
            "or a one-dimensional array of them"
        )
    values.flags.writeable = False
    return values


def _words(cost: np.ndarray) -> str:
    """Return a cost in words: its value, or mean and spread."""
    mean = float(cost.mean())
    spread = float(cost.std()) / mean if mean else 0.0
    return f"{mean:.3g}" if spread < 1e-9 else f"{mean:.3g} (±{spread:.0%})"
