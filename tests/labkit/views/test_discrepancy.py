"""Differences of pixels are counted in grey levels; OpenCV's formula is OpenCV's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        discrepancy.gallery({str(i): picture() for i in range(13)}, title="many")


def test_a_gallery_has_up_to_twelve_images_in_rows_of_four_and_no_page_shows_a_negative():
    images = {f"photo {i}": picture(seed=i) for i in range(12)}
    shown = discrepancy.gallery(images, title="Twelve")
    boxes = [axes.get_position() for axes in shown.figure().axes]
    assert len({round(box.x0, 6) for box in boxes}) == 4
    assert len({round(box.y0, 6) for box in boxes}) == 3
    assert [box.y0 for box in boxes] == sorted((box.y0 for box in boxes), reverse=True), "row by row"
    page = shown.html()
    assert page.count(' labkit-photo"') == 2, "a negative of a photo is no dark picture: there are both"
    assert ".labkit-light:only-of-type:not(.labkit-photo)" in page, "what the page inverts holds no photos"


def test_a_gallery_tells_what_it_shows_in_words():
    dark = picture() // 4
    shown = discrepancy.gallery({"dark": dark, "float": dark / np.float32(255)}, title="Two", note="The same.")
    assert shown.text.count(f"mean {dark.mean():.0f}, deviation {dark.std():.0f}") == 2
    assert "dark; float" in shown.alt
    assert shown.png() == shown.png()


def test_frames_are_drawn_on_a_copy_along_the_edges_of_their_boxes():
    image = np.zeros((50, 100, 3), np.uint8)
    framed = discrepancy.framed(image, [[0.1, 0.2, 0.5, 0.8], [0.9, 0.0, 0.93, 0.04]])
    assert not image.any()
    assert framed[10:40, 10:50].any(-1).sum() == 30 * 40 - 22 * 32
    assert framed.any(-1).sum() == 30 * 40 - 22 * 32 + 2 * 3, "a box without an inside is full"
