"""labkit: the instrument of the input-pipeline lab.

``import labkit`` is cheap: TensorFlow, matplotlib and pyopencl are imported by
the rooms that need them, when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "accelerators",
    "assignments",
    "augment",
    "blindfold",
    "card",
    "causes",
    "checks",
    "charts",
    "damage",
    "diagnosis",
    "differential",
    "discrepancy",
    "drills",
    "exercises",
    "explorers",
    "grading",
    "journal",
    "knobs",
    "ladder",
    "measures",
    "memory",
    "notebook",
    "offload",
    "photos",
    "perfetto",
    "predictions",
    "recorder",
    "records",
    "reference",
    "results",
    "scene",
    "scale",
    "simulate",
    "sketch",
    "speed",
    "stack",
    "storage",
    "timeline",
    "trace",
    "variants",
    "view",
    "widget",
    "xplane",
)
#: The names a notebook uses, and the room each lives in.
_NAMES = {
    "record": "recorder",
    "measure": "recorder",
    "Timeline": "timeline",
    "Trace": "trace",
    "draw": "view",
    "compare": "view",
    "show": "widget",
    "check": "journal",
    "try_it": "grading",
    "setup": "notebook",
    "submit": "results",
}
__all__ = sorted([*_ROOMS, *_NAMES])


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.{_NAMES[name]}"), name)
    if name == "reference":
        return importlib.import_module("labkit.offload.twins")
    if name in _ROOMS:
        return importlib.import_module(f"labkit.{name}")
    raise AttributeError(f"labkit has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
