"""reader: bits of a prefix code become symbols; each code begins where the last one ended.

Formula    symbol, length = table[next 16 bits]; the next code begins `length` bits on. The code is the one that JPEG
           recommends for the AC values of luminance (ITU-T T.81, table K.5): 162 codes of 2 to 16 bits. In a JPEG, bits
           of the values follow each code; here there are codes only. The first bit is bit 0 of the first word.

port     direction  width             meaning
input    in         16, valid, ready  the next 16 bits; see `encode`
output   out        8, valid, ready   the symbol. 1s only are no code: there the reader stops.

Cycles     interval 1 with the table in look-up tables (`memory="logic"`), 2 with the table in block memory, which
           answers one cycle later (`memory="block"`, 2 of 18 Kbit); `register` puts one more register into the loop,
           and adds 1.
Limit      a loop: buffer, table, length, shift, buffer. The next turn needs what this one finds, so that the whole loop
           lies between two registers, or takes more cycles: a register shortens the path and lengthens the interval.
"""

import functools

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

#: How many codes there are of 1 to 16 bits, and their symbols: the more frequent, the shorter.
COUNTS = 0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125
SYMBOLS = bytes.fromhex(
    "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a34353637"
    "38393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3"
    "a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"
)
PLACES = "before table", "after table", "after shift"


@functools.cache
def codes():
    """Return the code of each symbol as a text of 0s and 1s: codes of one length count up, each length goes on."""
    found, code, symbols = {}, 0, iter(SYMBOLS)
    for length, count in enumerate(COUNTS, 1):
        for _ in range(count):
            found[next(symbols)], code = f"{code:0{length}b}", code + 1
        code *= 2
    return found


def table():
    """Return 2,048 rows, symbol + 256 * length: by the first 10 bits, or behind six 1s by the next 10."""
    rows = [0] * 2048
    for symbol, code in codes().items():
        start, bits = (1024, code[6:]) if code.startswith("111111") else (0, code)
        for rest in range(1 << 10 - len(bits)):
            rows[start + (int(bits[::-1], 2) | rest << len(bits))] = symbol | len(code) << 8
    return rows


def encode(symbols):
    """Return the words that hold these symbols, uint16, shape (n,); 1s fill the last two, so that all can be read."""
    known = codes()
    bits = "".join(known[int(symbol)] for symbol in symbols)
    bits = np.frombuffer(bits.ljust(-len(bits) // 16 * -16 + 16, "1").encode(), np.uint8) - ord("0")
    return np.packbits(bits, bitorder="little").view("<u2")


class Reader(wiring.Component):
    """Reads one code a turn; `memory` says where the table is, `register` where one more register is, if anywhere."""

    def __init__(self, memory="logic", register=None):
        if memory not in ("logic", "block") or register not in (None, *PLACES):
            raise ValueError(
                f"memory is {memory!r} and register {register!r}; allowed: 'logic' or 'block'; None{PLACES}"
            )
        self.memory, self.register = memory, register
        self.interval = 1 + (memory == "block") + (register is not None)
        super().__init__({"input": In(stream.Signature(16)), "output": Out(stream.Signature(8))})

    def elaborate(self, platform):
        """Return the circuit."""
        m = Module()
        buffer = Signal(48)  # bits that were not read yet
        held = Signal(range(49))  # their number
        turn = Signal(range(self.interval + 1))
        free = Signal()
        full = Signal()
        step = Signal()

        def at(place, value):
            if place != self.register:
                return value
            copy = Signal.like(value, name="register")
            m.d.sync += copy.eq(value)
            return copy

        # Where the next code ends.
        index = Signal(11)
        m.d.comb += index.eq(Mux(buffer[:6].all(), Cat(buffer[6:16], 1), buffer[:10]))
        m.submodules.rows = rows = Memory(shape=13, depth=2048, init=table(), attrs={"ram_style": self.memory})
        port = rows.read_port(domain="comb" if self.memory == "logic" else "sync")
        m.d.comb += port.addr.eq(at("before table", index))
        entry = at("after table", port.data)
        symbol, length = entry[:8], entry[8:]
        after = at("after shift", Cat((buffer >> length)[:48], (held - length)[:6]))

        # A step takes `interval` cycles, and none is made while the output is occupied.
        m.d.comb += [
            free.eq(~self.output.valid | self.output.ready),
            full.eq(held >= 16),
            step.eq(full & free & (turn == self.interval - 1)),
            self.input.ready.eq((step | ~full) & (held <= 32)),
        ]
        with m.If(step | ~full):
            m.d.sync += turn.eq(0)
        with m.Elif(turn != self.interval - 1):
            m.d.sync += turn.eq(turn + 1)
        with m.If(free):
            m.d.sync += [self.output.valid.eq(step & (length != 0)), self.output.payload.eq(symbol)]

        # What was read leaves the buffer, and the next word comes behind the rest.
        rest = Signal(48)
        left = Signal(6)
        m.d.comb += Cat(rest, left).eq(Mux(step, after, Cat(buffer, held)))
        with m.If(self.input.valid & self.input.ready):
            m.d.sync += [buffer.eq(rest | (self.input.payload << left)), held.eq(left + 16)]
        with m.Else():
            m.d.sync += [buffer.eq(rest), held.eq(left)]
        return m
