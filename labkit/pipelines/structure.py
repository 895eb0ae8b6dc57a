"""What a tf.data pipeline is: its nodes, their settings, and the operations in their functions.

A pipeline can be read in two ways, and both are here. `nodes` follows the Python objects: each node knows its dataset,
so that its length and its identity can be asked for. `chain` reads the graph that TensorFlow itself runs: it also sees
what stands inside the functions of an interleave, and what no Python object keeps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labkit.timeline.run import WrittenNode

#: The value of a setting that tf.data chooses itself.
AUTOTUNE = -1

#: Operations that pass every element on as it is.
_UNCHANGED = ("Options", "Model", "Finalize", "Identity", "AssertCardinality")
#: Transformations whose function returns a dataset.
_NESTED = ("Interleave", "ParallelInterleave", "LegacyParallelInterleave", "FlatMap")


def is_dataset(dataset: Any) -> bool:
    """Tell whether something is a ``tf.data.Dataset``, without importing TensorFlow."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and hasattr(tf, "data") and isinstance(dataset, tf.data.Dataset)


def check_dataset(dataset: Any, what: str = "dataset") -> None:
    """Refuse what is no ``tf.data.Dataset``.

    Raises
    ------
    TypeError
        If it is none; `what` is what the sentence calls it.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"{what} is a {type(dataset).__name__}; allowed: a tf.data.Dataset "
            "(Dataset.from_tensor_slices makes one of arrays, Dataset.from_generator of a generator)"
        )


def are_values(parts: Any) -> bool:
    """Tell whether a list holds nothing but texts, or nothing but numbers."""
    kinds = {type(part) for part in parts} if isinstance(parts, list) else ()
    return bool(kinds) and (kinds <= {str, bytes} or all(issubclass(kind, (int, float, np.generic)) for kind in kinds))


def named(element: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (name, component) of a nested structure: sorted keys of dicts, places in tuples, joined by dots.

    A list of texts or of numbers is one component, and becomes an array.
    """
    if are_values(element):
        element = np.array(element, object if isinstance(element[0], (str, bytes)) else None)
    if isinstance(element, (Mapping, tuple, list)):
        keys = sorted(element, key=str) if isinstance(element, Mapping) else range(len(element))
        for key in keys:
            yield from named(element[key], f"{prefix}{key}.")
    else:
        yield prefix[:-1] or "0", element


# -- as Python built it --------------------------------------------------------------------


@dataclass(eq=False)
class DatasetNode:
    """One node of a pipeline, as a Python object.

    Parameters
    ----------
    dataset : tf.data.Dataset
        The pipeline up to and including this node.
    downstream : tuple of DatasetNode
        All nodes that come after it, the nearest first.
    upstream : list of DatasetNode
        All nodes that come before it, the nearest first.
    """

    dataset: Any
    downstream: tuple[DatasetNode, ...] = field(default=(), repr=False)
    upstream: list[DatasetNode] = field(default_factory=list, repr=False)

    @property
    def kind(self) -> str:
        """Its name without ``Dataset`` and version: ``Map``, ``ParallelMap``, ``Prefetch``."""
        return type(self.dataset).__name__.lstrip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")

    @cached_property
    def graphs(self) -> list[Any]:
        """The ``tf.Graph`` of each of its functions."""
        functions = (getattr(function, "function", None) for function in getattr(self.dataset, "_functions", list)())
        return [f.graph for f in functions if getattr(f, "graph", None) is not None]

    @cached_property
    def ops(self) -> frozenset[str]:
        """The types of the operations in its functions, and in those that these call, such as ``"DecodeJpeg"``."""
        return frozenset(operation.op for graph in self.graphs for operation in operations(graph))

    @property
    def captured(self) -> list[Any]:
        """The variant tensors, most of them datasets, that its functions take from outside."""
        outside = (tensor for graph in self.graphs for tensor, _ in graph.captures)
        return [tensor for tensor in outside if tensor.dtype.name == "variant"]

    def number(self, name: str) -> int:
        """Return a setting, as ``"_buffer_size"``, as a number; 0 if it has none, negative for AUTOTUNE and endless."""
        return int(getattr(self.dataset, name, getattr(self.dataset, f"{name}_t", 0)))

    @property
    def ordered(self) -> bool | None:
        """Whether its elements come in order; None if the node itself does not say."""
        try:  # an interleave keeps this setting in its graph only
            return chain(self.dataset).steps[-1].ordered
        except ValueError:
            return None


