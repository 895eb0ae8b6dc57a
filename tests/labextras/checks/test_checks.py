"""Faults that cost no time and ruin a training: each is planted and found, and healthy pipelines raise no alarm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labextras import checks
from labextras.checks import fingerprints

SIDE, COUNT = 48, 96
slices = tf.data.Dataset.from_tensor_slices

pytestmark = pytest.mark.random


@pytest.fixture(scope="module")
def data(album):
    """Return 96 photos of 48×48 bytes, and their labels."""

    def load(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.cast(tf.image.resize(image, [SIDE, SIDE], antialias=True), tf.uint8), label

    images, labels = zip(*album.take(COUNT).files().map(load).as_numpy_iterator(), strict=True)
    return np.stack(images), np.array(labels)


@pytest.fixture(scope="module")
def reference(data):
    return slices(data)


def on(function):
    """Return what maps a function over the images of pairs."""
    return lambda dataset: dataset.map(lambda image, label: (function(image), label))


def to_float(image):
    return tf.image.convert_image_dtype(image, tf.float32)


def augment(image):
    image = tf.image.random_flip_left_right(to_float(image))
    image = tf.image.random_brightness(image, 32 / 255)
    return tf.clip_by_value(tf.image.random_saturation(image, 0.5, 1.5), 0, 1)


def scaled(image):
    return (to_float(image) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


def caffe(image):
    return tf.cast(image[..., ::-1], tf.float32) - [103.939, 116.779, 123.68]


def cut(image, top, left, size=14):
    rows, columns = tf.range(SIDE)[:, None], tf.range(SIDE)[None]
    hole = (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
    return tf.where(hole[..., None], 0.0, to_float(image))


def random_cut(image):
    return cut(image, *tf.unstack(tf.random.uniform([2], 0, 30, tf.int32)))


def useless_cut(image):
    random_cut(image)
    return to_float(image)


def rotate(image, degrees):
    angle = tf.cast(degrees, tf.float32) * np.pi / 180
    cos, sin, mid = tf.cos(angle), tf.sin(angle), (SIDE - 1) / 2
    move = tf.stack([cos, -sin, mid - cos * mid + sin * mid, sin, cos, mid - sin * mid - cos * mid, 0.0, 0.0])
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=to_float(image)[None], transforms=move[None], output_shape=[SIDE, SIDE], interpolation="BILINEAR",
        fill_mode="REFLECT", fill_value=0.0,
    )[0]  # fmt: skip


def frozen_angle():
    generator = np.random.default_rng(1)
    return lambda image: rotate(image, 4 + 4 * generator.random())


def frozen_brightness():
    generator = np.random.default_rng(1)
    return lambda image: tf.clip_by_value(to_float(image) + 0.08 + 0.05 * generator.random(), 0, 1)


def wrap(image):
    return image + tf.cast(tf.random.uniform([], 20, 100), tf.uint8)


def at_seventh(then):
    return lambda d: d.enumerate().map(lambda i, e: (then(i == 7, augment(e[0])), e[1]))


def shifted(d):
    """Return a dataset whose labels left their images."""
    labels = d.map(lambda x, y: y)
    return tf.data.Dataset.zip((d.map(lambda x, y: x), labels.skip(1).concatenate(labels.take(1))))


def fragile(d):
    def load(i, element):
        with tf.control_dependencies([tf.debugging.assert_none_equal(i % 10, tf.constant(3, tf.int64))]):
            return tf.identity(element[0]), element[1]

    return d.enumerate().map(load).ignore_errors(log_warning=False)


def loose(d):
    options = tf.data.Options()
    options.deterministic = False
    return d.with_options(options)


def by_class(d):
    """Return a dataset of 120 numbers of ten classes, sorted."""
    return slices(np.repeat(np.arange(10), 12))


def keyed(d):
    return d.enumerate().map(lambda i, e: {"id": i, "photo": e[0], "label": e[1]})


def views(d):
    return d.shuffle(COUNT).flat_map(lambda x, y: tf.data.Dataset.from_tensors((x, y)).repeat(4))


def faults(report):
    return {finding.name for finding in report.faults}


class Case(NamedTuple):
    """A pipeline of photos with labels, what is to be blamed in it, and what single checks say."""

    pipeline: Any
    blamed: set[str]
    seen: dict[str, str]
    source: Any
    options: dict[str, Any]


def case(pipeline, *blamed, seen=None, source=lambda d: d, **options):
    return Case(pipeline, set(blamed), seen or {}, source, options)


def alone(pipeline, *blamed, **more):
    """Return a case without a reference."""
    return case(pipeline, *blamed, source=None, **more)


ON = {"random": True}
PASSED = {"random": "passed", "once": "passed", "labels": "passed", "blank": "passed"}
ONCE = ("count", "once")

#: The matrix of pipelines and checks: whatever is not blamed here must not be.
CASES = {
    # healthy ones that augment
    "flipped": case(on(tf.image.random_flip_left_right), seen=PASSED, **ON),
    "all of it": case(
        on(augment), seen=PASSED | {"overflow": "passed", "colour": "passed", "alike": "passed", "changed": "pas"}, **ON
    ),
    "shuffled": case(lambda d: on(augment)(d.shuffle(96)).batch(20).prefetch(2), seen=PASSED, **ON),
    "cached before": case(lambda d: on(augment)(d.cache()).batch(32), seen=PASSED, **ON),
    "cut": case(on(random_cut), seen={"alike": "black"}, **ON),
    "normalised": case(on(lambda x: scaled(augment(x))), seen={"range": "passed"}, value_range=(-2.2, 2.7), **ON),
    "resized": case(on(lambda x: tf.image.resize(augment(x), [32, 40])), **ON),
    "upside down": case(on(lambda x: tf.image.random_flip_up_down(augment(x))), **ON),
    "dict": case(lambda d: d.map(lambda x, y: {"photo": augment(x), "label": y}), seen=PASSED, **ON),
    "endless": case(lambda d: on(augment)(d.shuffle(96).repeat()).batch(36), seen={"count": "never ends"}, **ON),
    "part of an epoch": case(
        lambda d: on(augment)(d).batch(8), seen={"count": "not ", "once": "not ", "random": "passed"}, steps=3, **ON
    ),
    "keys": case(lambda d: d.map(lambda e: e | {"photo": augment(e["photo"])}), seen=PASSED, source=keyed, **ON),
    "channels first": case(on(lambda x: tf.transpose(augment(x), [2, 0, 1])), seen={"colour": "passed"}, **ON),
    "alpha": case(
        on(lambda x: augment(x[..., :3])), seen={"overflow": "passed", "colour": "passed"},
        source=on(lambda x: tf.concat([x, tf.fill([SIDE, SIDE, 1], tf.constant(255, tf.uint8))], -1)), **ON,
    ),
    # healthy ones that do not
    "validation": case(
        lambda d: on(to_float)(d).batch(40).cache(), seen=PASSED | {"order": "passed", "range": "passed"},
        random=False, deterministic=True, value_range=(0, 1),
    ),
    "half precision": alone(
        on(lambda x: tf.cast(scaled(x), tf.float16)), seen={"range": "passed"}, value_range=(-2.118, 2.64)
    ),
    "Caffe's pixels": case(on(caffe), seen={"colour": "Caffe", "blank": "passed"}),
    "noise": case(
        on(lambda x: tf.random.uniform([SIDE, SIDE, 3])), **ON,
        seen=dict.fromkeys(("once", "labels", "overflow", "alike", "colour"), "not checked"),
    ),
    "grey": case(
        on(lambda x: x), seen={"colour": "not checked: the reference is grey"},
        source=on(lambda x: tf.repeat(tf.image.rgb_to_grayscale(x), 3, -1)),
    ),
    "drop_remainder of what is shuffled": alone(
        lambda d: d.map(lambda x, y: x).shuffle(COUNT).batch(36, drop_remainder=True),
        seen={"random": "hold different elements"}, random=False,
    ),
    "several views in a row": alone(lambda d: on(augment)(views(d)).batch(32), seen={"mixed": "passed"}, **ON),
    "nothing said": alone(
        lambda d: d,
        seen=dict.fromkeys(("count", "once", "labels", "random", "range", "order"), "not checked")
        | dict.fromkeys(("overflow", "colour", "changed", "alike"), "not checked: needs reference="),
    ),
    # faults of the augmentation
    "frozen": case(on(frozen_brightness()), "random", "alike", **ON),
    "numpy frozen when traced": case(on(frozen_angle()), "random", "alike", **ON),
    "frozen turn, hidden behind random steps": case(lambda d: on(augment)(on(frozen_angle())(d)), "alike", **ON),
    "frozen patch": case(on(lambda x: cut(x, 10, 20)), "random", "alike", **ON),
    "cached": case(lambda d: on(augment)(d).cache(), "random", **ON),
    "cached, nothing said": alone(lambda d: on(augment)(d).cache().shuffle(96).batch(32), "random"),
    "cached, endless": alone(lambda d: on(augment)(d).cache().repeat().batch(36), "random", count=COUNT),
    "thrown away": case(on(useless_cut), "random", "changed", **ON),
    "random where nothing should be": case(on(augment), "random", random=False),
    "a seed that starts over": case(
        lambda d: d.enumerate().map(
            lambda i, e: (tf.image.stateless_random_brightness(to_float(e[0]), 0.1, [i, i]), e[1])
        ),
        "random", seen={"random": "a fixed seed"}, **ON,
    ),
    # faults of the elements
    "drop_remainder": case(lambda d: on(augment)(d).batch(36, drop_remainder=True), *ONCE, **ON),
    "take after shuffle": case(lambda d: on(augment)(d.shuffle(96)).take(90), *ONCE, seen={"once": "6 of 96"}, **ON),
    "filter": case(lambda d: on(augment)(d.filter(lambda x, y: y != 0)), *ONCE, **ON),
    "errors ignored": case(fragile, *ONCE, seen={"count": "ignore_errors"}),
    "repeat before shuffle": case(lambda d: on(augment)(d.repeat(3).shuffle(288, seed=1).take(96)), "once", **ON),
    "overlapping parts": case(lambda d: on(augment)(d.take(60).concatenate(d.skip(40))), *ONCE, **ON),
    "lost by key": case(
        lambda d: d.skip(3).map(lambda e: e | {"photo": tf.random.uniform([SIDE, SIDE, 3])}), *ONCE,
        seen={"once": "3 of 96"}, source=keyed, key="id",
    ),
    "lost of what never ends": case(lambda d: d.skip(5).repeat(), "once", "labels", labels="of the data"),
    "twice": alone(lambda d: d.take(10).concatenate(d), "once"),
    "nothing at all": case(lambda d: d.take(0), *ONCE, **ON),
    # faults of the pixels
    "wrap-around": case(on(wrap), "overflow", **ON),
    "wrap-around before float": case(on(lambda x: to_float(wrap(x))), "overflow", **ON),
    "blue, green, red": case(on(lambda x: augment(x)[..., ::-1]), "colour", **ON),
    "blue, green, red, first": case(on(lambda x: tf.transpose(augment(x)[..., ::-1], [2, 0, 1])), "colour", **ON),
    "not divided": case(on(lambda x: augment(x) * 255), "range", seen={"range": "by 255"}, value_range=(0, 1), **ON),
    "not divided, nothing said": alone(on(lambda x: tf.cast(x, tf.float32)), seen={"range": "not divided by 255"}),
    "not clipped": case(on(lambda x: augment(x) * 1.5), "range", seen={"range": "clip"}, value_range=(0, 1), **ON),
    "divided twice": case(on(lambda x: augment(x) / 255), "blank", seen={"blank": "twice"}, **ON),
    "mean forgotten": case(on(to_float), "range", seen={"range": "forgotten"}, value_range=(-2.2, 2.7)),
    "NaN": case(at_seventh(lambda bad, x: tf.where(bad, np.nan, x)), "finite", "blank", **ON),
    "infinite": case(at_seventh(lambda bad, x: x / tf.where(bad, 0.0, 1.0)), "finite", "blank", **ON),
    "black": case(
        at_seventh(lambda bad, x: tf.where(bad, 0.0, x)), "blank", seen={"blank": "1 of 96 images are black, the fi"}
    ),
    "all black": case(on(lambda x: to_float(x) * 0), "blank", "random", **ON),
    # faults of labels and order
    "labels that left": case(shifted, "labels"),
    "labels as they should be": alone(
        lambda d: d, seen={"labels": "needs reference=", "count": "passed"}, labels="of the data"
    ),
    "mislabelled": alone(lambda d: d.map(lambda x, y: (x, tf.maximum(y, 1))), "labels", labels="of the data"),
    "another order": case(lambda d: on(augment)(d).shuffle(96), "order", deterministic=True),
    "another order, nothing said": case(lambda d: d.shuffle(96), seen={"order": "not checked: epoch 2 has another"}),
    "one order for all epochs": case(
        lambda d: on(augment)(d.shuffle(96, seed=3, reshuffle_each_iteration=False)), seen={"order": "passed"},
        deterministic=True,
    ),
    "no order promised": alone(loose, seen={"order": "promises none"}, deterministic=True),
    "sorted": alone(by_class, "mixed", seen={"mixed": "sorted"}, label=0),
    "sorted behind a short buffer": alone(lambda d: by_class(d).shuffle(12), "mixed", label=0),
    "batches of one class": alone(lambda d: by_class(d).batch(12).shuffle(10), "mixed", label=0, count=120),
    "sorted, for evaluation": alone(
        by_class, seen={"mixed": "evaluation"}, label=0, random=False, deterministic=True
    ),
    "shuffled classes": alone(lambda d: by_class(d).shuffle(120), seen={"mixed": "passed"}, label=0),
    "a rare label": alone(lambda d: slices(np.arange(1000) < 10), seen={"mixed": "rare"}, label=0),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_found_and_nothing_else_is_blamed(name, reference, data):
    plant, blamed, seen, source, options = CASES[name]
    given_source = reference if source is None else source(reference)
    if "labels" in options:
        options = options | {"labels": data[1]}
    report = checks.inspect(plant(given_source), None if source is None else given_source, **options)
    assert faults(report) == blamed, report
    for check, words in seen.items():
        assert words in f"{report[check].status}: {report[check].text}", report
    assert report.ok == (not blamed and bool(report.passed))
    assert len(report.passed) + len(report.faults) + len(report.unchecked) == len(report.findings)


@pytest.mark.long
@given(batch=st.integers(1, 40), seed=st.integers(0, 99), epoch=st.sampled_from(["ends", "endless"]))
@settings(max_examples=8)
def test_batch_size_order_and_repeat_change_no_verdict(batch, seed, epoch):
    images = np.random.default_rng(5).integers(0, 255, [24, 12, 12, 3], np.uint8)
    reference = slices((images, np.arange(24)))
    moved = reference.shuffle(24, seed=seed)
    moved = (moved.repeat() if epoch == "endless" else moved).batch(batch)
    report = checks.inspect(moved, reference, random=False)
    assert report.ok, report
    for name in ("once", "labels", "random", "colour"):
        assert report[name].status == "passed", report
    short = checks.inspect(reference.skip(1).shuffle(24).batch(batch), reference)
    assert faults(short) == {"count", "once"}, short


BESIDE = {
    "a time step": lambda x: (x, tf.random.uniform([], 0, 1000, tf.int32)),
    "one of five captions": lambda x: (x, tf.constant(list("abcde"))[tf.random.uniform([], 0, 5, tf.int32)]),
    "noise": lambda x: {"clean": to_float(x), "noisy": to_float(x) + tf.random.normal(x.shape)},
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", BESIDE)
def test_what_is_drawn_beside_the_image_need_not_change_its_pixels(name, reference):
    made = reference.map(lambda x, y: BESIDE[name](x))
    seen = checks.inspect(made)
    assert (faults(seen), seen["random"].status) == (set(), "not checked"), seen
    assert faults(checks.inspect(made, random=True)) == {"random"}
    assert faults(checks.inspect(made.cache())) == {"random"}


# -- labels ------------------------------------------------------------------

FORMS = {
    "float": lambda y: tf.cast(y, tf.float32),
    "one-hot": lambda y: tf.one_hot(y, 10),
    "smoothed": lambda y: tf.one_hot(y, 10) * 0.9 + 0.01,
    "name": lambda y: tf.strings.as_string(y),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FORMS)
def test_a_label_in_another_form_is_the_same_label(name, reference, data):
    formed = reference.map(lambda x, y: (x, FORMS[name](y)))
    for report in (checks.inspect(formed.shuffle(COUNT), reference, labels=data[1]), checks.inspect(reference, formed)):
        assert not report.faults, report
        assert (report["labels"].status, "in another form" in report["labels"].text) == ("passed", True), report
    merged = reference.map(lambda x, y: (x, FORMS[name](tf.maximum(y, 1))))
    for report in (
        checks.inspect(merged, reference),
        checks.inspect(shifted(formed), reference),
        checks.inspect(merged, labels=data[1]),
    ):
        assert faults(report) == (set() if name == "smoothed" else {"labels"})  # as mixup leaves them, they may differ
        assert name != "smoothed" or "soft" in report["labels"].text


MEASURED = {
    "boxes": (lambda draw: draw.random([COUNT, 4]), lambda y: tf.stack([1 - y[2], y[1], 1 - y[0], y[3]])),
    "one of few angles": (lambda draw: draw.integers(-9, 10, COUNT) / 10, lambda y: -y),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_what_moves_with_its_image_is_not_called_mislabelled(name, data):
    made, mirrored = MEASURED[name]
    values = made(np.random.default_rng(2))
    reference = slices((data[0], values))

    def flip(image, label):
        turn = tf.random.uniform([]) < 0.5
        return tf.where(turn, image[:, ::-1], image), tf.where(turn, mirrored(label), label)

    for options in ({"reference": reference}, {"labels": values}):
        assert not checks.inspect(reference.map(flip), random=True, **options).faults
    unit = reference.map(lambda x, y: (x, tf.cast(y, tf.float32) / 7 + 1))
    assert not checks.inspect(unit, reference, labels=values).faults
    narrow = reference.map(lambda x, y: (x, tf.cast(y, tf.float32)))
    assert checks.inspect(narrow, reference)["labels"].status == "passed"
    one = reference.enumerate().map(lambda i, e: (e[0], tf.where(i == 5, e[1] + 1, e[1])))
    for wrong in (one, slices((data[0], np.roll(values, 1, axis=0)))):
        assert faults(checks.inspect(wrong, reference)) == {"labels"}


@pytest.mark.long
@pytest.mark.parametrize("names", [np.array(["cat", "dog", "owl"]), [f"person {i}" for i in range(32)]])
def test_names_of_classes_are_labels_and_no_keys(data, names):
    called = np.resize(names, COUNT)
    named = slices((data[0], called))
    report = checks.inspect(named.shuffle(COUNT).batch(32), named)
    assert report.ok, report
    assert report["labels"].status == report["once"].status == "passed", report
    assert not checks.inspect(on(augment)(named), labels=called).faults
    assert faults(checks.inspect(slices((data[0], np.roll(called, 1))), named)) == {"labels"}
    assert not checks.inspect(slices((*data, called))).faults


# -- any dataset -------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("element", "image", "label"),
    [
        (tf.zeros([9, 9, 3]), 0, None),
        ((tf.zeros([9, 9, 3]), 1), 0, 1),
        ((tf.zeros([9, 9, 3]), 1, 0.5), 0, 1),
        ((tf.zeros([9, 9, 3]), "path", 1), 0, 2),
        ((tf.zeros([3, 9, 9]), tf.one_hot(1, 10)), 0, 1),
        ({"boxes": tf.zeros([5, 4]), "image": tf.zeros([9, 9, 3])}, 1, None),
        ({"gt": tf.zeros([9, 9, 1]), "visible": tf.zeros([9, 9, 3])}, 1, None),
        ({"gt": tf.zeros([9, 9, 3]), "image": tf.zeros([9, 9, 3])}, 1, None),
        ({"image": tf.zeros([9, 9, 3]), "meta": [1.0, 2.0], "target": 1}, 0, 2),
        ((5, tf.zeros([9, 9, 3])), 1, 0),
        (([0.1, 0.2], 1), None, 1),
        (([0.1, 0.2], 1, 0.5), None, 1),
        ((tf.zeros([12], tf.int64), tf.zeros([12], tf.int64)), None, 1),
    ],
)
def test_the_layout_is_read_from_the_shapes(element, image, label):
    one = tf.data.Dataset.from_tensors(element).repeat(6)
    found = fingerprints.layout(one.batch(2), None, None, None, None, "dataset")
    assert (found.batched, found.image, found.label) == (True, image, label)
    if image is not None or label is None:  # vectors of one length are a batch, or one element
        found = fingerprints.layout(one, None, None, None, None, "dataset")
        assert (found.batched, found.image, found.label) == (False, image, label)
    assert isinstance(checks.inspect(one.batch(4), one), checks.DataReport)


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"image": 0}])
def test_images_whose_shape_a_python_function_hides_are_read_from_the_first_element(reference, data, options):
    images, labels = data
    hidden = tf.data.Dataset.range(COUNT).map(
        lambda i: (tf.py_function(lambda j: images[int(j)], [i], tf.uint8), tf.gather(labels, i))
    )
    for made in (hidden, hidden.batch(32)):
        report = checks.inspect(made, reference, **options)
        assert report.ok, report
        assert report["blank"].status == report["labels"].status == "passed", report
    assert faults(checks.inspect(hidden.take(0), **options)) == {"count"}


def test_clips_grey_images_and_rows_of_tokens_are_taken_for_what_they_are():
    clips = slices((np.random.default_rng(1).random([8, 5, 9, 9, 3]), np.arange(8) % 2))
    grey = slices((np.random.default_rng(1).random([8, 28, 28]), np.arange(8) % 2))
    tokens = slices((tf.ragged.constant([[1, 2], [3], [4, 5, 6], [7]] * 2), np.arange(8)))
    alone = slices(tf.ragged.constant([[1, 2], [3]] * 4))
    for made in (clips, grey, grey.batch(3), tokens, alone, tokens.batch(3)):
        report = checks.inspect(made, count=8)
        assert report["count"].status == "passed", report
        if made in (tokens, alone):
            assert "blank" not in {finding.name for finding in report.findings}, report
        assert not report.faults, report
    for made in (clips, grey, grey.batch(3)):
        assert checks.inspect(made, image=0, count=8)["blank"].status == "passed"
    with pytest.raises(ValueError, match="component 1 of dataset is a single value; a batch has one per element"):
        checks.inspect(clips, batched=True)


def test_elements_without_images_are_counted_all_the_same():
    numbers = tf.data.Dataset.range(50)
    assert checks.inspect(numbers.shuffle(50).batch(7), numbers).ok
    short = checks.inspect(numbers.batch(7, drop_remainder=True), numbers, batched=True)
    assert faults(short) == {"count", "once"}
    twice = slices([0, 0, 1, 2])
    assert checks.inspect(twice, twice)["once"].status == "passed"
    assert checks.inspect(twice)["once"].status == "not checked"
    photos_only = {"blank", "range", "colour", "overflow", "orientation"}
    assert photos_only.isdisjoint(finding.name for finding in checks.inspect(numbers).findings)


@pytest.mark.long
def test_ragged_batches_are_taken_apart(album):
    photos = album.take(12).files().map(lambda path, y: (tf.io.decode_jpeg(tf.io.read_file(path), channels=3), y))
    report = checks.inspect(photos.ragged_batch(5), photos, random=False)
    assert report.ok, report
    assert report["once"].status == report["labels"].status == "passed"


@pytest.mark.sample(1)
@pytest.mark.parametrize("steps", [1, 4, 7])
def test_steps_of_an_endless_dataset_are_no_epochs_and_accuse_nobody(reference, steps):
    """More steps than an epoch has bring every element again, and the next ones begin somewhere in the middle."""
    endless = reference.repeat().batch(36)
    report = checks.inspect(endless, steps=steps, random=False, deterministic=True)
    assert not report.faults, report
    assert "never ends" in report["order"].text
    with pytest.raises(ValueError, match=r"never ends .*steps=, count=, or reference="):
        checks.inspect(endless)
    assert checks.inspect(endless, count=COUNT, random=False, deterministic=True)["order"].status == "passed"


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32, np.float32])
def test_small_numbers_of_any_width_are_different_images(dtype):
    images = np.random.default_rng(4).integers(0, 120, [40, 12, 12, 1]).astype(dtype)
    made = slices(images)
    assert not checks.inspect(made.shuffle(40), made, random=False).faults
    changed = made.map(lambda x: x + tf.cast(tf.random.uniform([12, 12, 1], 0, 9, tf.int32), x.dtype))
    assert not checks.inspect(changed, random=True).faults
    assert faults(checks.inspect(changed.cache().shuffle(40), random=True)) == {"random"}


def letters(count=80):
    """Return pages of black lines on white paper: of few values, and most of them one."""
    pages, draw = np.full([count, 64, 48, 1], 255, np.uint8), np.random.default_rng(7)
    for page in pages:
        for top in range(6, 58, 5):
            page[top : top + 2, 4 : 4 + draw.integers(10, 40)] = draw.integers(0, 60)
    return slices({"page": pages, "key": np.arange(count)})


def pushed(page):
    return tf.image.random_crop(tf.pad(page, [[3, 3], [3, 3], [0, 0]], mode="REFLECT"), page.shape)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "blamed"),
    [(tf.image.random_flip_left_right, set()), (pushed, set()), (lambda x: x // 2, set()), (lambda x: x + tf.constant(
        40, tf.uint8), {"overflow"})],
)  # fmt: skip
def test_pages_that_are_mostly_white_wrap_around_only_where_they_do(change, blamed):
    pages = letters()
    made = pages.map(lambda e: e | {"page": change(e["page"])})
    assert faults(checks.inspect(made, pages, key="key")) == blamed


@pytest.mark.long
def test_one_augmentation_is_looked_at_alone(data):
    image = data[0][3]
    assert faults(checks.probe(frozen_brightness(), image)) == {"alike", "random"}
    assert {"changed", "random"} <= faults(checks.probe(useless_cut, image))
    assert checks.probe(lambda x, y: (augment(x), y), (image, 3)).ok
    for _ in range(5):  # by chance, as many flips come in both epochs
        assert checks.probe(tf.image.random_flip_left_right, image).ok
    with pytest.raises(ValueError, match="times is 2; allowed: a whole number of 8 or more"):
        checks.probe(augment, image, times=2)


@pytest.mark.long
def test_so_few_flips_may_be_alike_in_two_epochs_by_chance(data):
    few = slices(data).take(2)
    cached = on(tf.image.random_flip_left_right)(few).cache()
    found = checks.inspect(cached, random=True)["random"]
    assert (found.status, "by chance" in found.text) == ("not checked", True)


@pytest.mark.long
def test_memory_stays_small_whatever_the_images():
    import tracemalloc

    big = tf.data.Dataset.range(600).map(lambda i: tf.fill([200, 200, 3], tf.cast(i, tf.float32)))
    found = fingerprints.layout(big, None, None, None, None, "big")
    fingerprints.read(big.take(2), found, epochs=1, count=None, steps=None, what="big")
    tracemalloc.start()
    fingerprints.read(big, found, epochs=1, count=None, steps=None, what="big")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6 < 600 * 200 * 200 * 3


def test_files_that_ask_for_a_turn_are_counted_whatever_their_headers(album, tmp_path):
    turned = Image.Exif()
    turned[274] = 6
    paths = [str(tmp_path / f"{i}.jpg") for i in range(6)]
    for i, path in enumerate(paths):
        more = {"exif": turned} if i in (2, 4) else {"exif": b"Exif\0\0no tiff header"} if i == 5 else {}
        Image.new("RGB", (64, 48), (40 * i, 9, 9)).save(path, **more)
    with tf.io.TFRecordWriter(str(tmp_path / "photos.tfrecord")) as writer:
        writer.write(Path(paths[2]).read_bytes())

    def decode(data):
        return tf.ensure_shape(tf.io.decode_jpeg(data, 3), [48, 64, 3])

    files = slices(paths)
    read = files.map(lambda path: decode(tf.io.read_file(path)))
    python = files.map(lambda path: tf.py_function(lambda p: decode(tf.io.read_file(p)), [path], tf.uint8))
    records = tf.data.TFRecordDataset([str(tmp_path / "photos.tfrecord")]).map(decode)
    upright = slices(paths[:2]).map(lambda path: decode(tf.io.read_file(path)))
    for made, words in (
        (read, "fault: 2 of 6 files"),
        (upright, "passed"),
        (python, "not checked"),
        (records, "not checked: the photos are inside records"),
    ):
        found = checks.inspect(made, image=0)["orientation"]
        assert f"{found.status}: {found.text}".startswith(words), found


# -- the report --------------------------------------------------------------


@pytest.mark.long
def test_a_report_is_the_same_text_every_time(reference):
    made = []
    for _ in range(2):
        tf.random.set_seed(1)  # other elements may well have another report
        made.append(repr(checks.inspect(on(augment)(reference).cache(), reference, name="mine")))
    assert made[0] == made[1]
    lines = made[0].splitlines()
    assert lines[0] == "mine: 1 fault found; 3 of 15 checks could not be made"
    assert all(line.startswith(("  ✓ ", "  ✗ ", "  – ")) for line in lines[1:16])
    assert "0x" not in made[0]


def test_a_report_is_safe_html_and_names_its_checks_and_what_none_sees(reference):
    report = checks.inspect(reference, name="<b>")
    assert "&lt;b&gt;" in report._repr_html_()
    assert report._repr_html_().count("<tr>") == len(report.findings) == 14
    assert all(text.endswith(".") and text in repr(report) for text in report.unseen)
    for words in ("Blue for red", "wrapped", "checks.serving"):
        assert any(words in text for text in report.unseen)
    with pytest.raises(KeyError, match="no check 'colur'; there are: count, once"):
        report["colur"]


def test_bad_input_is_one_sentence(reference):
    for arguments, text in [
        ({"dataset": [1]}, "dataset is a list; allowed: a tf.data.Dataset"),
        ({"reference": 3}, "reference is a int; allowed: a tf.data.Dataset"),
    ]:
        with pytest.raises(TypeError, match=text):
            checks.inspect(**{"dataset": reference} | arguments)
    for arguments, text in [
        ({"steps": 0}, "steps is 0; allowed: a whole number of 1 or more"),
        ({"count": 1.5}, "count is 1.5; allowed: a whole number of 0 or more"),
        ({"value_range": (1, 0)}, r"value_range is \(1, 0\); allowed: two numbers"),
        ({"value_range": (0, math.inf)}, "a limit of value_range is inf; allowed: a number"),
        ({"value_range": 255}, "value_range is 255; allowed: two numbers"),
        ({"image": "photo"}, "image is 'photo'; dataset has the components 0, 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            checks.inspect(reference, **arguments)
    with pytest.raises(tf.errors.InvalidArgumentError):  # what the pipeline itself raises
        checks.inspect(reference.map(lambda x, y: (tf.io.decode_jpeg("no jpeg"), y)))
