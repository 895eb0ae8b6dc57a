import errno
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest

from labkit.pipelines.options import changed
from labkit.recording import accelerators, measures, recorder
from labkit.recording.measures import compare_rates
from labkit.recording.tfdata import driver, xplane
from labkit.simulate import fitting as model
from labkit.timeline.heading import heading
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Trace
from labkit.views import ladder_chart, static


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def jpegs(tf, tmp_path_factory):
    """Return twenty small photos: noise, so that decoding them is work."""
    folder = tmp_path_factory.mktemp("jpegs")
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{i}.jpg") for i in range(20)]
    for path in paths:
        tf.io.write_file(path, tf.io.encode_jpeg(rng.integers(0, 255, (240, 320, 3), np.uint8)))
    return paths


@pytest.fixture
def photos(tf, jpegs):
    return tf.data.Dataset.from_tensor_slices(jpegs).repeat()


@pytest.fixture(autouse=True)
def no_trace_is_left(tf, tmp_path, monkeypatch):
    """After every test, however it ended, no file is left and the profiler can be started."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temp").mkdir()
    yield
    assert list((tmp_path / "temp").glob("labkit*")) == []
    tf.profiler.experimental.start(str(tmp_path / "mine"))
    tf.profiler.experimental.stop(save=False)


def prepare(path):
    import tensorflow as tf

    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (128, 128))
    return tf.clip_by_value(tf.image.random_saturation(image, 0.5, 1.5), 0, 1)


def plain(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


FAST = accelerators.modelled(step_ms=1)


class Counting(accelerators.Modelled):
    """A modelled accelerator that remembers its batches and does something odd at one step."""

    def __init__(self, at=-1, odd=lambda: None):
        super().__init__("counting", "a test", 0.0, 1e5, "0.1 ms")
        object.__setattr__(self, "seen", [])
        object.__setattr__(self, "times_ns", [])
        object.__setattr__(self, "do", (at, odd))

    def step(self, batch):
        self.seen.append(batch)
        self.times_ns.append(time.time_ns())
        if len(self.seen) - 1 == self.do[0]:
            self.do[1]()
        super().step(batch)


def crossings(trace):
    """Count spans that overlap another one of their thread without nesting."""
    found = 0
    for number in range(len(trace.threads)):
        mine, open_ends = np.flatnonzero(trace.thread == number), []
        for start, end in zip(trace.start_ns[mine].tolist(), trace.end_ns[mine].tolist(), strict=True):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            found += bool(open_ends) and end > open_ends[-1]
            open_ends.append(end)
    return found


# -- what a recording says -----------------------------------------------------------


@pytest.mark.parametrize(
    "parts", [(["a", "b", "c", "d"], [0, 1, 0, 1]), [1.0, 2.0, 3.0, 4.0]], ids=["texts", "numbers"]
)
def test_nothing_speaks_of_images_where_there_are_none(tf, parts):
    dataset = plain(tf.data.Dataset.from_tensor_slices(parts).repeat().map(lambda *row: row).batch(4))
    found = measures.measure({"rows": dataset, "same rows": dataset, "half": dataset.unbatch().batch(2)}, FAST, steps=3)
    trace = found.trace("rows")
    timeline = Timeline(trace)
    said = (
        found, found._repr_html_(), timeline, timeline.operations(), timeline.figures, model.fit(trace).predict(),
        ladder_chart.draw({"rows": trace}, title="t").text, static.compare(trace, found.trace("half")).text,
    )  # fmt: skip
    for words in map(str, said):
        assert "image" not in words
    assert "elements/s" in timeline.figures
    assert Trace.load(trace.save(os.path.join(tempfile.gettempdir(), "t.json"))).run.noun == "element"


def test_photos_are_called_images_and_so_is_what_an_older_trace_does_not_say(tf, photos):
    trace = recorder.record(plain(photos.map(tf.io.read_file).batch(4)), FAST, steps=2)
    assert (trace.run.noun, Run("measured").noun) == ("image", "image")
    assert "images/s" in Timeline(trace).figures
    with pytest.raises(ValueError, match="noun is 'photo'; allowed: image, clip, window, sequence, text, row, element"):
        Run("measured", noun="photo")


def test_the_consumer_waits_and_trains_in_turn_and_meta_counts_it(photos):
    trace = recorder.record(photos.map(prepare).batch(4), FAST, steps=6, warmup=3, name="six")
    consumer = trace.where(trace.select(kind="consumer"))
    assert [(s.category, s.step) for s in consumer] == [(c, i) for i in range(6) for c in ("wait", "train")]
    assert (consumer.start_ns[1:] >= consumer.end_ns[:-1]).all()
    run = trace.run
    assert (run.name, run.steps, run.warmup, run.images, run.batch_size) == ("six", 6, 3, 24, 4)
    assert run.window_ns == (int(consumer.start_ns[0]), int(consumer.end_ns[-1]))
    assert trace.start_ns.min() >= run.window_ns[0]
    assert trace.end_ns.max() <= run.window_ns[1]
    assert run.accelerator.kind == "modelled"
    assert run.work.images == run.job.images == 24
    assert run.profiler.profiled_steps == 6
    assert run.repeats[0].images == 24
    assert run.first_batch_ns > 0
    assert Run(**json.loads(json.dumps(asdict(run)))) == run


def test_both_clocks_agree_to_the_step(photos):
    """tf.data's spans in the consumer's thread come from the profiler's clock, the waits from Python's."""
    trace = recorder.record(plain(photos.map(prepare).batch(4)), FAST, steps=8)
    waits = trace.where(trace.select("wait"))
    inside = trace.where(trace.select(name="Iterator::Root"))
    assert len(inside) == len(waits) == 8
    assert (inside.start_ns >= waits.start_ns).all()
    assert (inside.end_ns <= waits.end_ns).all()


def test_every_stage_of_a_photo_pipeline_is_seen(photos):
    trace = recorder.record(photos.map(prepare, num_parallel_calls=2).batch(4).prefetch(2), FAST, steps=8)
    pipeline = trace.where(trace.select(kind="pipeline"))
    for category in ("read", "decode", "resize", "map", "batch", "iterator"):
        assert pipeline.select(category).sum() > 0, category
    assert pipeline.select("decode").sum() >= 16, "of 32, two batches may lie there before, and one be in the making"
    assert "tf.data worker 1" in {t.name for t in trace.threads}


def test_spans_of_one_thread_nest(tf, photos):
    variants = [
        plain(photos.map(prepare).batch(4)),
        photos.map(prepare, num_parallel_calls=2).batch(4).prefetch(2),
        photos.interleave(lambda p: tf.data.Dataset.from_tensors(p).map(prepare), num_parallel_calls=2).batch(4),
        photos.map(lambda p: tf.py_function(prepare, [p], tf.float32), num_parallel_calls=2).batch(4),
    ]
    for dataset in variants:
        trace = recorder.record(dataset, FAST, steps=5)
        assert len(trace) > 50
        assert crossings(trace) == 0


@pytest.mark.long
def test_naive_shows_no_node_that_nobody_wrote(photos):
    written = photos.map(prepare).batch(4)
    asynchronous = ("Prefetch", "MapAndBatch", "ParallelMap")
    assert not [n for n in recorder.graph(plain(written)) if any(a in n for a in asynchronous)]
    assert [n for n in recorder.graph(written) if any(a in n for a in asynchronous)]
    trace = recorder.record(plain(written), FAST, steps=2)
    assert list(trace.run.graph) == recorder.graph(plain(written))
    assert trace.run.graph[:3] == ("Root", "Root::BatchV2", "Root::BatchV2::Map")
    assert trace.run.options == {
        "autotune.enabled": "False",
        "experimental_optimization.apply_default_optimizations": "False",
    }


def test_options_are_printed_as_they_were_set(tf):
    dataset = tf.data.Dataset.range(3).batch(1)
    assert changed(dataset) == {}
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 7
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    assert changed(dataset.with_options(options)) == {
        "deterministic": "False",
        "experimental_distribute.auto_shard_policy": "OFF",
        "threading.private_threadpool_size": "7",
    }


def test_a_name_given_in_the_pipeline_is_kept(photos):
    trace = recorder.record(plain(photos.map(prepare, name="my_decode").batch(4)), FAST, steps=2)
    assert trace.run.node_names == {"Root::BatchV2::Map": "my_decode"}


@pytest.mark.long
@pytest.mark.parametrize("own_threads", [True, False])
def test_a_keras_step_on_the_cpu_is_not_counted_as_work_of_the_pipeline(tf, photos, own_threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2 if own_threads else -1
    dataset = photos.map(lambda p: (prepare(p), 1), num_parallel_calls=2).batch(4).prefetch(2).with_options(options)
    trace = recorder.record(dataset, accelerators.real(classes=3), steps=6)
    names = np.array(trace.names)[trace.name]
    training = np.char.find(np.char.lower(names), "conv2d") >= 0
    assert training.any()
    assert not (training & trace.select(kind="pipeline")).any()
    decode = trace.select("decode")
    assert decode.sum() >= 8
    assert set(names[decode]) == {"DecodeJpeg:DecodeJpeg"}
    # Two calls are in flight when the recording begins: what encloses them is not seen.
    assert ((names == "DecodeJpeg:DecodeJpeg") & ~decode).sum() <= 2, "all decoding is the pipeline's"
    assert trace.run.accelerator.kind == "real"


def test_the_first_batch_is_timed_from_before_the_iterator(tf):
    def slow():
        time.sleep(0.2)
        yield from np.zeros((9, 2), np.float32)

    dataset = tf.data.Dataset.from_generator(slow, output_signature=tf.TensorSpec((2,))).batch(1)
    trace = recorder.record(dataset, FAST, steps=3)
    assert trace.run.first_batch_ns > 200_000_000


# -- repeats and rounds ----------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(("value", "rounds"), [("1", 1), ("0", 4), ("", 4)])
def test_where_nobody_looks_one_round_is_enough(tf, monkeypatch, value, rounds):
    data = tf.data.Dataset.range(40).batch(1)
    monkeypatch.setenv("LABKIT_FAST", value)
    found = measures.measure({"a": data, "b": data}, FAST, steps=2, warmup=5, repeats=4)
    assert [len(found[name]) for name in found] == [rounds, rounds]
    assert found.trace("a").run.warmup == (1 if rounds == 1 else 5)
    assert len(recorder.record(data, FAST, steps=2).run.repeats) == 1


def test_where_nobody_looks_the_round_that_is_timed_is_that_of_the_pictures(tf, monkeypatch):
    monkeypatch.setenv("LABKIT_FAST", "1")
    found = measures.measure({"a": tf.data.Dataset.range(40).batch(1)}, FAST, steps=2, repeats=4, profile=False)
    assert not found.pictures
    assert found.trace("a").run.profiler.events > 0


@pytest.mark.long
def test_rounds_are_interleaved_and_start_with_another_pipeline_each_time(tf, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_EVENT_NS", 0)  # no pairs, which begin a pipeline between rounds
    order = []

    def source(name):
        def rows():
            order.append(name)
            yield from np.zeros((40, 2), np.float32)

        return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((2,))).batch(2)

    table = measures.measure({n: source(n) for n in "abc"}, FAST, steps=4, repeats=4)
    assert "".join(order) == "abc" + "bca" + "cab" + "abc"
    assert {name: len(rounds) for name, rounds in table.items()} == {"a": 4, "b": 4, "c": 4}
    assert table.difference("b", "a") is None
    assert table.trace("b").run.name == "b"
    assert len(table.trace("b").run.repeats) == 4
    assert "interleaved" in str(table)


@pytest.mark.long
def test_rounds_are_added_while_a_verdict_is_open_and_no_longer(tf):
    """However the machine behaves: the last look found every verdict or is the limit, and no look before found them."""
    variants = {name: plain(tf.data.Dataset.range(400).map(lambda x: x).batch(4)) for name in "ab"}
    found = measures.measure(variants, FAST, steps=3, limit=8, busy_limit=1)
    count = len(found["a"])
    assert count in (5, 6, 7, 8)
    assert len(found["b"]) == len(found.trace("b").run.repeats) == count
    for seen in (n for n in (5, 6, 7, 8) if n <= count):
        decided = compare_rates(found.rates("b")[:seen], found.rates("a")[:seen]).decided
        assert decided == (seen == count) or seen == 8


@pytest.mark.long
def test_no_round_is_added_where_nothing_is_open_or_nobody_wants_it(tf):
    four, two = (plain(tf.data.Dataset.range(400).batch(size)) for size in (4, 2))
    assert len(measures.measure({"alone": four}, FAST, steps=2)["alone"]) == 5
    assert len(measures.measure({"a": four, "unequal work": two}, FAST, steps=2)["a"]) == 5
    assert len(measures.measure({"a": four, "b": four}, FAST, steps=2, limit=5)["a"]) == 5
    assert len(measures.measure({"a": four, "b": four}, FAST, steps=2, repeats=3)["a"]) == 3
    with pytest.raises(ValueError, match="limit is 4; allowed: a whole number of 5 or more"):
        measures.measure({"a": four}, FAST, limit=4)


def test_rounds_without_the_profiler_keep_the_table_and_bring_one_picture_each(tf, photos, monkeypatch):
    """The profiler is started for the pictures only, and the guard of equal work looks at the timed rounds."""
    watched, one = [], driver.drive
    monkeypatch.setattr(recorder, "MOST_EVENT_NS", 0)  # no pairs, which a busy machine would ask for
    monkeypatch.setattr(recorder, "drive", lambda *a, **k: (watched.append(k["max_events"]), one(*a, **k))[1])
    variants = {n: plain(photos.map(prepare).batch(size)) for n, size in {"a": 4, "b": 4, "c": 2}.items()}
    found = measures.measure(variants, FAST, steps=3, repeats=2, profile=False)
    assert watched == [None] * 6 + [500_000] * 3
    for name in ("a", "b"):
        assert [(m.images, m.steps) for m in found[name]] == [(12, 3)] * 2
        assert all(m.first_batch_ms > 0 and m.wait_ms > 0 and m.train_ms >= 1 for m in found[name])
        assert found.trace(name).select("decode").any(), "a picture of the work"
        assert not found.traces[name].select(kind="pipeline").any(), "the clock alone"
        assert found.trace(name).run.repeats == tuple(found[name]), "its figures are the timed ones"
    assert found.equal_work("b") == "yes"
    assert "different counts" in found.difference("c")
    assert found.speedup("b").rounds == 2
    assert "timed without the profiler" in str(found)


# -- how much a recording may take -------------------------------------------------------


@pytest.mark.parametrize(("most", "distorted"), [(-10.0, True), (100.0, False)])
def test_only_pairs_with_the_profiler_and_without_say_that_recording_distorts(tf, monkeypatch, most, distorted):
    """What they find is compared with a share that any profiler adds, and with one that none does."""
    monkeypatch.setattr(recorder, "DISTORTS", most)
    monkeypatch.setattr(recorder, "NOTICED", -10.0 if distorted else 0.0)
    monkeypatch.setattr(recorder, "MOST_EVENT_NS", 10**9)
    driven, one = [], driver.drive
    monkeypatch.setattr(recorder, "drive", lambda *a, **k: (driven.append(k["max_events"]), one(*a, **k))[1])
    found = measures.measure({"p": tf.data.Dataset.range(640).map(lambda x: x + 1).batch(8)}, FAST, steps=3, repeats=2)
    assert driven[0] == 500_000
    assert driven.count(None) == (2 * recorder.PAIRS if distorted else 2), "one pair that denies it is enough"
    assert driven.count(500_000) == 2, "the pairs stand for all rounds"
    timeline = Timeline(found.trace("p"))
    assert (timeline.run.profiler.distortion is not None) == distorted
    for text in (str(timeline), heading(timeline), str(found)):
        assert ("Recording distorts" in text) == distorted
        assert ("the remedy may gain less" in " ".join(text.split())) == distorted


def test_a_pipeline_is_begun_anew_only_where_its_events_could_matter(tf):
    begun = []

    def batches():
        begun.append(1)
        while True:
            time.sleep(0.01)  # so its few events take nothing of the window
            yield np.zeros(4)

    dataset = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([4], tf.float64))
    assert recorder.record(dataset, FAST, steps=5).run.profiler.distortion is None
    assert len(begun) == 1


def test_what_cannot_be_begun_anew_is_not_said_to_be_distorted(tf, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_EVENT_NS", 10**9)
    once = iter(np.zeros((7, 4)))
    dataset = tf.data.Dataset.from_generator(lambda: once, output_signature=tf.TensorSpec([4], tf.float64))
    assert recorder.record(dataset, FAST, steps=5).run.profiler.distortion is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("known", [True, False])
def test_a_long_job_is_driven_to_its_end_but_watched_for_a_window(tf, known):
    dataset = tf.data.Dataset.range(10**9).map(lambda x: x + 1).batch(4)
    if not known:
        dataset = dataset.filter(lambda batch: True)
        assert int(dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    consumer = Counting()
    trace = recorder.record(dataset, consumer, steps=400, max_events=4_000)
    run = trace.run
    assert len(consumer.seen) == 402
    assert run.job.steps == 400
    assert run.job.images == run.work.images == 1600
    assert 4 < run.steps < 200
    assert run.images == 4 * run.steps
    assert run.profiler.events < 3 * 4_000
    for text in (str(Timeline(trace)), heading(Timeline(trace)), str(measures.Measures.from_traces({"p": trace}))):
        assert f"watched {run.steps} of 400 steps" in " ".join(text.split())
    assert trace.select("wait").sum() == run.steps
    assert trace.where(trace.select("wait")).step.tolist() == list(range(run.steps))
    # Of an end that is known, the last steps are watched, so that no step follows the writing of the profile.
    begin, end = run.window_ns
    watched = [i for i, at in enumerate(consumer.times_ns[2:]) if begin <= at <= end]
    wanted = range(400)[-run.steps :] if known else range(run.steps)
    assert len({*watched} ^ {*wanted}) <= 1, "two clocks differ by microseconds, and so may the step at an end"


@pytest.mark.long
def test_a_pipeline_of_very_many_events_per_image_is_watched_for_less(tf):
    """Nothing tells beforehand that each of these rows is made of 8,000: only the memory does."""
    dataset = plain(tf.data.Dataset.range(10**9).map(lambda x: x + 1).batch(8_000).map(lambda x: x[:1]))
    consumer = Counting()
    run = recorder.record(dataset, consumer, steps=12, max_events=2_000).run
    assert len(consumer.seen) == 14
    assert run.profiler.profiled_steps == run.steps < run.job.steps == 12


@pytest.mark.long
def test_many_recordings_in_one_process_neither_leak_nor_fail(photos):
    dataset = photos.map(prepare, num_parallel_calls=2).batch(4).prefetch(2)
    me = psutil.Process()

    def used():
        gc.collect()
        return me.memory_info().rss, me.num_fds(), threading.active_count()

    for _ in range(8):
        recorder.record(dataset, FAST, steps=4)
    rss, files, threads = used()
    for _ in range(20):
        trace = recorder.record(dataset, FAST, steps=4)
        assert trace.select("wait").sum() == trace.run.steps == 4
        assert {"decode", "resize", "map"} & {span.category for span in trace}
    rss_after, files_after, threads_after = used()
    assert rss_after - rss < 60e6
    assert files_after <= files
    assert threads_after == threads


# -- the end of the data -----------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("warmup", [1, 3, 13, 20])
def test_none_means_a_whole_epoch_after_a_warm_up_in_an_epoch_of_its_own(tf, known, warmup):
    dataset = tf.data.Dataset.range(26).batch(2)
    dataset = dataset if known else dataset.filter(lambda batch: True)
    consumer = Counting()
    trace = recorder.record(dataset, consumer, steps=None, warmup=warmup)
    seen = [batch.numpy().tolist() for batch in consumer.seen]
    assert seen[: -13 or None] == seen[-13:][: min(warmup, 13)]
    assert np.concatenate(seen[-13:]).tolist() == list(range(26))
    assert trace.run.steps == trace.run.work.steps == trace.run.job.steps == 13
    assert trace.run.images == 26
    assert "ended" not in (trace.run.profiler.note or "")


def test_whole_epochs_in_any_order_are_equal_work_and_windows_of_them_are_not(tf, tmp_path):
    """The first batches of two orders are other lines; so is what they leave of an epoch."""
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number}{row:03}\n" for row in range(50)))
    names = sorted(map(str, tmp_path.glob("*.txt")))
    files = tf.data.Dataset.from_tensor_slices(names)
    variants = {
        "in turn": tf.data.TextLineDataset(names).batch(10),
        "interleaved": files.interleave(tf.data.TextLineDataset, cycle_length=4).batch(10),
    }
    whole = measures.measure(variants, FAST, steps=None, repeats=1)
    assert whole.difference("interleaved") is None
    assert {one.images for one in (*whole["in turn"], *whole["interleaved"])} == {200}
    part = measures.measure(variants, FAST, steps=10, repeats=1).difference("interleaved")
    assert "measure(..., steps=None)" in part, "it names the call that compares whole epochs"
    variants["fewer"] = files.interleave(lambda name: tf.data.TextLineDataset(name).map(lambda _: "same")).batch(10)
    unequal = measures.measure(variants, FAST, steps=None, repeats=1).difference("fewer")
    assert "not the same set" in unequal
    assert "steps=None" not in unequal, "whole epochs of whole epochs are not asked for"


def test_a_cache_is_full_after_a_warm_up_that_is_longer_than_an_epoch(tf):
    made = []
    numbers = tf.data.Dataset.range(8).map(lambda n: tf.numpy_function(lambda i: (made.append(i), i)[1], [n], n.dtype))
    for warmup, expected in ((2, 8), (9, 0)):
        cached = plain(numbers.batch(2).cache())
        consumer = Counting(at=min(warmup, 4) - 1, odd=made.clear)  # the last step of the warm-up
        recorder.record(cached, consumer, steps=None, warmup=warmup)
        assert len(made) == expected


def test_a_dataset_that_ends_in_the_window_is_measured_as_far_as_it_went(tf):
    for dataset in (tf.data.Dataset.range(14).batch(1), tf.data.Dataset.range(14).batch(1).filter(lambda x: True)):
        trace = recorder.record(dataset, FAST, steps=20, warmup=2)
        assert trace.run.steps == trace.run.images == trace.run.work.steps == 12
        assert trace.run.profiler.note.startswith("the dataset ended after 12 of 20 steps.")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        (0, "pipeline 'p' is empty: it ended before its first batch"),
        (1, "pipeline 'p' ended after 1 batch; a recording needs more than the 3 of its warm-up"),
        (2, "pipeline 'p' ended after 2 batches"),
        (3, "pipeline 'p' ended after 3 batches"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_dataset_that_ends_in_the_warm_up_is_refused(tf, batches, sentence, known):
    dataset = tf.data.Dataset.range(batches * 2).batch(2)
    if not known:
        dataset = dataset.filter(lambda batch: True)
    with pytest.raises(ValueError, match=sentence):
        recorder.record(dataset, FAST, steps=5, warmup=3, name="p")


def test_no_whole_epoch_of_what_is_empty_or_cannot_be_iterated_anew(tf):
    with pytest.raises(ValueError, match="pipeline 'p' is empty"):
        recorder.record(tf.data.Dataset.range(0).batch(2), FAST, steps=None, name="p")
    once = iter(np.zeros((2, 4)))
    dataset = tf.data.Dataset.from_generator(lambda: once, output_signature=tf.TensorSpec([4], tf.float64))
    with pytest.raises(ValueError, match="pipeline 'p' is empty when it is iterated anew"):
        recorder.record(dataset, FAST, steps=None, name="p")


def test_no_end_and_no_number_of_steps_is_refused(tf):
    with pytest.raises(ValueError, match=r"steps is None.*pipeline 'p' never ends.*allowed: a number of steps"):
        recorder.record(tf.data.Dataset.range(3).batch(1).repeat(), FAST, steps=None, name="p")


# -- failures ----------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("warmup", "at", "where"),
    [(2, 0, "its first batch"), (3, 2, "warm-up step 2"), (2, 2, "step 0 of 9"), (2, 7, "step 5 of 9")],
)
def test_a_pipeline_that_fails_is_named_with_its_step_and_the_cause(tf, warmup, at, where):
    def check(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, tf.constant(at, tf.int64), "this row is bad")]):
            return tf.identity(x)

    dataset = plain(tf.data.Dataset.range(20).map(check).batch(1))
    with pytest.raises(
        recorder.RecordingError, match=f"pipeline 'broken' failed at {where}: InvalidArgumentError"
    ) as e:
        recorder.record(dataset, FAST, steps=9, warmup=warmup, name="broken")
    assert "this row is bad" in str(e.value.__cause__)
    assert recorder.record(plain(tf.data.Dataset.range(20).batch(1)), FAST, steps=5).run.steps == 5


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_failing_train_step_is_named(tf, at):
    def fail():
        raise MemoryError("too many weights")

    dataset = tf.data.Dataset.range(20).batch(1)
    where = ["warm-up step 0", "warm-up step 1", "", "", "step 2 of 5"][at]
    with pytest.raises(recorder.RecordingError, match=f"train step of counting failed at {where}.*too many weights"):
        recorder.record(dataset, Counting(at, fail), steps=5)


@pytest.fixture
def interruptible():
    """A shell that starts a job in the background has it ignore interrupts, and Python leaves that so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("at", [0, 1, 4])
