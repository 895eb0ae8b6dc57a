"""Export to the trace-event JSON that ui.perfetto.dev and chrome://tracing open.

Perfetto drops a slice that partly overlaps another on its track ("misplaced", "overlapping
complete event"), so a track holds only spans that nest or are disjoint; one that crosses another is
moved to a second track of the same thread.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from labkit.common.files import write_aside
from labkit.timeline.nesting import tracks
from labkit.timeline.trace import CATEGORIES, Trace

#: Processes in the order in which they are listed; each kind of thread is one.
PROCESSES = {
    "consumer": "consumer: waits and train steps",
    "script": "script: epochs and validation",
    "device": "accelerator",
    "pipeline": "input pipeline",
    "host": "other threads",
}


def save(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write a trace as Chrome trace-event JSON, compressed when `path` ends in ``.gz``; aside and renamed.

    Times are microseconds since the first span with three decimals: every nanosecond is kept. Where the
    trace comes from is in ``otherData`` and in the arguments of every span.

    Parameters
    ----------
    trace : Trace
    path : path
        ``.json`` or ``.json.gz``.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If `path` has another ending.
    """
    path = Path(path)
    if not path.name.endswith((".json", ".json.gz")):
        raise ValueError(f"{path} is no name for a Perfetto trace; allowed: names that end in .json or .json.gz")
    process, track, events = places(trace)
    head = f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about(trace))},"traceEvents":[\n'
    return write_aside(path, head + ",\n".join([*events, *_spans(trace, process, track)]) + "\n]}\n")


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


def _spans(trace: Trace, process: np.ndarray, track: np.ndarray) -> list[str]:
    """Return one complete event per span, in the order of the trace: a span comes before those that it encloses."""
    names = [json.dumps(name) for name in trace.names]
    origin = json.dumps(trace.run.origin)
    start, length = trace.start_ns - trace.start_ns[:1], trace.duration_ns
    return [
        f'{{"ph":"X","name":{names[n]},"cat":"{CATEGORIES[c]}","pid":{p},"tid":{t},'
        f'"ts":{us}.{ns:03d},"dur":{dus}.{dns:03d},'
        f'"args":{{"category":"{CATEGORIES[c]}","step":{step},"origin":{origin}}}}}'
        for n, c, p, t, us, ns, dus, dns, step in zip(
            trace.name.tolist(), trace.category.tolist(), process.tolist(),
            track.tolist(), (start // 1000).tolist(), (start % 1000).tolist(),
            (length // 1000).tolist(), (length % 1000).tolist(), trace.step.tolist(), strict=True,
        )
    ]  # fmt: skip
