"""From one recorded run to a model that answers what another pipeline or machine would do.

A trace holds wall time. When more threads work at one instant than the machine has cores, each thread gets a part of a
core. The cost of a stage is the time that it really worked, so the wall time is divided among these threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.forecast import Model
from labkit.simulate.simulated_trace import OVERHEAD
from labkit.timeline.intervals import union_of
from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES, Trace
from labkit.timeline.wording import duration

#: Operations below this share of the map are shown as one.
_SMALL = 0.02
#: A pause of a worker between two operations that is shorter than this belongs to the call, in nanoseconds.
_PAUSE_NS = 200_000
#: Own time of tf.data for an image whose read is not delayed, in nanoseconds: 0.08 ms on two-core machines.
_HAND_OVER_NS = 80_000
#: Gain of a second core when both cores decode and augment photos. It is 0.95 on a quiet machine with two real cores,
#: and 0.6 to 0.8 when other programs use the cores, or two threads share one core. This value lies between.
CORE_GAIN = 0.85
_READ, _BATCH, _ITERATOR = map(CATEGORIES.index, ("read", "batch", "iterator"))


class _Own(NamedTuple):
    """Own times of all spans of one name in nanoseconds: on a core of its own, or asleep."""

    ns: np.ndarray
    category: str
    asleep: bool


class _Recorded(NamedTuple):
    """What is asked of a trace again and again."""

    timeline: Timeline
    own: dict[str, _Own]
    images: float  # made in the window, which may differ from those that were consumed
    batches: float
    parallel: bool  # a parallel map
    interleaved: bool
    ahead: bool  # a prefetch


def fit(trace: Trace) -> Model:
    """Take the costs and knobs out of one recorded run.

    Parameters
    ----------
    trace : Trace
        From `labkit.record`, or a modelled one.

    Returns
    -------
    Model
        Its knobs are those of the run as far as a trace tells: threads that worked at once, batches that ran ahead.
        What each further core adds is `CORE_GAIN`, unless a modelled trace states it: a trace of one thread does not
        tell.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to fit.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"trace is a {type(trace).__name__}; allowed: a Trace")
    timeline = Timeline(trace)
    if not timeline.steps or not timeline.images:
        raise ValueError("the trace holds no train step, or does not say on how many elements: nothing to fit")
    read = {name: trace.run.knobs[name] for name in ("core_gain", "accelerators") if name in trace.run.knobs}
    stated, accelerator = Knobs(core_gain=CORE_GAIN).changed(**read), trace.run.accelerator
    host = Knobs(cores=int(trace.run.host.cpus or 1), core_gain=stated.core_gain)
    own = _own_times(timeline, host)
    leaves = [node.rpartition("::")[2] for node in trace.run.graph]

    def has(*words: str) -> bool:
        return any(leaf.startswith(words) for leaf in leaves)

    parallel = has("ParallelMap", "MapAndBatch", "ParallelBatch")
    run = _Recorded(timeline, own, *_made(own, timeline), parallel, has("ParallelInterleave"), has("Prefetch"))
    costs, notes = _costs(run)
    if accelerator.kind == "real" and not trace.select(kind="device").any():
        notes.append("the train step ran on the cores of the pipeline; a model takes it as an accelerator of its own")
    each = stated.accelerators
    workers = _workers(timeline) if parallel else 1
    knobs = host.changed(
        batch_size=max(1, round(timeline.images / timeline.steps / each)),
        map_calls=workers,
        threads=workers if workers > host.cores else None,
        cycle_length=_readers(timeline) if run.interleaved else 1,
        # A parallel map of one call runs ahead of the consumer, as a buffer does; a sequential one does not.
        prefetch=_lead(trace, each) if run.ahead or (parallel and workers == 1) else 0,
        accelerators=each,
        deterministic=trace.run.options.get("deterministic") != "False",
    )
    source = accelerator.source or "as recorded"
    return Model(costs, knobs, trace.run.name, accelerator.name or "train step", source, notes, trace.run.noun)


# -- own times --------------------------------------------------------------------


def _own_times(timeline: Timeline, host: Knobs) -> dict[str, _Own]:
    """Return the own times of every name on pipeline threads, on a core of its own or asleep."""
    stated = set(timeline.run.sleeps)
    sleeping = np.array([name in stated or name.endswith("::Sleep") for name in timeline.names], bool)
    overhead = np.array([name == OVERHEAD for name in timeline.names], bool)
    pieces = []  # of each lane: start, end, and whether it is work on a core
    for lane in _pipeline(timeline):
        category, name = lane.category[lane.pieces.owner], lane.name_id[lane.pieces.owner]
        work = ((category != _ITERATOR) | overhead[name]) & ~sleeping[name]
        pieces.append((lane, lane.pieces.start, lane.pieces.end, work))
    clock = _fair([start[work] for _, start, _, work in pieces], [end[work] for _, _, end, work in pieces], host)
    found: dict[str, _Own] = {}
    for lane, start, end, work in pieces:
        got = np.where(work, clock(end) - clock(start), end - start)
        ns = np.bincount(lane.pieces.owner, weights=got, minlength=len(lane))
        for number in np.unique(lane.name_id).tolist():
            mask, name = lane.name_id == number, timeline.names[number]
            own = found.get(name, _Own(np.zeros(0), CATEGORIES[lane.category[mask][0]], bool(sleeping[number])))
            found[name] = own._replace(ns=np.concatenate([own.ns, ns[mask]]))
    return found