def test_an_interrupt_stops_the_profiler_and_goes_on_up(tf, at):
    interrupt = Counting(at, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        recorder.record(tf.data.Dataset.range(20).batch(1), interrupt, steps=5)
    assert recorder.record(tf.data.Dataset.range(20).batch(1), FAST, steps=5).run.steps == 5


@pytest.mark.sample(1)
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("at", [0, 1, 4, 6])
def test_an_interrupt_that_python_forgets_is_kept(tf, at, monkeypatch):
    """TensorFlow deletes an executor per batch, and what is raised in a ``__del__`` goes no further."""
    forgotten = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: forgotten.append(what.exc_type))

    class Deaf:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)  # the signal is served here at the latest

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        recorder.record(tf.data.Dataset.range(20).batch(1), Counting(at, lambda: Deaf() and None), steps=5)
    assert forgotten == [KeyboardInterrupt]
    assert signal.getsignal(signal.SIGINT) is handler
    assert recorder.record(tf.data.Dataset.range(20).batch(1), FAST, steps=5).run.steps == 5


@pytest.mark.parametrize("when", ["it starts", "it stops"])
def test_an_interrupt_of_the_profiler_leaves_none_running(tf, monkeypatch, when):
    """Python notices the signal when the call into TensorFlow returns, and TensorFlow keeps its session then."""
    profiler, begun = tf.profiler.experimental, []

    def starts(*words):
        real_start(*words)
        begun.append(words)
        if when == "it starts" and len(begun) == 2:  # the first session is thrown away
            raise KeyboardInterrupt

    def stops(save=True):
        if when == "it stops" and save:
            raise KeyboardInterrupt
        real_stop(save)

    real_start, real_stop = profiler.start, profiler.stop
    with monkeypatch.context() as patch:
        patch.setattr(profiler, "start", starts)
        patch.setattr(profiler, "stop", stops)
        with pytest.raises(KeyboardInterrupt):
            recorder.record(tf.data.Dataset.range(20).batch(1), FAST, steps=5)
    assert len(begun) == 2
    assert recorder.record(tf.data.Dataset.range(20).batch(1), FAST, steps=5).run.steps == 5


