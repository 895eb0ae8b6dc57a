"""Exercises of notebook 08, build_a_circuit: a unit that clips, a fault among cycles, a register in a loop."""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np

from labcourse.exercise_data import compared
from labcourse.grading import Wrong, shows
from labcourse.student_code import call
from labkit.timeline.run import CYCLE_NS
from labkit.timeline.timeline import Timeline

#: Look-up tables and registers that a unit which clips may take: with comparisons it takes about twenty of the first.
_MOST_CELLS, _MOST_REGISTERS = 30, 9
#: How often producer and consumer rest in a check.
_NEVER, _OFTEN = (0.0, 0.0), (0.4, 0.3)
#: The bits of a value on each side, and whether one is a sign.
_BITS = {"input": (10, True), "output": (8, False)}


def _answers(circuit: Any, values: tuple, rests: tuple[float, float]) -> tuple[int, ...]:
    """Return what comes out of the student's circuit."""
    return tuple(_simulated(circuit, values, rests).outputs.tolist())


def _simulated(circuit: Any, values: tuple, rests: tuple[float, float]) -> Any:
    from amaranth.hdl import Value

    from labextras.offload import hardware

    unit = call(circuit)
    if not callable(getattr(unit, "elaborate", None)):
        raise Wrong(f"pass the class of the circuit, not what gives {type(unit).__name__} {unit!r:.40}")
    if unit.elaborate(None) is None:
        raise NotImplementedError
    ports = {side: getattr(unit, side) for side in _BITS if hasattr(unit, side)}  # without one, nothing simulates
    found = {side: Value.cast(port.payload).shape() for side, port in ports.items() if hasattr(port, "payload")}
    if other := {side: shape for side, shape in found.items() if (shape.width, shape.signed) != _BITS[side]}:
        raise Wrong(f"leave the ports as they were: {', '.join(f'{side} is {shape}' for side, shape in other.items())}")
    try:
        return hardware.simulate(call(circuit), np.array(values), rest=rests[0], pause=rests[1], seed=8)
    except hardware.NeverAnswers as error:
        raise Wrong(f"{error}: input.ready is 1 where the register is free, output.valid where it is full") from None


def _registered_and_small(circuit: Any, *case: Any) -> None:
    """Refuse a circuit without a register on its way, and one that takes too much, where Yosys is there to count."""
    made = _simulated(circuit, *case)
    enters, leaves = (sorted(_when(made, lane, "moves")) for lane in ("input", "consumer"))
    if same := [cycle for cycle, left in zip(enters, leaves, strict=True) if left <= cycle]:
        raise Wrong(
            f"no register is between input and output: what comes in in cycle {same[0]} leaves in that cycle; let "
            "output.valid and output.payload be registers (m.d.sync), which change at the next tick"
        )
    lanes = {lane.name for lane in Timeline(made.trace).lanes} - {"input", "consumer"}
    empty = frozenset.intersection(*(_when(made, lane, "starved") for lane in lanes))
    if vain := sorted(empty & _when(made, "input", "blocked")):
        raise Wrong(f"right, but in cycle {vain[0]} a value waits, and the register is empty: input.ready is 1 there")
    if (used := _used(circuit)) is None:
        return
    for kind, most in (("cells", _MOST_CELLS), ("registers", _MOST_REGISTERS)):
        if used[kind] > most:
            raise Wrong(f"right, but it takes {used[kind]} {kind}, and {most} are enough: eight bits and one for valid")


@functools.lru_cache(maxsize=4)
def _used(circuit: Any) -> dict[str, int] | None:
    """Return how many cells the student's circuit takes; None where the tools are missing."""
    from labextras.offload import hardware

    try:
        return hardware.synthesise(call(circuit))
    except hardware.ToolError:
        return None


def _not_clipped(got: tuple, right: tuple, case: tuple, every: Any) -> str:
    values, (rest, _) = case
    who = "a consumer that rests now and then" if rest else "a consumer that never rests"
    if len(got) != len(right):
        words = "take a value only where the register is free, and give each one once"
        return f"{len(got)} values come out of {len(right)} with {who}: {words}"
    at = next(k for k, pair in enumerate(zip(got, right, strict=True)) if pair[0] != pair[1])
    return f"with {who}, {values[at]} becomes {got[at]}, expected {right[at]}"


_EDGES = (-512, -300, -256, -255, -1, 0, 1, 100, 254, 255, 256, 257, 300, 510, 511)
_MANY = tuple(np.random.default_rng(8).integers(-512, 512, 80).tolist())


@compared("08.1", (_EDGES, _NEVER), (_MANY, _OFTEN), read=_answers, differs=_not_clipped, then=_registered_and_small)
def clip_circuit(values: tuple, rests: tuple[float, float]) -> Any:
    """``Clip``: a stream of signed numbers of ten bits, each clipped to 0 to 255."""
    number = np.array(values)
    exchanged = np.where(number < 0, 255, np.where(number > 255, 0, number))

    def made(result: np.ndarray) -> tuple[int, ...]:
        return tuple((result & 255).tolist())

    return made(number.clip(0, 255)), {
        "nothing is clipped: the lower eight bits alone wrap around": made(number),
        "what is above 255 wraps around: choose 255 there": made(np.maximum(number, 0)),
        "what is below 0 wraps around: choose 0 there": made(np.minimum(number, 255)),
        "below 0 becomes 255 and above 255 becomes 0: the two are exchanged": made(exchanged),
    }


