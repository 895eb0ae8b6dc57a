"""Scale by simulation: hosts with accelerators, workers of a data service, one storage service, failures, money.

`plan` computes the limits by formulas. Here batches travel one by one, on the clock of `labkit.simulate`: a worker
reads and prepares, its link sends, the link of a host receives, and all accelerators step together when each has its
batch. So buffers, slow workers and steps of unequal length count, too, for which there is no formula.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labextras.cluster.capacity.plan_pictures import Answer
from labextras.cluster.capacity.planned_cluster import Setting, chosen
from labkit.common.numbers import number, one_of, ranged, whole
from labkit.simulate.clock import MOVE, SLEEP, WAIT, Clock, Process
from labkit.views.picture import Picture

#: The most workers of a fleet.
MOST_MAKERS = 100_000

#: Batches that pass through a simulation, all accelerators together, and the most steps of one.
_BATCHES, _STEPS = 10_000, 60

#: How many batches a worker and a link hold ready, for each that is asked for.
_READY = 2

#: A request from a host to a worker, in ms; and how many times as long a slow worker takes for a batch.
_LATENCY_MS, _SLOW = 0.2, 4.0

#: Failures that are drawn to learn what they cost.
_FAILURES = 4000


@dataclass(frozen=True)
class Fleet(Setting):
    """What is simulated: a `Setting`, and workers, failures and prices besides.

    Parameters
    ----------
    batch_size : int
        Images of a batch for one accelerator. A batch is one element of the service.
    workers : int
        Machines that prepare batches for all hosts; 0 for none, and hosts prepare for themselves.
    worker_cores : float
    element_kb : float
        A prepared image on its way; 150.5 are 224×224×3 bytes of uint8, and float32 has four times as many.
    sharding : str
        ``dynamic``: a worker that is free takes the next batch; ``data``: each worker has an equal share of batches.
    slow_workers : float
        This share of the workers (of the hosts if there are no workers) takes four times as long to prepare a batch. It
        is no worker if the share is 0, else at least one.
    step_spread : float
        Standard deviation of an accelerator's step, relative to its mean. All wait for the slowest.
    failure_hours : float or None
        Mean hours of one accelerator between failures that end the job; None for never. 50,700 are 419 interruptions
        of 16,384 accelerators in 54 days (Llama 3, 2024).
    restart_s, checkpoint_every_s, checkpoint_s : float
        From a failure to the next step; between checkpoints; and how long steps wait for one.
    worker_price_per_hour : float or None
        In the currency of ``price_per_hour``.
    watts, worker_watts : float or None
        Of one accelerator and of one worker.
    """

    batch_size: int = ranged(whole, 1, 100_000, 64, other="(images)")
    workers: int = ranged(whole, 0, MOST_MAKERS, 0, other="(machines)")
    worker_cores: float = ranged(number, 0.01, 10_000, 16.0, other="(cores)")
    element_kb: float = ranged(number, 0.001, 1e9, 150.528, other="(kB)")
    sharding: str = "dynamic"
    slow_workers: float = ranged(number, 0, 1, 0.0, other="(share of the workers)")
    step_spread: float = ranged(number, 0, 2, 0.0, other="(relative to the mean)")
    failure_hours: float | None = ranged(number, 0.01, 1e9, None, optional=True, other="(hours)")
    restart_s: float = ranged(number, 0, 1e7, 600.0, other="(s)")
    checkpoint_every_s: float = ranged(number, 1, 1e7, 1800.0, other="(s)")
    checkpoint_s: float = ranged(number, 0, 1e6, 10.0, other="(s)")
    worker_price_per_hour: float | None = ranged(number, 0, 1e9, None, optional=True, other="(of any currency)")
    watts: float | None = ranged(number, 0, 1e6, None, optional=True, other="(W)")
    worker_watts: float | None = ranged(number, 0, 1e6, None, optional=True, other="(W)")

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated, in one sentence."""
        super().__post_init__()
        one_of("sharding", self.sharding, ("dynamic", "data"))
        whole("accelerators", self.accelerators, 1, 20_000, other="to be simulated")

    @property
    def makers(self) -> int:
        """Machines that prepare batches."""
        return self.workers or self.hosts

    @property
    def cached(self) -> float:
        """Share of the set that the machines which read keep in memory, 0 to 1."""
        return min(1.0, self.cache_gb_per_host * self.makers / self.dataset_gb)

    @property
    def slow_makers(self) -> int:
        """Machines that prepare slowly: at least one, where any share of them does."""
        return max(int(self.slow_workers > 0), round(self.slow_workers * self.makers))

    @property
    def fewest_workers(self) -> int:
        """Workers whose cores or links would be enough, if no batch ever waited for another: the bound on paper."""
        rate = self.accelerators * self.rate
        by_cores = rate * self.cpu_ms_per_image / 1e3 / self.worker_cores
        return max(1, math.ceil(max(by_cores, rate * self.element_kb / 1e3 / self.network_mb_s) - 1e-9))


