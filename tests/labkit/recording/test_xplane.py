import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.recording.tfdata import xplane
from labkit.timeline.trace import CATEGORIES

BASE_NS = 1_795_228_438_937_676_482


@pytest.fixture(scope="module")
def pb():
    """TensorFlow's own classes for the file, the oracle of this room."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2


class Writer:
    """Builds an XSpace with TensorFlow's classes, as its profiler does."""

    def __init__(self, pb, base_ns=BASE_NS):
        self.space = pb.XSpace()
        if base_ns is not None:
            task = self.space.planes.add(name="Task Environment")
            task.stat_metadata[1].id, task.stat_metadata[1].name = 1, "profile_start_time"
            task.stats.add(metadata_id=1, uint64_value=base_ns)

    def plane(self, name):
        return self.space.planes.add(name=name, id=len(self.space.planes))

    def key(self, table, name):
        key = next((k for k, v in table.items() if v.name == name), len(table) + 1)
        table[key].id, table[key].name = key, name
        return key

    def event(self, plane, line, name, start_ps, duration_ps, /, **stats):
        event = line.events.add(
            metadata_id=self.key(plane.event_metadata, name), offset_ps=start_ps, duration_ps=duration_ps
        )
        for stat, value in stats.items():
            # TensorFlow keeps texts once, in the table of names, and refers to them.
            kind = "int64_value" if isinstance(value, int) else "ref_value"
            value = value if isinstance(value, int) else self.key(plane.stat_metadata, value)
            event.stats.add(metadata_id=self.key(plane.stat_metadata, stat), **{kind: value})
        return event

    def save(self, path):
        path.write_bytes(self.space.SerializeToString())
        return path


def spans(trace):
    return [(s.thread, s.name, s.category, s.start_ns, s.duration_ns, s.step) for s in trace]


def a_small_profile(pb):
    """Return one worker with two ops and noise, the consumer, and a runner."""
    w = Writer(pb)
    host = w.plane("/host:CPU")
    worker = host.lines.add(name="tf_data_private_threadpool/7", id=7, timestamp_ns=9_000)
    w.event(host, worker, "ThreadpoolListener::Record", 500, 0, _pt=15, _p=99)
    w.event(host, worker, "ExecutorState::Process", 1_000, 9_000_000, id=-5)
    w.event(host, worker, "ReadFile:ReadFile", 2_000, 1_999)
    w.event(host, worker, "DecodeJpeg:DecodeJpeg", 4_000, 5_000_000)
    consumer = host.lines.add(name="python", id=1, timestamp_ns=9_000)
    w.event(host, consumer, "labkit wait", 1_000_000, 3_000_000, step_num=0)
    w.event(host, consumer, "EagerLocalExecute: IteratorGetNext", 1_100_000, 2_000_000)
    w.event(host, consumer, "Iterator::Root", 1_200_000, 1_000_000, name="chain")
    w.event(host, consumer, "labkit train", 4_000_000, 9_000_000, step_num=0)
    w.event(host, consumer, "dense/MatMul:MatMul", 5_000_000, 1_000_000)
    runner = host.lines.add(name="tf_data_iterator_resource/8", id=8, timestamp_ns=9_000)
    w.event(host, runner, "PrefetchProduce", 0, 7_000_000)
    w.event(host, runner, "Iterator::Root::Prefetch::BatchV2", 1_000, 6_000_000, name="BatchDatasetV2:3")
    w.event(host, runner, "Iterator::Root::Prefetch::BatchV2::FlatMap[3]::TFRecord", 2_000, 1_000_000)
    return w


