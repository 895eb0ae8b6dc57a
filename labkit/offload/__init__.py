"""Preprocessing beside the CPU: OpenCL devices, the lab's kernels on them, and a model of a SmartSSD.

The names below come from the files of this folder when they are first used; nothing here imports pyopencl before.
"""

from __future__ import annotations

import importlib
from typing import Any

#: The names on offer, by the file they are in.
_FILES = {
    "jpeg.decoder": ("Decoder", "decode"),
    "jpeg.outcomes": ("Damaged", "Status", "Unsupported"),
    "launches": ("normalize_clip", "random_brightness", "resize_bilinear"),
    "opencl.devices": ("Device", "NoDevice", "choose", "devices"),
    "opencl.engine": ("BuildError", "Engine"),
    "preprocessor": ("Preprocessor", "preprocess"),
    "smartssd": ("SmartSSD", "gain_picture"),
    "trial": ("Tried", "try_kernel"),
}
_NAMES = {name: file for file, names in _FILES.items() for name in names}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.offload.{_NAMES[name]}"), name)
    raise AttributeError(f"labkit.offload has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
