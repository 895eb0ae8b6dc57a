"""The whole work item on a device: JPEG bytes in, a batch of augmented squares out.

`Preprocessor` runs the lab's kernels one after the other. Images become RGB bytes, bit by bit those of
``tf.io.decode_jpeg(dct_method="INTEGER_ACCURATE")``, and are then resized and augmented in one pass.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from labextras.offload.batches import DTYPES, BatchResult, Gathered, Pixels, Preprocessed
from labextras.offload.jpeg import host
from labextras.offload.jpeg.decoder import Decoder
from labextras.offload.jpeg.outcomes import Status
from labextras.offload.opencl import drivers
from labextras.offload.opencl.engine import Engine
from labextras.offload.twins import random_numbers, resize
from labkit.common.numbers import one_of, whole
from labkit.pipelines import augment as ranges

#: The smallest and the largest side of the output, in pixels.
SIZES = (1, 4096)

#: How far a float32 value may lie from ``tf.image``'s, given the same random numbers: rounding alone.
TOLERANCE = 1e-5
#: How far a uint8 value without augmentation may lie from ``tf.round(tf.image.resize(...))``: where the sum is a
#: half but for its last bit, the other order of the same sum may round to the other side.
TOLERANCE_LEVELS = 1

#: Pixels of a mixed row, and columns of output, for which the kernels have private memory: ROW / 3 and TILE there.
ROW, TILE = 1024, 256


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
    augment : bool
        Random flip, brightness (±32/255) and saturation (0.5 to 1.5), drawn on the device.
    seed : int
        Key of the generator, 0 to 2**64 - 1.
    counter : int
        Number of the first batch; each call takes the next one. The same seed and counter draw the same numbers.

    Raises
    ------
    ValueError
        If an argument is not possible. Whole numbers are of Python or of NumPy: floats, texts, True and False are
        refused.

    Notes
    -----
    Calls from several threads take turns. Buffers of decoded images are kept from one batch to the next.
    """

    def __init__(
        self, engine: Engine | None = None, size: int = 224, dtype: str = "float32", augment: bool = False,
        seed: int = 0, counter: int = 0,
    ) -> None:  # fmt: skip
        self.size, kind, self.augment, self.seed = _checked(size, dtype, augment, seed)
        self.dtype, self.counter = np.dtype(kind), random_numbers.word64("counter", counter)
        self.engine = engine or Engine()
        self._given = Gathered(self.engine)
        self.turn = threading.Lock()

    def __repr__(self) -> str:
        """Return what it makes, and on which device."""
        augmented = f", augment=True, seed={self.seed}" if self.augment else ""
        return f"Preprocessor({self.engine!r}, size={self.size}, dtype={self.dtype.name!r}{augmented})"

    def __call__(self, images: Sequence[bytes], counter: int | None = None) -> Preprocessed:
        """Preprocess a batch of JPEGs.

        Parameters
        ----------
        images : sequence of bytes
            Whole JPEG files.
        counter : int, optional
            Number of this batch; by default one more than the last one's. A batch that fails has none.

        Returns
        -------
        Preprocessed

        Raises
        ------
        TypeError
            If an entry is not bytes.
        """
        return self._batch(images, counter, lambda: self._decoder.rgb(images))

    def pixels(self, images: Sequence[np.ndarray], counter: int | None = None) -> Preprocessed:
        """Preprocess images that are decoded already.

        Parameters
        ----------
        images : sequence of array_like of uint8, shape (h, w, 3)
            RGB, as of NumPy or of TensorFlow; each may have its own size.
        counter : int, optional
            As for JPEGs.

        Raises
        ------
        ValueError
            If an image has another shape or dtype.
        """
        return self._batch(images, counter, lambda: self._given.take(images))

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.engine)

    @cached_property
    def kernel(self) -> Any:
        """The kernel that prepares the photos."""
        return self.engine.kernel("preprocess" if self.dtype == np.float32 else "preprocess_bytes", "preprocess")

    def _batch(self, images: Sequence[Any], counter: int | None, take: Callable[[], Pixels]) -> Preprocessed:
        """Preprocess a batch; `take` brings its images to the device."""
        drivers.claim()  # a fork may have copied the lock while another thread held it
        with self.turn:
            next_one = counter is None
            counter = random_numbers.word64("counter", self.counter if next_one else counter)
            count, status = len(images), list[Status]()
            batch = take() if count else None  # this looks at the images, before there is memory for their results
            result = BatchResult(self.engine, (count, self.size, self.size, 3), self.dtype)
            if batch is not None:
                self._launch(batch, result, counter)
                status, rest = list(batch.status), [None] * count
                for i, state in enumerate(status):
                    if state.where == "host":
                        rest[i], status[i] = host.decode(images[i], state)
                if any(image is not None for image in rest):
                    self._launch(self._given.take(rest), result, counter)
                result.fetch(self.engine)
            self.counter += next_one
            return Preprocessed(result.array[:], status)

    def _launch(self, batch: Pixels, result: BatchResult, counter: int) -> None:
        """Enqueue the kernel ``preprocess`` over a batch."""
        count = len(batch.rows)
        seed, step = (np.array(random_numbers.halves(n, "seed"), np.uint32) for n in (self.seed, counter))
        limits = np.array([ranges.BRIGHTNESS, *ranges.SATURATION, 0], np.float32)
        buffers = (batch.pixels, batch.layout, *tables(self.engine, batch.rows, self.size), result.buffer)
        scalars = (np.int32(count), np.int32(self.size), np.int32(self.augment), seed, step, limits)
        # One work-item in a group: PoCL would make the private rows of all work-items of a group at once.
        self.engine.run(self.kernel, (self.size, count), *buffers, *scalars, local=(1, 1))


