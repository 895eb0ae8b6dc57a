"""The nodes and the first elements of a pipeline as data: the same in a notebook and in the grader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.common.numbers import whole
from labkit.pipelines import structure


@dataclass(frozen=True)
class Inspection:
    """A `tf.data` pipeline from outside.

    Parameters
    ----------
    elements : list
        The first elements, as NumPy arrays, bytes, and tuples or dicts of these.
    ended : bool
        Whether the pipeline has no more than these.
    nodes : list of dict
        Its nodes, the source first: ``op`` (the name without version, as in ``"ParallelMapDataset"``), and what is
        constant of its settings: ``buffer_size``, ``num_parallel_calls``, ``cycle_length``, ``block_length``,
        ``batch_size``, ``deterministic``. -1 stands for AUTOTUNE.
    caches : list of dict
        For each cache: ``ops``, the nodes that feed it; ``elements``, their first elements, each a tuple of its parts,
        or None if these nodes alone give no element; ``in_memory``, False if the cache has the name of a file.
    """

    elements: list[Any]
    ended: bool
    nodes: list[dict[str, Any]]
    caches: list[dict[str, Any]]

    @property
    def ops(self) -> list[str]:
        """Names of the nodes, the source first."""
        return [node["op"] for node in self.nodes]

    def node(self, op: str) -> dict[str, Any] | None:
        """Return the last node of a kind, or None."""
        return next((node for node in reversed(self.nodes) if node["op"] == op), None)


def inspect_pipeline(function: Any, *arguments: Any, most: int = 200) -> Inspection:
    """Call a function that builds a pipeline, and return what it built.

    Parameters
    ----------
    function : callable
        Of a notebook, or what stands for it in the grader.
    *arguments
        Plain data: numbers, text, lists, arrays.
    most : int
        Elements to take at most: a pipeline may have no end.

    Raises
    ------
    TypeError
        If it returns no ``tf.data.Dataset``.
    """
    most = whole("most", most, 1, 100_000, unit="of elements")
    elsewhere = getattr(function, "inspect_pipeline", None)  # the grader's, whose function lives in another process
    found = elsewhere(*arguments, most=most) if elsewhere else inspect_dataset(function(*arguments), most)
    return Inspection(**found)


def inspect_dataset(dataset: Any, most: int) -> dict[str, Any]:
    """Return the fields of `Inspection` of a dataset."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"the function should return a tf.data.Dataset, not {type(dataset).__name__}")
    # A class of the student, or a changed object, may show one pipeline and yield another. So TensorFlow's own variant
    # of the dataset is taken once, and all results come from it.
    variant = tf.data.experimental.to_variant(dataset)
    made = tf.data.experimental.from_variant(variant, dataset.element_spec)
    elements = list(made.take(most + 1).as_numpy_iterator())
    graph = structure.serialized(variant)
    return {
        "elements": elements[:most],
        "ended": len(elements) <= most,
        "nodes": _nodes(graph, _is_ordered(graph)),
        "caches": _caches(graph, most),
    }


#: Inputs of the graph's nodes by their names in TensorFlow's op definitions.
_SETTINGS = ("buffer_size", "num_parallel_calls", "cycle_length", "block_length", "batch_size")


def _name(node: Any) -> str:
    return node.op.rstrip("V0123456789")


def _is_ordered(graph: Any) -> bool:
    """Tell whether the options of a pipeline leave its order alone."""
    from tensorflow.core.framework import dataset_options_pb2

    ordered = True
    for node in structure.transformations(graph.node):
        if _name(node) == "OptionsDataset":
            found = dataset_options_pb2.Options.FromString(node.attr["serialized_options"].s)
            ordered = found.deterministic if found.HasField("deterministic") else ordered
    return ordered


def _nodes(graph: Any, ordered: bool) -> list[dict[str, Any]]:
    named, found = {node.name: node for node in graph.node}, []
    for node in structure.transformations(graph.node):
        known = structure.settings(node, named)
        entry: dict[str, Any] = {"op": _name(node)} | {name: known[name] for name in _SETTINGS if name in known}
        if "deterministic" in node.attr:
            entry["deterministic"] = node.attr["deterministic"].s.decode()
            if entry["deterministic"] == "default" and not ordered:  # tf.data.Options decides for the whole pipeline
                entry["deterministic"] = "false"
        found.append(entry)
    return found


def _caches(graph: Any, most: int) -> list[dict[str, Any]]:
    named, found = {node.name: node for node in graph.node}, []
    every = structure.transformations(graph.node)
    for cache in (node for node in every if _name(node) == "CacheDataset"):
        feeding, left = set(), structure.inputs(cache)
        while left:
            name = left.pop()
            if name not in feeding:
                feeding.add(name)
                left += structure.inputs(named[name])
        ops = [_name(node) for node in every if node.name in feeding]
        in_memory = named[structure.inputs(cache)[1]].attr["value"].tensor.string_val == [b""]  # the name of its file
        found.append({"ops": ops, "elements": _fed(graph, cache, most), "in_memory": in_memory})
    return found


def _fed(graph: Any, cache: Any, most: int) -> list[Any] | None:
    """Return the first elements that a cache is given: its input, run as a pipeline of its own."""
    import tensorflow as tf

    cut = tf.compat.v1.GraphDef.FromString(graph.SerializeToString())
    next(node for node in cut.node if node.op == "_Retval").input[0] = cache.input[0]
    types, shapes = cache.attr["output_types"].list.type, cache.attr["output_shapes"].list.shape
    spec = tuple(tf.TensorSpec(shape, tf.as_dtype(kind)) for kind, shape in zip(types, shapes, strict=True))
    try:
        variant = tf.raw_ops.DatasetFromGraph(graph_def=cut.SerializeToString())
        return list(tf.data.experimental.from_variant(variant, spec).take(most).as_numpy_iterator())
    except tf.errors.OpError:
        return None
