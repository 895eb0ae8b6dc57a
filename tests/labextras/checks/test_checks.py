"""Faults that cost no time and ruin a training: each is planted and found, and healthy pipelines raise no alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from labextras import checks

SIDE, COUNT = 48, 96


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
    return tf.data.Dataset.from_tensor_slices(data)


def on_image(function):
    return lambda image, label: (function(image), label)


def to_float(image):
    return tf.image.convert_image_dtype(image, tf.float32)


def augment(image):
    image = tf.image.random_flip_left_right(to_float(image))
    image = tf.image.random_brightness(image, 32 / 255)
    return tf.clip_by_value(tf.image.random_saturation(image, 0.5, 1.5), 0, 1)


def rotate(image, degrees):
    angle = tf.cast(degrees, tf.float32) * np.pi / 180
    cos, sin, mid = tf.cos(angle), tf.sin(angle), (SIDE - 1) / 2
    move = tf.stack([cos, -sin, mid - cos * mid + sin * mid, sin, cos, mid - sin * mid - cos * mid, 0.0, 0.0])
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=to_float(image)[None], transforms=move[None], output_shape=[SIDE, SIDE], interpolation="BILINEAR",
        fill_mode="REFLECT", fill_value=0.0,
    )[0]  # fmt: skip


def cut(image, top, left, size=14):
    rows, columns = tf.range(SIDE)[:, None], tf.range(SIDE)[None]
    hole = (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
    return tf.where(hole[..., None], 0.0, to_float(image))


def random_cut(image):
    top, left = tf.random.uniform([], 0, 30, tf.int32), tf.random.uniform([], 0, 30, tf.int32)
    return cut(image, top, left)


def crop(image):
    padded = tf.pad(to_float(image), [[4, 4], [4, 4], [0, 0]], mode="REFLECT")
    return tf.image.random_crop(padded, [SIDE, SIDE, 3])


def faults(report):
    return {finding.name for finding in report.faults}


# -- healthy pipelines -------------------------------------------------------

HEALTHY = {
    "flip": lambda d: d.map(on_image(tf.image.random_flip_left_right)),
    "all": lambda d: d.map(on_image(augment)),
    "batched": lambda d: d.map(on_image(augment)).batch(32),
    "shuffled": lambda d: d.shuffle(96).map(on_image(augment), num_parallel_calls=2).batch(20).prefetch(2),
    "cached before": lambda d: d.cache().map(on_image(augment)),
    "turned": lambda d: d.map(on_image(lambda x: rotate(x, tf.random.uniform([], -5, 5)))),
    "cropped and turned": lambda d: d.map(on_image(lambda x: crop(rotate(x, tf.random.uniform([], -8, 8))))),
    "cut": lambda d: d.map(on_image(random_cut)),
    "crop, flip, turn, cut": lambda d: d.map(
        on_image(
            lambda x: random_cut(
                rotate(tf.image.random_flip_left_right(crop(x)), tf.random.uniform([], -5, 5)),
            )
        )
    ),
    "normalised": lambda d: d.map(on_image(lambda x: (augment(x) - 0.45) / 0.22)),
    "resized": lambda d: d.map(on_image(lambda x: tf.image.resize(augment(x), [32, 40]))),
    "upside down": lambda d: d.map(on_image(lambda x: tf.image.random_flip_up_down(augment(x)))),
    "dict": lambda d: d.map(lambda x, y: {"photo": augment(x), "label": y}),
    "endless": lambda d: d.shuffle(96).repeat().map(on_image(augment)).batch(36),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("angles", "found"), [([2.5] * 9 + [-4, -1, 5], False), ([2.5] * 12, True)])
def test_of_a_few_turns_some_are_alike_by_chance(data, angles, found):
    """Where random turns leave few images that can be recognised, half of their angles may lie close together."""
    images, labels = data[0][:12], data[1][:12]
    turned = np.stack([rotate(image, angle) for image, angle in zip(images, angles, strict=True)])
    report = checks.inspect(
        tf.data.Dataset.from_tensor_slices((turned, labels)),
        tf.data.Dataset.from_tensor_slices((images, labels)),
        random=True,
    )
    assert ("alike" in faults(report)) == found, report


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_pipeline_raises_no_alarm(name, reference):
    report = checks.inspect(HEALTHY[name](reference), reference, random=True)
    assert report.ok, report
    assert report["random"].status == report["finite"].status == report["blank"].status == "passed"


@pytest.mark.long
def test_everything_that_can_be_checked_is_checked_on_a_healthy_pipeline(reference, data):
    report = checks.inspect(
        reference.map(on_image(augment)), reference, value_range=(0, 1), deterministic=True, labels=data[1]
    )
    assert {f.name for f in report.unchecked} == {"resize", "orientation"}, report


def test_a_healthy_validation_pipeline_raises_no_alarm(reference):
    plain = reference.map(on_image(to_float)).batch(40).cache()
    report = checks.inspect(plain, reference, random=False, deterministic=True, value_range=(0, 1))
    assert report.ok, report
    assert {f.name for f in report.unchecked} == {"changed", "alike", "resize", "orientation"}


@pytest.mark.long
@given(batch=st.integers(1, 40), seed=st.integers(0, 99), epoch=st.sampled_from(["ends", "endless"]))
@settings(max_examples=8)
def test_batch_size_order_and_repeat_change_no_verdict(batch, seed, epoch):
    images = np.random.default_rng(5).integers(0, 255, [24, 12, 12, 3], np.uint8)
    reference = tf.data.Dataset.from_tensor_slices((images, np.arange(24)))
    moved = reference.shuffle(24, seed=seed)
    moved = (moved.repeat() if epoch == "endless" else moved).batch(batch)
    report = checks.inspect(moved, reference, random=False)
    assert report.ok, report
    for name in ("once", "labels", "random", "colour"):
        assert report[name].status == "passed", report
    short = checks.inspect(reference.skip(1).shuffle(24).batch(batch), reference)
    assert faults(short) == {"count", "once"}, short


# -- faults, one by one ------------------------------------------------------


def frozen_angle():
    generator = np.random.default_rng(1)
    return lambda image: rotate(image, 4 + 4 * generator.random())


def constant_brightness():
    generator = np.random.default_rng(1)
    return lambda image: tf.clip_by_value(to_float(image) + 0.08 + 0.05 * generator.random(), 0, 1)


def useless_cut(image):
    random_cut(image)
    return to_float(image)


def wrap(image):
    return image + tf.cast(tf.random.uniform([], 20, 100), tf.uint8)


def at_seventh(then):
    return lambda d: d.enumerate().map(lambda i, e: (then(i == 7, augment(e[0])), e[1]))


FAULTS = {
    "numpy frozen when traced": (lambda d: d.map(on_image(frozen_angle())), {"random", "alike"}),
    "frozen turn, hidden behind random steps": (
        lambda d: d.map(on_image(frozen_angle())).map(on_image(augment)),
        {"alike"},
    ),
    "frozen turn after a random flip": (
        lambda d: d.map(on_image(tf.image.random_flip_left_right)).map(on_image(frozen_angle())),
        {"alike"},
    ),
    "frozen brightness": (lambda d: d.map(on_image(constant_brightness())), {"random", "alike"}),
    "frozen patch": (lambda d: d.map(on_image(lambda x: cut(x, 10, 20))), {"random", "alike"}),
    "cached augmentation": (lambda d: d.map(on_image(augment)).cache(), {"random"}),
    "cached augmentation, batched": (lambda d: d.map(on_image(augment)).batch(32).cache(), {"random"}),
    "result thrown away": (lambda d: d.map(on_image(useless_cut)), {"random", "changed"}),
    "drop_remainder": (lambda d: d.map(on_image(augment)).batch(36, drop_remainder=True), {"count", "once"}),
    "take after shuffle": (lambda d: d.shuffle(96).map(on_image(augment)).take(90), {"count", "once"}),
    "filter": (lambda d: d.filter(lambda x, y: y != 0).map(on_image(augment)), {"count", "once"}),
    "repeat before shuffle": (lambda d: d.repeat(3).shuffle(288, seed=1).take(96).map(on_image(augment)), {"once"}),
    "overlapping parts": (lambda d: d.take(60).concatenate(d.skip(40)).map(on_image(augment)), {"count", "once"}),
    "wrap-around": (lambda d: d.map(on_image(wrap)), {"overflow"}),
    "wrap-around before float": (lambda d: d.map(on_image(lambda x: to_float(wrap(x)))), {"overflow"}),
    "blue, green, red": (lambda d: d.map(on_image(lambda x: augment(x)[..., ::-1])), {"colour"}),
    "not divided": (lambda d: d.map(on_image(lambda x: augment(x) * 255)), {"range"}),
    "not clipped": (lambda d: d.map(on_image(lambda x: tf.image.random_brightness(to_float(x), 0.4))), {"range"}),
    "divided twice": (lambda d: d.map(on_image(lambda x: augment(x) / 255)), {"blank"}),
    "NaN": (at_seventh(lambda bad, x: tf.where(bad, np.nan, x)), {"finite", "blank"}),
    "infinite": (at_seventh(lambda bad, x: x / tf.where(bad, 0.0, 1.0)), {"finite", "blank"}),
    "black": (at_seventh(lambda bad, x: tf.where(bad, 0.0, x)), {"blank"}),
    "all black": (lambda d: d.map(on_image(lambda x: to_float(x) * 0)), {"blank", "random"}),
}  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else_is_blamed(name, reference):
    plant, expected = FAULTS[name]
    claim = None if name.startswith("wrap-around") else (0, 1)
    report = checks.inspect(plant(reference), reference, random=True, value_range=claim)
    assert faults(report) == expected, report
    assert not report.ok


@pytest.mark.long
def test_labels_that_left_their_images_are_found(reference):
    images, labels = reference.map(lambda x, y: x), reference.map(lambda x, y: y)
    apart = tf.data.Dataset.zip(images.shuffle(96, seed=1), labels.shuffle(96, seed=2))
    assert faults(checks.inspect(apart, reference)) == {"labels"}
    moved = tf.data.Dataset.zip(images.map(augment), labels.skip(1).concatenate(labels.take(1)))
    assert faults(checks.inspect(moved, reference)) == {"labels"}


@pytest.mark.long
def test_labels_alone_show_loss_and_leave_the_pairing_open(reference, data):
    report = checks.inspect(reference, labels=data[1])
    assert (report["labels"].status, report["count"].status) == ("not checked", "passed")
    assert "needs reference=" in report["labels"].text
    swapped = reference.map(lambda x, y: (x, tf.where(y == 0, tf.constant(1, tf.int64), y)))
    assert faults(checks.inspect(swapped, labels=data[1])) == {"labels"}


@pytest.mark.long
def test_an_order_that_was_to_be_the_same_is_compared(reference):
    shuffled = reference.map(on_image(augment)).shuffle(96)
    report = checks.inspect(shuffled, reference, deterministic=True)
    assert faults(report) == {"order"}
    assert checks.inspect(shuffled, reference)["order"].status == "not checked"
    fixed = reference.shuffle(96, seed=3, reshuffle_each_iteration=False).map(on_image(augment))
    assert checks.inspect(fixed, reference, deterministic=True)["order"].status == "passed"
    options = tf.data.Options()
    options.deterministic = False
    loose = checks.inspect(reference.with_options(options), deterministic=True)["order"]
    assert (loose.status, "promises none" in loose.text) == ("not checked", True)


BESIDE = {
    "a time step": lambda x: (x, tf.random.uniform([], 0, 1000, tf.int32)),
    "one of five captions": lambda x: (x, tf.constant(list("abcde"))[tf.random.uniform([], 0, 5, tf.int32)]),
    "another view": lambda x: (to_float(x), augment(x)),
    "noise": lambda x: {"clean": to_float(x), "noisy": to_float(x) + tf.random.normal(x.shape)},
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", BESIDE)
def test_what_is_drawn_beside_the_image_need_not_change_its_pixels(name, reference):
    made = reference.map(lambda x, y: BESIDE[name](x))
    for reference_or_none in (None, reference.map(lambda x, y: x)):
        seen = checks.inspect(made, reference_or_none)
        assert not seen.faults, seen
        assert seen["random"].status == "not checked"
    assert faults(checks.inspect(made, random=True)) == {"random"}
    assert faults(checks.inspect(made.cache())) == {"random"}


def test_a_cached_augmentation_is_found_without_any_help(reference):
    report = checks.inspect(reference.map(on_image(augment)).cache().batch(32))
    assert faults(report) == {"random"}
    assert "cache" in report["random"].text


@pytest.mark.long
def test_random_pixels_where_none_should_be_are_found(reference):
    assert faults(checks.inspect(reference.map(on_image(augment)), reference, random=False)) == {"random"}


@pytest.mark.long
def test_a_seed_that_starts_over_each_epoch_is_found(reference):
    same = reference.enumerate().map(
        lambda i, e: (tf.image.stateless_random_brightness(to_float(e[0]), 0.1, [i, i]), e[1])
    )
    assert "random" in faults(checks.inspect(same, reference, random=True))


def test_repeats_are_found_without_a_reference(reference):
    report = checks.inspect(reference.take(10).concatenate(reference))
    assert faults(report) == {"once"}
    keyed = tf.data.Dataset.from_tensor_slices(
        {"path": ["a", "b", "a"], "photo": np.random.default_rng(1).random([3, 9, 9, 3])}
    )
    assert faults(checks.inspect(keyed)) == {"once"}


@pytest.mark.long
def test_keys_find_loss_whatever_happened_to_the_pixels(data):
    images, labels = data
    named = tf.data.Dataset.from_tensor_slices({"id": np.arange(COUNT), "photo": images, "label": labels})
    noise = named.map(lambda e: e | {"photo": tf.random.uniform([SIDE, SIDE, 3])})
    report = checks.inspect(noise.skip(3), named, key="id")
    assert faults(report) == {"count", "once"}
    assert "3 of 96" in report["once"].text
    assert checks.inspect(noise, named, key="id")["once"].status == "passed"


FORMS = {
    "float": lambda y: tf.cast(y, tf.float32),
    "in a list": lambda y: y[None],
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
    assert not checks.inspect(formed.batch(32), labels=data[1]).faults
    merged = reference.map(lambda x, y: (x, FORMS[name](tf.maximum(y, 1))))
    moved = tf.data.Dataset.zip(reference.map(lambda x, y: x), formed.map(lambda x, y: y).skip(1).repeat().take(COUNT))
    soft = name == "smoothed"  # as mixup leaves them, they may differ
    for wrong in (merged, moved):
        assert faults(checks.inspect(wrong, reference)) == (set() if soft else {"labels"})
    assert faults(checks.inspect(merged, labels=data[1])) == (set() if soft else {"labels"})


@pytest.mark.long
def test_soft_labels_lead_to_no_conclusion(reference, data):
    mixed = reference.map(
        lambda x, y: (x, 0.7 * tf.one_hot(y, 10) + 0.3 * tf.one_hot(tf.random.shuffle([y, 3])[0], 10))
    )
    hard = reference.map(lambda x, y: (x, tf.one_hot(y, 10)))
    for options in ({"reference": reference}, {"reference": hard}, {"labels": data[1]}):
        report = checks.inspect(mixed, **options)
        assert (report["labels"].status, "soft" in report["labels"].text) == ("not checked", True), report


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [np.float32, np.float16])
def test_what_was_measured_is_the_same_label_in_another_precision(data, width):
    images, values = data[0], np.random.default_rng(2).random(COUNT)
    exact = tf.data.Dataset.from_tensor_slices((images, values))
    rounded = tf.data.Dataset.from_tensor_slices((images, values.astype(width)))
    for one, other in ((rounded, exact), (exact, rounded)):
        assert not checks.inspect(one, other).faults
        assert not checks.inspect(one, labels=values.astype(width) if one is exact else values).faults
    if width is np.float32:
        assert checks.inspect(rounded, exact)["labels"].status == "passed"
        apart = tf.data.Dataset.from_tensor_slices((images, np.roll(values, 1).astype(width)))
        assert faults(checks.inspect(apart, exact)) == {"labels"}
        assert faults(checks.inspect(rounded.skip(1), labels=values)) == {"count", "labels"}


MEASURED = {
    "boxes": (lambda draw: draw.random([COUNT, 4]), lambda y: tf.stack([1 - y[2], y[1], 1 - y[0], y[3]])),
    "boxes in pixels": (
        lambda draw: draw.integers(0, SIDE, [COUNT, 4]),
        lambda y: tf.stack([47 - y[2], y[1], 47 - y[0], y[3]]),
    ),
    "an angle": (lambda draw: draw.normal(size=COUNT), lambda y: -y),
    "one of few angles": (lambda draw: draw.integers(-9, 10, COUNT) / 10, lambda y: -y),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_what_moves_with_its_image_is_not_called_mislabelled(name, data):
    made, mirrored = MEASURED[name]
    values = made(np.random.default_rng(2))
    reference = tf.data.Dataset.from_tensor_slices((data[0], values))

    def flip(image, label):
        turn = tf.random.uniform([]) < 0.5
        return tf.where(turn, image[:, ::-1], image), tf.where(turn, mirrored(label), label)

    for options in ({"reference": reference}, {"labels": values}):
        assert not checks.inspect(reference.map(flip), random=True, **options).faults
    # Each image is mirrored: one that came as it was, with a label of a mirrored one, would be mislabelled indeed.
    moved = reference.map(lambda x, y: (tf.image.random_brightness(to_float(x[:, ::-1]), 32 / 255), mirrored(y)))
    assert checks.inspect(moved, reference)["labels"].status == "not checked"
    unit = reference.map(lambda x, y: (x, tf.cast(y, tf.float32) / 7 + 1))
    assert not checks.inspect(unit, reference, labels=values).faults
    apart = tf.data.Dataset.from_tensor_slices((data[0], np.roll(values, 1, axis=0)))
    assert faults(checks.inspect(apart, reference)) == {"labels"}
    one = reference.enumerate().map(lambda i, e: (e[0], tf.where(i == 5, e[1] + 1, e[1])))
    assert faults(checks.inspect(one, reference)) == {"labels"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("page", ["white", "its own mirror image"])
@pytest.mark.parametrize("name", MEASURED)
def test_a_page_may_have_moved_although_its_pixels_stayed(name, page, data):
    made, mirrored = MEASURED[name]
    values = made(np.random.default_rng(2))
    pages = data[0].copy()
    pages[7] = 255 if page == "white" else np.maximum(pages[7], pages[7][:, ::-1])
    reference = tf.data.Dataset.from_tensor_slices((pages, values))

    def flip(number, element):
        image, label = element
        return tf.where(number % 2 == 1, image[:, ::-1], image), tf.where(number % 2 == 1, mirrored(label), label)

    report = checks.inspect(reference.enumerate().map(flip), reference)
    assert report["labels"].status == "not checked", report


@pytest.mark.long
def test_names_of_classes_are_labels_and_no_keys(data):
    images, labels = data
    names = np.array(["cat", "dog", "owl"])[labels % 3]
    named = tf.data.Dataset.from_tensor_slices((images, names))
    report = checks.inspect(named.shuffle(COUNT).batch(32), named)
    assert report.ok, report
    assert report["labels"].status == report["once"].status == "passed", report
    assert not checks.inspect(named.map(on_image(augment)), labels=names).faults
    apart = tf.data.Dataset.from_tensor_slices((images, np.roll(names, 1)))
    assert faults(checks.inspect(apart, named)) == {"labels"}
    both = tf.data.Dataset.from_tensor_slices((images, labels, names))
    assert not checks.inspect(both).faults


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["plain", "augmented", "beside a reference"])
def test_names_that_come_a_few_times_each_are_no_keys(data, how):
    named = tf.data.Dataset.from_tensor_slices((data[0], np.repeat([f"person {i}" for i in range(32)], 3)))
    made = named if how == "plain" else named.map(on_image(augment))
    report = checks.inspect(made.shuffle(COUNT), named if how == "beside a reference" else None)
    assert not report.faults, report


@pytest.mark.long
def test_a_text_that_names_one_element_is_a_key_whatever_is_drawn(data):
    named = tf.data.Dataset.from_tensor_slices((data[0], [f"{i}.jpg" for i in range(COUNT)]))
    for made in (named.repeat(2), named.repeat(2).map(on_image(augment))):
        assert faults(checks.inspect(made)) == {"once"}


@pytest.mark.long
def test_paths_stay_keys_however_often_they_are_repeated(data):
    images, _ = data
    named = tf.data.Dataset.from_tensor_slices((images, [f"{i}.jpg" for i in range(COUNT)]))
    assert faults(checks.inspect(named.repeat(4).map(on_image(augment)), named)) == {"count", "once"}


@pytest.mark.long
def test_errors_that_are_ignored_are_losses(reference):
    def fragile(i, element):
        with tf.control_dependencies([tf.debugging.assert_none_equal(i % 10, tf.constant(3, tf.int64))]):
            return tf.identity(element[0]), element[1]

    lossy = reference.enumerate().map(fragile).ignore_errors(log_warning=False)
    report = checks.inspect(lossy, reference)
    assert faults(report) == {"count", "once"}
    assert "ignore_errors" in report["count"].text


# -- honesty -----------------------------------------------------------------


def test_what_could_not_be_checked_says_why_and_never_passes(reference):
    report = checks.inspect(reference)
    for name in ("count", "once", "labels", "overflow", "colour", "changed", "alike", "random", "range", "order"):
        assert report[name].status == "not checked", report
        assert report[name] not in report.passed
    for name in ("overflow", "colour", "changed", "alike"):
        assert "needs reference=" in report[name].text
    assert len(report.passed) + len(report.faults) + len(report.unchecked) == len(report.findings)


@pytest.mark.long
def test_images_nobody_can_recognise_lead_to_no_conclusion(reference):
    noise = reference.map(lambda x, y: (tf.random.uniform([SIDE, SIDE, 3]), y))
    report = checks.inspect(noise, reference, random=True)
    assert not report.faults, report
    for name in ("once", "labels", "overflow", "alike", "colour"):
        assert report[name].status == "not checked", report


@pytest.mark.long
def test_grey_images_have_no_order_of_colours(reference):
    grey = reference.map(on_image(tf.image.rgb_to_grayscale))
    assert checks.inspect(grey, grey)["colour"].status == "not checked"
    tripled = grey.map(on_image(tf.image.grayscale_to_rgb))
    assert checks.inspect(tripled, tripled)["colour"].status == "not checked"


@pytest.mark.long
def test_pixels_for_a_caffe_model_are_not_called_exchanged(reference):
    caffe = reference.map(on_image(lambda x: tf.cast(x[..., ::-1], tf.float32) - [103.939, 116.779, 123.68]))
    report = checks.inspect(caffe.batch(32), reference)
    assert not report.faults, report
    assert (report["colour"].status, "Caffe" in report["colour"].text) == ("not checked", True)


@pytest.mark.long
def test_too_few_of_a_rare_label_do_not_tell_whether_labels_are_mixed():
    def seen(rare):
        return checks.inspect(tf.data.Dataset.from_tensor_slices(np.arange(1000) < rare), label=0)["mixed"]

    assert (seen(10).status, "rare" in seen(10).text) == ("not checked", True)
    assert seen(200).status == "fault"


@pytest.mark.long
def test_photos_inside_records_are_not_said_to_lie_upright(album, tmp_path):
    name = str(tmp_path / "photos.tfrecord")
    with tf.io.TFRecordWriter(name) as writer:
        for path in album.paths[:8]:
            writer.write(tf.io.read_file(path).numpy())
    decoded = tf.data.TFRecordDataset([name]).map(lambda record: tf.io.decode_jpeg(record, channels=3))
    found = checks.inspect(decoded)["orientation"]
    assert (found.status, "inside records" in found.text) == ("not checked", True), found


@pytest.mark.long
def test_part_of_an_epoch_proves_no_loss(reference):
    report = checks.inspect(reference.map(on_image(augment)).batch(8), reference, steps=3)
    assert not report.faults, report
    assert report["count"].status == report["once"].status == "not checked"
    assert report["random"].status == "passed"


@pytest.mark.long
def test_another_part_of_shuffled_elements_is_no_random_step(reference):
    bare = reference.map(lambda x, y: x)
    for made, steps in (
        (reference.shuffle(COUNT).batch(8), 3),
        (bare.shuffle(COUNT).batch(8), 3),
        (bare.shuffle(COUNT).batch(36, drop_remainder=True), None),
        (reference.enumerate().map(lambda i, e: (e[0], tf.strings.as_string(i))).shuffle(COUNT).batch(8), 3),
    ):
        for random in (True, False):
            found = checks.inspect(made, random=random, steps=steps)["random"]
            assert (found.status, "hold different elements" in found.text) == ("not checked", True), found
    for size in (32, COUNT):
        even = bare.map(augment).shuffle(COUNT).batch(size, drop_remainder=True)
        assert checks.inspect(even, random=True)["random"].status == "passed"
        assert faults(checks.inspect(even, random=False)) == {"random"}


@pytest.mark.long
def test_dark_images_of_bytes_are_the_same_pixels_in_any_order():
    images = np.random.default_rng(4).integers(0, 256, [100, 12, 12, 3]).astype(np.float32)
    images[:50] *= 0.05
    made = tf.data.Dataset.from_tensor_slices(images).shuffle(100)
    for _ in range(4):
        assert checks.inspect(made, random=False)["random"].status == "passed"
    frozen = made.map(lambda x: x + tf.random.uniform([], 0, 9)).cache().shuffle(100)
    for _ in range(4):
        assert faults(checks.inspect(frozen)) == {"random"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32])
def test_small_whole_numbers_of_any_width_are_different_images(dtype):
    images = np.random.default_rng(4).integers(0, 120, [40, 12, 12, 1]).astype(dtype)
    made = tf.data.Dataset.from_tensor_slices(images)
    assert not checks.inspect(made.shuffle(40), made, random=False).faults
    changed = made.map(lambda x: x + tf.cast(tf.random.uniform([12, 12, 1], 0, 9, tf.int32), x.dtype))
    assert not checks.inspect(changed, random=True).faults


def scaled(image):
    return (tf.cast(image, tf.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


EMPTY = {
    "mean and deviation": lambda d: d.map(scaled),
    "a mean taken off": lambda d: d.map(lambda x: tf.cast(x, tf.float32) - [103.939, 116.779, 123.68]),
    "alpha": lambda d: d.map(lambda x: tf.concat([x, tf.fill([SIDE, SIDE, 1], tf.constant(255, tf.uint8))], -1)),
    "channels first": lambda d: d.map(lambda x: tf.transpose(scaled(x), [2, 0, 1])),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("colour", [(0, 0, 0), (200, 30, 30)])
@pytest.mark.parametrize("name", EMPTY)
def test_an_image_of_one_colour_is_found_whatever_each_channel_became(data, name, colour):
    images = data[0].copy()
    assert not checks.inspect(EMPTY[name](tf.data.Dataset.from_tensor_slices(images))).faults
    images[7] = colour
    seen = checks.inspect(EMPTY[name](tf.data.Dataset.from_tensor_slices(images)))
    assert faults(seen) == {"blank"}
    assert "1 of 96 images are of one colour, the first is number 7" in seen["blank"].text


@pytest.mark.long
def test_channels_may_come_first(data):
    images, labels = data
    first = tf.data.Dataset.from_tensor_slices({"label": labels, "photo": images.transpose(0, 3, 1, 2)})
    last = tf.data.Dataset.from_tensor_slices({"label": labels, "photo": images})
    swapped = first.map(lambda e: e | {"photo": e["photo"][::-1]})
    for reference in (first, last):
        assert checks.inspect(first, reference)["colour"].status == "passed"
        assert faults(checks.inspect(swapped, reference)) == {"colour"}


@pytest.mark.long
def test_the_photo_is_looked_at_and_not_the_mask_beside_it(data):
    masks = np.zeros([COUNT, SIDE, SIDE, 1], np.uint8)
    for photo in ("image", "visible"):
        made = tf.data.Dataset.from_tensor_slices({"gt": masks, photo: data[0]})
        for way in (made, made.batch(32)):
            assert not checks.inspect(way, value_range=(0, 255)).faults
            assert "brighter" not in repr(checks.inspect(way))
        assert "blank" in faults(checks.inspect(made.map(lambda e, photo=photo: e | {photo: e[photo] * 0})))
    three = tf.data.Dataset.from_tensor_slices({"gt": np.repeat(masks, 3, -1), "image": data[0]})
    assert not checks.inspect(three).faults
    pair = tf.data.Dataset.from_tensor_slices((data[0].mean(-1, keepdims=True), np.repeat(masks, 3, -1)))
    assert not checks.inspect(pair).faults


@pytest.mark.long
def test_a_dataset_that_never_ends_and_does_not_say_so_is_read_as_one(reference):
    seen = checks.inspect(reference.repeat().filter(lambda x, y: y < 5), count=48)
    assert not seen.faults, seen
    assert (seen["count"].status, "never ends" in seen["count"].text) == ("not checked", True)
    assert checks.inspect(reference.filter(lambda x, y: y < 10), count=COUNT)["count"].status == "passed"
    twice = reference.flat_map(lambda x, y: tf.data.Dataset.from_tensors((x, y)).repeat(2))
    assert faults(checks.inspect(twice, reference)) >= {"count", "once"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("views", [2, 4])
def test_several_views_of_one_photo_in_a_row_are_not_sorted(reference, views):
    made = reference.shuffle(COUNT).flat_map(lambda x, y: tf.data.Dataset.from_tensors((x, y)).repeat(views))
    assert checks.inspect(made.map(on_image(augment)).batch(32), random=True)["mixed"].status == "passed"


@pytest.mark.sample(1)
@pytest.mark.parametrize("each", [5, 12, 50])
def test_sorted_elements_are_found_however_few_a_label_has(each):
    sorted_ = tf.data.Dataset.from_tensor_slices(np.repeat(np.arange(10), each))
    assert checks.inspect(sorted_, label=0)["mixed"].status == "fault"
    assert checks.inspect(sorted_.shuffle(10 * each), label=0)["mixed"].status == "passed"


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_a_range_leaves_room_for_the_rounding_of_half_precision(reference, dtype):
    made = reference.map(on_image(lambda x: tf.cast((to_float(x) * 0 + [0.0, 0.5, 1.0] - 0.406) / 0.225, dtype)))
    assert checks.inspect(made, value_range=(-1.81, 2.64))["range"].status == "passed"
    assert checks.inspect(made, value_range=(-1.81, 2.5))["range"].status == "fault"


def letters(count=80):
    """Return pages of black lines on white paper: of few values, and most of them one."""
    pages, draw = np.full([count, 64, 48, 1], 255, np.uint8), np.random.default_rng(7)
    for page in pages:
        for top in range(6, 58, 5):
            page[top : top + 2, 4 : 4 + draw.integers(10, 40)] = draw.integers(0, 60)
    return pages


def pushed(page):
    return tf.image.random_crop(tf.pad(page, [[3, 3], [3, 3], [0, 0]], mode="REFLECT"), page.shape)


@pytest.mark.long
@pytest.mark.parametrize("change", [to_float, tf.image.random_flip_left_right, pushed, lambda x: x // 2])
def test_pages_that_are_mostly_white_did_not_wrap_around(change):
    pages = tf.data.Dataset.from_tensor_slices({"page": letters(), "key": np.arange(80)})
    made = pages.map(lambda e: e | {"page": change(e["page"])})
    assert not checks.inspect(made, pages, key="key").faults


@pytest.mark.long
def test_white_paper_that_wrapped_around_is_found():
    pages = tf.data.Dataset.from_tensor_slices({"page": letters(), "key": np.arange(80)})
    made = pages.map(lambda e: e | {"page": e["page"] + tf.constant(40, tf.uint8)})
    assert faults(checks.inspect(made, pages, key="key")) == {"overflow"}


@pytest.mark.long
def test_without_its_opaque_channel_a_photo_is_the_same(data):
    images, labels = data
    opaque = np.concatenate([images, np.full_like(images[..., :1], 255)], axis=-1)
    reference = tf.data.Dataset.from_tensor_slices((opaque, labels))
    made = reference.map(lambda x, y: (augment(x[..., :3]), y))
    report = checks.inspect(made, reference, random=True)
    assert not report.faults, report
    assert report["overflow"].status == report["colour"].status == "passed", report


@pytest.mark.long
def test_colours_of_a_negative_are_not_exchanged(data):
    named = tf.data.Dataset.from_tensor_slices({"photo": data[0], "id": np.arange(COUNT)})
    report = checks.inspect(named.map(lambda e: e | {"photo": 255 - e["photo"]}), named, key="id")
    assert report["colour"].status == "not checked", report
    assert "negatives of the reference" in report["colour"].text


@pytest.mark.long
def test_channels_may_come_first_in_batches(data):
    images, labels = data
    reference = tf.data.Dataset.from_tensor_slices((images, labels))
    first = reference.map(lambda x, y: (tf.transpose(to_float(x), [2, 0, 1]), y)).batch(32)
    assert checks.inspect(first, reference)["colour"].status == "passed"
    assert faults(checks.inspect(first, value_range=(-2.2, 2.7))) == {"range"}


def test_sorted_elements_may_be_for_evaluation_where_nothing_is_random():
    ordered = tf.data.Dataset.from_tensor_slices(np.repeat(np.arange(10), 12))
    seen = checks.inspect(ordered, label=0, random=False, deterministic=True)["mixed"]
    assert (seen.status, "evaluation" in seen.text) == ("not checked", True)
    for options in ({}, {"random": False}, {"deterministic": True}):
        assert checks.inspect(ordered, label=0, **options)["mixed"].status == "fault"


def test_an_empty_dataset_is_a_fault(reference):
    assert faults(checks.inspect(reference.take(0))) == {"count"}
    assert "count" in faults(checks.inspect(reference.take(0), reference, random=True))


# -- any dataset -------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("made", "batched", "image"),
    [
        (lambda: tf.data.Dataset.from_tensor_slices(np.zeros([5, 9, 9, 3], np.uint8)), False, 0),
        (lambda: tf.data.Dataset.from_tensor_slices(np.zeros([6, 9, 9, 3], np.float32)).batch(2), True, 0),
        (lambda: tf.data.Dataset.from_tensor_slices(np.zeros([5, 28, 28], np.uint8)), False, 0),
        (lambda: tf.data.Dataset.from_tensor_slices((np.zeros([6, 28, 28]), np.arange(6))).batch(2), True, 0),
        (lambda: tf.data.Dataset.from_tensor_slices({"y": np.arange(6), "z": np.zeros([6, 9, 9, 1])}), False, 1),
        (lambda: tf.data.Dataset.range(9), False, None),
        (lambda: tf.data.Dataset.range(9).batch(4), True, None),
        (lambda: tf.data.Dataset.from_tensor_slices(["a", "b"]), False, None),
        (lambda: tf.data.Dataset.from_tensor_slices((np.zeros([6, 2]), np.arange(6))), False, None),
    ],
)
def test_the_layout_is_read_from_the_shapes(made, batched, image):
    from labextras.checks import fingerprints

    found = fingerprints.layout(made(), None, None, None, None, "dataset")
    assert (found.batched, found.image) == (batched, image)
    assert isinstance(checks.inspect(made(), made()), checks.DataReport)


VECTORS = np.random.default_rng(3).random([70, 20], np.float32)
TOKENS = np.arange(70 * 12).reshape(70, 12)
BATCHES_OF_VECTORS = {
    "features": (VECTORS, np.arange(70) % 2),
    "features alone": VECTORS,
    "tokens": {"attention_mask": np.ones_like(TOKENS), "input_ids": TOKENS, "labels": np.arange(70) % 2},
    "tokens and next tokens": (TOKENS[:, :-1], TOKENS[:, 1:]),
}


@pytest.mark.parametrize("name", BATCHES_OF_VECTORS)
def test_a_batch_of_vectors_is_no_image(name):
    vectors = tf.data.Dataset.from_tensor_slices(BATCHES_OF_VECTORS[name])
    ways = [vectors.batch(32), vectors.padded_batch(32)]
    for made in ways if name == "features alone" else [*ways, vectors.batch(35, drop_remainder=True)]:
        report = checks.inspect(made, count=70)
        assert not report.faults, report
        assert (report["count"].status, report["blank"].status) == ("passed", "not checked"), report


@pytest.mark.parametrize(
    ("element", "image"),
    [
        ((tf.zeros([30, 28]), 1), 0),
        ((tf.zeros([28, 28]), tf.zeros([28, 28])), 0),
        ({"boxes": tf.zeros([5, 4]), "image": tf.zeros([9, 9, 3])}, 1),
    ],
)
def test_an_image_beside_a_value_a_mask_or_boxes_is_one(element, image):
    from labextras.checks import fingerprints

    one = tf.data.Dataset.from_tensors(element)
    for made, batched in ((one, False), (one.batch(2), True)):
        found = fingerprints.layout(made, None, None, None, None, "dataset")
        assert (found.batched, found.image) == (batched, image)


@pytest.mark.parametrize(
    ("element", "label"),
    [
        (([0.1, 0.2], 1), 1),
        (([0.1, 0.2], 1, 0.5), 1),
        (({"image": tf.zeros([9, 9, 3]), "meta": [1.0, 2.0]}, 1), 2),
        ((tf.zeros([9, 9, 3]), 1, 0.5), 1),
        ((tf.zeros([9, 9, 3]), "path", 1), 2),
        ((5, tf.zeros([9, 9, 3])), 0),
        ((5, 6, 7, tf.zeros([9, 9, 3])), 0),
        ({"a": 5, "image": tf.zeros([9, 9, 3]), "label": 1}, 2),
    ],
)
def test_the_label_is_the_second_part_of_a_pair(element, label):
    from labextras.checks import fingerprints

    one = tf.data.Dataset.from_tensors(element)
    for made in (one, one.batch(2)):
        assert fingerprints.layout(made, None, None, None, None, "dataset").label == label


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"image": 0}])
def test_images_whose_shape_a_python_function_hides_are_read_from_the_first_element(data, options):
    images, labels = data
    hidden = tf.data.Dataset.range(COUNT).map(
        lambda i: (tf.py_function(lambda j: images[int(j)], [i], tf.uint8), tf.gather(labels, i))
    )
    reference = tf.data.Dataset.from_tensor_slices(data)
    for made in (hidden, hidden.batch(32)):
        report = checks.inspect(made, reference, **options)
        assert report.ok, report
        assert report["blank"].status == report["labels"].status == "passed", report
    assert faults(checks.inspect(hidden.take(0), **options)) == {"count"}


def test_clips_and_rows_of_tokens_beside_a_single_label_are_no_batches():
    clips = tf.data.Dataset.from_tensor_slices((np.random.default_rng(1).random([8, 5, 9, 9, 3]), np.arange(8) % 2))
    tokens = tf.data.Dataset.from_tensor_slices((tf.ragged.constant([[1, 2], [3], [4, 5, 6], [7]] * 2), np.arange(8)))
    alone = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3]] * 4))
    for made in (clips, tokens, alone, tokens.batch(3)):
        report = checks.inspect(made, count=8)
        assert (report["count"].status, report["blank"].status) == ("passed", "not checked"), report
        assert not report.faults, report
    assert checks.inspect(clips, image=0, count=8)["blank"].status == "passed"
    with pytest.raises(ValueError, match="component 1 of dataset is a single value; a batch has one per element"):
        checks.inspect(clips, batched=True)


def test_elements_without_images_are_counted_all_the_same():
    numbers = tf.data.Dataset.range(50)
    assert checks.inspect(numbers.shuffle(50).batch(7), numbers).ok
    assert faults(checks.inspect(numbers.batch(7, drop_remainder=True), numbers)) == {"count", "once"}
    twice = tf.data.Dataset.from_tensor_slices([0, 0, 1, 2])
    assert checks.inspect(twice, twice)["once"].status == "passed"
    assert checks.inspect(twice)["once"].status == "not checked"
    assert faults(checks.inspect(twice.take(1).concatenate(twice).skip(1).take(3), twice)) == {"count", "once"}
    assert "image=" in checks.inspect(numbers)["finite"].text


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
    for asked in ({}, {"deterministic": True}):
        report = checks.inspect(endless, steps=steps, random=False, **asked)
        assert not report.faults, report
        assert "never ends" in report["order"].text
    assert "count=" in checks.inspect(endless, steps=7, random=False)["once"].text
    assert checks.inspect(endless, count=COUNT, random=False, deterministic=True)["order"].status == "passed"


@pytest.mark.long
def test_an_endless_dataset_needs_a_length(reference):
    endless = reference.map(on_image(augment)).repeat().batch(36)
    with pytest.raises(ValueError, match=r"never ends .*steps=, count=, or reference="):
        checks.inspect(endless)
    assert checks.inspect(endless, count=COUNT)["random"].status == "passed"
    assert checks.inspect(endless, steps=2)["random"].status == "passed"
    frozen = reference.map(on_image(augment)).cache().repeat().batch(36)
    assert faults(checks.inspect(frozen, count=COUNT)) == {"random"}
    lost = reference.skip(5).repeat()
    assert "once" in faults(checks.inspect(lost, reference))


@pytest.mark.long
def test_one_augmentation_is_looked_at_alone(data):
    image = data[0][3]
    frozen = checks.probe(frozen_angle(), image)
    assert {"alike", "random"} <= faults(frozen)
    assert {"changed", "random"} <= faults(checks.probe(useless_cut, image))
    assert checks.probe(random_cut, image).ok
    assert checks.probe(on_image(augment), (image, 3)).ok
    with pytest.raises(ValueError, match="times is 2; allowed: a whole number of 8 or more"):
        checks.probe(augment, image, times=2)


@pytest.mark.long
def test_as_many_flips_in_both_epochs_are_no_cache(data):
    """Of eight flips of one image as many come in two epochs, in some order, in every fifth check."""
    for _ in range(20):
        assert checks.probe(tf.image.random_flip_left_right, data[0][3], times=8).ok


@pytest.mark.long
def test_a_few_flips_that_are_alike_in_two_epochs_are_no_cache(data):
    """Of two flips one check in four finds two epochs alike; a cache is found all the same, in any order."""
    few = tf.data.Dataset.from_tensor_slices(data).take(2)
    flipped = few.map(on_image(tf.image.random_flip_left_right))
    for _ in range(20):
        assert not faults(checks.inspect(flipped, few, random=True))
    for cached in (flipped.cache(), flipped.cache().shuffle(2)):
        assert "random" in faults(checks.inspect(cached, few, random=True))


@pytest.mark.long
@pytest.mark.parametrize("degrees", [4.5, 5.5, 7.9])
def test_one_turn_is_found_whatever_its_angle_and_the_other_steps_are(reference, degrees):
    turned = reference.map(on_image(lambda image: rotate(image, degrees)))
    for _ in range(2):
        assert faults(checks.inspect(turned.map(on_image(augment)), reference, random=True)) == {"alike"}


@pytest.mark.long
def test_memory_stays_small_whatever_the_images(reference):
    import tracemalloc

    from labextras.checks import fingerprints

    big = tf.data.Dataset.range(600).map(lambda i: tf.fill([200, 200, 3], tf.cast(i, tf.float32)))
    found = fingerprints.layout(big, None, None, None, None, "big")
    fingerprints.read(big.take(2), found, epochs=1, count=None, steps=None, what="big")
    tracemalloc.start()
    fingerprints.read(big, found, epochs=1, count=None, steps=None, what="big")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6 < 600 * 200 * 200 * 3


# -- the report --------------------------------------------------------------


@pytest.mark.long
def test_a_report_is_the_same_text_every_time(reference):
    made = []
    for _ in range(2):
        tf.random.set_seed(1)  # other elements may well have another report
        made.append(repr(checks.inspect(reference.map(on_image(augment)).cache(), reference, name="mine")))
    assert made[0] == made[1]
    lines = made[0].splitlines()
    assert lines[0] == "mine: 1 fault, 10 passed, 4 not checked"
    assert all(line.startswith(("  ✓ ", "  ✗ ", "  – ")) for line in lines[1:16])
    assert [line.strip() for line in lines[17:]] == list(checks.inspect(reference).unseen)
    assert "0x" not in made[0]


def test_a_report_is_safe_html_and_names_its_checks(reference):
    report = checks.inspect(reference, name="<b>")
    assert "&lt;b&gt;" in report._repr_html_()
    assert report._repr_html_().count("<tr>") == 15
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
        ({"value_range": (False, 255)}, "a limit of value_range is False; allowed: a number"),
        ({"value_range": 255}, "value_range is 255; allowed: two numbers"),
        ({"image": "photo"}, "image is 'photo'; dataset has the components 0, 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            checks.inspect(reference, **arguments)


@pytest.mark.long
def test_a_broken_pipeline_says_itself_what_is_wrong(reference):
    broken = reference.map(lambda x, y: (tf.io.decode_jpeg("no jpeg"), y))
    with pytest.raises(tf.errors.InvalidArgumentError):
        checks.inspect(broken)
