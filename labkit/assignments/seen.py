"""What a pipeline is made of and what comes out of it, as data: the same in a notebook and from a student's process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seen:
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
    spec : str
        Its ``element_spec``, as text.
    """

    elements: list[Any]
    ended: bool
    nodes: list[dict[str, Any]]
    spec: str

    @property
    def ops(self) -> list[str]:
        """Names of the nodes, the source first."""
        return [node["op"] for node in self.nodes]

    def node(self, op: str) -> dict[str, Any] | None:
        """Return the last node of a kind, or None."""
        return next((node for node in reversed(self.nodes) if node["op"] == op), None)


def look(function: Any, *arguments: Any, most: int = 200) -> Seen:
    """Call a function that builds a pipeline, and return what it built.

    Parameters
    ----------
    function : callable
        Of a notebook, or what the grader has in its place.
    *arguments
        Plain data: numbers, text, lists, arrays.
    most : int
        Elements to take at most: a pipeline may have no end.

    Raises
    ------
    TypeError
        If it returns no ``tf.data.Dataset``.
    """
    if not 1 <= most <= 100_000:
        raise ValueError(f"most is {most}; allowed: 1 to 100,000 elements")
    there = getattr(function, "_look", None)
    found = there(*arguments, most=most) if there else seen(function(*arguments), most)
    return Seen(**found)


def seen(dataset: Any, most: int) -> dict[str, Any]:
    """Return the fields of `Seen` of a dataset."""
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"the function should return a tf.data.Dataset, not {type(dataset).__name__}")
    elements = list(dataset.take(most + 1).as_numpy_iterator())
    ended = len(elements) <= most
    return {"elements": elements[:most], "ended": ended, "nodes": _nodes(dataset), "spec": str(dataset.element_spec)}


#: Inputs of the graph's nodes by their names in TensorFlow's op definitions.
_SETTINGS = ("buffer_size", "num_parallel_calls", "cycle_length", "block_length", "batch_size")


def _nodes(dataset: Any) -> list[dict[str, Any]]:
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset))
    graph = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    by_name, found = {node.name: node for node in graph.node}, []
    for node in graph.node:
        if not ("Dataset" in node.op and node.op not in ("DatasetToGraphV2",)):
            continue
        entry: dict[str, Any] = {"op": node.op.rstrip("V0123456789")}
        definition = op_def_registry.get(node.op)
        names = [argument.name for argument in definition.input_arg] if definition else []
        # An argument that is a list takes several inputs: count from the end for what follows it.
        for name in set(names) & set(_SETTINGS):
            place = names.index(name) - len(names)
            source = by_name.get(node.input[place].split(":")[0].lstrip("^"))
            if source is not None and source.op == "Const":
                entry[name] = int(tf.make_ndarray(source.attr["value"].tensor))
        if "deterministic" in node.attr:
            entry["deterministic"] = node.attr["deterministic"].s.decode()
        found.append(entry)
    return found
