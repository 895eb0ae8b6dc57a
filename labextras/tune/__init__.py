"""What AUTOTUNE chose for a pipeline, and other ways to write one, tried by measurement."""

from __future__ import annotations

from labkit.common import lazy_names

__getattr__, __dir__, __all__ = lazy_names.of(
    __name__, {"autotune_chart": "autotune_chart", "diagnosis": "diagnosis", "improve": "improvement"}
)
