"""JPEG decode on the device: no pixel differs from TensorFlow's accurate method."""

from __future__ import annotations

import itertools
import sys

import jpeg_corpus as corpus
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labextras.offload import twins
from labextras.offload.jpeg import frames, header, huffman
from labextras.offload.twins.baseline_jpeg import scan

pytestmark = pytest.mark.opencl

QUALITIES, RESTARTS, SIZES = (1, 50, 90, 100), (0, 1, 7), range(1, 66)


@pytest.fixture(scope="module")
def decoder():
    from labextras.offload import Decoder

    return Decoder()


def differing(decoder, files):
    """Return the numbers of the files whose pixels are not TensorFlow's, or that the device did not decode."""
    decoded = decoder.decode(files)
    bad = []
    for i, (data, image, state) in enumerate(zip(files, decoded.images, decoded.status, strict=True)):
        want = corpus.expected(data)
        if state.where != "device" or image.shape != want.shape or (image != want).any():
            bad.append((i, str(state)))
    return bad


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", corpus.SAMPLINGS)
def test_every_size_quality_and_restart_interval_is_bit_identical(decoder, kind):
    files = []
    for width, (quality, restart) in itertools.product(SIZES, itertools.product(QUALITIES, RESTARTS)):
        height = 1 + (37 * width + 11 * quality + restart) % 65
        files.append(corpus.file(kind, width, height, quality, restart, seed=width))
    assert len(files) == 780
    assert differing(decoder, files) == []


@pytest.mark.long
def test_the_photos_of_the_lab_are_bit_identical(decoder, album):
    files = [open(path, "rb").read() for path in album.paths[:48]]
    baseline = [data for data in files if b"\xff\xc2" not in data]
    assert len(baseline) > 32
    assert differing(decoder, baseline) == []


@settings(max_examples=25)
@given(st.data())
def test_the_numpy_twin_gives_the_same_pixels(decoder, data):
    kind = data.draw(st.sampled_from(sorted(corpus.SAMPLINGS)))
    width, height = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    quality, restart = data.draw(st.sampled_from(QUALITIES)), data.draw(st.sampled_from(RESTARTS))
    file = corpus.file(kind, width, height, quality, restart)
    frame, intervals = scan(file)
    coefficients = twins.jpeg_entropy(intervals, frame)
    steps = [huffman.natural(part.quantiser) for part in frame.components]
    planes = [twins.jpeg_idct(c, q) for c, q in zip(coefficients, steps, strict=True)]
    twin = twins.jpeg_color(planes, frame)
    assert np.array_equal(twin, corpus.expected(file))
    assert np.array_equal(twin, decoder.decode([file]).images[0])


@pytest.mark.long
def test_the_single_work_item_kernels_give_the_same_bits(decoder):
    import pyopencl as cl

    from labextras.offload import Decoder, Engine

    class Tasks(Engine):
        """Runs the single-work-item variant of each kernel."""

        def run(self, kernel, size, *arguments, local=None):
            task = cl.Kernel(kernel.get_info(cl.kernel_info.PROGRAM), f"{kernel.function_name}_task")
            return super().run(task, (1,), *arguments, local=(1,))

    files = [
        corpus.file(kind, 50, 37, quality, restart)
        for kind, quality, restart in itertools.product(corpus.SAMPLINGS, (1, 100), RESTARTS)
    ]
    one = Decoder(Tasks()).decode(files)
    many = decoder.decode(files)
    assert all(np.array_equal(a, b) for a, b in zip(one.images, many.images, strict=True))
    assert one.status == many.status


def test_wide_quantisers_extended_frames_and_other_tables_are_decoded(decoder):
    image = corpus.photo(45, 61)
    # Lengths 1, 2, 3 ... in turn: symbols late in the list have codes of 16 bits.
    dc, _, ac, _ = corpus.standard_tables()
    late = bytes([1] * 7 + [0] * 8 + [len(ac) - 16 - 7]) + ac[16:][::-1]
    files = [
        corpus.encode(image, "420", wide=True),
        corpus.encode(image, "422", wide=True, quantiser=np.arange(64) * 40 + 250),
        corpus.encode(image, "444", frame=0xC1),
        corpus.encode(image, "440", tables=[dc] * 2 + [late] * 2),
        corpus.encode(image, "444", factors=[(2, 1)] * 3),
        corpus.encode(image, "444", factors=[(1, 2)] * 3),
        corpus.encode(image, "422", factors=[(2, 2), (1, 2), (1, 2)]),
        corpus.encode(image, "440", factors=[(2, 2), (2, 1), (2, 1)]),
        corpus.encode(image, "grey", factors=[(1, 1)]).replace(bytes([1, 0x11, 0]), bytes([1, 0x22, 0]), 1),
        corpus.progressive(33, 35, optimize=True),
    ]
    assert differing(decoder, files) == []


