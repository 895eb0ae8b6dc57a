"""Scale by simulation: hosts with accelerators, workers of a data service, one storage service, failures, money.

`plan` computes the limits by formulas. Here batches travel one by one, on the clock of `labkit.simulate`: a worker
reads and prepares, its link sends, the link of a host receives, and all accelerators step together when each has its
batch. So buffers and slow workers count, too, for which there is no formula.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from labextras.cluster.capacity.planned_cluster import Answer, Named, Setting, chosen
from labkit.common.numbers import number, one_of, ranged, whole
from labkit.simulate.clock import MOVE, SLEEP, WAIT, Clock, Process
from labkit.views.picture import Picture

#: The most workers of a fleet.
MOST_WORKERS = 100_000

#: An accelerator that is busy for this share of the time has enough workers.
BUSY = 0.95

#: Batches that pass through a simulation, all accelerators together, and the most steps of one.
_BATCHES, _STEPS = 10_000, 60

#: How many batches a worker and a link hold ready, for each that is asked for.
_READY = 2

#: A request from a host to a worker, in ms; and how many times as long a slow worker takes for a batch.
_LATENCY_MS, _SLOW = 0.2, 4.0

#: How long the steps wait for a checkpoint, in seconds.
_CHECKPOINT_S = 10.0


@dataclass(frozen=True)
class Fleet(Setting):
    """What is simulated: a `Setting`, and workers, failures and prices besides. Hosts do not prepare anything.

    Parameters
    ----------
    batch_size : int
        Images of a batch for one accelerator. A batch is one element of the service.
    workers : int
        Machines that read and prepare batches for all hosts.
    worker_cores : float
    element_kb : float
        A prepared image on its way; 150.5 are 224×224×3 bytes of uint8, and float32 has four times as many.
    sharding : str
        ``dynamic``: a worker that is free takes the next batch; ``data``: each worker has an equal share of batches.
    slow_workers : float
        This share of the workers takes four times as long to prepare a batch. It is no worker if the share is 0, else
        at least one.
    failure_hours : float
        Mean hours of one accelerator between failures that end the job. 50,700 are 419 interruptions of 16,384
        accelerators in 54 days (Llama 3, 2024).
    restart_s, checkpoint_every_s : float
        From a failure to the next step; and between checkpoints, for each of which the steps wait 10 s.
    price_per_hour, worker_price_per_hour : float
        Of one accelerator and of one worker, in any currency; 0 where no price is stated.
    watts, worker_watts : float
        Of one accelerator and of one worker; 0 where it is not stated.
    """

    batch_size: int = ranged(whole, 1, 100_000, 64, other="(images)")
    workers: int = ranged(whole, 1, MOST_WORKERS, 1, other="(machines)")
    worker_cores: float = ranged(number, 0.01, 10_000, 16.0, other="(cores)")
    element_kb: float = ranged(number, 0.001, 1e9, 150.528, other="(kB)")
    sharding: str = "dynamic"
    slow_workers: float = ranged(number, 0, 1, 0.0, other="(share of the workers)")
    failure_hours: float = ranged(number, 0.01, 1e9, 50_700.0, other="(hours)")
    restart_s: float = ranged(number, 0, 1e7, 600.0, other="(s)")
    checkpoint_every_s: float = ranged(number, 1, 1e7, 1800.0, other="(s)")
    price_per_hour: float = ranged(number, 0, 1e9, 0.0, other="(of any currency)")
    worker_price_per_hour: float = ranged(number, 0, 1e9, 0.0, other="(of any currency)")
    watts: float = ranged(number, 0, 1e6, 0.0, other="(W)")
    worker_watts: float = ranged(number, 0, 1e6, 0.0, other="(W)")

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated, in one sentence."""
        super().__post_init__()
        one_of("sharding", self.sharding, ("dynamic", "data"))
        whole("accelerators", self.accelerators, 1, 20_000, other="to be simulated")
        if self.useful < 1e-3:
            fail = f"failure_hours is {self.failure_hours:g}, so {self.accelerators:,} accelerators fail before they"
            late = f"reach a checkpoint after {self.checkpoint_every_s:g} s"
            raise ValueError(f"{fail} {late}; allowed: more hours, or more checkpoints")

    @property
    def cached(self) -> float:
        """Share of the set that the workers, which read, keep in memory, 0 to 1."""
        return min(1.0, self.cache_gb_per_host * self.workers / self.dataset_gb)

    @property
    def slow(self) -> int:
        """Workers that prepare slowly: at least one, where any share of them does."""
        return max(int(self.slow_workers > 0), round(self.slow_workers * self.workers))

    @property
    def mb_s_into_host(self) -> float:
        """Megabytes of prepared images a second into each host, if no accelerator ever waits."""
        return self.accelerators * self.rate * self.element_kb / 1e3 / self.hosts

    @property
    def fewest_workers(self) -> int:
        """Workers whose cores or links would be enough, if no batch ever waited for another: the bound on paper."""
        by_cores = self.accelerators * self.rate * self.cpu_ms_per_image / 1e3 / self.worker_cores
        return max(1, math.ceil(max(by_cores, self.mb_s_into_host * self.hosts / self.network_mb_s) - 1e-9))

    @property
    def useful(self) -> float:
        """Share of the time that is no checkpoint, no restart and no step done twice, 0 to 1.

        Failures come at random, so a turn, which ends with its checkpoint, is as long as none comes with probability
        ``exp(-turn / between)``; the mean number of whole turns before a failure follows.
        """
        turn, between = self.checkpoint_every_s + _CHECKPOINT_S, 3600 * self.failure_hours / self.accelerators
        turns = math.exp(-turn / between) / -math.expm1(-turn / between)
        return turns * self.checkpoint_every_s / (between + self.restart_s)

    @property
    def failure_s(self) -> float:
        """Mean seconds that one failure of an accelerator costs the whole job: half a turn, and the restart."""
        return (self.checkpoint_every_s + _CHECKPOINT_S) / 2 + self.restart_s


