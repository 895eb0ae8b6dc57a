"""Other ways to write a pipeline: the same elements for less work, or with more of it at the same time.

Only a measurement shows whether a changed pipeline is faster: see `labextras.tune.improve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labextras.tune.calls import Call, Written, read, text
from labkit.common.environment import cores
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
_ORDERED = ("interleave", "flat_map", "filter", "enumerate", "take", "skip", "shard", "unbatch")
#: Calls that pick or number elements by their place: in another order they give others.
_BY_PLACE = ("take", "skip", "shard", "enumerate")
#: Operations of Python that may draw, count or remember something, and nobody sees it. Who writes
#: numpy_function(…, stateful=False) says that this one does not, and TensorFlow itself may call it again or not at all.
_STATEFUL_PYTHON = frozenset(PYTHON_OPS) - {"PyFuncStateless"}
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
    swapped : tuple, optional
        The dataset and the function of a map that now works on batches: the two must commute.
    """

    name: str
    written: Written
    same_order: bool = True
    stored: Written | None = None
    swapped: tuple[Any, Callable[..., Any]] | None = None


def changes(
    written: Written, *, waits: bool = False, fits: Callable[[Written], bool] = lambda _: True
) -> Iterator[Change]:
    """Yield other ways to write a pipeline, one change each: first what saves work, then what does it at once.

    For work that waits it is the other way round. None of them names what the pipeline has already; two changes of one
    name are told apart by their places.

    Parameters
    ----------
    written : Written
    waits : bool
        Whether the work to blame waits, for storage or for an answer: then more calls than cores are offered.
    fits : callable
        Tells whether the elements that a pipeline (`Written.once`, up to the place of a cache) delivers fit into
        memory; it is asked only where a cache is possible.
    """
    names: Counter[str] = Counter()
    for change in _changes(written, waits, fits):
        names[change.name] += 1
        place = names[change.name]
        yield change if place == 1 else replace(change, name=f"{change.name}, place {place}")


def _changes(written: Written, waits: bool, fits: Callable[[Written], bool]) -> Iterator[Change]:
    order = _in_order(written)
    at_once = [*_at_once(written, order), *(_many(written, order) if waits else ())]
    if waits:
        yield from at_once
    yield from _less_work(written)
    yield from _cached(written, fits)
    if not waits:
        yield from at_once
    ends = [call for call in written.calls if call.method != "with_options"]
    if not ends or ends[-1].method != "prefetch":
        yield Change("prefetch at the end", _inserted(written, _behind(written, ends), Call("prefetch", (AUTOTUNE,))))


def by_hand(written: Written) -> Iterator[Change]:
    """Yield those changes of the calls in `Written.above` that keep the order; they can be shown, but not built."""
    above = replace(written, source=None, calls=written.above, above=())
    for change in (*_less_work(above), *_at_once(above, _in_order(written))):
        if not change.same_order or change.swapped:
            continue  # what comes behind may go by the place of an element, and nobody tried the map on a batch
        calls = (*change.written.calls, *written.calls)
        yield replace(change, written=replace(written, calls=calls, above=()))


def _by_place(calls: Sequence[Call]) -> bool:
    """Tell whether any of the calls gives other elements when its input comes in another order."""
    return any(call.method in _BY_PLACE for call in calls)


def _behind(written: Written, ends: list[Call]) -> int:
    """Return the place behind the last of some calls."""
    return written.calls.index(ends[-1]) + 1 if ends else 0


