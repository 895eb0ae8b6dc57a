"""What is planned: accelerators, hosts, cores, data and storage, each number with its unit and range; and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from labkit.common.numbers import check_names, check_ranges, number, one_of, ranged, whole
from labkit.recording.accelerators import modelled, published
from labkit.views import charts
from labkit.views.picture import Picture

#: Inches: a chart below the sliders of an explorer is as high as leaves both on one screen.
_PLOT = 1.45

#: The most accelerators of a plan.
MOST_ACCELERATORS = 1_000_000

#: By name: what a preset changes, and where it is written.
Named = dict[str, tuple[dict[str, Any], str]]


def chosen(kind: type, name: str, presets: Named, preset: str | None, changes: dict[str, Any]) -> tuple[Any, str, str]:
    """Return a setting of a kind, made of a preset and its changes, with its name, `name` without one, and its source.

    Raises
    ------
    ValueError
        If the preset or a field is unknown, or a value is out of range.
    """
    if preset is not None:
        one_of("preset", preset, presets)
    check_names("setting", changes, [f.name for f in fields(kind)])
    given, source = presets[preset] if preset else ({}, "numbers stated by the reader")
    if preset and changes:
        preset, source = f"{preset}, changed", f"{source}; changed: {', '.join(changes)}"
    return kind(**(given | changes)), preset or name, source


@dataclass(frozen=True)
class Setting:
    """What is planned, every number with its unit; the defaults are one host with eight V100 on an object store.

    Parameters
    ----------
    accelerators, hosts : int
        All together; they are spread evenly, each host has at least one.
    accelerator : str or float
        A key of `labkit.accelerators.PRESETS` for images, which stands for the published images per second at the
        published batch size, or the images per second that one of them trains.
    cores_per_accelerator : float
    cpu_ms_per_image : float
        Time of one core for decode, resize and augmentation of an image. 3.2 ms were measured with ``tf.image`` on the
        machine that this lab was written on; notebook 04b measures yours.
    image_kb : float
        Mean size of a stored image, 1 kB = 1,000 bytes; 115 is the mean record of ImageNet (DLIO benchmark).
    dataset_gb : float
    shards : int
        Files of equal size. Each belongs to one host.
    readers_per_host : int
        Files that a host reads at the same time (``cycle_length`` of a parallel interleave).
    request_mb : float
        Bytes that one request fetches; a request never covers more than a shard. `image_kb` / 1000 for a file an image.
    storage_mb_s, storage_requests_s : float
        What the storage service does for all hosts together. 5,500 requests/s are what AWS S3 states for a prefix.
    storage_latency_ms, stream_mb_s : float
        Wait for the first byte of a request, and bandwidth of one stream after it; see `labkit.storage.PRESETS`.
    network_mb_s : float
        Link of one host; 1,250 is 10 Gbit/s.
    cache_gb_per_host : float
        Memory of a host that keeps what it has read, from the second epoch on.
    """

    accelerators: int = ranged(whole, 1, MOST_ACCELERATORS, 8, other="(accelerators)")
    hosts: int = ranged(whole, 1, 1_000_000, 1, other="(hosts)")
    accelerator: str | float = "V100"
    cores_per_accelerator: float = ranged(number, 0.01, 10_000, 4.0, other="(cores)")
    cpu_ms_per_image: float = ranged(number, 0.0001, 1e6, 3.2, other="(ms of one core)")
    image_kb: float = ranged(number, 0.001, 1e9, 115.0, other="(kB)")
    dataset_gb: float = ranged(number, 1e-6, 1e9, 150.0, other="(GB)")
    shards: int = ranged(whole, 1, 1_000_000_000, 1024, other="(shards)")
    readers_per_host: int = ranged(whole, 1, 1_000_000, 16, other="(files open at the same time)")
    request_mb: float = ranged(number, 1e-6, 1e6, 8.0, other="(MB)")
    storage_mb_s: float = ranged(number, 0.001, 1e12, 5000.0, other="(MB/s)")
    storage_requests_s: float = ranged(number, 0.001, 1e12, 5500.0, other="(requests/s)")
    storage_latency_ms: float = ranged(number, 0, 1e7, 30.0, other="(ms)")
    stream_mb_s: float = ranged(number, 0.001, 1e9, 85.0, other="(MB/s)")
    network_mb_s: float = ranged(number, 0.001, 1e9, 1250.0, other="(MB/s)")
    cache_gb_per_host: float = ranged(number, 0, 1e9, 0.0, other="(GB)")

    def __post_init__(self) -> None:
        """Refuse what is no plan, in one sentence."""
        check_ranges(self)
        _ = self.rate
        whole("hosts", self.hosts, 1, self.accelerators, other="(each has one accelerator or more)")
        if self.images < self.shards:
            less = f"would hold less than an image of {self.image_kb:g} kB each; allowed: fewer of them, or more data"
            raise ValueError(f"{self.shards:,} shards of {self.dataset_gb:g} GB {less}")

    @property
    def rate(self) -> float:
        """Images per second that one accelerator trains."""
        if isinstance(self.accelerator, str):
            return published(self.accelerator, "image")[1].per_s
        return 1e9 / modelled(images_per_s=self.accelerator).each_ns

    @property
    def images(self) -> float:
        """Images of an epoch."""
        return self.dataset_gb * 1e6 / self.image_kb

    @property
    def shard_mb(self) -> float:
        """Size of a shard in MB."""
        return self.dataset_gb * 1000 / self.shards

    @property
    def effective_request_mb(self) -> float:
        """Size of a request in MB: never more than a shard."""
        return min(self.request_mb, self.shard_mb)

    @property
    def shards_of_busiest(self) -> int:
        """Shards of the host that has most."""
        return -(-self.shards // self.hosts)

    @property
    def imbalance(self) -> float:
        """Shards of the busiest host, relative to the mean; 1 where they divide evenly."""
        return self.shards_of_busiest * self.hosts / self.shards

    @property
    def cached(self) -> float:
        """Share of the set that hosts keep in memory, 0 to 1."""
        return min(1.0, self.cache_gb_per_host * self.hosts / self.dataset_gb)


@dataclass(frozen=True, repr=False)
class Answer:
    """What a plan and a simulation show alike.

    Parameters
    ----------
    setting : Setting
    name, source : str
        What it is called, and where its numbers come from.
    """

    setting: Any
    name: str
    source: str

    def told(self, source: str, *rows: str) -> str:
        """Return name and source, headline, the rows of a table, advice and assumptions as text."""
        lines = [f"{self.name} ({source})", self.headline(), *rows, self.advice, "Assumptions:"]
        return "\n".join([*lines, *(f"- {one}" for one in self.assumptions)])

    def __repr__(self) -> str:
        """Return the same text as `str`."""
        return str(self)

    def against(self, x: Sequence[float], series: Mapping[str, list[float]], what: str, **labels: Any) -> Picture:
        """Draw some series against one number of the setting; `labels` are those of `labkit.charts.lines`."""
        chart = charts.lines(x, series, title=f"{self.name}: {what}", height=_PLOT, **labels)
        return Picture(lambda look: chart.figure(look.name), chart.title, f"{self.headline()} {chart.alt}", str(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture of `limits`, and the text."""
        return self.limits()._repr_mimebundle_()
