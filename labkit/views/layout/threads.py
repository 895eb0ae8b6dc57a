"""Which thread ran each span of a lane, as the downloads name it."""

from __future__ import annotations

import numpy as np

from labkit.timeline.lanes import Lane, cut
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import CATEGORIES

_KINDS = {"accelerator": "consumer", "wait": "consumer", "stream": "device", "pipeline": "pipeline", "host": "host"}


class Threads:
    """The threads of a run as the downloads name them: those of its trace."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.table: list[list[str]] = [list(thread) for thread in timeline.trace.threads]

    def of(self, lane: Lane) -> np.ndarray:
        """Return the thread of each span of a lane, int32, shape (n,)."""
        timeline, trace = self._timeline, self._timeline.trace
        if lane.kind in ("accelerator", "wait"):
            category = "wait" if lane.kind == "wait" else CATEGORIES[lane.category[0]] if len(lane) else "train"
            mask = trace.select(category, kind="device" if category == "kernel" else "consumer")
            return trace.thread[cut(trace, np.flatnonzero(mask), timeline.start_ns, timeline.span_ns)[2]]
        kinds = {"stream": ("device",), "host": ("host",)}.get(lane.kind, ("pipeline", "consumer"))
        for number, (name, kind) in enumerate(self.table):
            if name == lane.name and kind in kinds:
                return np.full(len(lane), number, np.int32)
        self.table.append([lane.name, _KINDS[lane.kind]])
        return np.full(len(lane), len(self.table) - 1, np.int32)
