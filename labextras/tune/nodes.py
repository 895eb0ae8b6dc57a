"""The nodes of a running tf.data pipeline, as the model says that TensorFlow's tuning keeps of it.

Pure functions of one ``ModelProto``: a `Reading` of it, its table, and its lines of work. Nothing here
knows TensorFlow; `labextras.tune.diagnosis` asks it for the model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.common.table import Table, Tabular

#: ``ModelProto.NodeClass`` of TensorFlow (core/framework/model.proto): nodes with threads of their own, nodes
#: with many inner pipelines, and nodes that take a known number of elements for each that they make.
_ASYNCHRONOUS, _INTERLEAVES, _KNOWN = {2, 4, 6}, {1, 2}, {3, 4}

#: TensorFlow writes "no limit" as the largest 64-bit integer.
_NO_LIMIT = 2.0**62


class Parameter(NamedTuple):
    """A number that a node runs with: the live one, its bounds, and whether AUTOTUNE may change it.

    ``low`` and ``high`` say what the tuning may choose (``math.inf``: no limit); they bind no fixed number.
    """

    name: str
    value: float
    low: float
    high: float
    tuned: bool

    def __str__(self) -> str:
        """Return value and bounds, as in ``2 tuned (1–4)`` or ``4 fixed``."""
        if not self.tuned:
            return f"{self.value:.0f} fixed"
        high = "no limit" if math.isinf(self.high) else f"{self.high:.0f}"
        return f"{self.value:.0f} tuned ({self.low:.0f}–{high})"


@dataclass(frozen=True)
class Node:
    """One node of the graph that runs, with what TensorFlow counted since the iterator was made.

    Parameters
    ----------
    label : str
        Its kind, such as ``MapAndBatch``; a second one of that kind is ``MapAndBatch #2``.
    parent : int
        Position of the node that takes its elements; -1 for the root.
    elements : int
        Elements that it made.
    self_ns : int
        Wall time inside the node, its inputs left out; calls that run at the same time add up. Nanoseconds.
    buffered, buffered_bytes : int
        Elements that it holds ready, and their memory as TensorFlow counts it: the whole block that a tensor
        lies in, so that slices of one tensor count it once each.
    per_step : float
        How many of its elements one element of the root needs; NaN where nothing has passed yet.
    asynchronous : bool
        Whether it has threads of its own.
    inner : bool
        Whether it heads an inner pipeline of an interleave.
    copies : int
        Inner pipelines of this shape that are open now; their figures are added up here.
    parameters : tuple of Parameter
    """

    label: str
    parent: int
    elements: int
    self_ns: int
    buffered: int
    buffered_bytes: int
    per_step: float
    asynchronous: bool
    inner: bool
    copies: int
    parameters: tuple[Parameter, ...]

    @property
    def ms_per_element(self) -> float:
        """Own wall time per element, in milliseconds; NaN before the first."""
        return self.self_ns / 1e6 / self.elements if self.elements else math.nan

    @property
    def ms_per_step(self) -> float:
        """Own wall time per element of the root, in milliseconds; NaN before the first."""
        return self.ms_per_element * self.per_step

    def parameter(self, name: str) -> Parameter | None:
        """Return ``"parallelism"``, ``"buffer_size"``, … of this node; None if it has no such number."""
        return next((p for p in self.parameters if p.name == name), None)


@dataclass(frozen=True)
class Line:
    """Work that is done in turn by one thread, or by `parallelism` threads at a time.

    Parameters
    ----------
    labels : tuple of str
        Nodes, from the root on.
    ms_per_step : float
        The sum of their own times per element of the root, divided by `parallelism`. Milliseconds.
    parallelism : int
    """

    labels: tuple[str, ...]
    ms_per_step: float
    parallelism: int

    def __str__(self) -> str:
        """Return nodes and time, as in ``MapAndBatch: 60.1 ms per step, 2 at a time``."""
        many = f", {self.parallelism} at a time" if self.parallelism > 1 else ""
        return f"{' + '.join(self.labels)}: {digits(self.ms_per_step)} ms per step{many}"


@dataclass(frozen=True, repr=False)
class Reading(Tabular):
    """What TensorFlow's model said at one moment.

    Parameters
    ----------
    nodes : tuple of Node
        From the root to the sources, each before its inputs.
    cores : int
    ram_bytes : int
        What the tuning may use.
    """

    nodes: tuple[Node, ...]
    cores: int
    ram_bytes: int

    @property
    def chosen(self) -> dict[str, int]:
        """Every number that AUTOTUNE sets, such as ``{"MapAndBatch.parallelism": 2}``, from the root on."""
        return {f"{n.label}.{p.name}": round(p.value) for n in self.nodes for p in n.parameters if p.tuned}

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of work between the nodes that have threads of their own, the longest first.

        A node with a ``parallelism`` is a line of its own: its time divided by that number. All that is between
        such nodes is done in turn by one thread, that of the node that asks, and adds up.
        """
        found: list[tuple[list[Node], float]] = []

        def begun(width: float) -> list[Node]:
            found.append(([], width))
            return found[-1][0]

        # For each node: the line of the inner pipelines below it, and that of its other inputs.
        inner, others = [], []
        consumer = begun(1.0)
        for node in self.nodes:
            line = consumer if node.parent < 0 else (inner if node.inner else others)[node.parent]
            width = node.parameter("parallelism") if node.asynchronous else None
            if node.asynchronous:
                line = begun(max(1.0, width.value) if width else 1.0)
            line.append(node)
            inner.append(line)
            others.append(begun(1.0) if width else line)
        lines = []
        for members, width in found:
            times = [n.ms_per_step for n in members if not math.isnan(n.ms_per_step)]
            if times:
                lines.append(Line(tuple(n.label for n in members), sum(times) / width, round(width)))
        return tuple(sorted(lines, key=lambda found: -found.ms_per_step))

    def table(self) -> Table:
        """Return the nodes, each under the one that takes its elements, and the notes; empty columns are left out."""
        special = ("parallelism", "buffer_size", "deterministic")
        others = [[p for p in node.parameters if p.name not in special] for node in self.nodes]
        columns = {
            "node": [
                _branch(self.nodes, place) + node.label + (f" ×{node.copies}" if node.copies > 1 else "")
                for place, node in enumerate(self.nodes)
            ],
            "parallelism": [str(node.parameter("parallelism") or "") for node in self.nodes],
            "buffer": [str(node.parameter("buffer_size") or "") for node in self.nodes],
            "also": [", ".join(f"{p.name} {p if p.tuned else f'{p.value:.0f}'}" for p in some) for some in others],
            "elements": [f"{node.elements:,}" for node in self.nodes],
            "own ms/element": [digits(node.ms_per_element) for node in self.nodes],
            "own ms/step": [digits(node.ms_per_step) for node in self.nodes],
            "holds": [f"{node.buffered:,}" for node in self.nodes],
            "holds MB": [f"{node.buffered_bytes / 1e6:,.1f}" for node in self.nodes],
        }
        columns = {name: cells for name, cells in columns.items() if any(cells)}
        rows, numbers = list(zip(*columns.values(), strict=True)), range(len(columns) - 5, len(columns))
        return Table(list(columns), rows, right=numbers, notes=self.notes(), rule=True)

    def notes(self) -> list[str]:
        """Return the lines under the table: what the tuning may use, and how to read the times."""
        notes = [
            "own ms: wall time inside the node without its inputs, calls at the same time added up; it swells when "
            "threads share cores. step: one element of the root.",
            f"AUTOTUNE may use {self.cores} cores and {self.ram_bytes / 1e9:.1f} GB for buffers.",
        ]
        if any(n.inner for n in self.nodes):
            notes.append("of an interleave, only inner pipelines that are open now count: finished ones are gone.")
        return notes


