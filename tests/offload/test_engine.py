"""An engine copies, compiles, runs and remembers; a pool lends engines; a binary is checked before it is loaded."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import labkit
from labkit import offload
from labkit.offload import cache
from labkit.timeline.trace import Trace

pytestmark = pytest.mark.opencl

DOUBLE = "__kernel void twice(__global int *x) { x[get_global_id(0)] *= 2; }"


@pytest.fixture(scope="module")
def engine():
    return offload.Engine()


def twice(engine, values, count=1):
    import pyopencl as cl

    kernel = cl.Kernel(engine.build(DOUBLE), "twice")
    buffer = engine.upload(np.asarray(values, np.int32))
    for _ in range(count):
        engine.run(kernel, (len(values),), buffer, local=(1,))
    return engine.download(buffer, np.empty(len(values), np.int32))


# -- copies ----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(arrays.arrays(st.sampled_from([np.uint8, np.int32, np.float32]), arrays.array_shapes(min_side=0, max_side=9)))
def test_what_goes_up_comes_down(values):
    engine = offload.Engine()
    buffer = engine.upload(values)
    back = engine.download(buffer, np.zeros(values.shape, values.dtype))
    assert back.tobytes() == values.tobytes()


def test_an_array_may_change_after_its_upload(engine):
    values = np.arange(1 << 20, dtype=np.int32)
    buffer = engine.upload(values)
    values[:] = -1
    assert (engine.download(buffer, np.empty_like(values)) == np.arange(1 << 20)).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda e: e.empty(-1), "nbytes is -1; allowed on .*: 0 to"),
        (lambda e: e.empty(1 << 60), "nbytes is 1152921504606846976; allowed"),
        (lambda e: e.download(e.empty(4), np.empty(8, np.uint8)), "array takes 8 bytes, the buffer holds 4"),
        (lambda e: e.download(e.empty(64), np.empty((8, 8), np.uint8)[:, ::2]), "must be contiguous and writable"),
        (lambda e: e.kernel("no_such"), "no kernel file 'no_such'; there are: .*normalize_clip"),
        (lambda e: e.kernel("sub", file="normalize_clip"), "normalize_clip.cl has no kernel 'sub'; it has: normalize"),
        (
            lambda e: e.build("kernel void f(global int *x) {\n  x[0] = y;\n}"),
            "does not compile: line 2, column 10: use of",
        ),
    ],
)
def test_bad_words_give_one_sentence(engine, call, sentence):
    with pytest.raises(ValueError, match=sentence) as told:
        call(engine)
    assert "\n" not in str(told.value)


# -- kernels ----------------------------------------------------------------------------------


def test_each_call_for_a_kernel_gives_one_with_arguments_of_its_own(engine):
    first, second = engine.kernel("normalize_clip"), engine.kernel("normalize_clip")
    assert first is not second
    assert first.program == second.program, "compiled once"


def test_the_engine_says_what_it_runs_on(engine):
    assert repr(engine) == f"Engine({engine.device.name.strip()!r} of {engine.device.platform.name.strip()!r})"


def test_warming_up_compiles_every_kernel_and_leaves_no_bar_behind(root):
    code = "from labkit.offload import Engine; e = Engine(); e.warm_up(); print(sorted(e.compiled()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode() == f"{sorted(p.stem for p in (root / 'kernels').glob('*.cl'))}\n"
    # Each state of a bar begins where the one before did: what is left is the last, and it is blank.
    assert not done.stderr.decode().rstrip("\r").rpartition("\r")[2].strip()


# -- what happened ----------------------------------------------------------------------------


def test_spans_of_a_queue_never_overlap_and_lie_within_the_hosts_stamps():
    engine = offload.Engine()
    rounds = []
    for _ in range(20):
        before = time.time_ns()
        assert (twice(engine, [1, 2, 3], 3) == [8, 16, 24]).all()
        rounds.append((before, time.time_ns()))
    trace = engine.trace("twenty rounds")
    spans = list(trace)
    assert [s.name for s in spans] == ["upload", "twice", "twice", "twice", "download"] * 20
    assert [s.category for s in spans[:5]] == ["copy", "kernel", "kernel", "kernel", "copy"]
    assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(spans))
    # Between the two clocks lie some microseconds of doubt.
    for i, (before, after) in enumerate(rounds):
        for span in spans[5 * i : 5 * i + 5]:
            assert before - 100_000 <= span.start_ns <= span.end_ns <= after + 100_000


def test_a_trace_is_an_ordinary_one_and_says_on_what_it_was_measured(engine, tmp_path):
    engine.forget()
    twice(engine, range(1000))
    trace = engine.trace("doubling")
    assert trace.start_ns.dtype == np.int64
    assert trace.run.origin == "measured"
    assert [t.kind for t in trace.threads] == ["device"]
    assert list(Trace.load(trace.save(tmp_path / "t.json"))) == list(trace)
    text = str(labkit.Timeline(trace))
    assert engine.device.name.strip() in text
    if "Portable" in engine.device.platform.name:
        assert "say nothing about an FPGA" in " ".join(text.split())
        assert "measured · software accelerator PoCL on" in text.splitlines()[0]
    assert labkit.Timeline(trace).accelerator.by_category["kernel"] > 0
    labkit.draw(trace)
    labkit.show(trace)


def test_a_trace_begins_anew_after_forget_and_an_empty_one_can_be_shown(engine):
    twice(engine, [1])
    engine.forget()
    assert len(engine.trace()) == 0
    assert "no spans" in str(labkit.Timeline(engine.trace()))
    twice(engine, [1])
    assert len(engine.trace()) == len(engine.trace()) == 3


def test_a_long_run_keeps_numbers_not_events(monkeypatch):
    from labkit.offload import spans

    monkeypatch.setattr(spans, "FOLD", 10)
    monkeypatch.setattr(spans, "MOST", 25)
    engine = offload.Engine()
    for _ in range(12):
        twice(engine, [1])
        assert len(engine.noted) < 10
    trace = engine.trace()
    assert len(trace) == 25
    assert trace.run.dropped_spans == 36 - 25
    assert (np.diff(trace.start_ns) >= 0).all()


# -- a pool -----------------------------------------------------------------------------------


def test_a_pool_lends_each_engine_to_one_thread_at_a_time():
    pool, wrong, most = offload.Pool(2), [], []
    busy = set()

    def work(number):
        for k in range(10):
            with pool.engine() as engine:
                if id(engine) in busy:
                    wrong.append("lent twice")
                busy.add(id(engine))
                most.append(len(busy))
                if not (twice(engine, [number, k]) == [2 * number, 2 * k]).all():
                    wrong.append((number, k))
                busy.discard(id(engine))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert max(most) <= 2
    trace = pool.trace("four threads")
    assert len(trace) == 4 * 10 * 3
    for place in range(len(trace.threads)):
        lane = trace.where(trace.thread == place)
        assert (lane.end_ns[:-1] <= lane.start_ns[1:]).all()


def test_an_engine_comes_back_after_an_error_and_an_empty_pool_says_so():
    pool = offload.Pool(1)
    with pytest.raises(ZeroDivisionError), pool.engine():
        1 / 0  # noqa: B018
    with pool.engine(), pytest.raises(TimeoutError, match=r"none of 1 engines was free within 0.01 s"):
        pool.engine(wait_s=0.01).__enter__()
    with pytest.raises(ValueError, match="count is 0; allowed: 1 or more"):
        offload.Pool(0)


# -- binaries ---------------------------------------------------------------------------------


@pytest.fixture
def saved(engine, tmp_path):
    return offload.save_binary(engine.build(DOUBLE), tmp_path / "double.poclbin")


def sealed(path, data):
    path.write_bytes(data)
    path.with_name(path.name + ".sha256").write_text(f"{hashlib.sha256(data).hexdigest()}  {path.name}\n")


def test_a_saved_binary_runs_and_sha256sum_agrees(saved):
    engine = offload.Engine()
    program = offload.load_binary(saved, engine)
    assert program.kernel_names == "twice"
    kernel = engine.kernel("twice")
    buffer = engine.upload(np.arange(5, dtype=np.int32))
    engine.run(kernel, (5,), buffer, local=(1,))
    assert (engine.download(buffer, np.empty(5, np.int32)) == 2 * np.arange(5)).all()
    said = saved.with_name(saved.name + ".sha256").read_text()
    assert said == f"{hashlib.sha256(saved.read_bytes()).hexdigest()}  {saved.name}\n"


def test_a_binary_without_a_checksum_or_with_another_is_not_given_to_the_driver(saved, engine):
    data, beside = saved.read_bytes(), saved.with_name(saved.name + ".sha256")
    for wrong in (data[: len(data) // 2], data[:-1], b"", data + b"\0", os.urandom(1000)):
        saved.write_bytes(wrong)
        with pytest.raises(
            ValueError, match=r"double.poclbin is not the file that its checksum was made for \(\d+ bytes"
        ):
            offload.load_binary(saved, engine)
    beside.write_text("no checksum")
    with pytest.raises(ValueError, match=r"holds no SHA-256: 'no'; allowed: 64 hexadecimal digits"):
        offload.load_binary(saved, engine)
    beside.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no checksum of the binary .*sha256sum double.poclbin >"):
        offload.load_binary(saved, engine)
    with pytest.raises(FileNotFoundError, match=r"there is no binary .*gone.xclbin"):
        offload.load_binary(saved.with_name("gone.xclbin"), engine)


@pytest.mark.parametrize("how", ["cut", "garbage", "for another device"])
def test_a_binary_that_kills_its_driver_kills_a_child(saved, engine, tmp_path, how):
    """Its checksum is right: it was damaged before, or is for another device."""
    data = saved.read_bytes()
    wrong = {"cut": data[: len(data) // 2], "garbage": b"?" * 5000, "for another device": b"xclbin2\0" + bytes(1000)}
    path = tmp_path / "wrong.xclbin"
    sealed(path, wrong[how])
    with pytest.raises(ValueError, match=r"wrong.xclbin is no program for .*: (its driver crashed|.*INVALID_BINARY)"):
        offload.load_binary(path, engine)
    assert offload.load_binary(saved, engine).kernel_names == "twice", "and nothing of it stays"


def test_what_cannot_be_saved_says_why(engine, tmp_path):
    import pyopencl as cl

    with pytest.raises(ValueError, match=r"cannot be saved|is built for 0"):
        offload.save_binary(cl.Program(engine.context, DOUBLE), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_children_find_the_modules_that_this_process_finds():
    assert str(labkit.__path__[0]).rpartition("/")[0] in cache.environment()["PYTHONPATH"].split(os.pathsep)
