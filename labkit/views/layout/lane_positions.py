"""Where lanes stand, in CSS pixels, and the strip that shows a whole run."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.timeline.intervals import covered_until
from labkit.timeline.lanes import LANE_KINDS, Lane
from labkit.views.bars_for_width import bins
from labkit.views.layout.texts import BAND

#: Columns of the strip on top, which always shows the whole run.
OVERVIEW = 1024

#: Space below a lane; words over a run; lanes that are woven into those of another run are lower.
_SPACE, _HEAD, _LOWER = 5, 22, 0.8

#: The band of all workers.
_BAND = 66


def stacked(runs: list[dict[str, Any]], apart: bool = False) -> dict[str, Any]:
    """Put the runs one below the other on one axis: the workers as one band below the accelerator, or `apart`."""
    items, heads, y = [], [], 0
    for r, run in enumerate(runs):
        if len(runs) > 1:
            y += _SPACE * (r > 0)
            heads.append({"run": r, "y": y, "h": _HEAD})
            y += _HEAD
        band = None if apart else run["band"]
        for k, lane in enumerate(run["lanes"]):
            if lane["drawn"] and not (band and k in band["hidden"]):
                items.append({"run": r, "lane": k, "name": lane["name"], "y": y, "h": lane["height"], "scale": 1.0})
                y += lane["height"] + _SPACE
            if k == 0 and band:
                about = {key: band[key] for key in ("most", "busy", "cores")}
                about |= {"name": BAND, "scale": 1.0}
                items.append({"run": r, "lane": -1, "band": band["lanes"], "y": y, "h": _BAND, **about})
                y += _BAND + _SPACE
    return {"height": y, "items": items, "heads": heads}


def overlaid(runs: list[dict[str, Any]], apart: bool = False) -> dict[str, Any]:
    """Put lanes of one kind and name right below each other, each a little lower than alone.

    A lane that the other run lacks stands alone, after the others of its kind.
    """
    if len(runs) == 1:
        return stacked(runs, apart)
    places: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for item in stacked(runs, apart)["items"]:
        kind = "accelerator" if "band" in item else runs[item["run"]]["lanes"][item["lane"]]["kind"]
        places.setdefault((LANE_KINDS.index(kind), item["name"]), []).append(item)
    items, y = [], 0.0
    for kind, name in sorted(places, key=lambda place: place[0]):  # stable: names stay in their order
        for item in places[kind, name]:
            high = item["h"] * _LOWER
            label = f"{name} · {runs[item['run']]['label']}"
            items.append(item | {"name": label, "y": y, "h": high, "scale": _LOWER})
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
