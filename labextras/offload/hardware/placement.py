"""Place a circuit on a chip: how many cells it takes, how fast its clock may be, and what limits that.

Yosys turns a circuit into cells of Lattice's ECP5, nextpnr places them and connects them. Both are estimates of the
tools for a chip that nobody has here. Where cells lie depends on a seed, and so does the clock: five seeds are placed,
and the median is given. What the lab has placed before lies in ``kernels/rtl/placed``, with the hash of the circuit;
the circuits themselves are files of ``kernels/rtl``.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from labextras.offload.hardware import toolchain
from labextras.offload.hardware.cycles import name_of, netlist
from labkit.common import shipped
from labkit.common.files import write_aside
from labkit.common.numbers import one_of, whole
from labkit.common.table import Table

#: The chips: what nextpnr calls them, their package, and the columns and rows of their grid.
CHIPS = {"25k": ("LFE5U-25F", "CABGA381", (73, 51)), "85k": ("LFE5U-85F", "CABGA756", (127, 96))}

#: What is counted, by what Yosys and nextpnr call it: the kind, and how many of it each is.
_CELLS = {
    "LUT4": ("cells", 1), "CCU2C": ("cells", 2), "TRELLIS_COMB": ("cells", 1), "TRELLIS_FF": ("registers", 1),
    "DP16KD": ("memories", 1), "MULT18X18D": ("multipliers", 1),
}  # fmt: skip
KINDS = tuple(dict.fromkeys(kind for kind, _ in _CELLS.values()))

# `splitnets`: without it Yosys 0.70 stops at an assertion where look-up tables of Amaranth's netlists are mapped.
_SYNTHESIS = (
    "read_rtlil top.il; synth_ecp5 -top top -run begin:map_luts; splitnets; "
    "synth_ecp5 -top top -json top.json -run map_luts:; tee -q -o cells.json stat -json"
)
#: The target that the placer is given, above what any of these circuits reaches. MHz.
_TARGET_MHZ = 400
_INNER = "inner"

#: The columns of `compare`.
_HEAD = "circuit", "interval", "MHz, median [five seeds]", "cells", "memories"


def module(name: str) -> ModuleType:
    """Return a file of ``kernels/rtl`` as a module, by its name: ``module("reader").encode``."""
    return shipped.module("kernels/rtl", name)


class Circuit(NamedTuple):
    """A circuit that the lab places: its file, whose class is called like it, and its arguments.

    `interval` are its cycles a value; `chip` and `speed` are what it is placed for.
    """

    file: str
    arguments: Mapping[str, Any] = MappingProxyType({})
    interval: int = 1
    chip: str = "25k"
    speed: int = 6


#: All that the lab places, by name.
CIRCUITS = {
    "brighten": Circuit("brighten"),
    "faulty brighten": Circuit("faulty_brighten"),
    **{
        " ".join(filter(None, ("reader", memory, register))): Circuit(
            "reader", {"memory": memory, "register": register}, 1 + (memory == "block") + bool(register)
        )
        for memory in ("logic", "block")
        for register in (None, "before table", "after table", "after shift")
    },
    "joined logic": Circuit("joined", {"memory": "logic"}),
    "joined block": Circuit("joined", {"memory": "block"}, 2),
    "idct": Circuit("idct", chip="85k", speed=8),
}


class NotPlaced(LookupError):
    """What was placed before is missing, or is of another circuit."""


@dataclass(frozen=True)
class Placed:
    """A circuit on a chip.

    Parameters
    ----------
    name, chip : str
    speed : int
        The speed grade: 6 is the slowest, 8 the fastest.
    source : str
        The hash of the circuit, as RTLIL.
    cells, registers, memories, multipliers : int
        What it takes: look-up tables of four inputs, one-bit registers, block memories of 18 Kbit, 18 x 18 bits.
    by_seed : dict of str to float
        The highest clock by the seed of the placement, in MHz.
    logic_ns, way_ns : float
        The longest path from register to register, of the seed of the median: nanoseconds in cells, and between them.
    first_ns : float
        Of these, what the first cell takes until it answers.
    start, end : str
        Where that path begins and ends.
    where : dict
        Of that seed, by unit and kind of cell: column, row and number of cells, ``{"reader": {"cells": [[7, 4, 8]]}}``.
    tools : dict of str to str
        Versions.
    date : str
    now : bool
        Whether it was placed now, or before.
    """

    name: str
    chip: str
    speed: int
    source: str
    cells: int
    registers: int
    memories: int
    multipliers: int
    by_seed: dict[str, float]
    logic_ns: float
    way_ns: float
    first_ns: float
    start: str
    end: str
    where: dict[str, dict[str, list[list[int]]]]
    tools: dict[str, str]
    date: str
    now: bool = False

    @property
    def mhz(self) -> float:
        """The highest clock in MHz, the median of all seeds."""
        return statistics.median(self.by_seed.values())

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest of all seeds, in MHz."""
        return min(self.by_seed.values()), max(self.by_seed.values())

    @property
    def when(self) -> str:
        """When and with what it was placed, in words."""
        tools = ", ".join(f"{tool} {version}" for tool, version in self.tools.items())
        return f"placed now, with {tools}" if self.now else f"placed before, not now: {self.date}, {tools}"

    def __str__(self) -> str:
        """Return all figures in a few lines."""
        low, high = self.spread
        seeds = f"median of {len(self.by_seed)} seeds, {low:.0f} to {high:.0f}" if len(self.by_seed) > 1 else "one seed"
        used = ", ".join(f"{getattr(self, kind):,} {kind}" for kind in KINDS if getattr(self, kind))
        return (
            f"{self.name} on an {CHIPS[self.chip][0]}, speed {self.speed}: {used}\n"
            f"  {self.mhz:.1f} MHz ({seeds})\n"
            f"  longest path {self.logic_ns + self.way_ns:.1f} ns, from {self.start} to {self.end}: "
            f"{self.logic_ns:.1f} ns in cells, {self.way_ns:.1f} ns on the way\n"
            f"  {self.when}"
        )

    __repr__ = __str__


