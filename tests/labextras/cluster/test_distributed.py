"""Programs that run in several processes for real: what they learn, what is left of a killed one, and one clock."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from waiting import ended, until

import labextras.cluster
import labextras.fit
import labkit
from labextras.cluster.distributed import DistributedRun
from labextras.cluster.elements import ClusterError
from labkit.timeline.run import ProcessorTime
from labkit.timeline.trace import Span, Trace

BATCH, STEPS = 16, 12
ROWS = 64
IMAGES = np.random.default_rng(0).normal(size=(ROWS, 6, 6, 3)).astype("float32")
LABELS = np.arange(ROWS) % 5


@pytest.fixture(scope="module")
def several():
    with labextras.cluster.processes(2) as found:
        yield found


def files(folder):
    """Numbers of the images in four files, in their order."""
    import tensorflow as tf

    paths = [f"{folder}/{k}.tfrecord" for k in range(4)]
    for k, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as out:
            for number in range(k * ROWS // 4, (k + 1) * ROWS // 4):
                out.write(tf.io.serialize_tensor(tf.constant(number, tf.int64)).numpy())
    return paths


def learn(process, paths, sharding="DATA", wait_ms=0, save_to=None, die_at=None, watched=False):
    """Train a small network by hand; see notebook 14b."""
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    first = np.random.default_rng(1)
    with strategy.scope():
        weights = [tf.Variable(first.normal(0, 0.2, shape).astype("float32")) for shape in ((3, 3, 3, 8), (288, 5))]
        step = tf.Variable(0, dtype=tf.int64)

    def gradients_of(images, labels):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv2d(images, weights[0], 1, "SAME"))
            scores = tf.reshape(hidden, [-1, 288]) @ weights[1]
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)) / BATCH
        return [loss, *tape.gradient(loss, weights)]

    def in_halves(images, labels):
        halves = 2 // process.count
        pairs = zip(tf.split(images, halves), tf.split(labels, halves), strict=True)
        return [sum(same) for same in zip(*(gradients_of(*pair) for pair in pairs), strict=True)]

    def add_up(*values):
        return tf.distribute.get_replica_context().all_reduce("sum", [tf.identity(value) for value in values])

    def change(loss, *sums):
        for weight, gradient in zip(weights, sums, strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    def compiled(part):
        return tf.function(lambda *given: strategy.run(part, given), autograph=False)

    gradients, all_reduce, apply = map(compiled, (in_halves, add_up, change))

    # Functions with names, since TensorFlow converts this whole file to find a lambda in it, in each process.
    def number_of(record):
        return tf.io.parse_tensor(record, tf.int64)

    def with_image(number):
        return tf.gather(IMAGES, number), tf.gather(LABELS, number), number

    numbers = tf.data.TFRecordDataset(paths).map(number_of)
    if wait_ms and process.number == 1:
        numbers = numbers.map(lambda n: labkit.storage.delayed(n, wait_ms))
    data = numbers.map(with_image)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[sharding]
    data = data.batch(BATCH, drop_remainder=True).repeat().with_options(options)
    saved = tf.train.Checkpoint(weights=weights, step=step)
    if save_to:
        own = tf.train.CheckpointManager(saved, f"{save_to}/{process.number}", max_to_keep=2)
        saved.restore(tf.train.latest_checkpoint(f"{save_to}/0"))
    watch, seen = labextras.fit.watching(steps=4, warmup=4 if watched else 100, profile=False), []
    batches = watch.waits(strategy.experimental_distribute_dataset(data))
    for _ in range(step.numpy()):
        next(batches)
    with watch:
        while step < STEPS:
            images, labels, numbers = next(batches)
            with watch((images, labels)):
                values = gradients(images, labels)
                with watch.part("all-reduce", "transfer"):
                    values = all_reduce(*values)
                apply(*values)
            step.assign_add(1)
            seen += strategy.experimental_local_results(numbers)[0].numpy().tolist()
            if save_to and step.numpy() % 4 == 0:
                own.save()
            if process == (1, 2, 0) and step.numpy() == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    found = {"weights": [weight.numpy() for weight in weights], "seen": seen}
    return found | ({"trace": watch.trace} if watched else {})


def equal(run, other):
    return all(
        np.array_equal(a, b) for a, b in zip(run.results[0]["weights"], other.results[0]["weights"], strict=True)
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return files(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def alone(several, paths):
    return several.run(learn, processes=1, paths=paths)


@pytest.mark.long
@pytest.mark.parametrize(("sharding", "both", "same"), [("DATA", 0, True), ("FILE", 0, False), ("OFF", ROWS, False)])
def test_each_way_to_share_trains_as_it_says(several, paths, alone, sharding, both, same):
    run = several.run(learn, paths=paths, sharding=sharding)
    first, second = (set(result["seen"]) for result in run.results)
    assert len(first & second) == both
    assert len(first | second) == ROWS
    assert equal(alone, run) == same, "bit for bit"
    mine, others = (result["weights"] for result in run.results)
    assert all(map(np.array_equal, mine, others)), "all processes have the same weights"


@pytest.mark.long
def test_a_killed_process_is_named_and_the_survivor_says_what_it_missed(several, paths, tmp_path):
    died = r"^process 1 \(localhost:\d+\) died at .*, killed by signal 9; process 0 said: UnavailableError: "
    with pytest.raises(ClusterError, match=died) as found:
        several.run(learn, paths=paths, save_to=str(tmp_path), die_at=6)
    assert "(in learn, line" in str(found.value)
    assert "Detected at node" not in str(found.value)


@pytest.mark.long
def test_a_training_that_goes_on_from_a_checkpoint_ends_with_the_same_weights(several, paths, alone, tmp_path):
    run = several.run(learn, paths=paths, save_to=str(tmp_path), die_at=6, restarts=1)
    assert [death.name for death in run.deaths] == ["process 1"]
    assert len(run.results[0]["seen"]) == (STEPS - 4) * BATCH // 2, "it began again after step 4"
    assert equal(alone, run)


@pytest.mark.long
def test_both_processes_are_on_one_clock_and_the_all_reduce_waits_for_the_late_one(several, paths):
    run = several.run(learn, paths=paths, wait_ms=60, watched=True)
    traces = [result["trace"] for result in run.results]
    merged = run.trace
    waited = sum(span.name in ("batch of process 1", "step of process 1") for span in merged)
    assert len(merged) == sum(map(len, traces)) + waited
    assert waited == 4, "process 0 waits once in each step"
    processes = {thread.name.partition(" · ")[0] for thread in merged.threads}
    assert processes == {"process 0", "process 1"}
    start, end = merged.window_ns
    assert all(first <= start and end <= last for first, last in (trace.window_ns for trace in traces))
    timeline, first, second = (labkit.Timeline(trace) for trace in (merged, *traces))
    assert (timeline.steps, first.steps) == (4, 4)
    assert traces[0].run.images == traces[1].run.images == 4 * BATCH // 2
    assert 2 * BATCH < timeline.images <= 4 * BATCH, "those of both, while both were watched"
    lanes = {lane.name: lane for lane in timeline.lanes}
    first_lane, second_lane = lanes["process 0 · accelerator"], lanes["process 1 · accelerator"]
    assert first_lane is timeline.accelerator
    assert second_lane.kind == "stream"
    # Process 1 waits for its storage, and process 0 for process 1: neither accelerator is busy meanwhile.
    assert first_lane.share < 0.5
    assert second_lane.share < 0.5
    assert timeline.stalls.cause == "other process"
    assert timeline.stalls.blame == "batch of process 1"
    assert timeline.stalls.rules == ("run.late-process",)
    # What is left of the all-reduce is the way of the bytes. Alone, process 0 cannot know that it waited in there.
    assert lanes["process 0 · all-reduce"].kind == "unit"
    assert lanes["process 0 · all-reduce"].share < 0.3
    assert first.stalls.rules == ("run.slowest-process",)
    assert second.accelerator.share < 0.5
    # A sum ends when all are there, and everybody gets it at the same time.
    ends = [trace.end_ns[trace.select("transfer", kind="unit")] for trace in traces]
    starts = [trace.start_ns[trace.select("transfer", kind="unit")] for trace in traces]
    assert len(ends[0]) == len(ends[1]) == 4
    assert (np.minimum(*ends) >= np.maximum(*starts)).all(), "the clocks of the processes are one"


def clocked(first, last, cores, queued=5):
    """Return the trace of a process that keeps so many cores busy, sampled every 5 ms; milliseconds."""
    spans = [Span("consumer", "train step", "train", first * 1_000_000, last * 1_000_000, 0)]
    at = tuple(range(first * 1_000_000, last * 1_000_000 + 1, 5_000_000))
    clock = ProcessorTime(at, tuple(round(cores * (t - at[0])) for t in at), queued)
    trace = Trace.from_spans(spans, {"consumer": "consumer"}, origin="measured")
    return trace.with_run(window_ns=(first * 1_000_000, last * 1_000_000), processor=clock)


def test_the_processor_time_is_that_of_all_processes():
    run = DistributedRun([clocked(0, 100, 0.5), clocked(10, 120, 1.0)], [])
    clock = run.trace.run.processor
    assert (clock.at_ns[0], clock.at_ns[-1]) == (10_000_000, 100_000_000), "while both were sampled"
    assert np.diff(clock.cpu_ns) == pytest.approx(1.5 * np.diff(clock.at_ns))
    assert clock.queued_ns == 10
    lacking = clocked(10, 120, 1.0).with_run(processor=None)
    assert DistributedRun([clocked(0, 100, 0.5), lacking], []).trace.run.processor is None


def mine():
    """The process numbers of all that this process has started."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def chatty(process, word):
    print(word, "from", process.number)
    return process.number, process.count, process.attempt