class _Buffer:
    """Batches that some processes have ready for others, and the processes that wait for batches, or for room."""

    def __init__(self, clock: Clock, room: float = math.inf) -> None:
        self.clock, self.room, self.count = clock, room, 0
        self.takers: deque[Process] = deque()
        self.putters: list[Process] = []

    def has_room(self) -> Process:
        """Wait for room."""
        while self.count >= self.room:
            yield WAIT, self.putters

    def put(self) -> None:
        """Add a batch."""
        self.count += 1
        if self.takers:
            self.clock.ready.append(self.takers.popleft())

    def holds(self, batches: int = 1) -> Process:
        """Wait for so many batches."""
        while self.count < batches:
            yield WAIT, self.takers

    def remove(self, batches: int = 1) -> None:
        """Take batches that are there."""
        self.count -= batches
        self.clock.wake(self.putters)


class _FleetJob:
    """The processes of one simulation, and the buffers between them; times in nanoseconds."""

    def __init__(self, fleet: Fleet) -> None:
        f, n = fleet, fleet.accelerators
        self.fleet, self.clock = fleet, Clock(float)
        self.steps = max(6, min(_STEPS, _BATCHES // n))
        #: Steps that fill the pipeline, and are not counted.
        self.first = self.steps // 3
        # Bytes and requests of a batch, and its time at the storage service; of a worker that reads alone, too, whose
        # readers are divided among the batches that it reads at once.
        megabytes = f.batch_size * f.image_kb / 1e3 * (1 - f.cached)
        requests = megabytes / f.effective_request_mb
        self.stored_ns = 1e9 * max(megabytes / f.storage_mb_s, requests / f.storage_requests_s)
        streams_s = (requests * f.storage_latency_ms / 1e3 + megabytes / f.stream_mb_s) / f.readers_per_host
        self.read_ns = _READY * 1e9 * max(streams_s, megabytes / f.network_mb_s)
        self.sent_ns = 1e6 * f.batch_size * f.element_kb / f.network_mb_s
        #: What workers have sent, and the buffers of those workers.
        self.sent, self.senders = _Buffer(self.clock), deque[_Buffer]()
        self.needs = [n // f.hosts + (h < n % f.hosts) for h in range(f.hosts)]
        self.held = [_Buffer(self.clock, _READY * need) for need in self.needs]
        self.ends: list[float] = []
        self.worked = 0.0
        trainer = self.train()
        workers = [p for number in range(f.workers) for p in self.worker(number)]
        self.clock.run([*workers, *map(self.host, self.needs, self.held), trainer], trainer)

    def worker(self, number: int) -> tuple[Process, ...]:
        """Return the processes of a worker: it reads, works and sends at the same time."""
        f = self.fleet
        work_ns = 1e6 * f.batch_size * f.cpu_ms_per_image / f.worker_cores * (_SLOW if number < f.slow else 1.0)
        quota = f.accelerators * self.steps
        if f.sharding == "data":
            quota = quota // f.workers + (number < quota % f.workers)
        read, made, unsent = _Buffer(self.clock, _READY), _Buffer(self.clock, _READY), _Buffer(self.clock)
        unread, chance = iter(range(quota)), random.Random(f"0 {number}").random

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
                yield from read.holds()
                read.remove()
                yield SLEEP, work_ns
                self.worked += work_ns
                made.put()  # until a host takes it
                unsent.put()

        def sending() -> Process:
            for _ in range(quota):
                yield from unsent.holds()
                unsent.remove()
                yield SLEEP, 1e6 * _LATENCY_MS + self.sent_ns
                self.senders.append(made)
                self.sent.put()

        return (*(reading() for _ in range(_READY)), working(), sending())

    def host(self, need: int, held: _Buffer) -> Process:
        """Take batches as long as there is room, one after the other: the link of the host brings them."""
        for _ in range(need * self.steps):
            yield from held.has_room()
            yield from self.sent.holds()
            self.sent.remove()
            self.senders.popleft().remove()
            yield SLEEP, self.sent_ns
            held.put()

    def train(self) -> Process:
        """Step on all accelerators at once, as soon as each has a batch."""
        for _ in range(self.steps):
            for need, held in zip(self.needs, self.held, strict=True):
                yield from held.holds(need)
            for need, held in zip(self.needs, self.held, strict=True):
                held.remove(need)
            yield SLEEP, 1e9 * self.fleet.batch_size / self.fleet.rate
            self.ends.append(self.clock.now)


@dataclass(frozen=True, repr=False)
class Simulated(Answer):
    """An epoch of a `Fleet`: speed, failures, money, energy; made by `simulate`.

    Parameters
    ----------
    setting : Fleet
    name, source : str
        What it is called, and where its numbers come from.
    """

    @cached_property
    def _run(self) -> _FleetJob:
        return _FleetJob(self.setting)

    @property
    def step_s(self) -> float:
        """Mean seconds from step to step; where workers have fixed shares, until the last share is used up."""
        run, ends = self._run, self._run.ends
        mean = (ends[-1] - ends[run.first - 1]) / (len(ends) - run.first)
        if self.setting.sharding == "data":
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
        """Share of its time in which a worker works, 0 to 1."""
        return min(1.0, self._run.worked / self._run.ends[-1] / self.setting.workers)

    @property
    def epoch_s(self) -> float:
        """Seconds of an epoch, with its share of failures."""
        return self.setting.images / self.images_per_s / self.setting.useful

    @property
    def cost(self) -> float:
        """Price of an epoch; 0 where no prices are stated."""
        s = self.setting
        return self.epoch_s / 3600 * (s.accelerators * s.price_per_hour + s.workers * s.worker_price_per_hour)

    @property
    def kwh(self) -> float:
        """Energy of an epoch in kilowatt hours; 0 where no watts are stated."""
        s = self.setting
        return self.epoch_s / 3.6e6 * (s.accelerators * s.watts + s.workers * s.worker_watts)

    def with_workers(self, workers: int) -> Simulated:
        """Return the same with another number of workers."""
        return replace(self, setting=replace(self.setting, workers=workers))

    def enough(self) -> int | None:
        """Return how many workers keep accelerators busy for 95 % of the time; None if none do.

        Where they are many, the answer may be a sixteenth above the fewest. More than 100,000 are none.
        """
        fewest = self.setting.fewest_workers
        if self.setting.mb_s_into_host > self.setting.network_mb_s / BUSY:
            return None  # the links of the hosts are too slow for any number of workers
        count = max(1, math.ceil(BUSY * fewest))
        while count <= min(4 * fewest + 4, MOST_WORKERS):
            if self.with_workers(count).busy >= BUSY:
                return count
            count += max(1, count // 16)
        return None

    def lost_worker(self) -> float:
        """Return the share of the speed that is left while one worker is away, 0 to 1; it has no replacement yet."""
        left = self.setting.workers - 1
        return self.with_workers(left).images_per_s / self.images_per_s if left else 0.0

    @property
    def advice(self) -> str:
        """What to change, in one sentence."""
        s = self.setting
        if self.busy >= BUSY:
            return "More workers would gain nothing: the accelerators are busy."
        reads = s.accelerators * s.rate * s.image_kb / 1e3 * (1 - s.cached)
        requests = reads / s.effective_request_mb
        bounds = {
            f"Send fewer bytes: {s.mb_s_into_host:,.0f} MB/s would have to go into each host, and its link takes "
            f"{s.network_mb_s:,.0f}.": s.mb_s_into_host / s.network_mb_s,
            f"A faster storage service: it gives {s.storage_mb_s:,.0f} of {reads:,.0f} MB/s.": reads / s.storage_mb_s,
            f"A storage service that answers more requests, or larger ones: it answers {s.storage_requests_s:,.10g} of "
            f"{requests:,.0f} a second.": requests / s.storage_requests_s,
        }
        worst = max(bounds, key=bounds.__getitem__)
        if bounds[worst] > 1:
            return worst
        if self.workers_busy > 0.9:
            return f"More workers: at least {max(s.fewest_workers, s.workers + 1):,} for accelerators that never wait."
        return f"Look {'at slow workers, ' * bool(s.slow_workers)}at the latency of storage."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the simulation takes for granted, a sentence each."""
        s = self.setting
        slow = f", {s.slow:,} of the {s.workers:,} machines in {_SLOW:g} times the time" if s.slow else ""
        return (
            f"{s.workers:,} workers of {s.worker_cores:g} cores prepare{slow}; each machine reads, works and sends at "
            f"the same time, {_READY} batches ahead.",
            "Training is synchronous: each step begins when all accelerators have a batch; there is no time for "
            "gradients.",
            "Storage is shared fairly, and a read waits between half and one and a half times the mean.",
            "Each machine has a link of its own for each direction; switches have no limit.",
            f"{len(self._run.ends)} steps were simulated, the first third as warm-up; an epoch is more of the same.",
            "Failures come at random; one of them ends the job, which goes on from its last checkpoint on a spare "
            "machine.",
            "Machines cost and draw the same whether they work or wait.",
        )

    def headline(self) -> str:
        """Return speed, busy share, time, money and energy in sentences."""
        s, often = self.setting, self.setting.failure_hours / self.setting.accelerators
        money = f", costs {self.cost:,.2f} at the given prices" if self.cost else ""
        energy = f", and takes {self.kwh:,.1f} kWh" if self.kwh else ""
        return (
            f"{s.accelerators:,} accelerators on {s.hosts:,} host{'s' * (s.hosts > 1)} with {s.workers:,} workers: "
            f"busy {100 * self.busy:.0f} %, {self.images_per_s:,.0f} images/s; "
            f"workers busy {100 * self.workers_busy:.0f} %. An epoch takes {self.epoch_s:,.3g} s{money}{energy}. "
            f"A failure comes every {often:,.{'1f' if often >= 0.1 else '2g'}} h and costs {s.failure_s / 60:,.0f} "
            f"min: {100 * s.useful:.1f} % of the time is useful (simulated)."
        )

    def __str__(self) -> str:
        """Return name, headline, advice and assumptions as text."""
        return self.told(self.source)

    @cached_property
    def sweep(self) -> list[Simulated]:
        """The same with numbers of workers from a quarter of `Fleet.fewest_workers` to its double, 100,000 at most."""
        bound = self.setting.fewest_workers
        counts = {min(max(1, round(bound * share)), MOST_WORKERS) for share in (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)}
        return [self.with_workers(n) for n in sorted(counts | {self.setting.workers})]

    def limits(self) -> Picture:
        """Draw how busy accelerators and workers are, against the number of workers."""
        accelerators = [100 * one.busy for one in self.sweep]
        workers = [100 * one.workers_busy for one in self.sweep]
        return self._drawn({"accelerators": accelerators, "workers": workers}, "busy (%)", "who is busy")

    def stall(self) -> Picture:
        """Draw the price of an epoch against the number of workers; its length where there are no prices."""
        if not self.cost:
            return self._drawn({"epoch": [one.epoch_s for one in self.sweep]}, "seconds of an epoch", "time")
        return self._drawn({"epoch": [one.cost for one in self.sweep]}, "price of an epoch", "money")

    def _drawn(self, series: dict[str, list[float]], y_label: str, what: str) -> Picture:
        x, note = [one.setting.workers for one in self.sweep], "Simulated."
        return self.against(x, series, what, x_label="workers of the service", y_label=y_label, note=note)


_PRICES = {"price_per_hour": 1.844, "watts": 400.0, "worker_price_per_hour": 0.68, "worker_watts": 120.0}
_A100 = _PRICES | {"accelerator": "A100", "batch_size": 400, "failure_hours": 50_700.0, "dataset_gb": 147.0}
_SOURCE = (
    "A100: DLIO benchmark, resnet50_a100.yaml; 1.844 $/h: AWS Capacity Blocks, January 2025; 400 W: NVIDIA data sheet; "
    "worker: c5.4xlarge, 16 vCPU at 0.68 $/h: AWS documentation, 120 W assumed; failures: Llama 3 (2024), of H100"
)

#: Fleets by name: what they change of `Fleet`, and where it is written.
FLEETS: Named = {
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


def simulate(preset: str | None = None, **changes: Any) -> Simulated:
    """Return the simulation of a preset, of `Fleet`'s defaults, or of either with changes.

    Equal arguments give equal results, on every platform.

    Parameters
    ----------
    preset : str, optional
        A key of `FLEETS`.
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
    return Simulated(*chosen(Fleet, "Fleet", FLEETS, preset, changes))
