"""Pipelines that are read as calls, built again, and written in other ways."""

from __future__ import annotations

import random

import numpy as np
import pytest

from labextras.tune import calls, equality, rewrite
from labkit import advice
from labkit.pipelines.same_elements import row_digests

pytestmark = pytest.mark.random

SEEDS = range(24)


@pytest.fixture(scope="module")
def tf():
    import tensorflow as tf

    return tf


def double(value, number):
    return 2 * value, number


def even(value, number):
    return number % 2 == 0


def generated(tf, seed):
    """A pipeline of calls that a seed draws."""
    draw = random.Random(seed)
    size = draw.randint(20, 60)
    dataset = tf.data.Dataset.from_tensor_slices((tf.range(size * 3.0)[:size], tf.range(size)))
    parallel = {"num_parallel_calls": draw.choice([None, 2, tf.data.AUTOTUNE])}
    steps = [
        lambda d: d.map(double, **parallel),
        lambda d: d.map(lambda value, number: (value + 1, number)),
        lambda d: d.filter(even),
        lambda d: d.shard(draw.randint(2, 3), 1),
        lambda d: d.skip(draw.randint(1, 3)),
        lambda d: d.take(draw.randint(8, 20)),
        lambda d: d.shuffle(draw.randint(2, 50), seed=draw.randint(1, 9)),
        lambda d: d.interleave(
            lambda value, number: tf.data.Dataset.from_tensors((value, number)).repeat(2),
            cycle_length=draw.choice([1, 3]),
            num_parallel_calls=draw.choice([None, tf.data.AUTOTUNE]),
        ),
        lambda d: d.flat_map(lambda value, number: tf.data.Dataset.from_tensors((value, number))),
        lambda d: d.cache(),
        lambda d: d.prefetch(2),
    ]
    for step in draw.sample(steps, draw.randint(2, 6)):
        dataset = step(dataset)
    dataset = dataset.batch(draw.choice([1, 4]), drop_remainder=draw.choice([True, False]))
    return draw.choice([lambda d: d, lambda d: d.repeat(2), lambda d: d.prefetch(tf.data.AUTOTUNE)])(dataset)


def delivered(dataset):
    return [row_digests(element, batched=False) for element in dataset]


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_read_is_built_again_and_every_change_delivers_what_it_says(tf, seed):
    dataset = generated(tf, seed)
    written = calls.read(dataset)
    assert not written.unknown
    assert delivered(written.build()) == delivered(dataset)
    assert written.code().count("\n") == len(written.calls) + 2
    reference = equality.Reference(written)
    for change in rewrite.changes(written):
        verdict = reference.compared(change)
        fits = verdict in equality.FINE if not change.same_order else verdict == equality.SAME
        # Where the order of elements decides which of them a short last batch leaves out, another order is refused.
        drops = "drop_remainder=True" in written.code()
        assert fits or (not change.same_order and drops), (change.name, verdict, written)
        again = [str(call) for call in change.written.calls]
        assert again != [str(call) for call in written.calls], "never what the pipeline has already"


def test_a_call_keeps_its_settings(tf):
    def load(value):
        return value

    def files(value):
        return tf.data.Dataset.range(value)

    dataset = (
        tf.data.Dataset.range(9)
        .shuffle(7, seed=3, reshuffle_each_iteration=False)
        .interleave(files, cycle_length=4, block_length=2, num_parallel_calls=3, deterministic=False)
        .map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .padded_batch(4)
        .prefetch(5)
    )
    assert [str(call) for call in calls.read(dataset).calls] == [
        ".shuffle(7, seed=3, reshuffle_each_iteration=False)",
        ".interleave(files, cycle_length=4, block_length=2, num_parallel_calls=3, deterministic=False)",
        ".map(load, num_parallel_calls=AUTOTUNE)",
        ".padded_batch(4, …, …)",
        ".prefetch(5)",
    ]
    names = {change.name for change in rewrite.changes(calls.read(dataset))}
    assert not names & {"parallel map", "prefetch at the end"}


