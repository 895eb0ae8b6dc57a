"""Where processes that train together meet, as in an all-reduce: how long each waits there, and for whom.

A sum over all processes begins when the last of them is there. Before, the others wait, although each of them alone
would say that its train step goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labkit.timeline.intervals import overlap, union
from labkit.timeline.trace import Span, Trace


def with_waits(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces of processes that ran together, in which each waits until all of them are there.

    The spans of category ``transfer`` in a thread of kind ``unit`` are where they meet: those of one name that are open
    at the same time belong together. Each loses what lies before the last of them begins. This time becomes a wait of
    the accelerator: a span of category ``wait`` in its thread, named after the step of the process that came last, or
    after its batch where that one waited for its batch meanwhile.

    Parameters
    ----------
    traces : sequence of Trace
        In the order of the processes, on one clock.
    """
    meetings = [_meetings(trace) for trace in traces]
    batches = []
    for trace in traces:
        waits = trace.where(trace.select("wait", kind="consumer"))
        batches.append(union(waits.start_ns, waits.end_ns))
    found = []
    for index, trace in enumerate(traces):
        start, end, waits = trace.start_ns.copy(), trace.end_ns, []
        for name, rows in meetings[index].items():
            for row in rows.tolist():
                begin = int(start[row])
                last, who = max(
                    (_began(other, meetings[q].get(name), begin, int(end[row])), q) for q, other in enumerate(traces)
                )
                if last <= begin:
                    continue
                edges = (np.array([edge], np.int64) for edge in (begin, last))
                late = 2 * int(overlap(batches[who], *edges)[0]) >= last - begin
                said = f"{'batch' if late else 'step'} of process {who}"
                waits.append(Span("accelerator", said, "wait", begin, last - begin, -1))
                start[row] = last
        if waits:
            more = Trace.from_spans(waits, {"accelerator": "device"}, origin=trace.run.origin)
            trace = Trace.merge(replace(trace, start_ns=start, duration_ns=end - start), more)
        found.append(trace)
    return found


def _meetings(trace: Trace) -> dict[str, np.ndarray]:
    """Return the rows of the spans in which a process meets others, by the name of their thread."""
    rows = np.flatnonzero(trace.select("transfer", kind="unit"))
    names = np.array([trace.threads[i].name for i in trace.thread[rows].tolist()], object)
    return {name: rows[names == name] for name in dict.fromkeys(names.tolist())}


def _began(trace: Trace, rows: np.ndarray | None, start_ns: int, end_ns: int) -> int:
    """Return when that span among `rows` began that is open for longest of a time, or its start where none is open."""
    if rows is None:
        return start_ns
    both = np.minimum(trace.end_ns[rows], end_ns) - np.maximum(trace.start_ns[rows], start_ns)
    best = int(np.argmax(both))
    return int(trace.start_ns[rows[best]]) if both[best] > 0 else start_ns
