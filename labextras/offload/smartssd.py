"""A SmartSSD on paper: what a card with these figures would do with the reader's photos. Modelled, never measured.

The card reads a photo from its own flash over the peer-to-peer link (P2P), decodes and resizes it, and sends the pixels
to the host. The host augments them: random numbers that are drawn anew stay on the CPU. All of these run at the same
time, so the slowest of them is the speed::

    link     bandwidth(size of a read) / bytes of a photo
    decode   decoders x clock / cycles of a photo,
             cycles = call + max(tokens x initiation interval, blocks x IDCT cycles)
    output   bandwidth to the host / bytes of the pixels
    host     cores / time of a core that a photo still needs

Tokens (Huffman symbols) and blocks come from the reader's photos, see `labextras.offload.tokens`. The vendor's page can
be read in several ways, see `labextras.offload.calibration`. Every answer states the band from the slowest to the
fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labextras.offload import calibration
from labextras.offload.batches import DTYPES
from labextras.offload.tokens import Counted
from labkit.common.numbers import check_ranges, number, one_of, ranged, whole
from labkit.simulate import Costs, Knobs, Model
from labkit.timeline.trace import Thread, Trace
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

#: The threads of the simulation, and what they are in a job with a card: units of the card, no threads.
_UNITS = {"tf.data interleave": "P2P read", "tf.data worker": "decoder", "tf.data Prefetch": "to the host"}

#: What to change where the card keeps the accelerator waiting: options of tf.data are no part of a card.
_ADVICE = {
    "fetch": "larger reads from the flash, many photos in one, until the link is full; then a second card.",
    "prep": "more decoders on the card, until the link is full.",
    "batch": "uint8 from the card, not float32; then less work on the host: what comes after the card is the limit.",
}


@dataclass(frozen=True)
class SmartSSD:
    """A card by its figures; the defaults are published ones, except where it says otherwise.

    Parameters
    ----------
    clock_mhz : float
        Clock of the decoder. 243 MHz: Vitis codec library, benchmark 2022.1, kernelJpegDecoderTop (on an Alveo card:
        a SmartSSD has another FPGA).
    initiation_interval : float
        Cycles from one token to the next. 1: "can process 1 Huffman token [...] within one cycle", Vitis codec 2021.2.
    decoders : int
        Instances of the decoder that work side by side. One takes 23.1k LUT, 28 BRAM, 39 DSP (Vitis codec 2022.1).
    idct_cycles_per_block : float
        Cycles of everything after the tokens, per block of 8x8. 8: the vendor's page says 8 coefficients a cycle.
    call_cycles : float
        Cycles of a photo during which nothing is decoded. 80,600 is calibrated, not published: 243 MHz over 1,148
        images/s, less the 131,119 tokens of the vendor's 512x512 picture. It is one of the readings of
        `labextras.offload.calibration`; `answer` states the others beside it.
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
        If a figure is out of range; the sentence names it.

    Notes
    -----
    Assumed: one decoder works on one photo at a time and starts the next at once; resize keeps up
    (the vendor's does 2,644 MP/s: 14,000 photos/s of 500x375); reads run ahead; P2P reads do not
    share the link to the host, since the card has a PCIe switch of its own (AnandTech 16245); the photos lie on this
    card, in formats that it decodes.
    """

    clock_mhz: float = ranged(number, 1, 10_000, default=calibration.CLOCK_MHZ)
    initiation_interval: float = ranged(number, 0.01, 1000, default=1.0)
    decoders: int = ranged(whole, 1, 1000, default=1)
    idct_cycles_per_block: float = ranged(number, 0, 10_000, default=8.0)
    call_cycles: float = ranged(number, 0, 1e9, default=80_600.0)
    read_bytes: int | None = ranged(whole, 1, 1 << 40, default=None, optional=True)
    output: str = "uint8"
    size: int = ranged(whole, 1, 4096, default=224)
    output_gb_s: float = ranged(number, 1e-6, 1000, default=1.87)

    def __post_init__(self) -> None:
        """Check every figure."""
        check_ranges(self)
        one_of("output", self.output, DTYPES)

    def changed(self, **changes: Any) -> SmartSSD:
        """Return this card with some figures changed."""
        return replace(self, **changes)

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

    def decode_ms(self, counted: Counted) -> np.ndarray:
        """Return how long one decoder works on each photo, in milliseconds, float64, shape (n,)."""
        cycles = calibration.cycles(counted, self.initiation_interval, self.idct_cycles_per_block, self.call_cycles)
        return cycles / (self.clock_mhz * 1e3)

    def rates(self, counted: Counted, cores: float, host_ms: float) -> dict[str, float]:
        """Return the images per second of each part if nothing else limits: ``link``, ``decode``, ``output``, ``host``.

        There is no ``host`` where no work stays with it; `cores` and `host_ms` are as in `CardAnswer`.
        """
        found = {
            "link": 1e3 / float(self.read_ms(counted).mean()),
            "decode": self.decoders * 1e3 / float(self.decode_ms(counted).mean()),
            "output": self.output_per_s(self.output),
        }
        return found | ({"host": cores * 1e3 / host_ms} if host_ms else {})

    def answer(self, counted: Counted, **job: float) -> CardAnswer:
        """Return what this card would do with these photos; `CardAnswer` says what a job is, and what is refused."""
        return CardAnswer(self, counted, **job)

    # -- a job with the card -------------------------------------------------------

    def trace(
        self, counted: Counted, accelerator: Any, *, batch_size: int = 32, steps: int = 20, cores: int = 2,
        host_ms: float = 0.0,
    ) -> Trace:  # fmt: skip
        """Return the timeline of a training job that this card feeds: an ordinary `Trace` whose origin is modelled.

        Parameters
        ----------
        counted : Counted
        accelerator : labkit.accelerators.Modelled
            Or anything with ``name``, ``source`` and ``step_ns(batch_size)``.
        batch_size, steps, cores : int
        host_ms : float
            Milliseconds of a core per photo that stay with the host. They are drawn where the host is the slowest
            part; elsewhere they hide behind the card.
        """
        answer = self.answer(counted, cpu_ms=1.0, cores=cores, host_ms=host_ms)
        read_ms, kb = float(self.read_ms(answer.counted).mean()), float(answer.counted.bytes.mean()) / 1e3
        last = "host" if answer.limit == "host" else "output"
        output_ms = batch_size * 1e3 / answer.rates[last]
        # Work of the card takes no core of the host: in the simulation, the host sleeps during this work.
        sleeps = ("open", "read", "decode", *(["batch"] if last == "output" else []))
        costs = Costs(
            map={"decode": np.sort(self.decode_ms(answer.counted))}, batch=output_ms,
            train=accelerator.step_ns(batch_size) / 1e6, sleeps=sleeps,
        )  # fmt: skip
        # Reads run ahead, two batches are buffered.
        knobs = Knobs(
            batch_size=batch_size, cores=cores, map_calls=self.decoders + batch_size, threads=self.decoders,
            cycle_length=2, prefetch=2, bandwidth_mb_s=kb / read_ms, image_kb=kb,
        )  # fmt: skip
        model = Model(costs, knobs, "SmartSSD, modelled", accelerator.name, accelerator.source)
        trace = model.run(steps, warmup=4)
        threads = tuple(_unit(thread, last) for thread in trace.threads)
        drawn = f"It delivers {answer.images_per_s:,.0f} images/s; the vendor's figures allow {_from_to(*answer.band)}."
        assumptions = (f"The card is modelled: {self}. {drawn}", *trace.run.assumptions)
        return replace(trace.with_run(assumptions=assumptions, advice=_ADVICE), threads=threads)

    # -- pictures --------------------------------------------------------------------

    def p2p_picture(self, photo_bytes: float) -> Picture:
        """Draw the published bandwidth of P2P reads against the size of a read, with the reader's photo marked.

        Parameters
        ----------
        photo_bytes : float
            Bytes of a photo, the mean of the reader's album for example.
        """
        rate = float(bandwidth_gb_s(number("photo_bytes", photo_bytes, 1, 1 << 40)))
        note = "Line: published by the vendor, not measured here. Dotted: the size of your photo (modelled)."
        share = 100 * rate / max(P2P_READ.values())
        yours = f"A photo of {photo_bytes / 1e3:,.0f} kB: {rate:.2f} GB/s, {share:.0f} % of the best."
        return charts.lines(
            [size / 1024 for size in P2P_READ], {"P2P read": list(P2P_READ.values())},
            x_label="bytes of one read (KB)", y_label="GB/s",
            title="Peer-to-peer reads, SSD to FPGA: small reads waste the link (modelled)",
            note=f"{note} {yours}", log_x=True, mark=(photo_bytes / 1024, "your photo"),
        )  # fmt: skip

    def __str__(self) -> str:
        """Return the figures on one line."""
        reads = "a photo a read" if self.read_bytes is None else f"reads of {self.read_bytes / 1024:,.0f} KB"
        many = f"{self.decoders} decoder{'s' * (self.decoders > 1)}"
        every = f"{self.initiation_interval:g} cycle{'s' * (self.initiation_interval != 1)} a token"
        call = f", {self.call_cycles:,.0f} cycles a photo" if self.call_cycles else ""
        return (
            f"SmartSSD (modelled): {many} at {self.clock_mhz:g} MHz, {every}, "
            f"{self.idct_cycles_per_block:g} cycles a block{call}; {reads}; {self.output} pictures of "
            f"{self.picture_bytes(self.output):,} bytes at {self.output_gb_s:g} GB/s"
        )


def _unit(thread: Thread, last: str) -> Thread:
    """Return a thread of the simulation as a unit of the card; the last one is the host's where the host limits."""
    for name, unit in _UNITS.items():
        if thread.name.startswith(name):
            if unit == "to the host" and last == "host":
                return Thread("host (modelled): augment", thread.kind)
            return Thread(thread.name.replace(name, f"card (modelled): {unit}"), "unit")
    return thread


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

    A band is a pair: with the slowest and with the fastest decoder that the vendor's page allows. That is this card's
    own, or one of `labextras.offload.calibration.READINGS`, which replaces `idct_cycles_per_block` and `call_cycles`;
    clock, interval and number of decoders stay. The published decoder ran on an Alveo card; the band does not contain
    the difference to the FPGA of a SmartSSD.

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
        Milliseconds of a core per photo that stay with the host: augmenting, batching.

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
    decode_band, band, gain_band : (float, float)
        The bands of the decode rate, of `images_per_s`, and of `gain`.
    cores_saved : (float, float)
        The band of the cores that the job does not need any more, at the speed at which it trains.

    Raises
    ------
    ValueError
        If no photo was counted, or a figure is out of range.
    """

    def __init__(
        self, card: SmartSSD, counted: Counted, *, cpu_ms: float, cores: float, accelerator: float = math.inf,
        host_ms: float = 0.0,
    ) -> None:  # fmt: skip
        self.card, self.counted, self.accelerator = card, counted.whole(), accelerator
        self.cpu_ms, self.host_ms = number("cpu_ms", cpu_ms, 1e-6, 1e9), number("host_ms", host_ms, 0, 1e9)
        self.cores = number("cores", cores, 1e-6, 1e9)
        number("accelerator", min(accelerator, 1e9), 1e-6)
        figures = "idct_cycles_per_block", "call_cycles"
        read = [card.changed(**{name: getattr(one, name) for name in figures}) for one in calibration.READINGS]
        every = [one.rates(self.counted, cores, host_ms) for one in (card, *read)]
        self.rates, self.cpu_per_s = every[0], cores * 1e3 / cpu_ms
        self.limit = min(self.rates, key=self.rates.__getitem__)
        delivered = [min(rates.values()) for rates in every]
        trained = [min(accelerator, rate) for rate in delivered]
        gains = [rate / min(accelerator, self.cpu_per_s) for rate in trained]
        self.images_per_s, self.gain = delivered[0], gains[0]
        saved = [rate * (cpu_ms - host_ms) / 1e3 for rate in trained]
        self.decode_band, self.band, self.gain_band, self.cores_saved = (
            (min(ends), max(ends)) for ends in ([rates["decode"] for rates in every], delivered, gains, saved)
        )

    @property
    def verdict(self) -> str:
        """Whether offload pays, in one sentence.

        It pays if even the slowest reading gains `LEAST_GAIN`, and does not if even the fastest one gains less.
        Between the two it cannot be told.
        """
        cpu, (low, high) = self.cpu_per_s, self.gain_band
        if cpu >= self.accelerator:
            return f"Does not pay: {self.cores:g} cores feed the accelerator already ({cpu:,.0f} images/s)."
        if high < LEAST_GAIN:
            return f"Does not pay: x{high:.2f} at most is no gain."
        gain = _from_to(low, high, "x{:.2f}")
        if low < LEAST_GAIN:
            return f"Cannot be told: the gain is {gain}, depending on how the vendor's figures are read."
        return f"Pays: {gain}, {_from_to(cpu * low, cpu * high)} images/s instead of {cpu:,.0f}."

    def picture(self) -> Picture:
        """Draw the rates of the card, of the CPU and of the accelerator."""
        slow, fast = self.decode_band
        bars = {
            "link (P2P read)": self.rates["link"],
            f"decode ({self.card.decoders} on the card)": [slow, self.rates["decode"], fast],
            **{f"output, {dtype}": self.card.output_per_s(dtype) for dtype in DTYPES},
            f"{self.cores:g} cores without a card": self.cpu_per_s,
            f"{self.cores:g} cores, augmentation only": self.rates.get("host", math.inf),
            "the accelerator takes": self.accelerator,
        }
        bars = {name: rate for name, rate in bars.items() if rate != math.inf}
        whisker = "The whisker of decode goes from the slowest to the fastest reading of the vendor's page."
        note = f"Modelled. {whisker} The limit with the card: {self.limit}. {self.verdict}"
        chart = charts.bars(bars, unit="images per second", title="What limits a SmartSSD (modelled)", note=note)
        chart.text += f"\n{self}"
        return chart

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook shows: the picture, and the text."""
        return self.picture()._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        """Return every answer as some lines of text."""
        link, many, photo = self.rates["link"], self.card.decoders, float(self.counted.bytes.mean())
        one, *(slow, fast) = (rate / many for rate in (self.rates["decode"], *self.decode_band))
        fill = [math.ceil(link / rate - 1e-9) for rate in (one, fast, slow)]
        sizes = {dtype: self.card.picture_bytes(dtype) for dtype in DTYPES}
        output = [
            f"{dtype} {size / 1e3:,.0f} kB, {size / photo:.1f} x the JPEG, "
            f"{self.card.output_per_s(dtype):,.0f} images/s"
            for dtype, size in sizes.items()
        ]
        stays = f", {self.host_ms:.2f} ms stay" if self.host_ms else ""
        lines = [
            f"{self.card}",
            f"  {len(self.counted)} photos of {photo / 1e3:,.0f} kB on average; in brackets: the slowest and the "
            "fastest reading of the vendor's figures",
            f"  one decoder      {one:10,.0f} images/s ({_from_to(slow, fast)})",
            *(f"  {name:<17}{rate:10,.0f} images/s" for name, rate in self.rates.items()),
            f"  limit            {self.limit}: {self.images_per_s:,.0f} images/s ({_from_to(*self.band)})",
            f"  decoders to fill the link: {fill[0]} ({_from_to(*fill[1:])}; it carries {link:,.0f} images/s)",
            f"  output: {'; '.join(output)}",
            f"  the CPU saves {self.cpu_ms - self.host_ms:.2f} ms of a core per photo{stays}: "
            f"{_from_to(*self.cores_saved, '{:.1f}')} cores at the speed of the job",
            f"  {self.verdict}",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _from_to(low: float, high: float, form: str = "{:,.0f}") -> str:
    """Return both ends of a band in words; one number where they read the same."""
    ends = [form.format(low), form.format(high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def gain_picture(
    cards: Mapping[str, SmartSSD], counted: Counted, *, moved_ms: Sequence[float], host_ms: float, cores: int
) -> Picture:
    """Draw what cards gain against the work that they take over, with an accelerator that takes everything.

    Parameters
    ----------
    cards : mapping of str to SmartSSD
    counted : Counted
    moved_ms : sequence of float
        Milliseconds of a core per photo that move to the card, strictly rising.
    host_ms : float
        Milliseconds of a core per photo that stay with the host.
    cores : int
        Of the host.

    Raises
    ------
    ValueError
        If no photo was counted, or a figure is out of range.
    """
    host = {"cores": cores, "host_ms": host_ms}
    rows: dict[str, list[list[float]]] = {}
    for name, card in cards.items():
        answers = [card.answer(counted, cpu_ms=ms + host_ms, **host) for ms in moved_ms]
        rows[name] = [[answer.gain_band[0], answer.gain, answer.gain_band[1]] for answer in answers]
    note = f"{cores} cores, {host_ms:.2f} ms of work per photo stay with them. Grey: the job is slower with the card."
    note += " The whiskers go from the slowest to the fastest reading of the vendor's figures."
    chart = charts.lines(
        moved_ms, rows, x_label="ms of a core per photo that move to the card", y_label="times faster with the card",
        title="What a card gains (modelled)", note=note, log_x=True,
    )  # fmt: skip

    def figure(look: Any) -> Any:
        made = chart.figure(look.name)
        made.axes[0].axhspan(0, 1, color=look.line, alpha=0.2, zorder=0)
        return made

    return Picture(figure, chart.title, chart.alt, chart.text)
