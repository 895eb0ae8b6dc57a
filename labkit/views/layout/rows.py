"""The rows of a picture, from above: heading, accelerator, the band of the threads, devices; lanes where asked for.

All pens draw these rows. Heights and places are CSS pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.timeline.lanes import Lane
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES

#: The name of the band of all threads.
BAND = "threads"

#: What may be asked for: the band alone, a lane for each thread that does something, and all lanes.
MODES = ("band", "lanes", "all lanes")

#: A lane that works for a smaller share of the window is hidden until it is asked for.
LEAST = 0.02

#: Space below a row; words over a run.
_SPACE, _HEAD = 5, 22

#: A thread of the band is so high, as far as the band stays between its lowest and its highest.
_THREAD, _LOW, _HIGH = 14, 28, 70


def on_device(timeline: Timeline) -> bool:
    """Return whether kernels, not train steps, are the work of the accelerator."""
    return bool((timeline.accelerator.category == CATEGORIES.index("kernel")).any())


def mode_of(timeline: Timeline, k: int, lane: Lane, own: float) -> str:
    """Return the first of `MODES` in which a lane has a row of its own; "" for none.

    `own` is the share of the window in which it does something itself, 0 to 1, and does not only enclose others.
    A part of a device is always shown: there are few, and one that rests says where the others wait.
    Where train steps are the work of the accelerator, its gaps are the waits of the consumer: a lane of them would
    repeat the gaps. One of several accelerators that start their steps together repeats the steps.
    """
    if lane.kind == "wait" and not on_device(timeline):
        return ""
    if k and own < LEAST and lane.kind != "unit":  # where parts of a device take turns, the short ones matter, too
        return "all lanes"
    if lane.kind == "stream" and np.array_equal(lane.start_ns, timeline.accelerator.start_ns):
        return "lanes"
    return "band" if lane.kind in ("accelerator", "stream", "unit", "script") else "lanes"


def rows_of(runs: list[dict[str, Any]], mode: str) -> dict[str, Any]:
    """Return the rows of the runs, one run below the other, in one of `MODES`.

    Returns
    -------
    dict
        ``height``; ``heads``, where the words over each of two runs stand; ``items``: ``run``, ``lane`` (-1 for the
        band), ``name``, ``y`` and ``h`` of each row.
    """
    items: list[dict[str, Any]] = []
    heads, y, seen = [], 0, MODES[: MODES.index(mode) + 1]
    for r, run in enumerate(runs):
        if len(runs) > 1:
            y += _SPACE * (r > 0)
            heads.append({"run": r, "y": y, "h": _HEAD})
            y += _HEAD
        rows = [(k, lane["name"], lane["height"]) for k, lane in enumerate(run["lanes"]) if lane["mode"] in seen]
        if run["band"]:
            below = sum(run["lanes"][k]["kind"] == "accelerator" for k, *_ in rows)
            rows.insert(below, (-1, BAND, min(max(_THREAD * run["band"]["most"], _LOW), _HIGH)))
        for k, name, height in rows:
            items.append({"run": r, "lane": k, "name": name, "y": y, "h": height})
            y += height + _SPACE
    return {"height": y, "items": items, "heads": heads}
