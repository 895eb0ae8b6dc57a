"""Where bytes come from, compared: the same photos from several sources, by what each costs the processor."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labkit.common.progress import optional_bar
from labkit.common.table import Table, Tabular
from labkit.pipelines.structure import check_dataset
from labkit.recording.recorder import rounds_of


class Source(NamedTuple):
    """What one source took.

    Parameters
    ----------
    name : str
    form : str
        What arrives for a photo: ``"file"``, its bytes, or ``"pixels"``.
    cpu_us : tuple of float
        Processor time of all threads of this process for a photo, one for each round. Microseconds.
    first_ms : tuple of float
        From the first request to the first photo, one for each round. Milliseconds.
    bytes : int
        Of its files.
    """

    name: str
    form: str
    cpu_us: tuple[float, ...]
    first_ms: tuple[float, ...]
    bytes: int


@dataclass(frozen=True, repr=False)
class Extraction(Tabular):
    """Several sources of the same photos.

    Parameters
    ----------
    sources : tuple of Source
    photos : int
    """

    sources: tuple[Source, ...]
    photos: int

    @property
    def cpu_us(self) -> dict[str, float]:
        """The median of the processor time for a photo, by source; microseconds."""
        return {one.name: statistics.median(one.cpu_us) for one in self.sources}

    def times(self, one: str, other: str) -> list[float]:
        """Return how many times the processor time of `other` the source `one` takes, for each round."""
        first, second = ({source.name: source.cpu_us for source in self.sources}[name] for name in (one, other))
        return [a / b for a, b in zip(first, second, strict=True)]

    def table(self) -> Table:
        """One row for each source."""
        rows = []
        for one in self.sources:
            low, high = min(one.cpu_us), max(one.cpu_us)
            cpu = f"{statistics.median(one.cpu_us):,.0f} [{low:,.0f}–{high:,.0f}]"
            first = f"{statistics.median(one.first_ms):,.1f}"
            rows.append((one.name, one.form, cpu, f"{one.bytes / 1e6:,.2f}", first))
        head = ("source", "what arrives", "CPU µs a photo", "MB on disk", "first photo after ms")
        notes = [
            f"{self.photos:,} photos, medians of {len(self.sources[0].cpu_us)} rounds in turn with lowest and highest; "
            "all threads of this process; files in the page cache."
        ]
        return Table(head, rows, (2, 3, 4), notes, rule=True)


def compare(
    sources: Mapping[str, Any], files: Mapping[str, Any], rounds: int = 5, *, progress: bool | None = None
) -> Extraction:
    """Read each source from its beginning to its end, in turn, and return what that took.

    Parameters
    ----------
    sources : mapping of str to tf.data.Dataset
        Each ends, and its elements are (bytes of a file or pixels, label), not batched. Pixels may be of any size.
    files : mapping of str to path or paths
        The files of each source, for their size.
    rounds : int
        After one that is not counted, so that every file is in the page cache. Where LABKIT_FAST is set, one is enough.
    progress : bool, optional
        Show a bar; by default in a notebook.

    Raises
    ------
    TypeError
        If a source is no dataset.
    ValueError
        If a source never ends, delivers no photo or something else, if the sources do not deliver the same labels,
        whatever their order, or the files of a source are missing.
    """
    import tensorflow as tf

    rounds = rounds_of(rounds, "rounds")
    if not sources or set(sources) != set(files):
        raise ValueError(f"sources are {', '.join(sources) or 'none'}, files are those of {', '.join(files) or 'none'}")
    for name, dataset in sources.items():
        _check(name, dataset)
    sizes = {name: sum(Path(path).stat().st_size for path in _paths(given)) for name, given in files.items()}
    batched = {name: _batched(dataset) for name, dataset in sources.items()}
    cpu: dict[str, list[float]] = {name: [] for name in sources}
    first: dict[str, list[float]] = {name: [] for name in sources}
    with optional_bar(progress, (rounds + 1) * len(sources), "sources") as step:
        labels = {}
        for name, dataset in batched.items():
            delivered = [np.ravel(batch[-1]) for batch in dataset.as_numpy_iterator()]
            if not delivered:
                raise ValueError(f"{name} delivers no photo; allowed: one or more")
            labels[name] = np.sort(np.concatenate(delivered))
            step()
        (name, found), *others = labels.items()
        for other, those in others:
            if not np.array_equal(found, those):
                counts = f"{other} delivers {len(those):,} photos, {name} {len(found):,}"
                raise ValueError(f"{counts}, or their labels differ; compare sources of the same photos")
        for _ in range(rounds):
            for name, dataset in batched.items():
                began = time.perf_counter_ns()
                next(iter(sources[name]))
                first[name].append((time.perf_counter_ns() - began) / 1e6)
                began = time.process_time_ns()
                for _ in dataset:
                    pass
                cpu[name].append((time.process_time_ns() - began) / 1e3 / len(found))
                step()
    forms = {name: "file" if one.element_spec[0].dtype == tf.string else "pixels" for name, one in sources.items()}
    rows = (Source(name, forms[name], tuple(cpu[name]), tuple(first[name]), sizes[name]) for name in sources)
    return Extraction(tuple(rows), len(found))


def _check(name: str, dataset: Any) -> None:
    """Refuse a source that has no end, or whose elements are not a photo and its label."""
    import tensorflow as tf

    check_dataset(dataset, name)
    if int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ValueError(f"{name} never ends (repeat()); allowed: a source that ends")
    spec = dataset.element_spec
    pair = isinstance(spec, tuple) and len(spec) == 2 and all(isinstance(part, tf.TensorSpec) for part in spec)
    if not pair or (spec[1].shape.rank is not None and spec[1].shape.num_elements() != 1):
        raise ValueError(f"{name} delivers {spec}; allowed: (bytes of a file or pixels, label), not batched")


def _batched(dataset: Any) -> Any:
    """Return a source in batches of 32: Python takes its elements, and would cost more than most sources, one by one.

    Pixels whose sizes differ do not fit into one batch: of those only the labels are handed over.
    """
    import tensorflow as tf

    photo, _ = dataset.element_spec
    if photo.dtype != tf.string and not photo.shape.is_fully_defined():
        dataset = dataset.map(lambda _, label: (label,))
    return dataset.batch(32)


def _paths(given: Any) -> list[Any]:
    return [given] if isinstance(given, (str, os.PathLike)) else list(given)
