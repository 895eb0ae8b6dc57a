"""What a pipeline is: both ways to read it agree, and each finds what only it can see."""

from __future__ import annotations

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit
from labkit.pipelines import options, structure
from labkit.pipelines.structure import AUTOTUNE

GROWN = {
    "Map": lambda d, n: d.map(lambda x: x + 1),
    "ParallelMap": lambda d, n: d.map(lambda x: x + 1, num_parallel_calls=n),
    "Prefetch": lambda d, n: d.prefetch(n),
    "Shuffle": lambda d, n: d.shuffle(n),
    "Repeat": lambda d, n: d.repeat(n),
    "Take": lambda d, n: d.take(n),
    "Skip": lambda d, n: d.skip(n),
    "Cache": lambda d, n: d.cache(),
    "Interleave": lambda d, n: d.interleave(tf.data.Dataset.range, cycle_length=n, block_length=2),
    "FlatMap": lambda d, n: d.flat_map(tf.data.Dataset.range),
}
SETTINGS = {
    "ParallelMap": "num_parallel_calls", "Prefetch": "buffer_size", "Shuffle": "buffer_size", "Repeat": "count",
    "Take": "count", "Skip": "count", "Interleave": "cycle_length",
}  # fmt: skip


@pytest.mark.long
@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(sorted(GROWN)), st.integers(1, 9)), max_size=5))
def test_python_and_the_graph_tell_the_same_steps_and_settings(grown):
    made = tf.data.Dataset.range(7)
    for kind, number in grown:
        made = GROWN[kind](made, number)
    steps = structure.chain(made).steps
    assert [step.kind for step in steps] == ["Range", *(kind for kind, _ in grown)]
    assert [node.kind for node in structure.nodes(made)] == [step.kind for step in reversed(steps)]
    for step, node, (kind, number) in zip(steps[1:], structure.nodes(made)[-2::-1], grown, strict=True):
        if kind in SETTINGS:
            assert step.settings[SETTINGS[kind]] == node.number(f"_{SETTINGS[kind]}") == number


def test_a_node_knows_what_comes_before_and_after_it():
    source = tf.data.Dataset.range(3)
    seen = structure.nodes(source.map(lambda x: x).batch(2).prefetch(1))
    for place, node in enumerate(seen):
        assert node.upstream == seen[place + 1 :]
        assert list(node.downstream) == seen[:place][::-1]
    assert seen[-1].dataset is source


def test_what_was_written_is_kept_with_settings_loops_and_nodes_inside_of_functions():
    def looped(values):
        return tf.map_fn(lambda v: tf.sqrt(v), values)

    def several(value):
        return tf.data.Dataset.from_tensors(value).map(tf.exp, num_parallel_calls=3)

    made = tf.data.Dataset.from_tensor_slices(tf.ones([4, 8])).map(looped, num_parallel_calls=AUTOTUNE)
    made = made.interleave(several, cycle_length=5, num_parallel_calls=2).map(tf.abs).prefetch(7)
    told = {node.kind: node for node in structure.written(made)}
    kinds = [node.kind for node in structure.written(made)]
    assert kinds == ["Prefetch", "Map", "ParallelInterleave", "ParallelMap", "Tensor", "ParallelMap", "TensorSlice"]
    assert told["Prefetch"].settings["buffer_size"] == 7
    assert told["ParallelInterleave"].settings.items() >= {("num_parallel_calls", 2), ("cycle_length", 5)}
    assert "num_parallel_calls" not in told["Map"].settings
    inner, outer = (node for node in structure.written(made) if node.kind == "ParallelMap")
    assert (inner.settings["num_parallel_calls"], outer.settings["num_parallel_calls"]) == (3, AUTOTUNE)
    assert [("Exp" in node.ops) for node in (inner, told["ParallelInterleave"])] == [True, False]
    assert [("Sqrt" in node.looped) for node in (inner, outer)] == [False, True]
    assert structure.written(object()) == ()


