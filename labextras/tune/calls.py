"""A pipeline as the calls that wrote it.

`read` turns a dataset back into method calls with their arguments. A call is the text that a reader sees and the step
that is built, so the two cannot disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from labkit.pipelines.options import changed
from labkit.pipelines.structure import AUTOTUNE, DatasetNode, check_dataset, is_random
from labkit.timeline.wording import FILE_READERS


@dataclass(frozen=True, eq=False, repr=False)
class Call:
    """A method call on a dataset.

    Parameters
    ----------
    method : str
        Of ``tf.data.Dataset``.
    arguments : tuple
        By position.
    settings : mapping of str to Any
        By name.
    node : DatasetNode, optional
        The node of the pipeline that was read; None for a call that a change adds.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    node: DatasetNode | None = None

    @property
    def ops(self) -> frozenset[str]:
        """The types of the operations in its function; none for a call that a change adds."""
        return frozenset() if self.node is None else self.node.ops

    @property
    def random(self) -> bool:
        """Whether its function draws random numbers."""
        return any(map(is_random, self.ops))

    @property
    def parallel(self) -> bool:
        """Whether it makes several calls at once."""
        return "num_parallel_calls" in self.settings

    def having(self, **settings: Any) -> Call:
        """Return the call with other settings."""
        return replace(self, settings={**self.settings, **settings})

    def __str__(self) -> str:
        """Return it as Python, as in ``.map(load, num_parallel_calls=AUTOTUNE)``."""
        if self.method == "with_options":
            changes = ", ".join(f"{name}={value}" for name, value in changed(self.arguments[0]).items())
            return f".with_options(options){f'  # {changes}' if changes else ''}"
        parts = [_size(one) if self.method == "prefetch" else text(one) for one in self.arguments]
        for name, one in self.settings.items():
            parts.append(f"{name}={_size(one) if name == 'num_parallel_calls' else text(one)}")
        return f".{self.method}({', '.join(parts)})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Written:
    """A pipeline: what its calls begin with, and the calls.

    Parameters
    ----------
    source : tf.data.Dataset or None
        What the calls are made on, called ``source`` in the code; None where branches are put together.
    calls : tuple of Call
        The first one first.
    unknown : str
        The kind of node that made the source, where its call cannot be made again; else empty.
    reads : str
        The source as Python, where it is no longer what it was.
    branches : tuple of Written
        Pipelines that one step puts together in place of a source: a zip, a concatenation, a choice among several.
    joined : str
        What makes that step, as ``zip``.
    join : callable, optional
        From the datasets of the branches to the dataset.
    """

    source: Any
    calls: tuple[Call, ...]
    unknown: str = ""
    reads: str = ""
    branches: tuple[Written, ...] = ()
    joined: str = ""
    join: Callable[[list[Any]], Any] | None = None

    @property
    def begin(self) -> str:
        """The source as Python, equal branches once."""
        codes = Counter(" ".join([branch.begin, *map(str, branch.calls)]) for branch in self.branches)
        parts = (f"{count} × {code}" if count > 1 else code for code, count in codes.items())
        return self.reads or (f"{self.joined}({', '.join(parts)})" if codes else "source")

    @property
    def every(self) -> tuple[Call, ...]:
        """Its calls, those of its branches first."""
        return (*(call for branch in self.branches for call in branch.every), *self.calls)

    @property
    def unread(self) -> str:
        """The first kind of node whose call cannot be made again, of the branches, too; else empty."""
        return self.unknown or next((kind for branch in self.branches if (kind := branch.unread)), "")

    def build(self) -> Any:
        """Return the dataset."""
        dataset = self.join([branch.build() for branch in self.branches]) if self.branches else self.source
        for call in self.calls:
            dataset = getattr(dataset, call.method)(*call.arguments, **call.settings)
        return dataset

    def code(self) -> str:
        """Return the pipeline as Python, one call a line."""
        return "\n".join(["dataset = (", *(f"    {one}" for one in (self.begin, *self.calls)), ")"])

    __repr__ = code

    def without(self, *methods: str) -> Written:
        """Return the pipeline without its calls of some methods."""
        branches = tuple(branch.without(*methods) for branch in self.branches)
        return replace(self, branches=branches, calls=tuple(one for one in self.calls if one.method not in methods))


