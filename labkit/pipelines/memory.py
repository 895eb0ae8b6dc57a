"""Memory that a cache will take, said before it is taken: an estimate, and a refusal instead of a dead kernel.

A cache in memory keeps every tensor of every element as it is. Where the shapes are fixed, its size is
arithmetic; where images differ in size, or elements are strings, some elements are measured and the rest is taken to
be like them.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit.common.numbers import number, whole
from labkit.common.table import Table

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
class Choices:
    """What several caches would take, beside the memory that is free; `bytes` is a dict for a chart."""

    estimates: Mapping[str, Estimate]
    available_bytes: int

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of each choice."""
        return {name: e.bytes for name, e in self.estimates.items()}

    @property
    def table(self) -> Table:
        """One row for each choice: its size, its share of the free memory, and whether it fits."""
        free = self.available_bytes
        head = ("cache", "per element", "RAM", f"of {size(free)} free", "fits")
        rows = [
            (name, size(e.element_bytes), size(e.bytes), f"{e.bytes / max(1, free):.1%}", _fits(e, free))
            for name, e in self.estimates.items()
        ]
        return Table(head, rows, right=range(1, 5))

    def __repr__(self) -> str:
        """Return the table as text."""
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def _fits(found: Estimate, free: float) -> str:
    return "yes" if found.high_bytes <= free * SHARE else "no"


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

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"dataset is a {type(dataset).__name__}; allowed: a tf.data.Dataset")
    whole("sample", sample, 1)
    if elements is not None:
        whole("elements", elements, 0)
    known = int(dataset.cardinality())
    if known == tf.data.INFINITE_CARDINALITY and elements is None:
        raise ValueError("the dataset never ends, and a cache of it never stops growing: cache before repeat()")
    length = elements if elements is not None else known if known >= 0 else None
    specs = tf.nest.flatten(dataset.element_spec)
    if length is not None and all(_fixed(spec) for spec in specs):
        return Estimate(length, float(sum(spec.shape.num_elements() * spec.dtype.size + OVERHEAD for spec in specs)))
    sizes, ended = [], False
    source = iter(dataset)
    for _ in range(sample if length is None else min(sample, length)):
        element = next(source, None)
        if element is None:
            ended = True
            break
        sizes.append(sum(_bytes(part) for part in tf.nest.flatten(element, expand_composites=True)))
    if length is None and not ended:
        raise ValueError(
            f"TensorFlow does not know how many elements the dataset has, and it has more than the {sample} measured; "
            "say elements="
        )
    length = len(sizes) if length is None else length
    if not sizes:
        return Estimate(length, 0.0)
    all_seen = len(sizes) >= length
    error = 0.0 if all_seen or len(sizes) < 2 else 2 * float(np.std(sizes, ddof=1)) / math.sqrt(len(sizes))
    return Estimate(length, float(np.mean(sizes)), error, len(sizes))


def _fixed(spec: Any) -> bool:
    import tensorflow as tf

    return isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() and spec.dtype.size > 0 and not (
        spec.dtype == tf.string or spec.dtype == tf.variant or spec.dtype == tf.resource
    )  # fmt: skip


def _bytes(part: Any) -> int:
    """Return the bytes of one tensor, strings with their text."""
    values = np.asarray(part)
    if values.dtype != object:
        return values.nbytes + OVERHEAD
    # A string has a header of 24 bytes, which holds up to 22 bytes of text itself.
    return OVERHEAD + sum(24 + (len(text) if len(text) > 22 else 0) for text in values.ravel().tolist())


def choices(variants: Mapping[str, Any]) -> Choices:
    """Return what a cache of each of several datasets would take.

    Parameters
    ----------
    variants : mapping of name to tf.data.Dataset or Estimate

    Raises
    ------
    TypeError, ValueError
        As `estimate`.
    """
    found = {name: d if isinstance(d, Estimate) else estimate(d) for name, d in variants.items()}
    return Choices(found, available()[0])


def guard(
    dataset: Any, *, elements: int | None = None, share: float = SHARE, available_bytes: int | None = None
) -> Estimate:
    """Return the estimate of a cache in memory, or refuse it before it begins.

    Parameters
    ----------
    dataset, elements
        As `estimate`.
    share : float
        Of the free memory that the cache may take, above 0, up to 1.
    available_bytes : int, optional
        Free memory; measured if not given.

    Raises
    ------
    MemoryError
        If it does not fit: one sentence with the estimate, what is free, and what to do.
    TypeError, ValueError
        As `estimate`.
    """
    number("share", share, above=0, most=1)
    free, whose = available() if available_bytes is None else (available_bytes, "as given")
    whole("available_bytes", free, 0)
    found = estimate(dataset, elements=elements)
    if found.high_bytes > share * free:
        raise MemoryError(
            f"this cache would take about {size(found.high_bytes)} ({found.elements:,} elements of "
            f"{size(found.element_bytes)}), and {share:.0%} of the {size(free)} that are free ({whose}) is "
            f"{size(share * free)}: cache earlier in the pipeline, where elements are smaller (bytes of the "
            "file, uint8 before float32), or fewer elements, or into a file"
        )
    return found


def cache(dataset: Any, file: str | os.PathLike[str] = "", *, elements: int | None = None, share: float = SHARE) -> Any:
    """Return ``dataset.cache(file)``, or refuse it where memory (or, with a file, the disk) has no room.

    Raises
    ------
    MemoryError
        As `guard`.
    OSError
        If the disk has no room; nothing is written then.
    TypeError, ValueError
        As `estimate`.
    """
    name = os.fspath(file)
    if not name:
        guard(dataset, elements=elements, share=share)
        return dataset.cache()
    folder = Path(name).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {folder} of the cache does not exist")
    found, free = estimate(dataset, elements=elements), shutil.disk_usage(folder).free
    if found.high_bytes > share * free:
        raise OSError(
            errno.ENOSPC,
            f"this cache would take about {size(found.high_bytes)}, and {size(free)} are free in {folder}: cache "
            "earlier in the pipeline, where elements are smaller",
        )
    return dataset.cache(name)


def available() -> tuple[int, str]:
    """Return the bytes that this process may still take, and whose limit that is: the machine's or a container's."""
    import psutil

    machine = int(psutil.virtual_memory().available)
    boxed = container()
    return (boxed, "limit of the container") if boxed is not None and boxed < machine else (machine, "of this machine")


def container(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes left in this process's control group (v1 or v2) and those around it; None without a limit.

    File pages that the kernel would drop first (``inactive_file``) count as free.

    Source: Linux kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    left = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            base, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        here = base / path.strip("/")
        for place in [here, *here.parents]:
            if place.is_relative_to(base) and (one := _left(place, *names)) is not None:
                left.append(one)
    return min(left, default=None)


def _left(place: Path, limit: str, usage: str, reclaim: str) -> int | None:
    try:
        most, used = (place / limit).read_text().strip(), int((place / usage).read_text())
        stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if most == "max" or int(most) >= 2**60:  # v1 writes "no limit" as a number near 2^63
        return None
    return max(0, int(most) - used + int(stat.get(reclaim, 0)))


def size(count: float) -> str:
    """Return bytes as text with three digits, in steps of 1,000: ``602 kB``, ``1.93 GB``."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 999.5 and len(units) > 1:
        count /= 1000
        units.pop(0)
    unit = units[0]
    return f"{count:.0f} {unit}" if count >= 99.5 or unit == "B" else f"{count:.3g} {unit}"
