"""Which element is which: delivered elements found again among those of a reference.

Elements are matched by their keys if both sides have keys, else by equal pixels, else by the likeness of grey
thumbnails, mirrored or not. A likeness counts only if the best match is clearly better than the second best. An element
that is not recognised stays open, and nothing is concluded from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labextras.checks.fingerprints import Epoch
from labkit.pipelines import same_elements

#: Likeness is a correlation of thumbnails. A match needs that much, and a lead over the second best of that share of
#: what the second lacks.
LEAST, MARGIN = 0.75, 0.2

#: Elements up to this number are compared each with each.
_PAIRWISE = 20_000

#: Fewer elements with two outcomes each may come alike in two epochs by chance.
FEW = 16


@dataclass(frozen=True)
class Match:
    """Delivered elements and their places in the reference.

    Parameters
    ----------
    place : list of int
        For each delivered element, -1 where it was not recognised.
    exact : list of bool
        Whether it was recognised by key or by equal pixels.
    groups : list of int
        For each reference element, the first one that equals it: copies form one group.
    labels : list of bytes
        Of the reference.
    """

    place: list[int]
    exact: list[bool]
    groups: list[int]
    labels: list[bytes]

    @property
    def known(self) -> int:
        """How many were recognised."""
        return sum(j >= 0 for j in self.place)

    @property
    def certain(self) -> bool:
        """Whether all were recognised. If some were not, others may have been recognised wrongly by their likeness."""
        return self.known == len(self.place)

    @cached_property
    def compared(self) -> same_elements.Compared:
        """How many of the reference were not recognised among the delivered ones, and how many came more often."""
        return same_elements.compared((self.groups[j] for j in self.place if j >= 0), self.groups)

    @cached_property
    def _labels(self) -> dict[int, set[bytes]]:
        found: dict[int, set[bytes]] = defaultdict(set)
        for label, group in zip(self.labels, self.groups, strict=True):
            found[group].add(label)
        return found

    def labels_of(self, place: int) -> set[bytes]:
        """Return the labels of an element of the reference and of its copies."""
        return self._labels[self.groups[place]]


def match(seen: Epoch, truth: Epoch) -> Match:
    """Find the elements of `seen` in `truth`."""
    by_key = bool(seen.keys and truth.keys)
    known = truth.keys if by_key else truth.digests
    first: dict[bytes, int] = {}
    groups = [first.setdefault(mark, j) for j, mark in enumerate(known)]
    where = defaultdict(list)
    for j in reversed(range(len(known))):
        where[known[j]].append(j)
    place = [-1] * len(seen)
    for i, mark in enumerate(seen.keys if by_key else seen.digests):
        if spots := where.get(mark):
            place[i] = spots.pop() if len(spots) > 1 else spots[0]
    exact = [j >= 0 for j in place]
    rest = [i for i, j in enumerate(place) if j < 0]
    if not by_key and rest and seen.small and truth.small and len(seen) * len(truth) <= _PAIRWISE**2:
        for i, j in zip(rest, _alike(seen, truth, rest, groups), strict=True):
            place[i] = j
    return Match(place, exact, groups, truth.labels)


def likeness(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how like thumbnails are to others, mirrored or not, as correlations of shape (some, others)."""
    mirrored = some.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
    return np.maximum(some @ others.T, mirrored @ others.T)


def _alike(seen: Epoch, truth: Epoch, rest: list[int], groups: list[int]) -> list[int]:
    pictures = np.stack(truth.small)
    first = sorted(set(groups))  # copies are looked at once
    distinct = pictures[first]
    found = []
    for start in range(0, len(rest), 256):
        some = np.stack([seen.small[i] for i in rest[start : start + 256]])
        alike = likeness(some, distinct)
        best = alike.argmax(axis=1)
        second, top = np.partition(np.pad(alike, ((0, 0), (1, 0)), constant_values=-1), -2)[:, -2:].T
        good = (top >= LEAST) & (top - second >= MARGIN * (1 - second))
        found += [first[b] if g else -1 for b, g in zip(best, good, strict=True)]
    return found


def repeats(one: Epoch, other: Epoch) -> bool:
    """Return whether an epoch holds the pixels of another one again, in any order.

    If most elements are copies, as of one image that is flipped or not, equal counts of flips in two epochs are chance.
    Then only the same order is a repeat.
    """
    if len(one) != len(other) or same_elements.common(one.digests, other.digests) < len(one):
        return False
    single = sum(times == 1 for times in Counter(one.digests).values())
    return one.digests == other.digests or 2 * single >= len(one)


def differ(seen: Epoch, exactly: bool) -> bool:
    """Return whether most elements that share a key are different ones, as the photos of one person are.

    Where images are augmented, not `exactly` equal ones may be the same; their thumbnails are alike.
    """
    first: dict[bytes, int] = {}
    pairs = [(first.setdefault(key, i), i) for i, key in enumerate(seen.keys)]
    pairs = [(i, j) for i, j in pairs if i != j]
    others = [(i, j) for i, j in pairs if seen.digests[i] != seen.digests[j]]
    if not exactly and seen.small:
        others = [(i, j) for i, j in others if likeness(seen.small[i], seen.small[j][None]).max() < LEAST]
    return 2 * len(others) > len(pairs)


def twins(seen: Epoch, found: Match) -> bool | None:
    """Return whether elements that are copies in the reference came out equal; None if there are too few to tell."""
    members: dict[int, list[bytes]] = defaultdict(list)
    for i, j in enumerate(found.place):
        if j >= 0:
            members[found.groups[j]].append(seen.digests[i])
    sizes = Counter(found.groups)
    large = [marks for group, marks in members.items() if len(marks) >= 8 and sizes[group] >= 8]
    return all(len(set(marks)) == 1 for marks in large) if large else None