@lru_cache(maxsize=4096)
def tile(n_in: int, n_out: int) -> int:
    """Return how many columns of output can be made at once: what they read must fit into a mixed row."""
    first = resize.pairs(n_in, n_out).first
    columns = TILE
    while columns > 1:
        begin = np.arange(0, n_out, columns)
        end = np.minimum(begin + columns, n_out) - 1
        if (first[end] + 2 - first[begin]).max() <= ROW:
            break
        columns //= 2
    return columns


def tables(engine: Engine, layout: np.ndarray, size: int) -> tuple[Any, Any, Any]:
    """Copy the tables that a batch needs to the device; they are small beside its images.

    Parameters
    ----------
    engine : Engine
    layout : ndarray of int32, shape (n, 32)
        As a decoder makes it.
    size : int
        Side of the output, pixels.

    Returns
    -------
    jobs : pyopencl.Buffer
        int32, shape (n, 8): 0 table of the columns, 1 table of the rows, 6 columns that are made at once.
    first, share : pyopencl.Buffer
        int32 and float32, shape (tables, size): see `labextras.offload.twins.resize.Pairs`.
    """
    jobs = np.zeros((len(layout), 8), np.int32)
    slots: dict[int, int] = {}
    for job, (width, height) in zip(jobs, layout[:, :2].tolist(), strict=True):
        if width > 0:
            job[:2] = [slots.setdefault(length, len(slots)) for length in (width, height)]
            job[6] = tile(width, size)
    pairs = [resize.pairs(length, size) for length in slots or (1,)]
    first, share = (engine.upload(np.stack(rows)) for rows in zip(*pairs, strict=True))
    return engine.upload(jobs), first, share


def _checked(size: Any, dtype: Any, augment: Any, seed: Any) -> tuple[int, str, bool, int]:
    """Return the arguments of a `Preprocessor` in one form each, so that equal ones are the same to a cache."""
    with contextlib.suppress(TypeError):  # what names no dtype is refused as it is
        dtype = np.dtype(dtype).name
    one_of("dtype", dtype, DTYPES)
    return whole("size", size, *SIZES, unit="of pixels"), dtype, bool(augment), random_numbers.word64("seed", seed)


_shared_engine = lru_cache(maxsize=1)(Engine)
_kept = lru_cache(maxsize=8)(Preprocessor)


def preprocess(
    images: Sequence[bytes], size: int = 224, dtype: str = "uint8", engine: Engine | None = None,
    augment: bool = False, seed: int = 0, counter: int = 0,
) -> Preprocessed:  # fmt: skip
    """Decode, resize and, if asked, augment JPEGs in one call; for many batches keep a `Preprocessor`.

    Parameters
    ----------
    images : sequence of bytes
        Whole JPEG files.
    size, dtype, engine, augment, seed
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
    checked = _checked(size, dtype, augment, seed)
    return _kept(engine or _shared_engine(), *checked)(images, random_numbers.word64("counter", counter))