def circuit(name: str) -> Any:
    """Return a circuit of the lab by its name in `CIRCUITS`, new.

    Raises
    ------
    ValueError
        If there is no such name.
    """
    made = CIRCUITS[one_of("name", name, CIRCUITS)]
    return getattr(module(made.file), made.file.title().replace("_", ""))(**made.arguments)


def synthesise(unit: Any) -> dict[str, int]:
    """Return how many cells of each kind a circuit takes, before it is placed: Yosys alone, a few seconds.

    Parameters
    ----------
    unit : amaranth.lib.wiring.Component

    Returns
    -------
    dict of str to int
        ``cells``, ``registers``, ``memories``, ``multipliers``, as in `Placed`.

    Raises
    ------
    ToolError
        If Yosys is missing, too old, or fails.
    """
    with tempfile.TemporaryDirectory(prefix="labkit-yosys-") as folder:
        return _used(unit, _synthesised(netlist(_registered(unit)), folder))


def place(
    unit: Any, *, name: str | None = None, chip: str = "25k", speed: int = 6, seeds: Iterable[int] = (1, 2, 3, 4, 5),
    anew: bool = False,
) -> Placed:  # fmt: skip
    """Return what a circuit takes of a chip and how fast it may be clocked: as placed before, or anew.

    Parameters
    ----------
    unit : amaranth.lib.wiring.Component or str
        A circuit, or the name of one of `labextras.offload.hardware.CIRCUITS`, which says chip and speed, too.
    name : str, optional
        What it is called; for a circuit of the lab, or one with the same netlist, its name there.
    chip : {"25k", "85k"}
    speed : {6, 7, 8}
    seeds : iterable of int
        Of the placement, one run of nextpnr each. They matter where it is placed anew.
    anew : bool
        Place it now: one run of Yosys, one of nextpnr for each seed; seconds to a minute each. It needs the extra
        ``hardware``. What is found is kept in the user's cache, or in ``build/placed`` of a checkout.

    Raises
    ------
    NotPlaced
        If it was not placed before, or was another circuit then, and `anew` is false.
    ToolError
        If a tool is missing, too old, or fails.
    """
    if isinstance(unit, str):
        name, known = unit, CIRCUITS[one_of("unit", unit, CIRCUITS)]
        unit, chip, speed = circuit(unit), known.chip, known.speed
    chip, speed = one_of("chip", chip, CHIPS), one_of("speed", speed, (6, 7, 8))
    seeds = [whole("a seed", seed, 0) for seed in seeds]
    text = netlist(_registered(unit))
    source = hashlib.sha256(text.encode()).hexdigest()[:16]
    if not anew:
        return _before(name or name_of(unit), chip, speed, source)
    if not seeds:
        raise ValueError("seeds are none; allowed: at least one whole number")
    placed = Placed(name or name_of(unit), chip, speed, source, **_placed(unit, chip, speed, text, seeds))
    return replace(keep(placed, shipped.kept("placed", writable=True)), now=True)


