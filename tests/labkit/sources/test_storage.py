"""Storage models hold the thread without burning CPU; eviction really empties the page cache."""

from __future__ import annotations

import math
import os
import sys
import time

import pytest
import tensorflow as tf
from luck import luckiest
from repeats import again

from labkit.sources import storage
from labkit.sources.storage import PRESETS, Storage, evict, resident


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{i}.bin" for i in range(40)]
    for i, path in enumerate(paths):
        path.write_bytes(os.urandom(10_000 + i))
    return [str(p) for p in paths]


def elements_per_s(files, model, *, parallel=None, threads=None, rewritten=True):
    """Return the rate after the first element: making and ending an iterator takes its own time."""
    options = tf.data.Options()
    if threads:
        options.threading.private_threadpool_size = threads
    options.experimental_optimization.apply_default_optimizations = rewritten
    dataset = tf.data.Dataset.from_tensor_slices(files).map(model.read, num_parallel_calls=parallel)
    iterator = iter(dataset.with_options(options))
    next(iterator)
    start = time.perf_counter()
    count = sum(1 for _ in range(len(files) - 1) if next(iterator) is not None)
    return count / (time.perf_counter() - start)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shared", storage.SHARED)
@pytest.mark.parametrize("rewritten", [False, True])
def test_the_bytes_are_exact_and_in_order(files, shared, rewritten):
    model = Storage("exact", 1, 1000, "a test", shared)
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = rewritten
    dataset = tf.data.Dataset.from_tensor_slices(files).map(model.read, num_parallel_calls=4).with_options(options)
    for path, data in zip(files, dataset, strict=True):
        with open(path, "rb") as file:
            assert data.numpy() == file.read()


@pytest.mark.parametrize("shared", storage.SHARED)
def test_a_read_takes_its_request_time_once(files, shared):
    model = Storage("slow", 40, 0.5, "a test", shared)
    size = os.path.getsize(files[0])
    assert model.request_ms(size) == pytest.approx(60, rel=0.01)
    model.read(files[0])

    def read_ms():
        start = time.perf_counter()
        model.read(files[0])
        return (time.perf_counter() - start) * 1e3

    # The floor is exact; the ceiling tells one wait from two.
    assert model.request_ms(size) <= luckiest(read_ms, 1.7 * model.request_ms(size)) < 1.7 * model.request_ms(size)


def test_default_rewrites_do_not_optimise_the_wait_away(files):
    model = Storage("kept", 10, math.inf, "a test")
    naive, default = (elements_per_s(files, model, rewritten=r) for r in (False, True))
    assert naive <= 100
    # The rewrites may run the map in parallel, on as many threads as there are cores.
    assert default <= 100 * (os.cpu_count() + 1)


def test_the_wait_burns_no_cpu(files):
    model = Storage("idle", 25, math.inf, "a test")
    elements_per_s(files[:2], model)

    def share_of_cpu():
        wall, cpu = time.perf_counter(), time.process_time()
        elements_per_s(files, model, rewritten=False)
        return (time.process_time() - cpu) / (time.perf_counter() - wall)

    assert luckiest(share_of_cpu, 0.25, tries=10) < 0.25


@pytest.mark.long
def test_parallel_reads_scale_with_threads_not_with_calls_alone(files):
    model = Storage("remote", 20, math.inf, "a test")
    one_at_a_time = 1000 / 20
    assert elements_per_s(files, model, rewritten=False) <= one_at_a_time
    # A few of the eight calls may have ended before the clock starts.
    assert elements_per_s(files, model, parallel=8, threads=1) < 1.3 * one_at_a_time
    slowness = luckiest(lambda: 1 / elements_per_s(files, model, parallel=8, threads=8), 1 / (3 * one_at_a_time))
    assert slowness < 1 / (3 * one_at_a_time)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Eight TFRecord files of six records each; the last one is empty, too."""
    folder = tmp_path_factory.mktemp("shards")
    contents = [[os.urandom(5_000 + 100 * i + j) for j in range(6)] for i in range(8)] + [[]]
    for i, records in enumerate(contents):
        with tf.io.TFRecordWriter(str(folder / str(i))) as writer:
            for record in records:
                writer.write(record)
    return [str(folder / str(i)) for i in range(len(contents))], contents


def streamed(paths, model, *, parallel=None, threads=1):
    """Interleave the shards with a pool of one thread, and none of tf.data's own rewrites."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.experimental_optimization.apply_default_optimizations = False
    dataset = tf.data.Dataset.from_tensor_slices(paths)
    return dataset.interleave(model.records, cycle_length=len(paths), num_parallel_calls=parallel).with_options(options)


def seconds(dataset):
    start = time.perf_counter()
    count = sum(1 for _ in dataset)
    return time.perf_counter() - start, count


