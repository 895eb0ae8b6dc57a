"""Drill mode: labkit shows what a sick pipeline does, and leaves to the reader what is wrong with it.

A drill marks the sources of its pipeline. Everything built on a marked source is known by it, or by its files if the
source is hidden in a function (``flat_map(lambda _: dataset)``), and every trace recorded of it carries
``meta["drill"]``: timelines then show lanes and gaps without their causes, and whatever would name the fault refuses in
one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MARK = "_labkit_drill"

#: How the folders begin in which drills keep their files.
FOLDER = "labkit-drill-"

#: What stands in every view where a cause, something to blame or advice would be.
WITHHELD = "this is a drill: the cause is yours to find"


def mark(dataset: Any, name: str) -> Any:
    """Mark a tf.data.Dataset as a source of the drill `name`, and return it."""
    setattr(dataset, _MARK, name)
    return dataset


def drill_of(dataset: Any) -> str | None:
    """Return the drill that a dataset, or the dataset of an iterator, belongs to; None for all others."""
    dataset = dataset if hasattr(dataset, "_inputs") else getattr(dataset, "_dataset", dataset)
    seen = list(nodes(dataset))
    if (name := next((getattr(n, _MARK) for n in seen if hasattr(n, _MARK)), None)) is not None:
        return name
    hidden = any(FOLDER.encode() in serialized(variant) for n in seen for variant in captured(n))
    return "a drill" if hidden else None


def refuse(dataset: Any, what: str) -> None:
    """Do nothing for most datasets.

    Raises
    ------
    ValueError
        If the dataset belongs to a drill; `what` is the function that would have named the fault.
    """
    _refuse(drill_of(dataset), what)


def refuse_trace(trace: Any, what: str) -> None:
    """Do nothing for most traces.

    Raises
    ------
    ValueError
        If the trace was recorded of a drill.
    """
    _refuse(trace.meta.get("drill"), what)


def _refuse(name: str | None, what: str) -> None:
    if name:
        raise ValueError(f"{what} is off for {name}: {WITHHELD}; look at drill.timeline and drill.probe()")


def nodes(dataset: Any) -> Iterator[Any]:
    """Yield the datasets that one is made of, the last first."""
    yield dataset
    for source in getattr(dataset, "_inputs", list)():
        yield from nodes(source)


def graphs(dataset: Any) -> list[Any]:
    """Return the graphs of the functions of one node."""
    functions = (getattr(function, "function", None) for function in getattr(dataset, "_functions", list)())
    return [f.graph for f in functions if getattr(f, "graph", None) is not None]


def operations(graph: Any) -> list[Any]:
    """Return the nodes of a graph, and those of the functions that it calls."""
    inside = graph.as_graph_def()
    library = {part.name: value for part, value in inside.ListFields()}.get("library")
    return [*inside.node, *(n for f in (library.function if library else ()) for n in f.node_def)]


def captured(dataset: Any) -> list[Any]:
    """Return the variant tensors, most of them datasets, that the functions of one node take from outside."""
    return [outside for graph in graphs(dataset) for outside, _ in graph.captures if outside.dtype.name == "variant"]


def serialized(variant: Any) -> bytes:
    """Return the graph of a dataset, given as its variant tensor; nothing where it is no dataset."""
    import tensorflow as tf

    try:  # 1: what the dataset counts or draws need not be saved
        return tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1).numpy()
    except tf.errors.OpError:
        return b""
