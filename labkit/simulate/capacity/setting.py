"""What is planned: accelerators, hosts, cores, data and storage, each number with its unit and its range."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.common.numbers import number, whole
from labkit.recording.accelerators import modelled

#: Allowed ranges: least, most, how it is checked, and the unit.
_RANGES = {
    "accelerators": (1, 1_000_000, whole, "accelerators"),
    "hosts": (1, 1_000_000, whole, "hosts"),
    "cores_per_accelerator": (0.01, 10_000, number, "cores"),
    "cpu_ms_per_image": (0.0001, 1e6, number, "ms of one core"),
    "image_kb": (0.001, 1e9, number, "kB"),
    "dataset_gb": (1e-6, 1e9, number, "GB"),
    "shards": (1, 1_000_000_000, whole, "shards"),
    "readers_per_host": (1, 1_000_000, whole, "files open at the same time"),
    "request_mb": (1e-6, 1e6, number, "MB"),
    "storage_mb_s": (0.001, 1e12, number, "MB/s"),
    "storage_requests_s": (0.001, 1e12, number, "requests/s"),
    "storage_latency_ms": (0, 1e7, number, "ms"),
    "stream_mb_s": (0.001, 1e9, number, "MB/s"),
    "network_mb_s": (0.001, 1e9, number, "MB/s"),
    "cache_gb_per_host": (0, 1e9, number, "GB"),
    "price_per_hour": (0, 1e9, number, "of any currency"),
}


@dataclass(frozen=True)
class Setting:
    """What is planned, every number with its unit; the defaults are one host with eight V100 on an object store.

    Parameters
    ----------
    accelerators, hosts : int
        All together; they are spread evenly, each host has at least one.
    accelerator : str or float
        A key of `labkit.accelerators.PRESETS` (V100: ResNet-50 of 328 images/s, A100 920, H100 1,786; DLIO benchmark),
        or the images per second that one of them trains.
    cores_per_accelerator : float
    cpu_ms_per_image : float
        Time of one core for decode, resize and augmentation of an image. 3.2 ms were measured with ``tf.image`` on the
        machine that this lab was written on; notebook 04 measures yours.
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
    price_per_hour : float or None
        Of one accelerator, in any currency.
    """

    accelerators: int = 8
    hosts: int = 1
    accelerator: str | float = "V100"
    cores_per_accelerator: float = 4.0
    cpu_ms_per_image: float = 3.2
    image_kb: float = 115.0
    dataset_gb: float = 150.0
    shards: int = 1024
    readers_per_host: int = 16
    request_mb: float = 8.0
    storage_mb_s: float = 5000.0
    storage_requests_s: float = 5500.0
    storage_latency_ms: float = 30.0
    stream_mb_s: float = 85.0
    network_mb_s: float = 1250.0
    cache_gb_per_host: float = 0.0
    price_per_hour: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no plan, in one sentence."""
        for name, (least, most, check, unit) in _RANGES.items():
            value = getattr(self, name)
            if name != "price_per_hour" or value is not None:
                check(name, value, least, most, other=f"({unit})")
        _ = self.rate
        if self.hosts > self.accelerators:
            raise ValueError(
                f"hosts is {self.hosts}, more than the {self.accelerators} accelerators; allowed: 1 to "
                f"{self.accelerators}, each host has one or more"
            )
        if self.dataset_gb * 1e6 < self.image_kb * self.shards:
            most = max(1, int(self.dataset_gb * 1e6 / self.image_kb))
            raise ValueError(
                f"{self.shards:,} shards of {self.dataset_gb:g} GB would hold less than an image of "
                f"{self.image_kb:g} kB each; allowed: up to {most:,} shards"
            )

    @property
    def rate(self) -> float:
        """Images per second that one accelerator trains."""
        if isinstance(self.accelerator, str):
            return 1e9 / modelled(self.accelerator).per_image_ns
        return 1e9 / modelled(images_per_s=self.accelerator).per_image_ns

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
