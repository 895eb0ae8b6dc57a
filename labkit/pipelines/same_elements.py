"""Do two pipelines deliver the same elements? What marks an element, and how marks are compared, is said here alone.

An element is known by a digest of its values; of a batch, each row is an element. Exercises ask whether a student's
pipeline delivers what it should, `labextras.tune` whether a change keeps the elements, `labextras.checks` which ones
are lost or came twice. What a *run* delivered is another question (`labkit.recording.work`): there, labels, shapes and
counts are tallied beside the job, because to read all pixels would take too long, and augmentation changes them.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.pipelines.structure import named


def dense(value: Any) -> np.ndarray:
    """Return a tensor as an array; what is ragged or sparse is filled up."""
    tf = sys.modules.get("tensorflow")
    if tf and isinstance(value, tf.sparse.SparseTensor):
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