def test_a_profile_becomes_spans_on_threads_that_say_whose_work_they_are(pb, tmp_path):
    trace = xplane.read(a_small_profile(pb).save(tmp_path / "x.xplane.pb"))
    at = BASE_NS + 9_000
    assert sorted(spans(trace)) == sorted([
        ("consumer", "wait for batch", "wait", at + 1_000, 3_000, 0),
        ("consumer", "train step", "train", at + 4_000, 9_000, 0),
        (xplane.IN_CONSUMER, "Iterator::Root", "iterator", at + 1_200, 1_000, -1),
        ("tf.data Prefetch", "Iterator::Root::Prefetch::BatchV2", "batch", at + 1, 6_000, -1),
        ("tf.data Prefetch", "Iterator::Root::Prefetch::BatchV2::FlatMap::TFRecord", "read", at + 2, 1_000, -1),
        ("tf.data worker 1", "ReadFile:ReadFile", "read", at + 2, 1, -1),
        ("tf.data worker 1", "DecodeJpeg:DecodeJpeg", "decode", at + 4, 5_000, -1),
    ])  # fmt: skip
    assert [t.kind for t in trace.threads] == ["consumer", "pipeline", "pipeline", "pipeline"]
    assert trace.run.origin == "measured"
    assert trace.run.profiler.events == 12
    assert trace.run.node_names == {"Root": "chain"}, "a name that TensorFlow made up is no name"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ReadFile:ReadFile", "read"),
        ("storage/PartitionedCall:PartitionedCall", "read"),
        ("DecodeAndCropJpeg:DecodeAndCropJpeg", "decode"),
        ("EagerLocalExecute: DecodePng", "decode"),
        ("map/while/body/_1/resize/ResizeBilinear:ResizeBilinear", "resize"),
        ("ArithmeticOptimizer/AddOpsRewrite_adjust_brightness:AddV2", "map"),
        ("EagerPyFunc:EagerPyFunc", "map"),
        ("fetch/network_3:PyFunc", "read"),
        ("network/EagerPyFunc:EagerPyFunc", "read"),
        ("my_network/PyFunc:PyFunc", "map"),
        ("network/dense/MatMul:MatMul", "map"),
        ("CpuExecutable::ExecuteAsyncOnStream", "map"),
        ("words/TFText>WhitespaceTokenize:TFText>WhitespaceTokenize", "map"),
        ("std::vector<int>:<int>", None),
        ("Iterator::Root::Prefetch::ParallelBatch", "iterator"),
        ("Iterator::Root::MapAndBatch", "iterator"),
        ("Iterator::Root::PaddedBatchV2", "batch"),
        ("SingleElementIterator::FiniteTake::Sleep", "read"),
        ("Iterator::Root::ParallelInterleaveV4[12]::TFRecord", "read"),
        ("Iterator::Root::BatchV2::Map", "iterator"),
        ("TensorSliceDataset:TensorSliceDataset", "iterator"),
        ("ThreadpoolListener::StartRegion", None),
        ("DecodeImageV2Op::JPEG", None),
        ("ExecutorState::Process", None),
        ("EagerLocalExecute: IteratorGetNext", None),
        ("end: broadcast_add_fusion", None),
        ("PrefetchProduce", None),
        ("http://localhost:8080", None),
        ("", None),
        (":", None),
    ],
)
def test_categories_follow_the_op_type(name, expected):
    assert xplane.category(name) == expected


@pytest.mark.parametrize("fused", [True, False])
def test_a_copy_into_a_fused_batch_has_a_name_that_readers_know(pb, tmp_path, fused):
    w = Writer(pb)
    host = w.plane("/host:CPU")
    worker = host.lines.add(name="tf_data_private_threadpool/7", id=7, timestamp_ns=9_000)
    w.event(host, worker, "ExecutorDoneCallback", 1_000, 9_000)
    runner = host.lines.add(name="tf_data_iterator_resource/8", id=8, timestamp_ns=9_000)
    w.event(host, runner, "Iterator::Root::MapAndBatch" if fused else "Iterator::Root::Map", 1_000, 9_000)
    found = [(name, category) for _, name, category, *_ in spans(xplane.read(w.save(tmp_path / "x.xplane.pb")))]
    assert (("copying into the batch", "batch") in found) == fused
    assert "ExecutorDoneCallback" not in dict(found)


def test_an_allocation_counts_for_the_innermost_op_or_node_and_iterators_that_begin_are_counted(pb, tmp_path):
    writer = Writer(pb)
    plane = writer.plane("/host:CPU")
    line = plane.lines.add(name="tf_data_iterator", timestamp_ns=1000)
    for at in (0, 100_000_000):
        writer.event(plane, line, "Iterator::Root::PaddedBatchV2", at, 90_000_000)
        writer.event(plane, line, "MemoryAllocation", at + 1_000_000, 0, requested_bytes=64)
        writer.event(plane, line, "photo/DecodeJpeg:DecodeJpeg", at + 10_000_000, 40_000_000)
        writer.event(plane, line, "DecodeImageV2Op::JPEG", at + 11_000_000, 30_000_000)
        for size in (3000, 24) if at else (2976,):
            writer.event(plane, line, "MemoryAllocation", at + 12_000_000, 0, requested_bytes=size)
        writer.event(plane, line, "MakeIterator::TensorSliceDataset", at + 60_000_000, 1000)
    writer.event(plane, line, "MemoryAllocation", 95_000_000, 0, requested_bytes=10**9)
    profile = xplane.read(writer.save(tmp_path / "a.xplane.pb")).run.profiler
    assert profile.allocated_bytes == {"photo/DecodeJpeg:DecodeJpeg": 3000, "Iterator::Root::PaddedBatchV2": 64}
    assert profile.begun == {"TensorSlice": 2}