def current(name: str) -> bool:
    """Return whether a circuit of the lab is the one that was placed."""
    try:
        place(name)
    except NotPlaced:
        return False
    return True


def keep(placed: Placed, folder: Path) -> Placed:
    """Write a placement to a folder, aside and renamed, and return it."""
    text = json.dumps(asdict(placed), separators=(",", ":"))
    write_aside(folder / _file(placed.name, placed.chip, placed.speed), f"{text}\n")
    return placed


def committed() -> Path:
    """Return the folder of what the lab has placed."""
    return shipped.folder("kernels/rtl") / "placed"


def _file(name: str, chip: str, speed: int) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '_', name.lower())}-{chip}-{speed}.json"


def _before(name: str, chip: str, speed: int, source: str) -> Placed:
    """Return what was placed before of the circuit with this hash."""
    other = None
    for folder in (committed(), shipped.kept("placed")):
        for path in sorted(folder.glob(f"*-{chip}-{speed}.json")):
            found = json.loads(path.read_text())
            if found["source"] == source:
                return Placed(**found)
            other = found if path.name == _file(name, chip, speed) else other
    was = f"has changed since it was placed on {other['date']}" if other else "was not placed"
    where = f"{CHIPS[chip][0]}, speed {speed}"
    raise NotPlaced(f"{name} {was} ({where}); place(…, anew=True) places it now, with the extra hardware")


def compare(*names: str) -> Table:
    """Return a table of circuits as they were placed: values per second are the clock divided by the interval.

    Parameters
    ----------
    *names : str
        Of `labextras.offload.hardware.CIRCUITS`.

    Raises
    ------
    ValueError
        If there is no such circuit.
    NotPlaced
        If one has changed since it was placed.
    """
    circuits = {name: place(name) for name in names}
    rows = []
    for name, placed in circuits.items():
        low, high = placed.spread
        clock = f"{placed.mhz:.0f} [{low:.0f}–{high:.0f}]"
        rows.append((name, f"{CIRCUITS[name].interval}", clock, f"{placed.cells:,}", f"{placed.memories:,}"))
    chips = dict.fromkeys(f"Chip: {CHIPS[one.chip][0]}, speed {one.speed}" for one in circuits.values())
    notes = ["; ".join(chips) + ". A cell is a look-up table of four inputs, a memory a block of 18 kilobits."]
    notes += dict.fromkeys(one.when for one in circuits.values())
    more = [Table((), [(name, f"{placed.registers:,}") for name, placed in circuits.items()], right=[1])]
    return Table(_HEAD, rows, right=range(1, 5), notes=notes, more=more, more_title="registers")


# -- anew ---------------------------------------------------------------------------------


def _registered(unit: Any) -> Any:
    """Return a circuit between registers: without them no path from a port would be timed, and the clock flatters."""
    from amaranth.hdl import Module, Value
    from amaranth.lib import wiring

    def between(self: Any, _: Any) -> Module:
        m = Module()
        m.submodules[_INNER] = unit
        for (_, member, mine), (_, _, its) in zip(*(one.signature.flatten(one) for one in (self, unit)), strict=True):
            outer, inner = Value.cast(mine), Value.cast(its)
            m.d.sync += inner.eq(outer) if member.flow == wiring.In else outer.eq(inner)
        return m

    return type("Registered", (wiring.Component,), {"elaborate": between})(unit.signature)


