"""The TensorFlow profiler's file (``*.xplane.pb``) as a `Trace`, read without TensorFlow.

Every event of a thread has a name. This module knows what the names mean, which part of the job
a thread works for, and which clock a line keeps. Events that say nothing about the pipeline (nearly half
are scheduler events of no length) are dropped by name, before their times are decoded.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labkit.recording.tfdata import xspace
from labkit.timeline import wording
from labkit.timeline.intervals import inside, union
from labkit.timeline.nesting import depths, owners
from labkit.timeline.run import Profile, Run
from labkit.timeline.trace import CATEGORIES, Thread, Trace
from labkit.timeline.wording import COPIED, NETWORK, READERS, REQUESTED, WITH_CONSUMER, is_network, is_op_type, short_op

#: The marks that the recorder sets around each wait and each train step; their thread is the consumer.
WAIT_MARK, TRAIN_MARK = "labkit wait", "labkit train"
#: Around both, for xprof.
STEP_MARK = "labkit step"

#: The thread for the part of tf.data that runs inside the consumer's ``next()``.
IN_CONSUMER = f"tf.data {WITH_CONSUMER}"

_WAIT, _TRAIN, _OTHER = (CATEGORIES.index(c) for c in ("wait", "train", "other"))
_BATCH = re.compile(r"(Padded)?Batch(V\d+)?")
_PROCESS, _DONE = "ExecutorState::Process", "ExecutorDoneCallback"
#: What tf.data service calls a request for an element: from before it is sent until the element is there.
_REQUEST = "GetDataServiceElement"
_CAPTURED, _CALL = "InstantiatedCapturedFunction::", "FunctionRun"
_ALLOCATES, _BEGINS = "MemoryAllocation", "MakeIterator::"
#: Allocations are read from so many events of each thread, the first ones, and of so many runs of each op.
_FIRST, _SAMPLED = 10_000, 16
# The code of an event whose name is of no use in a timeline, in place of an index into `CATEGORIES`.
_USELESS = -1
# The owner of a span: the loop of the consumer, tf.data inside the ``next()`` of that loop, threads of tf.data, other
# threads of this host, or a network, whatever thread waits for it. Line and owner together make a thread of the trace;
# an event without owner is dropped.
_CONSUMER, _NEXT, _PIPELINE, _HOST, _FETCH = _OWNERS = range(5)
_NO_OWNER = -1


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a profiler file.

    Parameters
    ----------
    path : path
        A ``*.xplane.pb`` as TensorFlow 2.19 to 2.21 write it.

    Returns
    -------
    Trace
        Spans on the Unix clock in int64 ns. Threads are of kind ``consumer`` (the recorder's marks), ``pipeline``
        (tf.data), ``device`` (streams of a GPU) and ``host`` (ops of anything else, such as a Keras step on
        the CPU; category ``other``). ``run.profiler.events`` counts all events in the file, and
        ``run.profiler.copied_bytes`` what a GPU copied, ``allocated_bytes`` what ops ask for, ``begun`` iterators;
        ``run.node_names`` holds the ``name=`` that the author of the pipeline gave to nodes.

    Raises
    ------
    ValueError
        If the file is empty, cut off or no profiler file; the sentence names it and says which.
    """
    data = Path(path).read_bytes()
    if not data:
        raise ValueError(f"{path} is empty; a profiler file (xplane.pb) holds at least one plane")
    try:
        return _trace(data)
    except (xspace.Malformed, IndexError, ValueError) as error:
        raise ValueError(f"{path} is not a whole profiler file (xplane.pb): {error}") from error