def test_an_allocation_on_a_thread_whose_spans_have_no_length_belongs_to_nobody(pb, tmp_path):
    writer = Writer(pb)
    plane = writer.plane("/host:CPU")
    line = plane.lines.add(name="tf_data_iterator", timestamp_ns=1000)
    writer.event(plane, line, "Iterator::Root::Prefetch", 0, 0)
    writer.event(plane, line, "MemoryAllocation", 1_000_000, 0, requested_bytes=64)
    assert xplane.read(writer.save(tmp_path / "a.xplane.pb")).run.profiler.allocated_bytes == {}


def test_relative_and_absolute_line_times_give_the_same_trace(pb, tmp_path):
    relative, absolute = a_small_profile(pb), a_small_profile(pb)
    for plane in absolute.space.planes:
        for line in plane.lines:
            line.timestamp_ns += BASE_NS
    one, other = (xplane.read(w.save(tmp_path / f"{i}.xplane.pb")) for i, w in enumerate((relative, absolute)))
    assert spans(one) == spans(other)
    del absolute.space.planes[0]
    assert spans(xplane.read(absolute.save(tmp_path / "old.xplane.pb"))) == spans(one)


def test_relative_times_without_a_start_are_refused(pb, tmp_path):
    w = a_small_profile(pb)
    del w.space.planes[0]
    with pytest.raises(ValueError, match=r"x\.xplane\.pb .*profile_start_time"):
        xplane.read(w.save(tmp_path / "x.xplane.pb"))


def test_gpu_streams_become_device_threads_with_kernels_and_copies(pb, tmp_path):
    w = a_small_profile(pb)
    gpu = w.plane("/device:GPU:0")
    compute = gpu.lines.add(name="Stream #13(Compute)", id=13, timestamp_ns=10_000)
    w.event(gpu, compute, "ampere_sgemm_128x64_nn", 0, 40_000_000, correlation_id=1)
    w.event(gpu, compute, "void cudnn::bn_fw_tr_1C11", 50_000_000, 20_000_000)
    w.event(gpu, compute, "Memset", 80_000_000, 1_000)
    inbound = gpu.lines.add(name="Stream #14(MemcpyH2D)", id=14, timestamp_ns=10_000)
    w.event(
        gpu, inbound, "MemcpyH2D", 1_000_000, 5_000_000, memcpy_details="kind_src:pinned kind_dst:device size:19267584"
    )
    outbound = gpu.lines.add(name="Stream #15(MemcpyD2H)", id=15, timestamp_ns=10_000)
    w.event(gpu, outbound, "MemcpyD2H", 70_000_000, 1_000_000, memcpy_details="kind_src:device size:4 dest:0 async:1")
    w.event(gpu, outbound, "MemcpyD2H", 72_000_000, 1_000_000, memcpy_details="kind_src:device size:8 dest:0 async:1")
    derived = gpu.lines.add(name="XLA Ops", id=99, timestamp_ns=10_000)
    w.event(gpu, derived, "fusion.1", 0, 40_000_000)
    trace = xplane.read(w.save(tmp_path / "gpu.xplane.pb"))
    device = trace.where(trace.select(kind="device"))
    at = BASE_NS + 10_000
    assert spans(device) == [
        ("GPU:0 Stream #13(Compute)", "ampere_sgemm_128x64_nn", "kernel", at, 40_000, -1),
        ("GPU:0 Stream #14(MemcpyH2D)", "MemcpyH2D", "copy", at + 1_000, 5_000, -1),
        ("GPU:0 Stream #13(Compute)", "void cudnn::bn_fw_tr_1C11", "kernel", at + 50_000, 20_000, -1),
        ("GPU:0 Stream #15(MemcpyD2H)", "MemcpyD2H", "copy", at + 70_000, 1_000, -1),
        ("GPU:0 Stream #15(MemcpyD2H)", "MemcpyD2H", "copy", at + 72_000, 1_000, -1),
        ("GPU:0 Stream #13(Compute)", "Memset", "kernel", at + 80_000, 1, -1),
    ]
    assert trace.run.profiler.copied_bytes == {"MemcpyH2D": 19_267_584, "MemcpyD2H": 12}
    assert [t.kind for t in trace.threads][:4] == ["consumer", "device", "device", "device"]
    assert len(trace) == 13


