"""Silent drills: a pipeline that runs and delivers, and costs accuracy. Its code is not shown; its data are measured.

A drill gives what a network learns from, epoch by epoch, the photos that should come, and the functions that turn a
file into pixels in training and in serving. One of all that is wrong.
"""

from __future__ import annotations

import textwrap
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from labcourse import gradebook
from labcourse.drills.naming import drawn, listed, named
from labcourse.drills.sick_jobs import WORDS
from labcourse.grading import CheckResult, Wrong, judge
from labcourse.student_code import call
from labcourse.training import normalised
from labextras import checks
from labkit.common.numbers import whole
from labkit.sources import photos, pixels
from labkit.sources.pixels import SIZE, SmallPhotos

_WORDS = WORDS["silent"]
_DIAGNOSES = dict(sorted(((key, words["diagnosis"]) for key, words in _WORDS.items()), key=lambda item: item[1]))
_BATCH, _EACH, _OUT = 8, 8, 2  # photos of a batch; photos of a class to learn from, and held out
_FILES = 24


def silent(seed: int) -> SilentDrill:
    """Return a silent drill.

    Parameters
    ----------
    seed : int
        From 0 to 10**18. As many seeds in a row as there are diagnoses, counted from 0, draw each fault once.

    Raises
    ------
    ValueError
        If `seed` is no such number.
    """
    return SilentDrill(whole("the seed of a silent drill", seed, 0, 10**18))


def _key(seed: int) -> str:
    return drawn("silent", seed, _WORDS)


