"""What a file for ui.perfetto.dev says beside its spans: processes, tracks, and where the run comes from.

The timeline in the browser writes the file (``view.perfetto()`` in ``labkit/views/timeline.js``).

Perfetto drops a slice that partly overlaps another on its track ("misplaced", "overlapping
complete event"), so a track holds only spans that nest or are disjoint; one that crosses another is
moved to a second track of the same thread.
"""

from __future__ import annotations

import json

import numpy as np

from labkit.timeline.nesting import tracks
from labkit.timeline.trace import Trace

#: Processes in the order in which they are listed; each kind of thread is one.
PROCESSES = {
    "consumer": "consumer: waits and train steps",
    "script": "script: epochs and validation",
    "device": "accelerator",
    "unit": "devices",
    "pipeline": "input pipeline",
    "host": "other threads",
}


def about(trace: Trace) -> dict[str, str]:
    """Return what a file says about the run as a whole."""
    accelerator = trace.run.accelerator
    return {
        "labkit-origin": trace.run.origin,
        "labkit-accelerator": accelerator.describe or accelerator.name or "not stated",
        "labkit-name": str(trace.run.name or ""),
        "labkit-start-ns": str(int(trace.start_ns[0]) if len(trace) else 0),
    }


def places(trace: Trace, below: int = 0, label: str = "") -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the process and the track of every span, and the events that name processes and tracks.

    Parameters
    ----------
    trace : Trace
    below : int
        The number of processes that other runs in the same file have already.
    label : str
        What the names of the processes begin with.

    Returns
    -------
    process, track : ndarray of int64, shape (n,)
        Process ids count from ``below + 1``, track ids from 1.
    events : list of str
        One JSON object each.
    """
    within = np.zeros(len(trace), np.int64)  # the track of a span among those of its thread
    for thread in range(len(trace.threads)):
        mine = np.flatnonzero(trace.thread == thread)
        within[mine] = tracks(trace.start_ns[mine], trace.end_ns[mine])
    kinds = list(PROCESSES)
    process = np.array([below + kinds.index(t.kind) + 1 for t in trace.threads], np.int64)
    count = np.zeros(len(trace.threads), np.int64)
    np.maximum.at(count, trace.thread, within + 1)
    first = np.cumsum(count) - count + 1
    events = []

    def add(what: str, process_id: int, thread: int, **args: object) -> None:
        events.append(json.dumps({"ph": "M", "name": what, "pid": process_id, "tid": thread, "args": args}))

    used = {int(p) for p, n in zip(process, count, strict=True) if n}
    for number, name in enumerate(PROCESSES.values(), start=below + 1):
        if number in used:
            add("process_name", number, 0, name=f"{label}{name} ({trace.run.origin})")
            add("process_sort_index", number, 0, sort_index=number)
    for i, thread in enumerate(trace.threads):
        for extra in range(int(count[i])):
            number = int(first[i]) + extra
            add("thread_name", int(process[i]), number, name=thread.name + (f" ({extra + 1})" if extra else ""))
            add("thread_sort_index", int(process[i]), number, sort_index=number)
    return process[trace.thread], first[trace.thread] + within, events
