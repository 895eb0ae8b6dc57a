"""Spans on one clock: the type that every recording, prediction and picture shares.

A `Trace` is a table of time spans. It is columnar (NumPy arrays), its clock is
int64 nanoseconds since the Unix epoch, and it needs the standard library and
NumPy only. What was run, and whether it was measured or modelled, stands in its
`Run`; nothing that takes a trace needs to know more.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from labkit.common.files import write_aside
from labkit.common.numbers import one_of
from labkit.timeline.run import Run

#: What a span was spent on. ``wait`` and ``train`` belong to the consumer,
#: ``kernel`` and ``copy`` to a device, the others to the input pipeline. ``transfer`` moves data between processes:
#: pickling, shared memory, pipes, a network of workers. Saved traces hold indices: a new category comes last.
CATEGORIES = tuple("wait train read decode resize map batch iterator copy kernel other transfer".split())

#: The owners of a thread of the trace. ``script`` is the program around the consumer, with its epochs and validations.
#: ``device`` is the accelerator, or a part of it. ``unit`` is a device that is none, or a part of one: the decoder of a
#: card, a link, an all-reduce. It is no thread of a processor, so nothing that counts threads or cores counts it.
THREAD_KINDS = ("consumer", "script", "pipeline", "device", "host", "unit")

#: The name of a span of category ``train`` in which a script uses the accelerator for a validation.
VALIDATION = "validation"

_FORMAT = "labkit-trace-2"


class Thread(NamedTuple):
    """One row of the timeline: its name and its kind (one of `THREAD_KINDS`)."""

    name: str
    kind: str


class Span(NamedTuple):
    """One span, for reading one by one; `Trace` itself stores columns."""

    thread: str
    name: str
    category: str
    start_ns: int
    duration_ns: int
    step: int

    @property
    def end_ns(self) -> int:
        """End of the span in nanoseconds since the epoch."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, eq=False)