def test_arguments_are_written_as_a_reader_writes_them(tf):
    class Scaled:
        def __call__(self, value):
            return 2 * value

        def load(self, value):
            return value

    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3
    numbers = tf.data.Dataset.range(3).map(Scaled()).map(lambda i: tf.cast(i, tf.float32)).map(Scaled().load).take(-1)
    assert [str(call) for call in calls.read(numbers.with_options(options)).calls] == [
        ".map(Scaled(…))",
        ".map(lambda …)",
        ".map(load)",
        ".take(-1)",
        ".with_options(options)  # deterministic=False, threading.private_threadpool_size=3",
    ]
    assert str(calls.Call("with_options", (tf.data.Options(),))) == ".with_options(options)"
    names = tf.data.Dataset.from_tensors("no such file")
    for reader in (tf.data.TFRecordDataset, tf.data.TextLineDataset):
        (call,) = calls.read(names.flat_map(reader)).calls
        assert str(call) == f".flat_map(tf.data.{reader.__name__.removesuffix('V2')})"
    made = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64))
    assert [call.method for call in calls.read(made.batch(2)).calls] == ["batch"], "a generator is a source"


def test_a_seed_of_0_is_a_seed(tf):
    shuffled = tf.data.Dataset.range(50).shuffle(50, seed=0)
    written = calls.read(shuffled)
    assert str(written.calls[0]) == ".shuffle(50, seed=0)"
    assert delivered(written.build().batch(5)) == delivered(shuffled.batch(5))
    assert str(calls.read(tf.data.Dataset.range(50).shuffle(50)).calls[0]) == ".shuffle(50)"


def test_random_work_is_neither_cached_nor_drawn_once_for_a_batch(tf):
    rows = tf.data.Dataset.range(16).map(lambda i: tf.random.uniform([2])).batch(4)
    assert {one.name for one in rewrite.changes(calls.read(rows))} == {"parallel map", "prefetch at the end"}


def test_a_cache_is_refused_where_a_python_function_draws(tf):
    def drawn(_):
        return np.random.default_rng().random(2).astype("float32")

    rows = tf.data.Dataset.range(16).map(lambda i: tf.numpy_function(drawn, [i], tf.float32)).batch(4)
    written = calls.read(rows)
    change = next(one for one in rewrite.changes(written) if one.stored)
    assert "differs from epoch to epoch" in equality.Reference(written).compared(change)


def test_more_calls_and_more_threads_are_offered_for_what_may_wait(tf):
    def tripled(number):
        return tf.ensure_shape(tf.numpy_function(lambda value: 3 * value, [number], tf.int64), [])

    def pool(dataset, threads):
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        return dataset.with_options(options)

    numbers = tf.data.Dataset.range(12)
    few, many = numbers.map(tripled).batch(4), numbers.map(tripled, num_parallel_calls=16).batch(4)
    names = ("more calls than cores", "a larger pool of threads")
    for made, wanted in (
        (few, names[0]),
        (pool(few, 1), names[0]),
        (pool(many, 1), names[1]),
        (pool(many, 16), None),
        (numbers.map(lambda number: 3 * number).batch(4), None),
    ):
        found = {change.name: change for change in rewrite.changes(calls.read(made)) if change.name in names}
        assert [*found] == [wanted] * (wanted is not None)
        for change in found.values():
            assert delivered(change.written.build()) == delivered(made)
            assert change.written.build().options().threading.private_threadpool_size == 16


def test_what_advice_asks_for_comes_before_its_topic_and_that_before_the_rest(tf):
    made = tf.data.Dataset.range(12).map(lambda i: 3 * i).shard(2, 1).batch(4).prefetch(2)
    found = [change for change in rewrite.changes(calls.read(made)) if change.same_order]
    for rules, first in (
        (("work.drop-first",), "shard before the map"),
        (("prefetch.deeper",), "a deeper prefetch"),
        (("small.batch-first",), "batch before the map"),
        (("prep.less-work",), "cache what each epoch makes anew"),
        (("prep.a-rule-of-tomorrow", "prep.parallel-map"), "parallel map"),
    ):
        assert min(found, key=lambda change: change.promise(rules)).name == first
    assert {change.promise(("prep.a-rule-of-tomorrow",)) for change in found} == {1, 2}
    known = {rule.id for rule in advice.RULES}
    assert all(known.intersection(change.answers) for change in found)
    without_room = rewrite.changes(calls.read(made), fits=lambda _: False)
    assert not [change for change in without_room if change.stored]


