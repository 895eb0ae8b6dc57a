"""The card: a process that owns an OpenCL device and serves files, and images preprocessed, as ``smartssd://``.

    from labextras import card

    card.register()                                        # once in a process, before smartssd:// is read
    with card.Card("photos") as ssd:
        names = tf.data.Dataset.list_files(ssd.uri("*/*.jpg", size=224))
        images = names.map(lambda name: tf.io.decode_raw(tf.io.read_file(name), tf.uint8))

A name is ``smartssd://<card>/<path>?<parameters>``. Without parameters it stands for the bytes of the file. With
``size=224`` it stands for ``224·224·3`` numbers, raw: uint8, or float32 from 0 to 1 with ``dtype=float32``; what
``tf.io.decode_raw`` and a reshape to ``(224, 224, 3)`` take. A ``.tfrecord`` file with a size holds the same examples,
with these pixels where the JPEG was. The other parameters: ``feature`` (which one of a record holds the JPEG;
``image``), and ``timeout`` (seconds, all tries together). What is drawn at random anew in each epoch, as augmentation
is, stays with the host.

So a file whose own name ends like parameters, such as ``q?size=7.jpg``, cannot be named alone: a card does not list it,
and `uri` refuses it. `labextras.card.root` says what else a card leaves out.

A card is only read, unless it is started with ``writable=True``. Then every method of TensorFlow's filesystems works on
it: a file, a TFRecord or a checkpoint is written to ``smartssd://``, moved, copied and removed.

- A file gets its name when it is *closed*. Until then the old file stays, also for readers that come meanwhile:
  ``flush`` brings all bytes to the card, but not into the file. What is never closed is dropped.
- Whoever is killed, the writer or the card: a name stands for the whole old file or the whole new one. What was being
  written is lost, and an error says so. Where the card was killed, an error does not say whether the change was made.
- Of two writers of one file the last that closes it wins; of two that append, the second gets an error.
- Copying reads and writes through TensorFlow: a copy of a name with parameters holds the pixels.
"""

from labkit.common import lazy_names

_FILES = {
    "filesystem": ("NoCompiler", "register", "schemes"),
    "process": ("Card", "Running", "cpu_ms", "modelled", "start", "status", "stop"),
    "protocol": ("uri",),
}
__getattr__, __dir__, __all__ = lazy_names.of(__name__, {one: file for file, names in _FILES.items() for one in names})
