"""From a simulated run to a `Trace` with the threads, names and categories of a recorded one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from labkit.simulate.assumptions import assumptions
from labkit.simulate.costs import Costs, Knobs, whole
from labkit.simulate.machine import SLEEP
from labkit.simulate.pipeline import AHEAD, Draws, Pipeline, Segment
from labkit.timeline.run import Accelerator, Host, Run
from labkit.timeline.trace import CATEGORIES, Thread, Trace

#: Threads of the trace that are there whatever the knobs are.
IN_CONSUMER = "tf.data in the consumer's thread"

_CODE = {category: np.int8(code) for code, category in enumerate(CATEGORIES)}


class _Table:
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

    def trace(self, window: tuple[int, int], **facts: Any) -> Trace:
        """Return the trace of a window; spans are cut to it as `Trace.slice` does."""
        types = (np.int64, np.int64, np.int32, np.int32, np.int8, np.int32)
        columns = [
            np.concatenate([row[i] for row in self.rows]).astype(dtype, copy=False) for i, dtype in enumerate(types)
        ]
        first, last = window
        start, end = columns[0], columns[0] + columns[1]
        inside = np.flatnonzero((start < last) & ((end > first) | (start >= first)))
        start = np.maximum(start[inside], first)
        length = np.minimum(end[inside], last) - start
        order = np.lexsort((-length, start))
        columns = [start[order], length[order], *(column[inside[order]] for column in columns[2:])]
        run = Run("modelled", window_ns=window, **facts)
        return Trace(*columns, names=tuple(self.names), threads=tuple(self.threads), run=run)


def category(name: str) -> str:
    """Return the category of a stage or of a map operation, by its name, as the recorder does."""
    lower = name.lower()
    if lower == "open" or lower.startswith("read"):
        return "read"
    if lower == OVERHEAD:
        return "iterator"
    return next((word for word in ("decode", "resize") if lower.startswith(word)), "map")


#: The map operation that stands for tf.data's own work on an image; it is shown as bookkeeping, not as work.
OVERHEAD = "tf.data"


def simulated(
    costs: Costs, knobs: Knobs, steps: int, warmup: int, seed: int, name: str | None, labels: dict[str, str]
) -> Trace:
    """Run the pipeline and return its trace, the window after `warmup` steps; see `labkit.simulate.run`."""
    steps, warmup, seed = whole("steps", steps, 1), whole("warmup", warmup, 0), whole("seed", seed, 0)
    every = steps + warmup
    # What runs ahead of the consumer at the end must find images, too.
    ahead = knobs.map_calls + (AHEAD + 1) * knobs.cycle_length
    batches = every * knobs.accelerators + knobs.prefetch + 2 + -(-ahead // knobs.batch_size)
    draws = Draws(costs, knobs, batches * knobs.batch_size, batches, seed)
    run = Pipeline(knobs, draws, every).run()
    table = _Table()
    _consumer(table, run, warmup)
    nodes = _maker(table, run)
    for segment in run.segments:
        _operations(table, run, segment)
    window = round(run.wait_start[warmup]), round(run.train_end[-1])
    each = knobs.batch_size * knobs.accelerators
    return table.trace(
        window,
        name=name,
        accelerator=Accelerator(
            name=labels["accelerator"],
            kind="modelled",
            source=labels["source"],
            describe=f"modelled {labels['accelerator']}: {_step_words(costs, knobs)} (source: {labels['source']})",
        ),
        storage="modelled" if knobs.latency_ms or knobs.bandwidth_mb_s else None,
        batch_size=each,
        steps=steps,
        warmup=warmup,
        images=steps * each,
        first_batch_ns=round(run.wait_end[0]),
        graph=nodes,
        host=Host(knobs.cores),
        costs_ms=costs.mean_ms,
        knobs=asdict(knobs),
        sleeps=costs.sleeps,
        seed=seed,
        assumptions=assumptions(costs, knobs),
    )


def _step_words(costs: Costs, knobs: Knobs) -> str:
    ms = costs.mean_ms["train"] / knobs.accelerator_speed
    several = f", {knobs.accelerators} in step" if knobs.accelerators > 1 else ""
    return f"{ms:.3g} ms per step of {knobs.batch_size} images{several}"


def _consumer(table: _Table, run: Pipeline, warmup: int) -> None:
    """Add waits, copies and train steps; a single accelerator is the train steps themselves."""
    consumer, link = Thread("consumer", "consumer"), Thread("copy to the accelerator", "device")
    step = np.arange(len(run.train_end)) - warmup
    step = np.where(step >= 0, step, -1)
    table.add(run.wait_start, run.wait_end, consumer, "wait for batch", "wait", step)
    table.add(run.train_start, run.train_end, consumer, "train step", "train", step)
    if run.draws.copy_ns.any():
        table.add(run.wait_end, run.train_start, link, "copy", "copy", step)
    if run.knobs.accelerators > 1:
        each = run.draws.train_ns[: len(step) * run.knobs.accelerators].reshape(len(step), -1)
        for number in range(run.knobs.accelerators):
            end = np.array(run.train_start) + each[:, number]
            thread = Thread(f"accelerator {number + 1}", "device")
            table.add(run.train_start, end, thread, "train", "kernel", step)


def _maker(table: _Table, run: Pipeline) -> list[str]:
    """Add what the thread that makes batches does; return the nodes of the pipeline."""
    knobs = run.knobs
    parallel = "ParallelMapV2" if knobs.map_calls > 1 else "Map"
    batch = "Root::Prefetch::BatchV2" if knobs.prefetch else "Root::BatchV2"
    element = f"{batch}::{parallel}"
    nodes = ["Root", *(["Root::Prefetch"] if knobs.prefetch else []), batch, element]
    if knobs.cycle_length > 1:
        nodes.append(f"{element}::ParallelInterleaveV4")
    maker = _making(knobs)
    # A batch that is still in the making when the run ends is left out; the images in it are not.
    first = run.element_start[:: knobs.batch_size][: len(run.batch_end)]
    table.add(first, run.batch_end, maker, f"Iterator::{batch}", "batch")
    asked = run.element_start[: len(run.element_end)]
    table.add(asked, run.element_end, maker, f"Iterator::{element}", "iterator")
    return nodes


def _making(knobs: Knobs) -> Thread:
    return Thread("tf.data Prefetch" if knobs.prefetch else IN_CONSUMER, "pipeline")


def _operations(table: _Table, run: Pipeline, segment: Segment) -> None:
    """Add a span for each stage and operation of each image in a segment, as far as the run got."""
    start, end = np.array(segment.start), np.array(segment.end)
    rows = np.flatnonzero(start >= 0)
    if not len(rows):
        return
    # What is still going on when the run ends has a span as far as it got.
    knobs, start, end = run.knobs, start[rows], np.where(end < 0, run.machine.now, end)[rows]
    fetched = knobs.cycle_length > 1 and any(segment is s for s in run.draws.fetch)
    threads, label = (run.reader, "tf.data interleave") if fetched else (run.worker, "tf.data worker")
    if fetched or knobs.map_calls > 1:
        number = np.array(threads)[rows]
        numbers = [table.number(Thread(f"{label} {n + 1}", "pipeline")) for n in range(number.max() + 1)]
        thread = np.array(numbers)[number]
    else:
        thread = table.number(_making(knobs))
    parts = segment.parts_ns[:, rows]
    done, begin = np.zeros(len(rows)), start
    for i, name in enumerate(segment.names):
        done = done + parts[i]
        if i == len(segment.names) - 1:
            until = end
        else:
            reached = start + done if segment.kind == SLEEP else run.machine.when(start, done)
            until = np.minimum(np.maximum(reached, begin), end)
        some = (parts[i] > 0) & ((until > begin) | (end < run.machine.now))
        table.add(begin[some], until[some], np.broadcast_to(thread, some.shape)[some], name, category(name))
        begin = until
