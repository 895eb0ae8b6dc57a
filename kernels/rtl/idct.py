"""idct: inverse DCT of 8x8 blocks; a column of coefficients in, a row of pixels out, in every cycle.

Formula    x = round(C' X C) + 128, clamped to 0..255, C the 8-point DCT matrix: the arithmetic of kernels/jpeg_idct.cl
           and of libjpeg's jidctint (Loeffler, Ligtenberg, Moschytz 1989), bit for bit. Constants have 13 bits behind
           the point; columns first, 2 extra bits kept; then rows. Where 16 bits overflow, results wrap and saturate as
           in libjpeg-turbo's vector code, whose short cut for blocks with a mean alone is not here: such a block
           differs where its mean is beyond 13 bits, which no encoder writes.

port     direction  width                        meaning
input    in         8 x 16, signed, valid, ready  a column of dequantised coefficients, from above; the left one first
output   out        8 x 8, valid, ready           a row of pixels, 0..255, left to right; the upper one first

Cycles     interval 1 a column, so 8 a block; latency 22: 7 stages, 8 columns until a block is whole, 7 stages.
Limit      a multiplier between two registers. There are 24; most registers are those of the 14 stages.
"""

import numpy as np
from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

COLUMN = data.ArrayLayout(signed(16), 8)
ROW = data.ArrayLayout(8, 8)


def columns(blocks):
    """Return the columns of blocks, (n, 8, 8), in the order in which the circuit takes them: int16, (8 n, 8)."""
    return np.asarray(blocks, np.int16).transpose(0, 2, 1).reshape(-1, 8)


def clipped(value, low, high):
    """Return a value within two limits."""
    return Mux(value < low, low, Mux(value > high, high, value))


class Transform(wiring.Component):
    """Eight values a cycle, transformed; `shift` bits leave, `offset` is added, and the result is clipped."""

    def __init__(self, shift, offset, low, high, result):
        self.shift, self.offset, self.low, self.high = shift, offset, low, high
        super().__init__({"input": In(stream.Signature(COLUMN)), "output": Out(stream.Signature(result))})

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        stages = []
        free = Signal()  # all stages move on together, or none does
        m.d.comb += [free.eq(~self.output.valid | self.output.ready), self.input.ready.eq(free)]

        def stage(*values):
            stages.append(values)
            name = f"stage{len(stages)}"
            copies = [Signal(Value.cast(value).shape(), name=name, reset_less=True) for value in values]
            with m.If(free):
                m.d.sync += [copy.eq(value) for copy, value in zip(copies, values, strict=True)]
            return copies

        def wrapped(value):
            return value[:16].as_signed()

        def fixed(number):
            return round(number * (1 << 13))

        v0, v1, v2, v3, v4, v5, v6, v7 = self.input.payload
        sums = wrapped(v0 + v4), wrapped(v0 - v4), wrapped(v7 + v3), wrapped(v5 + v1)
        v1, v2, v3, v5, v6, v7, e0, e1, z3, z4 = stage(v1, v2, v3, v5, v6, v7, *sums)
        v1, v2, v3, v5, v6, v7, e0, e1, z3, z4, v26, v71, v53, z5 = stage(
            v1, v2, v3, v5, v6, v7, e0, e1, z3, z4, v2 + v6, v7 + v1, v5 + v3, z3 + z4
        )
        e0, e1, v26, v2, v6, z5, z3, z4, v71, v53, t0, t1, t2, t3 = stage(
            e0, e1, v26 * fixed(0.541196100), v2 * fixed(0.765366865), v6 * -fixed(1.847759065),
            z5 * fixed(1.175875602), z3 * -fixed(1.961570560), z4 * -fixed(0.390180644),
            v71 * -fixed(0.899976223), v53 * -fixed(2.562915447),
            v7 * fixed(0.298631336), v5 * fixed(2.053119869), v3 * fixed(3.072711026), v1 * fixed(1.501321110),
        )  # fmt: skip
        half = (self.offset << self.shift) + (1 << self.shift - 1)  # what rounds, and the offset
        e0, e1, e2, e3, t0, t1, t2, t3, z3, z4 = stage(
            (e0 << 13) + half, (e1 << 13) + half, v26 + v6, v26 + v2,
            t0 + v71, t1 + v53, t2 + v53, t3 + v71, z3 + z5, z4 + z5,
        )  # fmt: skip
        s0, s1, s2, s3, t0, t1, t2, t3 = stage(e0 + e3, e1 + e2, e1 - e2, e0 - e3, t0 + z3, t1 + z4, t2 + z3, t3 + z4)
        totals = stage(s0 + t3, s1 + t2, s2 + t1, s3 + t0, s3 - t0, s2 - t1, s1 - t2, s0 - t3)
        done = stage(*(clipped(total >> self.shift, self.low, self.high) for total in totals))
        m.d.comb += [out.eq(value) for out, value in zip(self.output.payload, done, strict=True)]

        valid = self.input.valid
        for _ in range(7):  # beside each value travels a bit that says whether it is one
            (valid,) = stage(valid)
        m.d.comb += self.output.valid.eq(valid)
        return m


class Transpose(wiring.Component):
    """8 x 8 registers, filled from the right and, for the next block, from below: columns become rows."""

    input: In(stream.Signature(COLUMN))
    output: Out(stream.Signature(COLUMN))

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        cells = [[Signal(signed(16), name=f"cell_{y}{x}", reset_less=True) for x in range(8)] for y in range(8)]
        count = Signal(3)  # vectors that came in this turn
        up = Signal()  # they come from below
        held = Signal()  # an earlier block waits to go
        busy = Signal()  # the turn has begun
        new = Signal()  # it brings a block
        bring = Signal()
        push = Signal()
        m.d.comb += [
            bring.eq(Mux(busy, new, self.input.valid)),
            push.eq(Mux(bring, self.input.valid, held) & (~held | self.output.ready)),
            self.input.ready.eq(bring & (~held | self.output.ready)),
            self.output.valid.eq(held & (~bring | self.input.valid)),
        ]
        m.d.comb += [self.output.payload[i].eq(Mux(up, cells[0][i], cells[i][0])) for i in range(8)]
        with m.If(push):
            m.d.sync += [count.eq(count + 1), busy.eq(count != 7), new.eq(bring)]
            with m.If(count == 7):
                m.d.sync += [held.eq(bring), up.eq(~up)]
            for y in range(8):
                for x in range(8):
                    below = cells[y + 1][x] if y < 7 else self.input.payload[x]
                    right = cells[y][x + 1] if x < 7 else self.input.payload[y]
                    m.d.sync += cells[y][x].eq(Mux(up, below, right))
        return m


class Idct(wiring.Component):
    """Columns of coefficients become rows of pixels."""

    input: In(stream.Signature(COLUMN))
    output: Out(stream.Signature(ROW))

    def __init__(self):
        self.columns, self.transpose = Transform(11, 0, -(1 << 15), (1 << 15) - 1, COLUMN), Transpose()
        self.rows = Transform(18, 128, 0, 255, ROW)
        super().__init__()

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        m.submodules.columns, m.submodules.transpose, m.submodules.rows = self.columns, self.transpose, self.rows
        wiring.connect(m, wiring.flipped(self.input), self.columns.input)
        wiring.connect(m, self.columns.output, self.transpose.input)
        wiring.connect(m, self.transpose.output, self.rows.input)
        wiring.connect(m, self.rows.output, wiring.flipped(self.output))
        return m
