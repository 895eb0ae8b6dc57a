"""Memory that a cache will take, said before it is taken: an estimate, and a refusal instead of a dead kernel.

A cache in memory keeps every tensor of every element as it is. Where the shapes are fixed, its size is
arithmetic; where images differ in size, or elements are strings, some elements are measured and the rest is taken to
be like them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit.common.environment import control_groups
from labkit.common.numbers import whole
from labkit.common.table import Table, Tabular
from labkit.pipelines.structure import check_dataset
from labkit.timeline.wording import size

#: Bytes that a cached tensor takes beside its values: its header, its buffer's, its place in the list. About 200 were
#: measured with TensorFlow 2.21 for half a million scalars; for images it is nothing.
OVERHEAD = 200

#: Elements that are measured where shapes do not tell.
SAMPLE = 64

#: A cache may take this share of the free memory: the pipeline, the model and the notebook need some, too.
SHARE = 0.8


@dataclass(frozen=True)
class Estimate:
    """What a cache of a dataset will take.

    Parameters
    ----------
    elements : int
        Elements of the dataset (batches, where it is batched).
    element_bytes : float
        Mean of one element, in bytes.
    error_bytes : float
        Twice the standard error of that mean; 0 where the shapes are fixed.
    measured : int
        How many elements were read to know it; 0 where the shapes are fixed.
    """

    elements: int
    element_bytes: float
    error_bytes: float = 0.0
    measured: int = 0

    @property
    def bytes(self) -> int:
        """The whole cache, in bytes."""
        return math.ceil(self.elements * self.element_bytes)

    @property
    def high_bytes(self) -> int:
        """The whole cache if the elements that were not measured are larger, in bytes."""
        return math.ceil(self.elements * (self.element_bytes + self.error_bytes))

    def __repr__(self) -> str:
        """Return one line: size, elements, and how it is known."""
        how = f"mean of {self.measured:,} measured" if self.measured else "from the shapes"
        return f"{size(self.bytes)}: {self.elements:,} elements of {size(self.element_bytes)}, {how}"


@dataclass(frozen=True, repr=False)
class Choices(Tabular):
    """The bytes of several caches, and the memory that is free; `bytes` is a dict for a chart."""

    estimates: Mapping[str, Estimate]
    available_bytes: int

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of each choice."""
        return {name: e.bytes for name, e in self.estimates.items()}

    def table(self) -> Table:
        """One row for each choice: its size, its share of the free memory, and whether it fits."""
        free = self.available_bytes
        head = ("cache", "per element", "RAM", f"of {size(free)} free", "fits")
        rows = []
        for name, e in self.estimates.items():
            fits = "yes" if e.high_bytes <= free * SHARE else "no"
            rows.append((name, size(e.element_bytes), size(e.bytes), f"{e.bytes / max(1, free):.1%}", fits))
        return Table(head, rows, right=range(1, 5))


def estimate(dataset: Any, *, elements: int | None = None, sample: int = SAMPLE) -> Estimate:
    """Return what a cache of `dataset` in memory would take.

    Parameters
    ----------
    dataset : tf.data.Dataset
        What stands before the cache.
    elements : int, optional
        How many it has, where TensorFlow does not know (after a filter, from a generator).
    sample : int
        Elements, the first ones, to measure where shapes vary or elements are strings.

    Raises
    ------
    TypeError
        If it is no dataset.
    ValueError
        If it never ends, or nobody knows its length, or an argument is out of range.
    """
    import tensorflow as tf

    check_dataset(dataset)
    whole("sample", sample, 1)
    if elements is not None:
        whole("elements", elements, 0)
    known = int(dataset.cardinality())
    if known == tf.data.INFINITE_CARDINALITY and elements is None:
        raise ValueError("the dataset never ends, and a cache of it never stops growing: cache before repeat()")
    length = elements if elements is not None or known < 0 else known
    specs = tf.nest.flatten(dataset.element_spec)
    if length is not None and all(_fixed(spec) for spec in specs):
        return Estimate(length, float(sum(spec.shape.num_elements() * spec.dtype.size + OVERHEAD for spec in specs)))
    some = dataset.take(sample if length is None else min(sample, length))
    sizes = [sum(map(_bytes, tf.nest.flatten(element, expand_composites=True))) for element in some]
    if length is None and len(sizes) == sample:
        raise ValueError(
            f"TensorFlow does not know how many elements the dataset has, and it has {sample} or more, which were "
            "measured; say elements="
        )
    length = len(sizes) if length is None else length
    if not sizes:
        return Estimate(length, 0.0)
    alone = len(sizes) >= length or len(sizes) < 2
    error = 0.0 if alone else 2 * float(np.std(sizes, ddof=1)) / math.sqrt(len(sizes))
    return Estimate(length, float(np.mean(sizes)), error, len(sizes))


