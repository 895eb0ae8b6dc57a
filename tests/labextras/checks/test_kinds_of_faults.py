"""Faulty pipelines of rows, texts, pairs and splits are named; the healthy twin beside each of them is quiet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from labextras import checks

slices = tf.data.Dataset.from_tensor_slices
COUNT = 64

pytestmark = pytest.mark.random


def photos(seed=1, count=COUNT):
    """Return smooth pictures, none like another: 0 to 255, float32."""
    coarse = np.random.default_rng(seed).uniform(0, 255, [count, 6, 6, 3]).astype(np.float32)
    return tf.image.resize(coarse, [24, 24]).numpy()


def classes(count=COUNT):
    return np.random.default_rng(2).permutation(np.arange(count) % 4)


def pairs(seed=1, count=COUNT):
    return slices((photos(seed, count) / 255, classes(count)))


def table(count=COUNT, **columns):
    draw = np.random.default_rng(3)
    rows = {
        "age": draw.normal(40, 9, count).astype("float32"),
        "name": np.array([f"n{i} é" for i in range(count)]).astype(str),
    }
    rows = rows | {"label": classes(count)} | columns
    return slices({name: list(values) if values.dtype.kind == "U" else values for name, values in rows.items()})


def with_age(value):
    ages = np.random.default_rng(3).normal(40, 9, COUNT).astype("float32")
    ages[7] = value
    return ages


def texts(value):
    return tf.constant([value if i == 9 else f"word {i}".encode() for i in range(COUNT)])


def labels_of(function):
    return pairs().map(lambda image, label: (image, function(label)))


def zipped(images, labels, seeds):
    one, other = seeds
    images = images.shuffle(COUNT, seed=one) if one is not None else images
    return tf.data.Dataset.zip((images, labels.shuffle(COUNT, seed=other) if other is not None else labels))


def streams():
    return slices(photos() / 255), slices(classes())


def flipped(both):
    """Return photos with masks, mirrored at random: both of them, or the photo alone."""
    masks = (photos(5)[..., :1] > 128).astype("float32")

    def turn(image, mask):
        mirror = tf.random.uniform([]) < 0.5
        mask = tf.where(mirror & both, mask[:, ::-1], mask)
        return {"image": tf.where(mirror, image[:, ::-1], image), "mask": mask}

    return slices((photos() / 255, masks)).map(turn).shuffle(COUNT)


def boxed(both):
    boxes = np.random.default_rng(6).random([COUNT, 4]).astype("float32")

    def turn(image, box):
        mirror = tf.random.uniform([]) < 0.5
        there = tf.stack([box[0], 1 - box[3], box[2], 1 - box[1]])
        return tf.where(mirror, image[:, ::-1], image), tf.where(mirror & both, there, box)

    return slices((photos() / 255, boxes)).map(turn)


def padded(least):
    rows = [np.random.default_rng(i).integers(least, 9, 4 + i % 5) for i in range(COUNT)]
    made = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=tf.TensorSpec([None], tf.int64))
    return made.padded_batch(8)


def halves(again):
    """Return training and validation of one shuffle, which draws another order in each epoch or not."""
    mixed = pairs().shuffle(COUNT, seed=4, reshuffle_each_iteration=again)
    return mixed.skip(16).shuffle(48), mixed.take(16)


def brighter(image, label):
    return tf.image.random_brightness(tf.image.random_flip_left_right(image), 0.1), label


def mirrored(images, label):
    return tf.where(tf.random.uniform([]) < 0.5, tf.reverse(images, [-2]), images), label


TRAIN, TEST = pairs(1), pairs(8, 32)


def rows(seed, scale=1.0):
    return slices((scale * np.random.default_rng(seed).normal(3, 1, [COUNT, 5]).astype("float32"), classes()))


class Twins(NamedTuple):
    """A check, a faulty pipeline, and a healthy one: each as arguments of `inspect`."""

    check: str
    faulty: Any
    healthy: Any


def given(dataset, **options):
    return dataset, options


#: What is wrong in the first of each pair is what the name says.
TWINS = {
    "NaN in a column": Twins("finite", given(table(age=with_age(np.nan))), given(table())),
    "infinity in a column": Twins("finite", given(table(age=with_age(np.inf)).batch(8)), given(table().batch(8))),
    "a column that is not filled in": Twins(
        "constant", given(table(age=np.zeros(COUNT, "float32"))), given(table(weight=np.ones(COUNT, "float32")))
    ),
    "one class alone": Twins("constant", given(labels_of(lambda y: 0 * y)), given(pairs())),
    "an empty text": Twins("texts", given(slices(texts(b" "))), given(slices(texts(b"word")))),
    "a text in another encoding": Twins(
        "texts", given(slices(texts("é".encode("latin-1")))), given(slices(texts("é".encode())))
    ),
    "a label of no known name": Twins("ids", given(labels_of(lambda y: y - 1)), given(labels_of(lambda y: 2 * y - 3))),
    "labels that begin with 1": Twins(
        "ids", given(labels_of(lambda y: y + 1), ids={1: 4}), given(pairs(), ids={1: 4})
    ),
    "tokens outside of the vocabulary": Twins(
        "ids",
        given(slices({"tokens": np.arange(COUNT * 6).reshape(COUNT, 6)}), ids={"tokens": 300}),
        given(slices({"tokens": np.arange(COUNT * 6).reshape(COUNT, 6)}), ids={"tokens": COUNT * 6}),
    ),
    "the padding is a word, too": Twins("ids", given(padded(0)), given(padded(1))),
    "labels shuffled apart": Twins(
        "labels", given(zipped(*streams(), (None, 3))), given(zipped(*streams(), (3, 3)))
    ),
    "two shuffles that draw apart": Twins(
        "labels",
        given(tf.data.Dataset.zip((streams()[0].shuffle(COUNT), streams()[1].shuffle(COUNT))).batch(8)),
        given(tf.data.Dataset.zip((pairs().shuffle(COUNT), pairs().shuffle(COUNT))).map(  # as mixup does
            lambda one, other: (0.7 * one[0] + 0.3 * other[0], one[1]))),
    ),
    "a filter on one side": Twins(
        "labels",
        given(tf.data.Dataset.zip((streams()[0].filter(lambda x: tf.reduce_mean(x) > 0.48), streams()[1]))),
        given(pairs().filter(lambda x, y: tf.reduce_mean(x) > 0.48)),
    ),
    "images mirrored without their masks": Twins("moved", given(flipped(False)), given(flipped(True))),
    "images mirrored without their boxes": Twins("moved", given(boxed(False)), given(boxed(True))),
    "one order for all epochs": Twins(
        "order", given(pairs().shuffle(COUNT, reshuffle_each_iteration=False)), given(pairs().shuffle(COUNT))
    ),
    "a cache behind the shuffle": Twins(
        "order", given(table().shuffle(COUNT).batch(8).cache()), given(table().cache().shuffle(COUNT).batch(8))
    ),
    "an order that only splits": Twins(
        "order", given(pairs().shuffle(COUNT, reshuffle_each_iteration=False).batch(8)), given(halves(False)[1])
    ),
    "one brightness for a batch": Twins(
        "alike",
        given(pairs().batch(8).map(lambda x, y: (x + tf.random.uniform([], -0.3, 0.3), y)), reference=pairs()),
        given(pairs().map(lambda x, y: (x + tf.random.uniform([], -0.3, 0.3), y)).batch(8), reference=pairs()),
    ),
    "a batch mirrored as one": Twins(
        "alike",
        given(pairs().batch(6).map(mirrored), reference=pairs()),
        given(pairs().map(mirrored).batch(6), reference=pairs()),
    ),
    "the same rest in each epoch": Twins(
        "count",
        given(pairs().batch(36, drop_remainder=True)),
        given(pairs().shuffle(COUNT).batch(36, drop_remainder=True)),
    ),
    "a split drawn anew": Twins(
        "leaked", given(halves(True)[0], against=halves(True)[1]), given(halves(False)[0], against=halves(False)[1])
    ),
    "leaked and augmented": Twins(
        "leaked",
        given(TRAIN.concatenate(TEST.take(6)).map(brighter).shuffle(COUNT + 6), against=TEST),
        given(TRAIN.map(brighter).shuffle(COUNT), against=TEST),
    ),
    "leaked, of another size": Twins(
        "leaked",
        given(TRAIN, against=TEST.concatenate(TRAIN.take(5)).map(lambda x, y: (255 * tf.image.resize(x, [40, 40]), y))),
        given(TRAIN, against=TEST),
    ),
    "rows of both sets": Twins(
        "leaked", given(rows(1), against=rows(1).take(20)), given(rows(1), against=rows(2))
    ),
    "held out and augmented": Twins(
        "split", given(TRAIN.map(brighter), against=TEST.map(brighter)), given(TRAIN.map(brighter), against=TEST)
    ),
    "a class is never held out": Twins(
        "split", given(TRAIN, against=TEST.filter(lambda x, y: y != 2)), given(TRAIN, against=TEST)
    ),
    "normalised on one side": Twins("split", given(rows(1), against=rows(2, 9.0)), given(rows(1), against=rows(2))),
    "held out without end": Twins("split", given(TRAIN, against=TEST.repeat()), given(TRAIN, against=TEST.batch(7))),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", TWINS)
def test_a_fault_is_named_and_its_healthy_twin_is_quiet(name):
    check, *both = TWINS[name]
    bad, good = (checks.inspect(dataset, **options) for dataset, options in both)
    assert check in {finding.name for finding in bad.faults}, bad
    assert not good.faults, good


def test_the_first_line_says_how_much_nobody_could_check():
    head = repr(checks.inspect(table())).splitlines()[0]
    report = checks.inspect(table())
    assert (
        head == f"dataset: 0 faults found; {len(report.unchecked)} of {len(report.findings)} checks could not be made"
    )
    assert not any("photo" in text for text in report.unseen)
    assert any("photo" in text for text in checks.inspect(pairs()).unseen)


def test_repeated_elements_and_those_that_never_came_are_both_said():
    report = checks.inspect(slices(photos() / 255).repeat(2).shuffle(2 * COUNT, seed=2).take(COUNT), count=COUNT)
    assert "came more than once" in report["once"].text
    assert f"of {COUNT} did not come at all" in report["once"].text


def test_a_remedy_is_not_the_call_that_is_made_in_vain():
    kept = slices(photos()).map(lambda image: tf.image.convert_image_dtype(image, tf.float32))
    found = checks.inspect(kept, value_range=(0, 1))["range"]
    assert found.status == "fault"
    assert "divide by 255" in found.text
    assert "convert_image_dtype" not in found.text


@pytest.mark.parametrize("wrong", [3, {"no such": 4}, {"1": 0}])
def test_ids_are_of_components_that_are_there(wrong):
    with pytest.raises(ValueError, match="ids"):
        checks.inspect(pairs(), ids=wrong)
