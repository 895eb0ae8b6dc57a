"""The modelled machine that drills run on: it reads the graph of a pipeline and says when each thread does what.

No time of the reader's own machine is in it, so a drill has the same timeline everywhere. What takes time are the
operations in the functions of a pipeline: reading, decoding, functions of Python, and the marks of the library.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labcourse.drills.case import CLEAN, FILES, TONE, Case
from labcourse.drills.sick_jobs import UNPACK, Machine
from labcourse.fairness import rules
from labcourse.fairness.timing import as_rewritten, train_step
from labcourse.grading import Wrong
from labkit.pipelines.structure import Step
from labkit.simulate.clock import MOVE, SLEEP, WORK
from labkit.simulate.iterators import IN_CONSUMER, PREFETCH, train
from labkit.simulate.simulated_trace import SpanTable
from labkit.simulate.workers import Simulation, Work
from labkit.timeline.run import Host
from labkit.timeline.trace import Thread, Trace
from labkit.timeline.wording import PYTHON_OPS

#: Steps before the window, and in it: with an epoch of four batches, the rest of the first one and three others.
WARMUP, STEPS = 1, 15

#: Elements that a pipeline may make before it is refused.
_MOST = 20_000

#: Photos have numbers from here on; what is less is a batch of so many photos.
_PHOTO = 1000

#: Marks of what stands in no function: names are listed, and records come out of a file.
_LIST, _RECORD = "list", "record"
#: Steps that the simulation knows, beside those that call no function.
_MAPS = ("Map", "ParallelMap", "Filter")
_LISTED_MS, _CHANGE_MS = 0.05, 0.2
_NODES = {"ParallelMap": "ParallelMapV2", "ParallelInterleave": "ParallelInterleaveV4", "Batch": "BatchV2",
          "Repeat": "ForeverRepeat", "Cache": "MemoryCacheImpl"}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """A run on the modelled machine.

    Parameters
    ----------
    trace : Trace
    held : int
        Decoded photos that lay in memory at once, the most.
    library : frozenset of str
        What the pipeline calls of the library that takes time and changes nothing: ``clean``, ``tone``.
    """

    trace: Trace
    held: int
    library: frozenset[str]


def record(dataset: Any, case: Case, machine: Machine, name: str) -> Recording:
    """Run a pipeline on a modelled machine.

    Raises
    ------
    Wrong
        If the model does not know one of its steps.
    """
    found = rules.chain(dataset)
    for step in found.every:
        if step.inside and step.kind not in _MAPS:
            raise Wrong(f"the modelled machine does not know the step {step.kind}: write it with map and batch")
    steps, layout = _listing(found.steps), case.layout_of(dataset)
    works = _Works(case, machine, layout)
    records = bool(found.all("TFRecord"))

    def elements(outer: int | None) -> Iterator[int]:
        files = FILES[layout] or case.size
        if outer is None:
            return iter(range(_PHOTO, _PHOTO + (files if records else case.size)))
        return iter(range(outer, _PHOTO + case.size, files) if records else [outer])

    def joined(batch: list[int]) -> int:
        return sum(1 if photo >= _PHOTO else photo for photo in batch)

    def capacity(threads: int) -> float:
        return min(threads, machine.cores, machine.free)

    pool, order = found.threads or machine.cores, found.ordered
    run = Simulation(capacity, pool, works.of, elements, joined, ordered=order, most=_MOST)
    steps = as_rewritten(found, steps)
    try:
        train(run, steps, WARMUP + STEPS, lambda step: machine.step * 1e6)
    except ValueError as error:
        raise Wrong(f"{error}") from None
    if len(run.taken) < WARMUP + STEPS:
        raise Wrong(f"the dataset ends after {len(run.taken)} batches; it has to go on from epoch to epoch (repeat)")
    called = {name.replace("PyFunc", "clean") for work in works.all for name in work.names}
    trace = _trace(run, steps, works, case, machine, name)
    return Recording(trace, _held(run, works), frozenset(called & {"clean", "tone"}))


def _listing(steps: tuple[Step, ...], inner: bool = False) -> tuple[Step, ...]:
    """Return the steps with a step behind each source that lists names, or reads the records of a file."""
    if inner and len(steps) > 1 and steps[1].kind == "FlatMap" and steps[1].inner[0].kind == "TFRecord":
        steps = (*steps[1].inner, *steps[2:])  # a TFRecordDataset of one path is a flat_map over it
    mark = Step("Map", inside=(_RECORD if steps[0].kind == "TFRecord" else _LIST,))
    rest = (replace(step, inner=_listing(step.inner, True)) if step.inner else step for step in steps[1:])
    return (steps[0], *([] if inner and mark.inside == (_LIST,) else [mark]), *rest)


class _Works:
    """What the steps of a pipeline do to an element, by their functions; all of it is kept, to be drawn."""

    def __init__(self, case: Case, machine: Machine, layout: str) -> None:
        self.case, self.machine, self.layout = case, machine, layout
        self.all: list[Work] = []
        self._known: dict[int, list[Work]] = {}
        self._read: set[int] = set()

    def of(self, step: Step) -> list[Work]:
        """Return the work of a step; the same for a step that begins again with each epoch."""
        if id(step) not in self._known:
            made: list[Work] = []
            if step.inside == (_LIST,):
                made = [Work(SLEEP, ["list names"], lambda _: _LISTED_MS * 1e6)]
            elif step.inside:
                made = self._record() if step.inside == (_RECORD,) else self._function(step)
            self._known[id(step)] = made
            self.all += made
        return self._known[id(step)]

    def _read_from(self, name: str) -> list[Work]:
        way = Work(MOVE, [name], lambda photo: self.machine.link * 1e6)
        return [Work(SLEEP, [name], lambda photo: self._wait_ms(photo) * 1e6), way]

    def _record(self) -> list[Work]:
        machine, files = self.machine, FILES[self.layout] or self.case.size
        opening = Work(SLEEP, ["open"], lambda photo: machine.open * 1e6 * (photo - _PHOTO < files))
        unpacking = Work(WORK, ["read TFRecord"], lambda photo: UNPACK * machine.read * 1e6)
        return [opening, *self._read_from("read"), *[unpacking] * (self.layout == "zipped")]

    def _function(self, step: Step) -> list[Work]:
        machine, batch, ops = self.machine, self.case.batch, Counter(operation.op for operation in step.inside)
        marks = {operation.name.rpartition("/")[2].rstrip("_0123456789") for operation in step.inside}

        def each(name: str, ms: float, count: int = 1, kind: int = WORK) -> list[Work]:
            """Return work that takes so long for each photo; none if it is done to none."""
            return [Work(kind, [name], lambda one: ms * 1e6 * count * (1 if one >= _PHOTO else one))] * bool(count)

        tone = [Work(WORK, ["tone"], lambda images: machine.tone * 1e6)]
        if ops["While"] + ops["StatelessWhile"]:  # a call for each photo
            parts = np.full((batch, _PHOTO + self.case.size), machine.tone * 1e6)
            tone = [Work(WORK, ["tone"] * batch, lambda images: machine.tone * 1e6 * images, parts)]
        return [
            *self._read_from("ReadFile") * ops["ReadFile"],
            *each("DecodeJpeg", machine.decode, sum(n for op, n in ops.items() if re.match("Decode(?!Raw)", op))),
            # One function of Python runs at a time: as bytes that share a link.
            *each("PyFunc", machine.clean, sum(ops[op] for op in PYTHON_OPS), MOVE),
            *each("clean", machine.clean, CLEAN in marks),
            *(tone if TONE in marks else each("change", _CHANGE_MS)),
        ]

    def join_reads(self) -> None:
        """Make one span of the wait for the storage and of the way over the link."""
        for wait, way in itertools.pairwise(self.all):
            if wait.names == way.names and way.kind == MOVE:
                began = {(thread, end): start for thread, _, start, end in wait.rows}
                joined = [(thread, photo, began.pop((thread, start)), end) for thread, photo, start, end in way.rows]
                way.rows[:] = joined
                wait.rows[:] = [row for row in wait.rows if (row[0], row[3]) in began]  # what is still waiting

    def _wait_ms(self, photo: int) -> float:
        first, machine = photo not in self._read, self.machine
        self._read.add(photo)
        if machine.late and photo == _PHOTO + 5:
            return machine.late
        return machine.cold if machine.cold and first else machine.read


def _trace(run: Simulation, steps: tuple[Step, ...], works: _Works, case: Case, machine: Machine, name: str) -> Trace:
    kinds = [_NODES.get(step.kind, step.kind) for step in steps[2:]]
    batch = max(place for place, step in enumerate(steps) if "Batch" in step.kind) - 2
    later = [step.kind for step in steps[batch + 3 :]]
    maker, table = Thread(PREFETCH if "Prefetch" in later else IN_CONSUMER, "pipeline"), SpanTable()
    paths = ["::".join(["Root", *reversed(kinds[place:])]) for place in range(len(kinds), -1, -1)]
    node, before = (f"Iterator::{paths[len(kinds) - place]}" for place in (batch, max(batch - 1, 0)))
    works.join_reads()
    table.consumer(run, WARMUP)
    table.add(*zip(*run.batches, strict=True), maker, node, "batch")
    table.add(*zip(*run.asked, strict=True), maker, before, "iterator")  # open while the batch waits for an element
    table.work(run, works.all)
    return table.trace(
        (round(run.taken[WARMUP][1]), round(run.taken[-1][-1])), name=name, storage="modelled", graph=paths,
        accelerator=train_step(machine.step, "stated by the drill"), batch_size=case.batch,
        steps=STEPS, warmup=WARMUP, images=STEPS * case.batch, first_batch_ns=round(run.taken[0][2]),
        host=Host(machine.cores, others=1 - machine.free / machine.cores if machine.free < machine.cores else None),
        sleeps=("list names", "open", "read", "ReadFile"),
    )  # fmt: skip


def _held(run: Simulation, works: _Works) -> int:
    """Return how many photos were decoded, or in batches, and not yet trained on, at most."""
    decoded = [row[3] for work in works.all if work.names == ["DecodeJpeg"] for row in work.rows]
    each = sum(run.taken[0][0])
    batched = [end for _, end in run.batches for _ in range(each)]
    taken = [(got, -1) for batches, _, got, _, _ in run.taken for _ in range(sum(batches))]

    def most(made: list[float]) -> int:
        return int(max(np.cumsum([change for _, change in sorted([*((at, 1) for at in made), *taken])]), default=0))

    return max(most(decoded), most(batched))
