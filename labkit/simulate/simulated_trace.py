"""From a simulated run to a `Trace` with the threads, names and categories of a recorded one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from labkit.common.numbers import whole
from labkit.simulate.assumptions import assumptions
from labkit.simulate.clock import SLEEP
from labkit.simulate.costs import Costs, Knobs
from labkit.simulate.draws import DrawnCosts
from labkit.simulate.iterators import AHEAD, IN_CONSUMER, PREFETCH
from labkit.simulate.workers import Simulation, Work
from labkit.timeline.run import Accelerator, Host, Run
from labkit.timeline.trace import CATEGORIES, Thread, Trace

#: The map operation that stands for tf.data's own work on an image; it is shown as bookkeeping, not as work.
OVERHEAD = "tf.data"

_CODE = {category: np.int8(code) for code, category in enumerate(CATEGORIES)}


class SpanTable:
    """Columns of a trace in the making; parents are added before their children, so that ties stay in order."""

    def __init__(self) -> None:
        self.rows: list[tuple[np.ndarray, ...]] = []
        self.names: dict[str, int] = {}
        self.threads: dict[Thread, int] = {}

    def add(self, start: Any, end: Any, thread: Any, name: str, category: str, step: Any = -1) -> None:
        """Add spans; times in float ns, `thread` a Thread or an array of numbers of threads."""
        start = np.asarray(start, np.float64)
        if isinstance(thread, Thread):
            thread = self.number(thread)
        whole = np.rint(start).astype(np.int64)
        length = np.rint(np.asarray(end, np.float64)).astype(np.int64) - whole
        row = self.names.setdefault(name, len(self.names)), thread, _CODE[category], step
        self.rows.append((whole, length, *(np.broadcast_to(value, whole.shape) for value in row)))

    def number(self, thread: Thread) -> int:
        """Return the number of a thread."""
        return self.threads.setdefault(thread, len(self.threads))

    def consumer(self, run: Simulation, warmup: int = 0) -> None:
        """Add what the consumer did in each step."""
        _, asked, got, trained, end = zip(*run.taken, strict=True)
        consumer, step = Thread("consumer", "consumer"), _numbered(run, warmup)
        self.add(asked, got, consumer, "wait for batch", "wait", step)
        self.add(trained, end, consumer, "train step", "train", step)
        if trained != got:
            self.add(got, trained, Thread("copy to the accelerator", "device"), "copy", "copy", step)

    def work(self, run: Simulation, works: list[Work]) -> None:
        """Add a span for each element and name of some work, as far as the run got."""
        for work in (work for work in works if work.rows):
            number, element, start, end = map(np.array, zip(*work.rows, strict=True))
            used = np.unique(number).tolist()
            numbers = {known: self.number(Thread(run.threads[known], "pipeline")) for known in used}
            thread = np.array([numbers[known] for known in number.tolist()])
            parts = np.ones((1, len(start))) if work.parts_ns is None else work.parts_ns[:, element]
            done, begin = np.zeros(len(start)), start
            for i, name in enumerate(work.names, 1):
                part = parts[i - 1]
                done = done + part
                if i < len(work.names):
                    reached = start + done if work.kind == SLEEP else run.clock.when(start, done)
                    until = np.minimum(np.maximum(reached, begin), end)
                else:
                    until = end
                some = (part > 0) & ((until > begin) | (end < run.clock.now))
                self.add(begin[some], until[some], thread[some], name, category(name))
                begin = until

    def trace(self, window: tuple[int, int], **facts: Any) -> Trace:
        """Return the trace of a window, first and last ns; spans are cut to it."""
        # A row holds what a trace does, in its order: start, length, name, thread, category, step.
        columns = map(np.concatenate, zip(*self.rows, strict=True))
        run = Run("modelled", window_ns=window, **facts)
        return Trace.of_columns(columns, self.names, self.threads, run).slice(*window)


def category(name: str) -> str:
    """Return the category of a stage or of a map operation, by its name, as the recorder does."""
    lower = name.lower()
    if lower == "open" or lower.startswith(("read", "fetch")):
        return "read"
    if lower == OVERHEAD:
        return "iterator"
    return next((word for word in ("decode", "resize") if lower.startswith(word)), "map")


def simulated(
    costs: Costs, knobs: Knobs, steps: int, warmup: int, seed: int, name: str | None, labels: dict[str, str],
    noun: str = "image",
) -> Trace:  # fmt: skip
    """Run the pipeline and return its trace, the window after `warmup` steps; see `labkit.simulate.run`."""
    steps, warmup, seed = whole("steps", steps, 1), whole("warmup", warmup, 0), whole("seed", seed, 0)
    every, each = steps + warmup, knobs.batch_size * knobs.accelerators
    # Threads that run ahead of the consumer need images at the end, too.
    ahead = knobs.map_calls * (knobs.batch_size if knobs.map_batches else 1) + (AHEAD + 1) * knobs.cycle_length
    batches = every * knobs.accelerators + knobs.prefetch + 2 + -(-ahead // knobs.batch_size)
    draws = DrawnCosts(costs, knobs, batches * knobs.batch_size, batches, seed)
    run, table, nodes = draws.run(every), SpanTable(), _nodes(knobs)
    table.consumer(run, warmup)
    if knobs.accelerators > 1:
        _accelerators(table, run, draws, warmup)
    maker = Thread(PREFETCH if knobs.prefetch else IN_CONSUMER, "pipeline")
    table.add(*zip(*run.batches, strict=True), maker, f"Iterator::{nodes['batch']}", "batch")
    table.add(*zip(*run.asked, strict=True), maker, f"Iterator::{nodes['element']}", "iterator")
    table.work(run, draws.mapped)
    several = f", {knobs.accelerators} in step" if knobs.accelerators > 1 else ""
    step = f"{costs.mean_ms['train']:.3g} ms per step of {knobs.batch_size} {noun}s{several}"
    described = f"modelled {labels['name']}: {step} (source: {labels['source']})"
    return table.trace(
        (round(run.taken[warmup][1]), round(run.taken[-1][-1])),
        name=name,
        accelerator=Accelerator(**labels, kind="modelled", describe=described),
        storage="modelled" if knobs.latency_ms or knobs.bandwidth_mb_s else None,
        batch_size=each,
        steps=steps,
        warmup=warmup,
        images=steps * each,
        noun=noun,
        first_batch_ns=round(run.taken[0][2]),
        graph=list(nodes.values()),
        host=Host(knobs.cores),
        costs_ms=costs.mean_ms,
        knobs=asdict(knobs),
        sleeps=costs.sleeps,
        seed=seed,
        assumptions=assumptions(costs, knobs, noun),
    )


def _nodes(knobs: Knobs) -> dict[str, str]:
    """Return the names of the pipeline's nodes as a recording has them."""
    mapped = "ParallelMapV2" if knobs.map_calls > 1 else "Map"
    found = {"root": "Root"} | ({"prefetch": "Root::Prefetch"} if knobs.prefetch else {})
    path = [*found.values()][-1]
    if knobs.map_batches:
        found["map"] = path = f"{path}::{mapped}"
    found["batch"] = f"{path}::BatchV2"
    found["element"] = element = f"{found['batch']}::{'Map' if knobs.map_batches else mapped}"
    return found | ({"files": f"{element}::ParallelInterleaveV4"} if knobs.cycle_length > 1 else {})


def _accelerators(table: SpanTable, run: Simulation, draws: DrawnCosts, warmup: int) -> None:
    """Add a lane for each of several accelerators; a single one is the train steps themselves."""
    many, trained = draws.knobs.accelerators, np.array([row[3] for row in run.taken])
    each = draws.train_ns[: len(trained) * many].reshape(len(trained), -1)
    for number in range(many):
        thread = Thread(f"accelerator {number + 1}", "device")
        table.add(trained, trained + each[:, number], thread, "train", "kernel", _numbered(run, warmup))


def _numbered(run: Simulation, warmup: int) -> np.ndarray:
    """Return the number of each train step; -1 for those before the window."""
    step = np.arange(len(run.taken)) - warmup
    return np.where(step >= 0, step, -1)
