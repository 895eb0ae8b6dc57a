"""The SmartSSD on paper: closed forms, published points, tokens that a kernel and its twin count alike."""

from __future__ import annotations

import io
import itertools
import math
import random
import re
from pathlib import Path

import jpeg_corpus as corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labextras.offload import smartssd, three_engines, tokens
from labextras.offload.smartssd import P2P_READ, PLACED, VENDOR, VENDOR_CYCLES, SmartSSD, bandwidth_gb_s
from labextras.offload.three_engines import CardEngine
from labextras.offload.tokens import Counted
from labkit import Timeline
from labkit.recording import accelerators

ROOT = Path(__file__).resolve().parents[3]


def work(count=8, size=100_000, symbols=130_000, blocks=4608, bad=0):
    """Return `count` equal photos, the last `bad` of them not counted."""
    columns = (np.full(count, n, np.int64) for n in (size, symbols, blocks))
    return Counted(*columns, np.array([0] * (count - bad) + [1] * bad, np.int64), "a test")


def answer_of(card, photos, cpu_ms=3.0, cores=2, **host):
    return card.answer(photos, cpu_ms=cpu_ms, cores=cores, **host)


# -- the rates ------------------------------------------------------------------------------------


def test_cycles_come_from_tokens_and_the_rate_from_a_clock():
    """As the decoder was simulated: 146,802 tokens took 151,539 cycles; placed, that is 408 to 415 photos a second."""
    photo = work(symbols=146_802)
    cycles = PLACED.clock_mhz * 1e6 / PLACED.images_per_s(photo)
    assert cycles == pytest.approx(146_802 * 1.039)
    assert cycles == pytest.approx(151_539, rel=0.01)
    assert 405 < PLACED.images_per_s(photo) < 420
    twice = PLACED.changed(clock_mhz=2 * PLACED.clock_mhz)
    assert twice.images_per_s(photo) == pytest.approx(2 * PLACED.images_per_s(photo))
    assert PLACED.images_per_s(work(symbols=73_401)) == pytest.approx(2 * PLACED.images_per_s(photo))
    blocks = (PLACED.images_per_s(work(symbols=9, blocks=n)) for n in (1, 9999))
    assert len(set(blocks)) == 1, "blocks do not count"


