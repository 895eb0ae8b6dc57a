"""labkit: the instrument of the input-pipeline lab.

``import labkit`` is cheap: TensorFlow, matplotlib and pyopencl are imported by
the packages that need them, when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: The modules that notebooks use, by the package each is in.
_MODULES = {
    "card": ("card",),
    "course": ("drills", "exercises", "explorers", "grading", "ladder", "predictions", "variants"),
    "offload": ("offload",),
    "pipelines": ("augment", "checks", "memory"),
    "recording": ("accelerators", "measures", "recorder"),
    "recording.tfdata": ("diagnosis",),
    "simulate": ("capacity", "simulate"),
    "sources": ("damage", "photos", "records", "storage"),
    "timeline": ("perfetto",),
    "views": ("autotune_chart", "charts", "discrepancy", "ladder_chart"),
}
#: The functions and types that notebooks use, and the module each is in.
_NAMES = {
    "Timeline": "timeline.timeline",
    "Trace": "timeline.trace",
    "check": "course.gradebook",
    "compare": "views.static",
    "cores": "common.environment",
    "draw": "views.static",
    "measure": "recording.recorder",
    "plain": "pipelines.options",
    "record": "recording.recorder",
    "setup": "notebook",
    "show": "views.widget",
    "submit": "course.handin",
    "try_it": "course.grading",
}
_PLACES = {
    name: package if package == name else f"{package}.{name}" for package, names in _MODULES.items() for name in names
}
__all__ = sorted([*_PLACES, *_NAMES])


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.{_NAMES[name]}"), name)
    if name in _PLACES:
        return importlib.import_module(f"labkit.{_PLACES[name]}")
    raise AttributeError(f"labkit has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
