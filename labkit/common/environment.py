"""The process that the lab runs in: its cores, its environment variables, its search for garbage."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

#: The variable that gives tensors a pool of their own.
POOL = "TF_CPU_ALLOCATOR_USE_BFC"

#: Set before TensorFlow is imported: its banners on stderr are no part of a lesson, and oneDNN's choice of
#: kernels by machine would make results differ between machines. Tensors come from TensorFlow's own pool, not
#: from malloc. With malloc, small events of the profiler lie between the tensors, so a batch gets new pages
#: instead of the old ones (4,700 page faults for 32 photos, 8 % of the throughput on two cores).
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


def cores() -> int:
    """Return how many cores this process may use (not how many the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def control_groups(
    kind: str, own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[tuple[Path, bool]]:
    """Yield each control group of this process, and those around it, and whether it is one of version 1.

    Source: Linux kernel documentation, admin-guide/cgroup-v2 and cgroup-v1.

    Parameters
    ----------
    kind : str
        What the groups limit, as in ``"memory"``.
    own, root : Path
        The file that names the groups, and the folder in which they lie.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and kind not in kinds.split(","):
            continue
        base = root / kind if kinds else root
        here = base / path.strip("/")
        yield from ((place, bool(kinds)) for place in (here, *here.parents) if place.is_relative_to(base))


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