def _fixed(spec: Any) -> bool:
    import tensorflow as tf

    pointers = (tf.string, tf.variant, tf.resource)  # to memory of any size
    return isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() and spec.dtype not in pointers


def _bytes(part: Any) -> int:
    """Return the bytes of one tensor, strings with their text."""
    values = np.asarray(part)
    if values.dtype != object:
        return values.nbytes + OVERHEAD
    # A string has a header of 24 bytes, which holds up to 22 bytes of text itself.
    return OVERHEAD + sum(24 + (len(text) if len(text) > 22 else 0) for text in values.ravel().tolist())


def choices(variants: Mapping[str, Any], *, sample: int = SAMPLE) -> Choices:
    """Return what a cache of each of several datasets would take.

    Parameters
    ----------
    variants : mapping of name to tf.data.Dataset or Estimate
    sample : int
        As `estimate`.

    Raises
    ------
    TypeError, ValueError
        As `estimate`.
    """
    found = {name: d if isinstance(d, Estimate) else estimate(d, sample=sample) for name, d in variants.items()}
    return Choices(found, available()[0])


def guard(dataset: Any, *, elements: int | None = None) -> Estimate:
    """Return the estimate of a cache in memory, or refuse it before it begins.

    Parameters
    ----------
    dataset, elements
        As `estimate`.

    Raises
    ------
    MemoryError
        If it does not fit into `SHARE` of the free memory: the estimate, what is free, and what to do.
    TypeError, ValueError
        As `estimate`.
    """
    free, source = available()
    found = estimate(dataset, elements=elements)
    if found.high_bytes > SHARE * free:
        raise MemoryError(
            f"this cache would take about {size(found.high_bytes)} ({found.elements:,} elements of "
            f"{size(found.element_bytes)}), and {SHARE:.0%} of the {size(free)} that are free ({source}) is "
            f"{size(SHARE * free)}: cache earlier in the pipeline, where elements are smaller (bytes of the "
            "file, uint8 before float32), or fewer elements, or into a file"
        )
    return found


def cache(dataset: Any, *, elements: int | None = None) -> Any:
    """Return ``dataset.cache()``, or refuse it where memory has no room; parameters and errors are those of `guard`."""
    guard(dataset, elements=elements)
    return dataset.cache()


def available() -> tuple[int, str]:
    """Return the bytes that this process may still take, and whose limit that is: the machine's or a container's."""
    import psutil

    machine = int(psutil.virtual_memory().available)
    boxed = container()
    return (boxed, "limit of the container") if boxed is not None and boxed < machine else (machine, "of this machine")


#: What a control group says of its memory: limit, usage, and what could be dropped; by whether it is of version 1.
_FILES = {
    False: ("memory.max", "memory.current", "inactive_file"),
    True: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def container(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes left in this process's control group (v1 or v2) and those around it; None without a limit.

    File pages that the kernel would drop first (``inactive_file``) count as free.

    Source: Linux kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory.
    """
    left = [_left(place, *_FILES[first]) for place, first in control_groups("memory", own, root)]
    return min((one for one in left if one is not None), default=None)


def _left(place: Path, limit: str, usage: str, reclaim: str) -> int | None:
    try:
        most, used = (place / limit).read_text().strip(), int((place / usage).read_text())
        stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if most == "max" or int(most) >= 2**60:  # v1 writes "no limit" as a number near 2^63
        return None
    return max(0, int(most) - used + int(stat.get(reclaim, 0)))
