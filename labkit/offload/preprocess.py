"""The whole work item on a device: JPEG bytes in, a batch of augmented squares out.

`Preprocessor` strings the lab's kernels together. On the ``exact`` path images become RGB bytes, bit by bit those of
``tf.io.decode_jpeg(dct_method="INTEGER_ACCURATE")``, and are then resized and augmented in one pass. On the ``planes``
path there is no RGB image: chroma is upsampled, resized and turned into RGB at the positions of the output alone.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from labkit.offload.batches import Gathered, Result, Results
from labkit.offload.engine import Engine
from labkit.offload.tables import Tables
from labkit.pipelines import augment as ranges
from labkit.reference import random

SIZES = (1, 4096)
DTYPES = ("float32", "uint8")
PATHS = ("exact", "planes")

#: How far a float32 value of the exact path may lie from ``tf.image``'s, given the same random numbers: rounding alone.
TOLERANCE = 1e-5
#: How far a uint8 value without augmentation may lie from ``tf.round(tf.image.resize(...))``: where the sum is a
#: half but for its last bit, the other order of the same sum may round to the other side.
TOLERANCE_LEVELS = 1
#: How far a value of the planes path may lie from the exact path's, without augmentation, where no colour of the photo
#: is out of range: 1.4 levels. The exact path rounds chroma to whole levels (half a level off, times 1.772 for
#: blue) and then RGB (half a level); this path rounds neither. Where Y, Cb and Cr of a pixel name a colour outside
#: 0 to 255, as they do at sharp edges of vivid colours, the exact path limits it before the resize and this one after
#: it: they may differ by as much more as that colour is out of range. On 256 photos of the lab the mean is 0.35 of a
#: level, 1 value in 1,000 is more than 10 levels off, and the worst 38. Augmentation makes at most four times as much.
TOLERANCE_PLANES = 1.4 / 255
#: The mean over a batch of photos.
TOLERANCE_PLANES_MEAN = 0.5 / 255


class Preprocessed:
    """A batch of images that went through the device.

    Attributes
    ----------
    images : ndarray of float32 in [0, 1] or of uint8, shape (n, size, size, 3)
        A failed image is all zeros. The memory is used again as soon as nothing refers to it.
    status : list of labkit.offload.jpeg.Status
        One an image; empty for images that were given as pixels.
    draws : labkit.reference.random.Draws or None
        What was drawn for each image: flip, delta, factor. None without augmentation.
    counter : int
        With which they were drawn.
    """

    def __init__(self, images: np.ndarray, status: list[Any], draws: random.Draws | None, counter: int) -> None:
        self.images = images
        self.status = status
        self.draws = draws
        self.counter = counter

    @property
    def failed(self) -> int:
        """Images that are all zeros, since they could not be decoded."""
        return sum(not status.ok for status in self.status)

    @property
    def fallbacks(self) -> int:
        """Images that the host decoded, since the device's decoder does not support them."""
        return sum(status.where == "host" for status in self.status)

    def __repr__(self) -> str:
        """Return how many images there are, of which kind, and what became of them."""
        count, size = self.images.shape[:2]
        told = f"{count} images of {size}×{size}, {self.images.dtype}"
        told += ", augmented" if self.draws is not None else ""
        return f"Preprocessed({told}; {self.fallbacks} decoded by the host, {self.failed} failed)"