def test_what_processes_print_and_return_comes_back_in_their_order(several, capsys):
    run = several.run(chatty, word="hello")
    assert run.results == [(0, 2, 0), (1, 2, 0)]
    assert capsys.readouterr().out.splitlines() == ["process 0: hello from 0", "process 1: hello from 1"]
    assert several.run(chatty, processes=1, word="hello").results == [(0, 1, 0)]
    with pytest.raises(ClusterError, match="process 0 returned no trace"):
        run.trace  # noqa: B018


def speaks(process, ends):
    print("printed")
    print("warned", file=sys.stderr)
    os.system("echo said by a shell")
    ends(3)


def crash(_):
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    ("ends", "how"), [(os._exit, "exit status 3"), (crash, "killed by signal 11"), (len, "said: "), (str, "")]
)
def test_what_a_process_printed_is_shown_however_it_ends(several, capsys, ends, how):
    with pytest.raises(ClusterError, match=how) if how else contextlib.nullcontext():
        several.run(speaks, processes=1, ends=ends)
    died = ends not in (len, str)  # `len` raises, and says so; warnings of TensorFlow would hide what it says
    expected = ["process 0: printed", "process 0: said by a shell", *["process 0: warned"] * died]
    assert capsys.readouterr().out.splitlines() == expected


