"""What the tests of the grader share: the class of 25, and students' processes with and without bubblewrap."""

from __future__ import annotations

import pytest
from left_out import leave_out

from assignments.grader import bubblewrap
from assignments.grader.supervisor import Limits, StudentProcess


@pytest.fixture(scope="session", params=["in bubblewrap", "without bubblewrap"])
def in_bubblewrap(request):
    """Whether bubblewrap starts students' processes; where it cannot be used, tests with it are skipped."""
    if request.param == "in bubblewrap" and not bubblewrap.works():
        leave_out("bubblewrap cannot be used here (apt install bubblewrap)", "LABKIT_REQUIRE_BUBBLEWRAP")
    return request.param == "in bubblewrap"


@pytest.fixture(scope="session")
def run(in_bubblewrap):
    """A function that runs cells in a student's process and returns it."""

    def run(*cells, limits=None, forbidden=()):
        limits = limits or Limits(cpu_s=9, wall_s=60, memory_mb=1500)
        return StudentProcess(cells, forbidden, limits, in_bubblewrap=in_bubblewrap)

    return run
