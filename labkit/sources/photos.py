"""The photos a pipeline reads: the lab's own set, a folder of the reader's, or a TFDS set by name.

All three come as plain files, paths and labels, so that reading and decoding stay where the lesson
is, in the notebook. Nothing is downloaded.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labkit.common import shipped
from labkit.common.files import expanded
from labkit.common.numbers import one_of, whole
from labkit.sources import photo_files, photo_folder, tfds_sets
from labkit.sources.photo_files import PhotoFile, generator

#: Photos per scale of the lab's own set.
SCALES = dict(generator.SCALES)
_NAME = generator.NAME


@dataclass(frozen=True, eq=False)
class Photos:
    """Labelled JPEG or PNG files, in an order in which every stretch holds all classes.

    Parameters
    ----------
    name : str
    paths : tuple of str
    labels : ndarray of int64, shape (n,)
        Index into `classes`.
    classes : tuple of str
    sizes : ndarray of int64, shape (n,)
        Size of each file in bytes.
    held_out : ndarray of bool, shape (n,)
        True for the photos of the validation split.
    note : str or None
        One sentence for the reader: why there is no TFDS form, where the files come from.
    """

    name: str
    paths: tuple[str, ...]
    labels: np.ndarray
    classes: tuple[str, ...]
    sizes: np.ndarray
    held_out: np.ndarray
    note: str | None = None

    def __post_init__(self) -> None:
        """Fix types, check lengths, and make the columns read-only."""
        for name, dtype in (("labels", np.int64), ("sizes", np.int64), ("held_out", np.bool_)):
            values = np.array(getattr(self, name), dtype)
            if values.shape != (len(self.paths),):
                raise ValueError(f"{name} has shape {values.shape}; there are {len(self.paths)} paths")
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        """Return the number of photos."""
        return len(self.paths)

    def __repr__(self) -> str:
        """Return name, count, classes and total size, the same on every machine."""
        size = f"{self.sizes.sum() / 1e6:,.1f} MB"
        return f"Photos({self.name}, {len(self):,} photos, {len(self.classes)} classes, {size})"

    @property
    def train(self) -> Photos:
        """The photos to learn from."""
        return self._only(np.flatnonzero(~self.held_out), f"{self.name}, train")

    @property
    def validation(self) -> Photos:
        """The photos held out: of every eight of a class the last, or the set's own split."""
        return self._only(np.flatnonzero(self.held_out), f"{self.name}, validation")

    def take(self, count: int) -> Photos:
        """Return the first `count` photos.

        Raises
        ------
        ValueError
            If there are fewer, or `count` is below 1.
        """
        return self._only(np.arange(whole("count", count, 1, len(self), other=f"of {self.name}")), self.name)

    def reordered(self, rows: Any) -> Photos:
        """Return the photos of `rows`, numbers from 0 or a mask, in that order.

        Raises
        ------
        ValueError
            If a row is no number of a photo, or the mask has another length.
        """
        rows, allowed = np.asarray(rows), f"of {self.name}, or a mask of length {len(self)}"
        if rows.dtype == np.bool_ and rows.shape == (len(self),):
            rows = np.flatnonzero(rows)
        numbers = [whole("a row", row, 0, len(self) - 1, other=allowed) for row in rows.tolist()]
        return self._only(np.array(numbers, np.int64), self.name)

    def _only(self, rows: np.ndarray, name: str) -> Photos:
        paths = tuple(self.paths[row] for row in rows)
        columns = {column: getattr(self, column)[rows] for column in ("labels", "sizes", "held_out")}
        return replace(self, name=name, paths=paths, **columns)

    def files(self) -> Any:
        """Return a ``tf.data.Dataset`` of ``(path string, label int64)``, in order; nothing is read yet."""
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices((tf.constant(self.paths, tf.string, [len(self)]), self.labels))

    def summary(self) -> str:
        """Return what the set holds as a few lines of text."""
        counts = np.bincount(self.labels, minlength=len(self.classes))
        lines = [repr(self)]
        if len(self):
            low, middle, high = np.percentile(self.sizes, [5, 50, 95]) / 1e3
            mean, held_out = self.sizes.mean() / 1e3, np.count_nonzero(self.held_out)
            spread = f"median {middle:,.0f} kB, 90 % from {low:,.0f} to {high:,.0f} kB"
            lines.append(f"  size: mean {mean:,.0f} kB, {spread}")
            lines.append(f"  split: {len(self) - held_out:,} train, {held_out:,} validation")
        shown = [f"{name} {count:,}" for name, count in zip(self.classes, counts, strict=True)][:20]
        lines.append("  classes: " + ", ".join(shown) + (", ..." if len(counts) > 20 else ""))
        return "\n".join(lines + ([f"  note: {self.note}"] if self.note else []))


def home() -> Path:
    """Return where photos and what is made of them live.

    The folder in LABKIT_DATA; else ``build/data`` of the checkout that labkit runs from; else
    the user's cache folder.
    """
    if place := os.environ.get("LABKIT_DATA"):
        return expanded("LABKIT_DATA", place).absolute()
    return shipped.kept("data")


