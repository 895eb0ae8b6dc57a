"""Preprocessing beside the CPU: OpenCL devices, the lab's kernels on them, and a model of a SmartSSD.

The names below come from the files of this folder when they are first used; nothing here imports pyopencl before.
"""

from __future__ import annotations

import importlib
from typing import Any

#: The names on offer, and the file each is in.
_NAMES = {
    "devices": "opencl.devices",
    "choose": "opencl.devices",
    "Device": "opencl.devices",
    "NoDevice": "opencl.devices",
    "Engine": "opencl.engine",
    "BuildError": "opencl.engine",
    "decode": "jpeg.decoder",
    "Decoder": "jpeg.decoder",
    "Status": "jpeg.outcomes",
    "Unsupported": "jpeg.outcomes",
    "Damaged": "jpeg.outcomes",
    "preprocess": "preprocessor",
    "Preprocessor": "preprocessor",
    "try_kernel": "trial",
    "Tried": "trial",
    "SmartSSD": "smartssd",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.offload.{_NAMES[name]}"), name)
    raise AttributeError(f"labkit.offload has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
