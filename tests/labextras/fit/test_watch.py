"""A training script that is watched: the same losses, and a trace of what its pipeline and its steps did."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import re
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import labextras.fit
import labkit
from labextras.fit.watcher import LOOK_S
from labextras.fit.window_of_steps import ASKED_BY_OTHERS, NOBODY_ASKED, stamps_of
from labextras.loaders import shared_spans
from labkit.recording.processor_clock import Sampler
from labkit.recording.tfdata import xplane
from labkit.recording.tfdata.driver import RecordingError
from labkit.timeline.heading import heading
from labkit.timeline.trace import THREAD_KINDS, VALIDATION, Span, Trace

BATCH = 8


@pytest.fixture(scope="module")
def tf():
    import tensorflow as tf

    return tf


@pytest.fixture(scope="module")
def keras(tf):
    import keras

    return keras


def data(tf, batches, wait_s=0.0):
    """Batches of photos of 8×8 that take `wait_s` each, asleep; the number of batches is not known beforehand."""

    def make(number):
        time.sleep(wait_s)
        return np.full((BATCH, 8, 8, 3), number % 7, np.float32)

    def load(number):
        images = tf.ensure_shape(tf.numpy_function(make, [number], tf.float32), [BATCH, 8, 8, 3])
        return images, tf.range(BATCH) % 4

    return tf.data.Dataset.range(batches).map(load)


def network(keras, **settings):
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(4)]
    model = keras.Sequential(layers, name="small")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **settings)
    return model


def with_a_step_of_its_own(tf, keras, counts=0, **settings):
    """Return a model whose train step keeps no loss, or one that `counts` steps, as Keras's own guide writes it.

    A step that trains two networks may count twice.
    """

    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.dense = keras.layers.Dense(4)

        def call(self, images):
            return self.dense(keras.ops.mean(images, (1, 2)))

        def train_step(self, batch):
            images, labels = batch
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=labels, y_pred=self(images, training=True))
            self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
            for metric in self.metrics:
                for _ in range(counts if metric.name == "loss" else 0):
                    metric.update_state(loss)
            return {"loss": loss}

    model = Own()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **settings)
    return model


def fit(model, dataset, *callbacks, **settings):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your input ran out of data|.*shuffle=True")
        return model.fit(dataset, verbose=0, callbacks=list(callbacks), **settings).history["loss"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("settings", [{}, {"steps_per_execution": 3}, {"jit_compile": True}], ids=str)
def test_the_losses_are_the_same_and_each_step_has_its_wait(tf, keras, settings):
    slow = labkit.plain(data(tf, 12, 0.02))
    plain = fit(network(keras, **settings), slow, epochs=2)
    watch = labextras.fit.Watch(steps=9, warmup=6)
    model = network(keras, **settings)
    assert fit(model, slow, watch, epochs=2) == plain
    trace = watch.trace
    waits, trains = (trace.where(trace.select(word, kind="consumer")) for word in ("wait", "train"))
    assert len(waits) == len(trains) == trace.run.steps == 9
    assert (waits.end_ns == trains.start_ns).all()
    assert (trains.end_ns[:-1] <= waits.start_ns[1:]).all()
    assert (trace.run.images, trace.run.batch_size, trace.run.noun) == (9 * BATCH, BATCH, "image")
    assert waits.duration_ns.sum() > trains.duration_ns.sum(), "each batch takes 20 ms, a step hardly two"
    assert labkit.Timeline(trace).stalls.cause == "prep"
    noted = "XLA has compiled into one" in str(labextras.fit.operations(trace))
    assert noted == bool(settings.get("jit_compile")), "what xprof does not list is said"
    assert "train" not in vars(model.train_function).get("__name__", ""), "the function of Keras is back"


@pytest.mark.long
def test_epochs_and_validation_are_what_they_are(tf, keras):
    watch = labextras.fit.Watch(steps=7, warmup=2)
    fit(network(keras), data(tf, 6), watch, epochs=2, validation_data=data(tf, 3, 0.05))
    trace, timeline = watch.trace, labkit.Timeline(watch.trace)
    script = trace.where(trace.select(kind="script"))
    assert [trace.names[i] for i in script.name.tolist()] == ["epoch 1", VALIDATION, "epoch 2"]
    assert trace.run.images == 7 * BATCH, "those of the validation are not among them"
    assert [lane.kind for lane in timeline.lanes[:3]] == ["accelerator", "wait", "script"]
    span = script.where(script.select("train"))
    start, end = int(span.start_ns[0]) - timeline.start_ns, int(span.end_ns[0]) - timeline.start_ns
    assert end - start >= 3 * 0.05e9
    busy = timeline.accelerator.busy
    assert any(a <= start and end <= b for a, b in zip(busy.start, busy.end, strict=True)), "it works in a validation"
    assert timeline.steps == 7
    took = timeline.validations.total_ns
    assert took >= end - start
    assert timeline.step_ms == pytest.approx((timeline.span_ns - took) / 1e6 / 7), "of no step is it a part"
    assert timeline.images_per_s == pytest.approx(7 * BATCH * 1e9 / (timeline.span_ns - took))
    assert trace.run.repeats[0].images_per_s == pytest.approx(timeline.images_per_s)
    assert "validation " in str(timeline)
    assert THREAD_KINDS.index("script") == 1


@pytest.mark.parametrize(
    ("each", "calls", "asks", "stamps"),
    [
        (0, [(10, 20), (30, 40)], [(5, 9), (22, 28)], [(5, 9, 20), (22, 28, 40)]),
        # over two datasets at once, each step waits for both
        (0, [(10, 20), (30, 40)], [(2, 5), (5, 9), (21, 24), (24, 28)], [(2, 9, 20), (21, 28, 40)]),
        # what is evaluated now and then is no wait for a batch
        (0, [(10, 20), (30, 40), (60, 70)], [(5, 9), (22, 28), (41, 45), (46, 50), (52, 58)],
         [(5, 9, 20), (22, 28, 40), (52, 58, 70)]),
        # a function over an iterator asks for each of its steps
        (0, [(10, 40)], [(11, 16), (20, 28)], [(11, 16, 20), (20, 28, 40)]),
        (1, [(10, 20), (30, 40)], [(5, 8), (11, 13), (32, 35)], [(11, 13, 20), (32, 35, 40)]),
        # the queue of a device asks in a thread of its own, at any time
        (1, [(10, 20), (30, 40)], [(11, 13), (14, 29, "queue"), (32, 35)], [(11, 13, 20), (32, 35, 40)]),
        (1, [(10, 20)], [], [(10, 10, 20)]),
        # of three steps each, the last call finds one batch, and the end
        (3, [(10, 40), (50, 70)], [(11, 12), (20, 21), (30, 31), (51, 52), (60, 61)],
         [(11, 12, 20), (20, 21, 30), (30, 31, 40), (51, 52, 70)]),
        (2, [(10, 40)], [(11, 12), (13, 14, "queue"), (20, 21)], [(10, 10, 40)]),
    ],
)  # fmt: skip
def test_the_wait_of_a_step_is_for_the_batch_that_was_asked_for_before_or_in_its_call(each, calls, asks, stamps):
    spans = [Span(*(thread or ["program"]), "root", "iterator", start, end - start, -1) for start, end, *thread in asks]
    roots = Trace.from_spans(spans, {"program": "pipeline", "queue": "pipeline"}, origin="measured")
    found, says = stamps_of(np.array(calls), roots, each, [(0, 0), (len(calls), 4 if each == 3 else 0)])
    assert found.tolist() == [list(row) for row in stamps]
    assert says == ([ASKED_BY_OTHERS] if each == 2 else [] if asks else [NOBODY_ASKED])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("batches", "each", "epochs", "asked", "watched"), [(20, 7, 1, 300, 20), (20, 6, 3, 300, 60), (20, 6, 3, 30, 26)]
)
def test_a_call_of_several_steps_may_end_with_the_data(tf, keras, batches, each, epochs, asked, watched):
    """The question that finds the end of the data is no step, and a window ends only with the call that fills it."""
    watch, model = labextras.fit.Watch(asked, warmup=0), network(keras, steps_per_execution=each)
    fit(model, data(tf, batches), watch, epochs=epochs, validation_data=data(tf, 2))
    run = watch.trace.run
    assert int(model.optimizer.iterations) == batches * epochs
    assert (run.steps, run.images, run.batch_size) == (watched, watched * BATCH, BATCH)
    note = run.profiler.note or ""
    assert (f"ended after {watched} of {asked} steps" in note) == (watched < asked)
    assert "events per image" not in note or int(note.split(" events per image")[0].split()[-1]) < 1_000


@pytest.mark.long
def test_steps_are_counted_where_the_optimizer_leaves_some_out(tf, keras):
    """It scales the loss, and takes no step where a gradient is not finite."""
    watch, model = labextras.fit.Watch(30, warmup=0), network(keras)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, steps_per_execution=5)

    def spoil(number, batch):
        return batch[0] / tf.cast(number != 6, tf.float32), batch[1]

    fit(model, data(tf, 10).enumerate().map(spoil), watch, epochs=4)
    run = watch.trace.run
    assert int(model.optimizer.iterations) < 40
    assert (run.steps, run.images, run.batch_size) == (30, 30 * BATCH, BATCH)
    fit(model, data(tf, 8).enumerate().map(spoil), watch, epochs=2)
    assert (watch.trace.run.steps, watch.trace.run.images) == (16, 16 * BATCH), "the last call finds three batches"


@pytest.mark.sample(2)
@pytest.mark.parametrize(("place", "each"), [("device", 1), ("mirrored", 4), ("mirrored", 1)])
def test_a_queue_of_a_device_asks_the_pipeline_without_being_a_step(tf, keras, place, each):
    dataset, watch = data(tf, 20, 0.01), labextras.fit.Watch(steps=8)
    if place == "device":
        model = network(keras)
        fit(model, dataset.apply(tf.data.experimental.prefetch_to_device("/CPU:0")), watch)
    else:
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            model = network(keras, steps_per_execution=each)
        fit(model, dataset, watch)
    trace = watch.trace
    waits, trains = (trace.where(trace.select(word, kind="consumer")) for word in ("wait", "train"))
    assert len(trains) == trace.run.steps == 8 / each
    assert len(waits) == (8 if each == 1 else 0), "a wait that was not timed is not drawn"
    assert (waits.end_ns <= trains.start_ns[: len(waits)]).all()
    assert (ASKED_BY_OTHERS in (trace.run.profiler.note or "")) == (each > 1), "of whom a wait is, nobody can tell"
    assert trace.run.images == (8 * BATCH if each == 1 else None)


@pytest.mark.long
def test_another_profiler_is_left_alone_and_the_training_goes_on(tf, keras, tmp_path):
    plain, watch = fit(network(keras), data(tf, 12)), labextras.fit.Watch(steps=3)
    with profiling(tf, tmp_path), pytest.warns(UserWarning, match="already running"):
        losses = fit(network(keras), data(tf, 12), watch)
    assert losses == plain
    assert list(tmp_path.rglob("*.xplane.pb")), "the other one has its profile"
    with pytest.raises(RecordingError, match="already running"):
        assert watch.trace


@contextlib.contextmanager
def profiling(tf, folder):
    """Run a profiler of one's own as soon as no other one runs."""
    deadline = time.monotonic() + 30
    while True:
        try:
            tf.profiler.experimental.start(str(folder))
            break
        except tf.errors.AlreadyExistsError:
            assert time.monotonic() < deadline, "the profiler was never given back"
            time.sleep(0.02)
    try:
        yield
    finally:
        tf.profiler.experimental.stop()