class Preprocessor:
    """Decodes, resizes and augments batches of JPEGs on an OpenCL device; a callable for a dataset.

    Parameters
    ----------
    engine : Engine, optional
        By default one of its own, on the first device.
    size : int
        Side of the square output, pixels, 1 to 4096.
    dtype : {"float32", "uint8"}
        float32: shares of full brightness in [0, 1]. uint8: grey levels, rounded to the nearest, halves to even, as
        ``tf.round`` does.
    path : {"exact", "planes"}
        See the top of this file, and `labkit.offload.preprocess.TOLERANCE_PLANES`.
    augment : bool
        Random flip, brightness (±32/255) and saturation (0.5 to 1.5), drawn on the device.
    seed : int
        Key of the generator, 0 to 2**64 - 1.
    counter : int
        Number of the first batch; each call takes the next one. The same seed and counter draw the same numbers.

    Raises
    ------
    ValueError
        If an argument is not possible. Whole numbers are of Python or of NumPy: nothing is rounded, read from a text,
        or taken from True or False.

    Notes
    -----
    Calls from several threads take turns. Buffers are kept from one batch to the next.
    """

    def __init__(
        self, engine: Engine | None = None, size: int = 224, dtype: str = "float32", path: str = "exact",
        augment: bool = False, seed: int = 0, counter: int = 0,
    ) -> None:  # fmt: skip
        self.size, kind, self.path, self.augment, self.seed = _checked(size, dtype, path, augment, seed)
        self.dtype, self.counter = np.dtype(kind), _number64(counter, "counter")
        self.engine = engine or Engine()
        self._tables = Tables(self.engine, self.size)
        self._results = Results(self.engine)
        self._given = Gathered(self.engine)
        self._kernels: dict[str, Any] = {}
        self._decoder: Any = None
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        """Return what it makes, and on which device."""
        augmented = f", augment=True, seed={self.seed}" if self.augment else ""
        return (
            f"Preprocessor({self.engine!r}, size={self.size}, dtype={self.dtype.name!r}, path={self.path!r}{augmented})"
        )

    def __call__(self, images: Sequence[bytes], counter: int | None = None) -> Preprocessed:
        """Preprocess a batch of JPEGs.

        Parameters
        ----------
        images : sequence of bytes
            Whole JPEG files.
        counter : int, optional
            Number of this batch; by default one more than the last one's.

        Returns
        -------
        Preprocessed
        """
        with self._turn:
            counter, result, draws = self._begin(len(images), counter)
            status: list[Any] = []
            if len(images):
                status = self._decode(images, result, counter)
                result.fetch(self.engine)
            return Preprocessed(result.array[:], status, draws, counter)

    def _decode(self, images: Sequence[bytes], result: Result, counter: int) -> list[Any]:
        """Decode a batch and launch what makes the result of it; return what became of each image."""
        from labkit.offload import host
        from labkit.offload.decoder import Decoder

        if self._decoder is None:
            self._decoder = Decoder(self.engine)
        decoded = self._decoder.planes(images) if self.path == "planes" else self._decoder.rgb(images)
        layout = self.engine.download(decoded.layout, np.empty((len(images), 32), np.int32))
        kernel = "preprocess_planes" if self.path == "planes" else "preprocess"
        self._launch(kernel, decoded.pixels, decoded.layout, layout, result, counter)
        status = list(decoded.status)
        pixels: list[np.ndarray | None] = [None] * len(images)
        for i, state in enumerate(status):
            if state.where == "host":
                pixels[i], status[i] = host.decode(images[i], state)
        if any(image is not None for image in pixels):
            given = self._given.take(pixels)
            self._launch("preprocess", given.pixels, given.layout, given.rows, result, counter)
        return status

    def pixels(self, images: Sequence[np.ndarray], counter: int | None = None) -> Preprocessed:
        """Preprocess images that are decoded already.

        Parameters
        ----------
        images : sequence of ndarray of uint8, shape (h, w, 3)
            RGB; each may have its own size.
        counter : int, optional
            As for JPEGs.

        Raises
        ------
        ValueError
            If an image has another shape or dtype.
        """
        with self._turn:
            counter, result, draws = self._begin(len(images), counter)
            if len(images):
                given = self._given.take(images)
                self._launch("preprocess", given.pixels, given.layout, given.rows, result, counter)
                result.fetch(self.engine)
            return Preprocessed(result.array[:], [], draws, counter)

    def _begin(self, count: int, counter: int | None) -> tuple[int, Result, random.Draws | None]:
        """Return the number of this batch, room for its result, and what the device will draw."""
        if counter is None:
            counter, self.counter = self.counter, self.counter + 1
        counter = _number64(counter, "counter")
        result = self._results.take((count, self.size, self.size, 3), self.dtype)
        if not self.augment:
            return counter, result, None
        return counter, result, random.draws(count, self.seed, counter, ranges.BRIGHTNESS, ranges.SATURATION)

    def _launch(self, kernel: str, pixels: Any, layout: Any, rows: np.ndarray, result: Result, counter: int) -> None:
        """Enqueue ``preprocess`` or ``preprocess_planes`` over a batch; `rows` are its layout on the host."""
        name = kernel if self.dtype == np.float32 else f"{kernel}_bytes"
        if name not in self._kernels:
            self._kernels[name] = self.engine.kernel(name, kernel)
        count = len(rows)
        jobs = self._tables.jobs(rows, chroma=kernel == "preprocess_planes")
        seed, step = (np.array(random.halves(n, "seed"), np.uint32) for n in (self.seed, counter))
        limits = np.array([ranges.BRIGHTNESS, *ranges.SATURATION, 0], np.float32)
        buffers = (pixels, layout, jobs, self._tables.first, self._tables.share, result.buffer)
        scalars = (np.int32(count), np.int32(self.size), np.int32(self.augment), seed, step, limits)
        # One work-item a group: its private rows would otherwise be made for all of a group at once.
        self.engine.run(self._kernels[name], (self.size, count), *buffers, *scalars, local=(1, 1))


