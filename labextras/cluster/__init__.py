"""Several processes: tf.data service, and programs that train together; started, watched, recorded, killed for real."""

from labkit.common import lazy_names

_AT = {"capacity": "capacity", "data_service": "tf_data_service", "processes": "distributed"}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _AT)