def test_ops_on_shared_threads_are_the_pipelines_only_in_functions_it_captured(pb, tmp_path):
    w = Writer(pb)
    host = w.plane("/host:CPU")
    runner = host.lines.add(name="tf_data_iterator_resource/1")
    w.event(host, runner, "InstantiatedCapturedFunction::RunAsync", 0, 10, id=-111)
    python = host.lines.add(name="python")
    w.event(host, python, "FunctionRun", 0, 10, id=222)
    pool = host.lines.add(name="tf_Compute/2")
    w.event(host, pool, "ExecutorState::Process", 1_000, 10_000, id=-111)
    w.event(host, pool, "DecodeJpeg:DecodeJpeg", 2_000, 5_000)
    w.event(host, pool, "ExecutorState::Process", 20_000, 10_000, id=222)
    w.event(host, pool, "conv2d/Conv2D:Conv2D", 21_000, 5_000)
    w.event(host, pool, "ExecutorState::Process", 40_000, 10_000, id=333)  # called before the recording
    w.event(host, pool, "ReadFile:ReadFile", 41_000, 5_000)
    trace = xplane.read(w.save(tmp_path / "x.xplane.pb"))
    assert [(s.thread, s.name, s.category) for s in trace] == [
        ("tf.data worker 1", "DecodeJpeg:DecodeJpeg", "decode"),
        ("tf_Compute 1", "conv2d/Conv2D:Conv2D", "other"),
        ("tf.data worker 1", "ReadFile:ReadFile", "read"),
    ]
    del runner.events[:]
    assert {t.kind for t in xplane.read(w.save(tmp_path / "y.xplane.pb")).threads} == {"host"}


