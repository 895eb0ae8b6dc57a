"""Photos as small pixels in memory: decoded once, resized once, kept in a file.

What a small network learns from: 48×48 pixels of three bytes, 7 kB a photo. The resize reads every pixel of the photo
(``antialias``), as image libraries do and ``tf.image.resize`` does not by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labkit.common.errors import error_text
from labkit.common.files import aside
from labkit.common.numbers import whole
from labkit.common.progress import bar, fast
from labkit.sources.photo_files import explained, generator
from labkit.sources.photos import Photos, home

#: Edge of the pixels, and photos of a part that is kept: work that is interrupted goes on there.
SIZE, PART = 48, 200


@dataclass(frozen=True, eq=False)
class SmallPhotos:
    """Photos of one size, in memory.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, size, size, 3)
    labels : ndarray of int64, shape (n,)
    classes : tuple of str
        What labels point into.
    """

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of photos."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Return number, size and classes on one line."""
        height, width = self.images.shape[1:3]
        return f"SmallPhotos({len(self):,} photos of {height}×{width}, {len(self.classes)} classes)"

    def shrunk(self, factor: int) -> SmallPhotos:
        """Return the photos with the mean of each `factor` × `factor` pixels in place of these.

        Raises
        ------
        ValueError
            If `factor` does not divide the edge.
        """
        count, size = self.images.shape[:2]
        if size % whole("factor", factor, least=1):
            raise ValueError(f"factor is {factor}; allowed: a divisor of the edge, {size}")
        small = self.images.reshape(count, size // factor, factor, size // factor, factor, 3).mean((2, 4))
        return replace(self, images=np.round(small).astype(np.uint8))

    def take(self, rows: Any) -> SmallPhotos:
        """Return the photos of `rows`, numbers from 0 or a mask, in that order."""
        return replace(self, images=self.images[rows], labels=self.labels[rows])


def shrink(data: Any, size: int = SIZE) -> Any:
    """Return a JPEG file as uint8 pixels, shape (size, size, 3): squashed, with every pixel of the photo read."""
    return _resized(_decoded(data), size)


def _decoded(data: Any, method: str = "INTEGER_ACCURATE") -> Any:
    import tensorflow as tf

    return tf.io.decode_jpeg(data, 3, dct_method=method)


def _resized(image: Any, size: int, **how: Any) -> Any:
    import tensorflow as tf

    image = tf.image.resize(tf.cast(image, tf.float32), (size, size), **{"antialias": True} | how)
    return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)


def _letterbox(image: Any, size: int) -> Any:
    import tensorflow as tf

    image = tf.image.resize_with_pad(tf.cast(image, tf.float32), size, size, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)


def _pillow(data: Any, size: int, upright: bool = False) -> Any:
    from PIL import Image, ImageOps

    image = Image.open(io.BytesIO(data))
    image = (ImageOps.exif_transpose(image) if upright else image).convert("RGB")
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))


def _again(data: Any, size: int, quality: int) -> Any:
    import tensorflow as tf

    return shrink(tf.io.encode_jpeg(_decoded(data), quality=quality), size)


#: Ways from a file to small pixels that are in use, by what differs from `shrink`.
READINGS: dict[str, Callable[[bytes, int], Any]] = {
    "no antialias": lambda data, size: _resized(_decoded(data), size, antialias=False),
    "nearest neighbour": lambda data, size: _resized(_decoded(data), size, method="nearest"),
    "mean of areas": lambda data, size: _resized(_decoded(data), size, method="area"),
    "letterbox": lambda data, size: _letterbox(_decoded(data), size),
    "turned as EXIF says": lambda data, size: _pillow(data, size, upright=True),
    "Pillow": _pillow,
    "fast DCT": lambda data, size: _resized(_decoded(data, "INTEGER_FAST"), size),
    "JPEG quality 30": lambda data, size: _again(data, size, 30),
}