@pytest.mark.long
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("place", ["on_train_batch_end", "on_test_batch_begin", "on_epoch_end"])
def test_a_training_that_is_left_in_its_window_gives_the_profiler_back(tf, keras, tmp_path, monkeypatch, error, place):
    """No callback is called, and a program that keeps the error, as Jupyter does, keeps the frames of the training.

    Reading the stack of the thread that trains, while it goes on, has crashed the interpreter.
    """
    monkeypatch.setattr(sys, "_current_frames", lambda: pytest.fail("it reads the stack of another thread"))

    def leave(*_, **named):
        raise error

    model, watch, leaving = network(keras), labextras.fit.Watch(steps=50, warmup=0), keras.callbacks.Callback()
    setattr(leaving, place, leave)
    with pytest.raises(error) as kept:
        fit(model, data(tf, 6), watch, leaving, validation_data=data(tf, 2))
    with profiling(tf, tmp_path), pytest.raises(RecordingError, match="interrupted in the window"):
        assert watch.trace
    assert kept.traceback
    assert getattr(model.train_function, "__self__", None) is not watch, "the function of Keras is back"
    fit(model, data(tf, 6), watch)
    assert watch.trace.run.steps == 6


def test_an_interrupt_while_a_window_opens_gives_the_profiler_back(tf, keras, tmp_path, monkeypatch):
    """There is no window as yet that somebody could end."""

    def interrupted(sampler):
        start(sampler)
        raise KeyboardInterrupt

    start = Sampler.start
    monkeypatch.setattr(Sampler, "start", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        fit(network(keras), data(tf, 6), labextras.fit.Watch(steps=3, warmup=1))
    with profiling(tf, tmp_path):
        assert "labkit processor clock" not in {thread.name for thread in threading.enumerate()}
    assert kept.traceback


@pytest.mark.long
def test_the_training_after_one_that_was_left_is_none_of_the_watchs(tf, keras, tmp_path):
    def leave(*_, **named):
        raise ZeroDivisionError

    model, watch, leaving = network(keras), labextras.fit.Watch(steps=3, warmup=0), keras.callbacks.Callback()
    leaving.on_train_batch_end = leave
    with pytest.raises(ZeroDivisionError):
        fit(model, data(tf, 6), watch, leaving)
    fit(model, data(tf, 30, 0.01))
    with pytest.raises(RecordingError, match="interrupted in the window"):
        assert watch.trace
    with profiling(tf, tmp_path):
        fit(model, data(tf, 6))


def test_a_training_that_only_takes_its_time_in_whatever_thread_is_not_given_up(tf, keras):
    class Slow(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            time.sleep(6 * LOOK_S if batch == 3 else 0)

    model, watch = network(keras), labextras.fit.Watch(steps=4, warmup=1)
    thread = threading.Thread(target=fit, args=(model, data(tf, 8), watch, Slow()))
    thread.start()
    thread.join()
    assert watch.trace.run.steps == 4


@pytest.mark.parametrize(("states", "counts"), [(True, 0), (False, 0), (False, 1), (True, 2)])
def test_the_images_of_a_train_step_of_ones_own_are_those_of_a_batch_that_is_stated(tf, keras, states, counts):
    """A loss of one's own may count steps, which are no images."""
    model, watch = with_a_step_of_its_own(tf, keras, counts), labextras.fit.Watch(steps=4)
    fit(model, data(tf, 12).unbatch().batch(BATCH, drop_remainder=states), watch)
    assert watch.trace.run.steps == 4
    assert watch.trace.run.images == (4 * BATCH if states else None)
    assert "step time" in str(labkit.Timeline(watch.trace))


@pytest.mark.sample(2)
@pytest.mark.parametrize("place", ["on_epoch_end", "on_train_batch_end"])
@pytest.mark.parametrize(("does", "last"), [("evaluate", False), ("predict", True)])
def test_a_callback_that_evaluates_changes_no_count_and_is_a_validation(tf, keras, place, does, last):
    """It empties the loss that counts the images, fills it with its own, and tells no other callback."""
    model, watch, other = network(keras), labextras.fit.Watch(steps=8, warmup=2), keras.callbacks.Callback()
    setattr(other, place, lambda number, logs=None: getattr(model, does)(data(tf, 3, 0.01), verbose=0))
    fit(model, data(tf, 6).unbatch().batch(BATCH), *((other, watch) if last else (watch, other)), epochs=2)
    trace = watch.trace
    assert (trace.run.steps, trace.run.images) == (8, 8 * BATCH)
    spans = trace.where(trace.select(name=VALIDATION, kind="script"))
    assert len(spans) in {"on_epoch_end": (1,)}.get(place, (7, 8, 9))
    assert (spans.duration_ns[1:-1] >= 3 * 0.01e9).all()
    assert not {"evaluate", "predict"} & vars(model).keys(), "the functions of Keras are back"


def test_where_another_function_than_fit_calls_the_callbacks_nothing_is_recorded(tf, keras, tmp_path):
    watch, model = labextras.fit.Watch(warmup=0), network(keras)
    watch.set_model(model)
    watch.on_train_begin()
    watch.on_epoch_begin(0)
    with pytest.warns(UserWarning, match="calls this callback"):
        watch.on_train_batch_begin(0)
    with profiling(tf, tmp_path), pytest.raises(RecordingError, match="no model"):
        assert watch.trace


@pytest.mark.sample(1)
@pytest.mark.parametrize("batches", [4, 9], ids=["the dataset tells its end", "the end comes unforeseen"])
def test_what_the_last_step_hands_over_ends_with_it_where_the_training_is_short(tf, keras, batches):
    """TensorFlow on a CPU can be told to hand ops over and go on, as it does on a GPU."""
    done = []

    def work(number):
        time.sleep(0.05)
        done.append(time.time_ns())
        return number

    class Late(keras.Sequential):
        def make_train_function(self, force=False):
            super().make_train_function(force)
            train, calls = self.train_function, itertools.count()

            def late(batches):
                if next(calls) == 4:
                    raise StopIteration
                return (train(batches), tf.py_function(work, [1], tf.int32))[0]

            self.train_function = late

    model, watch = Late(network(keras).layers), labextras.fit.Watch(steps=50, warmup=1)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    tf.config.experimental.set_synchronous_execution(False)
    try:
        fit(model, data(tf, batches), watch)
    finally:
        tf.config.experimental.set_synchronous_execution(True)
    trains = watch.trace.where(watch.trace.select("train", kind="consumer"))
    assert len(trains) == 3
    assert int(trains.end_ns[-1]) >= done[3] - 1_000_000, "both clocks agree within a millisecond"


class Keeping:
    """Batches of 4 MB that the program keeps, 20 ms each; the last one is there when the `profile` has ended."""

    def __init__(self, tf, batches, profile):
        self.kept, self.batches, self.profile, self.ended = [], batches, profile, []
        self.dataset = data(tf, batches).map(lambda images, labels: (self.keep(tf, images), labels))

    def keep(self, tf, images):
        def load(pixels):
            time.sleep(0.02)
            self.kept.append(mmap.mmap(-1, 4_000_000))  # from the system: an array may get what the process had
            self.kept[-1].write(bytes(4_000_000))
            if len(self.kept) == self.batches:
                self.ended.append(self.profile.wait(10))
            return pixels

        return tf.ensure_shape(tf.numpy_function(load, [images], tf.float32), images.shape)


@pytest.fixture
def profile(monkeypatch):
    """Return an event: the profile has ended and is read."""
    ended, read = threading.Event(), xplane.read
    monkeypatch.setattr(xplane, "read", lambda file: (ended.set(), read(file))[1])
    return ended


#: So many events may take 13 MB.
FEW = 10_000
TAKEN = r"the process has taken 13 MB since the window began, for [\d,]+ events .*: the window ended"


@pytest.mark.long
def test_memory_that_a_validation_takes_ends_the_window(tf, keras, profile):
    """However many batches it has, the profiler holds no more than it may."""
    keeping, watch = Keeping(tf, 8, profile), labextras.fit.Watch(steps=12, warmup=2, max_events=FEW)
    fit(network(keras), data(tf, 8), watch, epochs=2, validation_data=keeping.dataset)
    trace = watch.trace
    assert (trace.run.steps, trace.run.images) == (6, 6 * BATCH), "of the first epoch"
    assert len(keeping.kept) == 2 * 8
    assert keeping.ended == [True], "before its last batch"
    assert re.match(TAKEN + " after 6 of 12 steps", trace.run.profiler.note)


def test_memory_that_is_taken_after_a_loop_ends_its_window(tf, profile):
    """What follows the loop, still under `watching`, is no step; a step that comes after all is none of the window."""
    keeping = Keeping(tf, 8, profile)
    with labextras.fit.watching(steps=12, warmup=2, max_events=FEW) as step:
        for images, _ in data(tf, 6):
            with step(images):
                tf.reduce_sum(images)
        assert len(list(keeping.dataset)) == 8
        for images, _ in data(tf, 2):
            with step(images):
                tf.reduce_sum(images)
    trace = step.trace
    assert (trace.run.steps, trace.run.images) == (4, 4 * BATCH)
    assert keeping.ended == [True]
    assert re.match(TAKEN, trace.run.profiler.note)


def test_a_training_on_rows_speaks_of_rows(tf, keras):
    rows = tf.data.Dataset.from_tensor_slices((np.zeros((64, 5), np.float32), np.zeros(64))).batch(4)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    watch = labextras.fit.Watch(steps=6, warmup=2)
    fit(model, rows, watch)
    with labextras.fit.watching(steps=6, warmup=2) as step:
        for values, _ in rows:
            with step(values):
                tf.reduce_sum(values)
    for trace in (watch.trace, step.trace):
        text = str(labkit.Timeline(trace))
        assert "24 rows" in text
        assert "image" not in text


def test_a_training_that_is_short_says_so(tf, keras):
    watch = labextras.fit.Watch(steps=50, warmup=4)
    with pytest.raises(RecordingError, match="no training has run"):
        assert watch.trace
    fit(network(keras), data(tf, 10), watch)
    assert watch.trace.run.steps == 6
    assert "the training ended after 6 of 50 steps" in watch.trace.run.profiler.note
    fit(network(keras), data(tf, 3), watch)
    with pytest.raises(RecordingError, match="before step 4"):
        assert watch.trace


@pytest.mark.long
def test_the_profile_is_kept_where_xprof_looks_for_it(tf, keras, tmp_path):
    fit(network(keras), data(tf, 10), labextras.fit.Watch(steps=4, keep=tmp_path))
    labkit.record(data(tf, 10), labkit.accelerators.modelled(step_ms=1), steps=4, keep=tmp_path, progress=False)
    files = sorted(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert len(files) == 2, "each in a folder of its own"
    assert len(list((tmp_path / "plugins" / "profile").iterdir())) == 2
    for file in files:
        assert file.read_bytes().count(xplane.STEP_MARK.encode()) >= 1, "the mark that makes a step of xprof's"
        assert xplane.read(file).select(name="Iterator::Root").sum() >= 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["several steps in a call", "a model within the model"])
def test_time_by_layer_is_that_of_the_train_steps_however_they_are_called(tf, keras, how):
    """Loops and branches of Keras, and a model within the model, stand before the name of a layer."""

    def watched(model):
        """Return calls and kinds of layers of the train step."""
        watch = labextras.fit.Watch(steps=8, warmup=8)
        fit(model, data(tf, 16).repeat(), watch, steps_per_epoch=12, epochs=2)
        rows = labextras.fit.operations(watch.trace, "name").rows
        return {row.name: row.calls for row in rows if row.where == "train step"}

    plain, layers = watched(network(keras)), {"conv2d", "dense"}
    if how == "several steps in a call":
        found = watched(network(keras, steps_per_execution=4))
    else:
        inner = keras.Sequential([network(keras), keras.layers.Reshape((4,))], name="encoder")
        outer = keras.Sequential([keras.layers.Input((8, 8, 3)), inner, keras.layers.Rescaling(2.0)])
        outer.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found = watched(outer)
        layers |= {"rescaling"}
    assert layers <= found.keys(), found.keys()
    assert not {"encoder", "small", "cond"} & found.keys(), found.keys()
    assert found["conv2d"] == plain["conv2d"], "of eight steps each"


def test_a_loop_of_ones_own_is_watched(tf):
    found = 0.0
    with labextras.fit.watching(steps=4, warmup=2) as step:
        for images, _ in labkit.plain(data(tf, 10, 0.02)):
            with step(images):
                found += float(tf.reduce_sum(images))
    trace = step.trace
    waits, trains = (trace.where(trace.select(word, kind="consumer")) for word in ("wait", "train"))
    assert len(waits) == len(trains) == 4
    assert (waits.end_ns == trains.start_ns).all()
    assert (waits.duration_ns[1:] >= 0.02e9).all(), "a batch takes 20 ms, all of them in next()"
    assert trace.run.images == 4 * BATCH


@pytest.mark.parametrize("every", [1, 3])
def test_a_validation_in_a_loop_of_ones_own_belongs_to_no_step(tf, every):
    relu = tf.function(tf.nn.relu)

    def validate():
        for images, _ in data(tf, 3, 0.03):
            relu(images)

    with labextras.fit.watching(steps=6, warmup=0) as step:
        for number, (images, _) in enumerate(data(tf, 8)):
            with step(images):
                tf.reduce_sum(images)
            if number % every == every - 1:
                with step.validation():
                    validate()
    trace = step.trace
    spans = trace.where(trace.select(name=VALIDATION, kind="script"))
    waits, trains = (trace.where(trace.select(word, kind="consumer")) for word in ("wait", "train"))
    assert len(spans) == 5 // every
    assert (spans.duration_ns >= 3 * 0.03e9).all()
    assert (waits.start_ns[every::every] >= spans.end_ns).all(), "what it asks for is no wait for a batch"
    assert (trains.end_ns[every - 1 : 5 : every] <= spans.start_ns).all()
    assert "Relu" not in {row.name for row in labextras.fit.operations(trace).rows if row.where == "train step"}


def test_a_loop_whose_waits_nobody_saw_says_so_and_names_no_cause(tf):
    batches, line = [np.zeros((BATCH, 8, 8, 3), np.float32)] * 9, "`for batch in watch.waits(loader):`"
    with labextras.fit.watching(steps=4, warmup=2) as watch:
        for images in batches:
            with watch(images):
                tf.reduce_sum(images)
    timeline = labkit.Timeline(watch.trace)
    text = str(timeline)
    assert (timeline.stalls.cause, timeline.stalls.shares.total(), timeline.headroom) == (None, 0, None)
    assert line in " ".join(text.split())
    assert line in heading(timeline), "the page shows it, too"
    assert "stall" not in text
    assert "gaps wait for" not in text
    assert not any("%" in str(cause) for cause in timeline.causes)
    with labextras.fit.watching(steps=4, warmup=2) as watch:
        for images in watch.waits(batches):
            with watch(images):
                tf.reduce_sum(images)
    assert "waits(loader)" not in str(labkit.Timeline(watch.trace))


def test_a_loop_that_ends_before_its_window_lets_go_of_its_loader():
    with labextras.fit.watching(warmup=50) as watch:
        for images in watch.waits(iter([np.zeros((BATCH, 8, 8, 3), np.float32)] * 3)):
            assert shared_spans.now.spans is not None
            with watch(images):
                pass
    assert shared_spans.now.spans is None


def loop(tf, step, batch=None):
    """Train on six batches, or say that it is on `batch`; return how many steps it took."""
    steps = 0
    for images, _ in data(tf, 6):
        with step(images if batch is None else batch):
            steps += 1
    return steps


@pytest.mark.parametrize("batch", [3, 0.5, {}, [[]]], ids=str)
def test_a_batch_that_nobody_can_count_stops_no_loop(tf, batch):
    with (
        labextras.fit.watching(steps=3, warmup=1) as step,
        pytest.warns(UserWarning, match="how many elements") as warned,
    ):
        assert loop(tf, step, batch) == 6
    assert len(warned) == 1
    assert (step.trace.run.steps, step.trace.run.images) == (3, None)


def test_a_loop_that_nothing_stands_around_is_not_recorded_and_goes_on(tf, tmp_path):
    step = labextras.fit.watching(steps=3, warmup=2)
    assert loop(tf, step) == 6
    with profiling(tf, tmp_path), pytest.raises(RecordingError, match="it stands around no loop"):
        assert step.trace


def test_a_loop_that_fails_ends_the_window(tf):
    step = labextras.fit.watching(warmup=0)

    def loop():
        with step:
            for images, _ in data(tf, 3):
                with step(images):
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    with pytest.raises(RecordingError, match="the loop failed"):
        assert step.trace


def spin(number):
    """Hold the interpreter for some milliseconds."""
    sum(i * i for i in range(60_000))
    return np.full((BATCH, 8, 8, 3), number % 7, np.float32), np.arange(BATCH) % 4


@pytest.mark.parametrize("kind", ["threads", "generator"])
def test_what_keras_itself_reads_is_seen_and_a_step_ends_with_its_work(keras, kind):
    """Where threads hold the interpreter when TensorFlow is done, the step waits, and trains no more."""

    class Spins(keras.utils.PyDataset):
        def __len__(self):
            return 24

        def __getitem__(self, number):
            return spin(number)

    def source():
        return Spins(workers=3) if kind == "threads" else (spin(number) for number in range(24))

    plain, watch = fit(network(keras), source()), labextras.fit.Watch(steps=10, warmup=4)
    assert fit(network(keras), source(), watch) == plain
    trace = watch.trace
    loader, trains = trace.run.loader, trace.where(trace.select("train", kind="consumer"))
    assert (loader.framework, loader.kind) == (("keras", "Spins") if kind == "threads" else ("python", "generator"))
    ops = trace.where(trace.select(kind="host"))
    assert np.isin(trains.end_ns, ops.end_ns).all(), "with the last op of TensorFlow"
    works = {trace.names[i] for i in trace.name[trace.select("map", kind="pipeline")].tolist()}
    assert ("Spins.__getitem__" if kind == "threads" else "next of generator") in works
    assert not {name for name in trace.names if name.startswith("Iterator::")}, "Keras's own pipeline is in no script"
    advice = labkit.Timeline(trace).stalls.advice
    assert not any(word in advice for word in ("interleave", "prefetch(", "num_parallel_calls", "threadpool"))


def test_a_loop_counts_other_programs(tf):
    with labextras.fit.watching(steps=4, warmup=1) as watch:
        for images, _ in data(tf, 8, 0.1):
            with watch(images):
                tf.reduce_sum(images)
    assert 0 <= watch.trace.run.host.others <= 1


@pytest.mark.parametrize(("wait_ms", "gain"), [(0, 1), (20, 2)])
def test_free_data_would_gain_what_the_waits_take(wait_ms, gain):
    with labextras.fit.watching(steps=8, warmup=1, profile=False) as watch:
        for images in watch.waits(np.zeros((BATCH, 2)) for _ in range(12) if time.sleep(wait_ms / 1e3) is None):
            with watch(images):
                time.sleep(0.02)
    found = labkit.Timeline(watch.trace).headroom
    assert found.low <= found.gain <= found.high
    assert found.gain <= gain * 1.5
    assert found.gain >= 1 + 0.5 * (gain - 1)


def test_keras_need_not_wait_for_it_after_a_batch(keras):
    assert labextras.fit.Watch.on_train_batch_end is keras.callbacks.Callback.on_train_batch_end
    assert labextras.fit.Watch.on_batch_end is keras.callbacks.Callback.on_batch_end


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"keep": __file__}, "keep is .*; allowed: a folder"),
    ],
)
def test_wrong_arguments_are_named(keras, wrong, names):
    for kind in (labextras.fit.Watch, labextras.fit.watching):
        with pytest.raises(ValueError, match=names):
            kind(**wrong)


