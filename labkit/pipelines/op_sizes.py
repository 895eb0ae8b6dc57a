"""How much the operations of a pipeline make: values and bytes, by the shapes in its graph and by a recording.

The graph of a function holds the shapes that are known beforehand. What they leave open, as the size of a photo, a
recording knows where TensorFlow's pool for tensors tells the profiler what is allocated. An operation that allocates
nothing works in place, on what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labkit.pipelines.structure import called_by, nodes
from labkit.timeline.run import Made
from labkit.timeline.wording import short_op

#: Bytes of a value whose type has no fixed size; a text of up to 22 bytes.
_TEXT = 24


def made(dataset: Any, names: Iterable[str], allocated: Mapping[str, float]) -> dict[str, Made]:
    """Return what operations and batch nodes of a pipeline make in a run, by their names in a recording, where known.

    Parameters
    ----------
    dataset : tf.data.Dataset
    names : iterable of str
        Of the spans of the recording.
    allocated : mapping of str to float
        Bytes that a run of them allocates, by these names; empty where nobody says.
    """
    try:
        graphs = _Graphs(dataset)
    except (AttributeError, ValueError, RuntimeError):  # a dataset that was built inside a graph
        return {}
    found: dict[str, Made] = {}
    of_op: dict[Any, list[str]] = {}
    for name in names:
        if (op := next((graphs.ops[part] for part in _endings(name) if part in graphs.ops), None)) is not None:
            of_op.setdefault(op, []).append(name)
        elif name in allocated and short_op(name).endswith(("Batch", "BatchV2")):
            found[name] = Made(allocated[name] / 4, allocated[name])
    graphs.allocated = {op: sum(allocated.get(name, 0.0) for name in own) / len(own) for op, own in of_op.items()}
    for op in graphs.ops.values():  # in the order in which they were made, so that no row of them is followed too far
        graphs.size(op)
    for op, own in of_op.items():
        if (size := graphs.size(op)) is not None and size.values:
            found |= dict.fromkeys(own, size)
    return found


def _endings(name: str) -> Iterator[str]:
    """Yield a name without its first part, its first two, and so on: functions that are called have names in front."""
    while name:
        yield name
        name = name.partition("/")[2]


class _Graphs:
    """The graphs of the functions of a pipeline, and of those that they call.

    Attributes
    ----------
    ops : dict of str to Operation
        By name and type, as a recording writes them.
    allocated : mapping of Operation to float
        Bytes that a run of it allocates.
    """

    def __init__(self, dataset: Any) -> None:
        self.allocated: Mapping[Any, float] = {}
        self._known: dict[Any, Made | None] = {}
        # The operation that makes an argument of a function.
        self._given: dict[Any, Any] = {}
        parts = nodes(dataset)
        own = [graph for node in parts for graph in node.graphs]
        called = {name: one.graph for graph in own for name, one in graph._functions.items()}
        self.ops = {f"{op.name}:{op.type}": op for one in (*own, *called.values()) for op in one.get_operations()}
        for op in self.ops.values():
            for inside in (called[name] for name in called_by(op.node_def) if name in called):
                # Those of a branch of a condition stand behind the condition.
                self._give(reversed(inside.inputs), reversed(op.inputs))
        for node in parts:
            before = next((graph for up in node.upstream for graph in up.graphs), None)
            for graph in node.graphs if before else ():
                if len(before.outputs) == len(graph.inputs) - len(graph.captures):
                    self._give(graph.inputs, before.outputs)

    def _give(self, arguments: Iterable[Any], tensors: Iterable[Any]) -> None:
        self._given |= {inner.op: outer.op for inner, outer in zip(arguments, tensors, strict=False)}

    def size(self, op: Any) -> Made | None:
        """Return what an operation makes: by its shapes, by what it allocates, or by what it works on in place."""
        if op not in self._known:
            self._known[op] = None  # until it is known: a loop comes back to itself
            self._known[op] = self._found(op)
        return self._known[op]

    def _found(self, op: Any) -> Made | None:
        kinds = [tensor.dtype for tensor in op.outputs]
        widths = [t.size if t.is_floating or t.is_integer or t.is_bool else _TEXT for t in kinds]
        counts = [tensor.shape.num_elements() for tensor in op.outputs]
        if counts and None not in counts:
            return Made(sum(counts), sum(count * width for count, width in zip(counts, widths, strict=True)))
        if asked := self.allocated.get(op):
            return Made(asked / widths[0], asked)
        if op in self._given:
            return self.size(self._given[op])
        told = any(self.allocated.values())
        inputs = [size for tensor in op.inputs if (size := self.size(tensor.op)) is not None] if told else ()
        return max(inputs, key=lambda size: size.values, default=None)
