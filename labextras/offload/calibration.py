"""What the vendor has published about its decoder, and every decoder that fits it.

The vendor's page gives the speed for three pictures, and it can be read in two ways. Each reading has one unknown
figure, and each picture fixes it once: six decoders. None of them is right for all three pictures. For another photo,
their slowest and their fastest speed are the two ends of the band that the model of a card states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labextras.offload.tokens import Counted
from labkit.common.table import Table

#: The clock of the published board measurements, in MHz (Vitis codec library, benchmark 2022.1, kernelJpegDecoderTop).
CLOCK_MHZ = 243.0


class Published(NamedTuple):
    """A picture of the vendor's: 4:2:0, its bytes from the compression ratio, and what was measured.

    ``huffman_per_s``: the Huffman decoder alone, cycle-exact simulation ("cosim") at 300 MHz, one token a cycle.
    ``decoder_per_s``: the whole decoder on a board, 243 MHz.
    """

    name: str
    width: int
    height: int
    bytes: int
    huffman_per_s: float
    decoder_per_s: float

    @property
    def counted(self) -> Counted:
        """Its blocks, and its tokens at most: the cycles of the simulation."""
        blocks = 6 * -(-self.width // 16) * -(-self.height // 16)
        columns = (np.array([n], np.int64) for n in (self.bytes, round(300e6 / self.huffman_per_s), blocks, 0))
        return Counted(*columns, "the vendor")


#: Vitis codec library, benchmark: sizes, ratios and simulation 2021.2 (table 1), board 2022.1 and 2021.2 (lena: 1,148
#: images/s, 87 MB/s; t0: 1,292 images/s) and 2021.1 (android: 1.515 ms). Bytes: width x height x 1.5 / ratio.
VENDOR = (
    Published("lena_c_512", 512, 512, 75_600, 2288, 1148),
    Published("t0", 616, 516, 51_300, 2890, 1292),
    Published("android", 960, 1280, 129_800, 1125, 1000 / 1.515),
)


class DecoderReading(NamedTuple):
    """One way to read the vendor's page, with its unknown figure fixed by one picture.

    ``way`` is "per call" (8 cycles a block, since the page says 8 coefficients a cycle, and the rest of the time is
    lost once in each call) or "per block" (the rest of the time is lost in every block). ``picture`` is the name of the
    picture that this decoder decodes at exactly the published rate.
    """

    way: str
    picture: str
    idct_cycles_per_block: float
    call_cycles: float

    @property
    def name(self) -> str:
        """The reading in words."""
        return f"{self.way}, fixed by {self.picture}"

    def images_per_s(self, counted: Counted) -> float:
        """Return the photos that one decoder of this reading decodes in a second, at one token a cycle."""
        each = cycles(counted, 1.0, self.idct_cycles_per_block, self.call_cycles)
        return CLOCK_MHZ * 1e6 / float(each.mean())


def cycles(
    counted: Counted, initiation_interval: float, idct_cycles_per_block: float, call_cycles: float
) -> np.ndarray:
    """Return the cycles of one decoder for each photo, float64, shape (n,); the formula is `smartssd`'s."""
    return call_cycles + np.maximum(counted.tokens * initiation_interval, counted.blocks * idct_cycles_per_block)


def _readings() -> tuple[DecoderReading, ...]:
    """Solve both readings for the unknown figure, once for each picture."""
    per_call, per_block = [], []
    for one in VENDOR:
        taken = CLOCK_MHZ * 1e6 / one.decoder_per_s
        rest = taken - float(cycles(one.counted, 1.0, 8.0, 0.0)[0])
        per_call.append(DecoderReading("per call", one.name, 8.0, rest))
        per_block.append(DecoderReading("per block", one.name, taken / float(one.counted.blocks[0]), 0.0))
    return (*per_call, *per_block)


#: Both readings, each fixed by each picture.
READINGS = _readings()


@dataclass(frozen=True, repr=False)
class Calibration:
    """Every reading held against every published picture; made by `check`.

    Parameters
    ----------
    published : dict of str to float
        Images per second of one decoder, by picture.
    modelled : dict of str to dict of str to float
        The same for each reading, by the reading's name and the picture.
    """

    published: dict[str, float]
    modelled: dict[str, dict[str, float]]

    def __str__(self) -> str:
        """Return all as a table: a row for each reading, a column for each picture, and the band below."""
        rows = [("published", *(f"{rate:,.0f}" for rate in self.published.values()))]
        for reading, rates in self.modelled.items():
            errors = {name: 100 * rate / self.published[name] - 100 for name, rate in rates.items()}
            rows.append((reading, *(f"{rate:,.0f} ({errors[name]:+.0f} %)" for name, rate in rates.items())))
        columns = zip(*(rates.values() for rates in self.modelled.values()), strict=True)
        rows.append(("band", *(f"{min(rates):,.0f} to {max(rates):,.0f}" for rates in columns)))
        notes = ("A reading agrees with the picture that fixed it by construction; its other errors are the test.",)
        caption = f"One decoder at {CLOCK_MHZ:g} MHz, images per second"
        return str(Table(("", *self.published), rows, right=(1, 2, 3), notes=notes, caption=caption))

    __repr__ = __str__


def check() -> Calibration:
    """Hold every reading of the vendor's page against all of the vendor's pictures."""
    published = {one.name: float(one.decoder_per_s) for one in VENDOR}
    modelled = {reading.name: {one.name: reading.images_per_s(one.counted) for one in VENDOR} for reading in READINGS}
    return Calibration(published, modelled)
