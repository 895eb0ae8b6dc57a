"""Pipelines that are read as calls, built again, and written in other ways."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

from labextras.tune import calls, equality, rewrite

pytestmark = pytest.mark.random

SEEDS = range(40)


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
        lambda d: d.enumerate(draw.choice([0, 5])).map(lambda place, pair: pair),
        lambda d: d.interleave(
            lambda value, number: tf.data.Dataset.from_tensors((value, number)).repeat(2),
            cycle_length=draw.choice([1, 3]),
            num_parallel_calls=draw.choice([None, tf.data.AUTOTUNE]),
        ),
        lambda d: d.flat_map(lambda value, number: tf.data.Dataset.from_tensors((value, number))),
        lambda d: d.cache(),
        lambda d: d.prefetch(2),
        lambda d: d.batch(3).unbatch(),
    ]
    for step in draw.sample(steps, draw.randint(2, 6)):
        dataset = step(dataset)
    dataset = dataset.batch(draw.choice([1, 4]), drop_remainder=draw.choice([True, False]))
    return draw.choice([lambda d: d, lambda d: d.repeat(2), lambda d: d.prefetch(tf.data.AUTOTUNE)])(dataset)


def delivered(dataset):
    return [tuple(part.tobytes() for part in element) for element in dataset.as_numpy_iterator()]


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_read_is_built_again_and_every_change_delivers_what_it_says(tf, seed):
    dataset = generated(tf, seed)
    written = calls.read(dataset)
    assert not written.above
    assert delivered(written.build()) == delivered(dataset)
    assert written.code().count("\n") == len(written.calls) + 2
    reference = equality.Reference(written)
    for change in rewrite.changes(written, waits=True):
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

    def scaled(factor, value, *, plus):
        return factor * value + plus

    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3
    twice = functools.partial(scaled, tf.constant(2.0), plus=1)
    numbers = tf.data.Dataset.range(3).map(Scaled()).map(lambda i: tf.cast(i, tf.float32)).map(twice)
    files = tf.data.Dataset.from_tensors("no such file").interleave(tf.data.TFRecordDataset, cycle_length=1)
    assert [str(call) for call in calls.read(numbers.with_options(options)).calls] == [
        ".map(Scaled(…))",
        ".map(lambda i: tf.cast(i, tf.float32))",
        ".map(partial(scaled, …, plus=1))",
        ".with_options(options)  # deterministic=False, threading.private_threadpool_size=3",
    ]
    assert str(calls.read(files).calls[0]) == ".interleave(tf.data.TFRecordDataset, cycle_length=1)"
    assert str(calls.Call("with_options", (tf.data.Options(),))) == ".with_options(options)"


def test_numbers_methods_and_readers_are_written_as_what_they_are(tf):
    class Files:
        def load(self, value):
            return value

        @classmethod
        def kept(cls, value):
            return True

    mean = functools.partial(tf.reduce_mean, axis=-1)
    numbers = tf.data.Dataset.from_tensor_slices(tf.zeros([4, 2])).map(mean, num_parallel_calls=tf.data.AUTOTUNE)
    assert [str(call) for call in calls.read(numbers.map(Files().load).filter(Files.kept).take(-1)).calls] == [
        ".map(partial(reduce_mean, axis=-1), num_parallel_calls=AUTOTUNE)",
        ".map(Files(…).load)",
        ".filter(Files.kept)",
        ".take(-1)",
    ]
    lines = calls.read(tf.data.Dataset.from_tensors("no such file").flat_map(tf.data.TextLineDataset))
    assert "from_generator" not in lines.code()
    assert str(lines.calls[0]) == ".flat_map(tf.data.TextLineDataset)"
    generated = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64))
    assert calls.read(generated.map(Files().load)).begin == "tf.data.Dataset.from_generator(…)"


def test_options_are_written_out_before_the_pipeline(tf):
    pool, policy = tf.data.Options(), tf.data.Options()
    pool.threading.private_threadpool_size = 3
    policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    made = tf.data.Dataset.range(3).with_options(policy).batch(2).with_options(pool)
    code = calls.read(made).code()
    first, _, last = code.partition("dataset = (")
    found = {}
    exec(first, {"tf": tf}, found)
    assert found["options"].threading.private_threadpool_size == 3
    assert found["options"].experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF
    assert last.count("with_options(options)") == 2
    assert "options" not in calls.read(tf.data.Dataset.range(3)).code()


def test_a_seed_of_0_is_a_seed(tf):
    shuffled = tf.data.Dataset.range(50).shuffle(50, seed=0)
    written = calls.read(shuffled)
    assert str(written.calls[0]) == ".shuffle(50, seed=0)"
    assert delivered(written.build().batch(5)) == delivered(shuffled.batch(5))
    assert str(calls.read(tf.data.Dataset.range(50).shuffle(50)).calls[0]) == ".shuffle(50)"


def test_a_filter_is_asked_before_the_work_that_it_does_not_need(tf):
    def photo(path, label):
        return tf.io.read_file(path), label

    files = tf.data.Dataset.from_tensor_slices((["no such file"] * 4, [1, 2, 3, 4]))
    written = calls.read(files.map(photo).filter(lambda image, label: label > 4).batch(2))
    change = next(one for one in rewrite.changes(written) if one.name == "filter before the map")
    assert delivered(change.written.build()) == [], "no file was opened"
    assert "photo(*x)" in str(change.written.calls[0])


def test_a_map_that_mixes_elements_does_not_move_behind_the_batch(tf):
    def centred(row):
        return row - tf.reduce_mean(row)

    rows = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(32.0), [16, 2]))
    written = calls.read(rows.map(centred).batch(4))
    change = next(one for one in rewrite.changes(written) if one.name == "batch before the map")
    assert "does not give for a batch" in equality.Reference(written).compared(change)


def test_random_work_is_neither_cached_nor_drawn_once_for_a_batch(tf):
    rows = tf.data.Dataset.range(16).map(lambda i: tf.random.uniform([2])).batch(4)
    assert {change.name for change in rewrite.changes(calls.read(rows))} == {
        "parallel map", "parallel batch", "prefetch at the end",
    }  # fmt: skip


def test_a_cache_is_refused_where_a_python_function_draws(tf):
    def drawn(_):
        return np.random.default_rng().random(2).astype("float32")

    rows = tf.data.Dataset.range(16).map(lambda i: tf.numpy_function(drawn, [i], tf.float32)).batch(4)
    written = calls.read(rows)
    change = next(one for one in rewrite.changes(written) if one.stored)
    assert "differs from epoch to epoch" in equality.Reference(written).compared(change)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_filter_asks_a_python_function_early_only_where_it_is_declared_to_keep_no_state(tf, stateful):
    """Before the map, an element that is let pass goes through the function twice."""

    def tripled(number):
        return tf.numpy_function(lambda value: 3 * value, [number], tf.int64, stateful=stateful)

    made = tf.data.Dataset.range(12).map(tripled).filter(lambda value: value % 2 == 0).batch(4)
    found = {change.name: change for change in rewrite.changes(calls.read(made), waits=True)}
    assert ("filter before the map" in found) is not stateful
    assert all(delivered(change.written.build()) == delivered(made) for change in found.values())
    assert "more calls than cores" in found, "a function of Python may wait, whatever it is declared to keep"


def test_another_cache_place_keeps_the_elements_and_their_order(tf):
    files = tf.data.Dataset.range(12).cache().shuffle(12, seed=5).repeat(2).map(lambda i: 3 * i).batch(4)
    written = calls.read(files)
    change = next(one for one in rewrite.changes(written) if one.stored)
    assert [call.method for call in change.written.calls] == ["map", "cache", "shuffle", "repeat", "batch"]
    assert delivered(change.written.build()) == delivered(files)


def test_a_cache_that_take_never_lets_get_full_moves_behind_it(tf):
    made = tf.data.Dataset.range(12).map(lambda i: 3 * i).cache().take(8).repeat(2).batch(4)
    change = next(one for one in rewrite.changes(calls.read(made)) if one.name == "the cache behind take")
    assert [call.method for call in change.written.calls] == ["map", "take", "cache", "repeat", "batch"]
    assert list(change.written.build().unbatch().as_numpy_iterator()) == list(made.unbatch().as_numpy_iterator())
    behind = tf.data.Dataset.range(12).map(lambda i: 3 * i).take(8).cache().repeat(2).batch(4)
    assert "the cache behind take" not in [change.name for change in rewrite.changes(calls.read(behind))]


@pytest.mark.parametrize("drop", [False, True])
def test_batches_that_are_taken_apart_are_put_together_at_once(tf, drop):
    made = tf.data.Dataset.range(50).batch(4).map(lambda i: 3 * i).unbatch().batch(16, drop_remainder=drop).prefetch(1)
    change = next(one for one in rewrite.changes(calls.read(made)) if one.name.startswith("rebatch"))
    assert [call.method for call in change.written.calls] == ["batch", "map", "rebatch", "prefetch"]
    for one, other in zip(change.written.build(), made, strict=True):
        assert one.numpy().tolist() == other.numpy().tolist()
    assert calls.read(change.written.build()).code() == change.written.code()
    shuffled = tf.data.Dataset.range(50).batch(4).unbatch().shuffle(9).batch(16)
    assert not [change for change in rewrite.changes(calls.read(shuffled)) if "rebatch" in change.name]


def test_a_cache_is_offered_only_where_there_is_room(tf):
    written = calls.read(tf.data.Dataset.range(12).map(lambda i: 3 * i).batch(4))
    assert any(change.stored for change in rewrite.changes(written))
    assert not any(change.stored for change in rewrite.changes(written, fits=lambda _: False))


def test_what_cannot_be_built_is_shown(tf):
    windows = tf.data.Dataset.range(12).map(lambda i: i + 1).window(3).flat_map(lambda window: window).batch(4)
    written = calls.read(windows)
    assert [call.method for call in written.above] == ["map", "window"]
    assert [change.name for change in rewrite.by_hand(written)] == ["parallel map"]
    assert ".window(…)" in written.code()
    assert delivered(written.build()) == delivered(windows)


def test_what_cannot_be_built_is_shown_only_where_it_keeps_the_order_and_calls_functions_as_before(tf):
    def load(value):
        return value

    lists = tf.data.Dataset.range(12).flat_map(lambda n: tf.data.Dataset.range(n)).map(load)
    windows = lists.window(3, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(3)).batch(4)
    asserted = tf.data.Dataset.range(12).map(load).batch(4).apply(tf.data.experimental.assert_cardinality(3))
    for dataset in (windows, asserted):
        shown = {change.name for change in rewrite.by_hand(calls.read(dataset))}
        assert "parallel map" in shown
        assert not shown & {rewrite.SEVERAL, "batch before the map"}


def test_a_call_that_becomes_parallel_keeps_its_order_where_the_options_do_not_ask_for_it(tf):
    """Else what stands before a take, and so in the training, would be decided by time."""
    options = tf.data.Options()
    options.deterministic = False

    def files(number):
        return tf.data.Dataset.range(number, number + 2)

    made = tf.data.Dataset.range(40).interleave(files, cycle_length=4).map(lambda i: 3 * i).take(24).batch(4)
    written = calls.read(made.with_options(options))
    found = [change for change in rewrite.changes(written) if "num_parallel_calls" in change.written.code()]
    assert {change.name for change in found} == {rewrite.SEVERAL, "parallel map", "parallel batch"}
    for change in found:
        assert change.written.code().count("num_parallel_calls=AUTOTUNE, deterministic=True") == 1
        assert delivered(change.written.build()) == delivered(made)
    assert "deterministic=True" not in str([c.written for c in rewrite.changes(calls.read(made))])


def test_changes_of_one_name_are_told_apart_by_their_places(tf):
    dataset = tf.data.Dataset.range(40).map(lambda i: i + 1).filter(lambda i: i > 3)
    dataset = dataset.map(lambda i: 2 * i).filter(lambda i: i < 40).batch(4)
    names = [change.name for change in rewrite.changes(calls.read(dataset)) if change.name.startswith("filter")]
    assert names == ["filter before the map", "filter before the map, place 2"]


def test_a_source_of_names_that_is_a_dataset_keeps_what_was_done_to_the_names(tf, tmp_path):
    names = [str(tmp_path / f"{number}") for number in range(3)]
    for name in names:
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(name.encode())
    listed = tf.data.Dataset.from_tensor_slices(names).shuffle(3, seed=1).repeat(2)
    written = calls.read(tf.data.TFRecordDataset(listed).batch(2))
    change = next(one for one in rewrite.changes(written) if one.name == rewrite.SEVERAL)
    lines = [line.strip() for line in change.written.code().splitlines()]
    assert lines[1:4] == ["tf.data.Dataset.from_tensor_slices(…)", ".shuffle(3, seed=1)", ".repeat(2)"]
    assert equality.Reference(written).compared(change) in (equality.SAME, equality.REORDERED)


def test_files_of_records_are_read_at_the_same_time(tf, tmp_path):
    names = [str(tmp_path / f"{number}") for number in range(3)]
    for name in names:
        with tf.io.TFRecordWriter(name, "GZIP") as writer:
            for number in range(4):
                writer.write(f"{name} {number}".encode())
    written = calls.read(tf.data.TFRecordDataset(names, "GZIP", buffer_size=1 << 20).batch(2))
    change = next(one for one in rewrite.changes(written) if one.name == rewrite.SEVERAL)
    assert equality.Reference(written).compared(change) == equality.REORDERED
    code = change.written.code()
    assert "[… 3 file names]" in code
    reader = "lambda name: tf.data.TFRecordDataset(name, compression_type='GZIP', buffer_size=1048576)"
    assert f".interleave({reader}, cycle_length=16, num_parallel_calls=AUTOTUNE)" in code
    assert calls.read(change.written.build()).code().splitlines()[2:] == code.splitlines()[2:]
    (made,) = change.written.calls[0].arguments
    assert made(names[0])._buffer_size == 1 << 20


@pytest.mark.sample(2)
@pytest.mark.parametrize("call", ["take", "skip", "shard", "enumerate"])
def test_no_other_order_before_a_call_that_goes_by_the_place_of_an_element(tf, tmp_path, call):
    """Else records of the validation would come into the training."""
    names = [str(tmp_path / f"{number}") for number in range(3)]
    records = tf.data.TFRecordDataset(names)
    files = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=1)
    flat = tf.data.Dataset.from_tensor_slices(names).flat_map(tf.data.TFRecordDataset)
    arguments = {"take": (4,), "skip": (4,), "shard": (2, 0), "enumerate": ()}[call]
    for dataset in (records, files, flat):
        for before, picked in ((False, dataset), (True, getattr(dataset.batch(2), call)(*arguments))):
            found = [one for one in rewrite.changes(calls.read(picked)) if not one.same_order]
            assert bool(found) != before
        above = getattr(dataset.window(2).flat_map(lambda one: one.batch(2)), call)(*arguments)
        assert not [one for one in rewrite.by_hand(calls.read(above)) if not one.same_order]


def test_other_types_and_shapes_are_named(tf):
    written = calls.read(tf.data.Dataset.range(8).batch(2))
    other = calls.read(tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32)).batch(2))
    verdict = equality.Reference(written).compared(rewrite.Change("another type", other))
    assert verdict == "other elements: float32(None,) in place of int64(None,)"


def test_no_dataset_is_refused():
    with pytest.raises(TypeError, match=r"dataset is a list; allowed: a tf\.data\.Dataset"):
        calls.read([1, 2])
