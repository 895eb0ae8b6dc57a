"""What the pipeline of a drill reads: a few small photos as files and as shards, on storage with a latency.

The pictures are drawn from a seed, so a drill is the same on every machine. Files live in a temporary folder of this
process and go with it.
"""

from __future__ import annotations

import atexit
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labkit.pipelines.options import naive
from labkit.pipelines.structure import serialized
from labkit.sources import framing
from labkit.sources.storage import Storage

_SOURCE = "assumed: a small object store"
_SHARDS = 8
_FAR_MS = 90


class Case:
    """The material of one drill: sources to build a pipeline on.

    Parameters
    ----------
    seed : int
        What the pictures are drawn from.
    size : int
        Photos, a multiple of 8 or not.
    far : bool
        Whether one photo lies on storage that answers much later than the others.
    latency_ms : float
        What each read or open takes, modelled; 0 for none.
    white : int
        The brightest that a photo is, 0 to 255, before JPEG rounds it.

    Attributes
    ----------
    size, batch, height, width : int
        Photos of an epoch, photos of a batch, and pixels.
    photos : tf.data.Dataset of (path, label)
        JPEG files. The label is the number of the photo, int64.
    shards, archive, crumbs : tf.data.Dataset of path
        The same photos as TFRecord files: several files, one file, and one file for each photo.
    flat, zipped : tf.data.Dataset of path
        Their pixels (float32, 0 to 1), not compressed and GZIP-compressed, as TFRecord files.
    """

    batch, height, width = 8, 48, 64

    def __init__(self, seed: int, size: int = 32, far: bool = False, latency_ms: float = 4, white: int = 255) -> None:
        self.size, self.far = size, far
        self._folder = Path(_written(seed, size, white))
        self._near = Storage("the storage of the drill", latency_ms, 200, _SOURCE)
        self._late = Storage("the far storage of the drill", latency_ms and _FAR_MS, 200, _SOURCE)
        files = tf.data.Dataset.from_tensor_slices
        paths = [str(self._folder / f"{i:02d}.jpg") for i in range(size)]
        self.photos = files((paths, np.arange(size, dtype=np.int64)))
        for kind in ("shards", "archive", "crumbs", "flat", "zipped"):
            found = sorted(str(p) for p in self._folder.glob(f"{kind}-*"))
            setattr(self, kind, files(found))

    def read(self, path: Any) -> Any:
        """Return the bytes of a file, after the time that its storage takes."""
        if not self.far or not self._late.latency_ms:
            return self._near.read(path)
        late = tf.strings.regex_full_match(path, r".*/05\.jpg")
        return tf.cond(late, lambda: self._late.read(path), lambda: self._near.read(path))

    def records(self, path: Any, compression: str = "") -> Any:
        """Return the records of a TFRecord file as a dataset: opening it takes as long as a read."""
        return self._near.records(path, compression)

    def parse(self, record: Any) -> tuple[Any, Any]:
        """Return the data (string) and the label (int64) of a record."""
        kinds = {"data": tf.string, "label": tf.int64}
        found = tf.io.parse_single_example(record, {k: tf.io.FixedLenFeature([], kind) for k, kind in kinds.items()})
        return found["data"], found["label"]

    def options(self, threads: int) -> Any:
        """Return options: so many threads for map and read, and nothing that TensorFlow would rewrite or tune."""
        return naive(threads)

    def feeds(self, dataset: Any) -> bool:
        """Tell whether a dataset reads the files of this case, wherever in the pipeline it names them."""
        try:
            return str(self._folder).encode() in serialized(dataset).SerializeToString()
        except ValueError:
            return False

    def truth(self) -> np.ndarray:
        """Return the decoded photos in the order of their labels, uint8, shape (size, height, width, 3)."""
        return np.load(self._folder / "truth.npy")


def picture(seed: int, number: int, height: int, width: int, white: int = 255) -> np.ndarray:
    """Return one photo, uint8: a coloured slope with a bright, a dark and a red patch at places of its own."""
    rng = np.random.default_rng([seed, number])
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    a, b = rng.uniform(-120, 120, 2)
    grey = 120 + a * (x - 0.5) + b * (y - 0.4) + rng.normal(0, 3, (height, width))
    image = grey[..., None] + np.array([25, 0, -25])  # warm: red and blue can be told apart
    for value in ((250, 245, 235), (15, 10, 5), (220, 60, 30)):
        top, left = rng.integers(8, height - 16), rng.integers(0, width - 16)
        image[top : top + 14, left : left + 14] = value
    return np.clip(image, 0, white).astype(np.uint8)


@lru_cache(maxsize=8)
def _written(seed: int, size: int, white: int) -> str:
    """Write all files of a case, once for each process; return their folder."""
    holder = tempfile.TemporaryDirectory(prefix="labkit-drill-")
    atexit.register(holder.cleanup)
    folder = Path(holder.name)
    data = []
    for i in range(size):
        jpeg = tf.io.encode_jpeg(picture(seed, i, Case.height, Case.width, white), quality=95).numpy()
        (folder / f"{i:02d}.jpg").write_bytes(jpeg)
        data.append(jpeg)
    truth = np.stack([tf.io.decode_jpeg(jpeg, channels=3).numpy() for jpeg in data])
    np.save(folder / "truth.npy", truth)
    coded = [framing.example({"data": jpeg, "label": i}) for i, jpeg in enumerate(data)]
    floats = truth.astype("<f4") / np.float32(255)
    pixels = [framing.example({"data": image.tobytes(), "label": i}) for i, image in enumerate(floats)]
    for kind, records, files, zipped in (
        ("shards", coded, _SHARDS, ""), ("archive", coded, 1, ""), ("crumbs", coded, size, ""),
        ("flat", pixels, _SHARDS, ""), ("zipped", pixels, _SHARDS, "GZIP"),
    ):  # fmt: skip
        options = tf.io.TFRecordOptions(zipped, compression_level=1 if zipped else None)  # the fastest to write
        for number in range(files):
            with tf.io.TFRecordWriter(str(folder / f"{kind}-{number:02d}"), options) as writer:
                for record in records[number::files]:
                    writer.write(record)
    return holder.name