def _less_work(written: Written) -> Iterator[Change]:
    calls = written.calls
    for place, call in enumerate(calls):
        before = place
        while before and calls[before - 1].method in _SAME_ELSEWHERE:
            before -= 1
        crossed = [one for one in calls[before:place] if one.method == "map"]
        if call.method in ("shard", "skip", "shuffle") and crossed:
            yield Change(f"{call.method} before the map", _moved(written, place, before))
        # The predicate asks the maps once, the element that it lets pass a second time: both must be the same.
        steady = not any(one.random or one.ops.intersection((*_STATEFUL_PYTHON, *_VARIABLES)) for one in crossed)
        if call.method == "filter" and crossed and steady:
            early = replace(call, arguments=(_Composed(call.arguments[0], crossed),))
            yield Change("filter before the map", _moved(written, place, before, early))
        apart = [one for one in calls[:place] if one.method != "prefetch"][-1:]
        if call.method == "batch" and not call.parallel and apart and apart[0].method == "unbatch":
            rest = (*calls[: calls.index(apart[0])], replace(call, method="rebatch"), *calls[place + 1 :])
            yield Change("rebatch in place of unbatch and batch", replace(written, calls=rest))
        if call.method == "batch" and (behind := _map_of(calls[:place])) is not None:
            last = calls[behind]
            elements = last.node.dataset._input_dataset, last.arguments[0]
            rest = (*calls[:behind], *calls[behind + 1 : place + 1], last, *calls[place + 1 :])
            yield Change("batch before the map", replace(written, calls=rest), swapped=elements)


def _map_of(calls: Sequence[Call]) -> int | None:
    """Return the place of a map that gives the calls behind it their elements as they are, if it draws nothing."""
    place = len(calls) - 1
    while place >= 0 and calls[place].method in _PLACED:
        place -= 1
    return place if place >= 0 and calls[place].method == "map" and not calls[place].random else None


def _cached(written: Written, fits: Callable[[Written], bool]) -> Iterator[Change]:
    """Yield a cache behind the last map that draws nothing at random, or the cache that is there, moved behind it.

    The cache stands before the first call that draws at random or reads a variable: in the next epoch, its value may be
    another one. A cache before a take never gets to the end of its input, so it is moved behind the take. Shuffles and
    repeats before that place go behind the cache. The result of a map does not depend on the place of an element, so
    the elements and their order stay the same.
    """
    old = next((call for call in written.calls if call.method == "cache"), None)
    if old is not None and old.arguments:
        return  # its file holds what stands before it now
    calls = [call for call in written.calls if call is not old]
    kept, moved = [], []
    for call in calls:
        varies = call.random or call.ops.intersection(_VARIABLES)
        if call.method in ("shuffle", "repeat"):
            moved.append(call)
        elif not varies and (call.method == "map" or (call.method in _ORDERED and not moved)):
            kept.append(call)
        elif call.method != "prefetch":
            break
    rest = calls[calls.index(call) :] if calls and call not in (*kept, *moved) else []
    before = written.calls[: written.calls.index(old)] if old else ()
    work = [call for call in kept if call.method in ("map", "interleave", "flat_map") and call not in before]
    ends = [call for call in kept if old and call.method == "take" and call not in before]
    stored = replace(written, calls=tuple(kept))
    if (work or ends) and fits(stored):
        name = "cache what the maps make" if old is None else f"the cache behind {'the maps' if work else 'take'}"
        new = (*kept, old or Call("cache"), *moved, *rest)
        yield Change(name, replace(written, calls=new), stored=stored)


def _in_order(written: Written) -> dict[str, bool]:
    """Return what a call that becomes parallel must say so that it keeps its order."""
    return {} if written.build().options().deterministic is not False else {"deterministic": True}