def branches(tf, join):
    """Return a pipeline of four branches, each a map of numbers with a filter behind it."""
    numbers = tf.data.Dataset.range(40).map(lambda i: (i, i % 4))
    parts = [numbers.map(lambda i, kind: (3 * i, kind)).filter(lambda i, kind, k=k: kind == k) for k in range(4)]
    return {
        "zip": lambda: tf.data.Dataset.zip(tuple(parts)).map(lambda *each: each[0]),
        "concatenate": lambda: parts[0].concatenate(parts[1]).concatenate(parts[2]).concatenate(parts[3]),
        "sample_from_datasets": lambda: tf.data.Dataset.sample_from_datasets(parts, [0.25] * 4, seed=1),
        "choose": lambda: tf.data.Dataset.choose_from_datasets(parts, tf.data.Dataset.range(4).repeat(10)),
    }[join]()


@pytest.mark.sample(2)
@pytest.mark.parametrize("join", ["zip", "concatenate", "sample_from_datasets", "choose"])
def test_branches_are_read_and_changed_alike(tf, join):
    made = branches(tf, join).batch(5)
    written = calls.read(made)
    assert not written.unread
    assert len(written.branches) == 4
    assert delivered(written.build()) == delivered(made)
    found = {change.name: change for change in rewrite.changes(written)}
    for name in ("filter before the map", "parallel map"):
        assert delivered(found[name].written.build()) == delivered(made)
        assert equality.Reference(written).compared(found[name]) == equality.SAME
    code = found["filter before the map"].written.begin
    assert code.index(".filter") < code.index(".map")


def test_a_filter_before_a_map_makes_only_what_its_predicate_asks_for(tf):
    def load(number):
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(9, tf.int64))]):
            return {"image": tf.image.resize(tf.ones([8, 8, 3]) * tf.cast(number, tf.float32), [4, 4]), "kind": number}

    rows = tf.data.Dataset.range(9)
    made = rows.map(load).map(lambda one: (one["image"], one["kind"] % 2)).filter(lambda image, kind: kind == 1)
    change = next(c for c in rewrite.changes(calls.read(made.batch(2))) if c.name == "filter before the map")
    assert delivered(change.written.build()) == delivered(made.batch(2))
    drawn = rows.map(lambda i: tf.random.uniform([])).filter(lambda value: value < 0.5).batch(2)
    assert "filter before the map" not in {c.name for c in rewrite.changes(calls.read(drawn))}


def test_a_long_chain_of_readers_becomes_one_reader(tf, tmp_path):
    names = [str(tmp_path / f"{number}.txt") for number in range(20)]
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"{number} a\n{number} b")
    parts = [tf.data.TextLineDataset(name) for name in names]
    for mapped in (False, True):
        mine = [part.map(lambda line: line + "!") for part in parts] if mapped else parts
        joined = mine[0]
        for part in mine[1:]:
            joined = joined.concatenate(part)
        written = calls.read(joined.batch(3))
        found = {change.name: change for change in rewrite.changes(written)}
        assert ("one reader of all files" in found) != mapped
        if not mapped:
            assert delivered(found["one reader of all files"].written.build()) == delivered(joined.batch(3))
    short = parts[0].concatenate(parts[1]).batch(3)
    assert not [change for change in rewrite.changes(calls.read(short)) if "one reader" in change.name]


def test_a_cache_that_never_ends_is_moved_before_the_repeat(tf):
    rows = tf.data.Dataset.range(8).map(lambda i: 3 * i)
    endless = {change.name: change for change in rewrite.changes(calls.read(rows.repeat(2).cache().batch(4)))}
    later = endless["repeat behind the cache"]
    assert [call.method for call in later.written.calls] == ["map", "cache", "repeat", "batch"]
    assert delivered(later.written.build()) == delivered(rows.repeat(2).cache().batch(4))