def _pipeline(timeline: Timeline, word: str = "") -> list[Lane]:
    """Return the lanes of the pipeline's threads whose name holds a word."""
    return [lane for lane in timeline.lanes if lane.kind == "pipeline" and word in lane.name.lower()]


def _fair(starts: list[np.ndarray], ends: list[np.ndarray], host: Knobs) -> Callable[[np.ndarray], np.ndarray]:
    """Return a clock that runs at the speed of each of the threads at work: 1, or less where they share the cores."""
    edges = np.concatenate([np.zeros(0, np.int64), *starts, *ends])
    if not len(edges):
        return lambda at: at.astype(np.float64)
    order = np.argsort(edges, kind="stable")
    edges, running = edges[order], np.cumsum(np.repeat(np.int64([1, -1]), len(edges) // 2)[order])
    speeds = np.array([1.0, *(host.capacity(n) / n for n in range(1, int(running.max()) + 1))])
    done = np.concatenate([[0.0], np.cumsum(np.diff(edges) * speeds[running[:-1]])])
    return lambda at: np.interp(at, edges, done)


# -- costs ---------------------------------------------------------------------------


def _made(own: Mapping[str, _Own], timeline: Timeline) -> tuple[float, float]:
    """Return how many images and batches the pipeline made in the window, which may differ from what was consumed."""
    images, batches = timeline.images, timeline.steps
    # Nearly every pipeline does something once to every image; what is done to some only is done less often.
    often = [len(o.ns) for o in own.values() if 0.6 * images <= len(o.ns) <= 1.4 * images and o.category != "iterator"]
    made = max(often, default=images)
    copied = [len(o.ns) for o in own.values() if o.category == "batch"]
    return float(made), float(max(copied)) if copied else float(batches)


def _costs(run: _Recorded) -> tuple[Costs, list[str]]:
    """Return what every stage costs, and how what has no span of its own was found."""
    per_image: dict[str, float] = {}
    values: dict[str, np.ndarray] = {}
    per_batch = work = 0.0
    held = np.zeros(0)
    for name, own in run.own.items():
        total = float(own.ns.sum())
        if own.category == "iterator" and name != OVERHEAD:
            continue
        if own.category == "batch" or (len(own.ns) <= 1.5 * run.batches and 4 * run.batches < run.images):
            per_batch += total / run.batches
        elif own.category == "read" and own.asleep:
            held = np.concatenate([held, own.ns])
        elif own.category == "read":
            work += total / run.images
        else:
            label = name.rpartition(":")[2]
            per_image[label] = per_image.get(label, 0.0) + total / run.images
            if len(own.ns) >= 0.9 * run.images:
                values[label] = own.ns
    notes = []
    prepare = sum(per_image.values())
    opening, reading, sleeps = 0.0, work, ()
    extra = max(0.0, _extra(run, prepare + work + held.sum() / run.images, per_batch))
    if held.any():
        # Beside the time that it states, a held read needs a thread to fall asleep and wake up. Inside a map function,
        # that is work of a function of its own; a thread that reads records is only late.
        late = 0.0 if run.interleaved or run.parallel else max(0.0, extra - _HAND_OVER_NS)
        in_map = any((lane.category == _READ).any() for lane in _pipeline(run.timeline, "worker"))
        opening, reading = work + late * in_map, _spread_out(held, run.images) + late * (not in_map)
        extra, sleeps = extra - late, ("read",)
    if extra:
        noun = run.timeline.run.noun
        notes.append(f"tf.data's own work on one {noun} and hand-overs between threads: {duration(extra)}")
    shaped = {name: _shaped(ns, values.get(name)) for name, ns in per_image.items() if ns >= _SMALL * prepare}
    rest = sum(ns for ns in per_image.values() if ns < _SMALL * prepare)
    shaped |= {name: ns / 1e6 for name, ns in (("other", rest), (OVERHEAD, extra)) if ns}
    taking = _taking_ns(run)
    if taking:
        notes.append(f"handing a batch to the consumer: {duration(taking)}, counted as copy")
    times = {"open": opening, "read": reading, "batch": per_batch, "copy": taking}
    stages = {stage: ns / 1e6 for stage, ns in times.items()}
    return Costs(**stages, map=shaped or 0.0, train=run.timeline.train_ms, sleeps=sleeps), notes


def _shaped(mean_ns: float, values: np.ndarray | None) -> np.ndarray | float:
    """Return measured values with the mean that was found, in ms; the mean alone where there are none."""
    some = values is not None and values.sum()
    return np.sort(values) * (mean_ns / values.mean()) / 1e6 if some else mean_ns / 1e6


def _spread_out(held: np.ndarray, images: float) -> np.ndarray:
    """Return the time held per image; of more reads than images, the longest open files and are added to the others."""
    ordered = np.sort(held)
    opened = len(held) - round(images)
    if not 0 < opened < images:
        return ordered * (len(held) / images)
    reads = ordered[:-opened].copy()
    place = (np.arange(opened) * len(reads)) // opened
    reads[place] += ordered[-opened:]
    return np.sort(reads)


def _extra(run: _Recorded, image_ns: float, batch_ns: float) -> float:
    """Return nanoseconds per image that pass on the way of an image beside what has a span of its own."""
    if run.timeline.origin == "modelled":
        return 0.0
    makers = [lane for lane in _pipeline(run.timeline) if (lane.category == _BATCH).any()]
    if run.parallel or not makers:
        # Short pauses of a worker are between the operations of a call, or between a call and the next.
        pauses = [lane.busy.start[1:] - lane.busy.end[:-1] for lane in _pipeline(run.timeline, "worker")]
        return sum(float(pause[pause < _PAUSE_NS].sum()) for pause in pauses) / run.images
    maker = makers[0]
    if not run.interleaved:
        top = (maker.depth == 0) & np.isin(maker.category, (_BATCH, _ITERATOR))
        spent = float((maker.end_ns[top] - maker.start_ns[top]).sum())
        return (spent - batch_ns * run.batches) / run.images - image_ns
    # The node of the map waits for the thread that runs its function; that of the interleave may wait for a reader.
    works = [lane.by_category for lane in _pipeline(run.timeline, "worker")]
    extra = -float(sum(sum(own.values()) - own.get("read", 0) - own.get("iterator", 0) for own in works))
    for number in np.unique(maker.name_id[maker.category == _ITERATOR]).tolist():
        own = maker.self_ns[maker.name_id == number]
        waits = run.timeline.names[number].rpartition("::")[2].startswith("ParallelInterleave")
        extra += float(np.quantile(own, 0.25) * len(own) if waits else own.sum())
    return extra / run.images


def _taking_ns(run: _Recorded) -> float:
    """Return what taking a batch costs the consumer beside waiting for tf.data, and what comes before its step."""
    if run.timeline.origin == "modelled":
        copies = [lane.self_ns for lane in run.timeline.lanes if lane.kind == "stream" and "copy" in lane.name]
        return float(copies[0].mean()) if copies else 0.0
    lanes = _pipeline(run.timeline, "consumer")
    if not lanes:
        return 0.0
    inside = float((lanes[0].end_ns - lanes[0].start_ns)[lanes[0].depth == 0].sum())
    trace, trained = run.timeline.trace, run.timeline.train_ms * 1e6 * run.timeline.steps
    waits = float(trace.duration_ns[trace.select("wait", kind="consumer")].sum())
    between = max(0.0, run.timeline.span_ns - waits - trained)
    return (max(0.0, waits - inside) + between) / run.timeline.steps


# -- knobs ---------------------------------------------------------------------------


def _workers(timeline: Timeline) -> int:
    """Return how many threads run map calls: those with a fair part of the work."""
    lanes = [lane.busy for lane in _pipeline(timeline, "worker")]
    busy = [own.total_ns for own in lanes]
    # One call at a time may hop from thread to thread.
    return sum(ns >= 0.1 * max(busy) for ns in busy) if sum(busy) >= 1.1 * union_of(lanes).total_ns > 0 else 1


def _readers(timeline: Timeline) -> int:
    """Return how many threads of an interleave read at once: those with a fair part of its spans."""
    spans = [len(lane) for lane in _pipeline(timeline, "interleave")]
    return max(2, sum(n >= 0.3 * max(spans) for n in spans)) if spans else 2


def _lead(trace: Trace, each: int) -> int:
    """Return how far the batches that were made ran ahead of those that were taken; 1 at least."""
    made = np.sort(trace.end_ns[trace.select("batch", kind="pipeline")])
    taken = np.sort(trace.end_ns[trace.select("wait", kind="consumer")])
    if not len(made) or not len(taken):
        return 1
    lead = np.searchsorted(made, taken, side="right") - each * np.arange(1, len(taken) + 1)
    return max(1, int(lead.max() - lead.min()))
