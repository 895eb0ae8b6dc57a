"""The elements of two epochs of a pipeline, the faults that show in them, and whether they are the expected ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from labcourse.grading import Wrong
from labcourse.student_code import pull_with_timeout
from labkit.common.table import Table
from labkit.pipelines import same_elements

_LIMIT = 0.2  # of the random brightness
_STEP = 0.75 / 255  # two pixels are equal if they differ by less
_ROUNDED = 1.5 / 255  # the same where a random number is added to bytes: each pixel is rounded by itself
_SAME = 1e-6  # two measured shifts are of one number if they differ by less: float32 rounds a sum to 6e-8
_ROWS = 8  # that are to be black

#: Seconds that one batch may take; two epochs take less than one.
LONGEST_S = 10


@dataclass(frozen=True)
class Delivery:
    """What two epochs of a pipeline delivered.

    Parameters
    ----------
    images : ndarray of float32, shape (n, height, width, 3)
    labels : ndarray of int64, shape (n,)
    sizes : tuple of int
        Photos of each batch.
    base : ndarray of float32, shape (size, height, width, 3)
        The photos as they should come before any change, by their label, 0 to 1.
    """

    images: np.ndarray
    labels: np.ndarray
    sizes: tuple[int, ...]
    base: np.ndarray

    @property
    def whole(self) -> int:
        """Photos of one epoch."""
        return len(self.base)

    @property
    def epoch(self) -> int:
        """The same, whole batches only."""
        return self.whole - self.whole % max(self.sizes)

    @property
    def epochs(self) -> tuple[np.ndarray, np.ndarray]:
        """The labels of the first epoch and of the second, whole batches only."""
        return self.labels[: self.epoch], self.labels[self.epoch : 2 * self.epoch]

    @property
    def groups(self) -> list[set[frozenset[int]]]:
        """For each epoch, the labels that share a batch."""
        batch = max(self.sizes)
        return [{frozenset(e[i : i + batch].tolist()) for i in range(0, len(e), batch)} for e in self.epochs]

    @cached_property
    def nearest(self) -> np.ndarray:
        """The photo that each image is most like, whatever its brightness and its colours: int64, shape (n,)."""

        def small(images: np.ndarray) -> np.ndarray:
            grey = images[:, _ROWS:].mean(axis=-1)
            n, height, width = grey.shape
            blocks = grey.reshape(n, height // 8, 8, width // 8, 8).mean(axis=(2, 4)).reshape(n, -1)
            blocks = blocks - blocks.mean(axis=1, keepdims=True)
            return blocks / np.maximum(np.linalg.norm(blocks, axis=1, keepdims=True), 1e-9)

        base = small(self.base).T
        # Bytes that wrapped around are like the others again, once they are shifted back by some number.
        steps = np.rint(self.images * 255)
        tries = [self.images, *(np.mod(steps - by, 256).astype(np.float32) for by in (-40, -20, 20, 40))]
        return np.argmax(np.max([small(one) @ base for one in tries], axis=0), axis=1)

    @cached_property
    def difference(self) -> np.ndarray:
        """Each image minus the photo that it is most like, below the black rows."""
        return (self.images - self.base[self.nearest])[:, _ROWS:]

    @cached_property
    def unclipped(self) -> list[np.ndarray]:
        """The difference of each image at its pixels that were not clipped, or at all of them where all were."""
        below = self.images[:, _ROWS:]
        inside = (below > 0.002) & (below < 0.998)
        return [d[free if free.any() else ...].ravel() for d, free in zip(self.difference, inside, strict=True)]

    @cached_property
    def shift(self) -> np.ndarray:
        """Median difference of each image over its pixels that were not clipped: float64, shape (n,)."""
        return np.array([np.median(difference) for difference in self.unclipped])

    @cached_property
    def roughness(self) -> np.ndarray:
        """Standard deviation of the same differences: 0 if an image changed as a whole."""
        return np.array([np.std(difference) for difference in self.unclipped])

    @cached_property
    def contrast(self) -> float:
        """How much the pixels of an image differ, over how much those of the photos do; the median."""
        below = [images[:, _ROWS:].std(axis=(1, 2, 3)) for images in (self.images, self.base[self.labels])]
        return float(np.median(below[0] / below[1]))

    @cached_property
    def turned(self) -> float:
        """Share of images whose means of red, green and blue are more like those of the photos the other way round."""
        means = [images[:, _ROWS:].mean(axis=(1, 2)) for images in (self.images, self.base[self.nearest])]
        image, photo = (each - each.mean(axis=1, keepdims=True) for each in means)
        return float(np.mean(np.abs(image[:, ::-1] - photo).sum(axis=1) < np.abs(image - photo).sum(axis=1)))

    @cached_property
    def jumps(self) -> float:
        """Share of the pixels that are more than half of the range away from what the others of their image say."""
        away = self.difference - self.shift[:, None, None, None]
        return float(np.mean(np.abs(away) > 0.5))

    def expected(self) -> np.ndarray:
        """Return what should have come for the labels that came, with the brightness that came."""
        made = np.clip(self.base[self.labels] + self.shift[:, None, None, None], 0, 1)
        made[:, :_ROWS] = 0
        return made


def read(dataset: Any, case: Any) -> Delivery:
    """Read two epochs of a pipeline.

    Raises
    ------
    Wrong
        If elements are not pairs of images and labels, of the right dtype and shape, there are too few, or they do
        not come in time.
    """
    photos = tf.TensorSpec([None, case.height, case.width, 3], tf.float32)
    if reason := same_elements.other_spec(dataset.element_spec, (photos, tf.TensorSpec([None], tf.int64))):
        raise Wrong(f"{reason}; a batch is a pair (images, labels), as in the pipeline of the drill")
    whole = case.size
    images, labels, sizes = [], [], []
    batches = 2 * whole // case.batch + 2
    for image, label in pull_with_timeout(dataset.take(batches), LONGEST_S, LONGEST_S):
        image, label = image.numpy(), label.numpy()
        if image.shape[1:] != (case.height, case.width, 3) or label.shape != image.shape[:1]:
            raise Wrong(f"a batch has images of shape {image.shape} and labels of shape {label.shape}; photos are "
                        f"({case.height}, {case.width}, 3) each")  # fmt: skip
        images.append(image)
        labels.append(label)
        sizes.append(len(image))
    if sizes and max(sizes) != case.batch:
        raise Wrong(f"a batch has {max(sizes)} photos; expected {case.batch} (case.batch)")
    if len(sizes) < batches:
        raise Wrong(f"the dataset ends after {sum(sizes)} photos; it has to go on from epoch to epoch (repeat)")
    label = np.concatenate(labels)
    if label.min() < 0 or label.max() >= whole:
        raise Wrong(f"labels go from {label.min()} to {label.max()}; allowed: 0 to {whole - 1}")
    base = case.truth().astype(np.float32) / np.float32(255)
    return Delivery(np.concatenate(images), label, tuple(sizes), base)


def find(facts: Delivery) -> list[str]:
    """Return the keys of all faults that the data show."""
    return [key for key, detect in DETECTORS.items() if detect(facts)]


def judge(facts: Delivery, keeps_order: bool) -> None:
    """Compare with what should have come.

    Parameters
    ----------
    facts : Delivery
    keeps_order : bool
        Whether every element comes at its place.

    Raises
    ------
    Wrong
        At the first difference.
    """
    _judge_epochs(facts, keeps_order)
    _judge_order(facts)
    if not 0 <= facts.images.min() <= facts.images.max() <= 1:
        raise Wrong(f"pixels go from {facts.images.min():.3g} to {facts.images.max():.3g}; allowed: 0 to 1")
    _judge_brightness(facts)
    bytes_ = facts.images * 255
    step = _ROUNDED if np.abs(bytes_ - np.rint(bytes_)).max() < 0.01 else _STEP
    wrong = np.abs(facts.images - facts.expected()).max(axis=(1, 2, 3)) > step
    if wrong.any():
        raise Wrong(f"the pixels of {int(wrong.sum())} of {len(wrong)} images are not what they should be")


def _judge_epochs(facts: Delivery, keeps_order: bool) -> None:
    """Check that photos come once an epoch; what fills no batch is left out, or comes first in the next epoch."""
    counts = np.bincount(facts.labels[: facts.epoch], minlength=facts.whole)
    if keeps_order and counts.max() > 1:
        raise Wrong(f"photo {int(counts.argmax())} comes {int(counts.max())} times in the first epoch")
    many = np.bincount(facts.labels[: 2 * facts.epoch])
    if many.max() > 3:
        raise Wrong(f"photo {int(many.argmax())} comes {int(many.max())} times in two epochs")
    come = len(np.unique(facts.labels))
    if come < (facts.whole if facts.epoch == facts.whole else facts.epoch):
        raise Wrong(f"in two epochs come {come} photos, expected {facts.whole}")
    if come == facts.epoch < facts.whole:
        raise Wrong(f"the same {facts.whole - come} of {facts.whole} photos never come; others are to be left out "
                    "in each epoch")  # fmt: skip
    second = (facts.labels[length : 2 * length] for length in (facts.epoch, facts.whole))
    if keeps_order and all(len(np.unique(labels)) < len(labels) for labels in second):
        raise Wrong("some photos come again before the second epoch has brought each of them once")


def _judge_order(facts: Delivery) -> None:
    """Check that epochs differ in the order of their photos, and not only in that of their batches."""
    for start in (facts.epoch, facts.whole):
        if np.array_equal(facts.epochs[0], facts.labels[start : start + facts.epoch]):
            raise Wrong("photos come in the same order in both epochs; they are to be shuffled anew for each")
    if facts.groups[0] == facts.groups[1]:
        raise Wrong("the same photos share a batch in both epochs; they are to be shuffled, and not the batches")


def _judge_brightness(facts: Delivery) -> None:
    """Check that each photo gets a number of its own, each time."""
    if np.abs(facts.shift).max() > _LIMIT + _ROUNDED:
        raise Wrong(f"a photo is changed by {np.abs(facts.shift).max():.2f}; allowed: -0.2 to 0.2")
    # By the distance to the next one: roundings of one number would now and then fall into two cells of a grid.
    count, drawn = len(facts.shift), 1 + int(np.count_nonzero(np.diff(np.sort(facts.shift)) > _SAME))
    if 1 < drawn <= count / 2:  # of the hundred steps that bytes have, 80 draws hit 56
        raise Wrong(f"{count} photos share {drawn} numbers; each photo is to get one of its own each time")
    # Of 80 numbers from -0.2 to 0.2 the least and the largest lie closer together in four checks of ten million.
    if np.ptp(facts.shift) < 1.6 * _LIMIT:
        raise Wrong(f"brightness varies by {np.ptp(facts.shift):.2f} only; it is to be drawn anew from -0.2 to 0.2")


# -- detectors -----------------------------------------------------------------------------


def _a_photo(facts: Delivery) -> bool:
    """Return whether images are photos in their colours and their range, so that their brightness can be measured."""
    return facts.contrast > 0.1 and facts.turned < 0.5 and facts.jumps < 0.002


def _frozen(facts: Delivery) -> bool:
    """Return whether all photos got the same number; a number of 0 is none, and a draw within 1e-6 of it is rare."""
    return _a_photo(facts) and np.ptp(facts.shift) < 0.002 and float(np.abs(facts.shift).max()) > _SAME


def _noise(facts: Delivery) -> bool:
    return _a_photo(facts) and float(np.median(facts.roughness)) > 0.02


def _cached(facts: Delivery) -> bool:
    if not _a_photo(facts) or _noise(facts) or np.ptp(facts.shift) < 0.002:
        return False
    first, again = facts.epochs
    known = dict(zip(first.tolist(), facts.shift.tolist(), strict=False))
    pairs = [(known[k], s) for k, s in zip(again.tolist(), facts.shift[facts.epoch :], strict=False) if k in known]
    return bool(pairs) and all(abs(a - b) < 0.002 for a, b in pairs)


def _blurred(facts: Delivery) -> bool:
    """Return whether many photos come again before the others: a map that keeps no order mixes up a few."""
    return len(set(facts.epochs[0].tolist())) <= 0.85 * facts.epoch


#: Key of a fault to its detector.
DETECTORS: dict[str, Callable[[Delivery], bool]] = {
    "remainder": lambda facts: len(set(facts.sizes)) > 1,
    "scaled_twice": lambda facts: facts.contrast < 0.1,
    "bgr": lambda facts: facts.contrast > 0.1 and facts.turned > 0.9,
    "strange_labels": lambda facts: facts.contrast > 0.1 and float(np.mean(facts.nearest != facts.labels)) > 0.1,
    "overflow": lambda facts: facts.contrast > 0.1 and facts.turned < 0.5 and facts.jumps > 0.002,
    "discarded": lambda facts: float(facts.images[:, :_ROWS].max()) > _ROUNDED,
    "frozen_numpy": _frozen,
    "noise": _noise,
    "cached_augment": _cached,
    "blurred_epochs": _blurred,
    "shuffled_batches": lambda facts: not _blurred(facts) and facts.groups[0] == facts.groups[1],
}


# -- as students see them -----------------------------------------------------------


def compare(comes: Delivery, memory: tuple[int, int], name: str) -> Table:
    """Put the numbers of a pipeline beside those of a right one; `memory` holds the photos in memory, and the room."""
    numbers = zip(_numbers(comes).items(), _numbers(_right(comes)).values(), strict=True)
    rows = [(what, number, wanted) for (what, number), wanted in numbers]
    rows.append(("decoded photos in memory, at most", f"{memory[0]:,}", f"room for {memory[1]:,}"))
    return Table(("", "comes", "should come"), rows, caption=f"Two epochs of {name}")


def _right(facts: Delivery) -> Delivery:
    """Return two epochs of the same photos as they should come."""
    draw, batch = np.random.default_rng(len(facts.base)), max(facts.sizes)
    labels = np.concatenate([draw.permutation(facts.whole)[: facts.epoch] for _ in range(2)])
    images = np.clip(facts.base[labels] + draw.uniform(-_LIMIT, _LIMIT, (len(labels), 1, 1, 1)), 0, 1)
    images[:, :_ROWS] = 0
    return Delivery(images.astype(np.float32), labels, (batch,) * (len(labels) // batch), facts.base)


def _numbers(facts: Delivery) -> dict[str, str]:
    groups = facts.groups
    shifts = {k: facts.shift[facts.labels == k][[0, -1]].round(3) + 0 for k in (0, 1) if k in facts.labels}
    own, below, words = facts.images, facts.images[:, _ROWS:], "against its original, first and last time"
    return {
        "sizes of batches": ", ".join(map(str, sorted(set(facts.sizes), reverse=True))),
        "photos that come in epoch 1": f"{len(set(facts.epochs[0].tolist()))} of {facts.epoch}",
        "batches of epoch 1 that epoch 2 repeats": f"{len(groups[0] & groups[1])} of {len(groups[0])}",
        "labels that belong to their photo": f"{100 * np.mean(facts.nearest == facts.labels):.0f} %",
        "darkest and brightest pixel": f"{own.min():.2f} to {own.max():.2f}",
        "mean of red, green, blue": ", ".join(f"{c:.2f}" for c in below.mean(axis=(0, 1, 2))),
        "mean of the first eight rows": f"{own[:, :_ROWS].mean():.2f}",
        "pixels that jumped from bright to dark, or back": f"{100 * facts.jumps:.1f} %",
        **{f"photo {k} {words}": f"{first:+.3f} and {last:+.3f}" for k, (first, last) in shifts.items()},
        "spread of that difference within a photo": f"{np.median(facts.roughness):.3f}",
    }
