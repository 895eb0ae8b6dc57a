"""Preprocessing beside the CPU: OpenCL devices, the lab's kernels on them, and a model of a SmartSSD.

The names below come from the files of this folder when they are first used; nothing here imports pyopencl before.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

#: The names on offer, and the file each lives in.
_NAMES = {
    "devices": "devices",
    "choose": "devices",
    "Device": "devices",
    "NoDevice": "devices",
    "Engine": "engine",
    "BuildError": "engine",
    "Pool": "pool",
    "decode": "decoder",
    "Decoder": "decoder",
    "Status": "jpeg",
    "Unsupported": "jpeg",
    "Damaged": "jpeg",
    "preprocess": "preprocess",
    "Preprocessor": "preprocess",
    "try_kernel": "watched",
    "Tried": "watched",
    "load_binary": "binaries",
    "save_binary": "binaries",
    "SmartSSD": "smartssd",
}
__all__ = sorted(_NAMES)


class _Offload(ModuleType):
    """The package, in which no file hides the function of its name: ``devices()``, ``preprocess(...)``."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a file makes it an attribute of its package.
        if name not in _NAMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Offload


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.offload.{_NAMES[name]}"), name)
    raise AttributeError(f"labkit.offload has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
