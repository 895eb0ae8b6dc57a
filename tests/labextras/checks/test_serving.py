"""Two ways from a file to pixels are compared as black boxes, and the first step at which they differ is named."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter, ImageOps

from labextras import checks
from labkit import photos

pytestmark = pytest.mark.random

MEAN, DEVIATION = np.array([0.50, 0.45, 0.42]), 0.22
IMAGENET = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
EVERY = pytest.mark.parametrize(("size", "first"), [(48, 0), (224, 60), (48, 100)])


@functools.cache
def all_files():
    return photos.load(scale="tiny", progress=False).paths


def files(first, count=12):
    return all_files()[first : first + count]


@functools.lru_cache(200)
def decoded(path, method="INTEGER_ACCURATE"):
    return tf.cast(tf.io.decode_jpeg(tf.io.read_file(path), 3, dct_method=method), tf.float32)


def way(*changes, size=48, photo=decoded, resize=None, after=()):
    """Return a preprocessing: the photo, changes of it, a resize to bytes, what follows."""
    resize = resize or functools.partial(tf.image.resize, antialias=True)

    def read(path):
        image = photo(path)
        for change in changes:
            image = change(image)
        image = resize(image, [size, size])
        image = np.clip(np.round(np.asarray(image, np.float64)), 0, 255)
        for change in after:
            image = change(image)
        return image

    return read


def normal(image):
    return (image / 255 - MEAN) / DEVIATION


def middle(image):
    height, width = image.shape[:2]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    return image[top : top + edge, left : left + edge]


def letterbox(image, size):
    return tf.image.resize_with_pad(image, *size, antialias=True)


def nearest(image, size):
    return tf.image.resize(image, size, "nearest")


def pillow(method):
    def read(image, size):
        whole = Image.fromarray(np.asarray(image, np.uint8))
        return np.asarray(whole.resize(tuple(size), method))

    return read


def brighter(image):
    return np.clip(image + 32, 0, 255)


def wrapped(image):
    return np.mod(image + 32, 256)


#: A fault of serving: the step it is, and what of `way` it changes, beside bytes in training.
FAULTS = {
    "mirrored": ("orientation", {"changes": [lambda x: x[:, ::-1]]}),
    "on its head": ("orientation", {"changes": [lambda x: x[::-1, ::-1]]}),
    "on its side": ("orientation", {"changes": [tf.image.rot90]}),
    "letterbox": ("part of the photo", {"resize": letterbox}),
    "centre": ("part of the photo", {"changes": [middle]}),
    "nine tenths": ("part of the photo", {"changes": [lambda x: tf.image.central_crop(x, 0.9)]}),
    "no antialias": ("resize", {"resize": tf.image.resize}),
    "nearest": ("resize", {"resize": nearest}),
    "BGR": ("colours", {"after": [lambda x: x[..., ::-1]]}),
    "grey": ("colours", {"after": [lambda x: np.asarray(tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(x)))]}),
    "divided": ("values", {"after": [lambda x: x / 255]}),
    "brighter": ("values", {"after": [brighter]}),
    "wrapped": ("values", {"after": [wrapped]}),
    "bent": ("values", {"after": [lambda x: 255 * (x / 255) ** 2.2]}),
    "channels first": ("layout", {"after": [lambda x: np.moveaxis(x, 2, 0)]}),
    "another size": ("size", {"size": 64}),
}


def by_itself(image):
    return np.asarray(tf.image.per_image_standardization(image))


def saturated(image):
    hsv = np.array(tf.image.rgb_to_hsv(image / 255))
    hsv[..., 1] = np.clip(hsv[..., 1] + 0.4, 0, 1)
    return 255 * np.asarray(tf.image.hsv_to_rgb(hsv))


def space(name):
    return lambda image: np.asarray(Image.fromarray(np.asarray(image, np.uint8)).convert(name), np.float64)


def blurred(image):
    whole = Image.fromarray(np.asarray(image, np.uint8))
    return np.asarray(whole.filter(ImageFilter.GaussianBlur(8)), np.float32)


def moved(image):
    return np.pad(image, ((1, 0), (1, 0), (0, 0)), "edge")[:-1, :-1]


def cut(share):
    return {"changes": [lambda image: tf.image.central_crop(image, 1 - share)]}


#: What looks like another part of the photo in coarse pictures, and what is one.
ALIKE = {
    "standardised by itself": ("values", {"after": [by_itself]}),
    "standardised by itself, no antialias": ("resize", {"resize": tf.image.resize, "after": [by_itself]}),
    "saturation": ("colours", {"after": [saturated]}),
    "YCbCr": ("colours", {"after": [space("YCbCr")]}),
    "HSV": ("colours", {"after": [space("HSV")]}),
    "red, blue, green": ("colours", {"after": [lambda x: x[..., [0, 2, 1]]]}),
    "blurred": ("resize", {"changes": [blurred]}),
    "moved by a pixel": ("part of the photo", {"after": [moved]}),
    "two hundredths cut": ("part of the photo", cut(0.02)),
    "three tenths cut": ("part of the photo", cut(0.3)),
    "cut, standardised by itself": ("part of the photo", {**cut(0.2), "after": [by_itself]}),
    "cut, YCbCr": ("part of the photo", {**cut(0.2), "after": [space("YCbCr")]}),
}


def served(*names, size=48):
    """Return a preprocessing with these faults; of faults that exclude each other None."""
    made = {"changes": [], "after": [], "size": size}
    for name in sorted(names, key=list(FAULTS).index):
        for what, value in FAULTS[name][1].items():
            if what in ("changes", "after"):
                made[what] += value
            elif made.get(what, value) != value and what != "size":
                return None
            else:
                made[what] = value
    return way(*made.pop("changes"), **made)


@pytest.mark.long
@EVERY
def test_equal_ways_are_equal(size, first):
    right = way(size=size)
    found = checks.serving(right, right, files(first))
    assert found.equal
    assert (found.first, found.differences, found.left) == (None, (), 0)
    assert "equal" in str(found)


SAME = {
    "another decoder": {"photo": functools.partial(decoded, method="INTEGER_FAST")},
    "area": {"resize": functools.partial(tf.image.resize, method="area")},
    "Pillow": {"resize": pillow(Image.Resampling.BILINEAR)},
    "bicubic": {"resize": functools.partial(tf.image.resize, method="bicubic", antialias=True)},
    "float16": {"after": [lambda x: x.astype(np.float16)]},
    "tensor": {"after": [tf.constant]},
    "batch of one": {"after": [lambda x: x[None]]},
}


@pytest.mark.sample(1)
@EVERY
@pytest.mark.parametrize("name", SAME)
def test_what_costs_no_accuracy_is_equal(name, size, first):
    found = checks.serving(way(size=size), way(size=size, **SAME[name]), files(first))
    assert found.equal, found


@pytest.mark.sample(1)
@EVERY
@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_is_named_and_no_other(name, size, first):
    found = checks.serving(way(size=size), served(name, size=size), files(first))
    assert [one.step for one in found.differences] == [FAULTS[name][0]], found
    back = checks.serving(served(name, size=size), way(size=size), files(first))
    assert back.first == FAULTS[name][0], back


@pytest.mark.sample(1)
@EVERY
@pytest.mark.parametrize("name", ALIKE)
def test_another_part_of_the_photo_is_told_from_what_looks_like_it(name, size, first):
    step, changed = ALIKE[name]
    serve = way(*changed.get("changes", ()), size=size, **{k: v for k, v in changed.items() if k != "changes"})
    for ways in ((way(size=size), serve), (serve, way(size=size))):
        found = checks.serving(*ways, files(first))
        assert found.first == step, found
        assert step != "colours" or ("another order" in str(found)) == (name == "red, blue, green"), found


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_photos_are_enough_to_tell_a_crop_from_colours(count):
    for share in (0.04, 0.1, 0.3):
        serve = way(*cut(share)["changes"])
        assert checks.serving(way(), serve, files(30, count)).first == "part of the photo"
    assert checks.serving(way(), way(after=[by_itself]), files(30, count)).first == "values"


VALUES = {
    "not divided": ([normal], [lambda x: (x - MEAN) / DEVIATION]),
    "divided twice": ([lambda x: x / 255], [lambda x: x / 255 / 255]),
    "mean and deviation forgotten": ([normal], [lambda x: x / 255]),
    "-1 to 1": ([lambda x: x / 255], [lambda x: x / 127.5 - 1]),
    "-1 to 1 for mean and deviation": ([normal], [lambda x: x / 127.5 - 1]),
    "ImageNet's": ([normal], [lambda x: (x / 255 - IMAGENET[0]) / IMAGENET[1]]),
}


@pytest.mark.sample(1)
@EVERY
@pytest.mark.parametrize("name", VALUES)
def test_another_scale_is_a_matter_of_values(name, size, first):
    ways = (way(size=size, after=after) for after in VALUES[name])
    found = checks.serving(*ways, files(first))
    assert [one.step for one in found.differences] == ["values"], found


@pytest.mark.long
def test_blue_for_red_before_mean_and_deviation_is_a_matter_of_colours():
    found = checks.serving(way(after=[normal]), way(after=[lambda x: normal(x[..., ::-1])]), files(0))
    assert [one.step for one in found.differences] == ["colours"], found
    both = checks.serving(way(), way(after=[lambda x: normal(x[..., ::-1])]), files(0))
    assert [one.step for one in both.differences] == ["colours", "values"], both


@pytest.mark.long
def test_the_words_say_who_divides():
    bytes_, divided = way(), way(after=[lambda x: x / 255])
    assert "training divides by 255, serving does not" in str(checks.serving(divided, bytes_, files(0)))
    assert "serving divides by 255 once more" in str(checks.serving(bytes_, divided, files(0)))
    assert "serving is brighter" in str(checks.serving(bytes_, served("brighter"), files(0)))


TWO = {
    ("no antialias", "BGR"): ["resize", "colours"],
    ("letterbox", "divided"): ["part of the photo", "values"],
    ("centre", "divided"): ["part of the photo", "values"],
    ("mirrored", "grey"): ["orientation", "colours"],
    ("BGR", "divided", "channels first"): ["colours", "values", "layout"],
    ("on its side", "centre"): ["orientation", "part of the photo"],
    ("another size", "BGR"): ["colours", "size"],
}


@pytest.mark.long
@EVERY
@pytest.mark.parametrize("names", TWO)
def test_several_faults_are_named_in_their_order(names, size, first):
    found = checks.serving(way(size=size), served(*names, size=size), files(first))
    assert [one.step for one in found.differences] == TWO[names], found


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
    assert checks.serving(way(photo=turned), way(), paths).first == "orientation"
    assert checks.serving(way(), way(middle, photo=turned), paths).first == "orientation"


@pytest.mark.long
def test_one_photo_of_many_that_lies_on_its_side_is_found():
    odd = files(0, 60)[37]
    right = way()
    found = checks.serving(right, lambda path: np.rot90(right(path), 1 if path == odd else 0), files(0, 60))
    assert [(one.step, one.files) for one in found.differences] == [("orientation", 1)], found


def test_a_served_photo_of_one_colour_is_a_difference():
    assert not checks.serving(way(), lambda path: np.zeros((48, 48, 3)), files(0)).equal


@pytest.mark.long
def test_the_first_step_of_faults_at_random_is_right_in_nine_of_ten():
    draw, right, equal, tried, wrong = np.random.default_rng(5), 0, 0, 0, []
    while tried < 40:
        names = draw.choice(sorted(FAULTS), 2, replace=False)
        serve, steps = served(*names), {FAULTS[name][0] for name in names}
        if serve is None or steps == {"resize", "size"}:  # pixels of another size are not compared one by one
            continue
        tried += 1
        found = checks.serving(way(), serve, files(int(draw.integers(0, 150)), 10))
        expected = min(steps, key=checks.STEPS.index)
        right += found.first == expected
        equal += found.equal
        if found.first != expected:
            wrong.append((*names, found.first))
    assert equal == 0
    assert right >= 0.9 * tried, wrong


@pytest.mark.long
@settings(max_examples=15)
@given(st.floats(0.002, 400), st.floats(-3, 3), st.integers(0, 150))
def test_a_scale_is_found_whatever_it_is(scale, offset, first):
    serve = way(after=[lambda x: scale * (x + 60 * offset)])
    found = checks.serving(way(), serve, files(first, 8))
    if abs(np.log(scale)) > 0.05 or abs(offset) > 0.05:
        assert [one.step for one in found.differences] == ["values"], found


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (lambda path: (np.zeros((9, 9, 3)), 1), "serve_fn returns a tuple for .*; allowed: one image"),
        (lambda path: "photo", "serve_fn returns .* of shape"),
        (lambda path: np.zeros((9, 9)), r"serve_fn returns float64 of shape \(9, 9\) for"),
        (lambda path: np.zeros((2, 9, 9, 3)), r"serve_fn returns float64 of shape \(2, 9, 9, 3\) for"),
        (lambda path: np.full((9, 9, 3), np.nan), "serve_fn returns NaN or infinite values for"),
        (lambda path: None, "serve_fn returns object of shape"),
    ],
)
def test_what_is_no_image_is_one_sentence(serve, text):
    with pytest.raises(ValueError, match=text):
        checks.serving(way(), serve, files(0, 2))


@pytest.mark.parametrize("draws", [tf.image.random_flip_left_right, lambda x: tf.image.random_brightness(x, 9)])
def test_what_is_random_cannot_be_compared(draws):
    """A photo that is mirrored now and then would be called one that lies on its side."""
    for ways in ((way(), way(after=[draws])), (way(after=[draws]), way())):
        with pytest.raises(ValueError, match=r"_fn returns another image for .* when it is called again; allowed: no"):
            checks.serving(*ways, files(0))


def test_photos_served_in_their_own_sizes_are_one_difference():
    found = checks.serving(way(), lambda path: np.asarray(decoded(path)), files(0, 4))
    sizes = [one for one in found.differences if one.step == "size"]
    assert [one.files for one in sizes] == [4]
    assert "training sees 48×48 pixels, serving any, as" in sizes[0].what


@pytest.mark.parametrize("half", [tf.float16, tf.bfloat16])
def test_half_precision_of_any_kind_is_a_number(half):
    rounded = way(after=[normal, lambda x: tf.cast(x, half)])
    assert checks.serving(way(after=[normal]), rounded, files(0, 4)).equal


def test_one_path_is_no_list_of_files():
    for path in (str(files(0)[0]), Path(files(0)[0])):
        with pytest.raises(ValueError, match=r"files is the one path .*; allowed: a list of paths"):
            checks.serving(way(), way(), path)


def test_nothing_to_compare_is_one_sentence():
    with pytest.raises(ValueError, match="files is empty; allowed: the paths of some photos"):
        checks.serving(way(), way(), [])
    with pytest.raises(ValueError, match="train_fn makes all photos flat"):
        checks.serving(lambda path: np.zeros((9, 9, 3)), way(), files(0, 2))
