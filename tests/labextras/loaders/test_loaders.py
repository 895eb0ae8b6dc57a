"""Loaders that need nothing but Python: what is seen of them, in which process, and what is left behind."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import itertools
import multiprocessing
import multiprocessing.pool
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import photos_on_disk as disk
import PIL.Image
import PIL.ImageFile
import psutil
import pytest
from crowd import starved
from waiting import ended, until

import labextras.loaders
import labkit
from labextras.loaders import hanging_loader, loader_facts, session
from labextras.loaders import known_callables as known
from labkit.recording.processor_clock import scheduled
from labkit.recording.recorder import RecordingError
from labkit.timeline.run import LoaderFacts

STEP = labkit.accelerators.modelled(step_ms=1)


@pytest.fixture(scope="module")
def paths(album):
    return [str(path) for path in album.paths][:96]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Other tests record at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def state():
    """What a recording could leave changed."""
    wrapped = (
        builtins.open, io.open, PIL.Image.open, PIL.ImageFile.ImageFile.load, np.stack, np.load,
        multiprocessing.queues.Queue.get, multiprocessing.queues.Queue.put, multiprocessing.queues.SimpleQueue.get,
        multiprocessing.process.BaseProcess.start, threading.Condition.wait, multiprocessing.pool.ThreadPool.imap,
        multiprocessing.reduction.ForkingPickler.__dict__["dumps"], ThreadPoolExecutor.submit,
        queue.SimpleQueue,
    )  # fmt: skip
    files = {path.name for path in Path(tempfile.gettempdir()).glob("labkit-loader-*")}
    children = [child for child in psutil.Process().children() if not ended(child)]
    return wrapped, files, list(sys.meta_path), {one for one in children if "resource_tracker" not in command(one)}


def command(process):
    """The command line of a process; nothing of one that ends meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def lanes(trace):
    return {lane.name: lane for lane in labkit.Timeline(trace).lanes}


def batches(*them):
    yield from them


def work_in(trace, what):
    return {t.thread for t in trace if t.name == what}


@pytest.mark.long
@pytest.mark.parametrize("pool", [None, *disk.POOLS])
def test_work_is_seen_in_whatever_thread_or_process_does_it_and_nothing_is_left(paths, pool):
    before = state()
    trace = labkit.record(disk.Batches(paths * 3, pool=pool), STEP, steps=8)
    assert state() == before
    assert trace.run.steps == 8
    assert trace.run.images == 8 * disk.BATCH
    decoded = work_in(trace, "PIL decode")
    if pool is None:
        assert decoded == {"in the consumer's thread"}
    elif "thread" in pool:
        assert all(name.startswith("thread ") for name in decoded)
    else:
        assert decoded <= {"worker 0", "worker 1"}
        assert decoded
    # The first batch of the window may have been ready when it opened.
    count = sum(span.name == "PIL decode" for span in trace)
    assert count >= 7 * disk.BATCH, pool
    assert trace.run.op_times["PIL decode"].computed_ns > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", ["apply_async", "map_async", "imap", "imap_unordered"])
def test_a_pool_of_threads_takes_its_function_by_its_name(paths, order):
    def named():
        with multiprocessing.pool.ThreadPool(2) as pool:
            for i in range(0, len(paths), 8):
                if order == "apply_async":
                    yield np.stack([pool.apply_async(func=disk.load, args=(path,)).get() for path in paths[i : i + 8]])
                else:
                    made = getattr(pool, order)(func=disk.load, iterable=paths[i : i + 8])
                    yield np.stack(made.get() if order == "map_async" else list(made))

    trace = labkit.record(named(), STEP, steps=4)
    assert {span.category for span in trace if span.name == "load"} == {"map"}


