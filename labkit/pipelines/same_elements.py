"""Do two pipelines deliver the same elements? Elements are compared here, and nowhere else.

An element is known by a digest of its values; of a batch, each row is an element. Exercises ask whether a student's
pipeline delivers what it should, `labextras.tune` whether a change keeps the elements, `labextras.checks` which ones
are lost or came twice. What a *run* delivered is another question (`labkit.recording.work`): there, labels, shapes and
counts are tallied beside the job, because to read all pixels would take too long, and augmentation changes them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.pipelines import timed_reading
from labkit.pipelines.structure import named


def dense(value: Any) -> np.ndarray:
    """Return a tensor as an array; what is ragged or sparse is filled up."""
    import tensorflow as tf

    if isinstance(value, tf.sparse.SparseTensor):
        value = tf.sparse.todense(value)
    return np.asarray(value.to_tensor() if hasattr(value, "to_tensor") else value)


def parts(element: Any) -> list[np.ndarray]:
    """Return the components of an element as arrays; None has nothing to compare."""
    return [dense(part) for _, part in named(element) if part is not None]


def digest(value: Any) -> bytes:
    """Return 16 bytes that equal values share; numbers count by value, whatever their width."""
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        array = array.astype(np.int64)
    elif array.dtype.kind == "f":
        array = array.astype(np.float64)
    elif array.dtype.kind in "OSU":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in array.ravel().tolist()]
        return hashlib.blake2b(b"\0".join(flat), digest_size=16).digest()
    head = f"{array.dtype.kind}{array.shape}".encode()
    return hashlib.blake2b(head + np.ascontiguousarray(array).tobytes(), digest_size=16).digest()


def row_digests(element: Any, batched: bool = True) -> tuple[bytes, ...]:
    """Return a digest for each row of a batch, or one for an element that has no rows.

    A batch has none where one of its components is a single number for all, or of another length.
    """
    found = parts(element)
    lengths = {part.shape[:1] for part in found}
    rows = zip(*found, strict=True) if batched and len(lengths) == 1 and () not in lengths else [found]
    return tuple(b"".join(map(digest, row)) for row in rows)


@dataclass(frozen=True)
class Compared:
    """How the elements of one pipeline differ from those of another one.

    Parameters
    ----------
    lost, extra : int
        How many are missing, and how many came that should not, or came too often.
    repeated : bool
        Whether all that came too often are elements of the other one.
    ordered : bool
        Whether they are the same in the same order.
    """

    lost: int
    extra: int
    repeated: bool
    ordered: bool


def compared(came: Iterable[Hashable], expected: Iterable[Hashable]) -> Compared:
    """Compare marks of elements, such as digests or keys, each as often as it occurs."""
    one, other = list(came), list(expected)
    have, should = Counter(one), Counter(other)
    more = have - should
    return Compared((should - have).total(), more.total(), all(should[mark] for mark in more), one == other)


def common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return how many marks two lists share, each as often as it occurs in both."""
    return (Counter(one) & Counter(other)).total()


@dataclass
class FirstElements:
    """Elements that a pipeline delivered in some time, as digests: of its rows where it delivers batches.

    Parameters
    ----------
    digests : list of bytes
    batches : int
    complete : bool
        Whether the pipeline ended by itself.
    """

    digests: list[bytes] = field(default_factory=list)
    batches: int = 0
    complete: bool = True

    @classmethod
    def of(cls, dataset: Any, seconds: float, batched: bool = True) -> FirstElements:
        """Read a dataset for so many seconds, or until it ends.

        Raises
        ------
        TimeoutError
            If no element comes.
        """
        found = cls()
        try:
            for element in timed_reading.for_a_while(dataset, seconds):
                found.batches += 1
                found.digests += row_digests(element, batched)
        except TimeoutError:
            if not found.batches:
                raise
            found.complete = False
        return found

    def same_order(self, other: FirstElements) -> bool | None:
        """Return whether both hold the same elements, in the same order (True) or another; None where they do not.

        Where one was not read to its end, only the elements are compared that both hold, in their order.
        """
        count, both = min(len(self.digests), len(other.digests)), self.complete and other.complete
        if len(self.digests) != len(other.digests) and (both or not count):
            return None
        if self.digests[:count] == other.digests[:count]:
            return True
        found = compared(self.digests, other.digests)
        return None if not both or found.lost or found.extra else False


def close(one: Any, other: Any) -> bool:
    """Tell whether two elements are equal up to the rounding of float32."""
    ones, others = parts(one), parts(other)
    if [(part.shape, part.dtype) for part in ones] != [(part.shape, part.dtype) for part in others]:
        return False
    return all(
        np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) if a.dtype.kind == "f" else (a == b).all()
        for a, b in zip(ones, others, strict=True)
    )


def all_close(one: Any, other: Any, seconds: float) -> tuple[bool, bool]:
    """Tell whether two datasets deliver elements that are `close`, and whether all were read in so many seconds.

    Of all of them: the first ones of an epoch may be zeros, and those that a function treats in another way come later.
    """
    found = False
    read = (timed_reading.for_a_while(dataset, seconds) for dataset in (one, other))
    try:
        for pair in zip(*read, strict=False):
            found = close(*pair)
            if not found:
                break
    except TimeoutError:
        return found, False
    return found, True


def other_spec(made: Any, expected: Any) -> str | None:
    """Return how two element specs differ, or None; one may say more about a shape than the other.

    Parameters
    ----------
    made, expected : nested structure of tf.TypeSpec
    """
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(made, expected)
    except (TypeError, ValueError):
        return f"the elements are {_words(made)}, expected {_words(expected)}"
    for mine, right in zip(tf.nest.flatten(made), tf.nest.flatten(expected), strict=True):
        if type(mine) is not type(right):
            kinds = (type(spec).__name__.removesuffix("Spec") for spec in (mine, right))
            return "a component is a {}, expected a {}".format(*kinds)
        if getattr(mine, "dtype", None) != getattr(right, "dtype", None):
            return f"the dtype is {mine.dtype.name}, expected {right.dtype.name}"
        one, other = getattr(mine, "shape", None), getattr(right, "shape", None)
        if one is None or other is None or one.is_compatible_with(other):
            continue
        many = one.rank is not None and other.rank is not None and one.rank < other.rank
        return f"the shape is {one}, expected {other}" + (": batch the elements" if many else "")
    return None


def _words(spec: Any) -> str:
    return f"{spec}"[:80] if isinstance(spec, (tuple, dict)) else "single tensors"
