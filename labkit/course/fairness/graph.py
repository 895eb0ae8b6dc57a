"""From a ``tf.data.Dataset`` to its chain of nodes, with the parameters that decide its speed.

The serialized graph is read, the same that tf.data itself runs: what a function is called in Python does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit.course.fairness.stages import MARK
from labkit.course.grading import Wrong

#: What a parameter is that tf.data shall choose.
AUTOTUNE = -1

# Where the parameters stand among the inputs of an op, counted from the end.
_PARAMETERS = {
    "ParallelMapDatasetV2": {"calls": -1},
    "ParallelInterleaveDatasetV2": {"cycle": -3, "block": -2, "calls": -1},
    "ParallelInterleaveDatasetV3": {"cycle": -3, "block": -2, "calls": -1},
    "ParallelInterleaveDatasetV4": {"cycle": -5, "block": -4, "calls": -1},
    "InterleaveDataset": {"cycle": -2, "block": -1},
    "BatchDatasetV2": {"size": 1, "drop": 2},
    "ParallelBatchDataset": {"size": 1, "calls": 2, "drop": 3},
    "PaddedBatchDatasetV2": {"size": 1},
    "PrefetchDataset": {"size": 1},
    "ShuffleDatasetV3": {"size": 1},
    "ShuffleDatasetV2": {"size": 1},
    "ShuffleAndRepeatDatasetV2": {"size": 1, "count": 4},
    "RepeatDataset": {"count": 1},
    "TakeDataset": {"count": 1},
    "SkipDataset": {"count": 1},
    "ShardDataset": {"count": 1, "index": 2},
}
_SAME = {"OptionsDataset", "ModelDataset", "FinalizeDataset", "IdentityDataset", "AssertCardinalityDataset"}


@dataclass(frozen=True)
class Node:
    """One transformation.

    Parameters
    ----------
    kind : str
        The name of its op without ``Dataset`` and version: ``Map``, ``ParallelMap``, ``Batch``, ``Prefetch``, …
    values : dict
        Its parameters as far as the graph tells: ``calls``, ``cycle``, ``block``, ``size``, ``count``, ``drop``.
    stages : tuple of str
        Names of the stages that its function calls, as often as it calls them.
    inner : tuple of Node
        For an interleave or a flat map: the chain inside of its function.
    ordered : bool or None
        What the node itself says about order; None leaves it to the options.
    loops : bool
        Whether its function holds a loop.
    """

    kind: str
    values: dict[str, int | None] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    inner: tuple[Node, ...] = ()
    ordered: bool | None = None
    loops: bool = False


@dataclass(frozen=True)
class Chain:
    """The nodes of a pipeline from its source to its end, and the options that matter."""

    nodes: tuple[Node, ...]
    elements: int
    threads: int | None
    rewritten: bool
    ordered: bool

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of all stages that are called anywhere."""
        return tuple(name for node in _all(self.nodes) for name in node.stages)

    @property
    def any_order(self) -> bool:
        """Whether some node may change the order of the elements from run to run."""
        parallel = [n for n in _all(self.nodes) if "Parallel" in n.kind]
        return any(n.ordered is False or (n.ordered is None and not self.ordered) for n in parallel)

    def all(self, *kinds: str) -> list[Node]:
        """Return the nodes of some kinds, the inner ones, too."""
        return [node for node in _all(self.nodes) if node.kind in kinds]


def _all(nodes: tuple[Node, ...]) -> list[Node]:
    return [found for node in nodes for found in (node, *_all(node.inner))]


