"""Simulate a circuit cycle by cycle: what comes out, and what every stream of it did in each cycle.

A stream moves a value in a cycle in which ``valid`` and ``ready`` are 1; it is *blocked* while the value waits for
``ready``, and *starved* while there is no value. The trace has a lane for the stream into the circuit, one for each
stream that a unit of it gives, and the consumer on top. A cycle is a unit of time of its own (`labkit.timeline.run`).
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import count, groupby
from typing import Any, NamedTuple

import numpy as np

from labkit.common.numbers import check_names, number, whole
from labkit.timeline.run import CYCLE_NS
from labkit.timeline.trace import Span, Trace
from labkit.timeline.wording import BLOCKED, percent

# A circuit that is made and not simulated, as one with a wrong input, would be reported whenever Python tidies up.
warnings.filterwarnings("ignore", message=".*created but never used")

#: A circuit that has taken everything has given everything when nothing has moved for so many cycles.
QUIET = 64

#: What a stream does in a cycle, by valid and ready.
_STATES = {(1, 1): "moves", (1, 0): BLOCKED, (0, 0): "starved", (0, 1): "starved"}

#: The categories of its spans.
_UNIT = {"moves": "map", BLOCKED: "iterator", "starved": "iterator"}
_CONSUMER = {"moves": "train", "starved": "wait", "rests": "iterator"}

Rest = float | Collection[int]


class NeverAnswers(RuntimeError):
    """Nothing has moved in the circuit for too many cycles."""


class SimulatedCircuit(NamedTuple):
    """What a circuit gave, and when.

    Parameters
    ----------
    outputs : ndarray, shape (n,) or (n, values)
        What the consumer took, in its order.
    trace : Trace
    """

    outputs: np.ndarray
    trace: Trace

    @property
    def cycles(self) -> int:
        """Cycles from the first offer to the last value taken."""
        return self.trace.span_ns // CYCLE_NS


def simulate(
    unit: Any, inputs: Any, *, rest: Rest = 0.0, pause: Rest = 0.0, limit: int = 1000, seed: int = 0, **ports: int
) -> SimulatedCircuit:
    """Simulate a circuit that has a stream ``input`` and a stream ``output``.

    Parameters
    ----------
    unit : amaranth.lib.wiring.Component
    inputs : array of int, shape (n,), or (n, values) where the payload is an array
        What goes in, a row a value.
    rest, pause : float or collection of int
        When the consumer does not take, and when the producer has nothing: the share of the cycles, drawn at random, or
        the numbers of the cycles.
    limit : int
        After so many cycles in which nothing moves, although something should, the simulation ends with an error.
    seed : int
        Of the random rests.
    **ports : int
        What other ports of the circuit are held at, such as ``delta=40``.

    Returns
    -------
    SimulatedCircuit
        ``outputs, trace = simulate(...)``. It ends when all inputs are taken and nothing moves any more.

    Raises
    ------
    ValueError
        If the circuit lacks a stream, or inputs, ports or rests are not what it takes; the sentence says what is.
    NeverAnswers
        See `limit`.
    """
    from amaranth.hdl import ClockDomain, Module
    from amaranth.sim import Simulator

    limit, name = whole("limit", limit, 1, 1_000_000), name_of(unit)
    takes, gives = (_Stream(unit, side, name) for side in ("input", "output"))
    netlist(unit)  # what depends on itself within a cycle would be simulated for ever
    values = takes.checked(inputs)
    free = {key: port.shape for key, port in unit.signature.members.items() if port.is_port and port.flow.name == "In"}
    check_names(f"port of {name}", ports, free)
    held = [(getattr(unit, key), whole(key, value, *_range(free[key]))) for key, value in ports.items()]
    dice = random.Random(seed)
    rests, pauses = _chosen("rest", rest, dice), _chosen("pause", pause, dice)
    stages = {"input": takes, **{lane: _Stream(part, "output", lane) for lane, part in _parts(unit, name)}}
    seen: list[list[tuple[str, int]]] = [[] for _ in (*stages, "consumer")]

    async def drive(ctx: Any) -> None:
        for port, value in held:
            ctx.set(port, value)
        sent, given, offers, still, last = 0, 0, False, 0, 0
        for cycle in count():
            offers = offers or (sent < len(values) and not pauses(cycle))
            ctx.set(takes.valid, offers)
            if offers:
                ctx.set(takes.payload, values[sent])
            ready = not rests(cycle)
            ctx.set(gives.ready, ready)
            for lane, stream in zip(seen, stages.values(), strict=False):
                lane.append((_STATES[ctx.get(stream.valid), ctx.get(stream.ready)], ctx.get(stream.payload)))
            state, value = (ctx.get(gives.valid), ctx.get(gives.payload)) if ready else (0, 0)
            seen[-1].append(("moves" if state else "starved" if ready else "rests", value))
            moved = [lane[-1][0] == "moves" for lane in seen]
            if moved[0]:
                sent, offers, last = sent + 1, False, cycle
            given += moved[-1]
            done = sent == len(values)
            still = 0 if any(moved) else still + (ready and (offers or done))
            if done and given and still >= QUIET:
                return
            if still >= limit or cycle - last > 10 * limit:
                what = f"nothing moved in {limit:,}" if still else f"values came for {10 * limit:,}"
                took = f"{name} took {sent:,} of {len(values):,} values and gave {given:,}"
                raise NeverAnswers(f"{took}; then {what} cycles")
            await ctx.tick()

    bench = Module()
    bench.submodules.unit = unit
    bench.domains.sync = ClockDomain()  # a circuit without a register has a clock here, too
    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    trace = _trace(name, [*stages, "consumer"], seen, [*stages.values(), gives])
    return SimulatedCircuit(gives.array([value for state, value in seen[-1] if state == "moves"]), trace)


def netlist(unit: Any) -> str:
    """Return a circuit as RTLIL, the text that Yosys reads, without the lines of the source.

    Raises
    ------
    NeverAnswers
        If signals depend on themselves within a cycle.
    """
    from amaranth.back import rtlil
    from amaranth.hdl._nir import CombinationalCycle

    try:
        return rtlil.convert(unit, name="top", emit_src=False)
    except CombinationalCycle as error:
        signals = ", ".join(dict.fromkeys(re.findall(r"signal (\w+)", str(error))))
        raise NeverAnswers(f"{name_of(unit)} never settles: within one cycle, {signals} depend on themselves") from None


def name_of(unit: Any) -> str:
    """Return what a circuit is called: the words of its class, ``faulty brighten``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(unit).__name__).lower()


