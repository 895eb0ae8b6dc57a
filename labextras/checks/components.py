"""What any component of an element may hide: numbers that are none, one value for all, texts without words, odd ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from labextras.checks.augmentation import FAULT, OPEN, PASSED

if TYPE_CHECKING:
    from labextras.checks.evidence import Evidence

#: Fewer elements than these may well be alike.
FEW = 16
#: Where more of the texts cannot be read than this share, they are bytes and no texts.
_BINARY = 0.5
#: Components that may be the same in all elements, by a part of their names; and the third of a tuple, as Keras has it.
_MAY_BE_ONE = ("mask", "weight", "type")


@dataclass
class Part:
    """What was seen of one component in all elements of an epoch; elements are counted from 0.

    Parameters
    ----------
    kind : str
        ``"f"`` for floats, ``"i"`` for whole numbers and truths, ``"text"``.
    broken, empty, unread, inside : list of int
        Elements that hold NaN or infinite values; that are empty texts; texts that are no UTF-8; rows of whole numbers
        that end in zeros, as filled up, and hold zeros before.
    low, high : float
        The smallest and the largest finite value.
    total, squares, values : float
        Sum of the finite values and of their squares, and how many there are.
    first : ndarray or None
        That of the first element.
    same : bool
        Whether all elements are equal.
    scalar : bool
        Whether an element is a single value.
    count : int
        Elements.
    ends : Counter of float
        How many rows of numbers end in this value, several times in a row and nowhere before.
    filled : Counter of float
        How many values those are, without the first of each row.
    """

    kind: str = ""
    broken: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    squares: float = 0.0
    values: int = 0
    first: np.ndarray | None = None
    same: bool = True
    scalar: bool = True
    count: int = 0
    ends: Counter[float] = field(default_factory=Counter)
    filled: Counter[float] = field(default_factory=Counter)

    def add(self, array: np.ndarray) -> None:
        """Look at the component of one more element."""
        number, self.count = self.count, self.count + 1
        if self.same:
            self.first = array if self.first is None else self.first
            self.same = np.array_equal(array, self.first)
        self.scalar &= array.ndim == 0
        if array.dtype.kind in "OSU":
            self.kind = "text"
            texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.ravel().tolist()]
            self.empty += [number] * (bool(texts) and not any(one.strip() for one in texts))
            self.unread += [number] * any(b"\0" in one or one.decode(errors="ignore").encode() != one for one in texts)
        elif array.dtype.kind in "biuf" and array.size:
            self.kind = "f" if array.dtype.kind == "f" else "i"
            good = array.ravel()
            if self.kind == "f" and not (there := np.isfinite(good)).all():
                self.broken.append(number)
                good = good[there]
            if good.size:
                self.low, self.high = min(self.low, float(good.min())), max(self.high, float(good.max()))
                wide = good.astype(np.float32 if array.dtype.itemsize < 4 else np.float64, copy=False)
                self.total += float(wide.sum(dtype=np.float64))
                self.squares += float(np.dot(wide, wide))
                self.values += good.size
            if self.kind == "i" and array.ndim == 1 and array.size > 1 and not array[-1]:
                self.inside += [number] * bool((np.trim_zeros(array, "b") == 0).any())
            if array.ndim == 1 and array.size >= FEW and array[-1] == array[-2]:
                before = np.flatnonzero(array != array[-1])
                run = array.size - (before[-1] + 1 if before.size else 0)
                if array.size - before.size == run:  # a value that is data, too, comes before the end as well
                    self.ends[array[-1].item()] += 1
                    self.filled[array[-1].item()] += run

    @property
    def padded(self) -> float:
        """Share of the values, 0 to 1, that only fill rows up; 0 unless many rows end so, and not all alike."""
        value, rows = max(self.ends.items(), key=lambda one: one[1], default=(0.0, 0))
        return self.filled[value] / self.values if 2 * rows >= self.count and not self.same and self.high > 1 else 0.0

    @property
    def mean(self) -> float:
        """The mean of the finite values."""
        return self.total / max(1, self.values)

    @property
    def deviation(self) -> float:
        """Their standard deviation."""
        return max(0.0, self.squares / max(1, self.values) - self.mean**2) ** 0.5


def finite(facts: Evidence) -> tuple[str, str]:
    """Look for NaN and infinite values in every component of floats, in both epochs."""
    floats = {name: part for name, part in facts.first.parts.items() if part.kind == "f"}
    seen = "{:,} of {:,} elements hold NaN or infinite values in {}, the first is number {}"
    for epoch in (facts.first, facts.second):
        broken = {name: part for name, part in epoch.parts.items() if part.broken}
        bad = [seen.format(len(part.broken), part.count, name, part.broken[0]) for name, part in broken.items()]
        if bad:
            causes = "a division by zero, the logarithm of 0, or an empty field of a table"
            return FAULT, f"{'; '.join(bad)}; look for {causes}"
    return (PASSED, f"no NaN, nothing infinite in {', '.join(floats)}") if floats else (OPEN, "")


def constant(facts: Evidence) -> tuple[str, str]:
    """Look for components that are the same in all elements and not in the reference; for images there is `blank`."""
    label, image = facts.label, facts.layout.image
    left_out = {name for name, part in ({} if facts.truth is None else facts.truth.parts).items() if part.same}
    left_out |= set() if image is None else {facts.layout.names[image]}
    parts = {name: part for name, part in facts.first.parts.items() if name not in left_out}
    known = {name: part for name, part in parts.items() if part.count >= FEW}
    may_be_one = [name for name in known if name == "2" or any(word in name.lower() for word in _MAY_BE_ONE)]
    same = [name for name, part in known.items() if part.same and (name == label or name not in may_be_one)]
    if same:
        nothing = "all carry one label, so there is nothing to learn"
        what = nothing if label in same else "it tells elements apart no more"
        causes = "a field of another name, a default that is filled in, a filter, or one value that was captured"
        return FAULT, f"{', '.join(same)}: equal in all {known[same[0]].count:,} elements; {what}; look for {causes}"
    if not parts:
        return OPEN, ""
    return (PASSED, "every component varies") if known else (OPEN, f"fewer than {FEW} elements came")


def texts(facts: Evidence) -> tuple[str, str]:
    """Look for texts without words, and for some that cannot be read."""
    known = {name: part for name, part in facts.first.parts.items() if part.kind == "text"}
    for name, part in known.items():
        if len(part.unread) > _BINARY * part.count:
            continue
        for what, found in (("empty", part.empty), ("no UTF-8", part.unread)):
            if found:
                many = f"{len(found):,} of {part.count:,} texts of {name} are {what}, the first is number {found[0]}"
                return FAULT, f"{many}; look at the source, its encoding, and how fields are cut"
    return (PASSED, "no text is empty, all can be read") if known else (OPEN, "")


def ids(facts: Evidence) -> tuple[str, str]:
    """Compare whole numbers with how many ids there are, and look for those that stand for nothing."""
    label, known = facts.label, facts.ids
    padded = any(node.kind == "PaddedBatch" for node in facts.graph)
    numbers = {name: part for name, part in facts.first.parts.items() if part.kind == "i" and part.values}
    if not (known or padded or label in numbers):
        return OPEN, ""
    for name, most in known.items():
        if name in numbers and not 0 <= numbers[name].low <= numbers[name].high < most:
            seen = f"{name} has ids from {numbers[name].low:g} to {numbers[name].high:g}, allowed 0 to {most - 1}"
            shift = "; they begin with 1: subtract 1" if (numbers[name].low, numbers[name].high) == (1, most) else ""
            return FAULT, f"{seen}{shift or '; look at the vocabulary, and at what a table gives for unknown ones'}"
    own = numbers.get(label or "")
    if own and own.scalar and own.low == -1 and own.high > 1:
        return FAULT, f"{label} is -1 in some elements, as of a name that a table of names does not know"
    if padded:
        for name, part in numbers.items():
            if part.inside:
                many = f"{len(part.inside):,} of {part.count:,} rows of {name} hold 0 inside, and 0 fills rows up, too"
                return FAULT, f"{many}: fill up with an id of its own (padding_values=)"
    if known:
        return PASSED, f"all ids of {', '.join(known)} are known ones"
    hint = f"; {label} begins with 1: a network of {own.high:g} outputs counts from 0" if own and own.low == 1 else ""
    return OPEN, f"nothing says how many ids there are; ids={{name: number}} does{hint}"