def _used(unit: Any, counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many of each kind of cell a circuit takes, without the registers of `_registered`: a bit of a port."""
    from amaranth.hdl import Value

    found = dict.fromkeys(KINDS, 0)
    for cell, (kind, each) in _CELLS.items():
        found[kind] += each * counts.get(cell, 0)
    found["registers"] -= sum(len(Value.cast(value)) for _, _, value in unit.signature.flatten(unit))
    return found


def _synthesised(text: str, folder: str) -> dict[str, int]:
    Path(folder, "top.il").write_text(text)
    toolchain.run("yosys", folder, "-q", "-p", _SYNTHESIS)
    return json.loads(Path(folder, "cells.json").read_text())["design"]["num_cells_by_type"]


def _placed(unit: Any, chip: str, speed: int, text: str, seeds: list[int]) -> dict[str, Any]:
    """Return what of `Placed` the tools say."""
    tools, found = toolchain.versions(), {}
    with tempfile.TemporaryDirectory(prefix="labkit-place-") as folder:
        _synthesised(text, folder)
        for seed in seeds:
            toolchain.run(
                "nextpnr", folder, f"--{chip}", "--package", CHIPS[chip][1], "--speed", str(speed), "--seed", str(seed),
                "--freq", str(_TARGET_MHZ), "--timing-allow-fail", "--out-of-context", "--quiet", "--json", "top.json",
                "--report", "report", "--write", "placed",
            )  # fmt: skip
            report, placed = (json.loads(Path(folder, file).read_text()) for file in ("report", "placed"))
            mhz = round(next(iter(report["fmax"].values()))["achieved"], 1)
            found[seed] = mhz, report, placed["modules"]["top"]["cells"]
    _, report, cells = sorted(found.values(), key=lambda each: each[0])[len(found) // 2]
    steps = next(p["path"] for p in report["critical_paths"] if p["from"] == p["to"] == "posedge clk")
    logic, way = (sum(s["delay"] for s in steps if (s["type"] == "routing") == between) for between in (False, True))
    return {
        **_used(unit, {cell: of["used"] for cell, of in report["utilization"].items()}),
        "by_seed": {str(seed): mhz for seed, (mhz, *_) in found.items()},
        "logic_ns": round(logic, 2), "way_ns": round(way, 2), "first_ns": round(steps[0]["delay"], 2),
        "start": _signal(steps[0]["from"]["cell"]), "end": _signal(steps[-1]["to"]["cell"]),
        "where": _where(cells), "tools": tools, "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def _signal(name: str) -> str:
    """Return what a cell or net is called in the circuit: ``inner.reader.buffer[6]_TRELLIS_FF_Q`` is reader.buffer.

    A cell of a look-up table has the name of a signal that it feeds or is fed by.
    """
    inner = name.removeprefix(f"{_INNER}.")
    made = re.match(r"[A-Za-z][\w.]*?(?=_(TRELLIS|LUT4|CCU2C|PFUMX|L6MUX|DP16|MULT18)|\[|\$|\.\d|$)", inner)
    return made[0] if made else ""


def _where(cells: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[list[int]]]]:
    """Return where cells lie: the number of each kind in each place of the grid, by unit of the circuit."""
    found: Counter[tuple[str, str, int, int]] = Counter()
    for name, cell in cells.items():
        at = re.match(r"X(\d+)/Y(\d+)/", cell["attributes"].get("NEXTPNR_BEL", ""))
        inside = name.startswith(f"{_INNER}.")
        if at and (kind := _CELLS.get(cell["type"], ("",))[0]) and (inside or kind != "registers"):
            unit = re.match(rf"{_INNER}\.(\w+)\.\D", name)
            found[unit[1] if unit else "", kind, int(at[1]), int(at[2])] += 1
    result: dict[str, dict[str, list[list[int]]]] = {}
    for (unit, kind, x, y), count in sorted(found.items()):
        result.setdefault(unit, {}).setdefault(kind, []).append([x, y, count])
    return result
