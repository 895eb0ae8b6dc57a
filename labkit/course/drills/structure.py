"""Faults that the graph of a pipeline tells: which node stands where, on how many threads, with what inside.

Each detector answers for any pipeline on a drill's sources, its own patient or another: so it can be proved that a
patient has one fault only, and that its mend brings no other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.course.grading import Wrong
from labkit.pipelines.structure import captured, graphs, operations, serialized

#: Ops that make a function worth its threads.
_COSTLY = ("ReadFile", "Decode", "PyFunc", "EagerPyFunc", "ParseExample", "ParseSingleExample")
_PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
_LOOPS = {"While", "StatelessWhile"}
_RANDOM = re.compile("Random|Stateful(Uniform|StandardNormal|TruncatedNormal)")
_BATCHES = {"Batch", "ParallelBatch", "PaddedBatch", "MapAndBatch"}
_PARALLEL = {"ParallelMap", "ParallelInterleave", "MapAndBatch"}

#: Nodes that keep elements ready, with the setting that says how many.
_AHEAD = {
    "Prefetch": "_buffer_size",
    "ParallelMap": "_num_parallel_calls",
    "ParallelBatch": "_num_parallel_calls",
    "ParallelInterleave": "_cycle_length",
}

#: Nodes that may deliver more elements than they take.
_MORE = {"FlatMap", "Interleave", "ParallelInterleave", "Repeat", "Unbatch"}

#: Ops that join or part many tensors, with the attribute that says how many.
_WIDE = {"Pack": "N", "AddN": "N", "ConcatV2": "N", "Unpack": "num", "Split": "num_split"}

#: TensorFlow's number of elements of what never ends.
_ENDLESS = -1

#: Batches that may be kept ready; more is a pile.
DEEP = 16


@dataclass(eq=False)
class Node:
    """One node of a pipeline.

    Parameters
    ----------
    kind : str
        What it is, in a word.
    dataset : tf.data.Dataset
    downstream : tuple of Node
        What comes after it, the nearest first.
    ops : frozenset of str
        The ops in its functions, those of nested functions included.
    widest : int
        How many tensors one of these ops joins or parts at most.
    upstream : list of Node
        What comes before it.
    """

    kind: str
    dataset: Any
    downstream: tuple[Node, ...]
    ops: frozenset[str]
    widest: int
    upstream: list[Node] = field(default_factory=list)

    @property
    def costly(self) -> bool:
        """Whether it reads, decodes or calls Python."""
        return any(op.startswith(_COSTLY) for op in self.ops)

    @property
    def opens(self) -> bool:
        """Whether it opens files of records."""
        return any(op.startswith("TFRecordDataset") for op in self.ops)

    @property
    def parallel(self) -> bool:
        """Whether it makes several elements at once."""
        return self.kind in _PARALLEL and 1 not in (self.number("_num_parallel_calls"), self.number("_cycle_length"))

    @property
    def batched(self) -> bool:
        """Whether its elements are batches."""
        return any(n.kind in _BATCHES for n in self.upstream)

    def number(self, name: str) -> int:
        """Return a setting of the node as a number; 0 where it has none. AUTOTUNE and endless are negative."""
        return int(getattr(self.dataset, name, getattr(self.dataset, f"{name}_t", 0)))

    def ordered(self, otherwise: bool) -> bool:
        """Return whether its elements come in order; `otherwise` counts where the node does not say."""
        from tensorflow.core.framework import graph_pb2

        # An interleave keeps this word in its graph only.
        graph = graph_pb2.GraphDef.FromString(serialized(self.dataset._variant_tensor))
        if not graph.node:
            return otherwise
        (root,) = (n for n in graph.node if n.name == graph.node[-1].input[0])
        return {b"true": True, b"false": False}.get(root.attr["deterministic"].s, otherwise)


def nodes(dataset: Any) -> list[Node]:
    """Return the nodes of a pipeline from its end to its sources."""
    return list(_walk(dataset, ()))


def _walk(dataset: Any, downstream: tuple[Node, ...]) -> Iterator[Node]:
    own = Node(_kind(dataset), dataset, downstream, *_inside(dataset))
    yield own
    for source in dataset._inputs():
        for node in _walk(source, (own, *downstream)):
            own.upstream.append(node)
            yield node


def _kind(dataset: Any) -> str:
    return type(dataset).__name__.lstrip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")


def _inside(dataset: Any) -> tuple[frozenset[str], int]:
    """Return the ops in the functions of a node, and how many tensors one of them joins or parts at most."""
    ops: set[str] = set()
    widest = 0
    for graph in graphs(dataset):
        for node in operations(graph):
            ops.add(node.op)
            if node.op in _WIDE:
                widest = max(widest, node.attr[_WIDE[node.op]].i)
    return frozenset(ops), widest


def find(dataset: Any, case: Any) -> list[str]:
    """Return the keys of all faults that the graph shows, in the order of `DETECTORS`."""
    seen = nodes(dataset)
    return [key for key, detect in DETECTORS.items() if detect(seen, case)]


def refuse(dataset: Any) -> None:
    """Do nothing for a pipeline whose graph tells what it does.

    Raises
    ------
    Wrong
        If it hides a dataset from the graph, or reads files without the storage of the case.
    """
    seen = nodes(dataset)
    if any(captured(n.dataset) for n in seen):
        raise Wrong("a dataset inside a function cannot be examined: build on the sources of case without such a wrap")
    if any(n.kind == "TFRecord" or ((n.opens or "ReadFile" in n.ops) and "SleepDataset" not in n.ops) for n in seen):
        raise Wrong("it reads past the storage of the case: open files with case.read or case.records")


def keeps_order(dataset: Any) -> bool:
    """Return whether every element comes at its place."""
    strict = dataset.options().deterministic is not False
    return all(n.ordered(strict) for n in nodes(dataset) if n.kind in _PARALLEL)


def largest_shuffle(dataset: Any) -> float:
    """Return the size of the largest shuffle buffer, 0 without; elements out of order may have other reasons."""
    sizes = [n.number("_buffer_size") for n in nodes(dataset) if n.kind == "Shuffle"]
    return max((size if size >= 0 else math.inf for size in sizes), default=0)


def keeps_work(dataset: Any) -> bool:
    """Return whether a cache, or a snapshot on disk, keeps what was read and decoded for all later epochs."""
    seen = nodes(dataset)
    return any(n.kind in ("Cache", "Snapshot") and not _unfinished(n, None) and _after_all_work(n, seen) for n in seen)


# -- detectors -----------------------------------------------------------------------------


def _any(test: Callable[[Node, Any], bool], *kinds: str) -> Callable[[list[Node], Any], bool]:
    """Return a detector that looks at the nodes of some kinds, or of all, one by one."""
    return lambda seen, case: any(test(node, case) for node in seen if not kinds or node.kind in kinds)


def _uses(source: str) -> Callable[[list[Node], Any], bool]:
    """Return a detector of a source of the case."""
    return lambda seen, case: any(node.dataset is getattr(case, source) for node in seen)


def _after_all_work(node: Node, seen: list[Node]) -> bool:
    return all(n in node.upstream for n in seen if n.costly)


def _not_ahead(seen: list[Node], case: Any) -> bool:
    """Return whether nothing holds a whole batch ready, as a batch or as photos, on which all work is done.

    A prefetch before the work is a fault of its own, and not counted as this one as well.
    """

    def holds(node: Node) -> bool:
        depth = node.number("_buffer_size")
        if any(n.kind in _BATCHES for n in node.downstream):
            return not node.batched and (depth < 0 or depth >= case.batch)
        return True

    prefetches = [n for n in seen if n.kind == "Prefetch" and n.number("_buffer_size")]
    return not any(_early(n, case) or (holds(n) and _after_all_work(n, seen)) for n in prefetches)


def _early(node: Node, case: Any) -> bool:
    """Return whether all work comes after a node."""
    return any(n.costly for n in node.downstream) and not any(n.costly for n in node.upstream)


def _small_pool(seen: list[Node], case: Any) -> bool:
    size = seen[0].dataset.options().threading.private_threadpool_size
    asked = [n.number("_num_parallel_calls") for n in seen if n.parallel and (n.kind == "ParallelMap" or n.costly)]
    return bool(size) and size < 4 and any(not 0 < calls <= size for calls in asked)


def _one_again(node: Node, case: Any) -> bool:
    """Return whether images of a batch are taken one by one, in a loop of the graph or an unrolled one of Python."""
    return node.batched and (bool(node.ops & _LOOPS) or node.widest >= case.batch)


def _images_in_buffer(node: Node, case: Any) -> bool:
    """Return whether images fill a shuffle buffer anew each epoch: behind a cache, or before one, nothing is read."""
    if any(n.kind == "Cache" and not _unfinished(n, case) for n in node.downstream):
        return False
    kept = {n for cache in node.upstream if cache.kind == "Cache" for n in cache.upstream}
    return not node.batched and any(n.costly and n not in kept for n in node.upstream)


def _pile(seen: list[Node], case: Any) -> bool:
    """Return whether all nodes together keep too many batches ready; names of files have no weight."""
    photos = 0
    for node in seen:
        if node.kind in _AHEAD and (node.costly or any(n.costly for n in node.upstream)):
            whole = node.batched or node.kind in _BATCHES
            photos += max(0, node.number(_AHEAD[node.kind])) * (case.batch if whole else 1)
    return photos > DEEP * case.batch


def _unfinished(node: Node, case: Any) -> bool:
    """Return whether a cache is never read to its end: it has none, or what follows stops before it in every epoch."""
    if any(n.kind == "Repeat" and n.number("_count") < 0 for n in node.upstream):
        return True
    before, repeated = node, False
    for place, after in enumerate(node.downstream):
        # What stops behind a repeat ends the whole and no epoch, if nothing repeats it.
        if _stops(after, _most(before.dataset)) and (
            not repeated or any(n.kind == "Repeat" for n in node.downstream[place + 1 :])
        ):
            return True
        repeated |= after.kind == "Repeat"
        if not repeated:
            before = after
    return False


def _stops(node: Node, length: float) -> bool:
    """Return whether a node takes fewer elements than so many."""
    if node.kind == "Zip":  # its shortest part ends it
        return _most(node.dataset) < length
    return node.kind == "TakeWhile" or (node.kind == "Take" and 0 <= node.number("_count") < length)


def _most(dataset: Any) -> float:
    """Return how many elements a dataset has at most."""
    known, sources = int(dataset.cardinality()), dataset._inputs()
    if known >= 0:
        return known
    # Behind a filter nobody knows the number, but there are not more than before it.
    grows = known == _ENDLESS or len(sources) != 1 or _kind(dataset) in _MORE
    return math.inf if grows else _most(sources[0])


def _kept_too_soon(seen: list[Node], case: Any) -> bool:
    """Return whether a cache keeps what costs nothing, and no other keeps the work."""
    return _any(_early, "Cache")(seen, case) and not keeps_work(seen[0].dataset)


def _batches_only(node: Node, case: Any) -> bool:
    """Return whether batches are shuffled whose photos were not."""
    return node.batched and not any(n.kind == "Shuffle" and not n.batched for n in node.upstream)


def _waits(seen: list[Node], case: Any) -> bool:
    strict = seen[0].dataset.options().deterministic is not False
    return case.far and any("ReadFile" in n.ops and n.parallel and n.ordered(strict) for n in seen)


def _in_turn(seen: list[Node], case: Any) -> bool:
    return not _uses("archive")(seen, case) and any(n.opens and not n.parallel for n in seen)


#: Key of a fault to its detector, which takes the nodes and the case.
DETECTORS: dict[str, Callable[[list[Node], Any], bool]] = {
    "no_prefetch": _not_ahead,
    "early_prefetch": _any(lambda n, case: bool(n.number("_buffer_size")) and _early(n, case), "Prefetch"),
    "one_by_one": _any(lambda n, _: n.costly and not n.parallel),
    "one_thread": _small_pool,
    "gil": _any(lambda n, _: bool(n.ops & _PYTHON)),
    "map_fn": _any(_one_again),
    "shuffled_images": _any(_images_in_buffer, "Shuffle"),
    "huge_buffer": _pile,
    "cached_names": _kept_too_soon,
    "unfinished_cache": _any(_unfinished, "Cache"),
    "cached_augment": _any(lambda n, _: any(map(_RANDOM.search, (op for u in n.upstream for op in u.ops))), "Cache"),
    "straggler": _waits,
    "single_file": _uses("archive"),
    "files_in_turn": _in_turn,
    "tiny_shards": _uses("crumbs"),
    "gzip": _uses("zipped"),
    "shuffled_batches": _any(_batches_only, "Shuffle"),
    "blurred_epochs": _any(lambda n, _: not n.batched and any(u.kind == "Repeat" for u in n.upstream), "Shuffle"),
}
