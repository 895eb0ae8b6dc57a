"""The SmartSSD on paper: closed forms, published points, tokens that a kernel and its twin count alike."""

from __future__ import annotations

import io
import math
import random
import re

import jpeg_corpus as corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labextras.offload import calibration, smartssd, tokens
from labextras.offload.smartssd import P2P_READ, SmartSSD, bandwidth_gb_s
from labextras.offload.tokens import Counted
from labkit import Timeline
from labkit.recording import accelerators


def work(count=8, size=100_000, symbols=130_000, blocks=4608, bad=0):
    """Return `count` equal photos, the last `bad` of them not counted."""
    columns = (np.full(count, n, np.int64) for n in (size, symbols, blocks))
    return Counted(*columns, np.array([0] * (count - bad) + [1] * bad, np.int64), "a test")


def answer_of(card, photos, cpu_ms=3.0, cores=2, **host):
    return card.answer(photos, cpu_ms=cpu_ms, cores=cores, **host)


# -- the rates ------------------------------------------------------------------------------------


def test_a_reading_meets_the_picture_that_fixed_it():
    check = calibration.check()
    assert len(calibration.READINGS) == len(check.modelled) == 6
    for reading in calibration.READINGS:
        assert check.modelled[reading.name][reading.picture] == pytest.approx(check.published[reading.picture])
    lena = calibration.VENDOR[0].counted
    assert (lena.blocks[0], lena.tokens[0]) == (6144, 131_119)
    assert answer_of(SmartSSD(), lena).rates["decode"] == pytest.approx(243e6 / (80_600 + 131_119))


def test_the_band_of_a_card_contains_every_published_picture():
    check = calibration.check()
    for one in calibration.VENDOR:
        low, high = answer_of(SmartSSD(), one.counted).decode_band
        assert low <= one.decoder_per_s * (1 + 1e-9)
        assert one.decoder_per_s <= high * (1 + 1e-9)
        rates = [rates[one.name] for rates in check.modelled.values()]
        assert (low, high) == pytest.approx((min(rates), max(rates)))
    assert "(-63 %)" in str(check), "that a reading is far off for a large picture is said, not hidden"


@given(
    symbols=st.integers(2, 500_000), blocks=st.integers(1, 50_000), call=st.integers(0, 500_000),
    decoders=st.integers(1, 16), host_ms=st.floats(0, 2), cpu_ms=st.floats(0.05, 20),
)  # fmt: skip
def test_the_band_holds_the_card_s_own_answer_and_the_verdict_is_that_of_both_ends(
    symbols, blocks, call, decoders, host_ms, cpu_ms
):
    card = SmartSSD(call_cycles=call, decoders=decoders)
    answer = answer_of(card, work(symbols=symbols, blocks=blocks), cpu_ms, host_ms=host_ms)
    assert answer.decode_band[0] <= answer.rates["decode"] <= answer.decode_band[1]
    assert answer.band[0] <= answer.images_per_s <= answer.band[1]
    assert answer.gain_band[0] <= answer.gain <= answer.gain_band[1]
    assert answer.band[1] <= min(answer.rates[name] for name in answer.rates if name != "decode")
    enough = [gain >= smartssd.LEAST_GAIN for gain in answer.gain_band]
    word = {(True, True): "Pays", (False, False): "Does not pay", (False, True): "Cannot be told"}[tuple(enough)]
    assert answer.verdict.startswith(f"{word}: ")


def test_rates_are_their_closed_forms_and_the_least_is_the_speed():
    answer = answer_of(SmartSSD(decoders=3), work())
    assert answer.rates["decode"] == pytest.approx(3 * 243e6 / (80_600 + 130_000))
    assert answer.rates["output"] == pytest.approx(1.87e9 / 150_528)
    assert answer.rates["link"] == pytest.approx(bandwidth_gb_s(100_000) * 1e9 / 100_000)
    assert answer.images_per_s == min(answer.rates.values())
    assert answer.limit == "decode"
    floats = answer_of(SmartSSD(decoders=20, output="float32"), work(size=95_600))
    assert floats.limit == "output"
    assert floats.rates["output"] == pytest.approx(answer.rates["output"] / 4)
    assert "float32 602 kB, 6.3 x the JPEG" in str(floats)


