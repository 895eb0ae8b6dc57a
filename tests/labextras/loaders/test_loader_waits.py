"""Loaders that wait at a queue, for a core, or for the interpreter: each with its right cause."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from crowd import starved
from uncrowded import uncrowded

import labkit
from labkit.recording.recorder import RecordingError
from labkit.timeline.causes.thresholds import LEAST

PHOTO = np.zeros((64, 64, 3), np.uint8)


def compute(rounds):
    return np.full((8, 8, 3), sum(i * i for i in range(rounds)) % 255, np.uint8)


class OneAhead:
    """A thread makes batches, and puts them into a queue of one."""

    def __init__(self, make, kind="Queue"):
        self.make, self.kind = make, kind

    def __iter__(self):
        over = threading.Event()
        ready = queue.Queue(1) if self.kind == "Queue" else queue.SimpleQueue()

        def produce():
            while not over.is_set():
                ready.put(self.make())

        threading.Thread(target=produce, daemon=True).start()
        try:
            while True:
                yield ready.get()
        finally:
            over.set()
            while not ready.empty():
                ready.get()


def sleeps_and_stacks():
    time.sleep(0.02)
    return np.stack([PHOTO] * 8)


def sleeps():
    time.sleep(0.02)
    return PHOTO[None]


class Orders:
    """The consumer orders each batch in a queue of one; who takes the orders is not seen, and is slow."""

    def __iter__(self):
        orders = queue.Queue(1)

        def work():
            while orders.get() is not None:
                time.sleep(0.02)

        threading.Thread(target=work, daemon=True).start()
        try:
            for number in itertools.count():
                orders.put(number)
                yield PHOTO[None]
        finally:
            orders.put(None)


class Pooled:
    """Batches of what threads of a pool make, in calls of more than the 5 ms after which another one has its turn."""

    def __init__(self, work):
        self.work = work

    def __iter__(self):
        with ThreadPoolExecutor(4) as pool:
            while True:
                yield np.stack(list(pool.map(self.work, [400_000] * 8)))


class Processes:
    """Batches of what two processes make, in calls that last for several turns at a core."""

    def __iter__(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            made = pool.imap(compute, [400_000] * 1024)
            while True:
                yield np.stack([next(made) for _ in range(2)])


def recorded(loader, step_ms=5, steps=10):
    accelerator = labkit.accelerators.modelled(step_ms=step_ms)
    return labkit.Timeline(uncrowded(labkit.record(loader, accelerator, steps=steps, warmup=3, progress=False)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("loader", "cause"),
    [
        (lambda: OneAhead(sleeps), "queue empty"),  # nothing of its producer is seen
        (lambda: OneAhead(sleeps_and_stacks, kind="SimpleQueue"), "queue empty"),  # here that it rests, in a queue of C
        (Orders, "queue full"),
    ],
)
def test_a_queue_of_which_nobody_is_seen_at_the_other_end_is_what_the_gaps_wait_for(loader, cause):
    timeline = recorded(loader())
    shares = timeline.stalls.shares
    assert timeline.stalls.cause is None, shares
    # Where threads hardly have a core, batches are handed over late, and a cause may be hidden: no other one is named.
    others = {"framework", "unknown"} | ({"core wait"} if starved(timeline.trace) else set())
    named = {name for name, share in shares.items() if share >= LEAST and name not in others}
    assert named == {cause} or (starved(timeline.trace) and not named), shares
    if named:
        longest = max(timeline.causes, key=lambda one: one.parts.get(cause, 0))
        assert longest.kind == cause
        assert "queue" in str(longest)


@pytest.mark.long
def test_who_works_at_the_other_end_of_a_queue_is_the_cause():
    timeline = recorded(OneAhead(lambda: np.stack([np.zeros((1024, 1024, 3), np.uint8)] * 16)), step_ms=1)
    shares = timeline.stalls.shares
    assert timeline.stalls.cause == "batch", shares
    assert timeline.stalls.blame == "numpy.concatenate"  # of which NumPy makes a stack
    assert shares.get("queue empty", 0) < shares["batch"]


@pytest.mark.alone
def test_threads_of_pure_python_wait_for_the_interpreter():
    """Of four that take turns, three wait; where other programs hold cores, they wait for these first."""
    timeline = recorded(Pooled(compute), steps=8)
    shares = timeline.stalls.shares
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("prep", "compute")
    if starved(timeline.trace):
        assert shares["core wait"] > 0.1, shares
    else:
        assert shares["GIL wait"] > shares["prep"], (shares, timeline.run.host.others)
        assert "processes in place of threads" in timeline.stalls.advice
        assert any("waiting for the interpreter (GIL), compute in thread" in str(one) for one in timeline.causes)


@pytest.mark.long
def test_processes_that_share_a_core_wait_for_it():
    """Two compute on one core: each of them is ready without it for half of the time or more."""
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        timeline = recorded(Processes(), steps=60)
    finally:
        os.sched_setaffinity(0, cores)
    taken = Counter({cause: ns for (cause, op), ns in timeline.causes.by_op.items() if timeline.names[op] == "compute"})
    # As long, but for what it is off by since one call in eight was asked.
    assert taken["core wait"] > 0.75 * taken["prep"] > 0, (taken, timeline.run.op_times)
    assert (timeline.stalls.cause, timeline.stalls.blame) == ("prep", "compute")
    assert any("core" in str(one) and "compute in worker" in str(one) for one in timeline.causes)


@pytest.mark.long
def test_a_process_that_has_ended_without_work_hides_no_error():
    def fails():
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        process.join()
        raise ValueError("no photo")
        yield PHOTO[None]

    with pytest.raises(RecordingError, match="no photo"):
        recorded(fails())
