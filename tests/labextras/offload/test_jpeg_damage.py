"""Damaged JPEG files: a status for each, the others unharmed, and a clean status only with TensorFlow's pixels."""

from __future__ import annotations

import json
import subprocess
import sys

import jpeg_corpus as corpus
import numpy as np
import pytest

from labextras.offload.jpeg import header

pytestmark = pytest.mark.opencl

GOOD = corpus.file("420", 33, 45, 85)


@pytest.fixture(scope="module")
def decoder():
    from labextras.offload import Decoder

    return Decoder()


def decode_among_good(decoder, files):
    """Decode files with a good one between each two; check the good ones; return images and status of the others."""
    mixed = [data for file in files for data in (GOOD, file)] + [GOOD]
    decoded = decoder.decode(mixed)
    good = corpus.expected(GOOD)
    for image, state in zip(decoded.images[::2], decoded.status[::2], strict=True):
        assert state.ok
        assert np.array_equal(image, good)
    return decoded.images[1::2], decoded.status[1::2]


def check_typed(files, images, states):
    """Every status has its words; one that is clean comes with TensorFlow's pixels. Returns the counts by code."""
    counts = {}
    for data, image, state in zip(files, images, states, strict=True):
        counts[state.code] = counts.get(state.code, 0) + 1
        if state.ok:
            want = corpus.expected(data)
            assert want is not None, state
            assert np.array_equal(image, want), state
        else:
            assert image is None
            assert state.text, state
            assert state.where == "none", state
            assert 0 <= state.byte <= len(data), state
    return counts


@pytest.mark.sample(1)
@pytest.mark.parametrize("restart", [0, 2])
def test_a_file_cut_short_is_never_clean(decoder, restart):
    for kind in corpus.SAMPLINGS:
        data = corpus.file(kind, 90, 70, 92, restart)
        start = header.parse(data).start
        cuts = [*range(start), *range(start, len(data), 97), len(data) - 3, len(data) - 2, len(data) - 1]
        images, states = decode_among_good(decoder, [data[:cut] for cut in cuts])
        assert not any(state.ok for state in states), kind
        assert check_typed([data[:cut] for cut in cuts], images, states)["truncated"] > len(cuts) // 2