def test_waits_and_parts_of_a_loop_are_timed_without_the_profiler(tf):
    """A loop over anything: each step waits 20 ms for its batch, and 10 of its 15 ms are the part."""

    def batches():
        for _ in range(8):
            time.sleep(0.08)
            yield np.zeros((BATCH, 8, 8, 3), np.float32)

    step = labextras.fit.watching(steps=4, warmup=2, profile=False)
    with step:
        for images in step.waits(batches()):
            with step(images):
                time.sleep(0.005)
                with step.part("all-reduce", "transfer"):
                    time.sleep(0.01)
    trace = step.trace
    waits, trains = (trace.where(trace.select(word, kind="consumer")) for word in ("wait", "train"))
    parts = trace.where(trace.select("transfer", kind="unit"))
    assert len(waits) == len(trains) == len(parts) == 4
    assert (waits.duration_ns[1:] >= 80e6).all(), "the window begins with the first step, after its wait"
    assert (parts.duration_ns >= 10e6).all()
    assert (trains.start_ns + 5e6 <= parts.start_ns).all()
    assert (parts.end_ns <= trains.end_ns).all()
    assert trace.run.images == 4 * BATCH
    assert trace.run.loader.framework == "python", "what gives the batches is followed all the same"
    assert {thread.kind for thread in trace.threads} == {"consumer", "unit", "pipeline"}
    assert "run.slowest-process" not in labkit.Timeline(trace).stalls.rules, "the waits are longer"


def test_what_a_part_is_spent_on_is_checked():
    step = labextras.fit.watching()
    with pytest.raises(ValueError, match=r"category is 'train'; allowed: .*transfer"), step.part("x", "train"):
        pass
    with pytest.raises(TypeError, match="profile is 1; allowed: True or False"):
        labextras.fit.watching(profile=1)