def test_a_handler_of_somebody_else_keeps_the_interrupt(tf):
    """What it decides is final: a server that only counts interrupts goes on."""
    counted = []
    before = signal.signal(signal.SIGINT, lambda *_: counted.append(1))
    try:
        interrupt = Counting(3, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert recorder.record(tf.data.Dataset.range(20).batch(1), interrupt, steps=5).run.steps == 5
    finally:
        signal.signal(signal.SIGINT, before)
    assert counted == [1]


def test_a_kept_error_keeps_no_iterator_alive(tf):
    closed = threading.Event()

    def rows():
        try:
            while True:
                yield np.zeros(2, np.float32)
        finally:
            closed.set()

    def fail():
        raise ValueError("no")

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((2,))).batch(1).prefetch(1)
    with pytest.raises(recorder.RecordingError) as kept:
        recorder.record(dataset, Counting(3, fail), steps=5)
    gc.collect()
    assert closed.wait(20), kept


def test_a_profiler_that_runs_already_is_left_alone(tf, tmp_path):
    dataset, consumer = tf.data.Dataset.range(20).batch(1), Counting()
    tf.profiler.experimental.start(str(tmp_path / "theirs"))
    with pytest.raises(recorder.RecordingError, match="a TensorFlow profiler session is already running"):
        recorder.record(dataset, consumer, steps=3)
    with tf.profiler.experimental.Trace("their mark"):
        list(dataset)
    tf.profiler.experimental.stop()
    (file,) = (tmp_path / "theirs").rglob("*.xplane.pb")
    assert b"their mark" in file.read_bytes()
    assert consumer.seen == [], "the pipeline was not touched"
    assert recorder.record(dataset, FAST, steps=3).run.steps == 3


