"""The card's decode rate held against everything that the vendor has published about it.

One published picture fixes one figure; the two other pictures say how far to trust it. The vendor's page allows two
readings. The lab prints both, and uses the reading that agrees with all three pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit.common.table import Table
from labkit.offload.smartssd import SmartSSD
from labkit.offload.tokens import Counted


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

#: Two ways to read the vendor's page, each with one figure that the 512x512 picture fixes. "per call", the lab's
#: default: 8 cycles a block (the page says 8 coefficients a cycle), and some cycles that each call costs. "per block":
#: all of the picture's time is put on its blocks.
READINGS = {
    "per call": {"idct_cycles_per_block": 8.0, "call_cycles": 80_600.0},
    "per block": {"idct_cycles_per_block": 34.5, "call_cycles": 0.0},
}


@dataclass(frozen=True, repr=False)
class Calibration:
    """The check of a card's decoder; made by `check`.

    Parameters
    ----------
    rows : tuple of (picture, published, dict of reading to modelled), images per second of one decoder
    """

    rows: tuple[tuple[str, float, dict[str, float]], ...]

    def error(self, picture: str, reading: str = "per call") -> float:
        """Return modelled over published decode rate, less 1."""
        published, modelled = next((p, m) for name, p, m in self.rows if name == picture)
        return modelled[reading] / published - 1

    def __str__(self) -> str:
        """Return all as a table."""
        head = ("picture", "published", *(f"modelled {reading}" for reading in READINGS))
        rows = []
        for name, published, modelled in self.rows:
            each = (f"{rate:,.0f} ({round(100 * (rate / published - 1)):+d} %)" for rate in modelled.values())
            rows.append((name, f"{published:,.0f}", *each))
        notes = (
            "Both readings agree with lena_c_512 by construction. The lab's card counts per call, because only this",
            "reading agrees with the two others, too.",
        )
        return str(Table(head, rows, right=(1, 2, 3), notes=notes, caption="One decoder at 243 MHz, images per second"))

    __repr__ = __str__


def check() -> Calibration:
    """Hold both readings of the vendor's page against the vendor's figures."""
    rows = []
    for one in VENDOR:
        modelled = {name: SmartSSD(**figures).answer(one.counted).per_instance for name, figures in READINGS.items()}
        rows.append((one.name, one.decoder_per_s, modelled))
    return Calibration(tuple(rows))