def table_of(page):
    """Return the rows of the vendor's pictures on a page of docs: tokens, images per second, cycles of a token."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \|.*\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    return {name: [float(n.replace(",", "")) for n in numbers] for name, *numbers in rows}


def test_the_vendor_s_cycles_are_those_of_its_three_published_pictures():
    rows = table_of("smartssd.md")
    assert set(rows) == {"lena_c_512", "t0", "android"}
    found = {name: VENDOR.clock_mhz * 1e6 / (rate * symbols) for name, (symbols, rate, _) in rows.items()}
    assert {name: round(each, 2) for name, each in found.items()} == {name: row[2] for name, row in rows.items()}
    assert sorted(round(each, 2) for each in found.values()) == [
        VENDOR_CYCLES[0],
        VENDOR.cycles_per_token,
        VENDOR_CYCLES[1],
    ]
    for name, (symbols, rate, _) in rows.items():
        low, high = answer_of(SmartSSD(), work(symbols=int(symbols))).vendor_band
        assert low * 0.995 < rate < high * 1.005, name


# -- the chip ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decoder", "most", "full"), [(PLACED, 45, "multipliers"), (VENDOR, 22, "look-up tables")])
def test_a_chip_holds_as_many_decoders_as_its_scarcest_resource(decoder, most, full):
    card = SmartSSD(decoder, decoders=most)
    for resource in ("luts", "memories", "multipliers"):
        assert most * getattr(decoder, resource) <= getattr(card.chip, resource)
    assert (card.most, card.full) == (most, full)
    with pytest.raises(ValueError, match=f"decoders is {most + 1}; allowed: .* from 1 to {most} of .*no more {full}"):
        card.changed(decoders=most + 1)


@given(
    st.integers(1, 523_000), st.integers(1, 984), st.integers(1, 1968),
    st.sampled_from(["luts", "memories", "multipliers"]),
)  # fmt: skip
def test_a_larger_decoder_never_fits_more_often(luts, memories, multipliers, larger):
    one = PLACED.changed(luts=luts, memories=memories, multipliers=multipliers)
    room = SmartSSD(one).most
    assert all(room * getattr(one, n) <= getattr(smartssd.KU15P, n) for n in ("luts", "memories", "multipliers"))
    more = one.changed(**{larger: getattr(one, larger) + 1})
    if getattr(more, larger) <= getattr(smartssd.KU15P, larger):
        assert SmartSSD(more).most <= room


def test_a_decoder_that_does_not_fit_once_is_refused():
    with pytest.raises(ValueError, match="decoders is 1; allowed: a whole number from 1 to 0 of our decoder"):
        SmartSSD(PLACED.changed(multipliers=5000))


def test_more_decoders_help_until_the_link_or_the_chip_is_full():
    picture = SmartSSD().replicas_picture(work(), cores=2, host_ms=1.0)
    speeds = [float(n.replace(",", "")) for n in re.findall(r"^  \d+ +([\d,]+)", picture.text, re.MULTILINE)]
    assert len(speeds) == 45
    assert speeds == sorted(speeds)
    assert speeds[-1] == pytest.approx(answer_of(SmartSSD(), work()).rates["link"], rel=1e-3)
    assert "the link is full" in picture.text
    slow = SmartSSD(PLACED.changed(clock_mhz=5)).replicas_picture(work(), cores=2, host_ms=0.1)
    assert "full." not in slow.text
    assert "too few for this host" in slow.text


# -- rates ------------------------------------------------------------------------------------------


def test_rates_are_their_closed_forms_and_the_least_is_the_speed():
    answer = answer_of(SmartSSD(decoders=3), work())
    assert answer.rates["decode"] == pytest.approx(3 * 62.7e6 / (1.039 * 130_000))
    assert answer.rates["output"] == pytest.approx(1.87e9 / 150_528)
    assert answer.rates["link"] == pytest.approx(bandwidth_gb_s(100_000) * 1e9 / 100_000)
    assert answer.images_per_s == min(answer.rates.values())
    assert answer.limit == "decode"
    floats = answer_of(SmartSSD(decoders=20, output="float32"), work(size=95_600))
    assert floats.limit == "output"
    assert floats.rates["output"] == pytest.approx(answer.rates["output"] / 4)


def test_bandwidth_is_the_published_one_at_published_sizes_and_between_its_neighbours_elsewhere():
    assert bandwidth_gb_s(list(P2P_READ)).tolist() == list(P2P_READ.values())
    assert 0.87 < bandwidth_gb_s(100_000) < 1.21
    assert bandwidth_gb_s(1 << 30) == 2.36
    assert bandwidth_gb_s(2048) == pytest.approx(0.025), "as many reads a second as at the smallest size"


@pytest.mark.long
@given(clock=st.floats(50, 500), photo=st.integers(5000, 1_000_000), blocks=st.integers(100, 50_000))
def test_so_many_decoders_fill_the_link_and_one_less_does_not(clock, photo, blocks):
    decoder = PLACED.changed(clock_mhz=clock)
    answer = answer_of(SmartSSD(decoder), work(size=photo, symbols=blocks))
    many = int(re.search(r"to fill the link: ([\d,]+)", str(answer))[1].replace(",", ""))
    assert (many - 1) * answer.rates["decode"] < answer.rates["link"] * (1 + 1e-6)
    assert many * answer.rates["decode"] >= answer.rates["link"] * (1 - 1e-6)


def test_what_the_cpu_saves_is_cores_at_the_speed_of_the_job():
    fed = answer_of(SmartSSD(decoders=8), work(), accelerator=500)
    assert fed.cores_saved == pytest.approx(500 * 3.0 / 1000)
    alone = answer_of(SmartSSD(), work())
    assert alone.cores_saved == pytest.approx(alone.images_per_s * 3.0 / 1000)
    shared = answer_of(SmartSSD(decoders=8), work(), host_ms=1.0)
    assert shared.rates["host"] == pytest.approx(2000)
    assert (shared.limit, shared.images_per_s) == ("host", shared.rates["host"])
    assert shared.gain == pytest.approx(3), "two thirds of the work are gone"
    assert shared.cores_saved == pytest.approx(2000 * 2.0 / 1000)
    assert "1.00 ms stay" in str(shared)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"cpu_ms": 6}, "Pays: x1.39, 464 images/s instead of 333"),
        ({"accelerator": 50}, "feed the accelerator already"),
        ({"cpu_ms": 0.1, "accelerator": math.inf}, "no gain"),
        ({"cpu_ms": 3.0}, "Does not pay: x0.70 is no gain; the limit is decode"),
        ({"cpu_ms": 6, "others": 0.24}, "Pays"),
        ({"cpu_ms": 6, "others": 0.25}, "No verdict: other programs took 25 % of the cores"),
        ({"accelerator": 50, "others": 0.9}, "No verdict"),
        ({"cpu_ms": 6, "others": math.nan}, "Pays"),
    ],
)
def test_the_verdict_says_when_offload_pays_and_is_refused_where_the_machine_was_busy(changes, word):
    answer = answer_of(SmartSSD(), work(), **({"accelerator": 1786} | changes))
    assert word in answer.verdict
    assert answer.verdict in str(answer)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"clock_mhz": math.nan}, "clock_mhz is nan; allowed: a number from 1 to 10,000"),
        ({"cycles_per_token": 0}, "cycles_per_token is 0; allowed: a number from 0.01"),
        ({"multipliers": -1}, "multipliers is -1; allowed: a whole number"),
        ({"decoders": True}, "decoders is True; allowed: a whole number"),
        ({"output": "float16"}, "output is 'float16'; allowed: uint8, float32"),
        ({"read_bytes": 0}, "read_bytes is 0"),
    ],
)
def test_an_impossible_card_is_refused_in_a_sentence(wrong, sentence):
    of = PLACED if set(wrong) & {"clock_mhz", "cycles_per_token", "multipliers"} else SmartSSD()
    with pytest.raises(ValueError, match=sentence):
        of.changed(**wrong)


# -- its timeline ----------------------------------------------------------------------------------


def test_its_trace_is_an_ordinary_one_and_says_that_it_is_modelled():
    trace = SmartSSD().trace(work(), accelerators.modelled("H100"), steps=12)
    line = Timeline(trace)
    assert line.origin == "modelled"
    assert "modelled" in str(line)
    assert any("SmartSSD (modelled)" in text for text in trace.run.assumptions)
    again = SmartSSD().trace(work(), accelerators.modelled("H100"), steps=12)
    assert str(Timeline(again)) == str(line)


def test_its_parts_are_units_that_no_count_of_threads_has():
    trace = SmartSSD(decoders=2).trace(work(), accelerators.modelled("H100"), steps=12)
    line = Timeline(trace)
    units = [lane for lane in line.lanes if lane.kind == "unit"]
    assert [lane.name for lane in units] == ["card: copy in", "card: kernel", "card: copy out"]
    assert not any(line.work_ns.values()), "the host does nothing: its threads have no work"
    assert line.busiest() == [], "and none of them is busy"
    assert units[1].share > 2 * units[0].share > 0, "the decoders are what is waited for, and the link rests"
    # What stays with the host is the work of a thread.
    limited = Timeline(SmartSSD(decoders=8).trace(work(), accelerators.modelled("H100"), host_ms=1.0))
    assert [lane.name for lane in limited.lanes if lane.kind == "pipeline"] == ["host: augment"]
    assert limited.work_ns["map"] > 0


def ends(trace, name):
    """Return start and end of what a lane did with each batch."""
    rows = [i for i, thread in enumerate(trace.threads) if thread.name == name]
    mine = trace.where(np.isin(trace.thread, rows) & ~trace.select("wait"))
    return mine.start_ns, mine.end_ns


@given(st.lists(st.floats(0.01, 50), min_size=2, max_size=5), st.floats(0.01, 50), st.booleans())
def test_an_engine_works_on_one_batch_at_a_time_in_order_between_two_buffers(times, train, overlap):
    engines = [CardEngine(f"engine {i}", ms, "map") for i, ms in enumerate(times)]
    trace = three_engines.run(engines, accelerators.modelled(step_ms=train), steps=9, overlap=overlap)
    lanes = [ends(trace, name) for name in [*(engine.name for engine in engines), "consumer"]]
    for start, end in lanes:
        assert (start[1:] >= end[:-1]).all()
    for (before, end), (start, after) in itertools.pairwise(lanes):
        assert (start >= end).all(), "a batch passes the engines in their order"
        assert (before[2:] >= after[:-2]).all(), "there are two buffers between two engines"
    (first, _), (_, last) = lanes[0], lanes[len(engines) - 1]
    if not overlap:
        assert (first[1:] >= last[:-1]).all()
    period = np.diff(lanes[-1][1])[2:] / 1e6
    slowest = max(*times, train) if overlap else max(sum(times), train)
    assert period == pytest.approx(np.full(6, slowest), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("figures", "host_ms"),
    [({"decoders": 1}, 0), ({"decoders": 4}, 0), ({"decoders": 8, "output": "float32"}, 0), ({"decoders": 8}, 1.0)],
)
def test_the_simulated_job_runs_at_the_speed_of_the_closed_form(figures, host_ms):
    card, quick = SmartSSD(**figures), accelerators.modelled(step_ms=0.01)
    simulated = Timeline(card.trace(work(), quick, steps=60, host_ms=host_ms)).images_per_s
    assert simulated == pytest.approx(answer_of(card, work(), host_ms=host_ms).images_per_s, rel=0.05)


@pytest.mark.parametrize(
    ("card", "host_ms", "limit", "remedy"),
    [
        (SmartSSD(), 0, "decode", "more decoders"),
        (SmartSSD(), 1.0, "decode", "more decoders"),
        (SmartSSD(decoders=8), 1.0, "host", "less work on the host"),
        (SmartSSD(decoders=45, read_bytes=4096), 0, "link", "larger reads"),
        (SmartSSD(decoders=45, output="float32", output_gb_s=0.2), 0, "output", "uint8"),
    ],
)
def test_the_remedy_is_one_for_a_card(card, host_ms, limit, remedy):
    assert answer_of(card, work(), host_ms=host_ms).limit == limit
    stalls = Timeline(card.trace(work(), accelerators.modelled(step_ms=0.01), host_ms=host_ms)).stalls
    assert remedy in stalls.advice
    assert "map" not in stalls.advice


# -- words and pictures ------------------------------------------------------------------------------


@pytest.mark.long
def test_every_picture_carries_the_word_modelled():
    card = SmartSSD()
    answer = answer_of(card, work(), accelerator=1786)
    more = card.replicas_picture(work(), cores=2, host_ms=1.0)
    for picture in (card.p2p_picture(96_000.0), answer.picture(), more):
        assert "modelled" in picture.title
        assert picture.png("light") != picture.png("dark")
    assert "{:,.0f} to {:,.0f}".format(*answer.vendor_band) in str(answer)
    for label in ("limit", "link", "decoders to fill the link", "the CPU saves"):
        assert label in str(answer)


def test_photos_that_the_card_does_not_decode_are_left_out_and_told():
    some = work(bad=3)
    assert len(some.whole()) == 5
    assert "3 not a baseline JPEG" in str(some)
    assert "  5 photos" in str(answer_of(SmartSSD(), some))
    with pytest.raises(ValueError, match="none of 2 images"):
        answer_of(SmartSSD(), work(2, bad=2))


# -- tokens and blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", corpus.SAMPLINGS)
@pytest.mark.parametrize(("width", "height", "restart"), [(1, 1, 0), (17, 9, 2), (65, 33, 0)])
def test_the_twin_counts_every_block_of_the_scan(kind, width, height, restart):
    counted = tokens.count_on_host([corpus.file(kind, width, height, 85, restart)])
    across, down = corpus.SAMPLINGS[kind]
    units = -(-width // (8 * across)) * -(-height // (8 * down))
    assert counted.status[0] == 0
    assert counted.blocks[0] == units * (1 if kind == "grey" else across * down + 2)
    assert counted.blocks[0] * 2 <= counted.tokens[0] <= counted.blocks[0] * 64


def test_a_flat_picture_has_two_tokens_a_block():
    flat = io.BytesIO()
    Image.new("RGB", (64, 64), (90, 90, 90)).save(flat, "jpeg", subsampling=0)
    counted = tokens.count_on_host([flat.getvalue()])
    assert (counted.tokens[0], counted.blocks[0]) == (2 * 192, 192)


@pytest.mark.opencl
def test_kernel_task_and_twin_count_alike():
    from labextras.offload import Engine, twins

    sizes = [(1, 1, 0), (17, 9, 0), (65, 33, 3)]
    images = [corpus.file(kind, w, h, 85, restart) for kind in corpus.SAMPLINGS for w, h, restart in sizes]
    images += [corpus.progressive(optimize=True), corpus.progressive(progressive=True), corpus.progressive(mode="CMYK")]
    images += [b"no JPEG", b"\xff\xd8", images[3][:-40], *(images[7][:n] for n in range(0, len(images[7]), 61))]
    rng = random.Random(1)
    images += [corpus.mutate(images[number % 18], rng) for number in range(120)]
    engine = Engine()
    files, offsets = tokens.packed(images)
    rows = {}
    for name, size in (("jpeg_tokens", len(images)), ("jpeg_tokens_task", 1)):
        made = np.full((len(images), 4), -1, np.int32)
        buffer = engine.upload(made)
        engine.run(
            engine.kernel(name, "jpeg_tokens"), [size], engine.upload(files), engine.upload(offsets), buffer,
            np.int32(len(images)), local=[1],
        )  # fmt: skip
        rows[name] = engine.download(buffer, made)
    assert np.array_equal(rows["jpeg_tokens"], rows["jpeg_tokens_task"])
    assert np.array_equal(rows["jpeg_tokens"][:, :3], twins.jpeg_tokens(files, offsets))
    assert set(rows["jpeg_tokens"][:, 2]) == {0, 1, 2}


@pytest.mark.opencl
def test_counting_needs_files_and_says_so():
    for wrong in ([], b"one file", "text"):
        with pytest.raises(ValueError, match="allowed: a list of one or more JPEG files"):
            tokens.count(wrong)


# -- the twins in the kernels' place ---------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.opencl
def test_the_twins_give_the_bytes_of_the_device():
    from labextras import offload
    from labextras.offload import twins

    images = [
        corpus.file(kind, w, h, 85, restart) for kind in corpus.SAMPLINGS for w, h, restart in [(17, 9, 0), (65, 33, 2)]
    ]
    images += [corpus.progressive(progressive=True), images[1][:-60], b"no JPEG"]
    theirs, ours = offload.decode(images), twins.decode(images)
    assert [s.ok for s in ours.status] == [s.ok for s in theirs.status]
    assert sum(s.text == twins.TWIN for s in ours.status) == sum(s.where == "device" for s in theirs.status) == 12
    for a, b in zip(ours.images, theirs.images, strict=True):
        assert (a is None and b is None) or np.array_equal(a, b)
    assert ours.images[-1] is None


def test_without_a_device_a_kernel_that_is_tried_is_not_run():
    from labextras.offload import twins

    tried = twins.try_kernel("__kernel void k() {}", "k", [], 1, limit_s=3)
    assert not tried.ok
    assert "no OpenCL device" in str(tried)
    assert tried.outputs == {}
