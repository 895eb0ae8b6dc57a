"""The compiled float stage computes what tf.image computes, one image and one operation at a time."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from labcourse import ladder
from labkit.pipelines import augment


@pytest.fixture(scope="module")
def numbers():
    """Draws that reach every corner: both flips, both ends of brightness and saturation."""
    flip = np.array([False, True, False, True, True, False, True, False])
    delta = np.linspace(-augment.BRIGHTNESS, augment.BRIGHTNESS, 8, dtype=np.float32)
    factor = np.array([0.5, 1.5, 1.0, 1.5, 0.5, 1.5, 0.75, 1.25], np.float32)
    return flip, delta, factor


def one_by_one(images, numbers):
    """Augment float images in [0, 1] with tf.image: the oracle."""
    import tensorflow as tf

    out = []
    for image, flip, delta, factor in zip(images, *numbers, strict=True):
        image = tf.image.flip_left_right(image) if flip else tf.constant(image)
        image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, delta), factor)
        out.append(tf.clip_by_value(image, 0, 1).numpy())
    return np.stack(out)


@pytest.fixture(scope="module")
def hard():
    """Grey levels with every awkward pixel: black, white, grey, pure colours, ties of the largest channel."""
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (8, 16, 20, 3)).astype(np.uint8)
    corners = [
        (0, 0, 0),
        (255, 255, 255),
        (128, 128, 128),
        (255, 0, 0),
        (0, 255, 255),
        (9, 9, 8),
        (1, 0, 0),
        (0, 0, 30),
    ]
    images[:, 0, : len(corners)] = corners
    return images


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_a_batch_equals_its_images_one_by_one(hard, numbers, dtype, compiled):
    stage = augment.compiled() if compiled else augment.batch
    got = stage(hard.astype(dtype), *numbers).numpy()
    want = one_by_one(hard.astype(np.float32) / 255, numbers)
    assert got.dtype == np.float32
    assert np.abs(got - want).max() <= augment.TOLERANCE_FLOAT32


@pytest.mark.long
@pytest.mark.parametrize(
    ("travels", "tolerance"),
    [("float32", augment.TOLERANCE_FLOAT32), ("float16", augment.TOLERANCE), ("uint8", augment.TOLERANCE_UINT8)],
)
def test_photos_come_out_as_those_of_the_naive_pipeline_within_the_stated_tolerance(album, numbers, travels, tolerance):
    """Decode, resize, travel, augment on a batch, against the naive order: decode, float, resize, augment."""
    import tensorflow as tf

    worst = 0.0
    for start in range(0, 64, 8):
        jpegs = [tf.io.read_file(path) for path in album.paths[start : start + 8]]
        resized = [ladder.shrink(jpeg) for jpeg in jpegs]
        if travels == "uint8":
            resized = [tf.round(image) for image in resized]
        fast = augment.compiled()(tf.stack([tf.cast(image, travels) for image in resized]), *numbers).numpy()
        naive = [
            tf.image.resize(tf.image.convert_image_dtype(ladder.decode(jpeg), tf.float32), [ladder.SIDE, ladder.SIDE])
            for jpeg in jpegs
        ]
        worst = max(worst, np.abs(fast - one_by_one([image.numpy() for image in naive], numbers)).max())
    assert worst <= tolerance
    if travels != "float32":
        assert worst > augment.TOLERANCE_FLOAT32, "rounding on the way must show, or nothing travelled as stated"


def test_draws_are_fair_and_in_range():
    flip, delta, factor = (values.numpy() for values in augment.draws(4000))
    assert 0.45 < flip.mean() < 0.55
    assert np.abs(delta).max() <= augment.BRIGHTNESS
    assert np.abs(delta).max() > 0.95 * augment.BRIGHTNESS
    assert augment.SATURATION[0] <= factor.min() < 0.55
    assert 1.45 < factor.max() <= augment.SATURATION[1]


def test_the_stage_is_one_compiled_cluster(hard, numbers):
    text = augment.compiled().experimental_get_compiler_ir(hard, *numbers)(stage="optimized_hlo")
    entry = text[text.index("ENTRY") :]
    assert "fusion" in text
    assert entry.count("fusion(") <= 3, "a pass over memory each"


def test_in_place_is_its_formula_within_a_rounding(numbers, root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    spec = importlib.util.spec_from_file_location("loaders_benchmark", root / "benchmarks" / "loaders.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    images = np.random.default_rng(5).integers(0, 256, (8, 12, 10, 3), np.uint8)
    for image, flip, delta, factor in zip(images, *numbers, strict=True):
        pixels = image[:, ::-1] if flip else image
        grey = pixels @ [0.299, 0.587, 0.114]
        want = np.clip(grey[..., None] + factor * (pixels - grey[..., None]) + 255 * delta, 0, 255)
        benchmark.in_place(image, flip, delta, factor)
        assert np.abs(image - want).max() <= 0.75, "OpenCV rounds the matrix, too"
