"""JPEG headers: what they may say, what they must not, and that a claim alone costs nothing."""

from __future__ import annotations

import itertools
import random
import re
import struct
import tracemalloc

import jpeg_corpus as corpus
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labextras.offload.jpeg import frames, header, huffman
from labextras.offload.jpeg.outcomes import Damaged, Status, Unsupported


def whole(kind="420", width=40, height=24, quality=80, restart=0, **more):
    return corpus.file(kind, width, height, quality, restart, **more)


def with_frame(marker=0xC0, precision=8, width=40, height=24, parts=((1, 0x22, 0), (2, 0x11, 1), (3, 0x11, 1))):
    """Return a good file in which the frame says something else."""
    data = whole()
    at = data.index(b"\xff\xc0")
    end = at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    shape = struct.pack(">BHHB", precision, height, width, len(parts)) + b"".join(map(bytes, parts))
    return data[:at] + corpus.segment(marker, shape) + data[end:]


def test_a_frame_is_what_the_header_says():
    frame = header.parse(whole("422", 41, 23, 80))
    assert (frame.width, frame.height, frame.transform, frame.restart) == (41, 23, 1, 0)
    assert [(p.h, p.v) for p in frame.components] == [(2, 1), (1, 1), (1, 1)]
    assert frame.mcus == (3, 3)
    assert (frame.components[0].dc, frame.components[2].ac) == corpus.standard_tables()[::3]


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (with_frame(0xC2), "progressive", "progressive JPEG"),
        (with_frame(0xC3), "lossless", "lossless JPEG"),
        (with_frame(0xC5), "hierarchical", "hierarchical JPEG"),
        (with_frame(0xCA), "arithmetic", "arithmetic JPEG"),
        (with_frame(0xC1, precision=12), "precision", "12 bits for each sample; the kernels decode 8"),
        (with_frame(parts=[(i, 0x11, 0) for i in (1, 2, 3, 4)]), "components", "CMYK or YCCK"),
        (with_frame(parts=[(1, 0x11, 0), (2, 0x11, 0)]), "components", "2 components"),
        (with_frame(parts=[(1, 0x41, 0), (2, 0x11, 0), (3, 0x11, 0)]), "sampling", "factors 4x1, 1x1, 1x1"),
        (with_frame(parts=[(1, 0x21, 0), (2, 0x11, 0), (3, 0x21, 0)]), "sampling", "factors 2x1, 1x1, 2x1"),
        (with_frame(parts=[(1, 0x20, 0), (2, 0x10, 0), (3, 0x10, 0)]), "sampling", "factors 2x0, 1x0, 1x0"),
        (with_frame(parts=[(1, 0x22, 0), (2, 0x22, 0), (3, 0x22, 0)]), "sampling", "factors 2x2, 2x2, 2x2"),
        (with_frame(parts=[(9, 0x22, 0), (2, 0x11, 0), (3, 0x11, 0)]), "scans", "in another order than the frame's"),
        (with_frame(parts=[(1, 0x22, 0), (2, 0x11, 0), (1, 0x11, 0)]), "scans", "several scans"),
        (with_frame(width=65501, height=1), "large", "65501×1 pixels; the limits are 67,108,864 pixels, and 65500 for"),
        (corpus.encode(corpus.photo(9, 9), huffman_tables=False), "tables", "a Huffman table is not in the file"),
    ],
)
def test_what_the_kernels_do_not_decode_is_unsupported_by_name(data, code, text):
    with pytest.raises(Unsupported, match=text) as raised:
        header.parse(data)
    assert raised.value.code == code
    assert data[raised.value.byte] == 0xFF


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"", "format", "^the file is empty$"),
        (b"\x89PNG\r\n\x1a\n", "format", "^this is a PNG file, not a JPEG$"),
        (b"<!DOCTYPE html>\n<html>", "format", "^this is a text file, not a JPEG$"),
        (b"a text", "signature", "does not begin"),
        (b"\xff\xd8", "truncated", "ends after 2 bytes"),
        (b"\xff\xd8\xff\xd9", "marker", "the segment D9 at byte 2 has no place in the header of a JPEG"),
        (b"\xff\xd8\xff\xdd\0\3\0\xff", "marker", "no place"),
        (b"\xff\xd8\xff\x00\xff", "segment", "the bytes FF 00 stand at byte 2, where a marker should begin"),
        (b"\xff\xd8\xff\xe0\0\1\0\0", "segment", "has the length 1"),
        (whole().replace(b"\xff\xc0", b"\xff\xfe", 1), "marker", "no place"),
        (whole().replace(b"\xff\xdb", b"\xff\xfe"), "table", "needs quantisation table 0: there is none"),
        (with_frame(width=0), "size", "0×24 pixels"),
        (with_frame(height=0), "size", "40×0 pixels"),
        (with_frame(parts=[(1, 0x22, 3), (2, 0x11, 0), (3, 0x11, 0)]), "table", "needs quantisation table 3"),
        (with_frame(width=65500, height=65500), "size", "65500×65500 pixels, in a file of"),
        (with_frame(0xC2, width=65500, height=65500), "size", "65500×65500 pixels, in a file of"),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_is_damaged_with_what_and_where(data, code, text):
    with pytest.raises(Damaged, match=text) as raised:
        header.parse(data)
    assert raised.value.code == code
    assert 0 <= raised.value.byte <= len(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the file is empty"),
        (b"GIF89a", "this is a GIF file, not a JPEG"),
        (b"a text", "the JPEG is damaged: the file does not begin with the two bytes of a JPEG file, FF D8 (byte 0)"),
        (with_frame(0xC3), "the JPEG is not decoded: lossless JPEG (byte 158)"),
    ],
)
def test_a_refusal_is_one_sentence_without_a_second_lead_in(data, sentence):
    with pytest.raises((Damaged, Unsupported)) as raised:
        header.parse(data)
    error = raised.value
    assert Status(False, error.code, error.text, error.byte).refusal == sentence


