"""A test that cannot run here is skipped on a laptop, and fails where what it lacks is required, as in `.ci/run`."""

from __future__ import annotations

import os

import pytest


def leave_out(why: str, variable: str) -> None:
    """Skip a test, or all tests of a file while it is imported; fail if the environment variable `variable` is set."""
    if os.environ.get(variable):
        pytest.fail(f"{why}, and {variable} is set", pytrace=False)
    pytest.skip(f"THIS TEST DID NOT RUN: {why}", allow_module_level=True)
