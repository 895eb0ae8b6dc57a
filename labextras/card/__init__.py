"""The card: a process that owns an OpenCL device and serves files, and images preprocessed, as ``smartssd://``.

    from labextras import card

    card.register()                                        # once in a process, before smartssd:// is read
    with card.Card("photos") as ssd:
        names = tf.data.Dataset.list_files(ssd.uri("*/*.jpg", size=224))
        images = names.map(lambda name: tf.io.decode_raw(tf.io.read_file(name), tf.uint8))

A name is ``smartssd://<card>/<path>?<parameters>``. Without parameters it stands for the bytes of the file. With
``size=224`` it stands for ``224·224·3`` numbers, raw: uint8, or float32 from 0 to 1 with ``dtype=float32``; what
``tf.io.decode_raw`` and a reshape to ``(224, 224, 3)`` take. A ``.tfrecord`` file with a size holds the same examples,
with these pixels where the JPEG was. The other parameters:
``augment=1`` with a ``seed`` (the same image and seed give the same numbers: let the seed change with the epoch),
``feature`` (which one of a record holds the JPEG; ``image``), and ``timeout`` (seconds, all tries together).

So a file whose own name ends like parameters, such as ``q?size=7.jpg``, cannot be named alone: a card does not list it,
and `uri` refuses it. `labextras.card.root` says what else a card leaves out.
"""

from __future__ import annotations

from labkit.common import lazy_names

_FILES = {
    "filesystem": ("METHODS", "Method", "NoCompiler", "register"),
    "process": ("Card", "Running", "start", "status", "stop"),
    "protocol": ("uri",),
}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, {one: file for file, names in _FILES.items() for one in names})