# -- laws ----------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from([
        "ReadFile:ReadFile", "x/DecodeJpeg:DecodeJpeg", "resize/ResizeArea:ResizeArea", "a:Mul",
        "Iterator::Root::Prefetch", "Iterator::Root::BatchV2[4]::Map",
        "ThreadpoolListener::Record", "MemoryAllocation", "PrefetchProduce", "EagerExecute",
    ]),
    # Hypothesis knows the texts of the code; the marks and the callback mean more than `category` says.
    st.text(max_size=30).filter(lambda name: not name.startswith(("labkit ", "Executor"))),
)  # fmt: skip
EVENTS = st.tuples(
    st.integers(0, 12),  # position of the name; one more than there are: an id without a name
    st.integers(0, 2**62 // 1000),
    st.integers(0, 2**50),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
)
LINES = st.lists(st.tuples(st.integers(-(10**15), 10**15), st.lists(EVENTS, max_size=12)), max_size=5)


def unknown(field, wire):
    """Return the bytes of a field that no version of the message has."""
    tag, out = field << 3 | wire, b""
    while tag >= 128:
        out, tag = out + bytes([tag & 127 | 128]), tag >> 7
    return out + bytes([tag]) + {0: b"\xff\xff\x03", 1: b"12345678", 2: b"\x03abc", 5: b"1234"}[wire]


@pytest.mark.long
@settings(max_examples=150)
@given(
    st.lists(NAMES, min_size=12, max_size=12),
    LINES,
    st.lists(st.integers(1, 2**60), min_size=12, max_size=12, unique=True),
    st.randoms(),
)
def test_any_profile_reads_as_a_plain_protobuf_loop_reads_it(pb, tmp_path_factory, names, lines, ids, rng):
    space = Writer(pb).space
    plane = space.planes.add(name="/host:CPU")
    for key, name in zip(ids, names, strict=True):
        plane.event_metadata[key].id, plane.event_metadata[key].name = key, name

    def extra():
        return unknown(rng.randrange(20, 5000), rng.choice([0, 1, 2, 5])) if rng.random() < 0.3 else b""

    for number, (timestamp_ns, events) in enumerate(lines):
        line = plane.lines.add(name=f"tf_data_private_threadpool/{number}", timestamp_ns=timestamp_ns)
        for position, offset_ps, duration_ps, stats in events:
            key = ids[position] if position < 12 else 2**61
            event = line.events.add(metadata_id=key, offset_ps=offset_ps, duration_ps=duration_ps)
            for value in stats:
                event.stats.add(metadata_id=rng.randrange(100), int64_value=value)
            event.MergeFromString(extra())
        line.MergeFromString(extra())
    plane.MergeFromString(extra())
    path = tmp_path_factory.mktemp("law") / "x.xplane.pb"
    path.write_bytes(space.SerializeToString() + extra())

    expected, total = [], 0
    for line in pb.XSpace.FromString(path.read_bytes()).planes[1].lines:
        for e in line.events:
            total += 1
            name = plane.event_metadata[e.metadata_id].name if e.metadata_id in plane.event_metadata else ""
            if xplane.category(name):
                start = BASE_NS + line.timestamp_ns + e.offset_ps // 1000
                end = BASE_NS + line.timestamp_ns + (e.offset_ps + e.duration_ps) // 1000
                expected.append(
                    (re.sub(r"\[\d+\]", "", name) if name.startswith("Iterator::") else name, start, end - start)
                )
    trace = xplane.read(path)
    assert sorted((s.name, s.start_ns, s.duration_ns) for s in trace) == sorted(expected)
    assert trace.run.profiler.events == total
    assert all(
        CATEGORIES[c] == xplane.category(trace.names[n]) for c, n in zip(trace.category, trace.name, strict=True)
    )


# -- damaged files ---------------------------------------------------------------------


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "none.xplane.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=r"none\.xplane\.pb is empty"):
        xplane.read(tmp_path / "none.xplane.pb")


@pytest.mark.parametrize(
    "content", [b"not a profile at all\n" * 9, b"\xff\xd8\xff\xe0 JFIF", b"{}", b"\x00" * 64, b"\x0a\x05ab"]
)
def test_another_kind_of_file_is_named(tmp_path, content):
    (tmp_path / "odd.xplane.pb").write_bytes(content)
    with pytest.raises(ValueError, match=r"odd\.xplane\.pb is not a whole profiler file"):
        xplane.read(tmp_path / "odd.xplane.pb")


def test_a_file_cut_off_anywhere_gives_a_sentence_or_a_shorter_trace(pb, tmp_path):
    whole = a_small_profile(pb).space.SerializeToString()
    ends = [0]  # a cut between two planes leaves a valid file
    for plane in pb.XSpace.FromString(whole).planes:
        ends.append(ends[-1] + len(pb.XSpace(planes=[plane]).SerializeToString()))
    path = tmp_path / "cut.xplane.pb"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        if size in ends:
            xplane.read(path)
        else:
            with pytest.raises(ValueError, match=r"cut\.xplane\.pb"):
                xplane.read(path)


@pytest.mark.parametrize(
    "event",
    [
        b"\x22\x06\x08\x01\x10\x05",  # says 6 bytes, and its line ends after 4
        b"\x22\x0d\x08\x01\x22\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00",  # a stat of 2^63 - 1 bytes
        b"\x22\x0e\x08\x01\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",  # a stat of -1 bytes
        b"\x22\x04\x08\x01\x13\x00",  # a group, which protobuf has given up
        b"\x22\x03\x08\x01\x19",  # eight bytes, of which none is there
        b"\x22\x0e\x08\x01\x18" + b"\xff" * 10 + b"\x01",  # a number of 77 bits
        b"\x22\x0d\x08\x01\x18" + b"\xff" * 9 + b"\x01",  # lasts -1 ps
    ],
)
def test_an_impossible_event_is_refused(pb, tmp_path, event):
    whole = a_small_profile(pb)
    host = whole.space.planes[1]
    line = pb.XLine(name="tf_data_private_threadpool/9").SerializeToString() + event
    host.event_metadata[1].name = "a:Mul"
    plane = host.SerializeToString() + b"\x1a" + bytes([len(line)]) + line
    size = bytes([len(plane) & 127 | 128, len(plane) >> 7])
    data = pb.XSpace(planes=[whole.space.planes[0]]).SerializeToString() + b"\x0a" + size + plane
    (tmp_path / "odd.xplane.pb").write_bytes(data + b"\x50\x05" * 20)
    with pytest.raises(ValueError, match=r"odd\.xplane\.pb is not a whole profiler file"):
        xplane.read(tmp_path / "odd.xplane.pb")


@pytest.mark.long
def test_flipped_bytes_never_do_worse_than_a_sentence(pb, tmp_path):
    whole = a_small_profile(pb).space.SerializeToString()
    path, rng, refused = tmp_path / "flip.xplane.pb", random.Random(1), 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        refused += reads_or_names(path)
    assert refused > 500


def reads_or_names(path):
    """Read a file; tell whether it was refused, which only a sentence that names it may do."""
    try:
        xplane.read(path)
    except ValueError as refusal:
        if path.name not in str(refusal):
            raise
        return True
    return False


def test_no_event_at_all_is_an_empty_trace(pb, tmp_path):
    w = Writer(pb)
    w.plane("/host:CPU")
    trace = xplane.read(w.save(tmp_path / "quiet.xplane.pb"))
    assert len(trace) == 0
    assert trace.threads == ()
