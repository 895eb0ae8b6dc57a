"""Hearing an interrupt that Python would forget.

TensorFlow makes and deletes an executor for every batch. Whatever is raised while a ``__del__`` runs is printed and
forgotten, a KeyboardInterrupt, too: about one press of the stop button in fifty had no effect on a loop over batches.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def heard() -> Iterator[Callable[[], None]]:
    """Give a function to call once per step: it raises the KeyboardInterrupt that came earlier in the block, if any.

    So does the end of the block. In another thread than the main one, and where somebody else handles the signal,
    nothing changes and the function does nothing.
    """
    came = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
