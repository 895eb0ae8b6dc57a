"""Reads and writes of a tried kernel outside of its arrays are found and reported to its author."""

from __future__ import annotations

import numpy as np
import pytest

from labextras.offload import try_kernel

pytestmark = [pytest.mark.opencl, pytest.mark.usefixtures("trials_run")]

EIGHT = np.arange(8, dtype=np.int32)
#: Seconds: there is time for more runs beside other programs, too.
LONG_S = 60


def on_eight(body, **words):
    """Try a kernel of one argument, eight ints, by eight work-items."""
    return try_kernel(f"__kernel void f(__global int *x) {{ {body} }}", "f", [EIGHT], 8, **{"limit_s": LONG_S} | words)


@pytest.mark.parametrize(
    ("name", "place", "where"),
    [
        ("char", "i + 64", "behind 'a'"),
        ("ushort", "i + 4095 / sizeof(a[0])", "behind 'a'"),
        ("int", "i - 1", "before 'a'"),
        ("ulong", "i - 1", "before 'a'"),
        ("float", "i + 64", "behind 'a'"),
        ("double", "i - 1", "before 'a'"),
    ],
)
def test_a_read_outside_of_an_array_of_any_type_is_found(name, place, where):
    from labextras.offload.trial_child import TYPES

    source = (
        f"kernel void f(global const {name} *a, global {name} *b) {{ int i = get_global_id(0); b[i] = a[{place}]; }}"
    )
    arrays = [np.zeros(64, TYPES[name]), np.zeros(64, TYPES[name])]
    tried = try_kernel(source, "f", arrays, 64, limit_s=LONG_S)
    assert not tried.ok
    assert tried.text == f"f reads outside of its arrays: what lies {where} changes 'b'"
    assert not tried.outputs


@pytest.mark.parametrize(
    "value", ["mix(a[i], a[i + 1], 0.0f)", "fmin(a[i], a[i + 1])", "fmax(a[i], a[i + 1])", "a[i + 1] < 0 ? 1 : 0"]
)
def test_a_read_outside_is_found_through_a_weight_of_zero_and_through_limits(value):
    source = f"kernel void f(global const float *a, global float *b) {{ int i = get_global_id(0); b[i] = {value}; }}"
    arguments = [np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
    found = try_kernel(source, "f", arguments, 8, limit_s=LONG_S).text
    assert "reads outside of its arrays: what lies behind 'a'" in found
    assert try_kernel(source, "f", arguments, 7, limit_s=LONG_S).ok, "the last element is there"


@pytest.mark.long
def test_a_kernel_whose_end_depends_on_what_lies_outside_reads_outside():
    source = "kernel void f(global int *x) { if (get_global_id(0) == 0) while (x[8] == 0x5A5A5A5A) ; }"
    assert try_kernel(source, "f", [np.zeros(16, np.int32)], 8, limit_s=300).ok, "it is compiled"
    tried = try_kernel(source, "f", [EIGHT], 8, limit_s=4)
    assert not tried.ok
    assert tried.text.endswith("with other values around its arrays: it reads outside of its arrays")


@pytest.mark.alone  # how far runs differ from each other depends on who else runs
@pytest.mark.parametrize("value", ["(ulong)&x[0]", "atomic_inc(count)"])
def test_results_that_differ_from_run_to_run_are_no_read_outside(value):
    source = "__attribute__((reqd_work_group_size(1, 1, 1))) "
    source += f"kernel void f(global int *count, global ulong *x) {{ x[get_global_id(0)] = {value}; }}"
    tried = try_kernel(source, "f", [np.zeros(1, np.int32), np.zeros(4096, np.uint64)], 4096)
    assert tried.ok, tried
    assert tried.outputs["x"].any()


@pytest.mark.parametrize("value", ["0xA5A5A5A5", "0"])
def test_a_write_outside_is_found_whatever_it_writes(value):
    text = on_eight(f"x[get_global_id(0) + 1] = {value};").text
    assert text == "f writes outside of its arrays: element 8 of the 8 of 'x'"
