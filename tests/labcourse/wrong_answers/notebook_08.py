"""Right shape, wrong idea: what students hand in for notebook 08, and a word of the hint that must come back."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from clip_circuit import Clip

from labextras.offload import hardware


def clip(*, ready=None, choose=lambda v: Mux(v < 0, 0, Mux(v > 255, 255, v)), bits=10, late=False):
    """Return a class of circuits that clip; `ready` of the free register says what the input is told."""

    class Unit(wiring.Component):
        input: In(stream.Signature(signed(bits)))
        output: Out(stream.Signature(8))

        def elaborate(self, platform):
            m = Module()
            free = Signal()
            m.d.comb += [free.eq(self.output.ready if late else ~self.output.valid | self.output.ready)]
            m.d.comb += [self.input.ready.eq(free if ready is None else ready)]
            with m.If(free):
                m.d.sync += [self.output.valid.eq(self.input.valid), self.output.payload.eq(choose(self.input.payload))]
            return m

    return Unit


class Unregistered(wiring.Component):
    """It clips within the cycle while a register of its own is empty."""

    input: In(stream.Signature(signed(10)))
    output: Out(stream.Signature(8))

    def elaborate(self, platform):
        m = Module()
        value = self.input.payload
        clipped = Mux(value < 0, 0, Mux(value > 255, 255, value))
        kept, full = Signal(8), Signal()
        m.d.comb += [self.output.valid.eq(full | self.input.valid), self.output.payload.eq(clipped)]
        m.d.comb += self.input.ready.eq(~full)
        with m.If(full):
            m.d.comb += self.output.payload.eq(kept)
            m.d.sync += full.eq(~self.output.ready)
        with m.Elif(self.input.valid & ~self.output.ready):
            m.d.sync += [kept.eq(clipped), full.eq(1)]
        return m


class Plain:
    """No circuit."""


BEST = "reader block after table"
GAIN = hardware.place(BEST).mhz / 3 - hardware.place("reader block").mhz / 2

WRONG = {
    "08.1": [
        (clip(ready=1), "values come out of 80 with a consumer that rests now and then"),
        (clip(ready=0), "input.ready is 1 where the register is free"),
        (clip(choose=lambda v: Mux(v < 0, 0, Mux(v > 254, 255, v + 1))), "becomes 1, expected 0"),
        (Unregistered, "no register is between input and output"),
        (clip(bits=11), "leave the ports as they were: input is signed(11)"),
        (clip(late=True), "a value waits, and the register is empty"),
        (Plain, "pass the class of the circuit"),
        ("Clip", "pass the function itself"),
    ],
    "08.2": [
        ([2, 7, 10], "3 cycles more lose a value"),
        ([2, 7, 10, 12, 18, 20, 27], "in cycle 20 nothing"),
        ([2.5], "2.5"),
    ],
    "08.3": [
        (BEST, "give a pair"),
        ((BEST, 9), "the row is right, the gain 9 is not"),
        (("reader block", 0), "'reader block' does not read the most codes per second"),
        (("reader block", 46), "divide the clock of each row by its interval"),
        (("reader logic", GAIN), "there is no row 'reader logic'; allowed: 'reader block', "),
    ],
}

RIGHT = {
    "08.1": [clip(), Clip],
    "08.2": [[2, 7, 10, 12, 18, 27], {27, 18, 12, 10, 7, 2}],
    "08.3": [(BEST, GAIN), [BEST, round(GAIN)]],
}
