"""Whether labels are those of their images: against a reference, against what is expected, and in two epochs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from labextras.checks import fingerprints, pairs_and_splits
from labextras.checks.augmentation import FAULT, OPEN, PASSED
from labextras.checks.evidence import Evidence

_APART = "images and labels were shuffled or filtered apart"
_SOFT = "labels are soft, shares of several classes; whether they belong to their images cannot be told"
_MOVED = (
    "labels are numbers, and others than expected: they may move with the image, as boxes and angles do, or be in "
    "another unit; whether they still belong to their images cannot be told"
)


def labels(facts: Evidence) -> tuple[str, str]:
    """Compare labels with the reference, image by image, or else their numbers with those expected."""
    first, truth, match, wanted = facts.first, facts.truth, facts.match, facts.labels
    if not first.labels:
        return OPEN, "" if wanted is None else "no component looks like labels; label= names one"
    if why := pairs_and_splits.in_step(facts.graph):
        return FAULT, f"{why}: {_APART}, zip them first"
    if not first.measured and (wrong := pairs_and_splits.other_labels(first, facts.second)):
        return FAULT, f"{wrong:,} elements carry another label in epoch 2 than in epoch 1: {_APART}, zip them first"
    others = wanted is not None and first.whole and not _as_often(first, wanted)
    if truth is not None and truth.labels and (match.certain or any(match.exact)):
        pairs = [(i, j) for i, j in enumerate(match.place) if j >= 0 and (match.certain or match.exact[i])]
        if first.forms.isdisjoint(truth.forms) or (first.soft and not truth.soft):
            seen = _other_form(first.soft, [(first.labels[i], match.labels_of(j)) for i, j in pairs])
        elif wrong := [i for i, j in pairs if first.labels[i] not in match.labels_of(j)]:
            if first.measured and _may_have_moved(first, truth, pairs, set(wrong)):
                return OPEN, _MOVED
            many = f"{len(wrong):,} of {len(pairs):,} images carry another label than in the reference"
            seen = FAULT, f"{many}, the first is number {wrong[0]}; {_APART}, zip them first"
        else:
            part = "" if len(pairs) == len(first) else f" (checked on {len(pairs):,} of {len(first):,})"
            seen = PASSED, f"every image has the label of the reference{part}"
        if seen[0] == FAULT or not others:
            return seen
    if others and first.soft and not wanted.soft:
        return OPEN, _SOFT
    if others and first.measured:
        known = set(wanted.labels)
        if not set(first.labels) <= known or (facts.random and _few(known, wanted)):
            return OPEN, _MOVED
    if others:
        return FAULT, "the labels of an epoch are not those expected: elements are lost, repeated or mislabelled"
    if wanted is not None and first.whole:
        return OPEN, "each label came as often as expected; whether it belongs to its image needs reference="
    if truth is not None and truth.labels:
        return OPEN, "too few images could be recognised in the reference to compare their labels; key= helps"
    return OPEN, "whether a label belongs to its image needs reference= with labels"


def _as_often(one: fingerprints.Epoch, other: fingerprints.Epoch) -> bool:
    """Return whether two epochs hold the same labels; in another form (numbers, names, one-hot) as often suffices."""
    if one.forms.isdisjoint(other.forms):
        if any(form.startswith("half") for form in one.forms | other.forms):
            return True  # different numbers become equal where they are rounded
        return sorted(Counter(one.labels).values()) == sorted(Counter(other.labels).values())
    return sorted(one.labels) == sorted(other.labels)


def _may_have_moved(
    first: fingerprints.Epoch, truth: fingerprints.Epoch, pairs: list[tuple[int, int]], wrong: set[int]
) -> bool:
    """Return whether labels that are not those of the reference may be right, as boxes are that turn with the image.

    Labels that left their images are labels of other images. Those that move with an image leave it alone where its
    pixels stay; those that are in another unit are others everywhere. A white page looks the same when it moved.
    """
    equal = {i for i, j in pairs if first.digests[i] == truth.digests[j]}
    still = {i for i in equal if not (first.small and _even(first.small[i]))}
    known = set(truth.labels)
    if all(first.labels[i] in known for i in wrong):
        return not wrong & still and _few(known, truth)
    return not wrong & still or still <= wrong


def _even(picture: np.ndarray) -> bool:
    """Return whether a thumbnail is its own mirror image, from left to right or from top to bottom."""
    square = picture.reshape(8, 8)
    return any(np.allclose(square, mirrored, atol=1e-3) for mirrored in (square[:, ::-1], square[::-1]))


def _few(known: set[bytes], epoch: fingerprints.Epoch) -> bool:
    """Return whether labels come so often that of an angle the opposite one is likely to occur, too."""
    return 2 * len(known) <= len(epoch.labels)


def _other_form(soft: bool, pairs: list[tuple[bytes, set[bytes]]]) -> tuple[str, str]:
    """Judge labels and those of the reference where they are written differently: one must always go with one."""
    pairs = [(one, min(others)) for one, others in pairs if len(others) == 1]  # copies may carry several
    ones, others = ({pair[side] for pair in pairs} for side in (0, 1))
    if 2 * len(others) > len(pairs):
        return OPEN, "labels come in another form than in the reference, and too few come twice to compare them"
    if len(set(pairs)) == len(ones) == len(others):
        return PASSED, "every image has the label of the reference, in another form"
    if soft:
        return OPEN, _SOFT
    here = "equal ones there differ here, or different ones are equal"
    return FAULT, f"labels come in another form than in the reference, and {here}; {_APART}, or two classes became one"
