"""An engine copies, compiles, runs and remembers."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from luck import luckiest

from labextras import offload

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


@pytest.mark.long
@settings(max_examples=50)
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
        (lambda e: e.kernel("no_such"), "no kernel file 'no_such'; there are: .*normalize_clip"),
        (lambda e: e.build("kernel void f(global int *x) {\n  x[0] = y;\n}"), "not compile: line 2, column 10: use of"),
    ],
)
def test_bad_words_give_one_sentence(engine, call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call(engine)
    assert "\n" not in str(caught.value)


# -- what happened ----------------------------------------------------------------------------


@pytest.mark.long
def test_spans_of_a_queue_never_overlap_and_lie_within_the_hosts_stamps():
    """Between the two clocks lie some microseconds of doubt, and more where one of them is set while they are read."""

    def outside_ns():
        engine = offload.Engine()
        rounds = []
        for _ in range(20):
            before = time.time_ns()
            assert (twice(engine, [1, 2, 3], 3) == [8, 16, 24]).all()
            rounds.append((before, time.time_ns()))
        spans = engine.spans()
        assert [name for name, *_ in spans] == ["upload", "twice", "twice", "twice", "download"] * 20
        times = [(start, start + length) for _, start, length in spans]
        assert all(start <= end for start, end in times)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(times))
        parts = [(times[5 * i : 5 * i + 5], *stamps) for i, stamps in enumerate(rounds)]
        return max(max(before - part[0][0], part[-1][1] - after) for part, before, after in parts)

    assert luckiest(outside_ns, 100_000, tries=5) <= 100_000


def test_spans_begin_anew_after_forget(engine):
    twice(engine, [1])
    engine.forget()
    assert engine.spans() == []
    twice(engine, [1])
    assert len(engine.spans()) == len(engine.spans()) == 3


def test_of_a_long_run_the_latest_commands_are_kept(monkeypatch):
    from labextras.offload.opencl import engine as module

    monkeypatch.setattr(module, "MOST", 25)
    engine = offload.Engine()
    for _ in range(12):
        twice(engine, [1])
    names, starts, _ = zip(*engine.spans(), strict=True)
    assert (len(names), names[-1]) == (25, "download")
    assert list(starts) == sorted(starts)