class SilentDrill:
    """Data with one silent fault; `silent` makes it.

    Attributes
    ----------
    seed : int
    name : str
        ``silent drill 7``.
    task : str
        What training and serving should do.
    diagnoses : tuple of str
        What can be wrong; one of them is.
    batch : int
        Photos of a batch.
    """

    batch = _BATCH
    task = (
        "Training reads a photo upright, squashes it to 48×48 pixels with antialias, in the order red, green, blue, "
        "and takes mean and deviation off. Each epoch brings each photo once, shuffled anew, mirrored at random and "
        "made brighter or darker by up to 24 of 255. Serving reads a photo in the same way, and changes nothing."
    )

    def __init__(self, seed: int) -> None:
        self.seed, self.name = seed, f"silent drill {seed}"
        self.diagnoses = tuple(_DIAGNOSES.values())

    @cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in the set of the photos to learn from, of those held out, and of those of `files`."""
        album, draw = photos.load(scale="tiny", progress=False), np.random.default_rng(self.seed)
        turned = np.array([Image.open(path).getexif().get(274, 1) != 1 for path in album.paths])
        learned, out = [], []
        for label in range(len(album.classes)):
            rows = draw.permutation(np.flatnonzero((album.labels == label) & ~turned))
            learned += rows[:_EACH].tolist()
            out += rows[_EACH : _EACH + _OUT].tolist()
        files = np.concatenate([np.flatnonzero(turned), draw.choice(np.flatnonzero(~turned), _FILES, replace=False)])
        if _key(self.seed) == "leaked":
            learned[::_EACH] = out[::_OUT]
        return draw.permutation(learned), np.array(out), draw.permutation(files)

    @cached_property
    def photos(self) -> SmallPhotos:
        """The photos to learn from, as bytes and unchanged."""
        return self._all.take(self._rows[0])

    @cached_property
    def held_out(self) -> SmallPhotos:
        """Photos that the network must not learn from, as bytes and unchanged."""
        return self._all.take(self._rows[1])

    @property
    def _all(self) -> SmallPhotos:
        return pixels.of(photos.load(scale="tiny", progress=False), progress=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of some photos, to read by `learned` and `served`."""
        album = photos.load(scale="tiny", progress=False)
        return tuple(album.paths[row] for row in self._rows[2])

    def epoch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what the network learns from in an epoch, in the order in which it comes, `batch` at a time.

        Parameters
        ----------
        number : int
            From 0 on.

        Returns
        -------
        images : ndarray of uint8, shape (n, 48, 48, 3)
            Before the division by 255.
        labels : ndarray of int64, shape (n,)

        Raises
        ------
        ValueError
            If `number` is no such number.
        """
        key, source = _key(self.seed), self.photos
        draw = np.random.default_rng([self.seed, 1, whole("number", number, least=0)])
        change = np.random.default_rng([self.seed, 2]) if key == "frozen" else draw
        flips, shifts = change.random(len(source)) < 0.5, change.integers(-24, 25, len(source))
        images = np.where(flips[:, None, None, None], source.images[:, :, ::-1], source.images).astype(np.int64)
        images += shifts[:, None, None, None]
        images = np.mod(images, 256) if key == "wraps" else np.clip(images, 0, 255)
        labels = np.roll(source.labels, 1) if key == "shifted" else source.labels
        order = _order(key, source.labels, draw)
        return images[order].astype(np.uint8), labels[order]

    def learned(self, path: str) -> np.ndarray:
        """Return a file as training reads it, before its augmentation: float32, shape (48, 48, 3)."""
        return _read(path, "")

    def served(self, path: str) -> np.ndarray:
        """Return a file as serving reads it: float32, shape (48, 48, 3)."""
        return _read(path, _key(self.seed))

    def diagnose(self, diagnosis: Any) -> CheckResult:
        """Check a diagnosis.

        Parameters
        ----------
        diagnosis : str or int
            One of `diagnoses`, or its number from 1 on.

        Returns
        -------
        CheckResult
            It never raises; a wrong one says how the fault that was named would show.
        """
        return self._judge("diagnosis", self._check, diagnosis, "choose one of drill.diagnoses")

    def _judge(self, what: str, check: Any, answer: Any, untried: str) -> CheckResult:
        return gradebook.result(judge(f"{self.name}, {what}", check, answer, untried))

    def _check(self, diagnosis: Any) -> None:
        key = named(diagnosis, _DIAGNOSES)
        if key != _key(self.seed):
            raise Wrong(f"if that were the fault, you would measure this: {_WORDS[key]['sign']}")

    def fix(self, serve: Any) -> CheckResult:
        """Check a way from a file to pixels that is to replace `served`: it has to read as training does.

        Parameters
        ----------
        serve : callable
            From the path of a file to an image, as `learned`.

        Returns
        -------
        CheckResult
            It never raises.
        """
        return self._judge("fix", self._check_fix, serve, "write a function from a path to an image")

    def _check_fix(self, serve: Any) -> None:
        try:
            found = checks.serving(self.learned, lambda path: call(serve, path), self.files)
        except ValueError as error:
            raise Wrong(str(error).replace("serve_fn", "your function")) from None
        if not found.equal:
            raise Wrong(f"it differs from training in this step: {found.first}")

    def __repr__(self) -> str:
        """Return task and diagnoses: the same text on every machine."""
        lines = [textwrap.fill(f"{self.name}. {self.task}", 79), "", "What is wrong?"]
        return "\n".join([*lines, *listed(self.diagnoses)])


def _order(key: str, labels: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return the places of the photos in an epoch."""
    shuffled = draw.permutation(len(labels))
    if key not in ("sorted", "one_class"):
        return shuffled
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    if key == "one_class":  # as many photos of each class as a batch holds
        return draw.permutation(by_class.reshape(-1, _BATCH)).ravel()
    buffer, rest, order = list(by_class[:_BATCH]), list(by_class[_BATCH:]), []
    while buffer:
        order.append(buffer.pop(int(draw.integers(len(buffer)))))
        buffer += [rest.pop(0)] if rest else []
    return np.array(order)


def _read(path: str, key: str) -> np.ndarray:
    """Return a file as pixels, with a fault of serving or as training reads it."""
    photo = Image.open(path)
    photo = (photo if key == "turned" else ImageOps.exif_transpose(photo)).convert("RGB")
    method = Image.Resampling.BILINEAR
    if key == "letterbox":
        photo = ImageOps.pad(photo, (SIZE, SIZE), method)
    elif key == "aliased":
        import tensorflow as tf

        photo = tf.image.resize(np.asarray(photo), (SIZE, SIZE))
    else:
        photo = photo.resize((SIZE, SIZE), method)
    image = np.asarray(photo, np.float32)
    image = image[..., ::-1] if key == "bgr" else image
    return image / np.float32(127.5) - 1 if key == "minus_one" else normalised(image / np.float32(255))
