"""A SmartSSD on paper: what a card with these figures would do with the reader's photos. Modelled, never measured.

The card reads a photo from its own flash over the peer-to-peer link (P2P), decodes it, resizes and augments it, and
sends the finished picture to the host. The three run at the same time, so the slowest of them is the speed::

    link     bandwidth(size of a read) / bytes of a photo
    decode   decoders x clock / cycles of a photo, cycles = max(tokens x initiation interval, blocks x IDCT cycles)
    output   bandwidth to the host / bytes of a finished picture

Tokens (Huffman symbols) and blocks come from the reader's photos, see `labkit.offload.tokens`.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from labkit.offload.answer import OUTPUTS, Answer
from labkit.offload.tokens import Counted
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

_RENAMED = {
    "tf.data interleave": "card (modelled): P2P read",
    "tf.data worker": "card (modelled): decoder",
    "tf.data Prefetch": "card (modelled): to the host",
}

#: What to change where the card keeps the accelerator waiting: options of tf.data are no part of a card.
_ADVICE = {
    "fetch": "larger reads from the flash, many photos in one, until the link is full; then a second card.",
    "prep": "more decoders on the card, until the link is full.",
    "batch": "uint8 from the card, not float32; or a second card: its output is the limit.",
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
        Cycles of everything behind the tokens, per block of 8x8. 34.5 is calibrated, not published: 243 MHz over
        1,148 images/s over the 6,144 blocks of the vendor's 512x512 4:2:0 picture. See `labkit.offload.calibration`.
    call_cycles : float
        Cycles of a photo during which nothing is decoded. 0 here; see the second reading in `calibration`.
    p2p : mapping of int to float
        Bandwidth in GB/s by bytes of one read; between two sizes it is interpolated over the logarithm of the size.
    read_bytes : int, optional
        Bytes of one read, where photos lie packed in shards; by default each photo is a read of its own.
    output : {"uint8", "float32"}
        Type of the finished picture.
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
    Taken for granted: one decoder works on one photo at a time and starts the next at once; resize and augmentation
    keep up (the vendor's resize does 2,644 MP/s: 14,000 photos/s of 500x375); reads run ahead; P2P reads do not
    share the link to the host, since the card has a PCIe switch of its own (AnandTech 16245); the photos lie on this
    card, in formats that it decodes.
    """

    clock_mhz: float = 243.0
    initiation_interval: float = 1.0
    decoders: int = 1
    idct_cycles_per_block: float = 34.5
    call_cycles: float = 0.0
    p2p: Mapping[int, float] = field(default_factory=lambda: dict(P2P_READ))
    read_bytes: int | None = None
    output: str = "uint8"
    size: int = 224
    output_gb_s: float = 1.87

    def __post_init__(self) -> None:
        """Check every figure."""
        for name, least, most in (
            ("clock_mhz", 1, 10_000), ("initiation_interval", 0.01, 1000), ("idct_cycles_per_block", 0, 10_000),
            ("call_cycles", 0, 1e9), ("output_gb_s", 1e-6, 1000),
        ):  # fmt: skip
            _within(name, getattr(self, name), least, most, numbers.Real)
        _within("decoders", self.decoders, 1, 1000, numbers.Integral)
        _within("size", self.size, 1, 4096, numbers.Integral)
        if self.read_bytes is not None:
            _within("read_bytes", self.read_bytes, 1, 1 << 40, numbers.Integral)
        if self.output not in OUTPUTS:
            raise ValueError(f"output is {self.output!r}; allowed: {', '.join(OUTPUTS)}")
        if not isinstance(self.p2p, Mapping) or not self.p2p:
            raise ValueError(f"p2p is {self.p2p!r:.60}; allowed: a dict of bytes of a read to GB/s, not empty")
        for size, rate in self.p2p.items():
            _within("a read size of p2p", size, 1, 1 << 40, numbers.Integral)
            _within(f"p2p[{size}]", rate, 1e-6, 1000, numbers.Real)
        object.__setattr__(self, "p2p", dict(sorted(self.p2p.items())))

    def __hash__(self) -> int:
        """Return a hash of all figures."""
        return hash(repr(self))

    def changed(self, **changes: Any) -> SmartSSD:
        """Return this card with some figures changed.

        Raises
        ------
        ValueError
            If there is no such figure, or it is out of range.
        """
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(f"a SmartSSD has no {name!r}; allowed: {', '.join(known)}")
        return replace(self, **changes)

    # -- the three rates -----------------------------------------------------------

    @property
    def picture_bytes(self) -> int:
        """Bytes of one finished picture."""
        return self.size * self.size * 3 * OUTPUTS[self.output]

    def bandwidth_gb_s(self, read_bytes: Any) -> Any:
        """Return the P2P bandwidth in GB/s for reads of so many bytes (number or array), as in `p2p`.

        Below the smallest published size the number of reads per second is kept, above the largest the bandwidth.
        """
        sizes, rates = np.array(list(self.p2p), np.float64), np.array(list(self.p2p.values()))
        given = np.asarray(read_bytes, np.float64)
        between = np.interp(np.log2(np.maximum(given, 1)), np.log2(sizes), rates)
        found = np.where(given < sizes[0], rates[0] * given / sizes[0], between)
        return float(found) if found.ndim == 0 else found

    def cycles(self, counted: Counted) -> np.ndarray:
        """Return the cycles that one decoder needs for each photo, float64, shape (n,)."""
        tokens = counted.tokens * self.initiation_interval
        return self.call_cycles + np.maximum(tokens, counted.blocks * self.idct_cycles_per_block)

    def read_ms(self, counted: Counted) -> np.ndarray:
        """Return how long the link carries each photo, in milliseconds, float64, shape (n,)."""
        size = counted.bytes if self.read_bytes is None else np.full(len(counted), self.read_bytes)
        return counted.bytes / (self.bandwidth_gb_s(size) * 1e6)

    def decode_ms(self, counted: Counted) -> np.ndarray:
        """Return how long one decoder works on each photo, in milliseconds, float64, shape (n,)."""
        return self.cycles(counted) / (self.clock_mhz * 1e3)

    def answer(
        self,
        counted: Counted,
        *,
        cpu_ms: float | None = None,
        cores: int | None = None,
        accelerator: float | None = None,
        host_ms: float = 0.0,
    ) -> Answer:
        """Return what this card would do with these photos.

        Parameters
        ----------
        counted : Counted
            Photos that the card decodes; see `labkit.offload.tokens.count`.
        cpu_ms : float, optional
            Milliseconds that a core works on a photo without the card: reading, decoding, resizing, augmenting.
        cores : int, optional
            Of the host.
        accelerator : float, optional
            Images per second that the accelerator trains.
        host_ms : float
            Milliseconds of a core per photo that stay with the host.

        Raises
        ------
        ValueError
            If no photo was counted, or a figure is out of range.
        """
        counted = counted.whole()
        given = {"cpu_ms": cpu_ms, "cores": cores, "accelerator": accelerator, "host_ms": host_ms}
        for name, value in given.items():
            if value is not None:
                _within(name, value, 0 if name == "host_ms" else 1e-6, 1e9, numbers.Real)
        rates = {
            "link": 1e3 / float(self.read_ms(counted).mean()),
            "decode": self.decoders * 1e3 / float(self.decode_ms(counted).mean()),
            "output": self.output_gb_s * 1e9 / self.picture_bytes,
        }
        return Answer(self, rates, float(counted.bytes.mean()), len(counted), **given)

    # -- a job with the card -------------------------------------------------------

    def costs(self, counted: Counted, *, train_ms: float, batch_size: int = 32) -> Costs:
        """Return what the stages of a job with this card cost, for `labkit.simulate`; what the card does is asleep.

        Parameters
        ----------
        counted : Counted
        train_ms : float
            The accelerator's step, in milliseconds.
        batch_size : int
        """
        work = {"decode": np.sort(self.decode_ms(counted.whole()))}
        output = batch_size * self.picture_bytes / (self.output_gb_s * 1e6)
        return Costs(map=work, batch=output, train=train_ms, sleeps=("open", "read", "decode", "batch"))

    def knobs(self, counted: Counted, *, batch_size: int = 32, cores: int = 2) -> Knobs:
        """Return how that job is put together: reads run ahead, two batches are buffered."""
        counted = counted.whole()
        read_ms, kb = float(self.read_ms(counted).mean()), float(counted.bytes.mean()) / 1e3
        return Knobs(
            batch_size=batch_size, cores=cores, map_calls=self.decoders + batch_size, threads=self.decoders,
            cycle_length=2, prefetch=2, bandwidth_mb_s=kb / read_ms, image_kb=kb,
        )  # fmt: skip

    def trace(
        self,
        counted: Counted,
        accelerator: Any,
        *,
        batch_size: int = 32,
        steps: int = 20,
        cores: int = 2,
    ) -> Trace:
        """Return the timeline of a training job that this card feeds: an ordinary `Trace` whose origin is modelled.

        Parameters
        ----------
        counted : Counted
        accelerator : labkit.accelerators.Modelled
            Or anything with ``name``, ``source`` and ``step_ns(batch_size)``.
        batch_size, steps, cores : int
        """
        train_ms = accelerator.step_ns(batch_size) / 1e6
        costs = self.costs(counted, train_ms=train_ms, batch_size=batch_size)
        knobs = self.knobs(counted, batch_size=batch_size, cores=cores)
        model = Model(costs, knobs, "SmartSSD, modelled", accelerator.name, accelerator.source)
        trace = model.run(steps, warmup=4)
        threads = []
        for thread in trace.threads:
            found = next((old for old in _RENAMED if thread.name.startswith(old)), None)
            name = thread.name if found is None else thread.name.replace(found, _RENAMED[found])
            threads.append(Thread(name, thread.kind))
        assumptions = (f"The card is modelled: {self}.", *trace.run.assumptions)
        return replace(trace.with_run(assumptions=assumptions, advice=_ADVICE), threads=tuple(threads))

    # -- pictures --------------------------------------------------------------------

    def p2p_picture(self, photo_bytes: float | None = None) -> Picture:
        """Draw the published bandwidth of P2P reads against the size of a read, with the reader's photo marked.

        Parameters
        ----------
        photo_bytes : float, optional
            Bytes of a photo, the mean of the reader's album for example.
        """
        table = {float(size): rate for size, rate in self.p2p.items()}
        if photo_bytes is not None:
            _within("photo_bytes", photo_bytes, 1, 1 << 40, numbers.Real)
            table[float(photo_bytes)] = self.bandwidth_gb_s(float(photo_bytes))
        table = dict(sorted(table.items()))
        note = "Published by the vendor, not measured here; the place of your photo is read off the line (modelled)."
        said = ""
        if photo_bytes is not None:
            rate = self.bandwidth_gb_s(photo_bytes)
            best = max(self.p2p.values())
            said = f"A photo of {photo_bytes / 1e3:,.0f} kB: {rate:.2f} GB/s, {100 * rate / best:.0f} % of the best."
        chart = charts.lines(
            [size / 1024 for size in table],
            {"P2P read": list(table.values())},
            x_label="bytes of one read (KB)",
            y_label="GB/s",
            title="Peer-to-peer reads, SSD to FPGA: small reads waste the link (modelled)",
            note=f"{note} {said}".strip(),
            log_x=True,
        )

        def figure(look: Any) -> Any:
            made = chart.figure(look.name)
            if photo_bytes is not None:
                axes, here = made.axes[0], photo_bytes / 1024
                axes.axvline(here, color=look.ink, linewidth=1, linestyle=":")
                where = {"xytext": (6, 4), "textcoords": "offset points", "fontsize": 9, "color": look.ink}
                axes.annotate("your photo", (here, 0), parse_math=False, **where)
            return made

        return Picture(figure, chart.title, f"{chart.alt} {said}".strip(), chart.text)

    def __str__(self) -> str:
        """Return the figures on one line."""
        reads = "a photo a read" if self.read_bytes is None else f"reads of {self.read_bytes / 1024:,.0f} KB"
        many = f"{self.decoders} decoder{'s' * (self.decoders > 1)}"
        every = f"{self.initiation_interval:g} cycle{'s' * (self.initiation_interval != 1)} a token"
        call = f", {self.call_cycles:,.0f} cycles a photo" if self.call_cycles else ""
        return (
            f"SmartSSD (modelled): {many} at {self.clock_mhz:g} MHz, {every}, "
            f"{self.idct_cycles_per_block:g} cycles a block{call}; {reads}; {self.output} pictures of "
            f"{self.picture_bytes:,} bytes at {self.output_gb_s:g} GB/s"
        )


def _within(name: str, value: Any, least: float, most: float, kind: type) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
        what = "a whole number" if kind is numbers.Integral else "a number"
        raise ValueError(f"{name} is {value!r}; allowed: {what} from {least:,g} to {most:,g}")
