"""Each silent error that costs accuracy and no time is found in pipelines of several styles, and healthy ones pass."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from labextras import checks
from labkit import photos, pixels

pytestmark = pytest.mark.random

COUNT = 160
STYLES = ("arrays", "files", "records")
styles = pytest.mark.parametrize("style", STYLES)


@pytest.fixture(scope="module")
def album():
    return photos.load(scale="tiny", progress=False)


@pytest.fixture(scope="module")
def source(album, tmp_path_factory):
    """Return a function: a style and an order of the photos become a dataset of (bytes, label)."""
    made = pixels.of(album, progress=False)
    folder = tmp_path_factory.mktemp("silent")
    files = []
    for i, image in enumerate(made.images):
        files.append(str(folder / f"{i}.png"))
        Image.fromarray(image).save(files[-1])

    def load(path, label):
        return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), 3), [48, 48, 3]), label

    def parse(record):
        image = tf.reshape(tf.io.decode_raw(tf.strings.substr(record, 1, 6912), tf.uint8), [48, 48, 3])
        return image, tf.cast(tf.io.decode_raw(tf.strings.substr(record, 0, 1), tf.uint8)[0], tf.int64)

    def give(style, rows=None):
        rows = np.arange(COUNT) if rows is None else rows
        images, labels = made.images[rows], made.labels[rows]
        if style == "arrays":
            return tf.data.Dataset.from_tensor_slices((images, labels))
        if style == "files":
            return tf.data.Dataset.from_tensor_slices(([files[i] for i in rows], labels)).map(load)
        name = str(folder / f"{hash(rows.tobytes())}.tfrecord")
        with tf.io.TFRecordWriter(name) as writer:
            for image, label in zip(images, labels, strict=True):
                writer.write(bytes([label]) + image.tobytes())
        return tf.data.TFRecordDataset(name).map(parse)

    give.sorted = np.argsort(made.labels, kind="stable")
    return give


def unit(image, label):
    return tf.image.convert_image_dtype(image, tf.float32), label


def flip(image, label):
    return tf.image.random_flip_left_right(image), label


def brighter(image, label):
    return tf.clip_by_value(tf.image.random_brightness(image, 0.2), 0, 1), label


def normal(image, label):
    return (image - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], label


def faults(report):
    return {finding.name for finding in report.faults}


SORTED = {
    "not shuffled": lambda d: d,
    "a short buffer": lambda d: d.shuffle(16),
    "a tenth": lambda d: d.shuffle(COUNT // 10).map(unit),
    "batches of one label": lambda d: d.batch(16).shuffle(10),
    "endless": lambda d: d.shuffle(10).repeat().batch(32),
    "cached": lambda d: d.cache().map(unit).batch(20).prefetch(1),
}


@pytest.mark.sample(1)
@styles
@pytest.mark.parametrize("name", SORTED)
def test_sorted_elements_are_found_whatever_short_buffer_hides_them(name, style, source):
    report = checks.inspect(SORTED[name](source(style, source.sorted)), count=COUNT)
    assert faults(report) == {"mixed"}, report
    assert "sorted" in report["mixed"].text


HEALTHY = {
    "as it is": lambda d: d.map(unit),
    "shuffled before": lambda d: d.shuffle(COUNT).map(unit),
    "shuffled after": lambda d: d.map(unit).shuffle(COUNT),
    "repeated": lambda d: d.shuffle(COUNT).repeat().map(unit).batch(32),
    "cached": lambda d: d.map(unit).cache().shuffle(COUNT).map(flip).batch(20),
    "batched first": lambda d: d.shuffle(COUNT).batch(16).map(unit),
    "half precision": lambda d: d.map(unit).map(lambda x, y: (tf.cast(x, tf.float16), y)),
    "-1 to 1": lambda d: d.map(unit).map(lambda x, y: (2 * x - 1, y)),
    "normalised": lambda d: d.map(unit).map(normal),
    "augmented": lambda d: d.cache().shuffle(COUNT).map(unit).map(flip).map(brighter).batch(32).prefetch(2),
}


@pytest.mark.sample(1)
@styles
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_pipeline_of_any_style_is_not_accused(name, style, source):
    for rows in (None, source.sorted) if "shuffle" in name or name in ("repeated", "augmented", "cached") else (None,):
        made = HEALTHY[name](source(style, rows))
        assert not checks.inspect(made, count=COUNT).faults
        assert not checks.inspect(made, source(style)).faults
    allowed = (-1, 1) if name == "-1 to 1" else (-2.2, 2.7) if name == "normalised" else (0, 1)
    assert checks.inspect(made, count=COUNT, value_range=allowed)["range"].status == "passed"


@pytest.mark.long
@styles
def test_a_frozen_augmentation_is_found(style, source):
    frozen = source(style).map(unit).map(flip).map(brighter).cache().shuffle(COUNT).batch(32)
    assert faults(checks.inspect(frozen)) == {"random"}


@pytest.mark.sample(1)
@styles
def test_bytes_that_wrap_around_are_found_beside_a_reference_and_else_named_as_not_seen(style, source):
    wrapped = source(style).map(lambda x, y: (x + tf.constant(40, tf.uint8), y)).map(unit)
    assert faults(checks.inspect(wrapped, source(style))) == {"overflow"}
    alone = checks.inspect(wrapped)
    assert alone["overflow"].status == "not checked"
    assert any("wrapped" in text for text in alone.unseen)


@pytest.mark.sample(1)
@styles
def test_blue_for_red_is_found_beside_a_reference_and_else_points_to_serving(style, source):
    swapped = source(style).map(lambda x, y: (x[..., ::-1], y)).map(unit)
    assert faults(checks.inspect(swapped, source(style))) == {"colour"}
    alone = checks.inspect(swapped)
    assert not alone.faults
    assert any("Blue for red" in text and "checks.serving" in text for text in alone.unseen)


SCALES = {
    "not divided": (lambda x, y: (tf.cast(x, tf.float32), y), (0, 1), "range", "divided by 255"),
    "divided twice": (lambda x, y: (unit(x, y)[0] / 255, y), None, "blank", "twice"),
    "mean forgotten": (unit, (-2.2, 2.7), "range", "mean and deviation forgotten"),
    "0 to 1 for -1 to 1": (unit, (-1, 1), "range", "forgotten"),
}


@pytest.mark.sample(1)
@styles
@pytest.mark.parametrize("name", SCALES)
def test_a_wrong_scale_is_found(name, style, source):
    change, allowed, check, words = SCALES[name]
    report = checks.inspect(source(style).map(change), value_range=allowed)
    assert faults(report) == {check}, report
    assert words in report[check].text


@pytest.mark.long
def test_floats_of_bytes_are_named_where_nobody_says_what_is_right(source):
    report = checks.inspect(source("arrays").map(lambda x, y: (tf.cast(x, tf.float32), y)))
    assert "not divided by 255" in report["range"].text


@pytest.mark.long
@styles
def test_the_graph_shows_a_resize_that_leaves_pixels_out(style, source):
    def to(**more):
        return source(style).map(lambda x, y: (tf.image.resize(x, [24, 24], **more), y))

    for method in ("bilinear", "bicubic", "nearest"):
        seen = checks.inspect(to(method=method))["resize"]
        assert (seen.status, "antialias" in seen.text, "checks.serving" in seen.text) == ("not checked", True, True)
    for good in ({"antialias": True}, {"method": "area"}):
        assert checks.inspect(to(**good))["resize"].status == "passed"


@pytest.mark.long
def test_files_that_ask_for_a_turn_are_counted(album, tmp_path):
    paths = []
    for i, path in enumerate(album.paths[:12]):
        exif = Image.Exif()
        exif[274] = 6 if i in (2, 7) else 1
        paths.append(str(tmp_path / f"{i}.jpg"))
        Image.open(path).convert("RGB").resize((64, 48)).save(paths[-1], exif=exif)

    def load(path):
        return tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(path), 3), [48, 64, 3])

    def turned(path):
        return tf.io.decode_jpeg(tf.io.read_file(path), 3)

    files = tf.data.Dataset.from_tensor_slices(paths)
    found = checks.inspect(files.shuffle(12).map(load))
    assert faults(found) == {"orientation"}
    assert "2 of 12 files" in found["orientation"].text
    upright = tf.data.Dataset.from_tensor_slices(paths[3:7])
    assert checks.inspect(upright.map(turned))["orientation"].status == "passed"
    opened = files.map(lambda path: tf.py_function(turned, [path], tf.uint8))
    opened = opened.map(lambda image: tf.ensure_shape(image, [48, 64, 3]))
    assert checks.inspect(opened)["orientation"].status == "not checked"


def test_a_file_whose_header_is_broken_loses_no_report(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.jpg", "b.jpg")]
    Image.new("RGB", (64, 48)).save(paths[0], exif=b"Exif\0\0no tiff header", dpi=(72, 72))
    turned = Image.Exif()
    turned[274] = 6
    Image.new("RGB", (64, 48)).save(paths[1], exif=turned)

    def load(path):
        return tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(path), 3), [48, 64, 3])

    assert "1 of 1 files" in checks.inspect(tf.data.Dataset.from_tensor_slices(paths).map(load))["orientation"].text


@pytest.mark.long
def test_every_report_says_what_nobody_sees(source):
    report = checks.inspect(source("arrays"))
    assert len(report.unseen) == 8
    for text in report.unseen:
        assert text.endswith(".")
        assert text in repr(report)