def load(
    source: str | os.PathLike[str] = _NAME,
    *,
    scale: str | None = None,
    home: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    progress: bool = True,
) -> Photos:
    """Return photos to read; the lab's own are made first where they are missing.

    After it ``tfds.load("lab_photos")`` reads the lab's own in this process, and packs them first if nobody has.

    Parameters
    ----------
    source : str or path
        ``"lab_photos"``; a folder with one folder of JPEG or PNG files per class, all of which
        ``tf.io.decode_jpeg(data, channels=3)`` decodes; or the name of a TFDS set that is prepared on this disk (in
        `home`, TFDS_DATA_DIR or ``~/tensorflow_datasets``).
    scale : str, optional
        For the lab's own: ``tiny`` 160, ``small`` 1,280 or ``full`` 12,800 photos; else LABKIT_SCALE, else small.
    home : path, optional
        Instead of `labkit.photos.home`.
    skip_bad : bool
        Leave out the files of a folder that are no whole photos, as `Photos.note` then says; else they are an error.
    progress : bool
        Show a bar while photos are made or checked; LABKIT_FAST silences it too.

    Raises
    ------
    TypeError
        If `source` is no text and no path.
    ValueError
        For an unknown scale or set, an empty folder, or files that are no whole photos: a sentence that names them all.
    FileNotFoundError, NotADirectoryError
        If a folder is missing, or is a file.
    OSError
        If the disk is full.
    """
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source):
        kind = ValueError if source == "" else TypeError
        raise kind(f"source is {source!r}; allowed: {_NAME!r}, a folder, or the name of a TFDS set prepared here")
    place = _home(home)
    if source == _NAME:
        found = _own(place, _scale(scale), progress, thorough=False)
        tfds_sets.offer(place, _scale(scale))
        return found
    if isinstance(source, str) and not expanded("source", source).exists() and tfds_sets.looks_like_name(source):
        return _tfds(source, place, progress)
    folder = expanded("source", source)
    return _photos(folder.resolve().name, *photo_folder.scan(folder, skip_bad, progress))


def prepare(scale: str | None = None, home: str | os.PathLike[str] | None = None, progress: bool = True) -> Photos:
    """Make the lab's photos, check every byte of what is there, and pack them for TFDS.

    After it ``tfds.load("lab_photos", data_dir=home)`` works, offline and without labkit. Where
    tensorflow-datasets is missing or broken, the files serve as they are and `Photos.note` says why.

    Parameters
    ----------
    scale, home, progress
        As in `load`.

    Raises
    ------
    ValueError
        For an unknown scale.
    OSError
        If the disk is full: one sentence, before anything is written where that can be known.
    """
    place, scale = _home(home), _scale(scale)
    packed = not tfds_sets.is_whole(place, scale) and tfds_sets.problem() is None
    photos = _own(place, scale, progress, thorough=True, also_bytes=SCALES[scale] * generator.MEAN_BYTES * packed)
    if packed:
        tfds_sets.build(place, scale, photo_files.folder(place), progress)
    return replace(photos, note=_note(place, scale))


def _home(given: str | os.PathLike[str] | None) -> Path:
    return home() if given is None else expanded("home", given).absolute()


def _scale(scale: str | None) -> str:
    where = "scale" if scale is not None else "LABKIT_SCALE"
    return one_of(where, scale if scale is not None else os.environ.get("LABKIT_SCALE") or "small", SCALES)


def _own(place: Path, scale: str, progress: bool, thorough: bool, also_bytes: int = 0) -> Photos:
    folder, count = photo_files.folder(place), SCALES[scale]
    wrong = photo_files.faults(folder, count, thorough)
    if damaged := [str(fault.path) for fault in wrong if fault.what == "damaged"]:
        some = ", ".join(damaged[:3]) + (f" and {len(damaged) - 3} more" if len(damaged) > 3 else "")
        warnings.warn(f"made again, because not as their checksums say: {some}", stacklevel=3)
    needed = len(wrong) * generator.MEAN_BYTES + also_bytes
    photo_files.require_space(place, needed, f"preparing {_NAME}/{scale}")
    photo_files.make(folder, [fault.index for fault in wrong], progress)
    shots = [generator.plan(index) for index in range(count)]
    known = photo_files.ledger(folder)
    rows = [PhotoFile(folder / s.file, s.label, 0, known[s.file].bytes, s.held_out) for s in shots]
    return _photos(f"{_NAME}/{scale}", generator.CLASSES, rows, _note(place, scale))


def _photos(name: str, classes: tuple[str, ...], rows: list[PhotoFile], note: str | None = None) -> Photos:
    paths, labels, _, sizes, held_out = zip(*rows, strict=True)
    return Photos(name, tuple(map(str, paths)), labels, classes, sizes, held_out, note)


def _note(place: Path, scale: str) -> str | None:
    return None if tfds_sets.is_built(place, scale) else tfds_sets.problem()


def _tfds(source: str, place: Path, progress: bool) -> Photos:
    own = expanded("TFDS_DATA_DIR", os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")
    prepared = tfds_sets.find(source, [place, own])
    if prepared is None:
        raise ValueError(
            f"{source!r} is no folder here and no TFDS set prepared in {place} or {own}; labkit downloads nothing: "
            "prepare the set with tensorflow-datasets first, or name a folder"
        )
    if reason := tfds_sets.problem():
        raise ValueError(f"{source!r} is prepared in {prepared}, but {reason}")
    classes, rows = tfds_sets.export(source, prepared, place, progress)
    return _photos(source, classes, rows, f"copied unchanged from the TFDS records in {prepared}.")