def nodes(dataset: Any) -> list[DatasetNode]:
    """Return the nodes of a pipeline from its end to its sources; those inside of functions are not among them."""
    return list(_walk(dataset, ()))


def _walk(dataset: Any, downstream: tuple[DatasetNode, ...]) -> Iterator[DatasetNode]:
    own = DatasetNode(dataset, downstream)
    yield own
    for source in getattr(dataset, "_inputs", list)():
        for node in _walk(source, (own, *downstream)):
            own.upstream.append(node)
            yield node


def operations(graph: Any) -> list[Any]:
    """Return the operations (``NodeDef``) of a ``tf.Graph``, and those in the functions that it calls."""
    inside = graph.as_graph_def()
    return [*inside.node, *(n for function in inside.library.function for n in function.node_def)]


def called_by(operation: Any) -> list[str]:
    """Return the names of the functions that an operation (``NodeDef``) calls, those of branches and loops, too."""
    return [f.name for value in operation.attr.values() for f in (value.func, *value.list.func) if f.name]


def written(dataset: Any) -> tuple[WrittenNode, ...]:
    """Return the nodes of a pipeline as its author wrote them, from its end to its sources; none that cannot be read.

    Those inside of functions, as in an interleave, stand behind the node that calls the function.
    """
    found: list[WrittenNode] = []
    try:
        for node in nodes(dataset):
            own = {name.strip("_").removesuffix("_t"): value for name, value in vars(node.dataset).items()}
            numbers = {name: int(value) for name, value in own.items() if _is_whole(value)}
            graphs = [graph.as_graph_def() for graph in node.graphs]
            functions = {f.signature.name: f for graph in graphs for f in graph.library.function}
            found += _described(node.kind, numbers, [graph.node for graph in graphs], functions)
    except (AttributeError, TypeError, ValueError, RuntimeError):  # built inside a graph
        return ()
    return tuple(found)


def _is_whole(value: Any) -> bool:
    """Tell whether a setting is one whole number: a tensor of TensorFlow, or a number of Python."""
    return isinstance(value, int) or (hasattr(value, "numpy") and value.shape == () and value.dtype.is_integer)


def _described(
    kind: str, numbers: dict[str, int], bodies: Iterable[Any], functions: dict[str, Any]
) -> Iterator[WrittenNode]:
    """Yield a node with the operations of its functions, and the nodes inside of them."""
    ops: dict[bool, set[str]] = {False: set(), True: set()}  # by whether they stand in a loop
    inner: list[WrittenNode] = []
    seen: set[tuple[str, bool]] = set()
    left = [(body, False) for body in bodies]
    while left:
        body, looped = left.pop()
        named = {operation.name: operation for operation in body}
        for operation in reversed(body):  # a graph lists its sources first
            ops[looped].add(operation.op)
            called = [name for name in called_by(operation) if name in functions]
            if transformations([operation]):
                inside = [functions[name].node_def for name in called]
                inner += _described(operation.op.split("Dataset")[0], settings(operation, named), inside, functions)
                continue
            for key in {(name, looped or operation.op.endswith("While")) for name in called} - seen:
                seen.add(key)
                left.append((functions[key[0]].node_def, key[1]))
    yield WrittenNode(kind, numbers, tuple(sorted(ops[False] | ops[True])), tuple(sorted(ops[True])))
    yield from inner