def test_a_cache_stands_before_a_shuffle_and_is_not_offered_twice(tf):
    files = tf.data.Dataset.range(12).shuffle(12, seed=5).repeat(2).map(lambda i: 3 * i).batch(4)
    change = next(one for one in rewrite.changes(calls.read(files)) if one.stored)
    assert [call.method for call in change.written.calls] == ["map", "cache", "shuffle", "repeat", "batch"]
    assert delivered(change.written.build()) == delivered(files)
    assert not [one for one in rewrite.changes(change.written) if one.stored]


def test_only_what_stands_behind_a_call_that_cannot_be_built_is_changed(tf):
    windows = tf.data.Dataset.range(12).map(lambda i: i + 1).window(3).flat_map(lambda window: window).batch(4)
    written = calls.read(windows)
    assert written.unknown == "Window"
    assert [call.method for call in written.calls] == ["flat_map", "batch"]
    assert delivered(written.build()) == delivered(windows)
    assert "parallel map" not in [change.name for change in rewrite.changes(written)]
    for other in (tf.data.Dataset.zip(windows, windows), windows.enumerate()):
        assert calls.read(other.batch(2)).unread == "Window"
    assert calls.read(windows.unbatch().batch(2)).unknown == "Unbatch"


def test_a_call_that_becomes_parallel_keeps_its_order_where_the_options_do_not_ask_for_it(tf):
    """Else what stands before a take, and so in the training, would be decided by time."""
    options = tf.data.Options()
    options.deterministic = False

    def files(number):
        return tf.data.Dataset.range(number, number + 2)

    made = tf.data.Dataset.range(40).interleave(files, cycle_length=4).map(lambda i: 3 * i).take(24).batch(4)
    written = calls.read(made.with_options(options))
    found = [change for change in rewrite.changes(written) if "num_parallel_calls" in change.written.code()]
    assert {change.name for change in found} == {rewrite.SEVERAL, "parallel map"}
    for change in found:
        assert change.written.code().count("num_parallel_calls=AUTOTUNE, deterministic=True") == 1
        assert delivered(change.written.build()) == delivered(made)
    assert "deterministic=True" not in str([c.written for c in rewrite.changes(calls.read(made))])


def test_files_of_records_are_read_at_the_same_time(tf, tmp_path):
    names = [str(tmp_path / f"{number}") for number in range(3)]
    for name in names:
        with tf.io.TFRecordWriter(name, "GZIP") as writer:
            for number in range(4):
                writer.write(f"{name} {number}".encode())
    written = calls.read(tf.data.TFRecordDataset(names, "GZIP", buffer_size=1 << 20).batch(2))
    change = next(one for one in rewrite.changes(written) if one.name == rewrite.SEVERAL)
    assert equality.Reference(written).compared(change) == equality.REORDERED
    assert "TFRecordDataset(…, num_parallel_reads=16)" in change.written.code()
    came, expected = (list(one.build().unbatch().as_numpy_iterator()) for one in (change.written, written))
    assert sorted(came) == sorted(expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize("call", ["take", "skip", "shard"])
def test_no_other_order_before_a_call_that_goes_by_the_place_of_an_element(tf, tmp_path, call):
    """Else records of the validation would come into the training."""
    names = [str(tmp_path / f"{number}") for number in range(3)]
    records = tf.data.TFRecordDataset(names)
    files = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=1)
    flat = tf.data.Dataset.from_tensor_slices(names).flat_map(tf.data.TFRecordDataset)
    arguments = {"take": (4,), "skip": (4,), "shard": (2, 0)}[call]
    for dataset in (records, files, flat):
        for before, picked in ((False, dataset), (True, getattr(dataset.batch(2), call)(*arguments))):
            found = [one for one in rewrite.changes(calls.read(picked)) if not one.same_order]
            assert bool(found) != before
