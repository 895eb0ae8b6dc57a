"""Differences of pixels are counted in grey levels; OpenCV's formula is OpenCV's."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labkit.common.palette import THEMES
from labkit.views import discrepancy


def picture(height=24, width=30, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_equal_images_are_no_level_apart():
    found = discrepancy.between(picture(), picture())
    assert found == (0, 0, 0, 0)
    assert "differing 0.0%" in str(found)


@given(levels=st.integers(1, 50))
def test_a_shift_is_as_large_as_it_is(levels):
    a = picture() // 2
    found = discrepancy.between(a, a + np.uint8(levels))
    assert found == (levels, levels, 1, float(levels > 1))


def test_floats_are_shares_of_255_levels_and_bytes_are_levels():
    a = picture()
    assert discrepancy.between(a, a / 255).largest < 1e-9
    assert discrepancy.between(np.float32([0.0]), np.float32([1.0])).largest == 255
    assert discrepancy.between(np.uint8([3]), np.uint8([250])).largest == 247, "bytes do not wrap around"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match=r"a has shape \(24, 30, 3\), b \(24, 31, 3\)"):
        discrepancy.between(picture(), picture(width=31))
    with pytest.raises(ValueError, match="0 images were given; allowed: 1 to 12"):
        discrepancy.gallery({}, title="none")
    with pytest.raises(ValueError, match="13 images"):
        discrepancy.differences({str(i): (picture(), picture()) for i in range(13)}, title="many")


def test_a_difference_image_is_empty_where_images_agree_and_dark_where_they_do_not():
    a, b = picture(), picture()
    b[:, :15] ^= 128
    shown = discrepancy.differences({"half": (a, b), "equal": (a, a)}, title="Two")
    assert "max 128" in shown.text
    assert "equal   max 0" in shown.text
    assert "half: largest difference 128" in shown.alt
    assert "equal: largest difference 0." in shown.alt
    drawn = np.asarray(Image.open(io.BytesIO(shown.png("light"))).convert("L")).astype(int)
    body = drawn[100:-60]
    left, middle, right = (body[:, int(1000 * x)] for x in (0.15, 0.35, 0.75))
    assert left.min() < 60, "full colour where the images differ"
    assert np.abs(middle[60:-60] - right[60:-60]).max() < 20, "the same bed where they agree"
    assert shown.png("dark") != shown.png("light")


@pytest.mark.parametrize("look", THEMES.values(), ids=THEMES)
def test_the_colours_of_a_difference_image_are_those_that_its_words_name(look):
    """In both themes, and in a page that inverts: page and words are inverted, too."""
    a, b = picture() // 2, picture() // 2
    b[:, 15:] += 4
    shown = discrepancy.differences({"half": (a, b)}, title="One", levels=4)
    figure = shown.figure(look.name)
    (axes,) = figure.axes
    colours = axes.images[0].to_rgba(axes.images[0].get_array(), bytes=True)[..., :3]
    equal, apart = (tuple(bytes.fromhex(colour[1:])) for colour in (look.background, look.ink))
    assert {tuple(pixel) for pixel in colours[:, :15].reshape(-1, 3)} == {equal}
    assert {tuple(pixel) for pixel in colours[:, 15:].reshape(-1, 3)} == {apart}
    (note,) = (text.get_text() for text in figure.texts if "equal" in text.get_text())
    assert note.startswith("the page's colour = equal, that of the words = 4 or more grey levels apart")
    assert not {"white", "black"} & set(note.split())


def test_a_gallery_has_up_to_twelve_images_in_rows_of_four_and_no_page_shows_a_negative():
    images = {f"photo {i}": picture(seed=i) for i in range(12)}
    shown = discrepancy.gallery(images, title="Twelve")
    boxes = [axes.get_position() for axes in shown.figure().axes]
    assert len({round(box.x0, 6) for box in boxes}) == 4
    assert len({round(box.y0, 6) for box in boxes}) == 3
    assert [box.y0 for box in boxes] == sorted((box.y0 for box in boxes), reverse=True), "row by row"
    page = shown.html(both=False)
    assert 'src="data:image/jpeg' in page
    assert '.labkit-light:only-of-type:not([src^="data:image/jpeg"])' in page, "what the page inverts is no JPEG"


def test_a_gallery_tells_what_it_shows_in_words():
    dark = picture() // 4
    shown = discrepancy.gallery({"dark": dark, "float": dark / np.float32(255)}, title="Two", note="The same.")
    assert shown.text.count(f"mean {dark.mean():.0f}, deviation {dark.std():.0f}") == 2
    assert "dark; float" in shown.alt
    assert shown.png() == shown.png()


@pytest.mark.parametrize("size", [(24, 30), (12, 15), (48, 60), (7, 100), (1, 1), (24, 1)])
def test_the_formula_is_within_a_rounding_of_half_pixel_bilinear(size, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cv2", None)
    image = picture()
    made, source = discrepancy.opencv_linear(image, *size)
    assert "not installed" in source
    from labextras.offload.twins import resize_bilinear

    assert made.dtype == np.uint8
    assert np.abs(made - resize_bilinear(image, *size)).max() < 1.1
    if size == (24, 30):
        assert np.array_equal(made, image)


def test_the_formula_is_opencvs_where_opencv_is_installed(monkeypatch):
    import sys

    image = picture(101, 67)
    made, source = discrepancy.opencv_linear(image, 40, 81)
    monkeypatch.setitem(sys.modules, "cv2", None)
    formula, _ = discrepancy.opencv_linear(image, 40, 81)
    assert np.abs(made.astype(int) - formula).max() <= 1
    assert source.startswith("OpenCV")


def test_frames_are_drawn_on_a_copy_along_the_edges_of_their_boxes():
    image = np.zeros((50, 100, 3), np.uint8)
    framed = discrepancy.framed(image, [[0.1, 0.2, 0.5, 0.8], [0.9, 0.0, 0.93, 0.04]])
    assert not image.any()
    assert framed[10:40, 10:50].any(-1).sum() == 30 * 40 - 22 * 32
    assert framed.any(-1).sum() == 30 * 40 - 22 * 32 + 2 * 3, "a box without an inside is full"