@shows("08.1")
def cycles_of_the_clip(circuit: Any) -> Any:
    """Draw the student's circuit cycle by cycle, beside a consumer that rests."""
    from labkit.views.widget import show

    trace, used = _simulated(circuit, _EDGES, _OFTEN).trace, _used(circuit)
    counted = "cells not counted (Yosys is not installed)" if used is None else f"{used['cells']} cells"
    return show(trace, title=f"your Clip · {counted}")


#: What the notebook simulates: 24 bytes, a producer and a consumer that rest.
FAULT = {"delta": 100, "rest": 0.3, "pause": 0.3, "seed": 3}


def _cycles(answer: Any) -> frozenset[int]:
    """Return the numbers of cycles that the student names."""
    if isinstance(answer, (str, bytes)) or not hasattr(answer, "__iter__"):
        raise Wrong(f"give a list of numbers of cycles, not {type(answer).__name__} {answer!r:.40}")
    if not (given := list(answer)):
        raise NotImplementedError
    if wrong := [one for one in given if isinstance(one, bool) or not isinstance(one, numbers.Integral)]:
        raise Wrong(f"the numbers of cycles are whole numbers, not {wrong[0]!r:.40}")
    return frozenset(map(int, given))


def _other_cycles(got: frozenset, right: frozenset, case: tuple, every: Any) -> str:
    missed, more = sorted(right - got), sorted(got - right)
    words = [f"{len(missed)} cycles more lose a value"] if missed else []
    words += [f"in cycle {more[0]} nothing is lost"] if more else []
    return f"{' and '.join(words)}: look where the input moves while the output is blocked"


@compared("08.2", (), read=_cycles, differs=_other_cycles)
def lost_values() -> Any:
    """``lost_in``: the cycles in which the faulty circuit loses a value."""
    made = _faulty()
    moves, blocked = _when(made, "input", "moves"), _when(made, "faulty brighten", "blocked")
    lost = moves & blocked
    return lost, {
        "blocked alone loses nothing: in some of these cycles no value comes in": blocked,
        "cycles are counted from 0": frozenset(k + 1 for k in lost),
        "those are the values; the numbers of the cycles are on the axis": frozenset(range(24))
        - {value - FAULT["delta"] for value in made.outputs.tolist()},
    }


@functools.cache
def _faulty() -> Any:
    from labextras.offload import hardware

    return hardware.simulate(hardware.circuit("faulty brighten"), np.arange(24), **FAULT)


def _when(made: Any, stream: str, state: str) -> frozenset[int]:
    """Return the cycles in which a stream is blocked, or moves a value."""
    timeline = Timeline(made.trace)
    (lane,) = (lane for lane in timeline.lanes if lane.name == stream)
    found: set[int] = set()
    for start, end, code in zip(lane.start_ns.tolist(), lane.end_ns.tolist(), lane.name_id.tolist(), strict=True):
        name = timeline.names[code]
        if name == state or (state == "moves" and name.lstrip("-").isdigit()):
            found.update(range(start // CYCLE_NS, end // CYCLE_NS))
    return frozenset(found)


def _pair(answer: Any) -> tuple[str, float]:
    if not isinstance(answer, (tuple, list)) or len(answer) != 2 or isinstance(answer[1], (bool, str)):
        raise Wrong(f"give a pair, such as ('reader block', -3.5), not {answer!r:.60}")
    choice, gain = answer
    if choice not in (rows := list(_rates())):
        raise Wrong(f"there is no row {choice!r:.40}; allowed: {', '.join(map(repr, rows))}")
    if not isinstance(gain, numbers.Real):
        raise Wrong(f"the gain is a number of million codes per second, not {gain!r:.40}")
    return choice, float(gain)


def _same_choice(mine: tuple[str, float], other: tuple[str, float]) -> bool:
    return mine[0] == other[0] and abs(mine[1] - other[1]) <= 0.5


def _other_register(mine: tuple[str, float], right: tuple[str, float], case: tuple, every: Any) -> str:
    """Return which half of the pair is wrong, and the way to it; never the answer."""
    if mine[0] != right[0]:
        return f"{mine[0]!r} does not read the most codes per second: divide the clock of each row by its interval"
    way = "take the codes per second of the best row with one more register, less those of 'reader block'"
    return f"the row is right, the gain {mine[1]:g} is not: {way}"


@functools.cache
def _rates() -> dict[str, tuple[float, int]]:
    """Return clock and interval of the readers with block memory; the first has no further register."""
    from labextras.offload import hardware

    names = (name for name in hardware.CIRCUITS if name.startswith("reader block"))
    return {name: (hardware.place(name).mhz, hardware.CIRCUITS[name].interval) for name in names}


@compared("08.3", (), read=_pair, same=_same_choice, differs=_other_register)
def best_register() -> Any:
    """``register``: the fastest reader, and the million codes per second that the best register gains."""
    rate = {name: clock / interval for name, (clock, interval) in _rates().items()}
    plain, *others = (clock for clock, _ in _rates().values())
    unit, *units = rate.values()
    best, more, gain = max(rate, key=rate.__getitem__), max(others) - plain, max(units) - unit
    return (best, gain), {
        "that is the gain in MHz; a clock with an interval of 3 reads a code in every third cycle": (best, more),
        "the interval is 3 with a register, and 2 without": (best, more / 2),
        "divide each clock by its own interval before you take the difference": (best, more / 3),
        "the gain is what the register adds: with it less without it": (best, -gain),
    }
