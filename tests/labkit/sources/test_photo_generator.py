"""What is painted and how it is encoded: same seed, same bytes; the shares and statistics that the README states."""

import hashlib
import io
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features

from labkit.common import shipped

generator = shipped.module("data/lab_photos", "generator")
painter = shipped.module("data/lab_photos", "painter")

DIGEST = """
import hashlib, sys
from labkit.common import shipped
generator = shipped.module("data/lab_photos", "generator")
pixels, files = hashlib.sha256(), hashlib.sha256()
for index in map(int, sys.argv[1:]):
    pixels.update(generator.scene(generator.plan(index)).tobytes())
    files.update(generator.make(index))
print(pixels.hexdigest()[:16], files.hexdigest()[:16])
"""
# Photos 0 to 7, 10 (turned) and 107 (large): change these two only together with generator.VERSION.
GOLDEN_PHOTOS = ("0", "1", "2", "3", "4", "5", "6", "7", "10", "107")
GOLDEN_PIXELS, GOLDEN_FILES = "d399a461e73092fb", "583a9fadfc6f462f"


@pytest.fixture(scope="module")
def sample():
    """The first 480 photos as encoded."""
    return [generator.make(index) for index in range(480)]


def digest(*indices, **environment):
    command = [sys.executable, "-c", DIGEST, *indices]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.long
def test_same_seed_gives_the_same_pixels_and_bytes_as_on_the_day_of_release():
    pixels, files = digest(*GOLDEN_PHOTOS)
    assert pixels == GOLDEN_PIXELS
    if features.check("libjpeg_turbo"):
        assert files == GOLDEN_FILES


def test_another_seed_paints_another_picture():
    assert generator.make(3, seed=1) != generator.make(3)


@pytest.mark.long
def test_scales_are_prefixes_and_classes_are_balanced_in_both_splits():
    for count in generator.SCALES.values():
        shots = [generator.plan(index) for index in range(count)]
        for held_out, share in ((True, 1 / 8), (False, 7 / 8)):
            per_class = Counter(shot.label for shot in shots if shot.held_out == held_out)
            assert set(per_class.values()) == {count // 10 * share}
            assert len(per_class) == len(generator.CLASSES) == 10


@pytest.mark.long
def test_shares_are_those_that_the_readme_states():
    shots = [generator.plan(index) for index in range(generator.SCALES["full"])]

    def share(condition):
        return sum(map(condition, shots)) / len(shots)

    for sampling, stated in (("4:2:0", 0.84), ("4:4:4", 0.07), ("4:2:2", 0.05), ("grey", 0.04)):
        assert share(lambda shot, s=sampling: shot.sampling == s) == pytest.approx(stated, abs=0.01)
    assert share(lambda shot: bool(shot.restart_rows)) == pytest.approx(0.03, abs=0.01)
    assert share(lambda shot: shot.progressive) == pytest.approx(0.03, abs=0.01)
    assert share(lambda shot: shot.orientation != 1) == pytest.approx(0.05, abs=0.01)
    assert share(lambda shot: max(shot.width, shot.height) == 500) == pytest.approx(0.78, abs=0.015)
    assert share(lambda shot: shot.height > shot.width) == pytest.approx(0.25 * 0.96, abs=0.015)
    assert np.mean([shot.width * shot.height for shot in shots]) == pytest.approx(500 * 375, rel=0.1)


def test_even_the_tiny_scale_has_every_kind_of_file():
    shots = [generator.plan(index) for index in range(generator.SCALES["tiny"])]
    assert {shot.sampling for shot in shots} == {"4:2:0", "4:4:4", "4:2:2", "grey"}
    assert any(shot.restart_rows for shot in shots)
    assert any(shot.progressive for shot in shots)
    assert {shot.orientation for shot in shots} >= {1, 6, 8}


@pytest.mark.long
def test_files_are_encoded_as_planned(sample):
    layers = {"4:2:0": (2, 2), "4:2:2": (2, 1), "4:4:4": (1, 1)}
    for index, data in enumerate(sample):
        shot, image = generator.plan(index), Image.open(io.BytesIO(data))
        assert image.size == (shot.width, shot.height)
        assert image.mode == ("L" if shot.sampling == "grey" else "RGB")
        if shot.sampling != "grey":
            assert image.layer[0][1:3] == layers[shot.sampling]
        assert bool(image.info.get("progressive")) == shot.progressive
        assert (b"\xff\xdd\x00\x04" in data[:4000]) == bool(shot.restart_rows)
        assert image.getexif().get(0x0112, 1) == shot.orientation


def test_a_turned_photo_stands_upright_once_its_tag_is_obeyed():
    from PIL import ImageOps

    index = next(i for i in range(1000) if generator.plan(i).orientation == 6)
    shot = generator.plan(index)
    upright = generator.scene(shot._replace(orientation=1, width=shot.height, height=shot.width))
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(generator.make(index))))
    grey = [np.asarray(image.convert("L"), float) for image in (upright, shown)]
    assert np.corrcoef(grey[0].ravel(), grey[1].ravel())[0, 1] > 0.98


