"""What the tests of the grader share: students' processes in a box."""

from __future__ import annotations

import pytest
from left_out import leave_out

from assignments.grader import box
from assignments.grader.supervisor import Limits, StudentProcess


@pytest.fixture(scope="session")
def boxed():
    """Where no box can be made, tests of it are skipped."""
    if box.refusal():
        leave_out(box.refusal(), "LABKIT_REQUIRE_BUBBLEWRAP")


@pytest.fixture(scope="session")
def run(boxed):
    """A function that runs cells in a student's process and returns it."""

    def run(*cells, limits=None, forbidden=()):
        return StudentProcess(cells, forbidden, limits or Limits(cpu_s=9, wall_s=60, memory_mb=1500))

    return run
