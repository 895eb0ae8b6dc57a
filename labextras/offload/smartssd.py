"""A SmartSSD on paper: what a card with these figures would do with the reader's photos. Modelled, never measured.

The card reads a photo from its own flash over the peer-to-peer link (P2P), decodes and resizes it, and sends the pixels
to the host. The host augments them: random numbers that are drawn anew stay on the CPU. All of these run at the same
time, so the slowest of them is the speed::

    link     bandwidth(size of a read) / bytes of a photo
    decode   decoders x clock / (tokens of a photo x cycles of a token)
    output   bandwidth to the host / bytes of the pixels
    host     cores / time of a core that a photo still needs

Tokens (Huffman codes) come from the reader's photos, see `labextras.offload.tokens`. Cycles and clock are those of a
decoder that was designed, simulated and placed. What the vendor of the card has published stands beside it as a band.
``docs/smartssd.md`` says where each figure comes from. What the chip holds limits how many decoders there may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from labextras.offload import three_engines
from labextras.offload.batches import DTYPES
from labextras.offload.three_engines import CardEngine
from labextras.offload.tokens import Counted
from labkit.common import other_programs
from labkit.common.numbers import check_ranges, number, one_of, ranged, whole
from labkit.timeline.trace import Trace
from labkit.views import charts
from labkit.views.picture import Picture

#: Bandwidth of P2P reads, SSD to FPGA: bytes of one read, GB/s (taken as 10^9 bytes). The vendor's own log, platform
#: xilinx_u2_gen3x4_xdma_gc_base_1: Vitis_Accel_Examples, host/p2p_bandwidth/README.rst. The dip at 512 KB is in it.
P2P_READ: Mapping[int, float] = {
    4 << 10: 0.05, 8 << 10: 0.17, 16 << 10: 0.31, 32 << 10: 0.54, 64 << 10: 0.87, 128 << 10: 1.21, 256 << 10: 1.55,
    512 << 10: 1.37, 1 << 20: 1.59, 2 << 20: 1.99, 4 << 20: 2.15, 8 << 20: 2.26, 16 << 20: 2.28, 32 << 20: 2.33,
    64 << 20: 2.35, 128 << 20: 2.36,
}  # fmt: skip

#: A smaller gain counts as none: a convention, since two measurements of the job without a card differ by as much.
LEAST_GAIN = 1.1

#: What to change where the card keeps the accelerator waiting, by the slowest part.
_ADVICE = {
    "link": "larger reads from the flash, many photos in one, until the link is full; then a second card.",
    "decode": "more decoders on the card, until the chip or the link is full.",
    "output": "uint8 from the card, not float32.",
    "host": "less work on the host: what comes after the card is the limit.",
}


class Chip(NamedTuple):
    """What an FPGA holds: look-up tables, block memories of 36 kbit, and multipliers (DSP blocks)."""

    name: str
    luts: int
    memories: float
    multipliers: int


@dataclass(frozen=True)
class CardDecoder:
    """A JPEG decoder as a circuit: its speed, and what one of it takes of a chip (as in `Chip`).

    `cycles_per_token` counts everything: it is the mean over photos of the cycles of a photo over its tokens.
    """

    name: str
    clock_mhz: float = ranged(number, 1, 10_000)
    cycles_per_token: float = ranged(number, 0.01, 1000)
    luts: int = ranged(whole, 1, 1 << 40)
    memories: float = ranged(number, 0.5, 1 << 40)
    multipliers: int = ranged(whole, 1, 1 << 40)

    def __post_init__(self) -> None:
        """Check every figure."""
        check_ranges(self)

    def changed(self, **changes: Any) -> CardDecoder:
        """Return this decoder with some figures changed."""
        return replace(self, **changes)

    def images_per_s(self, counted: Counted) -> float:
        """Return the photos that it decodes in a second."""
        return self.clock_mhz * 1e6 / (self.cycles_per_token * float(counted.tokens.mean()))


#: The FPGA of a SmartSSD, a Kintex UltraScale+ KU15P, as the family's data sheet is remembered: not checked. What the
#: platform of a card takes for itself (PCIe, memory, P2P) is not taken off.
KU15P = Chip("KU15P", 523_000, 984, 1_968)

#: A pipelined decoder that was written in Amaranth, simulated on 276 photos (1.039 cycles a token on average, 1.005 to
#: 1.137) and placed and routed for another chip, an ECP5-85F (62.7 MHz, one seed). Its size is what Yosys counts for
#: UltraScale+.
PLACED = CardDecoder("our decoder", 62.7, 1.039, 5_757, 19, 43)

#: The vendor's decoder, on a board (Vitis codec library, benchmark 2022.1, kernelJpegDecoderTop, on an Alveo card).
#: Cycles of a token: the middle one of what its speed for three published pictures amounts to.
VENDOR = CardDecoder("the vendor's decoder", 243.0, 1.61, 23_100, 28, 39)

#: The least and the most of these three; ``docs/smartssd.md`` has the table.
VENDOR_CYCLES = 1.38, 1.81


@dataclass(frozen=True)
class SmartSSD:
    """A card by its figures.

    Parameters
    ----------
    decoder : CardDecoder
        The circuit that decodes: `PLACED` by default, or `VENDOR`, or one of them with another figure, as in
        ``PLACED.changed(clock_mhz=100)``.
    decoders : int
        How many of it work side by side, each on a photo of its own: as many as the chip holds, see `most`.
    chip : Chip
        The FPGA of the card; `KU15P` by default.
    read_bytes : int, optional
        Bytes of one read, where photos lie packed in shards; by default each photo is a read of its own.
    output : {"uint8", "float32"}
        Type of the pixels that the card returns.
    size : int
        Its height and width in pixels, 3 channels.
    output_gb_s : float
        Bandwidth from card to host. 1.87: the lowest figure of a copy between FPGA and host in the vendor's logs
        (p2p_bandwidth, 2019.2 and 2020.1: 1.87 to 3.27 GB/s).

    Raises
    ------
    ValueError
        If a figure is out of range, or so many decoders do not fit on the chip; the sentence names it.

    Notes
    -----
    Assumed: a decoder starts the next photo at once, resize keeps up, reads run ahead. P2P reads do not share the link
    to the host, since the card has a PCIe switch of its own (AnandTech 16245). The photos lie on this card, in formats
    that it decodes, and the clock of the decoder is the same on the card's chip as where it was placed.
    """

    decoder: CardDecoder = PLACED
    decoders: int = ranged(whole, 1, 1000, default=1)
    chip: Chip = KU15P
    read_bytes: int | None = ranged(whole, 1, 1 << 40, default=None, optional=True)
    output: str = "uint8"
    size: int = ranged(whole, 1, 4096, default=224)
    output_gb_s: float = ranged(number, 1e-6, 1000, default=1.87)

    def __post_init__(self) -> None:
        """Check every figure, and that the decoders fit."""
        check_ranges(self)
        one_of("output", self.output, DTYPES)
        full = f"of {self.decoder.name}, the {self.chip.name} has no more {self.full}"
        whole("decoders", self.decoders, 1, self.most, other=full)

    def changed(self, **changes: Any) -> SmartSSD:
        """Return this card with some figures changed."""
        return replace(self, **changes)

    # -- room on the chip ----------------------------------------------------------

    @property
    def room(self) -> dict[str, int]:
        """How many decoders each resource of the chip is enough for."""
        names = {"luts": "look-up tables", "memories": "block memories", "multipliers": "multipliers"}
        return {said: int(getattr(self.chip, n) // getattr(self.decoder, n)) for n, said in names.items()}

    @property
    def most(self) -> int:
        """How many decoders the chip holds."""
        return min(self.room.values())

    @property
    def full(self) -> str:
        """The resource that is used up first."""
        return min(self.room, key=self.room.__getitem__)

    # -- rates ---------------------------------------------------------------------

    def output_per_s(self, dtype: str) -> float:
        """Return the pictures of a type that the link to the host carries in a second."""
        return self.output_gb_s * 1e9 / self.picture_bytes(dtype)

    def picture_bytes(self, dtype: str) -> int:
        """Return the bytes of one finished picture of a type."""
        return self.size * self.size * 3 * np.dtype(dtype).itemsize

    def read_ms(self, counted: Counted) -> np.ndarray:
        """Return how long the link carries each photo, in milliseconds, float64, shape (n,)."""
        size = counted.bytes if self.read_bytes is None else np.full(len(counted), self.read_bytes)
        return counted.bytes / (bandwidth_gb_s(size) * 1e6)

    def rates(self, counted: Counted, cores: float, host_ms: float) -> dict[str, float]:
        """Return the images per second of each part if nothing else limits: ``link``, ``decode``, ``output``, ``host``.

        There is no ``host`` where no work stays with it; `cores` and `host_ms` are as in `CardAnswer`.
        """
        found = {
            "link": 1e3 / float(self.read_ms(counted).mean()),
            "decode": self.decoders * self.decoder.images_per_s(counted),
            "output": self.output_per_s(self.output),
        }
        return found | ({"host": cores * 1e3 / host_ms} if host_ms else {})

    def answer(self, counted: Counted, **job: float) -> CardAnswer:
        """Return what this card would do with these photos; `CardAnswer` says what a job is, and what is refused."""
        return CardAnswer(self, counted, **job)

    # -- a job with the card -------------------------------------------------------

    def trace(
        self, counted: Counted, accelerator: Any, *, batch_size: int = 32, steps: int = 12, cores: int = 2,
        host_ms: float = 0.0, overlap: bool = True,
    ) -> Trace:  # fmt: skip
        """Return the timeline of a training job that this card feeds: an ordinary `Trace` whose origin is modelled.

        Parameters
        ----------
        counted : Counted
        accelerator, batch_size, steps, overlap
            As in `labextras.offload.three_engines.run`.
        cores : int
            Of the host.
        host_ms : float
            Milliseconds of a core per photo that stay with the host.
        """
        answer = self.answer(counted, cpu_ms=1.0, cores=cores, host_ms=host_ms)
        batch_ms = {part: batch_size * 1e3 / rate for part, rate in answer.rates.items()}
        engines = [
            CardEngine("card: copy in", batch_ms["link"], "read"),
            CardEngine("card: kernel", batch_ms["decode"], "decode"),
            CardEngine("card: copy out", batch_ms["output"], "copy"),
        ]
        if host_ms:
            engines.append(CardEngine("host: augment", batch_ms["host"], "map", "pipeline"))
        how = "the three engines of the card overlap" if overlap else "the card works on one batch at a time"
        assumptions = (f"The card is modelled: {self}.", f"{how.capitalize()}, every photo takes the mean.")
        return three_engines.run(
            engines, accelerator, batch_size=batch_size, steps=steps, overlap=overlap, cores=cores,
            name=f"SmartSSD, modelled: {how}", assumptions=assumptions,
            advice=dict.fromkeys(("fetch", "prep", "batch", "copy"), _ADVICE[answer.limit]),
        )  # fmt: skip

    # -- pictures --------------------------------------------------------------------

    def p2p_picture(self, photo_bytes: float) -> Picture:
        """Draw the published bandwidth of P2P reads against the size of a read, with the reader's photo marked.

        Parameters
        ----------
        photo_bytes : float
            Bytes of a photo, the mean of the reader's album for example.
        """
        rate = float(bandwidth_gb_s(number("photo_bytes", photo_bytes, 1, 1 << 40)))
        note = "Line: published by the vendor, not measured here. Dotted: the size of your photo."
        share = 100 * rate / max(P2P_READ.values())
        yours = f"A photo of {photo_bytes / 1e3:,.0f} kB: {rate:.2f} GB/s, {share:.0f} % of the best."
        return charts.lines(
            [size / 1024 for size in P2P_READ], {"P2P read": list(P2P_READ.values())},
            x_label="size of one read (KiB)", y_label="GB/s",
            title="Peer-to-peer reads, SSD to FPGA: small reads waste the link (modelled)",
            note=f"{note} {yours}", log_x=True, mark=(photo_bytes / 1024, "your photo"),
        )  # fmt: skip

    def replicas_picture(self, counted: Counted, *, cores: float, host_ms: float) -> Picture:
        """Draw how fast the card is against the number of its decoders, up to the last one that fits.

        Parameters
        ----------
        counted : Counted
        cores, host_ms : float
            Of the host, as in `CardAnswer`; `host_ms` above 0. Its speed is drawn beside that of the card.
        """
        counted, many, host = counted.whole(), range(1, self.most + 1), cores * 1e3 / host_ms
        rates = {n: self.changed(decoders=n).rates(counted, cores, 0.0) for n in many}
        speeds = [min(each.values()) for each in rates.values()]
        best = speeds.index(max(speeds)) + 1
        limit = min(rates[best], key=rates[best].__getitem__)
        notes = [f"{self.most} of {self.decoder.name} fit, then the {self.chip.name} has no more {self.full}."]
        notes += [f"From {best} on the {limit} is full."] if limit != "decode" else []
        enough = next((n for n in many if speeds[n - 1] >= host), None)
        notes.append(f"{enough} are enough for this host." if enough else "All of them are too few for this host.")
        return charts.lines(
            [*many], {"the card": speeds, "this host": [host] * len(many)}, x_label="decoders on the card",
            y_label="images per second", title="More decoders, until something is full (modelled)",
            note=" ".join(notes), ideal="this host", mark=(self.most, "the chip is full"),
        )  # fmt: skip

    def __str__(self) -> str:
        """Return the figures on one line."""
        reads = "a photo a read" if self.read_bytes is None else f"reads of {self.read_bytes / 1024:,.0f} KB"
        one, many = self.decoder, f"{self.decoders} decoder{'s' * (self.decoders > 1)}"
        speed = f"{one.name}, {one.clock_mhz:g} MHz, {one.cycles_per_token:g} cycles a token"
        pictures = f"{self.output} pictures of {self.picture_bytes(self.output):,} bytes at {self.output_gb_s:g} GB/s"
        return f"SmartSSD (modelled): {many} ({speed}); {reads}; {pictures}"


def bandwidth_gb_s(read_bytes: Any) -> np.ndarray:
    """Return the P2P bandwidth in GB/s for reads of so many bytes (number or array), interpolated in `P2P_READ`.

    Between two sizes it is interpolated over the logarithm of the size. Below the smallest published size the number
    of reads per second is kept, above the largest the bandwidth.
    """
    sizes, rates = np.array(list(P2P_READ), np.float64), np.array(list(P2P_READ.values()))
    given = np.asarray(read_bytes, np.float64)
    between = np.interp(np.log2(np.maximum(given, 1)), np.log2(sizes), rates)
    return np.where(given < sizes[0], rates[0] * given / sizes[0], between)


class CardAnswer:
    """What a card would do with the reader's photos; made by `SmartSSD.answer`. All of it is modelled.

    Parameters
    ----------
    card : SmartSSD
    counted : Counted
        Photos that the card decodes; see `labextras.offload.tokens.count`.
    cpu_ms : float
        Milliseconds of a core per photo without the card: reading, decoding, resizing, augmenting.
    cores : int
        Of the host.
    accelerator : float
        Images per second that the accelerator trains; by default it takes everything.
    host_ms : float
        Milliseconds of a core per photo that stay with the host: reading from the card, augmenting, batching.
    others : float
        Share of the cores, 0 to 1, that other programs took while `cpu_ms` and `host_ms` were measured.

    Attributes
    ----------
    rates : dict of str to float
        Images per second of ``link``, ``decode`` (all decoders), ``output``, and ``host`` where work stays there.
    limit : str
        The slowest of these.
    images_per_s : float
        Images per second that the card delivers, or that the host finishes, whichever is less.
    cpu_per_s : float
        Images per second that the host prepares without the card.
    gain : float
        How many times faster the job trains with the card.
    vendor_band : (float, float)
        Images per second of one of the vendor's decoders, from the most to the least cycles that a token took.
    cores_saved : float
        Cores that the job does not need any more, at the speed at which it trains.

    Raises
    ------
    ValueError
        If no photo was counted, or a figure is out of range.
    """

    def __init__(
        self, card: SmartSSD, counted: Counted, *, cpu_ms: float, cores: float, accelerator: float = math.inf,
        host_ms: float = 0.0, others: float = 0.0,
    ) -> None:  # fmt: skip
        self.card, self.counted, self.accelerator, self.others = card, counted.whole(), accelerator, others
        self.cpu_ms, self.host_ms = number("cpu_ms", cpu_ms, 1e-6, 1e9), number("host_ms", host_ms, 0, 1e9)
        self.cores = number("cores", cores, 1e-6, 1e9)
        number("accelerator", min(accelerator, 1e9), 1e-6)
        self.rates, self.cpu_per_s = card.rates(self.counted, cores, host_ms), cores * 1e3 / cpu_ms
        self.limit = min(self.rates, key=self.rates.__getitem__)
        self.images_per_s = self.rates[self.limit]
        trained = min(accelerator, self.images_per_s)
        self.gain = trained / min(accelerator, self.cpu_per_s)
        self.cores_saved = trained * (cpu_ms - host_ms) / 1e3
        most, least = (VENDOR.changed(cycles_per_token=n).images_per_s(self.counted) for n in VENDOR_CYCLES)
        self.vendor_band = least, most

    @property
    def verdict(self) -> str:
        """Whether offload pays, in one sentence; refused where other programs took too much of the cores."""
        cpu = self.cpu_per_s
        if self.others >= other_programs.BUSY:
            return f"No verdict: {other_programs.took(self.others)} while the work of the host was measured."
        if cpu >= self.accelerator:
            return f"Does not pay: {self.cores:g} cores feed the accelerator already ({cpu:,.0f} images/s)."
        if self.gain < LEAST_GAIN:
            return f"Does not pay: x{self.gain:.2f} is no gain; the limit is {self.limit}."
        return f"Pays: x{self.gain:.2f}, {cpu * self.gain:,.0f} images/s instead of {cpu:,.0f}."

    def picture(self) -> Picture:
        """Draw the rates of the card, of the CPU and of the accelerator."""
        bars = {
            "link (P2P read)": self.rates["link"],
            f"decode ({self.card.decoders} on the card)": self.rates["decode"],
            **{f"output, {dtype}": self.card.output_per_s(dtype) for dtype in DTYPES},
            f"{self.cores:g} cores without a card": self.cpu_per_s,
            f"{self.cores:g} cores, what stays with them": self.rates.get("host", math.inf),
            "the accelerator takes": self.accelerator,
        }
        bars = {name: rate for name, rate in bars.items() if rate != math.inf}
        note = f"Modelled. The limit with the card: {self.limit}. {self.verdict}"
        chart = charts.bars(bars, unit="images per second", title="What limits a SmartSSD (modelled)", note=note)
        chart.text += f"\n{self}"
        return chart

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture, and the text."""
        return self.picture()._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        """Return every answer as some lines of text."""
        link, photo = self.rates["link"], float(self.counted.bytes.mean())
        one = self.rates["decode"] / self.card.decoders
        vendor = "{:,.0f} to {:,.0f}".format(*self.vendor_band)
        stays = f", {self.host_ms:.2f} ms stay" if self.host_ms else ""
        lines = [
            f"{self.card}",
            f"  {len(self.counted)} photos of {photo / 1e3:,.0f} kB on average",
            f"  one decoder      {one:10,.0f} images/s; the vendor's, at {VENDOR.clock_mhz:g} MHz: {vendor}",
            *(f"  {name:<17}{rate:10,.0f} images/s" for name, rate in self.rates.items()),
            f"  limit            {self.limit}: {self.images_per_s:,.0f} images/s",
            f"  decoders to fill the link: {math.ceil(link / one - 1e-9)} (it carries {link:,.0f} images/s); the chip "
            f"holds {self.card.most}, then its {self.card.full} are used up",
            f"  the CPU saves {self.cpu_ms - self.host_ms:.2f} ms of a core per photo{stays}: {self.cores_saved:.1f} "
            "cores at the speed of the job",
            f"  {self.verdict}",
        ]
        return "\n".join(lines)

    __repr__ = __str__
