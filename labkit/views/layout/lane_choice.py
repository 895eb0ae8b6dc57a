"""Which lanes are drawn, which of them become one band, and which fit into a picture of limited height."""

from __future__ import annotations

import numpy as np

from labkit.timeline.lanes import IS_WORK, Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES

#: More workers than this are drawn as one band.
APART = 3

#: A lane that is busy for a smaller share of the window is not drawn, unless gaps waited for it.
_LEAST = 0.01

#: In a picture, workers stand in lanes of their own only where their spans are so many pixels long, too: nobody can
#: zoom in on it, as on the widget, which draws few workers apart however short their spans are.
_LONG = 24


def on_device(timeline: Timeline) -> bool:
    """Return whether kernels, not train steps, are the work of the accelerator."""
    return bool((timeline.accelerator.category == CATEGORIES.index("kernel")).any())


def _beside(timeline: Timeline) -> list[int]:
    """Return the lanes that may be drawn beside the accelerator.

    Where train steps are the work of the accelerator, its gaps are the waits of the consumer: a lane of them would
    repeat the gaps.
    """
    return [k for k, lane in enumerate(timeline.lanes) if k and (lane.kind != "wait" or on_device(timeline))]


def blamed_lane(timeline: Timeline) -> int:
    """Return the lane that the gaps waited for most; 0, the accelerator, where there is none."""
    causes = timeline.causes
    found = causes.lane >= 0
    waited = np.bincount(causes.lane[found], timeline.gaps.length_ns[found], minlength=len(timeline.lanes))
    return max(_beside(timeline), key=lambda k: waited[k], default=0)


def drawn_lanes(timeline: Timeline) -> list[int]:
    """Return which lanes are worth drawing, the most important one first.

    These are the accelerator, the lane that the gaps waited for most, and those that are busy for at least a hundredth
    of the window, the busiest first.
    """
    lanes, blamed = timeline.lanes, blamed_lane(timeline)
    worth = [k for k in _beside(timeline) if k == blamed or lanes[k].share >= _LEAST]
    return [0, *sorted(worth, key=lambda k: (k != blamed, -lanes[k].share))]


def workers_of(timeline: Timeline) -> list[int]:
    """Return the lanes of the workers that are worth drawing, in their order."""
    return [k for k in sorted(drawn_lanes(timeline)) if timeline.lanes[k].kind == "pipeline"]


def cores_line(timeline: Timeline, most: int) -> int:
    """Return the number of cores, for a line in a band that reaches up to `most` threads; 0 for no line."""
    cores = timeline.run.host.cpus or 0
    return cores if cores <= most else 0


def chosen_lanes(
    timeline: Timeline, first_ns: int, last_ns: int, pixels: float, most: int
) -> tuple[list[int], list[int], list[int]]:
    """Return the lanes of a picture of a part of a run: those that stand apart, those of the band, and the others.

    Workers are one band, unless they are few and their spans can be distinguished in so many `pixels`. `most` lanes
    stand apart. Lanes that hardly work are in none of the three.
    """

    def clear(k: int) -> bool:
        return _piece(timeline.lanes[k], first_ns, last_ns) * pixels >= _LONG

    worth, blamed, workers = drawn_lanes(timeline), blamed_lane(timeline), workers_of(timeline)
    band = [] if len(workers) <= APART and all(map(clear, workers)) else workers
    apart = [k for k in worth if k not in band]
    if blamed in band and clear(blamed):
        apart.insert(1, blamed)
    shown = sorted(apart[:most])
    return shown, band, [k for k in worth if k not in shown and k not in band]


def _piece(lane: Lane, first_ns: int, last_ns: int) -> float:
    """Return the share of the time that the piece of work takes that an instant falls into, on average; or infinity."""
    start, end, category = lane.between(first_ns, last_ns)
    length = (end - start)[IS_WORK[category]] / max(last_ns - first_ns, 1)
    # Tiny pieces beside a long one count little.
    return float((length**2).sum() / length.sum()) if len(length) else np.inf