def test_jfif_adobe_and_names_of_components_decide_the_colours_as_in_libjpeg(decoder):
    image = corpus.photo(20, 20)
    jfif, adobe = corpus.segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"), b"Adobe\0\x64\0\0\0\0"
    headers = [b"", jfif, *(corpus.segment(0xEE, adobe + bytes([t])) for t in (0, 1, 2))]
    headers += [
        jfif + corpus.segment(0xEE, adobe + b"\0"),
        corpus.segment(0xEE, adobe),
        corpus.segment(0xE0, b"JFIF\0"),
    ]
    files = [corpus.encode(image, "444", app=app, ids=ids) for app in headers for ids in ((1, 2, 3), (0, 1, 2), b"RGB")]
    assert differing(decoder, files) == []
    assert {header.parse(f).transform for f in files} == {0, 1}


def test_what_may_stand_around_a_scan_is_passed_over(decoder):
    whole = corpus.file("420", 40, 40, 80)
    files = [
        whole + b"trailing bytes \xff\xd8\xff",
        whole[:-2] + b"\xff\xff\xff\xd9",
        whole[:-2] + corpus.segment(0xFE, b"a word after the scan") + b"\xff\xd9",
        whole[:-2] + b"\xff\xd0\xff\xd9",
        whole[:2] + b"\xff\xff" + whole[2:],
        whole[:2] + corpus.segment(0xE1, b"Exif\0\0" + bytes(3000)) + whole[2:],
    ]
    assert differing(decoder, files) == []


def test_values_beyond_what_an_encoder_writes_wrap_and_saturate_alike(decoder):
    rng = np.random.default_rng(5)
    files = []
    for top in (200, 1023, 1023, 1023):
        for steps in (np.ones(64, int), np.full(64, 255), rng.integers(1, 256, 64), np.full(64, 65535)):
            blocks = [rng.integers(-top, top + 1, (4, 4, 64)) * (rng.random((4, 4, 64)) < d) for d in (0.05, 0.3, 1.0)]
            blocks[1][:, :, 8:] = 0  # the first row alone
            image = np.zeros((32, 32, 3))
            files.append(corpus.encode(image, "rgb", blocks=blocks, quantiser=steps, wide=True))
    assert differing(decoder, files) == []


def test_the_same_input_gives_the_same_output_in_any_company(decoder, monkeypatch):
    from labextras.offload import Decoder
    from labextras.offload.jpeg import decoder as module

    files = [corpus.file(k, 30 + i, 40 - i, 75, i % 3) for i, k in enumerate([*corpus.SAMPLINGS] * 3)]
    first = decoder.decode(files)
    again = decoder.decode(files)
    monkeypatch.setattr(module, "CPU_BLOCKS", 40)
    few = Decoder(decoder.engine).decode(files[::-1])
    for a, b, c in zip(first.images, again.images, few.images[::-1], strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)


def test_pixels_stay_on_the_device_where_the_layout_says(decoder):
    files = [
        corpus.file("420", 37, 22, 90),
        b"no JPEG",
        corpus.progressive(progressive=True),
        corpus.file("grey", 9, 70, 90),
    ]
    images = decoder.decode(files).images
    found = decoder.rgb(files)
    layout = decoder.engine.download(found.layout, np.empty((4, frames.LAYOUT), np.int32))
    flat = decoder.engine.download(found.pixels, np.empty(found.pixels.size, np.uint8))
    assert [bool(s.ok) for s in found.status] == [True, False, False, True]
    assert (layout[1:3] == 0).all()
    for number in (0, 3):
        width, height, _, _, at, stride = layout[number, :6].tolist()
        image = np.lib.stride_tricks.as_strided(flat[at:], (height, width, 3), (stride, 3, 1))
        assert np.array_equal(image, images[number])


