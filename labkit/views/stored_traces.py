"""Traces as one short text: what a notebook stores beside a picture of them.

Spans are sorted by thread, a start is stored as its distance from the one before, and each byte of a number stands with
the same bytes of the others: so they compress to a third of a saved trace. The pages of the course are made of them:
docs/site/timelines.py reads what is written here.
"""

from __future__ import annotations

import base64
import io
import json
import lzma
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from labkit.timeline.run import ProcessorTime
from labkit.timeline.trace import Trace


def pack(traces: Sequence[Trace], about: dict[str, Any], grain: int = 1) -> str:
    """Return traces, and what else is known of them (`about`, ready for JSON), as base64 of a compressed file of NumPy.

    Times are rounded down to a `grain` of so many nanoseconds since the start of the window, so that what begins or
    ends together still does.
    """
    arrays, tables = [], []
    for trace in traces:
        since, until = trace.window_ns
        order = np.lexsort((trace.start_ns, trace.thread))
        start, end = ((ns[order] - since) // grain for ns in (trace.start_ns, trace.end_ns))
        others = (getattr(trace, column)[order] for column in list(Trace.DTYPES)[2:])
        run = trace.with_run(window_ns=(since, until - (until - since) % grain)).run
        clock = run.processor or ProcessorTime()
        samples = np.array([clock.at_ns, clock.cpu_ns], np.int64) // grain
        run = replace(run, processor=run.processor and replace(clock, at_ns=(), cpu_ns=()))
        arrays += [_planes(np.diff(start, prepend=0), end - start, *others), _planes(*np.diff(samples, prepend=0))]
        tables.append({"run": asdict(run), "names": trace.names, "threads": trace.threads})
    head = json.dumps({"about": about, "grain": grain, "traces": tables}, separators=(",", ":"))
    file = io.BytesIO()
    np.savez(file, np.frombuffer(head.encode(), np.uint8), *arrays)
    return base64.b64encode(lzma.compress(file.getbuffer())).decode()  # a sixth below what zlib makes of it


def _planes(*columns: np.ndarray) -> np.ndarray:
    """Return columns of whole numbers, a plane for each of their eight bytes: uint8, shape (columns, 8, rows)."""
    numbers = np.ascontiguousarray(columns, "<i8")
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(*numbers.shape, 8).transpose(0, 2, 1))
