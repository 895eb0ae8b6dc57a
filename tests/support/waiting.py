"""Tests wait for a state, not for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def until(condition: Callable[[], object], what: str, limit_s: float = 600.0) -> None:
    """Wait until a condition holds; after `limit_s` seconds, fail with `what` was waited for."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def ended(process: psutil.Process | int) -> bool:
    """Tell whether a process, or that of a number, has ended; one that waits to be collected by its parent has."""
    try:
        one = psutil.Process(process) if isinstance(process, int) else process
        return not one.is_running() or one.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
