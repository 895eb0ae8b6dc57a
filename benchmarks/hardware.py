"""What the lab says of its circuits: cycles of a byte, exact pixels, the clock, and what all of it costs to simulate.

    python benchmarks/hardware.py

Guards ``kernels/rtl`` and ``labextras/offload/hardware``: change one and run this before and after. Cycles are counted
by Amaranth's simulator, clocks come from what Yosys and nextpnr found before (``labkit place`` makes it anew): nothing
here runs on a chip. The inverse DCT is compared with its twin in NumPy on random blocks as JPEG files hold them;
extremes are in the tests. The last line is one JSON object: ``brighten_cycles_per_byte``; ``idct_exact``, the share of
``idct_blocks`` that agree; ``idct_mhz``, the median of five seeds of placement, with ``idct_mhz_low`` and ``_high``;
``simulate_cpu_s`` of what notebook 08 simulates; ``cache_current``, whether all circuits are those that were placed;
``rtl_lines``, lines of code of all circuits; ``value_rates``, million values a second of each circuit.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import tokenize

import numpy as np

from labextras.offload import hardware, twins
from labextras.offload.hardware import placement
from labkit.common import shipped
from labkit.common.table import Table

BYTES, CODES, BLOCKS, AT_ONCE = 3072, 800, 10_000, 500


def symbols(reader, count: int) -> np.ndarray:
    """Draw symbols as often as their codes are short."""
    often = np.array([2.0 ** -len(code) for code in reader.codes().values()])
    return np.random.default_rng(1).choice(np.frombuffer(reader.SYMBOLS, np.uint8), count, p=often / often.sum())


def simulated(idct, blocks: np.ndarray) -> np.ndarray:
    """Return the pixels of blocks, (n, 8, 8)."""
    return hardware.simulate(hardware.circuit("idct"), idct.columns(blocks)).outputs.reshape(-1, 8, 8)


def notebook(levels: np.ndarray) -> float:
    """Simulate what notebook 08 does; return the cycles of a byte in brighten."""
    reader, idct = hardware.module("reader"), hardware.module("idct")
    words = reader.encode(symbols(reader, CODES))
    cycles = hardware.simulate(hardware.circuit("brighten"), levels, delta=40).cycles
    for name in ("reader logic", "reader block"):
        hardware.simulate(hardware.circuit(name), words)
    hardware.simulate(hardware.circuit("joined block"), words[:40], delta=40, rest=0.2)
    simulated(idct, np.zeros((4, 8, 8), int))
    return cycles / len(levels)


def exact(count: int) -> float:
    """Return the share of random blocks whose pixels are those of the NumPy twin."""
    idct, dice, right = hardware.module("idct"), np.random.default_rng(2), 0
    for start in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        kept = dice.random((size, 8, 8)) < dice.uniform(0.05, 1, (size, 1, 1))
        blocks = np.rint(dice.laplace(0, 60, (size, 8, 8)) * kept).clip(-1500, 1500).astype(np.int16)
        want = twins.jpeg_idct(blocks.reshape(1, size, 64), np.ones(64, np.uint16))
        right += int((simulated(idct, blocks) == want.reshape(8, size, 8).swapaxes(0, 1)).all((1, 2)).sum())
    return right / count


def code_lines() -> int:
    """Return the lines of all circuits that hold code: no comments, no docstrings, no blank ones."""
    found = 0
    for path in shipped.folder("kernels/rtl").glob("*.py"):
        lines, statement = set(), True
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            text = token.type == tokenize.STRING and statement  # a docstring is a statement of its own
            if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                statement = True
            elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
                lines |= set() if text else set(range(token.start[0], token.end[0] + 1))
                statement = False
        found += len(lines)
    return found


def main() -> None:
    """Simulate, compare, look up, and print a table and the line of JSON."""
    parser = argparse.ArgumentParser(description="circuits: cycles, exact pixels, clocks")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="blocks of the inverse DCT")
    blocks = parser.parse_args().blocks
    levels = np.random.default_rng(0).integers(0, 256, BYTES)
    began = time.process_time()
    per_byte = notebook(levels)
    simulate_cpu_s = time.process_time() - began
    share = exact(blocks)
    rows, rates = [], {}
    for name in hardware.CIRCUITS:
        if not placement.current(name):
            rows.append((name, *["has changed since it was placed"], *[""] * 6))
            continue
        placed, interval = hardware.place(name), hardware.CIRCUITS[name].interval
        rates[name] = round(placed.mhz / interval, 1)
        low, high = placed.spread
        counts = (f"{getattr(placed, kind):,}" for kind in ("cells", "registers", "memories", "multipliers"))
        rows.append((name, str(interval), f"{placed.mhz:.1f}", f"{low:.0f} to {high:.0f}", *counts))
    heads = ("circuit", "interval", "MHz", "five seeds", "cells", "registers", "memories", "multipliers")
    print(Table(heads, rows, right=range(1, 8), caption="placed before, not now: estimates of nextpnr"))
    idct = hardware.place("idct") if "idct" in rates else None
    figures = {
        "brighten_cycles_per_byte": round(per_byte, 4),
        "idct_exact": share,
        "idct_blocks": blocks,
        "idct_mhz": idct and idct.mhz,
        "idct_mhz_low": idct and idct.spread[0],
        "idct_mhz_high": idct and idct.spread[1],
        "simulate_cpu_s": round(simulate_cpu_s, 2),
        "cache_current": len(rates) == len(hardware.CIRCUITS),
        "rtl_lines": code_lines(),
        "value_rates": rates,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
