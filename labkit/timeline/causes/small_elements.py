"""Elements so small that asking for each of them takes longer than the work on it."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

from labkit.timeline.causes.node_work import NodeWork, asynchronous, is_map
from labkit.timeline.causes.thresholds import EACH_NS, HANDED_OVER, MANY_CALLS, MANY_PARTS, SMALL_NS
from labkit.timeline.run import Run
from labkit.timeline.wording import duration, short_op

#: Ops that take one value only, so that no call of them works on a batch.
_ONE_VALUE = re.compile("ReadFile|Decode(AndCrop)?(Jpeg|Png|Gif|Bmp|Image|Wav)")
#: Nodes that neither drop, nor change, nor join what they pass on; and those whose elements are all of one length.
_ORDERS = re.compile(r"Shuffle\w*|Prefetch|(ForeverRepeat|FiniteRepeat|FiniteTake|FiniteSkip)(V\d+)?")
_ONE_LENGTH = re.compile("(Parallel)?Batch")
#: Nodes before which no batch is made of what a map takes: rows of several lengths, members of sample_from_datasets.
_UNEVEN = re.compile("::(PaddedBatch|GroupBy|DirectedInterleave)")
#: Maps that no reader has written, but Keras's timeseries_dataset_from_array.
_WINDOWS = re.compile(r"Map(V\d+)?::Zip::(Parallel)?Map(V\d+)?::Zip::ForeverRepeat::FromTensor$")


def one_by_one(work: NodeWork, steps: int, ops_ns: int, batch_ns: int) -> dict[str, Any]:
    """Return the node that elements of a step pass one by one for longer than ops work, as facts; empty without one.

    Parameters
    ----------
    work : NodeWork
    steps : int
        Train steps in the window.
    ops_ns, batch_ns : int
        How long the gaps waited for ops, and for copying into batches. A batch of small elements takes its time to ask
        for each of them, and one of large ones to copy them.
    """
    asked = {path: max(calls, work.asked(path)) for path, calls in work.calls.items() if not asynchronous(path)}
    many = {
        path: work.own_ns(path)
        for path, calls in asked.items()
        if calls >= MANY_CALLS * steps and work.own_ns(path) < SMALL_NS * calls
    }
    batches = any("Batch" in short_op(path) for path in many)
    least = max(HANDED_OVER * work.window_ns, ops_ns, 0 if batches else batch_ns)
    for path in sorted(work.calls, key=len) if steps and many else ():
        node, below, word, took = short_op(path), work.below(path), "", sum(many.values())
        if node == "Unbatch" and path in many:
            word = "unbatch()"
            took += sum(work.own_ns(name) for name in below if is_map(short_op(name)) and not asynchronous(name))
        elif node in ("FlatMap", "Interleave") and any(short_op(name) == "Window" for name in below):
            word, took = "window() and flat_map()", sum(map(work.own_ns, [path, *below]))
        elif node == "TensorSlice" and path in many:
            # The nodes between an array and the first batch of its elements.
            above = takewhile(lambda node: not _ONE_LENGTH.match(node), reversed(path.split("::")[:-1]))
            word = "from_tensor_slices()" if all(map(_ORDERS.fullmatch, above)) else ""
        if word and took >= least:
            return {"each": work.calls[path] / steps, "one_by_one": word}
    return {}


def packed(work: NodeWork, run: Run, steps: int) -> dict[str, Any]:
    """Return what parts of elements are, "sparse" or "ragged", that are packed one by one for a batch, as a fact.

    It is empty where ops take so long for each element that packing it does not matter.
    """
    kind, elements = run.work and run.work.packed, run.images_of(steps) or 0
    much = elements >= MANY_CALLS * steps / 4 and work.ops_ns < EACH_NS * elements
    return {"packed": kind} if kind and much else {}


def many_parts(run: Run) -> dict[str, Any]:
    """Return how many parts an element has, if they are many, as a fact."""
    parts = len(run.work.components) if run.work else 0
    return {"parts": parts} if parts >= MANY_PARTS else {}


def short_calls(work: NodeWork, run: Run, steps: int) -> dict[str, Any]:
    """Return the calls of a map in a step that are shorter than it takes to make them, as facts; empty without them.

    The calls are those of the nodes, because the profiler keeps few of the shortest operations.
    """
    shapes = [part.shape for part in run.work.components] if run.work else []
    uneven = any(shape is None or None in shape for shape in shapes)
    if uneven or any(_ONE_VALUE.fullmatch(short_op(name)) or _WINDOWS.search(name) for name in work.counts):
        return {}
    # A map that is fused with its batch asks for its elements, and is itself asked for batches.
    maps = [name for name in work.calls if any(map(is_map, name.split("::")[-2:])) and not _UNEVEN.search(name)]
    calls = max((work.calls[name] for name in maps), default=0)
    if not steps or calls < MANY_CALLS * steps or work.ops_ns >= SMALL_NS * calls:
        return {}
    return {"calls": calls / steps, "call_time": duration(max(work.ops_ns, 1) / calls)}
