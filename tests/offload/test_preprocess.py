"""The whole work item on a device: against ``tf.image``, against its twin, with damaged files among good ones."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.pipelines import augment
from labkit.reference import fused, resize

pytestmark = pytest.mark.opencl
SIZES = [(1, 1), (37, 53), (224, 224), (3, 700), (120, 1999), (2, 2), (1, 9000), (61, 1)]


@pytest.fixture(scope="module")
def engine():
    from labkit.offload import Engine

    return Engine()


@pytest.fixture(scope="module")
def make(engine):
    """Return preprocessors by their arguments, each made once."""
    from labkit.offload import Preprocessor

    kept = {}

    def make(**arguments):
        key = tuple(sorted(arguments.items()))
        if key not in kept:
            kept[key] = Preprocessor(engine, **arguments)
        return kept[key]

    return make


def noise(sizes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 256, (h, w, 3), np.uint8) for h, w in sizes]


def jpeg(image, **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", **options)
    return file.getvalue()


def smooth(height, width, seed=0):
    """An image of soft colours, none of them near the edge of the range."""
    grid = np.random.default_rng(seed).integers(90, 166, (6, 6, 3), np.uint8)
    return np.asarray(Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC))


def tensorflow(image, size, flip, delta, factor):
    """The naive pipeline's operations, in its order, with given random numbers."""
    import tensorflow as tf

    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [size, size])
    image = tf.image.flip_left_right(image) if flip else image
    image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, delta), factor)
    return tf.clip_by_value(image, 0, 1).numpy()


def decoded(data):
    import tensorflow as tf

    return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()


# -- against TensorFlow -----------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 224, 300])
def test_given_the_same_random_numbers_pixels_are_tensorflows(make, size):
    from labkit.offload.preprocess import TOLERANCE

    images = noise(SIZES)
    batch = make(size=size, augment=True, seed=5).pixels(images, counter=11)
    assert set(batch.draws.flip.tolist()) == {True, False}
    for image, mine, *drawn in zip(images, batch.images, *batch.draws, strict=True):
        np.testing.assert_allclose(mine, tensorflow(image, size, *drawn), atol=TOLERANCE)


def test_whole_files_come_out_as_the_naive_pipeline_makes_them(make, album):
    from labkit.offload.preprocess import TOLERANCE

    files = [open(path, "rb").read() for path in album.paths[:12]]
    batch = make(augment=True, seed=5)(files, counter=3)
    assert all(status.ok for status in batch.status)
    for file, mine, *drawn in zip(files, batch.images, *batch.draws, strict=True):
        np.testing.assert_allclose(mine, tensorflow(decoded(file), 224, *drawn), atol=TOLERANCE)


def test_draws_lie_in_the_ranges_of_the_naive_pipeline(make):
    batch = make(size=1, augment=True).pixels(noise([(1, 1)] * 400), counter=0)
    assert np.abs(batch.draws.delta).max() <= augment.BRIGHTNESS
    assert augment.SATURATION[0] <= batch.draws.factor.min() < batch.draws.factor.max() < augment.SATURATION[1]


@pytest.mark.parametrize("size", [3, 224])
def test_bytes_are_tensorflows_rounded_levels(make, size):
    import tensorflow as tf

    from labkit.offload.preprocess import TOLERANCE_LEVELS

    images = noise([*SIZES, (448, 448), (2 * size, 4 * size)])
    for image, mine in zip(images, make(size=size, dtype="uint8").pixels(images).images, strict=True):
        theirs = tf.cast(tf.round(tf.image.resize(image, [size, size])), tf.uint8).numpy()
        away = np.abs(theirs.astype(int) - mine)
        assert away.max() <= TOLERANCE_LEVELS
        assert (away > 0).mean() < 1e-3


def test_halves_are_rounded_to_the_even_neighbour(make):
    pairs = np.array([[0, 1], [1, 2], [2, 3], [254, 255]], np.uint8)
    images = [np.repeat(pair[None, :, None], 3, -1) for pair in pairs]
    assert make(size=1, dtype="uint8").pixels(images).images[:, 0, 0, 0].tolist() == [0, 2, 2, 254]


# -- against the twins ----------------------------------------------------------------