@pytest.mark.long
def test_threads_of_pools_that_follow_each_other_share_their_lanes(paths):
    """A pool for each batch works as long as one that lives on: what keeps up must not depend on their names."""

    class PoolEach:
        def __iter__(self):
            while True:
                with ThreadPoolExecutor(2) as pool:
                    yield np.stack(list(pool.map(disk.load, paths[:8])))

    trace = labkit.record(PoolEach(), STEP, steps=12)
    decoded = work_in(trace, "PIL decode")
    assert 1 <= len(decoded) <= 2, decoded
    assert all(name.startswith("thread ThreadPoolExecutor-") for name in decoded)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no"), SystemExit()], ids=repr)
def test_what_was_wrapped_is_undone_however_a_recording_ends(paths, error):
    def ends():
        yield from itertools.islice(disk.Batches(paths), 3)
        raise error

    before = state()
    with pytest.raises(RecordingError if isinstance(error, Exception) else type(error)):
        labkit.record(ends(), STEP, steps=8, warmup=1)
    assert state() == before


def test_a_module_that_is_imported_in_the_middle_is_known_and_has_the_originals_afterwards(tmp_path, monkeypatch):
    (tmp_path / "late_reader.py").write_text(
        "from numpy import stack\ndef shrink(image):\n    return image[::2, ::2]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    labextras.loaders.known("late_reader.shrink", category="resize")

    def batches():
        while True:
            import late_reader

            yield late_reader.stack([late_reader.shrink(np.zeros((8, 8, 3), np.uint8))] * 4)

    trace = labkit.record(batches(), STEP, steps=3)
    assert {s.category for s in trace if s.name == "late_reader.shrink"} == {"resize"}
    assert any(span.name == "numpy.stack" for span in trace)
    assert sys.modules.pop("late_reader").stack is np.stack
    pickle.dumps(np.stack)


class Produces:
    """Two tasks of a pool, which end with the recording, make the batches."""

    def __init__(self, work):
        self.work, self.over = work, False

    def __iter__(self):
        ready, pool = queue.Queue(4), ThreadPoolExecutor(2)
        for _ in range(2):
            pool.submit(self.produce, ready)
        try:
            while True:
                yield ready.get()
        finally:
            self.over = True

    def produce(self, ready):
        while not self.over:
            batch = np.stack([self.work() for _ in range(8)])
            with contextlib.suppress(queue.Full):
                ready.put(batch, timeout=0.1)


def computes_pixels():
    return np.full((8, 8, 3), sum(k * k for k in range(10_000)) % 255, np.uint8)


def waits_for_pixels():
    time.sleep(0.002)
    return np.zeros((8, 8, 3), np.uint8)


@pytest.mark.long
@pytest.mark.parametrize("counts", [True, False])
def test_a_task_that_never_ends_takes_what_its_thread_computed(counts, monkeypatch):
    if not counts:  # as on systems that do not tell the time of a thread
        monkeypatch.setattr(session, "scheduled", lambda processes: {})
    shares = []
    for work in (waits_for_pixels, computes_pixels):
        times = labkit.record(Produces(work), STEP, steps=12).run.op_times
        shares += [one.computed_ns / one.open_ns for name, one in times.items() if name == "Produces.produce"]
    if not (counts and scheduled([os.getpid()])):
        assert not shares, "nobody knows whether it computes or waits"
    else:
        assert shares[1] > 4 * shares[0]


def test_what_waits_is_told_from_what_computes_by_the_time_of_the_processor(tmp_path, monkeypatch):
    """Functions take turns, and one waits in every fourth call; 2 ms of a core, however long a busy machine takes."""
    fourth = "time.sleep(0.006) if number % 4 == 1 else spin()"
    bodies = {"waits": "time.sleep(0.002)", "works": "spin()", "both": fourth}
    spin = "def spin():\n    end = time.thread_time() + 0.002\n    while time.thread_time() < end:\n        pass\n"
    code = [spin] + [f"def {name}(number):\n    {body}\n" for name, body in bodies.items()]
    turns = "".join(f"    {name}(number)\n" for name in bodies)
    (tmp_path / "in_turns.py").write_text("import time\n" + "".join(code) + f"def all_of_them(number):\n{turns}")
    monkeypatch.syspath_prepend(tmp_path)
    import in_turns

    for name in (*bodies, "all_of_them"):
        labextras.loaders.known(f"in_turns.{name}")
    calls = 8 * 20

    def batches():
        for number in itertools.count():
            in_turns.all_of_them(number)
            if number % 20 == 19:
                yield np.zeros((4, 8, 8, 3), np.uint8)

    times = labkit.record(batches(), STEP, steps=8).run.op_times
    computed = {name: times[f"in_turns.{name}"].computed_ns / calls / 1e6 for name in (*bodies, "all_of_them")}
    assert computed["works"] == pytest.approx(2, rel=0.25), "of a batch that the window cuts, some calls are missing"
    assert computed["both"] == pytest.approx(1.5, rel=0.25), "in every fourth call it waits"
    assert computed["waits"] < 0.3 * computed["works"]
    assert computed["all_of_them"] < 0.3 * computed["works"], "what it calls is not its own"
    sys.modules.pop("in_turns")


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", ["not at all", "open", "read_bytes", "Path.open"])
def test_the_files_that_a_loader_reads_are_seen_and_no_others(tmp_path, how):
    """labkit itself asks the system about processes meanwhile."""
    path = tmp_path / "pixels"
    path.write_bytes(bytes(4 * 8 * 8 * 3))

    def read():
        if how == "read_bytes":
            return path.read_bytes()
        with path.open("rb") if how == "Path.open" else open(path, "rb") as file:
            return file.read()

    def batches():
        while True:
            data = bytes(4 * 8 * 8 * 3) if how == "not at all" else read()
            yield np.frombuffer(data, np.uint8).reshape(4, 8, 8, 3)

    opened = [span for span in labkit.record(batches(), STEP, steps=10) if span.name == "open file"]
    assert len(opened) == 0 if how == "not at all" else 9 <= len(opened) <= 11


@pytest.mark.sample(2)
@pytest.mark.parametrize("pool", [None, "thread executor", "process executor", "spawn pool"])
def test_a_function_that_a_loader_keeps_is_known_and_is_itself_again_afterwards(paths, pool):
    """In an attribute, as a default value, in a partial: code that kept it before calls the same object."""
    labextras.loaders.known("photos_on_disk.scaled", category="resize")
    code, kept = disk.scaled.__code__, functools.partial(disk.scaled, size=24)
    trace = labkit.record(disk.Batches(paths, kept, pool=pool), STEP, steps=3)
    assert {s.category for s in trace if s.name == "photos_on_disk.scaled"} == {"resize"}
    assert disk.scaled.__code__ is code
    assert not vars(disk.scaled)
    assert kept(paths[0]).shape == (24, 24, 3)


STAGES = """
import functools
import time

def spin():
    sum(range(30_000))

def doubled(source):
    for one in source:
        spin()
        sent = yield one * 2
        assert sent is None
    return "done"

async def fetched(number):
    return number

class Reader:
    def numbers(self):
        for number in range(1_000_000):
            spin()
            yield number

def made(number):
    def inner():
        spin()
        yield number + number
    return inner

closure = made(3)
size = 3
"""


@pytest.fixture
def stages(tmp_path, monkeypatch):
    (tmp_path / "own_stages.py").write_text(STAGES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(known, "OWN", [])
    import own_stages

    yield own_stages
    sys.modules.pop("own_stages")


@pytest.mark.long
def test_the_steps_of_generators_are_seen(stages):
    for name in ("doubled", "Reader.numbers", "closure"):
        labextras.loaders.known(f"own_stages.{name}", category="decode")
    kept, results = stages.doubled, set()

    def ends():
        results.add((yield from kept([])))

    def batches():
        for _ in stages.doubled(stages.Reader().numbers()):
            results.update(stages.closure())
            list(ends())
            yield np.zeros((4, 8, 8, 3), np.uint8)

    before = kept.__code__, vars(stages.Reader)["numbers"], stages.closure
    trace = labkit.record(batches(), STEP, steps=6)
    assert (kept.__code__, vars(stages.Reader)["numbers"], stages.closure) == before
    assert results == {"done", 6}
    for name in ("doubled", "Reader.numbers", "closure"):
        assert 5 <= sum(span.name == f"own_stages.{name}" for span in trace) <= 30, "a span for each step"
    assert {span.category for span in trace if span.name.startswith("own_stages")} == {"decode"}
    assert "shows nothing" not in (trace.run.profiler.note or "")


def test_a_name_that_shows_nothing_is_said_to(stages):
    names = {"Reader": "it is a class", "fetched": "it is asynchronous", "size": "it is a int"}
    for name in (*names, "spni"):
        labextras.loaders.known(f"own_stages.{name}")
    note = labkit.record(batches(*[np.zeros((4, 8))] * 9), STEP, steps=3).run.profiler.note
    for name, says in {**names, "spni": "it is nothing that this process imported"}.items():
        assert f"loaders.known('own_stages.{name}') shows nothing: {says}" in note


@pytest.mark.parametrize("name", ["load", "a b.c", 3, ".load"])
def test_what_is_no_name_or_no_category_of_a_function_is_refused(name):
    with pytest.raises(ValueError, match="name is"):
        labextras.loaders.known(name)
    with pytest.raises(ValueError, match="category is 'train'"):
        labextras.loaders.known("photos_on_disk.load", category="train")


def test_tf_data_inside_a_loader_is_named_as_what_is_waited_for():
    import tensorflow as tf

    dataset = tf.data.Dataset.from_generator(rests, output_signature=tf.TensorSpec((8, 4), tf.uint8))
    trace = labkit.record((batch for batch in dataset.as_numpy_iterator()), STEP, steps=5)
    assert work_in(trace, "wait for tf.data") == {"in the consumer's thread"}
    blame = labkit.Timeline(trace).stalls.blame
    assert blame == "wait for tf.data" or (starved(trace) and blame is None)


def rests():
    while True:
        time.sleep(0.02)
        yield np.zeros((8, 4), np.uint8)


@pytest.mark.long
def test_a_loader_begins_again_as_in_a_training_loop_and_a_generator_ends(paths):
    loader = disk.Batches(paths[:24])  # three batches
    trace = labkit.record(loader, STEP, steps=7)
    assert trace.run.steps == 7
    assert sum(s.name == "begin an epoch" for s in trace) == 2
    trace = labkit.record(iter(loader), STEP, steps=7, warmup=1)
    assert trace.run.steps == 2
    assert "ended after 2 of 7 steps" in trace.run.profiler.note
    assert labkit.record(loader, STEP, steps=None, warmup=1).run.steps == 3, "it warms up in an epoch of its own"


class Resets:
    """Three batches in each epoch, as loaders count that are their own iterator."""

    def __iter__(self):
        self.number = 0
        return self

    def __next__(self):
        if self.number == 3:
            raise StopIteration
        self.number += 1
        return np.zeros((8, 4), np.uint8), np.arange(8)


def test_a_loader_that_is_its_own_iterator_begins_again_where_its_iter_does_something():
    trace = labkit.record(Resets(), STEP, steps=7)
    assert trace.run.steps == 7
    assert trace.run.profiler.note is None or "ended" not in trace.run.profiler.note


class Ahead:
    """A thread makes the next batches; an epoch that has ended is over for good."""

    def __init__(self, batches, last=None):
        self._iterator, self.queue, self.last = batches, queue.Queue(2), last
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for batch in self._iterator:
            self.queue.put(batch)
        self.queue.put(self.last)

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.queue.get()
        if batch is self.last:
            raise StopIteration
        return batch


def test_an_iterator_that_has_ended_is_not_asked_again():
    trace = labkit.record(Ahead(batches(*[np.zeros((4, 8))] * 5)), STEP, steps=9, warmup=1)
    assert "ended after 4 of 9 steps" in trace.run.profiler.note


class Stream:
    """It goes on where it was."""

    def __init__(self):
        self.batches = (np.full((4, 8), number) for number in itertools.count())

    def __iter__(self):
        return self.batches


class Around(Stream):
    def __init__(self):
        self.stream = Stream()

    def __iter__(self):
        return iter(self.stream)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", [Stream, Around])
def test_an_iterator_that_somebody_keeps_goes_on_after_a_recording(kind):
    stream = kind()
    labkit.record(stream, STEP, steps=3, warmup=2)
    assert next(iter(stream))[0, 0] == 5
    labkit.record(stream, STEP, steps=3, warmup=2)
    assert next(iter(stream))[0, 0] == 11


class Made:
    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return self.make()


def bad_manners():
    """Batches of somebody who goes on whatever happens."""
    try:
        while True:
            yield np.zeros((4, 8))
    except BaseException:
        yield np.zeros((4, 8))


@pytest.mark.parametrize("make", [lambda: Ahead(rests()), bad_manners], ids=["a generator that runs", "bad manners"])
def test_an_iterator_that_cannot_be_closed_costs_no_trace(make):
    assert labkit.record(Made(make), STEP, steps=3).run.steps == 3


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("loader", "error", "says"),
    [
        (lambda: 3, TypeError, "the pipeline is a int; allowed: a tf.data.Dataset, or anything else"),
        (lambda: "photos", TypeError, "is a str"),
        (lambda: batches(), ValueError, "is empty"),
        (lambda: [np.zeros((4, 8))] * 9, TypeError, "is a list"),
        (lambda: batches(1, 2, 3), ValueError, "does not deliver batches"),
        (lambda: batches((np.zeros((64, 64, 3), np.uint8), 1)), ValueError, "one image of 64×64×3 with its label"),
        (lambda: batches(np.zeros((4, 8))), ValueError, "ended after 1 batch"),
        (
            lambda: batches(*[np.zeros((4, 8))] * 4, None),
            RecordingError,
            "ValueError: it gave None in place of its batch",
        ),
    ],
)
def test_what_is_no_loader_of_batches_gets_one_sentence(loader, error, says):
    before = state()
    with pytest.raises(error, match=says):
        labkit.record(loader(), STEP, steps=4)
    assert state() == before


@pytest.mark.parametrize("made", [iter, itertools.chain], ids=["iter of a list", "itertools"])
def test_an_iterator_is_a_loader(made):
    assert labkit.record(made([(np.zeros((4, 8)), np.zeros(4))] * 9), STEP, steps=4).run.steps == 4


@pytest.mark.parametrize(("module", "hidden"), [("loky.own_worker", 1), ("labkit.own_worker", 0)])
def test_a_module_that_runs_beside_may_be_a_worker_of_joblib(module, hidden, tmp_path):
    """Its pool lives on from one recording to the next, and begins its workers as modules; so does a board."""
    package = tmp_path / module.partition(".")[0]
    package.mkdir()
    (package / "own_worker.py").write_text("print(flush=True)\nwhile True:\n    pass\n")
    command = [sys.executable, "-u", "-m", module, "--pipe", "14"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as child:
        child.stdout.readline()
        # The steps are long, so that the child gets some time of a core within them.
        trace = labkit.record(batches(*[np.zeros((4, 8))] * 9), labkit.accelerators.modelled(step_ms=50), steps=4)
        child.kill()
    assert trace.run.loader.hidden == hidden
    says = "Processes of this program that began before the recording: 1. What they do cannot be seen"
    assert (says in (trace.run.profiler.note or "")) == bool(hidden)


def connect():
    time.sleep(0.5)


def one_batch(number):
    return np.full((4, 8), number)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["multiprocessing", "concurrent.futures"])
def test_what_a_worker_of_a_pool_does_before_its_first_task_is_its_start(kind):
    context = multiprocessing.get_context("fork")

    class PoolForEachEpoch:
        def __iter__(self):
            if kind == "multiprocessing":
                with context.Pool(2, initializer=connect) as pool:
                    yield from pool.imap(one_batch, range(4))
            else:
                with ProcessPoolExecutor(2, mp_context=context, initializer=connect) as pool:
                    yield from pool.map(one_batch, range(4))

    trace = labkit.record(PoolForEachEpoch(), STEP, steps=4, warmup=1)
    assert [s for s in trace if s.name == "a worker process starts" and s.duration_ns >= 500_000_000]
    assert labkit.Timeline(trace).stalls.cause == "start"


def send(made, connection):
    """Take 30 ms for each batch, and compute for five of them."""
    while True:
        threading.Event().wait(0.025)
        until = time.thread_time() + 0.005
        while time.thread_time() < until:
            pass
        connection.send(made)


@pytest.mark.long
def test_what_hidden_processes_do_is_nobodys_work_and_the_advice_says_so():
    """The consumer seems to receive bytes for most of the time; it waits for somebody whose work is not seen."""
    receives, sends = multiprocessing.Pipe(duplex=False)
    made = np.zeros((4, 4096))  # more than a pipe holds, or batches wait in it when a busy machine begins at last
    worker = multiprocessing.get_context("fork").Process(target=send, args=(made, sends), daemon=True)
    worker.start()
    try:
        trace = labkit.record((receives.recv() for _ in itertools.count()), STEP, steps=12)
    finally:
        worker.kill()
        worker.join()
    assert trace.run.loader.hidden == 1
    stalls = labkit.Timeline(trace).stalls
    assert stalls.shares["unknown"] > 0.3, stalls.shares
    assert stalls.cause is None
    assert stalls.rules == ("loader.hidden-processes",)
    assert labkit.record(batches(*[np.zeros((4, 8))] * 4), STEP, steps=1).run.loader.hidden == 0


@pytest.mark.long
def test_a_loader_that_fails_leaves_what_was_seen_until_then(paths):
    def batches():
        for _ in range(5):
            yield np.stack([disk.load(path) for path in paths[:4]])
        raise ValueError("shard 7 is broken")

    with pytest.raises(RecordingError, match="failed at step 3 of 9: ValueError: shard 7 is broken") as caught:
        labkit.record(batches(), STEP, steps=9)
    timeline = labkit.Timeline(caught.value.trace)
    assert timeline.steps == 3
    assert len(timeline.waits_ms) == 4, "the last wait had no end"
    assert "PIL decode" in timeline.names


def test_the_stop_button_stops_a_loader_that_waits(paths):
    class Waits:
        def __iter__(self):
            yield from [np.zeros((4, 8))] * 3
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Event().wait(20)

    before = state()
    with pytest.raises(KeyboardInterrupt):
        labkit.record(Waits(), STEP, steps=8)
    assert state() == before


def test_a_loader_that_hangs_is_interrupted_and_what_was_measured_is_said(monkeypatch, tmp_path):
    """Beside a program that reads, as a board its logs; what waits for a lock looks at nothing again and again."""
    monkeypatch.setattr(hanging_loader, "STOPPED_S", 0.8)
    (tmp_path / "log").write_bytes(bytes(4096))
    lock, held = threading.Lock(), []
    lock.acquire()

    def give_up():
        held.append("until somebody else let go of the lock")
        lock.release()

    def hangs():
        yield from [np.zeros((4, 8))] * 3
        lock.acquire()

    late = threading.Timer(60, give_up)
    late.start()
    reads = f"while :; do cat {tmp_path / 'log'}; sleep .05; done"
    says = (
        r"stopped at step 2 of 8: no process computed for 0\.8 s: all together took 0\.\d\d s of a core, and read \d+ b"
    )
    with subprocess.Popen(["sh", "-c", reads], stdout=subprocess.DEVNULL) as board:
        try:
            with pytest.raises(RecordingError, match=says):
                labkit.record(hangs(), STEP, steps=8, warmup=1)
        finally:
            board.kill()
            late.cancel()
    assert not held, "it hung on"


@pytest.mark.parametrize(
    ("does", "works"),
    [
        ({}, False),
        ({"computed_s": 0.01, "read": 60}, False),  # a thread that looks again and again
        ({"computed_s": 0.1}, True),
        ({"read": 10_000}, True),
        ({"begun": 1}, True),
        ({"away": True}, True),  # a library of C++ that fills its buffer: the system counts no bytes for it
        ({"wanted_ns": {"7": 9 * 10**9}}, True),  # on a busy machine, a thread may hardly get a core
        ({"wanted_ns": {"7": 10**9, "8": 10**9}}, False),
        ({"wanted_ns": {"9": 9 * 10**9}}, False),  # of a thread that is new, nobody knows since when
    ],
)
def test_who_does_anything_in_ten_seconds_or_wants_a_core_hangs_not(does, works):
    before = hanging_loader.Activity(100.0, 0.0, 0, 0, False, {"7": 0, "8": 0})
    now = before._replace(at_s=110.0, **{"wanted_ns": {"7": 0}, **does})
    assert now.works_since(before) == works


@pytest.mark.parametrize(("address", "away"), [("10.0.0.7", True), ("127.0.0.1", False)])
def test_only_a_socket_to_another_machine_is_away(address, away):
    to = SimpleNamespace(status=psutil.CONN_ESTABLISHED, raddr=SimpleNamespace(ip=address))
    assert hanging_loader.is_away(SimpleNamespace(net_connections=lambda: [to])) == away


def test_a_process_that_nobody_has_waited_for_has_ended():
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, "the process to end")
    assert not hanging_loader.may_be_a_worker(psutil.Process(child.pid), psutil.Process())
    assert labkit.record(batches(*[np.zeros((4, 8))] * 4), STEP, steps=1).run.loader.hidden == 0
    child.join()


