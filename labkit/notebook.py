"""What a notebook does first: it quietens TensorFlow and says which machine it runs on."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from labkit.common import shipped

#: The variable that gives tensors a pool of their own.
POOL = "TF_CPU_ALLOCATOR_USE_BFC"

#: Set before TensorFlow is imported: its banners on stderr are no part of a lesson, and oneDNN's choice of
#: kernels by machine would make results differ between machines. Tensors come from TensorFlow's own pool, not
#: from malloc: there the profiler's small events come to lie between them, and a batch finds no gap to return
#: to and is paged in anew (4,700 page faults for 32 photos, 8 % of the throughput on two cores).
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", POOL: "1"}


def setup() -> None:
    """Quieten TensorFlow and print one line about this machine.

    Call it before ``import tensorflow``. A variable that the reader has set is left alone.

    Raises
    ------
    ImportError
        If TensorFlow is not installed; the sentence says how to get it.
    """
    prepare()
    try:
        with importing():
            import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "the lab needs TensorFlow, which is not installed here: pip install 'labkit[tf]' (Colab has it already)"
        ) from error
    from labkit.sources import photos

    where = "Colab" if "google.colab" in sys.modules else f"{platform.system()} {platform.machine()}"
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    from labkit import __version__ as version

    print(
        f"labkit {version} · Python {platform.python_version()} · TensorFlow {tf.__version__} · {where}, "
        f"{cores()} cores · {', '.join(gpus) if gpus else 'no GPU'} · data in {_short(photos.home())}"
    )


def _short(path: Path) -> str:
    """Return `path` as seen from the checkout or from the reader's home, where it lies inside one of them."""
    for base, sign in ((shipped.checkout(), ""), (Path.home(), "~/")):
        if base and path.is_relative_to(base):
            return f"{sign}{path.relative_to(base)}"
    return str(path)


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