def test_a_profiler_that_somebody_else_stops_gives_a_sentence(tf):
    dataset = tf.data.Dataset.range(20).batch(1)
    thief = Counting(4, lambda: tf.profiler.experimental.stop(save=False))
    with pytest.raises(recorder.RecordingError, match="profiler could not be stopped and saved"):
        recorder.record(dataset, thief, steps=5)


# -- what may be given -------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", float("nan")])
@pytest.mark.parametrize("argument", ["steps", "warmup", "max_events"])
def test_counts_are_whole_numbers_of_one_or_more(tf, argument, value):
    with pytest.raises(ValueError, match=rf"{argument} is {value!r}; allowed: a whole number of 1 or more"):
        recorder.record(tf.data.Dataset.range(9).batch(1), FAST, **{argument: value})


def test_where_a_profile_is_kept_is_looked_at_before_the_first_step(tf, tmp_path):
    (tmp_path / "profile.pb").touch()
    dataset = tf.data.Dataset.from_generator(pytest.fail, tf.int64).batch(1)
    for keep in (tmp_path / "profile.pb", str(tmp_path / "profile.pb")):
        with pytest.raises(ValueError, match=r"^keep is '\S+pb'; allowed: a folder .*\(.* directory\)$"):
            recorder.record(dataset, FAST, keep=keep, progress=False)
    with pytest.raises(TypeError, match=r"^keep is True; allowed: a folder, or None"):
        recorder.record(tf.data.Dataset.range(9).batch(1), FAST, keep=True)


