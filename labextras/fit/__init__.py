"""A training of one's own, watched from inside: `model.fit` or a loop, its steps, waits and operations."""

from labkit.common import lazy_names

_AT = {"Watch": "watch", "operations": "operation_times", "operations_chart": "operations_chart", "watching": "watcher"}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _AT)