class Trace:
    """A columnar table of spans, sorted by start (longer spans first on ties).

    Parameters
    ----------
    start_ns, duration_ns : ndarray of int64, shape (n,)
        Start since the Unix epoch, and length, both in nanoseconds.
    name, thread : ndarray of int32, shape (n,)
        Indices into `names` and `threads`.
    category : ndarray of int8, shape (n,)
        Indices into `CATEGORIES`.
    step : ndarray of int32, shape (n,)
        Step (batch) number where the producer of the trace knows it, else -1.
    names : tuple of str
    threads : tuple of Thread
    run : Run
        What is known about the run.

    Raises
    ------
    ValueError
        If columns differ in length, have a wrong dtype, hold an index out of range or a negative duration.
    TypeError
        If `run` is no `Run`.
    """

    start_ns: np.ndarray
    duration_ns: np.ndarray
    name: np.ndarray
    thread: np.ndarray
    category: np.ndarray
    step: np.ndarray
    names: tuple[str, ...]
    threads: tuple[Thread, ...]
    run: Run

    DTYPES: ClassVar[dict[str, type]] = {
        "start_ns": np.int64,
        "duration_ns": np.int64,
        "name": np.int32,
        "thread": np.int32,
        "category": np.int8,
        "step": np.int32,
    }

    def __post_init__(self) -> None:
        """Check the columns and put them in order."""
        for column, dtype in self.DTYPES.items():
            values = getattr(self, column)
            if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != 1:
                raise ValueError(f"{column} must be a one-dimensional array of {dtype.__name__}, got {values!r:.60}")
            if len(values) != len(self.start_ns):
                raise ValueError(f"{column} has {len(values)} rows, start_ns has {len(self.start_ns)}")
        if not isinstance(self.run, Run):
            raise TypeError(f"run is {self.run!r:.60}; allowed: a labkit.timeline.run.Run")
        for thread in self.threads:
            one_of(f"the kind of thread {thread.name!r}", thread.kind, THREAD_KINDS)
        if not len(self):
            return
        if self.duration_ns.min() < 0:
            raise ValueError(f"duration_ns holds {self.duration_ns.min()}; a span lasts 0 ns or longer")
        for column, size in (("name", len(self.names)), ("thread", len(self.threads)), ("category", len(CATEGORIES))):
            values = getattr(self, column)
            if values.min() < 0 or values.max() >= size:
                raise ValueError(f"{column} holds an index outside 0..{size - 1}: {values.min()}..{values.max()}")
        later, longer = np.diff(self.start_ns), np.diff(self.duration_ns)
        if ((later < 0) | ((later == 0) & (longer > 0))).any():
            order = np.lexsort((-self.duration_ns, self.start_ns))
            for column in self.DTYPES:
                object.__setattr__(self, column, getattr(self, column)[order])

    @classmethod
    def from_spans(cls, spans: Iterable[Span], kinds: Mapping[str, str] | None = None, **facts: Any) -> Trace:
        """Build a trace from single spans: for models, tests and small examples.

        Parameters
        ----------
        spans : iterable of Span
        kinds : mapping of thread name to kind, optional
            A thread that is not named here is of kind ``pipeline``.
        **facts
            The fields of `run`; ``origin`` defaults to ``"modelled"``.
        """
        kinds, spans = dict(kinds or {}), list(spans)
        for span in spans:
            one_of(f"the category of span {span.name!r}", span.category, CATEGORIES)
        names, threads = _numbered(s.name for s in spans), _numbered([*kinds, *(s.thread for s in spans)])
        rows = [
            (s.start_ns, s.duration_ns, names[s.name], threads[s.thread], CATEGORIES.index(s.category), s.step)
            for s in spans
        ]
        columns = np.array(rows, np.int64).reshape(-1, len(cls.DTYPES)).T
        listed = [Thread(t, kinds.get(t, "pipeline")) for t in threads]
        return cls.of_columns(columns, names, listed, Run(**{"origin": "modelled", **facts}))

    @classmethod
    def of_columns(
        cls, columns: Iterable[np.ndarray], names: Iterable[str], threads: Iterable[Thread], run: Run
    ) -> Trace:
        """Build a trace from columns of whole numbers of any width, in the order of the parameters of `Trace`."""
        cast = (column.astype(dtype) for column, dtype in zip(columns, cls.DTYPES.values(), strict=True))
        return cls(*cast, names=tuple(names), threads=tuple(threads), run=run)

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.start_ns)

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans one by one, by start."""
        order = ("thread", "name", "category", "start_ns", "duration_ns", "step")
        for thread, name, category, *numbers in zip(*(getattr(self, c).tolist() for c in order), strict=True):
            yield Span(self.threads[thread].name, self.names[name], CATEGORIES[category], *numbers)

    def __repr__(self) -> str:
        """Return origin, size and length on one line."""
        size = f"{len(self):,} spans, {len(self.threads)} threads, {self.span_ns / 1e6:,.1f} ms"
        return f"Trace({self.run.origin}, {size})"

    @property
    def end_ns(self) -> np.ndarray:
        """End of every span, int64 nanoseconds."""
        return self.start_ns + self.duration_ns

    @property
    def span_ns(self) -> int:
        """Nanoseconds from the first start to the last end; 0 for an empty trace."""
        return int(self.end_ns.max() - self.start_ns[0]) if len(self) else 0

    @property
    def window_ns(self) -> tuple[int, int]:
        """Start and end of the window: those of the run, or else of all spans; 0 and 0 without either."""
        spans = (int(self.start_ns[0]), int(self.end_ns.max())) if len(self) else (0, 0)
        return self.run.window_ns or spans

    def select(self, category: str | None = None, kind: str | None = None, name: str | None = None) -> np.ndarray:
        """Return a boolean mask, shape (n,), of the spans that match every given word.

        Raises
        ------
        ValueError
            If `category` or `kind` is not a known word.
        """
        mask = np.ones(len(self), bool)
        if category is not None:
            mask &= self.category == CATEGORIES.index(one_of("category", category, CATEGORIES))
        if kind is not None:
            one_of("kind", kind, THREAD_KINDS)
            mask &= np.array([t.kind == kind for t in self.threads], bool)[self.thread]
        if name is not None:
            mask &= np.array([n == name for n in self.names], bool)[self.name]
        return mask

    def where(self, mask: np.ndarray) -> Trace:
        """Return the spans for which `mask` (bool, shape (n,)) is true; tables and `run` are kept."""
        return replace(self, **{c: getattr(self, c)[mask] for c in self.DTYPES})

    def with_run(self, **facts: Any) -> Trace:
        """Return the same spans with other facts: `facts` replace fields of `run`."""
        return replace(self, run=replace(self.run, **facts))

    def slice(self, start_ns: int, end_ns: int) -> Trace:
        """Return the spans that touch ``[start_ns, end_ns)``, cut to it.

        Raises
        ------
        ValueError
            If `end_ns` is before `start_ns`.
        """
        if end_ns < start_ns:
            raise ValueError(f"end_ns is {end_ns}, before start_ns {start_ns}")
        inside = self.where((self.start_ns < end_ns) & ((self.end_ns > start_ns) | (self.start_ns >= start_ns)))
        start = np.maximum(inside.start_ns, start_ns)
        duration = np.minimum(inside.end_ns, end_ns) - start
        return replace(inside, start_ns=start, duration_ns=duration)

    @classmethod
    def merge(cls, *traces: Trace) -> Trace:
        """Put several traces of one origin on one clock; equal threads become one row.

        `run` is that of the first trace. Names and threads without a span are left out.

        Raises
        ------
        ValueError
            If no trace is given, or measured and modelled ones are mixed.
        """
        if not traces:
            raise ValueError("merge needs at least one trace, got none")
        origins = {t.run.origin for t in traces}
        if len(origins) > 1:
            raise ValueError(f"origins {sorted(origins)} cannot be merged: measured and modelled spans stay apart")
        names = _numbered(t.names[i] for t in traces for i in np.unique(t.name).tolist())
        threads = _numbered(t.threads[i] for t in traces for i in np.unique(t.thread).tolist())
        columns = {column: [getattr(t, column) for t in traces] for column in cls.DTYPES}
        for column, table in (("name", names), ("thread", threads)):
            places = (np.array([table.get(e, -1) for e in getattr(t, f"{column}s")], np.int32) for t in traces)
            columns[column] = [place[used] for place, used in zip(places, columns[column], strict=True)]
        found = {column: np.concatenate(parts) for column, parts in columns.items()}
        return cls(**found, names=tuple(names), threads=tuple(threads), run=traces[0].run)

    # -- files ---------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace as JSON (gzip when the name ends in ``.gz``), aside and renamed."""
        columns = {c: getattr(self, c).tolist() for c in self.DTYPES}
        tables = {"names": self.names, "threads": self.threads, "columns": columns}
        return write_aside(path, json.dumps({"format": _FORMAT, "run": asdict(self.run), **tables}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` wrote.

        Raises
        ------
        ValueError
            If the file is not a saved trace; the sentence names it.
        """
        raw = Path(path).read_bytes()
        try:
            document = json.loads(gzip.decompress(raw) if str(path).endswith(".gz") else raw)
            if document["format"] != _FORMAT:
                raise ValueError(f"its format is {document['format']!r}; record the run again")
            columns = {c: np.array(document["columns"][c], dtype) for c, dtype in cls.DTYPES.items()}
            threads = tuple(Thread(*t) for t in document["threads"])
            return cls(**columns, names=tuple(document["names"]), threads=threads, run=Run(**document["run"]))
        except Exception as error:  # of its stream, its JSON, its structure, or its numbers
            raise ValueError(f"{path} is not a trace saved by labkit ({_FORMAT}): {error}") from error


def _numbered(entries: Iterable[Any]) -> dict[Any, int]:
    """Return the place of each entry in a table that holds every entry once, in the order of the first ones."""
    return {entry: place for place, entry in enumerate(dict.fromkeys(entries))}
