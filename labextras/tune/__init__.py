"""What AUTOTUNE chose for a pipeline, and other ways to write one, tried by measurement."""

from labkit.common import lazy_names

_AT = {"autotune_chart": "autotune_chart", "diagnosis": "diagnosis", "improve": "improvement"}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _AT)
