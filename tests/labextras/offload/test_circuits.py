"""Circuits in Amaranth, simulated cycle by cycle: right wherever somebody rests, and as fast as their heads say."""

from __future__ import annotations

import io
import re

import jpeg_corpus as corpus
import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from clip_circuit import Clip
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labextras.offload import hardware, twins
from labextras.offload.hardware import CIRCUITS, NeverAnswers, circuit, module, simulate
from labextras.offload.jpeg import huffman
from labextras.offload.twins.baseline_jpeg import scan
from labkit.timeline.timeline import Timeline

rests = st.one_of(st.floats(0, 0.8), st.sets(st.integers(0, 60)))
few = settings(max_examples=6, deadline=None)
READERS = [name for name in CIRCUITS if name.startswith("reader")]
reader, idct = module("reader"), module("idct")


def brightened(levels, delta):
    return np.clip(np.asarray(levels, int) + delta, 0, 255)


def symbols(count, seed=0):
    """Draw symbols as often as their codes are short."""
    often = np.array([2.0 ** -len(code) for code in reader.codes().values()])
    return np.random.default_rng(seed).choice(np.frombuffer(reader.SYMBOLS, np.uint8), count, p=often / often.sum())


# -- brighten, clip, the fault --------------------------------------------------------------


@few
@given(st.lists(st.integers(0, 255), min_size=1, max_size=40), st.integers(-256, 255), rests, rests)
def test_brighten_is_its_formula_wherever_somebody_rests(levels, delta, rest, pause):
    found = simulate(circuit("brighten"), levels, delta=delta, rest=rest, pause=pause)
    assert found.outputs.dtype == np.uint8
    assert found.outputs.tolist() == brightened(levels, delta).tolist()


def test_clip_is_its_formula_for_all_that_it_takes():
    levels = np.arange(-512, 512)
    found = simulate(Clip(), levels, rest=0.2)
    assert found.outputs.tolist() == levels.clip(0, 255).tolist()


def test_a_byte_a_cycle_and_one_for_the_register():
    assert simulate(circuit("brighten"), np.zeros(300, int)).cycles == 301
    # An empty register takes a value while the consumer rests: the first cycle is not lost.
    assert simulate(circuit("brighten"), np.zeros(3, int), rest={0}).cycles == 4


@given(rests)
@few
def test_the_planted_fault_loses_what_comes_in_while_the_consumer_leaves_a_value_lying(rest):
    levels = np.arange(40)
    found = simulate(circuit("faulty brighten"), levels, rest=rest)
    timeline = Timeline(found.trace)
    _, gives, takes = (lane for lane in timeline.lanes if lane.kind != "wait")
    blocked = [(a, b) for a, b, name in spans(timeline, gives) if name == "blocked"]
    comes = [a for a, _, name in spans(timeline, takes) if name.isdecimal()]
    lost = sum(a <= at < b for a, b in blocked for at in comes)
    assert len(found.outputs) == 40 - lost
    assert simulate(circuit("faulty brighten"), levels).outputs.tolist() == levels.tolist()


def spans(timeline, lane):
    names = [timeline.names[k] for k in lane.name_id.tolist()]
    return zip(lane.start_ns.tolist(), lane.end_ns.tolist(), names, strict=True)


# -- reader -----------------------------------------------------------------------------------


def test_the_code_is_that_of_jpeg_files():
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "JPEG")
    known = corpus_tables(file.getvalue())
    assert (tuple(reader.COUNTS), reader.SYMBOLS) in known


def corpus_tables(data):
    """Return counts and symbols of the Huffman tables of a file, by the standard's own words for DHT."""
    found = []
    for part in re.finditer(rb"\xff\xc4(..)", data, re.DOTALL):
        body = data[part.end() : part.end() + int.from_bytes(part[1], "big") - 2]
        while body:
            counts = tuple(body[1:17])
            found.append((counts, body[17 : 17 + sum(counts)]))
            body = body[17 + sum(counts) :]
    return found


