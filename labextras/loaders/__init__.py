"""Other loaders than tf.data: whatever can be iterated, watched in all its processes without a change to its code."""

from __future__ import annotations

from labkit.common import lazy_names

__getattr__, __dir__, __all__ = lazy_names.of(
    __name__, {"count_workers": "loader_settings", "known": "known_callables"}
)