def of(photos: Photos, size: int = SIZE, *, progress: bool = True) -> SmallPhotos:
    """Return the pixels of photos, in their order.

    Parameters
    ----------
    photos : Photos
    size : int
        Edge, 8 to 512.
    progress : bool
        Show a bar the first time; LABKIT_FAST silences it.

    Raises
    ------
    ValueError
        If `size` is out of bounds, there is no photo, or one cannot be decoded.
    OSError
        If a photo is missing or the disk is full: one sentence.
    """
    if not len(photos):
        raise ValueError(f"{photos.name} holds no photo; allowed: one or more")
    files = "\n".join(f"{path} {bytes_}" for path, bytes_ in zip(photos.paths, photos.sizes.tolist(), strict=True))
    key = hashlib.sha256(files.encode()).hexdigest()[:16]
    images = _kept(key, {"": _shrink_file}, len(photos), size, photos.paths.__getitem__, progress)[""]
    return SmallPhotos(images, photos.labels, photos.classes)


def _shrink_file(path: str, size: int) -> Any:
    """Return a photo as `shrink` does, or name the file that cannot be decoded."""
    import tensorflow as tf

    try:
        return shrink(Path(path).read_bytes(), size)
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(f"{path} cannot be decoded: {error_text(error)}") from None


def held_out(count: int = 2_000, *, seed: int = 1, size: int = SIZE, progress: bool = True) -> SmallPhotos:
    """Return photos of another seed than those that a model learns from: nobody has seen them.

    They are painted as the lab's photos are, and only their pixels are kept: half a minute for 2,000, once.

    Parameters
    ----------
    count : int
        With LABKIT_FAST a tenth of it.
    seed : int
        1 or more; 0 paints the photos to learn from.
    size, progress
        As for `of`.

    Raises
    ------
    ValueError
        If a number is out of bounds.
    """
    return _held_out({"": shrink}, count, seed, size, progress)[""]


def readings(count: int = 2_000, *, seed: int = 1, size: int = SIZE, progress: bool = True) -> dict[str, SmallPhotos]:
    """Return the photos of `held_out` as each of `READINGS` reads them: two minutes for 2,000, once.

    Arguments and errors are those of `held_out`.
    """
    return _held_out(READINGS, count, seed, size, progress)


def _held_out(
    reads: Mapping[str, Callable[[bytes, int], Any]], count: int, seed: int, size: int, progress: bool
) -> dict[str, SmallPhotos]:
    count, seed = whole("count", count, least=1), whole("seed", seed, least=1)
    count = -(-count // 10) if fast() else count
    made = _kept(f"held_out-seed{seed}", reads, count, size, lambda i: generator.make(i, seed), progress)
    labels = np.array([generator.plan(i, seed).label for i in range(count)], np.int64)
    return {name: SmallPhotos(images, labels, generator.CLASSES) for name, images in made.items()}


def _kept(
    key: str,
    reads: Mapping[str, Callable[[Any, int], Any]],
    count: int,
    size: int,
    data: Callable[[int], Any],
    progress: bool,
) -> dict[str, np.ndarray]:
    """Return pixels that are kept in parts, by reading, and make those parts that are not there.

    `data` returns for the number of a photo what the readings take.
    """
    size = whole("size", size, 8, 512)
    folder = home() / "pixels" / f"{generator.VERSION}-{key}-{size}"
    rows = [range(first, min(first + PART, count)) for first in range(0, count, PART)]
    places = [(folder / name.replace(" ", "_"), name, part) for part in rows for name in reads]
    files = {(name, part): place / f"{part.start}-{part.stop}.npy" for place, name, part in places}
    parts = {place: _read(file, (len(place[1]), size, size, 3)) for place, file in files.items()}
    missing = [part for part in rows if any(parts[name, part] is None for name in reads)]
    with bar(sum(map(len, missing)), "pixels", not progress or not missing) as step:
        for part in missing:
            made: dict[str, list[np.ndarray]] = {name: [] for name in reads if parts[name, part] is None}
            for i in part:
                photo = data(i)
                for name, images in made.items():
                    images.append(np.asarray(reads[name](photo, size)))
                step()
            for name, images in made.items():
                parts[name, part] = np.stack(images)
                _write(files[name, part], parts[name, part])
    return {name: np.concatenate([parts[name, part] for part in rows]) for name in reads}


def _read(file: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a part, None where it is not there or not whole."""
    with contextlib.suppress(OSError, ValueError, EOFError):
        part = np.load(file)
        return part if part.shape == shape and part.dtype == np.uint8 else None
    return None


def _write(file: Path, images: np.ndarray) -> None:
    try:
        with aside(file) as place, place.open("wb") as content:
            np.save(content, images)
    except OSError as error:
        raise explained(error, file.parent) from error