@pytest.mark.long
def test_an_average_file_is_as_large_as_an_imagenet_record(sample):
    sizes = np.array([len(data) for data in sample])
    assert sizes.mean() == pytest.approx(115_000, rel=0.1)
    assert np.percentile(sizes, 95) > 3 * np.percentile(sizes, 5)


def amplitude_slope(luma):
    """Slope of log amplitude over log frequency, averaged over directions, from 4 cycles a picture to 0.4 a pixel."""
    side = min(luma.shape) // 2 * 2
    window = np.hanning(side)
    power = np.abs(np.fft.fft2((luma[:side, :side] - luma.mean()) * window * window[:, None])) ** 2
    away = np.fft.fftfreq(side, 1 / side)
    ring = np.hypot(away, away[:, None]).round().astype(int).ravel()
    radial = np.bincount(ring, power.ravel()) / np.bincount(ring)
    frequency = np.arange(4, int(0.4 * side))
    return np.polyfit(np.log(frequency), np.log(radial[frequency]), 1)[0] / 2


@pytest.mark.long
def test_amplitude_falls_as_one_over_frequency_as_in_natural_scenes(sample):
    slopes = [amplitude_slope(np.asarray(Image.open(io.BytesIO(data)).convert("L"), float)) for data in sample[:80]]
    assert -1.2 < np.mean(slopes) < -1.0
    assert min(slopes) > -1.5
    assert max(slopes) < -0.8


@pytest.mark.long
def test_tensorflow_decodes_every_kind_of_file_to_the_pixels_that_pillow_sees(sample):
    import tensorflow as tf

    kinds = {}
    for index in range(160):
        shot = generator.plan(index)
        kinds[shot.sampling, shot.restart_rows, shot.progressive, shot.orientation] = sample[index]
    for data in kinds.values():
        ours = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
        np.testing.assert_array_equal(ours, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize(("index", "seed"), [(-1, 0), (0, -1), (1.5, 0), ("3", 0)])
def test_a_number_that_cannot_be_one_is_refused_by_name(index, seed):
    with pytest.raises(ValueError, match=r"(index|seed) is .*; it must be a whole number"):
        generator.plan(index, seed)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 640), st.integers(0, 640)), min_size=3, max_size=3, unique=True))
def test_coverage_of_a_triangle_adds_up_to_its_area(corners):
    (x0, y0), (x1, y1), (x2, y2) = corners
    area = abs((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)) / 2 / 256
    covered = painter.coverage(np.array(corners), 40, 40)
    # Four lines a pixel: a corner between two lines is off by at most its own small triangle.
    assert covered.min() >= 0
    assert covered.max() <= 64
    assert covered.sum() / 64 == pytest.approx(area, abs=12)


def test_every_shape_fills_a_fair_part_of_its_square():
    for name, shape in painter.SHAPES.items():
        outlines = [painter.placed(part, 0, False, 100) + 800 for _, part in shape.parts]
        whole = np.maximum.reduce([painter.coverage(outline, 100, 100) for outline in outlines])
        assert 0.1 < whole.mean() / 64 < 0.75, name


def test_library_versions_do_not_enter_the_seed():
    draws = painter.Dice(1, 2, 3)
    words = [draws.below(1000) for _ in range(4)]
    assert words == [670, 111, 511, 356]
    assert hashlib.sha256(painter.Dice(5).noise(3, 7).tobytes()).hexdigest()[:8] == "673b975f"