def _parts(unit: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the innermost circuits that give a stream, with their names, in the order of the attributes."""
    from amaranth.lib.wiring import Component

    if not (parts := {key: part for key, part in vars(unit).items() if isinstance(part, Component)}):
        if "output" in unit.signature.members:
            yield name, unit
    for key, part in parts.items():
        yield from _parts(part, key)


class _Stream:
    """A stream of a circuit, and what its values may be."""

    def __init__(self, unit: Any, side: str, name: str) -> None:
        from amaranth.hdl import Value
        from amaranth.lib import data, stream, wiring

        flow = {"input": wiring.In, "output": wiring.Out}[side]
        member = unit.signature.members.get(side) if isinstance(unit, wiring.Component) else None
        if member is None or member.flow != flow or not isinstance(member.signature, stream.Signature):
            allowed = f"a circuit with {side}: {flow.name}(stream.Signature(…))"
            raise ValueError(f"{name} has no stream {side!r}; allowed: {allowed}")
        port = getattr(unit, side)
        shape = port.payload.shape()
        self.row = (shape.length,) if isinstance(shape, data.ArrayLayout) else ()
        self.name, self.valid, self.ready = f"{side} of {name}", port.valid, port.ready
        self.payload = port.payload if self.row else Value.cast(port.payload)
        self.range = _range(shape.elem_shape if self.row else shape)

    def checked(self, given: Any) -> list[Any]:
        """Return values as Amaranth takes them, a number or a list each; see `simulate` for what is refused."""
        values = np.asarray(given)
        shape = f"(n, {self.row[0]})" if self.row else "(n,)"
        if values.dtype.kind not in "iu" or values.shape[1:] != self.row or not values.size:
            what = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"the {self.name} was given {what}; allowed: whole numbers of shape {shape}, n above 0")
        low, high = self.range
        wrong = values[(values < low) | (values > high)]
        if wrong.size:
            raise ValueError(f"the {self.name} was given {wrong[0]}; allowed: {low} to {high}")
        return values.tolist()

    def array(self, values: list[Any]) -> np.ndarray:
        """Return what Amaranth gave, (n,) or (n, values), in the smallest dtype that holds it."""
        rows = [[value[k] for k in range(*self.row)] for value in values] if self.row else values
        return np.array(rows, np.min_scalar_type(self.range[0] or self.range[1])).reshape(-1, *self.row)


def _range(shape: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of a shape of Amaranth."""
    from amaranth.hdl import Shape

    bits = Shape.cast(shape)
    low = -(1 << bits.width - 1) if bits.signed else 0
    return low, low + (1 << bits.width) - 1


def _chosen(name: str, given: Rest, dice: random.Random) -> Callable[[int], bool]:
    """Return the function that says whether a cycle is one of those that were asked for."""
    if isinstance(given, Collection) and not isinstance(given, str):
        return frozenset(given).__contains__
    share = number(name, given, 0, 0.95, other="(a share of the cycles), or the numbers of cycles")
    return lambda _: bool(share) and dice.random() < share


def _trace(name: str, lanes: list[str], seen: list[list[tuple[str, int]]], streams: list[_Stream]) -> Trace:
    """Return what each stream did as spans: a value that moves is one, and so is a wait, however long."""
    cycles = 1 + max(cycle for cycle, (state, _) in enumerate(seen[-1]) if state == "moves")
    spans = []
    for lane, states, stream in zip(lanes, seen, streams, strict=True):
        kinds = _CONSUMER if lane == "consumer" else _UNIT
        at, moved = 0, 0
        for state, run in groupby(states[:cycles], key=lambda each: each[0]):
            values = [value for _, value in run]
            for value, length in [(value, 1) for value in values] if state == "moves" else [(0, len(values))]:
                text = str(value) if state == "moves" and not stream.row else state
                spans.append(Span(lane, text, kinds[state], at * CYCLE_NS, length * CYCLE_NS, moved))
                at, moved = at + length, moved + (state == "moves")
    kinds = {lane: "unit" for lane in reversed(lanes[:-1])}
    last = Counter(state for state, _ in seen[-2][:cycles])
    moves, waits, starved = (percent(last[state] / cycles, digits=0) for state in _UNIT)
    summary = f"{lanes[-2]} moves a value in {moves} of {cycles:,} cycles, is blocked in {waits}, starved in {starved}"
    return Trace.from_spans(
        spans, {"consumer": "consumer", **kinds}, origin="simulated", name=name, time_unit="cycle", summary=summary,
        window_ns=(0, cycles * CYCLE_NS),
    )  # fmt: skip