@pytest.mark.parametrize("how", ["the folder has gone", "the disk is full"])
def test_a_profile_that_cannot_be_kept_does_not_cost_the_trace(tf, tmp_path, monkeypatch, how):
    keep = tmp_path / "kept"

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device", str(keep))

    def numbers():
        for number in range(9):
            if how == "the folder has gone" and number == 6:
                shutil.rmtree(keep, ignore_errors=True)
                keep.touch()
            yield number

    if how == "the disk is full":
        monkeypatch.setattr(shutil, "copy", fail)
    dataset = tf.data.Dataset.from_generator(numbers, tf.int64).batch(1)
    with pytest.warns(UserWarning, match=r"^the file of the profiler is not kept: \S+ cannot be used: \w+"):
        trace = recorder.record(dataset, FAST, steps=4, keep=keep, progress=False)
    assert trace.run.steps == 4
    assert [path for path in keep.rglob("*") if path.name not in ("plugins", "profile")] == []


@pytest.mark.parametrize(
    "dataset", [[1, 2], np.zeros(3), range(9), None, "photos"], ids=["list", "array", "range", "None", "text"]
)
def test_only_a_dataset_can_be_recorded(dataset):
    with pytest.raises(TypeError, match=r"pipeline 'p' is a .*; allowed: a tf.data.Dataset"):
        recorder.record(dataset, FAST, name="p")


