"""From one recorded run to a model that answers what another pipeline or machine would do.

A trace tells wall time. Where more threads worked at one instant than the machine has cores, each of them got a part
of a core; what a stage costs is the time that it really worked, so wall time is shared out among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.spans import OVERHEAD
from labkit.timeline import Timeline
from labkit.trace import CATEGORIES, Trace

#: Operations below this share of the map are shown as one.
_SMALL = 0.02
#: A pause of a worker between two operations that is shorter than this belongs to the call, in nanoseconds.
_PAUSE_NS = 200_000


class Fitted(NamedTuple):
    """Costs and knobs out of a trace, and what was assumed to get them."""

    costs: Costs
    knobs: Knobs
    notes: list[str]


class _Own(NamedTuple):
    """Own time of spans of one name: one value per span in nanoseconds, and the kinds of lanes that they are on."""

    ns: np.ndarray
    category: str
    asleep: bool
    inline: bool


def fitted(trace: Trace, cores: float | None = None) -> Fitted:
    """Take costs and knobs out of a trace; see `labkit.simulate.fit`."""
    timeline = Timeline(trace)
    if not timeline.steps or not timeline.images:
        raise ValueError("the trace holds no train step or does not say how many images it trained on: nothing to fit")
    nodes = timeline.meta.get("graph") or []
    cores = float(cores or (timeline.meta.get("host") or {}).get("cpus") or 1)
    own = _own_times(timeline, cores, trace)
    leaves = {node: node.rpartition("::")[2] for node in nodes}
    parallel = any(leaf.startswith(("ParallelMap", "MapAndBatch", "ParallelBatch")) for leaf in leaves.values())
    interleaved = any(leaf.startswith("ParallelInterleave") for leaf in leaves.values())
    ahead = any(leaf.startswith("Prefetch") for leaf in leaves.values())
    each = int(timeline.meta.get("knobs", {}).get("accelerators", 1))
    batch_size = max(1, round(timeline.images / timeline.steps / each))
    made, batches = _made(own, timeline)
    costs, notes = _costs(timeline, own, made, batches, parallel)
    workers = _workers(timeline) if parallel else 1
    knobs = Knobs(
        batch_size=batch_size,
        cores=cores,
        map_calls=workers,
        threads=workers if workers > cores else None,
        cycle_length=_readers(timeline) if interleaved else 1,
        prefetch=_lead(timeline) if ahead else 0,
        accelerators=each,
    )
    return Fitted(costs, knobs, notes)


# -- own times --------------------------------------------------------------------


def _own_times(timeline: Timeline, cores: float, trace: Trace) -> dict[str, _Own]:
    """Return the own times of every name on pipeline threads, on a core of its own or asleep."""
    stated = set(timeline.meta.get("sleeps", ()))
    lanes = [lane for lane in timeline.lanes if lane.kind == "pipeline"]
    names = np.array(timeline.names, object)
    sleeping = np.array([n in stated or n.endswith("::Sleep") for n in timeline.names], bool)
    iterator = CATEGORIES.index("iterator")
    works = [
        (lane.category[lane.pieces.owner] != iterator) & ~sleeping[lane.name_id[lane.pieces.owner]] for lane in lanes
    ]
    starts = np.concatenate(
        [np.zeros(0, np.int64), *(lane.pieces.start[w] for lane, w in zip(lanes, works, strict=True))]
    )
    ends = np.concatenate([np.zeros(0, np.int64), *(lane.pieces.end[w] for lane, w in zip(lanes, works, strict=True))])
    clock = _fair(starts, ends, cores)
    found: dict[str, list[Any]] = {}
    for lane, at_work in zip(lanes, works, strict=True):
        start, end, owner = lane.pieces.start, lane.pieces.end, lane.pieces.owner
        got = np.where(at_work, clock(end) - clock(start), end - start)
        ns = np.bincount(owner, weights=got, minlength=len(lane))
        inline = bool(np.isin(lane.category, [iterator, CATEGORIES.index("batch")]).any())
        for name_id in np.unique(lane.name_id).tolist():
            mask = lane.name_id == name_id
            code = CATEGORIES[lane.category[mask][0]]
            found.setdefault(str(names[name_id]), []).append((ns[mask], code, bool(sleeping[name_id]), inline))
    return {
        name: _Own(np.concatenate([p[0] for p in parts]), parts[0][1], parts[0][2], all(p[3] for p in parts))
        for name, parts in found.items()
    }


def _fair(start: np.ndarray, end: np.ndarray, cores: float) -> Any:
    """Return a clock that runs at the speed of each of the threads that are at work: 1, or less where they share."""
    if not len(start):
        return lambda at: at.astype(np.float64)
    edges = np.concatenate([start, end])
    order = np.argsort(edges, kind="stable")
    change = np.repeat(np.int64([1, -1]), len(start))[order]
    edges, running = edges[order], np.cumsum(change)
    speed = np.minimum(1.0, cores / np.maximum(running, 1))
    done = np.concatenate([[0.0], np.cumsum(np.diff(edges) * speed[:-1])])

    def clock(at: np.ndarray) -> np.ndarray:
        place = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(edges) - 1)
        return done[place] + (at - edges[place]) * speed[place]

    return clock


# -- costs ---------------------------------------------------------------------------


def _made(own: Mapping[str, _Own], timeline: Timeline) -> tuple[float, float]:
    """Return how many images and batches the pipeline made in the window, which may differ from what was consumed."""
    images, batches = timeline.images, timeline.steps
    often = [o for o in own.values() if 0.6 * images <= len(o.ns) <= 1.6 * images and o.category != "iterator"]
    made = len(max(often, key=lambda o: o.ns.sum()).ns) if often else images
    copied = [len(o.ns) for o in own.values() if o.category == "batch"]
    return float(made), float(max(copied)) if copied else float(batches)


def _costs(
    timeline: Timeline, own: Mapping[str, _Own], made: float, batches: float, parallel: bool
) -> tuple[Costs, list[str]]:
    notes = []
    per_image: dict[str, float] = {}
    spread: dict[str, np.ndarray] = {}
    per_batch = 0.0
    opens, reads, read_work = np.zeros(1), np.zeros(1), 0.0
    for name, o in own.items():
        total = float(o.ns.sum())
        if o.category == "iterator":
            continue
        if o.category == "batch":
            per_batch += total / batches
        elif len(o.ns) <= max(1.5 * batches, 1) and batches * 4 < made:
            per_batch += total / batches
        elif o.category == "read" and o.asleep:
            opens, reads = _asleep(o.ns, made)
        elif o.category == "read":
            read_work += total / made
        else:
            label = name.rpartition(":")[2]
            per_image[label] = per_image.get(label, 0.0) + total / made
            if len(o.ns) >= 0.9 * made:
                spread[label] = o.ns
    if timeline.origin == "measured":
        overhead = _overhead(timeline, own, made, parallel)
        if overhead > 0:
            per_image[OVERHEAD] = overhead
            notes.append(f"tf.data's own work and hand-overs: {overhead / 1e6:.3f} ms per image.")
    limit = _SMALL * sum(per_image.values())
    operations = {n: v for n, v in per_image.items() if v >= limit or n == OVERHEAD}
    if rest := sum(v for n, v in per_image.items() if n not in operations):
        operations["other"] = rest
    sleeps = []
    if opens.any() or reads.any():
        sleeps = ["open", "read"]
        if read_work:
            operations = {"read file": read_work, **operations}
    else:
        reads = np.array([read_work])
    shaped = {
        name: _shaped(mean, spread.get(name)) if name != OVERHEAD else mean / 1e6 for name, mean in operations.items()
    }
    waits, trains = timeline._waits, timeline._trains
    hand_over = float(np.median(trains.start - waits.end)) if len(waits.start) == len(trains.start) else 0.0
    costs = Costs(
        open=np.sort(opens) / 1e6,
        read=np.sort(reads) / 1e6,
        map=shaped or 0.0,
        batch=per_batch / 1e6,
        copy=max(0.0, hand_over) / 1e6,
        train=timeline.train_ms,
        sleeps=tuple(sleeps),
    )
    return costs, notes


def _shaped(mean_ns: float, values: np.ndarray | None) -> np.ndarray | float:
    """Return measured values with the mean that was found, in ms; the mean alone where there are none."""
    if values is None or not values.sum():
        return mean_ns / 1e6
    return np.sort(values) * (mean_ns / values.mean()) / 1e6


def _asleep(ns: np.ndarray, made: float) -> tuple[np.ndarray, np.ndarray]:
    """Split held reads into openings and reads: where there are more of them than images, the longest are openings."""
    extra = len(ns) - round(made)
    if not 0 < extra < made:
        return np.zeros(1), ns * (len(ns) / made if extra > 0 else 1.0)
    ordered = np.sort(ns)
    return np.r_[np.zeros(round(made) - extra), ordered[-extra:]], ordered[:-extra]


def _overhead(timeline: Timeline, own: Mapping[str, _Own], made: float, parallel: bool) -> float:
    """Return nanoseconds per image that pass in a map function beside its operations."""
    workers = [lane for lane in timeline.lanes if lane.kind == "pipeline" and "worker" in lane.name]
    if not parallel:
        # The own time of the map's node is a wait for the pool's thread that runs its function.
        calls = [name for name, o in own.items() if name.endswith("::Map") and len(o.ns) >= 0.6 * made and o.inline]
        if calls:
            inside = sum(lane.busy.total_ns for lane in workers)
            return max(0.0, (float(own[min(calls, key=len)].ns.sum()) - inside) / made)
    pauses = 0.0
    for lane in workers:
        pause = lane.busy.start[1:] - lane.busy.end[:-1]
        pauses += float(pause[pause < _PAUSE_NS].sum())
    return pauses / made


# -- knobs ---------------------------------------------------------------------------


def _workers(timeline: Timeline) -> int:
    """Return how many threads run map calls: those with a fair part of the work."""
    busy = [lane.busy.total_ns for lane in timeline.lanes if lane.kind == "pipeline" and "worker" in lane.name]
    return max(2, sum(ns >= 0.1 * max(busy) for ns in busy)) if busy else 2


def _readers(timeline: Timeline) -> int:
    """Return how many threads of an interleave read at once: those with a fair part of its spans."""
    spans = [len(lane) for lane in timeline.lanes if "interleave" in lane.name.lower()]
    return max(2, sum(n >= 0.3 * max(spans) for n in spans)) if spans else 2


def _lead(timeline: Timeline) -> int:
    """Return how far the batches that were made ran ahead of those that were taken; 1 at least."""
    batch = CATEGORIES.index("batch")
    ends = [lane.end_ns[lane.category == batch] for lane in timeline.lanes if lane.kind == "pipeline"]
    made = np.sort(np.concatenate([np.zeros(0, np.int64), *ends]))
    taken = timeline._waits.end
    if not len(made) or not len(taken):
        return 1
    lead = np.searchsorted(made, taken, side="right") - np.arange(1, len(taken) + 1)
    return int(max(1, lead.max() - lead.min() + 1)) if len(lead) else 1
