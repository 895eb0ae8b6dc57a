"""Two ways from a file to pixels are compared as black boxes, and the first step at which they differ is named."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from labextras import checks
from labkit import photos

pytestmark = pytest.mark.random

MEAN, DEVIATION = np.array([0.50, 0.45, 0.42]), 0.22
EVERY = pytest.mark.parametrize(("size", "first"), [(48, 0), (224, 60), (48, 100)])


def files(first, count=12):
    return photos.load(scale="tiny", progress=False).paths[first : first + count]


@functools.lru_cache(200)
def decoded(path, method="INTEGER_ACCURATE"):
    return tf.cast(tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method=method), tf.float32)


def way(*, size=48, photo=decoded, changes=(), resize=None, after=()):
    """Return a preprocessing: the photo, changes of it, a resize to bytes, what follows."""
    resize = resize or functools.partial(tf.image.resize, antialias=True)

    def read(path):
        image = photo(path)
        for change in changes:
            image = change(image)
        image = np.clip(np.round(np.asarray(resize(image, [size, size]), np.float64)), 0, 255)
        for change in after:
            image = change(image)
        return image

    return read


def normal(image):
    return (image / 255 - MEAN) / DEVIATION


def middle(image):
    edge = min(image.shape[:2])
    top, left = (image.shape[0] - edge) // 2, (image.shape[1] - edge) // 2
    return image[top : top + edge, left : left + edge]


def letterbox(image, size):
    return tf.image.resize_with_pad(image, *size, antialias=True)


def pillow(image, size):
    return np.asarray(Image.fromarray(np.asarray(image, np.uint8)).resize(tuple(size), Image.Resampling.BILINEAR))


def by_itself(image):
    return np.asarray(tf.image.per_image_standardization(image))


def converted(image, space):
    return np.asarray(Image.fromarray(np.asarray(image, np.uint8)).convert(space), np.float64)


def cut(share):
    return [lambda image: tf.image.central_crop(image, 1 - share)]


#: A fault of serving: the step it is, and what of `way` it changes, beside bytes in training.
FAULTS = {
    "mirrored": ("orientation", {"changes": [lambda x: x[:, ::-1]]}),
    "on its head": ("orientation", {"changes": [lambda x: x[::-1, ::-1]]}),
    "on its side": ("orientation", {"changes": [tf.image.rot90]}),
    "letterbox": ("part of the photo", {"resize": letterbox}),
    "centre": ("part of the photo", {"changes": [middle]}),
    "nine tenths": ("part of the photo", {"changes": cut(0.1)}),
    "no antialias": ("resize", {"resize": tf.image.resize}),
    "nearest": ("resize", {"resize": functools.partial(tf.image.resize, method="nearest")}),
    "BGR": ("colours", {"after": [lambda x: x[..., ::-1]]}),
    "grey": ("colours", {"after": [lambda x: np.asarray(tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(x)))]}),
    "divided": ("values", {"after": [lambda x: x / 255]}),
    "brighter": ("values", {"after": [lambda x: np.clip(x + 32, 0, 255)]}),
    "wrapped": ("values", {"after": [lambda x: np.mod(x + 32, 256)]}),
    "bent": ("values", {"after": [lambda x: 255 * (x / 255) ** 2.2]}),
    "standardised by itself": ("values", {"after": [by_itself]}),
    "channels first": ("layout", {"after": [lambda x: np.moveaxis(x, 2, 0)]}),
    "another size": ("size", {"size": 64}),
}


def both(*names):
    """Return what several faults change; of faults that exclude each other None."""
    made = {"changes": [], "after": []}
    for name in sorted(names, key=list(FAULTS).index):
        for what, value in FAULTS[name][1].items():
            if what in ("changes", "after"):
                made[what] += value
            elif made.setdefault(what, value) != value:
                return None
    return made


#: All that is compared: training, serving and the steps that differ. Only the first step is pinned where several may.
WAYS = {name: ({}, changed, [step]) for name, (step, changed) in FAULTS.items()} | {
    "equal": ({}, {}, []),
    "another decoder": ({}, {"photo": functools.partial(decoded, method="INTEGER_FAST")}, []),
    "area": ({}, {"resize": functools.partial(tf.image.resize, method="area")}, []),
    "Pillow": ({}, {"resize": pillow}, []),
    "bicubic": ({}, {"resize": functools.partial(tf.image.resize, method="bicubic", antialias=True)}, []),
    "float16": ({"after": [normal]}, {"after": [normal, lambda x: tf.cast(x, tf.float16)]}, []),
    "batch of one": ({}, {"after": [lambda x: tf.constant(x)[None]]}, []),
    "not divided": ({"after": [normal]}, {"after": [lambda x: (x - MEAN) / DEVIATION]}, ["values"]),
    "divided twice": ({"after": [lambda x: x / 255]}, {"after": [lambda x: x / 255 / 255]}, ["values"]),
    "mean forgotten": ({"after": [normal]}, {"after": [lambda x: x / 255]}, ["values"]),
    "-1 to 1": ({"after": [normal]}, {"after": [lambda x: x / 127.5 - 1]}, ["values"]),
    "BGR before the mean": ({"after": [normal]}, {"after": [lambda x: normal(x[..., ::-1])]}, ["colours"]),
    "BGR and a mean": ({}, {"after": [lambda x: normal(x[..., ::-1])]}, ["colours", "values"]),
    "red, blue, green": ({}, {"after": [lambda x: x[..., [0, 2, 1]]]}, ["colours"]),
    "cut, standardised": ({}, {"changes": cut(0.2), "after": [by_itself]}, ["part of the photo", ...]),
    "standardised, no antialias": ({}, {"resize": tf.image.resize, "after": [by_itself]}, ["resize", ...]),
    "another colour space": ({}, {"after": [lambda x: converted(x, "YCbCr")]}, ["colours", ...]),
    "letterbox, divided": ({}, both("letterbox", "divided"), ["part of the photo", "values"]),
    "three": ({}, both("BGR", "divided", "channels first"), ["colours", "values", "layout"]),
    "on its side, centre": ({}, both("on its side", "centre"), ["orientation", "part of the photo"]),
    "another size, BGR": ({}, both("another size", "BGR"), ["colours", "size"]),
}


@pytest.mark.sample(3)
@EVERY
@pytest.mark.parametrize("name", WAYS)
def test_the_steps_that_differ_are_named_and_no_other(name, size, first):
    trained, served, steps = WAYS[name]
    ways = way(**trained | {"size": size}), way(**{"size": size} | served)
    found = checks.serving(*ways, files(first))
    seen = [one.step for one in found.differences]
    assert ([*seen[:1], ...] if ... in steps else seen) == steps, found
    assert (found.equal, found.first) == (not steps, next(iter(steps), None))
    back = checks.serving(*reversed(ways), files(first))
    assert back.first == found.first, back


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_photos_are_enough_to_tell_a_crop_from_values(count):
    for share in (0.04, 0.1, 0.3):
        assert checks.serving(way(), way(changes=cut(share)), files(30, count)).first == "part of the photo"
    assert checks.serving(way(), way(after=[by_itself]), files(30, count)).first == "values"


@pytest.mark.parametrize(
    ("trained", "served", "words"),
    [
        ("divided", None, "training divides by 255, serving does not"),
        (None, "divided", "serving divides by 255 once more"),
        (None, "brighter", "serving is brighter"),
        (None, None, "equal: what is left is 0.0 %"),
    ],
)
def test_the_words_say_who_does_what(trained, served, words):
    ways = (way(**FAULTS[name][1]) if name else way() for name in (trained, served))
    assert words in str(checks.serving(*ways, files(0)))


@pytest.mark.long
def test_orientation_in_files_is_found_in_the_photos_that_have_one(tmp_path):
    paths = []
    for i, path in enumerate(files(20, 10)):
        exif = Image.Exif()
        exif[274] = {2: 3, 5: 6, 7: 8}.get(i, 1)
        Image.open(path).convert("RGB").save(tmp_path / f"{i}.jpg", exif=exif, quality=95)
        paths.append(str(tmp_path / f"{i}.jpg"))

    def turned(path):
        return np.asarray(ImageOps.exif_transpose(Image.open(path)), np.float32)

    found = checks.serving(way(), way(photo=turned), paths)
    assert {one.step for one in found.differences} == {"orientation"}, found
    assert sum(one.files for one in found.differences) == 3
    assert "EXIF" in str(found)
    assert checks.serving(way(photo=turned), way(changes=[middle]), paths).first == "orientation"


@pytest.mark.long
def test_one_photo_of_many_that_lies_on_its_side_is_found():
    odd, right = files(0, 60)[37], way()
    found = checks.serving(right, lambda path: np.rot90(right(path), 1 if path == odd else 0), files(0, 60))
    assert [(one.step, one.files) for one in found.differences] == [("orientation", 1)], found


@pytest.mark.long
def test_the_first_step_of_faults_at_random_is_right_in_nine_of_ten():
    draw, tried, wrong = np.random.default_rng(5), 0, []
    while tried < 40:
        names = draw.choice(sorted(FAULTS), 2, replace=False)
        served, steps = both(*names), {FAULTS[name][0] for name in names}
        if served is None or steps == {"resize", "size"}:  # pixels of another size are not compared one by one
            continue
        tried += 1
        found = checks.serving(way(), way(**served), files(int(draw.integers(0, 150)), 10))
        assert not found.equal
        if found.first != min(steps, key=checks.STEPS.index):
            wrong.append((*names, found.first))
    assert len(wrong) <= 0.1 * tried, wrong


@pytest.mark.long
@settings(max_examples=15)
@given(st.floats(0.002, 400), st.floats(-3, 3), st.integers(0, 150))
def test_a_scale_is_found_whatever_it_is(scale, offset, first):
    found = checks.serving(way(), way(after=[lambda x: scale * (x + 60 * offset)]), files(first, 8))
    if abs(np.log(scale)) > 0.05 or abs(offset) > 0.05:
        assert [one.step for one in found.differences] == ["values"], found


def test_photos_served_in_their_own_sizes_are_one_difference():
    found = checks.serving(way(), lambda path: np.asarray(decoded(path)), files(0, 4))
    sizes = [one for one in found.differences if one.step == "size"]
    assert [one.files for one in sizes] == [4]
    assert "training sees 48×48 pixels, serving any, as" in sizes[0].what
    assert not checks.serving(way(), lambda path: np.zeros((48, 48, 3)), files(0)).equal


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (lambda path: (np.zeros((9, 9, 3)), 1), "serve_fn returns a tuple for .*; allowed: one image"),
        (lambda path: "photo", "serve_fn returns .* of shape"),
        (lambda path: np.zeros((9, 9)), r"serve_fn returns float64 of shape \(9, 9\) for"),
        (lambda path: np.zeros((2, 9, 9, 3)), r"serve_fn returns float64 of shape \(2, 9, 9, 3\) for"),
        (lambda path: np.full((9, 9, 3), np.nan), "serve_fn returns NaN or infinite values for"),
        # A photo that is mirrored now and then would be called one that lies on its side.
        (way(after=[tf.image.random_flip_left_right]), "serve_fn returns another image for .*; allowed: nothing ran"),
    ],
)
def test_what_is_no_image_is_one_sentence(serve, words):
    with pytest.raises(ValueError, match=words):
        checks.serving(way(), serve, files(0))


def test_nothing_to_compare_is_one_sentence():
    with pytest.raises(ValueError, match=r"files is the one path .*; allowed: a list of paths"):
        checks.serving(way(), way(), Path(files(0)[0]))
    with pytest.raises(ValueError, match="files is empty; allowed: the paths of some photos"):
        checks.serving(way(), way(), [])
    with pytest.raises(ValueError, match="train_fn makes all photos flat"):
        checks.serving(lambda path: np.zeros((9, 9, 3)), way(), files(0, 2))