class _Buffer:
    """Batches that one process has ready for another one, and the processes that wait for a batch, or for room."""

    def __init__(self, clock: Clock, room: float = math.inf) -> None:
        self.clock, self.room, self.count = clock, room, 0
        self.takers: list[Process] = []
        self.putters: list[Process] = []

    def has_room(self) -> Process:
        """Wait for room."""
        while self.count >= self.room:
            yield WAIT, self.putters

    def put(self) -> None:
        """Add a batch."""
        self.count += 1
        self.clock.wake(self.takers)

    def take(self) -> Process:
        """Wait for a batch, and take it."""
        while not self.count:
            yield WAIT, self.takers
        self.remove()

    def remove(self) -> None:
        """Take a batch that is there."""
        self.count -= 1
        self.clock.wake(self.putters)


class _FleetHost:
    """How many batches a host needs for a step, and holds; and where those for it are."""

    def __init__(self, need: int, pool: deque[_Buffer], asking: deque[Process]) -> None:
        self.need, self.pool, self.asking = need, pool, asking
        self.held = 0
        self.waits: list[Process] = []


class _FleetJob:
    """The processes of one simulation, and the buffers between them; times in nanoseconds."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        f, n = fleet, fleet.accelerators
        self.fleet, self.seed, self.clock = fleet, seed, Clock(float)
        self.steps = max(6, min(_STEPS, _BATCHES // n))
        #: Steps that fill the pipeline, and are not counted.
        self.first = self.steps // 3
        #: Whether each worker has an equal share of the batches, and no more.
        self.fixed = f.sharding == "data" and f.workers > 0
        self.step_ns = self._step_lengths()
        # Bytes and requests of a batch, and its time at the storage service; of a machine that reads alone, too, whose
        # readers are divided among the batches that it reads at once.
        megabytes = f.batch_size * f.image_kb / 1e3 * (1 - f.cached)
        requests = megabytes / f.effective_request_mb
        self.stored_ns = 1e9 * max(megabytes / f.storage_mb_s, requests / f.storage_requests_s)
        streams_s = (requests * f.storage_latency_ms / 1e3 + megabytes / f.stream_mb_s) / f.readers_per_host
        self.read_ns = _READY * 1e9 * max(streams_s, megabytes / f.network_mb_s)
        #: A batch on its way; without workers it has none.
        self.sent_ns = 1e6 * f.batch_size * f.element_kb / f.network_mb_s if f.workers else 0.0
        one_pool: tuple[deque[_Buffer], deque[Process]] = deque(), deque()
        needs = [n // f.hosts + (h < n % f.hosts) for h in range(f.hosts)]
        self.hosts = [_FleetHost(need, *(one_pool if f.workers else (deque(), deque()))) for need in needs]
        self.unready, self.taken, self.trainer = f.hosts, 0, list[Process]()
        self.ends: list[float] = []
        self.worked = 0.0

    def _step_lengths(self) -> np.ndarray:
        """Return how long each step takes: as long as that of the slowest accelerator."""
        f, one = self.fleet, 1e9 * self.fleet.batch_size / self.fleet.rate
        spread = math.sqrt(math.log1p(f.step_spread**2))
        if not spread:
            return np.full(self.steps, one)
        drawn = np.random.Generator(np.random.PCG64(self.seed)).standard_normal((self.steps, f.accelerators))
        lengths = np.exp(spread * drawn)
        # The steps that are counted have the mean that is stated: nobody trains faster than that.
        for block in (lengths[: self.first], lengths[self.first :]):
            block *= one / block.mean()
        return lengths.max(axis=1)

    def go(self) -> None:
        """Run all processes until the last step ends."""
        trainer = self.train()
        machines = [p for m in range(self.fleet.makers) for p in self.machine(m)]
        self.clock.run([*machines, *map(self.host, self.hosts), trainer], trainer)

    def machine(self, m: int) -> tuple[Process, ...]:
        """Return the processes of a machine that prepares: it reads, works and sends at the same time."""
        f, host = self.fleet, self.hosts[0 if self.fleet.workers else m]
        cores, ahead = (
            (f.worker_cores, _READY) if f.workers else (f.cores_per_accelerator * host.need, _READY * host.need)
        )
        work_ns = 1e6 * f.batch_size * f.cpu_ms_per_image / cores * (_SLOW if m < f.slow_makers else 1.0)
        total = f.accelerators * self.steps
        quota = total // f.makers + (m < total % f.makers) if self.fixed else total
        read, made, unsent = _Buffer(self.clock, ahead), _Buffer(self.clock, ahead), _Buffer(self.clock)
        unread, chance = iter(range(quota)), random.Random(f"{self.seed} {m}").random

        def reading() -> Process:
            for _ in unread:
                yield from read.has_room()
                if self.read_ns > self.stored_ns:
                    # Reads of equal length would stay in step for ever, and ask the storage all at once.
                    yield SLEEP, (self.read_ns - self.stored_ns) * (0.5 + chance())
                if self.stored_ns:
                    yield MOVE, self.stored_ns
                read.put()

        def working() -> Process:
            for _ in range(quota):
                yield from made.has_room()
                yield from read.take()
                yield SLEEP, work_ns
                self.worked += work_ns
                made.put()  # until a host takes it
                unsent.put()

        def sending() -> Process:
            for _ in range(quota):
                yield from unsent.take()
                if f.workers:
                    yield SLEEP, 1e6 * _LATENCY_MS + self.sent_ns
                host.pool.append(made)
                if host.asking:
                    self.clock.ready.append(host.asking.popleft())

        return (*(reading() for _ in range(_READY)), working(), sending())

    def host(self, host: _FleetHost) -> Process:
        """Take batches as long as there is room, one after the other: the link of the host brings them."""
        while True:
            while host.held >= host.need * min(_READY, self.steps - self.taken):
                yield WAIT, host.waits
            while not host.pool:
                yield WAIT, host.asking
            host.pool.popleft().remove()
            if self.sent_ns:
                yield SLEEP, self.sent_ns
            host.held += 1
            if host.held == host.need:
                self.unready -= 1
                if not self.unready:
                    self.clock.wake(self.trainer)

    def train(self) -> Process:
        """Step on all accelerators at once, as soon as each has a batch."""
        for length in self.step_ns:
            while self.unready:
                yield WAIT, self.trainer
            self.taken += 1
            for host in self.hosts:
                host.held -= host.need
                self.unready += host.held < host.need
                self.clock.wake(host.waits)
            yield SLEEP, float(length)
            self.ends.append(self.clock.now)


@dataclass(frozen=True, repr=False)
class Simulated(Answer):
    """An epoch of a `Fleet`: speed, failures, money, energy; made by `simulate`.

    Parameters
    ----------
    setting : Fleet
    name, source : str
        What it is called, and where its numbers come from.
    seed : int
    """

    setting: Fleet
    name: str
    source: str
    seed: int

    @cached_property
    def _run(self) -> _FleetJob:
        run = _FleetJob(self.setting, self.seed)
        run.go()
        return run

    @property
    def step_s(self) -> float:
        """Mean seconds from step to step; where workers have fixed shares, until the last share is used up."""
        run = self._run
        ends, first = run.ends, run.first
        mean = (ends[-1] - ends[first - 1]) / (len(ends) - first)
        if run.fixed:
            # Where one share is late, the first steps are much shorter than the others, and count. What was read ahead
            # in them was no gift of the storage.
            mean = max(min(mean, ends[-1] / len(ends)), self.setting.accelerators * run.stored_ns)
        return mean / 1e9

    @property
    def images_per_s(self) -> float:
        """Images per second that are trained, all accelerators together, between failures."""
        return self.setting.accelerators * self.setting.batch_size / self.step_s

    @property
    def busy(self) -> float:
        """Share of the time between failures in which an accelerator works, 0 to 1."""
        return min(1.0, self.setting.batch_size / self.setting.rate / self.step_s)

    @property
    def workers_busy(self) -> float:
        """Share of its time in which a machine that prepares works, 0 to 1."""
        return min(1.0, self._run.worked / self._run.ends[-1] / self.setting.makers)

    @cached_property
    def useful(self) -> float:
        """Share of the time that is no checkpoint, no restart and no step done twice, 0 to 1."""
        s = self.setting
        turn = s.checkpoint_every_s + s.checkpoint_s
        if s.failure_hours is None:
            return 1.0 if not s.checkpoint_s else s.checkpoint_every_s / turn
        drawn = np.random.Generator(np.random.PCG64([self.seed, 1])).standard_exponential(_FAILURES)
        until = drawn * 3600 * s.failure_hours / s.accelerators
        return float((until // turn).sum() * s.checkpoint_every_s / (until + s.restart_s).sum())

    @property
    def epoch_s(self) -> float:
        """Seconds of an epoch, with its share of failures."""
        return self.setting.images / self.images_per_s / self.useful if self.useful else math.inf

    @property
    def cost(self) -> float | None:
        """Price of an epoch; None without the prices of all machines in it."""
        return self._bill(self.setting.price_per_hour, self.setting.worker_price_per_hour)

    @property
    def kwh(self) -> float | None:
        """Energy of an epoch in kilowatt hours; None without the watts of all machines in it."""
        watts = self._bill(self.setting.watts, self.setting.worker_watts)
        return None if watts is None else watts / 1000

    def _bill(self, accelerator: float | None, worker: float | None) -> float | None:
        s = self.setting
        if accelerator is None or (s.workers and worker is None):
            return None
        return self.epoch_s / 3600 * (s.accelerators * accelerator + s.workers * (worker or 0.0))

    @property
    def failure_s(self) -> float:
        """Mean seconds that one failure of an accelerator costs the whole job: half a turn, and the restart."""
        s = self.setting
        return (s.checkpoint_every_s + s.checkpoint_s) / 2 + s.restart_s

    def with_workers(self, workers: int) -> Simulated:
        """Return the same with another number of workers."""
        return replace(self, setting=replace(self.setting, workers=workers))

    def enough(self, share: float = 0.95) -> int | None:
        """Return how many workers keep accelerators as busy as `share` of what endless workers would; None if none do.

        Where they are many, the answer may be a sixteenth above the fewest. More than 100,000 are none.

        Raises
        ------
        ValueError
            If `share` is not above 0 and at most 1.
        """
        number("share", share, above=0, most=1)
        s = self.setting
        if s.accelerators * s.rate * s.element_kb / 1e3 / s.hosts > s.network_mb_s / share:
            return None  # the links of the hosts are too slow for any number of workers
        job = _FleetJob(s, self.seed)
        ideal = float(job.step_ns[job.first :].mean()) / 1e9
        count = max(1, math.ceil(share * s.fewest_workers))
        most = min(4 * s.fewest_workers + 4, MOST_MAKERS)
        while count <= most:
            if self.with_workers(count).step_s <= ideal / share:
                return count
            count += max(1, count // 16)
        return None

    def lost_worker(self) -> float:
        """Return the share of the speed that is left while one worker is away, 0 to 1; it has no replacement yet."""
        s = self.setting
        if s.workers > 1:
            return self.with_workers(s.workers - 1).images_per_s / self.images_per_s
        return 0.0 if s.workers else 1.0  # without workers there is none to lose

    @property
    def advice(self) -> str:
        """What to change, in one sentence."""
        s = self.setting
        if self.busy >= 0.95:
            return "More workers would gain nothing: the accelerators are busy."
        into_host = s.accelerators * s.rate * s.element_kb / 1e3 / s.hosts
        if s.workers and into_host > s.network_mb_s:
            return (
                f"Send fewer bytes: {into_host:,.0f} MB/s would have to go into each host, and its link takes "
                f"{s.network_mb_s:,.0f}."
            )
        reads = s.accelerators * s.rate * s.image_kb / 1e3 * (1 - s.cached)
        requests = reads / s.effective_request_mb
        if reads > s.storage_mb_s and reads / s.storage_mb_s >= requests / s.storage_requests_s:
            return f"A faster storage service: it gives {s.storage_mb_s:,.0f} of {reads:,.0f} MB/s."
        if requests > s.storage_requests_s:
            return (
                "A storage service that answers more requests, or larger ones: it answers "
                f"{s.storage_requests_s:,.10g} of {requests:,.0f} a second."
            )
        if s.workers and self.workers_busy > 0.9:
            fewest = max(s.fewest_workers, s.workers + 1)
            return f"More workers: at least {fewest:,} for accelerators that never wait."
        if not s.workers:
            return f"Workers of a service, at least {s.fewest_workers:,}, or more cores on the hosts."
        looks = ["at slow workers"] * bool(s.slow_workers) + ["at steps of unequal length"] * bool(s.step_spread)
        return f"Look {', '.join([*looks, 'at the latency of storage'])}."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the simulation takes for granted, a sentence each."""
        s = self.setting
        makers = f"{s.workers:,} workers of {s.worker_cores:g} cores" if s.workers else "The cores of the hosts"
        some = f", {s.slow_makers:,} of the {s.makers:,} machines in {_SLOW:g} times the time"
        slow = some if s.slow_makers else ""
        return (
            f"{makers} prepare{slow}; each machine reads, works and sends at the same time, {_READY} batches ahead.",
            "Training is synchronous: each step begins when all accelerators have a batch, and takes as long as the "
            "slowest; there is no time for gradients.",
            "Storage is shared fairly, and a read waits between half and one and a half times the mean.",
            "Each machine has a link of its own for each direction; switches have no limit.",
            f"{len(self._run.ends)} steps were simulated, the first third as warm-up; an epoch is more of the same.",
            f"Failures come at random, {_FAILURES:,} were drawn; one of them ends the job, which goes on from its last "
            "checkpoint on a spare machine.",
            "Machines cost and draw the same whether they work or wait.",
        )

    def headline(self) -> str:
        """Return speed, busy share, time, money and energy in sentences."""
        s = self.setting
        text = (
            f"{s.accelerators:,} accelerators on {s.hosts:,} host{'s' * (s.hosts > 1)} with {s.workers:,} workers: "
            f"busy {100 * self.busy:.0f} %, {self.images_per_s:,.0f} images/s; "
            f"workers busy {100 * self.workers_busy:.0f} %. "
        )
        if self.useful:
            text += f"An epoch takes {self.epoch_s:,.3g} s"
            text += "" if self.cost is None else f", costs {self.cost:,.2f} at the given prices"
            text += "" if self.kwh is None else f", and takes {self.kwh:,.1f} kWh"
        else:
            text += "An epoch never ends: the job always fails before it reaches a checkpoint"
        if s.failure_hours is not None:
            often = s.failure_hours / s.accelerators
            text += (
                f". A failure comes every {often:,.{'1f' if often >= 0.1 else '2g'}} h and costs "
                f"{self.failure_s / 60:,.0f} min: {100 * self.useful:.1f} % of the time is useful"
            )
        return f"{text} (simulated)."

    def __str__(self) -> str:
        """Return name, headline, advice and assumptions as text."""
        lines = [f"{self.name} ({self.source})", self.headline(), self.advice, "Assumptions:"]
        return "\n".join([*lines, *(f"- {a}" for a in self.assumptions)])

    __repr__ = __str__

    @cached_property
    def sweep(self) -> list[Simulated]:
        """The same with numbers of workers from a quarter of `Fleet.fewest_workers` to its double, 100,000 at most."""
        bound = self.setting.fewest_workers
        counts = {min(max(1, round(bound * share)), MOST_MAKERS) for share in (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)}
        return [self.with_workers(n) for n in sorted(counts | {max(1, self.setting.workers)})]

    def limits(self) -> Picture:
        """Draw how busy accelerators and workers are, against the number of workers."""
        series = {
            "accelerators": [100 * one.busy for one in self.sweep],
            "workers": [100 * one.workers_busy for one in self.sweep],
        }
        return self._drawn(series, "busy (%)", "who is busy")

    def stall(self) -> Picture:
        """Draw the price of an epoch against the number of workers; its length where there are no prices.

        Where an epoch never ends, it has neither, and the speed between failures is drawn.
        """
        if not self.useful:
            speed = {"speed": [one.images_per_s for one in self.sweep]}
            return self._drawn(speed, "images/s between failures", "speed")
        if self.cost is None:
            return self._drawn({"epoch": [one.epoch_s for one in self.sweep]}, "seconds of an epoch", "time")
        return self._drawn({"epoch": [one.cost for one in self.sweep]}, "price of an epoch", "money")

    def _drawn(self, series: dict[str, list[float]], y_label: str, what: str) -> Picture:
        x, note = [one.setting.workers for one in self.sweep], f"Simulated. {self.headline()}"
        return self.against(x, series, what, x_label="workers of the service", y_label=y_label, note=note)


