"""Time by operation: what the threads of a process, and its device, spent on each kind of op.

Names of ops are paths, as in ``gradient_tape/small/conv2d_1/convolution/Conv2DBackpropInput:Conv2DBackpropInput``:
what called them, the model, the layer, the op, and after the colon its type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from labkit.common.numbers import one_of, whole
from labkit.common.table import Table, Tabular
from labkit.timeline.nesting import depths, owners
from labkit.timeline.timeline import Timeline
from labkit.timeline.trace import VALIDATION, Trace
from labkit.timeline.wording import is_op_type, percent

#: By what ops are grouped, with the heading of its column: their type; the kind of layer they belong to; this layer.
GROUPS = {"type": "op", "name": "kind of layer", "layer": "layer"}

#: An op in the name of all that XLA has compiled into one.
COMPILED = "ExecuteAsyncOnStream"

#: The op with which a program takes a batch. Its time is the wait for a batch.
GET_NEXT = "IteratorGetNext"

#: Where an op runs.
PIPELINE, STEP, DEVICE = "input pipeline", "train step", "device"

_WHERE = {"pipeline": PIPELINE, "host": STEP, "device": DEVICE}
#: What stands before the model: functions, loops and branches that call it, as where one call trains several steps.
_CALLERS = re.compile(
    r"^((Stateful)?PartitionedCall(_\d+)?/|gradient_tape/|replica_\d+/|(while|cond)(_\d+)?/|(body|then|else)/_\d+/)+"
)
#: A loop or a branch within what it belongs to.
_BRANCHES = re.compile(r"/((while|cond)(_\d+)?/)+(body|then|else)/_\d+(?=/)")
_NUMBERS = re.compile(r"(_\d+)+$")


class Operation(NamedTuple):
    """What one group of ops took.

    Parameters
    ----------
    name : str
    where : str
        `PIPELINE`, `STEP` or `DEVICE`.
    calls : int
    ns : int
        Time in all threads together, without that of ops called meanwhile in the same thread. Nanoseconds.
    """

    name: str
    where: str
    calls: int
    ns: int


@dataclass(frozen=True, repr=False)
class Operations(Tabular):
    """The ops of a run, those that took longest first.

    Parameters
    ----------
    name : str
        What the run is called.
    by : str
        One of `GROUPS`.
    rows : tuple of Operation
    steps : int
        Train steps of the run, 0 where there are none.
    get_next : float or None
        Share of the steps, without validations, that passes in `GET_NEXT`, 0 to 1; None without steps.
    most : int
        Rows of the table.
    copied_bytes : dict
        Of each kind of copy of a device, where the profiler says so.
    """

    name: str
    by: str
    rows: tuple[Operation, ...]
    steps: int
    get_next: float | None
    most: int = 20
    copied_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def ms(self) -> dict[str, float]:
        """Milliseconds of each row, for a step where there are steps, else in all."""
        found: dict[str, float] = {}
        for row in self.rows:
            found[row.name] = found.get(row.name, 0.0) + row.ns / 1e6 / (self.steps or 1)
        return found

    def table(self) -> Table:
        """One row for each group of ops, the last one for those that have no room."""
        total = sum(row.ns for row in self.rows) or 1
        shown, rest = list(self.rows[: self.most]), self.rows[self.most :]
        if rest:
            where = rest[0].where if len({row.where for row in rest}) == 1 else "any"
            others = Operation(f"{len(rest)} others", where, sum(r.calls for r in rest), sum(r.ns for r in rest))
            shown.append(others)
        unit = "ms a step" if self.steps else "ms"
        cells = []
        for row in shown:
            ms = f"{row.ns / 1e6 / (self.steps or 1):,.2f}"
            cells.append((row.name, row.where, f"{row.calls:,}", ms, percent(row.ns / total)))
        head = GROUPS[self.by], "where", "calls", unit, "of all"
        notes = ["time of all threads together, without what an op calls in the same thread."]
        if self.get_next is not None:
            notes.append(f"{GET_NEXT} takes {percent(self.get_next)} of a step: the wait for a batch.")
        if any(row.name == COMPILED for row in self.rows):
            notes.append(f"{COMPILED} is all that XLA has compiled into one: TensorBoard and xprof list no op for it.")
        for row in self.rows:
            if row.where == DEVICE and row.ns and (size := self.copied_bytes.get(row.name)):
                notes.append(f"{row.name} moves {size / row.calls / 1e6:,.3g} MB a call, {size / row.ns:,.3g} GB/s.")
        return Table(head, cells, (2, 3, 4), notes, caption=f"Time by op: {self.name}", rule=True)


def operations(trace: Trace, by: str = "type", *, most: int = 20) -> Operations:
    """Return what each kind of op took.

    Parameters
    ----------
    trace : Trace
        A recording. That of a training script holds all that the profiler saw, also just before and after the window.
    by : str
        ``"type"``: as in ``Conv2D``; ``"name"``: the kind of layer, as in ``batch_normalization``; ``"layer"``: as in
        ``batch_normalization_2``. Ops of the pipeline have no layer and keep their type.
    most : int
        Rows of the table.

    Notes
    -----
    Operations and time of a validation are left out, because they belong to no train step.

    Raises
    ------
    TypeError
        If `trace` is no Trace.
    ValueError
        If `by` is no such word, or `most` is not 1 or more.
    """
    one_of("by", by, GROUPS)
    timeline = Timeline(trace)
    found: dict[tuple[str, str], list[int]] = {}
    ops = [_op(name) for name in trace.names]
    is_op = np.array([op is not None for op in ops], bool)
    trains, left_ms = np.ones(len(trace), bool), timeline.span_ns / 1e6
    validations = trace.where(trace.select(name=VALIDATION, kind="script"))
    for start, end in zip(validations.start_ns, validations.end_ns, strict=True):
        trains &= (trace.start_ns < start) | (trace.start_ns >= end)
        left_ms -= max(0, min(end - timeline.start_ns, timeline.span_ns) - max(start - timeline.start_ns, 0)) / 1e6
    for number, thread in enumerate(trace.threads):
        if thread.kind not in _WHERE:
            continue
        where, device = _WHERE[thread.kind], thread.kind == "device"
        rows = np.flatnonzero((trace.thread == number) & (device | is_op[trace.name]) & trains)
        start, name = trace.start_ns[rows], trace.name[rows]
        end = start + trace.duration_ns[rows]
        pieces = owners(start, end, depths(start, end))
        own = np.zeros(len(rows), np.int64)
        np.add.at(own, pieces.owner, pieces.end - pieces.start)
        for one in np.unique(name).tolist():
            mine = name == one
            group = trace.names[one] if device else _group(*ops[one], by, where)
            counts = found.setdefault((group, where), [0, 0])
            counts[0] += int(mine.sum())
            counts[1] += int(own[mine].sum())
    result = sorted((Operation(*key, *value) for key, value in found.items()), key=lambda row: (-row.ns, row.name))
    share = timeline.parts_ms[0] * timeline.steps / left_ms if timeline.steps and left_ms > 0 else None
    name, copied = trace.run.name or "the run", trace.run.profiler.copied_bytes
    return Operations(name, by, tuple(result), timeline.steps, share, whole("most", most, least=1), copied)


def _op(name: str) -> tuple[str, str] | None:
    """Return path and type of an op of a graph, None for an event that is none."""
    if name.startswith(("Iterator::", "SingleElementIterator::", "EagerLocalExecute: ")):
        return None
    path, colon, op = name.rpartition(":")
    return (path, op) if colon and is_op_type(op) else None


def _group(path: str, op: str, by: str, where: str) -> str:
    if by == "type" or where != STEP:
        return op
    parts = _BRANCHES.sub("", _CALLERS.sub("", path)).split("/")
    # model/layer/…/op, or optimizer/op, or an op that belongs to nobody
    layer = parts[1] if len(parts) > 2 else parts[0] if len(parts) == 2 else "no layer"
    return _NUMBERS.sub("", layer) if by == "name" else layer
