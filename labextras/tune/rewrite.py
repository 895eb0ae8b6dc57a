"""Other ways to write a pipeline: the same elements for less work, or with more of it at the same time.

Only a measurement shows whether a changed pipeline is faster: see `labextras.tune.improve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labextras.tune.calls import CONCATENATE, Call, Written, text
from labkit.pipelines.structure import AUTOTUNE
from labkit.timeline.wording import PYTHON_OPS

#: Calls of a function that waits for answers, and the threads that they need: more than any laptop has cores.
MANY = 16
SEVERAL = "several files at once"
#: Readers in a row that are worth one reader of all their files.
LONG_CHAIN = 8
#: Readers of files that can read several at the same time.
_TEXT_AND_RECORDS = ("TFRecordDatasetV2", "TextLineDatasetV2")
#: Calls behind which elements and their order are the same whether a map comes before or after them.
_SAME_ELSEWHERE = ("map", "prefetch")
#: Calls that need not wait until a map has worked on what they drop or draw.
_EARLIER = ("shard", "skip", "shuffle", "filter")
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
#: Rules that several calls of a map at the same time answer.
_AT_ONCE = ("prep.parallel-map", "python.in-parallel", "python.unclear", "python.ops-instead", "fetch.parallel-reads")


@dataclass(frozen=True, eq=False)
class Change:
    """Another way to write a pipeline.

    Parameters
    ----------
    name : str
        What is changed, in a few words.
    written : Written
        The pipeline with the change.
    answers : tuple of str, optional
        The rules of `labkit.advice` that ask for it; the topic of a rule, as ``prep``, stands before its dot.
    same_order : bool
        Whether the elements come in the same order.
    stored : Written, optional
        What a cache keeps: it pays from the second epoch on, and must not change from one to the next.
    swapped : bool
        Whether a map now works on batches: what it gives for a batch must be what it gives for its elements.
    """

    name: str
    written: Written
    answers: tuple[str, ...] = ()
    same_order: bool = True
    stored: Written | None = None
    swapped: bool = False

    def promise(self, rules: Sequence[str]) -> int:
        """Return how well it answers some rules: 0 for one that asks for it, 1 for their topic, 2 for none."""
        topics = [{rule.split(".")[0] for rule in some} for some in (self.answers, rules)]
        return 0 if {*self.answers} & {*rules} else 1 if topics[0] & topics[1] else 2


def changes(written: Written, *, fits: Callable[[Written], bool] = lambda _: True) -> Iterator[Change]:
    """Yield other ways to write a pipeline, one change each; none of them names what the pipeline has already.

    Parameters
    ----------
    written : Written
    fits : callable
        Tells whether the elements that a pipeline (up to the place of a cache) delivers fit into
        memory; it is asked only where a cache is possible.
    """
    options = written.build().options()
    # What a call that becomes parallel must say so that it keeps its order.
    order = {} if options.deterministic is not False else {"deterministic": True}
    yield from _prefetched(written)
    yield from _anywhere(written, order)
    yield from _many(written, order, options.threading.private_threadpool_size or 0)
    yield from _cached(written, fits)


def _anywhere(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    """Yield what can be changed behind a source, and in the same way in all branches of one that joins several."""
    yield from _one_reader(written)
    yield from _several_files(written, order)
    yield from _parallel(written, order)
    yield from _less_work(written)
    inner = [{one.name: one for one in _anywhere(branch, order) if one.same_order} for branch in written.branches]
    for name, example in {name: one for each in inner for name, one in each.items()}.items():
        pairs = zip(written.branches, inner, strict=True)
        branches = tuple(each[name].written if name in each else branch for branch, each in pairs)
        yield replace(example, written=replace(written, branches=branches))


def _by_place(calls: Sequence[Call]) -> bool:
    """Tell whether any of the calls gives other elements when its input comes in another order."""
    return any(call.method in _BY_PLACE for call in calls)


def _prefetched(written: Written) -> Iterator[Change]:
    ends = [call for call in written.calls if call.method != "with_options"]
    place = written.calls.index(ends[-1]) if ends else -1
    if not ends or ends[-1].method != "prefetch":
        calls = (*written.calls[: place + 1], Call("prefetch", (AUTOTUNE,)), *written.calls[place + 1 :])
        yield Change("prefetch at the end", replace(written, calls=calls), ("prefetch.last-step",))
    elif 0 < ends[-1].arguments[0] < MANY:
        yield Change("a deeper prefetch", _replaced(written, {place: Call("prefetch", (MANY,))}), ("prefetch.deeper",))


def _one_reader(written: Written) -> Iterator[Change]:
    """Yield one reader of all files in place of a long chain of readers."""
    readers = [one.source for one in written.branches if _reads_files(one)]
    settings = {(type(one), str(one._compression_type), str(one._buffer_size)) for one in readers}
    chain = LONG_CHAIN <= len(readers) == len(written.branches) and written.joined == CONCATENATE
    if chain and len(settings) == 1:
        names = [name for one in readers for name in one._filenames.as_numpy_iterator()]
        kind, given = type(readers[0]), (readers[0]._compression_type, readers[0]._buffer_size)
        begin, answers = f"{text(kind)}([… {len(names)} files])", ("work.chain", "prep.node")
        one = replace(written, source=kind(names, *given), reads=begin, branches=())
        yield Change("one reader of all files", one, answers)


def _reads_files(written: Written) -> bool:
    """Tell whether a pipeline is a reader of text or records, of files whose names are known, one after the other."""
    source = written.source
    names = getattr(source, "_filenames", None)
    known = type(source).__name__ in _TEXT_AND_RECORDS and hasattr(names, "cardinality")
    return known and not written.calls and int(names.cardinality()) > 0 and not _read_at_once(source)


def _read_at_once(reader: Any) -> bool:
    """Tell whether a reader of files reads several at the same time."""
    return "Interleave" in type(reader._impl).__name__


def _less_work(written: Written) -> Iterator[Change]:
    calls = written.calls
    for place, call in enumerate(calls):
        before = place
        while before and calls[before - 1].method in _SAME_ELSEWHERE:
            before -= 1
        passed = [one for one in calls[before:place] if one.method == "map"]
        if call.method in _EARLIER and passed:
            sooner = _filter_of(call, passed) if call.method == "filter" else call
            moved = (*calls[:before], sooner, *calls[before:place], *calls[place + 1 :])
            answers = "start.shuffle-names" if call.method == "shuffle" else "work.drop-first"
            if call.method != "filter" or not any(one.random for one in passed):
                yield Change(f"{call.method} before the map", replace(written, calls=moved), (answers,))
        if call.method == "batch" and (behind := _map_of(calls[:place])) is not None:
            rest = (*calls[:behind], *calls[behind + 1 : place + 1], calls[behind], *calls[place + 1 :])
            answers = ("small.batch-first", "small.packed", "batch.small-elements", "batch.fewer-bytes")
            yield Change("batch before the map", replace(written, calls=rest), answers, swapped=True)
        ends = [one for one in calls[:place] if one.method in ("repeat", "shuffle")]
        if call.method == "cache" and any(one.method == "repeat" for one in ends):
            kept = tuple(one for one in calls[:place] if one not in ends)
            later = replace(written, calls=(*kept, call, *ends, *calls[place + 1 :]))
            stored = replace(written, calls=kept)
            yield Change("repeat behind the cache", later, ("work.endless-cache",), stored=stored)


def _filter_of(call: Call, maps: Sequence[Call]) -> Call:
    """Return a filter as it stands before some maps: it makes what its predicate asks for, and TensorFlow no more."""
    functions = [one.arguments[0] for one in (*maps, call)]

    def keep(*element: Any) -> Any:
        for function in functions:
            made = function(*element)
            element = made if isinstance(made, tuple) else (made,)
        return made

    keep.__name__ = "lambda …: " + "(".join(map(text, reversed(functions))) + "(…" + ")" * len(functions)
    return Call("filter", (keep,))


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
    work = any(call.method in ("map", "interleave", "flat_map") for call in kept) or hasattr(written.source, "_impl")
    stored = replace(written, calls=tuple(kept))
    if work and not any(call.method == "cache" for call in written.every) and fits(stored):
        calls = (*kept, Call("cache"), *moved, *rest)
        answers = ("prep.less-work", "source.unpacked", "fetch.more-reads")
        yield Change("cache what each epoch makes anew", replace(written, calls=calls), answers, stored=stored)


def _several_files(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    """Yield the changes that read several files at once: those of a source, and what an interleave reads."""
    import tensorflow as tf

    source, answers = written.source, ("fetch.parallel-reads", "fetch.longer-cycle", "source.unpacked")
    reader = type(source).__name__ in _TEXT_AND_RECORDS
    if reader and not (_read_at_once(source) or _by_place(written.calls)):
        names, *given = source._filenames, source._compression_type, source._buffer_size
        if not isinstance(names, tf.data.Dataset):
            names = tf.data.Dataset.from_tensor_slices(tf.reshape(names, [-1]))
        if int(names.cardinality()) not in (0, 1):
            begin = f"{text(type(source))}(…, num_parallel_reads={MANY})"
            reads = type(source)(names, *given, num_parallel_reads=MANY)
            yield Change(SEVERAL, replace(written, source=reads, reads=begin), answers, same_order=False)
    for place, call in enumerate(written.calls):
        if call.method not in ("flat_map", "interleave"):
            continue
        cycle = 1 if call.method == "flat_map" else call.settings.get("cycle_length", 0)
        if not call.parallel and cycle > 1:
            ordered = call.having(num_parallel_calls=AUTOTUNE, **order)
            yield Change(SEVERAL, _replaced(written, {place: ordered}), answers)
        elif (not call.parallel or 0 < cycle < MANY) and not _by_place(written.calls[place + 1 :]):
            wide = replace(call, method="interleave").having(cycle_length=MANY, num_parallel_calls=AUTOTUNE)
            yield Change(SEVERAL, _replaced(written, {place: wide}), answers, same_order=False)


def _parallel(written: Written, order: Mapping[str, bool]) -> Iterator[Change]:
    maps = {i: c for i, c in enumerate(written.calls) if c.method == "map" and not c.parallel}
    if maps:
        new = {place: call.having(num_parallel_calls=AUTOTUNE, **order) for place, call in maps.items()}
        yield Change("parallel map", _replaced(written, new), _AT_ONCE)


def _many(written: Written, order: Mapping[str, bool], threads: int) -> Iterator[Change]:
    """Yield more calls at once than there are cores, and a thread for each, for maps whose functions may wait.

    `threads` is the size of the private pool; 0 for none.
    """
    import tensorflow as tf

    waits = {i: c for i, c in enumerate(written.calls) if c.method == "map" and c.ops.intersection(_READS)}
    few = {i: c for i, c in waits.items() if c.settings.get("num_parallel_calls", 0) < MANY}
    more = {i: c.having(num_parallel_calls=MANY, **({} if c.parallel else order)) for i, c in few.items()}
    if few or (0 < threads < MANY and (waits or any(call.parallel for call in written.every))):
        name = "more calls than cores" if few else "a larger pool of threads"
        answers = ("python.more-calls", "prep.wider-pool", "fetch.more-reads")
        options, wide = tf.data.Options(), _replaced(written, more)
        options.threading.private_threadpool_size = MANY
        yield Change(name, replace(wide, calls=(*wide.calls, Call("with_options", (options,)))), answers)


def _replaced(written: Written, new: Mapping[int, Call]) -> Written:
    return replace(written, calls=tuple(new.get(place, call) for place, call in enumerate(written.calls)))
