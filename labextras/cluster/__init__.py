"""Several processes: tf.data service, and programs that train together; started, watched, recorded, killed for real."""

from __future__ import annotations

from labkit.common import lazy_names

__getattr__, __dir__, __all__ = lazy_names.of(
    __name__, {"capacity": "capacity", "data_service": "tf_data_service", "processes": "distributed"}
)
