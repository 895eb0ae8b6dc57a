"""Faults that the graph of a pipeline tells: which node stands where, on how many threads, with what inside.

Each detector answers for any pipeline on a drill's sources, its own patient or another: so it can be proved that a
patient has one fault only, and that its mend brings no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Ops that make a map worth its threads.
_COSTLY = ("ReadFile", "Decode", "PyFunc", "EagerPyFunc", "ParseExample", "ParseSingleExample")
_PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
_LOOPS = {"While", "StatelessWhile"}

#: Batches that a prefetch may keep; more is a pile.
DEEP = 16


@dataclass(frozen=True)
class Node:
    """One node: its kind in a word, its dataset, the kinds of what lies upstream and downstream, its ops, its texts."""

    kind: str
    dataset: Any
    upstream: frozenset[str]
    downstream: frozenset[str]
    ops: frozenset[str]
    texts: frozenset[bytes]

    @property
    def costly(self) -> bool:
        """Whether it is a map that reads, decodes or calls Python."""
        return self.kind in ("Map", "ParallelMap") and any(op.startswith(_COSTLY) for op in self.ops)

    def number(self, name: str) -> int | None:
        """Return a setting of the node as a number; None where it has none."""
        value = getattr(self.dataset, name, None)
        return None if value is None else int(value)

    @property
    def files(self) -> int:
        """How many elements its source has; negative where nobody knows."""
        return int(self.dataset._inputs()[0].cardinality())


def nodes(dataset: Any) -> list[Node]:
    """Return the nodes of a pipeline from its end to its sources. Costly maps count as the kind ``costly`` as well."""
    return list(_walk(dataset, frozenset()))


def _walk(dataset: Any, downstream: frozenset[str]) -> Iterator[Node]:
    kind = type(dataset).__name__.lstrip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")
    ops, texts = _inside(dataset)
    own = Node(kind, dataset, frozenset(), downstream, ops, texts)
    below = downstream | {kind} | ({"costly"} if own.costly else set())
    found = [node for source in dataset._inputs() for node in _walk(source, below)]
    upstream = frozenset({n.kind for n in found} | ({"costly"} if any(n.costly for n in found) else set()))
    yield Node(kind, dataset, upstream, downstream, ops, texts)
    yield from found


def _inside(dataset: Any) -> tuple[frozenset[str], frozenset[bytes]]:
    """Return the ops in the functions of a node, those of nested functions included, and the constant texts."""
    ops: set[str] = set()
    texts: set[bytes] = set()
    for function in getattr(dataset, "_functions", list)():
        graph = getattr(getattr(function, "function", None), "graph", None)
        if graph is None:
            continue
        inside = graph.as_graph_def()
        library = {field.name: value for field, value in inside.ListFields()}.get("library")
        for node in [*inside.node, *(n for f in (library.function if library else ()) for n in f.node_def)]:
            ops.add(node.op)
            if node.op == "Const":
                texts.update(node.attr["value"].tensor.string_val)
    return frozenset(ops), frozenset(texts)


def find(dataset: Any, case: Any) -> list[str]:
    """Return the keys of all faults that the graph shows, in the order of `DETECTORS`."""
    seen = nodes(dataset)
    return [key for key, detect in DETECTORS.items() if detect(seen, case)]


def keeps_order(dataset: Any) -> bool:
    """Return whether every element comes at its place."""
    loose = any(getattr(n.dataset, "_deterministic", "") == "false" for n in nodes(dataset))
    return not loose and dataset.options().deterministic is not False


def _any(test: Callable[[Node, Any], bool], *kinds: str) -> Callable[[list[Node], Any], bool]:
    """Return a detector that looks at the nodes of some kinds one by one."""
    return lambda seen, case: any(test(node, case) for node in seen if node.kind in kinds)


def _small_pool(seen: list[Node], case: Any) -> bool:
    size = seen[0].dataset.options().threading.private_threadpool_size
    return bool(size) and size < 4 and any(n.kind == "ParallelMap" for n in seen)


def _waits(seen: list[Node], case: Any) -> bool:
    return case.far and any(n.kind == "ParallelMap" for n in seen) and keeps_order(seen[0].dataset)


def _in_turn(node: Node, case: Any) -> bool:
    return node.files > 1 and (node.kind != "ParallelInterleave" or node.number("_cycle_length") == 1)


_FILES = ("Interleave", "ParallelInterleave", "FlatMap")

#: Key of a fault to its detector, which takes the nodes and the case.
DETECTORS: dict[str, Callable[[list[Node], Any], bool]] = {
    "no_prefetch": lambda seen, case: all(n.kind != "Prefetch" for n in seen),
    "early_prefetch": _any(lambda n, _: bool(n.downstream & {"costly", "Batch", "ParallelBatch"}), "Prefetch"),
    "one_by_one": _any(
        lambda n, _: n.costly and (n.kind == "Map" or n.number("_num_parallel_calls") == 1), "Map", "ParallelMap"
    ),
    "one_thread": _small_pool,
    "gil": _any(lambda n, _: bool(n.ops & _PYTHON), "Map", "ParallelMap"),
    "map_fn": _any(lambda n, _: bool(n.ops & _LOOPS and n.upstream & {"Batch", "ParallelBatch"}), "Map", "ParallelMap"),
    "shuffled_images": _any(
        lambda n, _: "costly" in n.upstream and not n.upstream & {"Batch", "ParallelBatch"}, "Shuffle"
    ),
    "huge_buffer": _any(lambda n, _: (n.number("_buffer_size") or 0) > DEEP, "Prefetch"),
    "cached_names": _any(lambda n, _: "costly" in n.downstream and "costly" not in n.upstream, "Cache"),
    "unfinished_cache": _any(lambda n, _: "Take" in n.downstream, "Cache"),
    "straggler": _waits,
    "single_file": _any(lambda n, _: n.files == 1, *_FILES),
    "files_in_turn": _any(_in_turn, *_FILES),
    "tiny_shards": _any(lambda n, case: n.files >= case.size // 2, *_FILES),
    "gzip": _any(lambda n, _: b"GZIP" in n.texts, *_FILES),
    "shuffled_batches": _any(lambda n, _: bool(n.upstream & {"Batch", "ParallelBatch"}), "Shuffle"),
    "blurred_epochs": _any(
        lambda n, _: "Repeat" in n.upstream and not n.upstream & {"Batch", "ParallelBatch"}, "Shuffle"
    ),
}