OTHERS = {
    "progressive": corpus.progressive(90, 70, progressive=True),
    "grey progressive": corpus.progressive(90, 70, mode="L", progressive=True),
    "CMYK": corpus.progressive(60, 50, mode="CMYK"),
    "progressive CMYK": corpus.progressive(60, 50, mode="CMYK", progressive=True),
    "4:1:1": corpus.encode(corpus.photo(70, 60), factors=[(4, 1), (1, 1), (1, 1)]),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_file_of_the_host_that_is_cut_short_is_never_clean_even_with_its_end_put_on_again(decoder, kind):
    data = OTHERS[kind]
    cuts = [*range(0, len(data) - 2, 29), *range(len(data) - 12, len(data) - 2)]
    ends = [m for m in range(len(data) - 2) if data[m] == 255 and data[m + 1] in (0xC4, 0xDA)]  # between two scans
    files = [data[:cut] for cut in cuts] + [data[:cut] + b"\xff\xd9" for cut in [*cuts, *ends]]
    images, states = decode_among_good(decoder, files)
    assert not any(state.ok for state in states)
    check_typed(files, images, states)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_hole_in_a_file_of_the_host_is_found_unless_what_is_left_is_a_whole_scan(decoder, kind):
    data = OTHERS[kind]
    first = data.index(b"\xff\xda") + 14
    files = [data[:at] + data[at + 300 :] for at in range(first, len(data) - 310, 41)]
    _, states = decode_among_good(decoder, files)
    assert sum(state.ok for state in states) <= len(files) // 4
    phrases = (
        "host's decoder refuses: ",
        "before the last scan",
        "where a marker should begin",
        "an end-of-image marker",
    )
    assert all(any(words in s.text for words in phrases) for s in states if not s.ok)
    assert not any("{{" in s.text or "tj" in s.text for s in states)


def test_sampling_factors_that_the_host_cannot_judge_are_refused_and_not_called_clean(decoder):
    files = [
        corpus.progressive(mode="CMYK", subsampling=2),
        corpus.encode(corpus.photo(40, 40), factors=[(3, 1), (1, 1), (1, 1)]),
    ]
    _, states = decode_among_good(decoder, files)
    assert [s.code for s in states] == ["components", "sampling"]
    assert all("; the host's decoder refuses: Could not determine subsampling level" in s.text for s in states)


def test_data_of_an_arithmetic_coder_are_refused_for_no_decoder_warns_of_their_end(decoder):
    _, (state,) = decode_among_good(decoder, [GOOD.replace(b"\xff\xc0", b"\xff\xc9", 1)])
    assert str(state).startswith("not decoded: arithmetic JPEG; no decoder can tell whether such a file is whole")


def test_a_lossless_file_is_refused_for_tensorflow_does_not_decode_it(decoder):
    frame = corpus.segment(0xC3, b"\x08\0\x08\0\x08\x03" + b"".join(b"%c\x11\0" % name for name in b"RGB"))
    one_code = corpus.segment(0xC4, b"\0\x01" + bytes(16))  # the difference 0 is the bit 0
    scan = corpus.segment(0xDA, b"\x03R\0G\0B\0\x01\0\0")
    data = b"\xff\xd8" + frame + one_code + scan + bytes(24) + b"\xff\xd9"
    assert corpus.expected(data) is None
    _, (state,) = decode_among_good(decoder, [data])
    assert str(state) == "not decoded: lossless JPEG; TensorFlow does not decode such files (byte 2)"


def test_what_is_wrong_is_told_with_the_byte_of_the_file(decoder):
    data = corpus.file("420", 64, 64, 90)
    start = header.parse(data).start
    stuffed = data.index(b"\xff\x00", start)
    middle = (start + len(data)) // 2
    files = [
        data[:middle],
        data[:-2],
        data[:-2] + b"\x12\x34\xff\xd9",
        data[:stuffed] + b"\xff\xd9" + data[stuffed + 2 :],
        data[:-2] + b"\xff\xda\0\2\xff\xd9",
    ]
    _, states = decode_among_good(decoder, files)
    assert [s.code for s in states] == ["truncated", "truncated", "data", "data", "marker"]
    assert [s.byte for s in states] == [middle, len(data) - 2, len(data) - 2, stuffed, len(data) - 2]
    assert str(states[0]).startswith("not decoded: the data end before the image does, in unit ")


def test_the_unit_that_is_told_is_the_first_one_whose_bits_are_missing(decoder):
    data = corpus.file("444", 64, 64, 95, restart=4)
    stretches = header.intervals(data, header.parse(data))
    # An interval that lost its last bytes breaks off in its last unit: three of four are finished.
    files = [data[: end - 3] + data[end:] for _, end, _, _ in stretches[:-1]]
    _, states = decode_among_good(decoder, files)
    for state, (_, _, first, count) in zip(states, stretches, strict=False):
        assert f", in unit {first + count - 1} of 64" in str(state)


PADDINGS = (b"\0", b"\0\0", b"\xff\0", b"\0\xff\0\0", bytes(500))


@pytest.mark.parametrize("kind", corpus.SAMPLINGS)
def test_padding_after_the_last_block_of_an_interval_is_told_and_harms_no_pixel(decoder, kind):
    for restart in (0, 2):
        data = corpus.file(kind, 50, 40, 85, restart)
        want = corpus.expected(data)
        places = [end for _, end, _, _ in header.intervals(data, header.parse(data))[:-1]] + [len(data) - 2]
        cases = [(at, pad) for at in (places[0], places[-1]) for pad in PADDINGS]
        files = [data[:at] + pad + data[at:] for at, pad in cases]
        images, states = decode_among_good(decoder, files)
        check_typed(files, images, states)
        for (_, pad), image, state in zip(cases, images, states, strict=True):
            assert (state.ok, state.where, state.code) == (True, "device", "fine"), state
            assert f"decoded on the device: {len(pad)} bytes of padding after the last block" in str(state)
            assert np.array_equal(image, want)
        assert str(decoder.decode(files[:1])).count("padding") == 1
        assert [s.ok for s in decoder.rgb(files).status] == [True] * len(files)


def test_bytes_that_fill_up_before_a_marker_are_no_padding_to_tell(decoder):
    for restart in (0, 2):
        data = corpus.file("420", 50, 40, 85, restart)
        at = header.intervals(data, header.parse(data))[0][1] if restart else len(data) - 2
        for count in (1, 2, 5):
            _, (state,) = decode_among_good(decoder, [data[:at] + b"\xff" * count + data[at:]])
            assert (state.ok, state.text) == (True, ""), state


def test_other_bytes_left_over_and_restart_markers_out_of_turn_are_damage(decoder):
    data = corpus.file("420", 70, 40, 85, 2)
    first, second = (end for _, end, _, _ in header.intervals(data, header.parse(data))[:2])
    files = [data[:at] + more + data[at:] for at in (first, len(data) - 2) for more in (b"\x12", b"\0\x12", b"\x12\0")]
    files += [data[:first] + b"\xff\xd5" + data[first + 2 :], data[:second] + data[second + 2 :]]
    _, states = decode_among_good(decoder, files)
    assert [s.code for s in states] == ["data"] * 6 + ["marker"] * 2


def test_a_claim_that_a_small_file_cannot_hold_is_a_status(decoder):
    at = GOOD.index(b"\xff\xc0")
    files = [
        GOOD[: at + 5] + h.to_bytes(2, "big") + w.to_bytes(2, "big") + GOOD[at + 9 :]
        for w, h in ((65500, 65500), (65535, 65535), (33, 65500), (65500, 1), (1200, 800))
    ]
    _, states = decode_among_good(decoder, files)
    assert [s.code for s in states[:3]] == ["size", "size", "size"]
    assert not any(s.ok for s in states)
    assert max(buffer.size for buffer in decoder.buffers.values()) < 1 << 27


def test_headers_of_other_kinds_over_baseline_data_are_typed(decoder):
    at = GOOD.index(b"\xff\xc0")
    files = [GOOD[: at + 1] + bytes([m]) + GOOD[at + 2 :] for m in range(0xC0, 0xD0) if m not in (0xC4, 0xC8, 0xCC)]
    files += [GOOD[: at + 4] + bytes([bits]) + GOOD[at + 5 :] for bits in (2, 12, 16)]
    images, states = decode_among_good(decoder, files)
    counts = check_typed(files, images, states)
    assert counts.pop("fine") == 2  # baseline, extended
    assert set(counts) == {"data", "lossless", "hierarchical", "arithmetic", "precision"}


CHILD = """
import json, random, sys, time
sys.path.insert(0, {tests!r})
from labkit import notebook
notebook.prepare()
import numpy as np
import jpeg_corpus as corpus
from labextras.offload import Decoder

rng = random.Random({seed})
kinds = [*corpus.SAMPLINGS]
sources = [corpus.file(k, 24, 30, q, r) for k in kinds for q, r in ((60, 0), (95, 2))]
sources += [corpus.progressive(progressive=True), corpus.progressive(mode="CMYK")]
sources += [corpus.encode(corpus.photo(20, 20), "420", wide=True, huffman_tables=False)]
decoder = Decoder()
decoder.decode(sources)
corpus.expected(sources[0])
counts, slowest = {{}}, 0.0
for number in range({count}):
    data = corpus.mutate(rng.choice(sources), rng)
    print(number, file=sys.stderr, flush=True)
    begin = time.process_time()
    decoded = decoder.decode([data])
    slowest = max(slowest, time.process_time() - begin)
    state, image = decoded.status[0], decoded.images[0]
    key = state.code if not state.ok else "clean" if state.where == "device" else "host"
    counts[key] = counts.get(key, 0) + 1
    if state.ok:
        want = corpus.expected(data)
        assert want is not None and np.array_equal(image, want), (number, state)
    else:
        assert image is None and state.text and state.where == "none", (number, state)
print(json.dumps([counts, slowest]))
"""


@pytest.mark.long
def test_a_thousand_mutated_files_in_a_child_crash_nothing_and_hang_nowhere(root):
    code = CHILD.format(tests=str(root / "tests" / "support"), seed=11, count=1000)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    last = "".join(done.stderr.splitlines()[-3:])
    assert done.returncode == 0, last
    counts, slowest = json.loads(done.stdout.splitlines()[-1])
    assert sum(counts.values()) == 1000
    assert {"clean", "host", "data", "truncated", "segment", "table"} <= set(counts), counts
    # Of processor time, which other programs do not lengthen.
    assert slowest < 2, f"a file took {slowest:.2f} s"
