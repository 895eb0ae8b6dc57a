"""What every notebook does first: quiet TensorFlow, name the machine, find the data."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

#: Set before TensorFlow is imported: its banners on stderr are no part of a lesson, and
#: oneDNN's choice of kernels by machine would make results differ between machines.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}


def setup() -> None:
    """Quieten TensorFlow and print one line about this machine.

    Call it before ``import tensorflow``. A variable that the reader has set is left alone.

    Raises
    ------
    ImportError
        If TensorFlow is not installed; the sentence says how to get it.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "the lab needs TensorFlow, which is not installed here: pip install 'labkit[tf]' (Colab has it already)"
        ) from error
    from labkit import photos

    where = "Colab" if "google.colab" in sys.modules else f"{platform.system()} {platform.machine()}"
    gpus = [tf.config.experimental.get_device_details(g).get("device_name", g.name) for g in tf.config.list_physical_devices("GPU")]
    print(
        f"labkit {importlib.metadata.version('labkit')} · Python {platform.python_version()} · TensorFlow {tf.__version__} · "
        f"{where}, {cores()} cores · {', '.join(gpus) if gpus else 'no GPU'} · data in {photos.home()}"
    )


def cores() -> int:
    """Return how many cores this process may use (not how many the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