def test_a_program_works_in_the_folder_of_the_notebook_and_finds_the_modules_beside_it(several, tmp_path, monkeypatch):
    (tmp_path / "a_module_beside.py").write_text("word = 'found'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")

    def look(process):
        import a_module_beside

        return os.getcwd(), a_module_beside.word

    assert several.run(look, processes=1).results == [(str(tmp_path), "found")]


def meets(process, folder, slowly):
    open(f"{folder}/{process.number}", "w").close()
    time.sleep(1000 if slowly else 0)


def leaves_a_child(process, ends):
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    print(child)
    ends(0)


@pytest.mark.parametrize("ends", [abs, os._exit])
def test_a_process_that_a_program_has_started_ends_with_it(several, capsys, ends):
    with contextlib.suppress(ClusterError):
        several.run(leaves_a_child, processes=1, ends=ends)
    child = int(capsys.readouterr().out.removeprefix("process 0: "))
    until(lambda: ended(child), "the child to end")


NOTEBOOK = """
class Found:
    pass
def finds(process):
    return Found(), lambda: process.number
"""


def test_what_the_notebook_defines_comes_back_as_what_it_is(several, monkeypatch):
    notebook = vars(sys.modules["__main__"])
    for name in ("Found", "finds"):
        monkeypatch.setitem(notebook, name, None)
    exec(NOTEBOOK, notebook)
    (found, function), _ = several.run(notebook["finds"]).results
    assert isinstance(found, notebook["Found"])
    assert function() == 0