def test_other_kinds_are_decoded_on_the_host_counted_and_reported(decoder):
    files = [
        corpus.progressive(progressive=True),
        corpus.file("420", 20, 20, 90),
        corpus.progressive(mode="CMYK"),
        corpus.progressive(mode="L", progressive=True),
        corpus.encode(corpus.photo(40, 40), factors=[(4, 1), (1, 1), (1, 1)]),
        *(corpus.encode(corpus.photo(40, 40), kind, huffman_tables=False) for kind in ("420", "grey")),
    ]
    decoded = decoder.decode(files)
    assert [s.where for s in decoded.status] == ["host", "device"] + ["host"] * 5
    codes = ["progressive", "fine", "components", "progressive", "sampling", "tables", "tables"]
    assert [s.code for s in decoded.status] == codes
    for data, image in zip(files, decoded.images, strict=True):
        assert np.array_equal(image, corpus.expected(data))
    assert str(decoded).splitlines()[:2] == [
        "7 files: 1 decoded on the device, 6 on the host, 0 not decoded",
        "  0: decoded on the host: progressive JPEG (byte 158)",
    ]


def others():
    """Return undamaged files that the host decodes, of every kind and odd sizes."""
    files = []
    for width, height in ((1, 1), (17, 3), (31, 33), (48, 40)):
        files += [corpus.progressive(width, height, progressive=True, subsampling=n) for n in (0, 1, 2)]
        files.append(corpus.progressive(width, height, mode="L", progressive=True))
        files += [corpus.progressive(width, height, mode="CMYK", progressive=p) for p in (False, True)]
    files.append(corpus.progressive(31, 17, progressive=True, quality=30))
    image = corpus.photo(45, 39)
    files += [corpus.encode(image, factors=[f, (1, 1), (1, 1)]) for f in ((4, 1), (1, 4))]
    # The same inks without Adobe's word that they are inverted, and as YCCK.
    for data in files[4:6]:
        for name in (b"Adobe\0\x64\0\0\0\0\2", b"other\0\x64\0\0\0\0\0"):
            assert b"Adobe\0\x64\0\0\0\0\0" in data
            files.append(data.replace(b"Adobe\0\x64\0\0\0\0\0", name))
    return files


def test_the_host_gives_the_pixels_of_tensorflow(decoder):
    decoded = decoder.decode(others())
    assert all(status.where == "host" for status in decoded.status), decoded
    for i, (data, image) in enumerate(zip(others(), decoded.images, strict=True)):
        assert np.array_equal(image, corpus.expected(data)), i


@pytest.mark.parametrize("mode", ["CMYK", "RGB"])
def test_components_of_one_name_give_the_pixels_of_tensorflow(decoder, mode):
    data = bytearray(corpus.progressive(mode=mode))
    count = len(mode)
    frame, scan = data.find(b"\xff\xc0") + 10, data.find(b"\xff\xda") + 5
    data[frame + 3 * count - 3] = data[scan + 2 * count - 2] = data[frame]  # the last one is called as the first one is
    decoded = decoder.decode([bytes(data)])
    assert decoded.status[0].where == "host", decoded
    assert np.array_equal(decoded.images[0], corpus.expected(bytes(data)))


def test_without_simplejpeg_nothing_is_called_clean_and_one_sentence_says_what_to_install(decoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)  # as Python has it where an import fails
    decoded = decoder.decode([corpus.progressive(progressive=True), corpus.file("420", 20, 20, 90)])
    assert decoded.images[0] is None
    assert [s.ok for s in decoded.status] == [False, True]
    assert decoded.status[0].text == (
        "progressive JPEG; the host decodes such files with simplejpeg, which is not installed: pip install simplejpeg"
    )


def test_a_batch_of_nothing_and_of_something_else(decoder):
    assert decoder.decode([]).images == []
    assert str(decoder.decode([])) == "0 files: 0 decoded on the device, 0 on the host, 0 not decoded"
    with pytest.raises(TypeError, match="a list of whole JPEG files, each as bytes"):
        decoder.decode([b"", "photo.jpg"])
