"""Equal elements are called equal, rare elements included, and the order of a shuffle is no difference."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf

import labkit
from labextras.tune import calls, equality, rewrite

pytestmark = pytest.mark.random


def delivered(dataset):
    return [tuple(part.tobytes() for part in element) for element in dataset.as_numpy_iterator()]


def changes(dataset, name=""):
    """Return the changes of a pipeline whose names hold some words, and what is said of each."""
    written = calls.read(dataset)
    reference = equality.Reference(written)
    return [(one, reference.compared(one)) for one in rewrite.changes(written) if name in one.name]


@pytest.fixture
def global_seed():
    tf.random.set_seed(1)
    yield
    tf.random.set_seed(None)


def test_the_order_of_a_split_is_not_drawn_anew():
    """Else what was held back for the validation would come into the training."""
    files = tf.data.Dataset.range(40).shuffle(40, reshuffle_each_iteration=False)
    train = files.skip(8).map(lambda i: 3 * i).batch(4)
    assert calls.read(train).unknown == "Shuffle"
    assert delivered(calls.read(train).build()) == delivered(train)
    for change, verdict in changes(train):
        assert delivered(change.written.build().unbatch().batch(4)) == delivered(train)
        assert verdict == equality.SAME


def test_a_seed_that_would_now_give_another_order_is_not_used_again(global_seed):
    files = tf.data.Dataset.range(40).shuffle(40, seed=5, reshuffle_each_iteration=False)
    train = files.skip(8).batch(4)
    assert not calls.read(train).unknown
    tf.random.set_seed(2)
    assert calls.read(train).unknown == "Shuffle"
    assert delivered(calls.read(train).build()) == delivered(train)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_map_that_needs_single_elements_is_found_behind_many_that_do_not_care(shuffled):
    rows = tf.concat([tf.zeros([1024, 8]), 10 * tf.ones([512, 8])], 0)
    scaled = tf.data.Dataset.from_tensor_slices(rows).map(lambda row: tf.clip_by_norm(row, 1.0))
    scaled = scaled.shuffle(1536) if shuffled else scaled
    ((_, verdict),) = changes(scaled.batch(128, drop_remainder=True), "batch before the map")
    assert verdict == "other elements than the pipeline delivers"


def looked_up():
    words = tf.constant([f"w{number}" for number in range(64)])
    pairs = tf.lookup.KeyValueTensorInitializer(words, tf.range(64, dtype=tf.int64))
    return words, tf.lookup.StaticHashTable(pairs, -1).lookup


def by_layer():
    import keras

    words = [f"w{number}" for number in range(64)]
    return tf.constant(words), keras.layers.StringLookup(vocabulary=words)


def by_variable():
    scale = tf.Variable(3.0)
    return tf.range(64.0), lambda number: number * scale


def by_gather():
    rows = tf.Variable(tf.range(64.0))
    return tf.range(64), lambda number: tf.gather(rows, number)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("resource", [looked_up, by_layer, by_variable, by_gather])
def test_a_map_that_captures_a_resource_is_compared(resource, plain):
    values, function = resource()
    dataset = tf.data.Dataset.from_tensor_slices(values).map(lambda one: function(one)).batch(16)
    found = {one.name: said for one, said in changes(labkit.plain(dataset) if plain else dataset)}
    assert found["batch before the map"] == found["parallel map"] == equality.SAME


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda row: row + tf.ones([4 if row.shape.rank == 1 else 3]),
            "cannot be built: the function of the map takes",
        ),
        (lambda row: tf.reshape(row, [4]), "cannot be compared: it fails where it runs (InvalidArgumentError"),
    ],
)
def test_it_is_said_in_words_why_a_change_cannot_be_built_or_compared(function, words):
    rows = tf.data.Dataset.from_tensor_slices(tf.zeros([64, 4])).map(function).batch(16)
    ((_, verdict),) = changes(rows, "batch before the map")
    assert verdict.startswith(words), verdict
    assert "\n" not in verdict


def zeros_then(value):
    """Return batches of zeros, and behind them as many of another value."""
    rows = np.repeat([0, value], 64).astype("float32")[:, None] * np.ones(4, "float32")
    return calls.read(tf.data.Dataset.from_tensor_slices(rows).batch(8))


def test_all_batches_must_be_close_to_be_the_same_up_to_rounding():
    reference = equality.Reference(zeros_then(1), seconds=60)
    for factor, rounded in ((1 + 1e-6, True), (2, False)):
        verdict = reference.compared(rewrite.Change("another factor", zeros_then(factor)))
        assert (verdict == equality.ROUNDED) == rounded
        assert (verdict in equality.FINE) == rounded


def test_elements_that_there_was_no_time_to_read_are_not_called_the_same(monkeypatch):
    reference = equality.Reference(zeros_then(1), seconds=60)
    monkeypatch.setattr(equality, "all_close", lambda *_: (True, False))
    verdict = reference.compared(rewrite.Change("twice", zeros_then(2)))
    assert verdict == "cannot be compared: there was not time enough to read all elements"
    assert verdict not in equality.FINE


def test_a_shuffle_without_a_seed_hides_no_other_elements():
    rows = tf.data.Dataset.range(50)
    dataset = rows.shuffle(50).batch(8, drop_remainder=True)
    reference = equality.Reference(calls.read(dataset))
    other = calls.read(rows.map(lambda i: i + 1000).shuffle(50).batch(8, drop_remainder=True))
    assert reference.compared(rewrite.Change("other values", other)) not in equality.FINE
    assert {verdict for _, verdict in changes(dataset)} == {equality.SHUFFLED}


def test_values_that_are_drawn_are_at_least_as_many():
    def drawn(count):
        return calls.read(tf.data.Dataset.range(count).map(lambda i: tf.random.uniform([])).batch(4))

    reference = equality.Reference(drawn(16))
    assert reference.compared(rewrite.Change("as many", drawn(16))) == equality.DRAWN
    assert reference.compared(rewrite.Change("fewer", drawn(12))) == "other elements: 12 in place of 16"
    steady = tf.data.Dataset.range(16).map(lambda i: 3 * i).batch(4).map(lambda rows: tf.random.uniform([4]))
    ((_, verdict),) = changes(steady, "batch before the map")
    assert verdict == "cannot be compared: values are drawn at random", "else what mixes elements would not show"


def test_components_need_not_have_a_row_for_each_element():
    pairs = tf.data.Dataset.from_tensor_slices((tf.reshape(tf.range(64.0), [16, 4]), tf.range(16))).batch(4)
    for ending in (lambda x, y: (x, y, tf.constant(0.3)), lambda x, y: (x, None), lambda x, y: (x, tf.repeat(y, 3))):
        reference = equality.Reference(calls.read(pairs.map(ending)))
        assert reference.compared(rewrite.Change("none", calls.read(pairs.map(ending)))) == equality.SAME
        other = rewrite.Change("other values", calls.read(pairs.map(lambda x, y: (x + 1, y)).map(ending)))
        assert reference.compared(other) == "other elements than the pipeline delivers"
    none = equality.Reference(calls.read(pairs.map(lambda x, y: (x, None))))
    verdict = none.compared(rewrite.Change("a label", calls.read(pairs)))
    assert verdict == "other elements: a component is a Tensor, expected a NoneTensor"


def test_what_a_function_draws_for_rare_elements_is_not_frozen_by_a_cache():
    def drawn(i):
        return i + np.random.default_rng().integers(2**62) if i == 99 else i

    rows = tf.data.Dataset.range(100).map(lambda i: tf.ensure_shape(tf.numpy_function(drawn, [i], tf.int64), []))
    ((_, verdict),) = changes(rows.batch(4), "cache")
    assert "differs from epoch to epoch" in verdict


def test_no_cache_for_what_a_variable_decides_or_a_filter_draws():
    strength = tf.Variable(0.0)
    rows = tf.data.Dataset.range(16)
    by_variable = rows.map(lambda i: tf.cast(i, tf.float32) + strength).batch(4)
    drawn = rows.filter(lambda i: tf.random.uniform([]) < 0.99).map(lambda i: 3 * i).batch(4)
    for dataset in (by_variable, drawn):
        assert not [one for one in rewrite.changes(calls.read(dataset)) if one.stored]


@pytest.mark.parametrize(
    "end",
    [
        lambda rows: rows.repeat().batch(32, drop_remainder=True),
        lambda rows: rows.shuffle(20, seed=1).repeat().batch(4).skip(100),
    ],
)
def test_what_leaves_nothing_of_one_epoch_is_compared_all_the_same(monkeypatch, end):
    monkeypatch.setattr(equality, "READ_S", 0.2)
    rows = tf.data.Dataset.range(20)
    reference = equality.Reference(calls.read(end(rows)))
    assert reference.batches is None
    assert reference.compared(rewrite.Change("none", calls.read(end(rows)))) == equality.SAME
    other = calls.read(end(rows.map(lambda i: i + 1000)))
    assert reference.compared(rewrite.Change("other values", other)) not in equality.FINE


def test_a_pipeline_that_is_slow_is_compared_by_what_comes():
    def slow(number):
        time.sleep(0.2)
        return number

    rows = tf.data.Dataset.range(40).map(lambda i: tf.ensure_shape(tf.numpy_function(slow, [i], tf.int64), []))
    reading = equality.FirstElements.of(rows, 0.05, 5)
    assert 1 <= len(reading.digests) < 40
    assert not reading.complete
    assert reading.same_order(equality.FirstElements.of(tf.data.Dataset.range(40), 5, 5))
    with pytest.raises(TimeoutError, match="no element comes"):
        equality.FirstElements.of(rows.repeat().filter(lambda i: i < 0), 0.05, 0.5)