@pytest.mark.parametrize("accelerator", [None, 60, "V100", accelerators])
def test_only_an_accelerator_can_consume(tf, accelerator):
    with pytest.raises(TypeError, match=r"accelerator is .*; allowed: modelled"):
        recorder.record(tf.data.Dataset.range(9).batch(1), accelerator)


@pytest.mark.parametrize("variants", [{}, [1], None, {3: None}, {"": None}])
def test_variants_are_named_pipelines(variants):
    with pytest.raises(ValueError, match=r"variants is .*allowed: a dict of name to tf\.data\.Dataset"):
        measures.measure(variants, FAST)


def test_a_wrong_variant_is_named_before_anything_runs(tf):
    consumer = Counting()
    with pytest.raises(TypeError, match="pipeline 'second' is a list"):
        measures.measure({"first": tf.data.Dataset.range(9).batch(1), "second": [1]}, consumer)
    assert consumer.seen == []


@pytest.mark.parametrize("shape", [(0,), (0, 8, 8, 3)])
def test_a_batch_without_elements_is_refused_in_its_own_words(tf, shape):
    empty = tf.data.Dataset.range(9).map(lambda i: tf.zeros(shape))
    with pytest.raises(ValueError, match=r"'p' does not deliver batches: a batch has the shape 0.* holds no element"):
        recorder.record(empty, FAST, name="p", progress=False)


