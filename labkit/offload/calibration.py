"""The card's decode rate held against everything that the vendor has published about it.

One published picture fixes one figure; the two other pictures say how far to trust it. The vendor's page allows two
readings. The lab prints both, and uses the reading that agrees with all three pictures.
"""

from __future__ import annotations

import bisect
import io
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labkit.offload import tokens
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
    tokens, bytes : int or None
        Of a 512x512 4:2:0 picture made from the reader's photo, as large as the vendor's, counted by our kernel.
    where : str
        Who counted.
    """

    rows: tuple[tuple[str, float, dict[str, float]], ...]
    tokens: int | None = None
    bytes: int | None = None
    where: str = ""

    @property
    def huffman_error(self) -> float | None:
        """Modelled over published rate of the Huffman part, less 1; on another picture of the same bytes."""
        return None if self.tokens is None else 300e6 / self.tokens / VENDOR[0].huffman_per_s - 1

    def error(self, picture: str, reading: str = "per call") -> float:
        """Return modelled over published decode rate, less 1."""
        published, modelled = next((p, m) for name, p, m in self.rows if name == picture)
        return modelled[reading] / published - 1

    def __str__(self) -> str:
        """Return all as a table."""
        lines = ["One decoder, images/s at 243 MHz: published, and modelled by two readings of the vendor's page"]
        for name, published, modelled in self.rows:
            each = "   ".join(
                f"{key} {rate:6,.0f} ({round(100 * (rate / published - 1)) + 0:+d} %)" for key, rate in modelled.items()
            )
            lines.append(f"  {name:<12}published {published:6,.0f}   {each}")
        lines += [
            "  Both readings agree with lena_c_512 by construction. The lab's card counts per call: that reading",
            "  agrees with the two others, too.",
        ]
        if self.tokens is not None:
            lines += [
                f"  Huffman part, 300 MHz, one token a cycle: your photo at 512x512, {self.bytes:,} bytes, has "
                f"{self.tokens:,} tokens",
                f"  (counted by {self.where}): {300e6 / self.tokens:,.0f} images/s, published "
                f"{VENDOR[0].huffman_per_s:,.0f} for another picture of that size ({100 * self.huffman_error:+.0f} %)",
            ]
        return "\n".join(lines)

    __repr__ = __str__


def check(photo: bytes | None = None, engine: Any = None) -> Calibration:
    """Hold the model against the vendor's figures.

    Parameters
    ----------
    photo : bytes, optional
        A JPEG of the reader's: scaled to 512x512, stored as 4:2:0 with about the vendor's bytes, and counted.
    engine : Engine or None
        Where the kernel counts; without one, its twin in Python does.
    """
    rows = []
    for one in VENDOR:
        modelled = {name: SmartSSD(**figures).answer(one.counted).per_instance for name, figures in READINGS.items()}
        rows.append((one.name, one.decoder_per_s, modelled))
    if photo is None:
        return Calibration(tuple(rows))
    made = alike(photo)
    counted = tokens.count_on_host([made]) if engine is None else tokens.count([made], engine)
    return Calibration(tuple(rows), int(counted.whole().tokens[0]), len(made), counted.where)


def alike(photo: bytes) -> bytes:
    """Return a 512x512 4:2:0 JPEG of a photo whose bytes come as near to the vendor's picture as a quality allows."""
    from PIL import Image

    picture = Image.open(io.BytesIO(photo)).convert("RGB").resize((512, 512), Image.Resampling.BILINEAR)

    def stored(quality: int) -> bytes:
        out = io.BytesIO()
        picture.save(out, "jpeg", quality=quality, subsampling=2)
        return out.getvalue()

    # More quality, more bytes.
    above = bisect.bisect_right(range(1, 101), VENDOR[0].bytes, key=lambda quality: len(stored(quality)))
    return min(map(stored, (max(above, 1), min(above + 1, 100))), key=lambda made: abs(len(made) - VENDOR[0].bytes))