def test_tokens_limit_where_they_take_longer_than_blocks():
    def cycles(card, photos):
        return card.decode_ms(photos)[0] * 243e3

    dense = work(symbols=500_000)
    assert cycles(SmartSSD(), dense) == pytest.approx(580_600)
    assert cycles(SmartSSD(initiation_interval=2), dense) == pytest.approx(1_080_600)
    assert cycles(SmartSSD(call_cycles=1000), dense) == pytest.approx(501_000)
    assert cycles(SmartSSD(), work(symbols=10)) == pytest.approx(80_600 + 8 * 4608)


def test_bandwidth_is_the_published_one_at_published_sizes_and_between_its_neighbours_elsewhere():
    assert bandwidth_gb_s(list(P2P_READ)).tolist() == list(P2P_READ.values())
    assert 0.87 < bandwidth_gb_s(100_000) < 1.21
    assert bandwidth_gb_s(1 << 30) == 2.36
    assert bandwidth_gb_s(2048) == pytest.approx(0.025), "as many reads a second as at the smallest size"


@pytest.mark.long
@given(clock=st.floats(50, 500), photo=st.integers(5000, 1_000_000), blocks=st.integers(100, 50_000))
def test_so_many_decoders_fill_the_link_and_one_less_does_not(clock, photo, blocks):
    answer = answer_of(SmartSSD(clock_mhz=clock), work(size=photo, symbols=1, blocks=blocks))
    many = int(re.search(r"to fill the link: ([\d,]+)", str(answer))[1].replace(",", ""))
    assert (many - 1) * answer.rates["decode"] < answer.rates["link"] * (1 + 1e-6)
    assert many * answer.rates["decode"] >= answer.rates["link"] * (1 - 1e-6)


def test_what_the_cpu_saves_is_cores_at_the_speed_of_the_job():
    fed = answer_of(SmartSSD(decoders=8), work(), accelerator=500)
    assert fed.cores_saved == pytest.approx((500 * 3.0 / 1000,) * 2)
    alone = answer_of(SmartSSD(), work())
    assert alone.cores_saved == pytest.approx([rate * 3.0 / 1000 for rate in alone.band])
    shared = answer_of(SmartSSD(decoders=8), work(), host_ms=1.0)
    assert shared.rates["host"] == pytest.approx(2000)
    assert (shared.limit, shared.images_per_s) == ("host", shared.rates["host"])
    assert shared.gain == pytest.approx(3), "two thirds of the work are gone"
    assert shared.cores_saved == pytest.approx((2000 * 2.0 / 1000,) * 2)
    assert "1.00 ms stay" in str(shared)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "Pays: x"),
        ({"accelerator": 50}, "feed the accelerator already"),
        ({"cpu_ms": 0.1, "accelerator": math.inf}, "no gain"),
        ({"cpu_ms": 1.6}, "Cannot be told: the gain is x0.84 to x1.43"),
    ],
)
def test_the_verdict_says_when_offload_does_not_pay_and_when_nobody_can_tell(changes, word):
    answer = answer_of(SmartSSD(), work(), **({"accelerator": 1786} | changes))
    assert word in answer.verdict
    assert answer.verdict in str(answer)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"clock_mhz": float("nan")}, "clock_mhz is nan; allowed: a number from 1 to 10,000"),
        ({"decoders": True}, "decoders is True; allowed: a whole number"),
        ({"output": "float16"}, "output is 'float16'; allowed: uint8, float32"),
        ({"read_bytes": 0}, "read_bytes is 0"),
    ],
)
def test_an_impossible_card_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        SmartSSD().changed(**wrong)


