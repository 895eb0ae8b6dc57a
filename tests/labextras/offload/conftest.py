"""What the tests of trials share."""

from __future__ import annotations

import numpy as np
import pytest

from labextras.offload import try_kernel


@pytest.fixture
def trials_run():
    """The process that tries kernels runs: no limit of a test bounds its start after a crash."""
    tried = try_kernel("kernel void f(global int *x) { x[0] = 1; }", "f", [np.zeros(1, np.int32)], 1, limit_s=300)
    assert tried.ok, tried