@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from([1, 16, 47]), st.booleans(), st.integers(0, 2**64 - 1))
@settings(max_examples=20, deadline=None)
def test_the_kernel_equals_its_twin_bit_for_bit(make, height, width, size, augmented, counter):
    images = noise([(height, width)] * 2, seed=height)
    for dtype, ready in (("float32", fused.as_float), ("uint8", fused.as_bytes)):
        batch = make(size=size, dtype=dtype, augment=augmented).pixels(images, counter)
        twins = [ready(fused.preprocess(image, size, batch.draws, i)) for i, image in enumerate(images)]
        np.testing.assert_array_equal(batch.images, twins)


def planes_batch(engine, specs, seed=0, spread=256):
    """Make planes of random samples, their layout, and the same as the twin takes them."""
    generator = np.random.default_rng(seed)
    layout, parts, images, offset = np.zeros((len(specs), 32), np.int32), [], [], 0
    for row, (height, width, components, across, down, transform) in zip(layout, specs, strict=True):
        row[:4], row[6:8] = (width, height, components, transform), (across, down)
        planes = []
        for c in range(components):
            a, d = (1, 1) if c == 0 else (across, down)
            shape, stride = (-(-height // d), -(-width // a)), -(-width // a) + 5
            samples = generator.integers(128 - spread // 2, 128 + spread // 2, (shape[0], stride)).astype(np.uint8)
            row[8 + 8 * c : 14 + 8 * c] = offset, stride, shape[1], shape[0], across // a, down // d
            parts.append(samples.ravel())
            offset += samples.size
            planes.append(fused.Plane(samples[:, : shape[1]], a, d))
        images.append((planes, height, width, bool(transform)))
    return engine.upload(np.concatenate(parts)), engine.upload(layout), layout, images


SPECS = [
    (1, 1, 3, 2, 2, 1), (2, 2, 3, 2, 1, 1), (3, 5, 3, 2, 2, 1), (70, 1999, 3, 1, 2, 1), (13, 2100, 3, 2, 2, 1),
    (100, 77, 1, 1, 1, 0), (64, 48, 3, 1, 1, 0), (8, 5, 3, 2, 2, 1), (7, 6, 3, 2, 2, 1), (51, 9001, 3, 2, 1, 1),
]  # fmt: skip


def run_planes(engine, name, size, augmented, batch):
    """Launch a kernel of the planes path on a batch of `planes_batch`; return what it wrote."""
    from labkit.offload.tables import Tables
    from labkit.reference import random

    pixels, layout, rows, _ = batch
    tables = Tables(engine, size)
    out = np.full((len(rows), size, size, 3), 77, np.uint8 if "bytes" in name else np.float32)
    buffer = engine.upload(out)
    halves = [np.array(random.halves(n, "n"), np.uint32) for n in (7, 9)]
    limits = np.array([augment.BRIGHTNESS, *augment.SATURATION, 0], np.float32)
    arguments = (pixels, layout, tables.jobs(rows, True), tables.first, tables.share, buffer)
    scalars = (np.int32(len(rows)), np.int32(size), np.int32(augmented), *halves, limits)
    extent = (1, 1) if name.endswith("_task") else (size, len(rows))
    engine.run(engine.kernel(name, "preprocess_planes"), extent, *arguments, *scalars, local=(1, 1))
    return engine.download(buffer, out)


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("size", [5, 224, 300])
def test_the_planes_kernel_equals_its_twin_bit_for_bit(engine, size, augmented):
    from labkit.reference import random

    batch = planes_batch(engine, SPECS)
    drawn = random.draws(len(SPECS), 7, 9, augment.BRIGHTNESS, augment.SATURATION) if augmented else None
    twins = [fused.preprocess_planes(p, h, w, size, t, drawn, i) for i, (p, h, w, t) in enumerate(batch[3])]
    for name, ready in (("preprocess_planes", fused.as_float), ("preprocess_planes_bytes", fused.as_bytes)):
        mine = run_planes(engine, name, size, augmented, batch)
        np.testing.assert_array_equal(mine, [ready(twin) for twin in twins])
        np.testing.assert_array_equal(mine, run_planes(engine, f"{name}_task", size, augmented, batch))


def test_the_task_of_the_fused_kernel_gives_the_same(engine, make):
    from labkit.offload import Preprocessor

    images = noise(SIZES[:4])
    for dtype, name in (("float32", "preprocess"), ("uint8", "preprocess_bytes")):
        tasked = Preprocessor(engine, size=40, dtype=dtype, augment=True)
        task = engine.kernel(f"{name}_task", "preprocess")
        run = engine.run
        tasked._kernels[name] = task
        try:
            engine.run = lambda kernel, size, *a, run=run, **k: run(kernel, (1, 1), *a, **k)
            mine = tasked.pixels(images, counter=4).images
        finally:
            del engine.run
        np.testing.assert_array_equal(mine, make(size=40, dtype=dtype, augment=True).pixels(images, counter=4).images)


# -- the planes path against the exact path ------------------------------------------------


def out_of_range(planes):
    """How far the colours of an image's pixels lie outside 0 to 255, at most, levels."""
    height, width = planes[0].samples.shape
    luma, *rest = (p.samples.astype(np.float32) for p in planes)
    for i, plane in enumerate(planes[1:]):
        smoothed = fused.smoothed(plane.samples.shape[1], plane.across)
        for axis, (factor, length) in enumerate(((plane.down, height), (plane.across, width))):
            table = resize.taps(rest[i].shape[axis], factor, length, length, smoothed)
            rest[i] = resize.mix3(rest[i], table, axis)
    cb, cr = (plane - 128 for plane in rest)
    colours = np.stack([luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb])
    return max(0.0, -colours.min(), colours.max() - 255)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("quality", [50, 95])
def test_in_range_the_planes_path_is_within_its_tolerance(make, subsampling, quality):
    from labkit.offload.preprocess import TOLERANCE_PLANES

    sizes = [(75, 101), (224, 224), (375, 500), (33, 700), (2, 3), (1, 1), (5, 4)]
    files = [jpeg(smooth(*s, seed=i), quality=quality, subsampling=subsampling) for i, s in enumerate(sizes)]
    for file in files:  # the law is about colours in range
        assert 5 < decoded(file).min() <= decoded(file).max() < 250
    exact, planes = make()(files), make(path="planes")(files)
    assert all(status.where == "device" for status in [*exact.status, *planes.status])
    away = np.abs(exact.images - planes.images)
    assert away.max() <= TOLERANCE_PLANES
    assert away.max() > 0  # they are two paths


def test_out_of_range_the_planes_path_is_off_by_no_more_than_colours_are(engine, make):
    from labkit.offload.preprocess import TOLERANCE_PLANES

    generator = np.random.default_rng(0)
    vivid = [
        np.kron(generator.integers(0, 2, (30, 40, 3)) * 255, np.ones((k, k, 1))).astype(np.uint8) for k in (1, 3, 8)
    ]
    files = [jpeg(image, quality=90, subsampling="4:2:0") for image in vivid]
    exact, planes = make()(files), make(path="planes")(files)
    away = np.abs(exact.images - planes.images).reshape(len(files), -1).max(1) * 255
    for worst, image, file in zip(away, vivid, files, strict=True):
        beyond = out_of_range(ycbcr(engine, file))
        assert beyond > 20, image.shape  # the worst case is one
        assert worst <= 255 * TOLERANCE_PLANES + beyond


def ycbcr(engine, file):
    """Return the planes of a 4:2:0 file before upsampling."""
    from labkit.offload import Decoder

    found = Decoder(engine).planes([file])
    row = engine.download(found.layout, np.empty((1, 32), np.int32))[0]
    data = engine.download(found.pixels, np.empty(found.pixels.size, np.uint8))
    planes = []
    for at, factor in ((8, 1), (16, 2), (24, 2)):
        start, stride, width, height = row[at : at + 4].tolist()
        samples = np.lib.stride_tricks.as_strided(data[start:], (height, width), (stride, 1)).copy()
        planes.append(fused.Plane(samples, factor, factor))
    return planes


def test_on_photos_the_planes_path_is_a_fraction_of_a_level_off_in_the_mean(make, album):
    from labkit.offload.preprocess import TOLERANCE_PLANES_MEAN

    files = [open(path, "rb").read() for path in album.paths[:32]]
    exact, planes = make()(files), make(path="planes")(files)
    assert np.abs(exact.images - planes.images).mean() < TOLERANCE_PLANES_MEAN


# -- files that are not like the others -------------------------------------------------------


@pytest.mark.parametrize("path", ["exact", "planes"])
def test_a_failed_image_is_zeros_and_harms_no_other(make, path):
    good = [jpeg(smooth(60, 80, seed=i), quality=90) for i in range(3)]
    clean = make(path=path, augment=True)(good, counter=2)
    bad = [good[0][:400], b"", b"no JPEG at all", good[2][:-2]]
    alone = make(path=path, augment=True)([*good, *bad], counter=2)
    np.testing.assert_array_equal(alone.images[:3], clean.images)
    assert not alone.images[3:].any()
    assert [status.ok for status in alone.status] == [True] * 3 + [False] * 4
    assert alone.failed == 4
    assert all(status.text for status in alone.status[3:])


@pytest.mark.parametrize("path", ["exact", "planes"])
def test_what_the_device_does_not_decode_is_decoded_by_the_host_and_counted(make, path):
    from labkit.offload.preprocess import TOLERANCE

    plain, other = smooth(60, 80, seed=1), smooth(90, 70, seed=2)
    files = [jpeg(plain), jpeg(other, progressive=True), jpeg(plain), b"nothing"]
    batch = make(path=path, augment=True)(files, counter=6)
    assert [status.where for status in batch.status] == ["device", "host", "device", "none"]
    assert (batch.fallbacks, batch.failed) == (1, 1)
    drawn = (values[1] for values in batch.draws)
    np.testing.assert_allclose(batch.images[1], tensorflow(decoded(files[1]), 224, *drawn), atol=TOLERANCE)
    assert not batch.images[3].any()
    assert repr(batch) == "Preprocessed(4 images of 224×224, float32, augmented; 1 decoded by the host, 1 failed)"


@pytest.mark.parametrize("path", ["exact", "planes"])
def test_a_batch_of_failures_and_an_empty_one_are_batches(make, path):
    assert not make(path=path)([b"", b"x"]).images.any()
    assert make(path=path)([]).images.shape == (0, 224, 224, 3)
    assert make(path=path)([]).status == []


def test_grey_files_have_three_equal_channels_on_both_paths(make):
    file = jpeg(smooth(50, 70)[..., 0])
    exact, planes = make()([file]).images, make(path="planes")([file]).images
    np.testing.assert_array_equal(exact, planes)
    assert (np.ptp(exact, axis=-1) == 0).all()


# -- the same twice, and memory -----------------------------------------------------------------


def test_the_same_seed_and_counter_give_the_same_batch_and_others_another(engine):
    from labkit.offload import Preprocessor

    images = noise([(40, 60)] * 4)
    first, second = (
        Preprocessor(engine, size=32, augment=True, seed=3),
        Preprocessor(engine, size=32, augment=True, seed=3),
    )
    runs = [first.pixels(images).images.copy() for _ in range(3)]
    np.testing.assert_array_equal(second.pixels(images, counter=2).images, runs[2])
    assert not np.array_equal(runs[0], runs[1])
    other = Preprocessor(engine, size=32, augment=True, seed=4).pixels(images, counter=0)
    assert not np.array_equal(other.images, runs[0])


def test_a_result_that_somebody_holds_is_not_written_again(engine):
    from labkit.offload import Preprocessor

    made = Preprocessor(engine, size=16)
    held = [made.pixels(noise([(20, 20)] * 3, seed=i)).images[1, 2:] for i in range(6)]
    for i, part in enumerate(held):
        twin = fused.as_float(fused.preprocess(noise([(20, 20)] * 3, seed=i)[1], 16))
        np.testing.assert_array_equal(part, twin[2:])


def test_memory_that_nobody_holds_is_used_again(engine):
    from labkit.offload import Preprocessor

    made = Preprocessor(engine, size=16)
    places = {made.pixels(noise([(20, 20)] * 3, seed=i)).images.ctypes.data for i in range(6)}
    assert len(places) <= 2


def test_a_tensor_made_from_a_result_survives_the_next_batches(engine):
    import tensorflow as tf

    from labkit.offload import Preprocessor

    made = Preprocessor(engine, size=16)
    dataset = tf.data.Dataset.range(8).map(
        lambda i: tf.numpy_function(lambda i: made.pixels(noise([(20, 20)] * 3, seed=int(i))).images, [i], tf.float32)
    )
    for i, tensor in enumerate(list(dataset.prefetch(4))):
        twin = fused.as_float(fused.preprocess(noise([(20, 20)] * 3, seed=i)[0], 16))
        np.testing.assert_array_equal(tensor[0], twin)


def test_threads_take_turns(engine):
    from labkit.offload import Preprocessor

    made = Preprocessor(engine, size=24)
    wrong = []

    def work(seed):
        images = noise([(20 + seed, 30)] * 3, seed=seed)
        twin = fused.as_float(fused.preprocess(images[2], 24))
        for _ in range(10):
            if not np.array_equal(made.pixels(images).images[2], twin):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_lengths_than_there_is_room_for_are_told_apart(engine, monkeypatch):
    from labkit.offload import Preprocessor, tables

    monkeypatch.setattr(tables, "CAPACITY", 40)
    made = Preprocessor(engine, size=8)
    for start in range(1, 60, 4):
        images = noise([(start + k, 90 - start - k) for k in range(4)])
        twins = [fused.as_float(fused.preprocess(image, 8)) for image in images]
        np.testing.assert_array_equal(made.pixels(images).images, twins)


def test_the_short_form_is_the_preprocessor(engine, make):
    from labkit.offload import preprocess

    files = [jpeg(smooth(60, 80))]
    short = preprocess(files, size=40, engine=engine, augment=True, seed=2, counter=5)
    np.testing.assert_array_equal(short.images, make(size=40, dtype="uint8", augment=True, seed=2)(files, 5).images)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"size": 0}, "size 0 is not possible: a side has 1 to 4096 pixels"),
        ({"size": 4097}, "size 4097 is not possible"),
        ({"dtype": "float16"}, "dtype 'float16' is not possible: images are float32 or uint8"),
        ({"dtype": "pixels"}, "dtype 'pixels' is not possible"),
        ({"path": "fast"}, "path 'fast' is not possible: there are exact and planes"),
        ({"seed": -1}, "seed -1 is not possible"),
        ({"counter": 2**64}, "counter 18446744073709551616 is not possible"),
        ({"size": "224"}, "size '224' is not possible: a side has 1 to 4096 pixels, a whole number"),
        ({"size": 7.5}, "size 7.5 is not possible"),
        ({"size": 8.0}, "size 8.0 is not possible"),
        ({"size": True}, "size True is not possible"),
        ({"size": [8]}, r"size \[8\] is not possible"),
        ({"path": ["exact"]}, r"path \['exact'\] is not possible"),
        ({"seed": 1.5}, r"seed 1.5 is not possible: a whole number from 0 to 2\*\*64 - 1"),
        ({"seed": False}, "seed False is not possible"),
        ({"counter": "1"}, "counter '1' is not possible"),
        ({"counter": 1.0}, "counter 1.0 is not possible"),
        ({"counter": np.bool_(True)}, "counter .*True.* is not possible"),
    ],
)
def test_arguments_that_are_not_possible_are_told(engine, arguments, sentence):
    from labkit.offload import Preprocessor, preprocess

    with pytest.raises(ValueError, match=sentence):
        Preprocessor(engine, **arguments)
    # Also where an equal number was taken before: to a cache, True is 1.
    preprocess([], engine=engine, size=1)
    with pytest.raises(ValueError, match=sentence):
        preprocess([], engine=engine, **arguments)
    if "counter" in arguments:
        with pytest.raises(ValueError, match=sentence):
            Preprocessor(engine, size=1)([], **arguments)


def test_numbers_and_kinds_of_numpy_are_those_of_python(engine, make):
    from labkit.offload import Preprocessor

    numpys = Preprocessor(engine, np.int64(40), np.dtype(">f4"), "exact", np.bool_(True), np.uint64(2**64 - 1))
    files = [jpeg(smooth(60, 80))]
    made, wanted = numpys(files, np.int32(5)), make(size=40, augment=True, seed=2**64 - 1)(files, 5)
    assert made.images.dtype == np.float32
    np.testing.assert_array_equal(made.images, wanted.images)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (0, 4, 3)])
def test_pixels_that_are_no_rgb_image_are_told(make, shape):
    with pytest.raises(ValueError, match=r"an image is uint8 of shape .*: allowed is uint8, \(height, width, 3\)"):
        make().pixels([np.zeros(shape, np.uint8)])


def test_a_preprocessor_says_what_it_makes(make):
    assert "size=224, dtype='float32', path='planes', augment=True, seed=9)" in repr(
        make(path="planes", augment=True, seed=9)
    )
