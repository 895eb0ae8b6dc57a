"""Live timelines in place of stored pictures: what `labkit.show` stores beside a picture, for the pen of the page."""

from __future__ import annotations

import base64
import io
import json
import lzma
from typing import Any

import numpy as np
from nbformat import NotebookNode

from labcourse.page_events import as_json
from labkit.timeline.run import Run
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import Thread, Trace
from labkit.views.widget import KEPT, TimelineWidget, packed

#: A picture, which stays where no script runs, and what `timelines.js` draws in its place.
LIVE = """<div class="lab-timeline"><div>{picture}</div>
<script type="application/json">{drawn}</script></div>"""


def place(notebook: NotebookNode, number: str) -> None:
    """Put a live timeline in place of every picture beside which its traces are stored.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        It is changed.
    number : str
        Of the notebook, as in 04b; not needed here.
    """
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    for data in (output.data for output in outputs if KEPT in output.get("data", {})):
        traces, about = unpack(data.pop(KEPT))
        shown = TimelineWidget(*map(Timeline, traces, about["explain"]), **about["asked"])
        look = {"last": shown.look["last"], **about["look"]}
        drawn = as_json([packed(shown.block), look])
        data["text/html"] = LIVE.format(picture=data["text/html"], drawn=drawn)


def unpack(text: str) -> tuple[list[Trace], dict[str, Any]]:
    """Return the traces and the rest of which `labkit.views.stored_traces` made a text."""
    with np.load(io.BytesIO(lzma.decompress(base64.b64decode(text))), allow_pickle=False) as file:
        head, *arrays = (_numbers(array) if array.ndim > 1 else array for array in file.values())
    known, traces = json.loads(head.tobytes()), []
    grain = known["grain"]
    for table, (since, duration, *others), samples in zip(known["traces"], arrays[::2], arrays[1::2], strict=True):
        run = table["run"]
        if run["processor"]:
            run["processor"] |= zip(("at_ns", "cpu_ns"), (np.cumsum(samples, axis=1) * grain).tolist(), strict=True)
        columns = [run["window_ns"][0] + np.cumsum(since) * grain, duration * grain, *others]
        threads = [Thread(*thread) for thread in table["threads"]]
        traces.append(Trace.of_columns(columns, table["names"], threads, Run(**run)))
    return traces, known["about"]


def _numbers(planes: np.ndarray) -> np.ndarray:
    """Return the columns of which it made planes: int64, shape (columns, rows)."""
    return np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<i8")[..., 0]