def test_the_operations_of_a_function_are_found_however_deep_it_calls_others():
    inner = tf.function(lambda x: tf.strings.length(tf.strings.as_string(x)))
    made = tf.data.Dataset.range(3).map(lambda x: inner(x) + inner(x + 1))
    (node,) = (node for node in structure.nodes(made) if node.kind == "Map")
    assert {"StringLength", "AsString", "AddV2"} <= node.ops
    called = [operation.op for operation in structure.chain(made).steps[-1].inside]
    assert called.count("StringLength") == 2, "a function that is called twice is there twice"


def test_a_dataset_that_a_function_captures_is_named():
    one = tf.data.Dataset.range(3)
    made = tf.data.Dataset.range(2).flat_map(lambda _: one)
    (found,) = structure.nodes(made)[0].captured
    assert "RangeDataset" in {node.op for node in structure.serialized(found).node}
    assert structure.nodes(one.map(lambda x: x))[0].captured == []


@pytest.mark.parametrize("own", [None, True, False])
@pytest.mark.parametrize("otherwise", [True, False])
def test_order_is_what_the_step_says_and_else_what_the_options_say(own, otherwise):
    choice = tf.data.Options()
    choice.deterministic = otherwise
    made = tf.data.Dataset.range(4).map(lambda x: x, num_parallel_calls=2, deterministic=own)
    assert structure.nodes(made)[0].ordered is own
    assert structure.chain(made.with_options(choice)).any_order is not (otherwise if own is None else own)


def test_a_constant_is_read_and_nothing_else():
    calls = tf.Variable(3, dtype=tf.int64)
    made = tf.data.Dataset.range(9).batch(calls).map(lambda x: x, num_parallel_calls=AUTOTUNE).shuffle(5)
    steps = {step.kind: step.settings for step in structure.chain(made).steps}
    assert "batch_size" not in steps["Batch"] or steps["Batch"]["batch_size"] == 3
    assert steps["ParallelMap"]["num_parallel_calls"] == AUTOTUNE
    assert steps["Shuffle"]["buffer_size"] == 5


def test_the_options_of_a_plain_pipeline_are_two_and_a_pool_of_threads_if_wanted():
    data = tf.data.Dataset.range(3)
    assert structure.chain(data).rewritten
    made = labkit.plain(data)
    assert not structure.chain(made).rewritten
    assert made.options().experimental_optimization.apply_default_optimizations is False
    assert made.options().autotune.enabled is False
    assert structure.chain(made).threads is None
    assert structure.chain(options.plain(data, threads=5)).threads == 5


def test_what_is_no_dataset_is_refused_in_one_sentence():
    with pytest.raises(TypeError, match=r"dataset is a list; allowed: a tf\.data\.Dataset"):
        structure.chain([1, 2])
    with pytest.raises(ValueError, match="TensorFlow cannot write this dataset down"):
        structure.chain(tf.data.Dataset.range(3).apply(tf.data.experimental.prefetch_to_device("/cpu:0")))


def test_an_operation_that_draws_is_told_from_one_that_prepares_a_draw():
    drawn = tf.data.Dataset.range(1)
    box = tf.zeros([1, 1, 4])
    for draw in (
        lambda i: tf.random.uniform([]),
        lambda i: tf.random.truncated_normal([]),
        lambda i: tf.random.stateless_truncated_normal([], (1, 2)),
        lambda i: tf.image.sample_distorted_bounding_box([8, 8, 3], box, min_object_covered=0.1)[0],
    ):
        (node, *_) = structure.nodes(drawn.map(draw))
        assert any(map(structure.is_random, node.ops))
    (node, *_) = structure.nodes(drawn.map(lambda i: tf.sqrt(tf.cast(i, tf.float32))))
    assert not any(map(structure.is_random, node.ops))
    assert not structure.is_random("StatelessRandomGetKeyCounter")