@pytest.mark.long
@pytest.mark.parametrize("shared", storage.SHARED)
@pytest.mark.parametrize("latency_ms", [0, 2])
def test_streamed_records_are_exact_and_in_order(shards, shared, latency_ms):
    paths, contents = shards
    model = Storage("exact stream", latency_ms, 1000 if latency_ms else math.inf, "a test", shared)
    for path, records in zip(paths, contents, strict=True):
        assert list(model.records(path).as_numpy_iterator()) == records
    everything = sorted(streamed(paths, model, parallel=4).as_numpy_iterator())
    assert everything == sorted(r for records in contents for r in records)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_records_stream_too(tmp_path, compression):
    with tf.io.TFRecordWriter(str(tmp_path / "packed"), compression) as writer:
        writer.write(b"one")
        writer.write(b"two")
    stream = Storage("packed", 1, 10, "a test").records(tmp_path / "packed", compression)
    assert list(stream.as_numpy_iterator()) == [b"one", b"two"]


def test_a_stream_pays_the_latency_once_and_the_bandwidth_for_each_record(shards):
    paths, contents = shards
    size = sum(map(len, contents[0]))
    model = Storage("stream", 400, size / 400_000, "a test")  # 400 ms for all records together

    def stream_s():
        start = time.perf_counter()
        stamps = [time.perf_counter() - start for _ in model.records(paths[0])]
        assert stamps[0] >= 0.400, "the first record came before the file was open"
        return stamps[-1]

    # Six waits for the latency would be 2.8 s. A full machine wakes each of the seven sleeps 50 ms late.
    assert 0.799 <= luckiest(stream_s, 2.0, tries=10) < 2.0


def test_the_waits_of_a_stream_are_seen_on_the_threads_of_interleave(shards):
    import labkit
    from labkit.recording import accelerators

    model = Storage("seen", 30, math.inf, "a test")
    stream = streamed(shards[0][:8], model, parallel=8).batch(8)
    for _ in again(3):  # a busy machine may leave one of the threads out
        trace = labkit.record(stream.repeat(), accelerators.modelled(step_ms=1), steps=6, warmup=6)
        lanes = [lane for lane in labkit.Timeline(trace).lanes if lane.by_category.get("read", 0) >= 25e6]
        if len(lanes) >= 8:
            break
    assert trace.run.storage == "modelled"
    assert len(lanes) >= 8
    assert all("ParallelInterleave" in lane.name for lane in lanes)


@pytest.mark.long
def test_a_straggler_streams_the_same_records_and_only_its_own_take_longer(shards):
    paths, contents = shards
    model = Storage("usual", 0, sum(map(len, contents[0])) / 20_000, "a test")  # 20 ms for all records together
    stream = storage.straggler(model, paths[0], factor=40)
    assert [list(stream(path).as_numpy_iterator()) for path in paths] == contents
    slow, _ = seconds(stream(paths[0]))
    assert slow >= 40 * 0.020
    assert luckiest(lambda: seconds(stream(paths[1]))[0], slow / 2) < slow / 2
    mixed = tf.data.Dataset.from_tensor_slices(paths).interleave(stream, cycle_length=4, num_parallel_calls=4)
    assert sorted(mixed.as_numpy_iterator()) == sorted(r for records in contents for r in records)


def test_a_straggler_that_is_not_slower_is_refused(shards):
    with pytest.raises(ValueError, match=r"factor is 1; allowed: .* above 1"):
        storage.straggler(PRESETS["object store"], shards[0][0], factor=1)
    with pytest.raises(ValueError, match="'page cache' has no bandwidth limit"):
        storage.straggler(PRESETS["page cache"], shards[0][0])


def test_a_missing_shard_is_named(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="gone"):
        list(Storage("gone", 1, 10, "a test").records(str(tmp_path / "gone")))


def test_a_shared_device_serves_one_request_at_a_time(files):
    model = Storage("arm", 15, math.inf, "a test", "device")
    assert elements_per_s(files, model, parallel=8, threads=8) < 1.3 * 1000 / 15


def test_a_shared_bandwidth_lets_latencies_overlap_but_not_transfers(files):
    size = os.path.getsize(files[0])
    model = Storage("link", 40, size / 10_000, "a test", "bandwidth")  # 10 ms of transfer per file
    alone = 1000 / 50
    assert elements_per_s(files[:10], model, rewritten=False) <= alone
    slowness = luckiest(lambda: 1 / elements_per_s(files, model, parallel=8, threads=8), 1 / (1.8 * alone))
    assert 1.8 * alone < 1 / slowness < 1.3 * 1000 / 10


def test_models_of_one_name_are_one_device(files):
    one, other = (Storage("same arm", 10, 5, "a test", "device") for _ in range(2))
    dataset = tf.data.Dataset.from_tensor_slices(files)
    both = tf.data.Dataset.zip(*(dataset.map(m.read, num_parallel_calls=4) for m in (one, other)))
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    iterator = iter(both.with_options(options))
    next(iterator)
    start = time.perf_counter()
    for _ in range(20):
        next(iterator)
    assert time.perf_counter() - start > 20 * 2 * 0.010 * 0.6