def category(name: str) -> str | None:
    """Return the category of a host event, or None for one that is of no use in a timeline.

    Parameters
    ----------
    name : str
        ``Iterator::…`` for a tf.data node, ``node_name:OpType`` for an op, ``EagerLocalExecute: OpType`` for
        an op inside a ``tf.py_function``.
    """
    if name.startswith("Iterator::"):
        leaf = plain(name).rpartition("::")[2]
        # Copying a batch together is work of a batch node's own; a node that maps or batches in other threads waits.
        return "batch" if _BATCH.fullmatch(leaf) else "read" if leaf in READERS else "iterator"
    if short_op(name) == wording.MODELLED:
        return "read"
    if name == _REQUEST:
        return "transfer"
    if name.startswith("CpuExecutable::Execute"):  # a map function compiled by XLA
        return "map"
    node = op = name.removeprefix("EagerLocalExecute: ")
    if op == name:
        node, _, op = name.rpartition(":")
    if not node or node.endswith(":") or not is_op_type(op) or op.startswith(("IteratorGetNext", "MakeIterator")):
        return None
    if op == "ReadFile" or "storage" in node.lower() or is_network(name):
        return "read"
    if op.startswith("Decode"):
        return "decode"
    if op.startswith(("Resize", "CropAndResize", "ScaleAndTranslate")):
        return "resize"
    return "iterator" if re.search(r"Dataset(V\d+)?$", op) else "map"


def plain(name: str) -> str:
    """Return a name as readers know it: a tf.data node without the index of an input, which some count up."""
    if name.startswith("Iterator::"):
        return re.sub(r"\[\d+\]|/_\d+", "", name)
    return {WAIT_MARK: "wait for batch", TRAIN_MARK: "train step", _DONE: COPIED}.get(name, name)