def read(dataset: Any) -> Written:
    """Return a dataset as the calls that wrote it, those of all branches of a zip, a concatenation or a choice.

    Only the calls behind the last unknown call can be changed. Unknown are a window, an unbatch, and calls of
    another library. A shuffle with a fixed order that cannot be drawn again counts as unknown, too.

    Raises
    ------
    TypeError
        If it is no dataset.
    """
    check_dataset(dataset)
    calls: list[Call] = []
    while (inputs := _inputs(node := DatasetNode(dataset))) is not None:
        if join := _JOINS.get(node.kind):
            name, branches, together = join(dataset)
            return Written(None, tuple(calls), branches=tuple(map(read, branches)), joined=name, join=together)
        if len(inputs) > 1 or (call := _call(node)) is None:
            return Written(dataset, tuple(calls), node.kind)
        dataset = inputs[0]
        calls.insert(0, call)
    return Written(dataset, tuple(calls))


def _zip(dataset: Any) -> tuple[str, list[Any], Callable[[list[Any]], Any]]:
    import tensorflow as tf

    given = dataset._datasets
    return "zip", tf.nest.flatten(given), lambda made: tf.data.Dataset.zip(tf.nest.pack_sequence_as(given, made))


def _concatenated(dataset: Any) -> tuple[str, list[Any], Callable[[list[Any]], Any]]:
    """Return the parts of all concatenations in a row."""
    parts = []
    while DatasetNode(dataset).kind == "Concatenate":
        dataset, last = dataset._inputs()
        parts.insert(0, last)
    return CONCATENATE, [dataset, *parts], lambda made: reduce(lambda one, other: one.concatenate(other), made)


def _chosen(dataset: Any) -> tuple[str, list[Any], Callable[[list[Any]], Any]]:
    """Return what a draw, or a dataset of numbers, chooses from."""
    kind, numbers, stops = type(dataset), dataset._selector_input, dataset._stop_on_empty_dataset
    return "sample_from_datasets", dataset._data_inputs, lambda made: kind(numbers, made, stops)


#: What a chain of concatenations is called.
CONCATENATE = "concatenate"
_JOINS: dict[str, Callable[[Any], tuple[str, list[Any], Callable[[list[Any]], Any]]]] = {
    "Zip": _zip,
    "Concatenate": _concatenated,
    "DirectedInterleave": _chosen,
}


def _inputs(node: DatasetNode) -> list[Any] | None:
    """Return the datasets that a node is called on; None for a source, as a generator and a reader of files are."""
    inputs = list(getattr(node.dataset, "_inputs", list)())
    kinds = [type(one).__name__ for one in inputs]
    if node.kind in FILE_READERS or not inputs:
        return None
    if node.kind == "FlatMap" and kinds == ["_TensorDataset"] and _generates(node):
        return None
    return inputs


def _generates(node: DatasetNode) -> bool:
    """Tell whether a flat map is the one that ``Dataset.from_generator`` makes."""
    function = node.dataset._map_func._func
    return getattr(function, "__name__", "") == "flat_map_fn" and function.__module__.startswith("tensorflow.")


def _call(node: DatasetNode) -> Call | None:
    """Return the call that made a node; None where it cannot be made again."""
    try:
        method, arguments, settings = _CALLS[node.kind](node.dataset)
    except (KeyError, TypeError, AttributeError):  # or another class of this name, as of another TensorFlow
        return None
    given = {name: one for name, one in settings.items() if one is not None}
    return Call(method, tuple(one for one in arguments if one is not None), given, node)