def only_there(process):
    module = sys.modules["a_module_of_mine"] = type(sys)("a_module_of_mine")
    exec("class Own: pass", vars(module))
    return module.Own()


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("program", "settings", "sentence"),
    [
        (lambda process: LOCK, {}, r"<lambda>, with its arguments and what it uses, cannot be sent to another .*lock"),
        (chatty, {"word": LOCK}, r"^chatty, with its arguments and what it uses, cannot be .*: make them there$"),
        (lambda process: {"bad": threading.Lock()}, {}, r"^process 0 said: what it returned cannot be sent to .*lock"),
        (only_there, {}, r"^what process 0 returned cannot be read here: ModuleNotFoundError: .*'a_module_of_mine'$"),
    ],
)
def test_what_cannot_be_sent_is_told(several, program, settings, sentence):
    with pytest.raises(ClusterError, match=sentence):
        several.run(program, processes=1, **settings)


def fails(process):
    if process.number:
        raise KeyError("nothing here")


def waits_for_ever(process):
    if process.number:
        time.sleep(1000)


def leaves(process):
    sys.exit(3)


def dies_again(process):
    if process.number:
        os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (fails, r"^process 1 said: KeyError: 'nothing here' \(in fails, line 3\)$"),
        (waits_for_ever, r"^process 1 had not ended 0\.5 s later, and was ended$"),
        (leaves, r"process 0 said: SystemExit: 3 \(in leaves, line"),
        (dies_again, r"^process 1 \(.*\) died at .*, killed by signal 11$"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_program_that_fails_is_told_in_one_sentence(several, program, sentence):
    line = program.__code__.co_firstlineno
    sentence = re.sub(r"line (\d)", lambda found: f"line {line + int(found[1]) - 1}", sentence)
    before = mine()
    with pytest.raises(ClusterError, match=sentence):
        several.run(program, timeout_s=0.5 if program is waits_for_ever else 60)
    assert several.run(chatty, word="x").results, "the next program runs"
    assert mine() == before, "only the process that is forked is left"


def both_wait(process):
    time.sleep(1000)


@pytest.mark.sample(1)
@pytest.mark.parametrize("when", [0.003, 1, 2])
def test_the_stop_button_ends_the_programs(several, when):
    """So many of them run already, or so many seconds have passed: starting is a dialogue that must not be cut off."""
    before = mine()

    def stop_when_they_run():
        if isinstance(when, float):
            time.sleep(when)
        while isinstance(when, int) and len(mine() - before) < when:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    def run():
        threading.Thread(target=stop_when_they_run, daemon=True).start()
        several.run(both_wait)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert mine() == before
    assert several.run(chatty, word="x").results, "the next program runs"


def test_the_stop_button_ends_the_programs_whichever_thread_takes_its_signal(several, tmp_path):
    """The system gives it to any thread that does not block it."""
    asleep, before = threading.Event(), mine()
    other = threading.Thread(target=asleep.wait)
    other.start()

    def stop():
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        signal.pthread_kill(other.ident, signal.SIGINT)

    threading.Thread(target=stop).start()
    late = threading.Timer(60, os.kill, (os.getpid(), signal.SIGINT))  # so that this test has an end, whatever happens
    late.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            several.run(meets, folder=str(tmp_path), slowly=True)
        assert late.is_alive(), "another signal ended it"
    finally:
        late.cancel()
        asleep.set()
    assert mine() == before


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"processes": 3}, ValueError, r"processes is 3; allowed: a whole number from 1 to 2"),
        ({"restarts": -1}, ValueError, r"restarts is -1; allowed"),
        ({"timeout_s": 0}, ValueError, r"timeout_s is 0; allowed"),
        ({"program": 5}, TypeError, r"program is 5; allowed: a function"),
        ({"wort": "?"}, ClusterError, r"process 0 said: TypeError: chatty\(\) got an unexpected keyword argument"),
    ],
)
def test_bad_arguments_get_one_sentence(several, arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        several.run(**{"program": chatty} | arguments)


def test_how_many_processes_there_may_be_is_said():
    for count in (0, 17, True):
        with pytest.raises(ValueError, match=f"count is {count}; allowed: a whole number from 1 to 16"):
            labextras.cluster.processes(count)


def test_a_trace_of_one_process_keeps_its_causes(several):
    trace = several.run(recorded, processes=1).trace
    assert isinstance(trace, Trace)
    assert labkit.Timeline(trace).stalls.cause == "fetch"
    assert labkit.Timeline(trace).lanes[0].name == "process 0 · accelerator"


def recorded(process):
    import tensorflow as tf

    data = tf.data.Dataset.range(1000).map(lambda n: labkit.storage.delayed(n, 4)).batch(4)
    return labkit.recorder.record(data, labkit.accelerators.modelled(step_ms=5), steps=5)
