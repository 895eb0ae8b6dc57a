"""Scale by model: what feeds N accelerators on M hosts, and what limits first, on paper.

Everything is a closed form. Each resource needs some time for its share of an epoch; the epoch takes the longest of
these times, and the resource that needs it is the bottleneck. That is speed = min(F, P, G) of DS-Analyzer (VLDB 2021,
section 5.1), with the fetch rate F split into what a storage service, its links and its readers can do, and with
the imbalance of shards. Nothing is measured, nothing is random: `CapacityPlan.assumptions` lists what is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from labextras.cluster.capacity.fleet import FLEETS, Fleet, Simulated, simulate
from labextras.cluster.capacity.planned_cluster import MOST_ACCELERATORS, Answer, Named, Setting, chosen
from labkit.common.table import Table
from labkit.recording.accelerators import PRESETS as PUBLISHED
from labkit.views.picture import Picture

__all__ = ["FLEETS", "PRESETS", "CapacityPlan", "Fleet", "Resource", "Setting", "Simulated", "plan", "simulate"]


class Resource(NamedTuple):
    """What one resource contributes to an epoch.

    Parameters
    ----------
    name : str
    seconds : float
        Time that it needs for its share of an epoch, if it alone limited.
    images_per_s : float
        The same as a rate; infinite where it is not needed.
    utilisation : float
        Share of the epoch in which it is busy, 0 to 1; the bottleneck has 1.
    remedy : str
        What would make it fast enough for accelerators that never wait.
    """

    name: str
    seconds: float
    images_per_s: float
    utilisation: float
    remedy: str


@dataclass(frozen=True, repr=False)
class CapacityPlan(Answer):
    """An epoch on paper: speed, bottleneck, utilisation of each resource; made by `plan`.

    Parameters
    ----------
    setting : Setting
    name, source : str
        What the plan is called, and where its numbers come from.
    resources : tuple of Resource
        Accelerators first.
    """

    resources: tuple[Resource, ...]

    @property
    def epoch_s(self) -> float:
        """Seconds of an epoch: the longest time of any resource."""
        return max(r.seconds for r in self.resources)

    @property
    def images_per_s(self) -> float:
        """Images per second that are trained, all accelerators together."""
        return self.setting.images / self.epoch_s

    @property
    def bottleneck(self) -> str:
        """Name of the resource that limits; of equals the first, so that accelerators win a tie."""
        return max(self.resources, key=lambda r: r.seconds).name

    @property
    def busy(self) -> float:
        """Share of the epoch in which an accelerator works, 0 to 1."""
        return self.resources[0].utilisation

    @property
    def idle_accelerators(self) -> float:
        """How many accelerators' worth of time is lost."""
        return self.setting.accelerators * (1 - self.busy)

    @property
    def idle_hours(self) -> float:
        """Accelerator hours that an epoch loses to the stall."""
        return self.idle_accelerators * self.epoch_s / 3600

    @property
    def advice(self) -> str:
        """What to change, in one sentence."""
        if self.bottleneck == "accelerators":
            return "Nothing: the accelerators are the bottleneck, and a faster input pipeline would gain nothing."
        slow = [r for r in self.resources if r.seconds > self.resources[0].seconds * (1 + 1e-9)]
        slow.sort(key=lambda r: -r.seconds)
        return "For accelerators that never wait: " + "; ".join(r.remedy for r in slow) + "."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the plan takes for granted, a sentence each."""
        s = self.setting
        first = "Epochs after the first: caches are full." if s.cache_gb_per_host else "Nothing is cached."
        return (
            "Everything overlaps: a resource waits for no other, except where that one is the bottleneck.",
            f"Training is synchronous and data-parallel; {s.rate:,.0f} images/s per accelerator do not fall with their "
            "number (no time for gradients).",
            f"Each host has shards of its own: {s.shards_of_busiest:,} at most, {s.shards / s.hosts:,.4g} on average; "
            "all are of equal size, and an epoch ends with the last.",
            f"A request fetches {s.effective_request_mb:,.3g} MB; a stream waits {s.storage_latency_ms:g} ms for each, "
            f"then runs at {s.stream_mb_s:,.4g} MB/s. The service shares its bandwidth fairly.",
            f"{first} A host keeps its own shards; a shuffle of shards between hosts would undo that.",
            "Cores do nothing but this work; decode time does not depend on the number of cores.",
        )

    def headline(self) -> str:
        """Return speed, busy share and bottleneck in one sentence."""
        s = self.setting
        many = f"{s.accelerators:,} accelerator{'s' * (s.accelerators > 1)} on {s.hosts:,} host{'s' * (s.hosts > 1)}"
        epoch = f"{self.images_per_s:,.0f} images/s, an epoch in {_duration(self.epoch_s)}"
        text = f"{many}: busy {100 * self.busy:.0f} %, {epoch}; limited by {self.bottleneck}."
        lost = f"{self.idle_accelerators:,.1f} accelerators, {self.idle_hours:,.2f} accelerator-hours an epoch"
        return f"{text} The stall costs {lost}." if self.idle_accelerators >= 0.05 else text

    def __str__(self) -> str:
        """Return headline, resources, advice and assumptions as text."""
        rates = ("no limit" if math.isinf(r.images_per_s) else f"{r.images_per_s:,.0f}" for r in self.resources)
        rows = [(r.name, rate, f"{100 * r.utilisation:.0f} %") for r, rate in zip(self.resources, rates, strict=True)]
        table = Table(("resource", "images/s", "utilisation"), rows, right=(1, 2), indent="  ")
        return self.told(f"modelled; {self.source}", *table.lines())

    def sweep(self) -> list[CapacityPlan]:
        """Return plans from 1 accelerator to four times this one's, two for each doubling; hosts grow with them.

        They end at a million accelerators, which is the most of a plan.
        """
        s = self.setting
        most, per_host = min(4 * s.accelerators, MOST_ACCELERATORS), s.accelerators / s.hosts
        steps = (round(2 ** (i / 2)) for i in range(2 * most.bit_length()))
        near = (n for n in steps if n <= most and abs(n - s.accelerators) > 0.1 * s.accelerators)
        counts = sorted({s.accelerators, most, *near})
        hosts = (min(n, max(1, math.ceil(n / per_host - 1e-9))) for n in counts)
        grown = (replace(s, accelerators=n, hosts=h) for n, h in zip(counts, hosts, strict=True))
        return [_solve(setting, self.name, self.source) for setting in grown]

    def limits(self) -> Picture:
        """Draw how busy each resource would let the accelerators be, against their number; the lowest line limits.

        A resource that never limits, up to four times the accelerators, has no line.
        """
        plans, series = self.sweep(), {}
        for i, resource in enumerate(self.resources):
            shares = [100 / max(1.0, p.resources[i].seconds / p.resources[0].seconds) for p in plans]
            if i == 0 or min(shares) < 99.95:
                series[resource.name] = shares
        note = "Modelled: how busy the accelerators would be if only this resource limited them."
        return self._drawn(plans, series, "busy (%)", "what limits", note)

    def stall(self) -> Picture:
        """Draw how many accelerators are bought and how many of them work, against their number: the cost of stall."""
        plans = self.sweep()
        bought = [float(p.setting.accelerators) for p in plans]
        working = [p.setting.accelerators * p.busy for p in plans]
        series = {"bought": bought, "at work": working}
        return self._drawn(plans, series, "accelerators", "the cost of the stall", "Modelled.")

    def _drawn(self, plans: list[Any], series: dict[str, list[float]], y: str, what: str, note: str) -> Picture:
        x, x_label = [p.setting.accelerators for p in plans], "accelerators (as many on each host, one storage service)"
        return self.against(x, series, what, x_label=x_label, y_label=y, note=note, log_x=True)


_MIXED = PUBLISHED["V100 mixed"]

#: Plans by name: what they change of `Setting`, and where it is written.
PRESETS: Named = {
    "DGX-1V": (
        {"accelerators": 8, "cores_per_accelerator": 5.0, "accelerator": "V100 mixed", "cache_gb_per_host": 500.0},
        "40 cores for 8 V100: GTC 2019, session S9925; "
        f"ResNet-50 in {_MIXED.precision} precision: {_MIXED.source}; ImageNet in memory is assumed",
    ),
    "DGX-2": (
        {"accelerators": 16, "cores_per_accelerator": 3.0, "accelerator": "V100 mixed", "cache_gb_per_host": 500.0},
        "48 cores for 16 V100: GTC 2019, session S9925; the rest as DGX-1V",
    ),
    "30 GB on 8 servers": (
        {"accelerators": 8, "hosts": 8, "dataset_gb": 30.0, "shards": 80},
        "ten shards a server, 80 of 375 MB: Harvard AI-5 (Protopapas, Jayaram), lecture 7; one V100 each is assumed",
    ),
    "a thousand accelerators": (
        {
            "accelerators": 1000, "hosts": 125, "dataset_gb": 1000.0, "shards": 8000, "storage_mb_s": 20000.0,
            "storage_requests_s": 22000.0, "readers_per_host": 32,
        },
        "eight V100 a host; 5,500 requests/s a prefix, four prefixes: AWS S3; 20 GB/s is assumed",
    ),
}  # fmt: skip


def plan(preset: str | None = None, **changes: Any) -> CapacityPlan:
    """Return the plan of a preset, of `Setting`'s defaults, or of either with changes.

    Parameters
    ----------
    preset : str, optional
        A key of `PRESETS`.
    **changes
        Fields of `Setting`.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.

    Examples
    --------
    >>> print(plan(accelerators=16, hosts=2, storage_mb_s=300).bottleneck)
    storage bandwidth
    """
    return _solve(*chosen(Setting, "Plan", PRESETS, preset, changes))


def _solve(s: Setting, name: str, source: str) -> CapacityPlan:
    """Return the time of each resource for its share of an epoch."""
    uncached, megabytes = 1 - s.cached, s.dataset_gb * 1000
    request_mb = s.effective_request_mb
    busiest = s.shards_of_busiest
    train_s = s.images / (s.accelerators * s.rate)
    # One stream reads one shard, request by request, and then the next; the last round may be a short one.
    requests_of_shard = math.ceil(s.shard_mb / request_mb - 1e-9)
    shard_s = (requests_of_shard * s.storage_latency_ms / 1e3 + s.shard_mb / s.stream_mb_s) * uncached
    rounds = -(-busiest // s.readers_per_host)
    cores = s.rate * s.cpu_ms_per_image / 1e3 * s.imbalance
    needed = s.accelerators * s.rate
    link = needed * s.image_kb / 1e3 * uncached
    remedy = "more and smaller shards with more readers: a single shard takes longer than the training"
    if shard_s <= train_s:
        readers = -(-busiest // math.floor(train_s / shard_s)) if shard_s else 1
        remedy = f"{readers:,} or more readers per host"
    multiple = -(-s.shards // s.hosts) * s.hosts
    rows = [
        ("accelerators", train_s, "more accelerators"),
        ("cores", s.images * s.cpu_ms_per_image / 1e3 / (s.accelerators * s.cores_per_accelerator) * s.imbalance,
         f"{cores:,.3g} cores per accelerator"),
        ("storage bandwidth", megabytes * uncached / s.storage_mb_s, f"a storage service of {link:,.0f} MB/s"),
        ("storage requests", s.shards * requests_of_shard * uncached / s.storage_requests_s,
         f"{s.shards * requests_of_shard * uncached / train_s:,.0f} requests/s, or larger ones"),
        ("readers", rounds * shard_s, remedy),
        ("network of a host", megabytes * uncached / (s.hosts * s.network_mb_s) * s.imbalance,
         f"{link / s.hosts * s.imbalance:,.0f} MB/s into each host"),
        ("uneven shards", train_s * s.imbalance if s.imbalance > 1 + 1e-12 else 0.0,
         f"a number of shards that {s.hosts:,} divides, as {multiple:,}"),
    ]  # fmt: skip
    epoch_s = max(seconds for _, seconds, _ in rows)
    resources = (
        Resource(name, seconds, s.images / seconds if seconds else math.inf, seconds / epoch_s, remedy)
        for name, seconds, remedy in rows
    )
    return CapacityPlan(s, name, source, tuple(resources))


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.3g} s"