@pytest.mark.parametrize("name", READERS)
@given(st.lists(st.sampled_from(reader.SYMBOLS), min_size=1, max_size=30), rests, rests)
@settings(max_examples=2, deadline=None)
def test_every_reader_gives_what_was_encoded_wherever_somebody_rests(name, wanted, rest, pause):
    found = simulate(circuit(name), reader.encode(wanted), rest=rest, pause=pause)
    assert found.outputs.tolist() == wanted


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_as_many_cycles_a_code_as_its_interval(name):
    one, other = (simulate(circuit(name), reader.encode(symbols(count))).cycles for count in (20, 60))
    assert (other - one) / 40 == CIRCUITS[name].interval


def test_all_symbols_can_be_read():
    every = sorted(reader.SYMBOLS)
    assert simulate(circuit("reader logic"), reader.encode(every)).outputs.tolist() == every


@pytest.mark.parametrize("memory", ["logic", "block"])
def test_joined_units_do_what_both_do(memory):
    wanted = symbols(60)
    found = simulate(circuit(f"joined {memory}"), reader.encode(wanted), delta=-90, rest=0.3, pause=0.3)
    assert found.outputs.tolist() == brightened(wanted, -90).tolist()


# -- inverse DCT --------------------------------------------------------------------------------


def simulated(blocks, **how):
    found = simulate(circuit("idct"), idct.columns(blocks), **how)
    return found.outputs.reshape(-1, 8, 8)


def on_the_device(blocks):
    """Return what kernels/jpeg_idct.cl makes of blocks, side by side in one row, each taken as full."""
    from labextras.offload import Engine

    engine, count = Engine(), len(blocks)
    frames, layout = np.zeros((1, 64), np.int32), np.zeros((1, 32), np.int32)
    frames[0, 2], frames[0, 8 + 2] = 1, count
    layout[0, 8:12] = 1, 8 * count + 2, 8 * count, 8
    planes = engine.upload(np.zeros(8 * (8 * count + 2), np.uint8))
    given = blocks.astype(np.int16), np.full(count, 255, np.uint8), np.ones((1, 64), np.uint16), frames, layout
    numbers = (np.int32(n) for n in (0, 1, 1))
    engine.run(engine.kernel("jpeg_idct"), (1, 3), *map(engine.upload, given), planes, *numbers, local=(1, 1))
    rows = engine.download(planes, np.empty(8 * (8 * count + 2), np.uint8)).reshape(8, -1)[:, 1:-1]
    return rows.reshape(8, count, 8).swapaxes(0, 1)


@pytest.mark.opencl
@pytest.mark.parametrize("kind", ["random", "extreme", "sparse"])
def test_the_inverse_dct_is_its_opencl_twin_bit_for_bit(kind):
    dice = np.random.default_rng(7)
    blocks = dice.integers(-(1 << 15), 1 << 15, (24, 8, 8))
    if kind == "extreme":
        blocks = dice.choice([-32768, -1, 0, 32767], (24, 8, 8))
    if kind == "sparse":
        blocks = blocks // 64 * (dice.random((24, 8, 8)) < 0.1)
    assert np.array_equal(simulated(blocks, rest=0.3, pause=0.3), on_the_device(blocks))


def test_the_blocks_of_a_photo_become_the_pixels_of_tensorflow_and_of_the_numpy_twin(album):
    with Image.open(album.paths[0]) as photo:
        file = io.BytesIO()
        photo.convert("L").crop((100, 100, 148, 132)).save(file, "JPEG", quality=90)
    frame, intervals = scan(file.getvalue())
    (coefficients,), step = twins.jpeg_entropy(intervals, frame), huffman.natural(frame.components[0].quantiser)
    blocks = (coefficients.astype(int) * step).reshape(-1, 8, 8)
    rows = simulated(blocks, rest=0.2).reshape(4, 6, 8, 8).swapaxes(1, 2).reshape(32, 48)
    assert np.array_equal(rows, twins.jpeg_idct(coefficients, step))
    assert np.array_equal(rows, corpus.expected(file.getvalue())[..., 0])


