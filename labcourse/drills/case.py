"""What the pipeline of a drill reads: a few small photos as files and as records, and the library of its job.

The pictures are drawn from a seed, so a drill is the same on every machine. Files live in a temporary folder of this
process and go with it. What the library does is part of the material: the same call is right in one job and wrong in
another, and only the data tell.
"""

from __future__ import annotations

import atexit
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from labkit.pipelines.options import naive
from labkit.pipelines.structure import serialized
from labkit.sources import framing

#: Files of records by the way in which the photos are packed.
FILES = {"shards": 8, "archive": 1, "crumbs": 0, "zipped": 8}  # 0: one for each photo

#: The name of the operation that a function of the library leaves in a graph.
CLEAN, TONE = "case_clean", "case_tone"


@dataclass(frozen=True)
class Material:
    """What the photos of a job are like, and what its library makes of them.

    Parameters
    ----------
    size : int
        Photos.
    pixels : {"bytes", "ints", "floats", "unit"}
        What `Case.decode` returns: uint8, int32 or float32 from 0 to 255, or float32 from 0 to 1.
    bgr : bool
        Whether the files hold blue where others hold red.
    mixed : bool
        Whether the list of photos comes in another order in each epoch.
    apart : bool
        Whether the list of labels has another order than that of paths.
    drawn : {"each", "once", "pixels"}
        Whether `Case.draw` draws for each photo, once for all, or for each pixel.
    masks : bool
        Whether `Case.mask` does what it is for.
    layout : str
        A key of `FILES`: how `Case.files` are packed.
    """

    size: int = 32
    pixels: str = "bytes"
    bgr: bool = False
    mixed: bool = False
    apart: bool = False
    drawn: str = "each"
    masks: bool = True
    layout: str = "shards"


class Case:
    """The material of one drill: sources to build a pipeline on, and the library of the job.

    Parameters
    ----------
    seed : int
        What the pictures are drawn from.
    material : Material

    Attributes
    ----------
    size, batch, height, width : int
        Photos of an epoch, photos of a batch, and pixels.
    photos : tf.data.Dataset of (path, label)
        JPEG files. The label is the number of the photo, int64.
    paths, labels : tf.data.Dataset
        The same as two lists.
    files, packed : tf.data.Dataset of path
        The photos as TFRecord files: as the job has them, and packed anew, eight files without compression.
    """

    batch, height, width = 8, 48, 64

    def __init__(self, seed: int, material: Material = Material()) -> None:
        self._material, self.size = material, material.size
        self._folder = Path(_written(seed, material.size, material.bgr, material.layout))
        files = tf.data.Dataset.from_tensor_slices
        paths = [str(self._folder / f"{i:02d}.jpg") for i in range(self.size)]
        numbers = np.arange(self.size, dtype=np.int64)
        self.photos = files((paths, numbers))
        self.paths, self.labels = files(paths), files(np.roll(numbers, 1) if material.apart else numbers)
        if material.mixed:
            self.photos = self.photos.shuffle(self.size)
            self.paths, self.labels = (self.photos.map(lambda *pair, k=k: pair[k]) for k in (0, 1))
        named = (sorted(map(str, self._folder.glob(f"{kind}-*"))) for kind in ("files", "packed"))
        self.files, self.packed = map(files, named)

    def read(self, path: Any) -> Any:
        """Return the bytes of a file."""
        return tf.io.read_file(path)

    def records(self, path: Any) -> Any:
        """Return the records of a TFRecord file as a dataset."""
        zipped = self._material.layout == "zipped" and tf.strings.regex_full_match(path, ".*/files-.*")
        return tf.data.TFRecordDataset(path, tf.where(zipped, "GZIP", ""))

    def parse(self, record: Any) -> tuple[Any, Any]:
        """Return the bytes of a photo and its label (int64) of a record."""
        kinds = {"data": tf.string, "label": tf.int64}
        found = tf.io.parse_single_example(record, {k: tf.io.FixedLenFeature([], kind) for k, kind in kinds.items()})
        return found["data"], found["label"]

    def decode(self, data: Any) -> Any:
        """Return the pixels of a photo, as its camera wrote them."""
        image = tf.ensure_shape(tf.io.decode_jpeg(data, channels=3), [self.height, self.width, 3])
        kinds = {"bytes": tf.uint8, "ints": tf.int32, "floats": tf.float32, "unit": tf.float32}
        image = tf.cast(image, kinds[self._material.pixels])
        return image / 255 if self._material.pixels == "unit" else image

    def draw(self, image: Any, limit: float) -> Any:
        """Return a random number between `-limit` and `limit`, to add to a photo."""
        if self._material.drawn == "once":
            return tf.cast(np.random.default_rng().uniform(-limit, limit), image.dtype)
        shape = tf.shape(image) if self._material.drawn == "pixels" else []
        number = tf.random.uniform(shape, -limit, limit)
        return tf.cast(tf.round(number), image.dtype) if limit > 1 else number

    def clean(self, image: Any) -> Any:
        """Return a photo without scratches; these photos have none."""
        return tf.identity(image, name=CLEAN)

    def tone(self, images: Any) -> Any:
        """Return a photo, or a batch of photos, in the tone of the job; these photos have it."""
        return tf.identity(images, name=TONE)

    def mask(self, image: Any) -> Any:
        """Return a photo with its first eight rows black."""
        masked = tf.concat([tf.zeros_like(image[:8]), image[8:]], 0)
        return masked if self._material.masks else image

    def options(self, threads: int) -> Any:
        """Return options: so many threads for map, and nothing that TensorFlow would rewrite or tune."""
        return naive(threads)

    def feeds(self, dataset: Any) -> bool:
        """Tell whether a dataset reads the files of this case, wherever in the pipeline it names them."""
        return self._holds(dataset, str(self._folder))

    def layout_of(self, dataset: Any) -> str:
        """Return how the files of records are packed that a dataset of this case reads."""
        return "shards" if self._holds(dataset, f"{self._folder}/packed-") else self._material.layout

    def _holds(self, dataset: Any, text: str) -> bool:
        try:
            return text.encode() in serialized(dataset).SerializeToString()
        except ValueError:
            return False

    def truth(self) -> np.ndarray:
        """Return the decoded photos in the order of their labels, uint8, shape (size, height, width, 3)."""
        return np.load(self._folder / "truth.npy")


