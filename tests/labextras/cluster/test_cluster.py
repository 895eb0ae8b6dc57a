"""A cluster of processes that is started, killed and recorded for real; and what is left of it: nothing."""

from __future__ import annotations

import collections
import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psutil
import pytest
from waiting import ended, until

import labextras.cluster
import labkit
from labextras.cluster import cluster_network, servers
from labextras.cluster.elements import ClusterError
from labkit.recording.equal_work import difference

STEP = labkit.accelerators.modelled(step_ms=5)

#: Elements that a worker may have held when it was killed: one that it made, one that was ready, one on its way.
IN_FLIGHT = 3
#: By default TensorFlow compresses them, in as many calls at a time as there are cores: one in each, and its result.
COMPRESSED = 2 * labkit.cores()


def numbers(count, sleep_ms=0):
    """A source of numbers that takes its time for each of them, without a core."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    dataset = tf.data.Dataset.range(count)
    return dataset.apply(testing.sleep(int(sleep_ms * 1000))) if sleep_ms else dataset


def counted(elements, kill=None, at=0):
    """Return how often each element came; after so many of them, call `kill`."""
    seen = collections.Counter()
    for number in elements:
        seen[int(number)] += 1
        if seen.total() == at:
            kill()
    return seen


def watched(trace):
    """The names of the workers that a recording has lanes of."""
    return {thread.name.partition(" · ")[0] for thread in trace.threads if " · " in thread.name}


@pytest.fixture(scope="module")
def shared():
    with labextras.cluster.data_service(workers=2) as cluster:
        yield cluster


@pytest.fixture
def c(shared):
    """The cluster that all tests share, with two workers that run."""
    shared.restart = True
    until(lambda: all(server.alive for server in shared.servers), "all servers to run")
    for server in shared.servers:  # what one test kills is no reason to give up in another one
        server.deaths.clear()
    yield shared
    shared.restart = True


@pytest.mark.long
def test_each_way_to_share_delivers_what_it_says(c):
    once, twice = dict.fromkeys(range(40), 1), dict.fromkeys(range(40), 2)
    for sharding, expected in (("dynamic", once), ("data", once), ("off", twice)):
        assert counted(c.elements(numbers(40, 1).apply(c.distribute(sharding)))) == expected, sharding


@pytest.mark.parametrize(("sharding", "said"), [("dynamic", None), ("off", "different counts")])
def test_a_service_is_measured_beside_the_same_epoch_here(c, sharding, said):
    """By the set of its elements: two workers deliver them in another order, and each ends with its own remainder."""
    here = numbers(80).map(lambda i: (i * i, i)).batch(16)
    there = here.apply(c.distribute(sharding))
    result = labkit.measure({"here": here, "there": there}, accelerator=STEP, steps=None, repeats=2)
    reason = difference(*(result.trace(name).run.work for name in ("here", "there")))
    assert reason is None if said is None else reason.startswith(said)


@pytest.mark.long
def test_bytes_are_those_that_came_from_each_worker(c):
    import tensorflow as tf

    assert all(counted(c.elements(numbers(4).apply(c.distribute("off")))).values())
    before = c.bytes
    values = tf.data.Dataset.range(50).map(lambda n: tf.random.stateless_uniform([100_000], [n, n], 0, 256, tf.int32))
    values = values.map(lambda x: tf.cast(x, tf.uint8)).apply(c.distribute("off", compression=None))
    assert sum(1 for _ in c.elements(values)) == 100
    came = {name: count - before[name] for name, count in c.bytes.items()}
    assert sorted(came) == ["worker 0", "worker 1"]
    assert all(5e6 <= count <= 5.2e6 for count in came.values()), came


@pytest.mark.long
def test_a_recording_has_the_lanes_of_all_processes_on_one_clock(c):
    import tensorflow as tf

    images = tf.data.Dataset.range(10_000).map(lambda n: tf.cast(tf.fill([64, 64, 3], n % 7), tf.float32)).batch(8)
    trace = labkit.record(c.served(images.apply(c.distribute("dynamic", compression=None))), STEP, steps=80)
    groups = {thread.name.partition(" · ")[0] for thread in trace.threads if " · " in thread.name}
    assert groups == {"worker 0", "worker 1"}
    assert {f"element from worker {n}" for n in range(2)} <= {s.name for s in trace if s.category == "transfer"}
    start, end = trace.window_ns
    assert all(start <= span.start_ns and span.end_ns <= end for span in trace)
    for n in range(2):
        made = [s for s in trace if s.thread.startswith(f"worker {n} · ") and "Batch" in s.name]
        assert made, "each worker made batches within the window"
    came = trace.run.profiler.copied_bytes
    assert sorted(came) == ["worker 0", "worker 1"]
    # Some batches of the window had come before, and some came that are of use later.
    assert sum(came.values()) > 0.5 * trace.run.images * 64 * 64 * 3 * 4


@pytest.mark.long
def test_the_network_is_busy_with_what_moves_and_not_while_workers_work(c):
    import tensorflow as tf

    slow = tf.data.Dataset.range(10_000).map(lambda n: labkit.storage.delayed(n, 60)).batch(1)
    trace = labkit.record(c.served(slow.apply(c.distribute("dynamic"))), STEP, steps=12)
    came = [span for span in trace if span.category == "transfer"]
    made = [span for span in trace if span.thread.startswith("worker ") and span.category == "read"]
    assert 4 <= len(came) <= len(made) + 2 * IN_FLIGHT, "who asks for what is not there yet, moves nothing"
    assert sum(span.duration_ns for span in came) < 0.5 * sum(span.duration_ns for span in made)


@pytest.mark.parametrize(
    ("faults", "settings", "most"),
    [(2, {"compression": None}, IN_FLIGHT), pytest.param(6, {}, IN_FLIGHT + COMPRESSED, marks=pytest.mark.long)],
)
def test_a_killed_worker_comes_back_and_no_element_comes_twice(c, faults, settings, most):
    import tensorflow as tf

    no_more = tf.data.Options()
    no_more.experimental_optimization.inject_prefetch = not settings  # where nothing is compressed, it would hold ten
    for _ in range(faults):
        slowly = numbers(300, 4).with_options(no_more)
        elements = c.elements(slowly.apply(c.distribute("dynamic", **settings)))
        seen = counted(elements, c.workers[1].kill, at=90)
        assert max(seen.values()) == 1
        assert len(seen) >= 300 - most
        until(lambda: c.workers[1].alive, "the worker to run again")
    assert [death.name for death in c.deaths[-faults:]] == ["worker 1"] * faults
    assert c.deaths[-1].how == "killed by signal 9"


@pytest.mark.long
def test_a_killed_worker_with_a_fixed_share_delivers_all_of_it(c):
    seen = counted(c.elements(numbers(200, 4).apply(c.distribute("data"))), c.workers[0].kill, at=60)
    assert set(seen) == set(range(200))


@pytest.mark.long
def test_a_killed_dispatcher_goes_on_from_its_journal(c):
    dispatcher = psutil.Process(c.dispatcher.pid)

    def rests():
        before = dispatcher.cpu_times()
        time.sleep(0.3)
        return dispatcher.cpu_times() == before

    def kill():
        """Between two splits: TensorFlow writes one down before it gives it out, so that it could be lost here."""
        for worker in c.workers:
            os.kill(worker.pid, signal.SIGSTOP)
        try:
            until(rests, "the dispatcher to have answered all")
            c.dispatcher.kill()
        finally:
            for worker in c.workers:
                os.kill(worker.pid, signal.SIGCONT)

    seen = counted(c.elements(numbers(300, 4).apply(c.distribute("dynamic"))), kill, at=90)
    assert seen == dict.fromkeys(range(300), 1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["worker 1", "dispatcher"])
def test_who_does_not_come_back_is_named_instead_of_a_wait_without_end(c, name):
    c.restart = False
    server = next(server for server in c.servers if server.name == name)
    dataset = numbers(600, 4).apply(c.distribute("data"))
    elements = c.elements(dataset, silence_s=1.0)
    died = rf"{name} \({server.address}\) died at \d\d:\d\d:\d\d, killed by signal 9, and does not come back"
    with pytest.raises(ClusterError, match=died):
        counted(elements, server.kill, at=60)
    with pytest.raises(ClusterError, match=rf"{name} \(.*\) is dead already"):
        server.kill()
    if name == "dispatcher":
        for use in (
            lambda: numbers(9).apply(c.distribute()),
            lambda: c.elements(numbers(9)),
            lambda: labkit.record(c.served(dataset), STEP),
        ):
            with pytest.raises(ClusterError, match=r"^dispatcher \(.*\) died at .*, killed by signal 9"):
                use()
    c.restart = True
    until(lambda: server.alive, "the server to run again")
    assert counted(c.elements(numbers(40).apply(c.distribute("dynamic")))) == dict.fromkeys(range(40), 1)


@pytest.mark.long
def test_where_nobody_can_be_started_anew_no_wait_is_without_end():
    import tensorflow as tf

    with labextras.cluster.data_service(workers=1) as cluster:
        dataset = numbers(100_000, 1).apply(cluster.distribute())
        elements = cluster.elements(dataset, silence_s=0.5)
        next(elements)
        fork_servers = [one for one in psutil.Process().children() if "labextras.cluster.fork_server" in one.cmdline()]
        max(fork_servers, key=psutil.Process.create_time).kill()
        with pytest.raises(ClusterError, match=r"dispatcher \(.*\) died at .*, and does not come back"):
            collections.deque(elements, 0)
        with pytest.raises(tf.errors.OpError):
            list(dataset)


@pytest.mark.long
def test_a_dataset_of_a_cluster_that_is_closed_ends_in_a_sentence():
    import tensorflow as tf

    with labextras.cluster.data_service(workers=1) as cluster:
        datasets = [numbers(100_000, 1).apply(cluster.distribute()) for _ in range(2)]
        begun, later = (cluster.elements(dataset) for dataset in datasets)
        plain = iter(datasets[0])
        next(begun), next(plain)
        waits = cluster.elements(numbers(9, 1e6).apply(cluster.distribute()))
        closes = threading.Timer(0.5, cluster.close)
        closes.start()
        for elements in (waits, begun, later):
            with pytest.raises(ClusterError, match=r"^this cluster is closed; begin another one"):
                next(elements)
            closes.join()
        port = int(cluster.dispatcher.address.rpartition(":")[2])
    with pytest.raises(tf.errors.OpError):
        collections.deque(plain, 0)
    with pytest.raises(tf.errors.OpError):
        list(datasets[1])
    del datasets, begun, later, plain, waits, elements
    gc.collect()
    assert cluster_network.is_free(port), "what refuses is gone with the datasets"


@pytest.mark.long
def test_a_worker_that_dies_in_a_recording_has_no_lanes_and_a_note_says_so(c):
    class Kills:
        name, kind, source, describe = "kills", "real", None, lambda self: "a step that kills"
        steps = 0

        def step(self, batch):
            self.steps += 1
            if self.steps == 12:
                c.workers[1].kill()

    dataset = numbers(100_000, 1).batch(4).apply(c.distribute("dynamic"))
    trace = labkit.record(c.served(dataset), Kills(), steps=20)
    assert "worker 1 died during the recording" in trace.run.profiler.note
    assert {t.name.partition(" · ")[0] for t in trace.threads if " · " in t.name} == {"worker 0"}


@pytest.mark.long
def test_what_workers_cannot_do_is_said_in_the_words_of_those_who_asked(c, tmp_path):
    import tensorflow as tf

    dataset = numbers(10).map(lambda n: tf.py_function(lambda x: x, [n], tf.int64))
    with pytest.raises(ClusterError, match=r"py_function stays in the process that made it: workers"):
        counted(c.elements(dataset.apply(c.distribute())))
    dataset = numbers(10).map(lambda n: tf.io.read_file(str(tmp_path / "nowhere.jpg")))
    with pytest.raises(ClusterError, match=r"nowhere\.jpg.*is that path there, too\?"):
        counted(c.elements(dataset.apply(c.distribute())))
    with pytest.raises(ClusterError, match=r"the pipeline failed at its first batch: .*nowhere\.jpg"):
        labkit.record(c.served(dataset.batch(2).apply(c.distribute())), STEP)


@pytest.mark.long
def test_the_same_calls_serve_a_cluster_that_somebody_else_runs(c):
    with labextras.cluster.data_service([server.address for server in c.servers]) as theirs:
        dataset = numbers(60, 1).apply(theirs.distribute("dynamic"))
        assert counted(theirs.elements(dataset)) == dict.fromkeys(range(60), 1)
        assert sum(theirs.bytes.values()) > 0
        trace = labkit.record(
            theirs.served(numbers(10_000, 1).batch(4).apply(theirs.distribute("dynamic"))), STEP, steps=5
        )
        assert "not seen" in trace.run.profiler.note
        for refused in (theirs.workers[0].kill, theirs.add):
            with pytest.raises(ClusterError, match="started by somebody else; only its owner"):
                refused()
        c.restart = False
        elements = theirs.elements(numbers(600, 4).apply(theirs.distribute("data")), silence_s=1.0)
        with pytest.raises(ClusterError, match=r"worker 0 \(.*\) is dead, and does not come back"):
            counted(elements, c.workers[0].kill, at=60)
    assert all(server.alive for server in c.servers if server is not c.workers[0])


@pytest.mark.long
def test_the_stop_button_does_not_cut_off_a_worker_that_is_added():
    with labextras.cluster.data_service(workers=1) as cluster:

        def add():
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
            cluster.add()
            time.sleep(5)

        with pytest.raises(KeyboardInterrupt):
            add()
        until(lambda: all(server.alive for server in cluster.servers), "all servers to run")
        arrived = counted(cluster.elements(numbers(60, 2).apply(cluster.distribute("dynamic"))))
        assert arrived == dict.fromkeys(range(60), 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["profile", "profiled"])
def test_the_stop_button_in_a_recording_ends_it_in_all_workers_and_none_of_them(c, monkeypatch, command):
    ask, deaths, pids = servers.ClusterServer.ask, len(c.deaths), [worker.pid for worker in c.workers]
    stops = [threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))]

    def asks(server, what):
        if what == command and stops:
            stops.pop().start()
        return ask(server, what)

    dataset = numbers(10_000, 1).batch(4).apply(c.distribute("data"))
    monkeypatch.setattr(servers.ClusterServer, "ask", asks)
    with pytest.raises(KeyboardInterrupt):
        labkit.record(c.served(dataset), STEP, steps=200)
    monkeypatch.undo()
    trace = labkit.record(c.served(dataset), STEP, steps=100)
    assert "not seen" not in (trace.run.profiler.note or "")
    assert watched(trace) == {worker.name for worker in c.workers}, trace.run.profiler.copied_bytes
    assert (len(c.deaths), [worker.pid for worker in c.workers]) == (deaths, pids)


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_started_anew(c, monkeypatch):
    worker = c.workers[0]
    pid = worker.pid
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(servers, "ANSWER_S", 0.1)
    with pytest.raises(ClusterError, match=r"worker 0 \(.*\) does not answer"):
        worker.ask("profile")
    monkeypatch.undo()
    until(lambda: worker.alive and worker.pid != pid, "the worker to run again")


def test_one_more_worker_takes_its_part(c):
    worker = c.add()
    assert [w.name for w in c.workers] == ["worker 0", "worker 1", "worker 2"]
    assert worker.address in {w.address for w in c.workers}
    before = c.bytes["worker 2"]
    assert counted(c.elements(numbers(60, 2).apply(c.distribute("off")))) == dict.fromkeys(range(60), 3)
    assert c.bytes["worker 2"] > before


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"workers": 0}, ValueError, r"workers is 0; allowed: .*1"),
        ({"workers": 33}, ValueError, r"workers is 33; allowed: .*32"),
        ({"workers": 2.5}, ValueError, r"workers is 2\.5; allowed: a number, or a list of host:port"),
        ({"workers": ["localhost:1"]}, ValueError, r"workers is \['localhost:1'\]; allowed: a number, or a list"),
        ({"workers": ["here:65536", "localhost:1"]}, ClusterError, r"nobody listens at here:65536: is it host:port"),
        ({"workers": ["a..example:1", "localhost:1"]}, ClusterError, r"nobody listens at a\.\.example:1: is it host"),
        ({"workers": ["[::1]:1", "localhost:1"]}, ClusterError, r"nobody listens at \[::1\]:1: is it host:port, is"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        labextras.cluster.data_service(**arguments)


def test_how_elements_may_be_shared_is_said(c):
    with pytest.raises(ValueError, match="sharding is 'fair'; allowed: off, dynamic, data, file"):
        c.distribute("fair")
    with pytest.raises(ValueError, match="this dataset is distributed already; allowed: once"):
        numbers(9).apply(c.distribute()).batch(2).apply(c.distribute())
    for use in (c.elements, c.distribute(), lambda dataset: labkit.record(c.served(dataset), STEP)):
        with pytest.raises(TypeError, match=r"dataset is a int; allowed: a tf\.data\.Dataset"):
            use(3)
    with pytest.raises(ClusterError, match="an element that is a dataset, as window makes them, cannot be sent"):
        next(c.elements(numbers(9).window(2).apply(c.distribute())))
    with pytest.raises(ValueError, match="silence_s is 0; allowed: a number of seconds above 0"):
        c.elements(numbers(1), silence_s=0)


NOTEBOOK = """
import os, sys, time
import labextras.cluster
def sleep(process):
    if os.fork():
        open(f"{sys.argv[1]}/{process.number}", "w").close()
    time.sleep(1000)
