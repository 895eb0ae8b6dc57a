"""A right answer to exercise 08.1, for tests: a signed number of ten bits becomes a byte. No wheel holds it.

Formula    output = min(max(input, 0), 255)

port     direction  width                    meaning
input    in         10, signed, valid, ready  -512..511
output   out        8, valid, ready           0..255

Cycles     interval 1, latency 1.
Limit      next to nothing: two bits decide. Bit 9 is the sign: 0. Else bit 8 says "above 255": 255. A comparison would
           say the same; one look-up table a bit of the output is all that it takes.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Clip(wiring.Component):
    """Clips to 0..255, a number a cycle."""

    input: In(stream.Signature(signed(10)))
    output: Out(stream.Signature(8))

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        free = Signal()
        value = self.input.payload
        m.d.comb += [free.eq(~self.output.valid | self.output.ready), self.input.ready.eq(free)]
        with m.If(free):
            m.d.sync += self.output.valid.eq(self.input.valid)
            m.d.sync += self.output.payload.eq(Mux(value[9], 0, Mux(value[8], 255, value[:8])))
        return m