def test_a_read_shows_up_in_the_graph_as_storage(files):
    graph = tf.function(PRESETS["HDD"].read).get_concrete_function(tf.TensorSpec([], tf.string)).graph
    assert any(op.name.startswith("storage") and op.type == "ReadFile" for op in graph.get_operations())


def test_an_abandoned_pipeline_does_not_wait_for_its_reads(files):
    model = Storage("glacier", 120_000, math.inf, "a test")
    iterator = iter(tf.data.Dataset.from_tensor_slices(files).map(model.read, num_parallel_calls=2).prefetch(2))
    start = time.perf_counter()
    del iterator
    assert time.perf_counter() - start < 120, "the first read ended before the pipeline was gone"


def test_a_missing_file_is_named(tmp_path):
    for model in PRESETS.values():
        with pytest.raises(tf.errors.NotFoundError, match=r"nowhere\.jpg"):
            model.read(tmp_path / "nowhere.jpg")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg does not exist"):
        evict(tmp_path / "nowhere.jpg")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg does not exist"):
        resident([tmp_path / "nowhere.jpg"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("rewritten", [False, True])
def test_a_delayed_element_is_overtaken_and_not_changed(rewritten):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    options.experimental_optimization.apply_default_optimizations = rewritten
    pairs = tf.data.Dataset.range(4).map(
        lambda i: storage.delayed((i, 10 * i), ms=500, when=tf.equal(i, 0)), num_parallel_calls=2, deterministic=False
    )
    came = [(int(a), int(b)) for a, b in pairs.with_options(options)]
    assert came[0] != (0, 0), "another call went on meanwhile"
    assert sorted(came) == [(i, 10 * i) for i in range(4)]
    with pytest.raises(ValueError, match="ms"):
        storage.delayed(1, ms=-1)


def test_the_page_cache_adds_nothing(files):
    assert PRESETS["page cache"].read(files[0]).numpy() == tf.io.read_file(files[0]).numpy()
    assert PRESETS["page cache"].request_ms(10**9) == 0


def test_presets_get_slower_down_the_list_and_state_their_source():
    costs = [m.request_ms(115_000) for m in PRESETS.values()]
    assert costs == sorted(costs)
    assert list(PRESETS) == ["page cache", "NVMe", "SATA SSD", "HDD", "object store"]
    for model in PRESETS.values():
        assert model.source in model.describe()
        assert "\n" not in model.describe()
    # DS-Analyzer measured 15 to 50 MB/s of random reads.
    assert 15 <= 115_000 / PRESETS["HDD"].request_ms(115_000) / 1e3 <= 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency_ms": -1},
        {"latency_ms": math.inf},
        {"bandwidth_mb_s": 0},
        {"bandwidth_mb_s": math.nan},
        {"shared": "cable"},
    ],
)
def test_a_model_that_makes_no_sense_is_refused(wrong):
    good = {"name": "x", "latency_ms": 1, "bandwidth_mb_s": 1, "source": "a test"}
    with pytest.raises(ValueError, match="allowed") as caught:
        Storage(**(good | wrong))
    assert next(iter(wrong)).split("_")[0] in str(caught.value)


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has posix_fadvise and tells what is cached")


def drops_pages(path):
    """Tell, independently of the code under test, whether the filesystem of `path` lives on a device."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        rows = [line.split() for line in mounts]
    device = os.stat(path).st_dev
    kinds = {r[r.index("-") + 1] for r in rows if r[2] == f"{os.major(device)}:{os.minor(device)}"}
    return bool(kinds & {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"})


@linux
def test_eviction_empties_the_cache_even_of_a_file_just_written(tmp_path):
    paths = [tmp_path / f"{i}.bin" for i in range(3)]
    for path in paths:
        path.write_bytes(os.urandom(300_001))
    assert resident(paths) == 1
    dropped = evict(paths)
    if drops_pages(tmp_path):
        assert dropped == 3 * 300_001
        assert resident(paths) == 0
        assert evict(paths) == 0
    else:
        # Whatever the filesystem does, the figure has to agree with what is left.
        assert dropped == round((1 - resident(paths)) * 3 * 300_001)
    paths[0].read_bytes()
    assert resident(paths[0]) == 1
    assert paths[0].stat().st_size == 300_001


@linux
def test_a_file_system_in_memory_evicts_nothing_and_says_so():
    shm = "/dev/shm"
    path = os.path.join(shm, f"labkit-test-{os.getpid()}")
    with open(path, "wb") as file:
        file.write(b"x" * 100_000)
    try:
        assert evict(path) == 0
        assert resident(path) == 1
    finally:
        os.unlink(path)


def test_an_empty_file_has_nothing_to_evict_and_a_folder_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    assert resident(tmp_path / "empty") == evict([tmp_path / "empty"]) == 0
    for function in (evict, resident):
        with pytest.raises(ValueError, match="is not a file"):
            function(tmp_path)
        with pytest.raises(ValueError, match="paths is empty"):
            function([])


def test_without_posix_fadvise_a_sentence_says_so(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    with pytest.warns(UserWarning, match="has no posix_fadvise"):
        assert evict(path) == 0
