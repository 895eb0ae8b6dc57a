"""Libraries that print while they are loaded, kept quiet."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator


class _Stderr(io.TextIOBase):
    """A stderr that drops what it gets, and later passes it on: handlers of logs that were made meanwhile keep it."""

    dropping = True

    def write(self, text: str) -> int:
        return len(text) if self.dropping else sys.stderr.write(text)

    def flush(self) -> None:
        if not self.dropping:
            sys.stderr.flush()


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Hide log messages and output to stderr while a library is loaded; exceptions pass.

    Without a GPU, or with another version of protobuf, libraries print long errors and then work as they should. Output
    from C++ does not go through Python, so the file descriptor of stderr is redirected, too.
    """
    level, before, text = logging.root.manager.disable, os.dup(2), _Stderr()
    try:
        with open(os.devnull, "wb") as nothing, contextlib.redirect_stderr(text):
            os.dup2(nothing.fileno(), 2)
            logging.disable(logging.CRITICAL)
            yield
    finally:
        text.dropping = False
        logging.disable(level)
        os.dup2(before, 2)
        os.close(before)
