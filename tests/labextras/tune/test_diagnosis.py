"""The report of `autotune` says what TensorFlow really runs with, checked against TensorFlow and on planted limits."""

from __future__ import annotations

import dataclasses
import math
import types

import pytest
import tensorflow as tf

from labextras.tune import autotune_chart, diagnosis, nodes
from labkit.recording import accelerators

AUTOTUNE = tf.data.AUTOTUNE
INSTANT = accelerators.modelled(step_ms=0.1)


def written(dataset, **autotune):
    """Keep the graph as it is written, tuning on."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    for name, value in autotune.items():
        setattr(options.autotune, name, value)
    return dataset.with_options(options)


def pause(seconds):
    """Return a map that holds its thread without the GIL of Python code: a py_function would."""
    from labkit.sources.storage import Storage

    device = Storage(f"pause {seconds}", seconds * 1e3, math.inf, source="made up for a test")
    return lambda x: tf.where(tf.strings.length(device.read(__file__)) > 0, x, x)


def numbers(count=10**6):
    return tf.data.Dataset.range(count)


def double(x):
    return x * 2


def labels(reading):
    return [n.label for n in reading.nodes]


def read_after(dataset, elements=20):
    iterator = iter(dataset)
    for _ in range(elements):
        next(iterator)
    return diagnosis.read(iterator)


# -- what runs -----------------------------------------------------------------


def test_the_report_shows_the_graph_that_runs_not_the_one_that_was_written():
    fused = read_after(numbers().map(double, num_parallel_calls=AUTOTUNE).batch(4))
    kept = read_after(written(numbers().map(double, num_parallel_calls=AUTOTUNE).batch(4)))
    assert labels(fused) == ["Root", "MapAndBatch", "Range"]
    assert labels(kept) == ["Root", "BatchV2", "ParallelMapV2", "Range"]


def test_every_input_stands_below_the_node_that_takes_its_elements():
    pair = tf.data.Dataset.zip(numbers().map(double), numbers()).batch(4).prefetch(2)
    reading = read_after(written(pair))
    assert labels(reading) == ["Root", "Prefetch", "BatchV2", "Zip", "Map", "Range", "Range #2"]
    assert [n.parent for n in reading.nodes] == [-1, 0, 1, 2, 3, 4, 3]
    assert "    ├ Map" in str(reading.table())
    assert "    │ └ Range" in str(reading.table())
    assert "    └ Range #2" in str(reading.table())


def test_a_number_that_the_reader_fixed_is_told_from_a_tuned_one():
    reading = read_after(written(numbers().map(double, num_parallel_calls=3).batch(4).prefetch(AUTOTUNE)))
    by_label = {n.label: n for n in reading.nodes}
    fixed = by_label["ParallelMapV2"].parameter("parallelism")
    assert (fixed.value, fixed.tuned, str(fixed)) == (3, False, "3 fixed")
    buffer = by_label["Prefetch"].parameter("buffer_size")
    assert buffer.tuned
    assert math.isinf(buffer.high)
    assert "no limit" in str(buffer)
    assert list(reading.chosen) == ["Prefetch.buffer_size"]


def test_what_runs_is_shown_and_not_what_the_tuning_last_worked_with():
    from tensorflow.core.framework import model_pb2

    model = model_pb2.ModelProto(output=1)
    model.nodes[1].name = "Root"
    model.nodes[1].parameters.add(name="parallelism", value=1, state_value=3, min=1, max=4, tunable=True)
    model.nodes[1].parameters.add(name="cycle_length", value=5, state_value=0, tunable=False)
    reading = nodes.parse(model)
    assert reading.chosen == {"Root.parallelism": 3}
    assert reading.nodes[0].parameter("cycle_length").value == 5
    assert "3 tuned (1–4)" in str(reading)
    assert "cycle_length 5" in str(reading)
    empty = nodes.parse(model_pb2.ModelProto())
    assert (empty.nodes, empty.lines, empty.chosen) == ((), (), {})


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_elements_per_step_are_those_of_the_ratios(batch):
    reading = read_after(written(numbers().map(double).shuffle(100).batch(batch)))
    need = {n.label: n.per_step for n in reading.nodes}
    assert need == {"Root": 1, "BatchV2": 1, "Shuffle": batch, "Map": batch, "Range": batch}
    for node in reading.nodes:
        assert node.elements >= node.per_step * 20
        assert node.ms_per_step == pytest.approx(node.self_ns / 1e6 / node.elements * node.per_step)


def test_a_filter_takes_as_many_elements_as_it_threw_away():
    reading = read_after(written(numbers().filter(lambda x: x % 4 == 0).batch(5)), 40)
    assert {n.label: n.per_step for n in reading.nodes}["Range"] == pytest.approx(20, rel=0.05)


@pytest.mark.long
def test_open_inner_pipelines_of_one_shape_become_one_row_with_their_number():
    inner = numbers(100).interleave(lambda i: tf.data.Dataset.range(50).map(lambda x: x + i), cycle_length=4).batch(4)
    reading = read_after(written(inner), 5)
    by_label = {n.label: n for n in reading.nodes}
    assert labels(reading) == ["Root", "BatchV2", "Interleave", "Range", "Map", "Range #2"]
    assert (by_label["Map"].copies, by_label["Map"].elements, by_label["Map"].per_step) == (4, 20, 4)
    assert by_label["Map"].inner
    assert not by_label["Range"].inner
    assert "Map ×4" in str(reading)
    assert "finished ones are gone" in str(reading)


# -- which node limits ------------------------------------------------------------


def test_a_line_ends_where_a_node_has_threads_of_its_own():
    dataset = numbers().map(double).map(double, num_parallel_calls=2).batch(4).prefetch(1)
    reading = read_after(written(dataset))
    assert {line.labels for line in reading.lines} == {
        ("Root",), ("Prefetch", "BatchV2"), ("ParallelMapV2",), ("Map", "Range"),
    }  # fmt: skip
    every = sorted(label for line in reading.lines for label in line.labels)
    assert every == sorted(labels(reading)), "each node is in exactly one line"
    by_labels = {line.labels: line for line in reading.lines}
    (parallel,) = [n for n in reading.nodes if n.label == "ParallelMapV2"]
    assert by_labels[("ParallelMapV2",)].ms_per_step == pytest.approx(parallel.ms_per_step / 2)
    times = [line.ms_per_step for line in reading.lines]
    assert times == sorted(times, reverse=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("build", "slow"),
    [
        (lambda d: d.map(pause(0.01)).map(double, num_parallel_calls=2).batch(2).prefetch(1), "Map"),
        (lambda d: d.map(double).map(pause(0.02), num_parallel_calls=2).batch(2).prefetch(1), "ParallelMapV2"),
        (lambda d: d.map(double, num_parallel_calls=2).batch(2).map(pause(0.02)).prefetch(1), "Map"),
        (lambda d: d.batch(2).map(pause(0.02), num_parallel_calls=1).prefetch(1), "ParallelMapV2"),
    ],
    ids=["slow source", "slow parallel map", "slow batch map", "one call at a time"],
)
def test_a_planted_bottleneck_is_the_one_that_limits(build, slow):
    report = diagnosis.autotune(written(build(numbers())), INSTANT, steps=12)
    assert slow in report.limit.labels, str(report)
    assert f"slowest chain of nodes is {report.limit}" in str(report)


def test_no_node_limits_where_the_consumer_hardly_waits():
    report = diagnosis.autotune(numbers().batch(4).prefetch(2), INSTANT, steps=3)
    rested = dataclasses.replace(report, wait_ms=(0.2, 0.3, 90.0), train_ms=(20.0, 20.0, 20.0))
    assert rested.wait_share == pytest.approx(0.3 / 20.3), "one slow batch is no bottleneck"
    assert rested.limit is None
    assert "No node limits: the consumer waited only 0.300 ms, 1 % of a typical step." in str(rested)
    starved = dataclasses.replace(report, wait_ms=(5.0, 5.0, 5.0), train_ms=(20.0, 20.0, 20.0))
    assert starved.limit == starved.lines[0]


# -- the report on a job -----------------------------------------------------------


def test_a_reading_is_taken_after_each_step_but_the_first():
    report = diagnosis.autotune(numbers().batch(4).prefetch(AUTOTUNE), INSTANT, steps=6)
    assert len(report.readings) == len(report.wait_ms) == len(report.train_ms) == 6
    assert all(len(values) == 6 for values in report.history.values())
    assert {name: values[-1] for name, values in report.history.items()} == report.chosen


def test_a_finite_dataset_is_read_for_a_whole_epoch_behind_the_first_step():
    report = diagnosis.autotune(numbers(40).batch(4), INSTANT, steps=None)
    assert len(report.readings) == 10
    assert report.nodes[0].elements == 10


def test_table_and_notebook_table_hold_the_same_rows():
    report = diagnosis.autotune(numbers().map(double, num_parallel_calls=AUTOTUNE).batch(4), INSTANT, steps=3)
    text, html = str(report), report._repr_html_()
    for node in report.nodes:
        assert node.label in text
        assert node.label in html
    assert html.count("<tr>") == len(report.nodes) + 1
    assert "own ms/element" in text
    assert "parallelism" in text.splitlines()[0]
    assert "buffer" not in text.splitlines()[0], "a column that holds nothing is left out"


@pytest.mark.long
def test_the_picture_shows_every_tuned_number_and_its_last_value():
    dataset = numbers().map(double, num_parallel_calls=AUTOTUNE).batch(4).prefetch(AUTOTUNE)
    report = diagnosis.autotune(dataset, INSTANT, steps=5)
    picture = autotune_chart.draw(report)
    figure = picture.figure("dark")
    assert len(figure.axes) == len(report.chosen) + 1
    words = [text.get_text() for text in figure.texts]
    for name, value in report.chosen.items():
        assert set(name.split(".", 1)) <= set(words)
        assert f"{value:.0f}" in words
        assert name in picture.text
        assert name in picture.alt
    assert picture.png()[:4] == b"\x89PNG"


def test_the_picture_refuses_what_it_cannot_show():
    fixed = diagnosis.autotune(written(numbers().batch(4)), INSTANT, steps=2)
    with pytest.raises(ValueError, match="nothing in this pipeline is tuned"):
        autotune_chart.draw(fixed)
    with pytest.raises(TypeError, match="report is of type int"):
        autotune_chart.draw(3)


# -- what cannot be read ------------------------------------------------------------


def test_autotune_off_is_said_with_the_name_of_the_option():
    dataset = written(numbers().batch(4).prefetch(AUTOTUNE), enabled=False)
    with pytest.raises(ValueError, match=r"options\.autotune\.enabled is False"):
        diagnosis.autotune(dataset, INSTANT)
    with pytest.raises(ValueError, match=r"options\.autotune\.enabled is False"):
        diagnosis.read(iter(dataset))


@pytest.mark.parametrize(
    ("arguments", "more", "error", "words"),
    [
        ((3, INSTANT), {}, TypeError, "the pipeline is a int"),
        ((numbers().batch(2), 4), {}, TypeError, "accelerator is 4"),
        ((numbers().batch(2), INSTANT), {"steps": 0}, ValueError, "steps is 0"),
        ((numbers().batch(2).repeat(), INSTANT), {"steps": None}, ValueError, "never ends"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, more, error, words):
    with pytest.raises(error, match=words):
        diagnosis.autotune(*arguments, **more)


@pytest.mark.parametrize("thing", [numbers(), iter([1]), 7, None])
def test_only_a_running_iterator_can_be_read(thing):
    with pytest.raises(TypeError, match=r"iter\(dataset\)"):
        diagnosis.read(thing)


@pytest.mark.parametrize("other", [None, lambda _: types.SimpleNamespace(output=1)], ids=["none", "other fields"])
def test_a_tensorflow_with_another_interface_is_refused_in_one_sentence(monkeypatch, other):
    if other:
        monkeypatch.setattr(tf.data.experimental, "get_model_proto", other)
    else:
        monkeypatch.delattr(tf.data.experimental, "get_model_proto")
    with pytest.raises(RuntimeError, match=r"labkit does not know .*experimental"):
        diagnosis.read(iter(numbers().batch(2)))