def read(dataset: Any) -> Chain:
    """Return the chain of a dataset.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Of several sources (zip, concatenate) the one with the longest chain is followed, else the first whose length
        is known: an ``enumerate`` counts beside the pipeline.

    Raises
    ------
    TypeError
        If it is none.
    Wrong
        If TensorFlow cannot write one of its steps down.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"dataset is a {type(dataset).__name__}; allowed: a tf.data.Dataset")
    try:  # 1: what state an op keeps outside of the graph does not matter, nothing is saved.
        variant = tf.data.experimental.to_variant(dataset)
        made = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1)
    except tf.errors.OpError:
        raise Wrong("labkit cannot read a step of this pipeline, such as prefetch_to_device: use another") from None
    graph = tf.compat.v1.GraphDef.FromString(made.numpy())
    functions = {f.signature.name: f for f in graph.library.function}
    named = {node.name: node for node in graph.node}
    last = next(n for n in reversed(graph.node) if n.op.endswith(_ENDS))
    options = dataset.options()
    rewritten = options.experimental_optimization.apply_default_optimizations is not False
    injected = options.experimental_optimization.inject_prefetch is not False
    return Chain(
        tuple(_chain(last.name, named, functions)),
        _elements(dataset),
        options.threading.private_threadpool_size,
        rewritten and injected and options.autotune.enabled is not False,
        options.deterministic is not False,
    )


_ENDS = ("Dataset", "DatasetV2", "DatasetV3", "DatasetV4")


def _chain(name: str, named: dict[str, Any], functions: dict[str, Any]) -> list[Node]:
    """Return the nodes up to the one called `name`, the source first."""
    node = named.get(name.split(":")[0].lstrip("^"))
    if node is None:
        return []
    sources = [i for i in node.input if (n := named.get(i.split(":")[0])) is not None and n.op.endswith(_ENDS)]
    before = max((_chain(source, named, functions) for source in sources), key=len, default=[])
    if node.op in _SAME:
        return before
    values = {
        what: _constant(named.get(node.input[place].split(":")[0]))
        for what, place in _PARAMETERS.get(node.op, {}).items()
        if -len(node.input) <= place < len(node.input)
    }
    kind = node.op.split("Dataset")[0]
    function = functions.get(node.attr["f"].func.name) if "f" in node.attr else None
    stages, loops, inner = (), False, ()
    if function is not None:
        if kind in ("Interleave", "ParallelInterleave", "FlatMap"):
            function = _holding(function, functions)
            inside = {n.name: n for n in function.node_def}
            ends = [n.name for n in function.node_def if n.op.endswith(_ENDS)]
            inner = tuple(_chain(ends[-1], inside, functions)) if ends else ()
        else:
            seen: list[str] = []
            loops = _look(function, functions, seen, set())
            stages = tuple(seen)
    said = node.attr["deterministic"].s.decode() if "deterministic" in node.attr else ""
    ordered = {"true": True, "false": False}.get(said)
    return [*before, Node(kind, values, stages, inner, ordered, loops)]


def _holding(function: Any, functions: dict[str, Any]) -> Any:
    """Return the function that holds datasets: around that of a ``tf.function`` there is one that only calls it."""
    while not any(node.op.endswith(_ENDS) for node in function.node_def):
        calls = (functions.get(n.attr["f"].func.name) for n in function.node_def if "PartitionedCall" in n.op)
        called = next((f for f in calls if f is not None), None)
        if called is None:
            break
        function = called
    return function


def _look(function: Any, functions: dict[str, Any], seen: list[str], path: set[str]) -> bool:
    """Collect the stages that a function calls, and tell whether it loops."""
    loops = False
    for node in function.node_def:
        place = node.name.rsplit("/", 1)[-1]
        if place.startswith(MARK):
            seen.append(place[len(MARK) :].split("_")[0])
        loops = loops or node.op in ("While", "StatelessWhile", "MapDefun")
        for attribute in node.attr.values():
            name = attribute.func.name
            if name and name in functions and name not in path:
                loops = _look(functions[name], functions, seen, path | {name}) or loops
    return loops


def _constant(node: Any) -> int | None:
    """Return the value of a constant whole number or truth, else None."""
    import tensorflow as tf

    if node is None or node.op != "Const":
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return int(value) if value.shape == () and value.dtype.kind in "iub" else None


def _elements(dataset: Any) -> int:
    """Return how many elements the source has; -1 or less where nobody knows."""
    while inputs := dataset._inputs():
        most = max(map(_steps, inputs))
        longest = [d for d in inputs if _steps(d) == most]
        # The counter of an enumerate goes on for ever beside the elements that it counts.
        dataset = next((d for d in longest if int(d.cardinality()) >= 0), longest[0])
    return int(dataset.cardinality())


def _steps(dataset: Any) -> int:
    """Return how many transformations made a dataset, along its longest chain."""
    return 1 + max(map(_steps, dataset._inputs()), default=0)
