"""brighten: adds one number to every byte of a stream, and clips.

Formula    output = min(max(input + delta, 0), 255)

port     direction  width             meaning
input    in         8, valid, ready   0..255
output   out        8, valid, ready   0..255
delta    in         9, signed         -256..255, the same while bytes pass

Cycles     interval 1: a byte in every cycle; latency 1, for one register.
Limit      between two registers lie the adder, two comparisons and the choice; nothing runs in a loop.
"""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Brighten(wiring.Component):
    """Adds `delta` and clips, a byte a cycle."""

    input: In(stream.Signature(8))
    output: Out(stream.Signature(8))
    delta: In(signed(9))

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        free = Signal()  # the register holds nothing, or what it holds moves on in this cycle
        total = Signal(signed(10))  # -256..510
        m.d.comb += [
            free.eq(~self.output.valid | self.output.ready),
            self.input.ready.eq(free),
            total.eq(self.input.payload + self.delta),
        ]
        with m.If(free):
            m.d.sync += self.output.valid.eq(self.input.valid)
            m.d.sync += self.output.payload.eq(Mux(total < 0, 0, Mux(total > 255, 255, total)))
        return m