# -- its timeline ----------------------------------------------------------------------------------


def test_its_trace_is_an_ordinary_one_and_says_that_it_is_modelled():
    trace = SmartSSD().trace(work(), accelerators.modelled("H100"), steps=12)
    line = Timeline(trace)
    assert line.origin == "modelled"
    assert all("modelled" in t.name for t in trace.threads if t.kind != "consumer")
    low, high = answer_of(SmartSSD(), work()).band
    assert any("SmartSSD (modelled)" in text and f"{low:,.0f} to {high:,.0f}" in text for text in trace.run.assumptions)
    again = SmartSSD().trace(work(), accelerators.modelled("H100"), steps=12)
    assert str(Timeline(again)) == str(line)


def test_its_parts_are_units_that_no_count_of_threads_has():
    trace = SmartSSD(decoders=2).trace(work(), accelerators.modelled("H100"), steps=12)
    units = [lane for lane in Timeline(trace).lanes if lane.kind == "unit"]
    parts = {lane.name.removeprefix("card (modelled): ").rstrip(" 0123456789") for lane in units}
    assert parts == {"P2P read", "decoder", "to the host"}
    line = Timeline(trace)
    assert not any(line.work_ns.values()), "the host does nothing: its threads have no work"
    assert line.busiest() == [], "and none of them is busy"
    decoders = [lane.share for lane in units if "decoder" in lane.name]
    link = next(lane for lane in units if "P2P" in lane.name)
    assert min(decoders) > 2 * link.share > 0, "the decoders are what is waited for, and the link rests in between"
    # What stays with the host is the work of a thread where the host is the slowest part.
    limited = Timeline(SmartSSD(decoders=8).trace(work(), accelerators.modelled("H100"), host_ms=1.0))
    assert [lane.name for lane in limited.lanes if lane.kind == "pipeline"] == ["host (modelled): augment"]
    assert limited.work_ns["batch"] > 0


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
        (SmartSSD(decoders=64, read_bytes=4096), 0, "link", "larger reads"),
        (SmartSSD(decoders=64, output="float32", output_gb_s=0.2), 0, "output", "uint8"),
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
    for picture in (card.p2p_picture(96_000.0), answer.picture()):
        assert "modelled" in picture.title
        assert picture.png("light") != picture.png("dark")
    low, high = answer.decode_band
    assert f"[{low:,.0f}–{high:,.0f}]" in answer.picture().text
    assert f"({low:,.0f} to {high:,.0f})" in str(answer)
    for label in ("limit", "link", "decoders to fill the link", "float32", "the CPU saves"):
        assert label in str(answer)


@pytest.mark.long
def test_a_gain_is_drawn_for_every_card_and_more_work_moved_gains_more():
    cards = {"one": SmartSSD(), "eight": SmartSSD(decoders=8)}
    drawn = smartssd.gain_picture(cards, work(), moved_ms=[0.1, 1, 4], host_ms=0.5, cores=2)
    assert "modelled" in drawn.title
    gains = [answer_of(SmartSSD(), work(), ms + 0.5, host_ms=0.5).gain for ms in (0.1, 1, 4)]
    assert gains == sorted(gains)
    assert drawn.text.count("–") > 3, "a gain is drawn with its band"
    assert all(name in drawn.text for name in cards)


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
    for options in ({}, {"dtype": "float32", "augment": True, "seed": 8, "counter": 3}):
        a, b = (module.preprocess(images, size=32, **options) for module in (twins, offload))
        assert np.array_equal(a.images, b.images)
    assert ours.images[-1] is None
    assert not a.images[-1].any()


def test_without_a_device_a_kernel_that_is_tried_is_not_run():
    from labextras.offload import twins

    tried = twins.try_kernel("__kernel void k() {}", "k", [], 1, limit_s=3)
    assert not tried.ok
    assert "no OpenCL device" in str(tried)
    assert tried.outputs == {}
