"""Each kernel against its NumPy twin, bit for bit, and against TensorFlow; the index against the folder."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labextras.offload import twins as reference
from labextras.offload.twins import random_numbers, resize

ROUNDING = 1e-5
sides = st.integers(1, 40)
seeds = st.integers(0, 2**64 - 1)
few = settings(max_examples=25)


@pytest.fixture(scope="module")
def engine():
    from labextras.offload import Engine

    return Engine()


def launch(engine, name, size, out, *arguments):
    """Run a kernel and its task on the same arguments; see that they agree; return what they wrote."""
    file = re.sub("(_per_pixel)?(_task)?$", "", name)
    given = [engine.upload(a) if isinstance(a, np.ndarray) and a.ndim else a for a in arguments]
    written = []
    for kernel, extent in ((name, size), (f"{name}_task", (1,) * len(size))):
        # A part that nobody writes would show: it is not a number.
        buffer = engine.upload(np.full_like(out, np.nan))
        engine.run(engine.kernel(kernel, file), extent, given[0], buffer, *given[1:], local=(1,) * len(size))
        written.append(engine.download(buffer, np.empty_like(out)))
    np.testing.assert_array_equal(*written)
    return written[0]


def words(number):
    from pyopencl import cltypes

    return cltypes.make_uint2(*random_numbers.halves(number, "number"))


def photos(shape, seed=0):
    return np.random.default_rng(seed).random(shape, np.float32)


# -- the generator ---------------------------------------------------------------


def test_the_generator_gives_the_words_that_its_authors_publish():
    # kat_vectors of Random123: counter, key, result.
    known = [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for counter, key, result in known:
        counter, key, result = ([int(word, 16) for word in text.split()] for text in (counter, key, result))
        assert random_numbers.philox(np.array(counter, np.uint32), tuple(key)).tolist() == result


@given(seeds, st.integers(0, 2**63 - 1))
@few
def test_the_generator_is_tensorflows(seed, counter):
    import tensorflow as tf

    place = tf.constant([counter, 7 + (5 << 32)], tf.uint64)
    theirs = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[4], key=tf.constant([seed], tf.uint64), counter=place, alg=1, dtype=tf.uint32
    )
    assert random_numbers.words(seed, counter, np.array(7), 5).tolist() == theirs.numpy().tolist()


def test_what_is_drawn_spreads_over_its_range_and_images_differ():
    drawn = random_numbers.draws(4000, 1, 2, 0.25, (0.5, 1.5))
    assert 0.45 < drawn.flip.mean() < 0.55
    for values, low, high in ((drawn.delta, -0.25, 0.25), (drawn.factor, 0.5, 1.5)):
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() < high
        assert len(np.unique(values)) > 3990
    assert abs(np.corrcoef(drawn.delta, drawn.factor)[0, 1]) < 0.06
    assert not np.array_equal(drawn.delta, random_numbers.draws(4000, 1, 3, 0.25, (0.5, 1.5)).delta)
    assert not np.array_equal(drawn.delta, random_numbers.draws(4000, 2, 2, 0.25, (0.5, 1.5)).delta)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_seed_or_counter_beyond_64_bits_is_refused(number):
    with pytest.raises(ValueError, match=f"seed is {number}; allowed"):
        random_numbers.draws(1, number, 0, 0.1, (0.5, 1.5))
    with pytest.raises(ValueError, match=f"counter is {number}; allowed"):
        random_numbers.draws(1, 0, number, 0.1, (0.5, 1.5))


# -- resize ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.opencl
@given(sides, sides, sides, sides, st.integers(0, 99))
@few
def test_resize_equals_its_twin_and_tensorflow(engine, in_height, in_width, out_height, out_width, seed):
    import tensorflow as tf

    plane = np.random.default_rng(seed).integers(0, 256, (in_height, in_width), np.uint8)
    scales = np.float32(in_height) / np.float32(out_height), np.float32(in_width) / np.float32(out_width)
    lengths = (np.int32(n) for n in (in_height, in_width, out_height, out_width))
    out = np.empty((out_height, out_width), np.float32)
    mine = launch(engine, "resize_bilinear", (out_width, out_height), out, plane, *lengths, *scales)
    np.testing.assert_array_equal(mine, reference.resize_bilinear(plane, out_height, out_width))
    theirs = tf.image.resize(plane[..., None], [out_height, out_width]).numpy()[..., 0]
    np.testing.assert_allclose(mine / 255, theirs / 255, atol=ROUNDING)


@pytest.mark.parametrize(
    ("before", "after"),
    [((1, 1), (224, 224)), ((375, 500), (224, 224)), ((2, 9001), (5, 224)), ((300, 1), (1, 300)), ((7, 5), (7, 5))],
)
def test_the_twin_of_resize_is_tensorflows_on_sizes_of_photos_and_odd_ones(before, after):
    import tensorflow as tf

    image = np.random.default_rng(0).integers(0, 256, (*before, 3), np.uint8)
    theirs = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), after).numpy()
    np.testing.assert_allclose(reference.resize_bilinear(image, *after) / 255, theirs, atol=ROUNDING)


@given(st.integers(1, 300), st.integers(1, 300))
@few
def test_shares_lie_between_0_and_1_and_point_inside(n_in, n_out):
    table = resize.pairs(n_in, n_out)
    assert ((table.share >= 0) & (table.share <= 1)).all()
    assert ((table.first >= 0) & (table.first <= max(n_in - 2, 0))).all()
    assert (np.diff(table.first) >= 0).all()


# -- augmentation ------------------------------------------------------------------


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("random_flip", ()),
        ("random_brightness", (0.125,)),
        ("random_brightness_per_pixel", (0.125,)),
        ("random_saturation", (0.5, 1.5)),
    ],
)
@given(st.integers(1, 5), sides, sides, seeds, seeds)
@settings(max_examples=10)
def test_each_augmentation_equals_its_twin(engine, name, limits, n, height, width, seed, counter):
    images = photos((n, height, width, 3)) * 1.25 - np.float32(0.125)  # as brightness leaves them
    images[:, ::3] = images[:, ::3, :, :1]  # grey rows, too
    counts, items = ((n, height, width), height) if name == "random_flip" else ((n, height * width), height * width)
    given = *map(np.int32, counts), words(seed), words(counter), *map(np.float32, limits)
    mine = launch(engine, name, (items, n), images, images, *given)
    np.testing.assert_array_equal(mine, getattr(reference, name)(images, seed, counter, *limits))


def test_brightness_per_pixel_is_noise():
    images = photos((3, 20, 30, 3))
    added = reference.random_brightness_per_pixel(images, 1, 2, 0.125) - images
    assert (np.ptp(added, axis=-1) < 1e-6).all()  # the three values of a pixel get one number
    assert (added[..., 0].reshape(3, -1).std(1) > 0.04).all()  # and pixels differ: 0.125 / √3 is 0.072


def test_twins_of_augmentations_are_tensorflows():
    import tensorflow as tf

    images = photos((6, 5, 7, 3))
    drawn = random_numbers.draws(6, 3, 4, 0.125, (0.5, 1.5))
    assert set(drawn.flip.tolist()) == {True, False}
    mine = [reference.random_flip(images, 3, 4), reference.random_brightness(images, 3, 4, 0.125)]
    mine.append(reference.random_saturation(images, 3, 4, 0.5, 1.5))
    for image, flipped, bright, coloured, flip, delta, factor in zip(images, *mine, *drawn, strict=True):
        np.testing.assert_array_equal(flipped, tf.image.flip_left_right(image) if flip else image)
        np.testing.assert_array_equal(bright, tf.image.adjust_brightness(image, delta))
        theirs = tf.clip_by_value(tf.image.adjust_saturation(image, factor), 0, 1)
        np.testing.assert_allclose(np.clip(coloured, 0, 1), theirs, atol=ROUNDING)


@pytest.mark.opencl
@pytest.mark.parametrize("delta", [-0.4, 0.0, 0.125, 2.0])
def test_normalize_and_clip_equals_its_twin(engine, delta):
    levels = np.arange(256, dtype=np.uint8)
    out = np.empty(256, np.float32)
    mine = launch(engine, "normalize_clip", (256,), out, levels, np.float32(delta), np.int32(256))
    np.testing.assert_array_equal(mine, reference.normalize_clip(levels, delta))
    assert mine.min() >= 0
    assert mine.max() <= 1


# -- the folder ----------------------------------------------------------------------


#: Attributes may stand on either side of `void`.
ATTRIBUTE = r"(?:__attribute__\s*\(\(.*?\)\)\)?\s+)?"


def kernels_of(text):
    """Return the kernels of a file: name → its arguments as (type, name)."""
    found = {}
    pattern = rf"__kernel\s+{ATTRIBUTE}void\s+{ATTRIBUTE}(\w+)\s*\((.*?)\)"
    for name, inside in re.findall(pattern, text, re.S):
        arguments = [re.sub(r"\b(restrict|__global|__restrict)\b", "", a).split() for a in inside.split(",")]
        found[name] = [(re.sub(r"\W|const", "", " ".join(a)[: -len(a[-1])]), a[-1].lstrip("*")) for a in arguments]
    return found


@pytest.fixture(scope="module")
def sources(root):
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((root / "kernels").glob("*.cl"))}


def test_the_index_names_every_kernel_and_no_other(root, sources):
    index = (root / "kernels" / "README.md").read_text(encoding="utf-8")
    rows = {}
    for file, kernels in re.findall(r"^\| \[`(\w+)\.cl`\]\(\w+\.cl\) \| (.*?) \|", index, re.M):
        rows[file] = set(re.findall(r"`(\w+)`", kernels))
    there = {file: {k for k in kernels_of(text) if not k.endswith("_task")} for file, text in sources.items()}
    assert rows == there


def test_the_index_gives_every_signature(root, sources):
    index = (root / "kernels" / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^    (\w+)\((.*?)\)$", index, re.M))
    for text in sources.values():
        for name, arguments in kernels_of(text).items():
            if not name.endswith("_task"):
                assert listed.pop(name, None) == ", ".join(argument for _, argument in arguments), name
    assert not listed


def test_each_kernel_has_a_task_of_the_same_signature(sources):
    for file, text in sources.items():
        found = kernels_of(text)
        assert found, file
        for name in found:
            if not name.endswith("_task"):
                assert found.get(f"{name}_task") == found[name], f"{file}.cl: {name} and {name}_task"


def test_each_file_explains_itself_and_stands_alone(sources):
    for file, text in sources.items():
        head = text[: text.index("*/")]
        assert head.startswith(f"/* {file}: "), file
        for part in ("Formula", "argument", "direction", "Launch", "Pipelined"):
            assert part in head, f"{file}.cl does not say its {part}"
        for name, arguments in kernels_of(text).items():
            for _, argument in arguments:
                assert re.search(rf"^ \* {argument}\b", head, re.M), f"{file}.cl: {name} takes {argument}, unexplained"
        assert "#include" not in text, file


@pytest.mark.long
@pytest.mark.opencl
def test_each_file_compiles_alone(engine, sources):
    for file, text in sources.items():
        program = engine.build(text, f"{file}.cl", "-cl-std=CL1.2")
        assert set(program.kernel_names.split(";")) == set(kernels_of(text)), file


def test_every_kernel_has_a_twin(sources):
    # Of `…_bytes` and its sister it is one: `labextras.offload.twins.preprocess`.
    kernels = {re.sub("(_bytes)?(_task)?$", "", name) for text in sources.values() for name in kernels_of(text)}
    assert kernels <= set(reference.__all__)


# -- one launch, one kernel ----------------------------------------------------------


@pytest.mark.long
@pytest.mark.opencl
def test_a_kernel_launched_alone_equals_its_twin():
    from labextras import offload

    levels, images = np.arange(7 * 5, dtype=np.uint8).reshape(7, 5) * 7, photos((2, 4, 3, 3))
    for name, arguments in {
        "resize_bilinear": (levels, 4, 9),
        "random_brightness": (images, 8, 3, 0.125),
        "normalize_clip": (levels, 0.2),
    }.items():
        np.testing.assert_array_equal(getattr(offload, name)(*arguments), getattr(reference, name)(*arguments), name)