def _parallel(dataset: Any) -> dict[str, Any]:
    """Return the settings of a parallel node: its calls, and its order where it has one of its own."""
    return {"num_parallel_calls": int(dataset._num_parallel_calls), "deterministic": _deterministic(dataset)}


def _deterministic(dataset: Any) -> bool | None:
    stated = getattr(dataset, "_deterministic", None)
    if stated is None:  # an interleave writes it down in its graph only
        return DatasetNode(dataset).ordered
    return {"true": True, "false": False}.get(stated)


def _batch(dataset: Any) -> dict[str, Any]:
    return {"drop_remainder": bool(dataset._drop_remainder) or None}


def _interleave(dataset: Any) -> dict[str, Any]:
    cycle, block = int(dataset._cycle_length), int(dataset._block_length)
    return {"cycle_length": None if cycle == AUTOTUNE else cycle, "block_length": None if block == 1 else block}


def _shuffle(dataset: Any) -> dict[str, Any]:
    import tensorflow as tf

    # TensorFlow keeps the seed of the operation in the second place, and 0, 0 for none; 0 alone is a seed.
    again = None if dataset._reshuffle_each_iteration in (None, True) else False
    seed = int(dataset._seed2) if int(dataset._seed) or int(dataset._seed2) else None
    # Others may share an order that stays, as validation and training of one split: it must not be drawn anew.
    if again is False and (seed is None or tf.compat.v1.get_seed(seed)[0] != int(dataset._seed)):
        raise TypeError("an order that another shuffle cannot have")
    return {"seed": seed, "reshuffle_each_iteration": again}


_CALLS: dict[str, Callable[[Any], tuple[str, tuple[Any, ...], dict[str, Any]]]] = {
    "Map": lambda d: ("map", (d._map_func._func,), {}),
    "ParallelMap": lambda d: ("map", (d._map_func._func,), _parallel(d)),
    "FlatMap": lambda d: ("flat_map", (d._map_func._func,), {}),
    "Interleave": lambda d: ("interleave", (d._map_func._func,), _interleave(d)),
    "ParallelInterleave": lambda d: ("interleave", (d._map_func._func,), {**_interleave(d), **_parallel(d)}),
    "Filter": lambda d: ("filter", (d._predicate._func,), {}),
    "Batch": lambda d: ("batch", (int(d._batch_size),), _batch(d)),
    "ParallelBatch": lambda d: ("batch", (int(d._batch_size),), {**_batch(d), **_parallel(d)}),
    "PaddedBatch": lambda d: ("padded_batch", (int(d._batch_size), d._padded_shapes, d._padding_values), _batch(d)),
    "Prefetch": lambda d: ("prefetch", (int(d._buffer_size),), {}),
    "Shuffle": lambda d: ("shuffle", (int(d._buffer_size),), _shuffle(d)),
    "Repeat": lambda d: ("repeat", (int(d._count) if int(d._count) >= 0 else None,), {}),
    "Take": lambda d: ("take", (int(d._count),), {}),
    "Skip": lambda d: ("skip", (int(d._count),), {}),
    "Shard": lambda d: ("shard", (int(d._num_shards), int(d._index)), {}),
    "Cache": lambda d: ("cache", (d._filename.numpy().decode() or None,), {}),
    "Options": lambda d: ("with_options", (d.options(),), {}),
}


def text(value: Any) -> str:
    """Return an argument as Python: a function by its name, other objects by their class."""
    if callable(value):
        # TensorFlow's own, as a reader calls it: the class of tf.data.TFRecordDataset has another name.
        public = getattr(value, "__dict__", {}).get("_tf_api_names")
        name = f"tf.{public[0]}" if public else getattr(value, "__name__", f"{type(value).__name__}(…)")
        return "lambda …" if name == "<lambda>" else name
    return repr(value) if value is None or isinstance(value, (int, float, str)) else "…"


def _size(value: Any) -> str:
    """Return a number of calls or of elements that tf.data may choose itself."""
    return "AUTOTUNE" if value == AUTOTUNE else text(value)