def test_loaders_are_compared_on_equal_work_with_their_processes(paths):
    plain, pool = disk.Batches(paths), disk.Batches(paths, pool="fork pool")
    found = labkit.measure({"plain": plain, "two processes": pool}, STEP, steps=6, repeats=1)
    table = str(found)
    assert "CPU/image" in table
    assert found.equal_work("two processes") == "yes", "equal labels"
    assert "two processes: the pixels of its first photos are the same (beside plain)" in table
    assert found["two processes"][0].memory_mb > 0
    assert found["plain"][0].cpu_ms_per_image > 0


@pytest.mark.long
def test_without_spans_nothing_is_wrapped_while_it_runs(paths):
    seen = []

    class Looks(disk.Batches):
        def __iter__(self):
            seen.append(hasattr(np.stack, "_labkit_times"))
            yield from super().__iter__()

    labkit.measure({"a": Looks(paths)}, STEP, steps=3, repeats=2, profile=False)
    assert seen[:2] == [False, False], "timed by the clock alone"
    assert seen[-1] is True, "the round for the pictures"


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_the_epochs_of_a_dataset_of_keras_begin_and_end_as_in_fit(workers):
    import keras

    class Photos(keras.utils.PyDataset):
        epoch, calls = 0, ()

        def __len__(self):
            return 3

        def __getitem__(self, number):
            return np.full((4, 8, 8, 3), number, np.uint8), np.full(4, self.epoch)

        def on_epoch_begin(self):
            self.calls += ("begin",)

        def on_epoch_end(self):
            self.calls += ("end",)
            self.epoch += 1

    photos, before = Photos(workers=workers), state()
    trace = labkit.record(photos, STEP, steps=7, warmup=1)
    assert state() == before
    assert photos.calls == ("begin", "end", "begin", "end", "begin"), "the last epoch was not read to its end"
    assert sum(trace.run.work.labels.histogram.values()) == 28
    assert len(trace.run.work.labels.histogram) == 3, "each epoch has the labels of its own"


def test_whoever_indexes_a_dataset_of_keras_has_none_of_its_workers():
    import keras

    class Indexes:
        def __init__(self):
            self.photos = keras.utils.PyDataset(workers=4)

        def __iter__(self):
            yield self.photos[0]

    assert loader_facts.Loader(Indexes()).facts == LoaderFacts("python", "Indexes")