def named(dtype: Any) -> str:
    """Return the name of a dtype, or what was given in its place, to be told."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype)


def _whole(value: Any, name: str, least: int, most: int, allowed: str) -> int:
    """Return a whole number from `least` to `most`; `allowed` is how the sentence ends that refuses another value."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} {value!r} is not possible: {allowed}")
    return number


def _number64(value: Any, name: str) -> int:
    return _whole(value, name, 0, 2**64 - 1, "a whole number from 0 to 2**64 - 1")


def _checked(size: Any, dtype: Any, path: Any, augment: Any, seed: Any) -> tuple[int, str, str, bool, int]:
    """Return the arguments of a `Preprocessor` in one form each, so that equal ones are the same to a cache."""
    size = _whole(size, "size", *SIZES, f"a side has {SIZES[0]} to {SIZES[1]} pixels, a whole number")
    if named(dtype) not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not possible: images are {' or '.join(DTYPES)}")
    if path not in PATHS:
        raise ValueError(f"path {path!r} is not possible: there are {' and '.join(PATHS)}")
    return size, named(dtype), path, bool(augment), _number64(seed, "seed")


@lru_cache(maxsize=1)
def _own_engine() -> Engine:
    return Engine()


@lru_cache(maxsize=8)
def _kept(engine: Engine, size: int, dtype: str, path: str, augment: bool, seed: int) -> Preprocessor:
    return Preprocessor(engine, size, dtype, path, augment, seed)


def preprocess(
    images: Sequence[bytes], size: int = 224, dtype: str = "uint8", engine: Engine | None = None, path: str = "exact",
    augment: bool = False, seed: int = 0, counter: int = 0,
) -> Preprocessed:  # fmt: skip
    """Decode, resize and, where asked for, augment JPEGs in one call; for many batches keep a `Preprocessor`.

    Parameters
    ----------
    images : sequence of bytes
        Whole JPEG files.
    size, dtype, engine, path, augment, seed
        As for `Preprocessor`; the engine is by default one that all calls share.
    counter : int
        Number of the batch.

    Returns
    -------
    Preprocessed

    Raises
    ------
    ValueError
        If an argument is not possible.
    """
    checked = _checked(size, dtype, path, augment, seed)
    return _kept(engine or _own_engine(), *checked)(images, _number64(counter, "counter"))
