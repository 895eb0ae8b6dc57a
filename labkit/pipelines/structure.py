"""What a tf.data pipeline is made of: its datasets, the graphs of their functions, and the ops of those graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