def _trace(data: bytes) -> Trace:
    planes = xspace.planes(data)
    if not planes:
        raise xspace.Malformed("it holds no plane")
    base_ns = next((p.values["profile_start_time"] for p in planes if "profile_start_time" in p.values), None)
    host = [_HostPlane(plane, base_ns) for plane in planes if plane.name == "/host:CPU"]
    copied: Counter[str] = Counter()
    devices = [_device(plane, base_ns, copied) for plane in planes if plane.name.startswith("/device:GPU:")]
    events = sum(len(line.sizes) for plane in planes for line in plane.lines)
    found = Trace.merge(Trace.from_spans([], origin="measured"), *(one.trace() for one in host), *devices)
    allocated = {name: size for one in host for name, size in one.allocated_bytes().items()}
    begun = {name: count for one in host for name, count in one.begun().items()}
    # The consumer first, then devices, then the pipeline from its end in the consumer's thread on.
    kinds = ("consumer", "device", "pipeline", "host")
    digits = [re.sub(r"\d+", lambda m: m[0].zfill(8), thread.name) for thread in found.threads]
    keys = [(kinds.index(t.kind), t.name != IN_CONSUMER, d) for t, d in zip(found.threads, digits, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    place = np.argsort(np.array(order, np.int32)).astype(np.int32)
    found = replace(found, thread=place[found.thread], threads=tuple(found.threads[i] for i in order))
    node_names = {path: name for one in host for path, name in one.node_names().items()}
    profile = Profile(events=events, copied_bytes=dict(copied), allocated_bytes=allocated, begun=begun)
    return found.with_run(profiler=profile, node_names=node_names)


def _times(events: xspace.Events, lines: list[xspace.EventLine], base_ns: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends in ns of the Unix clock.

    TensorFlow 2.21 counts the timestamp of a line from the start of the profile; one of the order
    of the start itself is absolute, as older profilers wrote it. Both ends are rounded down, so that
    spans that nest in picoseconds nest in nanoseconds.
    """
    origin_ns = np.zeros(len(lines) + 1, np.int64)
    for i, line in enumerate(lines):
        if base_ns is None and len(line.sizes) and abs(line.timestamp_ns) < 10**17:
            words = "its times are relative, and the start they refer to (profile_start_time) is missing"
            raise xspace.Malformed(words)
        relative = base_ns is not None and line.timestamp_ns < base_ns // 2
        origin_ns[i] = line.timestamp_ns + (base_ns if relative else 0)
    return origin_ns[events.line] + events.start_ps // 1000, origin_ns[events.line] + events.end_ps // 1000


class _HostPlane:
    """The plane of the host: its threads, and the owners of their spans."""

    def __init__(self, plane: xspace.Plane, base_ns: int | None) -> None:
        self.plane, self.base_ns = plane, base_ns
        self.ids = np.array(sorted(plane.events), np.int64)
        self.names = [plane.events[i] for i in self.ids.tolist()]
        # In the fused node, each element is copied into the batch when its function is done.
        fused = any("MapAndBatch" in name for name in self.names)
        known = {WAIT_MARK: "wait", TRAIN_MARK: "train", _DONE: "batch" if fused else None}
        categories = [known[n] if n in known else category(n) for n in self.names]
        self.codes = np.array([_USELESS if c is None else CATEGORIES.index(c) for c in [*categories, None]], np.int8)
        self.events = xspace.events(plane.lines, self.ids, self.codes != _USELESS)
        self.start, self.end = _times(self.events, plane.lines, base_ns)

    def _flags(self, test: Any) -> np.ndarray:
        """Apply a test to every name; the last entry stands for an event without one."""
        return np.array([bool(test(n)) for n in self.names] + [False])

    def trace(self) -> Trace:
        """Return the spans that have an owner, one thread for each line and owner."""
        events, lines = self.events, self.plane.lines
        what = self.codes[events.name]
        owner = self._owners(what)
        keep = np.flatnonzero(owner != _NO_OWNER)
        line, fetch = events.line[keep], owner[keep] == _FETCH
        # As many rows as there are fetches at once.
        at = np.flatnonzero(fetch)[np.lexsort((-self.end[keep][fetch], self.start[keep][fetch]))]
        line[at] = depths(self.start[keep][at], self.end[keep][at])
        threads, thread = np.unique(line * len(_OWNERS) + owner[keep], return_inverse=True)
        earliest = np.full(len(threads), np.iinfo(np.int64).max)
        np.minimum.at(earliest, thread, self.start[keep])
        labels = [self._label(lines, *divmod(key, len(_OWNERS))) for key in threads.tolist()]
        what[owner == _HOST] = _OTHER
        step = np.full(len(keep), -1, np.int32)
        for row in np.flatnonzero(owner[keep] == _CONSUMER).tolist():
            number = events.stats(keep[row], self.plane.stats).get("step_num")
            step[row] = number if isinstance(number, int) and 0 <= number < 2**31 else -1
        start, length = self.start[keep], self.end[keep] - self.start[keep]
        names = [*map(plain, self.names), ""]  # an event may have an id without a name
        name = events.name[keep]
        for row in np.flatnonzero(self._flags(_REQUEST.__eq__)[name]).tolist():
            asked = REQUESTED + str(events.stats(keep[row], self.plane.stats).get("address", "a worker"))
            names += [] if asked in names else [asked]
            name[row] = names.index(asked)
        columns = start, length, name, thread, what[keep], step
        return Trace.of_columns(columns, names, _numbered(labels, earliest), Run("measured"))

    def _owners(self, what: np.ndarray) -> np.ndarray:
        """Return the owner of each event, `_NO_OWNER` to drop it; `what` is its category."""
        line = self.events.line
        marks = (what == _WAIT) | (what == _TRAIN)
        consumer = np.zeros(len(self.plane.lines), bool)
        consumer[line[marks]] = True
        tf_data = np.array([one.name.startswith("tf_data") for one in self.plane.lines], bool)
        is_node = self._flags(lambda n: n.startswith("Iterator::"))[self.events.name]
        owner = np.where(tf_data[line] | is_node, _PIPELINE, _HOST)
        shared = np.flatnonzero((owner == _HOST) & ~consumer[line])
        owner[shared[self._captured(shared)]] = _PIPELINE
        owner[(owner == _HOST) & self._flags(_DONE.__eq__)[self.events.name]] = _NO_OWNER
        # In the thread of the consumer, the pipeline owns events inside a wait. Events outside are parts of the train
        # step, which has a span of its own.
        for one in np.flatnonzero(consumer).tolist():
            mine = np.flatnonzero(line == one)
            waits = mine[what[mine] == _WAIT]
            in_wait = inside(self.start[mine], self.end[mine], union(self.start[waits], self.end[waits]))
            owner[mine] = np.where(in_wait, _NEXT, _NO_OWNER)
        owner[marks] = _CONSUMER
        # All that runs inside a function that waits for a network belongs to this wait.
        fetch = self._flags(lambda n: is_network(n) or n == _REQUEST)[self.events.name] & (owner != _NO_OWNER)
        for one in np.unique(line[fetch]).tolist():
            mine = np.flatnonzero((line == one) & (owner != _CONSUMER) & ~fetch)
            times = union(*(each[fetch & (line == one)] for each in (self.start, self.end)))
            owner[mine[inside(self.start[mine], self.end[mine], times)]] = _NO_OWNER
        owner[fetch] = _FETCH
        return owner

    def _captured(self, shared: np.ndarray) -> np.ndarray:
        """Tell which events, on threads of no certain owner, run in a function that tf.data captured.

        Without its private pool, tf.data shares threads with the train step. Both run their ops inside
        ``ExecutorState::Process`` with the id of the function call; tf.data announces its calls under
        the same id, and others announce theirs. The announcement of a call from before the recording is missing: such
        a call counts as one of tf.data where tf.data uses these threads at all.
        """
        events = self.events
        if not len(shared):
            return np.zeros(0, bool)
        tests = (lambda name: name.startswith(_CAPTURED)), _CALL.__eq__, (_PROCESS, _DONE).__contains__
        ours, theirs, process = map(self._flags, tests)
        found = xspace.events(self.plane.lines, self.ids, ours | theirs | process)
        used = np.flatnonzero(~process[found.name] | np.isin(found.line, events.line[shared]))
        call = np.zeros(len(found.line), np.int64)
        call[used] = [found.stats(row, self.plane.stats).get("id", 0) for row in used.tolist()]
        captured, announced = call[ours[found.name]], call[(ours | theirs)[found.name]]
        running = np.zeros(len(found.line), bool)
        running[used] = process[found.name[used]]
        mine = running & np.isin(call, captured)
        if mine.any():
            mine |= running & ~np.isin(call, announced)
        outer_start, outer_end = _times(found, self.plane.lines, self.base_ns)
        of_tf_data = np.zeros(len(shared), bool)
        for one in np.unique(events.line[shared]).tolist():
            here, outer = events.line[shared] == one, mine & (found.line == one)
            rows = shared[here]
            of_tf_data[here] = inside(self.start[rows], self.end[rows], union(outer_start[outer], outer_end[outer]))
        return of_tf_data

    def _label(self, lines: list[xspace.EventLine], index: int, owner: int) -> Thread:
        """Return name, not yet numbered, and kind of a thread."""
        if owner == _FETCH:
            return Thread(NETWORK, "pipeline")
        if owner in (_CONSUMER, _NEXT):
            return Thread("consumer", "consumer") if owner == _CONSUMER else Thread(IN_CONSUMER, "pipeline")
        pool = lines[index].name.partition("/")[0] or "unnamed thread"
        if owner == _HOST:
            return Thread(pool, "host")
        # The thread behind an asynchronous node says so: PrefetchProduce, MapAndBatchProduce, …
        low, high = np.searchsorted(self.events.all_lines, [index, index + 1])
        counts = np.bincount(self.events.all_names[low:high], minlength=len(self.names) + 1)
        counts *= self._flags(lambda n: n.endswith("Produce"))
        if counts.any():
            return Thread(f"tf.data {self.names[int(counts.argmax())].removesuffix('Produce')}", "pipeline")
        return Thread("tf.data thread" if "iterator" in pool else "tf.data worker", "pipeline")

    def allocated_bytes(self) -> dict[str, float]:
        """Return the bytes that a run of each op and node asks for itself, on average over some of its runs."""
        first = [(line, line.sizes[:_FIRST]) for line in self.plane.lines]
        lines = [line._replace(data=line.data[: sizes.sum()], sizes=sizes) for line, sizes in first]
        asks = xspace.events(lines, self.ids, self._flags(_ALLOCATES.__eq__))
        at, _ = _times(asks, lines, self.base_ns)
        owner = np.full(len(at), -1)
        for line in np.intersect1d(asks.line, self.events.line).tolist():
            here = np.flatnonzero(asks.line == line)
            mine = np.flatnonzero((self.events.line == line) & (self.start <= at[here].max()))
            mine = mine[np.lexsort((-self.end[mine], self.start[mine]))]
            pieces = owners(self.start[mine], self.end[mine], depths(self.start[mine], self.end[mine]))
            place = np.searchsorted(pieces.start, at[here], "right") - 1
            here, place = here[place >= 0], place[place >= 0]  # before the first piece, or where all are empty
            inside_one = at[here] <= pieces.end[place]
            owner[here[inside_one]] = mine[pieces.owner[place[inside_one]]]
        found: dict[str, float] = {}
        owned = np.unique(owner[owner >= 0])
        for one in np.unique(self.events.name[owned]).tolist():
            runs = owned[self.events.name[owned] == one][:_SAMPLED]
            rows = np.flatnonzero(np.isin(owner, runs)).tolist()
            asked = sum(int(asks.stats(row, self.plane.stats).get("requested_bytes", 0)) for row in rows)
            found[plain(self.names[one])] = asked / len(runs)
        return found

    def begun(self) -> dict[str, int]:
        """Return how many iterators began, by the kind of their dataset."""
        counts = np.bincount(self.events.all_names, minlength=len(self.names) + 1)
        begins = np.flatnonzero(self._flags(lambda name: name.startswith(_BEGINS)) & (counts > 0)).tolist()
        return {self.names[i].removeprefix(_BEGINS).split("Dataset")[0]: int(counts[i]) for i in begins}

    def node_names(self) -> dict[str, str]:
        """Return the names that the author gave to tf.data nodes, by path of the node."""
        found = {}
        for i, row in zip(*np.unique(self.events.name, return_index=True), strict=True):
            if i < len(self.names) and self.names[i].startswith("Iterator::"):
                given = str(self.events.stats(row, self.plane.stats).get("name", ""))
                # Without name=, TensorFlow writes MapDataset:2, or fused(MapDataset:2,BatchDatasetV2:3).
                if re.sub(r"\w*Dataset\w*:\d+|fused|\W", "", given):
                    found.setdefault(plain(self.names[i]).removeprefix("Iterator::"), given)
        return found


def _numbered(threads: list[Thread], earliest: np.ndarray) -> list[Thread]:
    """Return threads with those of one name numbered by their first span; so is a single thread of a pool."""
    counts, numbers, out = Counter(threads), Counter(), list(threads)
    for i in np.argsort(earliest, kind="stable").tolist():
        thread = threads[i]
        numbers[thread] += 1
        pooled = thread.kind == "host" or thread.name.endswith((" worker", " thread"))
        if thread.kind != "consumer" and thread.name != IN_CONSUMER and (pooled or counts[thread] > 1):
            out[i] = thread._replace(name=f"{thread.name} {numbers[thread]}")
    return out


def _device(plane: xspace.Plane, base_ns: int | None, copied: Counter[str]) -> Trace:
    """Return kernels and copies of one GPU, one thread per stream; lines derived from them are left out.

    The bytes of each kind of copy are added to `copied`.
    """
    lines = [line for line in plane.lines if line.name.startswith("Stream")]
    ids = np.array(sorted(plane.events), np.int64)
    names = [plane.events[i] for i in ids.tolist()]
    events = xspace.events(lines, ids, np.array([True] * len(names) + [False]))
    start, end = _times(events, lines, base_ns)
    is_copy = np.array([n.lower().startswith("memcpy") for n in names] + [False])[events.name]
    for row in np.flatnonzero(is_copy).tolist():
        details = str(events.stats(row, plane.stats).get("memcpy_details", ""))
        if size := re.search(r"\bsize:(\d+)", details):
            copied[names[events.name[row]]] += int(size[1])
    what = np.where(is_copy, CATEGORIES.index("copy"), CATEGORIES.index("kernel"))
    threads = [Thread(f"{plane.name.removeprefix('/device:')} {line.name}", "device") for line in lines]
    columns = start, end - start, events.name, events.line, what, np.full(len(start), -1)
    return Trace.of_columns(columns, [*names, ""], threads, Run("measured"))
