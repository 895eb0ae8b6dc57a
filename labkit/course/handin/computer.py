"""What a hand-in says about its computer: enough to compare, too little to tell whose it is."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from typing import Any

from labkit.common.environment import cores

_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly")


def fingerprint() -> dict[str, Any]:
    """Return system, cores, a class of memory, and versions; no name of a user, a host or a folder.

    Returns
    -------
    dict
        ``os``, ``architecture``, ``cores``, ``memory`` (such as "16 to 32 GB"), ``python``, ``tensorflow`` ("" where
        it is not installed), ``colab``.
    """
    import psutil

    return {
        "os": platform.system(),
        "architecture": platform.machine(),
        "cores": cores(),
        "memory": memory_class(psutil.virtual_memory().total),
        "python": platform.python_version(),
        "tensorflow": next(filter(None, map(_version, _TENSORFLOW)), ""),
        "colab": bool(os.environ.get("COLAB_RELEASE_TAG")),
    }


def memory_class(size: int) -> str:
    """Return the powers of two between which a number of bytes lies, in GB (10^9 bytes).

    >>> memory_class(12_700_000_000), memory_class(500_000_000)
    ('8 to 16 GB', 'below 1 GB')
    """
    if size < 10**9:
        return "below 1 GB"
    low = 2 ** int(math.log2(size / 10**9))
    return f"{low} to {2 * low} GB"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
