"""Children that can be interrupted, even where a shell started the tests in the background."""

from __future__ import annotations

import signal


def interruptible() -> None:
    """Let an interrupt reach this process: what a shell starts in the background ignores interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
