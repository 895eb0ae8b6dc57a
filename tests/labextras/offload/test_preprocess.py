"""The whole work item on a device: against ``tf.image``, against its twin, with damaged files among good ones."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labextras.offload import twins

pytestmark = pytest.mark.opencl
SIZES = [(1, 1), (37, 53), (224, 224), (3, 700), (120, 1999), (2, 2), (1, 9000), (61, 1)]


@pytest.fixture(scope="module")
def engine():
    from labextras.offload import Engine

    return Engine()


@pytest.fixture(scope="module")
def make(engine):
    """Return preprocessors by their arguments, each made once."""
    from labextras.offload import Preprocessor

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


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [1, 7, 224, 300])
def test_given_the_same_random_numbers_pixels_are_tensorflows(make, size):
    from labextras.offload.preprocessor import TOLERANCE

    images = noise(SIZES)
    batch = make(size=size, augment=True, seed=5).pixels(images, counter=11)
    drawn_for_all = twins.draws(len(images), 5, 11)
    assert set(drawn_for_all.flip.tolist()) == {True, False}
    for image, mine, *drawn in zip(images, batch.images, *drawn_for_all, strict=True):
        np.testing.assert_allclose(mine, tensorflow(image, size, *drawn), atol=TOLERANCE)


@pytest.mark.long
def test_whole_files_come_out_as_the_naive_pipeline_makes_them(make, album):
    from labextras.offload.preprocessor import TOLERANCE

    files = [open(path, "rb").read() for path in album.paths[:12]]
    batch = make(augment=True, seed=5)(files, counter=3)
    assert all(status.ok for status in batch.status)
    for file, mine, *drawn in zip(files, batch.images, *twins.draws(12, 5, 3), strict=True):
        np.testing.assert_allclose(mine, tensorflow(decoded(file), 224, *drawn), atol=TOLERANCE)


@pytest.mark.parametrize("size", [3, 224])
def test_bytes_are_tensorflows_rounded_levels(make, size):
    import tensorflow as tf

    from labextras.offload.preprocessor import TOLERANCE_LEVELS

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
@settings(max_examples=20)
def test_the_kernel_equals_its_twin_bit_for_bit(make, height, width, size, augmented, counter):
    images = noise([(height, width)] * 2, seed=height)
    drawn = twins.draws(2, 0, counter) if augmented else None
    for dtype in ("float32", "uint8"):
        batch = make(size=size, dtype=dtype, augment=augmented).pixels(images, counter)
        wanted = [twins.preprocess(image, size, dtype, drawn, i) for i, image in enumerate(images)]
        np.testing.assert_array_equal(batch.images, wanted)


@pytest.mark.long
def test_the_task_of_the_fused_kernel_gives_the_same(engine, make):
    from labextras.offload import Preprocessor

    images = noise(SIZES[:4])
    for dtype, name in (("float32", "preprocess"), ("uint8", "preprocess_bytes")):
        tasked = Preprocessor(engine, size=40, dtype=dtype, augment=True)
        task = engine.kernel(f"{name}_task", "preprocess")
        run = engine.run
        tasked.kernel = task
        try:
            engine.run = lambda kernel, size, *a, run=run, **k: run(kernel, (1, 1), *a, **k)
            mine = tasked.pixels(images, counter=4).images
        finally:
            del engine.run
        np.testing.assert_array_equal(mine, make(size=40, dtype=dtype, augment=True).pixels(images, counter=4).images)


# -- files that are not like the others -------------------------------------------------------


def test_a_failed_image_is_zeros_and_harms_no_other(make):
    good = [jpeg(smooth(60, 80, seed=i), quality=90) for i in range(3)]
    clean = make(augment=True)(good, counter=2)
    bad = [good[0][:400], b"", b"no JPEG at all", good[2][:-2]]
    alone = make(augment=True)([*good, *bad], counter=2)
    np.testing.assert_array_equal(alone.images[:3], clean.images)
    assert not alone.images[3:].any()
    assert [status.ok for status in alone.status] == [True] * 3 + [False] * 4
    assert all(status.text for status in alone.status[3:])


def test_what_the_device_does_not_decode_is_decoded_by_the_host_and_counted(make):
    from labextras.offload.preprocessor import TOLERANCE

    plain, other = smooth(60, 80, seed=1), smooth(90, 70, seed=2)
    files = [jpeg(plain), jpeg(other, progressive=True), jpeg(plain), b"nothing"]
    batch = make(augment=True)(files, counter=6)
    assert [status.where for status in batch.status] == ["device", "host", "device", "none"]
    drawn = (values[1] for values in twins.draws(4, 0, 6))
    np.testing.assert_allclose(batch.images[1], tensorflow(decoded(files[1]), 224, *drawn), atol=TOLERANCE)
    assert not batch.images[3].any()
    assert repr(batch) == "Preprocessed(4 images of 224×224, float32; 1 decoded by the host, 1 failed)"


# -- the same twice, and memory -----------------------------------------------------------------


def test_the_same_seed_and_counter_give_the_same_batch_and_others_another(engine):
    from labextras.offload import Preprocessor

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
    from labextras.offload import Preprocessor

    made = Preprocessor(engine, size=16)
    held = [made.pixels(noise([(20, 20)] * 3, seed=i)).images[1, 2:] for i in range(6)]
    for i, part in enumerate(held):
        twin = twins.preprocess(noise([(20, 20)] * 3, seed=i)[1], 16, "float32")
        np.testing.assert_array_equal(part, twin[2:])


def test_threads_take_turns(engine):
    from labextras.offload import Preprocessor

    made = Preprocessor(engine, size=24)
    wrong = []

    def work(seed):
        images = noise([(20 + seed, 30)] * 3, seed=seed)
        twin = twins.preprocess(images[2], 24, "float32")
        for _ in range(10):
            if not np.array_equal(made.pixels(images).images[2], twin):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_short_form_is_the_preprocessor(engine, make):
    from labextras.offload import preprocess

    files = [jpeg(smooth(60, 80))]
    short = preprocess(files, size=40, engine=engine, augment=True, seed=2, counter=5)
    np.testing.assert_array_equal(short.images, make(size=40, dtype="uint8", augment=True, seed=2)(files, 5).images)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"size": 4097}, "size is 4097; allowed: "),
        ({"dtype": "float16"}, "dtype is 'float16'; allowed: uint8, float32"),
        ({"seed": -1}, "seed is -1; allowed: a whole number from 0 to "),
        ({"counter": 2**64}, "counter is 18446744073709551616; allowed: "),
        ({"size": True}, "size is True; allowed: "),
    ],
)
def test_arguments_that_are_not_possible_are_told(engine, arguments, sentence):
    from labextras.offload import Preprocessor, preprocess

    with pytest.raises(ValueError, match=sentence):
        Preprocessor(engine, **arguments)
    # Also where an equal number was taken before: to a cache, True is 1.
    preprocess([], engine=engine, size=1)
    with pytest.raises(ValueError, match=sentence):
        preprocess([], engine=engine, **arguments)
    if "counter" in arguments:
        with pytest.raises(ValueError, match=sentence):
            Preprocessor(engine, size=1)([], **arguments)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (0, 4, 3)])
def test_pixels_that_are_no_rgb_image_are_told(make, shape):
    with pytest.raises(ValueError, match=r"an image is uint8 of shape .*: allowed is uint8, \(height, width, 3\)"):
        make().pixels([np.zeros(shape, np.uint8)])


def test_pixels_may_be_tensors(make):
    import tensorflow as tf

    images = noise([(20, 30), (7, 9)])
    wanted = make(size=8).pixels(images).images
    np.testing.assert_array_equal(make(size=8).pixels([tf.constant(image) for image in images]).images, wanted)
    with pytest.raises(ValueError, match=r"an image is int64 of shape \(1, 1, 3\): allowed is uint8"):
        make().pixels([[[[0, 0, 0]]]])


@pytest.mark.parametrize("wrong", [b"\xff\xd8" * 9, "a.jpg", [b"", "a.jpg"]])
def test_what_is_no_list_of_files_takes_no_memory_and_no_number(engine, monkeypatch, wrong):
    from labextras.offload import Preprocessor, preprocessor

    made = Preprocessor(engine, size=16)
    with monkeypatch.context() as patch:
        patch.setattr(preprocessor, "BatchResult", lambda *_: pytest.fail("memory was taken before the look"))
        with pytest.raises(TypeError, match=r"images is .*; allowed: a list of whole JPEG files, each as bytes"):
            made(wrong)
    with pytest.raises(ValueError, match="an image is"):
        made.pixels([*noise([(2, 2)]), np.zeros(3, np.uint8)])
    numbers = []
    for counter in (None, 7, None):
        made.pixels(noise([(2, 2)]), counter)
        numbers.append(made.counter)
    assert numbers == [1, 1, 2], "what failed has no number, and one that is given counts for none"
