"""Faults that the graph of a pipeline shows: which node stands where, on how many threads, with what inside.

Each detector answers for every pipeline on the sources of a drill, not only for the one that it was written for. So a
test can prove that each pipeline has one fault, and that its fix brings no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from labcourse.grading import Wrong
from labkit.pipelines.structure import DatasetNode, draws, nodes
from labkit.timeline.wording import PYTHON_OPS

#: Ops that make a function worth its threads.
_COSTLY = ("ReadFile", "Decode", "ParseExample", "ParseSingleExample", *PYTHON_OPS)
_LOOPS = {"While", "StatelessWhile"}
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


def _costly(node: DatasetNode) -> bool:
    """Return whether a node reads, decodes or calls Python."""
    return any(op.startswith(_COSTLY) for op in node.ops)


def _opens(node: DatasetNode) -> bool:
    """Return whether a node opens files of records."""
    return any(op.startswith("TFRecordDataset") for op in node.ops)


def _parallel(node: DatasetNode) -> bool:
    """Return whether a node makes several elements at once."""
    return node.kind in _PARALLEL and 1 not in (node.number("_num_parallel_calls"), node.number("_cycle_length"))


def _batched(node: DatasetNode) -> bool:
    """Return whether the elements of a node are batches."""
    return any(n.kind in _BATCHES for n in node.upstream)


def _widest(node: DatasetNode) -> int:
    """Return how many tensors one operation of a node joins or parts at most."""
    wide = (op.attr[_WIDE[op.op]].i for op in node.operations if op.op in _WIDE)
    return max(wide, default=0)


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
    if any(n.captured for n in seen):
        raise Wrong("a dataset inside a function cannot be examined: build on the sources of case without such a wrap")
    if any(n.kind == "TFRecord" or ((_opens(n) or "ReadFile" in n.ops) and "SleepDataset" not in n.ops) for n in seen):
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


def _any(test: Callable[[DatasetNode, Any], bool], *kinds: str) -> Callable[[list[DatasetNode], Any], bool]:
    """Return a detector that looks at the nodes of some kinds, or of all, one by one."""
    return lambda seen, case: any(test(node, case) for node in seen if not kinds or node.kind in kinds)


def _uses(source: str) -> Callable[[list[DatasetNode], Any], bool]:
    """Return a detector of a source of the case."""
    return lambda seen, case: any(node.dataset is getattr(case, source) for node in seen)


def _after_all_work(node: DatasetNode, seen: list[DatasetNode]) -> bool:
    return all(n in node.upstream for n in seen if _costly(n))


def _not_ahead(seen: list[DatasetNode], case: Any) -> bool:
    """Return whether nothing holds a whole batch ready, as a batch or as photos, on which all work is done.

    A prefetch before the work is a fault of its own, and not counted as this one as well.
    """

    def holds(node: DatasetNode) -> bool:
        depth = node.number("_buffer_size")
        if any(n.kind in _BATCHES for n in node.downstream):
            return not _batched(node) and (depth < 0 or depth >= case.batch)
        return True

    prefetches = [n for n in seen if n.kind == "Prefetch" and n.number("_buffer_size")]
    return not any(_early(n, case) or (holds(n) and _after_all_work(n, seen)) for n in prefetches)


def _early(node: DatasetNode, case: Any) -> bool:
    """Return whether all work comes after a node."""
    return any(_costly(n) for n in node.downstream) and not any(_costly(n) for n in node.upstream)


def _small_pool(seen: list[DatasetNode], case: Any) -> bool:
    size = seen[0].dataset.options().threading.private_threadpool_size
    asked = [n.number("_num_parallel_calls") for n in seen if _parallel(n) and (n.kind == "ParallelMap" or _costly(n))]
    return bool(size) and size < 4 and any(not 0 < calls <= size for calls in asked)


def _one_again(node: DatasetNode, case: Any) -> bool:
    """Return whether images of a batch are taken one by one, in a loop of the graph or an unrolled one of Python."""
    return _batched(node) and (bool(node.ops & _LOOPS) or _widest(node) >= case.batch)


def _images_in_buffer(node: DatasetNode, case: Any) -> bool:
    """Return whether images fill a shuffle buffer anew each epoch: behind a cache, or before one, nothing is read."""
    if any(n.kind == "Cache" and not _unfinished(n, case) for n in node.downstream):
        return False
    kept = {n for cache in node.upstream if cache.kind == "Cache" for n in cache.upstream}
    return not _batched(node) and any(_costly(n) and n not in kept for n in node.upstream)


def _pile(seen: list[DatasetNode], case: Any) -> bool:
    """Return whether all nodes together keep too many batches ready; names of files have no weight."""
    photos = 0
    for node in seen:
        if node.kind in _AHEAD and (_costly(node) or any(_costly(n) for n in node.upstream)):
            whole = _batched(node) or node.kind in _BATCHES
            photos += max(0, node.number(_AHEAD[node.kind])) * (case.batch if whole else 1)
    return photos > DEEP * case.batch


def _unfinished(node: DatasetNode, case: Any) -> bool:
    """Return whether a cache is never read to its end: it has none, or what follows stops before it in every epoch."""
    if any(n.kind == "Repeat" and n.number("_count") < 0 for n in node.upstream):
        return True
    before, repeated = node, False
    for i, after in enumerate(node.downstream):
        # A node behind a repeat that stops early ends the whole dataset, not an epoch, unless it is repeated, too.
        if _stops(after, _most(before)) and (not repeated or any(n.kind == "Repeat" for n in node.downstream[i + 1 :])):
            return True
        repeated |= after.kind == "Repeat"
        if not repeated:
            before = after
    return False


def _stops(node: DatasetNode, length: float) -> bool:
    """Return whether a node takes fewer elements than so many."""
    if node.kind == "Zip":  # its shortest part ends it
        return _most(node) < length
    return node.kind == "TakeWhile" or (node.kind == "Take" and 0 <= node.number("_count") < length)


def _most(node: DatasetNode) -> float:
    """Return how many elements a node delivers at most."""
    known, sources = int(node.dataset.cardinality()), node.dataset._inputs()
    if known >= 0:
        return known
    # Behind a filter nobody knows the number, but there are not more than before it.
    grows = known == _ENDLESS or len(sources) != 1 or node.kind in _MORE
    return math.inf if grows else _most(node.upstream[0])


def _batches_only(node: DatasetNode, case: Any) -> bool:
    """Return whether batches are shuffled whose photos were not."""
    return _batched(node) and not any(n.kind == "Shuffle" and not _batched(n) for n in node.upstream)


def _waits(seen: list[DatasetNode], case: Any) -> bool:
    strict = seen[0].dataset.options().deterministic is not False
    return case.far and any("ReadFile" in n.ops and _parallel(n) and n.ordered(strict) for n in seen)


def _in_turn(seen: list[DatasetNode], case: Any) -> bool:
    return not _uses("archive")(seen, case) and any(_opens(n) and not _parallel(n) for n in seen)


#: Key of a fault to its detector, which takes the nodes and the case.
DETECTORS: dict[str, Callable[[list[DatasetNode], Any], bool]] = {
    "no_prefetch": _not_ahead,
    "early_prefetch": _any(lambda n, case: bool(n.number("_buffer_size")) and _early(n, case), "Prefetch"),
    "one_by_one": _any(lambda n, _: _costly(n) and not _parallel(n)),
    "one_thread": _small_pool,
    "gil": _any(lambda n, _: not n.ops.isdisjoint(PYTHON_OPS)),
    "map_fn": _any(_one_again),
    "shuffled_images": _any(_images_in_buffer, "Shuffle"),
    "huge_buffer": _pile,
    # A cache keeps what costs nothing, and no other keeps the work.
    "cached_names": lambda seen, case: _any(_early, "Cache")(seen, case) and not keeps_work(seen[0].dataset),
    "unfinished_cache": _any(_unfinished, "Cache"),
    "cached_augment": _any(lambda n, _: draws(n.upstream), "Cache"),
    "straggler": _waits,
    "single_file": _uses("archive"),
    "files_in_turn": _in_turn,
    "tiny_shards": _uses("crumbs"),
    "gzip": _uses("zipped"),
    "shuffled_batches": _any(_batches_only, "Shuffle"),
    "blurred_epochs": _any(lambda n, _: not _batched(n) and any(u.kind == "Repeat" for u in n.upstream), "Shuffle"),
}
