"""A training of one's own, watched from inside: `model.fit` or a loop, its steps, waits and operations."""

from __future__ import annotations

from labkit.common import lazy_names

__getattr__, __dir__, __all__ = lazy_names.of(
    __name__,
    {"Watch": "watch", "operations": "operation_times", "operations_chart": "operations_chart", "watching": "watcher"},
)