print("begins", flush=True)
with labextras.cluster.data_service(workers=2) as c:
    c.workers[0].ask("profile")
    print(*(server.address for server in c.servers), flush=True)
    labextras.cluster.processes(2).run(sleep)
"""


@pytest.mark.parametrize("after_s", [None, *(pytest.param(s, marks=pytest.mark.long) for s in (0.1, 3.0))])
def test_nothing_outlives_a_notebook_that_is_killed(tmp_path, after_s):
    """Kill it so many seconds after it began to start a cluster and programs, or once all of them run."""
    private, ran = tmp_path / "private", tmp_path / "ran"
    private.mkdir()
    ran.mkdir()
    environment = {**os.environ, "TMPDIR": str(private), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, addresses = [sys.executable, "-c", NOTEBOOK.replace("sys.argv[1]", repr(str(ran)))], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout.readline() == "begins\n"
        if after_s is None:
            addresses = parent.stdout.readline().split()
            until(lambda: len(list(ran.iterdir())) == 2, "the programs to run")
        else:
            time.sleep(after_s)
        children = psutil.Process(parent.pid).children(recursive=True)
        if after_s is None:
            assert len(children) == 9
            for child in children:
                mapped = [m.path for m in child.memory_maps() if "/dev/shm" in m.path]
                opened = [file.path for file in child.open_files() if "/dev/shm" in file.path]
                assert mapped + opened == [], "what a killed process holds in shared memory would stay"
                assert not [n for n in child.net_connections("unix") if n.laddr], "a socket with a name would stay"
            assert list(private.iterdir()), "it has a folder of its own"
        parent.kill()
    until(lambda: all(map(ended, children)), "the children to end")
    assert not [address for address in addresses if cluster_network.listens(address)]
    until(lambda: not list(private.iterdir()), "their files to go")


SHORT = """
import resource
import labkit, labextras.cluster.tf_data_service, labextras.cluster.distributed
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
for begin in (labextras.cluster.data_service, lambda: labextras.cluster.processes(2).run(print)):
    try:
        begin()
    except labextras.cluster.elements.ClusterError as error:
        print(error)
"""


@pytest.mark.long
def test_where_there_is_no_more_memory_the_sentence_says_so(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", SHORT], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    first, second = done.stdout.splitlines()
    reason = r".*(memory|failed to map|[Cc]annot allocate|unavailable)"
    assert re.match(rf"dispatcher cannot start at localhost:\d+: .*it said: {reason}", first), first
    assert re.match(rf"a process cannot start: .*it said: {reason}", second), second
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("begin", "use", "sentence"),
    [
        (labextras.cluster.data_service, lambda one: one.distribute(), "this cluster is closed"),
        (labextras.cluster.processes, lambda one: one.run(len), "these processes are closed"),
    ],
)
def test_what_ends_leaves_nothing(tmp_path, monkeypatch, begin, use, sentence):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    here = psutil.Process()
    begin(1).close()  # what the first one loads stays

    def state():
        return {child.pid for child in here.children(recursive=True)}, threading.active_count(), here.num_fds()

    before = state()
    with begin(1) as one:
        use(one)
    with pytest.raises(ClusterError, match=sentence):
        use(one)
    until(lambda: state() == before, "what was started to end")
    assert list(tmp_path.iterdir()) == []