def _at_once(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    if records := _several_files(written):
        yield records
    for place, call in enumerate(written.calls):
        if call.method not in ("flat_map", "interleave"):
            continue
        cycle = 1 if call.method == "flat_map" else call.settings.get("cycle_length", 0)
        if not call.parallel and cycle > 1:
            yield Change(SEVERAL, _replaced(written, {place: call.having(num_parallel_calls=AUTOTUNE, **order)}))
        elif (not call.parallel or 0 < cycle < MANY) and not _by_place(written.calls[place + 1 :]):
            wide = replace(call, method="interleave").having(cycle_length=MANY, num_parallel_calls=AUTOTUNE)
            yield Change(SEVERAL, _replaced(written, {place: wide}), same_order=False)
    for method in ("map", "batch"):
        found = {i: c for i, c in enumerate(written.calls) if c.method == method and not c.parallel}
        if found:
            new = {place: call.having(num_parallel_calls=AUTOTUNE, **order) for place, call in found.items()}
            yield Change(f"parallel {method}", _replaced(written, new))
    threads = 0 if written.source is None else written.build().options().threading.private_threadpool_size
    if threads and threads < cores():
        yield Change("a thread for each core", _threads(written, cores()))


def _many(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    """Yield more calls at once than there are cores, for maps whose functions wait."""
    maps = {
        i: c.having(num_parallel_calls=MANY, **({} if c.parallel else order))
        for i, c in enumerate(written.calls)
        if c.method == "map" and c.settings.get("num_parallel_calls", 0) < MANY and c.ops.intersection(_READS)
    }
    if maps:
        yield Change("more calls than cores", _threads(_replaced(written, maps), MANY))


def _several_files(written: Written) -> Change | None:
    """Return the change that reads the files of a source of records in parallel, if it has several."""
    import tensorflow as tf

    source = written.source
    if type(source).__name__ != "TFRecordDatasetV2" or source._num_parallel_reads or _by_place(written.calls):
        return None
    names = source._filenames
    if not isinstance(names, tf.data.Dataset):
        names = tf.data.Dataset.from_tensor_slices(np.ravel(names))
    count = int(names.cardinality())
    if 0 <= count < 2:
        return None
    kept = {"compression_type": source._compression_type, "buffer_size": source._buffer_size}
    given = {name: value for name, value in kept.items() if value}

    def read_file(name: Any) -> Any:
        return tf.data.TFRecordDataset(name, **given)

    arguments = ", ".join(["name", *(f"{name}={text(value)}" for name, value in given.items())])
    read_file.__name__ = f"lambda name: tf.data.TFRecordDataset({arguments})"  # as a reader writes it
    reads = Call("interleave", (read_file,), {"cycle_length": MANY, "num_parallel_calls": AUTOTUNE})
    begin = "\n    ".join(read(names).lines())  # with what the names went through, as a shuffle
    if begin == "tf.data.Dataset.from_tensor_slices(…)":
        begin = f"tf.data.Dataset.from_tensor_slices([… {count} file names])"
    new = replace(written, source=names, begin=begin, calls=(reads, *written.calls))
    return Change(SEVERAL, new, same_order=False)


class _Composed:
    """A predicate on what maps make, asked before they run. TensorFlow leaves out the work that it does not need."""

    def __init__(self, predicate: Callable[..., Any], maps: list[Call]) -> None:
        self.functions = [call.arguments[0] for call in maps] + [predicate]
        taken = [call.node.dataset._input_dataset for call in maps] + [maps[-1].node.dataset]
        stars = ["*" if isinstance(dataset.element_spec, tuple) else "" for dataset in taken]
        nested = "x"
        for star, function in zip(stars, self.functions, strict=True):
            name = text(function)
            nested = f"{f'({name})' if name.startswith('lambda') else name}({star}{nested})"
        self.__name__ = f"lambda {stars[0]}x: {nested}"

    def __call__(self, *parts: Any) -> Any:
        """Return what the predicate says of an element of the source."""
        for function in self.functions:
            value = function(*parts)
            parts = value if isinstance(value, tuple) else (value,)
        return value


def _moved(written: Written, place: int, to: int, call: Call | None = None) -> Written:
    """Return the pipeline with the call at a place moved forward to another place."""
    calls = list(written.calls)
    moved = calls.pop(place)
    calls.insert(to, call or moved)
    return replace(written, calls=tuple(calls))


def _replaced(written: Written, new: Mapping[int, Call]) -> Written:
    return replace(written, calls=tuple(new.get(place, call) for place, call in enumerate(written.calls)))


def _inserted(written: Written, place: int, call: Call) -> Written:
    return replace(written, calls=(*written.calls[:place], call, *written.calls[place:]))


def _threads(written: Written, count: int) -> Written:
    """Return the pipeline with a pool of so many threads; the other options stay."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = count
    return replace(written, calls=(*written.calls, Call("with_options", (options,))))