@pytest.mark.parametrize("profile", [True, False])
def test_a_modelled_step_that_ends_late_is_busy_for_no_longer_than_it_states(tf, monkeypatch, profile):
    """The consumer sleeps for a step, and wakes up late where other programs hold the cores."""
    model = accelerators.modelled(step_ms=5)
    monkeypatch.setattr(type(model), "step", lambda self, batch: time.sleep(0.02))
    found = measures.measure({"p": tf.data.Dataset.range(99).batch(3)}, model, steps=8, repeats=1, profile=profile)
    (figures,) = found["p"]
    assert figures.train_ms == pytest.approx(5, abs=0.01)
    assert figures.step_ms >= 7.25 / 8 * 20, "the window ends with the last step, as it states it"
    assert figures.busy <= 0.28


# -- in a terminal -------------------------------------------------------------------------


def test_the_bar_is_hidden_from_logs_and_closed_where_asked_for(tf, capfd):
    dataset = tf.data.Dataset.range(40).batch(1)
    before = set(threading.enumerate())
    recorder.record(dataset, FAST, steps=5)
    assert capfd.readouterr().err == ""
    recorder.record(dataset, FAST, steps=5, name="seen", progress=True)
    seen = capfd.readouterr().err
    assert "seen:" in seen
    assert "/5 " in seen
    assert seen.endswith("\r"), "the line is wiped when it is over"
    with pytest.raises(ValueError, match="ended after"):
        recorder.record(dataset, FAST, steps=5, warmup=50, progress=True)
    assert not [t for t in set(threading.enumerate()) - before if "TMonitor" in type(t).__name__]


def test_a_session_ends_with_its_block(tf, tmp_path):
    with driver.Session() as s:
        s.start()
        assert s.running
    assert not s.running
    with driver.Session() as s:
        s.start()
        with tf.profiler.experimental.Trace(xplane.WAIT_MARK, step_num=3):
            pass
        trace = s.stop()
    assert [(x.thread, x.name, x.step) for x in trace] == [("consumer", "wait for batch", 3)]
    assert Path(tempfile.gettempdir()).exists()


def test_a_recording_says_when_it_may_cost_throughput(tf, monkeypatch):
    """Without TensorFlow's own pool, large batches are slowed by being watched; the reader is told the remedy."""
    dataset = tf.data.Dataset.range(64).batch(8)
    assert "labkit.setup()" not in (recorder.record(dataset, FAST, steps=3).run.profiler.note or "")
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC")
    assert "labkit.setup()" in recorder.record(dataset, FAST, steps=3).run.profiler.note
