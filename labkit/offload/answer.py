"""What a modelled SmartSSD would do with the reader's photos, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.views import charts
from labkit.views.picture import Picture

if TYPE_CHECKING:
    from labkit.offload.smartssd import SmartSSD

#: What one value of a finished picture takes, in bytes.
OUTPUTS = {"uint8": 1, "float32": 4}

#: How far the decode rate may be off, as a share.
ERROR = 0.20


@dataclass(frozen=True, repr=False)
class Answer:
    """What a card would do with the reader's photos; made by `SmartSSD.answer`. All of it is modelled.

    Parameters
    ----------
    card : SmartSSD
    rates : dict of str to float
        Images per second of ``link``, ``decode`` (all decoders) and ``output``.
    photo_bytes : float
        Mean bytes of a photo.
    photos : int
        How many were counted.
    cpu_ms, cores, accelerator, host_ms
        As given to `SmartSSD.answer`.
    """

    card: SmartSSD
    rates: Mapping[str, float]
    photo_bytes: float
    photos: int
    cpu_ms: float | None = None
    cores: int | None = None
    accelerator: float | None = None
    host_ms: float = 0.0

    @property
    def images_per_s(self) -> float:
        """Images per second that the card delivers."""
        return min(self.rates.values())

    @property
    def limit(self) -> str:
        """What limits: ``link``, ``decode`` or ``output``."""
        return min(self.rates, key=lambda name: self.rates[name])

    @property
    def per_instance(self) -> float:
        """Images per second that one decoder decodes, if nothing else limits."""
        return self.rates["decode"] / self.card.decoders

    @property
    def instances_to_fill_link(self) -> int:
        """How many decoders use up what the P2P link carries."""
        return math.ceil(self.rates["link"] / self.per_instance - 1e-9)

    @property
    def output_ratio(self) -> float:
        """Bytes of a finished picture over bytes of its JPEG."""
        return self.card.picture_bytes / self.photo_bytes

    @property
    def float32_ratio(self) -> float:
        """Bytes of a finished float32 picture over bytes of its JPEG."""
        return self.card.changed(output="float32").picture_bytes / self.photo_bytes

    @property
    def output_rates(self) -> dict[str, float]:
        """Images per second that the link to the host carries, by type of the picture."""
        return {name: self.card.output_gb_s * 1e9 / self.card.changed(output=name).picture_bytes for name in OUTPUTS}

    @property
    def cores_saved(self) -> float | None:
        """Cores that the job does not need any more, at the speed at which it trains; None without `cpu_ms`."""
        if self.cpu_ms is None:
            return None
        speed = self.images_per_s if self.accelerator is None else min(self.images_per_s, self.accelerator)
        return speed * (self.cpu_ms - self.host_ms) / 1e3

    @property
    def gain(self) -> float | None:
        """How many times faster the job trains with the card; None without `cpu_ms` and `cores`."""
        if self.cpu_ms is None or self.cores is None:
            return None
        need = math.inf if self.accelerator is None else self.accelerator
        host = self.cores * 1e3 / self.host_ms if self.host_ms else math.inf
        return min(need, self.images_per_s, host) / min(need, self.cores * 1e3 / self.cpu_ms)

    @property
    def verdict(self) -> str:
        """Whether offload pays, in one sentence; empty where the figures of the CPU are missing."""
        if self.gain is None:
            return ""
        cpu = self.cores * 1e3 / self.cpu_ms
        if self.accelerator is not None and cpu >= self.accelerator:
            return f"Does not pay: {self.cores} cores feed the accelerator already ({cpu:,.0f} images/s)."
        if self.gain <= 1 + ERROR:
            return f"Does not pay: x{self.gain:.2f} is no gain, or within the model's error of {100 * ERROR:.0f} %."
        return f"Pays: x{self.gain:.1f}, from {cpu:,.0f} images/s to {cpu * self.gain:,.0f}."

    def picture(self) -> Picture:
        """Draw the three rates, and those of the CPU and the accelerator where they are known."""
        bars = {
            "link (P2P read)": self.rates["link"],
            f"decode ({self.card.decoders} on the card)": self.rates["decode"],
            "output, uint8": self.output_rates["uint8"],
            "output, float32": self.output_rates["float32"],
        }
        if self.cpu_ms is not None and self.cores is not None:
            bars[f"{self.cores} cores without a card"] = self.cores * 1e3 / self.cpu_ms
        if self.accelerator is not None:
            bars["the accelerator takes"] = self.accelerator
        note = f"Modelled. The card is limited by {self.limit}. {self.verdict}"
        chart = charts.bars(
            bars, unit="images per second", title="What limits a SmartSSD (modelled)", note=note.strip()
        )
        return Picture(lambda look: chart.figure(look.name), chart.title, chart.alt, f"{chart.text}\n{self}")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture, and the text."""
        return self.picture()._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        """Return every answer as some lines of text."""
        card, link = self.card, self.rates["link"]
        lines = [
            f"{card}",
            f"  {self.photos} photos of {self.photo_bytes / 1e3:,.0f} kB on average; decode rates are within "
            f"±{100 * ERROR:.0f} % near the calibrated picture (512x512)",
            f"  one decoder      {self.per_instance:10,.0f} images/s "
            f"({(1 - ERROR) * self.per_instance:,.0f} to {(1 + ERROR) * self.per_instance:,.0f})",
            *(f"  {name:<17}{rate:10,.0f} images/s" for name, rate in self.rates.items()),
            f"  limit            {self.limit}: {self.images_per_s:,.0f} images/s",
            f"  decoders to fill the link: {self.instances_to_fill_link} (it carries {link:,.0f} images/s)",
            f"  output: uint8 {self._output('uint8')}; float32 {self._output('float32')}",
        ]
        if self.cores_saved is not None:
            freed = f"{self.cpu_ms - self.host_ms:.2f} ms of a core per photo"
            lines.append(f"  the CPU saves {freed}: {self.cores_saved:.1f} cores at the speed of the job")
        return "\n".join(lines + [f"  {self.verdict}"] * bool(self.verdict))

    __repr__ = __str__

    def _output(self, name: str) -> str:
        size = self.card.changed(output=name).picture_bytes
        return (
            f"{size / 1e3:,.0f} kB, {size / self.photo_bytes:.1f} x the JPEG, {self.output_rates[name]:,.0f} images/s"
        )