def test_a_claim_of_four_gigapixels_allocates_nothing():
    for marker in (0xC0, 0xC2, 0xC9):
        data = with_frame(marker, width=65500, height=65500)
        tracemalloc.start()
        with pytest.raises(Damaged):
            header.parse(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000


def test_more_pixels_than_the_limit_are_refused_and_not_handed_to_the_host(monkeypatch):
    monkeypatch.setattr(header, "LIMIT_PIXELS", 900)
    with pytest.raises(Unsupported, match="40×24 pixels; the limits are 900 pixels") as raised:
        header.parse(whole())
    assert raised.value.code == "large"


def test_a_header_cut_anywhere_is_truncated_or_damaged_at_a_byte_of_the_file():
    data = corpus.file("420", 40, 24, 80, restart=2)
    for cut in range(header.parse(data).start):
        with pytest.raises(Damaged) as raised:
            header.parse(data[:cut])
        assert raised.value.byte <= cut


@pytest.mark.long
@given(st.lists(st.sampled_from([b"\xff", b"\x00", b"\xd9", b"\xd0", b"A"]), max_size=20))
def test_a_scan_ends_at_the_first_255_of_those_before_a_marker(scan):
    data = corpus.file("444", 640, 8, 80, restart=1)
    frame = header.parse(data)
    data = data[: frame.start] + b"".join(scan)
    ends = [m.start() for m in re.finditer(rb"\xff+[^\x00\xff\xd0-\xd7]", data[frame.start :])]
    with pytest.raises(Damaged) as raised:
        header.intervals(data, frame)
    if "where" not in str(raised.value):  # a restart marker, but not the one whose turn it is
        assert raised.value.byte == (frame.start + ends[0] if ends else len(data))


def test_restart_markers_split_a_scan_and_are_missed():
    data = corpus.file("444", 64, 8, 80, restart=3)
    frame = header.parse(data)
    found = header.intervals(data, frame)
    assert [(first, count) for _, _, first, count in found] == [(0, 3), (3, 3), (6, 2)]
    assert all(data[end] == 0xFF and data[end + 1] == 0xD0 + i for i, (_, end, _, _) in enumerate(found[:-1]))
    swapped = data[: found[0][1]] + b"\xff\xd3" + data[found[0][1] + 2 :]
    with pytest.raises(Damaged, match="restart marker 3 where 0 is due"):
        header.intervals(swapped, frame)
    with pytest.raises(Damaged, match="1 restart markers of 2") as raised:
        header.intervals(data[: found[1][1]], frame)
    assert raised.value.code == "truncated"


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_whatever_follows_the_signature_is_a_frame_or_a_typed_error(tail):
    try:
        header.parse(b"\xff\xd8" + tail)
    except (Damaged, Unsupported) as error:
        words, byte = error.text, error.byte
    else:
        return
    assert words
    assert 0 <= byte <= len(tail) + 2


def test_a_thousand_mutated_headers_give_a_frame_or_a_typed_error():
    rng = random.Random(1)
    sources = [whole(kind, 16, 16, 50, 2) for kind in corpus.SAMPLINGS]
    outcomes = set()
    for _ in range(1000):
        data = corpus.mutate(rng.choice(sources)[:600], rng)
        try:
            frame = header.parse(data)
            outcomes.add("frame")
            assert frame.width * frame.height <= 256 * len(data)
            header.intervals(data, frame)
        except (Damaged, Unsupported) as error:
            outcomes.add(error.code)
    assert {"frame", "segment", "truncated", "marker", "table"} <= outcomes


@settings(max_examples=100)
@given(st.lists(st.integers(0, 3), min_size=16, max_size=16), st.booleans())
def test_look_ups_say_what_walking_the_codes_says(counts, is_dc):
    total = sum(counts)
    table = bytes(counts) + bytes((7 * i) % (16 if is_dc else 256) for i in range(total))
    if huffman.fault(table, is_dc):
        return
    lookups, codes = huffman.build([(table, is_dc)])
    known = {}
    code, symbols = 0, iter(table[16:])
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            known[length, code] = next(symbols)
            code += 1
        code <<= 1
    rng = np.random.default_rng(total)
    for bits in [*rng.integers(0, 65536, 40).tolist(), 0, 65535]:
        wanted = next((known[n, bits >> (16 - n)] for n in range(1, 17) if (n, bits >> (16 - n)) in known), None)
        length = next((n for n in range(1, 17) if (n, bits >> (16 - n)) in known), 0)
        word = int(lookups[0, bits >> 5])
        if 0 < length <= huffman.LOOK:
            run = 0 if is_dc else 63 if wanted & 15 == 0 and wanted != 0xF0 else wanted >> 4
            assert word == run << 10 | (wanted & 15) << 6 | (length + (wanted & 15))
        else:
            assert word == huffman.LONG
            found = next((n for n in range(12, 17) if bits < codes[0, n - 1]), 0)
            assert found == length
            if found:
                assert codes[0, 32 + (bits >> (16 - found)) + codes[0, 15 + found]] == wanted


def test_huffman_tables_that_cannot_be_are_named():
    assert huffman.fault(bytes([3] + [0] * 15) + b"abc", False) == "it has more codes of 1 bits than there can be"
    assert huffman.fault(bytes([2] + [0] * 15) + b"ab", False) is not None  # a code of ones alone
    assert huffman.fault(bytes([1] + [0] * 15) + b"\x10", True) == "it has a DC symbol above 15"
    assert not any(huffman.fault(table, place < 2) for place, table in enumerate(corpus.standard_tables()))


def test_planes_of_a_batch_never_overlap_and_a_batch_beyond_two_gigabytes_is_refused():
    some = [header.parse(whole(k, w, 70 - w)) for k in corpus.SAMPLINGS for w in (1, 15, 16, 17, 64)]
    tables = np.zeros((len(some), 3, 3), np.int32)
    records = frames.lay_out(some, tables, 1 << 20)
    spans = []
    for row in records.layout:
        for c in range(row[2]):
            start, stride, width, height = row[8 + 8 * c : 12 + 8 * c].tolist()
            assert stride >= frames.BEFORE + width + frames.AFTER
            spans.append((start - frames.BEFORE, start - frames.BEFORE + stride * (-(-height // 8) * 8 + 1)))
    spans.sort()
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert spans[-1][1] <= records.plane_bytes
    huge = header.Frame(60000, 60000, some[0].components, 1, 0, 0)
    with pytest.raises(ValueError, match="give fewer images"):
        frames.lay_out([huge], tables[:1], 1 << 20)
