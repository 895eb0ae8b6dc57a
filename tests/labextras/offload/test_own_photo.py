"""A photo of the reader's own: whatever is a whole JPEG can be taken apart, and anything else is one sentence."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from labextras.offload import twins
from labextras.offload.jpeg import huffman


def photo(mode="RGB", size=(75, 50), kind="JPEG", **how):
    """Return a file of noise that is smooth enough to be a photo."""
    levels = np.random.default_rng(5).integers(0, 256, (9, 9, 4), np.uint8)
    image = Image.merge("CMYK", [Image.fromarray(part) for part in np.moveaxis(levels, -1, 0)]).resize(size)
    image.convert(mode).save(made := io.BytesIO(), kind, **how)
    return made.getvalue()


def opened(folder, data):
    path = folder / "mine.jpg"
    path.write_bytes(data)
    return twins.open_photo(str(path))


def test_a_baseline_file_is_taken_as_it_is(tmp_path):
    data = photo(quality=80, subsampling=0)
    assert opened(tmp_path, data) == (data, "mine.jpg is taken as it is")


OTHERS = {
    "progressive": (photo(progressive=True), "is another kind of JPEG (progressive JPEG"),
    "grey": (photo("L"), "has no planes Y, Cb and Cr"),
    "red, green, blue": (photo(keep_rgb=True), "has no planes Y, Cb and Cr"),
    "four inks": (photo("CMYK"), "is another kind of JPEG (CMYK"),
    "large": (photo(size=(1300, 900)), "has 1300×900 pixels"),
}


@pytest.mark.parametrize(("data", "why"), OTHERS.values(), ids=OTHERS)
def test_another_kind_is_stored_anew_and_the_twins_decode_it_exactly(data, why, tmp_path):
    made, words = opened(tmp_path, data)
    assert why in words
    frame, bits = twins.scan(made)
    assert f"stored anew as a baseline JPEG of {frame.width}×{frame.height} pixels" in words
    assert max(frame.width, frame.height) <= 640
    assert len(frame.components) == 3
    steps = [huffman.natural(part.quantiser) for part in frame.components]
    planes = [twins.jpeg_idct(*pair) for pair in zip(twins.jpeg_entropy(bits, frame), steps, strict=True)]
    exact = tf.io.decode_jpeg(made, 3, dct_method="INTEGER_ACCURATE").numpy()
    assert np.array_equal(twins.jpeg_color(planes, frame), exact)
    if exact.shape == (50, 75, 3):
        assert np.abs(exact - tf.io.decode_jpeg(data, 3).numpy().astype(float)).mean() < 9, "it is the same photo"


REFUSED = {
    "cut": (photo(quality=95)[:-400], "the JPEG is damaged: "),
    "cut, progressive": (photo(progressive=True)[:-400], "(progressive JPEG), and Pillow does not decode it: "),
    "empty": (b"", "the file is empty; allowed: a whole JPEG"),
    "PNG": (photo(kind="PNG"), "this is a PNG file, not a JPEG; allowed: a whole JPEG"),
    "tiny": (photo(size=(75, 12)), "has 75×12 pixels; allowed: 16 or more, both ways"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_taken_apart_is_refused_in_one_sentence(data, words, tmp_path):
    with pytest.raises(ValueError, match=r"mine\.jpg") as error:
        opened(tmp_path, data)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