def picture(seed: int, number: int, height: int, width: int) -> np.ndarray:
    """Return one photo, uint8: a coloured slope with a bright, a dark and a red patch at places of its own."""
    rng = np.random.default_rng([seed, number])
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    a, b = rng.uniform(-120, 120, 2)
    grey = 120 + a * (x - 0.5) + b * (y - 0.4) + rng.normal(0, 3, (height, width))
    image = grey[..., None] + np.array([25, 0, -25])  # warm: red and blue can be told apart
    for value in ((250, 245, 235), (15, 10, 5), (220, 60, 30)):
        top, left = rng.integers(8, height - 16), rng.integers(0, width - 16)
        image[top : top + 14, left : left + 14] = value
    return np.clip(image, 0, 235).astype(np.uint8)


@lru_cache(maxsize=8)
def _written(seed: int, size: int, bgr: bool, layout: str) -> str:
    """Write all files of a case, once for each process; return their folder."""
    holder = tempfile.TemporaryDirectory(prefix="labkit-drill-")
    atexit.register(holder.cleanup)
    folder = Path(holder.name)
    data = []
    for i in range(size):
        image = picture(seed, i, Case.height, Case.width)
        jpeg = tf.io.encode_jpeg(image[..., ::-1] if bgr else image, quality=95, chroma_downsampling=False).numpy()
        (folder / f"{i:02d}.jpg").write_bytes(jpeg)
        data.append(jpeg)
    truth = np.stack([tf.io.decode_jpeg(jpeg, channels=3).numpy() for jpeg in data])
    np.save(folder / "truth.npy", truth[..., ::-1] if bgr else truth)
    coded = [framing.example({"data": jpeg, "label": i}) for i, jpeg in enumerate(data)]
    for name, kind in (("files", layout), ("packed", "shards")):
        options, files = tf.io.TFRecordOptions("GZIP" if kind == "zipped" else ""), FILES[kind] or size
        for number in range(files):
            with tf.io.TFRecordWriter(str(folder / f"{name}-{number:02d}"), options) as writer:
                for record in coded[number::files]:
                    writer.write(record)
    return holder.name
