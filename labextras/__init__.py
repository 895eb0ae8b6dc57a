"""labextras: one folder for each topic that goes beyond tf.data on one machine; ignore it until you need it.

An extra knows labkit, and no other extra (but the card, which preprocesses as `labextras.offload` does).
"""

from labkit.common import lazy_names

_AT = {name: name for name in "card checks cluster extract fit loaders offload tune".split()}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, _AT)
