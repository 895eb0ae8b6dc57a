"""Other ways to write a pipeline: the same elements for less work, or with more of it at the same time.

Only a measurement shows whether a changed pipeline is faster: see `labextras.tune.improve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from labextras.tune.calls import Call, Written
from labkit.pipelines.structure import AUTOTUNE
from labkit.timeline.wording import PYTHON_OPS

#: Calls of a function that waits for answers, and the threads that they need: more than any laptop has cores.
MANY = 16
SEVERAL = "several files at once"
#: Calls behind which elements and their order are the same whether a map comes before or after them.
_SAME_ELSEWHERE = ("map", "prefetch")
#: Calls that go by the place of an element alone.
_PLACED = ("shuffle", "prefetch", "shard", "skip", "take", "repeat")
#: Calls before a cache whose place among shuffles and repeats matters.
_ORDERED = ("interleave", "flat_map", "filter", "take", "skip", "shard")
#: Calls that pick elements by their place: in another order they give others.
_BY_PLACE = ("take", "skip", "shard")
#: Operations that read what may change while the pipeline runs.
_VARIABLES = ("ReadVariableOp", "ResourceGather")
#: Reads of a map that may come from far away.
_READS = ("ReadFile", *PYTHON_OPS)


@dataclass(frozen=True, eq=False)
class Change:
    """Another way to write a pipeline.

    Parameters
    ----------
    name : str
        What is changed, in a few words.
    written : Written
        The pipeline with the change.
    same_order : bool
        Whether the elements come in the same order.
    stored : Written, optional
        What a cache keeps: it pays from the second epoch on, and must not change from one to the next.
    swapped : bool
        Whether a map now works on batches: what it gives for a batch must be what it gives for its elements.
    """

    name: str
    written: Written
    same_order: bool = True
    stored: Written | None = None
    swapped: bool = False


def changes(
    written: Written, *, waits: bool = False, fits: Callable[[Written], bool] = lambda _: True
) -> Iterator[Change]:
    """Yield other ways to write a pipeline, one change each: first what its structure shows, then what saves work.

    None of them names what the pipeline has already.

    Parameters
    ----------
    written : Written
    waits : bool
        Whether the work to blame waits, for storage or for an answer: then more calls than cores are offered.
    fits : callable
        Tells whether the elements that a pipeline (up to the place of a cache) delivers fit into
        memory; it is asked only where a cache is possible.
    """
    # What a call that becomes parallel must say so that it keeps its order.
    order = {} if written.build().options().deterministic is not False else {"deterministic": True}
    ends = [call for call in written.calls if call.method != "with_options"]
    if not ends or ends[-1].method != "prefetch":
        place = written.calls.index(ends[-1]) + 1 if ends else 0
        calls = (*written.calls[:place], Call("prefetch", (AUTOTUNE,)), *written.calls[place:])
        yield Change("prefetch at the end", replace(written, calls=calls))
    yield from _several_files(written, order)
    yield from _parallel(written, order)
    if waits:
        yield from _many(written, order)
    yield from _less_work(written)
    yield from _cached(written, fits)


def _by_place(calls: Sequence[Call]) -> bool:
    """Tell whether any of the calls gives other elements when its input comes in another order."""
    return any(call.method in _BY_PLACE for call in calls)


def _less_work(written: Written) -> Iterator[Change]:
    calls = written.calls
    for place, call in enumerate(calls):
        before = place
        while before and calls[before - 1].method in _SAME_ELSEWHERE:
            before -= 1
        if call.method in ("shard", "skip", "shuffle") and any(one.method == "map" for one in calls[before:place]):
            moved = (*calls[:before], call, *calls[before:place], *calls[place + 1 :])
            yield Change(f"{call.method} before the map", replace(written, calls=moved))
        if call.method == "batch" and (behind := _map_of(calls[:place])) is not None:
            rest = (*calls[:behind], *calls[behind + 1 : place + 1], calls[behind], *calls[place + 1 :])
            yield Change("batch before the map", replace(written, calls=rest), swapped=True)


def _map_of(calls: Sequence[Call]) -> int | None:
    """Return the place of a map that gives the calls behind it their elements as they are, if it draws nothing."""
    place = len(calls) - 1
    while place >= 0 and calls[place].method in _PLACED:
        place -= 1
    return place if place >= 0 and calls[place].method == "map" and not calls[place].random else None


def _cached(written: Written, fits: Callable[[Written], bool]) -> Iterator[Change]:
    """Yield a cache behind the last map that draws nothing at random, where there is none.

    The cache stands before the first call that draws at random or reads a variable: in the next epoch, its value may be
    another one. Shuffles and repeats before that place go behind the cache. The result of a map does not depend on the
    place of an element, so the elements and their order stay the same.
    """
    kept: list[Call] = []
    moved: list[Call] = []
    rest: tuple[Call, ...] = ()
    for place, call in enumerate(written.calls):
        varies = call.random or call.ops.intersection(_VARIABLES)
        if call.method in ("shuffle", "repeat"):
            moved.append(call)
        elif not varies and (call.method == "map" or (call.method in _ORDERED and not moved)):
            kept.append(call)
        elif call.method != "prefetch":
            rest = written.calls[place:]
            break
    work = any(call.method in ("map", "interleave", "flat_map") for call in kept)
    stored = replace(written, calls=tuple(kept))
    if work and not any(call.method == "cache" for call in written.calls) and fits(stored):
        calls = (*kept, Call("cache"), *moved, *rest)
        yield Change("cache what the maps make", replace(written, calls=calls), stored=stored)


def _several_files(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    """Yield the changes that read several files at once: records of a source, and what an interleave reads."""
    import tensorflow as tf

    source = written.source
    if type(source).__name__ == "TFRecordDatasetV2" and not source._num_parallel_reads and not _by_place(written.calls):
        names, *given = source._filenames, source._compression_type, source._buffer_size
        if not isinstance(names, tf.data.Dataset):
            names = tf.data.Dataset.from_tensor_slices(tf.reshape(names, [-1]))
        if int(names.cardinality()) not in (0, 1):
            begin = f"tf.data.TFRecordDataset(…, num_parallel_reads={MANY})"
            reads = tf.data.TFRecordDataset(names, *given, num_parallel_reads=MANY)
            yield Change(SEVERAL, replace(written, source=reads, begin=begin), same_order=False)
    for place, call in enumerate(written.calls):
        if call.method not in ("flat_map", "interleave"):
            continue
        cycle = 1 if call.method == "flat_map" else call.settings.get("cycle_length", 0)
        if not call.parallel and cycle > 1:
            yield Change(SEVERAL, _replaced(written, {place: call.having(num_parallel_calls=AUTOTUNE, **order)}))
        elif (not call.parallel or 0 < cycle < MANY) and not _by_place(written.calls[place + 1 :]):
            wide = replace(call, method="interleave").having(cycle_length=MANY, num_parallel_calls=AUTOTUNE)
            yield Change(SEVERAL, _replaced(written, {place: wide}), same_order=False)


def _parallel(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    maps = {i: c for i, c in enumerate(written.calls) if c.method == "map" and not c.parallel}
    if maps:
        new = {place: call.having(num_parallel_calls=AUTOTUNE, **order) for place, call in maps.items()}
        yield Change("parallel map", _replaced(written, new))


def _many(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    """Yield more calls at once than there are cores, and a thread for each, for maps whose functions wait."""
    import tensorflow as tf

    maps = {
        i: c.having(num_parallel_calls=MANY, **({} if c.parallel else order))
        for i, c in enumerate(written.calls)
        if c.method == "map" and c.settings.get("num_parallel_calls", 0) < MANY and c.ops.intersection(_READS)
    }
    if maps:
        options = tf.data.Options()
        options.threading.private_threadpool_size = MANY
        wide = _replaced(written, maps)
        yield Change("more calls than cores", replace(wide, calls=(*wide.calls, Call("with_options", (options,)))))


def _replaced(written: Written, new: Mapping[int, Call]) -> Written:
    return replace(written, calls=tuple(new.get(place, call) for place, call in enumerate(written.calls)))
