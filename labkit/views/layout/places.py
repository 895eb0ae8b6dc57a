"""Where lanes stand, in CSS pixels, and the strip that shows a whole run."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.timeline.intervals import covered_until
from labkit.timeline.lanes import LANE_KINDS, Lane
from labkit.views.detail import bins

#: Columns of the strip on top, which always shows the whole run.
OVERVIEW = 1024

#: Space below a lane; words over a run; lanes that are woven into those of another run are lower.
_SPACE, _HEAD, _LOWER = 5, 22, 0.8


def stacked(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the runs one below the other on one axis."""
    items, heads, y = [], [], 0
    for r, run in enumerate(runs):
        if len(runs) > 1:
            heads.append({"run": r, "y": y, "h": _HEAD})
            y += _HEAD
        for k, lane in enumerate(run["lanes"]):
            if lane["shown"]:
                items.append({"run": r, "lane": k, "name": lane["name"], "y": y, "h": lane["height"], "scale": 1.0})
                y += lane["height"] + _SPACE
        y += _SPACE * (r + 1 < len(runs))
    return {"height": y, "items": items, "heads": heads}


def overlaid(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put lanes of one kind and name right below each other, each a little lower than alone.

    A lane that the other run lacks stands alone, after the others of its kind.
    """
    if len(runs) == 1:
        return stacked(runs)
    places: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for r, run in enumerate(runs):
        for k, lane in enumerate(run["lanes"]):
            if lane["shown"]:
                places.setdefault((LANE_KINDS.index(lane["kind"]), lane["name"]), []).append((r, k))
    items, y = [], 0.0
    for place in sorted(places, key=lambda place: place[0]):  # stable: names stay in their order
        for r, k in places[place]:
            name, high = f"{place[1]} · {runs[r]['label']}", runs[r]["lanes"][k]["height"] * _LOWER
            items.append({"run": r, "lane": k, "name": name, "y": y, "h": high, "scale": _LOWER})
            y += high + 1
        y += _SPACE
    return {"height": y, "items": items, "heads": []}


def strip(lanes: list[Lane], span_ns: int) -> np.ndarray:
    """Return the busy share of lanes, on average, in each column of the overview: float32, shape (OVERVIEW,)."""
    share = np.zeros(OVERVIEW)
    if not span_ns or not lanes:
        return share.astype(np.float32)
    edges = bins(lanes[0].busy, 0, span_ns, OVERVIEW)[0]
    for lane in lanes:
        share += np.diff(covered_until(lane.busy, edges))
    return (share / np.maximum(np.diff(edges), 1) / len(lanes)).astype(np.float32)
