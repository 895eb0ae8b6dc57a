"""The process that the lab runs in: its cores, its environment variables, its search for garbage."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator

#: The variable that gives tensors a pool of their own.
POOL = "TF_CPU_ALLOCATOR_USE_BFC"

#: Set before TensorFlow is imported: its banners on stderr are no part of a lesson, and oneDNN's choice of
#: kernels by machine would make results differ between machines. Tensors come from TensorFlow's own pool, not
#: from malloc: there the profiler's small events come to lie between them, and a batch finds no gap to return
#: to and is paged in anew (4,700 page faults for 32 photos, 8 % of the throughput on two cores).
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", POOL: "1"}


def prepare() -> None:
    """Set `ENVIRONMENT`, except for what the reader has set; children inherit it."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Let Python's search for garbage rest while large modules are imported, and spare them for ever after.

    Modules stay. To search them while they come takes a quarter of TensorFlow's import; to search them again in
    the middle of a recording would stop its consumer for 0.2 s and more.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if searching:
            gc.enable()


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
    """Keep from the reader what is logged, and written to stderr, while a library is loaded; exceptions pass.

    Where there is no GPU, or another protobuf than their own, libraries print long errors and then work as they should.
    What they write from C++ passes Python by, so the descriptor of stderr leads to nothing meanwhile.
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


def cores() -> int:
    """Return how many cores this process may use (not how many the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def have(module: str, command: str) -> bool:
    """Tell whether a module is installed; where it is not, print one sentence with the command that installs it.

    Parameters
    ----------
    module : str
        As one would import it; it is not imported.
    command : str
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        found = False
    if not found:
        print(f"{module} is not installed here, so this part is left out: {command}")
    return found