def is_random(op: str) -> bool:
    """Tell whether an operation of this type draws random numbers."""
    kinds = ("Random", "StatelessRandom", "Stateful", "Multinomial", "StatelessMultinomial", "StatelessShuffle")
    helpers = ("GetKeyCounter", "GetAlg", "PartitionedCall", "IndexShuffle")
    inside = ("TruncatedNormal", "DistortedBoundingBox")  # of several ops, with other words before them
    return (op.startswith(kinds) and not op.endswith(helpers)) or any(word in op for word in inside)


def draws(parts: Iterable[DatasetNode]) -> bool:
    """Tell whether a function of some nodes of a pipeline draws random numbers."""
    return any(is_random(op) for node in parts for op in node.ops)


# -- as TensorFlow runs it -----------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One transformation of the graph.

    Parameters
    ----------
    kind : str
        The name of its operation without ``Dataset`` and version: ``Map``, ``ParallelMap``, ``Batch``, ``Prefetch``.
    settings : dict of str to int
        Its constant whole numbers and truths by TensorFlow's names: ``num_parallel_calls``, ``cycle_length``,
        ``block_length``, ``buffer_size``, ``batch_size``, ``count``, ``drop_remainder``. -1 stands for AUTOTUNE.
    inside : tuple of NodeDef
        The operations of its function; those of a function that is called twice are there twice.
    inner : tuple of Step
        For an interleave or a flat map: the chain inside of its function.
    ordered : bool or None
        What the step itself says about the order of its elements; None leaves it to the options.
    """

    kind: str
    settings: dict[str, int] = field(default_factory=dict)
    inside: tuple[Any, ...] = ()
    inner: tuple[Step, ...] = ()
    ordered: bool | None = None


@dataclass(frozen=True)
class Chain:
    """The steps of a pipeline, and the options that decide its speed.

    Parameters
    ----------
    steps : tuple of Step
        The source first.
    elements : int
        Elements of the source; -1 or less if nobody knows.
    threads : int or None
        Threads of a private pool.
    rewritten : bool
        Whether tf.data may add a prefetch.
    ordered : bool
        Whether the options ask for the order of the elements.
    """

    steps: tuple[Step, ...]
    elements: int
    threads: int | None
    rewritten: bool
    ordered: bool

    @property
    def every(self) -> list[Step]:
        """All steps, each followed by those inside of its function."""
        return _flat(self.steps)

    def all(self, *kinds: str) -> list[Step]:
        """Return the steps of some kinds, the inner ones, too."""
        return [step for step in self.every if step.kind in kinds]

    @property
    def any_order(self) -> bool:
        """Whether some step may change the order of the elements from run to run."""
        parallel = (step for step in self.every if "Parallel" in step.kind)
        return any(not (self.ordered if step.ordered is None else step.ordered) for step in parallel)


def _flat(steps: tuple[Step, ...]) -> list[Step]:
    return [found for step in steps for found in (step, *_flat(step.inner))]


def serialized(dataset: Any) -> Any:
    """Return the ``GraphDef`` of a dataset, or of a variant tensor that holds one.

    Raises
    ------
    ValueError
        If TensorFlow cannot write one of its steps down.
    """
    import tensorflow as tf

    variant = dataset if tf.is_tensor(dataset) else tf.data.experimental.to_variant(dataset)
    try:  # 1: state that an operation keeps outside of the graph does not matter, because nothing is saved
        written = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1)
    except tf.errors.OpError as error:
        raise ValueError(f"TensorFlow cannot write this dataset down as a graph: {error.message:.200}") from None
    return tf.compat.v1.GraphDef.FromString(written.numpy())


def chain(dataset: Any) -> Chain:
    """Return the chain of a dataset as TensorFlow runs it.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Of several sources (zip, concatenate) the one with the longest chain is followed, else the first whose length
        is known: an ``enumerate`` counts beside the pipeline.

    Raises
    ------
    TypeError
        If it is no dataset.
    ValueError
        If TensorFlow cannot write one of its steps down.
    """
    check_dataset(dataset)
    graph = serialized(dataset)
    functions = {f.signature.name: f for f in graph.library.function}
    last = transformations(graph.node)[-1]
    options = dataset.options()
    asked, threads = options.experimental_optimization, options.threading.private_threadpool_size
    rewrites = (asked.apply_default_optimizations, asked.inject_prefetch, options.autotune.enabled)
    steps = tuple(_steps(last.name, {node.name: node for node in graph.node}, functions))
    return Chain(steps, _elements(dataset), threads, False not in rewrites, options.deterministic is not False)


def transformations(nodes: Iterable[Any]) -> list[Any]:
    """Return those of some nodes (``NodeDef``) that are datasets, in their order: a graph lists its sources first."""
    return [node for node in nodes if node.op.rstrip("V0123456789").endswith("Dataset")]


def inputs(node: Any) -> list[str]:
    """Return the names of the nodes that a node takes its inputs from."""
    return [name.split(":")[0].lstrip("^") for name in node.input]


def _steps(name: str, named: dict[str, Any], functions: dict[str, Any]) -> list[Step]:
    """Return the steps up to the node called `name`, the source first."""
    node = named.get(name)
    if node is None:
        return []
    sources = transformations(named[source] for source in inputs(node) if source in named)
    before = max((_steps(source.name, named, functions) for source in sources), key=len, default=[])
    kind = node.op.split("Dataset")[0]
    if kind in _UNCHANGED:
        return before
    function = functions.get(node.attr["f"].func.name) if "f" in node.attr else None
    inner, inside = (), ()
    if function is not None and kind in _NESTED:
        body = {n.name: n for n in _holding(function, functions).node_def}
        ends = transformations(body.values())
        inner = tuple(_steps(ends[-1].name, body, functions)) if ends else ()
    elif function is not None:
        inside = tuple(_inside(function, functions, frozenset()))
    stated = node.attr["deterministic"].s if "deterministic" in node.attr else b""
    ordered = {b"true": True, b"false": False}.get(stated)
    return [*before, Step(kind, settings(node, named), inside, inner, ordered)]


def settings(node: Any, named: dict[str, Any]) -> dict[str, int]:
    """Return the inputs of a node that are constant whole numbers or truths, by their names."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    definition, found, given = op_def_registry.get(node.op), {}, inputs(node)
    names = [argument.name for argument in definition.input_arg] if definition else []
    for place, name in enumerate(names, -len(names)):
        # An argument that is a list takes several inputs, or none: what follows it is counted from the end.
        constant = named.get(given[place]) if -place <= len(given) else None
        if constant is None or constant.op != "Const":
            continue
        tensor = constant.attr["value"].tensor
        kind = tf.as_dtype(tensor.dtype)
        if (kind.is_integer or kind.is_bool) and not tensor.tensor_shape.dim:
            found[name] = int(tf.make_ndarray(tensor))
    return found


def _holding(function: Any, functions: dict[str, Any]) -> Any:
    """Return the function that holds datasets: around that of a ``tf.function`` there is one that only calls it."""
    while not transformations(function.node_def):
        calls = (functions.get(n.attr["f"].func.name) for n in function.node_def if "PartitionedCall" in n.op)
        called = next((f for f in calls if f is not None), None)
        if called is None:
            break
        function = called
    return function


def _inside(function: Any, functions: dict[str, Any], path: frozenset[str]) -> Iterator[Any]:
    """Yield the operations of a function and of those that it calls, as often as it calls them."""
    for node in function.node_def:
        yield node
        for attribute in node.attr.values():
            name = attribute.func.name
            if name in functions and name not in path:
                yield from _inside(functions[name], functions, path | {name})


def _elements(dataset: Any) -> int:
    """Return how many elements the source has; -1 or less if nobody knows."""
    sources = [node for node in nodes(dataset) if not node.upstream]
    longest = max(len(node.downstream) for node in sources)
    counts = [int(node.dataset.cardinality()) for node in sources if len(node.downstream) == longest]
    # The counter of an enumerate goes on for ever beside the elements that it counts.
    return next((count for count in counts if count >= 0), counts[0])