_PRICES = {"price_per_hour": 1.844, "watts": 400.0, "worker_price_per_hour": 0.68, "worker_watts": 120.0}
_A100 = _PRICES | {"accelerator": "A100", "batch_size": 400, "failure_hours": 50_700.0, "dataset_gb": 147.0}
_SOURCE = (
    "A100: DLIO benchmark, resnet50_a100.yaml; 1.844 $/h: AWS Capacity Blocks, January 2025; 400 W: NVIDIA data sheet; "
    "worker: c5.4xlarge, 16 vCPU at 0.68 $/h: AWS documentation, 120 W assumed; failures: Llama 3 (2024), of H100"
)

#: Fleets by name: what they change of `Fleet`, and where it is written.
FLEETS: dict[str, tuple[dict[str, Any], str]] = {
    "8 accelerators": (_A100 | {"accelerators": 8, "hosts": 1, "workers": 2}, _SOURCE),
    "64 accelerators": (
        _A100 | {"accelerators": 64, "hosts": 8, "workers": 12, "storage_mb_s": 10_000.0},
        f"{_SOURCE}; 10 GB/s of storage are assumed",
    ),
    "1,000 accelerators": (
        _A100 | {
            "accelerators": 1000, "hosts": 125, "workers": 190, "storage_mb_s": 150_000.0,
            "storage_requests_s": 50_000.0,
        },
        f"{_SOURCE}; 150 GB/s of storage are assumed",
    ),
}  # fmt: skip


def simulate(preset: str | None = None, seed: int = 0, **changes: Any) -> Simulated:
    """Return the simulation of a preset, of `Fleet`'s defaults, or of either with changes.

    Parameters
    ----------
    preset : str, optional
        A key of `FLEETS`.
    seed : int
        Equal arguments give equal results, on every platform.
    **changes
        Fields of `Fleet`.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.

    Examples
    --------
    >>> simulate(accelerators=64, hosts=8, cpu_ms_per_image=3.2).enough()
    5
    """
    return Simulated(*chosen(Fleet, "Fleet", FLEETS, preset, changes), whole("seed", seed, 0))
