"""The NumPy twin of each kernel, to be read: the formula without the device, and the oracle of the tests.

A function has the name of its kernel. It takes and returns arrays, says its formula and its source, and is slow where
slow is clearer. ``labkit.reference.resize_bilinear`` is the twin of ``kernels/resize_bilinear.cl``, and so on.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Twins, and the file of this room in which each stands.
_NAMES = {
    "philox": "random",
    "draws": "random",
    "resize_bilinear": "resize",
    "random_flip": "augment",
    "random_brightness": "augment",
    "random_brightness_per_pixel": "augment",
    "random_saturation": "augment",
    "normalize_clip": "augment",
    "jpeg_tokens": "tokens",
    "jpeg_entropy": "jpeg",
    "jpeg_idct": "jpeg",
    "jpeg_color": "jpeg",
    "preprocess": "fused",
    "preprocess_planes": "fused",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"labkit.reference.{_NAMES[name]}"), name)
    raise AttributeError(f"labkit.reference has no {name!r}; it offers: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