def parse(model: Any) -> Reading:
    """Return what a ``ModelProto`` of TensorFlow says.

    Inner pipelines of equal shape below an interleave become one node each, with their number in `copies`.
    """
    nodes: list[Node] = []
    seen: Counter[str] = Counter()

    def walk(ids: Sequence[int], parent: int, per_step: float, inner: bool) -> None:
        """Append the node of `ids`, which are of one shape and become one, and all its inputs."""
        protos = [model.nodes[i] for i in ids]
        first, place = protos[0], len(nodes)
        seen[first.name] += 1
        elements, kind = sum(p.num_elements for p in protos), int(first.node_class)
        nodes.append(
            Node(
                label=first.name + (f" #{seen[first.name]}" if seen[first.name] > 1 else ""),
                parent=parent,
                elements=elements,
                self_ns=sum(p.processing_time for p in protos),
                buffered=sum(p.buffered_elements for p in protos),
                buffered_bytes=sum(p.buffered_bytes for p in protos),
                per_step=per_step,
                asynchronous=kind in _ASYNCHRONOUS,
                inner=inner,
                copies=len(protos),
                parameters=tuple(_parameter(p) for p in first.parameters),
            )
        )

        def needed(sources: Sequence[int]) -> float:
            taken = sum(model.nodes[i].num_elements for i in sources)
            return per_step * taken / elements if elements else math.nan

        if kind in _INTERLEAVES:
            groups: dict[Any, list[int]] = {}
            for i in (i for proto in protos for i in proto.inputs[1:]):
                groups.setdefault(_shape(model.nodes, i), []).append(i)
            if outer := [p.inputs[0] for p in protos if p.inputs]:
                walk(outer, place, needed(outer), False)
            for group in groups.values():
                walk(group, place, per_step, True)
            return
        for column in zip(*(p.inputs for p in protos), strict=True):
            stated = kind in _KNOWN and first.ratio > 0
            walk(column, place, per_step * first.ratio if stated else needed(column), False)

    if model.output in model.nodes:
        walk([model.output], -1, 1.0, False)
    budget = model.optimization_params
    return Reading(tuple(nodes), int(budget.cpu_budget), int(budget.ram_budget))


def _shape(known: Any, node: int) -> tuple[Any, ...]:
    """Return the names of a node and of all its inputs."""
    return (known[node].name, *(_shape(known, i) for i in known[node].inputs))


def _parameter(proto: Any) -> Parameter:
    # `state_value` is the number that runs; `value` is what the last round of tuning worked with. Numbers that
    # nothing tunes may have no state, and it then reads 0.
    value = proto.state_value if proto.tunable else proto.value
    return Parameter(proto.name, value, proto.min, math.inf if proto.max >= _NO_LIMIT else proto.max, proto.tunable)


def digits(ms: float) -> str:
    """Return milliseconds in as many digits as tell something.

    >>> digits(1234.5), digits(12.34), digits(0.1234), digits(math.nan)
    ('1,234', '12.3', '0.123', '–')
    """
    if math.isnan(ms):
        return "–"
    return f"{ms:,.0f}" if ms >= 99.95 else f"{ms:.1f}" if ms >= 0.9995 else f"{ms:.3f}"


def _branch(nodes: Sequence[Node], place: int, marks: Sequence[str] = ("└ ", "├ ")) -> str:
    """Return what stands before the name of a node, so that the inputs of each are seen.

    The last mark is the first or the second of `marks`: none, or some inputs of the same node follow.
    """
    parent = nodes[place].parent
    if parent < 0:
        return ""
    return _branch(nodes, parent, ("  ", "│ ")) + marks[any(node.parent == parent for node in nodes[place + 1 :])]