def test_a_block_takes_eight_cycles():
    one, other = (simulate(circuit("idct"), np.zeros((8 * blocks, 8), int)).cycles for blocks in (5, 9))
    assert other - one == 4 * 8
    assert one == 5 * 8 + 22


# -- what is drawn --------------------------------------------------------------------------------


def test_the_lanes_say_what_every_stream_did_and_rests_are_no_gaps():
    found = simulate(circuit("joined block"), reader.encode(symbols(40)), rest=range(30, 40))
    timeline = Timeline(found.trace)
    assert [lane.name for lane in timeline.lanes if lane.kind != "wait"] == ["consumer", "brighten", "reader", "input"]
    assert timeline.run.origin == "simulated"
    assert timeline.steps == 40
    assert timeline.span_ns == found.cycles * 1_000_000
    idle = int(timeline.gaps.length_ns.sum()) // 1_000_000
    assert idle == found.cycles - 40 - 10
    for lane in timeline.lanes[:2]:  # every cycle is one of three
        assert int(lane.self_ns.sum()) == timeline.span_ns or lane is timeline.lanes[0]
    text = " ".join(str(timeline).split())
    assert re.search(
        rf"simulated · brighten moves a value in \d+ % of {found.cycles} cycles, is blocked in \d+ %", text
    )
    assert " ms" not in text
    assert "accelerator" not in text


def test_a_value_is_called_by_its_number():
    names = simulate(circuit("brighten"), [7, 250], delta=3).trace.names
    assert {"7", "250", "10", "253"} <= set(names)


# -- what is refused ------------------------------------------------------------------------------


class Deaf(wiring.Component):
    """Never says that it is ready."""

    def __init__(self):
        super().__init__({"input": In(stream.Signature(8)), "output": Out(stream.Signature(8))})

    def elaborate(self, platform):
        return Module()


class Chatterbox(Deaf):
    """Takes all, and gives for ever."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.input.ready.eq(1), self.output.valid.eq(1)]
        return m


class Restless(Deaf):
    """Has a signal that depends on itself."""

    def elaborate(self, platform):
        m = Module()
        swing = Signal()
        m.d.comb += [swing.eq(~swing), self.input.ready.eq(swing)]
        return m


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        (Deaf, "deaf took 0 of 3 values and gave 0; then nothing moved in 50 cycles"),
        (Chatterbox, r"chatterbox took 3 of 3 values and gave \d+; then values came for 500 cycles"),
        (Restless, "restless never settles: within one cycle, swing depend on themselves"),
    ],
)
def test_a_circuit_that_never_answers_ends_in_a_sentence(unit, says):
    with pytest.raises(NeverAnswers, match=says):
        simulate(unit(), [1, 2, 3], limit=50)


@pytest.mark.parametrize(
    ("inputs", "ports", "says"),
    [
        ([1, 256], {}, "the input of brighten was given 256; allowed: 0 to 255"),
        ([[1, 2]], {}, r"int64 of shape \(1, 2\); allowed: whole numbers of shape \(n,\)"),
        ([], {}, "n above 0"),
        ([0.5], {}, "float64"),
        ([1], {"gain": 2}, "there is no port of brighten 'gain'; allowed: delta"),
        ([1], {"delta": 256}, "delta is 256; allowed: a whole number from -256 to 255"),
        ([1], {"rest": 1}, "rest is 1; allowed: a number from 0 to 0.95"),
    ],
)
def test_what_a_circuit_does_not_take_is_said_in_a_sentence(inputs, ports, says):
    with pytest.raises(ValueError, match=says):
        simulate(circuit("brighten"), inputs, **ports)


def test_what_is_no_circuit_and_what_is_not_there_is_said():
    with pytest.raises(ValueError, match="int has no stream 'input'"):
        simulate(3, [1])
    with pytest.raises(ValueError, match=r"name is 'brighter'; allowed: .*brighten"):
        hardware.circuit("brighter")
