"""joined: the reader, and behind it brighten: two units that work at the same time, joined by a stream.

Formula    output = min(max(symbol + delta, 0), 255) of the symbols of `reader`, taken as levels

port     direction  width             meaning
input    in         16, valid, ready  as reader
output   out        8, valid, ready   as brighten
delta    in         9, signed         as brighten

Cycles     the interval of the reader, 1 or 2; latency 1 more. What the consumer does not take stops first brighten,
           then the reader, then the words before it.
Limit      the reader: brighten could take a byte in every cycle, and faster cycles.
"""

from amaranth.hdl import Module, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .brighten import Brighten
from .reader import Reader


class Joined(wiring.Component):
    """Reads codes, and brightens what they stand for."""

    input: In(stream.Signature(16))
    output: Out(stream.Signature(8))
    delta: In(signed(9))

    def __init__(self, memory="logic"):
        self.reader, self.brighten = Reader(memory), Brighten()
        super().__init__()

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        m.submodules.reader, m.submodules.brighten = self.reader, self.brighten
        wiring.connect(m, wiring.flipped(self.input), self.reader.input)
        wiring.connect(m, self.reader.output, self.brighten.input)
        wiring.connect(m, self.brighten.output, wiring.flipped(self.output))
        m.d.comb += self.brighten.delta.eq(self.delta)
        return m
