"""What belongs together and what must stay apart: image and label, image and mask, training and held-out elements."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np

from labextras.checks import components, matching
from labextras.checks.augmentation import FAULT, OPEN, PASSED
from labextras.checks.evidence import Evidence
from labextras.checks.fingerprints import Epoch
from labkit.pipelines import same_elements, structure

#: Thumbnails that are that much alike are of one photo, unless many of one set are; and the share that counts as many.
_ONE_PHOTO, _MANY = 0.97, 0.02
#: A mirrored picture is recognised by that lead of its likeness.
_LEAD = 0.2
#: Standard deviations that differ by more than this factor are of other units.
_UNITS = 3.0
_APART = "images and labels were shuffled or filtered apart"
_SOFT = "labels are soft, shares of several classes; whether they belong to their images cannot be told"
_MOVED = (
    "labels are numbers, and others than expected: they may move with the image, as boxes and angles do, or be in "
    "another unit; whether they still belong to their images cannot be told"
)
_CHANGES_ORDER = ("Shuffle", "Filter", "ParallelInterleave", "IgnoreErrors")


def in_step(graph: list[structure.DatasetNode]) -> str | None:
    """Return why the parts of a zip do not keep in step, from the graph; None where nothing says so.

    Of two whole streams, as mixup takes them, each element is a pair already; a counter has no order of its own.
    """
    for node in graph:
        if node.kind != "Zip":
            continue
        parts = [part for part in node.dataset._inputs() if structure.DatasetNode(part).kind not in ("Range", "Random")]
        if len({repr(part.element_spec) for part in parts}) < 2:
            continue
        steps = [[one for one in structure.nodes(part) if one.kind in _CHANGES_ORDER] for part in parts]
        orders = [list(map(_order, some)) for some in steps]
        if any(order != orders[0] for order in orders[1:]) or any(None in order for order in orders):
            kinds = sorted({one.kind for some in steps for one in some})
            return f"a zip takes its parts from streams that {' and '.join(map(_does, kinds))} each for itself"
    return None


def _does(kind: str) -> str:
    return {"Shuffle": "shuffle", "Filter": "filter"}.get(kind, "lose elements or change their order")


def _order(node: structure.DatasetNode) -> Any:
    """Return what two nodes share that give the same order; None for one that has an order of its own."""
    if node.kind == "Shuffle":
        seeds = node.number("_seed"), node.number("_seed2")
        return (node.kind, node.number("_buffer_size"), *seeds) if any(seeds) else None
    return (node.kind, sorted(node.ops)) if node.kind == "Filter" else None


def other_labels(first: Epoch, second: Epoch) -> int:
    """Return how many elements carry another label in the second epoch, of those that are there once in both."""
    if not first.labels or Counter(first.labels) != Counter(second.labels):  # others are drawn in each epoch
        return 0
    seen: list[dict[bytes, bytes]] = []
    for epoch in (first, second):
        marks = epoch.keys or epoch.features
        once = {mark for mark, times in Counter(marks).items() if times == 1}
        seen.append({mark: label for mark, label in zip(marks, epoch.labels, strict=True) if mark in once})
    return sum(seen[1].get(mark, label) != label for mark, label in seen[0].items())


def labels(facts: Evidence) -> tuple[str, str]:
    """Compare labels with the reference, image by image, or else their numbers with those expected."""
    first, truth, match, wanted = facts.first, facts.truth, facts.match, facts.labels
    if not first.labels:
        return OPEN, "" if wanted is None else "no component looks like labels; label= names one"
    if why := in_step(facts.graph):
        return FAULT, f"{why}: {_APART}, zip them first"
    if not first.measured and (wrong := other_labels(first, facts.second)):
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


def _as_often(one: Epoch, other: Epoch) -> bool:
    """Return whether two epochs hold the same labels; in another form (numbers, names, one-hot) as often suffices."""
    if one.forms.isdisjoint(other.forms):
        if any(form.startswith("half") for form in one.forms | other.forms):
            return True  # different numbers become equal where they are rounded
        return sorted(Counter(one.labels).values()) == sorted(Counter(other.labels).values())
    return sorted(one.labels) == sorted(other.labels)


def _may_have_moved(first: Epoch, truth: Epoch, pairs: list[tuple[int, int]], wrong: set[int]) -> bool:
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


def _few(known: set[bytes], epoch: Epoch) -> bool:
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


def left_behind(facts: Evidence) -> tuple[str, str]:
    """Look for images that were mirrored and whose mask or box was not: in another epoch, the same one goes with it."""
    together: dict[bytes, list[np.ndarray]] = defaultdict(list)
    for epoch in filter(None, (facts.first, facts.second, facts.truth)):
        for mark, small in zip(epoch.companions, epoch.small, strict=False):
            together[mark].append(small.reshape(8, 8))
    groups = [pictures for pictures in together.values() if 1 < len(pictures) <= 8]
    if not groups:
        return OPEN, "no mask or box came twice, so nothing shows whether it moves with its image; reference= helps"
    mirrored = 0
    for pictures in groups:
        for other in pictures[1:]:
            ways = [(pictures[0] * turned).sum() for turned in (other, other[:, ::-1], other[::-1])]
            mirrored += max(ways[1:]) > max(0.9, ways[0] + _LEAD)
    if mirrored:
        return FAULT, f"{mirrored:,} images came mirrored with the same mask or box: change both in one function"
    return PASSED, "where a mask or a box is the same, its image is not mirrored"


def leaked(facts: Evidence) -> tuple[str, str]:
    """Look for held-out elements in the training, in two epochs of both: another split may be drawn in each."""
    sides = itertools.product((facts.first, facts.second), (facts.held.first, facts.held.second))
    seen = []
    for first, held in sides:
        seen.append(_leaked(first, held))
        if seen[-1][0] == FAULT:
            return seen[-1]
    return seen[0]


def _leaked(first: Epoch, held: Epoch) -> tuple[str, str]:
    """Look for elements that are in both sets, also mirrored, brighter, or of another size."""
    marks = [epoch.keys if first.keys and held.keys else epoch.features for epoch in (first, held)]
    if not (marks[0] and marks[1]):
        return OPEN, "one of the two sets is empty"
    known = set(marks[0])
    shared = sum(mark in known for mark in marks[1]) if len(known) > (1 - 10 * _MANY) * len(marks[0]) else 0
    how = "the same key" if first.keys and held.keys else "equal in every value"
    if not shared and first.small and held.small and len(first) * len(held) <= 10**8:
        mine, theirs = np.stack(first.small), np.stack(held.small)
        usual = _alike(mine, mine, own=True)
        if usual > _MANY:
            return OPEN, "many images of one set look alike, so thumbnails do not tell which are in both; key= helps"
        shared, how = round(_alike(theirs, mine) * len(theirs)), "as thumbnails, mirrored or not"
        if shared <= usual * len(theirs):
            shared = 0
    if shared:
        seen = f"{shared:,} of {len(held):,} held-out elements are in the training, {how}"
        cause = "shuffle without reshuffle_each_iteration=False before take and skip"
        return FAULT, f"{seen}; look for {cause}, or files of both sets in one list"
    return PASSED, "no held-out element was seen in the training"


def _alike(some: np.ndarray, others: np.ndarray, own: bool = False) -> float:
    """Return the share of thumbnails that are those of others, mirrored or not; `own` if both are one set."""
    found = 0
    for start in range(0, len(some), 512):
        part = some[start : start + 512]
        likeness = matching.likeness(part, others)
        if own:
            likeness[np.arange(len(part)), start + np.arange(len(part))] = 0
        found += int((likeness.max(axis=1) > _ONE_PHOTO).sum())
    return found / max(1, len(some))


def split(facts: Evidence) -> tuple[str, str]:
    """Compare a held-out set with the training: its classes, its units, and that it is the same in every epoch."""
    first, held, again = facts.first, facts.held.first, facts.held.second
    labels = facts.label, facts.held.label
    wrong = []
    if held.endless:
        wrong.append("it never ends: no repeat() in what is held out")
    lasts = same_elements.common(held.digests, again.digests) == min(len(held), len(again))
    if not lasts and structure.draws(facts.held.graph):
        wrong.append("its elements change from epoch to epoch: a map draws random numbers, as for training")
    doubled = len(held) - len(set(held.keys or held.digests))
    if doubled and doubled > len(first) - len(set(first.keys or first.digests)):
        wrong.append(f"{doubled:,} of its elements come more than once")
    classes = [set(epoch.labels) for epoch in (first, held)]
    if all(4 * len(some) <= len(epoch) for some, epoch in zip(classes, (first, held), strict=True)) and all(classes):
        if first.forms.isdisjoint(held.forms):
            wrong.append("its labels have another form than those of the training")
        elif missing := len(classes[0] - classes[1]):
            wrong.append(f"{missing} of {len(classes[0])} labels of the training never come in it")
        elif missing := len(classes[1] - classes[0]):
            wrong.append(f"{missing} of its {len(classes[1])} labels never come in the training")
    for name, part in first.parts.items():
        other = held.parts.get(name)
        if other is None or part.kind not in "fi" or name in labels or not (part.deviation and other.deviation):
            continue
        ratio = other.deviation / part.deviation
        far = abs(other.mean - part.mean) > _UNITS * max(part.deviation, other.deviation)
        if min(part.count, other.count) >= components.FEW and (not 1 / _UNITS < ratio < _UNITS or far):
            here, there = (f"{one.mean:.3g} ± {one.deviation:.3g}" for one in (other, part))
            cause = "as where a normalisation is forgotten or done twice"
            wrong.append(f"{name} is in other units: {here} here, {there} in the training, {cause}")
    if wrong:
        return FAULT, "; ".join(wrong)
    return PASSED, "the held-out set ends, stays as it is, and has labels and units of the training"
